//! A machine of the simulated cloud as a Node object, and back.

use berth_api::claims;
use berth_core::catalog::{CapacityType, InstanceType, Offering};
use berth_core::names::{self, Labels, Text};
use berth_core::units::Price;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::machine::{Machine, MachineId, MachineState, Order, Token};
use crate::provider::Refusal;

/// Marks the nodes that are machines of this cloud.
pub(super) const CLOUD: (&str, &str) = ("berth.dev/cloud", "kwok");
/// What the cloud remembers of a machine.
const RECORD: &str = "berth.dev/machine";
/// The machine is gone; its node is there for as long as somebody's finalizer holds it.
pub(super) const ENDED: &str = "berth.dev/machine-ended";
/// Says to KWOK that it is to play the kubelet.
const KWOK: (&str, &str) = ("kwok.x-k8s.io/node", "fake");
/// Shown by viewers of nodes.
const PRICE: &str = "eks-node-viewer/instance-price";
/// Several KWOKs can share the nodes by this.
const PARTITION: &str = "kwok-partition";
const PARTITIONS: [&str; 10] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
const SCHEME: &str = "kwok://";

/// What stands in the node's annotation. Labels would tell most of it too, but anybody may change them.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    name: Text,
    instance_type: Text,
    zone: Text,
    capacity_type: Text,
    price_per_hour: Price,
    launched_at: Timestamp,
    tags: Labels,
}

/// As far as it is read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct NodeObject {
    pub(super) metadata: Metadata,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Metadata {
    name: Text,
    pub(super) uid: String,
    annotations: Labels,
    pub(super) deletion_timestamp: Option<String>,
}

impl NodeObject {
    /// Whether the machine has ended, though its node is still there.
    pub(super) fn has_ended(&self) -> bool {
        self.metadata.annotations.contains_key(ENDED)
    }

    /// `None` if it is no machine of this cloud.
    pub(super) fn machine(&self) -> Option<Machine> {
        let record: Record = serde_json::from_str(self.metadata.annotations.get(RECORD)?).ok()?;
        let name = &self.metadata.name;
        Some(Machine {
            id: (&**name).into(),
            provider_id: provider_id(name),
            token: Token::of_tags(&record.tags),
            name: record.name,
            address: None,
            instance_type: record.instance_type,
            zone: record.zone,
            capacity_type: CapacityType::parse(&record.capacity_type)?,
            price: record.price_per_hour,
            state: if self.has_ended() { MachineState::Gone } else { MachineState::Running },
            tags: record.tags,
            launched_at: record.launched_at,
            extras: Box::default(),
        })
    }
}

/// The one machine that there can be for a token.
pub(super) fn id_of(token: &Token) -> Result<MachineId, Refusal> {
    let name = format!("kwok-{token}");
    if names::is_dns_subdomain(&name) {
        Ok(name.as_str().into())
    } else {
        Err(Refusal::Invalid(format!("`{token}` cannot be part of a node's name")))
    }
}

fn provider_id(name: &str) -> Text {
    format!("{SCHEME}{name}").into()
}

/// The machine that an order becomes when it is bought as this.
pub(super) fn bought(
    order: &Order,
    id: MachineId,
    (instance_type, offering): (&InstanceType, &Offering),
    now: Timestamp,
) -> Machine {
    Machine {
        provider_id: provider_id(id.as_str()),
        id,
        token: Some(order.token.clone()),
        name: order.name.clone(),
        address: None,
        instance_type: instance_type.name.clone(),
        zone: offering.zone.clone(),
        capacity_type: offering.capacity_type,
        price: offering.price,
        state: MachineState::Pending,
        tags: order.machine_tags(),
        launched_at: now,
        extras: Box::default(),
    }
}

/// The node that a machine joins as.
pub(super) fn object(
    order: &Order,
    machine: &Machine,
    (instance_type, offering): (&InstanceType, &Offering),
) -> Value {
    let record = Record {
        name: machine.name.clone(),
        instance_type: machine.instance_type.clone(),
        zone: machine.zone.clone(),
        capacity_type: machine.capacity_type.name().into(),
        price_per_hour: machine.price,
        launched_at: machine.launched_at,
        tags: machine.tags.clone(),
    };
    let mut labels: Labels = (*order.labels).clone();
    labels.extend(claims::bought_labels(instance_type, offering));
    let own = [
        (names::HOSTNAME, &*order.name),
        (KWOK.0, KWOK.1),
        (CLOUD.0, CLOUD.1),
        (PRICE, &*machine.price.to_string()),
        (PARTITION, &*format!("partition-{}", partition(machine.id.as_str()))),
    ];
    labels.extend(own.map(|(key, value)| (key.into(), value.into())));
    let taints = order.taints.iter().map(|taint| {
        let mut written = Map::from_iter([
            ("key".to_owned(), json!(&*taint.key)),
            ("effect".to_owned(), json!(taint.effect.name())),
        ]);
        if !taint.value.is_empty() {
            written.insert("value".to_owned(), json!(&*taint.value));
        }
        Value::Object(written)
    });
    let told = |label: &str| labels.get(label).map(|value| json!(&**value)).unwrap_or_default();
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": machine.id.as_str(),
            "labels": labels,
            "annotations": { KWOK.0: KWOK.1, RECORD: json!(record).to_string() },
        },
        "spec": { "providerID": &*machine.provider_id, "taints": taints.collect::<Vec<_>>() },
        "status": {
            "capacity": claims::amounts(&instance_type.capacity),
            "allocatable": claims::amounts(&instance_type.allocatable()),
            "nodeInfo": node_info(&told(names::ARCH), &told(names::OS)),
        },
    })
}

/// An API server asks for all of these; who plays the kubelet fills in the rest.
fn node_info(architecture: &Value, operating_system: &Value) -> Value {
    let unknown = [
        "bootID",
        "containerRuntimeVersion",
        "kernelVersion",
        "kubeProxyVersion",
        "kubeletVersion",
        "machineID",
        "osImage",
        "systemUUID",
    ];
    let mut info: Map<String, Value> =
        unknown.map(|field| (field.to_owned(), json!(""))).into_iter().collect();
    info.insert("architecture".to_owned(), architecture.clone());
    info.insert("operatingSystem".to_owned(), operating_system.clone());
    Value::Object(info)
}

/// Spread by name, and always the same for the same one.
fn partition(name: &str) -> &'static str {
    let sum: usize = name.bytes().map(usize::from).sum();
    PARTITIONS.get(sum % PARTITIONS.len()).copied().unwrap_or_default()
}
