//! A cluster to act on, the world or a real control plane, asked through one client.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_api::ClassKind;
use berth_cloud::CatalogOptions;
use berth_control_plane::ControlPlane;
use berth_operator::{Choice, Clock, Cluster, Operator, Settings, kwok_cloud};
use http::{Method, Request};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::time::sleep;

pub(crate) const CLAIMS: &str = "/apis/karpenter.sh/v1/nodeclaims";
pub(crate) const POOLS: &str = "/apis/karpenter.sh/v1/nodepools";
pub(crate) const CLASSES: &str = "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses";
pub(crate) const NODES: &str = "/api/v1/nodes";
pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";
pub(crate) const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
pub(crate) const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

pub(crate) struct Stage {
    pub(crate) client: Client,
    /// As operators reach it.
    cluster: Cluster,
    pub(crate) clock: Clock,
}

impl Stage {
    /// With Berth's definitions, and a class and a pool of the simulated cloud.
    pub(crate) async fn on(client: Client, cluster: Cluster, clock: Clock) -> Self {
        let stage = Self { client, cluster, clock };
        let text = berth_api::crds::yaml().expect("they can be written");
        let (objects, problems) =
            berth_api::objects(&[berth_api::Source::Text { name: "crds".to_owned(), text }]);
        assert!(problems.is_empty(), "{problems:?}");
        for object in objects {
            stage.apply(DEFINITIONS, object.value).await;
        }
        stage
            .until(60, "all kinds are served", async || {
                let mut served = true;
                for path in [CLAIMS, POOLS, CLASSES] {
                    served &= stage.is_served(path).await;
                }
                served
            })
            .await;
        stage
    }

    pub(crate) async fn on_plane(plane: &ControlPlane) -> Self {
        let kubeconfig = Kubeconfig::read_from(plane.kubeconfig()).expect("a kubeconfig");
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.expect("a config");
        let choice = Choice { kubeconfig: Some(plane.kubeconfig().to_owned()), ..Choice::default() };
        let cluster = Cluster::reach(&choice).await.expect("a cluster");
        Self::on(Client::try_from(config).expect("a client"), cluster, Clock::system()).await
    }

    pub(crate) fn cluster(&self) -> Cluster {
        self.cluster.clone()
    }

    pub(crate) fn cloud(&self) -> std::sync::Arc<dyn berth_cloud::Cloud> {
        let catalog = berth_cloud::load("kwok", &CatalogOptions::default()).expect("it is built in");
        kwok_cloud(&self.cluster(), catalog.into(), &self.clock)
    }

    pub(crate) fn operator(&self) -> Operator {
        let clouds = BTreeMap::from([(ClassKind::Kwok, self.cloud())]);
        let lead = berth_operator::alone(1);
        Operator::new(self.cluster(), clouds, self.clock.clone(), Settings::default(), lead)
    }

    async fn try_ask(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, kube::Error> {
        let is_merge = !path.contains("force=true");
        let kind = match method {
            Method::PATCH if is_merge => "merge-patch+json",
            Method::PATCH => "apply-patch+yaml",
            _ => "json",
        };
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", format!("application/{kind}"))
            .body(body)
            .expect("a request");
        self.client.request(request).await
    }

    /// Whether there is such a kind.
    pub(crate) async fn is_served(&self, path: &str) -> bool {
        self.try_ask(Method::GET, path, None).await.is_ok()
    }

    /// Deletes what somebody else may have deleted.
    pub(crate) async fn delete_if_there(&self, path: &str, name: &str) {
        let _ = self.try_ask(Method::DELETE, &format!("{path}/{name}"), None).await;
    }

    pub(crate) async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Value {
        let answer = self.try_ask(method, path, body).await;
        answer.unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Makes the object so, whatever it was before.
    pub(crate) async fn apply(&self, path: &str, object: Value) -> Value {
        let name = object["metadata"]["name"].as_str().expect("a name");
        let path = format!("{path}/{name}?fieldManager=test&force=true");
        self.ask(Method::PATCH, &path, Some(&object)).await
    }

    pub(crate) async fn delete(&self, path: &str, name: &str) {
        self.ask(Method::DELETE, &format!("{path}/{name}"), None).await;
    }

    pub(crate) async fn list(&self, path: &str) -> Vec<Value> {
        let list = self.ask(Method::GET, path, None).await;
        list["items"].as_array().cloned().unwrap_or_default()
    }

    pub(crate) async fn count(&self, path: &str) -> usize {
        self.list(path).await.len()
    }

    pub(crate) async fn names(&self, path: &str) -> Vec<String> {
        let name = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        self.list(path).await.iter().map(name).collect()
    }

    /// Neither a claim nor a node.
    pub(crate) async fn is_empty(&self) -> bool {
        self.count(CLAIMS).await == 0 && self.count(NODES).await == 0
    }

    /// Nodes that are up, and Berth's.
    pub(crate) async fn initialized(&self) -> usize {
        self.count(&format!("{NODES}?labelSelector=karpenter.sh%2Finitialized%3Dtrue")).await
    }

    /// Pods that run and are not told to end.
    pub(crate) async fn running(&self) -> usize {
        let pods = self.list(PODS).await;
        let runs = |pod: &&Value| {
            pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null()
        };
        pods.iter().filter(runs).count()
    }

    pub(crate) async fn scale(&self, deployment: &str, replicas: u32) {
        let path = format!("{DEPLOYMENTS}/{deployment}/scale?fieldManager=test&force=true");
        let scale = json!({
            "apiVersion": "autoscaling/v1", "kind": "Scale",
            "metadata": { "name": deployment, "namespace": "default" }, "spec": { "replicas": replicas },
        });
        self.ask(Method::PATCH, &path, Some(&scale)).await;
    }

    /// Waits until it holds.
    pub(crate) async fn until(&self, secs_max: u32, what: &str, holds: impl AsyncFn() -> bool) {
        const LOOKS_A_SEC: u32 = 5;
        for _ in 0..secs_max * LOOKS_A_SEC {
            if holds().await {
                return;
            }
            sleep(Duration::from_secs(1) / LOOKS_A_SEC).await;
        }
        panic!("{what}: not after {secs_max} s\n{}", self.told().await);
    }

    /// What there is, in a few lines.
    async fn told(&self) -> String {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut lines = Vec::new();
        for claim in self.list(CLAIMS).await {
            let conditions = claim["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let conditions: Vec<String> =
                conditions.iter().map(|c| format!("{}={}", text(&c["type"]), text(&c["status"]))).collect();
            let (name, going) = (&claim["metadata"]["name"], &claim["metadata"]["deletionTimestamp"]);
            lines.push(format!("claim {} {} {}", text(name), text(going), conditions.join(" ")));
        }
        for node in self.list(NODES).await {
            lines.push(format!("node {} {}", text(&node["metadata"]["name"]), node["spec"]["taints"]));
        }
        for pod in self.list(PODS).await {
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

pub(crate) fn class(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass",
        "metadata": { "name": name }, "spec": spec,
    })
}

pub(crate) fn pool(name: &str) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": { "name": name },
        "spec": {
            "template": { "spec": {
                "nodeClassRef": { "group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default" },
                "requirements": [
                    { "key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"] },
                    { "key": "kubernetes.io/os", "operator": "In", "values": ["linux"] },
                    { "key": "karpenter.kwok.sh/instance-size", "operator": "Lt", "values": ["5"] },
                ],
            } },
            "disruption": { "consolidateAfter": "0s", "budgets": [{ "nodes": "100%" }] },
        },
    })
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
                "spec": { "terminationGracePeriodSeconds": 1, "containers": [
                    { "name": "main", "image": "x", "resources": { "requests": { "cpu": cpu, "memory": "128Mi" } } },
                ] },
            },
        },
    })
}
