use crate::api::{Act, Api};
use crate::json::{Value, json};
use crate::object;
use crate::store::Key;

async fn api() -> Api {
    let api = Api::new(1, "2026-01-01T00:00:00Z".parse().unwrap());
    for (resource, object) in [
        (
            "serviceaccounts",
            json!({"metadata": {"name": "quiet", "namespace": "default"}, "automountServiceAccountToken": false, "imagePullSecrets": [{"name": "s"}]}),
        ),
        (
            "storageclasses.storage.k8s.io",
            json!({"metadata": {"name": "b", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}, "provisioner": "p"}),
        ),
        ("storageclasses.storage.k8s.io", json!({"metadata": {"name": "c"}, "provisioner": "p"})),
        (
            "priorityclasses.scheduling.k8s.io",
            json!({"metadata": {"name": "usual"}, "value": 7, "globalDefault": true, "preemptionPolicy": "Never"}),
        ),
        (
            "nodes",
            json!({"metadata": {"name": "n", "labels": {"topology.kubernetes.io/zone": "z", "x": "y"}}}),
        ),
    ] {
        api.act("test", Act::Create(resource, object)).await.unwrap();
    }
    api
}

fn pod(spec: &Value) -> Value {
    let mut pod = json!({
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    for (field, value) in spec.as_object().unwrap() {
        pod["spec"][field] = value.clone();
    }
    pod
}

#[tokio::test]
async fn what_is_written_is_completed() {
    let mount = json!([{"mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "name": "<volume>", "readOnly": true}]);
    let volumes = json!([{"name": "<volume>", "projected": {"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"items": [{"key": "ca.crt", "path": "ca.crt"}], "name": "kube-root-ca.crt"}},
        {"downwardAPI": {"items": [{"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}, "path": "namespace"}]}},
    ]}}]);
    let usual = json!({"priority": 7, "priorityClassName": "usual", "preemptionPolicy": "Never"});
    for (resource, object, path, expected) in [
        ("pods", pod(&json!({})), "/spec/containers/0/volumeMounts", mount),
        ("pods", pod(&json!({})), "/spec/volumes", volumes),
        ("pods", pod(&json!({})), "/spec/serviceAccount", json!("default")),
        ("pods", pod(&json!({})), "/spec/priority", usual["priority"].clone()),
        ("pods", pod(&json!({})), "/spec/priorityClassName", usual["priorityClassName"].clone()),
        ("pods", pod(&json!({})), "/spec/preemptionPolicy", usual["preemptionPolicy"].clone()),
        ("pods", pod(&json!({"serviceAccountName": "quiet"})), "/spec/volumes", Value::Null),
        (
            "pods",
            pod(&json!({"serviceAccountName": "quiet"})),
            "/spec/imagePullSecrets",
            json!([{"name": "s"}]),
        ),
        (
            "pods",
            pod(&json!({"priorityClassName": "system-node-critical"})),
            "/spec/priority",
            json!(2_000_001_000),
        ),
        (
            "pods",
            pod(&json!({"nodeName": "n"})),
            "/metadata/labels",
            json!({"topology.kubernetes.io/zone": "z"}),
        ),
        (
            "nodes",
            json!({"metadata": {"name": "m"}, "spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}}),
            "/spec/taints",
            json!([{"key": "a", "effect": "NoExecute"}, {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]),
        ),
        (
            "persistentvolumeclaims",
            json!({"metadata": {"name": "c", "namespace": "default"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}}}),
            "/spec/storageClassName",
            json!("b"),
        ),
        (
            "persistentvolumeclaims",
            json!({"metadata": {"name": "c", "namespace": "default"}, "spec": {"storageClassName": "", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}}}),
            "/spec/storageClassName",
            json!(""),
        ),
        (
            "persistentvolumes",
            json!({"metadata": {"name": "v"}, "spec": {"capacity": {"storage": "1"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/"}}}),
            "/metadata/finalizers",
            json!(["kubernetes.io/pv-protection"]),
        ),
    ] {
        let made = api().await.act("test", Act::Create(resource, object)).await.unwrap();
        let said = made.pointer(path).cloned().unwrap_or_default().to_string();
        let said = match made.pointer("/spec/volumes/0/name").and_then(Value::as_str) {
            Some(name) => said.replace(name, "<volume>"),
            None => said,
        };
        assert_eq!(said, expected.to_string(), "{path}");
    }
}

#[tokio::test]
async fn what_must_not_be_is_refused() {
    for (resource, object, expected) in [
        (
            "priorityclasses.scheduling.k8s.io",
            json!({"metadata": {"name": "x"}, "value": 1, "globalDefault": true}),
            "priorityclasses.scheduling.k8s.io \"x\" is forbidden: PriorityClass usual is already marked as default. Only one default can exist",
        ),
        (
            "pods",
            pod(&json!({"serviceAccountName": "x"})),
            "pods \"p\" is forbidden: error looking up service account default/x: serviceaccount \"x\" not found",
        ),
        (
            "pods",
            pod(&json!({"preemptionPolicy": "PreemptLowerPriority"})),
            "pods \"p\" is forbidden: the string value of PreemptionPolicy (PreemptLowerPriority) must not be provided in pod spec; priority admission controller computed Never from the given PriorityClass name",
        ),
    ] {
        let refused = api().await.act("test", Act::Create(resource, object)).await.unwrap_err();
        assert_eq!(refused.message, expected);
    }
}

/// What admission adds is in nobody's name.
#[tokio::test]
async fn only_what_was_sent_is_managed() {
    let api = api().await;
    let made = api.act("test", Act::Create("pods", pod(&json!({})))).await.unwrap();
    let managed = made["metadata"]["managedFields"].to_string();
    assert!(managed.contains("f:containers"), "{managed}");
    for field in ["f:tolerations", "f:volumes", "f:serviceAccountName", "f:priority"] {
        assert!(!managed.contains(field), "{field} in {managed}");
    }
}

#[tokio::test]
async fn whoever_updates_a_pod_need_not_know_all() {
    let api = api().await;
    api.act("test", Act::Create("pods", pod(&json!({})))).await.unwrap();
    let mut next = (*api.state().store.get(&Key::new("pods", "default", "p")).unwrap()).clone();
    for field in ["priority", "preemptionPolicy", "tolerations"] {
        next["spec"].as_object_mut().unwrap().remove(field);
    }
    object::put(&mut next, &["metadata", "labels", "a"], json!("b"));
    let changed = api.act("test", Act::Update("pods", next)).await.unwrap();
    assert_eq!(
        (&changed["spec"]["priority"], &changed["spec"]["preemptionPolicy"]),
        (&json!(7), &json!("Never"))
    );
    assert_eq!(changed["spec"]["tolerations"].as_array().unwrap().len(), 2);
}
