//! One measured consolidation:
//! `cargo bench -p berth-cloud --bench consolidate -- <workload> [nodes] [pods] [classes]`.
//!
//! Pods are scattered at random over too many nodes: in the workload `even` of one family, which the pods suit
//! on the whole; in `mixed` of three families at random. Prints one line of JSON: the time of the
//! first plan alone, the peak memory of the process up to then, what the plan does, and what has become of the
//! cluster after plans have been carried out until one finds nothing more to do.
//! `cargo xtask bench consolidate` runs it for whole tables.

#[path = "../common/mod.rs"]
mod common;

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Arc;

use berth_core::apply::apply;
use berth_core::catalog::{CapacityType, InstanceType};
use berth_core::check::Violation;
use berth_core::disruption::{
    Budget, Consolidation, NodeDisruption, PodDisruption, PoolDisruption, Replacement, Share,
};
use berth_core::names::{self, Text};
use berth_core::node::{Node, NodeState};
use berth_core::plan::Plan;
use berth_core::pod::{Pod, PodPhase};
use berth_core::requirement::Operator;
use berth_core::resources::Resources;
use berth_core::snapshot::{Policy, Snapshot};
use berth_core::{check, disrupt, provision};
use common::{Dice, MIB, POOL};

const SIZES: [&str; 2] = ["2xlarge", "4xlarge"];
/// Plans are carried out at most so often.
const APPLIED_MAX: usize = 10;

fn main() -> ExitCode {
    let arguments = common::arguments();
    let number = |index: usize, default: usize| {
        arguments.get(index).and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let families: &[&str] = match arguments.first().map(String::as_str) {
        Some("even") | None => &["m6i"],
        Some("mixed") => &["c6i", "m6i", "r6i"],
        Some(other) => {
            eprintln!("unknown workload {other}: use even or mixed");
            return ExitCode::from(2);
        }
    };
    let (nodes, pods, classes) = (number(1, 1000), number(2, 30_000), number(3, 500));
    let Some(snapshot) = scattered(families, nodes, pods, classes) else {
        eprintln!("the catalog lacks a type that the nodes are to have");
        return ExitCode::from(2);
    };
    measure(&snapshot, classes);
    ExitCode::SUCCESS
}

fn measure(snapshot: &Snapshot, classes: usize) {
    let policy = common::policy();
    let (plan, spent) = common::measured(|| disrupt::plan(snapshot, &policy));
    let end = carry_out(snapshot, &policy, &plan);
    let anew = provision::plan(&without_nodes(snapshot), &policy);
    let measured = serde_json::json!({
        "nodes": snapshot.nodes.len(),
        "pods": snapshot.pods.len(),
        "classes": classes,
        "microseconds": spent.microseconds,
        "mainThreadMicroseconds": spent.main_thread_microseconds,
        "peakKiB": spent.peak_kib,
        "nodesJudged": plan.kept.len() + plan.nodes_removed(),
        "steps": plan.disruptions.len(),
        "largestStep": plan.disruptions.iter().map(|step| step.nodes.len()).max(),
        "costPerHourBefore": plan.cost_before.to_string(),
        "costPerHourAfter": plan.cost_after.to_string(),
        "gapPercent": f64::from(plan.gap_basis_points()) / 100.0,
        "rounds": plan.rounds,
        "timesApplied": end.times,
        "stepsLeft": end.last.disruptions.len(),
        "nodesBought": end.nodes_bought,
        "podsMoved": end.pods_moved,
        "podsMovedTwice": end.pods_moved_twice,
        "finalNodes": end.cluster.nodes.len(),
        "finalCostPerHour": end.last.cost_before.to_string(),
        "finalLowerBound": end.last.lower_bound.to_string(),
        "finalGapPercent": f64::from(end.last.gap_basis_points()) / 100.0,
        "anewNodes": anew.launches.len(),
        "anewCostPerHour": anew.cost_after.to_string(),
        "anewLowerBound": anew.lower_bound.to_string(),
        "violations": end.violations.len(),
        "firstViolation": end.violations.first().map(ToString::to_string),
    });
    println!("{measured}");
}

/// What has become of a cluster, and what it took to get there.
struct End {
    cluster: Snapshot,
    /// The plan that is not carried out: it finds nothing more to do, unless there were too many before it.
    last: Plan,
    times: usize,
    nodes_bought: usize,
    pods_moved: usize,
    /// How often a plan moves a pod that it has moved already.
    pods_moved_twice: usize,
    violations: Vec<Violation>,
}

fn carry_out(snapshot: &Snapshot, policy: &Policy, first: &Plan) -> End {
    let mut end = End {
        cluster: snapshot.clone(),
        last: first.clone(),
        times: 0,
        nodes_bought: 0,
        pods_moved: 0,
        pods_moved_twice: 0,
        violations: Vec::new(),
    };
    loop {
        let plan = &end.last;
        end.violations.extend(check::check(&end.cluster, policy, plan));
        if plan.disruptions.is_empty() || end.times == APPLIED_MAX {
            return end;
        }
        let pods: BTreeSet<usize> = plan.binds.iter().map(|bind| bind.pod).collect();
        end.times += 1;
        end.nodes_bought += plan.launches.len();
        end.pods_moved += plan.pods_moved();
        end.pods_moved_twice += plan.binds.len() - pods.len();
        end.cluster = apply(&end.cluster, plan);
        end.last = disrupt::plan(&end.cluster, policy);
    }
}

/// The same pods, all waiting: what they would get if there were nothing yet.
fn without_nodes(snapshot: &Snapshot) -> Snapshot {
    let mut anew = Snapshot { nodes: Vec::new(), ..snapshot.clone() };
    anew.pods.iter_mut().for_each(|pod| pod.node = None);
    anew
}

/// Nodes of random types with pods of so many classes, each on a random node that has room for it.
fn scattered(families: &[&str], nodes: usize, pods: usize, classes: usize) -> Option<Snapshot> {
    let mut dice = Dice(11);
    let types = common::types_of_one_zone()?;
    let kinds: Vec<&InstanceType> = families
        .iter()
        .flat_map(|family| SIZES.iter().map(move |size| format!("{family}.{size}")))
        .map(|name| types.iter().map(Arc::as_ref).find(|sold| *sold.name == *name))
        .collect::<Option<_>>()?;
    let nodes: Vec<Node> = (0..nodes).map(|index| node(index, dice.pick(&kinds))).collect::<Option<_>>()?;
    let specs = common::classes(classes, || {
        let cpu = dice.between(5, 40) * 10;
        let memory = cpu * dice.pick(&[2, 3, 4, 6]) + dice.between(0, 128);
        common::requests(cpu, memory * MIB)
    });
    let mut free: Vec<Resources> = nodes.iter().map(|node| node.allocatable.clone()).collect();
    let homes: Vec<usize> = (0..nodes.len()).collect();
    let mut scattered = Vec::with_capacity(pods);
    for index in 0..pods {
        let spec = dice.pick(&specs);
        let home = (0..64)
            .map(|_| dice.pick(&homes))
            .find(|node| spec.requests.first_exceeding(&free[*node]).is_none());
        let Some(home) = home else { continue };
        free[home].subtract(&spec.requests);
        scattered.push(Pod {
            phase: PodPhase::Running,
            node: Some(nodes[home].name.clone()),
            disruption: PodDisruption { has_controller: true, ..PodDisruption::default() },
            ..common::pod(index, &spec)
        });
    }
    let family = [("karpenter.k8s.aws/instance-family", Operator::In, families)];
    let disruption = PoolDisruption {
        consolidation: Consolidation::WhenEmptyOrUnderutilized,
        consolidate_after_secs: Some(0),
        budgets: vec![Budget::new(Vec::new(), Share::Percent(100))],
        checks: None,
        replacement: Replacement::default(),
    };
    let pool = common::pool(types, common::on_demand_amd64(&family), disruption);
    Some(Snapshot { pods: scattered, nodes, pools: vec![pool], ..Snapshot::default() }.in_order())
}

fn node(index: usize, sold: &InstanceType) -> Option<Node> {
    let offering = sold.offerings.iter().find(|offering| offering.capacity_type == CapacityType::OnDemand)?;
    let name: Text = format!("node-{index:04}").into();
    let mut labels = sold.labels.clone();
    labels.extend(offering.node_labels());
    labels.insert(names::HOSTNAME.into(), name.clone());
    labels.insert(names::INSTANCE_TYPE.into(), sold.name.clone());
    labels.insert(names::NODEPOOL.into(), POOL.into());
    Some(Node {
        name,
        labels,
        taints: Vec::new(),
        capacity: sold.capacity.clone(),
        allocatable: sold.allocatable(),
        state: NodeState::Running,
        pool: Some(POOL.into()),
        price: Some(offering.price),
        volume_limits: sold.volume_limits.clone(),
        disruption: NodeDisruption { quiet_secs: Some(3600), ..NodeDisruption::default() },
    })
}
