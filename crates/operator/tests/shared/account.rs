//! An account at VPSie that tests buy from, and the objects that have Berth do so.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use berth_api::Timestamp;
use berth_cloud::vpsie::Family;
use berth_cloud::{CatalogOptions, import};
use berth_operator::{VpsieAccess, Whereabouts};
use berth_world::cloud::weather::Weather;
use berth_world::cloud::{Account, SimulatedCloud};
use berth_world::vpsie::{Faults, Vpsie, VpsieSettings};
use serde_json::{Value, json};

pub(crate) const CLUSTER: &str = "c-1";
/// In every secret: it must be seen nowhere.
pub(crate) const SECRET: &str = "canary+5ecret&x=y";
/// Where VPSie is for those who are in its process.
pub(crate) const URL: &str = "https://vpsie.test/v2";
pub(crate) const DATACENTER: &str = "dc-1";
pub(crate) const OFFERS: &str = r#"[
    {"id": "1", "name": "big", "cpu": 8, "ram": 16384, "disk": 160, "hourly_price": 0.2, "datacenter_id": "dc-1"},
    {"id": "2", "name": "small", "cpu": 2, "ram": 4096, "disk": 80, "hourly_price": 0.05, "datacenter_id": "dc-1"}]"#;

pub(crate) const GROUPS: &str = "/apis/autoscaler.vpsie.com/v1alpha1/namespaces/kube-system/nodegroups";
pub(crate) const NODES: &str = "/apis/autoscaler.vpsie.com/v1alpha1/namespaces/kube-system/vpsienodes";

pub(crate) fn vpsie(offers: &str, weather: Weather, seed: u64, faults: Faults, now: Timestamp) -> Vpsie {
    let catalog = import(offers, "vpsie", &CatalogOptions::default()).expect("offers");
    let account = Account::new(Arc::new(catalog), weather, seed, now).with_provider_ids("vpsie", CLUSTER);
    let settings = VpsieSettings {
        cluster: CLUSTER.into(),
        datacenter: DATACENTER.into(),
        client_id: "id".into(),
        client_secret: SECRET.into(),
        token: SECRET.into(),
        tokens_last: Duration::from_hours(1),
        asynchronous: true,
    };
    Vpsie::new(SimulatedCloud::new(account), settings, faults)
}

/// By the Secret of a namespace, as this process.
pub(crate) fn access(family: Family, namespace: &str, process: &str) -> VpsieAccess {
    VpsieAccess {
        secret_namespace: namespace.to_owned(),
        secret_name: "vpsie-secret".to_owned(),
        family,
        cluster: None,
        datacenter: Some(DATACENTER.into()),
        kubernetes_version: None,
        whereabouts: Whereabouts::default(),
        process: process.to_owned(),
    }
}

/// Who Berth is at VPSie, and where that is.
pub(crate) fn secret(namespace: &str, url: &str, client_secret: &str) -> Value {
    let pairs =
        [("clientId", "id"), ("clientSecret", client_secret), ("url", url), ("resourceIdentifier", CLUSTER)];
    let data: BTreeMap<&str, String> =
        pairs.into_iter().map(|(key, value)| (key, STANDARD.encode(value))).collect();
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": { "name": "vpsie-secret", "namespace": namespace }, "data": data,
    })
}

pub(crate) fn group(name: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut group = json!({
        "apiVersion": "autoscaler.vpsie.com/v1alpha1", "kind": "NodeGroup",
        "metadata": {
            "name": name, "namespace": "kube-system", "labels": { "autoscaler.vpsie.com/managed": "true" },
        },
        "spec": {
            "minNodes": 0, "maxNodes": 10, "datacenterID": DATACENTER, "offeringIDs": ["big", "small"],
            "resourceIdentifier": CLUSTER, "project": "p-1", "kubernetesVersion": "v1.34.0",
            "labels": { "team": "quay" },
            "taints": [{ "key": "dedicated", "value": "quay", "effect": "NoSchedule" }],
            "scaleDownPolicy": { "stabilizationWindowSeconds": 60, "cooldownSeconds": 60 },
        },
    });
    change(&mut group);
    group
}

/// A workload whose pods only go where the group's nodes are.
pub(crate) fn suited(mut workload: Value) -> Value {
    let pods = &mut workload["spec"]["template"]["spec"];
    pods["nodeSelector"] = json!({ "team": "quay" });
    pods["tolerations"] = json!([{ "key": "dedicated", "operator": "Exists" }]);
    workload
}
