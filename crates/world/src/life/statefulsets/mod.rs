//! StatefulSets: pods with names and claims of their own, made, updated and deleted in order.

mod member;
mod plan;

use std::sync::Arc;

use super::history::{self, Book, History};
use super::owned::{Bond, MANAGER, Owners, Steps, held, status_of};
use super::pods::number;
use super::refused::{Attempt, Refusal};
use super::{Controller, Decision, Report, Severity, View};
use crate::api::Act;
use crate::json::{Value, json};
use crate::object;
use crate::store::{Change, Key};

use member::{Claim, Member};
use plan::plan;

const RESOURCE: &str = "statefulsets.apps";
const CLAIMS: &str = "persistentvolumeclaims";
const COMPONENT: &str = "statefulset-controller";
const BOND: Bond = Bond { api_version: "apps/v1", kind: "StatefulSet", owners: RESOURCE, owned: "pods" };
const BOOK: Book = Book { hash_label: "controller.kubernetes.io/hash" };

#[derive(Debug)]
pub(crate) struct StatefulSets {
    owners: Owners,
}

impl StatefulSets {
    pub(crate) fn new() -> Self {
        Self { owners: Owners::of(BOND) }
    }
}

impl Controller for StatefulSets {
    fn name(&self) -> &'static str {
        MANAGER
    }

    fn observe(&mut self, change: &Change, view: View<'_>) -> Vec<Key> {
        match change.key.resource() {
            RESOURCE => vec![change.key.clone()],
            history::RESOURCE => self.owners.of_changed(change),
            "pods" => self.owners.of_owned(change, view),
            _ => Vec::new(),
        }
    }

    fn decide(&mut self, key: &Key, view: View<'_>) -> Decision {
        let set = match self.owners.look(key, view) {
            Ok(set) => set,
            Err(instead) => return instead,
        };
        let mut steps = Steps::of(set.clone(), COMPONENT, view);
        let pods = self.owners.claim(&mut steps, |pod| member::ordinal(&set, pod).is_some());
        let history = BOOK.read(&set, view.controlled(history::RESOURCE, &set));
        let plan = plan(&set, &history, &pods, view.now());
        if !object::is_terminating(&set) {
            history.write(&mut steps);
            for ordinal in &plan.create {
                let member = Member::of(&set, *ordinal);
                create(&mut steps, &member, &plan.template_of(*ordinal, &set, &history));
            }
            keep_claims(&mut steps, &set, &pods);
            for pod in &plan.delete {
                let message = format!(
                    "Delete Pod {} in StatefulSet {} successful",
                    object::name(pod),
                    object::name(&set)
                );
                steps.act(Act::delete("pods", pod));
                steps.tell(Severity::Normal, "SuccessfulDelete", message);
            }
            forget(&mut steps, &history, &plan.status, &pods);
        }
        steps.set_status(RESOURCE, plan.status);
        steps.look_again(plan.again);
        steps.done()
    }

    fn refused(&mut self, key: &Key, refusal: &Refusal, view: View<'_>) -> Decision {
        let set = view.get(key).filter(|_| refusal.reason().is_some());
        let Some(set) = set else { return Decision::none() };
        let mut pods = held("pods", &set, view);
        pods.retain(|pod| member::ordinal(&set, pod).is_some());
        let history = BOOK.read(&set, view.controlled(history::RESOURCE, &set));
        let plan = plan(&set, &history, &pods, view.now());
        let acts = status_of(RESOURCE, &set, plan.status).into_iter().collect();
        Decision { acts, reports: failure(&set, refusal).into_iter().collect(), again: None }
    }
}

/// What is told of a pod, or a claim for one, that could not be made.
fn failure(set: &Value, refusal: &Refusal) -> Option<Report> {
    let (doing, name) = match &refusal.attempt {
        Attempt::Create { resource: "pods", name } => ("Create Pod", name),
        Attempt::Create { resource: CLAIMS, name } => ("Create Claim", name),
        Attempt::Delete { resource, name } if **resource == *"pods" => ("Delete Pod", name),
        _ => return None,
    };
    let message =
        format!("{doing} {name} in StatefulSet {} failed error: {}", object::name(set), refusal.why);
    Some(Report::about(set, Severity::Warning, refusal.reason()?, message, COMPONENT))
}

/// A pod, and before it the claims that it needs.
fn create(steps: &mut Steps<'_>, member: &Member<'_>, (template, revision): &(Value, String)) {
    let set = object::name(member.set).to_owned();
    let pod = member.pod(template, revision);
    let name = object::name(&pod).to_owned();
    for claim in member.claims() {
        let key = Key::new(CLAIMS, object::namespace(member.set), &claim.name);
        if steps.view.get(&key).is_none() {
            steps.act(Act::Create(CLAIMS, claim.object(member.set)));
            let message = format!("Create Claim {} Pod {name} in StatefulSet {set} success", claim.name);
            steps.tell(Severity::Normal, "SuccessfulCreate", message);
        }
    }
    steps.act(Act::Create("pods", pod));
    let message = format!("Create Pod {name} in StatefulSet {set} successful");
    steps.tell(Severity::Normal, "SuccessfulCreate", message);
}

/// Claims go with whom the set says that they go with.
fn keep_claims(steps: &mut Steps<'_>, set: &Arc<Value>, pods: &[Arc<Value>]) {
    for pod in pods {
        let Some(ordinal) = member::ordinal(set, pod) else { continue };
        for Claim { name, .. } in Member::of(set, ordinal).claims() {
            let claim = steps.view.get(&Key::new(CLAIMS, object::namespace(set), &name));
            if let Some(kept) = claim.and_then(|claim| member::kept_claim(set, pod, ordinal, &claim)) {
                steps.act(Act::Update(CLAIMS, kept));
            }
        }
    }
}

fn forget(steps: &mut Steps<'_>, history: &History, status: &Value, pods: &[Arc<Value>]) {
    history.forget(steps, |revision| {
        let name = object::name(revision);
        status["currentRevision"] == name || pods.iter().any(|pod| member::revision(pod) == name)
    });
}

/// The first ordinal, and how many there are to be.
fn range(set: &Value) -> std::ops::Range<i64> {
    let start = number(set, "/spec/ordinals/start");
    start..start.saturating_add(number(set, "/spec/replicas"))
}

fn is_parallel(set: &Value) -> bool {
    set["spec"]["podManagementPolicy"] == json!("Parallel")
}
