//! AutoscalerConfig.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CostOptimization, ScaleDownPolicy, ScaleUpPolicy, SpotConfig};
use crate::resources::scalar::{Count, INT32_MAX, Whole};
use crate::resources::shared::Taint;

/// The name of the AutoscalerConfig that counts.
pub const CONFIG_NAME: &str = "default";

/// What holds for the whole cluster, and what new groups start from.
#[derive(Clone, Debug, Default, PartialEq, Eq, CustomResource, KubeSchema, Serialize, Deserialize)]
#[kube(
    group = "autoscaler.vpsie.com",
    version = "v1alpha1",
    kind = "AutoscalerConfig",
    shortname = "asc",
    doc = "Settings of the whole cluster; the one named default counts.",
    derive = "PartialEq",
    status = "AutoscalerConfigStatus",
    printcolumn(name = "MinNodes", type_ = "integer", json_path = ".spec.nodeGroupDefaults.minNodes"),
    printcolumn(name = "MaxNodes", type_ = "integer", json_path = ".spec.nodeGroupDefaults.maxNodes"),
    printcolumn(
        name = "DynamicCreation",
        type_ = "boolean",
        json_path = ".spec.globalSettings.enableDynamicNodeGroupCreation"
    ),
    printcolumn(name = "Active", type_ = "boolean", json_path = ".status.active"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct AutoscalerConfigSpec {
    /// What a group that is made for pending pods starts from.
    #[serde(default)]
    pub node_group_defaults: NodeGroupDefaults,
    /// What holds for all groups together.
    #[serde(default)]
    pub global_settings: GlobalSettings,
}

/// What a group that is made for pending pods starts from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeGroupDefaults {
    /// How many nodes there are at least.
    pub min_nodes: Count,
    /// How many nodes there are at most.
    pub max_nodes: Whole<1, INT32_MAX>,
    /// The namespace of new groups.
    pub namespace: String,
    /// The datacenter.
    #[serde(rename = "datacenterID", skip_serializing_if = "Option::is_none")]
    pub datacenter_id: Option<String>,
    /// Which offerings may be bought.
    #[serde(rename = "offeringIDs", skip_serializing_if = "Vec::is_empty")]
    pub offering_ids: Vec<String>,
    /// The cluster's id at VPSie.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_identifier: Option<String>,
    /// The project's id at VPSie.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// The image; without it, VPSie chooses.
    #[serde(rename = "osImageID", skip_serializing_if = "Option::is_none")]
    pub os_image_id: Option<String>,
    /// The version of Kubernetes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubernetes_version: Option<String>,
    /// The Kubernetes package at VPSie.
    #[serde(rename = "kubeSizeID", skip_serializing_if = "Option::is_none")]
    pub kube_size_id: Option<i64>,
    /// Labels that each node gets.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Taints that each node gets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
    /// When groups grow.
    pub scale_up_policy: ScaleUpPolicy,
    /// When groups shrink.
    pub scale_down_policy: ScaleDownPolicy,
    /// When nodes are replaced by cheaper ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_optimization: Option<CostOptimization>,
    /// How much of a group may be spot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spot_config: Option<SpotConfig>,
    /// SSH keys of each machine.
    #[serde(rename = "sshKeyIDs", skip_serializing_if = "Vec::is_empty")]
    pub ssh_key_ids: Vec<String>,
    /// Tags of each machine.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// A note on each machine.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub notes: String,
}

impl Default for NodeGroupDefaults {
    fn default() -> Self {
        Self {
            min_nodes: Whole::clamped(1),
            max_nodes: Whole::clamped(10),
            namespace: "default".to_owned(),
            datacenter_id: None,
            offering_ids: Vec::new(),
            resource_identifier: None,
            project: None,
            os_image_id: None,
            kubernetes_version: None,
            kube_size_id: None,
            labels: BTreeMap::new(),
            taints: Vec::new(),
            scale_up_policy: ScaleUpPolicy::default(),
            scale_down_policy: ScaleDownPolicy::default(),
            cost_optimization: None,
            spot_config: None,
            ssh_key_ids: Vec::new(),
            tags: Vec::new(),
            notes: String::new(),
        }
    }
}

/// What holds for all groups together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GlobalSettings {
    /// How many seconds lie between two growths at least.
    pub scale_up_cooldown_seconds: Count,
    /// How many seconds lie between two shrinkings at least.
    pub scale_down_cooldown_seconds: Count,
    /// How many groups may grow at once, each by as many nodes as its pods need.
    pub max_concurrent_scale_ups: Whole<1, INT32_MAX>,
    /// How many nodes may be on their way out at once.
    pub max_concurrent_scale_downs: Whole<1, INT32_MAX>,
    /// How many nodes all groups may have together; 0 for no limit.
    pub max_cluster_workers: Count,
    /// How many seconds a pod must be pending before a node is bought for it.
    pub unschedulable_pod_grace_period_seconds: Count,
    /// Whether groups are made for pods that no group fits.
    pub enable_dynamic_node_group_creation: bool,
    /// Whether nodes are replaced by cheaper ones.
    pub enable_rebalancing: bool,
    /// How many seconds a new node may take to become ready.
    pub node_ready_timeout_seconds: Whole<60, INT32_MAX>,
    /// How many seconds a pod's eviction may take.
    pub pod_eviction_timeout_seconds: Count,
}

impl Default for GlobalSettings {
    fn default() -> Self {
        Self {
            scale_up_cooldown_seconds: Whole::clamped(60),
            scale_down_cooldown_seconds: Whole::clamped(300),
            max_concurrent_scale_ups: Whole::clamped(1),
            max_concurrent_scale_downs: Whole::clamped(1),
            max_cluster_workers: Whole::clamped(10),
            unschedulable_pod_grace_period_seconds: Whole::clamped(30),
            enable_dynamic_node_group_creation: true,
            enable_rebalancing: false,
            node_ready_timeout_seconds: Whole::clamped(600),
            pod_eviction_timeout_seconds: Whole::clamped(120),
        }
    }
}

/// Whether the settings are in use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct AutoscalerConfigStatus {
    /// The generation of the object that the status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// When the status was last written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Time>,
    /// Whether they are in use.
    #[serde(default)]
    pub active: bool,
    /// Why they are or are not.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}
