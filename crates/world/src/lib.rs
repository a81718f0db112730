//! A Kubernetes in one process: its API, its scheduler and controllers, kubelets and a cloud.
//!
//! The same code serves a client in the same process without a socket, and kubectl.

pub mod audit;
pub mod cloud;
pub mod crd;
pub mod discovery;
pub mod failure;
pub mod faults;
pub mod json;
pub mod kinds;
pub mod names;
pub mod openapi;
pub mod patch;
pub mod rbac;
pub mod schema;
pub mod selector;
pub mod table;
pub mod vpsie;

mod admission;
mod api;
mod body;
mod clock;
mod defaults;
mod events;
mod life;
mod metrics;
mod object;
mod options;
mod proto;
mod request;
mod serve;
mod socket;
mod store;
mod strategy;
mod validate;
mod webhook;

use std::net::SocketAddr;

use axum::Router;
use jiff::Timestamp;
use tokio::sync::watch;

use api::Api;
use audit::{Asked, Changed};
use failure::Failure;
use faults::{Fault, FaultPlan, Faults, Seat, Unknown};
use life::Life;
use webhook::Service;

pub use life::Kubelets;
pub use socket::{ServeError, Served};

/// A cluster of its own.
#[derive(Clone, Debug)]
pub struct World {
    api: Api,
    faults: Faults,
    kubelets: Kubelets,
}

impl World {
    /// The same seed and time give the same world. Must be called where tokio runs: its clock is the world's.
    pub fn new(seed: u64, now: Timestamp) -> Self {
        let api = Api::new(seed, now);
        Self { kubelets: Kubelets::new(api.clone()), faults: Faults::none(), api }
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

    fn served(&self) -> faults::Served {
        faults::Served { api: self.api.clone(), faults: self.faults.clone() }
    }

    /// The API as a service, which a `kube::Client` takes as it is, and a socket can serve.
    pub fn router(&self) -> Router {
        serve::router(self.served())
    }

    /// The API as one client has it, by the name that faults know it by: each sees what the faults let it see.
    pub fn client(&self, name: &str) -> Seat {
        Seat::new(self.served(), name)
    }

    /// Adds to what is to go wrong. Deeds are counted from now on.
    pub fn plan_faults(&self, plan: FaultPlan) {
        self.faults.plan(plan);
    }

    /// What has gone wrong: the client and the fault, in order.
    pub fn faults_struck(&self) -> Vec<String> {
        self.faults.struck()
    }

    /// The same without the first so many, once there are more.
    pub async fn faults_struck_beyond(&self, count: usize) -> Vec<String> {
        self.faults.more_struck(count).await;
        self.faults.struck().split_off(count)
    }

    /// Whether nobody serves what a fault is about, as yet.
    pub fn unknown_to(&self, fault: &Fault) -> Option<Unknown> {
        faults::unknown(&self.api.state().kinds, fault.resource.as_deref()?)
    }

    /// Waits until a fault ends the client. Whoever runs it must drop it then: it hears nothing more.
    pub async fn crashed(&self, client: &str) {
        self.faults.crashed(client).await;
    }

    /// Ends a client as a fault would.
    pub fn crash(&self, client: &str) {
        self.faults.crash(client);
    }

    /// Answers a client again that has crashed. What it had asked before is never answered.
    pub fn restart(&self, client: &str) {
        self.faults.restart(client);
    }

    /// What time it is, by the client's clock.
    pub fn clock_of(&self, client: &str) -> Timestamp {
        let now = self.api.state().now();
        now.checked_add(self.faults.clock(client, now)).unwrap_or(now)
    }

    /// The same over TLS at an address, or at a free port of it for port 0. Must be called where tokio's clock is real.
    pub async fn serve(&self, address: SocketAddr) -> Result<Served, ServeError> {
        socket::serve(self.router(), address).await
    }

    /// Server-side apply of an object as somebody who may do everything; what it is then.
    pub async fn apply(
        &self,
        manager: &str,
        object: &serde_json::Value,
    ) -> Result<serde_json::Value, Failure> {
        let applied = self.api.apply(manager, &json::Value::from(object.clone())).await?;
        Ok((&applied).into())
    }

    /// Lets the world's controllers work, for as long as this is awaited.
    pub async fn live(&self) {
        Life::new(self.api.clone(), life::controllers(&self.kubelets)).live().await;
    }

    /// What runs on the nodes, to be told how to behave.
    pub fn kubelets(&self) -> &Kubelets {
        &self.kubelets
    }

    /// Lets only these of them work: whoever tests one wants no other.
    pub async fn live_only(&self, names: &[&str]) {
        let mut controllers = life::controllers(&self.kubelets);
        controllers.retain(|controller| names.contains(&controller.name()));
        Life::new(self.api.clone(), controllers).live().await;
    }

    /// The revision of the last change.
    pub fn revision(&self) -> u64 {
        self.api.state().store.revision()
    }

    /// Takes down every change from now on, for [`World::trace`].
    pub fn begin_trace(&self) {
        self.api.state().store.begin_trace();
    }

    /// Every change since the trace began, a line each: its revision, what became of which object, and a digest of
    /// the object. Two lives are the same if their traces are.
    pub fn trace(&self) -> String {
        self.api.state().store.trace().to_owned()
    }

    /// Takes down every request of every client from now on, for [`World::take_asked`].
    pub fn begin_audit(&self) {
        self.faults.begin_audit();
    }

    /// The requests since this was last asked, in order.
    pub fn take_asked(&self) -> Vec<Asked> {
        self.faults.take_asked()
    }

    /// The changes of these resources after a revision, or of all if none is named, in order; `None` if some are
    /// forgotten.
    pub fn changes_after(&self, revision: u64, resources: &[&str]) -> Option<Vec<Changed>> {
        let state = self.api.state();
        let changes = state.store.changes_after(revision).ok()?;
        let is_wanted = |resource: &str| resources.is_empty() || resources.contains(&resource);
        let wanted = changes.filter(|change| is_wanted(change.key.resource()));
        Some(wanted.map(Changed::from).collect())
    }

    /// Tells whoever holds it of each new revision.
    pub fn revisions(&self) -> watch::Receiver<u64> {
        self.api.state().store.subscribe()
    }

    /// Takes away the past, as a compaction of etcd does: whoever wants to list it, or to go on with a list of it, is
    /// told that it is gone. Watches are answered from caches, which still have it; but events are in no cache.
    pub fn compact(&self) {
        self.api.state().store.compact();
    }

    /// Forgets the past altogether, as an API server that starts with empty caches: watches of it are told so, too.
    pub fn forget(&self) {
        self.api.state().store.forget();
    }
}
