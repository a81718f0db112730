//! Why a pod has no place: per pool, per rule, how many offerings each rule removed. And why a node stays.

mod node;

use std::collections::BTreeMap;

use crate::class::Class;
use crate::fit::{self, LabelSource};
use crate::host::{HostOrigin, times_fitting};
use crate::market::Cell;
use crate::names::Text;
use crate::pack::Packer;
use crate::plan::PoolRefusal;
use crate::pool::Pool;
use crate::provision::{self, Prepared};
use crate::reason::{Reason, Refusal};
use crate::resources::{self, format_amount};
use crate::snapshot::{Policy, Snapshot};
use crate::topology::{Place, TopologyRefusal};

pub use node::{Checked, Move, Removal, Way, checks, node};

/// What became of one pool's offerings for one pod, rule by rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolStory {
    pub pool: Text,
    pub offerings: usize,
    /// In the order in which the rules were applied; each took its number from those left before.
    pub removed: Vec<Removed>,
    /// Offerings that every rule left.
    pub left: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    pub offerings: usize,
    pub refusal: Refusal,
}

/// What became of one existing node for one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeStory {
    pub reason: Reason,
    pub nodes: usize,
    pub example: Text,
    pub message: String,
}

/// Why a pod is where it is in the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodStory {
    /// Where the plan puts it: the name of a node or of a launch.
    pub placed_on: Option<Text>,
    /// The reason that stands before any node is looked at.
    pub refused: Option<Refusal>,
    pub pools: Vec<PoolStory>,
    pub nodes: Vec<NodeStory>,
}

/// The story of one pending pod; `None` if the pod is not pending.
pub fn pod(snapshot: &Snapshot, policy: &Policy, pod: usize) -> Option<PodStory> {
    let plan = provision::plan(snapshot, policy);
    let bind = plan.binds.iter().find(|bind| bind.pod == pod);
    let placed_on = bind.map(|bind| match bind.host {
        crate::plan::Host::Node(node) => snapshot.nodes[node].name.clone(),
        crate::plan::Host::Launch(launch) => plan.launches[launch].name.clone(),
    });
    provision::with_packed(snapshot, policy, |packer, prepared| {
        if let Some((_, refusal)) = prepared.classes.refused.iter().find(|(refused, _)| *refused == pod) {
            return Some(PodStory {
                placed_on: None,
                refused: Some(refusal.clone()),
                pools: Vec::new(),
                nodes: Vec::new(),
            });
        }
        let class = prepared.classes.all.iter().position(|class| class.pods.contains(&pod))?;
        let refused = claim_in_use(packer, &prepared.classes.all[class]).filter(|_| placed_on.is_none());
        let pools = (0..snapshot.pools.len()).map(|pool| pool_story(prepared, packer, class, pool)).collect();
        // A pod that has its place takes room there; what the others lack is beside the point.
        let nodes = if placed_on.is_some() { Vec::new() } else { node_stories(prepared, packer, class) };
        Some(PodStory { placed_on, refused, pools, nodes })
    })
}

/// One refusal per pool: the rule that took the last of its offerings.
pub(crate) fn refusals(prepared: &Prepared<'_>, packer: &Packer<'_>, class: usize) -> Vec<PoolRefusal> {
    let snapshot = prepared.snapshot;
    if let Some(refusal) = claim_in_use(packer, &prepared.classes.all[class]) {
        return vec![PoolRefusal { pool: None, refusal }];
    }
    if snapshot.pools.is_empty() {
        let refusal =
            Reason::NoPool.because("no pool is given that could buy a node, and no existing node has room");
        return vec![PoolRefusal { pool: None, refusal }];
    }
    (0..snapshot.pools.len())
        .map(|pool| {
            let story = pool_story(prepared, packer, class, pool);
            let refusal = story.removed.into_iter().next_back().map_or_else(
                || Reason::NoOffering.because("the pool offers nothing"),
                |removed| removed.refusal,
            );
            PoolRefusal { pool: Some(story.pool), refusal }
        })
        .collect()
}

/// Why no node could help: another pod has a claim that only one pod may use.
fn claim_in_use(packer: &Packer<'_>, class: &Class) -> Option<Refusal> {
    packer.held_claim(class).map(|claim| {
        Reason::VolumeInUse.because(format!("another pod has claim {claim}, which only one pod may use"))
    })
}

fn pool_story(
    prepared: &Prepared<'_>,
    packer: &Packer<'_>,
    class_index: usize,
    pool_index: usize,
) -> PoolStory {
    let pool = &prepared.snapshot.pools[pool_index];
    let class = &prepared.classes.all[class_index];
    let offer = &prepared.market.pools[pool_index];
    let mut funnel = Funnel { left: offer.offerings, removed: Vec::new() };
    let story = |funnel: Funnel| PoolStory {
        pool: pool.name.clone(),
        offerings: offer.offerings,
        removed: funnel.removed,
        left: funnel.left,
    };
    if let Some(refusal) = &pool.blocked {
        funnel.remove_all(refusal.clone());
        return story(funnel);
    }
    if pool.replicas.is_some() {
        funnel.remove_all(Reason::PoolStatic.because("the pool has a fixed number of nodes"));
        return story(funnel);
    }
    if offer.offerings == 0 {
        funnel.remove_all(Reason::NoOffering.because("the catalog has nothing for the pool"));
        return story(funnel);
    }
    funnel.remove(
        offer.outside_requirements,
        Reason::NoOffering.because(format!(
            "the pool's requirements leave {} of {} offerings",
            offer.offerings - offer.outside_requirements,
            offer.offerings
        )),
    );
    funnel.remove(
        offer.unavailable,
        Reason::OfferingUnavailable
            .because(format!("{} offerings cannot be had at the moment", offer.unavailable)),
    );
    judge_cells(prepared, packer, class_index, pool_index, &mut funnel);
    debug_assert!(funnel.left <= offer.offerings, "{class:?} {pool_index}");
    story(funnel)
}

struct Funnel {
    left: usize,
    removed: Vec<Removed>,
}

impl Funnel {
    fn remove(&mut self, offerings: usize, refusal: Refusal) {
        if offerings > 0 {
            self.left = self.left.saturating_sub(offerings);
            self.removed.push(Removed { offerings, refusal });
        }
    }

    fn remove_all(&mut self, refusal: Refusal) {
        self.removed.push(Removed { offerings: self.left, refusal });
        self.left = 0;
    }
}

/// Takes offerings away rule by rule, in the order: labels and taints, resources, other pods, limits.
fn judge_cells(
    prepared: &Prepared<'_>,
    packer: &Packer<'_>,
    class_index: usize,
    pool_index: usize,
    funnel: &mut Funnel,
) {
    let pool = &prepared.snapshot.pools[pool_index];
    let class = &prepared.classes.all[class_index];
    let too_small = lacking(prepared, class, pool_index);
    // An offering in several custom-label variants counts once, by the variant that gets furthest.
    let mut verdicts: BTreeMap<(usize, usize), Verdict> = BTreeMap::new();
    for (cell_index, cell) in
        prepared.market.cells.iter().enumerate().filter(|(_, cell)| cell.pool == pool_index)
    {
        let by_labels =
            class.demand.refusal(cell, pool.taints.iter()).map(|refusal| named(refusal, class, cell, pool));
        let by_pods = packer
            .topology_refusal(class, cell_index)
            .map(|refusal| topology_message(packer, refusal, cell_index));
        let by_min_values = (!packer.min_values_allow_alone(class_index, cell_index)).then(|| {
            Reason::MinValues.because("too few different offerings would be left for the pool's minValues")
        });
        let by_ports =
            class.ports.iter().find(|port| cell.daemon_ports.iter().any(|taken| taken.conflicts(port))).map(
                |port| Reason::HostPort.because(format!("a DaemonSet takes host port {port} on every node")),
            );
        for candidate in &cell.candidates {
            let no_room = times_fitting(&class.requests, &candidate.free) == 0;
            let no_attach = !packer.volumes_fit_new(class, pool_index, candidate);
            let shortage = packer.ledger.shortage(pool_index, candidate);
            let refusals = [
                by_labels.clone(),
                by_ports.clone(),
                no_room.then(|| too_small.clone()),
                no_attach.then(|| too_many_volumes(class)),
                by_pods.clone(),
                shortage.map(|shortage| packer.ledger.refusal(pool_index, shortage)),
                by_min_values.clone(),
            ];
            let rules = refusals.len();
            let first = refusals.into_iter().enumerate().find_map(|(stage, refusal)| Some((stage, refusal?)));
            let verdict = Verdict {
                stage: first
                    .as_ref()
                    .map_or((rules, 0), |(stage, refusal)| (*stage, label_stage(refusal.reason))),
                price: candidate.price,
                refusal: first.map(|(_, refusal)| refusal),
            };
            let slot = verdicts
                .entry((candidate.instance_type, candidate.offering))
                .or_insert_with(|| verdict.clone());
            if slot.stage < verdict.stage {
                *slot = verdict;
            }
        }
    }
    // What is said of many offerings is what stands in the way of the cheapest of them.
    let mut verdicts: Vec<Verdict> = verdicts.into_values().collect();
    verdicts.sort_by_key(|verdict| (verdict.stage, verdict.price));
    let mut removed: BTreeMap<((usize, usize), Reason), (usize, Refusal)> = BTreeMap::new();
    for Verdict { stage, refusal, .. } in verdicts {
        if let Some(refusal) = refusal {
            removed.entry((stage, refusal.reason)).or_insert((0, refusal)).0 += 1;
        }
    }
    for (count, refusal) in removed.into_values() {
        funnel.remove(count, refusal);
    }
}

/// How far an offering got, and what stopped it.
#[derive(Clone)]
struct Verdict {
    /// Which rule, and which of the rules about labels: later is further.
    stage: (usize, usize),
    price: i64,
    refusal: Option<Refusal>,
}

fn label_stage(reason: Reason) -> usize {
    match reason {
        Reason::UntoleratedTaint => 0,
        Reason::RestrictedLabel => 1,
        Reason::NodeSelector => 2,
        Reason::NodeAffinity => 3,
        _ => 4,
    }
}

/// The refusal in the pool's words: what the pod asks, what the pool's nodes would have.
fn named(refusal: Refusal, class: &Class, cell: &Cell, pool: &Pool) -> Refusal {
    match refusal.reason {
        Reason::UntoleratedTaint => {
            let taint =
                fit::untolerated(&class.demand.tolerations, pool.taints.iter(), fit::SoftTaints::Accept);
            taint.map_or(refusal, |taint| {
                Reason::UntoleratedTaint
                    .because(format!("the pool's nodes have the taint {taint}; add a toleration for it"))
            })
        }
        Reason::NodeSelector => {
            if let Some((key, why)) = fit::restricted_label(&class.spec) {
                return Reason::RestrictedLabel
                    .because(format!("no new node can be asked for by {key}: {why}"));
            }
            class.demand.selector_refusal(cell).map_or(refusal, |expression| {
                let has = cell.label(expression.key()).map_or("do not have that label".to_owned(), |value| {
                    format!("have {}={value}", expression.key())
                });
                Reason::NodeSelector.because(format!("the pod asks for {expression}; the pool's nodes {has}"))
            })
        }
        _ => refusal,
    }
}

/// What the pod asks for beyond the largest that the pool offers.
fn lacking(prepared: &Prepared<'_>, class: &Class, pool: usize) -> Refusal {
    let candidates =
        || prepared.market.cells.iter().filter(|cell| cell.pool == pool).flat_map(|cell| &cell.candidates);
    for (dimension, name) in prepared.dimensions.names.iter().enumerate() {
        let asked = class.requests[dimension];
        let most = candidates().map(|candidate| candidate.free[dimension]).max().unwrap_or(0);
        if asked > most {
            return Reason::lacking(name).because(format!(
                "the pod asks for {} {}; the largest node of the pool has {} for pods",
                format_amount(name, asked),
                name,
                format_amount(name, most.max(0)),
            ));
        }
    }
    // Each resource alone would fit somewhere: name the one that the most roomy node for the others lacks.
    let (dimension, name) = prepared
        .dimensions
        .names
        .iter()
        .enumerate()
        .filter(|(dimension, _)| class.requests[*dimension] > 0)
        .max_by_key(|(dimension, _)| {
            candidates().filter(|candidate| candidate.free[*dimension] < class.requests[*dimension]).count()
        })
        .map_or((0, Text::from(resources::CPU)), |(dimension, name)| (dimension, name.clone()));
    Reason::lacking(&name).because(format!(
        "these have too little {name} for the {} that the pod asks for, or for that together with the rest",
        format_amount(&name, class.requests[dimension]),
    ))
}

fn too_many_volumes(class: &Class) -> Refusal {
    let volumes = class.volumes.own.values().sum::<u32>() as usize + class.volumes.shared.len();
    Reason::VolumeAttachLimit
        .because(format!("the pod has {volumes} volumes, more than a node of this type can attach"))
}

fn topology_message(packer: &Packer<'_>, refusal: TopologyRefusal, cell: usize) -> Refusal {
    let key_of = |group: usize| packer.topology.groups[group].key;
    let place = |key: usize| {
        let name = &packer.topology.keys[key].name;
        match packer.topology.domain_name(Place::NewIn(cell), key) {
            Some(domain) => format!("{name}={domain}"),
            None => format!("a new {name}"),
        }
    };
    match refusal {
        TopologyRefusal::KeyMissing(key) => Reason::TopologyKeyMissing
            .because(format!("the pool's nodes have no label {}", packer.topology.keys[key].name)),
        TopologyRefusal::Spread(group) => Reason::TopologySpread
            .because(format!("{} already has as many of these pods as maxSkew allows", place(key_of(group)))),
        TopologyRefusal::Affinity(group) => Reason::PodAffinity
            .because(format!("no pod that the required affinity asks for is in {}", place(key_of(group)))),
        TopologyRefusal::AntiAffinity(group) => Reason::PodAntiAffinity
            .because(format!("{} has a pod that the required anti-affinity excludes", place(key_of(group)))),
        TopologyRefusal::Shunned(group) => Reason::ExistingAntiAffinity
            .because(format!("{} has a pod whose anti-affinity excludes this one", place(key_of(group)))),
    }
}

/// Existing nodes by the first rule that closes each.
fn node_stories(prepared: &Prepared<'_>, packer: &Packer<'_>, class_index: usize) -> Vec<NodeStory> {
    let mut stories: BTreeMap<Reason, NodeStory> = BTreeMap::new();
    for (host, node) in existing(packer) {
        if let Some(refusal) = host_refusal(prepared, packer, class_index, host) {
            stories
                .entry(refusal.reason)
                .or_insert_with(|| NodeStory {
                    reason: refusal.reason,
                    nodes: 0,
                    example: prepared.snapshot.nodes[node].name.clone(),
                    message: refusal.message,
                })
                .nodes += 1;
        }
    }
    stories.into_values().collect()
}

/// Whether some other node would take a pod of the class, if it were not for the pods that are on it or near it.
pub(crate) fn is_kept_apart(
    prepared: &Prepared<'_>,
    packer: &Packer<'_>,
    class_index: usize,
    left: usize,
) -> bool {
    let is_of_pods = |refusal: Refusal| {
        matches!(
            refusal.reason,
            Reason::PodAffinity
                | Reason::PodAntiAffinity
                | Reason::ExistingAntiAffinity
                | Reason::TopologySpread
        )
    };
    existing(packer)
        .filter(|(host, _)| *host != left && !packer.hosts[*host].closed)
        .any(|(host, _)| host_refusal(prepared, packer, class_index, host).is_some_and(is_of_pods))
}

/// The hosts that are nodes, with those.
fn existing(packer: &Packer<'_>) -> impl Iterator<Item = (usize, usize)> {
    packer.hosts.iter().enumerate().filter_map(|(host_id, host)| match host.origin {
        HostOrigin::Node(node) => Some((host_id, node)),
        HostOrigin::Planned { .. } => None,
    })
}

/// The first rule that closes an existing node to the class: labels and taints, room, ports and volumes, other pods.
fn host_refusal(
    prepared: &Prepared<'_>,
    packer: &Packer<'_>,
    class_index: usize,
    host_id: usize,
) -> Option<Refusal> {
    let class = &prepared.classes.all[class_index];
    let snapshot = prepared.snapshot;
    let host = &packer.hosts[host_id];
    let HostOrigin::Node(node) = host.origin else { return None };
    let node = &snapshot.nodes[node];
    let taints = node.lasting_taints(fit::startup_taints(node, &snapshot.pools));
    let by_resources = || {
        let lacking =
            class.requests.iter().zip(&host.free).position(|(asked, left)| *asked > 0 && asked > left)?;
        let name = &prepared.dimensions.names[lacking];
        Some(Reason::lacking(name).because(format!(
            "the pod asks for {} {}, {} is free",
            format_amount(name, class.requests[lacking]),
            name,
            format_amount(name, host.free[lacking].max(0))
        )))
    };
    let by_pods = || {
        let level = class.levels.last()?;
        let refusal = packer.topology.room(&level.rules, &class.appearance, Place::Host(host_id)).err()?;
        let reason = match refusal {
            TopologyRefusal::KeyMissing(_) => Reason::TopologyKeyMissing,
            TopologyRefusal::Spread(_) => Reason::TopologySpread,
            TopologyRefusal::Affinity(_) => Reason::PodAffinity,
            TopologyRefusal::AntiAffinity(_) => Reason::PodAntiAffinity,
            TopologyRefusal::Shunned(_) => Reason::ExistingAntiAffinity,
        };
        Some(reason.because(reason.meaning()))
    };
    let by_ports_and_volumes = || {
        if class.ports.iter().any(|port| host.ports.iter().any(|taken| taken.conflicts(port))) {
            return Some(Reason::HostPort.because(Reason::HostPort.meaning()));
        }
        (host.volumes.room(class) == 0)
            .then(|| Reason::VolumeAttachLimit.because(Reason::VolumeAttachLimit.meaning()))
    };
    class.demand.refusal(node, taints).or_else(by_resources).or_else(by_ports_and_volumes).or_else(by_pods)
}
