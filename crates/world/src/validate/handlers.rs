//! What kubelets do to containers: probes, and what is run at their begin and end.

use super::faults::{Faults, is_empty, items, number, text};
use super::networking::{port_name, port_number};
use crate::json::{Value, json};

pub(super) fn probes(faults: &mut Faults, container: &Value, path: &str) {
    for field in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = &container[field];
        if probe.is_null() {
            continue;
        }
        let path = format!("{path}.{field}");
        handler(faults, probe, &["exec", "httpGet", "tcpSocket", "grpc"], 0, &path);
        for number in
            ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
        {
            faults.not_negative(&format!("{path}.{number}"), &probe[number]);
        }
        let grace = &probe["terminationGracePeriodSeconds"];
        let of_grace = format!("{path}.terminationGracePeriodSeconds");
        if !grace.is_null() && number(grace) <= 0 {
            faults.invalid(&of_grace, grace, "must be greater than 0");
        }
        if field == "readinessProbe" {
            if !grace.is_null() {
                faults.invalid(&of_grace, grace, "must not be set for readinessProbes");
            }
        } else if number(&probe["successThreshold"]) != 1 {
            faults.invalid(&format!("{path}.successThreshold"), &probe["successThreshold"], "must be 1");
        }
    }
}

pub(super) fn lifecycle(faults: &mut Faults, lifecycle: &Value, grace: i64, path: &str) {
    for field in ["postStart", "preStop"] {
        if !lifecycle[field].is_null() {
            let kinds = ["exec", "httpGet", "tcpSocket", "sleep"];
            handler(faults, &lifecycle[field], &kinds, grace, &format!("{path}.{field}"));
        }
    }
}

fn handler(faults: &mut Faults, handler: &Value, kinds: &[&str], grace: i64, path: &str) {
    let mut given = kinds.iter().filter(|kind| !handler[**kind].is_null());
    let Some(kind) = given.next() else {
        return faults.required(path, "must specify a handler type");
    };
    only_handler(faults, kind, &handler[*kind], grace, &format!("{path}.{kind}"));
    for more in given {
        faults.forbidden(&format!("{path}.{more}"), "may not specify more than 1 handler type");
    }
}

fn only_handler(faults: &mut Faults, kind: &str, handler: &Value, grace: i64, path: &str) {
    match kind {
        "exec" => {
            if is_empty(&handler["command"]) {
                faults.required(&format!("{path}.command"), "");
            }
        }
        "httpGet" => {
            if text(handler, "path").is_empty() {
                faults.required(&format!("{path}.path"), "");
            }
            port(faults, &format!("{path}.port"), &handler["port"]);
            let schemes = ["HTTP", "HTTPS"];
            if !schemes.contains(&text(handler, "scheme")) {
                faults.not_supported(&format!("{path}.scheme"), &handler["scheme"], &schemes);
            }
            for (_, header) in items(&handler["httpHeaders"]) {
                header_name(faults, &format!("{path}.httpHeaders"), text(header, "name"));
            }
        }
        "sleep" => {
            let seconds = number(&handler["seconds"]);
            if !(0..=grace).contains(&seconds) {
                let why =
                    format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
                faults.invalid(path, &json!(seconds), &why);
            }
        }
        _ => port(faults, &format!("{path}.port"), &handler["port"]),
    }
}

/// The number of a port, or a name that a port has.
pub(super) fn port(faults: &mut Faults, field: &str, port: &Value) {
    match port.as_str() {
        Some(name) => port_name(faults, field, name),
        None => port_number(faults, field, &json!(number(port))),
    }
}

fn header_name(faults: &mut Faults, field: &str, name: &str) {
    if name.is_empty() || !name.bytes().all(|byte| byte == b'-' || byte.is_ascii_alphanumeric()) {
        let why = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex \
                   used for validation is '[-A-Za-z0-9]+')";
        faults.invalid_text(field, name, why);
    }
}
