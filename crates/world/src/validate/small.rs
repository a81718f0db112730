//! Kinds with a rule or two: priority classes, leases and namespaces.

use super::faults::{Faults, items, number, text};
use crate::json::Value;
use crate::kinds::Subresource;
use crate::names;
use crate::object;

/// What users may ask for at most; above are the classes of the system.
const PRIORITY_MAX: i64 = 1_000_000_000;
const SYSTEM_CLASSES: [(&str, i64); 2] =
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

pub(super) fn priority_class(faults: &mut Faults, object: &Value) {
    let (name, value) = (object::name(object), number(&object["value"]));
    if name.starts_with("system-") {
        let why = match SYSTEM_CLASSES.iter().find(|(known, _)| *known == name) {
            None => Some(format!("{name} is not a known system priority class")),
            Some((_, known)) if *known != value => {
                Some(format!("value of {name} PriorityClass must be {known}"))
            }
            Some(_) if object["globalDefault"] == true => {
                Some(format!("globalDefault of {name} PriorityClass must be false"))
            }
            Some(_) => None,
        };
        if let Some(why) = why {
            let said = "priority class names with 'system-' prefix are reserved for system use only. error: ";
            faults.forbidden("metadata.name", &format!("{said}{why}"));
        }
    } else if value > PRIORITY_MAX {
        let why = format!("maximum allowed value of a user defined priority is {PRIORITY_MAX}");
        faults.forbidden("value", &why);
    }
    preemption_policy(faults, "preemptionPolicy", &object["preemptionPolicy"]);
}

pub(super) fn preemption_policy(faults: &mut Faults, field: &str, policy: &Value) {
    if !policy.is_null() {
        faults.one_of(field, policy, &["PreemptLowerPriority", "Never"]);
    }
}

pub(super) fn priority_class_update(faults: &mut Faults, new: &Value, old: &Value) {
    if number(&new["value"]) != number(&old["value"]) {
        faults.forbidden("value", "may not be changed in an update.");
    }
    faults.unchanged("preemptionPolicy", &new["preemptionPolicy"], &old["preemptionPolicy"]);
}

pub(super) fn lease(faults: &mut Faults, object: &Value) {
    let spec = &object["spec"];
    let duration = &spec["leaseDurationSeconds"];
    if !duration.is_null() && number(duration) <= 0 {
        faults.invalid("spec.leaseDurationSeconds", duration, "must be greater than 0");
    }
    faults.not_negative("spec.leaseTransitions", &spec["leaseTransitions"]);
    if !text(spec, "preferredHolder").is_empty() && text(spec, "strategy").is_empty() {
        faults.forbidden("spec.preferredHolder", "may only be specified if `strategy` is defined");
    }
}

pub(super) fn namespace_update(faults: &mut Faults, part: Option<Subresource>, new: &Value) {
    match part {
        Some(Subresource::Finalize) => {
            for (at, finalizer) in items(&new["spec"]["finalizers"]) {
                let finalizer = finalizer.as_str().unwrap_or_default();
                faults.extend(names::finalizer_problems(&format!("spec.finalizers[{at}]"), finalizer));
            }
        }
        Some(Subresource::Status) => {
            let phase = &new["status"]["phase"];
            if !object::is_terminating(new) && phase != "Active" {
                let why = "may only be 'Active' if `deletionTimestamp` is empty";
                faults.invalid("status.Phase", phase, why);
            } else if object::is_terminating(new) && phase != "Terminating" {
                let why = "may only be 'Terminating' if `deletionTimestamp` is not empty";
                faults.invalid("status.Phase", phase, why);
            }
        }
        _ => {}
    }
}
