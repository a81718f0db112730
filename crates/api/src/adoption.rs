//! Nodes that no pool bought, judged as if one had: what would become of a cluster that another autoscaler keeps.

use berth_core::catalog::CapacityType;
use berth_core::names::{self, Labels, Text};
use berth_core::node::Node;
use berth_core::pool::Pool;

use crate::nodes::price_of;

/// By which clouds tell that a machine is spot.
const SPOT: [(&str, &str); 4] = [
    ("eks.amazonaws.com/capacityType", "SPOT"),
    ("cloud.google.com/gke-spot", "true"),
    ("cloud.google.com/gke-preemptible", "true"),
    ("kubernetes.azure.com/scalesetpriority", "spot"),
];

/// Machines that run the cluster itself are nobody's to take away.
const CONTROL_PLANE: [&str; 2] = ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"];

/// Gives each node that no pool has bought to the heaviest pool that could have bought it.
pub(crate) fn adopt(nodes: &mut [Node], pools: &[Pool]) {
    let mut pools: Vec<&Pool> = pools.iter().collect();
    pools.sort_by(|a, b| b.weight.cmp(&a.weight).then_with(|| a.name.cmp(&b.name)));
    for node in nodes.iter_mut().filter(|node| node.pool.is_none()) {
        if CONTROL_PLANE.iter().any(|label| node.labels.contains_key(*label)) {
            continue;
        }
        let labels = with_capacity_type(&node.labels);
        let suits = |pool: &&&Pool| {
            let admits = |(key, set): (&Text, &berth_core::requirement::ValueSet)| {
                // What only the pool knows of, its nodes would have been given.
                pool.labels.contains_key(key) || set.admits(labels.get(key).map(|value| &**value))
            };
            pool.requirements.iter().all(admits) && price_of(&labels, &pool.types).is_some()
        };
        if let Some(pool) = pools.iter().find(suits) {
            node.price = price_of(&labels, &pool.types);
            node.pool = Some(pool.name.clone());
            node.labels = labels;
        }
    }
}

fn with_capacity_type(labels: &Labels) -> Labels {
    let mut labels = labels.clone();
    let is_spot = SPOT.iter().any(|(key, value)| labels.get(*key).is_some_and(|has| **has == **value));
    let capacity_type = if is_spot { CapacityType::Spot } else { CapacityType::OnDemand };
    labels.entry(names::CAPACITY_TYPE.into()).or_insert_with(|| capacity_type.name().into());
    labels
}
