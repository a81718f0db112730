//! What pods' volumes ask of hosts, with claims that are one pod's own told from shared ones.

use std::collections::{BTreeMap, BTreeSet};

use fixedbitset::FixedBitSet;

use crate::names::Text;
use crate::pod::Pod;
use crate::reason::{Reason, Refusal};
use crate::requirement::NodeTerm;
use crate::snapshot::Snapshot;
use crate::volume::VolumeDemand;

/// What the volumes of a class's pods take of a node's attach limits.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClassVolumes {
    /// Volumes of each driver that only one pod uses.
    pub(crate) own: BTreeMap<Text, u32>,
    /// Volumes that several pods share: attached once per node.
    pub(crate) shared: Vec<(Text, Text)>,
    /// Claims that only one pod at a time may use.
    pub(crate) exclusive: Vec<Text>,
    /// For each volume that is bound to a place the terms of which one must match.
    pub(super) terms: Vec<Vec<NodeTerm>>,
}

impl ClassVolumes {
    /// Whether they take room of what a host can attach.
    pub(crate) fn use_room(&self) -> bool {
        !(self.own.is_empty() && self.shared.is_empty())
    }

    /// Whether they count on the host that they are attached to.
    pub(crate) fn attach(&self) -> bool {
        self.use_room() || !self.exclusive.is_empty()
    }
}

/// Claims that more than one active pod names.
pub(super) fn claim_sharers(volumes: &[Vec<VolumeDemand>]) -> BTreeSet<Text> {
    let mut seen = BTreeSet::new();
    let mut shared = BTreeSet::new();
    for demand in volumes.iter().flatten() {
        if !seen.insert(demand.claim.clone()) {
            shared.insert(demand.claim.clone());
        }
    }
    shared
}

pub(super) fn class_volumes(demands: &[VolumeDemand], shared: &BTreeSet<Text>) -> ClassVolumes {
    let mut volumes = ClassVolumes::default();
    let mut claims = BTreeSet::new();
    for demand in demands {
        if !claims.insert(&demand.claim) {
            continue;
        }
        if let Some(driver) = &demand.driver {
            if shared.contains(&demand.claim) {
                volumes.shared.push((driver.clone(), demand.claim.clone()));
            } else {
                *volumes.own.entry(driver.clone()).or_insert(0) += 1;
            }
        }
        if demand.single_pod && shared.contains(&demand.claim) {
            volumes.exclusive.push(demand.claim.clone());
        }
        if !demand.terms.is_empty() {
            volumes.terms.push(demand.terms.clone());
        }
    }
    volumes.terms.sort();
    volumes.terms.dedup();
    volumes
}

/// What each pod's volumes demand, and the pods that nothing could help.
pub(crate) fn volume_demands(
    snapshot: &Snapshot,
    to_place: &FixedBitSet,
) -> (Vec<Vec<VolumeDemand>>, Vec<(usize, Refusal)>) {
    let mut refused = Vec::new();
    let demands = snapshot
        .pods
        .iter()
        .enumerate()
        .map(|(index, pod)| {
            if !pod.is_active() {
                return Vec::new();
            }
            if !to_place.contains(index) {
                return snapshot.storage.holdings(pod);
            }
            let refusal = match (refusal_everywhere(pod), snapshot.storage.demands(pod)) {
                (None, Ok(demands)) => return demands,
                (Some(refusal), _) | (None, Err(refusal)) => refusal,
            };
            refused.push((index, refusal));
            Vec::new()
        })
        .collect();
    (demands, refused)
}

fn refusal_everywhere(pod: &Pod) -> Option<Refusal> {
    if let [gate, ..] = &*pod.spec.scheduling_gates {
        return Some(
            Reason::SchedulingGated.because(format!("the pod waits for its scheduling gate {gate}")),
        );
    }
    None
}
