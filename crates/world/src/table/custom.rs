//! Tables of custom resources, from the columns that their definitions have.

use super::age;
use super::cells::View;
use super::columns::{CREATED, NAME};
use super::path::JsonPath;
use crate::json::{Value, json};

/// One of `additionalPrinterColumns`.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PrinterColumn {
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    #[serde(rename = "type")]
    pub kind: String,
    pub json_path: String,
    #[serde(default)]
    pub description: String,
    #[serde(default)]
    pub format: String,
    /// Columns above 0 are shown only when more is asked for.
    #[serde(default)]
    pub priority: i32,
}

#[derive(Debug)]
pub(super) struct Printer {
    columns: Vec<(PrinterColumn, JsonPath)>,
}

impl Printer {
    /// Without columns, the age is shown. From the first path that is none, nothing more is.
    pub(super) fn new(columns: &[PrinterColumn]) -> Self {
        let age = PrinterColumn {
            name: "Age".to_owned(),
            kind: "date".to_owned(),
            json_path: ".metadata.creationTimestamp".to_owned(),
            description: CREATED.to_owned(),
            format: String::new(),
            priority: 0,
        };
        let columns = if columns.is_empty() { &[age] } else { columns };
        let read =
            columns.iter().map_while(|column| Some((column.clone(), JsonPath::parse(&column.json_path)?)));
        Self { columns: read.collect() }
    }

    pub(super) fn definitions(&self) -> Vec<Value> {
        let of_column = |column: &PrinterColumn| {
            let description = if column.description.is_empty() {
                format!("Custom resource definition column (in JSONPath format): {}", column.json_path)
            } else {
                column.description.clone()
            };
            json!({
                "name": column.name, "type": column.kind, "format": column.format, "description": description,
                "priority": column.priority,
            })
        };
        std::iter::once(NAME.definition())
            .chain(self.columns.iter().map(|(column, _)| of_column(column)))
            .collect()
    }

    pub(super) fn cells(&self, view: View<'_>) -> Vec<Value> {
        let of_column = |(column, path): &(PrinterColumn, JsonPath)| {
            let found = path.find(view.object).unwrap_or_default();
            found.first().map_or(Value::Null, |value| cell(&column.kind, value, view))
        };
        std::iter::once(json!(view.name())).chain(self.columns.iter().map(of_column)).collect()
    }
}

/// The value as the column's type asks, or null where it is of another.
fn cell(kind: &str, value: &Value, view: View<'_>) -> Value {
    match (kind, value) {
        ("string", _) => json!(printed(value)),
        ("integer", Value::Number(number)) => {
            let whole = number.as_i64().or_else(|| number.as_f64().map(cut_off));
            json!(whole)
        }
        ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => value.clone(),
        ("date", Value::String(written)) => match &**written {
            "" | "null" | "0001-01-01T00:00:00Z" => json!("<unknown>"),
            _ if age::moment(written).is_none() => json!("<invalid>"),
            _ => json!(age::since(written, view.now)),
        },
        _ => Value::Null,
    }
}

/// Without what is after the point. What is too large gives the least number, as in Go on most machines.
#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "that is what it is for")]
fn cut_off(number: f64) -> i64 {
    if number.abs() < i64::MAX as f64 { number as i64 } else { i64::MIN }
}

/// A value as text: lists and objects as JSON, the rest as it is.
fn printed(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".to_owned(),
        Value::String(text) => text.to_string(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        // Go writes JSON that can stand in HTML.
        Value::Array(_) | Value::Object(_) => {
            value.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
        }
    }
}
