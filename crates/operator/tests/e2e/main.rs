//! The operator with the simulated cloud of KWOKNodeClass, on a real control plane, and with VPSie; and the first of these
//! clouds by itself, there and in the world.

#![expect(clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

#[expect(dead_code, reason = "others use the rest of it")]
#[path = "../shared/account.rs"]
mod account;
mod cloud;
mod stage;
mod vpsie;
mod yard;

use std::time::{Duration, Instant};

use berth_control_plane::ControlPlane;
use berth_operator::{Clock, Cluster};
use berth_world::World;
use kube::Client;
use serde_json::{Value, json};
use stage::{BUDGETS, CLAIMS, CLASSES, DEPLOYMENTS, NODES, PODS, POOLS, Stage, class, deployment, pool};
use tokio::runtime::Builder;
use tokio::time::sleep;

#[test]
fn the_cloud_behaves_in_the_world() {
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime");
    runtime.block_on(async {
        let world = World::new(1, "2026-03-01T09:00:00Z".parse().expect("a time"));
        let now = world.clone();
        let clock = Clock::new(move || now.clock_of("test"));
        let stage = async {
            let client = Client::new(world.client("test"), "default");
            let stage = Stage::on(client.clone(), Cluster::through(client, "the world"), clock).await;
            cloud::behaves(&stage).await;
        };
        tokio::select! { biased; () = world.live() => {}, () = stage => {} }
    });
}

#[test]
fn the_operator_on_a_real_control_plane() {
    let Some(plane) = ControlPlane::for_test().expect("a control plane") else { return };
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let stage = Stage::on_plane(&plane).await;
        cloud::behaves(&stage).await;
        for claim in stage.names(CLAIMS).await {
            stage.delete(CLAIMS, &claim).await;
        }
        stage.apply(CLASSES, class("default", &json!({}))).await;
        stage.apply(POOLS, pool("default")).await;
        let play = async {
            a_lone_pod_runs(&stage).await;
            nodes_come_and_go(&stage).await;
            budgets_are_kept(&stage).await;
            a_budget_keeps_only_its_own(&stage).await;
            nothing_is_left(&stage).await;
        };
        tokio::select! { biased; () = stage.operator().run() => {}, () = play => {} }
    });
}

#[test]
fn vpsies_workflows_on_a_real_control_plane() {
    let Some(plane) = ControlPlane::for_test().expect("a control plane") else { return };
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let stage = Stage::on_plane(&plane).await;
        Box::pin(vpsie::played(&stage)).await;
    });
}

async fn a_lone_pod_runs(stage: &Stage) {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "lone", "namespace": "default" },
        "spec": { "containers": [
            { "name": "main", "image": "x", "resources": { "requests": { "cpu": "500m", "memory": "128Mi" } } },
        ] },
    });
    // The loop waits for what it knows nothing of: it has to see the cluster first.
    sleep(Duration::from_secs(1)).await;
    let began = Instant::now();
    stage.apply(PODS, pod).await;
    stage.until(20, "it gets a claim", async || stage.count(CLAIMS).await == 1).await;
    eprintln!("a claim after {:?}", began.elapsed());
    stage.until(60, "the lone pod runs", async || stage.running().await == 1).await;
    eprintln!("a running pod after {:?}", began.elapsed());
    stage.delete(PODS, "lone").await;
}

async fn nodes_come_and_go(stage: &Stage) {
    stage.apply(DEPLOYMENTS, deployment("web", 20, "1")).await;
    stage.until(120, "20 pods run", async || stage.running().await == 20).await;
    stage.until(60, "their nodes are up", async || stage.initialized().await >= 7).await;
    let most = stage.count(NODES).await;
    assert!(most >= 7, "twenty CPUs on machines with 3.9 each: {most}");
    stage.scale("web", 3).await;
    stage
        .until(180, "few nodes are left", async || {
            stage.count(NODES).await <= 3 && stage.count(CLAIMS).await <= 3 && stage.running().await == 3
        })
        .await;
    stage.scale("web", 0).await;
    stage.until(180, "none is left", async || stage.is_empty().await).await;
}

/// A drain asks the budget for each pod: never are fewer there than it says.
async fn budgets_are_kept(stage: &Stage) {
    let mut spread = deployment("kept", 4, "1");
    spread["spec"]["template"]["spec"]["affinity"] = json!({ "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [{
            "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": { "app": "kept" } },
        }],
    } });
    stage.apply(DEPLOYMENTS, spread).await;
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": { "name": "kept", "namespace": "default" },
        "spec": { "minAvailable": 3, "selector": { "matchLabels": { "app": "kept" } } },
    });
    stage.apply(BUDGETS, budget).await;
    stage.until(120, "4 pods run", async || stage.running().await == 4).await;
    stage.until(60, "their nodes are up", async || stage.initialized().await == 4).await;
    let before = stage.names(CLAIMS).await;
    for claim in &before {
        stage.delete(CLAIMS, claim).await;
    }
    stage
        .until(300, "all nodes are replaced", async || {
            let running = stage.running().await;
            assert!(running >= 3, "{running} of 4 pods run, and the budget asks for 3");
            let claims = stage.names(CLAIMS).await;
            running == 4 && !claims.iter().any(|claim| before.contains(claim))
        })
        .await;
    stage.delete(BUDGETS, "kept").await;
    stage.scale("kept", 0).await;
    stage.until(180, "none is left", async || stage.is_empty().await).await;
}

/// Pods that a budget keeps hold up no other of their node, and the node says which they are.
async fn a_budget_keeps_only_its_own(stage: &Stage) {
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": { "name": "all", "namespace": "default" },
        "spec": { "minAvailable": "100%", "selector": { "matchLabels": { "app": "all" } } },
    });
    stage.apply(BUDGETS, budget).await;
    stage.apply(DEPLOYMENTS, deployment("all", 4, "500m")).await;
    stage.apply(DEPLOYMENTS, deployment("free", 1, "500m")).await;
    stage.until(120, "5 pods run", async || stage.running().await == 5).await;
    stage
        .until(60, "their nodes are up", async || stage.initialized().await == stage.count(CLAIMS).await)
        .await;
    let node_of = async |app: &str| {
        let pods = stage.list(&format!("{PODS}?labelSelector=app%3D{app}")).await;
        pods.iter().filter_map(|pod| pod["spec"]["nodeName"].as_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    let before = node_of("free").await;
    for claim in stage.names(CLAIMS).await {
        stage.delete(CLAIMS, &claim).await;
    }
    let has_moved = async || {
        let now = node_of("free").await;
        now.len() == 1 && now != before && stage.running().await == 5
    };
    stage.until(60, "the pod that nothing keeps has left", has_moved).await;
    let is_told = async || {
        let events = stage.list("/api/v1/events").await;
        events.iter().any(|event| {
            let message = event["message"].as_str().unwrap_or_default();
            event["reason"] == "FailedDraining"
                && event["involvedObject"]["kind"] == "Node"
                && message.starts_with("default/all-")
                && message.contains("disruption budget")
        })
    };
    stage.until(20, "the node says what keeps it", is_told).await;
    stage.delete(BUDGETS, "all").await;
    for app in ["all", "free"] {
        stage.scale(app, 0).await;
    }
    stage.until(180, "none is left", async || stage.is_empty().await).await;
}

async fn nothing_is_left(stage: &Stage) {
    let is_settled = async || {
        let pools = stage.list(POOLS).await;
        let ledger =
            pools[0]["metadata"]["annotations"]["berth.dev/ledger"].as_str().unwrap_or("{}").to_owned();
        let ledger: Value = serde_json::from_str(&ledger).expect("JSON");
        ledger["claims"] == json!([]) && ledger["leaving"].is_null()
    };
    stage.until(60, "the ledger is empty", is_settled).await;
}
