//! CapacityBuffer of `autoscaling.x-k8s.io/v1beta1`: room kept free for pods to come.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::scalar::{Amounts, Count};
use super::shared::Condition;

pub const ACTIVE_CAPACITY: &str = "buffer.x-k8s.io/active-capacity";

/// How much room is kept free, and for which pods.
#[derive(Clone, Debug, PartialEq, Eq, CustomResource, KubeSchema, Serialize, Deserialize)]
#[kube(
    group = "autoscaling.x-k8s.io",
    version = "v1beta1",
    kind = "CapacityBuffer",
    namespaced,
    category = "autoscaling",
    shortname = "cb",
    doc = "Room that is kept free for pods to come.",
    derive = "PartialEq",
    status = "CapacityBufferStatus",
    printcolumn(
        name = "Strategy",
        type_ = "string",
        json_path = ".spec.provisioningStrategy",
        description = "How the room is kept"
    ),
    printcolumn(
        name = "PodTemplate",
        type_ = "string",
        json_path = ".status.podTemplateRef.name",
        description = "The pod that the room is measured in"
    ),
    printcolumn(
        name = "Replicas",
        type_ = "integer",
        json_path = ".status.replicas",
        description = "How many such pods there is room for"
    ),
    printcolumn(name = "ConditionsType", type_ = "string", json_path = ".status.conditions[*].type"),
    printcolumn(name = "ConditionsStatus", type_ = "string", json_path = ".status.conditions[*].status"),
    printcolumn(name = "ConditionsReason", type_ = "string", json_path = ".status.conditions[*].reason"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[x_kube(
    validation = Rule::new("!has(self.podTemplateRef) || has(self.replicas) || has(self.limits)").message("with podTemplateRef, set replicas or limits too"),
    validation = Rule::new("!(has(self.podTemplateRef) && has(self.scalableRef))").message("set podTemplateRef or scalableRef, not both"),
)]
#[serde(rename_all = "camelCase")]
pub struct CapacityBufferSpec {
    /// How the room is kept.
    #[serde(default = "active_capacity")]
    pub provisioning_strategy: String,
    /// The PodTemplate, in the same namespace, of one pod that there must be room for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_template_ref: Option<LocalObjectRef>,
    /// The workload, in the same namespace, for more of whose pods there must be room.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scalable_ref: Option<ScalableRef>,
    /// For how many pods there must be room.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<Count>,
    /// For how many pods there must be room, as a percentage of the workload's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percentage: Option<Count>,
    /// What the pods that there is room for may ask for together at most.
    #[serde(default, skip_serializing_if = "Amounts::is_empty")]
    pub limits: Amounts,
}

fn active_capacity() -> String {
    ACTIVE_CAPACITY.to_owned()
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalObjectRef {
    /// The object's name.
    #[schemars(length(min = 1))]
    pub name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScalableRef {
    /// The workload's API group; empty for the core group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api_group: String,
    /// The workload's kind.
    #[schemars(length(min = 1))]
    pub kind: String,
    /// The workload's name.
    #[schemars(length(min = 1))]
    pub name: String,
}

/// How much room there is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapacityBufferStatus {
    /// The PodTemplate that the room is measured in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_template_ref: Option<LocalObjectRef>,
    /// How many such pods there is room for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// The generation of that PodTemplate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_template_generation: Option<i64>,
    /// How the room is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provisioning_strategy: Option<String>,
    /// ReadyForProvisioning, Provisioning, LimitedByQuotas.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".to_owned()]))]
    pub conditions: Vec<Condition>,
}
