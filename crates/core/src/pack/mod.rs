//! The packer: puts classes of pods on hosts, buying hosts by cost.
//!
//! Classes are placed one after the other. Each fills the room that there is, existing nodes first and the
//! tightest first, and buys what it still needs: a larger type for a planned host, or a new host, whichever
//! gives more worth of useful room for the money. Every step is legal under kube-scheduler's rules given the
//! steps before, so the order of the steps is an order in which the pods can be bound.

mod change;
mod known;
mod moves;
mod open;
mod purchase;

use std::collections::BTreeMap;

use fixedbitset::FixedBitSet;

use crate::bound::Worth;
use crate::class::{Class, Classes, Level};
use crate::division::Portion;
use crate::host::{Host, HostOrigin, fits, times_fitting};
use crate::ledger::Ledger;
use crate::market::{Amounts, Candidate, Market};
use crate::names::Text;
use crate::pattern::Pattern;
use crate::snapshot::{Policy, Snapshot};
use crate::topology::{HostId, Place, Topology};

pub(crate) use change::add_times;
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
    pub(crate) worth: &'a Worth,
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

    /// Nodes that must exist whatever the pods want: static replicas and minima, of zones too.
    pub(crate) fn launch_fixed_nodes(&mut self) {
        for (pool_index, pool) in self.snapshot.pools.iter().enumerate() {
            let has_room = |packer: &Self| {
                pool.replicas.is_none_or(|replicas| packer.ledger.staying(pool_index).nodes() < replicas)
            };
            while has_room(self)
                && let Some((cell, candidate)) = self.cheapest(pool_index, |candidate| {
                    self.ledger.staying(pool_index).wants(candidate.portion)
                })
            {
                self.buy_fixed(cell, candidate);
            }
            let target = pool.replicas.unwrap_or(pool.nodes_min);
            while self.ledger.staying(pool_index).nodes() < target {
                let due = self.due_portions(pool_index);
                let cheapest = self.cheapest(pool_index, |candidate| due.contains(&candidate.portion));
                let Some((cell, candidate)) = cheapest else { break };
                self.buy_fixed(cell, candidate);
            }
        }
    }

    /// The cheapest that the pool can buy now and that is meant, as a cell and its candidate.
    fn cheapest(&self, pool: usize, is_meant: impl Fn(&Candidate) -> bool) -> Option<(usize, usize)> {
        let cells = self.market.cells.iter().enumerate().filter(|(_, cell)| cell.pool == pool);
        let candidates = cells.flat_map(|(cell_index, cell)| {
            let candidates = cell.candidates.iter().enumerate();
            candidates.map(move |(index, candidate)| (candidate, cell_index, index))
        });
        candidates
            .filter(|(candidate, cell, _)| {
                is_meant(candidate)
                    && self.ledger.shortage(pool, candidate).is_none()
                    && self.min_values_hold(&[], *cell, &[])
            })
            .min_by_key(|(candidate, cell, index)| (candidate.price, *cell, *index))
            .map(|(_, cell, candidate)| (cell, candidate))
    }

    /// Where the pool's next node belongs, of all that it can buy now.
    fn due_portions(&self, pool: usize) -> Vec<Portion> {
        let cells = self.market.cells.iter().filter(|cell| cell.pool == pool);
        let can_be_bought = |candidate: &&Candidate| self.ledger.shortage(pool, candidate).is_none();
        let portions: Vec<Portion> = cells
            .filter_map(|cell| cell.candidates.iter().find(can_be_bought))
            .map(|candidate| candidate.portion)
            .collect();
        self.ledger.staying(pool).due(&portions)
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
        // Where the next one belongs is asked anew.
        let has_turns = self.ledger.staying(self.market.cells[cell].pool).has_turns();
        let mut turn = 1;
        while alike && !has_turns && self.left[class_index] >= placed {
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
        // Where the next one belongs is asked anew.
        let times = if self.ledger.staying(pool).has_turns() { 1 } else { times };
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
}
