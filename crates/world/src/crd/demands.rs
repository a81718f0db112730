//! What Kubernetes demands of a definition.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceConversion, CustomResourceDefinition,
    CustomResourceDefinitionNames, CustomResourceDefinitionSpec, CustomResourceDefinitionVersion,
    CustomResourceSubresources, JSONSchemaProps, SelectableField,
};
use std::collections::BTreeSet;

use super::in_go::{self, Shared};
use super::names::{dns_1035_label, dns_1123_subdomain};
use crate::failure::Cause;
use crate::schema::said::{
    child, duplicate, entry, forbidden, invalid, invalid_text, not_supported, quoted, required, too_many,
};
use crate::schema::{Schema, Type, field_of};

/// All that is wrong with the definition, and the schemas of its versions where nothing is.
pub(super) fn check(crd: &CustomResourceDefinition) -> Result<Vec<Schema>, Vec<Cause>> {
    let mut causes = Vec::new();
    name(crd, &mut causes);
    let schemas = spec(&crd.spec, &mut causes);
    stored(&crd.spec.versions, &mut causes);
    approval(crd, &mut causes);
    if crd.spec.preserve_unknown_fields == Some(true) {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        causes.push(invalid("spec.preserveUnknownFields", "true", detail));
    }
    if causes.is_empty() { Ok(schemas) } else { Err(causes) }
}

fn name(crd: &CustomResourceDefinition, causes: &mut Vec<Cause>) {
    let spec = &crd.spec;
    let name = crd.metadata.name.as_deref().unwrap_or_default();
    if name.is_empty() {
        causes.push(required("metadata.name", "name or generateName is required"));
        return;
    }
    let mut wrong = dns_1123_subdomain(name);
    if name != format!("{}.{}", spec.names.plural, spec.group) {
        wrong.push("must be spec.names.plural+\".\"+spec.group".to_owned());
    }
    causes.extend(wrong.iter().map(|detail| invalid_text("metadata.name", name, detail)));
}

fn spec(spec: &CustomResourceDefinitionSpec, causes: &mut Vec<Cause>) -> Vec<Schema> {
    let group = dns_1123_subdomain(&spec.group);
    if spec.group.is_empty() {
        causes.push(required("spec.group", ""));
    } else if !group.is_empty() {
        causes.push(invalid_text("spec.group", &spec.group, &group.join(",")));
    } else if !spec.group.contains('.') {
        causes.push(invalid_text("spec.group", &spec.group, "should be a domain with at least one dot"));
    }
    match &*spec.scope {
        "" => causes.push(required("spec.scope", "")),
        "Cluster" | "Namespaced" => {}
        scope => {
            let supported = ["Cluster", "Namespaced"].map(str::to_owned);
            causes.push(not_supported("spec.scope", &quoted(scope), &supported));
        }
    }
    let versions = &spec.versions;
    for (index, version) in versions.iter().enumerate() {
        if schema_of(version).is_none() {
            causes.push(required(&format!("spec.versions[{index}].schema.openAPIV3Schema"), ""));
        }
    }
    // What is the same in all versions the server keeps once, and calls by another name.
    let shared = Shared {
        schema: all_same(versions, |version| &version.schema),
        subresources: all_same(versions, |version| &version.subresources),
        columns: all_same(versions, |version| &version.additional_printer_columns),
        selectable: all_same(versions, |version| &version.selectable_fields),
    };
    let mut schemas = Vec::new();
    for (index, version) in versions.iter().enumerate() {
        let at = entry("spec.versions", index);
        let wrong = dns_1035_label(&version.name);
        if !wrong.is_empty() {
            causes.push(invalid_text(&child(&at, "name"), &version.name, &wrong.join(",")));
        }
        deprecation(version, &child(&at, "deprecationWarning"), causes);
        let built = match (schema_of(version), shared.schema) {
            (Some(props), false) => schema(props, version, &child(&at, "schema"), causes),
            // Told once, below.
            (Some(props), true) => Schema::from_props(props, "").ok(),
            (None, _) => None,
        };
        if !shared.subresources {
            subresources(version.subresources.as_ref(), &child(&at, "subresources"), causes);
        }
        if !shared.columns {
            columns(version, &child(&at, "additionalPrinterColumns"), causes);
        }
        if let (Some(built), false) = (&built, shared.selectable) {
            selectable(version.selectable_fields.as_deref(), built, &child(&at, "selectableFields"), causes);
        }
        schemas.extend(built);
    }
    let unique: BTreeSet<&String> = versions.iter().map(|version| &version.name).collect();
    for (is_wrong, detail) in [
        (unique.len() != versions.len(), "must contain unique version names"),
        (
            versions.iter().filter(|version| version.storage).count() != 1,
            "must have exactly one version marked as storage version",
        ),
    ] {
        if is_wrong {
            causes.push(invalid("spec.versions", &in_go::versions(versions, &shared), detail));
        }
    }
    if let Some(first) = versions.first() {
        // The server also keeps the first version's name by itself.
        let wrong = dns_1035_label(&first.name);
        if !wrong.is_empty() {
            causes.push(invalid_text("spec.version", &first.name, &wrong.join(",")));
        }
    }
    names(&spec.names, causes);
    if let Some(first) = versions.first() {
        if let (Some(props), true) = (schema_of(first), shared.schema) {
            let with_status = versions.iter().find(|version| has_status(version)).unwrap_or(first);
            schema(props, with_status, "spec.validation", causes);
        }
        if shared.subresources {
            subresources(first.subresources.as_ref(), "spec.subresources", causes);
        }
        if shared.columns {
            columns(first, "spec.additionalPrinterColumns", causes);
        }
        if let (Some(built), true) = (schemas.first(), shared.selectable) {
            selectable(first.selectable_fields.as_deref(), built, "spec.selectableFields", causes);
        }
    }
    conversion(spec.conversion.as_ref(), causes);
    schemas
}

fn all_same<T: PartialEq>(
    versions: &[CustomResourceDefinitionVersion],
    of: impl Fn(&CustomResourceDefinitionVersion) -> &T,
) -> bool {
    versions.iter().all(|version| versions.first().is_some_and(|first| of(first) == of(version)))
}

fn schema_of(version: &CustomResourceDefinitionVersion) -> Option<&JSONSchemaProps> {
    version.schema.as_ref()?.open_api_v3_schema.as_ref()
}

fn has_status(version: &CustomResourceDefinitionVersion) -> bool {
    version.subresources.as_ref().is_some_and(|subresources| subresources.status.is_some())
}

fn deprecation(version: &CustomResourceDefinitionVersion, path: &str, causes: &mut Vec<Cause>) {
    let Some(warning) = &version.deprecation_warning else { return };
    let detail = if version.deprecated != Some(true) {
        "can only be set for deprecated versions"
    } else if warning.len() > 256 {
        "must be <= 256 characters long"
    } else if warning.is_empty() {
        "must not be an empty string"
    } else {
        return;
    };
    causes.push(invalid_text(path, warning, detail));
}

const ROOT_FIELDS: &str = "[Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields XValidations]";

fn schema(
    props: &JSONSchemaProps,
    version: &CustomResourceDefinitionVersion,
    path: &str,
    causes: &mut Vec<Cause>,
) -> Option<Schema> {
    let at = child(path, "openAPIV3Schema");
    if has_status(version) {
        let type_ = props.type_.as_deref().unwrap_or_default();
        if !type_.is_empty() && type_ != "object" {
            let detail = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
            causes.push(invalid_text(&child(&at, "type"), type_, detail));
        } else if in_go::first_not_at_root(props).is_some() {
            let detail = format!(
                "only {ROOT_FIELDS} fields are allowed at the root of the schema if the status subresource is enabled"
            );
            causes.push(invalid(&at, &in_go::schema(props), &detail));
        }
    }
    if props.nullable == Some(true) {
        causes.push(forbidden(&child(&at, "nullable"), "nullable cannot be true at the root"));
    }
    match Schema::from_props(props, &at) {
        Ok(schema) => Some(schema),
        Err(wrong) => {
            causes.extend(wrong);
            None
        }
    }
}

fn names(names: &CustomResourceDefinitionNames, causes: &mut Vec<Cause>) {
    let singular = names.singular.as_deref().unwrap_or_default();
    let list_kind = names.list_kind.as_deref().unwrap_or_default();
    let all =
        [("plural", &*names.plural), ("singular", singular), ("kind", &*names.kind), ("listKind", list_kind)];
    for (field, name) in all {
        if name.is_empty() {
            causes.push(required(&child("spec.names", field), ""));
        }
    }
    for (field, name) in all.into_iter().filter(|(_, name)| !name.is_empty()) {
        let is_kind = field.to_lowercase().ends_with("kind");
        let wrong = if is_kind { dns_1035_label(&name.to_lowercase()) } else { dns_1035_label(name) };
        let before = if is_kind { "may have mixed case, but should otherwise match: " } else { "" };
        if !wrong.is_empty() {
            let detail = format!("{before}{}", wrong.join(","));
            causes.push(invalid_text(&child("spec.names", field), name, &detail));
        }
    }
    listed(names.short_names.as_deref(), "spec.names.shortNames", causes);
    if !names.kind.is_empty() && names.kind == list_kind {
        let detail = "kind and listKind may not be the same";
        causes.push(invalid_text("spec.names.listKind", list_kind, detail));
    }
    listed(names.categories.as_deref(), "spec.names.categories", causes);
}

fn listed(names: Option<&[String]>, path: &str, causes: &mut Vec<Cause>) {
    for (index, name) in names.unwrap_or_default().iter().enumerate() {
        let wrong = dns_1035_label(name);
        if !wrong.is_empty() {
            causes.push(invalid_text(&entry(path, index), name, &wrong.join(",")));
        }
    }
}

fn subresources(of: Option<&CustomResourceSubresources>, path: &str, causes: &mut Vec<Cause>) {
    let Some(scale) = of.and_then(|of| of.scale.as_ref()) else { return };
    let at = |name: &str| child(path, &format!("scale.{name}"));
    for (name, found, root) in [
        ("specReplicasPath", &scale.spec_replicas_path, ".spec."),
        ("statusReplicasPath", &scale.status_replicas_path, ".status."),
    ] {
        if found.is_empty() {
            causes.push(required(&at(name), ""));
        } else if !json_path(found, &at(name), causes) {
        } else if !found.starts_with(root) {
            let detail = format!("should be a json path under {}", root.trim_end_matches('.'));
            causes.push(invalid_text(&at(name), found, &detail));
        }
    }
    let selector = scale.label_selector_path.as_deref().filter(|selector| !selector.is_empty());
    if let Some(selector) = selector
        && json_path(selector, &at("labelSelectorPath"), causes)
        && !selector.starts_with(".spec.")
        && !selector.starts_with(".status.")
    {
        let detail = "should be a json path under either .spec or .status";
        causes.push(invalid_text(&at("labelSelectorPath"), selector, detail));
    }
}

/// Whether it may be a path.
fn json_path(path: &str, field: &str, causes: &mut Vec<Cause>) -> bool {
    let is_path = path.starts_with('.');
    if !is_path {
        causes.push(invalid_text(field, path, "must be a simple json path starting with ."));
    }
    is_path
}

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] =
    ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];

fn columns(version: &CustomResourceDefinitionVersion, path: &str, causes: &mut Vec<Cause>) {
    for (index, column) in version.additional_printer_columns.iter().flatten().enumerate() {
        self::column(column, &entry(path, index), causes);
    }
}

fn column(column: &CustomResourceColumnDefinition, path: &str, causes: &mut Vec<Cause>) {
    let at = |name: &str| child(path, name);
    if column.name.is_empty() {
        causes.push(required(&at("name"), ""));
    }
    let detail = format!("must be one of {}", COLUMN_TYPES.join(","));
    if column.type_.is_empty() {
        causes.push(required(&at("type"), &detail));
    } else if !COLUMN_TYPES.contains(&&*column.type_) {
        causes.push(invalid_text(&at("type"), &column.type_, &detail));
    }
    let format = column.format.as_deref().unwrap_or_default();
    if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
        let detail = format!("must be one of {}", COLUMN_FORMATS.join(","));
        causes.push(invalid_text(&at("format"), format, &detail));
    }
    if column.json_path.is_empty() {
        causes.push(required(&at("JSONPath"), ""));
    } else {
        json_path(&column.json_path, &at("JSONPath"), causes);
    }
}

const SELECTABLE_MAX: i64 = 8;

fn selectable(fields: Option<&[SelectableField]>, schema: &Schema, path: &str, causes: &mut Vec<Cause>) {
    let mut seen = BTreeSet::new();
    for (index, field) in fields.unwrap_or_default().iter().enumerate() {
        let at = child(&entry(path, index), "jsonPath");
        let found = &field.json_path;
        if found.is_empty() {
            causes.push(required(&at, ""));
            continue;
        }
        match field_of(schema, found) {
            Err(why) => causes.push(invalid_text(&at, found, &format!("is an invalid path: {why}"))),
            Ok((name, of)) => {
                if name == "metadata" || name.starts_with("metadata.") {
                    causes.push(invalid_text(&at, found, "must not point to fields in metadata"));
                }
                if !matches!(of.type_, Some(Type::String | Type::Boolean | Type::Integer)) {
                    let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
                    causes.push(invalid_text(&at, found, detail));
                }
                if !seen.insert(name) {
                    causes.push(duplicate(&at, Some(&quoted(found))));
                }
            }
        }
    }
    if seen.len() > 8 {
        causes.push(too_many(path, seen.len(), SELECTABLE_MAX));
    }
}

fn conversion(conversion: Option<&CustomResourceConversion>, causes: &mut Vec<Cause>) {
    let Some(conversion) = conversion else { return };
    let webhook = conversion.webhook.as_ref();
    match &*conversion.strategy {
        "" => causes.push(required("spec.conversion.strategy", "")),
        "None" | "Webhook" => {}
        other => {
            let supported = ["None", "Webhook"].map(str::to_owned);
            causes.push(not_supported("spec.conversion.strategy", &quoted(other), &supported));
        }
    }
    let client = webhook.and_then(|webhook| webhook.client_config.as_ref());
    let versions = webhook.map(|webhook| &webhook.conversion_review_versions[..]).unwrap_or_default();
    let client_at = "spec.conversion.webhookClientConfig";
    let versions_at = "spec.conversion.conversionReviewVersions";
    if conversion.strategy == "Webhook" {
        match client {
            None => causes.push(required(client_at, "required when strategy is set to Webhook")),
            Some(client) if client.url.is_none() == client.service.is_none() => {
                causes.push(required(client_at, "exactly one of url or service is required"));
            }
            Some(_) => {}
        }
        if versions.is_empty() {
            causes.push(required(versions_at, ""));
        }
    } else {
        let detail = "should not be set when strategy is not set to Webhook";
        for (is_set, at) in [(client.is_some(), client_at), (!versions.is_empty(), versions_at)] {
            if is_set {
                causes.push(forbidden(at, detail));
            }
        }
    }
}

/// The server has written the first storage version into the status before it looks.
fn stored(versions: &[CustomResourceDefinitionVersion], causes: &mut Vec<Cause>) {
    let mut storage = versions.iter().filter(|version| version.storage);
    let at = "status.storedVersions";
    match storage.next() {
        None => causes.push(invalid(at, "null", "must have at least one stored version")),
        Some(first) => {
            for other in storage.filter(|other| other.name != first.name) {
                let detail = format!("must have the storage version {}", other.name);
                causes.push(invalid(at, &format!("[{}]", quoted(&first.name)), &detail));
            }
        }
    }
}

/// Groups that belong to Kubernetes need its word.
fn approval(crd: &CustomResourceDefinition, causes: &mut Vec<Cause>) {
    let Some(approval) = super::approval::of(crd) else { return };
    let at = "metadata.annotations[api-approved.kubernetes.io]";
    match approval.reason {
        "MissingAnnotation" => causes.push(required(at, &approval.message)),
        "InvalidAnnotation" => causes.push(invalid_text(at, &approval.annotation, &approval.message)),
        _ => {}
    }
}
