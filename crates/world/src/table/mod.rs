//! The tables that `kubectl get` shows: the server makes them, kubectl prints them.

mod age;
mod cells;
mod columns;
mod custom;
mod networking;
mod objects;
mod path;
mod pods;
mod workloads;

pub use custom::PrinterColumn;
pub use path::{DoesNotFit, JsonPath};

use jiff::Timestamp;

use crate::failure::Failure;
use crate::json::{Value, json};
use crate::kinds::Resource;
use crate::names::quoted;

use cells::View;
use columns::Column;

/// What each row says of its object besides the cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IncludeObject {
    None,
    #[default]
    Metadata,
    Object,
}

impl IncludeObject {
    /// From the parameter `includeObject`.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        match text {
            "None" => Ok(Self::None),
            "" | "Metadata" => Ok(Self::Metadata),
            "Object" => Ok(Self::Object),
            other => Err(Failure::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {}: must be 'Metadata', 'Object', 'None', or empty",
                quoted(other)
            ))),
        }
    }

    fn of(self, resource: &Resource, object: &Value) -> Value {
        match self {
            Self::None => Value::Null,
            Self::Metadata => json!({
                "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"],
            }),
            Self::Object => {
                let mut object = object.clone();
                if let Some(fields) = object.as_object_mut() {
                    fields.insert("kind", json!(resource.kind));
                    fields.insert("apiVersion", json!(resource.api_version()));
                }
                object
            }
        }
    }
}

/// The `meta.k8s.io/v1` Table of some objects of one resource.
///
/// `columns_of_crd` is `None` for built-in kinds. `list_meta` is the metadata of the list, or of a single
/// object its resourceVersion only.
pub fn table<'a>(
    resource: &Resource,
    objects: impl IntoIterator<Item = &'a Value>,
    columns_of_crd: Option<&[PrinterColumn]>,
    list_meta: &Value,
    now: Timestamp,
    include_object: IncludeObject,
) -> Value {
    let printer = Printer::of(resource, columns_of_crd);
    let mut rows = Vec::new();
    for object in objects {
        let view = View { object, now };
        let mut row = json!({
            "cells": printer.cells(resource, view), "object": include_object.of(resource, object),
        });
        if let Some(conditions) = conditions(resource, view) {
            row["conditions"] = conditions;
        }
        rows.push(row);
    }
    // A list that nobody added to is null in Go.
    let rows = if rows.is_empty() && matches!(printer, Printer::Default) { Value::Null } else { json!(rows) };
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": list_meta,
        "columnDefinitions": printer.definitions(), "rows": rows,
    })
}

/// What makes the cells of a kind.
enum Printer {
    /// Name and time of creation.
    Default,
    BuiltIn(&'static [Column]),
    Custom(custom::Printer),
}

impl Printer {
    fn of(resource: &Resource, columns_of_crd: Option<&[PrinterColumn]>) -> Self {
        match (columns_of_crd, columns::of(resource)) {
            (Some(columns), _) => Self::Custom(custom::Printer::new(columns)),
            (None, Some(columns)) => Self::BuiltIn(columns),
            (None, None) => Self::Default,
        }
    }

    fn definitions(&self) -> Vec<Value> {
        match self {
            Self::Default => columns::DEFAULT.iter().map(Column::definition).collect(),
            Self::BuiltIn(columns) => columns.iter().map(Column::definition).collect(),
            Self::Custom(printer) => printer.definitions(),
        }
    }

    fn cells(&self, resource: &Resource, view: View<'_>) -> Vec<Value> {
        match self {
            Self::Default => vec![json!(view.name()), json!(view.text("/metadata/creationTimestamp"))],
            Self::BuiltIn(_) => cells::of(resource, view),
            Self::Custom(printer) => printer.cells(view),
        }
    }
}

impl Column {
    fn definition(&self) -> Value {
        json!({
            "name": self.name, "type": self.kind, "format": self.format, "description": self.description,
            "priority": self.priority,
        })
    }
}

/// Whether the row is about something that is over.
fn conditions(resource: &Resource, view: View<'_>) -> Option<Value> {
    let (reason, message) = match (&*resource.group, &*resource.kind, view.text("/status/phase")) {
        ("", "Pod", "Succeeded") => ("Succeeded", "The pod has completed successfully."),
        ("", "Pod", "Failed") => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!([{"type": "Completed", "status": "True", "reason": reason, "message": message}]))
}

#[cfg(test)]
mod tests;
