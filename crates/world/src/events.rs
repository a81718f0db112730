//! Events have two forms, that of the core group and that of `events.k8s.io`, with other names for the same fields.
//! They are the same objects, kept in the first form.

use crate::json::Value;
use crate::kinds::Resource;
use crate::proto::put_in_form;

/// In the first form, and in the second.
const NAMES: [(&str, &str); 7] = [
    ("count", "deprecatedCount"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("involvedObject", "regarding"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
];

/// Whether objects are events in the second form.
pub(crate) fn are(resource: &Resource) -> bool {
    resource.group == "events.k8s.io" && resource.kind == "Event"
}

/// From the second form to the first.
pub(crate) fn to_first(event: &mut Value) {
    rename(event, NAMES.map(|(first, second)| (second, first)));
    put_in_form("v1", "Event", event, None);
}

/// From the first form to the second.
pub(crate) fn to_second(event: &mut Value) {
    rename(event, NAMES);
    put_in_form("events.k8s.io/v1", "Event", event, None);
}

fn rename<const N: usize>(event: &mut Value, names: [(&str, &str); N]) {
    for (from, to) in names {
        if let Some(value) = event.as_object_mut().and_then(|fields| fields.remove(from)) {
            event[to] = value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    #[test]
    fn an_event_is_the_same_in_both_forms() {
        let mut first = json!({
            "metadata": {"name": "a"}, "count": 2, "firstTimestamp": "2026-01-01T00:00:00Z",
            "involvedObject": {"kind": "Pod"}, "lastTimestamp": "2026-01-01T00:01:00Z", "message": "m",
            "reportingComponent": "c", "reportingInstance": "i", "source": {"component": "s"}, "eventTime": null,
            "reason": "R", "type": "Normal", "action": "A", "series": {"count": 2, "lastObservedTime": null},
        });
        let second = json!({
            "metadata": {"name": "a"}, "deprecatedCount": 2, "deprecatedFirstTimestamp": "2026-01-01T00:00:00Z",
            "regarding": {"kind": "Pod"}, "deprecatedLastTimestamp": "2026-01-01T00:01:00Z", "note": "m",
            "reportingController": "c", "reportingInstance": "i", "deprecatedSource": {"component": "s"},
            "eventTime": null, "reason": "R", "type": "Normal", "action": "A",
            "series": {"count": 2, "lastObservedTime": null},
        });
        let before = first.clone();
        to_second(&mut first);
        assert_eq!(first, second);
        to_first(&mut first);
        assert_eq!(first, before);
    }
}
