//! How `berth run` gets to VPSie, in the words of VPSie's own autoscaler.

use std::path::PathBuf;

use berth_api::GroupDefaults;
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

    /// The cluster's id at VPSie, whatever the Secret says; without it the Secret's, or what the nodes' labels name
    #[arg(long, env = "RESOURCE_IDENTIFIER", value_name = "ID")]
    pub(crate) resource_identifier: Option<String>,

    /// The datacenter, whatever the Secret says; without it the Secret's
    #[arg(long, env = "DEFAULT_DATACENTER_ID", value_name = "ID")]
    pub(crate) default_datacenter_id: Option<String>,

    /// What groups may buy that are made for pods which no group fits, if the AutoscalerConfig does not say it
    #[arg(long, env = "DEFAULT_OFFERING_IDS", value_name = "ID,...", value_delimiter = ',')]
    pub(crate) default_offering_ids: Vec<String>,

    /// Their Kubernetes package at VPSie; 0 for none
    #[arg(long, env = "KUBE_SIZE_ID", value_name = "NUMBER", default_value_t = 0)]
    pub(crate) kube_size_id: u32,

    /// The version of Kubernetes that new servers get, such as v1.34.0; new groups, if it is not given, the cluster's
    #[arg(long, env = "KUBERNETES_VERSION", value_name = "VERSION", value_parser = version)]
    pub(crate) kubernetes_version: Option<String>,

    /// How long VPSieNodes that failed are kept to be seen; 0 for ever
    #[arg(long, env = "FAILED_VPSIENODE_TTL", value_name = "DURATION", default_value = "30m")]
    pub(crate) failed_vpsienode_ttl: GoDuration,
}

impl Vpsie {
    /// What new groups start from where the AutoscalerConfig does not say it.
    pub(crate) fn group_defaults(&self) -> GroupDefaults {
        GroupDefaults {
            datacenter: self.default_datacenter_id.clone(),
            offerings: self.default_offering_ids.clone(),
            cluster: self.resource_identifier.clone(),
            project: None,
            kubernetes_version: self.kubernetes_version.clone(),
            kube_size: Some(self.kube_size_id).filter(|size| *size > 0),
        }
    }

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
    /// The same under the path of VPSie's public API (/vm)
    Vm,
}

impl From<Api> for Family {
    fn from(api: Api) -> Self {
        match api {
            Api::Managed => Self::Managed,
            Api::Servers => Self::Servers,
            Api::Vm => Self::Vm,
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
