//! How important a pod is: by its class, or by the one that is meant for all.

use std::sync::Arc;

use super::{Matter, Operation};
use crate::failure::Failure;
use crate::json::{Value, json};
use crate::object;
use crate::store::{Key, Store};

pub(super) const CLASSES: &str = "priorityclasses.scheduling.k8s.io";

/// Of several that are meant for all, the least important counts.
fn default_class(store: &Store) -> Option<Arc<Value>> {
    let classes = store.list(CLASSES, None).map(|(_, class)| class);
    classes.filter(|class| class["globalDefault"] == true).min_by_key(|class| class["value"].as_i64())
}

pub(super) fn admit(store: &Store, matter: &Matter<'_>, pod: &mut Value) -> Result<(), Failure> {
    let name = object::text(pod, &["spec", "priorityClassName"]).to_owned();
    let class = if name.is_empty() {
        default_class(store)
    } else {
        let class = store.get(&Key::new(CLASSES, "", &name));
        if class.is_none() {
            let why = format!("no PriorityClass with name {name} was found");
            return Err(matter.refuse(pod, &why));
        }
        class
    };
    let value = class.as_ref().and_then(|class| class["value"].as_i64()).unwrap_or(0);
    let policy = match &class {
        Some(class) => object::text(class, &["preemptionPolicy"]).to_owned(),
        None => "PreemptLowerPriority".to_owned(),
    };
    if let Some(given) = pod["spec"]["priority"].as_i64().filter(|given| *given != value) {
        let why = format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller \
             computed {value} from the given PriorityClass name"
        );
        return Err(matter.refuse(pod, &why));
    }
    let given = object::text(pod, &["spec", "preemptionPolicy"]);
    if !policy.is_empty() && !given.is_empty() && given != policy {
        let why = format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission \
             controller computed {policy} from the given PriorityClass name"
        );
        return Err(matter.refuse(pod, &why));
    }
    if let Some(class) = &class {
        object::put(pod, &["spec", "priorityClassName"], json!(object::name(class)));
    }
    object::put(pod, &["spec", "priority"], json!(value));
    if !policy.is_empty() {
        object::put(pod, &["spec", "preemptionPolicy"], json!(policy));
    }
    Ok(())
}

/// Whoever updates a pod need not know how important it is.
pub(super) fn keep(old: Option<&Value>, pod: &mut Value) {
    for field in ["priority", "preemptionPolicy"] {
        let known = old.and_then(|old| old["spec"].get(field)).filter(|known| !known.is_null());
        if let (Some(known), true) = (known, pod["spec"].get(field).is_none_or(Value::is_null)) {
            object::put(pod, &["spec", field], known.clone());
        }
    }
}

/// Only one class is meant for all.
pub(super) fn check_class(store: &Store, matter: &Matter<'_>, class: &Value) -> Result<(), Failure> {
    let Some(known) = default_class(store).filter(|_| class["globalDefault"] == true) else { return Ok(()) };
    let name = object::name(&known);
    if matter.operation == Operation::Update && name == object::name(class) {
        return Ok(());
    }
    let why = format!("PriorityClass {name} is already marked as default. Only one default can exist");
    Err(matter.refuse(class, &why))
}
