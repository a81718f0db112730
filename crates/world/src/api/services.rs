//! Addresses and ports of services, which the server gives out.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use super::State;
use crate::failure::Failure;
use crate::json::{Value, json};
use crate::kinds::Resource;
use crate::names::invalid_value;
use crate::object;

/// The network of services. Its first addresses are for those who choose one themselves.
const NETWORK: u32 = Ipv4Addr::new(10, 0, 0, 0).to_bits();
const FIRST: u32 = NETWORK + 16;
const LAST: u32 = NETWORK + 0xfffe;

/// The ports that nodes open for services.
const NODE_PORTS: std::ops::RangeInclusive<i64> = 30000..=32767;

impl State {
    /// Gives a service what it needs and does not have. `old` is what it was.
    pub(super) fn allocate(&self, resource: &Resource, object: &mut Value, old: Option<&Value>) {
        if resource.qualified() != "services" || !object["spec"].is_object() {
            return;
        }
        if let Some(old) = old {
            release(&mut object["spec"], &old["spec"]);
        }
        align_addresses(&mut object["spec"], old.map_or(&Value::Null, |old| &old["spec"]));
        let kind = object::text(object, &["spec", "type"]).to_owned();
        if kind == "ExternalName" {
            return;
        }
        if object::text(object, &["spec", "clusterIP"]).is_empty() {
            let kept = old.map(|old| object::text(old, &["spec", "clusterIP"])).filter(|ip| !ip.is_empty());
            if let Some(ip) = kept.map(str::to_owned).or_else(|| self.free_address()) {
                object["spec"]["clusterIP"] = json!(ip);
            }
        }
        let ip = object["spec"]["clusterIP"].clone();
        let spec = &mut object["spec"];
        for (field, value) in [
            ("clusterIPs", json!([ip])),
            ("ipFamilies", json!(["IPv4"])),
            ("ipFamilyPolicy", json!("SingleStack")),
        ] {
            if spec[field].is_null() {
                spec[field] = value;
            }
        }
        if matches!(&*kind, "NodePort" | "LoadBalancer") {
            self.allocate_ports(object, old);
        }
    }

    /// Whoever chooses a port of the nodes themselves must choose one that is free.
    pub(super) fn check_ports(
        &self,
        resource: &Resource,
        object: &Value,
        old: Option<&Value>,
    ) -> Result<(), Failure> {
        if resource.qualified() != "services" || !needs_ports(&object["spec"]) {
            return Ok(());
        }
        let chosen = |service: &Value| -> Vec<(usize, i64, Value)> {
            let ports = service["spec"]["ports"].as_array().into_iter().flatten().enumerate();
            let numbered = ports
                .map(|(at, port)| (at, port["nodePort"].as_i64().unwrap_or(0), port["protocol"].clone()));
            numbered.filter(|(_, number, _)| *number != 0).collect()
        };
        let own: BTreeSet<i64> = old.into_iter().flat_map(chosen).map(|(_, number, _)| number).collect();
        let mut taken: Vec<(i64, Value)> = Vec::new();
        for (at, number, protocol) in chosen(object) {
            let is_of_others = || {
                self.store.list("services", None).any(|(_, other)| {
                    object::uid(&other) != object::uid(object)
                        && chosen(&other).iter().any(|(_, known, _)| *known == number)
                })
            };
            let why = if own.contains(&number) {
                None
            } else if !NODE_PORTS.contains(&number) {
                Some("provided port is not in the valid range. The range of valid ports is 30000-32767")
            } else if taken.contains(&(number, protocol.clone())) || is_of_others() {
                Some("provided port is already allocated")
            } else {
                None
            };
            if let Some(why) = why {
                let cause = invalid_value(&format!("spec.ports[{at}].nodePort"), &number.to_string(), why);
                return Err(Failure::invalid(resource, object::name(object), vec![cause]));
            }
            taken.push((number, protocol));
        }
        Ok(())
    }

    fn free_address(&self) -> Option<String> {
        let taken: BTreeSet<Ipv4Addr> = self
            .store
            .list("services", None)
            .filter_map(|(_, service)| object::text(&service, &["spec", "clusterIP"]).parse().ok())
            .collect();
        let mut addresses = (FIRST..=LAST).map(Ipv4Addr::from_bits);
        addresses.find(|address| !taken.contains(address)).map(|address| address.to_string())
    }

    fn allocate_ports(&self, object: &mut Value, old: Option<&Value>) {
        let ports = |service: &Value| service["spec"]["ports"].as_array().cloned().unwrap_or_default();
        let mut taken: BTreeSet<i64> = self
            .store
            .list("services", None)
            .flat_map(|(_, service)| ports(&service))
            .filter_map(|port| port["nodePort"].as_i64())
            .collect();
        let before = old.map(ports).unwrap_or_default();
        let ports = object.pointer_mut("/spec/ports").and_then(Value::as_array_mut);
        for port in ports.into_iter().flatten() {
            if port["nodePort"].as_i64().is_some_and(|number| number != 0) {
                continue;
            }
            let same =
                |known: &&Value| known["port"] == port["port"] && known["protocol"] == port["protocol"];
            let kept = before.iter().find(same).and_then(|known| known["nodePort"].as_i64());
            if let Some(number) = kept.or_else(|| NODE_PORTS.into_iter().find(|port| !taken.contains(port))) {
                taken.insert(number);
                if let Some(fields) = port.as_object_mut() {
                    fields.insert("nodePort", json!(number));
                }
            }
        }
    }
}

fn kind(spec: &Value) -> &str {
    spec["type"].as_str().unwrap_or_default()
}

fn needs_ports(spec: &Value) -> bool {
    kind(spec) == "NodePort" || kind(spec) == "LoadBalancer" && spec["allocateLoadBalancerNodePorts"] != false
}

fn is_external(spec: &Value) -> bool {
    let has_addresses = spec["externalIPs"].as_array().is_some_and(|ips| !ips.is_empty());
    matches!(kind(spec), "NodePort" | "LoadBalancer") || kind(spec) == "ClusterIP" && has_addresses
}

/// The one address that older clients know is the first of those that newer ones do.
fn align_addresses(spec: &mut Value, old: &Value) {
    let ip = spec["clusterIP"].as_str().unwrap_or_default().to_owned();
    let is_given = spec["clusterIPs"].as_array().is_some_and(|ips| !ips.is_empty());
    if old.is_null() {
        if !ip.is_empty() && !is_given {
            spec["clusterIPs"] = json!([ip]);
        } else if ip.is_empty() && is_given {
            spec["clusterIP"] = spec["clusterIPs"][0].clone();
        }
        return;
    }
    let (stays, stay) = (spec["clusterIP"] == old["clusterIP"], spec["clusterIPs"] == old["clusterIPs"]);
    if !stays && stay && !ip.is_empty() {
        spec["clusterIPs"] = json!([ip]);
    } else if stays && !stay && is_given {
        spec["clusterIP"] = spec["clusterIPs"][0].clone();
    }
}

/// A service that becomes another kind gives back what that does not need, unless somebody wants to have it changed.
fn release(spec: &mut Value, old: &Value) {
    let mut gone: Vec<&str> = Vec::new();
    let stays = |spec: &Value, field: &str| spec[field] == old[field];
    if kind(old) != "ExternalName" && kind(spec) == "ExternalName" {
        if stays(spec, "clusterIP") && stays(spec, "clusterIPs") {
            gone.extend(["clusterIP", "clusterIPs"]);
        }
        let others = ["ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"];
        gone.extend(others.into_iter().filter(|field| stays(spec, field)));
    }
    if kind(old) == "LoadBalancer" && kind(spec) != "LoadBalancer" {
        let of_balancers = ["allocateLoadBalancerNodePorts", "loadBalancerClass", "healthCheckNodePort"];
        gone.extend(of_balancers.into_iter().filter(|field| stays(spec, field)));
    }
    if is_external(old) && !is_external(spec) && stays(spec, "externalTrafficPolicy") {
        gone.push("externalTrafficPolicy");
    }
    let drops_ports = needs_ports(old) && !needs_ports(spec);
    let on_nodes = |spec: &Value| -> Vec<Value> {
        let ports = spec["ports"].as_array().into_iter().flatten();
        ports.map(|port| port["nodePort"].clone()).collect()
    };
    let same_ports = on_nodes(spec) == on_nodes(old);
    let Some(fields) = spec.as_object_mut() else { return };
    fields.retain(|field, _| !gone.contains(&field.as_str()));
    if drops_ports && same_ports {
        let ports = fields.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten();
        for port in ports.filter_map(Value::as_object_mut) {
            port.remove("nodePort");
        }
    }
}
