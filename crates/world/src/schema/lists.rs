//! Lists that are sets or maps: nothing is in them twice.

use super::said::{child, duplicate, entry, invalid, json, shown};
use super::{ListType, Schema};
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
            if let Some(each) = schema.additional.each() {
                for (name, value) in fields {
                    visit(each, value, &entry(path, name), causes);
                }
            }
            for (name, value) in fields {
                if let Some(property) = schema.properties.get(name.as_str()) {
                    visit(property, value, &child(path, name), causes);
                }
            }
        }
        Value::Array(items) => {
            match &schema.list {
                ListType::Atomic => {}
                ListType::Set => {
                    for index in repeated(items) {
                        causes.push(duplicate(&entry(path, index), Some(&shown(&items[index]))));
                    }
                }
                ListType::Map(keys) => map(keys, items, path, causes),
            }
            if let Some(schema) = &schema.items {
                for (index, item) in items.iter().enumerate() {
                    visit(schema, item, &entry(path, index), causes);
                }
            }
        }
        _ => {}
    }
}

fn map(keys: &[String], items: &[Value], path: &str, causes: &mut Vec<Cause>) {
    if let Some(index) = items.iter().position(|item| !item.is_object() && !item.is_null()) {
        let detail = "must be an object for an array of list-type map";
        causes.push(invalid(&entry(path, index), &shown(&items[index]), detail));
        return;
    }
    let of = |item: &Value| -> Value {
        let pairs = keys.iter().filter_map(|key| Some((key.clone(), item.get(key)?.clone())));
        Value::Object(pairs.collect::<Map>())
    };
    let keys: Vec<Value> = items.iter().map(of).collect();
    for index in repeated(&keys) {
        causes.push(duplicate(&entry(path, index), Some(&json(&keys[index]))));
    }
}

/// Where something is for the second time.
fn repeated(items: &[Value]) -> Vec<usize> {
    let mut times: std::collections::BTreeMap<String, usize> = std::collections::BTreeMap::new();
    let mut indices = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let seen = times.entry(item.to_string()).or_default();
        *seen += 1;
        if *seen == 2 {
            indices.push(index);
        }
    }
    indices
}
