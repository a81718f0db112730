//! Judges a finished plan.
//!
//! Written against the rules of Kubernetes and the catalog, and sharing only types with the planner: a
//! mistake there is not repeated here. A plan that breaks a rule is never carried out.
//!
//! Assumes nothing of the plan: any indices, names and amounts are judged, and nothing panics.

mod cluster;
mod disruption;
mod division;
mod fullness;
mod launch;
mod left_out;
mod market;
mod place;
#[cfg(test)]
mod tests;
mod violation;

use std::collections::BTreeMap;

pub use left_out::left_out;
pub use violation::{AlternativeFault, Bar, DisruptionFault, LaunchFault, Misfit, Spot, Violation};

use crate::plan::{Host, Launch, Plan};
use crate::snapshot::{Policy, Snapshot};
use crate::units::Price;
use cluster::{Cluster, pending};
use disruption::Moving;
use market::{Holdings, Market};
use place::{Incoming, Place};

/// Every rule that the plan breaks; none if it may be carried out.
pub fn check(snapshot: &Snapshot, policy: &Policy, plan: &Plan) -> Vec<Violation> {
    let market = Market::new(snapshot, policy);
    let moving = Moving::of(snapshot, plan);
    let mut violations = check_accounts(snapshot, plan, &moving);
    let cluster = replay(&market, plan, |cluster, incoming, host| {
        let place = &cluster.places[host];
        violations.extend(cluster.misfits(incoming, place).map(|misfit| Violation::Misfit {
            pod: incoming.pod.id(),
            node: place.name.clone(),
            misfit,
        }));
    });
    violations.extend(launch::check_launches(&market, policy, &cluster, plan));
    violations.extend(Holdings::after(&market, plan).overruns(snapshot));
    violations.extend(disruption::check_disruptions(snapshot, plan, &moving));
    violations.extend(fullness::check_fullness(snapshot, plan, &moving, &cluster.places));
    violations.extend(check_costs(snapshot, plan));
    violations
}

/// Each pending pod is placed or unplaced, once; each pod of a node that goes is placed, once; and nothing
/// else is.
fn check_accounts(snapshot: &Snapshot, plan: &Plan, moving: &Moving) -> Vec<Violation> {
    let pending = pending(snapshot);
    let mut violations = Vec::new();
    let mut mentions = vec![0_usize; snapshot.pods.len()];
    let bound = plan.binds.iter().map(|bind| (bind.pod, Some(bind.host), true));
    let unplaced = plan.unplaced.iter().map(|unplaced| (unplaced.pod, None, !unplaced.refusals.is_empty()));
    for (index, host, explained) in bound.chain(unplaced) {
        let Some(pod) = snapshot.pods.get(index) else {
            violations.push(Violation::NoSuchPod { index, pods: snapshot.pods.len() });
            continue;
        };
        mentions[index] += 1;
        let moves = host.is_some() && moving.step_of_pod[index].is_some();
        if !pending[index] && !moves {
            violations.push(Violation::NotPending { pod: pod.id() });
        }
        if !explained {
            violations.push(Violation::NoRefusal { pod: pod.id() });
        }
        if let Some(host) = host {
            if place_index(snapshot, plan, host).is_none() {
                violations.push(Violation::NoSuchHost { pod: pod.id(), host });
            }
            if !pod.spec.scheduling_gates.is_empty() {
                violations.push(Violation::GatedPodPlaced { pod: pod.id() });
            }
        }
    }
    for (((pod, pending), mentions), step) in
        snapshot.pods.iter().zip(pending).zip(mentions).zip(&moving.step_of_pod)
    {
        if mentions > 1 {
            violations.push(Violation::PodTwice { pod: pod.id() });
        } else if (pending || step.is_some()) && mentions == 0 {
            violations.push(Violation::PodMissing { pod: pod.id() });
        }
    }
    violations
}

fn check_costs(snapshot: &Snapshot, plan: &Plan) -> Vec<Violation> {
    let before =
        snapshot.nodes.iter().filter_map(|node| snapshot.cost_of(node)).fold(Price::ZERO, Price::plus);
    let launched = |launch: &Launch| launch.price.plus(snapshot.cost_beyond_price(Some(&launch.pool)));
    let bought = plan.launches.iter().map(launched).fold(before, Price::plus);
    let moving = Moving::of(snapshot, plan);
    let going = snapshot.nodes.iter().zip(&moving.step_of_node).filter(|(_, step)| step.is_some());
    let after = going.filter_map(|(node, _)| snapshot.cost_of(node)).fold(bought, Price::minus);
    let mut violations = Vec::new();
    if plan.cost_before != before {
        violations.push(Violation::WrongCostBefore { said: plan.cost_before, actual: before });
    }
    if plan.cost_after != after {
        violations.push(Violation::WrongCostAfter { said: plan.cost_after, actual: after });
    }
    if plan.lower_bound > plan.cost_after {
        violations.push(Violation::BoundAboveCost { bound: plan.lower_bound, cost: plan.cost_after });
    }
    violations
}

/// Binds the pods in the plan's order. When a step begins its nodes are gone, and all that was on them.
/// `judge` sees each pod and the index of its place just before the
/// pod is added there; binds that make no sense at all are passed over.
fn replay<'a>(
    market: &Market<'a>,
    plan: &'a Plan,
    mut judge: impl FnMut(&Cluster<'a>, &Incoming<'a>, usize),
) -> Cluster<'a> {
    let snapshot = market.snapshot;
    let unlimited = BTreeMap::new();
    let launches = plan.launches.iter().map(|launch| {
        let instance_type = market.instance_type(&launch.pool, &launch.instance_type);
        let volume_limits = instance_type.map_or(&unlimited, |instance_type| &instance_type.volume_limits);
        Place::of_launch(snapshot, launch, volume_limits)
    });
    let mut cluster = Cluster::new(snapshot, launches.collect());

    let mut used = vec![false; plan.launches.len()];
    for bind in &plan.binds {
        if let Host::Launch(launch) = bind.host
            && let Some(used) = used.get_mut(launch)
        {
            *used = true;
        }
    }
    for launch in (0..plan.launches.len()).filter(|launch| !used[*launch]) {
        cluster.join(snapshot.nodes.len() + launch);
    }

    let moving = Moving::of(snapshot, plan);
    let mut waiting = pending(snapshot);
    for (waits, step) in waiting.iter_mut().zip(&moving.step_of_pod) {
        *waits |= step.is_some();
    }
    let mut steps = plan.disruptions.iter().peekable();
    for (index, bind) in plan.binds.iter().enumerate() {
        while let Some(step) = steps.next_if(|step| step.first_bind <= index) {
            step.nodes.iter().for_each(|node| cluster.remove_node(*node));
        }
        let Some(host) = place_index(snapshot, plan, bind.host) else { continue };
        if !cluster.places[host].deleting {
            cluster.join(host);
        }
        let waits = waiting.get_mut(bind.pod).is_some_and(std::mem::take);
        let Some(incoming) = cluster.incoming(bind.pod).filter(|_| waits) else { continue };
        judge(&cluster, &incoming, host);
        if !cluster.places[host].deleting {
            cluster.add(&incoming, host);
        }
    }
    for step in steps {
        step.nodes.iter().for_each(|node| cluster.remove_node(*node));
    }
    cluster
}

/// Where the host is among the cluster's places.
fn place_index(snapshot: &Snapshot, plan: &Plan, host: Host) -> Option<usize> {
    match host {
        Host::Node(node) => (node < snapshot.nodes.len()).then_some(node),
        Host::Launch(launch) => (launch < plan.launches.len()).then_some(snapshot.nodes.len() + launch),
    }
}
