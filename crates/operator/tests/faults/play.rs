//! One run: a world, a workload, one or two operators, and what goes wrong.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use berth_api::{ClassKind, Timestamp};
use berth_cloud::{CatalogOptions, Cloud};
use berth_core::catalog::Catalog;
use berth_operator::{Clock, Cluster, Operator, Settings};
use berth_world::World;
use berth_world::cloud::{Account, SimulatedCloud};
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::cloud::JudgedCloud;
use crate::faults::{Case, Injection};
use crate::invariants::{Broken, Invariant};
use crate::truth::{Counts, State, Truth};

const BEGAN: &str = "2026-03-01T09:00:00Z";
/// The first operator; faults are its.
pub(crate) const FIRST: &str = "berth";
/// Whoever else changes something.
const SOMEBODY: &str = "test";
/// How long a process takes to start again.
const RESTART: Duration = Duration::from_secs(2);
/// After so long everything has come to rest: a machine is waited for, a drain, and two lists of everything.
const CONVERGED_SECS_MAX: u64 = 3600;
/// For so long nothing is written once all is at rest.
const REST: Duration = Duration::from_secs(120);
/// What was said or noticed late is written by then.
const CALM: Duration = Duration::from_secs(65);

/// What became of a run.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) broken: Option<Broken>,
    /// What was true at the end.
    pub(crate) told: String,
    pub(crate) counts: Counts,
    /// How many faults struck.
    pub(crate) struck: usize,
}

/// Everything that goes on.
pub(crate) struct Stage {
    pub(crate) world: World,
    pub(crate) cloud: SimulatedCloud,
    pub(crate) truth: Truth,
    client: Client,
    began: Instant,
}

/// Plays a case, in virtual time, on this thread.
pub(crate) fn play(case: &Case, catalog: &Arc<Catalog>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(played(case, catalog))
}

pub(crate) fn catalog() -> Arc<Catalog> {
    Arc::new(berth_cloud::load("kwok", &CatalogOptions::default()).expect("it is built in"))
}

async fn played(case: &Case, catalog: &Arc<Catalog>) -> Outcome {
    let stage = Stage::new(case, catalog).await;
    if let Injection::Api(fault) = &case.injection {
        stage.world.plan_faults(berth_world::faults::FaultPlan(vec![fault.clone()]));
    }
    let script = async {
        case.workload.play(&stage).await?;
        stage.rest().await?;
        stage.truth.look(|state| bought_enough(case, state))
    };
    let broken = tokio::select! {
        biased;
        broken = stage.truth.judge() => Some(broken),
        () = stage.world.kubelets().live_on(&stage.cloud) => None,
        () = stage.world.live() => None,
        () = stage.process(FIRST, case) => None,
        played = script => played.err(),
    };
    let (told, counts) = stage.truth.look(|state| (state.told(), state.counts.clone()));
    Outcome { broken, told, counts, struck: stage.world.faults_struck().len() }
}

/// What goes wrong costs some claims; without an end they would be more.
fn bought_enough(case: &Case, state: &State) -> Result<(), Broken> {
    let max = case.workload.claims_max() + case.injection.claims_lost();
    let made = state.counts.claims_made;
    if made > max {
        return Err(Invariant::NoFlapping.broken(format!("{made} claims were made; {max} are enough")));
    }
    Ok(())
}

impl Stage {
    async fn new(case: &Case, catalog: &Arc<Catalog>) -> Self {
        let now: Timestamp = BEGAN.parse().expect("a time");
        let world = World::new(case.seed, now);
        let account = Account::new(catalog.clone(), case.weather(), case.seed, now);
        let cloud = SimulatedCloud::new(account);
        let client = Client::new(world.client(SOMEBODY), "default");
        let truth = Truth::new(&world, &cloud);
        let stage = Self { world, cloud, truth, client, began: Instant::now() };
        for definition in definitions() {
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
        self.client.request::<Value>(request).await.expect("it is deleted");
    }

    pub(crate) async fn patch(&self, path: &str, change: &Value) {
        let request = http::Request::patch(path)
            .header("content-type", "application/merge-patch+json")
            .body(change.to_string().into_bytes())
            .expect("a request");
        self.client.request::<Value>(request).await.expect("it is changed");
    }

    async fn get(&self, path: &str) -> Value {
        let request = http::Request::get(path).body(Vec::new()).expect("a request");
        self.client.request(request).await.expect("an answer")
    }

    /// Adds a condition that holds to an object's status.
    pub(crate) async fn condition(&self, path: &str, kind: &str) {
        let object = self.get(path).await;
        let mut conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let now = object["metadata"]["creationTimestamp"].clone();
        conditions.push(json!({
            "type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": now,
        }));
        self.patch(&format!("{path}/status"), &json!({ "status": { "conditions": conditions } })).await;
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
            let news = now.asked.iter().filter(|(what, count)| then.asked.get(*what) != Some(*count));
            let news: Vec<String> = news.map(|((verb, of), _)| format!("{verb} {of}")).collect();
            let how = format!("{} writes at rest: {}", now.writes - then.writes, news.join(", "));
            return Err(Invariant::Idempotence.broken(how));
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
            let waiting = state.pods.iter().filter(|(_, pod)| pod.node.is_empty() && pod.deletion.is_none());
            waiting.map(|((_, name), _)| name.clone()).collect::<Vec<_>>()
        });
        match waiting.iter().find(|name| !told.contains(&name.as_str())) {
            Some(name) => Err(Invariant::Explained.broken(format!("{name} waits and is not told why"))),
            None => Ok(()),
        }
    }

    /// An operator that is started again whenever it ends, each time as the leader of a new epoch.
    async fn process(&self, name: &str, case: &Case) {
        let calls = Arc::new(AtomicU64::new(0));
        for epoch in 1.. {
            let (lead, hears) = watch::channel(Some(epoch));
            let operator = self.operator(name, case, &calls, hears);
            tokio::select! {
                biased;
                () = self.world.crashed(name) => {}
                () = operator.run() => {}
            }
            drop(lead);
            sleep(RESTART).await;
            self.world.restart(name);
        }
    }

    fn operator(
        &self,
        name: &str,
        case: &Case,
        calls: &Arc<AtomicU64>,
        lead: berth_operator::Lead,
    ) -> Operator {
        let cluster = Cluster::through(Client::new(self.world.client(name), "default"), "the world");
        let crash = match case.injection {
            Injection::Cloud(crash) if name == FIRST => Some(crash),
            _ => None,
        };
        let cloud: Arc<dyn Cloud> = Arc::new(JudgedCloud {
            world: self.world.clone(),
            cloud: self.cloud.clone(),
            truth: self.truth.clone(),
            client: name.to_owned(),
            crash,
            asked: calls.clone(),
        });
        let (world, client) = (self.world.clone(), name.to_owned());
        let clock = Clock::new(move || world.clock_of(&client));
        let clouds = BTreeMap::from([(ClassKind::Kwok, cloud)]);
        Operator::new(cluster, clouds, clock, Settings::default(), lead)
    }
}

/// The definitions of the kinds that workloads use.
fn definitions() -> Vec<Value> {
    const USED: [&str; 3] =
        ["nodepools.karpenter.sh", "nodeclaims.karpenter.sh", "kwoknodeclasses.karpenter.kwok.sh"];
    let text = berth_api::crds::yaml().expect("they can be written");
    let source = berth_api::Source::Text { name: "crds".to_owned(), text };
    let (objects, problems) = berth_api::objects(&[source]);
    assert!(problems.is_empty(), "{problems:?}");
    let definitions = objects.into_iter().map(|object| object.value);
    definitions.filter(|definition| USED.iter().any(|name| definition["metadata"]["name"] == *name)).collect()
}
