//! Karpenter's own kinds: NodePool and NodeClaim of `karpenter.sh/v1`, NodeOverlay of `karpenter.sh/v1alpha1`.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::scalar::{Amounts, Count, IntOrPercent, Percentage, Whole};
use super::shared::{Condition, MinValuesRequirement, NodeSelectorRequirement, Taint, node_labels};
use crate::duration::{GoDuration, NillableDuration};

/// What nodes a pool may have, how many, and how they are taken away.
#[derive(Clone, Debug, PartialEq, Eq, CustomResource, KubeSchema, Serialize, Deserialize)]
#[kube(
    group = "karpenter.sh",
    version = "v1",
    kind = "NodePool",
    category = "karpenter",
    doc = "A pool from which nodes come, with its constraints, limits and rules of disruption.",
    derive = "PartialEq",
    status = "NodePoolStatus",
    scale(spec_replicas_path = ".spec.replicas", status_replicas_path = ".status.nodes"),
    printcolumn(name = "NodeClass", type_ = "string", json_path = ".spec.template.spec.nodeClassRef.name"),
    printcolumn(name = "Nodes", type_ = "string", json_path = ".status.nodes"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Weight", type_ = "integer", json_path = ".spec.weight", priority = 1),
    printcolumn(name = "CPU", type_ = "string", json_path = ".status.resources.cpu", priority = 1),
    printcolumn(name = "Memory", type_ = "string", json_path = ".status.resources.memory", priority = 1)
)]
#[x_kube(
    validation = Rule::new("has(self.replicas) == has(oldSelf.replicas)").message("replicas can be neither added to nor removed from a pool"),
    validation = Rule::new("!has(self.replicas) || !has(self.limits) || size(self.limits) == 0 || (size(self.limits) == 1 && 'nodes' in self.limits)").message("a pool with replicas can be limited in nodes only"),
    validation = Rule::new("!(has(self.replicas) && has(self.weight))").message("a pool with replicas has no weight"),
)]
#[serde(rename_all = "camelCase")]
pub struct NodePoolSpec {
    /// What each node of the pool is like.
    pub template: NodeClaimTemplate,
    /// When and how fast nodes are taken away or replaced.
    #[serde(default)]
    pub disruption: Disruption,
    /// What all nodes of the pool may have together at most; `nodes` limits their number, and `berth.dev/usd-per-hour` what
    /// they cost.
    #[serde(default, skip_serializing_if = "Amounts::is_empty")]
    pub limits: Amounts,
    /// Pools of higher weight are tried first; a pool without one comes last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<Whole<1, 100>>,
    /// A static pool: exactly so many nodes, whatever the pods want.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<Count>,
}

/// The metadata and the spec of the claims that a pool makes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimTemplate {
    /// Labels and annotations of each node.
    #[serde(default, skip_serializing_if = "TemplateMetadata::is_empty")]
    pub metadata: TemplateMetadata,
    /// What each node is like.
    pub spec: NodeClaimTemplateSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateMetadata {
    /// Labels that each node gets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "node_labels")]
    #[x_kube(
        validation = Rule::new(r"self.all(key, key == 'karpenter.sh/capacity-type' || !key.matches('^([^/]*[.])?karpenter[.]sh/'))").message("labels of the domain karpenter.sh belong to the autoscaler, except karpenter.sh/capacity-type"),
        validation = Rule::new("!('kubernetes.io/hostname' in self)").message("each node has its own hostname"),
    )]
    pub labels: BTreeMap<String, String>,
    /// Annotations that each node gets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

impl TemplateMetadata {
    fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.annotations.is_empty()
    }
}

/// What each node of a pool is like.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimTemplateSpec {
    /// Taints that each node has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
    /// Taints that each node starts with and loses soon; pods need not tolerate them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub startup_taints: Vec<Taint>,
    /// Which labels, and so which offerings, a node may have.
    #[schemars(length(max = 100))]
    #[x_kube(
        validation = Rule::new("self.all(x, x.operator != 'In' || (has(x.values) && size(x.values) > 0))").message("the operator In needs at least one value"),
        validation = Rule::new("self.all(x, !(x.operator in ['Gt', 'Lt', 'Gte', 'Lte']) || (has(x.values) && size(x.values) == 1 && int(x.values[0]) >= 0))").message("the operators Gt, Lt, Gte and Lte take exactly one whole number, not negative"),
        validation = Rule::new("self.all(x, x.operator != 'In' || !has(x.minValues) || (has(x.values) && size(x.values) >= x.minValues))").message("minValues asks for more values than are listed"),
        validation = Rule::new("self.all(x, x.key != 'karpenter.sh/nodepool')").message("a pool's nodes always carry its own name as karpenter.sh/nodepool"),
    )]
    pub requirements: Vec<MinValuesRequirement>,
    /// The object that says how the cloud's machines are made.
    #[x_kube(
        validation = Rule::new("self.group == oldSelf.group").message("the group of a node class cannot be changed"),
        validation = Rule::new("self.kind == oldSelf.kind").message("the kind of a node class cannot be changed"),
    )]
    pub node_class_ref: NodeClassReference,
    /// How long a node's pods may take to go before they are deleted; without it, forever.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^([0-9]+(s|m|h))+$"))]
    pub termination_grace_period: Option<GoDuration>,
    /// How old a node may become.
    #[serde(default = "expire_after")]
    pub expire_after: NillableDuration,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeClassReference {
    /// The class's API group.
    #[schemars(regex(pattern = r"^[^/]*$"))]
    #[x_kube(validation = Rule::new("self != ''").message("a node class has a group"))]
    pub group: String,
    /// The class's kind.
    #[x_kube(validation = Rule::new("self != ''").message("a node class has a kind"))]
    pub kind: String,
    /// The class's name.
    #[x_kube(validation = Rule::new("self != ''").message("a node class has a name"))]
    pub name: String,
}

/// When and how fast nodes are taken away or replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Disruption {
    /// How long after the last change of its pods a node may be consolidated.
    #[serde(default = "consolidate_after")]
    pub consolidate_after: NillableDuration,
    /// Which nodes may be consolidated.
    #[serde(default)]
    pub consolidation_policy: ConsolidationPolicy,
    /// How many nodes may go at once; of those that apply at a moment, the strictest counts.
    #[serde(default = "budgets")]
    #[schemars(length(max = 50))]
    #[x_kube(validation = Rule::new("self.all(x, has(x.schedule) == has(x.duration))").message("schedule and duration go together"))]
    pub budgets: Vec<Budget>,
}

impl Default for Disruption {
    fn default() -> Self {
        Self {
            consolidate_after: consolidate_after(),
            consolidation_policy: ConsolidationPolicy::default(),
            budgets: budgets(),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConsolidationPolicy {
    WhenEmpty,
    #[default]
    WhenEmptyOrUnderutilized,
    Balanced,
}

/// How many nodes may go at once, always or in a window of time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    /// For which reasons it applies; without any, for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 50))]
    pub reasons: Option<Vec<DisruptionReason>>,
    /// A number of nodes, or a percentage of the pool's.
    #[serde(default = "budget_nodes")]
    pub nodes: IntOrPercent,
    /// When the window opens, as a cron expression: in UTC, or in the time zone of `TZ=Europe/Berlin` before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(
        pattern = r"^((CRON_)?TZ=\S+\s+)?((@(annually|yearly|monthly|weekly|daily|midnight|hourly))|((.+)\s(.+)\s(.+)\s(.+)\s(.+)))$"
    ))]
    pub schedule: Option<String>,
    /// How long the window stays open, in hours and minutes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$"))]
    pub duration: Option<GoDuration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum DisruptionReason {
    Underutilized,
    Empty,
    Drifted,
}

const fn expire_after() -> NillableDuration {
    NillableDuration::After(GoDuration::from_hours(720))
}

const fn consolidate_after() -> NillableDuration {
    NillableDuration::After(GoDuration::ZERO)
}

const fn budget_nodes() -> IntOrPercent {
    IntOrPercent::Percent(Percentage::clamped(10))
}

fn budgets() -> Vec<Budget> {
    vec![Budget { reasons: None, nodes: budget_nodes(), schedule: None, duration: None }]
}

/// What a pool has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodePoolStatus {
    /// What all its nodes have together.
    #[serde(default, skip_serializing_if = "Amounts::is_empty")]
    pub resources: Amounts,
    /// How many nodes it has.
    #[serde(default)]
    pub nodes: i64,
    /// The generation of the node class that the conditions are about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_class_observed_generation: Option<i64>,
    /// Ready, ValidationSucceeded, NodeClassReady, NodeRegistrationHealthy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".to_owned()]))]
    pub conditions: Vec<Condition>,
}

/// What one node must be like.
#[derive(Clone, Debug, PartialEq, Eq, CustomResource, KubeSchema, Serialize, Deserialize)]
#[kube(
    group = "karpenter.sh",
    version = "v1",
    kind = "NodeClaim",
    category = "karpenter",
    doc = "A request for one node, and its life.",
    derive = "PartialEq",
    status = "NodeClaimStatus",
    printcolumn(
        name = "Type",
        type_ = "string",
        json_path = r".metadata.labels.node\.kubernetes\.io/instance-type"
    ),
    printcolumn(
        name = "Capacity",
        type_ = "string",
        json_path = r".metadata.labels.karpenter\.sh/capacity-type"
    ),
    printcolumn(
        name = "Zone",
        type_ = "string",
        json_path = r".metadata.labels.topology\.kubernetes\.io/zone"
    ),
    printcolumn(name = "Node", type_ = "string", json_path = ".status.nodeName"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "ImageID", type_ = "string", json_path = ".status.imageID", priority = 1),
    printcolumn(name = "ID", type_ = "string", json_path = ".status.providerID", priority = 1),
    printcolumn(
        name = "NodePool",
        type_ = "string",
        json_path = r".metadata.labels.karpenter\.sh/nodepool",
        priority = 1
    ),
    printcolumn(name = "NodeClass", type_ = "string", json_path = ".spec.nodeClassRef.name", priority = 1),
    printcolumn(
        name = "Drifted",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Drifted")].status"#,
        priority = 1
    )
)]
#[x_kube(validation = Rule::new("self == oldSelf").message("a claim's spec cannot be changed"))]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimSpec {
    /// Taints that the node has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
    /// Taints that the node starts with and loses soon; pods need not tolerate them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub startup_taints: Vec<Taint>,
    /// Which labels, and so which offerings, the node may have.
    #[schemars(length(max = 100))]
    #[x_kube(
        validation = Rule::new("self.all(x, x.operator != 'In' || (has(x.values) && size(x.values) > 0))").message("the operator In needs at least one value"),
        validation = Rule::new("self.all(x, !(x.operator in ['Gt', 'Lt', 'Gte', 'Lte']) || (has(x.values) && size(x.values) == 1 && int(x.values[0]) >= 0))").message("the operators Gt, Lt, Gte and Lte take exactly one whole number, not negative"),
        validation = Rule::new("self.all(x, x.operator != 'In' || !has(x.minValues) || (has(x.values) && size(x.values) >= x.minValues))").message("minValues asks for more values than are listed"),
    )]
    pub requirements: Vec<MinValuesRequirement>,
    /// What the node must have room for.
    #[serde(default, skip_serializing_if = "ResourceRequests::is_empty")]
    pub resources: ResourceRequests,
    /// The object that says how the cloud's machine is made.
    pub node_class_ref: NodeClassReference,
    /// How long the node's pods may take to go before they are deleted; without it, forever.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^([0-9]+(s|m|h))+$"))]
    pub termination_grace_period: Option<GoDuration>,
    /// How old the node may become.
    #[serde(default = "expire_after")]
    pub expire_after: NillableDuration,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceRequests {
    /// What the pods that the node is for ask for together.
    #[serde(default, skip_serializing_if = "Amounts::is_empty")]
    pub requests: Amounts,
}

impl ResourceRequests {
    fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }
}

/// How far a claim has come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimStatus {
    /// The node's name, once it has joined.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node_name: String,
    /// The machine's identity at its cloud.
    #[serde(default, rename = "providerID", skip_serializing_if = "String::is_empty")]
    pub provider_id: String,
    /// The image that the machine runs.
    #[serde(default, rename = "imageID", skip_serializing_if = "String::is_empty")]
    pub image_id: String,
    /// What the node has.
    #[serde(default, skip_serializing_if = "Amounts::is_empty")]
    pub capacity: Amounts,
    /// What the node has for pods.
    #[serde(default, skip_serializing_if = "Amounts::is_empty")]
    pub allocatable: Amounts,
    /// Launched, Registered, Initialized, Ready, Consolidatable, Drifted, Drained and others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".to_owned()]))]
    pub conditions: Vec<Condition>,
    /// When a pod last came to the node or left it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_pod_event_time: Option<Time>,
}

/// What changes about the offerings that match.
#[derive(Clone, Debug, PartialEq, Eq, CustomResource, KubeSchema, Serialize, Deserialize)]
#[kube(
    group = "karpenter.sh",
    version = "v1alpha1",
    kind = "NodeOverlay",
    category = "karpenter",
    shortname = "overlays",
    doc = "Corrects the price or the capacity of the offerings that match.",
    derive = "PartialEq",
    status = "NodeOverlayStatus",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Weight", type_ = "integer", json_path = ".spec.weight", priority = 1)
)]
#[x_kube(validation = Rule::new("!(has(self.price) && has(self.priceAdjustment))").message("set price or priceAdjustment, not both"))]
#[serde(rename_all = "camelCase")]
pub struct NodeOverlaySpec {
    /// Which offerings it is about.
    #[schemars(length(max = 100))]
    #[x_kube(
        validation = Rule::new("self.all(x, !(x.operator in ['In', 'NotIn']) || (has(x.values) && size(x.values) > 0))").message("the operators In and NotIn need at least one value"),
        validation = Rule::new("self.all(x, !(x.operator in ['Gt', 'Lt', 'Gte', 'Lte']) || (has(x.values) && size(x.values) == 1 && int(x.values[0]) >= 0))").message("the operators Gt, Lt, Gte and Lte take exactly one whole number, not negative"),
    )]
    pub requirements: Vec<NodeSelectorRequirement>,
    /// The price an hour, in place of the catalog's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^\d+(\.\d+)?$"))]
    pub price: Option<String>,
    /// What is added to the price or taken off it: an amount (`-0.5`) or a percentage (`+10%`), with its sign.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(
        pattern = r"^(([+-]{1}(\d*\.?\d+))|(\+{1}\d*\.?\d+%)|(^(-\d{1,2}(\.\d+)?%)$)|(-100%))$"
    ))]
    pub price_adjustment: Option<String>,
    /// Extended resources that the nodes have besides those of the catalog.
    #[serde(default, skip_serializing_if = "Amounts::is_empty")]
    #[x_kube(validation = Rule::new("self.all(x, !(x in ['cpu', 'memory', 'ephemeral-storage', 'pods']))").message("an overlay cannot change cpu, memory, ephemeral-storage or pods"))]
    pub capacity: Amounts,
    /// Of overlays that match the same offering, the one of higher weight counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<Whole<1, 10_000>>,
}

/// Whether the overlay is in use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeOverlayStatus {
    /// Ready, ValidationSucceeded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".to_owned()]))]
    pub conditions: Vec<Condition>,
}
