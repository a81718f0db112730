//! VPSie's checks before a node goes: what they found is counted and said on the node's object, once each time that it
//! changes. And what would be done if somebody agreed to it.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_core::disruption::SafetyCheck;
use berth_core::names::Text;
use berth_core::plan::{Kept, Plan};
use berth_core::reason::Reason;
use berth_core::safety::{NodeSafety, Safety};

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
        Reason::NodeProtected | Reason::PodProtected => Some("protected_node"),
        Reason::PodDisruptionBudget => Some("pdb"),
        Reason::PodsKeptApart => Some("affinity"),
        Reason::PodsFitNowhere | Reason::SystemPod => Some("safety_check"),
        Reason::NodeUtilized | Reason::ConsolidationNever => Some("policy_constraint"),
        _ => None,
    }
}

impl Operator {
    /// Tells why VPSie's nodes stay, as far as that is news.
    pub(crate) async fn tell_checks(&mut self, round: &Round, plan: &Plan) {
        let by_node: BTreeMap<&str, &Arc<Claim>> = round
            .claims
            .values()
            .filter(|claim| claim.dialect == Dialect::Vpsie)
            .filter_map(|claim| Some((claim.node()?, claim)))
            .collect();
        let safety = if by_node.is_empty() { Vec::new() } else { Safety::judge(&round.snapshot).nodes };
        let mut found: BTreeMap<Text, Reason> = BTreeMap::new();
        let mut proposals: BTreeMap<Text, String> = BTreeMap::new();
        for Kept { node, refusal } in &plan.kept {
            let all = safety.get(*node).into_iter().flat_map(NodeSafety::refusals);
            let Some(node) = round.snapshot.nodes.get(*node) else { continue };
            if let (Reason::AwaitingApproval, Some(pool)) = (refusal.reason, &node.pool) {
                proposals.entry(pool.clone()).or_insert_with(|| refusal.message.clone());
            }
            let Some(claim) = by_node.get(&*node.name) else { continue };
            // Of several checks that fail, the first in VPSie's order is named.
            let checked = all.chain([refusal]).filter_map(|all| Some((SafetyCheck::of(all.reason)?, all)));
            let first = checked.min_by_key(|(check, _)| *check);
            let refusal = first.map_or(refusal, |(_, refusal)| refusal);
            let is_news = self.checked.get(&claim.name) != Some(&refusal.reason);
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
                let message = format!("{}: {refusal}", check.name());
                self.office.say(claim, Severity::Normal, "ScaleDownBlocked", &message).await;
            }
        }
        self.checked = found;
        for (pool, proposal) in &proposals {
            if self.office.proposals().get(pool) != Some(proposal) {
                let words = ("AwaitingApproval", proposal.clone());
                self.office.decided(DecisionKind::Refusal, words, vec![pool.to_string()], None);
            }
        }
        *self.office.proposals() = proposals;
    }
}
