//! Column generation: the program, and the search for patterns that it would rather have.

use std::collections::BTreeSet;

use crate::bound::float;

use super::Work;
use super::knapsack::{Entry, Ranking};
use super::master::{Column, Master, Row};
use super::model::{Model, Pattern};

/// All patterns known so far.
pub(super) struct Pool<'a> {
    pub(super) model: &'a Model,
    pub(super) patterns: Vec<Pattern>,
    known: BTreeSet<(usize, Vec<(usize, u32)>)>,
}

/// Steps of the search for a pattern of one site: few at first, more once few find nothing.
pub(super) const SEARCH_STEPS: u32 = 2_000;
const SEARCH_STEPS_MORE: u32 = 8;
const SEARCH_STEPS_MAX: u32 = 200_000;
/// A pattern is new to the program if it saves at least this part of its price.
const WORTHWHILE: f64 = 1e-6;
/// What a pod without a place costs, in prices of the dearest site.
const MISSING_PENALTY: f64 = 10.0;

impl<'a> Pool<'a> {
    pub(super) fn new(model: &'a Model) -> Self {
        let mut pool = Self { model, patterns: Vec::new(), known: BTreeSet::new() };
        pool.extend(model.start.iter().cloned());
        pool
    }

    pub(super) fn extend(&mut self, patterns: impl IntoIterator<Item = Pattern>) {
        for pattern in patterns {
            self.add(pattern);
        }
    }

    /// Generates patterns for all pods until no site has a better one, for so many rounds at most; what each
    /// item costs at the margin.
    pub(super) fn generate(&mut self, work: &mut Work<'_>, rounds_max: u64) -> Vec<f64> {
        let demand: Vec<u32> = self.model.items.iter().map(|item| item.pods).collect();
        let limits: Vec<i64> = self.model.limits.iter().map(|limit| limit.left).collect();
        let free_hosts = vec![true; self.model.sites.len()];
        let mut program = Program::new(self.model, &demand, &limits, &free_hosts);
        program.take(self);
        program.master.optimize();
        let mut steps = SEARCH_STEPS;
        let last = work.rounds_done.saturating_add(rounds_max);
        while steps <= SEARCH_STEPS_MAX && work.rounds_done < last && work.round() {
            if program.ask(self, steps, work.threads) == 0 {
                steps *= SEARCH_STEPS_MORE;
            } else {
                program.master.optimize();
            }
        }
        program.item_prices()
    }

    fn add(&mut self, pattern: Pattern) -> bool {
        let new = self.known.insert((pattern.site, pattern.items.clone()));
        if new {
            self.patterns.push(pattern);
        }
        new
    }
}

/// The program for a demand: rows for items, for hosts that can be used once, and for limits.
pub(super) struct Program<'a> {
    model: &'a Model,
    pub(super) master: Master,
    /// How many pods of each item are asked for.
    demand: Vec<u32>,
    /// The row of each item that is asked for, and of each site that can be used only once.
    item_rows: Vec<Option<usize>>,
    host_rows: Vec<Option<usize>>,
    first_limit: usize,
    /// The patterns of the pool that are columns, by column.
    pub(super) columns: Vec<usize>,
    /// Patterns of the pool that were looked at.
    seen: usize,
    usable: Vec<bool>,
    /// Patterns with more pods than are asked for are taken too: for when no others will be made.
    pub(super) takes_larger: bool,
}

impl<'a> Program<'a> {
    /// `limits` is what is left of each, `free_sites` which of the once-only sites are still free.
    pub(super) fn new(model: &'a Model, demand: &[u32], limits: &[i64], free_sites: &[bool]) -> Self {
        let dearest = model.sites.iter().map(|site| site.price).max().unwrap_or(1).max(1);
        let penalty = float(dearest) * MISSING_PENALTY;
        let mut rows: Vec<Row> = Vec::new();
        let mut item_rows = vec![None; model.items.len()];
        for (row, pods) in item_rows.iter_mut().zip(demand).filter(|(_, pods)| **pods > 0) {
            *row = Some(rows.len());
            rows.push(Row::AtLeast { amount: f64::from(*pods), penalty });
        }
        let mut host_rows = vec![None; model.sites.len()];
        for (site, row) in host_rows.iter_mut().enumerate() {
            if model.is_once(site) && free_sites[site] {
                *row = Some(rows.len());
                rows.push(Row::AtMost(1.0));
            }
        }
        let first_limit = rows.len();
        rows.extend(limits.iter().map(|left| Row::AtMost(float(*left))));
        let usable = (0..model.sites.len()).map(|site| !model.is_once(site) || free_sites[site]).collect();
        Self {
            model,
            master: Master::new(rows),
            demand: demand.to_vec(),
            item_rows,
            host_rows,
            first_limit,
            columns: Vec::new(),
            seen: 0,
            usable,
            takes_larger: false,
        }
    }

    /// Takes in the patterns that the pool has and the program has not, as far as there are pods for them.
    pub(super) fn take(&mut self, pool: &Pool<'_>) {
        for (index, pattern) in pool.patterns.iter().enumerate().skip(self.seen) {
            let has_pods = pattern.items.iter().all(|(item, pods)| *pods <= self.demand[*item]);
            if (has_pods || self.takes_larger) && self.usable[pattern.site] {
                let column = self.column(pattern);
                self.master.add(column);
                self.columns.push(index);
            }
        }
        self.seen = pool.patterns.len();
    }

    /// Asks every site for the pattern that the program would most like to have; how many were new.
    pub(super) fn ask(&mut self, pool: &mut Pool<'_>, steps: u32, threads: usize) -> usize {
        let sites: Vec<usize> = (0..self.model.sites.len()).filter(|site| self.usable[*site]).collect();
        let prices = self.item_prices();
        let answers = in_parallel(threads, &sites, |site| self.better_pattern(*site, &prices, steps));
        let mut new = 0;
        for pattern in answers.into_iter().flatten() {
            if pool.add(pattern) {
                new += 1;
            }
        }
        self.take(pool);
        new
    }

    fn better_pattern(&self, site: usize, prices: &[f64], steps: u32) -> Option<Pattern> {
        let cost = self.site_cost(site);
        let (entries, items) = self.model.entries(site, &self.demand, prices);
        let room = &self.model.sites[site].room;
        let ranking = Ranking::of(room, &entries);
        if ranking.upper(room, &entries) <= cost * (1.0 + WORTHWHILE) {
            return None;
        }
        let mix = ranking.without_dominated(room, &entries).mix(room, &entries, steps);
        (mix.value > cost + WORTHWHILE * cost.max(1.0)).then(|| Pattern {
            site,
            items: items.into_iter().zip(mix.times).filter(|(_, times)| *times > 0).collect(),
        })
    }

    pub(super) fn item_prices(&self) -> Vec<f64> {
        let duals = self.master.duals();
        self.item_rows.iter().map(|row| row.map_or(0.0, |row| duals[row])).collect()
    }

    /// What a machine of the site costs, with what its use of limits is worth to others.
    fn site_cost(&self, site: usize) -> f64 {
        let duals = self.master.duals();
        self.extra_rows(site).map(|(row, amount)| -duals[row] * amount).sum::<f64>()
            + float(self.model.sites[site].price)
    }

    /// The rows beyond items that a machine of the site counts in.
    fn extra_rows(&self, site: usize) -> impl Iterator<Item = (usize, f64)> {
        let once = self.host_rows[site].map(|row| (row, 1.0));
        let limits = self.model.limits.iter().enumerate().filter_map(move |(index, limit)| {
            let position = limit.uses.binary_search_by_key(&site, |(site, _)| *site).ok()?;
            Some((self.first_limit + index, float(limit.uses[position].1)))
        });
        once.into_iter().chain(limits)
    }

    fn column(&self, pattern: &Pattern) -> Column {
        let mut entries: Vec<(usize, f64)> = pattern
            .items
            .iter()
            .filter_map(|(item, pods)| Some((self.item_rows[*item]?, f64::from(*pods))))
            .collect();
        entries.extend(self.extra_rows(pattern.site));
        Column { price: float(self.model.sites[pattern.site].price), entries }
    }
}

impl Model {
    /// What may be put on a site, at these prices and no more than `most` of each; and which items these are.
    pub(super) fn entries(&self, site: usize, most: &[u32], prices: &[f64]) -> (Vec<Entry<'_>>, Vec<usize>) {
        self.items
            .iter()
            .enumerate()
            .filter(|(index, item)| item.sites.contains(site) && most[*index] > 0 && prices[*index] > 0.0)
            .map(|(index, item)| {
                let entry = Entry {
                    requests: &item.requests,
                    value: prices[index],
                    most: most[index],
                    rules: &item.rules,
                };
                (entry, index)
            })
            .unzip()
    }
}

/// The answers in the order of the questions, whatever thread found them.
pub(super) fn in_parallel<Q: Sync, A: Send>(
    threads: usize,
    questions: &[Q],
    answer: impl Fn(&Q) -> A + Sync,
) -> Vec<A> {
    if threads <= 1 || questions.len() < 2 {
        return questions.iter().map(answer).collect();
    }
    let chunk = questions.len().div_ceil(threads * 4);
    let next = std::sync::atomic::AtomicUsize::new(0);
    let chunks: Vec<&[Q]> = questions.chunks(chunk).collect();
    let mut answered: Vec<(usize, Vec<A>)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let mut done = Vec::new();
                    loop {
                        let index = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        let Some(chunk) = chunks.get(index) else { return done };
                        done.push((index, chunk.iter().map(&answer).collect::<Vec<A>>()));
                    }
                })
            })
            .collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    answered.sort_by_key(|(index, _)| *index);
    answered.into_iter().flat_map(|(_, answers)| answers).collect()
}
