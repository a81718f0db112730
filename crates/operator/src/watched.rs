//! What is seen of the cluster, kept as it changes; and how well it is seen.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_api::resources::berth::VPSieNodeClass;
use berth_api::resources::buffer::CapacityBuffer;
use berth_api::resources::karpenter::NodeOverlay;
use berth_api::resources::vpsie::{AutoscalerConfig, CONFIG_NAME, GlobalSettings};
use berth_api::vpsie::{self, DRAIN_START, DRAIN_STATUS, DRAIN_TIMEOUT};
use berth_api::{ClassKind, Collection, Manifests, Observed, Problem};
use berth_core::names::{self, Text};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::claim::Claim;
use crate::dialect::{Dialect, OVERLAYS_PLURAL, PoolId, PoolObject, VPSIE_CLASSES_PLURAL};
use crate::life::{CLAIM, CORDONED};
use crate::objects::{NodeObject, OwnerReference};
use crate::planted::PlantedBug;
use crate::vpsie::IDENTITY;

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
    generations: Generations,
    overlays: BTreeMap<Text, Arc<NodeOverlay>>,
    buffers: Buffers,
    templates: BTreeMap<(Text, Text), i64>,
    nodes: BTreeMap<Text, Arc<NodeObject>>,
    configs: BTreeMap<Text, Arc<AutoscalerConfig>>,
    illegible_groups: BTreeMap<PoolId, Arc<Illegible>>,
    illegible_configs: BTreeMap<Text, Arc<Illegible>>,
    illegible_claims: BTreeSet<ClaimKey>,
    hearing: BTreeMap<&'static str, Hearing>,
    /// Objects that somebody has given besides the cluster's, by the plural of their kind.
    given: BTreeMap<&'static str, BTreeSet<(Text, Text)>>,
}

/// Dialect, namespace and name: names are unique among the objects of one kind in one namespace only.
type ClaimKey = (Dialect, Text, Text);

/// CapacityBuffers, by namespace and name.
pub(crate) type Buffers = BTreeMap<(Text, Text), Arc<CapacityBuffer>>;

/// How often the specs of classes have changed.
pub(crate) type Generations = BTreeMap<(ClassKind, Text), i64>;

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
    /// By name as well. Of those that have the same name a NodePool counts before NodeGroups, and an older group before a
    /// newer one.
    pub(crate) pools: BTreeMap<Text, Arc<PoolObject>>,
    /// The others.
    pub(crate) displaced: Vec<Arc<PoolObject>>,
    /// NodeGroups of ours that cannot be read.
    pub(crate) illegible_groups: BTreeMap<PoolId, Arc<Illegible>>,
    /// AutoscalerConfigs that cannot.
    pub(crate) illegible_configs: BTreeMap<Text, Arc<Illegible>>,
    /// The names of claims that never could.
    pub(crate) illegible_claims: BTreeSet<Text>,
    /// VPSieNodeClasses.
    pub(crate) classes: BTreeMap<Text, Arc<VPSieNodeClass>>,
    /// Of all classes.
    pub(crate) generations: Generations,
    pub(crate) overlays: BTreeMap<Text, Arc<NodeOverlay>>,
    pub(crate) buffers: Buffers,
    /// Generations of PodTemplates, by namespace and name.
    pub(crate) templates: BTreeMap<(Text, Text), i64>,
    pub(crate) nodes: BTreeMap<Text, Arc<NodeObject>>,
    pub(crate) configs: BTreeMap<Text, Arc<AutoscalerConfig>>,
    pub(crate) blind_spots: Vec<BlindSpot>,
    /// When something was last heard of each kind.
    pub(crate) heard: BTreeMap<&'static str, Option<Instant>>,
    /// The number of changes that led to it.
    pub(crate) changes: u64,
}

/// An object that cannot be read, as far as it can be: who it is, and what it was told of itself.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Illegible {
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) status: serde_json::Value,
}

impl Illegible {
    fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    fn group_id(&self) -> PoolId {
        let text = |text: &Option<String>| Text::from(text.as_deref().unwrap_or_default());
        let (namespace, name) = (text(&self.metadata.namespace), text(&self.metadata.name));
        PoolId { dialect: Dialect::Vpsie, namespace, name }
    }
}

/// What holds for VPSie's groups together, if somebody has said it.
pub(crate) fn settings(configs: &BTreeMap<Text, Arc<AutoscalerConfig>>) -> Option<&GlobalSettings> {
    configs.get(CONFIG_NAME).map(|config| &config.spec.global_settings)
}

/// The pool of a claim among those that count. One that has only the name of its pool is another.
pub(crate) fn pool_of<'p>(
    pools: &'p BTreeMap<Text, Arc<PoolObject>>,
    claim: &Claim,
) -> Option<&'p PoolObject> {
    let pool = pools.get(claim.pool.as_ref()?)?;
    (claim.pool_id().as_ref() == Some(&pool.id())).then_some(&**pool)
}

impl View {
    pub(crate) fn settings(&self) -> Option<&GlobalSettings> {
        settings(&self.configs)
    }

    /// The pool of a claim, unless another has its name.
    pub(crate) fn pool_of(&self, claim: &Claim) -> Option<&PoolObject> {
        pool_of(&self.pools, claim)
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

impl BlindSpot {
    /// Objects that are left out because they cannot be read, and could forbid what is done.
    pub(crate) fn unreadable(problems: &[Problem]) -> Self {
        let what = problems.first().map(|problem| format!(": {problem}")).unwrap_or_default();
        Self { plural: "objects", why: format!("not all can be read{what}") }
    }
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
        let (pools, displaced) = state.pools_by_name();
        View {
            manifests: state.observed.manifests(),
            claims: by_name(state.our_claims().map(|((.., name), claim)| (name, claim))),
            pools,
            displaced,
            illegible_groups: state.illegible_groups.clone(),
            illegible_configs: state.illegible_configs.clone(),
            illegible_claims: state.illegible_claims.iter().map(|(.., name)| name.clone()).collect(),
            classes: state.classes.clone(),
            generations: state.generations.clone(),
            overlays: state.overlays.clone(),
            buffers: state.buffers.clone(),
            templates: state.templates.clone(),
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

    /// Takes an object that the cluster does not have, and that stays whatever the cluster tells.
    pub(crate) fn give(&self, collection: &Collection, id: (Text, Text), object: &str) {
        let mut state = self.state();
        state.put(collection, object);
        state.given.entry(collection.plural).or_default().insert(id);
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
        let given = state.given.get(collection.plural).into_iter().flatten();
        let ids: &BTreeSet<(Text, Text)> = &given.chain(ids).cloned().collect();
        state.observed.retain(collection, ids);
        let is_listed = |namespace: &Text, name: &Text| ids.contains(&(namespace.clone(), name.clone()));
        if let Some(kind) = class_of(collection) {
            state.generations.retain(|(of, name), _| *of != kind || is_listed(&Text::default(), name));
        }
        match Kept::of(collection) {
            Some(Kept::Claims(dialect)) => {
                let is_there =
                    |(of, namespace, name): &ClaimKey| *of != dialect || is_listed(namespace, name);
                state.claims.retain(|key, _| is_there(key));
                state.illegible_claims.retain(is_there);
            }
            Some(Kept::Pools(dialect)) => {
                state.pools.retain(|id, _| id.dialect != dialect || is_listed(&id.namespace, &id.name));
                let is_there = |id: &PoolId| id.dialect != dialect || is_listed(&id.namespace, &id.name);
                state.illegible_groups.retain(|id, _| is_there(id));
            }
            Some(Kept::Classes) => state.classes.retain(|name, _| is_listed(&Text::default(), name)),
            Some(Kept::Overlays) => state.overlays.retain(|name, _| is_listed(&Text::default(), name)),
            Some(Kept::Buffers) => state.buffers.retain(|(namespace, name), _| is_listed(namespace, name)),
            Some(Kept::Templates) => {
                state.templates.retain(|(namespace, name), _| is_listed(namespace, name));
            }
            Some(Kept::Nodes) => state.nodes.retain(|name, _| is_listed(&Text::default(), name)),
            Some(Kept::Configs) => {
                state.configs.retain(|name, _| is_listed(&Text::default(), name));
                state.illegible_configs.retain(|name, _| is_listed(&Text::default(), name));
            }
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

    /// Those that count, and those whose names are taken.
    fn pools_by_name(&self) -> (BTreeMap<Text, Arc<PoolObject>>, Vec<Arc<PoolObject>>) {
        let mut ours: Vec<_> = self.our_pools().collect();
        ours.sort_by_key(|(id, pool)| (id.dialect, pool.created(), &id.namespace));
        let (mut pools, mut displaced) = (BTreeMap::new(), Vec::new());
        for (id, pool) in ours {
            match pools.entry(id.name.clone()) {
                Entry::Vacant(free) => drop(free.insert(Arc::clone(pool))),
                Entry::Occupied(_) => displaced.push(Arc::clone(pool)),
            }
        }
        (pools, displaced)
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
        if let Some(kind) = class_of(collection)
            && let Ok(Named { metadata }) = serde_json::from_str::<Named>(text)
        {
            self.generations.insert((kind, metadata.name), metadata.generation);
        }
        let kept = Kept::of(collection);
        if !matches!(kept, Some(Kept::Claims(_))) || !is_overlooked {
            self.observed.put(collection, text);
        }
        // Why something cannot be read is said by who reads it for planning. Claims and nodes stay as they were last
        // read, for what is not there may be ended; all else is not acted upon.
        match kept {
            Some(Kept::Claims(dialect)) => {
                if let Some(claim) = dialect.claim(text).map(Claim::lightened) {
                    let key = (dialect, claim.namespace.clone(), claim.name.clone());
                    self.illegible_claims.remove(&key);
                    self.claims.insert(key, Arc::new(claim));
                } else if let Ok(Named { metadata }) = serde_json::from_str::<Named>(text) {
                    let key = (dialect, metadata.namespace, metadata.name);
                    let never_was = !self.claims.contains_key(&key);
                    self.illegible_claims.extend(Some(key).filter(|_| never_was));
                }
            }
            Some(Kept::Pools(dialect)) => match dialect.pool(text) {
                Some(pool) => {
                    let id = pool.id();
                    self.illegible_groups.remove(&id);
                    self.pools.insert(id, Arc::new(pool));
                }
                None if dialect == Dialect::Vpsie => {
                    let group = Illegible::read(text).filter(|group| vpsie::is_managed(&group.metadata));
                    self.illegible_groups.extend(group.map(|group| (group.group_id(), Arc::new(group))));
                }
                None => {}
            },
            Some(Kept::Classes) => {
                let class: Option<VPSieNodeClass> = serde_json::from_str(text).ok();
                let named = |class: &VPSieNodeClass| class.metadata.name.as_deref().map(Text::from);
                self.classes.extend(class.and_then(|class| Some((named(&class)?, Arc::new(class)))));
            }
            Some(Kept::Overlays) => {
                let overlay: Option<NodeOverlay> = serde_json::from_str(text).ok();
                let named = |overlay: &NodeOverlay| overlay.metadata.name.as_deref().map(Text::from);
                self.overlays.extend(overlay.and_then(|overlay| Some((named(&overlay)?, Arc::new(overlay)))));
            }
            Some(Kept::Buffers) => {
                let buffer: Option<CapacityBuffer> = serde_json::from_str(text).ok();
                let id = |CapacityBuffer { metadata, .. }: &CapacityBuffer| {
                    let namespace = metadata.namespace.as_deref().unwrap_or_default();
                    Some((namespace.into(), metadata.name.as_deref()?.into()))
                };
                self.buffers.extend(buffer.and_then(|buffer| Some((id(&buffer)?, Arc::new(buffer)))));
            }
            Some(Kept::Templates) => {
                let named = serde_json::from_str::<Named>(text).ok().map(|named| named.metadata);
                let named = named.map(|of| ((of.namespace, of.name), of.generation));
                self.templates.extend(named);
            }
            Some(Kept::Nodes) => {
                let node = serde_json::from_str(text).ok().map(lightened);
                self.nodes.extend(node.map(|node| (node.metadata.name.as_str().into(), Arc::new(node))));
            }
            Some(Kept::Configs) => {
                let name = |metadata: &ObjectMeta| Text::from(metadata.name.clone().unwrap_or_default());
                if let Ok(config) = serde_json::from_str::<AutoscalerConfig>(text) {
                    let name = name(&config.metadata);
                    self.illegible_configs.remove(&name);
                    self.configs.insert(name, Arc::new(config));
                } else {
                    let config = Illegible::read(text);
                    let named = config.map(|config| (name(&config.metadata), Arc::new(config)));
                    self.illegible_configs.extend(named);
                }
            }
            None => {}
        }
    }

    fn remove(&mut self, collection: &Collection, namespace: &str, name: &str) {
        self.observed.remove(collection, namespace, name);
        if let Some(kind) = class_of(collection) {
            self.generations.remove(&(kind, Text::from(name)));
        }
        match Kept::of(collection) {
            Some(Kept::Claims(_)) if PlantedBug::GhostEntry.is_planted() => {}
            Some(Kept::Claims(dialect)) => {
                let key = (dialect, Text::from(namespace), Text::from(name));
                self.claims.remove(&key);
                self.illegible_claims.remove(&key);
            }
            Some(Kept::Pools(dialect)) => {
                let id = PoolId { dialect, namespace: namespace.into(), name: name.into() };
                self.pools.remove(&id);
                self.illegible_groups.remove(&id);
            }
            Some(Kept::Classes) => drop(self.classes.remove(name)),
            Some(Kept::Overlays) => drop(self.overlays.remove(name)),
            Some(Kept::Buffers) => drop(self.buffers.remove(&(namespace.into(), name.into()))),
            Some(Kept::Templates) => drop(self.templates.remove(&(namespace.into(), name.into()))),
            Some(Kept::Nodes) => drop(self.nodes.remove(name)),
            Some(Kept::Configs) => {
                self.configs.remove(name);
                self.illegible_configs.remove(name);
            }
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
    Overlays,
    Buffers,
    /// PodTemplates.
    Templates,
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
            OVERLAYS_PLURAL => Some(Self::Overlays),
            "capacitybuffers" => Some(Self::Buffers),
            "podtemplates" => Some(Self::Templates),
            "nodes" => Some(Self::Nodes),
            "autoscalerconfigs" => Some(Self::Configs),
            _ => None,
        };
        Dialect::ALL.into_iter().find_map(of_dialect).or_else(other)
    }
}

/// Of an object, only how often its spec has changed.
#[derive(Deserialize)]
struct Named {
    metadata: NamedMetadata,
}

#[derive(Deserialize)]
struct NamedMetadata {
    name: Text,
    #[serde(default)]
    namespace: Text,
    #[serde(default)]
    generation: i64,
}

/// Whose classes these objects are.
fn class_of(collection: &Collection) -> Option<ClassKind> {
    match collection.plural {
        "kwoknodeclasses" => Some(ClassKind::Kwok),
        "ec2nodeclasses" => Some(ClassKind::Ec2),
        VPSIE_CLASSES_PLURAL => Some(ClassKind::Vpsie),
        _ => None,
    }
}

fn by_name<'o, T: 'o>(objects: impl Iterator<Item = (&'o Text, &'o Arc<T>)>) -> BTreeMap<Text, Arc<T>> {
    let mut all = BTreeMap::new();
    for (name, object) in objects {
        all.entry(name.clone()).or_insert_with(|| Arc::clone(object));
    }
    all
}

/// What is asked of a node's annotations: all about being emptied, and who it is.
const LASTING_ANNOTATIONS: [&str; 5] = [DRAIN_START, DRAIN_STATUS, DRAIN_TIMEOUT, CORDONED, CLAIM];

/// What plans need of a node is kept elsewhere; what its claim wants to know of it before it is up, nobody asks after.
fn lightened(mut node: NodeObject) -> NodeObject {
    let is_up = node.is_initialized();
    let NodeObject { metadata, status, .. } = &mut node;
    let is_identity = |key: &str| IDENTITY.contains(&key);
    metadata.labels.retain(|label, _| {
        is_identity(label)
            || [names::DO_NOT_SYNC_TAINTS, names::INITIALIZED, names::REGISTERED].contains(&&**label)
    });
    if is_up {
        (status.capacity, status.allocatable) = (BTreeMap::new(), BTreeMap::new());
        status.addresses = Vec::new();
    }
    metadata.owner_references.retain(OwnerReference::is_claim);
    metadata.owner_references.shrink_to_fit();
    metadata.annotations.retain(|key, _| is_identity(key) || LASTING_ANNOTATIONS.contains(&&**key));
    status.conditions.retain(|condition| condition.kind == "Ready");
    status.conditions.shrink_to_fit();
    node
}
