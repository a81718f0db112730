//! A cluster whose workloads shrink: it comes to cost less, and pods are not moved about for it.

use std::collections::BTreeSet;
use std::time::Duration;

use berth_core::units::Price;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::played;
use crate::scene::{Scene, class, deployment, pool, text};

const MANY: u32 = 24;
const FEW: u32 = 16;

/// The pods of Karpenter's performance tests.
async fn scale(scene: &Scene, replicas: u32) {
    for (name, cpu, memory) in [("small", "900m", "3100Mi"), ("large", "3500m", "28Gi")] {
        let mut deployment = deployment(name, replicas, cpu);
        let container = &mut deployment["spec"]["template"]["spec"]["containers"][0];
        container["resources"]["requests"]["memory"] = json!(memory);
        scene.apply(deployment).await;
    }
}

fn paid(scene: &Scene) -> Price {
    scene.cloud.inspect(|account| {
        let alive = account.records().iter().filter(|record| record.is_alive());
        alive.map(|record| record.machine.price).fold(Price::ZERO, Price::plus)
    })
}

async fn running(scene: &Scene) -> BTreeSet<String> {
    let pods = scene.pods().await;
    let running = pods.iter().filter(|pod| pod["status"]["phase"] == "Running");
    running.map(|pod| text(&pod["metadata"]["name"]).to_owned()).collect()
}

#[test]
fn fewer_pods_cost_less_without_unrest() {
    played("{}", async |scene| {
        scene.apply(class()).await;
        let on_demand = |pool: &mut Value| {
            pool["spec"]["template"]["spec"]["requirements"] = json!([
                { "key": "kubernetes.io/os", "operator": "In", "values": ["linux"] },
                { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"] },
                { "key": "karpenter.kwok.sh/instance-size", "operator": "Lt", "values": ["32"] },
            ]);
            pool["spec"]["disruption"] =
                json!({ "consolidateAfter": "30s", "budgets": [{ "nodes": "100%" }] });
        };
        scene.apply(pool("default", on_demand)).await;
        scale(scene, FEW).await;
        let few = FEW as usize * 2;
        scene.until(300, "few run", async || scene.running().await == few).await;
        let fresh = paid(scene);
        scale(scene, MANY).await;
        scene.until(300, "many run", async || scene.running().await == MANY as usize * 2).await;

        scale(scene, FEW).await;
        scene.until(60, "few are left", async || scene.running().await == few).await;
        let mut seen = running(scene).await;
        for _ in 0..120 {
            sleep(Duration::from_secs(5)).await;
            seen.extend(running(scene).await);
        }
        let (pods, cost) = (running(scene).await, paid(scene));
        assert_eq!(pods.len(), few, "{}", scene.told().await);
        // As good as bought anew, or nearly so.
        let near = Price::from_micro_usd(fresh.micro_usd() * 106 / 100);
        assert!(cost <= near, "{cost}, and {fresh} when they came:\n{}", scene.told().await);
        let moved = seen.len() - few;
        assert!(moved <= few * 5 / 4, "{moved} moves for {few} pods");
        let machines = scene.machine_names();
        sleep(Duration::from_mins(5)).await;
        assert_eq!((running(scene).await, scene.machine_names()), (pods, machines), "there is rest");
    });
}
