//! Objects of Kubernetes, reduced to what acting on them needs.

use std::collections::BTreeMap;

use berth_api::Timestamp;
use berth_core::names;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use crate::dialect::Dialect;
use crate::journal::About;
use crate::life::CLAIM;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Metadata {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) uid: String,
    pub(crate) resource_version: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) finalizers: Vec<String>,
    pub(crate) creation_timestamp: Option<Timestamp>,
    pub(crate) deletion_timestamp: Option<Timestamp>,
    pub(crate) deletion_grace_period_seconds: Option<i64>,
    pub(crate) owner_references: Vec<OwnerReference>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct OwnerReference {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) controller: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) block_owner_deletion: Option<bool>,
}

impl OwnerReference {
    pub(crate) fn is_claim(&self) -> bool {
        Dialect::ALL.iter().any(|dialect| self.kind == dialect.claim_kind())
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Taint {
    pub(crate) key: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) value: String,
    pub(crate) effect: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) time_added: Option<String>,
}

impl Taint {
    pub(crate) fn new(key: &str, effect: &str) -> Self {
        Self { key: key.to_owned(), effect: effect.to_owned(), ..Self::default() }
    }

    pub(crate) fn is(&self, key: &str, effect: &str) -> bool {
        self.key == key && self.effect == effect
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Condition {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) status: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NodeObject {
    pub(crate) metadata: Metadata,
    pub(crate) spec: NodeSpec,
    pub(crate) status: NodeStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NodeSpec {
    #[serde(rename = "providerID")]
    pub(crate) provider_id: String,
    pub(crate) unschedulable: bool,
    pub(crate) taints: Vec<Taint>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Address {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) address: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NodeStatus {
    pub(crate) conditions: Vec<Condition>,
    pub(crate) addresses: Vec<Address>,
    pub(crate) capacity: BTreeMap<String, String>,
    pub(crate) allocatable: BTreeMap<String, String>,
}

impl NodeObject {
    pub(crate) fn about(&self) -> About {
        let Metadata { name, uid, .. } = &self.metadata;
        let (name, uid) = (name.clone(), uid.clone());
        About { api_version: "v1", kind: "Node", namespace: String::new(), name, uid }
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.status.conditions.iter().any(|condition| condition.kind == "Ready" && condition.status == "True")
    }

    pub(crate) fn is_initialized(&self) -> bool {
        self.metadata.labels.get(names::INITIALIZED).is_some_and(|value| value == "true")
    }

    pub(crate) fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    pub(crate) fn has_address(&self, address: &str) -> bool {
        self.status.addresses.iter().any(|known| known.kind == "InternalIP" && known.address == address)
    }

    pub(crate) fn is_owned_by(&self, claim_uid: &str) -> bool {
        let Metadata { annotations, owner_references, .. } = &self.metadata;
        annotations.get(CLAIM).is_some_and(|uid| uid == claim_uid)
            || owner_references.iter().any(|owner| owner.uid == claim_uid)
    }

    /// Whether it is some claim's.
    pub(crate) fn is_owned(&self) -> bool {
        let Metadata { annotations, owner_references, .. } = &self.metadata;
        annotations.contains_key(CLAIM) || owner_references.iter().any(OwnerReference::is_claim)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.spec.taints.iter().any(|taint| taint.is(names::TAINT_DISRUPTED, "NoSchedule"))
    }
}

/// A pod of a node that is to be emptied.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodObject {
    pub(crate) metadata: Metadata,
    pub(crate) spec: PodSpec,
    pub(crate) status: PodStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodSpec {
    pub(crate) node_name: String,
    pub(crate) priority_class_name: String,
    pub(crate) tolerations: Vec<Toleration>,
    pub(crate) termination_grace_period_seconds: Option<u64>,
    pub(crate) volumes: Vec<Volume>,
}

/// As far as it tells whether what is in it is lost with the node, and which PersistentVolume it is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Volume {
    pub(crate) host_path: Option<IgnoredAny>,
    pub(crate) empty_dir: Option<EmptyDir>,
    pub(crate) persistent_volume_claim: Option<ClaimReference>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ClaimReference {
    pub(crate) claim_name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct EmptyDir {
    pub(crate) medium: String,
}

impl Volume {
    pub(crate) fn is_local(&self) -> bool {
        self.host_path.is_some() || self.empty_dir.as_ref().is_some_and(|dir| dir.medium != "Memory")
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Toleration {
    pub(crate) key: String,
    pub(crate) operator: String,
    pub(crate) effect: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodStatus {
    pub(crate) phase: String,
    pub(crate) start_time: Option<Timestamp>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct List<T> {
    #[serde(default)]
    pub(crate) metadata: Heading,
    #[serde(default = "Vec::new")]
    pub(crate) items: Vec<T>,
}

/// Anything that has a version.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Versioned {
    pub(crate) metadata: Heading,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Heading {
    pub(crate) uid: String,
    pub(crate) resource_version: String,
    /// Where a list goes on, if it does.
    #[serde(rename = "continue")]
    pub(crate) next: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct VolumeAttachment {
    pub(crate) spec: VolumeAttachmentSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct VolumeAttachmentSpec {
    pub(crate) node_name: String,
    pub(crate) source: VolumeSource,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct VolumeSource {
    pub(crate) persistent_volume_name: Option<String>,
}

/// A PersistentVolumeClaim.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct BoundClaim {
    pub(crate) spec: BoundClaimSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct BoundClaimSpec {
    /// Empty until it is bound.
    pub(crate) volume_name: String,
}

/// A PersistentVolume.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PersistentVolume {
    pub(crate) spec: PersistentVolumeSpec,
}

/// As far as it tells whether what is in it is lost with the node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PersistentVolumeSpec {
    local: Option<IgnoredAny>,
    host_path: Option<IgnoredAny>,
}

impl PersistentVolume {
    pub(crate) fn is_local(&self) -> bool {
        self.spec.local.is_some() || self.spec.host_path.is_some()
    }
}
