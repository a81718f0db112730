//! That the rules of a schema are rules.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::ValidationRule;

use super::open_api::{Found, Within};
use super::{in_margin, text};
use crate::failure::Cause;
use crate::json::json;
use crate::schema::Schema;
use crate::schema::rules::{Rule, Unfit};
use crate::schema::said::{child, invalid, invalid_text, json as go_json, not_supported, quoted, required};

const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

pub(super) fn rule_words(rule: &ValidationRule, path: &str, causes: &mut Vec<Cause>) {
    let at = |name: &str| child(path, name);
    let breaks = |text: &str| text.contains(['\n', '\r']);
    let message = text(rule.message.as_ref());
    let trimmed = message.trim();
    if rule.rule.trim().is_empty() {
        causes.push(required(&at("rule"), "rule is not specified"));
    } else if !message.is_empty() && trimmed.is_empty() {
        causes.push(invalid_text(&at("message"), message, "must be non-empty if specified"));
    } else if breaks(trimmed) {
        causes.push(invalid_text(&at("message"), message, "must not contain line breaks"));
    } else if breaks(rule.rule.trim()) && trimmed.is_empty() {
        causes.push(required(&at("message"), "message must be specified if rule contains line breaks"));
    }
    let expression = text(rule.message_expression.as_ref());
    if !expression.is_empty() && expression.trim().is_empty() {
        causes.push(required(&at("messageExpression"), "messageExpression must be non-empty if specified"));
    }
    if let Some(reason) = rule.reason.as_deref().filter(|reason| !REASONS.contains(reason)) {
        causes.push(not_supported(&at("reason"), &quoted(reason), &REASONS.map(str::to_owned)));
    }
    let field_path = text(rule.field_path.as_ref());
    if !field_path.is_empty() && field_path.trim().is_empty() {
        causes.push(invalid_text(&at("fieldPath"), field_path, "must be non-empty if specified"));
    }
    if breaks(field_path) {
        causes.push(invalid_text(&at("fieldPath"), field_path, "must not contain line breaks"));
    }
}

pub(super) fn compiled(
    rule: &ValidationRule,
    schema: &Schema,
    path: &str,
    within: &Within,
    found: &mut Found,
) {
    let at = |name: &str| child(path, name);
    let parsed = Rule::parse(rule, schema);
    let fitting = parsed.and_then(|parsed| parsed.fits(rule, schema, within.is_root).map(|()| parsed));
    match fitting {
        Err(Unfit::FieldPath) => {
            let field_path = text(rule.field_path.as_ref());
            found.of_schema.push(invalid_text(&at("fieldPath"), field_path, "must be a valid path"));
        }
        Err(Unfit::Rule(error)) => {
            found.of_rules.push(invalid(
                &at("rule"),
                &in_go(rule),
                &format!("compilation failed: {}", in_margin(&error)),
            ));
        }
        Err(Unfit::MessageExpression(error)) => {
            let detail = format!("messageExpression compilation failed: {}", in_margin(&error));
            found.of_rules.push(invalid(&at("messageExpression"), &in_go(rule), &detail));
        }
        Err(Unfit::Outcome) => {
            let detail = "cel expression must evaluate to a bool";
            found.of_rules.push(invalid(&at("rule"), &in_go(rule), detail));
        }
        Err(Unfit::MessageOutcome) => {
            let detail = "messageExpression must evaluate to a string";
            found.of_rules.push(invalid(&at("messageExpression"), &in_go(rule), detail));
        }
        Ok(parsed) if parsed.uses_old => {
            if let Some(around) = &within.uncorrelated {
                let detail = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {around}"
                );
                found.of_rules.push(invalid_text(&at("rule"), &rule.rule, &detail));
            }
        }
        Ok(_) => {
            if let Some(optional) = rule.optional_old_self {
                let detail = "may not be set if oldSelf is not used in rule";
                found.of_rules.push(invalid(&at("optionalOldSelf"), &optional.to_string(), detail));
            }
        }
    }
}

/// A rule as the API server prints its own type.
fn in_go(rule: &ValidationRule) -> String {
    let text = |text: &Option<String>| go_json(&json!(text.as_deref().unwrap_or_default()));
    format!(
        r#"{{"Rule":{},"Message":{},"MessageExpression":{},"Reason":{},"FieldPath":{},"OptionalOldSelf":{}}}"#,
        go_json(&json!(rule.rule)),
        text(&rule.message),
        text(&rule.message_expression),
        go_json(&json!(rule.reason)),
        text(&rule.field_path),
        go_json(&json!(rule.optional_old_self)),
    )
}
