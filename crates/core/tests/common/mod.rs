//! Random clusters over all the rules, from a seed.
#![expect(clippy::unwrap_used, reason = "a scenario that cannot be built is a mistake in the test")]

mod busy;
mod crowded;

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_core::catalog::{CapacityType, InstanceType, Offering, OfferingPattern};
use berth_core::disruption::{NodeDisruption, PodDisruption, PoolDisruption};
use berth_core::division::{Division, SpotShare, ZoneRule, ZoneSplit};
use berth_core::names::{self, Labels, Text};
use berth_core::node::{Node, NodeState};
use berth_core::pod::{
    HostPort, Pod, PodOrigin, PodPhase, PodSpec, PodTerm, Protocol, Spread, Taint, TaintEffect, Toleration,
    VolumeRef, Weighted,
};
use berth_core::pool::{Limits, Pool};
use berth_core::requirement::{Expression, NodeTerm, Operator, Requirements};
use berth_core::resources::{CPU, MEMORY, PODS, Resources};
use berth_core::selector::Selector;
use berth_core::snapshot::{
    DaemonSet, Effort, MinValuesPolicy, Policy, PreferencePolicy, SharedLimit, Snapshot,
};
use berth_core::units::Price;
use berth_core::volume::{Storage, StorageClass, Volume, VolumeClaim};

pub(crate) use busy::{Freedom, busy_cluster};
pub(crate) use crowded::crowded_cluster;

const GIB: i64 = 1 << 30;
const ZONES: [&str; 3] = ["a", "b", "c"];
const TEAM: &str = "team";
const RACK: &str = "rack";
const GPU: &str = "example.com/gpu";
const DRIVER: &str = "disk.csi";

/// A small deterministic generator (SplitMix64): the same seed gives the same cluster on every machine.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0xD134_2543_DE82_EF95) ^ 0x5851_F42D_4C95_7F2D)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n as u64).unwrap()
    }

    pub(crate) fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    pub(crate) fn pick<'a, T: ?Sized>(&mut self, items: &[&'a T]) -> &'a T {
        items[self.below(items.len())]
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

pub(crate) fn cluster(seed: u64) -> (Snapshot, Policy) {
    let mut dice = Dice::new(seed);
    let types = types(&mut dice);
    let mut pools: Vec<Pool> = (0..=dice.below(3)).map(|i| pool(&mut dice, i, &types)).collect();
    let mut dividing = Dice::new(seed ^ 0xD1_71DE);
    for pool in &mut pools {
        pool.division = division(&mut dividing);
    }
    let nodes: Vec<Node> = (0..dice.below(6)).map(|i| node(&mut dice, i, &pools)).collect();
    let storage = storage(&mut dice);
    let specs: Vec<Arc<PodSpec>> = (0..=dice.below(6)).map(|_| Arc::new(spec(&mut dice, &nodes))).collect();
    let mut pods = Vec::new();
    for i in 0..dice.below(24) {
        let spec = specs[dice.below(specs.len())].clone();
        pods.push(pod(&mut dice, &format!("p{i:02}"), spec, &nodes));
    }
    let daemon_sets = (0..dice.below(3))
        .map(|i| DaemonSet {
            namespace: "sys".into(),
            name: format!("d{i}").into(),
            spec: Arc::new(daemon_spec(&mut dice)),
        })
        .collect();
    let shared_limits = if dice.percent(10) {
        let nodes_max = u32::try_from(dice.below(4)).unwrap();
        vec![SharedLimit { pools: pools.iter().map(|p| p.name.clone()).collect(), nodes_max }]
    } else {
        Vec::new()
    };
    let namespaces = BTreeMap::from([
        (Text::from("x"), Labels::from([("tier".into(), "front".into())])),
        (Text::from("y"), Labels::new()),
    ]);
    let snapshot = Snapshot {
        pods,
        nodes,
        pools,
        daemon_sets,
        namespaces,
        storage,
        shared_limits,
        pod_budgets: Vec::new(),
    }
    .in_order();
    let policy = Policy {
        preferences: if dice.percent(80) { PreferencePolicy::Respect } else { PreferencePolicy::Ignore },
        min_values: if dice.percent(70) { MinValuesPolicy::Strict } else { MinValuesPolicy::BestEffort },
        unavailable: if dice.percent(20) {
            vec![OfferingPattern {
                instance_type: dice.percent(50).then(|| "t1".into()),
                zone: dice.percent(70).then(|| dice.pick(&ZONES).into()),
                capacity_type: dice.percent(30).then_some(CapacityType::Spot),
            }]
        } else {
            Vec::new()
        },
        effort: Effort {
            rounds: [Some(0), Some(3), Some(40), None][dice.below(4)],
            threads: 1 + dice.below(3),
        },
        ..Policy::default()
    };
    (snapshot, policy)
}

fn types(dice: &mut Dice) -> Arc<[Arc<InstanceType>]> {
    (0..2 + dice.below(6))
        .map(|i| {
            let cpu = [1, 2, 4, 8, 16][dice.below(5)];
            let memory = cpu * [2, 4, 8][dice.below(3)];
            let mut capacity = Resources::of(&[
                (CPU, cpu * 1000),
                (MEMORY, memory * GIB),
                (PODS, [4, 8, 110][dice.below(3)]),
            ]);
            if dice.percent(20) {
                capacity.set(GPU, 2);
            }
            if dice.percent(10) {
                capacity.set("hugepages-2Mi", GIB);
            }
            let arch = dice.pick(&["amd64", "arm64"]);
            let base = cpu * 25_000 + memory * 1_000 + i64::try_from(dice.below(20_000)).unwrap();
            let mut offerings = Vec::new();
            for zone in ZONES {
                for capacity_type in [CapacityType::OnDemand, CapacityType::Spot, CapacityType::Reserved] {
                    if dice.percent(35) || (capacity_type == CapacityType::Reserved && dice.percent(80)) {
                        continue;
                    }
                    let percent = match capacity_type {
                        CapacityType::OnDemand => 100,
                        CapacityType::Spot => 40 + i64::try_from(dice.below(60)).unwrap(),
                        CapacityType::Reserved => 1,
                    };
                    offerings.push(Offering {
                        zone: zone.into(),
                        capacity_type,
                        price: Price::from_micro_usd(base * percent / 100),
                        estimated: capacity_type == CapacityType::Spot,
                        available: dice.percent(92),
                        remaining: (capacity_type == CapacityType::Reserved)
                            .then(|| u32::try_from(dice.below(3)).unwrap()),
                        labels: Labels::new(),
                    });
                }
            }
            let volume_limits =
                if dice.percent(15) { BTreeMap::from([(Text::from(DRIVER), 2)]) } else { BTreeMap::new() };
            Arc::new(InstanceType {
                name: format!("t{i}").into(),
                labels: Labels::from([
                    (names::ARCH.into(), arch.into()),
                    (names::OS.into(), "linux".into()),
                    ("size".into(), cpu.to_string().into()),
                ]),
                capacity,
                overhead: Resources::of(&[(CPU, 100), (MEMORY, GIB / 10)]),
                volume_limits,
                offerings,
            })
        })
        .collect()
}

fn taint(dice: &mut Dice) -> Taint {
    let effect =
        [TaintEffect::NoSchedule, TaintEffect::NoExecute, TaintEffect::PreferNoSchedule][dice.below(3)];
    Taint::new(dice.pick(&["dedicated", "spot"]), dice.pick(&["", "v"]), effect)
}

fn pool(dice: &mut Dice, index: usize, types: &Arc<[Arc<InstanceType>]>) -> Pool {
    let name: Text = format!("pool{index}").into();
    let mut requirements = Requirements::new();
    if dice.percent(30) {
        requirements.add(&expression(dice, names::ZONE, &ZONES));
    }
    if dice.percent(30) {
        requirements.add(&expression(dice, names::CAPACITY_TYPE, &["spot", "on-demand", "reserved"]));
    }
    if dice.percent(20) {
        requirements.add(&expression(dice, names::ARCH, &["amd64", "arm64"]));
    }
    if dice.percent(15) {
        let bound = [2, 4, 8][dice.below(3)].to_string();
        let operator = [Operator::Gt, Operator::Lt, Operator::Gte, Operator::Lte][dice.below(4)];
        requirements.add(&Expression::new("size", operator, vec![bound.into()]).unwrap());
    }
    if dice.percent(25) {
        requirements.add(&expression(dice, RACK, &["r1", "r2"]));
    }
    if dice.percent(15) {
        let key = dice.pick(&[names::INSTANCE_TYPE, names::ARCH, names::ZONE]);
        requirements.set_min_values(key.into(), 2);
    }
    let mut labels = Labels::from([(names::NODEPOOL.into(), name.clone())]);
    if dice.percent(30) {
        labels.insert(TEAM.into(), dice.pick(&["red", "blue"]).into());
    }
    let taints = if dice.percent(25) { vec![taint(dice)] } else { Vec::new() };
    let mut limits = Limits::default();
    if dice.percent(30) {
        limits.resources.set(CPU, [0, 2000, 9000, 33_001][dice.below(4)]);
    }
    if dice.percent(15) {
        limits.resources.set(MEMORY, 20 * GIB);
    }
    if dice.percent(15) {
        limits.nodes = Some(u32::try_from(dice.below(4)).unwrap());
    }
    Pool {
        name,
        requirements,
        labels,
        taints,
        startup_taints: vec![Taint::new("starting", "", TaintEffect::NoSchedule)],
        limits,
        weight: [0, 0, 10, 50][dice.below(4)],
        replicas: dice.percent(6).then(|| u32::try_from(dice.below(3)).unwrap()),
        nodes_min: u32::from(dice.percent(5)),
        division: Division::default(),
        types: types.clone(),
        blocked: None,
        unreadable_ledger: None,
        is_patient: false,
        disruption: PoolDisruption::default(),
        node_cost: Price::ZERO,
    }
}

fn division(dice: &mut Dice) -> Division {
    let spot = dice
        .percent(15)
        .then(|| SpotShare { percent_max: [0, 50, 80, 100][dice.below(4)], falls_back: dice.percent(60) });
    let zones = dice.percent(15).then(|| ZoneSplit {
        rule: [ZoneRule::ByWeight, ZoneRule::InOrder][dice.below(2)],
        zones: ZONES.iter().map(|zone| ((*zone).into(), u32::try_from(dice.below(3)).unwrap())).collect(),
        nodes_min: u32::from(dice.percent(20)),
    });
    Division { spot, zones, preferred_type: dice.percent(8).then(|| "t1".into()) }
}

fn expression(dice: &mut Dice, key: &str, values: &[&'static str]) -> Expression {
    let operator =
        [Operator::In, Operator::In, Operator::In, Operator::NotIn, Operator::Exists, Operator::DoesNotExist]
            [dice.below(6)];
    let values = match operator {
        Operator::In | Operator::NotIn => {
            let mut chosen: Vec<Text> =
                values.iter().filter(|_| dice.percent(50)).map(|v| Text::from(*v)).collect();
            if chosen.is_empty() {
                chosen.push(dice.pick(values).into());
            }
            chosen
        }
        _ => Vec::new(),
    };
    Expression::new(key, operator, values).unwrap()
}

fn node(dice: &mut Dice, index: usize, pools: &[Pool]) -> Node {
    let name: Text = format!("node{index}").into();
    let pool = dice.percent(60).then(|| &pools[dice.below(pools.len())]);
    let mut labels = pool.map(|pool| pool.labels.clone()).unwrap_or_default();
    labels.insert(names::HOSTNAME.into(), name.clone());
    labels.insert(names::ARCH.into(), dice.pick(&["amd64", "arm64"]).into());
    labels.insert(names::OS.into(), "linux".into());
    if dice.percent(90) {
        labels.insert(names::ZONE.into(), dice.pick(&ZONES).into());
        labels.insert(names::CAPACITY_TYPE.into(), dice.pick(&["spot", "on-demand"]).into());
    }
    if dice.percent(30) {
        labels.insert(RACK.into(), dice.pick(&["r1", "r2", "r3"]).into());
    }
    let cpu = [2, 4, 8][dice.below(3)];
    let capacity =
        Resources::of(&[(CPU, cpu * 1000), (MEMORY, cpu * 4 * GIB), (PODS, [3, 110][dice.below(2)])]);
    let mut taints = pool.map(|pool| pool.taints.clone()).unwrap_or_default();
    let state = match dice.below(10) {
        0 => NodeState::Deleting,
        1 | 2 => NodeState::Starting,
        _ => NodeState::Running,
    };
    if state == NodeState::Starting {
        taints.push(Taint::new("starting", "", TaintEffect::NoSchedule));
        taints.push(Taint::new(names::TAINT_NOT_READY, "", TaintEffect::NoExecute));
    }
    if dice.percent(10) {
        taints.push(taint(dice));
    }
    Node {
        name,
        labels,
        taints,
        allocatable: capacity.minus(&Resources::of(&[(CPU, 100)])),
        capacity,
        state,
        pool: pool.map(|pool| pool.name.clone()),
        price: dice.percent(80).then(|| Price::from_micro_usd(cpu * 30_000)),
        volume_limits: if dice.percent(30) {
            BTreeMap::from([(Text::from(DRIVER), 1)])
        } else {
            BTreeMap::new()
        },
        disruption: NodeDisruption::default(),
    }
}

fn storage(dice: &mut Dice) -> Storage {
    let mut storage = Storage::default();
    let zone_term = |zone: &str| NodeTerm::new(vec![Expression::equals(names::ZONE, zone)]);
    for (name, waits) in [("late", true), ("eager", false)] {
        storage.classes.insert(
            name.into(),
            StorageClass {
                driver: DRIVER.into(),
                waits_for_pod: waits,
                allowed_topologies: if dice.percent(30) {
                    vec![zone_term("a"), zone_term("b")]
                } else {
                    vec![]
                },
                is_default: name == "late",
                created: 0,
            },
        );
    }
    for i in 0..3 {
        let volume = format!("pv{i}");
        let zone = dice.pick(&ZONES);
        storage.volumes.insert(
            volume.clone().into(),
            Volume { driver: Some(DRIVER.into()), node_affinity: vec![zone_term(zone)], is_local: false },
        );
        for namespace in ["x", "y"] {
            storage.claims.insert(
                (namespace.into(), format!("bound{i}").into()),
                VolumeClaim {
                    storage_class: None,
                    volume: Some(volume.clone().into()),
                    lost: dice.percent(3),
                    deleting: false,
                    single_pod: dice.percent(20),
                },
            );
            storage.claims.insert(
                (namespace.into(), format!("unbound{i}").into()),
                VolumeClaim {
                    storage_class: Some(dice.pick(&["late", "late", "late", "eager"]).into()),
                    volume: None,
                    lost: false,
                    deleting: false,
                    single_pod: false,
                },
            );
        }
    }
    storage
}

fn selector(dice: &mut Dice) -> Selector {
    Selector::new(vec![expression(dice, "app", &["web", "db", "job"])])
}

fn topology_key(dice: &mut Dice) -> Text {
    dice.pick(&[
        names::ZONE,
        names::ZONE,
        names::HOSTNAME,
        names::HOSTNAME,
        names::CAPACITY_TYPE,
        RACK,
        names::ARCH,
    ])
    .into()
}

fn pod_term(dice: &mut Dice) -> PodTerm {
    PodTerm {
        selector: dice.percent(95).then(|| selector(dice)),
        namespaces: if dice.percent(15) { vec!["y".into()] } else { vec![] },
        namespace_selector: dice
            .percent(15)
            .then(|| Selector::new(vec![Expression::equals("tier", "front")])),
        topology_key: topology_key(dice),
    }
}

fn node_term(dice: &mut Dice) -> NodeTerm {
    let mut expressions = Vec::new();
    for (key, values) in [
        (names::ZONE, &ZONES[..]),
        (names::ARCH, &["amd64", "arm64"]),
        (names::CAPACITY_TYPE, &["spot", "on-demand"]),
        (TEAM, &["red", "blue"]),
        (RACK, &["r1", "r2", "r3"]),
        (names::INSTANCE_TYPE, &["t0", "t1", "t2"]),
    ] {
        if dice.percent(20) {
            expressions.push(expression(dice, key, values));
        }
    }
    if dice.percent(10) {
        let operator = [Operator::Gt, Operator::Lt][dice.below(2)];
        expressions.push(Expression::new("size", operator, vec!["4".into()]).unwrap());
    }
    NodeTerm::new(expressions)
}

fn spec(dice: &mut Dice, nodes: &[Node]) -> PodSpec {
    let mut requests = Resources::of(&[(PODS, 1)]);
    if dice.percent(90) {
        requests.set(CPU, [100, 250, 500, 1000, 3000, 9000][dice.below(6)]);
    }
    if dice.percent(80) {
        requests.set(MEMORY, [GIB / 8, GIB, 3 * GIB, 9 * GIB][dice.below(4)]);
    }
    if dice.percent(8) {
        requests.set(GPU, 1);
    }
    if dice.percent(5) {
        requests.set("hugepages-2Mi", GIB / 2);
    }
    let mut spec = PodSpec {
        labels: Labels::from([("app".into(), dice.pick(&["web", "db", "job"]).into())]),
        requests,
        priority: [0, 0, 0, 1000][dice.below(4)],
        ..PodSpec::default()
    };
    if dice.percent(15) {
        spec.node_selector.push(match dice.below(5) {
            0 => Expression::equals(names::ZONE, dice.pick(&ZONES)),
            1 => Expression::equals(TEAM, dice.pick(&["red", "blue"])),
            2 => Expression::equals(RACK, dice.pick(&["r1", "r3"])),
            3 if !nodes.is_empty() => {
                Expression::equals(names::HOSTNAME, nodes[dice.below(nodes.len())].name.clone())
            }
            _ => Expression::equals(names::CAPACITY_TYPE, "on-demand"),
        });
    }
    if dice.percent(20) {
        spec.node_affinity = Some((0..=dice.below(2)).map(|_| node_term(dice)).collect());
    }
    if dice.percent(15) {
        spec.node_preferences = (0..=dice.below(2))
            .map(|_| Weighted { weight: 1 + i32::try_from(dice.below(100)).unwrap(), term: node_term(dice) })
            .collect();
    }
    if dice.percent(15) {
        spec.affinity = (0..=dice.below(2)).map(|_| pod_term(dice)).collect();
    }
    if dice.percent(20) {
        spec.anti_affinity = (0..=dice.below(2)).map(|_| pod_term(dice)).collect();
    }
    if dice.percent(10) {
        spec.affinity_preferences = vec![Weighted { weight: 5, term: pod_term(dice) }];
    }
    if dice.percent(10) {
        spec.anti_affinity_preferences = vec![Weighted { weight: 7, term: pod_term(dice) }];
    }
    if dice.percent(35) {
        spec.spread = (0..=dice.below(2))
            .map(|_| Spread {
                topology_key: topology_key(dice),
                max_skew: 1 + u32::try_from(dice.below(2)).unwrap(),
                required: dice.percent(75),
                selector: dice.percent(95).then(|| selector(dice)),
                min_domains: 1 + u32::try_from(dice.below(4) / 2).unwrap(),
                honor_node_affinity: dice.percent(80),
                honor_node_taints: dice.percent(25),
            })
            .collect();
    }
    if dice.percent(40) {
        spec.tolerations.push(Toleration {
            key: dice.percent(85).then(|| dice.pick(&["dedicated", "spot"]).into()),
            value: dice.percent(40).then(|| dice.pick(&["", "v"]).into()),
            effect: dice.percent(50).then_some(TaintEffect::NoSchedule),
        });
    }
    if dice.percent(12) {
        spec.host_ports.push(HostPort {
            ip: dice.pick(&["0.0.0.0", "10.0.0.1"]).into(),
            protocol: [Protocol::Tcp, Protocol::Udp][dice.below(2)],
            port: [80, 443][dice.below(2)],
        });
    }
    if dice.percent(2) {
        spec.scheduling_gates.push("wait".into());
    }
    spec
}

fn daemon_spec(dice: &mut Dice) -> PodSpec {
    let mut spec = PodSpec {
        labels: Labels::from([("app".into(), "agent".into())]),
        requests: Resources::of(&[(PODS, 1), (CPU, 50), (MEMORY, GIB / 16)]),
        ..PodSpec::default()
    };
    if dice.percent(30) {
        spec.node_selector.push(Expression::equals(names::ARCH, "amd64"));
    }
    if dice.percent(50) {
        spec.tolerations.push(Toleration { key: None, value: None, effect: None });
    }
    if dice.percent(15) {
        spec.host_ports.push(HostPort { ip: "0.0.0.0".into(), protocol: Protocol::Tcp, port: 443 });
    }
    spec
}

fn pod(dice: &mut Dice, name: &str, spec: Arc<PodSpec>, nodes: &[Node]) -> Pod {
    let node = (!nodes.is_empty() && dice.percent(35)).then(|| nodes[dice.below(nodes.len())].name.clone());
    let volumes = if dice.percent(15) {
        let claim = format!("{}{}", dice.pick(&["bound", "unbound", "unbound"]), dice.below(3));
        Box::from([VolumeRef::Claim(claim.into())])
    } else if dice.percent(8) {
        Box::from([VolumeRef::Ephemeral { claim: format!("{name}-scratch").into(), storage_class: None }])
    } else {
        Box::default()
    };
    Pod {
        namespace: dice.pick(&["x", "y"]).into(),
        name: name.into(),
        spec,
        phase: if node.is_some() { PodPhase::Running } else { PodPhase::Pending },
        deleting: node.is_some() && dice.percent(10),
        node,
        is_fresh: false,
        nominated: (!nodes.is_empty() && dice.percent(5))
            .then(|| nodes[dice.below(nodes.len())].name.clone()),
        origin: if dice.percent(5) { PodOrigin::Buffer } else { PodOrigin::Object },
        daemon_set: None,
        mirror: dice.percent(2),
        volumes,
        disruption: PodDisruption::default(),
    }
}
