//! Defaults, and the dropping of what a schema does not know.

use super::said::entry;
use super::{Additional, Schema};
use crate::json::{Map, Value};

/// Drops nulls from where they are not allowed and no default would take their place.
pub(super) fn drop_nulls(schema: &Schema, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, value| {
                let Some(schema) = schema.field(name) else { return true };
                if value.is_null() && !schema.is_nullable && schema.default.is_none() {
                    return false;
                }
                drop_nulls(schema, value);
                true
            });
        }
        Value::Array(items) => {
            if let Some(schema) = &schema.items {
                for item in items {
                    drop_nulls(schema, item);
                }
            }
        }
        _ => {}
    }
}

pub(super) fn defaults(schema: &Schema, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, property) in &schema.properties {
                let Some(default) = &property.default else { continue };
                let has_value =
                    fields.get(name).is_some_and(|value| !value.is_null() || property.is_nullable);
                if !has_value {
                    fields.insert(name.clone(), default.clone());
                }
            }
            for (name, value) in fields {
                if let Some(property) = schema.properties.get(name.as_str()) {
                    defaults(property, value);
                } else if let Some(each) = schema.additional.each() {
                    default_entry(each, value);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = &schema.items {
                for item in items {
                    default_entry(schema, item);
                }
            }
        }
        _ => {}
    }
}

fn default_entry(schema: &Schema, value: &mut Value) {
    if let (Value::Null, false, Some(default)) = (&value, schema.is_nullable, &schema.default) {
        *value = default.clone();
    }
    defaults(schema, value);
}

/// The paths of the fields that were dropped.
pub(super) fn prune_root(schema: &Schema, object: &mut Value) -> Vec<String> {
    let mut pruner = Pruner::default();
    pruner.value(Some(schema), object, true, false);
    pruner.dropped
}

/// Prunes a value of a part of a schema, as a default is one.
pub(super) fn prune_part(schema: &Schema, value: &mut Value) {
    Pruner::default().value(Some(schema), value, schema.is_embedded, false);
}

#[derive(Default)]
struct Pruner {
    path: String,
    dropped: Vec<String>,
}

const META: [&str; 3] = ["apiVersion", "kind", "metadata"];

impl Pruner {
    /// `schema` is none where all fields go, which is inside a map whose values were not described. `keeps` is
    /// for the items of a list that preserves what is unknown.
    fn value(&mut self, schema: Option<&Schema>, value: &mut Value, is_resource: bool, keeps: bool) {
        let keeps = keeps || schema.is_some_and(|schema| schema.preserves_unknown);
        match value {
            Value::Object(fields) => {
                if is_resource && let Some(Value::Object(meta)) = fields.get_mut("metadata") {
                    self.within("metadata", |pruner| pruner.meta(meta));
                }
                fields.retain(|name, value| {
                    if is_resource && META.contains(&name.as_str()) {
                        return true;
                    }
                    let Some(schema) = schema else { return self.drop(name) };
                    match (schema.properties.get(name.as_str()), &schema.additional) {
                        (Some(property), _) => {
                            self.within(name, |pruner| {
                                pruner.value(Some(property), value, property.is_embedded, false);
                            });
                        }
                        (None, Additional::Unsaid) if keeps => {}
                        (None, Additional::Unsaid) => {
                            // What every object has is dropped from the root of one without a word.
                            return if self.path.is_empty() && META.contains(&name.as_str()) {
                                false
                            } else {
                                self.drop(name)
                            };
                        }
                        (None, additional) => {
                            let each = additional.each();
                            let is_embedded = each.is_some_and(|each| each.is_embedded);
                            self.within(name, |pruner| pruner.value(each, value, is_embedded, false));
                        }
                    }
                    true
                });
            }
            Value::Array(items) => {
                let schema = schema.and_then(|schema| schema.items.as_deref());
                if keeps && schema.is_none() {
                    return;
                }
                let is_embedded = schema.is_some_and(|schema| schema.is_embedded);
                for (index, item) in items.iter_mut().enumerate() {
                    self.at(index, |pruner| pruner.value(schema, item, is_embedded, keeps));
                }
            }
            _ => {}
        }
    }

    /// The fields that Kubernetes knows for every object.
    fn meta(&mut self, meta: &mut Map) {
        self.keep(meta, &OF_META);
        for (name, known) in [("ownerReferences", &OF_OWNERS[..]), ("managedFields", &OF_MANAGERS[..])] {
            let Some(Value::Array(items)) = meta.get_mut(name) else { continue };
            for (index, item) in items.iter_mut().enumerate() {
                if let Value::Object(fields) = item {
                    self.within(name, |pruner| pruner.at(index, |pruner| pruner.keep(fields, known)));
                }
            }
        }
    }

    fn keep(&mut self, fields: &mut Map, known: &[&str]) {
        fields.retain(|name, _| known.contains(&name.as_str()) || self.drop(name));
    }

    /// Always false: not to be kept.
    fn drop(&mut self, name: &str) -> bool {
        self.within(name, |pruner| pruner.dropped.push(pruner.path.clone()));
        false
    }

    fn within(&mut self, name: &str, act: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        act(self);
        self.path.truncate(length);
    }

    fn at(&mut self, index: usize, act: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        self.path = entry(&self.path, index);
        act(self);
        self.path.truncate(length);
    }
}

const OF_META: [&str; 15] = [
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
];
const OF_OWNERS: [&str; 6] = ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];
const OF_MANAGERS: [&str; 7] =
    ["manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource"];
