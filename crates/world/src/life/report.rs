//! What controllers tell people: Events, one for the same thing, counted.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::api::{Act, Api};
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    Normal,
    Warning,
}

/// What has been told, and where.
#[derive(Debug, Default)]
pub(super) struct Reports(BTreeMap<(String, &'static str, String), Key>);

/// Events about what is in no namespace are in this one.
const NAMESPACE_OF_NONE: &str = "default";

impl Reports {
    /// Tells it, or counts it if it has been told. Nothing depends on its being told: a refusal is passed over.
    pub(super) async fn write(&mut self, api: &Api, report: Report) {
        let uid = object::uid(&report.about).to_owned();
        let told = (uid, report.reason, report.message.clone());
        let known = self.0.get(&told).and_then(|key| api.state().store.get(key));
        let component = report.component;
        let act = match known {
            Some(event) => Act::Update("events", again(&event, api)),
            None => Act::Create("events", first(&report, api)),
        };
        if let Ok(event) = api.act(component, act).await {
            let key = Key::new("events", object::namespace(&event), object::name(&event));
            self.0.insert(told, key);
        } else {
            self.0.remove(&told);
        }
    }
}

fn first(report: &Report, api: &Api) -> Value {
    let now = api.state().now();
    let about = &report.about;
    let namespace = Some(object::namespace(about)).filter(|namespace| !namespace.is_empty());
    let mut involved = json!({
        "apiVersion": about["apiVersion"], "kind": about["kind"], "name": object::name(about),
        "uid": object::uid(about), "resourceVersion": object::revision(about),
    });
    if let Some(namespace) = namespace {
        involved["namespace"] = json!(namespace);
    }
    // As clients name events: what they are about, and when, in nanoseconds.
    let name = format!("{}.{:x}", object::name(about), now.as_nanosecond());
    let time = object::time(now);
    json!({
        "metadata": { "name": name, "namespace": namespace.unwrap_or(NAMESPACE_OF_NONE) },
        "involvedObject": involved,
        "reason": report.reason, "message": report.message, "type": format!("{:?}", report.severity),
        "source": { "component": report.component },
        "firstTimestamp": time, "lastTimestamp": time, "count": 1,
        "eventTime": null, "reportingComponent": report.component, "reportingInstance": "",
    })
}

fn again(event: &Value, api: &Api) -> Value {
    let mut event = event.clone();
    let count = event["count"].as_i64().unwrap_or(0);
    event["count"] = json!(count + 1);
    event["lastTimestamp"] = object::time(api.state().now());
    event
}
