//! A cluster that lives, for tests: objects are made, time passes, objects are looked at.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use super::{Kubelets, Life, on_nodes};
use crate::api::{Act, Api};
use crate::json::{Value, json};
use crate::object;
use crate::store::Key;

#[derive(Debug)]
pub(super) struct Lab {
    pub(super) api: Api,
    pub(super) kubelets: Kubelets,
    life: JoinHandle<()>,
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.life.abort();
    }
}

impl Lab {
    /// It is the first of January, and nothing is there yet. Those who see to nodes and what runs there work.
    pub(super) fn new() -> Self {
        let api = Api::new(1, "2026-01-01T00:00:00Z".parse().unwrap());
        let kubelets = Kubelets::new(api.clone());
        let life = tokio::spawn(Life::new(api.clone(), on_nodes(&kubelets)).live());
        Self { api, kubelets, life }
    }

    pub(super) async fn act(&self, act: Act) -> Value {
        Arc::unwrap_or_clone(self.api.act("test", act).await.unwrap())
    }

    /// Nodes that are as kubelets make them.
    pub(super) async fn nodes(&self, names: &[&str]) {
        for name in names {
            self.act(Act::Create("nodes", json!({"metadata": {"name": name}}))).await;
        }
    }

    /// A pod bound to a node, with some of its fields told.
    pub(super) async fn pod(&self, name: &str, node: &str, annotations: Value, spec: Value) {
        let mut pod = json!({
            "metadata": {"name": name, "namespace": "default", "annotations": annotations, "labels": {"app": name}},
            "spec": {"nodeName": node, "containers": [{"name": "c", "image": "x:1"}]},
        });
        for (field, value) in spec.as_object().unwrap() {
            pod["spec"][field] = value.clone();
        }
        self.act(Act::Create("pods", pod)).await;
    }

    pub(super) async fn pass(&self, secs: u64) {
        tokio::time::sleep(Duration::from_secs(secs)).await;
    }

    /// The object, or null.
    pub(super) fn get(&self, resource: &str, name: &str) -> Value {
        let state = self.api.state();
        let keys = ["default", "", "kube-node-lease"].map(|namespace| Key::new(resource, namespace, name));
        keys.iter().find_map(|key| state.store.get(key)).map(|object| (*object).clone()).unwrap_or_default()
    }

    pub(super) async fn delete(&self, resource: &'static str, name: &str) {
        let object = std::sync::Arc::new(self.get(resource, name));
        self.act(Act::delete(resource, &object)).await;
    }

    pub(super) async fn change(&self, resource: &'static str, name: &str, change: impl FnOnce(&mut Value)) {
        let mut object = self.get(resource, name);
        change(&mut object);
        self.act(Act::Update(resource, object)).await;
    }

    /// `key:effect` of each taint.
    pub(super) fn taints(&self, node: &str) -> Vec<String> {
        let node = self.get("nodes", node);
        let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
        let word = |taint: &Value, field| object::text(taint, &[field]).to_owned();
        taints.iter().map(|taint| format!("{}:{}", word(taint, "key"), word(taint, "effect"))).collect()
    }

    /// `reason: message` of each event about an object of this name, in the order in which they came.
    pub(super) fn events(&self, name: &str) -> Vec<String> {
        let state = self.api.state();
        let mut events: Vec<(u64, String)> = state
            .store
            .list("events", None)
            .filter(|(_, event)| event["involvedObject"]["name"] == name)
            .map(|(_, event)| {
                let told =
                    format!("{}: {}", object::text(&event, &["reason"]), object::text(&event, &["message"]));
                (object::revision(&event).parse().unwrap(), told)
            })
            .collect();
        events.sort();
        events.into_iter().map(|(_, told)| told).collect()
    }
}
