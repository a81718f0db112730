//! How the packer spends money: what to buy for a class of pods that finds no room.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::rc::Rc;

use smallvec::SmallVec;

use crate::bound::float;
use crate::class::{Class, Classes, Level};
use crate::division::Portion;
use crate::host::{HostOrigin, fits, times_fitting};
use crate::market::{Amounts, Candidate, Cell};
use crate::pattern::{Ingredient, Pattern};
use crate::topology::{HostId, Place, PodRules, Topology};

use super::known::with_more;
use super::{Packer, add_times};

/// Where hosts exist only to keep pods apart, a larger type is preferred to another node up to this ratio:
/// such hosts have room to fill, and every further node is one more kubelet and one more thing to fail.
const GROWTH_PREFERENCE: f64 = 3.0;

/// How many hosts that could grow are compared.
const GROWTH_PROBES: usize = 16;
/// How many of them, the best, may grow before others are compared.
const GROWTH_PICKS: usize = 8;

/// What a node costs beyond its price, so that of two equally cheap answers the one with fewer nodes is chosen.
const NODE_MICRO_USD: i64 = 1;

/// How many offerings are tried out by filling them with what is still to be placed.
const TRIALS: usize = 12;

/// How far apart the offerings are that are looked at first, for a measure of the others.
const SAMPLE_STRIDE: usize = 16;

/// How many classes such a trial looks at, spread evenly over what remains.
const TRIAL_CLASSES: usize = 48;

/// One way to get room.
#[derive(Clone, Debug)]
pub(super) enum Purchase {
    /// A host for pods of one class, of a cell and a candidate: several where they are equally good.
    New { choices: Vec<(usize, usize)> },
    /// A host for a mix of classes that no rule binds.
    Mix { cell: usize, candidate: usize, pattern: Rc<Pattern> },
    /// A larger type for a planned host.
    Grow { host: HostId, candidate: usize },
}

/// What is the same for every purchase for a class.
#[derive(Default)]
pub(super) struct Shopping {
    /// Classes that could share a host with it, once they have been asked for.
    companions: OnceCell<Vec<usize>>,
    /// What a new host costs for its worth, to judge growth by; it changes too little to ask each time.
    going_rate: Option<(i32, Rate)>,
    /// Hosts that could grow for the class, with the ratio at which, the best last.
    compared: Vec<(f64, HostId)>,
}

/// What a new host costs for its worth.
#[derive(Clone, Copy, Debug)]
enum Rate {
    Exactly(f64),
    AtLeast(f64),
}

impl Rate {
    /// The ratio up to which growth is preferred.
    fn acceptable(self) -> f64 {
        let (Self::Exactly(rate) | Self::AtLeast(rate)) = self;
        rate * GROWTH_PREFERENCE
    }

    fn is_exact(self) -> bool {
        matches!(self, Self::Exactly(_))
    }
}

/// A class of which a host takes only so many, because of these groups.
pub(super) struct CappedClass {
    class: usize,
    cap: u32,
    groups: SmallVec<[usize; 2]>,
}

impl CappedClass {
    pub(super) fn among(order: &[usize], classes: &Classes, topology: &Topology) -> Vec<Self> {
        let capped = |class: &usize| {
            let state = &classes.all[*class];
            let rules = &state.levels.last()?.rules;
            let groups = capping_groups(state, rules, topology);
            let cap = per_host_cap(state, rules, topology)?;
            (!groups.is_empty()).then_some(Self { class: *class, cap, groups })
        };
        order.iter().filter_map(capped).collect()
    }
}

/// Something that can be bought, and what it costs for its worth.
#[derive(Clone, Copy, Debug)]
struct Offer {
    ratio: f64,
    price: i64,
    cell: usize,
    candidate: usize,
}

impl Offer {
    fn by_ratio(&self, other: &Self) -> Ordering {
        let rest = |offer: &Self| (offer.price, offer.cell, offer.candidate);
        self.ratio.total_cmp(&other.ratio).then_with(|| rest(self).cmp(&rest(other)))
    }
}

/// The few best offers, best first.
#[derive(Default)]
struct Best {
    offers: Vec<Offer>,
}

impl Best {
    /// Whether nothing with at least this ratio is among the best any more.
    fn beats(&self, ratio: f64) -> bool {
        self.offers.len() == TRIALS && self.offers.last().is_some_and(|last| ratio > last.ratio)
    }

    fn offer(&mut self, offer: Offer) {
        let position = self.offers.partition_point(|other| other.by_ratio(&offer).is_lt());
        let is_known = self.offers.get(position).is_some_and(|other| other.by_ratio(&offer).is_eq());
        if position < TRIALS && !is_known {
            self.offers.truncate(TRIALS - 1);
            self.offers.insert(position, offer);
        }
    }
}

/// An offer and what it would be filled with.
struct Trial<'a> {
    offer: Offer,
    room: &'a Amounts,
    ingredients: Rc<Vec<Ingredient>>,
    pattern: Rc<Pattern>,
    useful: f64,
}

impl Packer<'_> {
    /// Classes that could share a host with this one: for one that no rule binds, those that none binds
    /// either, since what is bought for it is filled with a mix at once.
    fn companions(&self, class_index: usize, mixes: bool) -> Vec<usize> {
        let companions = || {
            self.order.iter().copied().filter(|other| {
                let class = &self.classes.all[*other];
                *other != class_index
                    && self.left[*other] > 0
                    && (!mixes || is_unruled(class, &class.levels[0].rules))
            })
        };
        let stride = if mixes { 1 } else { companions().count().div_ceil(TRIAL_CLASSES).max(1) };
        companions().step_by(stride).collect()
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
            && let Some(growth) = self.growth(class_index, level, weight, rate, shopping)
        {
            return Some(growth);
        }
        for weight in self.weights.clone() {
            // Growth that is good enough beside the best that a new host could be saves finding out how
            // good one really is.
            if shopping.going_rate.is_none() && !self.growable.is_empty() {
                let least = self.least_rate(class_index, level, weight);
                let rate = Rate::AtLeast(least);
                if least.is_finite()
                    && let Some(growth) = self.growth(class_index, level, weight, rate, shopping)
                {
                    shopping.going_rate = Some((weight, rate));
                    return Some(growth);
                }
            }
            let new = self.best_new(class_index, level, weight, shopping);
            let rate = Rate::Exactly(new.as_ref().map_or(f64::INFINITY, |(ratio, _)| *ratio));
            let growth = self.growth(class_index, level, weight, rate, shopping);
            if growth.is_some() || new.is_some() {
                shopping.going_rate = Some((weight, rate));
                return growth.or(new.map(|(_, purchase)| purchase));
            }
        }
        None
    }

    /// The cells of which a new host could take a pod of the class, as far as all but its size decides.
    fn open_cells(&self, class_index: usize, level: &Level, weight: i32) -> Vec<usize> {
        let class = &self.classes.all[class_index];
        let is_open = |index: &usize| {
            let cell = &self.market.cells[*index];
            let pool = &self.snapshot.pools[cell.pool];
            pool.weight == weight
                && pool.replicas.is_none()
                && self.topology.room(&level.rules, &class.appearance, Place::NewIn(*index)).is_ok()
                && !class.ports.iter().any(|port| cell.daemon_ports.iter().any(|taken| taken.conflicts(port)))
                && self.min_values_hold(&[(class_index, 1)], *index, &class.requests)
        };
        let cells = self.admitted_cells[level.demand].ones().filter(is_open).collect();
        self.due_cells(class, cells)
    }

    /// Of these cells, those that the next node belongs to where their pool is divided. A portion of which nothing can be
    /// had that holds the class keeps it from no other.
    fn due_cells(&self, class: &Class, mut cells: Vec<usize>) -> Vec<usize> {
        let has_turns = |cell: &usize| self.ledger.staying(self.market.cells[*cell].pool).has_turns();
        let pools: BTreeSet<usize> =
            cells.iter().filter(|cell| has_turns(cell)).map(|cell| self.market.cells[*cell].pool).collect();
        for pool in pools {
            let portion_of = |cell: &usize| -> Option<Portion> {
                let cell = &self.market.cells[*cell];
                let could = |index: &&usize| self.could_hold(class, cell, &cell.candidates[**index]);
                let found = cell.front.iter().find(could).filter(|_| cell.pool == pool)?;
                Some(cell.candidates[*found].portion)
            };
            let portions: Vec<Portion> = cells.iter().filter_map(portion_of).collect();
            let due = self.ledger.staying(pool).due(&portions);
            cells.retain(|cell| {
                let cell = &self.market.cells[*cell];
                let portion = cell.candidates.first().map(|candidate| candidate.portion);
                cell.pool != pool || portion.is_some_and(|portion| due.contains(&portion))
            });
        }
        cells
    }

    /// Whether a new host of this candidate could take a pod of the class, as far as its size decides.
    fn could_hold(&self, class: &Class, cell: &Cell, candidate: &Candidate) -> bool {
        fits(&class.requests, &candidate.free)
            && self.ledger.shortage(cell.pool, candidate).is_none()
            && (!class.volumes.use_room() || self.volumes_fit_new(class, cell.pool, candidate))
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
        match per_host_cap(class, &level.rules, &self.topology) {
            Some(cap) if cap <= self.left[class_index] => self.best_forced(class_index, level, weight, cap),
            _ => self.best_mix(class_index, level, weight, shopping),
        }
    }

    /// The best host for pods of which each takes so few that their number decides how many there are.
    fn best_forced(
        &self,
        class_index: usize,
        level: &Level,
        weight: i32,
        cap: u32,
    ) -> Option<(f64, Purchase)> {
        let class = &self.classes.all[class_index];
        let own_worth = self.worth.value(&class.requests);
        let share = self.share_of_forced_host(class, level);
        let mut offers: Vec<Offer> = Vec::new();
        for cell_index in self.open_cells(class_index, level, weight) {
            let cell = &self.market.cells[cell_index];
            for index in &cell.front {
                let candidate = &cell.candidates[*index];
                if !self.could_hold(class, cell, candidate) {
                    continue;
                }
                let pods = times_fitting(&class.requests, &candidate.free).min(cap);
                let mut useful = share.clone();
                add_times(&mut useful, &class.requests, i64::from(pods));
                let own = own_worth * f64::from(pods);
                let worth = self.worth.value_capped(&candidate.free, &useful).max(own);
                let ratio = ratio(candidate.price + NODE_MICRO_USD, worth);
                offers.push(Offer { ratio, price: candidate.price, cell: cell_index, candidate: *index });
            }
        }
        let best = *offers.iter().min_by(|a, b| a.by_ratio(b))?;
        Some((best.ratio, Purchase::New { choices: self.equally_good(&offers, best) }))
    }

    /// The offers as good as the best, those of the cells with the fewest planned hosts first.
    fn equally_good(&self, offers: &[Offer], best: Offer) -> Vec<(usize, usize)> {
        let mut choices: Vec<(usize, usize)> = offers
            .iter()
            .filter(|offer| offer.ratio.total_cmp(&best.ratio).is_eq() && offer.price == best.price)
            .map(|offer| (offer.cell, offer.candidate))
            .collect();
        choices.sort_by_key(|(cell, candidate)| (self.hosts_in_cell[*cell], *cell, *candidate));
        choices.dedup_by_key(|(cell, _)| *cell);
        choices
    }

    /// The best host for the class and what else remains, of the few most promising: each is filled to see
    /// what it would hold.
    fn best_mix(
        &self,
        class_index: usize,
        level: &Level,
        weight: i32,
        shopping: &Shopping,
    ) -> Option<(f64, Purchase)> {
        let class = &self.classes.all[class_index];
        let mixes = is_unruled(class, &level.rules);
        let companions = shopping.companions.get_or_init(|| self.companions(class_index, mixes));
        let wanted = self.wanted_at_least(class, self.left[class_index]);
        let mut trials: Vec<Trial<'_>> = Vec::new();
        for offer in self.promising(class_index, level, weight, &wanted) {
            let room = &self.market.cells[offer.cell].candidates[offer.candidate].free;
            let in_cell = trials.iter().find(|trial| trial.offer.cell == offer.cell);
            let ingredients = in_cell.map_or_else(
                || Rc::new(self.ingredients(class_index, offer.cell, companions)),
                |trial| trial.ingredients.clone(),
            );
            let alike = trials.iter().find(|trial| trial.room == room && trial.ingredients == ingredients);
            let (pattern, useful) = alike.map_or_else(
                || {
                    let pattern = Pattern::fill(room, &ingredients, &self.classes.all, self.worth);
                    // What others would put here counts only as far as they lack room elsewhere.
                    let useful = self.worth.value_capped(&pattern.requests(&self.classes.all), &wanted);
                    (Rc::new(pattern), useful)
                },
                |trial| (trial.pattern.clone(), trial.useful),
            );
            let offer = Offer { ratio: ratio(offer.price + NODE_MICRO_USD, useful), ..offer };
            trials.push(Trial { offer, room, ingredients, pattern, useful });
        }
        let Trial { offer: best, pattern, .. } = trials.iter().min_by(|a, b| a.offer.by_ratio(&b.offer))?;
        let purchase = if mixes {
            Purchase::Mix { cell: best.cell, candidate: best.candidate, pattern: pattern.clone() }
        } else {
            Purchase::New { choices: vec![(best.cell, best.candidate)] }
        };
        Some((best.ratio, purchase))
    }

    /// No new host costs less than this for its worth, whatever it would hold.
    fn least_rate(&self, class_index: usize, level: &Level, weight: i32) -> f64 {
        let class = &self.classes.all[class_index];
        let wanted = self.wanted_at_least(class, self.left[class_index]);
        let most = self.worth.value(&wanted);
        let mut least = f64::INFINITY;
        let cells = self.open_cells(class_index, level, weight).into_iter();
        let twins: BTreeSet<usize> = cells.map(|cell| self.market.cells[cell].twin).collect();
        for cell in twins {
            let cell = &self.market.cells[cell];
            for candidate in cell.front.iter().map(|index| &cell.candidates[*index]) {
                let price = candidate.price + NODE_MICRO_USD;
                if float(price) >= least * most {
                    break;
                }
                let useful = self.worth.value_capped(&candidate.free, &wanted);
                if float(price) < least * useful && self.could_hold(class, cell, candidate) {
                    least = ratio(price, useful);
                }
            }
        }
        least
    }

    /// The offers with the most room of use for the money.
    ///
    /// No offer costs less for its worth than if it held all that is wanted, nor than if all of its room that
    /// is wanted were filled: beside a few good ones most are passed over by that alone.
    fn promising(&self, class_index: usize, level: &Level, weight: i32, wanted: &[i64]) -> Vec<Offer> {
        let class = &self.classes.all[class_index];
        let cells = self.open_cells(class_index, level, weight);
        let most = self.worth.value(wanted);
        let mut best = Best::default();
        let consider = |best: &mut Best, cell_index: usize, index: usize| {
            let cell = &self.market.cells[cell_index];
            let candidate = &cell.candidates[index];
            let price = candidate.price + NODE_MICRO_USD;
            if !best.beats(ratio(price, self.worth.value_capped(&candidate.free, wanted)))
                && self.could_hold(class, cell, candidate)
            {
                let ratio = ratio(price, self.worth_of_use(class_index, candidate));
                best.offer(Offer { ratio, price: candidate.price, cell: cell_index, candidate: index });
            }
        };
        for cell in &cells {
            let sample = self.market.cells[*cell].front.iter().step_by(SAMPLE_STRIDE);
            sample.for_each(|index| consider(&mut best, *cell, *index));
        }
        for cell_index in &cells {
            let cell = &self.market.cells[*cell_index];
            let least = |index: &usize| ratio(cell.candidates[*index].price + NODE_MICRO_USD, most);
            let end = cell.front.partition_point(|index| !best.beats(least(index)));
            // The largest first: of those that are not too large for what is wanted they are mostly better.
            cell.front[..end].iter().rev().for_each(|index| consider(&mut best, *cell_index, *index));
        }
        best.offers
    }

    /// What the candidate's room is worth as far as it is wanted.
    fn worth_of_use(&self, class_index: usize, candidate: &Candidate) -> f64 {
        if candidate.free.iter().zip(&self.wanted).all(|(free, wanted)| free <= wanted) {
            return self.worth.value(&candidate.free);
        }
        let class = &self.classes.all[class_index];
        let pods = times_fitting(&class.requests, &candidate.free).min(self.left[class_index]);
        let own = self.worth.value(&class.requests) * f64::from(pods);
        self.worth.value_capped(&candidate.free, &self.wanted_at_least(class, pods)).max(own)
    }

    /// The class and what else may share a host of the cell with it.
    fn ingredients(&self, class_index: usize, cell: usize, companions: &[usize]) -> Vec<Ingredient> {
        let weight = self.snapshot.pools[self.market.cells[cell].pool].weight;
        // A class that a heavier pool serves waits for that.
        let companions = companions.iter().copied().filter(|other| {
            self.left[*other] > 0
                && self.heaviest_pool[*other] <= weight
                && self.admitted_cells[self.classes.all[*other].levels[0].demand].contains(cell)
        });
        let classes = [class_index].into_iter().chain(companions);
        classes.map(|class| Ingredient { class, pods: self.left[class] }).collect()
    }

    /// What each of the hosts that pods of this kind force should take of all that is wanted.
    ///
    /// Pods that keep apart need so many hosts whatever their size. Those hosts are paid for; sized for
    /// their share of the rest they make other hosts unnecessary.
    fn share_of_forced_host(&self, class: &Class, level: &Level) -> Amounts {
        let groups = capping_groups(class, &level.rules, &self.topology);
        let hosts: u32 = self
            .capped
            .iter()
            .filter(|other| other.groups.iter().any(|group| groups.contains(group)))
            .map(|other| self.left[other.class].div_ceil(other.cap))
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
    /// None also where the rate would have to be known exactly to tell.
    fn growth(
        &mut self,
        class_index: usize,
        level: &Level,
        weight: i32,
        rate: Rate,
        shopping: &mut Shopping,
    ) -> Option<Purchase> {
        let planned = self.hosts.len() - self.existing;
        if planned == 0 {
            return None;
        }
        let wanted = self.wanted_at_least(&self.classes.all[class_index], 1);
        let grown = |packer: &Self, host| packer.growth_of(host, class_index, level, weight, &wanted);
        let mut chosen = None;
        // Of those compared before, what was not the best then is so now: they have hardly changed.
        while let Some((_, host)) = shopping.compared.pop() {
            match grown(self, host) {
                Some((ratio, candidate)) if ratio <= rate.acceptable() => {
                    chosen = Some((host, candidate));
                    break;
                }
                Some(_) if !rate.is_exact() => return None,
                _ => {}
            }
        }
        if chosen.is_none() {
            self.compare_growth(planned, rate, |host| grown(self, host), &mut shopping.compared)?;
            let (_, host) = shopping.compared.pop()?;
            chosen = grown(self, host).map(|(_, candidate)| (host, candidate));
        }
        let (host, candidate) = chosen?;
        self.growth_cursor = (host - self.existing + 1) % planned;
        Some(Purchase::Grow { host, candidate })
    }

    /// The next few hosts that grow at an acceptable ratio, the best last. None where the rate would have to
    /// be known exactly to tell.
    fn compare_growth(
        &self,
        planned: usize,
        rate: Rate,
        grown: impl Fn(HostId) -> Option<(f64, usize)>,
        compared: &mut Vec<(f64, HostId)>,
    ) -> Option<()> {
        let hosts: Cow<'_, [HostId]> = if rate.acceptable().is_infinite() {
            (self.existing..self.hosts.len()).collect()
        } else {
            Cow::Borrowed(&self.growable[self.growable.partition_point(|host| *host < self.existing)..])
        };
        let start = self.existing + self.growth_cursor % planned;
        let (before, after) = hosts.split_at(hosts.partition_point(|host| *host < start));
        for host in after.iter().chain(before).copied() {
            match grown(host) {
                Some((ratio, _)) if ratio <= rate.acceptable() => compared.push((ratio, host)),
                Some(_) if !rate.is_exact() => {
                    compared.clear();
                    return None;
                }
                _ => {}
            }
            if compared.len() == GROWTH_PROBES {
                break;
            }
        }
        compared.reverse();
        compared.sort_by(|a, b| b.0.total_cmp(&a.0));
        compared.drain(..compared.len().saturating_sub(GROWTH_PICKS));
        Some(())
    }

    /// The cheapest type under which the planned host takes one more pod of the class, with the ratio of its
    /// extra price to the worth of the room it gives.
    fn growth_of(
        &self,
        host_id: HostId,
        class_index: usize,
        level: &Level,
        weight: i32,
        wanted: &[i64],
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
        let mut needed = host.load(current);
        add_times(&mut needed, &class.requests, 1);
        let larger = cell_ref.front.iter().copied().find(|index| {
            let option = &cell_ref.candidates[*index];
            let volumes_fit = || {
                let volumes = self.volumes_as(host_id, cell_ref.pool, option);
                volumes.is_none_or(|volumes| volumes.room(class) > 0)
            };
            fits(&needed, &option.free)
                && self.ledger.shortage_to_exchange(cell_ref.pool, current, option).is_none()
                && (!class.volumes.use_room() || volumes_fit())
        })?;
        let option = &cell_ref.candidates[larger];
        let mut room = host.free.clone();
        add_times(&mut room, &option.free, 1);
        add_times(&mut room, &current.free, -1);
        let useful = self.worth.value_capped(&room, wanted);
        let legal = !self.min_values_matter(cell_ref.pool)
            || self.min_values_hold(&with_more(&host.placed, class_index, 1), cell, &needed);
        legal.then(|| (ratio(option.price - current.price, useful), larger))
    }
}

fn ratio(price: i64, worth: f64) -> f64 {
    let price = float(price);
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
