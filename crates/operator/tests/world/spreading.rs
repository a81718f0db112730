//! Pods that ask for no spread, where kube-scheduler is configured to spread them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_api::{ClassKind, SchedulerConfig};
use berth_cloud::Cloud;
use berth_operator::Settings;
use berth_world::cloud::Weather;
use kube::Client;

use crate::scene::{Scene, deployment, text};
use crate::{awaited, with_pool};

pub(crate) fn spread_by_zone() -> SchedulerConfig {
    let config = "podTopologySpread: {defaultConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, \
                  whenUnsatisfiable: DoNotSchedule}]}";
    config.parse().expect("a configuration")
}

/// Nodes are bought in as many zones as the scheduler will want.
#[test]
fn nodes_are_bought_where_the_scheduler_spreads_pods_to() {
    for (scheduler, zones) in [(SchedulerConfig::default(), 1), (spread_by_zone(), 4)] {
        awaited(async {
            let scene = Scene::new(1, Weather::default()).await;
            let cloud: Arc<dyn Cloud> = Arc::new(scene.cloud.clone());
            let clouds = BTreeMap::from([(ClassKind::Kwok, cloud)]);
            let client = Client::new(scene.world.client("berth"), "default");
            let settings = Settings { scheduler: scheduler.clone(), ..Settings::default() };
            let lead = berth_operator::alone(1);
            let operator = scene.operator_with((clouds, settings), (client, "berth"), lead);
            let script = async {
                with_pool(&scene, |pool| {
                    pool["spec"]["disruption"]["consolidateAfter"] = serde_json::json!("Never");
                })
                .await;
                scene.apply(deployment("web", 4, "500m")).await;
                scene.until(180, "the pods run", async || scene.running().await == 4).await;
                let claims = scene.claims().await;
                let zone = |claim: &serde_json::Value| {
                    text(&claim["metadata"]["labels"]["topology.kubernetes.io/zone"]).to_owned()
                };
                let in_zones: BTreeSet<String> = claims.iter().map(zone).collect();
                assert_eq!(in_zones.len(), zones, "{in_zones:?}");
            };
            Box::pin(scene.play_with(operator, script)).await;
        });
    }
}
