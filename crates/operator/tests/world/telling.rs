//! What claims say of themselves: why they are not launched, what they wait for, and why their nodes stay.

use std::collections::BTreeSet;
use std::time::Duration;

use berth_world::faults::FaultPlan;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::scene::{Scene, condition, deployment, text};
use crate::{played, with_pool};

async fn only_claim(scene: &Scene) -> Value {
    scene.claims().await.into_iter().next().unwrap_or_default()
}

fn message<'v>(object: &'v Value, kind: &str) -> &'v str {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let mut of_kind = conditions.filter(|condition| condition["type"] == kind);
    of_kind.next().map(|condition| text(&condition["message"])).unwrap_or_default()
}

/// Whatever keeps a claim from its machine stands on the claim, and ends there once it has ended.
#[test]
fn a_claim_that_is_not_launched_says_why() {
    let catalog = r#"{"calls": {"catalog": {"unreachable": {"permille": 1000, "between": {"fromMs": 15000, "untilMs": 100000}}}}}"#;
    let slow = r#"{"calls": {"launch": {"slow": {"permille": 1000, "between": {"fromMs": 0, "untilMs": 100000}}, "slowByMs": 90000}}}"#;
    let cases = [
        (catalog, "", "LaunchNotBegun", "the cloud cannot be reached"),
        ("{}", "berth before get namespaces #1x40: status 503", "LaunchNotBegun", "does not say who it is"),
        (slow, "", "LaunchFailed", "it was not done within 60 s"),
    ];
    for (weather, fault, reason, words) in cases {
        played(weather, async |scene| {
            with_pool(scene, |_| {}).await;
            if !fault.is_empty() {
                scene.world.plan_faults(FaultPlan(vec![fault.parse().expect("a fault")]));
            }
            sleep(Duration::from_secs(20)).await;
            scene.apply(deployment("web", 1, "1")).await;
            let said = async || {
                let claim = only_claim(scene).await;
                condition(&claim, "Launched") == Some(("Unknown", reason))
                    && message(&claim, "Launched").contains(words)
            };
            scene.until(75, words, said).await;
            scene.until(300, "the pod runs", async || scene.running().await == 1).await;
            assert_eq!(
                condition(&only_claim(scene).await, "Launched"),
                Some(("True", "Launched")),
                "{words}"
            );
        });
    }
}

/// A step that takes too long is told like any other that does not work.
#[test]
fn a_step_that_takes_too_long_is_told() {
    let slow = r#"{"calls": {"terminate": {"slow": {"permille": 1000, "between": {"fromMs": 0, "untilMs": 400000}}, "slowByMs": 90000}}}"#;
    played(slow, async |scene| {
        with_pool(scene, |_| {}).await;
        scene.apply(deployment("web", 1, "1")).await;
        scene.until(180, "the pod runs", async || scene.running().await == 1).await;
        scene.apply(deployment("web", 0, "1")).await;
        let told =
            async || scene.events("default-").await.contains(&"it was not done within 60 s".to_owned());
        scene.until(300, "it is told", told).await;
        scene.until(600, "it ends", async || scene.claims().await.is_empty()).await;
    });
}

/// Until it is up a claim says what is missing, each once.
#[test]
fn a_claim_says_what_it_waits_for() {
    played("{}", async |scene| {
        with_pool(scene, |pool| {
            pool["spec"]["template"]["spec"]["startupTaints"] =
                json!([{ "key": "example.com/cni", "effect": "NoSchedule" }]);
        })
        .await;
        scene.apply(deployment("web", 1, "1")).await;
        let says = async |kind: &str, reason: &str, words: &str| {
            let claim = only_claim(scene).await;
            condition(&claim, kind) == Some(("Unknown", reason)) && message(&claim, kind) == words
        };
        let absent = async || says("Registered", "NodeNotFound", "Node not registered with cluster").await;
        scene.until(60, "it says that its node is not there", absent).await;
        let words = "StartupTaint \"example.com/cni:NoSchedule\" still exists";
        let tainted = async || says("Initialized", "StartupTaintsExist", words).await;
        scene.until(90, "it says which taint is there", tainted).await;
        let written = only_claim(scene).await["metadata"]["resourceVersion"].clone();
        sleep(Duration::from_mins(5)).await;
        assert_eq!(only_claim(scene).await["metadata"]["resourceVersion"], written, "said once");
        let node = text(&only_claim(scene).await["status"]["nodeName"]).to_owned();
        let unready = async || says("Initialized", "NodeNotReady", "Node status is NotReady").await;
        scene.world.kubelets().silence(&node);
        scene.until(90, "it says that its node is not ready", unready).await;
        scene.world.kubelets().revive(&node);
        scene.until(90, "it says again which taint is there", tainted).await;
        scene.patch(&format!("/api/v1/nodes/{node}"), &json!({ "spec": { "taints": [] } })).await;
        scene.until(60, "the pod runs", async || scene.running().await == 1).await;
        let is_up = async || {
            let claim = only_claim(scene).await;
            ["Registered", "Initialized", "Ready"]
                .iter()
                .all(|kind| condition(&claim, kind) == Some(("True", kind)))
        };
        scene.until(30, "it is up", is_up).await;
    });
}

/// Why a node stays is an event of Karpenter's name on it and its claim, said once on each. One that is well used is not
/// worth a word. A pod that two budgets cover cannot be evicted, whatever each of them allows.
#[test]
fn a_node_and_its_claim_say_why_it_stays() {
    for (after, is_protected, budgets, expected) in [
        ("0s", true, 0, Some(("DisruptionBlocked", "PodProtected: "))),
        ("0s", false, 2, Some(("DisruptionBlocked", "PodDisruptionBudget: "))),
        ("Never", false, 0, Some(("Unconsolidatable", "ConsolidationNever: "))),
        ("0s", false, 0, None),
    ] {
        played("{}", async |scene| {
            with_pool(scene, |pool| pool["spec"]["disruption"]["consolidateAfter"] = json!(after)).await;
            let mut web = deployment("web", 2, "800m");
            if is_protected {
                web["spec"]["template"]["metadata"]["annotations"] =
                    json!({ "karpenter.sh/do-not-disrupt": "true" });
            }
            scene.apply(web).await;
            for number in 0..budgets {
                scene
                    .apply(json!({
                        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                        "metadata": { "name": format!("web-{number}"), "namespace": "default" },
                        "spec": { "maxUnavailable": 1, "selector": { "matchLabels": { "app": "web" } } },
                    }))
                    .await;
            }
            scene.until(180, "the pods run", async || scene.running().await == 2).await;
            sleep(Duration::from_mins(15)).await;
            let objects = [scene.claims().await, scene.nodes().await].concat();
            assert!(objects.len() >= 2, "{}", scene.told().await);
            let events = scene.list("/api/v1/events").await;
            for object in &objects {
                let is_its = |event: &&Value| {
                    event["involvedObject"]["uid"] == object["metadata"]["uid"]
                        && ["DisruptionBlocked", "Unconsolidatable"].contains(&text(&event["reason"]))
                };
                let said: Vec<(&str, &str)> = events
                    .iter()
                    .filter(is_its)
                    .map(|event| (text(&event["reason"]), text(&event["message"])))
                    .collect();
                match expected {
                    Some((reason, words)) => {
                        assert_eq!(said.len(), 1, "{reason} {words} {}: {said:?}", object["kind"]);
                        assert!(said[0].0 == reason && said[0].1.starts_with(words), "{said:?}");
                    }
                    None => assert_eq!(said, [], "{after}"),
                }
            }
        });
    }
}

/// However many pods have no place, each is told why, soon and once. No more is written at once than the fault suite allows.
#[test]
fn pods_without_a_place_are_all_told_soon() {
    played("{}", async |scene| {
        with_pool(scene, |_| {}).await;
        sleep(Duration::from_secs(30)).await;
        let mut misplaced = deployment("misplaced", 200, "100m");
        misplaced["spec"]["template"]["spec"]["nodeSelector"] = json!({ "team": "nobody" });
        scene.apply(misplaced).await;
        let told = async || {
            let events = scene.list("/api/v1/events").await;
            let is_ours = |event: &&Value| event["source"]["component"] == "berth";
            let names = events.iter().filter(is_ours).map(|event| text(&event["involvedObject"]["name"]));
            names.map(str::to_owned).collect::<BTreeSet<String>>().len()
        };
        scene.until(30, "all are told", async || told().await == 200).await;
        scene.world.begin_audit();
        sleep(Duration::from_mins(5)).await;
        let asked = scene.world.take_asked();
        let writes: Vec<_> =
            asked.iter().filter(|asked| asked.client == "berth" && asked.is_write()).collect();
        assert!(writes.is_empty(), "and told once: {writes:?}");
    });
}
