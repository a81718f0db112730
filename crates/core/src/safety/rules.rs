//! The rules about a node, each by itself.

use super::{Allowances, Fleet, NodeSafety, Verdict, budget_index, can_wait, is_forced, overrides_pods};
use crate::disruption::{
    Basis, Consolidation, DisruptionReason, Leaving, Protection, REPAIRED, SafetyChecks,
};
use crate::names::{self, Text};
use crate::node::{Node, NodeState};
use crate::pod::Pod;
use crate::pool::Pool;
use crate::reason::{Reason, Refusal};
use crate::snapshot::Snapshot;
use crate::volume::Keeping;

/// A node with all that its rules look at.
pub(super) struct Judged<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) node: &'a Node,
    pub(super) pool: Option<&'a Pool>,
    pub(super) pods: &'a [usize],
    pub(super) safety: &'a NodeSafety,
}

impl Judged<'_> {
    /// The rules in the order in which people would ask: the node, its pool, its pods, how many at once.
    pub(super) fn verdicts(&self, allowances: &Allowances) -> Vec<Verdict> {
        let reason = self.safety.reason;
        let saves_money = !is_forced(reason);
        let heeds_pods = !overrides_pods(reason, self.node.disruption.termination_grace_secs.is_some());
        let mut verdicts = Vec::new();
        let mut judge = |applies: bool, rule: Reason, refusal: &dyn Fn() -> Option<Refusal>| {
            if applies {
                verdicts.push(Verdict { rule, only: concerned(rule), refusal: refusal() });
            }
        };
        judge(true, Reason::NodeNotOfPool, &|| self.not_of_pool());
        // Nobody could write down that it is to go.
        judge(self.ledger_damage().is_some(), Reason::LedgerUnreadable, &|| self.ledger_damage());
        // Who is broken or too old may never come up.
        judge(can_wait(reason), Reason::NodeStarting, &|| self.in_state(NodeState::Starting));
        judge(true, Reason::NodeDeleting, &|| self.in_state(NodeState::Deleting).or_else(|| self.closed()));
        let is_unidentified = self.node.disruption.unidentified;
        judge(is_unidentified, Reason::MachineUnknown, &|| self.unidentified());
        // At VPSie a node that somebody protects stays, broken or not.
        let heeds_marks = can_wait(reason) || self.checks().is_some();
        judge(heeds_marks, Reason::NodeProtected, &|| self.node_protected());
        judge(saves_money, Reason::NodePriceUnknown, &|| self.price_unknown());
        judge(saves_money, Reason::NodeOfStaticPool, &|| self.of_static_pool());
        judge(saves_money, Reason::ConsolidationNever, &|| self.never_consolidated());
        judge(saves_money, Reason::ConsolidateAfter, &|| self.not_quiet_yet());
        judge(reason == DisruptionReason::Underutilized, Reason::NodeNotEmpty, &|| self.not_empty());
        judge(reason == DisruptionReason::Empty, Reason::PoolMinimum, &|| self.at_minimum(allowances));
        let is_checked = saves_money && self.checks().is_some();
        judge(is_checked, Reason::NodeCordoned, &|| self.cordoned());
        judge(is_checked, Reason::ScaleDownOff, &|| self.never_shrinks());
        judge(is_checked, Reason::NodeUtilized, &|| self.utilized());
        judge(is_checked, Reason::LocalStorage, &|| self.local_storage());
        judge(is_checked, Reason::SystemPod, &|| self.system_pod());
        judge(is_checked, Reason::CapacityLeft, &|| self.capacity_left());
        judge(heeds_pods, Reason::PodProtected, &|| self.pod_protected());
        judge(heeds_pods, Reason::PodDisruptionBudget, &|| self.pod_budget(allowances));
        judge(heeds_pods, Reason::PodWithoutController, &|| self.pod_without_controller());
        judge(true, Reason::PodsFitNowhere, &|| self.pod_unplaceable());
        let is_repair = reason == DisruptionReason::Unhealthy;
        judge(is_repair, Reason::TooManyUnhealthy, &|| self.too_many_unhealthy(allowances));
        judge(is_repair, Reason::PoolPaused, &|| self.of_paused_pool());
        judge(budget_index(reason).is_some(), Reason::DisruptionBudget, &|| self.budget(allowances));
        verdicts
    }

    fn movers(&self) -> impl Iterator<Item = &Pod> {
        self.safety.movers.iter().map(|pod| &self.snapshot.pods[*pod])
    }

    fn not_of_pool(&self) -> Option<Refusal> {
        let message = match (&self.node.pool, self.pool) {
            (_, Some(_)) => return None,
            (Some(name), None) => format!("the node is of pool {name}, which is not in the input"),
            (None, None) => "the node was not bought by a pool".to_owned(),
        };
        Some(Reason::NodeNotOfPool.because(message))
    }

    fn ledger_damage(&self) -> Option<Refusal> {
        let why = self.pool?.unreadable_ledger.as_ref()?;
        Some(Reason::LedgerUnreadable.because(&**why))
    }

    fn in_state(&self, state: NodeState) -> Option<Refusal> {
        (self.node.state == state).then(|| match state {
            NodeState::Deleting => Reason::NodeDeleting.because("the node is going away already"),
            _ => Reason::NodeStarting.because("the node is still starting"),
        })
    }

    /// It was to go, and nobody can say whether it still is: whoever knows opens it or takes it away.
    fn closed(&self) -> Option<Refusal> {
        let is_closed = self.node.taints.iter().any(|taint| &*taint.key == names::TAINT_DISRUPTED);
        is_closed.then(|| Reason::NodeDeleting.because("the node is closed to pods, since it was to go"))
    }

    fn unidentified(&self) -> Option<Refusal> {
        let message = "which machine the node runs on is not known, so nobody could end it";
        self.node.disruption.unidentified.then(|| Reason::MachineUnknown.because(message))
    }

    fn node_protected(&self) -> Option<Refusal> {
        let how_long = protected(self.node.disruption.protection)?;
        Some(Reason::NodeProtected.because(format!("the node is marked do-not-disrupt{how_long}")))
    }

    /// VPSie's autoscaler leaves alone what somebody has cordoned. What was to go is cordoned by Berth itself.
    fn cordoned(&self) -> Option<Refusal> {
        let has = |key: &str| self.node.taints.iter().any(|taint| &*taint.key == key);
        (has(names::TAINT_UNSCHEDULABLE) && !has(names::TAINT_DISRUPTED)).then(|| {
            Reason::NodeCordoned
                .because("somebody has cordoned the node, and may have something in mind with it")
        })
    }

    fn price_unknown(&self) -> Option<Refusal> {
        self.node.price.is_none().then(|| {
            Reason::NodePriceUnknown
                .because("the catalog has no price for the node's type, zone and capacity type")
        })
    }

    fn of_static_pool(&self) -> Option<Refusal> {
        let replicas = self.pool?.replicas?;
        Some(Reason::NodeOfStaticPool.because(format!("the pool always has {replicas} nodes")))
    }

    fn never_consolidated(&self) -> Option<Refusal> {
        let rules = &self.pool?.disruption;
        let message = match rules.checks {
            None => "the pool's consolidateAfter is Never",
            Some(_) => "the group is paused",
        };
        rules.consolidate_after_secs.is_none().then(|| Reason::ConsolidationNever.because(message))
    }

    fn not_quiet_yet(&self) -> Option<Refusal> {
        let wanted = self.pool?.disruption.consolidate_after_secs?;
        match self.node.disruption.quiet_secs {
            Some(quiet) if quiet >= wanted => None,
            None if wanted == 0 => None,
            Some(quiet) => Some(Reason::ConsolidateAfter.because(format!(
                "its pods have been the same for {}, and the pool waits for {}",
                duration(quiet),
                duration(wanted)
            ))),
            None => Some(Reason::ConsolidateAfter.because(format!(
                "nothing says how long its pods have been the same, and the pool waits for {}",
                duration(wanted)
            ))),
        }
    }

    fn not_empty(&self) -> Option<Refusal> {
        (self.pool?.disruption.consolidation == Consolidation::WhenEmpty).then(|| {
            Reason::NodeNotEmpty.because(format!(
                "{} pods would have to move, and the pool's policy is WhenEmpty",
                self.safety.movers.len()
            ))
        })
    }

    fn checks(&self) -> Option<SafetyChecks> {
        self.pool?.disruption.checks
    }

    fn never_shrinks(&self) -> Option<Refusal> {
        let is_off = !self.checks()?.shrinks;
        is_off.then(|| Reason::ScaleDownOff.because("the group's scaleDownPolicy is not enabled"))
    }

    fn utilized(&self) -> Option<Refusal> {
        let (checks, usage) = (self.checks()?, self.node.disruption.usage?);
        let looked_at = [
            ("CPU", usage.cpu_percent, checks.cpu_percent),
            ("memory", usage.memory_percent, checks.memory_percent),
        ];
        let (what, used, below) = looked_at.into_iter().find(|(_, used, below)| used >= below)?;
        let message = match usage.basis {
            Basis::Measured => format!("it uses {used}% of its {what}, and goes below {below}%"),
            Basis::Asked => format!(
                "it is asked for {used}% of its {what}, and goes below {below}%; nothing measures what it uses"
            ),
            Basis::Unknown => {
                "what it uses was not measured all the time for as long as its group looks back".to_owned()
            }
        };
        Some(Reason::NodeUtilized.because(message))
    }

    fn local_storage(&self) -> Option<Refusal> {
        let storage = &self.snapshot.storage;
        let kept = |pod: &Pod| {
            let keeps = || format!("pod {} keeps data on the node", pod.id());
            pod.disruption.has_local_storage.then(keeps).or_else(|| {
                pod.volumes.iter().find_map(|volume| match storage.keeping(pod, volume) {
                    Keeping::Elsewhere => None,
                    Keeping::OnNode => Some(keeps()),
                    Keeping::Unknown => Some(format!(
                        "nobody can say where pod {} keeps the data of its claim {}",
                        pod.id(),
                        volume.claim()
                    )),
                })
            })
        };
        let mut all = self.movers().filter_map(kept);
        let first = all.next()?;
        Some(Reason::LocalStorage.because(format!("{first}{}", and_others(all.count()))))
    }

    fn system_pod(&self) -> Option<Refusal> {
        let mut pods = self.pods.iter().map(|pod| &self.snapshot.pods[*pod]).filter(|pod| !pod.deleting);
        let pod = pods.find(|pod| pod.is_of_control_plane())?;
        Some(Reason::SystemPod.because(format!("pod {} is a part of the control plane", pod.id())))
    }

    fn capacity_left(&self) -> Option<Refusal> {
        let percent = self.node.disruption.others_asked_percent?;
        let most = SafetyChecks::ASKED_MAX_PERCENT;
        (percent > most).then(|| {
            Reason::CapacityLeft.because(match percent {
                SafetyChecks::ASKED_OF_NOTHING => "none of the group's other nodes can take pods now".to_owned(),
                _ => format!(
                    "the group's other nodes would be asked for {percent}% of what they have, and {most}% is the most"
                ),
            })
        })
    }

    fn at_minimum(&self, allowances: &Allowances) -> Option<Refusal> {
        allowances.pools[self.safety.pool?].refusal_to_go(self.safety.portion, true)
    }

    fn pod_protected(&self) -> Option<Refusal> {
        // A DaemonSet's pod dies with its node, but who marks it means the node too.
        let pods = self.pods.iter().map(|pod| &self.snapshot.pods[*pod]).filter(|pod| !pod.deleting);
        let mut protected = pods.filter_map(|pod| Some((pod, protected(pod.disruption.protection)?)));
        let (pod, how_long) = protected.next()?;
        let others = and_others(protected.count());
        Some(
            Reason::PodProtected
                .because(format!("pod {}{others} is marked do-not-disrupt{how_long}", pod.id())),
        )
    }

    fn pod_budget(&self, allowances: &Allowances) -> Option<Refusal> {
        if let Some(pod) = self.safety.doubly_covered {
            return Some(Reason::PodDisruptionBudget.because(format!(
                "pod {} is covered by more than one PodDisruptionBudget, and Kubernetes evicts no such pod",
                self.snapshot.pods[pod].id()
            )));
        }
        let (budget, pods) =
            self.safety.budget_draws.iter().find(|(budget, pods)| allowances.pods[*budget] < *pods)?;
        let budget = &self.snapshot.pod_budgets[*budget];
        Some(Reason::PodDisruptionBudget.because(format!(
            "{pods} of its pods count in PodDisruptionBudget {}/{}, which allows {} to be away",
            budget.namespace, budget.name, budget.disruptions_allowed
        )))
    }

    fn pod_without_controller(&self) -> Option<Refusal> {
        let mut alone = self.movers().filter(|pod| !pod.disruption.has_controller);
        let pod = alone.next()?;
        let others = and_others(alone.count());
        Some(
            Reason::PodWithoutController
                .because(format!("pod {}{others} has no controller and would not come back", pod.id())),
        )
    }

    fn pod_unplaceable(&self) -> Option<Refusal> {
        self.movers().find_map(|pod| {
            if let [gate, ..] = &*pod.spec.scheduling_gates {
                let message = format!("pod {} would wait for its scheduling gate {gate}", pod.id());
                return Some(Reason::PodsFitNowhere.because(message));
            }
            let refusal = self.snapshot.storage.demands(pod).err()?;
            Some(Reason::PodsFitNowhere.because(format!("pod {}: {}", pod.id(), refusal.message)))
        })
    }

    fn too_many_unhealthy(&self, allowances: &Allowances) -> Option<Refusal> {
        let Fleet { joined, unhealthy, .. } = allowances.pools[self.safety.pool?].fleet;
        let most = REPAIRED.of(joined);
        (unhealthy > most).then(|| {
            Reason::TooManyUnhealthy.because(format!(
                "{unhealthy} of the pool's {joined} nodes are unhealthy; they are replaced while no more than {most} are"
            ))
        })
    }

    /// Its owner lets nothing be bought in its place.
    fn of_paused_pool(&self) -> Option<Refusal> {
        self.pool?.blocked.clone().filter(|refusal| refusal.reason == Reason::PoolPaused)
    }

    fn budget(&self, allowances: &Allowances) -> Option<Refusal> {
        let pool = &allowances.pools[self.safety.pool?];
        let budgets = Leaving::ALL.map(|leaving| pool.budget(self.safety.reason, leaving));
        let budget = budgets.into_iter().flatten().max()?;
        (self.safety.budgeted && budget == 0).then(|| {
            Reason::DisruptionBudget.because(format!(
                "the pool's budgets for {} let no node go now, with those that are away already",
                self.safety.reason.name()
            ))
        })
    }
}

/// How a node goes that such a rule is about, where that matters: what a group's scale-down says is about nodes for which
/// nothing is bought.
fn concerned(rule: Reason) -> Option<Leaving> {
    matches!(rule, Reason::ScaleDownOff | Reason::NodeUtilized | Reason::CapacityLeft)
        .then_some(Leaving::ForGood)
}

/// How long yet, if at all.
fn protected(protection: Protection) -> Option<String> {
    match protection {
        Protection::None => None,
        Protection::Always => Some(String::new()),
        Protection::For { secs } => Some(format!(" for another {}", duration(secs))),
    }
}

fn and_others(others: usize) -> Text {
    if others == 0 { "".into() } else { format!(" (and {others} more)").into() }
}

/// Seconds as people write them: the two largest units.
fn duration(secs: u64) -> String {
    let parts = [(secs / 86_400, "d"), (secs / 3600 % 24, "h"), (secs / 60 % 60, "m"), (secs % 60, "s")];
    let written: Vec<String> = parts
        .iter()
        .filter(|(amount, _)| *amount > 0)
        .take(2)
        .map(|(amount, unit)| format!("{amount}{unit}"))
        .collect();
    if written.is_empty() { "0s".to_owned() } else { written.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_in_words() {
        for (secs, text) in [(0, "0s"), (59, "59s"), (61, "1m 1s"), (7200, "2h"), (90_061, "1d 1h")] {
            assert_eq!(duration(secs), text);
        }
    }
}
