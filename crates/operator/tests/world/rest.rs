//! The demo's shop, which somebody scales up and down and leaves alone: then its nodes stay as they are.
//!
//! `BERTH_SEEDS=200` plays more of them, `BERTH_SEED=7` only the seventh.

use std::time::Duration;

use berth_core::catalog::CapacityType;
use berth_operator::Report;
use berth_world::cloud::Weather;
use berth_world::cloud::weather::{Delay, Reclaim, Times, Which};
use serde_json::json;
use tokio::time::sleep;

use crate::awaited;
use crate::lots::Lots;
use crate::scene::Scene;

const MANIFESTS: [&str; 2] = [
    include_str!("../../../cli/src/commands/demo/pools.yaml"),
    include_str!("../../../cli/src/commands/demo/shop.yaml"),
];
/// Of each at least so many, and of how many more some.
const WORKLOADS: [(&str, u64, u64); 3] = [("web", 2, 32), ("api", 2, 10), ("worker", 4, 28)];
const SEEDS: u64 = 3;
/// What may still be saved after the last change is saved by then.
const SETTLED: Duration = Duration::from_mins(20);
/// For so long nothing changes, and so many machines may come or go.
const REST: Duration = Duration::from_hours(1);
const MOVES_MAX: usize = 2;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn a_shop_that_is_left_alone_comes_to_rest() {
    let seeds = number("BERTH_SEED").map_or(1..=number("BERTH_SEEDS").unwrap_or(SEEDS), |seed| seed..=seed);
    let unrest: Vec<String> = seeds.filter_map(played).collect();
    assert!(unrest.is_empty(), "{}", unrest.join("\n\n"));
}

/// What still went on, if anything did.
fn played(seed: u64) -> Option<String> {
    let mut unrest = None;
    awaited(async {
        let times = Times {
            launch: Delay { least_ms: 2000, most_ms: 4000 },
            join: Delay { least_ms: 2000, most_ms: 5000 },
            stop: Delay::secs(2),
            ..Times::default()
        };
        let scene = Scene::new(seed, Weather { times, ..Weather::default() }).await;
        for manifest in MANIFESTS {
            let source = berth_api::Source::Text { name: "shop".to_owned(), text: manifest.to_owned() };
            let (objects, problems) = berth_api::objects(&[source]);
            assert!(problems.is_empty(), "{problems:?}");
            for object in objects {
                scene.apply(object.value).await;
            }
        }
        let operator = scene.operator("berth", 1);
        let reports = operator.reports();
        let script = async {
            meddle(&scene, seed).await;
            let all_run = async || {
                let pods = scene.list("/api/v1/namespaces/shop/pods").await;
                pods.iter().all(|pod| pod["status"]["phase"] == "Running")
            };
            scene.until(600, "all pods run", all_run).await;
            sleep(SETTLED).await;
            let before = moves(&scene);
            sleep(REST).await;
            let moved = moves(&scene) - before;
            let last = reports.borrow().clone();
            unrest = (moved > MOVES_MAX)
                .then(|| format!("seed {seed}: {moved} machines came or went:\n{}", decisions(&last)));
        };
        scene.play_with(operator, script).await;
    });
    unrest
}

/// What somebody at the page of a demo does.
async fn meddle(scene: &Scene, seed: u64) {
    let mut lots = Lots::new(seed, 1);
    let spot = Which { capacity_type: Some(CapacityType::Spot), ..Which::default() };
    for _ in 0..=lots.below(8) {
        sleep(Duration::from_secs(2 + lots.below(180))).await;
        let (name, least, more) = WORKLOADS[usize::try_from(lots.below(3)).unwrap_or_default()];
        match lots.below(6) {
            0 => scene
                .cloud
                .reprice(&spot, [500, 1000, 1500][usize::try_from(lots.below(3)).unwrap_or_default()]),
            1 => {
                let which = spot.clone();
                scene.cloud.reclaim_now(&Reclaim { which, share_permille: 300, ..Reclaim::default() });
            }
            _ => {
                let replicas = least + lots.below(more);
                let path = format!("/apis/apps/v1/namespaces/shop/deployments/{name}");
                scene.patch(&path, &json!({ "spec": { "replicas": replicas } })).await;
            }
        }
    }
}

/// How many machines have come or gone.
fn moves(scene: &Scene) -> usize {
    scene.cloud.inspect(|account| {
        let records = account.records();
        records.len() + records.iter().filter(|record| !record.is_alive()).count()
    })
}

fn decisions(report: &Report) -> String {
    let lines = report.decisions.iter().rev();
    let line = |of: &berth_operator::Decision| {
        let saves = of.saves_per_hour.map(|saves| format!(" (saves {saves})")).unwrap_or_default();
        format!("{} {}{saves}", of.at, of.message)
    };
    lines.map(line).collect::<Vec<_>>().join("\n")
}
