//! Plans made by hand, and the check against their golden renderings.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use berth_core::catalog::{CapacityType, Catalog, InstanceType, Offering};
use berth_core::disruption::{
    DisruptionCost, DisruptionPolicy, DisruptionReason, NodeDisruption, PodDisruption, PoolDisruption,
    Protection,
};
use berth_core::division::Division;
use berth_core::names::{self, Labels, Text};
use berth_core::node::{Node, NodeState};
use berth_core::plan::{Bind, DisruptionStep, Host, Kept, Launch, Plan, PoolRefusal, Skipped, Unplaced};
use berth_core::pod::{Pod, PodOrigin, PodPhase, PodSpec};
use berth_core::pool::{Limits, Pool};
use berth_core::reason::Reason;
use berth_core::requirement::Requirements;
use berth_core::resources::{CPU, MEMORY, PODS, Resources};
use berth_core::snapshot::Snapshot;
use berth_core::units::Price;

use super::view::View;

#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) name: &'static str,
    pub(crate) snapshot: Snapshot,
    pub(crate) plan: Plan,
    pub(crate) skipped: Vec<Skipped>,
    pub(crate) removing: Option<DisruptionPolicy>,
}

impl Scene {
    pub(crate) fn view(&self) -> View {
        View::of(&self.plan, &self.snapshot, &self.skipped, self.removing.as_ref())
    }
}

/// Every kind of content at least once, and nothing at all.
pub(crate) fn scenes() -> Vec<Scene> {
    vec![empty(), shop(), estimated(), hostile(), settled(), scattered()]
}

/// Compares with `tests/golden/NAME`; `BERTH_UPDATE=1 cargo test -p berth-cli` writes it anew.
pub(crate) fn assert_golden(name: &str, actual: &str) {
    let path = Path::new("tests/golden").join(name);
    if std::env::var_os("BERTH_UPDATE").is_some() {
        std::fs::write(&path, actual).expect("the golden file can be written");
        return;
    }
    let expected = std::fs::read_to_string(&path)
        .unwrap_or_else(|e| panic!("{}: {e}; BERTH_UPDATE=1 writes it", path.display()));
    assert_eq!(actual, expected, "{name} has changed; BERTH_UPDATE=1 writes it anew");
}

fn empty() -> Scene {
    Scene {
        name: "empty",
        snapshot: Snapshot::default(),
        plan: Plan::default(),
        skipped: vec![],
        removing: None,
    }
}

/// Pods on new nodes and on an existing one, pods left out, a node without a price, kinds skipped.
fn shop() -> Scene {
    let mut pods: Vec<Pod> = (0..12).map(|i| pod("shop", &format!("web-{i}"), 500, 1 << 30)).collect();
    pods.extend((0..2).map(|i| pod("shop", &format!("train-{i}"), 64_000, 1 << 30)));
    pods.push(pod("shop", "gated", 100, 1 << 20));
    pods.push(Pod {
        node: Some("old-1".into()),
        phase: PodPhase::Running,
        ..pod("kube-system", "dns-0", 1500, 2 << 30)
    });
    let snapshot = Snapshot {
        pods,
        nodes: vec![
            node("old-1", Some("default"), Some(117_180), NodeState::Running),
            node("old-2", None, None, NodeState::Deleting),
        ],
        ..Snapshot::default()
    };
    let launches = vec![launch("default-1", "zone-a", 117_180), launch("default-2", "zone-a", 117_180)];
    let host = |pod| match pod {
        0..5 => Host::Launch(0),
        5..10 => Host::Launch(1),
        _ => Host::Node(0),
    };
    let refused = |pool: Option<&str>, reason: Reason, message: &str| PoolRefusal {
        pool: pool.map(Text::from),
        refusal: reason.because(message),
    };
    let too_large = vec![
        refused(Some("batch"), Reason::InsufficientCpu, "asks for 64 cpu; the largest type has 3900m"),
        refused(Some("default"), Reason::InsufficientCpu, "asks for 64 cpu; the largest type has 3900m"),
        refused(Some("gpu"), Reason::UntoleratedTaint, "does not tolerate nvidia.com/gpu:NoSchedule"),
    ];
    let plan = Plan {
        launches,
        binds: (0..12).map(|pod| Bind { pod, host: host(pod) }).collect(),
        unplaced: vec![
            Unplaced { pod: 12, refusals: too_large.clone() },
            Unplaced { pod: 13, refusals: too_large },
            Unplaced {
                pod: 14,
                refusals: vec![refused(
                    None,
                    Reason::SchedulingGated,
                    "held back by the gate example.com/quota",
                )],
            },
        ],
        cost_before: Price::from_micro_usd(117_180),
        cost_after: Price::from_micro_usd(351_540),
        lower_bound: Price::from_micro_usd(343_000),
        rounds: 1,
        ..Plan::default()
    };
    let skipped = [("ConfigMap", 2), ("Service", 1)]
        .map(|(kind, count)| Skipped { kind: kind.to_owned(), count })
        .to_vec();
    Scene { name: "shop", snapshot, plan, skipped, removing: None }
}

/// Spot at an assumed discount, an extended resource, minValues given up.
fn estimated() -> Scene {
    let mut wants_gpu = pod("ml", "infer-0", 1000, 4 << 30);
    let mut spec = (*wants_gpu.spec).clone();
    spec.requests.set("nvidia.com/gpu", 1);
    wants_gpu.spec = Arc::new(spec);
    let mut requests = wants_gpu.spec.requests.clone();
    requests.add(&Resources::of(&[(CPU, 200), (PODS, 1)]));
    let mut bought = Launch {
        capacity_type: CapacityType::Spot,
        estimated: true,
        min_values_relaxed: true,
        requests: requests.into(),
        ..launch("gpu-1", "zone-b", 157_800)
    };
    Arc::make_mut(&mut bought.allocatable).set("nvidia.com/gpu", 2);
    let plan = Plan {
        launches: vec![bought],
        binds: vec![Bind { pod: 0, host: Host::Launch(0) }],
        cost_after: Price::from_micro_usd(157_800),
        lower_bound: Price::from_micro_usd(157_800),
        ..Plan::default()
    };
    let snapshot = Snapshot { pods: vec![wants_gpu], ..Snapshot::default() };
    Scene { name: "estimated", snapshot, plan, skipped: vec![], removing: None }
}

/// Text that would do harm if it were written as it is.
fn hostile() -> Scene {
    let refusal = PoolRefusal {
        pool: Some("<b>pool</b>".into()),
        refusal: Reason::NodeSelector.because("wants \u{1b}[31mteam=<script>alert(1)</script>"),
    };
    let plan = Plan { unplaced: vec![Unplaced { pod: 0, refusals: vec![refusal] }], ..Plan::default() };
    let snapshot = Snapshot { pods: vec![pod("x", "\"><img src=x>", 100, 1 << 20)], ..Snapshot::default() };
    Scene { name: "hostile", snapshot, plan, skipped: vec![], removing: None }
}

/// Removals were looked for, and there is no node to remove.
fn settled() -> Scene {
    Scene { name: "settled", removing: Some(DisruptionPolicy::default()), ..empty() }
}

/// An empty node, two that merge into one, one that drifted and one that stays; a pod that waits.
fn scattered() -> Scene {
    let disruption = PodDisruption { has_controller: true, ..PodDisruption::default() };
    let on =
        |node: &str, pod: Pod| Pod { node: Some(node.into()), phase: PodPhase::Running, disruption, ..pod };
    let mut pods = vec![pod("shop", "waiting", 500, 1 << 30)];
    pods.extend((0..2).map(|i| on("spare-1", pod("shop", &format!("web-{i}"), 500, 1 << 30))));
    pods.extend((2..5).map(|i| on("spare-2", pod("shop", &format!("web-{i}"), 400, 1 << 30))));
    pods.push(on("old-1", pod("shop", "api-0", 1000, 2 << 30)));
    pods.push(on("busy-1", pod("shop", "db-0", 1500, 2 << 30)));
    let mut nodes = ["busy-1", "empty-1", "locked-1", "locked-2", "old-1", "spare-1", "spare-2"]
        .map(|name| node(name, Some("default"), Some(117_180), NodeState::Running))
        .to_vec();
    nodes[2].disruption.protection = Protection::Always;
    nodes[3].disruption.protection = Protection::For { secs: 3600 };
    nodes[4].disruption.drifted = Some("AMIDrift: ami-1 is old".into());
    let snapshot = Snapshot { pods, nodes, pools: vec![pool("default")], ..Snapshot::default() };
    let unit = DisruptionCost::NODE;
    let step =
        |reason, nodes: &[usize], replacements: &[usize], moved: Range<usize>, saves, cost| DisruptionStep {
            reason,
            optimization: None,
            first_bind: moved.start,
            pods_moved: moved.len(),
            nodes: nodes.to_vec(),
            replacements: replacements.to_vec(),
            saves: Price::from_micro_usd(saves),
            cost,
        };
    let merged = (0..6).fold(unit, |sum, _| sum.plus(unit));
    let kept = |node, reason: Reason, message: &str| Kept { node, refusal: reason.because(message) };
    let plan = Plan {
        launches: vec![launch("default-1", "zone-a", 58_590), launch("default-2", "zone-a", 117_180)],
        binds: (0..7)
            .map(|pod| Bind {
                pod,
                host: match pod {
                    0 => Host::Node(0),
                    1..6 => Host::Launch(0),
                    _ => Host::Launch(1),
                },
            })
            .collect(),
        disruptions: vec![
            step(DisruptionReason::Empty, &[1], &[], 1..1, 117_180, unit),
            step(DisruptionReason::Underutilized, &[5, 6], &[0], 1..6, 175_770, merged),
            step(DisruptionReason::Drifted, &[4], &[1], 6..7, 0, unit.plus(unit)),
        ],
        kept: vec![
            kept(0, Reason::NodeTakesPods, "the plan puts a pod on it"),
            kept(2, Reason::NodeProtected, "karpenter.sh/do-not-disrupt: \"true\""),
            kept(3, Reason::NodeProtected, "karpenter.sh/do-not-disrupt for 3600 seconds yet"),
        ],
        cost_before: Price::from_micro_usd(820_260),
        cost_after: Price::from_micro_usd(527_310),
        lower_bound: Price::from_micro_usd(500_000),
        rounds: 3,
        may_strand: None,
        ..Plan::default()
    };
    let removing = Some(DisruptionPolicy::default());
    Scene { name: "scattered", snapshot, plan, skipped: vec![], removing }
}

/// Three types in two zones, on demand and as spot.
pub(crate) fn catalog() -> Catalog {
    let instance_type = |name: &str, arch: &str, cpu: i64, gpu: i64| {
        let offering = |zone: &str, capacity_type, micro_usd| Offering {
            zone: zone.into(),
            capacity_type,
            price: Price::from_micro_usd(micro_usd),
            estimated: false,
            available: true,
            remaining: None,
            labels: Labels::new(),
        };
        Arc::new(InstanceType {
            name: name.into(),
            labels: [
                (names::ARCH, arch),
                ("example.com/family", &name[..1]),
                ("example.com/generation", "5"),
            ]
            .into_iter()
            .map(|(key, value)| (Text::from(key), Text::from(value)))
            .collect(),
            capacity: Resources::of(&[(CPU, cpu), (MEMORY, cpu << 20), ("nvidia.com/gpu", gpu)]),
            overhead: Resources::new(),
            volume_limits: BTreeMap::new(),
            offerings: vec![
                offering("a", CapacityType::OnDemand, cpu * 100),
                offering("b", CapacityType::Spot, cpu * 30),
            ],
        })
    };
    Catalog {
        name: "test".into(),
        types: vec![
            instance_type("c-2", "amd64", 2000, 0),
            instance_type("c-8", "amd64", 8000, 0),
            instance_type("g-8", "arm64", 8000, 1),
        ],
    }
}

pub(crate) fn pod(namespace: &str, name: &str, milli_cpu: i64, memory_bytes: i64) -> Pod {
    Pod {
        namespace: namespace.into(),
        name: name.into(),
        spec: Arc::new(PodSpec {
            requests: Resources::of(&[(CPU, milli_cpu), (MEMORY, memory_bytes), (PODS, 1)]),
            ..PodSpec::default()
        }),
        phase: PodPhase::Pending,
        node: None,
        nominated: None,
        is_fresh: false,
        deleting: false,
        origin: PodOrigin::Object,
        daemon_set: None,
        mirror: false,
        volumes: Box::default(),
        disruption: PodDisruption::default(),
    }
}

fn pool(name: &str) -> Pool {
    Pool {
        name: name.into(),
        requirements: Requirements::new(),
        labels: Labels::new(),
        taints: vec![],
        startup_taints: vec![],
        limits: Limits::default(),
        weight: 0,
        replicas: None,
        nodes_min: 0,
        division: Division::default(),
        types: Arc::from([]),
        blocked: None,
        unreadable_ledger: None,
        is_patient: false,
        disruption: PoolDisruption::default(),
        node_cost: Price::ZERO,
    }
}

fn node(name: &str, pool: Option<&str>, micro_usd: Option<i64>, state: NodeState) -> Node {
    let label = |key: &str, value: &str| (Text::from(key), Text::from(value));
    Node {
        name: name.into(),
        labels: Labels::from([
            label(names::ZONE, "zone-a"),
            label(names::INSTANCE_TYPE, "s-4x"),
            label(names::CAPACITY_TYPE, "on-demand"),
        ]),
        taints: vec![],
        capacity: room(),
        allocatable: room(),
        state,
        pool: pool.map(Text::from),
        price: micro_usd.map(Price::from_micro_usd),
        volume_limits: BTreeMap::new(),
        disruption: NodeDisruption::default(),
    }
}

pub(crate) fn launch(name: &str, zone: &str, micro_usd: i64) -> Launch {
    Launch {
        name: name.into(),
        pool: name.rsplit_once('-').map_or(name, |(pool, _)| pool).into(),
        instance_type: "s-4x-amd64-linux".into(),
        zone: zone.into(),
        capacity_type: CapacityType::OnDemand,
        price: Price::from_micro_usd(micro_usd),
        estimated: false,
        labels: Arc::default(),
        taints: [].into(),
        requests: Resources::of(&[(CPU, 2700), (MEMORY, 5 << 30), (PODS, 6)]).into(),
        allocatable: room().into(),
        alternatives: [].into(),
        min_values_relaxed: false,
    }
}

fn room() -> Resources {
    Resources::of(&[(CPU, 3900), (MEMORY, 15_250 << 20), (PODS, 64)])
}
