//! Who owns the number of replicas once a scale was written: a scale has fields of its own, and owners of those.

use std::collections::BTreeSet;

use super::fields::{Element, FieldSet};
use super::managed::{Managed, Manager, Operation, Owned};
use crate::json::Value;

const SCALE: &str = "autoscaling/v1";

/// What a write of a scale did to its number.
#[derive(Clone, Copy, Debug)]
pub enum Rescaled<'a> {
    /// The server cannot tell: it knows no fields of a scale that does not say of what version it is.
    Untold,
    Kept,
    /// None is said by saying nothing, and so it is nobody's.
    To(i64, &'a str),
}

/// Brings the managedFields of an object up to date with a write of its scale. `path` is where its number is.
pub fn record_scale(object: &mut Value, path: &str, api_version: &str, rescaled: Rescaled<'_>) {
    let Some(mut managed) = Managed::of(object) else { return };
    let path: Vec<Element> = path.split('/').skip(1).map(Element::field).collect();
    let mut number = FieldSet::default();
    number.insert(&path);
    let owners: Vec<Manager> = managed
        .entries
        .iter()
        .filter(|(_, owned)| owned.fields.has_path(&path))
        .map(|(manager, _)| manager.clone())
        .collect();
    let mut of_scale: BTreeSet<Manager> = match rescaled {
        Rescaled::Kept => owners.iter().map(as_of_scale).collect(),
        Rescaled::To(count, manager) if count != 0 && !owners.is_empty() => {
            BTreeSet::from([Manager::new(manager, Operation::Update, SCALE, Some("scale"))])
        }
        Rescaled::To(..) | Rescaled::Untold => BTreeSet::new(),
    };
    for owner in owners {
        if !of_scale.remove(&owner)
            && let Some(owned) = managed.entries.get_mut(&owner)
        {
            owned.fields.lose(&number);
        }
    }
    managed.drop_empty();
    for manager in of_scale {
        let owned = Owned { fields: number.clone(), api_version: api_version.to_owned(), time: None };
        managed.entries.insert(manager, owned);
    }
    managed.put_into(object);
}

/// Who updates is another in every version.
fn as_of_scale(manager: &Manager) -> Manager {
    Manager::new(&manager.name, manager.operation, SCALE, Some(&manager.subresource))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    #[test]
    fn who_owns_the_number_after_a_scale() {
        let of = |manager: &str, operation: &str, fields: &Value| json!({"manager": manager, "operation": operation, "apiVersion": "x/v1", "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": fields}});
        let both = json!({"f:length": {}, "f:flag": {}});
        let [flag, length] = ["f:flag", "f:length"].map(|field| json!({ field: {} }));
        let timeless = |manager: &str, part: Option<&str>| {
            let mut entry = of(manager, "Update", &length);
            entry.as_object_mut().unwrap().remove("time");
            if let Some(part) = part {
                entry["subresource"] = json!(part);
            }
            entry
        };
        let updated = of("a", "Update", &both);
        let applied = of("a", "Apply", &both);
        for (before, rescaled, after) in [
            (&updated, Rescaled::Kept, json!([timeless("a", None), of("a", "Update", &flag)])),
            (&updated, Rescaled::To(4, "b"), json!([timeless("b", Some("scale")), of("a", "Update", &flag)])),
            (&updated, Rescaled::To(0, "b"), json!([of("a", "Update", &flag)])),
            (&updated, Rescaled::Untold, json!([of("a", "Update", &flag)])),
            (&applied, Rescaled::Kept, json!([applied])),
            (&applied, Rescaled::To(4, "b"), json!([of("a", "Apply", &flag), timeless("b", Some("scale"))])),
            (&of("a", "Update", &flag), Rescaled::To(4, "b"), json!([of("a", "Update", &flag)])),
            (&of("a", "Update", &length), Rescaled::Untold, Value::Null),
        ] {
            let mut object = json!({"metadata": {"managedFields": [before]}});
            record_scale(&mut object, "/spec/length", "x/v1", rescaled);
            assert_eq!(object["metadata"]["managedFields"], after, "{before} {rescaled:?}");
        }
    }
}
