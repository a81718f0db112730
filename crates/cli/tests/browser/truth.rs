//! What is true of a demo's world: what its API says.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use berth_api::Timestamp;
use http::Request;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::all;

/// Whoever has the kubeconfig, and knows nothing of Berth.
pub(crate) struct Truth {
    runtime: Runtime,
    client: Client,
}

impl Truth {
    pub(crate) fn of(kubeconfig: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let client = runtime.block_on(async {
            let file = Kubeconfig::read_from(Path::new(kubeconfig)).expect("a kubeconfig");
            let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
            Client::try_from(config.expect("it is complete")).expect("a client")
        });
        Self { runtime, client }
    }

    pub(super) fn get(&self, path: &str) -> Value {
        let request = Request::get(path).body(Vec::new()).expect("a request");
        self.runtime.block_on(self.client.request(request)).expect("the world answers")
    }

    pub(crate) fn list(&self, path: &str) -> Vec<Value> {
        all(&self.get(path), "items").to_vec()
    }

    pub(super) fn replicas(&self, deployment: &str) -> Value {
        self.get(&format!("/apis/apps/v1/namespaces/shop/deployments/{deployment}"))["spec"]["replicas"]
            .clone()
    }

    /// Nodes of spot, by name.
    pub(super) fn spot_nodes(&self) -> BTreeSet<String> {
        let nodes = self.list("/api/v1/nodes?labelSelector=karpenter.sh/capacity-type=spot");
        nodes.iter().map(name).collect()
    }

    /// When the newest pod was made.
    pub(super) fn newest(&self) -> Timestamp {
        let made = |pod: &Value| pod["metadata"]["creationTimestamp"].as_str()?.parse::<Timestamp>().ok();
        self.list("/api/v1/pods").iter().filter_map(made).max().unwrap_or_default()
    }

    /// The world in the words of the page, as far as the API has them.
    pub(super) fn told(&self) -> Value {
        let pods = self.list("/api/v1/pods");
        let claims = self.list("/apis/karpenter.sh/v1/nodeclaims");
        let mut nodes: BTreeMap<String, Value> = BTreeMap::new();
        for node in self.list("/api/v1/nodes") {
            let label = |name: &str| node["metadata"]["labels"][name].clone();
            let is_here = |pod: &&Value| pod["spec"]["nodeName"] == node["metadata"]["name"];
            let on_it: BTreeSet<String> = pods.iter().filter(is_here).map(whole_name).collect();
            let told = json!([
                label("karpenter.sh/nodepool"),
                label("node.kubernetes.io/instance-type"),
                label("topology.kubernetes.io/zone"),
                label("karpenter.sh/capacity-type"),
                on_it,
            ]);
            nodes.insert(name(&node), told);
        }
        let waits = |pod: &&Value| {
            let owner = &pod["metadata"]["ownerReferences"][0]["kind"];
            pod["spec"]["nodeName"].is_null()
                && pod["metadata"]["deletionTimestamp"].is_null()
                && owner != "DaemonSet"
        };
        let waiting: BTreeSet<String> = pods.iter().filter(waits).map(whole_name).collect();
        let phases: BTreeMap<String, &str> = claims.iter().map(|claim| (name(claim), phase(claim))).collect();
        let pools = self.list("/apis/karpenter.sh/v1/nodepools");
        let limits: BTreeMap<String, Value> =
            pools.iter().map(|pool| (name(pool), json!(pool["spec"]["limits"].as_object()))).collect();
        let deployments = self.list("/apis/apps/v1/namespaces/shop/deployments");
        let workloads: BTreeMap<String, &Value> = deployments
            .iter()
            .map(|deployment| (name(deployment), &deployment["spec"]["replicas"]))
            .collect();
        json!({ "nodes": nodes, "pending": waiting, "claims": phases, "pools": limits, "workloads": workloads })
    }
}

/// The same of a view. A node that has not joined is shown under its claim's name, and is none for the API; of a claim that
/// is to go but does not yet, only Berth knows.
pub(super) fn told_by(view: &Value) -> Value {
    let claims = all(view, "claims");
    let is_there =
        |node: &&Value| !claims.iter().any(|claim| claim["name"] == node["name"] && claim["node"].is_null());
    let phase = |claim: &Value| match &claim["phase"] {
        phase if phase == "Disrupting" => json!("Ready"),
        phase => phase.clone(),
    };
    let nodes: BTreeMap<&str, Value> = all(view, "nodes")
        .iter()
        .filter(is_there)
        .map(|node| {
            let pods: BTreeSet<String> = all(node, "pods").iter().map(named).collect();
            let told = json!([node["pool"], node["instanceType"], node["zone"], node["capacityType"], pods]);
            (text(&node["name"]), told)
        })
        .collect();
    let waiting: BTreeSet<String> = all(view, "pending").iter().map(named).collect();
    let claims: BTreeMap<&str, Value> =
        claims.iter().map(|claim| (text(&claim["name"]), phase(claim))).collect();
    let pools: BTreeMap<&str, Value> = all(view, "pools")
        .iter()
        .map(|pool| {
            let limits = all(pool, "limits").iter();
            let limits: BTreeMap<&str, &Value> =
                limits.map(|limit| (text(&limit["resource"]), &limit["limit"])).collect();
            (text(&pool["name"]), json!(limits))
        })
        .collect();
    let workloads: BTreeMap<&str, &Value> = all(&view["controls"], "workloads")
        .iter()
        .map(|workload| (text(&workload["name"]), &workload["replicas"]))
        .collect();
    json!({ "nodes": nodes, "pending": waiting, "claims": claims, "pools": pools, "workloads": workloads })
}

fn phase(claim: &Value) -> &'static str {
    let holds = |kind: &str| {
        let conditions = all(&claim["status"], "conditions");
        conditions.iter().any(|condition| condition["type"] == kind && condition["status"] == "True")
    };
    if !claim["metadata"]["deletionTimestamp"].is_null() {
        let is_empty = holds("Drained") || text(&claim["status"]["nodeName"]).is_empty();
        return if is_empty { "Terminating" } else { "Draining" };
    }
    let steps = [("Launched", "Launching"), ("Registered", "Registering"), ("Initialized", "Initializing")];
    steps.into_iter().find(|(kind, _)| !holds(kind)).map_or("Ready", |(_, phase)| phase)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn name(object: &Value) -> String {
    text(&object["metadata"]["name"]).to_owned()
}

fn whole_name(object: &Value) -> String {
    named(&object["metadata"])
}

fn named(metadata: &Value) -> String {
    format!("{}/{}", text(&metadata["namespace"]), text(&metadata["name"]))
}
