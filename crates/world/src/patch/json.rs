//! JSON patches (RFC 6902) and merge patches (RFC 7396), with the leniences of the API server: a negative
//! index counts from the end, `replace` and `copy` forgive a missing key of an object, `test` takes a
//! missing key for null, and a merge patch drops nulls inside new lists.

use super::{does_not_apply, go_kind};
use crate::failure::{Failure, Reason};
use crate::json::{Map, Value};

const OPERATIONS_MAX: usize = 10_000;

pub fn json_patch(object: &Value, patch: &Value) -> Result<Value, Failure> {
    let operations = operations(patch)?;
    let mut object = object.clone();
    for operation in operations {
        perform(&mut object, operation).ok_or_else(does_not_apply)?;
    }
    Ok(object)
}

fn operations(patch: &Value) -> Result<Vec<&Map>, Failure> {
    let undecodable = |what: String| Failure::bad_request(format!("error decoding patch: json: {what}"));
    let operations = match patch {
        Value::Array(operations) => operations,
        Value::Null => return Ok(Vec::new()),
        _ => {
            let kind = go_kind(patch);
            return Err(undecodable(format!(
                "cannot unmarshal {kind} into Go value of type []handlers.jsonPatchOp"
            )));
        }
    };
    let mut out = Vec::new();
    for operation in operations {
        let Value::Object(fields) = operation else {
            let kind = go_kind(operation);
            return Err(undecodable(format!(
                "cannot unmarshal {kind} into Go value of type handlers.jsonPatchOp"
            )));
        };
        for name in ["op", "path", "from"] {
            match fields.get(name) {
                None | Some(Value::String(_) | Value::Null) => {}
                Some(other) => {
                    let kind = go_kind(other);
                    return Err(undecodable(format!(
                        "cannot unmarshal {kind} into Go struct field jsonPatchOp.{name} of type string"
                    )));
                }
            }
        }
        out.push(fields);
    }
    if out.len() > OPERATIONS_MAX {
        let message =
            format!("The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {}", out.len());
        return Err(Failure::new(Reason::RequestEntityTooLarge, message));
    }
    Ok(out)
}

/// None where it does not fit the object: the API server does not tell why.
fn perform(object: &mut Value, operation: &Map) -> Option<()> {
    let text = |name: &str| operation.get(name).and_then(Value::as_str);
    let value = || operation.get("value").cloned().unwrap_or_default();
    let path = text("path")?;
    match text("op")? {
        "add" => add(object, path, value()),
        "remove" => remove(object, path).map(|_| ()),
        "replace" => replace(object, path, value()),
        "move" => {
            let moved = remove(object, text("from")?)?;
            add(object, path, moved)
        }
        "copy" => {
            let copied = get(object, text("from")?)?.clone();
            add(object, path, copied)
        }
        "test" => {
            let found = if path.is_empty() { &*object } else { get(object, path)? };
            super::fields::same(found, &value()).then_some(())
        }
        _ => None,
    }
}

fn unescaped(part: &str) -> String {
    part.replace("~1", "/").replace("~0", "~")
}

/// What holds the last part of the path, and that part.
fn find<'a>(object: &'a Value, path: &str) -> Option<(&'a Value, String)> {
    let mut parts = path.split('/').skip(1).peekable();
    let mut at = object;
    loop {
        let part = unescaped(parts.next()?);
        if parts.peek().is_none() {
            return matches!(at, Value::Object(_) | Value::Array(_)).then_some((at, part));
        }
        at = match at {
            Value::Object(map) => map.get(&part)?,
            Value::Array(items) => items.get(index(&part, items.len())?)?,
            _ => return None,
        };
    }
}

fn find_mut<'a>(object: &'a mut Value, path: &str) -> Option<(&'a mut Value, String)> {
    let mut parts = path.split('/').skip(1).peekable();
    let mut at = object;
    loop {
        let part = unescaped(parts.next()?);
        if parts.peek().is_none() {
            return matches!(at, Value::Object(_) | Value::Array(_)).then_some((at, part));
        }
        at = match at {
            Value::Object(map) => map.get_mut(&part)?,
            Value::Array(items) => {
                let index = index(&part, items.len())?;
                items.get_mut(index)?
            }
            _ => return None,
        };
    }
}

/// May be out of bounds at the far end.
fn index(part: &str, len: usize) -> Option<usize> {
    let index: i64 = part.parse().ok()?;
    if index >= 0 {
        usize::try_from(index).ok()
    } else {
        len.checked_sub(usize::try_from(index.unsigned_abs()).ok()?)
    }
}

/// None where there is no such place; null where the object there has no such key.
fn get<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    match find(object, path)? {
        (Value::Object(map), key) => Some(map.get(&key).unwrap_or(&Value::Null)),
        (Value::Array(items), key) => items.get(index(&key, items.len())?),
        _ => None,
    }
}

fn add(object: &mut Value, path: &str, value: Value) -> Option<()> {
    match find_mut(object, path)? {
        (Value::Object(map), key) => {
            map.insert(key, value);
        }
        (Value::Array(items), key) if key == "-" => items.push(value),
        (Value::Array(items), key) => {
            // A negative index counts from behind the new item.
            let index = index(&key, items.len() + 1).filter(|index| *index <= items.len())?;
            items.insert(index, value);
        }
        _ => return None,
    }
    Some(())
}

fn remove(object: &mut Value, path: &str) -> Option<Value> {
    match find_mut(object, path)? {
        (Value::Object(map), key) => map.remove(&key),
        (Value::Array(items), key) => {
            let index = index(&key, items.len()).filter(|index| *index < items.len())?;
            Some(items.remove(index))
        }
        _ => None,
    }
}

fn replace(object: &mut Value, path: &str, value: Value) -> Option<()> {
    if path.is_empty() {
        if !matches!(value, Value::Object(_) | Value::Array(_)) {
            return None;
        }
        *object = value;
        return Some(());
    }
    match find_mut(object, path)? {
        (Value::Object(map), key) => {
            map.insert(key, value);
        }
        (Value::Array(items), key) => {
            let index = index(&key, items.len())?;
            *items.get_mut(index)? = value;
        }
        _ => return None,
    }
    Some(())
}

pub fn merge_patch(object: &Value, patch: &Value) -> Result<Value, Failure> {
    match patch {
        Value::Object(patch) => {
            let mut object = object.clone();
            if let Value::Object(object) = &mut object {
                merge(object, patch);
            }
            Ok(object)
        }
        Value::Null => Err(Failure::bad_request("Invalid JSON Patch")),
        _ => Err(Failure::bad_request(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            go_kind(patch)
        ))),
    }
}

fn merge(object: &mut Map, patch: &Map) {
    for (key, change) in patch {
        match (object.get_mut(key), change) {
            (_, Value::Null) => {
                object.remove(key);
            }
            (Some(Value::Object(object)), Value::Object(change)) => merge(object, change),
            // What replaces an object is taken as it is.
            (Some(Value::Object(_)), change) => {
                object.insert(key.clone(), change.clone());
            }
            (_, change) => {
                let mut change = change.clone();
                drop_nulls(&mut change);
                object.insert(key.clone(), change);
            }
        }
    }
}

/// Not the nulls that are items of a list.
pub(super) fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    const REFUSED: &str = "the server rejected our request due to an error in our request";

    fn said(result: Result<Value, Failure>) -> Value {
        result.unwrap_or_else(|failure| json!(format!("{} {failure}", failure.code())))
    }

    #[test]
    fn json_patches() {
        let object = json!({ "a": { "b": 1, "x/y": 2, "t~": 3 }, "l": ["p", "q"] });
        let undecodable =
            |what: &str| json!(format!("400 error decoding patch: json: cannot unmarshal {what}"));
        let refused = json!(format!("422 {REFUSED}"));
        let with = |pointer: &str, value: Value| {
            let mut object = object.clone();
            *object.pointer_mut(pointer).expect("pointer") = value;
            object
        };
        for (patch, expected) in [
            (json!([]), object.clone()),
            (json!([{ "op": "add", "path": "/a/b", "value": 5 }]), with("/a/b", json!(5))),
            (json!([{ "op": "add", "path": "/l/-", "value": "r" }]), with("/l", json!(["p", "q", "r"]))),
            (json!([{ "op": "add", "path": "/l/0", "value": "r" }]), with("/l", json!(["r", "p", "q"]))),
            (json!([{ "op": "add", "path": "/l/2", "value": "r" }]), with("/l", json!(["p", "q", "r"]))),
            (json!([{ "op": "add", "path": "/l/-1", "value": "r" }]), with("/l", json!(["p", "q", "r"]))),
            (json!([{ "op": "add", "path": "/l/3", "value": "r" }]), refused.clone()),
            (json!([{ "op": "add", "path": "/l/x", "value": "r" }]), refused.clone()),
            (json!([{ "op": "add", "path": "/z/y", "value": 1 }]), refused.clone()),
            (json!([{ "op": "add", "path": "/a/b/c", "value": 1 }]), refused.clone()),
            (json!([{ "op": "replace", "path": "/a/x~1y", "value": 5 }]), with("/a/x~1y", json!(5))),
            (json!([{ "op": "replace", "path": "/a/t~0", "value": 5 }]), with("/a/t~0", json!(5))),
            (json!([{ "op": "replace", "path": "/l/-1", "value": 5 }]), with("/l/1", json!(5))),
            (json!([{ "op": "replace", "path": "/l/2", "value": 5 }]), refused.clone()),
            (json!([{ "op": "replace", "path": "", "value": { "n": 1 } }]), json!({ "n": 1 })),
            (
                json!([{ "op": "replace", "path": "/n", "value": 5 }, { "op": "remove", "path": "/a" }]),
                json!({ "n": 5, "l": ["p", "q"] }),
            ),
            (json!([{ "op": "remove", "path": "/l/0" }]), with("/l", json!(["q"]))),
            (json!([{ "op": "remove", "path": "/n" }]), refused.clone()),
            (json!([{ "op": "remove", "path": "" }]), refused.clone()),
            (
                json!([{ "op": "move", "from": "/a", "path": "/m" }, { "op": "remove", "path": "/l" }]),
                json!({
                    "m": { "b": 1, "x/y": 2, "t~": 3 }
                }),
            ),
            (json!([{ "op": "move", "from": "/n", "path": "/m" }]), refused.clone()),
            (json!([{ "op": "copy", "from": "/a/b", "path": "/l/0" }]), with("/l", json!([1, "p", "q"]))),
            (json!([{ "op": "test", "path": "/a/b", "value": 1 }]), object.clone()),
            (json!([{ "op": "test", "path": "/a/n", "value": null }]), object.clone()),
            (json!([{ "op": "test", "path": "/a/b", "value": 2 }]), refused.clone()),
            (json!([{ "op": "test", "path": "/n/b", "value": null }]), refused.clone()),
            (json!([{ "op": "spoil", "path": "/a" }]), refused.clone()),
            (json!([{ "path": "/a" }]), refused.clone()),
            (json!([{ "op": "remove" }]), refused.clone()),
            (json!({}), undecodable("object into Go value of type []handlers.jsonPatchOp")),
            (json!(["x"]), undecodable("string into Go value of type handlers.jsonPatchOp")),
            (json!([{ "op": 1 }]), undecodable("number into Go struct field jsonPatchOp.op of type string")),
        ] {
            assert_eq!(said(json_patch(&object, &patch)), expected, "{patch}");
        }
        let many = Value::from(vec![json!({ "op": "test", "path": "/n", "value": null }); 10_001]);
        let failure = json_patch(&object, &many).expect_err("too many");
        assert_eq!(
            (failure.code(), &*failure.message),
            (413, "The allowed maximum operations in a JSON patch is 10000, got 10001")
        );
    }

    #[test]
    fn merge_patches() {
        let object = json!({ "a": { "b": 1, "c": [1, 2] }, "d": "x" });
        for (patch, expected) in [
            (json!({}), object.clone()),
            (json!({ "a": null, "n": null }), json!({ "d": "x" })),
            (json!({ "a": { "b": null } }), json!({ "a": { "c": [1, 2] }, "d": "x" })),
            (json!({ "a": { "c": [3] } }), json!({ "a": { "b": 1, "c": [3] }, "d": "x" })),
            (json!({ "a": 5 }), json!({ "a": 5, "d": "x" })),
            (json!({ "d": { "e": null, "f": 1 } }), json!({ "a": { "b": 1, "c": [1, 2] }, "d": { "f": 1 } })),
            (json!({ "a": null, "d": [{ "e": null }, null] }), json!({ "d": [{}, null] })),
            (json!(null), json!("400 Invalid JSON Patch")),
            (
                json!([]),
                json!(
                    "400 error decoding patch: json: cannot unmarshal array into Go value of type \
                     map[string]interface {}"
                ),
            ),
        ] {
            assert_eq!(said(merge_patch(&object, &patch)), expected, "{patch}");
        }
    }
}
