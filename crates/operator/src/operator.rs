//! The loop: observe, plan, check, commit, act; and again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use berth_api::{
    Assembled, ClassKind, Collection, Context, GroupDefaults, Manifests, Object, Problem, SchedulerConfig,
    object_name,
};
use berth_core::claim::Failures;
use berth_core::names::{self, Text};
use berth_core::plan::Plan;
use berth_core::pool::Pool;
use berth_core::reason::{Reason, Refusal};
use berth_core::requirement::ValueSet;
use berth_core::snapshot::{Policy, SchedulerPolicy};
use berth_core::units::Price;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::arrivals::Arrivals;
use crate::asking;
use crate::beforehand::Rivals;
use crate::buffers::References;
use crate::cluster::Cluster;
use crate::desk::Desk;
use crate::dialect::{Dialect, PoolObject};
use crate::discovery;
use crate::follow;
use crate::found::Foundings;
use crate::leave;
use crate::lives::Lives;
use crate::machines::Machines;
use crate::metrics::{self, Metrics, table};
use crate::office::{Clock, Clouds, Office, Zones};
use crate::orphans::Orphans;
use crate::planning::{Purchases, Round};
use crate::planted::PlantedBug;
use crate::report::{Course, Report};
use crate::seeing::Seeing;
use crate::tally::Controller;
use crate::turns::Turns;
use crate::upkeep::Tenancies;
use crate::usage::Measurements;
use crate::vpsie::Whereabouts;
use crate::watched::{BlindSpot, Watched};

/// Kinds that are watched: all that a plan depends on.
pub(crate) const WATCHED: [&str; 23] = [
    "pods",
    "podtemplates",
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
    "vpsienodeclasses",
    "capacitybuffers",
    "nodegroups",
    "vpsienodes",
    "autoscalerconfigs",
];

/// How the operator works.
#[derive(Clone, Debug)]
pub struct Settings {
    pub mode: Mode,
    /// A burst of pods is over once none came for so long.
    pub batch_idle: Duration,
    /// It is planned for after so long, over or not.
    pub batch_max: Duration,
    pub policy: Policy,
    /// What each node costs beyond its price, in pools that do not say so themselves.
    pub node_cost: Price,
    /// Whether nodes that stay unhealthy are replaced.
    pub repairs: bool,
    /// What becomes of VPSieNodes that fail.
    pub failed_vpsie_nodes: Failures,
    /// What new groups start from where the AutoscalerConfig does not say it.
    pub group_defaults: GroupDefaults,
    /// Where the Secret says that the cluster is, which counts after that.
    pub whereabouts: Whereabouts,
    /// What the cluster's scheduler is configured to.
    pub scheduler: SchedulerConfig,
    /// Objects to judge by besides the cluster's, such as pools where it has none. Then nodes that no pool has bought
    /// are judged as those of a pool that could have. Only for who changes nothing.
    pub given: Vec<Object>,
    /// Whose leases are looked at while this works: autoscalers that would work on the same nodes.
    pub rivals: Option<Rivals>,
    /// Where things are counted: clouds may count there too.
    pub metrics: Metrics,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    #[default]
    Act,
    /// Nothing is written: what would be done is only told.
    Shadow,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            mode: Mode::default(),
            batch_idle: Duration::from_secs(1),
            batch_max: Duration::from_secs(10),
            policy: Policy::default(),
            node_cost: Price::ZERO,
            repairs: true,
            failed_vpsie_nodes: Failures::KeptSecs(30 * 60),
            group_defaults: GroupDefaults::default(),
            whereabouts: Whereabouts::default(),
            scheduler: SchedulerConfig::default(),
            given: Vec::new(),
            rivals: None,
            metrics: Metrics::default(),
        }
    }
}

/// The epoch in which this replica leads, while it does. It grows with every new leader.
pub type Lead = watch::Receiver<Option<u64>>;

/// The lead of somebody who has nobody beside them.
pub fn alone(epoch: u64) -> Lead {
    watch::channel(Some(epoch)).1
}

/// A lone pod is planned for after so long without another.
const BATCH_STEP: Duration = Duration::from_millis(50);
/// Something is always looked at again after so long.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// And so soon where something is under way.
pub(crate) const LOOK_SOON: Duration = Duration::from_secs(1);

/// Berth on a cluster.
#[derive(Debug)]
pub struct Operator {
    pub(crate) office: Office,
    cluster: Cluster,
    watched: Watched,
    measurements: Measurements,
    references: References,
    pub(crate) settings: Settings,
    lead: Lead,
    /// When it was last asked which nodes could go, and after how many changes.
    pub(crate) asked: Option<(Instant, u64)>,
    pub(crate) lives: Lives,
    pub(crate) orphans: Orphans,
    pub(crate) tenancies: Tenancies,
    pub(crate) turns: Turns,
    arrivals: Arrivals,
    pub(crate) course: Course,
    pub(crate) purchased: Option<Purchases>,
    pub(crate) foundings: Foundings,
    /// What was last told of why nodes stay, by claim.
    pub(crate) checked: BTreeMap<Text, Reason>,
    /// When pods were last told why they have no place.
    pub(crate) explained: Option<Instant>,
    /// What was last told and not done.
    pub(crate) foretold: Option<Plan>,
    seeing: Seeing,
    /// After how many changes it was last looked.
    looked_at: u64,
    reports: watch::Sender<Arc<Report>>,
}

impl Operator {
    pub fn new(cluster: Cluster, clouds: Clouds, clock: Clock, settings: Settings, lead: Lead) -> Self {
        let office = Office::new(Desk::new(cluster.clone()), clouds, clock, &settings);
        let first = Report { cluster: cluster.server().to_owned(), mode: settings.mode, ..Report::default() };
        Self {
            office,
            cluster,
            watched: Watched::default(),
            measurements: Measurements::default(),
            references: References::default(),
            settings,
            lead,
            asked: None,
            lives: Lives::default(),
            orphans: Orphans::default(),
            tenancies: Tenancies::default(),
            turns: Turns::default(),
            arrivals: Arrivals::default(),
            course: Course::default(),
            purchased: None,
            foundings: Foundings::default(),
            checked: BTreeMap::new(),
            explained: None,
            foretold: None,
            seeing: Seeing::default(),
            looked_at: 0,
            reports: watch::Sender::new(Arc::new(first)),
        }
    }

    /// What each look comes to, the newest only.
    pub fn reports(&self) -> watch::Receiver<Arc<Report>> {
        self.reports.subscribe()
    }

    /// What is counted.
    pub fn metrics(&self) -> Metrics {
        self.office.metrics.clone()
    }

    /// Works for as long as this is awaited.
    pub async fn run(mut self) {
        let mut followers = JoinSet::new();
        let is_watched = |collection: &Collection| WATCHED.contains(&collection.plural);
        let services = self.settings.scheduler.needs_services().then(berth_api::services);
        for collection in berth_api::collections().filter(is_watched).chain(services) {
            self.watched.expect(&collection);
            let is_meant = |object: &&Object| object.is_of(&collection);
            for object in self.settings.given.iter().filter(is_meant) {
                self.watched.give(&collection, object.id(), &object.value.to_string());
            }
            followers.spawn(follow::follow(self.cluster.clone(), collection, self.watched.clone()));
        }
        for (kind, cloud) in self.office.clouds.clone() {
            let told = (self.office.clone(), self.watched.clone());
            let lead = (self.settings.mode == Mode::Act).then(|| self.lead.clone());
            followers.spawn(asking::attend(kind, cloud, told, lead));
        }
        let (desk, watched) = (self.office.desk.clone(), self.watched.clone());
        followers.spawn(self.measurements.clone().attend(desk.clone(), watched.clone()));
        followers.spawn(self.references.clone().attend(desk, watched));
        if let Some(rivals) = self.settings.rivals.clone().filter(|_| self.settings.mode == Mode::Act) {
            followers.spawn(rivals.attend(
                self.cluster.clone(),
                self.office.clock.clone(),
                self.watched.clone(),
            ));
        }
        let mut changes = self.watched.changes();
        let mut lead = self.lead.clone();
        let mut next = Instant::now();
        loop {
            tokio::select! {
                biased;
                // The sender lives in `self.watched`, so this cannot fail.
                _ = changes.changed() => self.collect().await,
                // Whoever begins to lead, or ends, does so at once.
                Ok(()) = lead.changed() => {}
                () = self.lives.next() => {}
                () = sleep_until(next) => {}
            }
            changes.mark_unchanged();
            let began = Instant::now();
            let wait = self.round().await;
            // However much happens, half of the time is left to others.
            sleep(began.elapsed().min(LOOK_SOON)).await;
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
        let lead = *self.lead.borrow();
        let mut view = self.watched.view();
        self.references.want(view.buffers.values().map(|buffer| &**buffer));
        view.blind_spots.extend(self.references.blind_spots());
        if self.office.clouds.contains_key(&ClassKind::Vpsie) {
            self.settings.whereabouts.learn(view.nodes.values().map(|node| &**node));
        }
        let used = view.clouds();
        let is_used = |(kind, _): &(&ClassKind, &Machines)| used.contains(kind);
        let has_market = self.office.machines().iter().filter(is_used).all(|(_, cloud)| cloud.has_answered());
        let rival = self.settings.rivals.as_ref().and_then(Rivals::at_work);
        let may_act = self.settings.mode == Mode::Act && has_market && rival.is_none();
        view.blind_spots.extend(rival.map(|why| BlindSpot { plural: "leases", why }));
        let epoch = lead.filter(|_| may_act);
        self.office.stand_on(epoch, view.changes);
        let nodes = {
            let machines = self.office.machines();
            discovery::by_machine(&view.nodes, &view.claims, machines.get(&ClassKind::Vpsie))
        };
        let mut is_busy = false;
        if let Some(epoch) = epoch {
            is_busy |= self.live(&view, &nodes, epoch).await;
        }
        let mut manifests = view.manifests;
        manifests.usage = self.measurements.now();
        manifests.scheduler = self.settings.scheduler.clone();
        manifests.adopts = self.settings.mode == Mode::Shadow && !self.settings.given.is_empty();
        manifests.group_defaults = self.group_defaults().await;
        let mut assembled = self.assemble(manifests);
        for pool in &mut assembled.snapshot.pools {
            // Whoever cannot read what it has committed itself to commits itself to nothing. That is said where nothing
            // else is wrong: what is wrong with its class has a place of its own.
            let unread = view.pools.get(&pool.name).and_then(|object| object.ledger().err());
            pool.unreadable_ledger = unread.map(|why| why.to_string().into());
            let unread = pool.unreadable_ledger.as_deref().map(|why| Reason::LedgerUnreadable.because(why));
            let said = pool.blocked.take();
            let waits = |why: &Refusal| matches!(why.reason, Reason::PoolResting | Reason::PoolPaused);
            pool.blocked = if said.as_ref().is_none_or(waits) { unread.or(said) } else { said };
            if PlantedBug::ChecksSkipped.is_planted() {
                pool.disruption.checks = None;
            }
        }
        if !self.settings.repairs {
            let nodes = assembled.snapshot.nodes.iter_mut();
            nodes.for_each(|node| node.disruption.unhealthy = None);
        }
        self.office.want_zones(wanted_zones(&assembled.snapshot.pools, &view.pools));
        let unknown = self.await_offers(&mut assembled.snapshot.pools, &view.pools);
        assembled.problems.extend(unknown);
        let mut unseen = self.untrusted_clouds(&used);
        unseen.extend(assembled.is_partial.then(|| BlindSpot::unreadable(&assembled.problems)));
        self.seeing.look(&view.blind_spots, &unseen, &assembled.problems);
        let mut round = Round {
            leaving: Round::leaving_of(view.pools.values().map(|pool| &**pool)),
            claims: view.claims,
            pools: view.pools,
            displaced: view.displaced,
            illegible_groups: view.illegible_groups,
            illegible_configs: view.illegible_configs,
            illegible_claims: view.illegible_claims,
            classes: view.classes,
            unfit_classes: assembled.unfit_classes,
            generations: view.generations,
            overlays: view.overlays,
            overlay_conflicts: assembled.overlay_conflicts,
            buffers: view.buffers,
            templates: view.templates,
            nodes,
            configs: view.configs,
            sees_all: view.blind_spots.is_empty() && unseen.is_empty(),
            blind_spots: view.blind_spots,
            problems: assembled.problems,
            remarks: assembled.remarks,
            unavailable: assembled.unavailable,
            new_groups: assembled.new_groups.filter(|_| self.knows_vpsie()),
            snapshot: Arc::new(assembled.snapshot),
            changes: view.changes,
            epoch,
        };
        let strays = leave::strays(&round);
        if !strays.is_empty() {
            leave::keep_strays(Arc::make_mut(&mut round.snapshot), &strays);
        }
        self.tell_queues(&round);
        let outcome = self.plan_and_begin(&round).await;
        is_busy |= outcome.is_busy;
        if lead.is_some() {
            let waiting = (&assembled.waiting_since, outcome.waiting.as_deref());
            let metrics = &self.office.metrics;
            self.arrivals.look(&round.snapshot, waiting, self.office.now(), metrics);
        }
        if epoch.is_some() {
            self.keep_up(&round, outcome.waiting.as_deref()).await;
        }
        self.looked_at = round.changes;
        let (vpsie, troubles) = {
            let machines = self.office.machines();
            let troubles = machines.values().flat_map(Machines::troubles).cloned().collect();
            (machines.get(&ClassKind::Vpsie).map(Machines::health), troubles)
        };
        let report = Report {
            at: self.office.now(),
            cluster: self.cluster.server().to_owned(),
            mode: self.settings.mode,
            is_leader: lead.is_some(),
            under_way: self.lives.under_way(),
            finished: Some(Instant::now()),
            heard: view.heard,
            has_seen_all: self.seeing.has_seen_all,
            blind_since: self.seeing.blind_since,
            snapshot: round.snapshot,
            waiting_since: assembled.waiting_since,
            claims: round.claims,
            pools: round.pools,
            leaving: round.leaving.into_iter().map(|(claim, (_, going))| (claim, going.reason)).collect(),
            waiting: outcome.waiting,
            course: self.course.clone(),
            blind_spots: round.blind_spots.into_iter().chain(unseen).collect(),
            problems: round.problems,
            vpsie,
            troubles,
            decisions: self.office.journal.decisions(),
        };
        self.reports.send_replace(Arc::new(report));
        if is_busy { LOOK_SOON } else { LOOK_AGAIN }
    }

    /// How much there is to do at once, where VPSie's groups are.
    fn tell_queues(&self, round: &Round) {
        if !round.pools.values().any(|pool| pool.dialect() == Dialect::Vpsie) {
            return;
        }
        let is_theirs =
            |name: &Text| round.claims.get(name).is_some_and(|claim| claim.dialect == Dialect::Vpsie);
        let under_way = self.lives.under_way_of(is_theirs);
        let changes = round.changes.saturating_sub(self.looked_at);
        let metrics = &self.office.metrics;
        for (controller, depth) in [(Controller::NodeGroup, 0), (Controller::VpsieNode, under_way)] {
            metrics.set(table::RECONCILE_QUEUE, [controller.name()], metrics::count(depth));
        }
        metrics.set(table::EVENT_BUFFER, [], metrics::count(usize::try_from(changes).unwrap_or(usize::MAX)));
    }

    /// Pools buy from VPSie once it has said what it offers in all of their datacenters: else the first nodes would all
    /// be where it was asked first. Groups that name some in which it offers nothing are told so.
    fn await_offers(&self, pools: &mut [Pool], objects: &BTreeMap<Text, Arc<PoolObject>>) -> Vec<Problem> {
        let mut problems = Vec::new();
        let machines = self.office.machines();
        let Some(vpsie) = machines.get(&ClassKind::Vpsie) else { return problems };
        for pool in pools {
            let object = objects.get(&pool.name);
            let is_theirs = object.and_then(|object| object.class()) == Some(ClassKind::Vpsie);
            let zones = pool.requirements.get(names::ZONE).and_then(ValueSet::finite);
            let Some(zones) = zones.filter(|_| is_theirs) else { continue };
            if let Some(zone) = vpsie.unasked(zones) {
                let message = format!("VPSie has not told yet what it offers in {zone}");
                pool.blocked.get_or_insert(Reason::PoolResting.because(message));
                continue;
            }
            let unsold: Vec<&Text> = zones.iter().filter(|zone| !vpsie.sells_in(zone)).collect();
            let (Some(first), Some(PoolObject::NodeGroup(group))) = (unsold.first(), object.map(|it| &**it))
            else {
                continue;
            };
            let message =
                format!("VPSie offers this cluster nothing in `{first}`; name one of its datacenters");
            let is_own = *group.spec.datacenter_id == ***first;
            let field = if is_own { "spec.datacenterID" } else { "spec.multiRegion.datacenterIDs" };
            if unsold.len() == zones.len() {
                pool.blocked = Some(Reason::UnknownDatacenter.because(format!("{field}: {message}")));
            }
            let namespace = group.metadata.namespace.as_deref().unwrap_or_default();
            problems.push(Problem {
                source: "cluster".into(),
                line: None,
                object: Some(object_name("NodeGroup", namespace, &pool.name)),
                field: Some(field.to_owned()),
                message,
            });
        }
        problems
    }

    /// Clouds of these of which it is not known what machines they have.
    fn untrusted_clouds(&self, used: &BTreeSet<ClassKind>) -> Vec<BlindSpot> {
        let machines = self.office.machines();
        let used = machines.iter().filter(|(kind, _)| used.contains(kind));
        let troubles = used.filter_map(|(_, machines)| machines.trouble.clone());
        troubles.map(|why| BlindSpot { plural: "machines", why }).collect()
    }

    fn assemble(&self, manifests: Manifests) -> Assembled {
        let context = Context { now: self.office.now(), node_cost: self.settings.node_cost };
        berth_api::assemble(manifests, &context, &mut |kind| {
            let machines = self.office.machines();
            let unknown = || match kind {
                ClassKind::Vpsie => "say --vpsie-secret-name, so that Berth can buy from VPSie".to_owned(),
                _ => "Berth cannot buy from its cloud yet".to_owned(),
            };
            machines.get(&kind).ok_or_else(unknown)?.offers()
        })
    }

    /// How decisions are made now.
    pub(crate) fn policy(&self, round: &Round) -> Policy {
        let mut policy = Policy { scheduler: SchedulerPolicy::Ignored, ..self.settings.policy.clone() };
        policy.unavailable.extend(round.unavailable.iter().cloned());
        let machines = self.office.machines();
        for (name, pool) in &round.pools {
            let lacking = pool.class().and_then(|kind| machines.get(&kind)).map(Machines::unavailable);
            policy
                .unavailable_to
                .extend(lacking.filter(|all| !all.is_empty()).map(|all| (name.clone(), all)));
        }
        policy
    }
}

/// Where pools say that they want machines. Those that leave it open want no zone in particular.
fn wanted_zones(pools: &[Pool], objects: &BTreeMap<Text, Arc<PoolObject>>) -> Zones {
    let mut zones = Zones::new();
    for pool in pools {
        let Some(kind) = objects.get(&pool.name).and_then(|object| object.class()) else { continue };
        let named = pool.requirements.get(names::ZONE).and_then(ValueSet::finite);
        zones.entry(kind).or_default().extend(named.into_iter().flatten().cloned());
    }
    zones
}
