//! VPSie behind a socket: over TLS, under an authority of its own.

use std::net::SocketAddr;
use std::sync::Arc;

use berth_credentials::Authority;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, SupportedProtocolVersion};

use super::Vpsie;
use crate::socket::{self, Open, ServeError};

/// The newest TLS that it speaks: some installations are old.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NewestTls {
    Tls12,
    #[default]
    Tls13,
}

impl NewestTls {
    fn versions(self) -> Vec<&'static SupportedProtocolVersion> {
        match self {
            Self::Tls12 => vec![&TLS12],
            Self::Tls13 => vec![&TLS13, &TLS12],
        }
    }
}

/// A VPSie that clients reach over a socket, until it is stopped or dropped.
#[derive(Debug)]
pub struct ServedVpsie {
    address: SocketAddr,
    authority: String,
    open: Open,
}

impl ServedVpsie {
    /// Where its API is, by its address.
    pub fn url(&self) -> String {
        format!("https://{}/v2", self.address)
    }

    /// The certificate that clients have to trust, as PEM.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Ends all connections and frees the port.
    pub async fn stop(self) {
        self.open.close().await;
    }
}

impl Vpsie {
    /// Over TLS at an address, or at a free port of it for port 0, with a certificate for these names and addresses.
    /// Must be called where tokio's clock is real.
    pub async fn serve(
        &self,
        address: SocketAddr,
        called: &[&str],
        newest: NewestTls,
    ) -> Result<ServedVpsie, ServeError> {
        let (listener, address) = socket::listen(address).await?;
        let authority = Authority::new("berth vpsie")?;
        let pair = authority.server("berth-vpsie", called)?;
        let chain = vec![CertificateDer::from_pem_slice(pair.certificate.as_bytes())?];
        let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes())?;
        let tls = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_protocol_versions(&newest.versions())?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        let open = socket::open(self.router(), listener, tls, None);
        Ok(ServedVpsie { address, authority: authority.certificate(), open })
    }
}
