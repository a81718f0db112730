//! How the packer spends money: what to buy for a class of pods that finds no room.

use smallvec::SmallVec;

use crate::class::{Class, Level};
use crate::host::{HostOrigin, fits, times_fitting};
use crate::market::Amounts;
use crate::pattern::{Ingredient, Pattern};
use crate::topology::{HostId, Place, PodRules, Topology};

use super::{Packer, add_times, with_more};

/// Where hosts exist only to keep pods apart, a larger type is preferred to another node up to this ratio:
/// such hosts have room to fill, and every further node is one more kubelet and one more thing to fail.
const GROWTH_PREFERENCE: f64 = 3.0;

/// How many hosts that could grow are compared.
const GROWTH_PROBES: usize = 16;

/// What a node costs beyond its price, so that of two equally cheap answers the one with fewer nodes is chosen.
const NODE_MICRO_USD: i64 = 1;

/// How many offerings are tried out by filling them with what is still to be placed.
const TRIALS: usize = 12;

/// How many classes such a trial looks at, spread evenly over what remains.
const TRIAL_CLASSES: usize = 48;

/// One way to get room.
#[derive(Clone, Debug)]
pub(super) enum Purchase {
    /// A host for pods of one class, of a cell and a candidate: several where they are equally good.
    New { choices: Vec<(usize, usize)> },
    /// A host for a mix of classes that no rule binds.
    Mix { cell: usize, candidate: usize, pattern: Pattern },
    /// A larger type for a planned host.
    Grow { host: HostId, candidate: usize },
}

/// What is the same for every purchase for a class.
pub(super) struct Shopping {
    /// No rule binds the class: what is bought may be filled with a mix at once.
    mixes: bool,
    /// Classes that could share a host with it.
    companions: Vec<usize>,
    /// What a new host costs for its worth, to judge growth by; it changes too little to ask each time.
    going_rate: Option<(i32, f64)>,
}

impl Packer<'_> {
    /// What is the same for every purchase for a class at a level.
    pub(super) fn shopping(&self, class_index: usize, level: &Level) -> Shopping {
        let class = &self.classes.all[class_index];
        let mixes = is_unruled(class, &level.rules);
        let mut companions: Vec<usize> = self
            .order
            .iter()
            .copied()
            .filter(|other| *other != class_index && self.left[*other] > 0)
            .filter(|other| {
                let other = &self.classes.all[*other];
                !mixes || is_unruled(other, &other.levels[0].rules)
            })
            .collect();
        if !mixes {
            let stride = companions.len().div_ceil(TRIAL_CLASSES).max(1);
            companions = companions.into_iter().step_by(stride).collect();
        }
        Shopping { mixes, companions, going_rate: None }
    }

    /// The purchase that gives the most worth for the money, from the heaviest pools that have any.
    pub(super) fn best_purchase(
        &mut self,
        class_index: usize,
        level: &Level,
        shopping: &mut Shopping,
    ) -> Option<Purchase> {
        if self.claim_is_held(&self.classes.all[class_index]) {
            return None;
        }
        if let Some((weight, rate)) = shopping.going_rate
            && let Some(growth) = self.growth(class_index, level, weight, rate * GROWTH_PREFERENCE)
        {
            return Some(growth);
        }
        for weight in self.weights.clone() {
            let new = self.best_new(class_index, level, weight, shopping);
            let rate = new.as_ref().map_or(f64::INFINITY, |(ratio, _)| *ratio);
            let growth = self.growth(class_index, level, weight, rate * GROWTH_PREFERENCE);
            if growth.is_some() || new.is_some() {
                shopping.going_rate = Some((weight, rate));
                return growth.or(new.map(|(_, purchase)| purchase));
            }
        }
        None
    }

    /// The best new host: the ratio of its price to the worth of what it would hold.
    fn best_new(
        &self,
        class_index: usize,
        level: &Level,
        weight: i32,
        shopping: &Shopping,
    ) -> Option<(f64, Purchase)> {
        let class = &self.classes.all[class_index];
        let cap = per_host_cap(class, &level.rules, &self.topology).unwrap_or(u32::MAX);
        let here = self.left[class_index].min(cap);
        let own_worth = self.worth.value(&class.requests);
        let share = if here == cap { self.share_of_forced_host(class, level) } else { Amounts::new() };
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
                    || self.ledger.shortage(cell.pool, candidate).is_some()
                    || !self.volumes_fit_new(class, cell.pool, candidate)
                    || !self.min_values_hold(&[(class_index, 1)], cell_index, &class.requests)
                {
                    continue;
                }
                let own = own_worth * f64::from(pods);
                let useful = if here == cap {
                    let mut useful = share.clone();
                    add_times(&mut useful, &class.requests, i64::from(pods));
                    useful
                } else {
                    self.wanted_at_least(class, pods)
                };
                let worth = self.worth.value_capped(&candidate.free, &useful).max(own);
                let ratio = ratio(candidate.price + NODE_MICRO_USD, worth);
                options.push((ratio, candidate.price, cell_index, *index));
            }
        }
        let by_ratio = |a: &(f64, i64, usize, usize), b: &(f64, i64, usize, usize)| {
            a.0.total_cmp(&b.0).then_with(|| (a.1, a.2, a.3).cmp(&(b.1, b.2, b.3)))
        };
        if here == cap {
            let best = *options.iter().min_by(|a, b| by_ratio(a, b))?;
            let choices = self.equally_good(&options, best);
            return Some((best.0, Purchase::New { choices }));
        }
        let wanted = self.wanted_at_least(class, self.left[class_index]);
        if options.len() > TRIALS {
            options.select_nth_unstable_by(TRIALS, by_ratio);
            options.truncate(TRIALS);
        }
        let (ratio, cell, candidate, pattern) = options
            .into_iter()
            .map(|(_, price, cell, candidate)| {
                let room = &self.market.cells[cell].candidates[candidate].free;
                let pattern = self.trial(class_index, cell, room, shopping);
                // What others would put here counts only as far as they lack room elsewhere.
                let useful = self.worth.value_capped(&pattern.requests(&self.classes.all), &wanted);
                (ratio(price + NODE_MICRO_USD, useful), price, cell, candidate, pattern)
            })
            .min_by(|a, b| a.0.total_cmp(&b.0).then_with(|| (a.1, a.2, a.3).cmp(&(b.1, b.2, b.3))))
            .map(|(ratio, _, cell, candidate, pattern)| (ratio, cell, candidate, pattern))?;
        let purchase = if shopping.mixes {
            Purchase::Mix { cell, candidate, pattern }
        } else {
            Purchase::New { choices: vec![(cell, candidate)] }
        };
        Some((ratio, purchase))
    }

    /// The options as good as the best, those of the cells with the fewest planned hosts first.
    fn equally_good(
        &self,
        options: &[(f64, i64, usize, usize)],
        best: (f64, i64, usize, usize),
    ) -> Vec<(usize, usize)> {
        let mut choices: Vec<(usize, usize)> = options
            .iter()
            .filter(|(ratio, price, ..)| ratio.total_cmp(&best.0).is_eq() && *price == best.1)
            .map(|(_, _, cell, candidate)| (*cell, *candidate))
            .collect();
        choices.sort_by_key(|(cell, candidate)| (self.hosts_in_cell[*cell], *cell, *candidate));
        choices.dedup_by_key(|(cell, _)| *cell);
        choices
    }

    /// Fills room in a cell with the class and with what else remains.
    fn trial(&self, class_index: usize, cell: usize, room: &[i64], shopping: &Shopping) -> Pattern {
        let weight = self.snapshot.pools[self.market.cells[cell].pool].weight;
        // A class that a heavier pool serves waits for that.
        let companions = shopping.companions.iter().copied().filter(|other| {
            self.left[*other] > 0
                && self.heaviest_pool[*other] <= weight
                && self.admitted_cells[self.classes.all[*other].levels[0].demand].contains(cell)
        });
        let ingredients: Vec<Ingredient> = [class_index]
            .into_iter()
            .chain(companions)
            .map(|class| Ingredient { class, pods: self.left[class] })
            .collect();
        Pattern::fill(room, &ingredients, &self.classes.all, self.worth)
    }

    /// What each of the hosts that pods of this kind force should take of all that is wanted.
    ///
    /// Pods that keep apart need so many hosts whatever their size. Those hosts are paid for; sized for
    /// their share of the rest they make other hosts unnecessary.
    fn share_of_forced_host(&self, class: &Class, level: &Level) -> Amounts {
        let groups = capping_groups(class, &level.rules, &self.topology);
        let hosts: u32 = self
            .order
            .iter()
            .filter(|other| self.left[**other] > 0)
            .filter_map(|other| {
                let other_class = &self.classes.all[*other];
                let rules = &other_class.levels.last()?.rules;
                let shared =
                    capping_groups(other_class, rules, &self.topology).iter().any(|g| groups.contains(g));
                let cap = per_host_cap(other_class, rules, &self.topology)?;
                shared.then(|| self.left[*other].div_ceil(cap))
            })
            .sum();
        let hosts = i64::from(hosts.max(1));
        // An eighth more: what is left over on a full host is rarely of use.
        self.wanted.iter().map(|wanted| (*wanted).max(0) / hosts * 9 / 8).collect()
    }

    /// What is wanted beyond the room there is, and at least the pods that this purchase is for.
    fn wanted_at_least(&self, class: &Class, pods: u32) -> Amounts {
        self.wanted
            .iter()
            .zip(&class.requests)
            .map(|(wanted, request)| (*wanted).max(request * i64::from(pods)))
            .collect()
    }

    /// A planned host that takes the class after growing, at an acceptable ratio: the best of the next few.
    fn growth(
        &mut self,
        class_index: usize,
        level: &Level,
        weight: i32,
        acceptable: f64,
    ) -> Option<Purchase> {
        let planned = self.hosts.len() - self.existing;
        let mut best: Option<(f64, usize, HostId, usize)> = None;
        let mut probes = 0;
        for step in 0..planned {
            let host = self.existing + (self.growth_cursor + step) % planned;
            if !(self.hosts[host].may_grow || acceptable.is_infinite()) {
                continue;
            }
            let Some((ratio, candidate)) = self.growth_of(host, class_index, level, weight) else { continue };
            if ratio <= acceptable {
                if best.is_none_or(|(least, ..)| ratio < least) {
                    best = Some((ratio, step, host, candidate));
                }
                probes += 1;
                if probes == GROWTH_PROBES {
                    break;
                }
            }
        }
        let (_, step, host, candidate) = best?;
        self.growth_cursor = (self.growth_cursor + step + 1) % planned;
        Some(Purchase::Grow { host, candidate })
    }

    /// The cheapest type under which the planned host takes one more pod of the class, with the ratio of its
    /// extra price to the worth of the room it gives.
    fn growth_of(
        &self,
        host_id: HostId,
        class_index: usize,
        level: &Level,
        weight: i32,
    ) -> Option<(f64, usize)> {
        let class = &self.classes.all[class_index];
        let host = &self.hosts[host_id];
        let HostOrigin::Planned { cell, candidate } = host.origin else { return None };
        let cell_ref = &self.market.cells[cell];
        let pool = &self.snapshot.pools[cell_ref.pool];
        if pool.weight != weight
            || pool.replicas.is_some()
            || !self.admitted_cells[level.demand].contains(cell)
            || self.topology.room(&level.rules, &class.appearance, Place::Host(host_id)).is_err()
            || class.ports.iter().any(|port| host.ports.iter().any(|taken| taken.conflicts(port)))
        {
            return None;
        }
        let current = &cell_ref.candidates[candidate];
        let load = host.load(current);
        let mut needed = load.clone();
        add_times(&mut needed, &class.requests, 1);
        let larger = cell_ref.front.iter().copied().find(|index| {
            let option = &cell_ref.candidates[*index];
            let volumes = || self.volumes_as(host_id, cell_ref.pool, option);
            fits(&needed, &option.free)
                && self.ledger.shortage_to_exchange(cell_ref.pool, current, option).is_none()
                && volumes().is_none_or(|volumes| volumes.room(class) > 0)
        })?;
        let option = &cell_ref.candidates[larger];
        let room: Amounts = option.free.iter().zip(&load).map(|(free, load)| free - load).collect();
        let useful = self.worth.value_capped(&room, &self.wanted_at_least(class, 1));
        self.min_values_hold(&with_more(&host.placed, class_index, 1), cell, &needed)
            .then(|| (ratio(option.price - current.price, useful), larger))
    }
}

fn ratio(price: i64, worth: f64) -> f64 {
    let price = crate::bound::float(price);
    if worth > 0.0 { price / worth } else { price * 1e12 }
}

/// No other pod decides where the class may go, and nothing but resources how many fit on a host.
fn is_unruled(class: &Class, rules: &PodRules) -> bool {
    rules.spread.is_empty()
        && rules.affinity.is_empty()
        && rules.anti_affinity.is_empty()
        && class.appearance.shunned_by.is_empty()
        && class.ports.is_empty()
        && !class.volumes.attach()
}
/// The groups that let only so many pods of the class on one host.
fn capping_groups(class: &Class, rules: &PodRules, topology: &Topology) -> SmallVec<[usize; 2]> {
    let on_hostname = |group: &usize| topology.keys[topology.groups[*group].key].is_hostname;
    let by_spread = rules.spread.iter().filter(|rule| rule.matches_itself).map(|rule| rule.group);
    let by_anti_affinity =
        rules.anti_affinity.iter().copied().filter(|group| class.appearance.counted_by.contains(group));
    by_spread.chain(by_anti_affinity).filter(on_hostname).collect()
}

/// How many pods of the class a single host takes at most, where that is fixed beforehand.
pub(super) fn per_host_cap(class: &Class, rules: &PodRules, topology: &Topology) -> Option<u32> {
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
