//! Watching: what happens after a revision, as it happens.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, sleep_until};

use super::accept::Form;
use super::read::{Selection, check_versions, in_other_words, revision};
use super::{Api, State, shown};
use crate::failure::{Failure, Reason};
use crate::json::{Value, json};
use crate::kinds::Resource;
use crate::object;
use crate::proto::put_in_form;
use crate::request::{Place, Query};
use crate::store::Change;
use crate::table::{self, IncludeObject, PrinterColumn};

/// How often a client that wants to know hears how far it is.
const BOOKMARK_EVERY: Duration = Duration::from_mins(1);
/// So long before the end it hears so once more, to go on from there.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// How long a watch lasts at most if its client does not say.
const LASTS: Duration = Duration::from_mins(30);

/// The events of one watch.
#[derive(Debug)]
pub(crate) struct Events {
    api: Api,
    place: Place,
    selection: Selection,
    form: Form,
    /// Of tables, so much of each object.
    include: IncludeObject,
    /// Who gets tables has heard what their columns are.
    knows_columns: bool,
    /// All up to this revision has been told.
    told: u64,
    /// The revision when it began.
    begun: u64,
    /// Since when what it watches had been defined as it was then.
    defined_since: u64,
    beginning: Beginning,
    ready: VecDeque<Value>,
    latest: Receiver<u64>,
    next_bookmark: Option<Instant>,
    ends: Instant,
    has_ended: bool,
}

/// What is told before anything happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beginning {
    Nothing,
    WhatIsThere,
    /// Also that this was all.
    WhatIsThereAndItsEnd,
}

impl Events {
    pub(super) fn start(api: &Api, place: &Place, query: &Query, form: Form) -> Result<Self, Failure> {
        let mut place = place.clone();
        let include = IncludeObject::parse(&query.include_object)?;
        let state = api.state();
        check_versions(query, true)?;
        let selection = Selection::of(&state, &place, query)?;
        let current = state.store.revision();
        let asked =
            revision(&query.resource_version).map_err(|refused| in_other_words(&refused))?.unwrap_or(0);
        // Who does not want what is there begins now, and not with the past.
        let asked = if query.initial_events == Some(false) && asked == 0 { current } else { asked };
        let lists = query.initial_events == Some(true);
        let beginning = match (lists, query.bookmarks) {
            (true, true) => Beginning::WhatIsThereAndItsEnd,
            (true, false) => Beginning::WhatIsThere,
            (false, _) if asked == 0 => Beginning::WhatIsThere,
            (false, _) => Beginning::Nothing,
        };
        let missed =
            if beginning == Beginning::Nothing { state.missed(&place.resource, asked) } else { None };
        let ready = missed.iter().map(|missed| event("ERROR", &missed.to_status())).collect();
        // One object is a resource with one name.
        place.name = None;
        let now = Instant::now();
        let ends = ends(now, query);
        let wants_bookmarks = query.bookmarks && is_cached(&place.resource);
        Ok(Self {
            told: asked,
            begun: current,
            defined_since: state.defined_since(&place.resource),
            beginning,
            latest: state.store.subscribe(),
            api: api.clone(),
            place,
            selection,
            form,
            include,
            knows_columns: false,
            ready,
            next_bookmark: next_bookmark(now, ends).filter(|_| wants_bookmarks),
            ends,
            has_ended: missed.is_some(),
        })
    }

    /// What is told before anything happens: at most so many objects as they were at a revision, or as they were when
    /// the watch began. What came after that follows as it happened.
    pub(crate) fn begin(&mut self, shown: Option<u64>, most: usize) -> Vec<Value> {
        let beginning = std::mem::replace(&mut self.beginning, Beginning::Nothing);
        if beginning == Beginning::Nothing {
            return Vec::new();
        }
        let state = self.api.state();
        let at = shown.unwrap_or(self.begun);
        let (resource, namespace) = (self.place.resource.kept_as(), self.place.namespace.as_deref());
        let there = match state.store.list_at(at, &resource, namespace) {
            Ok(there) => there,
            Err(too_old) => {
                self.has_ended = true;
                return vec![event("ERROR", &expired(at, too_old.oldest).to_status())];
            }
        };
        self.told = at;
        let look = Look::new(&state, &self.place, self.form, self.include);
        let read = there.values().map(|object| state.read(&self.place.resource, object));
        let seen = read.filter(|object| self.selection.matches(object)).take(most);
        let knows_columns = &mut self.knows_columns;
        let mut told: Vec<Value> =
            seen.map(|object| event("ADDED", &look.next(&object, knows_columns))).collect();
        if beginning == Beginning::WhatIsThereAndItsEnd {
            let mut end = bookmark(&self.place, at, self.form);
            end["object"]["metadata"]["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
            told.push(end);
        }
        told
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// The next event, or nothing once the watch is over.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.has_ended {
                return None;
            }
            self.latest.borrow_and_update();
            self.collect();
            if !self.ready.is_empty() || self.has_ended {
                continue;
            }
            let wake = self.next_bookmark.map_or(self.ends, |at| at.min(self.ends));
            tokio::select! {
                biased;
                changed = self.latest.changed() => self.has_ended |= changed.is_err(),
                () = sleep_until(wake) => self.tick(),
            }
        }
    }

    fn tick(&mut self) {
        let now = Instant::now();
        if now >= self.ends {
            self.has_ended = true;
        } else if self.next_bookmark.is_some_and(|at| now >= at) {
            self.next_bookmark = next_bookmark(now, self.ends);
            // Only what is new since then is worth a word.
            if self.told > self.begun {
                self.ready.push_back(bookmark(&self.place, self.told, self.form));
            }
        }
    }

    /// What has happened since the last look.
    fn collect(&mut self) {
        let state = self.api.state();
        let resource = self.place.resource.kept_as();
        let look = Look::new(&state, &self.place, self.form, self.include);
        let since = state.defined_since(&self.place.resource);
        let is_defined_so = since == self.defined_since;
        // What comes after another definition is not for who began under this one, and after the last there is nothing.
        let is_theirs = |change: &&Change| is_defined_so || since == 0 || change.revision <= since;
        match state.store.changes_after(self.told) {
            Ok(changes) => {
                for change in changes.take_while(is_theirs) {
                    self.told = change.revision;
                    if change.key.is_in(&resource, self.place.namespace.as_deref()) {
                        let knows_columns = &mut self.knows_columns;
                        self.ready.extend(told(&state, &look, knows_columns, &self.selection, change));
                    }
                }
            }
            Err(too_old) => {
                self.ready.push_back(event("ERROR", &expired(self.told, too_old.oldest).to_status()));
                self.has_ended = true;
            }
        }
        self.has_ended |= !is_defined_so;
    }
}

impl State {
    /// Why nobody can tell any more what came after a revision. The API server's caches reach back to when they were
    /// begun, or as far as they have room; of what is in none, etcd is asked.
    fn missed(&self, resource: &Resource, asked: u64) -> Option<Failure> {
        let forgotten = self.store.forgotten();
        if !is_cached(resource) {
            let is_gone = asked < forgotten || asked + 1 < self.store.compacted();
            let message = "The resourceVersion for the provided watch is too old.";
            return is_gone.then(|| Failure::new(Reason::Expired, message));
        }
        let oldest = forgotten.max(self.defined_since(resource));
        (asked < oldest).then(|| expired(asked, oldest))
    }
}

/// What a cache says that has begun later.
fn expired(asked: u64, oldest: u64) -> Failure {
    Failure::new(Reason::Expired, format!("too old resource version: {asked} ({oldest})"))
}

/// Of events there are too many to keep them in a cache.
fn is_cached(resource: &Resource) -> bool {
    resource.kind != "Event" || resource.is_custom
}

/// When a client that wants to know hears next how far it is, if it does before the end.
fn next_bookmark(now: Instant, ends: Instant) -> Option<Instant> {
    let last = ends.checked_sub(BOOKMARK_BEFORE_END)?;
    (last > now).then(|| last.min(now + BOOKMARK_EVERY))
}

/// What no clock holds is as good as what nobody said.
fn ends(now: Instant, query: &Query) -> Instant {
    let asked = query.timeout_secs.and_then(|secs| now.checked_add(Duration::from_secs(secs)));
    asked.unwrap_or(now + LASTS)
}

/// How a watch shows objects.
struct Look<'a> {
    resource: &'a Resource,
    columns: Option<&'a [PrinterColumn]>,
    form: Form,
    include: IncludeObject,
    now: Timestamp,
}

impl<'a> Look<'a> {
    fn new(state: &'a State, place: &'a Place, form: Form, include: IncludeObject) -> Self {
        let resource = &*place.resource;
        Self { resource, columns: state.columns(resource), form, include, now: state.now() }
    }

    /// The next object; what the columns of tables are is told once.
    fn next(&self, object: &Value, knows_columns: &mut bool) -> Value {
        if self.form != Form::Table {
            return self.form.put_event(shown(self.resource, object));
        }
        let metadata = json!({ "resourceVersion": object::revision(object) });
        let mut table =
            table::table(self.resource, [object], self.columns, &metadata, self.now, self.include);
        if std::mem::replace(knows_columns, true) {
            table["columnDefinitions"] = Value::Null;
        }
        table
    }
}

/// What a watch hears of a change: an object that begins to match is new to it, one that ceases to is gone.
fn told(
    state: &State,
    look: &Look<'_>,
    knows_columns: &mut bool,
    selection: &Selection,
    change: &Change,
) -> Option<Value> {
    let read = |object: &Arc<Value>| Some(state.read(look.resource, object));
    let matching = |object: &Arc<Value>| selection.matches(object);
    let before = change.before.as_ref().and_then(read).filter(matching);
    let after = change.after.as_ref().and_then(read).filter(matching);
    let (kind, mut object) = match (before, after) {
        (None, None) => return None,
        (None, Some(after)) => ("ADDED", (*after).clone()),
        (Some(_), Some(after)) => ("MODIFIED", (*after).clone()),
        (Some(before), None) => ("DELETED", (*before).clone()),
    };
    object::set_revision(&mut object, change.revision);
    Some(event(kind, &look.next(&object, knows_columns)))
}

fn event(kind: &str, object: &Value) -> Value {
    json!({ "type": kind, "object": object })
}

fn bookmark(place: &Place, revision: u64, form: Form) -> Value {
    let (api_version, kind) = (place.resource.api_version(), &*place.resource.kind);
    let mut object = json!({
        "kind": kind, "apiVersion": api_version,
        "metadata": { "resourceVersion": revision.to_string() },
    });
    put_in_form(&api_version, kind, &mut object, None);
    event("BOOKMARK", &form.put_event(object))
}

#[cfg(test)]
mod tests {
    use axum::body::BodyDataStream;
    use futures::StreamExt;

    use super::super::ask::ask as asked;
    use super::*;
    use crate::World;

    const MAPS: &str = "/api/v1/namespaces/default/configmaps";

    fn world() -> World {
        World::new(1, "2026-01-01T00:00:00Z".parse().unwrap())
    }

    async fn ask(world: &World, method: &str, path: &str, body: &Value) -> BodyDataStream {
        let request = http::Request::builder().method(method).uri(path);
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = request.header("content-type", "application/json").body(axum::body::Body::from(body));
        let answer = tower_service::Service::call(&mut world.client("test"), request.unwrap()).await.unwrap();
        assert!(answer.status().is_success(), "{}", answer.status());
        answer.into_body().into_data_stream()
    }

    async fn watch(world: &World, query: &str) -> BodyDataStream {
        ask(world, "GET", &format!("{MAPS}?watch=true&{query}"), &Value::Null).await
    }

    async fn make(world: &World, resources: &str, name: &str) {
        drop(ask(world, "POST", resources, &json!({"metadata": {"name": name}})).await);
    }

    /// What is heard next: the kind of the event, and the name, the code or else the version that it tells.
    async fn heard(events: &mut BodyDataStream) -> String {
        let Some(line) = events.next().await else { return "end".to_owned() };
        let event: Value = serde_json::from_slice(&line.unwrap()).unwrap();
        let object = &event["object"];
        let told = [&object["metadata"]["name"], &object["code"], &object["metadata"]["resourceVersion"]];
        let told = told.into_iter().find(|told| !told.is_null()).unwrap();
        format!("{} {}", object::text(&event, &["type"]), told.to_string().trim_matches('"'))
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_wants_to_know_hears_every_minute_how_far_it_is_and_before_the_end() {
        let world = world();
        for (row, (query, others_write, expected)) in [
            ("timeoutSeconds=150&allowWatchBookmarks=true", true, &[60, 120, 148, 150][..]),
            ("timeoutSeconds=150&allowWatchBookmarks=true", false, &[150]),
            ("timeoutSeconds=61&allowWatchBookmarks=true", true, &[59, 61]),
            ("timeoutSeconds=3&allowWatchBookmarks=true", true, &[1, 3]),
            ("timeoutSeconds=2&allowWatchBookmarks=true", true, &[2]),
            ("timeoutSeconds=150", true, &[150]),
        ]
        .into_iter()
        .enumerate()
        {
            let begin = Instant::now();
            let mut events = watch(&world, &format!("resourceVersion={}&{query}", world.revision())).await;
            let (last, bookmarks) = expected.split_last().unwrap();
            for second in bookmarks.iter().chain([last]) {
                if others_write {
                    make(&world, "/api/v1/namespaces/default/secrets", &format!("s{row}-{second}")).await;
                }
                let told =
                    if second == last { "end".to_owned() } else { format!("BOOKMARK {}", world.revision()) };
                assert_eq!((heard(&mut events).await, begin.elapsed().as_secs()), (told, *second), "{query}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_asks_for_what_is_forgotten_is_told_so_in_the_stream() {
        let world = world();
        let past = world.revision();
        make(&world, MAPS, "a").await;
        let now = world.revision();
        let mut up_to_date = watch(&world, &format!("resourceVersion={now}")).await;
        let mut behind = watch(&world, &format!("resourceVersion={past}")).await;
        let mut late = watch(&world, &format!("resourceVersion={now}")).await;
        assert_eq!(heard(&mut behind).await, "ADDED a");
        make(&world, MAPS, "b").await;
        assert_eq!(heard(&mut up_to_date).await, "ADDED b");
        assert_eq!(heard(&mut behind).await, "ADDED b");
        world.forget();
        make(&world, MAPS, "c").await;
        for events in [&mut up_to_date, &mut behind] {
            assert_eq!(heard(events).await, "ADDED c");
        }
        // It has not listened in time.
        assert_eq!((&*heard(&mut late).await, &*heard(&mut late).await), ("ERROR 410", "end"));
        let mut again = watch(&world, &format!("resourceVersion={now}")).await;
        assert_eq!((&*heard(&mut again).await, &*heard(&mut again).await), ("ERROR 410", "end"));
        let mut afresh = watch(&world, "resourceVersion=0").await;
        for name in ["a", "b", "c"] {
            assert_eq!(heard(&mut afresh).await, format!("ADDED {name}"));
        }
    }

    /// Whoever watches begins anew: with what is defined now, or not at all.
    #[tokio::test(start_paused = true)]
    async fn a_watch_of_what_is_defined_ends_with_its_definition() {
        const DEFINED_AT: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        const CARS: &str = "/apis/example.com/v1/cars";
        let named = json!({"spec": {"names": {"shortNames": ["c"]}}});
        let labelled = json!({"metadata": {"labels": {"a": "b"}}});
        for (method, change, expected, again) in [
            ("DELETE", Value::Null, &["DELETED a", "end"][..], 404),
            ("PATCH", named, &["end"], 200),
            // It still says the same.
            ("PATCH", labelled, &["ADDED b"], 200),
        ] {
            let world = world();
            let versions = json!([{
                "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}},
            }]);
            let names = json!({"plural": "cars", "kind": "Car"});
            let spec =
                json!({"group": "example.com", "scope": "Cluster", "names": names, "versions": versions});
            let crd = json!({"metadata": {"name": "cars.example.com"}, "spec": spec});
            drop(ask(&world, "POST", DEFINED_AT, &crd).await);
            let car = |name: &str| json!({"apiVersion": "example.com/v1", "kind": "Car", "metadata": {"name": name}});
            drop(ask(&world, "POST", CARS, &car("a")).await);
            let since = format!("watch=true&resourceVersion={}", world.revision());
            let mut cars = ask(&world, "GET", &format!("{CARS}?{since}"), &Value::Null).await;
            let mut maps = watch(&world, &since).await;
            let begin = Instant::now();
            let definition = format!("{DEFINED_AT}/cars.example.com");
            let (code, _) = asked(&world, method, &definition, change).await;
            assert_eq!(code, 200);
            asked(&world, "POST", CARS, car("b")).await;
            for expected in expected {
                assert_eq!(heard(&mut cars).await, *expected, "{method}");
            }
            assert_eq!(asked(&world, "GET", CARS, Value::Null).await.0, again);
            make(&world, MAPS, "m").await;
            assert_eq!((&*heard(&mut maps).await, begin.elapsed()), ("ADDED m", Duration::ZERO), "{method}");
        }
    }
}
