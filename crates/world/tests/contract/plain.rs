//! Answers without what differs from run to run.

use futures::StreamExt;
use kube::client::Body;
use serde_json::{Value, json};

/// An answer in one line: identities, versions and times are only named.
pub(crate) fn plain(value: &Value, namespace: &str) -> String {
    let mut value = value.clone();
    tidy(&mut value);
    value.to_string().replace(namespace, "{ns}")
}

fn tidy(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("managedFields");
            if let (Some(base), Some(Value::String(_))) =
                (fields.get("generateName").and_then(Value::as_str).map(str::to_owned), fields.get("name"))
            {
                fields.insert("name".to_owned(), json!(format!("{base}<suffix>")));
            }
            for (key, value) in fields.iter_mut() {
                let word = match key.as_str() {
                    "uid" => "<uid>",
                    "resourceVersion" => "<rv>",
                    "continue" => "<continue>",
                    "creationTimestamp" | "deletionTimestamp" | "lastTransitionTime" => "<time>",
                    _ => {
                        tidy(value);
                        continue;
                    }
                };
                if value.as_str().is_some_and(|text| !text.is_empty()) {
                    *value = json!(word);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        Value::String(text) => *text = without_identities(text),
        _ => {}
    }
}

/// Messages name identities and versions, too.
fn without_identities(text: &str) -> String {
    let words: Vec<String> = text
        .split(' ')
        .map(|word| {
            let bare = word.trim_matches(['(', ',', ':', '.', ')']);
            let is_uid = bare.len() == 36 && bare.matches('-').count() == 4;
            if is_uid { word.replace(bare, "<uid>") } else { word.to_owned() }
        })
        .collect();
    words.join(" ")
}

/// The first events of a watch.
pub(crate) async fn events(body: Body, count: usize) -> Vec<Value> {
    let mut chunks = axum::body::Body::new(body).into_data_stream();
    let mut text = String::new();
    while text.lines().count() < count || !text.ends_with('\n') {
        match chunks.next().await {
            Some(chunk) => text.push_str(&String::from_utf8_lossy(&chunk.unwrap())),
            None => break,
        }
    }
    text.lines().take(count).map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The lines in which two transcripts differ, under the names of their cases.
pub(crate) fn differences(expected: &str, said: &str) -> String {
    let mut wrong = String::new();
    let mut name = "";
    let (expected, said): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), said.lines().collect());
    for index in 0..expected.len().max(said.len()) {
        let (was, is) = (expected.get(index).copied(), said.get(index).copied());
        name = is.and_then(|line| line.strip_prefix("# ")).unwrap_or(name);
        if was != is {
            let (was, is) = (was.unwrap_or("nothing"), is.unwrap_or("nothing"));
            wrong.extend([name, "\n  - ", was, "\n  + ", is, "\n"]);
        }
    }
    wrong
}
