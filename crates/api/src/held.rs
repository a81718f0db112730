//! Objects one by one, as an API server holds them: admission has completed them, and nothing is to be looked up
//! in other objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_core::disruption::NodeDisruption;
use berth_core::names::{self, Labels, Text};
use berth_core::node::{Node, NodeState};
use berth_core::pod::{Pod, PodSpec};
use berth_core::resources::{CPU, MEMORY, Resources};
use berth_core::selector::Selector;
use berth_core::volume::{StorageClass, Volume, VolumeClaim};
use jiff::Timestamp;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::builtin;
use crate::convert::Converter;
use crate::intern::Interner;
use crate::nodes;
use crate::pods;
use crate::problem::{At, Finding, Findings};
use crate::storage;

/// Why an object cannot be read: a field's path, and what is wrong there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    pub field: String,
    pub message: String,
}

/// A pod, and what its requests are to kube-scheduler where it compares nodes: containers that ask for no CPU or
/// no memory count as if they asked for a little.
#[derive(Clone, Debug)]
pub struct HeldPod {
    pub pod: Pod,
    pub requests_scored: Resources,
}

/// What kube-scheduler takes a container to use that does not say.
const MILLI_CPU_UNSAID: i64 = 100;
const MEMORY_UNSAID: i64 = 200 << 20;

pub fn pod<'v>(object: impl Deserializer<'v> + Copy) -> Result<HeldPod, Unreadable> {
    read(object, of_pod).or_else(|_| read(without_nulls(object), of_pod))
}

/// The node as it says it is, with all its taints.
pub fn node<'v>(object: impl Deserializer<'v> + Copy) -> Result<Node, Unreadable> {
    read(object, of_node).or_else(|_| read(without_nulls(object), of_node))
}

/// How many volumes each driver can attach to the node of a CSINode.
pub fn volume_limits<'v>(object: impl Deserializer<'v> + Copy) -> Result<BTreeMap<Text, u32>, Unreadable> {
    read(object, storage::read_csi_node).or_else(|_| read(without_nulls(object), storage::read_csi_node))
}

pub fn claim<'v>(object: impl Deserializer<'v> + Copy) -> Result<VolumeClaim, Unreadable> {
    read(object, storage::read_claim).or_else(|_| read(without_nulls(object), storage::read_claim))
}

pub fn volume<'v>(object: impl Deserializer<'v> + Copy) -> Result<Volume, Unreadable> {
    read(object, storage::read_volume).or_else(|_| read(without_nulls(object), storage::read_volume))
}

pub fn storage_class<'v>(object: impl Deserializer<'v> + Copy) -> Result<StorageClass, Unreadable> {
    read(object, storage::read_class).or_else(|_| read(without_nulls(object), storage::read_class))
}

/// The labels of any object.
pub fn labels<'v>(object: impl Deserializer<'v> + Copy) -> Result<Labels, Unreadable> {
    read(object, of_labelled).or_else(|_| read(without_nulls(object), of_labelled))
}

/// A selector as it stands in an object's spec.
pub fn selector<'v>(selector: impl Deserializer<'v> + Copy) -> Result<Selector, Unreadable> {
    read(selector, of_selector).or_else(|_| read(without_nulls(selector), of_selector))
}

fn of_pod(wire: &builtin::pod::Pod<'_>, to: &mut Converter<'_>) -> HeldPod {
    let (namespace, name) = identity(&wire.metadata, to);
    let read = pods::read_pod(wire, namespace, name, to);
    let unsaid = Resources::of(&[(CPU, MILLI_CPU_UNSAID), (MEMORY, MEMORY_UNSAID)]);
    let requests_scored = read.shape.requests(Some(&unsaid));
    let spec = PodSpec {
        priority: wire.spec.priority.unwrap_or(0),
        requests: read.shape.requests(None),
        ..read.shape.spec.clone()
    };
    // How it may be disrupted is nothing that is asked here.
    HeldPod { pod: read.into_core(Arc::new(spec), Timestamp::UNIX_EPOCH), requests_scored }
}

fn of_node(wire: &builtin::node::Node<'_>, to: &mut Converter<'_>) -> Node {
    let (_, name) = identity(&wire.metadata, to);
    let names_itself = wire.metadata.labels.0.iter().any(|(key, _)| &**key == names::HOSTNAME);
    let mut read = nodes::read_node(wire, name, to);
    if !names_itself {
        read.labels.remove(names::HOSTNAME);
    }
    Node {
        name: read.name,
        labels: read.labels,
        taints: read.taints,
        capacity: read.capacity,
        allocatable: read.allocatable,
        state: NodeState::Running,
        pool: None,
        price: None,
        volume_limits: BTreeMap::new(),
        disruption: NodeDisruption::default(),
    }
}

#[derive(Deserialize)]
struct Labelled<'a> {
    #[serde(borrow)]
    metadata: builtin::Metadata<'a>,
}

fn of_labelled(wire: &Labelled<'_>, to: &mut Converter<'_>) -> Labels {
    to.labels(&wire.metadata.labels)
}

fn of_selector(wire: &builtin::LabelSelector<'_>, to: &mut Converter<'_>) -> Selector {
    to.selector(wire, &At::ROOT)
}

fn identity(metadata: &builtin::Metadata<'_>, to: &mut Converter<'_>) -> (Text, Text) {
    let mut text = |text: Option<&builtin::Str<'_>>| to.text(text.map_or("", |text| text));
    (text(metadata.namespace.as_ref()), text(metadata.name.as_ref()))
}

fn read<'v, W: Deserialize<'v>, T>(
    object: impl Deserializer<'v>,
    convert: impl FnOnce(&W, &mut Converter<'_>) -> T,
) -> Result<T, Unreadable> {
    let wire = W::deserialize(object)
        .map_err(|error| Unreadable { field: String::new(), message: error.to_string() })?;
    let (mut findings, mut interner) = (Findings::default(), Interner::default());
    let value = convert(&wire, &mut Converter { findings: &mut findings, interner: &mut interner });
    match findings.0.into_iter().next() {
        None => Ok(value),
        Some(Finding { path, message }) => Err(Unreadable { field: path.to_string(), message }),
    }
}

/// Kubernetes takes `null` for nothing, where a list or a mapping may stand.
fn without_nulls<'v>(object: impl Deserializer<'v>) -> Value {
    let mut value = Value::deserialize(object).unwrap_or_default();
    drop_nulls(&mut value);
    value
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pods_are_taken_as_admitted() {
        let pod = |spec: Value| {
            let mut spec = spec;
            if spec["containers"].is_null() {
                spec["containers"] = json!([{"name": "c"}]);
            }
            super::pod(&json!({"metadata": {"name": "p", "namespace": "n", "labels": null}, "spec": spec}))
        };
        let shown = |spec: Value| {
            let held = pod(spec).unwrap();
            format!("{} | {} | {}", held.pod.spec.priority, held.pod.spec.requests, held.requests_scored)
        };
        for (spec, expected) in [
            (json!({}), "0 | pods 1 | cpu 100m, memory 200Mi, pods 1"),
            // A class that nobody has is what admission would have refused.
            (
                json!({"priorityClassName": "high", "priority": 7}),
                "7 | pods 1 | cpu 100m, memory 200Mi, pods 1",
            ),
            (
                json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}, {"name": "d"}]}),
                "0 | cpu 1, pods 1 | cpu 1100m, memory 400Mi, pods 1",
            ),
        ] {
            assert_eq!(shown(spec.clone()), expected, "{spec}");
        }
        let wrong = pod(json!({"tolerations": [{"operator": "Maybe"}]})).unwrap_err();
        assert_eq!(wrong.field, "spec.tolerations[0].operator");
    }

    #[test]
    fn nodes_are_what_they_say() {
        let node = node(&json!({
            "metadata": {"name": "n", "labels": {"a": "b"}},
            "spec": {"unschedulable": true, "taints": null},
            "status": {"allocatable": {"cpu": "2"}},
        }));
        let node = node.unwrap();
        assert_eq!(node.labels.len(), 1);
        assert_eq!(node.taints.len(), 1);
        assert_eq!(node.allocatable.get(CPU), 2000);
    }
}
