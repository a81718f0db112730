//! Manifests as people write them: the smallest of each kind with its defaults, and what is refused.

#![expect(clippy::unwrap_used, reason = "a test's harness may fail the test")]

use berth_api::resources::berth::VPSieNodeClass;
use berth_api::resources::buffer::CapacityBuffer;
use berth_api::resources::gardener::{ScalingAdvice, ScalingConstraint, ScalingFeedback};
use berth_api::resources::karpenter::{NodeClaim, NodeOverlay, NodePool};
use berth_api::resources::nodeclass::{EC2NodeClass, KWOKNodeClass};
use berth_api::resources::shared::is_true;
use berth_api::resources::vpsie::{AutoscalerConfig, NodeGroup, VPSieNode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Reads a manifest of one kind and writes it again, or says why it is refused.
type Reread = fn(&Value) -> Result<Value, String>;

fn reread<T: DeserializeOwned + Serialize>(manifest: &Value) -> Result<Value, String> {
    // Through text, as files are read: a value tree would hide what depends on it.
    let read: T = serde_json::from_str(&manifest.to_string()).map_err(|error| error.to_string())?;
    serde_json::to_value(read).map_err(|error| error.to_string())
}

struct Example {
    api_version: &'static str,
    kind: &'static str,
    reread: Reread,
    /// The smallest spec there is, and what it becomes with its defaults.
    smallest: Value,
    defaulted: Value,
}

fn class_ref() -> Value {
    json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"})
}

fn kinds() -> Vec<Example> {
    let scale_up =
        json!({"stabilizationWindowSeconds": 60, "cpuThreshold": 80, "memoryThreshold": 80, "enabled": true});
    let scale_down = json!({
        "stabilizationWindowSeconds": 600, "cpuThreshold": 50, "memoryThreshold": 50, "enabled": true, "cooldownSeconds": 600,
    });
    vec![
        Example {
            api_version: "karpenter.sh/v1",
            kind: "NodePool",
            reread: reread::<NodePool>,
            smallest: json!({"template": {"spec": {"requirements": [], "nodeClassRef": class_ref()}}}),
            defaulted: json!({
                "template": {"spec": {"requirements": [], "nodeClassRef": class_ref(), "expireAfter": "720h"}},
                "disruption": {
                    "consolidateAfter": "0s",
                    "consolidationPolicy": "WhenEmptyOrUnderutilized",
                    "budgets": [{"nodes": "10%"}],
                },
            }),
        },
        Example {
            api_version: "karpenter.sh/v1",
            kind: "NodeClaim",
            reread: reread::<NodeClaim>,
            smallest: json!({"requirements": [], "nodeClassRef": class_ref()}),
            defaulted: json!({"requirements": [], "nodeClassRef": class_ref(), "expireAfter": "720h"}),
        },
        Example {
            api_version: "karpenter.sh/v1alpha1",
            kind: "NodeOverlay",
            reread: reread::<NodeOverlay>,
            smallest: json!({"requirements": []}),
            defaulted: json!({"requirements": []}),
        },
        Example {
            api_version: "karpenter.k8s.aws/v1",
            kind: "EC2NodeClass",
            reread: reread::<EC2NodeClass>,
            smallest: json!({
                "role": "node", "subnetSelectorTerms": [{"id": "subnet-1"}],
                "securityGroupSelectorTerms": [{"id": "sg-1"}], "amiSelectorTerms": [{"alias": "al2023@latest"}],
            }),
            defaulted: json!({
                "role": "node", "subnetSelectorTerms": [{"id": "subnet-1"}],
                "securityGroupSelectorTerms": [{"id": "sg-1"}], "amiSelectorTerms": [{"alias": "al2023@latest"}],
                "metadataOptions": {
                    "httpEndpoint": "enabled", "httpProtocolIPv6": "disabled",
                    "httpPutResponseHopLimit": 1, "httpTokens": "required",
                },
            }),
        },
        Example {
            api_version: "karpenter.kwok.sh/v1alpha1",
            kind: "KWOKNodeClass",
            reread: reread::<KWOKNodeClass>,
            smallest: json!({}),
            defaulted: json!({}),
        },
        Example {
            api_version: "berth.dev/v1alpha1",
            kind: "VPSieNodeClass",
            reread: reread::<VPSieNodeClass>,
            smallest: json!({}),
            defaulted: json!({}),
        },
        Example {
            api_version: "autoscaling.x-k8s.io/v1beta1",
            kind: "CapacityBuffer",
            reread: reread::<CapacityBuffer>,
            smallest: json!({"podTemplateRef": {"name": "web"}, "replicas": 3}),
            defaulted: json!({
                "podTemplateRef": {"name": "web"}, "replicas": 3,
                "provisioningStrategy": "buffer.x-k8s.io/active-capacity",
            }),
        },
        Example {
            api_version: "autoscaler.vpsie.com/v1alpha1",
            kind: "NodeGroup",
            reread: reread::<NodeGroup>,
            smallest: json!({
                "minNodes": 0, "maxNodes": 5, "datacenterID": "dc-1", "offeringIDs": ["small"],
                "resourceIdentifier": "c", "project": "p", "kubernetesVersion": "v1.34.0",
                "spotConfig": {}, "multiRegion": {}, "costOptimization": {},
            }),
            defaulted: json!({
                "minNodes": 0, "maxNodes": 5, "datacenterID": "dc-1", "offeringIDs": ["small"],
                "resourceIdentifier": "c", "project": "p", "kubernetesVersion": "v1.34.0",
                "allowMixedInstances": true,
                "scaleUpPolicy": scale_up, "scaleDownPolicy": scale_down,
                "spotConfig": {
                    "enabled": false, "maxSpotPercentage": 80, "fallbackToOnDemand": true,
                    "interruptionGracePeriod": "2m", "allowedInterruptionRate": 20,
                },
                "multiRegion": {"enabled": false, "distributionStrategy": "balanced", "minNodesPerRegion": 1},
                "costOptimization": {
                    "enabled": true, "strategy": "auto", "optimizationInterval": "24h",
                    "minMonthlySavings": 10, "maxPerformanceImpact": 5, "requireApproval": false,
                },
            }),
        },
        Example {
            api_version: "autoscaler.vpsie.com/v1alpha1",
            kind: "VPSieNode",
            reread: reread::<VPSieNode>,
            smallest: json!({
                "vpsieInstanceID": 0, "instanceType": "small", "nodeGroupName": "g", "datacenterID": "dc-1",
                "resourceIdentifier": "c", "project": "p", "kubernetesVersion": "v1.34.0",
            }),
            defaulted: json!({
                "vpsieInstanceID": 0, "instanceType": "small", "nodeGroupName": "g", "datacenterID": "dc-1",
                "resourceIdentifier": "c", "project": "p", "kubernetesVersion": "v1.34.0",
            }),
        },
        Example {
            api_version: "autoscaler.vpsie.com/v1alpha1",
            kind: "AutoscalerConfig",
            reread: reread::<AutoscalerConfig>,
            smallest: json!({}),
            defaulted: json!({
                "nodeGroupDefaults": {
                    "minNodes": 1, "maxNodes": 10, "namespace": "default",
                    "scaleUpPolicy": scale_up, "scaleDownPolicy": scale_down,
                },
                "globalSettings": {
                    "scaleUpCooldownSeconds": 60, "scaleDownCooldownSeconds": 300,
                    "maxConcurrentScaleUps": 1, "maxConcurrentScaleDowns": 1, "maxClusterWorkers": 10,
                    "unschedulablePodGracePeriodSeconds": 30, "enableDynamicNodeGroupCreation": true,
                    "enableRebalancing": false, "nodeReadyTimeoutSeconds": 600, "podEvictionTimeoutSeconds": 120,
                },
            }),
        },
        Example {
            api_version: "sa.gardener.cloud/v1alpha1",
            kind: "ScalingConstraint",
            reread: reread::<ScalingConstraint>,
            smallest: json!({"consumerID": "mcm", "nodePools": [{
                "name": "a", "region": "eu", "availabilityZones": ["eu-1"], "priority": 0,
                "nodeTemplates": [{
                    "name": "t", "architecture": "amd64", "instanceType": "m5.large", "priority": 0,
                    "capacity": {"cpu": 2, "memory": "8Gi"}, "maxVolumes": 24,
                }],
            }]}),
            defaulted: json!({"consumerID": "mcm", "nodePools": [{
                "name": "a", "region": "eu", "availabilityZones": ["eu-1"], "priority": 0,
                "nodeTemplates": [{
                    "name": "t", "architecture": "amd64", "instanceType": "m5.large", "priority": 0,
                    "capacity": {"cpu": "2", "memory": "8Gi"}, "maxVolumes": 24,
                }],
            }]}),
        },
        Example {
            api_version: "sa.gardener.cloud/v1alpha1",
            kind: "ScalingAdvice",
            reread: reread::<ScalingAdvice>,
            smallest: json!({"constraintRef": {"name": "c"}}),
            defaulted: json!({"constraintRef": {"name": "c"}}),
        },
        Example {
            api_version: "sa.gardener.cloud/v1alpha1",
            kind: "ScalingFeedback",
            reread: reread::<ScalingFeedback>,
            smallest: json!({"constraintRef": {"name": "c"}}),
            defaulted: json!({"constraintRef": {"name": "c"}}),
        },
    ]
}

fn manifest(kind: &Example, spec: &Value) -> Value {
    json!({"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "x"}, "spec": spec})
}

#[test]
fn the_smallest_manifest_of_each_kind_gets_its_defaults() {
    for kind in kinds() {
        let mut input = manifest(&kind, &kind.smallest);
        // The API server prunes what it does not know.
        input["spec"]["berthDoesNotKnowThis"] = json!({"a": [1]});
        let output = (kind.reread)(&input).unwrap_or_else(|error| panic!("{}: {error}", kind.kind));
        assert_eq!(output, manifest(&kind, &kind.defaulted), "{}", kind.kind);
        assert_eq!((kind.reread)(&output), Ok(output.clone()), "{} twice", kind.kind);
    }
}

/// Sets the field at a JSON pointer to a value; fields on the way are made as needed.
fn with(mut manifest: Value, pointer: &str, value: Value) -> Value {
    let mut place = &mut manifest;
    for field in pointer.split('/').skip(1) {
        place = match field.parse::<usize>() {
            Ok(index) => {
                if !place.is_array() {
                    *place = json!([]);
                }
                let items = place.as_array_mut().unwrap();
                while items.len() <= index {
                    items.push(json!({}));
                }
                &mut items[index]
            }
            Err(_) => &mut place[field],
        };
    }
    *place = value;
    manifest
}

#[test]
fn what_people_write_is_read() {
    let requirement =
        json!({"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"], "minValues": 1});
    for (kind, pointer, value, reread_as) in [
        (
            "NodePool",
            "/spec/limits",
            json!({"cpu": 16, "memory": "64Gi", "nodes": "3"}),
            json!({"cpu": "16", "memory": "64Gi", "nodes": "3"}),
        ),
        ("NodePool", "/spec/weight", json!(100), json!(100)),
        ("NodePool", "/spec/replicas", json!(0), json!(0)),
        ("NodePool", "/spec/disruption/consolidateAfter", json!("Never"), json!("Never")),
        ("NodePool", "/spec/disruption/consolidateAfter", json!("90s"), json!("1m30s")),
        ("NodePool", "/spec/disruption/budgets", json!([]), json!([])),
        ("NodePool", "/spec/disruption/budgets", json!([{"nodes": 3}]), json!([{"nodes": "3"}])),
        (
            "NodePool",
            "/spec/disruption/budgets",
            json!([{"nodes": "0", "reasons": ["Drifted", "Empty"], "schedule": "0 9 * * 1-5", "duration": "8h"}]),
            json!([{"nodes": "0", "reasons": ["Drifted", "Empty"], "schedule": "0 9 * * 1-5", "duration": "8h"}]),
        ),
        ("NodePool", "/spec/template/spec/expireAfter", json!("Never"), json!("Never")),
        ("NodePool", "/spec/template/spec/terminationGracePeriod", json!("1.5h"), json!("1h30m")),
        ("NodePool", "/spec/template/spec/requirements", json!([requirement]), json!([requirement])),
        (
            "NodePool",
            "/spec/template/spec/taints",
            json!([{"key": "gpu", "value": "", "effect": "NoSchedule"}]),
            json!([{"key": "gpu", "effect": "NoSchedule"}]),
        ),
        ("NodeClaim", "/spec/resources/requests", json!({"cpu": "3900m"}), json!({"cpu": "3900m"})),
        (
            "NodeClaim",
            "/status/conditions",
            json!([{"type": "Ready", "status": "True"}]),
            json!([{"type": "Ready", "status": "True"}]),
        ),
        (
            "NodeClaim",
            "/status/lastPodEventTime",
            json!("2026-01-02T03:04:05Z"),
            json!("2026-01-02T03:04:05Z"),
        ),
        (
            "EC2NodeClass",
            "/spec/kubelet/systemReserved",
            json!({"memory": "100Mi"}),
            json!({"memory": "100Mi"}),
        ),
        ("KWOKNodeClass", "/spec/nodeRegistrationDelay", json!("30s"), json!("30s")),
        ("VPSieNodeClass", "/spec/datacenterIDs", json!(["dc-1"]), json!(["dc-1"])),
        ("NodeGroup", "/spec/scaleUpPolicy/enabled", json!(false), json!(false)),
        ("NodeGroup", "/spec/costOptimization/minMonthlySavings", json!(12.5), json!(12.5)),
        ("VPSieNode", "/status/phase", json!(""), json!("Pending")),
        ("ScalingAdvice", "/spec/scaleOutPlan/items", json!([]), json!([])),
        (
            "ScalingFeedback",
            "/spec/scaleOutErrorInfos/0",
            json!({"availabilityZone": "a", "instanceType": "m", "errorType": "CreationTimeoutError", "failCount": 2}),
            json!({"availabilityZone": "a", "instanceType": "m", "errorType": "CreationTimeoutError", "failCount": 2}),
        ),
    ] {
        let found = kinds().into_iter().find(|row| row.kind == kind).unwrap();
        let input = with(manifest(&found, &found.smallest), pointer, value);
        let output = (found.reread)(&input).unwrap_or_else(|error| panic!("{kind} {pointer}: {error}"));
        assert_eq!(output.pointer(pointer), Some(&reread_as), "{kind} {pointer}");
    }
}

#[test]
fn what_is_wrong_is_refused_with_what_would_be_right() {
    let requirement = |operator: &str| json!([{"key": "team", "operator": operator, "values": ["a"]}]);
    for (kind, pointer, value, refusal) in [
        (
            "NodePool",
            "/spec/template/spec/requirements",
            requirement("Is"),
            "unknown variant `Is`, expected one of `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt`, `Lt`, `Gte`, `Lte`",
        ),
        ("NodePool", "/spec/template/spec/requirements", requirement("in"), "unknown variant `in`"),
        (
            "NodePool",
            "/spec/template/spec/taints",
            json!([{"key": "gpu", "effect": "NoWay"}]),
            "unknown variant `NoWay`, expected one of `NoSchedule`, `PreferNoSchedule`, `NoExecute`",
        ),
        ("NodePool", "/spec/template/spec/taints", json!([{"key": "gpu"}]), "missing field `effect`"),
        (
            "NodePool",
            "/spec/disruption/consolidationPolicy",
            json!("WhenUnderutilized"),
            "expected one of `WhenEmpty`, `WhenEmptyOrUnderutilized`, `Balanced`",
        ),
        (
            "NodePool",
            "/spec/disruption/budgets",
            json!([{"nodes": "1", "reasons": ["empty"]}]),
            "unknown variant `empty`, expected one of `Underutilized`, `Empty`, `Drifted`",
        ),
        (
            "NodePool",
            "/spec/disruption/budgets",
            json!([{"nodes": "110%"}]),
            "`110%` is neither a number nor a percentage",
        ),
        (
            "NodePool",
            "/spec/disruption/consolidateAfter",
            json!("5 minutes"),
            "the units are ns, us, ms, s, m and h, or Never",
        ),
        (
            "NodePool",
            "/spec/disruption/consolidateAfter",
            json!(30),
            "expected a duration such as 720h or 1h30m, or Never",
        ),
        ("NodePool", "/spec/template/spec/terminationGracePeriod", json!("-5m"), "`-5m` is negative"),
        ("NodePool", "/spec/template/spec/terminationGracePeriod", json!("Never"), "is not a duration"),
        ("NodePool", "/spec/limits", json!({"cpu": "many"}), "`many` is not a quantity"),
        ("NodePool", "/spec/weight", json!(0), "0 is out of range; write a whole number from 1 to 100"),
        ("NodePool", "/spec/replicas", json!(-1), "-1 is out of range"),
        ("NodePool", "/spec/template/spec", json!({"requirements": []}), "missing field `nodeClassRef`"),
        (
            "NodePool",
            "/spec/template/spec/nodeClassRef",
            json!({"kind": "K", "name": "n"}),
            "missing field `group`",
        ),
        ("NodeOverlay", "/spec/weight", json!(10_001), "write a whole number from 1 to 10000"),
        (
            "EC2NodeClass",
            "/spec/amiFamily",
            json!("Ubuntu"),
            "unknown variant `Ubuntu`, expected one of `AL2`",
        ),
        (
            "EC2NodeClass",
            "/spec/metadataOptions",
            json!({"httpTokens": "maybe"}),
            "expected `required` or `optional`",
        ),
        ("CapacityBuffer", "/spec/replicas", json!("3"), "expected a whole number"),
        ("NodeGroup", "/spec/maxNodes", json!(1001), "write a whole number from 1 to 1000"),
        (
            "NodeGroup",
            "/spec/scaleUpPolicy",
            json!({"cpuThreshold": 101}),
            "write a whole number from 0 to 100",
        ),
        (
            "NodeGroup",
            "/spec/multiRegion",
            json!({"distributionStrategy": "even"}),
            "expected one of `balanced`, `weighted`, `primary-backup`",
        ),
        ("NodeGroup", "/spec/spotConfig", json!({"interruptionGracePeriod": "120"}), "for example 120s"),
        (
            "VPSieNode",
            "/status/phase",
            json!("Gone"),
            "`Pending`, `Provisioning`, `Provisioned`, `Joining`, `Ready`, `Terminating`, `Deleting`, `Failed`",
        ),
        (
            "AutoscalerConfig",
            "/spec/globalSettings",
            json!({"nodeReadyTimeoutSeconds": 59}),
            "59 is out of range",
        ),
        ("ScalingConstraint", "/spec/nodePools/0/priority", json!(-1), "-1 is out of range"),
        (
            "ScalingFeedback",
            "/spec/scaleOutErrorInfos",
            json!([{"availabilityZone": "a", "instanceType": "m", "errorType": "Oops", "failCount": 1}]),
            "expected `ResourceExhaustedError` or `CreationTimeoutError`",
        ),
    ] {
        let found = kinds().into_iter().find(|row| row.kind == kind).unwrap();
        let input = with(manifest(&found, &found.smallest), pointer, value);
        let error = (found.reread)(&input).expect_err(pointer);
        assert!(error.contains(refusal), "{kind} {pointer}: {error}");
    }
}

#[test]
fn conditions_answer_by_type() {
    let claim: NodeClaim = serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "x"},
        "spec": {"requirements": [], "nodeClassRef": class_ref()},
        "status": {"conditions": [{"type": "Launched", "status": "True"}, {"type": "Ready", "status": "Unknown"}]},
    }))
    .unwrap();
    let conditions = claim.status.unwrap_or_default().conditions;
    for (type_, expected) in [("Launched", true), ("Ready", false), ("Drifted", false)] {
        assert_eq!(is_true(&conditions, type_), expected, "{type_}");
    }
}
