//! What is under `deploy/`: fresh where it is generated, the same for Helm and Kustomize, and taken by an API.

#![expect(clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod generated;
mod monitoring;
mod rendered;

use std::path::PathBuf;

use berth_api::Source;
use serde_json::Value;

fn root() -> PathBuf {
    PathBuf::from("../..")
}

/// The objects of a text in YAML, as they are.
fn objects(name: &str, text: String) -> Vec<Value> {
    let (objects, problems) = berth_api::objects(&[Source::Text { name: name.to_owned(), text }]);
    assert!(problems.is_empty(), "{name}: {problems:?}");
    objects.into_iter().map(|object| object.value).collect()
}
