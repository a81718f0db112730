//! What is judged by, as it is in the world's objects and machines.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::Timestamp;
use berth_cloud::machine::MachineId;
use berth_core::commitment::Commitments;
use berth_core::names;
use berth_core::resources::{Resources, USD_PER_HOUR};
use berth_world::cloud::{Purchase, Record};
use serde_json::Value;

use crate::dialect::Dialect;

#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is true by itself")]
pub(crate) struct Machine {
    pub(crate) id: MachineId,
    /// The uid of the claim that it was bought for; `None`: it is a stranger's.
    pub(crate) token: Option<String>,
    /// The name of that claim.
    pub(crate) name: String,
    pub(crate) pool: String,
    pub(crate) provider_id: String,
    pub(crate) is_alive: bool,
    /// The cloud ends it by itself.
    pub(crate) is_doomed: bool,
    /// Somebody has had it ended before.
    pub(crate) was_ended: bool,
    /// What it is and costs.
    pub(crate) amounts: Resources,
    /// What the cloud chose to sell instead is not what was asked for.
    pub(crate) is_as_ordered: bool,
}

#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is true by itself")]
pub(crate) struct Pod {
    pub(crate) node: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) phase: String,
    pub(crate) is_ready: bool,
    pub(crate) deletion: Option<Timestamp>,
    pub(crate) is_protected: bool,
    /// Nobody waits for it.
    pub(crate) may_stay: bool,
    /// It keeps data on its node.
    pub(crate) has_local_storage: bool,
}

#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is true by itself")]
pub(crate) struct Node {
    pub(crate) provider_id: String,
    pub(crate) is_closed: bool,
    pub(crate) is_deleting: bool,
    pub(crate) is_ready: bool,
    /// Somebody has said that it stays.
    pub(crate) is_protected: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) uid: String,
    pub(crate) pool: String,
    pub(crate) provider_id: String,
    pub(crate) node: String,
    pub(crate) created: Timestamp,
    pub(crate) deletion: Option<Timestamp>,
    pub(crate) grace_secs: Option<i64>,
    /// It ends after a time.
    pub(crate) expires: bool,
    /// Conditions that hold.
    pub(crate) holds: BTreeSet<String>,
    /// An operator made it.
    pub(crate) is_ours: bool,
    /// What its cloud wants to know of its launch stands on it.
    pub(crate) is_noted: bool,
}

impl Claim {
    /// It failed, and its machine is gone: it is only there to be seen.
    pub(crate) fn is_over(&self) -> bool {
        self.has_failed() && self.holds.contains("MachineEnded")
    }

    /// Nobody waits for its machine any more.
    pub(crate) fn is_given_up(&self) -> bool {
        self.deletion.is_some() || self.has_failed()
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.holds.contains("Failed")
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Pool {
    pub(crate) nodes_max: Option<u64>,
    /// Of resources, and of money.
    pub(crate) limits: Resources,
    pub(crate) away_max: u64,
    pub(crate) replicas: Option<u64>,
    pub(crate) nodes_min: u64,
    pub(crate) is_deleting: bool,
    pub(crate) ledger: Commitments,
}

#[derive(Clone, Debug)]
pub(crate) struct Budget {
    pub(crate) namespace: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) available_min: u64,
}

impl Machine {
    pub(crate) fn read(record: &Record) -> Self {
        let purchase = record.purchase.as_ref();
        let is_ordered = |purchase: &Purchase| {
            let name = &purchase.instance_type.name;
            purchase.order.offerings.iter().any(|offering| offering.instance_type == *name)
        };
        let amounts = |purchase: &Purchase| {
            let cost = [(USD_PER_HOUR, record.machine.price.micro_usd())];
            purchase.instance_type.capacity.plus(&Resources::of(&cost))
        };
        Self {
            id: record.machine.id.clone(),
            token: purchase.map(|purchase| purchase.order.token.to_string()),
            name: record.machine.name.to_string(),
            pool: purchase.map(|purchase| purchase.order.pool.to_string()).unwrap_or_default(),
            provider_id: record.machine.provider_id.to_string(),
            is_alive: record.is_alive(),
            is_doomed: record.doomed_at.is_some(),
            was_ended: !record.terminations_asked.is_empty(),
            amounts: purchase.map(amounts).unwrap_or_default(),
            is_as_ordered: purchase.is_some_and(is_ordered),
        }
    }
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

pub(crate) fn time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

fn labels(value: &Value) -> BTreeMap<String, String> {
    value.as_object().into_iter().flatten().map(|(key, value)| (key.clone(), text(value))).collect()
}

/// The conditions that hold.
pub(crate) fn holding(object: &Value) -> impl Iterator<Item = String> {
    let conditions = object["status"]["conditions"].as_array();
    let holding = conditions.into_iter().flatten().filter(|condition| condition["status"] == "True");
    holding.map(|condition| text(&condition["type"]))
}

fn holds(object: &Value, condition: &str) -> bool {
    holding(object).any(|held| held == condition)
}

impl Pod {
    pub(crate) fn read(object: &Value) -> Self {
        let metadata = &object["metadata"];
        let owners = metadata["ownerReferences"].as_array();
        let is_nodes = owners.into_iter().flatten().any(|owner| owner["kind"] == "Node");
        let tolerations = object["spec"]["tolerations"].as_array();
        let tolerates = tolerations.into_iter().flatten().any(|toleration| {
            let key = toleration["key"].as_str().unwrap_or_default();
            let effect = toleration["effect"].as_str().unwrap_or_default();
            matches!(effect, "" | "NoSchedule")
                && (key == names::TAINT_DISRUPTED || (key.is_empty() && toleration["operator"] == "Exists"))
        });
        let phase = text(&object["status"]["phase"]);
        let has_ended = matches!(&*phase, "Succeeded" | "Failed");
        let volumes = object["spec"]["volumes"].as_array();
        let is_local = |volume: &Value| {
            let scratch = &volume["emptyDir"];
            volume["hostPath"].is_object() || (scratch.is_object() && scratch["medium"] != "Memory")
        };
        Self {
            node: text(&object["spec"]["nodeName"]),
            labels: labels(&metadata["labels"]),
            is_ready: holds(object, "Ready"),
            deletion: time(&metadata["deletionTimestamp"]),
            is_protected: metadata["annotations"][names::DO_NOT_DISRUPT] == "true",
            may_stay: is_nodes || tolerates || has_ended,
            has_local_storage: volumes.into_iter().flatten().any(is_local),
            phase,
        }
    }
}

impl Node {
    pub(crate) fn read(object: &Value, dialect: Dialect) -> Self {
        let annotations = &object["metadata"]["annotations"];
        let taints = object["spec"]["taints"].as_array();
        Self {
            provider_id: text(&object["spec"]["providerID"]),
            is_closed: taints.into_iter().flatten().any(|taint| taint["key"] == names::TAINT_DISRUPTED),
            is_deleting: !object["metadata"]["deletionTimestamp"].is_null(),
            is_ready: holds(object, "Ready"),
            is_protected: annotations[dialect.protection()] == "true",
        }
    }
}

impl Budget {
    pub(crate) fn read(object: &Value) -> Self {
        Self {
            namespace: text(&object["metadata"]["namespace"]),
            labels: labels(&object["spec"]["selector"]["matchLabels"]),
            available_min: object["spec"]["minAvailable"].as_u64().unwrap_or(0),
        }
    }
}
