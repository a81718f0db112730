//! JSON read into Go's types: with what they do not know told and dropped, and Go's words for what does not fit.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::json::{Json, number};
use super::{quantity, time};
use crate::json::{Map, Value, json};
use crate::object;
use crate::proto::{Message, TABLE, Type, complete};

/// No more is told of one body.
const STRICT_MAX: usize = 100;

const TIME: &str = "2006-01-02T15:04:05Z07:00";
const MICRO_TIME: &str = "2006-01-02T15:04:05.000000Z07:00";

/// What was read, and what only a strict reader minds: fields that are unknown or there twice, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) value: Value,
    pub(crate) strict: Vec<String>,
}

/// An object of a kind.
pub(crate) fn read(message: &Message, json: &Json) -> Result<Read, String> {
    let mut reader = Reader::default();
    let mut value = json!({});
    reader.message(message, json, &mut value)?;
    reader.finish(value, |fields| complete(message, fields))
}

/// A list of messages, which nobody keeps.
pub(crate) fn read_list(message: &'static str, json: &Json) -> Result<Read, String> {
    let Some(of) = TABLE.named(message) else { return Ok(Read::default()) };
    let mut reader = Reader::default();
    match json {
        Json::List(items) => {
            for (index, item) in items.iter().enumerate() {
                let mut value = json!({});
                reader.at(&format!("[{index}]"), |reader| reader.message(of, item, &mut value))?;
            }
        }
        Json::Null => {}
        other => {
            let name = message.split_once('.').map_or(message, |(_, name)| name);
            return Err(format!("json: cannot unmarshal {} into Go value of type []{name}", other.go_kind()));
        }
    }
    reader.finish(json.to_value(), |_| {})
}

/// Anything, of which only repetition is told.
pub(crate) fn read_untyped(json: &Json) -> Read {
    let mut reader = Reader::default();
    let value = reader.untyped(json);
    Read { value, strict: reader.strict }
}

#[derive(Default)]
struct Reader {
    strict: Vec<String>,
    /// As strict readers call it: `spec.containers[0]`.
    path: String,
    /// Of fields only, with those that are in line by their Go names.
    stack: Vec<String>,
    /// The innermost struct.
    within: String,
    /// The first value that does not fit: reading goes on, for a worse mistake may follow.
    misfit: Option<String>,
}

impl Reader {
    fn finish(self, mut value: Value, complete: impl FnOnce(&mut Map)) -> Result<Read, String> {
        if let Some(misfit) = self.misfit {
            return Err(misfit);
        }
        if let Some(fields) = value.as_object_mut() {
            complete(fields);
        }
        Ok(Read { value, strict: self.strict })
    }

    fn message(&mut self, message: &Message, json: &Json, slot: &mut Value) -> Result<(), String> {
        let fields = match json {
            Json::Object(fields) => fields,
            Json::Null => return Ok(()),
            other => {
                self.misfit(other.go_kind(), &message.go_text());
                return Ok(());
            }
        };
        if !slot.is_object() {
            *slot = json!({});
        }
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        for (key, json) in fields {
            let Some((way, field)) = message.find(&TABLE, key) else {
                self.mind("unknown", key);
                continue;
            };
            if !seen.insert(key) {
                self.mind("duplicate", key);
            }
            let Some(slots) = slot.as_object_mut() else { return Ok(()) };
            let slot = slots.entry(key).or_insert(Value::Null);
            let within = std::mem::replace(&mut self.within, message.short_name().to_owned());
            let depth = self.stack.len();
            self.stack.extend(way.into_iter().map(str::to_owned));
            self.stack.push(key.clone());
            self.at(&format!(".{key}"), |reader| reader.value(&field.type_, json, slot))?;
            self.stack.truncate(depth);
            self.within = within;
        }
        Ok(())
    }

    fn value(&mut self, type_: &Type, json: &Json, slot: &mut Value) -> Result<(), String> {
        match (type_, json) {
            (Type::Named { of, name, .. }, json) => match (&**of, json) {
                // Of a type with a name, the name is said.
                (of @ (Type::Map { .. } | Type::List(_)), json) => self.many(of, json, slot, name)?,
                (of, json) => self.scalar(of, json, slot, name)?,
            },
            (Type::Pointer(_), Json::Null) => *slot = Value::Null,
            (Type::Pointer(of), json) => {
                if slot.is_null() && matches!(**of, Type::Message(_)) {
                    *slot = json!({});
                }
                self.value(of, json, slot)?;
            }
            (Type::Map { .. } | Type::List(_), json) => {
                self.many(type_, json, slot, &TABLE.go_text(type_))?;
            }
            (Type::Message(index), Json::Object(_) | Json::Null) => {
                if let Some(message) = TABLE.message(*index) {
                    self.message(message, json, slot)?;
                }
            }
            (type_, json) => self.scalar(type_, json, slot, &TABLE.go_text(type_))?,
        }
        Ok(())
    }

    /// Lists and maps.
    fn many(&mut self, type_: &Type, json: &Json, slot: &mut Value, name: &str) -> Result<(), String> {
        match (type_, json) {
            (_, Json::Null) => *slot = Value::Null,
            (Type::List(of), Json::List(items)) => {
                let mut read = Vec::with_capacity(items.len());
                for (index, item) in items.iter().enumerate() {
                    let mut value = Value::Null;
                    self.at(&format!("[{index}]"), |reader| reader.value(of, item, &mut value))?;
                    read.push(value);
                }
                *slot = Value::from(read);
            }
            (Type::Map { of, .. }, Json::Object(fields)) => {
                if !slot.is_object() {
                    *slot = json!({});
                }
                let mut seen: BTreeSet<&str> = BTreeSet::new();
                for (key, json) in fields {
                    if !seen.insert(key) {
                        self.mind("duplicate", key);
                    }
                    let mut value = Value::Null;
                    self.at(&format!(".{key}"), |reader| reader.value(of, json, &mut value))?;
                    if value.is_null() && matches!(**of, Type::Bytes) {
                        value = json!("");
                    }
                    if let Some(slots) = slot.as_object_mut() {
                        slots.insert(key.clone(), value);
                    }
                }
            }
            (_, json) => self.misfit(json.go_kind(), name),
        }
        Ok(())
    }

    fn scalar(&mut self, type_: &Type, json: &Json, slot: &mut Value, name: &str) -> Result<(), String> {
        match (type_, json) {
            (Type::String, Json::Text(text)) => *slot = json!(text),
            (Type::Bool, Json::Bool(is)) => *slot = json!(is),
            (Type::Int32 | Type::Int64, Json::Number(digits)) => {
                let number = digits.parse::<i64>().ok();
                let fits = |number: &i64| matches!(type_, Type::Int64) || i32::try_from(*number).is_ok();
                match number.filter(fits) {
                    Some(number) => *slot = json!(number),
                    None => self.misfit(&format!("number {digits}"), name),
                }
            }
            (Type::Float64, Json::Number(digits)) => *slot = number(digits),
            (Type::Bytes, Json::Text(text)) => {
                let text: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
                match STANDARD.decode(&text) {
                    Ok(_) => *slot = json!(text),
                    Err(error) => self.save(illegal_base64(&text, &error)),
                }
            }
            (Type::Bytes, Json::Null) => *slot = Value::Null,
            (Type::String | Type::Bool | Type::Int32 | Type::Int64 | Type::Float64, Json::Null) => {}
            _ => return self.own_form(type_, json, slot, name),
        }
        Ok(())
    }

    /// Types that read themselves: what they do not understand ends the reading.
    fn own_form(&mut self, type_: &Type, json: &Json, slot: &mut Value, name: &str) -> Result<(), String> {
        *slot = match (type_, json) {
            (Type::Quantity, Json::Null) => json!("0"),
            (Type::Quantity, json) => {
                let text = match json {
                    Json::Text(text) => text.trim().to_owned(),
                    json => json.to_value().to_string(),
                };
                json!(quantity::canonical(&text)?)
            }
            (Type::IntOrString, Json::Text(text)) => json!(text),
            (Type::IntOrString, Json::Null) => json!(0),
            (Type::IntOrString, Json::Number(digits)) => match digits.parse::<i32>() {
                Ok(number) => json!(number),
                Err(_) => return Err(self.said(&format!("number {digits}"), "int32")),
            },
            (Type::IntOrString, json) => return Err(self.said(json.go_kind(), "int32")),
            (Type::Time | Type::MicroTime, Json::Null) => Value::Null,
            (Type::Time, Json::Text(text)) => object::time(time::parse(text, TIME)?),
            (Type::MicroTime, Json::Text(text)) => object::micro_time(time::parse(text, MICRO_TIME)?),
            (Type::Time | Type::MicroTime, json) => return Err(self.said(json.go_kind(), "string")),
            (Type::Raw(_), json) => json.to_value(),
            (Type::SchemaOrBool, Json::Bool(is)) => json!(is),
            (Type::SchemaOrArray, Json::List(items)) => {
                let schemas: Result<Vec<Value>, String> = items.iter().map(schema).collect();
                Value::from(schemas?)
            }
            (Type::SchemaOrStringArray, Json::List(_)) => json.to_value(),
            (Type::SchemaOrBool | Type::SchemaOrArray | Type::SchemaOrStringArray, Json::Object(_)) => {
                schema(json)?
            }
            (Type::SchemaOrBool, _) => return Err("boolean or JSON schema expected".to_owned()),
            (Type::SchemaOrArray | Type::SchemaOrStringArray, _) => Value::Null,
            (_, json) => {
                self.misfit(json.go_kind(), name);
                return Ok(());
            }
        };
        Ok(())
    }

    fn untyped(&mut self, json: &Json) -> Value {
        match json {
            Json::List(items) => {
                let items = items.iter().enumerate();
                items
                    .map(|(index, item)| self.at(&format!("[{index}]"), |reader| reader.untyped(item)))
                    .collect()
            }
            Json::Object(fields) => {
                let mut read = Map::new();
                for (key, json) in fields {
                    if read.contains_key(key) {
                        self.mind("duplicate", key);
                    }
                    let value = self.at(&format!(".{key}"), |reader| reader.untyped(json));
                    read.insert(key.clone(), value);
                }
                Value::Object(read)
            }
            json => json.to_value(),
        }
    }

    /// Does something one step further down.
    fn at<T>(&mut self, step: &str, work: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.path.len();
        self.path.push_str(if self.path.is_empty() { step.trim_start_matches('.') } else { step });
        let done = work(self);
        self.path.truncate(length);
        done
    }

    fn mind(&mut self, what: &str, key: &str) {
        let path = if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) };
        let told = format!("{what} field {path:?}");
        if self.strict.len() < STRICT_MAX && !self.strict.contains(&told) {
            self.strict.push(told);
        }
    }

    fn misfit(&mut self, value: &str, type_: &str) {
        let said = self.said(value, type_);
        self.save(said);
    }

    fn save(&mut self, said: String) {
        self.misfit.get_or_insert(said);
    }

    fn said(&self, value: &str, type_: &str) -> String {
        if self.stack.is_empty() {
            return format!("json: cannot unmarshal {value} into Go value of type {type_}");
        }
        let (within, field) = (&self.within, self.stack.join("."));
        format!("json: cannot unmarshal {value} into Go struct field {within}.{field} of type {type_}")
    }
}

/// Schemas in schemas are read by a reader that is not strict.
fn schema(json: &Json) -> Result<Value, String> {
    match TABLE.named("apiextensions.v1.JSONSchemaProps") {
        Some(message) => read(message, json).map(|read| read.value),
        None => Ok(Value::Null),
    }
}

fn illegal_base64(text: &str, error: &base64::DecodeError) -> String {
    let at = match error {
        base64::DecodeError::InvalidByte(at, _) => *at,
        // Where the four letters begin that are not all there.
        _ if !text.ends_with('=') => text.len() / 4 * 4,
        _ => text.len(),
    };
    format!("illegal base64 data at input byte {at}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(text: &str) -> Result<Read, String> {
        let message = TABLE.of_kind("v1", "Pod").ok_or("no pods")?;
        read(message, &Json::parse(text.as_bytes())?)
    }

    #[test]
    fn misfits_are_said_in_gos_words() {
        for (spec, expected) in [
            ("[]", "json: cannot unmarshal array into Go struct field Pod.spec of type v1.PodSpec"),
            (
                r#"{"containers": [{"imagePullPolicy": 3}]}"#,
                "json: cannot unmarshal number into Go struct field Container.spec.containers.imagePullPolicy of type v1.PullPolicy",
            ),
            (
                r#"{"containers": {"name": "a"}}"#,
                "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container",
            ),
            (
                r#"{"containers": [{"ports": [{"containerPort": 1.5}]}]}"#,
                "json: cannot unmarshal number 1.5 into Go struct field ContainerPort.spec.containers.ports.containerPort of type int32",
            ),
            (
                r#"{"containers": [{"ports": [{"containerPort": 99999999999}]}]}"#,
                "json: cannot unmarshal number 99999999999 into Go struct field ContainerPort.spec.containers.ports.containerPort of type int32",
            ),
            (
                r#"{"hostNetwork": "yes", "containers": [{"livenessProbe": {"httpGet": {"port": true}}}]}"#,
                "json: cannot unmarshal bool into Go struct field HTTPGetAction.spec.containers.livenessProbe.ProbeHandler.httpGet.port of type int32",
            ),
            (
                r#"{"containers": [{"resources": {"requests": {"cpu": true}}}]}"#,
                "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            ),
            (
                r#"{"nodeSelector": {"a": 1}}"#,
                "json: cannot unmarshal number into Go struct field PodSpec.spec.nodeSelector of type string",
            ),
            (
                r#"{"nodeSelector": ["a"]}"#,
                "json: cannot unmarshal array into Go struct field PodSpec.spec.nodeSelector of type map[string]string",
            ),
        ] {
            let text = format!(r#"{{"spec": {spec}}}"#);
            assert_eq!(pod(&text).map(|read| read.value), Err(expected.to_owned()), "{text}");
        }
    }

    #[test]
    fn strict_readers_mind_in_order() {
        let text = r#"{"metadata": {"name": "a", "foo": 1}, "foo": {"bar": 2}, "spec": {
            "nodeSelector": {"a": "b", "a": "c"}, "containers": [{"name": "x"}, {"name": "y", "Foo": 1, "name": "z"}]},
            "metadata": {"name": "b", "foo": 3, "bar": 5}}"#;
        let expected = [
            r#"unknown field "metadata.foo""#,
            r#"unknown field "foo""#,
            r#"duplicate field "spec.nodeSelector.a""#,
            r#"unknown field "spec.containers[1].Foo""#,
            r#"duplicate field "spec.containers[1].name""#,
            r#"duplicate field "metadata""#,
            r#"unknown field "metadata.bar""#,
        ];
        let read = pod(text).unwrap_or_default();
        assert_eq!(read.strict, expected);
        assert_eq!(
            read.value,
            json!({"metadata": {"name": "b"}, "status": {}, "spec": {"nodeSelector": {"a": "c"}, "containers": [
                {"name": "x", "resources": {}}, {"name": "z", "resources": {}},
            ]}})
        );
    }

    #[test]
    fn what_is_empty_is_left_out() {
        let text = r#"{"metadata": {"labels": null, "creationTimestamp": null}, "spec": {"hostNetwork": false, "volumes": [],
            "containers": [{"name": "a", "image": "", "resources": {"requests": {"cpu": 0.5, "memory": " 1024Mi ", "x": null}}}],
            "shareProcessNamespace": false, "priority": 0, "affinity": {}, "tolerations": [null]}}"#;
        let expected = json!({"metadata": {}, "status": {}, "spec": {"shareProcessNamespace": false, "priority": 0,
            "affinity": {}, "tolerations": [{}],
            "containers": [{"name": "a", "resources": {"requests": {"cpu": "500m", "memory": "1Gi", "x": "0"}}}]}});
        assert_eq!(pod(text).map(|read| read.value), Ok(expected));
    }
}
