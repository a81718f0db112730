//! The kinds that sequences are about, and what may be said of them, right and wrong.

/// A kind: a body that is right, and fields that are set in it at will.
pub(crate) struct Kind {
    /// Of its objects; `{ns}` is the namespace of the sequence.
    pub(crate) path: &'static str,
    pub(crate) api_version: &'static str,
    pub(crate) name: &'static str,
    /// Nodes have no namespace to be apart in.
    pub(crate) names: [&'static str; 2],
    pub(crate) base: &'static str,
    pub(crate) fields: &'static [(&'static str, &'static [&'static str])],
    pub(crate) status: &'static [(&'static str, &'static [&'static str])],
    pub(crate) strategic: &'static [&'static str],
    pub(crate) has_scale: bool,
}

/// Of all kinds.
pub(crate) const METADATA: &[(&str, &[&str])] = &[
    ("/metadata/labels/x", &[r#""y""#, r#""z""#, "null", r#""-""#]),
    ("/metadata/labels", &["null", r#"{"x": "y", "w": "v"}"#]),
    ("/metadata/annotations/k", &[r#""1""#, r#""2""#, "null"]),
    (
        "/metadata/finalizers",
        &[r#"["example.com/f"]"#, "null", r#"["nodomain"]"#, r#"["example.com/f", "example.com/g"]"#],
    ),
    ("/metadata/generation", &["7"]),
    ("/metadata/uid", &[r#""00000000-0000-4000-8000-000000000000""#]),
    (
        "/metadata/ownerReferences",
        &[
            r#"[{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u"}]"#,
            r#"[{"kind": "X", "name": "o"}]"#,
            "null",
        ],
    ),
];

/// One of each sort that is written in a way of its own: without a generation, with much that cannot be changed, with a
/// template and a scale, only by those who know what is there, by kubelets, and by a definition. What is particular to
/// other kinds is in the contract's cases: drawn at random, bodies of kinds that nothing is known of would be refused for
/// little more than being empty.
pub(crate) const KINDS: &[Kind] = &[
    Kind {
        path: "/api/v1/namespaces/{ns}/configmaps",
        api_version: "v1",
        name: "ConfigMap",
        names: ["a", "b"],
        base: r#"{"data": {"k": "v"}}"#,
        fields: &[
            ("/data/k", &[r#""w""#, r#""""#, "null"]),
            ("/data/l", &[r#""x""#, "null"]),
            ("/data/a~1b", &[r#""x""#]),
            ("/data", &["null", "{}"]),
            ("/binaryData/b", &[r#""dg==""#]),
            ("/binaryData/k", &[r#""dg==""#]),
            ("/immutable", &["true", "false"]),
        ],
        status: &[],
        strategic: &[
            r#"{"data": {"$patch": "replace", "n": "m"}}"#,
            r#"{"metadata": {"finalizers": ["example.com/h"]}}"#,
            r#"{"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/f"]}}"#,
        ],
        has_scale: false,
    },
    Kind {
        path: "/api/v1/namespaces/{ns}/pods",
        api_version: "v1",
        name: "Pod",
        names: ["a", "b"],
        base: r#"{"metadata": {"labels": {"x": "y"}}, "spec": {"automountServiceAccountToken": false, "containers": [{"name": "c", "image": "i"}]}}"#,
        fields: &[
            ("/spec/containers/0/image", &[r#""j""#, r#""""#, r#""j:1""#]),
            ("/spec/containers/0/name", &[r#""d""#, r#""D_""#]),
            (
                "/spec/containers/0/resources",
                &[
                    r#"{"requests": {"cpu": "1"}}"#,
                    r#"{"limits": {"cpu": "500m", "memory": "1Gi"}}"#,
                    r#"{"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}"#,
                    r#"{"requests": {"memory": "-1"}}"#,
                ],
            ),
            ("/spec/containers", &["[]", r#"[{"name": "c", "image": "i"}, {"name": "c", "image": "j"}]"#]),
            ("/spec/nodeName", &[r#""n1""#, r#""N""#]),
            ("/spec/nodeSelector", &[r#"{"a": "b"}"#, r#"{"-": "b"}"#]),
            ("/spec/restartPolicy", &[r#""Never""#, r#""Sometimes""#]),
            ("/spec/terminationGracePeriodSeconds", &["0", "5", "-1"]),
            ("/spec/activeDeadlineSeconds", &["5", "10", "0", "null"]),
            ("/spec/schedulerName", &[r#""other""#]),
            ("/spec/priority", &["0", "5"]),
            (
                "/spec/tolerations",
                &[
                    r#"[{"key": "a", "operator": "Exists"}]"#,
                    r#"[{"key": "a", "operator": "Exists", "value": "v"}]"#,
                    "null",
                ],
            ),
            ("/spec/schedulingGates", &[r#"[{"name": "example.com/g"}]"#, "null"]),
        ],
        status: &[
            ("/status/phase", &[r#""Running""#, r#""Succeeded""#, r#""Failed""#]),
            (
                "/status/conditions",
                &[r#"[{"type": "Ready", "status": "True"}]"#, r#"[{"type": "Ready", "status": "False"}]"#],
            ),
            ("/status/nominatedNodeName", &[r#""n2""#]),
            ("/status/message", &[r#""m""#, "null"]),
        ],
        strategic: &[
            r#"{"spec": {"containers": [{"name": "c", "image": "k"}]}}"#,
            r#"{"spec": {"containers": [{"name": "e", "image": "k"}]}}"#,
            r#"{"spec": {"tolerations": [{"key": "b", "operator": "Exists"}]}}"#,
        ],
        has_scale: false,
    },
    Kind {
        path: "/apis/apps/v1/namespaces/{ns}/deployments",
        api_version: "apps/v1",
        name: "Deployment",
        names: ["a", "b"],
        base: r#"{"spec": {"selector": {"matchLabels": {"x": "y"}}, "template": {"metadata": {"labels": {"x": "y"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}}"#,
        fields: &[
            ("/spec/replicas", &["0", "2", "-1", "null"]),
            ("/spec/paused", &["true", "false"]),
            ("/spec/minReadySeconds", &["5", "-5", "700"]),
            (
                "/spec/strategy",
                &[
                    r#"{"type": "Recreate"}"#,
                    r#"{"type": "X"}"#,
                    r#"{"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}"#,
                    r#"{"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}}"#,
                ],
            ),
            ("/spec/selector/matchLabels/x", &[r#""z""#]),
            ("/spec/template/metadata/labels", &[r#"{"x": "z"}"#, r#"{"x": "y", "v": "w"}"#]),
            ("/spec/template/spec/containers/0/image", &[r#""j""#, r#""""#]),
            ("/spec/template/spec/restartPolicy", &[r#""Never""#]),
            ("/spec/template/spec/nodeSelector", &[r#"{"a": "b"}"#]),
            ("/spec/selector", &["null", "{}"]),
        ],
        status: &[
            ("/status/replicas", &["1", "-1"]),
            ("/status/readyReplicas", &["1", "9"]),
            ("/status/observedGeneration", &["1"]),
            ("/status/conditions", &[r#"[{"type": "Available", "status": "True"}]"#]),
        ],
        strategic: &[
            r#"{"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "k"}, {"name": "d", "image": "l"}]}}}}"#,
            r#"{"spec": {"template": {"spec": {"containers": [{"name": "d", "$patch": "delete"}]}}}}"#,
            r#"{"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}"#,
            r#"{"spec": {"template": {"spec": {"$setElementOrder/containers": [{"name": "d"}, {"name": "c"}], "containers": [{"name": "d", "image": "m"}]}}}}"#,
        ],
        has_scale: true,
    },
    Kind {
        path: "/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets",
        api_version: "policy/v1",
        name: "PodDisruptionBudget",
        names: ["a", "b"],
        base: r#"{"spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"x": "y"}}}}"#,
        fields: &[
            ("/spec/maxUnavailable", &["0", r#""50%""#, r#""x""#, "-1", "null"]),
            ("/spec/minAvailable", &["1", r#""10%""#]),
            ("/spec/selector", &["null", "{}", r#"{"matchLabels": {"-": "y"}}"#]),
            ("/spec/unhealthyPodEvictionPolicy", &[r#""AlwaysAllow""#, r#""IfHealthyBudget""#, r#""X""#]),
        ],
        status: &[
            ("/status/observedGeneration", &["1", "9"]),
            ("/status/disruptionsAllowed", &["1", "0", "-1"]),
            ("/status/currentHealthy", &["1"]),
            ("/status/desiredHealthy", &["1"]),
            ("/status/expectedPods", &["2"]),
        ],
        strategic: &[r#"{"spec": {"selector": {"matchLabels": {"q": "r"}}}}"#],
        has_scale: false,
    },
    Kind {
        path: "/api/v1/nodes",
        api_version: "v1",
        name: "Node",
        names: ["{ns}-a", "{ns}-b"],
        base: r#"{"metadata": {"labels": {"of": "{ns}"}}}"#,
        fields: &[
            ("/spec/unschedulable", &["true", "false", "null"]),
            ("/spec/providerID", &[r#""x://1""#, r#""x://2""#]),
            ("/spec/podCIDR", &[r#""10.1.0.0/24""#, r#""x""#]),
            (
                "/spec/taints",
                &[
                    r#"[{"key": "k", "effect": "NoSchedule"}]"#,
                    r#"[{"key": "k", "effect": "X"}]"#,
                    "null",
                    r#"[{"key": "k", "effect": "NoExecute"}, {"key": "k", "effect": "NoExecute"}]"#,
                ],
            ),
        ],
        status: &[
            ("/status/phase", &[r#""Running""#]),
            ("/status/capacity", &[r#"{"cpu": "4", "memory": "8Gi"}"#, r#"{"cpu": "-4"}"#]),
            ("/status/conditions", &[r#"[{"type": "Ready", "status": "True"}]"#]),
        ],
        strategic: &[r#"{"spec": {"taints": [{"key": "l", "effect": "NoSchedule"}]}}"#],
        has_scale: false,
    },
    Kind {
        path: "/apis/random.example.com/v1/namespaces/{ns}/boats",
        api_version: "random.example.com/v1",
        name: "Boat",
        names: ["a", "b"],
        base: r#"{"spec": {"length": 3}}"#,
        fields: &[
            ("/spec/length", &["4", "0", r#""long""#, "null"]),
            ("/spec/flag", &[r#""red""#, r#""blue""#, "null"]),
            (
                "/spec/crew",
                &[
                    r#"[{"name": "x"}]"#,
                    r#"[{"name": "x", "age": 5}, {"name": "y"}]"#,
                    r#"[{"name": "x"}, {"name": "x"}]"#,
                    r#"[{"age": 1}]"#,
                ],
            ),
            ("/spec/sails", &["2"]),
            ("/spec/name", &[r#""n""#, r#""m""#]),
            ("/spec", &["null", "{}"]),
        ],
        status: &[("/status/afloat", &["true", "false", r#""maybe""#]), ("/status/many", &["2"])],
        strategic: &[r#"{"spec": {"length": 5}}"#],
        has_scale: true,
    },
];

/// What defines the custom resource.
pub(crate) const DEFINITION: &str = r#"{"metadata": {"name": "boats.random.example.com"}, "spec": {"group": "random.example.com", "scope": "Namespaced", "names": {"plural": "boats", "kind": "Boat"},
 "versions": [{"name": "v1", "served": true, "storage": true,
 "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.length", "statusReplicasPath": ".status.many"}},
 "schema": {"openAPIV3Schema": {"type": "object", "properties": {
  "spec": {"type": "object", "required": ["length"], "properties": {"length": {"type": "integer", "minimum": 1}, "flag": {"type": "string", "default": "white", "enum": ["white", "red"]},
   "name": {"type": "string", "maxLength": 9, "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "a boat keeps its name"}]},
   "crew": {"type": "array", "maxItems": 9, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}}}},
   "x-kubernetes-validations": [{"rule": "!has(self.crew) || size(self.crew) <= self.length", "message": "too many for so short a boat"}]},
  "status": {"type": "object", "properties": {"afloat": {"type": "boolean"}, "many": {"type": "integer"}}}}}}}]}}"#;
