//! The kubelets of all nodes: they say how their nodes are, and run the pods that are bound to them.
//!
//! Every Node has one, whoever made it. It does what it is told by `Kubelets`, and runs no programs: how long
//! containers run and how they end, pods say themselves (`wishes`).

mod containers;
mod node;
mod plan;
mod pod;
mod room;
mod wishes;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

use berth_core::resources::Resources;
use jiff::Timestamp;

use self::plan::{Plan, locked};
use self::pod::{Forgiven, Host, Step};
use self::room::Room;
use super::daemonsets::is_selected;
use super::{Controller, Decision, Report, Severity, View};
use crate::api::{Act, Propagation};
use crate::json::Value;
use crate::object;
use crate::store::{Change, Key};

pub use plan::Kubelets;
pub(crate) use plan::Plan as KubeletPlan;
pub(crate) use plan::locked as locked_plan;
pub(crate) use room::{amounts, of_containers};

const NAME: &str = "kubelet";
const MISPLACED: &str = "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector";

#[derive(Debug)]
pub(crate) struct Kubelet {
    plan: Arc<Mutex<Plan>>,
    addresses: Addresses,
    room: Room,
    /// Nodes that have been reported, with what their pods need to know.
    grounds: BTreeMap<Arc<str>, Ground>,
    /// The pods of which has been told that they are stopped.
    stopping: BTreeSet<Key>,
    /// The restarts that are forgotten, of the few pods that have such.
    forgiven: BTreeMap<Key, Forgiven>,
    /// Until when there is nothing to say of a node but that it lives, if it does not change.
    settled: BTreeMap<Arc<str>, Timestamp>,
}

impl Kubelet {
    pub(crate) fn new(kubelets: &Kubelets) -> Self {
        Self {
            plan: kubelets.plan(),
            addresses: Addresses::default(),
            room: Room::default(),
            grounds: BTreeMap::new(),
            stopping: BTreeSet::new(),
            forgiven: BTreeMap::new(),
            settled: BTreeMap::new(),
        }
    }

    fn see_to_node(&mut self, key: &Key, view: View<'_>) -> Decision {
        let manner = {
            let plan = locked(&self.plan);
            if plan.is_silent(key.name()) {
                return Decision::none();
            }
            plan.manner(key.name())
        };
        let now = view.now();
        let lease = view.get(&Key::new(node::LEASES, node::LEASE_NAMESPACE, key.name()));
        let settled = self.settled.get(key.name()).copied().filter(|until| now < *until);
        if let (Some(until), Some(lease)) = (settled, &lease) {
            let (renewal, next) = node::renewal(lease, now);
            return Decision {
                acts: renewal.into_iter().collect(),
                again: Some(next.min(until)),
                ..Decision::none()
            };
        }
        let Some(node) = view.get(key) else { return Decision::none() };
        let (renewal, renewed_next) = match &lease {
            Some(lease) => node::renewal(lease, now),
            None => (Some(node::first_lease(&node, now)), node::renewed_next(now)),
        };
        let (is_ready, changes_at) = manner.is_ready_at(now);
        // One at a time: each is written upon what was read. The change gives reason to look again.
        let (act, reported_next) = if let Some(labelled) = node::labelled(&node) {
            (Some(Act::Update("nodes", labelled)), now)
        } else {
            let (status, next) = node::reported(&node, is_ready, now, || self.addresses.for_node());
            (status.map(|node| Act::UpdateStatus("nodes", node)), next)
        };
        let until = changes_at.map_or(reported_next, |at| at.min(reported_next));
        if act.is_none() {
            self.settled.insert(key.name().into(), until);
        }
        let acts = renewal.into_iter().chain(act).collect();
        Decision { acts, again: Some(renewed_next.min(until)), ..Decision::none() }
    }

    fn see_to_pod(&mut self, key: &Key, view: View<'_>) -> Decision {
        let Some(pod) = view.get(key) else {
            self.stopping.remove(key);
            self.forgiven.remove(key);
            return Decision::none();
        };
        let name = object::text(&pod, &["spec", "nodeName"]);
        // Before it runs anything, a kubelet has said what its node is.
        let Some(ground) = self.grounds.get(name) else { return Decision::none() };
        let start_delay = {
            let plan = locked(&self.plan);
            if plan.is_silent(name) {
                return Decision::none();
            }
            plan.start_delay(object::uid(&pod))
        };
        if !pod["status"].is_object() {
            return Decision::none();
        }
        if object::is_terminating(&pod) {
            let is_new = self.stopping.insert(key.clone());
            return decided(&pod, pod::stop(&pod, view.now(), is_new));
        }
        if pod::is_done(&pod) {
            return Decision::none();
        }
        let shortage =
            if pod::is_taken_in(&pod) { None } else { self.room.shortage(&pod, name, &ground.allocatable) };
        if let Some(shortage) = shortage {
            let refused = pod::refuse(&pod, &shortage.reason(), &shortage.message(), view.now());
            let told = vec![(Severity::Warning, shortage.told_reason(), shortage.message())];
            return decided(&pod, Step { pod: Some(refused), told, ..Step::default() });
        }
        let node = if pod::is_taken_in(&pod) { None } else { view.get(&Key::new("nodes", "", name)) };
        if node.is_some_and(|node| !is_selected(&pod["spec"], &node)) {
            let refused = pod::refuse(&pod, "NodeAffinity", MISPLACED, view.now());
            let told = vec![(Severity::Warning, "NodeAffinity", MISPLACED.to_owned())];
            return decided(&pod, Step { pod: Some(refused), told, ..Step::default() });
        }
        let forgiven = self.forgiven.get(key);
        let host = Host { ip: &ground.ip, start_delay, forgiven, now: view.now() };
        let mut step = pod::go_on(&pod, host, || self.addresses.for_pod());
        if !step.forgiven.is_empty() {
            self.forgiven.insert(key.clone(), std::mem::take(&mut step.forgiven));
        }
        decided(&pod, step)
    }
}

/// What is written of a step.
fn decided(pod: &Arc<Value>, step: Step) -> Decision {
    let tell = |(severity, reason, message)| Report::about(pod, severity, reason, message, NAME);
    let mut acts: Vec<Act> = step.pod.map(|pod| Act::UpdateStatus("pods", pod)).into_iter().collect();
    let grace = object::at(pod, "/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64);
    // What somebody else keeps waiting is deleted once.
    let is_deleted = grace == Some(0) && pod::is_done(pod);
    if step.is_over && !is_deleted {
        acts.push(Act::Delete {
            resource: "pods".into(),
            object: pod.clone(),
            grace_secs: Some(0),
            propagation: Propagation::Background,
        });
    }
    Decision { acts, reports: step.told.into_iter().map(tell).collect(), again: step.again }
}

impl Controller for Kubelet {
    fn name(&self) -> &'static str {
        NAME
    }

    fn observe(&mut self, change: &Change, view: View<'_>) -> Vec<Key> {
        match change.key.resource() {
            "nodes" => {
                self.addresses.learn(change);
                self.settled.remove(change.key.name());
                let ground = change.after.as_deref().and_then(Ground::of);
                let mut keys = vec![change.key.clone()];
                if let Some(ground) = ground {
                    // Pods wait for their ground.
                    if self.grounds.insert(change.key.name().into(), ground).is_none() {
                        keys.extend(view.keys_on(change.key.name()).cloned());
                    }
                } else {
                    self.grounds.remove(change.key.name());
                }
                keys
            }
            "pods" => {
                self.addresses.learn(change);
                self.room.learn(change);
                let of = change.after.as_ref().or(change.before.as_ref());
                let is_bound = of.is_some_and(|pod| !object::text(pod, &["spec", "nodeName"]).is_empty());
                is_bound.then(|| change.key.clone()).into_iter().collect()
            }
            node::LEASES if change.after.is_none() && change.key.namespace() == node::LEASE_NAMESPACE => {
                vec![Key::new("nodes", "", change.key.name())]
            }
            _ => Vec::new(),
        }
    }

    fn stir(&mut self, view: View<'_>) -> Vec<Key> {
        let stirred: Vec<Key> = locked(&self.plan).take_stirred().collect();
        for node in &stirred {
            self.settled.remove(node.name());
        }
        let pods = stirred.iter().flat_map(|node| view.keys_on(node.name()).cloned());
        stirred.iter().cloned().chain(pods).collect()
    }

    fn decide(&mut self, key: &Key, view: View<'_>) -> Decision {
        if key.resource() == "nodes" { self.see_to_node(key, view) } else { self.see_to_pod(key, view) }
    }
}

/// What pods stand on.
#[derive(Debug)]
struct Ground {
    ip: String,
    allocatable: Resources,
}

impl Ground {
    fn of(node: &Value) -> Option<Self> {
        let allocatable = amounts(object::at(node, "/status/allocatable")?);
        Some(Self { ip: node::internal_ip(node)?.to_owned(), allocatable })
    }
}

/// Which addresses are given away: one after the other, of nodes and pods apart.
#[derive(Debug, Default)]
struct Addresses {
    nodes: u32,
    pods: u32,
}

const NODE_ADDRESSES: u32 = u32::from_be_bytes([10, 0, 0, 0]);
const POD_ADDRESSES: u32 = u32::from_be_bytes([10, 64, 0, 0]);
/// So many each: a quarter of 10.0.0.0/8.
const ADDRESSES: u32 = 1 << 22;

impl Addresses {
    fn for_node(&mut self) -> Ipv4Addr {
        self.nodes = (self.nodes + 1) % ADDRESSES;
        Ipv4Addr::from(NODE_ADDRESSES + self.nodes)
    }

    fn for_pod(&mut self) -> Ipv4Addr {
        self.pods = (self.pods + 1) % ADDRESSES;
        Ipv4Addr::from(POD_ADDRESSES + self.pods)
    }

    /// Those that are there already are not given again.
    fn learn(&mut self, change: &Change) {
        let (None, Some(object)) = (&change.before, &change.after) else { return };
        let is_node = change.key.resource() == "nodes";
        let (text, first, used) = if is_node {
            (node::internal_ip(object), NODE_ADDRESSES, &mut self.nodes)
        } else {
            (object::at(object, "/status/podIP").and_then(Value::as_str), POD_ADDRESSES, &mut self.pods)
        };
        let address: Option<Ipv4Addr> = text.and_then(|text| text.parse().ok());
        let index = address.and_then(|address| u32::from(address).checked_sub(first));
        if let Some(index) = index.filter(|index| *index < ADDRESSES) {
            *used = (*used).max(index);
        }
    }
}

#[cfg(test)]
mod tests;
