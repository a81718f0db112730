//! NodeOverlays: what is bought is what they make of the catalog.

use serde_json::{Value, json};

use crate::played;
use crate::scene::{Scene, condition, deployment, text};
use crate::with_pool;

pub(crate) fn overlay(name: &str, instance_type: &str, change: Value) -> Value {
    let mut spec = change;
    spec["requirements"] =
        json!([{ "key": "node.kubernetes.io/instance-type", "operator": "In", "values": [instance_type] }]);
    json!({
        "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay",
        "metadata": { "name": name }, "spec": spec,
    })
}

async fn said(scene: &Scene, name: &str) -> Option<(String, String)> {
    let overlay = scene.get(&format!("/apis/karpenter.sh/v1alpha1/nodeoverlays/{name}")).await;
    assert_eq!(
        condition(&overlay, "Ready").map(|(status, _)| status),
        condition(&overlay, "ValidationSucceeded").map(|(status, _)| status),
    );
    let (status, reason) = condition(&overlay, "ValidationSucceeded")?;
    Some((status.to_owned(), reason.to_owned()))
}

async fn types(scene: &Scene) -> Vec<String> {
    let claims = scene.claims().await;
    let of =
        |claim: &Value| text(&claim["metadata"]["labels"]["node.kubernetes.io/instance-type"]).to_owned();
    claims.iter().map(of).collect()
}

#[test]
fn prices_decide_as_overlays_say() {
    // A large machine for nothing, small ones that have become dear, and one that has become a little cheaper.
    let cases = [
        ("m-16x-amd64-linux", json!({ "price": "0.0001" }), true),
        ("m-16x-amd64-linux", json!({ "priceAdjustment": "-10%" }), false),
    ];
    for (instance_type, change, is_bought) in cases {
        played("{}", async |scene| {
            scene.apply(overlay("cheap", instance_type, change.clone())).await;
            with_pool(scene, |_| {}).await;
            scene.apply(deployment("web", 1, "500m")).await;
            scene.until(180, "the pod runs", async || scene.running().await == 1).await;
            let bought = types(scene).await;
            assert_eq!(bought == [instance_type], is_bought, "{change}: {bought:?}");
            let valid = Some(("True".to_owned(), "ValidationSucceeded".to_owned()));
            scene.until(30, "it says so", async || said(scene, "cheap").await == valid).await;
        });
    }
}

/// Something else makes the device known once the node is there.
#[test]
fn machines_are_bought_for_what_overlays_say_they_have() {
    played("{}", async |scene| {
        scene
            .apply(overlay(
                "devices",
                "s-4x-amd64-linux",
                json!({ "capacity": { "example.com/device": "2" } }),
            ))
            .await;
        with_pool(scene, |_| {}).await;
        let mut web = deployment("web", 2, "100m");
        let container = &mut web["spec"]["template"]["spec"]["containers"][0];
        container["resources"]["limits"] = json!({ "example.com/device": "1" });
        container["resources"]["requests"]["example.com/device"] = json!("1");
        scene.apply(web).await;
        scene.until(180, "a node joins", async || scene.nodes().await.len() == 1).await;
        assert_eq!(types(scene).await, ["s-4x-amd64-linux"]);
        let lacks_device = async || {
            let missing = Some(("Unknown", "ResourceNotRegistered"));
            scene.claims().await.iter().all(|claim| condition(claim, "Initialized") == missing)
        };
        scene.until(60, "its claim says what it waits for", lacks_device).await;
        let name = text(&scene.nodes().await[0]["metadata"]["name"]).to_owned();
        let devices = json!({ "example.com/device": "2" });
        let change = json!({ "status": { "capacity": devices, "allocatable": devices } });
        scene.patch(&format!("/api/v1/nodes/{name}/status"), &change).await;
        scene.until(60, "both run there", async || scene.running().await == 2).await;
        assert_eq!(scene.machines(), 1);
    });
}

/// Two that contradict each other change nothing and say so. A third does what it says all the same.
#[test]
fn overlays_that_contradict_each_other_say_so() {
    played("{}", async |scene| {
        let cheap = |name: &str, price: &str| overlay(name, "m-16x-amd64-linux", json!({ "price": price }));
        scene.apply(cheap("one", "0.0001")).await;
        scene.apply(cheap("two", "0.0002")).await;
        scene.apply(overlay("three", "m-8x-amd64-linux", json!({ "price": "0.001" }))).await;
        with_pool(scene, |_| {}).await;
        let both = async |expected: (&str, &str)| {
            let expected = Some((expected.0.to_owned(), expected.1.to_owned()));
            said(scene, "one").await == expected && said(scene, "two").await == expected
        };
        scene.until(30, "they say so", async || both(("False", "Conflict")).await).await;
        let fine = Some(("True".to_owned(), "ValidationSucceeded".to_owned()));
        assert_eq!(said(scene, "three").await, fine);
        scene.apply(deployment("web", 1, "500m")).await;
        scene.until(180, "the pod runs", async || scene.running().await == 1).await;
        assert_eq!(types(scene).await, ["m-8x-amd64-linux"]);
        scene.apply(cheap("two", "0.0001")).await;
        scene.until(30, "they agree", async || both(("True", "ValidationSucceeded")).await).await;
    });
}

/// One that cannot be read is as if it were not there, says so, and keeps no node.
#[test]
fn an_overlay_that_cannot_be_read_holds_up_nothing() {
    played("{}", async |scene| {
        with_pool(scene, |_| {}).await;
        let price = "9".repeat(40);
        scene.apply(overlay("absurd", "m-16x-amd64-linux", json!({ "price": price }))).await;
        scene.apply(deployment("web", 1, "500m")).await;
        scene.until(180, "the pod runs", async || scene.running().await == 1).await;
        let invalid = Some(("False".to_owned(), "RuntimeValidation".to_owned()));
        scene.until(30, "it says so", async || said(scene, "absurd").await == invalid).await;
        scene.apply(deployment("web", 0, "500m")).await;
        scene.until(300, "the node goes", async || scene.machines() == 0).await;
    });
}
