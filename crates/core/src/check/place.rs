//! One node as the rules see it, and the rules that look at nothing but the node.

use std::collections::{BTreeMap, BTreeSet};

use super::violation::Misfit;
use crate::names::{self, Labels, Text};
use crate::node::{Node, NodeState};
use crate::plan::Launch;
use crate::pod::{HostPort, Pod, PodSpec, Taint, TaintEffect, Toleration};
use crate::reason::Refusal;
use crate::requirement::{Expression, NodeTerm};
use crate::resources::Resources;
use crate::snapshot::{DaemonSet, Snapshot};
use crate::volume::VolumeDemand;

/// A node of the snapshot, of the plan, or one that might be bought.
pub(super) struct Place {
    pub(super) name: Text,
    pub(super) labels: Labels,
    pub(super) taints: Vec<Taint>,
    pub(super) allocatable: Resources,
    pub(super) volume_limits: BTreeMap<Text, u32>,
    pub(super) deleting: bool,
    /// What DaemonSets will ask for here that have no pod here yet.
    pub(super) daemons: Resources,
    /// What pods ask for here, with `daemons`.
    used: Resources,
    ports: Vec<HostPort>,
    /// Claims in use here, by driver.
    claims: BTreeMap<Text, BTreeSet<Text>>,
}

/// A pod that is to be placed.
pub(super) struct Incoming<'a> {
    pub(super) pod: &'a Pod,
    /// Index of the pods that are like it.
    pub(super) class: usize,
    pub(super) demands: Result<Vec<VolumeDemand>, Refusal>,
}

impl Place {
    /// An existing node, before its pods. `present` are the DaemonSets, by namespace and name, that
    /// have a pod on it.
    pub(super) fn of_node(snapshot: &Snapshot, node: &Node, present: &BTreeSet<(&str, &str)>) -> Self {
        let startup_taints = snapshot
            .pools
            .iter()
            .find(|pool| node.pool.as_ref() == Some(&pool.name))
            .map_or(&[][..], |pool| &pool.startup_taints);
        let mut place = Self {
            name: node.name.clone(),
            labels: node.labels.clone(),
            taints: node.lasting_taints(startup_taints).cloned().collect(),
            allocatable: node.allocatable.clone(),
            volume_limits: node.volume_limits.clone(),
            deleting: node.state == NodeState::Deleting,
            daemons: Resources::new(),
            used: Resources::new(),
            ports: Vec::new(),
            claims: BTreeMap::new(),
        };
        for set in &snapshot.daemon_sets {
            if !present.contains(&(&*set.namespace, &*set.name)) && place.runs(set) {
                place.daemons.add(&set.spec.requests);
                place.ports.extend(set.spec.host_ports.iter().cloned());
            }
        }
        place.used = place.daemons.clone();
        place
    }

    pub(super) fn of_launch(
        snapshot: &Snapshot,
        launch: &Launch,
        volume_limits: &BTreeMap<Text, u32>,
    ) -> Self {
        Self::new_node(
            snapshot,
            launch.name.clone(),
            (*launch.labels).clone(),
            &launch.taints,
            (*launch.allocatable).clone(),
            volume_limits,
        )
    }

    /// A node that does not exist yet: its DaemonSets will come before its pods.
    pub(super) fn new_node(
        snapshot: &Snapshot,
        name: Text,
        mut labels: Labels,
        taints: &[Taint],
        allocatable: Resources,
        volume_limits: &BTreeMap<Text, u32>,
    ) -> Self {
        labels.insert(names::HOSTNAME.into(), name.clone());
        let mut place = Self {
            name,
            labels,
            taints: taints.to_vec(),
            allocatable,
            volume_limits: volume_limits.clone(),
            deleting: false,
            daemons: Resources::new(),
            used: Resources::new(),
            ports: Vec::new(),
            claims: BTreeMap::new(),
        };
        for set in &snapshot.daemon_sets {
            if place.runs(set) {
                place.daemons.add(&set.spec.requests);
                place.ports.extend(set.spec.host_ports.iter().cloned());
            }
        }
        place.used = place.daemons.clone();
        place
    }

    fn runs(&self, set: &DaemonSet) -> bool {
        let tolerates = |taint: &Taint| {
            tolerated_by_daemons(taint) || set.spec.tolerations.iter().any(|t| t.tolerates(taint))
        };
        admits(&set.spec.node_selector, set.spec.node_affinity.as_deref(), &self.labels, &self.name)
            && self.taints.iter().filter(|t| repels(t)).all(tolerates)
    }

    /// Takes the pod in, whether or not it fits.
    pub(super) fn add(&mut self, incoming: &Incoming<'_>) {
        let spec = &incoming.pod.spec;
        self.used.add(&spec.requests);
        self.ports.extend(spec.host_ports.iter().cloned());
        for demand in incoming.demands.iter().flatten() {
            if let Some(driver) = &demand.driver {
                self.claims.entry(driver.clone()).or_default().insert(demand.claim.clone());
            }
        }
    }

    pub(super) fn misfits(&self, incoming: &Incoming<'_>) -> impl Iterator<Item = Misfit> {
        RULES.iter().filter_map(move |rule| rule(self, incoming))
    }
}

type Rule = fn(&Place, &Incoming<'_>) -> Option<Misfit>;

const RULES: [Rule; 9] = [
    deletion,
    taints,
    node_selector,
    node_affinity,
    resources,
    host_ports,
    volumes_exist,
    volume_topology,
    attach_limits,
];

fn deletion(place: &Place, _: &Incoming<'_>) -> Option<Misfit> {
    place.deleting.then_some(Misfit::NodeDeleting)
}

fn taints(place: &Place, incoming: &Incoming<'_>) -> Option<Misfit> {
    let taint = untolerated(&place.taints, &incoming.pod.spec.tolerations)?;
    Some(Misfit::UntoleratedTaint { taint: taint.clone() })
}

fn node_selector(place: &Place, incoming: &Incoming<'_>) -> Option<Misfit> {
    let expression = incoming.pod.spec.node_selector.iter().find(|e| !holds(e, &place.labels))?;
    Some(Misfit::NodeSelector { expression: expression.clone() })
}

fn node_affinity(place: &Place, incoming: &Incoming<'_>) -> Option<Misfit> {
    let terms = incoming.pod.spec.node_affinity.as_deref()?;
    (!terms.iter().any(|term| term.matches(&place.labels, &place.name))).then_some(Misfit::NodeAffinity)
}

fn resources(place: &Place, incoming: &Incoming<'_>) -> Option<Misfit> {
    incoming.pod.spec.requests.iter().find_map(|(resource, requested)| {
        let used = place.used.get(resource);
        let allocatable = place.allocatable.get(resource);
        let too_much = requested > 0 && i128::from(used) + i128::from(requested) > i128::from(allocatable);
        too_much.then(|| Misfit::Insufficient { resource: resource.clone(), requested, used, allocatable })
    })
}

fn host_ports(place: &Place, incoming: &Incoming<'_>) -> Option<Misfit> {
    incoming.pod.spec.host_ports.iter().find_map(|wanted| {
        let taken = place.ports.iter().find(|taken| taken.conflicts(wanted))?;
        Some(Misfit::HostPort { wanted: wanted.clone(), taken: taken.clone() })
    })
}

fn volumes_exist(_: &Place, incoming: &Incoming<'_>) -> Option<Misfit> {
    let refusal = incoming.demands.as_ref().err()?;
    Some(Misfit::VolumeUnusable { refusal: refusal.clone() })
}

fn volume_topology(place: &Place, incoming: &Incoming<'_>) -> Option<Misfit> {
    let demand = incoming.demands.iter().flatten().find(|demand| !reaches(demand, place))?;
    Some(Misfit::VolumeTopology { claim: demand.claim.clone() })
}

fn reaches(demand: &VolumeDemand, place: &Place) -> bool {
    demand.terms.is_empty() || demand.terms.iter().any(|term| term.matches(&place.labels, &place.name))
}

fn attach_limits(place: &Place, incoming: &Incoming<'_>) -> Option<Misfit> {
    let mut wanted = BTreeMap::<&Text, BTreeSet<&Text>>::new();
    for demand in incoming.demands.iter().flatten() {
        if let Some(driver) = &demand.driver {
            wanted.entry(driver).or_default().insert(&demand.claim);
        }
    }
    wanted.into_iter().find_map(|(driver, claims)| {
        let limit = *place.volume_limits.get(driver)?;
        let attached = place.claims.get(driver);
        let new = claims.iter().filter(|claim| !attached.is_some_and(|a| a.contains(**claim))).count();
        let volumes = attached.map_or(0, BTreeSet::len) + new;
        // A pod that shares what is attached already needs no further attachment.
        (new > 0 && volumes > usize::try_from(limit).unwrap_or(usize::MAX)).then(|| Misfit::AttachLimit {
            driver: driver.clone(),
            limit,
            volumes,
        })
    })
}

/// Whether a pod's node selector and required node affinity admit the node.
pub(super) fn admits(
    node_selector: &[Expression],
    node_affinity: Option<&[NodeTerm]>,
    labels: &Labels,
    name: &str,
) -> bool {
    node_selector.iter().all(|e| holds(e, labels))
        && node_affinity.is_none_or(|terms| terms.iter().any(|term| term.matches(labels, name)))
}

/// Whether the node could do for the pod's selector, affinity and volumes, whatever else is on it.
pub(super) fn suits(spec: &PodSpec, demands: &[VolumeDemand], labels: &Labels, name: &str) -> bool {
    admits(&spec.node_selector, spec.node_affinity.as_deref(), labels, name)
        && demands.iter().all(|d| d.terms.is_empty() || d.terms.iter().any(|t| t.matches(labels, name)))
}

fn holds(expression: &Expression, labels: &Labels) -> bool {
    expression.matches(labels.get(expression.key()).map(|value| &**value))
}

/// The first taint that keeps the pod away.
pub(super) fn untolerated<'a>(taints: &'a [Taint], tolerations: &[Toleration]) -> Option<&'a Taint> {
    taints.iter().find(|taint| repels(taint) && !tolerations.iter().any(|t| t.tolerates(taint)))
}

fn repels(taint: &Taint) -> bool {
    taint.effect != TaintEffect::PreferNoSchedule
}

/// What the DaemonSet controller makes each of its pods tolerate.
fn tolerated_by_daemons(taint: &Taint) -> bool {
    match taint.effect {
        TaintEffect::NoExecute => {
            matches!(&*taint.key, names::TAINT_NOT_READY | names::TAINT_UNREACHABLE)
        }
        TaintEffect::NoSchedule => matches!(
            &*taint.key,
            "node.kubernetes.io/disk-pressure"
                | "node.kubernetes.io/memory-pressure"
                | "node.kubernetes.io/pid-pressure"
                | names::TAINT_UNSCHEDULABLE
        ),
        TaintEffect::PreferNoSchedule => true,
    }
}
