//! What all objects have: metadata, read and written where it stands.

use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;

use crate::json::{Map, Value, json};

/// The value at a path such as `/spec/replicas`. JSON pointers could hold slashes too, and pay for it at each look.
pub(crate) fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('/').skip(1).try_fold(object, |at, key| at.get(key))
}

/// The text at a path, or nothing.
pub(crate) fn text<'a>(object: &'a Value, path: &[&str]) -> &'a str {
    path.iter().try_fold(object, |at, key| at.get(key)).and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn name(object: &Value) -> &str {
    text(object, &["metadata", "name"])
}

pub(crate) fn namespace(object: &Value) -> &str {
    text(object, &["metadata", "namespace"])
}

pub(crate) fn uid(object: &Value) -> &str {
    text(object, &["metadata", "uid"])
}

pub(crate) fn revision(object: &Value) -> &str {
    text(object, &["metadata", "resourceVersion"])
}

pub(crate) fn is_terminating(object: &Value) -> bool {
    !text(object, &["metadata", "deletionTimestamp"]).is_empty()
}

pub(crate) fn finalizers(object: &Value) -> Vec<&str> {
    let list = at(object, "/metadata/finalizers").and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Who owns an object, as its metadata says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner<'a> {
    pub(crate) api_version: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) name: &'a str,
    pub(crate) uid: &'a str,
    pub(crate) is_controller: bool,
    /// The owner stays until this object is gone, if it is deleted in the foreground.
    pub(crate) is_waited_for: bool,
}

pub(crate) fn owners(object: &Value) -> impl Iterator<Item = Owner<'_>> {
    let list = at(object, "/metadata/ownerReferences").and_then(Value::as_array);
    list.into_iter().flatten().map(|owner| Owner {
        api_version: text(owner, &["apiVersion"]),
        kind: text(owner, &["kind"]),
        name: text(owner, &["name"]),
        uid: text(owner, &["uid"]),
        is_controller: owner["controller"] == true,
        is_waited_for: owner["blockOwnerDeletion"] == true,
    })
}

/// The one owner that sees to the object.
pub(crate) fn controller(object: &Value) -> Option<Owner<'_>> {
    owners(object).find(|owner| owner.is_controller)
}

/// The metadata, which is there from then on. `None` for what is no object.
pub(crate) fn metadata_mut(object: &mut Value) -> Option<&mut Map> {
    let metadata = object.as_object_mut()?.entry("metadata").or_insert_with(|| json!({}));
    if !metadata.is_object() {
        *metadata = json!({});
    }
    metadata.as_object_mut()
}

/// A field that is an object from then on, whatever it was.
pub(crate) fn within<'a>(object: &'a mut Value, field: &str) -> &'a mut Value {
    if !object.is_object() {
        *object = json!({});
    }
    let value = &mut object[field];
    if !value.is_object() {
        *value = json!({});
    }
    value
}

/// Sets a field of the metadata, or removes it for null.
pub(crate) fn set(object: &mut Value, field: &str, value: Value) {
    let Some(metadata) = metadata_mut(object) else { return };
    if value.is_null() {
        metadata.remove(field);
    } else {
        metadata.insert(field, value);
    }
}

/// Lists and maps without anything in them are not there.
pub(crate) fn tidy_metadata(object: &mut Value) {
    let Some(metadata) = metadata_mut(object) else { return };
    for field in ["annotations", "finalizers", "labels", "ownerReferences"] {
        let is_empty = metadata.get(field).is_some_and(|value| match value {
            Value::Array(items) => items.is_empty(),
            Value::Object(fields) => fields.is_empty(),
            other => other.is_null(),
        });
        if is_empty {
            metadata.remove(field);
        }
    }
}

/// Sets the value at a path. What is on the way and no object becomes one.
pub(crate) fn put(object: &mut Value, path: &[&str], value: Value) {
    let mut at = object;
    for key in path {
        if !at.is_object() {
            *at = json!({});
        }
        let Some(fields) = at.as_object_mut() else { return };
        at = fields.entry(*key).or_insert(Value::Null);
    }
    *at = value;
}

pub(crate) fn set_revision(object: &mut Value, revision: u64) {
    set(object, "resourceVersion", json!(revision.to_string()));
}

pub(crate) fn annotation<'a>(object: &'a Value, name: &str) -> &'a str {
    text(object, &["metadata", "annotations", name])
}

/// What an object says of itself in one respect.
pub(crate) fn condition<'a>(object: &'a Value, of: &str) -> Option<&'a Value> {
    let conditions = at(object, "/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().find(|condition| text(condition, &["type"]) == of)
}

/// The status of a condition: `True`, `False`, `Unknown`, or nothing.
pub(crate) fn condition_status<'a>(object: &'a Value, of: &str) -> &'a str {
    condition(object, of).map(|condition| text(condition, &["status"])).unwrap_or_default()
}

/// Sets a condition by its type. While its status stays, so does the time of its transition.
pub(crate) fn set_condition(object: &mut Value, mut condition: Value) {
    let Some(fields) = object.as_object_mut() else { return };
    let Some(status) = fields.entry("status").or_insert_with(|| json!({})).as_object_mut() else { return };
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    if conditions.is_null() {
        *conditions = json!([]);
    }
    let Some(list) = conditions.as_array_mut() else { return };
    match list.iter_mut().find(|known| known["type"] == condition["type"]) {
        Some(known) => {
            let since = known.get("lastTransitionTime").filter(|_| known["status"] == condition["status"]);
            if let Some(since) = since {
                condition["lastTransitionTime"] = since.clone();
            }
            *known = condition;
        }
        None => list.push(condition),
    }
}

/// The time at a path.
pub(crate) fn time_at(object: &Value, path: &[&str]) -> Option<Timestamp> {
    text(object, path).parse().ok()
}

/// As Kubernetes writes times to the microsecond.
pub(crate) fn micro_time(at: Timestamp) -> Value {
    json!(at.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string())
}

/// As Kubernetes writes times: to the second, in UTC.
pub(crate) fn time(at: Timestamp) -> Value {
    // Of what happens at the same time much is written down.
    static LAST: Mutex<(i64, Value)> = Mutex::new((i64::MIN, Value::Null));
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if last.0 != at.as_second() {
        *last = (at.as_second(), json!(at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()));
    }
    last.1.clone()
}
