//! Asking a Kubernetes, in a namespace of the case's own.

use std::time::Duration;

use http::Method;
use kube::Client;
use kube::client::Body;
use serde_json::Value;

use crate::plain::{self, plain};
use crate::request::{Form, Request};

/// Definitions are served within a second or two, or a minute on a busy machine.
const QUIET_TRIES: usize = 600;

/// What was said to one request, in lines without what differs from run to run.
pub(crate) type Said = Vec<String>;

/// The answers to requests in a new namespace with an account for its pods.
pub(crate) async fn play(client: &Client, requests: &[Request], namespace: &str) -> Vec<Said> {
    for (path, body) in [
        ("/api/v1/namespaces".to_owned(), format!(r#"{{"metadata": {{"name": "{namespace}"}}}}"#)),
        (
            format!("/api/v1/namespaces/{namespace}/serviceaccounts"),
            r#"{"metadata": {"name": "default"}}"#.to_owned(),
        ),
    ] {
        let (code, said, _) = ask(client, &Request::new(Method::POST, &path, Form::Object, body)).await;
        assert!(matches!(code, 201 | 409), "{said:?}");
    }
    let mut answers: Vec<Value> = Vec::new();
    let mut lines = Vec::new();
    for request in requests {
        let request = request.filled_in(namespace, &answers);
        let (mut code, mut said, mut warnings) = ask(client, &request).await;
        for _ in 0..QUIET_TRIES {
            if !request.is_quiet || code < 300 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
            (code, said, warnings) = ask(client, &request).await;
        }
        let told = said.iter().filter(|_| !request.is_quiet);
        let line = |value| format!("{code} {}", plain(value, namespace, request.shows_managers));
        let warnings =
            warnings.iter().filter(|_| !request.is_quiet).map(|warning| format!("warning: {warning}"));
        lines.push(told.map(line).chain(warnings).collect());
        answers.push(said.into_iter().next().unwrap_or_default());
    }
    lines
}

/// The code and the objects that come back: one, or as many events as are waited for; and the warnings.
async fn ask(client: &Client, request: &Request) -> (u16, Vec<Value>, Vec<String>) {
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
    let warnings = answer.headers().get_all("warning").iter();
    let warnings = warnings.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect();
    let body = answer.into_body();
    if let Some(watched) = request.watched.as_ref().filter(|_| code == 200) {
        return (code, plain::events(body, watched).await, warnings);
    }
    let bytes = body.collect_bytes().await.unwrap();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    (code, vec![serde_json::from_str(&text).unwrap_or(Value::String(text))], warnings)
}
