//! A life in which much goes wrong: nodes are machines of a cloud in bad weather, a webhook has its say, and two
//! clients mark all pods while they are struck by faults.

use std::cell::RefCell;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use berth_cloud::machine::{Order, Token};
use berth_cloud::{CatalogOptions, Cloud};
use berth_core::catalog::CapacityType;
use berth_core::names::Labels;
use berth_core::plan::Alternative;
use berth_core::units::Price;
use berth_world::World;
use berth_world::cloud::{Account, SimulatedCloud, Weather};
use futures::StreamExt;
use http::{Method, Request, Response};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};
use tower_service::Service;

const MINUTES: u64 = 12;
const MACHINES: u64 = 6;
const DEPLOYMENTS: u64 = 4;
const REPLICAS: u64 = 6;
const CLIENTS: [&str; 2] = ["left", "right"];
const PODS: &str = "/api/v1/namespaces/default/pods";
/// Whoever asks gives up after this.
const PATIENCE: Duration = Duration::from_secs(30);

/// All that can be seen of a life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stormy {
    /// Every change in the cluster.
    pub(crate) trace: String,
    /// All that happened in the cloud.
    pub(crate) cloud: String,
    /// What the clients asked and heard, and when.
    pub(crate) heard: String,
    pub(crate) struck: Vec<String>,
    pub(crate) pods_marked: usize,
}

/// Plays it in virtual time, on one thread.
pub(crate) fn play(seed: u64) -> Stormy {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.unwrap().block_on(async { Box::pin(Storm::new(seed).play()).await })
}

struct Storm {
    seed: u64,
    world: World,
    cloud: SimulatedCloud,
    began: Instant,
    heard: RefCell<String>,
}

impl Storm {
    fn new(seed: u64) -> Self {
        let now = Timestamp::from_second(1_767_225_600).unwrap();
        let hooks = Router::new().fallback(review);
        let world = World::new(seed, now).with_webhook_service("127.0.0.1:8443", hooks);
        world.begin_trace();
        world.plan_faults(faults(seed).parse().unwrap());
        let catalog = Arc::new(berth_cloud::load("kwok", &CatalogOptions::default()).unwrap());
        let weather = Weather::storm(seed, (MINUTES - 4) * 60_000);
        let cloud = SimulatedCloud::new(Account::new(catalog, weather, seed, now));
        Self { seed, world, cloud, began: Instant::now(), heard: RefCell::default() }
    }

    async fn play(self) -> Stormy {
        let [left, right] = CLIENTS.map(|client| self.run(client));
        tokio::select! {
            biased;
            () = self.world.kubelets().live_on(&self.cloud) => {}
            () = self.world.live() => {}
            () = left => {}
            () = right => {}
            () = self.pass() => {}
        }
        let marked = self.world.changes_after(1, &["pods"]).unwrap();
        let is_marked =
            |pod: &Value| CLIENTS.iter().all(|client| !pod["metadata"]["annotations"][*client].is_null());
        Stormy {
            trace: self.world.trace(),
            cloud: self.cloud.inspect(|account| format!("{:#?}", account.history())),
            heard: self.heard.take(),
            struck: self.world.faults_struck(),
            pods_marked: marked.iter().filter(|pod| pod.object.as_ref().is_some_and(is_marked)).count(),
        }
    }

    /// What people do: they buy machines, run pods on them, and give one back.
    async fn pass(&self) {
        self.apply(&webhook()).await;
        for number in 0..DEPLOYMENTS {
            self.apply(&deployment(number, REPLICAS)).await;
        }
        for number in 0..MACHINES {
            self.buy(number).await;
        }
        sleep(Duration::from_mins(MINUTES / 2)).await;
        self.apply(&deployment(self.seed % DEPLOYMENTS, REPLICAS / 2)).await;
        let given_back =
            self.cloud.inspect(|account| account.records().first().map(|of| of.machine.id.clone()));
        if let Some(id) = given_back {
            let ended = self.cloud.terminate(&id).await;
            self.note("people", &format!("terminate {ended:?}"));
        }
        self.buy(MACHINES).await;
        let past = self.began.elapsed();
        sleep(Duration::from_mins(MINUTES).saturating_sub(past)).await;
    }

    async fn apply(&self, object: &Value) {
        self.world.apply("people", object).await.unwrap();
    }

    /// Asks for a machine until there is an answer, or none can be had.
    async fn buy(&self, number: u64) {
        let capacity_type =
            if number.is_multiple_of(2) { CapacityType::Spot } else { CapacityType::OnDemand };
        let zone = ["test-zone-a", "test-zone-b", "test-zone-c"][usize::try_from(number % 3).unwrap()];
        let order = Order {
            labels: Arc::new(Labels::from([("topology.kubernetes.io/zone".into(), zone.into())])),
            ..Order::new(
                Token::parse(&format!("storm-{number}")).unwrap(),
                format!("node-{number}"),
                "storm",
                vec![Alternative {
                    instance_type: "c-4x-amd64-linux".into(),
                    zone: zone.into(),
                    capacity_type,
                    price_per_hour: Price::ZERO,
                }],
            )
        };
        for _ in 0..5 {
            let launched = self.cloud.launch(&order).await;
            self.note("people", &format!("launch {number} {launched:?}"));
            if launched.is_ok() {
                return;
            }
            sleep(Duration::from_secs(5)).await;
        }
    }

    fn note(&self, who: &str, what: &str) {
        let _ = writeln!(self.heard.borrow_mut(), "{} {who} {what}", self.began.elapsed().as_millis());
    }

    /// A client that is started again whenever it ends.
    async fn run(&self, client: &str) {
        loop {
            tokio::select! {
                biased;
                () = self.world.crashed(client) => {}
                () = self.mark(client) => {}
            }
            self.note(client, "starts again");
            sleep(Duration::from_secs(2)).await;
            self.world.restart(client);
        }
    }

    /// Lists pods, hears of the others, and marks each with the time by its clock.
    async fn mark(&self, client: &str) {
        loop {
            sleep(Duration::from_secs(1)).await;
            let Some(list) = self.ask(client, Method::GET, PODS, &Value::Null).await else { continue };
            for pod in list["items"].as_array().into_iter().flatten() {
                self.mark_one(client, pod).await;
            }
            let revision = list["metadata"]["resourceVersion"].as_str().unwrap_or("0");
            let path = format!("{PODS}?watch=true&resourceVersion={revision}&allowWatchBookmarks=true");
            let Ok(Ok(answer)) = timeout(PATIENCE, self.call(client, Method::GET, &path, &Value::Null)).await
            else {
                continue;
            };
            let mut lines = answer.into_body().into_data_stream();
            // Nothing may be said for as long as a bookmark takes, and then for a while.
            while let Ok(Some(Ok(line))) = timeout(Duration::from_secs(90), lines.next()).await {
                let Ok(event) = serde_json::from_slice::<Value>(&line) else { break };
                self.note(
                    client,
                    &format!("hears {} {}", event["type"], event["object"]["metadata"]["name"]),
                );
                if event["type"] == "ERROR" {
                    break;
                }
                if event["type"] == "ADDED" || event["type"] == "MODIFIED" {
                    self.mark_one(client, &event["object"]).await;
                }
            }
        }
    }

    async fn mark_one(&self, client: &str, pod: &Value) {
        let Some(name) = pod["metadata"]["name"].as_str() else { return };
        if pod["metadata"]["annotations"][client].is_null() {
            let now = self.world.clock_of(client).to_string();
            let change = json!({"metadata": {"annotations": {client: now}}});
            self.ask(client, Method::PATCH, &format!("{PODS}/{name}"), &change).await;
        }
    }

    /// What is answered in time and goes well.
    async fn ask(&self, client: &str, method: Method, path: &str, body: &Value) -> Option<Value> {
        let asked = async {
            let answer = self.call(client, method.clone(), path, body).await.ok()?;
            let (code, whole) = (answer.status(), axum::body::to_bytes(answer.into_body(), usize::MAX).await);
            self.note(client, &format!("{method} {path} {code}"));
            serde_json::from_slice(&whole.ok()?).ok().filter(|_| code.is_success())
        };
        timeout(PATIENCE, asked).await.ok().flatten()
    }

    async fn call(
        &self,
        client: &str,
        method: Method,
        path: &str,
        body: &Value,
    ) -> Result<Response<Body>, berth_world::faults::Lost> {
        let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
        let request = Request::builder().method(method).uri(path);
        let request = request.header("content-type", "application/merge-patch+json").body(body).unwrap();
        self.world.client(client).call(request).await
    }
}

/// Something of everything, at other points for each seed.
fn faults(seed: u64) -> String {
    let at = |number: u64| 1 + (seed * 7 + number * 5) % 23;
    let harms = [
        ("left before patch pods", "status 409"),
        ("left before patch pods", "status 502"),
        ("left after patch pods", "lost"),
        ("left after patch pods", "crash"),
        ("left after patch pods", "rewind 30 for 60s"),
        ("left before event pods", "drop"),
        ("left before event pods", "swap"),
        ("left before event pods", "freeze 20s of pods"),
        ("left before patch pods", "clock 50%"),
        ("right before any *", "delay 3s"),
        ("right after patch pods", "slow 5s"),
        ("right before event pods", "repeat"),
        ("right before event pods", "delay 7s"),
        ("right before event pods", "lost"),
        ("right before event pods", "status 410"),
        ("right before write *", "clock -1h"),
        ("right after write *", "freeze 40s"),
        ("right before write *", "crash"),
    ];
    let lines =
        harms.iter().zip(0..).map(|((point, harm), number)| format!("{point} #{}: {harm}\n", at(number)));
    lines.collect::<String>() + "right before list pods #1: partial 3\n"
}

fn deployment(number: u64, replicas: u64) -> Value {
    let name = format!("web-{number}");
    let requests = json!({"cpu": "500m", "memory": "256Mi"});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "web", "image": "web:1", "resources": {"requests": requests}}]},
            },
        },
    })
}

fn webhook() -> Value {
    let rule =
        json!({"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]});
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "marks"},
        "webhooks": [{
            "name": "marks.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://127.0.0.1:8443/mark"}, "rules": [rule],
        }],
    })
}

/// Marks a pod, a second after it was asked.
async fn review(body: Bytes) -> Response<Body> {
    let review: Value = serde_json::from_slice(&body).unwrap();
    sleep(Duration::from_secs(1)).await;
    let patch = json!([{"op": "add", "path": "/metadata/labels/reviewed", "value": "yes"}]);
    let answer = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "response": {
            "uid": review["request"]["uid"], "allowed": true,
            "patchType": "JSONPatch", "patch": STANDARD.encode(patch.to_string()),
        },
    });
    Response::builder()
        .header("content-type", "application/json")
        .body(Body::from(answer.to_string()))
        .unwrap()
}
