//! The demo's world with its cloud, the operator on it, and the shop: all on a thread and a clock of their own.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use berth_api::{ClassKind, Object, Source, Timestamp};
use berth_cloud::vpsie::Family;
use berth_cloud::{CatalogOptions, Cloud, LoadError};
use berth_operator::page::Controls;
use berth_operator::{Clock, Cluster, Operator, Report, Settings, VpsieAccess};
use berth_world::cloud::weather::{Delay, Times};
use berth_world::cloud::{Account, SimulatedCloud, Weather};
use berth_world::vpsie::{Faults, InProcess, Vpsie, VpsieSettings};
use berth_world::{ServeError, World};
use kube::Client;
use tokio::sync::{mpsc, oneshot, watch};

use super::hands::Hands;
use super::shop::{NAMESPACE, Shop};
use super::time::Metronome;
use crate::args::DemoCloud;
use crate::commands::Failure;

/// As which the demo speaks to its world.
pub(super) const NAME: &str = "berth-demo";
/// By which name people know its cluster.
const CLUSTER: &str = "A cluster of its own";
const SHOP: &str = include_str!("shop.yaml");
/// What it is called at VPSie, and by which token the demo is known there.
const VPSIE_CLUSTER: &str = "demo";
const VPSIE_TOKEN: &str = "demo";

/// A world that is alive, as others need it.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) address: SocketAddr,
    pub(super) kubeconfig: String,
    pub(super) reports: watch::Receiver<Arc<Report>>,
    pub(super) controls: Controls,
    /// Once dropped, the world ends.
    pub(super) running: Running,
}

/// The thread of a world. It ends when it is told to, or by itself if something is wrong with it.
#[derive(Debug)]
pub(super) struct Running {
    stop: oneshot::Sender<()>,
    ended: oneshot::Receiver<()>,
    thread: thread::JoinHandle<()>,
}

impl Running {
    /// Waits until it has ended by itself.
    pub(super) async fn ended(&mut self) {
        // Its other end is dropped at the end, however that comes.
        let _ = (&mut self.ended).await;
    }

    pub(super) fn stop(self) {
        drop(self.stop);
        // A panic in there has been reported, and there is nothing left to stop.
        let _ = self.thread.join();
    }
}

/// Where the API is to listen, what names are drawn from, and from whom nodes are bought.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub(super) api_port: u16,
    pub(super) seed: u64,
    pub(super) cloud: DemoCloud,
}

/// Starts a world on a thread of its own. Comes back once it answers.
pub(super) async fn begin(setting: Setting) -> Result<Stage, Failure> {
    let (ready, is_ready) = oneshot::channel();
    let (stop, stopped) = oneshot::channel();
    let (end, ended) = oneshot::channel();
    let body = move || {
        play(setting, ready, stopped);
        drop(end);
    };
    let thread = thread::Builder::new().name("world".to_owned()).spawn(body).map_err(Failure::Runtime)?;
    let running = Running { stop, ended, thread };
    let Ok(begun) = is_ready.await else { return Err(Failure::DemoEnded) };
    let Begun { address, kubeconfig, reports, controls } = begun?;
    Ok(Stage { address, kubeconfig, reports, controls, running })
}

struct Begun {
    address: SocketAddr,
    kubeconfig: String,
    reports: watch::Receiver<Arc<Report>>,
    controls: Controls,
}

type Ready = oneshot::Sender<Result<Begun, Failure>>;

fn play(setting: Setting, ready: Ready, stopped: oneshot::Receiver<()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    match runtime {
        Ok(runtime) => runtime.block_on(live(setting, ready, stopped)),
        Err(error) => drop(ready.send(Err(Failure::Runtime(error)))),
    }
}

async fn live(setting: Setting, ready: Ready, stopped: oneshot::Receiver<()>) {
    let metronome = Metronome::start();
    let speed = watch::Sender::new(1);
    let time = tokio::spawn(metronome.drive(speed.subscribe()));
    let now = Timestamp::now();
    let world = World::new(setting.seed, now);
    let cloud = match cloud(setting, now) {
        Ok(cloud) => cloud,
        Err(failure) => return drop(ready.send(Err(failure))),
    };
    let operator = operator(&world, &cloud, setting.cloud);
    let (wishes, wished) = mpsc::channel(16);
    let shop = Shop::new(Client::new(world.client(NAME), "default"));
    let hands = Hands::new(shop.clone(), cloud.clone(), speed);
    let controls = Controls { state: hands.state(), wishes };
    let reports = operator.reports();
    let opening = async {
        let begun = open(&world, setting).await;
        let served = match begun {
            Ok(served) => served,
            Err(failure) => return drop(ready.send(Err(failure))),
        };
        let address = served.address();
        let kubeconfig = match served.kubeconfig_in(NAMESPACE) {
            Ok(kubeconfig) => kubeconfig,
            Err(error) => return drop(ready.send(Err(Failure::Serve(error)))),
        };
        // Whoever waited for it may have left.
        let _ = ready.send(Ok(Begun { address, kubeconfig, reports, controls }));
        tokio::select! {
            biased;
            _ = stopped => {}
            () = shop.days() => {}
            () = hands.work(wished) => {}
        }
        served.stop().await;
    };
    tokio::select! {
        biased;
        () = world.kubelets().live_on(&cloud) => {}
        () = world.live() => {}
        () = operator.run() => {}
        () = opening => {}
    }
    time.abort();
}

/// Machines take some seconds to come: long enough to be seen, short enough to be waited for.
fn cloud(setting: Setting, now: Timestamp) -> Result<SimulatedCloud, Failure> {
    let times = Times {
        launch: Delay { least_ms: 2000, most_ms: 4000 },
        join: Delay { least_ms: 2000, most_ms: 5000 },
        stop: Delay::secs(2),
        ..Times::default()
    };
    let weather = Weather { times, ..Weather::default() };
    let options = CatalogOptions::default();
    Ok(SimulatedCloud::new(match setting.cloud {
        DemoCloud::Kwok => {
            let catalog = Arc::new(berth_cloud::load("kwok", &options)?);
            Account::new(catalog, weather, setting.seed, now)
        }
        DemoCloud::Vpsie => {
            let invalid = |error| LoadError::Invalid { path: "offers.json".to_owned(), error };
            let catalog =
                berth_cloud::import(include_str!("offers.json"), "vpsie", &options).map_err(invalid)?;
            Account::new(Arc::new(catalog), weather, setting.seed, now)
                .with_provider_ids("vpsie", VPSIE_CLUSTER)
        }
    }))
}

fn operator(world: &World, cloud: &SimulatedCloud, kind: DemoCloud) -> Operator {
    let cluster = Cluster::through(Client::new(world.client("berth"), "default"), CLUSTER);
    let clock = {
        let world = world.clone();
        Clock::new(move || world.clock_of("berth"))
    };
    let settings = Settings::default();
    let (class, cloud): (ClassKind, Arc<dyn Cloud>) = match kind {
        DemoCloud::Kwok => (ClassKind::Kwok, Arc::new(cloud.clone())),
        DemoCloud::Vpsie => (ClassKind::Vpsie, vpsie(&cluster, cloud, &clock, &settings)),
    };
    Operator::new(cluster, BTreeMap::from([(class, cloud)]), clock, settings, berth_operator::alone(1))
}

/// VPSie in this process, spoken to as VPSie is spoken to.
fn vpsie(cluster: &Cluster, cloud: &SimulatedCloud, clock: &Clock, settings: &Settings) -> Arc<dyn Cloud> {
    let played = VpsieSettings {
        cluster: VPSIE_CLUSTER.into(),
        datacenter: "ams-1".into(),
        client_id: VPSIE_TOKEN.into(),
        client_secret: VPSIE_TOKEN.into(),
        token: VPSIE_TOKEN.into(),
        tokens_last: Duration::from_hours(1),
        asynchronous: false,
    };
    let access = VpsieAccess {
        secret_namespace: "kube-system".to_owned(),
        secret_name: "vpsie-secret".to_owned(),
        family: Family::Servers,
        cluster: None,
        datacenter: None,
        kubernetes_version: None,
        whereabouts: settings.whereabouts.clone(),
        process: NAME.to_owned(),
    };
    let transport = Arc::new(InProcess(Vpsie::new(cloud.clone(), played, Faults::default())));
    berth_operator::vpsie_cloud(cluster, access, transport, clock, &settings.metrics)
}

/// Fills the world and lets others in.
async fn open(world: &World, setting: Setting) -> Result<berth_world::Served, Failure> {
    for object in objects(setting.cloud)? {
        let applied = world.apply(NAME, &object.value).await;
        applied.map_err(|failure| Failure::Demo(object.problem(failure.to_string())))?;
    }
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, setting.api_port));
    world.serve(address).await.map_err(|error| match error {
        ServeError::InUse { address } => Failure::ApiPortInUse { address },
        error => Failure::Serve(error),
    })
}

fn objects(cloud: DemoCloud) -> Result<Vec<Object>, Failure> {
    let market = match cloud {
        DemoCloud::Kwok => include_str!("pools.yaml"),
        DemoCloud::Vpsie => include_str!("groups.yaml"),
    };
    let sources =
        [("berth crds", berth_api::crds::yaml()?), ("market", market.to_owned()), ("shop", SHOP.to_owned())]
            .map(|(name, text)| Source::Text { name: name.to_owned(), text });
    let (objects, problems) = berth_api::objects(&sources);
    match problems.into_iter().next() {
        Some(problem) => Err(Failure::Demo(problem)),
        None => Ok(objects),
    }
}
