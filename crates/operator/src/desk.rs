//! What Berth writes: each request by itself, in its time, and harmless if it comes late or twice.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::{Method, Request};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::cluster::{Cluster, Refused};
use crate::objects::{Heading, List, Versioned};
use crate::served::Served;
use crate::unseen::{Newest, Unseen};

/// An API that takes longer is not waited for: what it did will be seen.
const ANSWER_MAX: Duration = Duration::from_secs(20);

/// However many objects there are, few are in memory as text: claims are large.
const PAGE: u32 = 100;

/// What an API server says of a pod that more than one budget covers, which it never evicts.
const TWO_BUDGETS: &str = "more than one PodDisruptionBudget";

/// Where objects are.
pub(crate) const NODES: &str = "/api/v1/nodes";
pub(crate) const ATTACHMENTS: &str = "/apis/storage.k8s.io/v1/volumeattachments";

#[derive(Clone, Debug)]
pub(crate) struct Desk {
    cluster: Cluster,
    /// The newest version of anything that was read by name or written: no list may be older.
    newest: Arc<Mutex<Newest>>,
    unseen: Arc<Mutex<Unseen>>,
    /// By which name its changes are known.
    manager: &'static str,
}

impl Desk {
    pub(crate) fn new(cluster: Cluster) -> Self {
        Self::managed_by(cluster, "berth")
    }

    pub(crate) fn managed_by(cluster: Cluster, manager: &'static str) -> Self {
        Self { cluster, newest: Arc::default(), unseen: Arc::default(), manager }
    }

    pub(crate) async fn read(&self, path: &str) -> Result<String, Refused> {
        self.send(Method::GET, path, None, "").await
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Refused> {
        let text = self.read(path).await?;
        serde_json::from_str(&text).map_err(|error| Refused::unsaid(format!("{path}: {error}")))
    }

    /// All objects of a list. One that is older than what was read or written before is not believed: whoever
    /// gave it does not know of our own deeds.
    pub(crate) async fn list<T: DeserializeOwned>(&self, path: &str) -> Result<Vec<T>, Refused> {
        let newest = self.newest().version();
        let separator = if path.contains('?') { '&' } else { '?' };
        let first = format!("{path}{separator}limit={PAGE}");
        let (mut items, mut next) = (Vec::new(), first.clone());
        loop {
            let text = self.ask(Method::GET, &next, None, "").await?;
            let page: List<T> =
                serde_json::from_str(&text).map_err(|error| Refused::unsaid(format!("{path}: {error}")))?;
            let Heading { resource_version, next: token, .. } = page.metadata;
            if let Some(version) = resource_version.parse::<u64>().ok().filter(|version| *version < newest) {
                let why = format!("{path}: the list is of version {version}, and {newest} was seen");
                return Err(Refused::unsaid(why));
            }
            items.extend(page.items);
            if token.is_empty() {
                return Ok(items);
            }
            next = format!("{first}&continue={token}");
        }
    }

    /// Whether somebody has installed a kind that Berth reads, as far as that can be told.
    pub(crate) async fn serves(&self, plural: &str) -> Result<bool, Refused> {
        let Some(kind) = berth_api::collections().find(|known| known.plural == plural) else {
            return Ok(true);
        };
        let served = Served::by(&self.cluster).await?;
        Ok(served.versions_of(&kind).is_none_or(|versions| !versions.is_empty()))
    }

    pub(crate) async fn create(&self, path: &str, object: &Value) -> Result<String, Refused> {
        let path = format!("{path}?fieldManager={}", self.manager);
        self.send(Method::POST, &path, Some(object), "application/json").await
    }

    /// Writes an event. How new it is says nothing of other objects: some clusters keep events in a store of their own.
    pub(crate) async fn create_event(&self, namespace: &str, event: &Value) -> Result<(), Refused> {
        let path = format!("/api/v1/namespaces/{namespace}/events?fieldManager={}", self.manager);
        self.ask(Method::POST, &path, Some(event), "application/json").await.map(drop)
    }

    /// Changes what is named; with a resourceVersion in it, only if nobody else has since then.
    pub(crate) async fn patch(&self, path: &str, change: &Value) -> Result<String, Refused> {
        let path = format!("{path}?fieldManager={}", self.manager);
        self.send(Method::PATCH, &path, Some(change), "application/merge-patch+json").await
    }

    /// Has an object say of itself what it should, unless it has changed since it was seen in this version. Nothing is sent
    /// while that is known: whoever sees the past would say the same again with each look.
    pub(crate) async fn keep(&self, path: &str, seen: &str, mut change: Value) -> Result<(), Refused> {
        let object = path.strip_suffix("/status").unwrap_or(path);
        if self.is_behind(object, seen) {
            let message = format!("{object} has changed since it was seen in version {seen}");
            return Err(Refused { code: Some(409), ..Refused::unsaid(message) });
        }
        change["metadata"]["resourceVersion"] = json!(seen);
        let answer = self.patch(path, &change).await;
        let now = match &answer {
            Err(refused) if refused.is_conflict() => self.read(object).await.ok(),
            answer => answer.as_ref().ok().cloned(),
        };
        if let Some(version) = now.as_deref().and_then(version_in) {
            self.unseen().learned(object, seen, version);
        }
        answer.map(drop)
    }

    /// Whether an object is known to have changed since it was seen in this version.
    pub(crate) fn is_behind(&self, object: &str, seen: &str) -> bool {
        self.unseen().is_behind(object, seen)
    }

    fn newest(&self) -> MutexGuard<'_, Newest> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unseen(&self) -> MutexGuard<'_, Unseen> {
        self.unseen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Deletes this very object. One that is not there is deleted.
    pub(crate) async fn delete(&self, path: &str, uid: &str) -> Result<(), Refused> {
        self.delete_if(path, &json!({ "uid": uid })).await
    }

    /// The same, if nobody has written to it since it was in this version.
    pub(crate) async fn delete_unchanged(&self, path: &str, uid: &str, version: &str) -> Result<(), Refused> {
        self.delete_if(path, &json!({ "uid": uid, "resourceVersion": version })).await
    }

    async fn delete_if(&self, path: &str, preconditions: &Value) -> Result<(), Refused> {
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions,
        });
        forgiving_absence(self.send(Method::DELETE, path, Some(&options), "application/json").await)
    }

    /// Deletes this very pod, which has so many seconds to end.
    pub(crate) async fn delete_pod(
        &self,
        (namespace, name, uid): (&str, &str, &str),
        grace_secs: u64,
    ) -> Result<(), Refused> {
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": grace_secs,
            "preconditions": { "uid": uid },
        });
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
        forgiving_absence(self.send(Method::DELETE, &path, Some(&options), "application/json").await)
    }

    /// Asks whether this very pod may go, and if so lets it go.
    pub(crate) async fn evict(&self, (namespace, name, uid): (&str, &str, &str)) -> Result<(), Refused> {
        let eviction = json!({
            "apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": { "namespace": namespace, "name": name },
            "deleteOptions": { "preconditions": { "uid": uid } },
        });
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/eviction");
        let answer = self.send(Method::POST, &path, Some(&eviction), "application/json").await;
        forgiving_absence(answer.map_err(|refused| {
            // Kubernetes has no code or cause of its own for it.
            let is_of_two = refused.code == Some(500) && refused.message.contains(TWO_BUDGETS);
            Refused { is_of_budget: refused.is_of_budget || is_of_two, ..refused }
        }))
    }

    /// Asks, and remembers how new the answer is.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        content_type: &str,
    ) -> Result<String, Refused> {
        let text = self.ask(method, path, body, content_type).await?;
        if let Some(version) = version_in(&text) {
            self.newest().learned(version);
        }
        Ok(text)
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        content_type: &str,
    ) -> Result<String, Refused> {
        let mut request = Request::builder().method(method).uri(path);
        if body.is_some() {
            request = request.header("content-type", content_type);
        }
        let request = request.body(body.map(|body| body.to_string().into_bytes()).unwrap_or_default());
        timeout(ANSWER_MAX, self.cluster.ask(request))
            .await
            .unwrap_or_else(|_| Err(Refused::unsaid(format!("no answer came in {} s", ANSWER_MAX.as_secs()))))
    }
}

/// Which version of an object an answer is.
fn version_in(text: &str) -> Option<u64> {
    serde_json::from_str::<Versioned>(text).ok()?.metadata.resource_version.parse().ok()
}

fn forgiving_absence(answer: Result<String, Refused>) -> Result<(), Refused> {
    match answer {
        Err(refused) if refused.is_absence() => Ok(()),
        answer => answer.map(drop),
    }
}
