//! The rows of `told.json` were compared with a real API server, message by message.

use super::*;
use crate::json::{Value, json};

#[derive(serde::Deserialize)]
struct Told {
    schema: Value,
    rows: Vec<Row>,
}

#[derive(serde::Deserialize)]
struct Row {
    #[serde(default)]
    name: Option<String>,
    spec: Value,
    #[serde(default)]
    old: Option<Value>,
    told: Vec<String>,
}

const REST: &str = "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";

fn texts(causes: &[Cause]) -> Vec<String> {
    causes.iter().map(ToString::to_string).collect()
}

/// A valid object with `spec` laid over, as the server keeps it before it is judged.
fn object(schema: &Schema, row: &Row, spec: &Value) -> Value {
    let name = row.name.as_deref().unwrap_or("x");
    let mut object = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name}, "spec": {"name": "abc"}});
    for (field, value) in spec.as_object().unwrap() {
        object["spec"][field] = value.clone();
    }
    schema.default(&mut object);
    schema.prune(&mut object);
    object
}

#[test]
fn objects_are_judged_as_told() {
    let told: Told = serde_json::from_str(include_str!("told.json")).unwrap();
    let schema = Schema::parse(&told.schema).map_err(|causes| texts(&causes)).unwrap();
    for row in &told.rows {
        let old = row.old.as_ref().map(|old| object(&schema, row, old));
        let found = schema.validate(&object(&schema, row, &row.spec), old.as_ref());
        let expected: Vec<&str> =
            row.told.iter().map(|text| if text == "REST" { REST } else { text }).collect();
        assert_eq!(texts(&found), expected, "{}", row.spec);
    }
}

#[expect(clippy::needless_pass_by_value, reason = "rows read better without a reference each")]
fn parsed(schema: Value) -> Schema {
    Schema::parse(&schema).map_err(|causes| texts(&causes)).unwrap()
}

/// An object schema with these properties.
#[expect(clippy::needless_pass_by_value, reason = "rows read better without a reference each")]
fn of(properties: Value) -> Value {
    json!({"type": "object", "properties": properties})
}

#[test]
fn defaults_fill_what_is_missing() {
    let schema = parsed(of(json!({
        "a": {"type": "string", "default": "A"},
        "n": {"type": "string", "default": "N", "nullable": true},
        "drop": {"type": "string"},
        "keep": {"type": "string", "nullable": true},
        "o": {"type": "object", "default": {}, "properties": {"p": {"type": "integer", "default": 1}}},
        "q": {"type": "object", "properties": {"p": {"type": "integer", "default": 1}}},
        "list": {"type": "array", "items": {"type": "object", "properties": {"p": {"type": "integer", "default": 2}}}},
        "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"p": {"type": "integer", "default": 3}}}},
        "texts": {"type": "array", "items": {"type": "string", "default": "t"}},
    })));
    let filled = json!({"a": "A", "n": "N", "o": {"p": 1}});
    let with = |more: Value| {
        let mut object = filled.clone();
        object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        object
    };
    for (given, expected) in [
        (json!({}), filled.clone()),
        (json!({"a": null, "n": null, "drop": null, "keep": null}), with(json!({"n": null, "keep": null}))),
        (json!({"a": "", "o": {"p": 0}}), with(json!({"a": "", "o": {"p": 0}}))),
        (json!({"q": {}}), with(json!({"q": {"p": 1}}))),
        (json!({"list": [{}, {"p": 5}]}), with(json!({"list": [{"p": 2}, {"p": 5}]}))),
        (json!({"map": {"x": {}}}), with(json!({"map": {"x": {"p": 3}}}))),
        (json!({"texts": [null, "a"]}), with(json!({"texts": ["t", "a"]}))),
        (json!({"unknown": null}), with(json!({"unknown": null}))),
    ] {
        let mut object = given.clone();
        schema.default(&mut object);
        assert_eq!(object, expected, "{given}");
    }
}

#[test]
fn unknown_fields_are_dropped_and_told() {
    let schema = parsed(of(json!({
        "spec": of(json!({
            "a": {"type": "string"},
            "list": {"type": "array", "items": of(json!({"a": {"type": "string"}}))},
            "map": {"type": "object", "additionalProperties": of(json!({"a": {"type": "string"}}))},
            "texts": {"type": "object", "additionalProperties": {"type": "string"}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"known": of(json!({"a": {"type": "string"}}))}},
            "pod": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object"}}},
        })),
    })));
    for (given, expected, dropped) in [
        (json!({"a": "x", "z": 1}), json!({"a": "x"}), vec!["spec.z"]),
        (
            json!({"list": [{"a": "x"}, {"z": 1, "y": 1}]}),
            json!({"list": [{"a": "x"}, {}]}),
            vec!["spec.list[1].y", "spec.list[1].z"],
        ),
        (json!({"map": {"k": {"z": 1}}}), json!({"map": {"k": {}}}), vec!["spec.map.k.z"]),
        (json!({"texts": {"k": "v"}}), json!({"texts": {"k": "v"}}), vec![]),
        (
            json!({"free": {"z": {"y": 1}, "known": {"z": 1}}}),
            json!({"free": {"z": {"y": 1}, "known": {}}}),
            vec!["spec.free.known.z"],
        ),
        (
            json!({"pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "colour": "red"}, "spec": {"z": 1}, "z": 1}}),
            json!({"pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {}}}),
            vec!["spec.pod.metadata.colour", "spec.pod.spec.z", "spec.pod.z"],
        ),
    ] {
        let meta = json!({"name": "x", "labels": {"a": "b"}});
        let mut object = json!({"apiVersion": "a/v1", "kind": "A", "metadata": meta, "spec": given});
        assert_eq!(schema.prune_telling(&mut object), dropped, "{given}");
        assert_eq!(object, json!({"apiVersion": "a/v1", "kind": "A", "metadata": meta, "spec": expected}));
    }
    let mut object = json!({"kind": "A", "metadata": {"ownerReferences": [{"name": "x", "z": 1}]}, "z": 1});
    assert_eq!(schema.prune_telling(&mut object), ["metadata.ownerReferences[0].z", "z"]);
}

#[test]
fn what_did_not_change_is_let_be() {
    let schema = parsed(of(json!({
        "a": {"type": "integer", "maximum": 5},
        "b": {"type": "integer", "x-kubernetes-validations": [{"rule": "self < 5", "message": "too large"}]},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
    })));
    for (old, new, told) in [
        (json!({"a": 9}), json!({"a": 9, "b": 1}), vec![]),
        (
            json!({"a": 9}),
            json!({"a": 8}),
            vec!["a: Invalid value: 8: a in body should be less than or equal to 5"],
        ),
        (json!({"b": 9}), json!({"a": 1, "b": 9}), vec![]),
        (json!({"b": 9}), json!({"b": 8}), vec!["b: Invalid value: 8: too large"]),
        (json!({"set": ["a", "a"]}), json!({"set": ["a", "a", "b", "b"]}), vec![]),
        (json!({"set": ["a"]}), json!({"set": ["a", "a"]}), vec!["set[1]: Duplicate value: \"a\""]),
    ] {
        assert_eq!(texts(&schema.validate(&new, Some(&old))), told, "{old} to {new}");
    }
}

#[test]
fn a_status_is_judged_alone() {
    let schema = parsed(of(json!({
        "spec": of(json!({"a": {"type": "integer", "maximum": 5}})),
        "status": of(json!({"n": {"type": "integer", "minimum": 0}, "c": {"type": "object", "oneOf": [{"required": ["x"]}], "properties": {"x": {"type": "string"}}}})),
    })));
    let old = json!({"spec": {"a": 9}, "status": {"n": 1}});
    for (status, told) in [
        (json!({"n": 2}), vec![]),
        (
            json!({"n": -1}),
            vec!["status.n: Invalid value: -1: n in body should be greater than or equal to 0"],
        ),
        (
            json!({"c": {}}),
            vec![
                "status: Invalid value: \"\": \"c\" must validate one and only one schema (oneOf). Found none valid",
                "status.c.x: Required value",
            ],
        ),
    ] {
        let new = json!({"spec": {"a": 9}, "status": status});
        assert_eq!(texts(&schema.validate_status(&new, &old)), told, "{status}");
    }
}

#[test]
fn schemas_are_structural() {
    let field = |schema: Value| of(json!({ "a": schema }));
    let text = json!({"type": "string"});
    for (schema, told) in [
        (json!({}), vec!["type: Required value: must not be empty at the root"]),
        (json!({"type": "string"}), vec!["type: Invalid value: \"string\": must be object at the root"]),
        (
            field(json!({})),
            vec!["properties[a].type: Required value: must not be empty for specified object fields"],
        ),
        (field(json!({"type": "array"})), vec!["properties[a].items: Required value: must be specified"]),
        (
            field(json!({"type": "array", "items": {}})),
            vec!["properties[a].items.type: Required value: must not be empty for specified array items"],
        ),
        (
            field(json!({"type": "text"})),
            vec![
                "properties[a].type: Unsupported value: \"text\": supported values: \"array\", \"boolean\", \"integer\", \"number\", \"object\", \"string\"",
            ],
        ),
        (
            json!({"type": "object", "additionalProperties": text}),
            vec!["additionalProperties: Forbidden: must not be used at the root"],
        ),
        (
            field(json!({"type": "object", "properties": {"b": text}, "additionalProperties": text})),
            vec![
                "properties[a].additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive",
            ],
        ),
        (
            field(json!({"type": "integer", "anyOf": [{"type": "integer"}]})),
            vec!["properties[a].anyOf[0].type: Forbidden: must be empty to be structural"],
        ),
        (
            json!({"type": "object", "oneOf": [{"properties": {"b": {"minimum": 1}}}]}),
            vec!["properties[b]: Required value: because it is defined in oneOf[0].properties[b]"],
        ),
        (field(json!({"type": "object", "oneOf": [{"properties": {"b": {"minimum": 1}}}]})), vec![]),
        (
            field(json!({"type": "string", "pattern": "("})),
            vec![
                "properties[a].pattern: Invalid value: \"(\": must be a valid regular expression, but isn't: error parsing regexp: missing closing ): `(`",
            ],
        ),
        (
            field(json!({"type": "string", "default": 5})),
            vec![
                "properties[a].default: Invalid value: \"integer\":  in body must be of type string: \"integer\"",
            ],
        ),
        (
            field(json!({"type": "object", "default": {"b": 1}})),
            vec!["properties[a].default: Invalid value: {\"b\":1}: must not have unknown fields"],
        ),
        (
            of(json!({"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}})),
            vec![
                "properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified",
            ],
        ),
        (
            field(json!({"type": "array", "items": text, "uniqueItems": true})),
            vec![
                "properties[a].uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
            ],
        ),
        (
            field(json!({"type": "array", "items": text, "x-kubernetes-list-type": "bag"})),
            vec![
                "properties[a].x-kubernetes-list-type: Unsupported value: \"bag\": supported values: \"atomic\", \"set\", \"map\"",
            ],
        ),
        (
            field(json!({"type": "array", "items": text, "x-kubernetes-list-type": "map"})),
            vec![
                "properties[a].x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map",
                "properties[a].items.type: Invalid value: \"string\": must be object if parent array's x-kubernetes-list-type is map",
            ],
        ),
        (
            field(
                json!({"type": "array", "items": of(json!({"k": text})), "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}),
            ),
            vec![
                "properties[a].items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
            ],
        ),
        (
            field(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": false})),
            vec![
                "properties[a].x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined",
            ],
        ),
        (
            field(json!({"$ref": "#/x", "type": "object"})),
            vec!["properties[a].$ref: Forbidden: $ref is not supported"],
        ),
        (
            field(json!({"type": "string", "x-kubernetes-validations": [{"rule": ""}]})),
            vec!["properties[a].x-kubernetes-validations[0].rule: Required value: rule is not specified"],
        ),
        (
            field(
                json!({"type": "string", "x-kubernetes-validations": [{"rule": "true", "fieldPath": ".b"}]}),
            ),
            vec![
                "properties[a].x-kubernetes-validations[0].fieldPath: Invalid value: \".b\": must be a valid path",
            ],
        ),
        (
            field(json!({"type": "string", "x-kubernetes-validations": [{"rule": "true", "reason": "Bad"}]})),
            vec![
                "properties[a].x-kubernetes-validations[0].reason: Unsupported value: \"Bad\": supported values: \"FieldValueDuplicate\", \"FieldValueForbidden\", \"FieldValueInvalid\", \"FieldValueRequired\"",
            ],
        ),
        (
            field(
                json!({"type": "array", "maxItems": 5, "items": {"type": "string", "maxLength": 5, "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}}),
            ),
            vec![
                "properties[a].items.x-kubernetes-validations[0].rule: Invalid value: \"self == oldSelf\": oldSelf cannot be used on the uncorrelatable portion of the schema within properties[a]",
            ],
        ),
        (
            field(
                json!({"type": "string", "x-kubernetes-validations": [{"rule": "true", "optionalOldSelf": true}]}),
            ),
            vec![
                "properties[a].x-kubernetes-validations[0].optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule",
            ],
        ),
        (
            field(
                json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
            ),
            vec![],
        ),
    ] {
        let found = Schema::parse(&schema).err().unwrap_or_default();
        assert_eq!(texts(&found), told, "{schema}");
    }
}

#[test]
fn wrong_rules_do_not_compile() {
    let schema = of(json!({"a": {"type": "string", "x-kubernetes-validations": [{"rule": "self ="}]}}));
    let causes = texts(&Schema::parse(&schema).unwrap_err());
    let start = "properties[a].x-kubernetes-validations[0].rule: Invalid value: {\"Rule\":\"self =\",\"Message\":\"\",\"MessageExpression\":\"\",\"Reason\":null,\"FieldPath\":\"\",\"OptionalOldSelf\":null}: compilation failed: ";
    assert!(causes[0].starts_with(start), "{causes:?}");
}

#[test]
fn fields_have_names_in_rules() {
    let schema = parsed(json!({
        "type": "object",
        "properties": {
            "namespace": {"type": "string"}, "foo-bar": {"type": "string"}, "a_b": {"type": "string"}, "a__b": {"type": "string"},
            "map": {"type": "object", "additionalProperties": {"type": "string"}}, "real": {"type": "number"},
            "either": {"x-kubernetes-int-or-string": true},
        },
        "x-kubernetes-validations": [
            {"rule": "self.__namespace__ == 'n' && self.foo__dash__bar == 'f' && self.a_b == 'x' && self.a__underscores__b == 'y'"},
            {"rule": "self.map['a-b'] == 'c' && 'in' in self.map"},
            {"rule": "self.real == 1.0"},
            {"rule": "self.either == 5 || self.either == '5'"},
        ],
    }));
    let object = json!({"namespace": "n", "foo-bar": "f", "a_b": "x", "a__b": "y", "map": {"a-b": "c", "in": ""}, "real": 1, "either": 5});
    assert_eq!(texts(&schema.validate(&object, None)), Vec::<String>::new());
}
