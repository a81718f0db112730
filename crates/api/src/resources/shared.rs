//! What several kinds have in common.

use berth_core::names::Text;
use berth_core::pod;
use berth_core::requirement::{Expression, Operator, RequirementError};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::scalar::Whole;

pub(super) const LABEL_KEY: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$";
pub(super) const LABEL_VALUE: &str = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";
const LABEL_VALUE_MAX: u32 = 63;
/// A DNS name of 253 characters, a slash, a name of 62: what the originals allow for a key.
const LABEL_KEY_MAX: u32 = 316;

const TAINT_VALUE: &str = r"^(([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";
const CONDITION_TYPE: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum TaintEffect {
    NoSchedule,
    PreferNoSchedule,
    NoExecute,
}

impl From<TaintEffect> for pod::TaintEffect {
    fn from(effect: TaintEffect) -> Self {
        match effect {
            TaintEffect::NoSchedule => Self::NoSchedule,
            TaintEffect::PreferNoSchedule => Self::PreferNoSchedule,
            TaintEffect::NoExecute => Self::NoExecute,
        }
    }
}

/// Keeps pods that do not tolerate it off the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Taint {
    /// The taint's key.
    #[schemars(length(min = 1), regex(pattern = LABEL_KEY))]
    pub key: String,
    /// The taint's value, if it has one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(regex(pattern = TAINT_VALUE))]
    pub value: String,
    /// What happens to pods that do not tolerate the taint.
    pub effect: TaintEffect,
    /// When the taint was added.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_added: Option<Time>,
}

impl From<&Taint> for pod::Taint {
    fn from(taint: &Taint) -> Self {
        Self::new(&taint.key, &taint.value, taint.effect.into())
    }
}

impl From<&pod::Taint> for Taint {
    fn from(taint: &pod::Taint) -> Self {
        let effect = match taint.effect {
            pod::TaintEffect::NoSchedule => TaintEffect::NoSchedule,
            pod::TaintEffect::PreferNoSchedule => TaintEffect::PreferNoSchedule,
            pod::TaintEffect::NoExecute => TaintEffect::NoExecute,
        };
        Self { key: taint.key.to_string(), value: taint.value.to_string(), effect, time_added: None }
    }
}

/// Which values a node's label may have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeSelectorRequirement {
    /// The label's key.
    #[schemars(length(max = LABEL_KEY_MAX), regex(pattern = LABEL_KEY))]
    #[x_kube(
        validation = Rule::new(r"self in ['karpenter.sh/capacity-type', 'karpenter.sh/nodepool'] || !self.matches('^([^/]*[.])?karpenter[.]sh/')").message("labels of the domain karpenter.sh belong to the autoscaler, except karpenter.sh/capacity-type and karpenter.sh/nodepool"),
        validation = Rule::new("self != 'kubernetes.io/hostname'").message("a node's hostname cannot be required"),
    )]
    pub key: String,
    /// How the label's value relates to the values here.
    #[schemars(schema_with = "operators")]
    pub operator: Operator,
    /// At least one for In and NotIn, none for Exists and DoesNotExist, one whole number for Gt, Lt, Gte and Lte.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(length(max = LABEL_VALUE_MAX), regex(pattern = LABEL_VALUE)))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub values: Vec<String>,
}

/// Requirements that nobody writes but their finder: without rules, which would cost too much in lists without an end.
pub(super) fn found_requirements(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "type": "object", "required": ["key", "operator"],
            "properties": {
                "key": { "type": "string", "description": "The label's key." },
                "operator": { "type": "string", "description": "How the label's value relates to the values." },
                "values": { "type": "array", "items": { "type": "string" }, "description": "The values." },
            },
        },
    })
}

/// Which values a node's label may have, and how many of them must stay possible.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct MinValuesRequirement {
    /// The label's key.
    #[schemars(length(max = LABEL_KEY_MAX), regex(pattern = LABEL_KEY))]
    #[x_kube(
        validation = Rule::new(r"self in ['karpenter.sh/capacity-type', 'karpenter.sh/nodepool'] || !self.matches('^([^/]*[.])?karpenter[.]sh/')").message("labels of the domain karpenter.sh belong to the autoscaler, except karpenter.sh/capacity-type and karpenter.sh/nodepool"),
        validation = Rule::new("self != 'kubernetes.io/hostname'").message("a node's hostname cannot be required"),
    )]
    pub key: String,
    /// How the label's value relates to the values here.
    #[schemars(schema_with = "operators")]
    pub operator: Operator,
    /// At least one for In and NotIn, none for Exists and DoesNotExist, one whole number for Gt, Lt, Gte and Lte.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(length(max = LABEL_VALUE_MAX), regex(pattern = LABEL_VALUE)))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub values: Vec<String>,
    /// How many different values of this label the possible instance types must have at least.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_values: Option<Whole<1, 50>>,
}

impl NodeSelectorRequirement {
    pub fn expression(&self) -> Result<Expression, RequirementError> {
        expression(&self.key, self.operator, &self.values)
    }
}

impl MinValuesRequirement {
    pub fn expression(&self) -> Result<Expression, RequirementError> {
        expression(&self.key, self.operator, &self.values)
    }
}

fn expression(key: &str, operator: Operator, values: &[String]) -> Result<Expression, RequirementError> {
    let values = values.iter().map(|value| Text::from(value.as_str())).collect();
    Expression::new(key, operator, values)
}

fn operators(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": Operator::NAMES.split(", ").collect::<Vec<_>>() })
}

/// Labels of nodes: at most a hundred, each with a legal value.
pub(super) fn node_labels(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 100,
        "additionalProperties": { "type": "string", "maxLength": LABEL_VALUE_MAX, "pattern": LABEL_VALUE },
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConditionStatus {
    True,
    False,
    Unknown,
}

/// One aspect of an object's state.
///
/// The schema requires all but `observedGeneration`; a file may leave out what only people read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Which aspect.
    #[serde(rename = "type")]
    #[schemars(length(max = 316), regex(pattern = CONDITION_TYPE))]
    pub type_: String,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// Why the status is what it is, as one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(
        required,
        length(min = 1, max = 1024),
        regex(pattern = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")
    )]
    pub reason: Option<String>,
    /// Why the status is what it is, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(required, length(max = 32768))]
    pub message: Option<String>,
    /// When the status last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(required)]
    pub last_transition_time: Option<Time>,
    /// The generation of the object that the condition is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
}

/// Whether the condition `type_` is there and true.
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    conditions.iter().any(|condition| condition.type_ == type_ && condition.status == ConditionStatus::True)
}
