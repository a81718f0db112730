//! Whether the nodes that a plan takes away may go, judged from the rules anew.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::division::check_divisions;
use super::violation::{Bar, DisruptionFault, Violation};
use crate::disruption::{
    Approval, Budget, Consolidation, DisruptionCost, DisruptionReason, PodBudget, Protection, SafetyChecks,
};
use crate::names::{self, Text};
use crate::node::{Node, NodeState};
use crate::plan::{Bind, DisruptionStep, Host, Launch, Plan};
use crate::pod::{Pod, VolumeRef};
use crate::pool::Pool;
use crate::snapshot::Snapshot;
use crate::units::Price;

/// Which step takes away which node and moves which pod.
pub(super) struct Moving {
    /// For each node of the snapshot.
    pub(super) step_of_node: Vec<Option<usize>>,
    /// For each pod that needs another place because its node goes.
    pub(super) step_of_pod: Vec<Option<usize>>,
}

impl Moving {
    pub(super) fn of(snapshot: &Snapshot, plan: &Plan) -> Self {
        let mut step_of_node = vec![None; snapshot.nodes.len()];
        for (index, step) in plan.disruptions.iter().enumerate() {
            for node in &step.nodes {
                if let Some(slot) = step_of_node.get_mut(*node) {
                    slot.get_or_insert(index);
                }
            }
        }
        let steps: FxHashMap<&str, usize> = snapshot
            .nodes
            .iter()
            .zip(&step_of_node)
            .filter_map(|(node, step)| Some((&*node.name, (*step)?)))
            .collect();
        let step_of = |pod: &Pod| steps.get(&**pod.node.as_ref()?).copied();
        let step_of_pod = snapshot.pods.iter().map(|pod| step_of(pod).filter(|_| needs_place(pod))).collect();
        Self { step_of_node, step_of_pod }
    }
}

/// Whether the pod has to be somewhere else once its node is gone.
fn needs_place(pod: &Pod) -> bool {
    pod.is_active() && !pod.deleting && !pod.belongs_to_node()
}

pub(super) fn check_disruptions(snapshot: &Snapshot, plan: &Plan, moving: &Moving) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (index, step) in plan.disruptions.iter().enumerate() {
        let faults = StepCheck { snapshot, plan, moving, index, step }.faults();
        violations.extend(faults.into_iter().map(|fault| Violation::Disruption { step: index, fault }));
    }
    violations.extend(check_pod_budgets(snapshot, moving));
    violations.extend(check_pool_budgets(snapshot, moving));
    violations.extend(check_minima(snapshot, plan, moving));
    violations.extend(check_divisions(snapshot, plan, moving));
    violations.extend(check_order(snapshot, plan, moving));
    violations
}

struct StepCheck<'a> {
    snapshot: &'a Snapshot,
    plan: &'a Plan,
    moving: &'a Moving,
    index: usize,
    step: &'a DisruptionStep,
}

impl StepCheck<'_> {
    fn faults(&self) -> Vec<DisruptionFault> {
        let mut faults = Vec::new();
        if self.step.nodes.is_empty() {
            faults.push(DisruptionFault::NoNodes);
        }
        let mut nodes = Vec::new();
        for index in &self.step.nodes {
            let Some(node) = self.snapshot.nodes.get(*index) else {
                faults.push(DisruptionFault::NoSuchNode { index: *index });
                continue;
            };
            if self.moving.step_of_node[*index] != Some(self.index) || nodes.contains(index) {
                faults.push(DisruptionFault::NodeTwice { node: node.name.clone() });
                continue;
            }
            nodes.push(*index);
            if let Some(bar) = bar(self.snapshot, node, self.buys()) {
                faults.push(DisruptionFault::Barred { node: node.name.clone(), bar });
            }
        }
        let reasons = nodes.iter().map(|node| reason(self.snapshot, &self.snapshot.nodes[*node]));
        if let Some(actual) = reasons.max()
            && actual != self.step.reason
        {
            faults.push(DisruptionFault::WrongReason { said: self.step.reason, actual });
        }
        let for_money = |node: &Node| {
            let reason = reason(self.snapshot, node);
            matches!(reason, DisruptionReason::Empty | DisruptionReason::Underutilized)
        };
        // What is bought for some may be of use to others, so one that wants it is enough.
        let is_unwanted = |index: &usize| {
            let node = &self.snapshot.nodes[*index];
            for_money(node) && pool_of(self.snapshot, node).is_some_and(unwanted)
        };
        if !self.step.replacements.is_empty() && !nodes.is_empty() && nodes.iter().all(is_unwanted) {
            faults.push(DisruptionFault::ReplacementUnwanted);
        }
        self.check_replacements(&mut faults);
        self.check_numbers(&nodes, &mut faults);
        faults
    }

    /// Whether something is bought that its pods go to.
    fn buys(&self) -> bool {
        let moves =
            |bind: &Bind| self.moving.step_of_pod.get(bind.pod).copied().flatten() == Some(self.index);
        let is_bought = |bind: &Bind| matches!(bind.host, Host::Launch(_)) && moves(bind);
        !self.step.replacements.is_empty() || self.plan.binds.iter().any(is_bought)
    }

    /// What the step's pods are bound to is bought for it, or is there before; others may follow them there.
    fn check_replacements(&self, faults: &mut Vec<DisruptionFault>) {
        for (position, launch) in self.step.replacements.iter().enumerate() {
            let Some(bought) = self.plan.launches.get(*launch) else {
                faults.push(DisruptionFault::NoSuchReplacement { index: *launch });
                continue;
            };
            let elsewhere = self
                .plan
                .disruptions
                .iter()
                .enumerate()
                .any(|(other, step)| other != self.index && step.replacements.contains(launch));
            if elsewhere || self.step.replacements[..position].contains(launch) {
                faults.push(DisruptionFault::ReplacementTwice { launch: bought.name.clone() });
            }
        }
        let mut used = BTreeMap::<usize, bool>::new();
        for (position, bind) in self.plan.binds.iter().enumerate() {
            let Host::Launch(launch) = bind.host else { continue };
            let Some(bought) = self.plan.launches.get(launch) else { continue };
            let step = self.moving.step_of_pod.get(bind.pod).copied().flatten();
            let is_own = step == Some(self.index);
            let comes_after = step.is_none() && position >= self.step.first_bind;
            if self.step.replacements.contains(&launch) && !is_own && !comes_after {
                faults.push(DisruptionFault::ReplacementShared { launch: bought.name.clone() });
            }
            if is_own {
                used.entry(launch).or_insert(false);
            }
            if step.is_none() && !comes_after {
                used.insert(launch, true);
            }
        }
        for (launch, by_waiting) in used {
            if !by_waiting && !self.step.replacements.contains(&launch) {
                let launch = self.plan.launches[launch].name.clone();
                faults.push(DisruptionFault::ReplacementMissing { launch });
            }
        }
    }

    fn check_numbers(&self, nodes: &[usize], faults: &mut Vec<DisruptionFault>) {
        let moved = self.moving.step_of_pod.iter().filter(|step| **step == Some(self.index)).count();
        if moved != self.step.pods_moved {
            faults.push(DisruptionFault::WrongPodsMoved { said: self.step.pods_moved, actual: moved });
        }
        let snapshot = self.snapshot;
        let cost = |node: &usize| snapshot.cost_of(&snapshot.nodes[*node]).unwrap_or(Price::ZERO);
        let before = nodes.iter().map(cost).fold(Price::ZERO, Price::plus);
        let bought = self.step.replacements.iter().filter_map(|launch| self.plan.launches.get(*launch));
        let launched = |launch: &Launch| launch.price.plus(snapshot.cost_beyond_price(Some(&launch.pool)));
        let saves = bought.map(launched).fold(before, Price::minus);
        if saves != self.step.saves {
            faults.push(DisruptionFault::WrongSaving { said: self.step.saves, actual: saves });
        }
        let of_nodes = nodes.iter().map(|_| DisruptionCost::NODE);
        let of_pods = self
            .snapshot
            .pods
            .iter()
            .zip(&self.moving.step_of_pod)
            .filter(|(_, step)| **step == Some(self.index))
            .map(|(pod, _)| DisruptionCost::of_pod(pod));
        let cost = of_nodes.chain(of_pods).fold(DisruptionCost::default(), DisruptionCost::plus);
        if cost != self.step.cost {
            faults.push(DisruptionFault::WrongCost { said: self.step.cost, actual: cost });
        }
    }
}

fn pods_on<'a>(snapshot: &'a Snapshot, node: &'a Node) -> impl Iterator<Item = &'a Pod> {
    snapshot.pods.iter().filter(|pod| pod.is_active() && pod.node.as_ref() == Some(&node.name))
}

fn pool_of<'a>(snapshot: &'a Snapshot, node: &Node) -> Option<&'a Pool> {
    snapshot.pools.iter().find(|pool| Some(&pool.name) == node.pool.as_ref())
}

pub(super) fn reason(snapshot: &Snapshot, node: &Node) -> DisruptionReason {
    let wear = &node.disruption;
    if wear.unhealthy.is_some() {
        DisruptionReason::Unhealthy
    } else if wear.expired {
        DisruptionReason::Expired
    } else if wear.drifted.is_some() {
        DisruptionReason::Drifted
    } else if wear.surplus {
        DisruptionReason::Overprovisioned
    } else if pods_on(snapshot, node).any(needs_place) {
        DisruptionReason::Underutilized
    } else {
        DisruptionReason::Empty
    }
}

/// Whether the pool's nodes are not to be replaced by cheaper ones.
fn unwanted(pool: &Pool) -> bool {
    let rules = &pool.disruption.replacement;
    rules.barred.is_some() || rules.approval == Approval::Needed { given: None }
}

/// Whether protected pods do not hold the node back.
fn goes_anyway(node: &Node, reason: DisruptionReason) -> bool {
    match reason {
        DisruptionReason::Unhealthy => true,
        DisruptionReason::Expired | DisruptionReason::Drifted | DisruptionReason::Overprovisioned => {
            node.disruption.termination_grace_secs.is_some()
        }
        DisruptionReason::Underutilized | DisruptionReason::Empty => false,
    }
}

/// What forbids taking the node away, whatever else goes; where something is bought for its pods or is not.
fn bar(snapshot: &Snapshot, node: &Node, is_replaced: bool) -> Option<Bar> {
    let reason = reason(snapshot, node);
    let Some(pool) = pool_of(snapshot, node) else { return Some(Bar::NotOfPool) };
    if pool.unreadable_ledger.is_some() {
        return Some(Bar::LedgerUnreadable);
    }
    let never_came_up = matches!(reason, DisruptionReason::Unhealthy | DisruptionReason::Expired)
        && node.state == NodeState::Starting;
    if node.state != NodeState::Running && !never_came_up {
        return Some(Bar::NotRunning);
    }
    if node.disruption.unidentified {
        return Some(Bar::MachineUnknown);
    }
    if reason == DisruptionReason::Unhealthy && is_broken(snapshot, pool) {
        return Some(Bar::PoolBroken);
    }
    let for_money = matches!(reason, DisruptionReason::Empty | DisruptionReason::Underutilized);
    let waits = matches!(reason, DisruptionReason::Drifted | DisruptionReason::Overprovisioned);
    if (for_money || waits) && node.disruption.protection != Protection::None {
        return Some(Bar::NodeProtected);
    }
    if for_money {
        if node.price.is_none() {
            return Some(Bar::PriceUnknown);
        }
        if pool.replicas.is_some() {
            return Some(Bar::StaticPool);
        }
        let quiet = match (pool.disruption.consolidate_after_secs, node.disruption.quiet_secs) {
            (None, _) => return Some(Bar::NeverConsolidated),
            (Some(0), _) => true,
            (Some(wanted), quiet) => quiet.is_some_and(|quiet| quiet >= wanted),
        };
        if !quiet {
            return Some(Bar::NotQuiet);
        }
        let only_empty = pool.disruption.consolidation == Consolidation::WhenEmpty;
        if only_empty && reason != DisruptionReason::Empty {
            return Some(Bar::NotEmpty);
        }
        if let Some(checks) = pool.disruption.checks
            && let Some(bar) = group_bar(snapshot, node, checks, is_replaced)
        {
            return Some(bar);
        }
    }
    pods_on(snapshot, node).find_map(|pod| {
        let protected = !pod.deleting && pod.disruption.protection != Protection::None;
        if protected && !goes_anyway(node, reason) {
            return Some(Bar::PodProtected { pod: pod.id() });
        }
        (needs_place(pod) && !pod.disruption.has_controller && !goes_anyway(node, reason))
            .then(|| Bar::PodWithoutController { pod: pod.id() })
    })
}

/// Whether more than a fifth of the pool's nodes, rounded up, are broken.
fn is_broken(snapshot: &Snapshot, pool: &Pool) -> bool {
    let has_joined = |node: &&Node| node.state != NodeState::Starting || node.disruption.unhealthy.is_some();
    let nodes = || {
        let of_pool = snapshot.nodes.iter().filter(|node| node.pool.as_ref() == Some(&pool.name));
        of_pool.filter(has_joined)
    };
    let broken = nodes().filter(|node| node.disruption.unhealthy.is_some()).count();
    broken * 5 > nodes().count() + 4
}

/// What VPSie's checks say.
fn group_bar(snapshot: &Snapshot, node: &Node, checks: SafetyChecks, is_replaced: bool) -> Option<Bar> {
    if node.taints.iter().any(|taint| taint.key.as_ref() == names::TAINT_UNSCHEDULABLE) {
        return Some(Bar::Cordoned);
    }
    if !checks.shrinks && !is_replaced {
        return Some(Bar::ScaleDownOff);
    }
    if let Some(usage) = node.disruption.usage
        && !is_replaced
        && (usage.cpu_percent >= checks.cpu_percent || usage.memory_percent >= checks.memory_percent)
    {
        return Some(Bar::Utilized);
    }
    let has_data_here = |pod: &&Pod| {
        needs_place(pod)
            && (pod.disruption.has_local_storage
                || pod.volumes.iter().any(|volume| is_tied(snapshot, pod, volume)))
    };
    if let Some(pod) = pods_on(snapshot, node).find(has_data_here) {
        return Some(Bar::LocalStorage { pod: pod.id() });
    }
    let runs_cluster = |pod: &&Pod| !pod.deleting && pod.is_of_control_plane();
    if let Some(pod) = pods_on(snapshot, node).find(runs_cluster) {
        return Some(Bar::SystemPod { pod: pod.id() });
    }
    let is_full = |percent: u32| percent > SafetyChecks::ASKED_MAX_PERCENT;
    let leaves_too_little = !is_replaced && node.disruption.others_asked_percent.is_some_and(is_full);
    leaves_too_little.then_some(Bar::CapacityLeft)
}

/// Whether what a volume holds may be on the pod's node and nowhere else.
fn is_tied(snapshot: &Snapshot, pod: &Pod, volume: &VolumeRef) -> bool {
    let storage = &snapshot.storage;
    let claim = storage.claims.get(&(pod.namespace.clone(), volume.claim().clone()));
    let bound = claim.and_then(|claim| claim.volume.as_ref()).and_then(|name| storage.volumes.get(name));
    bound.map_or(matches!(volume, VolumeRef::Claim(_)), |bound| bound.is_local)
}

fn check_pod_budgets(snapshot: &Snapshot, moving: &Moving) -> Vec<Violation> {
    let mut heeding: FxHashMap<&str, bool> = FxHashMap::default();
    for (node, step) in snapshot.nodes.iter().zip(&moving.step_of_node) {
        if step.is_some() {
            heeding.insert(&node.name, !goes_anyway(node, reason(snapshot, node)));
        }
    }
    let moved: Vec<&Pod> = snapshot
        .pods
        .iter()
        .zip(&moving.step_of_pod)
        .filter(|(pod, step)| {
            let heeds = |node: &Text| heeding.get(&**node).copied().unwrap_or(true);
            step.is_some() && pod.node.as_ref().is_some_and(heeds)
        })
        .map(|(pod, _)| pod)
        .collect();
    let covers = |budget: &PodBudget, pod: &Pod| {
        pod.namespace == budget.namespace
            && budget.selector.as_ref().is_some_and(|selector| selector.matches(&pod.spec.labels))
    };
    let is_doubly_covered =
        |pod: &&&Pod| snapshot.pod_budgets.iter().filter(|budget| covers(budget, pod)).nth(1).is_some();
    let doubly_covered =
        moved.iter().filter(is_doubly_covered).map(|pod| Violation::PodOfTwoBudgets { pod: pod.id() });
    snapshot
        .pod_budgets
        .iter()
        .filter_map(|budget| {
            let pods = moved.iter().filter(|pod| covers(budget, pod)).count();
            let allowed = budget.disruptions_allowed;
            (pods > usize::try_from(allowed).unwrap_or(usize::MAX)).then(|| Violation::PodBudgetOverdrawn {
                budget: format!("{}/{}", budget.namespace, budget.name),
                allowed,
                pods,
            })
        })
        .chain(doubly_covered)
        .collect()
}

/// For each pool the reasons with the smaller budgets first: all that goes for them must be within each.
fn check_pool_budgets(snapshot: &Snapshot, moving: &Moving) -> Vec<Violation> {
    let mut violations = Vec::new();
    for pool in &snapshot.pools {
        let nodes = || {
            snapshot.nodes.iter().zip(&moving.step_of_node).filter(|(node, _)| {
                node.pool.as_ref() == Some(&pool.name) && node.state != NodeState::Starting
            })
        };
        let total = u32::try_from(nodes().count()).unwrap_or(u32::MAX);
        let away = nodes()
            .filter(|(node, _)| {
                let wear = &node.disruption;
                node.state == NodeState::Deleting || wear.not_ready || wear.unhealthy.is_some()
            })
            .count();
        let mut reasons: Vec<(u32, DisruptionReason, usize)> = DisruptionReason::BUDGETED
            .into_iter()
            .filter_map(|budgeted| {
                let shares = pool
                    .disruption
                    .budgets
                    .iter()
                    .filter(|budget| budget.reasons.is_empty() || budget.reasons.contains(&budgeted));
                // The larger of both: which nodes are replaced is known once the ledger is written, and counts there.
                let share = |budget: &Budget| {
                    budget.nodes.of(total).max(budget.replaced.map_or(0, |share| share.of(total)))
                };
                let share = shares.map(share).min()?;
                let going = nodes()
                    .filter(|(node, step)| step.is_some() && reason(snapshot, node) == budgeted)
                    .count();
                Some((share, budgeted, going))
            })
            .collect();
        reasons.sort_unstable();
        let mut gone = away;
        for (allowed, reason, going) in reasons {
            gone += going;
            if going > 0 && gone > usize::try_from(allowed).unwrap_or(usize::MAX) {
                let pool = pool.name.clone();
                violations.push(Violation::PoolBudgetOverdrawn { pool, reason, allowed, nodes: gone });
            }
        }
    }
    violations
}

fn check_minima(snapshot: &Snapshot, plan: &Plan, moving: &Moving) -> Vec<Violation> {
    let mut violations = Vec::new();
    for pool in &snapshot.pools {
        let staying = || {
            snapshot.nodes.iter().zip(&moving.step_of_node).filter(|(node, _)| {
                node.pool.as_ref() == Some(&pool.name) && node.state != NodeState::Deleting
            })
        };
        let going = staying().filter(|(_, step)| step.is_some()).count();
        let launched = plan.launches.iter().filter(|launch| launch.pool == pool.name).count();
        let before = staying().count();
        let after = before - going + launched;
        let target = pool.replicas.unwrap_or(pool.nodes_min);
        let least = usize::try_from(target).unwrap_or(usize::MAX).min(before);
        if going > 0 && after < least {
            violations.push(Violation::BelowMinimum { pool: pool.name.clone(), least: target, nodes: after });
        }
    }
    violations
}

/// The binds of a step are all between its beginning and that of the next.
fn check_order(snapshot: &Snapshot, plan: &Plan, moving: &Moving) -> Vec<Violation> {
    let begins = |step: usize| plan.disruptions.get(step).map_or(plan.binds.len(), |step| step.first_bind);
    let steps = 0..plan.disruptions.len();
    let overlapping = steps.filter(|step| begins(*step) > begins(step + 1)).map(|step| {
        Violation::Disruption { step, fault: DisruptionFault::Overlap { first_bind: begins(step) } }
    });
    let astray = plan.binds.iter().enumerate().filter_map(|(index, bind)| {
        let step = moving.step_of_pod.get(bind.pod).copied().flatten()?;
        let in_turn = (begins(step)..begins(step + 1)).contains(&index);
        (!in_turn).then(|| Violation::OutOfTurn { pod: snapshot.pods[bind.pod].id() })
    });
    overlapping.chain(astray).collect()
}
