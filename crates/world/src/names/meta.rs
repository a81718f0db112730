//! What is checked of every object's metadata when it is created and when it is updated.

use std::collections::BTreeSet;

use super::{
    NameRule, forbidden, invalid, invalid_value, qualified_name_problems, quoted, required, too_long,
    validate_annotations, validate_labels,
};
use crate::failure::Cause;
use crate::json::{Value, json};
use crate::kinds::Resource;
use crate::object;

/// Finalizers that need no domain.
const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", ORPHAN, FOREGROUND];
const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// What is wrong with the metadata of a new object, whose name was generated already.
pub fn validate_create(resource: &Resource, object: &Value) -> Vec<Cause> {
    let mut causes = as_created(resource, NameRule::of(resource), object);
    if resource.kind == "CronJob" && !resource.is_custom && text(object, "name").len() > 52 {
        // Its jobs get names that are longer by eleven.
        let why = "must be no more than 52 characters";
        causes.push(invalid("metadata.name", text(object, "name"), why));
    }
    if needs_domains(resource) {
        causes.extend(finalizers_without_domain(object));
    }
    causes
}

/// What is wrong with metadata that replaces older metadata. The server has filled in what may be left
/// out: uid, creationTimestamp, deletionTimestamp, deletionGracePeriodSeconds and generation, and, where an
/// update need not say it, the resourceVersion.
///
/// The same cause can be there more than once: the server checks for all kinds, then for one. What comes second is
/// what it finds when it comes back to the metadata, for some kinds after a look at the rest.
pub fn validate_update(resource: &Resource, new: &Value, old: &Value) -> [Vec<Cause>; 2] {
    updated(resource, new, old, checks(resource))
}

/// The same for a write of the status, of which a kind checks less.
pub fn validate_status_update(resource: &Resource, new: &Value, old: &Value) -> [Vec<Cause>; 2] {
    let is_passed = resource.kind == "PodDisruptionBudget" && !resource.is_custom;
    updated(resource, new, old, if is_passed { &[] } else { &[Check::AsChanged] })
}

fn updated(resource: &Resource, new: &Value, old: &Value, more: &[Check]) -> [Vec<Cause>; 2] {
    if text(new, "resourceVersion").is_empty() {
        let why = "must be specified for an update";
        return [vec![invalid_value("metadata.resourceVersion", "0", why)], Vec::new()];
    }
    let changed = as_changed(new, old);
    let found = |check: &Check| match check {
        Check::AsCreated => validate_create(resource, new),
        Check::AsChanged => {
            let mut causes = changed.clone();
            if needs_domains(resource) {
                causes.extend(finalizers_without_domain(new));
            }
            causes
        }
    };
    let mut causes = as_created(resource, NameRule::PathSegment, new);
    causes.extend(changed.iter().cloned());
    let mut more = more.iter();
    causes.extend(more.next().map(found).unwrap_or_default());
    [causes, more.flat_map(found).collect()]
}

enum Check {
    AsCreated,
    AsChanged,
}

/// What a kind checks once more when an object is updated, and in what order.
fn checks(resource: &Resource) -> &'static [Check] {
    match (&*resource.group, &*resource.kind) {
        ("policy", "PodDisruptionBudget") => &[],
        ("", "LimitRange") | ("storage.k8s.io", "CSINode") | ("admissionregistration.k8s.io", _) => {
            &[Check::AsCreated]
        }
        ("rbac.authorization.k8s.io", _)
        | ("", "Namespace" | "Node" | "PersistentVolume")
        | ("batch", "Job")
        | ("node.k8s.io", "RuntimeClass")
        | ("storage.k8s.io", "StorageClass") => &[Check::AsCreated, Check::AsChanged],
        ("networking.k8s.io", "Ingress" | "IngressClass") | ("", "ConfigMap" | "Pod" | "Secret") => {
            &[Check::AsChanged, Check::AsCreated]
        }
        _ => &[Check::AsChanged],
    }
}

/// Whether finalizers must be standard ones or have a domain.
fn needs_domains(resource: &Resource) -> bool {
    match &*resource.group {
        ""
        | "apps"
        | "autoscaling"
        | "batch"
        | "discovery.k8s.io"
        | "events.k8s.io"
        | "networking.k8s.io"
        | "rbac.authorization.k8s.io"
        | "scheduling.k8s.io"
        | "storage.k8s.io" => true,
        // Custom resources, and the kinds that leave it at what holds for all.
        _ => false,
    }
}

fn as_created(resource: &Resource, rule: NameRule, object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let (name, generated) = (text(object, "name"), text(object, "generateName"));
    let named_by_spec =
        rule != NameRule::PathSegment && resource.kind == "CustomResourceDefinition" && !resource.is_custom;
    let problems_with_spec = |name: &str| {
        let [plural, group] = ["/spec/names/plural", "/spec/group"].map(|at| at_text(object, at));
        let wrong = named_by_spec && name != format!("{plural}.{group}");
        wrong.then(|| "must be spec.names.plural+\".\"+spec.group".to_owned())
    };
    // Of replication controllers only the name that came of it is checked.
    let is_checked_before = resource.is_custom || resource.kind != "ReplicationController";
    if !generated.is_empty() && is_checked_before {
        let problems = rule.problems_of_prefix(generated).into_iter().chain(problems_with_spec(generated));
        causes.extend(problems.map(|why| invalid("metadata.generateName", generated, &why)));
    }
    if name.is_empty() {
        causes.push(required("metadata.name", "name or generateName is required"));
    } else {
        let problems = rule.problems(name).into_iter().chain(problems_with_spec(name));
        causes.extend(problems.map(|why| invalid("metadata.name", name, &why)));
    }
    let namespace = text(object, "namespace");
    match (resource.is_namespaced(), namespace) {
        (true, "") => causes.push(required("metadata.namespace", "")),
        (true, _) => {
            let problems = NameRule::Label.problems(namespace);
            causes.extend(problems.iter().map(|why| invalid("metadata.namespace", namespace, why)));
        }
        (false, "") => {}
        (false, _) => causes.push(forbidden("metadata.namespace", "not allowed on this type")),
    }
    let generation = generation(object);
    if generation < 0 {
        let why = "must be greater than or equal to 0";
        causes.push(invalid_value("metadata.generation", &generation.to_string(), why));
    }
    causes.extend(validate_labels(field(object, "labels"), "metadata.labels"));
    causes.extend(validate_annotations(field(object, "annotations"), "metadata.annotations"));
    causes.extend(owner_references(object));
    causes.extend(finalizers(object));
    causes.extend(managed_fields(object));
    causes
}

fn as_changed(new: &Value, old: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    if !text(old, "deletionTimestamp").is_empty() {
        causes.extend(new_finalizers(new, old));
    }
    if generation(new) < generation(old) {
        let said = generation(new).to_string();
        causes.push(invalid_value("metadata.generation", &said, "must not be decremented"));
    }
    for name in ["name", "namespace", "uid"] {
        if text(new, name) != text(old, name) {
            causes.push(immutable(name, &quoted(text(new, name))));
        }
    }
    for name in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        let value = field(new, name);
        if value != field(old, name) {
            causes.push(immutable(name, &value.to_string()));
        }
    }
    causes.extend(validate_labels(field(new, "labels"), "metadata.labels"));
    causes.extend(validate_annotations(field(new, "annotations"), "metadata.annotations"));
    causes.extend(owner_references(new));
    causes.extend(managed_fields(new));
    causes
}

fn immutable(name: &str, value: &str) -> Cause {
    invalid_value(&format!("metadata.{name}"), value, "field is immutable")
}

fn owner_references(object: &Value) -> Vec<Cause> {
    const FIELD: &str = "metadata.ownerReferences";
    let references = list(object, "ownerReferences");
    let mut causes = Vec::new();
    let mut first_controller: Option<String> = None;
    for reference in references {
        let [api_version, kind, name, uid] =
            ["apiVersion", "kind", "name", "uid"].map(|key| reference[key].as_str().unwrap_or_default());
        if version_of(api_version).is_empty() {
            causes.push(invalid(&format!("{FIELD}.apiVersion"), api_version, "version must not be empty"));
        }
        for (key, value) in [("kind", kind), ("name", name), ("uid", uid)] {
            if value.is_empty() {
                causes.push(invalid(&format!("{FIELD}.{key}"), value, "must not be empty"));
            }
        }
        if (api_version, kind) == ("v1", "Event") {
            let why = "/v1, Kind=Event is disallowed from being an owner";
            causes.push(invalid_value(FIELD, &reference_json(reference), why));
        }
        if reference["controller"] == json!(true) {
            let controller = format!("{kind}/{name}");
            if let Some(first) = &first_controller {
                let all: Vec<String> = references.iter().map(reference_json).collect();
                let why = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {controller}"
                );
                causes.push(invalid_value(FIELD, &format!("[{}]", all.join(",")), &why));
            } else {
                first_controller = Some(controller);
            }
        }
    }
    causes
}

/// Empty where the version cannot be told.
fn version_of(api_version: &str) -> &str {
    match api_version.split('/').collect::<Vec<_>>()[..] {
        [version] | [_, version] => version,
        _ => "",
    }
}

/// With the fields in the order in which the API declares them.
fn reference_json(reference: &Value) -> String {
    let text = |key: &str| json!(reference[key].as_str().unwrap_or_default()).to_string();
    let mut fields: Vec<String> =
        ["apiVersion", "kind", "name", "uid"].iter().map(|key| format!("\"{key}\":{}", text(key))).collect();
    for key in ["controller", "blockOwnerDeletion"] {
        if let Some(flag) = reference[key].as_bool() {
            fields.push(format!("\"{key}\":{flag}"));
        }
    }
    format!("{{{}}}", fields.join(","))
}

fn finalizers(object: &Value) -> Vec<Cause> {
    const FIELD: &str = "metadata.finalizers";
    let names = finalizer_names(object);
    let mut causes = Vec::new();
    for name in &names {
        causes.extend(qualified_name_problems(name).iter().map(|why| invalid(FIELD, name, why)));
    }
    if names.contains(&ORPHAN) && names.contains(&FOREGROUND) {
        let why = format!("finalizer {ORPHAN} and {FOREGROUND} cannot be both set");
        causes.push(invalid_value(FIELD, &json!(names).to_string(), &why));
    }
    causes
}

/// What the server says of the new finalizers of a custom resource, which may be called as one likes.
pub fn finalizer_warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    let known = old.map(finalizer_names).unwrap_or_default();
    let added: BTreeSet<&str> =
        finalizer_names(new).into_iter().filter(|name| !known.contains(name)).collect();
    let warnings = added.into_iter().flat_map(|name| {
        let mut problems = qualified_name_problems(name);
        if !name.contains('/') && !STANDARD_FINALIZERS.contains(&name) {
            let with_path = if name.contains('.') { " including a path (/)" } else { "" };
            problems.push(format!(
                "prefer a domain-qualified finalizer name{with_path} to avoid accidental conflicts with other finalizer writers"
            ));
        }
        problems.into_iter().map(move |why| format!("metadata.finalizers: {}: {why}", quoted(name)))
    });
    warnings.collect()
}

fn finalizers_without_domain(object: &Value) -> Vec<Cause> {
    let names = finalizer_names(object);
    let fields = (0..).map(|index| format!("metadata.finalizers[{index}]"));
    fields.zip(names).filter_map(|(field, name)| without_domain(&field, name)).collect()
}

fn without_domain(field: &str, name: &str) -> Option<Cause> {
    let why = "name is neither a standard finalizer name nor is it fully qualified";
    let is_wrong = !name.contains('/') && !STANDARD_FINALIZERS.contains(&name);
    is_wrong.then(|| invalid(field, name, why))
}

/// What is wrong with the name of a finalizer.
pub(crate) fn finalizer_problems(field: &str, name: &str) -> Vec<Cause> {
    let problems = qualified_name_problems(name);
    problems.iter().map(|why| invalid(field, name, why)).chain(without_domain(field, name)).collect()
}

/// An object that is being deleted gets no more finalizers.
fn new_finalizers(new: &Value, old: &Value) -> Option<Cause> {
    let known = finalizer_names(old);
    let mut added = finalizer_names(new);
    added.retain(|name| !known.contains(name));
    added.sort_unstable();
    added.dedup();
    let names: Vec<String> = added.iter().map(|name| quoted(name)).collect();
    let names = format!("[]string{{{}}}", names.join(", "));
    let why = "no new finalizers can be added if the object is being deleted, found new finalizers";
    (!added.is_empty()).then(|| forbidden("metadata.finalizers", &format!("{why} {names}")))
}

fn managed_fields(object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (index, entry) in list(object, "managedFields").iter().enumerate() {
        let at = |key: &str| format!("metadata.managedFields[{index}].{key}");
        let text = |key: &str| entry[key].as_str().unwrap_or_default();
        if !matches!(text("operation"), "Apply" | "Update") {
            causes.push(invalid(&at("operation"), text("operation"), "must be `Apply` or `Update`"));
        }
        if !matches!(text("fieldsType"), "" | "FieldsV1") {
            causes.push(invalid(&at("fieldsType"), text("fieldsType"), "must be `FieldsV1`"));
        }
        let manager = text("manager");
        if manager.len() > 128 {
            causes.push(too_long(&at("manager"), 128));
        }
        for (position, letter) in manager.char_indices().filter(|(_, letter)| !super::is_printable(*letter)) {
            let why = format!("invalid character U+{:04X} (at position {position})", u32::from(letter));
            causes.push(invalid(&at("manager"), manager, &why));
        }
        if text("subresource").len() > 256 {
            causes.push(too_long(&at("subresource"), 256));
        }
    }
    causes
}

fn field<'a>(object: &'a Value, name: &str) -> &'a Value {
    &object["metadata"][name]
}

fn text<'a>(object: &'a Value, name: &str) -> &'a str {
    field(object, name).as_str().unwrap_or_default()
}

fn at_text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object::at(object, pointer).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(object: &'a Value, name: &str) -> &'a [Value] {
    field(object, name).as_array().map_or(&[], Vec::as_slice)
}

fn generation(object: &Value) -> i64 {
    field(object, "generation").as_i64().unwrap_or_default()
}

fn finalizer_names(object: &Value) -> Vec<&str> {
    list(object, "finalizers").iter().filter_map(Value::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::{Kinds, Scope};

    const NO_SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

    fn resource(plural: &str) -> Resource {
        let kinds = Kinds::built_in();
        if let Some(found) = kinds.all().find(|resource| resource.plural == plural) {
            return (**found).clone();
        }
        let custom = kinds.find("", "v1", "pods").unwrap();
        Resource {
            group: "example.com".into(),
            kind: "Widget".into(),
            scope: Scope::Namespaced,
            is_custom: true,
            ..(**custom).clone()
        }
    }

    fn said(causes: &[Cause]) -> Vec<String> {
        causes.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn new_objects_are_checked() {
        let fine = json!({"name": "a", "namespace": "b"});
        let with = |field: &str, value: Value| {
            let mut metadata = fine.clone();
            metadata[field] = value;
            metadata
        };
        let owner = |kind: &str, name: &str| json!({"apiVersion": "v1", "kind": kind, "name": name, "uid": "u", "controller": true});
        let cases: &[(&str, Value, &[&str])] = &[
            ("pods", fine.clone(), &[]),
            ("widgets", fine.clone(), &[]),
            (
                "pods",
                json!({}),
                &[
                    "metadata.name: Required value: name or generateName is required",
                    "metadata.namespace: Required value",
                ],
            ),
            ("pods", with("generateName", json!("a-")), &[]),
            ("nodes", fine.clone(), &["metadata.namespace: Forbidden: not allowed on this type"]),
            (
                "pods",
                with("name", json!("A")),
                &[&format!("metadata.name: Invalid value: \"A\": {NO_SUBDOMAIN}")],
            ),
            (
                "pods",
                with("generateName", json!("A")),
                &[&format!("metadata.generateName: Invalid value: \"A\": {NO_SUBDOMAIN}")],
            ),
            ("replicationcontrollers", with("generateName", json!("A")), &[]),
            (
                "pods",
                with("namespace", json!("a.b")),
                &["metadata.namespace: Invalid value: \"a.b\": must not contain dots"],
            ),
            (
                "pods",
                with("generation", json!(-1)),
                &["metadata.generation: Invalid value: -1: must be greater than or equal to 0"],
            ),
            ("pods", with("finalizers", json!(["example.com/a", "kubernetes", "orphan"])), &[]),
            (
                "pods",
                with("finalizers", json!(["orphan", "x"])),
                &[
                    "metadata.finalizers[1]: Invalid value: \"x\": name is neither a standard finalizer name nor is it fully qualified",
                ],
            ),
            ("widgets", with("finalizers", json!(["x"])), &[]),
            ("leases", with("finalizers", json!(["x"])), &[]),
            (
                "pods",
                with("finalizers", json!(["orphan", "foregroundDeletion"])),
                &[
                    "metadata.finalizers: Invalid value: [\"orphan\",\"foregroundDeletion\"]: finalizer orphan and foregroundDeletion cannot be both set",
                ],
            ),
            (
                "widgets",
                with("ownerReferences", json!([{}])),
                &[
                    "metadata.ownerReferences.apiVersion: Invalid value: \"\": version must not be empty",
                    "metadata.ownerReferences.kind: Invalid value: \"\": must not be empty",
                    "metadata.ownerReferences.name: Invalid value: \"\": must not be empty",
                    "metadata.ownerReferences.uid: Invalid value: \"\": must not be empty",
                ],
            ),
            (
                "pods",
                with(
                    "ownerReferences",
                    json!([{"apiVersion": "v1", "kind": "Event", "name": "e", "uid": "u"}]),
                ),
                &[
                    "metadata.ownerReferences: Invalid value: {\"apiVersion\":\"v1\",\"kind\":\"Event\",\"name\":\"e\",\"uid\":\"u\"}: /v1, Kind=Event is disallowed from being an owner",
                ],
            ),
            (
                "pods",
                with("ownerReferences", json!([owner("A", "a"), owner("B", "b")])),
                &[
                    "metadata.ownerReferences: Invalid value: [{\"apiVersion\":\"v1\",\"kind\":\"A\",\"name\":\"a\",\"uid\":\"u\",\"controller\":true},{\"apiVersion\":\"v1\",\"kind\":\"B\",\"name\":\"b\",\"uid\":\"u\",\"controller\":true}]: Only one reference can have Controller set to true. Found \"true\" in references for A/a and B/b",
                ],
            ),
            (
                "pods",
                with("managedFields", json!([{"operation": "x", "fieldsType": "y", "manager": "a\n"}])),
                &[
                    "metadata.managedFields[0].operation: Invalid value: \"x\": must be `Apply` or `Update`",
                    "metadata.managedFields[0].fieldsType: Invalid value: \"y\": must be `FieldsV1`",
                    "metadata.managedFields[0].manager: Invalid value: \"a\\n\": invalid character U+000A (at position 1)",
                ],
            ),
            (
                "cronjobs",
                with("name", json!("a".repeat(53))),
                &[&format!(
                    "metadata.name: Invalid value: \"{}\": must be no more than 52 characters",
                    "a".repeat(53)
                )],
            ),
            (
                "customresourcedefinitions",
                json!({"name": "a"}),
                &["metadata.name: Invalid value: \"a\": must be spec.names.plural+\".\"+spec.group"],
            ),
            ("customresourcedefinitions", json!({"name": "widgets.example.com"}), &[]),
        ];
        for (plural, metadata, expected) in cases {
            let spec = json!({"names": {"plural": "widgets"}, "group": "example.com"});
            let object = json!({"metadata": metadata, "spec": spec});
            assert_eq!(said(&validate_create(&resource(plural), &object)), *expected, "{plural} {metadata}");
        }
    }

    #[test]
    fn changed_objects_are_checked() {
        let old = json!({
            "name": "a", "namespace": "b", "uid": "u", "resourceVersion": "1", "generation": 2,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        });
        let no_version = "metadata.resourceVersion: Invalid value: 0: must be specified for an update";
        let dotted = "metadata.finalizers[0]: Invalid value: \"x\": name is neither a standard finalizer name nor is it fully qualified";
        let added = "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"example.com/a\", \"example.com/b\"}";
        let cases: &[(&str, &str, Value, &[&str])] = &[
            ("pods", "labels", json!({"a": "b"}), &[]),
            ("leases", "resourceVersion", json!(""), &[no_version]),
            ("poddisruptionbudgets", "resourceVersion", json!(""), &[no_version]),
            ("widgets", "name", json!("c"), &["metadata.name: Invalid value: \"c\": field is immutable"; 2]),
            ("pods", "uid", json!("v"), &["metadata.uid: Invalid value: \"v\": field is immutable"; 2]),
            (
                "pods",
                "generation",
                json!(1),
                &["metadata.generation: Invalid value: 1: must not be decremented"; 2],
            ),
            (
                "pods",
                "creationTimestamp",
                Value::Null,
                &["metadata.creationTimestamp: Invalid value: null: field is immutable"; 2],
            ),
            (
                "pods",
                "deletionGracePeriodSeconds",
                json!(5),
                &["metadata.deletionGracePeriodSeconds: Invalid value: 5: field is immutable"; 2],
            ),
            ("pods", "finalizers", json!(["x"]), &[dotted, dotted]),
            ("services", "finalizers", json!(["x"]), &[dotted]),
            ("limitranges", "finalizers", json!(["x"]), &[dotted]),
            ("roles", "finalizers", json!(["x"]), &[dotted, dotted]),
            ("widgets", "finalizers", json!(["x"]), &[]),
        ];
        for (plural, field, value, expected) in cases {
            let mut new = json!({"metadata": old});
            new["metadata"][*field] = value.clone();
            let causes = validate_update(&resource(plural), &new, &json!({"metadata": old})).concat();
            assert_eq!(said(&causes), *expected, "{plural} {field} {value}");
        }

        let mut dying = json!({"metadata": old});
        dying["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        dying["metadata"]["finalizers"] = json!(["example.com/old"]);
        let mut new = dying.clone();
        new["metadata"]["finalizers"] = json!(["example.com/b", "example.com/a"]);
        assert_eq!(said(&validate_update(&resource("pods"), &new, &dying).concat()), [added, added]);
        new["metadata"]["finalizers"] = json!([]);
        assert_eq!(validate_update(&resource("pods"), &new, &dying), [[], []]);
    }
}
