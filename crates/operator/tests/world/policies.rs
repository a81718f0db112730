//! What a NodeGroup may say beyond how many nodes it has.

mod replacing;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use berth_cloud::vpsie::Family;
use berth_world::cloud::weather::Weather;
use berth_world::vpsie::{Deed, Faults};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::account::{SECRET, group, suited};
use crate::awaited;
use crate::scene::{condition, deployment, text};
use crate::vpsie::{Berthed, config, workload};

/// In two datacenters, and in the first as spot too.
const OFFERS: &str = r#"[
    {"id": "1", "name": "big", "cpu": 8, "ram": 16384, "disk": 160, "hourly_price": 0.2, "datacenter_id": "dc-1"},
    {"id": "2", "name": "small", "cpu": 2, "ram": 4096, "disk": 80, "hourly_price": 0.05, "datacenter_id": "dc-1"},
    {"id": "3", "name": "small", "cpu": 2, "ram": 4096, "disk": 80, "hourly_price": 0.06, "datacenter_id": "dc-2"},
    {"id": "4", "name": "small", "cpu": 2, "ram": 4096, "disk": 80, "hourly_price": 0.02, "datacenter_id": "dc-1",
     "spot": true, "interruption_rate": 5}]"#;

fn played(weather: &str, script: impl AsyncFnOnce(&Berthed)) {
    played_on(Family::Servers, weather, script);
}

fn played_on(family: Family, weather: &str, script: impl AsyncFnOnce(&Berthed)) {
    awaited(async {
        let weather: Weather = serde_json::from_str(weather).expect("weather");
        let berthed = Berthed::selling(OFFERS, family, weather, Faults::default()).await;
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

/// A managed cluster is in one datacenter: what is to be elsewhere is bought there, and the group says so.
#[test]
fn a_managed_cluster_is_filled_where_it_is() {
    for strategy in ["balanced", "primary-backup"] {
        played_on(Family::Managed, "{}", async |berthed| {
            let scene = &berthed.scene;
            let regions = json!({ "enabled": true, "datacenterIDs": ["dc-1", "dc-2"], "primaryDatacenter": "dc-2",
                "distributionStrategy": strategy });
            scene.apply(small(|group| group["spec"]["multiRegion"] = regions)).await;
            scene.apply(workload(4)).await;
            scene.until(1200, "all run", async || scene.running().await == 4).await;
            assert_eq!(by_label(berthed, ZONE).await, counts(&[("dc-1", 4)]));
            sleep(Duration::from_mins(10)).await;
            let group = berthed.group("workers").await;
            assert_eq!(condition(&group, "Error"), Some(("True", "ValidationFailed")), "{group}");
            assert!(group["status"]["conditions"].to_string().contains("nothing in `dc-2`"), "{group}");
            let asked_before = berthed.vpsie.calls(Deed::AddGroup);
            sleep(Duration::from_hours(2)).await;
            assert_eq!(berthed.vpsie.calls(Deed::AddGroup), asked_before, "it is not tried for ever");
            assert_eq!((berthed.phases().await, scene.machines()), (vec!["Ready".to_owned(); 4], 4));
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

/// A pod that asks for one CPU and uses so much.
fn using(uses: &str) -> Value {
    let mut workload = workload(1);
    workload["spec"]["template"]["metadata"]["annotations"] = json!({ "berth.dev/usage": uses });
    workload
}

async fn types(berthed: &Berthed) -> BTreeMap<String, usize> {
    by_label(berthed, "node.kubernetes.io/instance-type").await
}

/// Two CPUs of which one pod uses nearly all: measured, not asked for.
#[test]
fn a_group_that_uses_much_has_a_node_to_spare() {
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
            scene.apply(using(uses)).await;
            scene.until(600, "the pod runs", async || scene.running().await == 1).await;
            sleep(Duration::from_mins(10)).await;
            assert_eq!(scene.machines(), expected, "{uses} with {policy}");
            for node in berthed.nodes().await {
                let reason = &node["metadata"]["annotations"]["autoscaler.vpsie.com/creation-reason"];
                assert_eq!(reason, "metrics", "{uses} with {policy}");
            }
            sleep(Duration::from_mins(40)).await;
            assert_eq!(scene.machines(), expected, "and it stays so: {uses} with {policy}");
            if expected == 2 {
                scene.apply(using("cpu=10m,memory=64Mi")).await;
                scene.until(3600, "one is enough", async || scene.machines() == 1).await;
            }
        });
    }
}

/// Two nodes of each group, whose pods ask for a twentieth of them and use three tenths: that is more than one group thinks
/// is worth a node, and less than the other does.
#[test]
fn groups_shrink_by_what_their_nodes_use() {
    played("{}", async |berthed| {
        let scene = &berthed.scene;
        scene
            .apply(config("default", &json!({ "maxClusterWorkers": 0, "scaleDownCooldownSeconds": 0 })))
            .await;
        let pods = |group: &str, name: &str, (replicas, cpu): (u32, &str), uses: &str| {
            let mut pods = suited(deployment(&format!("{name}-{group}"), replicas, cpu));
            let labels = pods["spec"]["selector"]["matchLabels"].clone();
            let template = &mut pods["spec"]["template"];
            template["metadata"]["annotations"] = json!({ "berth.dev/usage": uses });
            template["spec"]["nodeSelector"]["only"] = json!(group);
            template["spec"]["topologySpreadConstraints"] = json!([{
                "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": { "matchLabels": labels },
            }]);
            pods
        };
        let much = "cpu=600m,memory=64Mi";
        for (name, threshold) in [("strict", 20), ("easy", 40)] {
            let own = |group: &mut Value| {
                group["spec"]["offeringIDs"] = json!(["small"]);
                group["spec"]["labels"]["only"] = json!(name);
                group["spec"]["scaleDownPolicy"]["cpuThreshold"] = json!(threshold);
            };
            scene.apply(group(name, own)).await;
            scene.apply(pods(name, "filler", (2, "1200m"), "cpu=10m,memory=64Mi")).await;
            scene.apply(pods(name, "web", (2, "100m"), much)).await;
        }
        scene.until(900, "all run", async || scene.running().await == 8).await;
        assert_eq!(by_label(berthed, "only").await, counts(&[("easy", 2), ("strict", 2)]));
        for name in ["strict", "easy"] {
            scene.apply(pods(name, "filler", (0, "1200m"), much)).await;
        }
        let shrunk = counts(&[("easy", 1), ("strict", 2)]);
        scene.until(3600, "one shrinks", async || by_label(berthed, "only").await == shrunk).await;
        sleep(Duration::from_mins(40)).await;
        assert_eq!(by_label(berthed, "only").await, shrunk, "and the other does not: {}", scene.told().await);
        scene.apply(pods("strict", "web", (2, "100m"), "cpu=200m,memory=64Mi")).await;
        let shrunk = counts(&[("easy", 1), ("strict", 1)]);
        scene.until(3600, "so does the other", async || by_label(berthed, "only").await == shrunk).await;
    });
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

#[test]
fn a_group_buys_what_it_says() {
    type Change = fn(&mut Value);
    let cases: [(&str, Change, (&str, &str)); 6] = [
        ("the cheapest", |_| {}, ("small", "on-demand")),
        ("what it prefers", |spec| spec["preferredInstanceType"] = json!("big"), ("big", "on-demand")),
        (
            "the first, where types must not be mixed",
            |spec| spec["allowMixedInstances"] = json!(false),
            ("big", "on-demand"),
        ),
        (
            "what it prefers, where types must not be mixed",
            |spec| {
                spec["allowMixedInstances"] = json!(false);
                spec["preferredInstanceType"] = json!("small");
            },
            ("small", "on-demand"),
        ),
        (
            "spot that is taken back as often as it allows",
            |spec| {
                spec["spotConfig"] =
                    json!({ "enabled": true, "maxSpotPercentage": 100, "allowedInterruptionRate": 5 });
            },
            ("small", "spot"),
        ),
        (
            "no spot that is taken back more often",
            |spec| {
                spec["spotConfig"] =
                    json!({ "enabled": true, "maxSpotPercentage": 100, "allowedInterruptionRate": 4 });
            },
            ("small", "on-demand"),
        ),
    ];
    for (name, change, (instance_type, capacity_type)) in cases {
        played("{}", async |berthed| {
            let scene = &berthed.scene;
            scene.apply(group("workers", |group| change(&mut group["spec"]))).await;
            scene.apply(workload(1)).await;
            scene.until(600, name, async || scene.running().await == 1).await;
            assert_eq!(types(berthed).await, counts(&[(instance_type, 1)]), "{name}");
            assert_eq!(by_label(berthed, CAPACITY_TYPE).await, counts(&[(capacity_type, 1)]), "{name}");
        });
    }
}

/// Two groups need nodes in the same moment, and one may grow at a time.
#[test]
fn groups_grow_one_after_the_other() {
    for (growing_max, expected) in [(1, 1), (2, 2)] {
        played("{}", async |berthed| {
            let scene = &berthed.scene;
            let settings = json!({ "maxConcurrentScaleUps": growing_max, "maxClusterWorkers": 0 });
            scene.apply(config("default", &settings)).await;
            for name in ["one", "two"] {
                scene
                    .apply(group(name, |group| {
                        group["spec"]["offeringIDs"] = json!(["small"]);
                        group["spec"]["labels"]["only"] = json!(name);
                    }))
                    .await;
                let mut pods = workload(2);
                pods["metadata"]["name"] = json!(name);
                pods["spec"]["template"]["spec"]["nodeSelector"]["only"] = json!(name);
                scene.apply(pods).await;
            }
            let mut most = 0;
            for _ in 0..900 {
                let coming = |node: &&Value| !["Ready", "Failed"].contains(&text(&node["status"]["phase"]));
                let nodes = berthed.nodes().await;
                let groups = nodes.iter().filter(coming).map(|node| text(&node["spec"]["nodeGroupName"]));
                most = most.max(groups.collect::<BTreeSet<_>>().len());
                sleep(Duration::from_secs(1)).await;
            }
            assert_eq!((most, scene.running().await), (expected, 4), "{}", scene.told().await);
        });
    }
}

/// Two groups, and fewer nodes for both together than their pods need.
#[test]
fn all_groups_together_have_no_more_nodes_than_the_cluster_may() {
    played("{}", async |berthed| {
        let scene = &berthed.scene;
        scene.apply(config("default", &json!({ "maxClusterWorkers": 3 }))).await;
        for name in ["one", "two"] {
            scene.apply(group(name, |group| group["spec"]["offeringIDs"] = json!(["small"]))).await;
        }
        scene.apply(workload(6)).await;
        for _ in 0..900 {
            assert!(scene.machines() <= 3, "{}", scene.told().await);
            sleep(Duration::from_secs(1)).await;
        }
        assert_eq!((scene.machines(), scene.running().await), (3, 3));
        let said = scene.events("web").await.join("\n");
        assert!(said.contains("NodeLimit"), "{said}");
    });
}

/// A pod that no group can hold waits for ever; others have to wait for as long as it is said, each by itself.
#[test]
fn each_pod_waits_for_as_long_as_groups_want() {
    played("{}", async |berthed| {
        let scene = &berthed.scene;
        scene.apply(config("default", &json!({ "unschedulablePodGracePeriodSeconds": 40 }))).await;
        scene.apply(small(|_| {})).await;
        let mut hopeless = workload(1);
        hopeless["metadata"]["name"] = json!("hopeless");
        hopeless["spec"]["template"]["spec"]["nodeSelector"]["nobody"] = json!("has-this");
        scene.apply(hopeless).await;
        sleep(Duration::from_mins(5)).await;
        scene.apply(workload(1)).await;
        for _ in 0..38 {
            assert_eq!(berthed.nodes().await.len(), 0, "it has not waited");
            sleep(Duration::from_secs(1)).await;
        }
        scene.until(15, "a node is bought", async || berthed.nodes().await.len() == 1).await;
        scene.until(600, "the pod runs", async || scene.running().await == 1).await;
    });
}

/// Nobody asks for nodes: a group has those that it must have, and says at which of its bounds it is.
#[test]
fn a_group_has_the_nodes_that_it_must_have() {
    type Change = fn(&mut Value);
    let cases: [(&str, Change, usize, (&str, &str)); 5] = [
        ("none", |_| {}, 0, ("True", "False")),
        ("by its spec", |group| group["spec"]["minNodes"] = json!(2), 2, ("True", "False")),
        (
            "no more than it may",
            |group| (group["spec"]["minNodes"], group["spec"]["maxNodes"]) = (json!(1), json!(1)),
            1,
            ("True", "True"),
        ),
        (
            "by its annotation",
            |group| {
                group["metadata"]["annotations"] = json!({ "autoscaler.vpsie.com/min-nodes-override": "2" });
            },
            2,
            ("True", "False"),
        ),
        (
            "although it does not grow",
            |group| {
                group["spec"]["minNodes"] = json!(2);
                group["spec"]["scaleUpPolicy"] = json!({ "enabled": false });
            },
            2,
            ("True", "False"),
        ),
    ];
    for (what, change, expected, (at_min, at_max)) in cases {
        played("{}", async |berthed| {
            let scene = &berthed.scene;
            scene.apply(small(change)).await;
            scene.until(600, what, async || berthed.phases().await == vec!["Ready"; expected]).await;
            sleep(Duration::from_mins(30)).await;
            assert_eq!(scene.machines(), expected, "{what}: and it stays so");
            let group = berthed.group("workers").await;
            let is = |kind: &str| condition(&group, kind).map(|(status, _)| status.to_owned());
            assert_eq!(is("AtMinCapacity").as_deref(), Some(at_min), "{what}");
            assert_eq!(is("AtMaxCapacity").as_deref(), Some(at_max), "{what}");
            for node in berthed.nodes().await {
                let reason = &node["metadata"]["annotations"]["autoscaler.vpsie.com/creation-reason"];
                assert_eq!(reason, "initial", "{what}");
            }
        });
    }
}

/// What nodes use is not told, from the beginning: what pods ask for counts after a while.
#[test]
fn groups_shrink_where_nobody_may_ask_what_nodes_use() {
    played("{}", async |berthed| {
        let scene = &berthed.scene;
        let forbidden = "berth before list nodes.metrics.k8s.io #1x100000: status 403";
        scene.world.plan_faults(forbidden.parse().expect("a plan"));
        scene.apply(small(|_| {})).await;
        scene.apply(workload(2)).await;
        scene.until(600, "both run", async || scene.running().await == 2).await;
        scene.apply(workload(0)).await;
        scene.until(1800, "they go", async || scene.machines() == 0).await;
    });
}
