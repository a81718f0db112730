//! Machines for very many items, chosen by the items' prices.
//!
//! The machine that holds most for its cost is bought as often as there are pods for it, again and again, until
//! all pods have a machine. What is left towards the end fits together badly; so whoever had to pay for that
//! is dearer in the next pass, and goes while there is still a choice.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::bound::float;

use super::Work;
use super::dive::Stock;
use super::generate::in_parallel;
use super::knapsack::{Entry, Ranking};
use super::model::{Model, Pattern};

/// Steps of the search for what to put on a machine, for all items together, and the least and the most of them:
/// with many items there are many searches.
const FILL_STEPS: usize = 600_000;
const FILL_STEPS_MIN: usize = 1_200;
const FILL_STEPS_MAX: usize = 4_000;
/// A second pass takes as long as the first, which grows with the square of the items.
const ITEMS_FOR_TWO_PASSES: usize = 300;

/// Machines for all pods as far as they go, the cheapest of all passes.
pub(super) fn fill(model: &Model, prices: &[f64], work: &mut Work<'_>) -> Vec<Pattern> {
    let mut prices = prices.to_vec();
    let mut best: Option<(u32, i64, Vec<Pattern>)> = None;
    let passes = if model.items.len() <= ITEMS_FOR_TWO_PASSES { 2 } else { 1 };
    for _ in 0..passes {
        if best.is_some() && !work.round() {
            break;
        }
        let pass = Pass::new(model, &prices, work.threads).run();
        let (left, cost) = (pass.left.iter().sum(), model.cost(&pass.machines));
        let corrected = pass.corrected();
        if best.as_ref().is_none_or(|(least_left, least, _)| (left, cost) < (*least_left, *least)) {
            best = Some((left, cost, pass.machines));
        }
        prices = corrected;
    }
    best.map(|(_, _, machines)| machines).unwrap_or_default()
}

struct Pass<'a> {
    model: &'a Model,
    prices: &'a [f64],
    left: Vec<u32>,
    stock: Stock,
    machines: Vec<Pattern>,
    /// What each item has cost so far, each machine shared by its pods in proportion to their prices.
    paid: Vec<f64>,
    /// What each site could hold.
    shelves: Vec<Shelf<'a>>,
    steps: u32,
}

/// What a site could hold: entries with the items that they are of, and in which order to take them.
struct Shelf<'a> {
    entries: Vec<Entry<'a>>,
    items: Vec<usize>,
    ranking: Ranking,
}

/// What a machine of a site held for its cost when it was last asked; since then there are only fewer pods.
struct Offer {
    worth: f64,
    site: usize,
}

impl<'a> Pass<'a> {
    fn new(model: &'a Model, prices: &'a [f64], threads: usize) -> Self {
        let left: Vec<u32> = model.items.iter().map(|item| item.pods).collect();
        let sites: Vec<usize> = (0..model.sites.len()).collect();
        let shelves = in_parallel(threads, &sites, |site| {
            let (entries, items) = model.entries(*site, &left, prices);
            let ranking = Ranking::of(&model.sites[*site].room, &entries);
            Shelf { entries, items, ranking }
        });
        let steps = (FILL_STEPS / left.len().max(1)).clamp(FILL_STEPS_MIN, FILL_STEPS_MAX);
        Self {
            model,
            prices,
            left,
            stock: Stock::of(model),
            machines: Vec::new(),
            paid: vec![0.0; model.items.len()],
            shelves,
            steps: u32::try_from(steps).unwrap_or(u32::MAX),
        }
    }

    fn run(mut self) -> Self {
        let sites = 0..self.model.sites.len();
        let mut offers: BinaryHeap<Offer> = sites.map(|site| Offer { worth: f64::INFINITY, site }).collect();
        while let Some(offer) = offers.pop() {
            let Some((worth, pattern)) = self.best_for(offer.site) else { continue };
            if worth >= offers.peek().map_or(0.0, |next| next.worth) {
                self.buy(&pattern);
            }
            offers.push(Offer { worth, site: offer.site });
        }
        self
    }

    fn best_for(&mut self, site: usize) -> Option<(f64, Pattern)> {
        if !self.stock.has(self.model, site) {
            return None;
        }
        let Shelf { entries, items, ranking } = &mut self.shelves[site];
        for (entry, item) in entries.iter_mut().zip(&*items) {
            entry.most = self.left[*item];
        }
        let mix = ranking.mix(&self.model.sites[site].room, entries, self.steps);
        let held = items.iter().copied().zip(mix.times).filter(|(_, pods)| *pods > 0);
        let items: Vec<(usize, u32)> = held.collect();
        let worth = mix.value / float(self.model.sites[site].price.max(1));
        (!items.is_empty()).then_some((worth, Pattern { site, items }))
    }

    /// Takes the pattern as often as there are pods and machines for it.
    fn buy(&mut self, pattern: &Pattern) {
        let price = float(self.model.sites[pattern.site].price);
        let worth: f64 = pattern.items.iter().map(|(item, pods)| self.prices[*item] * f64::from(*pods)).sum();
        while self.stock.has(self.model, pattern.site)
            && pattern.items.iter().all(|(item, pods)| *pods <= self.left[*item])
        {
            self.stock.take(self.model, pattern.site);
            for (item, pods) in &pattern.items {
                self.left[*item] -= pods;
                self.paid[*item] += price * self.prices[*item] * f64::from(*pods) / worth;
            }
            self.machines.push(pattern.clone());
        }
    }

    /// Prices half-way to what the pods cost in this pass.
    fn corrected(&self) -> Vec<f64> {
        let items = self.model.items.iter().zip(&self.left);
        items
            .zip(self.prices)
            .zip(&self.paid)
            .map(|(((item, left), price), paid)| {
                let placed = item.pods - left;
                if placed == 0 { *price } else { (price + paid / f64::from(placed)) / 2.0 }
            })
            .collect()
    }
}

impl PartialEq for Offer {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Offer {}

impl PartialOrd for Offer {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Offer {
    /// The one worth most for its cost is the greatest; of equals the first site.
    fn cmp(&self, other: &Self) -> Ordering {
        self.worth.total_cmp(&other.worth).then(other.site.cmp(&self.site))
    }
}
