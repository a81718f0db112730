//! Watching: what happens after a revision, as it happens.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, sleep_until};

use super::read::{Selection, check_versions, in_other_words, revision, wants_table};
use super::{Api, Call, State, shown};
use crate::failure::{Failure, Reason};
use crate::json::{Value, json};
use crate::kinds::Resource;
use crate::object;
use crate::request::{Place, Query};
use crate::store::Change;
use crate::table::{self, IncludeObject, PrinterColumn};

/// How often a client that wants to know hears that nothing happened.
const BOOKMARK_EVERY: Duration = Duration::from_mins(1);
/// How long a watch lasts at most if its client does not say.
const LASTS: Duration = Duration::from_mins(30);

/// The events of one watch.
#[derive(Debug)]
pub(crate) struct Events {
    api: Api,
    place: Place,
    selection: Selection,
    /// As tables, with so much of each object.
    tables: Option<IncludeObject>,
    /// All up to this revision has been told.
    told: u64,
    ready: VecDeque<Value>,
    latest: Receiver<u64>,
    next_bookmark: Option<Instant>,
    ends: Instant,
    has_ended: bool,
}

impl Events {
    pub(super) fn start(api: &Api, place: &Place, query: &Query, call: &Call) -> Result<Self, Failure> {
        let mut place = place.clone();
        let include = IncludeObject::parse(&query.include_object)?;
        let tables = wants_table(&call.accept).then_some(include);
        let state = api.state();
        check_versions(query, true)?;
        let selection = Selection::of(&state, &place, query)?;
        let current = state.store.revision();
        let asked =
            revision(&query.resource_version).map_err(|refused| in_other_words(&refused))?.unwrap_or(0);
        let resource = place.resource.qualified();
        let mut ready = VecDeque::new();
        let lists = query.initial_events == Some(true);
        let from_start = asked == 0 || lists;
        if from_start {
            let there = state.store.list(&resource, place.namespace.as_deref());
            let seen = there.filter(|(_, object)| selection.matches(object));
            let form = Form::new(&state, &place, tables);
            ready.extend(seen.map(|(_, object)| event("ADDED", &form.of(&object))));
            if lists {
                let mut end = bookmark(&place, current);
                end["object"]["metadata"]["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
                ready.push_back(end);
            }
        } else if let Err(too_old) = state.store.changes_after(asked) {
            let message = format!("too old resource version: {asked} ({})", too_old.oldest);
            return Err(Failure::new(Reason::Expired, message));
        }
        // One object is a resource with one name.
        place.name = None;
        let now = Instant::now();
        Ok(Self {
            told: if from_start { current } else { asked },
            latest: state.store.subscribe(),
            api: api.clone(),
            place,
            selection,
            tables,
            ready,
            next_bookmark: query.bookmarks.then(|| now + BOOKMARK_EVERY),
            ends: ends(now, query),
            has_ended: false,
        })
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
            if !self.ready.is_empty() {
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
            self.next_bookmark = Some(now + BOOKMARK_EVERY);
            self.ready.push_back(bookmark(&self.place, self.told));
        }
    }

    /// What has happened since the last look.
    fn collect(&mut self) {
        let state = self.api.state();
        let resource = self.place.resource.qualified();
        let form = Form::new(&state, &self.place, self.tables);
        match state.store.changes_after(self.told) {
            Ok(changes) => {
                for change in changes {
                    self.told = change.revision;
                    if change.key.is_in(&resource, self.place.namespace.as_deref()) {
                        self.ready.extend(told(&form, &self.selection, change));
                    }
                }
            }
            Err(too_old) => {
                let message = format!("too old resource version: {} ({})", self.told, too_old.oldest);
                let failure = Failure::new(Reason::Expired, message);
                self.ready.push_back(event("ERROR", &failure.to_status()));
                self.has_ended = true;
            }
        }
    }
}

/// What no clock holds is as good as what nobody said.
fn ends(now: Instant, query: &Query) -> Instant {
    let asked = query.timeout_secs.and_then(|secs| now.checked_add(Duration::from_secs(secs)));
    asked.unwrap_or(now + LASTS)
}

/// How a watch shows objects.
struct Form<'a> {
    resource: &'a Resource,
    columns: Option<&'a [PrinterColumn]>,
    tables: Option<IncludeObject>,
    now: Timestamp,
}

impl<'a> Form<'a> {
    fn new(state: &'a State, place: &'a Place, tables: Option<IncludeObject>) -> Self {
        let resource = &*place.resource;
        Self { resource, columns: state.columns(resource), tables, now: state.now() }
    }

    fn of(&self, object: &Value) -> Value {
        let Some(include) = self.tables else { return shown(self.resource, object) };
        let metadata = json!({ "resourceVersion": object::revision(object) });
        table::table(self.resource, [object], self.columns, &metadata, self.now, include)
    }
}

/// What a watch hears of a change: an object that begins to match is new to it, one that ceases to is gone.
fn told(form: &Form<'_>, selection: &Selection, change: &Change) -> Option<Value> {
    let matching = |object: &&Arc<Value>| selection.matches(object);
    let before = change.before.as_ref().filter(matching);
    let after = change.after.as_ref().filter(matching);
    let (kind, mut object) = match (before, after) {
        (None, None) => return None,
        (None, Some(after)) => ("ADDED", (**after).clone()),
        (Some(_), Some(after)) => ("MODIFIED", (**after).clone()),
        (Some(before), None) => ("DELETED", (**before).clone()),
    };
    object::set_revision(&mut object, change.revision);
    Some(event(kind, &form.of(&object)))
}

fn event(kind: &str, object: &Value) -> Value {
    json!({ "type": kind, "object": object })
}

fn bookmark(place: &Place, revision: u64) -> Value {
    let object = json!({
        "kind": place.resource.kind,
        "apiVersion": place.resource.api_version(),
        "metadata": { "resourceVersion": revision.to_string() },
    });
    event("BOOKMARK", &object)
}
