//! What differs from kind to kind when an object is written.

mod workloads;

use serde_json::{Value, json};

use crate::kinds::{Resource, Subresource};
use crate::object;

/// Whether changes of more than metadata and status are counted in `metadata.generation`.
pub(crate) fn has_generation(resource: &Resource) -> bool {
    match &*resource.group {
        "" => matches!(&*resource.kind, "Pod" | "PodTemplate" | "ReplicationController"),
        "apps" => resource.kind != "ControllerRevision",
        "autoscaling"
        | "coordination.k8s.io"
        | "discovery.k8s.io"
        | "events.k8s.io"
        | "node.k8s.io"
        | "rbac.authorization.k8s.io"
        | "storage.k8s.io" => false,
        _ => true,
    }
}

/// Whether an update without a resourceVersion overwrites what is there.
pub(crate) fn allows_unconditional_update(resource: &Resource) -> bool {
    const CONDITIONAL: [&str; 6] = [
        "CSINode",
        "Lease",
        "MutatingWebhookConfiguration",
        "PodDisruptionBudget",
        "RuntimeClass",
        "ValidatingWebhookConfiguration",
    ];
    !CONDITIONAL.contains(&&*resource.kind) && !is_custom(resource)
}

/// Custom resources are in groups with a dot that are not Kubernetes' own.
pub(crate) fn is_custom(resource: &Resource) -> bool {
    resource.group.contains('.') && !resource.group.ends_with(".k8s.io")
}

/// What the server makes of a new object before anybody looks at it.
pub(crate) fn prepare_for_create(resource: &Resource, object: &mut Value) {
    match &*resource.kind {
        // Whoever registers a node says what it has.
        "Node" => {}
        "Namespace" => {
            object["status"] = json!({ "phase": "Active" });
            object["spec"]["finalizers"] = json!(["kubernetes"]);
        }
        "Service" => object["status"] = json!({ "loadBalancer": {} }),
        "Pod" => object["status"] = json!({ "phase": "Pending", "qosClass": qos_class(object) }),
        "PersistentVolume" | "PersistentVolumeClaim" => object["status"] = json!({ "phase": "Pending" }),
        _ if is_custom(resource) => {
            if resource.has(Subresource::Status)
                && let Some(fields) = object.as_object_mut()
            {
                fields.remove("status");
            }
        }
        _ if resource.has(Subresource::Status) => object["status"] = json!({}),
        _ => {}
    }
}

/// What the server adds to a new object once it is known which it is.
pub(crate) fn finish_new(resource: &Resource, object: &mut Value) {
    workloads::finish_new(resource, object);
}

/// Guaranteed where all containers limit CPU and memory and ask for as much, BestEffort where none asks.
fn qos_class(pod: &Value) -> &'static str {
    let lists = ["containers", "initContainers"];
    let containers = lists.iter().filter_map(|list| pod["spec"][list].as_array()).flatten();
    let (mut any, mut all) = (false, true);
    for container in containers {
        for resource in ["cpu", "memory"] {
            let limit = &container["resources"]["limits"][resource];
            let request = &container["resources"]["requests"][resource];
            any |= !limit.is_null() || !request.is_null();
            all &= !limit.is_null() && (request.is_null() || request == limit);
        }
    }
    match (any, all) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

/// What an update of the whole object, or of one part, may change: the rest is as it was.
pub(crate) fn prepare_for_update(
    resource: &Resource,
    part: Option<Subresource>,
    old: &Value,
    new: &mut Value,
) {
    let kept = |new: &mut Value, field: &str| match (old.get(field), new.as_object_mut()) {
        (Some(value), Some(fields)) => {
            fields.insert(field.to_owned(), value.clone());
        }
        (None, Some(fields)) => {
            fields.remove(field);
        }
        (_, None) => {}
    };
    workloads::prepare_for_update(resource, part, old, new);
    match part {
        Some(Subresource::Status) => {
            let status = new.get("status").cloned();
            let annotations = new.pointer("/metadata/annotations").cloned();
            let managed = new.pointer("/metadata/managedFields").cloned();
            let revision = object::revision(new).to_owned();
            *new = old.clone();
            match (status, new.as_object_mut()) {
                (Some(status), Some(fields)) => fields.insert("status".to_owned(), status),
                (None, Some(fields)) => fields.remove("status"),
                (_, None) => None,
            };
            if resource.group == "apps" && resource.kind == "Deployment" {
                // Its controller writes the revision along with the status.
                object::set(new, "annotations", annotations.unwrap_or_default());
            }
            object::set(new, "managedFields", managed.unwrap_or_default());
            object::set(new, "resourceVersion", json!(revision));
        }
        Some(Subresource::Finalize) => kept(new, "status"),
        _ if resource.group.is_empty() && resource.kind == "Namespace" => {
            kept(new, "status");
            // What keeps a namespace is the matter of its finalizers' own part.
            kept(new, "spec");
        }
        _ if resource.has(Subresource::Status) => kept(new, "status"),
        _ => {}
    }
}

/// Whether more than metadata and status differ.
pub(crate) fn changes_spec(old: &Value, new: &Value) -> bool {
    let fields = |object: &Value| -> Vec<(String, Value)> {
        let all = object.as_object().into_iter().flatten();
        all.filter(|(key, _)| !matches!(key.as_str(), "metadata" | "status"))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    };
    fields(old) != fields(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_have_a_class_of_service() {
        let full = json!({"limits": {"cpu": "1", "memory": "1Gi"}});
        for (containers, expected) in [
            (json!([{}]), "BestEffort"),
            (json!([{"resources": full}]), "Guaranteed"),
            (json!([{"resources": full}, {}]), "Burstable"),
            (json!([{"resources": {"requests": {"cpu": "1"}}}]), "Burstable"),
            (
                json!([{"resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "1Gi"}}}]),
                "Burstable",
            ),
        ] {
            assert_eq!(qos_class(&json!({"spec": {"containers": containers}})), expected, "{containers}");
        }
    }
}
