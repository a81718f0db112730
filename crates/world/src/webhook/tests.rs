use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::IntoResponse;
use axum::routing::any;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Method;

use super::Service;
use crate::api::{Act, Answer, Api, Call, Warnings};
use crate::failure::Failure;
use crate::json::{Value, json};
use crate::object;
use crate::rbac::User;

type Seen = Arc<Mutex<Vec<Value>>>;

/// A webhook whose paths say what it does.
fn service(seen: Seen) -> Router {
    Router::new().fallback(any(answer)).with_state(seen)
}

async fn answer(State(seen): State<Seen>, uri: Uri, body: Bytes) -> impl IntoResponse {
    let review: Value = serde_json::from_slice(&body).unwrap();
    let request = review["request"].clone();
    seen.lock().unwrap().push(request.clone());
    let mut response = json!({"uid": request["uid"], "allowed": true});
    let patched = |patch: &Value| json!(STANDARD.encode(patch.to_string()));
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, "application/json".parse().unwrap());
    let mut version = "v1";
    match uri.path() {
        "/deny" => {
            response["allowed"] = json!(false);
            response["status"] = json!({"message": "no", "code": 418, "reason": "Teapot"});
            response["warnings"] = json!(["beware \"x\""]);
        }
        "/deny-plainly" => response["allowed"] = json!(false),
        "/deny-with-a-reason" => {
            response["allowed"] = json!(false);
            response["status"] = json!({"reason": "Because"});
        }
        "/wrong-uid" => response["uid"] = json!("x"),
        "/patch-without-type" => response["patch"] = patched(&json!([])),
        "/patch" => {
            response["patch"] = patched(&json!([{"op": "add", "path": "/data/patched", "value": "yes"}]));
            response["patchType"] = json!("JSONPatch");
        }
        "/undo" => {
            response["patch"] = patched(&json!([{"op": "remove", "path": "/data/patched"}]));
            response["patchType"] = json!("JSONPatch");
        }
        "/500" => return (StatusCode::INTERNAL_SERVER_ERROR, headers, "{}".to_owned()),
        "/404" => return (StatusCode::NOT_FOUND, headers, "{}".to_owned()),
        "/400" => return (StatusCode::BAD_REQUEST, headers, "{}".to_owned()),
        "/slow" => tokio::time::sleep(Duration::from_secs(3)).await,
        "/junk" => return (StatusCode::OK, headers, "junk".to_owned()),
        "/v1beta1" => version = "v1beta1",
        "/absent" => response = Value::Null,
        // Once for each label.
        path => {
            if let Some(label) =
                path.strip_prefix("/label/").filter(|label| request["object"]["data"].get(label).is_none())
            {
                let path = format!("/data/{label}");
                response["patch"] = patched(&json!([{"op": "add", "path": path, "value": "1"}]));
                response["patchType"] = json!("JSONPatch");
            }
        }
    }
    let review = json!({"apiVersion": format!("admission.k8s.io/{version}"), "kind": "AdmissionReview", "response": response});
    (StatusCode::OK, headers, review.to_string())
}

const CONFIGMAPS: &str =
    r#"[{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]"#;

fn hook(path: &str, more: &Value) -> Value {
    let mut hook = json!({
        "name": "h.example.com",
        "clientConfig": {"url": format!("https://127.0.0.1:18443{path}")},
        "rules": serde_json::from_str::<Value>(CONFIGMAPS).unwrap(),
        "sideEffects": "None", "admissionReviewVersions": ["v1"],
    });
    for (field, value) in more.as_object().unwrap() {
        hook[field] = value.clone();
    }
    hook
}

struct Asked {
    api: Api,
    seen: Seen,
}

impl Asked {
    /// A cluster with webhooks: phase, path, and what else they say.
    async fn with(hooks: &[(&str, &str, Value)]) -> Self {
        let api = Api::new(1, "2026-01-01T00:00:00Z".parse().unwrap());
        let seen = Seen::default();
        let here = Service::Here(service(seen.clone()));
        api.state().services.insert("127.0.0.1:18443".to_owned(), here.clone());
        api.state().services.insert("default/hooks:443".to_owned(), here);
        for (number, (phase, path, more)) in hooks.iter().enumerate() {
            let configuration =
                json!({"metadata": {"name": format!("{number}")}, "webhooks": [hook(path, more)]});
            let resource = match *phase {
                "Mutating" => "mutatingwebhookconfigurations.admissionregistration.k8s.io",
                _ => "validatingwebhookconfigurations.admissionregistration.k8s.io",
            };
            api.act("test", Act::Create(resource, configuration)).await.unwrap();
        }
        Self { api, seen }
    }

    async fn call(&self, method: Method, path: &str, body: Value) -> (Result<Answer, Failure>, Vec<String>) {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let user =
            User { name: "admin".to_owned(), groups: vec!["system:masters".to_owned()], ..User::default() };
        let call = Call {
            method,
            path: path.to_owned(),
            query: query.to_owned(),
            content_type: "application/json".to_owned(),
            accept: String::new(),
            agent: "test".to_owned(),
            user,
            body: if body.is_null() { Vec::new() } else { body.to_string().into_bytes() },
            warnings: Warnings::default(),
        };
        let answered = self.api.call(&call).await;
        (answered, call.warnings.all())
    }

    /// `code message`, or `code` and the data of the object.
    async fn create(&self) -> (String, Vec<String>) {
        let map = json!({"metadata": {"name": "a"}, "data": {"a": "b"}});
        let (said, warnings) = self.call(Method::POST, "/api/v1/namespaces/default/configmaps", map).await;
        let said = match said {
            Ok(Answer::Object(code, object)) => format!("{code} {}", object["data"]),
            Ok(other) => panic!("{other:?}"),
            Err(failure) => {
                format!("{} {}", failure.code(), failure.to_status()["message"].as_str().unwrap())
            }
        };
        (said, warnings)
    }
}

/// The messages are those of a real API server.
#[tokio::test(start_paused = true)]
async fn answers_are_judged() {
    let failed =
        |why: &str| format!("500 Internal error occurred: failed calling webhook \"h.example.com\": {why}");
    let invalid = |why: &str| failed(&format!("received invalid webhook response: {why}"));
    let denied = "admission webhook \"h.example.com\" denied the request";
    let go = "couldn't get version/kind; json parse error: json: cannot unmarshal string into Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }";
    let condition = |expressions: &[&str]| {
        let numbered = expressions.iter().enumerate();
        let conditions: Vec<Value> =
            numbered.map(|(at, text)| json!({"name": format!("x{at}"), "expression": text})).collect();
        json!({"matchConditions": conditions})
    };
    let none = json!({});
    let ignore = json!({"failurePolicy": "Ignore"});
    let missing = "object.data.nothing == \"x\"";
    let nowhere =
        json!({"clientConfig": {"service": {"namespace": "default", "name": "none", "path": "/x"}}});
    let by_service = json!({"clientConfig": {"service": {"namespace": "default", "name": "hooks", "path": "/deny-plainly"}}});
    for (phase, path, more, expected) in [
        ("Validating", "/allow", &none, "201 {\"a\":\"b\"}".to_owned()),
        ("Validating", "/deny", &none, format!("418 {denied}: no")),
        ("Mutating", "/deny", &none, format!("418 {denied}: no")),
        ("Validating", "/deny-plainly", &none, format!("400 {denied} without explanation")),
        ("Mutating", "/deny-with-a-reason", &none, format!("400 {denied}: Because")),
        ("Mutating", "/patch", &none, "201 {\"a\":\"b\",\"patched\":\"yes\"}".to_owned()),
        (
            "Mutating",
            "/patch-without-type",
            &none,
            invalid("webhook returned response.patch but not response.patchType"),
        ),
        ("Validating", "/patch", &none, invalid("validating webhook may not return response.patch")),
        ("Validating", "/absent", &none, invalid("webhook response was absent")),
        (
            "Validating",
            "/500",
            &none,
            failed(
                "failed to call webhook: an error on the server (\"unknown\") has prevented the request from succeeding",
            ),
        ),
        (
            "Validating",
            "/404",
            &none,
            failed("failed to call webhook: the server could not find the requested resource"),
        ),
        (
            "Validating",
            "/400",
            &none,
            failed("failed to call webhook: the server rejected our request for an unknown reason"),
        ),
        ("Validating", "/junk", &none, failed(&format!("failed to call webhook: {go}"))),
        (
            "Validating",
            "/v1beta1",
            &none,
            failed(
                "failed to call webhook: converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion",
            ),
        ),
        (
            "Validating",
            "/slow",
            &json!({"timeoutSeconds": 1}),
            failed(
                "failed to call webhook: Post \"https://127.0.0.1:18443/slow?timeout=1s\": context deadline exceeded",
            ),
        ),
        ("Validating", "/slow", &none, "201 {\"a\":\"b\"}".to_owned()),
        (
            "Validating",
            "/slow",
            &json!({"timeoutSeconds": 1, "failurePolicy": "Ignore"}),
            "201 {\"a\":\"b\"}".to_owned(),
        ),
        ("Mutating", "/junk", &ignore, "201 {\"a\":\"b\"}".to_owned()),
        ("Validating", "/deny", &ignore, format!("418 {denied}: no")),
        (
            "Validating",
            "",
            &nowhere,
            failed(
                "failed to call webhook: Post \"https://none.default.svc:443/x?timeout=10s\": service \"none\" not found",
            ),
        ),
        ("Validating", "", &by_service, format!("400 {denied} without explanation")),
        ("Validating", "/deny", &condition(&["object.data.a == \"c\""]), "201 {\"a\":\"b\"}".to_owned()),
        (
            "Validating",
            "/deny",
            &condition(&["object.data.a == \"b\"", "request.operation == \"CREATE\""]),
            format!("418 {denied}: no"),
        ),
        (
            "Validating",
            "/allow",
            &condition(&[missing]),
            format!(
                "403 configmaps \"a\" is forbidden: expression '{missing}' resulted in error: no such key: nothing"
            ),
        ),
        ("Validating", "/allow", &condition(&[missing, "false"]), "201 {\"a\":\"b\"}".to_owned()),
        (
            "Validating",
            "/deny",
            &json!({"objectSelector": {"matchLabels": {"a": "b"}}}),
            "201 {\"a\":\"b\"}".to_owned(),
        ),
        (
            "Validating",
            "/deny",
            &json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}),
            "201 {\"a\":\"b\"}".to_owned(),
        ),
        (
            "Validating",
            "/deny",
            &json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}),
            format!("418 {denied}: no"),
        ),
    ] {
        let asked = Asked::with(&[(phase, path, more.clone())]).await;
        let (said, warnings) = asked.create().await;
        assert_eq!(said, expected, "{phase} {path} {more}");
        let warned: &[&str] =
            if path == "/deny" && said.starts_with("418") { &["beware \"x\""] } else { &[] };
        assert_eq!(warnings, warned, "{path}");
    }
}

/// What a webhook is told is what a real API server tells.
#[tokio::test(start_paused = true)]
async fn reviews_say_what_is_done() {
    let asked = Asked::with(&[("Mutating", "/allow", json!({})), ("Validating", "/allow", json!({}))]).await;
    let path = "/api/v1/namespaces/default/configmaps";
    let map = json!({"metadata": {"generateName": "g-"}, "data": {"a": "b"}});
    asked.call(Method::POST, &format!("{path}?fieldManager=m"), map).await.0.unwrap();
    let seen = std::mem::take(&mut *asked.seen.lock().unwrap());
    let kind = json!({"group": "", "version": "v1", "kind": "ConfigMap"});
    let resource = json!({"group": "", "version": "v1", "resource": "configmaps"});
    for (index, request) in seen.iter().enumerate() {
        assert_eq!(request["kind"], kind);
        assert_eq!(request["requestKind"], kind);
        assert_eq!(request["resource"], resource);
        assert_eq!(request["requestResource"], resource);
        assert_eq!((&request["operation"], &request["dryRun"]), (&json!("CREATE"), &json!(false)));
        assert_eq!(
            request["options"],
            json!({"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions", "fieldManager": "m"})
        );
        assert_eq!((&request["namespace"], &request["oldObject"]), (&json!("default"), &Value::Null));
        assert_eq!(request["userInfo"]["username"], "admin");
        // It has its name and its uid once nobody may change it any more.
        let is_named =
            !object::name(&request["object"]).is_empty() && !object::uid(&request["object"]).is_empty();
        assert_eq!(is_named, index == 1);
    }
    assert_eq!(seen.len(), 2);
    let made = object::name(&seen[1]["object"]).to_owned();
    let known =
        asked.api.state().store.list("configmaps", Some("default")).map(|(_, map)| map).next().unwrap();
    assert_eq!((object::name(&known), object::uid(&known)), (&*made, object::uid(&seen[1]["object"])));
    asked
        .call(Method::DELETE, &format!("{path}/{made}?gracePeriodSeconds=3&dryRun=All"), Value::Null)
        .await
        .0
        .unwrap();
    let seen = std::mem::take(&mut *asked.seen.lock().unwrap());
    assert_eq!(seen.len(), 2);
    for request in &seen {
        assert_eq!((&request["operation"], &request["object"]), (&json!("DELETE"), &Value::Null));
        assert_eq!(object::name(&request["oldObject"]), made);
        assert_eq!(request["dryRun"], true);
        assert_eq!(request["options"]["gracePeriodSeconds"], 3);
    }
}

/// Which of many requests a rule covers: operation, resource and name of each that is asked about.
#[tokio::test(start_paused = true)]
async fn rules_say_what_is_asked_about() {
    let rule = |operations: &[&str], groups: &[&str], resources: &[&str], scope: &str| json!({"rules": [{"operations": operations, "apiGroups": groups, "apiVersions": ["*"], "resources": resources, "scope": scope}]});
    let pods = "CREATE pods p,UPDATE pods/status p,CREATE pods/binding p,CREATE pods/eviction p";
    for (more, expected) in [
        (rule(&["*"], &[""], &["pods", "pods/*"], "*"), pods),
        (
            rule(&["CREATE"], &["*"], &["*/*"], "*"),
            "CREATE configmaps a,CREATE pods p,CREATE pods/binding p,CREATE pods/eviction p,CREATE deployments d,CREATE namespaces n",
        ),
        (
            rule(&["CREATE"], &["*"], &["*"], "*"),
            "CREATE configmaps a,CREATE pods p,CREATE deployments d,CREATE namespaces n",
        ),
        (rule(&["CREATE"], &["*"], &["*"], "Cluster"), "CREATE namespaces n"),
        (
            rule(&["CREATE"], &["*"], &["*"], "Namespaced"),
            "CREATE configmaps a,CREATE pods p,CREATE deployments d",
        ),
        (rule(&["UPDATE", "DELETE"], &[""], &["configmaps"], "*"), "UPDATE configmaps a,DELETE configmaps a"),
        (rule(&["UPDATE"], &["apps"], &["deployments/scale"], "*"), "UPDATE deployments/scale d"),
        (rule(&["UPDATE"], &["apps"], &["deployments"], "*"), ""),
    ] {
        let asked = Asked::with(&[("Validating", "/allow", more.clone())]).await;
        let apps = "/apis/apps/v1/namespaces/default/deployments";
        let core = "/api/v1/namespaces/default";
        let labels = json!({"labels": {"a": "b"}});
        let template = json!({"metadata": labels, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        for (method, path, body) in [
            (Method::POST, format!("{core}/configmaps"), json!({"metadata": {"name": "a"}})),
            (
                Method::PUT,
                format!("{core}/configmaps/a"),
                json!({"metadata": {"name": "a"}, "data": {"a": "b"}}),
            ),
            (Method::DELETE, format!("{core}/configmaps"), Value::Null),
            (
                Method::POST,
                format!("{core}/pods"),
                json!({"metadata": {"name": "p"}, "spec": template["spec"]}),
            ),
            (
                Method::PUT,
                format!("{core}/pods/p/status"),
                json!({"metadata": {"name": "p"}, "status": {"phase": "Pending"}}),
            ),
            (
                Method::POST,
                format!("{core}/pods/p/binding"),
                json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}),
            ),
            (Method::POST, format!("{core}/pods/p/eviction"), json!({"metadata": {"name": "p"}})),
            (
                Method::POST,
                apps.to_owned(),
                json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}}),
            ),
            (
                Method::PUT,
                format!("{apps}/d/scale"),
                json!({"metadata": {"name": "d"}, "spec": {"replicas": 3}}),
            ),
            (Method::POST, "/api/v1/namespaces".to_owned(), json!({"metadata": {"name": "n"}})),
        ] {
            let said = asked.call(method, &path, body).await.0;
            assert!(said.is_ok(), "{path}: {said:?}");
        }
        let seen: Vec<String> = asked
            .seen
            .lock()
            .unwrap()
            .iter()
            .map(|request| {
                let text = |path: &[&str]| object::text(request, path).to_owned();
                let part = text(&["subResource"]);
                let part = if part.is_empty() { part } else { format!("/{part}") };
                let name = if text(&["operation"]) == "DELETE" {
                    object::name(&request["oldObject"]).to_owned()
                } else {
                    text(&["name"])
                };
                format!("{} {}{part} {name}", text(&["operation"]), text(&["resource", "resource"]))
            })
            .collect();
        assert_eq!(seen.join(","), expected, "{more}");
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_wants_it_is_asked_again() {
    let again = json!({"reinvocationPolicy": "IfNeeded"});
    let once = json!({});
    for (hooks, asked_about, expected) in [
        (vec![("Mutating", "/label/x", once.clone()), ("Mutating", "/label/y", once.clone())], 2, "x y"),
        (vec![("Mutating", "/label/x", again.clone()), ("Mutating", "/label/y", once.clone())], 3, "x y"),
        (vec![("Mutating", "/label/x", again.clone()), ("Mutating", "/label/y", again.clone())], 3, "x y"),
        (vec![("Mutating", "/allow", again.clone()), ("Mutating", "/allow", again.clone())], 2, ""),
        (
            vec![("Mutating", "/label/patched", again.clone()), ("Mutating", "/undo", once.clone())],
            3,
            "patched",
        ),
        (vec![("Mutating", "/label/x", again), ("Validating", "/deny", once)], 2, "418"),
    ] {
        let asked = Asked::with(&hooks).await;
        let said = asked.create().await.0;
        let seen = asked.seen.lock().unwrap().len();
        assert_eq!(seen, asked_about, "{hooks:?}: {said}");
        for word in expected.split(' ') {
            assert!(said.contains(word), "{hooks:?}: {said}");
        }
    }
}

/// While one waits for a webhook, others write; all get identities of their own, the same in every run.
#[tokio::test(start_paused = true)]
async fn waiting_holds_up_nobody() {
    let mut runs = Vec::new();
    for _ in 0..2 {
        let asked = Asked::with(&[("Validating", "/slow", json!({}))]).await;
        let secret = json!({"metadata": {"generateName": "s-"}});
        let (map, secret) = tokio::join!(
            asked.create(),
            asked.call(Method::POST, "/api/v1/namespaces/default/secrets", secret)
        );
        assert_eq!(map.0, "201 {\"a\":\"b\"}");
        let Ok(Answer::Object(201, secret)) = secret.0 else { panic!("{secret:?}") };
        let known: Vec<Value> = ["configmaps", "secrets"]
            .iter()
            .flat_map(|resource| {
                let state = asked.api.state();
                state
                    .store
                    .list(resource, None)
                    .map(|(_, object)| object["metadata"].clone())
                    .collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(known.len(), 2);
        assert_ne!(known[0]["uid"], known[1]["uid"]);
        // The one that waited was made when it was asked for.
        assert_eq!(known[0]["creationTimestamp"], known[1]["creationTimestamp"]);
        assert!(object::revision(&secret) < object::revision(&json!({"metadata": known[0]})));
        runs.push(known);
    }
    assert_eq!(runs[0], runs[1]);
}

/// If the object changes while somebody is asked, they are asked about what it is then.
#[tokio::test(start_paused = true)]
async fn an_answer_is_about_one_object_only() {
    let asked = Asked::with(&[("Validating", "/slow", json!({"rules": [{"operations": ["UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}], "objectSelector": {"matchLabels": {"slow": "yes"}}}))]).await;
    asked.create().await;
    let path = "/api/v1/namespaces/default/configmaps/a";
    let slow = json!({"metadata": {"name": "a", "labels": {"slow": "yes"}}, "data": {"a": "slow"}});
    let fast = json!({"metadata": {"name": "a"}, "data": {"a": "fast"}});
    let (slow, fast) = tokio::join!(asked.call(Method::PUT, path, slow), asked.call(Method::PUT, path, fast));
    assert!(slow.0.is_ok() && fast.0.is_ok(), "{slow:?} {fast:?}");
    let seen = asked.seen.lock().unwrap();
    let old: Vec<&str> =
        seen.iter().map(|request| object::text(request, &["oldObject", "data", "a"])).collect();
    assert_eq!(old, ["b", "fast"]);
}

mod over_tls {
    use super::*;
    use hyper_util::rt::{TokioExecutor, TokioIo};
    use hyper_util::server::conn::auto;
    use hyper_util::service::TowerToHyperService;
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
    use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    /// A webhook with a certificate for loopback; its port, and who vouches for it.
    async fn listen(seen: Seen) -> (u16, String) {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let names = vec!["127.0.0.1".to_owned(), "hooks.default.svc".to_owned()];
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &issuer).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der())),
            )
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(stream) = acceptor.accept(stream).await else { continue };
                let service = TowerToHyperService::new(service(seen.clone()));
                let server = auto::Builder::new(TokioExecutor::new());
                server.serve_connection(TokioIo::new(stream), service).await.ok();
            }
        });
        (port, STANDARD.encode(issuer.pem()))
    }

    #[tokio::test]
    async fn webhooks_are_asked_and_believed_over_tls() {
        let seen = Seen::default();
        let (port, bundle) = listen(seen.clone()).await;
        let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
        let url = |path: &str| format!("https://127.0.0.1:{port}{path}");
        let failed = |why: &str| {
            format!(
                "500 Internal error occurred: failed calling webhook \"h.example.com\": failed to call webhook: {why}"
            )
        };
        let service = json!({"namespace": "default", "name": "hooks", "path": "/deny-plainly"});
        for (config, expected) in [
            (json!({"url": url("/allow"), "caBundle": bundle}), "201 {\"a\":\"b\"}".to_owned()),
            (
                json!({"url": url("/deny"), "caBundle": bundle}),
                "418 admission webhook \"h.example.com\" denied the request: no".to_owned(),
            ),
            (
                json!({"service": service, "caBundle": bundle}),
                "400 admission webhook \"h.example.com\" denied the request without explanation".to_owned(),
            ),
            (
                json!({"url": url("/x")}),
                failed(&format!(
                    "Post \"https://127.0.0.1:{port}/x?timeout=10s\": tls: failed to verify certificate: x509: certificate signed by unknown authority"
                )),
            ),
            (
                json!({"url": format!("https://127.0.0.1:{closed}/x")}),
                failed(&format!(
                    "Post \"https://127.0.0.1:{closed}/x?timeout=10s\": dial tcp 127.0.0.1:{closed}: connect: connection refused"
                )),
            ),
        ] {
            let asked = Asked::with(&[("Validating", "", json!({"clientConfig": config}))]).await;
            {
                // Found as the cluster finds it: by the endpoints of its service.
                let api = &asked.api;
                api.state().services.clear();
                for (resource, object) in [
                    (
                        "services",
                        json!({"metadata": {"name": "hooks", "namespace": "default"}, "spec": {"ports": [{"port": 443}]}}),
                    ),
                    (
                        "endpointslices.discovery.k8s.io",
                        json!({"metadata": {"name": "hooks-x", "namespace": "default", "labels": {"kubernetes.io/service-name": "hooks"}}, "addressType": "IPv4", "endpoints": [{"addresses": ["127.0.0.1"]}], "ports": [{"port": port}]}),
                    ),
                ] {
                    api.act("test", Act::Create(resource, object)).await.unwrap();
                }
            }
            assert_eq!(asked.create().await.0, expected);
        }
        assert_eq!(seen.lock().unwrap().len(), 3);
    }
}
