//! Events are forgotten an hour after they were written last.

use jiff::{SignedDuration, Timestamp};

use super::{Controller, Decision, View};
use crate::api::Act;
use crate::json::Value;
use crate::object;
use crate::store::{Change, Key};

const KEPT: SignedDuration = SignedDuration::from_hours(1);

#[derive(Debug)]
pub(super) struct Expiry;

impl Controller for Expiry {
    fn name(&self) -> &'static str {
        "kube-apiserver"
    }

    fn observe(&mut self, change: &Change, _: View<'_>) -> Vec<Key> {
        let is_event = change.key.resource() == "events";
        change.after.iter().filter(|_| is_event).map(|_| change.key.clone()).collect()
    }

    fn decide(&mut self, key: &Key, view: View<'_>) -> Decision {
        let Some(event) = view.get(key) else { return Decision::none() };
        let Some(at) = written(&event).and_then(|at| at.checked_add(KEPT).ok()) else {
            return Decision::none();
        };
        if view.now() < at {
            return Decision::again(at);
        }
        Decision::act(Act::delete(key.resource(), &event))
    }
}

/// When an event was written last, as far as it says so.
fn written(event: &Value) -> Option<Timestamp> {
    let paths: [&[&str]; 3] =
        [&["metadata", "creationTimestamp"], &["lastTimestamp"], &["series", "lastObservedTime"]];
    paths.iter().filter_map(|path| object::text(event, path).parse().ok()).max()
}
