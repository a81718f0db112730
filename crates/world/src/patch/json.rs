//! JSON patches (RFC 6902) and merge patches (RFC 7396), with the leniences of the API server: a negative
//! index counts from the end, `replace` and `copy` forgive a missing key of an object, `test` takes a
//! missing key for null, and a merge patch drops nulls inside new lists.

use super::{does_not_apply, go_kind};
use crate::body::DEPTH_MAX;
use crate::failure::{Failure, Reason};
use crate::json::{Map, Value};
use crate::names::quoted;

const OPERATIONS_MAX: usize = 10_000;

/// What the copies of one patch may add up to, as JSON: what copies itself doubles each time.
const COPIED_BYTES_MAX: usize = 3 << 20;

pub fn json_patch(object: &Value, patch: &Value) -> Result<Value, Failure> {
    let operations = operations(patch)?;
    // To clients the API server does not tell why.
    performed(object, operations).map_err(|_| does_not_apply())
}

/// A patch of a webhook's, with why it does not fit the object.
pub fn json_patch_of_webhook(object: &Value, patch: &Value) -> Result<Value, String> {
    // One that is null says nothing at all, not even what it is.
    let said_nothing = Map::default();
    let operations = patch.as_array().into_iter().flatten();
    performed(object, operations.map(|operation| operation.as_object().unwrap_or(&said_nothing)))
}

fn performed<'a>(object: &Value, operations: impl IntoIterator<Item = &'a Map>) -> Result<Value, String> {
    let (mut object, mut copied_bytes) = (object.clone(), 0);
    for operation in operations {
        perform(&mut object, operation, &mut copied_bytes)?;
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

/// Why a place cannot be had, or not so.
enum Misfit {
    Place,
    Key(String),
}

/// The words are those of the library that the API server patches with.
fn perform(object: &mut Value, operation: &Map, copied_bytes: &mut usize) -> Result<(), String> {
    let text = |name: &str| operation.get(name).and_then(Value::as_str);
    let value = || operation.get("value").cloned().unwrap_or_default();
    let kind = text("op").unwrap_or("unknown");
    let place = |field: &str| match operation.get(field) {
        Some(Value::String(path)) => Ok(path.to_string()),
        None | Some(Value::Null) => Err(format!("{kind} operation failed to decode {field}: missing value")),
        Some(other) => Err(format!(
            "{kind} operation failed to decode {field}: json: cannot unmarshal {} into Go value of type string",
            go_kind(other)
        )),
    };
    let nowhere =
        |what: &str, at: &str| format!("{kind} operation does not apply: {what}: {at}: missing value");
    let told = |misfit: Misfit, what: &str, at: &str| match misfit {
        Misfit::Place => nowhere(what, at),
        Misfit::Key(why) => format!("error in {kind} for path: '{at}': {why}"),
    };
    match kind {
        "add" => {
            let path = &place("path")?;
            let shown = format!("\"{path}\"");
            check_depth(path, &value())?;
            add(object, path, value()).map_err(|misfit| match misfit {
                Misfit::Place => nowhere("doc is missing path", &shown),
                key @ Misfit::Key(_) => told(key, "", path),
            })
        }
        "remove" => {
            let path = &place("path")?;
            let shown = format!("\"{path}\"");
            remove(object, path).map(drop).map_err(|misfit| match misfit {
                Misfit::Place => nowhere("doc is missing path", &shown),
                key @ Misfit::Key(_) => told(key, "", path),
            })
        }
        "replace" => {
            let path = &place("path")?;
            check_depth(path, &value())?;
            replace(object, path, value()).map_err(|misfit| match misfit {
                Misfit::Place => nowhere("doc is missing path", path),
                Misfit::Key(_) => nowhere("doc is missing key", path),
            })
        }
        "move" => {
            let from = &place("from")?;
            let key = from.rsplit('/').next().map(unescaped).unwrap_or_default();
            let moved = remove(object, from).map_err(|misfit| match misfit {
                Misfit::Place => nowhere("doc is missing from path", from),
                misfit @ Misfit::Key(_) => told(misfit, "", &key),
            })?;
            let path = &place("path")?;
            check_depth(path, &moved)?;
            add(object, path, moved).map_err(|misfit| told(misfit, "doc is missing destination path", path))
        }
        "copy" => {
            let from = &place("from")?;
            let copied = get(object, from).cloned().map_err(|misfit| match misfit {
                Misfit::Place => nowhere("doc is missing from path", from),
                Misfit::Key(why) => format!("error in copy for from: '{from}': {why}"),
            })?;
            let path = &place("path")?;
            *copied_bytes += copied.to_string().len();
            if *copied_bytes > COPIED_BYTES_MAX {
                return Err(format!(
                    "Unable to complete the copy, the accumulated size increase of copy is {copied_bytes}, exceeding \
                     the limit {COPIED_BYTES_MAX}"
                ));
            }
            check_depth(path, &copied)?;
            add(object, path, copied).map_err(|misfit| match misfit {
                Misfit::Place => nowhere("doc is missing destination path", path),
                Misfit::Key(why) => format!("error while adding value during copy: {why}"),
            })
        }
        "test" => {
            let path = &place("path")?;
            let found = if path.is_empty() { Ok(&*object) } else { get(object, path) };
            let found = found.map_err(|misfit| told(misfit, "is missing path", path))?;
            if super::fields::same(found, &value()) {
                return Ok(());
            }
            Err(format!("testing value {path} failed: test failed"))
        }
        other => Err(format!("Unexpected kind: {other}")),
    }
}

/// That a value may be put in a place: a patch can make of two objects one that is as deep as both together, and of
/// that one a deeper one still. Looked at before it is there, since what is too deep cannot even be thrown away.
fn check_depth(path: &str, value: &Value) -> Result<(), String> {
    let left = DEPTH_MAX.checked_sub(path.matches('/').count());
    let fits = left.is_some_and(|left| !is_deeper(value, left));
    if fits { Ok(()) } else { Err("exceeded max depth".to_owned()) }
}

/// Whether there is anything more than so many levels below a value.
fn is_deeper(value: &Value, levels: usize) -> bool {
    let is_beyond = |inner: &Value| levels.checked_sub(1).is_none_or(|levels| is_deeper(inner, levels));
    match value {
        Value::Object(fields) => fields.values().any(is_beyond),
        Value::Array(items) => items.iter().any(is_beyond),
        _ => false,
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
            Value::Array(items) => items.get(index(&part, items.len()).ok()?)?,
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
                let index = index(&part, items.len()).ok()?;
                items.get_mut(index)?
            }
            _ => return None,
        };
    }
}

/// A place among so many, counted from the end if it is negative.
fn index(part: &str, len: usize) -> Result<usize, String> {
    let index: i64 =
        part.parse().map_err(|_| format!("strconv.Atoi: parsing {}: invalid syntax", quoted(part)))?;
    let at = match usize::try_from(index) {
        Ok(at) => Some(at),
        Err(_) => usize::try_from(index.unsigned_abs()).ok().and_then(|back| len.checked_sub(back)),
    };
    let is_there = |at: &usize| *at < len;
    at.filter(is_there)
        .ok_or_else(|| format!("Unable to access invalid index: {index}: invalid index referenced"))
}

/// Null where the object there has no such key.
fn get<'a>(object: &'a Value, path: &str) -> Result<&'a Value, Misfit> {
    match find(object, path).ok_or(Misfit::Place)? {
        (Value::Object(map), key) => Ok(map.get(&key).unwrap_or(&Value::Null)),
        (Value::Array(items), key) => {
            let index = index(&key, items.len()).map_err(Misfit::Key)?;
            items.get(index).ok_or(Misfit::Place)
        }
        _ => Err(Misfit::Place),
    }
}

fn add(object: &mut Value, path: &str, value: Value) -> Result<(), Misfit> {
    match find_mut(object, path).ok_or(Misfit::Place)? {
        (Value::Object(map), key) => {
            map.insert(key, value);
        }
        (Value::Array(items), key) if key == "-" => items.push(value),
        (Value::Array(items), key) => {
            // A negative index counts from behind the new item.
            let index = index(&key, items.len() + 1).map_err(|why| {
                let is_number = key.parse::<i64>().is_ok();
                let improper = || format!("value was not a proper array index: '{key}': {why}");
                Misfit::Key(if is_number { why.clone() } else { improper() })
            })?;
            items.insert(index, value);
        }
        _ => return Err(Misfit::Place),
    }
    Ok(())
}

fn remove(object: &mut Value, path: &str) -> Result<Value, Misfit> {
    match find_mut(object, path).ok_or(Misfit::Place)? {
        (Value::Object(map), key) => map
            .remove(&key)
            .ok_or_else(|| Misfit::Key(format!("Unable to remove nonexistent key: {key}: missing value"))),
        (Value::Array(items), key) => {
            let index = index(&key, items.len()).map_err(Misfit::Key)?;
            Ok(items.remove(index))
        }
        _ => Err(Misfit::Place),
    }
}

fn replace(object: &mut Value, path: &str, value: Value) -> Result<(), Misfit> {
    if path.is_empty() {
        if !matches!(value, Value::Object(_) | Value::Array(_)) {
            return Err(Misfit::Place);
        }
        *object = value;
        return Ok(());
    }
    match find_mut(object, path).ok_or(Misfit::Place)? {
        (Value::Object(map), key) => {
            map.insert(key, value);
        }
        (Value::Array(items), key) => {
            let index = index(&key, items.len()).map_err(Misfit::Key)?;
            if let Some(item) = items.get_mut(index) {
                *item = value;
            }
        }
        _ => return Err(Misfit::Place),
    }
    Ok(())
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

    fn copies(of: &str, to: &[&str]) -> Value {
        to.iter().map(|to| json!({ "op": "copy", "from": of, "path": to })).collect()
    }

    /// Ever deeper: an object in the one that was put there last.
    fn nested(levels: usize, innermost: &Value) -> Value {
        let mut adds: Vec<Value> = (1..levels)
            .map(|level| json!({ "op": "add", "path": "/a".repeat(level), "value": {} }))
            .collect();
        adds.push(json!({ "op": "add", "path": "/a".repeat(levels), "value": innermost }));
        adds.into()
    }

    #[test]
    fn patches_do_not_make_objects_of_any_size_and_depth() {
        // A million bytes and so many quotes that three of it are as much as may be.
        let text = "x".repeat((1 << 20) - 2);
        let object = json!({ "t": text, "l": ["p"], "d": {} });
        let mut deep = json!({});
        for _ in 0..DEPTH_MAX - 2 {
            deep = json!({ "a": deep });
        }
        let of_copies = "Unable to complete the copy, the accumulated size increase of copy is";
        let of_depth = "exceeded max depth";
        for (patch, refused) in [
            (copies("/t", &["/u", "/v", "/w"]), None),
            (copies("/t", &["/u", "/v", "/w", "/x"]), Some(of_copies)),
            // Each time as much again: nobody has room for the last of these.
            (copies("/l", &["/l/-"; 60]), Some(of_copies)),
            (copies("/d", &["/d/a"; 100]), None),
            (copies("/d", &["/d/a"; 300]), Some(of_depth)),
            (nested(DEPTH_MAX, &json!({})), None),
            (nested(DEPTH_MAX, &json!({ "b": 1 })), Some(of_depth)),
            (nested(DEPTH_MAX + 1, &json!({})), Some(of_depth)),
            (json!([{ "op": "add", "path": "/n", "value": deep }]), None),
            (json!([{ "op": "replace", "path": "/d", "value": deep }]), None),
            (json!([{ "op": "replace", "path": "/d", "value": { "a": { "a": deep } } }]), Some(of_depth)),
            (
                json!([
                    { "op": "add", "path": "/n", "value": deep },
                    { "op": "add", "path": "/d/e", "value": {} },
                    { "op": "move", "from": "/n", "path": "/d/e/n" },
                ]),
                Some(of_depth),
            ),
        ] {
            let said = json_patch_of_webhook(&object, &patch).err();
            let as_expected = match (&said, refused) {
                (Some(said), Some(refused)) => said.starts_with(refused),
                (None, None) => true,
                _ => false,
            };
            let operations = patch.as_array().unwrap();
            assert!(
                as_expected,
                "{said:?}, not {refused:?}: {} of {}",
                operations.len(),
                operations[0]["op"]
            );
            let failure = json_patch(&object, &patch).err().map(|failure| (failure.code(), failure.message));
            assert_eq!(failure, refused.map(|_| (422, REFUSED.to_owned())));
        }
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
