//! What resources are worth, and the proof that follows from it.
//!
//! Give every resource a price per unit such that no offering holds more worth of resources than it costs.
//! Then whatever the pods ask for, priced so, is the least that any purchase for them can cost: a lower
//! bound, whatever the rules about labels and topology are, since those can only make it dearer. The best
//! such prices solve a small linear program, the dual of "buy fractions of offerings that hold it all".

use microlp::{ComparisonOp, OptimizationDirection, Problem};

use fixedbitset::FixedBitSet;

use crate::class::Classes;
use crate::market::{Amounts, Candidate, Market};
use crate::pattern::{Ingredient, Pattern};

pub(crate) type Amounts64 = smallvec::SmallVec<[f64; 4]>;

/// Prices of resources in micro-dollars an hour per unit, by dimension.
#[derive(Clone, Debug)]
pub(crate) struct Worth {
    per_unit: Vec<f64>,
}

/// A way to spend money and what it holds: a row of the program.
struct Column {
    price: i64,
    held: Amounts,
}

/// How often the practical prices are refined; each time the mixes follow the prices before.
const REFINEMENTS: usize = 3;
/// The part of the worth that goes to resources by how nearly they are used up.
const BLEND: f64 = 0.1;
/// How many offerings and classes a refinement looks at.
const REFINEMENT_OFFERINGS: usize = 48;
const REFINEMENT_CLASSES: usize = 64;

impl Worth {
    /// The prices under which `demand` is worth most while no offering holds more than it costs.
    pub(crate) fn proven(market: &Market, demand: &[i64]) -> Self {
        let mut columns: Vec<Column> = fronts(market)
            .map(|(_, candidate)| Column { price: candidate.price, held: candidate.free.clone() })
            .filter(|column| column.held.iter().any(|free| *free > 0))
            .collect();
        columns.sort_by(|a, b| (a.price, &a.held).cmp(&(b.price, &b.held)));
        columns.dedup_by(|a, b| a.price == b.price && a.held == b.held);
        Self::from_columns(&columns, demand)
    }

    /// Prices that follow what offerings really hold: whole pods, of the kinds there are.
    ///
    /// Under the proven prices a machine with much CPU and hardly any memory makes CPU look cheap although
    /// no pod fits on it. Here each offering counts with a mix of pods that fits it.
    pub(crate) fn practical(
        proven: &Self,
        market: &Market,
        classes: &Classes,
        admitted_cells: &[FixedBitSet],
        demand: &[i64],
    ) -> Self {
        let mut by_size: Vec<usize> = (0..classes.all.len()).collect();
        let mut worth = proven.clone();
        let mut columns = Vec::new();
        let mut room = vec![0_i128; demand.len()];
        let mut used = vec![0_i128; demand.len()];
        for _ in 0..REFINEMENTS {
            let sizes: Vec<f64> = classes.all.iter().map(|class| worth.value(&class.requests)).collect();
            by_size.sort_by(|a, b| sizes[*b].total_cmp(&sizes[*a]).then(a.cmp(b)));
            let stride = by_size.len().div_ceil(REFINEMENT_CLASSES).max(1);
            let sample: Vec<usize> = by_size.iter().copied().step_by(stride).collect();
            let mut promising: Vec<(f64, usize, &Candidate)> = fronts(market)
                .filter(|(_, candidate)| worth.value(&candidate.free) > 0.0)
                .map(|(cell, candidate)| {
                    (float(candidate.price) / worth.value(&candidate.free), cell, candidate)
                })
                .collect();
            promising
                .sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| (a.1, a.2.price).cmp(&(b.1, b.2.price))));
            promising.dedup_by(|a, b| a.2.price == b.2.price && a.2.free == b.2.free);
            for (_, cell, candidate) in promising.into_iter().take(REFINEMENT_OFFERINGS) {
                let ingredients: Vec<Ingredient> = sample
                    .iter()
                    .filter(|class| {
                        let class = &classes.all[**class];
                        class.levels.last().is_some_and(|level| admitted_cells[level.demand].contains(cell))
                            && crate::host::fits(&class.requests, &candidate.free)
                    })
                    .map(|class| Ingredient {
                        class: *class,
                        pods: u32::try_from(classes.all[*class].pods.len().saturating_mul(stride))
                            .unwrap_or(u32::MAX),
                    })
                    .collect();
                let pattern = Pattern::fill(&candidate.free, &ingredients, &classes.all, &worth);
                let held = pattern.requests(&classes.all);
                add_demand(&mut room, &candidate.free, 1);
                add_demand(&mut used, &held, 1);
                if held.iter().any(|amount| *amount > 0) {
                    columns.push(Column { price: candidate.price, held });
                }
            }
            if columns.is_empty() {
                break;
            }
            worth = Self::from_columns(&columns, demand).blended(demand, &used, &room);
        }
        worth
    }

    /// Gives every resource that the mixes nearly use up a part of the worth.
    ///
    /// The program puts all worth on the scarcest resource, though the next is almost as scarce; choosing
    /// by that alone wastes the other.
    fn blended(&self, demand: &[i64], used: &[i128], room: &[i128]) -> Self {
        let total = self.value(demand);
        let tightness: Vec<f64> = used
            .iter()
            .zip(room)
            .map(|(used, room)| if *room > 0 { ratio(*used, *room).powi(4) } else { 0.0 })
            .collect();
        let sum: f64 = tightness.iter().sum();
        if sum <= 0.0 {
            return self.clone();
        }
        let per_unit = self
            .per_unit
            .iter()
            .zip(demand.iter().zip(&tightness))
            .map(|(worth, (amount, tightness))| {
                (1.0 - BLEND) * worth + BLEND * per_unit(total * tightness / sum, *amount)
            })
            .collect();
        Self { per_unit }
    }

    fn from_columns(columns: &[Column], demand: &[i64]) -> Self {
        let shares = solve_dual(columns, demand).unwrap_or_else(|| even_shares(columns, demand));
        Self {
            per_unit: shares.iter().zip(demand).map(|(share, amount)| per_unit(*share, *amount)).collect(),
        }
    }

    pub(crate) fn value(&self, amounts: &[i64]) -> f64 {
        self.per_unit.iter().zip(amounts).map(|(worth, amount)| worth * float(*amount)).sum()
    }

    /// The same, with what is below zero left out.
    pub(crate) fn value_of_positive(&self, amounts: &[i64]) -> f64 {
        self.per_unit.iter().zip(amounts).map(|(worth, amount)| worth * float((*amount).max(0))).sum()
    }

    /// Worth per unit, weighed by how much of each resource is still free.
    pub(crate) fn weighted_by_share(&self, free: &[i64], all: &[i64]) -> Amounts64 {
        self.per_unit
            .iter()
            .zip(free.iter().zip(all))
            .map(|(worth, (free, all))| if *all > 0 { worth * float(*free) / float(*all) } else { 0.0 })
            .collect()
    }

    /// How long `amounts` are as a vector in units of `room`, each resource weighed by what the room's is worth.
    pub(crate) fn length(&self, amounts: &[i64], room: &[i64]) -> f64 {
        let squares = self.per_unit.iter().zip(amounts.iter().zip(room)).map(|(worth, (amount, room))| {
            if *room > 0 { worth * float(*amount) * float(*amount) / float(*room) } else { 0.0 }
        });
        squares.sum::<f64>().sqrt().max(f64::MIN_POSITIVE)
    }

    /// The value of `amounts`, but of each resource no more than `at_most`.
    pub(crate) fn value_capped(&self, amounts: &[i64], at_most: &[i64]) -> f64 {
        self.per_unit
            .iter()
            .zip(amounts.iter().zip(at_most))
            .map(|(worth, (amount, cap))| worth * float(*amount.min(cap)))
            .sum()
    }
}

/// The offerings worth looking at, with their cells.
fn fronts(market: &Market) -> impl Iterator<Item = (usize, &Candidate)> {
    market.cells.iter().enumerate().flat_map(|(index, cell)| {
        cell.front.iter().map(move |candidate| (index, &cell.candidates[*candidate]))
    })
}

#[expect(clippy::cast_precision_loss, reason = "a weight for choosing; exact arithmetic is done on integers")]
pub(crate) fn float(amount: i64) -> f64 {
    amount as f64
}

#[expect(clippy::cast_precision_loss, reason = "a weight for choosing")]
fn ratio(part: i128, whole: i128) -> f64 {
    part as f64 / whole as f64
}

fn per_unit(share: f64, amount: i64) -> f64 {
    if amount > 0 { share / float(amount) } else { 0.0 }
}

/// Offerings that each round adds to the program: those most undercut by the present prices.
const CUTS_PER_ROUND: usize = 8;
/// A program over a handful of resources settles within a few rounds.
const CUT_ROUNDS_MAX: usize = 64;

/// How much of the total cost each resource bears, or `None` where the solver fails.
///
/// Offerings enter the program only when the prices so far would make them hold more than they cost:
/// with a few resources and thousands of offerings only a few ever matter.
fn solve_dual(columns: &[Column], demand: &[i64]) -> Option<Vec<f64>> {
    // In units of "the whole demand" all coefficients are of the same order.
    let fraction = |candidate: &Column, dimension: usize| {
        if demand[dimension] > 0 {
            float(candidate.held[dimension].max(0)) / float(demand[dimension])
        } else {
            0.0
        }
    };
    let excess = |candidate: &Column, shares: &[f64]| {
        let held: f64 = shares.iter().enumerate().map(|(d, share)| share * fraction(candidate, d)).sum();
        held - float(candidate.price)
    };
    // Without a bound the first programs would be unbounded. No share can exceed the cost of buying the
    // cheapest offering that has the resource, over and over.
    let share_max: Vec<f64> = (0..demand.len())
        .map(|dimension| {
            columns
                .iter()
                .filter(|candidate| fraction(candidate, dimension) > 0.0)
                .map(|candidate| float(candidate.price) / fraction(candidate, dimension))
                .fold(f64::INFINITY, f64::min)
        })
        .map(|bound| if bound.is_finite() { bound } else { 0.0 })
        .collect();
    let mut cuts: Vec<usize> = Vec::new();
    let mut shares = share_max.clone();
    for _ in 0..CUT_ROUNDS_MAX {
        let mut violated: Vec<(f64, usize)> = columns
            .iter()
            .enumerate()
            .map(|(index, candidate)| (excess(candidate, &shares), index))
            .filter(|(excess, index)| {
                *excess > 1e-6 * (1.0 + float(columns[*index].price)) && !cuts.contains(index)
            })
            .collect();
        if violated.is_empty() {
            return Some(shares);
        }
        violated.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        cuts.extend(violated.iter().take(CUTS_PER_ROUND).map(|(_, index)| *index));
        let mut problem = Problem::new(OptimizationDirection::Maximize);
        let variables: Vec<_> = share_max.iter().map(|max| problem.add_var(1.0, (0.0, *max))).collect();
        for cut in &cuts {
            let candidate = &columns[*cut];
            // Each row is scaled to a right-hand side of one.
            let scale = float(candidate.price).max(1.0);
            let row: Vec<_> = variables
                .iter()
                .enumerate()
                .map(|(d, variable)| (*variable, fraction(candidate, d) / scale))
                .collect();
            problem.add_constraint(&row, ComparisonOp::Le, float(candidate.price) / scale);
        }
        let solution = problem.solve().ok()?.into_solution().ok()?;
        shares = variables.iter().map(|variable| solution.var_value(*variable).max(0.0)).collect();
    }
    Some(shares)
}

/// A plain guess: every resource bears an equal part of the cheapest way to buy it.
fn even_shares(columns: &[Column], demand: &[i64]) -> Vec<f64> {
    let dimensions = float(i64::try_from(demand.len()).unwrap_or(1));
    (0..demand.len())
        .map(|dimension| {
            columns
                .iter()
                .filter(|column| column.held[dimension] > 0)
                .map(|c| float(c.price) * float(demand[dimension]) / float(c.held[dimension]) / dimensions)
                .fold(f64::INFINITY, f64::min)
        })
        .map(|share| if share.is_finite() { share } else { 0.0 })
        .collect()
}

/// Fixed-point scale of the exact prices: 2^40 steps to a micro-dollar keeps ten digits of a price per byte.
const SCALE_BITS: u32 = 40;

/// The least that any purchase for `demand` can cost in micro-dollars, given rooms that cost nothing more.
///
/// Exact whatever the floats were: the prices are turned into integers and scaled down until every
/// offering of the market respects them.
pub(crate) fn lower_bound<'a>(
    market: &Market,
    worth: &Worth,
    demand: &[i128],
    free_rooms: impl Iterator<Item = &'a [i64]>,
) -> i64 {
    lower_bound_with_choices(market, worth, demand, free_rooms, std::iter::empty())
}

/// The same where there are also `choices`: rooms that may be kept for their price or given up.
///
/// Under any prices that the market respects a room that is kept takes at most its worth off what has to be
/// bought, so it helps by at most its worth less its price, and not at all where that is below zero.
pub(crate) fn lower_bound_with_choices<'a>(
    market: &Market,
    worth: &Worth,
    demand: &[i128],
    free_rooms: impl Iterator<Item = &'a [i64]>,
    choices: impl Iterator<Item = (i64, &'a [i64])>,
) -> i64 {
    let prices = exact_prices(market, worth);
    let asked: i128 = prices.iter().zip(demand).map(|(price, amount)| price * amount).sum();
    let given: i128 = free_rooms.map(|room| exact_value(&prices, room)).sum();
    let chosen: i128 = choices
        .map(|(price, room)| (exact_value(&prices, room) - (i128::from(price) << SCALE_BITS)).max(0))
        .sum();
    let bound = (asked - given - chosen).max(0) >> SCALE_BITS;
    i64::try_from(bound).unwrap_or(i64::MAX)
}

fn exact_prices(market: &Market, worth: &Worth) -> Vec<i128> {
    let scale = f64::from(SCALE_BITS).exp2();
    #[expect(clippy::cast_possible_truncation, reason = "any integer does here: it is checked below")]
    let mut prices: Vec<i128> = worth.per_unit.iter().map(|price| (price * scale).max(0.0) as i128).collect();
    for (_, candidate) in fronts(market) {
        let affordable = i128::from(candidate.price) << SCALE_BITS;
        let held = exact_value(&prices, &candidate.free);
        if held > affordable {
            // Rounded down, so the candidate respects the prices from here on.
            for price in &mut prices {
                *price = mul_div(*price, affordable, held);
            }
        }
    }
    prices
}

fn exact_value(prices: &[i128], amounts: &[i64]) -> i128 {
    prices.iter().zip(amounts).map(|(price, amount)| price * i128::from((*amount).max(0))).sum()
}

/// `value × numerator / denominator` rounded down, without overflow for the sizes at hand.
fn mul_div(value: i128, numerator: i128, denominator: i128) -> i128 {
    value
        .checked_mul(numerator)
        .map_or_else(|| (value / denominator).saturating_mul(numerator), |product| product / denominator)
}

/// The sum of `count` times `amounts`.
pub(crate) fn add_demand(demand: &mut [i128], amounts: &[i64], count: usize) {
    let count = i128::try_from(count).unwrap_or(i128::MAX);
    demand.iter_mut().zip(amounts).for_each(|(sum, amount)| *sum += i128::from(*amount) * count);
}
