//! What Kubernetes demands of a schema before it serves objects by it.

mod open_api;
mod rule;
mod structural;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps as Props, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};

use super::said::{child, entry, invalid, shown};
use super::{Schema, check, embedded, fill, rules};
use crate::failure::Cause;

pub(super) use open_api::open_api;
pub(super) use structural::structural;

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

/// The server shows the rule with a space before the line that is drawn at its left.
pub(super) fn in_margin(error: &str) -> String {
    error.replace("\n| ", "\n | ")
}
