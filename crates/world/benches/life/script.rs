//! A cluster's life to play: nodes and workloads from a seed, and what people do to them as time goes by.

use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use berth_world::World;
use http::{Method, Request};
use jiff::Timestamp;
use serde_json::{Value, json};
use tower_service::Service;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Script {
    pub(crate) seed: u64,
    pub(crate) nodes: usize,
    pub(crate) pods: usize,
    pub(crate) minutes: u64,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lived {
    pub(crate) nodes_ready: usize,
    pub(crate) pods_running: usize,
    /// Changes of all objects.
    pub(crate) changes: usize,
    pub(crate) trace: String,
}

/// How many deployments share the pods.
const DEPLOYMENTS: usize = 20;
const POD_MILLICPU: usize = 250;

/// Plays a script in virtual time, on one thread.
pub(crate) fn play(script: Script, traced: bool) -> Lived {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.unwrap().block_on(script.play(traced))
}

impl Script {
    async fn play(self, traced: bool) -> Lived {
        let world = World::new(self.seed, Timestamp::from_second(1_767_225_600).unwrap());
        if traced {
            world.begin_trace();
        }
        let life = tokio::spawn({
            let world = world.clone();
            async move { world.live().await }
        });
        let people = People { world: world.clone() };
        people.register(self.nodes).await;
        people.deploy(self.pods).await;
        self.pass(&people).await;
        let lived = people.look(traced).await;
        life.abort();
        lived
    }

    /// Everything that happens to a cluster in the time: a tenth of it each.
    async fn pass(self, people: &People) {
        let tenth = Duration::from_secs(self.minutes * 6);
        let node = |number: u64| format!("node-{}", (self.seed + number) % self.nodes.max(1) as u64);
        for part in 0..10 {
            tokio::time::sleep(tenth).await;
            let numbered = |number: u64| (self.seed + number) % DEPLOYMENTS as u64;
            let deployment = |number: u64| format!("web-{}", numbered(number));
            let whole = share(self.pods, usize::try_from(numbered(0)).unwrap());
            match part {
                0 => people.cordon(&node(0)).await,
                1 => people.scale(&deployment(0), 1).await,
                2 => people.evict_from(&node(0)).await,
                3 => people.restart(&deployment(1)).await,
                4 => people.scale(&deployment(0), whole).await,
                5 => people.delete_pods_of(&deployment(2)).await,
                6 => people.delete_node(&node(1)).await,
                _ => {}
            }
        }
    }
}

/// How many of the pods a deployment has.
fn share(pods: usize, number: usize) -> usize {
    pods / DEPLOYMENTS + usize::from(number < pods % DEPLOYMENTS)
}

/// Whoever uses the cluster.
struct People {
    world: World,
}

const DEPLOYMENTS_PATH: &str = "/apis/apps/v1/namespaces/default/deployments";
const PODS_PATH: &str = "/api/v1/namespaces/default/pods";

impl People {
    async fn tell(&self, method: Method, path: &str, content_type: &str, body: &Value) -> Bytes {
        let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
        let request =
            Request::builder().method(method).uri(path).header("content-type", content_type).body(body);
        let answer = self.world.client("people").call(request.unwrap()).await.unwrap();
        to_bytes(answer.into_body(), usize::MAX).await.unwrap()
    }

    async fn ask(&self, method: Method, path: &str, content_type: &str, body: &Value) -> Value {
        serde_json::from_slice(&self.tell(method, path, content_type, body).await).unwrap()
    }

    async fn post(&self, path: &str, body: &Value) {
        let made = self.ask(Method::POST, path, "application/json", body).await;
        assert_ne!(made["kind"], "Status", "{made}");
    }

    async fn patch(&self, path: &str, body: &Value) {
        let patched = self.ask(Method::PATCH, path, "application/merge-patch+json", body).await;
        assert_ne!(patched["kind"], "Status", "{patched}");
    }

    /// Looks at all objects, a page after the other as `kubectl` does: a client that keeps them all takes more room
    /// than the cluster.
    async fn each(&self, path: &str, mut look: impl FnMut(&Value)) {
        let mut next = String::new();
        loop {
            let page =
                format!("{path}{}limit=100&continue={next}", if path.contains('?') { '&' } else { '?' });
            let list = self.ask(Method::GET, &page, "", &Value::Null).await;
            list["items"].as_array().unwrap_or_else(|| panic!("{page}: {list}")).iter().for_each(&mut look);
            match list["metadata"]["continue"].as_str() {
                Some(token) if !token.is_empty() => token.clone_into(&mut next),
                _ => return,
            }
        }
    }

    async fn count_ready(&self, path: &str) -> usize {
        let mut count = 0;
        self.each(path, |object| {
            let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
            count += usize::from(conditions.any(|of| of["type"] == "Ready" && of["status"] == "True"));
        })
        .await;
        count
    }

    async fn register(&self, nodes: usize) {
        for number in 0..nodes {
            let size = json!({"cpu": "16", "memory": "64Gi", "pods": "110", "ephemeral-storage": "100Gi"});
            let zone = ["a", "b", "c"][number % 3];
            let node = json!({
                "metadata": {"name": format!("node-{number}"), "labels": {"topology.kubernetes.io/zone": zone}},
                "status": {"capacity": size, "allocatable": size},
            });
            self.post("/api/v1/nodes", &node).await;
        }
    }

    async fn deploy(&self, pods: usize) {
        for number in 0..DEPLOYMENTS {
            let replicas = share(pods, number);
            let labels = json!({"app": format!("web-{number}")});
            let requests = json!({"cpu": format!("{POD_MILLICPU}m"), "memory": "512Mi"});
            let deployment = json!({
                "metadata": {"name": format!("web-{number}")},
                "spec": {
                    "replicas": replicas, "selector": {"matchLabels": labels},
                    "template": {
                        "metadata": {"labels": labels},
                        "spec": {"containers": [
                            {"name": "web", "image": "web:1", "resources": {"requests": requests}},
                        ]},
                    },
                },
            });
            self.post(DEPLOYMENTS_PATH, &deployment).await;
        }
    }

    async fn cordon(&self, node: &str) {
        self.patch(&format!("/api/v1/nodes/{node}"), &json!({"spec": {"unschedulable": true}})).await;
    }

    async fn scale(&self, deployment: &str, replicas: usize) {
        self.patch(&format!("{DEPLOYMENTS_PATH}/{deployment}"), &json!({"spec": {"replicas": replicas}}))
            .await;
    }

    async fn restart(&self, deployment: &str) {
        let annotations = json!({"kubectl.kubernetes.io/restartedAt": "now"});
        let template = json!({"spec": {"template": {"metadata": {"annotations": annotations}}}});
        self.patch(&format!("{DEPLOYMENTS_PATH}/{deployment}"), &template).await;
    }

    async fn evict_from(&self, node: &str) {
        let mut names: Vec<String> = Vec::new();
        self.each(&format!("{PODS_PATH}?fieldSelector=spec.nodeName={node}"), |pod| {
            names.extend(pod["metadata"]["name"].as_str().map(str::to_owned));
        })
        .await;
        for name in names {
            let eviction = json!({
                "apiVersion": "policy/v1", "kind": "Eviction",
                "metadata": {"name": name, "namespace": "default"},
            });
            let path = format!("{PODS_PATH}/{name}/eviction");
            self.ask(Method::POST, &path, "application/json", &eviction).await;
        }
    }

    async fn delete_pods_of(&self, deployment: &str) {
        let path = format!("{PODS_PATH}?labelSelector=app={deployment}");
        self.tell(Method::DELETE, &path, "", &Value::Null).await;
    }

    async fn delete_node(&self, node: &str) {
        self.ask(Method::DELETE, &format!("/api/v1/nodes/{node}"), "", &Value::Null).await;
    }

    async fn look(&self, traced: bool) -> Lived {
        Lived {
            nodes_ready: self.count_ready("/api/v1/nodes").await,
            pods_running: self.count_ready(PODS_PATH).await,
            changes: usize::try_from(self.world.revision()).unwrap(),
            trace: if traced { self.world.trace() } else { String::new() },
        }
    }
}
