//! Nodes that are taken away to save money or to be replaced: step by step, and back if reality has changed.
//!
//! What is under way stands in the pools' ledgers. A node is first committed to go and closed to pods, then looked at
//! again; only when all that was bought for it is up, and its pods still have a place, is its claim deleted. Where the
//! dialect wants that, its pods leave before, and if they cannot it stays.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_api::Timestamp;
use berth_api::resources::shared::ConditionStatus;
use berth_core::claim::{DrainCourse, DrainFailure, drain_course};
use berth_core::commitment::Departure;
use berth_core::disruption::{DisruptionReason, Leaving, Protection};
use berth_core::names::Text;
use berth_core::node::{Node, NodeState};
use berth_core::plan::{DisruptionStep, Host, Plan};
use berth_core::provision;
use berth_core::reason::Reason;
use berth_core::safety::{self, Fleet, NodeSafety, Safety};
use berth_core::snapshot::{Policy, Snapshot};

use crate::buy::{NotCommitted, Refusals};
use crate::claim::Claim;
use crate::conditions::Conditions;
use crate::dialect::{Dialect, News, PoolId};
use crate::discovery::node_of;
use crate::drain;
use crate::journal::{DecisionKind, Severity};
use crate::life::Failure;
use crate::objects::{NodeObject, PodObject};
use crate::office::Office;
use crate::planning::Round;
use crate::planted::PlantedBug;
use crate::tally::Direction;
use crate::tenants;

/// What is bought for a departure has to be up after so long.
const REPLACED_SECS_MAX: i64 = 1200;

/// A node that is committed to go.
#[derive(Clone, Debug)]
pub(crate) struct Leaver {
    pub(crate) pool: PoolId,
    pub(crate) claim: Arc<Claim>,
    pub(crate) node: Option<Arc<NodeObject>>,
    pub(crate) departure: Departure,
    /// How many leave for the same replacements, itself among them.
    pub(crate) together: usize,
    /// How far its pods have left it, where they have to before its claim goes.
    pub(crate) drain: Option<DrainCourse>,
}

/// What is to become of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Close,
    Wait,
    BeginDrain,
    Drain,
    Go,
    /// It stays after all.
    Undo(String),
    /// It stays, because what was bought for it is not there.
    Abandon(String),
    /// It stays, because its pods do not leave.
    GiveUp(DrainFailure),
}

/// A step of a plan that can begin.
#[derive(Clone, Debug)]
pub(crate) struct Going<'p> {
    pub(crate) step: &'p DisruptionStep,
    /// The claims that were made for it.
    pub(crate) replacements: Vec<Text>,
}

/// The claims that go, by the steps that they are of.
type ByStep = BTreeMap<usize, BTreeMap<Text, Departure>>;

/// What was committed to go.
#[derive(Debug)]
pub(crate) struct Departed {
    /// The names of claims, for each step.
    pub(crate) claims: Vec<Vec<String>>,
    pub(crate) refused: Refusals,
}

/// What became of those that leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moves {
    Nothing,
    /// They are on their way.
    On,
    /// At least one stays after all.
    Back,
}

/// What became of one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    /// It is on its way.
    On,
    /// Its claim is deleted.
    Gone,
    /// It stays after all, and is no longer leaving.
    Back,
}

/// What is known when leavers are judged.
pub(crate) struct Outlook<'a> {
    pub(crate) claims: &'a BTreeMap<Text, Arc<Claim>>,
    /// All claims that may exist, also those that are not seen yet.
    pub(crate) committed: &'a BTreeSet<Text>,
    pub(crate) now_secs: i64,
    /// Names of nodes whose pods have a place on nodes that are there or coming.
    pub(crate) cleared: &'a BTreeMap<Text, Result<(), String>>,
    /// Names of nodes that somebody has said must stay.
    pub(crate) protected: &'a BTreeSet<Text>,
    /// Names of nodes whose pods may not be evicted now, by their PodDisruptionBudgets.
    pub(crate) kept_by_budgets: &'a BTreeMap<Text, String>,
}

/// The claims that the ledgers say are leaving, and that are not deleted yet.
pub(crate) fn leavers(round: &Round, now: Timestamp) -> Vec<Leaver> {
    let Round { leaving, claims, .. } = round;
    let known = leaving.iter().filter_map(|(name, (pool, departure))| {
        let another = || claims.iter().rev().find(|(other, _)| !leaving.contains_key(*other));
        let is_any = PlantedBug::DeleteByCount.is_planted();
        let claim = if is_any { another().map(|(_, claim)| claim) } else { claims.get(name) }?;
        let node = node_of(claim, &round.nodes).cloned();
        let is_drained_first = claim.dialect == Dialect::Vpsie && !safety::is_forced(departure.reason);
        let course = |node: &Arc<NodeObject>| {
            let group = round.pools.get(&pool.name).map(|pool| &**pool);
            let limits = drain::limits(claim, node, group, &round.settings());
            drain_course(drain::sight(claim, node, now), limits)
        };
        (!claim.is_deleting()).then(|| Leaver {
            pool: pool.clone(),
            claim: claim.clone(),
            drain: node.as_ref().filter(|_| is_drained_first).map(course),
            node,
            departure: departure.clone(),
            together: together(leaving, departure),
        })
    });
    known.collect()
}

/// How many leave for what was bought for this one.
fn together(leaving: &BTreeMap<Text, (PoolId, Departure)>, departure: &Departure) -> usize {
    if departure.replacements.is_empty() {
        return 1;
    }
    leaving.values().filter(|(_, other)| other.replacements == departure.replacements).count()
}

/// Those of these nodes that somebody protects.
pub(crate) fn protected(snapshot: &Snapshot, nodes: &BTreeSet<Text>) -> BTreeSet<Text> {
    let is_it = |node: &&Node| nodes.contains(&node.name) && node.disruption.protection != Protection::None;
    snapshot.nodes.iter().filter(is_it).map(|node| node.name.clone()).collect()
}

/// The names of the nodes of leavers that take no pods any more.
pub(crate) fn closed(leavers: &[Leaver]) -> BTreeSet<Text> {
    let nodes = leavers.iter().filter_map(|leaver| leaver.node.as_ref());
    nodes.filter(|node| node.is_closed()).map(|node| Text::from(node.metadata.name.as_str())).collect()
}

/// Nodes that take no pods because they were to go, and that no ledger says are going: their claims.
pub(crate) fn strays(round: &Round) -> Vec<(Arc<Claim>, Arc<NodeObject>)> {
    let is_stray = |claim: &&Arc<Claim>| !claim.is_deleting() && !round.leaving.contains_key(&claim.name);
    let claims = round.claims.values().filter(is_stray);
    claims
        .filter_map(|claim| node_of(claim, &round.nodes).map(|node| (claim.clone(), node.clone())))
        .filter(|(_, node)| node.is_closed())
        .collect()
}

/// Their pods are at home for as long as nobody can open them: a node that takes no pods keeps those that it has, and nothing
/// is bought for them.
pub(crate) fn keep_strays(snapshot: &mut Snapshot, strays: &[(Arc<Claim>, Arc<NodeObject>)]) {
    for (_, object) in strays.iter().filter(|(_, object)| !object.is_deleting()) {
        let node = snapshot.nodes.iter_mut().find(|node| *node.name == *object.metadata.name);
        if let Some(node) = node.filter(|node| node.state == NodeState::Deleting) {
            node.state = NodeState::Running;
        }
    }
}

pub(crate) fn judge(leaver: &Leaver, outlook: &Outlook<'_>) -> Verdict {
    let Some(node) = &leaver.node else { return Verdict::Wait };
    if leaver.claim.is_unidentified() {
        return Verdict::Undo("which machine it runs on is not known".to_owned());
    }
    if !node.is_closed() && !PlantedBug::DecideBeforeTaint.is_planted() {
        return Verdict::Close;
    }
    let replacements = &leaver.departure.replacements;
    let is_lost = |name: &&Text| match outlook.claims.get(*name) {
        Some(claim) => claim.is_deleting(),
        None => !outlook.committed.contains(*name),
    };
    if let Some(lost) = replacements.iter().find(is_lost) {
        return Verdict::Abandon(format!("{lost}, which was bought for it, is gone"));
    }
    if !replacements.iter().all(|name| outlook.claims.contains_key(name)) {
        return Verdict::Wait;
    }
    if let Some(Err(why)) = outlook.cleared.get(&*node.metadata.name) {
        return Verdict::Undo(why.clone());
    }
    let reason = leaver.departure.reason;
    if safety::can_wait(reason) && outlook.protected.contains(&*node.metadata.name) {
        return Verdict::Undo("the node is protected by now".to_owned());
    }
    // While pods leave the node, their budgets are spent on them.
    let begins = matches!(leaver.drain, None | Some(DrainCourse::Begin));
    let heeds_pods = !safety::overrides_pods(reason, leaver.claim.grace_secs.is_some())
        && !PlantedBug::DeleteByCount.is_planted();
    let kept = outlook.kept_by_budgets.get(&*node.metadata.name).filter(|_| begins && heeds_pods);
    let is_up = |name: &Text| outlook.claims.get(name).is_some_and(|claim| claim.holds("Initialized"));
    let waits_for = match kept {
        _ if !replacements.iter().all(is_up) => "what was bought for it did not come up in time",
        // A budget that is spent now may be whole in a moment, and what was bought would be given back.
        Some(why) if replacements.is_empty() => return Verdict::Undo(why.clone()),
        Some(why) => why,
        None => {
            return match leaver.drain {
                None | Some(DrainCourse::Done) => Verdict::Go,
                Some(DrainCourse::Begin) => Verdict::BeginDrain,
                Some(DrainCourse::GoOn) => Verdict::Drain,
                Some(DrainCourse::GiveUp(failure)) => Verdict::GiveUp(failure),
            };
        }
    };
    if outlook.now_secs.saturating_sub(leaver.departure.since_secs) > REPLACED_SECS_MAX {
        Verdict::Abandon(waits_for.to_owned())
    } else {
        Verdict::Wait
    }
}

/// Those of these nodes whose pods may not all be evicted now, and why.
pub(crate) fn kept_by_budgets(snapshot: &Snapshot, nodes: &BTreeSet<Text>) -> BTreeMap<Text, String> {
    if nodes.is_empty() || snapshot.pod_budgets.is_empty() {
        return BTreeMap::new();
    }
    let judged = snapshot.nodes.iter().zip(Safety::judge(snapshot).nodes);
    let of_these = judged.filter(|(node, _)| nodes.contains(&node.name));
    let refusal = |judged: &NodeSafety| {
        let mut refusals = judged.refusals();
        refusals.find(|refusal| refusal.reason == Reason::PodDisruptionBudget).cloned()
    };
    of_these.filter_map(|(node, judged)| Some((node.name.clone(), refusal(&judged)?.message))).collect()
}

/// For each node that is closed: whether the pods on it have a place elsewhere, as things are now.
pub(crate) fn cleared(
    snapshot: &Snapshot,
    policy: &Policy,
    nodes: &BTreeSet<Text>,
) -> BTreeMap<Text, Result<(), String>> {
    if nodes.is_empty() {
        return BTreeMap::new();
    }
    let plan = provision::plan(snapshot, policy);
    let mut homeless: BTreeMap<&Text, String> = BTreeMap::new();
    for unplaced in &plan.unplaced {
        let pod = &snapshot.pods[unplaced.pod];
        if let Some(node) = &pod.node {
            homeless.insert(node, format!("{}/{} has no place elsewhere any more", pod.namespace, pod.name));
        }
    }
    for bind in &plan.binds {
        let pod = &snapshot.pods[bind.pod];
        if let (Some(node), Host::Launch(_)) = (&pod.node, bind.host) {
            let why = format!("{}/{} would need yet another node", pod.namespace, pod.name);
            homeless.entry(node).or_insert(why);
        }
    }
    let judged = nodes.iter().map(|node| (node.clone(), homeless.remove(node).map_or(Ok(()), Err)));
    judged.collect()
}

impl Office {
    /// Commits to steps of the plan whose replacements have been bought: their nodes are closed with the next look.
    pub(crate) async fn depart(&self, round: &Round, steps: &[Going<'_>], epoch: u64) -> Departed {
        let snapshot = &round.snapshot;
        let by_node: BTreeMap<&str, &Arc<Claim>> =
            round.claims.values().filter_map(|claim| Some((claim.node()?, claim))).collect();
        let now_secs = self.now().as_second();
        let mut by_pool: BTreeMap<PoolId, ByStep> = BTreeMap::new();
        for (index, Going { step, replacements }) in steps.iter().enumerate() {
            for node in step.nodes.iter().filter_map(|index| snapshot.nodes.get(*index)) {
                let Some(claim) = by_node.get(&*node.name) else { continue };
                let Some(pool) = claim.pool_id() else { continue };
                let reason = own_reason(step, node);
                let departure =
                    Departure { reason, replacements: replacements.clone(), since_secs: now_secs };
                let of_pool = by_pool.entry(pool).or_default().entry(index).or_default();
                of_pool.insert(claim.name.clone(), departure);
            }
        }
        let mut departed = Departed { claims: vec![Vec::new(); steps.len()], refused: Refusals::new() };
        for (pool, by_step) in by_pool {
            if PlantedBug::QueueInMemory.is_planted() {
                for (name, departure) in by_step.values().flatten() {
                    let Some(claim) = round.claims.get(name) else { continue };
                    let _ = self.delete_claim(claim, departure.reason.name()).await;
                }
                continue;
            }
            let is_leaving = |node: &Node| {
                let claim = by_node.get(&*node.name);
                claim.is_some_and(|claim| round.leaving.contains_key(&claim.name))
            };
            let allowed = |index: usize| allowed(snapshot, &pool.name, steps[index].step, is_leaving);
            let committed =
                self.commit_departures(round, (&pool, &by_step), allowed, (epoch, now_secs)).await;
            match committed {
                Ok(committed) => {
                    let nodes = committed.iter().map(|index| by_step[index].len()).sum();
                    self.scaled(round, &pool, Direction::Down, nodes).await;
                    for index in committed {
                        let names = by_step[&index].keys().map(ToString::to_string);
                        departed.claims[index].extend(names);
                    }
                }
                Err(why) => drop(departed.refused.insert(pool.name.clone(), why)),
            }
        }
        departed
    }

    /// Writes departures, by step, into a pool's ledger. Those steps that the pool's budgets let go by now.
    async fn commit_departures(
        &self,
        round: &Round,
        (pool, by_step): (&PoolId, &ByStep),
        allowed: impl Fn(usize) -> u32,
        now: (u64, i64),
    ) -> Result<Vec<usize>, NotCommitted> {
        let account = self.account(pool).await?;
        if let Some(seen) = round.pools.get(&pool.name) {
            account.check_seen(seen)?;
        }
        let unseen = account.record.leaving.keys().find(|claim| !round.leaving.contains_key(*claim));
        if let Some(unseen) = unseen {
            return Err(NotCommitted::Behind { claim: unseen.clone() });
        }
        let mut record = account.record.clone();
        let mut committed = Vec::new();
        let mut objection = None;
        for (index, departures) in by_step {
            match record.with_departures(departures, allowed(*index), &account.living, now) {
                Ok(next) => {
                    record = next;
                    committed.push(*index);
                }
                Err(why) => objection = Some(why),
            }
        }
        match objection {
            Some(why) if committed.is_empty() => Err(why.into()),
            _ => {
                self.commit(&account, &record).await?;
                Ok(committed)
            }
        }
    }

    /// Moves a leaver on as judged.
    pub(crate) async fn move_on(
        &self,
        leaver: &Leaver,
        verdict: &Verdict,
        epoch: u64,
    ) -> Result<Moved, Failure> {
        let Leaver { claim, node: Some(node), departure, .. } = leaver else { return Ok(Moved::On) };
        let reason = departure.reason.name();
        match verdict {
            // A drain takes its time, and is done on the side.
            Verdict::Wait | Verdict::Drain => self.tell_departure(claim, reason).await?,
            Verdict::Close => {
                self.close(claim, node).await?;
                self.tell_departure(claim, reason).await?;
            }
            Verdict::BeginDrain | Verdict::Go => {
                if !self.still_leaves(claim, epoch).await? {
                    return Ok(Moved::On);
                }
                // The truth, after the taint: what came to the node before it counts.
                let pods = tenants::on_node(&self.desk, &node.metadata.name).await?;
                let now = self.now();
                let protected = pods.iter().find(|pod| tenants::is_protected(pod, now));
                let is_overridden = safety::overrides_pods(departure.reason, claim.grace_secs.is_some());
                if let Some(pod) = protected.filter(|_| !is_overridden) {
                    let why =
                        format!("{}/{} must not be disrupted", pod.metadata.namespace, pod.metadata.name);
                    return self.refute(leaver, node, (None, &why), epoch).await;
                }
                let is_checked = claim.dialect == Dialect::Vpsie
                    && !safety::is_forced(departure.reason)
                    && !PlantedBug::ChecksSkipped.is_planted();
                let keeps = |pod: &PodObject| {
                    let by_checks = is_checked.then(|| tenants::keeps_node(pod)).flatten();
                    by_checks.or_else(|| tenants::keeps_any_node(pod, departure.reason))
                };
                let mut kept = pods.iter().find_map(|pod| Some((pod, keeps(pod)?)));
                for pod in pods.iter().filter(|_| is_checked) {
                    if kept.is_none() {
                        kept = tenants::claims_keep_node(&self.desk, pod).await?.map(|how| (pod, how));
                    }
                }
                let is_heeded = !is_overridden && !PlantedBug::DeleteByCount.is_planted();
                if let Some((pod, how)) = kept.filter(|_| is_heeded) {
                    let why = format!("{}/{} {how}", pod.metadata.namespace, pod.metadata.name);
                    return self.refute(leaver, node, (None, &why), epoch).await;
                }
                self.tell_departure(claim, reason).await?;
                if *verdict == Verdict::BeginDrain {
                    self.begin_drain(claim, node).await?;
                    return Ok(Moved::On);
                }
                let message = format!("the node is taken away: {reason}");
                let said = (Severity::Normal, "DisruptionTerminating", &*message);
                self.say_of_node(claim, Some(node), said).await;
                self.delete_claim(claim, reason).await?;
                return Ok(Moved::Gone);
            }
            Verdict::Undo(why) => return self.refute(leaver, node, (None, why), epoch).await,
            Verdict::Abandon(why) => {
                let moved = self.stay(leaver, node, (None, why), epoch).await?;
                if moved == Moved::Back {
                    self.counts_abandoned(leaver);
                }
                return Ok(moved);
            }
            Verdict::GiveUp(failure) => {
                let why = drain::words(*failure, claim, node);
                return self.refute(leaver, node, (Some(*failure), &why), epoch).await;
            }
        }
        Ok(Moved::On)
    }

    /// Has a claim say why it goes. From that follows how long its pods have once it is deleted; so it is said again for as
    /// long as it goes, should it have been lost.
    async fn tell_departure(&self, claim: &Claim, reason: &str) -> Result<(), Failure> {
        let mut conditions = Conditions::of(&claim.conditions, self.now());
        conditions.set("DisruptionReason", ConditionStatus::True, reason, "");
        self.write_conditions(claim, &conditions, &News::default()).await?;
        Ok(())
    }

    /// Whether the ledger still says that it goes, and nobody leads who came later: who saw it long ago may be late.
    pub(crate) async fn still_leaves(&self, claim: &Claim, epoch: u64) -> Result<bool, Failure> {
        if PlantedBug::DeleteByCount.is_planted() {
            return Ok(true);
        }
        let Some(pool) = claim.pool_id() else { return Ok(false) };
        match self.committed_by(&pool).await {
            Ok(record) => Ok(record.epoch <= epoch && record.leaving.contains_key(&claim.name)),
            Err(NotCommitted::Cluster(refused)) => Err(refused.into()),
            Err(_) => Ok(false),
        }
    }

    /// Lets pods come again to a node that was to go, if by now no ledger says so. Whether they may: of a ledger that
    /// cannot be read nobody knows what it says.
    pub(crate) async fn take_back(&self, claim: &Claim, node: &NodeObject) -> Result<bool, Failure> {
        let Some(pool) = claim.pool_id() else { return Ok(false) };
        match self.committed_by(&pool).await {
            Ok(record) if !record.leaving.contains_key(&claim.name) => {
                // What its claim says of the drain is over, or the next would be taken for done.
                self.write_conditions(claim, &self.staying(claim, None, ""), &News::default()).await?;
                self.open(node, DrainFailure::Failed).await?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Lets a node stay because things are not as they were when it was decided that it goes.
    async fn refute(
        &self,
        leaver: &Leaver,
        node: &NodeObject,
        why: (Option<DrainFailure>, &str),
        epoch: u64,
    ) -> Result<Moved, Failure> {
        let moved = self.stay(leaver, node, why, epoch).await?;
        if moved == Moved::Back {
            self.counts_refuted(leaver);
        }
        Ok(moved)
    }

    /// Lets a node stay that was to go. Its claim says so first, so that it is not taken again at once
    /// if its pods would not leave. Then its departure is taken back, and only then is it opened: who is open and
    /// still leaving would be closed again.
    async fn stay(
        &self,
        leaver: &Leaver,
        node: &NodeObject,
        (failure, why): (Option<DrainFailure>, &str),
        epoch: u64,
    ) -> Result<Moved, Failure> {
        let claim = &leaver.claim;
        // Whatever else keeps it, its pods were being asked to leave.
        let failure = failure.or_else(|| drain::began(node).map(|_| DrainFailure::Failed));
        self.write_conditions(claim, &self.staying(claim, failure, why), &News::default()).await?;
        let staying = BTreeSet::from([claim.name.clone()]);
        if self.release(&leaver.pool, &BTreeSet::new(), &staying, epoch).await.is_err() {
            // It is judged anew, and stays again.
            return Ok(Moved::On);
        }
        self.open(node, failure.unwrap_or(DrainFailure::Failed)).await?;
        let name = claim.name.to_string();
        let message = format!("{name} stays: {why}");
        let (severity, event) = match failure {
            Some(DrainFailure::Timeout) => (Severity::Warning, "DrainTimeout"),
            Some(DrainFailure::Failed) => (Severity::Warning, "DrainFailed"),
            None => (Severity::Normal, "DisruptionUndone"),
        };
        self.say_of_node(claim, Some(node), (severity, event, &message)).await;
        if let Some(failure) = failure {
            self.failed_drain(claim, node, failure);
        }
        let reason = leaver.departure.reason.name();
        self.decided(DecisionKind::Undo, (reason, message), vec![name], None);
        Ok(Moved::Back)
    }

    /// Tells of a step that begins.
    pub(crate) fn departing(&self, round: &Round, step: &DisruptionStep, claims: Vec<String>) {
        let (kind, verb) = match step.replacements.len() {
            0 => (DecisionKind::Delete, "taken away".to_owned()),
            count => (DecisionKind::Replace, format!("replaced by {count}")),
        };
        self.counts_step(round, step);
        let called = step.optimization.map(|optimization| format!(" ({optimization})")).unwrap_or_default();
        let message = format!("{} {verb}{called}, {} pods move", claims.join(", "), step.pods_moved);
        let saves = Some(step.saves);
        self.decided(kind, (step.reason.name(), message), claims, saves);
    }
}

/// Why this node goes: others of the step may have to go for reasons that it has not.
fn own_reason(step: &DisruptionStep, node: &Node) -> DisruptionReason {
    let saving = if safety::is_forced(step.reason) { DisruptionReason::Underutilized } else { step.reason };
    safety::forced_reason(node).unwrap_or(saving)
}

/// How many of a pool's nodes its ledger may let go at a time, when those of a step are the last of them. Those that are
/// away for other reasons count as well.
fn allowed(
    snapshot: &Snapshot,
    pool: &str,
    step: &DisruptionStep,
    is_leaving: impl Fn(&Node) -> bool,
) -> u32 {
    let reason = step.reason;
    if !DisruptionReason::BUDGETED.contains(&reason) {
        return u32::MAX;
    }
    let is_replaced = !step.replacements.is_empty() || safety::is_forced(reason);
    let leaving = if is_replaced { Leaving::Replaced } else { Leaving::ForGood };
    let nodes = || snapshot.nodes.iter().filter(|node| node.pool.as_deref() == Some(pool));
    let (all, others) = (Fleet::of(nodes()), Fleet::of(nodes().filter(|node| !is_leaving(node))));
    let pool = snapshot.pools.iter().find(|known| *known.name == *pool);
    pool.map_or(0, |pool| Fleet { away: others.away, ..all }.allowed(pool, reason, leaving))
}

/// Launches that are not for a disruption alone.
pub(crate) fn unconditional(plan: &Plan) -> Vec<usize> {
    let conditional: BTreeSet<usize> =
        plan.disruptions.iter().flat_map(|step| &step.replacements).copied().collect();
    (0..plan.launches.len()).filter(|index| !conditional.contains(index)).collect()
}

#[cfg(test)]
mod tests;
