//! Jobs.

use super::faults::{Faults, is_empty, items, number, or_null, selects, text};
use super::pod;
use crate::json::Value;

pub(super) fn on_create(faults: &mut Faults, job: &Value) {
    spec(faults, &job["spec"]);
}

pub(super) fn on_update(faults: &mut Faults, new: &Value, old: &Value) {
    let (spec, was) = (&new["spec"], &old["spec"]);
    self::spec(faults, spec);
    faults.metadata_once_more();
    self::spec(faults, spec);
    for field in [
        "completions",
        "selector",
        "template",
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
        "managedBy",
        "successPolicy",
    ] {
        faults.unchanged(&format!("spec.{field}"), &spec[field], &was[field]);
    }
}

fn spec(faults: &mut Faults, spec: &Value) {
    checked(faults, spec, "spec");
    if spec["selector"].is_null() {
        faults.required("spec.selector", "");
    }
    faults.label_selector("spec.selector", &spec["selector"]);
    let labels = &spec["template"]["metadata"]["labels"];
    if selects(&spec["selector"], labels) == Some(false) {
        let why = "`selector` does not match template `labels`";
        faults.invalid("spec.template.metadata.labels", &or_null(labels), why);
    }
}

/// What jobs are made from, which have selectors of their own.
pub(super) fn template(faults: &mut Faults, spec: &Value, path: &str) {
    checked(faults, spec, path);
    if !spec["selector"].is_null() {
        let why = "`selector` will be auto-generated";
        faults.invalid(&format!("{path}.selector"), &spec["selector"], why);
    }
    if spec["manualSelector"] == true {
        let field = format!("{path}.manualSelector");
        faults.not_supported(&field, &spec["manualSelector"], &["nil", "false"]);
    }
}

fn checked(faults: &mut Faults, spec: &Value, path: &str) {
    let at = |field: &str| format!("{path}.{field}");
    for field in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        faults.not_negative(&at(field), &spec[field]);
    }
    if !spec["maxFailedIndexes"].is_null() && spec["backoffLimitPerIndex"].is_null() {
        faults.required(&at("backoffLimitPerIndex"), "when maxFailedIndexes is specified");
    }
    let modes = ["NonIndexed", "Indexed"];
    let mode = &spec["completionMode"];
    if !mode.is_null() && !modes.iter().any(|known| mode == known) {
        faults.not_supported(&at("completionMode"), mode, &modes);
    }
    if mode == "Indexed" && spec["completions"].is_null() {
        faults.required(&at("completions"), "when completion mode is Indexed");
    }
    if mode.is_null() || mode == "NonIndexed" {
        for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            if !spec[field].is_null() {
                faults.invalid(&at(field), &spec[field], "requires indexed completion mode");
            }
        }
    }
    let failures = &spec["podFailurePolicy"];
    for (index, rule) in items(&failures["rules"]) {
        failure_rule(faults, spec, rule, &format!("{path}.podFailurePolicy.rules[{index}]"));
    }
    let (replaced, known) = (&spec["podReplacementPolicy"], ["Failed", "TerminatingOrFailed"]);
    let allowed = if failures.is_null() { &known[..] } else { &known[..1] };
    if !replaced.is_null() && !allowed.iter().any(|known| replaced == known) {
        faults.not_supported(&at("podReplacementPolicy"), replaced, allowed);
    }
    let template = &spec["template"];
    pod::template(faults, template, &at("template"));
    let policy = &template["spec"]["restartPolicy"];
    let field = at("template.spec.restartPolicy");
    match policy.as_str().unwrap_or_default() {
        "" | "Always" => faults.required(&field, "valid values: \"OnFailure\", \"Never\""),
        "OnFailure" if !failures.is_null() => {
            let why = "only \"Never\" is supported when podFailurePolicy is specified";
            faults.invalid(&field, policy, why);
        }
        "OnFailure" | "Never" => {}
        _ => faults.not_supported(&field, policy, &["OnFailure", "Never"]),
    }
}

/// What is to be done about pods that fail in a certain way.
fn failure_rule(faults: &mut Faults, spec: &Value, rule: &Value, path: &str) {
    let (field, actions) = (format!("{path}.action"), ["Count", "FailIndex", "FailJob", "Ignore"]);
    match text(rule, "action") {
        "" => {
            let why = "valid values: [\"Count\" \"FailIndex\" \"FailJob\" \"Ignore\"]";
            faults.required(&field, why);
        }
        "FailIndex" if spec["backoffLimitPerIndex"].is_null() => {
            faults.invalid_text(&field, "FailIndex", "requires the backoffLimitPerIndex to be set");
        }
        action if actions.contains(&action) => {}
        _ => faults.not_supported(&field, &rule["action"], &actions),
    }
    let (codes, conditions) = (&rule["onExitCodes"], &rule["onPodConditions"]);
    if !codes.is_null() {
        exit_codes(faults, spec, codes, &format!("{path}.onExitCodes"));
    }
    for (index, pattern) in items(conditions) {
        let path = format!("{path}.onPodConditions[{index}]");
        faults.label_name(&format!("{path}.type"), text(pattern, "type"));
        let states = ["False", "True", "Unknown"];
        if !states.contains(&text(pattern, "status")) {
            faults.not_supported(&format!("{path}.status"), &pattern["status"], &states);
        }
    }
    match (codes.is_null(), is_empty(conditions)) {
        (false, false) => {
            faults.invalid_unsaid(path, "specifying both OnExitCodes and OnPodConditions is not supported");
        }
        (true, true) => {
            faults.invalid_unsaid(path, "specifying one of OnExitCodes and OnPodConditions is required");
        }
        _ => {}
    }
}

fn exit_codes(faults: &mut Faults, spec: &Value, codes: &Value, path: &str) {
    let (field, operators) = (format!("{path}.operator"), ["In", "NotIn"]);
    match text(codes, "operator") {
        "" => faults.required(&field, "valid values: [\"In\" \"NotIn\"]"),
        operator if operators.contains(&operator) => {}
        _ => faults.not_supported(&field, &codes["operator"], &operators),
    }
    if let Some(name) = codes["containerName"].as_str() {
        let of_pod = &spec["template"]["spec"];
        let mut all = items(&of_pod["containers"]).chain(items(&of_pod["initContainers"]));
        if !all.any(|(_, container)| text(container, "name") == name) {
            let why = "must be one of the container or initContainer names in the pod template";
            faults.invalid_text(&format!("{path}.containerName"), name, why);
        }
    }
    let (field, values) = (format!("{path}.values"), &codes["values"]);
    if is_empty(values) {
        faults.invalid(&field, values, "at least one value is required");
    }
    let mut seen: Vec<i64> = Vec::new();
    for (index, value) in items(values) {
        let code = number(value);
        if codes["operator"] == "In" && code == 0 {
            faults.invalid(&format!("{field}[{index}]"), value, "must not be 0 for the In operator");
        }
        if seen.contains(&code) {
            faults.duplicate(&format!("{field}[{index}]"), value);
        }
        seen.push(code);
    }
    if !seen.is_sorted() {
        faults.invalid(&field, values, "must be ordered");
    }
}
