//! What is for sale: the simulated cloud's catalog in VPSie's terms.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::response::Response;
use berth_core::catalog::{CapacityType, Catalog, InstanceType, Offering};
use berth_core::names::Text;
use berth_core::plan::Alternative;
use berth_core::resources::{CPU, EPHEMERAL_STORAGE, MEMORY};
use serde_json::{Map, Value, json};

use super::answer::{enveloped, paged, refused};
use super::{Asked, Vpsie};
use crate::cloud::Account;

/// How often spot machines are taken back, as VPSie says of all of them.
const INTERRUPTION_RATE: u32 = 5;

impl Vpsie {
    pub(super) async fn offerings(&self, asked: &Asked) -> Response {
        let catalog = match self.perform(Account::catalog).await {
            Ok(catalog) => catalog,
            Err(refusal) => return refused(&refusal),
        };
        let sizes = self.sizes();
        let offers = all(&catalog, &sizes).map(|(size, sold, offering)| {
            let mut offer = offer(sold, offering);
            offer.insert("id".to_owned(), offering_id(size, offering).into());
            offer.insert("datacenter_id".to_owned(), offering.zone.to_string().into());
            if offering.capacity_type == CapacityType::Spot {
                offer.insert("spot".to_owned(), true.into());
                offer.insert("interruption_rate".to_owned(), INTERRUPTION_RATE.into());
            }
            Value::Object(offer)
        });
        paged(&offers.chain(self.faults().odd_offers.iter().cloned()).collect::<Vec<_>>(), asked)
    }

    /// Clusters are on-demand only.
    pub(super) async fn cluster_offers(&self, asked: &Asked) -> Response {
        let catalog = match self.perform(Account::catalog).await {
            Ok(catalog) => catalog,
            Err(refusal) => return refused(&refusal),
        };
        let (body, sizes) = (asked.json(), self.sizes());
        let here = all(&catalog, &sizes).filter(|(_, _, offering)| {
            Some(&*offering.zone) == body["dcIdentifier"].as_str()
                && offering.capacity_type == CapacityType::OnDemand
        });
        let offers = here.map(|(size, sold, offering)| {
            let mut offer = offer(sold, offering);
            offer.insert("id".to_owned(), size.into());
            Value::Object(offer)
        });
        enveloped(&offers.chain(self.faults().odd_offers.iter().cloned()).collect())
    }

    pub(super) fn datacenters(&self) -> Response {
        let sizes = self.sizes();
        let zones: BTreeSet<Text> =
            all(&sizes, &sizes).map(|(_, _, offering)| offering.zone.clone()).collect();
        let datacenter =
            |zone: Text| json!({ "id": zone, "identifier": zone, "name": zone, "available": true });
        enveloped(&zones.into_iter().map(datacenter).collect())
    }

    /// All that was ever offered: numbers stay, whatever is withdrawn.
    fn sizes(&self) -> Arc<Catalog> {
        self.shared.cloud.inspect(Account::whole_catalog)
    }

    /// What an offer of `/offerings` is.
    pub(super) fn offered(&self, id: &str) -> Option<Alternative> {
        let sizes = self.sizes();
        let mut offers = all(&sizes, &sizes);
        let (_, sold, offering) = offers.find(|(size, _, offering)| offering_id(*size, offering) == id)?;
        Some(alternative(sold, offering))
    }

    /// What a size of a managed cluster is, where that cluster is.
    pub(super) fn offered_to_clusters(&self, size: usize) -> Option<Alternative> {
        let sizes = self.sizes();
        let here = &self.settings().datacenter;
        let mut offers = all(&sizes, &sizes);
        let (_, sold, offering) = offers.find(|(number, _, offering)| {
            *number == size && offering.zone == *here && offering.capacity_type == CapacityType::OnDemand
        })?;
        Some(alternative(sold, offering))
    }

    /// The id of the offer that a machine was bought as.
    pub(super) fn offer_of(
        &self,
        instance_type: &str,
        zone: &str,
        capacity_type: CapacityType,
    ) -> Option<String> {
        let sizes = self.sizes();
        let mut offers = all(&sizes, &sizes);
        let (size, _, offering) = offers.find(|(_, sold, offering)| {
            *sold.name == *instance_type && *offering.zone == *zone && offering.capacity_type == capacity_type
        })?;
        Some(offering_id(size, offering))
    }
}

/// Each offering with the number of its type among all sizes, from 1.
fn all<'c>(
    catalog: &'c Catalog,
    sizes: &'c Catalog,
) -> impl Iterator<Item = (usize, &'c InstanceType, &'c Offering)> {
    let numbered = catalog.types.iter().filter_map(|sold| {
        let place = sizes.types.iter().position(|known| known.name == sold.name)?;
        Some((place + 1, &**sold))
    });
    numbered.flat_map(|(size, sold)| sold.offerings.iter().map(move |offering| (size, sold, offering)))
}

fn offering_id(size: usize, offering: &Offering) -> String {
    format!("{size}-{}-{}", offering.zone, offering.capacity_type)
}

fn offer(sold: &InstanceType, offering: &Offering) -> Map<String, Value> {
    let amount = |name: &str, scale: i64| sold.capacity.get(name) / scale;
    let fields = [
        ("name", Value::from(sold.name.to_string())),
        ("cpu", amount(CPU, 1000).into()),
        ("ram", amount(MEMORY, 1 << 20).into()),
        ("disk", amount(EPHEMERAL_STORAGE, 1 << 30).into()),
        ("hourly_price", offering.price.to_string().into()),
        ("available", offering.available.into()),
        ("category", "standard".into()),
    ];
    fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn alternative(sold: &InstanceType, offering: &Offering) -> Alternative {
    Alternative {
        instance_type: sold.name.clone(),
        zone: offering.zone.clone(),
        capacity_type: offering.capacity_type,
        price_per_hour: offering.price,
    }
}
