//! Deleting: at once, with grace, or once everybody who waits for it has let go.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use super::custom::{CLEANUP, DEFINITIONS};
use super::read::Selection;
use super::{Call, State, shown};
use crate::admission::{Matter, Operation};
use crate::body;
use crate::events;
use crate::failure::Failure;
use crate::json::{Value, json};
use crate::kinds::Resource;
use crate::names::{invalid, not_supported, quoted};
use crate::object;
use crate::options;
use crate::request::{Place, Query};
use crate::store::Key;

/// How something is to be deleted.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Options {
    pub(super) grace_period_seconds: Option<i64>,
    pub(super) propagation_policy: Option<String>,
    /// How the policy was said in former times.
    pub(super) orphan_dependents: Option<bool>,
    pub(super) preconditions: Preconditions,
    pub(super) dry_run: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Preconditions {
    pub(super) uid: Option<String>,
    pub(super) resource_version: Option<String>,
}

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

impl Options {
    fn of(query: &Query, call: &Call) -> Result<Self, Failure> {
        // What is in the body counts, and only without one what is in the query.
        if !call.body.is_empty() {
            return Self::read(&body::delete_options(&call.content_type, &call.body)?);
        }
        let options = Self {
            grace_period_seconds: query.grace_period_secs,
            propagation_policy: Some(query.propagation.clone()).filter(|policy| !policy.is_empty()),
            dry_run: query.dry_run.clone(),
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
    pub(super) fn check_meant(&self, resource: &Resource, key: &Key, object: &Value) -> Result<(), Failure> {
        check(resource, key, object, &self.preconditions)
    }

    /// The same of whatever the object has become since it was checked.
    pub(super) fn without_revision(self) -> Self {
        let preconditions = Preconditions { resource_version: None, ..self.preconditions };
        Self { preconditions, ..self }
    }

    fn check(&self) -> Result<(), Failure> {
        let mut causes = Vec::new();
        let field = "propagationPolicy";
        if let (Some(_), Some(policy)) = (self.orphan_dependents, &self.propagation_policy) {
            causes.push(invalid(
                field,
                policy,
                "orphanDependents and deletionPropagation cannot be both set",
            ));
        }
        let known = ["Foreground", "Background", "Orphan"];
        if let Some(policy) = self.propagation_policy.as_deref().filter(|policy| !known.contains(policy)) {
            let supported = ["Foreground", "Background", "Orphan", "nil"];
            causes.push(not_supported(field, &quoted(policy), &supported));
        }
        causes.extend(options::dry_run_problem(&self.dry_run));
        if causes.is_empty() { Ok(()) } else { Err(Failure::invalid_options("DeleteOptions", causes)) }
    }

    /// The finalizers of an object that is deleted so: with the one by which the garbage collector sees to what it
    /// owns, if there is need of one.
    fn finalizers(&self, resource: &Resource, object: &Value) -> Vec<String> {
        let has = |finalizer: &str| object::finalizers(object).contains(&finalizer);
        let (orphans, waits) = match (self.orphan_dependents, self.propagation_policy.as_deref()) {
            (Some(orphans), _) => (orphans, false),
            (None, Some(policy)) => (policy == "Orphan", policy == "Foreground"),
            // What the object says itself counts if nothing else is said.
            (None, None) => (has(ORPHAN) || orphans(resource), has(FOREGROUND)),
        };
        let kept = object::finalizers(object).into_iter().filter(|one| ![ORPHAN, FOREGROUND].contains(one));
        let added = [(orphans, ORPHAN), (waits, FOREGROUND)].into_iter().filter(|(is_added, _)| *is_added);
        let wanted: Vec<&str> = kept.chain(added.map(|(_, finalizer)| finalizer)).collect();
        let had = object::finalizers(object);
        // Those that are the same keep their order.
        let is_same = wanted.len() == had.len() && wanted.iter().all(|one| had.contains(one));
        let finalizers = if is_same { had } else { wanted };
        finalizers.into_iter().map(str::to_owned).collect()
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

/// How far the deletion of an object has come with what is asked now.
enum Grace {
    /// The kind knows none.
    Unknown,
    /// It has been asked for before, and nothing becomes of it now.
    Pending,
    /// So many seconds from now, or from when it was first asked for.
    Begins(i64),
    Shortens(i64),
}

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
        let resource = place.resource.kept_as();
        let meant: Vec<(Key, Arc<Value>)> = self
            .store
            .list(&resource, place.namespace.as_deref())
            .map(|(key, object)| (key.clone(), self.read(&place.resource, &object)))
            .filter(|(_, object)| selection.matches(object))
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

    pub(super) fn delete_one(
        &mut self,
        resource: &Resource,
        key: &Key,
        object: &Arc<Value>,
        options: &Options,
    ) -> Result<Value, Failure> {
        check(resource, key, object, &options.preconditions)?;
        if is_namespace(resource) {
            return Ok(self.end_namespace(resource, key, object, options));
        }
        let grace = grace_of(resource, object, options);
        if matches!(grace, Grace::Pending) {
            return Ok(told(resource, object));
        }
        let mut next = (**object).clone();
        let mut finalizers = options.finalizers(resource, object);
        if resource.qualified() == DEFINITIONS && !options.is_dry_run() && self.delete_defined(key.name())? {
            if !finalizers.iter().any(|finalizer| finalizer == CLEANUP) {
                finalizers.push(CLEANUP.to_owned());
            }
            object::set_condition(&mut next, instances_go(self.now()));
        }
        object::set(&mut next, "finalizers", list_or_null(&finalizers));
        let is_held = !object::finalizers(&next).is_empty();
        match grace {
            Grace::Begins(secs) => self.mark(&mut next, secs),
            Grace::Shortens(secs) => {
                let at = self.now().checked_add(SignedDuration::from_secs(secs));
                object::set(&mut next, "deletionTimestamp", object::time(at.unwrap_or_else(|_| self.now())));
                object::set(&mut next, "deletionGracePeriodSeconds", json!(secs));
            }
            Grace::Unknown if is_held => self.mark(&mut next, 0),
            Grace::Unknown | Grace::Pending => {}
        }
        let is_over = !is_held && !matches!(grace, Grace::Begins(1..) | Grace::Shortens(1..));
        let is_marked_first = matches!(grace, Grace::Begins(_) | Grace::Shortens(_)) || is_held;
        if options.is_dry_run() {
            return Ok(if is_over { told(resource, &next) } else { shown(resource, &next) });
        }
        // Even without any time left, the mark is there before the object is gone: watches see both.
        if is_marked_first && next != **object {
            next = (*self.store.put(key.clone(), next)).clone();
        }
        if !is_over {
            return Ok(shown(resource, &next));
        }
        self.remove(key);
        Ok(told(resource, &next))
    }

    /// Marks an object as going; only the first time counts.
    fn mark(&self, next: &mut Value, grace: i64) {
        if object::is_terminating(next) {
            return;
        }
        let at = self.now().checked_add(SignedDuration::from_secs(grace)).unwrap_or_else(|_| self.now());
        object::set(next, "deletionTimestamp", object::time(at));
        object::set(next, "deletionGracePeriodSeconds", json!(grace));
        if let Some(generation) = next.pointer("/metadata/generation").and_then(Value::as_i64)
            && generation > 0
        {
            object::set(next, "generation", json!(generation + 1));
        }
    }

    /// A namespace ends once nothing is in it any more, which its finalizers stand for.
    fn end_namespace(
        &mut self,
        resource: &Resource,
        key: &Key,
        namespace: &Arc<Value>,
        options: &Options,
    ) -> Value {
        let mut next = (**namespace).clone();
        let is_waited_for =
            next.pointer("/spec/finalizers").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
        if object::is_terminating(&next) {
            if !is_waited_for && object::finalizers(&next).is_empty() && !options.is_dry_run() {
                self.store.remove(key);
            }
            return shown(resource, &next);
        }
        object::set(&mut next, "deletionTimestamp", object::time(self.now()));
        next["status"]["phase"] = json!("Terminating");
        object::set(&mut next, "finalizers", list_or_null(&options.finalizers(resource, namespace)));
        if options.is_dry_run() {
            return shown(resource, &next);
        }
        shown(resource, &self.store.put(key.clone(), next))
    }
}

/// What a definition says of itself while its objects are being deleted.
fn instances_go(now: Timestamp) -> Value {
    json!({
        "type": "Terminating", "status": "True", "reason": "InstanceDeletionInProgress",
        "message": "CustomResource deletion is in progress", "lastTransitionTime": object::time(now),
    })
}

fn list_or_null(list: &[String]) -> Value {
    if list.is_empty() { Value::Null } else { json!(list) }
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
            // Here the server calls the resource by its kind, and events by their first name.
            let group = if events::are(resource) { String::new() } else { resource.group.clone() };
            let by_kind = Resource { plural: resource.kind.clone(), group, ..resource.clone() };
            return Err(Failure::conflict(&by_kind, key.name(), &why));
        }
    }
    Ok(())
}

/// Only pods know grace, and only those that run somewhere need it. Whoever asks again can only shorten it.
fn grace_of(resource: &Resource, object: &Value, options: &Options) -> Grace {
    if !(resource.group.is_empty() && resource.kind == "Pod") {
        return Grace::Unknown;
    }
    // Less than nothing is as little as possible.
    let asked = options.grace_period_seconds.map(|secs| if secs < 0 { 1 } else { secs });
    if object::is_terminating(object) {
        let given = object.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64);
        return match (asked, given) {
            (_, None) => Grace::Unknown,
            (Some(asked), Some(given)) if asked < given => Grace::Shortens(asked),
            _ => Grace::Pending,
        };
    }
    let own = object.pointer("/spec/terminationGracePeriodSeconds").and_then(Value::as_i64);
    let is_done = matches!(object::text(object, &["status", "phase"]), "Succeeded" | "Failed");
    let secs = match asked.or(own).unwrap_or(0) {
        _ if is_done || object::text(object, &["spec", "nodeName"]).is_empty() => 0,
        secs if secs < 0 => 1,
        secs => secs,
    };
    Grace::Begins(secs)
}

/// Kinds of which the server tells what they were last, where of others it says that they are gone.
fn is_shown_last(resource: &Resource) -> bool {
    let core = [
        "PersistentVolume",
        "PersistentVolumeClaim",
        "Pod",
        "PodTemplate",
        "ResourceQuota",
        "Service",
        "ServiceAccount",
    ];
    match &*resource.group {
        "" => core.contains(&&*resource.kind),
        group => group == "storage.k8s.io" && !resource.is_custom,
    }
}

/// What is said of an object that is gone.
fn told(resource: &Resource, object: &Value) -> Value {
    if is_shown_last(resource) {
        return shown(resource, object);
    }
    let mut details =
        json!({ "name": object::name(object), "kind": resource.plural, "uid": object::uid(object) });
    if !resource.group.is_empty() {
        details["group"] = json!(resource.group);
    }
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
    })
}
