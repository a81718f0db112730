//! What a deployment says of how it is getting on.

use jiff::{SignedDuration, Timestamp};

use super::fleet::{Fleet, Set, has_deadline};
use crate::json::{Value, json};
use crate::life::owned::set_count;
use crate::life::pods::{after_secs, number, time};
use crate::life::refused::REPLICA_FAILURE;
use crate::object::{self, condition};

pub(super) fn progressing(status: &str, reason: &str, message: &str, now: &Value) -> Value {
    condition_of("Progressing", status, reason, message, now)
}

fn condition_of(kind: &str, status: &str, reason: &str, message: &str, now: &Value) -> Value {
    json!({
        "type": kind, "status": status, "reason": reason, "message": message,
        "lastUpdateTime": now, "lastTransitionTime": now,
    })
}

fn taken(status: &mut Value) -> Vec<Value> {
    match status["conditions"].take() {
        Value::Array(list) => list.into_iter().collect(),
        _ => Vec::new(),
    }
}

/// Sets a condition, unless it says the same for the same reason.
pub(super) fn set(status: &mut Value, mut condition: Value) {
    let mut list = taken(status);
    let is_same = |known: &&Value, field: &str| known[field] == condition[field];
    let known = list.iter().find(|known| is_same(known, "type") && is_same(known, "status"));
    if known.is_some_and(|known| is_same(&known, "reason")) {
        status["conditions"] = json!(list);
        return;
    }
    if let Some(since) = known.map(|known| known["lastTransitionTime"].clone()) {
        condition["lastTransitionTime"] = since;
    }
    list.retain(|known| known["type"] != condition["type"]);
    list.push(condition);
    status["conditions"] = json!(list);
}

fn remove(status: &mut Value, kind: &str) {
    let mut list = taken(status);
    list.retain(|known| known["type"] != kind);
    status["conditions"] = json!(list);
}

/// Says that it is paused, or no longer.
pub(super) fn tell_pause(deployment: &mut Value, now: &Value) {
    if !has_deadline(deployment) {
        return;
    }
    let reason = condition(deployment, "Progressing").map_or(Value::Null, |known| known["reason"].clone());
    if reason == "ProgressDeadlineExceeded" {
        // It has failed, and stays so.
        return;
    }
    let is_said = reason == "DeploymentPaused";
    match (deployment["spec"]["paused"] == true, is_said) {
        (true, false) => {
            let paused = progressing("Unknown", "DeploymentPaused", "Deployment is paused", now);
            set(object::within(deployment, "status"), paused);
        }
        (false, true) => {
            let resumed = progressing("Unknown", "DeploymentResumed", "Deployment is resumed", now);
            set(object::within(deployment, "status"), resumed);
        }
        _ => {}
    }
}

/// What a deployment's status is, by its sets.
pub(super) fn status(fleet: &Fleet, now: &Value) -> Value {
    let deployment = &fleet.deployment;
    let available = fleet.count("availableReplicas");
    let mut status = json!({
        "observedGeneration": number(deployment, "/metadata/generation"),
        "conditions": deployment["status"]["conditions"],
    });
    let updated = fleet.new.as_ref().map_or(0, |new| new.counted("replicas"));
    for (field, count) in [
        ("replicas", fleet.count("replicas")),
        ("updatedReplicas", updated),
        ("readyReplicas", fleet.count("readyReplicas")),
        ("availableReplicas", available),
        ("unavailableReplicas", fleet.total() - available),
    ] {
        set_count(&mut status, field, usize::try_from(count).unwrap_or(0));
    }
    let says_terminating = |set: &Set| !set.object["status"]["terminatingReplicas"].is_null();
    if fleet.all().all(says_terminating) {
        status["terminatingReplicas"] = json!(fleet.count("terminatingReplicas"));
    }
    let collisions = &deployment["status"]["collisionCount"];
    if !collisions.is_null() {
        status["collisionCount"] = collisions.clone();
    }
    let minimum = if available >= fleet.replicas() - fleet.unavailable() {
        ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    };
    set(&mut status, condition_of("Available", minimum.0, minimum.1, minimum.2, now));
    status
}

/// All that is wanted runs, and nothing else.
pub(super) fn is_complete(deployment: &Value, status: &Value) -> bool {
    let replicas = number(deployment, "/spec/replicas");
    let is = |field: &str| number(status, field) == replicas;
    is("/updatedReplicas")
        && is("/replicas")
        && is("/availableReplicas")
        && number(status, "/observedGeneration") >= number(deployment, "/metadata/generation")
}

/// Something has come forward since the status was written last.
fn is_moving(before: &Value, status: &Value) -> bool {
    let was = |field: &str| number(before, field);
    let is = |field: &str| number(status, field);
    is("/updatedReplicas") > was("/updatedReplicas")
        || is("/replicas") - is("/updatedReplicas") < was("/replicas") - was("/updatedReplicas")
        || is("/readyReplicas") > was("/readyReplicas")
        || is("/availableReplicas") > was("/availableReplicas")
}

fn deadline(deployment: &Value, progress: &Value) -> Option<Timestamp> {
    let secs = deployment["spec"]["progressDeadlineSeconds"].as_i64()?;
    time(&progress["lastUpdateTime"]).map(|since| after_secs(since, secs))
}

fn is_timed_out(deployment: &Value, status: &Value, now: Timestamp) -> bool {
    let Some(progress) = progress_of(status) else { return false };
    match progress["reason"].as_str() {
        Some("NewReplicaSetAvailable") => false,
        Some("ProgressDeadlineExceeded") => true,
        _ => deadline(deployment, progress).is_some_and(|deadline| deadline < now),
    }
}

fn progress_of(status: &Value) -> Option<&Value> {
    let all = status["conditions"].as_array()?;
    all.iter().find(|condition| condition["type"] == "Progressing")
}

/// Adds to the status how the rollout is getting on.
pub(super) fn judge_progress(fleet: &Fleet, status: &mut Value, now: Timestamp) {
    let deployment = &fleet.deployment;
    if deployment["spec"]["progressDeadlineSeconds"].is_null() {
        remove(status, "Progressing");
    }
    let known = condition(deployment, "Progressing");
    let reason = known.map_or(&Value::Null, |known| &known["reason"]);
    let was_complete = number(status, "/replicas") == number(status, "/updatedReplicas")
        && *reason == "NewReplicaSetAvailable";
    if !has_deadline(deployment) || was_complete {
        return;
    }
    let subject = match &fleet.new {
        Some(new) => format!("ReplicaSet {:?}", new.name()),
        None => format!("Deployment {:?}", object::name(deployment)),
    };
    let at = object::time(now);
    if is_complete(deployment, status) {
        let message = format!("{subject} has successfully progressed.");
        set(status, progressing("True", "NewReplicaSetAvailable", &message, &at));
    } else if is_moving(&deployment["status"], status) {
        let message = format!("{subject} is progressing.");
        let mut moving = progressing("True", "ReplicaSetUpdated", &message, &at);
        if let Some(known) = known {
            if known["status"] == "True" {
                moving["lastTransitionTime"] = known["lastTransitionTime"].clone();
            }
            // Each step forward gives the next one its whole time again.
            remove(status, "Progressing");
        }
        set(status, moving);
    } else if is_timed_out(deployment, status, now) {
        let message = format!("{subject} has timed out progressing.");
        set(status, progressing("False", "ProgressDeadlineExceeded", &message, &at));
    }
}

/// Adds why sets cannot make or delete pods: of the new one, or else of the oldest.
pub(super) fn tell_failure(fleet: &Fleet, status: &mut Value) {
    let failure = |set: &Set| condition(&set.object, REPLICA_FAILURE).cloned();
    match fleet.new.iter().chain(&fleet.old).find_map(failure) {
        Some(mut failure) => {
            failure["lastUpdateTime"] = failure["lastTransitionTime"].clone();
            set(status, failure);
        }
        None => remove(status, REPLICA_FAILURE),
    }
}

/// When a rollout that stands still will have taken too long.
pub(super) fn next_deadline(deployment: &Value, status: &Value, now: Timestamp) -> Option<Timestamp> {
    let progress = progress_of(status)?;
    let is_over = matches!(
        progress["reason"].as_str(),
        Some("NewReplicaSetAvailable" | "ProgressDeadlineExceeded" | "DeploymentPaused")
    );
    if is_over || !has_deadline(deployment) || is_complete(deployment, status) {
        return None;
    }
    let second = SignedDuration::from_secs(1);
    let deadline = deadline(deployment, progress)?.checked_add(second).unwrap_or(Timestamp::MAX);
    Some(deadline.max(now.checked_add(second).unwrap_or(Timestamp::MAX)))
}
