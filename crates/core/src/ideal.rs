//! What the pods of a cluster would cost at least, were all of them placed anew.
//!
//! A plan's own bound holds for the nodes that its rules make it keep. This one asks what no rule about disruption has a
//! say in: how far the cluster as it stands is from the cheapest that it could be.

use std::collections::BTreeSet;

use crate::node::Node;
use crate::plan::Plan;
use crate::pod::Pod;
use crate::provision;
use crate::snapshot::{Policy, PreferencePolicy, Snapshot};
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

/// The cluster without the nodes that pools have bought; the pods of those wait.
fn anew(snapshot: &Snapshot) -> Snapshot {
    let is_bought = |node: &Node| node.pool.is_some() && node.price.is_some();
    let bought: BTreeSet<_> =
        snapshot.nodes.iter().filter(|node| is_bought(node)).map(|node| node.name.clone()).collect();
    let waits = |pod: &Pod| pod.node.as_ref().is_none_or(|node| bought.contains(node));
    let pods = snapshot.pods.iter().filter(|pod| pod.is_active() && !pod.deleting).filter_map(|pod| {
        if !waits(pod) {
            return Some(pod.clone());
        }
        // Those that come with a node come with the new ones too.
        (!pod.belongs_to_node()).then(|| Pod { node: None, nominated: None, ..pod.clone() })
    });
    Snapshot {
        pods: pods.collect(),
        nodes: snapshot.nodes.iter().filter(|node| !is_bought(node)).cloned().collect(),
        ..snapshot.clone()
    }
}
