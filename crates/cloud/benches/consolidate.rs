//! One measured consolidation:
//! `cargo bench -p berth-cloud --bench consolidate -- <workload> [nodes] [pods] [classes]`.
//!
//! Pods are scattered at random over too many nodes: in the workload `even` of one family, which the pods suit
//! on the whole; in `mixed` of three families at random. Prints one line of JSON: the time of the
//! first plan alone, the peak memory of the process up to then, what the plan does, and what has become of the
//! cluster after plans have been carried out until one finds nothing more to do.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use berth_cloud::CatalogOptions;
use berth_core::apply::apply;
use berth_core::catalog::{CapacityType, InstanceType};
use berth_core::disruption::{Budget, Consolidation, NodeDisruption, PodDisruption, PoolDisruption, Share};
use berth_core::names::{self, Labels, Text};
use berth_core::node::{Node, NodeState};
use berth_core::pod::{Pod, PodOrigin, PodPhase, PodSpec};
use berth_core::pool::{Limits, Pool};
use berth_core::requirement::{Expression, Operator, Requirements};
use berth_core::resources::{CPU, MEMORY, PODS, Resources};
use berth_core::snapshot::{Policy, Snapshot};
use berth_core::units::Price;
use berth_core::{check, disrupt, provision};

const MIB: i64 = 1 << 20;
const ZONE: &str = "us-east-1a";
const SIZES: [&str; 2] = ["2xlarge", "4xlarge"];
/// Plans are carried out at most so often.
const APPLIED_MAX: usize = 10;

fn main() -> ExitCode {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
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
    let policy = Policy::default();
    let start = (Instant::now(), processor_nanos());
    let plan = disrupt::plan(&snapshot, &policy);
    let elapsed = start.0.elapsed();
    let nanos = processor_nanos() - start.1;
    let peak_kib = peak_memory_kib();

    let mut violations = check::check(&snapshot, &policy, &plan);
    let mut cluster = apply(&snapshot, &plan);
    let mut applied = usize::from(!plan.disruptions.is_empty());
    let mut last = disrupt::plan(&cluster, &policy);
    while !last.disruptions.is_empty() && applied < APPLIED_MAX {
        violations.extend(check::check(&cluster, &policy, &last));
        cluster = apply(&cluster, &last);
        applied += 1;
        last = disrupt::plan(&cluster, &policy);
    }
    let mut anew = snapshot.clone();
    anew.nodes.clear();
    anew.pods.iter_mut().for_each(|pod| pod.node = None);
    let start = processor_nanos();
    let anew = provision::plan(&anew, &policy);
    let anew_nanos = processor_nanos() - start;
    let measured = serde_json::json!({
        "nodes": snapshot.nodes.len(),
        "pods": snapshot.pods.len(),
        "classes": classes,
        "microseconds": u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX),
        "processorMicroseconds": nanos / 1000,
        "peakKiB": peak_kib,
        "nodesJudged": plan.kept.len() + plan.nodes_removed(),
        "steps": plan.disruptions.len(),
        "largestStep": plan.disruptions.iter().map(|step| step.nodes.len()).max(),
        "nodesRemoved": plan.nodes_removed(),
        "nodesBought": plan.launches.len(),
        "podsMoved": plan.pods_moved(),
        "costPerHourBefore": plan.cost_before.to_string(),
        "costPerHourAfter": plan.cost_after.to_string(),
        "lowerBound": plan.lower_bound.to_string(),
        "gapPercent": f64::from(plan.gap_basis_points()) / 100.0,
        "rounds": plan.rounds,
        "timesApplied": applied,
        "finalCostPerHour": last.cost_after.to_string(),
        "finalLowerBound": last.lower_bound.to_string(),
        "finalGapPercent": f64::from(last.gap_basis_points()) / 100.0,
        "anewCostPerHour": anew.cost_after.to_string(),
        "anewProcessorMicroseconds": anew_nanos / 1000,
        "anewNodes": anew.launches.len(),
        "anewLowerBound": anew.lower_bound.to_string(),
        "violations": violations.len(),
        "firstViolation": violations.first().map(ToString::to_string),
    });
    println!("{measured}");
    ExitCode::SUCCESS
}

/// The most memory that the process ever had, from the kernel's own count.
fn peak_memory_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

/// How long the process has had a processor: what remains of the time when others use the machine too.
fn processor_nanos() -> u64 {
    let status = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    status.split_whitespace().next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0)
}

/// SplitMix64: the same workload on every machine.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        usize::try_from(z % n as u64).unwrap_or(0)
    }

    fn between(&mut self, low: i64, high: i64) -> i64 {
        low + i64::try_from(self.below(usize::try_from(high - low).unwrap_or(1))).unwrap_or(0)
    }
}

/// Nodes of random types with pods of so many classes, each on a random node that has room for it.
fn scattered(families: &[&str], nodes: usize, pods: usize, classes: usize) -> Option<Snapshot> {
    let mut dice = Dice(11);
    let options = CatalogOptions { zones: vec![ZONE.into()], ..CatalogOptions::default() };
    let types = berth_cloud::builtin("aws-us-east-1", &options)?.types;
    let pool = pool(families, types.iter().filter(|sold| !sold.name.contains("metal")).cloned().collect());
    let kinds: Vec<&Arc<InstanceType>> = families
        .iter()
        .flat_map(|family| SIZES.iter().map(move |size| format!("{family}.{size}")))
        .map(|name| types.iter().find(|sold| *sold.name == *name))
        .collect::<Option<_>>()?;
    let nodes: Vec<Node> =
        (0..nodes).map(|index| node(index, kinds[dice.below(kinds.len())])).collect::<Option<_>>()?;
    let specs: Vec<Arc<PodSpec>> = (0..classes)
        .map(|class| {
            let cpu = dice.between(5, 40) * 10;
            let memory = cpu * [2, 3, 4, 6][dice.below(4)] + dice.between(0, 128);
            Arc::new(PodSpec {
                labels: Labels::from([("app".into(), format!("app-{class}").into())]),
                requests: Resources::of(&[(CPU, cpu), (MEMORY, memory * MIB), (PODS, 1)]),
                ..PodSpec::default()
            })
        })
        .collect();
    let mut free: Vec<Resources> = nodes.iter().map(|node| node.allocatable.clone()).collect();
    let mut scattered = Vec::with_capacity(pods);
    for index in 0..pods {
        let spec = &specs[dice.below(specs.len())];
        let home = (0..64)
            .map(|_| dice.below(nodes.len()))
            .find(|node| spec.requests.first_exceeding(&free[*node]).is_none());
        let Some(home) = home else { continue };
        free[home].subtract(&spec.requests);
        scattered.push(pod(format!("pod-{index:06}"), spec.clone(), &nodes[home].name));
    }
    Some(Snapshot { pods: scattered, nodes, pools: vec![pool], ..Snapshot::default() }.in_order())
}

fn pool(families: &[&str], types: Arc<[Arc<InstanceType>]>) -> Pool {
    let is = |key: &str, operator, values: &[&str]| {
        Expression::new(key, operator, values.iter().map(|value| Text::from(*value)).collect()).ok()
    };
    let requirements: Requirements = [
        is(names::CAPACITY_TYPE, Operator::In, &["on-demand"]),
        is(names::ARCH, Operator::In, &["amd64"]),
        is("karpenter.k8s.aws/instance-family", Operator::In, families),
    ]
    .into_iter()
    .flatten()
    .collect();
    Pool {
        name: "default".into(),
        requirements,
        labels: Labels::from([(names::NODEPOOL.into(), "default".into())]),
        taints: Vec::new(),
        startup_taints: Vec::new(),
        limits: Limits::default(),
        weight: 0,
        replicas: None,
        nodes_min: 0,
        types,
        blocked: None,
        disruption: PoolDisruption {
            consolidation: Consolidation::WhenEmptyOrUnderutilized,
            consolidate_after_secs: Some(0),
            budgets: vec![Budget { reasons: Vec::new(), nodes: Share::Percent(100) }],
        },
        node_cost: Price::ZERO,
    }
}

fn node(index: usize, sold: &InstanceType) -> Option<Node> {
    let offering = sold.offerings.iter().find(|offering| offering.capacity_type == CapacityType::OnDemand)?;
    let name: Text = format!("node-{index:04}").into();
    let mut labels = sold.labels.clone();
    labels.extend(offering.node_labels());
    labels.insert(names::HOSTNAME.into(), name.clone());
    labels.insert(names::INSTANCE_TYPE.into(), sold.name.clone());
    labels.insert(names::NODEPOOL.into(), "default".into());
    Some(Node {
        name,
        labels,
        taints: Vec::new(),
        capacity: sold.capacity.clone(),
        allocatable: sold.allocatable(),
        state: NodeState::Running,
        pool: Some("default".into()),
        price: Some(offering.price),
        volume_limits: sold.volume_limits.clone(),
        disruption: NodeDisruption { quiet_secs: Some(3600), ..NodeDisruption::default() },
    })
}

fn pod(name: String, spec: Arc<PodSpec>, node: &Text) -> Pod {
    Pod {
        namespace: "default".into(),
        name: name.into(),
        spec,
        phase: PodPhase::Running,
        node: Some(node.clone()),
        nominated: None,
        deleting: false,
        origin: PodOrigin::Object,
        daemon_set: None,
        mirror: false,
        volumes: Box::default(),
        disruption: PodDisruption { has_controller: true, ..PodDisruption::default() },
    }
}
