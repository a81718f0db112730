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
mod request;
mod serve;
mod socket;
mod store;
mod strategy;

use std::net::SocketAddr;

use axum::Router;
use jiff::Timestamp;
use serde_json::Value;

use api::Api;
use failure::Failure;
use life::Life;

pub use socket::{ServeError, Served};

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

    /// The same over TLS at an address, or at a free port of it for port 0. Must be called where tokio's clock is real.
    pub async fn serve(&self, address: SocketAddr) -> Result<Served, ServeError> {
        socket::serve(self.router(), address).await
    }

    /// Server-side apply of an object as somebody who may do everything; what it is then.
    pub fn apply(&self, manager: &str, object: &Value) -> Result<Value, Failure> {
        self.api.apply(manager, object)
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
