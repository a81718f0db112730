//! Reviews: questions about access, answered and never stored.

use super::objects::{Rule, text, texts};
use super::{Attributes, ResourceTarget, Rules, Target, User};
use crate::failure::{Cause, CauseReason, Details, Failure, Reason};
use crate::json::{Map, Value, json};

/// May the user who asks do this?
pub fn self_subject_access_review(rules: &Rules, user: &User, review: &Value) -> Result<Value, Failure> {
    let mut causes: Vec<Cause> = wrong_attributes(&review["spec"]).into_iter().collect();
    causes.extend(wrong_metadata(review, &[], "must be empty"));
    answer(rules, user, review, causes)
}

/// May the user named in the review do this?
pub fn subject_access_review(rules: &Rules, review: &Value) -> Result<Value, Failure> {
    let mut causes: Vec<Cause> = wrong_attributes(&review["spec"]).into_iter().collect();
    causes.extend(wrong_subject(&review["spec"]));
    causes.extend(wrong_metadata(review, &[], "must be empty"));
    answer(rules, &subject(&review["spec"]), review, causes)
}

/// As [`subject_access_review`], of one namespace's resources only.
pub fn local_subject_access_review(rules: &Rules, review: &Value) -> Result<Value, Failure> {
    let spec = &review["spec"];
    let mut causes: Vec<Cause> = wrong_attributes(spec).into_iter().collect();
    causes.extend(wrong_subject(spec));
    causes.extend(wrong_metadata(review, &["namespace"], "must be empty except for namespace"));
    if let Some(attributes) = given(spec, "resourceAttributes") {
        let namespace = text(attributes, "namespace");
        if namespace != text(&review["metadata"], "namespace") {
            let message = "must match metadata.namespace";
            causes.push(invalid("spec.resourceAttributes.namespace", &json!(namespace), message));
        }
    }
    if let Some(attributes) = given(spec, "nonResourceAttributes") {
        let message = "disallowed on this kind of request";
        causes.push(invalid("spec.nonResourceAttributes", &path_attributes(attributes), message));
    }
    answer(rules, &subject(spec), review, causes)
}

/// What may the user who asks do in a namespace?
pub fn self_subject_rules_review(rules: &Rules, user: &User, review: &Value) -> Result<Value, Failure> {
    let namespace = text(&review["spec"], "namespace");
    if namespace.is_empty() {
        return Err(Failure::bad_request("no namespace on request"));
    }
    let (found, unresolved) = rules.rules_for(user, namespace);
    let of_resources = found.iter().filter(|rule| !rule.resources.is_empty()).map(|rule| resource_rule(rule));
    let of_paths = found.iter().filter(|rule| !rule.paths.is_empty()).map(|rule| path_rule(rule));
    let mut status = json!({
        "resourceRules": of_resources.collect::<Vec<_>>(),
        "nonResourceRules": of_paths.collect::<Vec<_>>(),
        "incomplete": false,
    });
    if !unresolved.is_empty() {
        status["evaluationError"] = json!(unresolved);
    }
    // The API server does not repeat what was asked.
    Ok(with_kind(review, json!({ "metadata": {}, "spec": {}, "status": status })))
}

/// Who am I?
pub fn self_subject_review(user: &User, review: &Value, now: &str) -> Value {
    let who = user.to_value();
    with_kind(review, json!({ "metadata": { "creationTimestamp": now }, "status": { "userInfo": who } }))
}

/// Whose token is this? Nobody's: people have certificates here.
pub fn token_review(review: &Value) -> Result<Value, Failure> {
    if text(&review["spec"], "token").is_empty() {
        return Err(Failure::bad_request("token is required for TokenReview in authentication"));
    }
    let status = json!({ "user": {}, "error": "invalid bearer token" });
    let metadata = given(review, "metadata").cloned().unwrap_or_else(|| json!({}));
    Ok(with_kind(review, json!({ "metadata": metadata, "spec": review["spec"], "status": status })))
}

fn answer(rules: &Rules, user: &User, review: &Value, causes: Vec<Cause>) -> Result<Value, Failure> {
    if !causes.is_empty() {
        return Err(refused(causes));
    }
    let decision = rules.allow(user, &attributes(&review["spec"]));
    let mut status = json!({ "allowed": decision.is_allowed() });
    if !decision.reason().is_empty() {
        status["reason"] = json!(decision.reason());
    }
    let metadata = match text(&review["metadata"], "namespace") {
        "" => json!({}),
        namespace => json!({ "namespace": namespace }),
    };
    Ok(with_kind(review, json!({ "metadata": metadata, "spec": review["spec"], "status": status })))
}

fn with_kind(review: &Value, mut answer: Value) -> Value {
    for key in ["kind", "apiVersion"] {
        answer[key] = review[key].clone();
    }
    answer
}

/// What is asked about, of a spec that has one of both kinds of attributes.
fn attributes(spec: &Value) -> Attributes<'_> {
    let Some(asked) = given(spec, "resourceAttributes") else {
        let asked = &spec["nonResourceAttributes"];
        return Attributes { verb: text(asked, "verb"), target: Target::Path(text(asked, "path")) };
    };
    let target = ResourceTarget {
        group: text(asked, "group"),
        resource: text(asked, "resource"),
        subresource: text(asked, "subresource"),
        namespace: text(asked, "namespace"),
        name: text(asked, "name"),
    };
    Attributes { verb: text(asked, "verb"), target: Target::Resource(target) }
}

fn subject(spec: &Value) -> User {
    User { name: text(spec, "user").to_owned(), groups: texts(spec, "groups"), ..User::default() }
}

fn resource_rule(rule: &Rule) -> Value {
    let mut value = json!({ "verbs": rule.verbs, "apiGroups": rule.groups, "resources": rule.resources });
    if !rule.names.is_empty() {
        value["resourceNames"] = json!(rule.names);
    }
    value
}

fn path_rule(rule: &Rule) -> Value {
    json!({ "verbs": rule.verbs, "nonResourceURLs": rule.paths })
}

fn wrong_attributes(spec: &Value) -> Option<Cause> {
    match (given(spec, "resourceAttributes"), given(spec, "nonResourceAttributes")) {
        (Some(_), Some(path)) => Some(invalid(
            "spec.nonResourceAttributes",
            &path_attributes(path),
            "cannot be specified in combination with resourceAttributes",
        )),
        (None, None) => Some(invalid(
            "spec.resourceAttributes",
            &Value::Null,
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        )),
        _ => None,
    }
}

fn wrong_subject(spec: &Value) -> Option<Cause> {
    let nobody = text(spec, "user").is_empty() && texts(spec, "groups").is_empty();
    nobody.then(|| invalid("spec.user", &json!(""), "at least one of user or group must be specified"))
}

fn wrong_metadata(review: &Value, allowed: &[&str], message: &str) -> Option<Cause> {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    };
    let metadata = review["metadata"].as_object();
    let is_wrong = metadata
        .into_iter()
        .flat_map(Map::iter)
        .any(|(key, value)| !is_empty(value) && key != "managedFields" && !allowed.contains(&&**key));
    is_wrong.then(|| invalid("metadata", &review["metadata"], message))
}

/// The fields as the API server's own type names them when it quotes them.
fn path_attributes(attributes: &Value) -> Value {
    json!({ "Path": text(attributes, "path"), "Verb": text(attributes, "verb") })
}

fn given<'a>(spec: &'a Value, key: &str) -> Option<&'a Value> {
    spec.get(key).filter(|value| !value.is_null())
}

fn invalid(field: &str, value: &Value, why: &str) -> Cause {
    Cause {
        reason: CauseReason::FieldValueInvalid,
        field: field.to_owned(),
        message: format!("Invalid value: {value}: {why}"),
    }
}

/// The API server forgets the kind here: its message and details name the group alone.
fn refused(causes: Vec<Cause>) -> Failure {
    let said: Vec<String> = causes.iter().map(ToString::to_string).collect();
    let said = if said.len() == 1 { said.concat() } else { format!("[{}]", said.join(", ")) };
    let message = format!(".authorization.k8s.io \"\" is invalid: {said}");
    let details = Details { group: "authorization.k8s.io".to_owned(), causes, ..Details::default() };
    Failure { details: Box::new(details), ..Failure::new(Reason::Invalid, message) }
}
