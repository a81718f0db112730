//! What differs from kind to kind when an object is written.

mod workloads;

use crate::json::{Value, json};
use crate::kinds::{Resource, Subresource};
use crate::object;

/// Whether changes of more than metadata and status are counted in `metadata.generation`.
pub(crate) fn has_generation(resource: &Resource) -> bool {
    match &*resource.group {
        _ if resource.is_custom => true,
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
    !CONDITIONAL.contains(&&*resource.kind) && !resource.is_custom
}

/// Whether a kind looks at the metadata of new objects itself. Of others they are looked at in the end.
pub(crate) fn checks_metadata(resource: &Resource) -> bool {
    !matches!(
        (&*resource.group, &*resource.kind),
        ("policy", "PodDisruptionBudget") | ("" | "events.k8s.io", "Event")
    )
}

/// Whether an update makes what is not there.
pub(crate) fn is_made_by_update(resource: &Resource) -> bool {
    matches!(&*resource.kind, "Lease" | "Event" | "Endpoints" | "LimitRange" | "Service" | "RuntimeClass")
        && !resource.is_custom
}

/// Versions that are served no more, but that the server still knows.
pub(crate) fn was_served(api_version: &str) -> bool {
    matches!(
        api_version,
        "apps/v1beta1"
            | "apps/v1beta2"
            | "autoscaling/v2beta1"
            | "autoscaling/v2beta2"
            | "batch/v1beta1"
            | "policy/v1beta1"
    )
}

/// Where the server keeps objects of a resource in etcd.
pub(crate) fn directory(resource: &Resource) -> String {
    match (&*resource.group, &*resource.plural) {
        ("", "nodes") => "minions".to_owned(),
        ("", "services") => "services/specs".to_owned(),
        ("", "endpoints") => "services/endpoints".to_owned(),
        (group, plural) if resource.is_custom || group == "apiextensions.k8s.io" => {
            format!("{group}/{plural}")
        }
        (_, plural) => plural.to_owned(),
    }
}

/// What was only waiting for its last finalizer. A namespace has some of its own.
pub(crate) fn is_over(object: &Value) -> bool {
    let grace = object::at(object, "/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64);
    let is_waited_for = object["kind"] == "Namespace"
        && object["apiVersion"] == "v1"
        && object::at(object, "/spec/finalizers")
            .and_then(Value::as_array)
            .is_some_and(|list| !list.is_empty());
    object::is_terminating(object)
        && object::finalizers(object).is_empty()
        && grace.unwrap_or(0) == 0
        && !is_waited_for
}

/// What the server makes of a new object before anybody looks at it.
pub(crate) fn prepare_for_create(resource: &Resource, object: &mut Value) {
    match &*resource.kind {
        _ if resource.is_custom => {
            if resource.has(Subresource::Status)
                && let Some(fields) = object.as_object_mut()
            {
                fields.remove("status");
            }
        }
        // Whoever registers a node says what it has.
        "Node" => {}
        "Namespace" => {
            object["status"] = json!({ "phase": "Active" });
            let mut finalizers =
                object::at(object, "/spec/finalizers").and_then(Value::as_array).cloned().unwrap_or_default();
            if !finalizers.contains(&json!("kubernetes")) {
                finalizers.push(json!("kubernetes"));
            }
            object["spec"]["finalizers"] = Value::from(finalizers);
        }
        "Service" | "Ingress" => object["status"] = json!({ "loadBalancer": {} }),
        "Pod" => {
            object["status"] = json!({ "phase": "Pending", "qosClass": qos_class(object) });
        }
        "PersistentVolume" | "PersistentVolumeClaim" => {
            object["status"] = json!({ "phase": "Pending" });
            name_data_source(object);
        }
        _ if resource.has(Subresource::Status) => object["status"] = json!({}),
        _ => {}
    }
}

/// What a claim is filled from has two names, of which the older one knows only claims and snapshots.
fn name_data_source(claim: &mut Value) {
    let Some(spec) = claim.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let is_known = spec.get("dataSource").is_some_and(|source| {
        let of = (object::text(source, &["apiGroup"]), object::text(source, &["kind"]));
        matches!(of, ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot"))
    });
    if !is_known && !spec.contains_key("dataSourceRef") {
        spec.remove("dataSource");
    }
    let [older, newer] = ["dataSource", "dataSourceRef"].map(|field| spec.get(field).cloned());
    match (older, newer) {
        (Some(source), None) => {
            spec.insert("dataSourceRef", source);
        }
        (None, Some(source)) if object::text(&source, &["namespace"]).is_empty() => {
            spec.insert("dataSource", source);
        }
        _ => {}
    }
}

/// What the server adds to a new object once it is known which it is.
pub(crate) fn finish_new(resource: &Resource, object: &mut Value) {
    workloads::finish_new(resource, object);
}

/// Guaranteed where all containers, or the pod as a whole, limit CPU and memory and ask for as much, BestEffort where
/// none asks.
fn qos_class(pod: &Value) -> &'static str {
    let spec = &pod["spec"];
    let lists = ["containers", "initContainers"];
    let containers: Vec<&Value> = if spec["resources"].is_null() {
        lists.iter().filter_map(|list| spec[list].as_array()).flatten().collect()
    } else {
        vec![spec]
    };
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
        (Some(value), Some(fields)) if fields.get(field) != Some(value) => {
            fields.insert(field, value.clone());
        }
        (None, Some(fields)) => {
            fields.remove(field);
        }
        _ => {}
    };
    workloads::prepare_for_update(resource, part, old, new);
    match part {
        Some(Subresource::Status) => keep_all_but_status(resource, old, new),
        Some(Subresource::Finalize) => {
            kept(new, "status");
            let is_empty = new["spec"]["finalizers"].as_array().is_none_or(Vec::is_empty);
            if is_empty {
                new["spec"] = json!({});
            }
        }
        _ if resource.kind == "Namespace" && resource.group.is_empty() => {
            kept(new, "status");
            // What keeps a namespace is the matter of its finalizers' own part.
            kept(new, "spec");
        }
        _ if resource.has(Subresource::Status) => kept(new, "status"),
        _ => {}
    }
}

/// Whoever writes the status writes nothing else but for some of the metadata: among others who manages what.
fn keep_all_but_status(resource: &Resource, old: &Value, new: &mut Value) {
    let (Some(before), Some(fields)) = (old.as_object(), new.as_object_mut()) else { return };
    let is_kept = |field: &str| field != "status" && field != "metadata";
    fields.retain(|field, _| !is_kept(field) || before.contains_key(field));
    for (field, value) in before.iter().filter(|(field, _)| is_kept(field)) {
        if fields.get(field) != Some(value) {
            fields.insert(field.clone(), value.clone());
        }
    }
    keep_metadata(resource, &old["metadata"], object::within(new, "metadata"));
    if resource.qualified() == "pods" && object::text(new, &["status", "qosClass"]).is_empty() {
        new["status"]["qosClass"] = old["status"]["qosClass"].clone();
    }
}

fn keep_metadata(resource: &Resource, old: &Value, new: &mut Value) {
    let (Some(before), Some(fields)) = (old.as_object(), new.as_object_mut()) else { return };
    let kept: &[&str] = match &*resource.kind {
        _ if resource.is_custom => &RESET,
        "Deployment" => &["labels"],
        "Pod" => &["ownerReferences"],
        "CustomResourceDefinition" => &RESET,
        _ => &[],
    };
    let is_theirs = |field: &str| {
        !kept.contains(&field)
            && (!resource.is_custom || matches!(field, "managedFields" | "resourceVersion"))
    };
    // What is left out of these is taken away, of all others it is as it was.
    let can_go = |field: &str| {
        is_theirs(field) && (RESET.contains(&field) || matches!(field, "managedFields" | "resourceVersion"))
    };
    for (field, value) in before {
        let given = fields.get(field);
        let stays = if is_theirs(field) { given.is_none() && !can_go(field) } else { given != Some(value) };
        if stays {
            fields.insert(field.clone(), value.clone());
        }
    }
    fields.retain(|field, value| !value.is_null() && (is_theirs(field) || before.contains_key(field)));
}

/// What a write of the status leaves as it was in the metadata of custom resources and their definitions.
const RESET: [&str; 4] = ["annotations", "finalizers", "labels", "ownerReferences"];

/// Whether more differs than what is only said about an object, and where it is.
pub(crate) fn changes_generation(resource: &Resource, old: &Value, new: &Value) -> bool {
    match &*resource.kind {
        _ if resource.is_custom => {}
        "PriorityClass" => return false,
        // What a rollout was made for is noted in annotations.
        "Deployment" if old["metadata"]["annotations"] != new["metadata"]["annotations"] => return true,
        _ => {}
    }
    let has_status = resource.has(Subresource::Status);
    let counts = |field: &str| field != "metadata" && !(has_status && field == "status");
    let [before, after] =
        [old, new].map(|object| object.as_object().into_iter().flatten().filter(|(field, _)| counts(field)));
    !before.eq(after)
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
