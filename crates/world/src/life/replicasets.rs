//! ReplicaSets: as many pods as they ask for.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::owned::{BURST, MANAGER, Orphans, Pace, Steps, owners_of, set_count};
use super::pods::{self, number};
use super::{Controller, Decision, View};
use crate::object;
use crate::store::{Change, Key};

pub(crate) const RESOURCE: &str = "replicasets.apps";
const COMPONENT: &str = "replicaset-controller";

#[derive(Debug)]
pub(crate) struct ReplicaSets {
    orphans: Orphans,
    pace: Pace,
}

impl ReplicaSets {
    pub(crate) fn new() -> Self {
        Self { orphans: Orphans::of("pods"), pace: Pace::default() }
    }
}

impl Controller for ReplicaSets {
    fn name(&self) -> &'static str {
        MANAGER
    }

    fn observe(&mut self, change: &Change, view: View<'_>) -> Vec<Key> {
        match change.key.resource() {
            RESOURCE => vec![change.key.clone()],
            "pods" => {
                let mut keys = owners_of(change, "apps/v1", "ReplicaSet", RESOURCE);
                if self.orphans.note(change) {
                    keys.extend(Orphans::wanted_by(change, RESOURCE, view));
                }
                keys
            }
            _ => Vec::new(),
        }
    }

    fn decide(&mut self, key: &Key, view: View<'_>) -> Decision {
        let Some(set) = view.get(key) else {
            self.pace.forget(key);
            return Decision::none();
        };
        if let Some(at) = self.pace.hold(key, &set, view) {
            return Decision::again(at);
        }
        let mut steps = Steps::of(set.clone(), COMPONENT, view);
        let pods = self.orphans.claim(&mut steps, |_| true);
        let plan = plan(&set, &pods, || pods::crowds(&relatives(&set, &pods, view)), view.now());
        for _ in 0..plan.create {
            steps.create_pod(pods::from_template(&set["spec"]["template"], &set));
        }
        for pod in &plan.delete {
            steps.delete_pod(pod);
        }
        steps.set_status(RESOURCE, plan.status);
        steps.look_again(plan.again);
        steps.done()
    }
}

/// The pods of all sets that belong together: those of one deployment.
fn relatives(set: &Value, own: &[Arc<Value>], view: View<'_>) -> Vec<Arc<Value>> {
    let Some(owner) = object::controller(set) else { return own.to_vec() };
    let sets = view.dependents(owner.uid).filter(|key| key.resource() == RESOURCE);
    let sets = sets.filter_map(|key| view.get(key));
    sets.flat_map(|set| view.controlled("pods", &set)).collect()
}

#[derive(Debug, PartialEq)]
struct Plan {
    create: usize,
    delete: Vec<Arc<Value>>,
    status: Value,
    again: Option<Timestamp>,
}

fn plan(
    set: &Value,
    pods: &[Arc<Value>],
    crowds: impl FnOnce() -> BTreeMap<String, usize>,
    now: Timestamp,
) -> Plan {
    let (mut active, status, again) = count(set, pods, now);
    if object::is_terminating(set) {
        return Plan { create: 0, delete: Vec::new(), status, again };
    }
    let wanted = usize::try_from(number(set, "/spec/replicas")).unwrap_or(0);
    let create = wanted.saturating_sub(active.len()).min(BURST);
    let excess = active.len().saturating_sub(wanted).min(BURST);
    if excess > 0 && excess < active.len() {
        pods::sort_for_deletion(&mut active, &crowds(), now);
    }
    active.truncate(excess);
    Plan { create, delete: active, status, again }
}

/// The pods that count, what is said of all of them, and when to look again for what becomes available.
fn count(set: &Value, pods: &[Arc<Value>], now: Timestamp) -> (Vec<Arc<Value>>, Value, Option<Timestamp>) {
    let wanted = set["spec"]["template"]["metadata"]["labels"].as_object();
    let is_fully_labelled = |pod: &Value| {
        let labels = &pod["metadata"]["labels"];
        wanted.into_iter().flatten().all(|(key, value)| labels.get(key) == Some(value))
    };
    let min_ready_secs = number(set, "/spec/minReadySeconds");
    let (mut active, mut again) = (Vec::new(), None);
    let (mut stopping, mut labelled, mut ready, mut available) = (0, 0, 0, 0);
    for pod in pods.iter().filter(|pod| !pods::is_done(pod)) {
        if object::is_terminating(pod) {
            stopping += 1;
            continue;
        }
        active.push(pod.clone());
        labelled += usize::from(is_fully_labelled(pod));
        if !pods::is_ready(pod) {
            continue;
        }
        ready += 1;
        match pods::available_from(pod, min_ready_secs) {
            Some(from) if from <= now => available += 1,
            from => again = [again, from].into_iter().flatten().min(),
        }
    }
    let mut status = json!({
        "replicas": active.len(),
        "terminatingReplicas": stopping,
        "observedGeneration": number(set, "/metadata/generation"),
    });
    set_count(&mut status, "fullyLabeledReplicas", labelled);
    set_count(&mut status, "readyReplicas", ready);
    set_count(&mut status, "availableReplicas", available);
    let conditions = &set["status"]["conditions"];
    if !conditions.is_null() {
        status["conditions"] = conditions.clone();
    }
    (active, status, again)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-01-01T01:00:00Z";

    fn pod(name: &str, phase: &str, ready: bool) -> Value {
        json!({
            "metadata": {"name": name, "labels": {"app": "web", "tier": "a"}}, "spec": {"nodeName": "n"},
            "status": {"phase": phase, "conditions": [
                {"type": "Ready", "status": if ready { "True" } else { "False" }, "lastTransitionTime": NOW}
            ]},
        })
    }

    fn with(mut pod: Value, pointer: &str, field: &str, value: Value) -> Value {
        pod.pointer_mut(pointer).unwrap()[field] = value;
        pod
    }

    #[test]
    fn pods_are_made_and_deleted_to_match() {
        let gone = |pod| with(pod, "/metadata", "deletionTimestamp", json!(NOW));
        let unlabelled = with(pod("c", "Running", true), "/metadata", "labels", json!({"app": "web"}));
        for (replicas, min_ready_secs, pods, create, delete, status) in [
            (2, 0, vec![], 2, vec![], json!({"replicas": 0, "terminatingReplicas": 0})),
            (
                2,
                0,
                vec![pod("a", "Running", true), pod("b", "Failed", false), gone(pod("c", "Running", true))],
                1,
                vec![],
                json!({
                    "replicas": 1, "fullyLabeledReplicas": 1, "readyReplicas": 1, "availableReplicas": 1,
                    "terminatingReplicas": 1,
                }),
            ),
            (
                1,
                5,
                vec![pod("a", "Running", true), pod("b", "Pending", false), unlabelled],
                0,
                vec!["b", "a"],
                json!({
                    "replicas": 3, "fullyLabeledReplicas": 2, "readyReplicas": 2, "terminatingReplicas": 0,
                }),
            ),
            (
                0,
                0,
                vec![pod("a", "Running", true), pod("b", "Pending", false)],
                0,
                vec!["a", "b"],
                json!({
                    "replicas": 2, "fullyLabeledReplicas": 2, "readyReplicas": 1, "availableReplicas": 1,
                    "terminatingReplicas": 0,
                }),
            ),
        ] {
            let set = json!({
                "metadata": {"generation": 3},
                "spec": {"replicas": replicas, "minReadySeconds": min_ready_secs,
                    "template": {"metadata": {"labels": {"app": "web", "tier": "a"}}}},
            });
            let pods: Vec<Arc<Value>> = pods.into_iter().map(Arc::new).collect();
            let plan = plan(&set, &pods, BTreeMap::new, NOW.parse().unwrap());
            let names: Vec<&str> = plan.delete.iter().map(|pod| object::name(pod)).collect();
            assert_eq!((plan.create, names), (create, delete), "{pods:?}");
            let mut expected = status;
            expected["observedGeneration"] = json!(3);
            assert_eq!(plan.status, expected);
            assert_eq!(plan.again.is_some(), min_ready_secs > 0);
            let terminating = with(set, "/metadata", "deletionTimestamp", json!(NOW));
            let plan = super::plan(&terminating, &pods, BTreeMap::new, NOW.parse().unwrap());
            assert_eq!((plan.create, plan.delete), (0, vec![]), "an owner that goes makes nothing");
        }
    }
}
