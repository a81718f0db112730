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
    pub(crate) deed: Deed,
    pub(crate) until: Until,
    /// Whether it is compared who manages what.
    pub(crate) shows_managers: bool,
    /// The only parts of a large answer that are compared; all of it without any.
    pub(crate) at: Vec<String>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

/// What is done with it.
#[derive(Clone, Debug)]
pub(crate) enum Deed {
    Ask,
    Watch(Watched),
    /// The watch of an earlier request, by its number, is listened to again.
    Hear(usize, Watched),
    /// Nothing is asked: the past is taken away.
    Compact,
}

/// How long a watch is listened to.
#[derive(Clone, Debug)]
pub(crate) enum Watched {
    Events(usize),
    /// Until this object is told of.
    Until(String),
}

/// How often it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    Answered,
    /// Until it succeeds, and the answer is not compared: what comes first differs, what follows does not.
    DoneQuietly,
    /// Until it is refused, and that is compared.
    Refused,
}

impl Until {
    pub(crate) const LETTERS: [(char, Self); 2] = [('~', Self::DoneQuietly), ('?', Self::Refused)];

    pub(crate) fn is_quiet(self) -> bool {
        self == Self::DoneQuietly
    }

    /// Whether an answer with this code is what was waited for.
    pub(crate) fn is_met(self, code: u16) -> bool {
        match self {
            Self::Answered => true,
            Self::DoneQuietly => code < 300,
            Self::Refused => code >= 300,
        }
    }
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
            deed: Deed::Ask,
            until: Until::Answered,
            shows_managers: false,
            at: Vec::new(),
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
        let at = self.at.iter().map(|path| fill(path)).collect();
        let deed = self.deed.clone().with(fill);
        Self { path: fill(&self.path), body: fill(&self.body), headers, at, deed, ..self.clone() }
    }
}

impl Deed {
    /// With what it waits for said otherwise.
    pub(crate) fn with(self, say: impl Fn(&str) -> String) -> Self {
        let watched = |watched| match watched {
            Watched::Events(count) => Watched::Events(count),
            Watched::Until(name) => Watched::Until(say(&name)),
        };
        match self {
            Self::Watch(until) => Self::Watch(watched(until)),
            Self::Hear(of, until) => Self::Hear(of, watched(until)),
            Self::Ask | Self::Compact => self,
        }
    }
}

impl Watched {
    /// `3`, or `until:name`.
    pub(crate) fn parse(text: &str) -> Self {
        match text.strip_prefix("until:") {
            Some(name) => Self::Until(name.to_owned()),
            None => Self::Events(text.parse().unwrap()),
        }
    }
}

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Events(count) => write!(f, "{count}"),
            Self::Until(name) => write!(f, "until:{name}"),
        }
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((letter, _)) = Until::LETTERS.iter().find(|(_, until)| *until == self.until) {
            write!(f, "{letter}")?;
        }
        match &self.deed {
            Deed::Ask => write!(f, "{} {}", self.method, self.path)?,
            Deed::Watch(watched) => write!(f, "WATCH {} {watched}", self.path)?,
            Deed::Hear(of, watched) => write!(f, "HEAR {of} {watched}")?,
            Deed::Compact => f.write_str("COMPACT")?,
        }
        if let Some((word, _)) = Form::WORDS.iter().find(|(_, form)| *form == self.form) {
            write!(f, " {word}")?;
        }
        if self.shows_managers {
            f.write_str(" managed")?;
        }
        if !self.at.is_empty() {
            write!(f, " at:{}", self.at.join(","))?;
        }
        for (name, value) in &self.headers {
            write!(f, "\n@{name}: {value}")?;
        }
        if self.body.is_empty() { Ok(()) } else { write!(f, "\n{}", self.body.trim_end()) }
    }
}
