//! How full groups are once their nodes are replaced.

use std::collections::BTreeSet;

use super::disruption::{Moving, reason};
use super::place::Place;
use super::violation::Violation;
use crate::disruption::{DisruptionReason, SafetyChecks};
use crate::names::Text;
use crate::node::{Node, NodeState};
use crate::plan::{Host, Plan};
use crate::pool::Pool;
use crate::resources::{CPU, MEMORY, Resources};
use crate::snapshot::Snapshot;

/// What nodes have, and what is asked of them, of one resource.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    given: i128,
    asked: i128,
}

impl Load {
    fn of(resource: &str, given: &Resources, asked: &Resources) -> Self {
        Self { given: given.get(resource).into(), asked: asked.get(resource).into() }
    }

    fn add(&mut self, other: Self) {
        self.given += other.given;
        self.asked += other.asked;
    }

    /// Rounded down.
    fn percent(self) -> i128 {
        if self.given > 0 { self.asked * 100 / self.given } else { 0 }
    }

    /// By how much more is asked than this share, and than what rounding down makes of it, in hundredths.
    fn excess(self, percent: i128) -> i128 {
        self.asked * 100 - self.given * (percent + 1)
    }
}

/// A group whose nodes are replaced is not asked for more than VPSie's check of capacity lets be, or no more than before,
/// counting what is bought.
///
/// Nodes may go for good in the same plan, before a replacement or after it, and do not depend on it: they, and what is on
/// them, count where that makes the group less full. What comes from elsewhere is not the replacement's doing.
pub(super) fn check_fullness(
    snapshot: &Snapshot,
    plan: &Plan,
    moving: &Moving,
    places: &[Place],
) -> Vec<Violation> {
    let groups = snapshot.pools.iter().filter(|pool| pool.disruption.checks.is_some());
    let full = groups.filter_map(|pool| {
        let look = Look { snapshot, plan, moving, places, pool };
        let replaced = look.replaced();
        if replaced.is_empty() {
            return None;
        }
        let most = |before: i128| before.max(SafetyChecks::ASKED_MAX_PERCENT.into());
        let before = [CPU, MEMORY].map(|resource| look.before(resource).percent());
        let most = before.into_iter().map(most).max()?;
        let is_full = [CPU, MEMORY].into_iter().any(|resource| look.exceeds(resource, &replaced, most));
        is_full.then(|| Violation::GroupTooFull { pool: pool.name.clone(), percent: most })
    });
    full.collect()
}

struct Look<'a> {
    snapshot: &'a Snapshot,
    plan: &'a Plan,
    moving: &'a Moving,
    /// The nodes, then the launches.
    places: &'a [Place],
    pool: &'a Pool,
}

impl Look<'_> {
    fn is_of_group(&self, pool: Option<&Text>) -> bool {
        pool == Some(&self.pool.name)
    }

    fn nodes(&self) -> impl Iterator<Item = (usize, &Node)> {
        let nodes = self.snapshot.nodes.iter().enumerate();
        nodes.filter(|(_, node)| self.is_of_group(node.pool.as_ref()) && node.state != NodeState::Deleting)
    }

    /// The group's nodes for which something is bought, to save money.
    fn replaced(&self) -> BTreeSet<usize> {
        let buys = |step: usize| {
            let moves = |pod: usize| self.moving.step_of_pod.get(pod).copied().flatten() == Some(step);
            let is_listed = self.plan.disruptions.get(step).is_some_and(|step| !step.replacements.is_empty());
            is_listed
                || self.plan.binds.iter().any(|bind| matches!(bind.host, Host::Launch(_)) && moves(bind.pod))
        };
        let is_replaced = |(index, node): &(usize, &Node)| {
            let step = self.moving.step_of_node.get(*index).copied().flatten();
            let reason = reason(self.snapshot, node);
            let for_money = matches!(reason, DisruptionReason::Empty | DisruptionReason::Underutilized);
            for_money && step.is_some_and(buys)
        };
        self.nodes().filter(is_replaced).map(|(index, _)| index).collect()
    }

    /// What a node is asked for, by the pods on it and the DaemonSets that will be.
    fn of_node(&self, index: usize, node: &Node, resource: &str) -> Load {
        let mut asked = self.places.get(index).map(|place| place.daemons.clone()).unwrap_or_default();
        let pods = self.snapshot.pods.iter();
        for pod in pods.filter(|pod| pod.is_active() && pod.node.as_ref() == Some(&node.name)) {
            asked.add(&pod.spec.requests);
        }
        Load::of(resource, &node.allocatable, &asked)
    }

    /// What the launches of the group have that these are, with their DaemonSets.
    fn launched(&self, resource: &str, counts: impl Fn(usize) -> bool) -> Load {
        let mut all = Load::default();
        for (index, launch) in self.plan.launches.iter().enumerate() {
            if self.is_of_group(Some(&launch.pool)) && counts(index) {
                let place = self.places.get(self.snapshot.nodes.len() + index);
                let daemons = place.map(|place| place.daemons.clone()).unwrap_or_default();
                all.add(Load::of(resource, &launch.allocatable, &daemons));
            }
        }
        all
    }

    /// What pods ask of the group's places that the plan binds there.
    fn bound(&self, resource: &str, counts: impl Fn(usize) -> bool) -> Load {
        let is_here = |host: Host| match host {
            Host::Node(node) => {
                self.snapshot.nodes.get(node).is_some_and(|node| self.is_of_group(node.pool.as_ref()))
            }
            Host::Launch(launch) => {
                self.plan.launches.get(launch).is_some_and(|launch| self.is_of_group(Some(&launch.pool)))
            }
        };
        let binds = self.plan.binds.iter().filter(|bind| is_here(bind.host) && counts(bind.pod));
        let pods = binds.filter_map(|bind| self.snapshot.pods.get(bind.pod));
        let asked = pods.map(|pod| i128::from(pod.spec.requests.get(resource))).sum();
        Load { given: 0, asked }
    }

    fn waits(&self, pod: usize) -> bool {
        self.moving.step_of_pod.get(pod).copied().flatten().is_none()
    }

    /// Once pods that wait have their places, before anything goes.
    fn before(&self, resource: &str) -> Load {
        let replacements: BTreeSet<usize> =
            self.plan.disruptions.iter().flat_map(|step| &step.replacements).copied().collect();
        let mut all = self.launched(resource, |launch| !replacements.contains(&launch));
        all.add(self.bound(resource, |pod| self.waits(pod)));
        self.nodes().for_each(|(index, node)| all.add(self.of_node(index, node, resource)));
        all
    }

    /// Whether more than this share is asked for afterwards, whatever of what goes for good is counted.
    fn exceeds(&self, resource: &str, replaced: &BTreeSet<usize>, percent: i128) -> bool {
        let names: BTreeSet<&Text> =
            replaced.iter().filter_map(|node| Some(&self.snapshot.nodes.get(*node)?.name)).collect();
        let is_replaced = |pod: usize| {
            let node = self.snapshot.pods.get(pod).and_then(|pod| pod.node.as_ref());
            node.is_some_and(|node| names.contains(node))
        };
        let mut sure = self.launched(resource, |_| true);
        sure.add(self.bound(resource, |pod| self.waits(pod) || is_replaced(pod)));
        let mut relief = 0;
        for (index, node) in self.nodes().filter(|(index, _)| !replaced.contains(index)) {
            let load = self.of_node(index, node, resource);
            sure.add(load);
            if self.moving.step_of_node.get(index).copied().flatten().is_some() {
                relief += load.excess(percent).max(0);
            }
        }
        sure.excess(percent) > relief
    }
}
