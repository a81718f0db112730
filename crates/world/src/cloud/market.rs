//! What is offered, at which price, and what of it can be had.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_cloud::provider::{Lack, Unavailable};
use berth_core::catalog::{CapacityType, Catalog, InstanceType, Offering, OfferingPattern};
use berth_core::names::Text;
use berth_core::plan::Alternative;
use berth_core::resources::CPU;
use berth_core::units::Price;

use super::account::Account;
use super::weather::{NewPrice, Quota, StockChange};

/// What an order gets.
#[derive(Clone, Debug)]
pub(super) struct Pick {
    pub(super) instance_type: Arc<InstanceType>,
    pub(super) zone: Text,
    pub(super) capacity_type: CapacityType,
    pub(super) price: Price,
}

impl Account {
    /// The catalog as it is told at this time.
    pub(super) fn catalog_at(&self, at_ms: u64) -> Arc<Catalog> {
        let stale = self.weather.stale_catalogs.iter().find(|window| window.holds(at_ms));
        let at_ms = stale.map_or(at_ms, |window| window.from_ms);
        let unchanged = self.weather.prices.iter().all(|change| change.at_ms > at_ms)
            && self.weather.withdrawals.iter().all(|withdrawal| !withdrawal.window.holds(at_ms));
        if unchanged {
            return self.catalog.clone();
        }
        self.strike();
        let types = self.catalog.types.iter().map(|t| {
            let mut told = InstanceType::clone(t);
            told.offerings.retain(|offering| {
                !self.is_withdrawn(&t.name, &offering.zone, offering.capacity_type, at_ms)
            });
            for offering in &mut told.offerings {
                offering.price = self.price(&t.name, offering, at_ms);
            }
            told
        });
        let types = types.filter(|t| !t.offerings.is_empty()).map(Arc::new).collect();
        Arc::new(Catalog { name: self.catalog.name.clone(), types })
    }

    fn price(&self, instance_type: &str, offering: &Offering, at_ms: u64) -> Price {
        let changes = self.weather.prices.iter().filter(|change| {
            change.at_ms <= at_ms
                && change.which.matches(instance_type, &offering.zone, offering.capacity_type)
        });
        changes.fold(offering.price, |price, change| match change.price {
            NewPrice::Permille(permille) => price.scaled(i64::from(permille), 1000),
            NewPrice::MicroUsd(micro_usd) => Price::from_micro_usd(micro_usd),
        })
    }

    fn is_withdrawn(&self, instance_type: &str, zone: &str, capacity_type: CapacityType, at_ms: u64) -> bool {
        self.weather.withdrawals.iter().any(|withdrawal| {
            withdrawal.window.holds(at_ms) && withdrawal.which.matches(instance_type, zone, capacity_type)
        })
    }

    /// One machine of this offering, if it can be had now.
    pub(super) fn pick(&self, wanted: &Alternative) -> Result<Pick, Unavailable> {
        let exactly = OfferingPattern {
            instance_type: Some(wanted.instance_type.clone()),
            zone: Some(wanted.zone.clone()),
            capacity_type: Some(wanted.capacity_type),
        };
        let lacks = |lack: Lack| Unavailable { offerings: exactly.clone(), lack };
        let at_ms = self.elapsed_ms(self.now);
        let found = self.catalog.types.iter().find(|t| t.name == wanted.instance_type).and_then(|t| {
            let offering = t.offerings.iter().find(|offering| exactly.matches(&t.name, offering))?;
            Some((t, offering))
        });
        let Some((instance_type, offering)) = found else { return Err(lacks(Lack::NotOffered)) };
        if self.is_withdrawn(&wanted.instance_type, &wanted.zone, wanted.capacity_type, at_ms) {
            return Err(lacks(Lack::NotOffered));
        }
        if let Some(beyond) = self.quota_beyond(instance_type, offering, at_ms) {
            return Err(beyond);
        }
        let sold = (wanted.instance_type.clone(), wanted.zone.clone(), wanted.capacity_type);
        if !offering.available || self.stock.get(&sold) == Some(&0) {
            return Err(lacks(Lack::Stock));
        }
        Ok(Pick {
            instance_type: instance_type.clone(),
            zone: offering.zone.clone(),
            capacity_type: offering.capacity_type,
            price: self.price(&instance_type.name, offering, at_ms),
        })
    }

    /// The first quota, by name, that one more would exceed.
    fn quota_beyond(
        &self,
        instance_type: &InstanceType,
        offering: &Offering,
        at_ms: u64,
    ) -> Option<Unavailable> {
        let in_force: BTreeMap<&Text, &Quota> = self
            .weather
            .quotas
            .iter()
            .filter(|quota| quota.at_ms <= at_ms)
            .map(|quota| (&quota.name, quota))
            .collect();
        let exceeded = in_force.into_values().find(|quota| {
            let counts = quota.which.matches(&instance_type.name, &offering.zone, offering.capacity_type);
            let (machines, vcpus) = self.used(quota);
            let beyond = |max: Option<u32>, asked: i64| max.is_some_and(|max| asked > i64::from(max));
            counts
                && (beyond(quota.machines_max, machines + 1)
                    || beyond(quota.vcpus_max, vcpus + vcpus_of(instance_type)))
        })?;
        // A pattern knows no beginnings of names, so then only the type that was asked for is named.
        let of_type = exceeded.which.instance_type.as_ref().map(|_| instance_type.name.clone());
        let offerings = OfferingPattern {
            instance_type: of_type,
            zone: exceeded.which.zone.clone(),
            capacity_type: exceeded.which.capacity_type,
        };
        Some(Unavailable { offerings, lack: Lack::Quota(exceeded.name.clone()) })
    }

    /// The machines that count for a quota, and their vCPUs.
    fn used(&self, quota: &Quota) -> (i64, i64) {
        let counted = self.records.iter().filter(|record| record.is_alive()).filter_map(|record| {
            let machine = &record.machine;
            let counts = quota.which.matches(&machine.instance_type, &machine.zone, machine.capacity_type);
            record.purchase.as_ref().filter(|_| counts)
        });
        counted.fold((0, 0), |(machines, vcpus), purchase| {
            (machines + 1, vcpus + vcpus_of(&purchase.instance_type))
        })
    }

    pub(super) fn restock(&mut self, change: &StockChange) {
        for t in &self.catalog.types {
            for offering in &t.offerings {
                if change.which.matches(&t.name, &offering.zone, offering.capacity_type) {
                    let sold = (t.name.clone(), offering.zone.clone(), offering.capacity_type);
                    self.stock.insert(sold, change.count);
                }
            }
        }
    }
}

fn vcpus_of(instance_type: &InstanceType) -> i64 {
    instance_type.capacity.get(CPU).saturating_add(999) / 1000
}
