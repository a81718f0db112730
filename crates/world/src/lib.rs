//! A Kubernetes in one process: its API, its scheduler and controllers, kubelets and a cloud.
//!
//! The same code serves a client in the same process without a socket, and kubectl.

pub mod crd;
pub mod discovery;
pub mod failure;
pub mod kinds;
pub mod names;
pub mod openapi;
pub mod patch;
pub mod rbac;
pub mod schema;
pub mod selector;
pub mod table;

mod admission;
mod api;
mod clock;
mod defaults;
mod life;
mod object;
mod request;
mod serve;
mod store;
mod strategy;
mod webhook;

use std::net::SocketAddr;

use axum::Router;
use jiff::Timestamp;

use api::Api;
use life::Life;
use webhook::Service;

/// A cluster of its own.
#[derive(Clone, Debug)]
pub struct World {
    api: Api,
}

impl World {
    /// The same seed and time give the same world. Must be called where tokio runs: its clock is the world's.
    pub fn new(seed: u64, now: Timestamp) -> Self {
        Self { api: Api::new(seed, now) }
    }

    /// Answers in this process for a service that webhooks are configured with: `namespace/name:port`, or the
    /// `host:port` of a URL. Needs no socket, so it works on virtual time.
    #[must_use]
    pub fn with_webhook_service(self, name: &str, service: Router) -> Self {
        self.api.state().services.insert(name.to_owned(), Service::Here(service));
        self
    }

    /// Where a service is that webhooks are configured with, under the same names.
    #[must_use]
    pub fn with_service(self, name: &str, address: SocketAddr) -> Self {
        self.api.state().services.insert(name.to_owned(), Service::At(address));
        self
    }

    /// The API as a service, which a `kube::Client` takes as it is.
    pub fn router(&self) -> Router {
        serve::router(self.api.clone())
    }

    /// Lets the world's controllers work, for as long as this is awaited.
    pub async fn live(&self) {
        Life::new(self.api.clone(), life::controllers()).live().await;
    }

    /// Forgets all changes up to now: whoever still wants them is told that they are gone.
    pub fn compact(&self) {
        self.api.state().store.compact();
    }
}
