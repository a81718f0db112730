//! Containers, and how much of what they ask for.

use berth_core::units::Quantity;

use super::faults::{Faults, is_empty, items, number, text};
use crate::json::{Value, json};
use crate::names::{dns_label_problems, qualified_name_problems};

pub(super) fn containers(faults: &mut Faults, spec: &Value, path: &str) {
    let field = format!("{path}.containers");
    if is_empty(&spec["containers"]) {
        faults.required(&field, "");
        return init_containers(faults, spec, path);
    }
    let mut names: Vec<&str> = Vec::new();
    for (at, container) in items(&spec["containers"]) {
        let path = format!("{field}[{at}]");
        any_container(faults, container, &path);
        let name = text(container, "name");
        if names.contains(&name) {
            faults.duplicate(&format!("{path}.name"), &json!(name));
        }
        names.push(name);
        probes(faults, container, &path);
    }
    init_containers(faults, spec, path);
}

fn init_containers(faults: &mut Faults, spec: &Value, path: &str) {
    let mut names: Vec<&str> = items(&spec["containers"]).map(|(_, one)| text(one, "name")).collect();
    for (at, container) in items(&spec["initContainers"]) {
        let path = format!("{path}.initContainers[{at}]");
        any_container(faults, container, &path);
        let name = text(container, "name");
        if names.contains(&name) {
            faults.duplicate(&format!("{path}.name"), &json!(name));
        } else if !name.is_empty() {
            names.push(name);
        }
        if text(container, "restartPolicy") == "Always" {
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

fn any_container(faults: &mut Faults, container: &Value, path: &str) {
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
    for (at, variable) in items(&container["env"]) {
        if text(variable, "name").is_empty() {
            faults.required(&format!("{path}.env[{at}].name"), "");
        }
    }
    let policies = ["Always", "IfNotPresent", "Never"];
    faults.one_of(&format!("{path}.imagePullPolicy"), &container["imagePullPolicy"], &policies);
    amounts(faults, &container["resources"], &format!("{path}.resources"));
}

fn ports(faults: &mut Faults, ports: &Value, path: &str) {
    let mut names: Vec<&str> = Vec::new();
    let in_range = |port: i64| (1..=65535).contains(&port);
    let out_of_range = "must be between 1 and 65535, inclusive";
    for (at, port) in items(ports) {
        let path = format!("{path}[{at}]");
        let name = text(port, "name");
        if names.contains(&name) {
            faults.duplicate(&format!("{path}.name"), &json!(name));
        } else if !name.is_empty() {
            names.push(name);
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

fn probes(faults: &mut Faults, container: &Value, path: &str) {
    for field in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = &container[field];
        if probe.is_null() {
            continue;
        }
        let path = format!("{path}.{field}");
        let handlers = ["exec", "httpGet", "tcpSocket", "grpc"];
        match handlers.iter().filter(|handler| !probe[**handler].is_null()).count() {
            0 => faults.required(&path, "must specify a handler type"),
            1 => {}
            _ => faults.forbidden(&path, "may not specify more than 1 handler type"),
        }
        for number in
            ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
        {
            faults.not_negative(&format!("{path}.{number}"), &probe[number]);
        }
        if field != "readinessProbe" && number(&probe["successThreshold"]) > 1 {
            faults.invalid(&format!("{path}.successThreshold"), &probe["successThreshold"], "must be 1");
        }
    }
}

/// Limits first, then what is requested under them.
pub(super) fn amounts(faults: &mut Faults, resources: &Value, path: &str) {
    let entries = |list: &str| resources[list].as_object().into_iter().flatten();
    for (resource, amount) in entries("limits") {
        let field = format!("{path}.limits[{resource}]");
        resource_name(faults, &field, resource);
        check_amount(faults, &field, resource, amount);
    }
    for (resource, amount) in entries("requests") {
        let field = format!("{path}.requests[{resource}]");
        resource_name(faults, &field, resource);
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

fn parse(amount: &Value) -> Option<Quantity> {
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

/// Names and kinds of volumes.
pub(super) fn volumes(faults: &mut Faults, volumes: &Value, path: &str) {
    let mut names: Vec<&str> = Vec::new();
    for (at, volume) in items(volumes) {
        let path = format!("{path}[{at}]");
        let sources =
            volume.as_object().map_or(0, |fields| fields.keys().filter(|key| *key != "name").count());
        if sources == 0 {
            faults.required(&path, "must specify a volume type");
        }
        let name = text(volume, "name");
        let problems = dns_label_problems(name);
        if name.is_empty() {
            faults.required(&format!("{path}.name"), "");
        } else if problems.is_empty() && names.contains(&name) {
            faults.duplicate(&format!("{path}.name"), &json!(name));
        } else {
            for why in problems {
                faults.invalid_text(&format!("{path}.name"), name, &why);
            }
        }
        names.push(name);
    }
}
