//! What the newest report comes to in numbers. Nothing of it is worked out unless somebody asks.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use berth_cloud::provider::Trouble;
use berth_core::disruption::{DisruptionReason, Leaving};
use berth_core::names;
use berth_core::node::Node;
use berth_core::pod::{Pod, PodPhase};
use berth_core::requirement::{Expression, NodeTerm};
use berth_core::resources::{CPU, MEMORY, Resources, USD_PER_HOUR};
use berth_core::safety::Fleet;
use berth_core::snapshot::Snapshot;
use berth_core::units::Price;
use berth_core::volume::VolumeDemand;
use tokio::time::Instant;

use super::Samples;
use super::table::{self, Gauge};
use crate::dialect::PoolId;
use crate::report::Report;
use crate::sight::secs_between;

pub(super) fn of_report(samples: &mut Samples, report: &Report, lease: &str) {
    samples.set(table::BUILD, [env!("CARGO_PKG_VERSION")], 1.0);
    samples.set(table::MASTER, [lease], f64::from(u8::from(report.is_leader)));
    view(samples, report);
    let by_node = pods_by_node(&report.snapshot);
    nodes(samples, &report.snapshot, &by_node);
    ages(samples, report);
    zones(samples, &report.snapshot);
    pods(samples, report);
    pools(samples, report);
    money(samples, report, &by_node);
}

/// How well the cluster is seen.
fn view(samples: &mut Samples, report: &Report) {
    let secs_since = |instant: Option<Instant>| instant.map(|then| then.elapsed().as_secs_f64());
    for (kind, heard) in &report.heard {
        if let Some(secs) = secs_since(*heard) {
            samples.set(table::WATCH_AGE, [kind], secs);
        }
    }
    if let Some(secs) = secs_since(report.finished) {
        samples.set(table::ROUND_AGE, [], secs);
    }
    let is_synced = report.finished.is_some() && report.blind_spots.is_empty();
    samples.set(table::STATE_SYNCED, [], f64::from(u8::from(is_synced)));
    let unsynced = report.blind_since.map_or(Duration::ZERO, |since| since.elapsed());
    samples.set(table::STATE_UNSYNCED, [], unsynced.as_secs_f64());
    samples.set(table::STATE_NODES, [], count(report.snapshot.nodes.len()));
    let left_out = report.troubles.iter().filter(|trouble| matches!(trouble, Trouble::Unreadable(_))).count();
    samples.set(table::UNREADABLE, [], count(report.problems.len() + left_out));
}

type PodsByNode<'s> = BTreeMap<&'s str, Vec<&'s Pod>>;

fn pods_by_node(snapshot: &Snapshot) -> PodsByNode<'_> {
    let mut by_node = PodsByNode::new();
    for pod in snapshot.pods.iter().filter(|pod| pod.is_active()) {
        if let Some(node) = &pod.node {
            by_node.entry(node).or_default().push(pod);
        }
    }
    by_node
}

fn nodes(samples: &mut Samples, snapshot: &Snapshot, by_node: &PodsByNode<'_>) {
    let (mut asked, mut given) = (Resources::new(), Resources::new());
    for node in &snapshot.nodes {
        let (mut pods, mut daemons) = (Resources::new(), Resources::new());
        for pod in by_node.get(&*node.name).into_iter().flatten() {
            pods.add(&pod.spec.requests);
            if pod.daemon_set.is_some() {
                daemons.add(&pod.spec.requests);
            }
        }
        asked.add(&pods);
        given.add(&node.allocatable);
        let overhead = node.capacity.minus(&node.allocatable);
        for (metric, resources) in [
            (table::NODES_ALLOCATABLE, &node.allocatable),
            (table::NODES_POD_REQUESTS, &pods),
            (table::NODES_DAEMON_REQUESTS, &daemons),
            (table::NODES_OVERHEAD, &overhead),
        ] {
            of_node(samples, metric, node, resources);
        }
    }
    for resource in [CPU, MEMORY] {
        let (asked, given) = (amount(resource, asked.get(resource)), amount(resource, given.get(resource)));
        let percent = if given > 0.0 { 100.0 * asked / given } else { 0.0 };
        samples.set(table::UTILIZATION, [resource], percent);
    }
}

/// How long ago nodes joined that claims became.
fn ages(samples: &mut Samples, report: &Report) {
    let snapshot = &report.snapshot;
    for claim in report.claims.values() {
        let Some(joined) = claim.held_since("Registered") else { continue };
        let node = snapshot.nodes.binary_search_by(|node| (*node.name).cmp(&claim.node_name));
        let Some(node) = node.ok().and_then(|index| snapshot.nodes.get(index)) else { continue };
        let secs = secs_between(joined, report.at);
        let pool = node.pool.as_deref().unwrap_or_default();
        let [instance_type, capacity_type, zone, arch, os] = NODE_LABELS.map(|label| label_of(node, label));
        let labels = [&*node.name, pool, instance_type, capacity_type, zone, arch, os];
        samples.set(table::NODES_AGE, labels, float(i64::try_from(secs).unwrap_or(i64::MAX)));
    }
}

/// Where pods that wait may be: in one zone, several or none.
fn zones(samples: &mut Samples, snapshot: &Snapshot) {
    let types = snapshot.pools.iter().flat_map(|pool| pool.types.iter());
    let sold = types.flat_map(|known| &known.offerings).map(|offering| &*offering.zone);
    let there = snapshot.nodes.iter().map(|node| label_of(node, names::ZONE)).filter(|zone| !zone.is_empty());
    let zones: BTreeSet<&str> = sold.chain(there).collect();
    let waits = |pod: &&Pod| pod.exists() && pod.node.is_none() && pod.is_active() && !pod.deleting;
    for pod in snapshot.pods.iter().filter(waits) {
        let volumes = snapshot.storage.demands(pod);
        let may_be = |zone: &&&str| volumes.as_ref().is_ok_and(|volumes| admits_zone(pod, volumes, zone));
        let mut possible = zones.iter().filter(may_be);
        let zone = match (possible.next(), possible.next()) {
            (None, _) => "none",
            (Some(zone), None) => zone,
            (Some(_), Some(_)) => "flexible",
        };
        samples.add(table::ZONAL_PODS, [zone], 1.0);
    }
}

/// Whether what the pod and its volumes ask of a node's zone, whatever else they ask, lets it be in this one.
fn admits_zone(pod: &Pod, volumes: &[VolumeDemand], zone: &str) -> bool {
    let admits =
        |all: &[Expression]| all.iter().all(|one| **one.key() != *names::ZONE || one.matches(Some(zone)));
    let any = |terms: &[NodeTerm]| terms.iter().any(|term| admits(&term.expressions));
    admits(&pod.spec.node_selector)
        && pod.spec.node_affinity.as_ref().is_none_or(|terms| any(terms))
        && volumes.iter().all(|volume| volume.terms.is_empty() || any(&volume.terms))
}

/// What labels tell of a node.
const NODE_LABELS: [&str; 5] =
    [names::INSTANCE_TYPE, names::CAPACITY_TYPE, names::ZONE, names::ARCH, names::OS];

fn of_node(samples: &mut Samples, metric: Gauge<8>, node: &Node, resources: &Resources) {
    let pool = node.pool.as_deref().unwrap_or_default();
    let [instance_type, capacity_type, zone, arch, os] = NODE_LABELS.map(|label| label_of(node, label));
    for (resource, value) in resources.iter() {
        let labels = [&*node.name, pool, instance_type, capacity_type, zone, arch, os, &**resource];
        samples.set(metric, labels, amount(resource, value));
    }
}

fn label_of<'n>(node: &'n Node, label: &str) -> &'n str {
    node.labels.get(label).map(|value| &**value).unwrap_or_default()
}

fn pods(samples: &mut Samples, report: &Report) {
    let snapshot = &report.snapshot;
    let nodes: BTreeMap<&str, &Node> = snapshot.nodes.iter().map(|node| (&*node.name, node)).collect();
    let (mut waiting, mut held) = (0, 0);
    for pod in snapshot.pods.iter().filter(|pod| pod.exists()) {
        let node = pod.node.as_deref().and_then(|name| nodes.get(name));
        let phase = match pod.phase {
            PodPhase::Pending => "Pending",
            PodPhase::Running => "Running",
            PodPhase::Succeeded => "Succeeded",
            PodPhase::Failed => "Failed",
        };
        let label = |name: &str| node.map(|node| label_of(node, name)).unwrap_or_default();
        let pool = node.and_then(|node| node.pool.as_deref()).unwrap_or_default();
        let labels = [
            &*pod.namespace,
            phase,
            pool,
            label(names::INSTANCE_TYPE),
            label(names::CAPACITY_TYPE),
            label(names::ZONE),
            label(names::ARCH),
        ];
        samples.add(table::PODS_STATE, labels, 1.0);
        if pod.node.is_none() && pod.is_active() && !pod.deleting {
            if pod.spec.scheduling_gates.is_empty() {
                waiting += 1;
            } else {
                held += 1;
            }
        }
    }
    samples.set(table::QUEUE_DEPTH, [], count(waiting));
    samples.set(table::IGNORED_PODS, [], count(held));
    let is_real = |pod: usize| snapshot.pods.get(pod).is_some_and(Pod::exists);
    let unplaced = report.waiting.iter().flat_map(|plan| &plan.unplaced);
    let unplaced = unplaced.filter(|unplaced| is_real(unplaced.pod)).count();
    samples.set(table::UNSCHEDULABLE_PODS, [], count(unplaced));
}

fn pools(samples: &mut Samples, report: &Report) {
    let snapshot = &report.snapshot;
    for pool in &snapshot.pools {
        for (resource, limit) in pool.limits.resources.iter() {
            samples.set(table::POOLS_LIMIT, [&pool.name, resource], amount(resource, limit));
        }
        if let Some(limit) = pool.limits.nodes {
            samples.set(table::POOLS_LIMIT, [&pool.name, "nodes"], f64::from(limit));
        }
        let is_its = |node: &&Node| node.pool.as_ref() == Some(&pool.name);
        let its_nodes = || snapshot.nodes.iter().filter(is_its);
        let mut usage = Resources::new();
        its_nodes().for_each(|node| usage.add(&node.capacity));
        if pool.limits.resources.names(USD_PER_HOUR) {
            let cost = its_nodes().filter_map(|node| snapshot.cost_of(node)).fold(Price::ZERO, Price::plus);
            usage.set(USD_PER_HOUR, cost.micro_usd());
        }
        for (resource, used) in usage.iter() {
            samples.set(table::POOLS_USAGE, [&pool.name, resource], amount(resource, used));
        }
        samples.set(table::POOLS_USAGE, [&pool.name, "nodes"], count(its_nodes().count()));
        let going = report.pools.get(&pool.name).map_or(0, |pool| count_going(report, &pool.id()));
        samples.set(table::POOLS_CONSUMING, [&pool.name], f64::from(going));
        for reason in DisruptionReason::BUDGETED {
            let allowed = Fleet::of(its_nodes()).allowed(pool, reason, Leaving::ForGood);
            samples.set(table::POOLS_ALLOWED, [&pool.name, reason.name()], f64::from(allowed));
        }
    }
}

fn count_going(report: &Report, pool: &PoolId) -> u32 {
    let going = report.claims.iter().filter(|(name, claim)| {
        let is_going = claim.is_deleting() || report.leaving.contains_key(*name);
        is_going && claim.pool_id().as_ref() == Some(pool)
    });
    u32::try_from(going.count()).unwrap_or(u32::MAX)
}

fn money(samples: &mut Samples, report: &Report, by_node: &PodsByNode<'_>) {
    let snapshot = &report.snapshot;
    for pool in &snapshot.pools {
        for metric in [table::COST, table::POOLS_COST] {
            samples.set(metric, [&pool.name], 0.0);
        }
    }
    let mut idle = Price::ZERO;
    for node in &snapshot.nodes {
        let Some(cost) = snapshot.cost_of(node) else { continue };
        let pool = node.pool.as_deref().unwrap_or_default();
        samples.add(table::COST, [pool], dollars(cost));
        samples.add(table::POOLS_COST, [pool], dollars(cost));
        let mut left = cost;
        for pod in by_node.get(&*node.name).into_iter().flatten() {
            let part = part_of(pod, node, cost);
            left = left.minus(part);
            samples.add(table::NAMESPACE_COST, [&pod.namespace], dollars(part));
        }
        idle = idle.plus(left);
    }
    samples.set(table::IDLE_COST, [], dollars(idle));
    if let Some(bound) = report.lower_bound() {
        samples.set(table::LOWER_BOUND, [], dollars(bound));
    }
    samples.set(table::COULD_HAVE_SAVED, [], dollars(report.course.could_have_saved));
}

/// A pod's part of its node's cost.
fn part_of(pod: &Pod, node: &Node, cost: Price) -> Price {
    let half = |resource: &str| {
        let (asked, given) = (pod.spec.requests.get(resource), node.allocatable.get(resource));
        if given > 0 { cost.scaled(asked.min(given), given.saturating_mul(2)) } else { Price::ZERO }
    };
    half(CPU).plus(half(MEMORY))
}

/// As people count it: CPUs, not thousandths.
fn amount(resource: &str, amount: i64) -> f64 {
    match resource {
        CPU => float(amount) / 1000.0,
        USD_PER_HOUR => dollars(Price::from_micro_usd(amount)),
        _ => float(amount),
    }
}

pub(super) fn dollars(price: Price) -> f64 {
    float(price.micro_usd()) / 1_000_000.0
}

pub(crate) fn count(count: usize) -> f64 {
    float(i64::try_from(count).unwrap_or(i64::MAX))
}

#[expect(clippy::cast_precision_loss, reason = "metrics are floats; nothing is decided by them")]
pub(super) fn float(number: i64) -> f64 {
    number as f64
}
