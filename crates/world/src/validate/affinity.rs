//! Where pods may and would rather be: affinity, tolerations and spread.

use super::faults::{Faults, is_empty, items, number, text};
use super::node::EFFECTS;
use crate::json::{Value, json};
use crate::names::{dns_label_problems, dns_subdomain_problems, label_value_problems};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const OUT_OF_RANGE: &str = "must be in the range 1-100";

pub(super) fn affinity(faults: &mut Faults, affinity: &Value, path: &str) {
    let of_nodes = &affinity["nodeAffinity"];
    if !of_nodes[REQUIRED].is_null() {
        let path = format!("{path}.nodeAffinity.{REQUIRED}.nodeSelectorTerms");
        let terms = &of_nodes[REQUIRED]["nodeSelectorTerms"];
        if is_empty(terms) {
            faults.required(&path, "must have at least one node selector term");
        }
        for (at, term) in items(terms) {
            node_term(faults, term, &format!("{path}[{at}]"), true);
        }
    }
    for (at, preferred) in items(&of_nodes[PREFERRED]) {
        let path = format!("{path}.nodeAffinity.{PREFERRED}[{at}]");
        weight(faults, &preferred["weight"], &path);
        node_term(faults, &preferred["preference"], &format!("{path}.preference"), false);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        for (at, term) in items(&affinity[kind][REQUIRED]) {
            pod_term(faults, term, &format!("{path}.{kind}.{REQUIRED}[{at}]"));
        }
        for (at, preferred) in items(&affinity[kind][PREFERRED]) {
            let path = format!("{path}.{kind}.{PREFERRED}[{at}]");
            weight(faults, &preferred["weight"], &path);
            pod_term(faults, &preferred["podAffinityTerm"], &format!("{path}.podAffinityTerm"));
        }
    }
}

fn weight(faults: &mut Faults, weight: &Value, path: &str) {
    if !(1..=100).contains(&number(weight)) {
        faults.invalid(&format!("{path}.weight"), &json!(number(weight)), OUT_OF_RANGE);
    }
}

fn node_term(faults: &mut Faults, term: &Value, path: &str, checks_values: bool) {
    for (at, requirement) in items(&term["matchExpressions"]) {
        let path = format!("{path}.matchExpressions[{at}]");
        let values = requirement["values"].as_array().map_or(&[][..], Vec::as_slice);
        let field = format!("{path}.values");
        match text(requirement, "operator") {
            "In" | "NotIn" => {
                if values.is_empty() {
                    faults.required(&field, "must be specified when `operator` is 'In' or 'NotIn'");
                }
            }
            "Exists" | "DoesNotExist" => {
                if !values.is_empty() {
                    let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                    faults.forbidden(&field, why);
                }
            }
            "Gt" | "Lt" => {
                if values.len() != 1 {
                    let why = "must be specified single value when `operator` is 'Lt' or 'Gt'";
                    faults.required(&field, why);
                }
            }
            other => {
                faults.invalid_text(&format!("{path}.operator"), other, "not a valid selector operator");
            }
        }
        faults.label_name(&format!("{path}.key"), text(requirement, "key"));
        for (at, value) in values.iter().enumerate().filter(|_| checks_values) {
            faults.label_value(&format!("{path}.values[{at}]"), value.as_str().unwrap_or_default());
        }
    }
    for (at, requirement) in items(&term["matchFields"]) {
        let path = format!("{path}.matchFields[{at}]");
        let values = requirement["values"].as_array().map_or(&[][..], Vec::as_slice);
        match text(requirement, "operator") {
            "In" | "NotIn" => {
                if values.len() != 1 {
                    let why =
                        "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
                    faults.required(&format!("{path}.values"), why);
                }
            }
            other => {
                faults.invalid_text(&format!("{path}.operator"), other, "not a valid selector operator");
            }
        }
        let key = text(requirement, "key");
        if key != "metadata.name" {
            faults.invalid_text(&format!("{path}.key"), key, "not a valid field selector key");
            continue;
        }
        for (at, value) in values.iter().enumerate() {
            let value = value.as_str().unwrap_or_default();
            for why in dns_subdomain_problems(value) {
                faults.invalid_text(&format!("{path}.values[{at}]"), value, &why);
            }
        }
    }
}

fn pod_term(faults: &mut Faults, term: &Value, path: &str) {
    faults.label_selector(&format!("{path}.labelSelector"), &term["labelSelector"]);
    faults.label_selector(&format!("{path}.namespaceSelector"), &term["namespaceSelector"]);
    for (_, namespace) in items(&term["namespaces"]) {
        let namespace = namespace.as_str().unwrap_or_default();
        for why in dns_label_problems(namespace) {
            faults.invalid_text(&format!("{path}.namespace"), namespace, &why);
        }
    }
    let topology = text(term, "topologyKey");
    if topology.is_empty() {
        faults.required(&format!("{path}.topologyKey"), "can not be empty");
    }
    faults.label_name(&format!("{path}.topologyKey"), topology);
}

pub(super) fn tolerations(faults: &mut Faults, tolerations: &Value, path: &str) {
    for (at, toleration) in items(tolerations) {
        let path = format!("{path}[{at}]");
        let (key, value) = (text(toleration, "key"), text(toleration, "value"));
        let (operator, effect) = (text(toleration, "operator"), text(toleration, "effect"));
        if !key.is_empty() {
            faults.label_name(&format!("{path}.key"), key);
        }
        let field = format!("{path}.operator");
        if key.is_empty() && operator != "Exists" {
            let why =
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            faults.invalid_text(&field, operator, why);
        }
        if !toleration["tolerationSeconds"].is_null() && effect != "NoExecute" {
            let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            faults.invalid_text(&format!("{path}.effect"), effect, why);
        }
        match operator {
            "" | "Equal" => {
                let problems = label_value_problems(value);
                if !problems.is_empty() {
                    faults.invalid_text(&field, value, &problems.join(";"));
                }
            }
            "Exists" => {
                if !value.is_empty() {
                    let why = "value must be empty when `operator` is 'Exists'";
                    faults.invalid_text(&field, value, why);
                }
            }
            "Lt" | "Gt" => {
                faults.not_supported(&field, &json!(operator), &["Equal", "Exists", "Lt", "Gt"]);
            }
            other => faults.not_supported(&field, &json!(other), &["Equal", "Exists"]),
        }
        if !effect.is_empty() {
            faults.one_of(&format!("{path}.effect"), &toleration["effect"], &EFFECTS);
        }
    }
}

pub(super) fn spread(faults: &mut Faults, constraints: &Value, path: &str) {
    for (at, constraint) in items(constraints) {
        let path = format!("{path}[{at}]");
        let skew = &constraint["maxSkew"];
        if number(skew) <= 0 {
            faults.invalid(&format!("{path}.maxSkew"), &json!(number(skew)), "must be greater than zero");
        }
        let topology = text(constraint, "topologyKey");
        if topology.is_empty() {
            faults.required(&format!("{path}.topologyKey"), "can not be empty");
        }
        let action = text(constraint, "whenUnsatisfiable");
        let actions = ["DoNotSchedule", "ScheduleAnyway"];
        if !actions.contains(&action) {
            faults.not_supported(&format!("{path}.whenUnsatisfiable"), &json!(action), &actions);
        }
        let is_repeated = items(constraints).skip(at + 1).any(|(_, other)| {
            text(other, "topologyKey") == topology && text(other, "whenUnsatisfiable") == action
        });
        if is_repeated {
            let field = format!("{path}.{{topologyKey, whenUnsatisfiable}}");
            faults.duplicate(&field, &json!(format!("{{{topology}, {action}}}")));
        }
        let least = &constraint["minDomains"];
        if !least.is_null() {
            let field = format!("{path}.minDomains");
            if number(least) <= 0 {
                faults.invalid(&field, least, "must be greater than zero");
            }
            if action != "DoNotSchedule" {
                let why = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
                faults.invalid(&field, least, &why);
            }
        }
        for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            let policy = &constraint[field];
            if !policy.is_null() && !matches!(policy.as_str(), Some("Honor" | "Ignore")) {
                faults.not_supported(&format!("{path}.{field}"), policy, &["Honor", "Ignore"]);
            }
        }
        faults.label_selector(&format!("{path}.labelSelector"), &constraint["labelSelector"]);
    }
}
