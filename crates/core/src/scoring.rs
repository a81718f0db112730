//! What kube-scheduler would make of a plan if it were left to its own way of placing pods.
//!
//! Its filters are the plan's own rules, but of the nodes that pass it prefers the emptiest and the most evenly
//! used. A plan that fills nodes to the brim can so leave a pod without a place, although there is one for
//! each. Here the pods go one by one, the highest priority first, to the node that scores best by the default
//! weights of `NodeResourcesFit` (LeastAllocated) and `NodeResourcesBalancedAllocation`. Preferences that
//! only some pods have are left out: they move pods among nodes that pass, and are no reason to strand one.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::apply::apply;
use crate::class;
use crate::host::HostOrigin;
use crate::market::{Amounts, Dimensions};
use crate::pack::Packer;
use crate::plan::Plan;
use crate::pod::{PodOrigin, PodPhase};
use crate::provision::{ClassOrder, Prepared};
use crate::snapshot::{Policy, SchedulerPolicy, Snapshot};
use crate::topology::{HostId, Place};
use crate::units::Price;

/// How many nodes all pods together may be held against: beyond it a simulation takes too long to be waited
/// for.
const PAIRS_MAX: usize = 20_000_000;

/// Lets the scheduler place what the plan places, on the nodes that there are once the plan has been carried
/// out: which pods would find no place. `None` where there are too many pods and nodes to try it, or nobody
/// asked.
pub(crate) fn may_strand(snapshot: &Snapshot, policy: &Policy, plan: &Plan) -> Option<Vec<usize>> {
    if policy.scheduler == SchedulerPolicy::Ignored || is_too_much(snapshot, plan) {
        return None;
    }
    let bound = bound_pods(snapshot, plan);
    let after = before_scheduling(snapshot, plan, &bound);
    let prepared = Prepared::new(&after, policy, &class::pending(&after));
    let mut packer = prepared.packer(ClassOrder::ByShape);
    let stranded = simulate(&mut packer, &prepared.dimensions, Turns::AsTheyCame);
    let mut pods: Vec<usize> = stranded
        .into_iter()
        .filter_map(|pod| bound.get(&(&*after.pods[pod].namespace, &*after.pods[pod].name)).copied())
        .collect();
    pods.sort_unstable();
    Some(pods)
}

/// What the cluster costs once the plan has been carried out and the scheduler has placed its pods, in the order in which
/// they move ([`crate::turns`]), and nodes have been bought for those that it left without a place; with how many still
/// have none. `None` where there are too many pods and nodes to try it.
pub(crate) fn outcome(snapshot: &Snapshot, policy: &Policy, plan: &Plan) -> Option<(u32, Price)> {
    if is_too_much(snapshot, plan) {
        return None;
    }
    let after = before_scheduling(snapshot, plan, &bound_pods(snapshot, plan));
    let prepared = Prepared::new(&after, policy, &class::pending(&after));
    let mut packer = prepared.packer(ClassOrder::ByShape);
    simulate(&mut packer, &prepared.dimensions, Turns::AsTheyMove);
    packer.pack();
    let nodes = after.nodes.iter().filter_map(|node| after.cost_of(node)).fold(Price::ZERO, Price::plus);
    let bought = (0..packer.hosts.len()).filter_map(|host| packer.price_of_planned(host));
    Some((packer.left.iter().sum(), bought.fold(nodes, Price::plus)))
}

fn is_too_much(snapshot: &Snapshot, plan: &Plan) -> bool {
    let nodes = snapshot.nodes.len() + plan.launches.len();
    plan.binds.len().saturating_mul(nodes) > PAIRS_MAX
}

type BoundPods<'s> = BTreeMap<(&'s str, &'s str), usize>;

/// The pods that the plan places, by namespace and name.
fn bound_pods<'s>(snapshot: &'s Snapshot, plan: &Plan) -> BoundPods<'s> {
    plan.binds
        .iter()
        .map(|bind| (bind.pod, &snapshot.pods[bind.pod]))
        .filter(|(_, pod)| pod.origin == PodOrigin::Object)
        .map(|(index, pod)| ((&*pod.namespace, &*pod.name), index))
        .collect()
}

/// The nodes that there are once the plan has been carried out, and the pods that it places, without a place.
fn before_scheduling(snapshot: &Snapshot, plan: &Plan, bound: &BoundPods<'_>) -> Snapshot {
    let mut after = apply(snapshot, plan);
    after.pods.retain_mut(|pod| {
        if let Some(index) = bound.get(&(&*pod.namespace, &*pod.name)) {
            // What waits already need not be made again.
            pod.disruption.returns_late &= snapshot.pods[*index].node.is_some();
            pod.node = None;
            pod.phase = PodPhase::Pending;
            return true;
        }
        pod.node.is_some()
    });
    after
}

/// In which order pods of the same priority come to the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turns {
    AsTheyCame,
    /// Those that are made again only once they are gone, and then the large ones before the small ones: who comes later
    /// waits for them ([`crate::turns`]).
    AsTheyMove,
}

/// Places the pods that wait as the scheduler would; those that find no place.
fn simulate(packer: &mut Packer<'_>, dimensions: &Dimensions, turns: Turns) -> Vec<usize> {
    let classes = packer.classes;
    let nodes = packer.hosts.iter().filter_map(|host| match host.origin {
        HostOrigin::Node(node) => Some(&packer.snapshot().nodes[node]),
        HostOrigin::Planned { .. } => None,
    });
    let totals: Vec<Amounts> = nodes.map(|node| dimensions.amounts(&node.allocatable)).collect();
    let mut waiting: Vec<(i32, usize, usize)> = Vec::new();
    for (index, class) in classes.all.iter().enumerate() {
        waiting.extend(class.pods.iter().map(|pod| (class.priority, *pod, index)));
    }
    let rank = |class: usize| packer.order.iter().position(|known| *known == class);
    let ranks: Vec<Option<usize>> = (0..classes.all.len()).map(rank).collect();
    let turn = |pod: usize, class: usize| match turns {
        Turns::AsTheyCame => (false, None),
        Turns::AsTheyMove => (!packer.snapshot().pods[pod].disruption.returns_late, ranks[class]),
    };
    waiting.sort_by_key(|(priority, pod, class)| (Reverse(*priority), turn(*pod, *class), *pod));
    // A pod that finds no place now may find one once a pod that it wants to be near is there.
    loop {
        let before = waiting.len();
        waiting.retain(|(_, _, class)| match best_host(packer, &totals, *class) {
            Some(host) => {
                let level = classes.all[*class].levels.len() - 1;
                packer.place_up_to(1, *class, level, host) == 0
            }
            None => true,
        });
        if waiting.is_empty() || waiting.len() == before {
            return waiting.into_iter().map(|(_, pod, _)| pod).collect();
        }
    }
}

/// The host that the scheduler would choose; of equals the first.
fn best_host(packer: &Packer<'_>, totals: &[Amounts], class_index: usize) -> Option<HostId> {
    let class = &packer.classes.all[class_index];
    let level = class.levels.last()?;
    let mut best: Option<(i64, HostId)> = None;
    for (host_id, host) in packer.hosts.iter().enumerate() {
        if host.room(class) == 0
            || !packer.host_admits(level, host_id)
            || packer.topology.room(&level.rules, &class.appearance, Place::Host(host_id)).is_err()
        {
            continue;
        }
        let score = score(&class.requests, &host.free, &totals[host_id]);
        if best.is_none_or(|(most, _)| score > most) {
            best = Some((score, host_id));
        }
    }
    best.map(|(_, host)| host)
}

/// CPU and memory come first among the dimensions; they are what the default scores look at.
const SCORED: usize = 2;

/// `NodeResourcesFit` and `NodeResourcesBalancedAllocation`, after the pod is there.
fn score(requests: &[i64], free: &[i64], total: &[i64]) -> i64 {
    let scored = |pods: i64| {
        std::array::from_fn::<Share, SCORED, _>(|d| Share {
            used: total[d] - free[d] + pods * requests[d],
            total: total[d],
        })
    };
    least_allocated(&scored(1)) + balanced(&scored(0), &scored(1))
}

/// The most that a score can be.
pub const SCORE_MAX: i64 = 100;

/// How much of a resource of a node is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    pub used: i64,
    pub total: i64,
}

/// The emptier the better: the share that is left of each resource that the node has, on average.
pub fn least_allocated(shares: &[Share]) -> i64 {
    let left = |share: &Share| {
        (share.total > 0).then(|| (share.total - share.used).max(0) * SCORE_MAX / share.total)
    };
    let (sum, count) =
        shares.iter().filter_map(left).fold((0, 0), |(sum, count), left| (sum + left, count + 1));
    if count == 0 { 0 } else { sum / count }
}

/// The more evenly the pod makes the node used, the better: from half the most, where it could not make it less
/// even, to the most.
pub fn balanced(before: &[Share; 2], after: &[Share; 2]) -> i64 {
    let half = SCORE_MAX / 2;
    half + (half + evenness(after) - evenness(before)) / 2
}

/// Of two resources the standard deviation of their use is half their distance.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "kube-scheduler reckons so, and from 50 to 100 it comes out"
)]
fn evenness(shares: &[Share; 2]) -> i64 {
    let fraction = |share: &Share| (share.used as f64 / share.total as f64).min(1.0);
    let [first, second] = shares;
    let deviation = if first.total > 0 && second.total > 0 {
        ((fraction(first) - fraction(second)) / 2.0).abs()
    } else {
        0.0
    };
    ((1.0 - deviation) * SCORE_MAX as f64) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_and_evenly_used_nodes_score_best() {
        let total = [1000, 1000];
        for (better, worse, why) in [
            ([1000, 1000], [500, 500], "the emptier"),
            ([800, 700], [500, 600], "the emptier, where both are as even"),
        ] {
            let requests = [100, 100];
            assert!(score(&requests, &better, &total) > score(&requests, &worse, &total), "{why}");
        }
        assert!(
            score(&[300, 0], &[900, 400], &total) > score(&[300, 0], &[400, 900], &total),
            "the more even"
        );
        assert_eq!(score(&[0, 0], &[1000, 1000], &total), 175);
        assert_eq!(score(&[1000, 1000], &[1000, 1000], &total), 75);
    }

    #[test]
    fn scores_are_kube_schedulers() {
        let shares =
            |used: [i64; 2], total: [i64; 2]| [0, 1].map(|d| Share { used: used[d], total: total[d] });
        for (before, after, total, least, even) in [
            ([0, 0], [500, 500], [1000, 1000], 50, 75),
            ([0, 0], [500, 0], [1000, 1000], 75, 62),
            ([500, 0], [500, 500], [1000, 1000], 50, 87),
            ([900, 100], [1200, 100], [1000, 1000], 45, 72),
            ([0, 0], [500, 500], [1000, 0], 50, 75),
            ([0, 0], [500, 500], [0, 0], 0, 75),
        ] {
            assert_eq!(least_allocated(&shares(after, total)), least, "{after:?} of {total:?}");
            assert_eq!(
                balanced(&shares(before, total), &shares(after, total)),
                even,
                "{before:?} to {after:?} of {total:?}"
            );
        }
    }
}
