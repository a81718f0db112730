//! `berth run` with VPSie over TLS, on a real control plane: how soon machines are asked for, and how many.

use std::time::{Duration, Instant};

use berth_control_plane::ControlPlane;
use berth_world::vpsie::Deed;
use http::Method;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::account::{GROUPS, NODES as VPSIE_NODES, group, suited};
use crate::process::Operating;
use crate::stage::{DEPLOYMENTS, NODES, PODS, Stage, deployment};
use crate::workload;
use crate::yard::Yard;

const CONFIGS: &str = "/apis/autoscaler.vpsie.com/v1alpha1/autoscalerconfigs";
/// It is looked whether VPSie has been asked so often.
const LOOK_EVERY: Duration = Duration::from_millis(1);
const ASKED_MAX: Duration = Duration::from_mins(2);
/// Six of the pods that come together have room on a node.
const PODS_A_NODE: u32 = 6;

pub(crate) fn play(family: &str, berth: &str, lone: u32, nodes: u32) -> Value {
    let plane =
        ControlPlane::for_test().expect("a control plane").expect("its programs; see docs/testing.md");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let stage = Stage::on_plane(&plane).await;
        let yard = Yard::open().await;
        yard.let_in();
        yard.sign(&stage).await;
        let authority = std::env::temp_dir().join(format!("berth-vpsie-{}.pem", std::process::id()));
        std::fs::write(&authority, yard.served.authority()).expect("a file");
        let authority_path = authority.display().to_string();
        let words = [
            "--vpsie-secret-name=vpsie-secret",
            "--vpsie-api",
            family,
            "--vpsie-ca-file",
            &authority_path,
            "--default-datacenter-id=dc-1",
        ];
        stage.apply(CONFIGS, unresting()).await;
        stage.apply(GROUPS, workers()).await;
        let _operating = Operating::begin_with(berth, plane.kubeconfig(), &words);
        let told = tokio::select! {
            biased;
            () = yard.kubelets(&stage) => unreachable!("it has no end"),
            told = script(&stage, &yard, lone, nodes) => told,
        };
        // Should it stay, it is nobody's secret.
        let _ = std::fs::remove_file(authority);
        told
    })
}

/// Nobody rests: what is measured is how long it takes, not how long a group waits by its own will.
fn unresting() -> Value {
    json!({
        "apiVersion": "autoscaler.vpsie.com/v1alpha1", "kind": "AutoscalerConfig", "metadata": { "name": "default" },
        "spec": { "globalSettings": {
            "scaleUpCooldownSeconds": 0, "scaleDownCooldownSeconds": 0, "unschedulablePodGracePeriodSeconds": 0,
            "maxClusterWorkers": 0, "maxConcurrentScaleDowns": 10, "enableDynamicNodeGroupCreation": false,
        } },
    })
}

fn workers() -> Value {
    group("workers", |group| {
        group["spec"]["offeringIDs"] = json!(["big"]);
        group["spec"]["scaleUpPolicy"] = json!({ "stabilizationWindowSeconds": 0 });
        group["spec"]["scaleDownPolicy"] = json!({ "stabilizationWindowSeconds": 1, "cooldownSeconds": 1 });
    })
}

async fn script(stage: &Stage, yard: &Yard, lone: u32, nodes: u32) -> Value {
    stage
        .until(60, "the group is looked at", async || {
            !stage.ask(Method::GET, &format!("{GROUPS}/workers"), None).await["status"].is_null()
        })
        .await;
    let mut asked_ms = Vec::new();
    for index in 0..lone {
        sleep(Duration::from_secs(3)).await;
        asked_ms.push(lone_pod(stage, yard, index).await);
    }
    for index in 0..lone {
        stage.delete(PODS, &format!("lone-{index}")).await;
    }
    stage
        .until(300, "their nodes are gone", async || {
            stage.count(VPSIE_NODES).await == 0 && stage.count(NODES).await == 0
        })
        .await;
    sleep(Duration::from_secs(3)).await;
    let before = yard.vpsie.calls(Deed::Create);
    let pods = nodes * PODS_A_NODE;
    let began = Instant::now();
    stage.apply(DEPLOYMENTS, suited(deployment("web", pods, "1200m"))).await;
    asked(yard, before + u64::from(nodes)).await;
    let all_asked_ms = millis(began);
    let wanted = usize::try_from(pods).unwrap_or(usize::MAX);
    stage.until(300, "all pods run", async || stage.running().await == wanted).await;
    let run_ms = millis(began);
    sleep(Duration::from_secs(5)).await;
    json!({
        "askedMs": asked_ms, "pods": pods, "nodesNeeded": nodes, "nodes": stage.count(VPSIE_NODES).await,
        "creates": yard.vpsie.calls(Deed::Create) - before, "allAskedMs": all_asked_ms, "runMs": run_ms,
        "callsInAMinute": yard.vpsie.most_calls_in_a_minute(),
    })
}

/// How long a pod for which there is no room waits until VPSie is asked for a machine.
async fn lone_pod(stage: &Stage, yard: &Yard, index: u32) -> u64 {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": format!("lone-{index}"), "namespace": "default" },
        "spec": {
            "containers": workload::containers("7", "512Mi"),
            "nodeSelector": { "team": "quay" },
            "tolerations": [{ "key": "dedicated", "operator": "Exists" }],
        },
    });
    let before = yard.vpsie.calls(Deed::Create);
    let began = Instant::now();
    tokio::join!(stage.apply(PODS, pod), asked(yard, before + 1));
    let took = millis(began);
    let running = usize::try_from(index + 1).unwrap_or(usize::MAX);
    stage.until(60, "it runs", async || stage.running().await == running).await;
    took
}

/// Waits until so many machines have been asked for.
async fn asked(yard: &Yard, creates: u64) {
    let began = Instant::now();
    while yard.vpsie.calls(Deed::Create) < creates {
        assert!(began.elapsed() < ASKED_MAX, "VPSie is not asked for machines");
        sleep(LOOK_EVERY).await;
    }
}

fn millis(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX)
}
