//! Whether this replica leads.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use berth_cloud::vpsie::SUCCESSION_MIN;
use berth_operator::{Clock, Cluster, Elector, Lead, Mode, Terms, Wish};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::args;
use crate::commands::Failure;

/// A lease that is not released in so long runs out by itself.
const LEAVE_MAX: Duration = Duration::from_secs(5);

/// Where a pod finds the name of its namespace.
const OWN_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
const NAMESPACE_OUTSIDE: &str = "kube-system";

pub(super) enum Leading {
    /// A shadow never does.
    Never(watch::Sender<Option<u64>>),
    /// By the lease, or without others.
    Wanted { lead: Lead, wish: watch::Sender<Wish>, task: JoinHandle<()> },
}

impl Leading {
    /// The lease is renewed on the side.
    pub(super) async fn begin(
        args: &args::Run,
        cluster: &Cluster,
        clock: &Clock,
        side: &Handle,
    ) -> Result<Self, Failure> {
        if args.mode() == Mode::Shadow {
            return Ok(Self::Never(watch::Sender::new(None)));
        }
        let mut terms = Terms::default();
        if args.vpsie.secret_name.is_some() {
            terms.succession_min = SUCCESSION_MIN;
        }
        let wish = watch::Sender::new(Wish::Lead);
        if !args.elects_leader() {
            let (epoch, wait) =
                berth_operator::epoch_alone(cluster, &terms).await.map_err(Failure::Ledgers)?;
            if !wait.is_zero() {
                tracing::info!(secs = wait.as_secs(), "somebody led before, and is waited for");
            }
            let (sender, lead) = watch::channel(None);
            let task = side.spawn(berth_operator::lead_alone(sender, (epoch, wait), wish.subscribe()));
            return Ok(Self::Wanted { lead, wish, task });
        }
        let namespace = lease_namespace(args);
        let lease = (namespace.as_str(), args.leader_election_name.as_str());
        let choice = args.which.choice();
        // A connection is where it was made.
        let reaching = side.spawn(async move { Cluster::reach(&choice).await });
        let own = reaching.await.map_err(|error| Failure::Runtime(error.into()))??;
        let elector = Elector::new(own, clock.clone(), lease, &identity()).with_terms(terms);
        let lead = elector.lead();
        let task = side.spawn(elector.run(wish.subscribe()));
        Ok(Self::Wanted { lead, wish, task })
    }

    pub(super) fn lead(&self) -> Lead {
        match self {
            Self::Never(lead) => lead.subscribe(),
            Self::Wanted { lead, .. } => lead.clone(),
        }
    }

    /// Leads no more, and lets nobody else lead yet.
    pub(super) fn finish(&self) {
        match self {
            Self::Never(_) => {}
            Self::Wanted { wish, .. } => drop(wish.send_replace(Wish::Finish)),
        }
    }

    /// Lets others lead.
    pub(super) async fn leave(self) {
        if let Self::Wanted { wish, task, .. } = self {
            wish.send_replace(Wish::Leave);
            if timeout(LEAVE_MAX, task).await.is_err() {
                tracing::warn!("the lease could not be released, and runs out by itself");
            }
        }
    }
}

/// Where the lease is by which replicas know who leads.
pub(super) fn lease_namespace(args: &args::Run) -> String {
    args.leader_election_namespace.clone().unwrap_or_else(own_namespace)
}

fn own_namespace() -> String {
    let own = std::fs::read_to_string(OWN_NAMESPACE).ok().map(|text| text.trim().to_owned());
    own.filter(|name| !name.is_empty()).unwrap_or_else(|| NAMESPACE_OUTSIDE.to_owned())
}

/// A name that only this process has, and that people know it by: a pod's host has the pod's name.
pub(super) fn identity() -> String {
    let host = std::env::var("HOSTNAME").ok().or_else(|| std::fs::read_to_string("/etc/hostname").ok());
    let host = host.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
    let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    format!("{}_{}_{began:x}", host.as_deref().unwrap_or("berth"), std::process::id())
}
