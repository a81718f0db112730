//! The API behind a socket: over TLS, under an authority of its own, for kubectl and any other client.

mod people;

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::middleware::map_response;
use axum::response::Response;
use axum::{Extension, Router};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use people::People;

use crate::serve;

/// A client that connects and says nothing is not waited for.
const HANDSHAKE_TAKES: Duration = Duration::from_secs(10);
/// What has been asked is still answered; a watch, which would go on, is cut off.
const GRACE: Duration = Duration::from_millis(500);
/// Where nothing more can be accepted, such as without file descriptors, time may help.
const PAUSE: Duration = Duration::from_millis(50);

/// Who may do everything.
const ADMIN: (&str, Option<&str>) = ("admin", Some("system:masters"));

/// Why a world is not served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("another program listens on {address}")]
    InUse { address: SocketAddr },
    #[error("cannot listen on {address}: {source}")]
    Listen { address: SocketAddr, source: io::Error },
    #[error(transparent)]
    Credentials(#[from] berth_credentials::Error),
    #[error("cannot use certificates: {0}")]
    Tls(#[from] rustls::Error),
    #[error("cannot read certificates: {0}")]
    Pem(#[from] rustls::pki_types::pem::Error),
}

/// A world that clients reach over a socket, until it is stopped or dropped.
#[derive(Debug)]
pub struct Served {
    address: SocketAddr,
    kubeconfig: String,
    people: Arc<People>,
    open: Open,
}

/// A socket that answers, until it is closed or dropped.
#[derive(Debug)]
pub(crate) struct Open {
    /// Never sent anything: whoever listens hears that it is gone.
    stopping: watch::Sender<()>,
    accepting: JoinHandle<()>,
}

impl Open {
    /// Ends all connections and frees the port.
    pub(crate) async fn close(self) {
        drop(self.stopping);
        // A panic in there has been reported, and there is nothing left to stop.
        let _ = self.accepting.await;
    }
}

impl Served {
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// For the one who may do everything.
    pub fn kubeconfig(&self) -> &str {
        &self.kubeconfig
    }

    /// For somebody else, who may do what roles allow.
    pub fn kubeconfig_of(&self, user: &str, group: Option<&str>) -> Result<String, ServeError> {
        self.people.kubeconfig(self.address, (user, group), "default")
    }

    /// For the one who may do everything, and means this namespace unless another is named.
    pub fn kubeconfig_in(&self, namespace: &str) -> Result<String, ServeError> {
        self.people.kubeconfig(self.address, ADMIN, namespace)
    }

    /// Ends all connections and frees the port.
    pub async fn stop(self) {
        self.open.close().await;
    }
}

pub(crate) async fn serve(router: Router, address: SocketAddr) -> Result<Served, ServeError> {
    let (listener, address) = listen(address).await?;
    let people = Arc::new(People::new()?);
    let kubeconfig = people.kubeconfig(address, ADMIN, "default")?;
    let tls = people.server(address.ip())?;
    let open = open(router, listener, tls, Some(people.clone()));
    Ok(Served { address, kubeconfig, people, open })
}

/// A socket at this address, or at a free port of it for port 0.
pub(crate) async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), ServeError> {
    let refused = |source: io::Error| match source.kind() {
        io::ErrorKind::AddrInUse => ServeError::InUse { address },
        _ => ServeError::Listen { address, source },
    };
    let listener = TcpListener::bind(address).await.map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    Ok((listener, address))
}

/// Answers on a socket. With people, the router is told who asks.
pub(crate) fn open(
    router: Router,
    listener: TcpListener,
    tls: ServerConfig,
    people: Option<Arc<People>>,
) -> Open {
    let (stopping, stop) = watch::channel(());
    let door = Door { router, tls: TlsAcceptor::from(Arc::new(tls)), people, stop };
    Open { stopping, accepting: tokio::spawn(door.accept(listener)) }
}

/// What every connection needs.
#[derive(Clone)]
struct Door {
    router: Router,
    tls: TlsAcceptor,
    people: Option<Arc<People>>,
    stop: watch::Receiver<()>,
}

impl Door {
    async fn accept(self, listener: TcpListener) {
        let mut open = JoinSet::new();
        let mut stop = self.stop.clone();
        loop {
            tokio::select! {
                biased;
                _ = stop.changed() => break,
                Some(_) = open.join_next() => {}
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        open.spawn(self.clone().attend(stream));
                    }
                    Err(_) => sleep(PAUSE).await,
                },
            }
        }
        drop(listener);
        // What is still open after that ends with the set.
        let _ = timeout(GRACE, async { while open.join_next().await.is_some() {} }).await;
    }

    /// One connection, from its handshake to its end. How it fails is the client's concern, who sees it.
    async fn attend(self, stream: TcpStream) {
        let Ok(Ok(stream)) = timeout(HANDSHAKE_TAKES, self.tls.accept(stream)).await else { return };
        let peer = self.people.map(|people| people.peer(stream.get_ref().1.peer_certificates()));
        let router = match peer {
            Some(peer) => self.router.layer(Extension(peer)),
            None => self.router,
        };
        let lost = Arc::new(Notify::new());
        let service = TowerToHyperService::new(breaking(router, &lost));
        let mut builder = Builder::new(TokioExecutor::new());
        // With a timer, a client that begins a request and says no more is not waited for either.
        builder.http1().timer(TokioTimer::new());
        let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
        let mut stop = self.stop;
        tokio::select! {
            biased;
            _ = stop.changed() => connection.as_mut().graceful_shutdown(),
            _ = connection.as_mut() => return,
            () = lost.notified() => return,
        }
        let _ = connection.await;
    }
}

/// The same, but for answers that are lost: with them the connection is, and all that is asked over it.
fn breaking(router: Router, lost: &Arc<Notify>) -> Router {
    let lost = lost.clone();
    router.layer(map_response(move |response: Response| {
        let lost = lost.clone();
        async move {
            if serve::is_lost(&response) {
                lost.notify_one();
                pending::<()>().await;
            }
            response
        }
    }))
}

#[cfg(test)]
mod tests;
