//! The custom resource definitions of all kinds, as objects and as YAML.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;
use serde_json::json;

use crate::resources::berth::VPSieNodeClass;
use crate::resources::buffer::CapacityBuffer;
use crate::resources::gardener::{ScalingAdvice, ScalingConstraint, ScalingFeedback};
use crate::resources::karpenter::{NodeClaim, NodeOverlay, NodePool};
use crate::resources::nodeclass::{EC2NodeClass, KWOKNodeClass};
use crate::resources::vpsie::{AutoscalerConfig, NodeGroup, VPSieNode};

#[derive(Debug, thiserror::Error)]
#[error("the definition of {name} cannot be written as YAML: {source}")]
pub struct CrdError {
    name: String,
    source: serde_saphyr::SerializeError,
}

/// The definitions, dialect by dialect.
pub fn all() -> Vec<CustomResourceDefinition> {
    let mut crds = vec![
        NodePool::crd(),
        NodeClaim::crd(),
        NodeOverlay::crd(),
        EC2NodeClass::crd(),
        ready_by_default(without_required_spec(KWOKNodeClass::crd())),
        VPSieNodeClass::crd(),
        CapacityBuffer::crd(),
        NodeGroup::crd(),
        VPSieNode::crd(),
        AutoscalerConfig::crd(),
        ScalingConstraint::crd(),
        ScalingAdvice::crd(),
        ScalingFeedback::crd(),
    ];
    for schema in crds.iter_mut().filter_map(schema_of) {
        forbid_null(schema);
    }
    crds
}

/// All definitions as one YAML text of several documents.
pub fn yaml() -> Result<String, CrdError> {
    all().iter().map(document).collect()
}

/// One definition as a YAML document, with the line that begins it.
pub fn document(crd: &CustomResourceDefinition) -> Result<String, CrdError> {
    let text = serde_saphyr::to_string(crd)
        .map_err(|source| CrdError { name: crd.metadata.name.clone().unwrap_or_default(), source })?;
    Ok(format!("---\n{}\n", text.trim_end()))
}

/// The file that a definition is kept in: `karpenter.sh_nodepools.yaml`.
pub fn file_name(crd: &CustomResourceDefinition) -> String {
    format!("{}_{}.yaml", crd.spec.group, crd.spec.names.plural)
}

fn schema_of(crd: &mut CustomResourceDefinition) -> Option<&mut JSONSchemaProps> {
    crd.spec.versions.first_mut()?.schema.as_mut()?.open_api_v3_schema.as_mut()
}

/// For a class whose spec has nothing but defaults.
fn without_required_spec(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    if let Some(schema) = schema_of(&mut crd) {
        schema.required = None;
    }
    crd
}

/// Nothing looks after a simulated cloud's class, so it is ready from the start, as in Karpenter.
fn ready_by_default(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    let status = schema_of(&mut crd).and_then(|schema| schema.properties.as_mut()?.get_mut("status"));
    if let Some(status) = status {
        status.default = Some(JSON(json!({
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "Ready", "message": "",
                "lastTransitionTime": "2024-01-01T01:01:01Z",
            }],
        })));
    }
    crd
}

/// Optional fields may be left out; the originals do not let them be null, and `has()` in a CEL rule
/// would take a null for a value.
fn forbid_null(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    if let Some(values) = &mut schema.enum_ {
        values.retain(|value| !value.0.is_null());
    }
    for property in schema.properties.iter_mut().flat_map(|properties| properties.values_mut()) {
        forbid_null(property);
    }
    match &mut schema.items {
        Some(JSONSchemaPropsOrArray::Schema(items)) => forbid_null(items),
        Some(JSONSchemaPropsOrArray::Schemas(items)) => items.iter_mut().for_each(forbid_null),
        None => {}
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        forbid_null(values);
    }
}
