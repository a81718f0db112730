//! A report as the page shows it: plain data, and no more of it than a page can show.

use std::collections::BTreeMap;

use berth_api::Timestamp;
use berth_api::resources::shared::{Condition, ConditionStatus};
use berth_core::disruption::{DisruptionReason, Leaving};
use berth_core::names::{self, Text};
use berth_core::node::{Node, NodeState};
use berth_core::plan::{Host, Plan, PoolRefusal};
use berth_core::pod::{Pod, PodPhase};
use berth_core::pool::{Limits, Pool};
use berth_core::reason::Reason;
use berth_core::resources::{CPU, MEMORY, PODS, format_amount};
use berth_core::safety::Fleet;
use berth_core::snapshot::Snapshot;
use berth_core::units::Price;
use serde::Serialize;

use crate::claim::{Claim, FAILED};
use crate::dialect::PoolObject;
use crate::journal::Decision;
use crate::operator::Mode;
use crate::page::ControlsView;
use crate::report::Report;
use crate::sight::secs_between;

/// So many pods on nodes are named, over all nodes; of the others only what they ask for is told.
const PODS_MAX: usize = 4000;
/// So many pods that wait are named, those without a place first.
const PENDING_MAX: usize = 400;
/// So many claims are named, those that are under way first.
const CLAIMS_MAX: usize = 400;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct View<'r> {
    mode: &'static str,
    cluster: &'r str,
    leader: bool,
    at: String,
    /// Why nothing is taken away just now.
    missing: Vec<String>,
    cost: Cost,
    cost_over_time: Vec<CostAt>,
    pools: Vec<PoolView<'r>>,
    nodes: Vec<NodeView<'r>>,
    pending: Vec<PendingView<'r>>,
    pending_more: usize,
    decisions: &'r [Decision],
    claims: Vec<ClaimView<'r>>,
    claims_more: usize,
    controls: Option<&'r ControlsView>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Cost {
    per_hour: Price,
    /// None before the first plan.
    lower_bound_per_hour: Option<Price>,
}

#[derive(Debug, Serialize)]
struct CostAt {
    at: String,
    #[serde(flatten)]
    cost: Cost,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PoolView<'r> {
    name: &'r str,
    ready: bool,
    message: Option<String>,
    cost_per_hour: Price,
    limits: Vec<LimitView<'r>>,
    /// How many more of its nodes may go now, for a reason that can wait.
    disruptions_allowed: u32,
    disrupting: usize,
}

#[derive(Debug, Serialize)]
struct LimitView<'r> {
    resource: &'r str,
    used: String,
    limit: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct NodeView<'r> {
    name: &'r str,
    pool: Option<&'r str>,
    phase: Phase,
    /// Why it goes.
    reason: Option<&'static str>,
    instance_type: Option<&'r str>,
    zone: Option<&'r str>,
    capacity_type: Option<&'r str>,
    price_per_hour: Option<Price>,
    allocatable: Room,
    pods: Vec<PodView<'r>>,
    pods_more: usize,
    /// What those ask for that are not named.
    pods_more_ask: Ask,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
enum Phase {
    Launching,
    Registering,
    Initializing,
    Ready,
    Disrupting,
    Draining,
    Terminating,
    /// It never came up, and is kept to be seen.
    Failed,
    /// Not bought by a pool.
    Unmanaged,
}

#[derive(Debug, Serialize)]
struct Room {
    #[serde(flatten)]
    room: Ask,
    pods: i64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Ask {
    cpu_milli: i64,
    memory_bytes: i64,
}

#[derive(Debug, Serialize)]
struct PodView<'r> {
    namespace: &'r str,
    name: &'r str,
    #[serde(flatten)]
    ask: Ask,
    phase: &'static str,
    daemon: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PendingView<'r> {
    namespace: &'r str,
    name: &'r str,
    #[serde(flatten)]
    ask: Ask,
    since_secs: u64,
    goes_to: Option<String>,
    /// Why it has no place.
    reasons: &'r [PoolRefusal],
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ClaimView<'r> {
    name: &'r str,
    phase: Phase,
    node: Option<&'r str>,
    instance_type: Option<&'r str>,
    zone: Option<&'r str>,
    capacity_type: Option<&'r str>,
    age_secs: u64,
    message: Option<&'r str>,
}

/// What a report comes to, for people to look at.
pub(crate) fn portrait<'r>(report: &'r Report, controls: Option<&'r ControlsView>) -> View<'r> {
    let snapshot = &report.snapshot;
    let lives = Lives::of(report);
    let (pending, pending_more) = pending(report);
    let (claims, claims_more) = claims(report);
    let now = cost_now(report);
    let points = report.course.points().map(|point| CostAt {
        at: written(point.at),
        cost: Cost { per_hour: point.cost, lower_bound_per_hour: Some(point.lower_bound) },
    });
    View {
        mode: match (report.mode, controls) {
            (Mode::Shadow, _) => "shadow",
            (Mode::Act, Some(_)) => "demo",
            (Mode::Act, None) => "run",
        },
        cluster: &report.cluster,
        // Who only looks on needs no lead for that.
        leader: report.is_leader || report.mode == Mode::Shadow,
        at: written(report.at),
        missing: report.blind_spots.iter().map(ToString::to_string).collect(),
        cost: now,
        cost_over_time: points.chain([CostAt { at: written(report.at), cost: now }]).collect(),
        pools: snapshot.pools.iter().map(|pool| pool_view(report, pool, &lives)).collect(),
        nodes: nodes(report, &lives),
        pending,
        pending_more,
        decisions: &report.decisions,
        claims,
        claims_more,
        controls,
    }
}

/// What the nodes cost now. The bound is that of the last plan for everything, where it was made for pods like these; they
/// may still wait, so that what is paid now is less. Else nothing is proved, not even that it could be had for nothing.
fn cost_now(report: &Report) -> Cost {
    let snapshot = &report.snapshot;
    let per_hour =
        snapshot.nodes.iter().filter_map(|node| snapshot.cost_of(node)).fold(Price::ZERO, Price::plus);
    let bound = report.lower_bound().map(|bound| bound.min(per_hour));
    Cost { per_hour, lower_bound_per_hour: bound }
}

/// Which claim each node is of, and why it goes.
struct Lives<'r> {
    report: &'r Report,
    claims: BTreeMap<&'r str, &'r Claim>,
}

impl<'r> Lives<'r> {
    fn of(report: &'r Report) -> Self {
        let mut claims = BTreeMap::new();
        for (name, claim) in &report.claims {
            // Until it has joined, a node is known by its claim's name.
            claims.insert(&**name, &**claim);
        }
        for claim in report.claims.values() {
            claims.extend(claim.node().map(|node| (node, &**claim)));
        }
        Self { report, claims }
    }

    fn phase(&self, node: &Node) -> Phase {
        match self.claims.get(&*node.name) {
            Some(claim) => phase(claim, self.report),
            None => match (&node.pool, node.state) {
                (None, _) => Phase::Unmanaged,
                (Some(_), NodeState::Starting) => Phase::Initializing,
                (Some(_), NodeState::Running) => Phase::Ready,
                (Some(_), NodeState::Deleting) => Phase::Draining,
            },
        }
    }

    /// A label of the node, or of its claim: that has it earlier.
    fn label(&self, node: &'r Node, name: &str) -> Option<&'r str> {
        let of_claim = || self.claims.get(&*node.name)?.label(name);
        node.labels.get(name).map(|value| &**value).or_else(of_claim)
    }

    fn reason(&self, node: &Node) -> Option<&'static str> {
        let claim = self.claims.get(&*node.name)?;
        leaving(claim, self.report).map(DisruptionReason::name)
    }
}

fn leaving(claim: &Claim, report: &Report) -> Option<DisruptionReason> {
    report.leaving.get(&claim.name).copied()
}

fn phase(claim: &Claim, report: &Report) -> Phase {
    if claim.is_deleting() {
        let is_empty = claim.holds("Drained") || claim.node().is_none();
        return if is_empty { Phase::Terminating } else { Phase::Draining };
    }
    if claim.holds(FAILED) {
        return Phase::Failed;
    }
    if leaving(claim, report).is_some() {
        return Phase::Disrupting;
    }
    let steps = [
        ("Launched", Phase::Launching),
        ("Registered", Phase::Registering),
        ("Initialized", Phase::Initializing),
    ];
    let next = steps.into_iter().find(|(condition, _)| !claim.holds(condition));
    next.map_or(Phase::Ready, |(_, phase)| phase)
}

fn pool_view<'r>(report: &'r Report, pool: &'r Pool, lives: &Lives<'r>) -> PoolView<'r> {
    let snapshot = &report.snapshot;
    let nodes: Vec<&Node> =
        snapshot.nodes.iter().filter(|node| node.pool.as_ref() == Some(&pool.name)).collect();
    let object = report.pools.get(&pool.name).map(|object| &**object);
    let trouble = pool.blocked.as_ref().map(ToString::to_string).or_else(|| object?.trouble());
    // Nothing is wrong with one that waits.
    let is_resting =
        matches!(&pool.blocked, Some(why) if matches!(why.reason, Reason::PoolResting | Reason::PoolPaused));
    let is_going =
        |node: &&&Node| matches!(lives.phase(node), Phase::Disrupting | Phase::Draining | Phase::Terminating);
    PoolView {
        name: &pool.name,
        ready: trouble.is_none() || is_resting,
        message: trouble,
        cost_per_hour: nodes.iter().filter_map(|node| snapshot.cost_of(node)).fold(Price::ZERO, Price::plus),
        limits: limits(snapshot, pool, object, &nodes),
        disruptions_allowed: disruptions_allowed(pool, &nodes),
        disrupting: nodes.iter().filter(is_going).count(),
    }
}

/// What counts is what the pool has committed itself to, which is never less than what it has.
fn limits<'r>(
    snapshot: &Snapshot,
    pool: &'r Pool,
    object: Option<&PoolObject>,
    nodes: &[&Node],
) -> Vec<LimitView<'r>> {
    let record = object.and_then(|object| object.ledger().ok()).unwrap_or_default();
    let of_resources = pool.limits.resources.iter().map(|(resource, limit)| {
        let cost = |node: &Node| snapshot.cost_of(node).unwrap_or(Price::ZERO);
        let has: i64 = nodes.iter().map(|node| Limits::amount(resource, &node.capacity, cost(node))).sum();
        let committed: i64 = record.claims.values().map(|capacity| capacity.get(resource)).sum();
        LimitView {
            resource,
            used: format_amount(resource, has.max(committed)),
            limit: format_amount(resource, limit),
        }
    });
    let of_nodes = pool.limits.nodes.map(|limit| LimitView {
        resource: "nodes",
        used: nodes.len().max(record.claims.len()).to_string(),
        limit: limit.to_string(),
    });
    of_resources.chain(of_nodes).collect()
}

/// For the reason that has most left.
fn disruptions_allowed(pool: &Pool, nodes: &[&Node]) -> u32 {
    let fleet = Fleet::of(nodes.iter().copied());
    let allowed = |reason| fleet.allowed(pool, reason, Leaving::ForGood);
    DisruptionReason::BUDGETED.into_iter().map(allowed).max().unwrap_or(0)
}

fn nodes<'r>(report: &'r Report, lives: &Lives<'r>) -> Vec<NodeView<'r>> {
    let snapshot = &report.snapshot;
    let mut pods_on: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
    for pod in snapshot.pods.iter().filter(|pod| pod.is_active()) {
        if let Some(node) = &pod.node {
            pods_on.entry(node).or_default().push(pod);
        }
    }
    let on_nodes: usize = pods_on.values().map(Vec::len).sum();
    let named_max = if on_nodes <= PODS_MAX { usize::MAX } else { PODS_MAX / snapshot.nodes.len().max(1) };
    let view = |node: &'r Node| {
        let pods = pods_on.get(&*node.name).map_or(&[][..], Vec::as_slice);
        let (named, others) = pods.split_at(pods.len().min(named_max));
        NodeView {
            name: &node.name,
            pool: node.pool.as_deref(),
            phase: lives.phase(node),
            reason: lives.reason(node),
            instance_type: lives.label(node, names::INSTANCE_TYPE),
            zone: lives.label(node, names::ZONE),
            capacity_type: lives.label(node, names::CAPACITY_TYPE),
            price_per_hour: node.price,
            allocatable: Room {
                room: Ask {
                    cpu_milli: node.allocatable.get(CPU),
                    memory_bytes: node.allocatable.get(MEMORY),
                },
                pods: node.allocatable.get(PODS),
            },
            pods: named.iter().map(|pod| pod_view(pod)).collect(),
            pods_more: others.len(),
            pods_more_ask: others.iter().map(|pod| Ask::of(pod)).fold(Ask::default(), Ask::plus),
        }
    };
    snapshot.nodes.iter().map(view).collect()
}

fn pod_view(pod: &Pod) -> PodView<'_> {
    PodView {
        namespace: &pod.namespace,
        name: &pod.name,
        ask: Ask::of(pod),
        phase: match pod.phase {
            _ if pod.deleting => "Terminating",
            PodPhase::Pending => "Pending",
            PodPhase::Running => "Running",
            PodPhase::Succeeded => "Succeeded",
            PodPhase::Failed => "Failed",
        },
        daemon: pod.daemon_set.is_some(),
    }
}

impl Ask {
    fn of(pod: &Pod) -> Self {
        let requests = &pod.spec.requests;
        Self { cpu_milli: requests.get(CPU), memory_bytes: requests.get(MEMORY) }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            cpu_milli: self.cpu_milli.saturating_add(other.cpu_milli),
            memory_bytes: self.memory_bytes.saturating_add(other.memory_bytes),
        }
    }
}

/// Pods that wait for a node, those without a place first, and how many more there are.
fn pending(report: &Report) -> (Vec<PendingView<'_>>, usize) {
    let snapshot = &report.snapshot;
    let prospects = Prospects::of(report.waiting.as_deref());
    let is_waiting = |pod: &Pod| {
        pod.node.is_none() && pod.is_active() && !pod.deleting && !pod.belongs_to_node() && pod.exists()
    };
    let mut waiting: Vec<(usize, &Pod)> =
        snapshot.pods.iter().enumerate().filter(|(_, pod)| is_waiting(pod)).collect();
    waiting.sort_by_key(|(index, _)| prospects.hosts.contains_key(index));
    let more = waiting.len().saturating_sub(PENDING_MAX);
    waiting.truncate(PENDING_MAX);
    let views = waiting.into_iter().map(|(index, pod)| {
        let since = report.waiting_since.get(&(pod.namespace.clone(), pod.name.clone()));
        let reasons = prospects.refusals.get(&index).copied().unwrap_or_default();
        let host = prospects.hosts.get(&index).map(|host| host_name(report, *host));
        let nominated = pod.nominated.as_ref().map(ToString::to_string);
        PendingView {
            namespace: &pod.namespace,
            name: &pod.name,
            ask: Ask::of(pod),
            since_secs: since.map_or(0, |since| secs_between(*since, report.at)),
            goes_to: host.or(nominated.filter(|_| reasons.is_empty())),
            reasons,
        }
    });
    (views.collect(), more)
}

/// What the plan has for each pod, by its index.
#[derive(Default)]
struct Prospects<'r> {
    hosts: BTreeMap<usize, Host>,
    refusals: BTreeMap<usize, &'r [PoolRefusal]>,
}

impl<'r> Prospects<'r> {
    fn of(plan: Option<&'r Plan>) -> Self {
        let Some(plan) = plan else { return Self::default() };
        Self {
            hosts: plan.binds.iter().map(|bind| (bind.pod, bind.host)).collect(),
            refusals: plan
                .unplaced
                .iter()
                .map(|unplaced| (unplaced.pod, unplaced.refusals.as_slice()))
                .collect(),
        }
    }
}

fn host_name(report: &Report, host: Host) -> String {
    let node = match host {
        Host::Node(index) => report.snapshot.nodes.get(index).map(|node| node.name.to_string()),
        Host::Launch(_) => None,
    };
    // Its claim is being made, and has a name in the next report.
    node.unwrap_or_else(|| "a new node".to_owned())
}

/// Claims, those that are under way first, and how many more there are.
fn claims(report: &Report) -> (Vec<ClaimView<'_>>, usize) {
    let mut claims: Vec<(&Text, &Claim, Phase)> =
        report.claims.iter().map(|(name, claim)| (name, &**claim, phase(claim, report))).collect();
    claims.sort_by_key(|(_, _, phase)| *phase == Phase::Ready);
    let more = claims.len().saturating_sub(CLAIMS_MAX);
    claims.truncate(CLAIMS_MAX);
    let views = claims.into_iter().map(|(name, claim, phase)| ClaimView {
        name,
        phase,
        node: claim.node(),
        instance_type: claim.label(names::INSTANCE_TYPE),
        zone: claim.label(names::ZONE),
        capacity_type: claim.label(names::CAPACITY_TYPE),
        age_secs: claim.created.map_or(0, |created| secs_between(created, report.at)),
        message: leaving(claim, report).map(DisruptionReason::name).or_else(|| unfinished(claim)),
    });
    (views.collect(), more)
}

/// What a claim says of why it failed, or of the first step that it has not done.
fn unfinished(claim: &Claim) -> Option<&str> {
    if let Some(failure) = claim.held(FAILED) {
        return failure.message.as_deref();
    }
    let is_open = |condition: &&Condition| {
        let is_step = ["Launched", "Registered", "Initialized"].contains(&condition.type_.as_str());
        is_step && condition.status != ConditionStatus::True
    };
    let open = claim.conditions.iter().find(is_open)?;
    open.message.as_deref().filter(|message| !message.is_empty())
}

fn written(at: Timestamp) -> String {
    format!("{at:.3}")
}

#[cfg(test)]
mod tests;
