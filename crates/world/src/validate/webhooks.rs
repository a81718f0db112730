//! Configurations of webhooks.

use std::collections::BTreeSet;

use super::faults::{Faults, items, text};
use crate::crd::names::dns_1035_label;
use crate::json::{Value, json};
use crate::names;
use crate::schema::check_condition;
use crate::schema::said::too_many;

const ALL: &str = "*";
/// Reviews in v1beta1 are not spoken here, and whoever speaks nothing else is refused.
const REVIEW: &str = "v1";
const REVIEWS: &str = "v1, v1beta1";
const EFFECTS: [&str; 2] = ["None", "NoneOnDryRun"];
const CONDITIONS_MAX: i64 = 64;
const URL_FORM: &str = "; desired format: https://host[/path]";

/// `old` is what the configuration was. What was let be before is let be once more.
pub(super) fn configuration(faults: &mut Faults, kind: &str, object: &Value, old: Option<&Value>) {
    let is_mutating = kind == "MutatingWebhookConfiguration";
    let known = conditions_of(old.unwrap_or(&Value::Null));
    let mut names_seen = BTreeSet::new();
    for (at, hook) in items(&object["webhooks"]) {
        let path = format!("webhooks[{at}]");
        webhook(faults, &path, hook, is_mutating, &known);
        review_versions(faults, &format!("{path}.admissionReviewVersions"), &hook["admissionReviewVersions"]);
        let name = text(hook, "name");
        if !name.is_empty() && !names_seen.insert(name) {
            faults.duplicate(&format!("{path}.name"), &hook["name"]);
        }
    }
}

fn conditions_of(configuration: &Value) -> BTreeSet<&str> {
    let hooks = items(&configuration["webhooks"]);
    hooks
        .flat_map(|(_, hook)| items(&hook["matchConditions"]))
        .map(|(_, of)| text(of, "expression"))
        .collect()
}

fn webhook(faults: &mut Faults, path: &str, hook: &Value, is_mutating: bool, known: &BTreeSet<&str>) {
    let at = |field: &str| format!("{path}.{field}");
    qualified_name(faults, &at("name"), text(hook, "name"));
    for (index, rule) in items(&hook["rules"]) {
        self::rule(faults, &format!("{path}.rules[{index}]"), rule);
    }
    word(faults, &at("failurePolicy"), &hook["failurePolicy"], &["Fail", "Ignore"]);
    word(faults, &at("matchPolicy"), &hook["matchPolicy"], &["Equivalent", "Exact"]);
    if hook["sideEffects"].is_null() {
        faults.required(&at("sideEffects"), &format!("must specify one of {}", EFFECTS.join(", ")));
    }
    word(faults, &at("sideEffects"), &hook["sideEffects"], &EFFECTS);
    let timeout = &hook["timeoutSeconds"];
    if timeout.as_i64().is_some_and(|secs| !(1..=30).contains(&secs)) {
        faults.invalid(&at("timeoutSeconds"), timeout, "the timeout value must be between 1 and 30 seconds");
    }
    faults.label_selector(&at("namespaceSelector"), &hook["namespaceSelector"]);
    faults.label_selector(&at("objectSelector"), &hook["objectSelector"]);
    if is_mutating {
        word(faults, &at("reinvocationPolicy"), &hook["reinvocationPolicy"], &["IfNeeded", "Never"]);
    }
    let config = &hook["clientConfig"];
    match (config["url"].as_str(), &config["service"]) {
        (Some(url), Value::Null) => self::url(faults, &at("clientConfig.url"), url),
        (None, service @ Value::Object(_)) => self::service(faults, &at("clientConfig.service"), service),
        _ => faults.required(&at("clientConfig"), "exactly one of url or service is required"),
    }
    conditions(faults, &at("matchConditions"), &hook["matchConditions"], known);
}

/// One of some words, if it is said.
fn word(faults: &mut Faults, field: &str, value: &Value, supported: &[&str]) {
    if value.as_str().is_some_and(|word| !supported.contains(&word)) {
        faults.not_supported(field, value, supported);
    }
}

fn qualified_name(faults: &mut Faults, field: &str, name: &str) {
    if name.is_empty() {
        return faults.required(field, "");
    }
    let problems = names::dns_subdomain_problems(name);
    if !problems.is_empty() {
        faults.invalid_text(field, name, &problems.join(","));
    } else if name.split('.').count() < 3 {
        let why = "should be a domain with at least three segments separated by dots";
        faults.invalid_text(field, name, why);
    }
}

fn rule(faults: &mut Faults, path: &str, rule: &Value) {
    let at = |field: &str| format!("{path}.{field}");
    all_or_some(faults, &at("operations"), &rule["operations"], "operations");
    for (index, operation) in items(&rule["operations"]) {
        let supported = [ALL, "CONNECT", "CREATE", "DELETE", "UPDATE"];
        word(faults, &format!("{}[{index}]", at("operations")), operation, &supported);
    }
    all_or_some(faults, &at("apiGroups"), &rule["apiGroups"], "API groups");
    all_or_some(faults, &at("apiVersions"), &rule["apiVersions"], "API versions");
    for (index, _) in items(&rule["apiVersions"]).filter(|(_, version)| *version == "") {
        faults.required(&format!("{}[{index}]", at("apiVersions")), "");
    }
    resources(faults, &at("resources"), &rule["resources"]);
    word(faults, &at("scope"), &rule["scope"], &[ALL, "Cluster", "Namespaced"]);
}

/// What stands for all stands alone.
fn all_or_some(faults: &mut Faults, field: &str, list: &Value, what: &str) {
    let words: Vec<&Value> = items(list).map(|(_, word)| word).collect();
    match &words[..] {
        [] => faults.required(field, ""),
        [_, _, ..] if words.iter().any(|word| **word == ALL) => {
            faults.invalid(field, list, &format!("if '*' is present, must not specify other {what}"));
        }
        _ => {}
    }
}

fn resources(faults: &mut Faults, field: &str, list: &Value) {
    let words: Vec<&str> = items(list).map(|(_, word)| word.as_str().unwrap_or_default()).collect();
    if words.is_empty() {
        faults.required(field, "");
    }
    let (mut with_all_parts, mut of_all) = (BTreeSet::new(), BTreeSet::new());
    let mut has_whole = false;
    for (index, word) in words.iter().copied().enumerate() {
        let at = format!("{field}[{index}]");
        if word.is_empty() {
            faults.required(&at, "");
            continue;
        }
        let Some((resource, part)) = word.split_once('/') else {
            has_whole = word != ALL;
            continue;
        };
        if with_all_parts.contains(resource) {
            let why = format!("if '{resource}/*' is present, must not specify {word}");
            faults.invalid_text(&at, word, &why);
        }
        if of_all.contains(part) {
            faults.invalid_text(&at, word, &format!("if '*/{part}' is present, must not specify {word}"));
        }
        if part == ALL {
            with_all_parts.insert(resource);
        }
        if resource == ALL {
            of_all.insert(part);
        }
    }
    if words.len() > 1 && words.contains(&"*/*") {
        faults.invalid(field, list, "if '*/*' is present, must not specify other resources");
    }
    if words.contains(&ALL) && has_whole {
        let why = "if '*' is present, must not specify other resources without subresources";
        faults.invalid(field, list, why);
    }
}

fn url(faults: &mut Faults, field: &str, url: &str) {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    if scheme != "https" {
        let why = format!("'https' is the only allowed URL scheme{URL_FORM}");
        faults.invalid_text(field, scheme, &why);
    }
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = if scheme.is_empty() { "" } else { rest.split('/').next().unwrap_or_default() };
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    if host.is_empty() {
        faults.invalid_text(field, "", &format!("host must be specified{URL_FORM}"));
    }
    for (said, what) in [
        (user, "user information is not permitted in the URL"),
        (fragment, "fragments are not permitted in the URL"),
        (query, "query parameters are not permitted in the URL"),
    ] {
        if !said.is_empty() {
            faults.invalid_text(field, said, what);
        }
    }
}

fn service(faults: &mut Faults, field: &str, service: &Value) {
    // The server takes the one for the other.
    for (told, of) in [("name", "namespace"), ("namespace", "name")] {
        if text(service, of).is_empty() {
            faults.required(&format!("{field}.{told}"), "");
        }
    }
    let port = &service["port"];
    if port.as_i64().is_some_and(|port| !(1..=65535).contains(&port)) {
        let why = "port is not valid: must be between 1 and 65535, inclusive";
        faults.invalid(&format!("{field}.port"), port, why);
    }
    let (path, field) = (text(service, "path"), format!("{field}.path"));
    match path {
        "" | "/" => return,
        "//" => return faults.invalid_text(&field, path, "segment[0] may not be empty"),
        _ if !path.starts_with('/') => faults.invalid_text(&field, path, "must start with a '/'"),
        _ => {}
    }
    // The first character is taken for the slash that it should be.
    let mut rest = path.chars();
    rest.next();
    let rest = rest.as_str();
    for (index, step) in rest.strip_suffix('/').unwrap_or(rest).split('/').enumerate() {
        if step.is_empty() {
            faults.invalid_text(&field, path, &format!("segment[{index}] may not be empty"));
            continue;
        }
        for why in names::dns_subdomain_problems(step) {
            faults.invalid_text(&field, path, &format!("segment[{index}]: {why}"));
        }
    }
}

fn review_versions(faults: &mut Faults, field: &str, versions: &Value) {
    let words: Vec<&str> = items(versions).map(|(_, word)| word.as_str().unwrap_or_default()).collect();
    if words.is_empty() {
        return faults.required(field, &format!("must specify one of {REVIEWS}"));
    }
    let mut seen = BTreeSet::new();
    for (index, version) in words.iter().copied().enumerate() {
        let at = format!("{field}[{index}]");
        if !seen.insert(version) {
            faults.invalid_text(&at, version, "duplicate version");
            continue;
        }
        for why in dns_1035_label(version) {
            faults.invalid_text(&at, version, &why);
        }
    }
    if !words.contains(&REVIEW) {
        faults.invalid(field, versions, &format!("must include at least one of {REVIEWS}"));
    }
}

fn conditions(faults: &mut Faults, field: &str, conditions: &Value, known: &BTreeSet<&str>) {
    let count = items(conditions).count();
    if i64::try_from(count).is_ok_and(|count| count > CONDITIONS_MAX) {
        faults.extend(vec![too_many(field, count, CONDITIONS_MAX)]);
    }
    let mut names_seen = BTreeSet::new();
    for (index, condition) in items(conditions) {
        let path = format!("{field}[{index}]");
        let (name, expression) = (text(condition, "name"), text(condition, "expression"));
        let at = format!("{path}.expression");
        match expression.trim() {
            "" => faults.required(&at, ""),
            _ if known.contains(expression) => {}
            trimmed => {
                if let Err(why) = check_condition(trimmed) {
                    faults.invalid(&at, &json!(trimmed), &why);
                }
            }
        }
        let at = format!("{path}.name");
        if name.is_empty() {
            faults.required(&at, "");
        } else {
            faults.label_name(&at, name);
            if !names_seen.insert(name) {
                faults.duplicate(&at, &condition["name"]);
            }
        }
    }
}
