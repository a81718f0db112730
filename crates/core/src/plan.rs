//! What should change, each step with its reason; and its JSON.

use std::sync::Arc;

use serde::Serialize;

use crate::catalog::CapacityType;
use crate::disruption::{DisruptionCost, DisruptionReason};
use crate::names::{Labels, Text};
use crate::optimization::Optimization;
use crate::pod::Taint;
use crate::reason::Refusal;
use crate::resources::Resources;
use crate::safety;
use crate::snapshot::Snapshot;
use crate::units::Price;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Nodes to buy, in the order of their names.
    pub launches: Vec<Launch>,
    /// Which pod goes where, in an order in which kube-scheduler can bind them: at each bind every
    /// rule holds, given the binds before it. A launched node joins at its first bind. The nodes of a
    /// disruption are gone from its `first_bind` on.
    pub binds: Vec<Bind>,
    /// Pods without a place, in the snapshot's order.
    pub unplaced: Vec<Unplaced>,
    /// Nodes to take away, step by step: after each step every pod has its place, and the steps after it
    /// may be left undone. In the order of what they save for their disruption.
    pub disruptions: Vec<DisruptionStep>,
    /// Why nodes that could be looked at for removal stay, in the snapshot's order. Empty unless removals
    /// were looked for.
    pub kept: Vec<Kept>,
    /// What the priced nodes cost now.
    pub cost_before: Price,
    /// That, with what is bought and without what is taken away.
    pub cost_after: Price,
    /// No legal plan for the placed pods costs less.
    pub lower_bound: Price,
    /// Rounds of work that went into it: the same number gives the same plan.
    pub rounds: u64,
    /// Placed pods that kube-scheduler, left to its own preferences, could leave waiting; `None` where that
    /// was not tried.
    pub may_strand: Option<Vec<usize>>,
}

/// A node to buy. Launches that are alike share what they have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Unique within the plan.
    pub name: Text,
    pub pool: Text,
    pub instance_type: Text,
    pub zone: Text,
    pub capacity_type: CapacityType,
    pub price: Price,
    /// The price is derived, not quoted.
    pub estimated: bool,
    /// All labels the node will have but its hostname.
    pub labels: Arc<Labels>,
    pub taints: Arc<[Taint]>,
    /// What its pods and the DaemonSets ask for together.
    pub requests: Arc<Resources>,
    pub allocatable: Arc<Resources>,
    /// What could be bought instead, cheapest first.
    pub alternatives: Arc<[Alternative]>,
    /// The pool's minValues could not be met and were given up.
    pub min_values_relaxed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Alternative {
    pub instance_type: Text,
    pub zone: Text,
    pub capacity_type: CapacityType,
    pub price_per_hour: Price,
}

/// Nodes that go together, because their pods share what is bought for them or could not move one by one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DisruptionStep {
    /// The most urgent of its nodes' reasons.
    pub reason: DisruptionReason,
    /// What it is called where nodes with pods make room for cheaper ones.
    pub optimization: Option<Optimization>,
    /// Indices into the snapshot's nodes, ascending.
    pub nodes: Vec<usize>,
    /// Indices into the plan's launches, ascending: what is bought for this step alone.
    pub replacements: Vec<usize>,
    /// Where its binds begin among the plan's: they end where those of the next step begin.
    pub first_bind: usize,
    /// How many pods have to move.
    pub pods_moved: usize,
    /// What the nodes cost an hour less what the replacements cost; below zero where it has to be.
    pub saves: Price,
    pub cost: DisruptionCost,
}

impl DisruptionStep {
    pub fn action(&self) -> &'static str {
        if self.replacements.is_empty() { "delete" } else { "replace" }
    }

    /// What is bought in place of one of its launches has to cost less than this, or nothing would be saved. `None` where
    /// nothing need be.
    pub fn price_end(&self, launch: &Launch) -> Option<Price> {
        let launches = i64::try_from(self.replacements.len()).unwrap_or(i64::MAX).max(1);
        let share = Price::from_micro_usd(self.saves.micro_usd() / launches);
        (!safety::is_forced(self.reason)).then(|| launch.price.plus(share))
    }

    /// What it saves for each unit of disruption.
    pub fn saves_per_cost(&self) -> Price {
        self.cost.per_unit(self.saves)
    }
}

/// A node that is not taken away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// An index into the snapshot's nodes.
    pub node: usize,
    /// What stands in the way first.
    pub refusal: Refusal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Host {
    /// An index into the snapshot's nodes.
    Node(usize),
    /// An index into the plan's launches.
    Launch(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bind {
    /// An index into the snapshot's pods.
    pub pod: usize,
    pub host: Host,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unplaced {
    /// An index into the snapshot's pods.
    pub pod: usize,
    /// One for each pool, or a single one without a pool where no pool could help.
    pub refusals: Vec<PoolRefusal>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct PoolRefusal {
    /// `null` where the reason stands before any pool is looked at.
    pub pool: Option<Text>,
    #[serde(flatten)]
    pub refusal: Refusal,
}

impl Launch {
    /// What is bought, for people.
    pub fn words(&self) -> String {
        let Self { instance_type, zone, capacity_type, price, .. } = self;
        format!("{instance_type} in {zone} as {capacity_type}, ${price} an hour")
    }
}

impl Plan {
    /// Whether there is anything to buy or to take away.
    pub fn changes_something(&self) -> bool {
        !self.launches.is_empty() || !self.disruptions.is_empty()
    }

    /// How far above the lower bound the cost is at most, in hundredths of a percent of the cost.
    pub fn gap_basis_points(&self) -> u32 {
        let cost = i128::from(self.cost_after.micro_usd());
        let bound = i128::from(self.lower_bound.micro_usd());
        if cost <= 0 || bound >= cost {
            return 0;
        }
        // Rounded up: a gap is never reported smaller than it is.
        u32::try_from(((cost - bound) * 10_000 + cost - 1) / cost).unwrap_or(10_000)
    }

    /// How many pods of nodes that go are moved.
    pub fn pods_moved(&self) -> usize {
        self.disruptions.iter().map(|step| step.pods_moved).sum()
    }

    pub fn nodes_removed(&self) -> usize {
        self.disruptions.iter().map(|step| step.nodes.len()).sum()
    }

    /// The pods on each launch, in the snapshot's order.
    pub fn pods_by_launch(&self) -> Vec<Vec<usize>> {
        let mut pods = vec![Vec::new(); self.launches.len()];
        for bind in &self.binds {
            if let Host::Launch(launch) = bind.host {
                pods[launch].push(bind.pod);
            }
        }
        for pods in &mut pods {
            pods.sort_unstable();
        }
        pods
    }

    /// The newly placed pods on each existing node that gets any, in the snapshot's order.
    pub fn pods_by_node(&self) -> Vec<(usize, Vec<usize>)> {
        let mut pods = std::collections::BTreeMap::<usize, Vec<usize>>::new();
        for bind in &self.binds {
            if let Host::Node(node) = bind.host {
                pods.entry(node).or_default().push(bind.pod);
            }
        }
        for pods in pods.values_mut() {
            pods.sort_unstable();
        }
        pods.into_iter().collect()
    }

    /// The plan as it is printed: `-o json` and `-o yaml`.
    pub fn document<'a>(&'a self, snapshot: &'a Snapshot, skipped: &'a [Skipped]) -> PlanDocument<'a> {
        let waiting_placed = self.binds.len().saturating_sub(self.pods_moved());
        let pod_ids = |pods: &[usize]| pods.iter().map(|pod| snapshot.pods[*pod].id()).collect::<Vec<_>>();
        PlanDocument {
            api_version: "berth.dev/v1alpha1",
            kind: "Plan",
            summary: SummaryDocument {
                pods_pending: waiting_placed + self.unplaced.len(),
                pods_placed: waiting_placed,
                pods_unplaced: self.unplaced.len(),
                nodes_new: self.launches.len(),
                nodes_removed: self.nodes_removed(),
                cost_per_hour_before: self.cost_before,
                cost_per_hour_after: self.cost_after,
                lower_bound_per_hour: self.lower_bound,
                gap_percent: f64::from(self.gap_basis_points()) / 100.0,
                rounds: self.rounds,
                pods_moved: self.pods_moved(),
                nodes_unpriced: snapshot.nodes.iter().filter(|node| node.price.is_none()).count(),
                prices_estimated: self.launches.iter().any(|launch| launch.estimated),
            },
            launch: self
                .launches
                .iter()
                .zip(self.pods_by_launch())
                .map(|(launch, pods)| LaunchDocument {
                    name: &launch.name,
                    pool: &launch.pool,
                    instance_type: &launch.instance_type,
                    zone: &launch.zone,
                    capacity_type: launch.capacity_type,
                    price_per_hour: launch.price,
                    price_estimated: launch.estimated,
                    labels: &launch.labels,
                    taints: launch.taints.iter().map(TaintDocument::of).collect(),
                    requests: &launch.requests,
                    allocatable: &launch.allocatable,
                    alternatives: &launch.alternatives,
                    min_values_relaxed: launch.min_values_relaxed,
                    pods: pod_ids(&pods),
                })
                .collect(),
            place: self
                .pods_by_node()
                .into_iter()
                .map(|(node, pods)| PlaceDocument { node: &snapshot.nodes[node].name, pods: pod_ids(&pods) })
                .collect(),
            unplaced: self
                .unplaced
                .iter()
                .map(|unplaced| UnplacedDocument {
                    pod: snapshot.pods[unplaced.pod].id(),
                    reasons: &unplaced.refusals,
                })
                .collect(),
            disrupt: self.disruptions.iter().map(|step| self.step_document(snapshot, step)).collect(),
            kept: self
                .kept
                .iter()
                .map(|kept| KeptDocument { node: &snapshot.nodes[kept.node].name, refusal: &kept.refusal })
                .collect(),
            may_strand: self.may_strand.as_deref().map(pod_ids),
            skipped,
        }
    }
}

impl Plan {
    fn step_document<'a>(&'a self, snapshot: &'a Snapshot, step: &DisruptionStep) -> StepDocument<'a> {
        StepDocument {
            action: step.action(),
            reason: step.reason,
            optimization: step.optimization,
            nodes: step.nodes.iter().map(|node| &*snapshot.nodes[*node].name).collect(),
            replacements: step.replacements.iter().map(|launch| &*self.launches[*launch].name).collect(),
            pods_moved: step.pods_moved,
            saves_per_hour: step.saves,
            disruption_cost: step.cost.to_string(),
            saves_per_disruption: step.saves_per_cost(),
        }
    }
}

/// Objects of a kind that Berth has no use for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Skipped {
    pub kind: String,
    pub count: usize,
}

/// The stable JSON form. Keys may be added, never changed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanDocument<'a> {
    api_version: &'static str,
    kind: &'static str,
    summary: SummaryDocument,
    launch: Vec<LaunchDocument<'a>>,
    place: Vec<PlaceDocument<'a>>,
    unplaced: Vec<UnplacedDocument<'a>>,
    disrupt: Vec<StepDocument<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    kept: Vec<KeptDocument<'a>>,
    /// Placed pods that kube-scheduler's own preferences could leave waiting, where that was tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    may_strand: Option<Vec<String>>,
    skipped: &'a [Skipped],
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct SummaryDocument {
    pods_pending: usize,
    pods_placed: usize,
    pods_unplaced: usize,
    nodes_new: usize,
    nodes_removed: usize,
    cost_per_hour_before: Price,
    cost_per_hour_after: Price,
    lower_bound_per_hour: Price,
    gap_percent: f64,
    rounds: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pods_moved: usize,
    /// Nodes of which no price is known: they are not in the costs.
    nodes_unpriced: usize,
    prices_estimated: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct LaunchDocument<'a> {
    name: &'a str,
    pool: &'a str,
    instance_type: &'a str,
    zone: &'a str,
    capacity_type: CapacityType,
    price_per_hour: Price,
    price_estimated: bool,
    labels: &'a Labels,
    taints: Vec<TaintDocument<'a>>,
    requests: &'a Resources,
    allocatable: &'a Resources,
    alternatives: &'a [Alternative],
    min_values_relaxed: bool,
    pods: Vec<String>,
}

#[derive(Debug, Serialize)]
struct TaintDocument<'a> {
    key: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    value: &'a str,
    effect: &'static str,
}

impl<'a> TaintDocument<'a> {
    fn of(taint: &'a Taint) -> Self {
        Self { key: &taint.key, value: &taint.value, effect: taint.effect.name() }
    }
}

#[derive(Debug, Serialize)]
struct PlaceDocument<'a> {
    node: &'a str,
    pods: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct StepDocument<'a> {
    action: &'static str,
    reason: DisruptionReason,
    #[serde(skip_serializing_if = "Option::is_none")]
    optimization: Option<Optimization>,
    nodes: Vec<&'a str>,
    replacements: Vec<&'a str>,
    pods_moved: usize,
    saves_per_hour: Price,
    /// In units of about one pod moved.
    disruption_cost: String,
    saves_per_disruption: Price,
}

#[derive(Debug, Serialize)]
struct KeptDocument<'a> {
    node: &'a str,
    #[serde(flatten)]
    refusal: &'a Refusal,
}

#[derive(Debug, Serialize)]
struct UnplacedDocument<'a> {
    pod: String,
    reasons: &'a [PoolRefusal],
}
