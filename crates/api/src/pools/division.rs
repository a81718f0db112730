//! How a NodeGroup is divided: spot beside the rest, and datacenters beside each other.

use berth_core::division::{Division, SpotShare, ZoneRule, ZoneSplit};

use crate::convert::Converter;
use crate::problem::At;
use crate::resources::vpsie::{DistributionStrategy, MultiRegion, NodeGroupSpec};

/// Where the group may have nodes: its own datacenter, and those that it is spread over.
pub(super) fn datacenters(spec: &NodeGroupSpec) -> Vec<&String> {
    let listed = regions(spec).map_or(&[][..], |regions| &regions.datacenter_ids);
    let own = Some(&spec.datacenter_id).filter(|own| !listed.contains(own));
    own.into_iter().chain(listed).collect()
}

fn regions(spec: &NodeGroupSpec) -> Option<&MultiRegion> {
    spec.multi_region.as_ref().filter(|regions| regions.enabled)
}

pub(super) fn read_division(
    spec: &NodeGroupSpec,
    nodes_max: u32,
    at: &At<'_>,
    to: &mut Converter<'_>,
) -> Division {
    let spot = spec.spot_config.as_ref().filter(|spot| spot.enabled).map(|spot| SpotShare {
        percent_max: spot.max_spot_percentage.get(),
        falls_back: spot.fallback_to_on_demand,
    });
    // Where only one may be bought, nothing is left to prefer.
    let preferred = spec.preferred_instance_type.as_ref().filter(|_| spec.allow_mixed_instances);
    Division {
        spot,
        zones: regions(spec).map(|regions| read_zones(spec, regions, nodes_max, at, to)),
        preferred_type: preferred.map(|name| to.text(name)),
    }
}

fn read_zones(
    spec: &NodeGroupSpec,
    regions: &MultiRegion,
    nodes_max: u32,
    at: &At<'_>,
    to: &mut Converter<'_>,
) -> ZoneSplit {
    let at = at.key("multiRegion");
    let mut datacenters = datacenters(spec);
    let strategy = regions.distribution_strategy;
    if strategy == DistributionStrategy::Weighted && regions.weighted_distribution.is_empty() {
        let message = "no datacenter has a weight; write one for each, such as dc-1: 2";
        to.findings.add(&at.key("weightedDistribution"), message);
    }
    if strategy == DistributionStrategy::PrimaryBackup {
        let primary = regions.primary_datacenter.as_ref().unwrap_or(&spec.datacenter_id);
        if let Some(first) = datacenters.iter().position(|id| *id == primary) {
            datacenters[..=first].rotate_right(1);
        }
    }
    let nodes_min = regions.min_nodes_per_region.get();
    let together = u64::from(nodes_min) * datacenters.len() as u64;
    if together > u64::from(nodes_max) {
        let message = format!(
            "{nodes_min} in each of {} datacenters are {together} nodes, and maxNodes is {nodes_max}",
            datacenters.len()
        );
        to.findings.add(&at.key("minNodesPerRegion"), message);
    }
    let weight = |id: &String| match strategy {
        DistributionStrategy::Weighted => {
            regions.weighted_distribution.get(id).map_or(0, |weight| weight.get())
        }
        DistributionStrategy::Balanced | DistributionStrategy::PrimaryBackup => 1,
    };
    ZoneSplit {
        rule: match strategy {
            DistributionStrategy::PrimaryBackup => ZoneRule::InOrder,
            DistributionStrategy::Balanced | DistributionStrategy::Weighted => ZoneRule::ByWeight,
        },
        zones: datacenters.into_iter().map(|id| (to.text(id), weight(id))).collect(),
        nodes_min,
    }
}
