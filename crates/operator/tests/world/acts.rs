//! The record of what cannot be taken back: each deed once, with what it takes to find out why.

use berth_cloud::vpsie::Family;
use berth_world::cloud::Weather;
use serde_json::{Value, json};

use crate::account::group;
use crate::awaited;
use crate::log::{Line, Log};
use crate::scene::{Scene, class, deployment, pool, text};
use crate::vpsie::{played, workload};

const EPOCH: u64 = 7;

/// Act, reason, object and uid of each record.
type Acts = Vec<[String; 4]>;

/// All that is recorded so far, in a defined order. Each names the epoch, and after how many changes it was: never fewer
/// than before.
fn recorded(log: &Log) -> Acts {
    let lines: Vec<_> = log.lines().into_iter().filter(|line| line.target == "berth::acts").collect();
    let revisions = lines.iter().map(|line| line.field("revision").parse().expect("a number"));
    let revisions: Vec<u64> = revisions.collect();
    assert!(revisions.is_sorted() && revisions.iter().all(|revision| *revision > 0), "{revisions:?}");
    for line in &lines {
        assert_eq!(line.field("epoch"), EPOCH.to_string(), "{line}");
    }
    let fields = ["act", "reason", "object", "uid"];
    let acts = lines.iter().map(|line| fields.map(|name| line.field(name).to_owned()));
    let mut acts: Acts = acts.collect();
    acts.sort();
    acts
}

fn act(act: &str, reason: &str, object: &str, of: &Value) -> [String; 4] {
    [act, reason, object, text(&of["metadata"]["uid"])].map(str::to_owned)
}

fn name(object: &Value) -> &str {
    text(&object["metadata"]["name"])
}

/// The name of the machine that a claim has.
fn machine(claim: &Value) -> &str {
    text(&claim["status"]["providerID"]).rsplit('/').next().unwrap_or_default()
}

fn only(mut all: Vec<Value>) -> Value {
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

/// A node is replaced, and then a claim vanishes as nobody should let it.
#[test]
fn each_deed_is_recorded_once() {
    let log = Log::default();
    let _listening = log.listen();
    awaited(async {
        let scene = Scene::new(1, Weather::default()).await;
        let script = async {
            scene.apply(class()).await;
            scene.apply(pool("default", |_| {})).await;
            scene.apply(deployment("web", 1, "1")).await;
            scene.until(180, "the pod runs", async || scene.running().await == 1).await;
            assert_eq!(recorded(&log), Acts::new(), "what is bought can be given back");
            let (claim, node) = (only(scene.claims().await), only(scene.nodes().await));
            let pod = only(scene.pods().await);
            let drifted = json!({ "labels": { "team": "red" } });
            scene.apply(pool("default", |pool| pool["spec"]["template"]["metadata"] = drifted)).await;
            let is_replaced = async || {
                let claims = scene.claims().await;
                claims.len() == 1 && name(&claims[0]) != name(&claim)
            };
            scene.until(600, "the node is replaced", is_replaced).await;
            let mut expected = vec![
                act("claim deleted", "Drifted", name(&claim), &claim),
                act("machine terminated", "Drifted", machine(&claim), &claim),
                act("node deleted", "Drifted", name(&node), &node),
                act("pod evicted", "Drifted", &format!("default/{}", name(&pod)), &pod),
            ];
            assert_eq!(recorded(&log), expected);

            let claim = only(scene.claims().await);
            let path = format!("/apis/karpenter.sh/v1/nodeclaims/{}", name(&claim));
            scene.patch(&path, &json!({ "metadata": { "finalizers": null } })).await;
            scene.delete(&path).await;
            let is_ended = async || !scene.machine_names().iter().any(|name| *name == machine(&claim));
            scene.until(300, "its machine is ended", is_ended).await;
            expected.push(act("orphan terminated", "Orphaned", machine(&claim), &claim));
            expected.sort();
            assert_eq!(recorded(&log), expected);
        };
        scene.play_with(scene.operator("berth", EPOCH), script).await;
    });
}

/// The life of a VPSieNode, in the fields by which those who run VPSie's own autoscaler look for it.
#[test]
fn a_vpsie_nodes_life_is_logged_in_its_fields() {
    for family in Family::ALL {
        let log = Log::default();
        let _listening = log.listen();
        played(family, async |berthed| {
            let scene = &berthed.scene;
            scene.apply(group("workers", |_| {})).await;
            scene.apply(workload(1)).await;
            scene.until(300, "it is ready", async || berthed.phases().await == ["Ready"]).await;
            let node = only(berthed.nodes().await);
            scene.apply(workload(0)).await;
            scene.until(1800, "it is gone", async || berthed.nodes().await.is_empty()).await;
            let of = |target: &str| -> Vec<Line> {
                log.lines().into_iter().filter(|line| line.target == target).collect()
            };
            let lives: Vec<Line> =
                of("berth::lives").into_iter().filter(|line| !line.field("phase").is_empty()).collect();
            let phases: Vec<&str> = lives.iter().map(|line| line.field("phase")).collect();
            for phase in ["Provisioning", "Ready", "Terminating", "Deleting"] {
                assert!(phases.contains(&phase), "{phase} is not among {phases:?} ({family:?})");
            }
            assert!(lives.iter().all(|line| line.field("nodegroup") == "workers"), "{}", log.text());
            let ready = lives.iter().find(|line| line.field("phase") == "Ready").expect("it was ready");
            assert_eq!(ready.field("node"), text(&node["status"]["nodeName"]), "{ready}");
            assert_eq!(ready.field("vpsId"), text(&node["spec"]["vpsieNodeIdentifier"]), "{ready}");
            let secs: u64 = ready.field("duration").parse().expect("seconds");
            assert!((45..300).contains(&secs), "{ready}");
            for act in ["claim deleted", "machine terminated", "node deleted"] {
                let lines = of("berth::acts");
                let done = lines.iter().find(|line| line.field("act") == act);
                let done = done.unwrap_or_else(|| panic!("{act}: {}", log.text()));
                let fields = ["nodegroup", "node", "vpsId"].map(|name| done.field(name));
                assert_eq!(fields, ["workers", ready.field("node"), ready.field("vpsId")], "{done}");
                assert_ne!(done.field("phase"), "", "{done}");
            }
            let asked: Vec<Line> = log
                .lines()
                .into_iter()
                .filter(|line| line.field("message").contains("asked VPSie"))
                .collect();
            let mut ids: Vec<&str> = asked.iter().map(|line| line.field("requestID")).collect();
            assert!(ids.iter().all(|id| id.starts_with("berth-")), "{ids:?}");
            ids.sort_unstable();
            ids.dedup();
            assert!(ids.len() == asked.len() && asked.len() > 5, "each has its own: {ids:?}");
            assert!(asked.iter().all(|line| line.field("duration").parse::<f64>().is_ok()), "{}", asked[0]);
        });
    }
}
