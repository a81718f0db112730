//! The admission webhook for VPSie's kinds: what a cluster should not take is refused before it is written.
//!
//! `judging` says what is refused, and is the parser that the loop reads objects with; `review` is how it is asked and
//! answers; `certificates` and `serving` are the socket. It asks nobody anything: neither the cluster nor a cloud. So every
//! replica answers, whoever leads.

mod certificates;
mod judging;
mod review;
mod serving;

use std::sync::Arc;

use axum::Router;
use tokio::net::TcpListener;

use crate::metrics::Metrics;
use certificates::Certificates;

pub use certificates::{PairFiles, Readiness};

/// The webhook's server.
#[derive(Debug)]
pub struct Webhook {
    certificates: Arc<Certificates>,
    router: Router,
}

impl Webhook {
    /// Nothing is read yet: `serve` begins with that.
    pub fn new(files: PairFiles, metrics: &Metrics) -> Self {
        Self { certificates: Arc::new(Certificates::new(files)), router: review::router(metrics) }
    }

    /// Whether whoever asks is answered.
    pub fn readiness(&self) -> Readiness {
        self.certificates.readiness()
    }

    /// Answers until it is dropped. Without a certificate connections are refused, and the files looked at again and again.
    pub async fn serve(self, listener: TcpListener) {
        let Self { certificates, router } = self;
        tokio::join!(certificates.clone().keep_fresh(), serving::answer(listener, certificates, router));
    }
}

#[cfg(test)]
mod tests;
