//! Addresses and ports of services, which the server gives out.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use super::State;
use crate::json::{Value, json};
use crate::kinds::Resource;
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
        let kind = object::text(object, &["spec", "type"]).to_owned();
        if resource.qualified() != "services" || kind == "ExternalName" || !object["spec"].is_object() {
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
