//! That a schema is one of OpenAPI, with the words that Kubernetes takes and its own.

use std::collections::BTreeSet;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps as Props, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};

use super::rule::{compiled, rule_words};
use super::{items, property, text};
use crate::failure::Cause;
use crate::json::json;
use crate::schema::said::{
    child, entry, forbidden, invalid, invalid_text, json as go_json, not_supported, quoted, required,
};
use crate::schema::{Schema, Type};

/// That the schema is one of OpenAPI, and that its rules are rules.
pub(in crate::schema) fn open_api(
    props: &Props,
    schema: &Schema,
    path: &str,
    with_rules: bool,
) -> Vec<Cause> {
    let mut found = Found::default();
    let within = Within { is_root: true, ..Within::default() };
    open(props, with_rules.then_some(schema), path, &within, &mut found);
    found.of_schema.append(&mut found.of_rules);
    found.of_schema
}

#[derive(Default)]
pub(super) struct Found {
    pub(super) of_schema: Vec<Cause>,
    pub(super) of_rules: Vec<Cause>,
}

/// What lies around a part of a schema.
#[derive(Clone, Default)]
pub(super) struct Within {
    pub(super) is_root: bool,
    is_in_meta: bool,
    /// Why there may be no defaults.
    no_defaults: Option<String>,
    /// The list or object inside which old and new cannot be told to be the same.
    pub(super) uncorrelated: Option<String>,
}

/// `schema` is none where rules are not looked at.
fn open(props: &Props, schema: Option<&Schema>, path: &str, within: &Within, found: &mut Found) {
    let at = |name: &str| child(path, name);
    let before = found.of_schema.len();
    plain(props, path, within, &mut found.of_schema);
    if props.unique_items == Some(true) {
        let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        found.of_schema.push(forbidden(&at("uniqueItems"), detail));
    }
    let inner = Within { is_root: false, ..within.clone() };
    if let Some(additional) = &props.additional_properties {
        let has_properties = props.properties.as_ref().is_some_and(|all| !all.is_empty());
        if has_properties && *additional != JSONSchemaPropsOrBool::Bool(true) {
            let detail = "additionalProperties and properties are mutual exclusive";
            found.of_schema.push(forbidden(&at("additionalProperties"), detail));
        }
        if let JSONSchemaPropsOrBool::Schema(each) = additional {
            let mut inner = inner.clone();
            if within.is_in_meta {
                inner.no_defaults =
                    Some("inside additionalProperties applying to object metadata".to_owned());
            }
            let schema = schema.and_then(|schema| schema.additional.each());
            open(each, schema, &at("additionalProperties"), &inner, found);
        }
    }
    let is_resource = within.is_root || props.x_kubernetes_embedded_resource == Some(true);
    for (name, of) in props.properties.iter().flatten() {
        let mut inner = inner.clone();
        if is_resource && ["metadata", "kind", "apiVersion"].contains(&name.as_str()) {
            inner.is_in_meta = true;
            if within.is_root {
                inner.no_defaults = Some(format!("in top-level {name}"));
            }
        }
        let schema = schema.and_then(|schema| schema.properties.get(name));
        open(of, schema, &property(path, name), &inner, found);
    }
    if let Some(not) = &props.not {
        open(not, None, &at("not"), &inner, found);
    }
    for (name, branches) in [("allOf", &props.all_of), ("oneOf", &props.one_of), ("anyOf", &props.any_of)] {
        for (index, one) in branches.iter().flatten().enumerate() {
            open(one, None, &entry(&at(name), index), &inner, found);
        }
    }
    if let Some(of) = items(props) {
        let mut inner = inner.clone();
        if props.x_kubernetes_list_type.as_deref() != Some("map") && inner.uncorrelated.is_none() {
            inner.uncorrelated = Some(path.to_owned());
        }
        let schema = schema.and_then(|schema| schema.items.as_deref());
        open(of, schema, &at("items"), &inner, found);
    }
    extensions(props, path, &mut found.of_schema);
    for (index, rule) in props.x_kubernetes_validations.iter().flatten().enumerate() {
        let field = entry(&at("x-kubernetes-validations"), index);
        rule_words(rule, &field, &mut found.of_schema);
    }
    let is_fine = found.of_schema.len() == before;
    for (index, rule) in props.x_kubernetes_validations.iter().flatten().enumerate() {
        let Some(schema) = schema.filter(|_| is_fine) else { break };
        let field = entry(&at("x-kubernetes-validations"), index);
        compiled(rule, schema, &field, within, found);
    }
}

/// OpenAPI's words that Kubernetes does not take.
fn plain(props: &Props, path: &str, within: &Within, causes: &mut Vec<Cause>) {
    let at = |name: &str| child(path, name);
    let type_ = text(props.type_.as_ref());
    if !type_.is_empty() && Type::named(type_).is_none() {
        let supported: Vec<String> = Type::ALL.iter().map(|type_| type_.name().to_owned()).collect();
        causes.push(not_supported(&at("type"), &quoted(type_), &supported));
    }
    if let (Some(why), Some(_)) = (&within.no_defaults, &props.default) {
        causes.push(forbidden(&at("default"), &format!("must not be set {why}")));
    }
    let is_list = matches!(&props.items, Some(JSONSchemaPropsOrArray::Schemas(_)));
    let has_patterns = props.pattern_properties.as_ref().is_some_and(|all| !all.is_empty());
    let has_definitions = props.definitions.as_ref().is_some_and(|all| !all.is_empty());
    for (name, is_said, detail) in [
        ("id", props.id.as_ref().is_some_and(|id| !id.is_empty()), "id is not supported"),
        ("additionalItems", props.additional_items.is_some(), "additionalItems is not supported"),
        ("patternProperties", has_patterns, "patternProperties is not supported"),
        ("definitions", has_definitions, "definitions is not supported"),
        ("dependencies", props.dependencies.is_some(), "dependencies is not supported"),
        ("$ref", props.ref_path.is_some(), "$ref is not supported"),
        ("type", type_ == "null", "type cannot be set to null, use nullable as an alternative"),
        ("items", is_list, "items must be a schema object and not an array"),
        (
            "x-kubernetes-embedded-resource",
            within.is_in_meta && props.x_kubernetes_embedded_resource == Some(true),
            "must not be used inside of resource meta",
        ),
    ] {
        if is_said {
            causes.push(forbidden(&at(name), detail));
        }
    }
}

/// Kubernetes' own words in a schema.
fn extensions(props: &Props, path: &str, causes: &mut Vec<Cause>) {
    let at = |name: &str| child(path, name);
    let type_ = text(props.type_.as_ref());
    if props.x_kubernetes_preserve_unknown_fields == Some(false) {
        let field = at("x-kubernetes-preserve-unknown-fields");
        causes.push(invalid(&field, "false", "must be true or undefined"));
    }
    let must_be = |wanted: &str, by: &str| {
        let detail = format!("must be {wanted} if {by} is specified");
        match type_ {
            "" => required(&at("type"), &detail),
            type_ => invalid_text(&at("type"), type_, &detail),
        }
    };
    if let Some(map) = &props.x_kubernetes_map_type {
        if type_ != "object" {
            causes.push(must_be("object", "x-kubernetes-map-type"));
        }
        if !["atomic", "granular"].contains(&map.as_str()) {
            let supported = ["atomic", "granular"].map(str::to_owned);
            causes.push(not_supported(&at("x-kubernetes-map-type"), &quoted(map), &supported));
        }
    }
    let list = props.x_kubernetes_list_type.as_deref();
    let of = items(props);
    if let Some(list) = list {
        if type_ != "array" {
            causes.push(must_be("array", "x-kubernetes-list-type"));
        } else if let (Some(of), "set") = (of, list) {
            let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
            let inner = of.x_kubernetes_list_type.as_deref();
            let field = at("items");
            match of.type_.as_deref() {
                Some("array") if inner.is_some_and(|list| list != "atomic") => {
                    let field = child(&field, "x-kubernetes-list-type");
                    causes.push(invalid(&field, &quoted(inner.unwrap_or_default()), detail));
                }
                Some("object") if of.x_kubernetes_map_type.as_deref() != Some("atomic") => {
                    let value = inner.map_or_else(|| "null".to_owned(), quoted);
                    causes.push(invalid(&child(&field, "x-kubernetes-map-type"), &value, detail));
                }
                _ => {}
            }
        }
        if !["atomic", "set", "map"].contains(&list) {
            let supported = ["atomic", "set", "map"].map(str::to_owned);
            causes.push(not_supported(&at("x-kubernetes-list-type"), &quoted(list), &supported));
        }
    }
    let keys = props.x_kubernetes_list_map_keys.as_deref().unwrap_or_default();
    if !keys.is_empty() && list != Some("map") {
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        let field = at("x-kubernetes-list-type");
        causes.push(match list {
            None => required(&field, detail),
            Some(list) => invalid_text(&field, list, detail),
        });
    }
    if list == Some("map") {
        map_keys(props, keys, path, causes);
    }
    if let (Some(of), Some(list @ ("set" | "map"))) = (of, list)
        && of.nullable == Some(true)
    {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list}");
        causes.push(forbidden(&child(&at("items"), "nullable"), &detail));
    }
    if let (Some(of), Some("map")) = (of, list) {
        map_key_values(of, keys, path, causes);
    }
}

fn map_keys(props: &Props, keys: &[String], path: &str, causes: &mut Vec<Cause>) {
    let at = |name: &str| child(path, name);
    let keys_at = at("x-kubernetes-list-map-keys");
    if keys.is_empty() {
        causes.push(required(&keys_at, "must not be empty if x-kubernetes-list-type is map"));
    }
    if props.items.is_none() {
        causes.push(required(&at("items"), "must have a schema if x-kubernetes-list-type is map"));
    }
    let Some(of) = items(props) else { return };
    let type_ = text(of.type_.as_ref());
    if type_ != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        causes.push(invalid_text(&child(&at("items"), "type"), type_, detail));
        return;
    }
    let mut seen = BTreeSet::new();
    for key in keys {
        match of.properties.as_ref().and_then(|all| all.get(key)) {
            Some(found) if ["array", "object"].contains(&text(found.type_.as_ref())) => {
                let field = child(&property(&at("items"), key), "type");
                let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                causes.push(invalid_text(&field, type_, detail));
            }
            Some(_) => {}
            None => {
                let detail = "entries must all be names of item properties";
                causes.push(invalid(&keys_at, &go_json(&json!(keys)), detail));
            }
        }
        if !seen.insert(key) {
            causes.push(invalid(&keys_at, &go_json(&json!(keys)), "must not contain duplicate entries"));
        }
    }
}

/// What tells the items apart is always there.
fn map_key_values(of: &Props, keys: &[String], path: &str, causes: &mut Vec<Cause>) {
    let at = child(path, "items");
    for key in keys {
        let Some(found) = of.properties.as_ref().and_then(|all| all.get(key)) else { continue };
        let is_required = of.required.iter().flatten().any(|name| name == key);
        if !is_required && found.default.is_none() {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            causes.push(required(&child(&property(&at, key), "default"), detail));
        }
        if found.nullable == Some(true) {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            causes.push(forbidden(&child(&property(&at, key), "nullable"), detail));
        }
    }
}
