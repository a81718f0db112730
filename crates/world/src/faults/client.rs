//! What has become of a client: whether it lives, what it is shown, and what its clock says.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::Faults;
use super::harm::View;
use crate::clock::Skew;

#[derive(Clone, Debug, Default)]
pub(super) struct Harmed {
    pub(super) has_crashed: bool,
    /// So often it has ended.
    crashes: u64,
    /// So often it has been moved to another server.
    moves: u64,
    shown: BTreeMap<View, Frozen>,
    pub(super) clock: Skew,
}

/// Lists and watches show what was at a revision, for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frozen {
    pub(crate) revision: u64,
    since: Timestamp,
    pub(crate) until: Timestamp,
    /// It is the server that is behind, whoever asks it.
    outlasts_client: bool,
}

impl Harmed {
    pub(super) fn crash(&mut self) {
        self.has_crashed = true;
        self.crashes += 1;
    }

    /// It starts anew, with a view of its own day unless its server has none; its clock is what it was.
    pub(super) fn restart(&mut self) {
        self.has_crashed = false;
        self.shown.retain(|_, frozen| frozen.outlasts_client);
    }

    pub(super) fn freeze(&mut self, of: View, revision: u64, now: Timestamp, length: Duration) {
        // Frozen already, it does not see what came since.
        let known = self.shown.get(&of).filter(|frozen| now < frozen.until);
        let frozen =
            known.copied().unwrap_or(Frozen { revision, since: now, until: now, outlasts_client: false });
        self.shown.insert(of, Frozen { until: after(now, length), ..frozen });
    }

    pub(super) fn rewind(&mut self, of: View, revision: u64, now: Timestamp, length: Duration) {
        self.moves += 1;
        let until = after(now, length);
        self.shown.insert(of, Frozen { revision, since: now, until, outlasts_client: true });
    }

    /// What it is shown of a resource, where that is not what is: the oldest of what may be.
    pub(super) fn frozen(&self, resource: &str, now: Timestamp) -> Option<Frozen> {
        let views = [View(None), View(Some(resource.to_owned()))];
        let frozen = views.iter().filter_map(|view| self.shown.get(view));
        frozen.filter(|frozen| now < frozen.until).min_by_key(|frozen| frozen.revision).copied()
    }

    /// For how long something that it is shown has been out of date, given when each resource changed last.
    pub(super) fn stale_secs(&mut self, now: Timestamp, touched: impl Fn(&str) -> u64) -> u64 {
        let frozen = self.shown.iter_mut().filter(|(_, frozen)| now < frozen.until);
        let secs = frozen.map(|(View(of), frozen)| {
            if of.as_deref().is_some_and(|resource| touched(resource) <= frozen.revision) {
                // Nothing has happened that it does not know.
                frozen.since = now;
            }
            now.duration_since(frozen.since).unsigned_abs().as_secs()
        });
        secs.max().unwrap_or(0)
    }
}

fn after(now: Timestamp, length: Duration) -> Timestamp {
    let length = SignedDuration::try_from(length).unwrap_or(SignedDuration::MAX);
    now.checked_add(length).unwrap_or(Timestamp::MAX)
}

/// What a client began in one of its lives, at one server: it ends with either.
#[derive(Clone, Debug)]
pub(super) struct Session {
    faults: Faults,
    client: String,
    crashes: u64,
    moves: u64,
}

impl Session {
    /// `None` for a client that is no more.
    pub(super) fn begin(faults: &Faults, client: &str) -> Option<Self> {
        let (crashes, moves) =
            faults.look(client, |harmed| (!harmed.has_crashed).then_some((harmed.crashes, harmed.moves)))?;
        Some(Self { faults: faults.clone(), client: client.to_owned(), crashes, moves })
    }

    pub(super) fn has_crashed(&self) -> bool {
        self.faults.look(&self.client, |harmed| harmed.crashes != self.crashes)
    }

    pub(super) fn is_broken(&self) -> bool {
        let now = |harmed: &Harmed| (harmed.crashes, harmed.moves);
        self.faults.look(&self.client, now) != (self.crashes, self.moves)
    }

    /// Waits until the client is no more, or at another server.
    pub(super) async fn broken(&self) {
        self.faults.until(|| self.is_broken()).await;
    }
}
