//! Schemas: of built-in kinds from their Rust types, of custom ones from their CustomResourceDefinition.

use std::borrow::Cow;

use k8s_openapi::api::{
    admissionregistration::v1 as admission, apps::v1 as apps, authentication::v1 as authentication,
    authorization::v1 as authorization, autoscaling::v1 as autoscaling_v1, autoscaling::v2 as autoscaling_v2,
    batch::v1 as batch, coordination::v1 as coordination, core::v1 as core, discovery::v1 as discovery,
    events::v1 as events, networking::v1 as networking, node::v1 as node, policy::v1 as policy,
    rbac::v1 as rbac, scheduling::v1 as scheduling, storage::v1 as storage,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::schemars::generate::SchemaSettings;
use k8s_openapi::schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::discovery::served::{Gvk, Served, Version};
use crate::json::{Map, Value, json};

/// Which OpenAPI the schema is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    V2,
    V3,
}

impl Dialect {
    fn path(self) -> &'static str {
        match self {
            Self::V2 => "/definitions",
            Self::V3 => "/components/schemas",
        }
    }
}

/// The schemas of all that a version serves, and of all that these refer to, by name.
pub(super) fn of_version(version: &Version, crds: &[&Value], dialect: Dialect) -> Map {
    let settings = SchemaSettings::default().with(|settings| {
        settings.definitions_path = dialect.path().into();
        settings.meta_schema = None;
    });
    let mut generator = settings.into_generator();
    let mut custom = Vec::new();
    let mut described = Vec::new();
    for served in &version.resources {
        for kind in kinds_of(served) {
            match built_in(kind) {
                Some(of) => drop((of.schema)(&mut generator)),
                None => {
                    custom.push((name(kind), custom_schema(of_custom(crds, kind), &mut generator, dialect)));
                }
            }
            described.push(kind);
        }
    }
    let of_types = generator.take_definitions(false);
    let mut schemas: Map = of_types.into_iter().map(|(name, schema)| (name, Value::from(schema))).collect();
    for (name, schema) in &mut schemas {
        translate(schema, dialect);
        translate_either(name, schema, dialect);
        free_metadata(schema);
    }
    schemas.extend(custom);
    for kind in described {
        if let Some(schema) = schemas.get_mut(&name(kind)) {
            schema["x-kubernetes-group-version-kind"] =
                json!([{ "group": kind.group, "kind": kind.kind, "version": kind.version }]);
        }
    }
    schemas
}

/// The kinds of objects that a resource and its parts carry.
fn kinds_of(served: &Served) -> impl Iterator<Item = &Gvk> {
    let of_parts = served.subresources.iter().filter(|part| part.has_objects()).map(|part| &part.kind);
    std::iter::once(&served.kind).chain(of_parts)
}

/// The name of a kind's schema: `io.k8s.api.apps.v1.Deployment`, or `com.example.shop.v1.Cart`.
fn name(kind: &Gvk) -> String {
    if let Some(built_in) = built_in(kind) {
        return (built_in.name)().into_owned();
    }
    let group: Vec<&str> = kind.group.rsplit('.').collect();
    format!("{}.{}.{}", group.join("."), kind.version, kind.kind)
}

pub(super) fn reference(kind: &Gvk, dialect: Dialect) -> Value {
    json!({ "$ref": format!("#{}/{}", dialect.path(), name(kind)) })
}

/// The schema that a CustomResourceDefinition gives a kind.
pub(super) fn of_custom<'a>(crds: &[&'a Value], kind: &Gvk) -> Option<&'a Value> {
    let crd = crds
        .iter()
        .find(|crd| crd["spec"]["group"] == kind.group && crd["spec"]["names"]["kind"] == kind.kind)?;
    let version =
        crd["spec"]["versions"].as_array()?.iter().find(|version| version["name"] == kind.version)?;
    version["schema"].get("openAPIV3Schema")
}

/// A custom resource's schema says nothing about what all objects have.
fn custom_schema(schema: Option<&Value>, generator: &mut SchemaGenerator, dialect: Dialect) -> Value {
    let Some(schema) = schema.filter(|schema| schema.is_object() && dialect == Dialect::V3) else {
        return json!({ "type": "object" });
    };
    let mut metadata = Value::from(generator.subschema_for::<ObjectMeta>().to_value());
    metadata["description"] = json!(METADATA);
    translate(&mut metadata, dialect);
    let mut properties = schema["properties"].as_object().cloned().unwrap_or_default();
    properties.insert("apiVersion", json!({ "type": "string", "description": API_VERSION }));
    properties.insert("kind", json!({ "type": "string", "description": KIND }));
    properties.insert("metadata", metadata);
    let mut schema = schema.clone();
    schema["properties"] = Value::Object(properties);
    schema
}

const API_VERSION: &str = "APIVersion defines the versioned schema of this representation of an object. Servers should convert recognized schemas to the latest internal value, and may reject unrecognized values. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
const KIND: &str = "Kind is a string value representing the REST resource this object represents. Servers may infer this from the endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const METADATA: &str = "Standard object's metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// In version 3, what stands beside a reference is ignored: so the reference goes into an `allOf`.
fn translate(schema: &mut Value, dialect: Dialect) {
    match schema {
        Value::Object(fields) => {
            fields.values_mut().for_each(|value| translate(value, dialect));
            // A field of a schema may itself be called `$ref`: that one is described by an object.
            let is_reference = fields.get("$ref").is_some_and(Value::is_string);
            if is_reference && fields.len() > 1 && dialect == Dialect::V3 {
                let reference = fields.remove("$ref");
                fields.insert("allOf", json!([{ "$ref": reference }]));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| translate(item, dialect)),
        _ => {}
    }
}

/// Objects need metadata in Rust's schemas, but not in the API server's.
fn free_metadata(schema: &mut Value) {
    if schema["properties"].get("apiVersion").is_none() {
        return;
    }
    let Some(fields) = schema.as_object_mut() else { return };
    if let Some(required) = fields.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|field| field != "metadata");
        if required.is_empty() {
            fields.remove("required");
        }
    }
}

/// The types that are a string or a number have no type in Rust's schemas, and in each dialect another one.
fn translate_either(name: &str, schema: &mut Value, dialect: Dialect) {
    const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
    const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";
    let (format, other) = match name {
        QUANTITY => (None, json!([{ "type": "string" }, { "type": "number" }])),
        INT_OR_STRING => (Some("int-or-string"), json!([{ "type": "integer" }, { "type": "string" }])),
        _ => return,
    };
    if let Some(fields) = schema.as_object_mut() {
        fields.remove("x-kubernetes-int-or-string");
    }
    if let Some(format) = format {
        schema["format"] = json!(format);
    }
    match dialect {
        Dialect::V2 => schema["type"] = json!("string"),
        Dialect::V3 => schema["oneOf"] = other,
    }
}

struct BuiltIn {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    name: fn() -> Cow<'static, str>,
    schema: fn(&mut SchemaGenerator) -> Schema,
}

fn built_in(kind: &Gvk) -> Option<&'static BuiltIn> {
    BUILT_IN.iter().find(|of| of.group == kind.group && of.version == kind.version && of.kind == kind.kind)
}

macro_rules! built_in {
    ($($type:ty,)*) => {
        &[$(BuiltIn {
            group: <$type as k8s_openapi::Resource>::GROUP,
            version: <$type as k8s_openapi::Resource>::VERSION,
            kind: <$type as k8s_openapi::Resource>::KIND,
            name: <$type as JsonSchema>::schema_name,
            schema: SchemaGenerator::subschema_for::<$type>,
        }),*]
    };
}

const BUILT_IN: &[BuiltIn] = built_in! {
    core::Binding,
    core::ConfigMap,
    core::Endpoints,
    core::Event,
    core::LimitRange,
    core::Namespace,
    core::Node,
    core::PersistentVolume,
    core::PersistentVolumeClaim,
    core::Pod,
    core::PodTemplate,
    core::ReplicationController,
    core::ResourceQuota,
    core::Secret,
    core::Service,
    core::ServiceAccount,
    admission::MutatingWebhookConfiguration,
    admission::ValidatingWebhookConfiguration,
    apiextensions::CustomResourceDefinition,
    apps::ControllerRevision,
    apps::DaemonSet,
    apps::Deployment,
    apps::ReplicaSet,
    apps::StatefulSet,
    authentication::SelfSubjectReview,
    authentication::TokenReview,
    authorization::LocalSubjectAccessReview,
    authorization::SelfSubjectAccessReview,
    authorization::SelfSubjectRulesReview,
    authorization::SubjectAccessReview,
    autoscaling_v1::Scale,
    autoscaling_v2::HorizontalPodAutoscaler,
    batch::CronJob,
    batch::Job,
    coordination::Lease,
    discovery::EndpointSlice,
    events::Event,
    networking::Ingress,
    networking::IngressClass,
    networking::NetworkPolicy,
    node::RuntimeClass,
    policy::Eviction,
    policy::PodDisruptionBudget,
    rbac::ClusterRole,
    rbac::ClusterRoleBinding,
    rbac::Role,
    rbac::RoleBinding,
    scheduling::PriorityClass,
    storage::CSINode,
    storage::StorageClass,
    storage::VolumeAttachment,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovery::served::groups;
    use crate::kinds::Kinds;

    #[test]
    fn every_built_in_kind_has_a_schema() {
        for group in groups(&Kinds::built_in()).iter().filter(|group| group.name != "metrics.k8s.io") {
            for served in group.versions.iter().flat_map(|version| &version.resources) {
                let unknown: Vec<&Gvk> = kinds_of(served).filter(|kind| built_in(kind).is_none()).collect();
                assert_eq!(unknown, Vec::<&Gvk>::new(), "of {}", served.plural);
            }
        }
    }
}
