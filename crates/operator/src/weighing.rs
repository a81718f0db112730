//! What Karpenter counts of nodes that are taken away: what could go, what was weighed, decided and taken back.

use std::collections::{BTreeMap, BTreeSet};

use berth_core::disruption::{Consolidation, DisruptionCost, DisruptionReason};
use berth_core::names::{self, Text};
use berth_core::node::{Node, NodeState};
use berth_core::plan::{DisruptionStep, Plan};
use berth_core::reason::Reason;
use berth_core::safety::{self, Safety};
use berth_core::snapshot::Snapshot;
use berth_core::units::Price;

use crate::leave::Leaver;
use crate::metrics::{count, reason_label, table};
use crate::office::Office;
use crate::planning::Round;

/// As NodePools write it.
const BALANCED: &str = "Balanced";

/// What Karpenter would have found it by: it looks for empty nodes, for several and for single ones in turn.
fn consolidation_type(reason: DisruptionReason, nodes: usize) -> &'static str {
    match (reason, nodes) {
        (DisruptionReason::Empty, _) => "empty",
        (DisruptionReason::Underutilized, 0 | 1) => "single",
        (DisruptionReason::Underutilized, _) => "multi",
        _ => "",
    }
}

impl Office {
    /// How many nodes no rule keeps.
    pub(crate) fn tell_eligible(&self, judged: &Safety) {
        for reason in DisruptionReason::ALL {
            let is_eligible = |node: &&safety::NodeSafety| node.reason == reason && node.is_allowed();
            let eligible = judged.nodes.iter().filter(is_eligible).count();
            self.metrics.set(table::ELIGIBLE_NODES, [&reason_label(reason.name())], count(eligible));
        }
    }

    /// A plan was made that may take nodes away.
    pub(crate) fn counts_weighed(&self, snapshot: &Snapshot, judged: &Safety, plan: &Plan) {
        let balanced = Balanced::of(snapshot, judged);
        for step in plan.disruptions.iter().filter(|step| !safety::is_forced(step.reason)) {
            if let Some((pool, score)) = balanced.score(snapshot, step) {
                self.metrics.count(table::CONSOLIDATION_MOVES, ["approved", pool, BALANCED]);
                self.metrics.observed(table::CONSOLIDATION_SCORE, ["approved", pool, BALANCED], score);
            }
        }
        for kept in plan.kept.iter().filter(|kept| kept.refusal.reason == Reason::Unbalanced) {
            let pool = snapshot.nodes.get(kept.node).and_then(|node| node.pool.as_deref());
            self.metrics.count(table::CONSOLIDATION_MOVES, ["rejected", pool.unwrap_or_default(), BALANCED]);
        }
    }

    /// A step begins.
    pub(crate) fn counts_step(&self, round: &Round, step: &DisruptionStep) {
        let (decision, reason) = (step.action(), reason_label(step.reason.name()));
        let how = consolidation_type(step.reason, step.nodes.len());
        self.metrics.count(table::DISRUPTIONS, [decision, &reason, how]);
        let nodes = step.nodes.iter().filter_map(|node| round.snapshot.nodes.get(*node));
        let pools: BTreeSet<&Text> = nodes.filter_map(|node| node.pool.as_ref()).collect();
        for pool in pools {
            self.metrics.count(table::POOL_DISRUPTIONS, [pool, decision, &reason, how]);
        }
    }

    /// A node stays, since things are not as they were.
    pub(crate) fn counts_refuted(&self, leaver: &Leaver) {
        let reason = leaver.departure.reason;
        let how = consolidation_type(reason, leaver.together);
        self.metrics.count(table::FAILED_VALIDATIONS, [&reason_label(reason.name()), how]);
    }

    /// A node stays, since what was bought for it is not there.
    pub(crate) fn counts_abandoned(&self, leaver: &Leaver) {
        let reason = leaver.departure.reason;
        let how = consolidation_type(reason, leaver.together);
        self.metrics.count(table::QUEUE_FAILURES, ["replace", &reason_label(reason.name()), how]);
    }

    /// A node went because it was broken.
    pub(crate) fn counts_unhealthy(&self, snapshot: &Snapshot, leaver: &Leaver) {
        let claim = &leaver.claim;
        let is_it = |node: &&Node| claim.node() == Some(&*node.name);
        let node = snapshot.nodes.iter().find(is_it);
        let illness = node.and_then(|node| node.disruption.unhealthy.as_ref());
        let is_why = leaver.departure.reason == DisruptionReason::Unhealthy;
        if let Some(illness) = illness.filter(|_| is_why) {
            let capacity_type = claim.label(names::CAPACITY_TYPE).unwrap_or_default();
            let labels = [&*illness.condition, &*leaver.pool.name, capacity_type, ""];
            self.metrics.count(table::CLAIMS_UNHEALTHY, labels);
        }
    }
}

/// What pools that ask for balance cost, and what it would take to disrupt all of each.
struct Balanced<'s> {
    pools: BTreeMap<&'s Text, (Price, DisruptionCost)>,
}

impl<'s> Balanced<'s> {
    fn of(snapshot: &'s Snapshot, judged: &Safety) -> Self {
        let asks = |pool: &&berth_core::pool::Pool| pool.disruption.consolidation == Consolidation::Balanced;
        let mut pools: BTreeMap<&Text, (Price, DisruptionCost)> =
            snapshot.pools.iter().filter(asks).map(|pool| (&pool.name, Default::default())).collect();
        for (node, safety) in snapshot.nodes.iter().zip(&judged.nodes) {
            let of_pool = node.pool.as_ref().and_then(|pool| pools.get_mut(pool));
            if let Some((price, cost)) = of_pool.filter(|_| node.state != NodeState::Deleting) {
                *price = price.plus(node.price.unwrap_or(Price::ZERO));
                *cost = cost.plus(safety.cost);
            }
        }
        Self { pools }
    }

    /// The pool of a step and its score, if all of its nodes are of one that asks for balance.
    fn score(&self, snapshot: &'s Snapshot, step: &DisruptionStep) -> Option<(&'s str, f64)> {
        let mut nodes = step.nodes.iter().filter_map(|node| snapshot.nodes.get(*node));
        let pool = nodes.next()?.pool.as_ref()?;
        if !nodes.all(|node| node.pool.as_ref() == Some(pool)) {
            return None;
        }
        let (price, cost) = self.pools.get(pool)?;
        let part = |of: i64, all: i64| if all > 0 { float(of) / float(all) } else { 0.0 };
        let saved = part(step.saves.micro_usd(), price.micro_usd());
        let disrupted = part(step.cost.weight(), cost.weight());
        (disrupted > 0.0).then(|| (&**pool, saved / disrupted))
    }
}

#[expect(clippy::cast_precision_loss, reason = "metrics are floats; nothing is decided by them")]
fn float(number: i64) -> f64 {
    number as f64
}
