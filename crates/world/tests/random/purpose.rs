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

/// With what is wrong with entries of one map, or with a custom resource, in the order of names. Of the message, which
/// says the same once more in the other order, there is what is left without that.
fn without_order(said: &Said) -> Vec<String> {
    let lines = said.iter().map(|line| {
        let Some(mut status) =
            line.strip_prefix("422 ").and_then(|text| serde_json::from_str::<Value>(text).ok())
        else {
            return line.clone();
        };
        let is_custom = status["details"]["group"] == "random.example.com";
        let mut causes = status.pointer_mut("/details/causes").map(Value::take);
        if let Some(causes) = causes.as_mut().and_then(Value::as_array_mut) {
            for of_one in causes.chunk_by_mut(|a, b| map_of(a, is_custom) == map_of(b, is_custom)) {
                of_one.sort_by_key(Value::to_string);
            }
            let rest = without(status["message"].as_str().unwrap_or_default(), causes);
            status["message"] = rest.into();
        }
        if let Some(causes) = causes {
            status["details"]["causes"] = causes;
        }
        status.to_string()
    });
    lines.collect()
}

/// A message without what is wrong: each once, and what begins another one after that.
fn without(message: &str, causes: &[Value]) -> String {
    let text = |cause: &Value, field: &str| cause[field].as_str().unwrap_or_default().to_owned();
    let said = causes.iter().map(|cause| match (text(cause, "field"), text(cause, "message")) {
        (field, message) if field.is_empty() => message,
        (field, message) => format!("{field}: {message}"),
    });
    let mut said: Vec<String> = said.collect();
    said.sort_by_key(|said| std::cmp::Reverse(said.len()));
    said.iter().fold(message.to_owned(), |rest, said| rest.replacen(said, "", 1))
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

#[test]
fn answers_that_differ_in_more_than_an_order_differ() {
    let answer = |kind: &str, told: &[(&str, &str)], more: &str| -> Said {
        let causes = told.iter().map(|(field, why)| serde_json::json!({"field": field, "message": why}));
        let said: Vec<String> = told.iter().map(|(field, why)| format!("{field}: {why}")).collect();
        let message = format!("{kind} \"a\" is invalid: [{}]{more}", said.join(", "));
        let details = serde_json::json!({"group": "", "causes": causes.collect::<Vec<_>>()});
        vec![format!("422 {}", serde_json::json!({"message": message, "details": details}))]
    };
    let (one, other, longer) = (("data[k]", "no"), ("data[l]", "no"), ("data[k]", "not so"));
    let known = answer("ConfigMap", &[one, other, longer], "");
    for (other, is_same) in [
        (answer("ConfigMap", &[one, other, longer], ""), true),
        (answer("ConfigMap", &[longer, other, one], ""), true),
        (answer("Secret", &[one, other, longer], ""), false),
        (answer("ConfigMap", &[one, other], ""), false),
        (answer("ConfigMap", &[other, one, longer], ", and more"), false),
    ] {
        assert_eq!(why(&known, &other).is_some(), is_same, "{other:?}");
    }
}
