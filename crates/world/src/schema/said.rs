//! Causes in the words of the API server, which prints values as Go does.

use crate::failure::{Cause, CauseReason};
use crate::json::{Number, Value};

/// A cause of `reason` at `field`, which Go calls `<nil>` where it is the whole object.
fn cause(reason: CauseReason, field: &str, message: String) -> Cause {
    let field = if field.is_empty() { "<nil>" } else { field };
    Cause { reason, field: field.to_owned(), message }
}

/// `value` as [`shown`] prints it.
pub(crate) fn invalid(field: &str, value: &str, detail: &str) -> Cause {
    cause(CauseReason::FieldValueInvalid, field, format!("Invalid value: {value}: {detail}"))
}

/// Without the value, as where it is an object or a list.
pub(crate) fn invalid_unshown(field: &str, detail: &str) -> Cause {
    cause(CauseReason::FieldValueInvalid, field, format!("Invalid value: {detail}"))
}

pub(crate) fn invalid_text(field: &str, value: &str, detail: &str) -> Cause {
    invalid(field, &quoted(value), detail)
}

pub(crate) fn type_invalid(field: &str, value: &str, detail: &str) -> Cause {
    cause(CauseReason::FieldValueTypeInvalid, field, format!("Invalid value: {value}: {detail}"))
}

pub(crate) fn required(field: &str, detail: &str) -> Cause {
    cause(CauseReason::FieldValueRequired, field, with_detail("Required value", detail))
}

pub(crate) fn forbidden(field: &str, detail: &str) -> Cause {
    cause(CauseReason::FieldValueForbidden, field, with_detail("Forbidden", detail))
}

pub(crate) fn duplicate(field: &str, value: Option<&str>) -> Cause {
    let message = match value {
        Some(value) => format!("Duplicate value: {value}"),
        None => "Duplicate value".to_owned(),
    };
    cause(CauseReason::FieldValueDuplicate, field, message)
}

pub(crate) fn not_supported(field: &str, value: &str, supported: &[String]) -> Cause {
    let supported: Vec<String> = supported.iter().map(|one| quoted(one)).collect();
    let message = format!("Unsupported value: {value}: supported values: {}", supported.join(", "));
    cause(CauseReason::FieldValueNotSupported, field, message)
}

pub(crate) fn too_long(field: &str, max: i64) -> Cause {
    let detail = match max {
        1 => "may not be more than 1 byte".to_owned(),
        0.. => format!("may not be more than {max} bytes"),
        _ => "value is too long".to_owned(),
    };
    cause(CauseReason::FieldValueTooLong, field, format!("Too long: {detail}"))
}

pub(crate) fn too_many(field: &str, found: usize, max: i64) -> Cause {
    let detail = match max {
        1 => "must have at most 1 item".to_owned(),
        0.. => format!("must have at most {max} items"),
        _ => "has too many items".to_owned(),
    };
    cause(CauseReason::FieldValueTooMany, field, format!("Too many: {found}: {detail}"))
}

fn with_detail(what: &str, detail: &str) -> String {
    if detail.is_empty() { what.to_owned() } else { format!("{what}: {detail}") }
}

/// The path of the field `name` of what is at `path`.
pub(crate) fn child(path: &str, name: &str) -> String {
    match (path, name) {
        ("", name) => name.to_owned(),
        (path, "") => path.to_owned(),
        (path, name) => format!("{path}.{name}"),
    }
}

/// The path of an entry of a map or a list.
pub(crate) fn entry(path: &str, key: impl std::fmt::Display) -> String {
    format!("{path}[{key}]")
}

/// A value as a failure shows it.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Number(number) => self::number(number),
        Value::Bool(truth) => truth.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => json(value),
    }
}

/// A number as Go's `%v` prints it.
pub(crate) fn number(number: &Number) -> String {
    match (number.as_i64(), number.as_f64()) {
        (Some(whole), _) => whole.to_string(),
        (None, Some(real)) => float(real),
        (None, None) => number.to_string(),
    }
}

pub(crate) fn float(real: f64) -> String {
    let exponent = format!("{real:e}");
    let (digits, exponent) = exponent.split_once('e').unwrap_or((&exponent, "0"));
    match exponent.parse::<i32>() {
        Ok(power) if !(-4..21).contains(&power) => {
            let sign = if power < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", power.unsigned_abs())
        }
        _ => format!("{real}"),
    }
}

/// What Go calls the type of a value.
pub(crate) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.as_i64().is_some() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Text as Go's `%q` prints it.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            ' '..='~' => out.push(letter),
            '\0'..='\u{7f}' => {
                let escape = format!("\\x{:02x}", u32::from(letter));
                out.push_str(&escape);
            }
            _ if letter.is_control() || is_unprinted(letter) => {
                let code = u32::from(letter);
                let escape = if code < 0x10000 { format!("\\u{code:04x}") } else { format!("\\U{code:08x}") };
                out.push_str(&escape);
            }
            _ => out.push(letter),
        }
    }
    out.push('"');
    out
}

/// Spaces other than the usual one, and marks without a shape.
fn is_unprinted(letter: char) -> bool {
    letter.is_whitespace()
        || matches!(letter, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(letter, '\u{e000}'..='\u{f8ff}' | '\u{feff}')
}

/// JSON as Go writes it: keys in order, whole numbers without a fraction, nothing that HTML would read.
pub(crate) fn json(value: &Value) -> String {
    match value {
        Value::Number(number) => self::number(number),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(json).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            let fields: Vec<String> = fields
                .into_iter()
                .map(|(name, value)| format!("{}:{}", json_text(name), json(value)))
                .collect();
            format!("{{{}}}", fields.join(","))
        }
        Value::String(text) => json_text(text),
        Value::Null | Value::Bool(_) => value.to_string(),
    }
}

pub(crate) fn json_text(text: &str) -> String {
    Value::from(text)
        .to_string()
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn values_print_as_in_go() {
        let rows = [
            (json!("a"), r#""a""#),
            (json!("a\"b\\\n\u{1}é\u{200b}"), r#""a\"b\\\n\x01é\u200b""#),
            (json!(-1), "-1"),
            (json!(1.0), "1"),
            (json!(1.5), "1.5"),
            (json!(1e21), "1e+21"),
            (json!(1e20), "100000000000000000000"),
            (json!(0.00001), "1e-05"),
            (json!(0.0001), "0.0001"),
            (json!(true), "true"),
            (json!(null), "null"),
            (json!({"b": [1.0, "<x>"], "a": null}), r#"{"a":null,"b":[1,"\u003cx\u003e"]}"#),
        ];
        for (value, expected) in rows {
            assert_eq!(shown(&value), expected, "{value}");
        }
    }
}
