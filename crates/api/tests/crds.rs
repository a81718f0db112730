//! The generated definitions: fresh on disk, and with what the originals have.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test's harness may fail the test")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::{env, fs};

use berth_api::crds;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

/// Generated once: each takes milliseconds, and the tables below ask for them often.
static CRDS: LazyLock<Vec<CustomResourceDefinition>> = LazyLock::new(crds::all);

fn crd(kind: &str) -> &'static CustomResourceDefinition {
    CRDS.iter().find(|crd| crd.spec.names.kind == kind).unwrap_or_else(|| panic!("no kind {kind}"))
}

/// The schema of the field at `path` (`spec.template.taints[].key`), `[]` meaning items and `{}` values.
fn schema(kind: &str, path: &str) -> Value {
    let version = &crd(kind).spec.versions[0];
    let mut schema = serde_json::to_value(&version.schema).unwrap()["openAPIV3Schema"].take();
    for field in path.split('.').filter(|field| !field.is_empty()) {
        let name = field.trim_end_matches("[]").trim_end_matches("{}");
        schema = schema["properties"][name].take();
        if field.ends_with("[]") {
            schema = schema["items"].take();
        } else if field.ends_with("{}") {
            schema = schema["additionalProperties"].take();
        }
        assert!(schema.is_object(), "{kind} has no {path}: stopped at {name}");
    }
    schema
}

/// Run with `BERTH_UPDATE=1` to write the files anew.
#[test]
fn files_are_fresh() {
    let directory = PathBuf::from("../../deploy/crds");
    let mut expected: BTreeMap<String, String> =
        crds::all().iter().map(|crd| (crds::file_name(crd), crds::document(crd).unwrap())).collect();
    let names: Vec<String> = expected.keys().map(|name| format!("  - {name}\n")).collect();
    expected.insert(
        "kustomization.yaml".to_owned(),
        format!(
            "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n{}",
            names.concat()
        ),
    );
    if env::var_os("BERTH_UPDATE").is_some() {
        fs::create_dir_all(&directory).unwrap();
        for (name, text) in &expected {
            fs::write(directory.join(name), text).unwrap();
        }
    }
    let found: BTreeMap<String, String> = fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read_to_string(&path).unwrap())
        })
        .collect();
    assert_eq!(
        found.keys().collect::<Vec<_>>(),
        expected.keys().collect::<Vec<_>>(),
        "the files of deploy/crds are not those of the kinds; run the tests with BERTH_UPDATE=1"
    );
    for (name, text) in expected {
        assert!(found[&name] == text, "deploy/crds/{name} is stale; run the tests with BERTH_UPDATE=1");
    }
}

#[test]
fn yaml_is_all_definitions_in_order_and_reads_back() {
    let text = crds::yaml().unwrap();
    assert_eq!(text, crds::yaml().unwrap());
    let documents: Vec<CustomResourceDefinition> = serde_saphyr::from_multiple(&text).unwrap();
    assert_eq!(documents, crds::all());
}

#[test]
fn names_scopes_and_subresources() {
    type Row =
        (&'static str, &'static str, &'static str, &'static str, &'static [&'static str], &'static str);
    let rows: [Row; 13] = [
        ("NodePool", "nodepools.karpenter.sh", "v1", "Cluster", &[], "status scale"),
        ("NodeClaim", "nodeclaims.karpenter.sh", "v1", "Cluster", &[], "status"),
        ("NodeOverlay", "nodeoverlays.karpenter.sh", "v1alpha1", "Cluster", &["overlays"], "status"),
        ("EC2NodeClass", "ec2nodeclasses.karpenter.k8s.aws", "v1", "Cluster", &["ec2nc", "ec2ncs"], "status"),
        (
            "KWOKNodeClass",
            "kwoknodeclasses.karpenter.kwok.sh",
            "v1alpha1",
            "Cluster",
            &["kwoknc", "kwokncs"],
            "status",
        ),
        (
            "VPSieNodeClass",
            "vpsienodeclasses.berth.dev",
            "v1alpha1",
            "Cluster",
            &["vpsienc", "vpsiencs"],
            "status",
        ),
        (
            "CapacityBuffer",
            "capacitybuffers.autoscaling.x-k8s.io",
            "v1beta1",
            "Namespaced",
            &["cb"],
            "status",
        ),
        ("NodeGroup", "nodegroups.autoscaler.vpsie.com", "v1alpha1", "Namespaced", &["ng", "ngs"], "status"),
        ("VPSieNode", "vpsienodes.autoscaler.vpsie.com", "v1alpha1", "Namespaced", &["vn", "vns"], "status"),
        (
            "AutoscalerConfig",
            "autoscalerconfigs.autoscaler.vpsie.com",
            "v1alpha1",
            "Cluster",
            &["asc"],
            "status",
        ),
        (
            "ScalingConstraint",
            "scalingconstraints.sa.gardener.cloud",
            "v1alpha1",
            "Namespaced",
            &["sc"],
            "status",
        ),
        ("ScalingAdvice", "scalingadvices.sa.gardener.cloud", "v1alpha1", "Namespaced", &["sa"], "status"),
        ("ScalingFeedback", "scalingfeedbacks.sa.gardener.cloud", "v1alpha1", "Namespaced", &["sf"], ""),
    ];
    let kinds: Vec<String> = crds::all().into_iter().map(|crd| crd.spec.names.kind).collect();
    assert_eq!(kinds, rows.map(|row| row.0));
    for (kind, name, version, scope, short_names, subresources) in rows {
        let crd = crd(kind);
        assert_eq!(crd.metadata.name.as_deref(), Some(name), "{kind}");
        assert_eq!(crd.spec.versions[0].name, version, "{kind}");
        assert_eq!(crd.spec.scope, scope, "{kind}");
        assert_eq!(crd.spec.names.short_names.clone().unwrap_or_default(), short_names, "{kind}");
        assert_eq!(
            crd.spec.names.categories.clone().unwrap_or_default(),
            match crd.spec.group.as_str() {
                group if group.contains("karpenter") || group == "berth.dev" => vec!["karpenter"],
                "autoscaling.x-k8s.io" => vec!["autoscaling"],
                _ => vec![],
            },
            "{kind}"
        );
        let found = crd.spec.versions[0].subresources.clone().unwrap_or_default();
        let found = [found.status.map(|_| "status"), found.scale.map(|_| "scale")];
        assert_eq!(found.into_iter().flatten().collect::<Vec<_>>().join(" "), subresources, "{kind}");
    }
}

#[test]
fn printer_columns() {
    for (kind, columns) in [
        ("NodePool", "NodeClass Nodes Ready Age Weight+ CPU+ Memory+"),
        ("NodeClaim", "Type Capacity Zone Node Ready Age ImageID+ ID+ NodePool+ NodeClass+ Drifted+"),
        ("NodeOverlay", "Ready Age Weight+"),
        ("EC2NodeClass", "Ready Age Role+"),
        ("KWOKNodeClass", ""),
        ("VPSieNodeClass", "Ready Age Reason+"),
        (
            "CapacityBuffer",
            "Strategy PodTemplate Replicas ConditionsType ConditionsStatus ConditionsReason Age",
        ),
        ("NodeGroup", "Min Max Desired Current Ready Reason Age"),
        ("VPSieNode", "VPS_ID Node Phase Instance_Type NodeGroup Reason Age"),
        ("AutoscalerConfig", "MinNodes MaxNodes DynamicCreation Active Age"),
        ("ScalingConstraint", ""),
        ("ScalingAdvice", ""),
        ("ScalingFeedback", ""),
    ] {
        let found: Vec<String> = crd(kind).spec.versions[0]
            .additional_printer_columns
            .iter()
            .flatten()
            .map(|column| {
                let wide = if column.priority == Some(1) { "+" } else { "" };
                format!("{}{wide}", column.name.replace(' ', "_"))
            })
            .collect();
        assert_eq!(found.join(" "), columns, "{kind}");
    }
}

#[test]
fn schemas_validate_and_default_as_the_originals() {
    let policy =
        json!({"stabilizationWindowSeconds": 60, "cpuThreshold": 80, "memoryThreshold": 80, "enabled": true});
    for (kind, path, keyword, expected) in [
        ("NodePool", "spec", "required", json!(["template"])),
        ("NodePool", "spec.weight", "minimum", json!(1.0)),
        ("NodePool", "spec.weight", "maximum", json!(100.0)),
        ("NodePool", "spec.replicas", "minimum", json!(0.0)),
        (
            "NodePool",
            "spec.disruption",
            "default",
            json!({"consolidateAfter": "0s", "consolidationPolicy": "WhenEmptyOrUnderutilized", "budgets": [{"nodes": "10%"}]}),
        ),
        ("NodePool", "spec.disruption.consolidateAfter", "default", json!("0s")),
        ("NodePool", "spec.disruption.consolidateAfter", "pattern", json!("^(([0-9]+(s|m|h))+|Never)$")),
        (
            "NodePool",
            "spec.disruption.consolidationPolicy",
            "enum",
            json!(["WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced"]),
        ),
        ("NodePool", "spec.disruption.budgets", "default", json!([{"nodes": "10%"}])),
        ("NodePool", "spec.disruption.budgets", "maxItems", json!(50)),
        ("NodePool", "spec.disruption.budgets[].nodes", "default", json!("10%")),
        ("NodePool", "spec.disruption.budgets[].nodes", "pattern", json!("^((100|[0-9]{1,2})%|[0-9]+)$")),
        (
            "NodePool",
            "spec.disruption.budgets[].reasons[]",
            "enum",
            json!(["Underutilized", "Empty", "Drifted"]),
        ),
        (
            "NodePool",
            "spec.disruption.budgets[].duration",
            "pattern",
            json!("^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$"),
        ),
        ("NodePool", "spec.limits{}", "x-kubernetes-int-or-string", json!(true)),
        ("NodePool", "spec.template.metadata.labels", "maxProperties", json!(100)),
        ("NodePool", "spec.template.metadata.labels{}", "maxLength", json!(63)),
        ("NodePool", "spec.template.spec", "required", json!(["nodeClassRef", "requirements"])),
        ("NodePool", "spec.template.spec.expireAfter", "default", json!("720h")),
        ("NodePool", "spec.template.spec.terminationGracePeriod", "pattern", json!("^([0-9]+(s|m|h))+$")),
        ("NodePool", "spec.template.spec.requirements", "maxItems", json!(100)),
        ("NodePool", "spec.template.spec.requirements[]", "required", json!(["key", "operator"])),
        (
            "NodePool",
            "spec.template.spec.requirements[].operator",
            "enum",
            json!(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte"]),
        ),
        ("NodePool", "spec.template.spec.requirements[].minValues", "maximum", json!(50.0)),
        ("NodePool", "spec.template.spec.requirements[].key", "maxLength", json!(316)),
        ("NodePool", "spec.template.spec.requirements[].values", "x-kubernetes-list-type", json!("atomic")),
        (
            "NodePool",
            "spec.template.spec.taints[].effect",
            "enum",
            json!(["NoSchedule", "PreferNoSchedule", "NoExecute"]),
        ),
        ("NodePool", "spec.template.spec.nodeClassRef", "required", json!(["group", "kind", "name"])),
        ("NodePool", "status.nodes", "default", json!(0)),
        ("NodeClaim", "spec.expireAfter", "default", json!("720h")),
        ("NodeClaim", "status.conditions", "x-kubernetes-list-map-keys", json!(["type"])),
        (
            "NodeClaim",
            "status.conditions[]",
            "required",
            json!(["lastTransitionTime", "message", "reason", "status", "type"]),
        ),
        ("NodeClaim", "status.conditions[].status", "enum", json!(["True", "False", "Unknown"])),
        ("NodeClaim", "status.lastPodEventTime", "format", json!("date-time")),
        ("NodeOverlay", "spec.weight", "maximum", json!(10000.0)),
        ("NodeOverlay", "spec.price", "pattern", json!(r"^\d+(\.\d+)?$")),
        ("EC2NodeClass", "spec.subnetSelectorTerms", "minItems", json!(1)),
        ("EC2NodeClass", "spec.subnetSelectorTerms[].tags", "maxProperties", json!(20)),
        ("EC2NodeClass", "spec.kubelet.kubeReserved", "maxProperties", json!(4)),
        ("EC2NodeClass", "spec.kubelet.evictionHard", "maxProperties", json!(6)),
        ("EC2NodeClass", "spec.kubelet.evictionSoftGracePeriod", "maxProperties", json!(6)),
        ("EC2NodeClass", "spec.amiSelectorTerms[].alias", "maxLength", json!(30)),
        (
            "EC2NodeClass",
            "spec.metadataOptions",
            "default",
            json!({"httpEndpoint": "enabled", "httpProtocolIPv6": "disabled", "httpPutResponseHopLimit": 1, "httpTokens": "required"}),
        ),
        ("EC2NodeClass", "spec.metadataOptions.httpPutResponseHopLimit", "maximum", json!(64.0)),
        ("EC2NodeClass", "spec.instanceStorePolicy", "enum", json!(["RAID0"])),
        ("EC2NodeClass", "spec.blockDeviceMappings[].ebs.volumeSize", "type", json!("string")),
        (
            "EC2NodeClass",
            "spec.blockDeviceMappings[].ebs.volumeType",
            "enum",
            json!(["standard", "io1", "io2", "gp2", "sc1", "st1", "gp3"]),
        ),
        ("KWOKNodeClass", "", "required", json!(null)),
        ("KWOKNodeClass", "spec.nodeRegistrationDelay", "pattern", json!("^([0-9]+(s|m|h))+$")),
        ("VPSieNodeClass", "spec", "required", json!(null)),
        ("VPSieNodeClass", "spec.datacenterIDs", "x-kubernetes-list-type", json!("set")),
        ("VPSieNodeClass", "spec.offeringIDs[]", "pattern", json!("^[a-zA-Z0-9._-]+$")),
        ("VPSieNodeClass", "spec.tags[]", "maxLength", json!(128)),
        ("VPSieNodeClass", "status.conditions", "x-kubernetes-list-map-keys", json!(["type"])),
        ("CapacityBuffer", "spec.provisioningStrategy", "default", json!("buffer.x-k8s.io/active-capacity")),
        ("CapacityBuffer", "spec.podTemplateRef.name", "minLength", json!(1)),
        (
            "NodeGroup",
            "spec",
            "required",
            json!([
                "datacenterID",
                "kubernetesVersion",
                "maxNodes",
                "minNodes",
                "offeringIDs",
                "project",
                "resourceIdentifier"
            ]),
        ),
        ("NodeGroup", "spec.minNodes", "minimum", json!(0.0)),
        ("NodeGroup", "spec.maxNodes", "maximum", json!(1000.0)),
        ("NodeGroup", "spec.offeringIDs", "minItems", json!(1)),
        ("NodeGroup", "spec.offeringIDs", "x-kubernetes-list-type", json!("set")),
        ("NodeGroup", "spec.allowMixedInstances", "default", json!(true)),
        ("NodeGroup", "spec.scaleUpPolicy", "default", policy),
        ("NodeGroup", "spec.scaleUpPolicy.cpuThreshold", "default", json!(80)),
        ("NodeGroup", "spec.scaleDownPolicy.cooldownSeconds", "default", json!(600)),
        ("NodeGroup", "spec.spotConfig.interruptionGracePeriod", "default", json!("2m")),
        ("NodeGroup", "spec.spotConfig.maxSpotPercentage", "default", json!(80)),
        (
            "NodeGroup",
            "spec.multiRegion.distributionStrategy",
            "enum",
            json!(["balanced", "weighted", "primary-backup"]),
        ),
        ("NodeGroup", "spec.costOptimization.minMonthlySavings", "default", json!(10)),
        ("NodeGroup", "spec.costOptimization.minMonthlySavings", "type", json!("number")),
        (
            "NodeGroup",
            "spec.costOptimization.strategy",
            "enum",
            json!(["auto", "manual", "aggressive", "conservative"]),
        ),
        ("NodeGroup", "status", "required", json!(["currentNodes", "desiredNodes", "readyNodes"])),
        ("VPSieNode", "status", "required", json!(["phase"])),
        ("AutoscalerConfig", "spec.nodeGroupDefaults.maxNodes", "default", json!(10)),
        ("AutoscalerConfig", "spec.globalSettings.nodeReadyTimeoutSeconds", "minimum", json!(60.0)),
        ("AutoscalerConfig", "spec.globalSettings.enableRebalancing", "default", json!(false)),
        (
            "ScalingConstraint",
            "spec.nodePools[]",
            "required",
            json!(["availabilityZones", "name", "nodeTemplates", "priority", "region"]),
        ),
        ("ScalingConstraint", "spec.nodePools[].nodeTemplates", "minItems", json!(1)),
        (
            "ScalingConstraint",
            "spec.nodePools[].defaultBackoffPolicy",
            "required",
            json!(["initialBackoff", "maxBackoff"]),
        ),
        ("ScalingAdvice", "spec.scaleOutPlan.items[].delta", "format", json!("int32")),
        (
            "ScalingFeedback",
            "spec.scaleOutErrorInfos[].errorType",
            "enum",
            json!(["ResourceExhaustedError", "CreationTimeoutError"]),
        ),
    ] {
        assert_eq!(schema(kind, path)[keyword], expected, "{kind} {path} {keyword}");
    }
    assert_eq!(schema("KWOKNodeClass", "status")["default"]["conditions"][0]["status"], "True");
}

/// What the API server asks of a structural schema and what the originals do not have.
#[test]
fn schemas_are_plain() {
    fn walk(path: &str, schema: &Value) {
        for keyword in ["nullable", "oneOf", "anyOf", "allOf", "not", "$ref"] {
            assert!(schema.get(keyword).is_none(), "{path} has {keyword}");
        }
        if let Some(format) = schema.get("format").and_then(Value::as_str) {
            assert!(["int32", "int64", "date-time"].contains(&format), "{path} has the format {format}");
        }
        let described = schema.get("description").is_some() || path.ends_with("[]") || path.ends_with("{}");
        assert!(described || path.matches('.').count() < 2, "{path} says nothing of itself");
        assert!(
            schema.get("type").is_some() || schema.get("x-kubernetes-int-or-string").is_some(),
            "{path} has no type"
        );
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            walk(&format!("{path}.{name}"), property);
        }
        if schema["items"].is_object() {
            walk(&format!("{path}[]"), &schema["items"]);
        }
        if schema["additionalProperties"].is_object() {
            walk(&format!("{path}{{}}"), &schema["additionalProperties"]);
        }
    }
    for crd in CRDS.iter() {
        walk(&crd.spec.names.kind, &schema(&crd.spec.names.kind, ""));
    }
}
