//! How clusters on loopback and their users know each other: one authority for each cluster, certificates that it
//! signs, and kubeconfigs that carry them.
//!
//! Certificates are valid at any time, so no clock is asked: a cluster on loopback ends long before they would.

mod kubeconfig;

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

pub use kubeconfig::Kubeconfig;

/// Why there is no certificate.
#[derive(Clone, Debug, thiserror::Error)]
#[error("cannot make certificates: {message}")]
pub struct Error {
    message: String,
}

impl From<rcgen::Error> for Error {
    fn from(error: rcgen::Error) -> Self {
        Self { message: error.to_string() }
    }
}

/// A certificate and its key, as PEM.
#[derive(Clone, Debug)]
pub struct Pair {
    pub certificate: String,
    pub key: String,
}

/// Whoever holds it can sign; its key is written nowhere.
#[derive(Debug)]
pub struct Authority {
    certificate: Certificate,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub fn new(name: &str) -> Result<Self, Error> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        let certificate = params.self_signed(&key)?;
        Ok(Self { certificate, issuer: Issuer::new(params, key) })
    }

    /// As PEM.
    pub fn certificate(&self) -> String {
        self.certificate.pem()
    }

    /// For a server that is called by these names and addresses.
    pub fn server(&self, name: &str, called: &[&str]) -> Result<Pair, Error> {
        let called: Vec<String> = called.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(called)?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(params)
    }

    /// For a client whom Kubernetes knows by this name, in this group if any.
    pub fn client(&self, user: &str, group: Option<&str>) -> Result<Pair, Error> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, user);
        if let Some(group) = group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params)
    }

    fn sign(&self, mut params: CertificateParams) -> Result<Pair, Error> {
        let key = KeyPair::generate()?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(Pair { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

/// What signs tokens, and what those who check them read; as PEM.
#[derive(Clone, Debug)]
pub struct TokenKey {
    pub private: String,
    pub public: String,
}

impl TokenKey {
    pub fn new() -> Result<Self, Error> {
        let key = KeyPair::generate()?;
        Ok(Self { private: key.serialize_pem(), public: key.public_key_pem() })
    }
}
