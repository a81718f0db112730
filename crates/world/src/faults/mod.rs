//! Faults: what goes wrong between the API and its clients, at the points that a plan names.

mod harmed;
mod plan;
mod seat;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;

use crate::audit::Asked;
use crate::request::{Place, Verb};

pub use plan::{DeedKind, Fault, FaultPlan, Harm, PlanError, Side};
pub use seat::{Lost, Seat};

pub(crate) use harmed::HarmedEvents;
pub(crate) use seat::{Served, answer};

/// Something that a client does, or is told, that a fault may strike at.
#[derive(Clone, Debug)]
pub(crate) struct Deed {
    /// `None` for an event.
    verb: Option<Verb>,
    /// `pods`, or `pods/eviction`.
    resource: String,
    namespace: String,
    name: String,
}

impl Deed {
    pub(crate) fn request(verb: Verb, place: &Place) -> Self {
        let resource = place.resource.qualified();
        let resource = match place.subresource {
            Some(part) => format!("{resource}/{}", part.name()),
            None => resource,
        };
        Self { verb: Some(verb), resource, ..Self::at(place) }
    }

    pub(crate) fn event(place: &Place) -> Self {
        Self { resource: place.resource.qualified(), ..Self::at(place) }
    }

    fn at(place: &Place) -> Self {
        Self {
            verb: None,
            resource: String::new(),
            namespace: place.namespace.clone().unwrap_or_default(),
            name: place.name.clone().unwrap_or_default(),
        }
    }

    fn asked(&self, client: &str, status: u16, revisions: (u64, u64), stale_secs: u64) -> Asked {
        Asked {
            client: client.to_owned(),
            verb: self.verb.map_or("", Verb::name),
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
        let kind = match deed.verb {
            Some(verb) => self.deed.covers(verb),
            None => self.deed == DeedKind::Event,
        };
        kind && self.side == side
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
    /// Tells of every crash.
    crashes: watch::Sender<u64>,
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

/// What has become of a client.
#[derive(Clone, Copy, Debug, Default)]
struct Harmed {
    has_crashed: bool,
    frozen: Option<Frozen>,
    clock: SignedDuration,
}

/// Lists and watches show what was at a revision, for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frozen {
    pub(crate) revision: u64,
    since: Timestamp,
    pub(crate) until: Timestamp,
}

impl Faults {
    pub(crate) fn none() -> Self {
        Self(Arc::new(Shared { state: Mutex::default(), crashes: watch::Sender::new(0) }))
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
                harms.push(fault.harm);
            }
        }
        harms
    }

    /// The faults that have struck, in order.
    pub(crate) fn struck(&self) -> Vec<String> {
        self.state().struck.clone()
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

    fn of(&self, client: &str) -> Harmed {
        self.state().clients.get(client).copied().unwrap_or_default()
    }

    fn change(&self, client: &str, change: impl FnOnce(&mut Harmed)) {
        change(self.state().clients.entry(client.to_owned()).or_default());
    }

    pub(crate) fn crash(&self, client: &str) {
        self.change(client, |harmed| harmed.has_crashed = true);
        self.0.crashes.send_modify(|crashes| *crashes += 1);
    }

    pub(crate) async fn crashed(&self, client: &str) {
        let mut crashes = self.0.crashes.subscribe();
        while !self.of(client).has_crashed {
            if crashes.changed().await.is_err() {
                return;
            }
        }
    }

    /// The client starts anew, with a view of its own day; its clock is what it was.
    pub(crate) fn restart(&self, client: &str) {
        self.change(client, |harmed| {
            harmed.has_crashed = false;
            harmed.frozen = None;
        });
    }

    pub(crate) fn clock(&self, client: &str) -> SignedDuration {
        self.of(client).clock
    }

    fn set_clock(&self, client: &str, by: SignedDuration) {
        self.change(client, |harmed| harmed.clock = harmed.clock.saturating_add(by));
    }

    fn freeze(&self, client: &str, revision: u64, now: Timestamp, length: Duration) {
        let length = SignedDuration::try_from(length).unwrap_or(SignedDuration::MAX);
        let until = now.checked_add(length).unwrap_or(Timestamp::MAX);
        self.change(client, |harmed| {
            // Frozen already, it does not see what came since.
            let known = harmed.frozen.filter(|frozen| now < frozen.until);
            let (revision, since) = known.map_or((revision, now), |known| (known.revision, known.since));
            harmed.frozen = Some(Frozen { revision, since, until });
        });
    }

    pub(crate) fn frozen(&self, client: &str, now: Timestamp) -> Option<Frozen> {
        self.of(client).frozen.filter(|frozen| now < frozen.until)
    }

    /// For how long the client's lists and watches have stood still.
    fn stale_secs(&self, client: &str, now: Timestamp) -> u64 {
        let frozen = self.frozen(client, now);
        frozen.map_or(0, |frozen| now.duration_since(frozen.since).unsigned_abs().as_secs())
    }
}

#[cfg(test)]
mod tests;
