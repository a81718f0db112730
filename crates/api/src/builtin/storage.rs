//! PersistentVolumeClaim, PersistentVolume, StorageClass, CSINode.

use serde::Deserialize;

use super::pod::NodeSelector;
use super::{Metadata, Str};

#[derive(Debug, Deserialize)]
pub(crate) struct Claim<'a> {
    #[serde(borrow)]
    pub(crate) metadata: Metadata<'a>,
    #[serde(default)]
    pub(crate) spec: ClaimSpec<'a>,
    #[serde(default)]
    pub(crate) status: ClaimStatus<'a>,
}

/// A claim inside a StatefulSet or an ephemeral volume.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ClaimTemplate<'a> {
    #[serde(borrow)]
    pub(crate) metadata: Metadata<'a>,
    pub(crate) spec: ClaimSpec<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ClaimSpec<'a> {
    #[serde(borrow)]
    pub(crate) storage_class_name: Option<Str<'a>>,
    pub(crate) volume_name: Option<Str<'a>>,
    pub(crate) access_modes: Vec<Str<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ClaimStatus<'a> {
    #[serde(borrow)]
    pub(crate) phase: Option<Str<'a>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Volume<'a> {
    #[serde(borrow, default)]
    pub(crate) metadata: Metadata<'a>,
    pub(crate) spec: VolumeSpec<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct VolumeSpec<'a> {
    #[serde(borrow)]
    pub(crate) csi: Option<CsiSource<'a>>,
    pub(crate) aws_elastic_block_store: Option<serde::de::IgnoredAny>,
    pub(crate) gce_persistent_disk: Option<serde::de::IgnoredAny>,
    pub(crate) azure_disk: Option<serde::de::IgnoredAny>,
    pub(crate) azure_file: Option<serde::de::IgnoredAny>,
    pub(crate) cinder: Option<serde::de::IgnoredAny>,
    pub(crate) vsphere_volume: Option<serde::de::IgnoredAny>,
    pub(crate) portworx_volume: Option<serde::de::IgnoredAny>,
    pub(crate) local: Option<serde::de::IgnoredAny>,
    pub(crate) host_path: Option<serde::de::IgnoredAny>,
    pub(crate) node_affinity: VolumeNodeAffinity<'a>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct CsiSource<'a> {
    #[serde(borrow)]
    pub(crate) driver: Str<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct VolumeNodeAffinity<'a> {
    #[serde(borrow)]
    pub(crate) required: Option<NodeSelector<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Class<'a> {
    #[serde(borrow)]
    pub(crate) metadata: Metadata<'a>,
    pub(crate) provisioner: Str<'a>,
    #[serde(default)]
    pub(crate) volume_binding_mode: Option<Str<'a>>,
    #[serde(default)]
    pub(crate) allowed_topologies: Vec<TopologyTerm<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct TopologyTerm<'a> {
    #[serde(borrow)]
    pub(crate) match_label_expressions: Vec<TopologyExpression<'a>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct TopologyExpression<'a> {
    #[serde(borrow)]
    pub(crate) key: Str<'a>,
    pub(crate) values: Vec<Str<'a>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct CsiNode<'a> {
    #[serde(borrow)]
    pub(crate) spec: CsiNodeSpec<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct CsiNodeSpec<'a> {
    #[serde(borrow)]
    pub(crate) drivers: Vec<CsiDriver<'a>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct CsiDriver<'a> {
    #[serde(borrow)]
    pub(crate) name: Str<'a>,
    #[serde(default)]
    pub(crate) allocatable: Option<CsiAllocatable>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct CsiAllocatable {
    pub(crate) count: Option<i64>,
}
