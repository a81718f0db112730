//! What names, labels and annotations may be, in the API server's words.

mod meta;

pub(crate) use meta::finalizer_problems;
pub use meta::{finalizer_warnings, validate_create, validate_status_update, validate_update};

use std::fmt::Write;

use crate::failure::{Cause, CauseReason};
use crate::json::Value;
use crate::kinds::Resource;

/// The most that the keys and values of all annotations may take.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// A generated name is no longer than a DNS label.
const GENERATED_LIMIT: usize = 63;

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const QUALIFIED: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";

/// What the names of a kind must look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// A DNS name such as `a.b-c`.
    Subdomain,
    /// One part of a DNS name.
    Label,
    /// Whatever can stand between two slashes of a path.
    PathSegment,
}

impl NameRule {
    pub fn of(resource: &Resource) -> Self {
        match (&*resource.group, &*resource.kind) {
            ("", "Namespace" | "Service") | ("apps", "StatefulSet") => Self::Label,
            ("rbac.authorization.k8s.io", _) | ("policy", "PodDisruptionBudget") => Self::PathSegment,
            _ => Self::Subdomain,
        }
    }

    /// What is wrong with the name.
    pub fn problems(self, name: &str) -> Vec<String> {
        self.problems_of(name.as_bytes())
    }

    /// What is wrong with the beginning of a name, to which something will be added.
    pub fn problems_of_prefix(self, prefix: &str) -> Vec<String> {
        let bytes = prefix.as_bytes();
        match (self, bytes) {
            // A dash at the end is in the middle later. The server puts a letter for it and what is before it.
            (Self::Subdomain | Self::Label, [kept @ .., _, b'-']) => {
                let masked: Vec<u8> = kept.iter().copied().chain([b'a']).collect();
                self.problems_of(&masked)
            }
            _ => self.problems_of(bytes),
        }
    }

    fn problems_of(self, name: &[u8]) -> Vec<String> {
        match self {
            Self::Subdomain => subdomain_problems(name, "characters"),
            Self::Label => label_problems(name),
            Self::PathSegment => path_segment_problems(name),
        }
    }
}

/// The name of a new object that has only `generateName`. `suffix` is five letters and digits that are
/// likely to be unique.
pub fn generate_name(base: &str, suffix: &str) -> String {
    let room = GENERATED_LIMIT.saturating_sub(suffix.len());
    let mut kept = base.len().min(room);
    while !base.is_char_boundary(kept) {
        kept -= 1;
    }
    format!("{}{suffix}", &base[..kept])
}

/// What is wrong with a label of the domain name system.
pub(crate) fn dns_label_problems(name: &str) -> Vec<String> {
    NameRule::Label.problems(name)
}

pub(crate) fn dns_subdomain_problems(name: &str) -> Vec<String> {
    NameRule::Subdomain.problems(name)
}

/// What is wrong with a name that begins with `*.` and stands for all below a domain.
pub(crate) fn wildcard_problems(name: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if name.len() > 253 {
        problems.push(max_length_error(253, "characters"));
    }
    if !name.strip_prefix("*.").is_some_and(|domain| is_subdomain(domain.as_bytes())) {
        let said = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character";
        problems.push(regex_error(said, &format!(r"\*\.{SUBDOMAIN}"), &["*.example.com"]));
    }
    problems
}

/// What is wrong with a map of labels.
pub fn validate_labels(labels: &Value, field: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (key, value) in strings(labels) {
        causes.extend(qualified_name_problems(key).iter().map(|why| invalid(field, key, why)));
        causes.extend(label_value_problems(value).iter().map(|why| invalid(field, value, why)));
    }
    causes
}

/// What is wrong with a map of annotations.
pub fn validate_annotations(annotations: &Value, field: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut size = 0;
    for (key, value) in strings(annotations) {
        // Unlike those of labels, the prefixes of annotations may have capitals.
        let problems = qualified_name_problems(&key.to_lowercase());
        causes.extend(problems.iter().map(|why| invalid(field, key, why)));
        size += key.len() + value.len();
    }
    if size > ANNOTATIONS_LIMIT {
        causes.push(too_long(field, ANNOTATIONS_LIMIT));
    }
    causes
}

/// What is wrong with the key of a label, or with another name such as `example.com/name`.
pub fn qualified_name_problems(name: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let said = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
    let said = regex_error(said, QUALIFIED, &["MyName", "my.name", "123-abc"]);
    let name = match name.split('/').collect::<Vec<_>>()[..] {
        [name] => name,
        ["", name] => {
            problems.push("prefix part must be non-empty".to_owned());
            name
        }
        [prefix, name] => {
            let of_prefix = subdomain_problems(prefix.as_bytes(), "bytes");
            problems.extend(of_prefix.iter().map(|problem| format!("prefix part {problem}")));
            name
        }
        _ => {
            let optional = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return vec![format!("a valid label key {said} {optional}")];
        }
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        problems.push(format!("name part {}", max_length_error(63, "bytes")));
    }
    if !is_qualified(name.as_bytes()) {
        problems.push(format!("name part {said}"));
    }
    problems
}

/// What is wrong with the value of a label.
pub fn label_value_problems(value: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if value.len() > 63 {
        problems.push(max_length_error(63, "bytes"));
    }
    if !value.is_empty() && !is_qualified(value.as_bytes()) {
        let said = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
        let pattern = format!("({QUALIFIED})?");
        problems.push(regex_error(said, &pattern, &["MyValue", "my_value", "12345"]));
    }
    problems
}

/// The server counts bytes, but calls them characters in names.
fn subdomain_problems(name: &[u8], unit: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if name.len() > 253 {
        problems.push(max_length_error(253, unit));
    }
    if !is_subdomain(name) {
        let said = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";
        problems.push(regex_error(said, SUBDOMAIN, &["example.com"]));
    }
    problems
}

fn label_problems(name: &[u8]) -> Vec<String> {
    let mut problems = Vec::new();
    if name.len() > 63 {
        problems.push(max_length_error(63, "characters"));
    }
    if is_label(name) {
        return problems;
    }
    problems.push(if is_subdomain(name) {
        "must not contain dots".to_owned()
    } else {
        let said = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character";
        regex_error(said, LABEL, &["my-name", "123-abc"])
    });
    problems
}

fn path_segment_problems(name: &[u8]) -> Vec<String> {
    match name {
        b"." => vec!["may not be '.'".to_owned()],
        b".." => vec!["may not be '..'".to_owned()],
        _ => {
            let contained = [b'/', b'%'].into_iter().filter(|illegal| name.contains(illegal));
            contained.map(|illegal| format!("may not contain '{}'", char::from(illegal))).collect()
        }
    }
}

fn is_label(name: &[u8]) -> bool {
    let edge = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    is_word(name, edge, |byte| edge(byte) || *byte == b'-')
}

fn is_subdomain(name: &[u8]) -> bool {
    name.split(|byte| *byte == b'.').all(is_label)
}

fn is_qualified(name: &[u8]) -> bool {
    is_word(name, u8::is_ascii_alphanumeric, |byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

/// Whether there is a first and a last byte (which may be the same) as `edge` asks, and `inside` between.
fn is_word(word: &[u8], edge: impl Fn(&u8) -> bool, inside: impl Fn(&u8) -> bool) -> bool {
    let (Some(first), Some(last)) = (word.first(), word.last()) else { return false };
    edge(first) && edge(last) && word.iter().all(inside)
}

fn max_length_error(length: usize, unit: &str) -> String {
    format!("must be no more than {length} {unit}")
}

fn regex_error(said: &str, pattern: &str, examples: &[&str]) -> String {
    let examples = examples.join("',  or '");
    format!("{said} (e.g. '{examples}', regex used for validation is '{pattern}')")
}

/// The pairs of a map from text to text.
fn strings(map: &Value) -> impl Iterator<Item = (&str, &str)> {
    map.as_object().into_iter().flatten().filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
}

pub(crate) fn invalid(field: &str, value: &str, why: &str) -> Cause {
    invalid_value(field, &quoted(value), why)
}

/// With a value as it is said: quoted, a number, or JSON.
pub(crate) fn invalid_value(field: &str, value: &str, why: &str) -> Cause {
    cause(CauseReason::FieldValueInvalid, field, format!("Invalid value: {value}: {why}"))
}

pub(crate) fn required(field: &str, why: &str) -> Cause {
    let message = if why.is_empty() { "Required value".to_owned() } else { format!("Required value: {why}") };
    cause(CauseReason::FieldValueRequired, field, message)
}

pub(crate) fn forbidden(field: &str, why: &str) -> Cause {
    cause(CauseReason::FieldValueForbidden, field, format!("Forbidden: {why}"))
}

/// `value` and the supported ones as they are said.
pub(crate) fn not_supported(field: &str, value: &str, supported: &[&str]) -> Cause {
    let supported: Vec<String> = supported.iter().map(|value| quoted(value)).collect();
    let message = format!("Unsupported value: {value}: supported values: {}", supported.join(", "));
    cause(CauseReason::FieldValueNotSupported, field, message)
}

pub(crate) fn too_long(field: &str, limit: usize) -> Cause {
    cause(CauseReason::FieldValueTooLong, field, format!("Too long: may not be more than {limit} bytes"))
}

fn cause(reason: CauseReason, field: &str, message: String) -> Cause {
    Cause { reason, field: field.to_owned(), message }
}

/// Text in double quotes, escaped as the API server (which is written in Go) escapes it.
pub(crate) fn quoted(text: &str) -> String {
    let mut said = String::with_capacity(text.len() + 2);
    said.push('"');
    for letter in text.chars() {
        match letter {
            '"' => said.push_str("\\\""),
            '\\' => said.push_str("\\\\"),
            '\x07' => said.push_str("\\a"),
            '\x08' => said.push_str("\\b"),
            '\x0c' => said.push_str("\\f"),
            '\n' => said.push_str("\\n"),
            '\r' => said.push_str("\\r"),
            '\t' => said.push_str("\\t"),
            '\x0b' => said.push_str("\\v"),
            _ => {
                let code = u32::from(letter);
                // Writing to a string cannot fail.
                let _ = match code {
                    0..0x20 | 0x7f => write!(said, "\\x{code:02x}"),
                    _ if is_printable(letter) => write!(said, "{letter}"),
                    ..=0xffff => write!(said, "\\u{code:04x}"),
                    _ => write!(said, "\\U{code:08x}"),
                };
            }
        }
    }
    said.push('"');
    said
}

/// Whether the letter is shown as it is.
fn is_printable(letter: char) -> bool {
    letter == ' ' || !(letter.is_whitespace() || letter.escape_debug().count() > 2)
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;
    use crate::kinds::Kinds;

    const NO_SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
    const NO_LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
    const NO_NAME_PART: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    const NO_KEY: &str = "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
    const NO_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

    #[test]
    fn kinds_have_rules_for_names() {
        let long = "a".repeat(64);
        let longest = "a".repeat(254);
        let cases: &[(&str, &str, &str, &[&str])] = &[
            ("", "pods", "a.b-c", &[]),
            ("", "pods", "0", &[]),
            ("", "pods", &long, &[]),
            ("", "pods", "", &[NO_SUBDOMAIN]),
            ("", "pods", "A", &[NO_SUBDOMAIN]),
            ("", "pods", "a..b", &[NO_SUBDOMAIN]),
            ("", "pods", "-a", &[NO_SUBDOMAIN]),
            ("", "pods", "a-", &[NO_SUBDOMAIN]),
            ("", "pods", "é", &[NO_SUBDOMAIN]),
            ("", "pods", &longest, &["must be no more than 253 characters"]),
            ("", "namespaces", "a.b", &["must not contain dots"]),
            ("", "namespaces", "a_b", &[NO_LABEL]),
            ("", "namespaces", &long, &["must be no more than 63 characters"]),
            ("", "services", "1a", &[]),
            ("", "services", "a.b", &["must not contain dots"]),
            ("apps", "statefulsets", "a.b", &["must not contain dots"]),
            ("apps", "deployments", "a.b", &[]),
            ("rbac.authorization.k8s.io", "roles", "system:A b", &[]),
            ("rbac.authorization.k8s.io", "roles", ".", &["may not be '.'"]),
            ("rbac.authorization.k8s.io", "clusterroles", "..", &["may not be '..'"]),
            (
                "rbac.authorization.k8s.io",
                "rolebindings",
                "a/b%",
                &["may not contain '/'", "may not contain '%'"],
            ),
            ("policy", "poddisruptionbudgets", "A", &[]),
        ];
        let kinds = Kinds::built_in();
        for (group, plural, name, problems) in cases {
            let resource = kinds.find(group, "v1", plural).unwrap();
            assert_eq!(NameRule::of(resource).problems(name), *problems, "{plural} {name}");
        }
    }

    #[test]
    fn beginnings_of_names_may_end_with_a_dash() {
        for (prefix, fine) in [
            ("a-", true),
            ("a", true),
            ("ab-", true),
            ("a--", true),
            ("-", false),
            ("a.-", true),
            ("A-", true),
            ("aA-", true),
            ("Ab-", false),
        ] {
            assert_eq!(NameRule::Subdomain.problems_of_prefix(prefix).is_empty(), fine, "{prefix}");
        }
    }

    #[test]
    fn generated_names_fit() {
        let long = "a".repeat(70);
        for (base, expected) in [
            ("web-", "web-x7k2p".to_owned()),
            (&*long, format!("{}x7k2p", "a".repeat(58))),
            (&*format!("{}é", "a".repeat(57)), format!("{}x7k2p", "a".repeat(57))),
        ] {
            assert_eq!(generate_name(base, "x7k2p"), expected);
        }
    }

    #[test]
    fn labels_and_annotations_have_rules() {
        type Problems<'a> = &'a [(&'a str, &'a str)];
        let long = "a".repeat(64);
        let cases: &[(&str, &str, Problems<'_>)] = &[
            ("a", "b", &[]),
            ("example.com/A_b.c", "", &[]),
            ("", "x", &[("", "name part must be non-empty"), ("", NO_NAME_PART)]),
            ("/a", "x", &[("/a", "prefix part must be non-empty")]),
            ("a/b/c", "x", &[("a/b/c", NO_KEY)]),
            ("a b", "x", &[("a b", NO_NAME_PART)]),
            ("a", "-x", &[("-x", NO_VALUE)]),
            ("a", &long, &[(&long, "must be no more than 63 bytes")]),
            (&long, "x", &[(&long, "name part must be no more than 63 bytes")]),
        ];
        for (key, value, problems) in cases {
            let expected: Vec<Cause> =
                problems.iter().map(|(bad, why)| invalid("metadata.labels", bad, why)).collect();
            assert_eq!(
                validate_labels(&json!({(*key): value}), "metadata.labels"),
                expected,
                "{key}={value}"
            );
        }
        let prefix = validate_labels(&json!({"A.b/c": ""}), "metadata.labels");
        assert_eq!(prefix, [invalid("metadata.labels", "A.b/c", &format!("prefix part {NO_SUBDOMAIN}"))]);

        let annotations = |annotations: &Value| validate_annotations(annotations, "metadata.annotations");
        assert_eq!(annotations(&json!({"A.b/c": "any text\n"})), []);
        assert_eq!(annotations(&json!({"A b": ""})), [invalid("metadata.annotations", "A b", NO_NAME_PART)]);
        assert_eq!(annotations(&json!({"a": "x".repeat(ANNOTATIONS_LIMIT - 1)})), []);
        let large = annotations(&json!({"a": "x".repeat(ANNOTATIONS_LIMIT)}));
        assert_eq!(large[0].message, "Too long: may not be more than 262144 bytes");
        assert_eq!(large[0].reason, CauseReason::FieldValueTooLong);
    }

    #[test]
    fn text_is_quoted_as_in_go() {
        for (text, expected) in [
            ("a b", r#""a b""#),
            ("\"\\", r#""\"\\""#),
            ("\n\t\x00\x7f\x07", r#""\n\t\x00\x7f\a""#),
            ("é日", "\"é日\""),
            ("\u{a0}\u{200b}", r#""\u00a0\u200b""#),
            ("it's", "\"it's\""),
        ] {
            assert_eq!(quoted(text), expected);
        }
    }
}
