//! The form in which Go's encoder writes a message: without what is empty and left out, with zeros where they are not.

use serde_json::{Map, Value, json};

use super::table::{Message, TABLE, Type};

/// Brings the fields of a message into Go's form.
pub(crate) fn complete(message: &Message, fields: &mut Map<String, Value>) {
    for field in &message.fields {
        if field.is_inline {
            if let Some(inline) = field.type_.message(&TABLE) {
                complete(inline, fields);
            }
            continue;
        }
        let is_left_out = |value: &Value| {
            field.omits_empty && is_empty(&field.type_, value)
                || field.omits_zero && (value.is_null() || *value == zero(&field.type_))
        };
        if let Some(value) = fields.get_mut(&field.name) {
            shape(&field.type_, value);
            if is_left_out(value) {
                fields.remove(&field.name);
            }
        } else if !is_left_out(&Value::Null) {
            fields.insert(field.name.clone(), zero(&field.type_));
        }
    }
}

/// Brings an object of a built-in kind into Go's form.
pub(crate) fn put_in_form(api_version: &str, kind: &str, object: &mut Value) {
    if let (Some(message), Some(fields)) = (TABLE.of_kind(api_version, kind), object.as_object_mut()) {
        complete(message, fields);
    }
}

fn shape(type_: &Type, value: &mut Value) {
    match type_ {
        Type::Named { of, .. } => shape(of, value),
        Type::Pointer(of) if !value.is_null() => shape(of, value),
        Type::List(of) => {
            for item in value.as_array_mut().into_iter().flatten() {
                shape(of, item);
            }
        }
        Type::Map { of, .. } => {
            for (_, item) in value.as_object_mut().into_iter().flatten() {
                shape(of, item);
            }
        }
        Type::Message(index) => {
            if !value.is_object() {
                *value = json!({});
            }
            if let (Some(message), Some(fields)) = (TABLE.message(*index), value.as_object_mut()) {
                complete(message, fields);
            }
        }
        _ if value.is_null() => *value = zero(type_),
        _ => {}
    }
}

fn zero(type_: &Type) -> Value {
    match type_ {
        Type::Named { of, .. } => zero(of),
        Type::Message(_) => {
            let mut value = Value::Null;
            shape(type_, &mut value);
            value
        }
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
