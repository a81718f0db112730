//! Kubernetes' protobuf: bodies as client-go sends them, read as the objects that they would be in JSON.
//!
//! Only bodies: answers are JSON, which every client that speaks protobuf accepts too, and reads by their
//! `Content-Type`.

mod form;
mod table;
mod wire;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;

use crate::body::quantity;
use crate::json::{Map, Value, json};
use table::Field;
use wire::{Reader, Wire};

pub(crate) use form::{complete, put_in_form};
pub(crate) use table::{Message, TABLE, Type};

const MAGIC: &[u8] = b"k8s\0";

/// How deep messages may be in messages. No kind needs half of it, and it fits on every stack.
const DEPTH_MAX: usize = 100;

/// A body that has not been opened: what it says it is, and its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Envelope<'a> {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    message: &'a [u8],
}

impl<'a> Envelope<'a> {
    /// What is wrong is said in the server's words.
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Self, String> {
        if bytes.is_empty() {
            return Err("empty data".to_owned());
        }
        let Some(rest) = bytes.strip_prefix(MAGIC) else {
            return Err(
                "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
                    .to_owned(),
            );
        };
        if rest.is_empty() {
            return Err("empty body".to_owned());
        }
        let mut envelope = Self { api_version: String::new(), kind: String::new(), message: &[] };
        let mut reader = Reader::new(rest);
        while let Some((number, wire)) = reader.field("Unknown")? {
            match (number, wire) {
                (1, Wire::Bytes(bytes)) => envelope.name(bytes)?,
                (2, Wire::Bytes(bytes)) => envelope.message = bytes,
                (1, wire) => return Err(wrong_form(wire, "TypeMeta")),
                (2, wire) => return Err(wrong_form(wire, "Raw")),
                _ => {}
            }
        }
        Ok(envelope)
    }

    fn name(&mut self, bytes: &[u8]) -> Result<(), String> {
        let mut reader = Reader::new(bytes);
        while let Some((number, wire)) = reader.field("TypeMeta")? {
            match (number, wire) {
                (1, Wire::Bytes(bytes)) => self.api_version = text(bytes),
                (2, Wire::Bytes(bytes)) => self.kind = text(bytes),
                (1, wire) => return Err(wrong_form(wire, "APIVersion")),
                (2, wire) => return Err(wrong_form(wire, "Kind")),
                _ => {}
            }
        }
        Ok(())
    }

    /// The message as an object, as a JSON client would send it.
    pub(crate) fn open(&self, message: &Message) -> Result<Map, String> {
        let mut fields = Map::new();
        read_message(message, self.message, &mut fields, 0)?;
        complete(message, &mut fields);
        Ok(fields)
    }
}

fn read_message(message: &Message, bytes: &[u8], fields: &mut Map, depth: usize) -> Result<(), String> {
    if depth > DEPTH_MAX {
        return Err("exceeded max depth".to_owned());
    }
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.field(message.short_name())? {
        let Some(field) = message.numbered(number) else { continue };
        if field.is_inline {
            if let (Some(inline), Wire::Bytes(bytes)) = (field.type_.message(&TABLE), wire) {
                read_message(inline, bytes, fields, depth + 1)?;
                continue;
            }
            return Err(wrong_form(wire, &field.name));
        }
        let slot = fields.entry(&field.name).or_insert(Value::Null);
        read_value(&field.type_, wire, slot, depth).map_err(|wrong| wrong.said(field))?;
    }
    Ok(())
}

/// What is wrong with a value.
enum Wrong {
    Form(u8),
    Said(String),
}

impl Wrong {
    fn said(self, field: &Field) -> String {
        match self {
            Self::Form(form) => {
                // Go's fields are called as in JSON, but for the first letter, and this one.
                let mut name = field.name.replace("metadata", "ObjectMeta");
                if let Some(first) = name.get_mut(..1) {
                    first.make_ascii_uppercase();
                }
                format!("proto: wrong wireType = {form} for field {name}")
            }
            Self::Said(said) => said,
        }
    }
}

impl From<String> for Wrong {
    fn from(said: String) -> Self {
        Self::Said(said)
    }
}

fn wrong_form(wire: Wire<'_>, name: &str) -> String {
    format!("proto: wrong wireType = {} for field {name}", wire.form())
}

fn read_value(type_: &Type, wire: Wire<'_>, slot: &mut Value, depth: usize) -> Result<(), Wrong> {
    match (type_, wire) {
        (Type::Named { of, is_message: true, .. }, Wire::Bytes(bytes)) => {
            *slot = json!([]);
            each_part(bytes, |_, wire| read_value(of, wire, slot, depth + 1))?;
        }
        (Type::Pointer(of) | Type::Named { of, .. }, wire) => read_value(of, wire, slot, depth)?,
        (Type::List(of), wire) => {
            if !slot.is_array() {
                *slot = json!([]);
            }
            let Some(items) = slot.as_array_mut() else { return Ok(()) };
            match wire {
                // Numbers may come packed.
                Wire::Bytes(bytes) if matches!(**of, Type::Int32 | Type::Int64 | Type::Bool) => {
                    let mut reader = Reader::new(bytes);
                    while !reader.is_done() {
                        items.push(number(of, reader.varint()?));
                    }
                }
                wire => {
                    let mut item = Value::Null;
                    read_value(of, wire, &mut item, depth)?;
                    items.push(item);
                }
            }
        }
        (Type::Map { of, .. }, Wire::Bytes(bytes)) => {
            let (mut key, mut value) = (String::new(), Value::Null);
            each_part(bytes, |number, wire| match (number, wire) {
                (1, Wire::Bytes(bytes)) => {
                    key = text(bytes);
                    Ok(())
                }
                (2, wire) => read_value(of, wire, &mut value, depth),
                _ => Ok(()),
            })?;
            if value.is_null() && matches!(**of, Type::Bytes) {
                value = json!("");
            }
            if !slot.is_object() {
                *slot = json!({});
            }
            if let Some(fields) = slot.as_object_mut() {
                fields.insert(key, value);
            }
        }
        (Type::Message(index), Wire::Bytes(bytes)) => {
            if !slot.is_object() {
                *slot = json!({});
            }
            if let (Some(message), Some(fields)) = (TABLE.message(*index), slot.as_object_mut()) {
                read_message(message, bytes, fields, depth + 1)?;
            }
        }
        (Type::Int32 | Type::Int64 | Type::Bool, Wire::Varint(value)) => *slot = number(type_, value),
        (Type::Float64, Wire::Fixed64(bits)) => *slot = json!(f64::from_bits(bits)),
        (Type::String, Wire::Bytes(bytes)) => *slot = json!(text(bytes)),
        (Type::Bytes, Wire::Bytes(bytes)) => *slot = json!(STANDARD.encode(bytes)),
        (_, Wire::Bytes(bytes)) => *slot = own_form(type_, bytes, depth)?,
        (_, wire) => return Err(Wrong::Form(wire.form())),
    }
    Ok(())
}

/// Of the types that are written in a way of their own.
fn own_form(type_: &Type, bytes: &[u8], depth: usize) -> Result<Value, Wrong> {
    let (mut numbers, mut texts, mut schemas) = ([0_u64; 3], [&[][..]; 4], Vec::new());
    let mut strings = Vec::new();
    each_part(bytes, |number, wire| {
        let at = usize::try_from(number).unwrap_or(usize::MAX);
        match wire {
            Wire::Varint(value) => {
                if let Some(slot) = numbers.get_mut(at) {
                    *slot = value;
                }
            }
            Wire::Bytes(bytes) => {
                if let Some(slot) = texts.get_mut(at) {
                    *slot = bytes;
                }
                if number == 2 {
                    schemas.push(bytes);
                    strings.push(text(bytes));
                }
            }
            _ => {}
        }
        Ok(())
    })?;
    let [_, first, second] = numbers;
    let [_, one, two, three] = texts;
    let seconds = first.cast_signed();
    let at = || Timestamp::new(seconds, int32(second)).ok();
    Ok(match type_ {
        Type::Quantity if one.is_empty() => json!("0"),
        Type::Quantity => json!(quantity::canonical(&text(one))?),
        Type::IntOrString if first == 0 => json!(int32(second)),
        Type::IntOrString => json!(text(three)),
        // A time that nobody set has no bytes.
        Type::Time | Type::MicroTime if bytes.is_empty() => Value::Null,
        Type::Time => at().map_or(Value::Null, crate::object::time),
        Type::MicroTime => at().map_or(Value::Null, crate::object::micro_time),
        Type::Raw(_) => serde_json::from_slice(one).unwrap_or_default(),
        Type::SchemaOrArray if !schemas.is_empty() => {
            let schemas: Result<Vec<Value>, Wrong> =
                schemas.into_iter().map(|bytes| schema(bytes, depth)).collect();
            Value::from(schemas?)
        }
        Type::SchemaOrStringArray if !strings.is_empty() => json!(strings),
        Type::SchemaOrBool if two.is_empty() && schemas.is_empty() => json!(first != 0),
        Type::SchemaOrBool => schema(two, depth)?,
        Type::SchemaOrArray | Type::SchemaOrStringArray if bytes.is_empty() => Value::Null,
        _ => schema(one, depth)?,
    })
}

fn schema(bytes: &[u8], depth: usize) -> Result<Value, Wrong> {
    let Some(message) = TABLE.named("apiextensions.v1.JSONSchemaProps") else { return Ok(Value::Null) };
    let mut fields = Map::new();
    read_message(message, bytes, &mut fields, depth + 1)?;
    complete(message, &mut fields);
    Ok(Value::Object(fields))
}

fn each_part<'a>(
    bytes: &'a [u8],
    mut read: impl FnMut(u32, Wire<'a>) -> Result<(), Wrong>,
) -> Result<(), Wrong> {
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.field("Unknown")? {
        read(number, wire)?;
    }
    Ok(())
}

fn number(type_: &Type, value: u64) -> Value {
    match type_ {
        Type::Bool => json!(value != 0),
        Type::Int32 => json!(int32(value)),
        _ => json!(value.cast_signed()),
    }
}

/// Longer numbers are cut, as Go cuts them.
fn int32(value: u64) -> i32 {
    let [a, b, c, d, ..] = value.to_le_bytes();
    i32::from_le_bytes([a, b, c, d])
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests;
