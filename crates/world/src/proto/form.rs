//! The form in which Go's encoder writes a message: without what is empty and left out, with zeros where they are not.

use super::table::{Message, TABLE, Type};
use crate::json::{List, Map, Value, json};

/// Brings the fields of a message into Go's form.
pub(crate) fn complete(message: &Message, fields: &mut Map) {
    if let Some(in_form) = completed(message, fields, None) {
        *fields = in_form;
    }
}

/// Brings an object of a built-in kind into Go's form. What it was before is in that form.
pub(crate) fn put_in_form(api_version: &str, kind: &str, object: &mut Value, before: Option<&Value>) {
    if let (Some(message), Some(fields)) = (TABLE.of_kind(api_version, kind), object.as_object())
        && let Some(in_form) = completed(message, fields, before.and_then(Value::as_object))
    {
        *object = Value::Object(in_form);
    }
}

/// What takes the place of fields that are not in form.
fn completed(message: &Message, fields: &Map, before: Option<&Map>) -> Option<Map> {
    let mut instead: Option<Map> = None;
    for field in &message.fields {
        if field.is_inline {
            if let Some(inline) = field.type_.message(&TABLE) {
                instead = completed(inline, instead.as_ref().unwrap_or(fields), before).or(instead);
            }
            continue;
        }
        let is_left_out = |value: &Value| {
            field.omits_empty && is_empty(&field.type_, value)
                || field.omits_zero && (value.is_null() || *value == zero(&field.type_))
        };
        // No message in line has a field of the name of an outer one, so what it changed is not asked for here.
        if let Some(value) = fields.get(&field.name) {
            let shaped = shaped(&field.type_, value, before.and_then(|before| before.get(&field.name)));
            if is_left_out(shaped.as_ref().unwrap_or(value)) {
                instead.get_or_insert_with(|| fields.clone()).remove(&field.name);
            } else if let Some(shaped) = shaped {
                instead.get_or_insert_with(|| fields.clone()).insert(&field.name, shaped);
            }
        } else if !is_left_out(&Value::Null) {
            instead.get_or_insert_with(|| fields.clone()).insert(&field.name, zero(&field.type_));
        }
    }
    instead
}

/// What takes the place of a value that is not in form.
fn shaped(type_: &Type, value: &Value, before: Option<&Value>) -> Option<Value> {
    if before.is_some_and(|before| before.is_one_with(value)) {
        return None;
    }
    match type_ {
        Type::Named { of, .. } => shaped(of, value, before),
        Type::Pointer(of) if !value.is_null() => shaped(of, value, before),
        Type::List(of) => {
            let items = value.as_array()?;
            let mut instead: Option<List> = None;
            for (at, item) in items.iter().enumerate() {
                if let Some(shaped) = shaped(of, item, before.map(|before| &before[at])) {
                    let copy = instead.get_or_insert_with(|| items.iter().cloned().collect());
                    copy[at] = shaped;
                }
            }
            instead.map(Value::Array)
        }
        Type::Map { of, .. } => {
            let fields = value.as_object()?;
            let mut instead: Option<Map> = None;
            for (name, item) in fields {
                if let Some(shaped) = shaped(of, item, before.map(|before| &before[name])) {
                    instead.get_or_insert_with(|| fields.clone()).insert(name, shaped);
                }
            }
            instead.map(Value::Object)
        }
        Type::Message(index) => {
            let message = TABLE.message(*index)?;
            let Some(fields) = value.as_object() else {
                let none = Map::new();
                return Some(Value::Object(completed(message, &none, None).unwrap_or(none)));
            };
            completed(message, fields, before.and_then(Value::as_object)).map(Value::Object)
        }
        _ => value.is_null().then(|| zero(type_)).filter(|zero| !zero.is_null()),
    }
}

fn zero(type_: &Type) -> Value {
    match type_ {
        Type::Named { of, .. } => zero(of),
        Type::Message(_) => shaped(type_, &Value::Null, None).unwrap_or_default(),
        Type::String => json!(""),
        Type::Bool => json!(false),
        Type::Int32 | Type::Int64 | Type::IntOrString => json!(0),
        Type::Float64 => json!(0.0),
        Type::Quantity => json!("0"),
        _ => Value::Null,
    }
}

/// What `omitempty` calls empty: no struct ever is.
fn is_empty(type_: &Type, value: &Value) -> bool {
    match type_ {
        Type::Named { of, .. } => is_empty(of, value),
        Type::Pointer(_) => value.is_null(),
        Type::List(_) => value.as_array().is_none_or(Vec::is_empty),
        Type::Map { .. } => value.as_object().is_none_or(Map::is_empty),
        Type::Bytes => value.as_str().is_none_or(str::is_empty),
        Type::String | Type::Bool | Type::Int32 | Type::Int64 | Type::Float64 => {
            value.is_null() || *value == zero(type_)
        }
        _ => false,
    }
}
