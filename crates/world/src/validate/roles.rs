//! Roles and their bindings.

use super::faults::{Faults, is_empty, items, text};
use crate::json::{Value, json};
use crate::names::{NameRule, dns_subdomain_problems, quoted};

const GROUP: &str = "rbac.authorization.k8s.io";

pub(super) fn on_create(faults: &mut Faults, kind: &str, object: &Value) {
    match kind {
        "Role" | "ClusterRole" => role(faults, object, kind == "Role"),
        "RoleBinding" | "ClusterRoleBinding" => binding(faults, object, kind == "RoleBinding"),
        _ => {}
    }
}

pub(super) fn on_update(faults: &mut Faults, kind: &str, new: &Value, old: &Value) {
    on_create(faults, kind, new);
    faults.metadata_once_more();
    if kind.ends_with("Binding") && new["roleRef"] != old["roleRef"] {
        let of = &new["roleRef"];
        let [group, kind, name] = ["apiGroup", "kind", "name"].map(|field| quoted(text(of, field)));
        let told = format!("{{\"APIGroup\":{group},\"Kind\":{kind},\"Name\":{name}}}");
        faults.invalid_as_told("roleRef", &told, "cannot change roleRef");
    }
}

fn role(faults: &mut Faults, object: &Value, is_namespaced: bool) {
    for (at, rule) in items(&object["rules"]) {
        let path = format!("rules[{at}]");
        if is_empty(&rule["verbs"]) {
            faults.required(&format!("{path}.verbs"), "verbs must contain at least one value");
        }
        let urls = &rule["nonResourceURLs"];
        if !is_empty(urls) {
            let field = format!("{path}.nonResourceURLs");
            if is_namespaced {
                faults.invalid(&field, urls, "namespaced rules cannot apply to non-resource URLs");
            }
            if ["apiGroups", "resources", "resourceNames"].iter().any(|list| !is_empty(&rule[*list])) {
                let why = "rules cannot apply to both regular resources and non-resource URLs";
                faults.invalid(&field, urls, why);
            }
            continue;
        }
        if is_empty(&rule["apiGroups"]) {
            let why = "resource rules must supply at least one api group";
            faults.required(&format!("{path}.apiGroups"), why);
        }
        if is_empty(&rule["resources"]) {
            let why = "resource rules must supply at least one resource";
            faults.required(&format!("{path}.resources"), why);
        }
    }
    let aggregation = &object["aggregationRule"];
    if !aggregation.is_null() && is_empty(&aggregation["clusterRoleSelectors"]) {
        let why = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        faults.required("aggregationRule.clusterRoleSelectors", why);
    }
    for (at, selector) in items(&aggregation["clusterRoleSelectors"]) {
        faults.label_selector(&format!("aggregationRule.clusterRoleSelectors[{at}]"), selector);
    }
}

fn binding(faults: &mut Faults, object: &Value, is_namespaced: bool) {
    let of = &object["roleRef"];
    if text(of, "apiGroup") != GROUP {
        faults.not_supported("roleRef.apiGroup", &json!(text(of, "apiGroup")), &[GROUP]);
    }
    let kinds: &[&str] = if is_namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    if !kinds.contains(&text(of, "kind")) {
        faults.not_supported("roleRef.kind", &json!(text(of, "kind")), kinds);
    }
    let name = text(of, "name");
    if name.is_empty() {
        faults.required("roleRef.name", "");
    } else {
        for why in NameRule::PathSegment.problems(name) {
            faults.invalid_text("roleRef.name", name, &why);
        }
    }
    for (at, subject) in items(&object["subjects"]) {
        check_subject(faults, subject, is_namespaced, &format!("subjects[{at}]"));
    }
}

fn check_subject(faults: &mut Faults, subject: &Value, is_namespaced: bool, path: &str) {
    let (name, group) = (text(subject, "name"), text(subject, "apiGroup"));
    if name.is_empty() {
        faults.required(&format!("{path}.name"), "");
    }
    match text(subject, "kind") {
        "ServiceAccount" => {
            for why in dns_subdomain_problems(name).iter().filter(|_| !name.is_empty()) {
                faults.invalid_text(&format!("{path}.name"), name, why);
            }
            if !group.is_empty() {
                faults.not_supported(&format!("{path}.apiGroup"), &json!(group), &[""]);
            }
            if !is_namespaced && text(subject, "namespace").is_empty() {
                faults.required(&format!("{path}.namespace"), "");
            }
        }
        "User" | "Group" => {
            if group != GROUP {
                faults.not_supported(&format!("{path}.apiGroup"), &json!(group), &[GROUP]);
            }
        }
        kind => {
            let supported = ["ServiceAccount", "User", "Group"];
            faults.not_supported(&format!("{path}.kind"), &json!(kind), &supported);
        }
    }
}
