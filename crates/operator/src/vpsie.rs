//! VPSie, by the Secret that says who Berth is there. The Secret may come late, and change: what is in use is the last
//! one that VPSie took.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use berth_api::GroupDefaults;
use berth_api::vpsie::SCHEME;
use berth_cloud::Cloud;
use berth_cloud::machine::{Machine, MachineId, Note, Notice, Order};
use berth_cloud::provider::{Answer, Launched, Page, PageMark, Refusal, Trouble};
use berth_cloud::vpsie::{Client, ClientSettings, CloudSettings, Credentials, Family, Transport, VpsieCloud};
use berth_core::catalog::Catalog;
use berth_core::names::Text;
use serde::Deserialize;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::cluster::Cluster;
use crate::desk::Desk;
use crate::metrics::vpsie::ApiMetrics;
use crate::metrics::{Metrics, table};
use crate::objects::{Heading, Metadata, NodeObject};
use crate::office::Clock;

/// How often it is looked whether the Secret has changed.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// After how long a changed Secret is tried again that VPSie has neither taken nor refused; twice as long each time. A
/// trial costs two calls of the hundred that a minute has.
const TRIED_AGAIN_MIN: Duration = LOOK_EVERY;
const TRIED_AGAIN_MAX: Duration = Duration::from_mins(5);

/// How Berth gets to VPSie.
#[derive(Clone, Debug)]
pub struct VpsieAccess {
    pub secret_namespace: String,
    pub secret_name: String,
    pub family: Family,
    /// The cluster at VPSie, unless the Secret names it.
    pub cluster: Option<Text>,
    /// Where machines may be bought, unless the Secret names a datacenter.
    pub datacenter: Option<Text>,
    pub kubernetes_version: Option<Text>,
    /// Where it is noted what the Secret says of that.
    pub whereabouts: Whereabouts,
    /// What request ids begin with.
    pub process: String,
}

/// Where this cluster is at VPSie, as its Secret says once it was read, and as its nodes do. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Whereabouts(Arc<std::sync::Mutex<Told>>);

#[derive(Debug, Default)]
struct Told {
    by_secret: GroupDefaults,
    by_nodes: GroupDefaults,
}

/// What VPSie writes on the nodes of its clusters, as labels or annotations.
pub(crate) const IDENTITY: [&str; 3] =
    ["vpsie.com/datacenter-id", "vpsie.com/cluster-id", "vpsie.com/project-id"];

impl Whereabouts {
    fn note(&self, credentials: &Credentials) {
        let text = |text: &Option<Text>| text.as_deref().map(str::to_owned);
        self.told().by_secret = GroupDefaults {
            datacenter: text(&credentials.datacenter),
            cluster: text(&credentials.cluster),
            project: text(&credentials.project),
            ..GroupDefaults::default()
        };
    }

    /// Looks at nodes for what is not known yet.
    pub(crate) fn learn<'n>(&self, nodes: impl Iterator<Item = &'n NodeObject>) {
        let mut told = self.told();
        for node in nodes {
            let by_nodes = &mut told.by_nodes;
            if by_nodes.cluster.is_some() && by_nodes.project.is_some() && by_nodes.datacenter.is_some() {
                return;
            }
            by_nodes.complete_with(&identity(node));
        }
    }

    fn cluster_of_nodes(&self) -> Option<Text> {
        self.told().by_nodes.cluster.as_deref().map(Text::from)
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fills in what is not known.
    pub(crate) fn complete(&self, defaults: &mut GroupDefaults) {
        let told = self.told();
        defaults.complete_with(&told.by_secret);
        defaults.complete_with(&told.by_nodes);
    }
}

fn identity(node: &NodeObject) -> GroupDefaults {
    let Metadata { labels, annotations, .. } = &node.metadata;
    let said = |key: &str| labels.get(key).or_else(|| annotations.get(key)).cloned();
    let mut parts = node.spec.provider_id.strip_prefix(SCHEME).into_iter().flat_map(|id| id.split('/'));
    let mut part = || parts.next().filter(|part| !part.is_empty()).map(str::to_owned);
    let by_id = (part(), part());
    let [datacenter, cluster, project] = IDENTITY.map(said);
    GroupDefaults {
        datacenter: datacenter.or(by_id.0),
        cluster: cluster.or(by_id.1),
        project,
        ..GroupDefaults::default()
    }
}

/// The cloud that a Secret of this cluster opens.
pub fn vpsie_cloud(
    cluster: &Cluster,
    access: VpsieAccess,
    transport: Arc<dyn Transport>,
    clock: &Clock,
    metrics: &Metrics,
) -> Arc<dyn Cloud> {
    let (desk, clock, metrics) = (Desk::new(cluster.clone()), clock.clone(), metrics.clone());
    let (door, front, zones) = (Mutex::default(), std::sync::Mutex::default(), std::sync::Mutex::default());
    Arc::new(KeyedCloud { desk, access, transport, clock, metrics, door, front, zones })
}

struct KeyedCloud {
    desk: Desk,
    access: VpsieAccess,
    transport: Arc<dyn Transport>,
    clock: Clock,
    metrics: Metrics,
    door: Mutex<Door>,
    /// What can be seen of the door by those who do not wait.
    front: std::sync::Mutex<Front>,
    /// Where pools want machines.
    zones: std::sync::Mutex<BTreeSet<Text>>,
}

#[derive(Debug, Default)]
struct Front {
    cloud: Option<Arc<VpsieCloud>>,
    trouble: Option<String>,
}

#[derive(Debug, Default)]
struct Door {
    looked: Option<Instant>,
    /// Of the Secret about which nothing is left to be found out: it is in use, or it cannot be.
    settled: Option<String>,
    /// How the last one fared about which there is.
    trial: Option<Trial>,
    open: Option<Open>,
    /// What is wrong with it, or with the last one.
    trouble: Option<String>,
}

/// A version of the Secret that VPSie has not judged, as it was tried so far.
#[derive(Debug)]
struct Trial {
    version: String,
    times: u32,
    again_at: Instant,
}

impl Trial {
    /// The same once more, or the first of another version.
    fn after(last: Option<&Self>, version: String) -> Self {
        let times = last.filter(|last| last.version == version).map_or(0, |last| last.times);
        let wait = TRIED_AGAIN_MIN.saturating_mul(1 << times.min(8)).min(TRIED_AGAIN_MAX);
        Self { version, times: times.saturating_add(1), again_at: Instant::now() + wait }
    }
}

/// Why a Secret is not in use.
enum Unused {
    /// Only another Secret can mend it: VPSie need not be asked.
    Unfit(String),
    /// VPSie does not take it.
    Refused(String),
    /// VPSie could not be asked about it: it may be as good as any.
    Untried(String),
    /// It lacks what the cluster's nodes may tell any moment.
    Incomplete(String),
}

#[derive(Debug)]
struct Open {
    client: Arc<Client>,
    settings: CloudSettings,
    cloud: Arc<VpsieCloud>,
}

#[derive(Deserialize)]
struct Secret {
    metadata: Heading,
    #[serde(default)]
    data: BTreeMap<String, String>,
}

impl fmt::Debug for KeyedCloud {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedCloud").field("access", &self.access).finish_non_exhaustive()
    }
}

impl KeyedCloud {
    /// The cloud behind the door, if it is open.
    async fn cloud(&self) -> Result<Arc<VpsieCloud>, Refusal> {
        let mut door = self.door.lock().await;
        if door.looked.is_none_or(|looked| looked.elapsed() >= LOOK_EVERY) {
            door.looked = Some(Instant::now());
            let trouble = self.look(&mut door).await.err();
            // One about which a cloud that is in use goes on is told with all that it goes on without.
            if let Some(trouble) = &trouble
                && door.open.is_none()
                && door.trouble.as_ref() != Some(trouble)
            {
                tracing::warn!("{trouble}");
            }
            door.trouble.clone_from(&trouble);
            let cloud = door.open.as_ref().map(|open| Arc::clone(&open.cloud));
            *self.front() = Front { cloud, trouble };
        }
        match (&door.open, &door.trouble) {
            (Some(Open { cloud, .. }), _) => {
                cloud.serve(&self.zones.lock().unwrap_or_else(PoisonError::into_inner));
                Ok(Arc::clone(cloud))
            }
            (None, trouble) => Err(Refusal::Denied(trouble.clone().unwrap_or_default())),
        }
    }

    fn front(&self) -> MutexGuard<'_, Front> {
        self.front.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another Secret was not taken, without VPSie having been asked: what is asked counts itself.
    fn count_unasked(&self, door: &Door) {
        if door.open.is_some() {
            self.metrics.count(table::ROTATIONS, []);
            self.metrics.count(table::ROTATIONS_ILL, []);
        }
    }

    /// Looks at the Secret, and takes it if it is another.
    async fn look(&self, door: &mut Door) -> Result<(), String> {
        let VpsieAccess { secret_namespace, secret_name, .. } = &self.access;
        let name = format!("Secret {secret_namespace}/{secret_name}");
        let path = format!("/api/v1/namespaces/{secret_namespace}/secrets/{secret_name}");
        let secret: Secret = match self.desk.get(&path).await {
            Ok(secret) => secret,
            // What was read before is as good as it was.
            Err(_) if door.open.is_some() => return door.trouble.clone().map_or(Ok(()), Err),
            Err(refused) if refused.is_absence() => return Err(format!("there is no {name}")),
            Err(refused) => return Err(format!("{name} cannot be read: {refused}")),
        };
        let version = secret.metadata.resource_version;
        let is_waiting = |trial: &Trial| trial.version == version && Instant::now() < trial.again_at;
        if door.settled.as_ref() == Some(&version) || door.trial.as_ref().is_some_and(is_waiting) {
            return door.trouble.clone().map_or(Ok(()), Err);
        }
        match self.take(door, &name, secret.data).await {
            Ok(()) => {
                (door.settled, door.trial) = (Some(version), None);
                Ok(())
            }
            Err(Unused::Unfit(why)) => {
                self.count_unasked(door);
                (door.settled, door.trial) = (Some(version), None);
                Err(why)
            }
            Err(Unused::Refused(why)) => {
                (door.settled, door.trial) = (Some(version), None);
                Err(why)
            }
            Err(Unused::Untried(why)) => {
                door.trial = Some(Trial::after(door.trial.as_ref(), version));
                Err(why)
            }
            Err(Unused::Incomplete(why)) => {
                if door.trouble.as_ref() != Some(&why) {
                    self.count_unasked(door);
                }
                Err(why)
            }
        }
    }

    /// Goes on with what a Secret says, if that works.
    async fn take(&self, door: &mut Door, name: &str, data: BTreeMap<String, String>) -> Result<(), Unused> {
        let changed = format!("{name} has changed, and the last one stays in use");
        let subject = if door.open.is_some() { &*changed } else { name };
        let decode = |(key, value): (String, String)| {
            let bytes = STANDARD.decode(value).map_err(|_| format!("{subject}: `{key}` is not base64"))?;
            Ok::<_, String>((key, bytes))
        };
        let data = data.into_iter().map(decode).collect::<Result<BTreeMap<_, _>, _>>();
        let data = data.map_err(Unused::Unfit)?;
        let credentials =
            Credentials::read(&data).map_err(|error| Unused::Unfit(format!("{subject}: {error}")))?;
        let settings = self.settings(&credentials).ok_or_else(|| {
            Unused::Incomplete(format!(
                "{subject}: it has no `resourceIdentifier`; write the cluster's id at VPSie there, or say \
                 --resource-identifier"
            ))
        })?;
        let told = credentials.clone();
        let client = match &door.open {
            None => self.client(credentials),
            // The machines of the cluster that it was would be nobody's.
            Some(open) if open.settings.cluster != settings.cluster => {
                return Err(Unused::Unfit(format!(
                    "{changed}: it names the cluster {} instead of {}, which Berth has to be started anew for",
                    settings.cluster, open.settings.cluster
                )));
            }
            Some(open) => {
                open.client.replace(credentials, &settings).await.map_err(|error| {
                    if error.fault.is_verdict() {
                        Unused::Refused(format!("{changed}: VPSie does not take it: {error}"))
                    } else {
                        Unused::Untried(format!("{changed} until VPSie can be asked about it: {error}"))
                    }
                })?;
                Arc::clone(&open.client)
            }
        };
        self.access.whereabouts.note(&told);
        if door.open.as_ref().is_none_or(|open| open.settings != settings) {
            let cloud = Arc::new(VpsieCloud::new(Arc::clone(&client), settings.clone()));
            door.open = Some(Open { client, settings, cloud });
        }
        Ok(())
    }

    /// `None` if nobody says which cluster it is at VPSie.
    fn settings(&self, credentials: &Credentials) -> Option<CloudSettings> {
        let access = &self.access;
        let cluster = access
            .cluster
            .clone()
            .or_else(|| credentials.cluster.clone())
            .or_else(|| access.whereabouts.cluster_of_nodes())?;
        let datacenter = access.datacenter.clone().or_else(|| credentials.datacenter.clone());
        Some(CloudSettings {
            project: credentials.project.clone(),
            datacenters: datacenter.into_iter().collect(),
            kubernetes_version: access.kubernetes_version.clone(),
            ..CloudSettings::new(access.family, &cluster)
        })
    }

    fn client(&self, credentials: Credentials) -> Arc<Client> {
        let clock = self.clock.clone();
        Arc::new(Client::new(
            ClientSettings::new(&self.access.process),
            credentials,
            Arc::clone(&self.transport),
            Arc::new(ApiMetrics::new(self.metrics.clone(), clock.clone())),
            move || clock.now(),
        ))
    }
}

impl Cloud for KeyedCloud {
    fn prepare<'a>(&'a self, order: &'a Order) -> Answer<'a, Option<Note>> {
        Box::pin(async move { self.cloud().await?.prepare(order).await })
    }

    fn launch<'a>(&'a self, order: &'a Order) -> Answer<'a, Launched> {
        Box::pin(async move { self.cloud().await?.launch(order).await })
    }

    fn get<'a>(&'a self, id: &'a MachineId) -> Answer<'a, Machine> {
        Box::pin(async move { self.cloud().await?.get(id).await })
    }

    fn list<'a>(&'a self, from: Option<&'a PageMark>) -> Answer<'a, Page> {
        Box::pin(async move { self.cloud().await?.list(from).await })
    }

    fn terminate<'a>(&'a self, id: &'a MachineId) -> Answer<'a, ()> {
        Box::pin(async move { self.cloud().await?.terminate(id).await })
    }

    fn catalog(&self) -> Answer<'_, Arc<Catalog>> {
        Box::pin(async move { self.cloud().await?.catalog().await })
    }

    fn serve(&self, zones: &BTreeSet<Text>) {
        self.zones.lock().unwrap_or_else(PoisonError::into_inner).clone_from(zones);
    }

    fn sets_up(&self) -> bool {
        self.access.family != Family::Managed
    }

    fn troubles(&self) -> BTreeSet<Trouble> {
        let Front { cloud: Some(cloud), trouble } = &*self.front() else { return BTreeSet::new() };
        let credentials = trouble.clone().map(Trouble::Credentials);
        credentials.into_iter().chain(cloud.troubles()).collect()
    }

    fn notices(&self) -> Answer<'_, Vec<Notice>> {
        Box::pin(async move { self.cloud().await?.notices().await })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nodes_say_where_their_cluster_is() {
        let labelled = json!({ "vpsie.com/cluster-id": "c", "vpsie.com/datacenter-id": "d" });
        for (node, expected) in [
            (json!({}), "- - -"),
            (json!({ "metadata": { "labels": labelled } }), "d c -"),
            (json!({ "metadata": { "annotations": { "vpsie.com/project-id": "p" } } }), "- - p"),
            (json!({ "spec": { "providerID": "vpsie://dc/cl/n-1" } }), "dc cl -"),
            (json!({ "spec": { "providerID": "vpsie:///" } }), "- - -"),
            (json!({ "spec": { "providerID": "aws:///a/i-1" } }), "- - -"),
            (
                json!({ "metadata": { "labels": labelled }, "spec": { "providerID": "vpsie://dc/cl/n" } }),
                "d c -",
            ),
        ] {
            let node: NodeObject = serde_json::from_value(node).unwrap();
            let GroupDefaults { datacenter, cluster, project, .. } = identity(&node);
            let words = [datacenter, cluster, project].map(|word| word.unwrap_or_else(|| "-".to_owned()));
            assert_eq!(words.join(" "), expected);
        }
    }
}
