//! Jobs: pods that run to their end, as often as it takes.

mod failures;
mod indexes;
mod plan;
mod pod;
mod progress;

use std::sync::Arc;

use jiff::Timestamp;

use super::owned::{Bond, MANAGER, Owners, Steps, held, set_count, status_of};
use super::pods::{self, number};
use super::refused::Refusal;
use super::{Controller, Decision, Report, View};
use crate::api::{Act, Propagation};
use crate::json::Value;
use crate::object;
use crate::store::{Change, Key};

use plan::plan;

pub(crate) const RESOURCE: &str = "jobs.batch";
const COMPONENT: &str = "job-controller";
/// By which jobs may name this controller.
const OWN_NAME: &str = "kubernetes.io/job-controller";
const BOND: Bond = Bond { api_version: "batch/v1", kind: "Job", owners: RESOURCE, owned: "pods" };

#[derive(Debug)]
pub(crate) struct Jobs {
    owners: Owners,
}

impl Jobs {
    pub(crate) fn new() -> Self {
        Self { owners: Owners::of(BOND) }
    }
}

impl Controller for Jobs {
    fn name(&self) -> &'static str {
        MANAGER
    }

    fn observe(&mut self, change: &Change, view: View<'_>) -> Vec<Key> {
        match change.key.resource() {
            RESOURCE => {
                let mut keys = vec![change.key.clone()];
                if let (Some(gone), None) = (&change.before, &change.after) {
                    let left = view.dependents(object::uid(gone)).filter(|key| key.resource() == "pods");
                    keys.extend(left.cloned());
                }
                keys
            }
            "pods" => {
                let mut keys = self.owners.of_owned(change, view);
                if change.after.as_ref().is_some_and(|pod| is_left_behind(pod, view)) {
                    keys.push(change.key.clone());
                }
                keys
            }
            _ => Vec::new(),
        }
    }

    fn decide(&mut self, key: &Key, view: View<'_>) -> Decision {
        if key.resource() == "pods" {
            let left = view.get(key).filter(|pod| is_left_behind(pod, view));
            let untrack = |pod: Arc<Value>| Decision::act(Act::Update("pods", pod::untracked(&pod)));
            return left.map_or_else(Decision::none, untrack);
        }
        let job = match self.owners.look(key, view) {
            Ok(job) => job,
            Err(instead) => return instead,
        };
        let mut steps = Steps::of(job.clone(), COMPONENT, view);
        if let Some(at) = end_of_life(&job) {
            if at > view.now() {
                steps.look_again(Some(at));
            } else {
                steps.delete(RESOURCE, &job, Propagation::Foreground);
                return steps.done();
            }
        }
        if is_of_others(&job) {
            return steps.done();
        }
        let pods = self.owners.claim(&mut steps, |_| true);
        let plan = plan(&job, &pods, view.now());
        for index in plan.create {
            steps.create_pod(pod::new(&job, index));
        }
        for pod in &plan.delete {
            steps.delete_pod(pod);
        }
        for pod in &plan.drop {
            // It is not to be counted: nothing has come of it.
            if pod::is_tracked(pod) {
                steps.act(Act::Update("pods", pod::untracked(pod)));
            }
            steps.delete_pod(pod);
        }
        steps.set_status(RESOURCE, plan.status);
        // Only once it is on record how a pod ended may the pod go.
        for pod in &plan.counted {
            steps.act(Act::Update("pods", pod::untracked(pod)));
        }
        for (severity, reason, message) in plan.told {
            steps.tell(severity, reason, message);
        }
        steps.look_again(plan.again);
        steps.done()
    }

    fn refused(&mut self, key: &Key, refusal: &Refusal, view: View<'_>) -> Decision {
        let job = if key.resource() == RESOURCE { view.get(key) } else { None };
        let told = job.and_then(|job| Some((refusal.of_pod(&job, COMPONENT)?, job)));
        let Some((report, job)) = told else { return Decision::none() };
        let plan = plan(&job, &held("pods", &job, view), view.now());
        let mut status = plan.status;
        // Those that are still to be made are not there.
        let active = usize::try_from(number(&status, "/active")).unwrap_or(0);
        set_count(&mut status, "active", active.saturating_sub(plan.create.len()));
        let acts = status_of(RESOURCE, &job, status).into_iter().collect();
        let told = plan
            .told
            .into_iter()
            .map(|(severity, reason, message)| Report::about(&job, severity, reason, message, COMPONENT));
        Decision { acts, reports: told.chain([report]).collect(), again: None }
    }
}

/// Whether somebody else sees to a job.
fn is_of_others(job: &Value) -> bool {
    !matches!(object::text(job, &["spec", "managedBy"]), "" | OWN_NAME)
}

/// A pod that still waits to be counted by a job that is no longer there.
fn is_left_behind(pod: &Value, view: View<'_>) -> bool {
    if !pod::is_tracked(pod) {
        return false;
    }
    let Some(owner) = object::controller(pod).filter(|owner| owner.kind == "Job") else { return true };
    let job = view.get(&Key::new(RESOURCE, object::namespace(pod), owner.name));
    job.is_none_or(|job| object::uid(&job) != owner.uid)
}

/// When a job that has ended is to be deleted.
fn end_of_life(job: &Value) -> Option<Timestamp> {
    let secs = job["spec"]["ttlSecondsAfterFinished"].as_i64()?;
    if object::is_terminating(job) {
        return None;
    }
    let ends = ["Complete", "Failed"].into_iter().filter(|kind| pods::has_condition(job, kind));
    let mut ends = ends.filter_map(|kind| object::condition(job, kind));
    let ended = pods::time(&ends.next()?["lastTransitionTime"])?;
    Some(pods::after_secs(ended, secs))
}
