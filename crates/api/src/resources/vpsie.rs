//! VPSie's kinds of `autoscaler.vpsie.com/v1alpha1`: NodeGroup, VPSieNode and AutoscalerConfig.

mod config;
mod group;
mod node;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

pub use config::{
    AutoscalerConfig, AutoscalerConfigSpec, AutoscalerConfigStatus, CONFIG_NAME, GlobalSettings,
    NodeGroupDefaults,
};
pub use group::{
    CostOptimization, CostStrategy, DistributionStrategy, GroupMember, MultiRegion, NodeGroup, NodeGroupSpec,
    NodeGroupStatus, ScaleDownPolicy, ScaleUpPolicy, SpotConfig,
};
pub use node::{MachineResources, Phase, VPSieNode, VPSieNodeSpec, VPSieNodeStatus};

use super::shared::ConditionStatus;

pub(super) const VERSION: &str = r"^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?$";

/// One aspect of an object's state, in VPSie's older shape.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct VpsieCondition {
    /// Which aspect.
    #[serde(rename = "type")]
    pub type_: String,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// When the status last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// When the condition was last written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
    /// Why the status is what it is, as one word.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why the status is what it is, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}
