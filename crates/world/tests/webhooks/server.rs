//! A webhook over TLS on loopback. Its paths say what it does; what it is asked is kept.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::routing::any;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use berth_credentials::Authority;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// Longer than whoever waits for it waits.
const SLOW: Duration = Duration::from_secs(2);

/// What was asked, and at which path, in order.
type Seen = Arc<Mutex<Vec<(String, Value)>>>;

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    /// Whoever vouches for it, as webhook configurations write that.
    pub(crate) authority: String,
    /// Somebody who does not.
    pub(crate) stranger: String,
    seen: Seen,
}

impl Server {
    pub(crate) async fn start() -> Self {
        let (authority, stranger) = (Authority::new("hooks").unwrap(), Authority::new("others").unwrap());
        let pair = authority.server("hooks", &["127.0.0.1"]).unwrap();
        let chain = CertificateDer::pem_slice_iter(pair.certificate.as_bytes());
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                chain.collect::<Result<_, _>>().unwrap(),
                PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap(),
            )
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Seen::default();
        let service = Router::new().fallback(any(answer)).with_state(seen.clone());
        let acceptor = TlsAcceptor::from(Arc::new(config));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, service) = (acceptor.clone(), service.clone());
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let server = auto::Builder::new(TokioExecutor::new());
                    // Who leaves in the middle has learnt what it wanted.
                    let service = TowerToHyperService::new(service);
                    let _ = server.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        let encoded = |authority: &Authority| STANDARD.encode(authority.certificate());
        Self { address, authority: encoded(&authority), stranger: encoded(&stranger), seen }
    }

    /// What was asked since this was last called.
    pub(crate) fn take_seen(&self) -> Vec<(String, Value)> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}

async fn answer(State(seen): State<Seen>, uri: Uri, body: Bytes) -> (StatusCode, HeaderMap, String) {
    let review: Value = serde_json::from_slice(&body).unwrap();
    let request = &review["request"];
    if uri.path() != "/probe" {
        seen.lock().unwrap().push((uri.to_string(), review.clone()));
    }
    if uri.path() == "/slow" {
        tokio::time::sleep(SLOW).await;
    }
    let (code, form, text) = said(uri.path(), request);
    let mut headers = HeaderMap::new();
    if !form.is_empty() {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(form));
    }
    (StatusCode::from_u16(code).unwrap(), headers, text)
}

const JSON: &str = "application/json";

/// The code, the content type and the body.
fn said(path: &str, request: &Value) -> (u16, &'static str, String) {
    let plainly = |code: u16, form: &'static str, text: &str| (code, form, text.to_owned());
    match path {
        "/junk" => return plainly(200, JSON, "junk"),
        "/junk-as-text" => return plainly(200, "text/plain", "junk"),
        "/nothing" => return plainly(200, JSON, ""),
        "/text" => return plainly(200, JSON, "\"text\""),
        "/list" => return plainly(200, JSON, "[]"),
        "/empty" => return plainly(200, JSON, "{}"),
        "/untyped" => {
            let response = json!({"uid": request["uid"], "allowed": true});
            return (200, JSON, json!({ "response": response }).to_string());
        }
        "/500" => return plainly(500, JSON, "{}"),
        "/500-as-text" => return plainly(500, "text/plain", "out of order"),
        "/500-as-status" => {
            let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "out of order", "reason": "InternalError", "code": 500});
            return (500, JSON, status.to_string());
        }
        "/404" => return plainly(404, JSON, "{}"),
        "/400" => return plainly(400, "text/plain", "what?"),
        "/429" => return plainly(429, "text/plain", "slowly"),
        "/302" => return plainly(302, JSON, "{}"),
        _ => {}
    }
    let patched = |patch: &Value| json!(STANDARD.encode(patch.to_string()));
    let mut review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "response": {"uid": request["uid"], "allowed": true},
    });
    let response = &mut review["response"];
    let mut patch = |patch: Value| {
        response["patch"] = patched(&patch);
        response["patchType"] = json!("JSONPatch");
    };
    match path {
        "/patch" => patch(
            json!([{"op": "add", "path": "/metadata/labels", "value": {"patched": "yes", "to": "nobody"}}]),
        ),
        "/patch-data" => patch(json!([{"op": "add", "path": "/data", "value": {"patched": "yes"}}])),
        "/patch-in-vain" => patch(json!([{"op": "test", "path": "/metadata/name", "value": "nobody"}])),
        "/patch-nowhere" => patch(json!([{"op": "remove", "path": "/data/nothing"}])),
        "/patch-far" => {
            patch(json!([{"op": "replace", "path": "/metadata/ownerReferences/0/name", "value": "x"}]));
        }
        "/patch-with-nonsense" => {
            patch(json!([{"op": "add", "path": "/metadata/labels", "value": {"a b": "c"}}]));
        }
        "/patch-the-name" => patch(json!([{"op": "replace", "path": "/metadata/name", "value": "other"}])),
        "/patch-with-a-type" => patch(json!([{"op": "add", "path": "/data", "value": {"a": 1}}])),
        "/patch-no-field" => patch(json!([{"op": "add", "path": "/nothing", "value": "x"}])),
        "/patch-nothing" => patch(json!([])),
        "/patch-a-container" => patch(
            json!([{"op": "add", "path": "/spec/containers/-", "value": {"name": "sidecar", "image": "s"}}]),
        ),
        "/patch-no-list" => patch(json!({"op": "add"})),
        path => {
            // Once for each key.
            let key = path.strip_prefix("/data/").filter(|key| request["object"]["data"].get(key).is_none());
            if let Some(key) = key {
                let mut data = request["object"]["data"].as_object().cloned().unwrap_or_default();
                data.insert(key.to_owned(), json!("1"));
                patch(json!([{"op": "add", "path": "/data", "value": data}]));
            }
        }
    }
    match path {
        "/probe" => {
            response["allowed"] = json!(false);
            response["status"] = json!({"message": "probed"});
        }
        "/deny" => {
            response["allowed"] = json!(false);
            response["status"] = json!({"message": "no", "code": 418, "reason": "Teapot"});
        }
        "/deny-plainly" => response["allowed"] = json!(false),
        "/deny-with-a-reason" => {
            response["allowed"] = json!(false);
            response["status"] = json!({"reason": "Because"});
        }
        "/deny-with-details" => {
            response["allowed"] = json!(false);
            response["status"] = json!({"message": "see there", "reason": "Invalid", "code": 422, "status": "Success", "metadata": {"continue": "x"}, "details": {"name": "d", "kind": "k", "causes": [{"reason": "r", "message": "m", "field": "f"}]}});
        }
        "/deny-with-success" => {
            response["allowed"] = json!(false);
            response["status"] = json!({"message": "well", "code": 200});
        }
        "/warn" => response["warnings"] = json!(["beware \"x\"", "twice", "twice"]),
        "/deny-and-warn" => {
            response["allowed"] = json!(false);
            response["warnings"] = json!(["beware"]);
        }
        "/allow-with-a-status" => response["status"] = json!({"message": "fine", "code": 418}),
        "/annotate" => response["auditAnnotations"] = json!({"k": "v"}),
        "/wrong-uid" => response["uid"] = json!("x"),
        "/no-uid" => drop(response.as_object_mut().unwrap().remove("uid")),
        "/patch-without-type" => response["patch"] = patched(&json!([])),
        "/type-without-patch" => response["patchType"] = json!("JSONPatch"),
        "/patch-of-another-type" => {
            response["patch"] = patched(&json!([{"op": "add", "path": "/data", "value": {}}]));
            response["patchType"] = json!("MergePatch");
        }
        "/patch-of-junk" => {
            response["patch"] = json!(STANDARD.encode("junk"));
            response["patchType"] = json!("JSONPatch");
        }
        "/patch-unencoded" => {
            response["patch"] = json!("[]");
            response["patchType"] = json!("JSONPatch");
        }
        "/allowed-as-text" => response["allowed"] = json!("true"),
        "/absent" => drop(review.as_object_mut().unwrap().remove("response")),
        "/v1beta1" => review["apiVersion"] = json!("admission.k8s.io/v1beta1"),
        "/v2" => review["apiVersion"] = json!("admission.k8s.io/v2"),
        "/wrong-kind" => review["kind"] = json!("Review"),
        _ => {}
    }
    (200, JSON, review.to_string())
}
