//! Node lifecycle: who has not been heard of is unreachable, and nodes are tainted as their conditions are.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::{Controller, Decision, Report, Severity, View};
use crate::api::Act;
use crate::json::{Value, json};
use crate::object;
use crate::store::{Change, Key};

/// After so long without a sign of life a node's conditions are unknown.
const GRACE: SignedDuration = SignedDuration::from_secs(50);
/// A node that has never said anything gets longer.
const STARTUP_GRACE: SignedDuration = SignedDuration::from_secs(60);

/// In each zone one node after the other gets the taint that drives its pods away, so far apart,
const EVICTION_EVERY: SignedDuration = SignedDuration::from_secs(10);
/// and much farther where most of a large zone is not ready: then it is rather the network.
const EVICTION_EVERY_IN_DISRUPTION: SignedDuration = SignedDuration::from_secs(100);
/// In zones up to this size it does not happen at all then.
const LARGE_ZONE: usize = 50;
/// Of a hundred nodes, so many are most, if they are more than two.
const DISRUPTED_PERCENT: usize = 55;

/// How often is looked whether a taint that is held back may be given.
const HELD_BACK: SignedDuration = SignedDuration::from_secs(5);

const COMPONENT: &str = "node-controller";
const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Which taint a condition gives a node, in which status.
const TAINTS: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
];

/// The conditions that are the kubelet's.
const OF_KUBELET: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// Labels that have an older name.
const RENAMED: [(&str, &str); 2] =
    [("kubernetes.io/os", "beta.kubernetes.io/os"), ("kubernetes.io/arch", "beta.kubernetes.io/arch")];

/// For how long kubelets may keep what they have read, in seconds, by how many nodes there are at most.
const KEPT: &str = "node.alpha.kubernetes.io/ttl";
const KEPT_SECS: [(usize, &str); 6] =
    [(100, "0"), (500, "15"), (1000, "30"), (2000, "60"), (10_000, "300"), (usize::MAX, "600")];

#[derive(Debug, Default)]
pub(crate) struct NodeLifecycle {
    nodes: BTreeMap<Arc<str>, Known>,
    zones: BTreeMap<String, Zone>,
    /// Nodes that are gone, as long as nobody has been told.
    gone: BTreeMap<Arc<str>, Value>,
    was_all_down: bool,
}

#[derive(Debug)]
struct Known {
    heard: Timestamp,
    zone: String,
    is_ready: bool,
    is_told: bool,
    /// There was nothing to do when it was last looked at, and it has not changed since.
    is_settled: bool,
}

#[derive(Debug, Default)]
struct Zone {
    ready: usize,
    not_ready: usize,
    /// Before this no other node is tainted.
    evicts_next: Option<Timestamp>,
}

impl Zone {
    /// How far apart its nodes are tainted; `None` where they are not.
    fn pace(&self) -> Option<SignedDuration> {
        let all = self.ready + self.not_ready;
        let is_disrupted =
            self.ready > 0 && self.not_ready > 2 && self.not_ready * 100 >= all * DISRUPTED_PERCENT;
        if !is_disrupted {
            Some(EVICTION_EVERY)
        } else if all > LARGE_ZONE {
            Some(EVICTION_EVERY_IN_DISRUPTION)
        } else {
            None
        }
    }
}

impl NodeLifecycle {
    fn count(&mut self, zone: &str, is_ready: bool, by: isize) {
        let zone = self.zones.entry(zone.to_owned()).or_default();
        let counted = if is_ready { &mut zone.ready } else { &mut zone.not_ready };
        *counted = counted.saturating_add_signed(by);
    }

    fn learn(&mut self, change: &Change, now: Timestamp) {
        let name = change.key.name();
        if let Some(known) = self.nodes.remove(name) {
            self.count(&known.zone, known.is_ready, -1);
            match &change.after {
                Some(node) => self.keep(name, node, heard(change, now).unwrap_or(known.heard), known.is_told),
                None => {
                    self.gone.extend(change.before.as_ref().map(|node| (name.into(), id(node))));
                }
            }
        } else if let Some(node) = &change.after {
            let created = object::time_at(node, &["metadata", "creationTimestamp"]).unwrap_or(now);
            let has_spoken = object::condition(node, "Ready").is_some();
            self.keep(name, node, if has_spoken { now } else { created }, false);
        }
    }

    fn keep(&mut self, name: &str, node: &Value, heard: Timestamp, is_told: bool) {
        let label = |label: &str| object::text(node, &["metadata", "labels", label]);
        let zone =
            format!("{}:{}", label("topology.kubernetes.io/region"), label("topology.kubernetes.io/zone"));
        let is_ready = object::condition_status(node, "Ready") == "True";
        self.count(&zone, is_ready, 1);
        self.nodes.insert(name.into(), Known { heard, zone, is_ready, is_told, is_settled: false });
    }

    /// Where no node is ready, more likely than not it is the control plane that hears nothing.
    fn is_all_down(&self) -> bool {
        self.zones.values().all(|zone| zone.ready == 0)
    }

    /// Whether a node may get the taint that drives its pods away; else when to ask again.
    fn may_evict(&mut self, name: &str, now: Timestamp) -> Result<(), Timestamp> {
        let later = now.checked_add(HELD_BACK).unwrap_or(Timestamp::MAX);
        if self.is_all_down() {
            return Err(later);
        }
        let zone = self.nodes.get(name).and_then(|known| self.zones.get_mut(&known.zone)).ok_or(later)?;
        let pace = zone.pace().ok_or(later)?;
        match zone.evicts_next {
            Some(next) if next > now => Err(next),
            _ => {
                zone.evicts_next = now.checked_add(pace).ok();
                Ok(())
            }
        }
    }

    fn see_to(&mut self, node: &Arc<Value>, view: View<'_>) -> Decision {
        let (name, now) = (object::name(node), view.now());
        let Some(known) = self.nodes.get_mut(name) else { return Decision::none() };
        let mut decision = Decision::none();
        if !known.is_told {
            known.is_told = true;
            let message = format!("Node {name} event: Registered Node {name} in Controller");
            decision.reports.push(tell(&id(node), Severity::Normal, "RegisteredNode", message));
        }
        let status = object::condition_status(node, "Ready");
        let grace = if status.is_empty() { STARTUP_GRACE } else { GRACE };
        let silent_at = known.heard.checked_add(grace).unwrap_or(Timestamp::MAX);
        if silent_at <= now {
            if let Some(unknown) = unknown(node, now) {
                if status == "True" {
                    let message = format!("Node {name} status is now: NodeNotReady");
                    decision.reports.push(tell(&id(node), Severity::Normal, "NodeNotReady", message));
                }
                decision.acts.push(Act::UpdateStatus("nodes", unknown));
                return decision;
            }
        } else {
            decision.again = Some(silent_at);
        }
        if status == "Unknown" {
            for pod in view.pods_on(name) {
                if let Some(unready) = unready(&pod, now) {
                    decision.acts.push(Act::UpdateStatus("pods", unready));
                    let message = "Node is not ready".to_owned();
                    decision.reports.push(tell(&pod, Severity::Warning, "NodeNotReady", message));
                }
            }
        }
        let (next, held_back) = self.tainted(node, now);
        decision.again = decision.again.into_iter().chain(held_back).min();
        decision.acts.extend(next.map(|node| Act::Update("nodes", node)));
        decision
    }

    /// The node with the taints, labels and annotations that it should have, if that is not so; and when a taint that is held
    /// back may be given.
    fn tainted(&mut self, node: &Value, now: Timestamp) -> (Option<Value>, Option<Timestamp>) {
        let mut wanted: Vec<(&str, &str)> = TAINTS
            .iter()
            .filter(|(of, status, _)| object::condition_status(node, of) == *status)
            .map(|(_, _, key)| (*key, "NoSchedule"))
            .collect();
        if node["spec"]["unschedulable"] == true {
            wanted.push((UNSCHEDULABLE, "NoSchedule"));
        }
        let before: Vec<Value> =
            object::at(node, "/spec/taints").and_then(Value::as_array).cloned().unwrap_or_default();
        let has = |taints: &[Value], key: &str, effect: &str| {
            taints.iter().any(|taint| taint["key"] == key && taint["effect"] == effect)
        };
        let mut held_back = None;
        let drives_away = match object::condition_status(node, "Ready") {
            "False" => Some(NOT_READY),
            "Unknown" => Some(UNREACHABLE),
            _ => None,
        };
        if let Some(key) = drives_away {
            // One that is driven away already is only told another reason.
            let is_driven = has(&before, NOT_READY, "NoExecute") || has(&before, UNREACHABLE, "NoExecute");
            let may = if is_driven && !self.is_all_down() {
                Ok(())
            } else {
                self.may_evict(object::name(node), now)
            };
            match may {
                Ok(()) => wanted.push((key, "NoExecute")),
                Err(later) => held_back = Some(later),
            }
        }
        let is_own = |taint: &Value| {
            let (key, effect) = (object::text(taint, &["key"]), object::text(taint, &["effect"]));
            match effect {
                "NoSchedule" => key == UNSCHEDULABLE || TAINTS.iter().any(|(_, _, own)| *own == key),
                "NoExecute" => key == NOT_READY || key == UNREACHABLE,
                _ => false,
            }
        };
        let is_wanted = |taint: &Value| {
            wanted.iter().any(|(key, effect)| taint["key"] == *key && taint["effect"] == *effect)
        };
        let mut after: Vec<Value> =
            before.iter().filter(|taint| !is_own(taint) || is_wanted(taint)).cloned().collect();
        for (key, effect) in &wanted {
            if !has(&after, key, effect) {
                after.push(json!({ "key": key, "effect": effect, "timeAdded": object::time(now) }));
            }
        }
        let labels = renamed(node);
        let is_complete = labels.is_empty() && !object::annotation(node, KEPT).is_empty();
        if after == before && is_complete {
            return (None, held_back);
        }
        let mut next = node.clone();
        if !after.is_empty() {
            object::put(&mut next, &["spec", "taints"], after.into());
        } else if let Some(spec) = next.get_mut("spec").and_then(Value::as_object_mut) {
            spec.remove("taints");
        }
        if let Some(known) = next.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
            known.extend(labels);
        }
        let kept = KEPT_SECS.iter().find(|(most, _)| self.nodes.len() <= *most);
        if let Some((_, secs)) = kept.filter(|_| object::annotation(node, KEPT).is_empty()) {
            object::put(&mut next, &["metadata", "annotations", KEPT], json!(secs));
        }
        (Some(next), held_back)
    }
}

/// When a node was last heard of, if a change is a sign of life.
fn heard(change: &Change, now: Timestamp) -> Option<Timestamp> {
    let heartbeat = |node: &Option<Arc<Value>>| {
        let ready = object::condition(node.as_ref()?, "Ready")?;
        Some(object::text(ready, &["lastHeartbeatTime"]).to_owned())
    };
    let (before, after) = (heartbeat(&change.before), heartbeat(&change.after));
    (after.is_some() && before != after).then_some(now)
}

/// The node with all that its kubelet says unknown, if it is not yet.
fn unknown(node: &Value, now: Timestamp) -> Option<Value> {
    let mut next = node.clone();
    for of in OF_KUBELET {
        let mut condition = match object::condition(node, of) {
            Some(known) if known["status"] == "Unknown" => continue,
            Some(known) => {
                let mut condition = known.clone();
                condition["reason"] = json!("NodeStatusUnknown");
                condition["message"] = json!("Kubelet stopped posting node status.");
                condition
            }
            None => json!({
                "type": of, "reason": "NodeStatusNeverUpdated", "message": "Kubelet never posted node status.",
                "lastHeartbeatTime": node["metadata"]["creationTimestamp"],
            }),
        };
        condition["status"] = json!("Unknown");
        condition["lastTransitionTime"] = object::time(now);
        object::set_condition(&mut next, condition);
    }
    Some(next).filter(|next| next != node)
}

/// A pod that nobody can reach, no longer ready.
fn unready(pod: &Value, now: Timestamp) -> Option<Value> {
    let mut condition = object::condition(pod, "Ready").filter(|ready| ready["status"] == "True")?.clone();
    condition["status"] = json!("False");
    condition["lastTransitionTime"] = object::time(now);
    let mut next = pod.clone();
    object::set_condition(&mut next, condition);
    Some(next)
}

/// Labels of old names that lack, or say something else than those of the new ones.
fn renamed(node: &Value) -> Vec<(String, Value)> {
    let label = |name: &str| object::at(node, "/metadata/labels").and_then(|labels| labels.get(name));
    RENAMED
        .iter()
        .filter(|(new, old)| label(new).is_some() && label(new) != label(old))
        .filter_map(|(new, old)| Some(((*old).to_owned(), label(new)?.clone())))
        .collect()
}

/// Which node it is, no more.
fn id(node: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": { "name": object::name(node), "uid": object::uid(node) },
    })
}

fn tell(about: &Value, severity: Severity, reason: &'static str, message: String) -> Report {
    Report::about(about, severity, reason, message, COMPONENT)
}

impl Controller for NodeLifecycle {
    fn name(&self) -> &'static str {
        "kube-controller-manager"
    }

    fn observe(&mut self, change: &Change, view: View<'_>) -> Vec<Key> {
        match change.key.resource() {
            "leases.coordination.k8s.io" if change.key.namespace() == "kube-node-lease" => {
                if let Some(known) = self.nodes.get_mut(change.key.name()).filter(|_| change.after.is_some())
                {
                    known.heard = view.now();
                }
                Vec::new()
            }
            "nodes" => {
                self.learn(change, view.now());
                let is_all_down = self.is_all_down();
                if is_all_down == self.was_all_down {
                    return vec![change.key.clone()];
                }
                self.was_all_down = is_all_down;
                if !is_all_down {
                    // Whoever was not heard for lack of hearing gets as long as from the start.
                    self.nodes.values_mut().for_each(|known| known.heard = view.now());
                }
                self.nodes
                    .keys()
                    .map(|name| Key::new("nodes", "", name))
                    .chain([change.key.clone()])
                    .collect()
            }
            _ => Vec::new(),
        }
    }

    fn decide(&mut self, key: &Key, view: View<'_>) -> Decision {
        let settled = self.nodes.get(key.name()).filter(|known| known.is_settled && known.is_ready);
        let silent_at = settled.and_then(|known| known.heard.checked_add(GRACE).ok());
        if let Some(at) = silent_at.filter(|at| *at > view.now()) {
            return Decision::again(at);
        }
        let mut decision = match view.get(key) {
            Some(node) => self.see_to(&node, view),
            None => Decision::none(),
        };
        if let Some(known) = self.nodes.get_mut(key.name()) {
            known.is_settled = decision.acts.is_empty();
        }
        if let Some(node) = self.gone.remove(key.name()) {
            let name = key.name();
            let message = format!("Node {name} event: Removing Node {name} from Controller");
            decision.reports.push(tell(&node, Severity::Normal, "RemovingNode", message));
        }
        decision
    }
}

#[cfg(test)]
mod tests;
