//! What VPSie offers, as a catalog that is kept for a minute.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use berth_core::catalog::{Catalog, InstanceType, Offering};
use berth_core::names::Text;
use berth_core::plan::Alternative;
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::client::Client;
use super::error::{ApiError, Fault};
use super::settings::{CloudSettings, Family, Paths};
use crate::import::{OFFERING, import_offers};
use crate::provider::Refusal;

const KEPT_FOR: Duration = Duration::from_mins(1);
/// Ten thousand offers: nobody has as many.
const PAGES_MAX: u32 = 100;
const NAME: &str = "vpsie";

#[derive(Debug, Default)]
pub(super) struct Offers {
    /// Held while they are fetched, so that all who ask wait for the same.
    kept: Mutex<Option<Kept>>,
    /// Where pools want machines, besides the settings' datacenters.
    served: std::sync::Mutex<BTreeSet<Text>>,
    /// Where the managed cluster is, once that is known: nowhere else can anything be bought for it.
    confined_to: std::sync::Mutex<Option<Text>>,
    /// The offers that were left out of the last catalog, and why.
    unread: std::sync::Mutex<Vec<String>>,
}

#[derive(Debug)]
struct Kept {
    fetched_at: Instant,
    datacenters: BTreeSet<Text>,
    catalog: Arc<Catalog>,
}

impl Offers {
    pub(super) fn serve(&self, zones: &BTreeSet<Text>) {
        self.served.lock().unwrap_or_else(PoisonError::into_inner).clone_from(zones);
    }

    pub(super) fn confine(&self, datacenter: &Text) {
        *self.confined_to.lock().unwrap_or_else(PoisonError::into_inner) = Some(datacenter.clone());
    }

    /// Where the managed cluster is, as far as it is known.
    pub(super) fn home(&self) -> Option<Text> {
        self.confined_to.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn unread(&self) -> Vec<String> {
        self.unread.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn datacenters(&self, settings: &CloudSettings) -> BTreeSet<Text> {
        let served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        let mut wanted: BTreeSet<Text> = settings.datacenters.iter().chain(&*served).cloned().collect();
        let home = self.confined_to.lock().unwrap_or_else(PoisonError::into_inner);
        // One that nobody has named may be another name of theirs.
        if let Some(home) = home.as_ref().filter(|home| wanted.contains(*home)) {
            wanted.retain(|datacenter| datacenter == home);
        }
        wanted
    }

    pub(super) async fn catalog(
        &self,
        client: &Client,
        settings: &CloudSettings,
    ) -> Result<Arc<Catalog>, Refusal> {
        let mut kept = self.kept.lock().await;
        let datacenters = self.datacenters(settings);
        let is_good = |kept: &&Kept| kept.fetched_at.elapsed() < KEPT_FOR && kept.datacenters == datacenters;
        if let Some(kept) = kept.as_ref().filter(is_good) {
            return Ok(Arc::clone(&kept.catalog));
        }
        let mut offers = fetch(client, settings.family, &datacenters).await?;
        // Which of two that contradict each other is left out must not depend on who came first today.
        offers.sort_by_cached_key(|offer| (text_of(&offer["datacenter_id"]), text_of(&offer["id"])));
        let (catalog, unread) = import_offers(&Value::Array(offers), NAME)
            .map_err(|error| Refusal::Unknown(format!("VPSie's offers cannot be read: {error}")))?;
        *self.unread.lock().unwrap_or_else(PoisonError::into_inner) = unread;
        let catalog = Arc::new(catalog);
        *kept = Some(Kept { fetched_at: Instant::now(), datacenters, catalog: Arc::clone(&catalog) });
        Ok(catalog)
    }
}

impl Offers {
    /// For what has been bought, old offers do.
    pub(super) async fn catalog_or_last(
        &self,
        client: &Client,
        settings: &CloudSettings,
    ) -> Result<Arc<Catalog>, Refusal> {
        match self.catalog(client, settings).await {
            Ok(catalog) => Ok(catalog),
            Err(refusal) => {
                let last = self.kept.lock().await;
                last.as_ref().map(|last| Arc::clone(&last.catalog)).ok_or(refusal)
            }
        }
    }
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

async fn fetch(
    client: &Client,
    family: Family,
    datacenters: &BTreeSet<Text>,
) -> Result<Vec<Value>, ApiError> {
    let mut offers = Vec::new();
    let mut refused = None;
    match family.paths() {
        Paths::OfClusters => {
            for datacenter in datacenters {
                let mut here = match client.cluster_offers(datacenter).await {
                    Ok(here) => here,
                    // What is wrong with one is nothing to the others: there is nothing in it.
                    Err(error) if matches!(error.fault, Fault::NotFound { .. } | Fault::Refused { .. }) => {
                        refused = Some(error);
                        continue;
                    }
                    Err(error) => return Err(error),
                };
                // They do not say where: it was asked.
                for offer in here.iter_mut().filter_map(Value::as_object_mut) {
                    offer.insert("datacenter_id".to_owned(), datacenter.to_string().into());
                }
                offers.extend(here);
            }
        }
        Paths::OfServers(_) => {
            let mut page = Some(1);
            while let Some(number) = page.filter(|number| *number <= PAGES_MAX) {
                let part = client.offerings(number).await?;
                offers.extend(part.items);
                page = part.next;
            }
            let wanted = |offer: &Value| {
                let datacenter = offer["datacenter_id"].as_str();
                datacenter.is_none_or(|id| datacenters.contains(id))
            };
            offers.retain(|offer| datacenters.is_empty() || wanted(offer));
        }
    }
    match refused {
        Some(error) if offers.is_empty() => Err(error),
        _ => Ok(offers),
    }
}

/// What is bought for an alternative: the id of the offer, which VPSie calls a size.
pub(super) fn size_of(catalog: &Catalog, wanted: &Alternative) -> Option<Text> {
    let known = catalog.types.iter().find(|known| known.name == wanted.instance_type)?;
    let offering = berth_api::claims::offering_in(known, &wanted.zone, wanted.capacity_type)?;
    offering.labels.get(OFFERING).cloned()
}

/// Whose size it is, in a datacenter if that is known.
pub(super) fn offered_as<'c>(
    catalog: &'c Catalog,
    size: &str,
    datacenter: Option<&str>,
) -> Option<(&'c InstanceType, &'c Offering)> {
    catalog.types.iter().find_map(|known| {
        let offering = known.offerings.iter().find(|offering| {
            offering.labels.get(OFFERING).is_some_and(|id| **id == *size)
                && datacenter.is_none_or(|zone| *offering.zone == *zone)
        })?;
        Some((&**known, offering))
    })
}
