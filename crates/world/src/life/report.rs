//! What controllers tell people: Events, one for the same thing, counted.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use jiff::{SignedDuration, Timestamp};

use crate::api::{Act, Api};
use crate::json::{Value, json};
use crate::object;
use crate::store::Key;

/// Something worth telling about an object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Report {
    /// The object, or as much of it as says which it is.
    pub(crate) about: Value,
    pub(crate) severity: Severity,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    /// Who tells.
    pub(crate) component: &'static str,
}

impl Report {
    /// Something about an object as it is.
    pub(crate) fn about(
        object: &Value,
        severity: Severity,
        reason: &'static str,
        message: String,
        component: &'static str,
    ) -> Self {
        let metadata: crate::json::Map = ["name", "namespace", "uid", "resourceVersion"]
            .iter()
            .filter_map(|field| Some((field, object["metadata"].get(field)?.clone())))
            .collect();
        let about =
            json!({ "apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": metadata });
        Self { about, severity, reason, message, component }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    Normal,
    Warning,
}

/// What has been told, and where. As clients of Kubernetes keep it: of much that is alike one tells only how much,
/// and whoever tells too much about one thing is not heard.
#[derive(Debug, Default)]
pub(super) struct Reports {
    told: Recent<(String, &'static str, String), Key>,
    /// The different messages of late, by what they are about.
    alike: Recent<(String, &'static str), Alike>,
    patience: Recent<(String, &'static str), Patience>,
    /// What the last event's name was made of.
    last: i128,
}

#[derive(Debug)]
struct Alike {
    messages: BTreeSet<String>,
    last: Timestamp,
}

/// How many more events are written about a thing.
#[derive(Debug)]
struct Patience {
    left: u32,
    since: Timestamp,
}

/// From so many different messages for one reason on, they are told as one.
const ALIKE_MAX: usize = 10;
/// Unless the last one is older than this.
const ALIKE_FOR: SignedDuration = SignedDuration::from_mins(10);
const COMBINED: &str = "(combined from similar events): ";

const PATIENCE: u32 = 25;
/// One more event is borne after each of these.
const PATIENCE_GROWS: SignedDuration = SignedDuration::from_mins(5);

/// Events about what is in no namespace are in this one.
const NAMESPACE_OF_NONE: &str = "default";

impl Reports {
    /// Tells it, or counts it if it has been told. Nothing depends on its being told: a refusal is passed over.
    pub(super) async fn write(&mut self, api: &Api, report: Report) {
        let now = api.state().now();
        let uid = object::uid(&report.about).to_owned();
        let (message, told) = self.combine(&report, &uid, now);
        if !self.is_borne(&uid, report.component, now) {
            return;
        }
        let known = self.told.get(&told).and_then(|key| api.state().store.get(key));
        let act = match known {
            Some(event) => Act::Update("events", again(&event, &message, now)),
            None => Act::Create("events", first(&report, &message, now, self.next_number(now))),
        };
        if let Ok(event) = api.act(report.component, act).await {
            let key = Key::new("events", object::namespace(&event), object::name(&event));
            self.told.insert(told, key);
        }
    }

    /// The message as it is told, and by what it is known again.
    fn combine(
        &mut self,
        report: &Report,
        uid: &str,
        now: Timestamp,
    ) -> (String, (String, &'static str, String)) {
        let about = (uid.to_owned(), report.reason);
        let known = self.alike.get_mut(&about).filter(|alike| now.duration_since(alike.last) <= ALIKE_FOR);
        let count = if let Some(alike) = known {
            if alike.messages.len() < ALIKE_MAX {
                alike.messages.insert(report.message.clone());
            }
            alike.last = now;
            alike.messages.len()
        } else {
            let messages = BTreeSet::from([report.message.clone()]);
            self.alike.insert(about, Alike { messages, last: now });
            1
        };
        if count < ALIKE_MAX {
            return (report.message.clone(), (uid.to_owned(), report.reason, report.message.clone()));
        }
        (format!("{COMBINED}{}", report.message), (uid.to_owned(), report.reason, COMBINED.to_owned()))
    }

    fn is_borne(&mut self, uid: &str, component: &'static str, now: Timestamp) -> bool {
        let about = (uid.to_owned(), component);
        let Some(patience) = self.patience.get_mut(&about) else {
            self.patience.insert(about, Patience { left: PATIENCE - 1, since: now });
            return true;
        };
        let grown = now.duration_since(patience.since).as_secs() / PATIENCE_GROWS.as_secs();
        if let Ok(grown @ 1..) = u32::try_from(grown) {
            patience.left = patience.left.saturating_add(grown).min(PATIENCE);
            patience.since = now;
        }
        let is_borne = patience.left > 0;
        patience.left = patience.left.saturating_sub(1);
        is_borne
    }

    /// Several things may happen in one instant.
    fn next_number(&mut self, now: Timestamp) -> i128 {
        self.last = now.as_nanosecond().max(self.last + 1);
        self.last
    }
}

fn first(report: &Report, message: &str, now: Timestamp, number: i128) -> Value {
    let about = &report.about;
    let metadata = &about["metadata"];
    let mut involved = json!({
        "apiVersion": about["apiVersion"], "kind": about["kind"], "name": metadata["name"],
        "uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"],
    });
    let has_namespace = !object::namespace(about).is_empty();
    if has_namespace {
        involved["namespace"] = metadata["namespace"].clone();
    }
    // As clients name events: what they are about, and when, in nanoseconds.
    let name = format!("{}.{number:x}", object::name(about));
    let namespace = if has_namespace { metadata["namespace"].clone() } else { json!(NAMESPACE_OF_NONE) };
    let time = object::time(now);
    json!({
        "metadata": { "name": name, "namespace": namespace },
        "involvedObject": involved,
        "reason": report.reason, "message": message, "type": format!("{:?}", report.severity),
        "source": { "component": report.component },
        "firstTimestamp": time, "lastTimestamp": time, "count": 1,
        "eventTime": null, "reportingComponent": report.component, "reportingInstance": "",
    })
}

fn again(event: &Value, message: &str, now: Timestamp) -> Value {
    let mut event = event.clone();
    let count = event["count"].as_i64().unwrap_or(0);
    event["count"] = json!(count + 1);
    event["message"] = json!(message);
    event["lastTimestamp"] = object::time(now);
    event
}

/// What was noted of late: the oldest is forgotten.
#[derive(Debug)]
struct Recent<K, V> {
    noted: BTreeMap<K, V>,
    order: VecDeque<K>,
}

const RECENT_MAX: usize = 4096;

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self { noted: BTreeMap::new(), order: VecDeque::new() }
    }
}

impl<K: Clone + Ord, V> Recent<K, V> {
    fn get(&self, key: &K) -> Option<&V> {
        self.noted.get(key)
    }

    fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.noted.get_mut(key)
    }

    fn insert(&mut self, key: K, value: V) {
        if self.noted.insert(key.clone(), value).is_some() {
            return;
        }
        self.order.push_back(key);
        if self.order.len() > RECENT_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.noted.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn much_that_is_alike_is_told_as_one() {
        let api = Api::new(1, "2026-01-01T00:00:00Z".parse().unwrap());
        let mut reports = Reports::default();
        for number in 0..40 {
            let report = Report {
                about: json!({"kind": "Pod", "metadata": {"name": "a", "namespace": "default", "uid": "u"}}),
                severity: Severity::Normal,
                reason: "Made",
                message: format!("Made {number}"),
                component: "test",
            };
            reports.write(&api, report).await;
        }
        let events: Vec<(String, i64)> = api
            .state()
            .store
            .list("events", None)
            .map(|(_, event)| {
                (object::text(&event, &["message"]).to_owned(), event["count"].as_i64().unwrap_or(0))
            })
            .collect();
        let single = (0..9).map(|number| (format!("Made {number}"), 1));
        let combined = (format!("{COMBINED}Made 24"), 16);
        assert_eq!(events, single.chain([combined]).collect::<Vec<_>>());
    }
}
