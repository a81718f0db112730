//! Whether pools stay divided among zones and capacity types as they ask.

use super::disruption::{Moving, reason};
use super::violation::Violation;
use crate::catalog::CapacityType;
use crate::disruption::DisruptionReason;
use crate::names;
use crate::node::{Node, NodeState};
use crate::plan::{Launch, Plan};
use crate::snapshot::Snapshot;

/// Zones keep the nodes that they must have, and what is bought or saved leaves spot its share. Beside spot, nodes that have
/// to go count as if they stayed: nobody could keep them.
pub(super) fn check_divisions(snapshot: &Snapshot, plan: &Plan, moving: &Moving) -> Vec<Violation> {
    let mut violations = Vec::new();
    for pool in &snapshot.pools {
        let before: Vec<(&Node, bool)> = snapshot
            .nodes
            .iter()
            .zip(&moving.step_of_node)
            .filter(|(node, _)| node.pool.as_ref() == Some(&pool.name) && node.state != NodeState::Deleting)
            .map(|(node, step)| (node, step.is_some()))
            .collect();
        let launches: Vec<&Launch> = plan.launches.iter().filter(|launch| launch.pool == pool.name).collect();
        if let Some(split) = &pool.division.zones {
            for (zone, _) in &split.zones {
                let is_in = |node: &Node| node.labels.get(names::ZONE) == Some(zone);
                let launched = launches.iter().filter(|launch| launch.zone == *zone).count();
                let had = before.iter().filter(|(node, _)| is_in(node)).count();
                let going = before.iter().filter(|(node, goes)| *goes && is_in(node)).count();
                let nodes = had - going + launched;
                let least = usize::try_from(split.nodes_min).unwrap_or(usize::MAX).min(had);
                if going > 0 && nodes < least {
                    let (pool, zone) = (pool.name.clone(), zone.clone());
                    violations.push(Violation::ZoneBelowMinimum {
                        pool,
                        zone,
                        least: split.nodes_min,
                        nodes,
                    });
                }
            }
        }
        let Some(share) = pool.division.spot else { continue };
        let is_spot = |node: &Node| {
            node.labels.get(names::CAPACITY_TYPE).is_some_and(|value| **value == *CapacityType::Spot.name())
        };
        let spot_launched = launches.iter().filter(|l| l.capacity_type == CapacityType::Spot).count();
        let others_launched = launches.len() - spot_launched;
        let saves = |node: &Node, goes: bool| {
            let reason = reason(snapshot, node);
            goes && matches!(reason, DisruptionReason::Empty | DisruptionReason::Underutilized)
        };
        let spot_max = |nodes: usize| nodes * usize::try_from(share.percent_max).unwrap_or(100) / 100;
        let excess = |spot: usize, nodes: usize| spot.saturating_sub(spot_max(nodes));
        let spot_before = before.iter().filter(|(node, _)| is_spot(node)).count();
        let stays = before.iter().filter(|(node, goes)| !saves(node, *goes));
        let nodes = stays.clone().count() + launches.len();
        let spot = stays.filter(|(node, goes)| !goes && is_spot(node)).count() + spot_launched;
        let mut exceeded = |kind, percent, of_kind, nodes| {
            let pool = pool.name.clone();
            violations.push(Violation::ShareExceeded { pool, kind, percent, of_kind, nodes });
        };
        if excess(spot, nodes) > excess(spot_before, before.len()) {
            exceeded("spot", share.percent_max, spot, nodes);
        }
        // What is bought may be bought while those that go are there, or after them.
        let all = before.len() + launches.len();
        let others = before.iter().filter(|(node, goes)| !goes && !is_spot(node)).count() + others_launched;
        if !share.falls_back && others_launched > 0 && others > all - spot_max(all) {
            exceeded("on demand", 100 - share.percent_max.min(100), others, all);
        }
    }
    violations
}
