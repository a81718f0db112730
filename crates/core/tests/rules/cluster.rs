//! Clusters in a few words.
#![expect(clippy::unwrap_used, reason = "an illegal expression is a mistake in the test")]

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_core::catalog::{CapacityType, InstanceType, Offering, OfferingPattern};
use berth_core::disruption::{DisruptionPolicy, NodeDisruption, PodBudget, PodDisruption, PoolDisruption};
use berth_core::division::Division;
use berth_core::names::{self, HOSTNAME, Labels, NODEPOOL, Text, ZONE};
use berth_core::node::{Node, NodeState};
use berth_core::pod::{
    HostPort, Pod, PodOrigin, PodPhase, PodSpec, PodTerm, Protocol, Spread, Taint, TaintEffect, Toleration,
    VolumeRef, Weighted,
};
use berth_core::pool::{Limits, Pool};
use berth_core::requirement::{Expression, NodeTerm, Operator, Requirements};
use berth_core::resources::{CPU, MEMORY, PODS, Resources};
use berth_core::selector::Selector;
use berth_core::snapshot::{DaemonSet, MinValuesPolicy, Policy, PreferencePolicy, SharedLimit, Snapshot};
use berth_core::units::Price;
use berth_core::volume::{StorageClass, Volume, VolumeClaim};

pub(crate) const GIB: i64 = 1 << 30;
/// The driver of every volume.
pub(crate) const DRIVER: &str = "csi";

#[derive(Clone, Debug, Default)]
pub(crate) struct Cluster {
    snapshot: Snapshot,
    policy: Policy,
}

/// Nothing at all.
pub(crate) fn bare() -> Cluster {
    Cluster::default()
}

/// A pool `pool` that sells [`small`] and [`large`].
pub(crate) fn shop() -> Cluster {
    bare().pool(pool("pool"))
}

impl Cluster {
    pub(crate) fn pool(mut self, pool: Pool) -> Self {
        self.snapshot.pools.push(pool);
        self
    }

    pub(crate) fn node(mut self, node: Node) -> Self {
        self.snapshot.nodes.push(node);
        self
    }

    pub(crate) fn pod(mut self, pod: Pod) -> Self {
        self.snapshot.pods.push(pod);
        self
    }

    /// Copies named `<pod>-0`, `<pod>-1`, …
    pub(crate) fn pods(mut self, count: usize, pod: &Pod) -> Self {
        for copy in 0..count {
            let name = format!("{}-{copy}", pod.name).into();
            self.snapshot.pods.push(Pod { name, ..pod.clone() });
        }
        self
    }

    /// A DaemonSet with this pod's spec.
    pub(crate) fn daemon(mut self, pod: &Pod) -> Self {
        let Pod { namespace, name, spec, .. } = pod.clone();
        self.snapshot.daemon_sets.push(DaemonSet { namespace, name, spec });
        self
    }

    pub(crate) fn namespace(mut self, name: &str, key: &str, value: &str) -> Self {
        self.snapshot.namespaces.insert(name.into(), Labels::from([(key.into(), value.into())]));
        self
    }

    pub(crate) fn storage_class(mut self, name: &str, class: StorageClass) -> Self {
        self.snapshot.storage.classes.insert(name.into(), class);
        self
    }

    /// A claim of the default namespace.
    pub(crate) fn claim(mut self, name: &str, claim: VolumeClaim) -> Self {
        self.snapshot.storage.claims.insert(("default".into(), name.into()), claim);
        self
    }

    /// A volume that only this zone reaches.
    pub(crate) fn volume(self, name: &str, zone: &str) -> Self {
        self.volume_at(name, Expression::equals(ZONE, zone))
    }

    /// A volume that only nodes with this label reach.
    pub(crate) fn volume_at(mut self, name: &str, at: Expression) -> Self {
        let node_affinity = vec![NodeTerm::new(vec![at])];
        let volume = Volume { driver: Some(DRIVER.into()), node_affinity, is_local: false };
        self.snapshot.storage.volumes.insert(name.into(), volume);
        self
    }

    /// A volume whose data is on the node, which it says nothing of, as one of `hostPath` need not.
    pub(crate) fn local_volume(mut self, name: &str) -> Self {
        let volume = Volume { driver: None, node_affinity: Vec::new(), is_local: true };
        self.snapshot.storage.volumes.insert(name.into(), volume);
        self
    }

    pub(crate) fn shared_limit(mut self, pools: &[&str], nodes_max: u32) -> Self {
        let pools = pools.iter().map(|pool| Text::from(*pool)).collect();
        self.snapshot.shared_limits.push(SharedLimit { pools, nodes_max });
        self
    }

    pub(crate) fn unavailable(mut self, pattern: OfferingPattern) -> Self {
        self.policy.unavailable.push(pattern);
        self
    }

    pub(crate) fn unavailable_to(mut self, pool: &str, pattern: OfferingPattern) -> Self {
        self.policy.unavailable_to.entry(pool.into()).or_default().push(pattern);
        self
    }

    pub(crate) fn ignore_preferences(mut self) -> Self {
        self.policy.preferences = PreferencePolicy::Ignore;
        self
    }

    pub(crate) fn best_effort_min_values(mut self) -> Self {
        self.policy.min_values = MinValuesPolicy::BestEffort;
        self
    }

    /// A PodDisruptionBudget of the default namespace over pods with `app=<app>`.
    pub(crate) fn pod_budget(self, app: &str, disruptions_allowed: u32) -> Self {
        let selector = Selector::new(vec![Expression::equals("app", app)]);
        self.pod_budget_over("default", Some(selector), disruptions_allowed)
    }

    pub(crate) fn pod_budget_over(
        mut self,
        namespace: &str,
        selector: Option<Selector>,
        disruptions_allowed: u32,
    ) -> Self {
        let name = format!("budget-{}", self.snapshot.pod_budgets.len()).into();
        let namespace = namespace.into();
        self.snapshot.pod_budgets.push(PodBudget { namespace, name, selector, disruptions_allowed });
        self
    }

    pub(crate) fn disrupts(mut self, change: impl FnOnce(&mut DisruptionPolicy)) -> Self {
        change(&mut self.policy.disruption);
        self
    }

    pub(crate) fn finish(self) -> (Snapshot, Policy) {
        (self.snapshot.in_order(), self.policy)
    }
}

/// Asks for one CPU and has the label `app=<name>`.
pub(crate) fn pod(name: &str) -> Pod {
    let spec = PodSpec {
        labels: Labels::from([("app".into(), name.into())]),
        requests: Resources::of(&[(CPU, 1000), (PODS, 1)]),
        ..PodSpec::default()
    };
    Pod {
        namespace: "default".into(),
        name: name.into(),
        spec: Arc::new(spec),
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

pub(crate) trait PodWords: Sized {
    fn with(self, change: impl FnOnce(&mut PodSpec)) -> Pod;
    fn running_on(self, node: &str) -> Pod;
    fn uses(self, claims: &[&str]) -> Pod;
    fn disrupted(self, change: impl FnOnce(&mut PodDisruption)) -> Pod;

    fn cpu(self, milli: i64) -> Pod {
        self.asks(CPU, milli)
    }

    fn asks(self, resource: &str, amount: i64) -> Pod {
        self.with(|spec| spec.requests.set(resource, amount))
    }

    fn label(self, key: &str, value: &str) -> Pod {
        self.with(|spec| drop(spec.labels.insert(key.into(), value.into())))
    }

    fn selects(self, key: &str, value: &str) -> Pod {
        self.with(|spec| spec.node_selector.push(Expression::equals(key, value)))
    }

    /// One more term of required node affinity.
    fn or_needs(self, expressions: &[Expression]) -> Pod {
        let term = NodeTerm::new(expressions.to_vec());
        self.with(|spec| spec.node_affinity.get_or_insert_default().push(term))
    }

    fn prefers(self, weight: i32, expression: Expression) -> Pod {
        let term = NodeTerm::new(vec![expression]);
        self.with(|spec| spec.node_preferences.push(Weighted { weight, term }))
    }

    fn near(self, term: PodTerm) -> Pod {
        self.with(|spec| spec.affinity.push(term))
    }

    fn away_from(self, term: PodTerm) -> Pod {
        self.with(|spec| spec.anti_affinity.push(term))
    }

    fn spread(self, spread: Spread) -> Pod {
        self.with(|spec| spec.spread.push(spread))
    }

    fn tolerates(self, key: Option<&str>, value: Option<&str>, effect: Option<TaintEffect>) -> Pod {
        let toleration = Toleration { key: key.map(Text::from), value: value.map(Text::from), effect };
        self.with(|spec| spec.tolerations.push(toleration))
    }

    fn host_port(self, ip: &str, protocol: Protocol, port: u16) -> Pod {
        self.with(|spec| spec.host_ports.push(HostPort { ip: ip.into(), protocol, port }))
    }

    fn priority(self, priority: i32) -> Pod {
        self.with(|spec| spec.priority = priority)
    }
}

impl PodWords for Pod {
    fn with(mut self, change: impl FnOnce(&mut PodSpec)) -> Pod {
        change(Arc::make_mut(&mut self.spec));
        self
    }

    fn running_on(self, node: &str) -> Pod {
        Pod { node: Some(node.into()), phase: PodPhase::Running, ..self }
    }

    fn disrupted(mut self, change: impl FnOnce(&mut PodDisruption)) -> Pod {
        change(&mut self.disruption);
        self
    }

    fn uses(self, claims: &[&str]) -> Pod {
        Pod { volumes: claims.iter().map(|claim| VolumeRef::Claim((*claim).into())).collect(), ..self }
    }
}

/// `key operator values`.
pub(crate) fn expression(key: &str, operator: Operator, values: &[&str]) -> Expression {
    Expression::new(key, operator, values.iter().map(|value| Text::from(*value)).collect()).unwrap()
}

/// Pods with `app=<app>` of the own namespace, within one domain of `key`.
pub(crate) fn pods_of(app: &str, key: &str) -> PodTerm {
    PodTerm {
        selector: Some(Selector::new(vec![Expression::equals("app", app)])),
        namespaces: Vec::new(),
        namespace_selector: None,
        topology_key: key.into(),
    }
}

/// Required, with a skew of at most one over the domains of `key`, of pods with `app=<app>`.
pub(crate) fn evenly(app: &str, key: &str) -> Spread {
    Spread {
        topology_key: key.into(),
        max_skew: 1,
        required: true,
        selector: Some(Selector::new(vec![Expression::equals("app", app)])),
        min_domains: 1,
        honor_node_affinity: true,
        honor_node_taints: false,
    }
}

/// Four CPUs, 16 GiB, in this zone, not of any pool, without a price.
pub(crate) fn node(name: &str, zone: &str) -> Node {
    let room = Resources::of(&[(CPU, 4000), (MEMORY, 16 * GIB), (PODS, 110)]);
    Node {
        name: name.into(),
        labels: Labels::from([(HOSTNAME.into(), name.into()), (ZONE.into(), zone.into())]),
        taints: Vec::new(),
        capacity: room.clone(),
        allocatable: room,
        state: NodeState::Running,
        pool: None,
        price: None,
        volume_limits: BTreeMap::new(),
        disruption: NodeDisruption::default(),
    }
}

pub(crate) trait NodeWords {
    fn has(self, resource: &str, amount: i64) -> Node;
    fn labelled(self, key: &str, value: &str) -> Node;
    fn tainted(self, key: &str, effect: TaintEffect) -> Node;
    fn of_pool(self, pool: &str) -> Node;
    fn in_state(self, state: NodeState) -> Node;
    fn attaches(self, volumes_max: u32) -> Node;
    fn costs(self, micro_usd: i64) -> Node;
    fn worn(self, change: impl FnOnce(&mut NodeDisruption)) -> Node;
}

impl NodeWords for Node {
    fn has(mut self, resource: &str, amount: i64) -> Node {
        self.capacity.set(resource, amount);
        self.allocatable.set(resource, amount);
        self
    }

    fn labelled(mut self, key: &str, value: &str) -> Node {
        self.labels.insert(key.into(), value.into());
        self
    }

    fn tainted(mut self, key: &str, effect: TaintEffect) -> Node {
        self.taints.push(Taint::new(key, "", effect));
        self
    }

    fn of_pool(self, pool: &str) -> Node {
        Node { pool: Some(pool.into()), ..self.labelled(NODEPOOL, pool) }
    }

    fn in_state(self, state: NodeState) -> Node {
        Node { state, ..self }
    }

    fn attaches(mut self, volumes_max: u32) -> Node {
        self.volume_limits.insert(DRIVER.into(), volumes_max);
        self
    }

    fn costs(self, micro_usd: i64) -> Node {
        Node { price: Some(Price::from_micro_usd(micro_usd)), ..self }
    }

    fn worn(mut self, change: impl FnOnce(&mut NodeDisruption)) -> Node {
        change(&mut self.disruption);
        self
    }
}

/// Sells [`small`] and [`large`].
pub(crate) fn pool(name: &str) -> Pool {
    Pool {
        name: name.into(),
        requirements: Requirements::new(),
        labels: Labels::from([(NODEPOOL.into(), name.into())]),
        taints: Vec::new(),
        startup_taints: Vec::new(),
        limits: Limits::default(),
        weight: 0,
        replicas: None,
        nodes_min: 0,
        division: Division::default(),
        types: Arc::from([Arc::new(small()), Arc::new(large())]),
        blocked: None,
        unreadable_ledger: None,
        is_patient: false,
        disruption: PoolDisruption::default(),
        node_cost: Price::ZERO,
    }
}

pub(crate) trait PoolWords {
    fn sells(self, types: &[InstanceType]) -> Pool;
    fn requires(self, expression: Expression) -> Pool;
    fn min_values(self, key: &str, count: u32) -> Pool;
    fn labels(self, key: &str, value: &str) -> Pool;
    fn taints(self, key: &str, effect: TaintEffect) -> Pool;
    fn limits(self, resource: &str, amount: i64) -> Pool;
    fn nodes_max(self, nodes: u32) -> Pool;
    fn disrupts(self, change: impl FnOnce(&mut PoolDisruption)) -> Pool;
}

impl PoolWords for Pool {
    fn sells(self, types: &[InstanceType]) -> Pool {
        Pool { types: types.iter().cloned().map(Arc::new).collect(), ..self }
    }

    fn requires(mut self, expression: Expression) -> Pool {
        self.requirements.add(&expression);
        self
    }

    fn min_values(mut self, key: &str, count: u32) -> Pool {
        self.requirements.set_min_values(key.into(), count);
        self
    }

    fn labels(mut self, key: &str, value: &str) -> Pool {
        self.labels.insert(key.into(), value.into());
        self
    }

    fn taints(mut self, key: &str, effect: TaintEffect) -> Pool {
        self.taints.push(Taint::new(key, "", effect));
        self
    }

    fn limits(mut self, resource: &str, amount: i64) -> Pool {
        self.limits.resources.set(resource, amount);
        self
    }

    fn nodes_max(mut self, nodes: u32) -> Pool {
        self.limits.nodes = Some(nodes);
        self
    }

    fn disrupts(mut self, change: impl FnOnce(&mut PoolDisruption)) -> Pool {
        change(&mut self.disruption);
        self
    }
}

/// Two CPUs and 8 GiB, on demand in zones a and b.
pub(crate) fn small() -> InstanceType {
    machine("small", 2)
}

/// Eight CPUs and 32 GiB, on demand in zones a and b.
pub(crate) fn large() -> InstanceType {
    machine("large", 8)
}

/// With its number of CPUs as the label `size`, four GiB to a CPU, on demand in zones a and b.
pub(crate) fn machine(name: &str, cpus: i64) -> InstanceType {
    let size = Text::from(cpus.to_string());
    InstanceType {
        name: name.into(),
        labels: Labels::from([(names::ARCH.into(), "amd64".into()), ("size".into(), size)]),
        capacity: Resources::of(&[(CPU, cpus * 1000), (MEMORY, cpus * 4 * GIB), (PODS, 110)]),
        overhead: Resources::new(),
        volume_limits: BTreeMap::new(),
        offerings: Vec::new(),
    }
    .sold("a", CapacityType::OnDemand)
    .sold("b", CapacityType::OnDemand)
}

pub(crate) trait TypeWords {
    fn nowhere(self) -> InstanceType;
    fn sold(self, zone: &str, capacity_type: CapacityType) -> InstanceType;
    fn labelled(self, key: &str, value: &str) -> InstanceType;
    fn has(self, resource: &str, amount: i64) -> InstanceType;
}

impl TypeWords for InstanceType {
    /// Without offerings, to be [`sold`](TypeWords::sold) anew.
    fn nowhere(self) -> InstanceType {
        InstanceType { offerings: Vec::new(), ..self }
    }

    /// At ten cents per CPU on demand, six as spot and one reserved, and a little more in later zones.
    fn sold(mut self, zone: &str, capacity_type: CapacityType) -> InstanceType {
        let cents = match capacity_type {
            CapacityType::OnDemand => 10,
            CapacityType::Spot => 6,
            CapacityType::Reserved => 1,
        };
        let surcharge = i64::from(zone.as_bytes()[0] - b'a');
        let price = self.capacity.get(CPU) * (cents * 10 + surcharge);
        self.offerings.push(Offering {
            zone: zone.into(),
            capacity_type,
            price: Price::from_micro_usd(price),
            estimated: false,
            available: true,
            remaining: None,
            labels: Labels::new(),
        });
        self
    }

    fn labelled(mut self, key: &str, value: &str) -> InstanceType {
        self.labels.insert(key.into(), value.into());
        self
    }

    fn has(mut self, resource: &str, amount: i64) -> InstanceType {
        self.capacity.set(resource, amount);
        self
    }
}

/// Bound to a volume.
pub(crate) fn bound_to(volume: &str) -> VolumeClaim {
    VolumeClaim { volume: Some(volume.into()), ..of_class("") }
}

/// Not bound yet.
pub(crate) fn of_class(class: &str) -> VolumeClaim {
    VolumeClaim {
        storage_class: Some(class.into()),
        volume: None,
        lost: false,
        deleting: false,
        single_pod: false,
    }
}

/// Makes volumes where their first pod goes, anywhere.
pub(crate) fn waiting_class() -> StorageClass {
    StorageClass {
        driver: DRIVER.into(),
        waits_for_pod: true,
        allowed_topologies: Vec::new(),
        is_default: false,
        created: 0,
    }
}
