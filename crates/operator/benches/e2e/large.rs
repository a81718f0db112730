//! A large cluster that is as it should be, and one pod more.
//!
//! The in-process world serves it over TLS, from the process that plays: nothing happens there but what is asked, so
//! that what is measured is the operator's. Every node is full, with as many pods as there are for one, each of another
//! workload.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_api::Timestamp;
use berth_cloud::Cloud;
use berth_cloud::machine::{Machine, Order, Token};
use berth_cloud::provider::Launched;
use berth_core::catalog::CapacityType;
use berth_core::plan::Alternative;
use berth_core::units::Price;
use berth_operator::{Clock, Cluster};
use berth_world::World;
use http::Method;
use kube::Client;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::process::Operating;
use crate::stage::{CLAIMS, CLASSES, NODES, PODS, POOLS, Stage};
use crate::workload;

const TYPE: &str = "s-8x-amd64-linux";
/// What the pods of a node ask for together.
const CPU_MILLI: u32 = 7850;
const MEMORY_MIB: u32 = 20 << 10;
const ZONES: [&str; 4] = ["test-zone-a", "test-zone-b", "test-zone-c", "test-zone-d"];
/// Nothing is heard of an operator that has settled; its processor time says that it has.
const SETTLED_CPU_MS: u64 = 500;
const LONE_PODS: u32 = 3;

pub(crate) fn play(berth: &str, nodes: u32, pods: u32) -> Value {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(script(berth, nodes, pods))
}

async fn script(berth: &str, nodes: u32, pods: u32) -> Value {
    let world = World::new(1, Timestamp::now());
    let client = Client::new(world.client("test"), "default");
    let stage = Stage::on(client.clone(), Cluster::through(client, "the world"), Clock::system()).await;
    stage.apply(CLASSES, workload::class()).await;
    let mut pool = workload::pool();
    pool["spec"]["disruption"]["consolidateAfter"] = json!("0s");
    stage.apply(POOLS, pool).await;
    let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "default" } });
    stage.apply("/api/v1/namespaces/default/serviceaccounts", account).await;
    let cloud = stage.cloud();
    let each = pods / nodes.max(1);
    for number in 0..nodes {
        let node = node(&stage, &*cloud, number).await;
        for of in 0..each {
            pod(&stage, &node, number, (of, each)).await;
        }
        if number % 500 == 0 {
            eprintln!("{number} nodes");
        }
    }
    let served = world.serve((Ipv4Addr::LOCALHOST, 0).into()).await.expect("a port");
    let path = std::env::temp_dir().join(format!("berth-large-{}.kubeconfig", std::process::id()));
    std::fs::write(&path, served.kubeconfig()).expect("a file");
    let mut operating = Operating::begin(berth, &path);
    let began = Instant::now();
    let ((first_ms, longest_ms), needed) = operating
        .during(async {
            let first = lone_pod(&stage, &*cloud, nodes, 0).await;
            eprintln!("the first claim {} ms after the start", began.elapsed().as_millis());
            let mut longest = 0;
            for index in 1..=LONE_PODS {
                sleep(Duration::from_secs(20)).await;
                let took = lone_pod(&stage, &*cloud, nodes, index).await;
                eprintln!("another after {took} ms");
                longest = longest.max(took);
            }
            (first, longest)
        })
        .await;
    operating.load_page().await;
    let ((), settled) = operating.during(sleep(Duration::from_mins(1))).await;
    let _ = std::fs::remove_file(&path);
    drop(operating);
    served.stop().await;
    json!({
        "nodes": nodes, "pods": pods, "firstClaimMs": first_ms, "claimMs": longest_ms, "kibMax": needed.kib_max(),
        "kibP95": needed.kib_p95(), "settledKiB": settled.kib_max(), "settledCpuMs": settled.cpu_ms,
        "settledMs": settled.wall_ms, "isSettled": settled.cpu_ms < SETTLED_CPU_MS,
    })
}

/// A claim, its machine and its node, all up.
async fn node(stage: &Stage, cloud: &dyn Cloud, number: u32) -> String {
    let zone = ZONES[number as usize % ZONES.len()];
    let name = format!("default-{number}");
    let claim = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {
            "name": name, "finalizers": ["karpenter.sh/termination"],
            "annotations": { "berth.dev/offerings": format!("{TYPE}:{zone}:on-demand") },
            "labels": { "karpenter.sh/nodepool": "default", "node.kubernetes.io/instance-type": TYPE,
                "topology.kubernetes.io/zone": zone, "karpenter.sh/capacity-type": "on-demand" },
        },
        "spec": {
            "nodeClassRef": { "group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default" },
            "expireAfter": "720h",
            "resources": { "requests": { "cpu": "7850m", "memory": "20Gi", "pods": "20" } },
            "requirements": [
                { "key": "kubernetes.io/os", "operator": "In", "values": ["linux"] },
                { "key": "node.kubernetes.io/instance-type", "operator": "In", "values": [TYPE] },
                { "key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone] },
                { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"] },
            ],
        },
    });
    let claim = stage.ask(Method::POST, CLAIMS, Some(&claim)).await;
    let order = order(&claim, &name, zone);
    let Ok(Launched::Machine { machine, .. }) = cloud.launch(&order).await else { panic!("no machine") };
    joined(stage, &claim, &machine).await;
    machine.id.to_string()
}

fn order(claim: &Value, name: &str, zone: &str) -> Order {
    let labels = [
        ("karpenter.sh/nodepool", "default"),
        ("karpenter.sh/registered", "true"),
        ("karpenter.sh/initialized", "true"),
    ];
    Order {
        labels: Arc::new(labels.map(|(key, value)| (key.into(), value.into())).into()),
        ..Order::new(
            claim["metadata"]["uid"].as_str().and_then(Token::parse).expect("a token"),
            name,
            "default",
            vec![Alternative {
                instance_type: TYPE.into(),
                zone: zone.into(),
                capacity_type: CapacityType::OnDemand,
                price_per_hour: Price::ZERO,
            }],
        )
    }
}

async fn joined(stage: &Stage, claim: &Value, machine: &Machine) {
    let condition = |kind: &str| {
        json!({
            "type": kind, "status": "True", "reason": kind, "message": "",
            "lastTransitionTime": claim["metadata"]["creationTimestamp"],
        })
    };
    let conditions = ["Launched", "Registered", "Initialized", "Ready"].map(condition);
    let status = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": { "name": machine.name },
        "status": {
            "providerID": &*machine.provider_id, "nodeName": machine.id.as_str(),
            "capacity": { "cpu": "8", "memory": "32Gi", "pods": "128" },
            "allocatable": { "cpu": "7900m", "memory": "32758Mi", "pods": "128" },
            "conditions": conditions,
        },
    });
    apply_status(stage, CLAIMS, status).await;
    let ready = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": { "name": machine.id.as_str() },
        "status": { "conditions": [{
            "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status",
            "lastHeartbeatTime": claim["metadata"]["creationTimestamp"],
            "lastTransitionTime": claim["metadata"]["creationTimestamp"],
        }] },
    });
    apply_status(stage, NODES, ready).await;
    // It came with the taint of a node that is not ready.
    merge(stage, &format!("{NODES}/{}", machine.id), &json!({ "spec": { "taints": null } })).await;
}

/// One of so many on its node.
async fn pod(stage: &Stage, node: &str, number: u32, (of, each): (u32, u32)) {
    let name = format!("web-{of}-{number:05}");
    let owner = format!("web-{of}");
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "default", "labels": { "app": owner },
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "controller": true,
                "uid": format!("00000000-0000-4000-8000-{of:012}"),
            }],
        },
        "spec": {
            "nodeName": node,
            "containers": workload::containers(
                &format!("{}m", cpu_milli(of, each)),
                &format!("{}Mi", MEMORY_MIB / each),
            ),
        },
    });
    stage.ask(Method::POST, PODS, Some(&pod)).await;
    merge(stage, &format!("{PODS}/{name}/status"), &json!({ "status": { "phase": "Running" } })).await;
}

/// Each workload asks for a little more than the one before.
fn cpu_milli(of: u32, each: u32) -> u32 {
    let mean = CPU_MILLI / each;
    let step = mean * 15 / 392;
    mean - step * (each - 1) / 2 + step * of
}

async fn apply_status(stage: &Stage, path: &str, object: Value) {
    let name = object["metadata"]["name"].as_str().expect("a name");
    let path = format!("{path}/{name}/status?fieldManager=test&force=true");
    stage.ask(Method::PATCH, &path, Some(&object)).await;
}

async fn merge(stage: &Stage, path: &str, change: &Value) {
    stage.ask(Method::PATCH, path, Some(change)).await;
}

/// How long a pod waits for its claim. Both get what they need afterwards, so that nothing is left to do.
async fn lone_pod(stage: &Stage, cloud: &dyn Cloud, nodes: u32, index: u32) -> u64 {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": format!("lone-{index}"), "namespace": "default" },
        "spec": { "containers": workload::containers("800m", "512Mi") },
    });
    let before = stage.count(CLAIMS).await;
    assert!(before >= nodes as usize, "{before} claims of {nodes}");
    let heard = crate::basic::next_claim(stage).await;
    let began = Instant::now();
    let (_, claim) = tokio::join!(stage.apply(PODS, pod), heard);
    let took = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    let name = claim["metadata"]["name"].as_str().expect("a name").to_owned();
    stage
        .until(60, "it is launched", async || {
            let claim = stage.ask(Method::GET, &format!("{CLAIMS}/{name}"), None).await;
            claim["status"]["providerID"].is_string()
        })
        .await;
    let claim = stage.ask(Method::GET, &format!("{CLAIMS}/{name}"), None).await;
    let id = claim["status"]["nodeName"].as_str().map(str::to_owned);
    let id = id.or_else(|| claim["status"]["providerID"].as_str()?.rsplit('/').next().map(str::to_owned));
    let id = id.expect("a machine");
    let machine = cloud.get(&id.as_str().into()).await.expect("a machine");
    stage
        .until(60, "it is registered", async || {
            let node = stage.ask(Method::GET, &format!("{NODES}/{id}"), None).await;
            node["metadata"]["labels"]["karpenter.sh/registered"] == "true"
        })
        .await;
    joined(stage, &claim, &machine).await;
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": { "name": format!("lone-{index}") },
        "target": { "apiVersion": "v1", "kind": "Node", "name": id },
    });
    stage.ask(Method::POST, &format!("{PODS}/lone-{index}/binding"), Some(&binding)).await;
    merge(stage, &format!("{PODS}/lone-{index}/status"), &json!({ "status": { "phase": "Running" } })).await;
    took
}
