//! Tables of tables: objects and the cells that kubectl shows for them.

use serde::Deserialize;

use super::*;
use crate::json::{Value, json};
use crate::kinds::Kinds;

fn now() -> Timestamp {
    "2026-01-01T01:00:00Z".parse().unwrap()
}

fn resource(group: &str, plural: &str) -> Resource {
    let kinds = Kinds::built_in();
    let found = kinds.all().find(|resource| resource.group == group && resource.plural == plural);
    (**found.unwrap()).clone()
}

/// With a name, and an hour old.
fn object(fields: &Value) -> Value {
    let mut object = json!({"metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"}});
    for (key, value) in fields.as_object().into_iter().flatten() {
        match (key.as_str(), value.as_object()) {
            ("metadata", Some(fields)) => {
                for (key, value) in fields {
                    object["metadata"][key] = value.clone();
                }
            }
            _ => object[key] = value.clone(),
        }
    }
    object
}

fn cells(group: &str, plural: &str, fields: &Value) -> Value {
    let object = object(fields);
    let table = table(&resource(group, plural), [&object], None, &json!({}), now(), IncludeObject::None);
    let columns = table["columnDefinitions"].as_array().unwrap().len();
    let cells = table["rows"][0]["cells"].clone();
    assert_eq!(cells.as_array().unwrap().len(), columns, "{plural} has a cell for each column");
    cells
}

#[test]
fn kinds_have_cells() {
    let template =
        json!({"spec": {"containers": [{"name": "x", "image": "i"}, {"name": "y", "image": "j"}]}});
    let selector = json!({"matchLabels": {"app": "x"}});
    let rows = [
        (
            "",
            "configmaps",
            json!({"data": {"a": "", "b": ""}, "binaryData": {"c": ""}}),
            json!(["a", 3, "60m"]),
        ),
        ("", "configmaps", json!({"metadata": {"creationTimestamp": null}}), json!(["a", 0, "<unknown>"])),
        ("", "secrets", json!({"type": "Opaque", "data": {"a": ""}}), json!(["a", "Opaque", 1, "60m"])),
        ("", "serviceaccounts", json!({}), json!(["a", "60m"])),
        ("", "namespaces", json!({"status": {"phase": "Active"}}), json!(["a", "Active", "60m"])),
        ("", "limitranges", json!({}), json!(["a", "2026-01-01T00:00:00Z"])),
        ("rbac.authorization.k8s.io", "roles", json!({}), json!(["a", "2026-01-01T00:00:00Z"])),
        ("rbac.authorization.k8s.io", "clusterroles", json!({}), json!(["a", "2026-01-01T00:00:00Z"])),
        (
            "apiextensions.k8s.io",
            "customresourcedefinitions",
            json!({}),
            json!(["a", "2026-01-01T00:00:00Z"]),
        ),
        (
            "",
            "podtemplates",
            json!({"template": {"metadata": {"labels": {"b": "c"}}, "spec": template["spec"]}}),
            json!(["a", "x,y", "i,j", "b=c"]),
        ),
        (
            "",
            "replicationcontrollers",
            json!({"spec": {"replicas": 3, "selector": {"b": "c", "a": "d"}, "template": template}, "status": {"replicas": 2, "readyReplicas": 1}}),
            json!(["a", 3, 2, 1, "60m", "x,y", "i,j", "a=d,b=c"]),
        ),
        (
            "apps",
            "replicasets",
            json!({"spec": {"replicas": 3, "selector": selector, "template": template}, "status": {"replicas": 2}}),
            json!(["a", 3, 2, 0, "60m", "x,y", "i,j", "app=x"]),
        ),
        (
            "apps",
            "daemonsets",
            json!({
                "spec": {"selector": selector, "template": template},
                "status": {"desiredNumberScheduled": 5, "currentNumberScheduled": 4, "numberReady": 3, "updatedNumberScheduled": 2, "numberAvailable": 1},
            }),
            json!(["a", 5, 4, 3, 2, 1, "<none>", "60m", "x,y", "i,j", "app=x"]),
        ),
        (
            "apps",
            "statefulsets",
            json!({"spec": {"replicas": 3, "template": template}, "status": {"readyReplicas": 1}}),
            json!(["a", "1/3", "60m", "x,y", "i,j"]),
        ),
        (
            "apps",
            "deployments",
            json!({"spec": {"replicas": 3, "selector": selector, "template": template}, "status": {"readyReplicas": 1, "updatedReplicas": 2, "availableReplicas": 1}}),
            json!(["a", "1/3", 2, 1, "60m", "x,y", "i,j", "app=x"]),
        ),
        ("apps", "deployments", json!({}), json!(["a", "0/0", 0, 0, "60m", "", "", ""])),
        (
            "apps",
            "controllerrevisions",
            json!({"metadata": {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "controller": true}]}, "revision": 7}),
            json!(["a", "daemonset.apps/d", 7, "60m"]),
        ),
        ("apps", "controllerrevisions", json!({"revision": 1}), json!(["a", "<none>", 1, "60m"])),
        (
            "policy",
            "poddisruptionbudgets",
            json!({"spec": {"minAvailable": "50%"}, "status": {"disruptionsAllowed": 2}}),
            json!(["a", "50%", "N/A", 2, "60m"]),
        ),
        (
            "policy",
            "poddisruptionbudgets",
            json!({"spec": {"maxUnavailable": 1}}),
            json!(["a", "N/A", "1", 0, "60m"]),
        ),
        (
            "coordination.k8s.io",
            "leases",
            json!({"spec": {"holderIdentity": "me"}}),
            json!(["a", "me", "60m"]),
        ),
        ("storage.k8s.io", "csinodes", json!({"spec": {"drivers": [{}, {}]}}), json!(["a", 2, "60m"])),
        (
            "storage.k8s.io",
            "volumeattachments",
            json!({"spec": {"attacher": "csi", "nodeName": "n", "source": {"persistentVolumeName": "v"}}}),
            json!(["a", "csi", "v", "n", false, "60m"]),
        ),
        ("node.k8s.io", "runtimeclasses", json!({"handler": "h"}), json!(["a", "h", "60m"])),
        (
            "admissionregistration.k8s.io",
            "mutatingwebhookconfigurations",
            json!({"webhooks": [{}]}),
            json!(["a", 1, "60m"]),
        ),
        (
            "admissionregistration.k8s.io",
            "validatingwebhookconfigurations",
            json!({}),
            json!(["a", 0, "60m"]),
        ),
        (
            "scheduling.k8s.io",
            "priorityclasses",
            json!({"value": 1000, "globalDefault": true, "preemptionPolicy": "Never"}),
            json!(["a", 1000, true, "60m", "Never"]),
        ),
        (
            "storage.k8s.io",
            "storageclasses",
            json!({"metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}, "provisioner": "p", "reclaimPolicy": "Retain", "volumeBindingMode": "WaitForFirstConsumer", "allowVolumeExpansion": true}),
            json!(["a (default)", "p", "Retain", "WaitForFirstConsumer", true, "60m"]),
        ),
        (
            "storage.k8s.io",
            "storageclasses",
            json!({}),
            json!(["a", "", "Delete", "Immediate", false, "60m"]),
        ),
        (
            "rbac.authorization.k8s.io",
            "rolebindings",
            json!({
                "roleRef": {"kind": "Role", "name": "r"},
                "subjects": [{"kind": "User", "name": "u"}, {"kind": "User", "name": "v"}, {"kind": "Group", "name": "g"}, {"kind": "ServiceAccount", "namespace": "n", "name": "s"}],
            }),
            json!(["a", "Role/r", "60m", "u, v", "g", "n/s"]),
        ),
        (
            "rbac.authorization.k8s.io",
            "clusterrolebindings",
            json!({"roleRef": {"kind": "ClusterRole", "name": "r"}}),
            json!(["a", "ClusterRole/r", "60m", "", "", ""]),
        ),
        (
            "",
            "resourcequotas",
            json!({"status": {"hard": {"pods": "10", "limits.cpu": "4", "cpu": "2"}, "used": {"pods": "3"}}}),
            json!(["a", "cpu: 0/2, pods: 3/10", "limits.cpu: 0/4", "60m"]),
        ),
        (
            "",
            "persistentvolumes",
            json!({
                "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany", "ReadWriteOnce"], "persistentVolumeReclaimPolicy": "Delete", "claimRef": {"namespace": "n", "name": "c"}, "storageClassName": "s", "volumeMode": "Filesystem"},
                "status": {"phase": "Bound"},
            }),
            json!(["a", "1Gi", "RWO,RWX", "Delete", "Bound", "n/c", "s", "<unset>", "", "60m", "Filesystem"]),
        ),
        (
            "",
            "persistentvolumeclaims",
            json!({
                "spec": {"volumeName": "v", "storageClassName": "s", "volumeMode": "Block", "volumeAttributesClassName": "q"},
                "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOncePod"]},
            }),
            json!(["a", "Bound", "v", "1Gi", "RWOP", "s", "q", "60m", "Block"]),
        ),
        (
            "",
            "persistentvolumeclaims",
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:30:00Z"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}, "status": {"phase": "Pending"}}),
            json!(["a", "Terminating", "", "", "", "", "<unset>", "60m", "<unset>"]),
        ),
        (
            "",
            "endpoints",
            json!({"subsets": [{"addresses": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}], "ports": [{"port": 80}, {"port": 443}]}]}),
            json!(["a", "10.0.0.1:80,[fd00::1]:80,10.0.0.1:443 + 1 more...", "60m"]),
        ),
        ("", "endpoints", json!({}), json!(["a", "<none>", "60m"])),
        (
            "",
            "endpoints",
            json!({"subsets": [{"addresses": [{"ip": "10.0.0.1"}]}]}),
            json!(["a", "10.0.0.1", "60m"]),
        ),
        (
            "discovery.k8s.io",
            "endpointslices",
            json!({"addressType": "IPv4", "ports": [{"port": 80}, {"name": "x"}, {}], "endpoints": [{"addresses": ["1.1.1.1", "1.1.1.2"]}, {"addresses": ["1.1.1.3", "1.1.1.4"]}]}),
            json!(["a", "IPv4", "80,x,*", "1.1.1.1,1.1.1.2,1.1.1.3 + 1 more...", "60m"]),
        ),
        (
            "discovery.k8s.io",
            "endpointslices",
            json!({"addressType": "IPv4"}),
            json!(["a", "IPv4", "<unset>", "<unset>", "60m"]),
        ),
    ];
    for (group, plural, fields, expected) in rows {
        assert_eq!(cells(group, plural, &fields), expected, "{plural} {fields}");
    }
}

#[test]
fn pods_are_told_in_a_word() {
    let running = json!({"ready": true, "state": {"running": {}}, "restartCount": 0});
    let done = json!({"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}});
    let failed = json!({"state": {"terminated": {"exitCode": 1, "reason": "Error"}}});
    let waiting = |why: &str| json!({"state": {"waiting": {"reason": why}}});
    let init = |statuses: Value| json!({"phase": "Pending", "initContainerStatuses": statuses});
    let rows = [
        (json!({}), json!({"phase": "Pending"}), ["0/2", "Pending", "0"]),
        (json!({}), json!({"phase": "Failed", "reason": "Evicted"}), ["0/2", "Evicted", "0"]),
        (
            json!({}),
            json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}),
            ["0/2", "SchedulingGated", "0"],
        ),
        (
            json!({}),
            json!({"phase": "Running", "containerStatuses": [running, running]}),
            ["2/2", "Running", "0"],
        ),
        (
            json!({}),
            json!({"phase": "Pending", "containerStatuses": [waiting("ContainerCreating")]}),
            ["0/2", "ContainerCreating", "0"],
        ),
        (
            json!({}),
            json!({"phase": "Running", "containerStatuses": [
                {"restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {"finishedAt": "2026-01-01T00:55:00Z"}}},
                running,
            ]}),
            ["1/2", "CrashLoopBackOff", "3 (5m ago)"],
        ),
        (
            json!({}),
            json!({"phase": "Succeeded", "containerStatuses": [done, done]}),
            ["0/2", "Completed", "0"],
        ),
        (json!({}), json!({"phase": "Failed", "containerStatuses": [done, failed]}), ["0/2", "Error", "0"]),
        (
            json!({}),
            json!({"phase": "Running", "containerStatuses": [done, running]}),
            ["1/2", "NotReady", "0"],
        ),
        (
            json!({}),
            json!({"phase": "Running", "containerStatuses": [done, running], "conditions": [{"type": "Ready", "status": "True"}]}),
            ["1/2", "Running", "0"],
        ),
        (
            json!({}),
            json!({"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"exitCode": 2}}}]}),
            ["0/2", "ExitCode:2", "0"],
        ),
        (
            json!({}),
            json!({"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"exitCode": 137, "signal": 9}}}]}),
            ["0/2", "Signal:9", "0"],
        ),
        (
            json!({}),
            init(json!([{"state": {"waiting": {"reason": "PodInitializing"}}}])),
            ["0/2", "Init:0/3", "0"],
        ),
        (json!({}), init(json!([done, {"state": {"running": {}}}])), ["0/2", "Init:1/3", "0"]),
        (json!({}), init(json!([waiting("ImagePullBackOff")])), ["0/2", "Init:ImagePullBackOff", "0"]),
        (json!({}), init(json!([failed])), ["0/2", "Init:Error", "0"]),
        (
            json!({}),
            init(json!([{"state": {"terminated": {"exitCode": 3}}}])),
            ["0/2", "Init:ExitCode:3", "0"],
        ),
        (
            json!({}),
            init(
                json!([{"restartCount": 2, "state": {"running": {}}, "lastState": {"terminated": {"finishedAt": "2026-01-01T00:59:00Z"}}}]),
            ),
            ["0/2", "Init:0/3", "2 (60s ago)"],
        ),
        (
            json!({"initContainers": [{"name": "s", "restartPolicy": "Always"}]}),
            json!({"phase": "Running", "initContainerStatuses": [{"name": "s", "started": true, "ready": true, "restartCount": 1}], "containerStatuses": [running, running]}),
            ["3/3", "Running", "1"],
        ),
        (
            json!({"initContainers": [{"name": "s", "restartPolicy": "Always"}]}),
            json!({"phase": "Pending", "initContainerStatuses": [{"name": "s", "state": {"waiting": {"reason": "PodInitializing"}}}]}),
            ["0/3", "Init:0/1", "0"],
        ),
    ];
    for (spec, status, [ready, word, restarts]) in rows {
        let mut fields =
            json!({"spec": {"containers": [{}, {}], "initContainers": [{}, {}, {}]}, "status": status});
        for (key, value) in spec.as_object().unwrap() {
            fields["spec"][key] = value.clone();
        }
        let expected = json!(["a", ready, word, restarts, "60m", "<none>", "<none>", "<none>", "<none>"]);
        assert_eq!(cells("", "pods", &fields), expected, "{fields}");
    }
    let deleted = |status: Value| {
        cells(
            "",
            "pods",
            &json!({"metadata": {"deletionTimestamp": "2026-01-01T00:30:00Z"}, "status": status}),
        )[2]
        .clone()
    };
    assert_eq!(deleted(json!({"phase": "Running"})), "Terminating");
    assert_eq!(deleted(json!({"phase": "Running", "reason": "NodeLost"})), "Unknown");
    assert_eq!(deleted(json!({"phase": "Succeeded"})), "Succeeded");
    let wide = cells(
        "",
        "pods",
        &json!({
            "spec": {"nodeName": "n", "readinessGates": [{"conditionType": "x"}, {"conditionType": "y"}]},
            "status": {"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}], "nominatedNodeName": "m", "conditions": [{"type": "y", "status": "True"}]},
        }),
    );
    assert_eq!(wide, json!(["a", "0/0", "Running", "0", "60m", "10.0.0.1", "n", "m", "1/2"]));
}

#[test]
fn nodes_have_a_status() {
    let ready = |status: &str| json!({"conditions": [{"type": "Ready", "status": status}]});
    for (fields, status, roles) in [
        (json!({}), "Unknown", "<none>"),
        (json!({"status": ready("True")}), "Ready", "<none>"),
        (json!({"status": ready("Unknown")}), "NotReady", "<none>"),
        (
            json!({"status": ready("False"), "spec": {"unschedulable": true}}),
            "NotReady,SchedulingDisabled",
            "<none>",
        ),
        (
            json!({"metadata": {"labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "agent", "node-role.kubernetes.io/": ""}}}),
            "Unknown",
            "agent,worker",
        ),
    ] {
        let expected =
            json!(["a", status, roles, "60m", "", "<none>", "<none>", "<unknown>", "<unknown>", "<unknown>"]);
        assert_eq!(cells("", "nodes", &fields), expected, "{fields}");
    }
    let status = json!({
        "addresses": [{"type": "Hostname", "address": "a"}, {"type": "InternalIP", "address": "10.0.0.1"}, {"type": "ExternalIP", "address": "1.2.3.4"}],
        "nodeInfo": {"kubeletVersion": "v1.36.4", "osImage": "Linux", "kernelVersion": "6.1", "architecture": "arm64", "containerRuntimeVersion": "containerd://2"},
    });
    assert_eq!(
        cells("", "nodes", &json!({"status": status})),
        json!([
            "a",
            "Unknown",
            "<none>",
            "60m",
            "v1.36.4",
            "10.0.0.1",
            "1.2.3.4",
            "Linux",
            "6.1 (arm64)",
            "containerd://2"
        ])
    );
}

#[test]
fn services_have_addresses() {
    let ingress = json!({"loadBalancer": {"ingress": [{"hostname": "b.example.com"}, {"ip": "1.2.3.4"}]}});
    for (spec, status, cluster, external, ports) in [
        (json!({"type": "ClusterIP", "clusterIPs": ["10.0.0.1"]}), json!({}), "10.0.0.1", "<none>", "<none>"),
        (
            json!({"type": "ClusterIP", "clusterIPs": ["None"], "externalIPs": ["1.1.1.1", "2.2.2.2"]}),
            json!({}),
            "None",
            "1.1.1.1,2.2.2.2",
            "<none>",
        ),
        (
            json!({"type": "NodePort", "clusterIP": "10.0.0.1", "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]}),
            json!({}),
            "10.0.0.1",
            "<none>",
            "80:30080/TCP,53/UDP",
        ),
        (json!({"type": "LoadBalancer"}), json!({}), "<none>", "<pending>", "<none>"),
        (json!({"type": "LoadBalancer"}), ingress.clone(), "<none>", "1.2.3.4,b.example.com", "<none>"),
        (
            json!({"type": "LoadBalancer", "externalIPs": ["9.9.9.9"]}),
            ingress,
            "<none>",
            "1.2.3.4,b.example.com,9.9.9.9",
            "<none>",
        ),
        (json!({"type": "ExternalName", "externalName": "x.y"}), json!({}), "<none>", "x.y", "<none>"),
    ] {
        let expected = json!(["a", spec["type"], cluster, external, ports, "60m", "<none>"]);
        assert_eq!(cells("", "services", &json!({"spec": spec, "status": status})), expected);
    }
}

#[test]
fn jobs_have_a_status() {
    let condition = |kind: &str| json!([{"type": kind, "status": "True"}]);
    let start = "2026-01-01T00:58:00Z";
    for (spec, status, word, completions, duration) in [
        (json!({}), json!({}), "Running", "0/1", ""),
        (json!({"completions": 3}), json!({"succeeded": 1, "startTime": start}), "Running", "1/3", "2m"),
        (
            json!({"parallelism": 3}),
            json!({"startTime": start, "completionTime": "2026-01-01T00:58:30Z"}),
            "Running",
            "0/1 of 3",
            "30s",
        ),
        (json!({}), json!({"conditions": condition("Complete")}), "Complete", "0/1", ""),
        (json!({}), json!({"conditions": condition("Failed")}), "Failed", "0/1", ""),
        (json!({}), json!({"conditions": condition("Suspended")}), "Suspended", "0/1", ""),
        (json!({}), json!({"conditions": condition("FailureTarget")}), "FailureTarget", "0/1", ""),
        (json!({}), json!({"conditions": condition("SuccessCriteriaMet")}), "SuccessCriteriaMet", "0/1", ""),
    ] {
        let fields = json!({"spec": spec, "status": status});
        let expected = json!(["a", word, completions, duration, "60m", "", "", "<none>"]);
        assert_eq!(cells("batch", "jobs", &fields), expected, "{fields}");
    }
    let dying = json!({"metadata": {"deletionTimestamp": start}});
    assert_eq!(cells("batch", "jobs", &dying)[1], "Terminating");
    for (fields, expected) in [
        (
            json!({"spec": {"schedule": "* * * * *"}}),
            json!(["a", "* * * * *", "<none>", "<unset>", 0, "<none>"]),
        ),
        (
            json!({"spec": {"schedule": "@daily", "suspend": false, "timeZone": "Europe/Berlin"}, "status": {"active": [{}], "lastScheduleTime": start}}),
            json!(["a", "@daily", "Europe/Berlin", "False", 1, "2m"]),
        ),
    ] {
        let cells = cells("batch", "cronjobs", &fields);
        assert_eq!(json!(cells.as_array().unwrap()[..6]), expected);
    }
}

#[test]
fn events_are_of_once_or_of_a_series() {
    let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-01T00:59:00Z");
    let core = json!({
        "firstTimestamp": early, "lastTimestamp": late, "count": 4, "type": "Normal", "reason": "Killing", "message": " Stopping \n",
        "involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "spec.containers{x}"}, "source": {"component": "kubelet", "host": "n"},
    });
    let of_core = json!([
        "60s",
        "Normal",
        "Killing",
        "pod/p",
        "spec.containers{x}",
        "kubelet, n",
        "Stopping",
        "60m",
        4,
        "a"
    ]);
    assert_eq!(cells("", "events", &core), of_core);
    let new = json!({
        "eventTime": early, "type": "Warning", "reason": "X", "message": "Said", "involvedObject": {"kind": "Node"},
        "reportingComponent": "c", "series": {"count": 9, "lastObservedTime": late},
    });
    let of_new = json!(["60s", "Warning", "X", "node", "", "c", "Said", "60m", 9, "a"]);
    assert_eq!(cells("events.k8s.io", "events", &new), of_new);
    let single = json!({"eventTime": late, "involvedObject": {"kind": "Pod"}, "reportingComponent": "c", "reportingInstance": "i"});
    assert_eq!(cells("", "events", &single), json!(["60s", "", "", "pod", "", "c, i", "", "60s", 1, "a"]));
}

#[test]
fn autoscalers_show_two_metrics() {
    let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 80}}});
    let of_cpu = json!({"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 50, "averageValue": "100m"}}});
    let memory = json!({"type": "ContainerResource", "containerResource": {"name": "memory", "target": {"averageValue": "1Gi"}}});
    let of_memory =
        json!({"type": "ContainerResource", "containerResource": {"current": {"averageValue": "512Mi"}}});
    let pods = json!({"type": "Pods", "pods": {"target": {"averageValue": "5"}}});
    let external = |target: Value| json!({"type": "External", "external": {"target": target}});
    let of_external = |current: Value| json!({"type": "External", "external": {"current": current}});
    for (specs, statuses, expected) in [
        (json!([]), json!([]), "<none>"),
        (json!([cpu]), json!([]), "cpu: <unknown>/80%"),
        (json!([cpu]), json!([of_cpu]), "cpu: 50%/80%"),
        (
            json!([{"type": "Resource", "resource": {"name": "cpu", "target": {}}}]),
            json!([]),
            "cpu: <unknown>/<auto>",
        ),
        (json!([memory]), json!([of_memory]), "memory: 512Mi/1Gi"),
        (json!([pods]), json!([]), "<unknown>/5"),
        (json!([pods]), json!([{"pods": {"current": {"averageValue": "3"}}}]), "3/5"),
        (json!([external(json!({"value": "10"}))]), json!([of_external(json!({"value": "4"}))]), "4/10"),
        (
            json!([external(json!({"averageValue": "10"}))]),
            json!([of_external(json!({"value": "0"}))]),
            "<unknown>/10 (avg)",
        ),
        (json!([{"type": "New"}]), json!([]), "<unknown type>"),
        (json!([cpu, memory, pods]), json!([of_cpu]), "cpu: 50%/80%, memory: <unknown>/1Gi + 1 more..."),
    ] {
        let fields = json!({
            "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "d"}, "maxReplicas": 9, "metrics": specs},
            "status": {"currentReplicas": 2, "currentMetrics": statuses},
        });
        let expected = json!(["a", "Deployment/d", expected, "<unset>", 9, 2, "60m"]);
        assert_eq!(cells("autoscaling", "horizontalpodautoscalers", &fields), expected);
    }
}

#[test]
fn every_built_in_kind_has_a_table() {
    for resource in Kinds::built_in().all() {
        cells(&resource.group, &resource.plural, &json!({}));
    }
}

#[test]
fn custom_resources_have_the_columns_of_their_definition() {
    let column = |name: &str, kind: &str, path: &str| PrinterColumn {
        name: name.to_owned(),
        kind: kind.to_owned(),
        json_path: path.to_owned(),
        description: String::new(),
        format: String::new(),
        priority: 0,
    };
    let object = object(&json!({
        "spec": {
            "text": "x", "number": 1.5, "whole": 3, "flag": true, "list": ["<", 2], "map": {"k": "v"}, "none": null,
            "time": "2026-01-01T00:30:00Z",
        },
        "status": {"conditions": [{"type": "Synced", "status": "False"}, {"type": "Ready", "status": "True"}]},
    }));
    let widgets = Resource {
        group: "example.com".into(),
        kind: "Widget".into(),
        is_custom: true,
        ..resource("", "pods")
    };
    let shown = |columns: &[PrinterColumn]| {
        table(&widgets, [&object], Some(columns), &json!({}), now(), IncludeObject::None)
    };
    for (kind, path, expected) in [
        ("string", ".spec.text", json!("x")),
        ("string", ".spec.number", json!("1.5")),
        ("string", ".spec.whole", json!("3")),
        ("string", ".spec.flag", json!("true")),
        ("string", ".spec.list", json!("[\"\\u003c\",2]")),
        ("string", ".spec.map", json!("{\"k\":\"v\"}")),
        ("string", ".spec.none", json!("<no value>")),
        ("string", ".spec.missing", json!(null)),
        ("string", ".spec.list[*]", json!("<")),
        ("string", ".spec.list[5]", json!(null)),
        ("string", ".status.conditions[?(@.type==\"Ready\")].status", json!("True")),
        ("integer", ".spec.whole", json!(3)),
        ("integer", ".spec.number", json!(1)),
        ("integer", ".spec.text", json!(null)),
        ("number", ".spec.number", json!(1.5)),
        ("number", ".spec.whole", json!(3)),
        ("boolean", ".spec.flag", json!(true)),
        ("boolean", ".spec.text", json!(null)),
        ("date", ".metadata.creationTimestamp", json!("60m")),
        ("date", ".spec.time", json!("30m")),
        ("date", ".spec.text", json!("<invalid>")),
        ("date", ".spec.whole", json!(null)),
        ("date", ".spec.missing", json!(null)),
    ] {
        let table = shown(&[column("C", kind, path)]);
        assert_eq!(table["rows"][0]["cells"], json!(["a", expected]), "{kind} {path}");
        let description = format!("Custom resource definition column (in JSONPath format): {path}");
        let definition =
            json!({"name": "C", "type": kind, "format": "", "description": description, "priority": 0});
        assert_eq!(table["columnDefinitions"][1], definition);
    }
    let by_default = shown(&[]);
    assert_eq!(by_default["rows"][0]["cells"], json!(["a", "60m"]));
    assert_eq!(by_default["columnDefinitions"][1]["type"], "date");
    let broken = shown(&[
        column("A", "string", ".spec.text"),
        column("B", "string", "no path"),
        column("C", "string", ".spec.text"),
    ]);
    assert_eq!(broken["rows"][0]["cells"], json!(["a", "x"]));
    let read: PrinterColumn =
        PrinterColumn::deserialize(&json!({"name": "A", "type": "string", "jsonPath": ".a", "priority": 1}))
            .unwrap();
    assert_eq!(read, PrinterColumn { priority: 1, ..column("A", "string", ".a") });
}

#[test]
fn tables_say_what_they_are_about() {
    let pod = object(&json!({"status": {"phase": "Succeeded"}}));
    let pods = resource("", "pods");
    let meta = json!({"resourceVersion": "5", "continue": "c", "remainingItemCount": 3});
    let of = |include| table(&pods, [&pod], None, &meta, now(), include);
    let plain = of(IncludeObject::None);
    assert_eq!(
        (&plain["kind"], &plain["apiVersion"], &plain["metadata"]),
        (&json!("Table"), &json!("meta.k8s.io/v1"), &meta)
    );
    assert_eq!(plain["columnDefinitions"][1]["name"], "Ready");
    let completed = json!([{"type": "Completed", "status": "True", "reason": "Succeeded", "message": "The pod has completed successfully."}]);
    assert_eq!(plain["rows"][0]["conditions"], completed);
    assert_eq!(plain["rows"][0]["object"], Value::Null);
    let partial =
        json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": pod["metadata"]});
    assert_eq!(of(IncludeObject::Metadata)["rows"][0]["object"], partial);
    let whole =
        json!({"kind": "Pod", "apiVersion": "v1", "metadata": pod["metadata"], "status": pod["status"]});
    assert_eq!(of(IncludeObject::Object)["rows"][0]["object"], whole);

    let empty =
        |resource: &Resource| table(resource, [], None, &meta, now(), IncludeObject::None)["rows"].clone();
    assert_eq!(empty(&pods), json!([]));
    assert_eq!(empty(&resource("", "limitranges")), Value::Null);

    for (text, expected) in [
        ("", Some(IncludeObject::Metadata)),
        ("None", Some(IncludeObject::None)),
        ("Object", Some(IncludeObject::Object)),
        ("x", None),
    ] {
        assert_eq!(IncludeObject::parse(text).ok(), expected);
    }
    assert_eq!(
        IncludeObject::parse("x").unwrap_err().message,
        "Unable to convert to Table as requested: includeObject: Invalid value: \"x\": must be 'Metadata', 'Object', 'None', or empty"
    );
}
