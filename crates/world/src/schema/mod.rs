//! Structural schemas: what a CustomResourceDefinition says about its objects.
//!
//! A schema is parsed once, with the demands that Kubernetes makes of it. Then it fills in defaults, drops
//! what it does not know, and judges objects with the words and in the order of the API server. Where the
//! server's own order is that of a Go map, here it is that of the names.

mod check;
mod condition;
mod demands;
mod embedded;
mod fill;
mod format;
mod lists;
mod parse;
mod paths;
pub(crate) mod rules;
pub(crate) mod said;
#[cfg(test)]
mod tests;
mod typed;

use std::collections::BTreeMap;

use crate::failure::{Cause, CauseReason};
use crate::json::Value;
pub(crate) use condition::check_condition;
use format::{Format, Pattern};
use rules::Rule;

/// The schema of one value, with those of what is in it.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of OpenAPI of its own")]
pub struct Schema {
    /// None where anything may be there, and where it is a number or a string.
    pub type_: Option<Type>,
    pub properties: BTreeMap<String, Schema>,
    pub additional: Additional,
    pub items: Option<Box<Schema>>,
    pub list: ListType,
    /// The object is owned as a whole.
    pub is_atomic_map: bool,
    pub preserves_unknown: bool,
    pub is_embedded: bool,
    pub is_int_or_string: bool,
    pub is_nullable: bool,
    pub default: Option<Value>,
    checks: Checks,
    rules: Vec<Rule>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

/// What may be in an object beside its properties.
#[derive(Debug, Default)]
pub enum Additional {
    #[default]
    Unsaid,
    Anything,
    Nothing,
    Each(Box<Schema>),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ListType {
    #[default]
    Atomic,
    Set,
    /// By the names of the fields that tell the items apart.
    Map(Vec<String>),
}

/// What a value must fulfil beyond its type.
#[derive(Debug, Default)]
struct Checks {
    format: Option<Format>,
    maximum: Option<Bound>,
    minimum: Option<Bound>,
    multiple_of: Option<f64>,
    max_length: Option<i64>,
    min_length: Option<i64>,
    pattern: Option<Pattern>,
    max_items: Option<i64>,
    min_items: Option<i64>,
    max_properties: Option<i64>,
    min_properties: Option<i64>,
    required: Vec<String>,
    one_of_values: Vec<Value>,
    all_of: Vec<Schema>,
    any_of: Vec<Schema>,
    one_of: Vec<Schema>,
    not: Option<Box<Schema>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Bound {
    value: f64,
    is_exclusive: bool,
}

impl Schema {
    /// From `openAPIV3Schema`. The fields of the causes start there.
    pub fn parse(value: &Value) -> Result<Self, Vec<Cause>> {
        let props = parse::props(value)?;
        Self::from_props(&props, "")
    }

    /// Fills in what is missing and has a default. Nulls where null is not allowed are as good as missing.
    pub fn default(&self, object: &mut Value) {
        fill::drop_nulls(self, object);
        fill::defaults(self, object);
    }

    /// Drops the fields that the schema does not know.
    pub fn prune(&self, object: &mut Value) {
        self.prune_telling(object);
    }

    /// Like [`Self::prune`]; tells the paths of what it dropped, in order.
    pub fn prune_telling(&self, object: &mut Value) -> Vec<String> {
        let mut unknown = fill::prune_root(self, object);
        unknown.sort();
        unknown
    }

    /// What is wrong with `object`, which replaces `old`. What was wrong before and did not change is let be.
    pub fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        self.validate_with(&[], Vec::new(), object, old)
    }

    /// With `known` faults, which may keep the rules from being tried, and `others` that are told after those of
    /// the schema's shape.
    pub fn validate_with(
        &self,
        known: &[Cause],
        others: Vec<Cause>,
        object: &Value,
        old: Option<&Value>,
    ) -> Vec<Cause> {
        let mut causes = check::check(self, object, old, "");
        causes.extend(others);
        self.beyond_form(known, causes, object, old)
    }

    /// What is looked at whatever the form of an object.
    pub fn beyond_form(
        &self,
        known: &[Cause],
        mut causes: Vec<Cause>,
        object: &Value,
        old: Option<&Value>,
    ) -> Vec<Cause> {
        causes.extend(embedded::check(self, object, ""));
        if old.is_none_or(|old| lists::check(self, old, "").is_empty()) {
            causes.extend(lists::check(self, object, ""));
        }
        self.with_rules(known, causes, object, old)
    }

    /// As [`Self::validate`], for an update of the status alone.
    pub fn validate_status(&self, object: &Value, old: &Value) -> Vec<Cause> {
        self.validate_status_with(&[], Vec::new(), object, old)
    }

    pub fn validate_status_with(
        &self,
        known: &[Cause],
        others: Vec<Cause>,
        object: &Value,
        old: &Value,
    ) -> Vec<Cause> {
        let mut causes = match (self.properties.get("status"), object.get("status")) {
            (Some(schema), Some(status)) => check::check(schema, status, old.get("status"), "status"),
            _ => Vec::new(),
        };
        causes.extend(others);
        if lists::check(self, old, "").is_empty() {
            causes.extend(lists::check(self, object, ""));
        }
        self.with_rules(known, causes, object, Some(old))
    }

    /// The rules may rely on the rest: they are not tried on an object whose shape is wrong.
    fn with_rules(
        &self,
        known: &[Cause],
        mut causes: Vec<Cause>,
        object: &Value,
        old: Option<&Value>,
    ) -> Vec<Cause> {
        if !self.has_rules() {
            return causes;
        }
        if known.iter().chain(&causes).any(is_blocking) {
            let detail = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
            causes.push(said::invalid("", "null", detail));
        } else {
            causes.extend(rules::check(self, object, old, ""));
        }
        causes
    }

    fn has_rules(&self) -> bool {
        !self.rules.is_empty()
            || self.items.as_ref().is_some_and(|items| items.has_rules())
            || self.additional.each().is_some_and(Self::has_rules)
            || self.properties.values().any(Self::has_rules)
    }

    /// The schema of a field.
    pub fn field(&self, name: &str) -> Option<&Self> {
        self.properties.get(name).or_else(|| self.additional.each())
    }

    fn is(&self, type_: Type) -> bool {
        self.type_ == Some(type_)
    }
}

/// The field at a path such as `.spec.replicas`: its name in failures, and its schema; or why there is none.
pub(crate) fn field_of<'a>(schema: &'a Schema, path: &str) -> Result<(String, &'a Schema), String> {
    paths::resolve(path, schema, false)
}

fn is_blocking(cause: &Cause) -> bool {
    matches!(
        cause.reason,
        CauseReason::FieldValueNotSupported
            | CauseReason::FieldValueRequired
            | CauseReason::FieldValueTooLong
            | CauseReason::FieldValueTooMany
            | CauseReason::FieldValueTypeInvalid
    )
}

impl Additional {
    pub fn each(&self) -> Option<&Schema> {
        match self {
            Self::Each(schema) => Some(schema),
            Self::Unsaid | Self::Anything | Self::Nothing => None,
        }
    }

    fn is_said(&self) -> bool {
        !matches!(self, Self::Unsaid)
    }
}

impl Type {
    const ALL: [Self; 6] =
        [Self::Array, Self::Boolean, Self::Integer, Self::Number, Self::Object, Self::String];

    pub fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|type_| type_.name() == name)
    }
}

impl ListType {
    /// The item of `old` that is the same as `item`, only later.
    fn earlier<'a>(&self, item: &Value, old: &'a Value) -> Option<&'a Value> {
        let Self::Map(keys) = self else { return None };
        let old = old.as_array()?;
        old.iter().find(|old| keys.iter().all(|key| old.get(key) == item.get(key)))
    }
}
