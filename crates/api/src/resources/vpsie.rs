//! VPSie's kinds of `autoscaler.vpsie.com/v1alpha1`: NodeGroup, VPSieNode and AutoscalerConfig.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::scalar::{Count, Dollars, INT32_MAX, Percentage, Whole};
use super::shared::{ConditionStatus, Taint};
use crate::duration::GoDuration;

pub(super) const VERSION: &str = r"^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?$";

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
    #[schemars(schema_with = "super::shared::node_labels")]
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
    /// How eagerly: auto, conservative (five times the least saving), aggressive (any saving), or manual (only what
    /// somebody has approved).
    pub strategy: CostStrategy,
    /// How long after one replacement the next may come.
    pub optimization_interval: GoDuration,
    /// How many US dollars a month a replacement must save.
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

/// What one machine is.
#[derive(Clone, Debug, PartialEq, Eq, CustomResource, KubeSchema, Serialize, Deserialize)]
#[kube(
    group = "autoscaler.vpsie.com",
    version = "v1alpha1",
    kind = "VPSieNode",
    plural = "vpsienodes",
    namespaced,
    shortname = "vn",
    shortname = "vns",
    doc = "One VPSie machine of a NodeGroup, and its life.",
    derive = "PartialEq",
    status = "VPSieNodeStatus",
    printcolumn(name = "VPS ID", type_ = "integer", json_path = ".spec.vpsieInstanceID"),
    printcolumn(name = "Node", type_ = "string", json_path = ".status.nodeName"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Instance Type", type_ = "string", json_path = ".spec.instanceType"),
    printcolumn(name = "NodeGroup", type_ = "string", json_path = ".spec.nodeGroupName"),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Failed")].reason"#
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[x_kube(
    validation = Rule::new("self.nodeGroupName == oldSelf.nodeGroupName").message("nodeGroupName cannot be changed"),
    validation = Rule::new("oldSelf.vpsieInstanceID <= 0 || self.vpsieInstanceID == oldSelf.vpsieInstanceID").message("vpsieInstanceID cannot be changed once there is a machine"),
    validation = Rule::new("!has(oldSelf.vpsieNodeIdentifier) || oldSelf.vpsieNodeIdentifier == '' || (has(self.vpsieNodeIdentifier) && self.vpsieNodeIdentifier == oldSelf.vpsieNodeIdentifier)").message("vpsieNodeIdentifier cannot be changed once there is a machine"),
    validation = Rule::new("self.datacenterID == oldSelf.datacenterID || (oldSelf.vpsieInstanceID <= 0 && (!has(oldSelf.vpsieNodeIdentifier) || oldSelf.vpsieNodeIdentifier == ''))").message("datacenterID cannot be changed once there is a machine"),
)]
#[serde(rename_all = "camelCase")]
pub struct VPSieNodeSpec {
    /// The machine's id at VPSie; 0 until it has one.
    #[serde(rename = "vpsieInstanceID")]
    pub vpsie_instance_id: i64,
    /// The offering.
    pub instance_type: String,
    /// The group that it belongs to.
    pub node_group_name: String,
    /// The datacenter.
    #[serde(rename = "datacenterID")]
    pub datacenter_id: String,
    /// The cluster's id at VPSie.
    pub resource_identifier: String,
    /// The project's id at VPSie.
    pub project: String,
    /// The image; without it, VPSie chooses.
    #[serde(rename = "osImageID", skip_serializing_if = "Option::is_none")]
    pub os_image_id: Option<String>,
    /// The version of Kubernetes, such as v1.34.0.
    #[schemars(regex(pattern = VERSION))]
    pub kubernetes_version: String,
    /// SSH keys of the machine.
    #[serde(default, rename = "sshKeyIDs", skip_serializing_if = "Vec::is_empty")]
    pub ssh_key_ids: Vec<String>,
    /// The name that the node should have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// The machine's address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_address: Option<String>,
    /// The machine's IPv6 address.
    #[serde(rename = "ipv6Address", skip_serializing_if = "Option::is_none")]
    pub ipv6_address: Option<String>,
    /// The group's id at VPSie.
    #[serde(rename = "vpsieGroupID", skip_serializing_if = "Option::is_none")]
    pub vpsie_group_id: Option<i64>,
    /// The node's id at VPSie.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vpsie_node_identifier: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Phase {
    /// Go writes a phase that nobody has set as empty text.
    #[default]
    #[serde(alias = "")]
    Pending,
    Provisioning,
    Provisioned,
    Joining,
    Ready,
    Terminating,
    Deleting,
    Failed,
}

impl Phase {
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Provisioning => "Provisioning",
            Self::Provisioned => "Provisioned",
            Self::Joining => "Joining",
            Self::Ready => "Ready",
            Self::Terminating => "Terminating",
            Self::Deleting => "Deleting",
            Self::Failed => "Failed",
        }
    }
}

/// How far a machine has come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct VPSieNodeStatus {
    /// Where in its life it is.
    pub phase: Phase,
    /// The node's name, once it has joined.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node_name: String,
    /// What VPSie says of it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub vpsie_status: String,
    /// Its hostname.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hostname: String,
    /// What it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<MachineResources>,
    /// When it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Time>,
    /// When it ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provisioned_at: Option<Time>,
    /// When it joined the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub joined_at: Option<Time>,
    /// When it became ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_at: Option<Time>,
    /// When its removal began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating_at: Option<Time>,
    /// When it was deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deleted_at: Option<Time>,
    /// VPSReady, NodeJoined, NodeReady, Error.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<VpsieCondition>,
    /// What last went wrong.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub last_error: String,
    /// The generation of the object that the status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// What a machine has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineResources {
    /// Cores.
    pub cpu: i64,
    /// Memory in megabytes.
    #[serde(rename = "memoryMB")]
    pub memory_mb: i64,
    /// Disk in gigabytes.
    #[serde(rename = "diskGB")]
    pub disk_gb: i64,
    /// Traffic in gigabytes.
    #[serde(rename = "bandwidthGB", skip_serializing_if = "Option::is_none")]
    pub bandwidth_gb: Option<i64>,
}

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
