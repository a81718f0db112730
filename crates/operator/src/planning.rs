//! Plans: made, checked, committed to and begun.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use berth_api::resources::berth::VPSieNodeClass;
use berth_api::resources::karpenter::NodeOverlay;
use berth_api::resources::vpsie::{AutoscalerConfig, GlobalSettings};
use berth_api::vpsie::Occasion;
use berth_api::{GroupTemplate, Problem};
use berth_core::catalog::OfferingPattern;
use berth_core::claim::Step;
use berth_core::commitment::Departure;
use berth_core::names::Text;
use berth_core::node::NodeState;
use berth_core::plan::{DisruptionStep, Host, Plan};
use berth_core::pool::Pool;
use berth_core::reason::{Reason, Refusal};
use berth_core::safety::Safety;
use berth_core::snapshot::{Policy, SchedulerPolicy, Snapshot};
use berth_core::units::Price;
use berth_core::{check, disrupt, ideal, provision};
use futures::{StreamExt, stream};
use tokio::time::Instant;

use crate::at_once::AtOnce;
use crate::buy::{Purchase, Refusals, Wish};
use crate::claim::Claim;
use crate::dialect::{PoolId, PoolObject};
use crate::discovery::NodesByMachine;
use crate::journal::DecisionKind;
use crate::leave::{self, Going, Leaver, Moved, Moves, Outlook, Verdict};
use crate::life::{Failure, Task};
use crate::metrics::table;
use crate::operator::{LOOK_SOON, Mode, Operator};
use crate::report::Savings;
use crate::watched::{self, BlindSpot, Buffers, Generations, Illegible};

/// How often it is asked whether nodes could go.
const DISRUPT_EVERY: Duration = Duration::from_secs(10);
/// How often, if nothing has changed.
const DISRUPT_AGAIN: Duration = Duration::from_mins(1);

/// How many leavers are moved on at a time.
const MOVES_AT_ONCE: usize = 16;
/// However slow the API is, a look ends while it counts as progress (`probes`).
const MOVES_BEGIN_WITHIN: Duration = Duration::from_secs(30);

/// What one look saw.
#[derive(Debug, Default)]
pub(crate) struct Round {
    pub(crate) claims: BTreeMap<Text, Arc<Claim>>,
    pub(crate) pools: BTreeMap<Text, Arc<PoolObject>>,
    /// Pools whose names others of these have. They buy nothing, and nothing is taken away from them.
    pub(crate) displaced: Vec<Arc<PoolObject>>,
    /// Objects that cannot be read. What was last read of them may still be among the others.
    pub(crate) illegible_groups: BTreeMap<PoolId, Arc<Illegible>>,
    pub(crate) illegible_configs: BTreeMap<Text, Arc<Illegible>>,
    pub(crate) illegible_claims: BTreeSet<Text>,
    /// VPSieNodeClasses.
    pub(crate) classes: BTreeMap<Text, Arc<VPSieNodeClass>>,
    /// Why some of them cannot be bought from.
    pub(crate) unfit_classes: BTreeMap<Text, Refusal>,
    /// How often the specs of all classes have changed.
    pub(crate) generations: Generations,
    pub(crate) overlays: BTreeMap<Text, Arc<NodeOverlay>>,
    /// Why some of them change nothing.
    pub(crate) overlay_conflicts: BTreeMap<Text, String>,
    /// CapacityBuffers, and the generations of the PodTemplates that there are.
    pub(crate) buffers: Buffers,
    pub(crate) templates: BTreeMap<(Text, Text), i64>,
    pub(crate) nodes: NodesByMachine,
    /// What all ledgers say is leaving, with its pool.
    pub(crate) leaving: BTreeMap<Text, (PoolId, Departure)>,
    /// What holds for VPSie's groups together, by name; the one named `default` counts.
    pub(crate) configs: BTreeMap<Text, Arc<AutoscalerConfig>>,
    pub(crate) snapshot: Arc<Snapshot>,
    /// Everything was seen, and lately.
    pub(crate) sees_all: bool,
    pub(crate) blind_spots: Vec<BlindSpot>,
    pub(crate) problems: Vec<Problem>,
    /// What is legal, and hardly meant that way.
    pub(crate) remarks: Vec<Problem>,
    pub(crate) unavailable: Vec<OfferingPattern>,
    /// What groups are made from, if any are to be.
    pub(crate) new_groups: Option<Result<GroupTemplate, Refusal>>,
    /// The number of changes that led to it.
    pub(crate) changes: u64,
    /// In whose name something may be done; `None` if nothing may.
    pub(crate) epoch: Option<u64>,
}

impl Round {
    /// What the node of a claim costs, or will cost, as far as that is known.
    pub(crate) fn cost_of(&self, claim: &Text) -> Option<Price> {
        let name = self.claims.get(claim).and_then(|claim| claim.node()).unwrap_or(claim);
        let nodes = &self.snapshot.nodes;
        let found = nodes.binary_search_by(|node| (*node.name).cmp(name)).ok()?;
        self.snapshot.cost_of(nodes.get(found)?)
    }
}

/// The last plan for pods without a place, and what it was made from.
#[derive(Debug)]
pub(crate) struct Purchases {
    changes: u64,
    policy: Policy,
    plan: Arc<Plan>,
}

/// What planning came to.
#[derive(Debug, Default)]
pub(crate) struct Planned {
    /// The plan for pods that wait, if any does.
    pub(crate) waiting: Option<Arc<Plan>>,
    /// Something is under way.
    pub(crate) is_busy: bool,
}

/// What is bought for a step.
fn replacing<'p>(step: &'p DisruptionStep, plan: &'p Plan) -> impl Iterator<Item = Wish> {
    step.replacements.iter().map(|index| Wish {
        launch: *index,
        occasion: Occasion::Replacement,
        price_end: plan.launches.get(*index).and_then(|launch| step.price_end(launch)),
    })
}

impl Operator {
    pub(crate) async fn plan_and_begin(&mut self, round: &Round) -> Planned {
        let policy = self.policy(round);
        let mut moves = Moves::Nothing;
        if let Some(epoch) = round.epoch {
            moves = self.move_leavers(round, &policy, epoch).await;
            self.end_orphans(round).await;
        }
        let waiting = round.has_homeless().then(|| self.purchases(round, &policy));
        *self.office.held_back() = self.turns.look(round, waiting.as_deref());
        let mut groups =
            waiting.as_ref().map(|plan| self.foundings.wanted(round, &policy, plan)).unwrap_or_default();
        let removals = self.removals(round, &policy);
        let buys = waiting.as_deref().filter(|plan| !plan.launches.is_empty());
        let takes = removals.as_ref().filter(|plan| plan.changes_something());
        match (round.epoch, buys.or(takes)) {
            // What is seen still has nodes closed that are open again: nothing is bought for their pods.
            _ if moves == Moves::Back => {}
            (Some(epoch), Some(plan)) => {
                let has_begun = self.carry_out(round, &policy, plan, epoch).await;
                // Pods that nothing can be bought for keep no node that can go.
                if let Some(plan) = takes.filter(|_| buys.is_some() && !has_begun) {
                    self.carry_out(round, &policy, plan, epoch).await;
                }
            }
            (None, Some(plan)) if self.settings.mode == Mode::Shadow => self.foretell(round, plan),
            _ => {}
        }
        match round.epoch {
            Some(_) if round.sees_all && moves != Moves::Back => groups = self.found(round, groups).await,
            None if self.settings.mode == Mode::Shadow => self.foretell_groups(round, &groups),
            _ => {}
        }
        if let (Some(plan), Some(_)) = (&removals, round.epoch) {
            self.tell_checks(round, plan).await;
        }
        let mut are_untold = false;
        if let (Some(plan), Some(_)) = (&waiting, round.epoch) {
            self.office.nominate(round, plan).await;
            // In a burst there are many looks in a second, and nobody reads as fast. Who came with it is told with the next.
            are_untold = self.explained.is_some_and(|at| at.elapsed() < LOOK_SOON);
            if !are_untold {
                self.explained = Some(Instant::now());
                are_untold = self.office.explain(round, plan, &groups).await;
                self.office.tell_limits(round, plan).await;
            }
        }
        Planned { is_busy: moves != Moves::Nothing || are_untold, waiting }
    }

    /// The plan for pods without a place: the last one, if nothing has changed that it was made from.
    fn purchases(&mut self, round: &Round, policy: &Policy) -> Arc<Plan> {
        // What rests may have rested enough by now.
        let rests = |pool: &Pool| matches!(&pool.blocked, Some(why) if why.reason == Reason::PoolResting);
        let is_lasting =
            !round.snapshot.pools.iter().any(rests) && !round.snapshot.pods.iter().any(|pod| pod.is_fresh);
        let is_same = |last: &Purchases| last.changes == round.changes && last.policy == *policy;
        let last = self.purchased.take().filter(is_same);
        let plan = if let Some(last) = last {
            last.plan
        } else {
            let metrics = &self.office.metrics;
            let began = metrics.begin_plan();
            let plan = provision::plan(&round.snapshot, policy);
            metrics.took(table::SCHEDULING, [], began.elapsed());
            metrics.end_plan("provision", began);
            Arc::new(plan)
        };
        let purchases = Purchases { changes: round.changes, policy: policy.clone(), plan: plan.clone() };
        self.purchased = Some(purchases).filter(|_| is_lasting);
        plan
    }

    /// The plan that also takes nodes away, if it is time for one and all is seen that it depends on.
    fn removals(&mut self, round: &Round, policy: &Policy) -> Option<Plan> {
        let is_due = self.asked.is_none_or(|(last, changes)| {
            let every = if changes == round.changes { DISRUPT_AGAIN } else { DISRUPT_EVERY };
            last.elapsed() >= every
        });
        if !round.sees_all || !is_due {
            return None;
        }
        self.asked = Some((Instant::now(), round.changes));
        let began = self.office.metrics.begin_plan();
        let policy = &Policy { scheduler: SchedulerPolicy::Heeded, ..policy.clone() };
        let plan = disrupt::plan(&round.snapshot, policy);
        let metrics = &self.office.metrics;
        metrics.took(table::EVALUATION, [], began.elapsed());
        metrics.end_plan("disrupt", began);
        metrics.set(table::PLAN_GAP, [], f64::from(plan.gap_basis_points()) / 10_000.0);
        let lower_bound = ideal::lower_bound(&round.snapshot, policy, plan.cost_after);
        self.course.add(self.office.now(), (&round.snapshot, &plan), lower_bound);
        self.course.savings = round.savings(&plan);
        let judged = Safety::judge(&round.snapshot);
        self.office.tell_eligible(&judged);
        // Every replica plans, and only one decides.
        if round.epoch.is_some() || self.settings.mode == Mode::Shadow {
            self.office.counts_weighed(&round.snapshot, &judged, &plan);
        }
        Some(plan)
    }

    /// Moves on what is committed to go.
    async fn move_leavers(&mut self, round: &Round, policy: &Policy, epoch: u64) -> Moves {
        let leavers = leave::leavers(round, self.office.now());
        let strays = leave::strays(round);
        if leavers.is_empty() && strays.is_empty() {
            return Moves::Nothing;
        }
        if !round.sees_all {
            return Moves::On;
        }
        let mut moves = if leavers.is_empty() { Moves::Nothing } else { Moves::On };
        for (claim, node) in &strays {
            match self.office.take_back(claim, node).await {
                Ok(true) => moves = Moves::Back,
                // It has changed since it was seen, and may be open.
                Err(failure) if failure.is_conflict() => moves = Moves::Back,
                // What is not taken back now is found again, and holds up nothing else.
                Ok(false) | Err(_) => {}
            }
        }
        let closed = leave::closed(&leavers);
        let cleared = leave::cleared(&round.snapshot, policy, &closed);
        let protected = leave::protected(&round.snapshot, &closed);
        let kept_by_budgets = leave::kept_by_budgets(&round.snapshot, &closed);
        let committed = round.committed();
        let outlook = Outlook {
            claims: &round.claims,
            committed: &committed,
            now_secs: self.office.now().as_second(),
            cleared: &cleared,
            protected: &protected,
            kept_by_budgets: &kept_by_budgets,
        };
        let (mut staying, mut going) = (Vec::new(), Vec::new());
        for leaver in &leavers {
            let verdict = leave::judge(leaver, &outlook);
            if matches!(verdict, Verdict::Undo(_) | Verdict::Abandon(_) | Verdict::GiveUp(_)) {
                // Whoever still asks its pods to leave ends that first.
                if !self.lives.is_under_way(&leaver.claim.name) {
                    staying.push((leaver, verdict));
                }
                continue;
            }
            if verdict == Verdict::Drain {
                let task = Task {
                    claim: leaver.claim.clone(),
                    node: leaver.node.clone(),
                    step: Step::Drain,
                    grace_secs: leaver.claim.grace_secs,
                    has_volumes: false,
                };
                self.lives.begin(&self.office, leaver.claim.name.clone(), task);
            }
            going.push((leaver, verdict));
        }
        // Those that stay are written into the same ledgers, and would only be in each other's way.
        for (verdicts, at_once) in [(going, MOVES_AT_ONCE), (staying, 1)] {
            for (leaver, moved) in self.move_each(&verdicts, at_once, epoch).await {
                match moved {
                    Ok(Moved::Gone) => {
                        self.office.counts_unhealthy(&round.snapshot, leaver);
                        self.office.counts_replaced(round, leaver, true);
                    }
                    Ok(Moved::Back) => {
                        moves = Moves::Back;
                        self.office.counts_replaced(round, leaver, false);
                    }
                    // What did not work is tried again.
                    Ok(Moved::On) | Err(_) => {}
                }
            }
        }
        moves
    }

    /// Moves on as many as there is time for. The others are found again with the next look.
    async fn move_each<'l>(
        &self,
        verdicts: &[(&'l Leaver, Verdict)],
        at_once: usize,
        epoch: u64,
    ) -> Vec<(&'l Leaver, Result<Moved, Failure>)> {
        let began = Instant::now();
        let in_time = verdicts.iter().take_while(|_| began.elapsed() < MOVES_BEGIN_WITHIN);
        let moved = stream::iter(in_time)
            .map(async |(leaver, verdict)| (*leaver, self.office.move_on(leaver, verdict, epoch).await));
        moved.buffered(at_once).collect().await
    }

    /// Buys what the plan buys, and commits to what it takes away; whether any of it has begun. A plan that breaks a
    /// rule is not carried out.
    async fn carry_out(&self, round: &Round, policy: &Policy, plan: &Plan, epoch: u64) -> bool {
        let violations = check::check(&round.snapshot, policy, plan);
        if let Some(violation) = violations.first() {
            let message = format!("a plan was made that breaks a rule, and was not carried out: {violation}");
            self.office.decided(DecisionKind::Failure, ("PlanInvalid", message), Vec::new(), None);
            return false;
        }
        let bought = self.buy_all(round, plan, epoch).await;
        let has_begun = round.sees_all && self.begin_steps(round, plan, &bought, epoch).await;
        has_begun || !bought.is_empty()
    }

    /// Buys for pods that wait. The claims that are made.
    async fn buy_all(&self, round: &Round, plan: &Plan, epoch: u64) -> BTreeSet<Text> {
        let wanted = round.launches_for_now(&plan.launches, leave::unconditional(plan));
        let used: BTreeSet<Host> = plan.binds.iter().map(|bind| bind.host).collect();
        let is_used = |launch: usize| used.contains(&Host::Launch(launch));
        let occasion = |launch: usize| if is_used(launch) { Occasion::Pods } else { Occasion::Minimum };
        let wish = |launch| Wish { launch, occasion: occasion(launch), price_end: None };
        let wanted: Vec<_> = wanted.into_iter().map(wish).collect();
        let Purchase { bought, refused } =
            self.office.buy(round, &BTreeSet::new(), (&plan.launches, &wanted), epoch).await;
        self.refused(round, &refused).await;
        let launches = bought.iter().filter_map(|bought| plan.launches.get(bought.launch));
        self.office.counts_growth(round, launches.map(|launch| &launch.pool), "unschedulable_pods");
        for bought in &bought {
            let Some(launch) = plan.launches.get(bought.launch) else { continue };
            self.office.counts_claim(launch, "provisioned");
            let message = format!("{} is bought: {}", bought.claim, launch.words());
            let objects = vec![bought.claim.to_string()];
            self.office.decided(DecisionKind::Launch, ("Provisioned", message), objects, None);
        }
        bought.into_iter().map(|bought| bought.claim).collect()
    }

    /// Begins all steps of the plan: what they buy is bought, and their nodes are committed to go. Whether any has
    /// begun. No step needs what another has done: room on nodes that stay only shrinks, and limits and budgets hold
    /// for all steps together.
    async fn begin_steps(
        &self,
        round: &Round,
        plan: &Plan,
        bought_before: &BTreeSet<Text>,
        epoch: u64,
    ) -> bool {
        let AtOnce { steps, too_large } = round.steps_for_now(&plan.disruptions);
        for (step, Refusal { reason, message }) in too_large {
            let nodes = step.nodes.iter().filter_map(|node| round.snapshot.nodes.get(*node));
            let nodes = nodes.map(|node| node.name.to_string()).collect();
            self.office.decided(DecisionKind::Refusal, (reason.name(), message), nodes, None);
        }
        let claimed: BTreeSet<&str> = round.claims.values().filter_map(|claim| claim.node()).collect();
        let is_claimed =
            |node: &usize| round.snapshot.nodes.get(*node).is_some_and(|node| claimed.contains(&*node.name));
        // For a node that cannot be committed to go nothing is bought.
        let steps: Vec<&DisruptionStep> =
            steps.into_iter().filter(|step| step.nodes.iter().all(is_claimed)).collect();
        let mut made = bought_before.clone();
        let mut claim_of: BTreeMap<usize, Text> = BTreeMap::new();
        let mut open: Vec<Wish> = steps.iter().flat_map(|step| replacing(step, plan)).collect();
        while !open.is_empty() {
            let Purchase { bought, refused } =
                self.office.buy(round, &made, (&plan.launches, &open), epoch).await;
            self.refused(round, &refused).await;
            if bought.is_empty() {
                break;
            }
            let launches = bought.iter().filter_map(|bought| plan.launches.get(bought.launch));
            self.office.counts_growth(round, launches.map(|launch| &launch.pool), "replacement");
            made.extend(bought.iter().map(|bought| bought.claim.clone()));
            claim_of.extend(bought.into_iter().map(|bought| (bought.launch, bought.claim)));
            open.retain(|wish| !claim_of.contains_key(&wish.launch));
        }
        let mut ready = Vec::new();
        for step in steps {
            let claims = step.replacements.iter().map(|launch| claim_of.get(launch).cloned());
            let Some(replacements) = claims.collect::<Option<Vec<Text>>>() else { continue };
            for launch in step.replacements.iter().filter_map(|launch| plan.launches.get(*launch)) {
                self.office.counts_claim(launch, step.reason.name());
            }
            ready.push(Going { step, replacements });
        }
        let departed = self.office.depart(round, &ready, epoch).await;
        self.refused(round, &departed.refused).await;
        for (going, claims) in ready.iter().zip(departed.claims).filter(|(_, claims)| !claims.is_empty()) {
            self.office.departing(round, going.step, claims);
            self.office.counts_departure(round, going.step);
        }
        !claim_of.is_empty() || !ready.is_empty()
    }

    async fn refused(&self, round: &Round, refusals: &Refusals) {
        self.office.tell_refusals(round, refusals).await;
        for (pool, why) in refusals {
            let message = format!("nothing was committed in pool {pool}: {why}");
            let objects = vec![pool.to_string()];
            self.office.decided(DecisionKind::Refusal, ("NotCommitted", message), objects, None);
        }
    }

    /// Says what would be done, unless that was said last.
    fn foretell(&mut self, round: &Round, plan: &Plan) {
        if self.foretold.as_ref() == Some(plan) {
            return;
        }
        for launch in &plan.launches {
            let message = format!("would buy {}", launch.words());
            let objects = vec![launch.pool.to_string()];
            self.office.decided(DecisionKind::Launch, ("Provisioned", message), objects, None);
        }
        for step in &plan.disruptions {
            let names = step.nodes.iter().filter_map(|node| round.snapshot.nodes.get(*node));
            self.office.departing(round, step, names.map(|node| node.name.to_string()).collect());
        }
        self.foretold = Some(plan.clone());
    }
}

impl Round {
    /// Whether it is this pool that its name stands for.
    pub(crate) fn counts(&self, pool: &PoolId) -> bool {
        self.pools.get(&pool.name).is_some_and(|known| known.id() == *pool)
    }

    /// Whether pods wait, or run on nodes that are going.
    fn has_homeless(&self) -> bool {
        self.snapshot.pods.iter().any(|pod| pod.node.is_none() && !pod.deleting && pod.is_active())
            || self.snapshot.nodes.iter().any(|node| node.state == NodeState::Deleting)
            || self.snapshot.pools.iter().any(|pool| pool.nodes_min > 0 || pool.replicas.is_some())
    }

    pub(crate) fn leaving_of<'p>(
        pools: impl Iterator<Item = &'p PoolObject>,
    ) -> BTreeMap<Text, (PoolId, Departure)> {
        let mut leaving = BTreeMap::new();
        for pool in pools {
            // A ledger that cannot be read lets nobody leave.
            let Ok(record) = pool.ledger() else { continue };
            let id = pool.id();
            let departures = record.leaving.into_iter();
            leaving.extend(departures.map(|(claim, departure)| (claim, (id.clone(), departure))));
        }
        leaving
    }

    /// What each pool's nodes would save that the plan takes away, or replaces.
    fn savings(&self, plan: &Plan) -> BTreeMap<Text, Savings> {
        let mut savings: BTreeMap<Text, Savings> = BTreeMap::new();
        for step in plan.disruptions.iter().filter(|step| step.saves > Price::ZERO) {
            let mut nodes = step.nodes.iter().filter_map(|node| self.snapshot.nodes.get(*node));
            let Some(pool) = nodes.find_map(|node| node.pool.clone()) else { continue };
            let of_pool = savings.entry(pool).or_default();
            let of_kind =
                if step.replacements.is_empty() { &mut of_pool.removal } else { &mut of_pool.replacement };
            *of_kind = of_kind.plus(step.saves);
        }
        savings
    }

    /// What holds for VPSie's groups together, or would by default.
    pub(crate) fn settings(&self) -> GlobalSettings {
        watched::settings(&self.configs).cloned().unwrap_or_default()
    }

    /// Whether there is a node of this name that a claim has become.
    pub(crate) fn is_registered(&self, node: &str) -> bool {
        let is_it = |claim: &Arc<Claim>| *claim.node_name == *node && !self.nodes.of(claim).is_empty();
        self.claims.values().any(is_it)
    }

    /// All claims that may exist, by their ledgers.
    fn committed(&self) -> BTreeSet<Text> {
        let records = self.pools.values().filter_map(|pool| pool.ledger().ok());
        records.flat_map(|record| record.claims.into_keys()).collect()
    }
}
