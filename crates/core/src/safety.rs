//! What may be evicted, and which nodes may be taken away at all.
//!
//! Only here can an [`Evictable`] be made, so nothing else in Berth can move a running pod that some rule
//! protects. Every rule that applies to a node is judged, not only up to the first that refuses: whoever
//! asks why a node is still here wants all of the answer.

mod allowances;

use fixedbitset::FixedBitSet;
use rustc_hash::FxHashMap;

pub use allowances::{Allowances, Fleet};

use crate::disruption::{
    Basis, Consolidation, DisruptionCost, DisruptionReason, Leaving, Protection, REPAIRED, SafetyChecks,
};
use crate::division::Portion;
use crate::names::{self, Text};
use crate::node::{Node, NodeState};
use crate::pod::{Pod, PodSpec};
use crate::pool::Pool;
use crate::reason::{Reason, Refusal};
use crate::snapshot::Snapshot;
use crate::volume::Keeping;

/// A running pod that may be moved: all rules about its node and about itself let it go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Evictable {
    pod: usize,
}

impl Evictable {
    /// An index into the snapshot's pods.
    pub fn pod(self) -> usize {
        self.pod
    }
}

/// What one rule says of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The rule, by the reason it refuses with.
    pub rule: Reason,
    /// Where it only counts for a node that goes like this.
    pub only: Option<Leaving>,
    /// `None` where the node passes.
    pub refusal: Option<Refusal>,
}

#[derive(Clone, Debug)]
pub struct NodeSafety {
    /// Why it would go: the most urgent reason that holds for it.
    pub reason: DisruptionReason,
    /// One for each rule that applies to it for that reason.
    pub verdicts: Vec<Verdict>,
    pub cost: DisruptionCost,
    /// An index into the snapshot's pools.
    pub pool: Option<usize>,
    portion: Portion,
    /// The pods that would have to move.
    movers: Vec<usize>,
    /// How many of them each PodDisruptionBudget counts.
    budget_draws: Vec<(usize, u32)>,
    /// One that several of them cover.
    doubly_covered: Option<usize>,
    /// Whether pool budgets count it.
    budgeted: bool,
    /// Whether something may be bought for its pods.
    replaceable: bool,
}

impl NodeSafety {
    /// Whether the rules let it go somehow.
    pub fn is_allowed(&self) -> bool {
        Leaving::ALL.into_iter().any(|leaving| self.lets_go(leaving))
    }

    pub fn lets_go(&self, leaving: Leaving) -> bool {
        (leaving == Leaving::ForGood || self.replaceable) && self.refusal_to_go(leaving).is_none()
    }

    /// The first rule that keeps it from going like this.
    pub(crate) fn refusal_to_go(&self, leaving: Leaving) -> Option<&Refusal> {
        let counts = |verdict: &&Verdict| verdict.only.is_none_or(|only| only == leaving);
        self.verdicts.iter().filter(counts).find_map(|verdict| verdict.refusal.as_ref())
    }

    /// Why it stays, where this was found beside the rules: what keeps it in any case, or what keeps it from going for good
    /// where it is not for its pool's wishes that it is not replaced.
    pub(crate) fn staying<'r>(&'r self, found: Option<&'r Refusal>) -> Option<&'r Refusal> {
        let is_wish = |refusal: &Refusal| {
            matches!(refusal.reason, Reason::AwaitingApproval | Reason::PerformanceImpact)
        };
        let in_any_case = self.refusal_to_go(Leaving::Replaced).filter(|_| self.replaceable);
        match in_any_case.or_else(|| self.refusal_to_go(Leaving::ForGood)) {
            Some(refusal) if !self.is_allowed() || !found.is_some_and(is_wish) => Some(refusal),
            _ => found,
        }
    }

    /// Has it kept by the rules as they were found before.
    pub(crate) fn stay_as(&mut self, before: &Self) {
        self.verdicts.clone_from(&before.verdicts);
        self.replaceable = before.replaceable;
    }

    pub fn refusals(&self) -> impl Iterator<Item = &Refusal> {
        self.verdicts.iter().filter_map(|verdict| verdict.refusal.as_ref())
    }

    /// The pods that would have to move, if the rules let the node go.
    pub fn evictable(&self) -> Option<impl Iterator<Item = Evictable>> {
        self.is_allowed().then(|| self.movers.iter().map(|pod| Evictable { pod: *pod }))
    }
}

/// Every node of a snapshot judged, and how many may go together.
#[derive(Clone, Debug)]
pub struct Safety {
    /// In the snapshot's order.
    pub nodes: Vec<NodeSafety>,
    pub allowances: Allowances,
}

/// Reasons that are acted on whatever it saves.
pub fn is_forced(reason: DisruptionReason) -> bool {
    match reason {
        DisruptionReason::Empty | DisruptionReason::Underutilized => false,
        DisruptionReason::Overprovisioned
        | DisruptionReason::Drifted
        | DisruptionReason::Expired
        | DisruptionReason::Unhealthy => true,
    }
}

/// Reasons that wait for as long as somebody protects the node.
pub fn can_wait(reason: DisruptionReason) -> bool {
    match reason {
        DisruptionReason::Empty
        | DisruptionReason::Underutilized
        | DisruptionReason::Overprovisioned
        | DisruptionReason::Drifted => true,
        DisruptionReason::Expired | DisruptionReason::Unhealthy => false,
    }
}

fn budget_index(reason: DisruptionReason) -> Option<usize> {
    DisruptionReason::BUDGETED.iter().position(|budgeted| *budgeted == reason)
}

/// Whether the node goes even if its pods are protected. `grace`: its drain has an end.
pub fn overrides_pods(reason: DisruptionReason, grace: bool) -> bool {
    match reason {
        DisruptionReason::Unhealthy => true,
        DisruptionReason::Overprovisioned | DisruptionReason::Drifted | DisruptionReason::Expired => grace,
        DisruptionReason::Empty | DisruptionReason::Underutilized => false,
    }
}

impl Safety {
    pub fn judge(snapshot: &Snapshot) -> Self {
        Self::judge_beside(snapshot, &FixedBitSet::new())
    }

    /// As if every rule let the node go: whoever asks what would become of its pods wants to hear that too. Nothing of what
    /// follows from it is ever done.
    pub(crate) fn suppose_allowed(&mut self, node: usize) {
        let node = &mut self.nodes[node];
        node.replaceable = true;
        node.verdicts.iter_mut().for_each(|verdict| verdict.refusal = None);
    }

    /// The same, where the nodes in `unbudgeted` are only planned: no budget counts them.
    pub(crate) fn judge_beside(snapshot: &Snapshot, unbudgeted: &FixedBitSet) -> Self {
        let pools: FxHashMap<&str, usize> =
            snapshot.pools.iter().enumerate().map(|(index, pool)| (&*pool.name, index)).collect();
        let pool_of = |node: &Node| node.pool.as_ref().and_then(|name| pools.get(&**name)).copied();
        let pods_on = pods_by_node(snapshot);
        let mut budgets_of = BudgetsOfPod::new(snapshot);
        let allowances = Allowances::of(snapshot, &pool_of, unbudgeted);
        let nodes = snapshot
            .nodes
            .iter()
            .zip(&pods_on)
            .enumerate()
            .map(|(index, (node, pods))| {
                let movers: Vec<usize> =
                    pods.iter().copied().filter(|pod| must_move(&snapshot.pods[*pod])).collect();
                let cost = movers
                    .iter()
                    .map(|pod| DisruptionCost::of_pod(&snapshot.pods[*pod]))
                    .fold(DisruptionCost::NODE, DisruptionCost::plus);
                let mut draws: FxHashMap<usize, u32> = FxHashMap::default();
                let mut doubly_covered = None;
                for pod in &movers {
                    let budgets = budgets_of.pod(&snapshot.pods[*pod]);
                    for budget in budgets {
                        *draws.entry(*budget).or_insert(0) += 1;
                    }
                    if budgets.len() > 1 {
                        doubly_covered.get_or_insert(*pod);
                    }
                }
                let mut budget_draws: Vec<(usize, u32)> = draws.into_iter().collect();
                budget_draws.sort_unstable();
                let reason = reason_of(node, &movers);
                if overrides_pods(reason, node.disruption.termination_grace_secs.is_some()) {
                    budget_draws.clear();
                }
                let pool = pool_of(node);
                let mut safety = NodeSafety {
                    reason,
                    verdicts: Vec::new(),
                    cost,
                    pool,
                    portion: pool
                        .map(|pool| Portion::of_node(&snapshot.pools[pool], node))
                        .unwrap_or_default(),
                    movers,
                    budget_draws,
                    doubly_covered,
                    budgeted: !unbudgeted.contains(index),
                    replaceable: is_replaceable(reason, pool.map(|pool| &snapshot.pools[pool])),
                };
                let judged = Judged {
                    snapshot,
                    node,
                    pool: pool.map(|pool| &snapshot.pools[pool]),
                    pods,
                    safety: &safety,
                };
                safety.verdicts = judged.verdicts(&allowances);
                safety
            })
            .collect();
        Self { nodes, allowances }
    }
}

/// Whether something may be bought for the pods of a node that goes for this reason.
fn is_replaceable(reason: DisruptionReason, pool: Option<&Pool>) -> bool {
    let wants_none = |pool: &Pool| pool.disruption.replacement.barred.is_some();
    match reason {
        DisruptionReason::Empty => false,
        DisruptionReason::Underutilized => !pool.is_some_and(wants_none),
        DisruptionReason::Overprovisioned
        | DisruptionReason::Drifted
        | DisruptionReason::Expired
        | DisruptionReason::Unhealthy => true,
    }
}

/// The most urgent reason to take the node away.
fn reason_of(node: &Node, movers: &[usize]) -> DisruptionReason {
    let saving = if movers.is_empty() { DisruptionReason::Empty } else { DisruptionReason::Underutilized };
    forced_reason(node).unwrap_or(saving)
}

/// The most urgent reason why the node itself has to go.
pub fn forced_reason(node: &Node) -> Option<DisruptionReason> {
    let rules = &node.disruption;
    [
        (rules.unhealthy.is_some(), DisruptionReason::Unhealthy),
        (rules.expired, DisruptionReason::Expired),
        (rules.drifted.is_some(), DisruptionReason::Drifted),
        (rules.surplus, DisruptionReason::Overprovisioned),
    ]
    .into_iter()
    .find_map(|(holds, reason)| holds.then_some(reason))
}

/// Whether the pod needs another place when its node goes.
fn must_move(pod: &Pod) -> bool {
    !pod.deleting && !pod.belongs_to_node()
}

/// The active pods on each node.
fn pods_by_node(snapshot: &Snapshot) -> Vec<Vec<usize>> {
    let index_of: FxHashMap<&str, usize> =
        snapshot.nodes.iter().enumerate().map(|(index, node)| (&*node.name, index)).collect();
    let mut pods = vec![Vec::new(); snapshot.nodes.len()];
    for (index, pod) in snapshot.pods.iter().enumerate().filter(|(_, pod)| pod.is_active()) {
        if let Some(node) = pod.node.as_ref().and_then(|node| index_of.get(&**node)) {
            pods[*node].push(index);
        }
    }
    pods
}

/// Which PodDisruptionBudgets cover a pod. Asked once for each spec: siblings share theirs.
pub(crate) struct BudgetsOfPod<'a> {
    snapshot: &'a Snapshot,
    by_namespace: FxHashMap<&'a str, Vec<usize>>,
    known: FxHashMap<(*const PodSpec, &'a str), Vec<usize>>,
}

impl<'a> BudgetsOfPod<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot) -> Self {
        let mut by_namespace: FxHashMap<&str, Vec<usize>> = FxHashMap::default();
        for (index, budget) in snapshot.pod_budgets.iter().enumerate() {
            by_namespace.entry(&budget.namespace).or_default().push(index);
        }
        Self { snapshot, by_namespace, known: FxHashMap::default() }
    }

    pub(crate) fn pod(&mut self, pod: &'a Pod) -> &[usize] {
        let Some(candidates) = self.by_namespace.get(&*pod.namespace) else { return &[] };
        let budgets = &self.snapshot.pod_budgets;
        self.known.entry((std::sync::Arc::as_ptr(&pod.spec), &*pod.namespace)).or_insert_with(|| {
            candidates.iter().copied().filter(|budget| budgets[*budget].covers(pod)).collect()
        })
    }
}

/// A node with all that its rules look at.
struct Judged<'a> {
    snapshot: &'a Snapshot,
    node: &'a Node,
    pool: Option<&'a Pool>,
    pods: &'a [usize],
    safety: &'a NodeSafety,
}

impl Judged<'_> {
    /// The rules in the order in which people would ask: the node, its pool, its pods, how many at once.
    fn verdicts(&self, allowances: &Allowances) -> Vec<Verdict> {
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
        judge(true, Reason::NodeStarting, &|| self.in_state(NodeState::Starting));
        judge(true, Reason::NodeDeleting, &|| self.in_state(NodeState::Deleting).or_else(|| self.closed()));
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

    fn node_protected(&self) -> Option<Refusal> {
        let how_long = protected(self.node.disruption.protection)?;
        Some(Reason::NodeProtected.because(format!("the node is marked do-not-disrupt{how_long}")))
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
            Basis::Unknown => "what it uses was not measured lately".to_owned(),
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
        let is_of_control_plane = |pod: &&Pod| {
            *pod.namespace == *SafetyChecks::CONTROL_PLANE_NAMESPACE
                && SafetyChecks::CONTROL_PLANE.iter().any(|part| pod.name.contains(part))
        };
        let pods = self.pods.iter().map(|pod| &self.snapshot.pods[*pod]).filter(|pod| !pod.deleting);
        let pod = pods.into_iter().find(is_of_control_plane)?;
        Some(Reason::SystemPod.because(format!("pod {} is a part of the control plane", pod.id())))
    }

    fn capacity_left(&self) -> Option<Refusal> {
        let percent = self.node.disruption.others_asked_percent?;
        let most = SafetyChecks::ASKED_MAX_PERCENT;
        (percent > most).then(|| {
            Reason::CapacityLeft.because(format!(
                "the group's other nodes would be asked for {percent}% of what they have, and {most}% is the most"
            ))
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
        let Fleet { total, unhealthy, .. } = allowances.pools[self.safety.pool?].fleet;
        let most = REPAIRED.of(total);
        (unhealthy > most).then(|| {
            Reason::TooManyUnhealthy.because(format!(
                "{unhealthy} of the pool's {total} nodes are unhealthy; they are replaced while no more than {most} are"
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
