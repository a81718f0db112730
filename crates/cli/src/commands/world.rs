//! `berth world`

pub(crate) mod cloud;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use berth_api::{Object, Timestamp};
use berth_world::faults::{Fault, FaultPlan, Unknown};
use berth_world::{ServeError, World};

use super::guest::{Written, interruption, quoted};
use super::input::source;
use super::{Answer, Failure};
use crate::args;
use crate::out;
use crate::render::view::counted;

/// Who is said to own what is there from the start.
const MANAGER: &str = "berth-world";

pub(crate) fn run(args: &args::World) -> Result<Answer, Failure> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::Runtime)?;
    runtime.block_on(live(args))
}

async fn live(args: &args::World) -> Result<Answer, Failure> {
    let now = Timestamp::now();
    let world = World::new(args.seed, now);
    world.plan_faults(FaultPlan(args.faults.clone()));
    let cloud = cloud::begin(args, now)?;
    let life = async {
        tokio::select! {
            biased;
            () = world.kubelets().live_on(&cloud) => {}
            () = cloud::tell(&cloud) => {}
            () = tell_of_faults(&world) => {}
            () = world.live() => {}
        }
    };
    tokio::pin!(life);
    // Machines that join at once are there before all else, and pods need what controllers make for each namespace.
    let is_filled = tokio::select! {
        biased;
        () = &mut life => return Ok(Answer::Done),
        is_filled = fill(&world, args) => is_filled?,
    };
    if !is_filled {
        return Ok(Answer::BadInput);
    }
    for fault in &args.faults {
        warn_if_in_vain(&world, fault);
    }
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, args.port));
    let served = world.serve(address).await.map_err(|error| match error {
        ServeError::InUse { address } => Failure::PortInUse { address },
        error => Failure::Serve(error),
    })?;
    // From here on an interrupt must not leave anything behind.
    let interrupted = interruption().map_err(Failure::Runtime)?;
    let kubeconfig = Written::new(args.kubeconfig.as_deref(), served.kubeconfig())?;
    out::text(&greeting(served.address(), &kubeconfig.path))?;
    tokio::select! {
        biased;
        () = interrupted => {}
        () = &mut life => {}
    }
    // Before all that takes time, so that nothing is left by a second interrupt either.
    drop(kubeconfig);
    served.stop().await;
    Ok(Answer::Done)
}

/// Says what has gone wrong as it was planned, for as long as this is awaited.
async fn tell_of_faults(world: &World) {
    let mut told = 0;
    loop {
        let struck = world.faults_struck_beyond(told).await;
        told += struck.len();
        for of in &struck {
            // Whoever does not listen any more may still want the world.
            let _ = out::text(&format!("{:.0} {of}\n", Timestamp::now()));
        }
    }
}

/// A definition may still come that makes it strike.
fn warn_if_in_vain(world: &World, fault: &Fault) {
    let Some(Unknown { near }) = world.unknown_to(fault) else { return };
    let resource = fault.resource.as_deref().unwrap_or_default();
    let meant = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
    out::problem(&format_args!(
        "--fault '{fault}' does not strike as long as nobody serves {resource}{meant}"
    ));
}

/// Puts Berth's definitions and what was named into the world. Says what is wrong; whether nothing is.
async fn fill(world: &World, args: &args::World) -> Result<bool, Failure> {
    let own = berth_api::Source::Text { name: "berth crds".to_owned(), text: berth_api::crds::yaml()? };
    let sources: Vec<berth_api::Source> =
        [own].into_iter().chain(args.paths.iter().map(|path| source(path, Some(&args.catalog)))).collect();
    let (mut objects, mut problems) = berth_api::objects(&sources);
    // What others need comes first, else as it stands.
    objects.sort_by_key(rank);
    for object in &objects {
        if let Err(failure) = world.apply(MANAGER, &object.value).await {
            problems.push(object.problem(failure.to_string()));
        }
    }
    for problem in &problems {
        out::problem(problem);
    }
    if !problems.is_empty() {
        out::problem(&format_args!("berth: {}; no world was started", counted(problems.len(), "problem")));
    }
    Ok(problems.is_empty())
}

fn rank(object: &Object) -> u8 {
    match object.value["kind"].as_str() {
        Some("CustomResourceDefinition") => 0,
        Some("Namespace") => 1,
        Some("PriorityClass") => 2,
        _ => 3,
    }
}

fn greeting(address: SocketAddr, kubeconfig: &Path) -> String {
    let kubeconfig = quoted(&kubeconfig.to_string_lossy());
    format!(
        "A Kubernetes of its own listens on https://{address}. In another shell:

  export KUBECONFIG={kubeconfig}
  kubectl get nodes

Ctrl-C ends it and removes the kubeconfig.
"
    )
}
