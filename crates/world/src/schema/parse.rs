//! From OpenAPI's words to a [`Schema`].

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use serde::Deserialize;

use super::format::{Format, Pattern};
use super::rules::Rule;
use super::said::invalid;
use super::{Additional, Bound, Checks, ListType, Schema, Type, demands};
use crate::failure::Cause;
use crate::json::Value;

pub(super) fn props(value: &Value) -> Result<JSONSchemaProps, Vec<Cause>> {
    JSONSchemaProps::deserialize(value).map_err(|error| vec![invalid("", "\"\"", &error.to_string())])
}

impl Schema {
    /// `path` is where the schema is in its definition.
    pub(crate) fn from_props(props: &JSONSchemaProps, path: &str) -> Result<Self, Vec<Cause>> {
        let mut causes = demands::structural(props, path);
        let schema = built(props);
        if causes.is_empty() {
            causes = demands::defaults(&schema, path);
        }
        causes.extend(demands::open_api(props, &schema, path, causes.is_empty()));
        if causes.is_empty() { Ok(schema) } else { Err(causes) }
    }
}

/// As good as it can be: what does not make sense has been refused.
fn built(props: &JSONSchemaProps) -> Schema {
    let type_ = props.type_.as_deref().and_then(Type::named);
    let is_int_or_string = props.x_kubernetes_int_or_string == Some(true);
    let mut schema = Schema {
        type_: if is_int_or_string { None } else { type_ },
        properties: props
            .properties
            .iter()
            .flatten()
            .map(|(name, property)| (name.clone(), built(property)))
            .collect(),
        additional: match &props.additional_properties {
            None => Additional::Unsaid,
            Some(JSONSchemaPropsOrBool::Bool(true)) => Additional::Anything,
            Some(JSONSchemaPropsOrBool::Bool(false)) => Additional::Nothing,
            Some(JSONSchemaPropsOrBool::Schema(each)) => Additional::Each(Box::new(built(each))),
        },
        items: match &props.items {
            Some(JSONSchemaPropsOrArray::Schema(items)) => Some(Box::new(built(items))),
            Some(JSONSchemaPropsOrArray::Schemas(_)) | None => None,
        },
        list: match props.x_kubernetes_list_type.as_deref() {
            Some("set") => ListType::Set,
            Some("map") => ListType::Map(props.x_kubernetes_list_map_keys.clone().unwrap_or_default()),
            _ => ListType::Atomic,
        },
        is_atomic_map: props.x_kubernetes_map_type.as_deref() == Some("atomic"),
        preserves_unknown: props.x_kubernetes_preserve_unknown_fields == Some(true),
        is_embedded: props.x_kubernetes_embedded_resource == Some(true),
        is_int_or_string,
        is_nullable: props.nullable == Some(true),
        default: props
            .default
            .as_ref()
            .map(|default| Value::from(default.0.clone()))
            .filter(|default| !default.is_null()),
        checks: checks(props),
        rules: Vec::new(),
    };
    let rules = props.x_kubernetes_validations.iter().flatten();
    schema.rules = rules.filter_map(|rule| Rule::parse(rule, &schema).ok()).collect();
    schema
}

fn checks(props: &JSONSchemaProps) -> Checks {
    let all = |schemas: &Option<Vec<JSONSchemaProps>>| schemas.iter().flatten().map(built).collect();
    let bound = |value: Option<f64>, exclusive: Option<bool>| {
        value.map(|value| Bound { value, is_exclusive: exclusive == Some(true) })
    };
    let is_either = props.x_kubernetes_int_or_string == Some(true);
    let only_type = if is_either { None } else { props.type_.as_deref().and_then(Type::named) };
    Checks {
        format: props.format.as_deref().and_then(|name| Format::named(name, only_type)),
        maximum: bound(props.maximum, props.exclusive_maximum),
        minimum: bound(props.minimum, props.exclusive_minimum),
        multiple_of: props.multiple_of,
        max_length: props.max_length,
        min_length: props.min_length,
        pattern: props.pattern.as_deref().and_then(|pattern| Pattern::parse(pattern).ok()),
        max_items: props.max_items,
        min_items: props.min_items,
        max_properties: props.max_properties,
        min_properties: props.min_properties,
        required: props.required.clone().unwrap_or_default(),
        one_of_values: props.enum_.iter().flatten().map(|value| Value::from(value.0.clone())).collect(),
        all_of: all(&props.all_of),
        any_of: all(&props.any_of),
        one_of: all(&props.one_of),
        not: props.not.as_ref().map(|not| Box::new(built(not))),
    }
}
