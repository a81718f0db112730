//! A cluster once a plan for it has been carried out.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::disruption::NodeDisruption;
use crate::names;
use crate::node::{Node, NodeState};
use crate::plan::{Host, Launch, Plan};
use crate::pod::{PodOrigin, PodPhase};
use crate::pool::Pool;
use crate::snapshot::Snapshot;

/// The cluster after all of the plan: what was bought runs, what goes is gone, each pod is in its place, and
/// everything has been quiet for long. Room that is only held free is held no more.
pub fn apply(snapshot: &Snapshot, plan: &Plan) -> Snapshot {
    let mut after = snapshot.clone();
    for bind in &plan.binds {
        let pod = &mut after.pods[bind.pod];
        if pod.origin == PodOrigin::Buffer {
            continue;
        }
        pod.node = Some(match bind.host {
            Host::Node(node) => snapshot.nodes[node].name.clone(),
            Host::Launch(launch) => plan.launches[launch].name.clone(),
        });
        pod.phase = PodPhase::Running;
        pod.nominated = None;
    }
    let removed: FxHashSet<&str> = plan
        .disruptions
        .iter()
        .flat_map(|step| &step.nodes)
        .map(|node| &*snapshot.nodes[*node].name)
        .collect();
    after.nodes.retain(|node| !removed.contains(&*node.name));
    after.pods.retain(|pod| !pod.node.as_ref().is_some_and(|node| removed.contains(&**node)));
    for launch in &plan.launches {
        let pool = snapshot.pools.iter().find(|pool| pool.name == launch.pool);
        after.nodes.extend(pool.and_then(|pool| node(pool, launch)));
    }
    draw_reservations(&mut after, plan);
    after.in_order()
}

fn node(pool: &Pool, launch: &Launch) -> Option<Node> {
    let instance_type = pool.types.iter().find(|sold| sold.name == launch.instance_type)?;
    let mut labels = (*launch.labels).clone();
    labels.insert(names::HOSTNAME.into(), launch.name.clone());
    Some(Node {
        name: launch.name.clone(),
        labels,
        taints: launch.taints.to_vec(),
        capacity: instance_type.capacity.clone(),
        allocatable: (*launch.allocatable).clone(),
        state: NodeState::Running,
        pool: Some(pool.name.clone()),
        price: Some(launch.price),
        volume_limits: instance_type.volume_limits.clone(),
        disruption: NodeDisruption::of_new(pool),
    })
}

/// What was bought of a bounded reservation is no longer to be had.
fn draw_reservations(after: &mut Snapshot, plan: &Plan) {
    for pool in &mut after.pools {
        let bounded =
            |sold: &crate::catalog::InstanceType| sold.offerings.iter().any(|o| o.remaining.is_some());
        if !pool.types.iter().any(|sold| bounded(sold)) {
            continue;
        }
        let types = pool.types.iter().map(|sold| {
            if !bounded(sold) {
                return sold.clone();
            }
            let mut left = (**sold).clone();
            for offering in &mut left.offerings {
                let drawn = plan.launches.iter().filter(|launch| {
                    launch.instance_type == sold.name
                        && launch.zone == offering.zone
                        && launch.capacity_type == offering.capacity_type
                        && offering.labels.iter().all(|(key, value)| launch.labels.get(key) == Some(value))
                });
                let drawn = u32::try_from(drawn.count()).unwrap_or(u32::MAX);
                offering.remaining = offering.remaining.map(|remaining| remaining.saturating_sub(drawn));
            }
            Arc::new(left)
        });
        pool.types = types.collect();
    }
}
