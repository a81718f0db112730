//! The shop's workloads: read, scaled by its day, and by whoever wants to.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_operator::page::Workload;
use http::{Method, Request};
use kube::Client;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::day::{self, WORKLOADS};

pub(super) const NAMESPACE: &str = "shop";
/// How often the day is looked at.
const DAY_STEP: Duration = Duration::from_secs(2);

/// The workloads of the demo. Clones are the same.
#[derive(Clone)]
pub(super) struct Shop {
    client: Client,
    /// How many the day last wanted of those that it still scales: one that somebody else has scaled is theirs.
    left_to_the_day: Arc<Mutex<BTreeMap<&'static str, Option<u32>>>>,
}

#[derive(Debug, Deserialize)]
struct List {
    items: Vec<Deployment>,
}

#[derive(Debug, Deserialize)]
struct Deployment {
    metadata: Metadata,
    spec: Spec,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    name: String,
    namespace: String,
}

#[derive(Debug, Deserialize)]
struct Spec {
    replicas: u32,
}

impl Shop {
    pub(super) fn new(client: Client) -> Self {
        let left_to_the_day = WORKLOADS.into_iter().map(|name| (name, None)).collect();
        Self { client, left_to_the_day: Arc::new(Mutex::new(left_to_the_day)) }
    }

    fn left_to_the_day(&self) -> MutexGuard<'_, BTreeMap<&'static str, Option<u32>>> {
        self.left_to_the_day.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All Deployments of the shop.
    pub(super) async fn workloads(&self) -> Result<Vec<Workload>, String> {
        let path = format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments");
        let list: List = self.ask(Method::GET, &path, None).await?;
        let workload = |Deployment { metadata, spec }| {
            let Metadata { name, namespace } = metadata;
            Workload { namespace, name, replicas: spec.replicas }
        };
        Ok(list.items.into_iter().map(workload).collect())
    }

    /// Scales as somebody wants it, who then has the workload for good.
    pub(super) async fn scale(&self, namespace: &str, name: &str, replicas: u32) -> Result<(), String> {
        if namespace == NAMESPACE {
            self.left_to_the_day().remove(name);
        }
        self.set(namespace, name, replicas).await
    }

    /// Lets days pass, for as long as this is awaited.
    pub(super) async fn days(&self) {
        let began = Instant::now();
        loop {
            let wanted = day::replicas(began.elapsed().as_secs());
            // What cannot be read or scaled now can be in the next step.
            if let Ok(workloads) = self.workloads().await {
                for (name, replicas) in WORKLOADS.into_iter().zip(wanted) {
                    let has = workloads.iter().find(|workload| workload.name == name);
                    if let Some(has) = has
                        && self.may_scale(name, has.replicas, replicas)
                    {
                        let _ = self.set(NAMESPACE, name, replicas).await;
                    }
                }
            }
            sleep(DAY_STEP).await;
        }
    }

    /// Whether the day is to scale this, which has so many, to what it wants.
    fn may_scale(&self, name: &'static str, has: u32, wants: u32) -> bool {
        let mut left = self.left_to_the_day();
        let Some(last) = left.get(name).copied() else { return false };
        if last.is_some_and(|last| last != has) {
            left.remove(name);
            return false;
        }
        left.insert(name, Some(wants));
        has != wants
    }

    async fn set(&self, namespace: &str, name: &str, replicas: u32) -> Result<(), String> {
        let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale");
        let change = json!({ "spec": { "replicas": replicas } });
        let _: Value = self.ask(Method::PATCH, &path, Some(&change)).await?;
        Ok(())
    }

    async fn ask<T: serde::de::DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        change: Option<&Value>,
    ) -> Result<T, String> {
        let body = change.map(|change| change.to_string().into_bytes()).unwrap_or_default();
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", "application/merge-patch+json")
            .body(body)
            .map_err(|error| error.to_string())?;
        self.client.request(request).await.map_err(|error| match error {
            kube::Error::Api(status) => status.message,
            error => error.to_string(),
        })
    }
}
