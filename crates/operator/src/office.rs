//! What all that acts needs: whom to ask, whom to tell, and what time it is.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use berth_api::resources::karpenter::NodeClaim;
use berth_api::{ClassKind, Timestamp};
use berth_cloud::Cloud;
use berth_core::units::Price;

use crate::acts::Standing;
use crate::desk::Desk;
use crate::journal::{About, DecisionKind, Journal, Severity};
use crate::machines::Machines;
use crate::metrics::{self, Metrics, table};
use crate::objects::Versioned;

/// The tag that says whose a machine is, where several clusters share an account.
pub const CLUSTER_TAG: &str = "berth.dev/cluster";

/// What time it is. Where time is virtual, it is not the machine's.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    pub fn system() -> Self {
        Self::new(Timestamp::now)
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

/// The clouds that pools can buy from, by the kind of their classes.
pub type Clouds = BTreeMap<ClassKind, Arc<dyn Cloud>>;

#[derive(Clone, Debug)]
pub(crate) struct Office {
    pub(crate) desk: Desk,
    pub(crate) clouds: Clouds,
    pub(crate) clock: Clock,
    pub(crate) journal: Journal,
    cluster_id: Arc<OnceLock<String>>,
    pub(crate) metrics: Metrics,
    pub(crate) standing: Arc<Standing>,
    machines: Arc<Mutex<BTreeMap<ClassKind, Machines>>>,
}

impl Office {
    pub(crate) fn new(desk: Desk, clouds: Clouds, clock: Clock) -> Self {
        let machines = clouds.keys().map(|kind| (*kind, Machines::default())).collect();
        let metrics = Metrics::default();
        let clouds = metrics::measured(clouds, &metrics);
        Self {
            desk,
            clouds,
            clock,
            journal: Journal::default(),
            cluster_id: Arc::default(),
            metrics,
            standing: Arc::default(),
            machines: Arc::new(Mutex::new(machines)),
        }
    }

    /// Who this cluster is, to its clouds: the uid of a namespace that every cluster has. Addresses and names change.
    /// `None` until it has said so.
    pub(crate) async fn cluster_id(&self) -> Option<&str> {
        if self.cluster_id.get().is_none() {
            let namespace: Versioned = self.desk.get("/api/v1/namespaces/kube-system").await.ok()?;
            let uid = Some(namespace.metadata.uid).filter(|uid| !uid.is_empty())?;
            // Whoever was first has asked the same.
            let _ = self.cluster_id.set(uid);
        }
        self.cluster_id.get().map(String::as_str)
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn machines(&self) -> MutexGuard<'_, BTreeMap<ClassKind, Machines>> {
        self.machines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cloud of a claim, if there is one for its class.
    pub(crate) fn cloud_of(&self, claim: &NodeClaim) -> Option<(ClassKind, Arc<dyn Cloud>)> {
        let kind = ClassKind::of(&claim.spec.node_class_ref)?;
        Some((kind, self.clouds.get(&kind)?.clone()))
    }

    /// Notes what was decided.
    pub(crate) fn decided(
        &self,
        kind: DecisionKind,
        (reason, message): (&str, String),
        objects: Vec<String>,
        saves_per_hour: Option<Price>,
    ) {
        self.metrics.count(table::DECISIONS, [kind.name(), reason]);
        tracing::info!(
            target: "berth::decisions",
            kind = kind.name(), reason, objects = objects.join(" "),
            saves_per_hour = saves_per_hour.map(|saves| saves.to_string()), "{message}"
        );
        self.journal.decided(self.now(), kind, (reason, message), objects, saves_per_hour);
    }

    /// Says something about a claim.
    pub(crate) async fn say(&self, claim: &NodeClaim, severity: Severity, reason: &str, message: &str) {
        let metadata = &claim.metadata;
        let about = About {
            api_version: "karpenter.sh/v1",
            kind: "NodeClaim",
            namespace: String::new(),
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
        };
        self.journal.say(&self.desk, (&about, self.now()), (severity, reason, message)).await;
    }
}
