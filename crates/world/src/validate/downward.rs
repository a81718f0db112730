//! What containers are told of their pod and of themselves, in files and in their environment.

use super::configs;
use super::faults::{Faults, items, text};
use crate::json::{Value, json};

const IN_VOLUMES: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
const IN_ENVIRONMENT: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// What has a name of its own, whether or not it is told.
const KNOWN: [&str; 6] = [
    "metadata.annotations",
    "metadata.labels",
    "spec.restartPolicy",
    "spec.schedulerName",
    "status.phase",
    "spec.host",
];
const OF_CONTAINERS: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

pub(super) fn of_pod_in_volume(faults: &mut Faults, reference: &Value, path: &str) {
    of_pod(faults, reference, path, &IN_VOLUMES);
}

fn of_pod(faults: &mut Faults, reference: &Value, path: &str, told: &[&str]) {
    for field in ["apiVersion", "fieldPath"] {
        if text(reference, field).is_empty() {
            return faults.required(&format!("{path}.{field}"), "");
        }
    }
    let (version, asked) = (text(reference, "apiVersion"), text(reference, "fieldPath"));
    let field = format!("{path}.fieldPath");
    let unknown = |faults: &mut Faults, why: &str| {
        faults.invalid_text(&field, asked, &format!("error converting fieldPath: {why}"));
    };
    if version != "v1" {
        return unknown(faults, &format!("unsupported pod version: {version}"));
    }
    match subscripted(asked) {
        Some(("metadata.annotations", key)) => faults.label_name(path, &key.to_lowercase()),
        Some(("metadata.labels", key)) => faults.label_name(path, key),
        Some(_) => unknown(faults, &format!("field label does not support subscript: {asked}")),
        None if !IN_ENVIRONMENT.contains(&asked) && !KNOWN.contains(&asked) => {
            unknown(faults, &format!("field label not supported: {asked}"));
        }
        None => {
            let named = if asked == "spec.host" { "spec.nodeName" } else { asked };
            if !told.contains(&named) {
                faults.not_supported(&field, &json!(named), told);
            }
        }
    }
}

/// A map and a key of it: `metadata.labels['app']`.
fn subscripted(path: &str) -> Option<(&str, &str)> {
    path.strip_suffix("']")?.split_once("['").filter(|(map, _)| !map.is_empty())
}

pub(super) fn of_container(faults: &mut Faults, reference: &Value, path: &str, is_in_volume: bool) {
    let (field, resource) = (format!("{path}.resource"), text(reference, "resource"));
    let is_of_pages =
        ["requests.hugepages-", "limits.hugepages-"].iter().any(|prefix| resource.starts_with(prefix));
    if is_in_volume && text(reference, "containerName").is_empty() {
        faults.required(&format!("{path}.containerName"), "");
    } else if resource.is_empty() {
        faults.required(&field, "");
    } else if !OF_CONTAINERS.contains(&resource) && !is_of_pages {
        faults.not_supported(&field, &json!(resource), &OF_CONTAINERS);
    }
    divisor(faults, resource, text(reference, "divisor"), path);
}

fn divisor(faults: &mut Faults, resource: &str, divisor: &str, path: &str) {
    let of_bytes = ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
    let (_, measured) = resource.split_once('.').unwrap_or_default();
    let (allowed, told, named) = match measured {
        "cpu" => (&["1m", "1"][..], "1m and 1".to_owned(), "cpu"),
        "memory" => (&of_bytes[..], of_bytes.join(", "), "memory"),
        "ephemeral-storage" => (&of_bytes[..], of_bytes.join(", "), "local ephemeral storage"),
        pages if pages.starts_with("hugepages-") => (&of_bytes[..], of_bytes.join(", "), "hugepages"),
        _ => return,
    };
    if !matches!(divisor, "" | "0") && !allowed.contains(&divisor) {
        let why = format!("only divisor's values {told} are supported with the {named} resource");
        faults.invalid_text(&format!("{path}.divisor"), resource, &why);
    }
}

/// What is in the environment of a container: single variables, and all that an object has.
pub(super) fn environment(faults: &mut Faults, container: &Value, path: &str) {
    for (at, variable) in items(&container["env"]) {
        let path = format!("{path}.env[{at}]");
        match text(variable, "name") {
            "" => faults.required(&format!("{path}.name"), ""),
            name => variable_name(faults, &format!("{path}.name"), name),
        }
        let from = &variable["valueFrom"];
        if !from.is_null() {
            value_from(faults, from, !text(variable, "value").is_empty(), &format!("{path}.valueFrom"));
        }
    }
    let list = format!("{path}.envFrom");
    for (at, from) in items(&container["envFrom"]) {
        let path = format!("{list}[{at}]");
        if !text(from, "prefix").is_empty() {
            variable_name(faults, &format!("{path}.prefix"), text(from, "prefix"));
        }
        let mut given = 0;
        for kind in ["configMapRef", "secretRef"].into_iter().filter(|kind| !from[*kind].is_null()) {
            given += 1;
            let field = format!("{path}.{kind}.name");
            match text(&from[kind], "name") {
                "" => faults.required(&field, ""),
                // As a prefix of a name, which may end in a dash or a dot.
                name => faults.dns_subdomain(&field, name.strip_suffix('-').unwrap_or(name)),
            }
        }
        match given {
            0 => faults.invalid_text(&list, "", "must specify one of: `configMapRef` or `secretRef`"),
            1 => {}
            _ => faults.invalid_text(&list, "", "may not have more than one field specified at a time"),
        }
    }
}

fn variable_name(faults: &mut Faults, field: &str, name: &str) {
    if !name.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=') {
        let why = "a valid environment variable name must consist only of printable ASCII characters other than '='";
        faults.invalid_text(field, name, why);
    }
}

fn value_from(faults: &mut Faults, from: &Value, has_value: bool, path: &str) {
    let sources = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];
    let given: Vec<&str> = sources.into_iter().filter(|source| !from[*source].is_null()).collect();
    for source in &given {
        let (reference, path) = (&from[*source], format!("{path}.{source}"));
        match *source {
            "fieldRef" => of_pod(faults, reference, &path, &IN_ENVIRONMENT),
            "resourceFieldRef" => of_container(faults, reference, &path, false),
            "configMapKeyRef" | "secretKeyRef" => {
                faults.dns_subdomain(&format!("{path}.name"), text(reference, "name"));
                let field = format!("{path}.key");
                match text(reference, "key") {
                    "" => faults.required(&field, ""),
                    key => configs::check_key(faults, &field, key),
                }
            }
            _ => {}
        }
    }
    match given.len() {
        0 => {
            let why = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or \
                       `fileKeyRef`";
            faults.invalid_text(path, "", why);
        }
        _ if has_value => faults.invalid_text(path, "", "may not be specified when `value` is not empty"),
        1 => {}
        _ => faults.invalid_text(path, "", "may not have more than one field specified at a time"),
    }
}
