//! The admission webhook of `berth run`, in the words of VPSie's own autoscaler.

use std::path::PathBuf;

use berth_operator::PairFiles;
use clap::{ArgAction, Args};

use super::listen::Listen;

#[derive(Args, Debug)]
#[command(next_help_heading = "Admission webhook")]
pub(crate) struct Webhook {
    /// Judge NodeGroups and VPSieNodes before the cluster takes them, and keep nodes from being deleted that are protected
    #[arg(id = "enable_webhook", long = "enable-webhook", env = "ENABLE_WEBHOOK", action = ArgAction::Set, value_name = "BOOL",
          num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub(crate) enabled: bool,

    /// Where it listens, as :PORT or HOST:PORT
    #[arg(
        id = "webhook_addr",
        long = "webhook-addr",
        env = "WEBHOOK_ADDR",
        value_name = "ADDRESS",
        default_value = ":9443"
    )]
    pub(crate) listen: Listen,

    /// The directory with its certificate and key, which are read again when they change
    #[arg(
        id = "webhook_cert_dir",
        long = "webhook-cert-dir",
        env = "WEBHOOK_CERT_DIR",
        value_name = "DIR",
        default_value = "/var/run/webhook-certs"
    )]
    pub(crate) cert_dir: PathBuf,

    /// The certificate there, as PEM, with those that it was signed by
    #[arg(
        id = "webhook_cert_file",
        long = "webhook-cert-file",
        env = "WEBHOOK_CERT_FILE",
        value_name = "NAME",
        default_value = "tls.crt"
    )]
    pub(crate) cert_file: PathBuf,

    /// The key there, as PEM
    #[arg(
        id = "webhook_key_file",
        long = "webhook-key-file",
        env = "WEBHOOK_KEY_FILE",
        value_name = "NAME",
        default_value = "tls.key"
    )]
    pub(crate) key_file: PathBuf,
}

impl Webhook {
    pub(crate) fn files(&self) -> PairFiles {
        PairFiles {
            certificate: self.cert_dir.join(&self.cert_file),
            key: self.cert_dir.join(&self.key_file),
        }
    }
}
