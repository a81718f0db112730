//! Better plans by column generation, and the prices of pods that prove how good they are.
//!
//! The packer's answer is a start. A linear program over patterns (what one machine holds) says how many of
//! each there should be, fractions allowed, and what each kind of pod costs at the margin; with those prices
//! every offering is asked for a better pattern, until there is none. Then the fractions are rounded, and
//! parts of the answer are taken up again and made anew as long as that saves money.
//!
//! Work is counted in rounds, one for each time that all offerings are asked: the same number of rounds gives
//! the same answer, on any number of threads.

mod dive;
mod generate;
mod knapsack;
mod master;
mod model;
mod prove;
mod replay;

use crate::pack::Packer;

use generate::Pool;
use model::Model;

pub(crate) use prove::lower_bound;

/// How much work may be done.
pub(crate) struct Work<'a> {
    rounds_left: u64,
    rounds_done: u64,
    threads: usize,
    /// Asked once a round: whether there is time for another.
    keep_going: &'a mut dyn FnMut(u64) -> bool,
}

impl<'a> Work<'a> {
    pub(crate) fn new(rounds: u64, threads: usize, keep_going: &'a mut dyn FnMut(u64) -> bool) -> Self {
        Self { rounds_left: rounds, rounds_done: 0, threads: threads.max(1), keep_going }
    }

    pub(crate) fn rounds_done(&self) -> u64 {
        self.rounds_done
    }

    fn is_over(&self) -> bool {
        self.rounds_left == 0
    }

    /// Takes one round, if there is one left.
    fn round(&mut self) -> bool {
        if self.rounds_left == 0 || !(self.keep_going)(self.rounds_done) {
            self.rounds_left = 0;
            return false;
        }
        self.rounds_left -= 1;
        self.rounds_done += 1;
        true
    }
}

/// What came of it: a better arrangement, if there is one, and what a pod of each class costs at the margin.
pub(crate) struct Improved<'a> {
    pub(crate) packer: Option<Packer<'a>>,
    pub(crate) class_prices: Vec<f64>,
}

/// More rows than this make the program too slow to be worth it.
const ROWS_MAX: usize = 640;

/// Improves on what `packer` did. `fresh` makes a packer that has placed nothing yet.
pub(crate) fn improve<'a>(
    packer: &Packer<'a>,
    fresh: impl Fn() -> Packer<'a>,
    work: &mut Work<'_>,
) -> Improved<'a> {
    let nothing = Improved { packer: None, class_prices: Vec::new() };
    if work.rounds_left == 0 || packer.steps.is_empty() {
        return nothing;
    }
    let model = Model::of(packer);
    if model.items.is_empty() || model.items.len() > ROWS_MAX {
        return nothing;
    }
    let mut pool = Pool::new(&model);
    let prices = pool.generate(work);
    let class_prices = model.class_prices(packer.classes.all.len(), &prices);
    let mut best: Option<Packer<'a>> = None;
    let mut least = packer.spent();
    dive::search(&model, &mut pool, &prices, work, &mut |patterns| {
        if model.cost(patterns) + model.kept_cost(packer) >= least {
            return;
        }
        if let Some(better) = replay::replay(packer, fresh(), &model, patterns)
            && better.spent() < least
        {
            least = better.spent();
            best = Some(better);
        }
    });
    Improved { packer: best, class_prices }
}
