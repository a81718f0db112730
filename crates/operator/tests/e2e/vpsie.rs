//! VPSie's workflows, from end to end: groups grow and shrink through VPSie's API over TLS.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use berth_api::ClassKind;
use berth_cloud::vpsie::{Family, TlsFloor, TlsSettings, TlsTransport};
use berth_operator::{Operator, Settings};
use berth_world::vpsie::Deed;
use futures::AsyncBufReadExt;
use http::{Method, Request};
use kube::api::WatchParams;
use serde_json::{Value, json};

use crate::account::{self, GROUPS, NODES as VPSIE_NODES, group, suited};
use crate::stage::{DEPLOYMENTS, NODES, Stage, deployment};
use crate::yard::Yard;

fn operator(stage: &Stage, yard: &Yard) -> Operator {
    let settings = Settings::default();
    let tls = TlsSettings { floor: TlsFloor::Tls13, extra_roots: Some(yard.served.authority().to_owned()) };
    let transport = Arc::new(TlsTransport::new(&tls).expect("a transport"));
    let access = account::access(Family::Managed, "kube-system", "berth");
    let (cluster, clock) = (stage.cluster(), stage.clock.clone());
    let cloud = berth_operator::vpsie_cloud(&cluster, access, transport, &clock, &settings.metrics);
    let clouds = BTreeMap::from([(ClassKind::Vpsie, cloud)]);
    Operator::new(cluster, clouds, clock, settings, berth_operator::alone(1))
}

pub(crate) async fn played(stage: &Stage) {
    let yard = Yard::open().await;
    yard.sign(stage).await;
    let play = async {
        stage.apply(GROUPS, workers(0)).await;
        grows(stage, &yard).await;
        shrinks(stage, &yard).await;
        goes(stage, &yard).await;
    };
    tokio::select! {
        biased;
        () = yard.kubelets(stage) => {}
        () = operator(stage, &yard).run() => {}
        () = play => {}
    }
}

fn workers(nodes_min: u32) -> Value {
    group("workers", |group| {
        group["spec"]["minNodes"] = json!(nodes_min);
        group["spec"]["offeringIDs"] = json!(["big"]);
        group["spec"]["scaleDownPolicy"] = json!({ "stabilizationWindowSeconds": 5, "cooldownSeconds": 5 });
    })
}

/// Six of these have room on a node.
fn web(replicas: u32) -> Value {
    suited(deployment("web", replicas, "1200m"))
}

async fn grows(stage: &Stage, yard: &Yard) {
    let vpsie = &yard.vpsie;
    stage
        .until(60, "the group is looked at", async || {
            !stage.ask(Method::GET, &format!("{GROUPS}/workers"), None).await["status"].is_null()
        })
        .await;
    let began = Instant::now();
    stage.apply(DEPLOYMENTS, web(30)).await;
    stage.until(60, "a machine is asked for", async || vpsie.calls(Deed::Create) >= 1).await;
    eprintln!("from pending pods to the create call, looked at five times a second: {:?}", began.elapsed());
    // No machine joins before five have been asked for.
    stage.until(60, "five are asked for at once", async || vpsie.calls(Deed::Create) == 5).await;
    yard.let_in();
    stage.until(120, "30 pods run", async || stage.running().await == 30).await;
    stage.until(60, "all nodes are ready", async || ready(stage).await == 5).await;
    assert_eq!((stage.count(VPSIE_NODES).await, stage.count(NODES).await), (5, 5));
    assert_eq!((vpsie.calls(Deed::Create), alive(yard)), (5, 5));
    let expected = [("Name", json!("workers")), ("Min", json!(0)), ("Max", json!(10))];
    let counts = ["Desired", "Current", "Ready"].map(|name| (name, json!(5)));
    stage
        .until(30, "the table says so", async || {
            let table = table(stage, GROUPS).await;
            expected.iter().chain(&counts).all(|(name, cell)| table[0].get(*name) == Some(cell))
        })
        .await;
    for row in table(stage, VPSIE_NODES).await {
        let cells = ["Phase", "Instance Type", "NodeGroup"].map(|name| row[name].clone());
        assert_eq!(cells, ["Ready", "big", "workers"].map(Value::from), "{row:?}");
        assert!(row["Node"].as_str().is_some_and(|node| !node.is_empty()), "{row:?}");
    }
}

async fn shrinks(stage: &Stage, yard: &Yard) {
    stage.apply(GROUPS, workers(1)).await;
    let seen = RefCell::new(Seen::default());
    let shrinking = async {
        for (replicas, running) in [(4, 4), (0, 0)] {
            stage.scale("web", replicas).await;
            stage
                .until(240, "one node is left", async || {
                    let left = (stage.count(VPSIE_NODES).await, stage.count(NODES).await, alive(yard));
                    assert!(left.2 >= 1, "the minimum is one");
                    left == (1, 1, 1) && stage.running().await == running
                })
                .await;
        }
    };
    tokio::select! {
        () = watched(stage, VPSIE_NODES, &seen) => {}
        () = watched(stage, NODES, &seen) => {}
        () = shrinking => {}
    }
    let Seen { phases, closed } = seen.into_inner();
    assert!(["Terminating", "Deleting"].iter().all(|phase| phases.contains(*phase)), "{phases:?}");
    assert_eq!(closed.len(), 4, "nodes take no pods before they go: {closed:?}");
    assert_eq!(yard.vpsie.calls(Deed::Create), 5, "and none is bought on the way");
}

/// A group that is deleted goes after its nodes.
async fn goes(stage: &Stage, yard: &Yard) {
    stage.delete(GROUPS, "workers").await;
    stage
        .until(120, "nothing is left", async || {
            stage.count(GROUPS).await == 0
                && stage.count(VPSIE_NODES).await == 0
                && stage.count(NODES).await == 0
                && alive(yard) == 0
        })
        .await;
    assert!(yard.vpsie.most_calls_in_a_minute() <= 100);
}

async fn ready(stage: &Stage) -> usize {
    let nodes = stage.list(VPSIE_NODES).await;
    nodes.iter().filter(|node| node["status"]["phase"] == "Ready").count()
}

fn alive(yard: &Yard) -> usize {
    let is_alive = |account: &berth_world::cloud::Account| {
        account.records().iter().filter(|record| record.is_alive()).count()
    };
    yard.vpsie.cloud().inspect(is_alive)
}

/// What kubectl shows of these objects: the cells of each row by the names of their columns.
async fn table(stage: &Stage, path: &str) -> Vec<BTreeMap<String, Value>> {
    let request = Request::get(path).header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
    let table: Value =
        stage.client.request(request.body(Vec::new()).expect("a request")).await.expect("a table");
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let columns: Vec<String> = list(&table["columnDefinitions"])
        .iter()
        .map(|column| column["name"].as_str().unwrap_or_default().to_owned())
        .collect();
    let row = |row: &Value| columns.iter().cloned().zip(list(&row["cells"])).collect();
    list(&table["rows"]).iter().map(row).collect()
}

/// What nodes went through, whether or not anybody looked at the time.
#[derive(Default)]
struct Seen {
    phases: BTreeSet<String>,
    /// Nodes that took no pods any more.
    closed: BTreeSet<String>,
}

async fn watched(stage: &Stage, path: &str, seen: &RefCell<Seen>) {
    loop {
        let request = kube::core::Request::new(path).watch(&WatchParams::default(), "0").expect("a request");
        let stream = stage.client.request_stream(request).await.expect("a watch");
        futures::pin_mut!(stream);
        let mut line = Vec::new();
        // It ends after some minutes.
        while stream.read_until(b'\n', &mut line).await.expect("an event") > 0 {
            let event: Value = serde_json::from_slice(&line).unwrap_or_default();
            seen.borrow_mut().take(&event["object"]);
            line.clear();
        }
    }
}

impl Seen {
    fn take(&mut self, object: &Value) {
        if let Some(phase) = object["status"]["phase"].as_str() {
            self.phases.insert(phase.to_owned());
        }
        let taints = object["spec"]["taints"].as_array();
        if taints.into_iter().flatten().any(|taint| taint["key"] == "karpenter.sh/disrupted") {
            self.closed.insert(object["metadata"]["name"].as_str().unwrap_or_default().to_owned());
        }
    }
}
