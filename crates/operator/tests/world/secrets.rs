//! The Secret that says who Berth is at VPSie: what is in use is the last good one, and what is wrong with another is said.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use berth_cloud::machine::{Order, Token};
use berth_cloud::provider::Launched;
use berth_cloud::vpsie::Family;
use berth_core::catalog::CapacityType;
use berth_core::plan::Alternative;
use berth_core::units::Price;
use berth_world::cloud::weather::Weather;
use berth_world::vpsie::{Faults, InProcess};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::account::{self, SECRET, group};
use crate::awaited;
use crate::permissions;
use crate::scene::condition;
use crate::vpsie::{Berthed, workload};

fn changed(fields: &[(&str, &str)]) -> Value {
    let mut secret = account::secret(permissions::NAMESPACE, account::URL, SECRET);
    for (field, value) in fields {
        secret["data"][field] = json!(STANDARD.encode(value));
    }
    secret
}

/// The Secret comes late, then changes to some that cannot be used: VPSie does not know it, it is malformed, it is another
/// cluster's. The group says so and goes on, until there is a good one.
#[test]
fn what_the_secret_says_counts_as_long_as_vpsie_takes_it() {
    awaited(async {
        let berthed = Berthed::new(Family::Managed, Weather::default(), Faults::default()).await;
        let scene = &berthed.scene;
        let script = async {
            scene.apply(group("workers", |_| {})).await;
            scene.apply(workload(1)).await;
            let told = format!("there is no Secret {}/vpsie-secret", permissions::NAMESPACE);
            scene
                .until(120, "the group says what is missing", async || {
                    berthed.group("workers").await["status"]["conditions"].to_string().contains(&told)
                })
                .await;
            berthed.sign(SECRET).await;
            scene.until(300, "the pod runs", async || scene.running().await == 1).await;
            // The machines of another cluster are not this one's.
            for (times, secret, why) in [
                (1, changed(&[("clientSecret", "wrong")]), "VPSie does not take it"),
                (2, changed(&[("url", "http://vpsie.test")]), "http"),
                (3, changed(&[("resourceIdentifier", "c-2")]), "it names the cluster c-2 instead of c-1"),
            ] {
                scene.apply(secret).await;
                scene
                    .until(180, why, async || {
                        let workers = berthed.group("workers").await;
                        let told = workers["status"]["conditions"].to_string();
                        condition(&workers, "Error") == Some(("True", "CredentialsRefused"))
                            && told.contains("the last one stays in use")
                            && told.contains(why)
                    })
                    .await;
                scene.apply(workload(1 + 4 * times)).await;
                scene
                    .until(600, "the last good one stays in use", async || {
                        scene.running().await == 1 + 4 * times as usize
                    })
                    .await;
                scene
                    .until(120, "it is ready all the same", async || {
                        condition(&berthed.group("workers").await, "Ready") == Some(("True", "AllReady"))
                    })
                    .await;
                let counted = berthed.counted();
                let failures = format!("credential_rotation_failures_total {times}");
                for line in [&*failures, "credential_valid 1.0"] {
                    assert!(counted.contains(&format!("vpsie_autoscaler_{line}\n")), "{line}\n{counted}");
                }
            }
            berthed.sign(SECRET).await;
            scene
                .until(180, "all is well again", async || {
                    condition(&berthed.group("workers").await, "Error") == Some(("False", "Fine"))
                })
                .await;
            let said = scene.told().await;
            assert!(!said.contains(SECRET) && !said.contains("wrong"), "{said}");
        };
        scene.play_with(berthed.operator(), script).await;
    });
}

/// Where and for which project machines are bought follows the Secret at once.
#[test]
fn another_project_or_datacenter_of_the_secret_is_bought_for() {
    awaited(async {
        let offers = r#"[
            {"id": "1", "name": "small", "cpu": 2, "ram": 4096, "disk": 80, "hourly_price": 0.05, "datacenter_id": "dc-1"},
            {"id": "2", "name": "small", "cpu": 2, "ram": 4096, "disk": 80, "hourly_price": 0.05, "datacenter_id": "dc-2"}]"#;
        let berthed = Berthed::selling(offers, Family::Servers, Weather::default(), Faults::default()).await;
        let scene = &berthed.scene;
        let transport = Arc::new(InProcess(berthed.vpsie.clone()));
        let client = kube::Client::new(scene.world.client("berth"), "default");
        let cloud = berthed.cloud_somewhere(&client, transport);
        for (n, (datacenter, project)) in
            [("dc-1", "p-1"), ("dc-1", "p-2"), ("dc-2", "p-2")].into_iter().enumerate()
        {
            scene.apply(changed(&[("datacenterId", datacenter), ("projectId", project)])).await;
            sleep(Duration::from_secs(31)).await;
            let catalog = cloud.catalog().await.expect("offers");
            let zones: Vec<&str> =
                catalog.types.iter().flat_map(|known| &known.offerings).map(|offer| &*offer.zone).collect();
            assert_eq!(zones, [datacenter], "{project}");
            let order = order(&format!("uid-{n}"), datacenter);
            let note = cloud.prepare(&order).await.expect("a note");
            let launched = cloud.launch(&Order { note, ..order }).await;
            assert!(matches!(launched, Ok(Launched::Machine { .. })), "{launched:?}");
            let ordered = berthed.vpsie.orders().pop().expect("an order");
            assert_eq!(
                (&ordered["projectId"], &ordered["datacenter_id"]),
                (&json!(project), &json!(datacenter))
            );
        }
    });
}

fn order(token: &str, zone: &str) -> Order {
    let small = Alternative {
        instance_type: "small".into(),
        zone: zone.into(),
        capacity_type: CapacityType::OnDemand,
        price_per_hour: Price::ZERO,
    };
    Order::new(Token::parse(token).expect("a token"), format!("node-{token}"), "default", vec![small])
}
