//! Makes a sequence that shows a difference as small as it goes.

use serde_json::Value;

use crate::request::Request;
use crate::{Difference, Stage};

/// Fewer requests first, then smaller bodies, for as long as there is a difference.
pub(crate) async fn smallest(
    stage: &Stage,
    sequence: Vec<Request>,
    difference: Difference,
) -> (Vec<Request>, Difference) {
    let mut shrunk = Shrunk { stage, sequence, difference };
    loop {
        let before = size(&shrunk.sequence);
        shrunk.sequence.truncate(shrunk.difference.at + 1);
        for index in (0..shrunk.sequence.len()).rev() {
            // What depends on a request goes with it.
            if index < shrunk.sequence.len() {
                shrunk.try_with(without(&shrunk.sequence, index)).await;
            }
        }
        for index in 0..shrunk.sequence.len() {
            shrunk.make_body_smaller(index).await;
        }
        if size(&shrunk.sequence) == before {
            return (shrunk.sequence, shrunk.difference);
        }
    }
}

/// The smallest so far, and how its answers differ.
struct Shrunk<'a> {
    stage: &'a Stage,
    sequence: Vec<Request>,
    difference: Difference,
}

impl Shrunk<'_> {
    /// Takes a smaller sequence if it shows a difference, too.
    async fn try_with(&mut self, smaller: Vec<Request>) -> bool {
        let Some(difference) = self.stage.difference(&smaller).await else { return false };
        (self.sequence, self.difference) = (smaller, difference);
        true
    }

    async fn make_body_smaller(&mut self, index: usize) {
        let Ok(mut body) = serde_json::from_str::<Value>(&self.sequence[index].body) else { return };
        let mut paths = Vec::new();
        collect(&body, "", &mut paths);
        for path in paths {
            let mut smaller = body.clone();
            if !remove(&mut smaller, &path) {
                continue;
            }
            let mut tried = self.sequence.clone();
            tried[index].body = smaller.to_string();
            if self.try_with(tried).await {
                body = smaller;
            }
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
        deed: request.deed.clone().with(renumbered),
        body: renumbered(&request.body),
        ..request.clone()
    })
    .filter(|request| !request.to_string().contains("{gone."))
    .collect()
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
