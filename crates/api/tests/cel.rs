//! The CEL rules of the definitions, run on objects as the API server runs them.

#![expect(clippy::unwrap_used, reason = "a test's harness may fail the test")]

use std::sync::LazyLock;

use berth_api::crds;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_cel::Validator;
use serde_json::{Value, json};

static CRDS: LazyLock<Vec<CustomResourceDefinition>> = LazyLock::new(crds::all);

/// The messages of the rules that `object` breaks, coming from `old` if it is an update.
fn broken(kind: &str, object: &Value, old: Option<&Value>) -> Vec<String> {
    let crd = CRDS.iter().find(|crd| crd.spec.names.kind == kind).unwrap();
    let schema = serde_json::to_value(&crd.spec.versions[0].schema).unwrap();
    match Validator::new().validate(&schema["openAPIV3Schema"], object, old) {
        Ok(()) => Vec::new(),
        Err(errors) => errors.into_vec().into_iter().map(|error| error.message).collect(),
    }
}

/// `object` with the fields of `change` laid over it; null takes a field away.
fn changed(object: &Value, change: &Value) -> Value {
    match (object, change) {
        (Value::Object(fields), Value::Object(changes)) => {
            let mut merged = fields.clone();
            for (name, change) in changes {
                if change.is_null() {
                    merged.remove(name);
                } else {
                    let value = changed(fields.get(name).unwrap_or(&Value::Null), change);
                    merged.insert(name.clone(), value);
                }
            }
            Value::Object(merged)
        }
        _ => change.clone(),
    }
}

fn check(kind: &str, base: &Value, rows: &[(Value, Option<&str>)]) {
    assert_eq!(broken(kind, base, None), Vec::<String>::new(), "{kind} as it is");
    for (change, expected) in rows {
        let found = broken(kind, &changed(base, change), None);
        match expected {
            None => assert!(found.is_empty(), "{kind} {change}: {found:?}"),
            Some(message) => assert_eq!(found, [*message], "{kind} {change}"),
        }
    }
}

fn check_updates(kind: &str, base: &Value, rows: &[(Value, Value, Option<&str>)]) {
    for (before, after, expected) in rows {
        let found = broken(kind, &changed(base, after), Some(&changed(base, before)));
        match expected {
            None => assert!(found.is_empty(), "{kind} {before} to {after}: {found:?}"),
            Some(message) => assert_eq!(found, [*message], "{kind} {before} to {after}"),
        }
    }
}

fn node_pool() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "x"},
        "spec": {"template": {"spec": {
            "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}],
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
        }}},
    })
}

#[test]
fn node_pool_rules() {
    let requirement =
        |requirement: Value| json!({"spec": {"template": {"spec": {"requirements": [requirement]}}}});
    let labels = |labels: Value| json!({"spec": {"template": {"metadata": {"labels": labels}}}});
    let budget = |budget: Value| json!({"spec": {"disruption": {"budgets": [budget]}}});
    let class = |class: Value| json!({"spec": {"template": {"spec": {"nodeClassRef": class}}}});
    let spec = |spec: Value| json!({ "spec": spec });
    let domain = "labels of the domain karpenter.sh belong to the autoscaler, except karpenter.sh/capacity-type and karpenter.sh/nodepool";
    let label_domain =
        "labels of the domain karpenter.sh belong to the autoscaler, except karpenter.sh/capacity-type";
    let number = "the operators Gt, Lt, Gte and Lte take exactly one whole number, not negative";
    check(
        "NodePool",
        &node_pool(),
        &[
            (requirement(json!({"key": "team", "operator": "Exists"})), None),
            (
                requirement(
                    json!({"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}),
                ),
                None,
            ),
            (
                requirement(
                    json!({"key": "karpenter.kwok.sh/instance-cpu", "operator": "Gt", "values": ["3"]}),
                ),
                None,
            ),
            (requirement(json!({"key": "node.kubernetes.io/x", "operator": "NotIn", "values": ["3"]})), None),
            (requirement(json!({"key": "a", "operator": "In", "values": ["b", "c"], "minValues": 2})), None),
            (requirement(json!({"key": "a", "operator": "Exists", "minValues": 2})), None),
            (
                requirement(json!({"key": "a", "operator": "In", "values": []})),
                Some("the operator In needs at least one value"),
            ),
            (
                requirement(json!({"key": "a", "operator": "In"})),
                Some("the operator In needs at least one value"),
            ),
            (requirement(json!({"key": "a", "operator": "Gt", "values": ["1", "2"]})), Some(number)),
            (requirement(json!({"key": "a", "operator": "Lte", "values": ["-1"]})), Some(number)),
            (requirement(json!({"key": "a", "operator": "Gte"})), Some(number)),
            (
                requirement(json!({"key": "a", "operator": "In", "values": ["b"], "minValues": 2})),
                Some("minValues asks for more values than are listed"),
            ),
            (
                requirement(json!({"key": "karpenter.sh/nodepool", "operator": "Exists"})),
                Some("a pool's nodes always carry its own name as karpenter.sh/nodepool"),
            ),
            (requirement(json!({"key": "karpenter.sh/initialized", "operator": "Exists"})), Some(domain)),
            (requirement(json!({"key": "x.karpenter.sh/y", "operator": "Exists"})), Some(domain)),
            (
                requirement(json!({"key": "kubernetes.io/hostname", "operator": "Exists"})),
                Some("a node's hostname cannot be required"),
            ),
            (labels(json!({"team": "shop", "karpenter.sh/capacity-type": "spot"})), None),
            (labels(json!({"notkarpenter.sh/x": "y"})), None),
            (labels(json!({"karpenter.sh/nodepool": "x"})), Some(label_domain)),
            (labels(json!({"kubernetes.io/hostname": "x"})), Some("each node has its own hostname")),
            (budget(json!({"nodes": "0", "schedule": "@daily", "duration": "8h"})), None),
            (budget(json!({"nodes": "0", "schedule": "@daily"})), Some("schedule and duration go together")),
            (budget(json!({"nodes": "0", "duration": "8h"})), Some("schedule and duration go together")),
            (class(json!({"group": ""})), Some("a node class has a group")),
            (class(json!({"kind": ""})), Some("a node class has a kind")),
            (class(json!({"name": ""})), Some("a node class has a name")),
            (spec(json!({"weight": 5, "limits": {"cpu": "5"}})), None),
            (spec(json!({"replicas": 3})), None),
            (spec(json!({"replicas": 3, "limits": {}})), None),
            (spec(json!({"replicas": 3, "limits": {"nodes": "5"}})), None),
            (
                spec(json!({"replicas": 3, "limits": {"cpu": "5"}})),
                Some("a pool with replicas can be limited in nodes only"),
            ),
            (
                spec(json!({"replicas": 3, "limits": {"nodes": "5", "cpu": "5"}})),
                Some("a pool with replicas can be limited in nodes only"),
            ),
            (spec(json!({"replicas": 3, "weight": 5})), Some("a pool with replicas has no weight")),
        ],
    );
    check_updates(
        "NodePool",
        &node_pool(),
        &[
            (json!({}), spec(json!({"weight": 3})), None),
            (spec(json!({"replicas": 1})), spec(json!({"replicas": 2})), None),
            (
                json!({}),
                spec(json!({"replicas": 2})),
                Some("replicas can be neither added to nor removed from a pool"),
            ),
            (
                spec(json!({"replicas": 2})),
                json!({}),
                Some("replicas can be neither added to nor removed from a pool"),
            ),
            (json!({}), class(json!({"name": "other"})), None),
            (
                json!({}),
                class(json!({"kind": "EC2NodeClass"})),
                Some("the kind of a node class cannot be changed"),
            ),
            (
                json!({}),
                class(json!({"group": "karpenter.k8s.aws"})),
                Some("the group of a node class cannot be changed"),
            ),
        ],
    );
}

#[test]
fn node_claim_rules() {
    let claim = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "x"},
        "spec": {
            "requirements": [{"key": "karpenter.sh/nodepool", "operator": "In", "values": ["a"]}],
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
        },
    });
    check("NodeClaim", &claim, &[]);
    check_updates(
        "NodeClaim",
        &claim,
        &[
            (json!({}), json!({"status": {"nodeName": "n"}}), None),
            (json!({}), json!({"spec": {"expireAfter": "1h"}}), Some("a claim's spec cannot be changed")),
        ],
    );
}

#[test]
fn node_overlay_rules() {
    let overlay = json!({
        "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": "x"},
        "spec": {"requirements": [{"key": "karpenter.sh/nodepool", "operator": "In", "values": ["a"]}]},
    });
    let spec = |spec: Value| json!({ "spec": spec });
    check(
        "NodeOverlay",
        &overlay,
        &[
            (spec(json!({"price": "0.5"})), None),
            (spec(json!({"priceAdjustment": "+10%", "capacity": {"example.com/gpu": "1"}})), None),
            (
                spec(json!({"price": "0.5", "priceAdjustment": "+10%"})),
                Some("set price or priceAdjustment, not both"),
            ),
            (
                spec(json!({"capacity": {"cpu": "1"}})),
                Some("an overlay cannot change cpu, memory, ephemeral-storage or pods"),
            ),
            (
                spec(json!({"requirements": [{"key": "a", "operator": "NotIn"}]})),
                Some("the operators In and NotIn need at least one value"),
            ),
        ],
    );
}

#[test]
fn ec2_node_class_rules() {
    let class = json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "x"},
        "spec": {
            "role": "node", "subnetSelectorTerms": [{"tags": {"a": "b"}}],
            "securityGroupSelectorTerms": [{"id": "sg-1"}], "amiSelectorTerms": [{"alias": "al2023@latest"}],
        },
    });
    let spec = |spec: Value| json!({ "spec": spec });
    check(
        "EC2NodeClass",
        &class,
        &[
            (spec(json!({"amiFamily": "AL2023"})), None),
            (spec(json!({"amiFamily": "Custom"})), None),
            (spec(json!({"amiFamily": "AL2"})), Some("amiFamily must be the family of the alias, or Custom")),
            (spec(json!({"amiFamily": "AL2", "amiSelectorTerms": [{"id": "ami-1"}, {"name": "n"}]})), None),
            (
                spec(json!({"amiSelectorTerms": [{"id": "ami-1"}]})),
                Some("amiFamily is needed where no AMI is selected by alias"),
            ),
            (spec(json!({"role": null, "instanceProfile": "p"})), None),
            (spec(json!({"instanceProfile": "p"})), Some("set exactly one of role and instanceProfile")),
            (spec(json!({"role": null})), Some("set exactly one of role and instanceProfile")),
            (spec(json!({"subnetSelectorTerms": [{}]})), Some("each term needs tags or an id")),
            (
                spec(json!({"subnetSelectorTerms": [{"id": "subnet-1", "tags": {"a": "b"}}]})),
                Some("a term with an id has nothing else"),
            ),
            (spec(json!({"subnetSelectorTerms": [{"tags": {"a": ""}}]})), Some("tags have keys and values")),
            (
                spec(json!({"amiSelectorTerms": [{"alias": "windows2022@v1"}]})),
                Some("the windows families have no version but latest"),
            ),
            (
                spec(json!({"amiSelectorTerms": [{"alias": "al2023@latest"}, {"id": "ami-1"}]})),
                Some("a term with an alias is the only one"),
            ),
            (spec(json!({"placementGroupSelector": {}})), Some("set exactly one of name and id")),
            (
                spec(json!({"blockDeviceMappings": [{"rootVolume": true}, {"rootVolume": true}]})),
                Some("at most one disk is the root volume"),
            ),
            (spec(json!({"blockDeviceMappings": [{"ebs": {}}]})), Some("set snapshotID or volumeSize")),
            (
                spec(json!({"kubelet": {"evictionSoft": {"memory.available": "1Gi"}}})),
                Some("each signal of evictionSoft needs an evictionSoftGracePeriod"),
            ),
            (
                spec(json!({"kubelet": {"kubeReserved": {"gpu": "1"}}})),
                Some("only cpu, memory, ephemeral-storage and pid can be reserved"),
            ),
            (
                spec(
                    json!({"kubelet": {"imageGCHighThresholdPercent": 50, "imageGCLowThresholdPercent": 50}}),
                ),
                Some("imageGCHighThresholdPercent must be above imageGCLowThresholdPercent"),
            ),
        ],
    );
}

#[test]
fn capacity_buffer_rules() {
    let buffer = json!({
        "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer", "metadata": {"name": "x"},
        "spec": {"podTemplateRef": {"name": "web"}, "replicas": 3},
    });
    let spec = |spec: Value| json!({ "spec": spec });
    check(
        "CapacityBuffer",
        &buffer,
        &[
            (spec(json!({"replicas": null, "limits": {"cpu": "3"}})), None),
            (
                spec(json!({"podTemplateRef": null, "scalableRef": {"kind": "Deployment", "name": "web"}})),
                None,
            ),
            (spec(json!({"replicas": null})), Some("with podTemplateRef, set replicas or limits too")),
            (
                spec(json!({"scalableRef": {"kind": "Deployment", "name": "web"}})),
                Some("set podTemplateRef or scalableRef, not both"),
            ),
        ],
    );
}

#[test]
fn node_group_rules() {
    let group = json!({
        "apiVersion": "autoscaler.vpsie.com/v1alpha1", "kind": "NodeGroup", "metadata": {"name": "x"},
        "spec": {
            "minNodes": 1, "maxNodes": 3, "datacenterID": "dc", "offeringIDs": ["a"],
            "resourceIdentifier": "c", "project": "p", "kubernetesVersion": "v1.34.0",
        },
    });
    let spec = |spec: Value| json!({ "spec": spec });
    let taint = |key: &str| json!([{"key": key, "effect": "NoSchedule"}]);
    check(
        "NodeGroup",
        &group,
        &[
            (spec(json!({"minNodes": 3})), None),
            (spec(json!({"minNodes": 4})), Some("minNodes must not be above maxNodes")),
            (spec(json!({"labels": {"team": "shop", "node.kubernetes.io/x": "y"}})), None),
            (
                spec(json!({"labels": {"kubernetes.io/arch": "amd64"}})),
                Some("labels of kubernetes.io and k8s.io belong to Kubernetes"),
            ),
            (spec(json!({"taints": taint("gpu")})), None),
            (
                spec(json!({"taints": taint("k8s.io/x")})),
                Some("taints of kubernetes.io and k8s.io belong to Kubernetes"),
            ),
        ],
    );
}

#[test]
fn vpsie_node_class_rules() {
    let class = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "VPSieNodeClass", "metadata": {"name": "x"}, "spec": {},
    });
    check(
        "VPSieNodeClass",
        &class,
        &[
            (json!({"spec": {"tags": ["quay", "team=harbour"]}}), None),
            (
                json!({"spec": {"tags": ["quay", "berth.dev/claim-uid=x"]}}),
                Some("tags of berth.dev are set by Berth itself"),
            ),
        ],
    );
}

#[test]
fn vpsie_node_rules() {
    let node = json!({
        "apiVersion": "autoscaler.vpsie.com/v1alpha1", "kind": "VPSieNode", "metadata": {"name": "x"},
        "spec": {
            "vpsieInstanceID": 0, "instanceType": "small", "nodeGroupName": "web", "datacenterID": "a",
            "resourceIdentifier": "c", "project": "p", "kubernetesVersion": "v1.34.0",
        },
    });
    check("VPSieNode", &node, &[]);
    let spec = |spec: Value| json!({ "spec": spec });
    let same = json!({});
    check_updates(
        "VPSieNode",
        &node,
        &[
            (same.clone(), spec(json!({"nodeGroupName": "db"})), Some("nodeGroupName cannot be changed")),
            (
                same,
                spec(json!({"vpsieInstanceID": 7, "vpsieNodeIdentifier": "7", "datacenterID": "b"})),
                None,
            ),
            (
                spec(json!({"vpsieInstanceID": 7})),
                spec(json!({"vpsieInstanceID": 8})),
                Some("vpsieInstanceID cannot be changed once there is a machine"),
            ),
            (
                spec(json!({"vpsieNodeIdentifier": "n-1"})),
                spec(json!({"vpsieNodeIdentifier": null})),
                Some("vpsieNodeIdentifier cannot be changed once there is a machine"),
            ),
            (
                spec(json!({"vpsieNodeIdentifier": "n-1"})),
                spec(json!({"vpsieNodeIdentifier": "n-1", "datacenterID": "b"})),
                Some("datacenterID cannot be changed once there is a machine"),
            ),
            (
                spec(json!({"vpsieInstanceID": 7})),
                spec(json!({"vpsieInstanceID": 7, "datacenterID": "b"})),
                Some("datacenterID cannot be changed once there is a machine"),
            ),
        ],
    );
}
