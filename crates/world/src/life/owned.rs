//! Who owns what: the objects of an owner, those that nobody owns, and how they come to each other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::{Decision, Report, Severity, View};
use crate::api::{Act, Propagation};
use crate::clock::Lots;
use crate::json::{Value, json};
use crate::names::generate_name;
use crate::object;
use crate::selector::LabelSelector;
use crate::store::{Change, Key};

/// Who the world's controllers are on record as writing: in a cluster they are one program.
pub(crate) const MANAGER: &str = "kube-controller-manager";

/// So many pods are made or deleted at one look; the rest follows at the next.
pub(crate) const BURST: usize = 500;

/// As the owner that sees to an object is named in it.
pub(crate) fn owner_reference(owner: &Value) -> Value {
    json!({
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": object::name(owner),
        "uid": object::uid(owner), "controller": true, "blockOwnerDeletion": true,
    })
}

pub(crate) fn key_of(resource: &str, object: &Value) -> Key {
    Key::new(resource, object::namespace(object), object::name(object))
}

/// The owners of a kind that saw or see to the object that changed.
pub(crate) fn owners_of(change: &Change, api_version: &str, kind: &str, resource: &str) -> Vec<Key> {
    let sides = [&change.before, &change.after];
    let owners: BTreeSet<Key> = sides
        .into_iter()
        .flatten()
        .filter_map(|object| object::controller(object))
        .filter(|owner| owner.kind == kind && owner.api_version == api_version)
        .map(|owner| Key::new(resource, change.key.namespace(), owner.name))
        .collect();
    owners.into_iter().collect()
}

/// What an owner selects by label.
pub(crate) fn selector(owner: &Value) -> LabelSelector {
    LabelSelector::from_value(&owner["spec"]["selector"]).unwrap_or(LabelSelector::Nothing)
}

/// What an owner has of what it selects: without what it might take up, or is to let go of.
pub(crate) fn held(resource: &str, owner: &Value, view: View<'_>) -> Vec<Arc<Value>> {
    let selector = selector(owner);
    let mut held = view.controlled(resource, owner);
    held.retain(|object| selector.matches(&object["metadata"]["labels"]));
    held
}

/// Who owns what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bond {
    /// Of the owners, as is their kind.
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) owners: &'static str,
    /// The resource of what they own.
    pub(crate) owned: &'static str,
}

/// The owners of a kind, as the controller that sees to them knows them.
#[derive(Debug)]
pub(crate) struct Owners {
    bond: Bond,
    orphans: Orphans,
    pace: Pace,
}

impl Owners {
    pub(crate) fn of(bond: Bond) -> Self {
        Self { bond, orphans: Orphans::of(bond.owned), pace: Pace::default() }
    }

    /// Who sees to the object that changed, and who did.
    pub(crate) fn of_changed(&self, change: &Change) -> Vec<Key> {
        owners_of(change, self.bond.api_version, self.bond.kind, self.bond.owners)
    }

    /// The same of an object that owners take up if nobody sees to it: also who might do so now.
    pub(crate) fn of_owned(&mut self, change: &Change, view: View<'_>) -> Vec<Key> {
        let mut owners = self.of_changed(change);
        if self.orphans.note(change) {
            owners.extend(Orphans::wanted_by(change, self.bond.owners, view));
        }
        owners
    }

    /// An owner to be seen to now; or what there is to do instead.
    pub(crate) fn look(&mut self, key: &Key, view: View<'_>) -> Result<Arc<Value>, Decision> {
        let Some(owner) = view.get(key) else {
            self.pace.forget(key);
            return Err(Decision::none());
        };
        match self.pace.hold(key, &owner, view) {
            Some(at) => Err(Decision::again(at)),
            None => Ok(owner),
        }
    }

    /// What the owner of these steps has: what it selects and owns or what nobody owns. It lets go of the rest.
    /// `belongs` says what beyond the labels an orphan must have.
    pub(crate) fn claim(&self, steps: &mut Steps<'_>, belongs: impl Fn(&Value) -> bool) -> Vec<Arc<Value>> {
        self.orphans.claim(steps, belongs)
    }

    /// Whether there is something in a namespace that one might take up.
    pub(crate) fn have_orphans_in(&self, namespace: &str) -> bool {
        self.orphans.are_in(namespace)
    }
}

/// The objects of a resource that nobody sees to: few, while those that somebody sees to are many.
#[derive(Debug)]
struct Orphans {
    resource: &'static str,
    keys: BTreeSet<Key>,
}

impl Orphans {
    fn of(resource: &'static str) -> Self {
        Self { resource, keys: BTreeSet::new() }
    }

    /// Takes note of a change; whether somebody might want the object now who did not before.
    fn note(&mut self, change: &Change) -> bool {
        if change.key.resource() != self.resource {
            return false;
        }
        let is_orphan = |object: &&Arc<Value>| object::controller(object).is_none();
        let Some(after) = change.after.as_ref().filter(is_orphan) else {
            self.keys.remove(&change.key);
            return false;
        };
        self.keys.insert(change.key.clone());
        let labels = |object: &Value| object::at(object, "/metadata/labels").cloned();
        let before = change.before.as_ref().filter(is_orphan);
        before.is_none_or(|before| labels(before) != labels(after))
    }

    /// The owners among those of a resource that select the object that changed.
    fn wanted_by(change: &Change, resource: &str, view: View<'_>) -> Vec<Key> {
        let Some(orphan) = &change.after else { return Vec::new() };
        let labels = &orphan["metadata"]["labels"];
        view.list(resource, Some(change.key.namespace()))
            .filter(|owner| selector(owner).matches(labels))
            .map(|owner| key_of(resource, &owner))
            .collect()
    }

    /// Whether there are any in a namespace.
    fn are_in(&self, namespace: &str) -> bool {
        let mut from = self.keys.range(Key::new(self.resource, namespace, "")..);
        from.next().is_some_and(|key| key.is_in(self.resource, Some(namespace)))
    }

    /// Those that an owner selects.
    fn selected(&self, owner: &Value, selector: &LabelSelector, view: View<'_>) -> Vec<Arc<Value>> {
        let first = Key::new(self.resource, object::namespace(owner), "");
        let all = self.keys.range(first..);
        all.take_while(|key| key.is_in(self.resource, Some(object::namespace(owner))))
            .filter_map(|key| view.get(key))
            .filter(|orphan| {
                selector.matches(&orphan["metadata"]["labels"]) && !object::is_terminating(orphan)
            })
            .collect()
    }

    fn claim(&self, steps: &mut Steps<'_>, belongs: impl Fn(&Value) -> bool) -> Vec<Arc<Value>> {
        let (owner, view) = (steps.owner.clone(), steps.view);
        let selector = selector(&owner);
        let (mut claimed, released): (Vec<_>, Vec<_>) = view
            .controlled(self.resource, &owner)
            .into_iter()
            .partition(|object| selector.matches(&object["metadata"]["labels"]) && belongs(object));
        if object::is_terminating(&owner) {
            return claimed;
        }
        for object in released.iter().filter(|object| !object::is_terminating(object)) {
            steps.act(Act::Update(self.resource, released_by(&owner, object)));
        }
        for orphan in self.selected(&owner, &selector, view) {
            if belongs(&orphan) {
                steps.act(Act::Update(self.resource, adopted_by(&owner, &orphan)));
                claimed.push(orphan);
            }
        }
        claimed
    }
}

fn released_by(owner: &Value, object: &Value) -> Value {
    let mut next = object.clone();
    let owners = object::at(object, "/metadata/ownerReferences").and_then(Value::as_array);
    let others: Vec<&Value> =
        owners.into_iter().flatten().filter(|other| other["uid"] != object::uid(owner)).collect();
    let others = if others.is_empty() { Value::Null } else { json!(others) };
    object::set(&mut next, "ownerReferences", others);
    next
}

fn adopted_by(owner: &Value, object: &Value) -> Value {
    let mut next = object.clone();
    let owners = object::at(object, "/metadata/ownerReferences").and_then(Value::as_array);
    let mut owners: Vec<Value> = owners.cloned().unwrap_or_default();
    owners.retain(|other| other["uid"] != object::uid(owner));
    owners.push(owner_reference(owner));
    object::set(&mut next, "ownerReferences", json!(owners));
    next
}

/// How often an owner is looked at. A look at one that has many takes long, and each of the many gives reason for one:
/// so the more there are, the longer the next look waits for others to come together.
#[derive(Debug, Default)]
struct Pace(BTreeMap<Key, Timestamp>);

impl Pace {
    /// Who has fewer is looked at whenever there is reason to.
    const FEW: usize = 100;

    /// Until when to wait, if not now.
    fn hold(&mut self, key: &Key, owner: &Value, view: View<'_>) -> Option<Timestamp> {
        let many = view.dependents(object::uid(owner)).count();
        if many < Self::FEW {
            self.0.remove(key);
            return None;
        }
        let wait = SignedDuration::from_millis(i64::try_from(many).unwrap_or(i64::MAX));
        let due = self.0.get(key).and_then(|last| last.checked_add(wait).ok());
        if due.is_some_and(|due| due > view.now()) {
            return due;
        }
        self.0.insert(key.clone(), view.now());
        None
    }

    fn forget(&mut self, key: &Key) {
        self.0.remove(key);
    }
}

/// What is done about one object.
#[derive(Debug)]
pub(crate) struct Steps<'a> {
    pub(crate) owner: Arc<Value>,
    pub(crate) view: View<'a>,
    /// Who tells of it.
    component: &'static str,
    /// As much of the owner as says which it is.
    about: Value,
    suffixes: Lots,
    taken: BTreeSet<String>,
    decision: Decision,
}

impl<'a> Steps<'a> {
    pub(crate) fn of(owner: Arc<Value>, component: &'static str, view: View<'a>) -> Self {
        // Names are drawn from what the owner is: another draw once anything has come of this one.
        let seed = format!("{}/{}", object::uid(&owner), object::revision(&owner));
        let suffixes = Lots::new(super::history::fnv(seed.as_bytes()));
        let about = json!({
            "apiVersion": owner["apiVersion"], "kind": owner["kind"], "metadata": {
                "name": object::name(&owner), "namespace": object::namespace(&owner),
                "uid": object::uid(&owner), "resourceVersion": object::revision(&owner),
            },
        });
        Self { owner, view, component, about, suffixes, taken: BTreeSet::new(), decision: Decision::none() }
    }

    pub(crate) fn act(&mut self, act: Act) {
        self.decision.acts.push(act);
    }

    pub(crate) fn tell(&mut self, severity: Severity, reason: &'static str, message: String) {
        let about = self.about.clone();
        self.decision.reports.push(Report { about, severity, reason, message, component: self.component });
    }

    /// To be looked at again then, if not before.
    pub(crate) fn look_again(&mut self, at: Option<Timestamp>) {
        self.decision.again = [self.decision.again, at].into_iter().flatten().min();
    }

    /// A name that no object of the resource has.
    fn fresh_name(&mut self, resource: &str, base: &str) -> String {
        loop {
            let name = generate_name(base, &self.suffixes.suffix());
            let key = Key::new(resource, object::namespace(&self.owner), &name);
            if self.view.get(&key).is_none() && self.taken.insert(name.clone()) {
                return name;
            }
        }
    }

    /// Makes a pod; it gets its name here, so that it can be told.
    pub(crate) fn create_pod(&mut self, mut pod: Value) {
        let base = object::text(&pod, &["metadata", "generateName"]).to_owned();
        let name = self.fresh_name("pods", &base);
        object::set(&mut pod, "name", json!(name));
        self.act(Act::Create("pods", pod));
        self.tell(Severity::Normal, "SuccessfulCreate", format!("Created pod: {name}"));
    }

    pub(crate) fn delete_pod(&mut self, pod: &Arc<Value>) {
        self.act(Act::delete("pods", pod));
        self.tell(Severity::Normal, "SuccessfulDelete", format!("Deleted pod: {}", object::name(pod)));
    }

    pub(crate) fn delete(&mut self, resource: &str, object: &Arc<Value>, propagation: Propagation) {
        self.act(Act::Delete {
            resource: resource.into(),
            object: object.clone(),
            grace_secs: None,
            propagation,
        });
    }

    pub(crate) fn set_status(&mut self, resource: &'static str, status: Value) {
        self.decision.acts.extend(status_of(resource, &self.owner, status));
    }

    pub(crate) fn done(self) -> Decision {
        self.decision
    }
}

/// Writes the status of an object, if it is not what it was.
pub(crate) fn status_of(resource: &'static str, object: &Value, status: Value) -> Option<Act> {
    if object["status"] == status {
        return None;
    }
    let mut next = object.clone();
    next["status"] = status;
    Some(Act::UpdateStatus(resource, next))
}

/// A count that is left out where there is nothing to count.
pub(crate) fn set_count(status: &mut Value, field: &str, count: usize) {
    let Some(fields) = status.as_object_mut() else { return };
    if count == 0 {
        fields.remove(field);
    } else {
        fields.insert(field, json!(count));
    }
}
