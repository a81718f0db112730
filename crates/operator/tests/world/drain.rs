//! The life of VPSie's nodes by their group's settings and annotations: how they are found, when they fail, and what
//! becomes of one that cannot be emptied.

use std::time::Duration;

use berth_api::Timestamp;
use berth_cloud::vpsie::Family;
use berth_world::cloud::weather::Weather;
use berth_world::vpsie::{Deed, Faults};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::account::{NODES, SECRET, group};
use crate::history::played;
use crate::scene::{Scene, condition, text};
use crate::vpsie::{Berthed, CONFIGS, config, workload};

const START: &str = "autoscaler.vpsie.com/drain-start-time";
const LEDGER: &str = "berth.dev/ledger";
const STATUS: &str = "autoscaler.vpsie.com/drain-status";

fn annotation<'v>(object: &'v Value, key: &str) -> &'v str {
    text(&object["metadata"]["annotations"][key])
}

/// Two nodes with six pods each.
async fn two_full_nodes(scene: &Scene, change: impl FnOnce(&mut Value)) -> Value {
    scene
        .apply(group("workers", |group| {
            group["spec"]["offeringIDs"] = json!(["big"]);
            group["spec"]["scaleDownPolicy"]["cooldownSeconds"] = json!(600);
            change(group);
        }))
        .await;
    let mut many = workload(12);
    many["spec"]["template"]["spec"]["topologySpreadConstraints"] = json!([{
        "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": { "matchLabels": { "app": "web" } },
    }]);
    scene.apply(many.clone()).await;
    scene.until(900, "twelve run", async || scene.running().await == 12).await;
    assert_eq!(scene.machines(), 2);
    many
}

/// The node that is being emptied, or was.
async fn drained(scene: &Scene) -> Option<Value> {
    scene.nodes().await.into_iter().find(|node| !annotation(node, STATUS).is_empty())
}

/// Nobody objects when it is decided that a node goes, and then somebody does whom the operator does not hear.
async fn begin_in_vain(berthed: &Berthed, change: impl FnOnce(&mut Value)) {
    let scene = &berthed.scene;
    let unheard = "berth before event poddisruptionbudgets.policy #1x100: drop";
    scene.world.plan_faults(unheard.parse().expect("a fault"));
    let mut many = two_full_nodes(scene, change).await;
    many["spec"]["replicas"] = json!(4);
    scene.apply(many).await;
    while !annotation(&berthed.group("workers").await, LEDGER).contains("leaving") {
        sleep(Duration::from_millis(10)).await;
    }
    scene.guard().await;
    scene.until(60, "it is emptied", async || drained(scene).await.is_some()).await;
}

#[test]
fn a_node_that_cannot_be_emptied_stays() {
    type Change = fn(&mut Value);
    /// What it is, the group, the settings, the status and the result that are told, and after how many seconds.
    type Case<'a> = (&'a str, Change, Option<Value>, (&'a str, &'a str), u64);
    let annotated: Change = |group| {
        group["metadata"]["annotations"] = json!({ "autoscaler.vpsie.com/drain-timeout": "1m" });
    };
    let cases: [Case<'_>; 3] = [
        ("a pod is refused for too long", |_| (), None, ("failed", "error"), 120),
        (
            "as long as somebody says",
            |_| (),
            Some(json!({ "podEvictionTimeoutSeconds": 30, "scaleDownCooldownSeconds": 0 })),
            ("failed", "error"),
            30,
        ),
        ("it takes too long", annotated, None, ("timeout", "timeout"), 60),
    ];
    for (what, change, settings, (status, result), secs) in cases {
        played("{}", &async |berthed: &Berthed| {
            let scene = &berthed.scene;
            if let Some(settings) = settings.clone() {
                scene.apply(config("default", &settings)).await;
            }
            begin_in_vain(berthed, change).await;
            let node = drained(scene).await.expect("it is there");
            assert_eq!(annotation(&node, STATUS), "draining", "{what}");
            assert_eq!(node["spec"]["unschedulable"], true, "{what}");
            assert!(berthed.phases().await.contains(&"Terminating".to_owned()), "{what}");
            let is_going = |node: &Value| !node["metadata"]["deletionTimestamp"].is_null();
            assert!(!berthed.nodes().await.iter().any(is_going), "nothing is deleted yet");
            let began: Timestamp = annotation(&node, START).parse().expect("a time");
            scene
                .until(600, "it is given up", async || {
                    annotation(&drained(scene).await.unwrap_or_default(), STATUS) == status
                })
                .await;
            let now: Timestamp = scene.world.clock_of("test");
            let took = u64::try_from(now.duration_since(began).as_secs()).expect("it is later");
            assert!((secs..secs + 20).contains(&took), "{what}: after {took} s");
            let node = drained(scene).await.expect("it is there");
            assert_eq!(node["spec"]["unschedulable"], Value::Null, "{what}");
            let taints = node["spec"]["taints"].to_string();
            assert!(!taints.contains("karpenter.sh/disrupted"), "{what}: {taints}");
            assert_eq!(annotation(&node, "berth.dev/cordoned"), "", "{what}");
            let ledger = annotation(&berthed.group("workers").await, LEDGER).to_owned();
            assert!(!ledger.contains("leaving"), "{what}: {ledger}");
            let told = scene.told().await;
            assert!(told.contains("stays: "), "{told}");
            let counted = berthed.counted();
            let of_group = r#"nodegroup="workers",namespace="kube-system""#;
            for line in [
                format!(r#"node_drain_duration_seconds_count{{{of_group},result="{result}"}} 1"#),
                format!(r#"scale_down_errors_total{{{of_group},error_type="drain_{status}"}} 1"#),
            ] {
                assert!(counted.contains(&line), "{what}: {line}\n{counted}");
            }

            scene.delete("/apis/policy/v1/namespaces/default/poddisruptionbudgets/web").await;
            let is_again = async || {
                let nodes = scene.nodes().await;
                nodes.len() < 2 || nodes.iter().any(|node| annotation(node, STATUS) == "draining")
            };
            scene.until(1800, "it is tried again", is_again).await;
            let now: Timestamp = scene.world.clock_of("test");
            let rested = now.duration_since(began).as_secs();
            assert!(rested >= 600, "{what}: again after {rested} s");
            scene.until(900, "and goes", async || scene.machines() == 1).await;
            let counted = berthed.counted();
            let line = format!(r#"node_drain_duration_seconds_count{{{of_group},result="success"}} 1"#);
            assert!(counted.contains(&line), "{what}: {line}\n{counted}");
        });
    }
}

/// The API fails for longer than a pod may be refused. That is no pod's refusal, and the node goes.
#[test]
fn an_api_in_trouble_gives_no_drain_up() {
    for code in [429, 503] {
        crate::vpsie::played(berth_cloud::vpsie::Family::Managed, async |berthed| {
            let scene = &berthed.scene;
            let settings = json!({ "podEvictionTimeoutSeconds": 30, "scaleDownCooldownSeconds": 0 });
            scene.apply(config("default", &settings)).await;
            let mut many = two_full_nodes(scene, |_| ()).await;
            let fault = format!("berth before create pods/eviction #1x40: status {code}");
            scene.world.plan_faults(fault.parse().expect("a plan"));
            many["spec"]["replicas"] = json!(4);
            scene.apply(many).await;
            let refused = async || {
                let nodes = berthed.nodes().await;
                nodes.iter().any(|node| condition(node, "EvictionRefused").is_some())
            };
            let has_gone = async || {
                assert!(!refused().await, "{code}: {}", scene.told().await);
                scene.machines() == 1
            };
            scene.until(1800, "it goes", has_gone).await;
            assert_eq!(scene.world.faults_struck().len(), 40, "{code}");
            let counted = berthed.counted();
            assert!(!counted.contains(r#"error_type="drain_failed""#), "{code}: {counted}");
        });
    }
}

/// It stops after the first thing that it wrote of that: whoever comes after knows what was under way, and since when.
#[test]
fn whoever_comes_after_lets_it_stay() {
    let family = berth_cloud::vpsie::Family::Managed;
    crate::awaited(async {
        let berthed = Berthed::new(family, Weather::default(), Faults::default()).await;
        berthed.sign(SECRET).await;
        let scene = &berthed.scene;
        scene.play_with(berthed.operator(), begin_in_vain(&berthed, |_| ())).await;
        let is_told =
            async || berthed.nodes().await.iter().any(|node| condition(node, "DrainFailed").is_some());
        let given_up = async {
            sleep(Duration::from_secs(115)).await;
            while !is_told().await {
                sleep(Duration::from_millis(1)).await;
            }
        };
        scene.play_with(berthed.operator(), given_up).await;
        let node = drained(scene).await.expect("it is there");
        assert_eq!(annotation(&node, STATUS), "draining", "it is still closed");
        let after = async {
            let is_open = async || {
                let ledger = annotation(&berthed.group("workers").await, LEDGER).to_owned();
                let node = drained(scene).await.expect("it is there");
                annotation(&node, STATUS) == "failed" && !ledger.contains("leaving")
            };
            scene.until(30, "it stays", is_open).await;
            assert_eq!((scene.machines(), scene.running().await), (2, 4), "{}", scene.told().await);
        };
        scene.play_with(berthed.operator(), after).await;
    });
}

async fn annotate(scene: &Scene, object: &Value, metadata: &Value) {
    let mut change = json!({
        "apiVersion": object["apiVersion"], "kind": object["kind"],
        "metadata": { "name": object["metadata"]["name"] },
    });
    if let Some(namespace) = object["metadata"]["namespace"].as_str() {
        change["metadata"]["namespace"] = json!(namespace);
    }
    let own = change["metadata"].as_object_mut().expect("an object");
    own.extend(metadata.as_object().cloned().unwrap_or_default());
    scene.apply(change).await;
}

/// On the Node and on the VPSieNode alike.
#[test]
fn what_must_stay_stays() {
    let annotated =
        |key: &str, value: &str| json!({ "annotations": { format!("autoscaler.vpsie.com/{key}"): value } });
    let cases = [
        ("nothing is said", None, 0),
        ("protected", Some(annotated("protected", "true")), 2),
        ("not protected", Some(annotated("protected", "false")), 0),
        ("disabled", Some(annotated("scale-down", "disabled")), 2),
        ("not to be deleted", Some(annotated("do-not-delete", "true")), 2),
        ("labelled", Some(json!({ "labels": { "autoscaler.vpsie.com/scale-down-disabled": "true" } })), 2),
        // The scene begins at nine.
        ("not now", Some(annotated("scale-down-allowed-hours", "22:00-06:00")), 2),
        ("now", Some(annotated("scale-down-allowed-hours", "08:00-20:00")), 0),
    ];
    for (what, metadata, expected) in cases {
        for is_claim in [true, false] {
            crate::vpsie::played(berth_cloud::vpsie::Family::Managed, async |berthed| {
                let scene = &berthed.scene;
                let two = |group: &mut Value| group["spec"]["offeringIDs"] = json!(["small"]);
                scene.apply(group("workers", two)).await;
                scene.apply(workload(2)).await;
                scene.until(900, "both run", async || scene.running().await == 2).await;
                assert_eq!(scene.machines(), 2);
                let objects = if is_claim { berthed.nodes().await } else { scene.nodes().await };
                for mut object in objects {
                    let (version, kind) = if is_claim {
                        ("autoscaler.vpsie.com/v1alpha1", "VPSieNode")
                    } else {
                        ("v1", "Node")
                    };
                    (object["apiVersion"], object["kind"]) = (json!(version), json!(kind));
                    if let Some(metadata) = metadata.clone() {
                        annotate(scene, &object, &metadata).await;
                    }
                }
                scene.apply(workload(0)).await;
                let what = format!("{what}, on claims: {is_claim}");
                if expected == 0 {
                    scene.until(1800, &what, async || scene.machines() == 0).await;
                } else {
                    sleep(Duration::from_mins(12)).await;
                    assert_eq!(scene.machines(), expected, "{what}\n{}", scene.told().await);
                }
            });
        }
    }
}

/// What is written on one Node and means nothing keeps that one, and no other.
#[test]
fn hours_that_nobody_understands_keep_their_node_alone() {
    crate::vpsie::played(berth_cloud::vpsie::Family::Managed, async |berthed| {
        let scene = &berthed.scene;
        scene.apply(group("workers", |group| group["spec"]["offeringIDs"] = json!(["small"]))).await;
        scene.apply(workload(2)).await;
        scene.until(900, "both run", async || scene.running().await == 2).await;
        let mut node = scene.nodes().await.remove(0);
        (node["apiVersion"], node["kind"]) = (json!("v1"), json!("Node"));
        let annotations = json!({ "autoscaler.vpsie.com/scale-down-allowed-hours": "at night" });
        annotate(scene, &node, &json!({ "annotations": annotations })).await;
        scene.apply(workload(0)).await;
        scene.until(1800, "the other goes", async || scene.machines() == 1).await;
        sleep(Duration::from_mins(30)).await;
        let left: Vec<Value> =
            scene.nodes().await.into_iter().map(|mut node| node["metadata"]["name"].take()).collect();
        assert_eq!(left, [node["metadata"]["name"].clone()], "{}", scene.told().await);
    });
}

/// Kubelets that say nothing of their machine, or something else: nodes are known by their names, and by their
/// addresses if those are others.
#[test]
fn nodes_are_found_whatever_their_kubelets_say() {
    for (joins, strategy) in [
        (r"{}", "provider_id"),
        (r#"{"unidentified": {"permille": 1000}}"#, "hostname_pattern"),
        (r#"{"misidentified": {"permille": 1000}}"#, "hostname_pattern"),
        (r#"{"unidentified": {"permille": 1000}, "renamed": {"permille": 1000}}"#, "ip_matching"),
        (r#"{"misidentified": {"permille": 1000}, "renamed": {"permille": 1000}}"#, "ip_matching"),
    ] {
        let weather = format!(r#"{{"joins": {joins}}}"#);
        played(&weather, &async |berthed: &Berthed| {
            let scene = &berthed.scene;
            scene.apply(group("workers", |group| group["spec"]["offeringIDs"] = json!(["small"]))).await;
            scene.apply(workload(3)).await;
            scene.until(900, "three run", async || scene.running().await == 3).await;
            scene
                .until(60, "all are ready", async || {
                    berthed.phases().await.iter().all(|phase| phase == "Ready")
                })
                .await;
            let nodes = scene.machines();
            let counted = berthed.counted();
            let line = format!(r#"discovery_strategy_used_total{{strategy="{strategy}"}} {nodes}"#);
            assert!(counted.contains(&line), "{line}\n{counted}");
            let mut names: Vec<String> = berthed
                .nodes()
                .await
                .iter()
                .map(|node| text(&node["status"]["nodeName"]).to_owned())
                .collect();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), nodes, "each has its own");
            scene.apply(workload(0)).await;
            scene
                .until(3600, "all go with their machines", async || {
                    (scene.machines(), scene.nodes().await.len(), berthed.nodes().await.len()) == (0, 0, 0)
                })
                .await;
        });
    }
}

/// One that never joins.
#[test]
fn a_node_fails_after_as_long_as_the_settings_say() {
    let never = r#"{"joins": {"never": {"nth": [1]}}}"#;
    for (settings, secs) in [(Some(json!({ "nodeReadyTimeoutSeconds": 120 })), 120), (None, 900)] {
        played(never, &async |berthed: &Berthed| {
            let scene = &berthed.scene;
            if let Some(settings) = settings.clone() {
                scene.apply(config("default", &settings)).await;
            }
            scene.apply(group("workers", |_| {})).await;
            scene.apply(workload(1)).await;
            scene.until(45, "one is bought", async || berthed.nodes().await.len() == 1).await;
            let began: Timestamp = scene.world.clock_of("test");
            let has_failed = async || berthed.phases().await.contains(&"Failed".to_owned());
            scene.until(1800, "it failed", has_failed).await;
            let took = scene.world.clock_of("test").duration_since(began).as_secs();
            // Its machine takes a while to run.
            assert!((secs..secs + 90).contains(&took), "after {took} s");
            let nodes = berthed.nodes().await;
            let failed = nodes.iter().find(|node| node["status"]["phase"] == "Failed").expect("it is kept");
            assert_ne!(text(&failed["status"]["lastError"]), "", "{failed}");
            scene.until(600, "the pod runs on another", async || scene.running().await == 1).await;
            assert_eq!(scene.machines(), 1);
            let counted = berthed.counted();
            assert!(counted.contains(r#"discovery_failures_total{reason="timeout"} 1"#), "{counted}");
        });
    }
}

/// Not everybody who has settings says for how long a node is waited for; VPSie makes its machine all the same.
#[test]
fn a_slow_machine_is_not_bought_twice() {
    let slow = [
        (Family::Servers, r#"{"times": {"launch": {"leastMs": 720000, "mostMs": 720000}}}"#),
        (Family::Managed, r#"{"times": {"launch": {"leastMs": 720000, "mostMs": 720000}}}"#),
        (Family::Managed, r#"{"times": {"appear": {"leastMs": 720000, "mostMs": 720000}}}"#),
    ];
    for (family, weather) in slow {
        crate::awaited(async {
            let weather: Weather = serde_json::from_str(weather).expect("weather");
            let berthed = Berthed::new(family, weather, Faults::default()).await;
            berthed.sign(SECRET).await;
            let scene = &berthed.scene;
            let script = async {
                scene.apply(config("default", &json!({}))).await;
                scene.apply(group("workers", |_| {})).await;
                scene.apply(workload(1)).await;
                scene.until(1200, "the pod runs", async || scene.running().await == 1).await;
                sleep(Duration::from_mins(20)).await;
                assert_eq!(berthed.phases().await, ["Ready"], "{family:?}");
                assert_eq!((berthed.vpsie.calls(Deed::Create), scene.machines()), (1, 1), "{family:?}");
            };
            scene.play_with(berthed.operator(), script).await;
        });
    }
}

/// Each of two groups has a node that nobody needs.
#[test]
fn groups_shrink_one_after_the_other() {
    played("{}", &async |berthed: &Berthed| {
        let scene = &berthed.scene;
        let settings = json!({ "scaleDownCooldownSeconds": 900, "maxConcurrentScaleUps": 2 });
        scene.apply(config("default", &settings)).await;
        for name in ["east", "west"] {
            let own = |group: &mut Value| {
                group["spec"]["labels"] = json!({ "side": name });
                group["spec"]["taints"] = json!([]);
            };
            scene.apply(group(name, own)).await;
            let mut pods = crate::scene::deployment(name, 1, "1");
            pods["spec"]["template"]["spec"]["nodeSelector"] = json!({ "side": name });
            scene.apply(pods).await;
        }
        scene.until(900, "both run", async || scene.running().await == 2).await;
        for name in ["east", "west"] {
            scene.apply(crate::scene::deployment(name, 0, "1")).await;
        }
        scene.until(1800, "one goes", async || scene.machines() == 1).await;
        let first: Timestamp = scene.world.clock_of("test");
        scene.until(3600, "so does the other", async || scene.machines() == 0).await;
        let between = scene.world.clock_of("test").duration_since(first).as_secs();
        assert!(between >= 800, "after {between} s");
    });
}

#[test]
fn settings_say_whether_they_are_in_use() {
    played("{}", &async |berthed: &Berthed| {
        let scene = &berthed.scene;
        scene.apply(config("default", &json!({}))).await;
        scene.apply(config("other", &json!({}))).await;
        let read = async |name: &str| scene.get(&format!("{CONFIGS}/{name}")).await;
        let is_told = async || !read("other").await["status"].is_null();
        scene.until(60, "they say so", is_told).await;
        let (used, other) = (read("default").await, read("other").await);
        assert_eq!((&used["status"]["active"], &other["status"]["active"]), (&json!(true), &json!(false)));
        assert!(text(&other["status"]["message"]).contains("default"), "{other}");
        assert_eq!(used["status"]["observedGeneration"], used["metadata"]["generation"]);
        sleep(Duration::from_mins(10)).await;
        assert_eq!((read("default").await, read("other").await), (used, other), "and are left alone then");
        scene.apply(config("default", &json!({ "maxClusterWorkers": 0 }))).await;
        sleep(Duration::from_secs(30)).await;
        let used = read("default").await;
        assert_eq!(used["status"]["observedGeneration"], used["metadata"]["generation"]);
    });
}

#[test]
fn an_object_tells_its_machines_life() {
    let slow = r#"{"times": {"join": {"leastMs": 120000, "mostMs": 120000}}}"#;
    played(slow, &async |berthed: &Berthed| {
        let scene = &berthed.scene;
        scene.apply(group("workers", |_| {})).await;
        scene.apply(workload(1)).await;
        let mut phases: Vec<String> = Vec::new();
        for _ in 0..300 {
            phases.extend(berthed.phases().await);
            phases.dedup();
            sleep(Duration::from_secs(1)).await;
        }
        let last = phases.last().map(String::as_str);
        assert_eq!(last, Some("Ready"), "{phases:?}");
        let counted = berthed.counted();
        for pair in
            ["Pending Provisioning", "Provisioning Provisioned", "Provisioned Joining", "Joining Ready"]
        {
            let (from, to) = pair.split_once(' ').expect("two phases");
            let line = format!(r#"phase_transitions_total{{from_phase="{from}",to_phase="{to}""#);
            assert!(counted.contains(&line), "{line}\n{counted}");
        }
        let node = berthed.nodes().await.remove(0);
        let status = &node["status"];
        for field in ["nodeName", "hostname", "createdAt", "provisionedAt", "joinedAt", "readyAt"] {
            assert_ne!(text(&status[field]), "", "{field} of {status}");
        }
        assert_eq!(status["vpsieStatus"], "running", "{status}");
        assert!(status["resources"]["cpu"].as_i64() > Some(0), "{status}");
        assert_eq!(condition(&node, "VPSReady").map(|(status, _)| status), Some("True"));
        let address = text(&node["spec"]["ipAddress"]);
        assert!(address.starts_with("10."), "{node}");
        let workers = berthed.group("workers").await;
        assert_eq!(workers["status"]["nodes"][0]["ipAddress"], address);
        let number = &node["spec"]["vpsieGroupID"];
        // Its public API has no groups.
        assert_eq!(number.as_i64() > Some(0), berthed.family != Family::Vm, "{node}");
        assert_eq!(workers["status"]["vpsieGroupID"], *number, "{workers}");
        // Of nodes of managed clusters VPSie tells neither.
        let (address_v6, traffic) = match berthed.family {
            Family::Servers | Family::Vm => (json!(format!("::ffff:{address}")), json!(2000)),
            Family::Managed => (Value::Null, Value::Null),
        };
        assert_eq!(node["spec"]["ipv6Address"], address_v6, "{node}");
        assert_eq!(status["resources"]["bandwidthGB"], traffic, "{status}");
        let told = scene.told().await;
        assert!(told.contains("ScalingUp from 0 to 1 nodes"), "{told}");

        scene.delete(&format!("{NODES}/{}", text(&node["metadata"]["name"]))).await;
        let mut phases: Vec<String> = Vec::new();
        for _ in 0..60 {
            let nodes = berthed.nodes().await;
            for same in nodes.iter().filter(|other| other["metadata"]["uid"] == node["metadata"]["uid"]) {
                let phase = text(&same["status"]["phase"]);
                let is_going = ["Terminating", "Deleting"].contains(&phase);
                let since: Option<Timestamp> = text(&same["status"]["terminatingAt"]).parse().ok();
                assert_eq!(since.is_some(), is_going, "{same}");
                phases.push(phase.to_owned());
            }
            phases.dedup();
            sleep(Duration::from_secs(1)).await;
        }
        assert_eq!(phases.last().map(String::as_str), Some("Deleting"), "{phases:?}");
        assert!(phases.contains(&"Terminating".to_owned()), "{phases:?}");
    });
}
