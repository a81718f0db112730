//! Faults as they are found, and the checks that many kinds share.

use std::net::{IpAddr, Ipv4Addr};

use crate::failure::{Cause, CauseReason};
use crate::json::{Value, json};
use crate::names::{self, label_value_problems, qualified_name_problems, quoted};
use crate::selector::LabelSelector;

/// What is wrong, in the order in which it was looked for.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    found: Vec<Cause>,
    /// What is wrong with the metadata, until it is its turn.
    of_metadata: Vec<Cause>,
}

pub(super) const IMMUTABLE: &str = "field is immutable";
const NOT_NEGATIVE: &str = "must be greater than or equal to 0";

impl Faults {
    /// With what is wrong with the metadata for when it is looked at once more.
    pub(super) fn with_metadata(of_metadata: Vec<Cause>) -> Self {
        Self { found: Vec::new(), of_metadata }
    }

    /// Where the server comes back to the metadata. Of most kinds it does so at once.
    pub(super) fn metadata_once_more(&mut self) {
        self.found.append(&mut self.of_metadata);
    }

    pub(crate) fn found(self) -> Vec<Cause> {
        let mut all = self.of_metadata;
        all.extend(self.found);
        all
    }

    pub(super) fn extend(&mut self, causes: Vec<Cause>) {
        self.found.extend(causes);
    }

    pub(super) fn required(&mut self, field: &str, why: &str) {
        self.found.push(names::required(field, why));
    }

    pub(super) fn forbidden(&mut self, field: &str, why: &str) {
        self.found.push(names::forbidden(field, why));
    }

    pub(super) fn invalid(&mut self, field: &str, value: &Value, why: &str) {
        self.found.push(names::invalid_value(field, &said(value), why));
    }

    /// With a value in Go's own form, as structures of the server are told.
    pub(super) fn invalid_as_told(&mut self, field: &str, value: &str, why: &str) {
        self.found.push(names::invalid_value(field, value, why));
    }

    pub(super) fn not_supported_as_told(&mut self, field: &str, value: &str, supported: &[&str]) {
        self.found.push(names::not_supported(field, value, supported));
    }

    /// Of a place at which no one value is wrong.
    pub(super) fn invalid_unsaid(&mut self, field: &str, why: &str) {
        self.push(CauseReason::FieldValueInvalid, field, format!("Invalid value: {why}"));
    }

    pub(super) fn invalid_text(&mut self, field: &str, value: &str, why: &str) {
        self.found.push(names::invalid(field, value, why));
    }

    pub(super) fn too_long(&mut self, field: &str, limit: usize) {
        self.found.push(names::too_long(field, limit));
    }

    /// The supported values are told as they are given.
    pub(super) fn not_supported(&mut self, field: &str, value: &Value, supported: &[&str]) {
        self.found.push(names::not_supported(field, &said(value), supported));
    }

    pub(super) fn duplicate(&mut self, field: &str, value: &Value) {
        self.push(CauseReason::FieldValueDuplicate, field, format!("Duplicate value: {}", said(value)));
    }

    pub(super) fn not_found(&mut self, field: &str, value: &Value) {
        self.push(CauseReason::FieldValueNotFound, field, format!("Not found: {}", said(value)));
    }

    pub(super) fn duplicate_as_told(&mut self, field: &str, value: &str, why: &str) {
        let message = format!("Duplicate value: {value}{why}");
        self.push(CauseReason::FieldValueDuplicate, field, message);
    }

    fn push(&mut self, reason: CauseReason, field: &str, message: String) {
        self.found.push(Cause { reason, field: field.to_owned(), message });
    }

    /// One of some words, or else required or not supported.
    pub(super) fn one_of(&mut self, field: &str, value: &Value, supported: &[&str]) {
        match value.as_str().unwrap_or_default() {
            "" => self.required(field, ""),
            word if supported.contains(&word) => {}
            _ => self.not_supported(field, value, supported),
        }
    }

    pub(super) fn not_negative(&mut self, field: &str, value: &Value) {
        if number(value) < 0 {
            self.invalid(field, value, NOT_NEGATIVE);
        }
    }

    pub(super) fn unchanged(&mut self, field: &str, new: &Value, old: &Value) {
        if new != old {
            self.invalid(field, new, IMMUTABLE);
        }
    }

    pub(super) fn label_name(&mut self, field: &str, name: &str) {
        for why in qualified_name_problems(name) {
            self.invalid_text(field, name, &why);
        }
    }

    pub(super) fn label_value(&mut self, field: &str, value: &str) {
        for why in label_value_problems(value) {
            self.invalid_text(field, value, &why);
        }
    }

    pub(super) fn labels(&mut self, field: &str, labels: &Value) {
        self.extend(names::validate_labels(labels, field));
    }

    /// A label of the domain name system: lower case, digits and dashes.
    pub(super) fn dns_label(&mut self, field: &str, text: &str) {
        for why in names::dns_label_problems(text) {
            self.invalid_text(field, text, &why);
        }
    }

    pub(super) fn dns_subdomain(&mut self, field: &str, text: &str) {
        for why in names::dns_subdomain_problems(text) {
            self.invalid_text(field, text, &why);
        }
    }

    pub(super) fn address(&mut self, field: &str, text: &str) {
        match text.parse::<IpAddr>() {
            Ok(IpAddr::V6(address)) if address.to_ipv4_mapped().is_some() => {
                self.invalid_text(field, text, "must not be an IPv4-mapped IPv6 address");
            }
            Ok(_) => {}
            Err(_) if has_leading_zeros(text) => self.invalid_text(field, text, "must not have leading 0s"),
            Err(_) => {
                let why = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
                self.invalid_text(field, text, why);
            }
        }
    }

    pub(super) fn label_selector(&mut self, field: &str, selector: &Value) {
        self.labels(&format!("{field}.matchLabels"), &selector["matchLabels"]);
        for (at, requirement) in items(&selector["matchExpressions"]) {
            let path = format!("{field}.matchExpressions[{at}]");
            let values = requirement["values"].as_array().map_or(&[][..], Vec::as_slice);
            match text(requirement, "operator") {
                "In" | "NotIn" => {
                    if values.is_empty() {
                        let why = "must be specified when `operator` is 'In' or 'NotIn'";
                        self.required(&format!("{path}.values"), why);
                    }
                }
                "Exists" | "DoesNotExist" => {
                    if !values.is_empty() {
                        let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                        self.forbidden(&format!("{path}.values"), why);
                    }
                }
                other => {
                    self.invalid_text(&format!("{path}.operator"), other, "not a valid selector operator");
                }
            }
            self.label_name(&format!("{path}.key"), text(requirement, "key"));
            for (at, value) in values.iter().enumerate() {
                self.label_value(&format!("{path}.values[{at}]"), value.as_str().unwrap_or_default());
            }
        }
    }

    /// A count, or a share of all.
    pub(super) fn int_or_percent(&mut self, field: &str, value: &Value) {
        match value.as_str() {
            Some(text) if !is_percent(text) => {
                let why = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or \
                           '93%', regex used for validation is '[0-9]+%')";
                self.invalid(field, value, why);
            }
            Some(_) => {}
            None => self.not_negative(field, value),
        }
    }

    pub(super) fn at_most_all(&mut self, field: &str, value: &Value) {
        if percent(value).is_some_and(|percent| percent > 100) {
            self.invalid(field, value, "must not be greater than 100%");
        }
    }
}

/// Whether text would be an address if its numbers did not begin with zeros.
fn has_leading_zeros(text: &str) -> bool {
    let without: Vec<&str> = text
        .split('.')
        .map(|number| match number.trim_start_matches('0') {
            "" if !number.is_empty() => "0",
            rest => rest,
        })
        .collect();
    without.join(".").parse::<Ipv4Addr>().is_ok()
}

fn is_percent(text: &str) -> bool {
    text.strip_suffix('%')
        .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
}

fn percent(value: &Value) -> Option<i64> {
    value.as_str().filter(|text| is_percent(text))?.trim_end_matches('%').parse().ok()
}

/// A share or a count as a number, as the server compares both with zero.
pub(super) fn int_or_percent_value(value: &Value) -> i64 {
    percent(value).or_else(|| value.as_i64()).unwrap_or(0)
}

/// A value as faults show it: JSON, in which text is quoted as in Go.
fn said(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), quoted)
}

pub(super) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field].as_str().unwrap_or_default()
}

pub(super) fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}

/// The items of a list with their places in it.
pub(super) fn items(list: &Value) -> impl Iterator<Item = (usize, &Value)> {
    list.as_array().into_iter().flatten().enumerate()
}

pub(super) fn is_empty(list: &Value) -> bool {
    match list {
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => true,
    }
}

/// Whether a selector of the API's form selects labels; `None` if it cannot be read.
pub(super) fn selects(selector: &Value, labels: &Value) -> Option<bool> {
    LabelSelector::from_value(selector).ok().map(|selector| selector.matches(labels))
}

/// Null is said of what is not there, also of labels.
pub(super) fn or_null(value: &Value) -> Value {
    if is_empty(value) { json!(null) } else { value.clone() }
}
