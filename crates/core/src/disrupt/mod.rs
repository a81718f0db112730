//! The plan that also takes nodes away: `plan(&Snapshot, &Policy) -> Plan`.
//!
//! A kept node never loses pods. The pods of a node that goes move to room on kept nodes and on nodes that
//! are bought, each once. Looks at the cluster follow each other, each at what the ones before have made of
//! it, until one finds nothing: so planning again after the plan has been carried out changes nothing.

mod draft;
mod homes;
mod pass;
mod steps;
mod worthwhile;

use fixedbitset::FixedBitSet;

use crate::plan::{Plan, Unplaced};
use crate::reason::Refusal;
use crate::scoring;
use crate::snapshot::{Policy, Snapshot};
use draft::{Draft, View};
use pass::{Outcome, Scope};

/// Each look undoes nothing and saves money, so looks end; this many are enough for all that was ever seen.
const LOOKS_MAX: usize = 24;
/// After so many purchases tried there is no further look: the next plan goes on from there.
const ROUNDS_MAX: u64 = 3000;

/// What should be bought, what goes where and which nodes go, so that every pod has a place for less money.
///
/// The same snapshot and policy give the same plan, byte for byte.
pub fn plan(snapshot: &Snapshot, policy: &Policy) -> Plan {
    let mut plan = best_of_attempts(snapshot, policy);
    plan.may_strand = scoring::may_strand(snapshot, policy, &plan);
    plan
}

fn best_of_attempts(snapshot: &Snapshot, policy: &Policy) -> Plan {
    let first = attempt(snapshot, policy, Scope::All);
    let Some(foreseen) = first.out_of_reach else { return first.plan };
    // Looking again with what the looks came to in mind may find a way to it.
    let second = attempt(snapshot, policy, Scope::AllAfter(&foreseen));
    let measure = |plan: &Plan| (plan.unplaced.len(), plan.cost_after);
    if second.out_of_reach.is_none() && measure(&second.plan) <= measure(&first.plan) {
        second.plan
    } else {
        first.plan
    }
}

/// What looks at a cluster came to.
struct Attempt {
    plan: Plan,
    /// The nodes that should have gone, where not all that was found can be reached step by step.
    out_of_reach: Option<FixedBitSet>,
}

/// Looks at the cluster until nothing more is found.
fn attempt(snapshot: &Snapshot, policy: &Policy, first: Scope<'_>) -> Attempt {
    let mut draft = Draft::new(snapshot);
    let mut drafts: Vec<(Draft<'_>, Vec<Unplaced>)> = Vec::new();
    let mut view = draft.view();
    let mut outcome = pass::look(&view.snapshot, policy, &view.planned, first);
    let safety = outcome.safety.clone();
    let mut rounds = outcome.rounds;
    loop {
        let changed = draft.merge(&view, &outcome);
        drafts.push((draft.clone(), outcome.unplaced.clone()));
        if !changed || drafts.len() == LOOKS_MAX || rounds > ROUNDS_MAX {
            break;
        }
        view = draft.view();
        outcome = pass::look(&view.snapshot, policy, &view.planned, Scope::All);
        rounds += outcome.rounds;
    }
    // What the last look made of it may not be reached step by step; then what an earlier one made of it is.
    let mut out_of_reach = None;
    loop {
        let Some((draft, unplaced)) = drafts.pop() else {
            return Attempt { plan: Plan::default(), out_of_reach };
        };
        let last = Last { view: &view, outcome: &outcome, unplaced, rounds };
        let (plan, reached) = steps::assemble(snapshot, policy, &safety, &draft, &last);
        if !reached && out_of_reach.is_none() {
            out_of_reach = Some((0..draft.removed.len()).filter(|node| draft.removed[*node]).collect());
        }
        if reached || drafts.is_empty() {
            return Attempt { plan, out_of_reach };
        }
    }
}

/// What else the plan needs to say, from the last look.
struct Last<'a> {
    view: &'a View,
    outcome: &'a Outcome,
    unplaced: Vec<Unplaced>,
    rounds: u64,
}

/// The plan for what waits, and for this node alone to go, whether or not that pays; with what speaks against
/// it.
pub(crate) fn plan_without(snapshot: &Snapshot, policy: &Policy, node: usize) -> (Plan, Option<Refusal>) {
    let mut draft = Draft::new(snapshot);
    let view = draft.view();
    let outcome = pass::look(&view.snapshot, policy, &view.planned, Scope::Only(node));
    let refusal = outcome.refusals[node].clone();
    let (safety, rounds) = (outcome.safety.clone(), outcome.rounds);
    draft.merge(&view, &outcome);
    let unplaced = outcome.unplaced.clone();
    let last = Last { view: &view, outcome: &outcome, unplaced, rounds };
    (steps::assemble(snapshot, policy, &safety, &draft, &last).0, refusal)
}

/// Disjoint sets of small numbers.
struct Sets {
    parents: Vec<usize>,
}

impl Sets {
    fn new(count: usize) -> Self {
        Self { parents: (0..count).collect() }
    }

    fn find(&mut self, mut item: usize) -> usize {
        while self.parents[item] != item {
            self.parents[item] = self.parents[self.parents[item]];
            item = self.parents[item];
        }
        item
    }

    /// The lower number stands for both.
    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.find(a), self.find(b));
        self.parents[a.max(b)] = a.min(b);
    }
}
