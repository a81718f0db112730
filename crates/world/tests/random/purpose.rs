//! Where the world differs on purpose, and why.

use serde_json::Value;

use crate::asking::Said;

/// Why these two answers may differ, if they may.
pub(crate) fn why(kubernetes: &Said, world: &Said) -> Option<&'static str> {
    let both =
        |text: &str| [kubernetes, world].iter().all(|said| said.iter().any(|line| line.contains(text)));
    if both("pod updates may not change fields other than") {
        return Some("the world does not tell how structures of the server's own differ");
    }
    if both("`selector` does not match template `labels`") {
        return Some("labels that are empty are to the world as if they were not there");
    }
    if without_order(kubernetes) == without_order(world) {
        return Some("the server goes through maps, and the properties of custom resources, in no order");
    }
    if both("failed to create typed patch object") && both("field not declared in schema") {
        return Some("the server goes through fields in no order, and no further once one is not declared");
    }
    if both("failed to create typed patch object") && complaints(kubernetes) == complaints(world) {
        return Some("the server goes through fields in no order");
    }
    None
}

/// The lines of messages, in the order of their words.
fn complaints(said: &Said) -> Vec<Vec<&str>> {
    let lines = said.iter().map(|line| {
        let mut complaints: Vec<&str> = line.split('"').flat_map(|part| part.split("\\n")).collect();
        complaints.sort_unstable();
        complaints
    });
    lines.collect()
}

/// With what is wrong with entries of one map, or with a custom resource, in the order of names. The message says the
/// same once more.
fn without_order(said: &Said) -> Vec<String> {
    let lines = said.iter().map(|line| {
        let Some(mut status) =
            line.strip_prefix("422 ").and_then(|text| serde_json::from_str::<Value>(text).ok())
        else {
            return line.clone();
        };
        let is_custom = status["details"]["group"] == "random.example.com";
        if let Some(causes) = status.pointer_mut("/details/causes").and_then(Value::as_array_mut) {
            for of_one in causes.chunk_by_mut(|a, b| map_of(a, is_custom) == map_of(b, is_custom)) {
                of_one.sort_by_key(Value::to_string);
            }
            status["message"].take();
        }
        status.to_string()
    });
    lines.collect()
}

/// `data` for `data[k]`, but all of `containers[0]`: lists have an order. All of a custom resource's `spec` is one.
fn map_of(cause: &Value, is_custom: bool) -> &str {
    let field = cause["field"].as_str().unwrap_or_default();
    if is_custom {
        return field.split('.').next().unwrap_or_default();
    }
    match field.strip_suffix(']').and_then(|field| field.rsplit_once('[')) {
        Some((map, key)) if key.parse::<usize>().is_err() => map,
        _ => field,
    }
}
