//! The steps of a rollout: which set grows and which shrinks.

use super::fleet::{Fleet, Index, Set};

/// What one step has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Changed,
    Stayed,
}

/// New pods as far as there is room, old ones away as far as enough others are available.
pub(super) fn roll(fleet: &mut Fleet) -> Step {
    if resize_new(fleet) == Step::Changed {
        return Step::Changed;
    }
    shrink_old(fleet)
}

fn resize_new(fleet: &mut Fleet) -> Step {
    let Some(new) = &fleet.new else { return Step::Stayed };
    let (size, wanted) = (new.replicas(), fleet.replicas());
    let next = if size > wanted { wanted } else { fleet.new_size() };
    if next == size {
        return Step::Stayed;
    }
    fleet.resize(Index::New, next);
    Step::Changed
}

fn shrink_old(fleet: &mut Fleet) -> Step {
    let old: i64 = fleet.old.iter().map(Set::replicas).sum();
    if old == 0 {
        return Step::Stayed;
    }
    let least = fleet.replicas() - fleet.unavailable();
    let new_missing = fleet.new.as_ref().map_or(0, |new| new.replicas() - new.counted("availableReplicas"));
    let to_spare = fleet.total() - least - new_missing;
    if to_spare <= 0 {
        return Step::Stayed;
    }
    // Those that are of no use go first: they may be the reason why the rollout was started.
    let gone = shrink_each(fleet, to_spare, |set| set.replicas() - set.counted("availableReplicas"));
    let to_spare = fleet.count("availableReplicas") - least;
    let gone = gone + shrink_each(fleet, to_spare, Set::replicas);
    if gone > 0 { Step::Changed } else { Step::Stayed }
}

/// Takes from old sets, the oldest first, as much as each can give; how many that are.
fn shrink_each(fleet: &mut Fleet, most: i64, gives: impl Fn(&Set) -> i64) -> i64 {
    let mut gone = 0;
    for index in 0..fleet.old.len() {
        let Some(set) = fleet.old.get(index) else { break };
        let less = gives(set).min(most - gone).min(set.replicas());
        if less > 0 {
            let size = set.replicas() - less;
            fleet.resize(Index::Old(index), size);
            gone += less;
        }
    }
    gone
}

/// All old ones away at once.
pub(super) fn stop_old(fleet: &mut Fleet) -> Step {
    let mut step = Step::Stayed;
    for index in 0..fleet.old.len() {
        if fleet.old.get(index).is_some_and(|set| set.replicas() > 0) {
            fleet.resize(Index::Old(index), 0);
            step = Step::Changed;
        }
    }
    step
}

/// Whether the deployment has another size than its sets know of.
pub(super) fn is_resized(fleet: &Fleet) -> bool {
    let active = fleet.all().filter(|set| set.replicas() > 0);
    let mut known = active.filter_map(Set::desired);
    known.any(|desired| desired != fleet.replicas())
}

/// Brings the sets to the deployment's size: one set as a whole, several by their shares.
pub(super) fn scale(fleet: &mut Fleet) {
    let wanted = fleet.replicas();
    let active: Vec<Index> = indices(fleet).filter(|index| size(fleet, *index) > 0).collect();
    let whole = match active[..] {
        [] if fleet.new.is_some() => Some(Index::New),
        [] => fleet.old.len().checked_sub(1).map(Index::Old),
        [only] => Some(only),
        _ => None,
    };
    if let Some(whole) = whole {
        if size(fleet, whole) != wanted {
            fleet.resize(whole, wanted);
        }
        return;
    }
    if fleet.new.as_ref().is_some_and(|new| is_saturated(new, wanted)) {
        stop_old(fleet);
        return;
    }
    if fleet.is_rolling() {
        scale_by_share(fleet, active);
    }
}

fn indices(fleet: &Fleet) -> impl Iterator<Item = Index> + use<> {
    let new = fleet.new.as_ref().map(|_| Index::New);
    (0..fleet.old.len()).map(Index::Old).chain(new)
}

fn get(fleet: &Fleet, index: Index) -> Option<&Set> {
    match index {
        Index::New => fleet.new.as_ref(),
        Index::Old(index) => fleet.old.get(index),
    }
}

fn size(fleet: &Fleet, index: Index) -> i64 {
    get(fleet, index).map_or(0, Set::replicas)
}

fn is_saturated(new: &Set, wanted: i64) -> bool {
    new.replicas() == wanted && new.desired() == Some(wanted) && new.counted("availableReplicas") == wanted
}

fn scale_by_share(fleet: &mut Fleet, mut active: Vec<Index>) {
    let total: i64 = active.iter().map(|index| size(fleet, *index)).sum();
    let allowed = if fleet.replicas() > 0 { fleet.replicas() + fleet.surge() } else { 0 };
    let missing = allowed - total;
    // The largest first; of two, the newer one grows first and the older one shrinks first.
    active.sort_by(|one, other| {
        let age = |index: &Index| get(fleet, *index).map(|set| set.age().0.to_owned());
        let by_age = if missing > 0 { age(other).cmp(&age(one)) } else { age(one).cmp(&age(other)) };
        size(fleet, *other).cmp(&size(fleet, *one)).then(by_age)
    });
    let mut added = 0;
    let mut sizes = Vec::new();
    for index in &active {
        let share = get(fleet, *index).map_or(0, |set| share(fleet, set, missing, added));
        added += share;
        sizes.push(size(fleet, *index) + share);
    }
    // What is left over by rounding goes to the largest.
    if let Some(first) = sizes.first_mut() {
        *first = (*first + missing - added).max(0);
    }
    for (index, size) in active.into_iter().zip(sizes) {
        fleet.resize(index, size);
    }
}

/// What a set gets of the pods to be added, or gives of those to go.
fn share(fleet: &Fleet, set: &Set, missing: i64, added: i64) -> i64 {
    if missing == 0 || missing == added {
        return 0;
    }
    let fraction = if fleet.replicas() == 0 {
        -set.replicas()
    } else {
        let known = set.most().filter(|most| *most > 0).unwrap_or_else(|| fleet.count("replicas"));
        if known == 0 {
            return 0;
        }
        let scaled = set.replicas() * (fleet.replicas() + fleet.surge());
        (2 * scaled + known).div_euclid(2 * known) - set.replicas()
    };
    let left = missing - added;
    if missing > 0 { fraction.min(left) } else { fraction.max(left) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::json::{Value, json};

    use super::*;
    use crate::life::deployments::fleet::MOST;

    /// A set: its replicas, and how many of them are available. The last one has the deployment's template.
    fn fleet(replicas: i64, surge: i64, unavailable: i64, most: i64, sets: &[(i64, i64)]) -> Fleet {
        let last = sets.len() - 1;
        let sets: Vec<Arc<Value>> = sets
            .iter()
            .enumerate()
            .map(|(index, (size, available))| {
                Arc::new(json!({
                    "metadata": {
                        "name": format!("s{index}"), "creationTimestamp": format!("2026-01-0{}", index + 1),
                        "annotations": {
                            MOST: most.to_string(), "deployment.kubernetes.io/desired-replicas": "4",
                        },
                    },
                    "spec": {"replicas": size, "template": {"spec": last - index}},
                    "status": {"replicas": size, "availableReplicas": available},
                }))
            })
            .collect();
        let deployment = json!({"spec": {
            "replicas": replicas, "template": {"spec": 0}, "strategy": {
                "type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable},
            },
        }});
        Fleet::of(deployment, &sets)
    }

    fn sizes(fleet: &Fleet) -> Vec<i64> {
        fleet.all().map(Set::replicas).collect()
    }

    #[test]
    fn a_rollout_keeps_within_its_bounds() {
        for (surge, unavailable, sets, expected) in [
            // There is room for one more.
            (1, 0, vec![(4, 4), (0, 0)], vec![4, 1]),
            (0, 1, vec![(4, 4), (0, 0)], vec![3, 0]),
            (2, 2, vec![(4, 4), (0, 0)], vec![4, 2]),
            // The new one is not available yet.
            (1, 0, vec![(4, 4), (1, 0)], vec![4, 1]),
            (1, 0, vec![(4, 4), (1, 1)], vec![3, 1]),
            (1, 1, vec![(4, 4), (1, 0)], vec![3, 1]),
            // Old ones that do not work go first, from whichever set.
            (1, 0, vec![(2, 2), (2, 0), (1, 1)], vec![2, 1, 1]),
            (1, 1, vec![(4, 0), (1, 0)], vec![3, 1]),
            (2, 1, vec![(1, 1), (2, 2), (3, 3)], vec![0, 0, 3]),
            // A new one that is too large shrinks.
            (1, 1, vec![(0, 0), (6, 6)], vec![0, 4]),
            (1, 1, vec![(0, 0), (4, 4)], vec![0, 4]),
        ] {
            let mut fleet = fleet(4, surge, unavailable, 4 + surge, &sets);
            let before = sizes(&fleet);
            let step = roll(&mut fleet);
            assert_eq!(sizes(&fleet), expected, "{surge} {unavailable} {sets:?}");
            assert_eq!(step == Step::Changed, before != expected);
        }
    }

    #[test]
    fn sizes_are_shared_out() {
        for (replicas, surge, most, sets, expected) in [
            (6, 1, 5, vec![(4, 4)], vec![6]),
            (0, 1, 5, vec![(4, 4)], vec![0]),
            (6, 1, 5, vec![(0, 0), (0, 0)], vec![0, 6]),
            // In the middle of a rollout.
            (8, 2, 5, vec![(3, 3), (2, 1)], vec![6, 4]),
            (20, 5, 13, vec![(8, 8), (5, 2)], vec![15, 10]),
            (2, 0, 5, vec![(3, 3), (2, 1)], vec![1, 1]),
            (0, 1, 5, vec![(3, 3), (2, 1)], vec![0, 0]),
            // Only the new one counts once it is complete.
            (4, 1, 5, vec![(1, 1), (4, 4)], vec![0, 4]),
        ] {
            let mut fleet = fleet(replicas, surge, 0, most, &sets);
            scale(&mut fleet);
            assert_eq!(sizes(&fleet), expected, "{replicas} {surge} {sets:?}");
        }
        assert!(is_resized(&fleet(5, 1, 0, 5, &[(4, 4)])));
        assert!(!is_resized(&fleet(4, 1, 0, 5, &[(4, 4)])));
        assert!(!is_resized(&fleet(5, 1, 0, 5, &[(0, 0)])));
    }

    #[test]
    fn all_old_pods_are_stopped_at_once() {
        let mut fleet = fleet(4, 0, 0, 4, &[(3, 3), (0, 0), (1, 1), (0, 0)]);
        assert_eq!(stop_old(&mut fleet), Step::Changed);
        assert_eq!(sizes(&fleet), [0, 0, 0, 0]);
        assert_eq!(
            fleet.said,
            ["Scaled down replica set s0 from 3 to 0", "Scaled down replica set s2 from 1 to 0"]
        );
        assert_eq!(stop_old(&mut fleet), Step::Stayed);
    }
}
