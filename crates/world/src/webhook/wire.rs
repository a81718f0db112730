//! Asking a webhook: over TLS, or in the same process without a socket.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tower_service::Service as _;

use super::{Hook, Inquiry};
use crate::json::{Value, json};
use crate::object;
use crate::patch::go_kind;
use crate::store::{Key, Store};

/// What came back, or how asking failed.
pub(crate) type Said = Result<Value, String>;

/// The most that a webhook may answer.
const BYTES_MAX: usize = 3 << 20;

/// Where services are that the cluster itself does not run.
pub(crate) type Services = BTreeMap<String, Service>;

#[derive(Clone, Debug)]
pub(crate) enum Service {
    Here(Router),
    At(SocketAddr),
}

/// Whom to ask.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// `host:port`, as certificates and people know it.
    host: String,
    port: u16,
    /// With its query, if it has one.
    path: String,
    service: Option<Service>,
    ca_bundle: String,
}

impl Target {
    /// Where a webhook is, by its URL or by its service. `Err` says why that cannot be told.
    pub(crate) fn resolve(store: &Store, services: &Services, hook: &Hook) -> Result<Self, String> {
        let config = &hook.client_config;
        let ca_bundle = config.ca_bundle.clone();
        if let Some(service) = &config.service {
            let (namespace, name, port) = (&service.namespace, &service.name, service.port);
            let known = services.get(&format!("{namespace}/{name}:{port}")).cloned();
            let target = Self {
                host: format!("{name}.{namespace}.svc"),
                port,
                path: format!("/{}", service.path.trim_start_matches('/')),
                service: None,
                ca_bundle,
            };
            let found = match known {
                Some(known) => Ok(known),
                None => endpoint(store, namespace, name, port).map(Service::At),
            };
            return match found {
                Ok(service) => Ok(Self { service: Some(service), ..target }),
                Err(why) => Err(target.failed(&why, hook.timeout_seconds)),
            };
        }
        let Some(url) = &config.url else {
            return Err("webhook configuration must have either service or URL".to_owned());
        };
        let parsed: Option<http::Uri> = url.parse().ok();
        let Some((uri, host)) = parsed.as_ref().and_then(|uri| Some((uri, uri.host()?))) else {
            return Err(format!("Unparsable URL: parse {url:?}: invalid URL"));
        };
        let port = uri.port_u16().unwrap_or(443);
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let service = services.get(&format!("{host}:{port}")).cloned();
        Ok(Self { host: host.to_owned(), port, path, service, ca_bundle })
    }

    /// As an API server says that it could not ask.
    fn failed(&self, why: &str, timeout_secs: u64) -> String {
        let (host, port, path) = (&self.host, self.port, self.path_within(timeout_secs));
        format!("failed to call webhook: Post \"https://{host}:{port}{path}\": {why}")
    }

    /// The path, and how long the answer may take.
    fn path_within(&self, timeout_secs: u64) -> String {
        let mark = if self.path.contains('?') { '&' } else { '?' };
        format!("{}{mark}timeout={timeout_secs}s", self.path)
    }
}

/// An endpoint of a service that is ready.
fn endpoint(store: &Store, namespace: &str, name: &str, port: u16) -> Result<SocketAddr, String> {
    let Some(service) = store.get(&Key::new("services", namespace, name)) else {
        return Err(format!("service {name:?} not found"));
    };
    let ports = service["spec"]["ports"].as_array().into_iter().flatten();
    let Some(port) = ports.into_iter().find(|of| of["port"] == port) else {
        return Err(format!("no service port {port} found for service {name:?}"));
    };
    let port_name = object::text(port, &["name"]);
    let slices = store.list("endpointslices.discovery.k8s.io", Some(namespace)).map(|(_, slice)| slice);
    for slice in slices.filter(|slice| slice["metadata"]["labels"]["kubernetes.io/service-name"] == name) {
        let ports = slice["ports"].as_array().into_iter().flatten();
        let number = ports.into_iter().find(|port| object::text(port, &["name"]) == port_name);
        let number = number.and_then(|port| u16::try_from(port["port"].as_u64()?).ok());
        let endpoints = slice["endpoints"].as_array().into_iter().flatten();
        let ready = endpoints.filter(|endpoint| endpoint["conditions"]["ready"] != false);
        let addresses = ready.flat_map(|endpoint| endpoint["addresses"].as_array().into_iter().flatten());
        let mut addresses = addresses.filter_map(Value::as_str).filter_map(|address| address.parse().ok());
        if let (Some(address), Some(number)) = (addresses.next(), number) {
            return Ok(SocketAddr::new(address, number));
        }
    }
    Err(format!("no endpoints available for service {name:?}"))
}

/// Asks, and waits no longer than the webhook is given.
pub(crate) async fn ask(inquiry: &Inquiry) -> Said {
    let target = inquiry.target.as_ref().map_err(Clone::clone)?;
    let secs = inquiry.timeout_secs;
    let body = inquiry.review.to_value().to_string();
    let sent = tokio::time::timeout(Duration::from_secs(secs), send(target, secs, body));
    let failed = |why: &str| target.failed(why, secs);
    let answer = match sent.await {
        Err(_) => return Err(failed("context deadline exceeded")),
        Ok(Err(why)) => return Err(failed(&why)),
        Ok(Ok(answer)) => answer,
    };
    read(&answer).map_err(|why| format!("failed to call webhook: {why}"))
}

/// The review in an answer, or what an API server says where there is none.
fn read(answer: &Answer) -> Said {
    let text = String::from_utf8_lossy(&answer.body);
    // What is no JSON is taken for YAML, which nearly everything is.
    let body = serde_json::from_slice::<Value>(&answer.body).unwrap_or_else(|_| json!(text));
    match answer.code {
        200..=299 => {}
        _ if body["kind"] == "Status" && !object::text(&body, &["message"]).is_empty() => {
            return Err(object::text(&body, &["message"]).to_owned());
        }
        404 => return Err("the server could not find the requested resource".to_owned()),
        code @ 300..=399 => {
            return Err(format!(
                "the server responded with the status code {code} but did not return more information"
            ));
        }
        500.. => {
            let said = if answer.is_text { text.trim() } else { "unknown" };
            return Err(format!(
                "an error on the server ({said:?}) has prevented the request from succeeding"
            ));
        }
        _ => return Err("the server rejected our request for an unknown reason".to_owned()),
    }
    if answer.body.is_empty() {
        let (code, form) = (answer.code, &answer.form);
        return Err(format!("0-length response with status code: {code} and content type: {form}"));
    }
    if !body.is_object() {
        let kind = go_kind(&body);
        return Err(format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {kind} into Go value of type struct \
             {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \
             \"json:\\\"kind,omitempty\\\"\" }}"
        ));
    }
    Ok(body)
}

struct Answer {
    code: u16,
    /// What it says that it is.
    form: String,
    is_text: bool,
    body: Vec<u8>,
}

async fn send(target: &Target, secs: u64, body: String) -> Result<Answer, String> {
    let request = http::Request::post(target.path_within(secs))
        .header(HOST, format!("{}:{}", target.host, target.port))
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "application/json, */*")
        .header(USER_AGENT, "kube-apiserver-admission")
        .body(Body::from(body))
        .map_err(|error| error.to_string())?;
    let answer = match &target.service {
        Some(Service::Here(router)) => {
            let Ok(answer) = router.clone().call(request).await;
            answer
        }
        Some(Service::At(address)) => send_over(TcpStream::connect(address).await, target, request).await?,
        None => {
            let host = target.host.trim_matches(['[', ']']);
            send_over(TcpStream::connect((host, target.port)).await, target, request).await?
        }
    };
    let content_type = answer.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let form = content_type.unwrap_or_default().to_owned();
    let is_text = form.starts_with("text/");
    let code = answer.status().as_u16();
    let bytes = to_bytes(answer.into_body(), BYTES_MAX).await.map_err(|error| error.to_string())?;
    Ok(Answer { code, form, is_text, body: bytes.to_vec() })
}

async fn send_over(
    connected: std::io::Result<TcpStream>,
    target: &Target,
    request: http::Request<Body>,
) -> Result<http::Response<Body>, String> {
    let (host, port) = (&target.host, target.port);
    let stream = connected.map_err(|error| match error.kind() {
        std::io::ErrorKind::ConnectionRefused => {
            format!("dial tcp {host}:{port}: connect: connection refused")
        }
        _ => format!("dial tcp {host}:{port}: {error}"),
    })?;
    let name =
        ServerName::try_from(host.trim_matches(['[', ']']).to_owned()).map_err(|error| error.to_string())?;
    let connector = TlsConnector::from(Arc::new(trust(&target.ca_bundle)?));
    let stream = connector.connect(name, stream).await.map_err(|error| as_go_says(&error))?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| error.to_string())?;
    // It ends with the answer's body.
    tokio::spawn(connection);
    let answer = sender.send_request(request).await.map_err(|error| error.to_string())?;
    Ok(answer.map(Body::new))
}

/// Only whoever the bundle speaks for is believed.
fn trust(ca_bundle: &str) -> Result<rustls::ClientConfig, String> {
    let mut roots = rustls::RootCertStore::empty();
    let bundle = STANDARD.decode(ca_bundle).map_err(|error| error.to_string())?;
    for certificate in CertificateDer::pem_slice_iter(&bundle) {
        let certificate = certificate.map_err(|error| error.to_string())?;
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

fn as_go_says(error: &std::io::Error) -> String {
    let unverified = "tls: failed to verify certificate: x509";
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::InvalidCertificate(why)) => match why {
            rustls::CertificateError::UnknownIssuer => {
                format!("{unverified}: certificate signed by unknown authority")
            }
            rustls::CertificateError::Expired | rustls::CertificateError::ExpiredContext { .. } => {
                format!("{unverified}: certificate has expired or is not yet valid")
            }
            rustls::CertificateError::NotValidForNameContext { expected, presented } => {
                format!("{unverified}: {}", not_for(&expected.to_str(), presented))
            }
            other => format!("{unverified}: {other}"),
        },
        _ => error.to_string(),
    }
}

/// That a certificate is for others; these come as `DnsName("a.b")` and `IpAddress(127.0.0.1)`.
fn not_for(wanted: &str, presented: &[String]) -> String {
    let is_address = wanted.parse::<IpAddr>().is_ok();
    let of = if is_address { "IpAddress(" } else { "DnsName(" };
    let names = presented.iter().filter_map(|name| name.strip_prefix(of)?.strip_suffix(')'));
    let names: Vec<&str> = names.map(|name| name.trim_matches('"')).collect();
    match (&names[..], is_address) {
        ([], true) => {
            format!("cannot validate certificate for {wanted} because it doesn't contain any IP SANs")
        }
        ([], false) => format!("certificate is not valid for any names, but wanted to match {wanted}"),
        (names, _) => format!("certificate is valid for {}, not {wanted}", names.join(", ")),
    }
}
