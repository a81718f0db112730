//! A world with a cloud and an operator on it, in virtual time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use berth_api::{ClassKind, Timestamp};
use berth_cloud::{CatalogOptions, Cloud};
use berth_operator::{Clock, Clouds, Cluster, Lead, Operator, Settings};
use berth_world::World;
use berth_world::cloud::weather::Weather;
use berth_world::cloud::{Account, SimulatedCloud};
use kube::Client;
use serde_json::{Value, json};
use tokio::time::sleep;

pub(crate) const BEGAN: &str = "2026-03-01T09:00:00Z";

pub(crate) fn began() -> Timestamp {
    BEGAN.parse().expect("a time")
}

/// Everything that goes on.
pub(crate) struct Scene {
    pub(crate) world: World,
    pub(crate) cloud: SimulatedCloud,
    pub(crate) client: Client,
}

impl Scene {
    pub(crate) async fn new(seed: u64, weather: Weather) -> Self {
        let catalog = berth_cloud::load("kwok", &CatalogOptions::default()).expect("it is built in");
        Self::on(seed, SimulatedCloud::new(Account::new(Arc::new(catalog), weather, seed, began()))).await
    }

    /// The same, with machines of this cloud.
    pub(crate) async fn on(seed: u64, cloud: SimulatedCloud) -> Self {
        let world = World::new(seed, began());
        let client = Client::new(world.client("test"), "default");
        let scene = Self { world, cloud, client };
        let crds = berth_api::crds::yaml().expect("they can be written");
        let source = berth_api::Source::Text { name: "crds".to_owned(), text: crds };
        let (objects, problems) = berth_api::objects(&[source]);
        assert!(problems.is_empty(), "{problems:?}");
        for object in objects {
            scene.apply(object.value).await;
        }
        scene
    }

    pub(crate) async fn apply(&self, object: Value) {
        let applied = self.world.apply("test", &object).await;
        applied.unwrap_or_else(|failure| panic!("{object}: {failure}"));
    }

    /// A volume of this kind, `disk-1`, that the claim `data` has.
    pub(crate) async fn apply_volume(&self, source: &Value) {
        let size = json!({ "storage": "1Gi" });
        let mut volume = json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": "disk-1" },
            "spec": {
                "accessModes": ["ReadWriteOnce"], "capacity": size, "storageClassName": "",
                "claimRef": { "namespace": "default", "name": "data" },
            },
        });
        for (kind, of) in source.as_object().into_iter().flatten() {
            volume["spec"][kind] = of.clone();
        }
        self.apply(volume).await;
        self.apply(json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": "data", "namespace": "default",
                "annotations": { "pv.kubernetes.io/bind-completed": "yes" },
            },
            "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": "disk-1",
                "resources": { "requests": size },
            },
        }))
        .await;
    }

    /// No pod of `web` may be evicted from now on.
    pub(crate) async fn guard(&self) {
        self.apply(json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": { "name": "web", "namespace": "default" },
            "spec": { "maxUnavailable": 0, "selector": { "matchLabels": { "app": "web" } } },
        }))
        .await;
    }

    /// An operator, as one client of the world.
    pub(crate) fn operator(&self, name: &str, epoch: u64) -> Operator {
        self.operator_through(Client::new(self.world.client(name), "default"), name, epoch)
    }

    /// The same, through a client of its own.
    pub(crate) fn operator_through(&self, client: Client, name: &str, epoch: u64) -> Operator {
        let cloud: Arc<dyn Cloud> = Arc::new(self.cloud.clone());
        let clouds = BTreeMap::from([(ClassKind::Kwok, cloud)]);
        let lead = berth_operator::alone(epoch);
        self.operator_with((clouds, Settings::default()), (client, name), lead)
    }

    /// An operator that buys from these clouds.
    pub(crate) fn operator_with(
        &self,
        (clouds, settings): (Clouds, Settings),
        (client, name): (Client, &str),
        lead: Lead,
    ) -> Operator {
        let cluster = Cluster::through(client, "the world");
        let (world, client) = (self.world.clone(), name.to_owned());
        let clock = Clock::new(move || world.clock_of(&client));
        Operator::new(cluster, clouds, clock, settings, lead)
    }

    /// Lets the world and an operator work for so long.
    pub(crate) async fn play(&self, script: impl Future<Output = ()>) {
        self.play_with(self.operator("berth", 1), script).await;
    }

    pub(crate) async fn play_with(&self, operator: Operator, script: impl Future<Output = ()>) {
        let played = async {
            tokio::select! {
                biased;
                () = Box::pin(operator.run()) => {}
                () = Box::pin(script) => {}
            }
        };
        self.live(played).await;
    }

    /// The same without an operator.
    pub(crate) async fn live(&self, script: impl Future<Output = ()>) {
        tokio::select! {
            biased;
            () = Box::pin(self.world.kubelets().live_on(&self.cloud)) => {}
            () = Box::pin(self.world.live()) => {}
            () = Box::pin(script) => {}
        }
    }

    /// How long it has been played.
    pub(crate) fn clock_secs(&self) -> i64 {
        self.world.clock_of("test").duration_since(began()).as_secs()
    }

    pub(crate) async fn list(&self, path: &str) -> Vec<Value> {
        let request = http::Request::get(path).body(Vec::new()).expect("a request");
        let list: Value = self.client.request(request).await.expect("a list");
        list["items"].as_array().cloned().unwrap_or_default()
    }

    pub(crate) async fn claims(&self) -> Vec<Value> {
        self.list("/apis/karpenter.sh/v1/nodeclaims").await
    }

    pub(crate) async fn nodes(&self) -> Vec<Value> {
        self.list("/api/v1/nodes").await
    }

    pub(crate) async fn pods(&self) -> Vec<Value> {
        self.list("/api/v1/namespaces/default/pods").await
    }

    pub(crate) async fn running(&self) -> usize {
        self.pods().await.iter().filter(|pod| pod["status"]["phase"] == "Running").count()
    }

    /// How many machines there are.
    pub(crate) fn machines(&self) -> usize {
        self.cloud.inspect(|account| account.records().iter().filter(|record| record.is_alive()).count())
    }

    pub(crate) fn machine_names(&self) -> Vec<String> {
        self.cloud.inspect(|account| {
            let alive = account.records().iter().filter(|record| record.is_alive());
            alive.map(|record| record.machine.id.to_string()).collect()
        })
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let request = http::Request::get(path).body(Vec::new()).expect("a request");
        self.client.request(request).await.expect("an object")
    }

    pub(crate) async fn delete(&self, path: &str) {
        let request = http::Request::delete(path).body(Vec::new()).expect("a request");
        let _: Value = self.client.request(request).await.expect("it is there");
    }

    pub(crate) async fn patch(&self, path: &str, change: &Value) {
        let request = http::Request::patch(path).header("content-type", "application/merge-patch+json");
        let request = request.body(change.to_string().into_bytes()).expect("a request");
        let _: Value = self.client.request(request).await.expect("it is there");
    }

    pub(crate) async fn pool(&self, name: &str) -> Value {
        self.get(&format!("/apis/karpenter.sh/v1/nodepools/{name}")).await
    }

    /// A pool's ledger.
    pub(crate) async fn ledger(&self, pool: &str) -> Value {
        let pool = self.pool(pool).await;
        let written = text(&pool["metadata"]["annotations"]["berth.dev/ledger"]).to_owned();
        serde_json::from_str(&written).unwrap_or_default()
    }

    /// What the operator said about objects whose names begin like this.
    pub(crate) async fn events(&self, prefix: &str) -> Vec<String> {
        let ours = |event: &&Value| {
            event["source"]["component"] == "berth"
                && text(&event["involvedObject"]["name"]).starts_with(prefix)
        };
        let events = self.list("/api/v1/events").await;
        events.iter().filter(ours).map(|event| text(&event["message"]).to_owned()).collect()
    }

    /// Waits until it holds, a second at a time.
    pub(crate) async fn until(&self, secs_max: u64, what: &str, holds: impl AsyncFn() -> bool) {
        for _ in 0..secs_max {
            if holds().await {
                return;
            }
            sleep(Duration::from_secs(1)).await;
        }
        panic!("{what}: not after {secs_max} s\n{}", self.told().await);
    }

    /// What there is, in a few lines.
    pub(crate) async fn told(&self) -> String {
        let mut lines = Vec::new();
        for claim in self.claims().await {
            let conditions = claim["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let conditions: Vec<String> = conditions
                .iter()
                .map(|c| format!("{}={}({})", text(&c["type"]), text(&c["status"]), text(&c["reason"])))
                .collect();
            let deleting = text(&claim["metadata"]["deletionTimestamp"]);
            lines.push(format!(
                "claim {} {deleting} {}",
                text(&claim["metadata"]["name"]),
                conditions.join(" ")
            ));
        }
        for node in self.nodes().await {
            lines.push(format!("node {} {}", text(&node["metadata"]["name"]), node["spec"]["taints"]));
        }
        for pod in self.pods().await {
            let (name, node) = (text(&pod["metadata"]["name"]), text(&pod["spec"]["nodeName"]));
            lines.push(format!("pod {name} on {node} {}", text(&pod["status"]["phase"])));
        }
        for event in self.list("/api/v1/events").await {
            if event["source"]["component"] == "berth" {
                let about = text(&event["involvedObject"]["name"]);
                lines.push(format!("event {about} {} {}", text(&event["reason"]), text(&event["message"])));
            }
        }
        lines.join("\n")
    }
}

pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A condition's status and reason.
pub(crate) fn condition<'v>(object: &'v Value, kind: &str) -> Option<(&'v str, &'v str)> {
    let conditions = object["status"]["conditions"].as_array()?;
    let condition = conditions.iter().find(|condition| condition["type"] == kind)?;
    Some((text(&condition["status"]), text(&condition["reason"])))
}

pub(crate) fn class() -> Value {
    json!({
        "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass",
        "metadata": { "name": "default" }, "spec": {},
    })
}

pub(crate) fn pool(name: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": { "name": name },
        "spec": {
            "template": { "spec": {
                "nodeClassRef": { "group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default" },
                "requirements": [
                    { "key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"] },
                    { "key": "kubernetes.io/os", "operator": "In", "values": ["linux"] },
                ],
            } },
            "disruption": { "consolidateAfter": "0s" },
        },
    });
    change(&mut pool);
    pool
}

pub(crate) fn deployment(name: &str, replicas: u32, cpu: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": name, "namespace": "default" },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name } },
                "spec": { "containers": [
                    { "name": "main", "image": "x", "resources": { "requests": { "cpu": cpu, "memory": "128Mi" } } },
                ] },
            },
        },
    })
}

/// No two of its pods on one node.
pub(crate) fn keep_apart(workload: &mut Value) {
    let own = workload["spec"]["selector"].clone();
    workload["spec"]["template"]["spec"]["affinity"] = json!({ "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            { "topologyKey": "kubernetes.io/hostname", "labelSelector": own },
        ],
    } });
}
