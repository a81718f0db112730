//! The packer: puts classes of pods on hosts, buying hosts by cost.
//!
//! Classes are placed one after the other. Each fills the room that there is, existing nodes first and the
//! tightest first, and buys what it still needs: a larger type for a planned host, or a new host, whichever
//! gives more worth of useful room for the money. Every step is legal under kube-scheduler's rules given the
//! steps before, so the order of the steps is an order in which the pods can be bound.

mod moves;
mod open;
mod purchase;

use std::collections::{BTreeMap, BTreeSet};

use fixedbitset::FixedBitSet;

use crate::bound::Worth;
use crate::class::{Class, Classes, Level};
use crate::host::{AttachedVolumes, Host, HostOrigin, fits, times_fitting};
use crate::ledger::Ledger;
use crate::market::{Amounts, Candidate, Market};
use crate::names::Text;
use crate::pattern::Pattern;
use crate::snapshot::{MinValuesPolicy, Policy, Snapshot};
use crate::topology::{HostId, Place, Topology, TopologyRefusal};

use moves::Change;
pub(crate) use moves::Mark;
use open::{FillOrder, Leading, OpenHosts, leading};
use purchase::{CappedClass, Purchase, Shopping, per_host_cap};

/// `pods` of a class put on a host: the unit of the bind order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) class: usize,
    pub(crate) host: HostId,
    pub(crate) pods: u32,
    /// The level of the class's preferences at which they were put there.
    pub(crate) level: usize,
}

pub(crate) struct Packer<'a> {
    snapshot: &'a Snapshot,
    policy: &'a Policy,
    pub(crate) market: &'a Market,
    pub(crate) classes: &'a Classes,
    pub(crate) topology: Topology,
    worth: &'a Worth,
    pub(crate) hosts: Vec<Host>,
    /// For each host, side by side.
    leading: Vec<Leading>,
    fill_order: FillOrder,
    /// Hosts bought for pods that must be apart, with more to come: their types are not settled. Ascending.
    growable: Vec<HostId>,
    pub(crate) ledger: Ledger,
    /// Which hosts (existing ones) and cells each demand admits.
    admitted_nodes: Vec<FixedBitSet>,
    pub(crate) admitted_cells: Vec<FixedBitSet>,
    /// Pods of each class still to be placed.
    pub(crate) left: Vec<u32>,
    /// The order in which classes are placed.
    pub(crate) order: Vec<usize>,
    /// What the pods still to be placed ask for, less the room on planned hosts.
    wanted: Amounts,
    /// Exclusive claims that pods hold, with how many.
    claims_held: BTreeMap<Text, u32>,
    /// Where the search for a host to grow goes on, so that hosts grow evenly.
    growth_cursor: HostId,
    existing: usize,
    /// Hosts that are bought whatever the pods want.
    fixed_nodes: Vec<HostId>,
    /// The pools' weights, heaviest first.
    weights: Vec<i32>,
    /// How many hosts are planned in each cell.
    hosts_in_cell: Vec<u32>,
    /// The classes of which a host takes only so many.
    capped: Vec<CappedClass>,
    /// The weight of the heaviest pool that could serve each class.
    heaviest_pool: Vec<i32>,
    pub(crate) steps: Vec<Step>,
    journal: Vec<Change>,
    may_buy: bool,
    /// Purchases that were weighed.
    pub(crate) rounds: u64,
    /// What the pods ask for of each resource altogether: the measure in which resources are compared.
    typical: Vec<f64>,
}

/// Everything that is judged before packing begins.
pub(crate) struct Start<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) policy: &'a Policy,
    pub(crate) market: &'a Market,
    pub(crate) classes: &'a Classes,
    pub(crate) topology: Topology,
    pub(crate) worth: &'a Worth,
    /// Existing nodes that stay.
    pub(crate) hosts: Vec<Host>,
    pub(crate) admitted_nodes: Vec<FixedBitSet>,
    pub(crate) admitted_cells: Vec<FixedBitSet>,
    pub(crate) claims_held: BTreeMap<Text, u32>,
}

impl<'a> Packer<'a> {
    pub(crate) fn new(start: Start<'a>, order: Vec<usize>) -> Self {
        let left: Vec<u32> = start
            .classes
            .all
            .iter()
            .map(|class| u32::try_from(class.pods.len()).unwrap_or(u32::MAX))
            .collect();
        let mut wanted = Amounts::new();
        for (class, left) in start.classes.all.iter().zip(&left) {
            wanted.resize(class.requests.len(), 0);
            add_times(&mut wanted, &class.requests, i64::from(*left));
        }
        let typical = wanted.iter().map(|amount| crate::bound::float((*amount).max(1))).collect();
        let serving_weight = |class: &Class| {
            let cells = class.levels.first().map(|level| start.admitted_cells[level.demand].ones());
            let pools =
                cells.into_iter().flatten().map(|cell| &start.snapshot.pools[start.market.cells[cell].pool]);
            pools.filter(|pool| pool.replicas.is_none()).map(|pool| pool.weight).max().unwrap_or(0)
        };
        let heaviest_pool = start.classes.all.iter().map(serving_weight).collect();
        let mut weights: Vec<i32> = start.snapshot.pools.iter().map(|pool| pool.weight).collect();
        weights.sort_unstable_by(|a, b| b.cmp(a));
        weights.dedup();
        let mut fill_order = FillOrder::default();
        (0..start.hosts.len()).for_each(|host| fill_order.change(host));
        Self {
            ledger: Ledger::open(start.snapshot, start.market),
            existing: start.hosts.len(),
            snapshot: start.snapshot,
            policy: start.policy,
            market: start.market,
            classes: start.classes,
            worth: start.worth,
            leading: start.hosts.iter().map(leading).collect(),
            fill_order,
            growable: Vec::new(),
            hosts: start.hosts,
            admitted_nodes: start.admitted_nodes,
            admitted_cells: start.admitted_cells,
            capped: CappedClass::among(&order, start.classes, &start.topology),
            topology: start.topology,
            left,
            order,
            wanted,
            claims_held: start.claims_held,
            growth_cursor: 0,
            fixed_nodes: Vec::new(),
            weights,
            hosts_in_cell: vec![0; start.market.cells.len()],
            heaviest_pool,
            steps: Vec::new(),
            rounds: 0,
            journal: Vec::new(),
            may_buy: true,
            typical,
        }
    }

    /// Places all that can be placed.
    pub(crate) fn pack(&mut self) {
        self.launch_fixed_nodes();
        for position in 0..self.order.len() {
            self.place_class(self.order[position]);
        }
        // What could not be placed may have been waiting for a partner, or for money that the
        // right-sizing gave back.
        loop {
            self.right_size();
            let mut progress = false;
            for position in 0..self.order.len() {
                let class = self.order[position];
                if self.left[class] > 0 {
                    let before = self.left[class];
                    self.place_class(class);
                    progress |= self.left[class] < before;
                }
            }
            if !progress {
                break;
            }
        }
    }

    fn place_class(&mut self, class: usize) {
        for level in 0..self.classes.all[class].levels.len() {
            if self.left[class] == 0 {
                return;
            }
            self.place_at_level(class, level);
        }
    }

    /// Nodes that must exist whatever the pods want: static replicas and minima.
    pub(crate) fn launch_fixed_nodes(&mut self) {
        for (pool_index, pool) in self.snapshot.pools.iter().enumerate() {
            let target = pool.replicas.unwrap_or(pool.nodes_min);
            while self.ledger.nodes_staying(pool_index) < target {
                let cheapest = self
                    .market
                    .cells
                    .iter()
                    .enumerate()
                    .filter(|(_, cell)| cell.pool == pool_index)
                    .flat_map(|(cell_index, cell)| {
                        cell.candidates
                            .iter()
                            .enumerate()
                            .map(move |(index, candidate)| (candidate, cell_index, index))
                    })
                    .filter(|(candidate, cell, _)| {
                        self.ledger.shortage(pool_index, candidate).is_none()
                            && self.min_values_hold(&[], *cell, &[])
                    })
                    .min_by_key(|(candidate, cell, index)| (candidate.price, *cell, *index));
                let Some((_, cell, candidate)) = cheapest else { break };
                self.buy_fixed(cell, candidate);
            }
        }
    }

    /// A host that is there whatever the pods want.
    pub(crate) fn buy_fixed(&mut self, cell: usize, candidate: usize) -> HostId {
        let host = self.buy(cell, candidate);
        self.fixed_nodes.push(host);
        host
    }

    fn place_at_level(&mut self, class_index: usize, level_index: usize) {
        let classes = self.classes;
        let class = &classes.all[class_index];
        let level = &class.levels[level_index];
        if !self.may_buy && level.rules.affinity.is_empty() {
            self.fill_evenly(class_index, level);
            return;
        }
        let mut open = self.open_hosts(class, level);
        let mut openness = None;
        let mut shopping = Shopping::default();
        while self.left[class_index] > 0 {
            if openness.as_ref() != Some(&self.topology.openness(&level.rules)) {
                self.fill(class_index, level_index, &mut open);
                openness = Some(self.topology.openness(&level.rules));
                if self.left[class_index] == 0 {
                    break;
                }
            }
            if !self.may_buy {
                break;
            }
            self.rounds += 1;
            let Some(purchase) = self.best_purchase(class_index, level, &mut shopping) else { break };
            let first_new = self.hosts.len();
            match purchase {
                Purchase::Grow { host, candidate } => {
                    self.grow(host, candidate);
                    self.place_on(class_index, level_index, host);
                    open.add(host);
                }
                Purchase::Mix { cell, candidate, pattern } => self.buy_mixes(cell, candidate, &pattern),
                Purchase::New { choices } => self.buy_for(class_index, level_index, &choices),
            }
            (first_new..self.hosts.len()).for_each(|host| open.add(host));
        }
    }

    /// A host of one of these kinds, and more of them in turn while each takes as many and nothing else is
    /// decided by it. Taking turns leaves room in every zone for pods that will need it there.
    fn buy_for(&mut self, class_index: usize, level_index: usize, choices: &[(usize, usize)]) {
        let classes = self.classes;
        let class = &classes.all[class_index];
        let level = &class.levels[level_index];
        let (cell, candidate) = choices[0];
        let host = self.buy(cell, candidate);
        let placed = self.place_on(class_index, level_index, host);
        let alike = placed > 0 && per_host_cap(class, &level.rules, &self.topology) == Some(placed);
        if alike {
            self.growable.push(host);
        }
        let mut turn = 1;
        while alike && self.left[class_index] >= placed {
            let (cell, candidate) = choices[turn % choices.len()];
            turn += 1;
            if !self.may_buy_again(class, level, cell, candidate, placed) {
                return;
            }
            let host = self.buy(cell, candidate);
            self.growable.push(host);
            self.place_on(class_index, level_index, host);
        }
    }

    fn may_buy_again(&self, class: &Class, level: &Level, cell: usize, candidate: usize, pods: u32) -> bool {
        let cell_ref = &self.market.cells[cell];
        let room = self.topology.room(&level.rules, &class.appearance, Place::NewIn(cell));
        room.is_ok_and(|room| room >= pods)
            && !self.claim_is_held(class)
            && self.ledger.shortage(cell_ref.pool, &cell_ref.candidates[candidate]).is_none()
    }

    /// Hosts that hold the pattern, as many as there are pods for and the pool allows.
    fn buy_mixes(&mut self, cell: usize, candidate: usize, pattern: &Pattern) {
        let times =
            pattern.pods.iter().map(|(class, pods)| self.left[*class] / pods).min().unwrap_or(0).max(1);
        let pool = self.market.cells[cell].pool;
        for _ in 0..times {
            if self.ledger.shortage(pool, &self.market.cells[cell].candidates[candidate]).is_some() {
                return;
            }
            let host = self.buy(cell, candidate);
            for (class, pods) in &pattern.pods {
                let pods = self.pods_within_min_values(*class, host, (*pods).min(self.left[*class]));
                if pods > 0 {
                    self.bind(*class, 0, host, pods);
                }
            }
        }
    }

    /// Fills open hosts until no rule lets another pod in.
    fn fill(&mut self, class_index: usize, level_index: usize, open: &mut OpenHosts) {
        let classes = self.classes;
        let class = &classes.all[class_index];
        let level = &class.levels[level_index];
        loop {
            let before = self.topology.openness(&level.rules);
            let mut position = 0;
            while self.left[class_index] > 0 {
                let Some(host) = self.open_host(class, level, open, position) else { break };
                self.place_on(class_index, level_index, host);
                position += 1;
            }
            if self.left[class_index] == 0 || self.topology.openness(&level.rules) == before {
                return;
            }
            open.retain(|host| times_fitting(&class.requests, &self.hosts[host].free) > 0);
        }
    }

    /// Puts as many pods of the class on the host as its room and the rules allow.
    fn place_on(&mut self, class_index: usize, level_index: usize, host: HostId) -> u32 {
        self.place_up_to(u32::MAX, class_index, level_index, host)
    }

    /// The same, but at most so many.
    pub(crate) fn place_up_to(
        &mut self,
        most: u32,
        class_index: usize,
        level_index: usize,
        host: HostId,
    ) -> u32 {
        let classes = self.classes;
        let class = &classes.all[class_index];
        let rules = &class.levels[level_index].rules;
        let mut placed = 0;
        // An affinity opens a domain with its first pod, a spread may rise with its last: ask again.
        while placed < most && self.left[class_index] > 0 && !self.claim_is_held(class) {
            let Ok(allowed) = self.topology.room(rules, &class.appearance, Place::Host(host)) else { break };
            let mut pods =
                allowed.min(self.hosts[host].room(class)).min(self.left[class_index]).min(most - placed);
            if !class.volumes.exclusive.is_empty() {
                pods = pods.min(1);
            }
            pods = self.pods_within_min_values(class_index, host, pods);
            if pods == 0 {
                break;
            }
            self.bind(class_index, level_index, host, pods);
            placed += pods;
        }
        placed
    }

    fn bind(&mut self, class: usize, level: usize, host: HostId, pods: u32) {
        self.put_on(class, host, pods);
        self.left[class] -= pods;
        self.hosts[host].arrivals += pods;
        self.steps.push(Step { class, host, pods, level });
        self.journal.push(Change::Bound { class, host, pods });
    }

    fn put_on(&mut self, class_index: usize, host_id: HostId, pods: u32) {
        let class = &self.classes.all[class_index];
        let host = &mut self.hosts[host_id];
        let times = -i64::from(pods);
        add_times(&mut host.free, &class.requests, times);
        if let HostOrigin::Node(_) = host.origin {
            // On a planned host the room was taken off what is wanted when it was bought.
            add_times(&mut self.wanted, &class.requests, times);
        }
        host.ports.extend(class.ports.iter().cloned());
        host.volumes.attach(class, pods);
        match host.placed.iter_mut().find(|(class, _)| *class == class_index) {
            Some((_, count)) => *count += pods,
            None => host.placed.push((class_index, pods)),
        }
        for claim in &class.volumes.exclusive {
            *self.claims_held.entry(claim.clone()).or_insert(0) += pods;
        }
        self.topology.add(&class.appearance, host_id, pods);
        self.note_room(host_id);
    }

    fn take_off(&mut self, class_index: usize, host_id: HostId, pods: u32) {
        let class = &self.classes.all[class_index];
        let host = &mut self.hosts[host_id];
        let times = i64::from(pods);
        add_times(&mut host.free, &class.requests, times);
        if let HostOrigin::Node(_) = host.origin {
            add_times(&mut self.wanted, &class.requests, times);
        }
        // The ports of one pod were added in one go, for however many: where pods share a host port no
        // more than one of them is on a host, unless they run there against the rules.
        for port in &class.ports {
            if let Some(index) = host.ports.iter().rposition(|taken| taken == port) {
                host.ports.remove(index);
            }
        }
        host.volumes.detach(class, pods);
        if let Some(index) = host.placed.iter().position(|(class, _)| *class == class_index) {
            host.placed[index].1 -= pods;
            if host.placed[index].1 == 0 {
                host.placed.swap_remove(index);
            }
        }
        for claim in &class.volumes.exclusive {
            if let Some(users) = self.claims_held.get_mut(claim) {
                *users -= pods;
                if *users == 0 {
                    self.claims_held.remove(claim);
                }
            }
        }
        self.topology.remove(&class.appearance, host_id, pods);
        self.note_room(host_id);
    }

    /// The host's free room has changed.
    fn note_room(&mut self, host: HostId) {
        self.leading[host] = leading(&self.hosts[host]);
        self.fill_order.change(host);
    }

    fn claim_is_held(&self, class: &Class) -> bool {
        self.held_claim(class).is_some()
    }

    /// A claim of the class that only one pod may use and another pod has.
    pub(crate) fn held_claim<'b>(&self, class: &'b Class) -> Option<&'b Text> {
        class.volumes.exclusive.iter().find(|claim| self.claims_held.contains_key(*claim))
    }

    pub(crate) fn buy(&mut self, cell_index: usize, candidate: usize) -> HostId {
        let cell = &self.market.cells[cell_index];
        let chosen = &cell.candidates[candidate];
        let limits = self.snapshot.pools[cell.pool].types[chosen.instance_type].volume_limits.clone();
        add_times(&mut self.wanted, &chosen.free, -1);
        self.ledger.buy(cell.pool, chosen);
        self.hosts_in_cell[cell_index] += 1;
        self.hosts.push(Host::planned(cell_index, cell, candidate, limits));
        self.leading.extend(self.hosts.last().map(leading));
        self.fill_order.change(self.hosts.len() - 1);
        self.topology.join(cell_index);
        self.journal.push(Change::Bought);
        self.hosts.len() - 1
    }

    fn grow(&mut self, host: HostId, to: usize) {
        if let HostOrigin::Planned { candidate: from, .. } = self.hosts[host].origin {
            self.journal.push(Change::Grown { host, from });
            self.exchange(host, to);
        }
    }

    fn exchange(&mut self, host_id: HostId, to: usize) {
        let HostOrigin::Planned { cell, candidate } = self.hosts[host_id].origin else { return };
        let cell_ref = &self.market.cells[cell];
        let (from_candidate, to_candidate) = (&cell_ref.candidates[candidate], &cell_ref.candidates[to]);
        self.ledger.exchange(cell_ref.pool, from_candidate, to_candidate);
        let host = &mut self.hosts[host_id];
        host.origin = HostOrigin::Planned { cell, candidate: to };
        host.volumes.limits =
            self.snapshot.pools[cell_ref.pool].types[to_candidate.instance_type].volume_limits.clone();
        for (dimension, free) in host.free.iter_mut().enumerate() {
            let more = to_candidate.free[dimension] - from_candidate.free[dimension];
            *free += more;
            self.wanted[dimension] -= more;
        }
        self.note_room(host_id);
    }

    /// Gives every planned host the cheapest type that holds what is on it.
    fn right_size(&mut self) {
        for host_id in self.existing..self.hosts.len() {
            let HostOrigin::Planned { cell, candidate } = self.hosts[host_id].origin else { continue };
            let cell_ref = &self.market.cells[cell];
            let current = &cell_ref.candidates[candidate];
            let load = self.hosts[host_id].load(current);
            let attached = self.attached(&self.hosts[host_id].placed);
            let pool = &self.snapshot.pools[cell_ref.pool];
            let cheaper = cell_ref.front.iter().copied().find(|index| {
                let option = &cell_ref.candidates[*index];
                option.price < current.price
                    && fits(&load, &option.free)
                    && self.ledger.shortage_to_exchange(cell_ref.pool, current, option).is_none()
                    && attached.within(&pool.types[option.instance_type].volume_limits)
            });
            if let Some(cheaper) = cheaper {
                self.grow(host_id, cheaper);
            }
        }
    }

    /// The host's volumes as they would stand on another type; `None` where that attaches any number.
    fn volumes_as(&self, host: HostId, pool: usize, option: &Candidate) -> Option<AttachedVolumes> {
        let limits = &self.snapshot.pools[pool].types[option.instance_type].volume_limits;
        if limits.is_empty() {
            return None;
        }
        let mut volumes = self.attached(&self.hosts[host].placed);
        volumes.limits.clone_from(limits);
        Some(volumes)
    }

    /// The volumes of these pods on one host.
    fn attached(&self, placed: &[(usize, u32)]) -> AttachedVolumes {
        let mut volumes = AttachedVolumes::default();
        for (class, pods) in placed {
            volumes.attach(&self.classes.all[*class], *pods);
        }
        volumes
    }

    /// At most so many pods that the pool's minValues still hold on the host.
    fn pods_within_min_values(&self, class: usize, host: HostId, pods: u32) -> u32 {
        let HostOrigin::Planned { cell, candidate } = self.hosts[host].origin else { return pods };
        let cell_ref = &self.market.cells[cell];
        if !self.min_values_matter(cell_ref.pool) {
            return pods;
        }
        let load = self.hosts[host].load(&cell_ref.candidates[candidate]);
        let mut pods = pods;
        while pods > 0 {
            let mut needed = load.clone();
            add_times(&mut needed, &self.classes.all[class].requests, i64::from(pods));
            if self.min_values_hold(&with_more(&self.hosts[host].placed, class, pods), cell, &needed) {
                break;
            }
            pods /= 2;
        }
        pods
    }

    pub(crate) fn min_values_matter(&self, pool: usize) -> bool {
        self.policy.min_values == MinValuesPolicy::Strict
            && self.snapshot.pools[pool].requirements.has_min_values()
    }

    fn min_values_hold(&self, placed: &[(usize, u32)], cell: usize, needed: &[i64]) -> bool {
        let pool_index = self.market.cells[cell].pool;
        if !self.min_values_matter(pool_index) {
            return true;
        }
        let pool = &self.snapshot.pools[pool_index];
        pool.requirements.min_values().all(|(key, count)| {
            let values: BTreeSet<&str> = self
                .cells_for(placed, cell)
                .flat_map(|other| self.substitutes_in(other, cell, placed, needed))
                .filter_map(|candidate| crate::market::offered_label(pool, candidate, key))
                .collect();
            values.len() >= count as usize
        })
    }

    /// Cells of the same pool and custom labels that would do for all these pods, as far as labels decide.
    pub(crate) fn cells_for<'b>(
        &'b self,
        placed: &'b [(usize, u32)],
        cell: usize,
    ) -> impl Iterator<Item = usize> + 'b {
        let home = &self.market.cells[cell];
        let admitted: Vec<&FixedBitSet> = placed
            .iter()
            .filter_map(|(class, _)| self.classes.all[*class].levels.last())
            .map(|level| &self.admitted_cells[level.demand])
            .collect();
        (0..self.market.cells.len()).filter(move |index| {
            let other = &self.market.cells[*index];
            other.pool == home.pool
                && other.custom == home.custom
                && admitted.iter().all(|cells| cells.contains(*index))
        })
    }

    /// Candidates of `cell` that could stand in for a host of `home` with these pods and this load, cheapest
    /// first.
    pub(crate) fn substitutes_in<'b>(
        &'b self,
        cell: usize,
        home: usize,
        placed: &[(usize, u32)],
        load: &'b [i64],
    ) -> impl Iterator<Item = &'b Candidate> + 'b {
        let (cell, home) = (&self.market.cells[cell], &self.market.cells[home]);
        // With the DaemonSets of either place: which of them run is only known once it is there.
        let more_daemons = home.daemons.iter().zip(&cell.daemons).map(|(here, there)| (here - there).max(0));
        let needed: Amounts = load.iter().zip(more_daemons).map(|(load, more)| load + more).collect();
        let attached = self.attached(placed);
        let types = &self.snapshot.pools[cell.pool].types;
        cell.candidates.iter().filter(move |candidate| {
            fits(&needed, &candidate.free) && attached.within(&types[candidate.instance_type].volume_limits)
        })
    }

    /// Why a new host of this cell takes no pod of the class, because of other pods.
    pub(crate) fn topology_refusal(&self, class: &Class, cell: usize) -> Option<TopologyRefusal> {
        let level = class.levels.last()?;
        self.topology.room(&level.rules, &class.appearance, Place::NewIn(cell)).err()
    }

    /// Whether a new host of this candidate could attach the volumes of one pod of the class.
    pub(crate) fn volumes_fit_new(&self, class: &Class, pool: usize, candidate: &Candidate) -> bool {
        let limits = &self.snapshot.pools[pool].types[candidate.instance_type].volume_limits;
        limits.is_empty() || AttachedVolumes::limited_to(limits.clone()).room(class) > 0
    }

    pub(crate) fn min_values_allow_alone(&self, class_index: usize, cell: usize) -> bool {
        let class = &self.classes.all[class_index];
        self.min_values_hold(&[(class_index, 1)], cell, &class.requests)
    }
}

/// What the packer knows, for those who look at its work.
impl Packer<'_> {
    pub(crate) fn snapshot(&self) -> &Snapshot {
        self.snapshot
    }

    /// How many of the hosts exist already; planned ones come after them.
    pub(crate) fn existing(&self) -> usize {
        self.existing
    }

    pub(crate) fn fixed_nodes(&self) -> impl Iterator<Item = HostId> {
        self.fixed_nodes.iter().copied()
    }

    pub(crate) fn heaviest_pool(&self, class: usize) -> i32 {
        self.heaviest_pool[class]
    }

    pub(crate) fn pool_weight(&self, pool: usize) -> i32 {
        self.snapshot.pools[pool].weight
    }

    /// How many different weights the pools have that buy for pods without further conditions.
    pub(crate) fn buying_weights(&self) -> usize {
        let pools = self.snapshot.pools.iter().enumerate();
        let buying = pools.map(|(pool, _)| pool).filter(|pool| self.buys_for_pods(*pool));
        let weights: BTreeSet<(i32, bool)> =
            buying.map(|pool| (self.pool_weight(pool), self.min_values_matter(pool))).collect();
        weights.len()
    }

    pub(crate) fn buys_for_pods(&self, pool: usize) -> bool {
        self.snapshot.pools[pool].replicas.is_none()
    }

    /// Whether labels and taints of the host suit the class at this level.
    pub(crate) fn host_admits(&self, level: &Level, host: HostId) -> bool {
        match self.hosts[host].origin {
            HostOrigin::Node(_) => self.admitted_nodes[level.demand].contains(host),
            HostOrigin::Planned { cell, .. } => self.admitted_cells[level.demand].contains(cell),
        }
    }

    pub(crate) fn can_buy(&self, cell: usize, candidate: usize) -> bool {
        let cell = &self.market.cells[cell];
        self.ledger.shortage(cell.pool, &cell.candidates[candidate]).is_none()
    }

    /// What the planned hosts cost.
    pub(crate) fn spent(&self) -> i64 {
        let planned = self.hosts[self.existing..].iter();
        planned
            .map(|host| match host.origin {
                HostOrigin::Planned { cell, candidate } => {
                    self.market.cells[cell].candidates[candidate].price
                }
                HostOrigin::Node(_) => 0,
            })
            .sum()
    }
}

pub(crate) fn add_times(sum: &mut Amounts, amounts: &[i64], times: i64) {
    sum.iter_mut().zip(amounts).for_each(|(sum, amount)| *sum += amount * times);
}

fn with_more(placed: &[(usize, u32)], class: usize, pods: u32) -> Vec<(usize, u32)> {
    let mut placed = placed.to_vec();
    match placed.iter_mut().find(|(other, _)| *other == class) {
        Some((_, count)) => *count += pods,
        None => placed.push((class, pods)),
    }
    placed
}
