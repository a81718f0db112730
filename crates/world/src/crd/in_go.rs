//! Parts of a definition as the API server prints its own types in failures.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinitionVersion, JSONSchemaProps,
};

use crate::json::{self, Value, json};
use crate::schema::said::{json as go_json, json_text};

/// What an absent field is in Go.
#[derive(Clone, Copy)]
enum Zero {
    Text,
    Truth,
    Nothing,
}

/// How a field is made of the parts that JSON has.
#[derive(Clone, Copy)]
enum Made {
    Plain(Zero),
    Schema,
    Schemas,
    SchemaByName,
    SchemaOrList,
    SchemaOrBool,
    Rules,
}

const TEXT: Made = Made::Plain(Zero::Text);
const TRUTH: Made = Made::Plain(Zero::Truth);
const MAYBE: Made = Made::Plain(Zero::Nothing);

/// In the order of the server's type.
const SCHEMA: &[(&str, &str, Made)] = &[
    ("ID", "id", TEXT),
    ("Schema", "$schema", TEXT),
    ("Ref", "$ref", MAYBE),
    ("Description", "description", TEXT),
    ("Type", "type", TEXT),
    ("Nullable", "nullable", TRUTH),
    ("Format", "format", TEXT),
    ("Title", "title", TEXT),
    ("Default", "default", MAYBE),
    ("Maximum", "maximum", MAYBE),
    ("ExclusiveMaximum", "exclusiveMaximum", TRUTH),
    ("Minimum", "minimum", MAYBE),
    ("ExclusiveMinimum", "exclusiveMinimum", TRUTH),
    ("MaxLength", "maxLength", MAYBE),
    ("MinLength", "minLength", MAYBE),
    ("Pattern", "pattern", TEXT),
    ("MaxItems", "maxItems", MAYBE),
    ("MinItems", "minItems", MAYBE),
    ("UniqueItems", "uniqueItems", TRUTH),
    ("MultipleOf", "multipleOf", MAYBE),
    ("Enum", "enum", MAYBE),
    ("MaxProperties", "maxProperties", MAYBE),
    ("MinProperties", "minProperties", MAYBE),
    ("Required", "required", MAYBE),
    ("Items", "items", Made::SchemaOrList),
    ("AllOf", "allOf", Made::Schemas),
    ("OneOf", "oneOf", Made::Schemas),
    ("AnyOf", "anyOf", Made::Schemas),
    ("Not", "not", Made::Schema),
    ("Properties", "properties", Made::SchemaByName),
    ("AdditionalProperties", "additionalProperties", Made::SchemaOrBool),
    ("PatternProperties", "patternProperties", Made::SchemaByName),
    ("Dependencies", "dependencies", MAYBE),
    ("AdditionalItems", "additionalItems", Made::SchemaOrBool),
    ("Definitions", "definitions", Made::SchemaByName),
    ("ExternalDocs", "externalDocs", MAYBE),
    ("Example", "example", MAYBE),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", MAYBE),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", TRUTH),
    ("XIntOrString", "x-kubernetes-int-or-string", TRUTH),
    ("XListMapKeys", "x-kubernetes-list-map-keys", MAYBE),
    ("XListType", "x-kubernetes-list-type", MAYBE),
    ("XMapType", "x-kubernetes-map-type", MAYBE),
    ("XValidations", "x-kubernetes-validations", Made::Rules),
];

const RULE: &[(&str, &str, Made)] = &[
    ("Rule", "rule", TEXT),
    ("Message", "message", TEXT),
    ("MessageExpression", "messageExpression", TEXT),
    ("Reason", "reason", MAYBE),
    ("FieldPath", "fieldPath", TEXT),
    ("OptionalOldSelf", "optionalOldSelf", MAYBE),
];

const COLUMN: &[(&str, &str, Made)] = &[
    ("Name", "name", TEXT),
    ("Type", "type", TEXT),
    ("Format", "format", TEXT),
    ("Description", "description", TEXT),
];

/// The fields that a status subresource leaves for the root of a schema; the first of the others, if any.
pub(super) fn first_not_at_root(props: &JSONSchemaProps) -> Option<&'static str> {
    const ALLOWED: &[&str] = &[
        "Description",
        "Type",
        "Format",
        "Title",
        "Maximum",
        "ExclusiveMaximum",
        "Minimum",
        "ExclusiveMinimum",
        "MaxLength",
        "MinLength",
        "Pattern",
        "MaxItems",
        "MinItems",
        "UniqueItems",
        "MultipleOf",
        "Required",
        "Items",
        "Properties",
        "ExternalDocs",
        "Example",
        "XPreserveUnknownFields",
        "XValidations",
    ];
    let value = json::written(props);
    let is_said = |json: &str| value.get(json).is_some_and(|value| *value != json!(false));
    SCHEMA.iter().find(|(go, json, _)| is_said(json) && !ALLOWED.contains(go)).map(|(go, _, _)| *go)
}

pub(super) fn schema(props: &JSONSchemaProps) -> String {
    fields(SCHEMA, &json::written(props))
}

/// What all versions share is not told with each.
#[expect(clippy::struct_excessive_bools, reason = "each part of a version is shared or not by itself")]
pub(super) struct Shared {
    pub(super) schema: bool,
    pub(super) subresources: bool,
    pub(super) columns: bool,
    pub(super) selectable: bool,
}

pub(super) fn versions(versions: &[CustomResourceDefinitionVersion], shared: &Shared) -> String {
    let versions: Vec<String> = versions.iter().map(|version| self::version(version, shared)).collect();
    format!("[{}]", versions.join(","))
}

fn version(version: &CustomResourceDefinitionVersion, shared: &Shared) -> String {
    let null = || "null".to_owned();
    let schema = version.schema.as_ref().filter(|_| !shared.schema).map_or_else(null, |schema| {
        let schema = schema.open_api_v3_schema.as_ref().map_or_else(null, self::schema);
        format!(r#"{{"OpenAPIV3Schema":{schema}}}"#)
    });
    let subresources =
        version.subresources.as_ref().filter(|_| !shared.subresources).map_or_else(null, |sub| {
            let status = if sub.status.is_some() { "{}" } else { "null" };
            let scale = sub.scale.as_ref().map_or_else(null, |scale| {
                format!(
                    r#"{{"SpecReplicasPath":{},"StatusReplicasPath":{},"LabelSelectorPath":{}}}"#,
                    json_text(&scale.spec_replicas_path),
                    json_text(&scale.status_replicas_path),
                    go_json(&json!(scale.label_selector_path)),
                )
            });
            format!(r#"{{"Status":{status},"Scale":{scale}}}"#)
        });
    let columns =
        version.additional_printer_columns.as_ref().filter(|_| !shared.columns).map_or_else(null, |all| {
            let all = all.iter().map(|column| {
                let plain = fields(COLUMN, &json::written(column));
                let priority = column.priority.unwrap_or_default();
                let path = json_text(&column.json_path);
                format!(r#"{},"Priority":{priority},"JSONPath":{path}}}"#, plain.trim_end_matches('}'))
            });
            format!("[{}]", all.collect::<Vec<_>>().join(","))
        });
    let selectable =
        version.selectable_fields.as_ref().filter(|_| !shared.selectable).map_or_else(null, |all| {
            let all = all.iter().map(|one| format!(r#"{{"JSONPath":{}}}"#, json_text(&one.json_path)));
            format!("[{}]", all.collect::<Vec<_>>().join(","))
        });
    format!(
        r#"{{"Name":{},"Served":{},"Storage":{},"Deprecated":{},"DeprecationWarning":{},"Schema":{schema},"Subresources":{subresources},"AdditionalPrinterColumns":{columns},"SelectableFields":{selectable}}}"#,
        json_text(&version.name),
        version.served,
        version.storage,
        version.deprecated.unwrap_or_default(),
        go_json(&json!(version.deprecation_warning)),
    )
}

fn fields(table: &[(&str, &str, Made)], value: &Value) -> String {
    let fields = table.iter().map(|(go, json, made)| format!("\"{go}\":{}", field(value.get(json), *made)));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

fn field(value: Option<&Value>, made: Made) -> String {
    let Some(value) = value else {
        return match made {
            Made::Plain(Zero::Text) => "\"\"".to_owned(),
            Made::Plain(Zero::Truth) => "false".to_owned(),
            _ => "null".to_owned(),
        };
    };
    let list = |table| {
        let all = value.as_array().into_iter().flatten().map(|one| fields(table, one));
        format!("[{}]", all.collect::<Vec<_>>().join(","))
    };
    match (made, value) {
        (Made::Plain(_), value) => go_json(value),
        (Made::Schema, value) => fields(SCHEMA, value),
        (Made::Schemas, _) => list(SCHEMA),
        (Made::Rules, _) => list(RULE),
        (Made::SchemaByName, Value::Object(all)) => {
            let all = all.iter().map(|(name, one)| format!("{}:{}", json_text(name), fields(SCHEMA, one)));
            format!("{{{}}}", all.collect::<Vec<_>>().join(","))
        }
        (Made::SchemaOrList, Value::Array(_)) => {
            format!(r#"{{"Schema":null,"JSONSchemas":{}}}"#, list(SCHEMA))
        }
        (Made::SchemaOrList, value) => {
            format!(r#"{{"Schema":{},"JSONSchemas":null}}"#, fields(SCHEMA, value))
        }
        (Made::SchemaOrBool, Value::Bool(allows)) => format!(r#"{{"Allows":{allows},"Schema":null}}"#),
        (Made::SchemaOrBool, value) => format!(r#"{{"Allows":true,"Schema":{}}}"#, fields(SCHEMA, value)),
        (Made::SchemaByName, _) => "null".to_owned(),
    }
}
