//! Services.

use std::net::IpAddr;

use super::faults::{Faults, is_empty, items, number, text};
use super::handlers::port;
use super::networking::port_number;
use crate::json::{Value, json};

const AFFINITY_SECONDS_MAX: i64 = 86400;
const FOR_LOAD_BALANCERS: &str = "may only be used when `type` is 'LoadBalancer'";

pub(super) fn on_create(faults: &mut Faults, service: &Value) {
    check(faults, service);
}

pub(super) fn on_update(faults: &mut Faults, new: &Value, old: &Value) {
    let (spec, was) = (&new["spec"], &old["spec"]);
    if text(spec, "type") != "ExternalName" && text(was, "type") != "ExternalName" {
        addresses_stay(faults, spec, was);
        if !is_headless(spec) && !is_headless(was) {
            families_stay(faults, spec, was);
        }
    }
    let is_balanced = |spec: &Value| text(spec, "type") == "LoadBalancer";
    if is_balanced(spec) && is_balanced(was) && spec["loadBalancerClass"] != was["loadBalancerClass"] {
        faults.invalid("spec.loadBalancerClass", &spec["loadBalancerClass"], "may not change once set");
    }
    check(faults, new);
}

fn is_headless(spec: &Value) -> bool {
    spec["clusterIPs"].as_array().is_some_and(|ips| matches!(&ips[..], [only] if only == "None"))
}

/// The first address stays, a second may come and go.
fn addresses_stay(faults: &mut Faults, spec: &Value, was: &Value) {
    if is_headless(spec) && is_headless(was) {
        return;
    }
    let (new, old) = (&spec["clusterIPs"], &was["clusterIPs"]);
    let [is, before] = [new, old].map(|list| items(list).count());
    for (at, ip) in items(old).take(is) {
        let counts = is == before || at == 0;
        if counts && new[at] != *ip {
            faults.invalid(&format!("spec.clusterIPs[{at}]"), new, "may not change once set");
        }
    }
    if before > is && is == 0 {
        faults.invalid("spec.clusterIPs[0]", &json!([]), "primary clusterIP can not be unset");
    }
}

fn families_stay(faults: &mut Faults, spec: &Value, was: &Value) {
    let (new, old) = (&spec["ipFamilies"], &was["ipFamilies"]);
    let [is, before] = [new, old].map(|list| items(list).count());
    for (at, family) in items(old).take(is) {
        if (is == before || at == 0) && new[at] != *family {
            faults.invalid("spec.ipFamilies[0]", new, "may not change once set");
        }
    }
}

fn check(faults: &mut Faults, service: &Value) {
    let spec = &service["spec"];
    let kind = text(spec, "type");
    if is_empty(&spec["ports"]) && !is_headless(spec) && kind != "ExternalName" {
        faults.required("spec.ports", "");
    }
    match kind {
        "LoadBalancer" | "NodePort" if is_headless(spec) => {
            let why = format!("may not be set to 'None' for {kind} services");
            faults.invalid_text("spec.clusterIPs[0]", "None", &why);
        }
        "ExternalName" => external_name(faults, spec),
        _ => {}
    }
    ports(faults, spec);
    faults.labels("spec.selector", &spec["selector"]);
    session_affinity(faults, spec);
    if kind != "ExternalName" {
        addresses(faults, spec);
    }
    for (at, ip) in items(&spec["externalIPs"]) {
        faults.address(&format!("spec.externalIPs[{at}]"), ip.as_str().unwrap_or_default());
    }
    faults.one_of("spec.type", &spec["type"], &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]);
    if kind == "ClusterIP" {
        for (at, _) in items(&spec["ports"]).filter(|(_, port)| number(&port["nodePort"]) != 0) {
            let why = "may not be used when `type` is 'ClusterIP'";
            faults.forbidden(&format!("spec.ports[{at}].nodePort"), why);
        }
    }
    repeated_ports(faults, spec);
    balancing(faults, spec, kind);
    traffic(faults, spec, kind);
}

fn external_name(faults: &mut Faults, spec: &Value) {
    for (field, is_set) in [
        ("clusterIPs", !is_empty(&spec["clusterIPs"])),
        ("ipFamilies", !is_empty(&spec["ipFamilies"])),
        ("ipFamilyPolicy", !spec["ipFamilyPolicy"].is_null()),
    ] {
        if is_set {
            faults.forbidden(&format!("spec.{field}"), "may not be set for ExternalName services");
        }
    }
    let name = text(spec, "externalName");
    match name.strip_suffix('.').unwrap_or(name) {
        "" => faults.required("spec.externalName", ""),
        name => faults.dns_subdomain("spec.externalName", name),
    }
}

fn ports(faults: &mut Faults, spec: &Value) {
    let are_many = items(&spec["ports"]).count() > 1;
    let mut names: Vec<&str> = Vec::new();
    for (at, of_service) in items(&spec["ports"]) {
        let path = format!("spec.ports[{at}]");
        let (field, name) = (format!("{path}.name"), text(of_service, "name"));
        if !name.is_empty() {
            faults.dns_label(&field, name);
            if names.contains(&name) {
                faults.duplicate(&field, &json!(name));
            }
            names.push(name);
        } else if are_many {
            faults.required(&field, "");
        }
        port_number(faults, &format!("{path}.port"), &json!(number(&of_service["port"])));
        faults.one_of(&format!("{path}.protocol"), &of_service["protocol"], &["SCTP", "TCP", "UDP"]);
        port(faults, &format!("{path}.targetPort"), &of_service["targetPort"]);
        if let Some(protocol) = of_service["appProtocol"].as_str() {
            faults.label_name(&format!("{path}.appProtocol"), protocol);
        }
    }
}

fn session_affinity(faults: &mut Faults, spec: &Value) {
    faults.one_of("spec.sessionAffinity", &spec["sessionAffinity"], &["ClientIP", "None"]);
    let seconds = &spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"];
    let is_kept = (1..=AFFINITY_SECONDS_MAX).contains(&number(seconds));
    if spec["sessionAffinity"] == "ClientIP" && !seconds.is_null() && !is_kept {
        let why = format!("must be greater than 0 and less than {AFFINITY_SECONDS_MAX}");
        faults.invalid("spec.sessionAffinityConfig.clientIP.timeoutSeconds", seconds, &why);
    }
}

fn addresses(faults: &mut Faults, spec: &Value) {
    let (ip, ips) = (&spec["clusterIP"], &spec["clusterIPs"]);
    match (text(spec, "clusterIP"), items(ips).next()) {
        ("", Some(_)) => {
            faults.invalid("spec.clusterIPs", ips, "must be empty when `clusterIP` is not specified");
        }
        ("", None) => {}
        (_, None) => faults.required("spec.clusterIPs", ""),
        (_, Some((_, first))) if first != ip => {
            faults.invalid("spec.clusterIPs", ips, "first value must match `clusterIP`");
        }
        _ => {}
    }
    let mut seen: Vec<&Value> = Vec::new();
    for (at, family) in items(&spec["ipFamilies"]) {
        let field = format!("spec.ipFamilies[{at}]");
        if !["IPv4", "IPv6"].iter().any(|known| family == known) {
            faults.not_supported(&field, family, &["IPv4", "IPv6"]);
        }
        if seen.contains(&family) {
            faults.duplicate(&field, family);
        }
        seen.push(family);
    }
    let (policy, known) = (&spec["ipFamilyPolicy"], ["PreferDualStack", "RequireDualStack", "SingleStack"]);
    if !policy.is_null() && !known.iter().any(|known| policy == known) {
        faults.not_supported("spec.ipFamilyPolicy", policy, &known);
    }
    let count = items(ips).count();
    for (at, ip) in items(ips) {
        if at == 0 && ip == "None" {
            if count > 1 {
                faults.invalid("spec.clusterIPs", ips, "'None' must be the first and only value");
            }
            continue;
        }
        faults.address(&format!("spec.clusterIPs[{at}]"), ip.as_str().unwrap_or_default());
    }
    if count > 2 {
        faults.invalid("spec.clusterIPs", ips, "may only hold up to 2 values");
    }
    if is_headless(spec) {
        return;
    }
    for ((at, ip), (_, family)) in items(ips).zip(items(&spec["ipFamilies"])) {
        let Some(parsed) = ip.as_str().and_then(|ip| ip.parse::<IpAddr>().ok()) else { continue };
        let is_other = if parsed.is_ipv6() { family == "IPv4" } else { family == "IPv6" };
        if is_other {
            let family = family.as_str().unwrap_or_default();
            let why = format!("expected an {family} value as indicated by `ipFamilies[{at}]`");
            faults.invalid(&format!("spec.clusterIPs[{at}]"), ip, &why);
        }
    }
}

fn repeated_ports(faults: &mut Faults, spec: &Value) {
    let mut on_nodes: Vec<(&str, i64)> = Vec::new();
    for (at, port) in items(&spec["ports"]).filter(|(_, port)| number(&port["nodePort"]) != 0) {
        let place = (text(port, "protocol"), number(&port["nodePort"]));
        if on_nodes.contains(&place) {
            faults.duplicate(&format!("spec.ports[{at}].nodePort"), &port["nodePort"]);
        }
        on_nodes.push(place);
    }
    let mut served: Vec<(&str, i64)> = Vec::new();
    for (at, port) in items(&spec["ports"]) {
        let (protocol, number) = (text(port, "protocol"), number(&port["port"]));
        if served.contains(&(protocol, number)) {
            let told = format!(
                r#"{{"Name":"","Protocol":{},"AppProtocol":null,"Port":{number},"TargetPort":0,"NodePort":0}}"#,
                json!(protocol)
            );
            faults.duplicate_as_told(&format!("spec.ports[{at}]"), &told, "");
        }
        served.push((protocol, number));
    }
}

fn balancing(faults: &mut Faults, spec: &Value, kind: &str) {
    let is_balanced = kind == "LoadBalancer";
    if !is_empty(&spec["loadBalancerSourceRanges"]) && !is_balanced {
        faults.forbidden("spec.LoadBalancerSourceRanges", FOR_LOAD_BALANCERS);
    }
    if !spec["allocateLoadBalancerNodePorts"].is_null() && !is_balanced {
        faults.forbidden("spec.allocateLoadBalancerNodePorts", FOR_LOAD_BALANCERS);
    }
    match spec["loadBalancerClass"].as_str() {
        Some(class) if is_balanced => faults.label_name("spec.loadBalancerClass", class),
        Some(_) => faults.forbidden("spec.loadBalancerClass", FOR_LOAD_BALANCERS),
        None => {}
    }
}

fn traffic(faults: &mut Faults, spec: &Value, kind: &str) {
    let (field, policy) = ("spec.externalTrafficPolicy", &spec["externalTrafficPolicy"]);
    let is_external =
        matches!(kind, "LoadBalancer" | "NodePort") || kind == "ClusterIP" && !is_empty(&spec["externalIPs"]);
    if is_external {
        faults.one_of(field, policy, &["Cluster", "Local"]);
    } else if !text(spec, "externalTrafficPolicy").is_empty() {
        faults.invalid(field, policy, "may only be set for externally-accessible services");
    }
    let (field, probed) = ("spec.healthCheckNodePort", &spec["healthCheckNodePort"]);
    if number(probed) != 0 && !(kind == "LoadBalancer" && policy == "Local") {
        let why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        faults.invalid(field, probed, why);
    }
    let (policy, known) = (&spec["internalTrafficPolicy"], ["Cluster", "Local"]);
    if !policy.is_null() && !known.iter().any(|known| policy == known) {
        faults.not_supported("spec.internalTrafficPolicy", policy, &known);
    }
    let (share, known) = (&spec["trafficDistribution"], ["PreferClose", "PreferSameZone", "PreferSameNode"]);
    if !share.is_null() && !known.iter().any(|known| share == known) {
        faults.not_supported("spec.trafficDistribution", share, &known);
    }
}
