//! One authority for everything, made anew for every control plane.

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use crate::error::Error;

/// How the components and their users call the servers; 10.0.0.1 is the first address of the services.
const SERVER_NAMES: [&str; 6] =
    ["127.0.0.1", "10.0.0.1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];

/// Who talks to the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Identity {
    Admin,
    ControllerManager,
    Scheduler,
    Kwok,
}

impl Identity {
    pub(crate) const ALL: [Self; 4] = [Self::Admin, Self::ControllerManager, Self::Scheduler, Self::Kwok];

    pub(crate) fn user(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::ControllerManager => "system:kube-controller-manager",
            Self::Scheduler => "system:kube-scheduler",
            Self::Kwok => "kwok",
        }
    }

    /// The API server has roles for its own components; members of this group may do everything.
    fn group(self) -> Option<&'static str> {
        match self {
            Self::Admin | Self::Kwok => Some("system:masters"),
            Self::ControllerManager | Self::Scheduler => None,
        }
    }
}

/// A certificate and its key, as PEM.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

#[derive(Debug)]
pub(crate) struct Authority {
    certificate: Certificate,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Result<Self, Error> {
        let key = KeyPair::generate().map_err(refused)?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "berth control plane");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        let certificate = params.self_signed(&key).map_err(refused)?;
        Ok(Self { certificate, issuer: Issuer::new(params, key) })
    }

    pub(crate) fn certificate(&self) -> String {
        self.certificate.pem()
    }

    pub(crate) fn server(&self) -> Result<Pair, Error> {
        let names = SERVER_NAMES.map(str::to_owned);
        let mut params = CertificateParams::new(names).map_err(refused)?;
        params.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(params)
    }

    pub(crate) fn client(&self, identity: Identity) -> Result<Pair, Error> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, identity.user());
        if let Some(group) = identity.group() {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params)
    }

    fn sign(&self, mut params: CertificateParams) -> Result<Pair, Error> {
        let key = KeyPair::generate().map_err(refused)?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let certificate = params.signed_by(&key, &self.issuer).map_err(refused)?;
        Ok(Pair { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

/// What signs the tokens of service accounts. The API server reads the public half from a file of its own.
#[derive(Debug)]
pub(crate) struct TokenKey {
    pub(crate) private: String,
    pub(crate) public: String,
}

impl TokenKey {
    pub(crate) fn new() -> Result<Self, Error> {
        let key = KeyPair::generate().map_err(refused)?;
        Ok(Self { private: key.serialize_pem(), public: key.public_key_pem() })
    }
}

#[expect(clippy::needless_pass_by_value, reason = "as `map_err` hands it over")]
fn refused(error: rcgen::Error) -> Error {
    Error::Certificates { message: error.to_string() }
}
