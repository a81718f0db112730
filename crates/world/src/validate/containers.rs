//! Containers, and how much of what they ask for.

use berth_core::units::Quantity;

use super::downward::environment;
use super::faults::{Faults, is_empty, items, number, text};
use super::handlers::{lifecycle, probes};
use super::mounts::{devices, mounts};
use super::networking::port_name;
use super::security;
use super::volumes::Volumes;
use crate::json::{Value, json};
use crate::names::qualified_name_problems;

pub(super) fn containers(faults: &mut Faults, spec: &Value, volumes: &Volumes<'_>, path: &str) {
    let field = format!("{path}.containers");
    if is_empty(&spec["containers"]) {
        faults.required(&field, "");
        return init_containers(faults, spec, volumes, path);
    }
    let mut names: Vec<&str> = Vec::new();
    for (at, container) in items(&spec["containers"]) {
        let path = format!("{field}[{at}]");
        any_container(faults, spec, container, volumes, &path);
        let name = text(container, "name");
        if names.contains(&name) {
            faults.duplicate(&format!("{path}.name"), &json!(name));
        }
        names.push(name);
        lifecycle(faults, &container["lifecycle"], grace(spec), &format!("{path}.lifecycle"));
        probes(faults, container, &path);
        restarts(faults, container, &path);
    }
    host_ports(faults, items(&spec["containers"]), &field);
    init_containers(faults, spec, volumes, path);
}

fn grace(spec: &Value) -> i64 {
    number(&spec["terminationGracePeriodSeconds"])
}

fn init_containers(faults: &mut Faults, spec: &Value, volumes: &Volumes<'_>, path: &str) {
    let mut names: Vec<&str> = items(&spec["containers"]).map(|(_, one)| text(one, "name")).collect();
    let field = format!("{path}.initContainers");
    for (at, container) in items(&spec["initContainers"]) {
        let path = format!("{field}[{at}]");
        any_container(faults, spec, container, volumes, &path);
        restarts(faults, container, &path);
        let name = text(container, "name");
        if names.contains(&name) {
            faults.duplicate(&format!("{path}.name"), &json!(name));
        } else if !name.is_empty() {
            names.push(name);
        }
        // One runs after the other, so that each has the ports for itself.
        host_ports(faults, [(0, container)].into_iter(), &field);
        if text(container, "restartPolicy") == "Always" {
            lifecycle(faults, &container["lifecycle"], grace(spec), &format!("{path}.lifecycle"));
            probes(faults, container, &path);
            continue;
        }
        for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if !container[field].is_null() {
                let why = "may not be set for init containers without restartPolicy=Always";
                faults.forbidden(&format!("{path}.{field}"), why);
            }
        }
    }
}

/// When a container begins again by a rule of its own.
fn restarts(faults: &mut Faults, container: &Value, path: &str) {
    let (field, policy) = (format!("{path}.restartPolicy"), &container["restartPolicy"]);
    let policies = ["Always", "Never", "OnFailure"];
    if policy.is_null() {
        if !is_empty(&container["restartPolicyRules"]) {
            faults.required(&field, "must specify restartPolicy when restart rules are used");
        }
    } else if !policies.iter().any(|known| policy == known) {
        faults.not_supported(&field, policy, &policies);
    }
}

fn host_ports<'a>(faults: &mut Faults, containers: impl Iterator<Item = (usize, &'a Value)>, path: &str) {
    let mut taken: Vec<String> = Vec::new();
    for (of_container, container) in containers {
        for (at, port) in items(&container["ports"]).filter(|(_, port)| number(&port["hostPort"]) != 0) {
            let (protocol, address) = (text(port, "protocol"), text(port, "hostIP"));
            let place = format!("{protocol}/{address}/{}", number(&port["hostPort"]));
            if taken.contains(&place) {
                faults.duplicate(&format!("{path}[{of_container}].ports[{at}].hostPort"), &json!(place));
            } else {
                taken.push(place);
            }
        }
    }
}

fn any_container(faults: &mut Faults, spec: &Value, container: &Value, volumes: &Volumes<'_>, path: &str) {
    let name = text(container, "name");
    if name.is_empty() {
        faults.required(&format!("{path}.name"), "");
    } else {
        faults.dns_label(&format!("{path}.name"), name);
    }
    if text(container, "image").is_empty() {
        faults.required(&format!("{path}.image"), "");
    }
    let policies = ["File", "FallbackToLogsOnError"];
    faults.one_of(
        &format!("{path}.terminationMessagePolicy"),
        &container["terminationMessagePolicy"],
        &policies,
    );
    ports(faults, &container["ports"], &format!("{path}.ports"));
    environment(faults, container, path);
    mounts(faults, container, volumes, path);
    devices(faults, container, volumes, path);
    let policies = ["Always", "IfNotPresent", "Never"];
    faults.one_of(&format!("{path}.imagePullPolicy"), &container["imagePullPolicy"], &policies);
    amounts(faults, &container["resources"], &format!("{path}.resources"));
    let shares_users = spec["hostUsers"] != false;
    let field = format!("{path}.securityContext");
    security::of_container(faults, &container["securityContext"], shares_users, &field);
}

fn ports(faults: &mut Faults, ports: &Value, path: &str) {
    let mut names: Vec<&str> = Vec::new();
    let in_range = |port: i64| (1..=65535).contains(&port);
    let out_of_range = "must be between 1 and 65535, inclusive";
    for (at, port) in items(ports) {
        let path = format!("{path}[{at}]");
        let (field, name) = (format!("{path}.name"), text(port, "name"));
        if names.contains(&name) {
            faults.duplicate(&field, &json!(name));
        } else if !name.is_empty() {
            let mut of_name = Faults::default();
            port_name(&mut of_name, &field, name);
            let found = of_name.found();
            if found.is_empty() {
                names.push(name);
            }
            faults.extend(found);
        }
        let container_port = &port["containerPort"];
        if number(container_port) == 0 {
            faults.required(&format!("{path}.containerPort"), "");
        } else if !in_range(number(container_port)) {
            faults.invalid(&format!("{path}.containerPort"), container_port, out_of_range);
        }
        let host_port = &port["hostPort"];
        if number(host_port) != 0 && !in_range(number(host_port)) {
            faults.invalid(&format!("{path}.hostPort"), host_port, out_of_range);
        }
        faults.one_of(&format!("{path}.protocol"), &port["protocol"], &["SCTP", "TCP", "UDP"]);
    }
}

pub(super) fn amounts(faults: &mut Faults, resources: &Value, path: &str) {
    amounts_of(faults, resources, path, resource_name);
}

pub(super) fn amounts_of_pod(faults: &mut Faults, resources: &Value, path: &str) {
    amounts_of(faults, resources, path, |faults, field, resource| {
        if !matches!(resource, "cpu" | "memory") && !is_huge_pages(resource) {
            faults.not_supported(field, &json!(resource), &["cpu", "hugepages-", "memory"]);
        }
    });
}

/// Limits first, then what is requested under them.
fn amounts_of(
    faults: &mut Faults,
    resources: &Value,
    path: &str,
    check_name: impl Fn(&mut Faults, &str, &str),
) {
    let entries = |list: &str| resources[list].as_object().into_iter().flatten();
    for (resource, amount) in entries("limits") {
        let field = format!("{path}.limits[{resource}]");
        check_name(faults, &field, resource);
        check_amount(faults, &field, resource, amount);
    }
    for (resource, amount) in entries("requests") {
        let field = format!("{path}.requests[{resource}]");
        check_name(faults, &field, resource);
        check_amount(faults, &field, resource, amount);
        let requests = format!("{path}.requests");
        match resources["limits"].get(resource) {
            Some(limit) => {
                let (Some(asked), Some(limited)) = (parse(amount), parse(limit)) else { continue };
                let of = format!("{resource} limit of {}", limit.as_str().unwrap_or_default());
                if asked != limited && !may_be_overcommitted(resource) {
                    faults.invalid(&requests, amount, &format!("must be equal to {of}"));
                } else if asked > limited {
                    faults.invalid(&requests, amount, &format!("must be less than or equal to {of}"));
                }
            }
            None if !may_be_overcommitted(resource) => {
                let why = "Limit must be set for non overcommitable resources";
                faults.required(&format!("{path}.limits"), why);
            }
            None => {}
        }
    }
}

/// An amount is not negative, and whole where halves make no sense.
pub(super) fn check_amount(faults: &mut Faults, field: &str, resource: &str, amount: &Value) {
    let Some(parsed) = parse(amount) else { return };
    if parsed.is_negative() {
        faults.invalid(field, amount, "must be greater than or equal to 0");
    }
    if is_counted(resource) && parsed.milli_ceil() % 1000 != 0 {
        faults.invalid(field, amount, "must be an integer");
    }
}

pub(super) fn parse(amount: &Value) -> Option<Quantity> {
    amount.as_str()?.parse().ok()
}

const OF_CONTAINERS: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
const STANDARD: [&str; 18] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "requests.storage",
];

fn is_huge_pages(resource: &str) -> bool {
    resource.starts_with("hugepages-")
}

fn resource_name(faults: &mut Faults, field: &str, resource: &str) {
    let problems = qualified_name_problems(resource);
    for why in &problems {
        faults.invalid_text(field, resource, why);
    }
    let is_qualified = resource.contains('/');
    if problems.is_empty() && !is_qualified && !STANDARD.contains(&resource) && !is_huge_pages(resource) {
        faults.invalid_text(field, resource, "must be a standard resource type or fully qualified");
    }
    if !is_qualified && !OF_CONTAINERS.contains(&resource) && !is_huge_pages(resource) {
        faults.invalid_text(field, resource, "must be a standard resource for containers");
    } else if is_qualified && !is_native(resource) && !is_extended(resource) {
        faults.invalid_text(field, resource, "doesn't follow extended resource name standard");
    }
}

fn is_native(resource: &str) -> bool {
    !resource.contains('/') || resource.contains("kubernetes.io/")
}

fn is_extended(resource: &str) -> bool {
    !is_native(resource)
        && !resource.starts_with("requests.")
        && qualified_name_problems(&format!("requests.{resource}")).is_empty()
}

fn may_be_overcommitted(resource: &str) -> bool {
    is_native(resource) && !is_huge_pages(resource)
}

/// Resources that are counted, not measured.
fn is_counted(resource: &str) -> bool {
    matches!(
        resource,
        "pods"
            | "resourcequotas"
            | "services"
            | "replicationcontrollers"
            | "secrets"
            | "configmaps"
            | "persistentvolumeclaims"
            | "services.nodeports"
            | "services.loadbalancers"
    ) || is_extended(resource)
}

/// Only of pods, not of templates.
pub(super) fn images(faults: &mut Faults, spec: &Value) {
    for list in ["containers", "initContainers"] {
        for (at, container) in items(&spec[list]) {
            let image = text(container, "image");
            if image.trim() != image {
                let why = "must not have leading or trailing whitespace";
                faults.invalid_text(&format!("spec.{list}[{at}].image"), image, why);
            }
        }
    }
}
