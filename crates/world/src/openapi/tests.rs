use std::sync::Arc;

use super::*;
use crate::json::json;
use crate::kinds::{Resource, Scope, Subresource};

fn crd(schema: &Value) -> Value {
    json!({ "spec": {
        "group": "shop.example.com", "names": { "kind": "Cart" },
        "versions": [{ "name": "v1", "schema": { "openAPIV3Schema": schema } }],
    } })
}

fn kinds() -> Kinds {
    let mut kinds = Kinds::built_in();
    kinds.add(Arc::new(Resource {
        group: "shop.example.com".to_owned(),
        version: "v1".to_owned(),
        kind: "Cart".to_owned(),
        plural: "carts".to_owned(),
        singular: "cart".to_owned(),
        short_names: Vec::new(),
        categories: Vec::new(),
        scope: Scope::Namespaced,
        subresources: vec![Subresource::Status],
        is_custom: true,
    }));
    kinds
}

fn cart() -> Value {
    crd(
        &json!({ "type": "object", "properties": { "spec": { "type": "object", "description": "What is in it." } } }),
    )
}

fn each_document(check: impl Fn(&str, &Value)) {
    let (kinds, cart) = (kinds(), cart());
    for group in groups(&kinds) {
        for version in &group.versions {
            let path = api_path(&group.name, &version.name);
            match document(&kinds, &[&cart], &group.name, &version.name) {
                Some(document) => check(&path, &document),
                None => panic!("{path} is not told"),
            }
        }
    }
}

fn each_reference(value: &Value, check: &mut impl FnMut(&str)) {
    match value {
        Value::Object(fields) => {
            if let Some(reference) = fields.get("$ref").and_then(Value::as_str) {
                check(reference);
            }
            fields.values().for_each(|field| each_reference(field, check));
        }
        Value::Array(items) => items.iter().for_each(|item| each_reference(item, check)),
        _ => {}
    }
}

/// A reference is a pointer into the document, and stands alone.
#[test]
fn references_lead_somewhere() {
    each_document(|path, document| {
        each_reference(document, &mut |reference| {
            let found = reference.strip_prefix('#').and_then(|pointer| document.pointer(pointer));
            assert!(found.is_some(), "{path}: {reference}");
        });
    });
    let v2 = v2_document(&kinds(), &[&cart()]);
    each_reference(&v2, &mut |reference| {
        assert!(reference.strip_prefix('#').and_then(|pointer| v2.pointer(pointer)).is_some(), "{reference}");
    });
}

/// As kubectl looks it up before it creates, applies or edits.
#[test]
fn every_patch_says_that_the_server_checks_fields() {
    each_document(|path, document| {
        let paths = document["paths"].as_object().into_iter().flatten();
        for (of, patch) in paths.filter_map(|(of, path)| Some((of, path.get("patch")?))) {
            let parameters = patch["parameters"].as_array().into_iter().flatten();
            let told = parameters.filter(|p| p["name"] == "fieldValidation" && p["in"] == "query").count();
            assert_eq!(told, 1, "{path}: {of}");
            assert!(patch["requestBody"]["content"].get("application/strategic-merge-patch+json").is_none());
        }
    });
}

/// As `kubectl explain` goes from the resource to its kind, and from there to the schema.
#[test]
fn what_explain_needs() {
    let rows = [
        (
            "",
            "v1",
            "/api/v1/namespaces/{namespace}/pods",
            "Pod",
            "io.k8s.api.core.v1.Pod",
            "/spec/allOf/0/$ref",
            "#/components/schemas/io.k8s.api.core.v1.PodSpec",
        ),
        ("", "v1", "/api/v1/nodes", "Node", "io.k8s.api.core.v1.Node", "/kind/type", "string"),
        (
            "apps",
            "v1",
            "/apis/apps/v1/namespaces/{namespace}/deployments",
            "Deployment",
            "io.k8s.api.apps.v1.Deployment",
            "/metadata/allOf/0/$ref",
            "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta",
        ),
        (
            "shop.example.com",
            "v1",
            "/apis/shop.example.com/v1/namespaces/{namespace}/carts",
            "Cart",
            "com.example.shop.v1.Cart",
            "/spec/description",
            "What is in it.",
        ),
        (
            "shop.example.com",
            "v1",
            "/apis/shop.example.com/v1/carts",
            "Cart",
            "com.example.shop.v1.Cart",
            "/metadata/allOf/0/$ref",
            "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta",
        ),
    ];
    for (group, version, path, kind, name, field, expected) in rows {
        let document = document(&kinds(), &[&cart()], group, version).unwrap_or_default();
        let gvk = json!({ "group": group, "version": version, "kind": kind });
        assert_eq!(document["paths"][path]["get"]["x-kubernetes-group-version-kind"], gvk);
        let schema = &document["components"]["schemas"][name];
        assert_eq!(schema["x-kubernetes-group-version-kind"], json!([gvk]));
        assert_eq!(schema["properties"].pointer(field), Some(&json!(expected)), "{name} {field}");
    }
}

#[test]
fn objects_need_no_metadata() {
    let rows = [
        ("", "io.k8s.api.core.v1.Pod", None),
        ("apps", "io.k8s.api.core.v1.PersistentVolumeClaim", None),
        ("coordination.k8s.io", "io.k8s.api.coordination.v1.Lease", None),
        ("storage.k8s.io", "io.k8s.api.storage.v1.StorageClass", Some(json!(["provisioner"]))),
    ];
    for (group, name, expected) in rows {
        let document = document(&Kinds::built_in(), &[], group, "v1").unwrap_or_default();
        assert_eq!(document["components"]["schemas"][name].get("required"), expected.as_ref(), "{name}");
    }
}

#[test]
fn types_that_are_either() {
    let core = document(&Kinds::built_in(), &[], "", "v1").unwrap_or_default();
    let schemas = &core["components"]["schemas"];
    let quantity = &schemas["io.k8s.apimachinery.pkg.api.resource.Quantity"];
    assert_eq!(quantity["oneOf"], json!([{ "type": "string" }, { "type": "number" }]));
    assert_eq!(schemas["io.k8s.apimachinery.pkg.util.intstr.IntOrString"]["format"], "int-or-string");
}

#[test]
fn custom_resources_without_a_usable_schema() {
    let rows =
        [crd(&json!(null)), crd(&json!(7)), json!({ "spec": { "versions": 3 } }), json!(null), json!({})];
    for crd in rows {
        let document = document(&kinds(), &[&crd], "shop.example.com", "v1").unwrap_or_default();
        let schema = &document["components"]["schemas"]["com.example.shop.v1.Cart"];
        assert_eq!(schema["type"], "object", "{crd}");
    }
}

#[test]
fn addresses_change_with_what_is_told() {
    let address = |kinds: &Kinds, crd: &Value, path: &str| {
        index(kinds, &[crd])["paths"][path]["serverRelativeURL"].as_str().unwrap_or_default().to_owned()
    };
    let (kinds, cart) = (kinds(), cart());
    let other = crd(&json!({ "type": "object" }));
    let custom = "apis/shop.example.com/v1";
    assert!(address(&kinds, &cart, custom).starts_with("/openapi/v3/apis/shop.example.com/v1?hash="));
    assert_eq!(address(&kinds, &cart, custom), address(&kinds, &cart, custom));
    assert_ne!(address(&kinds, &cart, custom), address(&kinds, &other, custom));
    assert_eq!(address(&kinds, &cart, "api/v1"), address(&kinds, &other, "api/v1"));
    assert_eq!(address(&Kinds::built_in(), &cart, custom), "");
}

#[test]
fn nothing_for_what_is_not_served() {
    for (group, version) in [("", "v2"), ("apps", ""), ("nothing", "v1")] {
        assert_eq!(document(&kinds(), &[], group, version), None);
    }
}

#[test]
fn protobuf_on_the_wire() {
    let title = "\n\nKubernetes";
    let version = format!("\u{12}\r{GIT_VERSION}");
    let expected = format!("\n\u{3}2.0\u{12}\u{1b}{title}{version}");
    assert_eq!(String::from_utf8(v2_protobuf()), Ok(expected));
}
