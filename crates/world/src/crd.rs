//! CustomResourceDefinitions: what they define, and what Kubernetes demands of them.

mod approval;
mod demands;
mod in_go;
pub(crate) mod names;
mod status;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion,
};
use serde::Deserialize;

use crate::failure::Cause;
use crate::json::{Value, json};
use crate::kinds::{Resource, Scope, Subresource};
use crate::schema::Schema;
use crate::schema::said::{entry, go_type, invalid, invalid_text, quoted, shown};
use crate::table::PrinterColumn;
pub use status::status;

/// What the world says of a definition whose objects Kubernetes would have a webhook convert.
pub(crate) fn conversion_warning(definition: &Value) -> Option<&'static str> {
    let is_converted = definition["spec"]["conversion"]["strategy"] == "Webhook";
    is_converted.then_some(
        "spec.conversion: this world calls no webhook to convert; objects are shown in every version as they were written",
    )
}

/// A definition that can be served.
#[derive(Clone, Debug)]
pub struct Definition {
    pub name: String,
    pub group: String,
    pub names: Names,
    pub scope: Scope,
    /// In the order of the definition.
    pub versions: Vec<Version>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    pub plural: String,
    pub singular: String,
    pub kind: String,
    pub list_kind: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct Version {
    pub name: String,
    pub is_served: bool,
    pub is_storage: bool,
    /// What clients are warned of, where the version is deprecated.
    pub deprecation: Option<String>,
    pub schema: Arc<Schema>,
    pub has_status: bool,
    pub scale: Option<Scale>,
    pub columns: Vec<PrinterColumn>,
    /// Fields that a field selector may name, such as `spec.color`.
    pub selectable_fields: Vec<String>,
}

/// Where the scale of an object is, as paths that start with a dot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    pub spec_replicas: String,
    pub status_replicas: String,
    pub label_selector: Option<String>,
}

/// Fills in what a definition may leave out.
pub fn default(crd: &mut Value) {
    let kind = crd.pointer("/spec/names/kind").and_then(Value::as_str).unwrap_or_default().to_owned();
    let is_unset = |value: Option<&Value>| value.is_none_or(|value| value.is_null() || value == "");
    let Some(spec) = crd.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut)
        && !kind.is_empty()
    {
        if is_unset(names.get("singular")) {
            names.insert("singular", json!(kind.to_lowercase()));
        }
        if is_unset(names.get("listKind")) {
            names.insert("listKind", json!(format!("{kind}List")));
        }
    }
    if is_unset(spec.get("conversion")) {
        spec.insert("conversion", json!({"strategy": "None"}));
    }
}

impl Definition {
    /// With its defaults filled in.
    pub fn parse(crd: &Value) -> Result<Self, Vec<Cause>> {
        let mut filled = crd.clone();
        default(&mut filled);
        let crd = CustomResourceDefinition::deserialize(&filled)
            .map_err(|error| vec![invalid("spec", "\"\"", &error.to_string())])?;
        let schemas = demands::check(&crd)?;
        let names = crd.spec.names;
        Ok(Self {
            name: crd.metadata.name.unwrap_or_default(),
            group: crd.spec.group,
            names: Names {
                plural: names.plural,
                singular: names.singular.unwrap_or_default(),
                kind: names.kind,
                list_kind: names.list_kind.unwrap_or_default(),
                short_names: names.short_names.unwrap_or_default(),
                categories: names.categories.unwrap_or_default(),
            },
            scope: if crd.spec.scope == "Cluster" { Scope::Cluster } else { Scope::Namespaced },
            versions: crd.spec.versions.into_iter().zip(schemas).map(version).collect(),
        })
    }

    /// What may not change from `old`, whose names are settled once it `was_established`, and the versions that
    /// objects may still be `stored` in.
    pub fn check_update(&self, old: &Self, was_established: bool, stored: &[String]) -> Vec<Cause> {
        let mut causes = Vec::new();
        let scope = |definition: &Self| format!("{:?}", definition.scope);
        for (field, new, old, is_settled) in [
            ("spec.scope", scope(self), scope(old), was_established),
            ("spec.names.kind", self.names.kind.clone(), old.names.kind.clone(), was_established),
            ("spec.group", self.group.clone(), old.group.clone(), true),
            ("spec.names.plural", self.names.plural.clone(), old.names.plural.clone(), true),
        ] {
            if is_settled && new != old {
                causes.push(invalid_text(field, &new, "field is immutable"));
            }
        }
        for (index, stored) in stored.iter().enumerate() {
            if !self.versions.iter().any(|version| version.name == *stored) {
                let detail = format!(
                    "missing from spec.versions; {stored} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {stored} and removes {stored} from status.storedVersions"
                );
                causes.push(invalid(&entry("status.storedVersions", index), &quoted(stored), &detail));
            }
        }
        causes
    }

    /// One for each version that is served.
    pub fn resources(&self) -> Vec<Resource> {
        self.versions
            .iter()
            .filter(|version| version.is_served)
            .map(|version| self.resource(version))
            .collect()
    }

    fn resource(&self, version: &Version) -> Resource {
        let status = version.has_status.then_some(Subresource::Status);
        let scale = version.scale.as_ref().map(|_| Subresource::Scale);
        Resource {
            group: self.group.clone(),
            version: version.name.clone(),
            kind: self.names.kind.clone(),
            plural: self.names.plural.clone(),
            singular: self.names.singular.clone(),
            short_names: self.names.short_names.clone(),
            categories: self.names.categories.clone(),
            scope: self.scope,
            subresources: status.into_iter().chain(scale).collect(),
            is_custom: true,
        }
    }

    pub fn version(&self, name: &str) -> Option<&Version> {
        self.versions.iter().find(|version| version.name == name)
    }

    /// The version in which objects are kept.
    pub fn storage(&self) -> Option<&Version> {
        self.versions.iter().find(|version| version.is_storage)
    }
}

fn version((version, schema): (CustomResourceDefinitionVersion, Schema)) -> Version {
    let subresources = version.subresources.unwrap_or_default();
    let columns =
        version.additional_printer_columns.unwrap_or_default().into_iter().map(|column| PrinterColumn {
            name: column.name,
            kind: column.type_,
            format: column.format.unwrap_or_default(),
            description: column.description.unwrap_or_default(),
            priority: column.priority.unwrap_or_default(),
            json_path: column.json_path,
        });
    let selectable = version.selectable_fields.unwrap_or_default().into_iter();
    Version {
        name: version.name,
        is_served: version.served,
        is_storage: version.storage,
        deprecation: (version.deprecated == Some(true))
            .then(|| version.deprecation_warning.unwrap_or_default()),
        schema: Arc::new(schema),
        has_status: subresources.status.is_some(),
        scale: subresources.scale.map(|scale| Scale {
            spec_replicas: scale.spec_replicas_path,
            status_replicas: scale.status_replicas_path,
            label_selector: scale.label_selector_path.filter(|path| !path.is_empty()),
        }),
        columns: columns.collect(),
        selectable_fields: selectable
            .map(|field| field.json_path.strip_prefix('.').map_or(field.json_path.clone(), str::to_owned))
            .collect(),
    }
}

impl Scale {
    /// That replicas are numbers that a scale can hold.
    pub fn check(&self, object: &Value) -> Vec<Cause> {
        let mut causes = self.check_spec(object);
        causes.extend(self.check_status(object));
        causes
    }

    pub fn check_spec(&self, object: &Value) -> Vec<Cause> {
        replicas(object, &self.spec_replicas).into_iter().collect()
    }

    pub fn check_status(&self, object: &Value) -> Vec<Cause> {
        let mut causes: Vec<Cause> = replicas(object, &self.status_replicas).into_iter().collect();
        if let Some(path) = &self.label_selector
            && let Err(why) = at(object, path).and_then(|found| match found {
                Some(found) if !found.is_string() => Err(mistyped(path, found, "string")),
                _ => Ok(()),
            })
        {
            causes.push(invalid_text(path, "", &why));
        }
        causes
    }
}

fn replicas(object: &Value, path: &str) -> Option<Cause> {
    let counted = at(object, path).and_then(|found| match found {
        Some(found) => found.as_i64().map(Some).ok_or_else(|| mistyped(path, found, "int64")),
        None => Ok(None),
    });
    let count = match counted {
        Ok(count) => count?,
        Err(why) => return Some(invalid(path, "0", &why)),
    };
    let told = count.to_string();
    match count {
        ..0 => Some(invalid(path, &told, "should be a non-negative integer")),
        count if i32::try_from(count).is_err() => {
            Some(invalid(path, &told, "should be less than or equal to 2147483647"))
        }
        _ => None,
    }
}

/// The value at a path that starts with a dot, or why there can be none.
fn at<'a>(object: &'a Value, path: &str) -> Result<Option<&'a Value>, String> {
    let mut found = object;
    let mut passed = String::new();
    for name in path.strip_prefix('.').unwrap_or(path).split('.') {
        passed.extend([".", name]);
        found = match found {
            Value::Null => return Ok(None),
            Value::Object(fields) => match fields.get(name) {
                Some(value) => value,
                None => return Ok(None),
            },
            other => return Err(mistyped(&passed, other, "map[string]interface{}")),
        };
    }
    Ok(Some(found))
}

/// In the words of the server's own access to objects.
fn mistyped(path: &str, found: &Value, wanted: &str) -> String {
    let type_ = go_type(found);
    let told = match found {
        Value::String(text) => text.to_string(),
        other => shown(other),
    };
    format!("{path} accessor error: {told} is of the type {type_}, expected {wanted}")
}
