//! Disruption budgets.

use super::faults::{Faults, items, number, text};
use crate::json::{Value, json};

pub(super) fn spec(faults: &mut Faults, object: &Value) {
    let spec = &object["spec"];
    if !spec["minAvailable"].is_null() && !spec["maxUnavailable"].is_null() {
        let told = format!(
            "{{\"MinAvailable\":{},\"Selector\":{},\"MaxUnavailable\":{},\"UnhealthyPodEvictionPolicy\":{}}}",
            spec["minAvailable"],
            spec["selector"],
            spec["maxUnavailable"],
            spec["unhealthyPodEvictionPolicy"],
        );
        faults.invalid_as_told("spec", &told, "minAvailable and maxUnavailable cannot be both set");
    }
    for field in ["minAvailable", "maxUnavailable"] {
        if !spec[field].is_null() {
            let path = format!("spec.{field}");
            faults.int_or_percent(&path, &spec[field]);
            faults.at_most_all(&path, &spec[field]);
        }
    }
    faults.label_selector("spec.selector", &spec["selector"]);
    let policy = &spec["unhealthyPodEvictionPolicy"];
    let supported = ["AlwaysAllow", "IfHealthyBudget"];
    if !policy.is_null() && !supported.contains(&policy.as_str().unwrap_or_default()) {
        faults.not_supported("spec.unhealthyPodEvictionPolicy", policy, &supported);
    }
}

pub(super) fn status(faults: &mut Faults, object: &Value) {
    let status = &object["status"];
    conditions(faults, &status["conditions"], "status.conditions");
    for field in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
        faults.not_negative(&format!("status.{field}"), &status[field]);
    }
}

/// Conditions of the common form.
fn conditions(faults: &mut Faults, conditions: &Value, path: &str) {
    let mut seen: Vec<&str> = Vec::new();
    for (at, condition) in items(conditions) {
        let path = format!("{path}[{at}]");
        let kind = text(condition, "type");
        if seen.contains(&kind) {
            faults.duplicate(&format!("{path}.type"), &json!(kind));
        }
        seen.push(kind);
        faults.label_name(&format!("{path}.type"), kind);
        let statuses = ["False", "True", "Unknown"];
        if !statuses.contains(&text(condition, "status")) {
            faults.not_supported(&format!("{path}.status"), &json!(text(condition, "status")), &statuses);
        }
        if number(&condition["observedGeneration"]) < 0 {
            let field = format!("{path}.observedGeneration");
            faults.invalid(&field, &condition["observedGeneration"], "must be greater than or equal to zero");
        }
        if text(condition, "lastTransitionTime").is_empty() {
            faults.required(&format!("{path}.lastTransitionTime"), "");
        }
        let reason = text(condition, "reason");
        if reason.is_empty() {
            faults.required(&format!("{path}.reason"), "");
        } else if !is_reason(reason) {
            let why = "a condition reason must start with alphabetic character, optionally followed by a string of \
                       alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. \
                       'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex \
                       used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";
            faults.invalid_text(&format!("{path}.reason"), reason, why);
        }
    }
}

fn is_reason(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_inner = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b',' | b':');
    bytes.first().is_some_and(u8::is_ascii_alphabetic)
        && bytes.iter().all(is_inner)
        && bytes.last().is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}
