//! Faults: what goes wrong between the API and its clients, at the points that a plan names.

mod client;
mod harm;
mod harmed;
mod known;
mod plan;
mod seat;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::Method;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;

use client::{Frozen, Harmed};

use crate::audit::{Asked, is_question};
use crate::request::{self, Place, Query, without_watch};

pub use harm::{Harm, View};
pub use known::Unknown;
pub use plan::{DeedKind, Fault, FaultPlan, PlanError, Side};
pub use seat::{Lost, Seat};

pub(crate) use harmed::HarmedEvents;
pub(crate) use known::unknown;
pub(crate) use seat::{Served, answer};

/// Something that a client does, or is told, that a fault may strike at.
#[derive(Clone, Debug)]
pub(crate) struct Deed {
    /// As roles name it: `create`; or `event`.
    verb: &'static str,
    /// `pods`, `pods/eviction`, or a path that is no resource.
    resource: String,
    namespace: String,
    name: String,
}

impl Deed {
    /// Whatever is asked, whether or not it is served.
    pub(crate) fn request(method: &Method, path: &str, query: &str) -> Self {
        let (path, is_watch) = without_watch(path);
        // What is wrong with it, whoever answers says.
        let mut query = Query::parse(query).unwrap_or_default();
        query.watch |= is_watch;
        let Some(asked) = request::Asked::parse(method, &path, &query) else {
            let verb = match *method {
                Method::GET | Method::HEAD => "get",
                Method::POST => "create",
                Method::PUT => "update",
                Method::PATCH => "patch",
                Method::DELETE => "delete",
                _ => "",
            };
            return Self { verb, resource: path, namespace: String::new(), name: String::new() };
        };
        let mut resource = asked.resource;
        // A namespace is in none.
        let namespace = if resource == "namespaces" { String::new() } else { asked.namespace };
        for (mark, word) in [('.', asked.group), ('/', asked.subresource)] {
            if !word.is_empty() {
                resource.push(mark);
                resource.push_str(&word);
            }
        }
        Self { verb: asked.verb, resource, namespace, name: asked.name }
    }

    pub(crate) fn event(place: &Place) -> Self {
        Self {
            verb: plan::EVENT,
            resource: place.resource.qualified(),
            namespace: place.namespace.clone().unwrap_or_default(),
            name: place.name.clone().unwrap_or_default(),
        }
    }

    fn asked(&self, client: &str, status: u16, revisions: (u64, u64), stale_secs: u64) -> Asked {
        Asked {
            client: client.to_owned(),
            verb: self.verb,
            resource: self.resource.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            status,
            revisions,
            stale_secs,
        }
    }
}

impl Fault {
    fn concerns(&self, client: &str, side: Side, deed: &Deed) -> bool {
        self.deed.covers(deed.verb, is_question(&deed.resource))
            && self.side == side
            && self.client.as_deref().is_none_or(|of| of == client)
            && self.resource.as_deref().is_none_or(|of| of == deed.resource)
    }
}

/// All that is planned, how far it has come, and what it has done to whom. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Faults(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Tells of every change of a client's state.
    changes: watch::Sender<u64>,
    /// So many faults have struck.
    strikes: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct State {
    planned: Vec<Planned>,
    clients: BTreeMap<String, Harmed>,
    struck: Vec<String>,
    /// What was asked, if anybody wants to know.
    asked: Option<Vec<Asked>>,
}

#[derive(Debug)]
struct Planned {
    fault: Fault,
    /// So many of its deeds have been done.
    done: u64,
}

impl Faults {
    pub(crate) fn none() -> Self {
        let (changes, strikes) = (watch::Sender::new(0), watch::Sender::new(0));
        Self(Arc::new(Shared { state: Mutex::default(), changes, strikes }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn plan(&self, plan: FaultPlan) {
        let planned = plan.0.into_iter().map(|fault| Planned { fault, done: 0 });
        self.state().planned.extend(planned);
    }

    /// Counts a deed; what it comes to harm by.
    pub(crate) fn strike(&self, client: &str, side: Side, deed: &Deed) -> Vec<Harm> {
        let mut state = self.state();
        let State { planned, struck, .. } = &mut *state;
        let concerned = planned.iter_mut().filter(|planned| planned.fault.concerns(client, side, deed));
        let mut harms = Vec::new();
        for Planned { fault, done } in concerned {
            *done += 1;
            if (fault.nth..fault.nth.saturating_add(fault.times)).contains(done) {
                struck.push(format!("{client}: {fault}"));
                harms.push(fault.harm.clone());
            }
        }
        let count = struck.len();
        drop(state);
        if !harms.is_empty() {
            self.0.strikes.send_replace(count);
        }
        harms
    }

    /// The faults that have struck, in order.
    pub(crate) fn struck(&self) -> Vec<String> {
        self.state().struck.clone()
    }

    /// Waits until more than so many have struck.
    pub(crate) async fn more_struck(&self, than: usize) {
        // Whoever waits holds the sender.
        let _ = self.0.strikes.subscribe().wait_for(|count| *count > than).await;
    }

    pub(crate) fn begin_audit(&self) {
        self.state().asked.get_or_insert_default();
    }

    pub(crate) fn take_asked(&self) -> Vec<Asked> {
        self.state().asked.as_mut().map(std::mem::take).unwrap_or_default()
    }

    fn note(&self, asked: impl FnOnce() -> Asked) {
        if let Some(all) = &mut self.state().asked {
            all.push(asked());
        }
    }

    fn look<T>(&self, client: &str, look: impl FnOnce(&Harmed) -> T) -> T {
        match self.state().clients.get(client) {
            Some(harmed) => look(harmed),
            None => look(&Harmed::default()),
        }
    }

    fn change(&self, client: &str, change: impl FnOnce(&mut Harmed)) {
        change(self.state().clients.entry(client.to_owned()).or_default());
        self.0.changes.send_modify(|changes| *changes += 1);
    }

    /// Waits until it holds of the clients.
    async fn until(&self, holds: impl Fn() -> bool) {
        let mut changes = self.0.changes.subscribe();
        // Whoever waits holds the sender.
        while !holds() && changes.changed().await.is_ok() {}
    }

    pub(crate) fn crash(&self, client: &str) {
        self.change(client, Harmed::crash);
    }

    pub(crate) async fn crashed(&self, client: &str) {
        self.until(|| self.look(client, |harmed| harmed.has_crashed)).await;
    }

    pub(crate) fn restart(&self, client: &str) {
        self.change(client, Harmed::restart);
    }

    /// How far the client's clock is ahead.
    pub(crate) fn clock(&self, client: &str, now: Timestamp) -> SignedDuration {
        self.look(client, |harmed| harmed.clock.at(now))
    }

    /// What the client is shown of a resource, where that is not what is.
    fn frozen(&self, client: &str, resource: &str, now: Timestamp) -> Option<Frozen> {
        self.look(client, |harmed| harmed.frozen(resource, now))
    }

    /// For how long what the client is shown has been out of date, given when each resource changed last.
    fn stale_secs(&self, client: &str, now: Timestamp, touched: impl Fn(&str) -> u64) -> u64 {
        let mut state = self.state();
        state.clients.get_mut(client).map_or(0, |harmed| harmed.stale_secs(now, touched))
    }
}

#[cfg(test)]
mod tests;
