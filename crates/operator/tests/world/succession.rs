//! Leaders that follow each other as fast as their lease lets them, and ask VPSie for all that they may.

use std::time::Duration;

use berth_api::ledger;
use berth_cloud::vpsie::{Family, SUCCESSION_MIN};
use berth_core::commitment::Commitments;
use berth_operator::{Clock, Cluster, Elector, Lead, Terms, Wish};
use berth_world::cloud::weather::Weather;
use berth_world::vpsie::{Deed, Faults, InProcess};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::account::{GROUPS, SECRET, group};
use crate::awaited;
use crate::vpsie::Berthed;

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/berth";

/// How one that leads makes way for the next.
#[derive(Clone, Copy, Debug)]
enum End {
    Crash,
    /// It lets others have the lease.
    Leave,
    /// It crashes, and somebody deletes the lease, by which others would know when it came to lead.
    LeaseDeleted,
}

fn calls(berthed: &Berthed) -> u64 {
    Deed::ALL.iter().map(|deed| berthed.vpsie.calls(*deed)).sum()
}

/// Asks without a pause while it leads, of both lanes.
async fn ask(berthed: &Berthed, name: &str, mut lead: Lead) {
    let client = kube::Client::new(berthed.scene.world.client(name), "default");
    let cloud = berthed.cloud_through(&client, std::sync::Arc::new(InProcess(berthed.vpsie.clone())));
    while let Ok(epoch) = lead.wait_for(Option::is_some).await.map(|epoch| epoch.unwrap_or_default()) {
        // What whoever leads writes before it buys.
        let record = ledger::written(&Commitments { epoch, ..Commitments::default() });
        let change = json!({ "metadata": { "annotations": { (ledger::LEDGER): record } } });
        berthed.scene.patch(&format!("{GROUPS}/workers"), &change).await;
        let nobodys = "nobodys".into();
        let acting = async {
            loop {
                let _ = cloud.terminate(&nobodys).await;
                sleep(Duration::from_millis(10)).await;
            }
        };
        let polling = async {
            loop {
                let _ = cloud.list(None).await;
                sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::select! {
            biased;
            _ = lead.wait_for(Option::is_none) => {}
            () = acting => {}
            () = polling => {}
        }
    }
}

/// One process, which ends so long after it came to lead. How often it has asked VPSie.
async fn led(berthed: &Berthed, name: &str, secs: u64, end: End) -> u64 {
    let world = berthed.scene.world.clone();
    let cluster = Cluster::through(kube::Client::new(world.client(name), "default"), "the world");
    let client = name.to_owned();
    let clock = Clock::new(move || world.clock_of(&client));
    let terms = Terms { succession_min: SUCCESSION_MIN, ..Terms::default() };
    let elector = Elector::new(cluster, clock, ("kube-system", "berth"), name).with_terms(terms);
    let mut lead = elector.lead();
    let asking = ask(berthed, name, elector.lead());
    let wish = watch::Sender::new(Wish::Lead);
    let before = calls(berthed);
    let script = async {
        // What it answers locks out whoever would say that the lead has ended, so it is let go at once.
        let leads = timeout(Duration::from_mins(5), lead.wait_for(Option::is_some)).await.is_ok();
        assert!(leads, "{name} never leads");
        sleep(Duration::from_secs(secs)).await;
        if matches!(end, End::Leave) {
            wish.send_replace(Wish::Leave);
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        biased;
        () = elector.run(wish.subscribe()) => {}
        () = asking => {}
        () = script => {}
    }
    if matches!(end, End::LeaseDeleted) {
        berthed.scene.delete(LEASE).await;
    }
    calls(berthed) - before
}

/// Each is in the midst of asking when it ends.
#[test]
fn leaders_in_a_row_ask_no_more_than_vpsie_allows() {
    for family in Family::ALL {
        for end in [End::Crash, End::Leave, End::LeaseDeleted] {
            awaited(async {
                let berthed = Berthed::new(family, Weather::default(), Faults::default()).await;
                berthed.sign(SECRET).await;
                berthed.scene.apply(group("workers", |_| {})).await;
                for (name, secs, least) in
                    [("first", 110, 90), ("second", 2, 35), ("third", 2, 35), ("fourth", 100, 90)]
                {
                    let asked = led(&berthed, name, secs, end).await;
                    assert!(asked >= least, "{name} asked {asked} times ({family:?}, {end:?})");
                }
                let most = berthed.vpsie.most_calls_in_a_minute();
                assert!((60..=100).contains(&most), "{most} calls in a minute ({family:?}, {end:?})");
            });
        }
    }
}
