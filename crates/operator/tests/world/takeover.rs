//! VPSie's own autoscaler is switched off, in the middle of whatever it was doing, and Berth is switched on.

use std::time::Duration;

use berth_cloud::machine::MachineId;
use berth_cloud::vpsie::Family;
use berth_world::cloud::Account;
use berth_world::cloud::weather::Weather;
use berth_world::vpsie::{Deed, Faults, number_of};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::account::{CLUSTER, NODES, SECRET, group};
use crate::awaited;
use crate::scene::{began, condition, keep_apart, text};
use crate::vpsie::{Berthed, workload};

const NAME: &str = "workers-7f3a";
/// The number of `small` among the sizes.
const SMALL: usize = 2;

/// A VPSieNode as VPSie's own autoscaler writes it: with the id of an offering, which is not its name.
fn theirs(family: Family, annotations: &Value) -> Value {
    let offering = match family {
        Family::Servers | Family::Vm => "2-dc-1-on-demand",
        Family::Managed => "2",
    };
    json!({
        "apiVersion": "autoscaler.vpsie.com/v1alpha1", "kind": "VPSieNode",
        "metadata": {
            "name": NAME, "namespace": "kube-system", "annotations": annotations,
            "labels": { "autoscaler.vpsie.com/managed": "true", "autoscaler.vpsie.com/nodegroup": "workers" },
            "finalizers": ["vpsienode.autoscaler.vpsie.com/finalizer"],
        },
        "spec": {
            "vpsieInstanceID": 0, "instanceType": offering, "nodeGroupName": "workers", "datacenterID": "dc-1",
            "resourceIdentifier": CLUSTER, "project": "p-1", "kubernetesVersion": "v1.34.0", "nodeName": NAME,
        },
    })
}

fn requested() -> Value {
    json!({ "autoscaler.vpsie.com/creation-requested": "true" })
}

/// The machine that it has asked for.
async fn bought(berthed: &Berthed, family: Family) -> MachineId {
    let machine = match family {
        Family::Servers | Family::Vm => berthed.vpsie.create_by_hand(NAME, SMALL).await,
        Family::Managed => berthed.vpsie.add_by_hand(SMALL).await,
    };
    machine.expect("a machine")
}

/// A group and a pod that waits; then what it has left behind; then Berth.
fn switched(left: &impl AsyncFn(&Berthed, Family), script: &impl AsyncFn(&Berthed)) {
    switched_in(&Family::ALL, "{}", left, script);
}

fn switched_in(
    families: &[Family],
    weather: &str,
    left: &impl AsyncFn(&Berthed, Family),
    script: &impl AsyncFn(&Berthed),
) {
    for family in families.iter().copied() {
        awaited(async {
            let weather: Weather = serde_json::from_str(weather).expect("weather");
            let berthed = Berthed::new(family, weather, Faults::default()).await;
            berthed.sign(SECRET).await;
            berthed.scene.apply(group("workers", |_| {})).await;
            berthed.scene.apply(workload(1)).await;
            left(&berthed, family).await;
            berthed.scene.play_with(berthed.operator(), script(&berthed)).await;
        });
    }
}

async fn runs(berthed: &Berthed, secs_max: u64) {
    berthed.scene.until(secs_max, "the pod runs", async || berthed.scene.running().await == 1).await;
}

async fn names(berthed: &Berthed) -> Vec<String> {
    berthed.nodes().await.iter().map(|node| text(&node["metadata"]["name"]).to_owned()).collect()
}

#[test]
fn a_machine_that_was_asked_for_becomes_its_nodes() {
    let left = async |berthed: &Berthed, family: Family| {
        berthed.scene.apply(theirs(family, &requested())).await;
        bought(berthed, family).await;
    };
    switched(&left, &async |berthed: &Berthed| {
        runs(berthed, 300).await;
        assert_eq!((names(berthed).await, berthed.scene.machines()), (vec![NAME.to_owned()], 1));
        assert_eq!(berthed.vpsie.calls(Deed::Create), 0, "nothing is bought");
        let node = berthed.scene.nodes().await.pop().expect("a node");
        assert_eq!(node["metadata"]["labels"]["team"], "quay", "its group's labels are on it");
        assert!(node["spec"]["taints"].to_string().contains("dedicated"), "and its taints");
        berthed.scene.apply(workload(0)).await;
        let is_gone = async || berthed.scene.machines() == 0 && names(berthed).await.is_empty();
        berthed.scene.until(3600, "it goes like any other", is_gone).await;
    });
}

/// It says how far it had come, and not that it has asked.
#[test]
fn what_is_under_way_was_asked_for() {
    let left = async |berthed: &Berthed, family: Family| {
        berthed.scene.apply(theirs(family, &json!({}))).await;
        let status = json!({ "status": { "phase": "Provisioning" } });
        berthed.scene.patch(&format!("{NODES}/{NAME}/status"), &status).await;
        bought(berthed, family).await;
    };
    switched(&left, &async |berthed: &Berthed| {
        runs(berthed, 300).await;
        assert_eq!((names(berthed).await, berthed.scene.machines()), (vec![NAME.to_owned()], 1));
    });
}

#[test]
fn a_request_that_came_to_nothing_fails_and_makes_room() {
    let left =
        async |berthed: &Berthed, family: Family| berthed.scene.apply(theirs(family, &requested())).await;
    switched(&left, &async |berthed: &Berthed| {
        runs(berthed, 1200).await;
        assert_eq!((berthed.scene.machines(), berthed.vpsie.calls(Deed::Create)), (1, 1));
        let failed = berthed.scene.get(&format!("{NODES}/{NAME}")).await;
        assert_eq!(failed["status"]["phase"], "Failed", "{failed}");
        let is_over = async || !names(berthed).await.contains(&NAME.to_owned());
        berthed.scene.until(3600, "it goes after its time", is_over).await;
        assert_eq!((berthed.scene.machines(), names(berthed).await.len()), (1, 1));
    });
}

#[test]
fn what_was_never_asked_for_is_asked_for_by_berth() {
    let left =
        async |berthed: &Berthed, family: Family| berthed.scene.apply(theirs(family, &json!({}))).await;
    switched(&left, &async |berthed: &Berthed| {
        runs(berthed, 300).await;
        assert_eq!((berthed.scene.machines(), names(berthed).await.len()), (1, 1));
        assert!(!names(berthed).await.contains(&NAME.to_owned()));
    });
}

#[test]
fn a_machine_of_a_node_that_is_being_deleted_goes_with_it() {
    let left = async |berthed: &Berthed, family: Family| {
        berthed.scene.apply(workload(0)).await;
        berthed.scene.apply(theirs(family, &requested())).await;
        berthed.scene.delete(&format!("{NODES}/{NAME}")).await;
        bought(berthed, family).await;
    };
    switched(&left, &async |berthed: &Berthed| {
        let is_gone = async || berthed.scene.machines() == 0 && names(berthed).await.is_empty();
        berthed.scene.until(1800, "both are gone", is_gone).await;
    });
}

/// What its own autoscaler has written down of the machine.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Known {
    Identifier,
    /// And that it is in a cluster which its kubelet calls otherwise.
    IdentifierElsewhere,
    Number,
    /// The name that VPSie gave it.
    Hostname,
    /// Nothing, and it was bought as something that is no longer sold; its node says which it is.
    Nothing,
}

/// Its own autoscaler has brought a node up, on which a pod runs, and has written down of its machine what it knew.
async fn brought_up(
    berthed: &Berthed,
    family: Family,
    write: impl FnOnce(&mut Value, &MachineId),
) -> MachineId {
    let mut node = theirs(family, &json!({ "autoscaler.vpsie.com/creation-reason": "metrics" }));
    // It was made before its machine was asked for.
    berthed.scene.apply(node.clone()).await;
    let id = bought(berthed, family).await;
    write(&mut node, &id);
    berthed.scene.apply(node).await;
    // No labels are put on its nodes, so the pod is one that asks for none.
    let mut pods = workload(1);
    pods["spec"]["template"]["spec"]["nodeSelector"] = json!({});
    berthed.scene.apply(pods).await;
    berthed.scene.live(runs(berthed, 300)).await;
    // Longer than Berth waits for what it has asked for itself.
    berthed.scene.live(sleep(Duration::from_mins(30))).await;
    id
}

/// Its own autoscaler has found the node, and says so.
async fn tell_ready(berthed: &Berthed, hostname: Option<String>) {
    let joined = berthed.scene.nodes().await.pop().expect("a node");
    let conditions = ["VPSReady", "NodeJoined", "NodeReady"].map(|kind| {
        json!({
            "type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": began(),
        })
    });
    let status = json!({ "status": {
        "phase": "Ready", "nodeName": joined["metadata"]["name"], "conditions": conditions,
        "hostname": hostname,
    } });
    berthed.scene.patch(&format!("{NODES}/{NAME}/status"), &status).await;
}

/// It cordons what it empties, and may end in the midst of that. What somebody else has cordoned stays so.
#[test]
fn a_node_that_was_being_emptied_takes_pods_again() {
    for (status, minutes_later, is_freed) in [
        (Some("draining"), 0, true),
        (Some("timeout"), 0, true),
        (Some("failed"), 0, true),
        (Some("failed"), 30, false),
        (None, 0, false),
    ] {
        let left = async |berthed: &Berthed, family: Family| {
            let scene = &berthed.scene;
            let write = |node: &mut Value, id: &MachineId| {
                node["spec"]["vpsieNodeIdentifier"] = json!(id.as_str());
            };
            brought_up(berthed, family, write).await;
            tell_ready(berthed, None).await;
            let node = scene.nodes().await.pop().expect("a node");
            let path = format!("/api/v1/nodes/{}", text(&node["metadata"]["name"]));
            if let Some(status) = status {
                let marks = json!({
                    "autoscaler.vpsie.com/drain-start-time": format!("{:.0}", scene.world.clock_of("test")),
                    "autoscaler.vpsie.com/drain-status": status,
                });
                scene.patch(&path, &json!({ "metadata": { "annotations": marks } })).await;
            }
            scene.live(sleep(Duration::from_mins(minutes_later))).await;
            scene.patch(&path, &json!({ "spec": { "unschedulable": true } })).await;
            scene.live(sleep(Duration::from_secs(30))).await;
        };
        switched_in(&[Family::Managed], "{}", &left, &async |berthed: &Berthed| {
            let what = format!("{status:?} {minutes_later}");
            sleep(Duration::from_mins(20)).await;
            let node = berthed.scene.nodes().await.pop().expect("a node");
            assert_eq!(node["spec"]["unschedulable"] == true, !is_freed, "{what}: {node}");
            berthed.scene.apply(workload(0)).await;
            sleep(Duration::from_hours(1)).await;
            // Nobody takes away what somebody has something in mind with.
            assert_eq!(berthed.scene.machines(), usize::from(!is_freed), "{what}");
        });
    }
}

/// Neither what is written down of it nor its node says which machine it is, and that is older than all of it. It stays, as
/// others come and go; and whoever deletes it is told that its machine is left.
#[test]
fn a_node_on_nobody_knows_which_machine_jams_nothing() {
    let left = async |berthed: &Berthed, family: Family| {
        berthed.scene.apply(workload(0)).await;
        bought(berthed, family).await;
        berthed.scene.live(sleep(Duration::from_mins(5))).await;
        berthed.scene.apply(theirs(family, &json!({}))).await;
        let mut pods = workload(2);
        pods["spec"]["template"]["spec"]["nodeSelector"] = json!({});
        keep_apart(&mut pods);
        berthed.scene.apply(pods).await;
        tell_ready(berthed, None).await;
        berthed.scene.live(runs(berthed, 300)).await;
    };
    let weather = r#"{"joins": {"unidentified": {"permille": 1000}, "renamed": {"permille": 1000}}}"#;
    switched_in(&Family::ALL, weather, &left, &async |berthed: &Berthed| {
        let is_alone = async || names(berthed).await == [NAME] && berthed.scene.machines() == 1;
        berthed
            .scene
            .until(600, "the other pod gets a node", async || berthed.scene.running().await == 2)
            .await;
        assert_eq!(berthed.scene.machines(), 2, "{:?}", berthed.family);
        berthed.scene.apply(workload(0)).await;
        berthed.scene.until(3600, "the other node goes", is_alone).await;
        sleep(Duration::from_hours(1)).await;
        let theirs = berthed.scene.get(&format!("{NODES}/{NAME}")).await;
        assert_eq!(condition(&theirs, "Launched"), Some(("Unknown", "MachineUnknown")), "{theirs}");
        assert!(is_alone().await && berthed.scene.nodes().await.len() == 1);
        berthed.scene.delete(&format!("{NODES}/{NAME}")).await;
        let is_gone = async || names(berthed).await.is_empty() && berthed.scene.nodes().await.is_empty();
        berthed.scene.until(900, "it goes", is_gone).await;
        let told = berthed.scene.events(NAME).await;
        assert!(told.iter().any(|words| words.contains("end it at VPSie")), "{told:?}");
        assert_eq!(berthed.scene.machines(), 1, "nobody could know that it is this one");
    });
}

/// Its own autoscaler leaves nothing on nodes, and kubelets may say nothing of their machines.
#[test]
fn a_node_that_is_up_stays_until_it_is_not_needed() {
    let everywhere = Family::ALL.as_slice();
    for (families, joins, known) in [
        (everywhere, "{}", Known::Identifier),
        (
            everywhere,
            r#"{"unidentified": {"permille": 1000}, "renamed": {"permille": 1000}}"#,
            Known::Identifier,
        ),
        (
            everywhere,
            r#"{"misidentified": {"permille": 1000}, "renamed": {"permille": 1000}}"#,
            Known::Identifier,
        ),
        (everywhere, "{}", Known::IdentifierElsewhere),
        (&[Family::Managed], "{}", Known::Number),
        (everywhere, "{}", Known::Hostname),
        (everywhere, "{}", Known::Nothing),
        (everywhere, r#"{"unidentified": {"permille": 1000}}"#, Known::Hostname),
    ] {
        let left = async |berthed: &Berthed, family: Family| {
            let write = |node: &mut Value, id: &MachineId| match known {
                Known::Identifier => node["spec"]["vpsieNodeIdentifier"] = json!(id.as_str()),
                Known::IdentifierElsewhere => {
                    node["spec"]["vpsieNodeIdentifier"] = json!(id.as_str());
                    node["spec"]["resourceIdentifier"] = json!("c-1-by-another-name");
                }
                Known::Number => node["spec"]["vpsieInstanceID"] = json!(number_of(id)),
                Known::Hostname => {}
                Known::Nothing => node["spec"]["instanceType"] = json!("retired"),
            };
            let id = brought_up(berthed, family, write).await;
            let name = |account: &Account| account.record(&id).map(|record| record.machine.name.to_string());
            let hostname = berthed.vpsie.cloud().inspect(name).filter(|_| known != Known::Nothing);
            tell_ready(berthed, hostname).await;
        };
        let weather = format!(r#"{{"joins": {joins}}}"#);
        switched_in(families, &weather, &left, &async |berthed: &Berthed| {
            let what = format!("{joins} {known:?}");
            sleep(Duration::from_mins(20)).await;
            assert_eq!(
                (names(berthed).await, berthed.scene.machines()),
                (vec![NAME.to_owned()], 1),
                "{what}"
            );
            assert_eq!(berthed.scene.running().await, 1, "{what}");
            let node = berthed.scene.nodes().await.pop().expect("a node");
            assert_eq!(node["metadata"]["labels"]["team"], "quay", "{what}: its group's labels are on it");
            assert!(node["spec"]["taints"].to_string().contains("dedicated"), "{what}: and its taints");
            berthed.scene.apply(workload(0)).await;
            let is_gone = async || berthed.scene.machines() == 0 && names(berthed).await.is_empty();
            berthed.scene.until(3600, &format!("{what}: it goes like any other"), is_gone).await;
        });
    }
}
