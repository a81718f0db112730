//! One table of API behaviours, asked of the world and of a real API server, which must answer alike.
//!
//! Cases are in `cases/*.txt`: what is asked, in order. What Kubernetes answered is beside them in `*.answers`, so
//! that the world is held to it where no Kubernetes is at hand. Where one is, it is asked as well, and
//! `BERTH_RECORD=1 cargo test -p berth-world --test contract` writes its answers down anew.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a case that cannot be played is a mistake in the test"
)]

mod case;
mod plain;
mod plane;

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use berth_world::World;
use case::{Case, Request};
use http::Method;
use kube::Client;
use kube::client::Body;
use plain::plain;
use serde_json::Value;

/// Definitions are served within a second or two.
const QUIET_TRIES: usize = 100;

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/contract/cases")
}

/// The files with cases, by name.
fn files() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(directory())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    files.sort();
    files
}

/// All that a Kubernetes says to the cases of a file.
async fn transcript(client: &Client, file: &Path) -> String {
    let text = std::fs::read_to_string(file).unwrap();
    let stem = file.file_stem().unwrap().to_string_lossy().into_owned();
    let mut transcript = String::new();
    for (number, case) in Case::all(&text).iter().enumerate() {
        let namespace = format!("{stem}-{number}");
        writeln!(transcript, "# {}", case.name).unwrap();
        for answer in play(client, case, &namespace).await {
            writeln!(transcript, "{answer}").unwrap();
        }
    }
    transcript
}

/// The answers to a case, in a namespace of its own.
async fn play(client: &Client, case: &Case, namespace: &str) -> Vec<String> {
    let made = Request {
        method: Method::POST,
        path: "/api/v1/namespaces".to_owned(),
        content_type: "application/json",
        events: 0,
        is_quiet: false,
        body: format!(r#"{{"metadata": {{"name": "{namespace}"}}}}"#),
    };
    let (code, said, _) = ask(client, &made).await;
    assert_eq!(code, 201, "{said:?}");
    let mut answers: Vec<Value> = Vec::new();
    let mut lines = Vec::new();
    for request in &case.requests {
        let request = request.filled_in(namespace, &answers);
        let (mut code, mut said, mut warnings) = ask(client, &request).await;
        for _ in 0..QUIET_TRIES {
            if !request.is_quiet || code < 300 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
            (code, said, warnings) = ask(client, &request).await;
        }
        for value in said.iter().filter(|_| !request.is_quiet) {
            lines.push(format!("{code} {}", plain(value, namespace)));
            lines.extend(warnings.iter().map(|warning| format!("warning: {warning}")));
        }
        answers.push(said.into_iter().next().unwrap_or_default());
    }
    lines
}

/// The code and the objects that come back: one, or as many events as are waited for; and the warnings.
async fn ask(client: &Client, request: &Request) -> (u16, Vec<Value>, Vec<String>) {
    let built = http::Request::builder()
        .method(request.method.clone())
        .uri(&request.path)
        .header("content-type", request.content_type)
        .header("accept", "application/json")
        .body(Body::from(request.bytes()))
        .unwrap();
    let answer = client.send(built).await.unwrap();
    let code = answer.status().as_u16();
    let warnings = answer.headers().get_all("warning").iter();
    let warnings = warnings.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect();
    let body = answer.into_body();
    if request.events > 0 && code == 200 {
        return (code, plain::events(body, request.events).await, warnings);
    }
    let bytes = body.collect_bytes().await.unwrap();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    (code, vec![serde_json::from_str(&text).unwrap_or(Value::String(text))], warnings)
}

fn answers_of(file: &Path) -> PathBuf {
    file.with_extension("answers")
}

#[tokio::test]
async fn the_world_answers_as_kubernetes_does() {
    let mut wrong = String::new();
    for file in files() {
        let world = World::new(1, "2026-01-01T00:00:00Z".parse().unwrap());
        let client = Client::new(world.router(), "default");
        let expected = std::fs::read_to_string(answers_of(&file)).unwrap_or_default();
        wrong.push_str(&plain::differences(&expected, &transcript(&client, &file).await));
    }
    assert!(wrong.is_empty(), "the world (+) does not answer as Kubernetes did (-):\n{wrong}");
}

#[tokio::test]
async fn kubernetes_answers_as_it_did() {
    let Some(plane) = plane::start() else { return };
    let client = plane.client().await;
    let record = std::env::var_os("BERTH_RECORD").is_some();
    let mut wrong = String::new();
    for file in files() {
        let said = transcript(&client, &file).await;
        if record {
            std::fs::write(answers_of(&file), &said).unwrap();
        }
        let expected = std::fs::read_to_string(answers_of(&file)).unwrap_or_default();
        wrong.push_str(&plain::differences(&expected, &said));
    }
    assert!(wrong.is_empty(), "Kubernetes (+) does not answer as it did (-):\n{wrong}");
}
