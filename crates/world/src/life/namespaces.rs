//! A namespace that is deleted: all that is in it goes first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::{Controller, Decision, View};
use crate::api::Act;
use crate::json::{Value, json};
use crate::object;
use crate::store::{Change, Key};

#[derive(Debug)]
pub(super) struct Namespaces;

/// What keeps a namespace until it is empty.
const FINALIZER: &str = "kubernetes";

/// So long everybody gets to learn that the namespace goes, and to make nothing more in it.
const GRACE: SignedDuration = SignedDuration::from_secs(5);

impl Controller for Namespaces {
    fn name(&self) -> &'static str {
        "kube-controller-manager"
    }

    fn observe(&mut self, change: &Change, view: View<'_>) -> Vec<Key> {
        let key = if change.key.resource() == "namespaces" {
            change.key.clone()
        } else {
            Key::new("namespaces", "", change.key.namespace())
        };
        let namespace = view.get(&key).filter(|namespace| object::is_terminating(namespace));
        namespace.map(|_| key).into_iter().collect()
    }

    fn decide(&mut self, key: &Key, view: View<'_>) -> Decision {
        let Some(namespace) = view.get(key).filter(|namespace| is_kept(namespace)) else {
            return Decision::none();
        };
        let deleted = object::text(&namespace, &["metadata", "deletionTimestamp"]).parse::<Timestamp>();
        let begin = deleted.ok().and_then(|deleted| deleted.checked_add(GRACE).ok());
        if let Some(begin) = begin.filter(|begin| view.now() < *begin) {
            return Decision::again(begin);
        }
        let content = Content::of(key.name(), view);
        if !content.deletable.is_empty() {
            let acts = content.deletable.iter().map(|(key, object)| Act::delete(key.resource(), object));
            return Decision { acts: acts.collect(), ..Decision::default() };
        }
        // All has been deleted that can be. The conditions say what is left, and that nothing is.
        let mut next = (*namespace).clone();
        update_conditions(&mut next, &content, view.now());
        if next != *namespace {
            return Decision::act(Act::UpdateStatus("namespaces", next));
        }
        if !content.remaining.is_empty() {
            return Decision::none();
        }
        let kept: Vec<&Value> = finalizers(&namespace).filter(|known| *known != FINALIZER).collect();
        let kept = json!(kept);
        object::put(&mut next, &["spec", "finalizers"], kept);
        Decision::act(Act::Finalize(next))
    }
}

fn finalizers(namespace: &Value) -> impl Iterator<Item = &Value> {
    object::at(namespace, "/spec/finalizers").and_then(Value::as_array).into_iter().flatten()
}

fn is_kept(namespace: &Value) -> bool {
    object::is_terminating(namespace) && finalizers(namespace).any(|known| known == FINALIZER)
}

/// What is left in a namespace.
#[derive(Debug, Default)]
struct Content {
    /// How many of a resource.
    remaining: BTreeMap<String, usize>,
    /// How many have a finalizer.
    finalizers: BTreeMap<String, usize>,
    /// What has not been deleted yet, and can be now.
    deletable: Vec<(Key, Arc<Value>)>,
}

impl Content {
    /// Pods go first, so that nothing is taken from under them.
    fn of(namespace: &str, view: View<'_>) -> Self {
        let pods = Self::of_resources(namespace, ["pods".to_owned()], view);
        if !pods.remaining.is_empty() {
            return pods;
        }
        let resources: BTreeSet<String> = view
            .kinds()
            .all()
            .filter(|resource| resource.is_namespaced())
            .map(|resource| resource.qualified())
            .collect();
        Self::of_resources(namespace, resources, view)
    }

    fn of_resources(namespace: &str, resources: impl IntoIterator<Item = String>, view: View<'_>) -> Self {
        let mut content = Self::default();
        for resource in resources {
            let keys: Vec<Key> = view.keys(&resource, Some(namespace)).cloned().collect();
            for key in keys {
                let Some(object) = view.get(&key) else { continue };
                // `pods.` for the core group: so it is told.
                let (plural, group) = resource.split_once('.').unwrap_or((&resource, ""));
                *content.remaining.entry(format!("{plural}.{group}")).or_default() += 1;
                for finalizer in object::finalizers(&object) {
                    *content.finalizers.entry(finalizer.to_owned()).or_default() += 1;
                }
                if !object::is_terminating(&object) {
                    content.deletable.push((key, object));
                }
            }
        }
        content
    }
}

/// Type, reason and message as long as all is well.
const CONDITIONS: [(&str, &str, &str); 5] = [
    ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    ("NamespaceContentRemaining", "ContentRemoved", "All content successfully removed"),
    ("NamespaceFinalizersRemaining", "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
];

fn update_conditions(namespace: &mut Value, content: &Content, now: Timestamp) {
    let listed = |counts: &BTreeMap<String, usize>, word: &str| {
        let mut words: Vec<String> =
            counts.iter().map(|(name, count)| format!("{name} {word} {count} resource instances")).collect();
        words.sort();
        words.join(", ")
    };
    let known: Vec<Value> =
        object::at(namespace, "/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut conditions = known.clone();
    for (kind, reason, message) in CONDITIONS {
        let (status, reason, message) = match kind {
            "NamespaceContentRemaining" if !content.remaining.is_empty() => {
                let remaining = listed(&content.remaining, "has");
                ("True", "SomeResourcesRemain", format!("Some resources are remaining: {remaining}"))
            }
            "NamespaceFinalizersRemaining" if !content.finalizers.is_empty() => {
                let remaining = listed(&content.finalizers, "in");
                let message = format!("Some content in the namespace has finalizers remaining: {remaining}");
                ("True", "SomeFinalizersRemain", message)
            }
            _ => ("False", reason, message.to_owned()),
        };
        let mut condition = json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": object::time(now),
        });
        match conditions.iter_mut().find(|known| known["type"] == kind) {
            None => conditions.push(condition),
            Some(known) => {
                if known["status"] == condition["status"] {
                    object::put(&mut condition, &["lastTransitionTime"], known["lastTransitionTime"].clone());
                }
                *known = condition;
            }
        }
    }
    object::put(namespace, &["status", "conditions"], json!(conditions));
}

#[cfg(test)]
mod tests;
