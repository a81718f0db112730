//! What the scheduler knows of the cluster, kept as it changes: each pod and each node is read once.
//!
//! Pods that are alike to every rule are of one class, so that a pod costs little more than its key.

mod intake;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_core::fit::NodeDemand;
use berth_core::names::{Labels, Text};
use berth_core::neighbours::Seen;
use berth_core::node::Node;
use berth_core::pod::{HostPort, PodSpec, VolumeRef};
use berth_core::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS};
use berth_core::volume::{Storage, VolumeDemand};
use rustc_hash::FxHashMap;

use crate::store::Key;

pub(super) use intake::{DISRUPTION_TARGET, PREEMPTED};

pub(super) type ClassId = u32;
pub(super) type PodId = u32;
/// Where a node is kept. Slots of nodes that are gone are used again.
pub(super) type Slot = usize;

/// How many of the dimensions are compared where nodes are scored: CPU and memory, which come first.
pub(super) const SCORED: usize = 2;

/// Pods of one namespace that every rule treats alike.
#[derive(Debug)]
pub(super) struct Class {
    pub(super) namespace: Text,
    pub(super) spec: Arc<PodSpec>,
    /// What it asks of a node, volumes aside.
    pub(super) demand: NodeDemand,
    /// By dimension.
    pub(super) requests: Box<[i64]>,
    /// What its requests count as where nodes are compared.
    pub(super) scored: [i64; SCORED],
    pods: u32,
}

#[derive(Debug)]
pub(super) struct Pod {
    pub(super) key: Key,
    pub(super) class: ClassId,
    pub(super) slot: Option<Slot>,
    /// The node that is meant for it.
    pub(super) nominated: Option<Slot>,
    pub(super) terminating: bool,
    /// It goes because the scheduler made it go.
    pub(super) preempted: bool,
    /// Seconds since the epoch.
    pub(super) started: Option<i64>,
    pub(super) volumes: Box<[VolumeRef]>,
}

/// A node and what is on it. Pods may be bound to a node before it is there, and after it is gone.
#[derive(Clone, Debug, Default)]
pub(super) struct Host {
    pub(super) name: Option<Text>,
    pub(super) node: Option<Arc<Node>>,
    pub(super) is_unschedulable: bool,
    /// By dimension.
    pub(super) total: Vec<i64>,
    pub(super) left: Vec<i64>,
    pub(super) scored: [i64; SCORED],
    pub(super) ports: Vec<HostPort>,
    pub(super) pods: Vec<PodId>,
}

impl Host {
    pub(super) fn add(&mut self, id: PodId, class: &Class) {
        self.change(class, 1);
        self.ports.extend(class.spec.host_ports.iter().cloned());
        self.pods.push(id);
    }

    pub(super) fn remove(&mut self, id: PodId, class: &Class) {
        self.change(class, -1);
        for port in &class.spec.host_ports {
            if let Some(index) = self.ports.iter().position(|taken| taken == port) {
                self.ports.swap_remove(index);
            }
        }
        self.pods.retain(|pod| *pod != id);
    }

    fn change(&mut self, class: &Class, pods: i64) {
        for (left, asked) in self.left.iter_mut().zip(&class.requests) {
            *left -= pods * asked;
        }
        for (sum, asked) in self.scored.iter_mut().zip(&class.scored) {
            *sum += pods * asked;
        }
    }
}

/// A pod came to a node, or left it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Move {
    pub(super) class: ClassId,
    pub(super) slot: Slot,
    pub(super) terminating: bool,
    pub(super) arrives: bool,
}

/// So many moves are remembered for those who count pods and look in now and then.
const MOVES_MAX: usize = 8192;

#[derive(Debug)]
pub(super) struct Cache {
    dimensions: Vec<Text>,
    classes: Vec<Option<Box<Class>>>,
    class_ids: FxHashMap<(Text, Arc<PodSpec>, [i64; SCORED]), ClassId>,
    /// Classes that shun others, and those that others' being near matters to in some way.
    pub(super) averse: BTreeSet<ClassId>,
    pub(super) social: BTreeSet<ClassId>,
    pods: Vec<Option<Pod>>,
    free_pods: Vec<PodId>,
    pod_ids: BTreeMap<Key, PodId>,
    hosts: Vec<Host>,
    free_slots: Vec<Slot>,
    /// Slots that somebody has left: they are free if nobody is there.
    left_slots: Vec<Slot>,
    slots: BTreeMap<Text, Slot>,
    nodes: usize,
    nominated: BTreeMap<Slot, BTreeSet<PodId>>,
    limits: BTreeMap<Text, BTreeMap<Text, u32>>,
    pub(super) storage: Storage,
    /// Who names a claim, by namespace and name.
    claimants: BTreeMap<(Text, Text), BTreeSet<PodId>>,
    namespaces: BTreeMap<Text, Labels>,
    /// Counts whatever may change more than how many pods are where.
    layout: u64,
    moves: Vec<Move>,
    moves_forgotten: u64,
}

impl Cache {
    pub(super) fn new() -> Self {
        Self {
            dimensions: [CPU, MEMORY, EPHEMERAL_STORAGE, PODS].map(Text::from).to_vec(),
            classes: Vec::new(),
            class_ids: FxHashMap::default(),
            averse: BTreeSet::new(),
            social: BTreeSet::new(),
            pods: Vec::new(),
            free_pods: Vec::new(),
            pod_ids: BTreeMap::new(),
            hosts: Vec::new(),
            free_slots: Vec::new(),
            left_slots: Vec::new(),
            slots: BTreeMap::new(),
            nodes: 0,
            nominated: BTreeMap::new(),
            limits: BTreeMap::new(),
            storage: Storage::default(),
            claimants: BTreeMap::new(),
            namespaces: BTreeMap::new(),
            layout: 0,
            moves: Vec::new(),
            moves_forgotten: 0,
        }
    }

    pub(super) fn dimension(&self, index: usize) -> &str {
        self.dimensions.get(index).map_or("", |name| name)
    }

    pub(super) fn class(&self, id: ClassId) -> Option<&Class> {
        self.classes.get(usize::try_from(id).ok()?)?.as_deref()
    }

    pub(super) fn pod(&self, id: PodId) -> Option<&Pod> {
        self.pods.get(usize::try_from(id).ok()?)?.as_ref()
    }

    pub(super) fn pod_id(&self, key: &Key) -> Option<PodId> {
        self.pod_ids.get(key).copied()
    }

    pub(super) fn class_of(&self, id: PodId) -> Option<&Class> {
        self.class(self.pod(id)?.class)
    }

    pub(super) fn seen<'a>(&'a self, class: &'a Class) -> Seen<'a> {
        Seen {
            namespace: &class.namespace,
            namespace_labels: self.namespaces.get(&class.namespace),
            spec: &class.spec,
        }
    }

    pub(super) fn host(&self, slot: Slot) -> Option<&Host> {
        self.hosts.get(slot)
    }

    pub(super) fn slot(&self, name: &str) -> Option<Slot> {
        self.slots.get(name).copied()
    }

    /// All slots, with and without a node.
    pub(super) fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// How many nodes there are.
    pub(super) fn nodes(&self) -> usize {
        self.nodes
    }

    /// Pods for which a node is meant.
    pub(super) fn nominated(&self, slot: Slot) -> impl Iterator<Item = PodId> {
        self.nominated.get(&slot).into_iter().flatten().copied()
    }

    pub(super) fn has_nominated(&self) -> bool {
        !self.nominated.is_empty()
    }

    pub(super) fn claimants(&self, claim: &(Text, Text)) -> impl Iterator<Item = PodId> {
        self.claimants.get(claim).into_iter().flatten().copied()
    }

    pub(super) fn layout(&self) -> u64 {
        self.layout
    }

    /// How many moves there have been.
    pub(super) fn moved(&self) -> u64 {
        self.moves_forgotten + self.moves.len() as u64
    }

    /// The moves since there were so many, if all of them are remembered.
    pub(super) fn moves_since(&self, moved: u64) -> Option<&[Move]> {
        let skipped = usize::try_from(moved.checked_sub(self.moves_forgotten)?).ok()?;
        self.moves.get(skipped..)
    }

    /// What the pod's volumes hold where it is.
    pub(super) fn holdings(&self, id: PodId) -> Vec<VolumeDemand> {
        let Some(pod) = self.pod(id).filter(|pod| !pod.volumes.is_empty()) else { return Vec::new() };
        self.storage.holdings(&self.as_core(pod))
    }

    /// A pod as berth-core knows pods, as far as its volumes matter.
    pub(super) fn as_core(&self, pod: &Pod) -> berth_core::pod::Pod {
        berth_core::pod::Pod {
            namespace: pod.key.namespace().into(),
            name: pod.key.name().into(),
            spec: self.class(pod.class).map(|class| class.spec.clone()).unwrap_or_default(),
            phase: berth_core::pod::PodPhase::default(),
            node: None,
            nominated: None,
            is_fresh: false,
            deleting: pod.terminating,
            origin: berth_core::pod::PodOrigin::Object,
            daemon_set: None,
            mirror: false,
            volumes: pod.volumes.clone(),
            disruption: berth_core::disruption::PodDisruption::default(),
        }
    }
}
