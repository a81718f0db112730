//! Every rule that decides where a pod may run, as tables of small clusters, positive and negative.
//!
//! Each case is a cluster and where its pods go. Every plan also goes through the checker.

mod cluster;

mod buying;
mod disruption;
mod division;
mod explaining;
mod founding;
mod labels;
mod nearness;
mod ports_volumes;
mod preferences;
mod replacing;
mod resources;
mod spread;
mod taints;
mod turns;
mod worn;

use berth_core::catalog::CapacityType;
use berth_core::check;
use berth_core::plan::{Alternative, Host, Launch, Plan};
use berth_core::provision;
use berth_core::reason::Reason;
use berth_core::snapshot::Snapshot;

use cluster::Cluster;

/// What a plan must say. Pods `web-0`, `web-1`, … are all called `web`, and one expectation stands for one
/// of them, whichever it is.
#[derive(Clone, Debug)]
pub(crate) enum Expect {
    /// The pod goes to this node.
    On(&'static str, &'static str),
    /// The pod goes to a bought node with these labels.
    New(&'static str, Vec<(&'static str, &'static str)>),
    /// The pod has no place, for one reason per pool.
    Refused(&'static str, Vec<Reason>),
    /// So many nodes are bought.
    Launches(usize),
    /// So many nodes are bought although their pool's minValues do not hold.
    Relaxed(usize),
    /// Whatever could be bought instead is in these zones.
    AlternativesIn(&'static [&'static str]),
    /// Whatever could be bought instead is of these types.
    AlternativesOf(&'static [&'static str]),
    /// Nothing of this capacity type could be bought instead.
    NoAlternativeAs(CapacityType),
}

pub(crate) fn on(pod: &'static str, node: &'static str) -> Expect {
    Expect::On(pod, node)
}

pub(crate) fn new(pod: &'static str, labels: &[(&'static str, &'static str)]) -> Expect {
    Expect::New(pod, labels.to_vec())
}

pub(crate) fn refused(pod: &'static str, reason: Reason) -> Expect {
    Expect::Refused(pod, vec![reason])
}

pub(crate) fn launches(nodes: usize) -> Expect {
    Expect::Launches(nodes)
}

/// Plans each cluster and compares; reports all cases that differ.
pub(crate) fn check(cases: Vec<(&str, Cluster, Vec<Expect>)>) {
    let mut faults = Vec::new();
    for (case, cluster, expected) in cases {
        let (snapshot, policy) = cluster.finish();
        let plan = provision::plan(&snapshot, &policy);
        let broken = check::check(&snapshot, &policy, &plan);
        let left_out = check::left_out(&snapshot, &policy, &plan);
        let illegal = broken.into_iter().chain(left_out).map(|violation| violation.to_string());
        let mut found: Vec<String> = illegal.chain(differences(&snapshot, &plan, &expected)).collect();
        if !found.is_empty() {
            found.extend(outcomes(&snapshot, &plan).into_iter().map(|(pod, spot)| format!("{pod} {spot:?}")));
            faults.push(format!("{case}:\n    {}", found.join("\n    ")));
        }
    }
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

/// Where a plan puts a pod.
#[derive(Debug)]
enum Spot<'a> {
    On(&'a str),
    New(&'a Launch),
    Refused(Vec<Reason>),
}

fn outcomes<'a>(snapshot: &'a Snapshot, plan: &'a Plan) -> Vec<(&'a str, Spot<'a>)> {
    let bound = plan.binds.iter().map(|bind| {
        let spot = match bind.host {
            Host::Node(node) => Spot::On(&snapshot.nodes[node].name),
            Host::Launch(launch) => Spot::New(&plan.launches[launch]),
        };
        (&*snapshot.pods[bind.pod].name, spot)
    });
    let unplaced = plan.unplaced.iter().map(|unplaced| {
        let reasons = unplaced.refusals.iter().map(|refusal| refusal.refusal.reason).collect();
        (&*snapshot.pods[unplaced.pod].name, Spot::Refused(reasons))
    });
    bound.chain(unplaced).collect()
}

fn differences(snapshot: &Snapshot, plan: &Plan, expected: &[Expect]) -> Vec<String> {
    let mut left = outcomes(snapshot, plan);
    let mut differences = Vec::new();
    let alternatives: Vec<&Alternative> = plan.launches.iter().flat_map(|l| &*l.alternatives).collect();
    for expect in expected {
        let met = match expect {
            Expect::Launches(nodes) => plan.launches.len() == *nodes,
            Expect::Relaxed(nodes) => plan.launches.iter().filter(|l| l.min_values_relaxed).count() == *nodes,
            Expect::AlternativesIn(zones) => alternatives.iter().all(|other| zones.contains(&&*other.zone)),
            Expect::AlternativesOf(types) => {
                alternatives.iter().all(|other| types.contains(&&*other.instance_type))
            }
            Expect::NoAlternativeAs(capacity_type) => {
                alternatives.iter().all(|other| other.capacity_type != *capacity_type)
            }
            Expect::On(..) | Expect::New(..) | Expect::Refused(..) => {
                let found = left.iter().position(|(pod, spot)| meets(pod, spot, expect));
                found.map(|index| left.swap_remove(index)).is_some()
            }
        };
        if !met {
            differences.push(format!("not so: {expect:?}"));
        }
    }
    differences.extend(left.iter().map(|(pod, _)| format!("nothing was said of {pod}")));
    differences
}

fn meets(pod: &str, spot: &Spot<'_>, expect: &Expect) -> bool {
    match (expect, spot) {
        (Expect::On(name, node), Spot::On(host)) => is_called(pod, name) && node == host,
        (Expect::New(name, labels), Spot::New(launch)) => {
            is_called(pod, name)
                && labels.iter().all(|(key, value)| launch.labels.get(*key).is_some_and(|v| **v == **value))
        }
        (Expect::Refused(name, reasons), Spot::Refused(found)) => is_called(pod, name) && reasons == found,
        _ => false,
    }
}

fn is_called(pod: &str, name: &str) -> bool {
    pod.strip_prefix(name).is_some_and(|rest| {
        rest.is_empty() || rest.strip_prefix('-').is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()))
    })
}
