//! What is secret is in its Secret and nowhere else: not in what is logged, written, told or counted.

use std::fmt::Write;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use berth_cloud::vpsie::Family;
use berth_world::World;
use berth_world::cloud::weather::Weather;
use tokio::time::sleep;

use crate::account::{SECRET, group};
use crate::awaited;
use crate::log::Log;
use crate::vpsie::{Berthed, workload};

/// A secret that VPSie does not know. It is none the less one.
const WRONG: &str = "wr0ng+canary";
/// VPSie repeats what it was sent, ends tokens, and answers what it should not.
const FAULTS: &str = r#"{"deeds": {
    "sign-in": {"echoed": {"nth": [1, 3]}},
    "offers": {"echoed": {"nth": [2]}},
    "look": {"echoed": {"nth": [2, 9]}, "expired": {"nth": [5]}, "garbled": {"nth": [7]}},
    "create": {"echoed": {"nth": [1]}, "unauthorized": {"nth": [2]}, "expired": {"nth": [3]}},
    "delete": {"echoed": {"nth": [1, 3]}, "lost": {"nth": [2]}}}}"#;

/// Takes down all objects as they ever were, but for Secrets.
async fn written(world: &World, text: &Mutex<String>) {
    let mut revision = 0;
    loop {
        let changes = world.changes_after(revision, &[]).expect("all changes since a second ago");
        for change in changes {
            revision = revision.max(change.revision);
            if let Some(object) = change.object.filter(|_| change.resource != "secrets") {
                let mut text = text.lock().unwrap_or_else(PoisonError::into_inner);
                let _ = writeln!(text, "{} {object}", change.resource);
            }
        }
        sleep(Duration::from_secs(1)).await;
    }
}

async fn come_and_go(berthed: &Berthed) {
    let scene = &berthed.scene;
    scene.apply(group("workers", |group| group["spec"]["offeringIDs"] = serde_json::json!(["small"]))).await;
    scene.apply(workload(3)).await;
    scene.until(2400, "three run", async || scene.running().await == 3).await;
    berthed.sign(WRONG).await;
    sleep(Duration::from_mins(2)).await;
    berthed.sign(SECRET).await;
    scene.apply(workload(0)).await;
    scene
        .until(3600, "all are gone", async || scene.machines() == 0 && berthed.nodes().await.is_empty())
        .await;
}

#[test]
fn secrets_are_seen_nowhere() {
    for family in Family::ALL {
        let log = Log::default();
        let _listening = log.listen();
        awaited(async {
            let faults = serde_json::from_str(FAULTS).expect("faults");
            let berthed = Berthed::new(family, Weather::default(), faults).await;
            berthed.sign(SECRET).await;
            let objects = Mutex::new(String::new());
            let operator = berthed.operator();
            let reports = operator.reports();
            let script = async {
                tokio::select! {
                    biased;
                    () = written(&berthed.scene.world, &objects) => {}
                    () = come_and_go(&berthed) => {}
                }
            };
            berthed.scene.play_with(operator, script).await;
            let report = reports.borrow().clone();
            let told = [
                ("the log", log.text()),
                ("the objects", objects.into_inner().unwrap_or_else(PoisonError::into_inner)),
                ("the metrics", berthed.metrics().scrape(&report, "berth")),
                ("the report", format!("{report:?}")),
            ];
            // What is looked for would be found: something was said of each.
            for (place, words) in [
                (0, "asked VPSie"),
                (0, "VPSie does not take it"),
                (1, "clientSecret=[redacted]"),
                (2, "credential_rotation_failures_total 1"),
                (3, "workers"),
            ] {
                assert!(told[place].1.contains(words), "{words} is not in {}", told[place].0);
            }
            let mut secrets = berthed.vpsie.tokens();
            secrets.extend([SECRET, WRONG].map(str::to_owned));
            for secret in secrets {
                let in_forms = secret.replace('+', "%2B").replace('&', "%26").replace('=', "%3D");
                for form in [&secret, &in_forms, &STANDARD.encode(&secret)] {
                    for (place, text) in &told {
                        assert!(!text.contains(form.as_str()), "{form} is in {place} ({family:?})");
                    }
                }
            }
        });
    }
}
