//! VPSie, played on the simulated cloud: its paths, its envelopes, its habits, and what goes wrong with it.
//!
//! Machines are those of a [`SimulatedCloud`], so its weather applies and its kubelets join. What VPSie is like on top of
//! that, and the faults of its API, are plain data ([`Faults`]).

mod answer;
mod faults;
mod managed;
mod offers;
mod served;
mod server_groups;
mod servers;
mod sign_in;
mod state;
mod transport;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use berth_core::names::Text;
use jiff::Timestamp;
use serde_json::Value;
use tokio::time::sleep;

use crate::cloud::SimulatedCloud;
use answer::{broken, enveloped_error};
use state::Register;

pub use faults::{Deed, DeedFaults, Faults};
pub use managed::number_of;
pub use served::{NewestTls, ServedVpsie};
pub use transport::InProcess;

/// Nobody sends VPSie more than this.
const REQUEST_BYTES_MAX: usize = 1 << 20;

/// What kind of VPSie it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VpsieSettings {
    /// The managed cluster, and the datacenter in which it is.
    pub cluster: Text,
    pub datacenter: Text,
    pub client_id: Text,
    pub client_secret: Text,
    /// A token that never expires.
    pub token: Text,
    /// How long tokens last that are signed in for.
    pub tokens_last: Duration,
    /// Nodes are added later: the answer names none.
    pub asynchronous: bool,
}

/// VPSie in this process. Clones are the same.
#[derive(Clone, Debug)]
pub struct Vpsie {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    cloud: SimulatedCloud,
    settings: VpsieSettings,
    faults: Faults,
    began: Timestamp,
    register: Mutex<Register>,
}

/// A request, as far as answering it needs it.
struct Asked {
    method: String,
    /// The parts of the path, without the version.
    path: Vec<String>,
    query: BTreeMap<String, String>,
    body: Vec<u8>,
    bearer: Option<String>,
}

impl Asked {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

impl Vpsie {
    pub fn new(cloud: SimulatedCloud, settings: VpsieSettings, faults: Faults) -> Self {
        let (began, register) = (cloud.now(), Mutex::default());
        Self { shared: Arc::new(Shared { cloud, settings, faults, began, register }) }
    }

    /// The API as a service, under `/v2`.
    pub fn router(&self) -> Router {
        async fn handle(State(vpsie): State<Vpsie>, request: Request) -> Response {
            vpsie.respond(request).await
        }
        Router::new().fallback(handle).with_state(self.clone())
    }

    pub fn cloud(&self) -> &SimulatedCloud {
        &self.shared.cloud
    }

    /// The most requests that came within any minute.
    pub fn most_calls_in_a_minute(&self) -> usize {
        self.register().most_calls_in_a_minute()
    }

    /// How often it was asked for something.
    pub fn calls(&self, deed: Deed) -> u64 {
        self.register().calls(deed)
    }

    /// How many nodes the group of each size has had.
    pub fn nodes_by_size(&self) -> BTreeMap<usize, usize> {
        let register = self.register();
        register.groups.iter().map(|group| (group.size, register.nodes_of(group.number))).collect()
    }

    /// How many requests something went wrong with, besides the weather.
    pub fn faults_struck(&self) -> u64 {
        self.register().struck
    }

    /// All tokens that were ever signed in for.
    pub fn tokens(&self) -> Vec<String> {
        self.register().granted.clone()
    }

    /// The servers that were ordered, as it was said.
    pub fn orders(&self) -> Vec<Value> {
        self.register().orders.clone()
    }

    fn settings(&self) -> &VpsieSettings {
        &self.shared.settings
    }

    fn faults(&self) -> &Faults {
        &self.shared.faults
    }

    fn now(&self) -> Timestamp {
        self.shared.cloud.now()
    }

    fn register(&self) -> MutexGuard<'_, Register> {
        self.shared.register.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn respond(&self, request: Request) -> Response {
        let Some(asked) = read(request).await else { return broken() };
        let deed = Deed::of(&asked.method, &asked.path.join("/"));
        let number = self.register().called(deed, self.now());
        let since_ms = u64::try_from(self.now().duration_since(self.shared.began).as_millis()).unwrap_or(0);
        let strikes = self.faults().strikes(deed, number, since_ms);
        self.register().struck += u64::from(strikes.any());
        if strikes.signs_out {
            self.expire_tokens();
        }
        if let Some(answer) = strikes.instead(&asked, number) {
            sleep(strikes.slow_by).await;
            return answer;
        }
        let answer = self.answer(deed, &asked).await;
        sleep(strikes.slow_by).await;
        strikes.of(answer)
    }

    async fn answer(&self, deed: Deed, asked: &Asked) -> Response {
        if deed == Deed::SignIn {
            return self.sign_in(asked);
        }
        if !self.is_signed_in(asked) {
            return enveloped_error(401, "Unauthorized: the token is not valid");
        }
        let path: Vec<&str> = asked.path.iter().map(String::as_str).collect();
        match (asked.method.as_str(), path.as_slice()) {
            ("GET", ["datacenters"]) => self.datacenters(),
            ("GET", ["offerings"]) => self.offerings(asked).await,
            ("POST", ["k8s", "offers"]) => self.cluster_offers(asked).await,
            ("GET", ["k8s", "nodegroups"]) => self.list_server_groups(asked),
            ("POST", ["k8s", "nodegroups"]) => self.add_server_group(asked),
            ("GET", ["servers", "notices"]) => self.notices().await,
            ("GET", ["servers" | "vm"]) => self.list_servers(asked).await,
            ("POST", ["servers" | "vm"]) => self.create_server(asked).await,
            ("GET", ["servers" | "vm", id]) => self.get_server(id).await,
            ("DELETE", ["servers" | "vm", id]) => self.delete_server(id).await,
            ("GET", ["k8s", "cluster", "byId", cluster]) => self.get_cluster(cluster).await,
            ("GET", ["k8s", "node", "groups", "byClusterId", cluster]) => self.list_groups(cluster),
            ("POST", ["k8s", "cluster", "add", "group"]) => self.add_group(asked),
            ("POST", ["k8s", "cluster", "byId", cluster, "add", "slave", "group", group]) => {
                self.add_node(cluster, group).await
            }
            ("DELETE", ["k8s", "cluster", "byId", cluster, "delete", "slave"]) => {
                self.delete_node(cluster, asked).await
            }
            _ => enveloped_error(404, "there is no such path"),
        }
    }
}

async fn read(request: Request<Body>) -> Option<Asked> {
    let (head, body) = request.into_parts();
    let bearer = head.headers.get(http::header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let bearer = bearer.and_then(|text| text.strip_prefix("Bearer ")).map(str::to_owned);
    let path = head.uri.path().trim_start_matches("/v2").split('/').filter(|part| !part.is_empty());
    let query = form_urlencoded::parse(head.uri.query().unwrap_or_default().as_bytes());
    Some(Asked {
        method: head.method.as_str().to_owned(),
        path: path.map(decoded).collect(),
        query: query.map(|(key, value)| (key.into_owned(), value.into_owned())).collect(),
        body: to_bytes(body, REQUEST_BYTES_MAX).await.ok()?.to_vec(),
        bearer,
    })
}

/// A part of a path is encoded as a value of a form is, but for the plus.
fn decoded(part: &str) -> String {
    let text = part.replace('+', "%2B");
    form_urlencoded::parse(text.as_bytes()).map(|(key, _)| key.into_owned()).next().unwrap_or_default()
}
