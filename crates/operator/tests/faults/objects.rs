//! Objects that workloads are made of.

use serde_json::{Value, json};

pub(crate) const NODEPOOLS: &str = "/apis/karpenter.sh/v1/nodepools";
pub(crate) const NODECLAIMS: &str = "/apis/karpenter.sh/v1/nodeclaims";

pub(crate) fn class() -> Value {
    json!({
        "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass",
        "metadata": { "name": "default" }, "spec": {},
    })
}

/// A pool of machines of these sizes that may give up so many nodes at a time.
pub(crate) fn pool(name: &str, cpus: &[&str], away_max: u32, change: impl FnOnce(&mut Value)) -> Value {
    let mut pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": { "name": name },
        "spec": {
            "template": { "spec": {
                "nodeClassRef": { "group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default" },
                "requirements": [
                    { "key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"] },
                    { "key": "kubernetes.io/os", "operator": "In", "values": ["linux"] },
                    { "key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": cpus },
                ],
                "expireAfter": "Never",
            } },
            "disruption": { "consolidateAfter": "0s", "budgets": [{ "nodes": away_max.to_string() }] },
        },
    });
    change(&mut pool);
    pool
}

pub(crate) fn capacity_type(pool: &mut Value, capacity_type: &str) {
    let wanted = json!({ "key": "karpenter.sh/capacity-type", "operator": "In", "values": [capacity_type] });
    if let Some(all) = pool["spec"]["template"]["spec"]["requirements"].as_array_mut() {
        all.push(wanted);
    }
}

pub(crate) fn deployment(name: &str, replicas: u32, cpu: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": name, "namespace": "default" },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name } },
                "spec": { "containers": [
                    { "name": "main", "image": "x", "resources": { "requests": { "cpu": cpu, "memory": "128Mi" } } },
                ] },
            },
        },
    })
}

/// A pod by itself.
pub(crate) fn pod(name: &str, cpu: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": "default", "labels": { "app": name } },
        "spec": { "containers": [
            { "name": "main", "image": "x", "resources": { "requests": { "cpu": cpu, "memory": "128Mi" } } },
        ] },
    });
    change(&mut pod);
    pod
}

/// So many pods of a workload have to be there.
pub(crate) fn budget(app: &str, available_min: u32) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": { "name": app, "namespace": "default" },
        "spec": { "minAvailable": available_min, "selector": { "matchLabels": { "app": app } } },
    })
}
