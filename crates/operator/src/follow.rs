//! One kind of objects, listed and then followed for as long as this lives.

use std::collections::BTreeSet;
use std::time::Duration;

use berth_api::Collection;
use berth_core::names::Text;
use futures::AsyncBufReadExt;
use futures::AsyncReadExt;
use kube::api::{ListParams, WatchParams};
use kube::core::Request;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep, timeout};

use crate::cluster::{Cluster, Refused};
use crate::served::Served;
use crate::watched::Watched;

/// As many objects as kubectl asks for at once.
const PAGE: u32 = 500;
/// Nodes and claims are large objects, most of each being who has written which field.
const LARGE_PAGE: u32 = 50;
const LARGE: [&str; 3] = ["nodes", "nodeclaims", "vpsienodes"];
/// How long one watch is asked for. Whatever becomes of a connection is noticed soon after, and long before a view
/// counts as old.
const WATCH_SECS: u32 = 40;
/// So much later than asked for, a watch that has not ended has been forgotten by the other side.
const WATCH_OVERDUE: Duration = Duration::from_secs(5);
/// An event may get lost: everything is listed again this often.
const LIST_AGAIN: Duration = Duration::from_mins(10);
/// Somebody may install what is not served yet.
const SERVED_AGAIN: Duration = Duration::from_secs(30);
const BACKOFF_MIN: Duration = Duration::from_millis(250);
const BACKOFF_MAX: Duration = Duration::from_secs(20);
/// No object is larger than an API server takes, by far.
const LINE_BYTES_MAX: u64 = 8 << 20;

/// Follows the objects of one kind for ever.
pub(crate) async fn follow(cluster: Cluster, collection: Collection, watched: Watched) {
    let follower = Follower { cluster, collection, watched };
    let mut backoff = BACKOFF_MIN;
    loop {
        let began = Instant::now();
        let ended = follower.list_and_watch().await;
        // Whoever was answered for long is no trouble.
        if began.elapsed() > BACKOFF_MAX {
            backoff = BACKOFF_MIN;
        }
        if let Err(refused) = ended {
            follower.watched.missed(&collection, refused.message);
            sleep(backoff).await;
            backoff = (backoff * 2).min(BACKOFF_MAX);
        }
    }
}

struct Follower {
    cluster: Cluster,
    collection: Collection,
    watched: Watched,
}

/// Why a watch is over.
enum Over {
    /// It ended in its time, or broke: what was heard last is where the next goes on.
    At(String),
    /// Nobody knows any more what came after: all has to be listed again.
    Lost(Refused),
}

impl Follower {
    /// Until all should be listed again.
    async fn list_and_watch(&self) -> Result<(), Refused> {
        if !self.is_served().await? {
            self.watched.listed(&self.collection, &BTreeSet::new());
            sleep(SERVED_AGAIN).await;
            return Ok(());
        }
        let began = Instant::now();
        let mut version = self.list().await?;
        let mut backoff = BACKOFF_MIN;
        while began.elapsed() < LIST_AGAIN {
            let since = Instant::now();
            match self.watch(&version).await {
                Ok(Over::At(next)) => version = next,
                Ok(Over::Lost(why)) => return Err(why),
                Err(refused) => self.watched.troubled(&self.collection, refused.message),
            }
            // One that ends at once has something against being asked.
            if since.elapsed() < BACKOFF_MIN {
                sleep(backoff).await;
                backoff = (backoff * 2).min(BACKOFF_MAX);
            } else {
                backoff = BACKOFF_MIN;
            }
        }
        Ok(())
    }

    /// A kind that nobody installed has no objects.
    async fn is_served(&self) -> Result<bool, Refused> {
        if self.collection.group.is_empty() {
            return Ok(true);
        }
        let served = Served::by(&self.cluster).await?;
        let Some(versions) = served.versions_of(&self.collection) else { return Ok(true) };
        let ours = self.collection.version;
        if !versions.is_empty() && !versions.contains(&ours) {
            let others = versions.join(", ");
            return Err(Refused::unsaid(format!("they are served as {others}; only {ours} is read")));
        }
        Ok(!versions.is_empty())
    }

    /// Takes all of them. The version is that of the list.
    async fn list(&self) -> Result<String, Refused> {
        let mut ids = BTreeSet::new();
        let mut next = None;
        let page = if LARGE.contains(&self.collection.plural) { LARGE_PAGE } else { PAGE };
        loop {
            let params = ListParams { limit: Some(page), continue_token: next, ..ListParams::default() };
            let text = self.cluster.ask(Request::new(self.collection.path()).list(&params)).await?;
            let list: Page<'_> = serde_json::from_str(&text)
                .map_err(|error| Refused::unsaid(format!("the list cannot be read: {error}")))?;
            for item in &list.items {
                self.watched.put(&self.collection, item.get());
                ids.insert(id_of(item.get()));
            }
            next = list.metadata.next.filter(|token| !token.is_empty());
            if next.is_none() {
                self.watched.listed(&self.collection, &ids);
                return Ok(list.metadata.resource_version);
            }
        }
    }

    async fn watch(&self, version: &str) -> Result<Over, Refused> {
        let params = WatchParams { timeout: Some(WATCH_SECS), bookmarks: true, ..WatchParams::default() };
        let request = Request::new(self.collection.path()).watch(&params, version);
        let limit = Duration::from_secs(u64::from(WATCH_SECS)) + WATCH_OVERDUE;
        let deadline = Instant::now() + limit;
        let stream = match timeout(limit, self.cluster.listen(request)).await {
            Ok(Err(refused)) if refused.code == Some(410) => return Ok(Over::Lost(refused)),
            Ok(stream) => stream?,
            Err(_) => return Err(Refused::unsaid("the watch did not begin".to_owned())),
        };
        self.watched.heard(&self.collection);
        futures::pin_mut!(stream);
        let (mut version, mut line) = (version.to_owned(), Vec::new());
        loop {
            line.clear();
            let mut limited = (&mut stream).take(LINE_BYTES_MAX);
            let read = tokio::time::timeout_at(deadline, limited.read_until(b'\n', &mut line)).await;
            match read {
                Err(_) => return Err(Refused::unsaid("the watch fell silent".to_owned())),
                Ok(Err(_) | Ok(0)) => return Ok(Over::At(version)),
                Ok(Ok(_)) => {}
            }
            // Half a line is what a broken connection leaves: the next watch brings it whole.
            let Ok(event) = serde_json::from_slice::<Event<'_>>(&line) else { return Ok(Over::At(version)) };
            self.watched.heard(&self.collection);
            let object = event.object.get();
            match event.kind {
                "ADDED" | "MODIFIED" => self.watched.put(&self.collection, object),
                "DELETED" => {
                    let (namespace, name) = id_of(object);
                    self.watched.remove(&self.collection, &namespace, &name);
                }
                "BOOKMARK" => {}
                _ => return Ok(Over::Lost(ended_by(object))),
            }
            version = version_of(object).unwrap_or(version);
        }
    }
}

/// What a watch says at its end, if it says why.
fn ended_by(status: &str) -> Refused {
    let said = serde_json::from_str::<Status>(status).unwrap_or_default();
    Refused { code: said.code, ..Refused::unsaid(format!("the watch was ended: {}", said.message)) }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    code: Option<u16>,
    message: String,
}

#[derive(Deserialize)]
struct Page<'a> {
    metadata: PageMetadata,
    #[serde(borrow, default)]
    items: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMetadata {
    #[serde(default)]
    resource_version: String,
    #[serde(default, rename = "continue")]
    next: Option<String>,
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct Identified {
    metadata: Identity,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct Identity {
    namespace: Text,
    name: Text,
    resource_version: Option<String>,
}

fn identity(object: &str) -> Identity {
    serde_json::from_str::<Identified>(object).map(|object| object.metadata).unwrap_or_default()
}

fn id_of(object: &str) -> (Text, Text) {
    let Identity { namespace, name, .. } = identity(object);
    (namespace, name)
}

fn version_of(object: &str) -> Option<String> {
    identity(object).resource_version
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::Router;
    use axum::extract::RawQuery;
    use serde_json::json;

    use super::*;

    /// More often nobody is answered: without any pause nobody would ever be done asking.
    const ANSWERS_MAX: usize = 100;

    #[tokio::test(start_paused = true)]
    async fn watches_that_are_refused_are_asked_for_less_and_less() {
        let lists = Arc::new(AtomicUsize::new(0));
        let counted = lists.clone();
        let answer = async move |RawQuery(query): RawQuery| {
            if query.is_some_and(|query| query.contains("watch=true")) {
                let status = json!({ "kind": "Status", "code": 500, "message": "no" });
                return format!("{}\n", json!({ "type": "ERROR", "object": status }));
            }
            if counted.fetch_add(1, Ordering::Relaxed) > ANSWERS_MAX {
                std::future::pending::<()>().await;
            }
            json!({ "metadata": { "resourceVersion": "1" }, "items": [] }).to_string()
        };
        let client = kube::Client::new(Router::new().fallback(answer), "default");
        let (cluster, watched) = (Cluster::through(client, "an API"), Watched::default());
        let pods = berth_api::collections().find(|collection| collection.plural == "pods").unwrap();
        let following = follow(cluster, pods, watched.clone());
        assert!(timeout(Duration::from_mins(1), following).await.is_err(), "it never ends");
        let lists = lists.load(Ordering::Relaxed);
        assert!((5..15).contains(&lists), "{lists} lists in a minute");
        let spots: Vec<String> = watched.view().blind_spots.iter().map(ToString::to_string).collect();
        assert_eq!(spots, ["pods: not all are known: the watch was ended: no"]);
    }
}
