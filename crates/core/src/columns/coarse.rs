//! Prices for very many items: those that are nearly alike are priced as one.
//!
//! A program grows with the cube of its rows. So items that may go to the same places under the same rules are
//! put into few groups by size, a group counts as so many pods of its mean size, and what the program says of
//! a group its items share by their worth.

use std::collections::BTreeMap;

use crate::bound::{Worth, float};
use crate::host::{fits, times_fitting};
use crate::market::Amounts;

use super::Work;
use super::generate::{Pool, in_parallel};
use super::knapsack::{HostRule, Ranking};
use super::model::{Item, Model, Pattern, Site};

/// Beyond so many items the program itself is too slow to begin with.
pub(super) const ITEMS_FEW: usize = 120;
const GROUPS_MAX: usize = 64;
/// Prices of groups are only about right, however long they are worked on.
const GROUP_ROUNDS_MAX: u64 = 20;

/// What a pod of each item costs at the margin, or about as much. `None` where rules make too many groups.
pub(super) fn prices(model: &Model, worth: &Worth, work: &mut Work<'_>) -> Option<Vec<f64>> {
    let groups = groups(&model.items)?;
    let coarse = model.grouped(&groups);
    work.suit(coarse.items.len(), coarse.sites.len());
    let group_prices = Pool::new(&coarse).generate(work, GROUP_ROUNDS_MAX);
    let mut prices = vec![0.0; model.items.len()];
    for ((group, mean), price) in groups.iter().zip(&coarse.items).zip(&group_prices) {
        let mean = worth.value(&mean.requests);
        for item in group {
            let share = if mean > 0.0 { worth.value(&model.items[*item].requests) / mean } else { 1.0 };
            prices[*item] = price * share;
        }
    }
    // So many small pods as could stand in the place of a large one are not dearer than it.
    for (item, price) in model.items.iter().zip(&mut prices) {
        for (mean, group_price) in coarse.items.iter().zip(&group_prices) {
            let times = times_fitting(&item.requests, &mean.requests);
            if times > 0 && item.sites.is_superset(&mean.sites) {
                *price = price.min(group_price / f64::from(times));
            }
        }
    }
    settle(model, &mut prices, work);
    Some(prices)
}

/// Steps of the search on each site, and how often all of them are looked at.
const SETTLE_STEPS: u32 = 400;
const SETTLE_TURNS: usize = 5;
/// A site may hold so much more than it costs.
const SETTLED: f64 = 1.01;

/// Lowers the prices of what a site holds for more than the site costs, until few do.
fn settle(model: &Model, prices: &mut [f64], work: &mut Work<'_>) {
    let sites: Vec<usize> = (0..model.sites.len()).filter(|site| !model.is_once(*site)).collect();
    let most: Vec<u32> = model.items.iter().map(|item| item.pods).collect();
    for _ in 0..SETTLE_TURNS {
        if !work.round() {
            return;
        }
        let held = in_parallel(work.threads, &sites, |site| {
            let (entries, items) = model.entries(*site, &most, prices);
            let Site { room, price, .. } = &model.sites[*site];
            let ranking = Ranking::of(room, &entries);
            if ranking.upper(room, &entries) <= float(*price) * SETTLED {
                return Vec::new();
            }
            let mix = ranking.without_dominated(room, &entries).mix(room, &entries, SETTLE_STEPS);
            items.into_iter().zip(mix.times).filter(|(_, times)| *times > 0).collect()
        });
        let mut settled = true;
        for (site, items) in sites.iter().zip(held) {
            let cost = float(model.sites[*site].price);
            let value: f64 = items.iter().map(|(item, times)| prices[*item] * f64::from(*times)).sum();
            if value > cost * SETTLED {
                settled = false;
                for (item, _) in &items {
                    prices[*item] *= cost / value;
                }
            }
        }
        if settled {
            return;
        }
    }
}

/// Splits the items until there are enough groups or all of a group are alike.
fn groups(items: &[Item]) -> Option<Vec<Vec<usize>>> {
    let mut by_rules: BTreeMap<(&[HostRule], Vec<usize>), Vec<usize>> = BTreeMap::new();
    for (index, item) in items.iter().enumerate() {
        by_rules.entry((&item.rules, item.open.ones().collect())).or_default().push(index);
    }
    let mut groups: Vec<Vec<usize>> = by_rules.into_values().collect();
    if groups.len() > GROUPS_MAX / 2 {
        return None;
    }
    while groups.len() < GROUPS_MAX {
        let widest = (0..groups.len())
            .map(|index| (widest_dimension(items, &groups[index]), index))
            .max_by(|((a, _), a_index), ((b, _), b_index)| a.total_cmp(b).then(b_index.cmp(a_index)));
        let Some(((_, dimension), index)) = widest.filter(|((spread, _), _)| *spread > 0.0) else { break };
        let mut low = std::mem::take(&mut groups[index]);
        low.sort_by_key(|item| (items[*item].requests[dimension], *item));
        let high = low.split_off(middle(items, &low, dimension));
        groups[index] = low;
        groups.push(high);
    }
    Some(groups)
}

/// The resource in which a group differs most, and how much that is for all of its pods together.
fn widest_dimension(items: &[Item], group: &[usize]) -> (f64, usize) {
    let pods: u32 = group.iter().map(|item| items[*item].pods).sum();
    let dimensions = group.first().map_or(0, |item| items[*item].requests.len());
    (0..dimensions)
        .map(|dimension| {
            let sizes = group.iter().map(|item| items[*item].requests[dimension].max(1));
            let (least, most) =
                sizes.fold((i64::MAX, 1), |(least, most), size| (least.min(size), most.max(size)));
            ((float(most) / float(least)).ln() * f64::from(pods), dimension)
        })
        .max_by(|(a, a_dimension), (b, b_dimension)| a.total_cmp(b).then(b_dimension.cmp(a_dimension)))
        .unwrap_or((0.0, 0))
}

/// Where the sorted group is cut: between sizes that differ, as near to half of the pods as that gets.
fn middle(items: &[Item], sorted: &[usize], dimension: usize) -> usize {
    let size = |position: usize| items[sorted[position]].requests[dimension];
    let pods: u64 = sorted.iter().map(|item| u64::from(items[*item].pods)).sum();
    let mut before = 0;
    let mut best = (u64::MAX, 1);
    for position in 1..sorted.len() {
        before += u64::from(items[sorted[position - 1]].pods);
        if size(position - 1) != size(position) {
            best = best.min((before.abs_diff(pods - before), position));
        }
    }
    best.1
}

impl Model {
    /// The same sites and limits, with one item for each group.
    fn grouped(&self, groups: &[Vec<usize>]) -> Self {
        let mut group_of = vec![0; self.items.len()];
        for (index, group) in groups.iter().enumerate() {
            for item in group {
                group_of[*item] = index;
            }
        }
        let items = groups.iter().filter_map(|group| self.mean(group)).collect();
        let start = self
            .start
            .iter()
            .map(|pattern| {
                let mut counts: BTreeMap<usize, u32> = BTreeMap::new();
                for (item, pods) in &pattern.items {
                    *counts.entry(group_of[*item]).or_insert(0) += pods;
                }
                Pattern { site: pattern.site, items: counts.into_iter().collect() }
            })
            .collect();
        Self {
            items,
            sites: self.sites.clone(),
            limits: self.limits.clone(),
            fixed: Vec::new(),
            kept: [].into(),
            start,
            is_whole: false,
        }
    }

    fn mean(&self, group: &[usize]) -> Option<Item> {
        let first = &self.items[*group.first()?];
        let pods: i64 = group.iter().map(|item| i64::from(self.items[*item].pods)).sum();
        let requests: Amounts = (0..first.requests.len())
            .map(|dimension| {
                let all = group.iter().map(|item| &self.items[*item]);
                let sum: i128 = all.map(|i| i128::from(i.requests[dimension]) * i128::from(i.pods)).sum();
                i64::try_from(sum / i128::from(pods.max(1))).unwrap_or(i64::MAX)
            })
            .collect();
        let sites = first.open.ones().filter(|site| fits(&requests, &self.sites[*site].room)).collect();
        Some(Item {
            requests,
            rules: first.rules.clone(),
            pods: u32::try_from(pods).unwrap_or(u32::MAX),
            parts: Vec::new(),
            open: first.open.clone(),
            sites,
        })
    }
}
