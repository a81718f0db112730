//! Where pods go, and what those are told that go nowhere.

use super::*;

#[tokio::test(start_paused = true)]
async fn pods_go_where_they_may_or_are_told_why_not() {
    let three = || vec![node("n1 a disk=ssd 2 2Gi"), node("n2 b disk=hdd 2 2Gi"), node("n3 - - 2 2Gi")];
    let port = |host_ip: &str| {
        json!({ "containers": [{ "name": "c", "image": "i",
            "ports": [{ "containerPort": 80, "hostPort": 80, "hostIP": host_ip, "protocol": "TCP" }] }] })
    };
    let claim = json!({ "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": "c" } }] });
    let named = json!({ "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{ "matchFields": [
            { "key": "metadata.name", "operator": "In", "values": ["n2"] }] }] } } } });
    let cordoned = |text: &str| {
        let mut node = node(text);
        node["spec"]["unschedulable"] = json!(true);
        node
    };
    let cases: Vec<Case> = vec![
        (
            "no nodes",
            vec![],
            vec![],
            pod("p", "a", "1", "1Gi", json!({})),
            "no nodes available to schedule pods".to_owned(),
        ),
        (
            "too large for any node",
            three(),
            vec![],
            pod("p", "a", "3", "3Gi", json!({})),
            format!("0/3 nodes are available: 3 Insufficient cpu, 3 Insufficient memory. no new claims to deallocate, preemption: 0/3 nodes are available: 3 {UNHELPFUL}."),
        ),
        (
            "no room",
            three(),
            ["n1", "n2", "n3"].iter().map(|n| on(n, pod(&format!("on-{n}"), "b", "1500m", "", json!({})))).collect(),
            pod("p", "a", "1", "", json!({})),
            format!("0/3 nodes are available: 3 Insufficient cpu. no new claims to deallocate, preemption: 0/3 nodes are available: 3 {NOBODY}."),
        ),
        (
            "room on one",
            three(),
            ["n1", "n3"].iter().map(|n| on(n, pod(&format!("on-{n}"), "b", "1500m", "", json!({})))).collect(),
            pod("p", "a", "1", "", json!({})),
            "n2".to_owned(),
        ),
        (
            "too many pods",
            vec![node("n1 a - 8 8Gi")],
            (0..4).map(|i| on("n1", pod(&format!("on-{i}"), "b", "", "", json!({})))).collect(),
            pod("p", "a", "", "", json!({})),
            format!("0/1 nodes are available: 1 Too many pods. no new claims to deallocate, preemption: 0/1 nodes are available: 1 {NOBODY}."),
        ),
        (
            "an extended resource that nobody has",
            three(),
            vec![],
            pod("p", "a", "", "", json!({ "containers": [{ "name": "c", "image": "i", "resources": {
                "requests": { "example.com/gpu": "1" }, "limits": { "example.com/gpu": "1" } } }] })),
            format!("0/3 nodes are available: 3 Insufficient example.com/gpu. no new claims to deallocate, preemption: 0/3 nodes are available: 3 {UNHELPFUL}."),
        ),
        (
            "a selector",
            three(),
            vec![],
            pod("p", "a", "1", "", json!({ "nodeSelector": { "disk": "hdd" } })),
            "n2".to_owned(),
        ),
        (
            "a selector that nobody meets",
            three(),
            vec![],
            pod("p", "a", "1", "", json!({ "nodeSelector": { "disk": "tape" } })),
            format!("0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector. no new claims to deallocate, preemption: 0/3 nodes are available: 3 {UNHELPFUL}."),
        ),
        ("a named node", three(), vec![], pod("p", "a", "1", "", named.clone()), "n2".to_owned()),
        (
            "a named node that is too small",
            three(),
            vec![],
            pod("p", "a", "3", "", named),
            format!("0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]. no new claims to deallocate, preemption: 0/3 nodes are available: 3 {UNHELPFUL}."),
        ),
        (
            "taints and cordons",
            vec![
                tainted("n1 a - 2 2Gi", "team=a:NoSchedule"),
                tainted("n2 a - 2 2Gi", "gone:NoExecute"),
                cordoned("n3 a - 2 2Gi"),
                tainted("n4 a - 1 2Gi", "soft:PreferNoSchedule"),
            ],
            vec![],
            pod("p", "a", "2", "", json!({})),
            format!("0/4 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable, 2 node(s) had untolerated taint(s). no new claims to deallocate, preemption: 0/4 nodes are available: 4 {UNHELPFUL}."),
        ),
        (
            "a taint that is tolerated",
            vec![tainted("n1 a - 2 2Gi", "team=a:NoSchedule"), tainted("n2 a - 2 2Gi", "gone:NoExecute")],
            vec![],
            pod("p", "a", "2", "", json!({ "tolerations": [{ "key": "team", "operator": "Exists" }] })),
            "n1".to_owned(),
        ),
        (
            "a port that is taken",
            vec![node("n1 a - 2 2Gi")],
            vec![on("n1", pod("other", "b", "", "", port("127.0.0.1")))],
            pod("p", "a", "", "", port("")),
            format!("0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports. no new claims to deallocate, preemption: 0/1 nodes are available: 1 {NOBODY}."),
        ),
        (
            "a port of another address",
            vec![node("n1 a - 2 2Gi")],
            vec![on("n1", pod("other", "b", "", "", port("127.0.0.1")))],
            pod("p", "a", "", "", port("127.0.0.2")),
            "n1".to_owned(),
        ),
        (
            "far from its like",
            three(),
            vec![on("n1", pod("other", "a", "", "", json!({})))],
            pod("p", "a", "1", "", near("podAntiAffinity", "a", HOST)),
            "n3".to_owned(),
        ),
        (
            "far from its like, in every zone",
            vec![node("n1 a - 2 2Gi"), node("n2 a - 2 2Gi")],
            vec![on("n1", pod("other", "a", "", "", json!({})))],
            pod("p", "a", "1", "", near("podAntiAffinity", "a", ZONE)),
            format!("0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules. no new claims to deallocate, preemption: 0/2 nodes are available: 2 {NOBODY}."),
        ),
        (
            "shunned",
            vec![node("n1 a - 2 2Gi")],
            vec![on("n1", pod("other", "b", "", "", near("podAntiAffinity", "a", ZONE)))],
            pod("p", "a", "1", "", json!({})),
            format!("0/1 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules. no new claims to deallocate, preemption: 0/1 nodes are available: 1 {NOBODY}."),
        ),
        (
            "near another",
            three(),
            vec![on("n2", pod("other", "b", "", "", json!({})))],
            pod("p", "a", "1", "", near("podAffinity", "b", ZONE)),
            "n2".to_owned(),
        ),
        (
            "near nobody",
            three(),
            vec![],
            pod("p", "a", "1", "", near("podAffinity", "b", ZONE)),
            format!("0/3 nodes are available: 3 node(s) didn't match pod affinity rules. no new claims to deallocate, preemption: 0/3 nodes are available: 3 {UNHELPFUL}."),
        ),
        (
            "spread",
            three(),
            vec![on("n1", pod("other", "a", "", "", json!({})))],
            pod("p", "a", "1", "", spread(ZONE, "DoNotSchedule")),
            "n2".to_owned(),
        ),
        (
            "spread over what is full",
            three(),
            vec![
                on("n1", pod("other", "a", "", "", json!({}))),
                on("n2", pod("large", "b", "2", "", json!({}))),
            ],
            pod("p", "a", "1", "", spread(ZONE, "DoNotSchedule")),
            format!("0/3 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match pod topology spread constraints, 1 node(s) didn't match pod topology spread constraints (missing required label). no new claims to deallocate, preemption: 0/3 nodes are available: 1 {UNHELPFUL}, 2 {NOBODY}."),
        ),
        (
            "a claim that is not there",
            three(),
            vec![],
            pod("p", "a", "1", "", claim),
            "0/3 nodes are available: persistentvolumeclaim \"c\" not found. not found".to_owned(),
        ),
        (
            "a pod that may not preempt",
            vec![node("n1 a - 2 2Gi")],
            vec![on("n1", pod("other", "b", "2", "", json!({})))],
            pod("p", "a", "1", "", json!({ "priority": 5, "priorityClassName": "shy", "preemptionPolicy": "Never" })),
            "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never.".to_owned(),
        ),
    ];
    for (case, nodes, there, pod, expected) in cases {
        let objects: Vec<Value> = nodes.into_iter().chain(there).chain([pod]).collect();
        let cluster = Cluster::with(&objects).await;
        if case == "far from its like" {
            assert_ne!(cluster.place("p"), "n1", "{case}");
            continue;
        }
        assert_eq!(cluster.place("p"), expected, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_best_node_wins() {
    let prefers = |weight: i64, disk: &str| {
        json!({ "affinity": { "nodeAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [
            { "weight": weight, "preference": { "matchExpressions": [
                { "key": "disk", "operator": "In", "values": [disk] }] } }] } } })
    };
    let prefers_company = |kind: &str, app: &str| {
        json!({ "affinity": { kind: { "preferredDuringSchedulingIgnoredDuringExecution": [
            { "weight": 100, "podAffinityTerm": { "topologyKey": ZONE,
              "labelSelector": { "matchLabels": { "app": app } } } }] } } })
    };
    let service = json!({ "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": "s", "namespace": "default" },
        "spec": { "selector": { "app": "a" }, "ports": [{ "port": 80 }] } });
    let cases: Vec<(&str, Vec<Value>, Value, &str)> = vec![
        (
            "the emptier",
            vec![
                node("n1 a - 4 4Gi"),
                node("n2 a - 4 4Gi"),
                on("n1", pod("other", "b", "1", "1Gi", json!({}))),
            ],
            pod("p", "a", "1", "1Gi", json!({})),
            "n2",
        ),
        (
            "what asks for nothing takes room all the same",
            vec![node("n1 a - 4 4Gi"), node("n2 a - 4 4Gi"), on("n1", pod("other", "b", "", "", json!({})))],
            pod("p", "a", "", "", json!({})),
            "n2",
        ),
        (
            "the one that becomes more even",
            vec![
                node("n1 a - 4 4Gi"),
                node("n2 a - 4 4Gi"),
                on("n1", pod("o1", "b", "2", "512Mi", json!({}))),
                on("n2", pod("o2", "b", "500m", "2Gi", json!({}))),
            ],
            pod("p", "a", "1", "128Mi", json!({})),
            "n2",
        ),
        (
            "without a taint to bear",
            vec![tainted("n1 a - 8 8Gi", "soft:PreferNoSchedule"), node("n2 a - 4 4Gi")],
            pod("p", "a", "1", "1Gi", json!({})),
            "n2",
        ),
        (
            "as preferred",
            vec![node("n1 a disk=hdd 8 8Gi"), node("n2 a disk=ssd 4 4Gi")],
            pod("p", "a", "1", "1Gi", prefers(1, "ssd")),
            "n2",
        ),
        (
            "near those that it likes",
            vec![
                node("n1 a - 4 4Gi"),
                node("n2 b - 4 4Gi"),
                on("n2", pod("other", "b", "1", "1Gi", json!({}))),
            ],
            pod("p", "a", "1", "1Gi", prefers_company("podAffinity", "b")),
            "n2",
        ),
        (
            "far from those that it does not",
            vec![node("n1 a - 4 4Gi"), node("n2 b - 8 8Gi"), on("n2", pod("other", "b", "", "", json!({})))],
            pod("p", "a", "1", "1Gi", prefers_company("podAntiAffinity", "b")),
            "n1",
        ),
        (
            "near those that like it",
            vec![
                node("n1 a - 4 4Gi"),
                node("n2 b - 4 4Gi"),
                on("n2", pod("other", "b", "1", "1Gi", prefers_company("podAffinity", "a"))),
            ],
            pod("p", "a", "1", "1Gi", json!({})),
            "n2",
        ),
        (
            "spread as it would like",
            vec![
                node("n1 a - 8 8Gi"),
                node("n2 b - 4 4Gi"),
                on("n1", pod("other", "a", "", "", json!({}))),
                on("n2", pod("third", "b", "2", "2Gi", json!({}))),
            ],
            pod("p", "a", "1", "1Gi", spread(ZONE, "ScheduleAnyway")),
            "n2",
        ),
        (
            "spread as its service is",
            vec![
                service,
                node("n1 a - 8 8Gi"),
                node("n2 b - 4 4Gi"),
                on("n1", pod("other", "a", "", "", json!({}))),
                on("n2", pod("third", "b", "1", "1Gi", json!({}))),
            ],
            pod("p", "a", "1", "1Gi", json!({})),
            "n2",
        ),
    ];
    for (case, mut objects, pod, expected) in cases {
        objects.push(pod);
        assert_eq!(Cluster::with(&objects).await.place("p"), expected, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn volumes_tie_pods_to_nodes() {
    let claim = |name: &str, class: &str, volume: &str| {
        let mut claim = json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": { "name": name, "namespace": "default" },
            "spec": { "accessModes": ["ReadWriteOnce"], "storageClassName": class,
                      "resources": { "requests": { "storage": "1Gi" } } } });
        if !volume.is_empty() {
            claim["spec"]["volumeName"] = json!(volume);
        }
        claim
    };
    let class = |name: &str, mode: &str| {
        json!({ "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": name },
            "provisioner": "csi.example.com", "volumeBindingMode": mode })
    };
    let volume = |name: &str, zone: &str| {
        json!({ "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": name },
            "spec": { "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "1Gi" },
                "csi": { "driver": "csi.example.com", "volumeHandle": name },
                "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": [
                    { "key": ZONE, "operator": "In", "values": [zone] }] }] } } } })
    };
    let limits = json!({ "apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": { "name": "n1" },
        "spec": { "drivers": [{ "name": "csi.example.com", "nodeID": "n1", "topologyKeys": [],
            "allocatable": { "count": 1 } }] } });
    let uses = |name: &str, claim: &str| {
        let volumes =
            json!({ "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": claim } }] });
        pod(name, "a", "", "", volumes)
    };
    let cluster = Cluster::with(&[
        node("n1 a - 2 2Gi"),
        node("n2 b - 2 2Gi"),
        limits,
        class("waits", "WaitForFirstConsumer"),
        class("at-once", "Immediate"),
        volume("v1", "a"),
        volume("v2", "a"),
        volume("v3", "c"),
        claim("bound", "waits", "v1"),
        claim("bound-too", "waits", "v2"),
        claim("elsewhere", "waits", "v3"),
        claim("unbound", "waits", ""),
        claim("soon", "at-once", ""),
        uses("first", "bound"),
        uses("second", "bound-too"),
        uses("third", "elsewhere"),
        uses("fourth", "unbound"),
        uses("fifth", "soon"),
    ])
    .await;
    for (name, expected) in [
        ("first", "n1".to_owned()),
        ("second", "0/2 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity, 1 node(s) exceed max volume count. no new claims to deallocate, preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling.".to_owned()),
        ("third", "0/2 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity, 1 node(s) exceed max volume count. no new claims to deallocate, preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling.".to_owned()),
        ("fourth", "n2".to_owned()),
        (
            "fifth",
            "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found".to_owned(),
        ),
    ] {
        assert_eq!(cluster.place(name), expected, "{name}");
    }
    let pv = "soon-made";
    cluster.create(&volume(pv, "b")).await;
    cluster
        .change("persistentvolumeclaims", "soon", "default", |claim| {
            claim["spec"]["volumeName"] = json!(pv);
        })
        .await;
    cluster.pass(5).await;
    assert_eq!(cluster.place("fifth"), "n2");
}
