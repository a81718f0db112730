//! NodeGroups that buy from VPSie: the same loop, with VPSie's objects and through VPSie's API.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use berth_api::ClassKind;
use berth_cloud::Cloud;
use berth_cloud::vpsie::{Family, Transport};
use berth_core::claim::Failures;
use berth_operator::rbac::{PERMISSIONS, Part, Scope};
use berth_operator::{Clock, Clouds, Cluster, Lead, Metrics, Operator, Report, Settings, VpsieAccess};
use berth_world::cloud::Account;
use berth_world::cloud::weather::Weather;
use berth_world::vpsie::{Faults, InProcess, Vpsie};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::account::{self, CLUSTER, GROUPS, NODES, SECRET, group, suited};
use crate::awaited;
use crate::founding;
use crate::nodeclass;
use crate::permissions;
use crate::scene::{Scene, began, condition, deployment, text};

/// A cluster, a VPSie, and both ways to it.
pub(crate) struct Berthed {
    pub(crate) scene: Scene,
    pub(crate) vpsie: Vpsie,
    pub(crate) family: Family,
    pub(crate) settings: Settings,
}

impl Berthed {
    pub(crate) async fn new(family: Family, weather: Weather, faults: Faults) -> Self {
        Self::selling(account::OFFERS, family, weather, faults).await
    }

    pub(crate) async fn selling(offers: &str, family: Family, weather: Weather, faults: Faults) -> Self {
        let vpsie = account::vpsie(offers, weather, 1, faults, began());
        let scene = Scene::on(1, vpsie.cloud().clone()).await;
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": permissions::NAMESPACE } });
        scene.apply(namespace).await;
        Self { scene, vpsie, family, settings: Settings::default() }
    }

    /// The cloud, as the client's Secret opens it.
    fn cloud(&self, client: &kube::Client) -> Arc<dyn Cloud> {
        self.cloud_through(client, Arc::new(InProcess(self.vpsie.clone())))
    }

    pub(crate) fn cloud_through(
        &self,
        client: &kube::Client,
        transport: Arc<dyn Transport>,
    ) -> Arc<dyn Cloud> {
        self.cloud_with(client, transport, self.access())
    }

    /// One whose Secret says in which datacenter.
    pub(crate) fn cloud_somewhere(
        &self,
        client: &kube::Client,
        transport: Arc<dyn Transport>,
    ) -> Arc<dyn Cloud> {
        self.cloud_with(client, transport, VpsieAccess { datacenter: None, ..self.access() })
    }

    fn access(&self) -> VpsieAccess {
        VpsieAccess {
            whereabouts: self.settings.whereabouts.clone(),
            ..account::access(self.family, permissions::NAMESPACE, "berth")
        }
    }

    fn cloud_with(
        &self,
        client: &kube::Client,
        transport: Arc<dyn Transport>,
        access: VpsieAccess,
    ) -> Arc<dyn Cloud> {
        let vpsie = self.vpsie.clone();
        let clock = Clock::new(move || vpsie.cloud().inspect(Account::now));
        let cluster = Cluster::through(client.clone(), "the world");
        berth_operator::vpsie_cloud(&cluster, access, transport, &clock, self.metrics())
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.settings.metrics
    }

    pub(crate) fn operator(&self) -> Operator {
        self.operator_of("berth", 1)
    }

    /// An operator of this name, which leads in this epoch.
    pub(crate) fn operator_of(&self, name: &str, epoch: u64) -> Operator {
        self.operator_through((kube::Client::new(self.scene.world.client(name), "default"), name), epoch)
    }

    /// Says who Berth is at VPSie.
    pub(crate) async fn sign(&self, client_secret: &str) {
        let secret = account::secret(permissions::NAMESPACE, account::URL, client_secret);
        self.scene.apply(secret).await;
    }

    /// One of several, which leads or not.
    pub(crate) fn operator_as(&self, name: &str, lead: Lead) -> Operator {
        let client = kube::Client::new(self.scene.world.client(name), "default");
        self.scene.operator_with(self.means(&client), (client, name), lead)
    }

    fn operator_through(&self, (client, name): (kube::Client, &str), epoch: u64) -> Operator {
        self.scene.operator_with(self.means(&client), (client, name), berth_operator::alone(epoch))
    }

    fn means(&self, client: &kube::Client) -> (Clouds, Settings) {
        let clouds = BTreeMap::from([(ClassKind::Vpsie, self.cloud(client))]);
        (clouds, self.settings.clone())
    }

    /// What is counted so far.
    pub(crate) fn counted(&self) -> String {
        self.metrics().scrape(&Report::default(), "berth")
    }

    pub(crate) async fn group(&self, name: &str) -> Value {
        self.scene.get(&format!("{GROUPS}/{name}")).await
    }

    pub(crate) async fn nodes(&self) -> Vec<Value> {
        self.scene.list(&NODES.replace("namespaces/kube-system/", "")).await
    }

    /// The phases of all VPSieNodes.
    pub(crate) async fn phases(&self) -> Vec<String> {
        self.nodes().await.iter().map(|node| text(&node["status"]["phase"]).to_owned()).collect()
    }
}

pub(crate) const CONFIGS: &str = "/apis/autoscaler.vpsie.com/v1alpha1/autoscalerconfigs";

pub(crate) fn config(name: &str, settings: &Value) -> Value {
    json!({
        "apiVersion": "autoscaler.vpsie.com/v1alpha1", "kind": "AutoscalerConfig",
        "metadata": { "name": name }, "spec": { "globalSettings": settings },
    })
}

/// Pods that only go where the group's nodes are.
pub(crate) fn workload(replicas: u32) -> Value {
    suited(deployment("web", replicas, "1"))
}

pub(crate) fn played(family: Family, script: impl AsyncFnOnce(&Berthed)) {
    awaited(async {
        let berthed = Berthed::new(family, Weather::default(), Faults::default()).await;
        berthed.sign(SECRET).await;
        let operator = berthed.operator();
        berthed.scene.play_with(operator, script(&berthed)).await;
    });
}

#[test]
fn a_group_grows_and_shrinks() {
    for family in Family::ALL {
        played(family, async |berthed| {
            let scene = &berthed.scene;
            scene.apply(group("workers", |_| {})).await;
            scene.apply(workload(6)).await;
            scene.until(600, "six pods run", async || scene.running().await == 6).await;
            scene
                .until(60, "all nodes are ready", async || {
                    berthed.phases().await.iter().all(|phase| phase == "Ready")
                })
                .await;
            scene
                .until(600, "the group has what it wants", async || {
                    let status = berthed.group("workers").await["status"].clone();
                    let count = json!(scene.machines());
                    let counts =
                        ["currentNodes", "desiredNodes", "readyNodes"].map(|field| status[field] == count);
                    counts == [true; 3] && berthed.nodes().await.len() == scene.machines()
                })
                .await;
            assert_eq!(
                condition(&berthed.group("workers").await, "Ready").map(|(status, _)| status),
                Some("True")
            );
            for node in berthed.nodes().await {
                let reason = &node["metadata"]["annotations"]["autoscaler.vpsie.com/creation-reason"];
                assert_eq!(reason, "metrics", "{node}");
            }
            for node in scene.nodes().await.into_iter().chain(berthed.nodes().await) {
                let labels = &node["metadata"]["labels"];
                for (label, value) in [("nodegroup", "workers"), ("nodegroup-namespace", "kube-system")] {
                    assert_eq!(labels[format!("autoscaler.vpsie.com/{label}")], value, "{node}");
                }
            }
            let claims = berthed.nodes().await;
            for node in scene.nodes().await {
                assert_eq!(node["metadata"]["labels"]["team"], "quay");
                // What is in a namespace owns nothing that is in none.
                assert_eq!(node["metadata"]["ownerReferences"], Value::Null, "{node}");
                let uid = &node["metadata"]["annotations"]["berth.dev/claim"];
                assert!(claims.iter().any(|claim| claim["metadata"]["uid"] == *uid), "{node}");
                let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
                assert!(taints.iter().any(|taint| taint["key"] == "dedicated"), "{taints:?}");
            }
            scene.apply(workload(0)).await;
            scene
                .until(3600, "none is left", async || {
                    scene.machines() == 0
                        && berthed.nodes().await.is_empty()
                        && scene.nodes().await.is_empty()
                })
                .await;
        });
    }
}

/// A node comes and goes, under these rules.
fn came_and_went(rules: &[(Scope, Value)]) -> Result<(), String> {
    let mut outcome = Ok(());
    awaited(async {
        let berthed = Berthed::new(Family::Servers, Weather::default(), Faults::default()).await;
        berthed.sign(SECRET).await;
        permissions::grant(&berthed.scene, rules).await;
        let operator = berthed.operator_through((permissions::client(&berthed.scene), "berth"), 1);
        let reports = operator.reports();
        let script = async { outcome = berthed.come_and_go(&reports).await };
        Box::pin(berthed.scene.play_with(operator, script)).await;
    });
    outcome
}

impl Berthed {
    async fn come_and_go(&self, reports: &watch::Receiver<Arc<Report>>) -> Result<(), String> {
        let scene = &self.scene;
        scene.apply(group("workers", |_| {})).await;
        scene.apply(nodeclass::class(|_| {})).await;
        let is_ready = async || condition(&nodeclass::seen(scene).await, "Ready") == Some(("True", "Ready"));
        happens(60, "a class is ready", is_ready).await?;
        scene.apply(config("default", &json!({ "unschedulablePodGracePeriodSeconds": 0 }))).await;
        let is_read = async || scene.get(&format!("{CONFIGS}/default")).await["status"]["active"] == true;
        happens(30, "the settings are in use", is_read).await?;
        scene.apply(workload(1)).await;
        happens(240, "the pod runs", async || scene.running().await == 1).await?;
        happens(30, "the node is ready", async || self.phases().await == ["Ready"]).await?;
        happens(30, "the group says so", async || self.group("workers").await["status"]["readyNodes"] == 1)
            .await?;
        let is_measured =
            async || self.metrics().scrape(&reports.borrow(), "berth").contains("utilization_cpu_percent{");
        happens(120, "what it uses is measured", is_measured).await?;
        scene.apply(workload(0)).await;
        let is_empty = async || scene.machines() == 0 && self.nodes().await.is_empty();
        happens(900, "the node goes", is_empty).await?;
        scene.apply(founding::config(|_| {})).await;
        scene.apply(founding::stranger("other", "1")).await;
        happens(240, "a pod that no group fits runs", async || scene.running().await == 1).await
    }
}

async fn happens(secs_max: u64, what: &str, holds: impl AsyncFn() -> bool) -> Result<(), String> {
    for _ in 0..secs_max {
        if holds().await {
            return Ok(());
        }
        sleep(Duration::from_secs(1)).await;
    }
    Err(what.to_owned())
}

#[test]
fn nothing_is_allowed_for_vpsie_in_vain() {
    let parts = [Part::See, Part::Act, Part::Vpsie];
    assert_eq!(came_and_went(&permissions::allowed(&parts, None)), Ok(()));
    for (row, verb) in permissions::cases(Part::Vpsie) {
        let outcome = came_and_went(&permissions::allowed(&parts, Some((row, verb))));
        assert!(outcome.is_err(), "{verb} {} is not needed", PERMISSIONS[row].resource);
    }
}

/// The first machine never joins; there may be only one.
#[test]
fn a_node_that_never_comes_up_fails_and_makes_room() {
    let weather = r#"{"launches": {"stillborn": {"nth": [1]}}}"#;
    // For half an hour if nobody says, for as long as is said, or until somebody deletes it.
    for (failures, secs) in
        [(None, Some(1800)), (Some(Failures::KeptSecs(400)), Some(400)), (Some(Failures::Kept), None)]
    {
        failed_and_made_room(weather, failures, secs);
    }
}

fn failed_and_made_room(weather: &str, failures: Option<Failures>, kept_secs: Option<u64>) {
    let weather: Weather = serde_json::from_str(weather).expect("weather");
    awaited(async {
        let mut berthed = Berthed::new(Family::Servers, weather, Faults::default()).await;
        berthed.settings.failed_vpsie_nodes = failures.unwrap_or(berthed.settings.failed_vpsie_nodes);
        berthed.sign(SECRET).await;
        let scene = &berthed.scene;
        let script = async {
            scene.apply(group("workers", |group| group["spec"]["maxNodes"] = json!(1))).await;
            scene.apply(workload(1)).await;
            scene
                .until(1200, "it failed", async || berthed.phases().await.contains(&"Failed".to_owned()))
                .await;
            let failed_at = scene.world.clock_of("test");
            scene.until(300, "the pod runs on another", async || scene.running().await == 1).await;
            assert_eq!(scene.machines(), 1, "the machine of the failed node is ended");
            let failed = berthed.nodes().await.into_iter().find(|node| node["status"]["phase"] == "Failed");
            let failed = failed.expect("it is kept to be seen");
            assert_eq!(condition(&failed, "Failed"), Some(("True", "MachineGone")));
            let workers = berthed.group("workers").await;
            assert_eq!(workers["status"]["currentNodes"], 1, "one that failed does not count");
            let of_group = r#"{nodegroup="workers",namespace="kube-system"}"#;
            let deletion = format!("vpsienode_ttl_deletions_total{of_group} 1");
            let Some(kept_secs) = kept_secs else {
                sleep(Duration::from_hours(3)).await;
                assert_eq!(berthed.phases().await.len(), 2, "it stays: {}", scene.told().await);
                assert!(!berthed.counted().contains(&deletion));
                return;
            };
            scene.until(1900, "it is gone", async || berthed.phases().await == ["Ready"]).await;
            let took = scene.world.clock_of("test").duration_since(failed_at).as_secs().unsigned_abs();
            assert!((kept_secs - 10..kept_secs + 60).contains(&took), "after {took} s");
            let counted = berthed.counted();
            assert!(counted.contains(&deletion), "{counted}");
        };
        scene.play_with(berthed.operator(), script).await;
    });
}

#[test]
fn groups_that_must_not_grow_do_not_and_say_why() {
    type Change = fn(&mut Value);
    let cases: [(Change, &str, Option<bool>); 4] = [
        (|group| group["metadata"]["labels"] = json!({}), "nobody's to change", None),
        (
            |group| group["metadata"]["annotations"] = json!({ "autoscaler.vpsie.com/pause": "true" }),
            "PoolPaused",
            Some(false),
        ),
        (
            |group| {
                group["metadata"]["annotations"] = json!({ "autoscaler.vpsie.com/max-nodes-override": "0" });
            },
            "NodeLimit",
            Some(false),
        ),
        (
            |group| group["spec"]["offeringIDs"] = json!(["huge"]),
            "`huge` is neither an offering nor a type",
            Some(true),
        ),
    ];
    // A group that is not Berth's is not written to.
    for (change, words, is_error) in cases {
        played(Family::Managed, async |berthed| {
            let scene = &berthed.scene;
            scene.apply(group("workers", change)).await;
            scene.apply(workload(1)).await;
            scene
                .until(60, words, async || scene.events("web").await.iter().any(|said| said.contains(words)))
                .await;
            sleep(Duration::from_mins(5)).await;
            assert_eq!(scene.machines(), 0, "{words}");
            let error =
                condition(&berthed.group("workers").await, "Error").map(|(status, _)| status == "True");
            assert_eq!(error, is_error, "{words}");
        });
    }
}

/// One offer has no price, one contradicts another, and a stranger has a server with odd tags: they are named, and groups go on.
#[test]
fn what_cannot_be_read_of_an_answer_hides_nothing_else() {
    let odd_offers = vec![
        json!({ "id": "90", "name": "free", "cpu": 2, "ram": 4096, "disk": 80, "datacenter_id": "dc-1" }),
        json!({ "id": "91", "name": "small", "cpu": 64, "ram": 4096, "disk": 80, "hourly_price": 0.01,
                "datacenter_id": "dc-1" }),
    ];
    let odd_servers =
        vec![json!({ "id": "92", "hostname": "theirs", "status": "running", "tags": { "a": "b" } })];
    for (family, count) in [(Family::Servers, 3), (Family::Vm, 3), (Family::Managed, 2)] {
        awaited(async {
            let faults = Faults {
                odd_offers: odd_offers.clone(),
                odd_servers: odd_servers.clone(),
                ..Faults::default()
            };
            let berthed = Berthed::new(family, Weather::default(), faults).await;
            berthed.sign(SECRET).await;
            let scene = &berthed.scene;
            let operator = berthed.operator();
            let reports = operator.reports();
            let script = async {
                scene.apply(group("workers", |_| {})).await;
                scene.apply(workload(6)).await;
                scene.until(600, "six pods run", async || scene.running().await == 6).await;
                let left_out = format!("berth_unreadable_objects {count}.0");
                scene
                    .until(120, "what is left out is counted", async || {
                        berthed.metrics().scrape(&reports.borrow(), "berth").contains(&left_out)
                    })
                    .await;
                let troubles: Vec<String> =
                    reports.borrow().troubles.iter().map(ToString::to_string).collect();
                assert!(troubles.iter().any(|told| told.contains("offer free: ")), "{troubles:?}");
                assert!(troubles.iter().any(|told| told.contains("offer small: ")), "{troubles:?}");
                assert_eq!(
                    condition(&berthed.group("workers").await, "Error").map(|(status, _)| status),
                    Some("False")
                );
                scene.apply(workload(0)).await;
                scene.until(3600, "none is left", async || scene.machines() == 0).await;
            };
            scene.play_with(operator, script).await;
        });
    }
}

/// In managed clusters VPSie sells sizes, and groups may name offerings of servers beside them.
#[test]
fn a_size_is_bought_where_the_offerings_are_unknown() {
    played(Family::Managed, async |berthed| {
        let scene = &berthed.scene;
        let sized = |group: &mut Value| {
            group["spec"]["offeringIDs"] = json!(["of-servers"]);
            group["spec"]["kubeSizeID"] = json!(2);
            group["spec"]["preferredInstanceType"] = json!("of-servers");
        };
        scene.apply(group("workers", sized)).await;
        scene.apply(workload(1)).await;
        scene.until(300, "the pod runs", async || scene.running().await == 1).await;
        assert_eq!(berthed.vpsie.nodes_by_size(), BTreeMap::from([(2, 1)]));
        let workers = berthed.group("workers").await;
        assert_eq!(condition(&workers, "Error").map(|(status, _)| status), Some("False"), "{workers}");
    });
}

/// Its datacenter is not one, or its cluster is another, whose machines would join this one and never be known for its own:
/// it says so and buys nothing, and the others go on.
#[test]
fn a_group_that_is_nowhere_here_says_so() {
    let cases = [
        ("datacenterID", "dc-x", "UnknownDatacenter", ["spec.datacenterID", "`dc-x`", "nothing"]),
        ("resourceIdentifier", "c-2", "OtherCluster", ["spec.resourceIdentifier", "`c-2`", "`c-1`"]),
    ];
    for (field, value, reason, words) in cases {
        for family in Family::ALL {
            played(family, async |berthed| {
                let scene = &berthed.scene;
                let astray = |group: &mut Value| {
                    group["spec"][field] = json!(value);
                    group["spec"]["minNodes"] = json!(1);
                };
                scene.apply(group("lost", astray)).await;
                scene.apply(group("workers", |_| {})).await;
                scene.apply(workload(1)).await;
                scene.until(300, "the pod runs", async || scene.running().await == 1).await;
                sleep(Duration::from_mins(20)).await;
                let lost = berthed.group("lost").await;
                assert_eq!(condition(&lost, "Error"), Some(("True", reason)), "{lost}");
                let told = lost["status"]["conditions"].to_string();
                assert!(words.iter().all(|word| told.contains(word)), "{told}");
                assert_eq!(condition(&berthed.group("workers").await, "Error"), Some(("False", "Fine")));
                let nodes = berthed.nodes().await;
                let groups: Vec<&Value> = nodes.iter().map(|node| &node["spec"]["nodeGroupName"]).collect();
                assert_eq!(groups, ["workers"], "{reason}");
                assert_eq!(scene.machines(), 1, "{reason}");
            });
        }
    }
}

#[test]
fn what_a_group_says_of_its_machines_is_ordered() {
    played(Family::Servers, async |berthed| {
        let scene = &berthed.scene;
        let wishes = |group: &mut Value| {
            group["spec"]["osImageID"] = json!("debian-13");
            group["spec"]["sshKeyIDs"] = json!(["key-1", "key-2"]);
            group["spec"]["tags"] = json!(["harbour"]);
            group["spec"]["notes"] = json!("for the quay");
        };
        scene.apply(group("workers", wishes)).await;
        scene.apply(workload(1)).await;
        scene.until(300, "the pod runs", async || scene.running().await == 1).await;
        let ordered = berthed.vpsie.orders();
        let expected = json!({
            "projectId": "p-1", "os_image_id": "debian-13", "ssh_key_ids": ["key-1", "key-2"],
            "kubernetes_version": "v1.34.0", "notes": "for the quay",
        });
        let [order] = &ordered[..] else { panic!("{ordered:?}") };
        for (field, value) in expected.as_object().expect("an object") {
            assert_eq!(order[field], *value, "{field}");
        }
        assert!(order["tags"].to_string().contains("harbour"), "{order}");
    });
}

/// What VPSie makes its machines like in managed clusters is not for groups to say, and they are told so. It is no error.
#[test]
fn what_makes_no_difference_at_vpsie_is_said() {
    for family in Family::ALL {
        played(family, async |berthed| {
            let scene = &berthed.scene;
            scene.apply(group("plain", |_| {})).await;
            scene.apply(group("workers", |group| group["spec"]["notes"] = json!("for the quay"))).await;
            let sized = |group: &mut Value| group["spec"]["kubeSizeID"] = json!(2);
            scene.apply(group("sized", sized)).await;
            let alike = |group: &mut Value| {
                sized(group);
                group["spec"]["offeringIDs"] = json!(["small"]);
            };
            scene.apply(group("alike", alike)).await;
            sleep(Duration::from_mins(1)).await;
            let is_managed = family == Family::Managed;
            let idle = |offerings: &str| {
                format!("spec.kubeSizeID: `2` makes no difference beside offeringIDs ({offerings})")
            };
            for (name, fields) in [
                ("plain", None),
                ("workers", Some("says: notes\"".to_owned()).filter(|_| is_managed)),
                ("sized", Some(idle("big, small"))),
                // Servers are not sold by size.
                ("alike", Some(idle("small")).filter(|_| !is_managed)),
            ] {
                let group = berthed.group(name).await;
                let status = |kind: &str| condition(&group, kind).map(|(status, _)| status);
                assert_eq!(status("Error"), Some("False"), "{group}");
                assert_eq!(
                    status("FieldsNotApplied"),
                    fields.as_ref().map(|_| "True"),
                    "{family:?}: {group}"
                );
                let said = &group["status"]["conditions"];
                assert!(said.to_string().contains(&fields.unwrap_or_default()), "{said}");
            }
        });
    }
}

/// Whoever was not told how to get to VPSie says so where groups wait for it.
#[test]
fn groups_say_that_nobody_buys_for_them() {
    awaited(async {
        let scene = Scene::new(1, Weather::default()).await;
        scene.apply(group("workers", |_| {})).await;
        let script = async {
            sleep(Duration::from_mins(1)).await;
            let group = scene.get(&format!("{GROUPS}/workers")).await;
            assert_eq!(condition(&group, "Error"), Some(("True", "PoolNotReady")), "{group}");
            assert!(group["status"].to_string().contains("say --vpsie-secret-name"), "{group}");
        };
        scene.play(script).await;
    });
}

#[test]
fn a_group_that_is_deleted_goes_after_its_nodes() {
    played(Family::Managed, async |berthed| {
        let scene = &berthed.scene;
        scene.apply(group("workers", |_| {})).await;
        scene.apply(workload(10)).await;
        scene.until(600, "all run", async || scene.running().await == 10).await;
        assert!(scene.machines() > 1);
        scene.delete(&format!("{GROUPS}/workers")).await;
        scene
            .until(600, "all is gone", async || {
                let is_gone = scene.list(GROUPS).await.is_empty();
                let (nodes, machines) = (berthed.nodes().await.len(), scene.machines());
                assert!(
                    !is_gone || (nodes, machines) == (0, 0),
                    "{nodes} nodes and {machines} machines are left"
                );
                is_gone
            })
            .await;
    });
}

/// Somebody else runs this group: its nodes have no label of Berth's, and no ledger knows of them.
#[test]
fn what_is_not_managed_is_left_alone() {
    played(Family::Managed, async |berthed| {
        let scene = &berthed.scene;
        scene.apply(group("theirs", |group| group["metadata"]["labels"] = json!({}))).await;
        let node = json!({
            "apiVersion": "autoscaler.vpsie.com/v1alpha1", "kind": "VPSieNode",
            "metadata": { "name": "theirs-1", "namespace": "kube-system" },
            "spec": {
                "vpsieInstanceID": 0, "instanceType": "small", "nodeGroupName": "theirs", "datacenterID": "dc-1",
                "resourceIdentifier": CLUSTER, "project": "p-1", "kubernetesVersion": "v1.34.0",
            },
        });
        scene.apply(node).await;
        scene.apply(group("ours", |_| {})).await;
        scene.apply(workload(1)).await;
        let theirs = async || (berthed.group("theirs").await, berthed.nodes().await.pop());
        let before = theirs().await;
        assert_eq!(before.1.as_ref().map(|node| text(&node["metadata"]["name"])), Some("theirs-1"));
        scene.until(300, "the pod runs on ours", async || scene.running().await == 1).await;
        sleep(Duration::from_mins(30)).await;
        assert_eq!(theirs().await, before, "{}", scene.told().await);
    });
}
