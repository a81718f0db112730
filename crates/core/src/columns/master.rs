//! The linear program over patterns: how many machines of each pattern, fractions allowed, cover all pods
//! at the least cost, and what one more pod of each kind would cost.
//!
//! A revised simplex with a dense inverse. Columns may be added at any time and the work goes on from where
//! it stands, which is what column generation needs; and it yields primal and dual values alike, which the
//! crates at hand do not.

/// A way to spend money: its price, and what it counts in each row, by ascending row.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) price: f64,
    pub(super) entries: Vec<(usize, f64)>,
}

/// What a row asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Row {
    /// At least so much, or `penalty` for each unit that is missing.
    AtLeast {
        amount: f64,
        penalty: f64,
    },
    AtMost(f64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Basic {
    /// The surplus of a row of at least, the slack of a row of at most.
    Slack,
    /// What is missing in a row of at least.
    Missing,
    Column(usize),
}

#[derive(Clone, Debug)]
pub(super) struct Master {
    rows: Vec<Row>,
    columns: Vec<Column>,
    /// Which variable each place of the basis holds; for slacks and missing amounts with their row.
    basis: Vec<(Basic, usize)>,
    /// Row-major inverse of the basis.
    inverse: Vec<f64>,
    values: Vec<f64>,
    duals: Vec<f64>,
    pivots_since_fresh: usize,
}

const EPSILON: f64 = 1e-9;
/// A reduced cost below this part of the price is worth a pivot.
const WORTHWHILE: f64 = 1e-7;
/// Rounding errors grow with every pivot; after so many the inverse is made anew.
const PIVOTS_PER_INVERSE: usize = 200;
/// A program settles within a few pivots for each row, or creeps.
const PIVOTS_PER_ROW: usize = 6;
const PIVOTS_MIN: usize = 200;
/// Each row is moved by a little of its own, so that no pivot stands still and the work cannot cycle.
const PERTURBATION: f64 = 1e-7;

impl Master {
    pub(super) fn new(rows: Vec<Row>) -> Self {
        let size = rows.len();
        let basis = rows
            .iter()
            .enumerate()
            .map(|(row, kind)| match kind {
                Row::AtLeast { .. } => (Basic::Missing, row),
                Row::AtMost(_) => (Basic::Slack, row),
            })
            .collect();
        let mut inverse = vec![0.0; size * size];
        for row in 0..size {
            inverse[row * size + row] = 1.0;
        }
        let mut master = Self {
            rows,
            columns: Vec::new(),
            basis,
            inverse,
            values: Vec::new(),
            duals: Vec::new(),
            pivots_since_fresh: 0,
        };
        master.refresh_values();
        master
    }

    pub(super) fn add(&mut self, column: Column) {
        self.columns.push(column);
    }

    /// What one more unit of each row is worth: zero or more for rows of at least, zero or less for the
    /// others.
    pub(super) fn duals(&self) -> &[f64] {
        &self.duals
    }

    /// How much of each column, of those that are used at all.
    pub(super) fn solution(&self) -> Vec<(usize, f64)> {
        let mut used: Vec<(usize, f64)> = self
            .basis
            .iter()
            .zip(&self.values)
            .filter_map(|((kind, _), value)| match kind {
                Basic::Column(column) if *value > 1e-6 => Some((*column, *value)),
                _ => None,
            })
            .collect();
        used.sort_unstable_by_key(|(column, _)| *column);
        used
    }

    /// Pivots until no column at hand improves the cost, or for so long that it hardly does any more. What it
    /// stops at is as good for rounding and, scaled down, for a bound.
    pub(super) fn optimize(&mut self) {
        for _ in 0..PIVOTS_PER_ROW * self.rows.len() + PIVOTS_MIN {
            let Some((kind, row)) = self.entering() else { return };
            let direction = self.direction(kind, row);
            let Some(leaving) = self.leaving(&direction) else { return };
            self.pivot(kind, row, leaving, &direction);
        }
    }

    pub(super) fn reduced_cost(&self, column: &Column) -> f64 {
        column.price - column.entries.iter().map(|(row, amount)| self.duals[*row] * amount).sum::<f64>()
    }

    fn entering(&self) -> Option<(Basic, usize)> {
        let mut best: Option<(f64, Basic, usize)> = None;
        let mut offer = |gain: f64, kind: Basic, row: usize| {
            if gain > WORTHWHILE && best.is_none_or(|(most, ..)| gain > most) {
                best = Some((gain, kind, row));
            }
        };
        for (row, kind) in self.rows.iter().enumerate() {
            let dual = self.duals[row];
            match kind {
                // A pod that costs less than nothing: let there be more of them.
                Row::AtLeast { penalty, .. } => {
                    offer(-dual / penalty, Basic::Slack, row);
                    offer((dual - penalty) / penalty, Basic::Missing, row);
                }
                Row::AtMost(_) => offer(dual, Basic::Slack, row),
            }
        }
        for (index, column) in self.columns.iter().enumerate() {
            offer(-self.reduced_cost(column) / column.price.max(1.0), Basic::Column(index), 0);
        }
        best.map(|(_, kind, row)| (kind, row))
    }

    /// How the basis changes per unit of the entering variable.
    fn direction(&self, kind: Basic, row: usize) -> Vec<f64> {
        let size = self.rows.len();
        let single;
        let entries: &[(usize, f64)] = match kind {
            Basic::Column(column) => &self.columns[column].entries,
            Basic::Slack => {
                single = [(row, self.slack_sign(row))];
                &single
            }
            Basic::Missing => {
                single = [(row, 1.0)];
                &single
            }
        };
        (0..size)
            .map(|place| {
                let inverse = &self.inverse[place * size..(place + 1) * size];
                entries.iter().map(|(row, amount)| inverse[*row] * amount).sum()
            })
            .collect()
    }

    fn slack_sign(&self, row: usize) -> f64 {
        match self.rows[row] {
            Row::AtLeast { .. } => -1.0,
            Row::AtMost(_) => 1.0,
        }
    }

    /// The place whose value reaches zero first; of equals the one with the largest pivot.
    fn leaving(&self, direction: &[f64]) -> Option<usize> {
        let mut best: Option<(f64, usize)> = None;
        for (place, change) in direction.iter().enumerate() {
            if *change > EPSILON {
                let ratio = self.values[place].max(0.0) / change;
                let better = best.is_none_or(|(least, at)| {
                    ratio < least - 1e-12 || (ratio <= least + 1e-12 && *change > direction[at])
                });
                if better {
                    best = Some((ratio, place));
                }
            }
        }
        best.map(|(_, place)| place)
    }

    fn pivot(&mut self, kind: Basic, row: usize, leaving: usize, direction: &[f64]) {
        let size = self.rows.len();
        let pivot = direction[leaving];
        let (before, rest) = self.inverse.split_at_mut(leaving * size);
        let (pivot_row, after) = rest.split_at_mut(size);
        for value in pivot_row.iter_mut() {
            *value /= pivot;
        }
        self.values[leaving] /= pivot;
        let step = self.values[leaving];
        let others = before.chunks_exact_mut(size).chain(after.chunks_exact_mut(size));
        let places = (0..leaving).chain(leaving + 1..size);
        for (place, inverse_row) in places.zip(others) {
            let factor = direction[place];
            if factor != 0.0 {
                inverse_row.iter_mut().zip(&*pivot_row).for_each(|(value, pivot)| *value -= factor * pivot);
                self.values[place] -= factor * step;
            }
        }
        self.basis[leaving] = (kind, row);
        self.pivots_since_fresh += 1;
        if self.pivots_since_fresh >= PIVOTS_PER_INVERSE {
            self.invert();
        }
        self.refresh_duals();
    }

    fn cost(&self, kind: Basic, row: usize) -> f64 {
        match kind {
            Basic::Column(column) => self.columns[column].price,
            Basic::Slack => 0.0,
            Basic::Missing => match self.rows[row] {
                Row::AtLeast { penalty, .. } => penalty,
                Row::AtMost(_) => 0.0,
            },
        }
    }

    fn refresh_duals(&mut self) {
        let size = self.rows.len();
        self.duals.clear();
        self.duals.resize(size, 0.0);
        for (place, (kind, row)) in self.basis.iter().enumerate() {
            let cost = self.cost(*kind, *row);
            if cost != 0.0 {
                let inverse = &self.inverse[place * size..(place + 1) * size];
                self.duals.iter_mut().zip(inverse).for_each(|(dual, value)| *dual += cost * value);
            }
        }
    }

    fn refresh_values(&mut self) {
        let size = self.rows.len();
        let amounts: Vec<f64> = self
            .rows
            .iter()
            .enumerate()
            .map(|(row, kind)| {
                let amount = match kind {
                    Row::AtLeast { amount, .. } | Row::AtMost(amount) => *amount,
                };
                amount + PERTURBATION * (1.0 + fraction(row))
            })
            .collect();
        self.values = (0..size)
            .map(|place| {
                let inverse = &self.inverse[place * size..(place + 1) * size];
                inverse.iter().zip(&amounts).map(|(value, amount)| value * amount).sum()
            })
            .collect();
        self.refresh_duals();
    }

    /// Makes the inverse anew from the basis, by elimination with the largest pivots.
    fn invert(&mut self) {
        let size = self.rows.len();
        let mut matrix = vec![0.0; size * size];
        for (place, (kind, row)) in self.basis.iter().enumerate() {
            match kind {
                Basic::Column(column) => {
                    for (row, amount) in &self.columns[*column].entries {
                        matrix[row * size + place] = *amount;
                    }
                }
                Basic::Slack => matrix[row * size + place] = self.slack_sign(*row),
                Basic::Missing => matrix[row * size + place] = 1.0,
            }
        }
        let mut inverse = vec![0.0; size * size];
        for row in 0..size {
            inverse[row * size + row] = 1.0;
        }
        for column in 0..size {
            let largest = (column..size)
                .max_by(|a, b| {
                    let at = |row: usize| f64::abs(matrix[row * size + column]);
                    at(*a).total_cmp(&at(*b)).then(b.cmp(a))
                })
                .unwrap_or(column);
            if matrix[largest * size + column].abs() < 1e-12 {
                // Singular by rounding: the inverse at hand is the better one.
                return;
            }
            swap_rows(&mut matrix, size, column, largest);
            swap_rows(&mut inverse, size, column, largest);
            let pivot = matrix[column * size + column];
            for value in &mut matrix[column * size..(column + 1) * size] {
                *value /= pivot;
            }
            for value in &mut inverse[column * size..(column + 1) * size] {
                *value /= pivot;
            }
            for row in (0..size).filter(|row| *row != column) {
                let factor = matrix[row * size + column];
                if factor != 0.0 {
                    subtract_row(&mut matrix, size, row, column, factor);
                    subtract_row(&mut inverse, size, row, column, factor);
                }
            }
        }
        self.inverse = inverse;
        self.pivots_since_fresh = 0;
        self.refresh_values();
    }
}

/// A number between zero and one that differs from row to row.
fn fraction(row: usize) -> f64 {
    let mixed = (row as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    f64::from(u32::try_from(mixed).unwrap_or(0)) / f64::from(1_u32 << 24)
}

fn swap_rows(matrix: &mut [f64], size: usize, a: usize, b: usize) {
    if a != b {
        let (low, high) = (a.min(b), a.max(b));
        let (head, tail) = matrix.split_at_mut(high * size);
        head[low * size..(low + 1) * size].swap_with_slice(&mut tail[..size]);
    }
}

fn subtract_row(matrix: &mut [f64], size: usize, from: usize, row: usize, factor: f64) {
    let (low, high) = (from.min(row), from.max(row));
    let (head, tail) = matrix.split_at_mut(high * size);
    let (low_row, high_row) = (&mut head[low * size..(low + 1) * size], &mut tail[..size]);
    let (target, source) = if from < row { (low_row, high_row) } else { (high_row, low_row) };
    target.iter_mut().zip(source).for_each(|(target, source)| *target -= factor * *source);
}

#[cfg(test)]
mod tests {
    use super::*;
    use microlp::{ComparisonOp, OptimizationDirection, Problem};

    /// The same program, solved by another solver.
    fn reference(rows: &[Row], columns: &[Column]) -> f64 {
        let mut problem = Problem::new(OptimizationDirection::Minimize);
        let variables: Vec<_> =
            columns.iter().map(|column| problem.add_var(column.price, (0.0, f64::INFINITY))).collect();
        for (index, row) in rows.iter().enumerate() {
            let mut terms: Vec<_> = columns
                .iter()
                .zip(&variables)
                .filter_map(|(column, variable)| {
                    let entry = column.entries.iter().find(|(row, _)| *row == index)?;
                    Some((*variable, entry.1))
                })
                .collect();
            match row {
                Row::AtLeast { amount, penalty } => {
                    terms.push((problem.add_var(*penalty, (0.0, f64::INFINITY)), 1.0));
                    problem.add_constraint(&terms, ComparisonOp::Ge, *amount);
                }
                Row::AtMost(amount) => problem.add_constraint(&terms, ComparisonOp::Le, *amount),
            }
        }
        problem.solve().unwrap().solution().unwrap().objective()
    }

    #[test]
    fn it_agrees_with_another_solver() {
        let mut state = 11_u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            f64::from(u32::try_from((state >> 33) % below).unwrap())
        };
        for case in 0..60 {
            let rows: Vec<Row> = (0..12)
                .map(|row| {
                    if row < 10 {
                        Row::AtLeast { amount: 1.0 + draw(30), penalty: 1000.0 }
                    } else {
                        Row::AtMost(1.0 + draw(20))
                    }
                })
                .collect();
            let columns: Vec<Column> = (0..80)
                .map(|_| {
                    let entries = (0..12)
                        .filter_map(|row| {
                            let amount = if row < 10 { draw(8) - 4.0 } else { draw(2) };
                            (amount > 0.0).then_some((row, amount))
                        })
                        .collect();
                    Column { price: 5.0 + draw(40), entries }
                })
                .collect();
            let mut master = Master::new(rows.clone());
            // Half of the columns come later, as in column generation.
            for half in columns.chunks(40) {
                for column in half {
                    master.add(column.clone());
                }
                master.optimize();
            }
            let dual_value: f64 = rows
                .iter()
                .zip(master.duals())
                .map(|(row, dual)| match row {
                    Row::AtLeast { amount, .. } | Row::AtMost(amount) => amount * dual,
                })
                .sum();
            let expected = reference(&rows, &columns);
            assert!(
                (dual_value - expected).abs() < 1e-3 * expected,
                "case {case}: {dual_value}, not {expected}"
            );
        }
    }
}
