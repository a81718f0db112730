//! What VPSie's own autoscaler counts of its groups: how they grow and shrink, and why they do not.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use berth_api::vpsie::REBALANCE_STRATEGY;
use berth_core::names::Text;
use berth_core::node::Node;
use berth_core::plan::{DisruptionStep, PoolRefusal};
use berth_core::reason::Reason;
use berth_core::units::Price;

use crate::claim::{Claim, FAILED};
use crate::cluster::Refused;
use crate::dialect::{Dialect, PoolId};
use crate::journal::{About, Severity};
use crate::leave::Leaver;
use crate::life::Failure;
use crate::metrics::table;
use crate::office::{Office, PodName};
use crate::planning::Round;

const NO_ACTION: &str = "no_action";

/// Whether a group has grown or shrunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Up,
    Down,
}

/// Who works on objects, as VPSie names them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Controller {
    NodeGroup,
    VpsieNode,
}

impl Controller {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::NodeGroup => "nodegroup",
            Self::VpsieNode => "vpsienode",
        }
    }
}

/// What became of one's work on an object.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Worked<'f> {
    Well,
    /// It goes on with the next look.
    Requeued,
    Ill(&'f Failure),
}

impl Office {
    /// A group has grown by so many nodes, or shrunk.
    pub(crate) async fn scaled(&self, round: &Round, pool: &PoolId, direction: Direction, nodes: usize) {
        if pool.dialect != Dialect::Vpsie || nodes == 0 {
            return;
        }
        self.counts_scaling(pool, direction, nodes);
        let is_staying = |claim: &&Arc<Claim>| {
            let is_leaving = claim.is_deleting() || round.leaving.contains_key(&claim.name);
            claim.pool_id().as_ref() == Some(pool) && !is_leaving && !claim.holds(FAILED)
        };
        let before = round.claims.values().filter(is_staying).count();
        let (reason, after) = match direction {
            Direction::Up => ("ScalingUp", before + nodes),
            Direction::Down => ("ScalingDown", before.saturating_sub(nodes)),
        };
        let Some(object) = round.pools.get(&pool.name) else { return };
        let about = About {
            api_version: pool.dialect.api_version(),
            kind: "NodeGroup",
            namespace: pool.namespace.to_string(),
            name: pool.name.to_string(),
            uid: object.metadata().uid.clone().unwrap_or_default(),
        };
        let message = format!("from {before} to {after} nodes");
        tracing::info!(target: "berth::lives", nodegroup = &*pool.name, "{reason} {message}");
        let told = (Severity::Normal, reason, &*message);
        // It is for people, and nothing depends on it.
        let _ = self.journal.tell(&self.desk, (&about, self.now()), told).await;
    }

    fn counts_scaling(&self, pool: &PoolId, direction: Direction, nodes: usize) {
        let labels = [&*pool.name, &*pool.namespace];
        let by_nodes = f64::from(u32::try_from(nodes).unwrap_or(u32::MAX));
        if direction == Direction::Up {
            self.metrics.count(table::SCALE_UP_DECISIONS, [&pool.name, &pool.namespace, "executed"]);
            self.metrics.observed(table::SCALE_UP_REQUESTED, labels, by_nodes);
        }
        let (times, by) = match direction {
            Direction::Up => (table::SCALE_UPS, table::SCALE_UP_NODES),
            Direction::Down => (table::SCALE_DOWNS, table::SCALE_DOWN_NODES),
        };
        self.metrics.count(times, labels);
        self.metrics.observed(by, labels, by_nodes);
    }

    /// What VPSie's own autoscaler counts of pods without a place, and of the groups that do not grow for them.
    pub(crate) fn counts_unplaced(&self, round: &Round, news: &[(PodName, &[PoolRefusal])]) {
        let mut resting = BTreeSet::new();
        for ((namespace, _), refusals) in news {
            let constraints = refusals.iter().map(|refusal| constraint(refusal.refusal.reason));
            for constraint in constraints.collect::<BTreeSet<_>>() {
                self.metrics.count(table::VPSIE_UNSCHEDULABLE, [constraint, namespace]);
            }
            for PoolRefusal { pool, refusal } in *refusals {
                let group = pool.as_ref().and_then(|pool| round.pools.get(pool)).map(|pool| pool.id());
                let group = group.filter(|group| group.dialect == Dialect::Vpsie);
                resting.extend(group.and_then(|group| Some((group, skipped(refusal.reason)?))));
            }
        }
        for (group, result) in resting {
            self.metrics.count(table::SCALE_UP_DECISIONS, [&group.name, &group.namespace, result]);
            self.counts_decision(&group, NO_ACTION, result);
        }
    }

    /// Groups that do not grow because nodes that pods wait for are on their way.
    pub(crate) fn counts_awaited<'n>(&self, round: &Round, nodes: impl Iterator<Item = &'n Text>) {
        let known: BTreeSet<Text> = self.expected().keys().cloned().collect();
        let new: BTreeSet<&Text> = nodes.filter(|node| !known.contains(*node)).collect();
        let nodes = round.snapshot.nodes.iter().filter(|node| new.contains(&node.name));
        for group in nodes.filter_map(|node| round.group(node.pool.as_ref()?)) {
            let labels = [&*group.name, &*group.namespace, "skipped_provisioning"];
            self.metrics.count(table::SCALE_UP_DECISIONS, labels);
        }
    }

    /// Groups were told to grow, for this reason.
    pub(crate) fn counts_growth<'p>(
        &self,
        round: &Round,
        pools: impl Iterator<Item = &'p Text>,
        reason: &str,
    ) {
        let pools: BTreeSet<&Text> = pools.collect();
        for group in pools.into_iter().filter_map(|pool| round.group(pool)) {
            self.counts_decision(&group, "scale_up", reason);
        }
    }

    /// Nodes of groups were told to go; some of them for others.
    pub(crate) fn counts_departure(&self, round: &Round, step: &DisruptionStep) {
        let nodes = step.nodes.iter().filter_map(|node| round.snapshot.nodes.get(*node));
        let mut going: BTreeMap<Option<PoolId>, Vec<&Node>> = BTreeMap::new();
        for node in nodes {
            going.entry(node.pool.as_ref().and_then(|pool| round.group(pool))).or_default().push(node);
        }
        let cost = |nodes: &[&Node]| {
            let costs = nodes.iter().filter_map(|node| round.snapshot.cost_of(node));
            costs.fold(Price::ZERO, Price::plus)
        };
        // Nodes of NodePools have a part in it as well, and nobody here counts that.
        let costs: Vec<Price> = going.values().map(|nodes| cost(nodes)).collect();
        let saves = shared(step.saves.max(Price::ZERO), &costs);
        for ((group, nodes), saves) in going.iter().zip(saves) {
            let Some(group) = group else { continue };
            self.counts_decision(group, "scale_down", step.reason.name());
            if step.replacements.is_empty() {
                continue;
            }
            // As they end: each node has a success or a failure of its own.
            for _ in nodes {
                self.counts_rebalancing(group, "started");
            }
            let labels = [&*group.name, &*group.namespace];
            self.metrics.add_dollars(table::REBALANCED_SAVINGS, labels, saves.per_month());
        }
    }

    /// A node has gone for another, or stays after all.
    pub(crate) fn counts_replaced(&self, round: &Round, leaver: &Leaver, has_gone: bool) {
        let Some(group) = round.group(&leaver.pool.name) else { return };
        if leaver.departure.replacements.is_empty() {
            return;
        }
        self.counts_rebalancing(&group, if has_gone { "success" } else { "failure" });
        if has_gone {
            let annotations =
                round.pools.get(&group.name).and_then(|pool| pool.metadata().annotations.as_ref());
            let strategy =
                annotations.and_then(|all| all.get(REBALANCE_STRATEGY)).map_or("rolling", |said| said);
            self.metrics.count(table::REBALANCED_NODES, [&group.name, &group.namespace, strategy]);
        }
    }

    fn counts_rebalancing(&self, group: &PoolId, result: &str) {
        self.metrics.count(table::REBALANCES, [&group.name, &group.namespace, "replace", result]);
    }

    fn counts_decision(&self, group: &PoolId, decision: &str, reason: &str) {
        self.metrics.count(table::SCALING_DECISIONS, [&group.name, &group.namespace, decision, reason]);
    }

    /// Somebody has worked on an object of VPSie's for so long.
    pub(crate) fn counts_work(&self, controller: Controller, worked: Worked<'_>, time: Duration) {
        let controller = controller.name();
        self.metrics.took(table::RECONCILE, [controller], time);
        let (result, error) = match worked {
            Worked::Well => ("success", None),
            Worked::Requeued => ("requeue", None),
            Worked::Ill(failure) => ("error", Some(error_type(failure))),
        };
        self.metrics.count(table::RECONCILES, [controller, result]);
        if let Some(error) = error {
            self.metrics.count(table::RECONCILE_ERRORS, [controller, error]);
        }
    }
}

impl Round {
    /// The NodeGroup of this name, if the pool is one.
    pub(crate) fn group(&self, pool: &Text) -> Option<PoolId> {
        self.pools.get(pool).map(|pool| pool.id()).filter(|id| id.dialect == Dialect::Vpsie)
    }
}

/// Parts of an amount in these proportions; equal ones if all are none. What division leaves over is in the last.
fn shared(amount: Price, by: &[Price]) -> Vec<Price> {
    let weights: Vec<i128> = by.iter().map(|price| i128::from(price.micro_usd().max(0))).collect();
    let is_even = weights.iter().all(|weight| *weight == 0);
    let weights: Vec<i128> = weights.into_iter().map(|weight| if is_even { 1 } else { weight }).collect();
    let whole: i128 = weights.iter().sum();
    let (mut told, mut passed) = (0, 0);
    let parts = weights.iter().map(|weight| {
        passed += weight;
        // Never more than the amount, which is one.
        let until = i64::try_from(i128::from(amount.micro_usd()) * passed / whole).unwrap_or(i64::MAX);
        let part = until - told;
        told = until;
        Price::from_micro_usd(part)
    });
    parts.collect()
}

fn error_type(failure: &Failure) -> &'static str {
    match failure {
        Failure::Cluster(Refused { code: Some(409), .. }) => "conflict",
        Failure::Cluster(_) => "kubernetes_api",
        Failure::Cloud(_) => "vpsie_api",
        Failure::NoCloud(_) => "no_cloud",
        Failure::Late => "timeout",
    }
}

/// What VPSie calls that which keeps a pod waiting.
fn constraint(reason: Reason) -> &'static str {
    match reason {
        Reason::InsufficientCpu => "cpu",
        Reason::InsufficientMemory => "memory",
        Reason::InsufficientPods => "pods",
        Reason::UntoleratedTaint => "taint",
        Reason::NodeAffinity | Reason::PodAffinity => "affinity",
        Reason::PodAntiAffinity | Reason::ExistingAntiAffinity => "anti_affinity",
        Reason::NodeSelector => "node_selector",
        _ => "unknown",
    }
}

/// What VPSie calls it when a group does not grow for this reason.
fn skipped(reason: Reason) -> Option<&'static str> {
    match reason {
        Reason::PoolResting => Some("skipped_cooldown"),
        Reason::NodeLimit => Some("skipped_max_capacity"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_shared_in_proportion() {
        for (amount, by, expected) in [
            (100, &[][..], &[][..]),
            (100, &[7], &[100]),
            (100, &[30, 10], &[75, 25]),
            (100, &[0, 10], &[0, 100]),
            (101, &[1, 1], &[50, 51]),
            (100, &[0, 0], &[50, 50]),
            (0, &[3, 1], &[0, 0]),
        ] {
            let by: Vec<Price> = by.iter().copied().map(Price::from_micro_usd).collect();
            let parts = shared(Price::from_micro_usd(amount), &by);
            let parts: Vec<i64> = parts.into_iter().map(Price::micro_usd).collect();
            assert_eq!(parts, expected, "{amount}");
        }
    }
}
