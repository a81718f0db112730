//! The most valuable mix of pods that one machine holds, and a proof of how much more there could be.
//!
//! Branch and bound over how often each shape is taken, best value for its weight first. The weights of
//! the resources are chosen so that the continuous relaxation is as tight as it gets; what a branch could
//! still gain is bounded by that and by each resource on its own.

use smallvec::SmallVec;

use crate::bound::float;
use crate::host::times_fitting;
use crate::market::Amounts;

/// A shape of pods that may be taken, up to `most` times.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<'a> {
    pub(super) requests: &'a [i64],
    pub(super) value: f64,
    pub(super) most: u32,
    /// Which rules about pods of one host it is part of.
    pub(super) rules: &'a [HostRule],
}

/// One rule about how many pods of a group one host may have, as it concerns a shape of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct HostRule {
    pub(super) group: usize,
    /// Its pods are counted by the group.
    pub(super) counted: bool,
    /// A host that has such a pod has at most so many of the group.
    pub(super) most: u32,
}

/// How often each entry is taken, what that is worth, and what no mix exceeds.
#[derive(Clone, Debug)]
pub(super) struct Mix {
    pub(super) times: Vec<u32>,
    pub(super) value: f64,
    pub(super) upper: f64,
}

/// Finds the best mix within `steps` of branching; `upper` holds however early it stops.
pub(super) fn best_mix(room: &[i64], entries: &[Entry<'_>], steps: u32) -> Mix {
    Ranking::of(room, entries).without_dominated(room, entries).mix(room, entries, steps)
}

/// What no mix of the entries exceeds, without a search.
pub(super) fn relaxed_value(room: &[i64], entries: &[Entry<'_>]) -> f64 {
    Ranking::of(room, entries).upper(room, entries)
}

/// The entries that a room could hold, those worth most for their weight first.
///
/// It stays good while there are fewer and fewer of some entries, and is only less good where values change.
#[derive(Clone, Debug)]
pub(super) struct Ranking {
    weights: Weights,
    order: Vec<usize>,
}

impl Ranking {
    pub(super) fn of(room: &[i64], entries: &[Entry<'_>]) -> Self {
        let mut order: Vec<usize> = (0..entries.len())
            .filter(|index| entries[*index].value > 0.0 && entries[*index].most > 0)
            .filter(|index| times_fitting(entries[*index].requests, room) > 0)
            .collect();
        let weights = tightest_weights(room, entries, &order);
        let ratios: Vec<f64> =
            entries.iter().map(|entry| entry.value / weigh(&weights, entry.requests)).collect();
        order.sort_by(|a, b| ratios[*b].total_cmp(&ratios[*a]).then(a.cmp(b)));
        Self { weights, order }
    }

    /// Leaves out entries that another one, smaller and worth as much, can always stand in for: as long as
    /// there are as many of it as now.
    pub(super) fn without_dominated(mut self, room: &[i64], entries: &[Entry<'_>]) -> Self {
        drop_dominated(room, entries, &mut self.order);
        self
    }

    /// What no mix exceeds.
    pub(super) fn upper(&self, room: &[i64], entries: &[Entry<'_>]) -> f64 {
        relaxation(room, entries, &self.order, &self.weights)
    }

    pub(super) fn mix(&self, room: &[i64], entries: &[Entry<'_>], steps: u32) -> Mix {
        let left: Vec<usize> = self.order.iter().copied().filter(|index| entries[*index].most > 0).collect();
        let mut search = Search::new(room, entries, &left, &self.weights, steps);
        search.run();
        let mut times = vec![0; entries.len()];
        for (position, count) in search.best.iter().enumerate() {
            times[left[position]] = *count;
        }
        Mix { times, value: search.best_value, upper: search.upper.max(search.best_value) }
    }
}

type Weights = SmallVec<[f64; 4]>;

fn weigh(weights: &[f64], amounts: &[i64]) -> f64 {
    weights.iter().zip(amounts).map(|(weight, amount)| weight * float((*amount).max(0))).sum()
}

/// The whole room filled with what is worth most for its weight.
fn relaxation(room: &[i64], entries: &[Entry<'_>], usable: &[usize], weights: &[f64]) -> f64 {
    let best = usable
        .iter()
        .map(|index| entries[*index].value / weigh(weights, entries[*index].requests))
        .fold(0.0, f64::max);
    weigh(weights, room) * best
}

/// How far the search for weights goes on each side, in steps of a golden section.
const WEIGHT_STEPS: usize = 18;
const GOLDEN: f64 = 0.618_033_988_749_895;

/// Weights of the resources under which the relaxation is tightest.
///
/// Each resource is weighed by its share of the room. Along the line between two resources the relaxation
/// is unimodal, so a section finds its least; resources beyond the second are mixed in the same way.
fn tightest_weights(room: &[i64], entries: &[Entry<'_>], usable: &[usize]) -> Weights {
    let share = |dimension: usize| if room[dimension] > 0 { 1.0 / float(room[dimension]) } else { 0.0 };
    // A resource that nobody asks for cannot bind.
    let asked: Vec<usize> = (0..room.len())
        .filter(|d| room[*d] > 0 && usable.iter().any(|index| entries[*index].requests[*d] > 0))
        .collect();
    let alone = |dimension: usize| {
        let mut weights: Weights = SmallVec::from_elem(0.0, room.len());
        weights[dimension] = share(dimension);
        weights
    };
    let Some((first, rest)) = asked.split_first() else { return SmallVec::from_elem(1.0, room.len()) };
    // A shape that asks for none of the weighed resources would be worth infinitely much for its weight.
    let mut weights = alone(*first);
    for dimension in rest {
        let other = alone(*dimension);
        let mixed = |part: f64| -> Weights {
            weights.iter().zip(&other).map(|(a, b)| a * (1.0 - part) + b * part).collect()
        };
        let value = |part: f64| relaxation(room, entries, usable, &mixed(part));
        let (mut low, mut high) = (0.0, 1.0);
        let (mut left, mut right) = (high - GOLDEN * (high - low), low + GOLDEN * (high - low));
        let (mut at_left, mut at_right) = (value(left), value(right));
        for _ in 0..WEIGHT_STEPS {
            if at_left <= at_right {
                high = right;
                (right, at_right) = (left, at_left);
                left = high - GOLDEN * (high - low);
                at_left = value(left);
            } else {
                low = left;
                (left, at_left) = (right, at_right);
                right = low + GOLDEN * (high - low);
                at_right = value(right);
            }
        }
        let part = if at_left <= at_right { left } else { right };
        weights = mixed(part);
    }
    weights
}

/// Leaves out shapes that another one, smaller and worth as much, can always stand in for.
fn drop_dominated(room: &[i64], entries: &[Entry<'_>], usable: &mut Vec<usize>) {
    let mut kept: Vec<usize> = Vec::with_capacity(usable.len());
    for index in usable.iter().copied() {
        let entry = &entries[index];
        let dominated = kept.iter().any(|other| {
            let other = &entries[*other];
            other.value >= entry.value
                && other.rules.is_empty()
                && other.most >= times_fitting(other.requests, room)
                && other.requests.iter().zip(entry.requests).all(|(a, b)| a <= b)
        });
        if !dominated {
            kept.push(index);
        }
    }
    *usable = kept;
}

struct Search<'a> {
    entries: Vec<Entry<'a>>,
    /// Worth per weight of the best entry from each position on, under the chosen weights and under each
    /// resource alone.
    ratios: Vec<Weights>,
    weights: &'a [f64],
    steps: u32,
    free: Amounts,
    times: Vec<u32>,
    best: Vec<u32>,
    best_value: f64,
    /// The most that a branch which was not followed could have given.
    upper: f64,
    counts: RuleCounts,
}

/// Relative slack of the bounds against rounding in floating point.
const SLACK: f64 = 1e-9;

impl<'a> Search<'a> {
    fn new(room: &[i64], entries: &[Entry<'a>], usable: &[usize], weights: &'a [f64], steps: u32) -> Self {
        let entries: Vec<Entry<'a>> = usable.iter().map(|index| entries[*index]).collect();
        let mut ratios = vec![SmallVec::from_elem(0.0, room.len() + 1); entries.len() + 1];
        for position in (0..entries.len()).rev() {
            let entry = &entries[position];
            let mut here: Weights = SmallVec::with_capacity(room.len() + 1);
            here.push(entry.value / weigh(weights, entry.requests));
            here.extend(
                entry
                    .requests
                    .iter()
                    .map(|request| if *request > 0 { entry.value / float(*request) } else { f64::INFINITY }),
            );
            for (slot, after) in here.iter_mut().zip(&ratios[position + 1]) {
                *slot = slot.max(*after);
            }
            ratios[position] = here;
        }
        Self {
            times: vec![0; entries.len()],
            best: vec![0; entries.len()],
            entries,
            ratios,
            weights,
            steps,
            free: Amounts::from_slice(room),
            best_value: 0.0,
            upper: 0.0,
            counts: RuleCounts::default(),
        }
    }

    fn run(&mut self) {
        self.branch(0, 0.0);
    }

    /// What entries from `position` on can add at most.
    fn gain_bound(&self, position: usize) -> f64 {
        let ratios = &self.ratios[position];
        let mut bound = ratios[0] * weigh(self.weights, &self.free);
        for (ratio, free) in ratios[1..].iter().zip(&self.free) {
            if ratio.is_finite() {
                bound = bound.min(ratio * float((*free).max(0)));
            }
        }
        bound * (1.0 + SLACK)
    }

    fn branch(&mut self, position: usize, value: f64) {
        if value > self.best_value {
            self.best_value = value;
            self.best.copy_from_slice(&self.times);
        }
        // Entries that no longer fit, or are not worth it, are passed over without branching.
        let mut position = position;
        loop {
            if position == self.entries.len() {
                return;
            }
            let bound = value + self.gain_bound(position);
            if bound <= self.best_value * (1.0 + SLACK) {
                return;
            }
            if self.steps == 0 {
                self.upper = self.upper.max(bound);
                return;
            }
            self.steps -= 1;
            if self.most(position) > 0 {
                break;
            }
            position += 1;
        }
        let entry = self.entries[position];
        let most = self.most(position);
        self.put(position, most, -1);
        for times in (0..=most).rev() {
            self.times[position] = times;
            self.branch(position + 1, value + entry.value * f64::from(times));
            if times > 0 {
                self.put(position, 1, 1);
            }
        }
    }

    fn most(&self, position: usize) -> u32 {
        let entry = &self.entries[position];
        let fitting = times_fitting(entry.requests, &self.free).min(entry.most);
        if fitting == 0 || entry.rules.is_empty() {
            fitting
        } else {
            self.counts.room(entry.rules).min(fitting)
        }
    }

    /// Takes `times` of an entry out of the room (`-1`) or puts them back (`1`).
    fn put(&mut self, position: usize, times: u32, sign: i64) {
        let entry = &self.entries[position];
        let change = i64::from(times) * sign;
        self.free.iter_mut().zip(entry.requests).for_each(|(free, request)| *free += request * change);
        if !entry.rules.is_empty() {
            self.counts.change(entry.rules, -change);
        }
    }
}

/// How many pods of each group are on a host, and how many its pods allow.
#[derive(Clone, Debug, Default)]
pub(super) struct RuleCounts {
    groups: Vec<GroupCount>,
}

#[derive(Clone, Debug)]
struct GroupCount {
    group: usize,
    pods: i64,
    /// Limits that pods on the host impose, with how many pods impose each.
    limits: SmallVec<[(u32, i64); 2]>,
}

impl RuleCounts {
    /// How many more pods with these rules the host takes.
    pub(super) fn room(&self, rules: &[HostRule]) -> u32 {
        let mut room = u32::MAX;
        for rule in rules {
            let known = self.groups.iter().find(|count| count.group == rule.group);
            let pods = known.map_or(0, |count| count.pods);
            let imposed = known.into_iter().flat_map(|count| &count.limits).filter(|(_, pods)| *pods > 0);
            let limit = imposed.map(|(limit, _)| *limit).min().unwrap_or(u32::MAX).min(rule.most);
            let left = (i64::from(limit) - pods).max(0);
            if rule.counted {
                room = room.min(u32::try_from(left).unwrap_or(u32::MAX));
            } else if i64::from(limit) < pods {
                room = 0;
            }
        }
        room
    }

    pub(super) fn change(&mut self, rules: &[HostRule], pods: i64) {
        for rule in rules {
            let position = self.groups.iter().position(|count| count.group == rule.group);
            let position = position.unwrap_or_else(|| {
                self.groups.push(GroupCount { group: rule.group, pods: 0, limits: SmallVec::new() });
                self.groups.len() - 1
            });
            let count = &mut self.groups[position];
            if rule.counted {
                count.pods += pods;
            }
            if rule.most < u32::MAX {
                match count.limits.iter_mut().find(|(limit, _)| *limit == rule.most) {
                    Some((_, by)) => *by += pods,
                    None => count.limits.push((rule.most, pods)),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All mixes, one by one.
    fn exhaustive(room: &[i64], entries: &[Entry<'_>]) -> f64 {
        let Some((first, rest)) = entries.split_first() else { return 0.0 };
        let mut best = 0.0_f64;
        let mut free = room.to_vec();
        for times in 0..=first.most {
            if free.iter().any(|free| *free < 0) {
                break;
            }
            best = best.max(first.value * f64::from(times) + exhaustive(&free, rest));
            free.iter_mut().zip(first.requests).for_each(|(free, request)| *free -= request);
        }
        best
    }

    #[test]
    fn the_best_mix_is_found_and_bounded() {
        let mut state = 7_u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for case in 0..300 {
            let requests: Vec<Vec<i64>> = (0..5)
                .map(|_| vec![1 + i64::try_from(draw(9)).unwrap(), i64::try_from(draw(12)).unwrap(), 1])
                .collect();
            let entries: Vec<Entry<'_>> = requests
                .iter()
                .map(|requests| Entry {
                    requests,
                    value: f64::from(u32::try_from(1 + draw(20)).unwrap()),
                    most: u32::try_from(draw(4)).unwrap(),
                    rules: &[],
                })
                .collect();
            let room = [i64::try_from(8 + draw(20)).unwrap(), i64::try_from(8 + draw(20)).unwrap(), 9];
            let best = exhaustive(&room, &entries);
            for steps in [0, 3, 1_000_000] {
                let mix = best_mix(&room, &entries, steps);
                assert!(
                    mix.upper >= best * (1.0 - 1e-12),
                    "case {case}, {steps} steps: {mix:?} below {best}"
                );
                assert!(
                    mix.value <= best * (1.0 + 1e-12),
                    "case {case}, {steps} steps: {mix:?} above {best}"
                );
                let used = |d: usize| -> i64 {
                    mix.times.iter().zip(&entries).map(|(t, e)| i64::from(*t) * e.requests[d]).sum()
                };
                assert!((0..3).all(|d| used(d) <= room[d]), "case {case}: {mix:?} does not fit");
                if steps == 1_000_000 {
                    assert!((mix.value - best).abs() < 1e-9, "case {case}: {mix:?}, best {best}");
                    assert!((mix.upper - best).abs() < 1e-6 * best.max(1.0), "case {case}: {mix:?}");
                }
            }
            assert!(relaxed_value(&room, &entries) >= best * (1.0 - 1e-12), "case {case}");
        }
    }

    #[test]
    fn rules_about_one_host_are_kept() {
        let apart = [HostRule { group: 0, counted: true, most: 1 }];
        let counted = [HostRule { group: 0, counted: true, most: u32::MAX }];
        let shunning = [HostRule { group: 0, counted: false, most: 0 }];
        let two = [HostRule { group: 0, counted: true, most: 2 }];
        for (rules, expected) in [
            ([&[][..], &[][..]], 10.0),
            // One of the apart, or five of the others.
            ([&apart[..], &counted[..]], 5.0),
            ([&apart[..], &[][..]], 6.0),
            // At most two of both together, the dearer ones first.
            ([&two[..], &counted[..]], 5.0),
            ([&shunning[..], &counted[..]], 10.0),
        ] {
            let entries: Vec<Entry<'_>> = [2.0, 1.0]
                .into_iter()
                .zip(rules)
                .map(|(value, rules)| Entry { requests: &[2], value, most: 9, rules })
                .collect();
            let mix = best_mix(&[10], &entries, 10_000);
            assert!((mix.value - expected).abs() < 1e-9, "{rules:?}: {mix:?}");
        }
    }
}
