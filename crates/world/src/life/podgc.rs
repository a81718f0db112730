//! Pods that nobody will ever stop: those of nodes that are gone, and those that were to go before they had a node.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::taints::disrupted;
use super::{Controller, Decision, View};
use crate::api::{Act, Propagation};
use crate::json::{Value, json};
use crate::object;
use crate::store::{Change, Key};

/// For so long a node that is gone may come back.
const QUARANTINE: SignedDuration = SignedDuration::from_secs(40);

const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

#[derive(Debug, Default)]
pub(crate) struct PodCollector {
    /// Since when nodes are missing to which pods are bound.
    missing: BTreeMap<Arc<str>, Timestamp>,
    nodes: BTreeMap<Arc<str>, Service>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Service {
    In,
    Out,
}

fn delete(pod: &Arc<Value>) -> Act {
    let resource = "pods".into();
    Act::Delete { resource, object: pod.clone(), grace_secs: Some(0), propagation: Propagation::Background }
}

/// Marks a pod as failed, and as disrupted if it says why, and deletes it for good.
fn collect(pod: &Arc<Value>, why: Option<&str>, now: Timestamp) -> Vec<Act> {
    let is_deleted = object::at(pod, "/metadata/deletionGracePeriodSeconds") == Some(&json!(0));
    if matches!(object::text(pod, &["status", "phase"]), "Succeeded" | "Failed") {
        return if is_deleted { Vec::new() } else { vec![delete(pod)] };
    }
    let mut failed = match why {
        Some(why) => disrupted(pod, "DeletionByPodGC", why, now),
        None => (**pod).clone(),
    };
    if let Some(status) = failed.get_mut("status").and_then(Value::as_object_mut) {
        status.insert("phase", json!("Failed"));
        status.insert("observedGeneration", pod["metadata"]["generation"].clone());
    }
    vec![Act::UpdateStatus("pods", failed), delete(pod)]
}

fn is_out_of_service(node: &Value) -> bool {
    let taints = object::at(node, "/spec/taints").and_then(Value::as_array);
    object::condition_status(node, "Ready") != "True"
        && taints.into_iter().flatten().any(|taint| taint["key"] == OUT_OF_SERVICE)
}

impl PodCollector {
    fn see_to_node(&mut self, key: &Key, view: View<'_>) -> Decision {
        let now = view.now();
        if let Some(node) = view.get(key) {
            self.missing.remove(key.name());
            if !is_out_of_service(&node) {
                return Decision::none();
            }
            let going = view.pods_on(key.name()).into_iter().filter(|pod| object::is_terminating(pod));
            let acts = going.flat_map(|pod| collect(&pod, None, now)).collect();
            return Decision { acts, ..Decision::none() };
        }
        if view.keys_on(key.name()).next().is_none() {
            self.missing.remove(key.name());
            return Decision::none();
        }
        let since = *self.missing.entry(key.name().into()).or_insert(now);
        let due = since.checked_add(QUARANTINE).unwrap_or(Timestamp::MAX);
        if now < due {
            return Decision::again(due);
        }
        let orphans = view.pods_on(key.name());
        let why = Some("PodGC: node no longer exists");
        Decision { acts: orphans.iter().flat_map(|pod| collect(pod, why, now)).collect(), ..Decision::none() }
    }
}

impl Controller for PodCollector {
    fn name(&self) -> &'static str {
        "kube-controller-manager"
    }

    fn observe(&mut self, change: &Change, _: View<'_>) -> Vec<Key> {
        let own = || vec![change.key.clone()];
        match (change.key.resource(), &change.after) {
            ("nodes", None) => {
                self.nodes.remove(change.key.name());
                own()
            }
            ("nodes", Some(node)) => {
                let service = if is_out_of_service(node) { Service::Out } else { Service::In };
                let before = self.nodes.insert(change.key.name().into(), service);
                if before == Some(service) { Vec::new() } else { own() }
            }
            ("pods", Some(pod)) => {
                let node = object::text(pod, &["spec", "nodeName"]);
                let is_going = object::is_terminating(pod);
                match self.nodes.get(node) {
                    _ if node.is_empty() => {
                        if is_going {
                            own()
                        } else {
                            Vec::new()
                        }
                    }
                    Some(Service::Out) if is_going => vec![Key::new("nodes", "", node)],
                    Some(_) => Vec::new(),
                    None => vec![Key::new("nodes", "", node)],
                }
            }
            _ => Vec::new(),
        }
    }

    fn decide(&mut self, key: &Key, view: View<'_>) -> Decision {
        if key.resource() == "nodes" {
            return self.see_to_node(key, view);
        }
        let Some(pod) = view.get(key) else { return Decision::none() };
        let is_lost = object::is_terminating(&pod) && object::text(&pod, &["spec", "nodeName"]).is_empty();
        let acts = if is_lost { collect(&pod, None, view.now()) } else { Vec::new() };
        Decision { acts, ..Decision::none() }
    }
}
