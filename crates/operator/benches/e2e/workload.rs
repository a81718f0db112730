//! What is asked for, and what a plan says that it takes.

use std::sync::Arc;

use berth_api::{Context, Source, Timestamp};
use berth_cloud::CatalogOptions;
use berth_core::catalog::Catalog;
use berth_core::check;
use berth_core::plan::Plan;
use berth_core::provision;
use berth_core::snapshot::Policy;
use berth_core::units::Price;
use serde_json::{Value, json};

/// Name, CPU and memory of the pods of Karpenter's performance tests.
pub(crate) const SMALL: (&str, &str, &str) = ("small", "900m", "3100Mi");
pub(crate) const LARGE: (&str, &str, &str) = ("large", "3500m", "28Gi");

pub(crate) fn class() -> Value {
    json!({
        "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass",
        "metadata": { "name": "default" }, "spec": {},
    })
}

/// The pool of Karpenter's performance tests.
pub(crate) fn pool() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": { "name": "default" },
        "spec": {
            "template": { "spec": {
                "nodeClassRef": { "group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default" },
                "requirements": [
                    { "key": "kubernetes.io/os", "operator": "In", "values": ["linux"] },
                    { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"] },
                    { "key": "karpenter.kwok.sh/instance-size", "operator": "Lt", "values": ["32"] },
                ],
            } },
            "disruption": {
                "consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "30s",
                "budgets": [{ "nodes": "100%" }],
            },
        },
    })
}

pub(crate) fn containers(cpu: &str, memory: &str) -> Value {
    json!([{ "name": "main", "image": "x", "resources": { "requests": { "cpu": cpu, "memory": memory } } }])
}

pub(crate) fn deployment((name, cpu, memory): (&str, &str, &str), replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": name, "namespace": "default" },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name } },
                "spec": { "containers": containers(cpu, memory) },
            },
        },
    })
}

pub(crate) fn catalog() -> Arc<Catalog> {
    Arc::new(berth_cloud::load("kwok", &CatalogOptions::default()).expect("it is built in"))
}

/// The plan for so many pods of each kind on an empty cluster: what `berth advise` says to these manifests.
pub(crate) fn planned(each: u32) -> Plan {
    let manifests = [class(), pool(), deployment(SMALL, each), deployment(LARGE, each)];
    let sources: Vec<Source> = manifests
        .iter()
        .map(|manifest| Source::Text { name: "manifest".to_owned(), text: manifest.to_string() })
        .collect();
    let manifests = berth_api::read(&sources, &mut |_, _| {});
    assert!(manifests.problems.is_empty(), "{:?}", manifests.problems);
    let context = Context { now: Timestamp::now(), node_cost: Price::ZERO };
    let assembled = berth_api::assemble(manifests, &context, &mut |_| Ok(catalog()));
    let policy = Policy::default();
    let plan = provision::plan(&assembled.snapshot, &policy);
    let violations = check::check(&assembled.snapshot, &policy, &plan);
    assert!(violations.is_empty() && plan.unplaced.is_empty(), "{violations:?}");
    plan
}
