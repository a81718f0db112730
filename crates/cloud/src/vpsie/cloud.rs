//! VPSie behind the trait.

mod buying;
mod groups;
mod sight;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_core::catalog::Catalog;
use berth_core::names::Text;
use jiff::Timestamp;
use tokio::time::Instant;

use super::api::Server;
use super::client::Client;
use super::error::{ApiError, Fault};
use super::launches::Launches;
use super::limiter::Lane;
use super::offers::Offers;
use super::settings::{CloudSettings, Paths};
use crate::machine::{Machine, MachineId, Note, Notice, Order};
use crate::provider::{Answer, Cloud, Launched, Page, PageMark, Refusal, Trouble};
use groups::Entered;
use sight::Sight;

/// An account at VPSie that buys for one cluster. It must be asked where tokio runs.
pub struct VpsieCloud {
    client: Arc<Client>,
    settings: CloudSettings,
    offers: Offers,
    sight: Sight,
    launches: Mutex<Launches>,
    entered: tokio::sync::Mutex<Entered>,
    /// When it was last found that nobody gives notice here.
    unnoticed_since: Mutex<Option<Instant>>,
    /// The servers of the last list of which little can be read, and why.
    unread: Mutex<BTreeMap<MachineId, String>>,
}

/// An installation that gives no notice may learn to, and is asked so rarely: notices are wanted every few seconds, which
/// would be an eighth of all calls that a minute has.
const NOTICES_AGAIN: Duration = Duration::from_mins(10);

impl fmt::Debug for VpsieCloud {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VpsieCloud")
            .field("client", &self.client)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl VpsieCloud {
    pub fn new(client: Arc<Client>, settings: CloudSettings) -> Self {
        let (offers, sight, launches) = (Offers::default(), Sight::default(), Mutex::default());
        let (entered, unnoticed_since) = (tokio::sync::Mutex::default(), Mutex::default());
        let unread = Mutex::default();
        Self { client, settings, offers, sight, launches, entered, unnoticed_since, unread }
    }

    fn launches(&self) -> MutexGuard<'_, Launches> {
        self.launches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Timestamp {
        self.client.now()
    }

    async fn machine(&self, id: &MachineId) -> Result<Machine, Refusal> {
        let server = match self.settings.family.paths() {
            Paths::OfServers(paths) => match self.client.server(paths, id).await {
                Err(error) if matches!(error.fault, Fault::NotFound { .. }) => {
                    return Err(self.unlisted(id, error).await);
                }
                told => told?,
            },
            Paths::OfClusters => {
                let seen = self.look(Lane::Acting).await?;
                let node = seen.servers.iter().find(|node| node.is(id)).cloned();
                node.ok_or_else(|| Refusal::NotFound(id.clone()))?
            }
        };
        let described = self.described(&[server]).await?;
        described.into_iter().next().ok_or_else(|| Refusal::NotFound(id.clone()))
    }

    async fn page(&self, from: Option<&PageMark>) -> Result<Page, Refusal> {
        let mark = |mark: &PageMark| {
            let wrong = || Refusal::Invalid(format!("`{}` is not a mark of this cloud's pages", mark.0));
            mark.0.parse::<u32>().map_err(|_| wrong())
        };
        let number = from.map(mark).transpose()?.unwrap_or(1);
        let (servers, next) = match self.settings.family.paths() {
            Paths::OfServers(paths) => {
                let part = self.client.servers(paths, number, Lane::Polling).await?;
                (part.items, part.next)
            }
            Paths::OfClusters => (self.look(Lane::Polling).await?.servers.clone(), None),
        };
        self.note_unread(&servers, number);
        let machines = self.described(&servers).await?;
        Ok(Page { machines, next: next.map(|number| PageMark(number.to_string().into())) })
    }

    fn note_unread(&self, servers: &[Server], page: u32) {
        let mut unread = self.unread.lock().unwrap_or_else(PoisonError::into_inner);
        if page == 1 {
            unread.clear();
        }
        let odd = servers.iter().filter_map(|server| Some((server.id.clone(), server.unread.clone()?)));
        unread.extend(odd);
    }

    async fn end(&self, id: &MachineId) -> Result<(), Refusal> {
        let family = self.settings.family.paths();
        let asked = match family {
            Paths::OfServers(paths) => self.client.delete_server(paths, id).await,
            Paths::OfClusters => self.client.delete_node(&self.settings.cluster, id).await,
        };
        let told = match (asked, family) {
            (Err(error), Paths::OfServers(_)) if matches!(error.fault, Fault::NotFound { .. }) => {
                Err(self.unlisted(id, error).await)
            }
            (Err(error), Paths::OfClusters) if matches!(error.fault, Fault::NotFound { .. }) => {
                self.end_unfound_node(id, error).await
            }
            (asked, _) => asked.map_err(ApiError::refusal),
        };
        if matches!(told, Err(Refusal::NotFound(_))) {
            self.launches().forget(id);
        }
        told
    }

    /// What follows from it that a server is not found: it may be the path, or what stands before it, and the server goes on
    /// costing. It is only believed of one that is in no list either, which the same paths have to give.
    async fn unlisted(&self, id: &MachineId, error: ApiError) -> Refusal {
        match self.look(Lane::Acting).await {
            Ok(seen) if seen.servers.iter().any(|server| server.is(id)) => error.refusal(),
            Ok(_) => Refusal::NotFound(id.clone()),
            Err(refusal) => refusal,
        }
    }

    /// The path names the cluster too, and it may be that which was not found, or the machine has a name besides its number:
    /// then it goes on costing.
    async fn end_unfound_node(&self, id: &MachineId, error: ApiError) -> Result<(), Refusal> {
        let nodes = self.client.nodes(&self.settings.cluster, Lane::Acting).await?;
        match nodes.iter().find(|node| node.is(id)) {
            Some(node) if node.id == *id => Err(error.refusal()),
            Some(Server { id: name, .. }) => {
                let asked = self.client.delete_node(&self.settings.cluster, name).await;
                asked.map_err(ApiError::refusal)
            }
            None => Err(Refusal::NotFound(id.clone())),
        }
    }
}

impl Cloud for VpsieCloud {
    fn prepare<'a>(&'a self, order: &'a Order) -> Answer<'a, Option<Note>> {
        Box::pin(async { self.note(order).await.map(Some) })
    }

    fn launch<'a>(&'a self, order: &'a Order) -> Answer<'a, Launched> {
        Box::pin(self.buy(order))
    }

    fn get<'a>(&'a self, id: &'a MachineId) -> Answer<'a, Machine> {
        Box::pin(self.machine(id))
    }

    fn list<'a>(&'a self, from: Option<&'a PageMark>) -> Answer<'a, Page> {
        Box::pin(self.page(from))
    }

    fn terminate<'a>(&'a self, id: &'a MachineId) -> Answer<'a, ()> {
        Box::pin(self.end(id))
    }

    fn catalog(&self) -> Answer<'_, Arc<Catalog>> {
        Box::pin(self.offers.catalog(&self.client, &self.settings))
    }

    fn serve(&self, zones: &BTreeSet<Text>) {
        self.offers.serve(zones);
    }

    fn sets_up(&self) -> bool {
        matches!(self.settings.family.paths(), Paths::OfServers(_))
    }

    fn troubles(&self) -> BTreeSet<Trouble> {
        let offers = self.offers.unread().into_iter().map(|why| format!("VPSie's offer {why}"));
        let unread = self.unread.lock().unwrap_or_else(PoisonError::into_inner);
        let servers = unread.iter().map(|(id, why)| format!("VPSie's server {id}: {why}"));
        offers.chain(servers).map(Trouble::Unreadable).collect()
    }

    fn notices(&self) -> Answer<'_, Vec<Notice>> {
        Box::pin(async {
            let since = *self.unnoticed_since.lock().unwrap_or_else(PoisonError::into_inner);
            let is_vain = since.is_some_and(|since| since.elapsed() < NOTICES_AGAIN);
            let path = match self.settings.family.paths() {
                Paths::OfServers(paths) => paths.notices,
                Paths::OfClusters => None,
            };
            let Some(path) = path.filter(|_| !is_vain) else { return Ok(Vec::new()) };
            let told = self.client.notices(path).await?;
            let since = told.is_none().then(Instant::now);
            *self.unnoticed_since.lock().unwrap_or_else(PoisonError::into_inner) = since;
            Ok(told.unwrap_or_default())
        })
    }
}
