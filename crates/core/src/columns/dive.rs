//! From fractions to machines: rounding, and then mending part by part.

use std::collections::BTreeSet;

use crate::bound::float;
use crate::host::fits;
use crate::market::Amounts;
use crate::pack::add_times;

use super::Work;
use super::generate::{Pool, Program, SEARCH_STEPS};
use super::model::{Model, Pattern, SiteKind};

/// Rounds of questions after each fixing of machines.
const ROUNDS_PER_FIXING: usize = 2;
/// A pattern that the program wants at least so much of is taken once more.
const NEARLY_ONE: f64 = 0.75;
/// When the rounds are over the program is solved so often yet; the packer places what is left.
const SOLVED_UNASKED: u32 = 3;
/// How many machines are taken up again at once.
const MENDED_MAX: usize = 24;
/// After so many attempts in vain the mending ends.
const VAIN_MAX: u32 = 120;

/// Looks for arrangements that cost less and offers each that it finds.
pub(super) fn search(
    model: &Model,
    pool: &mut Pool<'_>,
    prices: &[f64],
    work: &mut Work<'_>,
    offer: &mut dyn FnMut(&[Pattern]),
) {
    let demand: Vec<u32> = model.items.iter().map(|item| item.pods).collect();
    let everything = Stock::of(model);
    let rounded = round(model, pool, &demand, everything, work);
    offer(&rounded.machines);
    if rounded.pods_left > 0 {
        return;
    }
    let mut best = rounded.machines;
    if model.cost(&best) > model.cost(&model.start) {
        best.clone_from(&model.start);
    }
    let before = model.cost(&best);
    mend(model, pool, prices, &mut best, work);
    if model.cost(&best) < before {
        offer(&best);
    }
}

/// What may still be used: limits, and sites that can be used once.
#[derive(Clone)]
pub(super) struct Stock {
    limits: Vec<i64>,
    free_sites: Vec<bool>,
}

impl Stock {
    pub(super) fn of(model: &Model) -> Self {
        Self {
            limits: model.limits.iter().map(|limit| limit.left).collect(),
            free_sites: vec![true; model.sites.len()],
        }
    }

    pub(super) fn has(&self, model: &Model, site: usize) -> bool {
        self.free_sites[site]
            && model.limits.iter().zip(&self.limits).all(|(limit, left)| limit.use_of(site) <= *left)
    }

    pub(super) fn take(&mut self, model: &Model, site: usize) {
        if model.is_once(site) {
            self.free_sites[site] = false;
        }
        for (limit, left) in model.limits.iter().zip(&mut self.limits) {
            *left -= limit.use_of(site);
        }
    }
}

/// Machines for a demand, or for a part of it.
struct Rounded {
    machines: Vec<Pattern>,
    pods_left: u32,
}

/// Solves, takes what the program is sure of, and solves again for the rest, as long as there are rounds.
fn round(
    model: &Model,
    pool: &mut Pool<'_>,
    demand: &[u32],
    mut stock: Stock,
    work: &mut Work<'_>,
) -> Rounded {
    let mut left = demand.to_vec();
    let mut chosen: Vec<Pattern> = Vec::new();
    let mut solved = 0;
    while left.iter().any(|pods| *pods > 0) && !(work.is_over() && solved >= SOLVED_UNASKED) {
        solved += 1;
        let mut program = Program::new(model, &left, &stock.limits, &stock.free_sites);
        program.takes_larger = work.is_over();
        program.take(pool);
        program.master.optimize();
        for _ in 0..ROUNDS_PER_FIXING {
            if !work.round() || program.ask(pool, SEARCH_STEPS, work.threads) == 0 {
                break;
            }
            program.master.optimize();
        }
        let mut wanted: Vec<(f64, usize)> = program
            .master
            .solution()
            .into_iter()
            .map(|(column, amount)| (amount, program.columns[column]))
            .collect();
        wanted.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let before = chosen.len();
        for (amount, pattern) in &wanted {
            let pattern = &pool.patterns[*pattern];
            let mut amount = *amount;
            let first = chosen.len() == before;
            while amount > NEARLY_ONE || (first && chosen.len() == before) {
                let Some(fixed) = model.trimmed(pattern, &left, &stock) else { break };
                // What is trimmed is no longer what the program asked for: only the first may be.
                if fixed.items != pattern.items && chosen.len() > before {
                    break;
                }
                stock.take(model, fixed.site);
                for (item, pods) in &fixed.items {
                    left[*item] -= pods;
                }
                chosen.push(fixed);
                amount -= 1.0;
            }
        }
        if chosen.len() == before {
            break;
        }
    }
    Rounded { machines: chosen, pods_left: left.iter().sum() }
}

/// Takes a part of the machines up again, the most wasteful among them, and makes them anew.
fn mend(model: &Model, pool: &mut Pool<'_>, prices: &[f64], best: &mut Vec<Pattern>, work: &mut Work<'_>) {
    let mut vain = 0;
    let mut turn = 0_u64;
    while vain < VAIN_MAX && best.len() > 1 && work.round() {
        turn += 1;
        let part = neighbourhood(model, prices, best, turn);
        let mut stock = Stock::of(model);
        let mut demand = vec![0; model.items.len()];
        let mut cost = 0;
        for (index, pattern) in best.iter().enumerate() {
            if part.contains(&index) {
                cost += model.sites[pattern.site].price;
                for (item, pods) in &pattern.items {
                    demand[*item] += pods;
                }
            } else {
                stock.take(model, pattern.site);
            }
        }
        let anew = round(model, pool, &demand, stock, work);
        vain += 1;
        if anew.pods_left == 0 && model.cost(&anew.machines) < cost {
            vain = 0;
            let mut index = 0;
            best.retain(|_| {
                index += 1;
                !part.contains(&(index - 1))
            });
            best.extend(anew.machines);
        }
    }
}

/// Machines to be made anew: one that wastes much, others drawn so that in time all meet all.
fn neighbourhood(model: &Model, prices: &[f64], patterns: &[Pattern], turn: u64) -> BTreeSet<usize> {
    let waste = |pattern: &Pattern| {
        let worth: f64 = pattern.items.iter().map(|(item, pods)| prices[*item] * f64::from(*pods)).sum();
        float(model.sites[pattern.site].price) - worth
    };
    let mut by_waste: Vec<(f64, usize)> =
        patterns.iter().enumerate().map(|(index, pattern)| (waste(pattern), index)).collect();
    by_waste.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut state = turn.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut part = BTreeSet::new();
    let size = MENDED_MAX.min(patterns.len());
    while part.len() < size {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // The square of an even draw: the wasteful end is three times as likely as the other.
        let draw = f64::from(u32::try_from(state >> 33).unwrap_or(0)) / f64::from(1_u32 << 31);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "an index below the length"
        )]
        let position = (draw * draw * by_waste.len() as f64) as usize;
        part.insert(by_waste[position.min(by_waste.len() - 1)].1);
    }
    part
}

impl Model {
    pub(super) fn is_once(&self, site: usize) -> bool {
        matches!(self.sites[site].kind, SiteKind::Host(_))
    }

    pub(super) fn cost(&self, patterns: &[Pattern]) -> i64 {
        patterns.iter().map(|pattern| self.sites[pattern.site].price).sum()
    }

    /// The pattern without pods that are not there, on the cheapest site that holds the rest.
    fn trimmed(&self, pattern: &Pattern, left: &[u32], stock: &Stock) -> Option<Pattern> {
        let items: Vec<(usize, u32)> = pattern
            .items
            .iter()
            .map(|(item, pods)| (*item, (*pods).min(left[*item])))
            .filter(|(_, pods)| *pods > 0)
            .collect();
        let mut load = Amounts::from_elem(0, self.items.first()?.requests.len());
        for (item, pods) in &items {
            add_times(&mut load, &self.items[*item].requests, i64::from(*pods));
        }
        if items.is_empty() {
            return None;
        }
        let unchanged = items == pattern.items && stock.has(self, pattern.site);
        let site = if unchanged {
            pattern.site
        } else {
            (0..self.sites.len())
                .filter(|site| fits(&load, &self.sites[*site].room) && stock.has(self, *site))
                .filter(|site| items.iter().all(|(item, _)| self.items[*item].sites.contains(*site)))
                .min_by_key(|site| (self.sites[*site].price, *site))?
        };
        Some(Pattern { site, items })
    }
}

impl super::model::Limit {
    pub(super) fn use_of(&self, site: usize) -> i64 {
        self.uses.binary_search_by_key(&site, |(site, _)| *site).map_or(0, |position| self.uses[position].1)
    }
}
