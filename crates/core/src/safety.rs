//! What may be evicted, and which nodes may be taken away at all.
//!
//! Only here can an [`Evictable`] be made, so nothing else in Berth can move a running pod that some rule
//! protects. Every rule that applies to a node is judged, not only up to the first that refuses: whoever
//! asks why a node is still here wants all of the answer.

mod allowances;
mod rules;

use fixedbitset::FixedBitSet;
use rustc_hash::FxHashMap;

pub use allowances::{Allowances, Fleet};
use rules::Judged;

use crate::disruption::{DisruptionCost, DisruptionReason, Leaving};
use crate::division::Portion;
use crate::node::Node;
use crate::pod::{Pod, PodSpec};
use crate::pool::Pool;
use crate::reason::{Reason, Refusal};
use crate::snapshot::Snapshot;

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
