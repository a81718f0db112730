//! Parts of objects that have a form of their own: scale, binding and eviction.

use std::sync::Arc;

use serde_json::{Value, json};

use super::admit::matter;
use super::{Call, State};
use crate::admission::{self, Matter, Operation};
use crate::failure::{Cause, CauseReason, Failure, Reason};
use crate::kinds::Subresource;
use crate::object;
use crate::patch;
use crate::proto::put_in_form;
use crate::request::{Place, Query, Verb};
use crate::selector::LabelSelector;
use crate::store::Key;

use super::bodies::{patch_of, resource_of};
use super::delete::Options;
use super::write::{PatchKind, Writer, manager};

/// A scale is the same for all that have one.
const SCALE: (&str, &str) = ("autoscaling/v1", "Scale");

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
            (Subresource::Scale, Verb::Get) => {
                self.existing(place).map(|(_, object)| (200, scale_of(&object)))
            }
            (Subresource::Scale, Verb::Update) => {
                let wanted = self.part_of(SCALE.0, SCALE.1, query, call)?;
                self.rescale(place, query, call, &wanted)
            }
            (Subresource::Scale, Verb::Patch) => {
                let given = patch_of(query, call)?;
                let scale = scale_of(&self.existing(place)?.1);
                let wanted = match given.kind {
                    PatchKind::Json => patch::json_patch(&scale, &given.body)?,
                    _ => patch::merge_patch(&scale, &given.body)?,
                };
                let wanted = self.patched(&resource_of(SCALE.0, SCALE.1), given, wanted, call)?;
                self.rescale(place, query, call, &wanted)
            }
            _ => Err(Failure::new(
                Reason::MethodNotAllowed,
                "the server does not allow this method on the requested resource",
            )),
        }
    }

    fn rescale(
        &mut self,
        place: &Place,
        query: &Query,
        call: &Call,
        wanted: &Value,
    ) -> Result<(u16, Value), Failure> {
        let (key, old) = self.existing(place)?;
        let replicas = wanted.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(0);
        if replicas < 0 {
            let cause = Cause {
                reason: CauseReason::FieldValueInvalid,
                field: "spec.replicas".to_owned(),
                message: format!("Invalid value: {replicas}: must be greater than or equal to 0"),
            };
            let mut failure = Failure::invalid(&place.resource, &key.name, vec![cause]);
            "Scale".clone_into(&mut failure.details.kind);
            return Err(failure);
        }
        let old_scale = scale_of(&old);
        let mut scale = wanted.clone();
        let matter =
            Matter { kind: Some(["autoscaling", "v1", "Scale"]), ..matter(place, query, Operation::Update) };
        self.admit(&matter, Some(&old_scale), &mut scale)?;
        self.check_admission(&matter, Some(&old_scale), Some(&scale))?;
        self.hearing.is_settled = true;
        let replicas = scale.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(replicas);
        let mut new = (*old).clone();
        new["spec"]["replicas"] = json!(replicas);
        object::set(&mut new, "resourceVersion", json!(object::revision(wanted)));
        let whole = Place { subresource: None, ..place.clone() };
        let (code, new) =
            self.replace(&whole, query, Writer::Update(manager(query, call)), &key, &old, new)?;
        Ok((code, scale_of(&new)))
    }

    fn bind(&mut self, place: &Place, query: &Query, call: &Call) -> Result<(u16, Value), Failure> {
        let binding = self.part_of("v1", "Binding", query, call)?;
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
        if !assigned.is_empty() {
            let why = format!("pod {} is already assigned to node {assigned:?}", key.name);
            let mut failure = Failure::conflict(&place.resource, &key.name, &why);
            "pods/binding".clone_into(&mut failure.details.kind);
            failure.message = failure.message.replacen("on pods ", "on pods/binding ", 1);
            return Err(failure);
        }
        if object::is_terminating(&pod) {
            let why = format!("pod {} is being deleted, cannot be assigned to a host", key.name);
            return Err(Failure::conflict(&place.resource, &key.name, &why));
        }
        let mut new = (*pod).clone();
        new["spec"]["nodeName"] = json!(node);
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
        if !query.dry_run {
            self.store.put(key, new);
        }
        Ok((201, success(201)))
    }

    fn evict(&mut self, place: &Place, query: &Query, call: &Call) -> Result<(u16, Value), Failure> {
        let mut eviction = self.part_of("policy/v1", "Eviction", query, call)?;
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
        if query.dry_run {
            options.dry_run = vec!["All".to_owned()];
        }
        let whole = Place { subresource: None, ..place.clone() };
        if options.is_dry_run() {
            self.delete_object(&whole, &options)?;
            return Ok((201, success(201)));
        }
        options.expect(&place.resource, &key, &pod)?;
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
        let all = self.store.list("poddisruptionbudgets.policy", Some(&pod_key.namespace));
        let mut over = all.filter(|(_, budget)| {
            LabelSelector::from_value(&budget["spec"]["selector"])
                .is_ok_and(|selector| selector.matches(&pod["metadata"]["labels"]))
        });
        let first = over.next().map(|(key, budget)| (key.clone(), budget));
        if over.next().is_some() {
            return Err(Failure::new(
                Reason::InternalError,
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
                format!("The disruption budget {} is still being processed by the server.", key.name);
            return refuse(message, Some(10));
        }
        let allowed = number("/status/disruptionsAllowed");
        if allowed <= 0 {
            return refuse(refusal(&key.name, budget), None);
        }
        if !query.dry_run {
            let mut next = budget.clone();
            next["status"]["disruptionsAllowed"] = json!(allowed - 1);
            next["status"]["disruptedPods"][&*pod.name] = object::time(self.now());
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

/// A workload as its scale shows it.
fn scale_of(object: &Value) -> Value {
    let metadata: serde_json::Map<String, Value> =
        ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"]
            .iter()
            .filter_map(|field| Some(((*field).to_owned(), object["metadata"].get(field)?.clone())))
            .collect();
    let mut status =
        json!({ "replicas": object.pointer("/status/replicas").and_then(Value::as_i64).unwrap_or(0) });
    if let Ok(selector @ LabelSelector::All(_)) = LabelSelector::from_value(&object["spec"]["selector"]) {
        status["selector"] = json!(selector.to_string());
    }
    let mut scale = json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata,
        "spec": { "replicas": object.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(0) },
        "status": status,
    });
    put_in_form(SCALE.0, SCALE.1, &mut scale);
    scale
}

fn success(code: u16) -> Value {
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code })
}
