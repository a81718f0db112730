//! From the draft to steps: which nodes go together, in which order, and the proof that each step is legal.

use fixedbitset::FixedBitSet;
use rustc_hash::FxHashMap;

use super::draft::Draft;
use super::homes::Homes;
use super::pass::{NewNode, Spot};
use super::{Last, Sets};
use crate::bound;
use crate::class;
use crate::disruption::{DisruptionCost, DisruptionReason};
use crate::host::HostOrigin;
use crate::names::Text;
use crate::optimization::Optimization;
use crate::pack::Packer;
use crate::plan::{Bind, DisruptionStep, Host as PlanHost, Kept, Launch, Plan, Unplaced};
use crate::provision::{ClassOrder, Prepared};
use crate::reason::{Reason, Refusal};
use crate::safety::{NodeSafety, Safety, is_forced};
use crate::snapshot::{Policy, Snapshot};
use crate::topology::HostId;
use crate::units::Price;

/// Writes the draft down as a plan, with at most so many steps that only save money; and whether all of it can be
/// reached step by step.
pub(super) fn assemble(
    snapshot: &Snapshot,
    policy: &Policy,
    safety: &Safety,
    draft: &Draft<'_>,
    last: &Last,
    savings_max: usize,
) -> (Plan, bool) {
    let pending = class::pending(snapshot);
    let mut to_place = pending.clone();
    to_place.grow(snapshot.pods.len());
    for node in &safety.nodes {
        to_place.extend(node.evictable().into_iter().flatten().map(crate::safety::Evictable::pod));
    }
    let prepared = Prepared::new(snapshot, policy, &to_place);
    let mut replay = Replay::new(snapshot, &prepared, safety, draft, &pending);
    replay.launch_unused();
    replay.place_waiting();
    let groups = replay.groups();
    let wanted = groups.iter().map(|group| group.nodes.len()).sum::<usize>();
    replay.replacements.extend(groups.iter().flat_map(|group| group.new.iter().copied()));
    let done = replay.perform(groups, savings_max);
    let reached =
        replay.waiting.is_empty() && done.iter().map(|group| group.nodes.len()).sum::<usize>() == wanted;
    let launched = replay.launched();
    let disruptions = done.iter().map(|group| replay.step(group, &launched)).collect::<Vec<_>>();

    let launches = replay.launches(&launched);
    let binds = replay
        .binds
        .iter()
        .map(|(pod, spot)| Bind {
            pod: *pod,
            host: match spot {
                Spot::Node(node) => PlanHost::Node(*node),
                Spot::New(new) => PlanHost::Launch(launched[new]),
            },
        })
        .collect();
    let removed: FixedBitSet = disruptions.iter().flat_map(|step| step.nodes.iter().copied()).collect();
    let bought = launches
        .iter()
        .map(|launch| launch.price.plus(snapshot.cost_beyond_price(Some(&launch.pool))))
        .fold(Price::ZERO, Price::plus);
    let price = |node: usize| snapshot.cost_of(&snapshot.nodes[node]).unwrap_or(Price::ZERO);
    let cost_before = (0..snapshot.nodes.len()).map(price).fold(Price::ZERO, Price::plus);
    let cost_after = removed.ones().map(price).fold(cost_before.plus(bought), Price::minus);
    let unplaced = replay.unplaced(last.unplaced.clone());
    let lower_bound = replay.lower_bound(&unplaced).min(cost_after);
    let plan = Plan {
        kept: kept(snapshot, (safety, draft, last), &removed, savings_max),
        launches,
        binds,
        unplaced,
        disruptions,
        cost_before,
        cost_after,
        lower_bound,
        rounds: last.rounds,
        may_strand: None,
    };
    (plan, reached)
}

/// Why each node stays: the first rule about it alone that refuses, by itself or after what the plan does, or
/// else what the last look found.
fn kept(
    snapshot: &Snapshot,
    (safety, draft, last): (&Safety, &Draft<'_>, &Last),
    removed: &FixedBitSet,
    savings_max: usize,
) -> Vec<Kept> {
    let mut found: Vec<Option<&Refusal>> = vec![None; snapshot.nodes.len()];
    for (index, origin) in last.view.origins.iter().enumerate() {
        if let Spot::Node(node) = origin {
            found[*node] = last.outcome.safety.nodes[index].staying(last.outcome.refusals[index].as_ref());
        }
    }
    let stays = |node: &usize| !removed.contains(*node);
    (0..snapshot.nodes.len())
        .filter(stays)
        .map(|node| {
            if draft.removed[node] && savings_max < usize::MAX {
                let refusal = Reason::SavingTooSmall
                    .because("as kube-scheduler places pods, too little would come of taking it away");
                return Kept { node, refusal };
            }
            if draft.removed[node] {
                let refusal = Reason::NoLegalOrder
                    .because("its pods could go elsewhere, but no order of steps is legal all the way");
                return Kept { node, refusal };
            }
            let refusal = safety.nodes[node].staying(found[node]).cloned().unwrap_or_else(|| {
                Reason::SavingTooSmall.because("its pods could not be had elsewhere for enough less")
            });
            Kept { node, refusal }
        })
        .collect()
}

/// Nodes that go together.
#[derive(Clone, Debug, Default)]
struct Group {
    nodes: Vec<usize>,
    /// The pods that move, in the order in which they got their place.
    pods: Vec<usize>,
    /// New nodes that only their pods use.
    new: Vec<usize>,
    /// Where its binds begin.
    first_bind: usize,
}

/// Performs the draft on the snapshot, bind by bind.
struct Replay<'a> {
    snapshot: &'a Snapshot,
    prepared: &'a Prepared<'a>,
    safety: &'a Safety,
    draft: &'a Draft<'a>,
    names: Vec<Text>,
    packer: Packer<'a>,
    homes: Homes,
    class_of: FxHashMap<usize, usize>,
    pending: &'a FixedBitSet,
    /// The hosts of the new nodes that are bought so far.
    hosts: FxHashMap<usize, HostId>,
    /// Waiting pods that have no place yet.
    waiting: Vec<usize>,
    /// New nodes that only pods that move use.
    replacements: FixedBitSet,
    binds: Vec<(usize, Spot)>,
}

impl<'a> Replay<'a> {
    fn new(
        snapshot: &'a Snapshot,
        prepared: &'a Prepared<'a>,
        safety: &'a Safety,
        draft: &'a Draft<'a>,
        pending: &'a FixedBitSet,
    ) -> Self {
        let homes = Homes::of(prepared, pending);
        let mut packer = prepared.packer(ClassOrder::ByShape);
        packer.start_with(homes.counts());
        let class_of = prepared
            .classes
            .all
            .iter()
            .enumerate()
            .flat_map(|(index, class)| class.pods.iter().map(move |pod| (*pod, index)))
            .collect();
        Self {
            snapshot,
            prepared,
            safety,
            draft,
            names: draft.names(),
            packer,
            homes,
            class_of,
            pending,
            hosts: FxHashMap::default(),
            waiting: draft.sequence.iter().copied().filter(|pod| pending.contains(*pod)).collect(),
            replacements: FixedBitSet::with_capacity(draft.new.len()),
            binds: Vec::new(),
        }
    }

    /// New nodes that no pod uses exist for their own sake.
    fn launch_unused(&mut self) {
        let mut used = vec![false; self.draft.new.len()];
        for spot in self.draft.spots.iter().flatten() {
            if let Spot::New(new) = spot {
                used[*new] = true;
            }
        }
        for new in (0..used.len()).filter(|new| !used[*new]) {
            self.host(Spot::New(new));
        }
    }

    /// Places waiting pods, as far as that is legal by now; not on what is bought for those that move.
    fn place_waiting(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        let replaces = |pod: &usize| matches!(self.draft.spots[*pod], Some(Spot::New(new)) if self.replacements.contains(new));
        let (barred, open): (Vec<usize>, Vec<usize>) = waiting.into_iter().partition(replaces);
        self.waiting = self.bind_all(open);
        self.waiting.extend(barred);
    }

    /// The nodes that go, those together that share a new node.
    fn groups(&self) -> Vec<Group> {
        let nodes: Vec<usize> =
            (0..self.snapshot.nodes.len()).filter(|node| self.draft.removed[*node]).collect();
        let index_of: FxHashMap<&str, usize> = nodes
            .iter()
            .enumerate()
            .map(|(index, node)| (&*self.snapshot.nodes[*node].name, index))
            .collect();
        let home = |pod: usize| self.snapshot.pods[pod].node.as_ref().and_then(|node| index_of.get(&**node));
        // Only pods that wait have their place by now.
        let mut used_by_waiting = vec![false; self.draft.new.len()];
        for (_, spot) in &self.binds {
            if let Spot::New(new) = spot {
                used_by_waiting[*new] = true;
            }
        }
        let mut sets = Sets::new(nodes.len() + self.draft.new.len());
        let mut movers = Vec::new();
        for pod in self.draft.sequence.iter().filter(|pod| !self.pending.contains(**pod)) {
            let Some(index) = home(*pod) else { continue };
            movers.push((*index, *pod));
            if let Some(Spot::New(new)) = self.draft.spots[*pod]
                && !used_by_waiting[new]
            {
                sets.join(*index, nodes.len() + new);
            }
        }
        self.join_fixed(&nodes, &mut sets);
        let mut groups: Vec<Group> = Vec::new();
        let mut group_of: FxHashMap<usize, usize> = FxHashMap::default();
        for (index, node) in nodes.iter().enumerate() {
            let group = *group_of.entry(sets.find(index)).or_insert_with(|| {
                groups.push(Group::default());
                groups.len() - 1
            });
            groups[group].nodes.push(*node);
        }
        for (index, pod) in movers {
            groups[group_of[&sets.find(index)]].pods.push(pod);
        }
        for new in (0..self.draft.new.len()).filter(|new| !used_by_waiting[*new]) {
            if let Some(group) = group_of.get(&sets.find(nodes.len() + new)) {
                groups[*group].new.push(new);
            }
        }
        groups
    }

    /// A new node that no pod uses stands in for one of its pool that goes.
    fn join_fixed(&self, nodes: &[usize], sets: &mut Sets) {
        let mut taken = vec![false; nodes.len()];
        let used: Vec<usize> = self
            .draft
            .spots
            .iter()
            .filter_map(|spot| match spot {
                Some(Spot::New(new)) => Some(*new),
                _ => None,
            })
            .collect();
        let used: FixedBitSet = used.into_iter().collect();
        for (new, node) in self.draft.new.iter().enumerate().filter(|(new, _)| !used.contains(*new)) {
            let of_pool = |index: &usize| self.safety.nodes[nodes[*index]].pool == Some(node.pool);
            let replaced = (0..nodes.len()).filter(of_pool).find(|index| !taken[*index]);
            if let Some(index) = replaced {
                taken[index] = true;
                sets.join(index, nodes.len() + new);
            }
        }
    }

    /// Performs the groups in the order of what they save for their disruption. What cannot go alone goes
    /// after the others, or together, or not at all.
    fn perform(&mut self, groups: Vec<Group>, savings_max: usize) -> Vec<Group> {
        let mut open: Vec<(DisruptionStep, Group)> =
            groups.into_iter().map(|group| (self.step(&group, &FxHashMap::default()), group)).collect();
        open.sort_by(|(a, _), (b, _)| {
            let cross = |x: &DisruptionStep, y: &DisruptionStep| {
                i128::from(x.saves.micro_usd()) * i128::from(y.cost.weight())
            };
            cross(b, a).cmp(&cross(a, b)).then_with(|| a.nodes.cmp(&b.nodes))
        });
        let mut savings = 0;
        open.retain(|(step, _)| {
            savings += usize::from(!is_forced(step.reason));
            is_forced(step.reason) || savings <= savings_max
        });
        let mut open: Vec<Group> = open.into_iter().map(|(_, group)| group).collect();
        let mut done = Vec::new();
        loop {
            let before = open.len();
            let mut stuck = Vec::new();
            for group in open {
                let first_bind = self.binds.len();
                if self.try_group(&group, Vec::new()) {
                    self.replacements.difference_with(&group.new.iter().copied().collect());
                    done.push(Group { first_bind, ..group });
                    self.place_waiting();
                } else {
                    stuck.push(group);
                }
            }
            open = stuck;
            if open.len() < 2 {
                break;
            }
            if open.len() < before {
                continue;
            }
            // None can go before another: together they may.
            let mut merged = Group::default();
            for group in open.drain(..) {
                merged.nodes.extend(group.nodes);
                merged.pods.extend(group.pods);
                merged.new.extend(group.new);
            }
            merged.nodes.sort_unstable();
            merged.new.sort_unstable();
            open.push(merged);
        }
        // What moves and what waits may each need the other's place to be taken.
        if let Some(group) = open.pop() {
            let first_bind = self.binds.len();
            let waiting = std::mem::take(&mut self.waiting);
            if self.try_group(&group, waiting.clone()) {
                done.push(Group { first_bind, ..group });
            } else {
                self.waiting = waiting;
            }
        }
        done
    }

    /// Empties the nodes and binds their pods, and those beside them; nothing has changed if that is not legal.
    fn try_group(&mut self, group: &Group, beside: Vec<usize>) -> bool {
        let mark = self.packer.mark();
        let bought: FxHashMap<usize, HostId> = self.hosts.clone();
        let bound = self.binds.len();
        for node in &group.nodes {
            let Some(host) = self.homes.host_of[*node] else { continue };
            for (class, pods) in &self.homes.on_host[host] {
                self.packer.unbind(*class, host, count(pods.len()));
            }
            self.packer.leave(host);
        }
        let mut pods = group.pods.clone();
        pods.extend(beside);
        if self.bind_all(pods).is_empty() {
            return true;
        }
        self.packer.undo(mark);
        self.hosts = bought;
        self.binds.truncate(bound);
        false
    }

    /// Binds the pods where the draft puts them, in an order that is legal; what is left has none.
    fn bind_all(&mut self, pods: Vec<usize>) -> Vec<usize> {
        let mut open = pods;
        loop {
            let before = open.len();
            let mut stuck = Vec::new();
            let mut rest = &open[..];
            while let Some(first) = rest.first() {
                let alike = |pod: &usize| {
                    self.draft.spots[*pod] == self.draft.spots[*first]
                        && self.class_of.get(pod) == self.class_of.get(first)
                };
                let run = rest.iter().take_while(|pod| alike(pod)).count();
                let (run, after) = rest.split_at(run);
                rest = after;
                let bound = self.bind_run(run);
                stuck.extend(&run[bound..]);
            }
            if stuck.is_empty() || stuck.len() == before {
                return stuck;
            }
            open = stuck;
        }
    }

    /// Binds pods of one class to one host; how many of them.
    fn bind_run(&mut self, pods: &[usize]) -> usize {
        let (Some(spot), Some(class)) = (self.draft.spots[pods[0]], self.class_of.get(&pods[0]).copied())
        else {
            return 0;
        };
        let known = match spot {
            Spot::Node(_) => true,
            Spot::New(new) => self.hosts.contains_key(&new),
        };
        let mark = (!known).then(|| self.packer.mark());
        let Some(host) = self.host(spot) else { return 0 };
        let bound = self.packer.bind_if_legal(class, host, count(pods.len())) as usize;
        if bound == 0
            && let (Some(mark), Spot::New(new)) = (mark, spot)
        {
            // A node joins with its first pod.
            self.packer.undo(mark);
            self.hosts.remove(&new);
        }
        self.binds.extend(pods[..bound].iter().map(|pod| (*pod, spot)));
        bound
    }

    /// The host of a spot; a new node is bought when it is first asked for.
    fn host(&mut self, spot: Spot) -> Option<HostId> {
        let new = match spot {
            Spot::Node(node) => return self.homes.host_of[node],
            Spot::New(new) => new,
        };
        if let Some(host) = self.hosts.get(&new) {
            return Some(*host);
        }
        let (cell, candidate) = self.offer(&self.draft.new[new])?;
        let host = self.packer.buy(cell, candidate);
        self.hosts.insert(new, host);
        Some(host)
    }

    /// Where the market has the new node.
    fn offer(&self, new: &NewNode) -> Option<(usize, usize)> {
        self.prepared.market.cells.iter().enumerate().find_map(|(index, cell)| {
            if cell.pool != new.pool || cell.custom != new.custom {
                return None;
            }
            let candidate = cell.candidates.iter().position(|candidate| {
                (candidate.instance_type, candidate.offering) == (new.instance_type, new.offering)
            })?;
            Some((index, candidate))
        })
    }

    /// The new nodes that are bought, in their order, with their place among the launches.
    fn launched(&self) -> FxHashMap<usize, usize> {
        let mut bought: Vec<usize> = self.hosts.keys().copied().collect();
        bought.sort_unstable();
        bought.into_iter().enumerate().map(|(launch, new)| (new, launch)).collect()
    }

    fn launches(&self, launched: &FxHashMap<usize, usize>) -> Vec<Launch> {
        let mut launches: Vec<(usize, Launch)> = launched
            .iter()
            .filter_map(|(new, launch)| {
                let host = &self.packer.hosts[self.hosts[new]];
                let HostOrigin::Planned { cell, candidate } = host.origin else { return None };
                let name = self.names[*new].clone();
                Some((*launch, Launch { name, ..self.prepared.launch(&self.packer, host, cell, candidate) }))
            })
            .collect();
        launches.sort_by_key(|(launch, _)| *launch);
        launches.into_iter().map(|(_, launch)| launch).collect()
    }

    fn step(&self, group: &Group, launched: &FxHashMap<usize, usize>) -> DisruptionStep {
        let judged = || group.nodes.iter().map(|node| &self.safety.nodes[*node]);
        let price = |node: &usize| self.snapshot.cost_of(&self.snapshot.nodes[*node]).unwrap_or(Price::ZERO);
        let new_price = |new: &usize| {
            let new = &self.draft.new[*new];
            let pool = &self.snapshot.pools[new.pool];
            pool.types[new.instance_type].offerings[new.offering].price.plus(pool.node_cost)
        };
        let mut nodes = group.nodes.clone();
        nodes.sort_unstable();
        let mut replacements: Vec<usize> =
            group.new.iter().filter_map(|new| launched.get(new).copied()).collect();
        replacements.sort_unstable();
        let before = group.nodes.iter().map(price).fold(Price::ZERO, Price::plus);
        let reason = judged().map(|node| node.reason).max().unwrap_or(DisruptionReason::Empty);
        let optimization = (reason == DisruptionReason::Underutilized).then(|| {
            let given = group.nodes.iter().map(|node| &self.snapshot.nodes[*node].allocatable);
            let bought = group.new.iter().map(|new| {
                let new = &self.draft.new[*new];
                self.snapshot.pools[new.pool].types[new.instance_type].allocatable()
            });
            Optimization::of(given, bought)
        });
        DisruptionStep {
            reason,
            optimization,
            nodes,
            replacements,
            first_bind: group.first_bind,
            pods_moved: group.pods.len(),
            saves: group.new.iter().map(new_price).fold(before, Price::minus),
            cost: judged()
                .map(|node: &NodeSafety| node.cost)
                .fold(DisruptionCost::default(), DisruptionCost::plus),
        }
    }

    /// Those that the last look left, and those that no legal order placed.
    fn unplaced(&self, left: Vec<Unplaced>) -> Vec<Unplaced> {
        let mut unplaced = left;
        for pod in &self.waiting {
            let refusals = self
                .class_of
                .get(pod)
                .map(|class| crate::explain::refusals(self.prepared, &self.packer, *class))
                .unwrap_or_default();
            unplaced.push(Unplaced { pod: *pod, refusals });
        }
        unplaced.sort_by_key(|unplaced| unplaced.pod);
        unplaced
    }

    /// No way to keep, buy and remove nodes for these pods costs less, whatever the budgets are.
    fn lower_bound(&self, unplaced: &[Unplaced]) -> Price {
        let prepared = self.prepared;
        let unplaced: FixedBitSet = unplaced.iter().map(|unplaced| unplaced.pod).collect();
        let mut demand = vec![0_i128; prepared.dimensions.len()];
        for class in &prepared.classes.all {
            let placed = class.pods.iter().filter(|pod| !unplaced.contains(**pod)).count();
            bound::add_demand(&mut demand, &class.requests, placed);
        }
        let mut fixed = Price::ZERO;
        let mut free_rooms = Vec::new();
        let mut choices = Vec::new();
        let nodes = self.snapshot.nodes.iter().zip(&self.safety.nodes).zip(&self.homes.host_of);
        for ((node, judged), host) in nodes {
            let price = self.snapshot.cost_of(node).unwrap_or(Price::ZERO);
            match *host {
                Some(host) if judged.is_allowed() => {
                    choices.push((price.micro_usd(), &*prepared.hosts[host].free));
                }
                Some(host) => {
                    fixed = fixed.plus(price);
                    free_rooms.push(&*prepared.hosts[host].free);
                }
                None => fixed = fixed.plus(price),
            }
        }
        let bound = bound::lower_bound_with_choices(
            &prepared.market,
            &prepared.proven_worth,
            &demand,
            free_rooms.into_iter(),
            choices.into_iter(),
        );
        fixed.plus(Price::from_micro_usd(bound))
    }
}

fn count(pods: usize) -> u32 {
    u32::try_from(pods).unwrap_or(u32::MAX)
}
