//! One look at a cluster as it stands: what waits is placed, and nodes are emptied as far as that pays.
//!
//! Every pod that may move is at home when the look begins. Nodes are then emptied on trial, alone and
//! together, into the room of the others and into what could be bought; a trial that does not fit or does
//! not pay is undone. A node that has taken pods stays, so no pod moves twice.

use fixedbitset::FixedBitSet;
use rustc_hash::FxHashMap;

use super::worthwhile::{Costs, Judge};
use crate::class;
use crate::disruption::{DisruptionCost, DisruptionReason};
use crate::explain;
use crate::host::HostOrigin;
use crate::names::Labels;
use crate::pack::{Mark, Packer};
use crate::plan::{PoolRefusal, Unplaced};
use crate::pod::Pod;
use crate::provision::{ClassOrder, Prepared};
use crate::reason::{Reason, Refusal};
use crate::safety::{Allowances, Leaving, Safety, is_forced};
use crate::snapshot::{MinValuesPolicy, Policy, Snapshot};
use crate::topology::HostId;
use crate::units::Price;

/// Pods, or places of nodes in a set, each with the host that it went to.
type OnHosts = Vec<(usize, HostId)>;

/// A node that should be bought, independent of how the market was sorted into cells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NewNode {
    /// Indices into the snapshot's pools, the pool's types and the type's offerings.
    pub(super) pool: usize,
    pub(super) instance_type: usize,
    pub(super) offering: usize,
    /// Values of the pool's open custom labels.
    pub(super) custom: Labels,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spot {
    /// An index into the nodes of the snapshot that was looked at.
    Node(usize),
    /// An index into the outcome's new nodes.
    New(usize),
}

/// What one look found.
#[derive(Debug)]
pub(super) struct Outcome {
    /// Each pod that gets a place, in a legal order.
    pub(super) binds: Vec<(usize, Spot)>,
    /// Indices of the nodes that go.
    pub(super) removed: Vec<usize>,
    pub(super) new: Vec<NewNode>,
    pub(super) unplaced: Vec<Unplaced>,
    /// For each node that stays what stands in the way, beyond the rules about it alone.
    pub(super) refusals: Vec<Option<Refusal>>,
    pub(super) safety: Safety,
}

/// Which nodes a look may empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    All,
    /// This one alone, whether or not it pays.
    Only(usize),
}

/// Looks at the cluster. The nodes in `planned` do not exist yet: no budget counts them.
pub(super) fn look(view: &Snapshot, policy: &Policy, planned: &FixedBitSet, scope: Scope) -> Outcome {
    let safety = Safety::judge_beside(view, planned);
    let in_scope = |node: usize| match scope {
        Scope::All => true,
        Scope::Only(only) => node == only,
    };
    let pending = class::pending(view);
    let mut to_place = pending.clone();
    to_place.grow(view.pods.len());
    for (_, node) in safety.nodes.iter().enumerate().filter(|(node, _)| in_scope(*node)) {
        to_place.extend(node.evictable().into_iter().flatten().map(crate::safety::Evictable::pod));
    }
    let prepared = Prepared::new(view, policy, &to_place);
    let homes = Homes::of(&prepared, &pending);
    let mut pass = Pass::new(&prepared, safety, homes, planned, scope);
    pass.place_waiting();
    pass.empty_forced();
    if scope == Scope::All {
        pass.remove_empty();
        pass.remove_into_room();
        pass.replace_sets();
        pass.replace_alone();
    } else {
        pass.empty_regardless();
    }
    pass.outcome()
}

/// Where the pods that are to be placed come from.
pub(super) struct Homes {
    /// For each class the pods that wait.
    pub(super) waiting: Vec<Vec<usize>>,
    /// For each host the pods that could leave it, by class.
    pub(super) on_host: Vec<Vec<(usize, Vec<usize>)>>,
    /// For each node its host, unless it is going away.
    pub(super) host_of: Vec<Option<HostId>>,
}

impl Homes {
    pub(super) fn of(prepared: &Prepared<'_>, pending: &FixedBitSet) -> Self {
        let snapshot = prepared.snapshot;
        let mut host_of = vec![None; snapshot.nodes.len()];
        let mut by_name: FxHashMap<&str, HostId> = FxHashMap::default();
        for (host, slot) in prepared.hosts.iter().enumerate() {
            if let HostOrigin::Node(node) = slot.origin {
                host_of[node] = Some(host);
                by_name.insert(&snapshot.nodes[node].name, host);
            }
        }
        let mut waiting = vec![Vec::new(); prepared.classes.all.len()];
        let mut on_host: Vec<Vec<(usize, Vec<usize>)>> = vec![Vec::new(); prepared.hosts.len()];
        for (class_index, class) in prepared.classes.all.iter().enumerate() {
            for pod in &class.pods {
                let home = snapshot.pods[*pod].node.as_ref().and_then(|node| by_name.get(&**node));
                match home {
                    Some(host) if !pending.contains(*pod) => {
                        let classes = &mut on_host[*host];
                        match classes.last_mut() {
                            Some((last, pods)) if *last == class_index => pods.push(*pod),
                            _ => classes.push((class_index, vec![*pod])),
                        }
                    }
                    _ => waiting[class_index].push(*pod),
                }
            }
        }
        Self { waiting, on_host, host_of }
    }

    /// How many pods of which class are on which host.
    pub(super) fn counts(&self) -> impl Iterator<Item = (usize, HostId, u32)> {
        self.on_host.iter().enumerate().flat_map(|(host, classes)| {
            classes
                .iter()
                .map(move |(class, pods)| (*class, host, u32::try_from(pods.len()).unwrap_or(u32::MAX)))
        })
    }
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
    removed: bool,
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
    binds: Vec<(usize, HostId)>,
    refusals: Vec<Option<Refusal>>,
}

/// A trial that found every pod a place.
struct Trial {
    mark: Mark,
    /// Which candidates, and which hosts were bought: those that share one are together.
    groups: Vec<Group>,
    moves: Vec<(usize, HostId)>,
}

struct Group {
    candidates: Vec<usize>,
    bought: Vec<HostId>,
}

/// Up to so many nodes every number of them is tried, beyond that halves.
const SMALL_SET: usize = 8;
/// Beyond so many nodes a set costs so much to try that it must promise more.
const LARGE_SET: usize = 64;
/// In percent, beside [`UNREACHABLE_PERCENT`].
const LARGE_SET_MARGIN_PERCENT: i64 = 5;
/// Whatever is bought costs this much more than the least it could, in percent: whole pods on whole machines.
const UNREACHABLE_PERCENT: i64 = 6;
/// How many times a set is taken before only single nodes are looked at.
const SETS_TAKEN_MAX: usize = 3;
/// After how many nodes that are not worth replacing alone no more are tried: they come in the order of what
/// they promise.
const ALONE_FAILED_MAX: usize = 8;

impl<'a> Pass<'a> {
    fn new(
        prepared: &'a Prepared<'a>,
        safety: Safety,
        homes: Homes,
        planned: &'a FixedBitSet,
        scope: Scope,
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
            .filter(|(node, judged)| {
                judged.is_allowed() && (scope == Scope::All || scope == Scope::Only(*node))
            })
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
    }

    fn pack(&mut self, order: ClassOrder) {
        self.packer = self.prepared.packer(order);
        self.packer.start_with(self.homes.counts());
        for candidate in self.candidates.iter().filter(|candidate| is_forced(candidate.reason)) {
            self.packer.hosts[candidate.host].closed = true;
        }
        for node in self.planned.ones() {
            if let Some(host) = self.homes.host_of[node].filter(|_| self.holds_min_values(node)) {
                self.packer.hosts[host].closed = true;
            }
        }
        self.packer.pack();
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

    /// Drifted, expired and unhealthy nodes go whatever it saves, as long as their pods find a place.
    fn empty_forced(&mut self) {
        let urgency = |reason: DisruptionReason| match reason {
            DisruptionReason::Unhealthy => 0,
            DisruptionReason::Expired => 1,
            _ => 2,
        };
        let mut forced: Vec<usize> =
            (0..self.candidates.len()).filter(|index| is_forced(self.candidates[*index].reason)).collect();
        forced.sort_by_key(|index| {
            let candidate = &self.candidates[*index];
            (urgency(candidate.reason), candidate.cost, candidate.node)
        });
        let set = self.affordable(&forced, Leaving::Replaced);
        if let Some(trial) = self.try_out(&set, true) {
            self.accept(trial);
        } else {
            for index in set {
                match self.try_out(&[index], true) {
                    Some(trial) => self.accept(trial),
                    None => self.refuse_for_room(index),
                }
            }
        }
        let mut reopened = false;
        for candidate in self.candidates.iter().filter(|c| is_forced(c.reason) && !c.removed) {
            self.packer.hosts[candidate.host].closed = false;
            reopened = true;
        }
        if reopened && self.left.iter().any(|left| *left > 0) {
            let first = self.packer.steps.len();
            self.packer.take_up_left(&self.left);
            let classes: Vec<usize> = self.packer.order.clone();
            self.packer.mark();
            for class in classes {
                self.packer.place_all_of(&[class], true);
            }
            self.record_waiting(first);
            self.left = self.packer.set_aside_left();
        }
    }

    fn remove_empty(&mut self) {
        for index in 0..self.candidates.len() {
            if self.candidates[index].reason == DisruptionReason::Empty && self.may_still_go(index) {
                self.remove_alone(index);
            }
        }
    }

    /// Empties nodes into the room of the others: as many at once as find room, then one by one.
    fn remove_into_room(&mut self) {
        let worthwhile: Vec<usize> = (0..self.candidates.len())
            .filter(|index| self.candidates[*index].reason == DisruptionReason::Underutilized)
            .filter(|index| self.may_still_go(*index) && self.worth_deleting(*index).is_ok())
            .collect();
        let set = self.affordable(&worthwhile, Leaving::ForGood);
        if let Some(trial) = self.largest_that_fits(&set) {
            self.accept(trial);
        }
        for index in worthwhile {
            if self.may_still_go(index) {
                self.remove_alone(index);
            }
        }
    }

    /// The most of the nodes, in their order, whose pods find room together on the others.
    fn largest_that_fits(&mut self, set: &[usize]) -> Option<Trial> {
        let most = self.room_for(set);
        if most < 2 {
            return None;
        }
        let (mut fits, mut too_many) = (0, most + 1);
        // Rooms are never filled to the brim: what is a little below the sum of them comes first.
        let mut size = most - most / 16;
        while too_many - fits > most / 256 + 1 {
            match self.try_out(&set[..size], false) {
                Some(trial) => {
                    self.packer.undo(trial.mark);
                    fits = size;
                }
                None => too_many = size,
            }
            size = fits.midpoint(too_many).max(1);
        }
        self.try_out(&set[..fits], false)
    }

    /// How many of the nodes, in their order, could go if only the sum of the room counted.
    fn room_for(&self, set: &[usize]) -> usize {
        let mut free: Vec<i128> = vec![0; self.prepared.dimensions.len()];
        let open = self.packer.hosts.iter().filter(|host| !host.closed);
        for host in open {
            free.iter_mut().zip(&host.free).for_each(|(sum, free)| *sum += i128::from((*free).max(0)));
        }
        let used = |index: usize| {
            let host = self.candidates[index].host;
            let classes = &self.homes.on_host[host];
            let mut used: Vec<i128> = vec![0; free.len()];
            for (class, pods) in classes {
                crate::bound::add_demand(&mut used, &self.prepared.classes.all[*class].requests, pods.len());
            }
            used
        };
        let mut left = free.clone();
        for (taken, index) in set.iter().enumerate() {
            let host = &self.packer.hosts[self.candidates[*index].host];
            for ((left, used), own) in left.iter_mut().zip(used(*index)).zip(&host.free) {
                *left -= used + i128::from((*own).max(0));
            }
            if left.iter().any(|left| *left < 0) {
                return taken;
            }
        }
        set.len()
    }

    /// Takes one node away if its pods find room on the others and it pays.
    fn remove_alone(&mut self, index: usize) {
        if let Err(refusal) = self.worth_deleting(index) {
            self.refuse(index, refusal);
            return;
        }
        let mut allowances = self.allowances.clone();
        if let Err(reason) =
            allowances.take(&self.safety.nodes[self.candidates[index].node], Leaving::ForGood)
        {
            self.refuse(index, spent(reason));
            return;
        }
        match self.try_out(&[index], false) {
            Some(trial) => self.accept(trial),
            None => self.refuse_for_room(index),
        }
    }

    /// Buys anew for sets of nodes that are dearer than what their pods need.
    fn replace_sets(&mut self) {
        for _ in 0..SETS_TAKEN_MAX {
            let promising: Vec<usize> =
                (0..self.candidates.len()).filter(|index| self.promises_saving(*index)).collect();
            let set = self.affordable(&promising, Leaving::Replaced);
            let Some(trial) = self.paying_set(&set) else { break };
            self.accept(trial);
        }
    }

    /// Buys anew for single nodes, the most promising first, until that has failed often enough.
    fn replace_alone(&mut self) {
        let mut failed = 0;
        for index in 0..self.candidates.len() {
            if failed < ALONE_FAILED_MAX
                && self.candidates[index].reason == DisruptionReason::Underutilized
                && self.may_still_go(index)
                && !self.replace_one(index)
            {
                failed += 1;
            }
        }
    }

    /// Whether the node goes.
    fn replace_one(&mut self, index: usize) -> bool {
        let node = self.candidates[index].node;
        if let Err(reason) = self.allowances.clone().take(&self.safety.nodes[node], Leaving::Replaced) {
            self.refuse(index, spent(reason));
            return false;
        }
        let Some(trial) = self.try_out(&[index], true) else {
            self.refuse_for_room(index);
            return false;
        };
        match self.pays(&trial) {
            Ok(_) => {
                self.accept(trial);
                true
            }
            Err((_, refusal)) => {
                self.packer.undo(trial.mark);
                self.refuse(index, refusal);
                false
            }
        }
    }

    /// Empties the nodes whether or not it pays: to see what it would take.
    fn empty_regardless(&mut self) {
        for index in 0..self.candidates.len() {
            if self.candidates[index].removed {
                continue;
            }
            match self.try_out(&[index], true) {
                Some(trial) => {
                    let refusal = self.pays(&trial).err().map(|(_, refusal)| refusal);
                    self.accept(trial);
                    self.refusals[self.candidates[index].node] = refusal;
                }
                None => self.refuse_for_room(index),
            }
        }
    }

    /// The largest set of the first so many nodes that pays; among few nodes the one that pays most.
    fn paying_set(&mut self, set: &[usize]) -> Option<Trial> {
        let mut size = set.len();
        while size > SMALL_SET {
            if (size <= LARGE_SET || self.promises_much(&set[..size]))
                && let Some(trial) = self.try_paying(&set[..size])
            {
                return Some(trial);
            }
            size /= 2;
        }
        let mut best: Option<(i64, usize)> = None;
        for size in (2..=size).rev() {
            let Some(trial) = self.try_paying(&set[..size]) else { continue };
            let net = self.pays(&trial).unwrap_or(0);
            self.packer.undo(trial.mark);
            if best.is_none_or(|(most, _)| net > most) {
                best = Some((net, size));
            }
        }
        best.and_then(|(_, size)| self.try_paying(&set[..size]))
    }

    /// Tries the set, or the part of it that pays; nothing has changed if none does.
    fn try_paying(&mut self, set: &[usize]) -> Option<Trial> {
        let trial = self.try_out(set, true)?;
        let Err(((_, paying), _)) = self.pays(&trial) else { return Some(trial) };
        self.packer.undo(trial.mark);
        if paying.is_empty() {
            return None;
        }
        let trial = self.try_out(&paying, true)?;
        if self.pays(&trial).is_ok() {
            return Some(trial);
        }
        self.packer.undo(trial.mark);
        None
    }

    /// What the trial saves after its disruption, or which part of it would, and why the rest does not.
    fn pays(&self, trial: &Trial) -> Result<i64, ((i64, Vec<usize>), Refusal)> {
        let mut net = 0_i64;
        let mut paying = Vec::new();
        let mut refused = None;
        for group in &trial.groups {
            let costs = self.costs(group);
            match self.judge.judge(&costs).and_then(|net| self.spot_choice(group, &costs).map(|()| net)) {
                Ok(saved) => {
                    net = net.saturating_add(saved);
                    paying.extend(&group.candidates);
                }
                Err(refusal) => refused = Some(refusal),
            }
        }
        paying.sort_unstable();
        match refused {
            None => Ok(net),
            Some(refusal) => Err(((net, paying), refusal)),
        }
    }

    fn costs(&self, group: &Group) -> Costs {
        let nodes = group.candidates.iter().map(|index| {
            let candidate = &self.candidates[*index];
            (self.safety.nodes[candidate.node].pool, candidate.price, candidate.cost)
        });
        let bought = group.bought.iter().filter_map(|host| self.packer.price_of_planned(*host));
        Costs { nodes: nodes.collect(), bought: bought.fold(Price::ZERO, Price::plus) }
    }

    /// A spot node that replaces a spot node must have enough types to choose from that save money too.
    fn spot_choice(&self, group: &Group, costs: &Costs) -> Result<(), Refusal> {
        let snapshot = self.prepared.snapshot;
        let was_spot = group.candidates.iter().any(|index| {
            let labels = &snapshot.nodes[self.candidates[*index].node].labels;
            labels.get(crate::names::CAPACITY_TYPE).is_some_and(|value| **value == *"spot")
        });
        if !was_spot {
            return Ok(());
        }
        let wanted = self.prepared.policy.disruption.spot_types_min;
        for host in &group.bought {
            let Some(types) = self.spot_types(*host, costs.saves()) else { continue };
            if types < wanted {
                return Err(Reason::SpotAlternatives.because(format!(
                    "{types} instance types would do as spot for less, and {wanted} are wanted"
                )));
            }
        }
        Ok(())
    }

    /// How many types could stand in for a planned spot host and leave a saving; `None` if it is not spot.
    fn spot_types(&self, host: HostId, saves: Price) -> Option<u32> {
        let HostOrigin::Planned { cell, candidate } = self.packer.hosts[host].origin else { return None };
        let cell_ref = &self.prepared.market.cells[cell];
        let pool = &self.prepared.snapshot.pools[cell_ref.pool];
        let chosen = &cell_ref.candidates[candidate];
        let is_spot = |other: &crate::market::Candidate| {
            pool.types[other.instance_type].offerings[other.offering].capacity_type
                == crate::catalog::CapacityType::Spot
        };
        if !is_spot(chosen) {
            return None;
        }
        let below = chosen.price.saturating_add(saves.micro_usd());
        let placed = &self.packer.hosts[host].placed;
        let load = self.packer.hosts[host].load(chosen);
        let mut types: Vec<usize> = self
            .packer
            .cells_for(placed, cell)
            .flat_map(|other| self.packer.substitutes_in(other, cell, placed, &load).collect::<Vec<_>>())
            .filter(|other| is_spot(other) && other.price < below)
            .map(|other| other.instance_type)
            .collect();
        types.sort_unstable();
        types.dedup();
        Some(u32::try_from(types.len()).unwrap_or(u32::MAX))
    }

    fn worth_deleting(&self, index: usize) -> Result<i64, Refusal> {
        self.judge.judge(&self.costs(&Group { candidates: vec![index], bought: Vec::new() }))
    }

    /// Whether its pods could cost so much less that it pays, if all went well.
    fn promises_saving(&self, index: usize) -> bool {
        let candidate = &self.candidates[index];
        candidate.reason == DisruptionReason::Underutilized
            && self.may_still_go(index)
            && candidate.waste >= self.judge.least_saving(candidate.price, candidate.cost)
    }

    /// Whether a large set promises so much that it is worth trying.
    fn promises_much(&self, set: &[usize]) -> bool {
        let promised = |index: &usize| {
            let candidate = &self.candidates[*index];
            candidate.waste
                - candidate.price.micro_usd() * LARGE_SET_MARGIN_PERCENT / 100
                - self.judge.least_saving(candidate.price, candidate.cost)
        };
        set.iter().map(promised).sum::<i64>() > 0
    }

    /// Still there, and nothing has been put on it.
    fn may_still_go(&self, index: usize) -> bool {
        let candidate = &self.candidates[index];
        !candidate.removed && self.packer.hosts[candidate.host].arrivals == 0
    }

    /// The nodes that budgets let go together, in their order.
    fn affordable(&mut self, indices: &[usize], leaving: Leaving) -> Vec<usize> {
        let mut allowances = self.allowances.clone();
        let mut set = Vec::new();
        for index in indices {
            match allowances.take(&self.safety.nodes[self.candidates[*index].node], leaving) {
                Ok(()) => set.push(*index),
                Err(reason) => self.refuse(*index, spent(reason)),
            }
        }
        set
    }

    /// Empties the nodes and finds their pods places; nothing has changed if that fails.
    fn try_out(&mut self, set: &[usize], may_buy: bool) -> Option<Trial> {
        if set.is_empty() {
            return None;
        }
        let mark = self.packer.mark();
        let staying: Vec<u32> = self.staying();
        let mut classes = Vec::new();
        for index in set {
            let host = self.candidates[*index].host;
            for (class, pods) in &self.homes.on_host[host] {
                self.packer.unbind(*class, host, u32::try_from(pods.len()).unwrap_or(u32::MAX));
                classes.push(*class);
            }
            self.packer.leave(host);
        }
        classes.sort_unstable_by_key(|class| self.rank[*class]);
        classes.dedup();
        if may_buy {
            self.packer.launch_fixed_nodes();
        }
        let all_placed = self.packer.place_all_of(&classes, may_buy);
        if !all_placed || (may_buy && self.below_minimum(&staying)) {
            self.packer.undo(mark);
            return None;
        }
        let (moves, links) = self.assign(set, mark);
        let groups = self.group(set, mark, &links);
        Some(Trial { mark, groups, moves })
    }

    fn staying(&self) -> Vec<u32> {
        (0..self.prepared.snapshot.pools.len()).map(|pool| self.packer.ledger.nodes_staying(pool)).collect()
    }

    /// Whether a pool has fewer nodes than it must have, and had more before.
    fn below_minimum(&self, before: &[u32]) -> bool {
        self.prepared.snapshot.pools.iter().zip(before).enumerate().any(|(index, (pool, before))| {
            let target = pool.replicas.unwrap_or(pool.nodes_min);
            self.packer.ledger.nodes_staying(index) < target.min(*before)
        })
    }

    /// Which pod of the emptied nodes took which of the packer's steps, and which nodes' pods are on which
    /// new host. A host that has pods of a node takes more of that node's first, so that few nodes share one.
    fn assign(&self, set: &[usize], mark: Mark) -> (OnHosts, OnHosts) {
        let mut queues: FxHashMap<usize, Vec<(usize, &[usize])>> = FxHashMap::default();
        for (position, index) in set.iter().enumerate() {
            for (class, pods) in &self.homes.on_host[self.candidates[*index].host] {
                queues.entry(*class).or_default().push((position, pods));
            }
        }
        let mut linked: FxHashMap<HostId, Vec<usize>> = FxHashMap::default();
        let mut moves = Vec::new();
        let mut links = Vec::new();
        for step in &self.packer.steps[mark.steps..] {
            let Some(queue) = queues.get_mut(&step.class) else { continue };
            let is_new = step.host >= mark.hosts;
            let mut wanted = step.pods as usize;
            while wanted > 0 && !queue.is_empty() {
                let near = linked.get(&step.host);
                let next = near
                    .and_then(|near| queue.iter().position(|(position, _)| near.contains(position)))
                    .unwrap_or(0);
                let (position, pods) = &mut queue[next];
                let taken = wanted.min(pods.len());
                moves.extend(pods[..taken].iter().map(|pod| (*pod, step.host)));
                *pods = &pods[taken..];
                wanted -= taken;
                if is_new && !linked.get(&step.host).is_some_and(|near| near.contains(position)) {
                    linked.entry(step.host).or_default().push(*position);
                    links.push((*position, step.host));
                }
                if queue[next].1.is_empty() {
                    queue.remove(next);
                }
            }
        }
        (moves, links)
    }

    /// Nodes that share a new host, with what was bought for them.
    fn group(&self, set: &[usize], mark: Mark, links: &[(usize, HostId)]) -> Vec<Group> {
        let bought = mark.hosts..self.packer.hosts.len();
        let mut sets = super::Sets::new(set.len() + bought.len());
        let slot = |host: HostId| set.len() + host - mark.hosts;
        for (position, host) in links {
            sets.join(*position, slot(*host));
        }
        // What nobody uses yet replaces a node of its pool.
        for host in bought.clone().filter(|host| self.packer.hosts[*host].placed.is_empty()) {
            let pool = self.packer.pool_of(host);
            let same_pool = set
                .iter()
                .position(|index| self.safety.nodes[self.candidates[*index].node].pool == pool)
                .unwrap_or(0);
            sets.join(same_pool, slot(host));
        }
        let mut groups: Vec<Group> = Vec::new();
        let mut group_of: FxHashMap<usize, usize> = FxHashMap::default();
        for (position, index) in set.iter().enumerate() {
            let group = *group_of.entry(sets.find(position)).or_insert_with(|| {
                groups.push(Group { candidates: Vec::new(), bought: Vec::new() });
                groups.len() - 1
            });
            groups[group].candidates.push(*index);
        }
        for host in bought {
            if let Some(group) = group_of.get(&sets.find(slot(host))) {
                groups[*group].bought.push(host);
            }
        }
        groups
    }

    fn accept(&mut self, trial: Trial) {
        for group in &trial.groups {
            for index in &group.candidates {
                let leaving = Leaving::Replaced;
                let node = self.candidates[*index].node;
                // It was affordable before the trial; what it takes is taken now.
                let _ = self.allowances.take(&self.safety.nodes[node], leaving);
                self.candidates[*index].removed = true;
                self.refusals[node] = None;
            }
        }
        self.binds.extend(trial.moves);
    }

    fn refuse(&mut self, index: usize, refusal: Refusal) {
        self.refusals[self.candidates[index].node] = Some(refusal);
    }

    fn refuse_for_room(&mut self, index: usize) {
        let pods: usize =
            self.homes.on_host[self.candidates[index].host].iter().map(|(_, pods)| pods.len()).sum();
        self.refuse(
            index,
            Reason::PodsFitNowhere
                .because(format!("not all of its {pods} pods find a place elsewhere, bought or not")),
        );
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

/// Something that many nodes share has been spent by those that go.
fn spent(reason: Reason) -> Refusal {
    reason.because(match reason {
        Reason::PodDisruptionBudget => "the plan moves as many pods as a PodDisruptionBudget allows",
        Reason::PoolMinimum => "the plan leaves the pool no more nodes than it must have",
        _ => "the plan takes as many nodes as the pool's disruption budget lets go",
    })
}

/// Whether the pod is only held room for.
pub(super) fn is_virtual(pod: &Pod) -> bool {
    pod.origin == crate::pod::PodOrigin::Buffer
}
