//! The packer: puts classes of pods on hosts, buying hosts by cost.
//!
//! Classes are placed one after the other. Each fills the room that there is, existing nodes first and the
//! tightest first, and buys what it still needs: a larger type for a planned host, or a new host, whichever
//! gives more worth of useful room for the money. Every step is legal under kube-scheduler's rules given the
//! steps before, so the order of the steps is an order in which the pods can be bound.

use fixedbitset::FixedBitSet;

use crate::bound::Worth;
use crate::class::{Class, Classes, Level};
use crate::host::{AttachedVolumes, Host, HostOrigin, fits, times_fitting};
use crate::ledger::Ledger;
use crate::market::{Amounts, Candidate, Market};
use crate::names;
use crate::snapshot::{MinValuesPolicy, Policy, Snapshot};
use crate::topology::{HostId, Place, PodRules, Topology, TopologyRefusal};

/// A larger type is preferred to another node up to this much more money for the same worth: every further
/// node is one more kubelet, one more set of DaemonSets, one more thing to fail.
const GROWTH_PREFERENCE: f64 = 1.10;

/// How many offerings are tried out by filling them with what is still to be placed.
const TRIALS: usize = 12;
/// How many classes such a trial looks at, spread evenly over what remains.
const TRIAL_CLASSES: usize = 48;

/// `pods` of a class put on a host: the unit of the bind order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) class: usize,
    pub(crate) host: HostId,
    pub(crate) pods: u32,
}

pub(crate) struct Packer<'a> {
    snapshot: &'a Snapshot,
    policy: &'a Policy,
    pub(crate) market: &'a Market,
    pub(crate) classes: &'a Classes,
    pub(crate) topology: Topology,
    worth: &'a Worth,
    pub(crate) hosts: Vec<Host>,
    pub(crate) ledger: Ledger,
    /// Which hosts (existing ones) and cells each demand admits.
    admitted_nodes: Vec<FixedBitSet>,
    pub(crate) admitted_cells: Vec<FixedBitSet>,
    /// Pods of each class still to be placed.
    pub(crate) left: Vec<u32>,
    /// The order in which classes are placed.
    order: Vec<usize>,
    /// What the pods still to be placed ask for, less the room on planned hosts.
    wanted: Amounts,
    /// Exclusive claims that a pod holds.
    claims_held: std::collections::BTreeSet<names::Text>,
    /// Where the search for a host to grow goes on, so that hosts grow evenly.
    growth_cursor: HostId,
    existing: usize,
    /// The pools' weights, heaviest first.
    weights: Vec<i32>,
    pub(crate) steps: Vec<Step>,
    pub(crate) rounds: u64,
}

/// One way to get room.
#[derive(Clone, Copy, Debug)]
enum Purchase {
    New { cell: usize, candidate: usize },
    Grow { host: HostId, candidate: usize },
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
    pub(crate) claims_held: std::collections::BTreeSet<names::Text>,
}

impl<'a> Packer<'a> {
    pub(crate) fn new(start: Start<'a>, order: Vec<usize>) -> Self {
        let left: Vec<u32> = start
            .classes
            .classes
            .iter()
            .map(|class| u32::try_from(class.pods.len()).unwrap_or(u32::MAX))
            .collect();
        let mut wanted = Amounts::new();
        for (class, left) in start.classes.classes.iter().zip(&left) {
            wanted.resize(class.requests.len(), 0);
            add_times(&mut wanted, &class.requests, i64::from(*left));
        }
        let mut weights: Vec<i32> = start.snapshot.pools.iter().map(|pool| pool.weight).collect();
        weights.sort_unstable_by(|a, b| b.cmp(a));
        weights.dedup();
        Self {
            ledger: Ledger::open(start.snapshot, start.market),
            existing: start.hosts.len(),
            snapshot: start.snapshot,
            policy: start.policy,
            market: start.market,
            classes: start.classes,
            topology: start.topology,
            worth: start.worth,
            hosts: start.hosts,
            admitted_nodes: start.admitted_nodes,
            admitted_cells: start.admitted_cells,
            left,
            order,
            wanted,
            claims_held: start.claims_held,
            growth_cursor: 0,
            weights,
            steps: Vec::new(),
            rounds: 0,
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
        for level in 0..self.classes.classes[class].levels.len() {
            if self.left[class] == 0 {
                return;
            }
            self.place_at_level(class, level);
        }
    }

    /// Nodes that must exist whatever the pods want: static replicas and minima.
    fn launch_fixed_nodes(&mut self) {
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
                        self.ledger.refusal_to_buy(pool_index, candidate).is_none()
                            && self.min_values_hold(&[], *cell, &[])
                    })
                    .min_by_key(|(candidate, cell, index)| (candidate.price, *cell, *index));
                let Some((_, cell, candidate)) = cheapest else { break };
                self.buy(cell, candidate);
            }
        }
    }

    fn place_at_level(&mut self, class_index: usize, level_index: usize) {
        let classes = self.classes;
        let class = &classes.classes[class_index];
        let level = &class.levels[level_index];
        let unruled = is_unruled(class, &level.rules);
        let mut open = self.hosts_with_room(class, level);
        let mut openness = None;
        let trial_classes = self.trial_classes(class_index);
        // What a new host costs for its worth, to judge growth by; it changes too little to ask each time.
        let mut going_rate = None;
        while self.left[class_index] > 0 {
            let now = self.topology.openness(&level.rules);
            if openness.as_ref() != Some(&now) {
                self.fill(class_index, level, &mut open);
                openness = Some(self.topology.openness(&level.rules));
            }
            if self.left[class_index] == 0 {
                break;
            }
            self.rounds += 1;
            let Some(purchase) = self.best_purchase(class_index, level, &trial_classes, &mut going_rate)
            else {
                break;
            };
            match purchase {
                Purchase::Grow { host, candidate } => {
                    self.grow(host, candidate);
                    self.place_on(class_index, &level.rules, host);
                    open.entries.push((0.0, host));
                }
                Purchase::New { cell, candidate } => {
                    let host = self.buy(cell, candidate);
                    let placed = self.place_on(class_index, &level.rules, host);
                    open.entries.push((0.0, host));
                    // More of the same, while each is full and nothing else is decided by it.
                    let capped = per_host_cap(class, &level.rules, &self.topology);
                    let alike = unruled || capped == Some(placed);
                    while alike && placed > 0 && self.left[class_index] >= placed {
                        let pool = self.market.cells[cell].pool;
                        let chosen = &self.market.cells[cell].candidates[candidate];
                        let open_to_all = self
                            .topology
                            .room(&level.rules, &class.appearance, Place::NewIn(cell))
                            .is_ok_and(|room| room >= placed);
                        if !open_to_all
                            || self.claim_is_held(class)
                            || self.ledger.refusal_to_buy(pool, chosen).is_some()
                        {
                            break;
                        }
                        let host = self.buy(cell, candidate);
                        self.place_on(class_index, &level.rules, host);
                        open.entries.push((0.0, host));
                    }
                }
            }
        }
    }

    /// Hosts on which at least one pod of the class fits, existing ones first, the tightest first.
    fn hosts_with_room(&self, class: &Class, level: &Level) -> OpenHosts {
        let nodes = &self.admitted_nodes[level.demand];
        let cells = &self.admitted_cells[level.demand];
        let mut entries = Vec::new();
        for (index, host) in self.hosts.iter().enumerate() {
            let (admitted, planned) = match host.origin {
                HostOrigin::Node(_) => (nodes.contains(index), false),
                HostOrigin::Planned { cell, .. } => (cells.contains(cell), true),
            };
            if admitted && times_fitting(&class.requests, &host.free) > 0 {
                // Existing nodes sort below every planned one.
                let tightness = self.worth.value(&host.free);
                entries.push((if planned { tightness } else { tightness - 1e18 }, index));
            }
        }
        OpenHosts { entries, sorted: 0 }
    }

    /// Fills open hosts until no rule lets another pod in.
    fn fill(&mut self, class_index: usize, level: &Level, open: &mut OpenHosts) {
        let classes = self.classes;
        let class = &classes.classes[class_index];
        loop {
            let before = self.topology.openness(&level.rules);
            let mut position = 0;
            while self.left[class_index] > 0 {
                let wanted = self.left[class_index] as usize;
                let Some(host) = open.get(position, wanted) else { break };
                self.place_on(class_index, &level.rules, host);
                position += 1;
            }
            if self.left[class_index] == 0 || self.topology.openness(&level.rules) == before {
                return;
            }
            open.entries.retain(|(_, host)| times_fitting(&class.requests, &self.hosts[*host].free) > 0);
            open.sorted = 0;
        }
    }

    /// Puts as many pods of the class on the host as its room and the rules allow.
    fn place_on(&mut self, class_index: usize, rules: &PodRules, host: HostId) -> u32 {
        let class = &self.classes.classes[class_index];
        let mut placed = 0;
        // An affinity opens a domain with its first pod, a spread may rise with its last: ask again.
        while self.left[class_index] > 0 && !self.claim_is_held(class) {
            let Ok(allowed) = self.topology.room(rules, &class.appearance, Place::Host(host)) else { break };
            let mut pods = allowed.min(self.hosts[host].room(class)).min(self.left[class_index]);
            if !class.volumes.exclusive.is_empty() {
                pods = pods.min(1);
            }
            pods = self.pods_within_min_values(class_index, host, pods);
            if pods == 0 {
                break;
            }
            self.bind(class_index, host, pods);
            placed += pods;
        }
        placed
    }

    fn bind(&mut self, class_index: usize, host_id: HostId, pods: u32) {
        let class = &self.classes.classes[class_index];
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
        self.claims_held.extend(class.volumes.exclusive.iter().cloned());
        self.topology.add(&class.appearance, host_id, pods);
        self.left[class_index] -= pods;
        self.steps.push(Step { class: class_index, host: host_id, pods });
    }

    fn claim_is_held(&self, class: &Class) -> bool {
        class.volumes.exclusive.iter().any(|claim| self.claims_held.contains(claim))
    }

    fn buy(&mut self, cell_index: usize, candidate: usize) -> HostId {
        let cell = &self.market.cells[cell_index];
        let chosen = &cell.candidates[candidate];
        let limits = self.snapshot.pools[cell.pool].types[chosen.instance_type].volume_limits.clone();
        add_times(&mut self.wanted, &chosen.free, -1);
        self.ledger.buy(cell.pool, chosen);
        self.hosts.push(Host::planned(cell_index, cell, candidate, limits));
        self.topology.join(cell_index);
        self.hosts.len() - 1
    }

    fn grow(&mut self, host_id: HostId, to: usize) {
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
    }

    /// Gives every planned host the cheapest type that holds what is on it.
    fn right_size(&mut self) {
        for host_id in self.existing..self.hosts.len() {
            let HostOrigin::Planned { cell, candidate } = self.hosts[host_id].origin else { continue };
            let cell_ref = &self.market.cells[cell];
            let current = &cell_ref.candidates[candidate];
            let load = self.hosts[host_id].load(current);
            let cheaper = cell_ref.front.iter().copied().find(|index| {
                let option = &cell_ref.candidates[*index];
                option.price < current.price
                    && fits(&load, &option.free)
                    && self.ledger.refusal_to_exchange(cell_ref.pool, current, option).is_none()
                    && self.volumes_fit_as(host_id, cell_ref.pool, option)
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
        let mut volumes = AttachedVolumes::limited_to(limits.clone());
        for (class, pods) in &self.hosts[host].placed {
            volumes.attach(&self.classes.classes[*class], *pods);
        }
        Some(volumes)
    }

    fn volumes_fit_as(&self, host: HostId, pool: usize, option: &Candidate) -> bool {
        self.volumes_as(host, pool, option).is_none_or(|volumes| volumes.within_limits())
    }

    /// The purchase that gives the most worth for the money, from the heaviest pools that have any.
    fn best_purchase(
        &mut self,
        class_index: usize,
        level: &Level,
        trial_classes: &[usize],
        going_rate: &mut Option<(i32, f64)>,
    ) -> Option<Purchase> {
        if self.claim_is_held(&self.classes.classes[class_index]) {
            return None;
        }
        if let Some((weight, rate)) = *going_rate
            && let Some(growth) = self.growth(class_index, level, weight, rate * GROWTH_PREFERENCE)
        {
            return Some(growth);
        }
        let weights = self.weights.clone();
        weights.into_iter().find_map(|weight| {
            let new = self.best_new(class_index, level, weight, trial_classes);
            let rate = new.map_or(f64::INFINITY, |(ratio, _)| ratio);
            let growth = self.growth(class_index, level, weight, rate * GROWTH_PREFERENCE);
            if growth.is_some() || new.is_some() {
                *going_rate = Some((weight, rate));
            }
            growth.or(new.map(|(_, purchase)| purchase))
        })
    }

    /// The best new host: the ratio of its price to the worth of what it would hold.
    fn best_new(
        &self,
        class_index: usize,
        level: &Level,
        weight: i32,
        trial_classes: &[usize],
    ) -> Option<(f64, Purchase)> {
        let class = &self.classes.classes[class_index];
        let cap = per_host_cap(class, &level.rules, &self.topology).unwrap_or(u32::MAX);
        let here = self.left[class_index].min(cap);
        let mut options: Vec<(f64, i64, usize, usize)> = Vec::new();
        for cell_index in self.admitted_cells[level.demand].ones() {
            let cell = &self.market.cells[cell_index];
            let pool = &self.snapshot.pools[cell.pool];
            if pool.weight != weight
                || pool.replicas.is_some()
                || self.topology.room(&level.rules, &class.appearance, Place::NewIn(cell_index)).is_err()
                || class.ports.iter().any(|port| cell.daemon_ports.iter().any(|taken| taken.conflicts(port)))
            {
                continue;
            }
            for index in &cell.front {
                let candidate = &cell.candidates[*index];
                let pods = times_fitting(&class.requests, &candidate.free).min(here);
                if pods == 0
                    || self.ledger.refusal_to_buy(cell.pool, candidate).is_some()
                    || !self.volumes_fit_new(class, cell.pool, candidate)
                    || !self.min_values_hold(&[(class_index, 1)], cell_index, &class.requests)
                {
                    continue;
                }
                let own = self.worth.value(&class.requests) * f64::from(pods);
                // A host that only takes so many of this class is bought for them alone; it may grow later.
                let worth = if here == cap {
                    own
                } else {
                    self.worth.value_capped(&candidate.free, &self.wanted_at_least(class, pods)).max(own)
                };
                options.push((ratio(candidate.price, worth), candidate.price, cell_index, *index));
            }
        }
        options.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| (a.1, a.2, a.3).cmp(&(b.1, b.2, b.3))));
        let best_by_promise = *options.first()?;
        if here == cap {
            let (ratio, _, cell, candidate) = best_by_promise;
            return Some((ratio, Purchase::New { cell, candidate }));
        }
        options.truncate(TRIALS);
        options
            .into_iter()
            .map(|(_, price, cell, candidate)| {
                (self.trial(class_index, cell, candidate, trial_classes), price, cell, candidate)
            })
            .min_by(|a, b| a.0.total_cmp(&b.0).then_with(|| (a.1, a.2, a.3).cmp(&(b.1, b.2, b.3))))
            .map(|(ratio, _, cell, candidate)| (ratio, Purchase::New { cell, candidate }))
    }

    /// What is wanted beyond the room there is, and at least the pods that this purchase is for.
    fn wanted_at_least(&self, class: &Class, pods: u32) -> Amounts {
        self.wanted
            .iter()
            .zip(&class.requests)
            .map(|(wanted, request)| (*wanted).max(request * i64::from(pods)))
            .collect()
    }

    /// Some of the classes that are still to be placed, evenly over all sizes.
    fn trial_classes(&self, class_index: usize) -> Vec<usize> {
        let remaining: Vec<usize> = self
            .order
            .iter()
            .copied()
            .filter(|other| *other != class_index && self.left[*other] > 0)
            .collect();
        let stride = remaining.len().div_ceil(TRIAL_CLASSES).max(1);
        remaining.into_iter().step_by(stride).collect()
    }

    /// Fills an offering with the class and then with what else remains, and asks what that was worth.
    fn trial(&self, class_index: usize, cell: usize, candidate: usize, trial_classes: &[usize]) -> f64 {
        let candidate = &self.market.cells[cell].candidates[candidate];
        let mut free = candidate.free.clone();
        let mut put = |class: &Class, at_most: u32| {
            let pods = times_fitting(&class.requests, &free).min(at_most);
            add_times(&mut free, &class.requests, -i64::from(pods));
        };
        put(&self.classes.classes[class_index], self.left[class_index]);
        for other in trial_classes {
            let class = &self.classes.classes[*other];
            if self.admitted_cells[class.levels[0].demand].contains(cell) {
                put(class, self.left[*other]);
            }
        }
        let used: Amounts = candidate.free.iter().zip(&free).map(|(all, left)| all - left).collect();
        ratio(candidate.price, self.worth.value(&used))
    }

    /// A planned host that takes the class after growing, at an acceptable ratio.
    fn growth(
        &mut self,
        class_index: usize,
        level: &Level,
        weight: i32,
        acceptable: f64,
    ) -> Option<Purchase> {
        let class = &self.classes.classes[class_index];
        let planned = self.hosts.len() - self.existing;
        for step in 0..planned {
            let host_id = self.existing + (self.growth_cursor + step) % planned;
            let host = &self.hosts[host_id];
            let HostOrigin::Planned { cell, candidate } = host.origin else { continue };
            let cell_ref = &self.market.cells[cell];
            let pool = &self.snapshot.pools[cell_ref.pool];
            if pool.weight != weight
                || pool.replicas.is_some()
                || !self.admitted_cells[level.demand].contains(cell)
                || self.topology.room(&level.rules, &class.appearance, Place::Host(host_id)).is_err()
                || class.ports.iter().any(|port| host.ports.iter().any(|taken| taken.conflicts(port)))
            {
                continue;
            }
            let current = &cell_ref.candidates[candidate];
            let mut needed = host.load(current);
            add_times(&mut needed, &class.requests, 1);
            let larger = cell_ref.front.iter().copied().find(|index| {
                let option = &cell_ref.candidates[*index];
                fits(&needed, &option.free)
                    && self.ledger.refusal_to_exchange(cell_ref.pool, current, option).is_none()
                    && self
                        .volumes_as(host_id, cell_ref.pool, option)
                        .is_none_or(|volumes| volumes.room(class) > 0)
            });
            let Some(larger) = larger else { continue };
            let option = &cell_ref.candidates[larger];
            let more: Amounts = option.free.iter().zip(&current.free).map(|(to, from)| to - from).collect();
            let worth = self
                .worth
                .value_capped(&more, &self.wanted_at_least(class, 1))
                .max(self.worth.value(&class.requests));
            if ratio(option.price - current.price, worth) <= acceptable
                && self.min_values_hold(&with_one_more(&host.placed, class_index), cell, &needed)
            {
                self.growth_cursor = (self.growth_cursor + step + 1) % planned;
                return Some(Purchase::Grow { host: host_id, candidate: larger });
            }
        }
        None
    }

    fn volumes_fit_new(&self, class: &Class, pool: usize, candidate: &Candidate) -> bool {
        let limits = &self.snapshot.pools[pool].types[candidate.instance_type].volume_limits;
        limits.is_empty() || AttachedVolumes::limited_to(limits.clone()).room(class) > 0
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
            add_times(&mut needed, &self.classes.classes[class].requests, i64::from(pods));
            if self.min_values_hold(&with_one_more(&self.hosts[host].placed, class), cell, &needed) {
                break;
            }
            pods /= 2;
        }
        pods
    }

    fn min_values_matter(&self, pool: usize) -> bool {
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
            let mut values = std::collections::BTreeSet::new();
            for (_, candidate) in self.substitutes(placed, cell, needed) {
                values.extend(crate::market::offered_label(pool, candidate, key));
            }
            values.len() >= count as usize
        })
    }

    /// All candidates that could stand in for a host of this cell with these pods on it.
    pub(crate) fn substitutes<'b>(
        &'b self,
        placed: &'b [(usize, u32)],
        cell: usize,
        needed: &'b [i64],
    ) -> impl Iterator<Item = (usize, &'b Candidate)> + 'b {
        let home = &self.market.cells[cell];
        self.market
            .cells
            .iter()
            .enumerate()
            .filter(move |(index, other)| {
                other.pool == home.pool
                    && other.custom == home.custom
                    && placed.iter().all(|(class, _)| {
                        let levels = &self.classes.classes[*class].levels;
                        levels.last().is_some_and(|level| self.admitted_cells[level.demand].contains(*index))
                    })
            })
            .flat_map(|(index, other)| {
                other.candidates.iter().map(move |candidate| (index, other, candidate))
            })
            .filter(move |(_, other, candidate)| {
                // With the DaemonSets of either place: which of them run is only known once it is there.
                let more_daemons =
                    home.daemons.iter().zip(&other.daemons).map(|(here, there)| (here - there).max(0));
                let needed = needed.iter().zip(more_daemons).map(|(needed, more)| needed + more);
                needed.zip(&candidate.free).all(|(needed, free)| needed <= 0 || needed <= *free)
            })
            .map(|(index, _, candidate)| (index, candidate))
    }

    /// Why a new host of this cell takes no pod of the class, because of other pods.
    pub(crate) fn topology_refusal(&self, class: &Class, cell: usize) -> Option<TopologyRefusal> {
        let level = class.levels.last()?;
        self.topology.room(&level.rules, &class.appearance, Place::NewIn(cell)).err()
    }

    pub(crate) fn min_values_allow_alone(&self, class_index: usize, cell: usize) -> bool {
        let class = &self.classes.classes[class_index];
        self.min_values_hold(&[(class_index, 1)], cell, &class.requests)
    }
}

/// Hosts in the order in which they are to be filled, sorted only as far as it is looked at.
struct OpenHosts {
    entries: Vec<(f64, HostId)>,
    sorted: usize,
}

impl OpenHosts {
    fn get(&mut self, position: usize, wanted: usize) -> Option<HostId> {
        if position >= self.entries.len() {
            return None;
        }
        if position >= self.sorted {
            let rest = &mut self.entries[self.sorted..];
            let chunk = (wanted * 2 + 32).max(self.sorted).min(rest.len());
            let by_tightness = |a: &(f64, HostId), b: &(f64, HostId)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
            if chunk < rest.len() {
                rest.select_nth_unstable_by(chunk, by_tightness);
            }
            rest[..chunk].sort_unstable_by(by_tightness);
            self.sorted += chunk;
        }
        Some(self.entries[position].1)
    }
}

fn ratio(price: i64, worth: f64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a ratio for choosing among offerings")]
    let price = price as f64;
    if worth > 0.0 { price / worth } else { price * 1e12 }
}

pub(crate) fn add_times(sum: &mut Amounts, amounts: &[i64], times: i64) {
    sum.iter_mut().zip(amounts).for_each(|(sum, amount)| *sum += amount * times);
}

fn with_one_more(placed: &[(usize, u32)], class: usize) -> Vec<(usize, u32)> {
    let mut placed = placed.to_vec();
    if !placed.iter().any(|(other, _)| *other == class) {
        placed.push((class, 1));
    }
    placed
}

/// No other pod decides where the class may go, and nothing but resources how many fit on a host.
fn is_unruled(class: &Class, rules: &PodRules) -> bool {
    rules.spread.is_empty()
        && rules.affinity.is_empty()
        && rules.anti_affinity.is_empty()
        && class.appearance.shunned_by.is_empty()
        && class.ports.is_empty()
        && class.volumes.exclusive.is_empty()
}

/// How many pods of the class a single host takes at most, where that is fixed beforehand.
fn per_host_cap(class: &Class, rules: &PodRules, topology: &Topology) -> Option<u32> {
    let on_hostname = |group: &usize| topology.keys[topology.groups[*group].key].is_hostname;
    let by_spread = rules
        .spread
        .iter()
        .filter(|rule| rule.matches_itself && on_hostname(&rule.group))
        .map(|rule| rule.max_skew);
    let by_anti_affinity = rules
        .anti_affinity
        .iter()
        .filter(|group| on_hostname(group) && class.appearance.counted_by.contains(group))
        .map(|_| 1);
    let by_ports = (!class.ports.is_empty()).then_some(1);
    by_spread.chain(by_anti_affinity).chain(by_ports).min()
}
