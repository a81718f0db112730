//! Deployments: a ReplicaSet for each template they have had, and rollouts from one to the next.

mod conditions;
mod fleet;
mod rollout;

use std::sync::Arc;

use jiff::Timestamp;

use super::owned::{Bond, MANAGER, Owners, Steps, owners_of, status_of};
use super::pods;
use super::refused::{Attempt, Refusal};
use super::replicasets::RESOURCE as SETS;
use super::{Controller, Decision, Report, Severity, View};
use crate::api::{Act, Propagation};
use crate::json::Value;
use crate::object;
use crate::store::{Change, Key};

use fleet::{Fleet, Set, has_deadline};
use rollout::Step;

const RESOURCE: &str = "deployments.apps";
const COMPONENT: &str = "deployment-controller";
const BOND: Bond = Bond { api_version: "apps/v1", kind: "Deployment", owners: RESOURCE, owned: SETS };

#[derive(Debug)]
pub(crate) struct Deployments {
    owners: Owners,
}

impl Deployments {
    pub(crate) fn new() -> Self {
        Self { owners: Owners::of(BOND) }
    }
}

impl Controller for Deployments {
    fn name(&self) -> &'static str {
        MANAGER
    }

    fn observe(&mut self, change: &Change, view: View<'_>) -> Vec<Key> {
        match change.key.resource() {
            RESOURCE => vec![change.key.clone()],
            SETS => self.owners.of_owned(change, view),
            // Who stops all before starting any waits for the last one to be gone.
            "pods" if change.after.is_none() => owners_of(change, "apps/v1", "ReplicaSet", SETS)
                .iter()
                .filter_map(|set| view.get(set))
                .filter_map(|set| {
                    let owner = object::controller(&set).filter(|owner| owner.kind == "Deployment")?;
                    Some(Key::new(RESOURCE, object::namespace(&set), owner.name))
                })
                .collect(),
            _ => Vec::new(),
        }
    }

    fn decide(&mut self, key: &Key, view: View<'_>) -> Decision {
        let deployment = match self.owners.look(key, view) {
            Ok(deployment) => deployment,
            Err(instead) => return instead,
        };
        let mut steps = Steps::of(deployment.clone(), COMPONENT, view);
        let sets = self.owners.claim(&mut steps, |_| true);
        let plan = plan(
            &deployment,
            &sets,
            |name| view.get(&Key::new(SETS, key.namespace(), name)).is_some(),
            |sets| sets.iter().any(|set| has_running(&view.controlled("pods", &set.object))),
            view.now(),
        );
        for set in plan.fleet.all() {
            match &set.before {
                None => steps.act(Act::Create(SETS, set.object.clone())),
                Some(before) if **before != set.object => steps.act(Act::Update(SETS, set.object.clone())),
                Some(_) => {}
            }
        }
        for set in &plan.forget {
            steps.delete(SETS, set, Propagation::Background);
        }
        for message in plan.fleet.said {
            steps.tell(Severity::Normal, "ScalingReplicaSet", message);
        }
        if plan.fleet.deployment != *deployment {
            // Its revision is an annotation, which the status takes along.
            steps.act(Act::UpdateStatus(RESOURCE, plan.fleet.deployment));
        }
        steps.look_again(plan.again);
        steps.done()
    }

    fn refused(&mut self, key: &Key, refusal: &Refusal, view: View<'_>) -> Decision {
        let Attempt::Create { resource: SETS, name } = &refusal.attempt else { return Decision::none() };
        let deployment = view.get(key).filter(|_| refusal.reason().is_some());
        let Some(deployment) = deployment else { return Decision::none() };
        let (reason, message) =
            ("ReplicaSetCreateError", format!("Failed to create new replica set {name:?}: {}", refusal.why));
        let mut status = deployment["status"].clone();
        if has_deadline(&deployment) {
            let failed = conditions::progressing("False", reason, &message, &object::time(view.now()));
            conditions::set(&mut status, failed);
        }
        let acts = status_of(RESOURCE, &deployment, status).into_iter().collect();
        let report = Report::about(&deployment, Severity::Warning, reason, message, COMPONENT);
        Decision { acts, reports: vec![report], again: None }
    }
}

fn has_running(pods: &[Arc<Value>]) -> bool {
    pods.iter().any(|pod| !pods::is_done(pod))
}

#[derive(Debug)]
struct Plan {
    fleet: Fleet,
    /// The sets that are not remembered any longer.
    forget: Vec<Arc<Value>>,
    again: Option<Timestamp>,
}

/// How far the status says how the rollout is getting on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Counts,
    Progress,
}

/// `is_taken` is whether a set of that name is there; `run` whether any pod of the sets runs.
fn plan(
    deployment: &Value,
    sets: &[Arc<Value>],
    is_taken: impl Fn(&str) -> bool,
    run: impl Fn(&[Set]) -> bool,
    now: Timestamp,
) -> Plan {
    let mut fleet = Fleet::of(deployment.clone(), sets);
    let told = change(&mut fleet, is_taken, run, now);
    let mut status = conditions::status(&fleet, &object::time(now));
    let mut plan = Plan { fleet, forget: Vec::new(), again: None };
    if told == Told::Progress {
        conditions::judge_progress(&plan.fleet, &mut status, now);
        conditions::tell_failure(&plan.fleet, &mut status);
        plan.again = conditions::next_deadline(deployment, &status, now);
    }
    let may_forget = match told {
        Told::Progress => conditions::is_complete(deployment, &deployment["status"]),
        Told::Counts => deployment["spec"]["paused"] == true,
    };
    if may_forget && !object::is_terminating(deployment) {
        plan.forget = plan.fleet.forgotten();
    }
    plan.fleet.deployment["status"] = status;
    plan
}

fn change(
    fleet: &mut Fleet,
    is_taken: impl Fn(&str) -> bool,
    run: impl Fn(&[Set]) -> bool,
    now: Timestamp,
) -> Told {
    let at = object::time(now);
    if object::is_terminating(&fleet.deployment) {
        return Told::Counts;
    }
    conditions::tell_pause(&mut fleet.deployment, &at);
    fleet.sync_revision(&at);
    if fleet.deployment["spec"]["paused"] == true || rollout::is_resized(fleet) {
        rollout::scale(fleet);
        return Told::Counts;
    }
    if fleet.is_rolling() {
        if fleet.new.is_none() {
            make(fleet, is_taken, &at);
        } else {
            rollout::roll(fleet);
        }
    } else if rollout::stop_old(fleet) == Step::Stayed {
        let old_remain = fleet.old.iter().any(|set| set.counted("replicas") > 0) || run(&fleet.old);
        match &fleet.new {
            _ if old_remain => {}
            None => make(fleet, is_taken, &at),
            Some(_) => fleet.fill_new(),
        }
    }
    Told::Progress
}

fn make(fleet: &mut Fleet, is_taken: impl Fn(&str) -> bool, at: &Value) {
    if is_taken(&fleet.next_name()) {
        fleet.count_collision();
    } else {
        fleet.make_new(at);
    }
}

#[cfg(test)]
mod tests;
