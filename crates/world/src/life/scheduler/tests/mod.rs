mod placement;
mod preemption;

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
