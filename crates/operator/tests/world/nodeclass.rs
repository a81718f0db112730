//! NodePools that buy from VPSie, by a VPSieNodeClass: Karpenter's objects, VPSie's machines.

use std::time::Duration;

use berth_cloud::vpsie::Family;
use berth_world::cloud::weather::Weather;
use berth_world::vpsie::Faults;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::account::{CLUSTER, SECRET, group};
use crate::scene::{self, Scene, condition, deployment, text};
use crate::vpsie::{Berthed, played, workload};

const CLASS: &str = "/apis/berth.dev/v1alpha1/vpsienodeclasses/default";
const CLAIMS: &str = "/apis/karpenter.sh/v1/nodeclaims";

pub(crate) fn class(change: impl FnOnce(&mut Value)) -> Value {
    let mut class = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "VPSieNodeClass",
        "metadata": { "name": "default" }, "spec": { "project": "p-1" },
    });
    change(&mut class);
    class
}

/// The class as it is.
pub(crate) async fn seen(scene: &Scene) -> Value {
    scene.get(CLASS).await
}

/// For pods that ask for a team of this name and tolerate a taint.
fn pool(name: &str, change: impl FnOnce(&mut Value)) -> Value {
    scene::pool(name, |pool| {
        let template = &mut pool["spec"]["template"];
        template["metadata"] = json!({ "labels": { "team": name } });
        template["spec"]["nodeClassRef"] =
            json!({ "group": "berth.dev", "kind": "VPSieNodeClass", "name": "default" });
        template["spec"]["taints"] = json!([{ "key": "dedicated", "value": name, "effect": "NoSchedule" }]);
        change(pool);
    })
}

fn pods(team: &str, replicas: u32) -> Value {
    let mut pods = deployment(team, replicas, "1");
    pods["spec"]["template"]["spec"]["nodeSelector"] = json!({ "team": team });
    pods["spec"]["template"]["spec"]["tolerations"] = json!([{ "key": "dedicated", "operator": "Exists" }]);
    pods
}

async fn is_ready(scene: &Scene) -> bool {
    let claims = scene.claims().await;
    !claims.is_empty() && claims.iter().all(|claim| condition(claim, "Ready") == Some(("True", "Ready")))
}

#[test]
fn a_pool_grows_and_shrinks() {
    for family in Family::ALL {
        played(family, async |berthed| {
            let scene = &berthed.scene;
            scene.apply(class(|_| {})).await;
            scene.apply(pool("web", |_| {})).await;
            scene.apply(pods("web", 10)).await;
            scene.until(600, "ten pods run", async || scene.running().await == 10).await;
            scene.until(60, "all claims are ready", async || is_ready(scene).await).await;
            let before = scene.machines();
            assert_eq!((before > 1, scene.claims().await.len()), (true, before));
            assert!(berthed.nodes().await.is_empty(), "a NodePool's machines have no VPSieNodes");
            for node in scene.nodes().await {
                let labels = &node["metadata"]["labels"];
                let said = ["team", "karpenter.sh/nodepool", "topology.kubernetes.io/zone"];
                assert_eq!(said.map(|label| text(&labels[label])), ["web", "web", "dc-1"]);
                assert!(["big", "small"].contains(&text(&labels["node.kubernetes.io/instance-type"])));
                assert!(!text(&labels["autoscaler.vpsie.com/offering"]).is_empty(), "{labels}");
                let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
                assert!(taints.iter().any(|taint| taint["key"] == "dedicated"), "{taints:?}");
            }
            for claim in scene.claims().await {
                let id = text(&claim["status"]["providerID"]);
                assert!(id.starts_with(&format!("vpsie://dc-1/{CLUSTER}/")), "{id}");
            }
            assert_eq!(condition(&scene.pool("web").await, "Ready"), Some(("True", "Ready")));
            assert_eq!(condition(&seen(scene).await, "Ready"), Some(("True", "Ready")));
            scene.apply(pods("web", 1)).await;
            scene
                .until(1800, "one node is left", async || {
                    (scene.machines(), scene.nodes().await.len(), scene.running().await) == (1, 1, 1)
                })
                .await;
            scene.apply(pods("web", 0)).await;
            scene
                .until(1800, "none is left", async || {
                    scene.machines() == 0 && scene.claims().await.is_empty() && scene.nodes().await.is_empty()
                })
                .await;
            sleep(Duration::from_mins(2)).await;
            let revision = scene.world.revision();
            sleep(Duration::from_mins(10)).await;
            assert_eq!(scene.world.revision(), revision, "idle writes nothing");
        });
    }
}

/// Nodes of VPSie come without taints: what a startup taint keeps away is kept away all the same.
#[test]
fn a_startup_taint_holds_a_node_until_somebody_takes_it_away() {
    played(Family::Managed, async |berthed| {
        let scene = &berthed.scene;
        let cni = json!({ "key": "cni", "effect": "NoExecute" });
        scene.apply(class(|_| {})).await;
        let starting = |pool: &mut Value| pool["spec"]["template"]["spec"]["startupTaints"] = json!([cni]);
        scene.apply(pool("web", starting)).await;
        scene.apply(pods("web", 1)).await;
        let registered = async || {
            let claims = scene.claims().await;
            claims.iter().any(|claim| condition(claim, "Registered") == Some(("True", "Registered")))
        };
        scene.until(300, "the node is registered", registered).await;
        sleep(Duration::from_mins(2)).await;
        let nodes = scene.nodes().await;
        assert_eq!((nodes.len(), scene.running().await), (1, 0), "{}", scene.told().await);
        assert!(!is_ready(scene).await);
        let mut node = nodes.into_iter().next().expect("a node");
        node["spec"]["taints"].as_array_mut().expect("taints").retain(|taint| taint["key"] != "cni");
        let change = json!({ "spec": { "taints": node["spec"]["taints"] } });
        scene.patch(&format!("/api/v1/nodes/{}", text(&node["metadata"]["name"])), &change).await;
        scene.until(60, "the pod runs", async || scene.running().await == 1).await;
        scene.until(60, "the claim is ready", async || is_ready(scene).await).await;
        assert_eq!(scene.machines(), 1);
    });
}

/// What is wrong with a class is said by the pools that name it, and by itself if it is there; others go on.
#[test]
fn what_is_wrong_with_a_class_binds_its_pools_alone() {
    type Change = fn(&mut Value);
    let cases: [(Option<Change>, &str); 4] = [
        (None, "NodeClassNotFound"),
        (Some(|class| class["spec"]["datacenterIDs"] = json!(["dc-1", "dc-9"])), "UnknownDatacenter"),
        (Some(|class| class["spec"]["offeringIDs"] = json!(["huge"])), "UnknownOffering"),
        (Some(|class| class["metadata"]["finalizers"] = json!(["example.com/held"])), "NodeClassNotReady"),
    ];
    for (change, reason) in cases {
        played(Family::Managed, async |berthed| {
            let scene = &berthed.scene;
            let named = |class: &mut Value| class["metadata"]["name"] = json!("other");
            scene.apply(class(named)).await;
            let of_other = |pool: &mut Value| {
                pool["spec"]["template"]["spec"]["nodeClassRef"]["name"] = json!("other");
            };
            scene.apply(pool("other", of_other)).await;
            scene.apply(pool("web", |_| {})).await;
            if let Some(change) = change {
                scene.apply(class(change)).await;
            }
            if reason == "NodeClassNotReady" {
                scene.delete(CLASS).await;
            }
            scene.apply(pods("web", 1)).await;
            scene.apply(pods("other", 1)).await;
            let says = async || condition(&scene.pool("web").await, "Ready") == Some(("False", reason));
            scene.until(60, reason, says).await;
            let told = async || scene.events("web").await.iter().any(|said| said.contains(reason));
            scene.until(60, "the pod is told", told).await;
            scene.until(300, "the other's pod runs", async || scene.running().await == 1).await;
            assert_eq!(scene.machines(), 1);
            match reason {
                "NodeClassNotFound" => scene.apply(class(|_| {})).await,
                "NodeClassNotReady" => {
                    scene.patch(CLASS, &json!({ "metadata": { "finalizers": null } })).await;
                    scene.apply(class(|_| {})).await;
                }
                _ => {
                    assert_eq!(condition(&seen(scene).await, "Ready"), Some(("False", reason)));
                    let nothing = json!({ "spec": { "datacenterIDs": null, "offeringIDs": null } });
                    scene.patch(CLASS, &nothing).await;
                }
            }
            scene.until(300, "it is right, and the pod runs", async || scene.running().await == 2).await;
            assert_eq!(condition(&scene.pool("web").await, "Ready"), Some(("True", "Ready")));
            assert_eq!(condition(&seen(scene).await, "Ready"), Some(("True", "Ready")));
        });
    }
}

/// What is ordered is what the class said when the claim was made, though it is gone before the launch is through; and
/// without it the machine can be ended.
#[test]
fn a_claim_needs_its_class_no_more() {
    for family in Family::ALL {
        played(family, async |berthed| {
            let scene = &berthed.scene;
            let wishes = |class: &mut Value| {
                class["spec"] = json!({
                    "project": "p-2", "osImageID": "debian-13", "sshKeyIDs": ["key-1"], "tags": ["harbour"],
                    "notes": "for the quay", "kubernetesVersion": "v1.34.0",
                });
            };
            scene.apply(class(wishes)).await;
            scene.apply(pool("web", |_| {})).await;
            scene.apply(pods("web", 1)).await;
            scene.until(60, "there is a claim", async || scene.claims().await.len() == 1).await;
            scene.delete(CLASS).await;
            scene.until(600, "the pod runs", async || scene.running().await == 1).await;
            if family != Family::Managed {
                let orders = berthed.vpsie.orders();
                let [order] = &orders[..] else { panic!("{orders:?}") };
                let expected = json!({
                    "projectId": "p-2", "os_image_id": "debian-13", "ssh_key_ids": ["key-1"],
                    "kubernetes_version": "v1.34.0", "notes": "for the quay",
                });
                for (field, value) in expected.as_object().expect("an object") {
                    assert_eq!(order[field], *value, "{field}");
                }
                assert!(order["tags"].to_string().contains("harbour"), "{order}");
            }
            let claims = scene.claims().await;
            scene.delete(&format!("{CLAIMS}/{}", text(&claims[0]["metadata"]["name"]))).await;
            scene
                .until(600, "its machine is gone", async || {
                    scene.machines() == 0 && scene.claims().await.is_empty() && scene.nodes().await.is_empty()
                })
                .await;
        });
    }
}

/// A class that says otherwise how machines are made has them replaced; one that says where does not, if they are there.
#[test]
fn nodes_of_a_class_that_has_changed_are_replaced() {
    played(Family::Servers, async |berthed| {
        let scene = &berthed.scene;
        scene.apply(class(|_| {})).await;
        scene.apply(pool("web", |_| {})).await;
        scene.apply(pods("web", 1)).await;
        scene.until(300, "the pod runs", async || scene.running().await == 1).await;
        let before = scene.machine_names();
        // The second is a slip of the pen.
        for datacenter in ["dc-1", "dc-9"] {
            scene.apply(class(|class| class["spec"]["datacenterIDs"] = json!([datacenter]))).await;
            sleep(Duration::from_mins(10)).await;
            assert_eq!(scene.machine_names(), before, "{}", scene.told().await);
            assert_eq!(condition(&scene.claims().await[0], "Drifted"), None, "{datacenter}");
        }
        let image = |class: &mut Value| class["spec"]["osImageID"] = json!("debian-13");
        scene.apply(class(image)).await;
        scene
            .until(900, "another machine runs it", async || {
                let names = scene.machine_names();
                names.len() == 1 && names != before && scene.running().await == 1
            })
            .await;
        assert_eq!(
            berthed.vpsie.orders().last().map(|order| text(&order["os_image_id"]).to_owned()).as_deref(),
            Some("debian-13")
        );
        let told = scene.told().await;
        sleep(Duration::from_mins(10)).await;
        assert_eq!(scene.machines(), 1, "{told}");
    });
}

/// Both dialects buy from one account. Neither takes the other's machines for its own, or for nobody's: not before and
/// not after another process has taken over.
#[test]
fn a_group_and_a_pool_share_an_account() {
    for family in Family::ALL {
        crate::awaited(async {
            let berthed = Berthed::new(family, Weather::default(), Faults::default()).await;
            berthed.sign(SECRET).await;
            let scene = &berthed.scene;
            let both = async || (scene.claims().await.len(), berthed.nodes().await.len());
            let begin = async {
                scene.apply(group("workers", |_| {})).await;
                scene.apply(class(|_| {})).await;
                scene.apply(pool("pool", |_| {})).await;
                let mut theirs = workload(6);
                theirs["metadata"]["name"] = json!("theirs");
                scene.apply(theirs).await;
                scene.apply(pods("pool", 6)).await;
                scene.until(900, "all run", async || scene.running().await == 12).await;
                scene.until(60, "all claims are ready", async || is_ready(scene).await).await;
                let phases = async || berthed.phases().await.iter().all(|phase| phase == "Ready");
                scene.until(60, "all nodes are ready", phases).await;
            };
            scene.play_with(berthed.operator(), begin).await;
            let machines = scene.machine_names();
            let (claims, nodes) = both().await;
            assert!(
                claims > 0 && nodes > 0 && claims + nodes == machines.len(),
                "{claims} {nodes} {machines:?}"
            );
            scene.play_with(berthed.operator(), sleep(Duration::from_mins(15))).await;
            assert_eq!(
                (scene.machine_names(), both().await),
                (machines, (claims, nodes)),
                "{}",
                scene.told().await
            );
            let end = async {
                let mut theirs = workload(0);
                theirs["metadata"]["name"] = json!("theirs");
                scene.apply(theirs).await;
                scene.until(3600, "the group's nodes go", async || both().await.1 == 0).await;
                assert_eq!((scene.machines(), both().await.0, scene.running().await), (claims, claims, 6));
                scene.apply(pods("pool", 0)).await;
                scene
                    .until(1800, "the pool's go", async || scene.machines() == 0 && both().await.0 == 0)
                    .await;
            };
            scene.play_with(berthed.operator(), end).await;
        });
    }
}

/// Whoever has no NodeGroups need not have their definitions.
#[test]
fn a_pool_needs_nothing_of_the_other_dialect() {
    played(Family::Managed, async |berthed| {
        let scene = &berthed.scene;
        for kind in ["nodegroups", "vpsienodes", "autoscalerconfigs"] {
            let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
            scene.delete(&format!("{crds}/{kind}.autoscaler.vpsie.com")).await;
        }
        scene.apply(class(|_| {})).await;
        scene.apply(pool("web", |_| {})).await;
        scene.apply(pods("web", 1)).await;
        scene.until(300, "the pod runs", async || scene.running().await == 1).await;
        scene.apply(pods("web", 0)).await;
        scene.until(900, "the machine goes", async || scene.machines() == 0).await;
    });
}
