//! VPSie, by the Secret that says who Berth is there. The Secret may come late, and change: what is in use is the last
//! one that VPSie took.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use berth_api::GroupDefaults;
use berth_cloud::Cloud;
use berth_cloud::machine::{Machine, MachineId, Note, Notice, Order};
use berth_cloud::provider::{Answer, Launched, Page, PageMark, Refusal};
use berth_cloud::vpsie::{Client, ClientSettings, CloudSettings, Credentials, Family, Transport, VpsieCloud};
use berth_core::catalog::Catalog;
use berth_core::names::Text;
use serde::Deserialize;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::cluster::Cluster;
use crate::desk::Desk;
use crate::metrics::Metrics;
use crate::metrics::vpsie::ApiMetrics;
use crate::objects::Heading;
use crate::office::Clock;

/// How often it is looked whether the Secret has changed.
const LOOK_EVERY: Duration = Duration::from_secs(30);

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

/// Where the Secret says that this cluster is at VPSie, once it was read. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Whereabouts(Arc<std::sync::Mutex<GroupDefaults>>);

impl Whereabouts {
    fn note(&self, credentials: &Credentials) {
        let text = |text: &Option<Text>| text.as_deref().map(str::to_owned);
        *self.said() = GroupDefaults {
            datacenter: text(&credentials.datacenter),
            cluster: text(&credentials.cluster),
            project: text(&credentials.project),
            ..GroupDefaults::default()
        };
    }

    fn said(&self) -> MutexGuard<'_, GroupDefaults> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fills in what is not known.
    pub(crate) fn complete(&self, defaults: &mut GroupDefaults) {
        let said = self.said();
        let pairs = [
            (&mut defaults.datacenter, &said.datacenter),
            (&mut defaults.cluster, &said.cluster),
            (&mut defaults.project, &said.project),
        ];
        for (known, said) in pairs {
            if known.is_none() {
                known.clone_from(said);
            }
        }
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
    let (door, zones) = (Mutex::default(), std::sync::Mutex::default());
    Arc::new(KeyedCloud { desk, access, transport, clock, metrics, door, zones })
}

struct KeyedCloud {
    desk: Desk,
    access: VpsieAccess,
    transport: Arc<dyn Transport>,
    clock: Clock,
    metrics: Metrics,
    door: Mutex<Door>,
    /// Where pools want machines.
    zones: std::sync::Mutex<BTreeSet<Text>>,
}

#[derive(Debug, Default)]
struct Door {
    looked: Option<Instant>,
    /// Of the Secret that was last tried.
    version: Option<String>,
    open: Option<(Arc<Client>, Arc<VpsieCloud>)>,
    /// What is wrong with it, or with the last one.
    trouble: Option<String>,
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
            if let Some(trouble) = trouble.as_ref().filter(|trouble| door.trouble.as_ref() != Some(*trouble))
            {
                tracing::warn!("{trouble}");
            }
            door.trouble = trouble;
        }
        match (&door.open, &door.trouble) {
            (Some((_, cloud)), _) => {
                cloud.serve(&self.zones.lock().unwrap_or_else(PoisonError::into_inner));
                Ok(Arc::clone(cloud))
            }
            (None, trouble) => Err(Refusal::Denied(trouble.clone().unwrap_or_default())),
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
            Err(_) if door.open.is_some() => return Ok(()),
            Err(refused) if refused.is_absence() => return Err(format!("there is no {name}")),
            Err(refused) => return Err(format!("{name} cannot be read: {refused}")),
        };
        let version = secret.metadata.resource_version;
        if door.version.as_ref() == Some(&version) {
            return door.trouble.clone().map_or(Ok(()), Err);
        }
        door.version = Some(version);
        let decode = |(key, value): (String, String)| {
            let bytes = STANDARD.decode(value).map_err(|_| format!("{name}: `{key}` is not base64"))?;
            Ok::<_, String>((key, bytes))
        };
        let data = secret.data.into_iter().map(decode).collect::<Result<BTreeMap<_, _>, _>>()?;
        let credentials = Credentials::read(&data).map_err(|error| format!("{name}: {error}"))?;
        self.access.whereabouts.note(&credentials);
        let Some((client, _)) = &door.open else {
            let why = "has no `resourceIdentifier`; write the cluster's id at VPSie there, or say \
                       --resource-identifier";
            door.open = Some(self.opened(credentials).ok_or_else(|| format!("{name} {why}"))?);
            return Ok(());
        };
        client.replace(credentials).await.map(drop).map_err(|error| {
            format!("{name} has changed, and VPSie does not take it; the last one stays in use: {error}")
        })
    }

    /// `None` if nobody says which cluster it is at VPSie.
    fn opened(&self, credentials: Credentials) -> Option<(Arc<Client>, Arc<VpsieCloud>)> {
        let access = &self.access;
        let cluster = access.cluster.clone().or_else(|| credentials.cluster.clone())?;
        let datacenter = access.datacenter.clone().or_else(|| credentials.datacenter.clone());
        let settings = CloudSettings {
            project: credentials.project.clone(),
            datacenters: datacenter.into_iter().collect(),
            kubernetes_version: access.kubernetes_version.clone(),
            ..CloudSettings::new(access.family, &cluster)
        };
        let clock = self.clock.clone();
        let client = Arc::new(Client::new(
            ClientSettings::new(&access.process),
            credentials,
            Arc::clone(&self.transport),
            Arc::new(ApiMetrics { metrics: self.metrics.clone(), clock: clock.clone() }),
            move || clock.now(),
        ));
        Some((Arc::clone(&client), Arc::new(VpsieCloud::new(client, settings))))
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

    fn notices(&self) -> Answer<'_, Vec<Notice>> {
        Box::pin(async move { self.cloud().await?.notices().await })
    }
}
