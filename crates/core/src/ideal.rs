//! What the pods of a cluster would cost at least, were all of them placed anew.
//!
//! A plan's own bound holds for the nodes that its rules make it keep. This one asks what no rule about disruption has a
//! say in: how far the cluster as it stands is from the cheapest that it could be.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::disruption::{NodeDisruption, PoolDisruption};
use crate::names::Text;
use crate::node::Node;
use crate::plan::Plan;
use crate::pod::{Pod, PodSpec, VolumeRef};
use crate::pool::Pool;
use crate::provision;
use crate::snapshot::{DaemonSet, Policy, PreferencePolicy, Snapshot};
use crate::units::Price;

/// No cluster that holds these pods, beside the nodes that are of no pool, costs less. `known` is what one costs that
/// does: nodes that stand may be such as nobody sells any more, and preferences that nobody acts on cost nothing.
pub fn lower_bound(snapshot: &Snapshot, policy: &Policy, known: Price) -> Price {
    plan(snapshot, policy).lower_bound.min(known)
}

/// What would be bought for all of them.
pub fn plan(snapshot: &Snapshot, policy: &Policy) -> Plan {
    // What cannot be had now can be had at another time, or stands there already; and what is only preferred need not be.
    let policy = Policy { preferences: PreferencePolicy::Ignore, ..policy.with_all_available() };
    provision::plan(&anew(snapshot), &policy)
}

/// What a bound was proved of. It says nothing of a cluster in which this is otherwise: one pod less, a node that comes for
/// nothing or a price that falls, and there may be a cheaper one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Premises {
    pods: BTreeMap<Counted, usize>,
    nodes: Vec<Node>,
    pools: Vec<Pool>,
    daemon_sets: Vec<DaemonSet>,
}

/// Pods that ask for the same: their namespace, what they ask for, their volumes, and the node that they stay on.
type Counted = (Text, Arc<PodSpec>, Box<[VolumeRef]>, Option<Text>);

impl Premises {
    pub fn of(snapshot: &Snapshot) -> Self {
        let bought = bought(snapshot);
        let mut pods: BTreeMap<Counted, usize> = BTreeMap::new();
        // Most pods share their spec's memory with their siblings: specs are compared once for all of those.
        let mut siblings: FxHashMap<_, (&Pod, usize)> = FxHashMap::default();
        for (pod, waits) in counted(snapshot, &bought) {
            let node = pod.node.as_ref().filter(|_| !waits);
            let alike = (&pod.namespace, Arc::as_ptr(&pod.spec), &pod.volumes, node);
            siblings.entry(alike).or_insert((pod, 0)).1 += 1;
        }
        for ((.., node), (pod, count)) in siblings {
            let alike = (pod.namespace.clone(), pod.spec.clone(), pod.volumes.clone(), node.cloned());
            *pods.entry(alike).or_default() += count;
        }
        // When nodes may go has no say in what they cost.
        let lasting = |node: &Node| Node { disruption: NodeDisruption::default(), ..node.clone() };
        let pool = |pool: &Pool| Pool { disruption: PoolDisruption::default(), ..pool.clone() };
        Self {
            pods,
            nodes: snapshot.nodes.iter().filter(|node| !bought.contains(&node.name)).map(lasting).collect(),
            pools: snapshot.pools.iter().map(pool).collect(),
            daemon_sets: snapshot.daemon_sets.clone(),
        }
    }
}

/// The nodes that pools have bought.
fn bought(snapshot: &Snapshot) -> BTreeSet<Text> {
    let is_bought = |node: &&Node| node.pool.is_some() && node.price.is_some();
    snapshot.nodes.iter().filter(is_bought).map(|node| node.name.clone()).collect()
}

/// The pods that have to be somewhere, and whether their place is still to be bought. Those that come with a node come with
/// the new ones too.
fn counted<'s>(snapshot: &'s Snapshot, bought: &BTreeSet<Text>) -> impl Iterator<Item = (&'s Pod, bool)> {
    let active = snapshot.pods.iter().filter(|pod| pod.is_active() && !pod.deleting);
    let placed = active.map(|pod| (pod, pod.node.as_ref().is_none_or(|node| bought.contains(node))));
    placed.filter(|(pod, waits)| !(*waits && pod.belongs_to_node()))
}

/// The cluster without the nodes that pools have bought; the pods of those wait.
fn anew(snapshot: &Snapshot) -> Snapshot {
    let bought = bought(snapshot);
    let pods = counted(snapshot, &bought).map(|(pod, waits)| {
        if waits { Pod { node: None, nominated: None, ..pod.clone() } } else { pod.clone() }
    });
    Snapshot {
        pods: pods.collect(),
        nodes: snapshot.nodes.iter().filter(|node| !bought.contains(&node.name)).cloned().collect(),
        ..snapshot.clone()
    }
}
