//! Parts of pods that have a form of their own: binding and eviction.

use std::sync::Arc;

use super::admit::matter;
use super::{Call, State};
use crate::admission::{self, Matter, Operation};
use crate::failure::{Cause, CauseReason, Failure, Reason};
use crate::json::{Value, json};
use crate::kinds::{Resource, Subresource};
use crate::object;
use crate::request::{Place, Query, Verb};
use crate::selector::LabelSelector;
use crate::store::Key;
use crate::validate;

use super::delete::Options;
use super::meant::{check_uid, expect_namespace};

impl State {
    /// Does what is asked of a part that is no view of the object itself.
    pub(super) fn perform_part(
        &mut self,
        part: Subresource,
        verb: Verb,
        place: &Place,
        query: &Query,
        call: &Call,
    ) -> Result<(u16, Value), Failure> {
        match (part, verb) {
            (Subresource::Finalize, Verb::Update) => self.update(place, query, call),
            (Subresource::Binding, Verb::Create) => self.bind(place, query, call),
            (Subresource::Eviction, Verb::Create) => self.evict(place, query, call),
            (Subresource::Log, Verb::Get)
            | (
                Subresource::Exec | Subresource::Attach | Subresource::PortForward,
                Verb::Get | Verb::Create,
            ) => self.reach(part, place, call),
            (Subresource::Scale, _) => self.scale(verb, place, query, call),
            _ => Err(Failure::not_allowed()),
        }
    }

    fn bind(&mut self, place: &Place, query: &Query, call: &Call) -> Result<(u16, Value), Failure> {
        let mut binding = self.part_of("v1", "Binding", query, call)?;
        expect_namespace(place, &mut binding)?;
        let named = Place { name: Some(object::name(&binding).to_owned()), ..place.clone() };
        let place = if place.name.is_none() { &named } else { place };
        if place.name.as_deref() != Some(object::name(&binding)) {
            return Err(Failure::bad_request("name in URL does not match name in Binding object"));
        }
        let causes: Vec<String> = validate::binding(&binding).iter().map(ToString::to_string).collect();
        match &causes[..] {
            [] => {}
            [one] => return Err(Failure::new(Reason::Unknown, one.clone())),
            several => return Err(Failure::new(Reason::Unknown, format!("[{}]", several.join(", ")))),
        }
        let (key, pod) = self.existing(place)?;
        check_uid(&place.resource, query, &key, &binding, &pod)?;
        self.bind_to(place, query, binding)
    }

    pub(super) fn bind_to(
        &mut self,
        place: &Place,
        query: &Query,
        mut binding: Value,
    ) -> Result<(u16, Value), Failure> {
        let matter = Matter { kind: Some(["", "v1", "Binding"]), ..matter(place, query, Operation::Create) };
        self.admit_part(&matter, &mut binding)?;
        let node = object::text(&binding, &["target", "name"]);
        let (key, pod) = self.existing(place)?;
        let assigned = object::text(&pod, &["spec", "nodeName"]);
        let is_gated = pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty());
        let why = if object::is_terminating(&pod) {
            Some(format!("pod {} is being deleted, cannot be assigned to a host", key.name()))
        } else if !assigned.is_empty() {
            Some(format!("pod {} is already assigned to node {assigned:?}", key.name()))
        } else if is_gated {
            Some(format!("pod {} has non-empty .spec.schedulingGates", key.name()))
        } else {
            None
        };
        if let Some(why) = why {
            let of_binding = Resource { plural: "pods/binding".to_owned(), ..(*place.resource).clone() };
            return Err(Failure::conflict(&of_binding, key.name(), &why));
        }
        let mut new = (*pod).clone();
        new["spec"]["nodeName"] = json!(node);
        for (annotation, value) in binding["metadata"]["annotations"].as_object().into_iter().flatten() {
            object::put(&mut new, &["metadata", "annotations", annotation], value.clone());
        }
        admission::topology(&self.store, &mut new);
        let scheduled = json!({
            "type": "PodScheduled", "status": "True",
            "lastProbeTime": null, "lastTransitionTime": object::time(self.now()),
        });
        object::set_condition(&mut new, scheduled);
        // The node that was meant for it is no longer of interest.
        if let Some(status) = new["status"].as_object_mut() {
            status.remove("nominatedNodeName");
        }
        if !query.is_dry_run() {
            self.store.put(key, new);
        }
        Ok((201, success(201)))
    }

    fn evict(&mut self, place: &Place, query: &Query, call: &Call) -> Result<(u16, Value), Failure> {
        let mut eviction = self.part_of("policy/v1", "Eviction", query, call)?;
        expect_namespace(place, &mut eviction)?;
        if place.name.as_deref() != Some(object::name(&eviction)) {
            return Err(Failure::bad_request("name in URL does not match name in Eviction object"));
        }
        let matter =
            Matter { kind: Some(["policy", "v1", "Eviction"]), ..matter(place, query, Operation::Create) };
        self.admit_part(&matter, &mut eviction)?;
        let (key, pod) = self.existing(place)?;
        let phase = object::text(&pod, &["status", "phase"]);
        // What does not run, or goes already, is nothing that a budget protects.
        let is_protected =
            !matches!(phase, "Pending" | "Succeeded" | "Failed") && !object::is_terminating(&pod);
        let budget = if is_protected { self.budget_of(&key, &pod)? } else { None };
        if let Some((budget_key, budget)) = budget.filter(|(_, budget)| !spares(budget, &pod)) {
            self.draw(&budget_key, &budget, &key, query)?;
        }
        let mut options =
            eviction.get("deleteOptions").map_or_else(|| Ok(Options::default()), Options::read)?;
        if query.is_dry_run() {
            options.dry_run.clone_from(&query.dry_run);
        }
        let whole = Place { subresource: None, ..place.clone() };
        if options.is_dry_run() {
            self.delete_object(&whole, &options)?;
            return Ok((201, success(201)));
        }
        options.check_meant(&place.resource, &key, &pod)?;
        let mut marked = (*pod).clone();
        let evicted = json!({
            "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
            "lastProbeTime": null, "lastTransitionTime": object::time(self.now()),
        });
        object::set_condition(&mut marked, evicted);
        if marked != *pod {
            self.store.put(key, marked);
        }
        self.delete_object(&whole, &options.without_revision())?;
        Ok((201, success(201)))
    }

    /// The budget that a pod is under. Two are one too many for the server.
    fn budget_of(&self, pod_key: &Key, pod: &Value) -> Result<Option<(Key, Arc<Value>)>, Failure> {
        let all = self.store.list("poddisruptionbudgets.policy", Some(pod_key.namespace()));
        let mut over = all.filter(|(_, budget)| {
            LabelSelector::from_value(&budget["spec"]["selector"])
                .is_ok_and(|selector| selector.matches(&pod["metadata"]["labels"]))
        });
        let first = over.next().map(|(key, budget)| (key.clone(), budget));
        if over.next().is_some() {
            return Err(Failure::new(
                Reason::Unknown,
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            ));
        }
        Ok(first)
    }

    /// Takes one disruption from a budget, or says why there is none.
    fn draw(&mut self, key: &Key, budget: &Value, pod: &Key, query: &Query) -> Result<(), Failure> {
        let number = |path: &str| budget.pointer(path).and_then(Value::as_i64).unwrap_or(0);
        let refuse = |message: String, retry_after_secs| {
            let mut failure = Failure::new(
                Reason::TooManyRequests,
                "Cannot evict pod as it would violate the pod's disruption budget.",
            );
            let cause = Cause { reason: CauseReason::DisruptionBudget, field: String::new(), message };
            failure.details.causes.push(cause);
            failure.details.retry_after_secs = retry_after_secs;
            Err(failure)
        };
        if number("/status/observedGeneration") < number("/metadata/generation") {
            let message =
                format!("The disruption budget {} is still being processed by the server.", key.name());
            return refuse(message, Some(10));
        }
        let allowed = number("/status/disruptionsAllowed");
        if allowed <= 0 {
            return refuse(refusal(key.name(), budget), None);
        }
        if !query.is_dry_run() {
            let mut next = budget.clone();
            next["status"]["disruptionsAllowed"] = json!(allowed - 1);
            next["status"]["disruptedPods"][pod.name()] = object::time(self.now());
            if allowed == 1 {
                let observed = next["status"]["observedGeneration"].clone();
                let used_up = json!({
                    "type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "message": "",
                    "observedGeneration": observed, "lastTransitionTime": object::time(self.now()),
                });
                object::set_condition(&mut next, used_up);
            }
            self.store.put(key.clone(), next);
        }
        Ok(())
    }
}

/// Whether a budget lets a pod go that is not healthy, and so counts for nothing: always, if it says so, else while
/// there is as much health as it wants.
fn spares(budget: &Value, pod: &Value) -> bool {
    let number = |path: &str| budget.pointer(path).and_then(Value::as_i64).unwrap_or(0);
    let (healthy, needed) = (number("/status/currentHealthy"), number("/status/desiredHealthy"));
    let always = object::text(budget, &["spec", "unhealthyPodEvictionPolicy"]) == "AlwaysAllow";
    object::condition_status(pod, "Ready") != "True" && (always || healthy >= needed && needed > 0)
}

/// Why a budget allows nothing, in the server's words.
fn refusal(name: &str, budget: &Value) -> String {
    let number = |path: &str| budget.pointer(path).and_then(Value::as_i64).unwrap_or(0);
    let (needed, healthy) = (number("/status/desiredHealthy"), number("/status/currentHealthy"));
    let told = object::condition(budget, "DisruptionAllowed")
        .filter(|condition| condition["status"] == "False")
        .map(|condition| (object::text(condition, &["reason"]), object::text(condition, &["message"])))
        .filter(|(_, message)| !message.is_empty());
    match told {
        Some(("SyncFailed", why)) => format!(
            "The disruption budget {name} does not allow evicting pods currently because it failed sync: {why}"
        ),
        _ if healthy <= needed => {
            format!("The disruption budget {name} needs {needed} healthy pods and has {healthy} currently")
        }
        Some((reason, why)) => {
            format!("The disruption budget {name} does not allow evicting pods currently ({reason}): {why}")
        }
        None => format!("The disruption budget {name} does not allow evicting pods currently"),
    }
}

fn success(code: u16) -> Value {
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code })
}
