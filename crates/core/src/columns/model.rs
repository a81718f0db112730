//! What may be rearranged, as a covering problem: items to be held, and sites that hold them.
//!
//! An item is a number of pods that are alike for every site: of one shape, with one set of sites, under the
//! same rules about pods of one host. Where other pods decide in which zone (or any other domain but a host)
//! a pod may be, the item keeps the domain that the pod has: every count of those rules stays as it is, and
//! what was legal stays legal. A site is an offering, any number of times, or the room on one host that is
//! there anyway.

use std::collections::{BTreeMap, BTreeSet};

use fixedbitset::FixedBitSet;

use crate::class::{Class, Level};
use crate::host::{HostOrigin, fits};
use crate::ledger::{Ledger, LimitKind};
use crate::market::Amounts;
use crate::pack::{Packer, add_times};
use crate::topology::{GroupId, HostId, KeyId, Place};

use super::knapsack::HostRule;

#[derive(Debug)]
pub(super) struct Model {
    pub(super) items: Vec<Item>,
    pub(super) sites: Vec<Site>,
    pub(super) limits: Vec<Limit>,
    /// Pods that stay where the packer put them, by host, in the order in which they were put there.
    pub(super) fixed: Vec<(HostId, Part)>,
    /// Planned hosts that stay because of such pods.
    pub(super) kept: BTreeSet<HostId>,
    /// The packer's own answer.
    pub(super) start: Vec<Pattern>,
    /// Every legal plan is an arrangement of the model: nothing was kept or restricted.
    pub(super) is_whole: bool,
}

#[derive(Debug)]
pub(super) struct Item {
    pub(super) requests: Amounts,
    pub(super) rules: Vec<HostRule>,
    pub(super) pods: u32,
    pub(super) parts: Vec<Part>,
    /// Where it may be, whatever its size, and where it also fits.
    pub(super) open: FixedBitSet,
    pub(super) sites: FixedBitSet,
}

/// Pods of one class, at one level of its preferences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Part {
    pub(super) class: usize,
    pub(super) level: usize,
    pub(super) pods: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Site {
    pub(super) kind: SiteKind,
    pub(super) room: Amounts,
    pub(super) price: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SiteKind {
    /// Room on a host that is there or kept; it can be used once and costs nothing more.
    Host(HostId),
    New {
        cell: usize,
        candidate: usize,
    },
}

/// What the sites may use of something together.
#[derive(Clone, Debug)]
pub(super) struct Limit {
    pub(super) left: i64,
    /// By ascending site.
    pub(super) uses: Vec<(usize, i64)>,
}

/// What one machine of a site holds, by ascending item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    pub(super) site: usize,
    pub(super) items: Vec<(usize, u32)>,
}

/// Where a pod may be because of other pods, and its place in the order of preferences: pods that agree in
/// this and in shape are one item.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Home {
    class: usize,
    level: usize,
    /// The weight of the pools that may hold it.
    weight: i32,
    domains: Vec<(KeyId, Option<crate::names::Text>)>,
}

/// Rooms that exist are looked at only so far: each is a row of the program.
pub(super) const HOST_SITES_MAX: usize = 192;

impl Model {
    pub(super) fn of(packer: &Packer<'_>) -> Self {
        let rules = Rules::of(packer);
        let mut movable: Vec<Vec<(Home, u32)>> = vec![Vec::new(); packer.hosts.len()];
        let mut fixed = Vec::new();
        for step in &packer.steps {
            let part = Part { class: step.class, level: step.level, pods: step.pods };
            match rules.home(packer, step.host, part) {
                Some(home) => movable[step.host].push((home, step.pods)),
                None => fixed.push((step.host, part)),
            }
        }
        let kept = kept_hosts(packer, &fixed);
        let crowd: Vec<HostId> = (0..packer.hosts.len())
            .filter(|host| is_there(packer, &kept, *host) && !movable[*host].is_empty())
            .skip(HOST_SITES_MAX)
            .collect();
        for host in crowd {
            fixed.extend(
                movable[host]
                    .drain(..)
                    .map(|(home, pods)| (host, Part { class: home.class, level: home.level, pods })),
            );
        }
        let mut homes: BTreeMap<Home, u32> = BTreeMap::new();
        for (home, pods) in movable.iter().flatten() {
            *homes.entry(home.clone()).or_insert(0) += pods;
        }
        let sites = sites(packer, &kept, &movable);
        let (items, item_of) = items(packer, &rules, homes, &sites);
        let start = start(packer, &kept, &movable, &item_of, &sites);
        let limits = limits(packer, &kept, &sites);
        let is_whole = packer.existing() <= HOST_SITES_MAX
            && fixed.is_empty()
            && kept.is_empty()
            && movable.iter().flatten().all(|(home, _)| rules.leave_free(packer, home))
            && packer.buying_weights() <= 1;
        Self { items, sites, limits, fixed, kept, start, is_whole }
    }

    pub(super) fn pods(&self) -> u32 {
        self.items.iter().map(|item| item.pods).sum()
    }

    /// What a pod of each class costs by the prices of the items that its pods are in, on average.
    pub(super) fn class_prices(&self, classes: usize, prices: &[f64]) -> Vec<f64> {
        let mut sums = vec![(0.0, 0.0); classes];
        for (item, price) in self.items.iter().zip(prices) {
            for part in &item.parts {
                let (sum, pods) = &mut sums[part.class];
                *sum += price.max(0.0) * f64::from(part.pods);
                *pods += f64::from(part.pods);
            }
        }
        sums.into_iter().map(|(sum, pods)| if pods > 0.0 { sum / pods } else { 0.0 }).collect()
    }
}

/// Which rules bind which classes.
struct Rules {
    /// Groups over hosts that limit somebody.
    limiting: BTreeSet<GroupId>,
    /// Groups over hosts whose pods others must be with.
    together: BTreeSet<GroupId>,
}

impl Rules {
    fn of(packer: &Packer<'_>) -> Self {
        let on_host = |group: &GroupId| packer.topology.is_over_hosts(*group);
        let mut rules = Self { limiting: BTreeSet::new(), together: BTreeSet::new() };
        for class in &packer.classes.all {
            for level in &class.levels {
                let spread = level.rules.spread.iter().map(|rule| rule.group);
                let apart = level.rules.anti_affinity.iter().copied();
                rules.limiting.extend(spread.chain(apart).filter(on_host));
                let near = level.rules.affinity.iter().flat_map(|rule| rule.groups.iter().copied());
                rules.together.extend(near.filter(on_host));
            }
        }
        rules
    }

    /// The home of pods that may be moved; `None` for those that have to stay.
    fn home(&self, packer: &Packer<'_>, host: HostId, part: Part) -> Option<Home> {
        let class = &packer.classes.all[part.class];
        let level = &class.levels[part.level];
        let weight = match packer.hosts[host].origin {
            HostOrigin::Node(_) => {
                if !self.may_share_nodes(packer, class, level) {
                    return None;
                }
                packer.heaviest_pool(part.class)
            }
            HostOrigin::Planned { cell, .. } => {
                let pool = packer.market.cells[cell].pool;
                if packer.is_particular(pool) {
                    return None;
                }
                packer.pool_weight(pool)
            }
        };
        let stays = !class.ports.is_empty()
            || class.volumes.attach()
            || class.nominated.is_some()
            || class.appearance.counted_by.iter().any(|group| self.together.contains(group))
            || level.rules.affinity.iter().flat_map(|r| &r.groups).any(|group| self.together.contains(group));
        if stays {
            return None;
        }
        let domains = domain_keys(packer, class, level)
            .into_iter()
            .map(|key| (key, packer.topology.domain_name(Place::Host(host), key).cloned()))
            .collect();
        Some(Home { class: part.class, level: part.level, weight, domains })
    }

    /// Whether the model lets these pods go wherever a legal plan may put them.
    fn leave_free(&self, packer: &Packer<'_>, home: &Home) -> bool {
        let class = &packer.classes.all[home.class];
        let spread = class.levels.iter().flat_map(|level| &level.rules.spread);
        let on_nodes = packer.existing() == 0
            || class.levels.iter().all(|level| self.may_share_nodes(packer, class, level));
        home.domains.is_empty() && class.levels.len() == 1 && spread.count() == 0 && on_nodes
    }

    /// Whether pods that run on the nodes have no say in how many of the class may be on one of them.
    fn may_share_nodes(&self, packer: &Packer<'_>, class: &Class, level: &Level) -> bool {
        let shunned = class.appearance.shunned_by.iter().any(|group| packer.topology.is_over_hosts(*group));
        !shunned && self.host_rules(class, level).is_empty()
    }

    fn host_rules(&self, class: &Class, level: &Level) -> Vec<HostRule> {
        let mut most: BTreeMap<GroupId, u32> = BTreeMap::new();
        let counted = |group: &GroupId| class.appearance.counted_by.contains(group);
        for group in class.appearance.counted_by.iter().filter(|group| self.limiting.contains(group)) {
            most.insert(*group, u32::MAX);
        }
        for rule in level.rules.spread.iter().filter(|rule| self.limiting.contains(&rule.group)) {
            let most = most.entry(rule.group).or_insert(u32::MAX);
            *most = rule.max_skew.min(*most);
        }
        for group in level.rules.anti_affinity.iter().filter(|group| self.limiting.contains(group)) {
            let most = most.entry(*group).or_insert(u32::MAX);
            *most = u32::from(counted(group)).min(*most);
        }
        most.into_iter().map(|(group, most)| HostRule { group, counted: counted(&group), most }).collect()
    }
}

/// Keys other than the hostname under which other pods decide about the class, or it about them.
fn domain_keys(packer: &Packer<'_>, class: &Class, level: &Level) -> BTreeSet<KeyId> {
    let rules = &level.rules;
    let near = rules.affinity.iter().flat_map(|rule| &rule.groups);
    let spread = rules.spread.iter().map(|rule| &rule.group);
    let appearance = &class.appearance;
    let seen = appearance.counted_by.iter().chain(&appearance.owns).chain(&appearance.shunned_by);
    near.chain(spread)
        .chain(&rules.anti_affinity)
        .chain(seen)
        .filter(|group| !packer.topology.is_over_hosts(**group))
        .map(|group| packer.topology.groups[*group].key)
        .collect()
}

/// Planned hosts that stay: those with pods that do, and those that exist whatever the pods want.
fn kept_hosts(packer: &Packer<'_>, fixed: &[(HostId, Part)]) -> BTreeSet<HostId> {
    let with_fixed = fixed.iter().map(|(host, _)| *host);
    with_fixed.chain(packer.fixed_nodes()).filter(|host| *host >= packer.existing()).collect()
}

/// Whether the host exists whatever becomes of the pods that may be moved.
fn is_there(packer: &Packer<'_>, kept: &BTreeSet<HostId>, host: HostId) -> bool {
    host < packer.existing() || kept.contains(&host)
}

fn sites(packer: &Packer<'_>, kept: &BTreeSet<HostId>, movable: &[Vec<(Home, u32)>]) -> Vec<Site> {
    let mut rooms: Vec<Site> = Vec::new();
    for (host_id, host) in packer.hosts.iter().enumerate() {
        if !is_there(packer, kept, host_id) {
            continue;
        }
        let mut room = host.free.clone();
        for (home, pods) in &movable[host_id] {
            add_times(&mut room, &packer.classes.all[home.class].requests, i64::from(*pods));
        }
        if room.iter().any(|amount| *amount > 0) {
            rooms.push(Site { kind: SiteKind::Host(host_id), room, price: 0 });
        }
    }
    // Those that hold something now, then the roomiest.
    rooms.sort_by(|a, b| {
        let (SiteKind::Host(a_host), SiteKind::Host(b_host)) = (a.kind, b.kind) else {
            return std::cmp::Ordering::Equal;
        };
        let used = |host: HostId| !movable[host].is_empty();
        used(b_host).cmp(&used(a_host)).then_with(|| b.room.cmp(&a.room)).then(a_host.cmp(&b_host))
    });
    rooms.truncate(HOST_SITES_MAX);
    rooms.sort_by_key(|site| site.kind);
    for (cell_index, cell) in packer.market.cells.iter().enumerate() {
        if packer.buys_for_pods(cell.pool) && !packer.is_particular(cell.pool) {
            rooms.extend(cell.front.iter().map(|candidate| Site {
                kind: SiteKind::New { cell: cell_index, candidate: *candidate },
                room: cell.candidates[*candidate].free.clone(),
                price: cell.candidates[*candidate].price,
            }));
        }
    }
    rooms
}

/// The items, and which of them each home belongs to.
fn items(
    packer: &Packer<'_>,
    rules: &Rules,
    homes: BTreeMap<Home, u32>,
    sites: &[Site],
) -> (Vec<Item>, BTreeMap<Home, usize>) {
    let mut items = Items::default();
    let mut item_of = BTreeMap::new();
    for (home, pods) in homes {
        let class = &packer.classes.all[home.class];
        let level = &class.levels[home.level];
        let on_nodes = rules.may_share_nodes(packer, class, level);
        let open = |site: &Site| admits(packer, site, &home, level, on_nodes);
        let part = Part { class: home.class, level: home.level, pods };
        let item = items.add(&class.requests, rules.host_rules(class, level), part, sites, open);
        item_of.insert(home, item);
    }
    (items.all, item_of)
}

/// Items in the making: pods that are alike for every site are one.
#[derive(Default)]
pub(super) struct Items {
    pub(super) all: Vec<Item>,
    alike: BTreeMap<(Amounts, Vec<HostRule>, Vec<usize>), usize>,
}

impl Items {
    pub(super) fn add(
        &mut self,
        requests: &Amounts,
        rules: Vec<HostRule>,
        part: Part,
        sites: &[Site],
        is_open: impl Fn(&Site) -> bool,
    ) -> usize {
        let open: FixedBitSet = (0..sites.len()).filter(|site| is_open(&sites[*site])).collect();
        let fitting: Vec<usize> = open.ones().filter(|site| fits(requests, &sites[*site].room)).collect();
        let sites = fitting.iter().copied().collect();
        let item = *self.alike.entry((requests.clone(), rules.clone(), fitting)).or_insert_with(|| {
            self.all.push(Item {
                requests: requests.clone(),
                rules,
                pods: 0,
                parts: Vec::new(),
                open,
                sites,
            });
            self.all.len() - 1
        });
        self.all[item].pods += part.pods;
        self.all[item].parts.push(part);
        item
    }
}

fn admits(packer: &Packer<'_>, site: &Site, home: &Home, level: &Level, on_nodes: bool) -> bool {
    let place = match site.kind {
        SiteKind::Host(host) => Place::Host(host),
        SiteKind::New { cell, .. } => Place::NewIn(cell),
    };
    let admitted = match site.kind {
        SiteKind::Host(host) => on_nodes && packer.host_admits(level, host),
        SiteKind::New { cell, .. } => {
            packer.pool_weight(packer.market.cells[cell].pool) == home.weight
                && packer.admitted_cells[level.demand].contains(cell)
        }
    };
    admitted
        && home
            .domains
            .iter()
            .all(|(key, domain)| packer.topology.domain_name(place, *key) == domain.as_ref())
}

/// What the packer made of it, as far as it may be rearranged.
fn start(
    packer: &Packer<'_>,
    kept: &BTreeSet<HostId>,
    movable: &[Vec<(Home, u32)>],
    item_of: &BTreeMap<Home, usize>,
    sites: &[Site],
) -> Vec<Pattern> {
    let site_of: BTreeMap<SiteKind, usize> =
        sites.iter().enumerate().map(|(index, site)| (site.kind, index)).collect();
    let mut patterns = Vec::new();
    for (host_id, placed) in movable.iter().enumerate().filter(|(_, placed)| !placed.is_empty()) {
        let kind = match packer.hosts[host_id].origin {
            HostOrigin::Planned { cell, candidate } if !is_there(packer, kept, host_id) => {
                SiteKind::New { cell, candidate }
            }
            _ => SiteKind::Host(host_id),
        };
        let Some(site) = site_of.get(&kind) else { continue };
        let mut counts: BTreeMap<usize, u32> = BTreeMap::new();
        for (home, pods) in placed {
            *counts.entry(item_of[home]).or_insert(0) += pods;
        }
        patterns.push(Pattern { site: *site, items: counts.into_iter().collect() });
    }
    patterns
}

/// What the pools may still have once the kept hosts are counted.
fn limits(packer: &Packer<'_>, kept: &BTreeSet<HostId>, sites: &[Site]) -> Vec<Limit> {
    let mut ledger = Ledger::open(packer.snapshot(), packer.market);
    for host in kept {
        if let HostOrigin::Planned { cell, candidate } = packer.hosts[*host].origin {
            let cell = &packer.market.cells[cell];
            ledger.buy(cell.pool, &cell.candidates[candidate]);
        }
    }
    ledger
        .limits()
        .into_iter()
        .map(|(kind, left)| {
            let uses = sites
                .iter()
                .enumerate()
                .filter_map(|(index, site)| {
                    let SiteKind::New { cell, candidate } = site.kind else { return None };
                    let cell = &packer.market.cells[cell];
                    let candidate = &cell.candidates[candidate];
                    let amount = match &kind {
                        LimitKind::Resource { pool, index } if *pool == cell.pool => {
                            candidate.limited[*index]
                        }
                        LimitKind::Nodes { pools } if pools.contains(&cell.pool) => 1,
                        LimitKind::Reservation(id) if candidate.reservation == Some(*id) => 1,
                        _ => 0,
                    };
                    (amount > 0).then_some((index, amount))
                })
                .collect();
            Limit { left: left.max(0), uses }
        })
        .filter(|limit: &Limit| !limit.uses.is_empty())
        .collect()
}
