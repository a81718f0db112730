//! What the newest report comes to in numbers. Nothing of it is worked out unless somebody asks.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_core::disruption::DisruptionReason;
use berth_core::names::{self, Text};
use berth_core::node::Node;
use berth_core::pod::{Pod, PodPhase};
use berth_core::resources::{CPU, MEMORY, Resources};
use berth_core::snapshot::Snapshot;
use berth_core::units::Price;
use tokio::time::Instant;

use super::Samples;
use super::table::{self, Gauge};
use crate::report::Report;

pub(super) fn of_report(samples: &mut Samples, report: &Report, lease: &str) {
    samples.set(table::BUILD, [env!("CARGO_PKG_VERSION")], 1.0);
    samples.set(table::MASTER, [lease], f64::from(u8::from(report.is_leader)));
    view(samples, report);
    let by_node = pods_by_node(&report.snapshot);
    nodes(samples, &report.snapshot, &by_node);
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
    samples.set(table::UNREADABLE, [], count(report.problems.len()));
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
            let sum = if pod.daemon_set.is_some() { &mut daemons } else { &mut pods };
            sum.add(&pod.spec.requests);
        }
        asked.add(&pods);
        asked.add(&daemons);
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

fn of_node(samples: &mut Samples, metric: Gauge<8>, node: &Node, resources: &Resources) {
    let pool = node.pool.as_deref().unwrap_or_default();
    let [instance_type, capacity_type, zone, arch, os] =
        [names::INSTANCE_TYPE, names::CAPACITY_TYPE, names::ZONE, names::ARCH, names::OS]
            .map(|label| label_of(node, label));
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
    for pod in &snapshot.pods {
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
    let unplaced = report.waiting.as_ref().map_or(0, |plan| plan.unplaced.len());
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
        let (mut usage, mut nodes) = (Resources::new(), 0_u32);
        for node in snapshot.nodes.iter().filter(is_its) {
            usage.add(&node.capacity);
            nodes += 1;
        }
        for (resource, used) in usage.iter() {
            samples.set(table::POOLS_USAGE, [&pool.name, resource], amount(resource, used));
        }
        samples.set(table::POOLS_USAGE, [&pool.name, "nodes"], f64::from(nodes));
        let going = count_going(report, &pool.name);
        samples.set(table::POOLS_CONSUMING, [&pool.name], f64::from(going));
        for reason in DisruptionReason::BUDGETED {
            let allowed = pool.disruption.away_max(reason, nodes).min(nodes).saturating_sub(going);
            samples.set(table::POOLS_ALLOWED, [&pool.name, reason.name()], f64::from(allowed));
        }
    }
}

fn count_going(report: &Report, pool: &Text) -> u32 {
    let going = report.claims.iter().filter(|(name, claim)| {
        let is_going = claim.is_deleting() || report.leaving.contains_key(*name);
        is_going && claim.pool.as_ref() == Some(pool)
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
    if let Some(point) = report.course.last() {
        samples.set(table::LOWER_BOUND, [], dollars(point.lower_bound));
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
    if resource == CPU { float(amount) / 1000.0 } else { float(amount) }
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
