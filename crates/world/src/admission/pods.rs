//! What else is added to pods, and to nodes: tolerations, the overhead of a runtime, where a node stands.

use std::sync::Arc;

use super::{Matter, list_mut};
use crate::failure::Failure;
use crate::json::{Value, json};
use crate::object;
use crate::store::{Key, Store};

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// How long pods stay on a node that is lost, unless they say it themselves.
const TOLERATED_SECS: i64 = 300;

pub(super) fn tolerate(pod: &mut Value) {
    for key in [NOT_READY, UNREACHABLE] {
        let Some(tolerations) = pod.get_mut("spec").and_then(|spec| list_mut(spec, "tolerations")) else {
            return;
        };
        let is_or_any = |toleration: &Value, field: &str, word: &str| {
            let said = object::text(toleration, &[field]);
            said.is_empty() || said == word
        };
        let covers = |toleration: &Value| {
            is_or_any(toleration, "key", key) && is_or_any(toleration, "effect", "NoExecute")
        };
        if !tolerations.iter().any(covers) {
            tolerations.push(json!({
                "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATED_SECS,
            }));
        }
    }
}

/// A new node takes pods once its kubelet has said that it can.
pub(super) fn taint_node(node: &mut Value) {
    let Some(fields) = node.as_object_mut() else { return };
    let spec = fields.entry("spec").or_insert_with(|| json!({}));
    let Some(taints) = list_mut(spec, "taints") else { return };
    if !taints.iter().any(|taint| taint["key"] == NOT_READY && taint["effect"] == "NoSchedule") {
        taints.push(json!({ "key": NOT_READY, "effect": "NoSchedule" }));
    }
}

fn class_of(store: &Store, matter: &Matter<'_>, pod: &Value) -> Result<Option<Arc<Value>>, Failure> {
    let name = object::text(pod, &["spec", "runtimeClassName"]);
    if name.is_empty() {
        return Ok(None);
    }
    match store.get(&Key::new("runtimeclasses.node.k8s.io", "", name)) {
        Some(class) => Ok(Some(class)),
        None => Err(matter.refuse(pod, &format!("pod rejected: RuntimeClass {name:?} not found"))),
    }
}

pub(super) fn runtime_class(store: &Store, matter: &Matter<'_>, pod: &mut Value) -> Result<(), Failure> {
    let Some(class) = class_of(store, matter, pod)? else { return Ok(()) };
    if let Some(overhead) = class.pointer("/overhead/podFixed") {
        let given = &pod["spec"]["overhead"];
        if given.as_object().is_some_and(|given| !given.is_empty()) && given != overhead {
            return Err(matter.refuse(pod, OTHER_OVERHEAD));
        }
        object::put(pod, &["spec", "overhead"], overhead.clone());
    }
    for (key, value) in
        class.pointer("/scheduling/nodeSelector").and_then(Value::as_object).into_iter().flatten()
    {
        let given = object::text(pod, &["spec", "nodeSelector", key]);
        let value = value.as_str().unwrap_or_default();
        if !given.is_empty() && given != value {
            let why = format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {given}"
            );
            return Err(matter.refuse(pod, &why));
        }
        object::put(pod, &["spec", "nodeSelector", key], json!(value));
    }
    let more = class.pointer("/scheduling/tolerations").and_then(Value::as_array).into_iter().flatten();
    for toleration in more {
        if let Some(tolerations) = pod.get_mut("spec").and_then(|spec| list_mut(spec, "tolerations"))
            && !tolerations.contains(toleration)
        {
            tolerations.push(toleration.clone());
        }
    }
    Ok(())
}

const OTHER_OVERHEAD: &str = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";

pub(super) fn check_overhead(store: &Store, matter: &Matter<'_>, pod: &Value) -> Result<(), Failure> {
    let class = class_of(store, matter, pod)?;
    let defined = class.as_ref().and_then(|class| class.pointer("/overhead/podFixed"));
    match (defined, pod["spec"].get("overhead")) {
        (Some(defined), given) if given != Some(defined) => Err(matter.refuse(pod, OTHER_OVERHEAD)),
        (None, Some(given)) if !given.is_null() => {
            let why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
            Err(matter.refuse(pod, why))
        }
        _ => Ok(()),
    }
}

const TOPOLOGY: [&str; 2] = ["topology.kubernetes.io/region", "topology.kubernetes.io/zone"];

/// A pod on a node has labels that say where that stands.
pub(crate) fn topology(store: &Store, pod: &mut Value) {
    let node = object::text(pod, &["spec", "nodeName"]);
    let Some(node) = Some(node).filter(|node| !node.is_empty()) else { return };
    let Some(node) = store.get(&Key::new("nodes", "", node)) else { return };
    for label in TOPOLOGY {
        if let Some(value) = node["metadata"]["labels"].get(label) {
            object::put(pod, &["metadata", "labels", label], value.clone());
        }
    }
}
