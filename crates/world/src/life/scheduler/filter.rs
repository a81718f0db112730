//! Whether a pod may go to a node, and if not, why not, in kube-scheduler's order and words.

use std::borrow::Cow;
use std::collections::BTreeMap;

use berth_core::fit::{self, NodeDemand};
use berth_core::names::Text;
use berth_core::neighbours::{NeighbourRefusal, Neighbours};
use berth_core::pod::{PodSpec, VolumeRef};
use berth_core::volume::{AttachedVolumes, VolumeDemand};

use super::cache::{Cache, Class, Host, Pod, PodId, Slot};
use super::outlook::Fixed;

/// Why a node is not open to a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    NotNamed,
    Unschedulable,
    Taint,
    NodeAffinity,
    Ports,
    Resources {
        /// The dimensions of which there is too little, as bits.
        lacking: u64,
        /// The empty node would have too little.
        is_hopeless: bool,
    },
    ClaimInUse,
    VolumeLimit,
    VolumeAffinity,
    VolumeToBind,
    SpreadKeyMissing,
    Spread,
    Affinity,
    AntiAffinity,
    Shunned,
}

/// What could help a pod that was refused, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Concerns(u8);

impl Concerns {
    /// Another node, or another kind of node.
    pub(super) const NODES: Self = Self(1);
    /// Pods that leave.
    pub(super) const ROOM: Self = Self(2);
    /// Pods that come.
    pub(super) const COMPANY: Self = Self(4);
    pub(super) const STORAGE: Self = Self(8);

    pub(super) fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn share(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl Refusal {
    /// No pod's leaving could open the node.
    pub(super) fn is_hopeless(self) -> bool {
        match self {
            Self::Resources { is_hopeless, .. } => is_hopeless,
            Self::NotNamed
            | Self::Unschedulable
            | Self::Taint
            | Self::NodeAffinity
            | Self::VolumeAffinity
            | Self::VolumeToBind
            | Self::SpreadKeyMissing
            | Self::Affinity => true,
            Self::Ports
            | Self::ClaimInUse
            | Self::VolumeLimit
            | Self::Spread
            | Self::AntiAffinity
            | Self::Shunned => false,
        }
    }

    pub(super) fn concerns(self) -> Concerns {
        let nodes = Concerns::NODES;
        match self {
            Self::NotNamed
            | Self::Unschedulable
            | Self::Taint
            | Self::NodeAffinity
            | Self::SpreadKeyMissing => nodes,
            Self::Ports | Self::Resources { .. } | Self::AntiAffinity | Self::Shunned => {
                nodes.and(Concerns::ROOM)
            }
            Self::ClaimInUse | Self::VolumeLimit => nodes.and(Concerns::ROOM).and(Concerns::STORAGE),
            Self::VolumeAffinity | Self::VolumeToBind => nodes.and(Concerns::STORAGE),
            Self::Spread | Self::Affinity => nodes.and(Concerns::ROOM).and(Concerns::COMPANY),
        }
    }

    /// What kube-scheduler says, once for each node.
    pub(super) fn reasons(self, cache: &Cache) -> Vec<Cow<'static, str>> {
        let one = match self {
            Self::Resources { lacking, .. } => return insufficient(lacking, cache),
            Self::NotNamed => "node(s) didn't satisfy plugin(s) [NodeAffinity]",
            Self::Unschedulable => "node(s) were unschedulable",
            Self::Taint => "node(s) had untolerated taint(s)",
            Self::NodeAffinity => "node(s) didn't match Pod's node affinity/selector",
            Self::Ports => "node(s) didn't have free ports for the requested pod ports",
            Self::ClaimInUse => {
                "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
            }
            Self::VolumeLimit => "node(s) exceed max volume count",
            Self::VolumeAffinity => "node(s) didn't match PersistentVolume's node affinity",
            Self::VolumeToBind => "node(s) didn't find available persistent volumes to bind",
            Self::SpreadKeyMissing => {
                "node(s) didn't match pod topology spread constraints (missing required label)"
            }
            Self::Spread => "node(s) didn't match pod topology spread constraints",
            Self::Affinity => "node(s) didn't match pod affinity rules",
            Self::AntiAffinity => "node(s) didn't match pod anti-affinity rules",
            Self::Shunned => "node(s) didn't satisfy existing pods anti-affinity rules",
        };
        vec![Cow::Borrowed(one)]
    }
}

fn insufficient(lacking: u64, cache: &Cache) -> Vec<Cow<'static, str>> {
    let dimensions = (0..64).filter(|dimension| lacking & (1 << dimension) != 0);
    dimensions
        .map(|dimension| match cache.dimension(dimension) {
            berth_core::resources::PODS => Cow::Borrowed("Too many pods"),
            name => Cow::Owned(format!("Insufficient {name}")),
        })
        .collect()
}

/// A pod's volumes, as they decide about nodes.
#[derive(Debug)]
pub(super) struct Volumes {
    demands: Vec<VolumeDemand>,
    /// Where those that exist are, and where those that are to be made can be.
    bound: NodeDemand,
    to_bind: NodeDemand,
}

impl Volumes {
    /// What the volumes ask, or why the pod cannot run anywhere.
    pub(super) fn of(cache: &Cache, pod: &Pod) -> Result<Option<Self>, String> {
        if pod.volumes.is_empty() {
            return Ok(None);
        }
        let demands = cache.storage.demands(&cache.as_core(pod)).map_err(|_| unusable_volume(cache, pod))?;
        let claim_of = |demand: &VolumeDemand| {
            let name = demand.claim.split_once('/').map_or("", |(_, name)| name);
            cache.storage.claims.get(&(pod.key.namespace().into(), Text::from(name)))
        };
        let is_bound = |demand: &VolumeDemand| claim_of(demand).is_some_and(|claim| claim.volume.is_some());
        let (bound, to_bind): (Vec<_>, Vec<_>) = demands.iter().cloned().partition(is_bound);
        let nothing = PodSpec::default();
        Ok(Some(Self {
            bound: NodeDemand::required(&nothing, &bound),
            to_bind: NodeDemand::required(&nothing, &to_bind),
            demands,
        }))
    }
}

/// Which of the volumes keeps the pod from running anywhere, in kube-scheduler's words.
fn unusable_volume(cache: &Cache, pod: &Pod) -> String {
    for volume in &pod.volumes {
        let name = volume.claim();
        let claim = cache.storage.claims.get(&(pod.key.namespace().into(), name.clone()));
        match (claim, volume) {
            (None, VolumeRef::Claim(_)) => return format!("persistentvolumeclaim {name:?} not found"),
            (Some(claim), _) if claim.lost => {
                let lost = claim.volume.as_deref().unwrap_or_default();
                return format!(
                    "persistentvolumeclaim {name:?} bound to non-existent persistentvolume {lost:?}"
                );
            }
            (Some(claim), _) if claim.deleting => {
                return format!("persistentvolumeclaim {name:?} is being deleted");
            }
            _ => {}
        }
    }
    "pod has unbound immediate PersistentVolumeClaims".to_owned()
}

/// A pod that looks for a place, and what there is to know of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seeker<'a> {
    pub(super) cache: &'a Cache,
    pub(super) id: PodId,
    pub(super) class: &'a Class,
    pub(super) volumes: Option<&'a Volumes>,
}

impl Seeker<'_> {
    /// Why the pod may not go there, if it may not; nothing is said of slots without a node.
    pub(super) fn refusal(
        &self,
        slot: Slot,
        host: &Host,
        fixed: Fixed,
        neighbours: &Neighbours,
    ) -> Option<Refusal> {
        if let Fixed::Refused(refusal) = fixed {
            return Some(refusal);
        }
        let ports = &self.class.spec.host_ports;
        if ports.iter().any(|port| host.ports.iter().any(|taken| taken.conflicts(port))) {
            return Some(Refusal::Ports);
        }
        let requests = &self.class.requests;
        let lacking = bits(fit::lacking(requests, &host.left));
        if lacking != 0 {
            // How many pods a node can have is nothing that an empty node has too little of.
            let hopeless = bits(fit::lacking(requests, &host.total)) & !(1 << DIMENSION_OF_PODS);
            return Some(Refusal::Resources { lacking, is_hopeless: hopeless != 0 });
        }
        if let Some(refusal) = self.volumes.and_then(|volumes| self.volume_refusal(volumes, slot, host)) {
            return Some(refusal);
        }
        if neighbours.are_indifferent() {
            return None;
        }
        Some(match neighbours.refusal(slot)? {
            NeighbourRefusal::SpreadKeyMissing => Refusal::SpreadKeyMissing,
            NeighbourRefusal::Spread => Refusal::Spread,
            NeighbourRefusal::Affinity => Refusal::Affinity,
            NeighbourRefusal::AntiAffinity => Refusal::AntiAffinity,
            NeighbourRefusal::Shunned => Refusal::Shunned,
        })
    }

    fn volume_refusal(&self, volumes: &Volumes, slot: Slot, host: &Host) -> Option<Refusal> {
        let node = host.node.as_deref()?;
        if volumes.demands.iter().any(|demand| demand.single_pod && self.is_in_use(demand, slot, host)) {
            return Some(Refusal::ClaimInUse);
        }
        if !node.volume_limits.is_empty() {
            let mut attached = AttachedVolumes::limited_to(node.volume_limits.clone());
            for holding in host.pods.iter().flat_map(|id| self.cache.holdings(*id)) {
                if let Some(driver) = &holding.driver {
                    attached.attach_claim(driver, &holding.claim, 1);
                }
            }
            if !attached.admits(&volumes.demands) {
                return Some(Refusal::VolumeLimit);
            }
        }
        if !volumes.bound.volumes_admit(node) {
            return Some(Refusal::VolumeAffinity);
        }
        (!volumes.to_bind.volumes_admit(node)).then_some(Refusal::VolumeToBind)
    }

    /// Whether another pod that has a place uses the claim. Who is on this node, the node says.
    fn is_in_use(&self, demand: &VolumeDemand, slot: Slot, host: &Host) -> bool {
        let Some((namespace, name)) = demand.claim.split_once('/') else { return false };
        let claim = (Text::from(namespace), Text::from(name));
        self.cache.claimants(&claim).filter(|id| *id != self.id).any(|id| {
            let there = self.cache.pod(id).and_then(|pod| pod.slot);
            there.is_some_and(|there| there != slot || host.pods.contains(&id))
        })
    }
}

/// `pods` comes fourth among the dimensions.
const DIMENSION_OF_PODS: usize = 3;

/// Beyond the 64th resource name, one more is as good as another for saying what is lacking.
fn bits(dimensions: impl Iterator<Item = usize>) -> u64 {
    dimensions.fold(0, |bits, dimension| bits | 1 << dimension.min(63))
}

/// `0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint(s).`
pub(super) fn summary<'a>(nodes: usize, reasons: impl Iterator<Item = Cow<'a, str>>) -> String {
    let mut counts: BTreeMap<Cow<'_, str>, usize> = BTreeMap::new();
    for reason in reasons {
        *counts.entry(reason).or_default() += 1;
    }
    let mut counted: Vec<String> = counts.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    counted.sort();
    let none = format!("0/{nodes} nodes are available:");
    if counted.is_empty() { none } else { format!("{none} {}.", counted.join(", ")) }
}
