//! Patches: JSON patches, merge patches, strategic merge patches and server-side apply, and who owns which
//! field after a write.
//!
//! All are functions over objects as JSON; they know nothing of storage, admission or defaults.

mod apply;
mod fields;
mod json;
mod managed;
mod merge;
mod scale;
mod shape;
mod strategic;
mod types;

pub use apply::{apply, record_update};
pub use json::{json_patch, json_patch_of_webhook, merge_patch};
pub use scale::{Rescaled, record_scale};
pub use shape::Shape;
pub use strategic::strategic_merge_patch;

use crate::failure::{Failure, Reason};
use crate::json::{Text, Value};

/// What the API server says of a patch that is well formed but does not fit the object: no more than this.
fn does_not_apply() -> Failure {
    Failure::unhandled(Reason::Invalid, "the server rejected our request due to an error in our request")
}

/// A failure that the API server passes on as it comes.
fn unforeseen(message: String) -> Failure {
    Failure::new(Reason::Unknown, message)
}

/// JSON's name for what was found where something else was expected, as Go's decoder says it.
pub(crate) fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// A value as Go prints it: `map[a:1 b:[x y]]`.
pub(crate) fn go_text(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.to_string(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_text).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(map) => {
            let mut keys: Vec<&Text> = map.keys().collect();
            keys.sort();
            let fields: Vec<String> = keys
                .iter()
                .map(|key| format!("{key}:{}", go_text(map.get(key).unwrap_or(&Value::Null))))
                .collect();
            format!("map[{}]", fields.join(" "))
        }
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}
