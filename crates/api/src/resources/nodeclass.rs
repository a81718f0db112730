//! How a cloud's machines are made: EC2NodeClass of `karpenter.k8s.aws/v1`, KWOKNodeClass of `karpenter.kwok.sh/v1alpha1`.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::scalar::{
    Amount, Amounts, Count, Percentage, SIGNALS, Whole, eviction_thresholds, reserved_amounts,
};
use super::shared::{Condition, NodeSelectorRequirement, found_requirements};
use crate::duration::GoDuration;

type Tags = BTreeMap<String, String>;

/// How instances of EC2 are made.
#[derive(Clone, Debug, PartialEq, Eq, CustomResource, KubeSchema, Serialize, Deserialize)]
#[kube(
    group = "karpenter.k8s.aws",
    version = "v1",
    kind = "EC2NodeClass",
    plural = "ec2nodeclasses",
    category = "karpenter",
    shortname = "ec2nc",
    shortname = "ec2ncs",
    doc = "How instances of EC2 are made.",
    derive = "PartialEq",
    status = "EC2NodeClassStatus",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Role", type_ = "string", json_path = ".spec.role", priority = 1)
)]
#[x_kube(
    validation = Rule::new("has(self.role) != has(self.instanceProfile)").message("set exactly one of role and instanceProfile"),
    validation = Rule::new("has(self.amiFamily) || self.amiSelectorTerms.exists(x, has(x.alias))").message("amiFamily is needed where no AMI is selected by alias"),
    validation = Rule::new("!has(self.amiFamily) || self.amiFamily == 'Custom' || self.amiSelectorTerms.all(x, !has(x.alias) || x.alias.split('@')[0] == self.amiFamily.lowerAscii())").message("amiFamily must be the family of the alias, or Custom"),
)]
#[serde(rename_all = "camelCase")]
pub struct EC2NodeClassSpec {
    /// In which subnets instances run; a subnet must match one of the terms.
    #[schemars(length(min = 1, max = 30))]
    #[x_kube(
        validation = Rule::new("self.all(x, has(x.tags) || has(x.id))").message("each term needs tags or an id"),
        validation = Rule::new("!self.exists(x, has(x.id) && has(x.tags))").message("a term with an id has nothing else"),
    )]
    pub subnet_selector_terms: Vec<SubnetSelectorTerm>,
    /// Which security groups instances have: all that match one of the terms.
    #[schemars(length(min = 1, max = 30))]
    #[x_kube(
        validation = Rule::new("self.all(x, has(x.tags) || has(x.id) || has(x.name))").message("each term needs tags, an id or a name"),
        validation = Rule::new("!self.exists(x, has(x.id) && (has(x.tags) || has(x.name)))").message("a term with an id has nothing else"),
        validation = Rule::new("!self.exists(x, has(x.name) && has(x.tags))").message("a term with a name has nothing else"),
    )]
    pub security_group_selector_terms: Vec<SecurityGroupSelectorTerm>,
    /// Which capacity reservations may be used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 30))]
    #[x_kube(
        validation = Rule::new("self.all(x, has(x.tags) || has(x.id) || has(x.instanceMatchCriteria))").message("each term needs tags, an id or instanceMatchCriteria"),
        validation = Rule::new("!self.exists(x, has(x.id) && (has(x.tags) || has(x.ownerID) || has(x.instanceMatchCriteria)))").message("a term with an id has nothing else"),
    )]
    pub capacity_reservation_selector_terms: Vec<CapacityReservationSelectorTerm>,
    /// In which placement group instances run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement_group_selector: Option<PlacementGroupSelector>,
    /// Whether instances get a public address; without it, the subnet decides.
    #[serde(rename = "associatePublicIPAddress", skip_serializing_if = "Option::is_none")]
    pub associate_public_ip_address: Option<bool>,
    /// How many IPv4 prefixes the primary network interface gets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_prefix_count: Option<Count>,
    /// Which images instances may run.
    #[schemars(length(min = 1, max = 30))]
    #[x_kube(
        validation = Rule::new("self.all(x, has(x.tags) || has(x.id) || has(x.name) || has(x.alias) || has(x.ssmParameter))").message("each term needs tags, an id, a name, an alias or an ssmParameter"),
        validation = Rule::new("!self.exists(x, has(x.id) && (has(x.alias) || has(x.tags) || has(x.name) || has(x.owner)))").message("a term with an id has nothing else"),
        validation = Rule::new("!self.exists(x, has(x.alias) && (has(x.id) || has(x.tags) || has(x.name) || has(x.owner)))").message("a term with an alias has nothing else"),
        validation = Rule::new("size(self) == 1 || !self.exists(x, has(x.alias))").message("a term with an alias is the only one"),
    )]
    pub ami_selector_terms: Vec<AmiSelectorTerm>,
    /// How user data is written and which disks an instance has by default; an alias implies it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ami_family: Option<AmiFamily>,
    /// User data of each instance, in the family's format.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_data: Option<String>,
    /// The role of each instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub role: Option<String>,
    /// The instance profile of each instance, in place of a role.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub instance_profile: Option<String>,
    /// Tags of what is made in EC2, which takes 50.
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    #[schemars(extend("maxProperties" = 50))]
    #[x_kube(
        validation = Rule::new("self.all(key, key != '')").message("a tag has a key"),
        validation = Rule::new("self.all(key, !key.startsWith('kubernetes.io/cluster') && !(key in ['eks:eks-cluster-name', 'karpenter.sh/nodepool', 'karpenter.sh/nodeclaim', 'karpenter.k8s.aws/ec2nodeclass']))").message("the autoscaler sets the tags kubernetes.io/cluster, eks:eks-cluster-name, karpenter.sh/nodepool, karpenter.sh/nodeclaim and karpenter.k8s.aws/ec2nodeclass itself"),
    )]
    pub tags: Tags,
    /// How the kubelet is configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubelet: Option<KubeletConfiguration>,
    /// Disks of each instance.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    #[x_kube(validation = Rule::new("self.filter(x, has(x.rootVolume) && x.rootVolume).size() <= 1").message("at most one disk is the root volume"))]
    pub block_device_mappings: Vec<BlockDeviceMapping>,
    /// What becomes of an instance's own disks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_store_policy: Option<InstanceStorePolicy>,
    /// Network interfaces of each instance, for instance types that can have several cards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 150))]
    pub network_interfaces: Vec<NetworkInterface>,
    /// Whether instances are monitored in detail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detailed_monitoring: Option<bool>,
    /// Who may read an instance's metadata.
    #[serde(default)]
    pub metadata_options: MetadataOptions,
    /// How long idle connections are tracked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection_tracking: Option<ConnectionTracking>,
    /// A field that EC2 reserves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// What instances' processors may do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_options: Option<CpuOptions>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubnetSelectorTerm {
    /// Tags that it has; the value `*` matches all.
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    #[schemars(extend("maxProperties" = 20))]
    #[x_kube(validation = Rule::new("self.all(key, key != '' && self[key] != '')").message("tags have keys and values"))]
    pub tags: Tags,
    /// Its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "subnet-[0-9a-z]+"))]
    pub id: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecurityGroupSelectorTerm {
    /// Tags that it has; the value `*` matches all.
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    #[schemars(extend("maxProperties" = 20))]
    #[x_kube(validation = Rule::new("self.all(key, key != '' && self[key] != '')").message("tags have keys and values"))]
    pub tags: Tags,
    /// Its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "sg-[0-9a-z]+"))]
    pub id: Option<String>,
    /// Its name, which is not the tag `Name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapacityReservationSelectorTerm {
    /// Tags that it has; the value `*` matches all.
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    #[schemars(extend("maxProperties" = 20))]
    #[x_kube(validation = Rule::new("self.all(key, key != '' && self[key] != '')").message("tags have keys and values"))]
    pub tags: Tags,
    /// Its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^cr-[0-9a-z]+$"))]
    pub id: Option<String>,
    /// The account that owns it.
    #[serde(rename = "ownerID", skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[0-9]{12}$"))]
    pub owner_id: Option<String>,
    /// Whether it is for all instances that fit it, or only for those that name it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_match_criteria: Option<InstanceMatchCriteria>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum InstanceMatchCriteria {
    Open,
    Targeted,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(validation = Rule::new("has(self.name) != has(self.id)").message("set exactly one of name and id"))]
#[serde(rename_all = "camelCase")]
pub struct PlacementGroupSelector {
    /// The group's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub name: Option<String>,
    /// The group's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^pg-[0-9a-z]+$"))]
    pub id: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct AmiSelectorTerm {
    /// A family of EKS images and a version: `al2023@v20240625`, or `@latest` for the newest.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 30))]
    #[x_kube(
        validation = Rule::new("self.matches('^(al2|al2023|bottlerocket|windows2019|windows2022|windows2025)@.+$')").message("an alias is family@version; the families are al2, al2023, bottlerocket, windows2019, windows2022 and windows2025"),
        validation = Rule::new("!self.startsWith('windows') || self.endsWith('@latest')").message("the windows families have no version but latest"),
    )]
    pub alias: Option<String>,
    /// Tags that it has; the value `*` matches all.
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    #[schemars(extend("maxProperties" = 20))]
    #[x_kube(validation = Rule::new("self.all(key, key != '' && self[key] != '')").message("tags have keys and values"))]
    pub tags: Tags,
    /// Its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "ami-[0-9a-z]+"))]
    pub id: Option<String>,
    /// Its name, which is not the tag `Name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Who owns it: account ids, `self`, `amazon` or `aws-marketplace`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The SSM parameter that holds its id, by name or ARN.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ssm_parameter: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AmiFamily {
    AL2,
    AL2023,
    Bottlerocket,
    Custom,
    Windows2019,
    Windows2022,
    Windows2025,
}

/// How the kubelet is configured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    validation = Rule::new("!has(self.imageGCHighThresholdPercent) || !has(self.imageGCLowThresholdPercent) || self.imageGCHighThresholdPercent > self.imageGCLowThresholdPercent").message("imageGCHighThresholdPercent must be above imageGCLowThresholdPercent"),
    validation = Rule::new("!has(self.evictionSoft) || self.evictionSoft.all(signal, has(self.evictionSoftGracePeriod) && signal in self.evictionSoftGracePeriod)").message("each signal of evictionSoft needs an evictionSoftGracePeriod"),
    validation = Rule::new("!has(self.evictionSoftGracePeriod) || self.evictionSoftGracePeriod.all(signal, has(self.evictionSoft) && signal in self.evictionSoft)").message("each signal of evictionSoftGracePeriod needs an evictionSoft"),
)]
#[serde(rename_all = "camelCase")]
pub struct KubeletConfiguration {
    /// Addresses of the cluster's DNS.
    #[serde(default, rename = "clusterDNS", skip_serializing_if = "Vec::is_empty")]
    pub cluster_dns: Vec<String>,
    /// How many pods a node may run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_pods: Option<Count>,
    /// How many pods a node may run for each core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods_per_core: Option<Count>,
    /// What is kept for the operating system.
    #[serde(default, skip_serializing_if = "Amounts::is_empty")]
    #[schemars(schema_with = "reserved_amounts")]
    #[x_kube(validation = Rule::new("self.all(x, x in ['cpu', 'memory', 'ephemeral-storage', 'pid'])").message("only cpu, memory, ephemeral-storage and pid can be reserved"))]
    pub system_reserved: Amounts,
    /// What is kept for Kubernetes itself.
    #[serde(default, skip_serializing_if = "Amounts::is_empty")]
    #[schemars(schema_with = "reserved_amounts")]
    #[x_kube(validation = Rule::new("self.all(x, x in ['cpu', 'memory', 'ephemeral-storage', 'pid'])").message("only cpu, memory, ephemeral-storage and pid can be reserved"))]
    pub kube_reserved: Amounts,
    /// Below which free amount or percentage pods are evicted at once.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "eviction_thresholds")]
    #[x_kube(validation = Rule::new("self.all(x, x in ['memory.available', 'nodefs.available', 'nodefs.inodesFree', 'imagefs.available', 'imagefs.inodesFree', 'pid.available'])").message("the signals are memory.available, nodefs.available, nodefs.inodesFree, imagefs.available, imagefs.inodesFree and pid.available"))]
    pub eviction_hard: BTreeMap<String, String>,
    /// Below which free amount or percentage pods are evicted after a grace period.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "eviction_thresholds")]
    #[x_kube(validation = Rule::new("self.all(x, x in ['memory.available', 'nodefs.available', 'nodefs.inodesFree', 'imagefs.available', 'imagefs.inodesFree', 'pid.available'])").message("the signals are memory.available, nodefs.available, nodefs.inodesFree, imagefs.available, imagefs.inodesFree and pid.available"))]
    pub eviction_soft: BTreeMap<String, String>,
    /// That grace period, for each signal.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[x_kube(validation = Rule::new("self.all(x, x in ['memory.available', 'nodefs.available', 'nodefs.inodesFree', 'imagefs.available', 'imagefs.inodesFree', 'pid.available'])").message("the signals are memory.available, nodefs.available, nodefs.inodesFree, imagefs.available, imagefs.inodesFree and pid.available"))]
    #[schemars(extend("maxProperties" = SIGNALS))]
    pub eviction_soft_grace_period: BTreeMap<String, GoDuration>,
    /// How many seconds a pod that is evicted so may take at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eviction_max_pod_grace_period: Option<i32>,
    /// How full the disk may be before images are collected.
    #[serde(rename = "imageGCHighThresholdPercent", skip_serializing_if = "Option::is_none")]
    pub image_gc_high_threshold_percent: Option<Percentage>,
    /// How full the disk is after images were collected.
    #[serde(rename = "imageGCLowThresholdPercent", skip_serializing_if = "Option::is_none")]
    pub image_gc_low_threshold_percent: Option<Percentage>,
    /// Whether CPU limits are enforced by quota.
    #[serde(rename = "cpuCFSQuota", skip_serializing_if = "Option::is_none")]
    pub cpu_cfs_quota: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlockDeviceMapping {
    /// The device, such as `/dev/xvda`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_name: Option<String>,
    /// The EBS volume behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ebs: Option<BlockDevice>,
    /// Whether the kubelet's directory is on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root_volume: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    validation = Rule::new("has(self.snapshotID) || has(self.volumeSize)").message("set snapshotID or volumeSize"),
    validation = Rule::new("!has(self.volumeInitializationRate) || (has(self.snapshotID) && self.snapshotID != '')").message("volumeInitializationRate needs a snapshotID"),
)]
#[serde(rename_all = "camelCase")]
pub struct BlockDevice {
    /// Whether the volume goes with the instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete_on_termination: Option<bool>,
    /// Whether the volume is encrypted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encrypted: Option<bool>,
    /// Operations a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iops: Option<i64>,
    /// The key that the volume is encrypted with.
    #[serde(rename = "kmsKeyID", skip_serializing_if = "Option::is_none")]
    pub kms_key_id: Option<String>,
    /// The snapshot that the volume starts from.
    #[serde(rename = "snapshotID", skip_serializing_if = "Option::is_none")]
    pub snapshot_id: Option<String>,
    /// MiB a second, for gp3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throughput: Option<i64>,
    /// MiB a second at which the snapshot is loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_initialization_rate: Option<Whole<100, 300>>,
    /// The size, in Gi, G, Ti or T.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(
        with = "Option<String>",
        regex(
            pattern = r"^((?:[1-9][0-9]{0,3}|[1-4][0-9]{4}|[5][0-8][0-9]{3}|59000)Gi|(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|[6][0-3][0-9]{3}|64000)G|([1-9]||[1-5][0-7]|58)Ti|([1-9]||[1-5][0-9]|6[0-3]|64)T)$"
        )
    )]
    pub volume_size: Option<Amount>,
    /// The type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_type: Option<VolumeType>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum VolumeType {
    Standard,
    Io1,
    Io2,
    Gp2,
    Sc1,
    St1,
    Gp3,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum InstanceStorePolicy {
    RAID0,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkInterface {
    /// Which network card it is on.
    pub network_card_index: Count,
    /// Which device of that card it is.
    pub device_index: Count,
    /// An ordinary interface, or one for EFA alone.
    pub interface_type: InterfaceType,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum InterfaceType {
    Interface,
    EfaOnly,
}

/// Who may read an instance's metadata.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MetadataOptions {
    /// Whether there is an endpoint at all.
    pub http_endpoint: Switch,
    /// Whether the endpoint speaks IPv6.
    #[serde(rename = "httpProtocolIPv6")]
    pub http_protocol_ipv6: Switch,
    /// Over how many hops an answer may travel.
    pub http_put_response_hop_limit: Whole<1, 64>,
    /// Whether a session token is needed.
    pub http_tokens: HttpTokens,
}

impl Default for MetadataOptions {
    fn default() -> Self {
        Self {
            http_endpoint: Switch::Enabled,
            http_protocol_ipv6: Switch::Disabled,
            http_put_response_hop_limit: Whole::clamped(1),
            http_tokens: HttpTokens::Required,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Switch {
    Enabled,
    Disabled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HttpTokens {
    Required,
    Optional,
}

/// After how many seconds an idle connection is forgotten.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionTracking {
    /// Of established TCP connections.
    #[serde(rename = "tcpEstablishedTimeout", skip_serializing_if = "Option::is_none")]
    pub tcp_established: Option<Whole<60, 432_000>>,
    /// Of UDP streams, which have seen more than one request and answer.
    #[serde(rename = "udpStreamTimeout", skip_serializing_if = "Option::is_none")]
    pub udp_stream: Option<Whole<60, 180>>,
    /// Of other UDP traffic.
    #[serde(rename = "udpTimeout", skip_serializing_if = "Option::is_none")]
    pub udp: Option<Whole<30, 60>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct CpuOptions {
    /// Whether instances may run virtual machines of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nested_virtualization: Option<Switch>,
}

/// What the class's selectors found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct EC2NodeClassStatus {
    /// The subnets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subnets: Vec<FoundSubnet>,
    /// The security groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub security_groups: Vec<FoundSecurityGroup>,
    /// The capacity reservations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capacity_reservations: Vec<FoundCapacityReservation>,
    /// The images.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub amis: Vec<FoundAmi>,
    /// The instance profile in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_profile: Option<String>,
    /// Ready, AMIsReady, SubnetsReady, SecurityGroupsReady, InstanceProfileReady and others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".to_owned()]))]
    pub conditions: Vec<Condition>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct FoundSubnet {
    /// Its id.
    pub id: String,
    /// Its zone's name.
    pub zone: String,
    /// Its zone's id, which is the same in all accounts.
    #[serde(rename = "zoneID", skip_serializing_if = "Option::is_none")]
    pub zone_id: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct FoundSecurityGroup {
    /// Its id.
    pub id: String,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct FoundCapacityReservation {
    /// Its id.
    #[schemars(regex(pattern = "^cr-[0-9a-z]+$"))]
    pub id: String,
    /// The zone that it is for.
    pub availability_zone: String,
    /// The instance type that it is for.
    pub instance_type: String,
    /// Whether it is for all instances that fit it, or only for those that name it.
    pub instance_match_criteria: InstanceMatchCriteria,
    /// The account that owns it.
    #[serde(rename = "ownerID")]
    #[schemars(regex(pattern = "^[0-9]{12}$"))]
    pub owner_id: String,
    /// Ordinary, or a block of time.
    #[serde(default)]
    pub reservation_type: ReservationType,
    /// Whether it ends soon.
    #[serde(default)]
    pub state: ReservationState,
    /// Whether its owner may take instances back.
    #[serde(default)]
    pub interruptible: bool,
    /// When it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_time: Option<Time>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReservationType {
    #[default]
    Default,
    CapacityBlock,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReservationState {
    #[default]
    Active,
    Expiring,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct FoundAmi {
    /// Its id.
    pub id: String,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether its owner has deprecated it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<bool>,
    /// Which instances can run it.
    #[schemars(schema_with = "found_requirements")]
    pub requirements: Vec<NodeSelectorRequirement>,
}

/// How nodes of the simulated cloud are made.
#[derive(Clone, Debug, Default, PartialEq, Eq, CustomResource, KubeSchema, Serialize, Deserialize)]
#[kube(
    group = "karpenter.kwok.sh",
    version = "v1alpha1",
    kind = "KWOKNodeClass",
    plural = "kwoknodeclasses",
    category = "karpenter",
    shortname = "kwoknc",
    shortname = "kwokncs",
    doc = "How nodes of the simulated cloud are made.",
    derive = "PartialEq",
    status = "KWOKNodeClassStatus"
)]
#[serde(rename_all = "camelCase")]
pub struct KWOKNodeClassSpec {
    /// How long a machine takes to join, as if it had to start.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^([0-9]+(s|m|h))+$"))]
    pub node_registration_delay: Option<GoDuration>,
}

/// Whether the class can be used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct KWOKNodeClassStatus {
    /// Ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".to_owned()]))]
    pub conditions: Vec<Condition>,
}
