//! ScalingConstraint and ScalingFeedback.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use berth_core::catalog::{CapacityType, InstanceType, Offering, OfferingPattern};
use berth_core::names::{self, Labels, Text};
use berth_core::pool::Pool;
use berth_core::requirement::{Expression, Requirements};
use berth_core::resources::PODS;
use berth_core::units::Price;

use super::{empty_pool, read_amounts, read_labels, read_limits, read_node_cost, read_taints};
use crate::convert::Converter;
use crate::nodes::GARDENER_POOL;
use crate::problem::At;
use crate::resources::gardener::{ConstraintPool, NodeTemplate, ScalingConstraint, ScalingFeedback};

const TEMPLATE: &str = "sa.gardener.cloud/node-template-name";
const PODS_DEFAULT: i64 = 110;

/// A pool of a ScalingConstraint without its prices.
#[derive(Clone, Debug)]
pub(crate) struct ConstraintPoolObject {
    pub(crate) pool: Pool,
    /// Its index among the constraint's pools, for messages.
    pub(crate) index: usize,
    pub(crate) node_cost: Option<Price>,
    templates: Vec<TemplateType>,
    zones: Vec<Text>,
    region: Text,
}

/// A template as an instance type that has no offerings yet.
#[derive(Clone, Debug)]
struct TemplateType {
    instance_type: InstanceType,
    volumes_max: u32,
}

pub(crate) fn read_constraint(
    object: &ScalingConstraint,
    to: &mut Converter<'_>,
) -> Vec<ConstraintPoolObject> {
    let at = At::ROOT.key("spec");
    let list = at.key("nodePools");
    if object.spec.node_pools.is_empty() {
        to.findings.add(&list, "is empty; a constraint has at least one pool");
    }
    let node_cost = read_node_cost(&object.metadata, to);
    let pools = object.spec.node_pools.iter().enumerate();
    pools
        .map(|(i, pool)| ConstraintPoolObject { node_cost, ..read_pool(pool, i, &list.index(i), to) })
        .collect()
}

fn read_pool(
    pool: &ConstraintPool,
    index: usize,
    at: &At<'_>,
    to: &mut Converter<'_>,
) -> ConstraintPoolObject {
    for (field, empty) in [
        ("name", pool.name.is_empty()),
        ("region", pool.region.is_empty()),
        ("availabilityZones", pool.availability_zones.is_empty()),
        ("nodeTemplates", pool.node_templates.is_empty()),
    ] {
        if empty {
            to.findings.add(&at.key(field), "is empty");
        }
    }
    let mut labels = read_labels(&pool.labels, &at.key("labels"), to);
    let requirements: Requirements =
        labels.iter().map(|(key, value)| Expression::equals(key.clone(), value.clone())).collect();
    let name = to.text(&pool.name);
    labels.insert(to.text(GARDENER_POOL), name.clone());
    let list = at.key("nodeTemplates");
    let templates = pool.node_templates.iter().enumerate();
    ConstraintPoolObject {
        index,
        node_cost: None,
        templates: templates.map(|(i, template)| read_template(template, &list.index(i), to)).collect(),
        zones: pool.availability_zones.iter().map(|zone| to.text(zone)).collect(),
        region: to.text(&pool.region),
        pool: Pool {
            requirements,
            labels,
            taints: read_taints(&pool.taints, &at.key("taints"), to),
            limits: read_limits(&pool.quota, &at.key("quota"), to),
            // Gardener tries the lowest number first.
            weight: -i32::try_from(pool.priority.get()).unwrap_or(i32::MAX),
            ..empty_pool(name)
        },
    }
}

fn read_template(template: &NodeTemplate, at: &At<'_>, to: &mut Converter<'_>) -> TemplateType {
    for (field, empty) in
        [("name", template.name.is_empty()), ("instanceType", template.instance_type.is_empty())]
    {
        if empty {
            to.findings.add(&at.key(field), "is empty");
        }
    }
    let mut capacity = read_amounts(&template.capacity, &at.key("capacity"), to);
    if !capacity.names(PODS) {
        capacity.set(PODS, PODS_DEFAULT);
    }
    let mut overhead = read_amounts(&template.kube_reserved, &at.key("kubeReservedCapacity"), to);
    overhead.add(&read_amounts(&template.system_reserved, &at.key("systemReservedCapacity"), to));
    let name = to.text(&template.instance_type);
    let mut labels = Labels::new();
    for (key, value) in [
        (names::INSTANCE_TYPE, &*name),
        (names::ARCH, &template.architecture),
        (names::OS, "linux"),
        (TEMPLATE, &template.name),
    ] {
        if !value.is_empty() {
            labels.insert(to.text(key), to.text(value));
        }
    }
    TemplateType {
        volumes_max: template.max_volumes.get(),
        instance_type: InstanceType {
            name,
            labels,
            capacity,
            overhead,
            volume_limits: BTreeMap::new(),
            offerings: Vec::new(),
        },
    }
}

impl ConstraintPoolObject {
    /// The templates with the catalog's prices.
    ///
    /// A template's number of volumes holds for whichever driver attaches them.
    pub(crate) fn priced_types(
        &self,
        catalog: &[Arc<InstanceType>],
        drivers: &[Text],
    ) -> Result<Vec<Arc<InstanceType>>, Unpriced> {
        let mut types = Vec::with_capacity(self.templates.len());
        for (i, template) in self.templates.iter().enumerate() {
            let mut instance_type = template.instance_type.clone();
            let quotes = quotes_for(&instance_type.name, catalog);
            for zone in &self.zones {
                let price =
                    self.price_in(zone, &quotes).ok_or_else(|| self.unpriced(i, template, &quotes))?;
                instance_type.offerings.push(Offering {
                    zone: zone.clone(),
                    capacity_type: CapacityType::OnDemand,
                    price,
                    estimated: false,
                    available: true,
                    remaining: None,
                    labels: Labels::from([(names::REGION.into(), self.region.clone())]),
                });
            }
            if template.volumes_max > 0 {
                instance_type.volume_limits =
                    drivers.iter().map(|driver| (driver.clone(), template.volumes_max)).collect();
            }
            types.push(Arc::new(instance_type));
        }
        Ok(types)
    }

    /// The price in the zone, or the only one there is in the region or without a region.
    fn price_in(&self, zone: &Text, quotes: &[Quote<'_>]) -> Option<Price> {
        let usable = || quotes.iter().filter(|quote| quote.region.is_none_or(|r| *r == self.region));
        if let Some(quote) = usable().find(|quote| quote.zone == zone) {
            return Some(quote.price);
        }
        let in_region = usable().any(|quote| quote.region.is_some());
        let mut prices =
            usable().filter(|quote| quote.region.is_some() == in_region).map(|quote| quote.price);
        let first = prices.next()?;
        prices.all(|price| price == first).then_some(first)
    }

    fn unpriced(&self, index: usize, template: &TemplateType, quotes: &[Quote<'_>]) -> Unpriced {
        let elsewhere = |quote: &Quote<'_>| quote.region.filter(|region| **region != self.region).cloned();
        let usable = quotes.iter().any(|quote| elsewhere(quote).is_none());
        Unpriced {
            template: index,
            instance_type: template.instance_type.name.clone(),
            region: self.region.clone(),
            only_in: if usable { BTreeSet::new() } else { quotes.iter().filter_map(elsewhere).collect() },
        }
    }
}

/// An on-demand price of the catalog.
struct Quote<'c> {
    region: Option<&'c Text>,
    zone: &'c Text,
    price: Price,
}

fn quotes_for<'c>(name: &Text, catalog: &'c [Arc<InstanceType>]) -> Vec<Quote<'c>> {
    let types = catalog.iter().filter(|t| t.name == *name);
    types
        .flat_map(|t| t.offerings.iter().map(move |offering| (t, offering)))
        .filter(|(_, offering)| offering.capacity_type == CapacityType::OnDemand)
        .map(|(t, offering)| Quote {
            region: offering.labels.get(names::REGION).or_else(|| t.labels.get(names::REGION)),
            zone: &offering.zone,
            price: offering.price,
        })
        .collect()
}

/// A template that the catalog has no price for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unpriced {
    /// Its index among the pool's templates.
    pub(crate) template: usize,
    instance_type: Text,
    region: Text,
    /// The regions that there is a price in, where all of them are other regions.
    only_in: BTreeSet<Text>,
}

impl fmt::Display for Unpriced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { instance_type, region, only_in, .. } = self;
        if only_in.is_empty() {
            write!(f, "the catalog has no price for `{instance_type}` in the pool's zones")?;
        } else {
            let only_in: Vec<&str> = only_in.iter().map(|region| &**region).collect();
            let only_in = only_in.join(", ");
            write!(
                f,
                "the catalog has no price for `{instance_type}` in the region `{region}`, only in {only_in}"
            )?;
        }
        f.write_str("; add it to the catalog")
    }
}

/// What could not be bought, and should not be tried again now.
pub(crate) fn read_feedback(object: &ScalingFeedback, to: &mut Converter<'_>) -> Vec<OfferingPattern> {
    let pattern = |text: &String, to: &mut Converter<'_>| (!text.is_empty()).then(|| to.text(text));
    object
        .spec
        .scale_out_error_infos
        .iter()
        .map(|error| OfferingPattern {
            instance_type: pattern(&error.instance_type, to),
            zone: pattern(&error.availability_zone, to),
            capacity_type: None,
        })
        .filter(|pattern| *pattern != OfferingPattern::default())
        .collect()
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::intern::Interner;
    use crate::problem::Findings;
    use crate::tree::Tree;

    /// A type `large` with an on-demand price, in micro-dollars, for each region (if any) and zone.
    fn large(type_region: &str, quotes: &[(&str, &str, i64)]) -> Arc<InstanceType> {
        let region_labels = |region: &str| match region {
            "" => Labels::new(),
            region => Labels::from([(names::REGION.into(), region.into())]),
        };
        let offering = |(region, zone, micro_usd): &(&str, &str, i64)| Offering {
            zone: (*zone).into(),
            capacity_type: CapacityType::OnDemand,
            price: Price::from_micro_usd(*micro_usd),
            estimated: false,
            available: true,
            remaining: None,
            labels: region_labels(region),
        };
        Arc::new(InstanceType {
            name: "large".into(),
            labels: region_labels(type_region),
            capacity: berth_core::resources::Resources::new(),
            overhead: berth_core::resources::Resources::new(),
            volume_limits: BTreeMap::new(),
            offerings: quotes.iter().map(offering).collect(),
        })
    }

    /// The prices of a pool in the zones a and b of the region `here`, or why there are none.
    fn prices(catalog: &[Arc<InstanceType>]) -> String {
        let tree = Tree::parse(
            "{metadata: {name: sc}, spec: {nodePools: [{name: worker, region: here, priority: 0, availabilityZones: [a, b], nodeTemplates: [{name: t, architecture: amd64, instanceType: large, priority: 0, maxVolumes: 0, capacity: {cpu: 4}}]}]}}",
        )
        .unwrap();
        let object = ScalingConstraint::deserialize(&tree).unwrap();
        let (mut findings, mut interner) = (Findings::default(), Interner::default());
        let pools =
            read_constraint(&object, &mut Converter { findings: &mut findings, interner: &mut interner });
        assert!(findings.0.is_empty());
        match pools[0].priced_types(catalog, &[]) {
            Ok(types) => {
                let line = |o: &Offering| format!("{} {} {}", o.labels[names::REGION], o.zone, o.price);
                types[0].offerings.iter().map(line).collect::<Vec<_>>().join(", ")
            }
            Err(unpriced) => unpriced.to_string(),
        }
    }

    #[test]
    fn prices_are_of_the_pools_region() {
        let unpriced = "the catalog has no price for `large` in the pool's zones; add it to the catalog";
        for (name, catalog, expected) in [
            ("by zone", vec![large("", &[("", "a", 1), ("", "b", 2)])], "here a 0.000001, here b 0.000002"),
            ("one for all zones", vec![large("", &[("", "*", 3)])], "here a 0.000003, here b 0.000003"),
            (
                "of the region, though another has a zone of that name",
                vec![large("", &[("there", "a", 1), ("here", "*", 2)])],
                "here a 0.000002, here b 0.000002",
            ),
            (
                "of the region before one without a region",
                vec![large("", &[("", "*", 1), ("here", "*", 2)])],
                "here a 0.000002, here b 0.000002",
            ),
            (
                "the region may be the type's",
                vec![large("there", &[("", "a", 1), ("", "b", 1)]), large("here", &[("", "*", 2)])],
                "here a 0.000002, here b 0.000002",
            ),
            ("none at all", vec![], unpriced),
            ("several to choose from", vec![large("", &[("here", "c", 1), ("here", "d", 2)])], unpriced),
            (
                "of other regions only",
                vec![large("", &[("there", "a", 1), ("afar", "a", 2), ("there", "b", 1)])],
                "the catalog has no price for `large` in the region `here`, only in afar, there; add it to the catalog",
            ),
            (
                "of a type of another region only",
                vec![large("there", &[("", "a", 1), ("", "b", 1)])],
                "the catalog has no price for `large` in the region `here`, only in there; add it to the catalog",
            ),
        ] {
            assert_eq!(prices(&catalog), expected, "{name}");
        }
    }
}
