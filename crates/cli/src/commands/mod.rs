//! One module for each command.

pub(crate) mod advise;
pub(crate) mod catalog;
pub(crate) mod completions;
pub(crate) mod crds;
pub(crate) mod demo;
pub(crate) mod explain;
mod guest;
mod input;
pub(crate) mod run;
pub(crate) mod world;

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::args::Listen;

/// What a command that ran has to say to whoever called it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Done,
    No,
    /// Something of the input could not be used; it has been reported.
    BadInput,
}

impl From<Answer> for ExitCode {
    fn from(answer: Answer) -> Self {
        Self::from(match answer {
            Answer::Done => 0,
            Answer::No => 1,
            Answer::BadInput => 2,
        })
    }
}

/// Why a command could not run to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("cannot write to standard output: {0}")]
    Output(io::Error),
    #[error("cannot write {}: {error}", path.display())]
    File { path: PathBuf, error: io::Error },
    #[error("{} exists already, and is left alone; name another file, or remove it", path.display())]
    FileExists { path: PathBuf },
    #[error(
        "another program listens on {address}; choose another port with --port, or leave it out for a free one"
    )]
    PortInUse { address: SocketAddr },
    #[error("another program listens on {listen}; choose another with {flag}, or 0 for none")]
    DoorInUse { listen: Listen, flag: &'static str },
    #[error("cannot listen on {listen}, which {flag} names: {error}")]
    Door { listen: Listen, flag: &'static str, error: io::Error },
    #[error("--vpsie-ca-file: cannot read {}: {error}", path.display())]
    VpsieAuthorities { path: PathBuf, error: io::Error },
    #[error("--vpsie-ca-file: {0}")]
    VpsieTransport(#[from] berth_cloud::vpsie::TransportError),
    #[error("-f is only for --shadow: what Berth works on is in the cluster; apply it there with kubectl")]
    GivenWithoutShadow,
    #[error("not all manifests of -f can be read")]
    GivenUnreadable,
    #[error("cannot read the pools' ledgers: {0}")]
    Ledgers(berth_operator::Refused),
    #[error(transparent)]
    Unfit(#[from] berth_operator::Unfit),
    #[error(
        "another program listens on {address}; choose another port with --api-port, or leave it out for a free one"
    )]
    ApiPortInUse { address: SocketAddr },
    #[error("another program listens on {address}; choose another port with --port, or 0 for a free one")]
    PagePortInUse { address: SocketAddr },
    #[error("cannot listen on {address}: {error}")]
    Listen { address: SocketAddr, error: io::Error },
    #[error("the demo's own objects were not taken: {0}")]
    Demo(berth_api::Problem),
    #[error("the demo has ended by itself, which it should not")]
    DemoEnded,
    #[error(transparent)]
    Serve(berth_world::ServeError),
    #[error("cannot run: {0}")]
    Runtime(io::Error),
    #[error("there is no pod {pod}; {}", if near.is_empty() { "its namespace has none".to_owned() } else { format!("its namespace has {near}") })]
    NoSuchPod { pod: String, near: String },
    #[error("there is no node {node}; {}", if known.is_empty() { "the input has none".to_owned() } else { format!("the input has {known}") })]
    NoSuchNode { node: String, known: String },
    #[error(transparent)]
    Cluster(#[from] berth_operator::Unreachable),
    #[error(transparent)]
    Catalog(#[from] berth_cloud::LoadError),
    #[error(transparent)]
    Cloud(#[from] world::cloud::CloudError),
    #[error(transparent)]
    Crds(#[from] berth_api::crds::CrdError),
    #[error("cannot make the page: {0}")]
    Page(#[from] askama::Error),
}

fn write_file(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|error| Failure::File { path: path.to_owned(), error })
}
