//! What a NodeGroup may say beyond how many nodes it has: spot, regions, and when cheaper nodes replace dear ones.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_cloud::vpsie::Family;
use berth_world::cloud::weather::Weather;
use berth_world::vpsie::Faults;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::account::{GROUPS, SECRET, group};
use crate::awaited;
use crate::scene::{condition, text};
use crate::vpsie::{Berthed, workload};

/// In two datacenters, and in the first as spot too.
const OFFERS: &str = r#"[
    {"id": "1", "name": "big", "cpu": 8, "ram": 16384, "disk": 160, "hourly_price": 0.2, "datacenter_id": "dc-1"},
    {"id": "2", "name": "small", "cpu": 2, "ram": 4096, "disk": 80, "hourly_price": 0.05, "datacenter_id": "dc-1"},
    {"id": "3", "name": "small", "cpu": 2, "ram": 4096, "disk": 80, "hourly_price": 0.06, "datacenter_id": "dc-2"},
    {"id": "4", "name": "small", "cpu": 2, "ram": 4096, "disk": 80, "hourly_price": 0.02, "datacenter_id": "dc-1",
     "spot": true, "interruption_rate": 5}]"#;

fn played(weather: &str, script: impl AsyncFnOnce(&Berthed)) {
    awaited(async {
        let weather: Weather = serde_json::from_str(weather).expect("weather");
        let berthed = Berthed::selling(OFFERS, Family::Servers, weather, Faults::default()).await;
        berthed.sign(SECRET).await;
        berthed.scene.play_with(berthed.operator(), script(&berthed)).await;
    });
}

/// How many Nodes there are for each value of a label.
async fn by_label(berthed: &Berthed, key: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for node in berthed.scene.nodes().await {
        *counts.entry(text(&node["metadata"]["labels"][key]).to_owned()).or_insert(0) += 1;
    }
    counts
}

fn counts(pairs: &[(&str, usize)]) -> BTreeMap<String, usize> {
    pairs.iter().map(|(value, count)| ((*value).to_owned(), *count)).collect()
}

/// Small nodes, with one pod of `workload` on each.
fn small(change: impl FnOnce(&mut Value)) -> Value {
    group("workers", |group| {
        group["spec"]["offeringIDs"] = json!(["small"]);
        change(group);
    })
}

const ZONE: &str = "topology.kubernetes.io/zone";
const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";

#[test]
fn a_share_of_a_group_is_spot() {
    played("{}", async |berthed| {
        let scene = &berthed.scene;
        scene
            .apply(small(|group| {
                group["spec"]["spotConfig"] = json!({ "enabled": true, "maxSpotPercentage": 50 });
            }))
            .await;
        scene.apply(workload(4)).await;
        scene.until(600, "four run", async || scene.running().await == 4).await;
        assert_eq!(by_label(berthed, CAPACITY_TYPE).await, counts(&[("on-demand", 2), ("spot", 2)]));
    });
}

#[test]
fn without_spot_config_nothing_is_spot() {
    played("{}", async |berthed| {
        let scene = &berthed.scene;
        scene.apply(small(|_| {})).await;
        scene.apply(workload(2)).await;
        scene.until(600, "both run", async || scene.running().await == 2).await;
        assert_eq!(by_label(berthed, CAPACITY_TYPE).await, counts(&[("on-demand", 2)]));
    });
}

/// Spot is sold out: the group buys on demand, or waits and says why.
#[test]
fn spot_that_cannot_be_had_is_fallen_back_from_if_that_is_wanted() {
    let sold_out = r#"{"stock": [{"of": {"capacityType": "spot"}, "count": 0}]}"#;
    for (falls_back, running) in [(true, 3), (false, 1)] {
        played(sold_out, async |berthed| {
            let scene = &berthed.scene;
            let spot = json!({ "enabled": true, "maxSpotPercentage": 80, "fallbackToOnDemand": falls_back });
            scene.apply(small(|group| group["spec"]["spotConfig"] = spot)).await;
            scene.apply(workload(3)).await;
            sleep(Duration::from_mins(20)).await;
            assert_eq!(scene.running().await, running, "{}", scene.told().await);
            if !falls_back {
                let said = scene.events("web").await.join("\n");
                assert!(said.contains("spot") || said.contains("SpotShare"), "{said}");
            }
        });
    }
}

#[test]
fn regions_are_filled_as_the_group_says() {
    let cases = [
        (
            json!({ "distributionStrategy": "balanced", "minNodesPerRegion": 0 }),
            4,
            [("dc-1", 2), ("dc-2", 2)],
        ),
        (
            json!({ "distributionStrategy": "weighted", "weightedDistribution": { "dc-1": 1, "dc-2": 3 },
                    "minNodesPerRegion": 0 }),
            4,
            [("dc-1", 1), ("dc-2", 3)],
        ),
        (
            json!({ "distributionStrategy": "primary-backup", "primaryDatacenter": "dc-2", "minNodesPerRegion": 1 }),
            3,
            [("dc-1", 1), ("dc-2", 2)],
        ),
    ];
    for (mut regions, pods, expected) in cases {
        regions["enabled"] = json!(true);
        regions["datacenterIDs"] = json!(["dc-1", "dc-2"]);
        played("{}", async |berthed| {
            let scene = &berthed.scene;
            scene.apply(small(|group| group["spec"]["multiRegion"] = regions)).await;
            scene.apply(workload(pods)).await;
            scene.until(900, "all run", async || scene.running().await == pods as usize).await;
            assert_eq!(by_label(berthed, ZONE).await, counts(&expected));
            sleep(Duration::from_mins(30)).await;
            assert_eq!(by_label(berthed, ZONE).await, counts(&expected), "and it stays so");
        });
    }
}

#[test]
fn the_backup_takes_over_where_the_primary_has_nothing() {
    let sold_out = r#"{"stock": [{"of": {"zone": "dc-2"}, "count": 0}]}"#;
    played(sold_out, async |berthed| {
        let scene = &berthed.scene;
        let regions = json!({ "enabled": true, "datacenterIDs": ["dc-1", "dc-2"], "primaryDatacenter": "dc-2",
            "distributionStrategy": "primary-backup", "minNodesPerRegion": 0 });
        scene.apply(small(|group| group["spec"]["multiRegion"] = regions)).await;
        scene.apply(workload(2)).await;
        scene.until(900, "both run", async || scene.running().await == 2).await;
        assert_eq!(by_label(berthed, ZONE).await, counts(&[("dc-1", 2)]));
    });
}

/// A big node with one small pod left on it.
async fn left_on_a_big_node(berthed: &Berthed, optimization: &Value) {
    let scene = &berthed.scene;
    let only_big = |group: &mut Value| group["spec"]["offeringIDs"] = json!(["big"]);
    scene.apply(group("workers", only_big)).await;
    scene.apply(workload(1)).await;
    scene.until(600, "the pod runs", async || scene.running().await == 1).await;
    let both = |group: &mut Value| {
        if !optimization.is_null() {
            group["spec"]["costOptimization"] = optimization.clone();
        }
    };
    scene.apply(group("workers", both)).await;
}

async fn types(berthed: &Berthed) -> BTreeMap<String, usize> {
    by_label(berthed, "node.kubernetes.io/instance-type").await
}

#[test]
fn dear_nodes_are_replaced_if_the_group_wants_that() {
    let wanted = json!({ "minMonthlySavings": 10 });
    let cases = [
        (Value::Null, "big"),
        (json!({ "enabled": false }), "big"),
        (wanted, "small"),
        (json!({ "minMonthlySavings": 110 }), "big"),
        (json!({ "minMonthlySavings": 110, "strategy": "aggressive" }), "small"),
        (json!({ "minMonthlySavings": 30, "strategy": "conservative" }), "big"),
    ];
    for (optimization, expected) in cases {
        played("{}", async |berthed| {
            left_on_a_big_node(berthed, &optimization).await;
            sleep(Duration::from_hours(1)).await;
            assert_eq!(types(berthed).await, counts(&[(expected, 1)]), "{optimization}");
            assert_eq!(berthed.scene.running().await, 1);
            let told = berthed.counted();
            let of_group = r#"nodegroup="workers",namespace="kube-system""#;
            for line in [
                format!(
                    r#"rebalancer_operations_total{{{of_group},operation="replace",result="started"}} 1"#
                ),
                format!(
                    r#"rebalancer_operations_total{{{of_group},operation="replace",result="success"}} 1"#
                ),
                format!(r#"rebalancer_nodes_replaced_total{{{of_group},strategy="rolling"}} 1"#),
                // Of 0.20 an hour 0.05 are left, and a month has 730 hours.
                format!("rebalancer_cost_savings_total{{{of_group}}} 109.5"),
                format!("node_drain_pods_evicted_sum{{{of_group}}} 1.0"),
            ] {
                let is_told = told.contains(&format!("vpsie_autoscaler_{line}"));
                assert_eq!(is_told, expected == "small", "{line}\n{told}");
            }
        });
    }
}

#[test]
fn replacements_wait_for_approval() {
    played("{}", async |berthed| {
        let scene = &berthed.scene;
        left_on_a_big_node(berthed, &json!({ "requireApproval": true })).await;
        let proposed = async || {
            let group = scene.get(&format!("{GROUPS}/workers")).await;
            condition(&group, "OptimizationProposed") == Some(("True", "AwaitingApproval"))
        };
        scene.until(1200, "it is proposed", proposed).await;
        sleep(Duration::from_mins(20)).await;
        assert_eq!(types(berthed).await, counts(&[("big", 1)]), "nobody has agreed");
        let group_now = scene.get(&format!("{GROUPS}/workers")).await;
        let conditions = group_now["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let said = conditions.iter().find(|c| c["type"] == "OptimizationProposed").expect("it is there");
        let id = text(&said["message"]).rsplit(' ').next().unwrap_or_default().to_owned();
        let approved = |group: &mut Value| {
            group["spec"]["costOptimization"] = json!({ "requireApproval": true });
            group["metadata"]["annotations"] = json!({ "autoscaler.vpsie.com/approve-optimization": id });
        };
        scene.apply(group("workers", approved)).await;
        scene.until(1200, "it is replaced", async || types(berthed).await == counts(&[("small", 1)])).await;
    });
}

/// Two CPUs of which one pod uses nearly all: measured, not asked for.
#[test]
fn a_group_that_uses_much_has_a_node_to_spare() {
    let busy = |uses: &str| {
        let mut workload = workload(1);
        workload["spec"]["template"]["metadata"]["annotations"] = json!({ "berth.dev/usage": uses });
        workload
    };
    let cases = [
        ("cpu=1900m,memory=64Mi", json!({}), 2),
        ("cpu=10m,memory=3900Mi", json!({}), 2),
        ("cpu=1000m,memory=64Mi", json!({}), 1),
        ("cpu=1000m,memory=64Mi", json!({ "cpuThreshold": 45 }), 2),
        ("cpu=1900m,memory=64Mi", json!({ "cpuThreshold": 100 }), 1),
    ];
    for (uses, policy, expected) in cases {
        played("{}", async |berthed| {
            let scene = &berthed.scene;
            scene.apply(small(|group| group["spec"]["scaleUpPolicy"] = policy.clone())).await;
            scene.apply(busy(uses)).await;
            scene.until(600, "the pod runs", async || scene.running().await == 1).await;
            sleep(Duration::from_mins(10)).await;
            assert_eq!(scene.machines(), expected, "{uses} with {policy}");
            sleep(Duration::from_mins(40)).await;
            assert_eq!(scene.machines(), expected, "and it stays so: {uses} with {policy}");
            if expected == 2 {
                scene.apply(busy("cpu=10m,memory=64Mi")).await;
                scene.until(3600, "one is enough", async || scene.machines() == 1).await;
            }
        });
    }
}

/// A budget keeps the pod on a spot machine that is taken back ten minutes from its notice. It need not wait for that.
#[test]
fn pods_leave_an_interrupted_node_within_the_grace_of_its_group() {
    let weather = r#"{"reclaims": [{"atMs": 600000, "noticeMs": 600000, "machinesMax": 1}]}"#;
    for (grace, is_gone) in [("60s", true), ("1h", false)] {
        played(weather, async |berthed| {
            let scene = &berthed.scene;
            let spot = json!({ "enabled": true, "maxSpotPercentage": 100, "interruptionGracePeriod": grace });
            scene.apply(small(|group| group["spec"]["spotConfig"] = spot)).await;
            scene
                .apply(json!({
                    "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                    "metadata": { "name": "web", "namespace": "default" },
                    "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "web" } } },
                }))
                .await;
            scene.apply(workload(1)).await;
            scene.until(500, "the pod runs", async || scene.running().await == 1).await;
            let first = scene.machine_names();
            let told = async || {
                scene.events("workers").await.iter().any(|said| said.contains("takes its machine away"))
            };
            scene.until(600, "the notice is heard", told).await;
            sleep(Duration::from_secs(150)).await;
            let now = scene.machine_names();
            assert_eq!(now.iter().any(|name| first.contains(name)), !is_gone, "{grace}: {first:?}, {now:?}");
            scene.until(900, "the pod runs again", async || scene.running().await == 1).await;
        });
    }
}

/// It is nine when this begins, and the nodes are no longer needed soon after.
#[test]
fn a_group_shrinks_only_at_its_hours() {
    played("{}", async |berthed| {
        let scene = &berthed.scene;
        let at_noon = |group: &mut Value| {
            group["metadata"]["annotations"] =
                json!({ "autoscaler.vpsie.com/scale-down-allowed-hours": "12:00-14:00" });
        };
        scene.apply(small(at_noon)).await;
        scene.apply(workload(2)).await;
        scene.until(600, "both run", async || scene.running().await == 2).await;
        scene.apply(workload(0)).await;
        sleep(Duration::from_mins(160)).await;
        assert_eq!(scene.machines(), 2, "{}", scene.told().await);
        scene.until(3600, "both go", async || scene.machines() == 0).await;
    });
}
