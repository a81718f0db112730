//! Amounts of named resources: CPU in thousandths, money in millionths, everything else in whole units.

use std::collections::BTreeMap;
use std::fmt;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::names::Text;
use crate::units::{Price, Quantity, format_binary};

pub const CPU: &str = "cpu";
pub const MEMORY: &str = "memory";
pub const PODS: &str = "pods";
pub const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
pub const HUGEPAGES_PREFIX: &str = "hugepages-";
/// What nodes cost together, as a limit of their pool.
pub const USD_PER_HOUR: &str = "berth.dev/usd-per-hour";

/// Amounts by resource name. A resource that is not named is zero; amounts are never negative.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resources(BTreeMap<Text, i64>);

impl Resources {
    pub fn new() -> Self {
        Self::default()
    }

    /// For tests and built-in tables: `Resources::of(&[("cpu", 500), ("memory", 1 << 30)])`.
    pub fn of(amounts: &[(&str, i64)]) -> Self {
        amounts.iter().map(|(name, amount)| (Text::from(*name), *amount)).collect()
    }

    /// A quantity in this resource's integer unit, rounded up.
    pub fn amount_of(name: &str, quantity: Quantity) -> i64 {
        match name {
            CPU => quantity.milli_ceil(),
            USD_PER_HOUR => quantity.micro_ceil(),
            _ => quantity.units_ceil(),
        }
    }

    pub fn get(&self, name: &str) -> i64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    pub fn names(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub fn set(&mut self, name: &str, amount: i64) {
        match self.0.get_mut(name) {
            Some(slot) => *slot = amount,
            None => {
                self.0.insert(name.into(), amount);
            }
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Text, i64)> {
        self.0.iter().map(|(name, amount)| (name, *amount))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn add(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let slot = self.0.entry(name.clone()).or_insert(0);
            *slot = slot.saturating_add(*amount);
        }
    }

    /// Subtracts, stopping at zero: overhead can exceed a tiny node, but a node has no negative room.
    pub fn subtract(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            if let Some(slot) = self.0.get_mut(name) {
                *slot = slot.saturating_sub(*amount).max(0);
            }
        }
    }

    /// Takes the larger amount of each resource.
    pub fn max(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let slot = self.0.entry(name.clone()).or_insert(0);
            *slot = (*slot).max(*amount);
        }
    }

    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let mut sum = self.clone();
        sum.add(other);
        sum
    }

    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        let mut rest = self.clone();
        rest.subtract(other);
        rest
    }

    /// The first resource of which `self` asks for more than `room` has.
    pub fn first_exceeding(&self, room: &Self) -> Option<(&Text, i64)> {
        self.iter().find(|(name, amount)| *amount > room.get(name))
    }
}

impl FromIterator<(Text, i64)> for Resources {
    fn from_iter<I: IntoIterator<Item = (Text, i64)>>(amounts: I) -> Self {
        Self(amounts.into_iter().collect())
    }
}

/// An amount as the Kubernetes quantity people write for this resource.
pub fn format_amount(name: &str, amount: i64) -> String {
    if name == CPU {
        if amount % 1000 == 0 { (amount / 1000).to_string() } else { format!("{amount}m") }
    } else if name == MEMORY || name == EPHEMERAL_STORAGE || name.starts_with(HUGEPAGES_PREFIX) {
        format_binary(amount)
    } else if name == USD_PER_HOUR {
        Price::from_micro_usd(amount).to_string()
    } else {
        amount.to_string()
    }
}

impl fmt::Display for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (name, amount)) in self.iter().enumerate() {
            let separator = if i == 0 { "" } else { ", " };
            write!(f, "{separator}{name} {}", format_amount(name, amount))?;
        }
        Ok(())
    }
}

impl Serialize for Resources {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, amount) in self.iter() {
            map.serialize_entry(&**name, &format_amount(name, amount))?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_never_goes_below_zero() {
        let node = Resources::of(&[(CPU, 100), (MEMORY, 10)]);
        assert_eq!(
            node.minus(&Resources::of(&[(CPU, 300), ("gpu", 1)])),
            Resources::of(&[(CPU, 0), (MEMORY, 10)])
        );
    }

    #[test]
    fn the_first_exceeding_resource_is_named() {
        let request = Resources::of(&[(CPU, 100), ("gpu", 1)]);
        assert_eq!(
            request.first_exceeding(&Resources::of(&[(CPU, 100)])).map(|(n, a)| (&**n, a)),
            Some(("gpu", 1))
        );
        assert_eq!(request.first_exceeding(&Resources::of(&[(CPU, 100), ("gpu", 1)])), None);
    }

    #[test]
    fn amounts_read_like_kubernetes() {
        let resources =
            Resources::of(&[(CPU, 3900), (MEMORY, 6 << 30), (PODS, 3), (USD_PER_HOUR, 1_250_000)]);
        assert_eq!(resources.to_string(), "berth.dev/usd-per-hour 1.250000, cpu 3900m, memory 6Gi, pods 3");
        for (name, amount) in resources.iter() {
            let read =
                format_amount(name, amount).parse().map(|quantity| Resources::amount_of(name, quantity));
            assert_eq!(read, Ok(amount), "{name} is read as it is written");
        }
    }
}
