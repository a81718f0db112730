//! Requests as they are sent, whatever is in them. They are written down as the cases of `tests/contract` are, and
//! nothing that is written down is too odd to be read.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use serde_json::Value;

use crate::request::{Form, Request};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, Vec<u8>)>,
    pub(crate) body: Vec<u8>,
}

const METHODS: [&str; 8] = ["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "WATCH"];

impl Sent {
    /// All that a text says. What is no request belongs to the one before it, and is nobody's before the first.
    pub(crate) fn all(text: &[u8]) -> Vec<Self> {
        let mut all: Vec<(Self, Form)> = Vec::new();
        for line in text.split(|byte| *byte == b'\n') {
            let words = String::from_utf8_lossy(line);
            if let Some(begun) = begin(&words) {
                all.push(begun);
                continue;
            }
            let Some((last, _)) = all.last_mut() else { continue };
            let header = words.strip_prefix('@').and_then(|header| header.split_once(": "));
            match header {
                Some((name, value)) => last.set_header(name, value.as_bytes()),
                None if words.starts_with("# ") || words.starts_with("! ") || words.is_empty() => {}
                None => {
                    last.body.extend_from_slice(line);
                    last.body.push(b'\n');
                }
            }
        }
        all.into_iter().map(|(sent, form)| sent.with_body_as(form)).collect()
    }

    fn with_body_as(mut self, form: Form) -> Self {
        if form != Form::Yaml && self.body.last() == Some(&b'\n') {
            self.body.pop();
        }
        if form == Form::Protobuf
            && let Ok(bytes) = STANDARD.decode(&self.body)
        {
            self.body = bytes;
        }
        self
    }

    pub(crate) fn set_header(&mut self, name: &str, value: &[u8]) {
        self.headers.retain(|(known, _)| known != name);
        self.headers.push((name.to_owned(), value.to_vec()));
    }

    /// With a namespace, and what earlier answers said, in their places.
    pub(crate) fn filled_in(&self, answers: &[Value]) -> Self {
        let Ok(body) = String::from_utf8(self.body.clone()) else { return self.clone() };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let headers = self.headers.iter().map(|(name, value)| (name.clone(), text(value))).collect();
        let request = Request { headers, ..Request::new(Method::GET, &self.path, Form::Object, body) };
        let request = request.filled_in("default", answers);
        let headers = request.headers.into_iter().map(|(name, value)| (name, value.into_bytes())).collect();
        Self { method: self.method.clone(), path: request.path, headers, body: request.body.into_bytes() }
    }

    /// `None` for what HTTP itself does not allow: it never gets as far as a server.
    pub(crate) fn built(&self) -> Option<http::Request<axum::body::Body>> {
        let mut built = http::Request::builder().method(&*self.method).uri(&*self.path);
        for (name, value) in &self.headers {
            built = built.header(&**name, &**value);
        }
        built.body(axum::body::Body::from(self.body.clone())).ok()
    }
}

/// `GET path`, `PATCH path merge`, `WATCH path 3`, with or without a `~` before it.
fn begin(line: &str) -> Option<(Sent, Form)> {
    let mut words = line.trim_start_matches('~').split_whitespace();
    let (method, path, how) = (words.next()?, words.next()?, words.next().unwrap_or_default());
    let method = METHODS.into_iter().find(|known| *known == method).filter(|_| path.starts_with('/'))?;
    let form = Form::WORDS.iter().find(|(word, _)| *word == how).map_or(Form::Object, |(_, form)| *form);
    let method = if method == "WATCH" { "GET" } else { method };
    let mut sent = Sent { method: method.to_owned(), path: path.to_owned(), ..Sent::default() };
    if let Some(content_type) = form.content_type() {
        sent.set_header("content-type", content_type.as_bytes());
    }
    Some((sent, form))
}
