//! Where everything would be: the snapshot with what the looks so far have found.
//!
//! Each look sees the cluster as if the plan had been carried out, and what it finds is merged into the draft:
//! a pod that is moved on goes to its last place at once, and a new node that is given up again is never
//! bought. The draft is done when a look at it finds nothing, so a plan that is made after it is carried out
//! finds nothing either.

use std::collections::BTreeSet;
use std::sync::Arc;

use fixedbitset::FixedBitSet;
use rustc_hash::FxHashMap;

use super::pass::{NewNode, Outcome, Spot, is_virtual};
use crate::disruption::NodeDisruption;
use crate::market;
use crate::names::{self, Labels, Text};
use crate::node::{Node, NodeState};
use crate::pod::PodPhase;
use crate::safety::BudgetsOfPod;
use crate::snapshot::Snapshot;

#[derive(Clone)]
pub(super) struct Draft<'a> {
    snapshot: &'a Snapshot,
    /// Where each pod that gets a place will be.
    pub(super) spots: Vec<Option<Spot>>,
    /// The pods that get a place, in the order in which they got it.
    pub(super) sequence: Vec<usize>,
    pub(super) removed: Vec<bool>,
    pub(super) new: Vec<NewNode>,
}

/// The draft as a snapshot.
pub(super) struct View {
    pub(super) snapshot: Snapshot,
    /// For each of its nodes where it comes from.
    pub(super) origins: Vec<Spot>,
    /// Which of its nodes are only planned.
    pub(super) planned: FixedBitSet,
}

impl<'a> Draft<'a> {
    pub(super) fn new(snapshot: &'a Snapshot) -> Self {
        Self {
            snapshot,
            spots: vec![None; snapshot.pods.len()],
            sequence: Vec::new(),
            removed: vec![false; snapshot.nodes.len()],
            new: Vec::new(),
        }
    }

    /// `<pool>-1`, `<pool>-2`, … leaving out names that nodes already have.
    pub(super) fn names(&self) -> Vec<Text> {
        let taken: BTreeSet<&str> = self.snapshot.nodes.iter().map(|node| &*node.name).collect();
        let mut given: BTreeSet<Text> = BTreeSet::new();
        let mut next = vec![0_usize; self.snapshot.pools.len()];
        let mut names = Vec::with_capacity(self.new.len());
        for new in &self.new {
            let pool = &self.snapshot.pools[new.pool].name;
            loop {
                next[new.pool] += 1;
                let name = Text::from(format!("{pool}-{}", next[new.pool]));
                if !taken.contains(&*name) && given.insert(name.clone()) {
                    names.push(name);
                    break;
                }
            }
        }
        names
    }

    /// The cluster as it would be. Nodes that go are still going: they count in limits and budgets.
    pub(super) fn view(&self) -> View {
        let mut snapshot = self.snapshot.clone();
        let names = self.names();
        for (node, removed) in snapshot.nodes.iter_mut().zip(&self.removed) {
            if *removed {
                node.state = NodeState::Deleting;
            }
        }
        for (pod, spot) in snapshot.pods.iter_mut().zip(&self.spots) {
            let Some(spot) = spot else { continue };
            if !is_virtual(pod) {
                pod.node = Some(match spot {
                    Spot::Node(node) => self.snapshot.nodes[*node].name.clone(),
                    Spot::New(new) => names[*new].clone(),
                });
                pod.phase = PodPhase::Running;
                pod.nominated = None;
            }
        }
        self.spend_pod_budgets(&mut snapshot);
        self.draw_reservations(&mut snapshot);
        let existing = snapshot.nodes.drain(..).enumerate().map(|(index, node)| (node, Spot::Node(index)));
        let planned = self
            .new
            .iter()
            .zip(&names)
            .enumerate()
            .map(|(index, (new, name))| (self.node(new, name), Spot::New(index)));
        let mut nodes: Vec<(Node, Spot)> = existing.chain(planned).collect();
        nodes.sort_by(|a, b| a.0.name.cmp(&b.0.name));
        let mut planned = FixedBitSet::with_capacity(nodes.len());
        planned.extend(
            nodes
                .iter()
                .enumerate()
                .filter(|(_, (_, origin))| matches!(origin, Spot::New(_)))
                .map(|(index, _)| index),
        );
        let origins = nodes.iter().map(|(_, origin)| *origin).collect();
        snapshot.nodes = nodes.into_iter().map(|(node, _)| node).collect();
        View { snapshot, origins, planned }
    }

    fn node(&self, new: &NewNode, name: &Text) -> Node {
        let pool = &self.snapshot.pools[new.pool];
        let instance_type = &pool.types[new.instance_type];
        let offering = &instance_type.offerings[new.offering];
        let mut labels = market::node_labels(pool, &new.custom, instance_type, offering);
        labels.insert(names::HOSTNAME.into(), name.clone());
        Node {
            name: name.clone(),
            labels,
            taints: pool.taints.clone(),
            capacity: instance_type.capacity.clone(),
            allocatable: instance_type.allocatable(),
            state: NodeState::Running,
            pool: Some(pool.name.clone()),
            price: Some(offering.price),
            volume_limits: instance_type.volume_limits.clone(),
            disruption: NodeDisruption::of_new(pool),
        }
    }

    /// What the moves so far take of the PodDisruptionBudgets.
    fn spend_pod_budgets(&self, view: &mut Snapshot) {
        if view.pod_budgets.is_empty() {
            return;
        }
        let mut budgets_of = BudgetsOfPod::new(self.snapshot);
        for (pod, spot) in self.snapshot.pods.iter().zip(&self.spots) {
            if spot.is_some() && pod.node.is_some() {
                for budget in budgets_of.pod(pod) {
                    let allowed = &mut view.pod_budgets[*budget].disruptions_allowed;
                    *allowed = allowed.saturating_sub(1);
                }
            }
        }
    }

    /// What the new nodes take of bounded reservations. Pools that can buy the same draw on the same machines.
    fn draw_reservations(&self, view: &mut Snapshot) {
        let mut drawn: FxHashMap<(&str, &str, &Labels), u32> = FxHashMap::default();
        for new in &self.new {
            let instance_type = &self.snapshot.pools[new.pool].types[new.instance_type];
            let offering = &instance_type.offerings[new.offering];
            if offering.remaining.is_some() {
                *drawn.entry((&*instance_type.name, &*offering.zone, &offering.labels)).or_insert(0) += 1;
            }
        }
        if drawn.is_empty() {
            return;
        }
        for pool in &mut view.pools {
            let types = pool.types.iter().map(|instance_type| {
                let mut left = (**instance_type).clone();
                for offering in &mut left.offerings {
                    let id = (&*instance_type.name, &*offering.zone, &offering.labels);
                    let taken = drawn.get(&id).copied().unwrap_or(0);
                    offering.remaining = offering.remaining.map(|remaining| remaining.saturating_sub(taken));
                }
                Arc::new(left)
            });
            pool.types = types.collect();
        }
    }

    /// Merges what a look at the view found. Whether it found anything.
    pub(super) fn merge(&mut self, view: &View, outcome: &Outcome) -> bool {
        let mut changed = !outcome.removed.is_empty();
        let mut given_up = vec![false; self.new.len()];
        for node in &outcome.removed {
            match view.origins[*node] {
                Spot::Node(node) => self.removed[node] = true,
                Spot::New(new) => given_up[new] = true,
            }
        }
        let mut kept: FxHashMap<usize, usize> = FxHashMap::default();
        let mut new = Vec::new();
        for (index, node) in self.new.iter().enumerate().filter(|(index, _)| !given_up[*index]) {
            kept.insert(index, new.len());
            new.push(node.clone());
        }
        let first = new.len();
        new.extend(outcome.new.iter().cloned());
        changed |= new.len() > first;
        self.new = new;
        let mut sequenced = FixedBitSet::with_capacity(self.spots.len());
        for (index, spot) in self.spots.iter_mut().enumerate() {
            // Room is only held for what does not exist: it is found anew each time.
            *spot = match *spot {
                _ if is_virtual(&self.snapshot.pods[index]) => None,
                Some(Spot::New(new)) => kept.get(&new).map(|new| Spot::New(*new)),
                other => other,
            };
        }
        for (pod, spot) in &outcome.binds {
            changed |= !is_virtual(&self.snapshot.pods[*pod]);
            self.spots[*pod] = Some(match spot {
                Spot::Node(node) => match view.origins[*node] {
                    Spot::New(new) => Spot::New(kept.get(&new).copied().unwrap_or(new)),
                    node @ Spot::Node(_) => node,
                },
                Spot::New(new) => Spot::New(first + new),
            });
            sequenced.grow(*pod + 1);
            sequenced.insert(*pod);
        }
        let spots = &self.spots;
        self.sequence.retain(|pod| !sequenced.contains(*pod) && spots[*pod].is_some());
        self.sequence.extend(outcome.binds.iter().map(|(pod, _)| *pod));
        changed
    }
}
