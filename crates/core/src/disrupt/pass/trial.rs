//! Emptying nodes on trial: where their pods go, what is bought, and whether it pays.

use rustc_hash::FxHashMap;

use super::super::Sets;
use super::super::worthwhile::Costs;
use super::{Pass, spent};
use crate::catalog::CapacityType;
use crate::disruption::{DisruptionReason, Leaving};
use crate::host::HostOrigin;
use crate::market;
use crate::names;
use crate::pack::Mark;
use crate::reason::{Reason, Refusal};
use crate::safety::{NodeSafety, is_forced};
use crate::topology::HostId;
use crate::units::Price;

/// Pods, and the hosts they go to.
type Moves = Vec<(usize, HostId)>;
/// Positions in a set of nodes, and the new hosts that pods of them are on.
type Links = Vec<(usize, HostId)>;

/// Which of the pools' shares decide about a trial.
#[derive(Clone, Copy)]
struct Heeded {
    spot: bool,
    zones: bool,
}

/// A trial that found every pod a place.
pub(super) struct Trial {
    pub(super) mark: Mark,
    /// Which candidates, and which hosts were bought: those that share one are together.
    groups: Vec<Group>,
    moves: Moves,
}

impl Trial {
    /// Which candidates it empties.
    pub(super) fn candidates(&self) -> impl Iterator<Item = usize> {
        self.groups.iter().flat_map(|group| group.candidates.iter().copied())
    }

    /// Which pods go to which hosts.
    pub(super) fn moves(&self) -> impl Iterator<Item = &(usize, HostId)> {
        self.moves.iter()
    }
}

pub(super) struct Group {
    pub(super) candidates: Vec<usize>,
    pub(super) bought: Vec<HostId>,
}

impl Pass<'_> {
    /// Empties the nodes and finds their pods places; nothing has changed if that fails.
    pub(super) fn try_out(&mut self, set: &[usize], may_buy: bool) -> Option<Trial> {
        if set.is_empty() {
            return None;
        }
        let mark = self.packer.mark();
        let reason = |index: &usize| self.candidates[*index].reason;
        // What has to go goes, whatever that makes of the pool's shares, and what is empty whatever its zone has.
        let is_forced = set.iter().map(reason).any(is_forced);
        let is_empty = set.iter().map(reason).all(|reason| reason == DisruptionReason::Empty);
        let heeded = Heeded { spot: !is_forced, zones: !is_forced && !is_empty };
        let faults = self.faults(heeded);
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
        let is_worse = || self.faults(heeded).iter().zip(&faults).any(|(now, before)| now > before);
        if !all_placed || is_worse() {
            self.packer.undo(mark);
            return None;
        }
        let (moves, links) = self.assign(set, mark);
        let groups = self.group(set, mark, &links);
        Some(Trial { mark, groups, moves })
    }

    /// By how many nodes each pool has less than it must have, or other ones than it should have.
    fn faults(&self, heeded: Heeded) -> Vec<u32> {
        let pools = self.prepared.snapshot.pools.iter().enumerate();
        pools
            .flat_map(|(index, pool)| {
                let staying = self.packer.ledger.staying(index);
                let target = pool.replicas.unwrap_or(pool.nodes_min);
                let spot = if heeded.spot { staying.spot_excess() } else { 0 };
                let zones = if heeded.zones { staying.misplaced() } else { 0 };
                [target.saturating_sub(staying.nodes()), spot, zones].into_iter().chain(staying.lacking())
            })
            .collect()
    }

    /// Which pod of the emptied nodes took which of the packer's steps, and which nodes' pods are on which
    /// new host. A host that has pods of a node takes more of that node's first, so that few nodes share one.
    fn assign(&self, set: &[usize], mark: Mark) -> (Moves, Links) {
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
    fn group(&self, set: &[usize], mark: Mark, links: &Links) -> Vec<Group> {
        let bought = mark.hosts..self.packer.hosts.len();
        let mut sets = Sets::new(set.len() + bought.len());
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

    pub(super) fn accept(&mut self, trial: Trial) {
        for group in &trial.groups {
            for index in &group.candidates {
                let node = self.candidates[*index].node;
                // It was affordable before the trial; what it takes is taken now.
                self.allowances.spend(&self.safety.nodes[node]);
                self.candidates[*index].removed = true;
                self.refusals[node] = None;
            }
        }
        self.binds.extend(trial.moves);
    }

    /// What the trial saves after its disruption, or which part of it would, and why the rest does not.
    pub(super) fn pays(&self, trial: &Trial) -> Result<i64, (Vec<usize>, Refusal)> {
        let mut net = 0_i64;
        let mut paying = Vec::new();
        let mut refused = None;
        let mut for_good: Vec<&NodeSafety> = Vec::new();
        for group in &trial.groups {
            let costs = self.costs(group);
            let judged = self.judge.judge(&costs).and_then(|net| {
                self.goes_for_good(group, &mut for_good)?;
                self.spot_choice(group, &costs)?;
                self.may_replace(trial, group, &costs)?;
                Ok(net)
            });
            match judged {
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
            Some(refusal) => Err((paying, refusal)),
        }
    }

    /// Whether rules and budgets let the nodes of a group go if nothing is bought for them, with those for which that holds
    /// as well.
    fn goes_for_good<'s>(&'s self, group: &Group, others: &mut Vec<&'s NodeSafety>) -> Result<(), Refusal> {
        if !group.bought.is_empty() {
            return Ok(());
        }
        let before = others.len();
        let judged = group.candidates.iter().map(|index| &self.safety.nodes[self.candidates[*index].node]);
        if let Some(refusal) = judged.clone().find_map(|node| node.refusal_to_go(Leaving::ForGood)) {
            return Err(refusal.clone());
        }
        others.extend(judged);
        if self.allowances.lets_go(others.iter().copied()) {
            return Ok(());
        }
        others.truncate(before);
        Err(spent(Reason::DisruptionBudget))
    }

    pub(super) fn costs(&self, group: &Group) -> Costs {
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
            labels.get(names::CAPACITY_TYPE).is_some_and(|value| **value == *"spot")
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
        let is_spot = |other: &market::Candidate| {
            pool.types[other.instance_type].offerings[other.offering].capacity_type == CapacityType::Spot
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
}
