//! The managedFields of an object: who owns which fields, since when.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::fields::FieldSet;
use crate::json::{Map, Value, json};
use crate::object;

/// More than this many writers by update are merged, the oldest first.
const UPDATERS_MAX: usize = 10;

/// Identifies an entry. One who applies keeps the entry when the version changes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Manager {
    pub(super) name: String,
    pub(super) operation: Operation,
    /// Empty for those who apply.
    version: String,
    pub(super) subresource: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Apply,
    Update,
}

impl Manager {
    pub(super) fn new(
        name: &str,
        operation: Operation,
        api_version: &str,
        subresource: Option<&str>,
    ) -> Self {
        Self {
            name: if name.is_empty() { "unknown".to_owned() } else { name.to_owned() },
            operation,
            version: match operation {
                Operation::Apply => String::new(),
                Operation::Update => api_version.to_owned(),
            },
            subresource: subresource.unwrap_or_default().to_owned(),
        }
    }
}

/// As in messages of conflicts.
impl std::fmt::Display for Manager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", json!(self.name))?;
        if !self.subresource.is_empty() {
            write!(f, " with subresource {}", json!(self.subresource))?;
        }
        match self.operation {
            Operation::Apply => Ok(()),
            Operation::Update => write!(f, " using {}", self.version),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Owned {
    pub(super) fields: FieldSet,
    pub(super) api_version: String,
    /// As it is written; missing where applying changed nothing.
    pub(super) time: Option<Value>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Managed {
    pub(super) entries: BTreeMap<Manager, Owned>,
}

impl Managed {
    /// None where an entry cannot be read.
    pub(super) fn of(object: &Value) -> Option<Self> {
        let mut entries = BTreeMap::new();
        let listed = match &object["metadata"]["managedFields"] {
            Value::Null => &[],
            Value::Array(listed) => listed.as_slice(),
            _ => return None,
        };
        for entry in listed {
            let operation = match entry["operation"].as_str() {
                Some("Apply") => Operation::Apply,
                Some("Update") => Operation::Update,
                _ => return None,
            };
            let api_version = entry["apiVersion"].as_str().filter(|version| !version.is_empty())?;
            if entry["fieldsType"] != json!("FieldsV1") {
                return None;
            }
            let fields = match &entry["fieldsV1"] {
                Value::Null => FieldSet::default(),
                fields => FieldSet::from_value(fields)?,
            };
            let name = entry["manager"].as_str().unwrap_or_default();
            let version = if operation == Operation::Update { api_version } else { "" };
            let manager = Manager {
                name: name.to_owned(),
                operation,
                version: version.to_owned(),
                subresource: entry["subresource"].as_str().unwrap_or_default().to_owned(),
            };
            let time = entry.get("time").cloned();
            entries.insert(manager, Owned { fields, api_version: api_version.to_owned(), time });
        }
        Some(Self { entries })
    }

    /// A list that asks for all entries to be dropped: an empty one, or one with an empty entry.
    pub(super) fn is_reset(object: &Value) -> bool {
        match object["metadata"]["managedFields"].as_array().map(Vec::as_slice) {
            Some([]) => true,
            Some([Value::Object(entry)]) => {
                entry.values().all(|value| value.is_null() || *value == json!(""))
            }
            _ => false,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn drop_empty(&mut self) {
        self.entries.retain(|_, owned| !owned.fields.is_empty());
    }

    /// Merges the oldest writers by update into one, per version, until there are few enough.
    pub(super) fn cap_updaters(&mut self) {
        let mut updaters: Vec<Manager> =
            self.entries.keys().filter(|manager| manager.operation == Operation::Update).cloned().collect();
        let mut count = updaters.len();
        updaters.sort_by_key(|manager| (self.entries.get(manager).map_or(0, seconds), manager.clone()));
        let mut first_of_version: BTreeMap<String, Manager> = BTreeMap::new();
        for manager in updaters {
            if count <= UPDATERS_MAX {
                return;
            }
            let Some(first) = first_of_version.get(&manager.version) else {
                first_of_version.insert(manager.version.clone(), manager);
                continue;
            };
            let bucket = Manager {
                name: "ancient-changes".to_owned(),
                operation: Operation::Update,
                version: manager.version.clone(),
                subresource: String::new(),
            };
            let Some(owned) = self.entries.remove(&manager) else { continue };
            let before = self.entries.remove(&bucket).or_else(|| self.entries.remove(first));
            let before = before.map(|before| before.fields).unwrap_or_default();
            let owned = Owned { fields: owned.fields.union(before), ..owned };
            self.entries.insert(bucket, owned);
            count -= 1;
        }
    }

    /// Writes the entries into the object, in the API server's order.
    pub(super) fn put_into(&self, object: &mut Value) {
        let Value::Object(object) = object else { return };
        let metadata = object.entry("metadata").or_insert_with(|| json!({}));
        let Value::Object(metadata) = metadata else { return };
        if self.entries.is_empty() {
            metadata.remove("managedFields");
            return;
        }
        let mut entries: Vec<(&Manager, &Owned)> = self.entries.iter().collect();
        entries.sort_by_key(|(manager, owned)| {
            (manager.operation, seconds(owned), &manager.name, &owned.api_version, &manager.subresource)
        });
        let entries = entries.into_iter().map(|(manager, owned)| {
            entry(manager, &owned.api_version, owned.time.clone(), owned.fields.to_value())
        });
        metadata.insert("managedFields", entries.collect());
    }
}

fn seconds(owned: &Owned) -> i64 {
    seconds_of(owned.time.as_ref().and_then(Value::as_str))
}

fn seconds_of(time: Option<&str>) -> i64 {
    time.and_then(|time| time.parse::<Timestamp>().ok()).map_or(0, Timestamp::as_second)
}

/// Most writes change what nobody but their writer owns: then all other entries stay as they are written. Whether that
/// was so, and has been noted.
pub(super) fn note_own(
    before: &Value,
    after: &mut Value,
    manager: &Manager,
    changed: &FieldSet,
    removed: &FieldSet,
    now: Timestamp,
) -> bool {
    let Some(entries) = after["metadata"]["managedFields"].as_array() else { return false };
    if entries.is_empty() || before["metadata"]["managedFields"].as_array() != Some(entries) {
        return false;
    }
    let is_writers = |entry: &Value| {
        let said = |field: &str| entry[field].as_str().unwrap_or_default();
        said("manager") == manager.name
            && said("operation") == "Update"
            && said("apiVersion") == manager.version
            && said("subresource") == manager.subresource
    };
    let (changed, removed) = (changed.to_value(), removed.to_value());
    let is_untouched = |entry: &Value| {
        let fields = &entry["fieldsV1"];
        !share(fields, &removed) && (is_writers(entry) || !share(fields, &changed))
    };
    if !entries.iter().all(is_untouched) {
        return false;
    }
    if changed.as_object().is_none_or(Map::is_empty) {
        return true;
    }
    let own = entries.iter().position(is_writers);
    if own.is_none() && entries.len() >= UPDATERS_MAX {
        return false;
    }
    let Some(entries) = after.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut) else {
        return false;
    };
    match own.and_then(|at| entries.get_mut(at)) {
        Some(own) => {
            own["time"] = object::time(now);
            if !covers(&own["fieldsV1"], &changed) {
                own["fieldsV1"] = union(&own["fieldsV1"], &changed);
            }
        }
        None => entries.push(entry(manager, &manager.version, Some(object::time(now)), changed)),
    }
    entries.sort_by_cached_key(|entry| {
        let said = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
        let time = seconds_of(entry["time"].as_str());
        // `Apply` comes before `Update`.
        (said("operation"), time, said("manager"), said("apiVersion"), said("subresource"))
    });
    true
}

/// Whether two sets of fields, as they are written, have a member in common.
fn share(one: &Value, other: &Value) -> bool {
    let fields = other.as_object().into_iter().flatten();
    fields
        .filter_map(|(field, below)| Some((one.get(field)?, below)))
        .any(|(own, below)| (is_member(own) && is_member(below)) || share(own, below))
}

/// Whether all members of the other set, as it is written, are members of the one.
fn covers(one: &Value, other: &Value) -> bool {
    let mut fields = other.as_object().into_iter().flatten().filter(|(field, _)| *field != ".");
    fields.all(|(field, below)| {
        one.get(field).is_some_and(|own| (!is_member(below) || is_member(own)) && covers(own, below))
    })
}

/// The members of two sets, as they are written.
fn union(one: &Value, other: &Value) -> Value {
    let mut all = one.as_object().cloned().unwrap_or_default();
    for (field, below) in other.as_object().into_iter().flatten() {
        let both = match all.get(field) {
            None => below.clone(),
            Some(own) => {
                let mut both = union(own, below);
                let has_fields = both.as_object().is_some_and(|both| !both.is_empty());
                if has_fields && (is_member(own) || is_member(below)) {
                    both["."] = json!({});
                }
                both
            }
        };
        all.insert(field, both);
    }
    Value::Object(all)
}

fn is_member(field: &Value) -> bool {
    field.as_object().is_some_and(|below| below.is_empty() || below.contains_key("."))
}

fn entry(manager: &Manager, api_version: &str, time: Option<Value>, fields: Value) -> Value {
    let mut entry = Map::new();
    let operation = match manager.operation {
        Operation::Apply => "Apply",
        Operation::Update => "Update",
    };
    if !manager.name.is_empty() {
        entry.insert("manager", json!(manager.name));
    }
    entry.insert("operation", json!(operation));
    entry.insert("apiVersion", json!(api_version));
    if let Some(time) = time {
        entry.insert("time", time);
    }
    entry.insert("fieldsType", json!("FieldsV1"));
    entry.insert("fieldsV1", fields);
    if !manager.subresource.is_empty() {
        entry.insert("subresource", json!(manager.subresource));
    }
    Value::Object(entry)
}
