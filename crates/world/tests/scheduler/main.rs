//! The world's scheduler against kube-scheduler, on a random cluster that is the same in both.
//!
//! Pods are offered one by one, and each of the two schedulers chooses for every other pod. The other one is told
//! the choice as the pod's nominated node, which it tries first: so it says whether its own filters admit it at that
//! moment. A pod for which there is no place must have none for either, and for the same reasons, to the letter.
//!
//! `BERTH_SEED` and `BERTH_PODS` give other pods and more of them.

#![expect(clippy::unwrap_used, reason = "what goes wrong here is a failure of the test")]

#[expect(dead_code, reason = "whole cases are for the oracle; here the parts are used")]
#[path = "../../../api/examples/oracle/generate.rs"]
mod generate;
#[path = "../contract/plane.rs"]
mod plane;

use std::collections::VecDeque;
use std::io::Write;
use std::time::{Duration, Instant};

use berth_control_plane::ControlPlane;
use berth_world::World;
use generate::{Dice, NAMESPACES, Rules};
use http::Method;
use kube::Client;
use kube::client::Body;
use plane::Plane;
use serde_json::{Value, json};

const NODES: usize = 100;
const PODS: usize = 1000;

/// With more, hardly any pod would find a place: some shun all others.
const PLACED_MAX: usize = 150;

/// How long a scheduler, or what a cluster needs before it, may take where others keep the machine busy.
const PATIENCE: Duration = Duration::from_mins(2);

/// A cluster that is asked through its API.
struct Cluster {
    name: &'static str,
    client: Client,
}

/// What became of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    On(String),
    Waits(String),
}

impl Cluster {
    async fn ask(&self, method: Method, path: &str, kind: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", format!("application/{kind}"))
            .body(Body::from(body))
            .unwrap();
        let answer = self.client.send(request).await.unwrap();
        let code = answer.status().as_u16();
        let bytes = answer.into_body().collect_bytes().await.unwrap();
        (code, serde_json::from_slice(&bytes).unwrap_or_default())
    }

    async fn must(&self, method: Method, path: &str, kind: &str, body: &Value) -> Value {
        let (code, said) = self.ask(method, path, kind, body).await;
        assert!(code < 300, "{}: {path}: {said}", self.name);
        said
    }

    async fn create(&self, path: &str, object: &Value) {
        self.must(Method::POST, path, "json", object).await;
    }

    async fn patch(&self, path: &str, patch: &Value) {
        self.must(Method::PATCH, path, "merge-patch+json", patch).await;
    }

    async fn delete(&self, pod: &Value) {
        let options = json!({ "gracePeriodSeconds": 0 });
        self.must(Method::DELETE, &path(pod), "json", &options).await;
    }

    /// Lets the scheduler choose.
    async fn offer(&self, pod: &Value) -> Outcome {
        self.create(&pods(pod), pod).await;
        self.outcome(pod).await
    }

    /// Asks the scheduler whether it would have the pod on this node.
    async fn suggest(&self, pod: &Value, node: &str) -> Outcome {
        let mut gated = pod.clone();
        gated["spec"]["schedulingGates"] = json!([{ "name": "example.com/suggestion" }]);
        self.create(&pods(pod), &gated).await;
        let suggestion = json!({ "status": { "nominatedNodeName": node } });
        self.patch(&format!("{}/status", path(pod)), &suggestion).await;
        self.patch(&path(pod), &json!({ "spec": { "schedulingGates": null } })).await;
        self.outcome(pod).await
    }

    async fn outcome(&self, pod: &Value) -> Outcome {
        let began = Instant::now();
        loop {
            let pod = self.must(Method::GET, &path(pod), "json", &Value::Null).await;
            if let Some(node) = pod["spec"]["nodeName"].as_str() {
                return Outcome::On(node.to_owned());
            }
            let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
            if let Some(condition) =
                conditions.iter().find(|condition| condition["reason"] == "Unschedulable")
            {
                return Outcome::Waits(condition["message"].as_str().unwrap_or_default().to_owned());
            }
            assert!(began.elapsed() < PATIENCE, "{}: nothing became of {pod}", self.name);
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
    }

    /// Waits until every node takes pods and every namespace can have some.
    async fn settle(&self) {
        let began = Instant::now();
        loop {
            let nodes = self.must(Method::GET, "/api/v1/nodes", "json", &Value::Null).await;
            let starting = |node: &Value| {
                let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
                let is_cordoned = node["spec"]["unschedulable"] == true;
                let has = |key: &str| taints.iter().any(|taint| taint["key"] == key);
                has("node.kubernetes.io/not-ready") || is_cordoned != has("node.kubernetes.io/unschedulable")
            };
            let waited_for = nodes["items"].as_array().unwrap().iter().find(|node| starting(node));
            let mut ready = waited_for.is_none();
            for namespace in NAMESPACES {
                let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/default");
                ready &= self.ask(Method::GET, &path, "json", &Value::Null).await.0 == 200;
            }
            if ready {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{} is not ready: {waited_for:?}", self.name);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

fn pods(pod: &Value) -> String {
    format!("/api/v1/namespaces/{}/pods", pod["metadata"]["namespace"].as_str().unwrap())
}

fn path(pod: &Value) -> String {
    format!("{}/{}", pods(pod), pod["metadata"]["name"].as_str().unwrap())
}

fn number(variable: &str, otherwise: usize) -> usize {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

#[tokio::test]
async fn the_world_schedules_as_kubernetes_does() {
    let Some(plane) = ControlPlane::for_test().unwrap().map(Plane) else { return };
    let world = World::new(1, "2026-01-01T00:00:00Z".parse().unwrap());
    let living = world.clone();
    let life = tokio::spawn(async move { living.live_only(&["kube-scheduler"]).await });
    let ours = Cluster { name: "the world", client: Client::new(world.router(), "default") };
    let theirs = Cluster { name: "Kubernetes", client: plane.client().await };
    let seed = number("BERTH_SEED", 1) as u64;
    let mut dice = Dice::new(seed);
    found(&ours, &theirs, &mut dice).await;
    let tally = compare(&ours, &theirs, &mut dice, number("BERTH_PODS", PODS), seed).await;
    life.abort();
    // Written past the test harness, which would keep it to itself.
    let _ = writeln!(std::io::stderr(), "{tally:?}");
    assert!(tally.placed * 4 > tally.offered, "too few find a place to learn from: {tally:?}");
    assert!(tally.waiting * 20 > tally.offered, "too few are refused to learn from: {tally:?}");
}

/// The same nodes and namespaces in both.
async fn found(ours: &Cluster, theirs: &Cluster, dice: &mut Dice) {
    let mut nodes = Vec::new();
    for index in 0..NODES {
        let with = Rules::draw(dice);
        nodes.push(generate::node(dice, &with, index));
    }
    for cluster in [ours, theirs] {
        let other = generate::namespace("other");
        cluster.create("/api/v1/namespaces", &other).await;
        for node in &nodes {
            cluster.create("/api/v1/nodes", node).await;
        }
    }
    // Nobody in the world is there to see that they are ready, and that namespaces have accounts.
    for namespace in NAMESPACES {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
        let (code, said) =
            ours.ask(Method::POST, &path, "json", &json!({ "metadata": { "name": "default" } })).await;
        assert!(code < 300 || code == 409, "{said}");
    }
    for node in &nodes {
        let path = format!("/api/v1/nodes/{}", node["metadata"]["name"].as_str().unwrap());
        ours.patch(&path, &json!({ "spec": { "taints": node["spec"]["taints"] } })).await;
    }
    theirs.settle().await;
}

#[derive(Debug, Default)]
struct Tally {
    offered: usize,
    placed: usize,
    waiting: usize,
    /// What no API server takes.
    refused: usize,
}

async fn compare(ours: &Cluster, theirs: &Cluster, dice: &mut Dice, pods_count: usize, seed: u64) -> Tally {
    let mut tally = Tally::default();
    let mut placed: VecDeque<Value> = VecDeque::new();
    let mut waiting_in_a_row = 0;
    while tally.offered < pods_count {
        let name = format!("pod-{}", tally.offered + tally.refused);
        let with = Rules::draw(dice);
        let pod = generate::pod(dice, &with, &name, None, &[], NODES);
        let (code, _) = theirs.ask(Method::POST, &format!("{}?dryRun=All", pods(&pod)), "json", &pod).await;
        if code >= 300 {
            tally.refused += 1;
            continue;
        }
        tally.offered += 1;
        let (chooser, other) = if tally.offered % 2 == 0 { (ours, theirs) } else { (theirs, ours) };
        let chosen = chooser.offer(&pod).await;
        let said = match &chosen {
            Outcome::On(node) => other.suggest(&pod, node).await,
            Outcome::Waits(_) => other.offer(&pod).await,
        };
        assert_eq!(
            said, chosen,
            "seed {seed}: {} (left) does not agree with {} (right) about {pod}",
            other.name, chooser.name
        );
        match chosen {
            Outcome::On(_) => {
                tally.placed += 1;
                waiting_in_a_row = 0;
                placed.push_back(pod);
            }
            Outcome::Waits(_) => {
                tally.waiting += 1;
                waiting_in_a_row += 1;
                for cluster in [ours, theirs] {
                    cluster.delete(&pod).await;
                }
            }
        }
        let spare = if waiting_in_a_row > 3 { placed.len() / 2 } else { PLACED_MAX };
        while placed.len() > spare {
            let Some(pod) = placed.pop_front() else { break };
            for cluster in [ours, theirs] {
                cluster.delete(&pod).await;
            }
        }
    }
    tally
}
