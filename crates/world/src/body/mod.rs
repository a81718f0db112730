//! Bodies of requests, in all the forms in which clients send them, and what the server says of those it cannot read.

mod json;
pub(crate) mod quantity;
mod time;
mod typed;
mod yaml;

use std::fmt::Write;

use crate::failure::{Cause, CauseReason, Failure, Reason};
use crate::json::{Value, json};
use crate::proto::{Envelope, Message, TABLE};

pub(crate) use json::{DEPTH_MAX, Json};
pub(crate) use typed::{Read, read};

/// How a body is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    Yaml,
    Protobuf,
}

impl Format {
    /// A body that says nothing of itself is JSON.
    pub(crate) fn of(content_type: &str) -> Result<Self, Failure> {
        match content_type.split(';').next().unwrap_or_default().trim() {
            "" | "application/json" => Ok(Self::Json),
            "application/yaml" => Ok(Self::Yaml),
            "application/vnd.kubernetes.protobuf" => Ok(Self::Protobuf),
            _ => Err(Failure::new(
                Reason::UnsupportedMediaType,
                "the body of the request was in an unknown format - accepted media types include: application/json, \
                 application/yaml, application/vnd.kubernetes.protobuf",
            )),
        }
    }
}

/// What is to become of fields that are unknown or there twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Directive {
    Ignore,
    Warn,
    Strict,
}

impl Directive {
    /// From `fieldValidation`. `options` is what the server calls the parameters of the request.
    pub(crate) fn parse(text: &str, options: &str) -> Result<Self, Failure> {
        match text {
            "Ignore" => Ok(Self::Ignore),
            "" | "Warn" => Ok(Self::Warn),
            "Strict" => Ok(Self::Strict),
            other => {
                let supported = r#""", "Ignore", "Strict", "Warn""#;
                let cause = Cause {
                    reason: CauseReason::FieldValueNotSupported,
                    field: "fieldValidation".to_owned(),
                    message: format!("Unsupported value: {other:?}: supported values: {supported}"),
                };
                Err(Failure::invalid_options(options, vec![cause]))
            }
        }
    }
}

/// A kind by its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind<'a> {
    pub(crate) api_version: &'a str,
    pub(crate) kind: &'a str,
}

/// Why a body cannot be read: `named` once it was clear what it wanted to be, as kind and version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unreadable {
    named: Option<(String, String)>,
    why: String,
}

impl Unreadable {
    fn unnamed(why: impl Into<String>) -> Self {
        Self { named: None, why: why.into() }
    }

    fn of(named: &Named, why: String) -> Self {
        let version = named.api_version.rsplit('/').next().unwrap_or_default();
        Self { named: Some((named.kind.clone(), version.to_owned())), why }
    }

    /// As said of an object that was to be of a kind.
    pub(crate) fn said_of_a(self, kind: &str, body: &[u8]) -> Failure {
        Failure::bad_request(match self.named {
            Some((named, version)) => {
                format!("{named} in version {version:?} cannot be handled as a {kind}: {}", self.why)
            }
            None => format!(
                "the object provided is unrecognized (must be of type {kind}): {} ({})",
                self.why,
                summary(body)
            ),
        })
    }
}

/// The beginning of a body, in hexadecimal where it does not look like JSON.
fn summary(body: &[u8]) -> String {
    const BYTES_MAX: usize = 30;
    let (shown, rest) = body.split_at(body.len().min(BYTES_MAX));
    let shown = match shown {
        [] => "<empty>".to_owned(),
        [b'{', ..] => String::from_utf8_lossy(shown).into_owned(),
        _ => shown.iter().fold(String::new(), |mut text, byte| {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        }),
    };
    if rest.is_empty() { shown } else { format!("{shown} ...") }
}

/// What an object says that it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Named {
    api_version: String,
    kind: String,
}

impl Named {
    /// Where it says nothing, it is what is expected.
    fn or(self, expected: Kind<'_>) -> Self {
        let (group, version) = self.api_version.split_once('/').unwrap_or(("", &self.api_version));
        let expected_group = expected.api_version.split_once('/').map_or("", |(group, _)| group);
        let api_version = match (group, version) {
            (group, "") if group.is_empty() || group == expected_group => expected.api_version.to_owned(),
            _ => self.api_version,
        };
        let kind = if self.kind.is_empty() { expected.kind.to_owned() } else { self.kind };
        Self { api_version, kind }
    }
}

/// An object of a built-in kind: the expected one, or the one that it says it is. One that nobody knows is told by its
/// names alone.
pub(crate) fn object(format: Format, body: &[u8], expected: Kind<'_>) -> Result<Read, Unreadable> {
    if format == Format::Protobuf {
        let envelope = Envelope::read(body).map_err(Unreadable::unnamed)?;
        let said = Named { api_version: envelope.api_version.clone(), kind: envelope.kind.clone() };
        let named = said.or(expected);
        let value = if let Some(message) = message_of(&named) {
            envelope.open(message).map_err(|why| Unreadable::of(&named, why))?.into()
        } else {
            json!({})
        };
        return Ok(named.onto(Read { value, strict: Vec::new() }));
    }
    let (json, repeated) = tree(format, body)?;
    let named = names_of(&json)?.or(expected);
    let mut read = match message_of(&named) {
        Some(message) => typed::read(message, &json).map_err(|why| Unreadable::of(&named, why))?,
        None => Read { value: json!({}), strict: Vec::new() },
    };
    read.strict.splice(..0, repeated);
    Ok(named.onto(read))
}

/// Whether a body says of what version its object is. What is not there is taken for what is expected.
pub(crate) fn says_version(content_type: &str, body: &[u8]) -> bool {
    let said = match Format::of(content_type) {
        Ok(Format::Protobuf) => Envelope::read(body).ok().map(|envelope| envelope.api_version),
        Ok(format) => {
            tree(format, body).and_then(|(json, _)| names_of(&json)).ok().map(|named| named.api_version)
        }
        Err(_) => None,
    };
    said.is_some_and(|version| !version.is_empty())
}

impl Named {
    fn onto(self, mut read: Read) -> Read {
        read.value["apiVersion"] = json!(self.api_version);
        read.value["kind"] = json!(self.kind);
        read
    }
}

/// How something is to be deleted: options are the same in every version of every group.
pub(crate) fn delete_options(content_type: &str, body: &[u8]) -> Result<Value, Failure> {
    let expected = Kind { api_version: "meta.k8s.io/v1", kind: "DeleteOptions" };
    let format = Format::of(content_type)?;
    let read = match format {
        Format::Protobuf => Envelope::read(body).and_then(|envelope| {
            let said = Named { api_version: envelope.api_version.clone(), kind: envelope.kind.clone() };
            let message = options_message(said.or(expected))?;
            envelope.open(message).map(Value::Object)
        }),
        Format::Json | Format::Yaml => tree(format, body)
            .and_then(|(json, _)| Ok((names_of(&json)?, json)))
            .map_err(|unreadable| unreadable.why)
            .and_then(|(said, json)| {
                typed::read(options_message(said.or(expected))?, &json).map(|read| read.value)
            }),
    };
    read.map_err(Failure::bad_request)
}

fn options_message(named: Named) -> Result<&'static Message, String> {
    let message = TABLE.named("meta.v1.DeleteOptions").filter(|_| named.kind == "DeleteOptions");
    message.ok_or_else(|| {
        let Named { api_version, kind } = named;
        format!(
            "no kind {kind:?} is registered for version {api_version:?} in scheme \"pkg/runtime/scheme.go:111\""
        )
    })
}

/// An object of a custom kind: whatever it says, but for its metadata, which is as that of all objects.
pub(crate) fn custom(format: Format, body: &[u8]) -> Result<Read, Unreadable> {
    let (json, repeated) = tree(format, body)?;
    let named = names_of(&json)?;
    if named.kind.is_empty() {
        let body = String::from_utf8_lossy(body);
        return Err(Unreadable::unnamed(format!("Object 'Kind' is missing in '{body}'")));
    }
    let mut read = typed::read_untyped(&json);
    read.strict.splice(..0, repeated);
    let mut value = std::mem::take(&mut read.value);
    read.strict.extend(tidy_metadata(&mut value).map_err(|why| Unreadable::of(&named, why))?);
    Ok(Read { value, strict: read.strict })
}

/// Brings the metadata of an object into the form that all have; tells the fields that it dropped.
pub(crate) fn tidy_metadata(object: &mut Value) -> Result<Vec<String>, String> {
    let Some(metadata) = object.get_mut("metadata") else { return Ok(Vec::new()) };
    let Some(message) = TABLE.named("meta.v1.ObjectMeta") else { return Ok(Vec::new()) };
    let read = typed::read(message, &Json::from(&*metadata))?;
    *metadata = read.value;
    let within = |told: &String| told.replacen("field \"", "field \"metadata.", 1);
    Ok(read.strict.iter().map(within).collect())
}

/// What a patch says, and what a strict reader minds of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchForm {
    Json,
    Merge,
    Strategic,
    Apply,
}

const A_MAP: &str = "Go value of type map[string]interface {}";

/// A patch, which is JSON but for those that are applied.
pub(crate) fn patch(form: PatchForm, body: &[u8], directive: Directive) -> Result<Read, Failure> {
    let is_lax = directive == Directive::Ignore;
    match form {
        PatchForm::Json => {
            let said = |why: String| {
                Failure::bad_request(if is_lax { why } else { format!("error decoding patch: {why}") })
            };
            let json = Json::parse(body).map_err(said)?;
            let mut read = typed::read_list("patch.handlers.jsonPatchOp", &json).map_err(said)?;
            for told in &mut read.strict {
                told.insert_str(0, "json patch ");
            }
            Ok(read)
        }
        PatchForm::Merge => {
            let invalid = || Failure::bad_request("Invalid JSON Patch");
            let said = |why: String| {
                if is_lax { invalid() } else { Failure::bad_request(format!("error decoding patch: {why}")) }
            };
            let json = Json::parse(body).map_err(said)?;
            match &json {
                Json::Object(_) => Ok(typed::read_untyped(&json)),
                Json::Null => Err(invalid()),
                other => Err(said(format!("json: cannot unmarshal {} into {A_MAP}", other.go_kind()))),
            }
        }
        PatchForm::Strategic => match Json::parse(body).map_err(Failure::bad_request)? {
            json @ Json::Object(_) => Ok(typed::read_untyped(&json)),
            Json::Null => Ok(Read { value: json!({}), strict: Vec::new() }),
            other => {
                let kind = other.go_kind();
                Err(Failure::bad_request(format!("json: cannot unmarshal {kind} into {A_MAP}")))
            }
        },
        PatchForm::Apply => applied(body),
    }
}

fn applied(body: &[u8]) -> Result<Read, Failure> {
    let (value, repeated) = yaml::parse(body).map_err(|why| {
        Failure::bad_request(format!("error decoding YAML: error converting YAML to JSON: {why}"))
    })?;
    let strict = repeated.map(|repeated| format!("error converting YAML to JSON: {repeated}"));
    match value {
        Value::Object(_) => Ok(Read { value, strict: strict.into_iter().collect() }),
        Value::Null => Ok(Read { value: json!({}), strict: Vec::new() }),
        other => Err(Failure::bad_request(format!(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into {A_MAP}",
            Json::from(&other).go_kind()
        ))),
    }
}

/// What strict readers mind, as warnings.
pub(crate) fn warnings(strict: &[String]) -> impl Iterator<Item = &str> {
    strict.iter().flat_map(|told| {
        let told = told.strip_prefix("error converting YAML to JSON: ").unwrap_or(told);
        let told = told.strip_prefix("yaml: unmarshal errors:\n").unwrap_or(told);
        told.lines().map(str::trim)
    })
}

/// What strict readers mind, as the reason to refuse.
pub(crate) fn strict_error(strict: &[String]) -> String {
    format!("strict decoding error: {}", strict.join(", "))
}

fn message_of(named: &Named) -> Option<&'static Message> {
    TABLE.of_kind(&named.api_version, &named.kind)
}

fn tree(format: Format, body: &[u8]) -> Result<(Json, Option<String>), Unreadable> {
    if format == Format::Yaml {
        let (value, repeated) = yaml::parse(body).map_err(Unreadable::unnamed)?;
        return Ok((Json::from(&value), repeated));
    }
    let parsed = Json::parse(body);
    let json = parsed.map_err(|why| Unreadable::unnamed(format!("{NO_NAMES}{why}")))?;
    Ok((json, None))
}

const NO_NAMES: &str = "couldn't get version/kind; json parse error: ";

fn names_of(json: &Json) -> Result<Named, Unreadable> {
    const STRUCT: &str = r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
    let fields = match json {
        Json::Object(fields) => fields,
        Json::Null => return Ok(Named::default()),
        other => {
            let kind = other.go_kind();
            let why = format!("{NO_NAMES}json: cannot unmarshal {kind} into Go value of type {STRUCT}");
            return Err(Unreadable::unnamed(why));
        }
    };
    let mut named = Named::default();
    for (key, value) in fields {
        let slot = match &**key {
            "apiVersion" => &mut named.api_version,
            "kind" => &mut named.kind,
            _ => continue,
        };
        match value {
            Json::Text(text) => slot.clone_from(text),
            Json::Null => {}
            other => {
                let kind = other.go_kind();
                let why = format!(
                    "{NO_NAMES}json: cannot unmarshal {kind} into Go struct field .{key} of type string"
                );
                return Err(Unreadable::unnamed(why));
            }
        }
    }
    if named.api_version.matches('/').count() > 1 {
        let why = format!("unexpected GroupVersion string: {}", named.api_version);
        return Err(Unreadable::unnamed(why));
    }
    Ok(named)
}
