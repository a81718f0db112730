//! Beside other autoscalers: what Berth would do with their nodes, and that it does nothing while they work.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use berth_api::{ClassKind, Object};
use berth_cloud::{CatalogOptions, Cloud, QuotingCloud};
use berth_operator::{Clouds, Mode, Rivals, Settings, Undertaking};
use berth_world::cloud::Weather;
use berth_world::faults::FaultPlan;
use kube::Client;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::scene::{Scene, class, deployment, pool};
use crate::{awaited, played, with_pool};

/// A node that somebody else has bought.
async fn bought(scene: &Scene, name: &str, labels: Value) {
    let mut all = json!({
        "node.kubernetes.io/instance-type": "s-8x-amd64-linux", "topology.kubernetes.io/zone": "test-zone-a",
        "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
    });
    for (key, value) in labels.as_object().into_iter().flatten() {
        all[key] = value.clone();
    }
    scene
        .apply(json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name, "labels": all } }))
        .await;
    let amounts = json!({ "cpu": "7900m", "memory": "30Gi", "pods": "110" });
    let change = json!({ "status": { "capacity": amounts, "allocatable": amounts } });
    scene.patch(&format!("/api/v1/nodes/{name}/status"), &change).await;
}

/// A node may say of itself what it likes: without a claim it is of no pool, and nothing is bought in its place.
#[test]
fn a_node_that_only_says_that_it_is_of_a_pool_is_left_alone() {
    played("{}", async |scene| {
        with_pool(scene, |_| {}).await;
        let labels = json!({
            "karpenter.sh/nodepool": "default", "karpenter.sh/capacity-type": "on-demand",
            "karpenter.sh/initialized": "true", "karpenter.sh/registered": "true",
        });
        bought(scene, "own", labels).await;
        scene.apply(deployment("web", 1, "500m")).await;
        scene.until(60, "the pod runs", async || scene.running().await == 1).await;
        for _ in 0..20 {
            sleep(Duration::from_secs(30)).await;
            assert_eq!((scene.machines(), scene.claims().await.len()), (0, 0), "{}", scene.told().await);
        }
        assert_eq!(scene.nodes().await[0]["spec"]["taints"], Value::Null);
    });
}

fn given(value: Value) -> Object {
    Object { source: "pools.yaml".into(), line: 1, value }
}

/// Three nodes of another autoscaler, and pods for one of them. Only pools that are given say what Berth could do.
#[test]
fn a_shadow_judges_nodes_that_no_pool_has_bought() {
    awaited(async {
        let scene = Scene::new(1, Weather::default()).await;
        for name in ["asg-1", "asg-2"] {
            bought(&scene, name, json!({})).await;
        }
        bought(&scene, "spot-1", json!({ "eks.amazonaws.com/capacityType": "SPOT" })).await;
        bought(&scene, "master", json!({ "node-role.kubernetes.io/control-plane": "" })).await;
        scene.apply(deployment("web", 2, "500m")).await;
        let catalog = berth_cloud::load("kwok", &CatalogOptions::default()).expect("it is built in");
        let quoting: Arc<dyn Cloud> = Arc::new(QuotingCloud::new(Arc::new(catalog)));
        let settings = Settings {
            mode: Mode::Shadow,
            given: vec![given(class()), given(pool("general", |_| {}))],
            ..Settings::default()
        };
        let client = Client::new(scene.world.client("berth"), "default");
        let clouds = Clouds::from([(ClassKind::Kwok, quoting)]);
        let lead = berth_operator::alone(1);
        let operator = scene.operator_with((clouds, settings), (client, "berth"), lead);
        let reports = operator.reports();
        let script = async {
            scene.until(120, "the pods run", async || scene.running().await == 2).await;
            sleep(Duration::from_mins(3)).await;
            let report = reports.borrow().clone();
            let pools: BTreeMap<&str, Option<&str>> =
                report.snapshot.nodes.iter().map(|node| (&*node.name, node.pool.as_deref())).collect();
            let general = Some("general");
            let expected = [("asg-1", general), ("asg-2", general), ("master", None), ("spot-1", general)];
            assert_eq!(pools, BTreeMap::from(expected));
            let prices = |name: &str| {
                let node = report.snapshot.nodes.iter().find(|node| *node.name == *name);
                node.and_then(|node| node.price).map(|price| price.to_string())
            };
            assert_eq!(prices("asg-1").as_deref(), Some("0.234360"));
            assert_eq!(prices("spot-1").as_deref(), Some("0.164052"));
            assert!(!report.decisions.is_empty(), "nothing would be done: {:?}", report.blind_spots);
            assert!(report.course.could_have_saved.micro_usd() > 0, "{:?}", report.decisions);
            assert_eq!(scene.list("/apis/karpenter.sh/v1/nodepools").await, Vec::<Value>::new());
        };
        Box::pin(scene.play_with(operator, script)).await;
    });
}

/// Somebody starts another autoscaler while Berth works.
#[test]
fn nothing_is_done_while_a_rival_works() {
    beside_a_rival(None);
}

/// Who was at work still is, as far as anybody knows.
#[test]
fn a_rival_is_not_forgotten_while_leases_cannot_be_listed() {
    beside_a_rival(Some("berth before list leases.coordination.k8s.io #1x6: status 503"));
}

/// With a fault once the rival is known.
fn beside_a_rival(fault: Option<&str>) {
    awaited(async {
        let scene = Scene::new(1, Weather::default()).await;
        let cloud: Arc<dyn Cloud> = Arc::new(scene.cloud.clone());
        let wanted = Undertaking { mode: Mode::Act, has_vpsie: false, lease: "berth", lease_namespace: None };
        let settings = Settings { rivals: Some(Rivals::of(wanted)), ..Settings::default() };
        let client = Client::new(scene.world.client("berth"), "default");
        let clouds = Clouds::from([(ClassKind::Kwok, cloud)]);
        let operator = scene.operator_with((clouds, settings), (client, "berth"), berth_operator::alone(1));
        let reports = operator.reports();
        let leads = async {
            loop {
                let now = scene.world.clock_of("berth");
                scene
                    .apply(json!({
                        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                        "metadata": { "name": "karpenter-leader-election", "namespace": "kube-system" },
                        "spec": { "holderIdentity": "karpenter-1", "renewTime": format!("{now:.6}") },
                    }))
                    .await;
                sleep(Duration::from_secs(5)).await;
            }
        };
        let script = async {
            with_pool(&scene, |_| {}).await;
            let rival = async {
                sleep(Duration::from_secs(90)).await;
                let fault = fault.map(|line| line.parse().expect("a fault"));
                scene.world.plan_faults(FaultPlan(fault.into_iter().collect()));
                sleep(Duration::from_secs(45)).await;
                scene.apply(deployment("web", 1, "1")).await;
                sleep(Duration::from_mins(2)).await;
                let spots: Vec<String> =
                    reports.borrow().blind_spots.iter().map(ToString::to_string).collect();
                assert!(
                    spots[0].starts_with("leases: Karpenter is at work here: karpenter-1 holds"),
                    "{spots:?}"
                );
                assert_eq!(scene.claims().await, Vec::<Value>::new());
            };
            tokio::select! {
                biased;
                () = leads => {}
                () = rival => {}
            }
            scene.until(300, "it goes on once that has ended", async || scene.running().await == 1).await;
        };
        Box::pin(scene.play_with(operator, script)).await;
    });
}
