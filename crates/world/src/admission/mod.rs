//! The admission plugins that an API server has by default, as far as they change or refuse what is written here.
//!
//! Some change an object before it is checked, all may refuse it afterwards. They look at what is stored and at
//! nothing else. Webhooks come after those that change, and again after those that refuse.

mod accounts;
mod classes;
mod limits;
mod pods;
mod priority;
mod storage;

use crate::clock::Lots;
use crate::failure::Failure;
use crate::json::{Value, json};
use crate::object;
use crate::request::Place;
use crate::store::Store;

pub(crate) use accounts::lacks as lacks_account;
pub(crate) use pods::topology;

/// What is done to an object, as admission calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
}

impl Operation {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}

/// What is to be decided: a write, without its objects.
#[derive(Clone, Debug)]
pub(crate) struct Matter<'a> {
    pub(crate) place: &'a Place,
    pub(crate) operation: Operation,
    /// Group, version and kind of what is sent, where that is not the resource's own.
    pub(crate) kind: Option<[&'static str; 3]>,
    /// The options of the request, as an object.
    pub(crate) options: Value,
    pub(crate) dry_run: bool,
}

impl Matter<'_> {
    /// Whether it is about whole objects of a resource of the core group.
    fn is_about(&self, plural: &str) -> bool {
        self.is_of("", plural)
    }

    fn is_of(&self, group: &str, plural: &str) -> bool {
        let resource = &self.place.resource;
        self.place.subresource.is_none() && resource.group == group && resource.plural == plural
    }

    fn is_new(&self, plural: &str) -> bool {
        self.operation == Operation::Create && self.is_about(plural)
    }

    fn namespace(&self) -> &str {
        self.place.namespace.as_deref().unwrap_or_default()
    }

    /// An object that is yet to get its name is called by what it will begin with.
    pub(crate) fn refuse(&self, object: &Value, why: &str) -> Failure {
        let base = object::text(object, &["metadata", "generateName"]);
        let names = [self.place.name.as_deref().unwrap_or_default(), object::name(object), base, "Unknown"];
        let name = names.into_iter().find(|name| !name.is_empty()).unwrap_or_default();
        Failure::forbidden(&self.place.resource, name, why)
    }
}

/// Changes what is to be written, in the order of the plugins. Whether it has changed.
pub(crate) fn admit(
    store: &Store,
    lots: &mut Lots,
    matter: &Matter<'_>,
    old: Option<&Value>,
    object: &mut Value,
) -> Result<bool, Failure> {
    let is_new_ingress =
        matter.operation == Operation::Create && matter.is_of("networking.k8s.io", "ingresses");
    let is_concerned = matter.operation != Operation::Delete
        && ["pods", "nodes", "persistentvolumeclaims", "persistentvolumes"]
            .iter()
            .any(|plural| matter.is_about(plural));
    if !is_concerned && !is_new_ingress {
        return Ok(false);
    }
    let before = object.clone();
    if matter.is_new("pods") {
        limits::complete(store, matter, object);
        accounts::admit(store, lots, matter, object)?;
        priority::admit(store, matter, object)?;
        pods::tolerate(object);
        pods::runtime_class(store, matter, object)?;
        pods::topology(store, object);
    } else if matter.is_about("pods") {
        priority::keep(old, object);
        pods::tolerate(object);
        pods::topology(store, object);
    } else if matter.is_new("nodes") {
        pods::taint_node(object);
    } else if matter.is_new("persistentvolumeclaims") {
        classes::OF_CLAIMS.make(store, object);
        storage::protect(object, storage::OF_CLAIMS);
    } else if matter.is_new("persistentvolumes") {
        storage::protect(object, storage::OF_VOLUMES);
    } else if is_new_ingress {
        classes::OF_INGRESSES.make(store, object);
    }
    Ok(before != *object)
}

/// Refuses what must not be written.
pub(crate) fn check(
    store: &Store,
    matter: &Matter<'_>,
    old: Option<&Value>,
    object: &Value,
) -> Result<(), Failure> {
    if matter.is_new("pods") {
        limits::check_pod(store, matter, object)?;
        pods::check_overhead(store, matter, object)?;
    } else if matter.is_new("persistentvolumeclaims") {
        limits::check_claim(store, matter, object)?;
    } else if let (true, Some(old)) = (matter.is_about("persistentvolumeclaims"), old) {
        storage::check_growth(store, matter, old, object)?;
    } else if matter.place.resource.qualified() == priority::CLASSES {
        priority::check_class(store, matter, object)?;
    }
    Ok(())
}

/// Namespaces without which a cluster is none.
const IMMORTAL: [&str; 3] = ["default", "kube-public", "kube-system"];

/// Refuses what must not be deleted.
pub(crate) fn check_deletion(matter: &Matter<'_>, object: &Value) -> Result<(), Failure> {
    if matter.is_about("namespaces") && IMMORTAL.contains(&object::name(object)) {
        return Err(matter.refuse(object, "this namespace may not be deleted"));
    }
    Ok(())
}

/// The list at a field, which is there from then on.
fn list_mut<'a>(object: &'a mut Value, field: &str) -> Option<&'a mut Vec<Value>> {
    let list = object.as_object_mut()?.entry(field).or_insert_with(|| json!([]));
    if !list.is_array() {
        *list = json!([]);
    }
    list.as_array_mut()
}

/// The containers of a pod that start before the others, and the others.
fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    let of = |list: &str| pod["spec"][list].as_array().into_iter().flatten();
    of("containers").chain(of("initContainers"))
}

#[cfg(test)]
mod tests;
