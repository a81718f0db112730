//! The loop: observe, plan, check, commit, act; and again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use berth_api::resources::karpenter::NodeClaim;
use berth_api::{Assembled, ClassKind, Collection, Context, ledger};
use berth_cloud::machine::{MachineId, Notice, NoticeKind};
use berth_cloud::provider::list_all;
use berth_core::catalog::Catalog;
use berth_core::claim::{self, Ending, MachineSight, Step};
use berth_core::commitment::{Commitments, Departure};
use berth_core::names::Text;
use berth_core::plan::Plan;
use berth_core::snapshot::{Policy, Snapshot};
use berth_core::units::Price;
use berth_core::{check, disrupt, provision};
use futures::{StreamExt, stream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::buy::NotCommitted;
use crate::cluster::{Cluster, Refused};
use crate::desk::Desk;
use crate::journal::DecisionKind;
use crate::leave::{self, Outlook};
use crate::life::{self, Holding, Outcome, Task};
use crate::office::{Clock, Clouds, Office};
use crate::sight::{self, NodesByMachine, Surroundings, machine_of, pool_of};
use crate::watch;
use crate::watched::{View, Watched};

/// Kinds that are watched: all that a plan depends on.
const WATCHED: [&str; 17] = [
    "pods",
    "nodes",
    "namespaces",
    "limitranges",
    "persistentvolumeclaims",
    "persistentvolumes",
    "daemonsets",
    "storageclasses",
    "csinodes",
    "poddisruptionbudgets",
    "priorityclasses",
    "runtimeclasses",
    "nodepools",
    "nodeclaims",
    "nodeoverlays",
    "ec2nodeclasses",
    "kwoknodeclasses",
];

/// How the operator works.
#[derive(Clone, Debug)]
pub struct Settings {
    /// A burst of pods is over once none came for so long.
    pub batch_idle: Duration,
    /// It is planned for after so long, over or not.
    pub batch_max: Duration,
    pub policy: Policy,
    /// What each node costs beyond its price, in pools that do not say so themselves.
    pub node_cost: Price,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            batch_idle: Duration::from_secs(1),
            batch_max: Duration::from_secs(10),
            policy: Policy::default(),
            node_cost: Price::ZERO,
        }
    }
}

/// A lone pod is planned for after so long without another.
const BATCH_STEP: Duration = Duration::from_millis(50);
/// Something is always looked at again after so long.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// And so soon where something is under way.
const LOOK_SOON: Duration = Duration::from_secs(1);
/// How often it is asked whether nodes could go.
const DISRUPT_EVERY: Duration = Duration::from_secs(10);
/// How often, if nothing has changed.
const DISRUPT_AGAIN: Duration = Duration::from_secs(60);
const NOTICES_EVERY: Duration = Duration::from_secs(5);
const MACHINES_EVERY: Duration = Duration::from_secs(60);
const CATALOG_EVERY: Duration = Duration::from_secs(60);
/// A cloud that takes longer is not waited for.
const CLOUD_ANSWER_MAX: Duration = Duration::from_secs(30);
/// So many claims are worked on at a time.
const TASKS_AT_ONCE: usize = 16;
/// A machine without a claim is ended once it is so old: claims are made before machines.
const ORPHAN_SECS_MIN: u64 = 60;

/// Berth on a cluster.
#[derive(Debug)]
pub struct Operator {
    office: Office,
    cluster: Cluster,
    watched: Watched,
    settings: Settings,
    epoch: u64,
    catalogs: BTreeMap<ClassKind, Arc<Catalog>>,
    interrupted: BTreeSet<MachineId>,
    asked: Asked,
}

/// When things were last done.
#[derive(Debug, Default)]
struct Asked {
    notices: Option<Instant>,
    machines: Option<Instant>,
    catalogs: Option<Instant>,
    /// And after how many changes.
    disruptions: Option<(Instant, u64)>,
}

/// Whether something is due that is done every so often.
fn is_due(last: Option<Instant>, every: Duration) -> bool {
    last.is_none_or(|last| last.elapsed() >= every)
}

impl Operator {
    /// `epoch` grows with every new leader.
    pub fn new(cluster: Cluster, clouds: Clouds, clock: Clock, settings: Settings, epoch: u64) -> Self {
        let cluster_id = cluster.server().to_owned();
        let office = Office::new(Desk::new(cluster.clone()), clouds, clock, cluster_id);
        for kind in office.clouds.keys() {
            office.machines().entry(*kind).or_default();
        }
        Self {
            office,
            cluster,
            watched: Watched::default(),
            settings,
            epoch,
            catalogs: BTreeMap::new(),
            interrupted: BTreeSet::new(),
            asked: Asked::default(),
        }
    }

    /// Works for as long as this is awaited.
    pub async fn run(mut self) {
        let mut followers = JoinSet::new();
        let is_watched = |collection: &Collection| WATCHED.contains(&collection.plural);
        for collection in berth_api::collections().filter(is_watched) {
            self.watched.expect(&collection);
            followers.spawn(watch::follow(self.cluster.clone(), collection, self.watched.clone()));
        }
        let mut changes = self.watched.changes();
        let mut next = Instant::now();
        loop {
            tokio::select! {
                biased;
                // The sender lives in `self.watched`, so this cannot fail.
                _ = changes.changed() => self.collect().await,
                () = sleep_until(next) => {}
            }
            changes.mark_unchanged();
            let wait = self.round().await;
            next = Instant::now() + wait;
        }
    }

    /// Waits for as long as pods keep coming.
    async fn collect(&self) {
        let Some(pods) = berth_api::collections().find(|collection| collection.plural == "pods") else {
            return;
        };
        let began = Instant::now();
        let (mut step, mut seen) = (BATCH_STEP, self.watched.pods_seen(&pods));
        while began.elapsed() < self.settings.batch_max {
            sleep(step).await;
            let now_seen = self.watched.pods_seen(&pods);
            if now_seen <= seen {
                return;
            }
            seen = now_seen;
            step = (step * 2).min(self.settings.batch_idle);
        }
    }

    /// One look at everything, and what follows from it. How long until the next, if nothing happens.
    async fn round(&mut self) -> Duration {
        self.ask_clouds().await;
        let view = self.watched.view();
        let nodes = sight::by_machine(view.nodes.values());
        let is_busy = self.live(&view, &nodes).await;
        let assembled = self.assemble(view.manifests);
        let surroundings = Round {
            claims: view.claims,
            nodes,
            leaving: leaving(view.pools.values().map(|pool| &**pool)),
            sees_all: view.blind_spots.is_empty() && !assembled.is_partial && self.trusts_clouds(),
            snapshot: assembled.snapshot,
            changes: view.changes,
        };
        let is_leaving = self.move_leavers(&surroundings).await;
        self.end_orphans(&surroundings).await;
        self.plan(&surroundings).await;
        if is_busy || is_leaving { LOOK_SOON } else { LOOK_AGAIN }
    }

    fn trusts_clouds(&self) -> bool {
        self.office.machines().values().all(|machines| machines.trouble.is_none())
    }

    /// Asks each cloud for what is due.
    async fn ask_clouds(&mut self) {
        let clouds = self.office.clouds.clone();
        if is_due(self.asked.catalogs, CATALOG_EVERY) {
            for (kind, cloud) in &clouds {
                if let Ok(Ok(catalog)) = timeout(CLOUD_ANSWER_MAX, cloud.catalog()).await {
                    self.catalogs.insert(*kind, catalog);
                    self.asked.catalogs = Some(Instant::now());
                }
            }
        }
        if is_due(self.asked.notices, NOTICES_EVERY) {
            self.asked.notices = Some(Instant::now());
            for cloud in clouds.values() {
                if let Ok(Ok(notices)) = timeout(CLOUD_ANSWER_MAX, cloud.notices()).await {
                    let ends = |notice: &Notice| notice.kind != NoticeKind::Rebalance;
                    self.interrupted.extend(notices.into_iter().filter(ends).map(|notice| notice.machine));
                }
            }
        }
        if is_due(self.asked.machines, MACHINES_EVERY) {
            self.asked.machines = Some(Instant::now());
            for (kind, cloud) in &clouds {
                if let Ok(listing) = timeout(CLOUD_ANSWER_MAX, list_all(&**cloud)).await {
                    self.office.machines().entry(*kind).or_default().listed(listing);
                }
            }
            // Of machines that are gone nobody speaks any more.
            let known: BTreeSet<MachineId> =
                self.office.machines().values().flat_map(crate::machines::Machines::ids).collect();
            self.interrupted.retain(|id| known.contains(id));
        }
    }

    fn assemble(&self, manifests: berth_api::Manifests) -> Assembled {
        let context = Context { now: self.office.now(), node_cost: self.settings.node_cost };
        berth_api::assemble(manifests, &context, &mut |kind| {
            self.catalogs
                .get(&kind)
                .cloned()
                .ok_or_else(|| "its cloud has not told what it offers".to_owned())
        })
    }

    /// Does the next step of every claim. Whether any is under way.
    async fn live(&self, view: &View, nodes: &NodesByMachine) -> bool {
        let ledgers = self.ledgers_of_unlaunched(&view.claims).await;
        let holding = self.nodes_with_volumes(&view.claims).await;
        let sees_all = view.blind_spots.is_empty();
        let mut tasks = Vec::new();
        for claim in view.claims.values() {
            if let Some(task) = self.task(claim, nodes, (&ledgers, &holding), sees_all) {
                tasks.push(task);
            }
        }
        let is_busy = tasks.iter().any(|task| task.step != Step::Wait(claim::Waiting::Nothing));
        let office = &self.office;
        let performed: Vec<(Task, Result<Outcome, life::Failure>)> = stream::iter(tasks)
            .map(async |task| {
                let outcome = office.perform(&task).await;
                (task, outcome)
            })
            .buffered(TASKS_AT_ONCE)
            .collect()
            .await;
        let mut gone: BTreeMap<String, BTreeSet<Text>> = BTreeMap::new();
        for (task, outcome) in performed {
            if let (Ok(Outcome::Gone(name)), Some(pool)) = (outcome, pool_of(&task.claim)) {
                gone.entry(pool.to_owned()).or_default().insert(name);
            }
        }
        for (pool, names) in gone {
            // What is not released now counts a little longer, and no more than that.
            let _ = office.release(&pool, &names, &BTreeSet::new(), self.epoch).await;
        }
        is_busy
    }

    fn task(
        &self,
        claim: &Arc<NodeClaim>,
        nodes: &NodesByMachine,
        (ledgers, holding): (&BTreeMap<String, Option<Commitments>>, &Holding),
        sees_all: bool,
    ) -> Option<Task> {
        let (kind, _) = self.office.cloud_of(claim)?;
        let machine = machine_of(claim);
        let name = claim.metadata.name.as_deref()?;
        let record = pool_of(claim).and_then(|pool| ledgers.get(pool)).and_then(Option::as_ref);
        // Without its ledger nothing is known of a claim; it waits.
        if machine.is_none() && claim.metadata.deletion_timestamp.is_none() {
            record?;
        }
        if !sight::is_ours(claim) && machine.is_none() {
            return None;
        }
        let node = sight::node_of(claim, nodes).cloned();
        let has_volumes = node.as_ref().is_some_and(|node| holding.has(&node.metadata.name));
        let machine_sight = machine.as_ref().map_or(MachineSight::Unseen, |id| {
            self.office.machines().get(&kind).map_or(MachineSight::Unseen, |machines| machines.sight(id))
        });
        let around = Surroundings {
            now: self.office.now(),
            nodes,
            sees_nodes: sees_all,
            is_committed: record.is_some_and(|record| record.claims.contains_key(name)),
            machine: machine_sight,
            is_interrupted: machine.is_some_and(|id| self.interrupted.contains(&id)),
            has_volumes,
        };
        let step = claim::step(&sight::sight(claim, &around));
        let is_harmless = matches!(step, Step::Wait(_) | Step::Launch | Step::Register | Step::Initialize)
            || step == Step::Delete(Ending::Interrupted);
        (sees_all || is_harmless).then(|| Task { claim: claim.clone(), node, step })
    }

    /// Which nodes have volumes attached, if a node is leaving for which that matters.
    async fn nodes_with_volumes(&self, claims: &BTreeMap<Text, Arc<NodeClaim>>) -> Holding {
        if claims.values().any(|claim| claim.metadata.deletion_timestamp.is_some()) {
            life::nodes_with_volumes(&self.office).await
        } else {
            Holding::default()
        }
    }

    /// The ledgers of pools with claims that are to be launched, as they are now.
    async fn ledgers_of_unlaunched(
        &self,
        claims: &BTreeMap<Text, Arc<NodeClaim>>,
    ) -> BTreeMap<String, Option<Commitments>> {
        let unlaunched = claims.values().filter(|claim| machine_of(claim).is_none());
        let pools: BTreeSet<&str> = unlaunched.filter_map(|claim| pool_of(claim)).collect();
        let mut ledgers = BTreeMap::new();
        for pool in pools {
            let record = match self.office.account(pool).await {
                Ok(account) => Some(account.record),
                // A pool that is gone has committed itself to nothing.
                Err(NotCommitted::Cluster(Refused { code: Some(404), .. })) => Some(Commitments::default()),
                Err(_) => None,
            };
            ledgers.insert(pool.to_owned(), record);
        }
        ledgers
    }

    /// Moves on what is committed to go. Whether anything is.
    async fn move_leavers(&self, round: &Round) -> bool {
        let leavers = leave::leavers(&round.leaving, &round.claims, &round.nodes);
        if leavers.is_empty() || !round.sees_all {
            return !leavers.is_empty();
        }
        let closed: BTreeSet<Text> = leavers
            .iter()
            .filter_map(|leaver| leaver.node.as_ref())
            .filter(|node| node.is_closed())
            .map(|node| Text::from(node.metadata.name.as_str()))
            .collect();
        let cleared = leave::cleared(&round.snapshot, &self.policy(), &closed);
        let now_secs = self.office.now().as_second();
        let outlook = Outlook { claims: &round.claims, now_secs, cleared: &cleared };
        for leaver in &leavers {
            let verdict = leave::judge(leaver, &outlook);
            let stays = self.office.move_on(leaver, &verdict).await;
            if let (Ok(true), Some(name)) = (stays, &leaver.claim.metadata.name) {
                let staying = BTreeSet::from([Text::from(name.as_str())]);
                let _ = self.office.release(&leaver.pool, &BTreeSet::new(), &staying, self.epoch).await;
            }
        }
        true
    }

    /// Ends machines that were bought for claims that are no more.
    async fn end_orphans(&self, round: &Round) {
        if !round.sees_all {
            return;
        }
        let uids: BTreeSet<&str> =
            round.claims.values().filter_map(|claim| claim.metadata.uid.as_deref()).collect();
        let now = self.office.now();
        let mut orphans = Vec::new();
        for (kind, machines) in &*self.office.machines() {
            for machine in machines.lasting() {
                let is_ours = machine.tags.get(crate::office::CLUSTER_TAG).map(|id| &**id)
                    == Some(self.office.cluster_id.as_str());
                let has_claim = machine.token.as_ref().is_none_or(|token| uids.contains(token.as_str()));
                let age = sight::secs_between(machine.launched_at, now);
                if is_ours && !has_claim && age >= ORPHAN_SECS_MIN {
                    orphans.push((*kind, machine.id.clone()));
                }
            }
        }
        for (kind, id) in orphans {
            let Some(cloud) = self.office.clouds.get(&kind) else { continue };
            if cloud.terminate(&id).await.is_ok() {
                let message = format!("machine {id} has no claim, and is ended");
                self.office.journal.decided(
                    now,
                    DecisionKind::Failure,
                    ("Orphaned", message),
                    vec![id.to_string()],
                    None,
                );
            }
        }
    }

    /// How decisions are made now.
    fn policy(&self) -> Policy {
        let mut policy = self.settings.policy.clone();
        for machines in self.office.machines().values() {
            policy.unavailable.extend(machines.unavailable());
        }
        policy
    }

    async fn plan(&mut self, round: &Round) {
        let policy = self.policy();
        let waits = |pod: &berth_core::pod::Pod| pod.node.is_none() && !pod.deleting;
        if round.snapshot.pods.iter().any(waits) || round.has_homeless() {
            let plan = provision::plan(&round.snapshot, &policy);
            if !plan.launches.is_empty() {
                self.carry_out(round, &policy, plan).await;
                return;
            }
        }
        let is_due = self.asked.disruptions.is_none_or(|(last, changes)| {
            let every = if changes == round.changes { DISRUPT_AGAIN } else { DISRUPT_EVERY };
            last.elapsed() >= every
        });
        if round.sees_all && is_due {
            self.asked.disruptions = Some((Instant::now(), round.changes));
            let plan = disrupt::plan(&round.snapshot, &policy);
            if !plan.launches.is_empty() || !plan.disruptions.is_empty() {
                self.carry_out(round, &policy, plan).await;
            }
        }
    }

    /// Buys what the plan buys, and commits to what it takes away. A plan that breaks a rule is not carried out.
    async fn carry_out(&self, round: &Round, policy: &Policy, plan: Plan) {
        let now = self.office.now();
        let snapshot = &round.snapshot;
        let violations = check::check(snapshot, policy, &plan);
        if let Some(violation) = violations.first() {
            let message = format!("a plan was made that breaks a rule, and was not carried out: {violation}");
            self.office.journal.decided(
                now,
                DecisionKind::Failure,
                ("PlanInvalid", message),
                Vec::new(),
                None,
            );
            return;
        }
        if let Err(why) = self.buy_all(round, &plan).await {
            self.refused(&why);
            return;
        }
        for step in &plan.disruptions {
            if let Err(why) = self.begin(round, &plan, step).await {
                self.refused(&why);
                return;
            }
        }
    }

    async fn buy_all(&self, round: &Round, plan: &Plan) -> Result<(), NotCommitted> {
        let wanted = leave::unconditional(plan);
        let bought = self.office.buy(&round.snapshot, &plan.launches, &wanted, self.epoch).await?;
        for bought in bought {
            let Some(launch) = plan.launches.get(bought.launch) else { continue };
            let message = format!(
                "{} is bought: {} in {} as {}, ${} an hour",
                bought.claim, launch.instance_type, launch.zone, launch.capacity_type, launch.price
            );
            self.office.journal.decided(
                self.office.now(),
                DecisionKind::Launch,
                ("Provisioned", message),
                vec![bought.claim.to_string()],
                None,
            );
        }
        Ok(())
    }

    async fn begin(
        &self,
        round: &Round,
        plan: &Plan,
        step: &berth_core::plan::DisruptionStep,
    ) -> Result<(), NotCommitted> {
        let office = &self.office;
        let bought = office.buy(&round.snapshot, &plan.launches, &step.replacements, self.epoch).await?;
        if bought.len() < step.replacements.len() {
            return Ok(());
        }
        let replacements: Vec<Text> = bought.into_iter().map(|bought| bought.claim).collect();
        let names = office.depart((&round.snapshot, step), &round.claims, &replacements, self.epoch).await?;
        office.departing(step, names);
        Ok(())
    }

    fn refused(&self, why: &NotCommitted) {
        let message = format!("nothing was committed: {why}");
        let (now, kind) = (self.office.now(), DecisionKind::Refusal);
        self.office.journal.decided(now, kind, ("NotCommitted", message), Vec::new(), None);
    }
}

/// What one look saw.
struct Round {
    claims: BTreeMap<Text, Arc<NodeClaim>>,
    nodes: NodesByMachine,
    leaving: BTreeMap<Text, (Text, Departure)>,
    snapshot: Snapshot,
    sees_all: bool,
    changes: u64,
}

impl Round {
    /// Whether pods run on nodes that are going.
    fn has_homeless(&self) -> bool {
        self.snapshot.nodes.iter().any(|node| node.state == berth_core::node::NodeState::Deleting)
    }
}

/// What all ledgers say is leaving, with its pool.
fn leaving<'p>(
    pools: impl Iterator<Item = &'p berth_api::resources::karpenter::NodePool>,
) -> BTreeMap<Text, (Text, Departure)> {
    let mut leaving = BTreeMap::new();
    for pool in pools {
        let annotation = pool.metadata.annotations.as_ref().and_then(|all| all.get(ledger::LEDGER));
        // One that cannot be read lets nobody leave.
        let Ok(record) = ledger::parse(annotation.map(String::as_str)) else { continue };
        let name = Text::from(pool.metadata.name.as_deref().unwrap_or_default());
        leaving
            .extend(record.leaving.into_iter().map(|(claim, departure)| (claim, (name.clone(), departure))));
    }
    leaving
}
