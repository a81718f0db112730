//! Deleting: at once, with grace, or once everybody who waits for it has let go.

use std::sync::Arc;

use jiff::SignedDuration;
use serde::Deserialize;
use serde_json::{Value, json};

use super::read::Selection;
use super::{Call, State, shown};
use crate::admission::{Matter, Operation};
use crate::body;
use crate::failure::{Cause, CauseReason, Failure};
use crate::kinds::Resource;
use crate::object;
use crate::request::{Place, Query};
use crate::store::Key;

/// How something is to be deleted.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Options {
    pub(super) grace_period_seconds: Option<i64>,
    pub(super) propagation_policy: Option<String>,
    pub(super) preconditions: Preconditions,
    pub(super) dry_run: Vec<String>,
    /// The old way to say whether what an object owns stays.
    pub(super) orphan_dependents: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Preconditions {
    pub(super) uid: Option<String>,
    pub(super) resource_version: Option<String>,
}

impl Options {
    fn of(query: &Query, call: &Call) -> Result<Self, Failure> {
        if !call.body.is_empty() {
            let options = body::delete_options(&call.content_type, &call.body)?;
            return Self::read(&options);
        }
        let options = Self {
            grace_period_seconds: query.grace_period_secs,
            propagation_policy: Some(query.propagation.clone()).filter(|policy| !policy.is_empty()),
            dry_run: if query.dry_run { vec!["All".to_owned()] } else { Vec::new() },
            ..Self::default()
        };
        options.check()?;
        Ok(options)
    }

    /// From options that have been decoded.
    pub(super) fn read(options: &Value) -> Result<Self, Failure> {
        let options = Self::deserialize(options).map_err(|error| Failure::bad_request(error.to_string()))?;
        options.check()?;
        Ok(options)
    }

    pub(super) fn is_dry_run(&self) -> bool {
        !self.dry_run.is_empty()
    }

    /// Whether an object is the one that is meant.
    pub(super) fn expect(&self, resource: &Resource, key: &Key, object: &Value) -> Result<(), Failure> {
        check(resource, key, object, &self.preconditions)
    }

    /// The same of whatever the object has become since it was checked.
    pub(super) fn without_revision(self) -> Self {
        let preconditions = Preconditions { resource_version: None, ..self.preconditions };
        Self { preconditions, ..self }
    }

    fn check(&self) -> Result<(), Failure> {
        const POLICIES: [&str; 3] = ["Foreground", "Background", "Orphan"];
        let refused = |field: &str, message| {
            let reason = CauseReason::FieldValueNotSupported;
            let cause = Cause { reason, field: field.to_owned(), message };
            Err(Failure::invalid_options("DeleteOptions", cause))
        };
        if let Some(policy) = self.propagation_policy.as_deref().filter(|policy| !POLICIES.contains(policy)) {
            let supported = r#""Foreground", "Background", "Orphan", "nil""#;
            let message = format!("Unsupported value: {policy:?}: supported values: {supported}");
            return refused("propagationPolicy", message);
        }
        if !matches!(&self.dry_run[..], [] | [_]) || self.dry_run.iter().any(|run| run != "All") {
            let message = format!("Unsupported value: {}: supported values: \"All\"", json!(self.dry_run));
            return refused("dryRun", message);
        }
        Ok(())
    }

    /// The finalizers with which the garbage collector sees to what the object owns.
    fn finalizers(&self, resource: &Resource, object: &Value) -> Vec<String> {
        let known = object::finalizers(object);
        let (orphan, foreground) = match (self.orphan_dependents, self.propagation_policy.as_deref()) {
            (Some(orphan), _) => (orphan, false),
            (None, Some(policy)) => (policy == "Orphan", policy == "Foreground"),
            (None, None) => (known.contains(&ORPHAN) || orphans(resource), known.contains(&FOREGROUND)),
        };
        let kept = known.into_iter().filter(|known| ![ORPHAN, FOREGROUND].contains(known));
        let added = [(ORPHAN, orphan), (FOREGROUND, foreground)];
        let added = added.into_iter().filter(|(_, is_wanted)| *is_wanted).map(|(finalizer, _)| finalizer);
        kept.chain(added).map(str::to_owned).collect()
    }

    /// As an object, the way admission sees it.
    fn to_value(&self) -> Value {
        let mut value = json!({ "kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1" });
        let mut preconditions = json!({});
        if let Some(uid) = &self.preconditions.uid {
            preconditions["uid"] = json!(uid);
        }
        if let Some(revision) = &self.preconditions.resource_version {
            preconditions["resourceVersion"] = json!(revision);
        }
        let fields = [
            ("gracePeriodSeconds", self.grace_period_seconds.map(|secs| json!(secs))),
            ("preconditions", Some(preconditions).filter(|given| *given != json!({}))),
            ("orphanDependents", self.orphan_dependents.map(|orphan| json!(orphan))),
            ("propagationPolicy", self.propagation_policy.as_ref().map(|policy| json!(policy))),
            ("dryRun", Some(json!(self.dry_run)).filter(|_| !self.dry_run.is_empty())),
        ];
        for (field, given) in fields {
            if let Some(given) = given {
                value[field] = given;
            }
        }
        value
    }
}

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// What some objects own stays by default, as it did before there was a choice.
fn orphans(resource: &Resource) -> bool {
    let kind = (&*resource.group, &*resource.kind);
    matches!(kind, ("", "ReplicationController") | ("batch", "Job"))
}

impl State {
    pub(super) fn delete(
        &mut self,
        place: &Place,
        query: &Query,
        call: &Call,
    ) -> Result<(u16, Value), Failure> {
        self.delete_object(place, &Options::of(query, call)?)
    }

    pub(super) fn delete_object(
        &mut self,
        place: &Place,
        options: &Options,
    ) -> Result<(u16, Value), Failure> {
        let (key, object) = self.existing(place)?;
        self.admit_deletion(&of_deletion(place, options), &object)?;
        self.delete_one(&place.resource, &key, &object, options).map(|answer| (200, answer))
    }

    pub(super) fn delete_collection(
        &mut self,
        place: &Place,
        query: &Query,
        call: &Call,
    ) -> Result<(u16, Value), Failure> {
        let options = Options::of(query, call)?;
        let selection = Selection::of(self, place, query)?;
        let list = self.list(place, query, call)?;
        let resource = place.resource.qualified();
        let meant: Vec<(Key, Arc<Value>)> = self
            .store
            .list(&resource, place.namespace.as_deref())
            .filter(|(_, object)| selection.matches(object))
            .map(|(key, object)| (key.clone(), object))
            .collect();
        // All are asked for before any is gone.
        for (_, object) in &meant {
            self.admit_deletion(&of_deletion(place, &options), object)?;
        }
        for (key, object) in meant {
            self.delete_one(&place.resource, &key, &object, &options)?;
        }
        Ok((200, list))
    }

    fn delete_one(
        &mut self,
        resource: &Resource,
        key: &Key,
        object: &Arc<Value>,
        options: &Options,
    ) -> Result<Value, Failure> {
        check(resource, key, object, &options.preconditions)?;
        let dry_run = !options.dry_run.is_empty();
        let mut next = (**object).clone();
        let finalizers = options.finalizers(resource, object);
        if finalizers != object::finalizers(object) {
            let finalizers = if finalizers.is_empty() { Value::Null } else { json!(finalizers) };
            object::set(&mut next, "finalizers", finalizers);
        }
        let grace = grace_of(resource, object, options);
        if grace == 0 && object::finalizers(&next).is_empty() && !is_kept(resource, object) {
            if !dry_run {
                self.store.remove(key);
            }
            return Ok(success(resource, object));
        }
        self.mark(resource, object, &mut next, grace);
        if next == **object || dry_run {
            return Ok(shown(resource, &next));
        }
        Ok(shown(resource, &self.store.put(key.clone(), next)))
    }

    /// Marks an object as going; a second time only for less grace.
    fn mark(&self, resource: &Resource, object: &Value, next: &mut Value, grace: i64) {
        let already = object.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64);
        if object::is_terminating(object) && already.is_none_or(|already| already <= grace) {
            return;
        }
        let at = self.now().checked_add(SignedDuration::from_secs(grace)).unwrap_or_else(|_| self.now());
        object::set(next, "deletionTimestamp", object::time(at));
        if is_namespace(resource) {
            object::put(next, &["status", "phase"], json!("Terminating"));
        } else {
            object::set(next, "deletionGracePeriodSeconds", json!(grace));
        }
        if let Some(generation) = object.pointer("/metadata/generation").and_then(Value::as_i64) {
            object::set(next, "generation", json!(generation + 1));
        }
    }
}

/// How admission is told of a deletion.
fn of_deletion<'a>(place: &'a Place, options: &Options) -> Matter<'a> {
    Matter {
        place,
        operation: Operation::Delete,
        kind: None,
        options: options.to_value(),
        dry_run: !options.dry_run.is_empty(),
    }
}

/// A namespace is marked first, and gone when all that keeps it has let go.
fn is_kept(resource: &Resource, object: &Value) -> bool {
    is_namespace(resource) && !(object::is_terminating(object) && is_finalized(object))
}

/// Nothing keeps a namespace any more.
pub(super) fn is_finalized(namespace: &Value) -> bool {
    namespace.pointer("/spec/finalizers").and_then(Value::as_array).is_none_or(Vec::is_empty)
}

pub(super) fn is_namespace(resource: &Resource) -> bool {
    resource.group.is_empty() && resource.kind == "Namespace"
}

fn check(
    resource: &Resource,
    key: &Key,
    object: &Value,
    preconditions: &Preconditions,
) -> Result<(), Failure> {
    let pairs = [
        ("UID", &preconditions.uid, object::uid(object), "deleted and then recreated"),
        ("ResourceVersion", &preconditions.resource_version, object::revision(object), "modified"),
    ];
    for (word, wanted, is, fate) in pairs {
        if let Some(wanted) = wanted.as_deref().filter(|wanted| *wanted != is) {
            let why = format!(
                "the {word} in the precondition ({wanted}) does not match the {word} in record ({is}). The object \
                 might have been {fate}"
            );
            // Here the server calls the resource by its kind.
            let by_kind = Resource { plural: resource.kind.clone(), ..resource.clone() };
            return Err(Failure::conflict(&by_kind, &key.name, &why));
        }
    }
    Ok(())
}

/// Only pods that run somewhere get time to end.
fn grace_of(resource: &Resource, object: &Value, options: &Options) -> i64 {
    if !(resource.group.is_empty() && resource.kind == "Pod") {
        return 0;
    }
    let is_done = matches!(object::text(object, &["status", "phase"]), "Succeeded" | "Failed");
    if object::text(object, &["spec", "nodeName"]).is_empty() || is_done {
        return 0;
    }
    let own = object.pointer("/spec/terminationGracePeriodSeconds").and_then(Value::as_i64);
    options.grace_period_seconds.or(own).unwrap_or(30).max(0)
}

/// What is said of an object that is gone.
fn success(resource: &Resource, object: &Value) -> Value {
    let mut details =
        json!({ "name": object::name(object), "kind": resource.plural, "uid": object::uid(object) });
    if !resource.group.is_empty() {
        details["group"] = json!(resource.group);
    }
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
    })
}
