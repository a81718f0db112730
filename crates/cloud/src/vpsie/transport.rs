//! Requests go out over TLS and answers come back, whole and not too large.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};

/// No answer of the API comes near this; one that does is not VPSie's.
pub const BODY_BYTES_MAX: usize = 10 << 20;

/// What came of sending a request.
pub type Sent<'a> = Pin<Box<dyn Future<Output = Result<Response<Bytes>, Lost>> + Send + 'a>>;

/// A way to the API. It neither repeats requests nor follows redirects.
pub trait Transport: Send + Sync + fmt::Debug {
    fn send(&self, request: Request<Bytes>) -> Sent<'_>;
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// Nothing was sent.
    #[error("no connection: {0}")]
    Connection(String),
    #[error("no answer within {} s", .0.as_secs())]
    Timeout(Duration),
    #[error("the connection broke: {0}")]
    Broken(String),
    #[error("the answer has more than {BODY_BYTES_MAX} bytes")]
    TooLarge,
}

impl Lost {
    /// A word for metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Connection(_) => "connection",
            Self::Timeout(_) => "timeout",
            Self::Broken(_) => "broken",
            Self::TooLarge => "too-large",
        }
    }
}

/// The oldest TLS that is spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsFloor {
    Tls12,
    #[default]
    Tls13,
}

impl TlsFloor {
    fn versions(self) -> Vec<&'static SupportedProtocolVersion> {
        match self {
            Self::Tls12 => vec![&TLS13, &TLS12],
            Self::Tls13 => vec![&TLS13],
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsSettings {
    pub floor: TlsFloor,
    /// Authorities as PEM that are trusted besides the machine's own: private installations have theirs.
    pub extra_roots: Option<String>,
}

/// Why nothing can be sent at all.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    #[error("cannot read the extra root certificates: {0}")]
    Roots(#[from] rustls::pki_types::pem::Error),
    #[error("cannot use TLS: {0}")]
    Tls(#[from] rustls::Error),
}

/// HTTP/1.1 over TLS. Connections are kept for the next request.
#[derive(Clone)]
pub struct TlsTransport {
    http: HttpClient<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

impl fmt::Debug for TlsTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsTransport").finish_non_exhaustive()
    }
}

impl TlsTransport {
    pub fn new(settings: &TlsSettings) -> Result<Self, TransportError> {
        let mut roots = RootCertStore::empty();
        // A machine may have some that cannot be read: those are not trusted, the others are.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if let Some(pem) = &settings.extra_roots {
            for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
                roots.add(certificate?)?;
            }
        }
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_protocol_versions(&settings.floor.versions())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connector =
            HttpsConnectorBuilder::new().with_tls_config(config).https_only().enable_http1().build();
        Ok(Self { http: HttpClient::builder(TokioExecutor::new()).build(connector) })
    }

    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, Lost> {
        let response = self.http.request(request.map(Full::new)).await.map_err(|error| {
            let words = chain(&error);
            if error.is_connect() { Lost::Connection(words) } else { Lost::Broken(words) }
        })?;
        let (head, body) = response.into_parts();
        Ok(Response::from_parts(head, whole(body).await?))
    }
}

impl Transport for TlsTransport {
    fn send(&self, request: Request<Bytes>) -> Sent<'_> {
        Box::pin(self.exchange(request))
    }
}

async fn whole(body: Incoming) -> Result<Bytes, Lost> {
    match Limited::new(body, BODY_BYTES_MAX).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Lost::TooLarge),
        Err(error) => Err(Lost::Broken(chain(&*error))),
    }
}

/// An error and its causes: the outermost alone says only that something failed.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
