//! What is said of pods by whoever makes and counts them.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::owned::owner_reference;
use crate::json::{Value, json};
use crate::names::NameRule;
use crate::object;

pub(crate) fn phase(pod: &Value) -> &str {
    object::text(pod, &["status", "phase"])
}

/// It has run to its end, well or badly.
pub(crate) fn is_done(pod: &Value) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// It counts as one that runs or will run.
pub(crate) fn is_active(pod: &Value) -> bool {
    !is_done(pod) && !object::is_terminating(pod)
}

/// It is being stopped, and its containers may still run.
pub(crate) fn is_stopping(pod: &Value) -> bool {
    !is_done(pod) && object::is_terminating(pod)
}

pub(crate) fn is_ready(pod: &Value) -> bool {
    has_condition(pod, "Ready")
}

pub(crate) fn has_condition(object: &Value, kind: &str) -> bool {
    object::condition_status(object, kind) == "True"
}

pub(crate) fn time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

pub(crate) fn created(object: &Value) -> Option<Timestamp> {
    time(object::at(object, "/metadata/creationTimestamp")?)
}

/// So many seconds after, or never.
pub(crate) fn after_secs(at: Timestamp, secs: i64) -> Timestamp {
    at.checked_add(SignedDuration::from_secs(secs)).unwrap_or(Timestamp::MAX)
}

/// A whole number of an object, or else 0.
pub(crate) fn number(object: &Value, pointer: &str) -> i64 {
    object::at(object, pointer).and_then(Value::as_i64).unwrap_or(0)
}

/// A number, or a share of another one: which way the share is rounded differs from field to field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounded {
    Up,
    Down,
}

pub(crate) fn number_or_percent(value: &Value, of: i64, rounded: Rounded) -> i64 {
    if let Some(number) = value.as_i64() {
        return number;
    }
    let percent: i64 = value.as_str().and_then(|text| text.strip_suffix('%')?.parse().ok()).unwrap_or(0);
    let hundredths = of.saturating_mul(percent);
    match rounded {
        Rounded::Up => hundredths.div_euclid(100) + i64::from(hundredths.rem_euclid(100) > 0),
        Rounded::Down => hundredths.div_euclid(100),
    }
}

/// Since when it has been available, or from when it will be if it stays ready; `None` while it is not.
pub(crate) fn available_from(pod: &Value, min_ready_secs: i64) -> Option<Timestamp> {
    let ready = object::condition(pod, "Ready").filter(|ready| ready["status"] == "True")?;
    if min_ready_secs == 0 {
        return Some(Timestamp::MIN);
    }
    time(&ready["lastTransitionTime"]).map(|since| after_secs(since, min_ready_secs))
}

pub(crate) fn is_available(pod: &Value, min_ready_secs: i64, now: Timestamp) -> bool {
    available_from(pod, min_ready_secs).is_some_and(|from| from <= now)
}

/// When the first of those that are ready becomes available, if any is still waited for.
pub(crate) fn next_available<'a>(
    pods: impl Iterator<Item = &'a Arc<Value>>,
    min_ready_secs: i64,
    now: Timestamp,
) -> Option<Timestamp> {
    pods.filter_map(|pod| available_from(pod, min_ready_secs)).filter(|from| *from > now).min()
}

/// A pod as a template has it, for an owner. Its name is made of what it is to begin with.
pub(crate) fn from_template(template: &Value, owner: &Value) -> Value {
    let mut metadata = json!({
        "generateName": name_base(object::name(owner)),
        "namespace": object::namespace(owner),
        "ownerReferences": [owner_reference(owner)],
    });
    for field in ["labels", "annotations", "finalizers"] {
        let given = &template["metadata"][field];
        if !given.is_null() {
            metadata[field] = given.clone();
        }
    }
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"] })
}

/// What the names of an owner's pods begin with.
pub(crate) fn name_base(owner: &str) -> String {
    let dashed = format!("{owner}-");
    if NameRule::Subdomain.problems_of_prefix(&dashed).is_empty() { dashed } else { owner.to_owned() }
}

/// Sets a label of a new object.
pub(crate) fn set_label(object: &mut Value, key: &str, value: &str) {
    set_in(object, "labels", key, value);
}

pub(crate) fn set_annotation(object: &mut Value, key: &str, value: &str) {
    set_in(object, "annotations", key, value);
}

fn set_in(object: &mut Value, map: &str, key: &str, value: &str) {
    let Some(metadata) = object::metadata_mut(object) else { return };
    let map = metadata.entry(map).or_insert_with(|| json!({}));
    if !map.is_object() {
        *map = json!({});
    }
    map[key] = json!(value);
}

pub(crate) fn label<'a>(object: &'a Value, key: &str) -> &'a str {
    object::text(object, &["metadata", "labels", key])
}

pub(crate) fn annotation<'a>(object: &'a Value, key: &str) -> &'a str {
    object::text(object, &["metadata", "annotations", key])
}

/// How many pods that do the same work run on each node.
pub(crate) fn crowds<'a>(pods: impl IntoIterator<Item = &'a Arc<Value>>) -> BTreeMap<String, usize> {
    let mut crowds = BTreeMap::new();
    for pod in pods.into_iter().filter(|pod| is_active(pod)) {
        *crowds.entry(object::text(pod, &["spec", "nodeName"]).to_owned()).or_default() += 1;
    }
    crowds
}

const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Sorts pods so that those come first which are missed least.
pub(crate) fn sort_for_deletion(pods: &mut [Arc<Value>], crowds: &BTreeMap<String, usize>, now: Timestamp) {
    pods.sort_by(|one, other| deleted_first(one, other, crowds, now));
}

fn deleted_first(one: &Value, other: &Value, crowds: &BTreeMap<String, usize>, now: Timestamp) -> Ordering {
    let node = |pod: &Value| object::text(pod, &["spec", "nodeName"]).to_owned();
    let stage = |pod: &Value| match phase(pod) {
        "Pending" => 0,
        "Unknown" => 1,
        _ => 2,
    };
    let cost = |pod: &Value| annotation(pod, DELETION_COST).parse::<i32>().unwrap_or(0);
    let crowd = |pod: &Value| Reverse(crowds.get(&node(pod)).copied().unwrap_or(0));
    let first = |pod: &Value| (!node(pod).is_empty(), stage(pod), is_ready(pod), cost(pod), crowd(pod));
    // Kubernetes lets the uid decide as soon as ages of one magnitude differ, which is no order among three pods.
    let then = |pod: &Value| {
        let ready_since =
            object::condition(pod, "Ready").and_then(|ready| time(&ready["lastTransitionTime"]));
        let readiness = is_ready(pod).then(|| magnitude(ready_since, now));
        (readiness, Reverse(restarts(pod)), magnitude(created(pod), now), object::uid(pod).to_owned())
    };
    first(one).cmp(&first(other)).then_with(|| then(one).cmp(&then(other)))
}

/// Ages of the same order of magnitude are the same.
fn magnitude(since: Option<Timestamp>, now: Timestamp) -> Option<u32> {
    let age = now.duration_since(since.unwrap_or(now)).as_nanos();
    u128::try_from(age).ok().and_then(u128::checked_ilog2)
}

/// How often the container that was restarted most was restarted.
fn restarts(pod: &Value) -> i64 {
    let statuses = object::at(pod, "/status/containerStatuses").and_then(Value::as_array);
    statuses.into_iter().flatten().map(|status| number(status, "/restartCount")).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time: &str) -> Timestamp {
        format!("2026-01-01T{time}Z").parse().unwrap()
    }

    #[test]
    fn shares_are_rounded_as_the_field_wants_it() {
        for (value, of, up, down) in [
            (json!(3), 10, 3, 3),
            (json!("25%"), 10, 3, 2),
            (json!("25%"), 4, 1, 1),
            (json!("0%"), 4, 0, 0),
            (json!("100%"), 7, 7, 7),
            (json!("10%"), 1, 1, 0),
            (Value::Null, 7, 0, 0),
        ] {
            let said = |rounded| number_or_percent(&value, of, rounded);
            assert_eq!((said(Rounded::Up), said(Rounded::Down)), (up, down), "{value} of {of}");
        }
    }

    #[test]
    fn pods_are_available_once_they_have_been_ready_for_long_enough() {
        let ready = |status: &str| {
            json!({"status": {"conditions": [
                {"type": "Ready", "status": status, "lastTransitionTime": "2026-01-01T00:00:10Z"}
            ]}})
        };
        for (pod, min_ready_secs, now, expected) in [
            (json!({}), 0, "00:00:10", false),
            (ready("False"), 0, "00:00:10", false),
            (ready("True"), 0, "00:00:10", true),
            (ready("True"), 5, "00:00:14", false),
            (ready("True"), 5, "00:00:15", true),
        ] {
            assert_eq!(is_available(&pod, min_ready_secs, at(now)), expected, "{pod} {min_ready_secs} {now}");
        }
    }

    /// Each row: a pod that goes before the one it is compared with.
    #[test]
    fn pods_that_are_missed_least_go_first() {
        let pod = |uid: &str, change: &[(&str, Value)]| {
            let mut pod = json!({
                "metadata": {"uid": uid, "creationTimestamp": "2026-01-01T00:00:00Z", "annotations": {}},
                "spec": {"nodeName": "a"},
                "status": {"phase": "Running", "containerStatuses": [{"restartCount": 0}], "conditions": [
                    {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
                ]},
            });
            for (pointer, value) in change {
                *pod.pointer_mut(pointer).unwrap() = value.clone();
            }
            Arc::new(pod)
        };
        let (node, phase) = ("/spec/nodeName", "/status/phase");
        let (ready, since) = ("/status/conditions/0/status", "/status/conditions/0/lastTransitionTime");
        let restarts = "/status/containerStatuses/0/restartCount";
        let cost = |cost: &str| ("/metadata/annotations", json!({DELETION_COST: cost}));
        for (first, second) in [
            (vec![(node, json!(""))], vec![(phase, json!("Pending"))]),
            (vec![(phase, json!("Pending"))], vec![(phase, json!("Unknown"))]),
            (vec![(phase, json!("Unknown"))], vec![(ready, json!("False"))]),
            (vec![(ready, json!("False")), cost("5")], vec![]),
            (vec![cost("-5")], vec![(node, json!("crowded"))]),
            (vec![], vec![cost("1"), (node, json!("crowded"))]),
            (vec![(node, json!("crowded"))], vec![]),
            (vec![(since, json!("2026-01-01T00:59:00Z"))], vec![(restarts, json!(3))]),
            (vec![(restarts, json!(3))], vec![]),
            (vec![("/metadata/creationTimestamp", json!("2026-01-01T00:59:00Z"))], vec![]),
        ] {
            let crowds = BTreeMap::from([("a".to_owned(), 1), ("crowded".to_owned(), 3)]);
            let mut pods = [pod("1", &second), pod("2", &first)];
            sort_for_deletion(&mut pods, &crowds, at("01:00:00"));
            assert_eq!(object::uid(&pods[0]), "2", "{first:?} before {second:?}");
        }
    }

    #[test]
    fn pods_are_made_as_the_template_says() {
        let owner = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"name": "web", "namespace": "shop", "uid": "u"},
        });
        let template =
            json!({"metadata": {"labels": {"a": "b"}, "name": "unused"}, "spec": {"containers": []}});
        assert_eq!(
            from_template(&template, &owner),
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {
                    "generateName": "web-", "namespace": "shop", "labels": {"a": "b"},
                    "ownerReferences": [{
                        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u",
                        "controller": true, "blockOwnerDeletion": true,
                    }],
                },
                "spec": {"containers": []},
            })
        );
    }
}
