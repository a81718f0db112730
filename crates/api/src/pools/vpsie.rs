//! NodeGroup, VPSieNode, AutoscalerConfig.

use std::sync::Arc;

use berth_core::catalog::InstanceType;
use berth_core::names::{self, Labels, Text};
use berth_core::pool::{Limits, Pool};
use berth_core::reason::Reason;
use berth_core::requirement::{Expression, Operator, Requirements};
use berth_core::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, Resources};

use super::karpenter::ClaimObject;
use super::{empty_pool, read_labels, read_taints};
use crate::convert::Converter;
use crate::nodes::VPSIE_NODEGROUP;
use crate::problem::At;
use crate::resources::vpsie::{AutoscalerConfig, NodeGroup, Phase, VPSieNode};

const MANAGED: &str = "autoscaler.vpsie.com/managed";
const OFFERING: &str = "autoscaler.vpsie.com/offering";

/// A NodeGroup without what its offerings are.
#[derive(Clone, Debug)]
pub(crate) struct NodeGroupObject {
    pub(crate) pool: Pool,
    /// Ids or type names, in the group's order.
    pub(crate) offerings: Vec<String>,
}

pub(crate) fn read_node_group(object: &NodeGroup, name: Text, to: &mut Converter<'_>) -> NodeGroupObject {
    let at = At::ROOT.key("spec");
    let spec = &object.spec;
    if spec.min_nodes.get() > spec.max_nodes.get() {
        let message = format!("{} is more than maxNodes ({})", spec.min_nodes.get(), spec.max_nodes.get());
        to.findings.add(&at.key("minNodes"), message);
    }
    if spec.offering_ids.is_empty() {
        to.findings.add(&at.key("offeringIDs"), "is empty; name at least one offering");
    }
    let mut labels = read_labels(&spec.labels, &at.key("labels"), to);
    let mut requirements: Requirements =
        labels.iter().map(|(key, value)| Expression::equals(key.clone(), value.clone())).collect();
    let zones = datacenters(object).map(|zone| to.text(zone)).collect();
    match Expression::new(names::ZONE, Operator::In, zones) {
        Ok(expression) => requirements.add(&expression),
        Err(error) => to.findings.add(&at.key("datacenterID"), error.to_string()),
    }
    labels.insert(to.text(MANAGED), to.text("true"));
    labels.insert(to.text(VPSIE_NODEGROUP), name.clone());
    let blocked = object
        .metadata
        .deletion_timestamp
        .is_some()
        .then(|| Reason::PoolNotReady.because(format!("group {name} is being deleted")));
    let pool = Pool {
        requirements,
        labels,
        taints: read_taints(&spec.taints, &at.key("taints"), to),
        limits: Limits { resources: Resources::new(), nodes: Some(spec.max_nodes.get()) },
        nodes_min: spec.min_nodes.get(),
        blocked,
        ..empty_pool(name)
    };
    NodeGroupObject { pool, offerings: usable_offerings(object) }
}

fn datacenters(group: &NodeGroup) -> impl Iterator<Item = &String> {
    let regions = group.spec.multi_region.as_ref().filter(|regions| regions.enabled);
    regions
        .map(|regions| regions.datacenter_ids.iter())
        .into_iter()
        .flatten()
        .chain([&group.spec.datacenter_id])
}

/// All offerings of the group; where they must not be mixed, the preferred one or else the first.
fn usable_offerings(group: &NodeGroup) -> Vec<String> {
    let spec = &group.spec;
    if spec.allow_mixed_instances {
        return spec.offering_ids.clone();
    }
    spec.preferred_instance_type.iter().chain(&spec.offering_ids).take(1).cloned().collect()
}

/// The catalog's types that an offering's id or name stands for, each with only those offerings.
pub(crate) fn types_of(offering: &str, catalog: &[Arc<InstanceType>]) -> Vec<Arc<InstanceType>> {
    let mut found = Vec::new();
    for instance_type in catalog {
        if *instance_type.name == *offering
            || instance_type.labels.get(OFFERING).is_some_and(|id| **id == *offering)
        {
            found.push(instance_type.clone());
            continue;
        }
        let is_meant =
            |o: &&berth_core::catalog::Offering| o.labels.get(OFFERING).is_some_and(|id| **id == *offering);
        let offerings: Vec<_> = instance_type.offerings.iter().filter(is_meant).cloned().collect();
        if !offerings.is_empty() {
            found.push(Arc::new(InstanceType { offerings, ..InstanceType::clone(instance_type) }));
        }
    }
    found
}

/// `None` for a machine that failed: it will never be a node.
pub(crate) fn read_vpsie_node(object: &VPSieNode, name: Text, to: &mut Converter<'_>) -> Option<ClaimObject> {
    let spec = &object.spec;
    let status = object.status.clone().unwrap_or_default();
    if status.phase == Phase::Failed {
        return None;
    }
    let node = Some(status.node_name).filter(|node| !node.is_empty()).or_else(|| spec.node_name.clone());
    let mut labels = Labels::new();
    for (key, value) in [
        (MANAGED, "true"),
        (VPSIE_NODEGROUP, &*spec.node_group_name),
        (names::INSTANCE_TYPE, &*spec.instance_type),
        (names::ZONE, &*spec.datacenter_id),
    ] {
        labels.insert(to.text(key), to.text(value));
    }
    let capacity = status.resources.map_or_else(Resources::new, |machine| {
        Resources::of(&[
            (CPU, machine.cpu.saturating_mul(1000).max(0)),
            (MEMORY, machine.memory_mb.saturating_mul(1 << 20).max(0)),
            (EPHEMERAL_STORAGE, machine.disk_gb.saturating_mul(1 << 30).max(0)),
        ])
    });
    Some(ClaimObject {
        name,
        node: node.filter(|node| !node.is_empty()).map(Text::from),
        labels,
        taints: Vec::new(),
        startup_taints: Vec::new(),
        capacity,
        allocatable: Resources::new(),
        requests: Resources::new(),
        deleting: object.metadata.deletion_timestamp.is_some()
            || matches!(status.phase, Phase::Terminating | Phase::Deleting),
    })
}

/// How many nodes all groups together may have; zero sets no limit.
pub(crate) fn nodes_max(config: &AutoscalerConfig) -> Option<u32> {
    Some(config.spec.global_settings.max_cluster_workers.get()).filter(|nodes| *nodes > 0)
}
