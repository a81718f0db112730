//! Pods, and the templates of pods.

use super::affinity::{affinity, spread, tolerations};
use super::containers::{amounts_of_pod, containers, images};
use super::faults::{Faults, is_empty, items, number, text};
use super::security;
use super::small::preemption_policy;
use super::volumes::volumes;
use crate::failure::Cause;
use crate::json::{Value, json};
use crate::names::{dns_subdomain_problems, qualified_name_problems, validate_annotations};

/// How many servers of names the libraries of containers ask.
const NAMESERVERS_MAX: usize = 3;

pub(super) fn on_create(faults: &mut Faults, pod: &Value) {
    let spec = &pod["spec"];
    pod_spec(faults, spec, "spec", true);
    images(faults, spec);
    if !text(spec, "nodeName").is_empty() && items(&spec["schedulingGates"]).next().is_some() {
        let why = "cannot be set until all schedulingGates have been cleared";
        faults.forbidden("spec.nodeName", why);
    }
}

pub(super) fn template(faults: &mut Faults, template: &Value, path: &str) {
    faults.labels(&format!("{path}.labels"), &template["metadata"]["labels"]);
    let field = format!("{path}.annotations");
    faults.extend(validate_annotations(&template["metadata"]["annotations"], &field));
    pod_spec(faults, &template["spec"], &format!("{path}.spec"), false);
}

fn pod_spec(faults: &mut Faults, spec: &Value, path: &str, is_of_pod: bool) {
    let at = |field: &str| format!("{path}.{field}");
    let volumes = volumes(faults, &spec["volumes"], &at("volumes"), is_of_pod);
    containers(faults, spec, &volumes, path);
    pod_amounts(faults, spec, &at("resources"));
    if spec["hostNetwork"] == true {
        ports_of_host(faults, spec, &at("containers"), is_of_pod);
    }
    faults.one_of(&at("restartPolicy"), &spec["restartPolicy"], &["Always", "OnFailure", "Never"]);
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    faults.one_of(&at("dnsPolicy"), &spec["dnsPolicy"], &policies);
    faults.labels(&at("nodeSelector"), &spec["nodeSelector"]);
    security::of_pod(faults, spec, &at("securityContext"));
    affinity(faults, &spec["affinity"], &at("affinity"));
    dns(faults, spec, &at("dnsConfig"));
    for (index, gate) in items(&spec["readinessGates"]) {
        let field = format!("{path}.readinessGates[{index}].conditionType");
        faults.label_name(&field, text(gate, "conditionType"));
    }
    gates(faults, &spec["schedulingGates"], &at("schedulingGates"));
    spread(faults, &spec["topologySpreadConstraints"], &at("topologySpreadConstraints"));
    if spec["hostUsers"] == false {
        for (field, told) in [("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
            if spec[field] == true {
                faults.forbidden(&at(told), "when `hostUsers` is false");
            }
        }
    }
    for field in ["serviceAccountName", "nodeName"] {
        subdomain_if_any(faults, &at(field), text(spec, field));
    }
    let deadline = &spec["activeDeadlineSeconds"];
    if !deadline.is_null() && !(1..=i64::from(i32::MAX)).contains(&number(deadline)) {
        faults.invalid(&at("activeDeadlineSeconds"), deadline, "must be between 1 and 2147483647, inclusive");
    }
    for field in ["hostname", "subdomain"] {
        if !text(spec, field).is_empty() {
            faults.dns_label(&at(field), text(spec, field));
        }
    }
    tolerations(faults, &spec["tolerations"], &at("tolerations"));
    for (index, alias) in items(&spec["hostAliases"]) {
        faults.address(&format!("{path}.hostAliases[{index}].ip"), text(alias, "ip"));
        for (of_name, name) in items(&alias["hostnames"]) {
            let field = format!("{path}.hostAliases[{index}].hostnames[{of_name}]");
            faults.dns_subdomain(&field, name.as_str().unwrap_or_default());
        }
    }
    subdomain_if_any(faults, &at("priorityClassName"), text(spec, "priorityClassName"));
    if let Some(class) = spec["runtimeClassName"].as_str() {
        faults.dns_subdomain(&at("runtimeClassName"), class);
    }
    preemption_policy(faults, &at("preemptionPolicy"), &spec["preemptionPolicy"]);
}

/// What a pod asks for as a whole.
fn pod_amounts(faults: &mut Faults, spec: &Value, path: &str) {
    let resources = &spec["resources"];
    if resources.is_null() {
        return;
    }
    if !resources["claims"].is_null() {
        faults.forbidden(&format!("{path}.claims"), "claims may not be set for Resources at pod-level");
    }
    amounts_of_pod(faults, resources, path);
}

/// On its machine's own network a container has the ports that it listens on. Templates get them with their pods.
fn ports_of_host(faults: &mut Faults, spec: &Value, path: &str, is_of_pod: bool) {
    for (of_container, container) in items(&spec["containers"]) {
        for (at, port) in items(&container["ports"]) {
            let (of_host, own) = (number(&port["hostPort"]), number(&port["containerPort"]));
            if (is_of_pod || of_host != 0) && of_host != own {
                let field = format!("{path}[{of_container}].ports[{at}].hostPort");
                let why = "must match `containerPort` when `hostNetwork` is true";
                faults.invalid(&field, &json!(of_host), why);
            }
        }
    }
}

fn dns(faults: &mut Faults, spec: &Value, path: &str) {
    let config = &spec["dnsConfig"];
    let servers = format!("{path}.nameservers");
    if spec["dnsPolicy"] == "None" {
        if config.is_null() {
            return faults.required(path, "must provide `dnsConfig` when `dnsPolicy` is None");
        }
        if is_empty(&config["nameservers"]) {
            let why = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return faults.required(&servers, why);
        }
    }
    if items(&config["nameservers"]).count() > NAMESERVERS_MAX {
        let why = format!("must not have more than {NAMESERVERS_MAX} nameservers");
        faults.invalid(&servers, &config["nameservers"], &why);
    }
    for (at, server) in items(&config["nameservers"]) {
        faults.address(&format!("{servers}[{at}]"), server.as_str().unwrap_or_default());
    }
    for (at, option) in items(&config["options"]) {
        if text(option, "name").is_empty() {
            faults.required(&format!("{path}.options[{at}]"), "must not be empty");
        }
    }
}

fn subdomain_if_any(faults: &mut Faults, field: &str, name: &str) {
    if !name.is_empty() {
        faults.dns_subdomain(field, name);
    }
}

fn gates(faults: &mut Faults, gates: &Value, path: &str) {
    let mut names: Vec<&str> = Vec::new();
    for (at, gate) in items(gates) {
        let (path, name) = (format!("{path}[{at}]"), text(gate, "name"));
        for why in qualified_name_problems(name) {
            faults.invalid_text(&path, name, &why);
        }
        if names.contains(&name) {
            faults.duplicate(&path, &json!(name));
        }
        names.push(name);
    }
}

/// What may be changed of a pod; the server tells the rest as a difference between structures of its own, which
/// the world leaves out.
const ONLY: &str = "pod updates may not change fields other than `spec.containers[*].image`,\
    `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing \
    tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

pub(super) fn on_update(faults: &mut Faults, new: &Value, old: &Value) {
    let (spec, was) = (&new["spec"], &old["spec"]);
    pod_spec(faults, spec, "spec", true);
    images(faults, spec);
    for list in ["containers", "initContainers"] {
        let path = format!("spec.{list}");
        if items(&spec[list]).count() != items(&was[list]).count() {
            faults.forbidden(&path, "pod updates may not add or remove containers");
            return;
        }
        for (at, container) in items(&spec[list]) {
            let image = text(container, "image");
            if image.is_empty() {
                faults.required(&format!("{path}[{at}].image"), "");
            }
            if image.trim() != image {
                let why = "must not have leading or trailing whitespace";
                faults.invalid_text(&format!("{path}[{at}].image"), image, why);
            }
        }
    }
    if !check_deadline(faults, &spec["activeDeadlineSeconds"], &was["activeDeadlineSeconds"]) {
        return;
    }
    only_more_tolerations(faults, &spec["tolerations"], &was["tolerations"]);
    only_fewer_gates(faults, &spec["schedulingGates"], &was["schedulingGates"]);
    if spec == was {
        return;
    }
    let mut rest = spec.clone();
    for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        keep(&mut rest, was, field);
    }
    for list in ["containers", "initContainers"] {
        for (at, container) in items(&was[list]) {
            if let Some(changed) = rest[list].as_array_mut().and_then(|all| all.get_mut(at)) {
                changed["image"] = container["image"].clone();
            }
        }
    }
    if number(&was["terminationGracePeriodSeconds"]) < 0 && rest["terminationGracePeriodSeconds"] == 1 {
        keep(&mut rest, was, "terminationGracePeriodSeconds");
    }
    let is_gated = items(&was["schedulingGates"]).next().is_some();
    if is_gated && rest["nodeSelector"] != was["nodeSelector"] {
        let mut known = was["nodeSelector"].as_object().into_iter().flatten();
        if known.any(|(key, value)| spec["nodeSelector"].get(key) != Some(value)) {
            let why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
            faults.invalid("spec.nodeSelector", &spec["nodeSelector"], why);
        }
        keep(&mut rest, was, "nodeSelector");
    }
    if is_gated && rest["affinity"]["nodeAffinity"] != was["affinity"]["nodeAffinity"] {
        keep(&mut rest, was, "affinity");
    }
    if rest != *was {
        faults.forbidden("spec", ONLY);
    }
}

fn keep(spec: &mut Value, was: &Value, field: &str) {
    if let Some(fields) = spec.as_object_mut() {
        match was.get(field) {
            Some(value) => fields.insert(field, value.clone()),
            None => fields.remove(field),
        };
    }
}

/// A deadline comes once and only gets nearer. Whether the rest is worth a look.
fn check_deadline(faults: &mut Faults, new: &Value, old: &Value) -> bool {
    let field = "spec.activeDeadlineSeconds";
    match (new.as_i64(), old.as_i64()) {
        (Some(new), _) if !(0..=i64::from(i32::MAX)).contains(&new) => {
            faults.invalid(field, &json!(new), "must be between 0 and 2147483647, inclusive");
            false
        }
        (Some(new), Some(old)) if old < new => {
            faults.invalid(field, &json!(new), "must be less than or equal to previous value");
            false
        }
        (None, Some(_)) => {
            faults.invalid(field, new, "must not update from a positive integer to nil value");
            true
        }
        _ => true,
    }
}

fn only_more_tolerations(faults: &mut Faults, new: &Value, old: &Value) {
    let without_time = |toleration: &Value| {
        let mut toleration = toleration.clone();
        if let Some(fields) = toleration.as_object_mut() {
            fields.remove("tolerationSeconds");
        }
        toleration
    };
    let kept: Vec<Value> = items(new).map(|(_, toleration)| without_time(toleration)).collect();
    if items(old).any(|(_, toleration)| !kept.contains(&without_time(toleration))) {
        let why = "existing toleration can not be modified except its tolerationSeconds";
        faults.forbidden("spec.tolerations", why);
        return;
    }
    tolerations(faults, new, "spec.tolerations");
}

fn only_fewer_gates(faults: &mut Faults, new: &Value, old: &Value) {
    let known: Vec<&str> = items(old).map(|(_, gate)| text(gate, "name")).collect();
    for (at, gate) in items(new) {
        let name = text(gate, "name");
        if !known.contains(&name) {
            let why = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            faults.forbidden(&format!("spec.schedulingGates[{at}].name"), &why);
        }
    }
}

pub(super) fn on_status_update(faults: &mut Faults, new: &Value, old: &Value) {
    let (status, was) = (&new["status"], &old["status"]);
    for (at, condition) in items(&status["conditions"]) {
        let kind = text(condition, "type");
        if number(&condition["observedGeneration"]) < 0 {
            let field = format!("status.conditions[{at}].observedGeneration");
            faults.invalid(&field, &condition["observedGeneration"], "must be a non-negative integer");
        }
        if !matches!(kind, "PodScheduled" | "Ready" | "Initialized") {
            faults.label_name(&format!("status.conditions[{at}].Type"), kind);
        }
    }
    let nominated = text(status, "nominatedNodeName");
    if !nominated.is_empty() && nominated != text(was, "nominatedNodeName") {
        let field = "status.nominatedNodeName";
        for why in dns_subdomain_problems(nominated) {
            faults.invalid_text(field, nominated, &why);
        }
        if !text(&old["spec"], "nodeName").is_empty() {
            faults.forbidden(field, "may not be set on pods that are already bound to a node");
        }
    }
    if status["qosClass"] != was["qosClass"] {
        faults.unchanged("status.qosClass", &json!(text(status, "qosClass")), &was["qosClass"]);
    }
}

/// What is wrong with where a pod is to be bound to.
pub(crate) fn binding(binding: &Value) -> Vec<Cause> {
    let mut faults = Faults::default();
    let target = &binding["target"];
    if !matches!(text(target, "kind"), "" | "Node") {
        faults.not_supported("target.kind", &target["kind"], &["Node", "<empty>"]);
    }
    if text(target, "name").is_empty() {
        faults.required("target.name", "");
    }
    faults.found()
}
