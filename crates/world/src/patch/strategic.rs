//! Strategic merge patches: merge patches that know by which key a list's items are found, with directives.

use super::json::drop_nulls;
use super::shape::{Child, Merge, Node, Shape};
use super::{does_not_apply, go_kind, go_text, unforeseen};
use crate::failure::Failure;
use crate::json::{Map, Text, Value};

type Object = Map;

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList";
const ORDER_OF: &str = "$setElementOrder";

pub fn strategic_merge_patch(object: &Value, patch: &Value, shape: &Shape) -> Result<Value, Failure> {
    let patch = match patch {
        Value::Object(patch) => patch.clone(),
        Value::Null => Object::new(),
        _ => {
            return Err(Failure::bad_request(format!(
                "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                go_kind(patch)
            )));
        }
    };
    let object = object.as_object().cloned().unwrap_or_default();
    let mut merged = Value::Object(merge_objects(object, patch, shape.root())?);
    // The API server reads the result into its own types, which hold neither nulls nor directives.
    drop_nulls(&mut merged);
    drop_directives(&mut merged);
    Ok(merged)
}

fn merge_objects(mut object: Object, mut patch: Object, node: Node<'_>) -> Result<Object, Failure> {
    match patch.get(DIRECTIVE).and_then(Value::as_str) {
        Some("replace") => {
            patch.remove(DIRECTIVE);
            return Ok(patch);
        }
        Some("delete") => return Ok(Object::new()),
        _ if patch.contains_key(DIRECTIVE) => return Err(unknown_directive(&patch)),
        _ => {}
    }
    retain_keys(&mut object, &mut patch)?;
    merge_ordered_lists(&mut object, &mut patch, node)?;
    for (key, change) in patch {
        let (key, deletes) = match key.strip_prefix(DELETE_FROM) {
            None => (key, false),
            Some(rest) => {
                let list = rest.strip_prefix('/');
                let list =
                    list.ok_or_else(|| Failure::bad_request("invalid patch format of primitive list"))?;
                (list.into(), true)
            }
        };
        if change.is_null() {
            object.remove(&key);
            continue;
        }
        let child = node.child(&key);
        let merged = match (object.remove(&key), change) {
            (Some(Value::Object(old)), Value::Object(new)) if child.merge != Merge::Replace => {
                Some(Value::Object(merge_objects(old, new, child.node)?))
            }
            (Some(Value::Object(_)), new @ Value::Object(_)) => Some(new),
            (Some(Value::Array(old)), Value::Array(new)) => Some(Value::from(merge_list_field(
                old.into_iter().collect(),
                new.into_iter().collect(),
                &child,
                deletes,
            )?)),
            (old, _) if deletes => old,
            (_, new) => without_directives(new),
        };
        if let Some(merged) = merged {
            object.insert(key, merged);
        }
    }
    Ok(object)
}

fn unknown_directive(patch: &Object) -> Failure {
    let directive = patch.get(DIRECTIVE).map(go_text).unwrap_or_default();
    unforeseen(format!("unknown patch type: {directive} in map: {}", go_text(&Value::Object(patch.clone()))))
}

/// Leaves only the keys that the directive names, all of the patch's among them.
fn retain_keys(object: &mut Object, patch: &mut Object) -> Result<(), Failure> {
    let Some(retained) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let malformed = || Failure::bad_request("invalid patch format of retainKeys");
    let retained = retained.as_array().ok_or_else(malformed)?;
    let is_retained = |key: &str| retained.iter().any(|name| name.as_str() == Some(key));
    let exempt = |key: &str| key.starts_with(DELETE_FROM) || key.starts_with(ORDER_OF);
    if patch.iter().any(|(key, value)| !value.is_null() && !exempt(key) && !is_retained(key)) {
        return Err(malformed());
    }
    object.retain(|key, _| is_retained(key));
    Ok(())
}

/// Merges the lists whose order the patch gives, and takes them out of it.
fn merge_ordered_lists(object: &mut Object, patch: &mut Object, node: Node<'_>) -> Result<(), Failure> {
    let orders: Vec<Text> = patch.keys().filter(|key| key.starts_with(ORDER_OF)).cloned().collect();
    for directive in orders {
        let order = into_list(patch.remove(&directive).unwrap_or_default())?;
        let key = directive.strip_prefix(ORDER_OF).and_then(|rest| rest.strip_prefix('/'));
        let key = key.ok_or_else(|| Failure::bad_request("invalid patch format of setElementOrder list"))?;
        let child = node.child(key);
        let by = merge_key(child.merge);
        let old = object.get(key).cloned().map(into_list).transpose()?;
        let new = patch.get(key).cloned().map(into_list).transpose()?;
        check_order(new.as_deref().unwrap_or_default(), &order, by)?;
        let live = old.clone().unwrap_or_default();
        let merged = match (old, new) {
            (None, None) => continue,
            (Some(old), None) => old,
            (None, Some(new)) => match without_directives(Value::from(new)) {
                Some(Value::Array(new)) => new.into_iter().collect(),
                _ => continue,
            },
            (Some(old), Some(new)) => merge_list_field(old, new, &child, false)?,
        };
        patch.remove(key);
        object.insert(key, Value::from(in_order(merged, &order, &live, by)?));
    }
    Ok(())
}

fn into_list(value: Value) -> Result<Vec<Value>, Failure> {
    let kind = match value {
        Value::Array(items) => return Ok(items.into_iter().collect()),
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Object(_) => "map[string]interface {}",
    };
    Err(unforeseen(format!("expected a []interface {{}}, but received a {kind}")))
}

fn merge_key(merge: Merge) -> Option<&'static str> {
    match merge {
        Merge::By(key) => Some(key),
        Merge::Usual | Merge::Replace | Merge::Scalars => None,
    }
}

/// The items of the patch must be among those of the order, and in that order.
fn check_order(new: &[Value], order: &[Value], by: Option<&str>) -> Result<(), Failure> {
    if new.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut left = order.iter();
    for item in new.iter().filter(|item| by.is_none() || item.get(DIRECTIVE).is_none()) {
        let mut found = false;
        for ordered in left.by_ref() {
            if identity(item, by)? == identity(ordered, by)? {
                found = true;
                break;
            }
        }
        if !found {
            return Err(unforeseen(format!(
                "The order in patch list:\n{}\n doesn't match {ORDER_OF} list:\n{}\n",
                go_text(&Value::from(new.to_vec())),
                go_text(&Value::from(order.to_vec()))
            )));
        }
    }
    Ok(())
}

/// The value by which an item is found: that of its merge key, or itself.
fn identity<'a>(item: &'a Value, by: Option<&str>) -> Result<&'a Value, Failure> {
    let Some(by) = by else { return Ok(item) };
    let Value::Object(fields) = item else {
        return Err(unforeseen(format!(
            "expected a map[string]interface {{}}, but received a {}",
            go_kind(item)
        )));
    };
    fields.get(by).ok_or_else(|| no_merge_key(item, by))
}

fn no_merge_key(item: &Value, by: &str) -> Failure {
    unforeseen(format!("map: {} does not contain declared merge key: {by}", go_text(item)))
}

fn merge_list_field(
    old: Vec<Value>,
    new: Vec<Value>,
    child: &Child<'_>,
    deletes: bool,
) -> Result<Vec<Value>, Failure> {
    match child.merge {
        Merge::Usual | Merge::Replace if !deletes => Ok(new),
        _ => merge_lists(old, new, child.node, merge_key(child.merge), deletes),
    }
}

fn merge_lists(
    old: Vec<Value>,
    new: Vec<Value>,
    node: Node<'_>,
    by: Option<&str>,
    deletes: bool,
) -> Result<Vec<Value>, Failure> {
    let Some(first) = old.first().or(new.first()) else { return Ok(old) };
    if first.is_array() {
        return Err(does_not_apply());
    }
    if old.iter().chain(&new).any(|item| go_kind(item) != go_kind(first)) {
        let lists = Value::from(vec![Value::from(old), Value::from(new)]);
        return Err(unforeseen(format!("list element types are not identical: {}", go_text(&lists))));
    }
    if !first.is_object() {
        if deletes {
            return Ok(old.into_iter().filter(|item| !new.contains(item)).collect());
        }
        let mut merged = Vec::new();
        for item in old.iter().chain(&new) {
            if !merged.contains(item) {
                merged.push(item.clone());
            }
        }
        return in_order(merged, &new, &old, None);
    }
    let Some(by) = by else {
        return Err(unforeseen("cannot merge lists without merge key for struct".to_owned()));
    };
    let (old, new) = perform_item_directives(old, new, by)?;
    let mut merged = old.clone();
    for item in &new {
        let key = identity(item, Some(by))?;
        let found = merged.iter_mut().find(|existing| existing.get(by) == Some(key));
        match (found, item) {
            (Some(existing), Value::Object(change)) => {
                let before = existing.as_object().cloned().unwrap_or_default();
                *existing = Value::Object(merge_objects(before, change.clone(), node.items())?);
            }
            _ => merged.push(item.clone()),
        }
    }
    in_order(merged, &new, &old, Some(by))
}

/// `$patch: delete` takes the item out of the old list, `$patch: replace` anywhere drops the old list.
fn perform_item_directives(
    mut old: Vec<Value>,
    new: Vec<Value>,
    by: &str,
) -> Result<(Vec<Value>, Vec<Value>), Failure> {
    let mut plain = Vec::new();
    let mut replaces = false;
    for item in new {
        match item.get(DIRECTIVE).map(|directive| directive.as_str().unwrap_or_default()) {
            None => plain.push(item),
            Some("delete") => {
                let key = item.get(by).ok_or_else(|| no_merge_key(&item, by))?;
                old.retain(|existing| existing.get(by) != Some(key));
            }
            Some("replace") => replaces = true,
            Some("merge") => {
                return Err(unforeseen("merging lists cannot yet be specified in the patch".to_owned()));
            }
            Some(_) => return Err(unknown_directive(item.as_object().unwrap_or(&Object::new()))),
        }
    }
    Ok(if replaces { (plain, Vec::new()) } else { (old, plain) })
}

/// Items that the patch orders come in that order, the others in the live list's; an item of the live list
/// goes before the first of the patch that followed it there, and new items go first.
fn in_order(
    merged: Vec<Value>,
    order: &[Value],
    live: &[Value],
    by: Option<&str>,
) -> Result<Vec<Value>, Failure> {
    let place = |item: &Value, list: &[Value]| {
        let key = |item: &Value| by.map_or_else(|| Some(item.clone()), |by| item.get(by).cloned());
        let wanted = key(item);
        list.iter().position(|other| key(other) == wanted)
    };
    for item in merged.iter().chain(order).chain(live) {
        identity(item, by)?;
    }
    let (mut ordered, mut others): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|item| place(item, order).is_some());
    ordered.sort_by_key(|item| place(item, order));
    others.sort_by_key(|item| place(item, live));
    let mut out = Vec::new();
    let mut others = others.into_iter().peekable();
    for item in ordered {
        let limit = place(&item, live);
        while let Some(other) =
            others.next_if(|other| place(other, live).zip(limit).is_some_and(|(o, l)| o < l))
        {
            out.push(other);
        }
        out.push(item);
    }
    out.extend(others);
    Ok(out)
}

/// A value that the object does not have yet: without what only says how to merge.
fn without_directives(mut value: Value) -> Option<Value> {
    drop_nulls(&mut value);
    stripped(value)
}

fn stripped(value: Value) -> Option<Value> {
    match value {
        Value::Object(map) if map.contains_key(DIRECTIVE) => None,
        Value::Object(map) => {
            let kept = map.into_iter().filter_map(|(key, value)| Some((key, stripped(value)?)));
            Some(Value::Object(kept.collect()))
        }
        Value::Array(items) => Some(Value::Array(items.into_iter().filter_map(stripped).collect())),
        scalar => Some(scalar),
    }
}

fn drop_directives(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|key, _| {
                key != DIRECTIVE
                    && key != RETAIN_KEYS
                    && !key.starts_with("$deleteFromPrimitiveList/")
                    && !key.starts_with("$setElementOrder/")
            });
            map.values_mut().for_each(drop_directives);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_directives),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
