//! Pods that no group fits, and the groups that are made for them.

use std::sync::Arc;
use std::time::Duration;

use berth_api::GroupDefaults;
use berth_cloud::vpsie::Family;
use berth_operator::{Mode, Report};
use berth_world::cloud::weather::Weather;
use berth_world::vpsie::Faults;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::account::{SECRET, group};
use crate::awaited;
use crate::scene::{deployment, text};
use crate::vpsie::{Berthed, workload};

const ALL_GROUPS: &str = "/apis/autoscaler.vpsie.com/v1alpha1/nodegroups";

/// Groups are made at once, and need no nodes when nobody wants them.
pub(crate) fn config(change: impl FnOnce(&mut Value)) -> Value {
    let mut config = json!({
        "apiVersion": "autoscaler.vpsie.com/v1alpha1", "kind": "AutoscalerConfig", "metadata": { "name": "default" },
        "spec": {
            "nodeGroupDefaults": {
                "minNodes": 0, "maxNodes": 5, "datacenterID": "dc-1", "project": "p-1",
                "labels": { "made": "yes" }, "tags": ["harbour"],
                "scaleDownPolicy": { "stabilizationWindowSeconds": 60, "cooldownSeconds": 60 },
            },
            "globalSettings": { "unschedulablePodGracePeriodSeconds": 0, "scaleUpCooldownSeconds": 0 },
        },
    });
    change(&mut config);
    config
}

/// A pod that asks for nodes which no group has.
pub(crate) fn stranger(name: &str, cpu: &str) -> Value {
    let mut stranger = deployment(name, 1, cpu);
    stranger["spec"]["template"]["spec"]["nodeSelector"] = json!({ "team": "gpu" });
    stranger["spec"]["template"]["spec"]["tolerations"] =
        json!([{ "key": "dedicated", "operator": "Equal", "value": "gpu", "effect": "NoSchedule" }]);
    stranger
}

type Reports = watch::Receiver<Arc<Report>>;

fn played(families: &[Family], script: &impl AsyncFn(&Berthed, &Reports)) {
    for family in families {
        awaited(async {
            let berthed = Berthed::new(*family, Weather::default(), Faults::default()).await;
            berthed.sign(SECRET).await;
            let operator = berthed.operator();
            let reports = operator.reports();
            berthed.scene.play_with(operator, script(&berthed, &reports)).await;
        });
    }
}

/// The groups that were made.
async fn made(berthed: &Berthed) -> Vec<Value> {
    let groups = berthed.scene.list(ALL_GROUPS).await;
    groups.into_iter().filter(|group| text(&group["metadata"]["name"]).starts_with("auto-")).collect()
}

async fn is_told(berthed: &Berthed, pods: &str, words: &str) -> bool {
    berthed.scene.events(pods).await.iter().any(|said| said.contains(words))
}

#[test]
fn a_pod_that_no_group_fits_gets_one_and_runs() {
    played(&Family::ALL, &async |berthed: &Berthed, reports: &Reports| {
        let scene = &berthed.scene;
        scene.apply(config(|_| {})).await;
        scene.apply(group("workers", |_| {})).await;
        scene.apply(stranger("web", "1")).await;
        scene.until(300, "it runs", async || scene.running().await == 1).await;
        let made_groups = made(berthed).await;
        let [group] = &made_groups[..] else { panic!("{made_groups:?}") };
        let (metadata, spec) = (&group["metadata"], &group["spec"]);
        assert!(text(&metadata["name"]).starts_with("auto-dc-1-"), "{metadata}");
        assert_eq!(metadata["namespace"], "default");
        assert_eq!(metadata["labels"]["autoscaler.vpsie.com/managed"], "true");
        assert_eq!(metadata["annotations"]["autoscaler.vpsie.com/creation-reason"], "metrics");
        let told = text(&metadata["annotations"]["berth.dev/created-for"]);
        assert!(told.starts_with("default/web-"), "{told}");
        let taint = json!({ "key": "dedicated", "value": "gpu", "effect": "NoSchedule" });
        for (field, expected) in [
            ("labels", json!({ "made": "yes", "team": "gpu" })),
            ("taints", json!([taint])),
            ("minNodes", json!(0)),
            ("maxNodes", json!(5)),
            ("resourceIdentifier", json!("c-1")),
            ("project", json!("p-1")),
            ("tags", json!(["harbour"])),
        ] {
            assert_eq!(spec[field], expected, "{field}");
        }
        let offerings = spec["offeringIDs"].as_array().cloned().unwrap_or_default();
        let numbers: Vec<Option<char>> = offerings.iter().map(|id| text(id).chars().next()).collect();
        assert_eq!(numbers, [Some('2'), Some('1')], "the cheapest first: {offerings:?}");
        assert!(text(&spec["kubernetesVersion"]).starts_with("v1."), "the cluster's own: {spec}");
        let nodes = scene.nodes().await;
        let [node] = &nodes[..] else { panic!("{nodes:?}") };
        assert_eq!(node["metadata"]["labels"]["team"], "gpu");
        assert_eq!(
            node["metadata"]["labels"]["node.kubernetes.io/instance-type"], "small",
            "the cheapest that fits"
        );
        assert!(node["spec"]["taints"].to_string().contains("dedicated"), "{node}");
        let told = berthed.metrics().scrape(&reports.borrow(), "berth");
        for line in [
            r#"dynamic_nodegroup_creations_total{result="success",namespace="default"} 1"#,
            r#"events_emitted_total{event_type="Normal",reason="GroupCreated",object_kind="NodeGroup"} 1"#,
        ] {
            assert!(told.contains(&format!("vpsie_autoscaler_{line}")), "{line}\n{told}");
        }
        scene.apply(stranger("second", "6")).await;
        scene.until(300, "another has room in the same group", async || scene.running().await == 2).await;
        assert_eq!(made(berthed).await.len(), 1);
        for name in ["web", "second"] {
            let mut none = stranger(name, "1");
            none["spec"]["replicas"] = json!(0);
            scene.apply(none).await;
        }
        scene.until(3600, "its nodes go", async || scene.machines() == 0).await;
        assert_eq!(made(berthed).await.len(), 1, "and it stays, for others");
    });
}

#[test]
fn where_no_group_is_to_be_made_none_is_and_pods_are_told_why() {
    type Change = fn(&mut Value);
    let cases: [(&str, Change, &str, &str); 6] = [
        ("too large for every offering", |_| (), "20", "a new group: InsufficientCpu"),
        (
            "too large for those that are allowed",
            |config| config["spec"]["nodeGroupDefaults"]["offeringIDs"] = json!(["small"]),
            "3",
            "a new group: InsufficientCpu",
        ),
        (
            "turned off",
            |config| config["spec"]["globalSettings"]["enableDynamicNodeGroupCreation"] = json!(false),
            "1",
            "workers: UntoleratedTaint",
        ),
        (
            "nobody says in which project",
            |config| {
                drop(config["spec"]["nodeGroupDefaults"].as_object_mut().map(|all| all.remove("project")));
            },
            "1",
            "a new group: TemplateIncomplete: spec.nodeGroupDefaults of the AutoscalerConfig `default` lacks project",
        ),
        (
            "they would be for another cluster",
            |config| config["spec"]["nodeGroupDefaults"]["resourceIdentifier"] = json!("c-2"),
            "1",
            "a new group: OtherCluster: spec.nodeGroupDefaults.resourceIdentifier of the AutoscalerConfig `default`: \
             it names the cluster `c-2` at VPSie, and Berth buys for `c-1`",
        ),
        (
            "there is no such namespace",
            |config| config["spec"]["nodeGroupDefaults"]["namespace"] = json!("nowhere"),
            "1",
            "was not made",
        ),
    ];
    for (what, change, cpu, words) in cases {
        played(&[Family::Managed], &async |berthed: &Berthed, _: &Reports| {
            let scene = &berthed.scene;
            scene.apply(config(change)).await;
            scene.apply(group("workers", |_| {})).await;
            scene.apply(stranger("web", cpu)).await;
            scene.until(90, what, async || is_told(berthed, "web", words).await).await;
            sleep(Duration::from_mins(5)).await;
            assert_eq!((made(berthed).await.len(), scene.machines()), (0, 0), "{what}");
        });
    }
}

#[test]
fn a_group_that_may_not_grow_is_not_bypassed() {
    type Change = fn(&mut Value);
    let cases: [(&str, Change); 3] = [
        ("NodeLimit", |group| group["spec"]["maxNodes"] = json!(1)),
        ("PoolPaused", |group| {
            group["metadata"]["annotations"] = json!({ "autoscaler.vpsie.com/pause": "true" });
        }),
        ("nobody's to change", |group| group["metadata"]["labels"] = json!({})),
    ];
    for (words, change) in cases {
        played(&[Family::Managed], &async |berthed: &Berthed, _: &Reports| {
            let scene = &berthed.scene;
            scene.apply(config(|_| {})).await;
            scene.apply(group("workers", change)).await;
            scene.apply(workload(20)).await;
            scene.until(90, words, async || is_told(berthed, "web", words).await).await;
            sleep(Duration::from_mins(5)).await;
            assert_eq!(made(berthed).await.len(), 0, "{words}");
        });
    }
}

/// All groups together may have one node, and a pod of another group has it.
#[test]
fn what_could_not_buy_anyway_is_not_made() {
    played(&[Family::Managed], &async |berthed: &Berthed, _: &Reports| {
        let scene = &berthed.scene;
        let limited = |nodes: u32| {
            config(|config| config["spec"]["globalSettings"]["maxClusterWorkers"] = json!(nodes))
        };
        scene.apply(limited(1)).await;
        scene.apply(group("workers", |_| {})).await;
        scene.apply(workload(1)).await;
        scene.until(300, "the first runs", async || scene.running().await == 1).await;
        scene.apply(stranger("other", "1")).await;
        let told = "a new group: NodeLimit";
        scene.until(90, "the other is told", async || is_told(berthed, "other", told).await).await;
        sleep(Duration::from_mins(3)).await;
        assert_eq!((made(berthed).await.len(), scene.machines()), (0, 1));
        scene.apply(limited(2)).await;
        scene.until(300, "both run", async || scene.running().await == 2).await;
        assert_eq!((made(berthed).await.len(), scene.machines()), (1, 2));
    });
}

#[test]
fn pods_wait_before_a_group_is_made_for_them() {
    played(&[Family::Managed], &async |berthed: &Berthed, _: &Reports| {
        let scene = &berthed.scene;
        let patient = |config: &mut Value| {
            config["spec"]["globalSettings"]["unschedulablePodGracePeriodSeconds"] = json!(60);
        };
        scene.apply(config(patient)).await;
        scene.apply(stranger("web", "1")).await;
        sleep(Duration::from_secs(55)).await;
        assert_eq!(made(berthed).await.len(), 0);
        scene.until(300, "it runs", async || scene.running().await == 1).await;
        assert_eq!(made(berthed).await.len(), 1);
    });
}

#[test]
fn two_that_lead_make_one_group() {
    for family in Family::ALL {
        awaited(async {
            let berthed = Berthed::new(family, Weather::default(), Faults::default()).await;
            berthed.sign(SECRET).await;
            let scene = &berthed.scene;
            let script = async {
                scene.apply(config(|_| {})).await;
                for (name, cpu) in [("a", "1"), ("b", "3"), ("c", "2"), ("d", "500m")] {
                    scene.apply(stranger(name, cpu)).await;
                    sleep(Duration::from_millis(40)).await;
                }
                scene.until(1500, "all run", async || scene.running().await == 4).await;
                assert_eq!(made(&berthed).await.len(), 1);
            };
            let other = berthed.operator_of("former", 1).run();
            let both = async {
                tokio::select! {
                    biased;
                    () = Box::pin(other) => {}
                    () = script => {}
                }
            };
            Box::pin(scene.play_with(berthed.operator_of("berth", 2), both)).await;
        });
    }
}

#[test]
fn whoever_comes_after_buys_for_the_group_that_was_made() {
    awaited(async {
        let berthed = Berthed::new(Family::Managed, Weather::default(), Faults::default()).await;
        berthed.sign(SECRET).await;
        let scene = &berthed.scene;
        let first = async {
            scene.apply(config(|_| {})).await;
            scene.apply(stranger("web", "1")).await;
            while made(&berthed).await.is_empty() {
                sleep(Duration::from_millis(1)).await;
            }
        };
        scene.play_with(berthed.operator_of("first", 1), first).await;
        assert!(berthed.nodes().await.is_empty(), "it ends before a node is asked for");
        let second = async {
            scene.until(300, "it runs", async || scene.running().await == 1).await;
            assert_eq!((made(&berthed).await.len(), scene.machines()), (1, 1));
        };
        scene.play_with(berthed.operator_of("second", 2), second).await;
    });
}

#[test]
fn flags_do_without_a_configuration() {
    awaited(async {
        let mut berthed = Berthed::new(Family::Servers, Weather::default(), Faults::default()).await;
        berthed.settings.group_defaults = GroupDefaults {
            datacenter: Some("dc-1".to_owned()),
            offerings: vec!["big".to_owned(), "huge".to_owned()],
            project: Some("p-1".to_owned()),
            kubernetes_version: Some("1.34.0".to_owned()),
            ..GroupDefaults::default()
        };
        berthed.sign(SECRET).await;
        let scene = &berthed.scene;
        let script = async {
            scene.apply(stranger("web", "1")).await;
            scene.until(300, "it runs", async || scene.running().await == 1).await;
            let spec = made(&berthed).await.pop().expect("a group")["spec"].clone();
            assert_eq!(spec["offeringIDs"], json!(["big"]));
            assert_eq!(spec["kubernetesVersion"], "v1.34.0");
            assert_eq!(spec["minNodes"], 1, "as VPSie's autoscaler has it");
        };
        scene.play_with(berthed.operator(), script).await;
    });
}

#[test]
fn a_shadow_only_says_which_group_it_would_make() {
    awaited(async {
        let mut berthed = Berthed::new(Family::Managed, Weather::default(), Faults::default()).await;
        berthed.settings.mode = Mode::Shadow;
        berthed.sign(SECRET).await;
        let scene = &berthed.scene;
        let operator = berthed.operator();
        let reports = operator.reports();
        let script = async {
            scene.apply(config(|_| {})).await;
            scene.apply(stranger("web", "1")).await;
            let would = async || {
                let report = reports.borrow().clone();
                report
                    .decisions
                    .iter()
                    .any(|decision| decision.message.starts_with("would make the group default/auto-"))
            };
            scene.until(60, "it says so", would).await;
            sleep(Duration::from_mins(1)).await;
            assert_eq!((scene.list(ALL_GROUPS).await.len(), scene.machines()), (0, 0));
        };
        scene.play_with(operator, script).await;
    });
}
