//! Who is at the other end: whoever shows a certificate that was made here, or nobody in particular.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use berth_credentials::{Authority, Kubeconfig};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme};

use super::ServeError;
use crate::api::Peer;
use crate::rbac::User;

/// What the world is called in kubeconfigs.
const CLUSTER: &str = "berth-world";

/// The authority of a world, and all whom it has given a certificate.
///
/// Its key is known nowhere else. So a certificate is good if and only if it is among those that were given, and
/// whom it names need not be read from it.
#[derive(Debug)]
pub(crate) struct People {
    authority: Authority,
    known: Mutex<BTreeMap<Vec<u8>, User>>,
}

impl People {
    pub(super) fn new() -> Result<Self, ServeError> {
        Ok(Self { authority: Authority::new("berth world")?, known: Mutex::default() })
    }

    pub(super) fn kubeconfig(
        &self,
        address: SocketAddr,
        (user, group): (&str, Option<&str>),
        namespace: &str,
    ) -> Result<String, ServeError> {
        let pair = self.authority.client(user, group)?;
        let certificate = CertificateDer::from_pem_slice(pair.certificate.as_bytes())?;
        let groups = group.into_iter().chain(["system:authenticated"]).map(str::to_owned).collect();
        let person = User { name: user.to_owned(), groups, ..User::default() };
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(certificate.to_vec(), person);
        let authority = self.authority.certificate();
        let server = format!("https://{address}");
        let (cluster, server, authority) = (CLUSTER, server.as_str(), authority.as_str());
        let kubeconfig = Kubeconfig { cluster, server, authority, user, namespace, pair: &pair };
        Ok(kubeconfig.to_string())
    }

    pub(super) fn peer(&self, certificates: Option<&[CertificateDer<'_>]>) -> Peer {
        let Some(shown) = certificates.and_then(<[_]>::first) else { return Peer::Nobody };
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(shown.as_ref()).cloned().map_or(Peer::Stranger, Peer::Known)
    }

    /// TLS for the world at an address. Who has no certificate, or one from elsewhere, is let in too: the API tells
    /// them what they may do, as Kubernetes does.
    pub(super) fn server(&self, ip: IpAddr) -> Result<ServerConfig, ServeError> {
        let address = ip.to_string();
        let pair = self.authority.server("berth-world", &[&address, "localhost"])?;
        let chain = vec![CertificateDer::from_pem_slice(pair.certificate.as_bytes())?];
        let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes())?;
        let provider = Arc::new(aws_lc_rs::default_provider());
        let anybody = Arc::new(Anybody::new(&provider));
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(anybody)
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}

/// Takes any certificate, if the client has its key.
#[derive(Debug)]
struct Anybody {
    algorithms: WebPkiSupportedAlgorithms,
}

impl Anybody {
    fn new(provider: &CryptoProvider) -> Self {
        Self { algorithms: provider.signature_verification_algorithms }
    }
}

impl ClientCertVerifier for Anybody {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
