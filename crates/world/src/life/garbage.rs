//! The garbage collector: what has no owner left is deleted, in the order that was asked for.
//!
//! Deleting an owner in the background leaves what it owned to be found here. In the foreground it stays until all
//! is gone that it is to wait for; to orphan is to make what it owned forget it. Both are finalizers of the owner.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::SignedDuration;

use super::{Controller, Decision, Report, Severity, View};
use crate::api::{Act, Propagation};
use crate::json::{Value, json};
use crate::object::{self, Owner};
use crate::store::{Change, Key};

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

/// When to look again at an object whose owner is of a kind that nobody serves.
const UNKNOWN_KIND_AGAIN: SignedDuration = SignedDuration::from_secs(30);

#[derive(Debug)]
pub(super) struct Garbage;

impl Controller for Garbage {
    fn name(&self) -> &'static str {
        "kube-controller-manager"
    }

    fn observe(&mut self, change: &Change, view: View<'_>) -> Vec<Key> {
        let (before, after) = (change.before.as_deref(), change.after.as_deref());
        let mut keys = BTreeSet::new();
        if let Some(after) = after {
            if before.is_none_or(|before| is_news(before, after))
                && (object::owners(after).next().is_some() || is_waiting(after))
            {
                keys.insert(change.key.clone());
            }
            if is_waiting(after) {
                keys.extend(view.dependents(object::uid(after)).cloned());
            }
        } else if let Some(before) = before {
            keys.extend(view.dependents(object::uid(before)).cloned());
        }
        // Owners that wait may have waited for this.
        if let Some(before) = before {
            let is_owner = |owner: &Owner<'_>| {
                after.is_none_or(|after| {
                    !object::owners(after).any(|other| other.uid == owner.uid && other.is_waited_for)
                })
            };
            let owners = object::owners(before).filter(is_owner);
            keys.extend(owners.filter_map(|owner| key_of(&change.key, &owner, view).ok().flatten()));
        }
        keys.into_iter().collect()
    }

    fn decide(&mut self, key: &Key, view: View<'_>) -> Decision {
        let Some(object) = view.get(key) else { return Decision::none() };
        if object::is_terminating(&object) {
            let finalizers = object::finalizers(&object);
            if finalizers.contains(&ORPHAN) {
                return orphan(key, &object, view);
            }
            if finalizers.contains(&FOREGROUND) {
                return wait(key, &object, view);
            }
            return Decision::none();
        }
        let owners = Owners::of(key, &object, view);
        if owners.are_unknown {
            return view
                .now()
                .checked_add(UNKNOWN_KIND_AGAIN)
                .map_or_else(|_| Decision::none(), Decision::again);
        }
        let is_owned = owners.solid + owners.gone.len() + owners.waiting.len() > 0;
        if !is_owned || (owners.solid > 0 && owners.gone.is_empty() && owners.waiting.is_empty()) {
            return Decision::none();
        }
        let reports = owners.elsewhere.iter().map(|why| report(&object, why.clone())).collect();
        let acts = if owners.solid > 0 {
            let lost: BTreeSet<&String> = owners.gone.iter().chain(&owners.waiting).collect();
            vec![Act::UpdateAny(
                key.resource().into(),
                without_owners(&object, |uid| lost.iter().any(|lost| *lost == uid)),
            )]
        } else {
            let has_dependents = view.dependents(object::uid(&object)).next().is_some();
            let propagation = match (owners.waiting.is_empty(), has_dependents) {
                (false, true) => Propagation::Foreground,
                _ if object::finalizers(&object).contains(&ORPHAN) => Propagation::Orphan,
                _ if object::finalizers(&object).contains(&FOREGROUND) => Propagation::Foreground,
                _ => Propagation::Background,
            };
            vec![Act::Delete {
                resource: key.resource().into(),
                object: object.clone(),
                grace_secs: None,
                propagation,
            }]
        };
        Decision { acts, reports, again: None }
    }
}

/// Whether more has happened than a change of what the object is about.
fn is_news(before: &Value, after: &Value) -> bool {
    ["ownerReferences", "deletionTimestamp", "finalizers"]
        .iter()
        .any(|field| before["metadata"].get(field) != after["metadata"].get(field))
}

/// Whether an object goes as soon as what it owns has been seen to.
fn is_waiting(object: &Value) -> bool {
    let finalizers = object::finalizers(object);
    object::is_terminating(object) && (finalizers.contains(&FOREGROUND) || finalizers.contains(&ORPHAN))
}

/// Where an owner would be. `Ok(None)` where it cannot be told, `Err` if nobody serves its kind.
fn key_of(owned: &Key, owner: &Owner<'_>, view: View<'_>) -> Result<Option<Key>, ()> {
    let resource = view.kinds().find_kind(owner.api_version, owner.kind).ok_or(())?;
    if resource.is_namespaced() && owned.namespace().is_empty() {
        return Ok(None);
    }
    let namespace = if resource.is_namespaced() { owned.namespace() } else { "" };
    Ok(Some(Key::new(&resource.qualified(), namespace, owner.name)))
}

/// The owners of an object, by what has become of them.
#[derive(Debug, Default)]
struct Owners {
    solid: usize,
    gone: Vec<String>,
    waiting: Vec<String>,
    are_unknown: bool,
    /// What is to be told of owners that are in another namespace.
    elsewhere: Vec<String>,
}

impl Owners {
    fn of(key: &Key, object: &Value, view: View<'_>) -> Self {
        let mut owners = Self::default();
        for owner in object::owners(object) {
            let at = match key_of(key, &owner, view) {
                Err(()) => {
                    owners.are_unknown = true;
                    continue;
                }
                // Nobody can look up an owner in a namespace for what is in none.
                Ok(None) => {
                    owners.solid += 1;
                    continue;
                }
                Ok(Some(at)) => at,
            };
            match view.get(&at).filter(|found| object::uid(found) == owner.uid) {
                Some(found)
                    if object::is_terminating(&found) && object::finalizers(&found).contains(&FOREGROUND) =>
                {
                    owners.waiting.push(owner.uid.to_owned());
                }
                Some(_) => owners.solid += 1,
                None => {
                    let is_elsewhere = !at.namespace().is_empty()
                        && view.list(at.resource(), None).any(|other| object::uid(&other) == owner.uid);
                    if is_elsewhere {
                        let Owner { api_version, kind, name, uid, .. } = owner;
                        let namespace = key.namespace();
                        owners.elsewhere.push(format!(
                            "ownerRef [{api_version}/{kind}, namespace: {namespace}, name: {name}, uid: {uid}] does \
                             not exist in namespace {namespace:?}"
                        ));
                    }
                    owners.gone.push(owner.uid.to_owned());
                }
            }
        }
        owners
    }
}

/// What the owner owned forgets it, then it goes.
fn orphan(key: &Key, object: &Value, view: View<'_>) -> Decision {
    let uid = object::uid(object);
    let dependents = view.dependents(uid).filter_map(|key| Some((key, view.get(key)?)));
    let mut acts: Vec<Act> = dependents
        .map(|(key, dependent)| {
            Act::UpdateAny(key.resource().into(), without_owners(&dependent, |of| of == uid))
        })
        .collect();
    acts.push(Act::UpdateAny(key.resource().into(), without_finalizer(object, ORPHAN)));
    Decision { acts, ..Decision::default() }
}

/// The owner goes once nothing is left that it waits for. All it owns is looked at on its own account.
fn wait(key: &Key, object: &Value, view: View<'_>) -> Decision {
    let uid = object::uid(object);
    let is_waited_for = |dependent: &Arc<Value>| {
        object::owners(dependent).any(|owner| owner.uid == uid && owner.is_waited_for)
    };
    let mut dependents = view.dependents(uid).filter_map(|key| view.get(key));
    if dependents.any(|dependent| is_waited_for(&dependent)) {
        return Decision::none();
    }
    Decision::act(Act::UpdateAny(key.resource().into(), without_finalizer(object, FOREGROUND)))
}

fn without_owners(object: &Value, is_lost: impl Fn(&str) -> bool) -> Value {
    let mut next = object.clone();
    let owners =
        object::at(object, "/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten();
    let kept: Vec<&Value> = owners.filter(|owner| !is_lost(object::text(owner, &["uid"]))).collect();
    let kept = if kept.is_empty() { Value::Null } else { json!(kept) };
    object::set(&mut next, "ownerReferences", kept);
    next
}

pub(super) fn without_finalizer(object: &Value, finalizer: &str) -> Value {
    let mut next = object.clone();
    let kept: Vec<&str> =
        object::finalizers(object).into_iter().filter(|known| *known != finalizer).collect();
    let kept = if kept.is_empty() { Value::Null } else { json!(kept) };
    object::set(&mut next, "finalizers", kept);
    next
}

fn report(object: &Arc<Value>, message: String) -> Report {
    Report {
        about: (**object).clone(),
        severity: Severity::Warning,
        reason: "OwnerRefInvalidNamespace",
        message,
        component: "garbage-collector-controller",
    }
}

#[cfg(test)]
mod tests;
