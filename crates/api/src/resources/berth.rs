//! Berth's own kind of `berth.dev/v1alpha1`: VPSieNodeClass.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::shared::Condition;
use super::vpsie::VERSION;

/// What of VPSie's offers a pool may buy, and how its machines are made.
#[derive(Clone, Debug, Default, PartialEq, Eq, CustomResource, KubeSchema, Serialize, Deserialize)]
#[kube(
    group = "berth.dev",
    version = "v1alpha1",
    kind = "VPSieNodeClass",
    plural = "vpsienodeclasses",
    category = "karpenter",
    shortname = "vpsienc",
    shortname = "vpsiencs",
    doc = "How machines of VPSie are made for NodePools.",
    derive = "PartialEq",
    status = "VPSieNodeClassStatus",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].reason"#,
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
pub struct VPSieNodeClassSpec {
    /// In which datacenters machines may be bought; without any, wherever there are offers.
    #[serde(default, rename = "datacenterIDs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), inner(regex(pattern = "^[a-zA-Z0-9_-]+$")))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub datacenter_ids: Vec<String>,
    /// Which offerings may be bought, by their ids or the names of their types; without any, all.
    #[serde(default, rename = "offeringIDs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), inner(regex(pattern = "^[a-zA-Z0-9._-]+$")))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub offering_ids: Vec<String>,
    /// The project's id at VPSie; without it, the Secret's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub project: Option<String>,
    /// The image; without it, VPSie chooses.
    #[serde(rename = "osImageID", skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[a-zA-Z0-9_.-]+$"))]
    pub os_image_id: Option<String>,
    /// SSH keys of each machine.
    #[serde(default, rename = "sshKeyIDs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50), inner(length(min = 1, max = 128)))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub ssh_key_ids: Vec<String>,
    /// Tags of each machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50), inner(length(min = 1, max = 128)))]
    #[x_kube(
        merge_strategy = ListMerge::Set,
        validation = Rule::new("self.all(tag, !tag.startsWith('berth.dev/'))").message("tags of berth.dev are set by Berth itself"),
    )]
    pub tags: Vec<String>,
    /// A note on each machine.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1000))]
    pub notes: String,
    /// The version of Kubernetes, such as v1.34.0; without it, what `--kubernetes-version` says.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = VERSION))]
    pub kubernetes_version: Option<String>,
}

/// Whether the class can be bought from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct VPSieNodeClassStatus {
    /// Ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".to_owned()]))]
    pub conditions: Vec<Condition>,
}
