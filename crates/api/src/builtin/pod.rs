//! Pods and the templates of pods.

#![expect(clippy::struct_field_names, reason = "the fields are Kubernetes' own")]

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{Amounts, LabelSelector, MatchExpression, Metadata, Str, StrMap};

#[derive(Debug, Deserialize)]
pub(crate) struct Pod<'a> {
    #[serde(borrow)]
    pub(crate) metadata: Metadata<'a>,
    pub(crate) spec: PodSpec<'a>,
    #[serde(default)]
    pub(crate) status: PodStatus<'a>,
}

/// What a workload makes its pods from; also the `template` of a PodTemplate object.
#[derive(Debug, Deserialize)]
pub(crate) struct Template<'a> {
    #[serde(borrow, default)]
    pub(crate) metadata: Metadata<'a>,
    pub(crate) spec: PodSpec<'a>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct PodTemplate<'a> {
    #[serde(borrow)]
    pub(crate) template: Template<'a>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PodSpec<'a> {
    #[serde(borrow, default)]
    pub(crate) node_name: Option<Str<'a>>,
    #[serde(default)]
    pub(crate) node_selector: StrMap<'a>,
    #[serde(default)]
    pub(crate) affinity: Affinity<'a>,
    #[serde(default)]
    pub(crate) topology_spread_constraints: Vec<SpreadConstraint<'a>>,
    #[serde(default)]
    pub(crate) tolerations: Vec<Toleration<'a>>,
    pub(crate) containers: Vec<Container<'a>>,
    #[serde(default)]
    pub(crate) init_containers: Vec<Container<'a>>,
    #[serde(default)]
    pub(crate) overhead: Option<Amounts<'a>>,
    #[serde(default)]
    pub(crate) resources: Option<ResourceClaim<'a>>,
    #[serde(default)]
    pub(crate) priority: Option<i32>,
    #[serde(default)]
    pub(crate) priority_class_name: Option<Str<'a>>,
    #[serde(default)]
    pub(crate) runtime_class_name: Option<Str<'a>>,
    #[serde(default)]
    pub(crate) scheduling_gates: Vec<Gate<'a>>,
    #[serde(default)]
    pub(crate) volumes: Vec<Volume<'a>>,
    #[serde(default)]
    pub(crate) host_network: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Container<'a> {
    #[serde(borrow, default)]
    pub(crate) name: Option<Str<'a>>,
    #[serde(default)]
    pub(crate) resources: ResourceClaim<'a>,
    #[serde(default)]
    pub(crate) ports: Vec<Port<'a>>,
    #[serde(default)]
    pub(crate) restart_policy: Option<Str<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ResourceClaim<'a> {
    #[serde(borrow)]
    pub(crate) requests: Amounts<'a>,
    pub(crate) limits: Amounts<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Port<'a> {
    pub(crate) container_port: Option<i64>,
    pub(crate) host_port: Option<i64>,
    #[serde(borrow, rename = "hostIP")]
    pub(crate) host_ip: Option<Str<'a>>,
    pub(crate) protocol: Option<Str<'a>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Gate<'a> {
    #[serde(borrow)]
    pub(crate) name: Str<'a>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Volume<'a> {
    #[serde(borrow)]
    pub(crate) name: Str<'a>,
    #[serde(default)]
    pub(crate) persistent_volume_claim: Option<ClaimSource<'a>>,
    #[serde(default)]
    pub(crate) ephemeral: Option<EphemeralSource<'a>>,
    #[serde(default)]
    pub(crate) empty_dir: Option<EmptyDir<'a>>,
    #[serde(default)]
    pub(crate) host_path: Option<IgnoredAny>,
}

impl Volume<'_> {
    /// Whether what is in it is lost with its node. What is in memory is lost with its pod anyhow.
    pub(crate) fn is_local(&self) -> bool {
        let on_disk = |dir: &EmptyDir<'_>| dir.medium.as_deref() != Some("Memory");
        self.host_path.is_some() || self.empty_dir.as_ref().is_some_and(on_disk)
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct EmptyDir<'a> {
    #[serde(borrow, default)]
    pub(crate) medium: Option<Str<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClaimSource<'a> {
    #[serde(borrow)]
    pub(crate) claim_name: Str<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct EphemeralSource<'a> {
    #[serde(borrow)]
    pub(crate) volume_claim_template: Option<super::storage::ClaimTemplate<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Affinity<'a> {
    #[serde(borrow)]
    pub(crate) node_affinity: NodeAffinity<'a>,
    pub(crate) pod_affinity: PodAffinity<'a>,
    pub(crate) pod_anti_affinity: PodAffinity<'a>,
}

pub(crate) const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
pub(crate) const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NodeAffinity<'a> {
    #[serde(borrow, rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub(crate) required: Option<NodeSelector<'a>>,
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    pub(crate) preferred: Vec<PreferredNodeTerm<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeSelector<'a> {
    #[serde(borrow)]
    pub(crate) node_selector_terms: Vec<NodeTerm<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct NodeTerm<'a> {
    #[serde(borrow)]
    pub(crate) match_expressions: Vec<MatchExpression<'a>>,
    pub(crate) match_fields: Vec<MatchExpression<'a>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct PreferredNodeTerm<'a> {
    pub(crate) weight: i32,
    #[serde(borrow)]
    pub(crate) preference: NodeTerm<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodAffinity<'a> {
    #[serde(borrow, rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub(crate) required: Vec<PodTerm<'a>>,
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    pub(crate) preferred: Vec<PreferredPodTerm<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PodTerm<'a> {
    #[serde(borrow, default)]
    pub(crate) label_selector: Option<LabelSelector<'a>>,
    #[serde(default)]
    pub(crate) namespaces: Vec<Str<'a>>,
    #[serde(default)]
    pub(crate) namespace_selector: Option<LabelSelector<'a>>,
    pub(crate) topology_key: Str<'a>,
    #[serde(default)]
    pub(crate) match_label_keys: Vec<Str<'a>>,
    #[serde(default)]
    pub(crate) mismatch_label_keys: Vec<Str<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PreferredPodTerm<'a> {
    pub(crate) weight: i32,
    #[serde(borrow)]
    pub(crate) pod_affinity_term: PodTerm<'a>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SpreadConstraint<'a> {
    pub(crate) max_skew: i64,
    #[serde(borrow)]
    pub(crate) topology_key: Str<'a>,
    pub(crate) when_unsatisfiable: Str<'a>,
    #[serde(default)]
    pub(crate) label_selector: Option<LabelSelector<'a>>,
    #[serde(default)]
    pub(crate) min_domains: Option<i64>,
    #[serde(default)]
    pub(crate) node_affinity_policy: Option<Str<'a>>,
    #[serde(default)]
    pub(crate) node_taints_policy: Option<Str<'a>>,
    #[serde(default)]
    pub(crate) match_label_keys: Vec<Str<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Toleration<'a> {
    #[serde(borrow)]
    pub(crate) key: Option<Str<'a>>,
    pub(crate) operator: Option<Str<'a>>,
    pub(crate) value: Option<Str<'a>>,
    pub(crate) effect: Option<Str<'a>>,
    pub(crate) toleration_seconds: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodStatus<'a> {
    #[serde(borrow)]
    pub(crate) phase: Option<Str<'a>>,
    pub(crate) start_time: Option<Str<'a>>,
    pub(crate) nominated_node_name: Option<Str<'a>>,
    pub(crate) resize: Option<Str<'a>>,
    pub(crate) conditions: Vec<Condition<'a>>,
    pub(crate) container_statuses: Vec<ContainerStatus<'a>>,
    pub(crate) init_container_statuses: Vec<ContainerStatus<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Condition<'a> {
    #[serde(borrow, rename = "type")]
    pub(crate) kind: Str<'a>,
    pub(crate) status: Option<Str<'a>>,
    pub(crate) reason: Option<Str<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContainerStatus<'a> {
    #[serde(borrow)]
    pub(crate) name: Option<Str<'a>>,
    pub(crate) allocated_resources: Amounts<'a>,
    pub(crate) resources: ResourceClaim<'a>,
}
