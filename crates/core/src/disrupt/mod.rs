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
use rustc_hash::FxHashSet;

use crate::division::{Divided, Portion};
use crate::node::{Node, NodeState};
use crate::plan::{DisruptionStep, Plan, Unplaced};
use crate::reason::Refusal;
use crate::safety::{self, Safety};
use crate::scoring;
use crate::snapshot::{Policy, SchedulerPolicy, Snapshot};
use crate::units::Price;
use draft::{Draft, View};
use pass::{Outcome, Scope};
use worthwhile::Judge;

/// Each look undoes nothing and saves money, so looks end; this many are enough for all that was ever seen.
const LOOKS_MAX: usize = 24;
/// After so many purchases tried there is no further look: the next plan goes on from there.
const ROUNDS_MAX: u64 = 3000;

/// What should be bought, what goes where and which nodes go, so that every pod has a place for less money.
///
/// The same snapshot and policy give the same plan, byte for byte.
pub fn plan(snapshot: &Snapshot, policy: &Policy) -> Plan {
    let attempt = best_of_attempts(snapshot, policy);
    let mut plan = match policy.scheduler {
        SchedulerPolicy::Heeded => heeding_scheduler(snapshot, policy, attempt),
        SchedulerPolicy::Ignored | SchedulerPolicy::Tried => attempt.plan,
    };
    plan.may_strand = scoring::may_strand(snapshot, policy, &plan);
    plan
}

fn best_of_attempts<'s>(snapshot: &'s Snapshot, policy: &Policy) -> Attempt<'s> {
    let first = attempt(snapshot, policy, Scope::All);
    let Some(foreseen) = &first.out_of_reach else { return first };
    // Looking again with what the looks came to in mind may find a way to it.
    let second = attempt(snapshot, policy, Scope::AllAfter(foreseen));
    let measure = |plan: &Plan| (plan.unplaced.len(), plan.cost_after);
    if second.out_of_reach.is_none() && measure(&second.plan) <= measure(&first.plan) {
        second
    } else {
        first
    }
}

/// What looks at a cluster came to.
struct Attempt<'s> {
    plan: Plan,
    /// The nodes that should have gone, where not all that was found can be reached step by step.
    out_of_reach: Option<FixedBitSet>,
    /// What the plan was written down from.
    safety: Safety,
    draft: Draft<'s>,
    last: Last,
}

/// The plan with those of its steps, the best first, that pay best once kube-scheduler has placed their pods its own way.
/// Where not all of them do, smaller steps are tried too. Nodes that have to go do so whatever that comes to.
fn heeding_scheduler(snapshot: &Snapshot, policy: &Policy, attempt_made: Attempt<'_>) -> Plan {
    let Some((best, is_whole)) = attempt_made.paying_part(snapshot, policy) else { return attempt_made.plan };
    if is_whole {
        return best.plan;
    }
    let singly = attempt(snapshot, policy, Scope::Singly);
    match singly.paying_part(snapshot, policy) {
        Some((other, _)) if other.measure() < best.measure() => other.plan,
        _ => best.plan,
    }
}

/// A plan, and what it would come to.
struct Tried {
    plan: Plan,
    /// Pods that it leaves without a place, by itself and by the scheduler's doing.
    left: usize,
    /// With the least that it has to save on top.
    cost: Price,
}

impl Tried {
    fn measure(&self) -> (usize, Price) {
        (self.left, self.cost)
    }
}

impl Attempt<'_> {
    /// That part of the plan which comes to the least, and whether it is all of it. `None` if nothing goes to save
    /// money, or there is too much to try.
    fn paying_part(&self, snapshot: &Snapshot, policy: &Policy) -> Option<(Tried, bool)> {
        let judge = Judge::new(snapshot, &policy.disruption, &self.safety);
        let is_saving = |step: &&DisruptionStep| !safety::is_forced(step.reason);
        let tried = |plan: Plan| {
            let (left, cost) = scoring::outcome(snapshot, policy, &plan)?;
            let least = |node: &usize| {
                let price = snapshot.cost_of(&snapshot.nodes[*node]).unwrap_or(Price::ZERO);
                judge.least_saving(price, self.safety.nodes[*node].cost)
            };
            let saving = plan.disruptions.iter().filter(is_saving);
            let least: i64 = saving.flat_map(|step| &step.nodes).map(least).sum();
            let left = left as usize + plan.unplaced.len();
            Some(Tried { plan, left, cost: cost.plus(Price::from_micro_usd(least)) })
        };
        let mut most = self.plan.disruptions.iter().filter(is_saving).count();
        let mut best = tried(self.plan.clone()).filter(|_| most > 0)?;
        let mut is_whole = true;
        while most > 0 {
            most /= 2;
            let (plan, _) = steps::assemble(snapshot, policy, &self.safety, &self.draft, &self.last, most);
            if !keeps_shares(snapshot, &plan) {
                continue;
            }
            if let Some(part) = tried(plan).filter(|part| part.measure() < best.measure()) {
                (best, is_whole) = (part, false);
            }
        }
        Some((best, is_whole))
    }
}

/// Looks at the cluster until nothing more is found.
fn attempt<'s>(snapshot: &'s Snapshot, policy: &Policy, first: Scope<'_>) -> Attempt<'s> {
    let mut draft = Draft::new(snapshot);
    let mut drafts: Vec<(Draft<'_>, Vec<Unplaced>)> = Vec::new();
    let mut view = draft.view();
    let mut outcome = pass::look(&view, policy, first, None);
    let safety = outcome.safety.clone();
    let mut rounds = outcome.rounds;
    loop {
        let changed = draft.merge(&view, &outcome);
        drafts.push((draft.clone(), outcome.unplaced.clone()));
        if !changed || drafts.len() == LOOKS_MAX || rounds > ROUNDS_MAX {
            break;
        }
        view = draft.view();
        let scope = if first == Scope::Singly { first } else { Scope::All };
        outcome = pass::look(&view, policy, scope, Some(&safety));
        rounds += outcome.rounds;
    }
    // What the last look made of it may not be reached step by step; then what an earlier one made of it is.
    let mut out_of_reach = None;
    let mut last = Last { view, outcome, unplaced: Vec::new(), rounds };
    loop {
        let (draft, unplaced) = drafts.pop().unwrap_or_else(|| (Draft::new(snapshot), Vec::new()));
        last.unplaced = unplaced;
        let (plan, reached) = steps::assemble(snapshot, policy, &safety, &draft, &last, usize::MAX);
        if !reached && out_of_reach.is_none() {
            out_of_reach = Some((0..draft.removed.len()).filter(|node| draft.removed[*node]).collect());
        }
        if (reached && keeps_shares(snapshot, &plan)) || drafts.is_empty() {
            return Attempt { plan, out_of_reach, safety, draft, last };
        }
    }
}

/// Whether pools have no more spot beyond their shares than before: of a plan's steps each may count on others. Beside
/// spot, nodes that have to go count as if they stayed, for nobody could keep them.
fn keeps_shares(snapshot: &Snapshot, plan: &Plan) -> bool {
    let going: FxHashSet<usize> = plan.disruptions.iter().flat_map(|step| &step.nodes).copied().collect();
    snapshot.pools.iter().filter(|pool| pool.division.spot.is_some()).all(|pool| {
        let mut before = Divided::new(pool);
        let is_of_pool =
            |node: &Node| node.pool.as_ref() == Some(&pool.name) && node.state != NodeState::Deleting;
        let nodes = snapshot.nodes.iter().enumerate().filter(|(_, node)| is_of_pool(node));
        nodes.clone().for_each(|(_, node)| before.come(Portion::of_node(pool, node)));
        let mut after = before.clone();
        let is_loss =
            |node: &Node| Portion::of_node(pool, node).is_spot() || safety::forced_reason(node).is_none();
        let lost = nodes.filter(|(index, node)| going.contains(index) && is_loss(node));
        lost.for_each(|(_, node)| after.go(Portion::of_node(pool, node)));
        let bought = plan.launches.iter().filter(|launch| launch.pool == pool.name);
        bought.for_each(|launch| after.come(Portion::of_launch(pool, launch)));
        after.spot_excess() <= before.spot_excess()
    })
}

/// What else the plan needs to say, from the last look.
struct Last {
    view: View,
    outcome: Outcome,
    unplaced: Vec<Unplaced>,
    rounds: u64,
}

/// The plan for what waits, and for this node alone to go, whether or not that pays; with what speaks against
/// it.
pub(crate) fn plan_without(snapshot: &Snapshot, policy: &Policy, node: usize) -> (Plan, Option<Refusal>) {
    let mut draft = Draft::new(snapshot);
    let view = draft.view();
    let outcome = pass::look(&view, policy, Scope::Only(node), None);
    let refusal = outcome.refusals[node].clone();
    let (safety, rounds) = (outcome.safety.clone(), outcome.rounds);
    draft.merge(&view, &outcome);
    let unplaced = outcome.unplaced.clone();
    let last = Last { view, outcome, unplaced, rounds };
    (steps::assemble(snapshot, policy, &safety, &draft, &last, usize::MAX).0, refusal)
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
