//! Makes a sequence that shows a difference as small as it goes.

use serde_json::Value;

use crate::Stage;
use crate::request::Request;

/// Fewer requests first, then smaller bodies, for as long as there is a difference.
pub(crate) async fn smallest(stage: &Stage, mut sequence: Vec<Request>) -> Vec<Request> {
    loop {
        let before = size(&sequence);
        if let Some(difference) = stage.difference(&sequence).await {
            sequence.truncate(difference.at + 1);
        }
        let mut index = sequence.len();
        while index > 0 {
            index -= 1;
            let shorter = without(&sequence, index);
            if !shorter.is_empty() && stage.difference(&shorter).await.is_some() {
                sequence = shorter;
            }
        }
        for index in 0..sequence.len() {
            sequence = with_smaller_body(stage, sequence, index).await;
        }
        if size(&sequence) == before {
            return sequence;
        }
    }
}

fn size(sequence: &[Request]) -> usize {
    sequence.iter().map(|request| 1 + request.body.len()).sum()
}

/// Without one request. What later ones took from its answer is gone with it.
fn without(sequence: &[Request], gone: usize) -> Vec<Request> {
    let renumbered = |text: &str| {
        let mut text = text.to_owned();
        for number in gone + 1..=sequence.len() {
            let to = if number == gone + 1 { "{gone.".to_owned() } else { format!("{{{}.", number - 1) };
            text = text.replace(&format!("{{{number}."), &to);
        }
        text
    };
    let rest = sequence.iter().enumerate().filter(|(index, _)| *index != gone);
    rest.map(|(_, request)| Request {
        path: renumbered(&request.path),
        body: renumbered(&request.body),
        ..request.clone()
    })
    .filter(|request| !request.path.contains("{gone.") && !request.body.contains("{gone."))
    .collect()
}

async fn with_smaller_body(stage: &Stage, mut sequence: Vec<Request>, index: usize) -> Vec<Request> {
    let Ok(mut body) = serde_json::from_str::<Value>(&sequence[index].body) else { return sequence };
    let mut paths = Vec::new();
    collect(&body, "", &mut paths);
    for path in paths {
        let mut smaller = body.clone();
        if !remove(&mut smaller, &path) {
            continue;
        }
        let mut tried = sequence.clone();
        tried[index].body = smaller.to_string();
        if stage.difference(&tried).await.is_some() {
            (sequence, body) = (tried, smaller);
        }
    }
    sequence
}

/// The paths of all fields and items, the outer ones first, later items before earlier ones.
fn collect(value: &Value, path: &str, paths: &mut Vec<String>) {
    let below: Vec<(String, &Value)> = match value {
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| (key.replace('~', "~0").replace('/', "~1"), value)).collect()
        }
        Value::Array(items) => {
            items.iter().enumerate().rev().map(|(at, item)| (at.to_string(), item)).collect()
        }
        _ => return,
    };
    for (word, _) in &below {
        paths.push(format!("{path}/{word}"));
    }
    for (word, value) in below {
        collect(value, &format!("{path}/{word}"), paths);
    }
}

fn remove(value: &mut Value, path: &str) -> bool {
    let Some((parent, word)) = path.rsplit_once('/') else { return false };
    let word = word.replace("~1", "/").replace("~0", "~");
    match value.pointer_mut(parent) {
        Some(Value::Object(fields)) => fields.remove(&word).is_some(),
        Some(Value::Array(items)) => match word.parse::<usize>() {
            Ok(index) if index < items.len() => {
                items.remove(index);
                true
            }
            _ => false,
        },
        _ => false,
    }
}
