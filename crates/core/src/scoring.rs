//! What kube-scheduler would make of a plan if it were left to its own way of placing pods.
//!
//! Its filters are the plan's own rules, but of the nodes that pass it prefers the emptiest and the most evenly
//! used. A plan that fills nodes to the brim can so leave a pod without a place, although there is one for
//! each. Here the pods go one by one, the highest priority first, to the node that scores best by the default
//! weights of `NodeResourcesFit` (LeastAllocated) and `NodeResourcesBalancedAllocation`. Preferences that
//! only some pods have are left out: they move pods among nodes that pass, and are no reason to strand one.

use std::collections::BTreeMap;

use crate::apply::apply;
use crate::class;
use crate::host::HostOrigin;
use crate::market::{Amounts, Dimensions};
use crate::pack::Packer;
use crate::plan::Plan;
use crate::pod::{PodOrigin, PodPhase};
use crate::provision::{ClassOrder, Prepared};
use crate::snapshot::{Policy, Snapshot};
use crate::topology::{HostId, Place};

/// How many nodes all pods together may be held against: beyond it a simulation takes too long to be waited
/// for.
const PAIRS_MAX: usize = 20_000_000;

/// Lets the scheduler place what the plan places, on the nodes that there are once the plan has been carried
/// out: which pods would find no place. `None` where there are too many pods and nodes to try it, or nobody
/// asked.
pub(crate) fn may_strand(snapshot: &Snapshot, policy: &Policy, plan: &Plan) -> Option<Vec<usize>> {
    let nodes = snapshot.nodes.len() + plan.launches.len();
    if !policy.tries_scheduler || plan.binds.len().saturating_mul(nodes) > PAIRS_MAX {
        return None;
    }
    let bound: BTreeMap<(&str, &str), usize> = plan
        .binds
        .iter()
        .map(|bind| (bind.pod, &snapshot.pods[bind.pod]))
        .filter(|(_, pod)| pod.origin == PodOrigin::Object)
        .map(|(index, pod)| ((&*pod.namespace, &*pod.name), index))
        .collect();
    let mut after = apply(snapshot, plan);
    after.pods.retain_mut(|pod| {
        if bound.contains_key(&(&*pod.namespace, &*pod.name)) {
            pod.node = None;
            pod.phase = PodPhase::Pending;
            return true;
        }
        pod.node.is_some()
    });
    let prepared = Prepared::new(&after, policy, &class::pending(&after));
    let stranded = simulate(prepared.packer(ClassOrder::ByShape), &prepared.dimensions);
    let mut pods: Vec<usize> = stranded
        .into_iter()
        .filter_map(|pod| bound.get(&(&*after.pods[pod].namespace, &*after.pods[pod].name)).copied())
        .collect();
    pods.sort_unstable();
    Some(pods)
}

/// Places the pods that wait as the scheduler would; those that find no place.
fn simulate(mut packer: Packer<'_>, dimensions: &Dimensions) -> Vec<usize> {
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
    waiting.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    // A pod that finds no place now may find one once a pod that it wants to be near is there.
    loop {
        let before = waiting.len();
        waiting.retain(|(_, _, class)| match best_host(&packer, &totals, *class) {
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

/// LeastAllocated and BalancedAllocation, each from 0 to 100, after the pod is there.
fn score(requests: &[i64], free: &[i64], total: &[i64]) -> i64 {
    let left = |d: usize| (free[d] - requests[d]).max(0);
    let share = |d: usize| if total[d] > 0 { left(d) * 100 / total[d] } else { 0 };
    let least = (0..SCORED).map(share).sum::<i64>() / 2;
    // Of two resources the standard deviation is half their distance.
    let balanced = 100 - (share(0) - share(1)).abs() / 2;
    least + balanced
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_and_evenly_used_nodes_score_best() {
        let total = [1000, 1000];
        for (better, worse, why) in [
            ([1000, 1000], [500, 500], "the emptier"),
            ([500, 500], [900, 100], "the more even"),
            ([800, 700], [500, 600], "the emptier, where both are as even"),
        ] {
            let requests = [100, 100];
            assert!(score(&requests, &better, &total) > score(&requests, &worse, &total), "{why}");
        }
        assert_eq!(score(&[0, 0], &[1000, 1000], &total), 200);
        assert_eq!(score(&[1000, 1000], &[1000, 1000], &total), 100);
    }
}
