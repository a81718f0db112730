//! Custom resources: their definitions, and what those say of objects that are written.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::State;
use super::delete::Options;
use crate::crd::{self, Definition, Version};
use crate::discovery::served;
use crate::failure::{Cause, Failure};
use crate::json::{Value, json};
use crate::kinds::{Resource, Subresource};
use crate::object;
use crate::patch::Shape;
use crate::store::Key;
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
        let of_definition = resource.is_custom.then(|| Key::new(DEFINITIONS, "", &resource.qualified()));
        let schema = of_definition.and_then(|key| self.store.get(&key)).and_then(|crd| {
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
        if !resource.is_custom || self.is_in_form(resource, object) {
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

    /// What of a definition is served, and what is not because the API server has its place for its own.
    fn divided(&self, definition: &Definition) -> (Vec<Resource>, Vec<Resource>) {
        definition.resources().into_iter().partition(|resource| {
            let Resource { group, version, plural, .. } = resource;
            !self.kinds.has_built_in(group, version, plural) && !served::is_virtual(group, version)
        })
    }

    /// What is said of a definition of which the world makes less than it says.
    pub(super) fn definition_warnings(&self, crd: &Value) -> Vec<String> {
        let unserved = Definition::parse(crd).map_or_else(|_| Vec::new(), |of| self.divided(&of).1);
        let of_own = unserved.iter().map(|resource| {
            let (plural, api_version) = (&resource.plural, resource.api_version());
            format!(
                "spec.group: {plural} of {api_version} are not served: that place is the API server's own"
            )
        });
        of_own.chain(crd::conversion_warning(crd).map(str::to_owned)).collect()
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
        self.kinds.remove_custom();
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
            let Some(defined) = defined else { continue };
            let (served, _) = self.divided(&defined.definition);
            if served.is_empty() {
                continue;
            }
            for resource in served {
                self.kinds.add(Arc::new(resource));
            }
            self.definitions.0.insert(defined.definition.name.clone(), defined);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ask::{answer, ask, world};
    use super::*;

    const DEFINED_AT: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    const CARS: &str = "/apis/example.com/v1/cars";

    fn definition(group: &str, plural: &str, kind: &str, version: &str) -> Value {
        json!({
            "metadata": {
                "name": format!("{plural}.{group}"),
                "annotations": {"api-approved.kubernetes.io": "https://example.com/approved"},
            },
            "spec": {
                "group": group, "scope": "Cluster", "names": {"plural": plural, "kind": kind},
                "versions": [{
                    "name": version, "served": true, "storage": true, "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
                }],
            },
        })
    }

    #[tokio::test]
    async fn a_definition_takes_along_what_it_defines_and_waits_for_what_stays() {
        let world = world();
        let at = format!("{DEFINED_AT}/cars.example.com");
        let crd = definition("example.com", "cars", "Car", "v1");
        let car = |name: &str, finalizers: Value| {
            json!({
                "apiVersion": "example.com/v1", "kind": "Car",
                "metadata": {"name": name, "finalizers": finalizers},
            })
        };
        for held in [false, true] {
            assert_eq!(ask(&world, "POST", DEFINED_AT, crd.clone()).await.0, 201);
            let (_, cars) = ask(&world, "GET", CARS, Value::Null).await;
            assert_eq!(cars["items"], json!([]), "cars of a former definition");
            ask(&world, "POST", CARS, car("a", json!([]))).await;
            if held {
                ask(&world, "POST", CARS, car("b", json!(["example.com/garage"]))).await;
            }
            assert_eq!(ask(&world, "DELETE", &at, Value::Null).await.0, 200);
            if held {
                let (status, crd) = ask(&world, "GET", &at, Value::Null).await;
                assert_eq!((status, &crd["metadata"]["finalizers"]), (200, &json!([CLEANUP])));
                let free = json!({"metadata": {"finalizers": null}});
                assert_eq!(ask(&world, "PATCH", &format!("{CARS}/b"), free).await.0, 200);
            }
            assert_eq!(ask(&world, "GET", &at, Value::Null).await.0, 404);
            assert_eq!(ask(&world, "GET", CARS, Value::Null).await.0, 404);
        }
    }
    /// Kubernetes' own groups have definitions, too.
    #[tokio::test]
    async fn what_a_definition_serves_is_custom_whatever_its_group_is_called() {
        for (group, kind) in [
            ("gateway.networking.k8s.io", "Gateway"),
            ("snapshot.storage.k8s.io", "VolumeSnapshot"),
            ("cluster.x-k8s.io", "Machine"),
            ("node.longhorn.io", "Node"),
            ("policy.example.com", "Pod"),
        ] {
            let world = world();
            let crd = definition(group, "things", kind, "v1");
            let (code, crd) = ask(&world, "POST", DEFINED_AT, crd).await;
            assert_eq!(code, 201, "{crd}");
            let approved = object::condition_status(&crd, "KubernetesAPIApprovalPolicyConformant");
            assert_eq!(approved, if group.ends_with(".k8s.io") { "True" } else { "" }, "{group}");
            let all = format!("/apis/{group}/v1/things");
            let thing = json!({
                "apiVersion": format!("{group}/v1"), "kind": kind, "metadata": {"name": "a"},
                "spec": {"size": 1}, "status": {"is": "nothing yet"},
            });
            let (code, made) = ask(&world, "POST", &all, thing).await;
            assert_eq!(
                (code, &made["metadata"]["generation"], &made["status"]),
                (201, &json!(1), &Value::Null)
            );
            let one = format!("{all}/a");
            let (_, changed) = ask(&world, "PATCH", &one, json!({"spec": {"size": 2}, "x": "y"})).await;
            assert_eq!((&changed["spec"]["size"], &changed["x"]), (&json!(2), &json!("y")), "{group}");
            assert_eq!(changed["metadata"]["generation"], 2, "{group}");
            let status = json!({"status": {"is": "there"}, "spec": {"size": 3}});
            let (_, changed) = ask(&world, "PATCH", &format!("{one}/status"), status).await;
            assert_eq!((&changed["spec"]["size"], &changed["status"]["is"]), (&json!(2), &json!("there")));
            let strategic = [("content-type", "application/strategic-merge-patch+json")];
            assert_eq!(answer(&world, "PATCH", &one, &strategic, &json!({})).await.status(), 415, "{group}");
            let (_, list) = ask(&world, "GET", &all, Value::Null).await;
            assert_eq!(
                (&list["items"][0]["kind"], &list["metadata"]["continue"]),
                (&json!(kind), &json!(""))
            );
            for (path, code) in [
                (format!("{all}?fieldSelector=metadata.name%3Da"), 200),
                (format!("{all}?fieldSelector=status.phase%3Da"), 400),
                (format!("{one}/scale"), 404),
                (format!("/apis/{group}/v2/things"), 404),
            ] {
                assert_eq!(ask(&world, "GET", &path, Value::Null).await.0, code, "{path}");
            }
        }
    }

    #[tokio::test]
    async fn no_definition_takes_the_place_of_what_is_built_in() {
        let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
        for (group, plural, version) in [
            ("coordination.k8s.io", "leases", "v1"),
            ("coordination.k8s.io", "leases", "v2"),
            ("coordination.k8s.io", "moorings", "v1"),
            ("authorization.k8s.io", "moorings", "v1"),
            ("metrics.k8s.io", "pods", "v1beta1"),
        ] {
            let world = world();
            ask(&world, "POST", leases, json!({"metadata": {"name": "a"}})).await;
            let crd = definition(group, plural, "Mooring", version);
            let told = answer(&world, "POST", DEFINED_AT, &[], &crd).await;
            let warning = told.headers().get("warning").map(|text| text.to_str().unwrap().to_owned());
            let expected = format!(
                "299 - \"spec.group: {plural} of {group}/{version} are not served: that place is the API server's own\""
            );
            assert_eq!((told.status().as_u16(), warning), (201, Some(expected)));
            let resources = |list: Value| -> Vec<Value> {
                list["resources"].as_array().into_iter().flatten().map(|of| of["kind"].clone()).collect()
            };
            let (_, list) = ask(&world, "GET", &format!("/apis/{group}/{version}"), Value::Null).await;
            assert!(!resources(list).contains(&json!("Mooring")), "{plural} of {group}/{version}");
            let at = format!("{DEFINED_AT}/{plural}.{group}");
            assert_eq!(ask(&world, "DELETE", &at, Value::Null).await.0, 200);
            assert_eq!(ask(&world, "GET", &format!("{leases}/a"), Value::Null).await.0, 200);
        }
        // In another version of such a group there is room for what is not there yet.
        let world = world();
        ask(&world, "POST", DEFINED_AT, definition("coordination.k8s.io", "moorings", "Mooring", "v2")).await;
        let moorings = "/apis/coordination.k8s.io/v2/moorings";
        assert_eq!(ask(&world, "GET", moorings, Value::Null).await.0, 200);
    }
}
