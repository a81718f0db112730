//! Nodes: those that run, and those on their way.

use std::collections::BTreeMap;

use crate::disruption::NodeDisruption;
use crate::names::{self, Labels, Text};
use crate::pod::{Taint, TaintEffect};
use crate::resources::Resources;
use crate::units::Price;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub name: Text,
    pub labels: Labels,
    /// With the taint of `spec.unschedulable`, if set.
    pub taints: Vec<Taint>,
    pub capacity: Resources,
    pub allocatable: Resources,
    pub state: NodeState,
    /// The pool it came from.
    pub pool: Option<Text>,
    /// What it costs, where the catalog knows its type.
    pub price: Option<Price>,
    /// How many volumes each CSI driver can attach.
    pub volume_limits: BTreeMap<Text, u32>,
    pub disruption: NodeDisruption,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeState {
    /// Registered, and past its startup taints (or not ours to judge).
    Running,
    /// Ours, and still starting: a claim without a node, or a node not yet initialized. Its startup
    /// taints and those of a node that is coming up will go away.
    Starting,
    /// Going away: takes no pods, and its pods need another place.
    Deleting,
}

impl Node {
    /// The taints a pod has to tolerate once the node is up.
    pub fn lasting_taints<'a>(&'a self, startup_taints: &'a [Taint]) -> impl Iterator<Item = &'a Taint> {
        self.taints.iter().filter(move |taint| {
            self.state != NodeState::Starting
                || !(is_ephemeral(taint)
                    || startup_taints.iter().any(|s| s.key == taint.key && s.effect == taint.effect))
        })
    }
}

/// A taint of a node that is coming up, which goes away by itself.
pub fn is_ephemeral(taint: &Taint) -> bool {
    match &*taint.key {
        names::TAINT_NOT_READY => taint.effect != TaintEffect::PreferNoSchedule,
        names::TAINT_UNREACHABLE => taint.effect == TaintEffect::NoSchedule,
        names::TAINT_CLOUD_UNINITIALIZED | names::TAINT_UNREGISTERED => true,
        key => key.starts_with(names::TAINT_READINESS_PREFIX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taints_of_a_starting_node_are_passing() {
        let startup = [Taint::new("cni", "", TaintEffect::NoSchedule)];
        let mut node = Node {
            name: "n".into(),
            labels: Labels::new(),
            taints: vec![
                startup[0].clone(),
                Taint::new(names::TAINT_NOT_READY, "", TaintEffect::NoExecute),
                Taint::new("readiness.k8s.io/gpu", "", TaintEffect::NoSchedule),
                Taint::new("team", "a", TaintEffect::NoSchedule),
            ],
            capacity: Resources::new(),
            allocatable: Resources::new(),
            state: NodeState::Starting,
            pool: None,
            price: None,
            volume_limits: BTreeMap::new(),
            disruption: NodeDisruption::default(),
        };
        let keys = |node: &Node| node.lasting_taints(&startup).map(|t| t.key.to_string()).collect::<Vec<_>>();
        assert_eq!(keys(&node), ["team"]);
        node.state = NodeState::Running;
        assert_eq!(keys(&node).len(), 4);
    }
}
