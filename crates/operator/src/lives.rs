//! All claims' lives, a step at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use berth_api::ClassKind;
use berth_core::claim::{self, Deadlines, MachineSight, Step, Waiting};
use berth_core::commitment::Commitments;
use berth_core::names::Text;
use tokio::sync::{Notify, Semaphore};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, timeout};

use crate::claim::{Claim, ENDED, FAILED};
use crate::dialect::{Dialect, PoolId, PoolObject};
use crate::discovery::{NodesByMachine, node_of};
use crate::life::{Failure, Holding, Outcome, Task};
use crate::office::Office;
use crate::operator::Operator;
use crate::sight::{self, Surroundings};
use crate::tally::{Controller, Worked};
use crate::watched::View;

/// So many claims are worked on at a time, in each lane.
const TASKS_AT_ONCE: usize = 32;
/// All volumes of a cluster are many, and take their time to be detached.
const VOLUMES_EVERY: Duration = Duration::from_secs(5);
/// A step that takes longer is begun anew: each may be done twice.
pub(crate) const STEP_MAX: Duration = Duration::from_mins(1);

/// What is being done for claims, each by itself: one that takes its time holds up no other, and no plan.
#[derive(Debug, Default)]
pub(crate) struct Lives {
    tasks: JoinSet<Done>,
    lanes: Lanes,
    /// The claims whose steps are being done, and the way to tell whoever does it that nobody wants the machine any more.
    under_way: BTreeMap<Text, Arc<Notify>>,
    paces: BTreeMap<Text, Pace>,
    /// Claims that are no more and still in their pools' ledgers, by pool.
    gone: BTreeMap<PoolId, BTreeSet<Text>>,
    /// What was last found of the volumes of nodes that go, and of which nodes.
    volumes: Option<(Instant, BTreeSet<String>, Holding)>,
}

/// Turns for steps, apart by who is asked. A cloud that does not answer holds up what else is asked of it, and neither the
/// nodes that it is about to take back nor the pods on them.
#[derive(Debug)]
struct Lanes {
    launching: Arc<Semaphore>,
    ending: Arc<Semaphore>,
    in_the_cluster: Arc<Semaphore>,
}

impl Default for Lanes {
    fn default() -> Self {
        let [launching, ending, in_the_cluster] = [(); 3].map(|()| Arc::new(Semaphore::new(TASKS_AT_ONCE)));
        Self { launching, ending, in_the_cluster }
    }
}

impl Lanes {
    fn of(&self, step: Step) -> &Arc<Semaphore> {
        match step {
            Step::Launch | Step::Confirm => &self.launching,
            Step::EndMachine | Step::EndFailed => &self.ending,
            Step::Wait(_)
            | Step::Register
            | Step::Initialize
            | Step::Delete(_)
            | Step::Fail(_)
            | Step::NoteDeadline
            | Step::Close
            | Step::Drain
            | Step::AwaitVolumes => &self.in_the_cluster,
        }
    }
}

#[derive(Debug)]
struct Done {
    claim: Text,
    pool: Option<PoolId>,
    is_gone: bool,
}

/// How often the same step was begun, and when it may be begun again.
#[derive(Clone, Copy, Debug)]
struct Pace {
    step: Step,
    tries: u32,
    next: Instant,
}

impl Lives {
    /// How many steps are being done.
    pub(crate) fn under_way(&self) -> usize {
        self.tasks.len()
    }

    /// How many of them are of claims for which this holds.
    pub(crate) fn under_way_of(&self, is_meant: impl Fn(&Text) -> bool) -> usize {
        self.under_way.keys().filter(|claim| is_meant(claim)).count()
    }

    /// Whether a step of this claim is being done.
    pub(crate) fn is_under_way(&self, claim: &str) -> bool {
        self.under_way.contains_key(claim)
    }

    /// A launch that has not been sent yet need not be.
    fn give_up(&self, claim: &Text) {
        if let Some(unwanted) = self.under_way.get(claim) {
            unwanted.notify_one();
        }
    }

    /// Waits until something is done; for ever, if nothing is being done.
    pub(crate) async fn next(&mut self) {
        match self.tasks.join_next().await {
            Some(done) => self.note(done),
            None => std::future::pending().await,
        }
    }

    /// Takes note of all that is done.
    fn settle(&mut self) {
        while let Some(done) = self.tasks.try_join_next() {
            self.note(done);
        }
    }

    fn note(&mut self, done: Result<Done, JoinError>) {
        match done {
            Ok(Done { claim, pool, is_gone }) => {
                self.under_way.remove(&claim);
                if let (true, Some(pool)) = (is_gone, pool) {
                    self.gone.entry(pool).or_default().insert(claim);
                }
            }
            // Nobody knows whose it was: all are looked at again.
            Err(_) => self.under_way.clear(),
        }
    }

    /// Begins a step, unless one is being done or it is too early.
    pub(crate) fn begin(&mut self, office: &Office, name: Text, task: Task) {
        if self.under_way.contains_key(&name) {
            return;
        }
        let now = Instant::now();
        let tries = match self.paces.get(&name) {
            Some(pace) if pace.step == task.step => {
                if now < pace.next {
                    return;
                }
                pace.tries
            }
            _ => 0,
        };
        let next = now + pause(task.step, tries);
        self.paces.insert(name.clone(), Pace { step: task.step, tries: tries.saturating_add(1), next });
        let unwanted = Arc::new(Notify::new());
        self.under_way.insert(name.clone(), unwanted.clone());
        let (office, lane) = (office.clone(), self.lanes.of(task.step).clone());
        self.tasks.spawn(async move {
            let _turn = lane.acquire_owned().await;
            let began = Instant::now();
            let outcome = tokio::select! {
                biased;
                () = unwanted.notified(), if task.step == Step::Launch => Ok(Outcome::Unfinished),
                outcome = timeout(STEP_MAX, office.perform(&task)) => outcome.unwrap_or(Err(Failure::Late)),
            };
            if let Err(failure) = &outcome {
                office.failed(&task, failure, tries).await;
            }
            if task.claim.dialect == Dialect::Vpsie {
                let worked = match &outcome {
                    Ok(Outcome::Done | Outcome::Gone) => Worked::Well,
                    Ok(Outcome::Unfinished) => Worked::Requeued,
                    Err(failure) => Worked::Ill(failure),
                };
                office.counts_work(Controller::VpsieNode, worked, began.elapsed());
            }
            Done { claim: name, pool: task.claim.pool_id(), is_gone: matches!(outcome, Ok(Outcome::Gone)) }
        });
    }
}

/// How long until the same step is begun again: twice as long each time, up to what suits the step.
fn pause(step: Step, tries: u32) -> Duration {
    let most = match step {
        Step::Launch => 30,
        Step::EndMachine | Step::EndFailed => 10,
        _ => 5,
    };
    Duration::from_secs((1_u64 << tries.min(6)).min(most))
}

/// How long pods of a group's spot machine have once the cloud takes it away: it ends then, whoever is still on it.
fn interruption_grace_secs(pool: Option<&PoolObject>) -> Option<u64> {
    let Some(PoolObject::NodeGroup(group)) = pool else { return None };
    let spot = group.spec.spot_config.as_ref().filter(|spot| spot.enabled)?;
    Some(spot.interruption_grace_period.whole_secs())
}

impl Operator {
    /// Begins the next step of every claim. Whether any is under way.
    pub(crate) async fn live(&mut self, view: &View, nodes: &NodesByMachine, epoch: u64) -> bool {
        self.lives.settle();
        self.release_gone(view, epoch).await;
        let ledgers = self.ledgers_of_unlaunched(&view.claims).await;
        let holding = self.nodes_with_volumes(view).await;
        let sees_all = view.blind_spots.is_empty();
        let ready_secs = view.settings().map(|settings| settings.node_ready_timeout_seconds.get().into());
        self.lives.paces.retain(|name, _| view.claims.contains_key(name));
        let mut is_busy = false;
        for (name, claim) in &view.claims {
            if claim.is_deleting() {
                self.lives.give_up(name);
            }
            let deadlines = match claim.dialect {
                // However they are written, VPSie takes its time to make machines.
                Dialect::Karpenter if claim.class == Some(ClassKind::Vpsie) => {
                    Deadlines { launch_secs: Deadlines::vpsie(None).launch_secs, ..Deadlines::default() }
                }
                Dialect::Karpenter => Deadlines::default(),
                // Its age says nothing where another autoscaler has asked; its cloud says when that came to nothing.
                Dialect::Vpsie if claim.requested_at.is_some() => {
                    Deadlines { launch_secs: u64::MAX, ..Deadlines::vpsie(ready_secs) }
                }
                Dialect::Vpsie => Deadlines::vpsie(ready_secs),
            };
            let grace_secs = interruption_grace_secs(view.pool_of(claim));
            let task = self.task(claim, nodes, (&ledgers, &holding, deadlines, grace_secs), sees_all);
            let Some(task) = task.filter(|task| task.step != Step::Wait(Waiting::Nothing)) else { continue };
            is_busy = true;
            // What is waited for is written down once.
            let is_news = match task.step {
                Step::Wait(waiting) => !self.office.is_wait_told(claim, waiting, task.node.as_deref()),
                _ => true,
            };
            if is_news {
                self.lives.begin(&self.office, name.clone(), task);
            }
        }
        is_busy
    }

    /// Which of the nodes whose machines could end have volumes attached.
    async fn nodes_with_volumes(&mut self, view: &View) -> Holding {
        let has_deadline = |claim: &Claim| {
            claim.leaving_secs_max().or_else(|| interruption_grace_secs(view.pool_of(claim))).is_some()
        };
        let could_end =
            |claim: &&Arc<Claim>| claim.is_deleting() && (claim.holds("Drained") || has_deadline(claim));
        let nodes = view.claims.values().filter(could_end).filter_map(|claim| claim.node());
        let nodes: BTreeSet<String> = nodes.map(str::to_owned).collect();
        match &self.lives.volumes {
            Some((at, of, holding)) if *of == nodes && at.elapsed() < VOLUMES_EVERY => holding.clone(),
            _ => {
                let holding = self.office.nodes_with_volumes(&nodes).await;
                self.lives.volumes = Some((Instant::now(), nodes, holding.clone()));
                holding
            }
        }
    }

    /// Takes claims that are no more out of their pools' ledgers: those that were seen off, and those that somebody
    /// else saw off.
    async fn release_gone(&mut self, view: &View, epoch: u64) {
        let mut gone = std::mem::take(&mut self.lives.gone);
        if view.blind_spots.is_empty() {
            let now_secs = self.office.now().as_second();
            for pool in view.pools.values().chain(&view.displaced) {
                let Ok(record) = pool.ledger() else { continue };
                // One that failed and has no machine any more is kept only to be seen.
                let is_living = |claim: &Text| match view.claims.get(claim) {
                    Some(claim) => !(claim.holds(FAILED) && claim.holds(ENDED)),
                    None => view.illegible_claims.contains(claim),
                };
                let ghosts = record.ghosts(is_living, now_secs);
                if !ghosts.is_empty() {
                    gone.entry(pool.id()).or_default().extend(ghosts);
                }
            }
        }
        for (pool, names) in gone {
            if self.office.release(&pool, &names, &BTreeSet::new(), epoch).await.is_err() {
                self.lives.gone.insert(pool, names);
            }
        }
    }

    fn task(
        &self,
        claim: &Arc<Claim>,
        nodes: &NodesByMachine,
        (ledgers, holding, deadlines, interruption_grace_secs): (
            &BTreeMap<PoolId, Option<Commitments>>,
            &Holding,
            Deadlines,
            Option<u64>,
        ),
        sees_all: bool,
    ) -> Option<Task> {
        let (kind, _) = self.office.cloud_of(claim)?;
        let machine = claim.machine();
        let record = claim.pool_id().and_then(|pool| ledgers.get(&pool)).and_then(Option::as_ref);
        // Without its ledger nothing is known of a claim; it waits.
        if machine.is_none() && !claim.is_deleting() {
            record?;
        }
        // One of VPSie's that does not say what to buy may yet be completed by whoever made it. Of Karpenter's, what its
        // pool has not committed itself to is over, whoever made it.
        if claim.dialect == Dialect::Vpsie && claim.offerings.is_empty() && machine.is_none() {
            return None;
        }
        let node = node_of(claim, nodes).cloned();
        let has_volumes = node.as_ref().is_some_and(|node| holding.has(&node.metadata.name));
        let (machine_sight, is_interrupted) = match (self.office.machines().get(&kind), &machine) {
            (Some(machines), Some(id)) => (machines.sight(id), machines.is_interrupted(id)),
            _ => (MachineSight::Unseen, false),
        };
        let grace_secs = claim.leaving_secs_max().or(interruption_grace_secs.filter(|_| is_interrupted));
        let around = Surroundings {
            now: self.office.now(),
            nodes,
            sees_nodes: sees_all,
            // For what another autoscaler has asked for nothing is bought.
            is_committed: claim.requested_at.is_some()
                || record.is_some_and(|record| record.claims.contains_key(&claim.name)),
            machine: machine_sight,
            is_interrupted,
            has_volumes,
            grace_secs,
            failures: self.office.failures_of(claim),
            deadlines,
        };
        let step = claim::step(&sight::sight(claim, &around));
        // What the cloud takes away is lost at its time, whoever looks or not.
        let is_harmless =
            matches!(step, Step::Wait(_) | Step::Launch | Step::Confirm | Step::Register | Step::Initialize)
                || is_interrupted;
        (sees_all || is_harmless).then(|| Task { claim: claim.clone(), node, step, grace_secs, has_volumes })
    }

    /// The ledgers of pools with claims that are to be launched, as they are now.
    async fn ledgers_of_unlaunched(
        &self,
        claims: &BTreeMap<Text, Arc<Claim>>,
    ) -> BTreeMap<PoolId, Option<Commitments>> {
        let unlaunched = claims.values().filter(|claim| claim.machine().is_none());
        let pools: BTreeSet<PoolId> = unlaunched.filter_map(|claim| claim.pool_id()).collect();
        let mut ledgers = BTreeMap::new();
        for pool in pools {
            let record = self.office.committed_by(&pool).await.ok();
            ledgers.insert(pool, record);
        }
        ledgers
    }
}
