//! What a pod's volumes demand of its node.

use std::collections::BTreeMap;

use crate::names::Text;
use crate::pod::{Pod, VolumeRef};
use crate::reason::{Reason, Refusal};
use crate::requirement::NodeTerm;

pub use crate::host::AttachedVolumes;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeClaim {
    pub storage_class: Option<Text>,
    /// The PersistentVolume it is bound to.
    pub volume: Option<Text>,
    pub lost: bool,
    pub deleting: bool,
    /// Only one pod at a time may use it (`ReadWriteOncePod`).
    pub single_pod: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// The CSI driver, in-tree plugins translated.
    pub driver: Option<Text>,
    /// One of the terms must match the node; none at all means anywhere.
    pub node_affinity: Vec<NodeTerm>,
    /// Its data is on the node that it is used on (`local`, `hostPath`).
    pub is_local: bool,
}

/// Where the data of a running pod's volume is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeping {
    Elsewhere,
    /// It is lost with the node.
    OnNode,
    /// Its claim, or the volume that this is bound to, cannot be seen.
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageClass {
    pub driver: Text,
    /// `WaitForFirstConsumer`: the volume is made where the pod goes.
    pub waits_for_pod: bool,
    pub allowed_topologies: Vec<NodeTerm>,
    pub is_default: bool,
    /// Seconds since the epoch: the newest of several defaults counts.
    pub created: i64,
}

/// All the storage objects of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Storage {
    pub claims: BTreeMap<(Text, Text), VolumeClaim>,
    pub volumes: BTreeMap<Text, Volume>,
    pub classes: BTreeMap<Text, StorageClass>,
}

/// What one volume asks of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeDemand {
    /// The claim `namespace/name`, which several pods may share.
    pub claim: Text,
    pub driver: Option<Text>,
    /// One of the terms must match the node; none at all means anywhere.
    pub terms: Vec<NodeTerm>,
    pub single_pod: bool,
}

impl Storage {
    /// What each of the pod's volumes asks, or why the pod cannot run anywhere.
    pub fn demands(&self, pod: &Pod) -> Result<Vec<VolumeDemand>, Refusal> {
        pod.volumes.iter().map(|volume| self.demand(pod, volume)).collect()
    }

    /// What the volumes of a pod that has its place take up there. A claim that is lost or being deleted is
    /// attached until its last pod is gone; what nothing is known of takes up nothing.
    pub fn holdings(&self, pod: &Pod) -> Vec<VolumeDemand> {
        let holding = |volume: &VolumeRef| {
            let claim = self.claims.get(&(pod.namespace.clone(), volume.claim().clone()));
            claim.and_then(|claim| self.bound(pod, volume, claim)).or_else(|| self.demand(pod, volume).ok())
        };
        pod.volumes.iter().filter_map(holding).collect()
    }

    /// Where the data of this volume of a running pod is. What is made for the pod alone goes with it, wherever it is.
    pub fn keeping(&self, pod: &Pod, volume: &VolumeRef) -> Keeping {
        let claim = self.claims.get(&(pod.namespace.clone(), volume.claim().clone()));
        let bound = claim.and_then(|claim| self.volumes.get(claim.volume.as_ref()?));
        match (bound, volume) {
            (Some(Volume { is_local: true, .. }), _) => Keeping::OnNode,
            (Some(_), _) | (None, VolumeRef::Ephemeral { .. }) => Keeping::Elsewhere,
            (None, VolumeRef::Claim(_)) => Keeping::Unknown,
        }
    }

    /// What a claim that has its volume asks, if the volume is known.
    fn bound(&self, pod: &Pod, volume: &VolumeRef, claim: &VolumeClaim) -> Option<VolumeDemand> {
        let persistent = self.volumes.get(claim.volume.as_ref()?)?;
        Some(VolumeDemand {
            claim: claim_id(pod, volume),
            driver: persistent.driver.clone(),
            terms: persistent.node_affinity.clone(),
            single_pod: claim.single_pod,
        })
    }

    fn demand(&self, pod: &Pod, volume: &VolumeRef) -> Result<VolumeDemand, Refusal> {
        let claim_name = volume.claim();
        let id = claim_id(pod, volume);
        let known = self.claims.get(&(pod.namespace.clone(), claim_name.clone()));
        let (class, single_pod) = match (known, volume) {
            (Some(claim), _) if claim.lost => {
                return Err(Reason::VolumeLost
                    .because(format!("claim {id} has lost its volume; restore or replace it")));
            }
            (Some(claim), _) if claim.deleting => {
                return Err(Reason::VolumeLost.because(format!("claim {id} is being deleted")));
            }
            (Some(claim @ VolumeClaim { volume: Some(bound), .. }), _) => {
                return self.bound(pod, volume, claim).ok_or_else(|| {
                    Reason::VolumeMissing
                        .because(format!("claim {id} is bound to volume {bound}, which is not in the input"))
                });
            }
            (Some(claim), _) => (claim.storage_class.clone(), claim.single_pod),
            (None, VolumeRef::Ephemeral { storage_class, .. }) => (storage_class.clone(), false),
            (None, VolumeRef::Claim(_)) => {
                return Err(Reason::VolumeMissing
                    .because(format!("claim {id} does not exist; create it or fix the name")));
            }
        };
        let class_name = class.or_else(|| self.default_class());
        let Some(class_name) = class_name.filter(|name| !name.is_empty()) else {
            return Err(Reason::VolumeUnbound.because(format!(
                "claim {id} names no storage class and none is the default; name one or bind a volume to it"
            )));
        };
        let Some(class) = self.classes.get(&class_name) else {
            return Err(Reason::VolumeMissing
                .because(format!("claim {id} asks for storage class {class_name}, which does not exist")));
        };
        if !class.waits_for_pod {
            return Err(Reason::VolumeUnbound.because(format!(
                "claim {id} is not bound yet and its class {class_name} binds at once; the pod waits for its volume"
            )));
        }
        Ok(VolumeDemand {
            claim: id,
            driver: Some(class.driver.clone()),
            terms: class.allowed_topologies.clone(),
            single_pod,
        })
    }

    /// The newest class that calls itself the default; of equally old ones the first by name.
    fn default_class(&self) -> Option<Text> {
        self.classes
            .iter()
            .filter(|(_, class)| class.is_default)
            .max_by(|(a_name, a), (b_name, b)| a.created.cmp(&b.created).then(b_name.cmp(a_name)))
            .map(|(name, _)| name.clone())
    }
}

/// `namespace/name`.
fn claim_id(pod: &Pod, volume: &VolumeRef) -> Text {
    format!("{}/{}", pod.namespace, volume.claim()).into()
}
