use super::*;
use crate::kinds::{Kinds, Resource, Scope, Subresource};

enum Step {
    Apply(&'static str, Value),
    Force(&'static str, Value),
    ApplyStatus(&'static str, Value),
    /// A merge patch by one who does not apply.
    Patch(&'static str, Value),
    PatchStatus(&'static str, Value),
}

use Step::{Apply, ApplyStatus, Force, Patch, PatchStatus};

/// One second passes per step. The object is without its type and name.
fn run(shape: &Shape, steps: &[Step]) -> Result<Value, Failure> {
    let mut live: Option<Value> = None;
    for (second, step) in (0..).zip(steps) {
        let now = Timestamp::from_second(second).expect("time");
        let named = |content: &Value| {
            let mut object = content.clone();
            object["apiVersion"] = json!(shape.api_version);
            object["kind"] = json!(shape.kind);
            object["metadata"]["name"] = json!("x");
            object
        };
        let next = match step {
            Apply(by, object) => apply(live.as_ref(), &named(object), by, false, None, now, shape)?,
            Force(by, object) => apply(live.as_ref(), &named(object), by, true, None, now, shape)?,
            ApplyStatus(by, object) => {
                apply(live.as_ref(), &named(object), by, false, Some("status"), now, shape)?
            }
            Patch(by, patch) | PatchStatus(by, patch) => {
                let mut next = match &live {
                    Some(live) => crate::patch::merge_patch(live, patch)?,
                    None => named(patch),
                };
                let subresource = matches!(step, PatchStatus(..)).then_some("status");
                record_update(live.as_ref(), &mut next, by, now, subresource, shape);
                next
            }
        };
        live = Some(next);
    }
    Ok(live.unwrap_or_default())
}

/// What is owned by whom: `manager`, `manager update`, with the subresource in front.
fn owners(object: &Value) -> Value {
    let mut out = json!({});
    for entry in object["metadata"]["managedFields"].as_array().into_iter().flatten() {
        let mut key = entry["manager"].as_str().expect("manager").to_owned();
        if entry["operation"] == "Update" {
            key.push_str(" update");
        }
        if let Some(subresource) = entry["subresource"].as_str() {
            key = format!("{subresource} {key}");
        }
        out[&key] = entry["fieldsV1"].clone();
    }
    out
}

fn content(object: &Value) -> Value {
    let mut object = object.clone();
    let map = object.as_object_mut().expect("object");
    map.remove("apiVersion");
    map.remove("kind");
    let metadata = map.entry("metadata").or_default().as_object_mut().expect("metadata");
    metadata.remove("name");
    metadata.remove("managedFields");
    if metadata.is_empty() {
        map.remove("metadata");
    }
    object
}

fn built_in(api_version: &str, kind: &str) -> Shape {
    Shape::built_in(Kinds::built_in().find_kind(api_version, kind).expect("kind"))
}

fn custom(schema: Value) -> Shape {
    let resource = Resource {
        group: "berth.dev".into(),
        version: "v1".into(),
        kind: "Thing".into(),
        plural: "things".into(),
        singular: "thing".into(),
        short_names: Vec::new(),
        categories: Vec::new(),
        scope: Scope::Cluster,
        subresources: vec![Subresource::Status],
        is_custom: true,
    };
    Shape::custom(&resource, schema)
}

struct Row {
    steps: Vec<Step>,
    content: Value,
    owners: Value,
}

fn check(shape: &Shape, rows: Vec<Row>) {
    for (index, row) in rows.into_iter().enumerate() {
        let object = run(shape, &row.steps).unwrap_or_else(|failure| panic!("row {index}: {failure}"));
        assert_eq!(content(&object), row.content, "content of row {index}");
        assert_eq!(owners(&object), row.owners, "owners of row {index}");
    }
}

#[test]
fn config_maps() {
    let data = |value: Value| json!({ "data": value });
    check(
        &built_in("v1", "ConfigMap"),
        vec![
            Row {
                steps: vec![Apply("a", data(json!({ "k": "1" })))],
                content: data(json!({ "k": "1" })),
                owners: json!({ "a": { "f:data": { "f:k": {} } } }),
            },
            // Shared when equal; what neither applies any more goes.
            Row {
                steps: vec![
                    Apply("a", data(json!({ "k": "1", "l": "1" }))),
                    Apply("b", data(json!({ "k": "1" }))),
                    Apply("a", data(json!({ "m": "1" }))),
                ],
                content: data(json!({ "k": "1", "m": "1" })),
                owners: json!({ "a": { "f:data": { "f:m": {} } }, "b": { "f:data": { "f:k": {} } } }),
            },
            Row {
                steps: vec![Apply("a", data(json!({ "k": "1" }))), Apply("a", json!({}))],
                content: json!({}),
                owners: json!({}),
            },
            // By force the other loses it.
            Row {
                steps: vec![
                    Apply("a", data(json!({ "k": "1", "l": "1" }))),
                    Force("b", data(json!({ "k": "2" }))),
                ],
                content: data(json!({ "k": "2", "l": "1" })),
                owners: json!({ "a": { "f:data": { "f:l": {} } }, "b": { "f:data": { "f:k": {} } } }),
            },
            // An update takes what it changes, and the map if it brings it.
            Row {
                steps: vec![
                    Patch("a", data(json!({ "k": "1", "l": "1" }))),
                    Patch("b", data(json!({ "k": "2" }))),
                ],
                content: data(json!({ "k": "2", "l": "1" })),
                owners: json!({
                    "a update": { "f:data": { ".": {}, "f:l": {} } }, "b update": { "f:data": { "f:k": {} } }
                }),
            },
            Row {
                steps: vec![Apply("a", data(json!({ "k": "1" }))), Patch("a", data(json!({ "k": null })))],
                content: json!({ "data": {} }),
                owners: json!({}),
            },
            // What was there before anybody owned anything.
            Row {
                steps: vec![
                    Patch("a", json!({ "data": { "k": "1" }, "metadata": { "labels": { "x": "y" } } })),
                    Patch("a", json!({ "metadata": { "managedFields": [{}] } })),
                    Apply("b", data(json!({ "k": "1" }))),
                ],
                content: json!({ "data": { "k": "1" }, "metadata": { "labels": { "x": "y" } } }),
                owners: json!({
                    "b": { "f:data": { "f:k": {} } },
                    "before-first-apply update": {
                        "f:data": { ".": {}, "f:k": {} }, "f:metadata": { "f:labels": { ".": {}, "f:x": {} } }
                    },
                }),
            },
            Row {
                steps: vec![Apply(
                    "a",
                    json!({
                        "metadata": { "finalizers": ["f/1", "f/2"], "labels": { "x": "y" }, "annotations": {},
                            "ownerReferences": [{ "uid": "1", "name": "o", "kind": "K", "apiVersion": "v1" }] },
                    }),
                )],
                content: json!({
                    "metadata": { "finalizers": ["f/1", "f/2"], "labels": { "x": "y" }, "annotations": {},
                        "ownerReferences": [{ "uid": "1", "name": "o", "kind": "K", "apiVersion": "v1" }] },
                }),
                owners: json!({ "a": { "f:metadata": {
                "f:annotations": {},
                "f:finalizers": { "v:\"f/1\"": {}, "v:\"f/2\"": {} },
                "f:labels": { "f:x": {} },
                "f:ownerReferences": { "k:{\"uid\":\"1\"}": {} },
            } } }),
            },
        ],
    );
}

#[test]
fn pods_and_deployments() {
    let template =
        |containers: Value| json!({ "spec": { "template": { "spec": { "containers": containers } } } });
    let of_template =
        |fields: Value| json!({ "f:spec": { "f:template": { "f:spec": { "f:containers": fields } } } });
    check(
        &built_in("apps/v1", "Deployment"),
        vec![
            // Ports by number and protocol, the protocol by its default.
            Row {
                steps: vec![
                    Apply(
                        "a",
                        template(json!([{ "name": "c", "image": "i", "ports": [{ "containerPort": 80 }] }])),
                    ),
                    Apply(
                        "b",
                        template(
                            json!([{ "name": "c", "ports": [{ "containerPort": 80, "protocol": "UDP" }] }]),
                        ),
                    ),
                ],
                content: template(json!([{ "name": "c", "image": "i", "ports": [
                { "containerPort": 80 }, { "containerPort": 80, "protocol": "UDP" },
            ] }])),
                owners: json!({
                    "a": of_template(json!({ "k:{\"name\":\"c\"}": { ".": {}, "f:image": {}, "f:name": {},
                        "f:ports": { "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": { ".": {}, "f:containerPort": {} } },
                    } })),
                    "b": of_template(json!({ "k:{\"name\":\"c\"}": { ".": {}, "f:name": {},
                        "f:ports": { "k:{\"containerPort\":80,\"protocol\":\"UDP\"}": {
                            ".": {}, "f:containerPort": {}, "f:protocol": {}
                        } },
                    } })),
                }),
            },
            // An item goes with its last owner; the order is the live one.
            Row {
                steps: vec![
                    Apply("a", template(json!([{ "name": "c" }, { "name": "d" }]))),
                    Apply("b", template(json!([{ "name": "e" }, { "name": "d" }]))),
                    Apply("a", template(json!([{ "name": "d" }]))),
                ],
                content: template(json!([{ "name": "e" }, { "name": "d" }])),
                owners: json!({
                    "a": of_template(json!({ "k:{\"name\":\"d\"}": { ".": {}, "f:name": {} } })),
                    "b": of_template(json!({
                        "k:{\"name\":\"d\"}": { ".": {}, "f:name": {} }, "k:{\"name\":\"e\"}": { ".": {}, "f:name": {} }
                    })),
                }),
            },
            // Parts that the API server's types always hold are nobody's; status and spec do not mix.
            Row {
                steps: vec![
                    Patch(
                        "a",
                        json!({ "spec": {
                    "replicas": 1, "selector": { "matchLabels": { "x": "y" } },
                    "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1 } },
                    "template": { "metadata": { "labels": { "x": "y" } }, "spec": { "containers": [
                        { "name": "c", "env": [{ "name": "E", "value": "1" }], "resources": {} },
                    ], "securityContext": {}, "tolerations": [{ "key": "k" }] } },
                }, "status": { "replicas": 5 } }),
                    ),
                    PatchStatus(
                        "k",
                        json!({ "spec": { "replicas": 7 }, "status": { "conditions": [
                    { "type": "Available", "status": "True" }] } }),
                    ),
                ],
                content: json!({
                    "spec": {
                        "replicas": 7, "selector": { "matchLabels": { "x": "y" } },
                        "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1 } },
                        "template": { "metadata": { "labels": { "x": "y" } }, "spec": { "containers": [
                            { "name": "c", "env": [{ "name": "E", "value": "1" }], "resources": {} },
                        ], "securityContext": {}, "tolerations": [{ "key": "k" }] } },
                    },
                    "status": { "replicas": 5, "conditions": [{ "type": "Available", "status": "True" }] },
                }),
                owners: json!({
                    "a update": { "f:spec": {
                        "f:replicas": {}, "f:selector": {},
                        "f:strategy": { "f:type": {}, "f:rollingUpdate": { ".": {}, "f:maxSurge": {} } },
                        "f:template": { "f:metadata": { "f:labels": { ".": {}, "f:x": {} } }, "f:spec": {
                            "f:containers": { "k:{\"name\":\"c\"}": { ".": {}, "f:name": {}, "f:resources": {},
                                "f:env": { ".": {}, "k:{\"name\":\"E\"}": { ".": {}, "f:name": {}, "f:value": {} } } } },
                            "f:securityContext": {}, "f:tolerations": {},
                        } },
                    } },
                    "status k update": { "f:status": { "f:conditions": {
                        ".": {}, "k:{\"type\":\"Available\"}": { ".": {}, "f:type": {}, "f:status": {} },
                    } } },
                }),
            },
            Row {
                steps: vec![
                    Apply("a", json!({ "spec": { "replicas": 1 }, "status": { "replicas": 1 } })),
                    ApplyStatus("a", json!({ "spec": { "replicas": 1 }, "status": { "replicas": 2 } })),
                ],
                content: json!({ "spec": { "replicas": 1 }, "status": { "replicas": 2 } }),
                owners: json!({
                    "a": { "f:spec": { "f:replicas": {} } }, "status a": { "f:status": { "f:replicas": {} } }
                }),
            },
        ],
    );
}

#[test]
fn custom_resources() {
    let keyed = json!({ "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k", "l"],
        "items": { "type": "object", "properties": {
            "k": { "type": "string" }, "l": { "type": "string", "default": "dl" }, "v": { "type": "integer" } } } });
    let shape = custom(json!({ "type": "object", "properties": {
        "spec": { "type": "object", "properties": {
            "keyed": keyed,
            "set": { "type": "array", "x-kubernetes-list-type": "set", "items": { "type": "string" } },
            "list": { "type": "array", "items": { "type": "string" } },
            "atom": { "type": "object", "x-kubernetes-map-type": "atomic", "properties": { "a": {}, "b": {} } },
            "map": { "type": "object", "additionalProperties": { "type": "string" } },
            "open": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
        } },
        "status": { "type": "object", "properties": { "n": { "type": "integer" } } },
    } }));
    let spec = |spec: Value| json!({ "spec": spec });
    let owned = |fields: Value| json!({ "f:spec": fields });
    check(
        &shape,
        vec![
            Row {
                steps: vec![
                    Apply(
                        "a",
                        spec(json!({ "keyed": [{ "k": "1", "v": 1 }], "set": ["x"], "list": ["x"],
                    "atom": { "a": 1 }, "map": { "m": "1" }, "open": { "o": { "p": [1] } } })),
                    ),
                    Apply(
                        "b",
                        spec(
                            json!({ "keyed": [{ "k": "1", "l": "z" }], "set": ["y", "x"], "map": { "n": "1" } }),
                        ),
                    ),
                ],
                content: spec(
                    json!({ "keyed": [{ "k": "1", "v": 1 }, { "k": "1", "l": "z" }], "set": ["y", "x"],
                "list": ["x"], "atom": { "a": 1 }, "map": { "m": "1", "n": "1" }, "open": { "o": { "p": [1] } } }),
                ),
                owners: json!({
                    "a": owned(json!({
                        "f:keyed": { "k:{\"k\":\"1\",\"l\":\"dl\"}": { ".": {}, "f:k": {}, "f:v": {} } },
                        "f:set": { "v:\"x\"": {} }, "f:list": {}, "f:atom": {}, "f:map": { "f:m": {} },
                        "f:open": { "f:o": { ".": {}, "f:p": {} } },
                    })),
                    "b": owned(json!({
                        "f:keyed": { "k:{\"k\":\"1\",\"l\":\"z\"}": { ".": {}, "f:k": {}, "f:l": {} } },
                        "f:set": { "v:\"x\"": {}, "v:\"y\"": {} }, "f:map": { "f:n": {} },
                    })),
                }),
            },
            Row {
                steps: vec![
                    Apply(
                        "a",
                        spec(
                            json!({ "set": ["x", "y"], "keyed": [{ "k": "1", "v": 1 }], "map": { "m": "1" } }),
                        ),
                    ),
                    Apply("b", spec(json!({ "set": ["y"] }))),
                    Apply("a", spec(json!({}))),
                ],
                content: spec(json!({ "set": ["y"] })),
                owners: json!({ "a": { "f:spec": {} }, "b": owned(json!({ "f:set": { "v:\"y\"": {} } })) }),
            },
            // Nothing is there before a custom resource is written, not even its spec.
            Row {
                steps: vec![
                    Patch("a", spec(json!({ "set": ["x"], "map": { "m": "1" } }))),
                    PatchStatus("b", json!({ "metadata": { "labels": { "x": "y" } }, "status": { "n": 1 } })),
                ],
                content: json!({ "spec": { "set": ["x"], "map": { "m": "1" } }, "status": { "n": 1 },
                "metadata": { "labels": { "x": "y" } } }),
                owners: json!({
                    "a update": owned(json!({ ".": {}, "f:set": { ".": {}, "v:\"x\"": {} },
                        "f:map": { ".": {}, "f:m": {} } })),
                    "status b update": { "f:status": { ".": {}, "f:n": {} } },
                }),
            },
        ],
    );
    let refusal = |steps: &[Step]| run(&shape, steps).expect_err("a refusal").message;
    assert_eq!(
        refusal(&[Apply("a", spec(json!({ "nope": 1 })))]),
        "failed to create typed patch object (/x; berth.dev/v1, Kind=Thing): .spec.nope: field not declared in schema"
    );
    assert_eq!(
        refusal(&[Apply(
            "a",
            spec(json!({ "set": ["x", "x"], "keyed": [{ "k": "1" }, { "k": "1", "l": "dl" }] }))
        )]),
        "failed to create typed patch object (/x; berth.dev/v1, Kind=Thing): errors:\n  .spec.keyed: duplicate \
         entries for key [k=\"1\",l=\"dl\"]\n  .spec.set: duplicate entries for key [=\"x\"]"
    );
    assert_eq!(
        refusal(&[Apply("a", spec(json!({ "set": 1 })))]),
        "failed to create typed patch object (/x; berth.dev/v1, Kind=Thing): .spec.set: expected list, got &{1}"
    );
}

#[test]
fn scalars_of_custom_resources() {
    let shape = custom(json!({ "properties": {
        "s": { "type": "string" }, "d": { "type": "string", "format": "date" },
        "n": { "type": "integer" }, "b": { "type": "boolean" },
        "i": { "x-kubernetes-int-or-string": true },
    } }));
    for (object, complaint) in [
        (json!({ "s": "x", "d": 1, "n": 1.5, "b": true, "i": "x" }), None),
        (json!({ "s": 1 }), Some(".s: expected string, got &value.valueUnstructured{Value:1}")),
        (json!({ "n": "x" }), Some(".n: expected numeric (int or float), got string")),
        (json!({ "b": "x" }), Some(".b: expected boolean, got &{x}")),
    ] {
        let said = run(&shape, &[Apply("a", object)]).err().map(|failure| failure.message);
        let typed = "failed to create typed patch object (/x; berth.dev/v1, Kind=Thing): ";
        assert_eq!(said, complaint.map(|complaint| format!("{typed}{complaint}")));
    }
}

#[test]
fn conflicts() {
    let deployment = built_in("apps/v1", "Deployment");
    let replicas = |count: u32| json!({ "spec": { "replicas": count } });
    let image = |image: &str, count: u32| {
        json!({ "spec": { "replicas": count, "template": { "spec": {
            "containers": [{ "name": "c", "image": image }] } } } })
    };
    for (steps, message, causes) in [
        (
            vec![Apply("a", replicas(1)), Apply("b", replicas(2))],
            "Apply failed with 1 conflict: conflict with \"a\": .spec.replicas",
            vec![("conflict with \"a\"", ".spec.replicas")],
        ),
        (
            vec![Patch("other", replicas(1)), Apply("b", replicas(2))],
            "Apply failed with 1 conflict: conflict with \"other\" using apps/v1: .spec.replicas",
            vec![("conflict with \"other\" using apps/v1", ".spec.replicas")],
        ),
        (
            vec![Apply("a", image("1", 1)), Apply("b", image("2", 2))],
            "Apply failed with 2 conflicts: conflicts with \"a\":\n- .spec.replicas\n- \
             .spec.template.spec.containers[name=\"c\"].image",
            vec![
                ("conflict with \"a\"", ".spec.replicas"),
                ("conflict with \"a\"", ".spec.template.spec.containers[name=\"c\"].image"),
            ],
        ),
        (
            vec![
                Apply("a", replicas(1)),
                PatchStatus("k", json!({ "status": { "replicas": 1 } })),
                ApplyStatus("b", json!({ "status": { "replicas": 2 } })),
            ],
            "Apply failed with 1 conflict: conflict with \"k\" with subresource \"status\" using apps/v1: \
             .status.replicas",
            vec![("conflict with \"k\" with subresource \"status\" using apps/v1", ".status.replicas")],
        ),
        (
            vec![Apply("a", image("1", 1)), Patch("u", replicas(3)), Apply("b", image("2", 2))],
            "Apply failed with 2 conflicts: conflicts with \"a\":\n- \
             .spec.template.spec.containers[name=\"c\"].image\nconflicts with \"u\" using apps/v1:\n- .spec.replicas",
            vec![
                ("conflict with \"a\"", ".spec.template.spec.containers[name=\"c\"].image"),
                ("conflict with \"u\" using apps/v1", ".spec.replicas"),
            ],
        ),
    ] {
        let failure = run(&deployment, &steps).expect_err("a conflict");
        assert_eq!((failure.code(), &*failure.message), (409, message));
        let found: Vec<(&str, &str)> =
            failure.details.causes.iter().map(|cause| (&*cause.message, &*cause.field)).collect();
        assert_eq!(found, causes);
    }
    // Items of a set and of a keyed list do not collide.
    let node = built_in("v1", "Node");
    assert!(
        run(
            &node,
            &[
                Apply("a", json!({ "spec": { "taints": [{ "key": "a" }] } })),
                Apply("b", json!({ "spec": { "taints": [{ "key": "b" }] } })),
            ]
        )
        .is_err()
    );
}

#[test]
fn refusals() {
    let shape = built_in("v1", "Pod");
    for (object, code, message) in [
        (json!({ "apiVersion": "v1", "kind": "Node" }), 400, "invalid object type: /v1, Kind=Node"),
        (json!({ "apiVersion": "apps/v1", "kind": "Pod" }), 400, "invalid object type: apps/v1, Kind=Pod"),
        (
            json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "managedFields": [] } }),
            400,
            "metadata.managedFields must be nil",
        ),
        (
            json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p", "namespace": "n" },
                "spec": { "containers": [{ "name": "a" }, { "name": "a" }] } }),
            500,
            "failed to create typed patch object (n/p; /v1, Kind=Pod): .spec.containers: duplicate entries for key \
             [name=\"a\"]",
        ),
        (
            json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p", "namespace": "n" },
                "spec": { "containers": ["a"] } }),
            500,
            "failed to create typed patch object (n/p; /v1, Kind=Pod): .spec.containers: element 0: associative \
             list with keys may not have non-map elements",
        ),
    ] {
        let failure =
            apply(None, &object, "a", false, None, Timestamp::UNIX_EPOCH, &shape).expect_err("a refusal");
        assert_eq!((failure.code(), &*failure.message), (code, message));
    }
}

#[test]
fn entries_in_order_with_times() {
    let shape = built_in("v1", "ConfigMap");
    let steps = [
        Patch("u", json!({ "data": { "u": "1" } })),
        Apply("b", json!({ "data": { "b": "1" } })),
        Apply("a", json!({ "data": { "a": "1" } })),
        // Changes nothing: the times stay, and one who only joins has none.
        Apply("b", json!({ "data": { "b": "1" } })),
        Apply("c", json!({ "data": { "a": "1" } })),
        Patch("u", json!({ "metadata": { "labels": { "x": "y" } } })),
        Patch("s", json!({ "data": { "s": "1" } })),
    ];
    let object = run(&shape, &steps).expect("applied");
    let entries: Vec<(String, String)> = object["metadata"]["managedFields"]
        .as_array()
        .expect("entries")
        .iter()
        .map(|entry| {
            let text = |key: &str| entry[key].as_str().unwrap_or("-").to_owned();
            (format!("{} {}", text("manager"), text("operation")), text("time"))
        })
        .collect();
    let expected = [
        ("c Apply", "-"),
        ("b Apply", "1970-01-01T00:00:01Z"),
        ("a Apply", "1970-01-01T00:00:02Z"),
        ("u Update", "1970-01-01T00:00:05Z"),
        ("s Update", "1970-01-01T00:00:06Z"),
    ];
    assert_eq!(entries, expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
}

#[test]
fn many_updaters_are_merged() {
    const NAMES: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
    let shape = built_in("v1", "ConfigMap");
    let steps: Vec<Step> =
        NAMES.iter().map(|name| Patch(name, json!({ "data": { (*name): "1" } }))).collect();
    let object = run(&shape, &steps).expect("patched");
    let owners = owners(&object);
    assert_eq!(owners.as_object().expect("owners").len(), 10);
    assert_eq!(
        owners["ancient-changes update"],
        json!({ "f:data": { ".": {}, "f:a": {}, "f:b": {}, "f:c": {} } })
    );
}

#[test]
fn kubectl_takes_over_from_itself() {
    let shape = built_in("v1", "ConfigMap");
    let last = r#"{"apiVersion":"v1","data":{"k":"1"},"kind":"ConfigMap","metadata":{"name":"x"}}"#;
    let before =
        json!({ "data": { "k": "1", "l": "1" }, "metadata": { "annotations": { LAST_APPLIED: last } } });
    let object = run(
        &shape,
        &[
            Patch("kubectl-client-side-apply", before.clone()),
            Apply("kubectl", json!({ "data": { "k": "<2>" } })),
        ],
    )
    .expect("applied");
    assert_eq!(object["data"], json!({ "k": "<2>", "l": "1" }));
    assert_eq!(
        object["metadata"]["annotations"][LAST_APPLIED],
        json!(concat!(
            r#"{"apiVersion":"v1","data":{"k":"\u003c2\u003e"},"kind":"ConfigMap","metadata":{"name":"x"}}"#,
            "\n"
        ))
    );
    let failure = run(
        &shape,
        &[
            Patch("kubectl-client-side-apply", before),
            Apply("kubectl", json!({ "data": { "k": "2", "l": "2" } })),
        ],
    )
    .expect_err("a conflict");
    assert_eq!(
        failure.message,
        "Apply failed with 1 conflict: conflict with \"kubectl-client-side-apply\" using v1: .data.l"
    );
}
