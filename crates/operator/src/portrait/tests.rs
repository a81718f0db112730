use std::sync::Arc;
use std::time::Duration;

use berth_core::disruption::{NodeDisruption, PodDisruption};
use berth_core::division::Division;
use berth_core::names::Labels;
use berth_core::plan::{Bind, Unplaced};
use berth_core::pod::{PodOrigin, PodSpec};
use berth_core::pool::Limits;
use berth_core::reason::Reason;
use berth_core::resources::Resources;
use berth_core::snapshot::Snapshot;
use serde_json::{Value, json};

use super::*;
use crate::watched::BlindSpot;

fn now() -> Timestamp {
    "2026-03-01T09:10:00Z".parse().unwrap()
}

fn node(name: &str, pool: Option<&str>, state: NodeState) -> Node {
    Node {
        name: name.into(),
        labels: Labels::from([
            (names::INSTANCE_TYPE.into(), "s-4x".into()),
            (names::ZONE.into(), "a".into()),
            (names::CAPACITY_TYPE.into(), "spot".into()),
        ]),
        taints: Vec::new(),
        capacity: Resources::of(&[(CPU, 4000), (MEMORY, 16 << 30), (PODS, 64)]),
        allocatable: Resources::of(&[(CPU, 3900), (MEMORY, 15 << 30), (PODS, 64)]),
        state,
        pool: pool.map(Text::from),
        price: Some(Price::from_micro_usd(100_000)),
        volume_limits: BTreeMap::new(),
        disruption: NodeDisruption::default(),
    }
}

fn pod(name: &str, node: Option<&str>) -> Pod {
    let requests = Resources::of(&[(CPU, 500), (MEMORY, 1 << 30), (PODS, 1)]);
    Pod {
        namespace: "shop".into(),
        name: name.into(),
        spec: Arc::new(PodSpec { requests, ..PodSpec::default() }),
        phase: if node.is_some() { PodPhase::Running } else { PodPhase::Pending },
        node: node.map(Text::from),
        nominated: None,
        is_fresh: false,
        deleting: false,
        origin: PodOrigin::Object,
        daemon_set: None,
        mirror: false,
        volumes: [].into(),
        disruption: PodDisruption::default(),
    }
}

fn pool(name: &str) -> Pool {
    Pool {
        name: name.into(),
        requirements: berth_core::requirement::Requirements::default(),
        labels: Labels::new(),
        taints: Vec::new(),
        startup_taints: Vec::new(),
        limits: Limits { resources: Resources::of(&[(CPU, 64_000)]), nodes: Some(10) },
        weight: 0,
        replicas: None,
        nodes_min: 0,
        division: Division::default(),
        types: [].into(),
        blocked: None,
        unreadable_ledger: None,
        is_patient: false,
        disruption: berth_core::disruption::PoolDisruption::default(),
        node_cost: Price::ZERO,
    }
}

fn claim(name: &str, holds: &[&str], node: &str, is_deleting: bool) -> (Text, Arc<Claim>) {
    let conditions: Vec<Value> = holds.iter().map(|kind| json!({ "type": kind, "status": "True" })).collect();
    let mut claim = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {
            "name": name, "creationTimestamp": "2026-03-01T09:00:00Z",
            "labels": { names::NODEPOOL: "p", names::INSTANCE_TYPE: "s-4x" },
        },
        "spec": {
            "nodeClassRef": { "group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default" },
            "requirements": [],
        },
        "status": { "nodeName": node, "conditions": conditions },
    });
    if is_deleting {
        claim["metadata"]["deletionTimestamp"] = json!("2026-03-01T09:05:00Z");
    }
    (name.into(), Arc::new(crate::dialect::Dialect::Karpenter.claim(&claim.to_string()).unwrap()))
}

fn report(snapshot: Snapshot) -> Report {
    Report {
        at: now(),
        cluster: "quay".to_owned(),
        is_leader: true,
        snapshot: Arc::new(snapshot.in_order()),
        ..Report::default()
    }
}

fn seen(report: &Report) -> Value {
    serde_json::to_value(portrait(report, None)).unwrap()
}

#[test]
fn a_node_is_in_the_phase_of_its_claim() {
    const UP: [&str; 3] = ["Launched", "Registered", "Initialized"];
    let underutilized = Some(DisruptionReason::Underutilized);
    for (holds, node_name, is_deleting, leaving, expected) in [
        (&UP[..0], "", false, None, json!(["Launching", null])),
        (&UP[..1], "", false, None, json!(["Registering", null])),
        (&UP[..2], "n", false, None, json!(["Initializing", null])),
        (&UP[..], "n", false, None, json!(["Ready", null])),
        (&UP[..], "n", false, underutilized, json!(["Disrupting", "Underutilized"])),
        (&UP[..], "n", true, underutilized, json!(["Draining", "Underutilized"])),
        (&UP[..], "n", true, None, json!(["Draining", null])),
        (&["Launched", "Registered", "Drained"][..], "n", true, None, json!(["Terminating", null])),
        (&UP[..1], "", true, None, json!(["Terminating", null])),
        (&["Failed"][..], "", false, None, json!(["Failed", null])),
        (&["Failed"][..], "", true, None, json!(["Terminating", null])),
    ] {
        let nodes = vec![node("n", Some("p"), NodeState::Running)];
        let report = Report {
            claims: BTreeMap::from([claim("n", holds, node_name, is_deleting)]),
            leaving: leaving.into_iter().map(|reason| ("n".into(), reason)).collect(),
            ..report(Snapshot { nodes, ..Snapshot::default() })
        };
        let view = seen(&report);
        let node = &view["nodes"][0];
        assert_eq!(json!([node["phase"], node["reason"]]), expected, "{holds:?} {is_deleting} {leaving:?}");
        assert_eq!(view["claims"][0]["phase"], node["phase"]);
        assert_eq!(view["claims"][0]["ageSecs"], 600);
    }
    for (pool, state, expected) in [
        (None, NodeState::Running, "Unmanaged"),
        (Some("p"), NodeState::Starting, "Initializing"),
        (Some("p"), NodeState::Running, "Ready"),
        (Some("p"), NodeState::Deleting, "Draining"),
    ] {
        let nodes = vec![node("n", pool, state)];
        let view = seen(&report(Snapshot { nodes, ..Snapshot::default() }));
        assert_eq!(view["nodes"][0]["phase"], expected, "{pool:?} {state:?}");
    }
}

#[test]
fn a_node_has_the_pods_that_run_there() {
    let daemon = Pod { daemon_set: Some("logs".into()), ..pod("logs", Some("n")) };
    let done = Pod { phase: PodPhase::Succeeded, ..pod("done", Some("n")) };
    let ending = Pod { deleting: true, ..pod("ending", Some("n")) };
    let snapshot = Snapshot {
        nodes: vec![node("n", Some("p"), NodeState::Running)],
        pods: vec![daemon, done, ending, pod("elsewhere", Some("m")), pod("web", Some("n"))],
        ..Snapshot::default()
    };
    let view = seen(&report(snapshot));
    let pod = |name: &str, phase: &str, daemon: bool| {
        json!({
            "namespace": "shop", "name": name, "cpuMilli": 500, "memoryBytes": 1_i64 << 30, "phase": phase,
            "daemon": daemon,
        })
    };
    assert_eq!(
        view["nodes"][0],
        json!({
            "name": "n", "pool": "p", "phase": "Ready", "reason": null, "instanceType": "s-4x", "zone": "a",
            "capacityType": "spot", "pricePerHour": "0.100000",
            "allocatable": { "cpuMilli": 3900, "memoryBytes": 15_i64 << 30, "pods": 64 },
            "pods": [pod("ending", "Terminating", false), pod("logs", "Running", true), pod("web", "Running", false)],
            "podsMore": 0, "podsMoreAsk": { "cpuMilli": 0, "memoryBytes": 0 },
        })
    );
}

/// What was otherwise when the bound was made.
type Change = fn(&mut Snapshot);

/// All run on a node of this name.
fn move_to(snapshot: &mut Snapshot, name: &str) {
    snapshot.nodes[0].name = name.into();
    snapshot.pods.iter_mut().for_each(|pod| pod.node = Some(name.into()));
}

/// The bound is that of the last plan, and of no other pods, nodes and prices than that was made for.
#[test]
fn the_bound_is_that_of_what_is_seen() {
    let at = |text: &str| -> Timestamp { text.parse().unwrap() };
    let planned = Plan { cost_before: Price::from_micro_usd(300_000), ..Plan::default() };
    let point = |at: &str, cost: &str, bound: Option<&str>| json!({ "at": at, "perHour": cost, "lowerBoundPerHour": bound });
    let (then, now) = ("2026-03-01T09:00:00.000Z", "2026-03-01T09:10:00.000Z");
    let seen_now = || Snapshot {
        nodes: vec![node("n", Some("p"), NodeState::Running)],
        pods: vec![pod("a", Some("n")), pod("b", Some("n"))],
        pools: vec![pool("p")],
        ..Snapshot::default()
    };
    let cases: [(&str, Option<i64>, Change, Option<&str>); 9] = [
        ("nobody has proved anything yet", None, |_| {}, None),
        ("nothing has changed", Some(60_000), |_| {}, Some("0.060000")),
        ("it waits, and is not paid for yet", Some(250_000), |_| {}, Some("0.100000")),
        ("it ran elsewhere", Some(60_000), |then| then.pods[0].node = None, Some("0.060000")),
        ("another node was bought", Some(60_000), |then| move_to(then, "m"), Some("0.060000")),
        ("there was one pod more", Some(60_000), |then| then.pods.push(pod("c", None)), None),
        ("one asked for more", Some(60_000), |then| then.pods[0].spec = Arc::default(), None),
        ("a node has come for nothing", Some(60_000), |then| then.nodes[0].pool = None, None),
        (
            "nodes were dearer",
            Some(60_000),
            |then| then.pools[0].node_cost = Price::from_micro_usd(1000),
            None,
        ),
    ];
    for (what, bound, change, expected) in cases {
        let mut report = report(seen_now());
        let mut points = Vec::new();
        if let Some(bound) = bound.map(Price::from_micro_usd) {
            let mut before = seen_now();
            change(&mut before);
            report.course.add(at(then), (&before, &planned), bound);
            points.push(point(then, "0.300000", Some(&bound.to_string())));
        }
        points.push(point(now, "0.100000", expected));
        let view = seen(&report);
        assert_eq!(view["costOverTime"], json!(points), "{what}");
        let cost = json!([view["cost"]["perHour"], view["cost"]["lowerBoundPerHour"]]);
        assert_eq!(cost, json!(["0.100000", expected]), "{what}");
    }
}

#[test]
fn pods_wait_for_a_node_or_for_a_reason() {
    let refusal =
        PoolRefusal { pool: Some("p".into()), refusal: Reason::InsufficientCpu.because("too large") };
    let snapshot = Snapshot {
        nodes: vec![node("n", Some("p"), NodeState::Starting)],
        pods: vec![
            pod("a-goes", None),
            pod("b-is-bought-for", None),
            pod("c-has-no-place", None),
            Pod { nominated: Some("n".into()), ..pod("d-is-nominated", None) },
            Pod { deleting: true, ..pod("e-is-leaving", None) },
            Pod { daemon_set: Some("logs".into()), ..pod("f-is-of-a-node", None) },
            Pod { origin: PodOrigin::Buffer, ..pod("g-holds-room", None) },
            pod("h-runs", Some("n")),
        ],
        ..Snapshot::default()
    };
    let plan = Plan {
        binds: vec![Bind { pod: 0, host: Host::Node(0) }, Bind { pod: 1, host: Host::Launch(0) }],
        unplaced: vec![Unplaced { pod: 2, refusals: vec![refusal] }],
        ..Plan::default()
    };
    let since = |secs: u64| now().checked_sub(Duration::from_secs(secs)).unwrap();
    let report = Report {
        waiting: Some(Arc::new(plan)),
        waiting_since: BTreeMap::from([
            (("shop".into(), "a-goes".into()), since(5)),
            (("shop".into(), "c-has-no-place".into()), since(90)),
        ]),
        ..report(snapshot)
    };
    let view = seen(&report);
    let brief: Vec<Value> = view["pending"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pod| json!([pod["name"], pod["sinceSecs"], pod["goesTo"], pod["reasons"][0]["reason"]]))
        .collect();
    assert_eq!(
        json!(brief),
        json!([
            ["c-has-no-place", 90, null, "InsufficientCpu"],
            ["d-is-nominated", 0, "n", null],
            ["a-goes", 5, "n", null],
            ["b-is-bought-for", 0, "a new node", null],
        ])
    );
    assert_eq!(
        view["pending"][0]["reasons"][0],
        json!({ "pool": "p", "reason": "InsufficientCpu", "message": "too large" })
    );
}

#[test]
fn pools_say_what_they_may_have() {
    let snapshot = Snapshot {
        nodes: vec![
            node("a", Some("p"), NodeState::Running),
            node("b", Some("p"), NodeState::Deleting),
            node("c", Some("p"), NodeState::Starting),
            node("d", None, NodeState::Running),
        ],
        pools: vec![
            pool("p"),
            Pool {
                blocked: Some(Reason::InsufficientCpu.because("no")),
                limits: Limits::default(),
                ..pool("q")
            },
        ],
        ..Snapshot::default()
    };
    assert_eq!(
        seen(&report(snapshot))["pools"],
        json!([
            {
                "name": "p", "ready": true, "message": null, "costPerHour": "0.300000",
                "limits": [
                    { "resource": "cpu", "used": "12", "limit": "64" },
                    { "resource": "nodes", "used": "3", "limit": "10" },
                ],
                // One in ten of two is one, and one is away.
                "disruptionsAllowed": 0, "disrupting": 1,
            },
            {
                "name": "q", "ready": false, "message": "InsufficientCpu: no", "costPerHour": "0.000000", "limits": [],
                "disruptionsAllowed": 0, "disrupting": 0,
            },
        ])
    );
}

#[test]
fn it_says_who_looks_and_what_is_not_seen() {
    let controls = ControlsView {
        workloads: Vec::new(),
        price_percent: 100,
        cloud_broken: false,
        speed: 1,
        speeds: vec![1],
    };
    let blind = || vec![BlindSpot { plural: "pods", why: "nothing was heard yet".to_owned() }];
    for (mode, is_leader, controls, blind_spots, expected) in [
        (Mode::Act, true, None, vec![], json!(["run", true, []])),
        (Mode::Act, false, None, vec![], json!(["run", false, []])),
        (Mode::Act, true, Some(&controls), vec![], json!(["demo", true, []])),
        (Mode::Shadow, false, None, vec![], json!(["shadow", true, []])),
        (Mode::Act, true, None, blind(), json!(["run", true, ["pods: nothing was heard yet"]])),
    ] {
        let report = Report { mode, is_leader, blind_spots, ..report(Snapshot::default()) };
        let view = serde_json::to_value(portrait(&report, controls)).unwrap();
        assert_eq!(json!([view["mode"], view["leader"], view["missing"]]), expected);
        assert_eq!(view["controls"].is_null(), controls.is_none());
        assert_eq!(view["at"], "2026-03-01T09:10:00.000Z");
    }
}

#[test]
fn a_large_cluster_has_a_small_portrait() {
    let names: Vec<String> = (0..5000).map(|index| format!("general-{index}")).collect();
    let on = |index: usize| names[index % names.len()].as_str();
    let pods = (0..100_000).map(|index| pod(&format!("web-{index}"), Some(on(index))));
    let waiting = (0..3000).map(|index| pod(&format!("waits-{index}"), None));
    let snapshot = Snapshot {
        nodes: names.iter().map(|name| node(name, Some("p"), NodeState::Running)).collect(),
        pods: pods.chain(waiting).collect(),
        ..Snapshot::default()
    };
    let report = Report {
        claims: names
            .iter()
            .map(|name| claim(name, &["Launched", "Registered", "Initialized"], name, false))
            .collect(),
        ..report(snapshot)
    };
    let view = seen(&report);
    let node = &view["nodes"][0];
    assert_eq!(node["pods"].as_array().unwrap().len() as u64 + node["podsMore"].as_u64().unwrap(), 20);
    assert_eq!(node["podsMoreAsk"]["cpuMilli"], node["podsMore"].as_i64().unwrap() * 500);
    assert_eq!((view["pending"].as_array().unwrap().len(), &view["pendingMore"]), (400, &json!(2600)));
    assert_eq!((view["claims"].as_array().unwrap().len(), &view["claimsMore"]), (400, &json!(4600)));
    let bytes = serde_json::to_string(&portrait(&report, None)).unwrap().len();
    assert!(bytes < 2_500_000, "{bytes} bytes");
}
