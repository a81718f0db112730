//! What the server itself writes into workloads.

use crate::json::{Value, json};
use crate::kinds::{Resource, Subresource};
use crate::object;

/// How often a DaemonSet's template has changed. It was a field once; now the server counts here.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Completes a new workload that has its uid.
pub(super) fn finish_new(resource: &Resource, object: &mut Value) {
    match (&*resource.group, &*resource.kind) {
        ("batch", "Job") => select_own_pods(object),
        ("apps", "DaemonSet") => count_template(object, 1),
        _ => {}
    }
}

pub(super) fn prepare_for_update(
    resource: &Resource,
    part: Option<Subresource>,
    old: &Value,
    new: &mut Value,
) {
    if part.is_none() && resource.group == "apps" && resource.kind == "DaemonSet" {
        let pointer = format!("/metadata/annotations/{}", TEMPLATE_GENERATION.replace('/', "~1"));
        let known = old.pointer(&pointer).and_then(Value::as_str).and_then(|count| count.parse().ok());
        let has_changed = old["spec"]["template"] != new["spec"]["template"];
        count_template(new, known.unwrap_or(0) + i64::from(has_changed));
    }
}

/// A job that says nothing else owns the pods that carry its uid.
fn select_own_pods(job: &mut Value) {
    let (uid, name) = (object::uid(job).to_owned(), object::name(job).to_owned());
    // What is no object is told so later.
    let Some(spec) = job.get_mut("spec").filter(|spec| spec.is_object()) else { return };
    if spec["manualSelector"] != true && (spec["template"].is_object() || spec["template"].is_null()) {
        spec["manualSelector"] = json!(false);
        spec["selector"] = json!({ "matchLabels": { "batch.kubernetes.io/controller-uid": uid } });
        let labels = object::within(object::within(object::within(spec, "template"), "metadata"), "labels");
        for (key, value) in [("controller-uid", &uid), ("job-name", &name)] {
            labels[key] = json!(value);
            labels[&format!("batch.kubernetes.io/{key}")] = json!(value);
        }
    }
    let labels = job["spec"]["template"]["metadata"]["labels"].clone();
    let has_none = job["metadata"]["labels"].as_object().is_none_or(crate::json::Map::is_empty);
    if has_none && labels.is_object() {
        object::set(job, "labels", labels);
    }
}

fn count_template(set: &mut Value, count: i64) {
    let Some(metadata) = object::metadata_mut(set) else { return };
    let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
    if !annotations.is_object() {
        *annotations = json!({});
    }
    annotations[TEMPLATE_GENERATION] = json!(count.to_string());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::Kinds;

    #[test]
    fn jobs_select_their_own_pods() {
        let uid = "batch.kubernetes.io/controller-uid";
        let made = json!({
            "a": "b", "controller-uid": "u", "job-name": "j", uid: "u", "batch.kubernetes.io/job-name": "j",
        });
        let own = json!({"a": "b"});
        for (manual, labels, selected, carried, labelled) in [
            (json!(null), json!(null), json!({uid: "u"}), &made, &made),
            (json!(false), json!({"x": "y"}), json!({uid: "u"}), &made, &json!({"x": "y"})),
            (json!(true), json!(null), json!({"a": "b"}), &own, &own),
        ] {
            let mut job = json!({
                "metadata": {"name": "j", "uid": "u", "labels": labels},
                "spec": {
                    "manualSelector": manual, "selector": {"matchLabels": {"a": "b"}},
                    "template": {"metadata": {"labels": {"a": "b"}}},
                },
            });
            finish_new(Kinds::built_in().find("batch", "v1", "jobs").unwrap(), &mut job);
            assert_eq!(job["spec"]["selector"]["matchLabels"], selected, "{manual}");
            assert_eq!(&job["spec"]["template"]["metadata"]["labels"], carried, "{manual}");
            assert_eq!(&job["metadata"]["labels"], labelled, "{manual}");
        }
    }

    #[test]
    fn the_templates_of_daemons_are_counted() {
        let kinds = Kinds::built_in();
        let resource = kinds.find("apps", "v1", "daemonsets").unwrap();
        let mut set = json!({"metadata": {}, "spec": {"template": {"spec": "a"}}});
        finish_new(resource, &mut set);
        for (template, expected) in [("a", "1"), ("b", "2"), ("b", "2"), ("a", "3")] {
            let mut next = json!({"metadata": {}, "spec": {"template": {"spec": template}}});
            prepare_for_update(resource, None, &set, &mut next);
            assert_eq!(next["metadata"]["annotations"][TEMPLATE_GENERATION], expected);
            set = next;
        }
    }
}
