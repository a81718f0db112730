//! Nodes.

use std::net::IpAddr;

use super::containers::check_amount;
use super::faults::{Faults, items, text};
use crate::json::Value;
use crate::names::quoted;

pub(super) fn on_create(faults: &mut Faults, node: &Value) {
    taints(faults, &node["spec"]["taints"]);
    amounts(faults, node);
    let networks = &node["spec"]["podCIDRs"];
    for (at, network) in items(networks) {
        let network = network.as_str().unwrap_or_default();
        if !is_network(network) {
            let why = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
            faults.invalid_text(&format!("spec.podCIDRs[{at}]"), network, why);
        }
    }
    if networks.as_array().is_some_and(|networks| networks.len() > 2) {
        faults.invalid("spec.podCIDRs", networks, "may specify no more than one CIDR for each IP family");
    }
}

/// The server checks the new object as if it were made, and then the update.
pub(super) fn on_update(faults: &mut Faults, new: &Value, old: &Value, is_status: bool) {
    if !is_status {
        on_create(faults, new);
    }
    faults.metadata_once_more();
    amounts(faults, new);
    let mut addresses: Vec<&Value> = Vec::new();
    for (at, address) in items(&new["status"]["addresses"]) {
        if addresses.contains(&address) {
            let told = format!(
                "{{\"Type\":{},\"Address\":{}}}",
                quoted(text(address, "type")),
                quoted(text(address, "address"))
            );
            faults.duplicate_as_told(&format!("status.addresses[{at}]"), &told, "");
        }
        addresses.push(address);
    }
    networks(faults, &new["spec"]["podCIDRs"], &old["spec"]["podCIDRs"]);
    let provider = text(&old["spec"], "providerID");
    if !provider.is_empty() && provider != text(&new["spec"], "providerID") {
        faults
            .forbidden("spec.providerID", "node updates may not change providerID except from \"\" to valid");
    }
    taints(faults, &new["spec"]["taints"]);
}

/// They stay as they are once there are any; each that does not is told.
fn networks(faults: &mut Faults, new: &Value, old: &Value) {
    let [new, old] =
        [new, old].map(|networks| items(networks).map(|(_, network)| network).collect::<Vec<_>>());
    let changed = match (old.len(), new.len()) {
        (0, _) => 0,
        (before, after) if before != after => 1,
        _ => old.iter().zip(&new).filter(|(was, is)| was != is).count(),
    };
    for _ in 0..changed {
        faults.forbidden("spec.podCIDRs", "node updates may not change podCIDR except from \"\" to valid");
    }
}

fn taints(faults: &mut Faults, taints: &Value) {
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for (at, taint) in items(taints) {
        let path = format!("metadata.taints[{at}]");
        let (key, value, effect) = (text(taint, "key"), text(taint, "value"), text(taint, "effect"));
        faults.label_name(&format!("{path}.key"), key);
        faults.label_value(&format!("{path}.value"), value);
        faults.one_of(&format!("{path}.effect"), &taint["effect"], &EFFECTS);
        if seen.contains(&(key, effect)) {
            let told = format!(
                "{{\"Key\":{},\"Value\":{},\"Effect\":{},\"TimeAdded\":{}}}",
                quoted(key),
                quoted(value),
                quoted(effect),
                taint["timeAdded"]
            );
            faults.duplicate_as_told(&path, &told, ": taints must be unique by key and effect pair");
            continue;
        }
        seen.push((key, effect));
    }
}

pub(super) const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

fn amounts(faults: &mut Faults, node: &Value) {
    for list in ["capacity", "allocatable"] {
        for (resource, amount) in node["status"][list].as_object().into_iter().flatten() {
            check_amount(faults, &format!("status.{list}.{resource}"), resource, amount);
        }
    }
}

fn is_network(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let (Ok(address), Ok(bits)) = (address.parse::<IpAddr>(), bits.parse::<u8>()) else { return false };
    bits <= if address.is_ipv4() { 32 } else { 128 }
}
