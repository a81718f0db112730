//! Which object a request means, as what it sends says it: by name, namespace, uid and version.

use crate::failure::{Failure, Reason};
use crate::json::{Value, json};
use crate::kinds::Resource;
use crate::object;
use crate::request::{Place, Query};
use crate::store::Key;
use crate::strategy;

/// A version is a number.
pub(super) fn check_revision(object: &Value) -> Result<(), Failure> {
    let given = object::revision(object);
    if given.is_empty() || given.parse::<u64>().is_ok() {
        return Ok(());
    }
    Err(Failure::new(Reason::Unknown, format!("strconv.ParseUint: parsing {given:?}: invalid syntax")))
}

/// Whoever names a uid means that object and no other of its name.
pub(super) fn check_uid(
    resource: &Resource,
    query: &Query,
    key: &Key,
    new: &Value,
    old: &Value,
) -> Result<(), Failure> {
    let (uid, old_uid) = (object::uid(new), object::uid(old));
    if uid.is_empty() || uid == old_uid {
        return Ok(());
    }
    let place = match key.namespace() {
        "" => format!("{}/{}", strategy::directory(resource), key.name()),
        namespace => format!("{}/{namespace}/{}", strategy::directory(resource), key.name()),
    };
    // What only tries the store does not get as far as to where all keys begin.
    let root = if query.is_dry_run() { "" } else { "/registry" };
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {root}/{place}, ResourceVersion: 0, AdditionalErrorMsg: \
         Precondition failed: UID in precondition: {uid}, UID in object meta: {old_uid}"
    );
    Err(Failure::conflict(resource, key.name(), &why))
}

pub(super) fn expect_name(place: &Place, object: &Value) -> Result<(), Failure> {
    let (named, asked) = (object::name(object), place.name.as_deref().unwrap_or_default());
    if named == asked {
        return Ok(());
    }
    if named.is_empty() {
        return Err(Failure::bad_request(format!(
            "the name of the object ({asked} based on URL) was undeterminable: name must be provided"
        )));
    }
    Err(Failure::bad_request(format!(
        "the name of the object ({named}) does not match the name on the URL ({asked})"
    )))
}

/// Nothing that is not there has a uid.
pub(super) fn expect_no_uid(place: &Place, object: &Value) -> Result<(), Failure> {
    let (uid, name) = (object::uid(object), place.name.as_deref().unwrap_or_default());
    if uid.is_empty() {
        return Ok(());
    }
    let why =
        format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
    Err(Failure::conflict(&place.resource, name, &why))
}

pub(super) fn expect_namespace(place: &Place, object: &mut Value) -> Result<(), Failure> {
    let named = object::namespace(object);
    match &place.namespace {
        Some(namespace) if named.is_empty() => object::set(object, "namespace", json!(namespace)),
        Some(namespace) if named != namespace => {
            return Err(Failure::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        None if !named.is_empty() && !place.resource.is_namespaced() => {
            object::set(object, "namespace", Value::Null);
        }
        _ => {}
    }
    Ok(())
}
