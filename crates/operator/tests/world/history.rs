//! What went wrong in production with VPSie's own autoscaler, and what still does: each once, and not here.

use std::time::Duration;

use berth_cloud::Cloud;
use berth_cloud::vpsie::Family;
use berth_world::cloud::weather::Weather;
use berth_world::vpsie::{Deed, Faults};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::awaited;
use crate::scene::text;
use crate::vpsie::{Berthed, GROUPS, NODES, SECRET, group, workload};

/// Plays a script in this weather, on both families of paths.
pub(crate) fn played(weather: &str, script: &impl AsyncFn(&Berthed)) {
    for family in [Family::Servers, Family::Managed] {
        awaited(async {
            let weather: Weather = serde_json::from_str(weather).expect("weather");
            let berthed = Berthed::new(family, weather, Faults::default()).await;
            berthed.sign(SECRET).await;
            berthed.scene.play_with(berthed.operator(), script(&berthed)).await;
        });
    }
}

/// Looks every second for so many minutes.
async fn always(minutes: u64, holds: impl AsyncFn()) {
    for _ in 0..minutes * 60 {
        holds().await;
        sleep(Duration::from_secs(1)).await;
    }
}

fn is_going(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

async fn going(berthed: &Berthed) -> usize {
    berthed.nodes().await.iter().filter(|node| is_going(node)).count()
}

async fn staying(berthed: &Berthed) -> usize {
    berthed.nodes().await.iter().filter(|node| !is_going(node)).count()
}

/// d56a10a: five nodes were made for one pod, since none was ready when it was looked again.
#[test]
fn one_pod_gets_one_node_however_long_that_takes() {
    let slow = r#"{"times": {"launch": {"leastMs": 240000, "mostMs": 240000}}}"#;
    played(slow, &async |berthed: &Berthed| {
        berthed.scene.apply(group("workers", |_| {})).await;
        berthed.scene.apply(workload(1)).await;
        always(8, async || assert!(berthed.nodes().await.len() <= 1)).await;
        assert_eq!(berthed.scene.running().await, 1, "{}", berthed.scene.told().await);
        assert_eq!(berthed.vpsie.calls(Deed::Create), 1);
    });
}

/// 9242447: how many nodes may go held for drains, and all of the group's nodes were deleted. dc0700f: nodes that were
/// going counted as there, until none was left.
#[test]
fn nodes_go_one_by_one_and_never_below_the_minimum() {
    let slow = r#"{"times": {"stop": {"leastMs": 90000, "mostMs": 90000}}}"#;
    played(slow, &async |berthed: &Berthed| {
        let scene = &berthed.scene;
        let small = |group: &mut Value| {
            group["spec"]["offeringIDs"] = json!(["small"]);
            group["spec"]["minNodes"] = json!(2);
        };
        scene.apply(group("workers", small)).await;
        scene.apply(workload(6)).await;
        scene.until(900, "six run", async || scene.running().await == 6).await;
        scene.apply(workload(0)).await;
        always(40, async || {
            let (going, staying) = (going(berthed).await, staying(berthed).await);
            assert!(going <= 1 && staying >= 2, "{going} go and {staying} stay");
        })
        .await;
        assert_eq!((scene.machines(), staying(berthed).await), (2, 2));
    });
}

/// 8478b7a: it was restarted while it drained a node, and took a second one.
#[test]
fn whoever_comes_after_goes_on_with_the_node_that_is_going() {
    awaited(async {
        let berthed = Berthed::new(Family::Managed, Weather::default(), Faults::default()).await;
        berthed.sign(SECRET).await;
        let scene = &berthed.scene;
        let first = async {
            let small = |group: &mut Value| group["spec"]["offeringIDs"] = json!(["small"]);
            scene.apply(group("workers", small)).await;
            scene.apply(workload(6)).await;
            scene.until(900, "six run", async || scene.running().await == 6).await;
            scene.apply(workload(0)).await;
            scene.until(900, "one goes", async || going(&berthed).await == 1).await;
        };
        scene.play_with(berthed.operator(), first).await;
        let before = staying(&berthed).await;
        let second = async {
            scene.until(120, "it is gone", async || going(&berthed).await == 0).await;
            assert_eq!(staying(&berthed).await, before, "and no other with it");
        };
        scene.play_with(berthed.operator(), second).await;
    });
}

/// 1d39ffd: a node whose machine was gone already could never be deleted.
#[test]
fn a_node_whose_machine_is_gone_goes_and_is_replaced() {
    played("{}", &async |berthed: &Berthed| {
        let scene = &berthed.scene;
        scene.apply(group("workers", |_| {})).await;
        scene.apply(workload(1)).await;
        scene.until(280, "the pod runs", async || scene.running().await == 1).await;
        let before: Vec<Value> = berthed.nodes().await;
        for machine in scene.machine_names() {
            scene.cloud.terminate(&machine.as_str().into()).await.expect("it is there");
        }
        scene
            .until(1800, "another node has taken its place", async || {
                let names = |nodes: &[Value]| {
                    nodes.iter().map(|node| text(&node["metadata"]["name"]).to_owned()).collect::<Vec<_>>()
                };
                let nodes = berthed.nodes().await;
                nodes.len() == 1 && names(&nodes) != names(&before) && scene.running().await == 1
            })
            .await;
        assert_eq!(scene.machines(), 1);
    });
}

/// d1d9b8c: beyond its quota it asked for machines without end.
#[test]
fn a_quota_is_not_run_against() {
    let full = r#"{"quotas": [{"name": "servers", "machinesMax": 0}]}"#;
    played(full, &async |berthed: &Berthed| {
        berthed.scene.apply(group("workers", |_| {})).await;
        berthed.scene.apply(workload(1)).await;
        sleep(Duration::from_mins(30)).await;
        let asked = berthed.vpsie.calls(Deed::Create);
        assert!((1..=12).contains(&asked), "{asked} times in 30 minutes");
        assert!(berthed.vpsie.most_calls_in_a_minute() <= 100);
    });
}

/// 86f697e: a Node was deleted, and the machine behind it went on costing.
#[test]
fn a_node_that_somebody_deletes_takes_its_machine_along() {
    played("{}", &async |berthed: &Berthed| {
        let scene = &berthed.scene;
        scene.apply(group("workers", |_| {})).await;
        scene.apply(workload(1)).await;
        scene.until(300, "the pod runs", async || scene.running().await == 1).await;
        let (machines, nodes) = (scene.machine_names(), scene.nodes().await);
        let node = text(&nodes[0]["metadata"]["name"]);
        scene.delete(&format!("/api/v1/nodes/{node}")).await;
        scene.apply(workload(0)).await;
        scene.until(900, "its machine is ended", async || scene.machines() == 0).await;
        assert!(!machines.is_empty());
        scene.until(300, "nothing is left of it", async || berthed.nodes().await.is_empty()).await;
    });
}

/// c21c92d: pods that must be apart were packed together.
#[test]
fn pods_that_must_be_apart_are() {
    played("{}", &async |berthed: &Berthed| {
        let scene = &berthed.scene;
        scene.apply(group("workers", |_| {})).await;
        let mut apart = workload(3);
        apart["spec"]["template"]["spec"]["affinity"] = json!({ "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                { "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": { "app": "web" } } },
            ],
        } });
        scene.apply(apart).await;
        scene.until(600, "three run", async || scene.running().await == 3).await;
        assert_eq!(scene.machines(), 3);
        sleep(Duration::from_mins(30)).await;
        assert_eq!((scene.machines(), scene.running().await), (3, 3), "and none is taken away");
    });
}

/// 2023bec: a version without its `v` was taken, and no node ever came up.
#[test]
fn what_cannot_be_right_is_refused_at_once() {
    type Change = fn(&mut Value);
    awaited(async {
        let berthed = Berthed::new(Family::Managed, Weather::default(), Faults::default()).await;
        let cases: [(Change, &str); 4] = [
            (|group| group["spec"]["kubernetesVersion"] = json!("1.34.0"), "kubernetesVersion"),
            (|group| group["spec"]["minNodes"] = json!(11), "minNodes"),
            (|group| group["spec"]["offeringIDs"] = json!([]), "offeringIDs"),
            (|group| group["spec"]["maxNodes"] = json!(0), "maxNodes"),
        ];
        for (change, field) in cases {
            let refused = berthed.scene.world.apply("test", &group("workers", change)).await;
            let why = refused.expect_err(field).to_string();
            assert!(why.contains(field), "{why}");
        }
    });
}

/// Still so: a PodDisruptionBudget that kept a node from being emptied did not keep it from being deleted.
#[test]
fn a_budget_keeps_a_node() {
    played("{}", &async |berthed: &Berthed| {
        let scene = &berthed.scene;
        scene.apply(group("workers", |group| group["spec"]["offeringIDs"] = json!(["small"]))).await;
        scene
            .apply(json!({
                "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                "metadata": { "name": "web", "namespace": "default" },
                "spec": { "maxUnavailable": 0, "selector": { "matchLabels": { "app": "web" } } },
            }))
            .await;
        scene.apply(workload(2)).await;
        scene.until(600, "both run", async || scene.running().await == 2).await;
        let machines = scene.machine_names();
        let nodes = berthed.nodes().await;
        let node = text(&nodes[0]["metadata"]["name"]);
        // Somebody deletes it by hand: it waits for its pods all the same.
        scene
            .delete(&format!("{}/{node}", NODES.replace("v1alpha1/", "v1alpha1/namespaces/kube-system/")))
            .await;
        sleep(Duration::from_mins(30)).await;
        let annotations = |node: &Value| node["metadata"]["annotations"].clone();
        let draining = scene.nodes().await.into_iter().find(|node| node["spec"]["unschedulable"] == true);
        let draining = draining.map(|node| annotations(&node)["autoscaler.vpsie.com/drain-status"].clone());
        assert_eq!(draining, Some(json!("draining")), "whoever asked for it has to wait");
        let left = scene.machine_names();
        assert!(machines.iter().all(|machine| left.contains(machine)), "{}", scene.told().await);
        assert_eq!(scene.running().await, 2);
    });
}

/// Still so: nodes got neither the labels nor the taints of their group, so pods that select them waited for ever. And the
/// group's finalizer went before its nodes.
#[test]
fn nodes_are_what_their_group_says_and_outlive_it_not() {
    played("{}", &async |berthed: &Berthed| {
        let scene = &berthed.scene;
        scene.apply(group("workers", |_| {})).await;
        scene.apply(workload(1)).await;
        scene.until(300, "a pod that selects the group runs", async || scene.running().await == 1).await;
        scene.delete(&format!("{GROUPS}/workers")).await;
        scene.until(600, "the group is gone", async || scene.list(GROUPS).await.is_empty()).await;
        assert_eq!((scene.machines(), berthed.nodes().await.len()), (0, 0));
    });
}
