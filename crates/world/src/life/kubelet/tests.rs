use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_cloud::Cloud;
use berth_cloud::machine::{Order, Token};
use berth_core::catalog::InstanceType;
use berth_core::names::Labels;
use berth_core::plan::Alternative;
use berth_core::pod::{Taint, TaintEffect};
use berth_core::resources::Resources;
use berth_core::units::Price;

use super::super::lab::Lab;
use crate::cloud::{Account, Registration, SimulatedCloud, Weather};
use crate::json::{Value, json};
use crate::object;

/// In few words: the phase, the state of each container, and which conditions are true.
fn shown(pod: &Value) -> String {
    if pod.is_null() {
        return "gone".to_owned();
    }
    let lists = ["initContainerStatuses", "containerStatuses"];
    let states = lists.iter().filter_map(|list| pod["status"][list].as_array()).flatten().map(|status| {
        let (state, said) = status["state"].as_object().unwrap().iter().next().unwrap();
        let ready = if status["ready"] == true { "+" } else { "" };
        match &**state {
            "running" => format!("running{ready}"),
            "terminated" => format!("exit {}", said["exitCode"]),
            _ => said["reason"].as_str().unwrap().to_owned(),
        }
    });
    let states: Vec<String> = states.collect();
    let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let is_true = conditions.iter().filter(|condition| condition["status"] == "True");
    let is_true: Vec<&str> = is_true.filter_map(|condition| condition["type"].as_str()).collect();
    format!("{} [{}] {}", object::text(pod, &["status", "phase"]), states.join(", "), is_true.join(" "))
}

const CREATING: &str = "Initialized PodScheduled";
const RUNNING: &str = "PodReadyToStartContainers Initialized Ready ContainersReady PodScheduled";
const UNREADY: &str = "PodReadyToStartContainers Initialized PodScheduled";

/// The pod's name, annotations and spec, and what it is after so many seconds.
type Play = (&'static str, Value, Value, Vec<(u64, String)>);

#[tokio::test(start_paused = true)]
async fn pods_start_and_end() {
    let init =
        json!([{"name": "i", "image": "i:1"}, {"name": "s", "image": "s:1", "restartPolicy": "Always"}]);
    let probed = json!([{"name": "c", "image": "x:1", "readinessProbe": {"initialDelaySeconds": 5, "exec": {"command": ["ok"]}}}]);
    let never = json!({"restartPolicy": "Never"});
    let rows: [Play; 12] = [
        (
            "runs",
            json!({}),
            json!({}),
            vec![
                (0, format!("Pending [ContainerCreating] {CREATING}")),
                (2, format!("Running [running+] {RUNNING}")),
                (600, format!("Running [running+] {RUNNING}")),
            ],
        ),
        (
            "initialises",
            json!({}),
            json!({ "initContainers": init }),
            vec![
                (0, "Pending [PodInitializing, PodInitializing, PodInitializing] PodScheduled".to_owned()),
                (
                    2,
                    "Pending [running, PodInitializing, PodInitializing] PodReadyToStartContainers PodScheduled"
                        .to_owned(),
                ),
                (3, format!("Running [exit 0, running+, running+] {RUNNING}")),
            ],
        ),
        (
            "waits",
            json!({}),
            json!({ "containers": probed }),
            vec![(2, format!("Running [running] {UNREADY}")), (7, format!("Running [running+] {RUNNING}"))],
        ),
        (
            "is-never-ready",
            json!({"berth.dev/ready-after": "never"}),
            json!({}),
            vec![(600, format!("Running [running] {UNREADY}"))],
        ),
        (
            "is-gated",
            json!({}),
            json!({"readinessGates": [{"conditionType": "a.b/c"}]}),
            vec![(9, "Running [running+] PodReadyToStartContainers Initialized ContainersReady PodScheduled".to_owned())],
        ),
        (
            "succeeds",
            json!({"berth.dev/run-for": "10s"}),
            never.clone(),
            vec![
                (11, format!("Running [running+] {RUNNING}")),
                (12, "Succeeded [exit 0] Initialized PodScheduled".to_owned()),
            ],
        ),
        (
            "fails",
            json!({"berth.dev/exit-code": "3"}),
            never,
            vec![(7, "Failed [exit 3] Initialized PodScheduled".to_owned())],
        ),
        (
            "is-tried-again",
            json!({"berth.dev/exit-code": "1", "berth.dev/run-for": "1s"}),
            json!({"restartPolicy": "OnFailure"}),
            vec![
                (3, format!("Running [running+] {RUNNING}")),
                (4, format!("Running [CrashLoopBackOff] {UNREADY}")),
                (14, format!("Running [running+] {RUNNING}")),
                (15, format!("Running [CrashLoopBackOff] {UNREADY}")),
            ],
        ),
        (
            "does-not-fit",
            json!({}),
            json!({"containers": [{"name": "c", "image": "x:1", "resources": {"requests": {"cpu": "9"}}}]}),
            vec![(0, "Failed [] ".to_owned())],
        ),
        (
            "is-elsewhere",
            json!({}),
            json!({"nodeSelector": {"kubernetes.io/hostname": "other"}}),
            vec![(0, "Failed [] ".to_owned())],
        ),
        (
            "is-late",
            json!({"berth.dev/stop-after": "5s"}),
            json!({"activeDeadlineSeconds": 60}),
            vec![
                (64, format!("Running [running+] {RUNNING}")),
                (65, "Failed [exit 143] Initialized PodScheduled".to_owned()),
                (700, "Failed [exit 143] Initialized PodScheduled".to_owned()),
            ],
        ),
        (
            "is-forgiven",
            json!({"berth.dev/exit-code": "1", "berth.dev/run-for": "11m"}),
            json!({"restartPolicy": "OnFailure"}),
            // Each time it is started again at once.
            vec![
                (663, format!("Running [running+] {RUNNING}")),
                (1323, format!("Running [running+] {RUNNING}")),
                (1983, format!("Running [running+] {RUNNING}")),
            ],
        ),
    ];
    for (name, annotations, spec, expected) in rows {
        let lab = Lab::new();
        lab.kubelets.start_within(Duration::from_secs(2), Duration::from_secs(2));
        lab.nodes(&["n"]).await;
        lab.pass(5).await;
        lab.pod(name, "n", annotations, spec).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
        let mut passed = 0;
        for (at, state) in expected {
            lab.pass(at - passed).await;
            passed = at;
            assert_eq!(shown(&lab.get("pods", name)), state, "{name} after {at} s");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_told_of_as_kubelets_do() {
    let lab = Lab::new();
    lab.nodes(&["n"]).await;
    lab.pod("p", "n", json!({}), json!({})).await;
    lab.pod(
        "q",
        "n",
        json!({}),
        json!({"containers": [{"name": "c", "image": "x:1", "resources": {"requests": {"cpu": "9"}}}]}),
    )
    .await;
    lab.pass(10).await;
    let pod = lab.get("pods", "p");
    let at = |path: &str| pod.pointer(path).cloned().unwrap_or_default();
    assert_eq!(at("/status/hostIP"), "10.0.0.1");
    assert_eq!(at("/status/podIP"), "10.64.0.1");
    assert_eq!(at("/status/startTime"), "2026-01-01T00:00:00Z");
    assert_eq!(at("/status/observedGeneration"), 1);
    let id = at("/status/containerStatuses/0/containerID");
    assert_eq!(id.as_str().unwrap().len(), "containerd://".len() + 64);
    lab.delete("pods", "p").await;
    lab.pass(5).await;
    assert_eq!(shown(&lab.get("pods", "p")), "gone");
    assert_eq!(
        lab.events("p"),
        [
            "Pulled: Container image \"x:1\" already present on machine and can be accessed by the pod",
            "Created: Container created",
            "Started: Container started",
            "Killing: Stopping container c",
        ]
    );
    let why = "Node didn't have enough resource: cpu, requested: 9000, used: 0, capacity: 8000";
    assert_eq!(lab.events("q"), [format!("OutOfcpu: {why}")]);
    let refused = lab.get("pods", "q");
    assert_eq!(
        (&refused["status"]["reason"], &refused["status"]["message"]),
        (&json!("OutOfcpu"), &json!(format!("Pod was rejected: {why}")))
    );
}

#[tokio::test(start_paused = true)]
async fn pods_that_end_otherwise_say_why() {
    let lab = Lab::new();
    lab.nodes(&["n"]).await;
    for (name, spec, reason, message) in [
        (
            "late",
            json!({"activeDeadlineSeconds": 10}),
            "DeadlineExceeded",
            "Pod was active on the node longer than the specified deadline",
        ),
        (
            "elsewhere",
            json!({"nodeSelector": {"a": "b"}}),
            "NodeAffinity",
            "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
        ),
    ] {
        lab.pod(name, "n", json!({}), spec).await;
        lab.pass(60).await;
        let status = lab.get("pods", name)["status"].clone();
        assert_eq!((&status["phase"], &status["reason"]), (&json!("Failed"), &json!(reason)), "{name}");
        assert_eq!(status["message"], message);
        assert!(lab.events(name).last().unwrap().starts_with(reason), "{:?}", lab.events(name));
    }
}

#[tokio::test(start_paused = true)]
async fn pods_stop_within_their_grace() {
    let rows = [
        (json!({}), None, 0, "gone"),
        (json!({"berth.dev/stop-after": "20s"}), None, 19, "gone"),
        (json!({"berth.dev/stop-after": "20s"}), Some(5), 4, "gone"),
        (json!({"berth.dev/stop-after": "5m"}), None, 29, "gone"),
        (json!({}), None, 0, "kept"),
    ];
    for (annotations, grace, last_secs, end) in rows {
        let lab = Lab::new();
        lab.nodes(&["n"]).await;
        lab.pod("p", "n", annotations.clone(), json!({})).await;
        lab.pass(10).await;
        if end == "kept" {
            lab.change("pods", "p", |pod| pod["metadata"]["finalizers"] = json!(["a.b/c"])).await;
        }
        let pod = std::sync::Arc::new(lab.get("pods", "p"));
        lab.act(crate::api::Act::Delete {
            resource: "pods".into(),
            object: pod,
            grace_secs: grace,
            propagation: crate::api::Propagation::Background,
        })
        .await;
        lab.pass(last_secs).await;
        assert!(shown(&lab.get("pods", "p")).starts_with("Running"), "{annotations} {grace:?}");
        lab.pass(2).await;
        let left = lab.get("pods", "p");
        if end == "kept" {
            assert!(shown(&left).starts_with("Failed [exit 143]"), "{}", shown(&left));
            assert_eq!(left["metadata"]["deletionGracePeriodSeconds"], 0);
        } else {
            assert_eq!(shown(&left), "gone", "{annotations} {grace:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_are_reported() {
    let lab = Lab::new();
    lab.nodes(&["n"]).await;
    lab.pass(1).await;
    let node = lab.get("nodes", "n");
    assert_eq!(
        node["metadata"]["labels"],
        json!({
            "beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
            "kubernetes.io/hostname": "n", "kubernetes.io/os": "linux",
        })
    );
    assert_eq!(
        node["status"]["allocatable"],
        json!({"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"})
    );
    assert!(lab.taints("n").is_empty());
    let conditions: Vec<String> = node["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|said| format!("{} {} {}", said["type"], said["status"], said["reason"]).replace('"', ""))
        .collect();
    assert_eq!(
        conditions,
        [
            "MemoryPressure False KubeletHasSufficientMemory",
            "DiskPressure False KubeletHasNoDiskPressure",
            "PIDPressure False KubeletHasSufficientPID",
            "Ready True KubeletReady",
        ]
    );
    let revision = object::revision(&node).to_owned();
    // The lease says that it lives: every ten seconds. The node itself says so every five minutes.
    for (secs, renewed, is_same) in
        [(5, "00:00:00", true), (10, "00:00:10", true), (280, "00:04:50", true), (10, "00:05:00", false)]
    {
        lab.pass(secs).await;
        let lease = lab.get("leases.coordination.k8s.io", "n");
        assert_eq!(lease["spec"]["renewTime"], format!("2026-01-01T{renewed}.000000Z"));
        assert_eq!(lease["metadata"]["ownerReferences"][0]["kind"], "Node");
        assert_eq!(object::revision(&lab.get("nodes", "n")) == revision, is_same, "{renewed}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_told_of_a_node_stays() {
    let lab = Lab::new();
    let labels = [("topology.kubernetes.io/zone", "a"), ("kubernetes.io/arch", "arm64")];
    let instance_type = InstanceType {
        name: "t".into(),
        labels: Labels::default(),
        capacity: Resources::of(&[("cpu", 4000), ("memory", 8 << 30), ("pods", 20)]),
        overhead: Resources::of(&[("cpu", 100)]),
        volume_limits: BTreeMap::new(),
        offerings: Vec::new(),
    };
    let machine = Registration {
        machine: "m-1".into(),
        provider_id: "sim://m".into(),
        node: "m".into(),
        address: None,
        instance_type: instance_type.into(),
        labels: Arc::new(labels.into_iter().map(|(name, value)| (name.into(), value.into())).collect()),
        taints: [Taint::new("t", "v", TaintEffect::NoExecute)].into(),
    };
    lab.kubelets.register(&machine).await.unwrap();
    lab.pass(1).await;
    let node = lab.get("nodes", "m");
    assert_eq!(node["spec"]["providerID"], "sim://m");
    assert_eq!(lab.taints("m"), ["t:NoExecute"]);
    let amounts =
        |cpu: &str| json!({"cpu": cpu, "memory": "8Gi", "pods": "20", "ephemeral-storage": "100Gi"});
    assert_eq!(node["status"]["capacity"], amounts("4"));
    assert_eq!(node["status"]["allocatable"], amounts("3900m"));
    assert_eq!(node["metadata"]["labels"]["beta.kubernetes.io/arch"], "arm64");
}

#[tokio::test(start_paused = true)]
async fn kubelets_do_as_they_are_told() {
    let lab = Lab::new();
    lab.nodes(&["silent", "never", "flaps", "well"]).await;
    lab.kubelets.silence("silent");
    lab.kubelets.never_ready("never");
    lab.kubelets.flap("flaps", Duration::from_secs(30));
    lab.pod("p", "silent", json!({}), json!({"tolerations": [{"operator": "Exists"}]})).await;
    let ready = |name: &str| object::condition_status(&lab.get("nodes", name), "Ready").to_owned();
    lab.pass(1).await;
    assert_eq!(["silent", "never", "flaps", "well"].map(ready), ["", "False", "True", "True"]);
    lab.pass(30).await;
    assert_eq!(ready("flaps"), "False");
    assert_eq!(object::text(&lab.get("pods", "p"), &["status", "phase"]), "Pending");
    lab.pass(30).await;
    assert_eq!((ready("flaps"), ready("silent")), ("True".to_owned(), "Unknown".to_owned()));
    lab.kubelets.revive("silent");
    lab.kubelets.revive("never");
    lab.pass(5).await;
    assert_eq!(["silent", "never"].map(ready), ["True", "True"]);
    assert_eq!(object::text(&lab.get("pods", "p"), &["status", "phase"]), "Running");
}

#[tokio::test(start_paused = true)]
async fn machines_are_nodes_for_as_long_as_they_are() {
    let lab = Lab::new();
    lab.nodes(&["well"]).await;
    let catalog = berth_cloud::builtin("kwok", &berth_cloud::CatalogOptions::default()).unwrap();
    let kind = catalog.types[0].clone();
    let offering = Alternative {
        instance_type: kind.name.clone(),
        zone: kind.offerings[0].zone.clone(),
        capacity_type: kind.offerings[0].capacity_type,
        price_per_hour: Price::ZERO,
    };
    let order = Order {
        labels: Arc::new(Labels::from([("team".into(), "quay".into())])),
        taints: [Taint::new("t", "", TaintEffect::NoSchedule)].into(),
        ..Order::new(Token::parse("t-1").unwrap(), "bought", "p", vec![offering])
    };
    let account = Account::new(Arc::new(catalog), Weather::default(), 1, lab.api.state().now());
    let cloud = SimulatedCloud::new(account);
    let (kubelets, on) = (lab.kubelets.clone(), cloud.clone());
    let running = tokio::spawn(async move { kubelets.live_on(&on).await });
    cloud.launch(&order).await.unwrap();
    lab.pass(300).await;
    let (id, name) = cloud.inspect(|account| {
        let record = &account.records()[0];
        (record.machine.id.clone(), record.node.clone().unwrap())
    });
    let node = lab.get("nodes", &name);
    assert_eq!(object::condition_status(&node, "Ready"), "True");
    assert_eq!(
        (&node["metadata"]["labels"]["team"], lab.taints(&name)),
        (&json!("quay"), vec!["t:NoSchedule".to_owned()])
    );
    assert_eq!(node["status"]["capacity"]["cpu"], crate::json::written(&kind.capacity)["cpu"]);
    assert_eq!(node["status"]["nodeInfo"]["architecture"], kind.labels["kubernetes.io/arch"].to_string());
    cloud.terminate(&id).await.unwrap();
    lab.pass(600).await;
    assert!(lab.get("nodes", &name).is_null());
    running.abort();
}

/// Ten minutes of fifty nodes and a thousand pods.
#[tokio::test(start_paused = true)]
async fn ten_minutes_are_short() {
    let began = Instant::now();
    let lab = Lab::new();
    for node in 0..50 {
        lab.nodes(&[&format!("n{node:02}")]).await;
    }
    for pod in 0..1000 {
        lab.pod(&format!("p{pod:04}"), &format!("n{:02}", pod % 50), json!({}), json!({})).await;
    }
    lab.pass(600).await;
    let running = lab
        .api
        .state()
        .store
        .list("pods", None)
        .filter(|(_, pod)| pod["status"]["phase"] == "Running")
        .count();
    assert_eq!(running, 1000);
    // Unoptimised and among other tests. The bench has the bar.
    assert!(began.elapsed() < Duration::from_mins(1), "{:?}", began.elapsed());
}
