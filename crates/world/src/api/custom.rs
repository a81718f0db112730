//! Custom resources: their definitions, and what those say of objects that are written.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::State;
use super::delete::Options;
use crate::crd::{self, Definition, Version};
use crate::failure::{Cause, Failure};
use crate::json::{Value, json};
use crate::kinds::{Resource, Subresource};
use crate::object;
use crate::patch::Shape;
use crate::store::Key;
use crate::strategy::is_custom;
use crate::table::PrinterColumn;

pub(super) const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// Keeps a definition for as long as there is anything that it defines.
pub(super) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// What is defined, by plural and group.
#[derive(Clone, Debug, Default)]
pub(super) struct Definitions(BTreeMap<String, Defined>);

#[derive(Clone, Debug)]
struct Defined {
    definition: Definition,
    /// The revision that it was read from.
    read_at: String,
    /// The definition, and which of its wishes; from which revision on it has been served so.
    wish: (String, i64),
    since: u64,
}

impl Definitions {
    fn version(&self, resource: &Resource) -> Option<&Version> {
        self.0.get(&resource.qualified())?.definition.version(&resource.version)
    }
}

impl State {
    pub(super) fn columns(&self, resource: &Resource) -> Option<&[PrinterColumn]> {
        self.definitions.version(resource).map(|version| &*version.columns)
    }

    /// The revision from which on a resource has been served as it is now; 0 for what is built in.
    pub(super) fn defined_since(&self, resource: &Resource) -> u64 {
        self.definitions.0.get(&resource.qualified()).map_or(0, |defined| defined.since)
    }

    pub(super) fn selectable_fields(&self, resource: &Resource) -> &[String] {
        self.definitions.version(resource).map_or(&[], |version| &version.selectable_fields)
    }

    /// How lists and maps of a kind are merged.
    pub(super) fn shape(&self, resource: &Resource) -> Shape {
        let crd = self.store.get(&Key::new(DEFINITIONS, "", &resource.qualified()));
        let schema = crd.and_then(|crd| {
            let versions = crd.pointer("/spec/versions")?.as_array()?;
            let version = versions.iter().find(|version| version["name"] == *resource.version)?;
            version.pointer("/schema/openAPIV3Schema").cloned()
        });
        match schema {
            Some(schema) => Shape::custom(resource, schema),
            None => Shape::built_in(resource),
        }
    }

    /// Brings an object into the form that its schema wants: without what it does not know, with its defaults.
    pub(super) fn fill_in(&self, resource: &Resource, object: &mut Value) {
        if let Some(version) = self.definitions.version(resource) {
            version.schema.prune(object);
            version.schema.default(object);
        }
    }

    /// Where the scale of a custom resource is.
    pub(super) fn scale_paths(&self, resource: &Resource) -> Option<&crd::Scale> {
        self.definitions.version(resource)?.scale.as_ref()
    }

    /// A stored object as it is read: in the form that the version that is asked for wants now, which may know less of
    /// it than the one it was written in, or more.
    pub(super) fn read(&self, resource: &Resource, object: &Arc<Value>) -> Arc<Value> {
        if !is_custom(resource) || self.is_in_form(resource, object) {
            return object.clone();
        }
        let mut read = (**object).clone();
        self.fill_in(resource, &mut read);
        if read == **object { object.clone() } else { Arc::new(read) }
    }

    /// Whether an object was written in this version, and by the definition of now.
    fn is_in_form(&self, resource: &Resource, object: &Value) -> bool {
        let written: Option<u64> = object::revision(object).parse().ok();
        written.is_some_and(|written| written > self.defined_since(resource))
            && object["apiVersion"] == *resource.api_version()
    }

    /// Drops what its schema does not know; tells the paths.
    pub(super) fn drop_unknown(&self, resource: &Resource, object: &mut Value) -> Vec<String> {
        let version = self.definitions.version(resource);
        version.map_or_else(Vec::new, |version| version.schema.prune_telling(object))
    }

    /// What a schema has against an object.
    pub(super) fn judge(
        &self,
        resource: &Resource,
        part: Option<Subresource>,
        object: &Value,
        old: Option<&Value>,
        known: &[Cause],
    ) -> Vec<Cause> {
        let Some(version) = self.definitions.version(resource) else { return Vec::new() };
        let of_scale = match (&version.scale, part) {
            (None, _) => Vec::new(),
            (Some(scale), Some(Subresource::Status)) => scale.check_status(object),
            (Some(scale), _) => scale.check(object),
        };
        match (part, old) {
            (Some(Subresource::Status), Some(old)) => {
                version.schema.validate_status_with(known, of_scale, object, old)
            }
            _ => version.schema.validate_with(known, of_scale, object, old),
        }
    }

    /// What is wrong with an object of another kind: its form is none of the schema's.
    pub(super) fn judge_stranger(
        &self,
        resource: &Resource,
        object: &Value,
        old: Option<&Value>,
        cause: Cause,
    ) -> Vec<Cause> {
        let Some(version) = self.definitions.version(resource) else { return vec![cause] };
        let mut object = object.clone();
        version.schema.default(&mut object);
        version.schema.beyond_form(&[], vec![cause], &object, old)
    }

    /// Checks a definition before it is written, and completes it with its status.
    pub(super) fn define(
        &self,
        resource: &Resource,
        object: &mut Value,
        old: Option<&Value>,
    ) -> Result<(), Failure> {
        if resource.qualified() != DEFINITIONS {
            return Ok(());
        }
        crd::default(object);
        let refused = |causes| Failure::invalid(resource, object::name(object), causes);
        let was = old.and_then(|old| Some((old, Definition::parse(old).ok()?)));
        if let Some((old, was)) = was {
            // Names that changed are told as such, not as a name that does not fit them.
            let mut fitting = object.clone();
            let [plural, group] =
                ["/spec/names/plural", "/spec/group"].map(|at| object.pointer(at).and_then(Value::as_str));
            let name = format!("{}.{}", plural.unwrap_or_default(), group.unwrap_or_default());
            object::set(&mut fitting, "name", json!(name));
            let named = Definition::parse(&fitting).map_err(refused)?;
            let stored = old.pointer("/status/storedVersions").and_then(Value::as_array);
            let stored: Vec<String> =
                stored.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
            let causes = named.check_update(&was, self.definitions.0.contains_key(&was.name), &stored);
            if !causes.is_empty() {
                return Err(refused(causes));
            }
        }
        Definition::parse(object).map_err(refused)?;
        let name = object::name(object).to_owned();
        let stored = self.stored_definitions();
        let others: Vec<&Value> =
            stored.iter().map(|crd| &**crd).filter(|crd| object::name(crd) != name).collect();
        object["status"] = crd::status(object, &others, self.now());
        Ok(())
    }

    /// Deletes all that a definition defines; whether any of it stays for now.
    pub(super) fn delete_defined(&mut self, name: &str) -> Result<bool, Failure> {
        let defined = self.definitions.0.get(name);
        let resource = defined.and_then(|defined| defined.definition.resources().pop());
        let Some(resource) = resource else { return Ok(false) };
        let all: Vec<(Key, Arc<Value>)> =
            self.store.list(name, None).map(|(key, object)| (key.clone(), object)).collect();
        for (key, object) in all {
            self.delete_one(&resource, &key, &object, &Options::default())?;
        }
        Ok(self.store.keys(name, None).next().is_some())
    }

    /// Removes an object, and what was only waiting for it.
    pub(super) fn remove(&mut self, key: &Key) -> Option<Arc<Value>> {
        let last = self.store.remove(key)?;
        let definition = Key::new(DEFINITIONS, "", key.resource());
        let waiting = self.store.get(&definition).filter(|crd| object::finalizers(crd).contains(&CLEANUP));
        if let Some(crd) = waiting.filter(|_| self.store.keys(key.resource(), None).next().is_none()) {
            let others: Vec<&str> =
                object::finalizers(&crd).into_iter().filter(|finalizer| *finalizer != CLEANUP).collect();
            if others.is_empty() {
                self.store.remove(&definition);
                self.serve_definitions();
            } else {
                let mut next = (*crd).clone();
                object::set(&mut next, "finalizers", json!(others));
                self.store.put(definition, next);
            }
        }
        Some(last)
    }

    /// What a stored definition defines, and what it defined before.
    fn defined(&self, crd: &Value, before: Option<Defined>) -> Option<Defined> {
        let definition = Definition::parse(crd).ok()?;
        let generation = crd.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or(0);
        let wish = (object::uid(crd).to_owned(), generation);
        let since = match before {
            Some(before) if before.wish == wish => before.since,
            _ => self.store.revision(),
        };
        Some(Defined { definition, read_at: object::revision(crd).to_owned(), wish, since })
    }

    /// Serves what the stored definitions define.
    pub(super) fn serve_definitions(&mut self) {
        let stored = self.stored_definitions();
        let mut known = std::mem::take(&mut self.definitions.0);
        for Defined { definition: gone, .. } in known.values() {
            self.kinds.remove(&gone.group, &gone.names.plural);
        }
        for crd in stored {
            let is_established =
                crd.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten().any(
                    |condition| {
                        condition["type"] == json!("Established") && condition["status"] == json!("True")
                    },
                );
            if !is_established {
                continue;
            }
            let defined = match known.remove(object::name(&crd)) {
                Some(known) if known.read_at == object::revision(&crd) => Some(known),
                known => self.defined(&crd, known),
            };
            if let Some(defined) = defined {
                for resource in defined.definition.resources() {
                    self.kinds.add(Arc::new(resource));
                }
                self.definitions.0.insert(defined.definition.name.clone(), defined);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::World;

    const CARS: &str = "/apis/example.com/v1/cars";

    async fn ask(world: &World, method: &str, path: &str, body: Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let request = http::Request::builder().method(method).uri(path).header("content-type", kind);
        let request = request.body(axum::body::Body::from(body)).unwrap();
        let answer = tower_service::Service::call(&mut world.client("test"), request).await.unwrap();
        let status = answer.status().as_u16();
        let bytes = axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        (status, serde_json::from_slice(&bytes).unwrap_or_default())
    }

    #[tokio::test]
    async fn a_definition_takes_along_what_it_defines_and_waits_for_what_stays() {
        let world = World::new(1, "2026-01-01T00:00:00Z".parse().unwrap());
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let definition = format!("{definitions}/cars.example.com");
        let crd = json!({
            "metadata": {"name": "cars.example.com"},
            "spec": {
                "group": "example.com", "scope": "Cluster", "names": {"plural": "cars", "kind": "Car"},
                "versions": [{"name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object"}}}],
            },
        });
        let car = |name: &str, finalizers: Value| {
            json!({
                "apiVersion": "example.com/v1", "kind": "Car",
                "metadata": {"name": name, "finalizers": finalizers},
            })
        };
        for held in [false, true] {
            assert_eq!(ask(&world, "POST", definitions, crd.clone()).await.0, 201);
            let (_, cars) = ask(&world, "GET", CARS, Value::Null).await;
            assert_eq!(cars["items"], json!([]), "cars of a former definition");
            ask(&world, "POST", CARS, car("a", json!([]))).await;
            if held {
                ask(&world, "POST", CARS, car("b", json!(["example.com/garage"]))).await;
            }
            assert_eq!(ask(&world, "DELETE", &definition, Value::Null).await.0, 200);
            if held {
                let (status, crd) = ask(&world, "GET", &definition, Value::Null).await;
                assert_eq!((status, &crd["metadata"]["finalizers"]), (200, &json!([CLEANUP])));
                let free = json!({"metadata": {"finalizers": null}});
                assert_eq!(ask(&world, "PATCH", &format!("{CARS}/b"), free).await.0, 200);
            }
            assert_eq!(ask(&world, "GET", &definition, Value::Null).await.0, 404);
            assert_eq!(ask(&world, "GET", CARS, Value::Null).await.0, 404);
        }
    }
}
