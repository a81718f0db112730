//! Nodes whose machines are gone: once they are not ready any more, they are deleted.

use std::sync::{Arc, Mutex};

use jiff::{SignedDuration, Timestamp};

use super::kubelet::{KubeletPlan, Kubelets, locked_plan};
use super::{Controller, Decision, Report, Severity, View};
use crate::api::Act;
use crate::object;
use crate::store::{Change, Key};

/// How often the cloud is asked for the machine of a node that is not ready.
const ASKED_EVERY: SignedDuration = SignedDuration::from_secs(5);

#[derive(Debug)]
pub(crate) struct MachineLifecycle {
    plan: Arc<Mutex<KubeletPlan>>,
}

impl MachineLifecycle {
    pub(crate) fn new(kubelets: &Kubelets) -> Self {
        Self { plan: kubelets.plan() }
    }
}

impl Controller for MachineLifecycle {
    fn name(&self) -> &'static str {
        "cloud-controller-manager"
    }

    fn observe(&mut self, change: &Change, _: View<'_>) -> Vec<Key> {
        let is_node = change.key.resource() == "nodes";
        let is_ready = |node: &crate::json::Value| object::condition_status(node, "Ready") == "True";
        let is_worth_it = is_node && change.after.as_ref().is_some_and(|node| !is_ready(node));
        is_worth_it.then(|| change.key.clone()).into_iter().collect()
    }

    fn decide(&mut self, key: &Key, view: View<'_>) -> Decision {
        let Some(node) = view.get(key) else { return Decision::none() };
        if object::condition_status(&node, "Ready") == "True" || object::is_terminating(&node) {
            return Decision::none();
        }
        if !locked_plan(&self.plan).is_lost(key.name()) {
            let next = view.now().checked_add(ASKED_EVERY).unwrap_or(Timestamp::MAX);
            return Decision::again(next);
        }
        let message = format!("Deleting node {} because it does not exist in the cloud provider", key.name());
        let reports = vec![Report::about(
            &node,
            Severity::Normal,
            "DeletingNode",
            message,
            "cloud-node-lifecycle-controller",
        )];
        Decision { acts: vec![Act::delete("nodes", &node)], reports, again: None }
    }
}
