//! A catalog in the making: in order, and without contradictions.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_core::catalog::{CapacityType, Catalog, InstanceType, Offering};
use berth_core::names::{Labels, Text};
use berth_core::units::Price;

use crate::error::{CatalogError, Place};

#[derive(Debug, Default)]
pub(crate) struct Draft {
    types: BTreeMap<Text, InstanceType>,
}

/// What it means that a name comes a second time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeated {
    Refused,
    /// The list has a line for each offering.
    AddsOfferings,
}

impl Draft {
    pub(crate) fn add(
        &mut self,
        mut added: InstanceType,
        repeated: Repeated,
        at: impl Fn() -> Place,
    ) -> Result<(), CatalogError> {
        let offerings = std::mem::take(&mut added.offerings);
        let name = added.name.clone();
        let listed = match self.types.get_mut(&name) {
            None => self.types.entry(name.clone()).or_insert(added),
            Some(_) if repeated == Repeated::Refused => {
                return Err(CatalogError::DuplicateType { at: at(), name });
            }
            Some(listed) => {
                if let Some(difference) = difference(listed, &added) {
                    return Err(CatalogError::TypesDiffer { at: at(), name, difference });
                }
                listed
            }
        };
        for offering in offerings {
            let Err(place) = listed.offerings.binary_search_by(|other| key(other).cmp(&key(&offering)))
            else {
                let offering = describe(&offering);
                return Err(CatalogError::DuplicateOffering { at: at(), name, offering });
            };
            listed.offerings.insert(place, offering);
        }
        Ok(())
    }

    /// Types in the order of their names; offerings in that of zone, capacity type and labels.
    pub(crate) fn finish(self, name: &str) -> Result<Catalog, CatalogError> {
        if self.types.is_empty() {
            return Err(CatalogError::Empty);
        }
        Ok(Catalog { name: name.into(), types: self.types.into_values().map(Arc::new).collect() })
    }
}

/// An offering that can be had, at a price that is quoted.
pub(crate) fn quoted(zone: Text, capacity_type: CapacityType, price: Price) -> Offering {
    Offering {
        zone,
        capacity_type,
        price,
        estimated: false,
        available: true,
        remaining: None,
        labels: Labels::new(),
    }
}

fn difference(listed: &InstanceType, added: &InstanceType) -> Option<&'static str> {
    if listed.labels != added.labels {
        Some("its labels")
    } else if listed.capacity != added.capacity || listed.overhead != added.overhead {
        Some("its resources")
    } else if listed.volume_limits != added.volume_limits {
        Some("its volume limits")
    } else {
        None
    }
}

/// What makes an offering the one it is, and its place in the list.
fn key(offering: &Offering) -> (&Text, CapacityType, &Labels) {
    (&offering.zone, offering.capacity_type, &offering.labels)
}

fn describe(offering: &Offering) -> String {
    let mut text = format!("in {} as {}", offering.zone, offering.capacity_type);
    for (key, value) in &offering.labels {
        text.extend([", ", key, "=", value]);
    }
    text
}
