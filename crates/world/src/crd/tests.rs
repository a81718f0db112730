//! The rows of `told.json` were compared with a real API server, message by message.

use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;

use super::*;
use crate::json::{Value, json};

#[derive(serde::Deserialize)]
struct Told {
    rows: Vec<Row>,
}

#[derive(serde::Deserialize)]
struct Row {
    change: Value,
    told: Vec<String>,
}

const LABEL: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";

fn gadgets() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "gadgets", "kind": "Gadget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    })
}

fn changed(change: &Value) -> Value {
    crate::patch::merge_patch(&gadgets(), change).unwrap()
}

fn texts(causes: &[Cause]) -> Vec<String> {
    causes.iter().map(ToString::to_string).collect()
}

#[test]
fn definitions_are_judged_as_told() {
    let told: Told = serde_json::from_str(include_str!("told.json")).unwrap();
    for row in &told.rows {
        let found = texts(&Definition::parse(&changed(&row.change)).err().unwrap_or_default());
        let expected: Vec<String> = row.told.iter().map(|text| text.replace("LABEL", LABEL)).collect();
        assert_eq!(found, expected, "{}", row.change);
    }
}

#[test]
fn a_status_leaves_little_for_the_root() {
    let change = json!({"spec": {"versions": [{
        "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "oneOf": [{"required": ["spec"]}], "properties": {"spec": {"type": "object", "additionalProperties": {"type": "string"}}}}},
    }]}});
    let found = texts(&Definition::parse(&changed(&change)).unwrap_err());
    let plain = in_go::schema(&JSONSchemaProps::default());
    let with = |from: &str, to: &str, text: &str| text.replacen(from, to, 1);
    let text = with("\"Type\":\"\"", "\"Type\":\"string\"", &plain);
    let map = with("\"Type\":\"\"", "\"Type\":\"object\"", &plain);
    let map = with(
        "\"AdditionalProperties\":null",
        &format!("\"AdditionalProperties\":{{\"Allows\":true,\"Schema\":{text}}}"),
        &map,
    );
    let one = with("\"Required\":null", "\"Required\":[\"spec\"]", &plain);
    let root = with("\"Type\":\"\"", "\"Type\":\"object\"", &plain);
    let root = with("\"Properties\":null", &format!("\"Properties\":{{\"spec\":{map}}}"), &root);
    let root = with("\"OneOf\":null", &format!("\"OneOf\":[{one}]"), &root);
    assert!(
        plain.starts_with(r#"{"ID":"","Schema":"","Ref":null,"Description":"","Type":"","Nullable":false,"#),
        "{plain}"
    );
    let start =
        format!("spec.validation.openAPIV3Schema: Invalid value: {root}: only [Description Type Format");
    assert!(found[0].starts_with(&start), "{found:?}\n{start}");
    assert_eq!(found.len(), 1);
}

#[test]
fn a_definition_is_read_whole() {
    let crd = changed(
        &json!({"spec": {"scope": "Cluster", "names": {"shortNames": ["gd"], "categories": ["all"]}, "versions": [
            {
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {"color": {"type": "string"}}}}}},
                "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
                "additionalPrinterColumns": [{"name": "Color", "type": "string", "jsonPath": ".spec.color", "priority": 1}],
                "selectableFields": [{"jsonPath": ".spec.color"}],
            },
            {"name": "v2", "served": false, "storage": false, "deprecated": true, "schema": {"openAPIV3Schema": {"type": "object"}}},
        ]}}),
    );
    let definition = Definition::parse(&crd).map_err(|causes| texts(&causes)).unwrap();
    let [first, second] = &definition.versions[..] else { panic!("two versions") };
    assert_eq!(definition.names.singular, "gadget");
    assert_eq!(definition.names.list_kind, "GadgetList");
    assert_eq!(first.selectable_fields, ["spec.color"]);
    assert_eq!(first.columns[0].json_path, ".spec.color");
    assert_eq!(second.deprecation.as_deref(), Some(""));
    assert_eq!(definition.storage().map(|version| &*version.name), Some("v1"));
    let resources = definition.resources();
    assert_eq!(resources.len(), 1);
    assert_eq!(resources[0].qualified(), "gadgets.example.com");
    assert_eq!(resources[0].subresources, [Subresource::Status, Subresource::Scale]);
    assert_eq!(resources[0].short_names, ["gd"]);
    assert!(!resources[0].is_namespaced());
}

#[test]
fn some_things_never_change() {
    let parse = |change: Value| Definition::parse(&changed(&change)).unwrap();
    let old = parse(json!({}));
    for (new, established, stored, told) in [
        (json!({}), true, "v1", vec![]),
        (json!({"spec": {"scope": "Cluster"}}), false, "v1", vec![]),
        (
            json!({"spec": {"scope": "Cluster"}}),
            true,
            "v1",
            vec!["spec.scope: Invalid value: \"Cluster\": field is immutable"],
        ),
        (
            json!({"spec": {"names": {"kind": "Widget"}}}),
            true,
            "v1",
            vec!["spec.names.kind: Invalid value: \"Widget\": field is immutable"],
        ),
        (
            json!({}),
            true,
            "v0",
            vec![
                "status.storedVersions[0]: Invalid value: \"v0\": missing from spec.versions; v0 was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in v0 and removes v0 from status.storedVersions",
            ],
        ),
    ] {
        let found = parse(new).check_update(&old, established, &[stored.to_owned()]);
        assert_eq!(texts(&found), told);
    }
}

#[test]
fn replicas_fit_a_scale() {
    let scale = Scale {
        spec_replicas: ".spec.replicas".to_owned(),
        status_replicas: ".status.replicas".to_owned(),
        label_selector: Some(".status.selector".to_owned()),
    };
    for (object, told) in [
        (json!({}), vec![]),
        (json!({"spec": {"replicas": 3}, "status": {"replicas": 0, "selector": "a=b"}}), vec![]),
        (
            json!({"spec": {"replicas": -1}}),
            vec![".spec.replicas: Invalid value: -1: should be a non-negative integer"],
        ),
        (
            json!({"spec": {"replicas": 3_000_000_000_u32}}),
            vec![".spec.replicas: Invalid value: 3000000000: should be less than or equal to 2147483647"],
        ),
        (
            json!({"spec": {"replicas": "x"}}),
            vec![
                ".spec.replicas: Invalid value: 0: .spec.replicas accessor error: x is of the type string, expected int64",
            ],
        ),
    ] {
        assert_eq!(texts(&scale.check(&object)), told, "{object}");
    }
}

#[test]
fn the_server_writes_the_status() {
    let now: Timestamp = "2026-11-16T09:45:18Z".parse().unwrap();
    let later: Timestamp = "2026-11-16T10:00:00.5Z".parse().unwrap();
    let at = "2026-11-16T09:45:18Z";
    let condition = |type_: &str, status: &str, reason: &str, message: &str| json!({"type": type_, "status": status, "lastTransitionTime": at, "reason": reason, "message": message});
    let accepted = condition("NamesAccepted", "True", "NoConflicts", "no conflicts found");
    let established =
        condition("Established", "True", "InitialNamesAccepted", "the initial names have been accepted");
    let mut crd = gadgets();
    let expected = json!({
        "acceptedNames": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"},
        "conditions": [accepted, established], "storedVersions": ["v1"],
    });
    assert_eq!(status(&crd, &[], now), expected);
    crd["status"] = expected.clone();
    assert_eq!(status(&crd, &[&crd], later), expected, "nothing changed");

    let other = changed(&json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {"names": {"plural": "widgets", "kind": "Gadget", "listKind": "WidgetList", "singular": "widget"}},
    }));
    let found = status(&other, &[&crd], now);
    assert_eq!(
        found["acceptedNames"],
        json!({"plural": "widgets", "singular": "widget", "kind": "", "listKind": "WidgetList"})
    );
    assert_eq!(
        found["conditions"],
        json!([
            condition("NamesAccepted", "False", "KindConflict", "\"Gadget\" is already in use"),
            condition("Established", "False", "NotAccepted", "not all names are accepted"),
        ])
    );

    let moved = json!([{"name": "v1", "storage": false}, {"name": "v2", "storage": true}]);
    crd["spec"]["versions"] = moved;
    assert_eq!(status(&crd, &[], later)["storedVersions"], json!(["v1", "v2"]));
}

#[test]
fn our_own_definitions_are_fine() {
    let samples = [
        (
            "NodePool",
            json!({"template": {"spec": {"requirements": [], "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}}}}),
            vec![],
        ),
        (
            "NodePool",
            json!({"replicas": 3, "weight": 5, "template": {"spec": {"requirements": [], "nodeClassRef": {"group": "a", "kind": "b", "name": "c"}}}}),
            vec!["spec: Invalid value: a pool with replicas has no weight"],
        ),
        (
            "NodePool",
            json!({"weight": 500, "template": {"spec": {"requirements": [], "nodeClassRef": {"group": "a", "kind": "b", "name": "c"}}}}),
            vec!["spec.weight: Invalid value: 500: spec.weight in body should be less than or equal to 100"],
        ),
        ("CapacityBuffer", json!({"podTemplateRef": {"name": "web"}, "replicas": 3}), vec![]),
        (
            "CapacityBuffer",
            json!({"podTemplateRef": {"name": "web"}}),
            vec!["spec: Invalid value: with podTemplateRef, set replicas or limits too"],
        ),
    ];
    let crds = berth_api::crds::all();
    assert!(crds.len() >= 12);
    for crd in crds {
        let value = crate::json::written(&crd);
        let definition = Definition::parse(&value).map_err(|causes| texts(&causes)).unwrap();
        assert!(!definition.resources().is_empty(), "{}", definition.name);
        let version = definition.storage().unwrap();
        for (_, spec, told) in samples.iter().filter(|(kind, _, _)| *kind == definition.names.kind) {
            let mut object = json!({
                "apiVersion": format!("{}/{}", definition.group, version.name), "kind": definition.names.kind,
                "metadata": {"name": "x"}, "spec": spec,
            });
            version.schema.default(&mut object);
            assert_eq!(version.schema.prune_telling(&mut object), Vec::<String>::new(), "{spec}");
            assert_eq!(texts(&version.schema.validate(&object, None)), *told, "{spec}");
        }
    }
}
