//! NodePool and NodeClaim.

use std::sync::Arc;

use berth_api::ClassKind;
use berth_api::claims::{TERMINATION_TIMESTAMP, note_of, offerings_of, stamped};
use berth_api::resources::karpenter::{NodeClaim, NodePool};
use berth_api::resources::scalar::Amounts;
use berth_api::resources::shared::{Condition, ConditionStatus};
use berth_api::vpsie::MachineSetup;
use berth_core::drift::Stamp;
use berth_core::names::{self, Labels, Text};
use berth_core::pod::Taint;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Dialect, Entry, ListedMetadata, News, PoolId, listed, resources_of, setup_of};
use crate::claim::{Claim, Told};
use crate::cluster::Refused;
use crate::conditions::whole;
use crate::desk::Desk;

pub(super) fn claim(object: NodeClaim) -> Claim {
    let NodeClaim { metadata, spec, status } = object;
    let mut status = status.unwrap_or_default();
    status.conditions.shrink_to_fit();
    let text = |text: &Option<String>| Text::from(text.as_deref().unwrap_or_default());
    let annotation =
        |key: &str| metadata.annotations.as_ref()?.get(key).map(|value| Text::from(value.as_str()));
    let labels: Labels = metadata
        .labels
        .iter()
        .flatten()
        .map(|(key, value)| (key.as_str().into(), value.as_str().into()))
        .collect();
    let setup = MachineSetup::of_claim(&metadata);
    Claim {
        dialect: Dialect::Karpenter,
        namespace: Text::default(),
        name: text(&metadata.name),
        uid: text(&metadata.uid),
        resource_version: text(&metadata.resource_version),
        created: metadata.creation_timestamp.as_ref().map(|time| time.0),
        deleting: metadata.deletion_timestamp.as_ref().map(|time| time.0),
        generation: metadata.generation,
        finalizers: metadata.finalizers.iter().flatten().map(|name| name.as_str().into()).collect(),
        pool: labels.get(names::NODEPOOL).cloned(),
        class: ClassKind::of(&spec.node_class_ref),
        labels,
        taints: spec.taints.iter().map(Taint::from).collect(),
        startup_taints: spec.startup_taints.iter().map(Taint::from).collect(),
        offerings: offerings_of(&metadata),
        note: note_of(&metadata),
        requested_at: None,
        stamp: Stamp { class: setup.as_ref().map(|setup| setup.digest().into()), ..stamped(&metadata) },
        setup: setup.map(|setup| Arc::new(setup_of(setup))),
        promised: spec.resources.requests.keys().map(|name| name.as_str().into()).collect(),
        grace_secs: spec.termination_grace_period.map(|grace| grace.as_std().as_secs()),
        deadline: annotation(TERMINATION_TIMESTAMP).and_then(|time| time.parse().ok()),
        drain_secs: None,
        wanted_name: Text::default(),
        told: Told::default(),
        provider_id: status.provider_id.as_str().into(),
        node_name: status.node_name.as_str().into(),
        capacity: resources_of(&status.capacity),
        conditions: status.conditions,
    }
}

#[derive(Deserialize)]
struct Listed {
    metadata: ListedMetadata,
    #[serde(default)]
    status: ListedStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListedStatus {
    node_name: Text,
    #[serde(rename = "providerID")]
    provider_id: Text,
    capacity: Amounts,
}

pub(super) async fn entries(desk: &Desk, pool: Option<&PoolId>) -> Result<Vec<Entry>, Refused> {
    let all = Dialect::Karpenter.claims("");
    let path = pool.map_or_else(
        || all.clone(),
        |pool| format!("{all}?labelSelector={}%3D{}", names::NODEPOOL.replace('/', "%2F"), pool.name),
    );
    let entry = |Listed { metadata, status }: Listed| Entry {
        name: metadata.name,
        uid: metadata.uid,
        provider_id: status.provider_id,
        node_name: status.node_name,
        capacity: resources_of(&status.capacity),
    };
    listed(desk, &path, entry).await
}

pub(super) fn bought(labels: &Labels) -> Value {
    json!({ "metadata": { "labels": labels } })
}

pub(super) fn status(conditions: &[Condition], news: &News) -> Value {
    let mut status = json!({ "conditions": conditions });
    let News { machine, node_name, resources, pod_event } = news;
    if let Some(machine) = machine {
        status["providerID"] = json!(machine.provider_id);
    }
    if let Some(name) = node_name {
        status["nodeName"] = json!(name);
    }
    if let Some((capacity, allocatable)) = resources {
        status["capacity"] = capacity.clone();
        status["allocatable"] = allocatable.clone();
    }
    if let Some(at) = pod_event {
        status["lastPodEventTime"] = json!(whole(*at));
    }
    status
}

pub(super) fn trouble(pool: &NodePool) -> Option<String> {
    let is_it =
        |condition: &&Condition| condition.type_ == "Ready" && condition.status == ConditionStatus::False;
    let condition = pool.status.as_ref()?.conditions.iter().find(is_it)?;
    Some(condition.message.clone().unwrap_or_default())
}
