//! ReplicaSets: as many pods as they ask for.

mod census;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use census::{Census, Register};

use super::owned::{BURST, Bond, MANAGER, Owners, Steps, held, status_of};
use super::pods::{self, number};
use super::refused::{REPLICA_FAILURE, Refusal};
use super::{Controller, Decision, View};
use crate::json::Value;
use crate::object;
use crate::store::{Change, Key};

pub(crate) const RESOURCE: &str = "replicasets.apps";
const COMPONENT: &str = "replicaset-controller";
const BOND: Bond = Bond { api_version: "apps/v1", kind: "ReplicaSet", owners: RESOURCE, owned: "pods" };

#[derive(Debug)]
pub(crate) struct ReplicaSets {
    owners: Owners,
    register: Register,
}

impl ReplicaSets {
    pub(crate) fn new() -> Self {
        Self { owners: Owners::of(BOND), register: Register::default() }
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
                self.register.forget(&change.key);
                self.owners.of_owned(change, view)
            }
            _ => Vec::new(),
        }
    }

    fn decide(&mut self, key: &Key, view: View<'_>) -> Decision {
        let set = match self.owners.look(key, view) {
            Ok(set) => set,
            Err(instead) => return instead,
        };
        let settled = self.register.census(key, &set, view).filter(|census| {
            census.active == wanted(&set) && !self.owners.have_orphans_in(object::namespace(&set))
        });
        if let Some(census) = settled {
            let acts = status_of(RESOURCE, &set, census.status(&set)).into_iter().collect();
            return Decision { acts, again: census.again, ..Decision::none() };
        }
        let mut steps = Steps::of(set.clone(), COMPONENT, view);
        let pods = self.owners.claim(&mut steps, |_| true);
        let plan = plan(&set, &pods, || pods::crowds(&relatives(&set, &pods, view)), view.now());
        for _ in 0..plan.create {
            steps.create_pod(pods::from_template(&set["spec"]["template"], &set));
        }
        for pod in &plan.delete {
            steps.delete_pod(pod);
        }
        steps.set_status(RESOURCE, plan.census.status(&set));
        steps.look_again(plan.census.again);
        steps.done()
    }

    fn refused(&mut self, key: &Key, refusal: &Refusal, view: View<'_>) -> Decision {
        let told = view.get(key).and_then(|set| Some((refusal.of_pod(&set, COMPONENT)?, set)));
        let Some((report, set)) = told else { return Decision::none() };
        let pods = held("pods", &set, view);
        let mut status = Census::of(&set, pods.iter().map(|pod| &**pod), view.now()).status(&set);
        // The first failure is on record until there is none.
        let known = object::condition(&set, REPLICA_FAILURE).cloned();
        let failure = known.unwrap_or_else(|| refusal.condition(report.reason, &object::time(view.now())));
        let others = status["conditions"].take();
        let others = others.as_array().into_iter().flatten().cloned();
        status["conditions"] = others.chain([failure]).collect();
        let acts = status_of(RESOURCE, &set, status).into_iter().collect();
        Decision { acts, reports: vec![report], again: None }
    }
}

fn wanted(set: &Value) -> usize {
    usize::try_from(number(set, "/spec/replicas")).unwrap_or(0)
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
    census: Census,
}

fn plan(
    set: &Value,
    pods: &[Arc<Value>],
    crowds: impl FnOnce() -> BTreeMap<String, usize>,
    now: Timestamp,
) -> Plan {
    let census = Census::of(set, pods.iter().map(|pod| &**pod), now);
    if object::is_terminating(set) {
        return Plan { create: 0, delete: Vec::new(), census };
    }
    let create = wanted(set).saturating_sub(census.active).min(BURST);
    let excess = census.active.saturating_sub(wanted(set)).min(BURST);
    if excess == 0 {
        return Plan { create, delete: Vec::new(), census };
    }
    let mut delete: Vec<Arc<Value>> = pods.iter().filter(|pod| pods::is_active(pod)).cloned().collect();
    if excess < census.active {
        pods::sort_for_deletion(&mut delete, &crowds(), now);
    }
    delete.truncate(excess);
    Plan { create, delete, census }
}

#[cfg(test)]
mod tests {
    use crate::json::json;

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
            assert_eq!(plan.census.status(&set), expected);
            assert_eq!(plan.census.again.is_some(), min_ready_secs > 0);
            let terminating = with(set, "/metadata", "deletionTimestamp", json!(NOW));
            let plan = super::plan(&terminating, &pods, BTreeMap::new, NOW.parse().unwrap());
            assert_eq!((plan.create, plan.delete), (0, vec![]), "an owner that goes makes nothing");
        }
    }
}
