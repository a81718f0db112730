//! What a kubelet says of its node: what it has, how it is, and that it still lives.

use std::net::Ipv4Addr;

use jiff::{SignedDuration, Timestamp};

use crate::api::Act;
use crate::clock::lot_of;
use crate::discovery::GIT_VERSION;
use crate::json::{Value, json};
use crate::object;

/// How often a kubelet says that it lives.
const LEASE_RENEWED_EVERY: SignedDuration = SignedDuration::from_secs(10);
const LEASE_SECS: i64 = 40;

/// How often a kubelet reports its node's status, though nothing has changed.
const REPORTED_EVERY: SignedDuration = SignedDuration::from_mins(5);

pub(super) const LEASE_NAMESPACE: &str = "kube-node-lease";
pub(super) const LEASES: &str = "leases.coordination.k8s.io";

/// When a lease that is written now is written again.
pub(super) fn renewed_next(now: Timestamp) -> Timestamp {
    now.checked_add(LEASE_RENEWED_EVERY).unwrap_or(Timestamp::MAX)
}

pub(super) fn first_lease(node: &Value, now: Timestamp) -> Act {
    let name = object::name(node);
    let owner = json!({ "apiVersion": "v1", "kind": "Node", "name": name, "uid": object::uid(node) });
    let lease = json!({
        "metadata": { "name": name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner] },
        "spec": {
            "holderIdentity": name, "leaseDurationSeconds": LEASE_SECS, "renewTime": object::micro_time(now),
        },
    });
    Act::Create(LEASES, lease)
}

/// The lease as it must be written, if it must, and when it must be next.
pub(super) fn renewal(lease: &Value, now: Timestamp) -> (Option<Act>, Timestamp) {
    let renewed = object::time_at(lease, &["spec", "renewTime"]).unwrap_or(Timestamp::UNIX_EPOCH);
    let due = renewed_next(renewed);
    if now < due {
        return (None, due);
    }
    let mut renewed = lease.clone();
    object::put(&mut renewed, &["spec", "renewTime"], object::micro_time(now));
    (Some(Act::Update(LEASES, renewed)), renewed_next(now))
}

/// The node with the labels that every kubelet gives its own, if it lacks one.
pub(super) fn labelled(node: &Value) -> Option<Value> {
    let info = |field: &str, or: &'static str| match object::text(node, &["status", "nodeInfo", field]) {
        "" => or.to_owned(),
        told => told.to_owned(),
    };
    let known = object::at(node, "/metadata/labels");
    let missing: Vec<(&str, String)> = [
        ("kubernetes.io/hostname", object::name(node).to_owned()),
        ("kubernetes.io/arch", info("architecture", "amd64")),
        ("kubernetes.io/os", info("operatingSystem", "linux")),
    ]
    .into_iter()
    .filter(|(label, _)| known.and_then(|labels| labels.get(label)).is_none())
    .collect();
    if missing.is_empty() {
        return None;
    }
    let mut labels = known.and_then(Value::as_object).cloned().unwrap_or_default();
    labels.extend(missing.into_iter().map(|(label, value)| (label.to_owned(), json!(value))));
    let mut node = node.clone();
    object::set(&mut node, "labels", labels.into());
    Some(node)
}

/// The node with its status as the kubelet has it to be, if there is anything to say, and when there is at the latest.
pub(super) fn reported(
    node: &Value,
    is_ready: bool,
    now: Timestamp,
    address: impl FnOnce() -> Ipv4Addr,
) -> (Option<Value>, Timestamp) {
    let mut next = node.clone();
    if let Some(fields) = next.as_object_mut() {
        let status = fields.entry("status").or_insert_with(|| json!({}));
        complete(status, node, address);
    }
    for condition in conditions(is_ready) {
        let of = condition.of;
        let known = object::condition(node, of);
        let heartbeat = known.map_or_else(|| object::time(now), |known| known["lastHeartbeatTime"].clone());
        object::set_condition(
            &mut next,
            json!({
                "type": of, "status": condition.status, "reason": condition.reason, "message": condition.message,
                "lastHeartbeatTime": heartbeat, "lastTransitionTime": object::time(now),
            }),
        );
    }
    let last = object::condition(node, "Ready")
        .and_then(|ready| object::time_at(ready, &["lastHeartbeatTime"]))
        .unwrap_or(Timestamp::UNIX_EPOCH);
    let due = last.checked_add(REPORTED_EVERY).unwrap_or(Timestamp::MAX);
    if next == *node && now < due {
        return (None, due);
    }
    let own = |condition: &&mut Value| conditions(is_ready).iter().any(|known| condition["type"] == known.of);
    let all = next.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    for condition in all.into_iter().flatten().filter(own) {
        condition["lastHeartbeatTime"] = object::time(now);
    }
    (Some(next), now.checked_add(REPORTED_EVERY).unwrap_or(Timestamp::MAX))
}

/// Fills in what the node's author left out.
fn complete(status: &mut Value, node: &Value, address: impl FnOnce() -> Ipv4Addr) {
    let Some(fields) = status.as_object_mut() else { return };
    let capacity = fields.entry("capacity").or_insert_with(|| json!({}));
    for (resource, amount) in
        [("cpu", "8"), ("memory", "32Gi"), ("pods", "110"), ("ephemeral-storage", "100Gi")]
    {
        if capacity.get(resource).is_none() && capacity.is_object() {
            capacity[resource] = json!(amount);
        }
    }
    let capacity = capacity.clone();
    let allocatable = fields.entry("allocatable").or_insert_with(|| json!({}));
    for (resource, amount) in capacity.as_object().into_iter().flatten() {
        if allocatable.get(resource).is_none() && allocatable.is_object() {
            allocatable[resource] = amount.clone();
        }
    }
    let name = object::name(node);
    fields.entry("addresses").or_insert_with(|| {
        json!([
            { "type": "InternalIP", "address": address().to_string() },
            { "type": "Hostname", "address": name },
        ])
    });
    fields.entry("daemonEndpoints").or_insert_with(|| json!({ "kubeletEndpoint": { "Port": 10250 } }));
    let info = fields.entry("nodeInfo").or_insert_with(|| json!({}));
    let machine = format!("{:016x}{:016x}", lot_of(name), lot_of(object::uid(node)));
    for (field, value) in [
        ("architecture", "amd64"),
        ("bootID", object::uid(node)),
        ("containerRuntimeVersion", "containerd://2.2.0"),
        ("kernelVersion", "6.12.0"),
        ("kubeProxyVersion", ""),
        ("kubeletVersion", GIT_VERSION),
        ("machineID", &machine),
        ("operatingSystem", "linux"),
        ("osImage", "Berth's world"),
        ("systemUUID", object::uid(node)),
    ] {
        if info.is_object() && object::text(info, &[field]).is_empty() {
            info[field] = json!(value);
        }
    }
}

struct Condition {
    of: &'static str,
    status: &'static str,
    reason: &'static str,
    message: &'static str,
}

/// In the kubelet's order and words.
fn conditions(is_ready: bool) -> [Condition; 4] {
    let healthy = |of, reason, message| Condition { of, status: "False", reason, message };
    let ready = if is_ready {
        Condition {
            of: "Ready",
            status: "True",
            reason: "KubeletReady",
            message: "kubelet is posting ready status",
        }
    } else {
        Condition {
            of: "Ready",
            status: "False",
            reason: "KubeletNotReady",
            message: "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady \
                      message:Network plugin returns error: cni plugin not initialized",
        }
    };
    [
        healthy("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        healthy("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        healthy("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ready,
    ]
}

/// The address at which a node is reached.
pub(super) fn internal_ip(node: &Value) -> Option<&str> {
    let addresses = object::at(node, "/status/addresses").and_then(Value::as_array)?;
    let own = addresses.iter().find(|address| address["type"] == "InternalIP")?;
    own["address"].as_str()
}
