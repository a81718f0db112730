//! The workloads that CapacityBuffers keep room for. Each is read by its name: few are referred to, and a cluster has
//! thousands.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_api::resources::buffer::CapacityBuffer;
use berth_api::{Collection, SCALABLE};
use berth_core::names::{self, Text};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::cluster::Refused;
use crate::desk::Desk;
use crate::objects::Versioned;
use crate::watched::{BlindSpot, Watched};

/// A workload that has grown has more room beside it so long later.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// One that was not heard of is asked after again.
const LOOK_SOON: Duration = Duration::from_secs(2);

/// What buffers refer to, and what is known of it. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct References {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    known: Mutex<BTreeMap<Reference, Answer>>,
    news: Notify,
}

/// A workload, by the plural of its kind, its namespace and its name.
type Reference = (&'static str, Text, Text);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Answer {
    NotYet,
    /// There is none, or it was read: then in this version.
    Read(Option<String>),
    Refused(String),
}

impl References {
    fn known(&self) -> MutexGuard<'_, BTreeMap<Reference, Answer>> {
        self.shared.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on this is referred to, and nothing else.
    pub(crate) fn want<'b>(&self, buffers: impl Iterator<Item = &'b CapacityBuffer>) {
        let wanted: BTreeSet<Reference> = buffers.filter_map(reference).collect();
        let mut known = self.known();
        let count = known.len();
        known.retain(|reference, _| wanted.contains(reference));
        let mut is_news = known.len() != count;
        for reference in wanted {
            known.entry(reference).or_insert_with(|| {
                is_news = true;
                Answer::NotYet
            });
        }
        drop(known);
        if is_news {
            self.shared.news.notify_one();
        }
    }

    /// What is not known of it. The room that it asks for is not known either.
    pub(crate) fn blind_spots(&self) -> Vec<BlindSpot> {
        let known = self.known();
        let spots = known.iter().filter_map(|((plural, namespace, name), answer)| {
            let why = match answer {
                Answer::Read(_) => return None,
                Answer::NotYet => format!("{namespace}/{name} was not read yet"),
                Answer::Refused(why) => format!("{namespace}/{name} cannot be read: {why}"),
            };
            Some(BlindSpot { plural, why })
        });
        spots.collect()
    }

    /// Reads them, for as long as this lives.
    pub(crate) async fn attend(self, desk: Desk, watched: Watched) {
        let mut put = BTreeSet::new();
        loop {
            let wanted = self.known().clone();
            for reference in put.difference(&wanted.keys().cloned().collect()) {
                forget(reference, &watched);
            }
            put = wanted.keys().cloned().collect();
            for (reference, before) in wanted {
                let answer = ask(&reference, &before, &desk, &watched).await;
                if let Some(known) = self.known().get_mut(&reference) {
                    *known = answer;
                }
            }
            let is_known = self.blind_spots().is_empty();
            let _ = timeout(if is_known { LOOK_EVERY } else { LOOK_SOON }, self.shared.news.notified()).await;
        }
    }
}

/// Reads a workload, and hands it on if it is another than before.
async fn ask(reference: &Reference, before: &Answer, desk: &Desk, watched: &Watched) -> Answer {
    let (plural, namespace, name) = reference;
    let Some(collection) = collection(|known| known.plural == *plural) else { return Answer::Read(None) };
    let answer = match desk.read(&collection.path_of(namespace, name)).await {
        Ok(text) => {
            let version = version_of(&text);
            if *before != Answer::Read(version.clone()) {
                watched.put(&collection, &text);
            }
            Answer::Read(version)
        }
        Err(Refused { code: Some(404), .. }) => {
            forget(reference, watched);
            Answer::Read(None)
        }
        Err(refused) => Answer::Refused(refused.message),
    };
    if answer != *before {
        watched.wake();
    }
    answer
}

fn forget((plural, namespace, name): &Reference, watched: &Watched) {
    if let Some(collection) = collection(|known| known.plural == *plural) {
        watched.remove(&collection, namespace, name);
    }
}

fn version_of(text: &str) -> Option<String> {
    let Versioned { metadata } = serde_json::from_str(text).ok()?;
    Some(metadata.resource_version)
}

/// What a buffer refers to, if it is a workload that there can be.
fn reference(buffer: &CapacityBuffer) -> Option<Reference> {
    let workload = buffer.spec.scalable_ref.as_ref()?;
    let namespace = buffer.metadata.namespace.as_deref()?;
    let collection = collection(|known| known.kind() == workload.kind && SCALABLE.contains(&known.kind()))?;
    // It becomes part of a path.
    names::is_dns_subdomain(&workload.name)
        .then(|| (collection.plural, namespace.into(), workload.name.as_str().into()))
}

fn collection(is_it: impl Fn(&Collection) -> bool) -> Option<Collection> {
    berth_api::collections().find(is_it)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn buffer(spec: &serde_json::Value) -> CapacityBuffer {
        serde_json::from_value(json!({
            "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
            "metadata": { "name": "room", "namespace": "shop" }, "spec": spec,
        }))
        .unwrap()
    }

    #[test]
    fn workloads_are_referred_to() {
        let of = |kind: &str, name: &str| json!({ "scalableRef": { "kind": kind, "name": name } });
        for (spec, expected) in [
            (of("Deployment", "web"), Some("deployments")),
            (of("StatefulSet", "db.main"), Some("statefulsets")),
            (of("Job", "once"), Some("jobs")),
            (of("CronJob", "often"), None),
            (of("Pod", "web"), None),
            (of("Deployment", "../../secrets/web"), None),
            (of("Deployment", "..%2f"), None),
            (of("Deployment", ".."), None),
            (json!({ "podTemplateRef": { "name": "web" }, "replicas": 1 }), None),
        ] {
            let plural = reference(&buffer(&spec)).map(|(plural, ..)| plural);
            assert_eq!(plural, expected, "{spec}");
        }
    }

    #[test]
    fn what_is_referred_to_is_unknown_until_it_is_read() {
        let references = References::default();
        let web = buffer(&json!({ "scalableRef": { "kind": "Deployment", "name": "web" } }));
        references.want([&web].into_iter());
        let spots: Vec<String> = references.blind_spots().iter().map(ToString::to_string).collect();
        assert_eq!(spots, ["deployments: shop/web was not read yet"]);
        for (_, answer) in references.known().iter_mut() {
            *answer = Answer::Read(None);
        }
        references.want([&web].into_iter());
        assert_eq!(references.blind_spots(), []);
        references.want([].into_iter());
        assert!(references.known().is_empty());
    }
}
