//! What the server's own admission makes of new objects: who a pod runs as, how much it matters, and what it bears.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::State;
use crate::failure::Failure;
use crate::kinds::{Resource, Subresource};
use crate::object;
use crate::request::Place;

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// How long a pod stays on a node that is not well.
const PATIENCE_SECS: i64 = 300;
const KEPT: [&str; 3] = ["default", "kube-public", "kube-system"];

impl State {
    pub(super) fn admit(&self, place: &Place, object: &mut Value) -> Result<(), Failure> {
        match &*place.resource.qualified() {
            "pods" => {
                give_account(object);
                self.give_priority(place, object)?;
                bear_for_a_while(object, NOT_READY);
                bear_for_a_while(object, UNREACHABLE);
            }
            "nodes" => wait_until_ready(object),
            _ => {}
        }
        Ok(())
    }

    /// From the class that it names, or else from the one for all.
    fn give_priority(&self, place: &Place, pod: &mut Value) -> Result<(), Failure> {
        let refused = |why: String| Err(Failure::forbidden(&place.resource, object::name(pod), &why));
        let wanted = object::text(pod, &["spec", "priorityClassName"]);
        let classes: Vec<Arc<Value>> = self
            .store
            .list("priorityclasses.scheduling.k8s.io", None)
            .map(|(_, class)| class)
            .filter(|class| {
                if wanted.is_empty() { class["globalDefault"] == true } else { object::name(class) == wanted }
            })
            .collect();
        // Of several for all, the least important counts.
        let class = classes.iter().min_by_key(|class| class["value"].as_i64());
        if class.is_none() && !wanted.is_empty() {
            return refused(format!("no PriorityClass with name {wanted} was found"));
        }
        let value = class.and_then(|class| class["value"].as_i64()).unwrap_or(0);
        if let Some(given) = pod["spec"]["priority"].as_i64().filter(|given| *given != value) {
            return refused(format!(
                "the integer value of priority ({given}) must not be provided in pod spec; priority admission \
                 controller computed {value} from the given PriorityClass name"
            ));
        }
        let policy = class.map_or("PreemptLowerPriority", |class| object::text(class, &["preemptionPolicy"]));
        let given = object::text(pod, &["spec", "preemptionPolicy"]);
        if !given.is_empty() && given != policy {
            return refused(format!(
                "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority \
                 admission controller computed {policy} from the given PriorityClass name"
            ));
        }
        let (name, policy) = (class.map(|class| json!(object::name(class))), json!(policy));
        if let Some(name) = name {
            pod["spec"]["priorityClassName"] = name;
        }
        pod["spec"]["priority"] = json!(value);
        pod["spec"]["preemptionPolicy"] = policy;
        Ok(())
    }
}

/// Pods bear what they bear from the start whatever becomes of them.
pub(super) fn admit_update(resource: &Resource, part: Option<Subresource>, object: &mut Value) {
    if resource.qualified() == "pods" && part.is_none() {
        bear_for_a_while(object, NOT_READY);
        bear_for_a_while(object, UNREACHABLE);
    }
}

/// A pod that waits for its gates says so.
pub(super) fn note_gates(resource: &Resource, pod: &mut Value, now: Timestamp) {
    let is_gated = pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty());
    if resource.qualified() == "pods" && is_gated {
        pod["status"]["conditions"] = json!([{
            "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "lastProbeTime": null, "lastTransitionTime": object::time(now),
        }]);
    }
}

fn give_account(pod: &mut Value) {
    let given = ["serviceAccountName", "serviceAccount"].map(|field| object::text(pod, &["spec", field]));
    let account = given.into_iter().find(|account| !account.is_empty()).unwrap_or("default").to_owned();
    for field in ["serviceAccountName", "serviceAccount"] {
        pod["spec"][field] = json!(account);
    }
}

fn bear_for_a_while(pod: &mut Value, taint: &str) {
    let tolerations = pod["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
    let bears = tolerations.iter().any(|toleration| {
        let (key, effect) = (object::text(toleration, &["key"]), object::text(toleration, &["effect"]));
        (key.is_empty() || key == taint) && matches!(effect, "" | "NoExecute")
    });
    if !bears {
        let added = json!({
            "key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": PATIENCE_SECS,
        });
        pod["spec"]["tolerations"] = tolerations.into_iter().chain([added]).collect();
    }
}

/// Nothing is sent to a new node before somebody has said that it is well.
fn wait_until_ready(node: &mut Value) {
    let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    let is_tainted = taints.iter().any(|taint| taint["key"] == NOT_READY && taint["effect"] == "NoSchedule");
    if !is_tainted {
        let added = json!({ "key": NOT_READY, "effect": "NoSchedule" });
        node["spec"]["taints"] = taints.into_iter().chain([added]).collect();
    }
}

/// Some namespaces are there to stay.
pub(super) fn check_deletion(place: &Place, name: &str) -> Result<(), Failure> {
    if place.resource.qualified() == "namespaces" && KEPT.contains(&name) {
        return Err(Failure::forbidden(&place.resource, name, "this namespace may not be deleted"));
    }
    Ok(())
}
