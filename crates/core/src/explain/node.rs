//! Why a node is still here, or what takes it away.

use crate::disrupt;
use crate::disruption::{DisruptionCost, DisruptionReason, Leaving, RebalanceCheck, SafetyCheck};
use crate::names::Text;
use crate::plan::{DisruptionStep, Host, Launch, Plan};
use crate::pool::Pool;
use crate::reason::{Reason, Refusal};
use crate::safety::{Safety, Verdict};
use crate::snapshot::{Policy, Snapshot};

/// What is said about taking one node away.
#[derive(Clone, Debug)]
pub struct Removal {
    /// Why it would go.
    pub reason: DisruptionReason,
    /// What that would cost its pods.
    pub cost: DisruptionCost,
    /// Each rule about the node alone, passed or not.
    pub verdicts: Vec<Verdict>,
    /// VPSie's checks, in their order, if its group has them looked at.
    pub checks: Vec<(SafetyCheck, Checked)>,
    /// What VPSie's rebalancer checks, in its order, if its group has nodes replaced by cheaper ones.
    pub rebalancing: Vec<(RebalanceCheck, Checked)>,
    /// Whether the plan takes it away.
    pub planned: bool,
    /// What else stands in the way, where it stays although the rules would let it go.
    pub refusal: Option<Refusal>,
    /// How it goes: with the plan, or else what it would take to remove it alone. `None` where the rules
    /// forbid it or its pods fit nowhere.
    pub way: Option<Way>,
}

/// What one of VPSie's checks came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Checked {
    Passed,
    Failed(Refusal),
    /// The node is going already: its pods have been seen to.
    Unasked,
}

impl Checked {
    fn of(failed: Option<&Refusal>, is_unasked: bool) -> Self {
        match failed {
            Some(refusal) => Self::Failed(refusal.clone()),
            None if is_unasked => Self::Unasked,
            None => Self::Passed,
        }
    }
}

/// How a node goes.
#[derive(Clone, Debug)]
pub struct Way {
    pub step: DisruptionStep,
    /// What is bought for it.
    pub replacements: Vec<Launch>,
    /// Where its pods go, in the snapshot's order.
    pub moves: Vec<Move>,
}

impl Way {
    fn leaving(&self) -> Leaving {
        if self.replacements.is_empty() { Leaving::ForGood } else { Leaving::Replaced }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// An index into the snapshot's pods.
    pub pod: usize,
    /// The name of a node or of a launch.
    pub to: Text,
}

/// The story of one node, an index into the snapshot's nodes.
pub fn node(snapshot: &Snapshot, policy: &Policy, node: usize) -> Removal {
    let mut safety = Safety::judge(snapshot);
    let judged = safety.nodes.swap_remove(node);
    let plan = disrupt::plan(snapshot, policy);
    let planned = way(snapshot, &plan, node);
    let is_planned = planned.is_some();
    let (alone, found) = match planned {
        Some(way) => (Some(way), None),
        None if judged.is_allowed() => {
            let (plan, refusal) = disrupt::plan_without(snapshot, policy, node);
            let kept = || plan.kept.iter().find(|kept| kept.node == node).map(|kept| kept.refusal.clone());
            let way = way(snapshot, &plan, node).filter(|way| judged.refusal_to_go(way.leaving()).is_none());
            (way, refusal.or_else(kept))
        }
        None => (None, None),
    };
    let refusal = if is_planned || !judged.is_allowed() {
        None
    } else {
        // What the whole plan says comes first: alone it might go, but others go before it.
        let kept = plan.kept.iter().find(|kept| kept.node == node).map(|kept| kept.refusal.clone());
        let is_news = |refusal: &Refusal| !judged.refusals().any(|by_rule| by_rule == refusal);
        [found, kept].into_iter().flatten().find(is_news)
    };
    // What its pods would meet is asked whatever else keeps the node: each check has its own verdict.
    let is_asked = !is_planned && !judged.is_allowed() && has_checks(&judged.verdicts);
    let met = is_asked.then(|| disrupt::plan_without(snapshot, policy, node).1).flatten();
    let met = met.as_ref().or(refusal.as_ref());
    Removal {
        reason: judged.reason,
        cost: judged.cost,
        checks: checks(&judged.verdicts, met),
        rebalancing: rebalancing(judged.pool.map(|pool| &snapshot.pools[pool]), &judged.verdicts, met),
        verdicts: judged.verdicts,
        planned: is_planned,
        refusal,
        way: alone,
    }
}

fn has_checks(verdicts: &[Verdict]) -> bool {
    verdicts.iter().any(|verdict| verdict.rule == Reason::LocalStorage)
}

/// The verdicts as VPSie's checks, with what came of a plan without the node.
pub fn checks(verdicts: &[Verdict], met: Option<&Refusal>) -> Vec<(SafetyCheck, Checked)> {
    if !has_checks(verdicts) {
        return Vec::new();
    }
    let refusals = || verdicts.iter().filter_map(|verdict| verdict.refusal.as_ref());
    let checked = |check: SafetyCheck| {
        let fails = |refusal: &&Refusal| SafetyCheck::of(refusal.reason) == Some(check);
        let is_unasked = check.needs_plan() && is_going(verdicts);
        Checked::of(refusals().chain(met).find(fails), is_unasked)
    };
    SafetyCheck::ALL.map(|check| (check, checked(check))).into()
}

/// The verdicts as the checks of VPSie's rebalancer, with what the pool says and what came of a plan without the node.
fn rebalancing(
    pool: Option<&Pool>,
    verdicts: &[Verdict],
    met: Option<&Refusal>,
) -> Vec<(RebalanceCheck, Checked)> {
    let barred = pool.and_then(|pool| pool.disruption.replacement.barred.as_ref());
    let is_off = barred.is_some_and(|refusal| refusal.reason == Reason::ReplacementBarred);
    if is_off || !has_checks(verdicts) {
        return Vec::new();
    }
    let checked = |check: RebalanceCheck| {
        let fails = |refusal: &&Refusal| RebalanceCheck::of(refusal.reason) == Some(check);
        // What would be left without the node is no matter where another comes for it.
        let by_rules = verdicts.iter().filter(|_| !check.needs_plan());
        let by_rules = by_rules.filter_map(|verdict| verdict.refusal.as_ref());
        let is_unasked = check.needs_plan() && is_going(verdicts);
        Checked::of(by_rules.chain(barred).chain(met).find(fails), is_unasked)
    };
    RebalanceCheck::ALL.map(|check| (check, checked(check))).into()
}

fn is_going(verdicts: &[Verdict]) -> bool {
    let refusals = verdicts.iter().filter_map(|verdict| verdict.refusal.as_ref());
    refusals.map(|refusal| refusal.reason).any(|reason| reason == Reason::NodeDeleting)
}

fn way(snapshot: &Snapshot, plan: &Plan, node: usize) -> Option<Way> {
    let step = plan.disruptions.iter().find(|step| step.nodes.contains(&node))?;
    let name = &snapshot.nodes[node].name;
    let to = |host: Host| match host {
        Host::Node(node) => snapshot.nodes[node].name.clone(),
        Host::Launch(launch) => plan.launches[launch].name.clone(),
    };
    let mut moves: Vec<Move> = plan
        .binds
        .iter()
        .filter(|bind| snapshot.pods[bind.pod].node.as_ref() == Some(name))
        .map(|bind| Move { pod: bind.pod, to: to(bind.host) })
        .collect();
    moves.sort_by_key(|moved| moved.pod);
    Some(Way {
        step: step.clone(),
        replacements: step.replacements.iter().map(|launch| plan.launches[*launch].clone()).collect(),
        moves,
    })
}
