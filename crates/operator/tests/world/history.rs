//! What went wrong in production with VPSie's own autoscaler, and what still does: each once, and not here.
//!
//! | commit | what went wrong | held by |
//! |---|---|---|
//! | 9242447, dc0700f | all nodes of a group were deleted; nodes that went counted as there | `nodes_go_one_by_one_and_never_below_the_minimum` |
//! | 8478b7a | restarted in a drain, it took a second node | `whoever_comes_after_goes_on_with_the_node_that_is_going` |
//! | b1fd0f6, 8b4c086, e5a9803 | machines were looked for by name, and went on costing | `machines_are_known_by_what_they_are_and_not_by_their_names` |
//! | 1d39ffd | a node whose machine was gone could not be deleted | `a_node_whose_machine_is_gone_goes_and_is_replaced` |
//! | d56a10a | five nodes for one pod | `one_pod_gets_one_node_however_long_that_takes` |
//! | f8e15c6 | one node at a time, each waited for | `nodes_that_are_needed_together_are_bought_together` |
//! | d1d9b8c | asked without end at its quota | `a_quota_is_not_run_against` |
//! | 1dca2e0 | every second status was lost | `statuses_are_not_lost` |
//! | 1dca2e0 | credentials were logged, and sent unescaped | `canary`; every test here, whose secret needs escaping |
//! | 12a2943 | the webhook's port, and a namespace that it refused | `tests/deploy`; `webhook::objects_are_judged_before_they_are_written` |
//! | 866196e | permissions were missing | `vpsie::nothing_is_allowed_for_vpsie_in_vain` |
//! | 2023bec | a version without its `v` | `what_cannot_be_right_is_refused_at_once` |
//! | c21c92d | anti-affinity was ignored | `pods_that_must_be_apart_are` |
//! | 86f697e | a Node was deleted, and its machine stayed | `a_node_that_somebody_deletes_takes_its_machine_along` |
//! | 6957b2c | nodes were added to the wrong group | `nodes_are_added_to_the_group_of_their_size` |
//!
//! | still so | | held by |
//! |---|---|---|
//! | 1 | a node that a check keeps was deleted | `checks::nodes_that_are_checked_stay_and_say_why`, and I19 of `tests/faults` |
//! | 2 | a drain that failed was followed by the deletion | `a_budget_keeps_a_node` |
//! | 3 | every replica scaled up | `only_who_leads_buys` |
//! | 4 | machines were claimed without a lock, and strangers' with them | `no_two_nodes_have_one_machine_nor_a_strangers` |
//! | 5 | labels and taints were never applied | `nodes_are_what_their_group_says_and_outlive_it_not` |
//! | 6 | a Node that vanished was still ready | `a_node_that_somebody_deletes_takes_its_machine_along` |
//! | 6 | the group's finalizer went before its nodes | `nodes_are_what_their_group_says_and_outlive_it_not` |
//! | 6 | without a host name no machine was deleted | `a_machine_that_never_joins_is_ended` |
//! | 6 | not found counted as deleted | `berth-world`'s `vpsie::launches` |
//! | 7 | nodes that failed counted as current | `vpsie::a_node_that_never_comes_up_fails_and_makes_room` |
//! | 7 | pods were counted in several groups | `a_pod_that_suits_two_groups_gets_one_node` |
//! | 7 | probes and replicas used up the calls | `at_rest_little_is_asked` |
//! | 7 | drains held up everything else | `a_drain_that_waits_holds_up_nothing` |
//! | 8 | examples and charts that nothing reads | `tests/deploy` |

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::Body;
use berth_cloud::Cloud;
use berth_cloud::vpsie::Family;
use berth_operator::health_router;
use berth_world::cloud::weather::Weather;
use berth_world::vpsie::{Deed, Faults};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::sleep;
use tower_service::Service;

use crate::account::{GROUPS, NODES, SECRET, group};
use crate::awaited;
use crate::scene::{condition, text};
use crate::vpsie::{Berthed, workload};

/// Plays a script in this weather, on all families of paths.
pub(crate) fn played(weather: &str, script: &impl AsyncFn(&Berthed)) {
    for family in Family::ALL {
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

/// Pods of which no two have room on one small node.
fn large(replicas: u32) -> Value {
    let mut workload = workload(replicas);
    let container = &mut workload["spec"]["template"]["spec"]["containers"][0];
    container["resources"]["requests"]["cpu"] = json!("1500m");
    workload
}

/// A group with only small nodes.
fn small(group: &mut Value) {
    group["spec"]["offeringIDs"] = json!(["small"]);
}

/// A group with nodes on which all of these run.
async fn up(berthed: &Berthed, change: impl FnOnce(&mut Value), workload: Value) {
    let scene = &berthed.scene;
    let replicas = workload["spec"]["replicas"].as_u64();
    scene.apply(group("workers", change)).await;
    scene.apply(workload).await;
    scene.until(900, "all run", async || Some(scene.running().await as u64) == replicas).await;
}

/// None of the workload's pods may leave.
fn budget() -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": { "name": "web", "namespace": "default" },
        "spec": { "maxUnavailable": 0, "selector": { "matchLabels": { "app": "web" } } },
    })
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
        let two = |group: &mut Value| {
            small(group);
            group["spec"]["minNodes"] = json!(2);
        };
        up(berthed, two, workload(6)).await;
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
            up(&berthed, small, workload(6)).await;
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
        up(berthed, |_| {}, workload(1)).await;
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
        let group = berthed.group("workers").await;
        assert_eq!(condition(&group, "Error"), Some(("True", "CapacityLimitReached")), "{group}");
        assert!(berthed.vpsie.most_calls_in_a_minute() <= 100);
    });
}

/// 86f697e: a Node was deleted, and the machine behind it went on costing. Still so: it was taken to be ready.
#[test]
fn a_node_that_somebody_deletes_takes_its_machine_along() {
    played("{}", &async |berthed: &Berthed| {
        let scene = &berthed.scene;
        up(berthed, |_| {}, workload(1)).await;
        let (machines, nodes) = (scene.machine_names(), scene.nodes().await);
        let node = text(&nodes[0]["metadata"]["name"]);
        scene.delete(&format!("/api/v1/nodes/{node}")).await;
        // The pod is still wanted, so nothing but the missing Node speaks against its machine.
        let is_replaced = async || {
            let (left, phases) = (scene.machine_names(), berthed.phases().await);
            !left.iter().any(|machine| machines.contains(machine)) && phases == ["Ready"]
        };
        scene.until(900, "its machine is ended, and another node is there", is_replaced).await;
        scene.until(60, "the pod runs there", async || scene.running().await == 1).await;
        assert_eq!((machines.len(), scene.machines()), (1, 1));
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
        scene.apply(group("workers", small)).await;
        scene.apply(budget()).await;
        scene.apply(workload(2)).await;
        scene.until(600, "both run", async || scene.running().await == 2).await;
        let machines = scene.machine_names();
        let nodes = berthed.nodes().await;
        let node = text(&nodes[0]["metadata"]["name"]);
        // Somebody deletes it by hand: it waits for its pods all the same.
        scene.delete(&format!("{NODES}/{node}")).await;
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
        up(berthed, |_| {}, workload(1)).await;
        scene.delete(&format!("{GROUPS}/workers")).await;
        scene.until(600, "the group is gone", async || scene.list(GROUPS).await.is_empty()).await;
        assert_eq!((scene.machines(), berthed.nodes().await.len()), (0, 0));
    });
}

/// The names of machines that claims have.
fn machines_of(nodes: &[Value]) -> Vec<String> {
    let mut machines: Vec<String> =
        nodes.iter().map(|node| text(&node["spec"]["vpsieNodeIdentifier"]).to_owned()).collect();
    machines.sort();
    machines
}

/// b1fd0f6, 8b4c086, e5a9803: machines were looked for by their host names, in one case or the other.
#[test]
fn machines_are_known_by_what_they_are_and_not_by_their_names() {
    let strangers = ["workers-1", "WORKERS-1", "c-1-vpsie-1"].map(
        |name| json!({ "name": name, "instanceType": "small", "zone": "dc-1", "capacityType": "on-demand" }),
    );
    played(&json!({ "strangers": strangers }).to_string(), &async |berthed: &Berthed| {
        let scene = &berthed.scene;
        let strangers = scene.machine_names();
        assert_eq!(strangers.len(), 3);
        up(berthed, small, large(2)).await;
        let owned = machines_of(&berthed.nodes().await);
        assert!(owned.len() == 2 && !owned.iter().any(|machine| strangers.contains(machine)), "{owned:?}");
        scene.apply(large(0)).await;
        scene.until(1800, "their nodes are gone", async || berthed.nodes().await.is_empty()).await;
        assert_eq!(scene.machine_names(), strangers);
    });
}

/// f8e15c6: so as not to buy five nodes for one pod, it bought one at a time and waited until it was ready.
#[test]
fn nodes_that_are_needed_together_are_bought_together() {
    let slow = r#"{"times": {"launch": {"leastMs": 240000, "mostMs": 240000}}}"#;
    played(slow, &async |berthed: &Berthed| {
        let scene = &berthed.scene;
        scene.apply(group("workers", small)).await;
        scene.apply(large(5)).await;
        scene.until(60, "five are asked for", async || berthed.vpsie.calls(Deed::Create) == 5).await;
        scene.until(900, "all run", async || scene.running().await == 5).await;
        assert_eq!((scene.machines(), berthed.vpsie.calls(Deed::Create)), (5, 5));
    });
}

/// 1dca2e0: what had changed was left out of the patch that should have said so.
#[test]
fn statuses_are_not_lost() {
    played("{}", &async |berthed: &Berthed| {
        let scene = &berthed.scene;
        scene.apply(group("workers", small)).await;
        for replicas in [1, 3, 4] {
            scene.apply(large(replicas)).await;
            scene
                .until(600, "the group says what there is", async || {
                    let status = scene.get(&format!("{GROUPS}/workers")).await["status"].clone();
                    let fields = ["currentNodes", "desiredNodes", "readyNodes"];
                    let phases = berthed.nodes().await;
                    let are_ready = phases.iter().all(|node| {
                        node["status"]["phase"] == "Ready" && !node["status"]["readyAt"].is_null()
                    });
                    fields.iter().all(|field| status[*field] == replicas)
                        && status["nodes"].as_array().is_some_and(|nodes| nodes.len() == phases.len())
                        && are_ready
                })
                .await;
        }
    });
}

/// 6957b2c: nodes were added through a path that knows no groups. There is one group for each size.
#[test]
fn nodes_are_added_to_the_group_of_their_size() {
    awaited(async {
        let berthed = Berthed::new(Family::Managed, Weather::default(), Faults::default()).await;
        berthed.sign(SECRET).await;
        let scene = &berthed.scene;
        let script = async {
            for size in ["big", "small"] {
                scene.apply(group(size, |group| group["spec"]["offeringIDs"] = json!([size]))).await;
                let mut pods = large(2);
                pods["metadata"]["name"] = json!(size);
                pods["spec"]["template"]["spec"]["nodeSelector"] =
                    json!({ "node.kubernetes.io/instance-type": size });
                scene.apply(pods).await;
            }
            scene.until(900, "all run", async || scene.running().await == 4).await;
            // Two such pods have room on a big node, and on none that is small.
            assert_eq!(berthed.vpsie.nodes_by_size(), BTreeMap::from([(1, 1), (2, 2)]));
            let sizes: BTreeMap<String, String> = scene.cloud.inspect(|account| {
                let machines = account.records().iter().map(|record| &record.machine);
                machines.map(|machine| (machine.id.to_string(), machine.instance_type.to_string())).collect()
            });
            for node in berthed.nodes().await {
                let id = text(&node["spec"]["vpsieNodeIdentifier"]);
                assert_eq!(
                    sizes.get(id).map(String::as_str),
                    node["spec"]["instanceType"].as_str(),
                    "{node}"
                );
                assert_eq!(node["spec"]["nodeGroupName"], node["spec"]["instanceType"], "{node}");
            }
        };
        scene.play_with(berthed.operator(), script).await;
    });
}

/// Still so: scale-up began on every replica, whoever led.
#[test]
fn only_who_leads_buys() {
    awaited(async {
        let berthed = Berthed::new(Family::Managed, Weather::default(), Faults::default()).await;
        berthed.sign(SECRET).await;
        let scene = &berthed.scene;
        scene.world.begin_audit();
        let follower = berthed.operator_as("berth-2", watch::channel(None).1);
        let script = async {
            up(&berthed, |_| {}, workload(1)).await;
            sleep(Duration::from_mins(10)).await;
            assert_eq!((berthed.vpsie.calls(Deed::Create), scene.machines()), (1, 1));
            let asked = scene.world.take_asked();
            let wrote: Vec<_> = asked.iter().filter(|a| a.client == "berth-2" && a.is_write()).collect();
            assert!(asked.iter().any(|asked| asked.client == "berth-2"), "it looks all the same");
            assert!(wrote.is_empty(), "{wrote:?}");
        };
        let script = async {
            tokio::select! { biased; () = follower.run() => {}, () = script => {} }
        };
        Box::pin(scene.play_with(berthed.operator(), script)).await;
    });
}

/// Still so: any node that was young enough was taken for one's own, by several at once.
#[test]
fn no_two_nodes_have_one_machine_nor_a_strangers() {
    let late = r#"{"times": {"appear": {"leastMs": 1000, "mostMs": 90000}}}"#;
    played(late, &async |berthed: &Berthed| {
        let scene = &berthed.scene;
        let young = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": { "name": "young", "labels": { "team": "quay" } },
            "spec": { "providerID": "vpsie://dc-1/c-1/somebody-elses", "unschedulable": true },
        });
        scene.apply(young).await;
        scene.apply(group("workers", small)).await;
        scene.apply(large(4)).await;
        scene
            .until(1200, "four nodes are ready", async || {
                let nodes = berthed.nodes().await;
                nodes.len() == 4 && nodes.iter().all(|node| node["status"]["phase"] == "Ready")
            })
            .await;
        let mut owned = machines_of(&berthed.nodes().await);
        let mut bought = scene.machine_names();
        bought.sort();
        owned.dedup();
        assert_eq!(owned, bought);
        let young = scene.get("/api/v1/nodes/young").await;
        assert!(young["metadata"]["ownerReferences"].is_null() && young["metadata"]["finalizers"].is_null());
    });
}

/// Still so: a machine that had never joined had no host name, and was not deleted.
#[test]
fn a_machine_that_never_joins_is_ended() {
    played(r#"{"joins": {"never": {"nth": [1]}}}"#, &async |berthed: &Berthed| {
        let scene = &berthed.scene;
        scene.apply(group("workers", |_| {})).await;
        scene.apply(workload(1)).await;
        scene.until(1800, "the pod runs on another", async || scene.running().await == 1).await;
        scene.until(300, "the first is ended", async || scene.machines() == 1).await;
        assert_eq!(berthed.vpsie.calls(Deed::Create), 2);
    });
}

/// Still so: a pod that suited two groups had a node bought in each.
#[test]
fn a_pod_that_suits_two_groups_gets_one_node() {
    played("{}", &async |berthed: &Berthed| {
        let scene = &berthed.scene;
        for name in ["bow", "stern"] {
            scene.apply(group(name, small)).await;
        }
        scene.apply(workload(1)).await;
        scene.until(300, "the pod runs", async || scene.running().await == 1).await;
        always(10, async || assert!(berthed.nodes().await.len() <= 1)).await;
        assert_eq!(berthed.vpsie.calls(Deed::Create), 1);
    });
}

/// Still so: each replica's probes alone asked for all machines, six times a minute.
#[test]
fn at_rest_little_is_asked() {
    for family in Family::ALL {
        awaited(async {
            let berthed = Berthed::new(family, Weather::default(), Faults::default()).await;
            berthed.sign(SECRET).await;
            let follower = berthed.operator_as("berth-2", watch::channel(None).1);
            let leader = berthed.operator();
            let probes = [&leader, &follower].map(|replica| health_router(replica.reports(), None));
            let asked = || Deed::ALL.iter().map(|deed| berthed.vpsie.calls(*deed)).sum::<u64>();
            let script = async {
                up(&berthed, |_| {}, workload(1)).await;
                sleep(Duration::from_mins(5)).await;
                let before = asked();
                // As often as kubelets ask.
                for _ in 0..60 {
                    for router in &probes {
                        for path in ["/healthz", "/readyz"] {
                            let request = http::Request::get(path).body(Body::empty()).expect("a request");
                            let Ok(answer) = router.clone().call(request).await;
                            assert_eq!(answer.status(), 200, "{path}");
                        }
                    }
                    sleep(Duration::from_secs(10)).await;
                }
                let a_minute = (asked() - before) / 10;
                assert!(a_minute <= 20, "{a_minute} calls a minute, of a hundred ({family:?})");
            };
            let both = async {
                tokio::select! { biased; () = follower.run() => {}, () = script => {} }
            };
            Box::pin(berthed.scene.play_with(leader, both)).await;
        });
    }
}

/// Still so: a drain that waited held up the nodes that others waited for.
#[test]
fn a_drain_that_waits_holds_up_nothing() {
    played("{}", &async |berthed: &Berthed| {
        let scene = &berthed.scene;
        scene.apply(group("workers", small)).await;
        scene.apply(budget()).await;
        scene.apply(large(2)).await;
        scene.until(600, "both run", async || scene.running().await == 2).await;
        let nodes = berthed.nodes().await;
        scene.delete(&format!("{NODES}/{}", text(&nodes[0]["metadata"]["name"]))).await;
        sleep(Duration::from_mins(1)).await;
        scene.apply(large(4)).await;
        scene.until(300, "two more run", async || scene.running().await == 4).await;
        assert_eq!(going(berthed).await, 1, "and the first still waits");
    });
}
