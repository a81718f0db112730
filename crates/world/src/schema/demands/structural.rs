//! That a schema is structural: every field has a type, and logic says nothing about shape.

use std::collections::BTreeSet;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps as Props, JSONSchemaPropsOrBool,
};

use super::{each, items, property, text};
use crate::failure::Cause;
use crate::schema::format::Pattern;
use crate::schema::said::{child, entry, forbidden, invalid, invalid_text, required};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// That the schema is structural: every field has a type, and logic says nothing about shape.
pub(in crate::schema) fn structural(props: &Props, path: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    shape(props, Level::Root, path, &mut causes);
    complete(props, Some(props), path, path, &mut causes);
    causes.sort_by_key(ToString::to_string);
    causes
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
