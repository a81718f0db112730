//! The operator with the simulated cloud, and nothing beside it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use berth_api::ClassKind;
use berth_cloud::CatalogOptions;
use berth_operator::{Choice, Clock, Cluster, Operator, Settings, alone, kwok_cloud};

pub(crate) fn forever(kubeconfig: &Path) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let choice = Choice { kubeconfig: Some(kubeconfig.to_owned()), context: None };
        let cluster = Cluster::reach(&choice).await.expect("a cluster");
        let catalog = berth_cloud::load("kwok", &CatalogOptions::default()).expect("it is built in");
        let clock = Clock::system();
        let cloud = kwok_cloud(&cluster, Arc::new(catalog), &clock);
        let clouds = BTreeMap::from([(ClassKind::Kwok, cloud)]);
        Operator::new(cluster, clouds, clock, Settings::default(), alone(1)).run().await;
    });
}
