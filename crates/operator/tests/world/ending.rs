//! The end of Karpenter's claims: by when their pods have to be gone, and that volumes are waited for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use berth_api::{ClassKind, Timestamp};
use berth_cloud::Cloud;
use berth_operator::Settings;
use berth_world::cloud::Weather;
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::scene::{Scene, condition, deployment, text};
use crate::{awaited, played, with_pool};

const DEADLINE: &str = "karpenter.sh/nodeclaim-termination-timestamp";

/// One node with a pod, whose drain may take so long.
async fn one_node(scene: &Scene, grace: Option<&str>, change: impl FnOnce(&mut Value)) -> Value {
    with_pool(scene, |pool| {
        pool["spec"]["template"]["spec"]["terminationGracePeriod"] = json!(grace);
        pool["spec"]["disruption"]["consolidateAfter"] = json!("Never");
    })
    .await;
    let mut web = deployment("web", 1, "1");
    change(&mut web["spec"]["template"]["spec"]);
    scene.apply(web).await;
    scene.until(180, "the pod runs", async || scene.running().await == 1).await;
    scene.until(60, "all is told", async || condition(&only_claim(scene).await, "Ready").is_some()).await;
    only_claim(scene).await
}

async fn only_claim(scene: &Scene) -> Value {
    scene.claims().await.into_iter().next().unwrap_or_default()
}

fn path(claim: &Value) -> String {
    format!("/apis/karpenter.sh/v1/nodeclaims/{}", text(&claim["metadata"]["name"]))
}

/// The claim as long as it is there.
async fn found(scene: &Scene, claim: &Value) -> Option<Value> {
    scene.claims().await.into_iter().find(|other| other["metadata"]["uid"] == claim["metadata"]["uid"])
}

fn is_alive(scene: &Scene, claim: &Value) -> bool {
    let machine = text(&claim["status"]["providerID"]);
    scene.machine_names().iter().any(|name| machine.ends_with(name.as_str()))
}

async fn attach(scene: &Scene, claim: &Value, volume: &str) {
    scene
        .apply(json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": { "name": "data" },
            "spec": {
                "attacher": "disk.example.com", "nodeName": claim["status"]["nodeName"],
                "source": { "persistentVolumeName": volume },
            },
        }))
        .await;
}

#[test]
fn a_machine_ends_once_its_volumes_are_detached_or_its_time_is_over() {
    // How long a drain may take, and whether somebody detaches the volume.
    for (grace, is_detached) in [(None, true), (Some("1h"), true), (Some("10m"), false)] {
        played("{}", async |scene| {
            let claim = one_node(scene, grace, |_| {}).await;
            attach(scene, &claim, "disk-1").await;
            scene.delete(&path(&claim)).await;
            let said = async |expected: (&str, &str)| {
                let claim = found(scene, &claim).await.unwrap_or_default();
                condition(&claim, "VolumesDetached") == Some(expected)
            };
            let waits = async || said(("Unknown", "AwaitingVolumeDetachment")).await;
            scene.until(120, "it waits for the volume", waits).await;
            let drained = found(scene, &claim).await.expect("it is there");
            assert_eq!(condition(&drained, "Drained"), Some(("True", "Drained")));
            sleep(Duration::from_mins(5)).await;
            assert!(waits().await && is_alive(scene, &claim), "{}", scene.told().await);
            let last = if is_detached {
                scene.delete("/apis/storage.k8s.io/v1/volumeattachments/data").await;
                ("True", "VolumesDetached")
            } else {
                ("False", "TerminationGracePeriodElapsed")
            };
            scene.until(400, "it says what became of the volume", async || said(last).await).await;
            scene.until(60, "the claim is gone", async || found(scene, &claim).await.is_none()).await;
            assert!(!is_alive(scene, &claim));
        });
    }
}

/// A pod that tolerates everything is not asked to leave, so nobody detaches what it uses.
#[test]
fn volumes_of_pods_that_stay_are_not_waited_for() {
    for (volume, is_held) in [("disk-1", false), ("disk-2", true)] {
        played("{}", async |scene| {
            scene.apply_volume(&json!({ "hostPath": { "path": "/x" } })).await;
            let claim = one_node(scene, None, |pod| {
                pod["tolerations"] = json!([{ "operator": "Exists" }]);
                pod["volumes"] =
                    json!([{ "name": "data", "persistentVolumeClaim": { "claimName": "data" } }]);
            })
            .await;
            attach(scene, &claim, volume).await;
            scene.delete(&path(&claim)).await;
            sleep(Duration::from_mins(5)).await;
            assert_eq!(is_alive(scene, &claim), is_held, "{volume}: {}", scene.told().await);
        });
    }
}

/// A kubelet that ends nothing any more unmounts nothing either.
#[test]
fn volumes_of_pods_that_hang_are_not_waited_for() {
    for (volume, is_held) in [("disk-1", false), ("disk-2", true)] {
        played("{}", async |scene| {
            scene.apply_volume(&json!({ "hostPath": { "path": "/x" } })).await;
            let claim = one_node(scene, None, |pod| {
                pod["volumes"] =
                    json!([{ "name": "data", "persistentVolumeClaim": { "claimName": "data" } }]);
            })
            .await;
            attach(scene, &claim, volume).await;
            scene.world.kubelets().silence(text(&claim["status"]["nodeName"]));
            scene.delete(&path(&claim)).await;
            sleep(Duration::from_mins(10)).await;
            assert_eq!(is_alive(scene, &claim), is_held, "{volume}: {}", scene.told().await);
        });
    }
}

/// A budget lets nobody go, and the drain may take an hour. Somebody does not want to wait that long.
#[test]
fn pods_have_to_be_gone_when_their_claim_says_so() {
    for shortened in [false, true] {
        played("{}", async |scene| {
            let claim = one_node(scene, Some("1h"), |_| {}).await;
            scene.guard().await;
            assert_eq!(claim["metadata"]["annotations"][DEADLINE], Value::Null, "nobody has deleted it");
            scene.delete(&path(&claim)).await;
            let deadline = async || {
                let claim = found(scene, &claim).await.unwrap_or_default();
                let deleted = text(&claim["metadata"]["deletionTimestamp"]).parse::<Timestamp>().ok()?;
                let deadline = text(&claim["metadata"]["annotations"][DEADLINE]).parse::<Timestamp>().ok()?;
                Some(deadline.duration_since(deleted).as_secs())
            };
            scene.until(30, "it says by when", async || deadline().await == Some(3600)).await;
            if shortened {
                let soon = scene.world.clock_of("test") + Duration::from_mins(2);
                let change = json!({ "metadata": { "annotations": { DEADLINE: format!("{soon:.0}") } } });
                scene.patch(&path(&claim), &change).await;
            }
            sleep(Duration::from_mins(15)).await;
            assert_eq!(found(scene, &claim).await.is_none(), shortened, "{}", scene.told().await);
            if let Some(claim) = found(scene, &claim).await {
                assert_eq!(condition(&claim, "Drained"), Some(("Unknown", "Draining")));
                let stuck = Some(("False", "ConsistencyCheckFailed"));
                assert_eq!(condition(&claim, "ConsistentStateFound"), stuck, "{}", scene.told().await);
                scene.until(3600, "its time is over", async || found(scene, &claim).await.is_none()).await;
            }
            assert!(!is_alive(scene, &claim));
        });
    }
}

/// An API that fails, or has no time, says nothing of whether pods may leave.
#[test]
fn an_api_in_trouble_refuses_nobody() {
    for code in [429, 503] {
        played("{}", async |scene| {
            let claim = one_node(scene, None, |_| {}).await;
            let fault = format!("berth before create pods/eviction #1x200: status {code}");
            scene.world.plan_faults(fault.parse().expect("a plan"));
            scene.delete(&path(&claim)).await;
            sleep(Duration::from_mins(15)).await;
            let stuck = found(scene, &claim).await.expect("nobody has left");
            assert_eq!(condition(&stuck, "Drained"), Some(("Unknown", "Draining")), "{code}");
            let consistent = condition(&stuck, "ConsistentStateFound").map(|(status, _)| status);
            assert_ne!(consistent, Some("False"), "{code}: {}", scene.told().await);
            scene.until(900, "it goes", async || found(scene, &claim).await.is_none()).await;
        });
    }
}

/// Whoever begins to lead may have missed that a node joined. It is looked for before its claim is given up.
#[test]
fn a_node_that_a_watch_did_not_tell_of_is_not_taken_for_gone() {
    awaited(async {
        let scene = Scene::new(1, Weather::default()).await;
        let fault = "second before event nodes #1: silence";
        scene.world.plan_faults(fault.parse().expect("a plan"));
        let (leads, lead) = watch::channel(None);
        let cloud: Arc<dyn Cloud> = Arc::new(scene.cloud.clone());
        let clouds = BTreeMap::from([(ClassKind::Kwok, cloud)]);
        let client = Client::new(scene.world.client("second"), "default");
        let second = scene.operator_with((clouds, Settings::default()), (client, "second"), lead);
        let script = async {
            let claim = tokio::select! {
                biased;
                () = Box::pin(scene.operator("first", 1).run()) => Value::Null,
                claim = Box::pin(one_node(&scene, None, |_| {})) => claim,
            };
            leads.send_replace(Some(2));
            sleep(Duration::from_mins(5)).await;
            assert_eq!(scene.world.faults_struck().len(), 1);
            let is_there = found(&scene, &claim)
                .await
                .is_some_and(|claim| claim["metadata"]["deletionTimestamp"].is_null());
            assert!(is_there && is_alive(&scene, &claim), "{}", scene.told().await);
        };
        Box::pin(scene.play_with(second, script)).await;
    });
}

/// What another autoscaler has begun and not bought is not waited for: nobody will buy it.
#[test]
fn claims_that_nobody_launches_go() {
    played("{}", async |scene| {
        with_pool(scene, |_| {}).await;
        scene
            .apply(json!({
                "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
                "metadata": {
                    "name": "default-x7z2p", "labels": { "karpenter.sh/nodepool": "default" },
                    "finalizers": ["karpenter.sh/termination"],
                },
                "spec": {
                    "nodeClassRef": { "group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default" },
                    "requirements": [{ "key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"] }],
                    "resources": { "requests": { "cpu": "2", "memory": "1Gi", "pods": "4" } },
                },
            }))
            .await;
        scene.apply(deployment("web", 1, "1")).await;
        scene.until(120, "the pod runs", async || scene.running().await == 1).await;
        let names: Vec<Value> =
            scene.claims().await.iter().map(|claim| claim["metadata"]["name"].clone()).collect();
        assert_eq!(names, ["default-1"]);
    });
}
