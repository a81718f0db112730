//! DaemonSets: one pod on each node that may have one.

mod eligible;
mod plan;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::history::{self, Book};
use super::owned::{Bond, MANAGER, Owners, Steps, held, key_of, status_of};
use super::pods::{self, set_label};
use super::refused::Refusal;
use super::{Controller, Decision, Severity, View};
use crate::json::Value;
use crate::object;
use crate::store::{Change, Key};

pub(crate) use eligible::is_selected;
use eligible::{Verdict, pinned_node, pod_for, verdict};
use plan::{Plan, Seen, plan};

const RESOURCE: &str = "daemonsets.apps";
const COMPONENT: &str = "daemonset-controller";
const BOND: Bond = Bond { api_version: "apps/v1", kind: "DaemonSet", owners: RESOURCE, owned: "pods" };
/// Both the revisions and the pods of one carry its hash there.
const REVISION: &str = "controller-revision-hash";
const GENERATION: &str = "pod-template-generation";
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";
const BOOK: Book = Book { hash_label: REVISION };

#[derive(Debug)]
pub(crate) struct DaemonSets {
    owners: Owners,
}

impl DaemonSets {
    pub(crate) fn new() -> Self {
        Self { owners: Owners::of(BOND) }
    }
}

impl Controller for DaemonSets {
    fn name(&self) -> &'static str {
        MANAGER
    }

    fn observe(&mut self, change: &Change, view: View<'_>) -> Vec<Key> {
        match change.key.resource() {
            RESOURCE => vec![change.key.clone()],
            history::RESOURCE => self.owners.of_changed(change),
            "pods" => self.owners.of_owned(change, view),
            // A node's heartbeat says nothing of which pods it may have.
            "nodes" if is_other_node(change) => {
                view.list(RESOURCE, None).map(|set| key_of(RESOURCE, &set)).collect()
            }
            _ => Vec::new(),
        }
    }

    fn decide(&mut self, key: &Key, view: View<'_>) -> Decision {
        let set = match self.owners.look(key, view) {
            Ok(set) => set,
            Err(instead) => return instead,
        };
        let mut steps = Steps::of(set.clone(), COMPONENT, view);
        let pods = self.owners.claim(&mut steps, |_| true);
        let history = BOOK.read(&set, view.controlled(history::RESOURCE, &set));
        let hash = pods::label(&history.latest, REVISION).to_owned();
        let plan = planned(&set, &pods, &hash, view);
        if !object::is_terminating(&set) {
            history.write(&mut steps);
            for node in &plan.create {
                let mut pod = pod_for(&set, node);
                set_label(&mut pod, REVISION, &hash);
                let generation = pods::annotation(&set, TEMPLATE_GENERATION);
                if !generation.is_empty() {
                    set_label(&mut pod, GENERATION, generation);
                }
                steps.create_pod(pod);
            }
            for (pod, node) in &plan.found_dead {
                let (word, reason, done) = match pods::phase(pod) {
                    "Failed" => ("failed", "FailedDaemonPod", "kill"),
                    _ => ("succeeded", "SucceededDaemonPod", "delete"),
                };
                let severity = if word == "failed" { Severity::Warning } else { Severity::Normal };
                let (namespace, name) = (object::namespace(pod), object::name(pod));
                let message = format!(
                    "Found {word} daemon pod {namespace}/{name} on node {node}, will try to {done} it"
                );
                steps.tell(severity, reason, message);
            }
            for pod in &plan.delete {
                steps.delete_pod(pod);
            }
            let in_use: BTreeSet<&str> = pods.iter().map(|pod| pods::label(pod, REVISION)).collect();
            history.forget(&mut steps, |revision| in_use.contains(pods::label(revision, REVISION)));
        }
        steps.set_status(RESOURCE, plan.status);
        steps.look_again(plan.again);
        steps.done()
    }

    fn refused(&mut self, key: &Key, refusal: &Refusal, view: View<'_>) -> Decision {
        let told = view.get(key).and_then(|set| Some((refusal.of_pod(&set, COMPONENT)?, set)));
        let Some((report, set)) = told else { return Decision::none() };
        let history = BOOK.read(&set, view.controlled(history::RESOURCE, &set));
        let hash = pods::label(&history.latest, REVISION);
        let plan = planned(&set, &held("pods", &set, view), hash, view);
        let acts = status_of(RESOURCE, &set, plan.status).into_iter().collect();
        Decision { acts, reports: vec![report], again: None }
    }
}

fn planned(set: &Value, pods: &[Arc<Value>], hash: &str, view: View<'_>) -> Plan {
    let template = pod_for(set, "");
    let nodes: BTreeMap<String, Verdict> = view
        .list("nodes", None)
        .map(|node| (object::name(&node).to_owned(), verdict(&template, &node)))
        .collect();
    plan(set, &nodes, &by_node(pods), &Seen { hash, now: view.now() })
}

/// Whether more has changed about a node than how it is doing.
fn is_other_node(change: &Change) -> bool {
    let (Some(before), Some(after)) = (&change.before, &change.after) else { return true };
    let said = |node: &Value| (node["spec"].clone(), node["metadata"]["labels"].clone());
    said(before) != said(after)
}

/// The pods of each node: where they run, or where they are to run.
fn by_node(pods: &[Arc<Value>]) -> BTreeMap<String, Vec<Arc<Value>>> {
    let mut nodes: BTreeMap<String, Vec<Arc<Value>>> = BTreeMap::new();
    for pod in pods {
        let is_over = object::is_terminating(pod) && pods::is_done(pod);
        if !is_over {
            nodes.entry(pinned_node(pod).to_owned()).or_default().push(pod.clone());
        }
    }
    for pods in nodes.values_mut() {
        pods.sort_by_key(|pod| (pods::created(pod), object::name(pod).to_owned()));
    }
    nodes
}
