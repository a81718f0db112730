//! What kube-scheduler would make of a plan if it were left to its own way of placing pods.
//!
//! Its filters are the plan's own rules, but of the nodes that pass it prefers the emptiest and the most evenly
//! used. A plan that fills nodes to the brim can so leave a pod without a place, although there is one for
//! each. Here the pods go one by one, the highest priority first, to the node that scores best by the default
//! weights of `NodeResourcesFit` (LeastAllocated) and `NodeResourcesBalancedAllocation`. Preferences that
//! only some pods have are left out: they move pods among nodes that pass, and are no reason to strand one.

use crate::host::{Host, HostOrigin};
use crate::market::{Amounts, Dimensions};
use crate::pack::{Packer, add_times};
use crate::topology::{HostId, Place};

/// How many nodes all pods together may be held against: beyond it a simulation takes too long to be waited
/// for.
const PAIRS_MAX: usize = 20_000_000;

/// Lets the scheduler place what `packer` placed, on the same nodes: which pods would find no place, by class
/// with how many. `fresh` has placed nothing and planned nothing yet. `None` where there are too many pods and
/// nodes to try it.
pub(crate) fn simulate<'a>(
    packer: &Packer<'a>,
    mut fresh: Packer<'a>,
    dimensions: &Dimensions,
) -> Option<Vec<(usize, u32)>> {
    let classes = packer.classes;
    let placed: Vec<u32> = classes
        .all
        .iter()
        .zip(&packer.left)
        .map(|(class, left)| u32::try_from(class.pods.len()).unwrap_or(u32::MAX) - left)
        .collect();
    let pods: usize = placed.iter().map(|pods| *pods as usize).sum();
    if pods.saturating_mul(packer.hosts.len()) > PAIRS_MAX {
        return None;
    }
    for host in &packer.hosts[packer.existing()..] {
        if let HostOrigin::Planned { cell, candidate } = host.origin {
            fresh.buy(cell, candidate);
        }
    }
    let totals: Vec<Amounts> = fresh.hosts.iter().map(|host| allocatable(&fresh, host, dimensions)).collect();
    let mut queue: Vec<(i32, usize, usize)> = Vec::with_capacity(pods);
    for (class_index, class) in classes.all.iter().enumerate() {
        let placed = class.pods.iter().take(placed[class_index] as usize);
        queue.extend(placed.map(|pod| (class.priority, *pod, class_index)));
    }
    queue.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    // A pod that finds no place now may find one once a pod that it wants to be near is there.
    let mut waiting: Vec<usize> = queue.into_iter().map(|(_, _, class)| class).collect();
    loop {
        let before = waiting.len();
        waiting.retain(|class| match best_host(&fresh, &totals, *class) {
            Some(host) => {
                let level = classes.all[*class].levels.len() - 1;
                fresh.place_up_to(1, *class, level, host) == 0
            }
            None => true,
        });
        if waiting.is_empty() || waiting.len() == before {
            break;
        }
    }
    let mut stranded: Vec<(usize, u32)> = Vec::new();
    waiting.sort_unstable();
    for class in waiting {
        match stranded.last_mut() {
            Some((last, pods)) if *last == class => *pods += 1,
            _ => stranded.push((class, 1)),
        }
    }
    Some(stranded)
}

/// What a host has for pods and DaemonSets together.
fn allocatable(packer: &Packer<'_>, host: &Host, dimensions: &Dimensions) -> Amounts {
    match host.origin {
        HostOrigin::Node(node) => dimensions.amounts(&packer.snapshot().nodes[node].allocatable),
        HostOrigin::Planned { cell, candidate } => {
            let cell = &packer.market.cells[cell];
            let mut all = cell.candidates[candidate].free.clone();
            add_times(&mut all, &cell.daemons, 1);
            all
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
