//! VPSieNode.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{VERSION, VpsieCondition};

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
