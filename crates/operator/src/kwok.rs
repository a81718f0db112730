//! The simulated cloud of KWOKNodeClass, on the cluster that is operated.

use std::sync::Arc;

use berth_cloud::Cloud;
use berth_cloud::kwok::{Api, Declined, KwokCloud, Said};
use berth_core::catalog::Catalog;
use serde_json::Value;

use crate::cluster::{Cluster, Refused};
use crate::desk::Desk;
use crate::office::Clock;

/// By which name the cloud's changes are known: they are not the operator's.
const MANAGER: &str = "berth-kwok";

/// A cloud whose machines are nodes of this cluster, for which KWOK plays the kubelets.
pub fn kwok_cloud(cluster: &Cluster, catalog: Arc<Catalog>, clock: &Clock) -> Arc<dyn Cloud> {
    let api = Arc::new(Desk::managed_by(cluster.clone(), MANAGER));
    let clock = clock.clone();
    Arc::new(KwokCloud::new(api, catalog, move || clock.now()))
}

impl Api for Desk {
    fn get<'a>(&'a self, path: &'a str) -> Said<'a> {
        said(self.read(path))
    }

    fn create<'a>(&'a self, path: &'a str, object: &'a Value) -> Said<'a> {
        said(self.create(path, object))
    }

    fn patch<'a>(&'a self, path: &'a str, change: &'a Value) -> Said<'a> {
        said(self.patch(path, change))
    }

    fn delete<'a>(&'a self, path: &'a str, uid: &'a str) -> Said<'a> {
        said(async move { self.delete(path, uid).await.map(|()| String::new()) })
    }
}

fn said<'a>(answer: impl Future<Output = Result<String, Refused>> + Send + 'a) -> Said<'a> {
    Box::pin(async { answer.await.map_err(|Refused { code, message, .. }| Declined { code, message }) })
}
