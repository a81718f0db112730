//! What the server writes into built-in objects where their authors said nothing.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use berth_core::units::format_binary;

use crate::json::{Map, Value, json};
use crate::kinds::Resource;
use crate::life::of_containers;

/// Completes a built-in object. Custom resources have their defaults in their schemas.
pub(crate) fn complete(resource: &Resource, object: &mut Value) {
    match (&*resource.group, &*resource.kind) {
        ("", "Pod") => {
            at(object, "spec", |spec| {
                unless_set(spec, "enableServiceLinks", json!(true));
                pod_spec(spec);
                // Less than no time is as little as there is.
                if spec["terminationGracePeriodSeconds"].as_i64().is_some_and(|secs| secs < 0) {
                    spec["terminationGracePeriodSeconds"] = json!(1);
                }
                for list in ["initContainers", "containers"] {
                    each(spec, list, ask_for_limits);
                }
                ask_as_whole(spec);
                if spec["hostNetwork"] == true {
                    for list in ["initContainers", "containers"] {
                        each(spec, list, listen_on_host);
                    }
                }
            });
        }
        ("", "PodTemplate") => at(object, "template", template),
        ("", "ReplicationController") => at(object, "spec", |spec| {
            unless_set(spec, "replicas", json!(1));
            at(spec, "template", template);
        }),
        ("", "LimitRange") => at(object, "spec", |spec| each(spec, "limits", limit)),
        ("", "Namespace") => at(object, "metadata", |metadata| {
            let name = metadata
                .get("name")
                .cloned()
                .filter(|name| name.as_str().is_some_and(|name| !name.is_empty()));
            if let Some(name) = name {
                at(metadata, "labels", |labels| {
                    if let Some(labels) = labels.as_object_mut() {
                        labels.insert("kubernetes.io/metadata.name", name);
                    }
                });
            }
        }),
        ("", "Secret") => secret(object),
        ("", "Node") => node(object),
        ("", "PersistentVolumeClaim") => at(object, "spec", claim),
        ("", "PersistentVolume") => at(object, "spec", |spec| {
            unless_set(spec, "persistentVolumeReclaimPolicy", json!("Retain"));
            unless_set(spec, "volumeMode", json!("Filesystem"));
        }),
        ("", "Service") => at(object, "spec", service),
        ("apps", kind) => at(object, "spec", |spec| workload(kind, spec)),
        ("batch", "Job") => at(object, "spec", |spec| {
            job(spec);
            unless_set(spec, "parallelism", json!(1));
        }),
        ("batch", "CronJob") => at(object, "spec", |spec| {
            unless_set(spec, "concurrencyPolicy", json!("Allow"));
            unless_set(spec, "suspend", json!(false));
            unless_set(spec, "successfulJobsHistoryLimit", json!(3));
            unless_set(spec, "failedJobsHistoryLimit", json!(1));
            at(spec, "jobTemplate", |job_template| {
                at(job_template, "spec", |spec| {
                    within(spec, "podFailurePolicy", failure_policy);
                    at(spec, "template", template);
                });
            });
        }),
        ("networking.k8s.io", "NetworkPolicy") => at(object, "spec", network_policy),
        ("networking.k8s.io", "IngressClass") => at(object, "spec", |spec| {
            within(spec, "parameters", |parameters| unless_set(parameters, "scope", json!("Cluster")));
        }),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => {
            at(object, "roleRef", |of| unless_given(of, "apiGroup", "rbac.authorization.k8s.io"));
            each(object, "subjects", |subject| {
                if matches!(subject["kind"].as_str(), Some("User" | "Group")) {
                    unless_given(subject, "apiGroup", "rbac.authorization.k8s.io");
                }
            });
        }
        ("rbac.authorization.k8s.io", "Role" | "ClusterRole") => {
            if let Some(fields) = object.as_object_mut() {
                // A list without any rules is kept as none, which is told.
                let rules = fields.entry("rules").or_insert(Value::Null);
                if rules.as_array().is_some_and(Vec::is_empty) {
                    *rules = Value::Null;
                }
            }
        }
        ("scheduling.k8s.io", "PriorityClass") => {
            unless_set(object, "preemptionPolicy", json!("PreemptLowerPriority"));
        }
        ("admissionregistration.k8s.io", kind) => each(object, "webhooks", |hook| webhook(kind, hook)),
        ("storage.k8s.io", "StorageClass") => {
            unless_set(object, "reclaimPolicy", json!("Delete"));
            unless_set(object, "volumeBindingMode", json!("Immediate"));
        }
        _ => {}
    }
}

/// Does something with a field that is an object; one that is missing is made.
fn at(object: &mut Value, field: &str, complete: impl FnOnce(&mut Value)) {
    let Some(fields) = object.as_object_mut() else { return };
    let value = fields.entry(field).or_insert_with(|| json!({}));
    if value.is_null() {
        *value = json!({});
    }
    complete(value);
}

/// Does something with a field if it is there.
fn within(object: &mut Value, field: &str, complete: impl FnOnce(&mut Value)) {
    if let Some(value) = object.get_mut(field).filter(|value| value.is_object()) {
        complete(value);
    }
}

fn each(object: &mut Value, field: &str, complete: impl Fn(&mut Value)) {
    let items = object.get_mut(field).and_then(Value::as_array_mut);
    items.into_iter().flatten().for_each(complete);
}

fn unless_set(object: &mut Value, field: &str, value: Value) {
    if object.is_object() && object[field].is_null() {
        object[field] = value;
    }
}

fn unless_given(object: &mut Value, field: &str, value: &str) {
    if object[field].as_str().unwrap_or_default().is_empty() {
        object[field] = json!(value);
    }
}

fn node(node: &mut Value) {
    at(node, "spec", |spec| {
        // The one network that older clients know is the first of those that newer ones do.
        let first = spec["podCIDRs"][0].clone();
        match spec["podCIDR"].as_str().map(str::to_owned) {
            Some(network) if !network.is_empty() && first != json!(network) => {
                spec["podCIDRs"] = json!([network]);
            }
            None if !first.is_null() => spec["podCIDR"] = first,
            _ => {}
        }
        if spec["podCIDRs"].is_null()
            && let Some(fields) = spec.as_object_mut()
        {
            fields.remove("podCIDRs");
        }
    });
    at(node, "status", |status| {
        if status["allocatable"].is_null() && !status["capacity"].is_null() {
            status["allocatable"] = status["capacity"].clone();
        }
        if status["allocatable"].is_null()
            && let Some(fields) = status.as_object_mut()
        {
            fields.remove("allocatable");
            fields.remove("capacity");
        }
    });
}

/// What a container may have at most it has by default, and asks for; at least what it must.
fn limit(limit: &mut Value) {
    if limit["type"] != "Container" {
        return;
    }
    for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
        let amounts: Map = limit[from].as_object().cloned().unwrap_or_default();
        if !amounts.is_empty() {
            at(limit, to, |into| {
                amounts.into_iter().for_each(|(name, amount)| unless_set(into, &name, amount));
            });
        }
    }
}

fn workload(kind: &str, spec: &mut Value) {
    match kind {
        "Deployment" => {
            unless_set(spec, "replicas", json!(1));
            unless_set(spec, "revisionHistoryLimit", json!(10));
            unless_set(spec, "progressDeadlineSeconds", json!(600));
            at(spec, "strategy", |strategy| {
                unless_set(strategy, "type", json!("RollingUpdate"));
                if strategy["type"] == "RollingUpdate" {
                    at(strategy, "rollingUpdate", |update| {
                        unless_set(update, "maxUnavailable", json!("25%"));
                        unless_set(update, "maxSurge", json!("25%"));
                    });
                }
            });
        }
        "ReplicaSet" => unless_set(spec, "replicas", json!(1)),
        "StatefulSet" => {
            unless_set(spec, "replicas", json!(1));
            unless_set(spec, "revisionHistoryLimit", json!(10));
            unless_set(spec, "podManagementPolicy", json!("OrderedReady"));
            at(spec, "updateStrategy", |strategy| {
                unless_set(strategy, "type", json!("RollingUpdate"));
                if strategy["type"] == "RollingUpdate" {
                    at(strategy, "rollingUpdate", |update| unless_set(update, "partition", json!(0)));
                }
            });
            at(spec, "persistentVolumeClaimRetentionPolicy", |policy| {
                unless_set(policy, "whenDeleted", json!("Retain"));
                unless_set(policy, "whenScaled", json!("Retain"));
            });
            each(spec, "volumeClaimTemplates", |claim_template| {
                unless_set(claim_template, "apiVersion", json!("v1"));
                unless_set(claim_template, "kind", json!("PersistentVolumeClaim"));
                at(claim_template, "status", |status| unless_given(status, "phase", "Pending"));
                at(claim_template, "spec", claim);
            });
        }
        "DaemonSet" => {
            unless_set(spec, "revisionHistoryLimit", json!(10));
            at(spec, "updateStrategy", |strategy| {
                unless_set(strategy, "type", json!("RollingUpdate"));
                if strategy["type"] == "RollingUpdate" {
                    at(strategy, "rollingUpdate", |update| {
                        unless_set(update, "maxUnavailable", json!(1));
                        unless_set(update, "maxSurge", json!(0));
                    });
                }
            });
        }
        _ => return,
    }
    at(spec, "template", template);
}

fn job(spec: &mut Value) {
    unless_set(spec, "completionMode", json!("NonIndexed"));
    unless_set(spec, "suspend", json!(false));
    unless_set(spec, "backoffLimit", json!(6));
    let replaced = if spec["podFailurePolicy"].is_null() { "TerminatingOrFailed" } else { "Failed" };
    unless_set(spec, "podReplacementPolicy", json!(replaced));
    within(spec, "podFailurePolicy", failure_policy);
    // A job that says nothing of how many runs one pod to its end.
    if spec.get("completions").is_none() && spec.get("parallelism").is_none() {
        unless_set(spec, "completions", json!(1));
    }
    at(spec, "template", template);
}

fn failure_policy(policy: &mut Value) {
    each(policy, "rules", |rule| {
        each(rule, "onPodConditions", |pattern| unless_given(pattern, "status", "True"));
    });
}

fn template(template: &mut Value) {
    at(template, "metadata", |_| {});
    at(template, "spec", pod_spec);
}

fn pod_spec(spec: &mut Value) {
    unless_set(spec, "restartPolicy", json!("Always"));
    unless_set(spec, "dnsPolicy", json!("ClusterFirst"));
    unless_set(spec, "schedulerName", json!("default-scheduler"));
    unless_set(spec, "terminationGracePeriodSeconds", json!(30));
    unless_set(spec, "securityContext", json!({}));
    for list in ["initContainers", "containers"] {
        each(spec, list, container);
    }
    each(spec, "volumes", volume);
    each(spec, "topologySpreadConstraints", |constraint| {
        unless_set(constraint, "maxSkew", json!(1));
    });
}

fn container(container: &mut Value) {
    let image = container.get("image").and_then(Value::as_str).unwrap_or_default();
    let policy = if has_fixed_version(image) { "IfNotPresent" } else { "Always" };
    unless_set(container, "imagePullPolicy", json!(policy));
    unless_set(container, "terminationMessagePath", json!("/dev/termination-log"));
    unless_set(container, "terminationMessagePolicy", json!("File"));
    at(container, "resources", |_| {});
    each(container, "ports", |port| unless_given(port, "protocol", "TCP"));
    each(container, "env", |variable| {
        within(variable, "valueFrom", |source| {
            within(source, "fieldRef", |field| unless_set(field, "apiVersion", json!("v1")));
        });
    });
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        within(container, probe, |probe| {
            for (field, value) in [
                ("timeoutSeconds", 1),
                ("periodSeconds", 10),
                ("successThreshold", 1),
                ("failureThreshold", 3),
            ] {
                unless_set(probe, field, json!(value));
            }
            within(probe, "httpGet", http_get);
            within(probe, "grpc", |grpc| unless_set(grpc, "service", json!("")));
        });
    }
    within(container, "lifecycle", |lifecycle| {
        for handler in ["postStart", "preStop"] {
            within(lifecycle, handler, |handler| within(handler, "httpGet", http_get));
        }
    });
}

fn http_get(get: &mut Value) {
    unless_given(get, "path", "/");
    unless_given(get, "scheme", "HTTP");
}

/// A container that is on its machine's own network has its ports there.
fn listen_on_host(container: &mut Value) {
    each(container, "ports", |port| {
        if port["hostPort"].as_i64().unwrap_or(0) == 0 {
            port["hostPort"] = port["containerPort"].clone();
        }
    });
}

/// Who limits a resource and says nothing more asks for as much: a pod does, a template not yet.
fn ask_for_limits(container: &mut Value) {
    at(container, "resources", |resources| {
        let limits: Map = resources["limits"].as_object().cloned().unwrap_or_default();
        if !limits.is_empty() {
            at(resources, "requests", |requests| {
                limits.into_iter().for_each(|(name, amount)| unless_set(requests, &name, amount));
            });
        }
    });
}

/// A pod that limits itself as a whole, and does not say what it asks for, asks for what its containers do, or else
/// for its limits.
fn ask_as_whole(spec: &mut Value) {
    let limits: Map = spec["resources"]["limits"].as_object().cloned().unwrap_or_default();
    if limits.is_empty() {
        return;
    }
    let of_containers = ["cpu", "memory"].map(|name| (name, asked_by_containers(spec, name)));
    within(spec, "resources", |resources| {
        at(resources, "requests", |requests| {
            for (name, amount) in of_containers {
                if let Some(amount) = amount {
                    unless_set(requests, name, amount);
                }
            }
            limits.into_iter().for_each(|(name, amount)| unless_set(requests, &name, amount));
        });
    });
}

/// As it is written where one container alone asks for it.
fn asked_by_containers(spec: &Value, name: &str) -> Option<Value> {
    let lists = ["initContainers", "containers"];
    let containers = lists.iter().filter_map(|list| spec[*list].as_array()).flatten();
    let mut asked = containers.filter_map(|container| container["resources"]["requests"].get(name));
    let (first, more) = (asked.next()?, asked.next().is_some());
    if !more {
        return Some(first.clone());
    }
    let together = of_containers(spec).get(name);
    let is_binary = first.as_str().is_some_and(|amount| amount.ends_with('i'));
    Some(json!(match name {
        "cpu" if together % 1000 != 0 => format!("{together}m"),
        "cpu" => (together / 1000).to_string(),
        _ if is_binary => format_binary(together),
        _ => together.to_string(),
    }))
}

/// An image without a tag is the latest, which may be another one tomorrow.
fn has_fixed_version(image: &str) -> bool {
    if image.contains('@') {
        return true;
    }
    let last = image.rsplit('/').next().unwrap_or_default();
    last.split_once(':').is_some_and(|(_, tag)| tag != "latest")
}

fn volume(volume: &mut Value) {
    for kind in ["configMap", "secret", "projected", "downwardAPI"] {
        within(volume, kind, |source| unless_set(source, "defaultMode", json!(420)));
    }
    within(volume, "hostPath", |path| unless_set(path, "type", json!("")));
    within(volume, "downwardAPI", downward_files);
    within(volume, "projected", |projected| {
        each(projected, "sources", |source| {
            within(source, "downwardAPI", downward_files);
            within(source, "serviceAccountToken", |token| {
                unless_set(token, "expirationSeconds", json!(3600));
            });
        });
    });
    within(volume, "ephemeral", |ephemeral| {
        within(ephemeral, "volumeClaimTemplate", |template| at(template, "spec", claim));
    });
    within(volume, "image", |image| {
        let is_fixed = has_fixed_version(image["reference"].as_str().unwrap_or_default());
        unless_given(image, "pullPolicy", if is_fixed { "IfNotPresent" } else { "Always" });
    });
    // A volume of nothing is an empty directory.
    if let Some(fields) = volume.as_object_mut()
        && fields.iter().all(|(field, value)| field == "name" || value.is_null())
    {
        fields.insert("emptyDir", json!({}));
    }
}

fn downward_files(source: &mut Value) {
    each(source, "items", |file| {
        within(file, "fieldRef", |field| unless_set(field, "apiVersion", json!("v1")));
    });
}

fn webhook(kind: &str, hook: &mut Value) {
    unless_set(hook, "failurePolicy", json!("Fail"));
    unless_set(hook, "matchPolicy", json!("Equivalent"));
    unless_set(hook, "namespaceSelector", json!({}));
    unless_set(hook, "objectSelector", json!({}));
    unless_set(hook, "timeoutSeconds", json!(10));
    if kind == "MutatingWebhookConfiguration" {
        unless_set(hook, "reinvocationPolicy", json!("Never"));
    }
    each(hook, "rules", |rule| unless_set(rule, "scope", json!("*")));
    within(hook, "clientConfig", |config| {
        within(config, "service", |service| unless_set(service, "port", json!(443)));
    });
}

/// A policy that says what may go out is about both ways, and any other about what may come in.
fn network_policy(spec: &mut Value) {
    at(spec, "podSelector", |_| {});
    for way in ["ingress", "egress"] {
        each(spec, way, |rule| each(rule, "ports", |port| unless_set(port, "protocol", json!("TCP"))));
    }
    let has = |list: &Value| list.as_array().is_some_and(|items| !items.is_empty());
    if !has(&spec["policyTypes"]) {
        let out = has(&spec["egress"]);
        spec["policyTypes"] = if out { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
    }
}

fn claim(spec: &mut Value) {
    unless_set(spec, "volumeMode", json!("Filesystem"));
}

/// What is written as text is kept as bytes.
fn secret(object: &mut Value) {
    unless_set(object, "type", json!("Opaque"));
    let text = object.as_object_mut().and_then(|fields| fields.remove("stringData"));
    for (key, value) in text.as_ref().and_then(Value::as_object).into_iter().flatten() {
        if let Some(text) = value.as_str() {
            at(object, "data", |data| {
                if let Some(fields) = data.as_object_mut() {
                    fields.insert(key.clone(), json!(STANDARD.encode(text)));
                }
            });
        }
    }
}

fn service(spec: &mut Value) {
    if spec["sessionAffinity"] == "ClientIP"
        && spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"].is_null()
    {
        spec["sessionAffinityConfig"] = json!({ "clientIP": { "timeoutSeconds": 10800 } });
    }
    unless_set(spec, "type", json!("ClusterIP"));
    unless_set(spec, "sessionAffinity", json!("None"));
    each(spec, "ports", |port| {
        unless_set(port, "protocol", json!("TCP"));
        if let Some(fields) = port.as_object_mut() {
            // Neither names a port.
            fields.retain(|field, value| field != "targetPort" || (*value != 0 && *value != ""));
        }
        let number = port.get("port").cloned().unwrap_or(Value::Null);
        unless_set(port, "targetPort", number);
    });
    if spec["type"] != "ExternalName" {
        unless_set(spec, "internalTrafficPolicy", json!("Cluster"));
    }
    if spec["type"] == "NodePort" || spec["type"] == "LoadBalancer" {
        unless_set(spec, "externalTrafficPolicy", json!("Cluster"));
    }
    if spec["type"] == "LoadBalancer" {
        unless_set(spec, "allocateLoadBalancerNodePorts", json!(true));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_with_a_fixed_version_are_pulled_once() {
        for (image, fixed) in [
            ("nginx", false),
            ("nginx:latest", false),
            ("nginx:1.27", true),
            ("localhost:5000/nginx", false),
            ("localhost:5000/nginx:1", true),
            ("nginx@sha256:00", true),
            ("", false),
        ] {
            assert_eq!(has_fixed_version(image), fixed, "{image}");
        }
    }

    #[test]
    fn what_is_said_stays() {
        let mut job = json!({"spec": {"parallelism": 2, "template": {"spec": {"restartPolicy": "Never"}}}});
        let kinds = crate::kinds::Kinds::built_in();
        complete(kinds.find("batch", "v1", "jobs").unwrap(), &mut job);
        assert_eq!(job["spec"]["parallelism"], 2);
        assert!(job["spec"].get("completions").is_none());
        assert_eq!(job["spec"]["template"]["spec"]["restartPolicy"], "Never");
        assert_eq!(job["spec"]["template"]["spec"]["dnsPolicy"], "ClusterFirst");
    }
}
