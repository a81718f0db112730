//! What Karpenter's claims and pools say of how well machines become nodes, and of what has become of them.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::scene::{Scene, class, condition, deployment, pool, text};
use crate::{awaited, played, with_pool};

const CLASS: &str = "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses/default";
const HEALTH: &str = "NodeRegistrationHealthy";

fn labelled(team: &str) -> Value {
    pool("default", |pool| pool["spec"]["template"]["metadata"] = json!({ "labels": { "team": team } }))
}

#[test]
fn a_pool_says_whether_its_machines_join() {
    // Of the first two nobody hears.
    played(r#"{"joins": {"never": {"nth": [1, 2]}}}"#, async |scene| {
        scene.apply(class()).await;
        scene.apply(labelled("blue")).await;
        let said = async |status: &str, reason: &str| {
            condition(&scene.pool("default").await, HEALTH) == Some((status, reason))
        };
        scene.until(30, "nothing is known", async || said("Unknown", "NotYet").await).await;
        assert_eq!(scene.pool("default").await["status"]["nodeClassObservedGeneration"], 1);
        scene.apply(deployment("web", 1, "1")).await;
        sleep(Duration::from_mins(18)).await;
        assert!(said("Unknown", "NotYet").await, "one may be bad luck: {}", scene.told().await);
        let fails = async || said("False", "RegistrationFailed").await;
        scene.until(1200, "two have failed", fails).await;
        scene.until(180, "the third joins", async || scene.running().await == 1).await;
        sleep(Duration::from_secs(30)).await;
        assert!(fails().await, "which does not make up for two");
        assert_eq!(condition(&scene.pool("default").await, "Ready"), Some(("True", "Ready")));

        scene.apply(labelled("red")).await;
        scene.until(30, "it is another pool", async || said("Unknown", "NotYet").await).await;
        scene.until(300, "whose machines join", async || said("True", HEALTH).await).await;
        let delay = json!({ "spec": { "nodeRegistrationDelay": "10s" } });
        scene.patch(CLASS, &delay).await;
        scene.until(30, "it has another class", async || said("Unknown", "NotYet").await).await;
        assert_eq!(scene.pool("default").await["status"]["nodeClassObservedGeneration"], 2);
    });
}

#[test]
fn a_claim_says_whether_its_node_is_what_was_sold() {
    played("{}", async |scene| {
        with_pool(scene, |_| {}).await;
        scene.apply(deployment("web", 1, "1")).await;
        let said = async |status: &str| {
            let claims = scene.claims().await;
            let said = claims.first().and_then(|claim| condition(claim, "ConsistentStateFound"));
            said.is_some_and(|(is, _)| is == status)
        };
        scene.until(180, "it is", async || said("True").await).await;
        let node = scene.nodes().await.remove(0);
        let path = format!("/api/v1/nodes/{}/status", text(&node["metadata"]["name"]));
        scene.patch(&path, &json!({ "status": { "capacity": { "memory": "512Mi" } } })).await;
        scene.until(30, "it is not", async || said("False").await).await;
        let memory = &node["status"]["capacity"]["memory"];
        scene.patch(&path, &json!({ "status": { "capacity": { "memory": memory } } })).await;
        scene.until(30, "it is again", async || said("True").await).await;
    });
}

/// Kubelets that know their taints better than the claim have a label that says so when they join. Here it is put there
/// by hand, while nobody else looks.
#[test]
fn taints_are_given_to_nodes_that_do_not_refuse_them() {
    for (label, is_tainted) in [(None, true), (Some("true"), false)] {
        let weather = serde_json::from_str(r#"{"joins": {"untainted": {"permille": 1000}}}"#);
        awaited(async {
            let scene = Scene::new(1, weather.expect("weather")).await;
            let script = async {
                with_pool(&scene, |pool| {
                    pool["spec"]["template"]["spec"]["taints"] =
                        json!([{ "key": "team", "effect": "NoSchedule" }]);
                })
                .await;
                let mut web = deployment("web", 1, "1");
                web["spec"]["template"]["spec"]["tolerations"] =
                    json!([{ "key": "team", "operator": "Exists" }]);
                scene.apply(web).await;
                let first = timeout(Duration::from_secs(30), scene.operator("first", 1).run());
                assert!(first.await.is_err() && scene.nodes().await.is_empty(), "a machine is on its way");
                scene.until(60, "its node joins", async || scene.nodes().await.len() == 1).await;
                let name = text(&scene.nodes().await[0]["metadata"]["name"]).to_owned();
                let change =
                    json!({ "metadata": { "labels": { "karpenter.sh/do-not-sync-taints": label } } });
                scene.patch(&format!("/api/v1/nodes/{name}"), &change).await;
                let second = timeout(Duration::from_mins(2), scene.operator("second", 2).run());
                assert!(second.await.is_err());
                let node = scene.nodes().await.remove(0);
                assert_eq!(node["metadata"]["labels"]["karpenter.sh/registered"], "true");
                let taints = node["spec"]["taints"].to_string();
                assert_eq!(taints.contains("team"), is_tainted, "{label:?}: {taints}");
                assert_eq!(scene.running().await, 1);
            };
            tokio::select! {
                biased;
                () = scene.world.kubelets().live_on(&scene.cloud) => {}
                () = scene.world.live() => {}
                () = Box::pin(script) => {}
            }
        });
    }
}
