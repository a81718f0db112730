//! Catalogs from files. The format is recognised by what is in the file, never by its name.

mod berth;
pub(crate) mod csv;
mod gardener;
mod karpenter;
mod vpsie;

use berth_core::catalog::{CapacityType, Catalog};
use serde_json::Value;

use crate::CatalogOptions;
use crate::draft::{Draft, Repeated};
use crate::error::{CatalogError, Problem};
use crate::field::Field;

pub use berth::export;
pub(crate) use vpsie::OFFERING;

/// How many pods a kubelet takes unless it is told otherwise.
const PODS_DEFAULT: i64 = 110;

/// Reads a catalog in any of the formats; `name` is its name unless the document has one itself.
pub fn import(text: &str, name: &str, options: &CatalogOptions) -> Result<Catalog, CatalogError> {
    let options = options.normalized();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    match text.trim_start().as_bytes().first() {
        None => Err(CatalogError::Empty),
        Some(b'{' | b'[') => {
            let document: Value = serde_json::from_str(text).map_err(|error| CatalogError::Syntax {
                line: error.line(),
                column: error.column(),
                problem: without_position(&error),
            })?;
            import_json(&document, name, &options)
        }
        Some(_) => csv::read(text, name, None, &options),
    }
}

/// What can be read of VPSie's offers, each of which names its datacenter; and what is wrong with the others.
pub(crate) fn import_offers(offers: &Value, name: &str) -> Result<(Catalog, Vec<String>), CatalogError> {
    let (catalog, unread) = vpsie::read_legible(&Field::root(offers), name, &CatalogOptions::default())?;
    let said = unread.iter().map(|unread| format!("{}: {}", unread.offer, unread.problem));
    Ok((catalog, said.collect()))
}

fn import_json(document: &Value, name: &str, options: &CatalogOptions) -> Result<Catalog, CatalogError> {
    let root = Field::root(document);
    let has = |value: &Value, key: &str| value.get(key).is_some();
    if has(document, "kind") || has(document, "apiVersion") {
        return berth::read(&root, name);
    }
    let (list, enveloped) = match document {
        Value::Array(items) => (items, false),
        Value::Object(_) => {
            vpsie::refuse_error(&root)?;
            let data = document.get("data").and_then(Value::as_array);
            (data.ok_or(unknown("the object has neither a `kind` nor a `data` list"))?, true)
        }
        _ => return Err(unknown("the document is neither an object nor a list")),
    };
    let Some(first) = list.first() else {
        return Err(CatalogError::Empty);
    };
    let data = root.get("data");
    let items = if enveloped { &data } else { &root };
    if has(first, "ram") && has(first, "cpu") {
        vpsie::read(items, name, options)
    } else if enveloped {
        Err(unknown("the first item of `data` has no `cpu` and `ram`"))
    } else if has(first, "instanceType") {
        gardener::read(items, name, options)
    } else if has(first, "offerings") || has(first, "resources") {
        karpenter::read(items, name)
    } else {
        Err(unknown("the first item of the list has the fields of no known format"))
    }
}

fn capacity_type(field: &Field) -> Result<CapacityType, CatalogError> {
    let found = field.text("one of on-demand, spot, reserved")?;
    CapacityType::parse(found).ok_or_else(|| field.error(unknown_capacity_type(found)))
}

fn unknown_capacity_type(found: &str) -> Problem {
    Problem::UnknownWord { found: found.to_owned(), wanted: format!("one of {}", CapacityType::NAMES) }
}

fn unknown(found: &'static str) -> CatalogError {
    CatalogError::UnknownFormat { found }
}

fn without_position(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let end = text.rfind(" at line ").unwrap_or(text.len());
    format!("not JSON: {}", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let error = import(text, "c", &CatalogOptions::default()).unwrap_err();
        assert!(error.to_string().starts_with(expected), "{text}\n  gave {error}\n  not  {expected}");
    }

    #[test]
    fn what_no_format_is() {
        for (text, expected) in [
            ("", "the catalog is empty"),
            ("  \n", "the catalog is empty"),
            ("[]", "the catalog is empty"),
            ("{}", "the object has neither a `kind` nor a `data` list"),
            ("[1]", "the first item of the list has the fields of no known format"),
            ("[{\"a\": 1}]", "the first item of the list has the fields of no known format"),
            ("{\"data\": [{\"a\": 1}]}", "the first item of `data` has no `cpu` and `ram`"),
            ("{\"data\": true}", "the object has neither"),
            ("[\n{\"a\": }]", "line 2, column 7: not JSON: expected value"),
            ("{\"kind\": \"Pod\"}", "kind: `Pod` is not known here; write Catalog"),
            ("hello", "line 1: the column `hello` is not known"),
        ] {
            check(text, expected);
        }
    }

    #[test]
    fn nesting_has_an_end() {
        let deep = "[".repeat(100_000);
        assert!(matches!(
            import(&deep, "c", &CatalogOptions::default()),
            Err(CatalogError::Syntax { line: 1, .. })
        ));
    }
}
