//! When cheaper nodes replace dear ones, and how many at once.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use super::{counts, played, small, types, using};
use crate::account::{GROUPS, group};
use crate::scene::{condition, keep_apart, text};
use crate::vpsie::{Berthed, config, workload};

/// A big node with one small pod left on it.
async fn left_on_a_big_node(berthed: &Berthed, optimization: &Value) {
    left_busy_on_a_big_node(berthed, "cpu=100m,memory=64Mi", |group| {
        if !optimization.is_null() {
            group["spec"]["costOptimization"] = optimization.clone();
        }
    })
    .await;
}

/// A big node with one pod left on it that uses so much, in a group that says more by now.
async fn left_busy_on_a_big_node(berthed: &Berthed, uses: &str, change: impl FnOnce(&mut Value)) {
    let scene = &berthed.scene;
    let only_big = |group: &mut Value| group["spec"]["offeringIDs"] = json!(["big"]);
    scene.apply(group("workers", only_big)).await;
    scene.apply(using(uses)).await;
    scene.until(600, "the pod runs", async || scene.running().await == 1).await;
    scene.apply(group("workers", change)).await;
}

#[test]
fn dear_nodes_are_replaced_if_the_group_wants_that() {
    let wanted = json!({ "minMonthlySavings": 10 });
    let cases = [
        (Value::Null, "big"),
        (json!({ "enabled": false }), "big"),
        (wanted, "small"),
        (json!({ "minMonthlySavings": 110 }), "big"),
        (json!({ "minMonthlySavings": 110, "strategy": "aggressive" }), "big"),
        (json!({ "minMonthlySavings": 30, "strategy": "conservative" }), "small"),
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

/// Whether a node is replaced is for `costOptimization` to say, whether it goes for good for `scaleDownPolicy`. Of the big
/// node's eight CPUs one is an eighth; a small one has two.
#[test]
fn busy_nodes_are_replaced_as_the_group_says_and_go_as_it_says() {
    let (idle, busy, too_busy) = ("cpu=100m,memory=64Mi", "cpu=1500m,memory=64Mi", "cpu=3000m,memory=64Mi");
    let (on, off) = (json!({ "cpuThreshold": 15 }), json!({ "enabled": false }));
    let cases = [
        ("idle, by the policy alone", idle, &on, Value::Null, "big"),
        ("busy", busy, &on, json!({}), "small"),
        ("busy, and nobody wants that", busy, &on, Value::Null, "big"),
        ("busy, for too little", busy, &on, json!({ "minMonthlySavings": 110 }), "big"),
        ("too busy for a small one", too_busy, &on, json!({}), "big"),
        ("too busy, if that may be", too_busy, &on, json!({ "maxPerformanceImpact": 40 }), "small"),
        (
            "too busy, in a group that takes no risk",
            too_busy,
            &on,
            json!({ "maxPerformanceImpact": 40, "strategy": "conservative" }),
            "big",
        ),
        ("idle, in a group that does not shrink", idle, &off, json!({}), "small"),
        ("and which is not to be replaced", idle, &off, json!({ "enabled": false }), "big"),
    ];
    for (what, uses, policy, optimization, expected) in cases {
        played("{}", async |berthed| {
            let scene = &berthed.scene;
            let said = |group: &mut Value| {
                // What is used is no reason to grow here.
                group["spec"]["scaleUpPolicy"] = json!({ "cpuThreshold": 0, "memoryThreshold": 0 });
                for (field, value) in policy.as_object().into_iter().flatten() {
                    group["spec"]["scaleDownPolicy"][field] = value.clone();
                }
                if !optimization.is_null() {
                    group["spec"]["costOptimization"] = optimization.clone();
                }
            };
            left_busy_on_a_big_node(berthed, uses, said).await;
            sleep(Duration::from_hours(1)).await;
            assert_eq!(types(berthed).await, counts(&[(expected, 1)]), "{what}: {}", scene.told().await);
            assert_eq!(scene.running().await, 1, "{what}");
            let reasons: Vec<Value> = berthed
                .nodes()
                .await
                .iter()
                .map(|node| node["metadata"]["annotations"]["autoscaler.vpsie.com/creation-reason"].clone())
                .collect();
            let bought_for = if expected == "small" { "rebalance" } else { "metrics" };
            assert_eq!(reasons, [bought_for], "{what}");
            scene.apply(workload(0)).await;
            sleep(Duration::from_hours(1)).await;
            let left = usize::from(policy["enabled"] == false);
            assert_eq!(scene.machines(), left, "{what}: without pods");
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
        let proposal = text(&said["message"]);
        assert!(proposal.starts_with("downsize: "), "{proposal}");
        let id = proposal.rsplit(' ').next().unwrap_or_default().to_owned();
        let approved = |group: &mut Value| {
            group["spec"]["costOptimization"] = json!({ "requireApproval": true });
            group["metadata"]["annotations"] = json!({ "autoscaler.vpsie.com/approve-optimization": id });
        };
        scene.apply(group("workers", approved)).await;
        scene.until(1200, "it is replaced", async || types(berthed).await == counts(&[("small", 1)])).await;
    });
}

/// Four big nodes are to become four small ones: as many at once as the group's strategy says, whatever holds for groups
/// that shrink.
#[test]
fn nodes_are_replaced_one_by_one_by_twos_or_together() {
    let bounded = json!({ "maxConcurrentScaleDowns": 1, "enableRebalancing": true, "maxClusterWorkers": 0 });
    let cases = [
        ("rolling", None, 1),
        ("surge", None, 2),
        ("blue-green", None, 4),
        ("surge", Some(&bounded), 2),
        ("blue-green", Some(&bounded), 4),
    ];
    for (strategy, settings, at_once) in cases {
        played("{}", async |berthed| {
            let scene = &berthed.scene;
            if let Some(settings) = settings {
                scene.apply(config("default", settings)).await;
            }
            let change = |spec: &mut Value| spec["offeringIDs"] = json!(["big"]);
            scene.apply(group("workers", |group| change(&mut group["spec"]))).await;
            let mut pods = workload(4);
            keep_apart(&mut pods);
            scene.apply(pods).await;
            scene.until(600, "all run", async || scene.running().await == 4).await;
            let replaced = |group: &mut Value| {
                group["spec"]["costOptimization"] = json!({ "optimizationInterval": "1m" });
                group["metadata"]["annotations"] =
                    json!({ "autoscaler.vpsie.com/rebalance-strategy": strategy });
            };
            scene.apply(group("workers", replaced)).await;
            let mut most = 0;
            for _ in 0..7200 {
                let going = scene.nodes().await.iter().filter(|node| is_closed(node)).count();
                most = most.max(going);
                if types(berthed).await == counts(&[("small", 4)]) {
                    break;
                }
                sleep(Duration::from_secs(1)).await;
            }
            assert_eq!(types(berthed).await, counts(&[("small", 4)]), "{strategy}: {}", scene.told().await);
            assert_eq!((most, scene.running().await), (at_once, 4), "{strategy}");
            let told = berthed.counted();
            let line = format!(
                r#"rebalancer_nodes_replaced_total{{nodegroup="workers",namespace="kube-system",strategy="{strategy}"}} 4"#
            );
            assert!(told.contains(&line), "{told}");
        });
    }
}

/// Nodes that nobody needs go one by one, whatever the strategy for those that are replaced: VPSie's own autoscaler once
/// took away a whole group.
#[test]
fn a_strategy_takes_no_whole_group_away() {
    played("{}", async |berthed| {
        let scene = &berthed.scene;
        let strategy = |group: &mut Value| {
            group["metadata"]["annotations"] =
                json!({ "autoscaler.vpsie.com/rebalance-strategy": "blue-green" });
        };
        scene.apply(small(strategy)).await;
        scene.apply(workload(4)).await;
        scene.until(600, "all run", async || scene.running().await == 4).await;
        scene.apply(workload(0)).await;
        for _ in 0..7200 {
            let going = scene.nodes().await.iter().filter(|node| is_closed(node)).count();
            assert!(going <= 1, "{}", scene.told().await);
            if scene.machines() == 0 {
                return;
            }
            sleep(Duration::from_secs(1)).await;
        }
        panic!("they stay: {}", scene.told().await);
    });
}

fn is_closed(node: &Value) -> bool {
    let taints = node["spec"]["taints"].as_array().map_or(&[][..], Vec::as_slice);
    taints.iter().any(|taint| taint["key"] == "karpenter.sh/disrupted")
}
