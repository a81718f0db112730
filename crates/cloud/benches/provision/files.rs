//! A workload as files that a peer can read as well: `pods.json` and `cluster.json` are manifests,
//! `catalog.json` is a catalog.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use berth_api::{Context, Source, Timestamp};
use berth_cloud::CatalogOptions;
use berth_core::catalog::Catalog;
use berth_core::pod::{Pod, PodSpec, PodTerm, Spread};
use berth_core::requirement::Expression;
use berth_core::resources::{PODS, Resources};
use berth_core::selector::Selector;
use berth_core::snapshot::Snapshot;
use berth_core::units::Price;
use serde_json::{Value, json};

use super::Workload;

const PODS_FILE: &str = "pods.json";
const CLUSTER_FILE: &str = "cluster.json";
const CATALOG_FILE: &str = "catalog.json";

pub(super) fn write(workload: &Workload, dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    let catalog = Catalog { name: "exported".into(), types: workload.types.clone() };
    fs::write(dir.join(CATALOG_FILE), berth_cloud::export(&catalog)?)?;
    let daemon_set = workload.daemon_requests.as_ref().map(daemon_set_document);
    let cluster = [class_document(), pool_document(&workload.requirements)].into_iter().chain(daemon_set);
    fs::write(dir.join(CLUSTER_FILE), list_document(&cluster.collect::<Vec<_>>()).to_string())?;
    let pods: Vec<Value> = workload.pods.iter().map(pod_document).collect();
    fs::write(dir.join(PODS_FILE), list_document(&pods).to_string())
}

/// Reads as `berth advise` does.
pub(super) fn read(dir: &Path) -> Result<Snapshot, String> {
    let catalog = berth_cloud::load(&dir.join(CATALOG_FILE).to_string_lossy(), &CatalogOptions::default())
        .map(Arc::new)
        .map_err(|error| error.to_string())?;
    let sources = [PODS_FILE, CLUSTER_FILE].map(|name| Source::Path { path: dir.join(name), but: None });
    let manifests = berth_api::read(&sources, &mut |_, _| {});
    let context = Context { now: Timestamp::UNIX_EPOCH, node_cost: Price::ZERO };
    let assembled = berth_api::assemble(manifests, &context, &mut |_| Ok(Arc::clone(&catalog)));
    match assembled.problems.first() {
        Some(problem) => Err(problem.to_string()),
        None => Ok(assembled.snapshot),
    }
}

fn list_document(items: &[Value]) -> Value {
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

fn class_document() -> Value {
    json!({"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass",
           "metadata": {"name": "default"}, "spec": {}})
}

fn pool_document(requirements: &[Expression]) -> Value {
    let requirements: Vec<Value> = requirements.iter().map(expression_document).collect();
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
        "spec": {"template": {"spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "requirements": requirements,
        }}},
    })
}

fn daemon_set_document(requests: &Resources) -> Value {
    let labels = json!({"app": "agent"});
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent", "namespace": "default"},
        "spec": {"selector": {"matchLabels": labels},
                 "template": {"metadata": {"labels": labels}, "spec": {"containers": containers(requests)}}},
    })
}

fn pod_document(pod: &Pod) -> Value {
    let PodSpec { labels, requests, affinity, anti_affinity, spread, .. } = &*pod.spec;
    let mut spec = json!({"containers": containers(requests)});
    for (field, terms) in [("podAffinity", affinity), ("podAntiAffinity", anti_affinity)] {
        if !terms.is_empty() {
            let terms: Vec<Value> = terms.iter().map(term_document).collect();
            spec["affinity"][field] = json!({"requiredDuringSchedulingIgnoredDuringExecution": terms});
        }
    }
    if !spread.is_empty() {
        spec["topologySpreadConstraints"] = spread.iter().map(spread_document).collect();
    }
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": &*pod.name, "namespace": &*pod.namespace, "labels": labels},
        "spec": spec,
    })
}

/// One container that asks for it all. The place that a pod takes is not asked for.
fn containers(requests: &Resources) -> Value {
    let mut requests = json!(requests);
    if let Some(map) = requests.as_object_mut() {
        map.remove(PODS);
    }
    json!([{"name": "app", "image": "app", "resources": {"requests": requests}}])
}

fn term_document(term: &PodTerm) -> Value {
    json!({"topologyKey": &*term.topology_key, "labelSelector": term.selector.as_ref().map(selector_document)})
}

fn spread_document(spread: &Spread) -> Value {
    json!({
        "topologyKey": &*spread.topology_key,
        "maxSkew": spread.max_skew,
        "whenUnsatisfiable": if spread.required { "DoNotSchedule" } else { "ScheduleAnyway" },
        "labelSelector": spread.selector.as_ref().map(selector_document),
    })
}

fn selector_document(selector: &Selector) -> Value {
    let expressions: Vec<Value> = selector.expressions().iter().map(expression_document).collect();
    json!({"matchExpressions": expressions})
}

fn expression_document(expression: &Expression) -> Value {
    json!({"key": &**expression.key(), "operator": expression.operator().name(), "values": expression.values()})
}
