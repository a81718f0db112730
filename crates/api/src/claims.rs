//! Claims as Berth makes them: the object, and what it says beyond Karpenter's fields.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_core::catalog::{CapacityType, InstanceType, Offering};
use berth_core::drift::Stamp;
use berth_core::names::{self, Labels, Text};
use berth_core::plan::{Alternative, Launch};
use berth_core::pool::Pool;
use berth_core::resources::{Resources, format_amount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value, json};

use crate::resources::berth::VPSieNodeClass;
use crate::resources::karpenter::NodePool;
use crate::vpsie::{MACHINE, MachineSetup};

/// What a claim may be bought as, the first first. Requirements alone would allow what the plan did not.
pub const OFFERINGS: &str = "berth.dev/offerings";
/// What the cloud asked to be written down before the claim was launched.
pub const NOTE: &str = "berth.dev/launch-note";
/// Keeps a claim, and its node, until the machine is gone.
pub const FINALIZER: &str = "karpenter.sh/termination";
/// On a claim that is deleted and whose drain has an end: when that is.
pub const TERMINATION_TIMESTAMP: &str = "karpenter.sh/nodeclaim-termination-timestamp";
const POOL_HASH: &str = "karpenter.sh/nodepool-hash";
const POOL_HASH_VERSION: &str = "karpenter.sh/nodepool-hash-version";
/// How Berth's hashes are made: those of another version say nothing about drift.
const HASH_VERSION: &str = "berth-v2";

/// The claim for a launch of this pool.
///
/// Its labels are those that its node will have whichever of the offerings it becomes. How its machine is set up is
/// what the class says now, if it is one of VPSie's.
pub fn new_claim(
    name: &str,
    (object, pool, class): (&NodePool, &Pool, Option<&VPSieNodeClass>),
    launch: &Launch,
    offerings: &[Alternative],
) -> Value {
    let template = &object.spec.template;
    let labels = lasting_labels(launch, pool);
    let mut annotations: Map<String, Value> =
        template.metadata.annotations.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
    annotations.insert(POOL_HASH.to_owned(), json!(pool_hash(object)));
    annotations.insert(POOL_HASH_VERSION.to_owned(), json!(HASH_VERSION));
    annotations.insert(OFFERINGS.to_owned(), json!(written_offerings(offerings)));
    if let Some(class) = class {
        annotations.insert(MACHINE.to_owned(), json!(MachineSetup::of_class(class).written()));
    }
    if launch.min_values_relaxed {
        annotations.insert("karpenter.sh/nodeclaim-min-values-relaxed".to_owned(), json!("true"));
    }
    let mut spec = json!({
        "requirements": requirements(&labels, offerings),
        "resources": { "requests": amounts(&launch.requests) },
        "nodeClassRef": template.spec.node_class_ref,
        "expireAfter": template.spec.expire_after,
    });
    for (field, taints) in
        [("taints", &template.spec.taints), ("startupTaints", &template.spec.startup_taints)]
    {
        if !taints.is_empty() {
            spec[field] = json!(taints);
        }
    }
    if let Some(grace) = &template.spec.termination_grace_period {
        spec["terminationGracePeriod"] = json!(grace);
    }
    json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {
            "name": name,
            "labels": labels,
            "annotations": annotations,
            "finalizers": [FINALIZER],
            "ownerReferences": [{
                "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": object.metadata.name,
                "uid": object.metadata.uid, "blockOwnerDeletion": true,
            }],
        },
        "spec": spec,
    })
}

/// The labels that do not follow from what is bought.
pub(crate) fn lasting_labels(launch: &Launch, pool: &Pool) -> Labels {
    let of = |instance_type: &&Arc<InstanceType>| instance_type.name == launch.instance_type;
    let bought = pool.types.iter().find(of).and_then(|instance_type| {
        let (zone, capacity_type) = (&launch.zone, launch.capacity_type);
        offering_in(instance_type, zone, capacity_type).map(|offering| bought_labels(instance_type, offering))
    });
    let bought = bought.unwrap_or_default();
    let is_lasting = |(key, _): &(&Text, &Text)| !bought.contains_key(*key);
    launch.labels.iter().filter(is_lasting).map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// The offering of a type in a zone, as a capacity type; the cheapest of several.
pub fn offering_in<'t>(
    instance_type: &'t InstanceType,
    zone: &str,
    capacity_type: CapacityType,
) -> Option<&'t Offering> {
    let matching = |offering: &&Offering| *offering.zone == *zone && offering.capacity_type == capacity_type;
    instance_type.offerings.iter().filter(matching).min_by_key(|offering| offering.price)
}

fn requirements(labels: &Labels, offerings: &[Alternative]) -> Vec<Value> {
    let distinct =
        |value: &dyn Fn(&Alternative) -> Text| -> BTreeSet<Text> { offerings.iter().map(value).collect() };
    let of_offerings = [
        (names::INSTANCE_TYPE, distinct(&|offering| offering.instance_type.clone())),
        (names::ZONE, distinct(&|offering| offering.zone.clone())),
        (names::CAPACITY_TYPE, distinct(&|offering| offering.capacity_type.name().into())),
    ];
    let of_labels = labels.iter().map(|(key, value)| (&**key, BTreeSet::from([value.clone()])));
    let all = of_labels.chain(of_offerings.iter().map(|(key, values)| (*key, values.clone())));
    all.map(|(key, values)| json!({ "key": key, "operator": "In", "values": values })).collect()
}

/// Quantities as Kubernetes writes them.
pub fn amounts(resources: &Resources) -> Value {
    resources
        .iter()
        .filter(|(_, amount)| *amount > 0)
        .map(|(name, amount)| (name.to_string(), json!(format_amount(name, amount))))
        .collect::<Map<String, Value>>()
        .into()
}

/// The labels of a node that was bought as this.
pub fn bought_labels(instance_type: &InstanceType, offering: &Offering) -> Labels {
    let mut labels = instance_type.labels.clone();
    labels.extend(offering.node_labels());
    labels.insert(names::INSTANCE_TYPE.into(), instance_type.name.clone());
    labels
}

pub(crate) fn written_offerings(offerings: &[Alternative]) -> String {
    let written = |offering: &Alternative| {
        format!("{}:{}:{}", offering.instance_type, offering.zone, offering.capacity_type)
    };
    offerings.iter().map(written).collect::<Vec<_>>().join(",")
}

/// What the cloud asked to be written down before the claim was launched.
pub fn note_of(metadata: &ObjectMeta) -> Option<Text> {
    metadata.annotations.as_ref()?.get(NOTE).map(|note| note.as_str().into())
}

/// What a claim may be bought as, in order: type, zone and capacity type.
pub fn offerings_of(metadata: &ObjectMeta) -> Vec<(Text, Text, CapacityType)> {
    let annotations = metadata.annotations.as_ref();
    let written = annotations.and_then(|all| all.get(OFFERINGS)).map_or("", String::as_str);
    written.split(',').filter_map(read_offering).collect()
}

pub(crate) fn read_offering(text: &str) -> Option<(Text, Text, CapacityType)> {
    let mut parts = text.rsplitn(3, ':');
    let capacity_type = CapacityType::parse(parts.next()?)?;
    let zone = parts.next()?;
    Some((parts.next()?.into(), zone.into(), capacity_type))
}

/// What an object says of a pool's template: a pool's of its own, a claim's of the one that it was made from.
pub fn stamped(metadata: &ObjectMeta) -> Stamp {
    let said = |key: &str| Some(Text::from(metadata.annotations.as_ref()?.get(key)?.as_str()));
    Stamp { hash: said(POOL_HASH), version: said(POOL_HASH_VERSION), class: None }
}

/// The change that has an object say it.
pub fn stamping(stamp: &Stamp) -> Value {
    json!({ POOL_HASH: stamp.hash, POOL_HASH_VERSION: stamp.version })
}

/// What a claim of this pool is stamped with now, its class aside.
pub fn stamp_of(pool: &NodePool) -> Stamp {
    Stamp { hash: Some(pool_hash(pool).into()), version: Some(HASH_VERSION.into()), class: None }
}

/// A digest of all in a pool's template that its nodes have to have, requirements aside.
fn pool_hash(pool: &NodePool) -> String {
    let mut template = json!(pool.spec.template);
    if let Some(spec) = template["spec"].as_object_mut() {
        spec.remove("requirements");
        // In whichever order they stand.
        for field in ["taints", "startupTaints"] {
            if let Some(taints) = spec.get_mut(field).and_then(Value::as_array_mut) {
                taints.sort_by_key(Value::to_string);
            }
        }
    }
    digest(&template.to_string()).to_string()
}

/// FNV-1a: the same on every machine and in every version, which a hasher of the library need not be.
pub(crate) fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_of_what_nodes_have_in_whichever_order_it_is_written() {
        let hash = |template: Value| {
            let pool = json!({
                "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": { "name": "p" },
                "spec": { "template": { "spec": template } },
            });
            pool_hash(&serde_json::from_value(pool).unwrap())
        };
        let (gpu, web) =
            (json!({ "key": "gpu", "effect": "NoSchedule" }), json!({ "key": "web", "effect": "NoExecute" }));
        let class = json!({ "group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default" });
        let of = |taints: Value, startup: Value| {
            hash(json!({
                "nodeClassRef": class, "requirements": [], "taints": taints, "startupTaints": startup,
            }))
        };
        let both = of(json!([gpu, web]), json!([web, gpu]));
        for (taints, startup, is_same) in [
            (json!([web, gpu]), json!([gpu, web]), true),
            (json!([gpu]), json!([gpu, web]), false),
            (json!([gpu, web]), json!([gpu]), false),
        ] {
            assert_eq!(of(taints.clone(), startup.clone()) == both, is_same, "{taints} {startup}");
        }
    }
}
