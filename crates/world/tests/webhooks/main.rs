//! What webhooks are asked and what is made of their answers, by the world and by a real API server, which must do
//! alike. Both ask the same webhook, over TLS.
//!
//! A case of `cases.txt` is its name, its webhooks and then requests as in `tests/contract/cases`. A webhook is a line:
//! `+ Validating /deny {"failurePolicy": "Ignore"}`, with `to:name` after its path if it is only asked about objects
//! with the label `to`. Without other words of its own it is asked about ConfigMaps of the case's namespace.
//! `BERTH_CASES=junk` plays only the cases in whose names that is.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a case that cannot be played is a mistake in the test"
)]

#[path = "../contract/asking.rs"]
mod asking;
#[path = "../contract/case.rs"]
mod case;
#[path = "../contract/kubernetes.rs"]
mod kubernetes;
#[path = "../contract/plain.rs"]
mod plain;
#[path = "../contract/plane.rs"]
mod plane;
#[path = "../contract/request.rs"]
mod request;
mod server;

use std::fmt::Write;
use std::time::Duration;

use berth_control_plane::ControlPlane;
use case::Case;
use http::Method;
use kubernetes::Kubernetes;
use plane::Plane;
use request::{Form, Request, Until};
use serde_json::{Value, json};
use server::Server;

/// An API server hears of its webhooks by a watch.
const TRIES: usize = 600;

/// Everything is done as her, because what an API server adds to whoever has a certificate is the certificate's digest.
const USER: [(&str, &str); 2] = [("impersonate-user", "alice"), ("impersonate-group", "system:masters")];

struct Hook {
    phase: &'static str,
    path: String,
    to: Option<String>,
    more: Value,
}

impl Hook {
    fn parse(line: &str) -> Self {
        let mut rest = line;
        let mut word = || {
            let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
            rest = after;
            word.to_owned()
        };
        let (phase, path) = (word(), word());
        let phase = ["Mutating", "Validating"].into_iter().find(|known| **known == phase).unwrap();
        let to = rest.starts_with("to:").then(|| rest.split(' ').next().unwrap_or_default());
        let more = rest.get(to.map_or(0, str::len)..).unwrap_or_default().trim();
        let more = if more.is_empty() { json!({}) } else { serde_json::from_str(more).unwrap() };
        let to = to.and_then(|to| to.strip_prefix("to:")).map(str::to_owned);
        Self { phase, path, to, more }
    }

    /// Its configuration, with a second webhook by which it is known that the first is known.
    fn configuration(&self, number: usize, namespace: &str, server: &Server) -> Value {
        let url = |path: &str| format!("https://{}{path}", server.address);
        let there = json!({"matchLabels": {"kubernetes.io/metadata.name": namespace}});
        let rule = |resource: &str| json!([{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": [resource]}]);
        let mut hook = json!({
            "name": format!("h{number}.example.com"),
            "clientConfig": {"url": url(&self.path), "caBundle": server.authority},
            "rules": rule("configmaps"), "namespaceSelector": there,
            "sideEffects": "None", "admissionReviewVersions": ["v1"],
        });
        if let Some(to) = &self.to {
            hook["objectSelector"] = json!({"matchLabels": {"to": to}});
        }
        for (field, value) in self.more.as_object().unwrap() {
            hook[field] = value.clone();
        }
        let probe = json!({
            "name": format!("probe{number}.example.com"),
            "clientConfig": {"url": url("/probe"), "caBundle": server.authority},
            "rules": rule("podtemplates"), "namespaceSelector": there,
            "objectSelector": {"matchLabels": {"probe": number.to_string()}},
            "sideEffects": "None", "admissionReviewVersions": ["v1"],
        });
        let configuration =
            json!({"metadata": {"name": format!("{namespace}-{number}")}, "webhooks": [hook, probe]});
        let text = configuration.to_string();
        let text = text.replace("{url}", &url("")).replace("{port}", &server.address.port().to_string());
        let text = text.replace("{stranger}", &server.stranger).replace("{ca}", &server.authority);
        serde_json::from_str(&text.replace("{ns}", namespace)).unwrap()
    }

    fn configurations(&self) -> String {
        let phase = self.phase.to_lowercase();
        format!("/apis/admissionregistration.k8s.io/v1/{phase}webhookconfigurations")
    }
}

/// The cases, with the webhooks of each.
fn cases() -> Vec<(Vec<Hook>, Case)> {
    let text = std::fs::read_to_string("tests/webhooks/cases.txt").unwrap();
    let wanted = std::env::var("BERTH_CASES").unwrap_or_default();
    let text = format!("\n{text}");
    let cases =
        text.split("\n# ").skip(1).filter(|case| case.lines().next().unwrap_or_default().contains(&wanted));
    cases
        .map(|case| {
            let hooks = case.lines().filter_map(|line| line.strip_prefix("+ ")).map(Hook::parse).collect();
            let rest: String =
                case.lines().filter(|line| !line.starts_with("+ ")).flat_map(|line| [line, "\n"]).collect();
            (hooks, Case::all(&format!("# {rest}")).remove(0))
        })
        .collect()
}

/// What a Kubernetes says to the requests of a case, and what it asks the webhook meanwhile.
async fn play(
    kubernetes: &Kubernetes,
    server: &Server,
    hooks: &[Hook],
    case: &Case,
    namespace: &str,
) -> Vec<String> {
    asking::play(kubernetes, &[], namespace).await;
    let quiet = |method: Method, path: &str, body: String| Request {
        until: Until::DoneQuietly,
        ..Request::new(method, path, Form::Object, body)
    };
    for (number, hook) in hooks.iter().enumerate() {
        let configuration = hook.configuration(number, namespace, server);
        let made = quiet(Method::POST, &hook.configurations(), configuration.to_string());
        asking::play(kubernetes, &[made], namespace).await;
        until_known(kubernetes, number, namespace).await;
    }
    server.take_seen();
    // Whose cache is behind asks once for what it remembers, and again for what is.
    let caught_up = |request: &Request| quiet(Method::GET, &collection(&request.path), String::new());
    let asked = case.requests.iter().flat_map(|request| [caught_up(request), request.clone()]);
    let requests: Vec<Request> = asked
        .map(|mut request| {
            request.headers.extend(USER.map(|(name, value)| (name.to_owned(), value.to_owned())));
            request
        })
        .collect();
    let answers = asking::play(kubernetes, &requests, namespace).await;
    let mut asked: Vec<String> = server
        .take_seen()
        .iter()
        .map(|(path, review)| format!("asked {path} {}", plain::plain(review, namespace, false)))
        .collect();
    // Those that may only refuse are asked at the same time.
    if hooks.iter().filter(|hook| hook.phase == "Validating").count() > 1 {
        asked.sort();
    }
    for (number, hook) in hooks.iter().enumerate() {
        let path = format!("{}/{namespace}-{number}", hook.configurations());
        asking::play(kubernetes, &[quiet(Method::DELETE, &path, String::new())], namespace).await;
    }
    answers.into_iter().flatten().map(|line| without_the_reviews_uid(&line)).chain(asked).collect()
}

/// The path of the list that holds what a path is about.
fn collection(path: &str) -> String {
    let path = path.split('?').next().unwrap_or_default();
    let parts: Vec<&str> = path.split('/').collect();
    let version = if path.starts_with("/api/") { 3 } else { 4 };
    let length = match parts.get(version..) {
        Some(["namespaces", _, _, ..]) => version + 3,
        _ => version + 1,
    };
    parts.into_iter().take(length).collect::<Vec<_>>().join("/")
}

/// Whoever answers with another uid is told which it should have been.
fn without_the_reviews_uid(line: &str) -> String {
    const BEFORE: &str = "expected response.uid=\\\"";
    let mut parts = line.split(BEFORE);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |line, part| line + BEFORE + part.get(36..).unwrap_or_default())
}

async fn until_known(kubernetes: &Kubernetes, number: usize, namespace: &str) {
    let template = json!({
        "metadata": {"name": "probe", "labels": {"probe": number.to_string()}},
        "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}},
    });
    let path = "/api/v1/namespaces/{ns}/podtemplates?dryRun=All";
    let probe = [Request::new(Method::POST, path, Form::Object, template.to_string())];
    for _ in 0..TRIES {
        let said = asking::play(kubernetes, &probe, namespace).await;
        if said.iter().flatten().any(|line| line.contains("probed")) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("webhook {number} of {namespace} is never asked");
}

#[tokio::test]
async fn the_world_asks_webhooks_as_kubernetes_does() {
    // Nothing else runs that would change what is written.
    let Some(plane) = ControlPlane::api_for_test().unwrap().map(Plane) else { return };
    let kubernetes = Kubernetes::of_plane(&plane).await;
    let world = Kubernetes::of_world();
    let server = Server::start().await;
    let mut wrong = String::new();
    for (index, (hooks, case)) in cases().iter().enumerate() {
        let namespace = format!("hooks-{index}");
        let expected = play(&kubernetes, &server, hooks, case, &namespace).await;
        let said = play(&world, &server, hooks, case, &namespace).await;
        for at in 0..expected.len().max(said.len()) {
            let line = |of: &[String]| of.get(at).map_or("nothing", String::as_str).to_owned();
            let (was, is) = (line(&expected), line(&said));
            if was != is {
                writeln!(wrong, "{}\n  - {was}\n  + {is}", case.name).unwrap();
            }
        }
    }
    assert!(wrong.is_empty(), "the world (+) does not do as Kubernetes does (-):\n{wrong}");
}
