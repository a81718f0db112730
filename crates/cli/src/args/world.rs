//! The flags of `berth world`.

use std::path::PathBuf;

use berth_core::catalog::OfferingPattern;
use berth_world::faults::{Fault, Harm, PlanError};
use clap::Args;

use super::{Offers, offering_pattern};

#[derive(Debug, Args)]
#[command(after_help = "\
A world is a Kubernetes in one process: its API on 127.0.0.1, over TLS, a scheduler, controllers,
kubelets and a cloud, with everything in memory. Nothing is really run: pods are pending, running
and done as kubelets would report it. Its nodes are machines of the cloud, which says on standard
output what it does to them by itself. It is a new cluster with the custom resource definitions
that `berth crds` prints. It ends with this process, and so does all that was in it.

Examples:
  berth world
      Prints what to type in another shell.
  berth world --nodes 50 --fault '* before update leases.coordination.k8s.io #10x3: status 503'
      A larger one, in which something goes wrong.
  berth world --nodes 4 --machine '*:*:spot' --machine '*:*:on-demand' \\
      --weather '{reclaims: [{atMs: 60000, noticeMs: 30000, machinesMax: 1}]}'
      Two of four nodes are on spot; after a minute one of them gets notice of 30 seconds.
  berth world --catalog aws-us-east-1 --machine 'm5.large:*:*' --weather '{times: {}}'
      Machines as Amazon sells them, which take 45 seconds to join.
  berth world --port 6443 --kubeconfig world.kubeconfig -f examples/shop/
      Where others expect it, with something in it. The file must not exist, and is removed
      at the end.
  berth world --kubeconfig world.kubeconfig &
  until kubectl --kubeconfig world.kubeconfig get namespaces; do sleep 1; done
      In a script; `kill %1` ends it.

Exit codes: 0 it was ended; 2 bad input or usage.")]
pub(crate) struct World {
    /// The port to listen on; a free one if not given
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    pub(crate) port: u16,

    /// Where to write the kubeconfig; if not given, in a directory of its own among the system's temporary files
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// What identities and generated names are drawn from: the same seed gives the same ones in the same order
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub(crate) seed: u64,

    /// How many machines there are at the start, each of them a node
    #[arg(long, value_name = "NUMBER", default_value_t = 3)]
    pub(crate) nodes: u16,

    /// What these machines are, with * for any; may be repeated, and then they are bought by turns. Any type is the
    /// cheapest with 8 CPUs and 32 GiB, any zone one after the other, any capacity type on-demand
    #[arg(long = "machine", value_name = "TYPE:ZONE:CAPACITYTYPE", value_parser = offering_pattern)]
    pub(crate) machines: Vec<OfferingPattern>,

    /// What the cloud sells: kwok, aws-us-east-1, or a file
    #[arg(long, value_name = "NAME_OR_FILE", default_value = "kwok")]
    pub(crate) catalog: String,

    #[command(flatten)]
    pub(crate) offers: Offers,

    /// What the cloud is like: how long it takes, what runs out, what goes wrong. In YAML or JSON, a file or the text
    /// itself in braces. If not given, nothing goes wrong; if it says nothing of times, machines join at once
    #[arg(long, value_name = "FILE_OR_TEXT")]
    pub(crate) weather: Option<String>,

    /// Something that is to go wrong, as in 'kubectl before create pods #2: status 409'; may be repeated, and what has
    /// struck is told. The client is a program by its user agent, or * for any; then before or after; what it does or
    /// hears: get, list, watch, create, update, patch, delete, read, write, any, event; of which resource, as
    /// deployments.apps or pods/eviction, or * for any; for the so many-th time, #10x3 for three in a row. The harm is
    /// one of status CODE [retry TIME], lost, delay TIME, slow TIME, freeze TIME [of RESOURCE], rewind CHANGES for TIME
    /// [of RESOURCE]; of a list also partial COUNT; of an event also drop, repeat, swap, silence, end
    #[arg(long = "fault", value_name = "FAULT", value_parser = fault)]
    pub(crate) faults: Vec<Fault>,

    /// Manifests that are applied at the start: files, directories, or - for standard input
    #[arg(short = 'f', long = "filename", value_name = "PATH", num_args = 1..)]
    pub(crate) paths: Vec<PathBuf>,
}

/// What can befall a program that is not of this world.
fn fault(text: &str) -> Result<Fault, String> {
    let fault: Fault = text.parse().map_err(|error: PlanError| error.to_string())?;
    match fault.harm {
        Harm::Clock(_) | Harm::Pace(_) => Err("a program's clock is its own, and cannot be set".to_owned()),
        Harm::Crash => {
            Err("a program ends by itself, or whoever started it ends it; `lost` breaks its connection"
                .to_owned())
        }
        _ => Ok(fault),
    }
}
