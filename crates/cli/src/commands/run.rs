//! `berth run`

mod leading;
mod log;

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use berth_api::{ClassKind, Object, Source, Timestamp};
use berth_cloud::vpsie::{TlsSettings, TlsTransport};
use berth_cloud::{CatalogOptions, Cloud, QuotingCloud};
use berth_core::names::Text;
use berth_operator::{
    Clock, Clouds, Cluster, Mode, Operator, Report, Rivals, Settings, Undertaking, VpsieAccess, Webhook,
};
use tokio::runtime::{Builder, Handle};
use tokio::sync::watch;
use tokio::time::{Instant, interval_at, timeout};

use super::guest::interruption;
use super::{Answer, Failure, input};
use crate::args;
use crate::out;
use leading::Leading;

/// What was begun is finished in so long, or left to whoever leads next: each step may be done twice. Kubernetes ends a
/// process after 30 seconds.
const FINISH_MAX: Duration = Duration::from_secs(20);
/// How often a shadow says what would have been saved.
const TELL_SAVINGS: Duration = Duration::from_hours(1);

type Reports = watch::Receiver<Arc<Report>>;

pub(crate) fn run(args: &args::Run) -> Result<Answer, Failure> {
    let (level, format) = args.log();
    log::begin(level, format);
    // What is seen and what is made of it is all on one thread, and so in one heap: what one round gives back the next
    // one takes. What answers others and renews the lease does not wait for a plan, and is on another.
    let runtime = Builder::new_current_thread().enable_all().build().map_err(Failure::Runtime)?;
    let side = Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let side = side.map_err(Failure::Runtime)?;
    let answer = runtime.block_on(async {
        let stopped = interruption().map_err(Failure::Runtime)?;
        Box::pin(work(args, side.handle(), stopped)).await
    });
    // Nobody waits for connections that others keep open.
    side.shutdown_background();
    runtime.shutdown_background();
    answer
}

async fn work(args: &args::Run, side: &Handle, stopped: impl Future<Output = ()>) -> Result<Answer, Failure> {
    let mut stopped = pin!(stopped);
    for remark in args.remarks() {
        tracing::warn!("{remark}");
    }
    // Before the cluster is asked anything: what cannot work is said at once.
    let doors = Doors::open(args)?;
    let given = given(args)?;
    let clock = Clock::system();
    let reaching = async {
        let cluster = Cluster::reach(&args.which.choice()).await?;
        let lease_namespace = args.elects_leader().then(|| leading::lease_namespace(args));
        let wanted = Undertaking {
            mode: args.mode(),
            has_vpsie: args.vpsie.secret_name.is_some(),
            lease: &args.leader_election_name,
            lease_namespace: lease_namespace.as_deref(),
        };
        berth_operator::beforehand(&cluster.patiently(), &clock, wanted).await?;
        let leading = Leading::begin(args, &cluster.patiently(), &clock, side).await?;
        Ok::<_, Failure>((cluster, leading, Rivals::of(wanted)))
    };
    let (cluster, leading, rivals) = tokio::select! {
        biased;
        () = &mut stopped => return Ok(Answer::Done),
        reached = reaching => reached?,
    };
    let paced = cluster.paced(args.kube_client_qps, args.kube_client_burst);
    let settings = Settings { given, rivals: Some(rivals), ..args.settings() };
    let clouds = clouds(args, &paced, &clock, &settings)?;
    let operator = Operator::new(paced, clouds, clock, settings, leading.lead());
    let reports = operator.reports();
    doors.serve(&operator, args, side)?;
    tracing::info!(
        cluster = cluster.server(),
        shadow = args.shadow,
        version = env!("CARGO_PKG_VERSION"),
        "berth runs"
    );
    let mut working = pin!(operator.run());
    tokio::select! {
        biased;
        () = &mut stopped => {}
        () = &mut working => {}
        () = tell_savings(reports.clone()), if args.shadow => {}
    }
    tracing::info!("berth ends");
    leading.finish();
    tokio::select! {
        biased;
        () = &mut working => {}
        () = finished(reports.clone()) => {}
    }
    leading.leave().await;
    if args.shadow {
        out::text(&savings(&reports.borrow()))?;
    }
    Ok(Answer::Done)
}

/// What is to be judged by besides what the cluster holds.
fn given(args: &args::Run) -> Result<Vec<Object>, Failure> {
    if args.paths.is_empty() {
        return Ok(Vec::new());
    }
    if !args.shadow {
        return Err(Failure::GivenWithoutShadow);
    }
    let sources: Vec<Source> = args.paths.iter().map(|path| input::source(path, None)).collect();
    let (objects, problems) = berth_api::objects(&sources);
    for problem in &problems {
        out::problem(problem);
    }
    if problems.is_empty() { Ok(objects) } else { Err(Failure::GivenUnreadable) }
}

/// Waits until nothing is decided any more and all that was begun is done; but not for ever.
async fn finished(mut reports: Reports) {
    let is_over = |report: &Arc<Report>| !report.is_leader && report.under_way == 0;
    if timeout(FINISH_MAX, reports.wait_for(is_over)).await.is_err() {
        tracing::warn!("not all that was begun is done; whoever leads next goes on with it");
    }
}

/// The clouds that pools can buy from. A shadow buys nothing, and needs only prices.
fn clouds(
    args: &args::Run,
    cluster: &Cluster,
    clock: &Clock,
    settings: &Settings,
) -> Result<Clouds, Failure> {
    let catalog = |name| berth_cloud::load(name, &CatalogOptions::default()).map(Arc::new);
    let quoting =
        |name| -> Result<Arc<dyn Cloud>, Failure> { Ok(Arc::new(QuotingCloud::new(catalog(name)?))) };
    let mut clouds = match args.mode() {
        Mode::Shadow => {
            Clouds::from([(ClassKind::Kwok, quoting("kwok")?), (ClassKind::Ec2, quoting("aws-us-east-1")?)])
        }
        Mode::Act => {
            Clouds::from([(ClassKind::Kwok, berth_operator::kwok_cloud(cluster, catalog("kwok")?, clock))])
        }
    };
    // Only VPSie itself knows its prices; a shadow asks it for them.
    clouds.extend(vpsie_cloud(&args.vpsie, cluster, clock, settings)?.map(|cloud| (ClassKind::Vpsie, cloud)));
    Ok(clouds)
}

/// VPSie, if there is a Secret for it.
fn vpsie_cloud(
    args: &args::Vpsie,
    cluster: &Cluster,
    clock: &Clock,
    settings: &Settings,
) -> Result<Option<Arc<dyn Cloud>>, Failure> {
    let Some(secret_name) = args.secret_name.clone() else { return Ok(None) };
    let read = |path: &PathBuf| {
        let failed = |error| Failure::VpsieAuthorities { path: path.clone(), error };
        std::fs::read_to_string(path).map_err(failed)
    };
    let extra_roots = args.ca_file.as_ref().map(read).transpose()?;
    let transport = TlsTransport::new(&TlsSettings { floor: args.tls_min.into(), extra_roots })?;
    let access = VpsieAccess {
        secret_namespace: args.secret_namespace.clone(),
        secret_name,
        family: args.api.into(),
        cluster: args.resource_identifier.as_deref().map(Text::from),
        datacenter: args.default_datacenter_id.as_deref().map(Text::from),
        kubernetes_version: args.kubernetes_version.as_deref().map(Text::from),
        whereabouts: settings.whereabouts.clone(),
        process: leading::identity(),
    };
    Ok(Some(berth_operator::vpsie_cloud(cluster, access, Arc::new(transport), clock, &settings.metrics)))
}

async fn tell_savings(reports: Reports) {
    let mut hours = interval_at(Instant::now() + TELL_SAVINGS, TELL_SAVINGS);
    loop {
        hours.tick().await;
        let report = reports.borrow().clone();
        tracing::info!(
            target: "berth::savings",
            would_have_saved = report.course.could_have_saved.to_string(),
            "{}", savings(&report).trim_end()
        );
    }
}

/// What would have been saved, for people.
fn savings(report: &Report) -> String {
    let course = &report.course;
    let Some(first) = course.points().next() else {
        return "Nothing was planned yet.\n".to_owned();
    };
    let minutes = Timestamp::now().duration_since(first.at).as_secs().max(0) / 60;
    let now = course.last().map_or_else(String::new, |last| {
        format!(" It costs ${} an hour now; it could cost ${} at least.", last.cost, last.lower_bound)
    });
    format!("In {minutes} minutes Berth would have saved ${}.{now}\n", course.could_have_saved)
}

/// The ports that others ask at.
struct Doors {
    metrics: Option<TcpListener>,
    health: Option<TcpListener>,
    page: Option<TcpListener>,
    webhook: Option<TcpListener>,
}

impl Doors {
    fn open(args: &args::Run) -> Result<Self, Failure> {
        let webhook = if args.webhook.enabled { door(&args.webhook.listen, "--webhook-addr")? } else { None };
        Ok(Self {
            metrics: door(&args.metrics_port, "--metrics-port")?,
            health: door(&args.health_probe_port, "--health-probe-port")?,
            page: door(&args.page_port, "--page-port")?,
            webhook,
        })
    }

    /// All of it ends with the process.
    fn serve(self, operator: &Operator, args: &args::Run, side: &Handle) -> Result<(), Failure> {
        let _on_the_side = side.enter();
        let mut readiness = None;
        if let Some(listener) = self.webhook {
            let listener = ready_listener(listener)?;
            let webhook = Webhook::new(args.webhook.files(), &operator.metrics());
            readiness = Some(webhook.readiness());
            side.spawn(webhook.serve(listener));
        }
        let lease = &args.leader_election_name;
        let routers = [
            (self.metrics, berth_operator::metrics_router(operator.metrics(), operator.reports(), lease)),
            (self.health, berth_operator::health_router(operator.reports(), readiness)),
        ];
        for (listener, router) in routers {
            if let Some(listener) = listener {
                let listener = ready_listener(listener)?;
                side.spawn(async move { axum::serve(listener, router).await });
            }
        }
        if let Some(listener) = self.page {
            let listener = ready_listener(listener)?;
            let address = listener.local_addr().map_err(Failure::Runtime)?;
            let router = berth_operator::page::router(address, operator.reports(), None);
            side.spawn(async move { axum::serve(listener, router).await });
        }
        Ok(())
    }
}

fn ready_listener(listener: TcpListener) -> Result<tokio::net::TcpListener, Failure> {
    listener.set_nonblocking(true).map_err(Failure::Runtime)?;
    tokio::net::TcpListener::from_std(listener).map_err(Failure::Runtime)
}

/// On one address of the machine or on all of them; none for port 0.
fn door(listen: &args::Listen, flag: &'static str) -> Result<Option<TcpListener>, Failure> {
    let port = listen.port;
    if port == 0 {
        return Ok(None);
    }
    let bound = match &listen.host {
        Some(host) => TcpListener::bind((host.as_str(), port)),
        None => match TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)) {
            // A machine without IPv6.
            Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
                TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))
            }
            bound => bound,
        },
    };
    bound.map(Some).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => Failure::DoorInUse { listen: listen.clone(), flag },
        _ => Failure::Door { listen: listen.clone(), flag, error },
    })
}
