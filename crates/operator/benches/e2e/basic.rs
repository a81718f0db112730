//! Karpenter's basic performance test: as many small as large pods, then seven tenths of them.

use std::time::{Duration, Instant};

use berth_control_plane::ControlPlane;
use berth_core::plan::Plan;
use berth_core::units::Price;
use futures::AsyncBufReadExt;
use http::Method;
use kube::api::WatchParams;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::process::{Needed, Operating};
use crate::stage::{CLAIMS, CLASSES, DEPLOYMENTS, NODES, PODS, POOLS, Stage};
use crate::workload::{self, LARGE, SMALL};

const LONE_PODS: usize = 3;
const CLAIM_MAX: Duration = Duration::from_mins(2);
const SCALE_OUT_SECS_MAX: u32 = 600;
const CONSOLIDATE_SECS_MAX: u32 = 1200;
/// Nothing has changed for so long: that is where it ends.
const SETTLED: Duration = Duration::from_secs(45);

pub(crate) fn play(berth: &str, pods: u32, idle_secs: u32) -> Value {
    let plane =
        ControlPlane::for_test().expect("a control plane").expect("its programs; see docs/testing.md");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(script(&plane, pods / 2, idle_secs, berth))
}

async fn script(plane: &ControlPlane, each: u32, idle_secs: u32, berth: &str) -> Value {
    let stage = Stage::on_plane(plane).await;
    stage.apply(CLASSES, workload::class()).await;
    stage.apply(POOLS, workload::pool()).await;
    let mut operating = Operating::begin(berth, plane.kubeconfig());
    stage.until(60, "the pool is looked at", async || is_accounted_for(&stage).await).await;

    let lone = lone_pods(&stage).await;
    operating.load_page().await;
    let (writes, idle) = operating.during(idleness(&stage, idle_secs)).await;

    let few = each * 7 / 10;
    let (plan, fewer) = (workload::planned(each), workload::planned(few));
    for of in [SMALL, LARGE] {
        stage.apply(DEPLOYMENTS, workload::deployment(of, 0)).await;
    }
    let (grown, growing) = operating.during(scaled(&stage, each, SCALE_OUT_SECS_MAX, None)).await;
    let bound = fewer.lower_bound;
    let (shrunk, shrinking) = operating.during(scaled(&stage, few, CONSOLIDATE_SECS_MAX, Some(bound))).await;
    json!({
        "loneClaimMs": lone, "idleSecs": idle_secs, "idleWrites": writes, "idleKiB": idle.kib_max(),
        "idleCpuMs": idle.cpu_ms,
        "out": told(&grown, &growing, each, &plan),
        "in": told(&shrunk, &shrinking, few, &fewer),
    })
}

fn told(scaled: &Scaled, needed: &Needed, each: u32, plan: &Plan) -> Value {
    json!({
        "pods": scaled.pods, "podsWanted": each * 2, "milliseconds": scaled.milliseconds,
        "nodes": scaled.nodes, "nodesMax": scaled.nodes_max, "nodesPlanned": plan.launches.len(),
        "costPerHour": scaled.cost.to_string(), "lowerBoundPerHour": plan.lower_bound.to_string(),
        "kibP95": needed.kib_p95(), "kibMax": needed.kib_max(), "cpuMs": needed.cpu_ms, "wallMs": needed.wall_ms,
    })
}

/// Whether the operator has looked at the pool.
async fn is_accounted_for(stage: &Stage) -> bool {
    let pools = stage.list(POOLS).await;
    pools
        .iter()
        .all(|pool| !pool["status"]["conditions"].is_null() || !pool["metadata"]["annotations"].is_null())
}

/// How long each of some pods, for none of which there is room, waits for its claim; the longest.
async fn lone_pods(stage: &Stage) -> u64 {
    let mut longest = 0;
    for index in 0..LONE_PODS {
        sleep(Duration::from_secs(5)).await;
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": format!("lone-{index}"), "namespace": "default" },
            "spec": { "containers": workload::containers("800m", "512Mi") },
        });
        let heard = next_claim(stage).await;
        let began = Instant::now();
        tokio::join!(stage.apply(PODS, pod), heard);
        longest = longest.max(u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX));
        stage.until(60, "it runs", async || stage.running().await == index + 1).await;
    }
    for index in 0..LONE_PODS {
        stage.delete(PODS, &format!("lone-{index}")).await;
    }
    stage.until(300, "their nodes are gone", async || stage.is_empty().await).await;
    longest
}

/// The claim that is made next, from the moment that this returns.
pub(crate) async fn next_claim(stage: &Stage) -> impl Future<Output = Value> {
    let list = stage.ask(Method::GET, &format!("{CLAIMS}?limit=1"), None).await;
    let version = list["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    let request = kube::core::Request::new(CLAIMS).watch(&WatchParams::default(), version);
    let stream = stage.client.request_stream(request.expect("a request")).await.expect("a watch");
    async move {
        futures::pin_mut!(stream);
        loop {
            let mut line = Vec::new();
            let reading = timeout(CLAIM_MAX, stream.read_until(b'\n', &mut line)).await;
            reading.expect("a claim in time").expect("an event");
            let mut event: Value = serde_json::from_slice(&line).expect("JSON");
            if event["type"] == "ADDED" {
                return event["object"].take();
            }
        }
    }
}

/// Waits for so long, and counts what of all that Berth could write has been written.
async fn idleness(stage: &Stage, secs: u32) -> usize {
    sleep(Duration::from_secs(15)).await;
    let before = versions(stage).await;
    sleep(Duration::from_secs(secs.into())).await;
    let after = versions(stage).await;
    after.iter().filter(|version| !before.contains(version)).count()
}

async fn versions(stage: &Stage) -> Vec<String> {
    let mut versions = Vec::new();
    for path in [POOLS, CLAIMS, CLASSES, NODES, PODS, "/api/v1/events"] {
        for object in stage.list(path).await {
            let metadata = &object["metadata"];
            versions.push(format!("{path} {} {}", metadata["name"], metadata["resourceVersion"]));
        }
    }
    versions
}

/// What came of scaling.
struct Scaled {
    pods: usize,
    milliseconds: u64,
    nodes: usize,
    nodes_max: usize,
    cost: Price,
}

/// Scales, and waits until all pods run; with a bound, also until the nodes cost no more than a twentieth above it, or
/// no longer change.
async fn scaled(stage: &Stage, each: u32, secs_max: u32, bound: Option<Price>) -> Scaled {
    let began = Instant::now();
    for (name, ..) in [SMALL, LARGE] {
        stage.scale(name, each).await;
    }
    let wanted = usize::try_from(each).unwrap_or(0) * 2;
    let (mut nodes_max, mut last, mut since) = (0, (0, Price::ZERO), Instant::now());
    loop {
        sleep(Duration::from_millis(500)).await;
        let (nodes, cost) = paid(stage).await;
        let running = stage.running().await;
        let elapsed = began.elapsed();
        nodes_max = nodes_max.max(nodes);
        if last != (nodes, cost) {
            (last, since) = ((nodes, cost), Instant::now());
            eprintln!("{:6.1} s: {running} pods run on {nodes} nodes for ${cost}", elapsed.as_secs_f64());
        }
        let is_cheap = bound.is_none_or(|bound| {
            let is_near = cost.micro_usd() * 100 <= bound.micro_usd() * 105;
            is_near && stage_is_quiet(since) || since.elapsed() > SETTLED * 2
        });
        let is_over = elapsed > Duration::from_secs(secs_max.into());
        if (running == wanted && is_cheap) || is_over {
            let changed = since.duration_since(began);
            let took = if bound.is_some() { changed } else { elapsed };
            let milliseconds = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
            return Scaled { pods: running, milliseconds, nodes, nodes_max, cost };
        }
    }
}

fn stage_is_quiet(since: Instant) -> bool {
    since.elapsed() > SETTLED
}

/// How many nodes there are, and what they cost an hour.
async fn paid(stage: &Stage) -> (usize, Price) {
    let nodes = stage.list(NODES).await;
    let cost = |node: &Value| {
        let text = node["metadata"]["labels"]["eks-node-viewer/instance-price"].as_str().unwrap_or("0");
        text.parse::<Price>().unwrap_or(Price::ZERO)
    };
    (nodes.len(), nodes.iter().fold(Price::ZERO, |sum, node| sum.plus(cost(node))))
}
