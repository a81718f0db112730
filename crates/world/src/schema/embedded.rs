//! Objects within objects: they say what they are.

use super::Schema;
use super::said::{child, entry, invalid, invalid_text, required, shown};
use crate::crd::names::dns_1035_label;
use crate::failure::Cause;
use crate::json::{Map, Value};

pub(super) fn check(schema: &Schema, value: &Value, path: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    visit(schema, value, path, &mut causes);
    causes
}

fn visit(schema: &Schema, value: &Value, path: &str, causes: &mut Vec<Cause>) {
    match value {
        Value::Object(fields) => {
            if schema.is_embedded {
                object(fields, path, causes);
            }
            for (name, value) in fields {
                if let Some(property) = schema.properties.get(name.as_str()) {
                    visit(property, value, &child(path, name), causes);
                } else if let Some(each) = schema.additional.each() {
                    visit(each, value, &entry(path, name), causes);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = &schema.items {
                for (index, item) in items.iter().enumerate() {
                    visit(schema, item, &entry(path, index), causes);
                }
            }
        }
        _ => {}
    }
}

fn object(fields: &Map, path: &str, causes: &mut Vec<Cause>) {
    let missing = ["apiVersion", "kind"].into_iter().filter(|name| !fields.contains_key(name));
    causes.extend(missing.map(|name| required(&child(path, name), "")));
    for name in ["apiVersion", "kind"] {
        let field = child(path, name);
        match fields.get(name) {
            None => {}
            Some(Value::String(text)) if text.is_empty() => {
                causes.push(invalid_text(&field, text, "must not be empty"));
            }
            Some(Value::String(text)) if name == "apiVersion" && text.matches('/').count() > 1 => {
                let detail = format!("unexpected GroupVersion string: {text}");
                causes.push(invalid_text(&field, text, &detail));
            }
            Some(Value::String(_)) if name == "apiVersion" => {}
            Some(Value::String(text)) => {
                let wrong = dns_1035_label(&text.to_lowercase());
                if !wrong.is_empty() {
                    let detail =
                        format!("may have mixed case, but should otherwise match: {}", wrong.join(","));
                    causes.push(invalid_text(&field, text, &detail));
                }
            }
            Some(other) => causes.push(invalid(&field, &shown(other), "must be a string")),
        }
    }
}
