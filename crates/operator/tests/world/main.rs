//! The operator on the in-process world: the whole loop, in virtual time.

#![expect(clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

#[path = "../shared/account.rs"]
mod account;
mod acts;
mod adversity;
mod beside;
mod buffers;
mod canary;
mod checks;
mod counted;
mod drain;
mod ending;
mod founding;
mod health;
mod history;
mod log;
#[path = "../shared/lots.rs"]
mod lots;
mod meanwhile;
mod metrics;
mod nodeclass;
mod overlays;
mod permissions;
mod policies;
mod rest;
mod scene;
mod secrets;
mod sight;
mod spreading;
mod succession;
mod takeover;
mod telling;
mod thrift;
mod vpsie;
mod wear;
mod webhook;

use std::time::Duration;

use berth_world::cloud::Weather;
use scene::{Scene, class, condition, deployment, keep_apart, pool};
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

/// Pods on nodes of their own, by anti-affinity.
fn apart(name: &str, replicas: u32) -> Value {
    let mut deployment = deployment(name, replicas, "1");
    keep_apart(&mut deployment);
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
        assert!(told.iter().any(|said| said.contains("LedgerUnreadable")), "{told:?}");
        let damaged = scene.pool("a-damaged").await;
        assert_eq!(condition(&damaged, "Ready"), Some(("False", "LedgerUnreadable")));
        assert_eq!(
            condition(&damaged, "NodeClassReady"),
            Some(("True", "NodeClassReady")),
            "its class is well"
        );
        scene.delete("/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses/default").await;
        let is_told = async || {
            condition(&scene.pool("a-damaged").await, "NodeClassReady")
                == Some(("False", "NodeClassNotFound"))
        };
        scene.until(60, "its class is missed all the same", is_told).await;
    });
}

/// A node was to go, and nobody can say any more whether it is: it stays closed, and the others go on.
#[test]
fn a_node_that_cannot_be_opened_holds_up_no_pool() {
    type Damage = fn(&Value) -> (String, Value);
    let cases: [(&str, Damage); 2] = [
        ("its ledger is damaged", |_| {
            let path = "/apis/karpenter.sh/v1/nodepools/default".to_owned();
            (path, json!({ "metadata": { "annotations": { "berth.dev/ledger": "{" } } }))
        }),
        ("its claim names no pool", |claim| {
            let path =
                format!("/apis/karpenter.sh/v1/nodeclaims/{}", scene::text(&claim["metadata"]["name"]));
            (path, json!({ "metadata": { "labels": { "karpenter.sh/nodepool": null } } }))
        }),
    ];
    for (what, damage) in cases {
        played("{}", async |scene| {
            with_pool(scene, |_| {}).await;
            scene.apply(deployment("web", 1, "1")).await;
            scene.until(180, "the pod runs", async || scene.running().await == 1).await;
            let (path, change) = damage(&scene.claims().await[0]);
            scene.patch(&path, &change).await;
            let node = format!("/api/v1/nodes/{}", scene::text(&scene.nodes().await[0]["metadata"]["name"]));
            let taints = json!([{ "key": "karpenter.sh/disrupted", "effect": "NoSchedule" }]);
            scene.patch(&node, &json!({ "spec": { "taints": taints } })).await;
            sleep(Duration::from_mins(1)).await;
            let team = |name: &str| json!({ "team": name });
            scene
                .apply(pool("other", |pool| {
                    pool["spec"]["template"]["metadata"] = json!({ "labels": team("other") });
                }))
                .await;
            let mut workload = deployment("other", 1, "1");
            workload["spec"]["template"]["spec"]["nodeSelector"] = team("other");
            scene.apply(workload).await;
            scene.until(180, what, async || scene.running().await == 2).await;
            let taints = scene.get(&node).await["spec"]["taints"].to_string();
            assert!(taints.contains("karpenter.sh/disrupted"), "{what}: {taints}");
            sleep(Duration::from_mins(5)).await;
            assert_eq!(scene.machines(), 2, "{what}: its own pod needs no other: {}", scene.told().await);
            if what == "its ledger is damaged" {
                let without = json!({ "metadata": { "annotations": { "berth.dev/ledger": null } } });
                scene.patch(&path, &without).await;
                let is_open = async || {
                    !scene.get(&node).await["spec"]["taints"].to_string().contains("karpenter.sh/disrupted")
                };
                scene.until(60, "it is open again", is_open).await;
            }
        });
    }
}

/// A pool may have thousands of claims. They are listed where something is committed, and neither for each claim that
/// comes or goes nor at every look.
#[test]
fn claims_are_listed_only_to_commit() {
    let slow = r#"{"times": {"launch": {"leastMs": 50000, "mostMs": 50000}},
        "launches": {"underway": {"permille": 1000}}}"#;
    played(slow, async |scene| {
        with_pool(scene, |pool| pool["spec"]["disruption"]["budgets"] = json!([{ "nodes": "100%" }])).await;
        scene.apply(apart("web", 8)).await;
        scene.until(30, "eight are launched", async || scene.claims().await.len() == 8).await;
        sleep(Duration::from_secs(5)).await;
        scene.world.begin_audit();
        let lists = || {
            let asked = scene.world.take_asked();
            let is_list = |asked: &&berth_world::audit::Asked| {
                asked.client == "berth" && asked.verb == "list" && asked.resource == "nodeclaims.karpenter.sh"
            };
            (asked.iter().filter(is_list).count(), asked.len())
        };
        sleep(Duration::from_secs(30)).await;
        assert!(scene.claims().await.iter().all(|claim| claim["status"]["providerID"].is_null()));
        let (listed, asked) = lists();
        assert_eq!(listed, 0, "of {asked} requests");
        scene.until(180, "all run", async || scene.running().await == 8).await;
        scene.apply(apart("web", 0)).await;
        lists();
        let are_going = async || {
            scene.claims().await.iter().all(|claim| !claim["metadata"]["deletionTimestamp"].is_null())
        };
        scene.until(120, "all go", are_going).await;
        let (listed, asked) = lists();
        assert!(listed <= 4, "{listed} times for 8 nodes, of {asked} requests");
    });
}

/// When pods last came or went is written, though somebody else wrote first: how long a node has been quiet follows
/// from it.
#[test]
fn pods_that_go_are_noted_though_a_write_fails() {
    played("{}", async |scene| {
        with_pool(scene, |pool| pool["spec"]["disruption"]["consolidateAfter"] = json!("10m")).await;
        scene.apply(deployment("web", 2, "1")).await;
        scene.until(180, "both run", async || scene.running().await == 2).await;
        sleep(Duration::from_mins(1)).await;
        let fault = "berth before patch nodeclaims.karpenter.sh/status #1: status 409";
        scene.world.plan_faults(fault.parse().expect("a plan"));
        let went = scene.world.clock_of("test").as_second();
        scene.apply(deployment("web", 1, "1")).await;
        let is_noted = async || {
            let noted = scene.claims().await.into_iter().filter_map(|claim| {
                scene::text(&claim["status"]["lastPodEventTime"]).parse::<berth_api::Timestamp>().ok()
            });
            noted.max().is_some_and(|at| at.as_second() >= went)
        };
        scene.until(30, "it is noted", is_noted).await;
        assert_eq!(scene.world.faults_struck().len(), 1);
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

/// What a pool says of itself once: which limits keep it from growing, and why nothing was committed.
#[test]
fn a_pool_says_why_it_does_not_grow() {
    let forbidden = "berth before patch nodepools.karpenter.sh #1x20: status 403";
    let cases = [
        ("", json!({ "nodes": "3" }), "NodeLimit", "nodes: 3", 3),
        ("", json!({ "nodes": "9", "cpu": "4" }), "PoolLimit", "cpu: 4, nodes: 9", 2),
        (forbidden, json!({}), "NotCommitted", "nothing was committed", 8),
    ];
    for (fault, limits, reason, words, runs) in cases {
        played("{}", async |scene| {
            with_pool(scene, |pool| {
                pool["spec"]["limits"] = limits.clone();
                let two =
                    json!({ "key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["2"] });
                pool["spec"]["template"]["spec"]["requirements"].as_array_mut().expect("a list").push(two);
            })
            .await;
            if !fault.is_empty() {
                scene.world.plan_faults(fault.parse().expect("a plan"));
            }
            scene.apply(apart("web", 8)).await;
            scene.until(600, reason, async || scene.running().await == runs).await;
            sleep(Duration::from_mins(5)).await;
            let events = scene.list("/api/v1/events").await;
            let is_its = |event: &&Value| event["involvedObject"]["kind"] == "NodePool";
            let said: Vec<(&str, &str)> = events
                .iter()
                .filter(is_its)
                .map(|event| (scene::text(&event["reason"]), scene::text(&event["message"])))
                .collect();
            assert_eq!(said.len(), 1, "{reason}: {said:?}");
            assert!(said[0].0 == reason && said[0].1.contains(words), "{said:?}");
        });
    }
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
