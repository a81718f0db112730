//! The pods that kube-scheduler spreads a pod among where it does not say so itself: those of its Services and of
//! the workload that it belongs to.

use berth_api::held;
use berth_core::selector::Selector;

use crate::json::{Map, Value, json};
use crate::life::View;
use crate::object;
use crate::store::Key;

pub(super) fn company(pod: &Value, view: View<'_>) -> Option<Selector> {
    let namespace = object::namespace(pod);
    let labels = &pod["metadata"]["labels"];
    let mut merged: Map = Map::new();
    for service in view.list("services", Some(namespace)) {
        let selector = object::at(&service, "/spec/selector").and_then(Value::as_object);
        if let Some(selector) = selector.filter(|selector| !selector.is_empty())
            && selector.iter().all(|(key, value)| labels.get(key) == Some(value))
        {
            merged.extend(selector.clone());
        }
    }
    let owner = object::controller(pod);
    let of_owner = owner.and_then(|owner| {
        let (resource, is_plain) = match (owner.api_version, owner.kind) {
            ("v1", "ReplicationController") => ("replicationcontrollers", true),
            ("apps/v1", "ReplicaSet") => ("replicasets.apps", false),
            ("apps/v1", "StatefulSet") => ("statefulsets.apps", false),
            _ => return None,
        };
        let workload = view.get(&Key::new(resource, namespace, owner.name))?;
        let selector = object::at(&workload, "/spec/selector")?.clone();
        Some(if is_plain { json!({ "matchLabels": selector }) } else { selector })
    });
    let selectors = [Some(json!({ "matchLabels": merged })), of_owner];
    let expressions = selectors
        .iter()
        .flatten()
        .filter_map(|selector| held::selector(selector).ok())
        .flat_map(|selector| selector.expressions().to_vec());
    let selector = Selector::new(expressions.collect());
    (!selector.is_everything()).then_some(selector)
}
