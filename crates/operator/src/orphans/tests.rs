//! Whose machine one is, is known in two dialects.

use std::sync::Arc;

use berth_api::{ClassKind, Source, Timestamp};
use berth_cloud::machine::{Order, Token};
use berth_cloud::provider::list_all;
use berth_cloud::{CatalogOptions, Cloud, import};
use berth_core::catalog::CapacityType;
use berth_core::names::Labels;
use berth_core::plan::Alternative;
use berth_core::units::Price;
use berth_world::World;
use berth_world::cloud::weather::Weather;
use berth_world::cloud::{Account, SimulatedCloud};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::*;
use crate::cluster::Cluster;
use crate::office::Clock;
use crate::operator::{Settings, alone};

const OFFERS: &str = r#"[{"id": "1", "name": "small", "cpu": 2, "ram": 4096, "disk": 80, "hourly_price": 0.05,
    "datacenter_id": "dc-1"}]"#;

fn claim() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": { "name": "web-1" },
        "spec": {
            "requirements": [],
            "nodeClassRef": { "group": "berth.dev", "kind": "VPSieNodeClass", "name": "default" },
        },
    })
}

fn node() -> Value {
    json!({
        "apiVersion": "autoscaler.vpsie.com/v1alpha1", "kind": "VPSieNode",
        "metadata": { "name": "workers-1", "namespace": "kube-system" },
        "spec": {
            "vpsieInstanceID": 0, "instanceType": "small", "nodeGroupName": "workers", "datacenterID": "dc-1",
            "resourceIdentifier": "c-1", "project": "p-1", "kubernetesVersion": "v1.34.0",
        },
    })
}

fn order(token: &str, cluster: &str) -> Order {
    Order {
        tags: Labels::from([(CLUSTER_TAG.into(), cluster.into())]),
        ..Order::new(
            Token::parse(token).unwrap(),
            format!("machine-of-{token}"),
            "any",
            vec![Alternative {
                instance_type: "small".into(),
                zone: "dc-1".into(),
                capacity_type: CapacityType::OnDemand,
                price_per_hour: Price::ZERO,
            }],
        )
    }
}

/// What is seen is older than both claims: only who asks for the claims of both dialects knows whose the machines are.
#[test]
fn a_machine_is_nobodys_only_if_it_is_nobodys_in_both_dialects() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.unwrap().block_on(async {
        let began: Timestamp = "2026-03-01T09:00:00Z".parse().unwrap();
        let world = World::new(1, began);
        let crds = Source::Text { name: "crds".to_owned(), text: berth_api::crds::yaml().unwrap() };
        for object in berth_api::objects(&[crds]).0 {
            world.apply("test", &object.value).await.unwrap();
        }
        let catalog = import(OFFERS, "vpsie", &CatalogOptions::default()).unwrap();
        let cloud = SimulatedCloud::new(Account::new(Arc::new(catalog), Weather::default(), 1, began));
        let clouds = BTreeMap::from([(ClassKind::Vpsie, Arc::new(cloud.clone()) as Arc<dyn Cloud>)]);
        let client = kube::Client::new(world.client("berth"), "default");
        let clock = {
            let cloud = cloud.clone();
            Clock::new(move || cloud.inspect(Account::now))
        };
        let cluster = Cluster::through(client, "the world");
        let mut operator = Operator::new(cluster, clouds, clock, Settings::default(), alone(1));
        let cluster_id = operator.office.cluster_id().await.unwrap().to_owned();
        let mut uids = vec!["nobody".to_owned()];
        for object in [claim(), node()] {
            let made = world.apply("test", &object).await.unwrap();
            uids.push(made["metadata"]["uid"].as_str().unwrap().to_owned());
        }
        for uid in &uids {
            cloud.launch(&order(uid, &cluster_id)).await.unwrap();
        }
        sleep(Duration::from_secs(ORPHAN_SECS_MIN * 2)).await;
        for _ in 0..2 {
            let listing = list_all(&cloud).await;
            operator.office.machines().get_mut(&ClassKind::Vpsie).unwrap().listed(listing);
        }
        let round = Round { sees_all: true, epoch: Some(1), ..Round::default() };
        operator.end_orphans(&round).await;
        sleep(Duration::from_mins(10)).await;
        let alive = cloud.inspect(|account| {
            let alive = account.records().iter().filter(|record| record.is_alive());
            alive.map(|record| record.machine.token.as_ref().unwrap().to_string()).collect::<Vec<_>>()
        });
        assert_eq!(alive, uids[1..]);
    });
}
