//! The cells of built-in kinds, and what they are made of.

use jiff::Timestamp;

use super::{age, networking, objects, pods, workloads};
use crate::json::{Value, json};
use crate::kinds::Resource;
use crate::selector::LabelSelector;

/// The cells of one object, in the order of its kind's columns.
pub(super) fn of(resource: &Resource, view: View<'_>) -> Vec<Value> {
    match &*resource.kind {
        "Pod" => pods::pod(view),
        "PodTemplate" => workloads::pod_template(view),
        "ReplicationController" => workloads::replication_controller(view),
        "ReplicaSet" => workloads::replica_set(view),
        "DaemonSet" => workloads::daemon_set(view),
        "StatefulSet" => workloads::stateful_set(view),
        "Deployment" => workloads::deployment(view),
        "ControllerRevision" => workloads::controller_revision(view),
        "Job" => workloads::job(view),
        "CronJob" => workloads::cron_job(view),
        "HorizontalPodAutoscaler" => workloads::horizontal_pod_autoscaler(view),
        "PodDisruptionBudget" => workloads::pod_disruption_budget(view),
        "Node" => objects::node(view),
        "Namespace" => vec![json!(view.name()), json!(view.text("/status/phase")), view.age()],
        "Service" => objects::service(view),
        "Endpoints" => objects::endpoints(view),
        "EndpointSlice" => objects::endpoint_slice(view),
        "Event" => objects::event(view),
        "ConfigMap" => {
            vec![json!(view.name()), json!(view.count("/data") + view.count("/binaryData")), view.age()]
        }
        "Secret" => {
            vec![json!(view.name()), json!(view.text("/type")), json!(view.count("/data")), view.age()]
        }
        "ServiceAccount" => vec![json!(view.name()), view.age()],
        "PersistentVolume" => objects::persistent_volume(view),
        "PersistentVolumeClaim" => objects::persistent_volume_claim(view),
        "ResourceQuota" => objects::resource_quota(view),
        "RoleBinding" | "ClusterRoleBinding" => objects::role_binding(view),
        "Lease" => vec![json!(view.name()), json!(view.text("/spec/holderIdentity")), view.age()],
        "StorageClass" => objects::storage_class(view),
        "CSINode" => vec![json!(view.name()), json!(view.count("/spec/drivers")), view.age()],
        "VolumeAttachment" => objects::volume_attachment(view),
        "PriorityClass" => objects::priority_class(view),
        "Ingress" => networking::ingress(view),
        "IngressClass" => networking::ingress_class(view),
        "NetworkPolicy" => networking::network_policy(view),
        "RuntimeClass" => vec![json!(view.name()), json!(view.text("/handler")), view.age()],
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => {
            vec![json!(view.name()), json!(view.count("/webhooks")), view.age()]
        }
        _ => Vec::new(),
    }
}

/// An object at a time.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) object: &'a Value,
    pub(super) now: Timestamp,
}

impl<'a> View<'a> {
    /// What is at a JSON pointer, or null.
    pub(super) fn at(self, pointer: &str) -> &'a Value {
        self.object.pointer(pointer).unwrap_or(&Value::Null)
    }

    pub(super) fn text(self, pointer: &str) -> &'a str {
        self.at(pointer).as_str().unwrap_or_default()
    }

    pub(super) fn text_or(self, pointer: &str, otherwise: &'static str) -> &'a str {
        non_empty(self.text(pointer), otherwise)
    }

    pub(super) fn int(self, pointer: &str) -> i64 {
        self.at(pointer).as_i64().unwrap_or_default()
    }

    pub(super) fn list(self, pointer: &str) -> &'a [Value] {
        list(self.at(pointer))
    }

    /// How many elements or fields there are.
    pub(super) fn count(self, pointer: &str) -> usize {
        match self.at(pointer) {
            Value::Array(elements) => elements.len(),
            Value::Object(fields) => fields.len(),
            _ => 0,
        }
    }

    pub(super) fn name(self) -> &'a str {
        self.text("/metadata/name")
    }

    pub(super) fn is_terminating(self) -> bool {
        !self.text("/metadata/deletionTimestamp").is_empty()
    }

    pub(super) fn age(self) -> Value {
        json!(self.since(self.text("/metadata/creationTimestamp")))
    }

    pub(super) fn since(self, written: &str) -> String {
        age::since(written, self.now)
    }
}

pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub(super) fn non_empty<'a>(text: &'a str, otherwise: &'a str) -> &'a str {
    if text.is_empty() { otherwise } else { text }
}

/// The texts that elements have in one field.
pub(super) fn texts(elements: &[Value], field: &str) -> String {
    elements.iter().map(|element| text(&element[field])).collect::<Vec<_>>().join(",")
}

/// A map as `a=b,c=d`, or `<none>`.
pub(super) fn pairs(map: &Value) -> String {
    let pairs = map.as_object().into_iter().flatten();
    let pairs: Vec<String> = pairs.map(|(key, value)| format!("{key}={}", text(value))).collect();
    non_empty(&pairs.join(","), "<none>").to_owned()
}

/// A selector as it is in a query, or `<none>`.
pub(super) fn selector(selector: &Value) -> String {
    match LabelSelector::from_value(selector) {
        Ok(selector) => non_empty(&selector.to_string(), "<none>").to_owned(),
        Err(_) => "<error>".to_owned(),
    }
}

/// A number or text, as both are allowed for some fields, or `otherwise`.
pub(super) fn int_or_text(value: &Value, otherwise: &str) -> String {
    match value {
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.to_string(),
        _ => otherwise.to_owned(),
    }
}

/// An amount, which is 0 where it is not there.
pub(super) fn quantity(value: &Value) -> String {
    int_or_text(value, "0")
}
