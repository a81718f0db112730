//! VPSie's labels and annotations, and VPSieNodes as Berth makes them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use berth_core::catalog::InstanceType;
use berth_core::names::Labels;
use berth_core::plan::{Alternative, Launch};
use berth_core::pod::{Taint, TaintEffect};
use berth_core::pool::Pool;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::claims::{OFFERINGS, digest, lasting_labels, written_offerings};
use crate::duration::GoDuration;
use crate::pools::vpsie::node_bounds;
use crate::resources::berth::VPSieNodeClass;
use crate::resources::vpsie::{NodeGroup, VPSieNodeSpec};

/// What provider ids begin with that name a machine of VPSie's.
pub const SCHEME: &str = "vpsie://";
/// Only groups and nodes with it are touched.
pub const MANAGED: &str = "autoscaler.vpsie.com/managed";
pub const NODEGROUP: &str = "autoscaler.vpsie.com/nodegroup";
/// The namespace of that group.
pub const NODEGROUP_NAMESPACE: &str = "autoscaler.vpsie.com/nodegroup-namespace";
pub const VPSIENODE: &str = "autoscaler.vpsie.com/vpsienode";
pub const DATACENTER: &str = "autoscaler.vpsie.com/datacenter";
pub const OFFERING: &str = "autoscaler.vpsie.com/offering";
/// On an offering that is spot: how often such machines are taken back, in percent.
pub const INTERRUPTION_RATE: &str = "autoscaler.vpsie.com/interruption-rate";
/// On a machine's object: its id at VPSie.
pub const VPS_ID: &str = "autoscaler.vpsie.com/vps-id";
/// On a machine's object that VPSie's own autoscaler made: VPSie has been asked for the machine.
pub const CREATION_REQUESTED: &str = "autoscaler.vpsie.com/creation-requested";
/// On a machine's object: why it was asked for. One that somebody asked for by hand stays.
pub const CREATION_REASON: &str = "autoscaler.vpsie.com/creation-reason";
/// On a group: `true` leaves it as it is.
pub(crate) const PAUSE: &str = "autoscaler.vpsie.com/pause";
/// On a group: the replacement that somebody has agreed to, by the id that was proposed.
pub(crate) const APPROVED: &str = "autoscaler.vpsie.com/approve-optimization";
/// On a group: how many of its nodes are replaced at once: `rolling`, `surge` or `blue-green`.
pub const REBALANCE_STRATEGY: &str = "autoscaler.vpsie.com/rebalance-strategy";
/// On a machine's object or its Node: `true` keeps it.
pub(crate) const DO_NOT_DELETE: &str = "autoscaler.vpsie.com/do-not-delete";
/// The same.
pub(crate) const PROTECTED: &str = "autoscaler.vpsie.com/protected";
/// On both too: `disabled` keeps it.
const SCALE_DOWN: &str = "autoscaler.vpsie.com/scale-down";
/// On a Node: when it began to be emptied.
pub const DRAIN_START: &str = "autoscaler.vpsie.com/drain-start-time";
/// On a Node: `draining`, and what came of it: `complete`, `failed` or `timeout`.
pub const DRAIN_STATUS: &str = "autoscaler.vpsie.com/drain-status";
/// On a Node, a machine's object or a group, the first that has it: how long pods may take to leave a node that goes to
/// save money.
pub const DRAIN_TIMEOUT: &str = "autoscaler.vpsie.com/drain-timeout";
/// The condition of a machine's object whose node was to go and stayed, since its pods did not leave in time.
pub const DRAIN_FAILED: &str = "DrainFailed";
/// On a group: counts in place of its `minNodes`.
pub(crate) const MIN_OVERRIDE: &str = "autoscaler.vpsie.com/min-nodes-override";
/// On a group: counts in place of its `maxNodes`.
pub(crate) const MAX_OVERRIDE: &str = "autoscaler.vpsie.com/max-nodes-override";
pub(crate) const SCALE_DOWN_DISABLED: &str = "autoscaler.vpsie.com/scale-down-disabled";
pub(crate) const ALLOWED_HOURS: &str = "autoscaler.vpsie.com/scale-down-allowed-hours";
/// Keeps a NodeGroup until its nodes are gone.
pub const GROUP_FINALIZER: &str = "nodegroup.autoscaler.vpsie.com/finalizer";
/// Keeps a VPSieNode until its machine is gone.
pub const FINALIZER: &str = "vpsienode.autoscaler.vpsie.com/finalizer";

/// The taints that the node gets: its object has no field for them.
const TAINTS: &str = "berth.dev/taints";
/// What its group or class says of its machine, and its object has no field for.
pub(crate) const MACHINE: &str = "berth.dev/machine";

/// How a machine is set up. It is written on the claim that the machine is for, so that neither a launch that is
/// repeated nor a machine's end depends on what the class says by then, or on whether there still is one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MachineSetup {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    #[serde(rename = "osImageID", skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    #[serde(rename = "sshKeyIDs", skip_serializing_if = "Vec::is_empty")]
    pub ssh_keys: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubernetes_version: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub notes: String,
}

impl MachineSetup {
    pub fn of_class(class: &VPSieNodeClass) -> Self {
        let spec = class.spec.clone();
        Self {
            project: spec.project,
            image: spec.os_image_id,
            ssh_keys: spec.ssh_key_ids,
            kubernetes_version: spec.kubernetes_version,
            tags: spec.tags,
            notes: spec.notes,
        }
    }

    /// `None` if the claim does not say.
    pub fn of_claim(metadata: &ObjectMeta) -> Option<Self> {
        let written = metadata.annotations.as_ref()?.get(MACHINE)?;
        serde_json::from_str(written).ok()
    }

    pub(crate) fn written(&self) -> String {
        json!(self).to_string()
    }

    /// The same for all that are the same.
    pub fn digest(&self) -> String {
        digest(&self.written()).to_string()
    }
}

/// Whether a machine must stay, by what its object says.
pub(crate) fn is_kept(metadata: &ObjectMeta) -> bool {
    let is = |all: &Option<BTreeMap<String, String>>, key: &str, value: &str| {
        all.as_ref().and_then(|all| all.get(key)).is_some_and(|found| found == value)
    };
    let annotations = &metadata.annotations;
    is(annotations, DO_NOT_DELETE, "true")
        || is(annotations, PROTECTED, "true")
        || is(annotations, SCALE_DOWN, "disabled")
        || is(annotations, CREATION_REASON, "manual")
        || is(&metadata.labels, SCALE_DOWN_DISABLED, "true")
}

/// How long pods may take to leave, by what somebody has written of it. `None` if it is no duration.
pub fn drain_timeout(text: &str) -> Option<GoDuration> {
    text.parse().ok().filter(|timeout| *timeout > GoDuration::ZERO)
}

/// Whether an object is Berth's to change.
pub fn is_managed(metadata: &ObjectMeta) -> bool {
    metadata.labels.as_ref().and_then(|all| all.get(MANAGED)).is_some_and(|value| value == "true")
}

/// Which of its annotations keeps a Node, if one does.
pub fn protection_of(annotations: &BTreeMap<String, String>) -> Option<&'static str> {
    let keeps = |key: &&str| annotations.get(*key).is_some_and(|value| value == "true");
    [PROTECTED, DO_NOT_DELETE].into_iter().find(keeps)
}

/// What is wrong with a version of Kubernetes, as VPSie wants it written.
pub fn version_problem(text: &str) -> Option<String> {
    let is_number = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_digit())
            && (part == "0" || !part.starts_with('0'))
    };
    let is_word = |part: &str| {
        let is_of_it = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        part.split('.').all(|word| !word.is_empty() && word.bytes().all(is_of_it))
    };
    let is_version = |rest: &str| {
        let (rest, build) = rest.split_once('+').map_or((rest, None), |(rest, build)| (rest, Some(build)));
        let (numbers, early) =
            rest.split_once('-').map_or((rest, None), |(numbers, early)| (numbers, Some(early)));
        let numbers: Vec<&str> = numbers.split('.').collect();
        numbers.len() == 3
            && numbers.into_iter().all(is_number)
            && [early, build].into_iter().flatten().all(is_word)
    };
    let is_good = text.strip_prefix('v').is_some_and(is_version);
    (!is_good)
        .then(|| format!("`{text}` is no version; write it with its `v` and three numbers, such as v1.34.0"))
}

/// What a node is bought for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// Pods go there.
    Pods,
    /// None does yet: its pool has too few nodes.
    Minimum,
    /// It takes the place of others.
    Replacement,
}

impl Occasion {
    /// In VPSie's words. Beyond its own minimum a group only grows for what was measured.
    fn word(self, group: &NodeGroup, pool: &Pool) -> &'static str {
        let is_own_minimum = pool.nodes_min <= node_bounds(group).0;
        match self {
            Self::Replacement => "rebalance",
            Self::Minimum if is_own_minimum => "initial",
            Self::Minimum | Self::Pods => FOR_DEMAND,
        }
    }
}

/// What says of itself that it was made for what is asked for or used.
pub(crate) const FOR_DEMAND: &str = "metrics";

/// The VPSieNode for a launch of this group.
pub fn new_node(
    name: &str,
    (group, pool): (&NodeGroup, &Pool),
    (launch, occasion): (&Launch, Occasion),
    offerings: &[Alternative],
) -> Value {
    let spec = &group.spec;
    let mut labels = lasting_labels(launch, pool);
    labels.insert(VPSIENODE.into(), name.into());
    if let Some(namespace) = &group.metadata.namespace {
        labels.insert(NODEGROUP_NAMESPACE.into(), namespace.as_str().into());
    }
    let first = offerings.first();
    let size = first.map_or(&launch.instance_type, |offering| &offering.instance_type);
    let zone = first.map_or(&launch.zone, |offering| &offering.zone);
    let reason = occasion.word(group, pool);
    let mut annotations = json!({ OFFERINGS: written_offerings(offerings), CREATION_REASON: reason });
    if !pool.taints.is_empty() {
        annotations[TAINTS] = json!(written_taints(&pool.taints));
    }
    let setup =
        MachineSetup { tags: spec.tags.clone(), notes: spec.notes.clone(), ..MachineSetup::default() };
    if setup != MachineSetup::default() {
        annotations[MACHINE] = json!(setup.written());
    }
    let mut node = json!({
        "vpsieInstanceID": 0, "instanceType": size, "nodeGroupName": group.metadata.name, "datacenterID": zone,
        "resourceIdentifier": spec.resource_identifier, "project": spec.project,
        "kubernetesVersion": spec.kubernetes_version, "nodeName": name,
    });
    if let Some(image) = &spec.os_image_id {
        node["osImageID"] = json!(image);
    }
    if !spec.ssh_key_ids.is_empty() {
        node["sshKeyIDs"] = json!(spec.ssh_key_ids);
    }
    json!({
        "apiVersion": "autoscaler.vpsie.com/v1alpha1",
        "kind": "VPSieNode",
        "metadata": {
            "name": name,
            "namespace": group.metadata.namespace,
            "labels": labels,
            "annotations": annotations,
            "finalizers": [FINALIZER],
            "ownerReferences": [{
                "apiVersion": "autoscaler.vpsie.com/v1alpha1", "kind": "NodeGroup", "name": group.metadata.name,
                "uid": group.metadata.uid, "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": node,
    })
}

/// What a VPSieNode says of its node's taints, in an annotation of this name: its object has no field for them.
pub fn taints_for(group: &NodeGroup) -> (&'static str, String) {
    let taints: Vec<Taint> = group.spec.taints.iter().map(Taint::from).collect();
    (TAINTS, written_taints(&taints))
}

/// What the node of this object has as its provider id. `None` until it has a machine.
pub fn provider_id(node: &VPSieNodeSpec) -> Option<String> {
    let named = node.vpsie_node_identifier.clone().filter(|id| !id.is_empty());
    let id = named.or_else(|| (node.vpsie_instance_id > 0).then(|| node.vpsie_instance_id.to_string()))?;
    Some(format!("{SCHEME}{}/{}/{id}", node.datacenter_id, node.resource_identifier))
}

/// What a provider id of VPSie's calls its machine, in small letters: its last part. What it says before that of where the
/// machine is, kubelets write in several ways. `None` if it is not of VPSie, or names no machine.
pub fn machine_named(provider_id: &str) -> Option<String> {
    let place = provider_id.strip_prefix(SCHEME)?.trim_end_matches('/');
    place.rsplit('/').next().filter(|name| !name.is_empty()).map(str::to_lowercase)
}

/// What provider ids that name a machine in the same way have in common.
pub fn machine_key(provider_id: &str) -> Cow<'_, str> {
    machine_named(provider_id).map_or(provider_id.into(), |name| format!("{SCHEME}{name}").into())
}

/// Whether something is sold of a type under this id.
pub fn has_offering(instance_type: &InstanceType, id: &str) -> bool {
    let is_it = |labels: &Labels| labels.get(OFFERING).is_some_and(|known| **known == *id);
    is_it(&instance_type.labels) || instance_type.offerings.iter().any(|offering| is_it(&offering.labels))
}

fn written_taints(taints: &[Taint]) -> String {
    taints.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// The taints that the node of this object gets.
pub fn taints_of(metadata: &ObjectMeta) -> Vec<Taint> {
    let written = metadata.annotations.as_ref().and_then(|all| all.get(TAINTS)).map_or("", String::as_str);
    written.split(',').filter_map(read_taint).collect()
}

fn read_taint(text: &str) -> Option<Taint> {
    let (rest, effect) = text.rsplit_once(':')?;
    let (key, value) = rest.split_once('=').unwrap_or((rest, ""));
    Some(Taint::new(key, value, TaintEffect::parse(effect)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_asked_for_stays() {
        for (key, value, expected) in [
            (CREATION_REASON, "manual", true),
            (CREATION_REASON, "metrics", false),
            (PROTECTED, "true", true),
            (DO_NOT_DELETE, "false", false),
            (SCALE_DOWN, "disabled", true),
        ] {
            let annotations = Some(BTreeMap::from([(key.to_owned(), value.to_owned())]));
            let metadata = ObjectMeta { annotations, ..ObjectMeta::default() };
            assert_eq!(is_kept(&metadata), expected, "{key}: {value}");
        }
    }

    #[test]
    fn provider_ids_name_machines_however_they_say_where_they_are() {
        for (id, expected) in [
            ("vpsie://dc/cluster/Ab-7", "vpsie://ab-7"),
            ("vpsie://DC/elsewhere/ab-7", "vpsie://ab-7"),
            ("vpsie://cluster/ab-7", "vpsie://ab-7"),
            ("vpsie://ab-7", "vpsie://ab-7"),
            ("vpsie:///ab-7/", "vpsie://ab-7"),
            ("vpsie:///", "vpsie:///"),
            ("kwok://Node-1", "kwok://Node-1"),
            ("", ""),
        ] {
            assert_eq!(machine_key(id), expected, "{id}");
        }
    }

    #[test]
    fn versions_have_a_v_and_three_numbers() {
        for good in ["v1.34.0", "v0.0.0", "v1.34.0-rc.1", "v1.34.0+k3s1", "v1.34.10-alpha.0-x+build.5"] {
            assert_eq!(version_problem(good), None, "{good}");
        }
        for bad in
            ["", "v", "1.34.0", "v1.34", "v1.34.0.1", "v1.034.0", "v1.34.x", "v1.34.0-", "v1.34.0+", "v1..0"]
        {
            assert!(version_problem(bad).is_some(), "{bad}");
        }
    }
}
