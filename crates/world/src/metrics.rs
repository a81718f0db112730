//! metrics.k8s.io: what nodes and pods use, as `kubectl top` asks for it.
//!
//! Nothing is measured. A container uses a share of what it asks for, which its pod's uid decides: between a fifth
//! and four fifths, or a little where it asks for nothing. A pod that says `berth.dev/usage: cpu=50m,memory=100Mi`
//! uses that, its containers alike. A node uses what its pods use, and a fiftieth of what it has for itself.

use std::sync::Arc;

use berth_core::resources::{CPU, MEMORY, Resources};
use berth_core::units::Quantity;
use jiff::Timestamp;

use crate::clock::lot_of;
use crate::json::{Value, json};
use crate::kinds::{Resource, Scope};
use crate::life::{View, amounts};
use crate::object;
use crate::store::Key;

const GROUP: &str = "metrics.k8s.io";
const VERSION: &str = "v1beta1";

/// Over how long is measured.
const WINDOW: &str = "15s";

/// What a container uses that asks for nothing, in full.
const CPU_OF_NONE: i64 = 10;
const MEMORY_OF_NONE: i64 = 64 << 20;

pub(crate) fn serves(group: &str, version: &str) -> bool {
    (group, version) == (GROUP, VERSION)
}

pub(crate) fn are(resource: &Resource) -> bool {
    resource.group == GROUP && !resource.is_custom
}

/// The kinds that are computed, as if they were kept.
pub(crate) fn resource(group: &str, version: &str, plural: &str) -> Option<Arc<Resource>> {
    if !serves(group, version) {
        return None;
    }
    let (kind, scope) = match plural {
        "nodes" => ("NodeMetrics", Scope::Cluster),
        "pods" => ("PodMetrics", Scope::Namespaced),
        _ => return None,
    };
    Some(Arc::new(Resource {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
        singular: String::new(),
        short_names: Vec::new(),
        categories: Vec::new(),
        scope,
        subresources: Vec::new(),
        is_custom: false,
    }))
}

/// The metrics of the pod or node that a key of `pods` or `nodes` names. `None` where nothing runs.
pub(crate) fn of(key: &Key, view: View<'_>) -> Option<Value> {
    let object = view.get(key)?;
    if key.resource() == "nodes" {
        is_ready(&object).then(|| of_node(&object, view))
    } else {
        is_measured(&object).then(|| of_pod(&object, view.now()))
    }
}

fn is_ready(node: &Value) -> bool {
    object::condition_status(node, "Ready") == "True"
}

fn is_measured(pod: &Value) -> bool {
    object::text(pod, &["status", "phase"]) == "Running"
}

fn of_node(node: &Value, view: View<'_>) -> Value {
    let mut used = Resources::new();
    for pod in view.pods_on(object::name(node)).iter().filter(|pod| is_measured(pod)) {
        for (_, own) in &usage(pod) {
            used.add(own);
        }
    }
    let capacity = amounts(node.pointer("/status/capacity").unwrap_or(&Value::Null));
    for resource in [CPU, MEMORY] {
        used.set(resource, used.get(resource) + capacity.get(resource) / 50);
    }
    metrics("NodeMetrics", node, view.now(), ("usage", shown(&used)))
}

fn of_pod(pod: &Value, now: Timestamp) -> Value {
    let containers: Vec<Value> =
        usage(pod).iter().map(|(name, used)| json!({ "name": name, "usage": shown(used) })).collect();
    metrics("PodMetrics", pod, now, ("containers", json!(containers)))
}

fn metrics(kind: &str, of: &Value, now: Timestamp, (field, value): (&str, Value)) -> Value {
    let mut metadata = json!({ "name": object::name(of), "creationTimestamp": object::time(now) });
    for name in ["namespace", "labels"] {
        if let Some(same) = of["metadata"].get(name) {
            metadata[name] = same.clone();
        }
    }
    let mut metrics = json!({
        "kind": kind, "apiVersion": format!("{GROUP}/{VERSION}"), "metadata": metadata,
        "timestamp": object::time(now), "window": WINDOW,
    });
    metrics[field] = value;
    metrics
}

/// CPU in billionths of a core, memory in Ki: as the metrics server writes them.
fn shown(used: &Resources) -> Value {
    let nanos = used.get(CPU).saturating_mul(1_000_000);
    json!({ "cpu": format!("{nanos}n"), "memory": format!("{}Ki", used.get(MEMORY) / 1024) })
}

/// What each container of a pod uses.
fn usage(pod: &Value) -> Vec<(&str, Resources)> {
    let containers: Vec<&Value> =
        pod.pointer("/spec/containers").and_then(Value::as_array).into_iter().flatten().collect();
    let said = said(object::annotation(pod, "berth.dev/usage"));
    let count = i64::try_from(containers.len()).unwrap_or(1).max(1);
    let uid = object::uid(pod);
    let of = |container: &Value| {
        let name = object::text(container, &["name"]);
        let asked = amounts(&container["resources"]["requests"]);
        let mut used = Resources::new();
        for (resource, of_none) in [(CPU, CPU_OF_NONE), (MEMORY, MEMORY_OF_NONE)] {
            let full = Some(asked.get(resource)).filter(|amount| *amount > 0).unwrap_or(of_none);
            let percent = 20 + i64::try_from(lot_of(&format!("{uid}/{name}/{resource}")) % 61).unwrap_or(0);
            let share = i64::try_from(i128::from(full) * i128::from(percent) / 100).unwrap_or(full);
            used.set(resource, if said.names(resource) { said.get(resource) / count } else { share });
        }
        used
    };
    containers.iter().map(|container| (object::text(container, &["name"]), of(container))).collect()
}

fn said(annotation: &str) -> Resources {
    let pairs = annotation.split(',').filter_map(|pair| pair.split_once('='));
    let read = pairs.filter_map(|(name, amount)| {
        let quantity: Quantity = amount.trim().parse().ok()?;
        Some((name.trim().into(), Resources::amount_of(name.trim(), quantity)))
    });
    read.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_what_is_said_or_a_share_of_what_is_asked() {
        let two =
            json!([{"name": "a", "resources": {"requests": {"cpu": "1", "memory": "100Mi"}}}, {"name": "b"}]);
        let pod = |usage: &str| json!({"metadata": {"uid": "u", "annotations": {"berth.dev/usage": usage}}, "spec": {"containers": two}});
        let rows = [
            ("cpu=50m,memory=100Mi", (25..=25, 50 << 20..=50 << 20), (25..=25, 50 << 20..=50 << 20)),
            ("cpu=2", (1000..=1000, 20 << 20..=80 << 20), (1000..=1000, 12 << 20..=52 << 20)),
            ("nothing", (200..=800, 20 << 20..=80 << 20), (2..=8, 12 << 20..=52 << 20)),
        ];
        for (said, a, b) in rows {
            let pod = pod(said);
            let used = usage(&pod);
            for ((name, used), (cpu, memory)) in used.iter().zip([a, b]) {
                assert!(cpu.contains(&used.get(CPU)), "{said} {name} {}", used.get(CPU));
                assert!(memory.contains(&used.get(MEMORY)), "{said} {name} {}", used.get(MEMORY));
            }
            assert_eq!(usage(&pod), used);
        }
        assert_eq!(
            shown(&Resources::of(&[(CPU, 25), (MEMORY, 4096)])),
            json!({"cpu": "25000000n", "memory": "4Ki"})
        );
    }
}
