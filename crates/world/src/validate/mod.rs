//! What is checked of built-in kinds beyond their metadata: with the server's paths and words, in its order.

mod affinity;
mod budget;
mod claim;
mod configs;
mod containers;
mod cron;
mod downward;
mod event;
mod faults;
mod handlers;
mod job;
mod mounts;
mod network_policy;
mod networking;
mod node;
mod pod;
mod roles;
mod security;
mod service;
mod small;
mod volumes;
mod webhooks;
mod workload;

use crate::failure::Cause;
use crate::json::Value;
use crate::kinds::{Resource, Subresource};
use crate::names;

pub(crate) use faults::Faults;
pub(crate) use networking::warning as ingress_warning;
pub(crate) use pod::binding;

/// What is wrong with a new object.
pub(crate) fn on_create(resource: &Resource, object: &Value) -> Vec<Cause> {
    let mut faults = Faults::default();
    match (&*resource.group, &*resource.kind) {
        ("", "Pod") => pod::on_create(&mut faults, object),
        ("", "PodTemplate") => pod::template(&mut faults, &object["template"], "template"),
        ("", "Node") => node::on_create(&mut faults, object),
        ("", "ConfigMap") => configs::config_map(&mut faults, object),
        ("", "Secret") => configs::secret(&mut faults, object),
        ("", "Event") => event::on_create(&mut faults, object, false),
        ("events.k8s.io", "Event") => event::on_create(&mut faults, object, true),
        ("apps", kind) => workload::on_create(&mut faults, kind, object),
        ("", "Service") => service::on_create(&mut faults, object),
        ("", "PersistentVolumeClaim") => claim::spec(&mut faults, &object["spec"], "spec"),
        ("storage.k8s.io", "StorageClass") => claim::class(&mut faults, object),
        ("batch", "Job") => job::on_create(&mut faults, object),
        ("batch", "CronJob") => cron::spec(&mut faults, &object["spec"]),
        ("networking.k8s.io", kind) => networking::on_create(&mut faults, kind, object),
        ("policy", "PodDisruptionBudget") => budget::spec(&mut faults, object),
        ("scheduling.k8s.io", "PriorityClass") => small::priority_class(&mut faults, object),
        ("coordination.k8s.io", "Lease") => small::lease(&mut faults, object),
        ("rbac.authorization.k8s.io", kind) => roles::on_create(&mut faults, kind, object),
        ("admissionregistration.k8s.io", kind) => webhooks::configuration(&mut faults, kind, object, None),
        _ => {}
    }
    faults.found()
}

/// What is wrong with what an object, or a part of it, has become, its metadata included.
pub(crate) fn on_update(
    resource: &Resource,
    part: Option<Subresource>,
    new: &Value,
    old: &Value,
) -> Vec<Cause> {
    let is_status = part == Some(Subresource::Status);
    let [mut causes, once_more] = if is_status {
        names::validate_status_update(resource, new, old)
    } else {
        names::validate_update(resource, new, old)
    };
    let mut faults = Faults::with_metadata(once_more);
    match (&*resource.group, &*resource.kind) {
        ("", "Pod") if is_status => pod::on_status_update(&mut faults, new, old),
        ("", "Pod") => pod::on_update(&mut faults, new, old),
        ("", "PodTemplate") => pod::template(&mut faults, &new["template"], "template"),
        ("", "Node") => node::on_update(&mut faults, new, old, is_status),
        ("", "Namespace") => small::namespace_update(&mut faults, part, new),
        ("", "ConfigMap") => configs::config_map_update(&mut faults, new, old),
        ("", "Secret") => configs::secret_update(&mut faults, new, old),
        ("", "Event") => event::on_update(&mut faults, new, old, false),
        ("events.k8s.io", "Event") => event::on_update(&mut faults, new, old, true),
        ("apps", kind) if is_status => workload::on_status_update(&mut faults, kind, new),
        ("apps", kind) => workload::on_update(&mut faults, kind, new, old),
        ("" | "batch" | "storage.k8s.io", _) if is_status => {}
        ("", "Service") => service::on_update(&mut faults, new, old),
        ("", "PersistentVolumeClaim") => claim::on_update(&mut faults, new, old),
        ("storage.k8s.io", "StorageClass") => claim::class_update(&mut faults, new, old),
        ("batch", "Job") => job::on_update(&mut faults, new, old),
        ("batch", "CronJob") => cron::spec(&mut faults, &new["spec"]),
        ("networking.k8s.io", kind) if is_status => networking::on_status_update(&mut faults, kind, new),
        ("networking.k8s.io", kind) => networking::on_update(&mut faults, kind, new, old),
        ("policy", "PodDisruptionBudget") if is_status => budget::status(&mut faults, new),
        ("policy", "PodDisruptionBudget") => budget::spec(&mut faults, new),
        ("scheduling.k8s.io", "PriorityClass") => small::priority_class_update(&mut faults, new, old),
        ("coordination.k8s.io", "Lease") => small::lease(&mut faults, new),
        ("rbac.authorization.k8s.io", kind) => roles::on_update(&mut faults, kind, new, old),
        ("admissionregistration.k8s.io", kind) => webhooks::configuration(&mut faults, kind, new, Some(old)),
        _ => {}
    }
    causes.extend(faults.found());
    causes
}
