//! May this pod run there, as far as labels, taints and volumes decide; and if not, why not.
//!
//! "There" is always concrete: an existing node, or a node that could be bought with its labels fixed.
//! So the OR-terms of an affinity are judged directly and exactly, with no order of trying them.

use crate::names::{self, Text};
use crate::node::Node;
use crate::pod::{PodSpec, Taint, TaintEffect, Toleration};
use crate::pool::Pool;
use crate::reason::{Reason, Refusal};
use crate::requirement::{Expression, NodeTerm};
use crate::volume::VolumeDemand;

/// A node's labels, wherever they come from.
pub trait LabelSource {
    fn label(&self, key: &str) -> Option<&str>;

    /// The node's name, where it has one already.
    fn name(&self) -> &str;

    /// Whether it is one that would have to be bought, and is not for pods that are fresh.
    fn awaits_pods(&self) -> bool {
        false
    }
}

impl LabelSource for Node {
    fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).map(|value| &**value)
    }

    fn name(&self) -> &str {
        &self.name
    }
}

fn term_matches(term: &NodeTerm, node: &impl LabelSource) -> bool {
    term.matches_node(|key| node.label(key), node.name())
}

pub fn tolerates(tolerations: &[Toleration], taint: &Taint) -> bool {
    tolerations.iter().any(|toleration| toleration.tolerates(taint))
}

/// The first taint of `effects` that is not tolerated.
pub fn untolerated<'a>(
    tolerations: &[Toleration],
    mut taints: impl Iterator<Item = &'a Taint>,
    soft: SoftTaints,
) -> Option<&'a Taint> {
    taints.find(|taint| {
        (taint.effect != TaintEffect::PreferNoSchedule || soft == SoftTaints::Avoid)
            && !tolerates(tolerations, taint)
    })
}

/// Of which resources more is asked for than is left, by their place in both lists. What is not asked for may be
/// overdrawn.
pub fn lacking<'a>(asked: &'a [i64], left: &'a [i64]) -> impl Iterator<Item = usize> + 'a {
    let pairs = asked.iter().zip(left).enumerate();
    pairs.filter(|(_, (asked, left))| **asked > 0 && left < asked).map(|(index, _)| index)
}

/// What a `PreferNoSchedule` taint counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SoftTaints {
    Accept,
    Avoid,
}

/// What a pod asks of a node's labels and taints. Pods with equal demands may run on the same nodes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeDemand {
    pub selector: Vec<Expression>,
    pub affinity: Option<Vec<NodeTerm>>,
    /// Preferences that are still treated as requirements.
    pub preferences: Vec<NodeTerm>,
    pub tolerations: Vec<Toleration>,
    pub soft_taints: SoftTaints,
    /// For each volume the terms of which one must match; volumes that may be anywhere are left out.
    pub volumes: Vec<Vec<NodeTerm>>,
    pub is_fresh: bool,
}

impl NodeDemand {
    /// What is required, without preferences.
    pub fn required(spec: &PodSpec, volumes: &[VolumeDemand]) -> Self {
        let mut volumes: Vec<_> =
            volumes.iter().map(|volume| volume.terms.clone()).filter(|terms| !terms.is_empty()).collect();
        volumes.sort();
        volumes.dedup();
        Self {
            selector: spec.node_selector.clone(),
            affinity: spec.node_affinity.clone(),
            preferences: Vec::new(),
            tolerations: spec.tolerations.clone(),
            soft_taints: SoftTaints::Accept,
            volumes,
            is_fresh: false,
        }
    }

    /// Every label key that the demand looks at.
    pub fn keys(&self) -> impl Iterator<Item = &Expression> {
        self.selector.iter().chain(
            self.affinity
                .iter()
                .flatten()
                .chain(&self.preferences)
                .chain(self.volumes.iter().flatten())
                .flat_map(|term| &term.expressions),
        )
    }

    pub fn selector_refusal(&self, node: &impl LabelSource) -> Option<&Expression> {
        self.selector.iter().find(|e| !e.matches(node.label(e.key())))
    }

    pub fn affinity_admits(&self, node: &impl LabelSource) -> bool {
        self.affinity.as_ref().is_none_or(|terms| terms.iter().any(|term| term_matches(term, node)))
    }

    pub fn volumes_admit(&self, node: &impl LabelSource) -> bool {
        self.volumes.iter().all(|terms| terms.iter().any(|term| term_matches(term, node)))
    }

    fn is_early_for(&self, node: &impl LabelSource) -> bool {
        self.is_fresh && node.awaits_pods()
    }

    pub fn preferences_admit(&self, node: &impl LabelSource) -> bool {
        self.preferences.iter().all(|term| term_matches(term, node))
    }

    /// Labels only: what topology spread counts as an eligible node under `nodeAffinityPolicy: Honor`.
    pub fn selects(&self, node: &impl LabelSource) -> bool {
        self.selector_refusal(node).is_none() && self.affinity_admits(node)
    }

    pub fn admits<'a>(&self, node: &impl LabelSource, taints: impl Iterator<Item = &'a Taint>) -> bool {
        !self.is_early_for(node)
            && untolerated(&self.tolerations, taints, self.soft_taints).is_none()
            && self.selects(node)
            && self.volumes_admit(node)
            && self.preferences_admit(node)
    }

    /// Why a node with these labels and taints is refused, in the order in which rules are judged.
    pub fn refusal<'a>(
        &self,
        node: &impl LabelSource,
        taints: impl Iterator<Item = &'a Taint>,
    ) -> Option<Refusal> {
        if let Some(taint) = untolerated(&self.tolerations, taints, SoftTaints::Accept) {
            return Some(
                Reason::UntoleratedTaint.because(format!("the pod does not tolerate the taint {taint}")),
            );
        }
        if let Some(expression) = self.selector_refusal(node) {
            let key = expression.key();
            let has =
                node.label(key).map_or("has no such label".to_owned(), |value| format!("has {key}={value}"));
            return Some(
                Reason::NodeSelector.because(format!("the pod asks for {expression}; the node {has}")),
            );
        }
        if !self.affinity_admits(node) {
            let terms =
                self.affinity.iter().flatten().map(ToString::to_string).filter(|term| !term.is_empty());
            let terms = terms.collect::<Vec<_>>();
            let asked = if terms.is_empty() { "nothing that exists".to_owned() } else { terms.join(", or ") };
            return Some(
                Reason::NodeAffinity.because(format!("the pod's required affinity asks for {asked}")),
            );
        }
        if !self.volumes_admit(node) {
            let terms =
                self.volumes.iter().flatten().map(ToString::to_string).collect::<Vec<_>>().join(", or ");
            return Some(Reason::VolumeTopology.because(format!("the pod's volumes are bound to {terms}")));
        }
        if self.is_early_for(node) {
            return Some(Reason::PoolResting.because("the pod has not waited for as long as the pool wants"));
        }
        None
    }
}

/// Why a pod asks for a label that no bought node can have, if it does.
pub fn restricted_label(spec: &PodSpec) -> Option<(&Text, &'static str)> {
    let asked = |e: &&Expression| {
        matches!(e.operator(), crate::requirement::Operator::In | crate::requirement::Operator::Exists)
    };
    spec.node_selector
        .iter()
        .filter(asked)
        .find_map(|e| names::restriction(e.key()).map(|why| (e.key(), why)))
}

/// The tolerations that the DaemonSet controller gives to every pod of a DaemonSet.
pub fn daemon_tolerations() -> [Toleration; 6] {
    let exists = |key: &str, effect| Toleration { key: Some(key.into()), value: None, effect: Some(effect) };
    [
        exists(names::TAINT_NOT_READY, TaintEffect::NoExecute),
        exists(names::TAINT_UNREACHABLE, TaintEffect::NoExecute),
        exists("node.kubernetes.io/disk-pressure", TaintEffect::NoSchedule),
        exists("node.kubernetes.io/memory-pressure", TaintEffect::NoSchedule),
        exists("node.kubernetes.io/pid-pressure", TaintEffect::NoSchedule),
        exists(names::TAINT_UNSCHEDULABLE, TaintEffect::NoSchedule),
    ]
}

/// What a DaemonSet's pods ask of a node.
pub fn daemon_demand(spec: &PodSpec) -> NodeDemand {
    let mut demand = NodeDemand::required(spec, &[]);
    demand.tolerations.extend(daemon_tolerations());
    demand
}

/// The startup taints of the pool that a node came from.
pub fn startup_taints<'a>(node: &Node, pools: &'a [Pool]) -> &'a [Taint] {
    node.pool
        .as_ref()
        .and_then(|name| pools.iter().find(|pool| pool.name == *name))
        .map_or(&[], |pool| &pool.startup_taints)
}
