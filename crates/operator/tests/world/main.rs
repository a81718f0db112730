//! The operator on the in-process world: the whole loop, in virtual time.

#![expect(clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

#[path = "../shared/account.rs"]
mod account;
mod adversity;
mod beside;
mod buffers;
mod canary;
mod drain;
mod ending;
mod founding;
mod health;
mod history;
mod metrics;
mod nodeclass;
mod overlays;
mod permissions;
mod policies;
mod scene;
mod spreading;
mod takeover;
mod telling;
mod thrift;
mod vpsie;
mod wear;
mod webhook;

use std::time::Duration;

use berth_world::cloud::Weather;
use scene::{Scene, class, condition, deployment, pool};
use serde_json::{Value, json};
use tokio::time::sleep;

/// Awaits something in virtual time.
fn awaited(script: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(Box::pin(script));
}

/// Plays a script on a scene with an operator.
fn played(weather: &str, script: impl AsyncFnOnce(&Scene)) {
    let weather: Weather = serde_json::from_str(weather).expect("weather");
    awaited(async {
        let scene = Scene::new(1, weather).await;
        scene.play(script(&scene)).await;
    });
}

async fn with_pool(scene: &Scene, change: impl FnOnce(&mut Value)) {
    scene.apply(class()).await;
    scene.apply(pool("default", change)).await;
}

/// Two pods on nodes of their own, by anti-affinity.
fn apart(name: &str, replicas: u32) -> Value {
    let mut deployment = deployment(name, replicas, "1");
    deployment["spec"]["template"]["spec"]["affinity"] = json!({ "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            { "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": { "app": name } } },
        ],
    } });
    deployment
}

#[test]
fn pods_get_nodes_and_give_them_back() {
    played("{}", async |scene| {
        with_pool(scene, |_| {}).await;
        scene.apply(deployment("web", 20, "1")).await;
        scene.until(180, "20 pods run", async || scene.running().await == 20).await;
        let pool = scene.pool("default").await;
        assert_eq!(condition(&pool, "Ready"), Some(("True", "Ready")));
        assert_eq!(pool["status"]["nodes"], json!(scene.machines()));
        scene.apply(deployment("web", 2, "1")).await;
        // Two pods on two small machines cost as much as both on a larger one.
        scene
            .until(900, "two nodes are left", async || {
                scene.machines() <= 2 && scene.nodes().await.len() <= 2 && scene.running().await == 2
            })
            .await;
        scene.apply(deployment("web", 0, "1")).await;
        scene
            .until(900, "none is left", async || {
                scene.machines() == 0 && scene.claims().await.is_empty() && scene.nodes().await.is_empty()
            })
            .await;
        sleep(Duration::from_mins(1)).await;
        assert_eq!(scene.ledger("default").await["claims"], json!([]));
        let revision = scene.world.revision();
        sleep(Duration::from_mins(10)).await;
        assert_eq!(scene.world.revision(), revision, "idle writes nothing");
    });
}

#[test]
fn a_pool_without_its_class_says_so_and_goes_on_once_it_is_there() {
    played("{}", async |scene| {
        scene.apply(pool("default", |_| {})).await;
        scene.apply(deployment("web", 1, "1")).await;
        scene
            .until(60, "the pool says why", async || {
                condition(&scene.pool("default").await, "Ready") == Some(("False", "NodeClassNotFound"))
            })
            .await;
        scene
            .until(60, "the pod says why", async || {
                scene
                    .events("web")
                    .await
                    .iter()
                    .any(|said| said.contains("there is no KWOKNodeClass `default`"))
            })
            .await;
        assert_eq!(scene.machines(), 0);
        scene.apply(class()).await;
        scene.until(180, "the pod runs", async || scene.running().await == 1).await;
        assert_eq!(condition(&scene.pool("default").await, "Ready"), Some(("True", "Ready")));
    });
}

#[test]
fn a_pool_whose_ledger_is_damaged_holds_up_no_other() {
    played("{}", async |scene| {
        scene.apply(class()).await;
        for (name, ledger) in [("a-damaged", "{"), ("b-good", "")] {
            scene
                .apply(pool(name, |pool| {
                    pool["spec"]["template"]["metadata"] = json!({ "labels": { "team": name } });
                    if !ledger.is_empty() {
                        pool["metadata"]["annotations"] = json!({ "berth.dev/ledger": ledger });
                    }
                }))
                .await;
            let mut workload = deployment(name, 2, "1");
            workload["spec"]["template"]["spec"]["nodeSelector"] = json!({ "team": name });
            scene.apply(workload).await;
        }
        scene.until(180, "the pods of the other run", async || scene.running().await == 2).await;
        let told = scene.events("a-damaged").await;
        assert!(told.iter().any(|said| said.contains("PoolNotReady")), "{told:?}");
    });
}

#[test]
fn limits_hold_in_a_burst() {
    played("{}", async |scene| {
        with_pool(scene, |pool| pool["spec"]["limits"] = json!({ "nodes": "3" })).await;
        scene.apply(apart("web", 8)).await;
        scene.until(180, "three pods run", async || scene.running().await == 3).await;
        for _ in 0..120 {
            assert!(scene.claims().await.len() <= 3 && scene.machines() <= 3);
            sleep(Duration::from_secs(1)).await;
        }
        assert!(scene.events("web").await.iter().any(|said| said.contains("NodeLimit")));
    });
}

#[test]
fn machines_that_are_taken_back_are_replaced_at_once() {
    let weather = r#"{"reclaims": [{"atMs": 300000, "sharePermille": 1000, "noticeMs": 120000}]}"#;
    played(weather, async |scene| {
        with_pool(scene, |_| {}).await;
        scene.apply(deployment("web", 4, "3")).await;
        scene.until(180, "all run", async || scene.running().await == 4).await;
        let before = scene.machine_names();
        sleep(Duration::from_secs(310)).await;
        scene
            .until(110, "others are there before the notice has run out", async || {
                scene.running().await == 4 && scene.machine_names().iter().all(|name| !before.contains(name))
            })
            .await;
    });
}

#[test]
fn what_must_not_be_disrupted_is_not() {
    played("{}", async |scene| {
        with_pool(scene, |_| {}).await;
        scene
            .apply(json!({
                "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                "metadata": { "name": "guarded", "namespace": "default" },
                "spec": { "maxUnavailable": 0, "selector": { "matchLabels": { "app": "guarded" } } },
            }))
            .await;
        let mut marked = apart("marked", 2);
        marked["spec"]["template"]["metadata"]["annotations"] =
            json!({ "karpenter.sh/do-not-disrupt": "true" });
        scene.apply(marked).await;
        scene.apply(apart("guarded", 2)).await;
        scene.apply(deployment("other", 30, "1")).await;
        scene.until(180, "all run", async || scene.running().await == 34).await;
        let on = |pods: Vec<Value>| {
            let guarded = |pod: &&Value| !scene::text(&pod["metadata"]["name"]).starts_with("other");
            let place = |pod: &Value| (pod["metadata"]["name"].clone(), pod["spec"]["nodeName"].clone());
            let mut on: Vec<(Value, Value)> = pods.iter().filter(guarded).map(place).collect();
            on.sort_by_key(|(name, _)| name.to_string());
            on
        };
        let before = on(scene.pods().await);
        scene.apply(deployment("other", 0, "1")).await;
        sleep(Duration::from_mins(15)).await;
        assert_eq!(on(scene.pods().await), before);
        assert!(scene.machines() <= 2, "and yet all others went:\n{}", scene.told().await);
    });
}

#[test]
fn nodes_that_have_drifted_are_replaced_within_the_budget() {
    played("{}", async |scene| {
        let budget = |pool: &mut Value| pool["spec"]["disruption"]["budgets"] = json!([{ "nodes": "1" }]);
        with_pool(scene, budget).await;
        scene.apply(apart("web", 4)).await;
        scene.until(180, "all run", async || scene.running().await == 4).await;
        let before = scene.machine_names();
        scene
            .apply(pool("default", |pool| {
                budget(pool);
                pool["spec"]["template"]["metadata"] = json!({ "labels": { "team": "red" } });
            }))
            .await;
        let mut seen = 0;
        for _ in 0..1800 {
            let nodes = scene.nodes().await;
            let closed = nodes.iter().filter(|node| node["spec"]["taints"].to_string().contains("disrupted"));
            assert!(closed.count() <= 1, "{}", scene.told().await);
            seen = scene.machine_names().iter().filter(|name| !before.contains(name)).count();
            if seen == 4 && nodes.len() == 4 && scene.machines() == 4 {
                break;
            }
            sleep(Duration::from_secs(1)).await;
        }
        assert_eq!((seen, scene.machines(), scene.running().await), (4, 4, 4), "{}", scene.told().await);
        let labelled = scene.nodes().await;
        assert!(labelled.iter().all(|node| node["metadata"]["labels"]["team"] == "red"));
    });
}

#[test]
fn what_a_deleted_pool_has_bought_goes_with_it() {
    played("{}", async |scene| {
        with_pool(scene, |_| {}).await;
        scene.apply(deployment("web", 4, "1")).await;
        scene.until(180, "all run", async || scene.running().await == 4).await;
        scene.delete("/apis/karpenter.sh/v1/nodepools/default").await;
        scene
            .until(600, "nothing is left", async || {
                scene.machines() == 0 && scene.nodes().await.is_empty() && scene.claims().await.is_empty()
            })
            .await;
    });
}
