//! What is seen of the cluster, kept as it changes; and how well it is seen.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_api::resources::karpenter::{NodeClaim, NodePool};
use berth_api::{Collection, Manifests, Observed};
use berth_core::names::{self, Text};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::objects::NodeObject;
use crate::planted::PlantedBug;

/// What nothing was heard of for so long may have changed since.
pub(crate) const SILENCE_MAX: Duration = Duration::from_mins(1);

/// What all watches tell. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watched {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changes: watch::Sender<u64>,
}

impl Default for Shared {
    fn default() -> Self {
        Self { state: Mutex::default(), changes: watch::Sender::new(0) }
    }
}

#[derive(Debug, Default)]
struct State {
    observed: Observed,
    claims: BTreeMap<Text, Arc<NodeClaim>>,
    pools: BTreeMap<Text, Arc<NodePool>>,
    nodes: BTreeMap<Text, Arc<NodeObject>>,
    hearing: BTreeMap<&'static str, Hearing>,
}

/// How well the objects of one kind are seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Hearing {
    /// When something was last heard: a list, an event, a sign of life.
    heard: Option<Instant>,
    /// A whole list was read, and nothing is known to be missing since.
    is_complete: bool,
    /// What keeps it from being heard.
    trouble: Option<String>,
}

/// The cluster at one instant.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) manifests: Manifests,
    pub(crate) claims: BTreeMap<Text, Arc<NodeClaim>>,
    pub(crate) pools: BTreeMap<Text, Arc<NodePool>>,
    pub(crate) nodes: BTreeMap<Text, Arc<NodeObject>>,
    pub(crate) blind_spots: Vec<BlindSpot>,
    /// When something was last heard of each kind.
    pub(crate) heard: BTreeMap<&'static str, Option<Instant>>,
    /// The number of changes that led to it.
    pub(crate) changes: u64,
}

/// Objects that are not all seen, or not lately.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlindSpot {
    pub plural: &'static str,
    pub why: String,
}

impl fmt::Display for BlindSpot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.plural, self.why)
    }
}

impl Watched {
    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) {
        self.shared.changes.send_modify(|changes| *changes += 1);
    }

    /// Something is news that is not an object of the cluster.
    pub(crate) fn wake(&self) {
        self.changed();
    }

    /// Wakes whoever waits for a change.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changes.subscribe()
    }

    /// All of it, as of now.
    pub(crate) fn view(&self) -> View {
        let changes = *self.shared.changes.borrow();
        let state = self.state();
        View {
            manifests: state.observed.manifests(),
            claims: state.claims.clone(),
            pools: state.pools.clone(),
            nodes: state.nodes.clone(),
            blind_spots: state.hearing.iter().filter_map(|(plural, hearing)| hearing.blind(plural)).collect(),
            heard: state.hearing.iter().map(|(plural, hearing)| (*plural, hearing.heard)).collect(),
            changes,
        }
    }

    /// How many pods are seen.
    pub(crate) fn pods_seen(&self, pods: &Collection) -> usize {
        self.state().observed.count(pods)
    }

    /// A kind is going to be watched: until it is, it is not seen.
    pub(crate) fn expect(&self, collection: &Collection) {
        self.state().hearing.insert(collection.plural, Hearing::default());
    }

    pub(crate) fn put(&self, collection: &Collection, object: &str) {
        self.state().put(collection, object);
        self.changed();
    }

    pub(crate) fn remove(&self, collection: &Collection, namespace: &str, name: &str) {
        self.state().remove(collection, namespace, name);
        self.changed();
    }

    /// All objects of a kind have been put; what is not among these is gone.
    pub(crate) fn listed(&self, collection: &Collection, ids: &std::collections::BTreeSet<(Text, Text)>) {
        let mut state = self.state();
        state.observed.retain(collection, ids);
        let is_listed = |name: &Text| ids.contains(&(Text::default(), name.clone()));
        match collection.plural {
            "nodeclaims" => state.claims.retain(|name, _| is_listed(name)),
            "nodepools" => state.pools.retain(|name, _| is_listed(name)),
            "nodes" => state.nodes.retain(|name, _| is_listed(name)),
            _ => {}
        }
        let now = Instant::now();
        let hearing = Hearing { heard: Some(now), is_complete: true, trouble: None };
        state.hearing.insert(collection.plural, hearing);
        drop(state);
        self.changed();
    }

    /// A sign of life: what is known is still so.
    pub(crate) fn heard(&self, collection: &Collection) {
        let mut state = self.state();
        let hearing = state.hearing.entry(collection.plural).or_default();
        hearing.heard = Some(Instant::now());
        hearing.trouble = None;
    }

    /// Something may have been missed.
    pub(crate) fn missed(&self, collection: &Collection, why: String) {
        let mut state = self.state();
        let hearing = state.hearing.entry(collection.plural).or_default();
        hearing.is_complete = false;
        hearing.trouble = Some(why);
    }

    /// It cannot be heard just now; what is known may yet be so.
    pub(crate) fn troubled(&self, collection: &Collection, why: String) {
        self.state().hearing.entry(collection.plural).or_default().trouble = Some(why);
    }
}

impl Hearing {
    fn blind(&self, plural: &'static str) -> Option<BlindSpot> {
        let silence = self.heard.map(|heard| heard.elapsed());
        let trouble = self.trouble.clone().map(|why| format!(": {why}")).unwrap_or_default();
        let why = match silence {
            _ if !self.is_complete => format!("not all are known{trouble}"),
            Some(silence) if silence <= SILENCE_MAX => return None,
            Some(silence) => format!("nothing was heard for {} s{trouble}", silence.as_secs()),
            None => format!("nothing was heard yet{trouble}"),
        };
        Some(BlindSpot { plural, why })
    }
}

impl State {
    fn put(&mut self, collection: &Collection, text: &str) {
        let is_overlooked = (PlantedBug::InFlightIgnored.is_planted() && !text.contains("\"Initialized\""))
            || (PlantedBug::TwoCounts.is_planted() && !text.contains("\"providerID\""))
            || (PlantedBug::CountNodes.is_planted() && !text.contains("\"nodeName\""));
        if collection.plural != "nodeclaims" || !is_overlooked {
            self.observed.put(collection, text);
        }
        match collection.plural {
            "nodeclaims" => insert(&mut self.claims, text, lighten_claim),
            "nodepools" => insert(&mut self.pools, text, |pool: &mut NodePool| lighten(&mut pool.metadata)),
            "nodes" => insert(&mut self.nodes, text, lighten_node),
            _ => {}
        }
    }

    fn remove(&mut self, collection: &Collection, namespace: &str, name: &str) {
        self.observed.remove(collection, namespace, name);
        match collection.plural {
            "nodeclaims" if PlantedBug::GhostEntry.is_planted() => {}
            "nodeclaims" => drop(self.claims.remove(name)),
            "nodepools" => drop(self.pools.remove(name)),
            "nodes" => drop(self.nodes.remove(name)),
            _ => {}
        }
    }
}

/// What cannot be read is not acted upon; why is said by who reads it for planning.
fn insert<T: serde::de::DeserializeOwned>(
    all: &mut BTreeMap<Text, Arc<T>>,
    text: &str,
    lighten: impl Fn(&mut T) -> String,
) {
    if let Ok(mut object) = serde_json::from_str::<T>(text) {
        let name = lighten(&mut object);
        all.insert(name.into(), Arc::new(object));
    }
}

/// The object's name. Who has written which field is most of an object, and nobody's concern here.
fn lighten(metadata: &mut ObjectMeta) -> String {
    metadata.managed_fields = None;
    metadata.name.clone().unwrap_or_default()
}

/// What a claim asked for is settled once it is made; its node says what there is for pods.
fn lighten_claim(claim: &mut NodeClaim) -> String {
    claim.spec.requirements = Vec::new();
    if let Some(status) = &mut claim.status {
        status.allocatable.clear();
        status.conditions.shrink_to_fit();
    }
    lighten(&mut claim.metadata)
}

/// What plans need of a node is kept elsewhere.
fn lighten_node(node: &mut NodeObject) -> String {
    let NodeObject { metadata, status, .. } = node;
    metadata.labels.retain(|label, _| label == names::DO_NOT_SYNC_TAINTS);
    metadata.annotations.clear();
    status.conditions.retain(|condition| condition.kind == "Ready");
    status.conditions.shrink_to_fit();
    metadata.name.clone()
}
