//! One look at a cluster as it stands: what waits is placed, and nodes are emptied as far as that pays.
//!
//! Every pod that may move is at home when the look begins. Nodes are then emptied on trial, alone and
//! together, into the room of the others and into what could be bought; a trial that does not fit or does
//! not pay is undone. A node that has taken pods stays, so no pod moves twice.

mod phases;
mod replacing;
mod trial;

use fixedbitset::FixedBitSet;
use rustc_hash::{FxHashMap, FxHashSet};

use super::draft::View;
use super::homes::Homes;
use super::worthwhile::Judge;
use crate::class;
use crate::disruption::{DisruptionCost, DisruptionReason};
use crate::explain;
use crate::host::HostOrigin;
use crate::names::{Labels, Text};
use crate::pack::Packer;
use crate::plan::{PoolRefusal, Unplaced};
use crate::pod::Pod;
use crate::provision::{ClassOrder, Prepared};
use crate::reason::{Reason, Refusal};
use crate::safety::{Allowances, Safety, is_forced};
use crate::snapshot::{MinValuesPolicy, Policy};
use crate::topology::HostId;
use crate::units::Price;

/// A node that should be bought, independent of how the market was sorted into cells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::disrupt) struct NewNode {
    /// Indices into the snapshot's pools, the pool's types and the type's offerings.
    pub(in crate::disrupt) pool: usize,
    pub(in crate::disrupt) instance_type: usize,
    pub(in crate::disrupt) offering: usize,
    /// Values of the pool's open custom labels.
    pub(in crate::disrupt) custom: Labels,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::disrupt) enum Spot {
    /// An index into the nodes of the snapshot that was looked at.
    Node(usize),
    /// An index into the outcome's new nodes.
    New(usize),
}

/// What one look found.
#[derive(Debug)]
pub(in crate::disrupt) struct Outcome {
    /// Each pod that gets a place, in a legal order.
    pub(in crate::disrupt) binds: Vec<(usize, Spot)>,
    /// Indices of the nodes that go.
    pub(in crate::disrupt) removed: Vec<usize>,
    pub(in crate::disrupt) new: Vec<NewNode>,
    pub(in crate::disrupt) unplaced: Vec<Unplaced>,
    /// For each node that stays what stands in the way, beyond the rules about it alone.
    pub(in crate::disrupt) refusals: Vec<Option<Refusal>>,
    pub(in crate::disrupt) safety: Safety,
    pub(in crate::disrupt) rounds: u64,
}

/// Which nodes a look may empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::disrupt) enum Scope<'a> {
    All,
    /// All, and these before what waits can get in their way, as far as that pays.
    AllAfter(&'a FixedBitSet),
    /// All, but what is bought anew is bought for single nodes: so steps are small.
    Singly,
    /// This one alone, whether or not it pays, or may go: to see what it would take.
    Only(usize),
}

impl Scope<'_> {
    fn holds(self, node: usize) -> bool {
        !matches!(self, Self::Only(only) if only != node)
    }

    fn foresees(self, node: usize) -> bool {
        matches!(self, Self::AllAfter(nodes) if nodes.contains(node))
    }
}

/// Looks at the cluster as it would be. Nodes that do not exist yet no budget counts. What the rules keep as things are, by
/// what they said at the first look, stays: an empty node does not become one to be replaced for the pods that it was given.
pub(in crate::disrupt) fn look(
    View { snapshot: view, origins, planned }: &View,
    policy: &Policy,
    scope: Scope<'_>,
    first: Option<&Safety>,
) -> Outcome {
    let mut safety = Safety::judge_beside(view, planned);
    for (judged, origin) in safety.nodes.iter_mut().zip(origins) {
        if let (Some(first), Spot::Node(node)) = (first, origin)
            && !first.nodes[*node].is_allowed()
        {
            judged.stay_as(&first.nodes[*node]);
        }
    }
    if let Scope::Only(node) = scope
        && !safety.nodes[node].is_allowed()
    {
        safety.suppose_allowed(node);
    }
    let pending = class::pending(view);
    let mut to_place = pending.clone();
    to_place.grow(view.pods.len());
    for (_, node) in safety.nodes.iter().enumerate().filter(|(node, _)| scope.holds(*node)) {
        to_place.extend(node.evictable().into_iter().flatten().map(crate::safety::Evictable::pod));
    }
    let prepared = Prepared::new(view, policy, &to_place);
    let homes = Homes::of(&prepared, &pending);
    let mut pass = Pass::new(&prepared, safety, homes, planned, scope);
    pass.place_waiting();
    pass.empty_forced();
    if let Scope::Only(_) = scope {
        pass.empty_regardless();
    } else {
        pass.remove_empty();
        pass.remove_into_room();
        if scope != Scope::Singly {
            pass.replace_sets();
        }
        pass.replace_alone();
    }
    pass.outcome()
}

/// A node that may go.
struct Candidate {
    node: usize,
    host: HostId,
    reason: DisruptionReason,
    /// With what its pool's nodes cost beyond their price.
    price: Price,
    cost: DisruptionCost,
    /// What its price is above what its pods could cost if bought for well, in micro-dollars.
    waste: i64,
    /// It went in the end when this cluster was looked at before.
    foreseen: bool,
    removed: bool,
}

impl Candidate {
    /// What waits keeps off it as long as it may go.
    fn is_barred(&self) -> bool {
        self.foreseen || is_forced(self.reason)
    }
}

struct Pass<'a> {
    prepared: &'a Prepared<'a>,
    safety: Safety,
    allowances: Allowances,
    homes: Homes,
    /// Nodes that do not exist yet.
    planned: &'a FixedBitSet,
    packer: Packer<'a>,
    /// Waiting pods that found no place, by class.
    left: Vec<u32>,
    /// How far the waiting pods of each class are placed.
    placed: Vec<usize>,
    /// Where each class stands in the packer's order.
    rank: Vec<usize>,
    candidates: Vec<Candidate>,
    judge: Judge,
    /// What the nodes of pools that look at it are asked for of what they have, in percent, before any goes.
    asked_before: FxHashMap<Text, u32>,
    binds: Vec<(usize, HostId)>,
    refusals: Vec<Option<Refusal>>,
}

/// Whatever is bought costs this much more than the least it could, in percent: whole pods on whole machines.
const UNREACHABLE_PERCENT: i64 = 2;

impl<'a> Pass<'a> {
    fn new(
        prepared: &'a Prepared<'a>,
        safety: Safety,
        homes: Homes,
        planned: &'a FixedBitSet,
        scope: Scope<'_>,
    ) -> Self {
        let snapshot = prepared.snapshot;
        let judge = Judge::new(snapshot, &prepared.policy.disruption, &safety);
        let worth_on = |host: HostId| -> f64 {
            homes.on_host[host]
                .iter()
                .map(|(class, pods)| {
                    let pods = i64::try_from(pods.len()).unwrap_or(i64::MAX);
                    prepared.proven_worth.value(&prepared.classes.all[*class].requests)
                        * crate::bound::float(pods)
                })
                .sum()
        };
        let mut candidates: Vec<Candidate> = safety
            .nodes
            .iter()
            .enumerate()
            .filter(|(node, judged)| judged.is_allowed() && scope.holds(*node))
            .filter_map(|(node, judged)| {
                let host = homes.host_of[node]?;
                let beyond = judged.pool.map_or(Price::ZERO, |pool| snapshot.pools[pool].node_cost);
                let price = snapshot.nodes[node].price.unwrap_or(Price::ZERO).plus(beyond);
                #[expect(clippy::cast_possible_truncation, reason = "an order to try things in")]
                let worth = worth_on(host).round() as i64;
                Some(Candidate {
                    node,
                    host,
                    reason: judged.reason,
                    price,
                    cost: judged.cost,
                    waste: price.micro_usd().saturating_sub(worth + worth * UNREACHABLE_PERCENT / 100),
                    foreseen: scope.foresees(node),
                    removed: false,
                })
            })
            .collect();
        // The most wasted money for the least disruption first.
        let merit = |a: &Candidate, b: &Candidate| {
            let cross = |x: &Candidate, y: &Candidate| i128::from(x.waste) * i128::from(y.cost.weight());
            cross(b, a).cmp(&cross(a, b)).then(a.node.cmp(&b.node))
        };
        candidates.sort_by(merit);
        let packer = prepared.packer(ClassOrder::ByShape);
        let classes = prepared.classes.all.len();
        Self {
            prepared,
            allowances: safety.allowances.clone(),
            refusals: vec![None; snapshot.nodes.len()],
            safety,
            homes,
            planned,
            packer,
            left: vec![0; classes],
            placed: vec![0; classes],
            rank: Vec::new(),
            candidates,
            judge,
            asked_before: FxHashMap::default(),
            binds: Vec::new(),
        }
    }

    /// Finds places for what waits. Nodes that have to go take nothing.
    fn place_waiting(&mut self) {
        self.pack(ClassOrder::ByShape);
        if self.prepared.priority_could_matter(&self.packer) {
            self.pack(ClassOrder::ByPriority);
        }
        self.rank = vec![0; self.packer.order.len()];
        for (rank, class) in self.packer.order.iter().enumerate() {
            self.rank[*class] = rank;
        }
        self.record_waiting(0);
        self.left = self.packer.set_aside_left();
        // Where room is held for what may come nothing else moves in: the room would have to be bought again.
        let classes = &self.prepared.classes.all;
        for host in &mut self.packer.hosts {
            host.closed |= host.placed.iter().any(|(class, _)| classes[*class].is_buffer);
        }
        let pools = self.prepared.snapshot.pools.iter().filter(|pool| pool.disruption.checks.is_some());
        let asked = pools.map(|pool| (pool.name.clone(), self.asked_percent(pool, &FxHashSet::default())));
        self.asked_before = asked.collect();
    }

    fn pack(&mut self, order: ClassOrder) {
        let rounds = self.packer.rounds;
        self.packer = self.prepared.packer(order);
        self.packer.start_with(self.homes.counts());
        for candidate in self.candidates.iter().filter(|candidate| candidate.is_barred()) {
            self.packer.hosts[candidate.host].closed = true;
        }
        for node in self.planned.ones() {
            if let Some(host) = self.homes.host_of[node].filter(|_| self.holds_min_values(node)) {
                self.packer.hosts[host].closed = true;
            }
        }
        self.packer.pack();
        self.packer.rounds += rounds;
    }

    /// A node that is only planned must keep the alternatives that its pool asks for: it takes no more pods.
    fn holds_min_values(&self, node: usize) -> bool {
        let pools = &self.prepared.snapshot.pools;
        self.prepared.policy.min_values == MinValuesPolicy::Strict
            && self.safety.nodes[node].pool.is_some_and(|pool| pools[pool].requirements.has_min_values())
    }

    /// Notes which waiting pods the packer's steps from `first` on placed.
    fn record_waiting(&mut self, first: usize) {
        for step in &self.packer.steps[first..] {
            let from = self.placed[step.class];
            let to = from + step.pods as usize;
            self.placed[step.class] = to;
            let pods = &self.homes.waiting[step.class][from..to];
            self.binds.extend(pods.iter().map(|pod| (*pod, step.host)));
        }
    }

    fn refuse(&mut self, index: usize, refusal: Refusal) {
        self.refusals[self.candidates[index].node] = Some(refusal);
    }

    fn refuse_for_room(&mut self, index: usize) {
        // That its pool's shares keep it says more than that nothing could be bought within them.
        let is_kept_by_share =
            |refusal: &Refusal| matches!(refusal.reason, Reason::SpotShare | Reason::ZoneShare);
        if self.refusals[self.candidates[index].node].as_ref().is_some_and(is_kept_by_share) {
            return;
        }
        let pods: usize =
            self.homes.on_host[self.candidates[index].host].iter().map(|(_, pods)| pods.len()).sum();
        let refusal = if self.is_kept_apart(index) {
            Reason::PodsKeptApart.because(format!(
                "not all of its {pods} pods may be where others have room for them, for the pods that are there"
            ))
        } else {
            Reason::PodsFitNowhere
                .because(format!("not all of its {pods} pods find a place elsewhere, bought or not"))
        };
        self.refuse(index, refusal);
    }

    /// Whether it is other pods that keep a pod of the node from another. It is told apart where somebody asks for it.
    fn is_kept_apart(&self, index: usize) -> bool {
        let Candidate { node, host, .. } = self.candidates[index];
        let pool = self.safety.nodes[node].pool.map(|pool| &self.prepared.snapshot.pools[pool]);
        pool.is_some_and(|pool| pool.disruption.checks.is_some())
            && self.homes.on_host[host]
                .iter()
                .any(|(class, _)| explain::is_kept_apart(self.prepared, &self.packer, *class, host))
    }

    fn outcome(mut self) -> Outcome {
        let mut new = Vec::new();
        let mut spots = Vec::with_capacity(self.packer.hosts.len());
        for host in &self.packer.hosts {
            spots.push(match host.origin {
                HostOrigin::Node(node) => Spot::Node(node),
                HostOrigin::Planned { cell, candidate } => {
                    let cell = &self.prepared.market.cells[cell];
                    let chosen = &cell.candidates[candidate];
                    new.push(NewNode {
                        pool: cell.pool,
                        instance_type: chosen.instance_type,
                        offering: chosen.offering,
                        custom: cell.custom.clone(),
                    });
                    Spot::New(new.len() - 1)
                }
            });
        }
        for candidate in &self.candidates {
            if !candidate.removed
                && self.refusals[candidate.node].is_none()
                && self.packer.hosts[candidate.host].arrivals > 0
            {
                let pods = self.packer.hosts[candidate.host].arrivals;
                self.refusals[candidate.node] =
                    Some(Reason::NodeTakesPods.because(format!("the plan puts {pods} pods on it")));
            }
        }
        let removed =
            self.candidates.iter().filter(|candidate| candidate.removed).map(|candidate| candidate.node);
        Outcome {
            removed: removed.collect(),
            unplaced: self.unplaced(),
            binds: self.binds.iter().map(|(pod, host)| (*pod, spots[*host])).collect(),
            new,
            refusals: self.refusals,
            rounds: self.packer.rounds,
            safety: self.safety,
        }
    }

    fn unplaced(&self) -> Vec<Unplaced> {
        let mut unplaced: Vec<Unplaced> = self
            .prepared
            .classes
            .refused
            .iter()
            .map(|(pod, refusal)| Unplaced {
                pod: *pod,
                refusals: vec![PoolRefusal { pool: None, refusal: refusal.clone() }],
            })
            .collect();
        for class in 0..self.left.len() {
            let pods = &self.homes.waiting[class][self.placed[class]..];
            if pods.is_empty() {
                continue;
            }
            let refusals = explain::refusals(self.prepared, &self.packer, class);
            unplaced.extend(pods.iter().map(|pod| Unplaced { pod: *pod, refusals: refusals.clone() }));
        }
        unplaced.sort_by_key(|unplaced| unplaced.pod);
        unplaced
    }
}

/// Whether the pod is only held room for.
pub(in crate::disrupt) fn is_virtual(pod: &Pod) -> bool {
    pod.origin == crate::pod::PodOrigin::Buffer
}

/// Something that many nodes share has been spent by those that go.
fn spent(reason: Reason) -> Refusal {
    reason.because(match reason {
        Reason::PodDisruptionBudget => "the plan moves as many pods as a PodDisruptionBudget allows",
        Reason::PoolMinimum => "the plan leaves the pool no more nodes than it must have",
        Reason::SpotShare => "the plan leaves the pool as much spot beside the rest as it may have",
        Reason::ZoneShare => {
            "the plan leaves its zone no more nodes beside the pool's other zones than it must have"
        }
        _ => "the plan takes as many nodes as the pool's disruption budget lets go",
    })
}
