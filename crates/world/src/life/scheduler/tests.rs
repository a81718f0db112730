use std::time::Duration;

use tokio::task::JoinHandle;

use super::*;
use crate::api::Api;
use crate::life::Life;

/// A cluster with nobody at work but the scheduler.
struct Cluster {
    api: Api,
    life: JoinHandle<()>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.life.abort();
    }
}

impl Cluster {
    async fn with(objects: &[Value]) -> Self {
        let api = Api::new(1, "2026-01-01T00:00:00Z".parse().unwrap());
        let life = tokio::spawn(Life::new(api.clone(), vec![Box::new(Scheduler::new())]).live());
        let cluster = Self { api, life };
        for object in objects {
            cluster.create(object).await;
        }
        cluster.pass(0).await;
        cluster
    }

    async fn create(&self, object: &Value) {
        let class = object::text(object, &["spec", "priorityClassName"]);
        if !class.is_empty() && self.get("priorityclasses.scheduling.k8s.io", "", class).is_none() {
            let class = json!({
                "metadata": { "name": class }, "value": object["spec"]["priority"],
                "preemptionPolicy": object["spec"]["preemptionPolicy"].as_str().unwrap_or("PreemptLowerPriority"),
            });
            let act = Act::Create("priorityclasses.scheduling.k8s.io", class);
            self.api.act("test", act).await.unwrap();
        }
        let resource = match object["kind"].as_str().unwrap() {
            "Node" => "nodes",
            "Pod" => "pods",
            "Namespace" => "namespaces",
            "Service" => "services",
            "PersistentVolumeClaim" => "persistentvolumeclaims",
            "PersistentVolume" => "persistentvolumes",
            "StorageClass" => "storageclasses.storage.k8s.io",
            "CSINode" => "csinodes.storage.k8s.io",
            "PodDisruptionBudget" => "poddisruptionbudgets.policy",
            other => panic!("{other}"),
        };
        let made = self.api.act("test", Act::Create(resource, object.clone())).await.unwrap();
        if resource == "nodes" {
            // Ready from the start, as if its kubelet had been quick.
            self.change("nodes", object::name(&made), "", |node| {
                if let Some(taints) = node["spec"]["taints"].as_array_mut() {
                    taints.retain(|taint| taint["key"] != "node.kubernetes.io/not-ready");
                }
            })
            .await;
        } else if !object["status"].is_null() {
            let mut next = Arc::unwrap_or_clone(made);
            for (field, value) in object["status"].as_object().unwrap() {
                next["status"][field] = value.clone();
            }
            self.api.act("test", Act::UpdateStatus(resource, next)).await.unwrap();
        }
    }

    async fn pass(&self, secs: u64) {
        tokio::time::sleep(Duration::from_secs(secs) + Duration::from_millis(1)).await;
    }

    fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        self.api.state().store.get(&Key::new(resource, namespace, name))
    }

    fn pod(&self, name: &str) -> Arc<Value> {
        self.get("pods", "default", name).unwrap()
    }

    async fn change(&self, resource: &'static str, name: &str, namespace: &str, change: impl Fn(&mut Value)) {
        let mut object = (*self.get(resource, namespace, name).unwrap()).clone();
        change(&mut object);
        self.api.act("test", Act::Update(resource, object)).await.unwrap();
    }

    async fn delete(&self, resource: &str, namespace: &str, name: &str) {
        let object = self.get(resource, namespace, name).unwrap();
        let act = Act::Delete {
            resource: resource.into(),
            object,
            grace_secs: Some(0),
            propagation: crate::api::Propagation::Background,
        };
        self.api.act("test", act).await.unwrap();
    }

    /// The node that a pod has, or why it has none.
    fn place(&self, name: &str) -> String {
        let pod = self.pod(name);
        let node = object::text(&pod, &["spec", "nodeName"]);
        if node.is_empty() {
            scheduled(&pod)["message"].as_str().unwrap_or_default().to_owned()
        } else {
            node.to_owned()
        }
    }

    fn events(&self) -> Vec<String> {
        let state = self.api.state();
        let said = state.store.list("events", None).map(|(_, event)| {
            let text = |field: &str| event[field].as_str().unwrap_or_default().to_owned();
            let about = event["involvedObject"]["name"].as_str().unwrap_or_default().to_owned();
            format!("{about} {} {} {} x{}", text("type"), text("reason"), text("message"), event["count"])
        });
        said.collect()
    }
}

fn scheduled(pod: &Value) -> Value {
    let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == "PodScheduled").unwrap_or_default()
}

/// As admission has it: the class is made with the first pod of it.
fn ranked(priority: i64) -> Value {
    json!({ "priority": priority, "priorityClassName": format!("p{priority}") })
}

/// `name zone key=value,key=value cpu memory`, with `-` for no zone and no labels.
fn node(text: &str) -> Value {
    let words: Vec<&str> = text.split(' ').collect();
    let mut labels = json!({ "kubernetes.io/hostname": words[0] });
    if words[1] != "-" {
        labels["topology.kubernetes.io/zone"] = json!(words[1]);
    }
    for (key, value) in words[2].split(',').filter_map(|label| label.split_once('=')) {
        labels[key] = json!(value);
    }
    let resources = json!({ "cpu": words[3], "memory": words[4], "pods": "4" });
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": { "name": words[0], "labels": labels },
        "spec": {}, "status": { "capacity": resources, "allocatable": resources },
    })
}

fn tainted(text: &str, taint: &str) -> Value {
    let mut node = node(text);
    let (pair, effect) = taint.rsplit_once(':').unwrap();
    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
    node["spec"]["taints"] = json!([{ "key": key, "value": value, "effect": effect }]);
    node
}

/// A pod of `cpu` and `memory`, labelled with its app; more is merged into its spec.
fn pod(name: &str, app: &str, cpu: &str, memory: &str, more: impl Into<Value>) -> Value {
    let mut requests = json!({});
    for (resource, amount) in [("cpu", cpu), ("memory", memory)] {
        if !amount.is_empty() {
            requests[resource] = json!(amount);
        }
    }
    let mut spec = json!({
        "containers": [{ "name": "c", "image": "i", "resources": { "requests": requests } }],
    });
    for (field, value) in more.into().as_object().cloned().unwrap_or_default() {
        spec[&field] = value;
    }
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": "default", "labels": { "app": app } },
        "spec": spec,
    })
}

fn on(node: &str, mut pod: Value) -> Value {
    pod["spec"]["nodeName"] = json!(node);
    pod["status"] = json!({ "phase": "Running" });
    pod
}

fn near(kind: &str, app: &str, key: &str) -> Value {
    json!({ "affinity": { kind: { "requiredDuringSchedulingIgnoredDuringExecution": [
        { "topologyKey": key, "labelSelector": { "matchLabels": { "app": app } } },
    ] } } })
}

fn spread(key: &str, how: &str) -> Value {
    json!({ "topologySpreadConstraints": [
        { "topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": how,
          "labelSelector": { "matchLabels": { "app": "a" } } },
    ] })
}

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";
const UNHELPFUL: &str = "Preemption is not helpful for scheduling";
const NOBODY: &str = "No preemption victims found for incoming pod";

/// What it is about, the nodes, the pods that are there, the pod, and where it goes or why nowhere.
type Case = (&'static str, Vec<Value>, Vec<Value>, Value, String);

#[tokio::test(start_paused = true)]
async fn pods_go_where_they_may_or_are_told_why_not() {
    let three = || vec![node("n1 a disk=ssd 2 2Gi"), node("n2 b disk=hdd 2 2Gi"), node("n3 - - 2 2Gi")];
    let port = |host_ip: &str| {
        json!({ "containers": [{ "name": "c", "image": "i",
            "ports": [{ "containerPort": 80, "hostPort": 80, "hostIP": host_ip, "protocol": "TCP" }] }] })
    };
    let claim = json!({ "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": "c" } }] });
    let named = json!({ "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{ "matchFields": [
            { "key": "metadata.name", "operator": "In", "values": ["n2"] }] }] } } } });
    let cordoned = |text: &str| {
        let mut node = node(text);
        node["spec"]["unschedulable"] = json!(true);
        node
    };
    let cases: Vec<Case> = vec![
        (
            "no nodes",
            vec![],
            vec![],
            pod("p", "a", "1", "1Gi", json!({})),
            "no nodes available to schedule pods".to_owned(),
        ),
        (
            "too large for any node",
            three(),
            vec![],
            pod("p", "a", "3", "3Gi", json!({})),
            format!("0/3 nodes are available: 3 Insufficient cpu, 3 Insufficient memory. no new claims to deallocate, preemption: 0/3 nodes are available: 3 {UNHELPFUL}."),
        ),
        (
            "no room",
            three(),
            ["n1", "n2", "n3"].iter().map(|n| on(n, pod(&format!("on-{n}"), "b", "1500m", "", json!({})))).collect(),
            pod("p", "a", "1", "", json!({})),
            format!("0/3 nodes are available: 3 Insufficient cpu. no new claims to deallocate, preemption: 0/3 nodes are available: 3 {NOBODY}."),
        ),
        (
            "room on one",
            three(),
            ["n1", "n3"].iter().map(|n| on(n, pod(&format!("on-{n}"), "b", "1500m", "", json!({})))).collect(),
            pod("p", "a", "1", "", json!({})),
            "n2".to_owned(),
        ),
        (
            "too many pods",
            vec![node("n1 a - 8 8Gi")],
            (0..4).map(|i| on("n1", pod(&format!("on-{i}"), "b", "", "", json!({})))).collect(),
            pod("p", "a", "", "", json!({})),
            format!("0/1 nodes are available: 1 Too many pods. no new claims to deallocate, preemption: 0/1 nodes are available: 1 {NOBODY}."),
        ),
        (
            "an extended resource that nobody has",
            three(),
            vec![],
            pod("p", "a", "", "", json!({ "containers": [{ "name": "c", "image": "i", "resources": {
                "requests": { "example.com/gpu": "1" }, "limits": { "example.com/gpu": "1" } } }] })),
            format!("0/3 nodes are available: 3 Insufficient example.com/gpu. no new claims to deallocate, preemption: 0/3 nodes are available: 3 {UNHELPFUL}."),
        ),
        (
            "a selector",
            three(),
            vec![],
            pod("p", "a", "1", "", json!({ "nodeSelector": { "disk": "hdd" } })),
            "n2".to_owned(),
        ),
        (
            "a selector that nobody meets",
            three(),
            vec![],
            pod("p", "a", "1", "", json!({ "nodeSelector": { "disk": "tape" } })),
            format!("0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector. no new claims to deallocate, preemption: 0/3 nodes are available: 3 {UNHELPFUL}."),
        ),
        ("a named node", three(), vec![], pod("p", "a", "1", "", named.clone()), "n2".to_owned()),
        (
            "a named node that is too small",
            three(),
            vec![],
            pod("p", "a", "3", "", named),
            format!("0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]. no new claims to deallocate, preemption: 0/3 nodes are available: 3 {UNHELPFUL}."),
        ),
        (
            "taints and cordons",
            vec![
                tainted("n1 a - 2 2Gi", "team=a:NoSchedule"),
                tainted("n2 a - 2 2Gi", "gone:NoExecute"),
                cordoned("n3 a - 2 2Gi"),
                tainted("n4 a - 1 2Gi", "soft:PreferNoSchedule"),
            ],
            vec![],
            pod("p", "a", "2", "", json!({})),
            format!("0/4 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable, 2 node(s) had untolerated taint(s). no new claims to deallocate, preemption: 0/4 nodes are available: 4 {UNHELPFUL}."),
        ),
        (
            "a taint that is tolerated",
            vec![tainted("n1 a - 2 2Gi", "team=a:NoSchedule"), tainted("n2 a - 2 2Gi", "gone:NoExecute")],
            vec![],
            pod("p", "a", "2", "", json!({ "tolerations": [{ "key": "team", "operator": "Exists" }] })),
            "n1".to_owned(),
        ),
        (
            "a port that is taken",
            vec![node("n1 a - 2 2Gi")],
            vec![on("n1", pod("other", "b", "", "", port("127.0.0.1")))],
            pod("p", "a", "", "", port("")),
            format!("0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports. no new claims to deallocate, preemption: 0/1 nodes are available: 1 {NOBODY}."),
        ),
        (
            "a port of another address",
            vec![node("n1 a - 2 2Gi")],
            vec![on("n1", pod("other", "b", "", "", port("127.0.0.1")))],
            pod("p", "a", "", "", port("127.0.0.2")),
            "n1".to_owned(),
        ),
        (
            "far from its like",
            three(),
            vec![on("n1", pod("other", "a", "", "", json!({})))],
            pod("p", "a", "1", "", near("podAntiAffinity", "a", HOST)),
            "n3".to_owned(),
        ),
        (
            "far from its like, in every zone",
            vec![node("n1 a - 2 2Gi"), node("n2 a - 2 2Gi")],
            vec![on("n1", pod("other", "a", "", "", json!({})))],
            pod("p", "a", "1", "", near("podAntiAffinity", "a", ZONE)),
            format!("0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules. no new claims to deallocate, preemption: 0/2 nodes are available: 2 {NOBODY}."),
        ),
        (
            "shunned",
            vec![node("n1 a - 2 2Gi")],
            vec![on("n1", pod("other", "b", "", "", near("podAntiAffinity", "a", ZONE)))],
            pod("p", "a", "1", "", json!({})),
            format!("0/1 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules. no new claims to deallocate, preemption: 0/1 nodes are available: 1 {NOBODY}."),
        ),
        (
            "near another",
            three(),
            vec![on("n2", pod("other", "b", "", "", json!({})))],
            pod("p", "a", "1", "", near("podAffinity", "b", ZONE)),
            "n2".to_owned(),
        ),
        (
            "near nobody",
            three(),
            vec![],
            pod("p", "a", "1", "", near("podAffinity", "b", ZONE)),
            format!("0/3 nodes are available: 3 node(s) didn't match pod affinity rules. no new claims to deallocate, preemption: 0/3 nodes are available: 3 {UNHELPFUL}."),
        ),
        (
            "spread",
            three(),
            vec![on("n1", pod("other", "a", "", "", json!({})))],
            pod("p", "a", "1", "", spread(ZONE, "DoNotSchedule")),
            "n2".to_owned(),
        ),
        (
            "spread over what is full",
            three(),
            vec![
                on("n1", pod("other", "a", "", "", json!({}))),
                on("n2", pod("large", "b", "2", "", json!({}))),
            ],
            pod("p", "a", "1", "", spread(ZONE, "DoNotSchedule")),
            format!("0/3 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match pod topology spread constraints, 1 node(s) didn't match pod topology spread constraints (missing required label). no new claims to deallocate, preemption: 0/3 nodes are available: 1 {UNHELPFUL}, 2 {NOBODY}."),
        ),
        (
            "a claim that is not there",
            three(),
            vec![],
            pod("p", "a", "1", "", claim),
            "0/3 nodes are available: persistentvolumeclaim \"c\" not found. not found".to_owned(),
        ),
        (
            "a pod that may not preempt",
            vec![node("n1 a - 2 2Gi")],
            vec![on("n1", pod("other", "b", "2", "", json!({})))],
            pod("p", "a", "1", "", json!({ "priority": 5, "priorityClassName": "shy", "preemptionPolicy": "Never" })),
            "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never.".to_owned(),
        ),
    ];
    for (case, nodes, there, pod, expected) in cases {
        let objects: Vec<Value> = nodes.into_iter().chain(there).chain([pod]).collect();
        let cluster = Cluster::with(&objects).await;
        if case == "far from its like" {
            assert_ne!(cluster.place("p"), "n1", "{case}");
            continue;
        }
        assert_eq!(cluster.place("p"), expected, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_best_node_wins() {
    let prefers = |weight: i64, disk: &str| {
        json!({ "affinity": { "nodeAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [
            { "weight": weight, "preference": { "matchExpressions": [
                { "key": "disk", "operator": "In", "values": [disk] }] } }] } } })
    };
    let prefers_company = |kind: &str, app: &str| {
        json!({ "affinity": { kind: { "preferredDuringSchedulingIgnoredDuringExecution": [
            { "weight": 100, "podAffinityTerm": { "topologyKey": ZONE,
              "labelSelector": { "matchLabels": { "app": app } } } }] } } })
    };
    let service = json!({ "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": "s", "namespace": "default" },
        "spec": { "selector": { "app": "a" }, "ports": [{ "port": 80 }] } });
    let cases: Vec<(&str, Vec<Value>, Value, &str)> = vec![
        (
            "the emptier",
            vec![
                node("n1 a - 4 4Gi"),
                node("n2 a - 4 4Gi"),
                on("n1", pod("other", "b", "1", "1Gi", json!({}))),
            ],
            pod("p", "a", "1", "1Gi", json!({})),
            "n2",
        ),
        (
            "what asks for nothing takes room all the same",
            vec![node("n1 a - 4 4Gi"), node("n2 a - 4 4Gi"), on("n1", pod("other", "b", "", "", json!({})))],
            pod("p", "a", "", "", json!({})),
            "n2",
        ),
        (
            "the one that becomes more even",
            vec![
                node("n1 a - 4 4Gi"),
                node("n2 a - 4 4Gi"),
                on("n1", pod("o1", "b", "2", "512Mi", json!({}))),
                on("n2", pod("o2", "b", "500m", "2Gi", json!({}))),
            ],
            pod("p", "a", "1", "128Mi", json!({})),
            "n2",
        ),
        (
            "without a taint to bear",
            vec![tainted("n1 a - 8 8Gi", "soft:PreferNoSchedule"), node("n2 a - 4 4Gi")],
            pod("p", "a", "1", "1Gi", json!({})),
            "n2",
        ),
        (
            "as preferred",
            vec![node("n1 a disk=hdd 8 8Gi"), node("n2 a disk=ssd 4 4Gi")],
            pod("p", "a", "1", "1Gi", prefers(1, "ssd")),
            "n2",
        ),
        (
            "near those that it likes",
            vec![
                node("n1 a - 4 4Gi"),
                node("n2 b - 4 4Gi"),
                on("n2", pod("other", "b", "1", "1Gi", json!({}))),
            ],
            pod("p", "a", "1", "1Gi", prefers_company("podAffinity", "b")),
            "n2",
        ),
        (
            "far from those that it does not",
            vec![node("n1 a - 4 4Gi"), node("n2 b - 8 8Gi"), on("n2", pod("other", "b", "", "", json!({})))],
            pod("p", "a", "1", "1Gi", prefers_company("podAntiAffinity", "b")),
            "n1",
        ),
        (
            "near those that like it",
            vec![
                node("n1 a - 4 4Gi"),
                node("n2 b - 4 4Gi"),
                on("n2", pod("other", "b", "1", "1Gi", prefers_company("podAffinity", "a"))),
            ],
            pod("p", "a", "1", "1Gi", json!({})),
            "n2",
        ),
        (
            "spread as it would like",
            vec![
                node("n1 a - 8 8Gi"),
                node("n2 b - 4 4Gi"),
                on("n1", pod("other", "a", "", "", json!({}))),
                on("n2", pod("third", "b", "2", "2Gi", json!({}))),
            ],
            pod("p", "a", "1", "1Gi", spread(ZONE, "ScheduleAnyway")),
            "n2",
        ),
        (
            "spread as its service is",
            vec![
                service,
                node("n1 a - 8 8Gi"),
                node("n2 b - 4 4Gi"),
                on("n1", pod("other", "a", "", "", json!({}))),
                on("n2", pod("third", "b", "1", "1Gi", json!({}))),
            ],
            pod("p", "a", "1", "1Gi", json!({})),
            "n2",
        ),
    ];
    for (case, mut objects, pod, expected) in cases {
        objects.push(pod);
        assert_eq!(Cluster::with(&objects).await.place("p"), expected, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_lower_priority_goes() {
    let low = |name: &str, priority: i64, cpu: &str| pod(name, name, cpu, "", ranked(priority));
    let budget = |app: &str, allowed: i64| {
        json!({ "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": { "name": app, "namespace": "default" },
            "spec": { "selector": { "matchLabels": { "app": app } }, "minAvailable": 1 },
            "status": { "disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1 } })
    };
    let started = |mut pod: Value, time: &str| {
        pod["status"]["startTime"] = json!(time);
        pod
    };
    let two = || vec![node("n1 a - 2 2Gi"), node("n2 a - 2 2Gi")];
    let cases: Vec<(&str, Vec<Value>, &str, Vec<&str>)> = vec![
        (
            "the lowest top priority",
            vec![on("n1", low("x", 5, "2")), on("n2", low("y", 4, "2"))],
            "n2",
            vec!["y"],
        ),
        (
            "as few as will do",
            vec![
                on("n1", low("x", 5, "1")),
                on("n1", low("y", 4, "500m")),
                on("n1", low("z", 3, "500m")),
                on("n2", low("w", 20, "2")),
            ],
            "n1",
            vec!["y", "z"],
        ),
        (
            "no budget overdrawn",
            vec![on("n1", low("x", 1, "2")), on("n2", low("y", 5, "2")), budget("x", 0)],
            "n2",
            vec!["y"],
        ),
        (
            "the protected are spared first",
            vec![
                on("n1", low("x", 1, "1")),
                on("n1", low("y", 5, "1")),
                on("n2", low("w", 20, "2")),
                budget("x", 0),
            ],
            "n1",
            vec!["y"],
        ),
        (
            "the lower sum",
            vec![
                on("n1", low("x", 5, "1")),
                on("n1", low("y", 5, "1")),
                on("n2", low("z", 5, "1500m")),
                on("n2", low("w", 20, "500m")),
            ],
            "n2",
            vec!["z"],
        ),
        (
            "the one that began last",
            vec![
                started(on("n1", low("x", 5, "2")), "2025-12-31T00:00:00Z"),
                started(on("n2", low("y", 5, "2")), "2025-12-31T01:00:00Z"),
            ],
            "n2",
            vec!["y"],
        ),
    ];
    for (case, there, expected, victims) in cases {
        let cpu = if case == "the lower sum" { "1500m" } else { "1" };
        let preemptor = pod("p", "p", cpu, "", ranked(10));
        let objects: Vec<Value> = two().into_iter().chain(there).chain([preemptor]).collect();
        let cluster = Cluster::with(&objects).await;
        let waiting = cluster.pod("p");
        assert_eq!(object::text(&waiting, &["status", "nominatedNodeName"]), expected, "{case}");
        assert_eq!(cluster.place("p"), "0/2 nodes are available: 2 Insufficient cpu.", "{case}");
        let leaving: Vec<String> = {
            let state = cluster.api.state();
            let pods = state.store.list("pods", None).filter(|(_, pod)| object::is_terminating(pod));
            pods.map(|(key, pod)| {
                let condition = &pod["status"]["conditions"][0];
                assert_eq!(condition["type"], "DisruptionTarget", "{case}");
                assert_eq!(condition["reason"], "PreemptionByScheduler", "{case}");
                key.name().to_string()
            })
            .collect()
        };
        assert_eq!(leaving, victims, "{case}");
        for victim in victims {
            cluster.delete("pods", "default", victim).await;
        }
        cluster.pass(2).await;
        assert_eq!(cluster.place("p"), expected, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn room_is_kept_for_those_it_was_made_for() {
    let mut meant = pod("meant", "a", "1500m", "", ranked(5));
    meant["spec"]["schedulingGates"] = json!([{ "name": "wait" }]);
    meant["status"] = json!({ "nominatedNodeName": "n1" });
    let cluster = Cluster::with(&[
        node("n1 a - 2 2Gi"),
        meant,
        pod("lower", "b", "1", "", json!({})),
        pod("higher", "c", "1", "", ranked(9)),
    ])
    .await;
    assert_eq!(cluster.place("higher"), "n1");
    assert!(cluster.place("lower").starts_with("0/1 nodes are available: 1 Insufficient cpu."));
    assert_eq!(cluster.place("meant"), GATED);
    cluster.delete("pods", "default", "higher").await;
    cluster
        .change("pods", "meant", "default", |pod| {
            pod["spec"].as_object_mut().unwrap().remove("schedulingGates");
        })
        .await;
    cluster.pass(0).await;
    assert_eq!(cluster.place("meant"), "n1");
}

#[tokio::test(start_paused = true)]
async fn a_nominated_node_is_tried_first() {
    let mut p = pod("p", "a", "1", "", json!({ "schedulingGates": [{ "name": "wait" }] }));
    p["status"] = json!({ "nominatedNodeName": "small" });
    let cluster = Cluster::with(&[node("large a - 64 64Gi"), node("small a - 1 1Gi"), p]).await;
    cluster
        .change("pods", "p", "default", |pod| {
            pod["spec"].as_object_mut().unwrap().remove("schedulingGates");
        })
        .await;
    cluster.pass(0).await;
    assert_eq!(cluster.place("p"), "small");
}

#[tokio::test(start_paused = true)]
async fn pods_that_are_not_its_own_are_left() {
    let gated = json!({ "schedulingGates": [{ "name": "wait" }] });
    let cluster = Cluster::with(&[
        pod("foreign", "a", "1", "", json!({ "schedulerName": "other" })),
        pod("gated", "a", "1", "", gated),
        pod("bound", "a", "1", "", json!({ "nodeName": "elsewhere" })),
        node("n1 a - 4 4Gi"),
        node("elsewhere a - 4 4Gi"),
    ])
    .await;
    assert_eq!(cluster.place("foreign"), "");
    assert_eq!(scheduled(&cluster.pod("foreign")), Value::Null);
    assert_eq!(cluster.place("gated"), GATED);
    assert_eq!(scheduled(&cluster.pod("gated"))["reason"], "SchedulingGated");
    assert_eq!(cluster.place("bound"), "elsewhere");
    assert_eq!(cluster.events(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_tried_again_when_it_may_help() {
    let cluster = Cluster::with(&[node("n1 a - 1 1Gi"), pod("p", "a", "2", "", json!({}))]).await;
    let no_room = "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.";
    assert_eq!(cluster.place("p"), no_room);
    let condition = scheduled(&cluster.pod("p"));
    assert_eq!((&condition["status"], &condition["reason"]), (&json!("False"), &json!("Unschedulable")));
    // Something else that changes helps nobody.
    cluster.create(&pod("q", "b", "100m", "", json!({}))).await;
    cluster.pass(20).await;
    let failed = |count: i64| format!("p Warning FailedScheduling {no_room} x{count}");
    assert_eq!(
        cluster.events(),
        [failed(1), "q Normal Scheduled Successfully assigned default/q to n1 x1".to_owned()]
    );
    cluster.pass(280).await;
    assert_eq!(cluster.events()[0], failed(2), "after five minutes");
    cluster.create(&node("n2 a - 4 4Gi")).await;
    cluster.pass(1).await;
    assert_eq!(cluster.place("p"), no_room, "it rests after its second attempt");
    cluster.pass(3).await;
    assert_eq!(cluster.place("p"), "n2");
}

#[tokio::test(start_paused = true)]
async fn volumes_tie_pods_to_nodes() {
    let claim = |name: &str, class: &str, volume: &str| {
        let mut claim = json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": { "name": name, "namespace": "default" },
            "spec": { "accessModes": ["ReadWriteOnce"], "storageClassName": class,
                      "resources": { "requests": { "storage": "1Gi" } } } });
        if !volume.is_empty() {
            claim["spec"]["volumeName"] = json!(volume);
        }
        claim
    };
    let class = |name: &str, mode: &str| {
        json!({ "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": name },
            "provisioner": "csi.example.com", "volumeBindingMode": mode })
    };
    let volume = |name: &str, zone: &str| {
        json!({ "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": name },
            "spec": { "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "1Gi" },
                "csi": { "driver": "csi.example.com", "volumeHandle": name },
                "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": [
                    { "key": ZONE, "operator": "In", "values": [zone] }] }] } } } })
    };
    let limits = json!({ "apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": { "name": "n1" },
        "spec": { "drivers": [{ "name": "csi.example.com", "nodeID": "n1", "topologyKeys": [],
            "allocatable": { "count": 1 } }] } });
    let uses = |name: &str, claim: &str| {
        let volumes =
            json!({ "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": claim } }] });
        pod(name, "a", "", "", volumes)
    };
    let cluster = Cluster::with(&[
        node("n1 a - 2 2Gi"),
        node("n2 b - 2 2Gi"),
        limits,
        class("waits", "WaitForFirstConsumer"),
        class("at-once", "Immediate"),
        volume("v1", "a"),
        volume("v2", "a"),
        volume("v3", "c"),
        claim("bound", "waits", "v1"),
        claim("bound-too", "waits", "v2"),
        claim("elsewhere", "waits", "v3"),
        claim("unbound", "waits", ""),
        claim("soon", "at-once", ""),
        uses("first", "bound"),
        uses("second", "bound-too"),
        uses("third", "elsewhere"),
        uses("fourth", "unbound"),
        uses("fifth", "soon"),
    ])
    .await;
    for (name, expected) in [
        ("first", "n1".to_owned()),
        ("second", "0/2 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity, 1 node(s) exceed max volume count. no new claims to deallocate, preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling.".to_owned()),
        ("third", "0/2 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity, 1 node(s) exceed max volume count. no new claims to deallocate, preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling.".to_owned()),
        ("fourth", "n2".to_owned()),
        (
            "fifth",
            "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found".to_owned(),
        ),
    ] {
        assert_eq!(cluster.place(name), expected, "{name}");
    }
    let pv = "soon-made";
    cluster.create(&volume(pv, "b")).await;
    cluster
        .change("persistentvolumeclaims", "soon", "default", |claim| {
            claim["spec"]["volumeName"] = json!(pv);
        })
        .await;
    cluster.pass(5).await;
    assert_eq!(cluster.place("fifth"), "n2");
}

/// The same pods in the same order find the same nodes; those of many classes and of few.
#[tokio::test(start_paused = true)]
async fn the_same_world_is_scheduled_the_same_way() {
    let mut runs = Vec::new();
    for _ in 0..2 {
        let mut objects: Vec<Value> = (0..10).map(|n| node(&format!("n{n} {} - 64 64Gi", n % 3))).collect();
        for node in &mut objects {
            node["status"]["allocatable"]["pods"] = json!("110");
        }
        for index in 0..200 {
            let more = match index % 4 {
                0 => spread(ZONE, "DoNotSchedule"),
                1 => near("podAffinity", "a", ZONE),
                _ => json!({}),
            };
            let app = ["a", "b", "c"][index % 3];
            objects.push(pod(&format!("p{index}"), app, "100m", "100Mi", more));
        }
        let cluster = Cluster::with(&objects).await;
        cluster.pass(30).await;
        let places: Vec<String> = (0..200).map(|index| cluster.place(&format!("p{index}"))).collect();
        runs.push(places);
    }
    assert!(runs[0].iter().all(|place| place.starts_with('n')), "{:?}", runs[0]);
    assert_eq!(runs[0], runs[1]);
}

/// What an outlook has followed is what it would be if it were made anew.
#[test]
fn outlooks_follow_what_happens() {
    let mut cache = Cache::new();
    let mut outlooks = Outlooks::default();
    let key = |name: &str| Key::new("pods", "default", name);
    for n in 0..4 {
        let node = node(&format!("n{n} {} - 64 64Gi", n % 2));
        cache.put_node(&Key::new("nodes", "", &format!("n{n}")), None, &node);
    }
    let waiting = pod("w", "a", "1", "", spread(ZONE, "DoNotSchedule"));
    cache.put_pod(&key("w"), None, &waiting);
    let circumstances = Circumstances { uid: "w", never_preempts: true, company: None, budgets: &Vec::new };
    for step in 0..40 {
        let name = format!("p{}", step % 7);
        if cache.pod_id(&key(&name)).is_some() {
            cache.remove_pod(&key(&name));
        } else {
            let there = on(&format!("n{}", step % 4), pod(&name, ["a", "b"][step % 2], "", "", json!({})));
            cache.put_pod(&key(&name), None, &there);
        }
        let id = cache.pod_id(&key("w")).unwrap();
        let followed = decision::decide(&cache, &mut outlooks, id, &circumstances);
        let anew = decision::decide(&cache, &mut Outlooks::default(), id, &circumstances);
        assert_eq!(followed, anew, "step {step}");
        assert!(followed.is_some());
    }
}
