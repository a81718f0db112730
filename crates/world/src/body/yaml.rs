//! YAML, as the server turns it into JSON.

use serde_saphyr::options::DuplicateKeyPolicy;
use serde_saphyr::{Error, Options};

use crate::json::Value;

/// More than a body of 3 MiB can hold.
const NODES_MAX: usize = 3 << 20;

/// Keeps bodies that repeat themselves by aliases small.
const ALIAS_EVENTS_MAX: usize = 200_000;

/// No object is half as deep; and as deep as JSON may be.
const DEPTH_MAX: usize = 200;

/// What a document says, and the first key that it has twice, in the server's words.
pub(super) fn parse(bytes: &[u8]) -> Result<(Value, Option<String>), String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "yaml: invalid leading UTF-8 octet")?;
    if text.trim().is_empty() {
        return Ok((Value::Null, None));
    }
    let read = |keys| serde_saphyr::from_str_with_options::<Value>(text, options(keys));
    let value = read(DuplicateKeyPolicy::LastWins).map_err(|error| said(&error))?;
    let repeated = match read(DuplicateKeyPolicy::Error) {
        Err(error) => repeated(error.without_snippet()),
        Ok(_) => None,
    };
    Ok((value, repeated))
}

fn options(duplicate_keys: DuplicateKeyPolicy) -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: DEPTH_MAX,
            max_documents: 1,
            max_nodes: NODES_MAX,
            max_events: 3 * NODES_MAX,
            max_total_scalar_bytes: NODES_MAX,
            max_recorded_anchor_events: ALIAS_EVENTS_MAX,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: ALIAS_EVENTS_MAX },
        duplicate_keys: duplicate_keys,
        legacy_octal_numbers: true,
        with_snippet: false,
        emit_comments: false,
    }
}

fn repeated(error: &Error) -> Option<String> {
    let Error::DuplicateMappingKey { key, location } = error else { return None };
    let key = key.as_deref().unwrap_or_default();
    Some(format!("yaml: unmarshal errors:\n  line {}: key {key:?} already set in map", location.line()))
}

/// Where it is, as the server says it; what it is, in the words of whoever found it.
fn said(error: &Error) -> String {
    let text = error.without_snippet().to_string();
    let what = text.split_once(" at line ").map_or(text.as_str(), |(what, _)| what);
    match error.location() {
        Some(location) => format!("yaml: line {}: {what}", location.line()),
        None => format!("yaml: {what}"),
    }
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn documents_are_read_as_json() {
        let twice = |line, key: &str| {
            Some(format!("yaml: unmarshal errors:\n  line {line}: key \"{key}\" already set in map"))
        };
        for (text, expected, repeated) in [
            ("", json!(null), None),
            ("a: b\n1: [yes, 0o17, 1e3]\n", json!({"a": "b", "1": [true, 15, 1000.0]}), None),
            ("a: &x {b: 1}\nc: *x\n", json!({"a": {"b": 1}, "c": {"b": 1}}), None),
            ("a:\n  b: 1\n  b: 2\n", json!({"a": {"b": 2}}), twice(3, "b")),
        ] {
            assert_eq!(parse(text.as_bytes()), Ok((expected, repeated)), "{text}");
        }
        for text in [&b"a: {"[..], b"\xff", b"a: *x"] {
            assert!(parse(text).is_err_and(|said| said.starts_with("yaml: ")), "{text:?}");
        }
    }
}
