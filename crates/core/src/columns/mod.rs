//! Better plans by column generation, and the prices of pods that prove how good they are.
//!
//! The packer's answer is a start. A linear program over patterns (what one machine holds) says how many of
//! each there should be, fractions allowed, and what each kind of pod costs at the margin; with those prices
//! every offering is asked for a better pattern, until there is none. Then the fractions are rounded, and
//! parts of the answer are taken up again and made anew as long as that saves money.
//!
//! Work is counted in rounds, one for each time that all offerings are asked: the same number of rounds gives
//! the same answer, on any number of threads.

mod coarse;
mod dive;
mod exact;
mod fill;
mod generate;
mod knapsack;
mod master;
mod model;
mod prove;
mod relax;
mod replay;

use crate::pack::Packer;
use crate::snapshot::Effort;

use generate::Pool;
use model::{Model, Pattern};

pub(crate) use prove::lower_bound;

/// How much work may be done.
pub(crate) struct Work<'a> {
    /// `None` until the size of the problem is known.
    rounds_left: Option<u64>,
    rounds_done: u64,
    threads: usize,
    /// Asked once a round: whether there is time for another.
    keep_going: &'a mut dyn FnMut(u64) -> bool,
}

impl<'a> Work<'a> {
    pub(crate) fn new(effort: Effort, keep_going: &'a mut dyn FnMut(u64) -> bool) -> Self {
        Self { rounds_left: effort.rounds, rounds_done: 0, threads: effort.threads.max(1), keep_going }
    }

    pub(crate) fn rounds_done(&self) -> u64 {
        self.rounds_done
    }

    /// Without a number of rounds given, as many as take about as long whatever the size; none where so few
    /// would come of it that they are not worth beginning.
    fn suit(&mut self, items: usize, sites: usize) {
        let (items, sites) = (items as u64, sites as u64);
        let round = sites * (items * ENTRY_NANOS + SITE_NANOS) + items.pow(3) * PIVOT_NANOS;
        let rounds = (SUITABLE_NANOS / round.max(1)).min(Effort::ROUNDS_MAX_UNASKED);
        self.rounds_left.get_or_insert(if rounds < ROUNDS_WORTHWHILE { 0 } else { rounds });
    }

    fn is_over(&self) -> bool {
        self.rounds_left == Some(0)
    }

    /// Takes one round, if there is one left.
    fn round(&mut self) -> bool {
        let left = self.rounds_left.unwrap_or(0);
        if left == 0 || !(self.keep_going)(self.rounds_done) {
            self.rounds_left = Some(0);
            return false;
        }
        self.rounds_left = Some(left - 1);
        self.rounds_done += 1;
        true
    }
}

/// Rough times of the parts of a round, to compare sizes by: they decide how many rounds suit, and are the
/// same on every machine.
const ENTRY_NANOS: u64 = 250;
const SITE_NANOS: u64 = 120_000;
const PIVOT_NANOS: u64 = 6;
/// What the rounds that suit take together: less than a second of one processor.
const SUITABLE_NANOS: u64 = 900_000_000;
const ROUNDS_WORTHWHILE: u64 = 10;

/// What came of it.
#[derive(Default)]
pub(crate) struct Improved<'a> {
    /// A better arrangement, if there is one.
    pub(crate) packer: Option<Packer<'a>>,
    /// What a pod of each class costs at the margin.
    pub(crate) class_prices: Vec<f64>,
    /// What the planned hosts cost at least, where all arrangements were looked at.
    pub(crate) least_cost: Option<i64>,
}

/// So many classes hardly ever make few enough items, and looking takes as long as packing.
const CLASSES_MAX_UNASKED: usize = 1_500;

/// More rows than this make the program too slow to be worth it.
const ROWS_MAX: usize = 640;

/// Improves on what `packer` did. `fresh` makes a packer that has placed nothing yet.
pub(crate) fn improve<'a>(
    packer: &Packer<'a>,
    fresh: impl Fn() -> Packer<'a>,
    work: &mut Work<'_>,
) -> Improved<'a> {
    let too_many = work.rounds_left.is_none() && packer.classes.all.len() > CLASSES_MAX_UNASKED;
    if work.is_over() || too_many || packer.steps.is_empty() {
        return Improved::default();
    }
    let model = Model::of(packer);
    if model.items.is_empty() {
        return Improved::default();
    }
    let is_asked = work.rounds_left.is_some();
    let mut best: Option<Packer<'a>> = None;
    let measure = |packer: &Packer<'_>| (packer.left.iter().sum::<u32>(), packer.spent());
    let mut least = measure(packer);
    let mut offer = |patterns: &[Pattern]| {
        let better = replay::replay(packer, fresh(), &model, patterns);
        let leaves_no_other = better.left.iter().zip(&packer.left).all(|(now, before)| now <= before);
        if leaves_no_other && measure(&better) < least {
            least = measure(&better);
            best = Some(better);
        }
    };
    let mut pool = Pool::new(&model);
    let mut class_prices = Vec::new();
    if model.items.len() > coarse::ITEMS_FEW {
        if let Some(prices) = coarse::prices(&model, packer.worth, work) {
            class_prices = model.class_prices(packer.classes.all.len(), &prices);
            let patterns = fill::fill(&model, &prices, work);
            offer(&patterns);
            pool.extend(patterns);
        }
        if !is_asked || model.items.len() > ROWS_MAX {
            return Improved { packer: best, class_prices, least_cost: None };
        }
    }
    work.suit(model.items.len(), model.sites.len());
    if work.is_over() {
        return Improved { packer: best, class_prices, least_cost: None };
    }
    if let Some(patterns) = exact::cheapest(&model, work) {
        offer(&patterns);
        if model.is_whole {
            let least_cost = Some(model.cost(&patterns));
            return Improved { packer: best, class_prices: Vec::new(), least_cost };
        }
        let (class_prices, least_cost) = prove_apart(packer, &fresh(), work);
        return Improved { packer: best, class_prices, least_cost };
    }
    let prices = pool.generate(work, u64::MAX);
    class_prices = model.class_prices(packer.classes.all.len(), &prices);
    let mut least_cost = None;
    if !model.fixed.is_empty() || model.pods() <= PODS_FEW {
        // The model has no prices for what it leaves in its place.
        (class_prices, least_cost) = prove_apart(packer, &fresh(), work);
    }
    dive::search(&model, &mut pool, &prices, work, &mut offer);
    Improved { packer: best, class_prices, least_cost }
}

/// With so few pods the cost of the problem with fewer rules may be found outright.
const PODS_FEW: u32 = 64;

/// What pods cost at the margin if other pods had less of a say, and the least cost if it is found outright.
fn prove_apart(packer: &Packer<'_>, fresh: &Packer<'_>, work: &mut Work<'_>) -> (Vec<f64>, Option<i64>) {
    let model = Model::relaxed(packer, fresh);
    if model.items.len() > ROWS_MAX || !packer.market.reservations.is_empty() {
        return (Vec::new(), None);
    }
    let least_cost = exact::cheapest(&model, work).map(|patterns| model.cost(&patterns));
    let prices = Pool::new(&model).generate(work, u64::MAX);
    (model.class_prices(packer.classes.all.len(), &prices), least_cost)
}
