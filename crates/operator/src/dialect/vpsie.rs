//! NodeGroup and VPSieNode.

use std::sync::Arc;

use berth_api::claims::{note_of, offerings_of};
use berth_api::duration::GoDuration;
use berth_api::resources::scalar::Amounts;
use berth_api::resources::shared::{Condition, ConditionStatus};
use berth_api::resources::vpsie::{
    MachineResources, NodeGroup, Phase, VPSieNode, VPSieNodeSpec, VpsieCondition,
};
use berth_api::vpsie::MachineSetup;
use berth_api::{ClassKind, Timestamp, vpsie};
use berth_cloud::machine::{Extras, Machine, MachineState, Setup};
use berth_core::catalog::CapacityType;
use berth_core::drift::Stamp;
use berth_core::names::{Labels, Text};
use berth_core::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, Resources};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Dialect, Entry, ListedMetadata, News, PoolId, listed, resources_of, setup_of};
use crate::claim::{Claim, ENDED, FAILED, RUNNING, Told};
use crate::cluster::Refused;
use crate::conditions::{LAUNCH_NOT_BEGUN, whole};
use crate::desk::Desk;

/// What Berth says of a claim's life, and what VPSie's objects call it.
const CONDITIONS: [(&str, &str); 3] =
    [(RUNNING, "VPSReady"), ("Registered", "NodeJoined"), ("Initialized", "NodeReady")];
/// Says what went wrong, while something does.
const ERROR: &str = "Error";

pub(super) fn claim(object: VPSieNode) -> Claim {
    let VPSieNode { metadata, spec, status } = object;
    let status = status.unwrap_or_default();
    let text = |text: &Option<String>| Text::from(text.as_deref().unwrap_or_default());
    let labels: Labels = metadata
        .labels
        .iter()
        .flatten()
        .map(|(key, value)| (key.as_str().into(), value.as_str().into()))
        .collect();
    let mut offerings = offerings_of(&metadata);
    let mut requested_at = None;
    if offerings.is_empty() {
        // One that VPSie's own autoscaler made says it with its fields.
        requested_at = requested(&metadata, status.phase);
        let (size, zone) = (spec.instance_type.as_str(), spec.datacenter_id.as_str());
        offerings.push((size.into(), zone.into(), CapacityType::OnDemand));
    }
    let conditions = status.conditions.into_iter().filter(|condition| condition.type_ != ERROR);
    let conditions: Vec<(Option<Time>, Condition)> =
        conditions.map(|condition| (condition.last_update_time.clone(), read_condition(condition))).collect();
    let updated = |(at, condition): &(Option<Time>, Condition)| {
        Some((Text::from(condition.type_.as_str()), at.clone()?))
    };
    Claim {
        dialect: Dialect::Vpsie,
        namespace: text(&metadata.namespace),
        name: text(&metadata.name),
        uid: text(&metadata.uid),
        resource_version: text(&metadata.resource_version),
        created: metadata.creation_timestamp.as_ref().map(|time| time.0),
        deleting: metadata.deletion_timestamp.as_ref().map(|time| time.0),
        generation: metadata.generation,
        finalizers: metadata.finalizers.iter().flatten().map(|name| name.as_str().into()).collect(),
        pool: Some(spec.node_group_name.as_str().into()),
        class: Some(ClassKind::Vpsie),
        taints: vpsie::taints_of(&metadata),
        startup_taints: Vec::new(),
        setup: Some(Arc::new(setup(&metadata, &spec))),
        note: note_of(&metadata),
        requested_at,
        stamp: Stamp::default(),
        promised: Vec::new(),
        grace_secs: None,
        deadline: None,
        drain_secs: drain_secs(&metadata),
        wanted_name: text(&spec.node_name),
        told: Told {
            phase: status.phase,
            status: status.vpsie_status.as_str().into(),
            hostname: status.hostname.as_str().into(),
            address: text(&spec.ip_address),
            address_v6: text(&spec.ipv6_address),
            group: spec.vpsie_group_id,
            number: spec.vpsie_instance_id,
            is_identified: spec.vpsie_node_identifier.as_ref().is_some_and(|id| !id.is_empty()),
            traffic_gb: status.resources.as_ref().and_then(|machine| machine.bandwidth_gb),
            updated: conditions.iter().filter_map(updated).collect(),
        },
        provider_id: vpsie::provider_id(&spec).map(Text::from).unwrap_or_default(),
        node_name: status.node_name.as_str().into(),
        capacity: status.resources.as_ref().map(capacity).unwrap_or_default(),
        conditions: conditions.into_iter().map(|(_, condition)| condition).collect(),
        offerings,
        labels,
    }
}

/// Since when VPSie's own autoscaler may have asked for the machine. It says so before it does, and what it has asked for is
/// under way.
fn requested(metadata: &ObjectMeta, phase: Phase) -> Option<Timestamp> {
    let is_marked =
        metadata.annotations.as_ref().is_some_and(|all| all.contains_key(vpsie::CREATION_REQUESTED));
    let is_asked_for = is_marked || phase != Phase::Pending;
    metadata.creation_timestamp.as_ref().map(|time| time.0).filter(|_| is_asked_for)
}

fn drain_secs(metadata: &ObjectMeta) -> Option<u64> {
    let text = metadata.annotations.as_ref()?.get(vpsie::DRAIN_TIMEOUT)?;
    vpsie::drain_timeout(text).map(GoDuration::whole_secs)
}

/// What the group has said of its machines.
fn setup(metadata: &ObjectMeta, spec: &VPSieNodeSpec) -> Setup {
    setup_of(MachineSetup {
        project: Some(spec.project.clone()),
        image: spec.os_image_id.clone(),
        ssh_keys: spec.ssh_key_ids.clone(),
        kubernetes_version: Some(spec.kubernetes_version.clone()),
        ..MachineSetup::of_claim(metadata).unwrap_or_default()
    })
}

fn capacity(machine: &MachineResources) -> Resources {
    Resources::of(&[
        (CPU, machine.cpu.saturating_mul(1000).max(0)),
        (MEMORY, machine.memory_mb.saturating_mul(1 << 20).max(0)),
        (EPHEMERAL_STORAGE, machine.disk_gb.saturating_mul(1 << 30).max(0)),
    ])
}

fn read_condition(condition: VpsieCondition) -> Condition {
    let VpsieCondition { type_, status, last_transition_time, reason, message, .. } = condition;
    let known = CONDITIONS.iter().find(|(_, theirs)| *theirs == type_);
    Condition {
        type_: known.map_or(type_.clone(), |(ours, _)| (*ours).to_owned()),
        status,
        reason: Some(reason),
        message: Some(message),
        last_transition_time,
        observed_generation: None,
    }
}

fn written_condition(condition: &Condition, updated: Time) -> VpsieCondition {
    let known = CONDITIONS.iter().find(|(ours, _)| *ours == condition.type_);
    VpsieCondition {
        type_: known.map_or_else(|| condition.type_.clone(), |(_, theirs)| (*theirs).to_owned()),
        status: condition.status,
        last_transition_time: condition.last_transition_time.clone(),
        last_update_time: Some(updated),
        reason: condition.reason.clone().unwrap_or_default(),
        message: condition.message.clone().unwrap_or_default(),
    }
}

#[derive(Deserialize)]
struct Listed {
    metadata: ListedMetadata,
    spec: VPSieNodeSpec,
    #[serde(default)]
    status: ListedStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListedStatus {
    node_name: Text,
    resources: Option<MachineResources>,
    conditions: Vec<VpsieCondition>,
}

impl ListedStatus {
    /// It failed and has no machine: it is only there to be seen.
    fn is_over(&self) -> bool {
        let holds = |kind: &str| {
            let is_it = |c: &VpsieCondition| c.type_ == kind && c.status == ConditionStatus::True;
            self.conditions.iter().any(is_it)
        };
        holds(FAILED) && holds(ENDED)
    }
}

pub(super) async fn entries(desk: &Desk, pool: Option<&PoolId>) -> Result<Vec<Entry>, Refused> {
    let path = Dialect::Vpsie.claims(pool.map_or("", |pool| &pool.namespace));
    let entry = |Listed { metadata, spec, status }: Listed| {
        let is_of = |group: &str| pool.is_none_or(|pool| *pool.name == *group);
        let counts = is_of(&spec.node_group_name) && !status.is_over();
        let entry = Entry {
            name: metadata.name,
            uid: metadata.uid,
            provider_id: vpsie::provider_id(&spec).map(Text::from).unwrap_or_default(),
            node_name: status.node_name,
            capacity: status.resources.as_ref().map(capacity).unwrap_or_default(),
        };
        (counts, entry)
    };
    let all = listed(desk, &path, entry).await?;
    Ok(all.into_iter().filter(|(counts, _)| *counts).map(|(_, entry)| entry).collect())
}

pub(super) fn bought(machine: &Machine, labels: &Labels) -> Value {
    let id = machine.id.as_str();
    let mut labels = labels.clone();
    labels.insert(vpsie::DATACENTER.into(), machine.zone.clone());
    let mut change = json!({
        "metadata": { "labels": labels, "annotations": { vpsie::VPS_ID: id } },
        "spec": {
            "vpsieNodeIdentifier": id, "instanceType": machine.instance_type, "datacenterID": machine.zone,
        },
    });
    for (field, value) in whereabouts(machine) {
        change["spec"][field] = value;
    }
    change
}

/// Where a machine is, as far as its cloud tells.
fn whereabouts(machine: &Machine) -> impl Iterator<Item = (&'static str, Value)> {
    let Extras { number, address_v6, group, .. } = &*machine.extras;
    // Servers have numbers; nodes of managed clusters may not.
    let number = number.or_else(|| machine.id.as_str().parse().ok());
    [
        ("vpsieInstanceID", number.map(|number| json!(number))),
        ("ipAddress", machine.address.as_ref().map(|address| json!(address))),
        ("ipv6Address", address_v6.as_ref().map(|address| json!(address))),
        ("vpsieGroupID", group.map(|group| json!(group))),
    ]
    .into_iter()
    .filter_map(|(field, value)| Some((field, value?)))
}

/// What of that its object does not say.
pub(crate) fn unsaid(told: &Told, machine: &Machine) -> Map<String, Value> {
    let Told { number, address, address_v6, group, is_identified, .. } = told;
    let said = [
        ("vpsieInstanceID", json!(number)),
        ("ipAddress", json!(address)),
        ("ipv6Address", json!(address_v6)),
        ("vpsieGroupID", json!(group)),
    ];
    // Who knows it by its number learns the name that it goes by.
    let name = machine.id.as_str();
    let is_named = *is_identified || name.parse() == Ok(*number);
    let identifier = (!is_named).then(|| ("vpsieNodeIdentifier", json!(name)));
    let unsaid = whereabouts(machine).filter(|field| !said.contains(field)).chain(identifier);
    unsaid.map(|(field, value)| (field.to_owned(), value)).collect()
}

/// When a condition was last told anew: now, unless it is as the object has it.
fn updated(claim: &Claim, condition: &Condition, now: Timestamp) -> Time {
    let known = claim.told.updated.get(condition.type_.as_str()).or(condition.last_transition_time.as_ref());
    let is_told = claim.conditions.contains(condition);
    known.filter(|_| is_told).cloned().unwrap_or_else(|| whole(now))
}

pub(super) fn status(claim: &Claim, (conditions, now): (&[Condition], Timestamp), news: &News) -> Value {
    let since = |kind: &str| {
        let holds =
            |condition: &&Condition| condition.type_ == kind && condition.status == ConditionStatus::True;
        conditions.iter().find(holds)?.last_transition_time.clone()
    };
    let time = |at: Option<Timestamp>| at.map(whole);
    let trouble = conditions.iter().find(|condition| is_trouble(condition));
    let mut written: Vec<VpsieCondition> = conditions
        .iter()
        .map(|condition| written_condition(condition, updated(claim, condition, now)))
        .collect();
    let error = trouble.and_then(|condition| condition.message.as_deref()).unwrap_or_default();
    if let Some(trouble) = trouble {
        let error = Condition { type_: ERROR.to_owned(), status: ConditionStatus::True, ..trouble.clone() };
        written.push(written_condition(&error, updated(claim, trouble, now)));
    }
    let mut status = json!({
        "phase": phase(claim, conditions), "conditions": written, "lastError": error,
        "createdAt": time(claim.created), "provisionedAt": since(RUNNING), "joinedAt": since("Registered"),
        "readyAt": since("Initialized"), "terminatingAt": time(claim.deleting).or_else(|| since("DisruptionReason")),
        "deletedAt": since("InstanceTerminating"), "observedGeneration": claim.generation,
    });
    let News { machine, node_name, resources, pod_event: _ } = news;
    if let Some(machine) = machine {
        status["hostname"] = json!(machine.name);
        status["vpsieStatus"] = json!(word(machine));
    }
    if let Some(name) = node_name {
        status["nodeName"] = json!(name);
    }
    let traffic = machine.as_ref().and_then(|machine| machine.extras.traffic_gb);
    if let Some((capacity, _)) = resources {
        status["resources"] =
            json!(MachineResources { bandwidth_gb: traffic, ..written_resources(capacity) });
    } else if let Some(traffic) = traffic.filter(|_| !claim.capacity.is_empty()) {
        status["resources"] = json!({ "bandwidthGB": traffic });
    }
    status
}

/// What VPSie says of how a machine is.
pub(crate) fn word(machine: &Machine) -> &str {
    machine.extras.status.as_deref().unwrap_or(match machine.state {
        MachineState::Pending => "pending",
        MachineState::Running => "running",
        MachineState::Halted => "unknown",
        MachineState::Stopping => "stopping",
        MachineState::Gone => "deleted",
    })
}

fn is_trouble(condition: &Condition) -> bool {
    let is = |kinds: &[&str]| kinds.contains(&condition.type_.as_str());
    let is_bad = match condition.status {
        ConditionStatus::True => is(&[FAILED, vpsie::DRAIN_FAILED]),
        ConditionStatus::False => is(&["Launched"]) || CONDITIONS.iter().any(|(ours, _)| is(&[ours])),
        // What is waited for is not wrong.
        ConditionStatus::Unknown => is(&["Launched"]),
    };
    is_bad && condition.message.as_deref().is_some_and(|message| !message.is_empty())
}

fn written_resources(capacity: &Value) -> MachineResources {
    let amounts: Amounts = serde_json::from_value(capacity.clone()).unwrap_or_default();
    let has = resources_of(&amounts);
    MachineResources {
        cpu: has.get(CPU) / 1000,
        memory_mb: has.get(MEMORY) >> 20,
        disk_gb: has.get(EPHEMERAL_STORAGE) >> 30,
        bandwidth_gb: None,
    }
}

/// Where in its life a claim with these conditions is.
pub(crate) fn phase(claim: &Claim, conditions: &[Condition]) -> Phase {
    let find = |kind: &str| conditions.iter().find(|condition| condition.type_ == kind);
    let holds = |kind: &str| find(kind).is_some_and(|condition| condition.status == ConditionStatus::True);
    if claim.is_deleting() {
        return if holds("InstanceTerminating") { Phase::Deleting } else { Phase::Terminating };
    }
    let is_begun = |launched: &Condition| launched.reason.as_deref() != Some(LAUNCH_NOT_BEGUN);
    match () {
        () if holds(FAILED) => Phase::Failed,
        // It is being emptied, and may yet stay.
        () if holds("DisruptionReason") => Phase::Terminating,
        () if holds("Initialized") => Phase::Ready,
        () if holds("Registered") => Phase::Joining,
        () if holds(RUNNING) => Phase::Provisioned,
        () if find("Launched").is_some_and(is_begun) => Phase::Provisioning,
        () => Phase::Pending,
    }
}

pub(super) fn trouble(group: &NodeGroup) -> Option<String> {
    let conditions = &group.status.as_ref()?.conditions;
    let is_it =
        |condition: &&VpsieCondition| condition.type_ == ERROR && condition.status == ConditionStatus::True;
    conditions.iter().find(is_it).map(|condition| condition.message.clone())
}

#[cfg(test)]
mod tests {
    use berth_core::units::Price;

    use super::*;

    fn machine(id: &str, extras: Extras) -> Machine {
        Machine {
            id: id.into(),
            provider_id: "".into(),
            token: None,
            name: "".into(),
            address: Some("10.0.0.1".into()),
            instance_type: "small".into(),
            zone: "dc".into(),
            capacity_type: CapacityType::OnDemand,
            price: Price::ZERO,
            state: MachineState::Running,
            tags: Labels::new(),
            launched_at: Timestamp::UNIX_EPOCH,
            extras: Box::new(extras),
        }
    }

    /// What VPSie tells of a machine stands on its object, each where VPSie's own objects have it.
    #[test]
    fn an_object_says_what_is_known_of_its_machine() {
        let numbered = Extras { number: Some(7), group: Some(100), ..Extras::default() };
        for (machine, number, group) in [
            (machine("abc", numbered), json!(7), json!(100)),
            (machine("12", Extras::default()), json!(12), Value::Null),
            (machine("abc", Extras::default()), Value::Null, Value::Null),
        ] {
            let spec = bought(&machine, &Labels::new())["spec"].clone();
            assert_eq!((&spec["vpsieInstanceID"], &spec["vpsieGroupID"]), (&number, &group), "{spec}");
            assert_eq!(spec["vpsieNodeIdentifier"], json!(machine.id.as_str()));
            let said = Told { address: "10.0.0.1".into(), ..Told::default() };
            assert_eq!(unsaid(&said, &machine).get("vpsieInstanceID").cloned().unwrap_or_default(), number);
        }
    }

    /// What is waited for is no error, and what was not begun is still pending.
    #[test]
    fn an_object_says_what_is_wrong_and_not_what_is_waited_for() {
        let object = json!({
            "metadata": { "name": "web-1", "namespace": "kube-system", "uid": "u" },
            "spec": {
                "vpsieInstanceID": 0, "instanceType": "small", "nodeGroupName": "web", "datacenterID": "dc-1",
                "resourceIdentifier": "c-1", "project": "p-1", "kubernetesVersion": "v1.34.0",
            },
        });
        let claim = claim(serde_json::from_value(object).unwrap());
        let launched = ("Launched", ConditionStatus::True, "Launched", "");
        let waits = |kind, reason| (kind, ConditionStatus::Unknown, reason, "not yet");
        for (conditions, phase, error) in [
            (vec![], "Pending", ""),
            (vec![waits("Launched", LAUNCH_NOT_BEGUN)], "Pending", "not yet"),
            (vec![waits("Launched", "LaunchFailed")], "Provisioning", "not yet"),
            (vec![launched, waits("Registered", "NodeNotFound")], "Provisioning", ""),
            (vec![launched, waits("Initialized", "NodeNotReady")], "Provisioning", ""),
            (vec![launched, ("Registered", ConditionStatus::False, "Lost", "gone")], "Provisioning", "gone"),
        ] {
            let written: Vec<Condition> = conditions
                .iter()
                .map(|(kind, status, reason, message)| Condition {
                    type_: (*kind).to_owned(),
                    status: *status,
                    reason: Some((*reason).to_owned()),
                    message: Some((*message).to_owned()),
                    last_transition_time: None,
                    observed_generation: None,
                })
                .collect();
            let status = status(&claim, (&written, Timestamp::UNIX_EPOCH), &News::default());
            assert_eq!(
                (&status["phase"], &status["lastError"]),
                (&json!(phase), &json!(error)),
                "{conditions:?}"
            );
        }
    }

    /// Its time of update is when it was told anew, and stays as long as it is told the same.
    #[test]
    fn a_condition_says_when_it_was_last_told() {
        let at = |second: i64| whole(Timestamp::from_second(second).unwrap());
        let told = |message: &str, updated: Value| {
            json!({
                "metadata": { "name": "web-1", "namespace": "kube-system", "uid": "u" },
                "spec": {
                    "vpsieInstanceID": 0, "instanceType": "small", "nodeGroupName": "web", "datacenterID": "dc-1",
                    "resourceIdentifier": "c-1", "project": "p-1", "kubernetesVersion": "v1.34.0",
                },
                "status": { "phase": "Joining", "conditions": [{
                    "type": "NodeJoined", "status": "False", "reason": "Lost", "message": message,
                    "lastTransitionTime": at(10), "lastUpdateTime": updated,
                }] },
            })
        };
        let condition = Condition {
            type_: "Registered".to_owned(),
            status: ConditionStatus::False,
            reason: Some("Lost".to_owned()),
            message: Some("gone".to_owned()),
            last_transition_time: Some(at(10)),
            observed_generation: None,
        };
        for (what, object, expected) in [
            ("the same", told("gone", json!(at(20))), at(20)),
            ("the same, of which nobody said when", told("gone", Value::Null), at(10)),
            ("other words", told("away", json!(at(20))), at(30)),
        ] {
            let claim = claim(serde_json::from_value(object).unwrap());
            let now = Timestamp::from_second(30).unwrap();
            let status = status(&claim, (std::slice::from_ref(&condition), now), &News::default());
            for index in [0, 1] {
                assert_eq!(
                    status["conditions"][index]["lastUpdateTime"],
                    json!(expected),
                    "{what}: {status}"
                );
            }
        }
    }

    /// What VPSie says of a machine stands on its object as it is.
    #[test]
    fn words_of_vpsies_are_told_as_they_are() {
        for (said, state, expected) in [
            (Some("Suspended"), MachineState::Halted, "Suspended"),
            (None, MachineState::Halted, "unknown"),
            (Some("active"), MachineState::Running, "active"),
            (None, MachineState::Running, "running"),
            (None, MachineState::Pending, "pending"),
        ] {
            let extras = Extras { status: said.map(Text::from), ..Extras::default() };
            let machine = Machine { state, ..machine("abc", extras) };
            assert_eq!(word(&machine), expected, "{said:?}");
        }
    }
}
