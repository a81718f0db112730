//! VPSie's six checks: what keeps nodes of a group that could go, and that it is said.

use std::time::Duration;

use berth_cloud::vpsie::Family;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::account::{group, suited};
use crate::scene::{deployment, keep_apart};
use crate::vpsie::{played, workload};

/// Two nodes, one of which would do; what its pods keep on it, and what it uses, keep the other.
#[test]
fn nodes_that_are_checked_stay_and_say_why() {
    type Change = fn(&mut Value, &mut Value);
    let cases: [(Change, Option<&str>); 4] = [
        (|_, _| (), None),
        (
            |_, workload| {
                workload["spec"]["template"]["spec"]["volumes"] =
                    json!([{ "name": "cache", "emptyDir": {} }]);
            },
            Some("local_storage"),
        ),
        // Of two that fail, the first.
        (
            |_, workload| {
                let template = &mut workload["spec"]["template"];
                template["metadata"]["annotations"] = json!({ "karpenter.sh/do-not-disrupt": "true" });
                template["spec"]["volumes"] = json!([{ "name": "cache", "emptyDir": {} }]);
            },
            Some("local_storage"),
        ),
        (|group, _| group["spec"]["minNodes"] = json!(5), None),
    ];
    for (change, check) in cases {
        played(Family::Managed, async |berthed| {
            let scene = &berthed.scene;
            let mut group = group("workers", |group| group["spec"]["offeringIDs"] = json!(["big"]));
            let mut many = workload(12);
            many["spec"]["template"]["spec"]["topologySpreadConstraints"] = json!([{
                "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": { "matchLabels": { "app": "web" } },
            }]);
            change(&mut group, &mut many);
            let least = group["spec"]["minNodes"].as_u64().unwrap_or(0);
            scene.apply(group).await;
            scene.apply(many.clone()).await;
            scene.until(900, "twelve run", async || scene.running().await == 12).await;
            let before = scene.machines();
            many["spec"]["replicas"] = json!(4);
            scene.apply(many).await;
            sleep(Duration::from_mins(30)).await;
            let told = scene.events("workers").await.join("\n");
            match check {
                Some(check) => {
                    assert_eq!(scene.machines(), before, "{told}");
                    assert!(told.contains(check) && !told.contains("protection"), "{told}");
                }
                None => assert_eq!(scene.machines() as u64, least.max(1), "{told}"),
            }
        });
    }
}

/// VPSie's autoscaler leaves alone what somebody has cordoned, for as long as it is. What Berth itself empties goes on.
#[test]
fn a_node_that_somebody_has_cordoned_stays() {
    played(Family::Managed, async |berthed| {
        let scene = &berthed.scene;
        scene.apply(group("workers", |group| group["spec"]["offeringIDs"] = json!(["small"]))).await;
        scene.apply(workload(2)).await;
        scene.until(900, "both run", async || scene.running().await == 2).await;
        let cordoned = scene.nodes().await.remove(0)["metadata"]["name"].clone();
        let path = format!("/api/v1/nodes/{}", cordoned.as_str().unwrap_or_default());
        scene.patch(&path, &json!({ "spec": { "unschedulable": true } })).await;
        scene.apply(workload(0)).await;
        scene.until(1800, "the other goes", async || scene.machines() == 1).await;
        sleep(Duration::from_mins(30)).await;
        let left: Vec<Value> =
            scene.nodes().await.into_iter().map(|mut node| node["metadata"]["name"].take()).collect();
        assert_eq!(left, [cordoned], "{}", scene.told().await);
        let told = scene.events("workers").await.join("\n");
        assert!(told.contains("protection: NodeCordoned"), "{told}");
        scene.patch(&path, &json!({ "spec": { "unschedulable": null } })).await;
        scene.until(1800, "it goes too", async || scene.machines() == 0).await;
    });
}

/// A small node whose pod a big one has room for. What the pod keeps is in a claim: elsewhere, or on the node, which its volume
/// need not say.
#[test]
fn data_in_a_claim_on_the_node_keeps_it() {
    for (source, is_kept) in [("nfs", false), ("hostPath", true)] {
        played(Family::Managed, async |berthed| {
            let scene = &berthed.scene;
            let mut volume = json!({ source: { "path": "/x" } });
            if source == "nfs" {
                volume[source]["server"] = json!("files");
            }
            scene.apply_volume(&volume).await;
            let selling = |sizes: &[&str]| {
                group("workers", |group| {
                    group["spec"]["offeringIDs"] = json!(sizes);
                    group["spec"]["scaleDownPolicy"]["cpuThreshold"] = json!(90);
                })
            };
            let mut keeper = workload(1);
            keeper["spec"]["template"]["spec"]["volumes"] =
                json!([{ "name": "data", "persistentVolumeClaim": { "claimName": "data" } }]);
            scene.apply(selling(&["small"])).await;
            scene.apply(keeper).await;
            scene.until(600, "the first runs", async || scene.running().await == 1).await;
            scene.apply(selling(&["big", "small"])).await;
            scene.apply(suited(deployment("other", 1, "5"))).await;
            scene.until(900, "both run", async || scene.running().await == 2).await;
            assert_eq!(scene.machines(), 2);
            sleep(Duration::from_mins(30)).await;
            let told = scene.events("workers").await.join("\n");
            assert_eq!(scene.machines(), if is_kept { 2 } else { 1 }, "{source}: {told}");
            assert_eq!(told.contains("local_storage: "), is_kept, "{source}: {told}");
            assert_eq!(scene.running().await, 2);
        });
    }
}

/// VPSie's six checks, each of which keeps the nodes of a workload by itself, says so, and is counted.
#[test]
fn each_check_keeps_nodes_is_said_and_counted() {
    type Change = fn(&mut Value, &mut Value);
    let cases: [(&str, u32, &str, Change); 6] = [
        ("local_storage", 1, "1", |_, workload| {
            workload["spec"]["template"]["spec"]["volumes"] = json!([{ "name": "cache", "emptyDir": {} }]);
        }),
        // Of four small nodes three would do by the sum, and none has room for another pod.
        ("rescheduling", 4, "1100m", |group, _| {
            group["spec"]["offeringIDs"] = json!(["small"]);
            group["spec"]["maxNodes"] = json!(4);
        }),
        ("system_pods", 1, "1", |_, workload| {
            workload["metadata"] = json!({ "name": "etcd", "namespace": "kube-system" });
        }),
        ("affinity", 2, "1", |group, workload| {
            group["spec"]["maxNodes"] = json!(2);
            keep_apart(workload);
        }),
        ("capacity", 2, "3500m", |_, workload| keep_apart(workload)),
        ("protection", 1, "1", |_, workload| {
            workload["spec"]["template"]["metadata"]["annotations"] =
                json!({ "karpenter.sh/do-not-disrupt": "true" });
        }),
    ];
    for (check, nodes, cpu, change) in cases {
        played(Family::Managed, async |berthed| {
            let scene = &berthed.scene;
            let mut group = group("workers", |group| {
                group["spec"]["offeringIDs"] = json!(["big"]);
                for threshold in ["cpuThreshold", "memoryThreshold"] {
                    group["spec"]["scaleDownPolicy"][threshold] = json!(90);
                }
            });
            let mut workload = suited(deployment("web", nodes, cpu));
            change(&mut group, &mut workload);
            scene.apply(group).await;
            scene.apply(workload).await;
            let nodes = nodes as usize;
            let running = async || {
                let pods = scene.list("/api/v1/pods").await;
                pods.iter().filter(|pod| pod["status"]["phase"] == "Running").count()
            };
            scene.until(900, check, async || running().await == nodes).await;
            sleep(Duration::from_mins(30)).await;
            let told = scene.events("workers").await.join("\n");
            assert_eq!(scene.machines(), nodes, "{check}: {told}");
            assert!(told.contains(&format!("{check}: ")), "{check}: {told}");
            let of = format!(
                r#"safety_check_failures_total{{check_type="{check}",nodegroup="workers",namespace="kube-system"}} "#
            );
            let counted = berthed.counted();
            let line = counted.lines().find(|line| line.contains(&of));
            let times =
                line.and_then(|line| line.rsplit(' ').next()).and_then(|times| times.parse::<u32>().ok());
            assert!(times.is_some_and(|times| times as usize >= nodes), "{check}: {line:?}");
        });
    }
}
