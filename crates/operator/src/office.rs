//! What all that acts needs: whom to ask, whom to tell, and what time it is.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use berth_api::{ClassKind, Timestamp};
use berth_cloud::Cloud;
use berth_core::claim::Failures;
use berth_core::names::Text;
use berth_core::units::Price;
use serde::Deserialize;
use tokio::sync::watch;

use crate::acts::Standing;
use crate::claim::Claim;
use crate::cluster::Refused;
use crate::desk::Desk;
use crate::dialect::{Dialect, Entry};
use crate::hints::Said;
use crate::joining::Joining;
use crate::journal::{DecisionKind, Journal, Severity};
use crate::machines::Machines;
use crate::metrics::{self, Metrics, table};
use crate::objects::{NodeObject, Versioned};
use crate::operator::Settings;

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
    /// In which there may be claims.
    dialects: Vec<Dialect>,
    /// How long VPSieNodes that failed are kept.
    failures: Failures,
    pub(crate) clock: Clock,
    pub(crate) journal: Journal,
    cluster_id: Arc<OnceLock<String>>,
    cluster_version: Arc<OnceLock<Option<String>>>,
    pub(crate) metrics: Metrics,
    pub(crate) standing: Arc<Standing>,
    machines: Arc<Mutex<BTreeMap<ClassKind, Machines>>>,
    held_back: Arc<Mutex<BTreeSet<PodName>>>,
    told: Arc<Mutex<BTreeMap<PodName, Said>>>,
    expected: Arc<Mutex<BTreeMap<Text, Vec<PodName>>>>,
    proposals: Arc<Mutex<BTreeMap<Text, String>>>,
    zones: Arc<watch::Sender<Zones>>,
    joining: Arc<Mutex<BTreeMap<Text, Joining>>>,
}

/// Where pools want machines, by the kind of their classes.
pub(crate) type Zones = BTreeMap<ClassKind, BTreeSet<Text>>;

/// What a cluster says of itself.
#[derive(Deserialize)]
struct Version {
    #[serde(rename = "gitVersion")]
    git_version: String,
}

/// Namespace and name.
pub(crate) type PodName = (Text, Text);

impl Office {
    pub(crate) fn new(desk: Desk, clouds: Clouds, clock: Clock, settings: &Settings) -> Self {
        let machines = clouds.keys().map(|kind| (*kind, Machines::default())).collect();
        let metrics = settings.metrics.clone();
        let buys = |dialect: &Dialect| *dialect != Dialect::Vpsie || clouds.contains_key(&ClassKind::Vpsie);
        let dialects = Dialect::ALL.into_iter().filter(buys).collect();
        let clouds = metrics::measured(clouds, &metrics);
        Self {
            desk,
            clouds,
            dialects,
            failures: settings.failed_vpsie_nodes,
            clock,
            journal: Journal::new(metrics.clone()),
            cluster_id: Arc::default(),
            cluster_version: Arc::default(),
            metrics,
            standing: Arc::default(),
            machines: Arc::new(Mutex::new(machines)),
            held_back: Arc::default(),
            told: Arc::default(),
            expected: Arc::default(),
            proposals: Arc::default(),
            zones: Arc::default(),
            joining: Arc::default(),
        }
    }

    /// Where pools want machines, and each time that changes.
    pub(crate) fn zones(&self) -> watch::Receiver<Zones> {
        self.zones.subscribe()
    }

    pub(crate) fn want_zones(&self, zones: Zones) {
        self.zones.send_if_modified(|known| {
            let is_news = *known != zones;
            *known = zones;
            is_news
        });
    }

    /// Replacements of nodes by cheaper ones that wait for somebody to agree, by pool.
    pub(crate) fn proposals(&self) -> MutexGuard<'_, BTreeMap<Text, String>> {
        self.proposals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How well machines of NodePools become nodes, by pool.
    pub(crate) fn joining(&self) -> MutexGuard<'_, BTreeMap<Text, Joining>> {
        self.joining.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pods that nodes are coming for, by node.
    pub(crate) fn expected(&self) -> MutexGuard<'_, BTreeMap<Text, Vec<PodName>>> {
        self.expected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What pods without a place were told last.
    pub(crate) fn told(&self) -> MutexGuard<'_, BTreeMap<PodName, Said>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Pods that leave their nodes once others have left theirs.
    pub(crate) fn held_back(&self) -> MutexGuard<'_, BTreeSet<PodName>> {
        self.held_back.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// The version of Kubernetes that the cluster says it has; `None` until it has said so, or if it does not.
    pub(crate) async fn cluster_version(&self) -> Option<String> {
        if self.cluster_version.get().is_none() {
            let version = match self.desk.get::<Version>("/version").await {
                Ok(version) => Some(version.git_version),
                Err(Refused { code: Some(_), .. }) => None,
                // It did not answer, and is asked again.
                Err(_) => return None,
            };
            let _ = self.cluster_version.set(version);
        }
        self.cluster_version.get().cloned().flatten()
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn machines(&self) -> MutexGuard<'_, BTreeMap<ClassKind, Machines>> {
        self.machines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What becomes of a claim that fails: Karpenter's go at once, VPSie's are kept to be seen.
    pub(crate) fn failures_of(&self, claim: &Claim) -> Failures {
        match claim.dialect {
            Dialect::Karpenter => Failures::Deleted,
            Dialect::Vpsie => self.failures,
        }
    }

    /// All claims, as they are and not as they were last seen.
    pub(crate) async fn entries(&self) -> Result<Vec<Entry>, Refused> {
        let mut all = Vec::new();
        for dialect in &self.dialects {
            let entries = dialect.entries(&self.desk, None).await;
            // A kind that nobody installed has no objects. One that is only not found may have some.
            let is_absent = entries.as_ref().is_err_and(Refused::is_absence);
            if is_absent && !self.desk.serves(dialect.claims_plural()).await? {
                continue;
            }
            all.extend(entries?);
        }
        Ok(all)
    }

    /// The cloud of a claim, if there is one for its class.
    pub(crate) fn cloud_of(&self, claim: &Claim) -> Option<(ClassKind, Arc<dyn Cloud>)> {
        let kind = claim.class?;
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

    /// Says something about a claim's node, of both: who looks at nodes need not know of claims.
    pub(crate) async fn say_of_node(
        &self,
        claim: &Claim,
        node: Option<&NodeObject>,
        said: (Severity, &str, &str),
    ) {
        let (severity, reason, message) = said;
        self.say(claim, severity, reason, message).await;
        if let Some(node) = node {
            self.journal.say(&self.desk, (&node.about(), self.now()), said).await;
        }
    }

    /// Says something about a claim.
    pub(crate) async fn say(&self, claim: &Claim, severity: Severity, reason: &str, message: &str) {
        self.journal.say(&self.desk, (&claim.about(), self.now()), (severity, reason, message)).await;
    }
}
