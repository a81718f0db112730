//! Nodes: those of the cluster, and those that claims will become.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use berth_core::catalog::{CapacityType, InstanceType, Offering};
use berth_core::disruption::{NodeDisruption, Protection};
use berth_core::names::{self, Labels, Text};
use berth_core::node::{Node, NodeState};
use berth_core::pod::{Taint, TaintEffect};
use berth_core::pool::Pool;
use berth_core::resources::Resources;
use berth_core::units::Price;
use jiff::Timestamp;
use rustc_hash::FxBuildHasher;

use crate::builtin::node as wire;
use crate::convert::Converter;
use crate::disruption::{self, NodeLife, Second};
use crate::manifests::Manifests;
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
pub(crate) fn group_of(labels: &Labels) -> Option<&Text> {
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

/// All nodes: those of the cluster, and the claims that have not become one yet.
pub(crate) fn assemble(manifests: &Manifests, pools: &[Pool], now: Timestamp) -> Vec<Node> {
    let newest_pods = newest_pods(&manifests.pods);
    let pools: BTreeMap<&Text, &Pool> = pools.iter().map(|pool| (&pool.name, pool)).collect();
    let claims = Claims::of(manifests);
    let mut joined = BTreeSet::new();
    let mut names = BTreeSet::new();
    let mut nodes = Vec::with_capacity(manifests.nodes.len());
    for kept in &manifests.nodes {
        let volume_limits = manifests.volume_limits.get(&kept.object.name).cloned().unwrap_or_default();
        let claim = claims.of_node(&kept.object);
        joined.extend(claim.map(|claim| &claim.name));
        let newest_pod = newest_pods.get(&kept.object.name).map(|started| started.timestamp());
        nodes.push(Node {
            disruption: disruption::judged_node(
                Some(&kept.object.life),
                claim.map(|claim| &claim.life),
                newest_pod,
                now,
            ),
            ..of_object(&kept.object, claim, volume_limits, &pools)
        });
        names.insert(&kept.object.name);
    }
    for node in nodes.iter_mut().filter(|node| manifests.shrouded_nodes.contains(&node.name)) {
        node.disruption.protection = Protection::Always;
    }
    for kept in &manifests.claims {
        let claim = &kept.object;
        if !joined.contains(&claim.name) && names.insert(&claim.name) {
            let disruption = disruption::judged_node(None, Some(&claim.life), None, now);
            nodes.push(Node { disruption, ..of_claim(claim, &pools) });
        }
    }
    nodes
}

/// Claims by the nodes that they became: those that they name, or else those that run on their machines.
struct Claims<'m> {
    by_node: BTreeMap<&'m Text, &'m ClaimObject>,
    by_machine: BTreeMap<&'m Text, &'m ClaimObject>,
}

impl<'m> Claims<'m> {
    fn of(manifests: &'m Manifests) -> Self {
        let claims = || manifests.claims.iter().map(|kept| &*kept.object);
        Self {
            by_node: claims().filter_map(|claim| Some((claim.node.as_ref()?, claim))).collect(),
            by_machine: claims().filter_map(|claim| Some((claim.provider_id.as_ref()?, claim))).collect(),
        }
    }

    fn of_node(&self, node: &NodeObject) -> Option<&'m ClaimObject> {
        let by_machine = || self.by_machine.get(node.provider_id.as_ref()?);
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
    let pool = pool_of(&labels);
    let types = pool.as_ref().and_then(|pool| pools.get(pool)).map_or(&[][..], |pool| &pool.types);
    let passing = |taint: &&Taint| {
        let startup = promise.map_or(&[][..], |claim| &claim.startup_taints);
        startup.iter().any(|s| s.key == taint.key && s.effect == taint.effect)
    };
    let promised = promise.map_or(&[][..], |claim| promised_taints(claim, promising));
    let missing = promised.iter().filter(|taint| !node.taints.contains(taint));
    Node {
        name: node.name.clone(),
        taints: node.taints.iter().filter(|taint| !passing(taint)).chain(missing).cloned().collect(),
        capacity: as_promised(&node.capacity, promise.map(|claim| &claim.capacity)),
        allocatable: as_promised(&node.allocatable, promise.map(|claim| &claim.allocatable)),
        state,
        price: price_of(&labels, types),
        labels,
        pool,
        volume_limits,
        disruption: NodeDisruption::default(),
    }
}

/// What a node will have once it is up: until its device plugins have started, its claim knows better.
fn as_promised(reported: &Resources, promised: Option<&Resources>) -> Resources {
    let mut resources = promised.cloned().unwrap_or_default();
    for (name, amount) in reported.iter() {
        if amount > 0 || !resources.names(name) {
            resources.set(name, amount);
        }
    }
    resources
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
    let of_type = |resources: fn(&InstanceType) -> Resources| instance_type.map(resources);
    let capacity = Some(&claim.capacity).filter(|capacity| !capacity.is_empty()).cloned();
    let capacity =
        capacity.or_else(|| of_type(|t| t.capacity.clone())).unwrap_or_else(|| claim.requests.clone());
    let allocatable = Some(&claim.allocatable).filter(|allocatable| !allocatable.is_empty()).cloned();
    let allocatable =
        allocatable.or_else(|| of_type(InstanceType::allocatable)).unwrap_or_else(|| capacity.clone());
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

fn type_of<'t>(labels: &Labels, types: &'t [Arc<InstanceType>]) -> Option<&'t InstanceType> {
    let name = labels.get(names::INSTANCE_TYPE)?;
    types.iter().find(|t| t.name == *name).map(|t| &**t)
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

fn price_of(labels: &Labels, types: &[Arc<InstanceType>]) -> Option<Price> {
    type_of(labels, types).and_then(|t| offering_of(labels, t)).map(|offering| offering.price)
}
