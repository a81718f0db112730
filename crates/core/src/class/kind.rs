//! Pods of one spec in one namespace: the raw material of classes.

use std::sync::Arc;

use fixedbitset::FixedBitSet;
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use crate::fit::{self, NodeDemand};
use crate::market::LabelLooks;
use crate::names::{Labels, Text};
use crate::node::NodeState;
use crate::pod::{Pod, PodOrigin, PodSpec};
use crate::resources::Resources;
use crate::snapshot::Snapshot;
use crate::volume::VolumeDemand;

/// The pods that wait for a place: unbound, or on a node that is going away.
pub(crate) fn pending(snapshot: &Snapshot) -> FixedBitSet {
    let deleting: FxHashSet<&str> = snapshot
        .nodes
        .iter()
        .filter(|node| node.state == NodeState::Deleting)
        .map(|node| &*node.name)
        .collect();
    let waits = |pod: &Pod| {
        pod.is_active()
            && !pod.deleting
            && !pod.belongs_to_node()
            && pod.node.as_ref().is_none_or(|node| deleting.contains(&**node))
    };
    let mut pending = FixedBitSet::with_capacity(snapshot.pods.len());
    pending.extend(snapshot.pods.iter().enumerate().filter(|(_, pod)| waits(pod)).map(|(index, _)| index));
    pending
}

/// Pods of one spec in one namespace.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(super) spec: Arc<PodSpec>,
    pub(super) namespace: Text,
    /// To be placed: they wait for a place, or could have another.
    pub(super) to_place: Vec<usize>,
    /// Only the spec says where the pods to be placed may go.
    pub(super) is_uniform: bool,
    /// Bound to hosts, and not to be moved: host and whether terminating.
    pub(super) running: Vec<(usize, bool)>,
}

impl Kind {
    /// What its pods ask for, if there are any to be placed.
    pub(crate) fn requests_to_place(&self) -> Option<&Resources> {
        (!self.to_place.is_empty()).then_some(&self.spec.requests)
    }

    pub(super) fn labels(&self) -> &Labels {
        &self.spec.labels
    }
}

/// The snapshot's pods sorted into kinds; `host_of` gives the host of a node's name.
pub(crate) fn kinds(
    snapshot: &Snapshot,
    host_of: &FxHashMap<&str, usize>,
    to_place: &FixedBitSet,
) -> Vec<Kind> {
    let mut by_pointer: FxHashMap<(*const PodSpec, &str), usize> =
        FxHashMap::with_capacity_and_hasher(snapshot.pods.len(), FxBuildHasher);
    let mut by_value: FxHashMap<(&PodSpec, &str), usize> = FxHashMap::default();
    let mut kinds: Vec<Kind> = Vec::new();
    for (index, pod) in snapshot.pods.iter().enumerate() {
        let placed_anew = to_place.contains(index);
        let host = pod.node.as_ref().and_then(|node| host_of.get(&**node)).copied();
        if !placed_anew && (host.is_none() || !pod.is_active()) {
            continue;
        }
        // Most pods share their spec's memory with their siblings: look there before comparing specs.
        let kind = *by_pointer.entry((Arc::as_ptr(&pod.spec), &*pod.namespace)).or_insert_with(|| {
            *by_value.entry((&*pod.spec, &*pod.namespace)).or_insert_with(|| {
                kinds.push(Kind {
                    spec: pod.spec.clone(),
                    namespace: pod.namespace.clone(),
                    to_place: Vec::new(),
                    is_uniform: pod.spec.scheduling_gates.is_empty(),
                    running: Vec::new(),
                });
                kinds.len() - 1
            })
        });
        match host {
            _ if placed_anew => {
                kinds[kind].to_place.push(index);
                kinds[kind].is_uniform &= pod.volumes.is_empty()
                    && pod.nominated.is_none()
                    && pod.origin == PodOrigin::Object
                    && !pod.is_fresh;
            }
            Some(host) => kinds[kind].running.push((host, pod.deleting)),
            None => {}
        }
    }
    kinds
}

/// The label keys that decide about any pod to be placed or DaemonSet.
pub(crate) fn label_looks(snapshot: &Snapshot, kinds: &[Kind], volumes: &[Vec<VolumeDemand>]) -> LabelLooks {
    let mut looks = LabelLooks::default();
    for set in &snapshot.daemon_sets {
        looks.add_demand(&fit::daemon_demand(&set.spec));
    }
    for kind in kinds {
        let spec = &kind.spec;
        for term in &spec.anti_affinity {
            looks.add_key(&term.topology_key);
        }
        if kind.to_place.is_empty() {
            continue;
        }
        looks.add_demand(&NodeDemand::required(spec, &[]));
        for preference in &spec.node_preferences {
            preference.term.expressions.iter().for_each(|e| looks.add_expression(e));
        }
        let soft = spec.affinity_preferences.iter().chain(&spec.anti_affinity_preferences).map(|p| &p.term);
        for term in spec.affinity.iter().chain(soft) {
            looks.add_key(&term.topology_key);
        }
        for spread in &spec.spread {
            looks.add_key(&spread.topology_key);
        }
    }
    for demand in volumes.iter().flatten() {
        for expression in demand.terms.iter().flat_map(|term| &term.expressions) {
            looks.add_expression(expression);
        }
    }
    looks
}
