//! The scheduler: kube-scheduler's filters, which are those of berth-core, its default scores, and preemption.
//!
//! Pods are taken one at a time from a queue of its own, so all its work is about one thing: the queue.

mod cache;
mod company;
mod decision;
mod filter;
mod outlook;
mod preempt;
mod queue;
mod score;
mod trial;

use std::sync::Arc;

use berth_api::held;
use berth_core::names::Text;

use super::{Controller, Decision, Report, Severity, View};
use crate::api::Act;
use crate::json::{Value, json};
use crate::object;
use crate::store::{Change, Key};

use cache::{Cache, DISRUPTION_TARGET, PREEMPTED, PodId, Slot};
use decision::{Circumstances, NoPlace, Nomination, Verdict};
use filter::Concerns;
use outlook::Outlooks;
use preempt::Budget;
use queue::Queue;

/// As pods and events name it.
const NAME: &str = "default-scheduler";

/// Longer texts are no text for an event.
const REPORT_CHARS_MAX: usize = 1024;

#[derive(Debug)]
pub(crate) struct Scheduler {
    cache: Cache,
    outlooks: Outlooks,
    queue: Queue,
    /// What was to be done last: whether it was done is seen at the next look.
    tried: Option<Tried>,
    /// What is looked at whenever somebody's turn has come.
    turn: Key,
}

#[derive(Debug)]
enum Tried {
    Bind(Key),
    /// To tell the pod why it waits.
    Tell(Key, String),
}

impl Scheduler {
    pub(crate) fn new() -> Self {
        Self {
            cache: Cache::new(),
            outlooks: Outlooks::default(),
            queue: Queue::default(),
            tried: None,
            turn: Key::new("pods", "", "next in the queue"),
        }
    }

    fn observe_pod(&mut self, change: &Change, view: View<'_>) {
        let key = &change.key;
        let noted = match &change.after {
            Some(after) => self.cache.put_pod(key, change.before.as_deref(), after),
            None => self.cache.remove_pod(key),
        };
        let is_ours = noted.waits && change.after.as_ref().is_some_and(|pod| is_ours(pod));
        match self.cache.pod_id(key).and_then(|id| self.cache.class_of(id)) {
            Some(class) if is_ours => {
                self.queue.put(key, class.spec.priority, noted.asks_anew, view.now());
            }
            _ => self.queue.remove(key),
        }
        if noted.made_room {
            self.queue.wake(Concerns::ROOM, view.now());
        }
        if noted.settled {
            self.queue.wake(Concerns::COMPANY, view.now());
        }
    }

    /// What a change of another object could help.
    fn observe_other(&mut self, change: &Change) -> Option<Concerns> {
        let Change { key, before, after, .. } = change;
        let (name, after) = (key.name(), after.as_deref());
        match key.resource() {
            "nodes" => {
                let matters = match after {
                    Some(after) => self.cache.put_node(key, before.as_deref(), after),
                    None => self.cache.remove_node(name),
                };
                return matters.then_some(Concerns::NODES.and(Concerns::COMPANY));
            }
            "namespaces" => {
                self.cache.put_namespace(name, after);
                return Some(Concerns::COMPANY);
            }
            "csinodes.storage.k8s.io" => self.cache.put_limits(name, after),
            "persistentvolumeclaims" => self.cache.put_claim(key, after),
            "persistentvolumes" => self.cache.put_volume(name, after),
            "storageclasses.storage.k8s.io" => self.cache.put_storage_class(name, after),
            _ => return None,
        }
        Some(Concerns::STORAGE)
    }

    /// What is to be done about the pod whose turn it is.
    fn try_one(&mut self, key: &Key, view: View<'_>) -> Option<Decision> {
        let pod = view.get(key)?;
        let id = self.cache.pod_id(key)?;
        let known = self.cache.pod(id)?;
        if known.slot.is_some() || known.terminating {
            self.queue.remove(key);
            return None;
        }
        if self.cache.class_of(id).is_some_and(|class| !class.spec.scheduling_gates.is_empty()) {
            self.queue.hold(key);
            let gated = condition("SchedulingGated", GATED, view);
            let next = with_status(&pod, Some(gated), Nomination::Stays, None);
            return next.map(|next| Decision::act(Act::UpdateStatus("pods", next)));
        }
        let circumstances = Circumstances {
            uid: object::uid(&pod),
            never_preempts: object::text(&pod, &["spec", "preemptionPolicy"]) == "Never",
            company: company::company(&pod, view),
            budgets: &|| budgets(view),
        };
        match decision::decide(&self.cache, &mut self.outlooks, id, &circumstances)? {
            Verdict::Bind(slot) => {
                let node = self.node_name(slot)?;
                self.tried = Some(Tried::Bind(key.clone()));
                let message = format!("Successfully assigned {}/{} to {node}", key.namespace(), key.name());
                let report = report(&pod, Severity::Normal, "Scheduled", message);
                let act = Act::Bind { pod, node: node.to_string() };
                Some(Decision { acts: vec![act], reports: vec![report], again: None })
            }
            Verdict::NoPlace(no_place) => {
                self.queue.park(key, no_place.concerns, view.now());
                self.tried = Some(Tried::Tell(key.clone(), no_place.message.clone()));
                Some(self.left_waiting(&pod, id, no_place, view))
            }
        }
    }

    fn node_name(&self, slot: Slot) -> Option<Text> {
        self.cache.host(slot).and_then(|host| host.name.clone())
    }

    /// The pod is told why it waits, and whoever has to go for it goes.
    fn left_waiting(&self, pod: &Arc<Value>, id: PodId, no_place: NoPlace, view: View<'_>) -> Decision {
        let NoPlace { message, nomination, victims, .. } = no_place;
        let mut decision = Decision::default();
        let meant = match nomination {
            Nomination::Is(slot) => self.node_name(slot),
            _ => None,
        };
        let unschedulable = observed(pod, condition("Unschedulable", &message, view));
        let next = with_status(pod, Some(unschedulable), nomination, meant.as_deref());
        decision.acts.extend(next.map(|next| Act::UpdateStatus("pods", next)));
        let told: String = if message.chars().count() > REPORT_CHARS_MAX {
            message.chars().take(REPORT_CHARS_MAX - 4).chain(" ...".chars()).collect()
        } else {
            message
        };
        decision.reports.push(report(pod, Severity::Warning, "FailedScheduling", told));
        if let Nomination::Is(slot) = nomination {
            for other in self.displaced(slot, id, view) {
                let next = with_status(&other, None, Nomination::Ends, None);
                decision.acts.extend(next.map(|next| Act::UpdateStatus("pods", next)));
            }
        }
        for victim in victims.iter().filter_map(|id| view.get(&self.cache.pod(*id)?.key)) {
            if object::is_terminating(&victim) {
                continue;
            }
            let next =
                with_status(&victim, Some(observed(&victim, disruption(view))), Nomination::Stays, None);
            decision.acts.extend(next.map(|next| Act::UpdateStatus("pods", next)));
            decision.acts.push(Act::delete("pods", &victim));
            let node = meant.as_deref().unwrap_or_default();
            let message = format!("Preempted by pod {} on node {node}", object::uid(pod));
            decision.reports.push(report(&victim, Severity::Normal, "Preempted", message));
        }
        decision
    }

    /// Pods of lower priority that the same node was meant for: it may not suffice for them now.
    fn displaced(&self, slot: Slot, id: PodId, view: View<'_>) -> Vec<Arc<Value>> {
        let priority = |id: PodId| self.cache.class_of(id).map(|class| class.spec.priority);
        let own = priority(id);
        let lower = self.cache.nominated(slot).filter(|other| *other != id && priority(*other) < own);
        lower.filter_map(|other| view.get(&self.cache.pod(other)?.key)).collect()
    }
}

impl Controller for Scheduler {
    fn name(&self) -> &'static str {
        "kube-scheduler"
    }

    fn observe(&mut self, change: &Change, view: View<'_>) -> Vec<Key> {
        if change.key.resource() == "pods" {
            self.observe_pod(change, view);
        } else if let Some(concerns) = self.observe_other(change) {
            self.queue.wake(concerns, view.now());
        } else {
            return Vec::new();
        }
        // Whoever rests is to be woken in time, which only a look can see to.
        self.queue.take_news().then(|| self.turn.clone()).into_iter().collect()
    }

    fn decide(&mut self, _: &Key, view: View<'_>) -> Decision {
        match self.tried.take() {
            Some(Tried::Bind(key)) => self.queue.rest(&key, view.now()),
            Some(Tried::Tell(key, message))
                if view.get(&key).is_some_and(|pod| reason_told(&pod) != message) =>
            {
                self.queue.ready(&key, view.now());
            }
            _ => {}
        }
        let decision = self.queue.pop(view.now()).and_then(|key| self.try_one(&key, view));
        self.queue.take_news();
        Decision { again: self.queue.next(view.now()), ..decision.unwrap_or_default() }
    }
}

/// What the API server says of pods that are held back by their gates.
const GATED: &str = "Scheduling is blocked due to non-empty scheduling gates";

fn is_ours(pod: &Value) -> bool {
    let name = object::text(pod, &["spec", "schedulerName"]);
    (name.is_empty() || name == NAME) && !object::is_terminating(pod)
}

/// Why the pod waits, as it was told last.
fn reason_told(pod: &Value) -> &str {
    let conditions = object::at(pod, "/status/conditions").and_then(Value::as_array);
    let scheduled = conditions.into_iter().flatten().find(|condition| condition["type"] == "PodScheduled");
    scheduled.map_or("", |condition| object::text(condition, &["message"]))
}

fn report(pod: &Value, severity: Severity, reason: &'static str, message: String) -> Report {
    let about = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": object::name(pod), "namespace": object::namespace(pod), "uid": object::uid(pod),
            "resourceVersion": object::revision(pod),
        },
    });
    Report { about, severity, reason, message, component: NAME }
}

/// That the pod is not scheduled, and why.
fn condition(reason: &str, message: &str, view: View<'_>) -> Value {
    json!({
        "type": "PodScheduled", "status": "False", "reason": reason, "message": message,
        "lastProbeTime": null, "lastTransitionTime": object::time(view.now()),
    })
}

fn disruption(view: View<'_>) -> Value {
    json!({
        "type": DISRUPTION_TARGET, "status": "True", "reason": PREEMPTED,
        "message": format!("{NAME}: preempting to accommodate a higher priority pod"),
        "lastProbeTime": null, "lastTransitionTime": object::time(view.now()),
    })
}

/// What was made of the pod as it is now.
fn observed(pod: &Value, mut condition: Value) -> Value {
    if let Some(generation) = object::at(pod, "/metadata/generation") {
        condition["observedGeneration"] = generation.clone();
    }
    condition
}

/// The pod with another condition and another node meant for it; nothing if it is so already.
fn with_status(
    pod: &Value,
    condition: Option<Value>,
    nomination: Nomination,
    meant: Option<&str>,
) -> Option<Value> {
    let mut next = pod.clone();
    let status = &mut next["status"];
    if let Some(mut condition) = condition {
        let conditions = &mut status["conditions"];
        if !conditions.is_array() {
            *conditions = json!([]);
        }
        let list = conditions.as_array_mut()?;
        match list.iter_mut().find(|known| known["type"] == condition["type"]) {
            Some(known) => {
                if known["status"] == condition["status"] {
                    condition["lastTransitionTime"] = known["lastTransitionTime"].clone();
                }
                *known = condition;
            }
            None => list.push(condition),
        }
    }
    match (nomination, meant) {
        (Nomination::Is(_), Some(meant)) => status["nominatedNodeName"] = json!(meant),
        (Nomination::Ends, _) => {
            if let Some(status) = status.as_object_mut() {
                status.remove("nominatedNodeName");
            }
        }
        _ => {}
    }
    (next != *pod).then_some(next)
}

fn budgets(view: View<'_>) -> Vec<Budget> {
    let read = |budget: Arc<Value>| {
        let disrupted = object::at(&budget, "/status/disruptedPods").and_then(Value::as_object);
        Some(Budget {
            namespace: object::namespace(&budget).into(),
            selector: held::selector(object::at(&budget, "/spec/selector")?).ok()?,
            allowed: object::at(&budget, "/status/disruptionsAllowed").and_then(Value::as_i64).unwrap_or(0),
            disrupted: disrupted.into_iter().flatten().map(|(name, _)| Text::from(&**name)).collect(),
        })
    };
    view.list("poddisruptionbudgets.policy", None).filter_map(read).collect()
}

#[cfg(test)]
mod tests;
