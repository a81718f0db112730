//! Which hosts have room for a class, in the order in which they are to be filled.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::bound::Worth;
use crate::class::{Class, Level};
use crate::host::{Host, HostOrigin, times_fitting};
use crate::names::Text;
use crate::topology::{HostId, KeyId, Place};

use super::Packer;

/// How many hosts are looked up at a time: few classes need more.
const LOOK_UP: usize = 16;

/// How many hosts stand together at most.
const BLOCK: usize = 64;

/// Free CPU and memory of a host: most hosts are ruled out by a look at these.
pub(super) type Leading = [i64; 2];

pub(super) fn leading(host: &Host) -> Leading {
    [host.free[0], host.free[1]]
}

fn may_hold(free: &Leading, requests: &[i64]) -> bool {
    free.iter().zip(requests).all(|(free, request)| *request <= 0 || request <= free)
}

/// The tightest host comes first.
#[derive(Clone, Copy, Debug)]
struct Rank {
    /// What the free room is worth. Room that is overdrawn counts as none, so that whatever holds a pod is
    /// worth at least as much as the pod.
    tightness: f64,
    host: HostId,
}

impl Rank {
    fn of(host: HostId, state: &Host, worth: &Worth) -> Self {
        Self { tightness: worth.value_of_positive(&state.free), host }
    }

    fn is_before(&self, other: &Self) -> bool {
        self.tightness.total_cmp(&other.tightness).then(self.host.cmp(&other.host)) == Ordering::Less
    }
}

/// Hosts by rank, in blocks that are passed over whole where none of a block's hosts has enough of a resource.
#[derive(Debug, Default)]
struct Ranked {
    blocks: Vec<Block>,
}

#[derive(Debug, Default)]
struct Block {
    hosts: Vec<(Rank, Leading)>,
    /// The most of each that any of them has.
    most: Leading,
}

impl Block {
    fn of(hosts: Vec<(Rank, Leading)>) -> Self {
        let most = |resource: usize| hosts.iter().map(|(_, free)| free[resource]).max().unwrap_or(0);
        Self { most: [most(0), most(1)], hosts }
    }

    fn position(&self, rank: &Rank) -> usize {
        self.hosts.partition_point(|(other, _)| other.is_before(rank))
    }
}

impl Ranked {
    /// The block in which the rank is or would be; the last where it comes after all.
    fn block(&self, rank: &Rank) -> usize {
        let after = |block: &Block| block.hosts.last().is_some_and(|(last, _)| last.is_before(rank));
        self.blocks.partition_point(after).min(self.blocks.len().saturating_sub(1))
    }

    fn insert(&mut self, rank: Rank, free: Leading) {
        if self.blocks.is_empty() {
            self.blocks.push(Block::default());
        }
        let index = self.block(&rank);
        let block = &mut self.blocks[index];
        block.hosts.insert(block.position(&rank), (rank, free));
        if block.hosts.len() > BLOCK {
            let upper = Block::of(block.hosts.split_off(BLOCK / 2));
            *block = Block::of(std::mem::take(&mut block.hosts));
            self.blocks.insert(index + 1, upper);
        } else {
            block.most = [block.most[0].max(free[0]), block.most[1].max(free[1])];
        }
    }

    fn remove(&mut self, rank: &Rank) {
        let index = self.block(rank);
        let Some(block) = self.blocks.get_mut(index) else { return };
        let position = block.position(rank);
        if position < block.hosts.len() {
            block.hosts.remove(position);
            *block = Block::of(std::mem::take(&mut block.hosts));
        }
        if block.hosts.is_empty() {
            self.blocks.remove(index);
        }
    }

    /// From this rank on, the hosts that have enough CPU and memory.
    fn from<'a>(&'a self, first: Rank, requests: &'a [i64]) -> impl Iterator<Item = Rank> + 'a {
        let blocks = self.blocks[self.block(&first)..].iter();
        blocks
            .filter(|block| may_hold(&block.most, requests))
            .flat_map(move |block| &block.hosts[block.position(&first)..])
            .filter(|(_, free)| may_hold(free, requests))
            .map(|(rank, _)| *rank)
    }
}

/// All hosts in the order in which they are to be filled. A host that changes keeps its old rank until the
/// order is next refreshed, so that it is ranked once however many pods it takes in between.
#[derive(Debug, Default)]
pub(super) struct FillOrder {
    existing: Ranked,
    planned: Ranked,
    /// The rank under which each host is found, and whether as a planned one.
    rank_of: Vec<Option<(bool, Rank)>>,
    changed: Vec<HostId>,
    is_changed: Vec<bool>,
}

impl FillOrder {
    pub(super) fn change(&mut self, host: HostId) {
        if host >= self.is_changed.len() {
            self.is_changed.resize(host + 1, false);
            self.rank_of.resize(host + 1, None);
        }
        if !std::mem::replace(&mut self.is_changed[host], true) {
            self.changed.push(host);
        }
    }

    fn ranked(&mut self, planned: bool) -> &mut Ranked {
        if planned { &mut self.planned } else { &mut self.existing }
    }

    fn refresh(&mut self, hosts: &[Host], worth: &Worth) {
        for host in std::mem::take(&mut self.changed) {
            self.is_changed[host] = false;
            if let Some((planned, rank)) = self.rank_of[host].take() {
                self.ranked(planned).remove(&rank);
            }
            // A host may be gone.
            if let Some(state) = hosts.get(host) {
                let planned = matches!(state.origin, HostOrigin::Planned { .. });
                let rank = Rank::of(host, state, worth);
                self.rank_of[host] = Some((planned, rank));
                self.ranked(planned).insert(rank, leading(state));
            }
        }
    }
}

/// Hosts on which at least one pod of a class fits, looked up as far as it is asked for.
pub(super) struct OpenHosts {
    found: Vec<HostId>,
    rest: Option<Rest>,
}

/// Where looking up goes on.
struct Rest {
    planned: bool,
    next: Rank,
}

impl OpenHosts {
    /// A host that was bought or grew for the class.
    pub(super) fn add(&mut self, host: HostId) {
        self.found.push(host);
    }

    /// Forgets what has no room left, so that the rest can be gone through again.
    pub(super) fn retain(&mut self, has_room: impl Fn(HostId) -> bool) {
        self.found.retain(|host| has_room(*host));
    }
}

impl Packer<'_> {
    /// Hosts on which at least one pod of the class fits, existing ones first, the tightest first.
    pub(super) fn open_hosts(&mut self, class: &Class, level: &Level) -> OpenHosts {
        self.fill_order.refresh(&self.hosts, self.worth);
        let rest = Some(Rest { planned: false, next: self.first_rank(class) });
        let mut open = OpenHosts { found: Vec::new(), rest };
        if let Some(key) = self.topology.key_to_settle(&level.rules) {
            while open.rest.is_some() {
                self.look_up(class, level, &mut open);
            }
            self.prefer_roomiest_domain(key, &mut open.found);
        }
        if let Some(nominated) = class.nominated.filter(|host| self.has_room(class, level, *host)) {
            open.found.insert(0, nominated);
        }
        open
    }

    /// The open host at this position, if there are so many.
    pub(super) fn open_host(
        &self,
        class: &Class,
        level: &Level,
        open: &mut OpenHosts,
        position: usize,
    ) -> Option<HostId> {
        while position >= open.found.len() && open.rest.is_some() {
            self.look_up(class, level, open);
        }
        open.found.get(position).copied()
    }

    /// Finds the next few hosts with room.
    fn look_up(&self, class: &Class, level: &Level, open: &mut OpenHosts) {
        let Some(Rest { planned, next }) = open.rest.take() else { return };
        let ranked = if planned { &self.fill_order.planned } else { &self.fill_order.existing };
        let wanted = open.found.len() + LOOK_UP;
        for rank in ranked.from(next, &class.requests) {
            if open.found.len() == wanted {
                open.rest = Some(Rest { planned, next: rank });
                return;
            }
            if self.has_room(class, level, rank.host) {
                open.found.push(rank.host);
            }
        }
        if !planned {
            open.rest = Some(Rest { planned: true, next: self.first_rank(class) });
        }
    }

    /// No host that holds a pod of the class ranks before this.
    fn first_rank(&self, class: &Class) -> Rank {
        Rank { tightness: self.worth.value(&class.requests), host: 0 }
    }

    fn has_room(&self, class: &Class, level: &Level, host: HostId) -> bool {
        may_hold(&self.leading[host], &class.requests)
            && self.host_admits(level, host)
            && !self.hosts[host].closed
            && times_fitting(&class.requests, &self.hosts[host].free) > 0
    }

    /// All hosts on which at least one pod of the class fits, in no order of merit.
    pub(super) fn hosts_with_room(&self, class: &Class, level: &Level) -> impl Iterator<Item = HostId> {
        (0..self.hosts.len()).filter(|host| self.has_room(class, level, *host))
    }

    /// Pods that want to be together settle where most of them find room.
    fn prefer_roomiest_domain(&self, key: KeyId, hosts: &mut [HostId]) {
        let domain = |host: HostId| self.topology.domain_name(Place::Host(host), key);
        let mut room: BTreeMap<Option<&Text>, f64> = BTreeMap::new();
        for host in hosts.iter() {
            *room.entry(domain(*host)).or_insert(0.0) += self.worth.value(&self.hosts[*host].free);
        }
        let roomiest = room.into_iter().reduce(|best, next| if next.1 > best.1 { next } else { best });
        if let Some((roomiest, _)) = roomiest {
            hosts.sort_by_key(|host| domain(*host) != roomiest);
        }
    }
}

/// Hosts in the order of a weight, sorted only as far as it is looked at.
pub(super) struct ByWeight {
    entries: Vec<(f64, HostId)>,
    sorted: usize,
}

impl ByWeight {
    pub(super) fn new(entries: Vec<(f64, HostId)>) -> Self {
        Self { entries, sorted: 0 }
    }

    pub(super) fn get(&mut self, position: usize, wanted: usize) -> Option<HostId> {
        if position >= self.entries.len() {
            return None;
        }
        if position >= self.sorted {
            let rest = &mut self.entries[self.sorted..];
            let chunk = (wanted * 2 + 32).max(self.sorted).min(rest.len());
            let by_weight = |a: &(f64, HostId), b: &(f64, HostId)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
            if chunk < rest.len() {
                rest.select_nth_unstable_by(chunk, by_weight);
            }
            rest[..chunk].sort_unstable_by(by_weight);
            self.sorted += chunk;
        }
        Some(self.entries[position].1)
    }
}
