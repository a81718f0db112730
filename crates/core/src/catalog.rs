//! What can be bought.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::names::{self, Labels, Text};
use crate::resources::Resources;
use crate::units::Price;

/// All instance types and offerings of a cloud, as known now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Catalog {
    pub name: Text,
    pub types: Vec<Arc<InstanceType>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceType {
    pub name: Text,
    /// Labels that every node of this type has (arch, family, …), without those of its offerings.
    pub labels: Labels,
    pub capacity: Resources,
    /// What the system keeps for itself: allocatable is capacity less this.
    pub overhead: Resources,
    /// How many volumes each CSI driver can attach, where known.
    pub volume_limits: BTreeMap<Text, u32>,
    pub offerings: Vec<Offering>,
}

impl InstanceType {
    pub fn allocatable(&self) -> Resources {
        let mut allocatable = self.capacity.minus(&self.overhead);
        // Huge pages are carved out of memory before any pod sees it.
        let huge: i64 = self
            .capacity
            .iter()
            .filter(|(name, _)| name.starts_with(crate::resources::HUGEPAGES_PREFIX))
            .map(|(_, amount)| amount)
            .sum();
        if huge > 0 {
            allocatable.subtract(&Resources::of(&[(crate::resources::MEMORY, huge)]));
        }
        allocatable
    }
}

/// One thing that can be bought: an instance type in a zone, as a capacity type, at a price.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offering {
    pub zone: Text,
    pub capacity_type: CapacityType,
    pub price: Price,
    /// The price is derived (a spot discount that was assumed), not quoted.
    pub estimated: bool,
    pub available: bool,
    /// How many more can be had, where that is bounded (a capacity reservation).
    pub remaining: Option<u32>,
    /// Labels beyond zone and capacity type (region, operating system, reservation id, …).
    pub labels: Labels,
}

impl Offering {
    /// The labels of a node bought as this offering, beyond those of its type and pool.
    pub fn node_labels(&self) -> impl Iterator<Item = (Text, Text)> {
        self.labels.iter().map(|(k, v)| (k.clone(), v.clone())).chain([
            (names::ZONE.into(), self.zone.clone()),
            (names::CAPACITY_TYPE.into(), self.capacity_type.name().into()),
        ])
    }
}

/// Ordered as people should prefer them at equal price: what is paid for already, then what stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CapacityType {
    Reserved,
    OnDemand,
    Spot,
}

impl CapacityType {
    pub const NAMES: &'static str = "on-demand, spot, reserved";

    pub fn name(self) -> &'static str {
        match self {
            Self::Reserved => "reserved",
            Self::OnDemand => "on-demand",
            Self::Spot => "spot",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::Reserved, Self::OnDemand, Self::Spot].into_iter().find(|c| c.name() == text)
    }
}

impl fmt::Display for CapacityType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Offerings that cannot be had now; `None` stands for any.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct OfferingPattern {
    pub instance_type: Option<Text>,
    pub zone: Option<Text>,
    pub capacity_type: Option<CapacityType>,
}

impl OfferingPattern {
    pub fn matches(&self, instance_type: &str, offering: &Offering) -> bool {
        self.instance_type.as_ref().is_none_or(|t| **t == *instance_type)
            && self.zone.as_ref().is_none_or(|z| *z == offering.zone)
            && self.capacity_type.is_none_or(|c| c == offering.capacity_type)
    }
}
