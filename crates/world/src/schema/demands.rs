//! What Kubernetes demands of a schema before it serves objects by it.

use std::collections::BTreeSet;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps as Props, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool, ValidationRule,
};

use super::format::Pattern;
use super::rules::{Rule, Unfit};
use super::said::{
    child, entry, forbidden, invalid, invalid_text, json as go_json, not_supported, quoted, required, shown,
};
use super::{Schema, Type, check, embedded, fill, rules};
use crate::failure::Cause;
use crate::json::json;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// That the schema is structural: every field has a type, and logic says nothing about shape.
pub(super) fn structural(props: &Props, path: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    shape(props, Level::Root, path, &mut causes);
    complete(props, Some(props), path, path, &mut causes);
    causes.sort_by_key(ToString::to_string);
    causes
}

fn text(text: Option<&String>) -> &str {
    text.map_or("", String::as_str)
}

fn items(props: &Props) -> Option<&Props> {
    match &props.items {
        Some(JSONSchemaPropsOrArray::Schema(items)) => Some(items),
        Some(JSONSchemaPropsOrArray::Schemas(_)) | None => None,
    }
}

fn each(props: &Props) -> Option<&Props> {
    match &props.additional_properties {
        Some(JSONSchemaPropsOrBool::Schema(each)) => Some(each),
        Some(JSONSchemaPropsOrBool::Bool(_)) | None => None,
    }
}

fn property(path: &str, name: &str) -> String {
    entry(&child(path, "properties"), name)
}

fn shape(props: &Props, level: Level, path: &str, causes: &mut Vec<Cause>) {
    let type_ = text(props.type_.as_ref());
    let is_embedded = props.x_kubernetes_embedded_resource == Some(true);
    let is_either = props.x_kubernetes_int_or_string == Some(true);
    let preserves = props.x_kubernetes_preserve_unknown_fields == Some(true);
    let at = |name: &str| child(path, name);

    if type_ == "array" && props.items.is_none() {
        causes.push(required(&at("items"), "must be specified"));
    }
    if let Some(items) = items(props) {
        shape(items, Level::Item, &at("items"), causes);
    }
    for (name, of) in props.properties.iter().flatten() {
        shape(of, Level::Field, &property(path, name), causes);
    }
    if props.additional_properties.is_some() {
        if level == Level::Root {
            causes.push(forbidden(&at("additionalProperties"), "must not be used at the root"));
        }
        if is_embedded {
            let detail = "must not be used if x-kubernetes-embedded-resource is set";
            causes.push(forbidden(&at("additionalProperties"), detail));
        }
    }
    if let Some(each) = each(props) {
        shape(each, Level::Field, &at("additionalProperties"), causes);
    }
    let detail = "must be false if x-kubernetes-int-or-string is true";
    for (name, is_set) in
        [("x-kubernetes-preserve-unknown-fields", preserves), ("x-kubernetes-embedded-resource", is_embedded)]
    {
        if is_either && is_set {
            causes.push(invalid(&at(name), "true", detail));
        }
    }
    let skips_any_of = is_either_pattern(props.any_of.as_ref());
    let first = props.all_of.iter().flatten().next();
    let skips_first = first.is_some_and(|first| is_either_pattern(first.any_of.as_ref()));
    logic(props, skips_any_of, skips_first, path, causes);

    if is_embedded && type_ != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        causes.push(if type_.is_empty() {
            required(&at("type"), detail)
        } else {
            invalid_text(&at("type"), type_, detail)
        });
    } else if type_.is_empty() && !is_either && !preserves {
        let detail = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        causes.push(required(&at("type"), detail));
    }
    if level == Level::Root && !type_.is_empty() && type_ != "object" {
        causes.push(invalid_text(&at("type"), type_, "must be object at the root"));
    }
    meta(props, level, path, causes);
    if is_embedded && !preserves && props.properties.iter().flatten().next().is_none() {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        causes.push(required(&at("properties"), detail));
    }
}

/// What a schema may say about the fields that all objects have.
fn meta(props: &Props, level: Level, path: &str, causes: &mut Vec<Cause>) {
    let is_object = level == Level::Root || props.x_kubernetes_embedded_resource == Some(true);
    let of = |name: &str| props.properties.as_ref().and_then(|all| all.get(name));
    for name in ["kind", "apiVersion"] {
        if let Some(found) = of(name)
            && is_object
            && text(found.type_.as_ref()) != "string"
        {
            let field = child(&property(path, name), "type");
            causes.push(invalid_text(&field, text(found.type_.as_ref()), "must be string"));
        }
    }
    let Some(found) = of("metadata") else { return };
    let field = property(path, "metadata");
    if is_object && text(found.type_.as_ref()) != "object" {
        causes.push(invalid_text(&child(&field, "type"), text(found.type_.as_ref()), "must be object"));
    }
    if level == Level::Root {
        let mut rest = found.clone();
        let names: BTreeSet<&str> =
            found.properties.iter().flatten().map(|(name, _)| name.as_str()).collect();
        if names.iter().all(|name| ["name", "generateName"].contains(name)) {
            rest.properties = None;
        }
        rest.type_ = None;
        rest.default = None;
        if rest != Props::default() {
            let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
            causes.push(forbidden(&field, detail));
        }
    }
}

/// `anyOf` an integer and a string: the one place where logic may name types.
fn is_either_pattern(any_of: Option<&Vec<Props>>) -> bool {
    let of = |type_: &str| Props { type_: Some(type_.to_owned()), ..Props::default() };
    any_of.is_some_and(|any_of| any_of[..] == [of("integer"), of("string")])
}

fn logic(props: &Props, skips_any_of: bool, skips_first: bool, path: &str, causes: &mut Vec<Cause>) {
    if !skips_any_of {
        for (index, one) in props.any_of.iter().flatten().enumerate() {
            branch(one, false, &entry(&child(path, "anyOf"), index), causes);
        }
    }
    for (index, one) in props.all_of.iter().flatten().enumerate() {
        branch(one, skips_first && index == 0, &entry(&child(path, "allOf"), index), causes);
    }
    for (index, one) in props.one_of.iter().flatten().enumerate() {
        branch(one, false, &entry(&child(path, "oneOf"), index), causes);
    }
    if let Some(not) = &props.not {
        branch(not, false, &child(path, "not"), causes);
    }
    if let Some(pattern) = props.pattern.as_deref().filter(|pattern| !pattern.is_empty())
        && let Err(error) = Pattern::parse(pattern)
    {
        let detail = format!("must be a valid regular expression, but isn't: {error}");
        causes.push(invalid_text(&child(path, "pattern"), pattern, &detail));
    }
}

/// Logic may look at values, and not say what there is.
fn branch(props: &Props, skips_any_of: bool, path: &str, causes: &mut Vec<Cause>) {
    logic(props, skips_any_of, false, path, causes);
    if let Some(items) = items(props) {
        branch(items, false, &child(path, "items"), causes);
    }
    for (name, of) in props.properties.iter().flatten() {
        branch(of, false, &property(path, name), causes);
    }
    let has = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
    let is_true = |truth: Option<bool>| truth == Some(true);
    let says_more = matches!(
        props.additional_properties,
        Some(JSONSchemaPropsOrBool::Schema(_) | JSONSchemaPropsOrBool::Bool(true))
    );
    let keys = props.x_kubernetes_list_map_keys.as_ref().is_some_and(|keys| !keys.is_empty());
    let rules = props.x_kubernetes_validations.as_ref().is_some_and(|rules| !rules.is_empty());
    for (name, is_said, must) in [
        ("type", has(&props.type_), "empty"),
        ("additionalProperties", says_more, "undefined"),
        ("default", props.default.is_some(), "undefined"),
        ("title", has(&props.title), "empty"),
        ("description", has(&props.description), "empty"),
        ("nullable", is_true(props.nullable), "false"),
        (
            "x-kubernetes-preserve-unknown-fields",
            is_true(props.x_kubernetes_preserve_unknown_fields),
            "false",
        ),
        ("x-kubernetes-embedded-resource", is_true(props.x_kubernetes_embedded_resource), "false"),
        ("x-kubernetes-int-or-string", is_true(props.x_kubernetes_int_or_string), "false"),
        ("x-kubernetes-list-map-keys", keys, "empty"),
        ("x-kubernetes-list-type", props.x_kubernetes_list_type.is_some(), "undefined"),
        ("x-kubernetes-map-type", props.x_kubernetes_map_type.is_some(), "undefined"),
        ("x-kubernetes-validations", rules, "empty"),
    ] {
        if is_said {
            causes.push(forbidden(&child(path, name), &format!("must be {must} to be structural")));
        }
    }
    if props.properties.as_ref().is_some_and(|all| all.contains_key("metadata")) {
        causes.push(forbidden(&property(path, "metadata"), "must not be specified in a nested context"));
    }
}

/// What logic looks at is also described outside of it. `spine` is the description, at `path`; `props` is the
/// logic, at `logic_path`.
fn complete(props: &Props, spine: Option<&Props>, path: &str, logic_path: &str, causes: &mut Vec<Cause>) {
    if let Some(not) = props.not.as_deref() {
        complete_branch(not, spine, path, &child(logic_path, "not"), causes);
    }
    for (name, branches) in [("allOf", &props.all_of), ("anyOf", &props.any_of), ("oneOf", &props.one_of)] {
        for (index, one) in branches.iter().flatten().enumerate() {
            complete_branch(one, spine, path, &entry(&child(logic_path, name), index), causes);
        }
    }
}

fn complete_branch(
    props: &Props,
    spine: Option<&Props>,
    path: &str,
    logic_path: &str,
    causes: &mut Vec<Cause>,
) {
    let Some(spine) = spine else {
        causes.push(required(path, &format!("because it is defined in {logic_path}")));
        return;
    };
    complete(props, Some(spine), path, logic_path, causes);
    if let Some(of) = items(props) {
        complete_branch(of, items(spine), &child(path, "items"), &child(logic_path, "items"), causes);
    }
    for (name, of) in props.properties.iter().flatten() {
        let found = spine.properties.as_ref().and_then(|all| all.get(name));
        complete_branch(of, found, &property(path, name), &property(logic_path, name), causes);
    }
}

/// Every default fits its own schema.
pub(super) fn defaults(schema: &Schema, path: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    default_of(schema, path, &mut causes);
    causes
}

fn default_of(schema: &Schema, path: &str, causes: &mut Vec<Cause>) {
    if let Some(default) = &schema.default {
        let at = child(path, "default");
        let mut pruned = default.clone();
        fill::prune_part(schema, &mut pruned);
        if pruned != *default {
            causes.push(invalid(&at, &shown(default), "must not have unknown fields"));
        }
        let mut wrong = embedded::check(schema, default, &at);
        if wrong.is_empty() {
            wrong = check::check(schema, default, None, &at);
        }
        if wrong.is_empty() {
            wrong = rules::check(schema, default, Some(default), &at);
        }
        causes.extend(wrong);
    }
    if let Some(items) = &schema.items {
        default_of(items, &child(path, "items"), causes);
    }
    for (name, of) in &schema.properties {
        default_of(of, &property(path, name), causes);
    }
}

/// That the schema is one of OpenAPI, and that its rules are rules.
pub(super) fn open_api(props: &Props, schema: &Schema, path: &str, with_rules: bool) -> Vec<Cause> {
    let mut found = Found::default();
    let within = Within { is_root: true, ..Within::default() };
    open(props, with_rules.then_some(schema), path, &within, &mut found);
    found.of_schema.append(&mut found.of_rules);
    found.of_schema
}

#[derive(Default)]
struct Found {
    of_schema: Vec<Cause>,
    of_rules: Vec<Cause>,
}

/// What lies around a part of a schema.
#[derive(Clone, Default)]
struct Within {
    is_root: bool,
    is_in_meta: bool,
    /// Why there may be no defaults.
    no_defaults: Option<String>,
    /// The list or object inside which old and new cannot be told to be the same.
    uncorrelated: Option<String>,
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

const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

fn rule_words(rule: &ValidationRule, path: &str, causes: &mut Vec<Cause>) {
    let at = |name: &str| child(path, name);
    let breaks = |text: &str| text.contains(['\n', '\r']);
    let message = text(rule.message.as_ref());
    let trimmed = message.trim();
    if rule.rule.trim().is_empty() {
        causes.push(required(&at("rule"), "rule is not specified"));
    } else if !message.is_empty() && trimmed.is_empty() {
        causes.push(invalid_text(&at("message"), message, "must be non-empty if specified"));
    } else if breaks(trimmed) {
        causes.push(invalid_text(&at("message"), message, "must not contain line breaks"));
    } else if breaks(rule.rule.trim()) && trimmed.is_empty() {
        causes.push(required(&at("message"), "message must be specified if rule contains line breaks"));
    }
    let expression = text(rule.message_expression.as_ref());
    if !expression.is_empty() && expression.trim().is_empty() {
        causes.push(required(&at("messageExpression"), "messageExpression must be non-empty if specified"));
    }
    if let Some(reason) = rule.reason.as_deref().filter(|reason| !REASONS.contains(reason)) {
        causes.push(not_supported(&at("reason"), &quoted(reason), &REASONS.map(str::to_owned)));
    }
    let field_path = text(rule.field_path.as_ref());
    if !field_path.is_empty() && field_path.trim().is_empty() {
        causes.push(invalid_text(&at("fieldPath"), field_path, "must be non-empty if specified"));
    }
    if breaks(field_path) {
        causes.push(invalid_text(&at("fieldPath"), field_path, "must not contain line breaks"));
    }
}

fn compiled(rule: &ValidationRule, schema: &Schema, path: &str, within: &Within, found: &mut Found) {
    let at = |name: &str| child(path, name);
    let parsed = Rule::parse(rule, schema);
    let fitting = parsed.and_then(|parsed| parsed.fits(rule, schema, within.is_root).map(|()| parsed));
    match fitting {
        Err(Unfit::FieldPath) => {
            let field_path = text(rule.field_path.as_ref());
            found.of_schema.push(invalid_text(&at("fieldPath"), field_path, "must be a valid path"));
        }
        Err(Unfit::Rule(error)) => {
            found.of_rules.push(invalid(
                &at("rule"),
                &in_go(rule),
                &format!("compilation failed: {}", in_margin(&error)),
            ));
        }
        Err(Unfit::MessageExpression(error)) => {
            let detail = format!("messageExpression compilation failed: {}", in_margin(&error));
            found.of_rules.push(invalid(&at("messageExpression"), &in_go(rule), &detail));
        }
        Err(Unfit::Outcome) => {
            let detail = "cel expression must evaluate to a bool";
            found.of_rules.push(invalid(&at("rule"), &in_go(rule), detail));
        }
        Err(Unfit::MessageOutcome) => {
            let detail = "messageExpression must evaluate to a string";
            found.of_rules.push(invalid(&at("messageExpression"), &in_go(rule), detail));
        }
        Ok(parsed) if parsed.uses_old => {
            if let Some(around) = &within.uncorrelated {
                let detail = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {around}"
                );
                found.of_rules.push(invalid_text(&at("rule"), &rule.rule, &detail));
            }
        }
        Ok(_) => {
            if let Some(optional) = rule.optional_old_self {
                let detail = "may not be set if oldSelf is not used in rule";
                found.of_rules.push(invalid(&at("optionalOldSelf"), &optional.to_string(), detail));
            }
        }
    }
}

/// A rule as the API server prints its own type.
fn in_go(rule: &ValidationRule) -> String {
    let text = |text: &Option<String>| go_json(&json!(text.as_deref().unwrap_or_default()));
    format!(
        r#"{{"Rule":{},"Message":{},"MessageExpression":{},"Reason":{},"FieldPath":{},"OptionalOldSelf":{}}}"#,
        go_json(&json!(rule.rule)),
        text(&rule.message),
        text(&rule.message_expression),
        go_json(&json!(rule.reason)),
        text(&rule.field_path),
        go_json(&json!(rule.optional_old_self)),
    )
}

/// The server shows the rule with a space before the line that is drawn at its left.
pub(super) fn in_margin(error: &str) -> String {
    error.replace("\n| ", "\n | ")
}
