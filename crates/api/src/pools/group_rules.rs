//! What a NodeGroup must not say even where its definition would let it: a cluster may have VPSie's own definitions, which
//! know fewer rules than Berth's, and files are read without any.

use std::collections::BTreeSet;

use crate::convert::Converter;
use crate::problem::At;
use crate::resources::vpsie::{MultiRegion, NodeGroup};
use crate::vpsie::version_problem;

/// Keys that begin like this are not for pools to give.
const RESERVED: [&str; 2] = ["kubernetes.io/", "k8s.io/"];
const RESERVED_WHY: &str = "belongs to Kubernetes; remove it";

pub(super) fn check(group: &NodeGroup, to: &mut Converter<'_>) {
    let spec = &group.spec;
    let at = At::ROOT.key("spec");
    if spec.datacenter_id.is_empty() {
        to.findings.add(&at.key("datacenterID"), "is empty; name a datacenter");
    }
    if let Some(problem) = version_problem(&spec.kubernetes_version) {
        to.findings.add(&at.key("kubernetesVersion"), problem);
    }
    if spec.offering_ids.is_empty() {
        to.findings.add(&at.key("offeringIDs"), "is empty; name at least one offering");
    }
    each_once(&spec.offering_ids, "offering", &at.key("offeringIDs"), to);
    for key in spec.labels.keys().filter(|key| is_reserved(key)) {
        to.findings.add(&at.key("labels").key(key), RESERVED_WHY);
    }
    let taints = at.key("taints");
    let mut known = BTreeSet::new();
    for (i, taint) in spec.taints.iter().enumerate() {
        let at = taints.index(i);
        if is_reserved(&taint.key) {
            to.findings.add(&at.key("key"), RESERVED_WHY);
        }
        if !known.insert((&taint.key, taint.effect)) {
            let message =
                format!("a node has `{}` with this effect only once; remove one of them", taint.key);
            to.findings.add(&at.key("key"), message);
        }
    }
    if let Some(regions) = spec.multi_region.as_ref().filter(|regions| regions.enabled) {
        check_regions(regions, &spec.datacenter_id, &at.key("multiRegion"), to);
    }
}

fn is_reserved(key: &str) -> bool {
    RESERVED.iter().any(|prefix| key.starts_with(prefix))
}

fn each_once(ids: &[String], what: &str, at: &At<'_>, to: &mut Converter<'_>) {
    let mut known = BTreeSet::new();
    for (i, id) in ids.iter().enumerate() {
        if id.is_empty() {
            to.findings.add(&at.index(i), "is empty; name one");
        } else if !known.insert(id) {
            to.findings.add(&at.index(i), format!("`{id}` is named twice; name each {what} once"));
        }
    }
}

/// Weights and the first datacenter are of those that the group buys in.
fn check_regions(regions: &MultiRegion, own: &str, at: &At<'_>, to: &mut Converter<'_>) {
    each_once(&regions.datacenter_ids, "datacenter", &at.key("datacenterIDs"), to);
    let known: BTreeSet<&str> =
        regions.datacenter_ids.iter().map(String::as_str).chain([own]).filter(|id| !id.is_empty()).collect();
    let listed = known.iter().copied().collect::<Vec<_>>().join(", ");
    let stranger =
        |id: &str| format!("`{id}` is none of the group's datacenters ({listed}); add it to datacenterIDs");
    let weights = at.key("weightedDistribution");
    for id in regions.weighted_distribution.keys().filter(|id| !known.contains(id.as_str())) {
        to.findings.add(&weights.key(id), format!("{}, or remove its weight", stranger(id)));
    }
    let has_weights = !regions.weighted_distribution.is_empty();
    if has_weights && regions.weighted_distribution.values().all(|weight| weight.get() == 0) {
        to.findings.add(&weights, "has no weight above 0; give one to at least one datacenter");
    }
    if let Some(primary) = regions.primary_datacenter.as_deref().filter(|id| !known.contains(id)) {
        to.findings.add(&at.key("primaryDatacenter"), format!("{}, or name one of them", stranger(primary)));
    }
}
