//! VPSie over TLS, whose machines join a stage's cluster as nodes.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

use berth_api::Timestamp;
use berth_world::cloud::weather::{Delay, Times};
use berth_world::cloud::{Event, Weather};
use berth_world::vpsie::{Faults, NewestTls, ServedVpsie, Vpsie};
use http::Method;
use serde_json::json;
use tokio::sync::watch;

use crate::account::{self, SECRET};
use crate::stage::{NODES, Stage};

const SECRETS: &str = "/api/v1/namespaces/kube-system/secrets";

/// An account at VPSie, and the way to it.
pub(crate) struct Yard {
    pub(crate) vpsie: Vpsie,
    pub(crate) served: ServedVpsie,
    /// Whether machines may join.
    is_open: watch::Sender<bool>,
}

impl Yard {
    /// Machines take a few seconds to come.
    pub(crate) async fn open() -> Self {
        let times =
            Times { launch: Delay::secs(2), join: Delay::secs(1), stop: Delay::secs(1), ..Times::default() };
        let weather = Weather { times, ..Weather::default() };
        let vpsie = account::vpsie(account::OFFERS, weather, 1, Faults::none(), Timestamp::now());
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let served = vpsie.serve(address, &["127.0.0.1"], NewestTls::Tls13).await.expect("a free port");
        Self { vpsie, served, is_open: watch::Sender::new(false) }
    }

    /// Says to Berth who it is there, and waits until the kinds of VPSie's objects are served.
    pub(crate) async fn sign(&self, stage: &Stage) {
        let secret = account::secret("kube-system", &self.served.url(), SECRET);
        stage.apply(SECRETS, secret).await;
        stage
            .until(60, "VPSie's kinds are served", async || {
                stage.is_served(account::GROUPS).await && stage.is_served(account::NODES).await
            })
            .await;
    }

    /// Lets machines join from now on.
    pub(crate) fn let_in(&self) {
        self.is_open.send_replace(true);
    }

    /// Has machines join, once they may, and leave, for as long as this is awaited. KWOK does what else kubelets do.
    pub(crate) async fn kubelets(&self, stage: &Stage) {
        // The sender is here.
        let _ = self.is_open.subscribe().wait_for(|is_open| *is_open).await;
        let mut happenings = self.vpsie.cloud().happenings();
        let mut nodes = BTreeMap::new();
        loop {
            match happenings.next().await.event {
                Event::Joins(machine) => {
                    let mut node = machine.node();
                    for (label, value) in [("hostname", &*machine.node), ("os", "linux"), ("arch", "amd64")] {
                        node["metadata"]["labels"][format!("kubernetes.io/{label}")] = json!(value);
                    }
                    stage.ask(Method::POST, NODES, Some(&node)).await;
                    nodes.insert(machine.machine.clone(), machine.node.to_string());
                }
                Event::Ends { machine, .. } => {
                    // Berth deletes the node too: whoever comes second finds none.
                    if let Some(node) = nodes.remove(&machine) {
                        stage.delete_if_there(NODES, &node).await;
                    }
                }
                _ => {}
            }
        }
    }
}
