//! What is seen of a claim, put together for [`berth_core::claim::step`].

use std::sync::Arc;

use berth_api::Timestamp;
use berth_core::claim::{Deadlines, Failures, MachineSight, NodeSight, NodeState, Sight};
use berth_core::names::{self, Text};
use berth_core::node::is_ephemeral;
use berth_core::pod::{Taint, TaintEffect};

use crate::claim::{Claim, ENDED, FAILED, RUNNING};
use crate::dialect::Dialect;
use crate::discovery::{NodesByMachine, node_of};
use crate::objects::{self, NodeObject};

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
    pub(crate) grace_secs: Option<u64>,
    pub(crate) failures: Failures,
    pub(crate) deadlines: Deadlines,
}

pub(crate) fn sight(claim: &Claim, around: &Surroundings<'_>) -> Sight {
    let since = |time: Option<Timestamp>| time.map(|time| secs_between(time, around.now));
    let node = match node_of(claim, around.nodes) {
        Some(node) => NodeSight::Present(state_of(node, claim, around.has_volumes)),
        None if around.sees_nodes => NodeSight::Absent,
        None => NodeSight::Unseen,
    };
    let age_secs = since(claim.created).unwrap_or(0);
    Sight {
        age_secs,
        is_committed: around.is_committed,
        launched_secs: claim.machine().map(|_| since(claim.held_since("Launched")).unwrap_or(age_secs)),
        running_secs: since(claim.held_since(RUNNING)),
        is_unconfirmed: claim.machine().is_some() && !claim.holds("Launched"),
        is_registered: claim.holds("Registered") && !is_untold(claim, around),
        is_initialized: claim.holds("Initialized"),
        node,
        machine: around.machine,
        is_interrupted: around.is_interrupted,
        deleting_secs: since(claim.deleting),
        termination_grace_secs: around.grace_secs,
        owes_deadline: claim.owes_deadline(),
        is_drained: claim.holds("Drained"),
        failed_secs: since(claim.held_since(FAILED)),
        is_ended: claim.holds(ENDED),
        failures: around.failures,
        deadlines: around.deadlines,
    }
}

/// Whether its node is up, and was never told what its group says: another autoscaler brought it up.
fn is_untold(claim: &Claim, around: &Surroundings<'_>) -> bool {
    let is_untold = |node: &Arc<NodeObject>| !node.metadata.labels.contains_key(names::REGISTERED);
    claim.dialect == Dialect::Vpsie
        && around.machine != MachineSight::Absent
        && node_of(claim, around.nodes).is_some_and(is_untold)
}

/// A taint that goes away while a node comes up.
pub(crate) enum Passing<'n> {
    /// The claim says so.
    Startup(&'n objects::Taint),
    /// Kubernetes does.
    Ephemeral(&'n objects::Taint),
}

pub(crate) fn passing_taint<'n>(node: &'n NodeObject, claim: &Claim) -> Option<Passing<'n>> {
    let is_startup = |taint: &&objects::Taint| {
        let is_it = |startup: &Taint| *startup.key == *taint.key && startup.effect.name() == taint.effect;
        claim.startup_taints.iter().any(is_it)
    };
    let is_ephemeral = |taint: &&objects::Taint| {
        let effect = TaintEffect::parse(&taint.effect).unwrap_or(TaintEffect::NoSchedule);
        is_ephemeral(&Taint::new(&taint.key, &taint.value, effect))
    };
    let startup = node.spec.taints.iter().find(is_startup).map(Passing::Startup);
    startup.or_else(|| node.spec.taints.iter().find(is_ephemeral).map(Passing::Ephemeral))
}

/// What the claim promises and its node does not report. One that has been up has had it, and is not asked for it again.
pub(crate) fn missing_resource<'c>(node: &NodeObject, claim: &'c Claim) -> Option<&'c Text> {
    let is_there = |resource: &str| node.status.allocatable.get(resource).is_some_and(|amount| amount != "0");
    claim.promised.iter().find(|resource| !is_there(resource)).filter(|_| !node.is_initialized())
}

pub(crate) fn state_of(node: &NodeObject, claim: &Claim, has_volumes: bool) -> NodeState {
    NodeState {
        is_ready: node.is_ready(),
        has_passing_taints: passing_taint(node, claim).is_some(),
        has_resources: missing_resource(node, claim).is_none(),
        is_deleting: node.is_deleting(),
        is_closed: node.is_closed(),
        has_volumes,
    }
}

/// Never less than none: clocks differ.
pub(crate) fn secs_between(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.duration_since(from).as_secs()).unwrap_or(0)
}
