//! The socket, with TLS 1.3.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::certificates::Certificates;

/// A client that connects and says nothing is not waited for.
const HANDSHAKE_TAKES: Duration = Duration::from_secs(10);
/// Where nothing more can be accepted, such as without file descriptors, time may help.
const PAUSE: Duration = Duration::from_millis(50);

/// Answers for ever. Connections end with it.
pub(super) async fn answer(listener: TcpListener, certificates: Arc<Certificates>, router: Router) {
    let acceptor = match tls(certificates) {
        Ok(tls) => TlsAcceptor::from(Arc::new(tls)),
        Err(error) => return tracing::error!("the webhook cannot use TLS 1.3: {error}"),
    };
    let mut open = JoinSet::new();
    loop {
        tokio::select! {
            Some(_) = open.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    open.spawn(attend(stream, acceptor.clone(), router.clone()));
                }
                Err(_) => sleep(PAUSE).await,
            },
        }
    }
}

/// Each handshake takes the certificate of now.
fn tls(certificates: Arc<Certificates>) -> Result<ServerConfig, rustls::Error> {
    let mut tls = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_cert_resolver(certificates);
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(tls)
}

/// One connection, from its handshake to its end. How it fails is the client's concern, who sees it.
async fn attend(stream: TcpStream, acceptor: TlsAcceptor, router: Router) {
    let Ok(Ok(stream)) = timeout(HANDSHAKE_TAKES, acceptor.accept(stream)).await else { return };
    let mut builder = Builder::new(TokioExecutor::new());
    // With a timer, a client that begins a request and says no more is not waited for either.
    builder.http1().timer(TokioTimer::new());
    builder.http2().timer(TokioTimer::new());
    let _ = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router)).await;
}
