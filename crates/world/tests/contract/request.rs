//! One request, as cases write it down.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use serde_json::Value;

#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) form: Form,
    pub(crate) watched: Option<Watched>,
    /// Asked until it succeeds, and its answer is not compared: what comes first differs, what follows does not.
    pub(crate) is_quiet: bool,
    /// Whether it is compared who manages what.
    pub(crate) shows_managers: bool,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

/// How long a watch is listened to.
#[derive(Clone, Debug)]
pub(crate) enum Watched {
    Events(usize),
    /// Until this object is told of.
    Until(String),
}

/// What a body is said to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Object,
    JsonPatch,
    MergePatch,
    StrategicPatch,
    Apply,
    Text,
    Yaml,
    /// Written down in base64.
    Protobuf,
    /// Nothing is said.
    Unsaid,
}

impl Form {
    pub(crate) const WORDS: [(&str, Self); 8] = [
        ("json", Self::JsonPatch),
        ("merge", Self::MergePatch),
        ("strategic", Self::StrategicPatch),
        ("apply", Self::Apply),
        ("text", Self::Text),
        ("yaml", Self::Yaml),
        ("protobuf", Self::Protobuf),
        ("unsaid", Self::Unsaid),
    ];

    pub(crate) fn content_type(self) -> Option<&'static str> {
        match self {
            Self::Object => Some("application/json"),
            Self::JsonPatch => Some("application/json-patch+json"),
            Self::MergePatch => Some("application/merge-patch+json"),
            Self::StrategicPatch => Some("application/strategic-merge-patch+json"),
            Self::Apply => Some("application/apply-patch+yaml"),
            Self::Text => Some("text/plain"),
            Self::Yaml => Some("application/yaml"),
            Self::Protobuf => Some("application/vnd.kubernetes.protobuf"),
            Self::Unsaid => None,
        }
    }
}

impl Request {
    pub(crate) fn new(method: Method, path: &str, form: Form, body: String) -> Self {
        Self {
            method,
            path: path.to_owned(),
            form,
            watched: None,
            is_quiet: false,
            shows_managers: false,
            headers: Vec::new(),
            body,
        }
    }

    /// The body as it is sent.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        match self.form {
            Form::Protobuf => STANDARD.decode(self.body.trim_end()).unwrap(),
            Form::Yaml => self.body.as_bytes().to_vec(),
            _ => self.body.trim_end().as_bytes().to_vec(),
        }
    }

    /// With `{ns}` and what earlier answers said: `{1.uid}` is of the first.
    pub(crate) fn filled_in(&self, namespace: &str, answers: &[Value]) -> Self {
        let fill = |text: &str| {
            let mut text = text.replace("{ns}", namespace);
            for (index, answer) in answers.iter().enumerate() {
                for (word, path) in [
                    ("rv", "/metadata/resourceVersion"),
                    ("uid", "/metadata/uid"),
                    ("continue", "/metadata/continue"),
                    ("name", "/metadata/name"),
                ] {
                    let value = answer.pointer(path).and_then(Value::as_str).unwrap_or_default();
                    text = text.replace(&format!("{{{}.{word}}}", index + 1), value);
                }
            }
            text
        };
        let headers = self.headers.iter().map(|(name, value)| (name.clone(), fill(value))).collect();
        let watched = self.watched.as_ref().map(|watched| match watched {
            Watched::Events(count) => Watched::Events(*count),
            Watched::Until(name) => Watched::Until(fill(name)),
        });
        Self { path: fill(&self.path), body: fill(&self.body), headers, watched, ..self.clone() }
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_quiet {
            f.write_str("~")?;
        }
        match &self.watched {
            None => write!(f, "{} {}", self.method, self.path)?,
            Some(Watched::Events(events)) => write!(f, "WATCH {} {events}", self.path)?,
            Some(Watched::Until(name)) => write!(f, "WATCH {} until:{name}", self.path)?,
        }
        if let Some((word, _)) = Form::WORDS.iter().find(|(_, form)| *form == self.form) {
            write!(f, " {word}")?;
        }
        if self.shows_managers {
            f.write_str(" managed")?;
        }
        for (name, value) in &self.headers {
            write!(f, "\n@{name}: {value}")?;
        }
        if self.body.is_empty() { Ok(()) } else { write!(f, "\n{}", self.body.trim_end()) }
    }
}
