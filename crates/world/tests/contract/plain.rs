//! Answers without what differs from run to run.

use std::time::Duration;

use axum::body::BodyDataStream;
use futures::StreamExt;
use kube::client::Body;
use serde_json::{Value, json};

use crate::request::Watched;

/// An answer in one line: identities, versions and times are only named.
pub(crate) fn plain(value: &Value, namespace: &str, with_managers: bool) -> String {
    let mut value = value.clone();
    tidy(&mut value, with_managers);
    value.to_string().replace(namespace, "{ns}")
}

/// The part of an answer at a path: `/items/name=a` is the item with that name.
pub(crate) fn part<'a>(value: &'a Value, path: &str) -> &'a Value {
    path.split('/').skip(1).fold(value, |value, word| match word.strip_prefix("name=") {
        Some(name) => {
            let mut items = value.as_array().into_iter().flatten();
            items.find(|item| item["metadata"]["name"] == name).unwrap_or(&Value::Null)
        }
        None => value.pointer(&format!("/{word}")).unwrap_or(&Value::Null),
    })
}

fn tidy(value: &mut Value, with_managers: bool) {
    match value {
        Value::Object(fields) => {
            if !with_managers {
                fields.remove("managedFields");
            }
            let text = |field: &str| fields.get(field).and_then(Value::as_str).unwrap_or_default();
            // A made name is as long as a label of the domain name system at most.
            let base = text("generateName").chars().take(58).collect::<String>();
            if !base.is_empty() && text("name").len() == base.len() + 5 && text("name").starts_with(&base) {
                fields.insert("name".to_owned(), json!(format!("{base}<suffix>")));
            }
            for (key, value) in fields.iter_mut() {
                let word = match key.as_str() {
                    "uid" => "<uid>",
                    "resourceVersion" => "<rv>",
                    "continue" => "<continue>",
                    "disruptedPods" => {
                        value.as_object_mut().into_iter().flatten().for_each(|(_, at)| *at = json!("<time>"));
                        continue;
                    }
                    "cells" => {
                        value.as_array_mut().into_iter().flatten().for_each(name_age);
                        continue;
                    }
                    "creationTimestamp" | "deletionTimestamp" | "lastTransitionTime" | "time" => "<time>",
                    _ => {
                        tidy(value, with_managers);
                        continue;
                    }
                };
                if value.as_str().is_some_and(|text| !text.is_empty()) {
                    *value = json!(word);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| tidy(item, with_managers)),
        Value::String(text) => {
            *text = without_identities(text);
            // An address that changes with what is there.
            if let Some((address, _)) = text.split_once("?hash=") {
                *text = format!("{address}?hash=<hash>");
            }
        }
        _ => {}
    }
}

/// A row of a table says how long ago its object was made.
fn name_age(cell: &mut Value) {
    let is_age = |text: &str| text.strip_suffix('s').is_some_and(|seconds| seconds.parse::<u32>().is_ok());
    if cell.as_str().is_some_and(is_age) {
        *cell = json!("<age>");
    }
}

/// Messages name identities and versions, too.
fn without_identities(text: &str) -> String {
    const BEFORE_VERSIONS: [&str; 4] = ["current:", "meta:", "precondition", "record"];
    // A watch that wants too much is told what it wants and what there is.
    if text.starts_with("too old resource version: ") {
        return "too old resource version: <rv> (<rv>)".to_owned();
    }
    let mut last = "";
    let mut words = Vec::new();
    for word in text.split(' ') {
        let bare = word.trim_matches(['(', ',', ':', '.', ')', '"']);
        let is_uid = bare.len() == 36 && bare.matches('-').count() == 4;
        let is_made = is_made(bare);
        let is_version = bare.parse::<u64>().is_ok() && BEFORE_VERSIONS.contains(&last);
        words.push(match (is_uid, is_version, is_made) {
            (true, _, _) => word.replace(bare, "<uid>"),
            (_, true, _) => word.replace(bare, "<rv>"),
            (_, _, true) => word.replace(&bare[bare.len() - 5..], "<suffix>"),
            _ => word.to_owned(),
        });
        last = word;
    }
    words.join(" ")
}

/// Names that somebody makes: in random sequences, and of the volumes with the keys of pods.
fn is_made(name: &str) -> bool {
    let Some((base, suffix)) = name.rsplit_once('-') else { return false };
    let is_drawn =
        base.strip_prefix('g').is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
    let is_suffix = suffix.len() == 5 && suffix.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_suffix && (is_drawn || base == "kube-api-access")
}

/// Events that are waited for come, but not at once on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// Where none is to come, so long is waited for it.
const PATIENCE_FOR_NONE: Duration = Duration::from_secs(1);

/// Whoever listens to a watch.
pub(crate) struct Listener {
    chunks: BodyDataStream,
    /// What has come of the next line.
    text: String,
}

impl Listener {
    pub(crate) fn new(body: Body) -> Self {
        Self { chunks: axum::body::Body::new(body).into_data_stream(), text: String::new() }
    }

    /// The next events; and what became of the watch if there were not enough of them.
    pub(crate) async fn listen(&mut self, watched: &Watched) -> (Vec<Value>, Option<&'static str>) {
        let mut events: Vec<Value> = Vec::new();
        let is_enough = |events: &[Value]| match watched {
            Watched::Events(count) => events.len() >= (*count).max(1),
            Watched::Until(name) => {
                events.last().is_some_and(|event| event["object"]["metadata"]["name"] == json!(name))
            }
        };
        // What was not made is never told of.
        if matches!(watched, Watched::Until(name) if name.is_empty()) {
            return (events, None);
        }
        let patience = if matches!(watched, Watched::Events(0)) { PATIENCE_FOR_NONE } else { PATIENCE };
        loop {
            while let Some(end) = self.text.find('\n') {
                let line: String = self.text.drain(..=end).collect();
                events.push(serde_json::from_str(&line).unwrap());
                if is_enough(&events) {
                    return (events, None);
                }
            }
            match tokio::time::timeout(patience, self.chunks.next()).await {
                Ok(Some(chunk)) => self.text.push_str(&String::from_utf8_lossy(&chunk.unwrap())),
                Ok(None) => return (events, Some("and the end")),
                Err(_) => return (events, Some("and nothing yet")),
            }
        }
    }
}
