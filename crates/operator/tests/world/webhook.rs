//! Berth's webhook, asked by the world's API over TLS as an API server asks, with the configuration of `deploy/`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use berth_credentials::{Authority, Pair};
use berth_operator::{Metrics, PairFiles, Readiness, Webhook};
use berth_world::World;
use kube::Client;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::account::group;
use crate::scene::began;

const SERVICE: &str = "berth-system/berth-webhook:443";
const GROUPS: &str = "/apis/autoscaler.vpsie.com/v1alpha1/namespaces/shop/nodegroups";
const NODES: &str = "/apis/autoscaler.vpsie.com/v1alpha1/namespaces/shop/vpsienodes";

/// Sockets need the clock of the machine.
fn in_true_time(script: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(script);
}

/// A cluster whose definitions know no rules, as VPSie's own know few, and a webhook.
struct Guarded {
    world: World,
    client: Client,
    authority: Authority,
    files: PairFiles,
    directory: PathBuf,
}

/// One that answers, until it is dropped.
struct Answering {
    address: SocketAddr,
    readiness: Readiness,
    task: JoinHandle<()>,
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

impl Guarded {
    async fn new(name: &str) -> Self {
        let world = World::new(1, began());
        let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("webhook-{name}"));
        std::fs::create_dir_all(&directory).expect("a directory");
        let files = PairFiles { certificate: directory.join("tls.crt"), key: directory.join("tls.key") };
        for file in [&files.certificate, &files.key] {
            let _ = std::fs::remove_file(file);
        }
        let client = Client::new(world.client("test"), "default");
        let authority = Authority::new("webhook").expect("an authority");
        let guarded = Self { world, client, authority, files, directory };
        guarded
            .apply(&json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "shop" } }))
            .await;
        for (plural, kind) in [("nodegroups", "NodeGroup"), ("vpsienodes", "VPSieNode")] {
            guarded.apply(&lax_definition(plural, kind)).await;
        }
        guarded
    }

    async fn apply(&self, object: &Value) {
        let applied = self.world.apply("test", object).await;
        applied.unwrap_or_else(|failure| panic!("{object}: {failure}"));
    }

    fn certificate(&self) -> Pair {
        let names = ["berth-webhook.berth-system.svc"];
        self.authority.server("berth-webhook", &names).expect("a certificate")
    }

    fn write(&self, pair: &Pair) {
        std::fs::write(&self.files.key, &pair.key).expect("it is written");
        std::fs::write(&self.files.certificate, &pair.certificate).expect("it is written");
    }

    async fn answering(&self) -> Answering {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let webhook = Webhook::new(self.files.clone(), &Metrics::default());
        let readiness = webhook.readiness();
        Answering { address, readiness, task: tokio::spawn(webhook.serve(listener)) }
    }

    /// Has the API ask there, and believe whom these vouch for.
    async fn ask_at(&self, address: SocketAddr, bundle: &str) {
        let _ = self.world.clone().with_service(SERVICE, address);
        let text = std::fs::read_to_string("../../deploy/kustomize/components/webhook/webhook.yaml");
        let source = berth_api::Source::Text { name: "webhook".to_owned(), text: text.expect("a file") };
        let (objects, problems) = berth_api::objects(&[source]);
        assert!(problems.is_empty(), "{problems:?}");
        let mut configuration = objects.into_iter().next().expect("a configuration").value;
        for hook in configuration["webhooks"].as_array_mut().into_iter().flatten() {
            hook["clientConfig"]["service"]["namespace"] = json!("berth-system");
            hook["clientConfig"]["caBundle"] = json!(STANDARD.encode(bundle));
        }
        self.apply(&configuration).await;
    }

    /// `201`, or `422 why`.
    async fn said(&self, request: http::Request<Vec<u8>>) -> String {
        match self.client.request::<Value>(request).await {
            Ok(_) => "done".to_owned(),
            Err(kube::Error::Api(status)) => format!("{} {}", status.code, status.message),
            Err(error) => panic!("{error}"),
        }
    }

    async fn create(&self, path: &str, object: &Value) -> String {
        let request = http::Request::post(path).header("content-type", "application/json");
        self.said(request.body(object.to_string().into_bytes()).expect("a request")).await
    }

    async fn patch(&self, path: &str, change: &Value) -> String {
        let request = http::Request::patch(path).header("content-type", "application/merge-patch+json");
        self.said(request.body(change.to_string().into_bytes()).expect("a request")).await
    }

    async fn delete(&self, path: &str) -> String {
        self.said(http::Request::delete(path).body(Vec::new()).expect("a request")).await
    }
}

/// Waits until it is ready.
async fn ready(readiness: &mut Readiness) {
    let waited = timeout(Duration::from_mins(1), readiness.wait_for(Option::is_none)).await;
    assert!(waited.is_ok_and(|heard| heard.is_ok()), "it does not become ready");
}

fn lax_definition(plural: &str, kind: &str) -> Value {
    let anything = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.autoscaler.vpsie.com") },
        "spec": {
            "group": "autoscaler.vpsie.com", "scope": "Namespaced",
            "names": { "plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List") },
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true, "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": anything },
            }],
        },
    })
}

/// A group of a namespace that VPSie's own webhook did not take.
fn shop_group(name: &str, field: &str, value: &Value) -> Value {
    group(name, |group| {
        group["metadata"]["namespace"] = json!("shop");
        if !field.is_empty() {
            group["spec"][field] = value.clone();
        }
    })
}

fn vpsie_node(name: &str, instance: u32) -> Value {
    json!({
        "apiVersion": "autoscaler.vpsie.com/v1alpha1", "kind": "VPSieNode",
        "metadata": { "name": name, "namespace": "shop", "finalizers": ["test.example.com/keep"] },
        "spec": {
            "vpsieInstanceID": instance, "instanceType": "small", "nodeGroupName": "good", "datacenterID": "dc-1",
            "resourceIdentifier": "c-1", "project": "p-1", "kubernetesVersion": "v1.34.0",
        },
    })
}

#[test]
fn objects_are_judged_before_they_are_written() {
    in_true_time(async {
        let guarded = Guarded::new("judged").await;
        guarded.write(&guarded.certificate());
        let mut answering = guarded.answering().await;
        ready(&mut answering.readiness).await;
        guarded.ask_at(answering.address, &guarded.authority.certificate()).await;
        let denied = |hook: &str, code: u16, why: &str| {
            format!("{code} admission webhook \"{hook}.berth.dev\" denied the request: {why}")
        };

        assert_eq!(guarded.create(GROUPS, &shop_group("good", "", &Value::Null)).await, "done");
        let regions =
            json!({"enabled": true, "datacenterIDs": ["dc-2"], "weightedDistribution": {"dc-3": 1}});
        let taints = json!([{"key": "k8s.io/x", "effect": "NoSchedule"}]);
        for (field, value, why) in [
            ("minNodes", json!(11), "spec.minNodes: 11 is more than maxNodes (10)"),
            (
                "maxNodes",
                json!(1001),
                "spec.maxNodes: 1001 is out of range; write a whole number from 1 to 1000",
            ),
            ("offeringIDs", json!([]), "spec.offeringIDs: is empty; name at least one offering"),
            (
                "offeringIDs",
                json!(["big", "big"]),
                "spec.offeringIDs[1]: `big` is named twice; name each offering once",
            ),
            (
                "kubernetesVersion",
                json!("1.34.0"),
                "spec.kubernetesVersion: `1.34.0` is no version; write it with its `v` and three numbers, such as v1.34.0",
            ),
            (
                "labels",
                json!({"kubernetes.io/arch": "amd64"}),
                "spec.labels[kubernetes.io/arch]: belongs to Kubernetes; remove it",
            ),
            ("taints", taints, "spec.taints[0].key: belongs to Kubernetes; remove it"),
            (
                "scaleUpPolicy",
                json!({"stabilizationWindowSeconds": 1801}),
                "spec.scaleUpPolicy.stabilizationWindowSeconds: 1801 is out of range; write a whole number from 0 to 1800",
            ),
            (
                "scaleDownPolicy",
                json!({"cooldownSeconds": 3601}),
                "spec.scaleDownPolicy.cooldownSeconds: 3601 is out of range; write a whole number from 0 to 3600",
            ),
            (
                "multiRegion",
                regions,
                "spec.multiRegion.weightedDistribution.dc-3: `dc-3` is none of the group's datacenters (dc-1, dc-2); add it \
                 to datacenterIDs, or remove its weight",
            ),
        ] {
            let said = guarded.create(GROUPS, &shop_group("bad", field, &value)).await;
            assert_eq!(said, denied("nodegroups", 422, &format!("NodeGroup/shop/bad: {why}")), "{field}");
            // The same as a change of one that is good; and what the webhook was not asked about is not written.
            let said = guarded.patch(&format!("{GROUPS}/good"), &json!({"spec": {field: value}})).await;
            assert_eq!(said, denied("nodegroups", 422, &format!("NodeGroup/shop/good: {why}")), "{field}");
        }
        let annotated = json!({"metadata": {"annotations": {"note": "x"}}});
        assert_eq!(guarded.patch(&format!("{GROUPS}/good"), &annotated).await, "done");

        assert_eq!(guarded.create(NODES, &vpsie_node("new", 0)).await, "done");
        assert_eq!(guarded.create(NODES, &vpsie_node("old", 7)).await, "done");
        let bought = json!({"spec": {"vpsieInstanceID": 8, "datacenterID": "dc-2"}});
        assert_eq!(guarded.patch(&format!("{NODES}/new"), &bought).await, "done");
        let lost = "cannot be changed, since its machine would be lost; leave it as";
        for (field, value, was) in [
            ("vpsieInstanceID", json!(8), "7"),
            ("datacenterID", json!("dc-2"), "dc-1"),
            ("nodeGroupName", json!("other"), "good"),
        ] {
            let said = guarded.patch(&format!("{NODES}/old"), &json!({"spec": {field: value}})).await;
            let why = format!("VPSieNode/shop/old: spec.{field}: {lost} `{was}`");
            assert_eq!(said, denied("vpsienodes", 422, &why));
        }
        // One that is being deleted loses its finalizers, whatever else is done to it.
        assert_eq!(guarded.delete(&format!("{NODES}/old")).await, "done");
        let ended = json!({"metadata": {"finalizers": null}, "spec": {"vpsieInstanceID": 0}});
        assert_eq!(guarded.patch(&format!("{NODES}/old"), &ended).await, "done");
        assert!(guarded.delete(&format!("{NODES}/old")).await.starts_with("404 "));

        for (name, labels, annotations) in [
            ("a-stranger", json!({}), json!({"autoscaler.vpsie.com/protected": "true"})),
            ("ours", json!({"autoscaler.vpsie.com/managed": "true"}), json!({})),
            (
                "protected",
                json!({"autoscaler.vpsie.com/managed": "true"}),
                json!({"autoscaler.vpsie.com/protected": "true"}),
            ),
        ] {
            let metadata = json!({ "name": name, "labels": labels, "annotations": annotations });
            guarded.apply(&json!({ "apiVersion": "v1", "kind": "Node", "metadata": metadata })).await;
        }
        assert_eq!(guarded.delete("/api/v1/nodes/a-stranger").await, "done");
        assert_eq!(guarded.delete("/api/v1/nodes/ours").await, "done");
        let annotation = "autoscaler.vpsie.com/protected";
        let why = format!(
            "Node/protected: metadata.annotations[{annotation}]: is `true`, which keeps the node; remove it first: kubectl \
             annotate node protected {annotation}-"
        );
        assert_eq!(guarded.delete("/api/v1/nodes/protected").await, denied("node-deletion", 403, &why));
        let freed = json!({"metadata": {"annotations": {annotation: null}}});
        assert_eq!(guarded.patch("/api/v1/nodes/protected", &freed).await, "done");
        assert_eq!(guarded.delete("/api/v1/nodes/protected").await, "done");
    });
}

#[test]
fn certificates_come_late_and_change_while_it_answers() {
    in_true_time(async {
        let guarded = Guarded::new("rotated").await;
        let mut answering = guarded.answering().await;
        guarded.ask_at(answering.address, &guarded.authority.certificate()).await;
        let missing = |why: &Option<String>| why.as_ref().is_some_and(|why| why.contains("cannot read"));
        let heard = timeout(Duration::from_mins(1), answering.readiness.wait_for(missing)).await;
        let why = heard.expect("in time").expect("it says so").clone().unwrap_or_default();
        assert!(why.contains("tls.crt") && why.contains("--webhook-cert-dir"), "{why}");
        // Nobody waits for it: its policy is Ignore, and the definitions' own rules are left.
        let bad = |name: &str| shop_group(name, "minNodes", &json!(11));
        assert_eq!(guarded.create(GROUPS, &bad("without-a-certificate")).await, "done");

        guarded.write(&guarded.certificate());
        ready(&mut answering.readiness).await;
        assert!(guarded.create(GROUPS, &bad("b")).await.starts_with("422 "), "it answers");

        // A pair that does not match, such as one that is half written, changes nothing.
        let other = Authority::new("other").expect("an authority");
        let next = other.server("berth-webhook", &["berth-webhook.berth-system.svc"]).expect("a certificate");
        std::fs::write(&guarded.files.certificate, &next.certificate).expect("it is written");
        tokio::time::sleep(Duration::from_secs(6)).await;
        assert!(guarded.create(GROUPS, &bad("c")).await.starts_with("422 "), "it answers as before");

        // Another authority's: whoever believes only that one is answered, once the key is there as well.
        std::fs::write(&guarded.files.key, &next.key).expect("it is written");
        guarded.ask_at(answering.address, &other.certificate()).await;
        let mut tries = 0;
        while guarded.create(GROUPS, &bad(&format!("d-{tries}"))).await == "done" {
            assert!(tries < 60, "the new certificate is never shown");
            tries += 1;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        assert!(!answering.task.is_finished(), "the same listener");
        assert!(answering.readiness.borrow().is_none());

        // One that is gone blocks nobody.
        drop(answering);
        let said = timeout(Duration::from_mins(1), guarded.create(GROUPS, &bad("unreachable"))).await;
        assert_eq!(said.expect("in time"), "done");
    });
}
