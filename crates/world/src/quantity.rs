//! Amounts as the API server writes them: in the form that they came in, as short as that goes.

use berth_core::units::Quantity;
use serde_json::{Value, json};

use crate::kinds::Resource;
use crate::strategy::is_custom;

const NANOS_PER_UNIT: i128 = 1_000_000_000;

/// Fields that map resources to amounts, in all built-in kinds that have them.
const AMOUNTS: [&str; 8] =
    ["requests", "limits", "capacity", "allocatable", "overhead", "hard", "used", "allocatedResources"];

/// Rewrites all amounts of a built-in object.
pub(crate) fn canonicalize(resource: &Resource, object: &mut Value) {
    if !is_custom(resource) {
        rewrite(object);
    }
}

fn rewrite(object: &mut Value) {
    match object {
        Value::Object(fields) => {
            for (key, value) in fields.iter_mut() {
                match value {
                    Value::Object(amounts) if AMOUNTS.contains(&key.as_str()) => {
                        for amount in amounts.values_mut().filter(|amount| text_of(amount).is_some()) {
                            *amount = json!(canonical_value(amount));
                        }
                    }
                    Value::String(_) if key == "sizeLimit" => *value = json!(canonical_value(value)),
                    _ => rewrite(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(rewrite),
        _ => {}
    }
}

/// Amounts may be written as numbers.
pub(crate) fn text_of(amount: &Value) -> Option<String> {
    match amount {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

pub(crate) fn canonical_value(amount: &Value) -> String {
    let text = text_of(amount).unwrap_or_default();
    canonical(&text).unwrap_or(text)
}

/// `0.5` is `500m`, `1024Mi` is `1Gi`, `12000000` is `12M`. `None` for what is no amount.
fn canonical(text: &str) -> Option<String> {
    let nanos = text.parse::<Quantity>().ok()?.nanos();
    let is_binary = text.ends_with('i');
    let has_exponent = !is_binary
        && text.find(['e', 'E']).is_some_and(|at| text.get(at + 1..).is_some_and(|rest| !rest.is_empty()));
    if is_binary && nanos.abs() >= 1024 * NANOS_PER_UNIT {
        let units = nanos / NANOS_PER_UNIT + i128::from(nanos % NANOS_PER_UNIT != 0) * nanos.signum();
        return Some(shortest(units, 1024, &["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]));
    }
    if has_exponent {
        return Some(shortest(nanos, 1000, &["e-9", "e-6", "e-3", "", "e3", "e6", "e9", "e12", "e15", "e18"]));
    }
    Some(shortest(nanos, 1000, &["n", "u", "m", "", "k", "M", "G", "T", "P", "E"]))
}

/// With the largest suffix that leaves a whole number.
fn shortest(mut number: i128, step: i128, suffixes: &[&str]) -> String {
    if number == 0 {
        return "0".to_owned();
    }
    let mut suffixes = suffixes.iter();
    let mut suffix = suffixes.next().copied().unwrap_or_default();
    for larger in suffixes {
        if number % step != 0 {
            break;
        }
        number /= step;
        suffix = larger;
    }
    format!("{number}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_as_short_as_they_go() {
        for (text, expected) in [
            ("0.5", "500m"),
            ("500m", "500m"),
            ("1000m", "1"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("1Ki", "1Ki"),
            ("0.5Ki", "512"),
            ("12000000", "12M"),
            ("12e6", "12e6"),
            ("1E", "1E"),
            ("0", "0"),
            ("-1", "-1"),
            ("1n", "1n"),
        ] {
            assert_eq!(canonical(text).as_deref(), Some(expected), "{text}");
        }
        assert_eq!(canonical("many"), None);
    }
}
