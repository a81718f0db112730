//! Views with something of everything that the page can show.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::all;

/// Phases in which nodes are, and why they are if that is told.
const PHASES: [(&str, Option<&str>); 8] = [
    ("Ready", None),
    ("Launching", None),
    ("Registering", None),
    ("Initializing", None),
    ("Disrupting", Some("Underutilized")),
    ("Draining", Some("Drifted")),
    ("Terminating", Some("Expired")),
    ("Unmanaged", None),
];

/// One that stands still and is legal: its pods are on its nodes, and its cost is that of its nodes.
pub(super) fn of_everything() -> Value {
    let nodes: Vec<Value> = (0..12).map(node).collect();
    let claims: Vec<Value> = (0..30).map(claim).collect();
    let cost: u32 = (0..12).filter_map(micro_usd).sum();
    json!({
        "mode": "demo", "cluster": "A <cluster> of its own", "leader": true, "at": "2026-03-01T09:10:00.000Z",
        "missing": [],
        "cost": cost_of(cost, cost / 2),
        "costOverTime": [
            at("2026-03-01T09:00:00.000Z", 100_000, 90_000), at("2026-03-01T09:04:00.000Z", 1_900_000, 900_000),
            at("2026-03-01T09:07:00.000Z", 1_400_000, 700_000), at("2026-03-01T09:10:00.000Z", cost, cost / 2),
        ],
        "pools": [
            {
                "name": "general", "ready": true, "message": null, "costPerHour": "0.600000",
                "limits": [
                    { "resource": "cpu", "used": "62", "limit": "64" },
                    { "resource": "memory", "used": "64Gi", "limit": "384Gi" },
                ],
                "disruptionsAllowed": 1, "disrupting": 3,
            },
            {
                "name": "spot", "ready": false, "message": "NodeClassNotReady: its class is not ready",
                "costPerHour": "0.400000", "limits": [], "disruptionsAllowed": 0, "disrupting": 0,
            },
            {
                "name": "resting", "ready": true, "message": "PoolResting: it grew a minute ago",
                "costPerHour": "0.000000", "limits": [{ "resource": "nodes", "used": "0", "limit": "10" }],
                "disruptionsAllowed": 0, "disrupting": 0,
            },
        ],
        "nodes": nodes,
        "pending": [
            pending("web-5c8d7f9b6-4zx7k", Some("general-2"), &json!([])),
            pending("huge-0", None, &json!([
                { "pool": "general", "reason": "InsufficientCpu", "message": "no offering has 400 cpu" },
                { "pool": null, "reason": "Unschedulable", "message": "it asks for a node that is not there" },
            ])),
            pending("new-0", None, &json!([])),
        ],
        "pendingMore": 0,
        "decisions": decisions(),
        "claims": claims, "claimsMore": 0,
        "controls": {
            "workloads": [
                { "namespace": "shop", "name": "web", "replicas": 6 },
                { "namespace": "shop", "name": "worker", "replicas": 8 },
            ],
            "pricePercent": 100, "cloudBroken": false, "speed": 5, "speeds": [1, 5, 20],
        },
    })
}

/// The first seconds: there is no plan, and little else.
pub(super) fn of_the_beginning() -> Value {
    let mut view = of_everything();
    view["at"] = json!("2026-03-01T09:00:01.000Z");
    view["cost"]["lowerBoundPerHour"] = Value::Null;
    let mut now = view["cost"].clone();
    now["at"] = view["at"].clone();
    view["costOverTime"] = json!([now]);
    for list in ["pending", "decisions", "claims"] {
        view[list] = json!([]);
    }
    view
}

/// Another replica leads, and not all is seen: what is heeded is said. Nobody has a bound for the pods that there are now.
pub(super) fn of_trouble() -> Value {
    let mut view = of_everything();
    view["cost"]["lowerBoundPerHour"] = Value::Null;
    if let Some(now) = view["costOverTime"].as_array_mut().and_then(|points| points.last_mut()) {
        now["lowerBoundPerHour"] = Value::Null;
    }
    view["at"] = json!("2026-03-01T09:11:00.000Z");
    view["mode"] = json!("shadow");
    view["leader"] = json!(false);
    view["missing"] = json!(["pods: nothing was heard for 40 s", "objects that cannot be read"]);
    view["controls"] = Value::Null;
    view
}

/// The same as a view, with one more node, decision and pending pod, and without its last node.
pub(super) fn after(view: &Value) -> Value {
    let mut next = view.clone();
    let mut nodes = all(view, "nodes").to_vec();
    nodes.pop();
    let mut newcomer = node(0);
    newcomer["name"] = json!("general-new");
    newcomer["pods"] = json!([]);
    nodes.insert(0, newcomer);
    next["nodes"] = json!(nodes);
    let mut decisions = all(view, "decisions").to_vec();
    decisions
        .insert(0, decision(100, "Launch", "Provisioned", "bought general-new for 1 pod", Some("-0.100000")));
    next["decisions"] = json!(decisions);
    let mut waiting = all(view, "pending").to_vec();
    waiting.push(pending("late-0", None, &json!([])));
    next["pending"] = json!(waiting);
    next["at"] = json!("2026-03-01T09:10:05.000Z");
    next
}

fn usd(micro_usd: u32) -> String {
    format!("{}.{:06}", micro_usd / 1_000_000, micro_usd % 1_000_000)
}

fn cost_of(cost: u32, bound: u32) -> Value {
    json!({ "perHour": usd(cost), "lowerBoundPerHour": usd(bound) })
}

fn at(time: &str, cost: u32, bound: u32) -> Value {
    json!({ "at": time, "perHour": usd(cost), "lowerBoundPerHour": usd(bound) })
}

/// Nobody has a price for the last.
fn micro_usd(number: u32) -> Option<u32> {
    (number != 11).then_some(100_000 + 40_000 * number)
}

fn node(number: u32) -> Value {
    let (phase, reason) = PHASES[number as usize % PHASES.len()];
    let pool = match number {
        7 => None,
        8.. => Some("spot"),
        _ => Some("general"),
    };
    let name = format!("{}-{number}", pool.unwrap_or("other"));
    let capacity_type =
        if pool == Some("spot") { "spot" } else { ["on-demand", "reserved"][number as usize % 2] };
    let pod = |name: String, phase: &str, daemon: bool| {
        json!({
            "namespace": "shop", "name": name, "cpuMilli": 400, "memoryBytes": 1_u64 << 30, "phase": phase,
            "daemon": daemon,
        })
    };
    // As Kubernetes makes up the ends of names.
    let letter = |number: u32| char::from(b"bcdfghjklmnp"[number as usize % 12]);
    let workloads = ["web", "api", "worker", "cache", "mail", "search"];
    let mut pods: Vec<Value> = (0..6)
        .map(|index| {
            let workload = workloads[index as usize];
            let phase = ["Running", "Pending", "Terminating", "Running", "Running", "Running"]
                [((index + number) % 6) as usize];
            pod(format!("{workload}-5c8d7f9b6-x{}{}zk", letter(number), letter(index)), phase, false)
        })
        .collect();
    pods.push(pod(format!("logs-{number}"), "Running", true));
    let is_there = !["Launching", "Registering"].contains(&phase);
    json!({
        "name": name, "pool": pool, "phase": phase, "reason": reason, "instanceType": "s-4x",
        "zone": "zone-a", "capacityType": capacity_type, "pricePerHour": micro_usd(number).map(usd),
        "allocatable": { "cpuMilli": 3900, "memoryBytes": 15_u64 << 30, "pods": 64 },
        "pods": if is_there { json!(pods) } else { json!([]) },
        "podsMore": 0, "podsMoreAsk": { "cpuMilli": 0, "memoryBytes": 0 },
    })
}

fn pending(name: &str, goes_to: Option<&str>, reasons: &Value) -> Value {
    json!({
        "namespace": "shop", "name": name, "cpuMilli": 500, "memoryBytes": 1_u64 << 30, "sinceSecs": 12,
        "goesTo": goes_to, "reasons": reasons,
    })
}

fn decision(id: u32, kind: &str, reason: &str, message: &str, saves: Option<&str>) -> Value {
    json!({
        "id": id, "at": "2026-03-01T09:09:00Z", "kind": kind, "reason": reason, "message": message,
        "objects": ["general-0"], "savesPerHour": saves,
    })
}

fn decisions() -> Value {
    json!([
        decision(7, "Failure", "LaunchFailed", "the cloud did not answer", None),
        decision(6, "Refusal", "LimitReached", "no more than 64 cpu & not one more", None),
        decision(5, "Interruption", "SpotInterruption", "spot-8 is taken back", None),
        decision(4, "Undo", "Undone", "general-4 stays", None),
        decision(3, "Replace", "Underutilized", "general-4 goes for a cheaper one", Some("0.100000")),
        decision(2, "Delete", "Empty", "general-5 goes", Some("0.300000")),
        decision(1, "Launch", "Provisioned", "bought general-0 for 6 pods", Some("-0.100000")),
    ])
}

fn claim(number: u32) -> Value {
    let (phase, reason) = PHASES[number as usize % 7];
    json!({
        "name": format!("claim-{number}"), "phase": phase, "node": (phase == "Ready").then(|| format!("general-{number}")),
        "instanceType": "s-4x", "zone": "zone-a", "capacityType": "spot", "ageSecs": 600, "message": reason,
    })
}

/// The nodes of a view but for some.
pub(super) fn without(view: &Value, gone: &dyn Fn(&Value) -> bool) -> Value {
    json!(all(view, "nodes").iter().filter(|node| !gone(node)).collect::<Vec<_>>())
}

/// Where a view has something, whatever it is there: `.nodes[].pods[].name`.
pub(super) fn shape(view: &Value) -> BTreeSet<String> {
    match view {
        Value::Array(items) => items.iter().flat_map(shape).map(|path| format!("[]{path}")).collect(),
        Value::Object(fields) => {
            let paths = |(name, value): (&String, &Value)| -> Vec<String> {
                let inner = shape(value).into_iter().map(|path| format!(".{name}{path}"));
                inner.chain([format!(".{name}")]).collect()
            };
            fields.iter().flat_map(paths).collect()
        }
        _ => BTreeSet::new(),
    }
}
