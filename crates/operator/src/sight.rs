//! What is seen of a claim, put together for [`berth_core::claim::step`].

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::Timestamp;
use berth_api::claims;
use berth_api::resources::karpenter::NodeClaim;
use berth_api::resources::shared::{Condition, ConditionStatus, is_true};
use berth_cloud::machine::MachineId;
use berth_core::claim::{MachineSight, NodeSight, NodeState, Sight};
use berth_core::names;
use berth_core::node::is_ephemeral;
use berth_core::pod::{Taint, TaintEffect};

use crate::objects::NodeObject;

/// Nodes by the machines that they say they run on. A name proves nothing: anybody may have it.
pub(crate) type NodesByMachine = BTreeMap<String, Vec<Arc<NodeObject>>>;

pub(crate) fn by_machine<'n>(nodes: impl Iterator<Item = &'n Arc<NodeObject>>) -> NodesByMachine {
    let mut by_machine = NodesByMachine::new();
    for node in nodes.filter(|node| !node.spec.provider_id.is_empty()) {
        by_machine.entry(node.spec.provider_id.clone()).or_default().push(Arc::clone(node));
    }
    by_machine
}

/// The machine of a claim, once it is launched.
pub(crate) fn machine_of(claim: &NodeClaim) -> Option<MachineId> {
    machine_in(&claim.status.as_ref()?.provider_id)
}

/// The machine that a provider id names.
pub(crate) fn machine_in(provider_id: &str) -> Option<MachineId> {
    provider_id.rsplit('/').next().filter(|id| !id.is_empty()).map(MachineId::from)
}

pub(crate) fn pool_of(claim: &NodeClaim) -> Option<&str> {
    claim.metadata.labels.as_ref()?.get(names::NODEPOOL).map(String::as_str)
}

pub(crate) fn conditions_of(claim: &NodeClaim) -> &[Condition] {
    claim.status.as_ref().map_or(&[], |status| &status.conditions)
}

pub(crate) fn node_of<'n>(claim: &NodeClaim, nodes: &'n NodesByMachine) -> Option<&'n Arc<NodeObject>> {
    let status = claim.status.as_ref()?;
    let of_machine = nodes.get(&status.provider_id)?;
    // A machine that joined twice is the node that it was first seen as.
    let known = of_machine.iter().find(|node| node.metadata.name == status.node_name);
    known.or_else(|| of_machine.first().filter(|_| status.node_name.is_empty()))
}

/// What else there is to know.
#[expect(clippy::struct_excessive_bools, reason = "each is known by itself")]
pub(crate) struct Surroundings<'a> {
    pub(crate) now: Timestamp,
    pub(crate) nodes: &'a NodesByMachine,
    pub(crate) sees_nodes: bool,
    pub(crate) is_committed: bool,
    pub(crate) machine: MachineSight,
    pub(crate) is_interrupted: bool,
    pub(crate) has_volumes: bool,
}

pub(crate) fn sight(claim: &NodeClaim, around: &Surroundings<'_>) -> Sight {
    let conditions = conditions_of(claim);
    let since = |time: Option<Timestamp>| time.map(|time| secs_between(time, around.now));
    let condition_since = |kind: &str| {
        let holds = |c: &&Condition| c.type_ == kind && c.status == ConditionStatus::True;
        let condition = conditions.iter().find(holds)?;
        since(condition.last_transition_time.as_ref().map(|time| time.0)).or(Some(0))
    };
    let node = match node_of(claim, around.nodes) {
        Some(node) => NodeSight::Present(state_of(node, claim, around.has_volumes)),
        None if around.sees_nodes => NodeSight::Absent,
        None => NodeSight::Unseen,
    };
    Sight {
        age_secs: since(claim.metadata.creation_timestamp.as_ref().map(|time| time.0)).unwrap_or(0),
        is_committed: around.is_committed,
        launched_secs: machine_of(claim).and(condition_since("Launched").or(Some(0))),
        is_registered: is_true(conditions, "Registered"),
        is_initialized: is_true(conditions, "Initialized"),
        node,
        machine: around.machine,
        is_interrupted: around.is_interrupted,
        deleting_secs: since(claim.metadata.deletion_timestamp.as_ref().map(|time| time.0)),
        termination_grace_secs: claim.spec.termination_grace_period.map(|grace| grace.as_std().as_secs()),
        is_drained: is_true(conditions, "Drained"),
    }
}

fn state_of(node: &NodeObject, claim: &NodeClaim, has_volumes: bool) -> NodeState {
    let startup = &claim.spec.startup_taints;
    let is_passing = |taint: &crate::objects::Taint| {
        let effect = TaintEffect::parse(&taint.effect).unwrap_or(TaintEffect::NoSchedule);
        is_ephemeral(&Taint::new(&taint.key, &taint.value, effect))
            || startup
                .iter()
                .any(|s| s.key == taint.key && TaintEffect::from(s.effect).name() == taint.effect)
    };
    let promised = claim.spec.resources.requests.keys();
    NodeState {
        is_ready: node.is_ready(),
        has_passing_taints: node.spec.taints.iter().any(is_passing),
        has_resources: promised
            .into_iter()
            .all(|resource| node.status.allocatable.get(resource).is_some_and(|amount| amount != "0")),
        is_deleting: node.metadata.deletion_timestamp.is_some(),
        is_closed: node.is_closed(),
        has_volumes,
    }
}

/// A claim that Berth made.
pub(crate) fn is_ours(claim: &NodeClaim) -> bool {
    claim.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(claims::OFFERINGS))
}

/// Never less than none: clocks differ.
pub(crate) fn secs_between(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.duration_since(from).as_secs()).unwrap_or(0)
}
