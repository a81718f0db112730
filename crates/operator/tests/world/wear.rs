//! Nodes that have to go: too old, broken, or too many.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::scene::{Scene, class, condition, deployment, pool, text};
use crate::{apart, played, with_pool};

/// Nothing goes to save money.
fn lasting(pool: &mut Value) {
    pool["spec"]["disruption"]["consolidateAfter"] = json!("Never");
}

/// Names of the machines that are left of these.
fn left_of(scene: &Scene, before: &[String]) -> usize {
    scene.machine_names().iter().filter(|name| before.contains(name)).count()
}

fn is_going(claim: &Value) -> bool {
    !claim["metadata"]["deletionTimestamp"].is_null()
}

/// What replaces a node is up before the node goes. A budget keeps its pods, unless its drain has an end; and no budget
/// of its pool keeps it.
#[test]
fn a_node_that_is_too_old_is_replaced() {
    // How long a drain may take, whether a budget guards the pod, and whether the node goes.
    for (grace, is_guarded, goes) in [(None, false, true), (None, true, false), (Some("2m"), true, true)] {
        played("{}", async |scene| {
            with_pool(scene, |pool| {
                lasting(pool);
                pool["spec"]["disruption"]["budgets"] = json!([{ "nodes": "0" }]);
                pool["spec"]["template"]["spec"]["expireAfter"] = json!("20m");
                pool["spec"]["template"]["spec"]["terminationGracePeriod"] = json!(grace);
            })
            .await;
            if is_guarded {
                scene.guard().await;
            }
            scene.apply(deployment("web", 1, "1")).await;
            scene.until(180, "the pod runs", async || scene.running().await == 1).await;
            let before = scene.machine_names();
            sleep(Duration::from_mins(16)).await;
            assert_eq!(scene.machine_names(), before, "it is young");
            let mut reasons = BTreeSet::new();
            for _ in 0..600 {
                let claims = scene.claims().await;
                let is_up = |claim: &&Value| {
                    !is_going(claim) && condition(claim, "Ready").is_some_and(|(is, _)| is == "True")
                };
                for claim in claims.iter().filter(|claim| is_going(claim)) {
                    reasons.extend(condition(claim, "DisruptionReason").map(|(_, reason)| reason.to_owned()));
                    assert!(claims.iter().any(|other| is_up(&other)), "{}", scene.told().await);
                }
                sleep(Duration::from_secs(1)).await;
            }
            assert_eq!(left_of(scene, &before), usize::from(!goes), "{grace:?}: {}", scene.told().await);
            assert_eq!(reasons.into_iter().collect::<Vec<_>>(), if goes { vec!["Expired"] } else { vec![] });
            assert_eq!((scene.running().await, scene.machines()), (1, 1));
        });
    }
}

/// How a node is broken, and for how many minutes that is borne. Whatever guards its pods, it goes then.
#[test]
fn a_node_that_is_broken_is_replaced() {
    for (how, minutes) in [("silent", 30), ("KernelReady", 30), ("AcceleratedHardwareReady", 10)] {
        played("{}", async |scene| {
            with_pool(scene, lasting).await;
            scene.guard().await;
            scene.apply(deployment("web", 1, "1")).await;
            scene.until(180, "the pod runs", async || scene.running().await == 1).await;
            let (before, node) = (scene.machine_names(), scene.nodes().await.remove(0));
            let name = text(&node["metadata"]["name"]);
            if how == "silent" {
                scene.world.kubelets().silence(name);
                // Until it is missed.
                sleep(Duration::from_mins(1)).await;
            } else {
                condition_of_node(scene, &node, how).await;
            }
            sleep(Duration::from_mins(minutes - 2)).await;
            assert_eq!(left_of(scene, &before), 1, "{how}: it may yet be well");
            let is_replaced = async || {
                let (pods, nodes) = (scene.pods().await, scene.nodes().await);
                let runs = |pod: &Value| {
                    pod["status"]["phase"] == "Running"
                        && pod["spec"]["nodeName"] == nodes[0]["metadata"]["name"]
                };
                left_of(scene, &before) == 0 && nodes.len() == 1 && pods.iter().any(runs)
            };
            scene.until(600, how, is_replaced).await;
        });
    }
}

/// A node that joined and never comes up holds its pods for no longer: another is bought, and it goes.
#[test]
fn a_node_that_never_comes_up_is_replaced() {
    played("{}", async |scene| {
        with_pool(scene, |pool| {
            lasting(pool);
            pool["spec"]["template"]["spec"]["startupTaints"] =
                json!([{ "key": "example.com/cni", "effect": "NoSchedule" }]);
        })
        .await;
        scene.apply(deployment("web", 1, "1")).await;
        let has_joined = async || !scene.nodes().await.is_empty();
        scene.until(180, "the node joins", has_joined).await;
        let (before, stuck) = (scene.machine_names(), scene.nodes().await.remove(0));
        sleep(Duration::from_mins(28)).await;
        assert_eq!((left_of(scene, &before), scene.machines()), (1, 1), "it may yet come up");
        let is_replaced = async || {
            let nodes = scene.nodes().await;
            let names = nodes.iter().map(|node| text(&node["metadata"]["name"]));
            for name in names.filter(|name| *name != text(&stuck["metadata"]["name"])) {
                scene.patch(&format!("/api/v1/nodes/{name}"), &json!({ "spec": { "taints": [] } })).await;
            }
            left_of(scene, &before) == 0 && scene.running().await == 1 && scene.machines() == 1
        };
        scene.until(900, "it is replaced", is_replaced).await;
        let events = scene.events("default-").await;
        assert!(events.iter().any(|event| event.contains("Unhealthy")), "{events:?}");
    });
}

/// What follows the taint is lost: whoever led is no more, or others were faster. The node goes in its time all the same.
#[test]
fn a_node_that_is_broken_goes_whatever_is_lost_on_the_way() {
    for fault in [
        "berth after patch nodes #1: crash",
        "berth before patch nodeclaims.karpenter.sh/status #1x6: status 409",
    ] {
        played("{}", async |scene| {
            with_pool(scene, lasting).await;
            scene.guard().await;
            scene.apply(deployment("web", 1, "1")).await;
            scene.until(180, "the pod runs", async || scene.running().await == 1).await;
            let (before, node) = (scene.machine_names(), scene.nodes().await.remove(0));
            condition_of_node(scene, &node, "AcceleratedHardwareReady").await;
            sleep(Duration::from_mins(9)).await;
            scene.world.plan_faults(fault.parse().expect("a plan"));
            let is_gone = async || left_of(scene, &before) == 0;
            let ended = async {
                if fault.ends_with("crash") {
                    scene.world.crashed("berth").await;
                    tokio::select! {
                        biased;
                        () = Box::pin(scene.operator("second", 2).run()) => {}
                        () = Box::pin(scene.until(600, fault, is_gone)) => {}
                    }
                } else {
                    scene.until(600, fault, is_gone).await;
                }
            };
            ended.await;
            assert!(!scene.world.faults_struck().is_empty(), "{fault}");
        });
    }
}

async fn condition_of_node(scene: &Scene, node: &Value, kind: &str) {
    let name = text(&node["metadata"]["name"]);
    let mut conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let now = format!("{:.0}", scene.world.clock_of("test"));
    conditions.push(json!({ "type": kind, "status": "False", "lastTransitionTime": now }));
    let change = json!({ "status": { "conditions": conditions } });
    scene.patch(&format!("/api/v1/nodes/{name}/status"), &change).await;
}

/// Where many break, something else is broken; where one does, a pod that nobody would make again does not keep it.
#[test]
fn broken_nodes_are_replaced_while_they_are_few() {
    for (broken, goes) in [(1, true), (2, false)] {
        played("{}", async |scene| {
            with_pool(scene, lasting).await;
            scene.apply(apart("web", 3)).await;
            scene.until(180, "the pods run", async || scene.running().await == 3).await;
            let before = scene.machine_names();
            let nodes = scene.nodes().await;
            let mut alone = deployment("alone", 1, "100m")["spec"]["template"].clone();
            alone["apiVersion"] = json!("v1");
            alone["kind"] = json!("Pod");
            alone["metadata"]["name"] = json!("alone");
            alone["metadata"]["namespace"] = json!("default");
            alone["spec"]["nodeName"] = nodes[0]["metadata"]["name"].clone();
            scene.apply(alone).await;
            for node in nodes.iter().take(broken) {
                condition_of_node(scene, node, "KernelReady").await;
            }
            sleep(Duration::from_mins(45)).await;
            let left = left_of(scene, &before);
            assert_eq!(left, if goes { 2 } else { 3 }, "{broken} of 3: {}", scene.told().await);
        });
    }
}

/// A node that Karpenter has bought stays, though its claim was stamped in Karpenter's way; and goes once its pool asks
/// for others.
#[test]
fn a_node_that_karpenter_stamped_drifts_with_its_pool() {
    const HASH: &str = "/metadata/annotations/karpenter.sh~1nodepool-hash";
    played("{}", async |scene| {
        with_pool(scene, lasting).await;
        scene.apply(deployment("web", 1, "1")).await;
        scene.until(180, "the pod runs", async || scene.running().await == 1).await;
        let before = scene.machine_names();
        let name = text(&scene.claims().await[0]["metadata"]["name"]).to_owned();
        let karpenters = json!({ "metadata": { "annotations": {
            "karpenter.sh/nodepool-hash": "123", "karpenter.sh/nodepool-hash-version": "v3",
        } } });
        scene.patch(&format!("/apis/karpenter.sh/v1/nodeclaims/{name}"), &karpenters).await;
        let is_of_pool = async || {
            let (claims, pool) = (scene.claims().await, scene.pool("default").await);
            claims[0].pointer(HASH) == pool.pointer(HASH)
        };
        scene.until(60, "it is stamped anew", is_of_pool).await;
        sleep(Duration::from_mins(2)).await;
        assert_eq!(scene.machine_names(), before, "it has not drifted");
        let changed = pool("default", |pool| {
            lasting(pool);
            pool["spec"]["template"]["metadata"] = json!({ "labels": { "generation": "2" } });
        });
        scene.apply(changed).await;
        scene.until(600, "another takes its place", async || left_of(scene, &before) == 0).await;
    });
}

#[test]
fn a_static_pool_has_as_many_nodes_as_it_says() {
    played("{}", async |scene| {
        scene.apply(class()).await;
        let fixed = |replicas: u32| {
            pool("fixed", |pool| {
                pool["spec"]["replicas"] = json!(replicas);
                pool["spec"]["limits"] = json!({ "nodes": "3" });
            })
        };
        let has = async |count: usize| {
            let up = async |claim: &Value| condition(claim, "Ready").is_some_and(|(is, _)| is == "True");
            let mut ready = 0;
            for claim in scene.claims().await {
                ready += usize::from(up(&claim).await);
            }
            (ready, scene.machines(), scene.nodes().await.len()) == (count, count, count)
        };
        scene.apply(fixed(2)).await;
        scene.until(180, "it has two, for nobody", async || has(2).await).await;
        sleep(Duration::from_mins(10)).await;
        assert!(has(2).await, "which are not too many: {}", scene.told().await);
        scene.apply(fixed(5)).await;
        scene.until(180, "it has as many as it may", async || has(3).await).await;
        sleep(Duration::from_mins(5)).await;
        assert!(has(3).await, "{}", scene.told().await);

        scene.apply(deployment("web", 1, "100m")).await;
        scene.until(60, "the pod runs", async || scene.running().await == 1).await;
        let place = async || scene.pods().await[0]["spec"]["nodeName"].clone();
        let home = place().await;
        scene.apply(fixed(1)).await;
        scene.until(300, "it has one", async || has(1).await).await;
        assert_eq!((place().await, scene.running().await), (home, 1), "those went that held nothing");
        let gone = scene.machine_names();
        scene
            .delete(&format!(
                "/apis/karpenter.sh/v1/nodeclaims/{}",
                text(&scene.claims().await[0]["metadata"]["name"])
            ))
            .await;
        scene
            .until(300, "another takes its place", async || has(1).await && left_of(scene, &gone) == 0)
            .await;
        scene.until(60, "the pod runs there", async || scene.running().await == 1).await;
    });
}
