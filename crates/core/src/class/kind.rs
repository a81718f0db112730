//! Pods of one spec in one namespace: the raw material of classes.

use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::fit::{self, NodeDemand};
use crate::market::LabelLooks;
use crate::names::{Labels, Text};
use crate::node::{Node, NodeState};
use crate::pod::{Pod, PodSpec};
use crate::snapshot::Snapshot;
use crate::volume::VolumeDemand;

/// Whether a pod waits for a place: unbound, or on a node that is going away.
pub(crate) fn is_pending(pod: &Pod, deleting_nodes: &BTreeSet<&str>) -> bool {
    pod.is_active()
        && !pod.deleting
        && !pod.belongs_to_node()
        && pod.node.as_ref().is_none_or(|node| deleting_nodes.contains(&**node))
}

pub(crate) fn deleting_nodes(nodes: &[Node]) -> BTreeSet<&str> {
    nodes.iter().filter(|node| node.state == NodeState::Deleting).map(|node| &*node.name).collect()
}

/// Pods of one spec in one namespace.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(super) spec: Arc<PodSpec>,
    pub(super) namespace: Text,
    pub(super) pending: Vec<usize>,
    /// Bound to hosts that stay: host and whether terminating.
    pub(super) running: Vec<(usize, bool)>,
}

impl Kind {
    pub(super) fn labels(&self) -> &Labels {
        &self.spec.labels
    }
}

/// The snapshot's pods sorted into kinds; `host_of` gives the host of a node's name.
pub(crate) fn kinds(snapshot: &Snapshot, host_of: &FxHashMap<&str, usize>) -> Vec<Kind> {
    let deleting = deleting_nodes(&snapshot.nodes);
    let mut by_pointer: FxHashMap<(*const PodSpec, &str), usize> = FxHashMap::default();
    let mut by_value: FxHashMap<(&PodSpec, &str), usize> = FxHashMap::default();
    let mut kinds: Vec<Kind> = Vec::new();
    for (index, pod) in snapshot.pods.iter().enumerate() {
        let pending = is_pending(pod, &deleting);
        let host = pod.node.as_ref().and_then(|node| host_of.get(&**node)).copied();
        if !pending && (host.is_none() || !pod.is_active()) {
            continue;
        }
        // Most pods share their spec's memory with their siblings: look there before comparing specs.
        let kind = *by_pointer.entry((Arc::as_ptr(&pod.spec), &*pod.namespace)).or_insert_with(|| {
            *by_value.entry((&*pod.spec, &*pod.namespace)).or_insert_with(|| {
                kinds.push(Kind {
                    spec: pod.spec.clone(),
                    namespace: pod.namespace.clone(),
                    pending: Vec::new(),
                    running: Vec::new(),
                });
                kinds.len() - 1
            })
        });
        match host {
            _ if pending => kinds[kind].pending.push(index),
            Some(host) => kinds[kind].running.push((host, pod.deleting)),
            None => {}
        }
    }
    kinds
}

/// The label keys that decide about any pending pod or DaemonSet.
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
        if kind.pending.is_empty() {
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
