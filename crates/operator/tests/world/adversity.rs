//! What goes wrong around NodeGroups: Secrets, names that two have, objects that cannot be read, nodes that say nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use berth_api::ClassKind;
use berth_cloud::vpsie::{Family, Lost, Sent, Transport};
use berth_cloud::{CatalogOptions, Cloud};
use berth_world::cloud::weather::{Odds, Weather};
use berth_world::cloud::{Account, SimulatedCloud};
use berth_world::vpsie::{Deed, DeedFaults, Faults, InProcess};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::account::{self, CLUSTER, GROUPS, SECRET, group};
use crate::awaited;
use crate::permissions;
use crate::scene::{Scene, began, class, condition, deployment, pool, text};
use crate::vpsie::{Berthed, CONFIGS, config, played, workload};

/// VPSie fails while the Secret changes, and afterwards knows only what the changed one says.
#[test]
fn a_secret_that_changes_while_vpsie_fails_is_tried_again() {
    awaited(async {
        let (from_ms, until_ms) = (300_000, 900_000);
        let failing =
            DeedFaults { failed: Odds::always().between(from_ms, until_ms), ..DeedFaults::default() };
        let signed_out =
            DeedFaults { unauthorized: Odds::always().between(from_ms, u64::MAX), ..DeedFaults::default() };
        let deeds = BTreeMap::from([(Deed::Offers, failing), (Deed::SignIn, signed_out)]);
        let berthed =
            Berthed::new(Family::Managed, Weather::default(), Faults { deeds, ..Faults::default() }).await;
        berthed.sign(SECRET).await;
        let scene = &berthed.scene;
        let script = async {
            scene.apply(group("workers", |_| {})).await;
            scene.apply(workload(1)).await;
            scene.until(250, "the pod runs", async || scene.running().await == 1).await;
            sleep(Duration::from_mins(2)).await;
            let mut changed = account::secret(permissions::NAMESPACE, account::URL, SECRET);
            let secret = changed["data"]["clientSecret"].take();
            changed["data"]["clientId"].take();
            changed["data"]["token"] = secret;
            scene.apply(changed).await;
            sleep(Duration::from_mins(8)).await;
            berthed.vpsie.expire_tokens();
            scene.apply(workload(8)).await;
            scene.until(1200, "the changed one is in use", async || scene.running().await == 8).await;
            let counted = berthed.counted();
            for line in [
                "credential_rotation_successes_total 1",
                "vpsie_api_circuit_breaker_opened_total",
                "credential_valid 1.0",
            ] {
                assert!(counted.contains(&format!("vpsie_autoscaler_{line}")), "{line}\n{counted}");
            }
        };
        scene.play_with(berthed.operator(), script).await;
    });
}

/// Neither the Secret nor a flag says which cluster it is; a node does, later.
#[test]
fn a_secret_without_a_cluster_is_taken_once_a_node_names_it() {
    awaited(async {
        let berthed = Berthed::new(Family::Managed, Weather::default(), Faults::default()).await;
        let scene = &berthed.scene;
        let mut secret = account::secret(permissions::NAMESPACE, account::URL, SECRET);
        secret["data"]["resourceIdentifier"].take();
        scene.apply(secret).await;
        let script = async {
            scene.apply(group("workers", |_| {})).await;
            scene.apply(workload(1)).await;
            let is_told = async || {
                berthed.group("workers").await["status"]["conditions"]
                    .to_string()
                    .contains("resourceIdentifier")
            };
            scene.until(120, "the group says what is missing", is_told).await;
            sleep(Duration::from_mins(10)).await;
            let labels = json!({ "vpsie.com/cluster-id": CLUSTER });
            scene.apply(json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "old", "labels": labels } })).await;
            scene.until(240, "the pod runs", async || scene.running().await == 1).await;
        };
        scene.play_with(berthed.operator(), script).await;
    });
}

/// Not the namespace of the other groups, and before it in the alphabet.
async fn in_another_namespace(scene: &Scene, change: impl FnOnce(&mut Value)) -> String {
    scene.apply(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "alpha" } })).await;
    let mut other = group("workers", change);
    other["metadata"]["namespace"] = json!("alpha");
    scene.apply(other).await;
    format!("{}/workers", GROUPS.replace("kube-system", "alpha"))
}

/// Another group has the name of one, in another namespace: nobody's, or Berth's and newer.
#[test]
fn a_group_goes_on_whatever_others_have_its_name() {
    for is_managed in [false, true] {
        played(Family::Managed, async |berthed| {
            let scene = &berthed.scene;
            let own = |other: &mut Value| {
                if !is_managed {
                    other["metadata"]["labels"] = json!({});
                }
            };
            if is_managed {
                scene.apply(group("workers", |_| {})).await;
                sleep(Duration::from_secs(5)).await;
            }
            let other = in_another_namespace(scene, own).await;
            if !is_managed {
                scene.apply(group("workers", |_| {})).await;
            }
            scene.apply(workload(1)).await;
            scene.until(300, "the pod runs", async || scene.running().await == 1).await;
            let status = async || berthed.group("workers").await["status"].clone();
            scene.until(60, "its node counts", async || status().await["readyNodes"] == 1).await;
            assert_eq!(condition(&berthed.group("workers").await, "Error"), Some(("False", "Fine")));
            let seen = scene.get(&other).await;
            if is_managed {
                assert_eq!(condition(&seen, "Error"), Some(("True", "PoolNameTaken")), "{seen}");
                assert_eq!(seen["status"]["currentNodes"], 0, "{seen}");
            } else {
                assert_eq!(seen["status"], Value::Null, "{seen}");
            }
            scene.delete(&other).await;
            let is_gone = async || scene.list(&GROUPS.replace("kube-system", "alpha")).await.is_empty();
            scene.until(60, "the other goes", is_gone).await;
            sleep(Duration::from_mins(2)).await;
            assert_eq!((scene.machines(), scene.running().await), (1, 1), "{}", scene.told().await);
            scene.apply(workload(0)).await;
            scene.until(1800, "its node goes", async || scene.machines() == 0).await;
        });
    }
}

/// A NodePool takes its name. It keeps its nodes, says so, and goes with them.
#[test]
fn a_group_whose_name_is_taken_keeps_its_nodes_and_is_wound_up() {
    played(Family::Managed, async |berthed| {
        let scene = &berthed.scene;
        scene.apply(group("workers", |_| {})).await;
        scene.apply(workload(2)).await;
        scene.until(300, "both run", async || scene.running().await == 2).await;
        let nodes = scene.machines();
        scene.apply(pool("workers", |_| {})).await;
        let is_told =
            async || condition(&berthed.group("workers").await, "Error") == Some(("True", "PoolNameTaken"));
        scene.until(60, "it says so", is_told).await;
        sleep(Duration::from_mins(30)).await;
        assert_eq!((scene.machines(), scene.running().await), (nodes, 2), "{}", scene.told().await);
        assert_eq!(berthed.group("workers").await["status"]["currentNodes"], nodes);
        scene.delete(&format!("{GROUPS}/workers")).await;
        scene.until(900, "all is gone", async || scene.list(GROUPS).await.is_empty()).await;
        assert_eq!((scene.machines(), berthed.nodes().await.len()), (0, 0));
    });
}

/// The definitions as VPSie has them, which bound nothing.
async fn without_bounds(scene: &Scene) {
    fn unbound(schema: &mut Value) {
        match schema {
            Value::Object(fields) => {
                for bound in ["maximum", "minimum", "x-kubernetes-validations"] {
                    fields.remove(bound);
                }
                fields.values_mut().for_each(unbound);
            }
            Value::Array(items) => items.iter_mut().for_each(unbound),
            _ => {}
        }
    }
    let text = berth_api::crds::yaml().expect("they can be written");
    let (objects, _) = berth_api::objects(&[berth_api::Source::Text { name: "crds".to_owned(), text }]);
    for mut object in objects {
        unbound(&mut object.value);
        scene.apply(object.value).await;
    }
}

#[test]
fn groups_out_of_bounds_say_so_and_go_when_they_are_deleted() {
    type Change = fn(&mut Value);
    let cases: [(Change, &str); 3] = [
        (|spec| spec["maxNodes"] = json!(2000), "spec.maxNodes"),
        (|spec| spec["scaleUpPolicy"] = json!({ "stabilizationWindowSeconds": 1801 }), "scaleUpPolicy"),
        (|spec| spec["scaleDownPolicy"]["cooldownSeconds"] = json!(3601), "cooldownSeconds"),
    ];
    for (change, field) in cases {
        played(Family::Managed, async |berthed| {
            let scene = &berthed.scene;
            without_bounds(scene).await;
            scene.apply(group("odd", |group| change(&mut group["spec"]))).await;
            scene.apply(group("workers", |_| {})).await;
            scene.apply(workload(1)).await;
            scene.until(300, "the pod runs", async || scene.running().await == 1).await;
            let odd = berthed.group("odd").await;
            assert_eq!(condition(&odd, "Error"), Some(("True", "ValidationFailed")), "{odd}");
            assert!(odd["status"]["conditions"].to_string().contains(field), "{odd}");
            // One that was right has a finalizer, and nodes perhaps.
            scene.apply(group("workers", |group| change(&mut group["spec"]))).await;
            let is_told = async || {
                condition(&berthed.group("workers").await, "Error") == Some(("True", "ValidationFailed"))
            };
            scene.until(60, "it says so", is_told).await;
            scene.delete(&format!("{GROUPS}/workers")).await;
            scene.delete(&format!("{GROUPS}/odd")).await;
            scene.until(600, "both are gone", async || scene.list(GROUPS).await.is_empty()).await;
            assert_eq!(scene.machines(), 0);
        });
    }
}

/// Settings that cannot be read: what was said before holds, and where nothing was, no group grows.
#[test]
fn settings_that_cannot_be_read_bound_groups_all_the_same() {
    for was_good in [true, false] {
        played(Family::Managed, async |berthed| {
            let scene = &berthed.scene;
            without_bounds(scene).await;
            let grace = json!({ "maxClusterWorkers": 1, "unschedulablePodGracePeriodSeconds": 0 });
            if was_good {
                scene.apply(config("default", &grace)).await;
                sleep(Duration::from_secs(30)).await;
            }
            let mut wrong = grace.clone();
            wrong["maxClusterWorkers"] = json!(-1);
            scene.apply(config("default", &wrong)).await;
            scene.apply(group("workers", |group| group["spec"]["offeringIDs"] = json!(["small"]))).await;
            scene.apply(workload(3)).await;
            sleep(Duration::from_mins(10)).await;
            assert_eq!(scene.machines(), usize::from(was_good), "{}", scene.told().await);
            let seen = scene.get(&format!("{CONFIGS}/default")).await;
            assert_eq!(seen["status"]["active"], false, "{seen}");
            assert!(text(&seen["status"]["message"]).contains("maxClusterWorkers"), "{seen}");
            scene
                .apply(config("default", &json!({ "maxClusterWorkers": 3, "scaleUpCooldownSeconds": 0 })))
                .await;
            scene.until(1200, "all run", async || scene.running().await == 3).await;
            let seen = scene.get(&format!("{CONFIGS}/default")).await;
            assert_eq!(seen["status"]["active"], true, "{seen}");
        });
    }
}

/// Of its nodes VPSie says who they are, and neither their group nor their size.
#[test]
fn nodes_that_do_not_say_what_they_are_are_found() {
    awaited(async {
        let faults = Faults { bare_nodes: true, ..Faults::default() };
        let berthed = Berthed::new(Family::Managed, Weather::default(), faults).await;
        berthed.sign(SECRET).await;
        let scene = &berthed.scene;
        let script = async {
            let old = berthed.vpsie.add_by_hand(1).await.expect("somebody has a node already");
            scene.apply(group("workers", |group| group["spec"]["offeringIDs"] = json!(["small"]))).await;
            scene.apply(workload(3)).await;
            scene.until(1200, "all run", async || scene.running().await == 3).await;
            assert_eq!(scene.machines(), 4, "one for each pod, besides the one that was there");
            let claimed = |node: &Value| text(&node["spec"]["vpsieNodeIdentifier"]).to_owned();
            let claimed: Vec<String> = berthed.nodes().await.iter().map(claimed).collect();
            assert!(!claimed.iter().any(|id| *id == old.to_string()), "{claimed:?}");
            scene.apply(workload(0)).await;
            scene.until(3600, "they go", async || scene.machines() == 1).await;
            assert_eq!(scene.machine_names(), [old.to_string()], "and what is another's stays");
        };
        scene.play_with(berthed.operator(), script).await;
    });
}

/// A server that is asked for comes without an envelope, and the numbers of its size and its datacenter are no offer's: it is
/// what was ordered, whoever asks and whenever.
#[test]
fn servers_that_say_otherwise_what_they_are_are_what_was_ordered() {
    for family in [Family::Servers, Family::Vm] {
        awaited(async {
            let faults = Faults { bare_servers: true, ..Faults::default() };
            let berthed = Berthed::new(family, Weather::default(), faults).await;
            berthed.sign(SECRET).await;
            let scene = &berthed.scene;
            let first = async {
                scene.apply(group("workers", |_| {})).await;
                scene.apply(workload(3)).await;
                scene.until(1200, "all run", async || scene.running().await == 3).await;
                for node in berthed.nodes().await {
                    assert_eq!(node["spec"]["datacenterID"], "dc-1", "{node}");
                    let size = text(&node["spec"]["instanceType"]);
                    assert!(["big", "small"].contains(&size), "{node}");
                }
            };
            scene.play_with(berthed.operator(), first).await;
            let bought = scene.machine_names();
            let second = async {
                sleep(Duration::from_mins(30)).await;
                assert_eq!((scene.machine_names(), scene.running().await), (bought, 3));
                scene.apply(workload(0)).await;
                scene.until(3600, "they go", async || scene.machines() == 0).await;
            };
            scene.play_with(berthed.operator_of("another", 2), second).await;
        });
    }
}

/// A machine of which VPSie does not say that it runs is not said to, and is Berth's all the same.
#[test]
fn machines_run_if_vpsie_says_so() {
    for (word, status, phases) in [
        ("active", "True", ["Provisioning", "Provisioned"]),
        ("suspended", "Unknown", ["Provisioning", "Provisioning"]),
    ] {
        awaited(async {
            let slow = r#"{"times": {"join": {"leastMs": 120000, "mostMs": 120000}}}"#;
            let weather: Weather = serde_json::from_str(slow).expect("weather");
            let faults = Faults { running_word: Some(word.to_owned()), ..Faults::default() };
            let berthed = Berthed::new(Family::Servers, weather, faults).await;
            berthed.sign(SECRET).await;
            let scene = &berthed.scene;
            let script = async {
                scene.apply(group("workers", |_| {})).await;
                scene.apply(workload(1)).await;
                let is_told = async || {
                    let nodes = berthed.nodes().await;
                    nodes.iter().any(|node| node["status"]["vpsieStatus"] == word)
                };
                scene.until(300, "its word is told", is_told).await;
                let node = berthed.nodes().await.remove(0);
                let is = condition(&node, "VPSReady").map(|(status, _)| status);
                assert_eq!(is, Some(status), "{node}");
                assert!(phases.contains(&text(&node["status"]["phase"])), "{node}");
                assert_eq!(scene.running().await, 0, "it has not joined");
                scene.until(900, "it joins", async || scene.running().await == 1).await;
                let node = berthed.nodes().await.remove(0);
                assert_eq!(condition(&node, "VPSReady").map(|(status, _)| status), Some("True"), "{node}");
                assert_eq!(node["status"]["vpsieStatus"], word, "{node}");
                scene.apply(workload(0)).await;
                scene.until(3600, "it goes", async || scene.machines() == 0).await;
            };
            scene.play_with(berthed.operator(), script).await;
        });
    }
}

/// What answers is not VPSie.
#[derive(Clone, Copy, Debug)]
enum Stranger {
    /// Its certificate is another host's.
    Elsewhere,
    /// It has a page for everything.
    Page,
}

impl Transport for Stranger {
    fn send(&self, _: http::Request<Bytes>) -> Sent<'_> {
        let answer = match self {
            Self::Elsewhere => {
                let why = "invalid peer certificate: not valid for name \"vpsie.test\"";
                Err(Lost::Connection(why.to_owned()))
            }
            Self::Page => Ok(http::Response::new(Bytes::from_static(b"<html>Welcome to nginx!</html>"))),
        };
        Box::pin(async { answer })
    }
}

/// What is wrong with the way to VPSie is named on the groups that need it. A pool that buys elsewhere goes on.
#[test]
fn a_way_to_vpsie_that_is_wrong_is_named_on_the_group() {
    type Change = fn(&mut Value);
    let as_it_is: Change = |_| ();
    let cases: [(&str, Change, Option<Stranger>, &str); 6] = [
        ("a certificate of another host", as_it_is, Some(Stranger::Elsewhere), "certificate"),
        ("no JSON", as_it_is, Some(Stranger::Page), "JSON"),
        ("no secret", |data| data["clientSecret"] = json!(""), None, "`clientSecret`"),
        // A byte that is no ASCII.
        ("no text", |data| data["clientSecret"] = json!("/w=="), None, "visible ASCII"),
        ("http://vpsie.test/v2", |data| data["url"] = json!("aHR0cDovL3Zwc2llLnRlc3QvdjI="), None, "https"),
        ("no address", |data| data["url"] = json!("bm93aGVyZQ=="), None, "`url`"),
    ];
    for (what, change, stranger, words) in cases {
        awaited(async {
            let berthed = Berthed::new(Family::Managed, Weather::default(), Faults::default()).await;
            let scene = &berthed.scene;
            let mut secret = account::secret(permissions::NAMESPACE, account::URL, SECRET);
            change(&mut secret["data"]);
            scene.apply(secret).await;
            let client = kube::Client::new(scene.world.client("berth"), "default");
            let transport: Arc<dyn Transport> = match stranger {
                Some(stranger) => Arc::new(stranger),
                None => Arc::new(InProcess(berthed.vpsie.clone())),
            };
            let vpsie = berthed.cloud_through(&client, transport);
            let other = elsewhere();
            let kwok: Arc<dyn Cloud> = Arc::new(other.clone());
            let clouds = BTreeMap::from([(ClassKind::Vpsie, vpsie), (ClassKind::Kwok, kwok)]);
            let means = (clouds, berthed.settings.clone());
            let operator = scene.operator_with(means, (client, "berth"), berth_operator::alone(1));
            let script = async {
                scene.apply(group("workers", |_| {})).await;
                scene.apply(class()).await;
                scene.apply(pool("default", |_| {})).await;
                scene.apply(deployment("web", 1, "1")).await;
                let is_told = async || {
                    let group = berthed.group("workers").await;
                    condition(&group, "Error").is_some_and(|(status, _)| status == "True")
                        && group["status"]["conditions"].to_string().contains(words)
                };
                scene.until(180, what, is_told).await;
                scene.until(300, "the other goes on", async || scene.running().await == 1).await;
                let told = scene.told().await;
                assert!(!told.contains(SECRET), "{told}");
            };
            let script = async {
                tokio::select! {
                    biased;
                    () = scene.world.kubelets().live_on(&other) => {}
                    () = script => {}
                }
            };
            Box::pin(scene.play_with(operator, script)).await;
        });
    }
}

/// A cloud that has nothing to do with VPSie.
fn elsewhere() -> SimulatedCloud {
    let catalog = berth_cloud::load("kwok", &CatalogOptions::default()).expect("it is built in");
    SimulatedCloud::new(Account::new(Arc::new(catalog), Weather::default(), 2, began()))
}
