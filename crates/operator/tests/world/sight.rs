//! Whoever cannot see: nothing is taken away meanwhile, it is said, and afterwards all goes on.

use std::time::Duration;

use berth_world::cloud::Weather;
use tokio::time::sleep;

use crate::awaited;
use crate::log::Log;
use crate::scene::{Scene, class, deployment, pool};

/// The token that Berth shows to the API ends while Berth works, and another is there minutes later.
#[test]
fn a_token_that_expires_takes_nothing_away_and_is_told() {
    const REFUSED: usize = 500;
    awaited(async {
        let log = Log::default();
        let _listening = log.listen();
        let scene = Scene::new(1, Weather::default()).await;
        let operator = scene.operator("berth", 1);
        let (metrics, reports) = (operator.metrics(), operator.reports());
        let script = async {
            scene.apply(class()).await;
            scene.apply(pool("default", |_| {})).await;
            scene.apply(deployment("web", 20, "1")).await;
            scene.until(180, "20 pods run", async || scene.running().await == 20).await;
            sleep(Duration::from_secs(30)).await;
            let plan = format!("berth before any * #1x{REFUSED}: status 401");
            scene.world.plan_faults(plan.parse().expect("a plan"));
            let is_told = async || log.text().contains("nothing is taken away: pods: nothing was heard for");
            scene.until(150, "it is told", is_told).await;
            let why = reports.borrow().blind_spots.iter().map(ToString::to_string).collect::<Vec<_>>();
            assert!(why.iter().any(|why| why.contains("Unauthorized")), "{why:?}");
            let counted = metrics.scrape(&reports.borrow(), "berth");
            assert!(counted.contains("karpenter_cluster_state_synced 0"), "{counted}");
            let machines = scene.machines();
            scene.apply(deployment("web", 0, "1")).await;
            let mut secs = 0;
            while scene.world.faults_struck().len() < REFUSED {
                assert_eq!(scene.machines(), machines, "{}", scene.told().await);
                sleep(Duration::from_secs(1)).await;
                secs += 1;
            }
            assert!(secs > 60, "that was all of it after {secs} s");
            scene.until(600, "all go", async || scene.machines() == 0).await;
            assert!(log.text().contains("pods are seen again"));
        };
        scene.play_with(operator, script).await;
    });
}
