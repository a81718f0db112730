//! The problem with fewer rules, for proofs: every legal plan is one of its arrangements, whatever it pays.
//!
//! Only resources, where pods may be at all, and pods that keep apart count. So it holds the pods that the
//! model leaves in their places too, and its prices and its least cost hold for all legal plans.

use std::collections::BTreeMap;

use super::knapsack::HostRule;
use super::model::{HOST_SITES_MAX, Items, Model, Part, Pattern, Site, SiteKind};
use crate::class::{Class, Level};
use crate::host::HostOrigin;
use crate::pack::Packer;
use crate::topology::Topology;

impl Model {
    /// What `packer` placed, with all that it could have bought for it. `fresh` has placed nothing yet.
    pub(super) fn relaxed(packer: &Packer<'_>, fresh: &Packer<'_>) -> Self {
        let sites = sites(fresh);
        let mut items = Items::default();
        let mut item_of = vec![None; packer.classes.all.len()];
        for (index, class) in packer.classes.all.iter().enumerate() {
            let placed = u32::try_from(class.pods.len()).unwrap_or(u32::MAX) - packer.left[index];
            let Some(level) = class.levels.last().filter(|_| placed > 0) else { continue };
            let rules = apart(class, level, &packer.topology);
            let open = |site: &Site| match site.kind {
                SiteKind::Host(host) => fresh.host_admits(level, host),
                SiteKind::New { cell, .. } => packer.admitted_cells[level.demand].contains(cell),
            };
            let part = Part { class: index, level: class.levels.len() - 1, pods: placed };
            item_of[index] = Some(items.add(&class.requests, rules, part, &sites, open));
        }
        let start = start(packer, &sites, &item_of);
        let items = items.all;
        Self { items, sites, limits: Vec::new(), fixed: Vec::new(), kept: [].into(), start, is_whole: true }
    }
}

/// Rooms that exist, and everything that is to be had.
fn sites(fresh: &Packer<'_>) -> Vec<Site> {
    let rooms = fresh.hosts.iter().enumerate().take(fresh.existing());
    let mut sites: Vec<Site> = rooms
        .filter(|(_, host)| host.free.iter().any(|free| *free > 0))
        .take(HOST_SITES_MAX)
        .map(|(host, slot)| Site { kind: SiteKind::Host(host), room: slot.free.clone(), price: 0 })
        .collect();
    for (index, cell) in fresh.market.cells.iter().enumerate() {
        sites.extend(cell.front.iter().map(|candidate| Site {
            kind: SiteKind::New { cell: index, candidate: *candidate },
            room: cell.candidates[*candidate].free.clone(),
            price: cell.candidates[*candidate].price,
        }));
    }
    sites
}

/// Pods that may never share a host with each other, or with those of another class.
fn apart(class: &Class, level: &Level, topology: &Topology) -> Vec<HostRule> {
    let counted = |group: &usize| class.appearance.counted_by.contains(group);
    let mut rules: BTreeMap<usize, HostRule> = BTreeMap::new();
    for group in class.appearance.counted_by.iter().filter(|group| topology.is_over_hosts(**group)) {
        rules.insert(*group, HostRule { group: *group, counted: true, most: u32::MAX });
    }
    for group in level.rules.anti_affinity.iter().filter(|group| topology.is_over_hosts(**group)) {
        let counted = counted(group);
        rules.insert(*group, HostRule { group: *group, counted, most: u32::from(counted) });
    }
    rules.into_values().collect()
}

/// What the packer bought and filled.
fn start(packer: &Packer<'_>, sites: &[Site], item_of: &[Option<usize>]) -> Vec<Pattern> {
    let site_of: BTreeMap<SiteKind, usize> =
        sites.iter().enumerate().map(|(index, site)| (site.kind, index)).collect();
    let mut patterns = Vec::new();
    for (host_id, host) in packer.hosts.iter().enumerate().filter(|(_, host)| !host.placed.is_empty()) {
        let kind = match host.origin {
            HostOrigin::Planned { cell, candidate } => SiteKind::New { cell, candidate },
            HostOrigin::Node(_) => SiteKind::Host(host_id),
        };
        let Some(site) = site_of.get(&kind) else { continue };
        let mut counts: BTreeMap<usize, u32> = BTreeMap::new();
        for (class, pods) in &host.placed {
            if let Some(item) = item_of[*class] {
                *counts.entry(item).or_insert(0) += pods;
            }
        }
        patterns.push(Pattern { site: *site, items: counts.into_iter().collect() });
    }
    patterns
}
