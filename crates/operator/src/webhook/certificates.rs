//! The certificate that the webhook shows, and its key: read from files, and again when they have changed.
//!
//! Certificates are renewed while Berth runs, and first made after it began: cert-manager does both. So they are looked at
//! all the time, and one that cannot be used is only said: what was in use stays in use. Without any, buying nodes goes on;
//! the replica is not ready, so that nobody is sent to it and a rollout stops here.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

/// A kubelet takes up to a minute to write a Secret that has changed.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// Where certificate and key are, as PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// Why whoever asks is not answered, if so.
pub type Readiness = watch::Receiver<Option<String>>;

#[derive(Debug)]
pub(super) struct Certificates {
    files: PairFiles,
    shown: watch::Sender<Option<Arc<CertifiedKey>>>,
    trouble: watch::Sender<Option<String>>,
}

/// What a look at the files came to.
type Found = Result<Texts, String>;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Texts {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl Certificates {
    pub(super) fn new(files: PairFiles) -> Self {
        let trouble = format!("the webhook has not read {} yet", files.certificate.display());
        Self { files, shown: watch::Sender::new(None), trouble: watch::Sender::new(Some(trouble)) }
    }

    pub(super) fn readiness(&self) -> Readiness {
        self.trouble.subscribe()
    }

    /// Looks at the files for ever.
    pub(super) async fn keep_fresh(self: Arc<Self>) {
        let mut looks = interval(LOOK_AGAIN);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last: Option<Found> = None;
        loop {
            looks.tick().await;
            let files = self.files.clone();
            let Ok(found) = tokio::task::spawn_blocking(move || files.read()).await else { continue };
            if last.as_ref() != Some(&found) {
                self.take(&found);
                last = Some(found);
            }
        }
    }

    /// Something has changed.
    fn take(&self, found: &Found) {
        match found.as_ref().map_err(Clone::clone).and_then(|texts| self.files.pair(texts)) {
            Ok(pair) => {
                let before = self.shown.send_replace(Some(Arc::new(pair)));
                self.trouble.send_replace(None);
                let certificate = self.files.certificate.display().to_string();
                let said = if before.is_some() {
                    "the webhook's certificate was renewed"
                } else {
                    "the webhook answers"
                };
                tracing::info!(certificate, "{said}");
            }
            Err(why) if self.shown.borrow().is_some() => {
                tracing::warn!("the webhook's certificate stays as it was: {why}");
            }
            Err(why) => {
                tracing::warn!("the webhook does not answer yet: {why}");
                self.trouble.send_replace(Some(format!("the webhook does not answer: {why}")));
            }
        }
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.shown.borrow().clone()
    }
}

impl PairFiles {
    fn read(&self) -> Found {
        let read = |path: &Path| {
            std::fs::read(path).map_err(|error| {
                let path = path.display();
                format!(
                    "cannot read {path}: {error}; mount a Secret of type kubernetes.io/tls at --webhook-cert-dir, or say with \
                     --webhook-cert-file and --webhook-key-file how the files are called"
                )
            })
        };
        Ok(Texts { certificate: read(&self.certificate)?, key: read(&self.key)? })
    }

    fn pair(&self, texts: &Texts) -> Result<CertifiedKey, String> {
        let wrong = |path: &Path, why: &str| format!("{}: {why}", path.display());
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&texts.certificate).collect();
        let chain = chain.map_err(|error| wrong(&self.certificate, &error.to_string()))?;
        if chain.is_empty() {
            return Err(wrong(&self.certificate, "there is no certificate in it; write it as PEM"));
        }
        let key = PrivateKeyDer::from_pem_slice(&texts.key)
            .map_err(|error| wrong(&self.key, &format!("there is no key in it that can be read: {error}")))?;
        CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider()).map_err(|error| {
            let key = self.key.display();
            wrong(&self.certificate, &format!("it cannot be used with {key}: {error}"))
        })
    }
}
