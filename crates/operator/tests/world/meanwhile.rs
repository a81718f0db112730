//! What changes between a decision and what follows from it, or is not seen when it should be.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::scene::{Scene, deployment, pool, text};
use crate::{apart, played, with_pool};

const POOL: &str = "/apis/karpenter.sh/v1/nodepools/default";

async fn closed(scene: &Scene) -> usize {
    let nodes = scene.nodes().await;
    nodes.iter().filter(|node| node["spec"]["taints"].to_string().contains("karpenter.sh/disrupted")).count()
}

/// One offering of each type.
fn of_one_kind(pool: &mut Value) {
    let only = [("karpenter.sh/capacity-type", "on-demand"), ("topology.kubernetes.io/zone", "test-zone-a")];
    let only = only.map(|(key, value)| json!({ "key": key, "operator": "In", "values": [value] }));
    let requirements = pool["spec"]["template"]["spec"]["requirements"].as_array_mut();
    requirements.expect("a list").extend(only);
}

/// A PodDisruptionBudget comes once its node is closed and its replacement on the way: the claim stays, and in the end the node
/// takes pods again.
#[test]
fn a_budget_that_comes_late_keeps_the_claim() {
    played("{}", async |scene| {
        with_pool(scene, |_| {}).await;
        scene.apply(deployment("web", 1, "1")).await;
        scene.until(180, "it runs", async || scene.running().await == 1).await;
        let before = scene.machine_names();
        let change = json!({ "spec": { "template": { "metadata": { "labels": { "team": "red" } } } } });
        scene.patch(POOL, &change).await;
        scene.until(300, "its node is closed", async || closed(scene).await == 1).await;
        scene.guard().await;
        scene
            .until(1500, "it takes pods again", async || {
                let claims = scene.claims().await;
                let is_going = |claim: &Value| claim["metadata"]["deletionTimestamp"].is_string();
                let is_first = |claim: &&Value| text(&claim["metadata"]["name"]) == "default-1";
                assert!(!claims.iter().filter(is_first).any(is_going), "{}", scene.told().await);
                closed(scene).await == 0
            })
            .await;
        assert!(before.iter().all(|name| scene.machine_names().contains(name)));
        scene.delete("/apis/policy/v1/namespaces/default/poddisruptionbudgets/web").await;
        scene
            .until(900, "another has its place", async || {
                scene.machines() == 1 && scene.machine_names() != before && scene.running().await == 1
            })
            .await;
    });
}

/// Forty launches wait for a cloud that does not answer when it takes a node back: its pod leaves in time.
#[test]
fn launches_that_hang_hold_up_no_notice() {
    let weather = r#"{
        "calls": {"launch": {"slow": {"permille": 1000, "between": {"fromMs": 200000, "untilMs": 2000000}}, "slowByMs": 90000}},
        "reclaims": [{"atMs": 310000, "of": {}, "sharePermille": 1000, "noticeMs": 120000}]
    }"#;
    played(weather, async |scene| {
        with_pool(scene, |_| {}).await;
        scene.apply(deployment("web", 1, "1")).await;
        scene.until(180, "it runs", async || scene.running().await == 1).await;
        let first = scene.nodes().await;
        scene.until(300, "the launches hang", async || scene.clock_secs() >= 300).await;
        scene.apply(apart("burst", 40)).await;
        sleep(Duration::from_secs(12)).await;
        let is_empty = async || {
            let pods = scene.pods().await;
            !pods.iter().any(|pod| pod["spec"]["nodeName"] == first[0]["metadata"]["name"])
        };
        scene.until(40, "its pod has left", is_empty).await;
    });
}

/// Somebody lowers a limit, and the operator does not hear of it.
#[test]
fn a_limit_that_was_lowered_unheard_is_kept() {
    played("{}", async |scene| {
        with_pool(scene, |pool| pool["spec"]["limits"] = json!({ "nodes": "5" })).await;
        scene.apply(apart("web", 1)).await;
        scene.until(180, "it runs", async || scene.running().await == 1).await;
        let fault = "berth before event nodepools.karpenter.sh #1: drop";
        scene.world.plan_faults(fault.parse().expect("a fault"));
        scene.patch(POOL, &json!({ "spec": { "limits": { "nodes": "1" } } })).await;
        scene.apply(apart("web", 5)).await;
        sleep(Duration::from_mins(4)).await;
        assert_eq!(scene.world.faults_struck().len(), 1);
        assert_eq!(scene.claims().await.len(), 1, "{}", scene.told().await);
    });
}

/// A claim that the schema lets pass and nobody can read.
#[test]
fn a_claim_that_cannot_be_read_stops_no_pool() {
    played("{}", async |scene| {
        with_pool(scene, |_| {}).await;
        scene
            .apply(json!({
                "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
                "metadata": { "name": "odd", "labels": { "karpenter.sh/nodepool": "default" } },
                "spec": {
                    "nodeClassRef": { "group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default" },
                    "requirements": [], "expireAfter": "99999999999999999999h",
                },
            }))
            .await;
        scene.apply(deployment("web", 1, "1")).await;
        scene.until(180, "it runs", async || scene.running().await == 1).await;
    });
}

/// All smaller types are sold out when a node is to make room for a cheaper one: no dearer one takes its place.
#[test]
fn nothing_dearer_is_bought_in_place() {
    let families =
        ["c", "s", "m"].into_iter().flat_map(|family| [1, 2, 4].map(|cpus| format!("{family}-{cpus}x-*")));
    let stock: Vec<Value> =
        families.map(|family| json!({ "of": { "instanceType": family }, "count": 0 })).collect();
    played(&json!({ "stock": stock }).to_string(), async |scene| {
        with_pool(scene, of_one_kind).await;
        scene.apply(deployment("web", 1, "6")).await;
        scene.until(180, "it runs", async || scene.running().await == 1).await;
        let before = scene.machine_names();
        scene.apply(deployment("web", 1, "500m")).await;
        sleep(Duration::from_mins(10)).await;
        assert_eq!(scene.machine_names(), before, "{}", scene.told().await);
        let tried = scene.events("default-").await;
        assert!(tried.iter().any(|words| words.contains("stock")), "nothing was tried: {tried:?}");
    });
}

/// A claim that nobody has committed to ends without a machine.
#[test]
fn nothing_is_bought_to_be_ended() {
    played("{}", async |scene| {
        with_pool(scene, |_| {}).await;
        scene.apply(pool("other", |_| {})).await;
        scene
            .apply(json!({
                "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
                "metadata": {
                    "name": "stray", "labels": { "karpenter.sh/nodepool": "default" },
                    "annotations": { "berth.dev/offerings": "c-4x-amd64-linux:test-zone-a:on-demand" },
                    "finalizers": ["karpenter.sh/termination"],
                },
                "spec": {
                    "nodeClassRef": { "group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default" },
                    "requirements": [],
                },
            }))
            .await;
        scene.until(300, "it is gone", async || scene.claims().await.is_empty()).await;
        assert_eq!(scene.cloud.inspect(|account| account.records().len()), 0);
    });
}
