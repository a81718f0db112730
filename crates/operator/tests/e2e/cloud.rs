//! What the cloud whose machines are nodes does, on any cluster.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use berth_cloud::Cloud;
use berth_cloud::machine::{Machine, MachineId, MachineState, Order, Token};
use berth_cloud::provider::{Launched, Refusal, list_all};
use berth_core::catalog::CapacityType;
use berth_core::names::Labels;
use berth_core::plan::Alternative;
use berth_core::pod::{Taint, TaintEffect};
use berth_core::units::Price;
use http::Method;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::stage::{CLAIMS, CLASSES, NODES, Stage, class};

async fn order(stage: &Stage, name: &str, class: &str, types: &[&str]) -> Order {
    let claim = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": { "name": name },
        "spec": {
            "nodeClassRef": { "group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": class },
            "requirements": [{ "key": "kubernetes.io/os", "operator": "In", "values": ["linux"] }],
        },
    });
    let claim = stage.apply(CLAIMS, claim).await;
    let uid = claim["metadata"]["uid"].as_str().expect("a uid");
    let offering = |instance_type: &&str| Alternative {
        instance_type: (*instance_type).into(),
        zone: "test-zone-b".into(),
        capacity_type: CapacityType::Spot,
        price_per_hour: Price::ZERO,
    };
    Order {
        labels: Arc::new(Labels::from([("karpenter.sh/nodepool".into(), "default".into())])),
        taints: Arc::new([
            Taint::new("team", "quay", TaintEffect::NoSchedule),
            Taint::new("karpenter.sh/unregistered", "", TaintEffect::NoExecute),
        ]),
        tags: Labels::from([("berth.dev/cluster".into(), "https://127.0.0.1:6443".into())]),
        ..Order::new(
            Token::parse(uid).expect("a token"),
            name,
            "default",
            types.iter().map(offering).collect(),
        )
    }
}

async fn bought(cloud: &dyn Cloud, order: &Order) -> Machine {
    match cloud.launch(order).await {
        Ok(Launched::Machine { machine, .. }) => machine,
        other => panic!("{other:?}"),
    }
}

async fn listed(cloud: &dyn Cloud) -> BTreeMap<MachineId, Machine> {
    let listing = list_all(cloud).await;
    assert_eq!(listing.stopped_by, None);
    listing.machines
}

pub(crate) async fn behaves(stage: &Stage) {
    stage.apply(CLASSES, class("default", &json!({}))).await;
    stage.apply(CLASSES, class("slow", &json!({ "nodeRegistrationDelay": "3s" }))).await;
    machines_are_nodes(stage).await;
    tokens_are_kept(stage).await;
    machines_end(stage).await;
    machines_take_their_time(stage).await;
}

async fn machines_are_nodes(stage: &Stage) {
    let cloud = stage.cloud();
    let order = order(stage, "shape", "default", &["no-such-type", "s-4x-arm64-linux"]).await;
    let Ok(Launched::Machine { machine, passed_over }) = cloud.launch(&order).await else {
        panic!("no machine")
    };
    assert_eq!(passed_over.len(), 1, "{passed_over:?}");
    assert_eq!((&*machine.instance_type, &*machine.price.to_string()), ("s-4x-arm64-linux", "0.082026"));
    assert_eq!(&*machine.provider_id, format!("kwok://{}", machine.id));
    assert_eq!(machine.token, Some(order.token.clone()));
    let node = stage.ask(Method::GET, &format!("{NODES}/{}", machine.id), None).await;
    for (key, value) in [
        ("eks-node-viewer/instance-price", "0.082026"),
        ("karpenter.kwok.sh/instance-cpu", "4"),
        ("karpenter.kwok.sh/instance-family", "s"),
        ("karpenter.kwok.sh/instance-memory", "16Gi"),
        ("karpenter.kwok.sh/instance-size", "4"),
        ("karpenter.sh/capacity-type", "spot"),
        ("karpenter.sh/nodepool", "default"),
        ("kubernetes.io/arch", "arm64"),
        ("kubernetes.io/hostname", "shape"),
        ("kubernetes.io/os", "linux"),
        ("kwok.x-k8s.io/node", "fake"),
        ("node.kubernetes.io/instance-type", "s-4x-arm64-linux"),
        ("topology.kubernetes.io/zone", "test-zone-b"),
    ] {
        assert_eq!(node["metadata"]["labels"][key], value, "{key}");
    }
    assert_eq!(node["metadata"]["annotations"]["kwok.x-k8s.io/node"], "fake");
    assert_eq!(node["spec"]["providerID"], *machine.provider_id);
    let taints = node["spec"]["taints"].as_array().expect("taints");
    let has = |key: &str, effect: &str| taints.iter().any(|t| t["key"] == key && t["effect"] == effect);
    assert!(has("karpenter.sh/unregistered", "NoExecute") && has("team", "NoSchedule"), "{taints:?}");
    let expected = json!({ "cpu": "3900m", "memory": "16374Mi", "pods": "64", "ephemeral-storage": "20Gi" });
    assert_eq!(node["status"]["allocatable"], expected);
    assert_eq!(node["status"]["capacity"]["cpu"], "4");
    let told = cloud.get(&machine.id).await.expect("a machine");
    assert_eq!(told, machine);
    assert_eq!(listed(&*cloud).await.get(&machine.id), Some(&machine));
    for types in [&["no-such-type"][..], &["s-4x", "no-such-type"]] {
        let order = Order { token: Token::parse("other").expect("a token"), ..order.clone() };
        let refused = cloud.launch(&order).await;
        assert!(matches!(refused, Err(Refusal::Invalid(_))), "another's claim: {types:?}: {refused:?}");
    }
    cloud.terminate(&machine.id).await.expect("it ends");
}

async fn tokens_are_kept(stage: &Stage) {
    let cloud = stage.cloud();
    let order = order(stage, "token", "default", &["c-1x-amd64-linux"]).await;
    let machine = bought(&*cloud, &order).await;
    let mut other = order.clone();
    other.offerings[0].instance_type = "c-2x-amd64-linux".into();
    assert_eq!(bought(&*cloud, &other).await, machine);
    // Nothing is kept outside the cluster: another one that looks at it is the same cloud.
    assert_eq!(bought(&*stage.cloud(), &order).await, machine);
    stage.delete(CLAIMS, "token").await;
    assert_eq!(bought(&*cloud, &order).await, machine, "also when its claim goes");
    cloud.terminate(&machine.id).await.expect("it ends");
    let refused = cloud.launch(&order).await;
    assert!(
        matches!(refused, Err(Refusal::Invalid(_))),
        "nothing is bought for a claim that is gone: {refused:?}"
    );
    let none = self::order(stage, "none", "default", &["no-such-type"]).await;
    assert!(matches!(cloud.launch(&none).await, Err(Refusal::Unavailable(lacking)) if lacking.len() == 1));
}

async fn machines_end(stage: &Stage) {
    let cloud = stage.cloud();
    let order = order(stage, "end", "default", &["c-1x-amd64-linux"]).await;
    let machine = bought(&*cloud, &order).await;
    let held = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": machine.id.as_str(), "finalizers": ["karpenter.sh/termination"] },
    });
    stage.apply(NODES, held.clone()).await;
    // Somebody deletes the node: its machine stays until it is ended.
    stage.delete(NODES, machine.id.as_str()).await;
    assert_eq!(cloud.get(&machine.id).await.map(|machine| machine.state), Ok(MachineState::Running));
    cloud.terminate(&machine.id).await.expect("it ends");
    let not_found = Err(Refusal::NotFound(machine.id.clone()));
    assert_eq!(cloud.terminate(&machine.id).await, not_found.clone());
    assert_eq!(cloud.get(&machine.id).await.map(drop), not_found.clone());
    assert!(!listed(&*cloud).await.contains_key(&machine.id));
    assert_eq!(bought(&*cloud, &order).await.state, MachineState::Gone);
    let mut freed = held;
    freed["metadata"]["finalizers"] = json!([]);
    stage.apply(NODES, freed).await;
    stage
        .until(10, "the node is gone", async || !stage.names(NODES).await.contains(&machine.id.to_string()))
        .await;
    assert_eq!(cloud.terminate(&machine.id).await, not_found);
    // A node that somebody else made is none of its machines.
    stage
        .apply(NODES, json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "stranger" } }))
        .await;
    assert_eq!(cloud.terminate(&"stranger".into()).await, Err(Refusal::NotFound("stranger".into())));
    assert_eq!(stage.ask(Method::GET, &format!("{NODES}/stranger"), None).await["kind"], Value::from("Node"));
    stage.delete(NODES, "stranger").await;
}

async fn machines_take_their_time(stage: &Stage) {
    let cloud = stage.cloud();
    let first = order(stage, "slow-1", "slow", &["c-1x-amd64-linux"]).await;
    let second = order(stage, "slow-2", "slow", &["c-1x-amd64-linux"]).await;
    let (machine, given_up) = (bought(&*cloud, &first).await, bought(&*cloud, &second).await);
    assert_eq!(machine.state, MachineState::Pending);
    assert_eq!(bought(&*cloud, &first).await, machine);
    assert!(listed(&*cloud).await.contains_key(&machine.id));
    assert!(!stage.names(NODES).await.contains(&machine.id.to_string()));
    cloud.terminate(&given_up.id).await.expect("it ends");
    stage
        .until(30, "the machine joins", async || stage.names(NODES).await.contains(&machine.id.to_string()))
        .await;
    sleep(Duration::from_secs(2)).await;
    assert!(!stage.names(NODES).await.contains(&given_up.id.to_string()), "it ended before it joined");
    assert_eq!(cloud.get(&machine.id).await.map(|machine| machine.state), Ok(MachineState::Running));
    cloud.terminate(&machine.id).await.expect("it ends");
}
