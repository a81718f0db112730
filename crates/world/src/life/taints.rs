//! Taint eviction: pods leave nodes whose taints they do not tolerate, at once or when their patience ends.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::{Controller, Decision, Report, Severity, View};
use crate::api::Act;
use crate::json::{Value, json};
use crate::object;
use crate::store::{Change, Key};

#[derive(Debug, Default)]
pub(crate) struct TaintEviction {
    /// When pods are to go that still tolerate what is there, and which they are.
    due: BTreeMap<Key, (String, Timestamp)>,
    /// The nodes that not everybody tolerates.
    tainted: BTreeSet<Arc<str>>,
}

/// For how long a pod stays where there are such taints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Patience {
    None,
    For(SignedDuration),
    Endless,
}

fn no_execute(node: &Value) -> Vec<&Value> {
    let taints = object::at(node, "/spec/taints").and_then(Value::as_array);
    taints.into_iter().flatten().filter(|taint| taint["effect"] == "NoExecute").collect()
}

fn tolerates(toleration: &Value, taint: &Value) -> bool {
    let word = |field| object::text(toleration, &[field]);
    let said = |field| object::text(taint, &[field]);
    let value_fits = match word("operator") {
        "Exists" => true,
        "" | "Equal" => word("value") == said("value"),
        _ => false,
    };
    (word("effect").is_empty() || word("effect") == said("effect"))
        && (word("key").is_empty() || word("key") == said("key"))
        && value_fits
}

fn patience(pod: &Value, taints: &[&Value]) -> Patience {
    let tolerations: Vec<&Value> =
        object::at(pod, "/spec/tolerations").and_then(Value::as_array).into_iter().flatten().collect();
    let mut least = Patience::Endless;
    for taint in taints {
        let Some(used) = tolerations.iter().find(|toleration| tolerates(toleration, taint)) else {
            return Patience::None;
        };
        if let Some(secs) = used["tolerationSeconds"].as_i64() {
            let wait = SignedDuration::from_secs(secs.max(0));
            least = match least {
                Patience::For(known) => Patience::For(known.min(wait)),
                _ => Patience::For(wait),
            };
        }
    }
    least
}

impl TaintEviction {
    /// Lets a pod stay after all.
    fn cancel(&mut self, key: &Key, pod: &Value) -> Decision {
        let was_due = self.due.remove(key).is_some();
        let reports = was_due.then(|| tell(key, pod, "Cancelling deletion of Pod")).into_iter().collect();
        Decision { reports, ..Decision::none() }
    }

    fn evict(&mut self, key: &Key, pod: &Arc<Value>, now: Timestamp) -> Decision {
        self.due.remove(key);
        let marked =
            disrupted(pod, "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint", now);
        let acts = vec![Act::UpdateStatus("pods", marked), Act::delete("pods", pod)];
        Decision { acts, reports: vec![tell(key, pod, "Marking for deletion Pod")], again: None }
    }
}

/// A pod that says for what reason it is about to go.
pub(super) fn disrupted(pod: &Value, reason: &str, message: &str, now: Timestamp) -> Value {
    let mut next = pod.clone();
    object::set_condition(
        &mut next,
        json!({
            "type": "DisruptionTarget", "status": "True", "reason": reason, "message": message,
            "observedGeneration": pod["metadata"]["generation"],
            "lastProbeTime": null, "lastTransitionTime": object::time(now),
        }),
    );
    next
}

fn tell(key: &Key, pod: &Value, what: &str) -> Report {
    let message = format!("{what} {}/{}", key.namespace(), key.name());
    Report::about(pod, Severity::Normal, "TaintManagerEviction", message, "taint-eviction-controller")
}

impl Controller for TaintEviction {
    fn name(&self) -> &'static str {
        "kube-controller-manager"
    }

    fn observe(&mut self, change: &Change, view: View<'_>) -> Vec<Key> {
        let changes = |path: &str| {
            let at = |object: &Option<Arc<Value>>| {
                object.as_ref().and_then(|object| object::at(object, path)).cloned()
            };
            at(&change.before) != at(&change.after)
        };
        match change.key.resource() {
            "nodes" if changes("/spec/taints") => {
                let node = change.key.name();
                if change.after.as_ref().is_some_and(|node| !no_execute(node).is_empty()) {
                    self.tainted.insert(node.into());
                } else if !self.tainted.remove(node) {
                    return Vec::new();
                }
                view.keys_on(node).cloned().collect()
            }
            "pods" if change.after.is_none() => {
                self.due.remove(&change.key);
                Vec::new()
            }
            "pods" if changes("/spec/nodeName") || changes("/spec/tolerations") => {
                let node = change.after.as_ref().map(|pod| object::text(pod, &["spec", "nodeName"]));
                let is_worth_it = node.is_some_and(|node| self.tainted.contains(node));
                is_worth_it.then(|| change.key.clone()).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    fn decide(&mut self, key: &Key, view: View<'_>) -> Decision {
        let Some(pod) = view.get(key) else { return Decision::none() };
        let node = view.get(&Key::new("nodes", "", object::text(&pod, &["spec", "nodeName"])));
        let Some(node) = node.filter(|_| !object::is_terminating(&pod)) else { return Decision::none() };
        let taints = no_execute(&node);
        match patience(&pod, &taints) {
            Patience::Endless => self.cancel(key, &pod),
            Patience::None => self.evict(key, &pod, view.now()),
            Patience::For(wait) => {
                let ends = view.now().checked_add(wait).unwrap_or(Timestamp::MAX);
                let uid = object::uid(&pod);
                // Patience begins with the first taint and is not renewed by the next.
                let known = self.due.get(key).filter(|(of, _)| of == uid).map(|(_, due)| *due);
                let due = known.unwrap_or(ends);
                if due <= view.now() {
                    return self.evict(key, &pod, view.now());
                }
                self.due.insert(key.clone(), (uid.to_owned(), due));
                Decision::again(due)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_is_that_of_the_least_patient_toleration() {
        let taint = |key: &str| json!({"key": key, "value": "v", "effect": "NoExecute"});
        let exists = |key: &str, secs: Option<i64>| {
            let mut toleration = json!({"key": key, "operator": "Exists", "effect": "NoExecute"});
            if let Some(secs) = secs {
                toleration["tolerationSeconds"] = json!(secs);
            }
            toleration
        };
        let secs = |secs| Patience::For(SignedDuration::from_secs(secs));
        let rows = [
            (vec![], vec![], Patience::Endless),
            (vec![taint("a")], vec![], Patience::None),
            (vec![taint("a")], vec![exists("b", None)], Patience::None),
            (vec![taint("a")], vec![exists("a", None)], Patience::Endless),
            (vec![taint("a")], vec![exists("a", Some(300))], secs(300)),
            (vec![taint("a")], vec![exists("a", Some(-1))], secs(0)),
            (vec![taint("a"), taint("b")], vec![exists("a", Some(300)), exists("b", Some(60))], secs(60)),
            (vec![taint("a"), taint("b")], vec![exists("a", Some(300))], Patience::None),
            (vec![taint("a")], vec![json!({"operator": "Exists"})], Patience::Endless),
            (vec![taint("a")], vec![json!({"key": "a", "value": "v"})], Patience::Endless),
            (vec![taint("a")], vec![json!({"key": "a", "value": "w"})], Patience::None),
            (
                vec![taint("a")],
                vec![json!({"key": "a", "operator": "Exists", "effect": "NoSchedule"})],
                Patience::None,
            ),
        ];
        for (taints, tolerations, expected) in rows {
            let pod = json!({"spec": {"tolerations": tolerations}});
            let taints: Vec<&Value> = taints.iter().collect();
            assert_eq!(patience(&pod, &taints), expected, "{taints:?} {pod}");
        }
    }
}
