//! NodeGroup.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{VERSION, VpsieCondition};
use crate::duration::GoDuration;
use crate::resources::scalar::{Count, Dollars, INT32_MAX, Percentage, Whole};
use crate::resources::shared::Taint;

/// Which nodes a group has, how many, and when it grows and shrinks.
#[derive(Clone, Debug, PartialEq, Eq, CustomResource, KubeSchema, Serialize, Deserialize)]
#[kube(
    group = "autoscaler.vpsie.com",
    version = "v1alpha1",
    kind = "NodeGroup",
    namespaced,
    shortname = "ng",
    shortname = "ngs",
    doc = "A pool of VPSie machines that grows and shrinks between two bounds.",
    derive = "PartialEq",
    status = "NodeGroupStatus",
    printcolumn(name = "Min", type_ = "integer", json_path = ".spec.minNodes"),
    printcolumn(name = "Max", type_ = "integer", json_path = ".spec.maxNodes"),
    printcolumn(name = "Desired", type_ = "integer", json_path = ".status.desiredNodes"),
    printcolumn(name = "Current", type_ = "integer", json_path = ".status.currentNodes"),
    printcolumn(name = "Ready", type_ = "integer", json_path = ".status.readyNodes"),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Error")].reason"#
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[x_kube(validation = Rule::new("self.minNodes <= self.maxNodes").message("minNodes must not be above maxNodes"))]
#[serde(rename_all = "camelCase")]
pub struct NodeGroupSpec {
    /// How many nodes there are at least.
    pub min_nodes: Count,
    /// How many nodes there are at most.
    pub max_nodes: Whole<1, 1000>,
    /// The datacenter.
    #[serde(rename = "datacenterID")]
    #[schemars(regex(pattern = "^[a-zA-Z0-9_-]+$"))]
    pub datacenter_id: String,
    /// Which offerings may be bought.
    #[serde(rename = "offeringIDs")]
    #[schemars(length(min = 1, max = 100), inner(regex(pattern = "^[a-zA-Z0-9-]+$")))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub offering_ids: Vec<String>,
    /// The cluster's id at VPSie.
    pub resource_identifier: String,
    /// The project's id at VPSie.
    pub project: String,
    /// The image; without it, VPSie chooses.
    #[serde(rename = "osImageID", skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[a-zA-Z0-9_.-]*$"))]
    pub os_image_id: Option<String>,
    /// The version of Kubernetes, such as v1.34.0.
    #[schemars(regex(pattern = VERSION))]
    pub kubernetes_version: String,
    /// The Kubernetes package at VPSie.
    #[serde(rename = "kubeSizeID", skip_serializing_if = "Option::is_none")]
    pub kube_size_id: Option<Whole<1, INT32_MAX>>,
    /// The offering that is bought where several would do, whatever they cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preferred_instance_type: Option<String>,
    /// Whether nodes of different offerings may be in the group.
    #[serde(default = "yes")]
    pub allow_mixed_instances: bool,
    /// Labels that each node gets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "crate::resources::shared::node_labels")]
    #[x_kube(validation = Rule::new("self.all(key, !key.startsWith('kubernetes.io/') && !key.startsWith('k8s.io/'))").message("labels of kubernetes.io and k8s.io belong to Kubernetes"))]
    pub labels: BTreeMap<String, String>,
    /// Taints that each node gets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    #[x_kube(validation = Rule::new("self.all(x, !x.key.startsWith('kubernetes.io/') && !x.key.startsWith('k8s.io/'))").message("taints of kubernetes.io and k8s.io belong to Kubernetes"))]
    pub taints: Vec<Taint>,
    /// When the group grows.
    #[serde(default)]
    pub scale_up_policy: ScaleUpPolicy,
    /// When the group shrinks.
    #[serde(default)]
    pub scale_down_policy: ScaleDownPolicy,
    /// SSH keys of each machine.
    #[serde(default, rename = "sshKeyIDs", skip_serializing_if = "Vec::is_empty")]
    pub ssh_key_ids: Vec<String>,
    /// Tags of each machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// A note on each machine.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub notes: String,
    /// How much of the group may be spot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spot_config: Option<SpotConfig>,
    /// How the group is spread over datacenters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multi_region: Option<MultiRegion>,
    /// When nodes are replaced by cheaper ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_optimization: Option<CostOptimization>,
}

const fn yes() -> bool {
    true
}

/// When a group grows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ScaleUpPolicy {
    /// How many seconds nodes must use more than the thresholds, and how many after it has shrunk the group does not grow.
    pub stabilization_window_seconds: Whole<0, 1800>,
    /// Above which use of CPU, in percent, the group grows.
    pub cpu_threshold: Percentage,
    /// Above which use of memory, in percent, the group grows.
    pub memory_threshold: Percentage,
    /// Whether the group grows at all.
    pub enabled: bool,
}

impl Default for ScaleUpPolicy {
    fn default() -> Self {
        Self {
            stabilization_window_seconds: Whole::clamped(60),
            cpu_threshold: Whole::clamped(80),
            memory_threshold: Whole::clamped(80),
            enabled: true,
        }
    }
}

/// When a group shrinks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ScaleDownPolicy {
    /// How many seconds a node must be little used, and how many after it has grown or shrunk the group does not shrink.
    pub stabilization_window_seconds: Whole<0, 3600>,
    /// Below which use of CPU, in percent, a node is little used.
    pub cpu_threshold: Percentage,
    /// Below which use of memory, in percent, a node is little used.
    pub memory_threshold: Percentage,
    /// Whether the group shrinks at all.
    pub enabled: bool,
    /// How many seconds after a node went, or should have gone and stayed, the group does not shrink again.
    pub cooldown_seconds: Whole<0, 3600>,
}

impl Default for ScaleDownPolicy {
    fn default() -> Self {
        Self {
            stabilization_window_seconds: Whole::clamped(600),
            cpu_threshold: Whole::clamped(50),
            memory_threshold: Whole::clamped(50),
            enabled: true,
            cooldown_seconds: Whole::clamped(600),
        }
    }
}

/// How much of a group may be spot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SpotConfig {
    /// Whether spot is bought at all.
    pub enabled: bool,
    /// Which percentage of the nodes may be spot.
    pub max_spot_percentage: Percentage,
    /// Whether on-demand is bought where spot cannot be had.
    pub fallback_to_on_demand: bool,
    /// How long before it is taken away a node is drained.
    pub interruption_grace_period: GoDuration,
    /// Offerings that are interrupted more often, in percent, are not bought.
    pub allowed_interruption_rate: Percentage,
}

impl Default for SpotConfig {
    fn default() -> Self {
        Self {
            enabled: false,
            max_spot_percentage: Whole::clamped(80),
            fallback_to_on_demand: true,
            interruption_grace_period: GoDuration::from_secs(120),
            allowed_interruption_rate: Whole::clamped(20),
        }
    }
}

/// How a group is spread over datacenters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MultiRegion {
    /// Whether it is spread at all.
    pub enabled: bool,
    /// The datacenters.
    #[serde(rename = "datacenterIDs", skip_serializing_if = "Vec::is_empty")]
    pub datacenter_ids: Vec<String>,
    /// Evenly, by weight, or to one datacenter first.
    pub distribution_strategy: DistributionStrategy,
    /// The weight of each datacenter.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub weighted_distribution: BTreeMap<String, Count>,
    /// The datacenter that comes first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub primary_datacenter: Option<String>,
    /// How many nodes each datacenter has at least.
    pub min_nodes_per_region: Count,
}

impl Default for MultiRegion {
    fn default() -> Self {
        Self {
            enabled: false,
            datacenter_ids: Vec::new(),
            distribution_strategy: DistributionStrategy::default(),
            weighted_distribution: BTreeMap::new(),
            primary_datacenter: None,
            min_nodes_per_region: Whole::clamped(1),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DistributionStrategy {
    #[default]
    Balanced,
    Weighted,
    PrimaryBackup,
}

/// When nodes are replaced by cheaper ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CostOptimization {
    /// Whether they are at all.
    pub enabled: bool,
    /// How eagerly: auto, aggressive (after half the interval), conservative (after twice the interval, and only if
    /// nothing of what is used will be missing), or manual (only what somebody has approved).
    pub strategy: CostStrategy,
    /// How long after one replacement the next may come.
    pub optimization_interval: GoDuration,
    /// How many US dollars a month a replacement must save, whatever the strategy.
    pub min_monthly_savings: Dollars,
    /// How much of what is used on the nodes, in percent, may be missing on the cheaper ones.
    pub max_performance_impact: Percentage,
    /// Whether a person must agree: the condition OptimizationProposed names an id, and the annotation
    /// autoscaler.vpsie.com/approve-optimization with that id agrees.
    pub require_approval: bool,
}

impl Default for CostOptimization {
    fn default() -> Self {
        Self {
            enabled: true,
            strategy: CostStrategy::default(),
            optimization_interval: GoDuration::from_hours(24),
            min_monthly_savings: Dollars::from_whole(10),
            max_performance_impact: Whole::clamped(5),
            require_approval: false,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CostStrategy {
    #[default]
    Auto,
    Manual,
    Aggressive,
    Conservative,
}

/// What a group has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeGroupStatus {
    /// How many nodes it has.
    pub current_nodes: i32,
    /// How many nodes it should have.
    pub desired_nodes: i32,
    /// How many nodes are ready.
    pub ready_nodes: i32,
    /// The group's id at VPSie.
    #[serde(rename = "vpsieGroupID", skip_serializing_if = "Option::is_none")]
    pub vpsie_group_id: Option<i64>,
    /// Its nodes.
    #[serde(default)]
    pub nodes: Vec<GroupMember>,
    /// Ready, Scaling, Error, AtMinCapacity, AtMaxCapacity.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<VpsieCondition>,
    /// When it last grew or shrank.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_scale_time: Option<Time>,
    /// When it last grew.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_scale_up_time: Option<Time>,
    /// When it last shrank.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_scale_down_time: Option<Time>,
    /// The generation of the group that the status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// One node of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupMember {
    /// The node's name.
    pub node_name: String,
    /// The machine's id at VPSie.
    #[serde(rename = "vpsID")]
    pub vps_id: i64,
    /// The offering.
    pub instance_type: String,
    /// How far it has come.
    pub status: String,
    /// When it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Time>,
    /// When it became ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_at: Option<Time>,
    /// Its address.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub ip_address: String,
}
