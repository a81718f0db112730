//! Leaders that follow each other faster than their lease lets them.

use std::time::Duration;

use berth_cloud::vpsie::{Family, SUCCESSION_MIN};
use berth_operator::{Clock, Cluster, Elector, Terms, Wish};
use berth_world::cloud::weather::Weather;
use berth_world::vpsie::{Deed, Faults};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::account::{SECRET, group, suited};
use crate::awaited;
use crate::scene::deployment;
use crate::vpsie::{Berthed, config};

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/berth";

fn calls(berthed: &Berthed) -> u64 {
    Deed::ALL.iter().map(|deed| berthed.vpsie.calls(*deed)).sum()
}

/// One process, which ends so long after it came to lead. How often it has asked VPSie.
async fn led(berthed: &Berthed, name: &str, secs: u64) -> u64 {
    let world = berthed.scene.world.clone();
    let cluster = Cluster::through(kube::Client::new(world.client(name), "default"), "the world");
    let client = name.to_owned();
    let clock = Clock::new(move || world.clock_of(&client));
    let terms = Terms { succession_min: SUCCESSION_MIN, ..Terms::default() };
    let elector = Elector::new(cluster, clock, ("kube-system", "berth"), name).with_terms(terms);
    let mut lead = elector.lead();
    let operator = berthed.operator_as(name, elector.lead());
    let wish = watch::Sender::new(Wish::Lead);
    let before = calls(berthed);
    let script = async {
        let leads = timeout(Duration::from_mins(5), lead.wait_for(Option::is_some)).await;
        assert!(leads.is_ok(), "{name} never leads");
        sleep(Duration::from_secs(secs)).await;
    };
    tokio::select! {
        biased;
        () = Box::pin(operator.run()) => {}
        () = elector.run(wish.subscribe()) => {}
        () = script => {}
    }
    calls(berthed) - before
}

/// Each ends in the midst of a burst, and somebody deletes its lease, by which others would know when it came to lead.
#[test]
fn leaders_in_a_row_ask_no_more_than_vpsie_allows() {
    for family in [Family::Servers, Family::Managed] {
        awaited(async {
            // What is bought takes its time, so that nobody has anything else to do.
            let slow = r#"{"times": {"join": {"leastMs": 3600000, "mostMs": 3600000}}}"#;
            let weather: Weather = serde_json::from_str(slow).expect("weather");
            let berthed = Berthed::new(family, weather, Faults::default()).await;
            berthed.sign(SECRET).await;
            let scene = &berthed.scene;
            let script = async {
                let many = |group: &mut serde_json::Value| {
                    group["spec"]["offeringIDs"] = json!(["small"]);
                    group["spec"]["maxNodes"] = json!(150);
                };
                scene.apply(config("default", &json!({ "maxClusterWorkers": 0 }))).await;
                scene.apply(group("workers", many)).await;
                scene.apply(suited(deployment("web", 150, "1500m"))).await;
                for (name, secs) in [("first", 110), ("second", 20), ("third", 60)] {
                    let asked = led(&berthed, name, secs).await;
                    assert!(asked >= 20, "{name} asked {asked} times");
                    scene.delete(LEASE).await;
                }
            };
            scene.live(script).await;
            let most = berthed.vpsie.most_calls_in_a_minute();
            assert!(most <= 100, "{most} calls in a minute ({family:?})");
        });
    }
}
