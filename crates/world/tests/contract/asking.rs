//! Asking a Kubernetes, in a namespace of the case's own.

use std::collections::BTreeMap;
use std::time::Duration;

use http::{HeaderMap, Method};
use kube::Client;
use kube::client::Body;
use serde_json::Value;

use crate::kubernetes::Kubernetes;
use crate::plain::{Listener, part, plain};
use crate::request::{Deed, Form, Request};

/// Definitions are served within a second or two, or a minute on a busy machine.
const TRIES: usize = 600;

/// What was said to one request, in lines without what differs from run to run.
pub(crate) type Said = Vec<String>;

/// The answers to requests in a new namespace with an account for its pods.
pub(crate) async fn play(kubernetes: &Kubernetes, requests: &[Request], namespace: &str) -> Vec<Said> {
    for (path, body) in [
        ("/api/v1/namespaces".to_owned(), format!(r#"{{"metadata": {{"name": "{namespace}"}}}}"#)),
        (
            format!("/api/v1/namespaces/{namespace}/serviceaccounts"),
            r#"{"metadata": {"name": "default"}}"#.to_owned(),
        ),
    ] {
        let answer = ask(&kubernetes.client, &Request::new(Method::POST, &path, Form::Object, body)).await;
        assert!(matches!(answer.code, 201 | 409), "{:?}", answer.objects);
    }
    let mut watches: BTreeMap<usize, Listener> = BTreeMap::new();
    let mut answers: Vec<Value> = Vec::new();
    let mut lines = Vec::new();
    for (index, request) in requests.iter().enumerate() {
        let request = request.filled_in(namespace, &answers);
        let mut answer = match &request.deed {
            Deed::Compact => {
                kubernetes.compact().await;
                Answer::default()
            }
            Deed::Hear(of, watched) => {
                let listener = watches.get_mut(&(of - 1)).unwrap_or_else(|| panic!("no watch: {request}"));
                let (objects, end) = listener.listen(watched).await;
                Answer { code: 200, objects, end, ..Answer::default() }
            }
            Deed::Ask | Deed::Watch(_) => {
                let mut answer = ask(&kubernetes.client, &request).await;
                for _ in 0..TRIES {
                    if request.until.is_met(answer.code) {
                        break;
                    }
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    answer = ask(&kubernetes.client, &request).await;
                }
                answer
            }
        };
        lines.push(if request.until.is_quiet() { Vec::new() } else { answer.lines(&request, namespace) });
        if let Some(listener) = answer.listener.take() {
            watches.insert(index, listener);
        }
        answers.push(answer.objects.into_iter().next().unwrap_or_default());
    }
    lines
}

/// What comes back: one object, or as many events as are waited for, and what is said beside them.
#[derive(Default)]
struct Answer {
    code: u16,
    objects: Vec<Value>,
    /// What became of a watch that told less than was waited for.
    end: Option<&'static str>,
    beside: Vec<String>,
    listener: Option<Listener>,
}

impl Answer {
    fn lines(&self, request: &Request, namespace: &str) -> Said {
        let code = self.code;
        let told = self.objects.iter().map(|object| {
            let parts = match &request.at[..] {
                [] => vec![object],
                paths => paths.iter().map(|path| part(object, path)).collect(),
            };
            let parts = parts.into_iter().map(|part| plain(part, namespace, request.shows_managers));
            format!("{code} {}", parts.collect::<Vec<String>>().join(" "))
        });
        let end = self.end.iter().map(|end| format!("{code} {end}"));
        told.chain(end).chain(self.beside.iter().cloned()).collect()
    }
}

async fn ask(client: &Client, request: &Request) -> Answer {
    let mut built = http::Request::builder().method(request.method.clone()).uri(&request.path);
    if let Some(content_type) = request.form.content_type() {
        built = built.header("content-type", content_type);
    }
    if !request.headers.iter().any(|(name, _)| name == "accept") {
        built = built.header("accept", "application/json");
    }
    for (name, value) in &request.headers {
        built = built.header(name, value);
    }
    let built = built.body(Body::from(request.bytes())).unwrap();
    let answer = client.send(built).await.unwrap();
    let code = answer.status().as_u16();
    let beside = ["warning", "retry-after"].iter().flat_map(|name| said(answer.headers(), name)).collect();
    let body = answer.into_body();
    if let (Deed::Watch(watched), 200) = (&request.deed, code) {
        let mut listener = Listener::new(body);
        let (objects, end) = listener.listen(watched).await;
        return Answer { code, objects, end, beside, listener: Some(listener) };
    }
    let bytes = body.collect_bytes().await.unwrap();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let objects = vec![serde_json::from_str(&text).unwrap_or(Value::String(text))];
    Answer { code, objects, beside, ..Answer::default() }
}

fn said(headers: &HeaderMap, name: &str) -> Vec<String> {
    let values = headers.get_all(name).iter();
    values.map(|value| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes()))).collect()
}
