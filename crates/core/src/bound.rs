//! What resources are worth, and the proof that follows from it.
//!
//! Give every resource a price per unit such that no offering holds more worth of resources than it costs.
//! Then whatever the pods ask for, priced so, is the least that any purchase for them can cost: a lower
//! bound, whatever the rules about labels and topology are, since those can only make it dearer. The best
//! such prices solve a small linear program, the dual of "buy fractions of offerings that hold it all".

use microlp::{ComparisonOp, OptimizationDirection, Problem};

use crate::market::{Amounts, Candidate, Market};

/// Prices of resources in micro-dollars an hour per unit, by dimension.
#[derive(Clone, Debug)]
pub(crate) struct Worth {
    per_unit: Vec<f64>,
}

impl Worth {
    /// The prices under which `demand` is worth most.
    pub(crate) fn of(market: &Market, demand: &[i64]) -> Self {
        let mut columns: Vec<&Candidate> = market
            .cells
            .iter()
            .flat_map(|cell| cell.front.iter().map(|candidate| &cell.candidates[*candidate]))
            .filter(|candidate| candidate.free.iter().any(|free| *free > 0))
            .collect();
        columns.sort_by(|a, b| (a.price, &a.free).cmp(&(b.price, &b.free)));
        columns.dedup_by(|a, b| a.price == b.price && a.free == b.free);
        let shares = solve_dual(&columns, demand).unwrap_or_else(|| even_shares(&columns, demand));
        let per_unit = shares.iter().zip(demand).map(|(share, amount)| per_unit(*share, *amount)).collect();
        Self { per_unit }
    }

    pub(crate) fn value(&self, amounts: &[i64]) -> f64 {
        self.per_unit.iter().zip(amounts).map(|(worth, amount)| worth * float(*amount)).sum()
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

#[expect(clippy::cast_precision_loss, reason = "a weight for choosing; exact arithmetic is done on integers")]
fn float(amount: i64) -> f64 {
    amount as f64
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
fn solve_dual(columns: &[&Candidate], demand: &[i64]) -> Option<Vec<f64>> {
    // In units of "the whole demand" all coefficients are of the same order.
    let fraction = |candidate: &Candidate, dimension: usize| {
        if demand[dimension] > 0 {
            float(candidate.free[dimension].max(0)) / float(demand[dimension])
        } else {
            0.0
        }
    };
    let excess = |candidate: &Candidate, shares: &[f64]| {
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
            let candidate = columns[*cut];
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
fn even_shares(columns: &[&Candidate], demand: &[i64]) -> Vec<f64> {
    let dimensions = float(i64::try_from(demand.len()).unwrap_or(1));
    (0..demand.len())
        .map(|dimension| {
            columns
                .iter()
                .filter(|candidate| candidate.free[dimension] > 0)
                .map(|c| float(c.price) * float(demand[dimension]) / float(c.free[dimension]) / dimensions)
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
    let scale = f64::from(SCALE_BITS).exp2();
    #[expect(clippy::cast_possible_truncation, reason = "any integer does here: it is checked below")]
    let mut prices: Vec<i128> = worth.per_unit.iter().map(|price| (price * scale).max(0.0) as i128).collect();
    let candidates =
        || market.cells.iter().flat_map(|cell| cell.front.iter().map(|index| &cell.candidates[*index]));
    let value = |prices: &[i128], amounts: &[i64]| -> i128 {
        prices.iter().zip(amounts).map(|(price, amount)| price * i128::from((*amount).max(0))).sum()
    };
    for candidate in candidates() {
        let affordable = i128::from(candidate.price) << SCALE_BITS;
        let held = value(&prices, &candidate.free);
        if held > affordable {
            // Rounded down, so the candidate respects the prices from here on.
            prices.iter_mut().for_each(|price| *price = mul_div(*price, affordable, held));
        }
    }
    let asked: i128 = prices.iter().zip(demand).map(|(price, amount)| price * amount).sum();
    let given: i128 = free_rooms.map(|room| value(&prices, room)).sum();
    let bound = (asked - given).max(0) >> SCALE_BITS;
    i64::try_from(bound).unwrap_or(i64::MAX)
}

/// `value × numerator / denominator` rounded down, without overflow for the sizes at hand.
fn mul_div(value: i128, numerator: i128, denominator: i128) -> i128 {
    value
        .checked_mul(numerator)
        .map_or_else(|| (value / denominator).saturating_mul(numerator), |product| product / denominator)
}

/// The sum of `count` times `amounts`.
pub(crate) fn add_demand(demand: &mut [i128], amounts: &Amounts, count: usize) {
    let count = i128::try_from(count).unwrap_or(i128::MAX);
    demand.iter_mut().zip(amounts).for_each(|(sum, amount)| *sum += i128::from(*amount) * count);
}
