//! What is asked: cases of a file, each a name and its requests.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use serde_json::Value;

const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) requests: Vec<Request>,
}

#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) content_type: &'static str,
    /// Of a watch: how many events to wait for.
    pub(crate) events: usize,
    /// Asked until it succeeds, and its answer is not compared: what comes first differs, what follows does not.
    pub(crate) is_quiet: bool,
    pub(crate) body: String,
}

impl Case {
    /// A case begins with `# name`, a request with its method; what follows is its body.
    pub(crate) fn all(text: &str) -> Vec<Self> {
        let mut cases: Vec<Self> = Vec::new();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            if let Some(name) = line.strip_prefix("# ") {
                cases.push(Self { name: name.to_owned(), requests: Vec::new() });
                continue;
            }
            let case = cases.last_mut().unwrap_or_else(|| panic!("no case before: {line}"));
            if let Some(request) = Request::begin(line) {
                case.requests.push(request);
                continue;
            }
            let request = case.requests.last_mut().unwrap_or_else(|| panic!("no request before: {line}"));
            request.body.push_str(line);
            request.body.push('\n');
        }
        cases
    }
}

impl Request {
    /// `GET path`, `PATCH path merge`, `WATCH path 3`; quiet with a `~` before it.
    fn begin(line: &str) -> Option<Self> {
        let is_quiet = line.starts_with('~');
        let mut words = line.trim_start_matches('~').split_whitespace();
        let (method, path, how) = (words.next()?, words.next()?, words.next().unwrap_or_default());
        let is_watch = method == "WATCH";
        let known = ["GET", "POST", "PUT", "PATCH", "DELETE"];
        let method = if is_watch { "GET" } else { known.into_iter().find(|known| *known == method)? };
        let content_type = match how {
            "json" => "application/json-patch+json",
            "merge" => "application/merge-patch+json",
            "strategic" => "application/strategic-merge-patch+json",
            "apply" => "application/apply-patch+yaml",
            "text" => "text/plain",
            "yaml" => YAML,
            "protobuf" => PROTOBUF,
            _ => "application/json",
        };
        Some(Self {
            method: method.parse().unwrap(),
            path: path.to_owned(),
            content_type,
            is_quiet,
            events: if is_watch { how.parse().unwrap() } else { 0 },
            body: String::new(),
        })
    }

    /// The body as it is sent: protobuf is written down in base64.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        match self.content_type {
            PROTOBUF => STANDARD.decode(self.body.trim_end()).unwrap(),
            YAML => self.body.as_bytes().to_vec(),
            _ => self.body.trim_end().as_bytes().to_vec(),
        }
    }

    /// With `{ns}` and what earlier answers said: `{1.metadata.uid}` is of the first.
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
        Self { path: fill(&self.path), body: fill(&self.body), ..self.clone() }
    }
}
