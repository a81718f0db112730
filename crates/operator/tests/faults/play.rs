//! One run: a world, a workload, one or two operators, and what goes wrong.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use berth_api::{ClassKind, Timestamp};
use berth_cloud::{CatalogOptions, Cloud};
use berth_core::catalog::Catalog;
use berth_core::claim::Failures;
use berth_core::disruption::DisruptionReason;
use berth_core::resources::USD_PER_HOUR;
use berth_core::units::Price;
use berth_operator::{Clock, Cluster, Decision, DecisionKind, Lead, Operator, Report, Settings};
use berth_world::World;
use berth_world::cloud::{Account, Call, Event, SimulatedCloud};
use berth_world::vpsie::{InProcess, Vpsie};
use kube::Client;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use crate::account;
use crate::cloud::{JudgedCloud, JudgedTransport, Witness};
use crate::dialect::Dialect;
use crate::faults::{Case, Injection};
use crate::invariants::{Broken, Invariant};
use crate::leaders::Leaders;
use crate::swarm;
use crate::truth::{Counts, State, Truth};

const BEGAN: &str = "2026-03-01T09:00:00Z";
/// The first operator; faults are its.
pub(crate) const FIRST: &str = "berth";
/// Another that may believe to lead.
pub(crate) const SECOND: &str = "berth-2";
/// Whoever else changes something.
const SOMEBODY: &str = "test";
/// How long a process takes to start again.
const RESTART: Duration = Duration::from_secs(2);
/// After so long everything has come to rest: a machine is waited for, a drain, and two lists of everything.
const CONVERGED_SECS_MAX: u64 = 2700;
/// For so long nothing is written once all is at rest.
const REST: Duration = Duration::from_mins(2);
/// For so long claims stay as they are, but for these.
const STAY: Duration = Duration::from_hours(1);
const MOVES_MAX: u64 = 2;
/// What goes wrong has done so by then, or has no occasion to.
const FAULTS_OVER: Duration = Duration::from_mins(20);
/// What was said or noticed late is written by then.
const CALM: Duration = Duration::from_secs(65);

/// Claims that failed are kept to be seen for so long.
const FAILURES_KEPT_SECS: u64 = 300;

/// What became of a run.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) broken: Option<Broken>,
    /// What was true at the end.
    pub(crate) told: String,
    pub(crate) counts: Counts,
    /// How many faults struck.
    pub(crate) struck: usize,
    /// Every change in the cluster, if they were asked for.
    pub(crate) trace: String,
}

/// Everything that goes on.
pub(crate) struct Stage {
    pub(crate) world: World,
    pub(crate) cloud: SimulatedCloud,
    /// Through which the cloud is reached, for those who buy there.
    vpsie: Option<Vpsie>,
    pub(crate) truth: Truth,
    case: Case,
    client: Client,
    began: Instant,
    struck: AtomicUsize,
    is_done: watch::Sender<bool>,
    reports: Mutex<Vec<watch::Receiver<Arc<Report>>>>,
}

/// Plays a case, in virtual time, on this thread.
pub(crate) fn play(case: &Case, catalog: &Arc<Catalog>) -> Outcome {
    run(case, catalog, false)
}

/// The same, and takes down every change.
pub(crate) fn traced(case: &Case, catalog: &Arc<Catalog>) -> Outcome {
    run(case, catalog, true)
}

fn run(case: &Case, catalog: &Arc<Catalog>, is_traced: bool) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(played(case, catalog, is_traced))
}

pub(crate) fn catalog() -> Arc<Catalog> {
    Arc::new(berth_cloud::load("kwok", &CatalogOptions::default()).expect("it is built in"))
}

async fn played(case: &Case, catalog: &Arc<Catalog>, is_traced: bool) -> Outcome {
    let stage = Stage::new(case, catalog).await;
    if is_traced {
        stage.world.begin_trace();
    }
    // What is watched for longer than in other runs is none of what may go wrong in those.
    let mut counted = None;
    let script = async {
        case.workload.play(&stage).await?;
        stage.faults_over().await;
        stage.until("all is well in the end", |state| case.workload.is_over(state)).await?;
        stage.saved()?;
        // Two that both lead tell pods the same, each in its words.
        if case.injection == Injection::Swarm {
            return Ok(());
        }
        stage.explained().await?;
        stage.rest().await?;
        counted = Some(stage.truth.look(|state| state.counts.clone()));
        stage.stay().await
    };
    let broken = tokio::select! {
        biased;
        broken = stage.truth.judge() => Some(broken),
        () = stage.world.kubelets().live_on(&stage.cloud) => None,
        () = stage.world.live() => None,
        () = stage.go_wrong() => None,
        played = script => played.err(),
    };
    let (told, counts) = stage.truth.look(|state| (state.told(), state.counts.clone()));
    let told = format!("{told}\n{}", stage.decided());
    Outcome {
        broken,
        told,
        counts: counted.unwrap_or(counts),
        struck: stage.struck(),
        trace: stage.world.trace(),
    }
}

impl Stage {
    async fn new(case: &Case, catalog: &Arc<Catalog>) -> Self {
        let now: Timestamp = BEGAN.parse().expect("a time");
        let world = World::new(case.seed, now);
        let dialect = case.workload.dialect();
        let vpsie = dialect
            .is_vpsie()
            .then(|| account::vpsie(account::OFFERS, case.weather(), case.seed, case.vpsie_faults(), now));
        let cloud = match &vpsie {
            Some(vpsie) => vpsie.cloud().clone(),
            None => SimulatedCloud::new(Account::new(catalog.clone(), case.weather(), case.seed, now)),
        };
        let client = Client::new(world.client(SOMEBODY), "default");
        let truth = Truth::new(&world, &cloud, dialect, case);
        let stage = Self {
            world,
            cloud,
            vpsie,
            truth,
            case: case.clone(),
            client,
            began: Instant::now(),
            struck: AtomicUsize::new(0),
            is_done: watch::Sender::new(false),
            reports: Mutex::default(),
        };
        for definition in definitions(dialect) {
            stage.apply(definition).await;
        }
        stage
    }

    pub(crate) async fn apply(&self, object: Value) {
        let applied = self.world.apply(SOMEBODY, &object).await;
        applied.unwrap_or_else(|failure| panic!("{object}: {failure}"));
    }

    pub(crate) fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    pub(crate) async fn delete(&self, path: &str) {
        let request = http::Request::delete(path).body(Vec::new()).expect("a request");
        // Somebody else may have been faster.
        let _ = self.client.request::<Value>(request).await;
    }

    pub(crate) async fn patch(&self, path: &str, change: &Value) {
        let request = http::Request::patch(path)
            .header("content-type", "application/merge-patch+json")
            .body(change.to_string().into_bytes())
            .expect("a request");
        let _ = self.client.request::<Value>(request).await;
    }

    async fn get(&self, path: &str) -> Value {
        let request = http::Request::get(path).body(Vec::new()).expect("a request");
        self.client.request(request).await.expect("an answer")
    }

    /// Waits until it holds.
    pub(crate) async fn until(&self, what: &str, holds: impl Fn(&State) -> bool) -> Result<(), Broken> {
        for _ in 0..CONVERGED_SECS_MAX {
            if self.truth.look(&holds) {
                return Ok(());
            }
            sleep(Duration::from_secs(1)).await;
        }
        Err(Invariant::Convergence.broken(format!("{what}: not after {CONVERGED_SECS_MAX} s")))
    }

    /// Once all is at rest, nothing is written, bought or taken away any more.
    pub(crate) async fn rest(&self) -> Result<(), Broken> {
        sleep(CALM).await;
        let then = self.truth.look(|state| state.counts.clone());
        sleep(REST).await;
        let now = self.truth.look(|state| state.counts.clone());
        let moved = (now.claims_made + now.claims_gone) - (then.claims_made + then.claims_gone);
        if moved > 0 {
            let how = format!("{moved} claims came or went in {} s without a reason", REST.as_secs());
            return Err(Invariant::NoFlapping.broken(how));
        }
        if now.writes > then.writes {
            let is_write = |verb: &str| !matches!(verb, "get" | "list" | "watch");
            let news = now.asked.iter().filter(|((verb, _), _)| is_write(verb));
            let news = news.filter(|(what, count)| then.asked.get(*what) != Some(*count));
            let news: Vec<String> = news.map(|((verb, of), _)| format!("{verb} {of}")).collect();
            let how = format!("{} writes at rest: {}", now.writes - then.writes, news.join(", "));
            return Err(Invariant::Idempotence.broken(how));
        }
        Ok(())
    }

    /// Whoever took nodes away to save money has saved some each time.
    fn saved(&self) -> Result<(), Broken> {
        let is_to_save = |of: &Decision| {
            let reasons = [DisruptionReason::Empty, DisruptionReason::Underutilized];
            matches!(of.kind, DecisionKind::Delete | DecisionKind::Replace)
                && reasons.iter().any(|reason| reason.name() == of.reason)
        };
        let saves = |of: &Decision| of.saves_per_hour.is_some_and(|saves| saves > Price::ZERO);
        match self.decisions().find(|of| is_to_save(of) && !saves(of)) {
            Some(of) => Err(Invariant::NoFlapping.broken(format!("nothing is saved: {}", of.message))),
            None => Ok(()),
        }
    }

    /// As long as nothing changes, claims neither come nor go, unless that saves money: so none can go back. What has gone wrong before makes no difference to that any
    /// more, so that it is watched for long only where nothing has.
    async fn stay(&self) -> Result<(), Broken> {
        if self.case.injection != Injection::Nothing {
            return Ok(());
        }
        let look = |state: &State| {
            let cost: i64 = state.alive().map(|machine| machine.amounts.get(USD_PER_HOUR)).sum();
            (state.counts.claims_made + state.counts.claims_gone, cost)
        };
        let (moves_before, cost_before) = self.truth.look(look);
        sleep(STAY).await;
        let (moves, cost) = self.truth.look(look);
        let moved = moves - moves_before;
        if moved > 0 && cost >= cost_before {
            let how = format!("{moved} claims came or went, and {cost} is paid instead of {cost_before}");
            return Err(Invariant::NoFlapping.broken(how));
        }
        if moved > MOVES_MAX {
            let how = format!("{moved} claims came or went within an hour in which nothing changed");
            return Err(Invariant::NoFlapping.broken(how));
        }
        Ok(())
    }

    /// Every pod that waits has been told why.
    pub(crate) async fn explained(&self) -> Result<(), Broken> {
        sleep(Duration::from_secs(30)).await;
        let events = self.get("/api/v1/events").await;
        let of_berth = events["items"].as_array().into_iter().flatten();
        let of_berth = of_berth.filter(|event| event["source"]["component"] == "berth");
        let told: Vec<&str> = of_berth.filter_map(|event| event["involvedObject"]["name"].as_str()).collect();
        let waiting = self.truth.look(|state| {
            let waiting = state.workload().filter(|(_, pod)| pod.node.is_empty() && pod.deletion.is_none());
            waiting.map(|(name, _)| name.clone()).collect::<Vec<_>>()
        });
        match waiting.iter().find(|name| !told.contains(&name.as_str())) {
            Some(name) => Err(Invariant::Explained.broken(format!("{name} waits and is not told why"))),
            None => Ok(()),
        }
    }

    /// Lets operators work, and what is to go wrong go wrong.
    async fn go_wrong(&self) {
        match &self.case.injection {
            Injection::Leaders(leaders) => return Box::pin(leaders.work(self)).await,
            Injection::Swarm => {
                let (dialect, seed) = (self.case.workload.dialect(), self.case.seed);
                self.world.plan_faults(swarm::faults(dialect, seed));
                if let Some(leaders) = swarm::leaders(dialect, seed) {
                    return Box::pin(leaders.work(self)).await;
                }
            }
            Injection::Api(plan) => self.world.plan_faults(plan.clone()),
            Injection::Poison(poison) => poison.apply(self).await,
            _ => {}
        }
        let mut epoch = 0;
        let alone = self.process(FIRST, || {
            epoch += 1;
            berth_operator::alone(epoch)
        });
        let beside = async {
            match &self.case.injection {
                Injection::Meddle(meddler) => meddler.meddle(self).await,
                Injection::Weather(change) => sleep(Duration::from_millis(latest_ms(change))).await,
                _ => {}
            }
            self.all_is_done();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            biased;
            () = beside => {}
            () = alone => {}
        }
    }

    /// Nothing more is going to go wrong.
    pub(crate) fn all_is_done(&self) {
        self.is_done.send_replace(true);
    }

    /// Waits until nothing is going to go wrong any more; what has no occasion to is not waited for long.
    async fn faults_over(&self) {
        let mut is_done = self.is_done.subscribe();
        let _ = timeout(FAULTS_OVER, is_done.wait_for(|done| *done)).await;
        let storm_ms = match &self.case.injection {
            Injection::Vpsie(faults) => latest_ms(faults),
            Injection::Swarm if self.vpsie.is_some() => swarm::STORM_MS,
            _ => 0,
        };
        sleep(Duration::from_millis(storm_ms.saturating_sub(self.elapsed_ms()))).await;
    }

    /// What operators say they decided last.
    fn decisions(&self) -> impl Iterator<Item = Decision> {
        let reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        let decisions = reports.iter().flat_map(|report| report.borrow().decisions.clone());
        decisions.collect::<Vec<_>>().into_iter()
    }

    /// The same in a few lines.
    fn decided(&self) -> String {
        let lines = self.decisions().take(40);
        let lines = lines.map(|of| format!("{} {:?} {}: {}", of.at, of.kind, of.reason, of.message));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Something has gone wrong as planned.
    pub(crate) fn strike(&self) {
        self.struck.fetch_add(1, Ordering::Relaxed);
    }

    fn struck(&self) -> usize {
        match &self.case.injection {
            Injection::Api(_) | Injection::Swarm => self.world.faults_struck().len(),
            Injection::Vpsie(_) => self
                .vpsie
                .as_ref()
                .map_or(0, |vpsie| usize::try_from(vpsie.faults_struck()).unwrap_or(usize::MAX)),
            Injection::Weather(change) => self.cloud.inspect(|account| befallen(account, change)),
            // There is nothing to wait for: it is so from the beginning.
            Injection::Nothing | Injection::Leaders(Leaders::Both { .. }) => 1,
            _ => self.struck.load(Ordering::Relaxed),
        }
    }

    /// Waits until it holds, at each change.
    pub(crate) async fn when(&self, holds: impl Fn(&State) -> bool) {
        let mut revisions = self.world.revisions();
        while !self.truth.look(&holds) {
            // The world holds the sender.
            let _ = revisions.changed().await;
        }
    }

    /// Waits until operators have written so often.
    pub(crate) async fn writes_done(&self, nth: u64) {
        self.when(|state| state.counts.writes >= nth).await;
    }

    /// An operator that is started again whenever it ends.
    pub(crate) async fn process(&self, name: &str, mut lead: impl FnMut() -> Lead) {
        let calls = Arc::new(AtomicU64::new(0));
        loop {
            let operator = self.operator(name, &calls, lead());
            self.reports.lock().unwrap_or_else(PoisonError::into_inner).push(operator.reports());
            tokio::select! {
                biased;
                () = self.world.crashed(name) => {}
                () = operator.run() => {}
            }
            if matches!(self.case.injection, Injection::Cloud(_)) {
                self.strike();
            }
            sleep(RESTART).await;
            self.world.restart(name);
        }
    }

    fn operator(&self, name: &str, calls: &Arc<AtomicU64>, lead: Lead) -> Operator {
        let cluster = Cluster::through(Client::new(self.world.client(name), "default"), "the world");
        let crash = match self.case.injection {
            Injection::Cloud(crash) if name == FIRST => Some(crash),
            _ => None,
        };
        let witness = Witness {
            world: self.world.clone(),
            truth: self.truth.clone(),
            client: name.to_owned(),
            crash,
            asked: calls.clone(),
        };
        let (world, client) = (self.world.clone(), name.to_owned());
        let clock = Clock::new(move || world.clock_of(&client));
        let settings =
            Settings { failed_vpsie_nodes: Failures::KeptSecs(FAILURES_KEPT_SECS), ..Settings::default() };
        let at_vpsie = (self.case.workload.dialect(), &self.vpsie);
        let (kind, cloud) = if let (Dialect::Vpsie(family), Some(vpsie)) = at_vpsie {
            let vpsie = InProcess(vpsie.clone());
            let transport = Arc::new(JudgedTransport { vpsie, witness });
            let access = account::access(family, "kube-system", name);
            let cloud = berth_operator::vpsie_cloud(&cluster, access, transport, &clock, &settings.metrics);
            (ClassKind::Vpsie, JudgedCloud { cloud, witness: None })
        } else {
            let cloud: Arc<dyn Cloud> = Arc::new(self.cloud.clone());
            (ClassKind::Kwok, JudgedCloud { cloud, witness: Some(witness) })
        };
        let cloud: Arc<dyn Cloud> = Arc::new(cloud);
        Operator::new(cluster, BTreeMap::from([(kind, cloud)]), clock, settings, lead)
    }
}

/// How often something befell somebody that this weather has and its workload's has not.
fn befallen(account: &Account, change: &Value) -> usize {
    let happened = |is_it: fn(&Event) -> bool| {
        account.history().iter().filter(|happening| is_it(&happening.event)).count()
    };
    let struck = usize::try_from(account.faults_struck()).unwrap_or(usize::MAX);
    let parts = [
        ("reclaims", happened(|event| matches!(event, Event::Noticed { .. }))),
        ("times", happened(|event| matches!(event, Event::Launched { .. }))),
        ("strangers", account.records().iter().filter(|record| record.purchase.is_none()).count()),
        // Lists that went on, though all would have been on one page.
        ("lists", happened(|event| matches!(event, Event::Asked { call: Call::List, about: Some(_), .. }))),
    ];
    parts.into_iter().filter(|(part, _)| !change[*part].is_null()).map(|(_, count)| count).sum::<usize>()
        + struck
}

/// When the last that a weather foretells has happened, with some time for what follows from it.
fn latest_ms(weather: &Value) -> u64 {
    let own = ["atMs", "untilMs"].iter().filter_map(|key| weather[*key].as_u64()).max();
    let own = own.map(|at| at + weather["noticeMs"].as_u64().unwrap_or(0) + 60_000);
    let below = match weather {
        Value::Object(fields) => fields.values().map(latest_ms).max(),
        Value::Array(items) => items.iter().map(latest_ms).max(),
        _ => None,
    };
    own.max(below).unwrap_or(0)
}

/// The definitions of the kinds that a dialect has.
fn definitions(dialect: Dialect) -> Vec<Value> {
    let text = berth_api::crds::yaml().expect("they can be written");
    let source = berth_api::Source::Text { name: "crds".to_owned(), text };
    let (objects, problems) = berth_api::objects(&[source]);
    assert!(problems.is_empty(), "{problems:?}");
    let definitions = objects.into_iter().map(|object| object.value);
    let is_used =
        |definition: &Value| dialect.defined().iter().any(|name| definition["metadata"]["name"] == *name);
    definitions.filter(is_used).collect()
}
