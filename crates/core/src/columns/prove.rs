//! The proof: what the pods cost at least, whatever the arrangement.
//!
//! Give every class a price per pod such that no machine that can be bought holds pods for more than it costs.
//! Then the pods, priced so, less the most that rooms which exist can take of them, are the least that any
//! legal plan spends: a Lagrangian bound. The prices come from the program over patterns; whether they keep
//! their promise is found out here, machine by machine, with an upper bound on the best mix, and they are
//! scaled down until they do. Rules about zones and other domains are left out, which only lowers the bound.

use fixedbitset::FixedBitSet;

use crate::bound::float;
use crate::class::Class;
use crate::market::{Amounts, Candidate};
use crate::pack::Packer;
use crate::topology::Topology;

use super::generate::in_parallel;
use super::knapsack::{Entry, Ranking, best_mix, relaxed_value};

/// Steps of the search on each machine; the bound is the tighter the more there are.
const PROOF_STEPS: u32 = 2_000;
const PROOF_STEPS_MORE: u32 = 8;
const PROOF_STEPS_MAX: u32 = 1_100_000;
const PROOF_REFINEMENTS: usize = 60;
/// So many rooms are searched; what more there are is bounded without.
const ROOMS_SEARCHED_MAX: usize = 64;

/// Prices are whole numbers of a thousandth of a micro-dollar, so that sums of them are exact.
const STEPS_PER_MICRO: f64 = 1000.0;

/// The least in micro-dollars that purchases for the placed pods cost, by these prices per pod of each class.
///
/// `rooms` are the free rooms of the hosts that exist, in the packer's order and before it placed anything.
pub(crate) fn lower_bound(packer: &Packer<'_>, rooms: &[&Amounts], prices: &[f64], threads: usize) -> i64 {
    let classes = priced_classes(packer, prices);
    let asked: f64 = classes.iter().map(|class| class.price * f64::from(class.pods)).sum();
    if asked <= 0.0 {
        return 0;
    }
    let mut machines: Vec<(usize, &Candidate)> = packer
        .market
        .cells
        .iter()
        .enumerate()
        .flat_map(|(index, cell)| cell.front.iter().map(move |front| (index, &cell.candidates[*front])))
        .collect();
    machines.sort_by(|a, b| {
        (&a.1.free, a.1.price, &classes_of(&classes, a.0)).cmp(&(
            &b.1.free,
            b.1.price,
            &classes_of(&classes, b.0),
        ))
    });
    machines.dedup_by(|a, b| {
        a.1.free == b.1.free
            && a.1.price == b.1.price
            && classes_of(&classes, a.0) == classes_of(&classes, b.0)
            && a.1.reservation.is_none()
            && b.1.reservation.is_none()
    });
    let share = share_borne(&classes, &machines, threads);
    let reserved: f64 = reserved_gain(packer, &classes, share);
    let given = room_value(packer, rooms, &classes, threads);
    // A little less than the floats say, so that rounding cannot make it a little more than is true.
    let bound = (share * (asked - given) - reserved) * (1.0 - 1e-9) / STEPS_PER_MICRO;
    #[expect(clippy::cast_possible_truncation, reason = "rounded down, and far below the limit")]
    let bound = bound.max(0.0).floor() as i64;
    bound
}

/// The part of the prices that every machine bears: none holds more of it than it costs.
///
/// All are searched a little; then the one that bears least again and longer, as long as that helps.
fn share_borne(classes: &[Priced<'_>], machines: &[(usize, &Candidate)], threads: usize) -> f64 {
    let borne = |(cell, candidate): &(usize, &Candidate), steps: u32| {
        let entries = entries(classes, |class| class.cells.contains(*cell));
        let price = float(candidate.price) * STEPS_PER_MICRO;
        let ranking = Ranking::of(&candidate.free, &entries);
        if candidate.reservation.is_some() || ranking.upper(&candidate.free, &entries) <= price {
            return 1.0;
        }
        let ranking = ranking.without_dominated(&candidate.free, &entries);
        let most = ranking.mix(&candidate.free, &entries, steps).upper;
        if most > price { price / most } else { 1.0 }
    };
    let mut shares: Vec<(f64, u32)> =
        in_parallel(threads, machines, |machine| (borne(machine, PROOF_STEPS), PROOF_STEPS));
    for _ in 0..PROOF_REFINEMENTS {
        let least = (0..shares.len()).min_by(|a, b| shares[*a].0.total_cmp(&shares[*b].0));
        let Some(least) = least.filter(|index| shares[*index].0 < 1.0) else { break };
        let steps = shares[least].1.saturating_mul(PROOF_STEPS_MORE);
        if steps > PROOF_STEPS_MAX {
            break;
        }
        shares[least] = (borne(&machines[least], steps), steps);
    }
    shares.into_iter().map(|(share, _)| share).fold(1.0, f64::min)
}

/// A class with placed pods and a price.
struct Priced<'a> {
    class: &'a Class,
    price: f64,
    pods: u32,
    /// How many of them one host can have at most.
    per_host: u32,
    cells: &'a FixedBitSet,
    level: usize,
}

fn priced_classes<'a>(packer: &'a Packer<'_>, prices: &[f64]) -> Vec<Priced<'a>> {
    packer
        .classes
        .all
        .iter()
        .enumerate()
        .filter_map(|(index, class)| {
            let placed = u32::try_from(class.pods.len()).unwrap_or(u32::MAX) - packer.left[index];
            let level = class.levels.len().checked_sub(1)?;
            let price = (prices.get(index)? * STEPS_PER_MICRO).floor();
            let cells = &packer.admitted_cells[class.levels[level].demand];
            let per_host = apart(class, level, &packer.topology);
            (placed > 0 && price > 0.0).then_some(Priced {
                class,
                price,
                pods: placed,
                per_host,
                cells,
                level,
            })
        })
        .collect()
}

/// Pods that may never share a host. A spread may be as uneven as all others are full, so it is no limit.
fn apart(class: &Class, level: usize, topology: &Topology) -> u32 {
    let rules = &class.levels[level].rules;
    let apart = rules
        .anti_affinity
        .iter()
        .any(|group| topology.is_over_hosts(*group) && class.appearance.counted_by.contains(group));
    if apart || !class.ports.is_empty() { 1 } else { u32::MAX }
}

fn entries<'a>(classes: &'a [Priced<'_>], admits: impl Fn(&Priced<'_>) -> bool) -> Vec<Entry<'a>> {
    classes
        .iter()
        .filter(|class| admits(class))
        .map(|class| Entry {
            requests: &class.class.requests,
            value: class.price,
            most: class.pods.min(class.per_host),
            rules: &[],
        })
        .collect()
}

/// Which classes a cell admits.
fn classes_of(classes: &[Priced<'_>], cell: usize) -> Vec<bool> {
    classes.iter().map(|class| class.cells.contains(cell)).collect()
}

/// What machines of reservations hold beyond their price, all of them taken.
fn reserved_gain(packer: &Packer<'_>, classes: &[Priced<'_>], share: f64) -> f64 {
    let mut gain = 0.0;
    for (index, cell) in packer.market.cells.iter().enumerate() {
        for candidate in &cell.candidates {
            let Some(reservation) = candidate.reservation else { continue };
            let entries = entries(classes, |class| class.cells.contains(index));
            let value = relaxed_value(&candidate.free, &entries) * share;
            let over = (value - float(candidate.price) * STEPS_PER_MICRO).max(0.0);
            gain += over * f64::from(packer.market.reservations[reservation]);
        }
    }
    gain
}

/// The most that rooms which exist take of the pods.
fn room_value(packer: &Packer<'_>, rooms: &[&Amounts], classes: &[Priced<'_>], threads: usize) -> f64 {
    let hosts: Vec<usize> = (0..rooms.len()).collect();
    let values = in_parallel(threads, &hosts, |host| {
        let entries = entries(classes, |class| packer.host_admits(&class.class.levels[class.level], *host));
        if *host < ROOMS_SEARCHED_MAX {
            best_mix(rooms[*host], &entries, PROOF_STEPS).upper
        } else {
            relaxed_value(rooms[*host], &entries)
        }
    });
    values.into_iter().sum()
}
