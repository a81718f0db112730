//! How `berth run` gets to VPSie, in the words of VPSie's own autoscaler.

use std::path::PathBuf;

use berth_api::duration::GoDuration;
use berth_cloud::vpsie::{Family, TlsFloor};
use berth_core::claim::Failures;
use clap::{Args, ValueEnum};

#[derive(Args, Debug)]
#[command(next_help_heading = "VPSie")]
pub(crate) struct Vpsie {
    /// The Secret that says who Berth is at VPSie: `token`, or `clientId` and `clientSecret`, and if they are not the
    /// usual ones `url`, `resourceIdentifier`, `datacenterId`, `projectId`. Without it nothing is bought there
    #[arg(long = "vpsie-secret-name", env = "VPSIE_SECRET_NAME", value_name = "NAME")]
    pub(crate) secret_name: Option<String>,

    /// Its namespace
    #[arg(
        long = "vpsie-secret-namespace",
        env = "VPSIE_SECRET_NAMESPACE",
        value_name = "NAME",
        default_value = "kube-system"
    )]
    pub(crate) secret_namespace: String,

    /// Which paths its API has
    #[arg(long = "vpsie-api", env = "VPSIE_API", value_enum, value_name = "FAMILY", default_value_t)]
    pub(crate) api: Api,

    /// The oldest version of TLS that it may be spoken to with
    #[arg(
        long = "vpsie-tls-min",
        env = "VPSIE_TLS_MIN",
        value_enum,
        value_name = "VERSION",
        default_value_t
    )]
    pub(crate) tls_min: TlsMin,

    /// A file of certificates, as PEM, that are trusted besides the machine's own
    #[arg(long = "vpsie-ca-file", env = "VPSIE_CA_FILE", value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,

    /// The cluster's id at VPSie, if the Secret does not name it
    #[arg(long, env = "RESOURCE_IDENTIFIER", value_name = "ID")]
    pub(crate) resource_identifier: Option<String>,

    /// The datacenter, if the Secret does not name it
    #[arg(long, env = "DEFAULT_DATACENTER_ID", value_name = "ID")]
    pub(crate) default_datacenter_id: Option<String>,

    /// The version of Kubernetes that new servers get, such as v1.34.0
    #[arg(long, env = "KUBERNETES_VERSION", value_name = "VERSION", value_parser = version)]
    pub(crate) kubernetes_version: Option<String>,

    /// How long VPSieNodes that failed are kept to be seen; 0 for ever
    #[arg(long, env = "FAILED_VPSIENODE_TTL", value_name = "DURATION", default_value = "30m")]
    pub(crate) failed_vpsienode_ttl: GoDuration,
}

impl Vpsie {
    pub(crate) fn failures(&self) -> Failures {
        match self.failed_vpsienode_ttl.as_std().as_secs() {
            0 => Failures::Kept,
            secs => Failures::KeptSecs(secs),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Api {
    /// Nodes of managed clusters (/k8s/cluster)
    #[default]
    Managed,
    /// Servers of our own (/servers)
    Servers,
}

impl From<Api> for Family {
    fn from(api: Api) -> Self {
        match api {
            Api::Managed => Self::Managed,
            Api::Servers => Self::Servers,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum TlsMin {
    #[value(name = "1.2")]
    Tls12,
    #[default]
    #[value(name = "1.3")]
    Tls13,
}

impl From<TlsMin> for TlsFloor {
    fn from(min: TlsMin) -> Self {
        match min {
            TlsMin::Tls12 => Self::Tls12,
            TlsMin::Tls13 => Self::Tls13,
        }
    }
}

fn version(text: &str) -> Result<String, String> {
    berth_api::vpsie::version_problem(text).map_or_else(|| Ok(text.to_owned()), Err)
}
