//! Server-side apply, and the ownership of fields after any other write.

use std::sync::LazyLock;

use jiff::Timestamp;

use super::fields::{Element, FieldSet, path_text, to_go_json};
use super::json::drop_nulls;
use super::managed::{self, Managed, Manager, Operation, Owned};
use super::merge::{Comparison, complaints, fields_of, merged, without};
use super::shape::Shape;
use super::unforeseen;
use crate::failure::{Cause, CauseReason, Details, Failure, Reason};
use crate::json::{Value, json};
use crate::object;

/// Where kubectl keeps what it applied last without the server's help.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Fields that everybody writes and nobody owns.
static UNOWNED: LazyLock<FieldSet> = LazyLock::new(|| {
    FieldSet::of_names(&[
        &["apiVersion"],
        &["kind"],
        &["metadata"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "creationTimestamp"],
        &["metadata", "selfLink"],
        &["metadata", "uid"],
        &["metadata", "clusterName"],
        &["metadata", "generation"],
        &["metadata", "managedFields"],
        &["metadata", "resourceVersion"],
    ])
});

/// The object after `manager` applied `applied`, with its managedFields; without `live` it is created.
/// Defaults, and the reset of what the subresource cannot change, are left to the caller.
pub fn apply(
    live: Option<&Value>,
    applied: &Value,
    manager: &str,
    force: bool,
    subresource: Option<&str>,
    now: Timestamp,
    shape: &Shape,
) -> Result<Value, Failure> {
    check(applied, shape)?;
    let created = json!({ "apiVersion": shape.api_version, "kind": shape.kind });
    let mut managed = match live {
        None => Managed::default(),
        Some(live) => Managed::of(live)
            .ok_or_else(|| unforeseen("failed to decode managed fields: error decoding set".to_owned()))?,
    };
    if let (Some(live), true) = (live, managed.is_empty()) {
        let first = Manager::new("before-first-apply", Operation::Update, &shape.api_version, subresource);
        managed = Write::between(&created, live, subresource, shape).recorded(managed, &first, now, shape);
    }
    let live = live.map_or(created, without_managed_fields);
    let by = Applier {
        manager: Manager::new(manager, Operation::Apply, &shape.api_version, subresource),
        now,
        shape,
    };
    let ignored = shape.out_of_reach(subresource);
    let outcome = by.apply(&live, applied, managed.clone(), force, &ignored).or_else(|conflicts| {
        // kubectl may take over what it applied itself without the server's help.
        let allowed = if manager == "kubectl" { last_applied_fields(&live, shape) } else { None };
        let conflicts = match allowed {
            Some(allowed) => {
                conflicts.into_iter().filter(|conflict| !allowed.has_path(&conflict.path)).collect()
            }
            None => conflicts,
        };
        if conflicts.is_empty() { by.apply(&live, applied, managed, true, &ignored) } else { Err(conflicts) }
    });
    let (mut object, managed) = outcome.map_err(refused)?;
    if manager == "kubectl"
        && object["metadata"]["annotations"][LAST_APPLIED].as_str().is_some_and(|s| !s.is_empty())
    {
        object["metadata"]["annotations"][LAST_APPLIED] = json!(last_applied_text(applied));
    }
    managed.put_into(&mut object);
    Ok(object)
}

/// Brings the managedFields of `after` up to date with what a create, an update or a patch changed.
pub fn record_update(
    before: Option<&Value>,
    after: &mut Value,
    manager: &str,
    now: Timestamp,
    subresource: Option<&str>,
    shape: &Shape,
) {
    let empty = json!({ "apiVersion": shape.api_version, "kind": shape.kind });
    let live = before.unwrap_or(&empty);
    let write = Write::between(live, after, subresource, shape);
    let manager = Manager::new(manager, Operation::Update, &shape.api_version, subresource);
    if before.is_some() && managed::note_own(live, after, &manager, &write.changed, &write.removed, now) {
        return;
    }
    let managed = if subresource.is_none() && Managed::is_reset(after) {
        Managed::default()
    } else {
        // A client that does not know of managedFields must not delete them by leaving them out; one that
        // writes a subresource cannot set them.
        let given = if subresource.is_none() { Managed::of(after) } else { None };
        given.filter(|given| !given.is_empty()).or_else(|| Managed::of(live)).unwrap_or_default()
    };
    let managed = if managed.is_empty() && before.is_some() {
        // Nobody owned anything: the object is not tracked until it is applied.
        managed
    } else {
        let mut managed = write.recorded(managed, &manager, now, shape);
        managed.cap_updaters();
        managed
    };
    managed.put_into(after);
}

/// What a write other than an apply does to the fields of an object.
struct Write {
    /// What the writer answers for from then on.
    changed: FieldSet,
    removed: FieldSet,
}

impl Write {
    fn between(before: &Value, after: &Value, subresource: Option<&str>, shape: &Shape) -> Self {
        let comparison =
            Comparison::between_filled(before, after, shape.root()).without(&shape.out_of_reach(subresource));
        let (changed, removed) = comparison.changed_and_removed();
        Self { changed: changed.difference(&UNOWNED), removed }
    }

    fn recorded(self, mut managed: Managed, manager: &Manager, now: Timestamp, shape: &Shape) -> Managed {
        for owned in managed.entries.values_mut() {
            owned.fields.lose(&self.changed);
            owned.fields.lose(&self.removed);
        }
        if !self.changed.is_empty() {
            let before = managed.entries.remove(manager).map(|owned| owned.fields).unwrap_or_default();
            let fields = self.changed.union(before);
            let owned =
                Owned { fields, api_version: shape.api_version.clone(), time: Some(object::time(now)) };
            managed.entries.insert(manager.clone(), owned);
        }
        managed.drop_empty();
        managed
    }
}

fn without_managed_fields(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    object
}

fn check(applied: &Value, shape: &Shape) -> Result<(), Failure> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (api_version, kind) = (text(&applied["apiVersion"]), text(&applied["kind"]));
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let full_kind = format!("{group}/{version}, Kind={kind}");
    if api_version != shape.api_version || kind != shape.kind {
        return Err(Failure::bad_request(format!("invalid object type: {full_kind}")));
    }
    if !applied["metadata"]["managedFields"].is_null() {
        return Err(Failure::bad_request("metadata.managedFields must be nil"));
    }
    let said = match &complaints(applied, shape.root())[..] {
        [] => return Ok(()),
        [one] => one.clone(),
        several => format!("errors:\n  {}", several.join("\n  ")),
    };
    let metadata = &applied["metadata"];
    let name = format!("{}/{}", text(&metadata["namespace"]), text(&metadata["name"]));
    Err(unforeseen(format!("failed to create typed patch object ({name}; {full_kind}): {said}")))
}

struct Conflict {
    with: Manager,
    path: Vec<Element>,
}

struct Applier<'a> {
    manager: Manager,
    now: Timestamp,
    shape: &'a Shape,
}

impl Applier<'_> {
    fn apply(
        &self,
        live: &Value,
        applied: &Value,
        mut managed: Managed,
        force: bool,
        ignored: &FieldSet,
    ) -> Result<(Value, Managed), Vec<Conflict>> {
        let node = self.shape.root();
        let before = managed.entries.remove(&self.manager);
        let owned = Owned {
            fields: fields_of(applied, node).without(ignored),
            api_version: self.shape.api_version.clone(),
            time: before.as_ref().and_then(|owned| owned.time.clone()),
        };
        managed.entries.insert(self.manager.clone(), owned);

        let mut object = merged(live, applied, node);
        if let Some(before) = before {
            object = self.pruned(&object, &managed, &before.fields);
        }
        let (changed, removed) =
            Comparison::between(live, &object, node).without(ignored).changed_and_removed();
        let conflicts = self.conflicts(&managed, &changed);
        if !force && !conflicts.is_empty() {
            return Err(conflicts);
        }
        for (manager, owned) in &mut managed.entries {
            if *manager != self.manager {
                owned.fields.lose(&changed);
                owned.fields.lose(&removed);
            }
        }
        if let Some(owned) = managed.entries.get_mut(&self.manager) {
            owned.fields.lose(&UNOWNED);
            if object != *live {
                owned.time = Some(object::time(self.now));
            }
        }
        managed.drop_empty();
        if self.shape.is_built_in() {
            drop_nulls(&mut object);
        }
        Ok((object, managed))
    }

    /// Takes away what the manager applied before and no longer does, unless another owns it.
    fn pruned(&self, merged: &Value, managed: &Managed, last: &FieldSet) -> Value {
        let node = self.shape.root();
        let fields = |object: &Value| fields_of(object, node).with_named_parents(node);
        let last = last.with_named_parents(node);
        let all = fields(merged);
        let mut kept = fields(&without(merged, &last, node));
        for owned in managed.entries.values() {
            kept = kept.union(owned.fields.with_named_parents(node));
        }
        // Once more from the object: what is left of a list or map shows only there.
        let kept = fields(&without(merged, &all.clone().difference(&kept), node));
        without(merged, &all.difference(&kept).intersection(&last), node)
    }

    fn conflicts(&self, managed: &Managed, changed: &FieldSet) -> Vec<Conflict> {
        let others = managed.entries.iter().filter(|(manager, _)| **manager != self.manager);
        let conflicts = others.flat_map(|(manager, owned)| {
            let paths = owned.fields.intersection(changed).paths();
            paths.into_iter().map(|path| Conflict { with: manager.clone(), path })
        });
        conflicts.collect()
    }
}

/// The fields that kubectl applied without the server's help and that are still as it applied them.
fn last_applied_fields(live: &Value, shape: &Shape) -> Option<FieldSet> {
    let text = live["metadata"]["annotations"][LAST_APPLIED].as_str()?;
    let last: Value = serde_json::from_str(text).ok()?;
    if last["apiVersion"] != json!(shape.api_version) {
        return None;
    }
    let (changed, removed) = Comparison::between(&last, live, shape.root()).changed_and_removed();
    Some(fields_of(&last, shape.root()).difference(&changed).difference(&removed))
}

fn last_applied_text(applied: &Value) -> String {
    let mut applied = applied.clone();
    if let Some(annotations) = applied.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(LAST_APPLIED);
    }
    format!("{}\n", to_go_json(&applied))
}

fn refused(conflicts: Vec<Conflict>) -> Failure {
    let message = match &conflicts[..] {
        [one] => {
            format!("Apply failed with 1 conflict: conflict with {}: {}", one.with, path_text(&one.path))
        }
        several => {
            let mut lines = Vec::new();
            let mut last = None;
            for conflict in several {
                if last != Some(&conflict.with) {
                    lines.push(format!("conflicts with {}:", conflict.with));
                    last = Some(&conflict.with);
                }
                lines.push(format!("- {}", path_text(&conflict.path)));
            }
            format!("Apply failed with {} conflicts: {}", several.len(), lines.join("\n"))
        }
    };
    let causes = conflicts.into_iter().map(|conflict| Cause {
        reason: CauseReason::FieldManagerConflict,
        field: path_text(&conflict.path),
        message: format!("conflict with {}", conflict.with),
    });
    let details = Details { causes: causes.collect(), ..Details::default() };
    Failure { details: Box::new(details), ..Failure::new(Reason::Conflict, message) }
}

#[cfg(test)]
mod tests;
