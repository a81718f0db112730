//! Events, old and new.

use super::faults::{Faults, number, text};
use crate::events;
use crate::json::{Value, json};
use crate::names::dns_subdomain_problems;
use crate::object;

/// Events of `events.k8s.io` are held to more.
pub(super) fn on_create(faults: &mut Faults, event: &Value, is_new: bool) {
    let event = &as_kept(event);
    any_event(faults, event, is_new);
    if !is_new {
        return;
    }
    series(faults, event);
    if text(event, "eventTime").is_empty() {
        faults.required("eventTime", "");
    }
    if !matches!(text(event, "type"), "Normal" | "Warning") {
        let why = format!("has invalid value: {}", text(event, "type"));
        faults.invalid_text("type", "", &why);
    }
    for field in ["firstTimestamp", "lastTimestamp"] {
        if !text(event, field).is_empty() {
            faults.invalid_text(field, "", "needs to be unset");
        }
    }
    if number(&event["count"]) != 0 {
        faults.invalid_text("count", "", "needs to be unset");
    }
    if !text(&event["source"], "component").is_empty() || !text(&event["source"], "host").is_empty() {
        faults.invalid_text("source", "", "needs to be unset");
    }
}

pub(super) fn on_update(faults: &mut Faults, new: &Value, old: &Value, is_new: bool) {
    let (new, old) = (&as_kept(new), &as_kept(old));
    any_event(faults, new, is_new);
    if !is_new {
        return;
    }
    if new["series"] != old["series"] {
        series(faults, new);
    }
    for field in [
        "involvedObject",
        "reason",
        "message",
        "source",
        "firstTimestamp",
        "lastTimestamp",
        "count",
        "reason",
        "type",
        "eventTime",
        "action",
        "related",
        "reportingController",
        "reportingInstance",
    ] {
        if new[field] != old[field] {
            let value = if new[field].is_null() { json!("") } else { new[field].clone() };
            faults.unchanged(field, &value, &old[field]);
        }
    }
}

/// Under the names that the server itself has for the fields, whatever version they came in.
fn as_kept(event: &Value) -> Value {
    let mut kept = event.clone();
    events::to_first(&mut kept);
    if let Some(controller) = kept.as_object_mut().and_then(|fields| fields.remove("reportingComponent")) {
        kept["reportingController"] = controller;
    }
    kept
}

fn any_event(faults: &mut Faults, event: &Value, is_new: bool) {
    let namespace = object::namespace(event);
    let about = text(&event["involvedObject"], "namespace");
    let elsewhere = "does not match event.namespace";
    if text(event, "eventTime").is_empty() {
        let is_default = about.is_empty() && matches!(namespace, "" | "default");
        if !is_default && about != namespace {
            faults.invalid_text("involvedObject.namespace", about, elsewhere);
        }
    } else {
        if about.is_empty() && !matches!(namespace, "default" | "kube-system") {
            faults.invalid_text("involvedObject.namespace", about, elsewhere);
        }
        let controller = text(event, "reportingController");
        let field = if is_new { "reportingController" } else { "reportingComponent" };
        if controller.is_empty() {
            faults.required(field, "");
        }
        faults.label_name(field, controller);
        for field in ["reportingInstance", "action", "reason"] {
            let value = text(event, field);
            if value.is_empty() {
                faults.required(field, "");
            }
            if value.len() > 128 {
                faults.invalid_text(field, "", "can have at most 128 characters");
            }
        }
        if text(event, "message").len() > 1024 {
            faults.invalid_text("message", "", "can have at most 1024 characters");
        }
    }
    for why in dns_subdomain_problems(namespace) {
        faults.invalid_text("namespace", namespace, &why);
    }
}

fn series(faults: &mut Faults, event: &Value) {
    let series = &event["series"];
    if series.is_null() {
        return;
    }
    if number(&series["count"]) < 2 {
        faults.invalid_text("series.count", "", "should be at least 2");
    }
    if text(series, "lastObservedTime").is_empty() {
        faults.required("series.lastObservedTime", "");
    }
}
