//! Ingresses and their classes.

use std::net::IpAddr;

use super::faults::{Faults, is_empty, items, number, text};
use super::network_policy;
use crate::json::Value;
use crate::names::{self, NameRule};

/// The class of an ingress, before there was a field for it.
const OLD_CLASS: &str = "kubernetes.io/ingress.class";
const CONTROLLER_BYTES_MAX: usize = 250;
const PORT_OUT_OF_RANGE: &str = "must be between 1 and 65535, inclusive";

pub(super) fn on_create(faults: &mut Faults, kind: &str, object: &Value) {
    match kind {
        "Ingress" => {
            ingress(faults, &object["spec"]);
            let (old, class) =
                (&object["metadata"]["annotations"][OLD_CLASS], &object["spec"]["ingressClassName"]);
            if !old.is_null() && !class.is_null() && old != class {
                let why = "must match `ingressClassName` when both are specified";
                faults.invalid(&format!("annotations.{OLD_CLASS}"), old, why);
            }
        }
        "IngressClass" => class(faults, &object["spec"]),
        _ => network_policy::spec(faults, &object["spec"], &[]),
    }
}

/// What is said of a new ingress that names its class as it was done before there was a field for it.
pub(crate) fn warning(ingress: &Value) -> Option<String> {
    let is_old = !ingress["metadata"]["annotations"][OLD_CLASS].is_null();
    (is_old && ingress["spec"]["ingressClassName"].is_null()).then(|| {
        format!("annotation {OLD_CLASS:?} is deprecated, please use 'spec.ingressClassName' instead")
    })
}

pub(super) fn on_update(faults: &mut Faults, kind: &str, new: &Value, old: &Value) {
    match kind {
        "Ingress" => {
            faults.metadata_once_more();
            ingress(faults, &new["spec"]);
        }
        "IngressClass" => {
            faults.unchanged("spec.controller", &new["spec"]["controller"], &old["spec"]["controller"]);
            faults.metadata_once_more();
            class(faults, &new["spec"]);
        }
        _ => network_policy::spec(faults, &new["spec"], &network_policy::networks(&old["spec"])),
    }
}

pub(super) fn on_status_update(faults: &mut Faults, kind: &str, new: &Value) {
    if kind != "Ingress" {
        return;
    }
    for (at, point) in items(&new["status"]["loadBalancer"]["ingress"]) {
        let path = format!("status.loadBalancer.ingress[{at}]");
        let (ip, host) = (text(point, "ip"), text(point, "hostname"));
        if !ip.is_empty() && ip.parse::<IpAddr>().is_err() {
            let why = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
            faults.invalid_text(&format!("{path}.ip"), ip, why);
        }
        if !host.is_empty() {
            let field = format!("{path}.hostname");
            faults.dns_subdomain(&field, host);
            no_address(faults, &field, host);
        }
    }
}

fn no_address(faults: &mut Faults, field: &str, host: &str) {
    if host.parse::<IpAddr>().is_ok() {
        faults.invalid_text(field, host, "must be a DNS name, not an IP address");
    }
}

fn ingress(faults: &mut Faults, spec: &Value) {
    if is_empty(&spec["rules"]) && spec["defaultBackend"].is_null() {
        faults.invalid("spec", &spec["rules"], "either `defaultBackend` or `rules` must be specified");
    }
    if !spec["defaultBackend"].is_null() {
        backend(faults, "spec.defaultBackend", &spec["defaultBackend"]);
    }
    for (at, rule) in items(&spec["rules"]) {
        let path = format!("spec.rules[{at}]");
        let of_rule = text(rule, "host");
        if !of_rule.is_empty() {
            let field = format!("{path}.host");
            no_address(faults, &field, of_rule);
            host(faults, &field, of_rule);
        }
        paths(faults, &format!("{path}.http.paths"), &rule["http"]);
    }
    for (at, tls) in items(&spec["tls"]) {
        let path = format!("spec.tls[{at}]");
        for (at, of_tls) in items(&tls["hosts"]) {
            host(faults, &format!("{path}.hosts[{at}]"), of_tls.as_str().unwrap_or_default());
        }
        let secret = text(tls, "secretName");
        if !secret.is_empty() {
            faults.dns_subdomain(&format!("{path}.secretName"), secret);
        }
    }
    if let Some(class) = spec["ingressClassName"].as_str() {
        faults.dns_subdomain("spec.ingressClassName", class);
    }
}

fn host(faults: &mut Faults, field: &str, host: &str) {
    if host.contains('*') {
        for why in names::wildcard_problems(host) {
            faults.invalid_text(field, host, &why);
        }
    } else {
        faults.dns_subdomain(field, host);
    }
}

fn paths(faults: &mut Faults, field: &str, http: &Value) {
    if http.is_null() {
        return;
    }
    if is_empty(&http["paths"]) {
        faults.required(field, "");
    }
    for (at, of_path) in items(&http["paths"]) {
        path(faults, &format!("{field}[{at}]"), of_path);
    }
}

fn path(faults: &mut Faults, at: &str, of_path: &Value) {
    let kind = &of_path["pathType"];
    if kind.is_null() {
        return faults.required(&format!("{at}.pathType"), "pathType must be specified");
    }
    let (field, path) = (format!("{at}.path"), text(of_path, "path"));
    let is_absolute = path.starts_with('/');
    match kind.as_str().unwrap_or_default() {
        "Exact" | "Prefix" => {
            if !is_absolute {
                faults.invalid_text(&field, path, "must be an absolute path");
            }
            for part in ["//", "/./", "/../", "%2f", "%2F"].iter().filter(|part| path.contains(**part)) {
                faults.invalid_text(&field, path, &format!("must not contain '{part}'"));
            }
            for end in ["/..", "/."].iter().filter(|end| path.ends_with(**end)) {
                faults.invalid_text(&field, path, &format!("cannot end with '{end}'"));
            }
        }
        "ImplementationSpecific" => {
            if !path.is_empty() && !is_absolute {
                faults.invalid_text(&field, path, "must be an absolute path");
            }
        }
        _ => {
            let known = ["Exact", "ImplementationSpecific", "Prefix"];
            faults.not_supported(&format!("{at}.pathType"), kind, &known);
        }
    }
    backend(faults, &format!("{at}.backend"), &of_path["backend"]);
}

fn backend(faults: &mut Faults, field: &str, backend: &Value) {
    let (resource, service) = (&backend["resource"], &backend["service"]);
    match (resource.is_null(), service.is_null()) {
        (false, false) => faults.invalid_text(field, "", "cannot set both resource and service backends"),
        (false, true) => reference(faults, &format!("{field}.resource"), resource),
        (true, false) => of_service(faults, field, service),
        (true, true) => faults.invalid_text(field, "", "resource or service backend is required"),
    }
}

fn of_service(faults: &mut Faults, field: &str, service: &Value) {
    let name = text(service, "name");
    if name.is_empty() {
        faults.required(&format!("{field}.service.name"), "");
    } else {
        faults.dns_label(&format!("{field}.service.name"), name);
    }
    let (name, of_port) = (text(&service["port"], "name"), &service["port"]["number"]);
    match (name, number(of_port)) {
        ("", 0) => faults.required(field, "port name or number is required"),
        ("", _) => port_number(faults, &format!("{field}.service.port.number"), of_port),
        (_, 0) => port_name(faults, &format!("{field}.service.port.name"), name),
        _ => faults.invalid_text(field, "", "cannot set both port name & port number"),
    }
}

pub(super) fn port_number(faults: &mut Faults, field: &str, port: &Value) {
    if !(1..=65535).contains(&number(port)) {
        faults.invalid(field, port, PORT_OUT_OF_RANGE);
    }
}

pub(super) fn port_name(faults: &mut Faults, field: &str, name: &str) {
    let is_letter = |byte: u8| byte.is_ascii_lowercase();
    let is_known = |byte: u8| is_letter(byte) || byte.is_ascii_digit() || byte == b'-';
    let problems = [
        (name.len() > 15, "must be no more than 15 characters"),
        (
            name.is_empty() || !name.bytes().all(is_known),
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
        ),
        (!name.bytes().any(is_letter), "must contain at least one letter (a-z)"),
        (name.contains("--"), "must not contain consecutive hyphens"),
        (name.starts_with('-') || name.ends_with('-'), "must not begin or end with a hyphen"),
    ];
    for (_, why) in problems.iter().filter(|(is_so, _)| *is_so) {
        faults.invalid_text(field, name, why);
    }
}

/// What names an object of any kind.
fn reference(faults: &mut Faults, path: &str, object: &Value) {
    if let Some(group) = object["apiGroup"].as_str() {
        faults.dns_subdomain(&format!("{path}.apiGroup"), group);
    }
    for field in ["kind", "name"] {
        let (at, word) = (format!("{path}.{field}"), text(object, field));
        if word.is_empty() {
            faults.required(&at, "");
        }
        for why in NameRule::PathSegment.problems(word) {
            faults.invalid_text(&at, word, &why);
        }
    }
}

fn class(faults: &mut Faults, spec: &Value) {
    let controller = text(spec, "controller");
    if controller.len() > CONTROLLER_BYTES_MAX {
        faults.too_long("spec.controller", CONTROLLER_BYTES_MAX);
    }
    domain_prefixed(faults, "spec.controller", controller);
    let parameters = &spec["parameters"];
    if parameters.is_null() {
        return;
    }
    reference(faults, "spec.parameters", parameters);
    let (namespace, scope) = (&parameters["namespace"], &parameters["scope"]);
    let field = "spec.parameters.namespace";
    match (scope.as_str().unwrap_or_default(), namespace.as_str()) {
        ("Namespace", None) => faults.required(field, "`parameters.scope` is set to 'Namespace'"),
        ("Namespace", Some(namespace)) => faults.dns_label(field, namespace),
        ("Cluster", Some(_)) => faults.forbidden(field, "`parameters.scope` is set to 'Cluster'"),
        ("Cluster", None) => {}
        _ => faults.not_supported("spec.parameters.scope", scope, &["Cluster", "Namespace"]),
    }
}

fn domain_prefixed(faults: &mut Faults, field: &str, path: &str) {
    match path.split_once('/') {
        _ if path.is_empty() => faults.required(field, ""),
        Some((domain, rest)) if !domain.is_empty() && !rest.is_empty() => {
            faults.dns_subdomain(field, domain);
            let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte);
            if !rest.bytes().all(is_known) {
                let why = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
                faults.invalid_text(field, rest, why);
            }
        }
        _ => faults.invalid_text(field, path, "must be a domain-prefixed path (such as \"acme.io/foo\")"),
    }
}
