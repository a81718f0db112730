use crate::json::json;

use super::*;
use crate::kinds::Kinds;

/// The patch is applied at the pointer; the expectation is what is there afterwards, or the failure.
fn check(kind: (&str, &str), rows: &[(&str, Value, Value, Value)]) {
    let kinds = Kinds::built_in();
    let shape = Shape::built_in(kinds.find_kind(kind.0, kind.1).expect("kind"));
    for (pointer, object, patch, expected) in rows {
        let wrap = |inner: &Value| {
            pointer.split('/').skip(1).collect::<Vec<_>>().iter().rev().fold(inner.clone(), |value, key| {
                let mut map = Object::new();
                map.insert(*key, value);
                Value::Object(map)
            })
        };
        let result = match strategic_merge_patch(&wrap(object), &wrap(patch), &shape) {
            Ok(merged) => merged.pointer(pointer).cloned().unwrap_or_default(),
            Err(failure) => json!(format!("{} {failure}", failure.code())),
        };
        assert_eq!(&result, expected, "{pointer}: {object} + {patch}");
    }
}

#[test]
fn lists_by_key() {
    let names = |names: &[&str]| Value::Array(names.iter().map(|name| json!({ "name": name })).collect());
    check(
        ("v1", "Pod"),
        &[
            (
                "/spec/containers",
                json!([{ "name": "a", "image": "1" }, { "name": "b", "image": "1" }]),
                json!([{ "name": "b", "image": "2" }]),
                json!([{ "name": "a", "image": "1" }, { "name": "b", "image": "2" }]),
            ),
            ("/spec/containers", names(&["a", "b"]), names(&["c"]), names(&["c", "a", "b"])),
            ("/spec/containers", names(&["a", "b", "c"]), names(&["c", "a"]), names(&["b", "c", "a"])),
            ("/spec/initContainers", names(&["a"]), names(&["b"]), names(&["b", "a"])),
            ("/spec/ephemeralContainers", names(&["a"]), names(&["b"]), names(&["b", "a"])),
            ("/spec/volumes", names(&["a"]), names(&["b"]), names(&["b", "a"])),
            ("/spec/imagePullSecrets", names(&["a"]), names(&["b"]), names(&["b", "a"])),
            ("/spec/schedulingGates", names(&["a"]), names(&["b"]), names(&["b", "a"])),
            (
                "/spec/hostAliases",
                json!([{ "ip": "1.1.1.1", "hostnames": ["a"] }]),
                json!([{ "ip": "1.1.1.1", "hostnames": ["b"] }]),
                json!([{ "ip": "1.1.1.1", "hostnames": ["b"] }]),
            ),
            (
                "/spec/topologySpreadConstraints",
                json!([{ "topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule" }]),
                json!([{ "topologyKey": "zone", "maxSkew": 2 }]),
                json!([{ "topologyKey": "zone", "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule" }]),
            ),
            (
                "/spec/tolerations",
                json!([{ "key": "a", "operator": "Exists" }]),
                json!([{ "key": "b", "operator": "Exists" }]),
                json!([{ "key": "b", "operator": "Exists" }]),
            ),
            (
                "/spec/containers",
                json!([{ "name": "a", "env": [{ "name": "X", "value": "1" }],
                "ports": [{ "containerPort": 80, "name": "http" }],
                "volumeMounts": [{ "mountPath": "/a", "name": "v" }], "args": ["x"] }]),
                json!([{ "name": "a", "env": [{ "name": "Y", "value": "2" }],
                "ports": [{ "containerPort": 80, "hostPort": 81 }],
                "volumeMounts": [{ "mountPath": "/a", "readOnly": true }], "args": ["y"] }]),
                json!([{ "name": "a", "env": [{ "name": "Y", "value": "2" }, { "name": "X", "value": "1" }],
                "ports": [{ "containerPort": 80, "name": "http", "hostPort": 81 }],
                "volumeMounts": [{ "mountPath": "/a", "name": "v", "readOnly": true }], "args": ["y"] }]),
            ),
            (
                "/status/conditions",
                json!([{ "type": "Ready", "status": "False" }, { "type": "PodScheduled", "status": "True" }]),
                json!([{ "type": "Ready", "status": "True" }]),
                json!([{ "type": "Ready", "status": "True" }, { "type": "PodScheduled", "status": "True" }]),
            ),
            (
                "/status/hostIPs",
                json!([{ "ip": "1" }]),
                json!([{ "ip": "2" }]),
                json!([{ "ip": "2" }, { "ip": "1" }]),
            ),
            (
                "/metadata/ownerReferences",
                json!([{ "uid": "1", "name": "a" }]),
                json!([{ "uid": "2", "name": "b" }]),
                json!([{ "uid": "2", "name": "b" }, { "uid": "1", "name": "a" }]),
            ),
            (
                "/spec/containers",
                names(&["a"]),
                json!([{ "image": "x" }]),
                json!("500 map: map[image:x] does not contain declared merge key: name"),
            ),
        ],
    );
    check(
        ("v1", "Node"),
        &[
            (
                "/spec/taints",
                json!([{ "key": "a", "effect": "NoSchedule" }]),
                json!([{ "key": "b", "effect": "NoSchedule" }]),
                json!([{ "key": "b", "effect": "NoSchedule" }]),
            ),
            (
                "/status/addresses",
                json!([{ "type": "Hostname", "address": "a" }]),
                json!([{ "type": "InternalIP", "address": "1" }]),
                json!([{ "type": "InternalIP", "address": "1" }, { "type": "Hostname", "address": "a" }]),
            ),
        ],
    );
    check(
        ("v1", "Service"),
        &[(
            "/spec/ports",
            json!([{ "port": 80, "name": "http" }]),
            json!([{ "port": 443, "name": "https" }]),
            json!([{ "port": 443, "name": "https" }, { "port": 80, "name": "http" }]),
        )],
    );
    check(
        ("v1", "ServiceAccount"),
        &[
            ("/secrets", names(&["a"]), names(&["b"]), names(&["b", "a"])),
            ("/imagePullSecrets", names(&["a"]), names(&["b"]), names(&["b"])),
        ],
    );
    check(
        ("apps/v1", "Deployment"),
        &[(
            "/spec/template/spec/containers",
            json!([{ "name": "a", "image": "1" }]),
            json!([{ "name": "a", "image": "2" }]),
            json!([{ "name": "a", "image": "2" }]),
        )],
    );
    check(
        ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"),
        &[("/webhooks", names(&["a"]), names(&["b"]), names(&["b", "a"]))],
    );
    check(
        ("policy/v1", "PodDisruptionBudget"),
        &[(
            "/spec/selector",
            json!({ "matchLabels": { "a": "1" } }),
            json!({ "matchLabels": { "b": "1" } }),
            json!({ "matchLabels": { "b": "1" } }),
        )],
    );
}

#[test]
fn objects_and_scalars() {
    check(
        ("v1", "Pod"),
        &[
            (
                "/metadata/labels",
                json!({ "a": "1", "b": "1" }),
                json!({ "a": null, "c": "1" }),
                json!({ "b": "1", "c": "1" }),
            ),
            ("/metadata/labels", json!({ "a": "1" }), Value::Null, Value::Null),
            ("/metadata/finalizers", json!(["a", "b"]), json!(["b", "c"]), json!(["a", "b", "c"])),
            (
                "/metadata/finalizers",
                json!(["a"]),
                json!([1]),
                json!("500 list element types are not identical: [[a] [1]]"),
            ),
            (
                "/spec/securityContext",
                Value::Null,
                json!({ "runAsUser": 1, "sysctls": null }),
                json!({ "runAsUser": 1 }),
            ),
            ("/spec/nodeSelector", json!({ "a": "1" }), json!({ "b": "1" }), json!({ "a": "1", "b": "1" })),
        ],
    );
    let kinds = Kinds::built_in();
    let shape = Shape::built_in(kinds.find_kind("v1", "Pod").expect("kind"));
    let failure = strategic_merge_patch(&json!({}), &json!([]), &shape).expect_err("not an object");
    assert_eq!(failure.message, "json: cannot unmarshal array into Go value of type map[string]interface {}");
}

#[test]
fn directives() {
    let names = |names: &[&str]| Value::Array(names.iter().map(|name| json!({ "name": name })).collect());
    check(
        ("v1", "Pod"),
        &[
            (
                "/metadata/labels",
                json!({ "a": "1" }),
                json!({ "$patch": "replace", "b": "1" }),
                json!({ "b": "1" }),
            ),
            ("/metadata/labels", json!({ "a": "1" }), json!({ "$patch": "delete" }), json!({})),
            (
                "/metadata/labels",
                json!({ "a": "1" }),
                json!({ "$patch": "merge", "b": "1" }),
                json!("500 unknown patch type: merge in map: map[$patch:merge b:1]"),
            ),
            (
                "/spec/containers",
                names(&["a", "b"]),
                json!([{ "name": "a", "$patch": "delete" }]),
                names(&["b"]),
            ),
            (
                "/spec/containers",
                names(&["a", "b"]),
                json!([{ "$patch": "delete" }]),
                json!("500 map: map[$patch:delete] does not contain declared merge key: name"),
            ),
            (
                "/spec/containers",
                names(&["a", "b"]),
                json!([{ "name": "c" }, { "$patch": "replace" }]),
                names(&["c"]),
            ),
            (
                "/spec/containers",
                names(&["a"]),
                json!([{ "name": "a", "$patch": "merge" }]),
                json!("500 merging lists cannot yet be specified in the patch"),
            ),
            (
                "/spec/containers",
                names(&["a"]),
                json!([{ "name": "a", "$patch": "spoil" }]),
                json!("500 unknown patch type: spoil in map: map[$patch:spoil name:a]"),
            ),
            (
                "/spec/volumes",
                Value::Null,
                json!([{ "name": "a", "$patch": "delete" }, { "name": "b" }]),
                names(&["b"]),
            ),
            (
                "/metadata",
                json!({ "finalizers": ["a", "b", "c"] }),
                json!({ "$deleteFromPrimitiveList/finalizers": ["a", "c"] }),
                json!({ "finalizers": ["b"] }),
            ),
            (
                "/metadata",
                json!({ "finalizers": ["a", "b"] }),
                json!({ "$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"],
                "$setElementOrder/finalizers": ["c", "b"] }),
                json!({ "finalizers": ["c", "b"] }),
            ),
            ("/metadata", json!({}), json!({ "$deleteFromPrimitiveList/finalizers": ["a"] }), json!({})),
            (
                "/metadata",
                json!({}),
                json!({ "$deleteFromPrimitiveList": ["a"] }),
                json!("400 invalid patch format of primitive list"),
            ),
            (
                "/spec",
                json!({ "containers": names(&["a", "b"]) }),
                json!({ "$setElementOrder/containers": names(&["b", "a"]) }),
                json!({ "containers": names(&["b", "a"]) }),
            ),
            (
                "/spec",
                json!({ "containers": names(&["a", "x", "b"]) }),
                json!({ "$setElementOrder/containers": names(&["b", "c", "a"]), "containers": names(&["c"]) }),
                json!({ "containers": names(&["x", "b", "c", "a"]) }),
            ),
            (
                "/spec",
                json!({}),
                json!({ "$setElementOrder/containers": names(&["a"]), "containers": names(&["a"]) }),
                json!({ "containers": names(&["a"]) }),
            ),
            (
                "/spec",
                json!({ "containers": names(&["a"]) }),
                json!({ "$setElementOrder/containers": names(&["a"]), "containers": names(&["z"]) }),
                json!(
                    "500 The order in patch list:\n[map[name:z]]\n doesn't match $setElementOrder list:\n[map[name:a]]\n"
                ),
            ),
            (
                "/spec/volumes",
                json!([{ "name": "v", "emptyDir": {} }]),
                json!([{ "name": "v", "hostPath": { "path": "/" }, "$retainKeys": ["name", "hostPath"] }]),
                json!([{ "name": "v", "hostPath": { "path": "/" } }]),
            ),
            (
                "/spec/volumes",
                json!([{ "name": "v", "emptyDir": {} }]),
                json!([{ "name": "v", "hostPath": { "path": "/" }, "$retainKeys": ["name"] }]),
                json!("400 invalid patch format of retainKeys"),
            ),
        ],
    );
    check(
        ("apps/v1", "Deployment"),
        &[(
            "/spec/strategy",
            json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1 } }),
            json!({ "type": "Recreate", "$retainKeys": ["type"] }),
            json!({ "type": "Recreate" }),
        )],
    );
}
