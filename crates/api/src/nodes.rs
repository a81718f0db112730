//! Nodes: those of the cluster, and those that claims will become.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use berth_core::catalog::{CapacityType, InstanceType, Offering};
use berth_core::disruption::{NodeDisruption, Protection};
use berth_core::names::{self, Labels, Text};
use berth_core::node::{Node, NodeState};
use berth_core::pod::{Taint, TaintEffect};
use berth_core::pool::Pool;
use berth_core::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources};
use berth_core::units::Price;
use jiff::Timestamp;
use rustc_hash::FxBuildHasher;

use crate::adoption;
use crate::assemble::Strangers;
use crate::builtin::node as wire;
use crate::convert::Converter;
use crate::disruption::{self, NodeLife, Second};
use crate::manifests::{Kept, Manifests};
use crate::pods::PodObject;
use crate::pools::karpenter::ClaimObject;
use crate::problem::At;
use crate::vpsie;

pub(crate) const GARDENER_POOL: &str = "sa.gardener.cloud/node-pool-name";
const GARDENER_WORKER_POOL: &str = "worker.gardener.cloud/pool";

/// A Node as it was read.
#[derive(Clone, Debug)]
pub(crate) struct NodeObject {
    pub(crate) name: Text,
    pub(crate) labels: Labels,
    pub(crate) taints: Vec<Taint>,
    pub(crate) capacity: Resources,
    pub(crate) allocatable: Resources,
    pub(crate) deleting: bool,
    pub(crate) provider_id: Option<Text>,
    pub(crate) life: NodeLife,
}

pub(crate) fn read_node(node: &wire::Node<'_>, name: Text, to: &mut Converter<'_>) -> NodeObject {
    let (spec, status) = (At::ROOT.key("spec"), At::ROOT.key("status"));
    let list = spec.key("taints");
    let taints = node.spec.taints.iter().enumerate();
    let mut taints: Vec<Taint> = taints.filter_map(|(i, taint)| to.taint(taint, &list.index(i))).collect();
    let unschedulable = Taint::new(names::TAINT_UNSCHEDULABLE, "", TaintEffect::NoSchedule);
    if node.spec.unschedulable && !taints.contains(&unschedulable) {
        taints.push(unschedulable);
    }
    let capacity = to.resources(&node.status.capacity, &status.key("capacity"));
    let allocatable = match &node.status.allocatable {
        Some(amounts) => to.resources(amounts, &status.key("allocatable")),
        None => capacity.clone(),
    };
    let mut labels = to.node_labels(&node.metadata.labels);
    labels.entry(to.text(names::HOSTNAME)).or_insert_with(|| name.clone());
    NodeObject {
        name,
        labels,
        taints,
        capacity,
        allocatable,
        deleting: node.metadata.deletion_timestamp.is_some(),
        provider_id: node.spec.provider_id.as_ref().filter(|id| !id.is_empty()).map(|id| to.text(id)),
        life: disruption::read_node_life(node, to),
    }
}

/// The pool that a node's labels name, in whichever dialect.
pub(crate) fn pool_of(labels: &Labels) -> Option<Text> {
    [names::NODEPOOL, vpsie::NODEGROUP, GARDENER_POOL, GARDENER_WORKER_POOL]
        .into_iter()
        .find_map(|key| labels.get(key).cloned())
}

/// The NodeGroup that a node's labels name, if it is of one.
fn group_of(labels: &Labels) -> Option<&Text> {
    labels.get(vpsie::NODEGROUP).filter(|_| !labels.contains_key(names::NODEPOOL))
}

impl NodeObject {
    pub(crate) fn is_going_away(&self) -> bool {
        self.deleting || self.taints.iter().any(|taint| &*taint.key == names::TAINT_DISRUPTED)
    }

    /// Karpenter's nodes say when they are up, of VPSie's their objects do; of others we can only assume it.
    fn is_coming_up(&self, claim: Option<&ClaimObject>) -> bool {
        let is_initialized = || self.labels.get(names::INITIALIZED).is_some_and(|value| &**value == "true");
        if self.labels.contains_key(names::NODEPOOL) {
            !is_initialized()
        } else {
            claim.is_some_and(|claim| !claim.is_up) && !is_initialized()
        }
    }
}

/// All nodes: those of the cluster, and the claims that have not become one yet. Nodes of strangers are of no pool, and
/// nobody waits for those that are on their way.
pub(crate) fn assemble(
    manifests: &Manifests,
    (all_pools, strangers): (&[Pool], &Strangers),
    now: Timestamp,
) -> Vec<Node> {
    let newest_pods = newest_pods(&manifests.pods);
    let pools: BTreeMap<&Text, &Pool> = all_pools.iter().map(|pool| (&pool.name, pool)).collect();
    let claims = Claims::of(manifests);
    let is_strange = |claim: &Kept<Arc<ClaimObject>>| {
        group_of(&claim.object.labels).is_some_and(|group| strangers.has(&claim.namespace, group))
    };
    // In files claims may be missing. In a cluster nobody bought what has none, whatever it says of itself.
    let are_claims_known = manifests.is_whole && manifests.problems.is_empty();
    let mut joined = BTreeSet::new();
    let mut names = BTreeSet::new();
    let mut nodes = Vec::with_capacity(manifests.nodes.len());
    for kept in &manifests.nodes {
        let volume_limits = manifests.volume_limits.get(&kept.object.name).cloned().unwrap_or_default();
        let claim = claims.of_node(&kept.object);
        joined.extend(claim.map(|claim| (&claim.namespace, &claim.name)));
        let newest_pod = newest_pods.get(&kept.object.name).map(|started| started.timestamp());
        let life = claim.map(|claim| &claim.object.life);
        let mut disruption = disruption::judged_node(Some(&kept.object.life), life, newest_pod, now);
        disruption.unidentified = claim.is_some_and(|claim| claim.object.is_unidentified);
        let mut node = of_object(&kept.object, claim.map(|claim| &*claim.object), volume_limits, &pools);
        names.insert(&kept.object.name);
        if claim.is_none() && are_claims_known {
            node.pool = None;
        }
        let is_strange = match claim {
            Some(claim) => is_strange(claim),
            None => group_of(&node.labels).is_some_and(|group| strangers.may_have(group)),
        };
        match node.state {
            NodeState::Starting if is_strange => {}
            _ => nodes.push(Node { disruption, pool: node.pool.filter(|_| !is_strange), ..node }),
        }
    }
    for node in nodes.iter_mut().filter(|node| manifests.shrouded_nodes.contains(&node.name)) {
        node.disruption.protection = Protection::Always;
    }
    if manifests.adopts {
        adoption::adopt(&mut nodes, all_pools);
    }
    for kept in &manifests.claims {
        let claim = &kept.object;
        let is_strange = is_strange(kept);
        let has_joined = joined.contains(&(&kept.namespace, &kept.name));
        let is_awaited = !is_strange || claim.deleting;
        if !has_joined && is_awaited && names.insert(&kept.name) {
            let disruption = disruption::judged_node(None, Some(&claim.life), None, now);
            let node = of_claim(claim, &pools);
            nodes.push(Node { disruption, pool: node.pool.filter(|_| !is_strange), ..node });
        }
    }
    nodes
}

/// Claims by the nodes that they became: those that they name, or else those that run on their machines.
struct Claims<'m> {
    by_node: BTreeMap<&'m Text, &'m Kept<Arc<ClaimObject>>>,
    by_machine: BTreeMap<Cow<'m, str>, &'m Kept<Arc<ClaimObject>>>,
}

impl<'m> Claims<'m> {
    fn of(manifests: &'m Manifests) -> Self {
        let claims = || manifests.claims.iter();
        Self {
            by_node: claims().filter_map(|claim| Some((claim.object.node.as_ref()?, claim))).collect(),
            by_machine: claims()
                .filter_map(|claim| Some((vpsie::machine_key(claim.object.provider_id.as_ref()?), claim)))
                .collect(),
        }
    }

    fn of_node(&self, node: &NodeObject) -> Option<&'m Kept<Arc<ClaimObject>>> {
        let by_machine = || self.by_machine.get(&*vpsie::machine_key(node.provider_id.as_ref()?));
        self.by_node.get(&node.name).or_else(by_machine).copied()
    }
}

/// When the last of each node's pods started, those aside that live with their node.
fn newest_pods(pods: &[Arc<PodObject>]) -> HashMap<&Text, Second, FxBuildHasher> {
    let mut newest = HashMap::default();
    let is_daemon = |pod: &PodObject| pod.owner.as_ref().is_some_and(|owner| &*owner.kind == "DaemonSet");
    for pod in pods.iter().filter(|pod| !pod.mirror && !is_daemon(pod)) {
        if let (Some(node), Some(started)) = (&pod.node, pod.life.started) {
            let known = newest.entry(node).or_insert(started);
            *known = started.max(*known);
        }
    }
    newest
}

fn of_object(
    node: &NodeObject,
    claim: Option<&ClaimObject>,
    volume_limits: BTreeMap<Text, u32>,
    pools: &BTreeMap<&Text, &Pool>,
) -> Node {
    let state = if node.is_going_away() || claim.is_some_and(|claim| claim.deleting) {
        NodeState::Deleting
    } else if node.is_coming_up(claim) {
        NodeState::Starting
    } else {
        NodeState::Running
    };
    let promise = claim.filter(|_| state == NodeState::Starting);
    let promising = promise.and_then(|claim| pools.get(&pool_of(&claim.labels)?).copied());
    let mut labels = node.labels.clone();
    for (key, value) in promise.map(|claim| promised_labels(claim, promising)).unwrap_or_default() {
        labels.entry(key).or_insert(value);
    }
    let bought_as = bought_as(&labels, claim);
    let pool = pool_of(&bought_as);
    let types = pool.as_ref().and_then(|pool| pools.get(pool)).map_or(&[][..], |pool| &pool.types);
    let price = price_of(&bought_as, types);
    let passing = |taint: &&Taint| {
        let startup = promise.map_or(&[][..], |claim| &claim.startup_taints);
        startup.iter().any(|s| s.key == taint.key && s.effect == taint.effect)
    };
    let promised = promise.map_or(&[][..], |claim| promised_taints(claim, promising));
    let (capacity, allocatable) =
        promise.map(|claim| promised_resources(claim, promising)).unwrap_or_default();
    let missing = promised.iter().filter(|taint| !node.taints.contains(taint));
    Node {
        name: node.name.clone(),
        taints: node.taints.iter().filter(|taint| !passing(taint)).chain(missing).cloned().collect(),
        capacity: as_promised(&node.capacity, capacity),
        allocatable: as_promised(&node.allocatable, allocatable),
        state,
        price,
        labels,
        pool,
        volume_limits,
        disruption: NodeDisruption::default(),
    }
}

/// What a node was bought as: by its labels, or, where these do not say, by its claim. VPSie's own autoscaler tells
/// nodes nothing of it. For pods only the labels count.
fn bought_as<'l>(labels: &'l Labels, claim: Option<&ClaimObject>) -> Cow<'l, Labels> {
    let Some(claim) = claim else { return Cow::Borrowed(labels) };
    if labels.contains_key(names::INSTANCE_TYPE) && pool_of(labels).is_some() {
        return Cow::Borrowed(labels);
    }
    let mut all = claim.labels.clone();
    all.extend(labels.clone());
    Cow::Owned(all)
}

/// What a node will have once it is up: until its device plugins have started, its claim knows better.
fn as_promised(reported: &Resources, promised: Resources) -> Resources {
    let mut resources = promised;
    for (name, amount) in reported.iter() {
        if amount > 0 || !resources.names(name) {
            resources.set(name, amount);
        }
    }
    resources
}

/// What a claim's node will have, and what of that is for pods: as the claim says, or else as its type has it. Extended
/// resources that only its type knows of are there too: what overlays add, no cloud has told the claim.
fn promised_resources(claim: &ClaimObject, pool: Option<&Pool>) -> (Resources, Resources) {
    let instance_type = type_of(&claim.labels, pool.map_or(&[][..], |pool| &pool.types));
    let completed = |said: &Resources, of_type: fn(&InstanceType) -> Resources| {
        let of_type = instance_type.map(of_type).unwrap_or_default();
        if said.is_empty() {
            return of_type;
        }
        let is_extended = |name: &str| ![CPU, MEMORY, EPHEMERAL_STORAGE, PODS].contains(&name);
        let mut all = said.clone();
        for (name, amount) in of_type.iter().filter(|(name, _)| is_extended(name) && !said.names(name)) {
            all.set(name, amount);
        }
        all
    };
    let capacity = completed(&claim.capacity, |t| t.capacity.clone());
    (capacity, completed(&claim.allocatable, InstanceType::allocatable))
}

/// The labels that a claim's node will have, its own name aside.
fn promised_labels(claim: &ClaimObject, pool: Option<&Pool>) -> Labels {
    let types = pool.map_or(&[][..], |pool| &pool.types);
    let instance_type = type_of(&claim.labels, types);
    let mut labels = instance_type.map(|t| t.labels.clone()).unwrap_or_default();
    labels.extend(pool.map(|pool| pool.labels.clone()).unwrap_or_default());
    labels.extend(claim.labels.clone());
    if let Some(offering) = instance_type.and_then(|t| offering_of(&labels, t)) {
        for (key, value) in offering.node_labels() {
            labels.entry(key).or_insert(value);
        }
    }
    labels
}

/// The taints that it will have. Objects of VPSie's own autoscaler say nothing of them.
fn promised_taints<'c>(claim: &'c ClaimObject, pool: Option<&'c Pool>) -> &'c [Taint] {
    if claim.taints.is_empty() && !claim.labels.contains_key(names::NODEPOOL) {
        pool.map_or(&[], |pool| &pool.taints)
    } else {
        &claim.taints
    }
}

/// A machine that is on its way: what it will be follows from its claim and its type.
fn of_claim(claim: &ClaimObject, pools: &BTreeMap<&Text, &Pool>) -> Node {
    let pool = pool_of(&claim.labels).and_then(|name| pools.get(&name).copied());
    let types = pool.map_or(&[][..], |pool| &pool.types);
    let instance_type = type_of(&claim.labels, types);
    let mut labels = promised_labels(claim, pool);
    labels.insert(names::HOSTNAME.into(), claim.name.clone());
    let or = |said: Resources, other: &Resources| if said.is_empty() { other.clone() } else { said };
    let (capacity, allocatable) = promised_resources(claim, pool);
    let capacity = or(capacity, &claim.requests);
    let allocatable = or(allocatable, &capacity);
    Node {
        name: claim.name.clone(),
        taints: promised_taints(claim, pool).to_vec(),
        capacity,
        allocatable,
        state: if claim.deleting { NodeState::Deleting } else { NodeState::Starting },
        price: price_of(&labels, types),
        pool: pool_of(&claim.labels),
        volume_limits: instance_type.map(|t| t.volume_limits.clone()).unwrap_or_default(),
        labels,
        disruption: NodeDisruption::default(),
    }
}

/// By its name, or by the id under which VPSie sells it.
fn type_of<'t>(labels: &Labels, types: &'t [Arc<InstanceType>]) -> Option<&'t InstanceType> {
    let name = labels.get(names::INSTANCE_TYPE)?;
    let by_name = types.iter().find(|t| t.name == *name);
    by_name.or_else(|| types.iter().find(|t| vpsie::has_offering(t, name))).map(|t| &**t)
}

/// The offering that a node with these labels was bought as, as far as they tell.
fn offering_of<'t>(labels: &Labels, instance_type: &'t InstanceType) -> Option<&'t Offering> {
    let capacity_type = labels.get(names::CAPACITY_TYPE).map(|text| CapacityType::parse(text));
    let capacity_type = capacity_type.unwrap_or(Some(CapacityType::OnDemand))?;
    let zone = labels.get(names::ZONE);
    let mut matching = instance_type
        .offerings
        .iter()
        .filter(|o| o.capacity_type == capacity_type && zone.is_none_or(|zone| o.zone == *zone));
    let first = matching.next()?;
    // Where the zone is not known, the price must not depend on it.
    matching.all(|o| o.price == first.price).then_some(first)
}

pub(crate) fn price_of(labels: &Labels, types: &[Arc<InstanceType>]) -> Option<Price> {
    type_of(labels, types).and_then(|t| offering_of(labels, t)).map(|offering| offering.price)
}
