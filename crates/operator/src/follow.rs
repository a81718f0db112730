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
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};

    use axum::Router;
    use axum::body::{Body, Bytes};
    use axum::extract::RawQuery;
    use axum::response::{IntoResponse, Response};
    use http::StatusCode;
    use serde_json::{Value, json};
    use tokio::time::timeout_at;

    use super::*;

    /// More often nobody is answered: without any pause nobody would ever be done asking.
    const ANSWERS_MAX: usize = 100;

    fn pods() -> Collection {
        berth_api::collections().find(|collection| collection.plural == "pods").unwrap()
    }

    /// Pods are followed, and whatever is asked is answered so, by the query.
    fn following<F>(
        answer: impl Fn(String) -> F + Clone + Send + Sync + 'static,
    ) -> (impl Future + Unpin, Watched)
    where
        F: Future<Output = Response> + Send,
    {
        let answer = async move |RawQuery(query): RawQuery| answer(query.unwrap_or_default()).await;
        let client = kube::Client::new(Router::new().fallback(answer), "default");
        let watched = Watched::default();
        (Box::pin(follow(Cluster::through(client, "an API"), pods(), watched.clone())), watched)
    }

    fn page(names: &[&str], next: &str) -> Response {
        let pod = |name: &&str| json!({ "metadata": { "name": name, "namespace": "shop" }, "spec": { "containers": [{}] } });
        let items: Vec<Value> = names.iter().map(pod).collect();
        let metadata = json!({ "resourceVersion": "1", "continue": next });
        json!({ "metadata": metadata, "items": items }).to_string().into_response()
    }

    fn is_watch(query: &str) -> bool {
        query.contains("watch=true")
    }

    fn spots(watched: &Watched) -> Vec<String> {
        watched.view().blind_spots.iter().map(ToString::to_string).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn watches_that_are_refused_are_asked_for_less_and_less() {
        let lists = Arc::new(AtomicUsize::new(0));
        let counted = lists.clone();
        let (following, watched) = following(move |query| {
            let counted = counted.clone();
            async move {
                if is_watch(&query) {
                    let status = json!({ "kind": "Status", "code": 500, "message": "no" });
                    return format!("{}\n", json!({ "type": "ERROR", "object": status })).into_response();
                }
                if counted.fetch_add(1, Ordering::Relaxed) > ANSWERS_MAX {
                    std::future::pending::<()>().await;
                }
                page(&[], "")
            }
        });
        assert!(timeout(Duration::from_mins(1), following).await.is_err(), "it never ends");
        let lists = lists.load(Ordering::Relaxed);
        assert!((5..15).contains(&lists), "{lists} lists in a minute");
        assert_eq!(spots(&watched), ["pods: not all are known: the watch was ended: no"]);
    }

    /// The other side is gone, and nobody has said so: a watch that neither speaks nor ends is asked for again, and if nobody
    /// answers that, what is seen counts as old within a minute.
    #[tokio::test(start_paused = true)]
    async fn a_watch_that_falls_silent_is_noticed() {
        let began = Instant::now();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let noted = asked.clone();
        let (mut following, watched) = following(move |query| {
            let noted = noted.clone();
            async move {
                if !is_watch(&query) {
                    return page(&["web"], "");
                }
                let nth = {
                    let mut noted = noted.lock().unwrap();
                    noted.push(began.elapsed());
                    noted.len()
                };
                if nth > 1 {
                    std::future::pending::<()>().await;
                }
                Body::from_stream(futures::stream::pending::<Result<Bytes, Infallible>>()).into_response()
            }
        });
        for (secs, watches, expected) in [
            (1, 1, None),
            (44, 1, None),
            (46, 2, None),
            (59, 2, None),
            (61, 2, Some("pods: nothing was heard for 61 s: the watch fell silent")),
        ] {
            let until = began + Duration::from_secs(secs);
            assert!(timeout_at(until, &mut following).await.is_err(), "it never ends");
            let asked = asked.lock().unwrap().clone();
            assert_eq!(asked.len(), watches, "after {secs} s: {asked:?}");
            assert_eq!(spots(&watched), expected.into_iter().collect::<Vec<_>>(), "after {secs} s");
        }
    }

    /// A list that takes too long is forgotten between two of its pages: what was read of it is not all, and is not taken for
    /// it, until another has been read to its end.
    #[tokio::test(start_paused = true)]
    async fn a_list_that_expires_between_its_pages_is_read_anew() {
        let began = Instant::now();
        let lists = Arc::new(AtomicUsize::new(0));
        let counted = lists.clone();
        let (mut following, watched) = following(move |query| {
            let counted = counted.clone();
            async move {
                if is_watch(&query) {
                    std::future::pending::<()>().await;
                }
                if !query.contains("continue=") {
                    // The first pod goes while the list is read.
                    let is_first = counted.fetch_add(1, Ordering::Relaxed) == 0;
                    return page(if is_first { &["a", "b"] } else { &["b"] }, "next");
                }
                if counted.load(Ordering::Relaxed) > 1 {
                    return page(&["c"], "");
                }
                let status = json!({
                    "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410,
                    "message": "The provided continue parameter is too old",
                });
                (StatusCode::GONE, status.to_string()).into_response()
            }
        });
        for (millis, lists_by_then, pods_seen, expected) in [
            (100, 1, 2, Some("pods: not all are known: The provided continue parameter is too old")),
            (1000, 2, 2, None),
        ] {
            let until = began + Duration::from_millis(millis);
            assert!(timeout_at(until, &mut following).await.is_err(), "it never ends");
            assert_eq!(lists.load(Ordering::Relaxed), lists_by_then);
            assert_eq!(watched.pods_seen(&pods()), pods_seen);
            let spots = spots(&watched);
            assert_eq!(spots.len(), expected.iter().count(), "{spots:?}");
            assert!(expected.is_none_or(|why| spots[0].starts_with(why)), "{spots:?}");
        }
    }
}
