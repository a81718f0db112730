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

mod api;
mod clock;
mod defaults;
mod life;
mod object;
mod quantity;
mod request;
mod serve;
mod store;
mod strategy;
mod validate;

use axum::Router;
use jiff::Timestamp;

use api::Api;
use life::Life;

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
