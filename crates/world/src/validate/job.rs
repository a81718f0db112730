//! Jobs.

use super::faults::{Faults, or_null, selects, text};
use super::pod;
use crate::json::{Value, json};

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
    for field in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        faults.not_negative(&format!("spec.{field}"), &spec[field]);
    }
    let modes = ["NonIndexed", "Indexed"];
    let mode = text(spec, "completionMode");
    if !modes.contains(&mode) {
        faults.not_supported("spec.completionMode", &json!(mode), &modes);
    }
    if mode == "Indexed" && spec["completions"].is_null() {
        faults.required("spec.completions", "when completion mode is Indexed");
    }
    let template = &spec["template"];
    pod::template(faults, template, "spec.template");
    let policy = &template["spec"]["restartPolicy"];
    let field = "spec.template.spec.restartPolicy";
    match policy.as_str().unwrap_or_default() {
        "" | "Always" => faults.required(field, "valid values: \"OnFailure\", \"Never\""),
        "OnFailure" | "Never" => {}
        _ => faults.not_supported(field, policy, &["OnFailure", "Never"]),
    }
    if spec["selector"].is_null() {
        faults.required("spec.selector", "");
    }
    faults.label_selector("spec.selector", &spec["selector"]);
    let labels = &template["metadata"]["labels"];
    if selects(&spec["selector"], labels) == Some(false) {
        let why = "`selector` does not match template `labels`";
        faults.invalid("spec.template.metadata.labels", &or_null(labels), why);
    }
}
