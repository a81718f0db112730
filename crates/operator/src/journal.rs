//! What Berth decided and did, for people: the newest decisions, and events on the objects that they are about.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_api::Timestamp;
use berth_core::units::Price;
use serde::Serialize;
use serde_json::json;
use tokio::time::Instant;

use crate::desk::Desk;
use crate::metrics::{Metrics, table};

/// The same about the same object is not said again for so long: API servers keep events for an hour.
pub(crate) const SAID_AGAIN: Duration = Duration::from_mins(50);
/// So many decisions are remembered.
const DECISIONS_MAX: usize = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum DecisionKind {
    Launch,
    Delete,
    Replace,
    Undo,
    Interruption,
    Refusal,
    Failure,
}

impl DecisionKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Launch => "launch",
            Self::Delete => "delete",
            Self::Replace => "replace",
            Self::Undo => "undo",
            Self::Interruption => "interruption",
            Self::Refusal => "refusal",
            Self::Failure => "failure",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    pub id: u64,
    pub at: String,
    pub kind: DecisionKind,
    pub reason: String,
    pub message: String,
    pub objects: Vec<String>,
    pub saves_per_hour: Option<Price>,
}

/// An object that something is said about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct About {
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
}

/// Clones are the same journal.
#[derive(Clone, Debug, Default)]
pub(crate) struct Journal {
    pages: Arc<Mutex<Pages>>,
    metrics: Metrics,
}

#[derive(Debug, Default)]
struct Pages {
    decisions: VecDeque<Decision>,
    last_id: u64,
    /// How many events were written.
    events: u64,
    said: BTreeMap<(About, String, String), Instant>,
}

impl Journal {
    pub(crate) fn new(metrics: Metrics) -> Self {
        Self { pages: Arc::default(), metrics }
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn decided(
        &self,
        at: Timestamp,
        kind: DecisionKind,
        (reason, message): (&str, String),
        objects: Vec<String>,
        saves_per_hour: Option<Price>,
    ) {
        let mut pages = self.pages();
        pages.last_id += 1;
        let decision = Decision {
            id: pages.last_id,
            at: format!("{at:.0}"),
            kind,
            reason: reason.to_owned(),
            message,
            objects,
            saves_per_hour,
        };
        pages.decisions.push_front(decision);
        pages.decisions.truncate(DECISIONS_MAX);
    }

    /// The newest first.
    pub(crate) fn decisions(&self) -> Vec<Decision> {
        self.pages().decisions.iter().cloned().collect()
    }

    fn is_news(&self, about: &About, reason: &str, message: &str) -> bool {
        let mut pages = self.pages();
        pages.said.retain(|_, at| at.elapsed() < SAID_AGAIN);
        let what = (about.clone(), reason.to_owned(), message.to_owned());
        pages.said.insert(what, Instant::now()).is_none()
    }

    fn unsay(&self, about: &About, reason: &str, message: &str) {
        self.pages().said.remove(&(about.clone(), reason.to_owned(), message.to_owned()));
    }

    /// Says something about an object, unless it was said lately. Whether it was news.
    pub(crate) async fn say(
        &self,
        desk: &Desk,
        (about, at): (&About, Timestamp),
        (severity, reason, message): (Severity, &str, &str),
    ) -> bool {
        if !self.is_news(about, reason, message) {
            return false;
        }
        // What was not heard is said again with the next look.
        if !self.tell(desk, (about, at), (severity, reason, message)).await {
            self.unsay(about, reason, message);
        }
        true
    }

    /// Writes an event. Whether it was taken.
    pub(crate) async fn tell(
        &self,
        desk: &Desk,
        (about, at): (&About, Timestamp),
        (severity, reason, message): (Severity, &str, &str),
    ) -> bool {
        let namespace = if about.namespace.is_empty() { "default" } else { &about.namespace };
        // A node and its claim have one name, and may be told something in the same moment.
        let number = {
            let mut pages = self.pages();
            pages.events += 1;
            pages.events
        };
        let event = json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {
                "namespace": namespace,
                "name": format!("{}.{:x}.{number:x}", about.name, at.as_nanosecond()),
            },
            "involvedObject": {
                "apiVersion": about.api_version, "kind": about.kind, "namespace": about.namespace,
                "name": about.name, "uid": about.uid,
            },
            "type": severity.name(), "reason": reason, "message": message,
            "source": { "component": "berth" }, "reportingComponent": "berth", "reportingInstance": "berth",
            "firstTimestamp": format!("{at:.0}"), "lastTimestamp": format!("{at:.0}"), "count": 1,
        });
        let is_taken = desk.create_event(namespace, &event).await.is_ok();
        if is_taken {
            self.metrics.count(table::VPSIE_EVENTS, [severity.name(), reason, about.kind]);
        }
        is_taken
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    Normal,
    Warning,
}

impl Severity {
    fn name(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}
