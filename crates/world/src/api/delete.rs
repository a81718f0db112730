//! Deleting: at once, with grace, or once everybody who waits for it has let go.

use std::sync::Arc;

use jiff::SignedDuration;
use serde::Deserialize;
use serde_json::{Value, json};

use super::read::Selection;
use super::{Call, State, shown};
use crate::failure::Failure;
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
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Preconditions {
    pub(super) uid: Option<String>,
    pub(super) resource_version: Option<String>,
}

impl Options {
    fn of(query: &Query, call: &Call) -> Result<Self, Failure> {
        let mut options: Self = if call.body.is_empty() {
            Self::default()
        } else {
            serde_json::from_slice(&call.body)
                .map_err(|error| Failure::bad_request(format!("invalid delete options: {error}")))?
        };
        options.grace_period_seconds = options.grace_period_seconds.or(query.grace_period_secs);
        if options.propagation_policy.is_none() && !query.propagation.is_empty() {
            options.propagation_policy = Some(query.propagation.clone());
        }
        if query.dry_run {
            options.dry_run = vec!["All".to_owned()];
        }
        Ok(options)
    }

    /// The finalizer that lets the garbage collector see to what the object owns.
    fn finalizer(&self) -> Option<&'static str> {
        match self.propagation_policy.as_deref() {
            Some("Foreground") => Some("foregroundDeletion"),
            Some("Orphan") => Some("orphan"),
            _ => None,
        }
    }
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
        if let Some(finalizer) = options.finalizer() {
            let mut finalizers: Vec<String> =
                object::finalizers(object).into_iter().map(str::to_owned).collect();
            if !finalizers.iter().any(|known| known == finalizer) {
                finalizers.push(finalizer.to_owned());
            }
            object::set(&mut next, "finalizers", json!(finalizers));
        }
        let grace = grace_of(resource, object, options);
        if grace == 0 && object::finalizers(&next).is_empty() && !is_namespace(resource) {
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
        object::set(next, "deletionGracePeriodSeconds", json!(grace));
        if is_namespace(resource) {
            next["status"]["phase"] = json!("Terminating");
        }
        if let Some(generation) = object.pointer("/metadata/generation").and_then(Value::as_i64) {
            object::set(next, "generation", json!(generation + 1));
        }
    }
}

fn is_namespace(resource: &Resource) -> bool {
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
