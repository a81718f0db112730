//! Parts of objects that have a form of their own: scale, binding and eviction.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Call, State};
use crate::failure::{Cause, CauseReason, Failure, Reason};
use crate::kinds::Subresource;
use crate::object;
use crate::patch;
use crate::request::{Place, Query, Verb};
use crate::selector::LabelSelector;
use crate::store::Key;

use super::write::{PatchKind, Writer, decode, decode_patch, manager};

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
            (Subresource::Binding, Verb::Create) => self.bind(place, query, call),
            (Subresource::Eviction, Verb::Create) => self.evict(place, query, call),
            (Subresource::Scale, Verb::Get) => {
                self.existing(place).map(|(_, object)| (200, scale_of(&object)))
            }
            (Subresource::Scale, Verb::Update) => {
                let wanted = decode(call)?;
                self.rescale(place, query, call, &wanted)
            }
            (Subresource::Scale, Verb::Patch) => {
                let (kind, body) = (PatchKind::parse(&call.content_type)?, decode_patch(call)?);
                let scale = scale_of(&self.existing(place)?.1);
                let wanted = match kind {
                    PatchKind::Json => patch::json_patch(&scale, &body)?,
                    _ => patch::merge_patch(&scale, &body)?,
                };
                self.rescale(place, query, call, &wanted)
            }
            _ => Err(Failure::not_allowed()),
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
        let mut new = (*old).clone();
        new["spec"]["replicas"] = json!(replicas);
        object::set(&mut new, "resourceVersion", json!(object::revision(wanted)));
        let whole = Place { subresource: None, ..place.clone() };
        let (code, new) =
            self.replace(&whole, query, Writer::Update(manager(query, call)), &key, &old, new)?;
        Ok((code, scale_of(&new)))
    }

    fn bind(&mut self, place: &Place, query: &Query, call: &Call) -> Result<(u16, Value), Failure> {
        let binding = decode(call)?;
        self.bind_to(place, query, object::text(&binding, &["target", "name"]))
    }

    pub(super) fn bind_to(
        &mut self,
        place: &Place,
        query: &Query,
        node: &str,
    ) -> Result<(u16, Value), Failure> {
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
        let scheduled = json!({
            "type": "PodScheduled", "status": "True",
            "lastProbeTime": null, "lastTransitionTime": object::time(self.now()),
        });
        set_condition(&mut new, scheduled);
        if !query.is_dry_run() {
            self.store.put(key, new);
        }
        Ok((201, success(201)))
    }

    fn evict(&mut self, place: &Place, query: &Query, call: &Call) -> Result<(u16, Value), Failure> {
        let eviction = decode(call)?;
        let (key, pod) = self.existing(place)?;
        let phase = object::text(&pod, &["status", "phase"]);
        // What does not run, or goes already, is nothing that a budget protects.
        let is_protected = phase == "Running" && !object::is_terminating(&pod);
        let budget = if is_protected { self.budget_of(&key, &pod)? } else { None };
        if let Some((budget_key, budget)) = budget {
            self.draw(&budget_key, &budget, &key, query)?;
        }
        let options = eviction.get("deleteOptions").map(Value::to_string).unwrap_or_default();
        let call = Call { body: options.into_bytes(), ..call.clone() };
        let whole = Place { subresource: None, ..place.clone() };
        self.delete(&whole, query, &call)?;
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
            let (needed, healthy) = (number("/status/desiredHealthy"), number("/status/currentHealthy"));
            return refuse(
                format!(
                    "The disruption budget {} needs {needed} healthy pods and has {healthy} currently",
                    key.name
                ),
                None,
            );
        }
        if !query.is_dry_run() {
            let mut next = budget.clone();
            next["status"]["disruptionsAllowed"] = json!(allowed - 1);
            next["status"]["disruptedPods"][&*pod.name] = object::time(self.now());
            self.store.put(key.clone(), next);
        }
        Ok(())
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
    json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata,
        "spec": { "replicas": object.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(0) },
        "status": status,
    })
}

/// Sets a condition by its type.
fn set_condition(object: &mut Value, condition: Value) {
    let conditions = &mut object["status"]["conditions"];
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    if let Some(list) = conditions.as_array_mut() {
        match list.iter_mut().find(|known| known["type"] == condition["type"]) {
            Some(known) => *known = condition,
            None => list.push(condition),
        }
    }
}

fn success(code: u16) -> Value {
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code })
}
