//! Who makes room for whom.

use super::*;

#[tokio::test(start_paused = true)]
async fn the_lower_priority_goes() {
    let low = |name: &str, priority: i64, cpu: &str| pod(name, name, cpu, "", ranked(priority));
    let budget = |app: &str, allowed: i64| {
        json!({ "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": { "name": app, "namespace": "default" },
            "spec": { "selector": { "matchLabels": { "app": app } }, "minAvailable": 1 },
            "status": { "disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1 } })
    };
    let started = |mut pod: Value, time: &str| {
        pod["status"]["startTime"] = json!(time);
        pod
    };
    let two = || vec![node("n1 a - 2 2Gi"), node("n2 a - 2 2Gi")];
    let cases: Vec<(&str, Vec<Value>, &str, Vec<&str>)> = vec![
        (
            "the lowest top priority",
            vec![on("n1", low("x", 5, "2")), on("n2", low("y", 4, "2"))],
            "n2",
            vec!["y"],
        ),
        (
            "as few as will do",
            vec![
                on("n1", low("x", 5, "1")),
                on("n1", low("y", 4, "500m")),
                on("n1", low("z", 3, "500m")),
                on("n2", low("w", 20, "2")),
            ],
            "n1",
            vec!["y", "z"],
        ),
        (
            "no budget overdrawn",
            vec![on("n1", low("x", 1, "2")), on("n2", low("y", 5, "2")), budget("x", 0)],
            "n2",
            vec!["y"],
        ),
        (
            "the protected are spared first",
            vec![
                on("n1", low("x", 1, "1")),
                on("n1", low("y", 5, "1")),
                on("n2", low("w", 20, "2")),
                budget("x", 0),
            ],
            "n1",
            vec!["y"],
        ),
        (
            "the lower sum",
            vec![
                on("n1", low("x", 5, "1")),
                on("n1", low("y", 5, "1")),
                on("n2", low("z", 5, "1500m")),
                on("n2", low("w", 20, "500m")),
            ],
            "n2",
            vec!["z"],
        ),
        (
            "the one that began last",
            vec![
                started(on("n1", low("x", 5, "2")), "2025-12-31T00:00:00Z"),
                started(on("n2", low("y", 5, "2")), "2025-12-31T01:00:00Z"),
            ],
            "n2",
            vec!["y"],
        ),
    ];
    for (case, there, expected, victims) in cases {
        let cpu = if case == "the lower sum" { "1500m" } else { "1" };
        let preemptor = pod("p", "p", cpu, "", ranked(10));
        let objects: Vec<Value> = two().into_iter().chain(there).chain([preemptor]).collect();
        let cluster = Cluster::with(&objects).await;
        let waiting = cluster.pod("p");
        assert_eq!(object::text(&waiting, &["status", "nominatedNodeName"]), expected, "{case}");
        assert_eq!(cluster.place("p"), "0/2 nodes are available: 2 Insufficient cpu.", "{case}");
        let leaving: Vec<String> = {
            let state = cluster.api.state();
            let pods = state.store.list("pods", None).filter(|(_, pod)| object::is_terminating(pod));
            pods.map(|(key, pod)| {
                let condition = &pod["status"]["conditions"][0];
                assert_eq!(condition["type"], "DisruptionTarget", "{case}");
                assert_eq!(condition["reason"], "PreemptionByScheduler", "{case}");
                key.name().to_string()
            })
            .collect()
        };
        assert_eq!(leaving, victims, "{case}");
        for victim in victims {
            cluster.delete("pods", "default", victim).await;
        }
        cluster.pass(2).await;
        assert_eq!(cluster.place("p"), expected, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn room_is_kept_for_those_it_was_made_for() {
    let mut meant = pod("meant", "a", "1500m", "", ranked(5));
    meant["spec"]["schedulingGates"] = json!([{ "name": "wait" }]);
    meant["status"] = json!({ "nominatedNodeName": "n1" });
    let cluster = Cluster::with(&[
        node("n1 a - 2 2Gi"),
        meant,
        pod("lower", "b", "1", "", json!({})),
        pod("higher", "c", "1", "", ranked(9)),
    ])
    .await;
    assert_eq!(cluster.place("higher"), "n1");
    assert!(cluster.place("lower").starts_with("0/1 nodes are available: 1 Insufficient cpu."));
    assert_eq!(cluster.place("meant"), GATED);
    cluster.delete("pods", "default", "higher").await;
    cluster
        .change("pods", "meant", "default", |pod| {
            pod["spec"].as_object_mut().unwrap().remove("schedulingGates");
        })
        .await;
    cluster.pass(0).await;
    assert_eq!(cluster.place("meant"), "n1");
}

#[tokio::test(start_paused = true)]
async fn a_nominated_node_is_tried_first() {
    let mut p = pod("p", "a", "1", "", json!({ "schedulingGates": [{ "name": "wait" }] }));
    p["status"] = json!({ "nominatedNodeName": "small" });
    let cluster = Cluster::with(&[node("large a - 64 64Gi"), node("small a - 1 1Gi"), p]).await;
    cluster
        .change("pods", "p", "default", |pod| {
            pod["spec"].as_object_mut().unwrap().remove("schedulingGates");
        })
        .await;
    cluster.pass(0).await;
    assert_eq!(cluster.place("p"), "small");
}
