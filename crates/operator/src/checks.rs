//! Why nodes stay, said on them and their claims once each time that it changes: in Karpenter's words, or as VPSie's checks before a
//! node goes have found it, which is counted too. And what would be done if somebody agreed to it.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_core::disruption::{RebalanceCheck, SafetyCheck};
use berth_core::names::Text;
use berth_core::plan::{Kept, Plan};
use berth_core::reason::{Reason, Refusal};
use berth_core::safety::{NodeSafety, Safety};
use futures::{StreamExt, stream};

use crate::buy::WRITES_AT_ONCE;
use crate::claim::Claim;
use crate::dialect::Dialect;
use crate::journal::{DecisionKind, Severity};
use crate::metrics::table;
use crate::operator::Operator;
use crate::planning::Round;

/// What VPSie calls that which keeps a node, if it has a word for it.
fn blocked_by(reason: Reason) -> Option<&'static str> {
    match reason {
        Reason::ConsolidateAfter | Reason::DisruptionBudget => Some("cooldown"),
        Reason::PoolMinimum => Some("min_nodes"),
        Reason::LocalStorage => Some("local_storage"),
        Reason::CapacityLeft => Some("capacity"),
        Reason::NodeProtected | Reason::NodeCordoned | Reason::PodProtected => Some("protected_node"),
        Reason::PodDisruptionBudget => Some("pdb"),
        Reason::PodsKeptApart => Some("affinity"),
        Reason::PodsFitNowhere | Reason::SystemPod => Some("safety_check"),
        Reason::NodeUtilized | Reason::ScaleDownOff | Reason::ConsolidationNever => Some("policy_constraint"),
        _ => None,
    }
}

/// The event by which Karpenter says that a node stays for this reason, if people have something to do about it. A node
/// that is well used stays as it should; and what only has to wait for others to go, or for pods to settle, would be said
/// of the whole pool each time that a node goes.
fn karpenters_event(reason: Reason) -> Option<&'static str> {
    match reason {
        Reason::NodeProtected
        | Reason::NodePriceUnknown
        | Reason::PodProtected
        | Reason::PodDisruptionBudget
        | Reason::PodWithoutController
        | Reason::TooManyUnhealthy => Some("DisruptionBlocked"),
        Reason::PoolMinimum
        | Reason::ZoneShare
        | Reason::SpotShare
        | Reason::ConsolidationNever
        | Reason::NodeNotEmpty
        | Reason::PodsFitNowhere
        | Reason::PodsKeptApart
        | Reason::SpotAlternatives => Some("Unconsolidatable"),
        _ => None,
    }
}

/// The first in VPSie's order of the checks that fail. `rescheduling` and `affinity` are among them only where nothing else
/// keeps the node: the plan does not try nodes that stay anyhow, and to try each at every look would cost a plan for each.
fn first_failed<'r>(refusals: impl Iterator<Item = &'r Refusal>) -> Option<(SafetyCheck, &'r Refusal)> {
    let failed = refusals.filter_map(|refusal| Some((SafetyCheck::of(refusal.reason)?, refusal)));
    failed.min_by_key(|(check, _)| *check)
}

/// Of the rebalancer's checks those that keep nothing but a replacement. What keeps nodes from going for good, too, would be
/// said of every node that has just got a pod.
fn is_about_replacing(check: RebalanceCheck) -> bool {
    match check {
        RebalanceCheck::ClusterHealth
        | RebalanceCheck::NodeGroupHealth
        | RebalanceCheck::ResourceCapacity => true,
        RebalanceCheck::PodDisruption | RebalanceCheck::Timing => false,
    }
}

/// What is to be said of a claim.
type Words<'r> = (&'r Arc<Claim>, &'static str, String);

impl Operator {
    /// Tells why nodes stay, as far as that is news.
    pub(crate) async fn tell_checks(&mut self, round: &Round, plan: &Plan) {
        let by_node: BTreeMap<&str, &Arc<Claim>> =
            round.claims.values().filter_map(|claim| Some((claim.node()?, claim))).collect();
        let is_checked = round.claims.values().any(|claim| claim.dialect == Dialect::Vpsie);
        let safety = if is_checked { Safety::judge(&round.snapshot).nodes } else { Vec::new() };
        let mut found: BTreeMap<Text, Reason> = BTreeMap::new();
        let mut proposals: BTreeMap<Text, String> = BTreeMap::new();
        let mut words: Vec<Words<'_>> = Vec::new();
        for Kept { node, refusal } in &plan.kept {
            let all = safety.get(*node).into_iter().flat_map(NodeSafety::refusals);
            let Some(node) = round.snapshot.nodes.get(*node) else { continue };
            if let (Reason::AwaitingApproval, Some(pool)) = (refusal.reason, &node.pool) {
                proposals.entry(pool.clone()).or_insert_with(|| refusal.message.clone());
            }
            let Some(claim) = by_node.get(&*node.name) else { continue };
            let told = self.checked.get(&claim.name).copied();
            if claim.dialect == Dialect::Karpenter {
                let event = karpenters_event(refusal.reason);
                words.extend(
                    event
                        .filter(|_| told != Some(refusal.reason))
                        .map(|event| (*claim, event, refusal.to_string())),
                );
                // What is not said is forgotten: the same as before it is no news after it.
                let last = event.map(|_| refusal.reason).or(told);
                found.extend(last.map(|reason| (claim.name.clone(), reason)));
                continue;
            }
            let first = first_failed(all.chain([refusal]));
            let refusal = first.map_or(refusal, |(_, refusal)| refusal);
            let is_news = told != Some(refusal.reason);
            found.insert(claim.name.clone(), refusal.reason);
            if !is_news {
                continue;
            }
            let group = claim.pool.as_deref().unwrap_or_default();
            if let Some(why) = blocked_by(refusal.reason) {
                self.office.metrics.count(table::SCALE_DOWN_BLOCKED, [group, &claim.namespace, why]);
            }
            if let Some((check, _)) = first {
                self.office.metrics.count(table::CHECK_FAILURES, [check.name(), group, &claim.namespace]);
                words.push((*claim, "ScaleDownBlocked", format!("{}: {refusal}", check.name())));
            } else if let Some(check) =
                RebalanceCheck::of(refusal.reason).filter(|check| is_about_replacing(*check))
            {
                words.push((*claim, "RebalanceBlocked", format!("{}: {refusal}", check.name())));
            }
        }
        self.checked = found;
        let office = &self.office;
        stream::iter(words)
            .for_each_concurrent(WRITES_AT_ONCE, async |(claim, reason, message)| {
                let node = round.nodes.of(claim).first();
                office
                    .say_of_node(claim, node.map(|node| &**node), (Severity::Normal, reason, &message))
                    .await;
            })
            .await;
        for (pool, proposal) in &proposals {
            if self.office.proposals().get(pool) != Some(proposal) {
                let words = ("AwaitingApproval", proposal.clone());
                self.office.decided(DecisionKind::Refusal, words, vec![pool.to_string()], None);
            }
        }
        *self.office.proposals() = proposals;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_checks_that_fail_the_first_is_said() {
        for (reasons, expected) in [
            (&[][..], None),
            (&[Reason::ConsolidateAfter], None),
            (&[Reason::NodeProtected, Reason::LocalStorage], Some("local_storage")),
            (&[Reason::PodProtected, Reason::NodeUtilized, Reason::CapacityLeft], Some("capacity")),
            (&[Reason::CapacityLeft, Reason::SystemPod], Some("system_pods")),
            (&[Reason::NodeProtected, Reason::ConsolidateAfter], Some("protection")),
            (&[Reason::PodsKeptApart], Some("affinity")),
            (&[Reason::PodsFitNowhere], Some("rescheduling")),
        ] {
            let refusals: Vec<Refusal> = reasons.iter().map(|reason| reason.because("")).collect();
            let first = first_failed(refusals.iter()).map(|(check, _)| check.name());
            assert_eq!(first, expected, "{reasons:?}");
        }
    }
}
