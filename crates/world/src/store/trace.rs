//! Every change, on a line of its own.

use std::fmt::Write;
use std::hash::Hasher;

use rustc_hash::FxHasher;

use super::Change;

#[derive(Debug, Default)]
pub(super) struct Trace(String);

impl Trace {
    pub(super) fn write(&mut self, change: &Change) {
        let Change { revision, key, before, after } = change;
        let word = match (before, after) {
            (None, _) => "added",
            (Some(_), Some(_)) => "modified",
            (Some(_), None) => "deleted",
        };
        let text = after.as_ref().or(before.as_ref()).map(ToString::to_string).unwrap_or_default();
        let mut digest = FxHasher::default();
        digest.write(text.as_bytes());
        let (resource, namespace, name) = (key.resource(), key.namespace(), key.name());
        // Writing to text does not fail.
        let _ = writeln!(self.0, "{revision} {word} {resource} {namespace}/{name} {:016x}", digest.finish());
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }
}
