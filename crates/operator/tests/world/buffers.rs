//! CapacityBuffers: room that is kept free for pods to come.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::played;
use crate::scene::{Scene, condition, deployment, text};
use crate::with_pool;

pub(crate) const BUFFERS: &str = "/apis/autoscaling.x-k8s.io/v1beta1/capacitybuffers";

/// A buffer that is called as the workload it is for.
pub(crate) fn buffer_for(workload: &Value, size: Value) -> Value {
    let (name, kind) = (&workload["metadata"]["name"], &workload["kind"]);
    let mut spec = size;
    spec["scalableRef"] = json!({ "apiGroup": "apps", "kind": kind, "name": name });
    buffer(text(name), &spec)
}

fn buffer(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
        "metadata": { "name": name, "namespace": "default" }, "spec": spec,
    })
}

/// One of each kind that buffers can be for, without pods.
pub(crate) fn workloads() -> Vec<Value> {
    let deployment = deployment("web", 0, "1");
    let of = |api_version: &str, kind: &str| {
        let mut workload = deployment.clone();
        workload["apiVersion"] = json!(api_version);
        workload["kind"] = json!(kind);
        workload
    };
    let mut set = of("apps/v1", "StatefulSet");
    set["spec"]["serviceName"] = json!("web");
    set["metadata"]["name"] = json!("set");
    let mut replicas = of("apps/v1", "ReplicaSet");
    replicas["metadata"]["name"] = json!("replicas");
    let mut job = of("batch/v1", "Job");
    job["metadata"]["name"] = json!("job");
    let mut template = deployment["spec"]["template"].clone();
    template["spec"]["restartPolicy"] = json!("Never");
    job["spec"] = json!({ "suspend": true, "template": template });
    vec![deployment, set, replicas, job]
}

fn template(name: &str, cpu: &str) -> Value {
    let template = deployment(name, 1, cpu)["spec"]["template"].clone();
    json!({
        "apiVersion": "v1", "kind": "PodTemplate",
        "metadata": { "name": name, "namespace": "default" }, "template": template,
    })
}

async fn stored(scene: &Scene, name: &str) -> Value {
    scene.get(&format!("/apis/autoscaling.x-k8s.io/v1beta1/namespaces/default/capacitybuffers/{name}")).await
}

async fn says(scene: &Scene, name: &str, reason: &str) -> bool {
    condition(&stored(scene, name).await, "Provisioning").is_some_and(|(_, said)| said == reason)
}

/// What all nodes have of CPU, in thousandths, less what their pods ask for.
async fn room(scene: &Scene) -> i64 {
    let milli = |value: &Value| {
        let text = text(value);
        let whole = |text: &str| text.parse::<i64>().unwrap_or_default();
        text.strip_suffix('m').map_or_else(|| whole(text) * 1000, whole)
    };
    let nodes = scene.nodes().await;
    let given: i64 = nodes.iter().map(|node| milli(&node["status"]["allocatable"]["cpu"])).sum();
    let pods = scene.pods().await;
    let asked = |pod: &Value| milli(&pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]);
    given - pods.iter().filter(|pod| pod["spec"]["nodeName"].is_string()).map(asked).sum::<i64>()
}

/// Of all that is written because of a buffer.
async fn versions(scene: &Scene) -> Vec<Value> {
    let mut versions = Vec::new();
    for path in [BUFFERS, "/apis/karpenter.sh/v1/nodepools", "/apis/karpenter.sh/v1/nodeclaims"] {
        let objects = scene.list(path).await;
        versions.extend(objects.iter().map(|object| object["metadata"]["resourceVersion"].clone()));
    }
    versions
}

#[test]
fn room_is_there_before_the_pods_and_goes_with_the_buffer() {
    played("{}", async |scene| {
        with_pool(scene, |_| {}).await;
        scene.apply(template("large", "2")).await;
        scene.apply(buffer("peak", &json!({ "podTemplateRef": { "name": "large" }, "replicas": 3 }))).await;
        scene.until(180, "there is room", async || says(scene, "peak", "CapacityProvisioned").await).await;
        let peak = stored(scene, "peak").await;
        assert_eq!(condition(&peak, "ReadyForProvisioning"), Some(("True", "BufferTranslated")));
        assert_eq!(peak["status"]["replicas"], 3);
        assert_eq!(peak["status"]["podTemplateRef"]["name"], "large");
        assert!(room(scene).await >= 6000, "{}", room(scene).await);
        assert_eq!(scene.pods().await.len(), 0, "room is kept without pods");
        // An idle node that holds room stays, and nothing is written about it.
        sleep(Duration::from_mins(2)).await;
        let before = versions(scene).await;
        sleep(Duration::from_mins(10)).await;
        assert_eq!(versions(scene).await, before, "a buffer at rest writes nothing");
        // Pods that come have their place at once, and room is bought anew behind them.
        let machines = scene.machine_names();
        scene.apply(deployment("web", 2, "2")).await;
        scene.until(10, "they run at once", async || scene.running().await == 2).await;
        scene
            .until(180, "there is as much room as before", async || {
                says(scene, "peak", "CapacityProvisioned").await && room(scene).await >= 6000
            })
            .await;
        assert!(machines.iter().all(|machine| scene.machine_names().contains(machine)));
        scene.delete("/apis/autoscaling.x-k8s.io/v1beta1/namespaces/default/capacitybuffers/peak").await;
        scene
            .until(900, "only the pods' own node is left", async || {
                scene.machines() == 1 && scene.running().await == 2
            })
            .await;
    });
}

#[test]
fn room_grows_and_shrinks_with_its_workload() {
    played("{}", async |scene| {
        with_pool(scene, |_| {}).await;
        let web = deployment("web", 2, "1");
        scene.apply(web.clone()).await;
        scene.apply(buffer_for(&web, json!({ "percentage": 50 }))).await;
        let holds = async |replicas: u32| {
            let buffer = stored(scene, "web").await;
            buffer["status"]["replicas"] == replicas && says(scene, "web", "CapacityProvisioned").await
        };
        scene.until(180, "room for one", async || holds(1).await && scene.running().await == 2).await;
        scene.apply(deployment("web", 6, "1")).await;
        scene.until(240, "room for three", async || holds(3).await && scene.running().await == 6).await;
        assert!(room(scene).await >= 3000);
        scene.apply(deployment("web", 0, "1")).await;
        scene.until(900, "none is left", async || holds(0).await && scene.machines() == 0).await;
    });
}

/// What is wrong with one is said there, and is nobody else's trouble.
#[test]
fn buffers_that_cannot_be_kept_say_why() {
    played("{}", async |scene| {
        with_pool(scene, |pool| pool["spec"]["limits"] = json!({ "cpu": "4" })).await;
        scene.apply(template("large", "3")).await;
        let of = |template: &str| json!({ "podTemplateRef": { "name": template }, "replicas": 2 });
        scene.apply(buffer("lost", &of("nowhere"))).await;
        scene
            .apply(buffer("odd", &json!({ "scalableRef": { "kind": "Pod", "name": "x" }, "replicas": 1 })))
            .await;
        scene.apply(buffer("much", &of("large"))).await;
        let why = async |name: &str, kind: &str, reason: &str, words: &str| {
            scene
                .until(120, &format!("{name} says why"), async || {
                    let buffer = stored(scene, name).await;
                    let conditions = buffer["status"]["conditions"].as_array().cloned().unwrap_or_default();
                    conditions.iter().any(|said| {
                        said["type"] == kind
                            && said["status"] == "False"
                            && said["reason"] == reason
                            && text(&said["message"]).contains(words)
                    })
                })
                .await;
        };
        why("lost", "ReadyForProvisioning", "CannotBeTranslated", "there is no PodTemplate `nowhere`").await;
        why("odd", "ReadyForProvisioning", "CannotBeTranslated", "`Pod` is not known").await;
        why("much", "Provisioning", "CapacityUnavailable", "there is room for 1 of 2").await;
        scene.apply(deployment("web", 1, "1")).await;
        scene.until(60, "a pod takes the room", async || scene.running().await == 1).await;
        scene.apply(template("nowhere", "100m")).await;
        scene
            .until(120, "what was missing is there", async || {
                condition(&stored(scene, "lost").await, "ReadyForProvisioning")
                    == Some(("True", "BufferTranslated"))
            })
            .await;
    });
}
