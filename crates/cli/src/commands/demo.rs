//! `berth demo`

mod day;
mod hands;
mod shop;
mod stage;
mod time;

use std::io;
use std::net::SocketAddr;
use std::path::Path;

use berth_operator::page;
use tokio::net::TcpListener;

use super::guest::{Written, interruption, quoted};
use super::{Answer, Failure};
use crate::args;
use crate::out;
use stage::{Setting, Stage};

/// The page, and what listens for signals, live in true time; the world has a thread and a time of its own.
pub(crate) fn run(args: &args::Demo) -> Result<Answer, Failure> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::Runtime)?;
    runtime.block_on(show(args))
}

async fn show(args: &args::Demo) -> Result<Answer, Failure> {
    let address = SocketAddr::from((args.listen, args.port));
    let refused = |error: io::Error| match error.kind() {
        io::ErrorKind::AddrInUse => Failure::PagePortInUse { address },
        _ => Failure::Listen { address, error },
    };
    let listener = TcpListener::bind(address).await.map_err(refused)?;
    let page_at = listener.local_addr().map_err(refused)?;
    // From here on an interrupt must not leave anything behind.
    let interrupted = interruption().map_err(Failure::Runtime)?;
    let stage = stage::begin(Setting { api_port: args.api_port, seed: args.seed, cloud: args.cloud }).await?;
    let Stage { address: api_at, kubeconfig, reports, controls, mut running } = stage;
    let kubeconfig = Written::new(args.kubeconfig.as_deref(), &kubeconfig)?;
    out::text(&greeting(page_at, api_at, &kubeconfig.path, args.cloud))?;
    let ending = tokio::select! {
        biased;
        () = interrupted => Ok(Answer::Done),
        () = running.ended() => Err(Failure::DemoEnded),
        served = axum::serve(listener, page::router(page_at, reports, Some(controls))) => {
            served.map(|()| Answer::Done).map_err(Failure::Runtime)
        }
    };
    // Before all that takes time, so that nothing is left by a second interrupt either.
    drop(kubeconfig);
    running.stop();
    ending
}

fn greeting(page: SocketAddr, api: SocketAddr, kubeconfig: &Path, cloud: args::DemoCloud) -> String {
    let claims = match cloud {
        args::DemoCloud::Kwok => "nodeclaims",
        args::DemoCloud::Vpsie => "ng,vn",
    };
    let kubeconfig = quoted(&kubeconfig.to_string_lossy());
    let kubectl = format!("kubectl --kubeconfig {kubeconfig}");
    format!(
        "Berth runs a shop. Look at it: http://{page}

In another shell, with its API on https://{api}:

  {kubectl} scale deployment/web --replicas 40
  {kubectl} get pods,nodes,{claims} -A

Ctrl-C ends it, and leaves nothing behind.
"
    )
}
