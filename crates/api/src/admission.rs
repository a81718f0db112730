//! Objects one by one, before a cluster takes them: the parser that reads them afterwards judges them.

use std::sync::Arc;

use crate::kinds::Collection;
use crate::manifests::object_name;
use crate::observed::Observed;
use crate::problem::Problem;
use crate::resources::vpsie::{VPSieNode, VPSieNodeSpec};
use crate::vpsie::provider_id;

/// What is wrong with an object of this kind, written as JSON.
pub fn problems(collection: &Collection, text: &str) -> Vec<Problem> {
    let mut observed = Observed::default();
    observed.put(collection, text);
    observed.problems().collect()
}

/// What of a VPSieNode was changed and must not be. A machine is found by these fields: with others it would run, and
/// cost, and be nobody's.
pub fn lost_machine(old: &str, new: &str) -> Vec<Problem> {
    // What cannot be read is a problem of its own.
    let read = serde_json::from_str::<VPSieNode>;
    let (Ok(old), Ok(new)) = (read(old), read(new)) else { return Vec::new() };
    let metadata = &new.metadata;
    let (namespace, name) = (metadata.namespace.as_deref(), metadata.name.as_deref());
    let object = object_name("VPSieNode", namespace.unwrap_or_default(), name.unwrap_or_default());
    let changed = changes(&old.spec, &new.spec).into_iter().map(|(field, was)| Problem {
        source: Arc::from("cluster"),
        line: None,
        object: Some(object.clone()),
        field: Some(format!("spec.{field}")),
        message: format!("cannot be changed, since its machine would be lost; leave it as `{was}`"),
    });
    changed.collect()
}

/// Fields that are others than they were, with what they were. The datacenter may change until there is a machine: what
/// was wanted may be sold out there.
fn changes(old: &VPSieNodeSpec, new: &VPSieNodeSpec) -> Vec<(&'static str, String)> {
    let has_machine = provider_id(old).is_some();
    let identifier = |spec: &VPSieNodeSpec| spec.vpsie_node_identifier.clone().unwrap_or_default();
    let (was, is) = (identifier(old), identifier(new));
    let all = [
        ("nodeGroupName", old.node_group_name != new.node_group_name, old.node_group_name.clone()),
        ("datacenterID", has_machine && old.datacenter_id != new.datacenter_id, old.datacenter_id.clone()),
        (
            "vpsieInstanceID",
            old.vpsie_instance_id > 0 && old.vpsie_instance_id != new.vpsie_instance_id,
            old.vpsie_instance_id.to_string(),
        ),
        ("vpsieNodeIdentifier", !was.is_empty() && was != is, was.clone()),
    ];
    all.into_iter().filter(|(_, is_other, _)| *is_other).map(|(field, _, was)| (field, was)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn what_finds_a_machine_stays() {
        let node = |spec: &Value| {
            let mut all = json!({
                "vpsieInstanceID": 0, "instanceType": "small", "nodeGroupName": "web", "datacenterID": "a",
                "resourceIdentifier": "c", "project": "p", "kubernetesVersion": "v1.34.0",
            });
            for (field, value) in spec.as_object().unwrap() {
                all[field] = value.clone();
            }
            json!({
                "apiVersion": "autoscaler.vpsie.com/v1alpha1", "kind": "VPSieNode",
                "metadata": { "name": "n", "namespace": "kube-system" }, "spec": all,
            })
            .to_string()
        };
        let words = |field: &str, was: &str| {
            format!("spec.{field}: cannot be changed, since its machine would be lost; leave it as `{was}`")
        };
        for (old, new, expected) in [
            (json!({}), json!({}), vec![]),
            (
                json!({}),
                json!({"vpsieInstanceID": 7, "vpsieNodeIdentifier": "7", "datacenterID": "b"}),
                vec![],
            ),
            (json!({}), json!({"nodeGroupName": "db"}), vec![words("nodeGroupName", "web")]),
            (json!({"vpsieInstanceID": 7}), json!({"vpsieInstanceID": 7, "ipAddress": "10.0.0.1"}), vec![]),
            (
                json!({"vpsieInstanceID": 7}),
                json!({"vpsieInstanceID": 8}),
                vec![words("vpsieInstanceID", "7")],
            ),
            (json!({"vpsieInstanceID": 7}), json!({}), vec![words("vpsieInstanceID", "7")]),
            (
                json!({"vpsieInstanceID": 7}),
                json!({"vpsieInstanceID": 7, "datacenterID": "b"}),
                vec![words("datacenterID", "a")],
            ),
            (
                json!({"vpsieNodeIdentifier": "n-1"}),
                json!({"datacenterID": "b"}),
                vec![words("datacenterID", "a"), words("vpsieNodeIdentifier", "n-1")],
            ),
        ] {
            let found: Vec<String> =
                lost_machine(&node(&old), &node(&new)).iter().map(Problem::words).collect();
            assert_eq!(found, expected, "{old} to {new}");
        }
    }
}
