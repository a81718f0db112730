//! ScalingConstraint and ScalingFeedback.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_core::catalog::{CapacityType, InstanceType, Offering, OfferingPattern};
use berth_core::names::{self, Labels, Text};
use berth_core::pool::Pool;
use berth_core::requirement::{Expression, Requirements};
use berth_core::resources::PODS;
use berth_core::units::Price;

use super::{empty_pool, read_amounts, read_labels, read_limits, read_taints};
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
    let pools = object.spec.node_pools.iter().enumerate();
    pools.map(|(i, pool)| read_pool(pool, i, &list.index(i), to)).collect()
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
    /// The templates with the catalog's prices, or the index of a template without one.
    ///
    /// A template's number of volumes holds for whichever driver attaches them.
    pub(crate) fn priced_types(
        &self,
        catalog: &[Arc<InstanceType>],
        drivers: &[Text],
    ) -> Result<Vec<Arc<InstanceType>>, usize> {
        let mut types = Vec::with_capacity(self.templates.len());
        for (i, template) in self.templates.iter().enumerate() {
            let mut instance_type = template.instance_type.clone();
            let priced = catalog.iter().find(|t| t.name == instance_type.name).ok_or(i)?;
            for zone in &self.zones {
                let price = self.price_in(zone, priced).ok_or(i)?;
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

    /// The on-demand price in the zone, in the region, or the only one there is.
    fn price_in(&self, zone: &Text, priced: &InstanceType) -> Option<Price> {
        let on_demand = || priced.offerings.iter().filter(|o| o.capacity_type == CapacityType::OnDemand);
        let in_region = || on_demand().filter(|o| o.labels.get(names::REGION) == Some(&self.region));
        let same = |mut offerings: Box<dyn Iterator<Item = &Offering> + '_>| {
            let first = offerings.next()?.price;
            offerings.all(|o| o.price == first).then_some(first)
        };
        on_demand()
            .find(|o| o.zone == *zone)
            .map(|o| o.price)
            .or_else(|| same(Box::new(in_region())))
            .or_else(|| same(Box::new(on_demand())))
    }

    pub(crate) fn template_type_name(&self, index: usize) -> &str {
        self.templates.get(index).map_or("", |template| &*template.instance_type.name)
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
