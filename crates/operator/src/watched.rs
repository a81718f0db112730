//! What is seen of the cluster, kept as it changes; and how well it is seen.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_api::resources::berth::VPSieNodeClass;
use berth_api::resources::vpsie::{AutoscalerConfig, CONFIG_NAME, GlobalSettings};
use berth_api::vpsie::{DRAIN_START, DRAIN_STATUS, DRAIN_TIMEOUT};
use berth_api::{ClassKind, Collection, Manifests, Observed};
use berth_core::names::{self, Text};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::claim::Claim;
use crate::dialect::{Dialect, PoolId, PoolObject, VPSIE_CLASSES_PLURAL};
use crate::life::CORDONED;
use crate::objects::{NodeObject, OwnerReference};
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
    claims: BTreeMap<ClaimKey, Arc<Claim>>,
    pools: BTreeMap<PoolId, Arc<PoolObject>>,
    classes: BTreeMap<Text, Arc<VPSieNodeClass>>,
    nodes: BTreeMap<Text, Arc<NodeObject>>,
    configs: BTreeMap<Text, Arc<AutoscalerConfig>>,
    hearing: BTreeMap<&'static str, Hearing>,
}

/// Dialect, namespace and name: names are unique among the objects of one kind in one namespace only.
type ClaimKey = (Dialect, Text, Text);

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
    /// By name. Of those that have the same name the first counts.
    pub(crate) claims: BTreeMap<Text, Arc<Claim>>,
    /// By name as well.
    pub(crate) pools: BTreeMap<Text, Arc<PoolObject>>,
    /// VPSieNodeClasses.
    pub(crate) classes: BTreeMap<Text, Arc<VPSieNodeClass>>,
    pub(crate) nodes: BTreeMap<Text, Arc<NodeObject>>,
    pub(crate) configs: BTreeMap<Text, Arc<AutoscalerConfig>>,
    pub(crate) blind_spots: Vec<BlindSpot>,
    /// When something was last heard of each kind.
    pub(crate) heard: BTreeMap<&'static str, Option<Instant>>,
    /// The number of changes that led to it.
    pub(crate) changes: u64,
}

/// What holds for VPSie's groups together, if somebody has said it.
pub(crate) fn settings(configs: &BTreeMap<Text, Arc<AutoscalerConfig>>) -> Option<&GlobalSettings> {
    configs.get(CONFIG_NAME).map(|config| &config.spec.global_settings)
}

impl View {
    pub(crate) fn settings(&self) -> Option<&GlobalSettings> {
        settings(&self.configs)
    }

    /// The clouds that pools buy from, and that claims have machines of.
    pub(crate) fn clouds(&self) -> BTreeSet<ClassKind> {
        let of_pools = self.pools.values().filter_map(|pool| pool.class());
        of_pools.chain(self.claims.values().filter_map(|claim| claim.class)).collect()
    }
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
            claims: by_name(state.our_claims().map(|((.., name), claim)| (name, claim))),
            pools: by_name(state.our_pools().map(|(id, pool)| (&id.name, pool))),
            classes: state.classes.clone(),
            nodes: state.nodes.clone(),
            configs: state.configs.clone(),
            blind_spots: state.hearing.iter().filter_map(|(plural, hearing)| hearing.blind(plural)).collect(),
            heard: state.hearing.iter().map(|(plural, hearing)| (*plural, hearing.heard)).collect(),
            changes,
        }
    }

    /// Whether there are pools of a dialect.
    pub(crate) fn has_pools(&self, dialect: Dialect) -> bool {
        self.state().our_pools().any(|(id, _)| id.dialect == dialect)
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
    pub(crate) fn listed(&self, collection: &Collection, ids: &BTreeSet<(Text, Text)>) {
        let mut state = self.state();
        state.observed.retain(collection, ids);
        let is_listed = |namespace: &Text, name: &Text| ids.contains(&(namespace.clone(), name.clone()));
        match Kept::of(collection) {
            Some(Kept::Claims(dialect)) => {
                state.claims.retain(|(of, namespace, name), _| *of != dialect || is_listed(namespace, name));
            }
            Some(Kept::Pools(dialect)) => {
                state.pools.retain(|id, _| id.dialect != dialect || is_listed(&id.namespace, &id.name));
            }
            Some(Kept::Classes) => state.classes.retain(|name, _| is_listed(&Text::default(), name)),
            Some(Kept::Nodes) => state.nodes.retain(|name, _| is_listed(&Text::default(), name)),
            Some(Kept::Configs) => state.configs.retain(|name, _| is_listed(&Text::default(), name)),
            None => {}
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
    fn our_pools(&self) -> impl Iterator<Item = (&PoolId, &Arc<PoolObject>)> {
        self.pools.iter().filter(|(_, pool)| pool.is_ours())
    }

    /// Those of our pools, and those of pools that are gone if they say themselves that they are ours.
    fn our_claims(&self) -> impl Iterator<Item = (&ClaimKey, &Arc<Claim>)> {
        let is_ours = |claim: &Claim| match claim.pool_id().and_then(|id| self.pools.get(&id)) {
            Some(pool) => pool.is_ours(),
            None => claim.is_ours(),
        };
        self.claims.iter().filter(move |(_, claim)| is_ours(claim))
    }

    fn put(&mut self, collection: &Collection, text: &str) {
        let is_overlooked = (PlantedBug::InFlightIgnored.is_planted() && !text.contains("\"Initialized\""))
            || (PlantedBug::TwoCounts.is_planted() && !text.contains("\"providerID\""))
            || (PlantedBug::CountNodes.is_planted() && !text.contains("\"nodeName\""));
        let kept = Kept::of(collection);
        if !matches!(kept, Some(Kept::Claims(_))) || !is_overlooked {
            self.observed.put(collection, text);
        }
        // Why something cannot be read is said by who reads it for planning. Claims and nodes stay as they were last
        // read, for what is not there may be ended; all else is not acted upon.
        match kept {
            Some(Kept::Claims(dialect)) => {
                let key = |claim: &Claim| (dialect, claim.namespace.clone(), claim.name.clone());
                let claim = dialect.claim(text).map(Claim::lightened);
                self.claims.extend(claim.map(|claim| (key(&claim), Arc::new(claim))));
            }
            Some(Kept::Pools(dialect)) => {
                self.pools.extend(dialect.pool(text).map(|pool| (pool.id(), Arc::new(pool))));
            }
            Some(Kept::Classes) => {
                let class: Option<VPSieNodeClass> = serde_json::from_str(text).ok();
                let named = |class: &VPSieNodeClass| class.metadata.name.as_deref().map(Text::from);
                self.classes.extend(class.and_then(|class| Some((named(&class)?, Arc::new(class)))));
            }
            Some(Kept::Nodes) => {
                let node = serde_json::from_str(text).ok().map(lightened);
                self.nodes.extend(node.map(|node| (node.metadata.name.as_str().into(), Arc::new(node))));
            }
            Some(Kept::Configs) => {
                let config: Option<AutoscalerConfig> = serde_json::from_str(text).ok();
                let name = |config: &AutoscalerConfig| config.metadata.name.clone().unwrap_or_default();
                self.configs.extend(config.map(|config| (name(&config).into(), Arc::new(config))));
            }
            None => {}
        }
    }

    fn remove(&mut self, collection: &Collection, namespace: &str, name: &str) {
        self.observed.remove(collection, namespace, name);
        match Kept::of(collection) {
            Some(Kept::Claims(_)) if PlantedBug::GhostEntry.is_planted() => {}
            Some(Kept::Claims(dialect)) => {
                self.claims.remove(&(dialect, Text::from(namespace), Text::from(name)));
            }
            Some(Kept::Pools(dialect)) => {
                let (namespace, name) = (namespace.into(), name.into());
                self.pools.remove(&PoolId { dialect, namespace, name });
            }
            Some(Kept::Classes) => drop(self.classes.remove(name)),
            Some(Kept::Nodes) => drop(self.nodes.remove(name)),
            Some(Kept::Configs) => drop(self.configs.remove(name)),
            None => {}
        }
    }
}

/// Objects that are kept to be acted upon, besides what plans need of them.
enum Kept {
    Claims(Dialect),
    Pools(Dialect),
    /// VPSieNodeClasses.
    Classes,
    Nodes,
    Configs,
}

impl Kept {
    fn of(collection: &Collection) -> Option<Self> {
        let of_dialect = |dialect: Dialect| match collection.plural {
            plural if plural == dialect.claims_plural() => Some(Self::Claims(dialect)),
            plural if plural == dialect.pools_plural() => Some(Self::Pools(dialect)),
            _ => None,
        };
        let other = || match collection.plural {
            VPSIE_CLASSES_PLURAL => Some(Self::Classes),
            "nodes" => Some(Self::Nodes),
            "autoscalerconfigs" => Some(Self::Configs),
            _ => None,
        };
        Dialect::ALL.into_iter().find_map(of_dialect).or_else(other)
    }
}

fn by_name<'o, T: 'o>(objects: impl Iterator<Item = (&'o Text, &'o Arc<T>)>) -> BTreeMap<Text, Arc<T>> {
    let mut all = BTreeMap::new();
    for (name, object) in objects {
        all.entry(name.clone()).or_insert_with(|| Arc::clone(object));
    }
    all
}

/// What is asked of a node's annotations: all about being emptied.
const LASTING_ANNOTATIONS: [&str; 4] = [DRAIN_START, DRAIN_STATUS, DRAIN_TIMEOUT, CORDONED];

/// What plans need of a node is kept elsewhere; what its claim wants to know of it before it is up, nobody asks after.
fn lightened(mut node: NodeObject) -> NodeObject {
    let is_up = node.is_initialized();
    let NodeObject { metadata, status, .. } = &mut node;
    metadata.labels.retain(|label, _| [names::DO_NOT_SYNC_TAINTS, names::INITIALIZED].contains(&&**label));
    if is_up {
        (status.capacity, status.allocatable) = (BTreeMap::new(), BTreeMap::new());
        status.addresses = Vec::new();
    }
    metadata.owner_references.retain(OwnerReference::is_claim);
    metadata.owner_references.shrink_to_fit();
    metadata.annotations.retain(|key, _| LASTING_ANNOTATIONS.contains(&&**key));
    status.conditions.retain(|condition| condition.kind == "Ready");
    status.conditions.shrink_to_fit();
    node
}
