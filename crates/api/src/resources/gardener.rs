//! Gardener's kinds of `sa.gardener.cloud/v1alpha1`: ScalingConstraint, ScalingAdvice and ScalingFeedback.

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::scalar::{Amounts, Count};
use super::shared::{Condition, Taint};
use crate::duration::GoDuration;

/// From which pools advice may choose.
#[derive(Clone, Debug, PartialEq, Eq, CustomResource, KubeSchema, Serialize, Deserialize)]
#[kube(
    group = "sa.gardener.cloud",
    version = "v1alpha1",
    kind = "ScalingConstraint",
    namespaced,
    shortname = "sc",
    doc = "The pools that advice may choose from.",
    derive = "PartialEq",
    status = "ScalingConstraintStatus"
)]
#[serde(rename_all = "camelCase")]
pub struct ScalingConstraintSpec {
    /// How long what could not be bought is left alone, where a pool does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_backoff_policy: Option<BackoffPolicy>,
    /// How pools shrink; nothing can be said yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_in_policy: Option<ScaleInPolicy>,
    /// Who asks for advice.
    #[serde(default, rename = "consumerID", skip_serializing_if = "String::is_empty")]
    pub consumer_id: String,
    /// The pools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub node_pools: Vec<ConstraintPool>,
}

/// How long what could not be bought is left alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackoffPolicy {
    /// After the first failure.
    pub initial_backoff: GoDuration,
    /// After many failures.
    pub max_backoff: GoDuration,
}

/// How a pool shrinks; nothing can be said yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
pub struct ScaleInPolicy {}

/// One pool: where its nodes are, what they are like, and from which templates they are made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConstraintPool {
    /// The pool's name, unique in the cluster.
    #[schemars(length(min = 1))]
    pub name: String,
    /// The region.
    #[schemars(length(min = 1))]
    pub region: String,
    /// The zones.
    #[schemars(length(min = 1))]
    pub availability_zones: Vec<String>,
    /// What its nodes may be made from.
    #[schemars(length(min = 1))]
    pub node_templates: Vec<NodeTemplate>,
    /// Pools of lower number are tried first.
    pub priority: Count,
    /// Labels that each node has.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations that each node has.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Taints that each node has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
    /// What all its nodes may have together at most.
    #[serde(default, skip_serializing_if = "Amounts::is_empty")]
    pub quota: Amounts,
    /// How the pool shrinks; nothing can be said yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_in_policy: Option<ScaleInPolicy>,
    /// How long what could not be bought for this pool is left alone.
    #[serde(rename = "defaultBackoffPolicy", skip_serializing_if = "Option::is_none")]
    pub backoff_policy: Option<BackoffPolicy>,
}

/// One instance type as a pool uses it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeTemplate {
    /// The template's name.
    #[schemars(length(min = 1))]
    pub name: String,
    /// The processor architecture.
    #[schemars(length(min = 1))]
    pub architecture: String,
    /// The instance type.
    #[schemars(length(min = 1))]
    pub instance_type: String,
    /// What an instance has.
    pub capacity: Amounts,
    /// What is kept for Kubernetes itself.
    #[serde(default, rename = "kubeReservedCapacity", skip_serializing_if = "Amounts::is_empty")]
    pub kube_reserved: Amounts,
    /// What is kept for the operating system.
    #[serde(default, rename = "systemReservedCapacity", skip_serializing_if = "Amounts::is_empty")]
    pub system_reserved: Amounts,
    /// Templates of lower number are tried first.
    pub priority: Count,
    /// How many volumes can be attached.
    pub max_volumes: Count,
}

/// Whether the constraint can be used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScalingConstraintStatus {
    /// What is known of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".to_owned()]))]
    pub conditions: Vec<Condition>,
}

/// What should be bought and what given back.
#[derive(Clone, Debug, PartialEq, Eq, CustomResource, KubeSchema, Serialize, Deserialize)]
#[kube(
    group = "sa.gardener.cloud",
    version = "v1alpha1",
    kind = "ScalingAdvice",
    plural = "scalingadvices",
    namespaced,
    shortname = "sa",
    doc = "What should be bought and what given back; somebody else acts on it.",
    derive = "PartialEq",
    status = "ScalingAdviceStatus"
)]
#[serde(rename_all = "camelCase")]
pub struct ScalingAdviceSpec {
    /// What should be bought.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_out_plan: Option<ScaleOutPlan>,
    /// What should be given back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_in_plan: Option<ScaleInPlan>,
    /// The constraint that the advice keeps.
    pub constraint_ref: ConstraintReference,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConstraintReference {
    /// The constraint's namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The constraint's name.
    pub name: String,
}

/// What should be bought.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScaleOutPlan {
    /// Pods, as namespace/name, that no purchase would help.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsatisfied_pod_names: Vec<String>,
    /// The purchases.
    pub items: Vec<ScaleOutItem>,
}

/// So many more nodes of one template in one zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScaleOutItem {
    /// The pool.
    #[serde(alias = "poolName")]
    pub node_pool_name: String,
    /// The template.
    #[serde(alias = "templateName")]
    pub node_template_name: String,
    /// The instance type.
    pub instance_type: String,
    /// The region.
    pub region: String,
    /// The zone.
    pub availability_zone: String,
    /// How many such nodes there are.
    pub current_replicas: i32,
    /// How many more there should be.
    pub delta: i32,
}

/// What should be given back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScaleInPlan {
    /// The nodes.
    pub items: Vec<ScaleInItem>,
}

/// One node that should go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScaleInItem {
    /// The pool.
    #[serde(alias = "poolName")]
    pub node_pool_name: String,
    /// The template.
    #[serde(alias = "templateName")]
    pub node_template_name: String,
    /// The instance type.
    pub instance_type: String,
    /// The region.
    pub region: String,
    /// The zone.
    pub availability_zone: String,
    /// The node.
    pub node_name: String,
}

/// How the advice came about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScalingAdviceStatus {
    /// The trials behind the advice, where the constraint asks for them by annotation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diagnostic: Option<Diagnostic>,
    /// What is known of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".to_owned()]))]
    pub conditions: Vec<Condition>,
}

/// The trials behind the advice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Diagnostic {
    /// The log of the trials.
    pub trace_log_name: String,
    /// Their results.
    pub sim_run_results: Vec<TrialResult>,
}

/// What one more node of one template in one zone would do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrialResult {
    /// The pool.
    pub node_pool_name: String,
    /// The template.
    pub node_template_name: String,
    /// The zone.
    pub availability_zone: String,
    /// The pods that it would take.
    pub scheduled_pod_names: Vec<String>,
    /// How good that is.
    pub node_score: i64,
    /// How many pods would be left.
    pub num_unscheduled_pods: i32,
}

/// What could not be bought and what not given back.
#[derive(Clone, Debug, PartialEq, Eq, CustomResource, KubeSchema, Serialize, Deserialize)]
#[kube(
    group = "sa.gardener.cloud",
    version = "v1alpha1",
    kind = "ScalingFeedback",
    plural = "scalingfeedbacks",
    namespaced,
    shortname = "sf",
    doc = "What became of advice: what could not be bought, and what not given back.",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct ScalingFeedbackSpec {
    /// The constraint that the advice kept.
    pub constraint_ref: ConstraintReference,
    /// What could not be bought.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scale_out_error_infos: Vec<ScaleOutError>,
    /// What could not be given back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_in_error_info: Option<ScaleInError>,
}

/// An instance type that could not be bought in a zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScaleOutError {
    /// The zone.
    pub availability_zone: String,
    /// The instance type.
    pub instance_type: String,
    /// What went wrong.
    pub error_type: ScaleOutErrorType,
    /// How many nodes failed.
    pub fail_count: Count,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ScaleOutErrorType {
    ResourceExhaustedError,
    CreationTimeoutError,
}

/// Nodes that could not be given back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScaleInError {
    /// Their names.
    pub node_names: Vec<String>,
}
