//! Nodes beyond the number that their pool should have, where it has a fixed one.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::disruption::{DisruptionCost, Protection};
use crate::names::Text;
use crate::node::{Node, NodeState};
use crate::pod::Pod;
use crate::pool::Pool;
use crate::safety;

/// Marks the nodes that go so that each static pool has as many as it should have. Those go first that have to go
/// anyway, and so are not replaced; then those that nobody protects, with the least to disrupt. What is still starting
/// counts, and is not chosen until it is up: so that the choice is among nodes of which it is known what they hold.
pub fn mark(nodes: &mut [Node], pods: &[Pod], pools: &[Pool]) {
    let wanted: BTreeMap<&Text, usize> = pools
        .iter()
        .filter_map(|pool| Some((&pool.name, usize::try_from(pool.replicas?).unwrap_or(usize::MAX))))
        .collect();
    if wanted.is_empty() {
        return;
    }
    let mut moves: BTreeMap<&Text, (bool, DisruptionCost)> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| pod.is_active() && !pod.deleting) {
        let Some(node) = &pod.node else { continue };
        let (is_protected, cost) = moves.entry(node).or_default();
        *is_protected |= pod.disruption.protection != Protection::None;
        if !pod.belongs_to_node() {
            *cost = cost.plus(DisruptionCost::of_pod(pod));
        }
    }
    for (pool, replicas) in wanted {
        let is_its = |node: &Node| node.pool.as_ref() == Some(pool) && node.state != NodeState::Deleting;
        let staying = nodes.iter().filter(|node| is_its(node)).count();
        let mut candidates: Vec<&mut Node> =
            nodes.iter_mut().filter(|node| is_its(node) && node.state == NodeState::Running).collect();
        candidates.sort_by_cached_key(|node| {
            let (is_protected, cost) = moves.get(&node.name).copied().unwrap_or_default();
            let is_protected = is_protected || node.disruption.protection != Protection::None;
            (Reverse(safety::forced_reason(node)), is_protected, cost, node.name.clone())
        });
        for node in candidates.into_iter().take(staying.saturating_sub(replicas)) {
            node.disruption.surplus = true;
        }
    }
}
