//! What an operator knows better than the cloud: other prices, and resources the cloud does not list.
//!
//! The meaning is that of Karpenter's NodeOverlay. The overlay with the highest weight decides, for each
//! offering's price and for each added resource by itself. Two overlays of that weight that say
//! different things are a conflict, which has no answer; two that say the same are not.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::catalog::{CapacityType, InstanceType, Offering};
use crate::names::{self, Labels, Text};
use crate::requirement::{Requirements, ValueSet};
use crate::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources};
use crate::units::{Price, Quantity};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlay {
    pub name: Text,
    /// Which offerings it is for: on labels of the pool, of the instance type, of the offering.
    pub requirements: Requirements,
    pub price: Option<OverlayPrice>,
    /// Extended resources of a matching type. One matching offering is enough: capacity is the type's.
    pub capacity: Resources,
    pub weight: i32,
}

/// Instead of a price, or on top of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OverlayPrice {
    Absolute(Price),
    Adjust {
        micro_usd: i64,
    },
    /// In millionths, because a percentage may have decimals: +5% is 50,000.
    Percent {
        millionths: i64,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdjustmentError {
    #[error("`{0}` has no sign; write +0.10, -0.10, +5% or -5%, or set `price` instead")]
    NoSign(String),
    #[error("`{0}` is not a price adjustment; write +0.10, -0.10, +5% or -5%")]
    NotANumber(String),
    #[error("`{0}` takes away more than everything; the most is -100%")]
    BelowNothing(String),
    #[error("`{0}` is absurdly high; an adjustment is below 1000000 US dollars an hour or percent")]
    TooHigh(String),
}

impl OverlayPrice {
    const ONE_IN_MILLIONTHS: i64 = 1_000_000;
    const NANOS_MAX: i128 = 1_000_000 * 1_000_000_000;

    /// What this makes of a price; never less than nothing.
    #[must_use]
    pub fn applied_to(self, price: Price) -> Price {
        match self {
            Self::Absolute(price) => price,
            Self::Adjust { micro_usd } => price.plus(Price::from_micro_usd(micro_usd)),
            Self::Percent { millionths } => {
                price.scaled(Self::ONE_IN_MILLIONTHS + millionths, Self::ONE_IN_MILLIONTHS)
            }
        }
        .max(Price::ZERO)
    }
}

impl FromStr for OverlayPrice {
    type Err = AdjustmentError;

    /// Karpenter's `priceAdjustment`: a sign, a decimal number, and perhaps a percent sign.
    fn from_str(text: &str) -> Result<Self, AdjustmentError> {
        let (sign, unsigned) = match text.as_bytes().first() {
            Some(b'+') => (1, &text[1..]),
            Some(b'-') => (-1, &text[1..]),
            _ => return Err(AdjustmentError::NoSign(text.to_owned())),
        };
        let (number, is_percent) =
            unsigned.strip_suffix('%').map_or((unsigned, false), |number| (number, true));
        let plain = number.bytes().all(|b| b.is_ascii_digit() || b == b'.')
            && number.bytes().last().is_some_and(|b| b.is_ascii_digit());
        let nanos = number
            .parse::<Quantity>()
            .ok()
            .filter(|_| plain)
            .ok_or_else(|| AdjustmentError::NotANumber(text.to_owned()))?
            .nanos();
        if nanos > Self::NANOS_MAX {
            return Err(AdjustmentError::TooHigh(text.to_owned()));
        }
        let rounded = |nanos_per_step: i128| {
            i64::try_from((nanos + nanos_per_step / 2) / nanos_per_step).unwrap_or(i64::MAX) * sign
        };
        if !is_percent {
            return Ok(Self::Adjust { micro_usd: rounded(1_000) });
        }
        let millionths = rounded(100_000);
        if millionths < -Self::ONE_IN_MILLIONTHS {
            return Err(AdjustmentError::BelowNothing(text.to_owned()));
        }
        Ok(Self::Percent { millionths })
    }
}

impl fmt::Display for OverlayPrice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = |value: i64| if value < 0 { '-' } else { '+' };
        match *self {
            Self::Absolute(price) => price.fmt(f),
            Self::Adjust { micro_usd } => {
                write!(f, "{}{}", sign(micro_usd), Price::from_micro_usd(micro_usd.saturating_abs()))
            }
            Self::Percent { millionths } => {
                let (whole, rest) = (millionths.abs() / 10_000, millionths.abs() % 10_000);
                write!(f, "{}{whole}", sign(millionths))?;
                if rest != 0 {
                    write!(f, ".{}", format!("{rest:04}").trim_end_matches('0'))?;
                }
                f.write_str("%")
            }
        }
    }
}

/// Why overlays cannot be applied together. Where two are named, neither may be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Conflict {
    #[error(
        "overlays {first} and {second} both have weight {weight} and differ on the price of {instance_type} in {zone} as {capacity_type}; give one of them a higher weight, or requirements that do not overlap"
    )]
    Price {
        first: Text,
        second: Text,
        weight: i32,
        instance_type: Text,
        zone: Text,
        capacity_type: CapacityType,
    },
    #[error(
        "overlays {first} and {second} both have weight {weight} and differ on {resource} of {instance_type}; give one of them a higher weight, or requirements that do not overlap"
    )]
    Capacity { first: Text, second: Text, weight: i32, instance_type: Text, resource: Text },
    #[error(
        "overlay {overlay} sets {resource}; an overlay can only add extended resources such as example.com/gpu"
    )]
    NotExtended { overlay: Text, resource: Text },
}

impl Conflict {
    /// The overlays that cannot be applied because of it.
    pub fn overlays(&self) -> impl Iterator<Item = &Text> {
        let (first, second) = match self {
            Self::Price { first, second, .. } | Self::Capacity { first, second, .. } => (first, Some(second)),
            Self::NotExtended { overlay, .. } => (overlay, None),
        };
        [first].into_iter().chain(second)
    }
}

/// The types as they are with the overlays, in the same order. A type that no overlay changes is shared.
///
/// All conflicts are reported, each pair of overlays once per kind of conflict, in a defined order.
pub fn apply(
    types: &[Arc<InstanceType>],
    overlays: &[Overlay],
) -> Result<Vec<Arc<InstanceType>>, Vec<Conflict>> {
    apply_in_pool(types, &Labels::new(), overlays)
}

/// As [`apply`], for the types of one pool: overlays may ask for the pool's name and labels.
pub fn apply_in_pool(
    types: &[Arc<InstanceType>],
    pool_labels: &Labels,
    overlays: &[Overlay],
) -> Result<Vec<Arc<InstanceType>>, Vec<Conflict>> {
    let mut ranked: Vec<&Overlay> = overlays.iter().collect();
    ranked.sort_by_key(|overlay| (Reverse(overlay.weight), &overlay.name));
    let mut conflicts = Conflicts::default();
    for overlay in &ranked {
        conflicts.refuse_standard_resources(overlay);
    }
    let result = types.iter().map(|t| overlaid(t, pool_labels, &ranked, &mut conflicts)).collect();
    if conflicts.found.is_empty() { Ok(result) } else { Err(conflicts.found) }
}

/// One type with the overlays, which come with the highest weight first.
fn overlaid(
    instance_type: &Arc<InstanceType>,
    pool_labels: &Labels,
    ranked: &[&Overlay],
    conflicts: &mut Conflicts,
) -> Arc<InstanceType> {
    let mut price_by: Vec<Option<(&Overlay, OverlayPrice)>> = vec![None; instance_type.offerings.len()];
    let mut capacity_by: BTreeMap<&Text, (&Overlay, i64)> = BTreeMap::new();
    for overlay in ranked {
        let Some(open) = left_to_offerings(overlay, instance_type, pool_labels) else {
            continue;
        };
        let mut matches_any = false;
        for (offering, slot) in instance_type.offerings.iter().zip(&mut price_by) {
            if !open.iter().all(|(key, set)| set.admits(offering_label(offering, key))) {
                continue;
            }
            matches_any = true;
            match (overlay.price, *slot) {
                (Some(price), None) => *slot = Some((overlay, price)),
                (Some(price), Some((first, decided)))
                    if first.weight == overlay.weight && price != decided =>
                {
                    conflicts.on_price(first, overlay, instance_type, offering);
                }
                _ => {}
            }
        }
        if !matches_any {
            continue;
        }
        for (resource, amount) in overlay.capacity.iter() {
            let (first, decided) = *capacity_by.entry(resource).or_insert((overlay, amount));
            if first.weight == overlay.weight && decided != amount {
                conflicts.on_capacity(first, overlay, instance_type, resource);
            }
        }
    }
    if capacity_by.is_empty() && price_by.iter().all(Option::is_none) {
        return Arc::clone(instance_type);
    }
    let mut changed = InstanceType::clone(instance_type);
    for (resource, (_, amount)) in capacity_by {
        changed.capacity.set(resource, amount);
    }
    for (offering, decided) in changed.offerings.iter_mut().zip(price_by) {
        if let Some((_, price)) = decided {
            offering.price = price.applied_to(offering.price);
            offering.estimated &= !matches!(price, OverlayPrice::Absolute(_));
        }
    }
    Arc::new(changed)
}

/// The overlay's requirements that the type and the pool leave open, or `None` where they refuse.
fn left_to_offerings<'o>(
    overlay: &'o Overlay,
    instance_type: &InstanceType,
    pool_labels: &Labels,
) -> Option<Vec<(&'o Text, &'o ValueSet)>> {
    let mut open = Vec::new();
    for (key, set) in overlay.requirements.iter() {
        let label = if **key == *names::INSTANCE_TYPE {
            Some(&instance_type.name)
        } else {
            instance_type.labels.get(key).or_else(|| pool_labels.get(key))
        };
        match label {
            Some(value) if !set.has(value) => return None,
            Some(_) => {}
            None => open.push((key, set)),
        }
    }
    Some(open)
}

fn offering_label<'a>(offering: &'a Offering, key: &str) -> Option<&'a str> {
    match key {
        names::ZONE => Some(&offering.zone),
        names::CAPACITY_TYPE => Some(offering.capacity_type.name()),
        _ => offering.labels.get(key).map(|value| &**value),
    }
}

#[derive(Default)]
struct Conflicts {
    found: Vec<Conflict>,
    /// Pairs of overlays, with the resource they differ on or `None` for the price.
    reported: BTreeSet<(Text, Text, Option<Text>)>,
}

impl Conflicts {
    fn refuse_standard_resources(&mut self, overlay: &Overlay) {
        for (resource, _) in overlay.capacity.iter() {
            if [CPU, MEMORY, EPHEMERAL_STORAGE, PODS].contains(&&**resource) {
                self.found.push(Conflict::NotExtended {
                    overlay: overlay.name.clone(),
                    resource: resource.clone(),
                });
            }
        }
    }

    fn on_price(&mut self, first: &Overlay, second: &Overlay, on: &InstanceType, offering: &Offering) {
        let (first_name, second_name) = (first.name.clone(), second.name.clone());
        if self.reported.insert((first_name.clone(), second_name.clone(), None)) {
            self.found.push(Conflict::Price {
                first: first_name,
                second: second_name,
                weight: first.weight,
                instance_type: on.name.clone(),
                zone: offering.zone.clone(),
                capacity_type: offering.capacity_type,
            });
        }
    }

    fn on_capacity(&mut self, first: &Overlay, second: &Overlay, on: &InstanceType, resource: &Text) {
        let (first_name, second_name) = (first.name.clone(), second.name.clone());
        if self.reported.insert((first_name.clone(), second_name.clone(), Some(resource.clone()))) {
            self.found.push(Conflict::Capacity {
                first: first_name,
                second: second_name,
                weight: first.weight,
                instance_type: on.name.clone(),
                resource: resource.clone(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requirement::{Expression, Operator};

    fn instance_type(name: &str, arch: &str) -> Arc<InstanceType> {
        let offering = |zone: &str, capacity_type, micro_usd| Offering {
            zone: zone.into(),
            capacity_type,
            price: Price::from_micro_usd(micro_usd),
            estimated: capacity_type == CapacityType::Spot,
            available: true,
            remaining: None,
            labels: Labels::new(),
        };
        Arc::new(InstanceType {
            name: name.into(),
            labels: Labels::from([(names::ARCH.into(), arch.into())]),
            capacity: Resources::of(&[(CPU, 4000), ("example.com/gpu", 1)]),
            overhead: Resources::new(),
            volume_limits: BTreeMap::new(),
            offerings: vec![
                offering("a", CapacityType::OnDemand, 100_000),
                offering("a", CapacityType::Spot, 40_000),
                offering("b", CapacityType::OnDemand, 100_000),
            ],
        })
    }

    /// `name weight requirements effects`, where requirements are `key=value|value` or `key!value` joined
    /// by commas or `-` for none, and effects are a price, an adjustment, or `resource=amount`.
    fn overlay(text: &str) -> Overlay {
        let words: Vec<&str> = text.split(' ').collect();
        let requirements = words[2].split(',').filter(|part| *part != "-").map(|part| {
            let (operator, at) = part
                .find('=')
                .map_or_else(|| (Operator::NotIn, part.find('!').unwrap()), |at| (Operator::In, at));
            let values = part[at + 1..].split('|').map(Text::from).collect();
            Expression::new(&part[..at], operator, values).unwrap()
        });
        let mut overlay = Overlay {
            name: words[0].into(),
            requirements: requirements.collect(),
            price: None,
            capacity: Resources::new(),
            weight: words[1].parse().unwrap(),
        };
        for effect in &words[3..] {
            if let Some((resource, amount)) = effect.split_once('=') {
                overlay.capacity.set(resource, amount.parse().unwrap());
            } else if effect.starts_with(['+', '-']) {
                overlay.price = Some(effect.parse().unwrap());
            } else {
                overlay.price = Some(OverlayPrice::Absolute(effect.parse().unwrap()));
            }
        }
        overlay
    }

    fn applied(overlays: &[&str]) -> Result<Vec<Arc<InstanceType>>, Vec<String>> {
        let pool = Labels::from([(names::NODEPOOL.into(), "web".into()), ("team".into(), "shop".into())]);
        let overlays: Vec<Overlay> = overlays.iter().map(|text| overlay(text)).collect();
        apply_in_pool(&[instance_type("x", "amd64"), instance_type("y", "arm64")], &pool, &overlays)
            .map_err(|conflicts| conflicts.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn adjustments_are_karpenters() {
        for (text, expected) in [
            ("+5%", Ok(OverlayPrice::Percent { millionths: 50_000 })),
            ("-12.5%", Ok(OverlayPrice::Percent { millionths: -125_000 })),
            ("-100%", Ok(OverlayPrice::Percent { millionths: -1_000_000 })),
            ("+250%", Ok(OverlayPrice::Percent { millionths: 2_500_000 })),
            ("+0.5", Ok(OverlayPrice::Adjust { micro_usd: 500_000 })),
            ("-0.10", Ok(OverlayPrice::Adjust { micro_usd: -100_000 })),
            ("+.1", Ok(OverlayPrice::Adjust { micro_usd: 100_000 })),
            ("+0.0000005", Ok(OverlayPrice::Adjust { micro_usd: 1 })),
            ("0.5", Err(AdjustmentError::NoSign("0.5".to_owned()))),
            ("", Err(AdjustmentError::NoSign(String::new()))),
            ("+", Err(AdjustmentError::NotANumber("+".to_owned()))),
            ("+%", Err(AdjustmentError::NotANumber("+%".to_owned()))),
            ("+1.", Err(AdjustmentError::NotANumber("+1.".to_owned()))),
            ("+1.2.3", Err(AdjustmentError::NotANumber("+1.2.3".to_owned()))),
            ("+1k", Err(AdjustmentError::NotANumber("+1k".to_owned()))),
            ("+1e3", Err(AdjustmentError::NotANumber("+1e3".to_owned()))),
            ("--1", Err(AdjustmentError::NotANumber("--1".to_owned()))),
            ("-100.5%", Err(AdjustmentError::BelowNothing("-100.5%".to_owned()))),
            ("+99999999", Err(AdjustmentError::TooHigh("+99999999".to_owned()))),
        ] {
            assert_eq!(text.parse::<OverlayPrice>(), expected, "{text}");
        }
        for text in ["+5%", "-12.5%", "+0.0001%", "-0.100000"] {
            assert_eq!(text.parse::<OverlayPrice>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn prices_follow_the_heaviest_overlay() {
        let any = "-";
        for (overlays, x, y) in [
            (vec![], [100_000, 40_000, 100_000], [100_000, 40_000, 100_000]),
            (vec![format!("o 1 {any} 0.5")], [500_000; 3], [500_000; 3]),
            (vec![format!("o 1 {any} +10%")], [110_000, 44_000, 110_000], [110_000, 44_000, 110_000]),
            (vec![format!("o 1 {any} -0.05")], [50_000, 0, 50_000], [50_000, 0, 50_000]),
            (vec!["o 1 kubernetes.io/arch=arm64 -100%".to_owned()], [100_000, 40_000, 100_000], [0, 0, 0]),
            (
                vec!["o 1 topology.kubernetes.io/zone=a,karpenter.sh/capacity-type=on-demand 1".to_owned()],
                [1_000_000, 40_000, 100_000],
                [1_000_000, 40_000, 100_000],
            ),
            (
                vec!["o 1 node.kubernetes.io/instance-type=x 1".to_owned()],
                [1_000_000; 3],
                [100_000, 40_000, 100_000],
            ),
            (vec!["o 1 karpenter.sh/nodepool=web,team!bank 1".to_owned()], [1_000_000; 3], [1_000_000; 3]),
            (
                vec!["o 1 karpenter.sh/nodepool=batch 1".to_owned()],
                [100_000, 40_000, 100_000],
                [100_000, 40_000, 100_000],
            ),
            (vec!["o 1 unheard=of 1".to_owned()], [100_000, 40_000, 100_000], [100_000, 40_000, 100_000]),
            (vec!["o 1 unheard!of 1".to_owned()], [1_000_000; 3], [1_000_000; 3]),
            (
                vec![format!("light 1 {any} 3"), "heavy 2 kubernetes.io/arch=amd64 2".to_owned()],
                [2_000_000; 3],
                [3_000_000; 3],
            ),
            (vec![format!("p 1 {any} 3"), format!("q 1 {any} 3")], [3_000_000; 3], [3_000_000; 3]),
            (
                vec![format!("p 1 {any} 3"), format!("q 1 {any} 4"), format!("r 2 {any} 5")],
                [5_000_000; 3],
                [5_000_000; 3],
            ),
        ] {
            let texts: Vec<&str> = overlays.iter().map(String::as_str).collect();
            let prices: Vec<Vec<i64>> = applied(&texts)
                .unwrap()
                .iter()
                .map(|t| t.offerings.iter().map(|o| o.price.micro_usd()).collect())
                .collect();
            assert_eq!(prices, [x, y], "{overlays:?}");
        }
    }

    #[test]
    fn capacity_is_the_types() {
        for (overlays, x, y) in [
            (vec!["o 1 - example.com/gpu=8"], (8, 0), (8, 0)),
            (vec!["o 1 - example.com/fpga=2"], (1, 2), (1, 2)),
            (
                vec!["o 1 topology.kubernetes.io/zone=b,kubernetes.io/arch=arm64 example.com/fpga=2"],
                (1, 0),
                (1, 2),
            ),
            (vec!["o 1 topology.kubernetes.io/zone=c example.com/fpga=2"], (1, 0), (1, 0)),
            (vec!["p 1 - example.com/fpga=2 example.com/gpu=3", "q 9 - example.com/fpga=5"], (3, 5), (3, 5)),
            (vec!["p 1 - example.com/fpga=2", "q 1 - example.com/gpu=5"], (5, 2), (5, 2)),
        ] {
            let capacities: Vec<(i64, i64)> = applied(&overlays)
                .unwrap()
                .iter()
                .map(|t| (t.capacity.get("example.com/gpu"), t.capacity.get("example.com/fpga")))
                .collect();
            assert_eq!(capacities, [x, y], "{overlays:?}");
        }
    }

    #[test]
    fn conflicts_name_both_overlays() {
        for (overlays, expected) in [
            (
                vec!["q 1 - 1", "p 1 topology.kubernetes.io/zone=b 2"],
                vec!["overlays p and q both have weight 1 and differ on the price of x in b as on-demand"],
            ),
            (
                vec!["p 1 - e/gpu=1", "q 1 kubernetes.io/arch=arm64 e/gpu=2"],
                vec!["overlays p and q both have weight 1 and differ on e/gpu of y"],
            ),
            (vec!["p 1 - cpu=1"], vec!["overlay p sets cpu"]),
            (vec!["p 1 - 1", "q 1 - 2", "r 1 - 3"], vec!["overlays p and q", "overlays p and r"]),
        ] {
            let conflicts = applied(&overlays).unwrap_err();
            assert_eq!(conflicts.len(), expected.len(), "{overlays:?}: {conflicts:?}");
            for (conflict, start) in conflicts.iter().zip(expected) {
                assert!(conflict.starts_with(start), "{conflict}");
            }
        }
        assert!(applied(&["p 1 kubernetes.io/arch=arm64 1", "q 1 kubernetes.io/arch=amd64 2"]).is_ok());
    }

    #[test]
    fn untouched_types_are_shared_and_a_stated_price_is_no_estimate() {
        let types = [instance_type("x", "amd64"), instance_type("y", "arm64")];
        let result = apply(&types, &[overlay("o 1 kubernetes.io/arch=arm64 0.03")]).unwrap();
        assert!(Arc::ptr_eq(&types[0], &result[0]));
        assert!(!Arc::ptr_eq(&types[1], &result[1]));
        assert!(result[1].offerings.iter().all(|offering| !offering.estimated));
        let adjusted = apply(&types, &[overlay("o 1 - +1%")]).unwrap();
        assert!(adjusted[0].offerings[1].estimated);
    }
}
