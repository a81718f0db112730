//! A small cluster and a legal plan for it, to be broken.

mod broken;
mod left_out;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Violation;
use crate::catalog::{CapacityType, InstanceType, Offering};
use crate::disruption::{DisruptionCost, DisruptionReason, NodeDisruption, PodDisruption, PoolDisruption};
use crate::division::Division;
use crate::names::{self, Labels, Text};
use crate::node::{Node, NodeState};
use crate::plan::{Alternative, Bind, DisruptionStep, Host, Launch, Plan, PoolRefusal, Unplaced};
use crate::pod::{
    HostPort, Pod, PodOrigin, PodPhase, PodSpec, PodTerm, Protocol, Spread, Taint, TaintEffect, Toleration,
    VolumeRef,
};
use crate::pool::{Limits, Pool};
use crate::reason::Reason;
use crate::requirement::{Expression, NodeTerm, Operator, Requirements};
use crate::resources::Resources;
use crate::selector::Selector;
use crate::snapshot::{DaemonSet, Policy, Snapshot};
use crate::units::Price;
use crate::volume::{StorageClass, Volume, VolumeClaim};

/// `node-a` and `node-b` (4 CPU each, in zones a and b, 0.50 an hour), and a pool `default` that sells
/// `small` (2 CPU, of which 100m are reserved) and `large` (8 CPU) in both zones, on demand and spot.
#[derive(Clone)]
struct Scene {
    snapshot: Snapshot,
    policy: Policy,
    plan: Plan,
}

const NODE_A: Host = Host::Node(0);
const NODE_B: Host = Host::Node(1);
const NEW: Host = Host::Launch(0);
const NEXT: Host = Host::Launch(1);

impl Scene {
    fn new() -> Self {
        let nodes = vec![node("node-a", "a"), node("node-b", "b")];
        let snapshot = Snapshot { nodes, pools: vec![pool("default")], ..Snapshot::default() };
        Self { snapshot, policy: Policy::default(), plan: Plan::default() }
    }

    fn pod_object(&mut self, name: &str, node: Option<&str>, spec: PodSpec) -> usize {
        self.snapshot.pods.push(Pod {
            namespace: "default".into(),
            name: name.into(),
            spec: Arc::new(spec),
            phase: PodPhase::Pending,
            node: node.map(Text::from),
            nominated: None,
            is_fresh: false,
            deleting: false,
            origin: PodOrigin::Object,
            daemon_set: None,
            mirror: false,
            volumes: Box::default(),
            disruption: PodDisruption::default(),
        });
        self.snapshot.pods.len() - 1
    }

    fn running(&mut self, node: &str, spec: PodSpec) -> usize {
        let name = format!("running-{}", self.snapshot.pods.len());
        self.pod_object(&name, Some(node), spec)
    }

    fn pending(&mut self, spec: PodSpec) -> usize {
        let name = format!("pending-{}", self.snapshot.pods.len());
        self.pod_object(&name, None, spec)
    }

    /// A pending pod that the plan binds.
    fn placed(&mut self, host: Host, spec: PodSpec) -> usize {
        let pod = self.pending(spec);
        self.plan.binds.push(Bind { pod, host });
        pod
    }

    /// A running pod of a workload, which the plan moves.
    fn moved(&mut self, node: &str, host: Host, spec: PodSpec) -> usize {
        let pod = self.running(node, spec);
        self.snapshot.pods[pod].disruption.has_controller = true;
        self.plan.binds.push(Bind { pod, host });
        pod
    }

    /// A step of its own for a node of the pool, with the pods that are bound from `first_bind` on.
    fn removes(&mut self, node: usize, first_bind: usize, replacements: &[usize]) {
        self.snapshot.nodes[node].pool = Some("default".into());
        let name = &self.snapshot.nodes[node].name;
        let moved: Vec<&Pod> =
            self.snapshot.pods.iter().filter(|pod| pod.node.as_ref() == Some(name)).collect();
        let bought = replacements.iter().map(|launch| self.plan.launches[*launch].price);
        let cost = moved.iter().map(|pod| DisruptionCost::of_pod(pod));
        self.plan.disruptions.push(DisruptionStep {
            reason: if moved.is_empty() { DisruptionReason::Empty } else { DisruptionReason::Underutilized },
            optimization: None,
            nodes: vec![node],
            replacements: replacements.to_vec(),
            first_bind,
            pods_moved: moved.len(),
            saves: bought.fold(self.snapshot.nodes[node].price.unwrap_or(Price::ZERO), Price::minus),
            cost: cost.fold(DisruptionCost::NODE, DisruptionCost::plus),
        });
    }

    /// A pending pod that the plan leaves out.
    fn unplaced(&mut self, spec: PodSpec) -> usize {
        let pod = self.pending(spec);
        let refusal = PoolRefusal { pool: None, refusal: Reason::NoPool.because("because") };
        self.plan.unplaced.push(Unplaced { pod, refusals: vec![refusal] });
        pod
    }

    fn daemon_set(&mut self, name: &str, spec: PodSpec) {
        let (namespace, name) = ("system".into(), name.into());
        self.snapshot.daemon_sets.push(DaemonSet { namespace, name, spec: Arc::new(spec) });
    }

    /// A claim bound to a volume that only zone `zone` reaches, on driver `csi`.
    fn claim(&mut self, name: &str, zone: &str) {
        let volume: Text = format!("volume-{name}").into();
        let claim = VolumeClaim {
            storage_class: None,
            volume: Some(volume.clone()),
            lost: false,
            deleting: false,
            single_pod: false,
        };
        let node_affinity = in_zone(zone);
        self.snapshot.storage.claims.insert(("default".into(), name.into()), claim);
        self.snapshot
            .storage
            .volumes
            .insert(volume, Volume { driver: Some("csi".into()), node_affinity, is_local: false });
    }

    fn use_claims(&mut self, pod: usize, claims: &[&str]) {
        self.snapshot.pods[pod].volumes = claims.iter().map(|c| VolumeRef::Claim((*c).into())).collect();
    }

    /// An on-demand node of the first pool, as the catalog has it.
    fn launch(&mut self, instance_type: &str, zone: &str) {
        let pool = &self.snapshot.pools[0];
        let sold = pool.types.iter().find(|t| *t.name == *instance_type).unwrap();
        let offering = sold.offerings.iter().find(|o| *o.zone == *zone).unwrap();
        let mut labels = sold.labels.clone();
        labels.extend(pool.labels.clone());
        labels.extend(offering.node_labels());
        labels.insert(names::INSTANCE_TYPE.into(), instance_type.into());
        self.plan.launches.push(Launch {
            name: format!("new-{}", self.plan.launches.len()).into(),
            pool: pool.name.clone(),
            instance_type: instance_type.into(),
            zone: zone.into(),
            capacity_type: offering.capacity_type,
            price: offering.price,
            estimated: offering.estimated,
            labels: labels.into(),
            taints: pool.taints.as_slice().into(),
            requests: Arc::default(),
            allocatable: sold.allocatable().into(),
            alternatives: [].into(),
            min_values_relaxed: false,
        });
    }

    fn alternative(&mut self, instance_type: &str, zone: &str) {
        let sold = self.snapshot.pools[0].types.iter().find(|t| *t.name == *instance_type).unwrap();
        let offering = sold.offerings.iter().find(|o| *o.zone == *zone).unwrap();
        let alternative = Alternative {
            instance_type: instance_type.into(),
            zone: zone.into(),
            capacity_type: offering.capacity_type,
            price_per_hour: offering.price,
        };
        let launch = &mut self.plan.launches[0];
        launch.alternatives = launch.alternatives.iter().cloned().chain([alternative]).collect();
    }

    fn labels(&mut self) -> &mut Labels {
        Arc::make_mut(&mut self.plan.launches[0].labels)
    }

    fn alternatives(&mut self) -> &mut [Alternative] {
        Arc::make_mut(&mut self.plan.launches[0].alternatives)
    }

    fn spec(&mut self, pod: usize) -> &mut PodSpec {
        Arc::make_mut(&mut self.snapshot.pods[pod].spec)
    }

    fn pool(&mut self) -> &mut Pool {
        &mut self.snapshot.pools[0]
    }

    /// Changes a type of the first pool.
    fn sold(&mut self, instance_type: &str, change: impl Fn(&mut InstanceType)) {
        let mut types = self.pool().types.to_vec();
        for sold in types.iter_mut().filter(|t| *t.name == *instance_type) {
            change(Arc::make_mut(sold));
        }
        self.pool().types = types.into();
    }

    fn rebind(&mut self, pod: usize, host: Host) {
        self.plan.binds.iter_mut().filter(|b| b.pod == pod).for_each(|b| b.host = host);
    }

    /// Works out requests and costs, for DaemonSets that run everywhere.
    fn settle(&mut self) {
        for (index, launch) in self.plan.launches.iter_mut().enumerate() {
            let mut requests = Resources::new();
            for set in &self.snapshot.daemon_sets {
                requests.add(&set.spec.requests);
            }
            for bind in self.plan.binds.iter().filter(|bind| bind.host == Host::Launch(index)) {
                requests.add(&self.snapshot.pods[bind.pod].spec.requests);
            }
            launch.requests = requests.into();
        }
        let prices = self.snapshot.nodes.iter().filter_map(|node| node.price);
        self.plan.cost_before = prices.fold(Price::ZERO, Price::plus);
        let launches = self.plan.launches.iter().map(|launch| launch.price);
        let bought = launches.fold(self.plan.cost_before, Price::plus);
        let removed = self.plan.disruptions.iter().flat_map(|step| &step.nodes);
        let price = |node: &usize| self.snapshot.nodes[*node].price.unwrap_or(Price::ZERO);
        self.plan.cost_after = removed.map(price).fold(bought, Price::minus);
        self.plan.lower_bound = self.plan.cost_before.min(self.plan.cost_after);
    }
}

/// The names of the variants, inner ones after a dot.
fn kinds(violations: &[Violation]) -> Vec<String> {
    fn variant(value: &impl std::fmt::Debug) -> String {
        format!("{value:?}").chars().take_while(char::is_ascii_alphanumeric).collect()
    }
    violations
        .iter()
        .map(|violation| match violation {
            Violation::Misfit { misfit, .. } => variant(misfit),
            Violation::Launch { fault: super::LaunchFault::Alternative { fault, .. }, .. } => {
                format!("Alternative.{}", variant(fault))
            }
            Violation::Launch { fault, .. } => format!("Launch.{}", variant(fault)),
            Violation::Disruption { fault: super::DisruptionFault::Barred { bar, .. }, .. } => {
                format!("Barred.{}", variant(bar))
            }
            Violation::Disruption { fault, .. } => format!("Disruption.{}", variant(fault)),
            other => variant(other),
        })
        .collect()
}

fn node(name: &str, zone: &str) -> Node {
    let amounts = Resources::of(&[("cpu", 4000), ("memory", 16 << 30), ("pods", 10)]);
    Node {
        name: name.into(),
        labels: labels(&[(names::HOSTNAME, name), (names::ZONE, zone)]),
        taints: Vec::new(),
        capacity: amounts.clone(),
        allocatable: amounts,
        state: NodeState::Running,
        pool: None,
        price: Some(Price::from_micro_usd(500_000)),
        volume_limits: BTreeMap::from([("csi".into(), 2)]),
        disruption: NodeDisruption::default(),
    }
}

fn pool(name: &str) -> Pool {
    Pool {
        name: name.into(),
        requirements: Requirements::new(),
        labels: labels(&[(names::NODEPOOL, name)]),
        taints: Vec::new(),
        startup_taints: Vec::new(),
        limits: Limits::default(),
        weight: 0,
        replicas: None,
        nodes_min: 0,
        division: Division::default(),
        types: [instance_type("small", 2, 100_000), instance_type("large", 8, 400_000)].into(),
        blocked: None,
        unreadable_ledger: None,
        is_patient: false,
        disruption: PoolDisruption::default(),
        node_cost: Price::ZERO,
    }
}

fn instance_type(name: &str, cores: i64, micro_usd: i64) -> Arc<InstanceType> {
    let offering = |zone: &str, capacity_type, micro_usd| Offering {
        zone: zone.into(),
        capacity_type,
        price: Price::from_micro_usd(micro_usd),
        estimated: capacity_type == CapacityType::Spot,
        available: true,
        remaining: None,
        labels: labels(&[(names::REGION, "r")]),
    };
    let offerings = ["a", "b"].into_iter().flat_map(|zone| {
        [
            offering(zone, CapacityType::OnDemand, micro_usd),
            offering(zone, CapacityType::Spot, micro_usd * 3 / 10),
        ]
    });
    Arc::new(InstanceType {
        name: name.into(),
        labels: labels(&[(names::ARCH, "amd64"), (names::OS, "linux"), ("size", name)]),
        capacity: Resources::of(&[("cpu", cores * 1000), ("memory", cores << 32), ("pods", 20)]),
        overhead: Resources::of(&[("cpu", 100)]),
        volume_limits: BTreeMap::from([("csi".into(), 2)]),
        offerings: offerings.collect(),
    })
}

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(key, value)| (Text::from(*key), Text::from(*value))).collect()
}

/// A pod of application `app` that asks for so many milli-CPU.
fn app(app: &str, cpu: i64) -> PodSpec {
    PodSpec {
        labels: labels(&[("app", app)]),
        requests: Resources::of(&[("cpu", cpu), ("memory", 1 << 28), ("pods", 1)]),
        ..PodSpec::default()
    }
}

fn web(cpu: i64) -> PodSpec {
    app("web", cpu)
}

fn near(app: &str, key: &str) -> PodTerm {
    PodTerm {
        selector: Some(Selector::new(vec![Expression::equals("app", app)])),
        namespaces: Vec::new(),
        namespace_selector: None,
        topology_key: key.into(),
    }
}

/// `web`, evenly over `key`.
fn spread(key: &str) -> Spread {
    Spread {
        topology_key: key.into(),
        max_skew: 1,
        required: true,
        selector: Some(Selector::new(vec![Expression::equals("app", "web")])),
        min_domains: 1,
        honor_node_affinity: true,
        honor_node_taints: false,
    }
}

fn in_zone(zone: &str) -> Vec<NodeTerm> {
    vec![NodeTerm::new(vec![Expression::equals(names::ZONE, zone)])]
}

fn port(port: u16) -> HostPort {
    HostPort { ip: HostPort::ANY_IP.into(), protocol: Protocol::Tcp, port }
}

fn taint() -> Taint {
    Taint::new("team", "a", TaintEffect::NoSchedule)
}

fn toleration() -> Toleration {
    Toleration { key: Some("team".into()), value: None, effect: None }
}

fn expression(key: &str, operator: Operator, values: &[&str]) -> Expression {
    Expression::new(key, operator, values.iter().map(|v| Text::from(*v)).collect()).unwrap()
}

fn waiting_class(driver: &str) -> StorageClass {
    StorageClass {
        driver: driver.into(),
        waits_for_pod: true,
        allowed_topologies: Vec::new(),
        is_default: true,
        created: 0,
    }
}
