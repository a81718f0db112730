//! What machines there are, looked at once for all who ask at the same time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use berth_core::catalog::{CapacityType, Catalog};
use berth_core::names::Text;
use berth_core::units::Price;
use jiff::Timestamp;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::VpsieCloud;
use crate::machine::{Extras, Machine, MachineId};
use crate::provider::Refusal;
use crate::vpsie::api::{Ordered, Server};
use crate::vpsie::limiter::Lane;
use crate::vpsie::managed::Group;
use crate::vpsie::offers::offered_as;
use crate::vpsie::settings::{Paths, ServerPaths};

/// Dozens of launches are asked after in the same moment: one look does for all.
const KEPT_FOR: Duration = Duration::from_secs(2);
/// Ten thousand servers: with more, a list costs the whole minute's calls.
const PAGES_MAX: u32 = 100;

#[derive(Debug)]
pub(super) struct Seen {
    /// The look began then: what was there before is in it, as far as VPSie's lists are in time.
    pub(super) began_at: Timestamp,
    pub(super) servers: Vec<Server>,
    /// Of a managed cluster.
    pub(super) groups: Vec<Group>,
}

impl Seen {
    pub(super) fn group(&self, size: &str, datacenter: &str) -> Option<&Group> {
        self.groups.iter().find(|group| group.is_of(size, datacenter))
    }

    /// Where a managed cluster is, once it has a group that says so: all of them are in one datacenter.
    pub(super) fn datacenter(&self) -> Option<&Text> {
        let mut told = self.groups.iter().filter_map(|group| group.datacenter.as_ref());
        let first = told.next()?;
        told.all(|other| other == first).then_some(first)
    }

    /// Whether the cluster is certainly not in this datacenter.
    pub(super) fn is_elsewhere(&self, datacenter: &str) -> bool {
        self.datacenter().is_some_and(|known| **known != *datacenter)
    }
}

#[derive(Debug, Default)]
pub(super) struct Sight {
    /// Held while somebody looks.
    last: Mutex<Option<(Instant, Arc<Seen>)>>,
}

impl VpsieCloud {
    /// All servers of the account, or all nodes of the cluster, as of a moment ago.
    pub(super) async fn look(&self, lane: Lane) -> Result<Arc<Seen>, Refusal> {
        let mut last = self.sight.last.lock().await;
        if let Some((_, seen)) = last.as_ref().filter(|(began, _)| began.elapsed() < KEPT_FOR) {
            return Ok(Arc::clone(seen));
        }
        let began = Instant::now();
        let began_at = self.now();
        let cluster = &self.settings.cluster;
        let (servers, groups) = match self.settings.family.paths() {
            Paths::OfServers(paths) => (self.all_servers(paths, lane).await?, Vec::new()),
            Paths::OfClusters => {
                let groups = self.client.groups(cluster, lane).await?;
                (self.client.nodes(cluster, lane).await?, groups)
            }
        };
        let seen = Arc::new(Seen { began_at, servers, groups });
        if let Some(datacenter) = seen.datacenter() {
            self.offers.confine(datacenter);
        }
        *last = Some((began, Arc::clone(&seen)));
        Ok(seen)
    }

    /// What has changed by our own hand is looked at anew.
    pub(super) async fn look_anew(&self) -> Result<Arc<Seen>, Refusal> {
        *self.sight.last.lock().await = None;
        self.look(Lane::Acting).await
    }

    /// Pages shift while they are read, if servers come and go. A list that does not add up is not taken for one.
    async fn all_servers(&self, paths: ServerPaths, lane: Lane) -> Result<Vec<Server>, Refusal> {
        let mut servers: Vec<Server> = Vec::new();
        let mut totals = BTreeSet::new();
        let mut page = Some(1);
        while let Some(number) = page {
            if number > PAGES_MAX {
                return Err(Refusal::Unknown("VPSie's list of servers does not end".to_owned()));
            }
            let part = self.client.servers(paths, number, lane).await?;
            servers.extend(part.items);
            totals.extend(part.total);
            page = part.next;
        }
        let distinct: BTreeSet<&MachineId> = servers.iter().map(|server| &server.id).collect();
        let adds_up = totals.iter().all(|total| usize::try_from(*total) == Ok(distinct.len()));
        if !adds_up {
            return Err(Refusal::Unknown("VPSie's list of servers changed while it was read".to_owned()));
        }
        Ok(servers)
    }

    /// Servers as machines, each with the launch that it was bought for where that is known.
    pub(super) async fn described(&self, servers: &[Server]) -> Result<Vec<Machine>, Refusal> {
        let catalog = self.offers.catalog_or_last(&self.client, &self.settings).await?;
        let groups = match self.settings.family.paths() {
            Paths::OfServers(_) => Vec::new(),
            Paths::OfClusters => self.look(Lane::Polling).await?.groups.clone(),
        };
        let described = servers.iter().map(|server| {
            let group = groups.iter().find(|group| group.has(server));
            let machine = self.describe(server, &catalog, group);
            let is_sold = catalog.types.iter().any(|sold| sold.name == machine.instance_type);
            match self.launches().machine(&server.id) {
                // VPSie keeps no tags of nodes, and may not even say what they are, or not in the words in which it sells them.
                Some(known) if machine.token.is_none() || !is_sold => {
                    let told = if is_sold { machine.clone() } else { known.clone() };
                    Machine {
                        token: known.token.clone(),
                        tags: known.tags.clone(),
                        instance_type: told.instance_type,
                        zone: told.zone,
                        provider_id: told.provider_id,
                        price: told.price,
                        ..machine
                    }
                }
                _ => machine,
            }
        });
        Ok(described.collect())
    }

    /// By the names of the catalog.
    pub(super) fn describe(&self, server: &Server, catalog: &Catalog, group: Option<&Group>) -> Machine {
        let size = server.size.clone().or_else(|| group.map(|group| group.size.clone()));
        let datacenter = server.datacenter.clone();
        let datacenter = datacenter.or_else(|| group.and_then(|group| group.datacenter.clone()));
        let datacenter = datacenter.or_else(|| self.offers.home());
        let sold_as = |size: &Option<Text>, datacenter: &Option<Text>| {
            size.as_ref().and_then(|size| offered_as(catalog, size, datacenter.as_deref()))
        };
        let (size, datacenter) = match &server.ordered {
            Some(Ordered { size: ordered, datacenter: there }) if sold_as(&size, &datacenter).is_none() => {
                (Some(ordered.clone()), Some(there.clone()))
            }
            _ => (size, datacenter),
        };
        let offered = sold_as(&size, &datacenter);
        let zone =
            datacenter.or_else(|| offered.map(|(_, offering)| offering.zone.clone())).unwrap_or_default();
        Machine {
            provider_id: format!("vpsie://{zone}/{}/{}", self.settings.cluster, server.id).into(),
            id: server.id.clone(),
            token: server.token(),
            name: server.hostname.clone(),
            address: server.address.clone(),
            instance_type: offered.map(|(known, _)| known.name.clone()).or(size).unwrap_or_default(),
            zone,
            capacity_type: offered.map_or(CapacityType::OnDemand, |(_, offering)| offering.capacity_type),
            price: offered.map_or(Price::ZERO, |(_, offering)| offering.price),
            state: server.state,
            tags: server.tags.clone(),
            // What does not say is as young as it can be: nothing is done to it for being old.
            launched_at: server.created_at.unwrap_or_else(|| self.now()),
            extras: Box::new(Extras {
                number: server.number,
                address_v6: server.address_v6.clone(),
                group: server.group.or(group.map(|group| group.number)),
                traffic_gb: server.traffic,
                status: server.status.clone(),
            }),
        }
    }
}
