use super::super::lab::Lab;
use super::scaled;
use crate::api::Act;
use crate::json::{Value, json};
use crate::object;

/// `healthy/desired of expected, allowed`, and the condition.
fn shown(budget: &Value) -> String {
    let number = |field: &str| budget["status"][field].as_i64().unwrap_or(-1);
    let condition = object::condition(budget, "DisruptionAllowed").cloned().unwrap_or_default();
    format!(
        "{}/{} of {}, {} {} {}",
        number("currentHealthy"),
        number("desiredHealthy"),
        number("expectedPods"),
        number("disruptionsAllowed"),
        object::text(&condition, &["status"]),
        object::text(&condition, &["reason"]),
    )
}

async fn workload(
    lab: &Lab,
    resource: &'static str,
    kind: &str,
    name: &str,
    replicas: i64,
    owner: Value,
) -> Value {
    let spec = json!({
        "replicas": replicas, "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "x:1"}]}},
    });
    let mut object = json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec});
    if !owner.is_null() {
        object["metadata"]["ownerReferences"] = json!([owner]);
    }
    let made = lab.act(Act::Create(resource, object)).await;
    json!({"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": object::uid(&made), "controller": true})
}

#[tokio::test(start_paused = true)]
async fn budgets_are_counted() {
    // Three pods of a ReplicaSet of a Deployment that wants four; one more that nobody controls.
    let rows = [
        (json!({"maxUnavailable": 1}), "3/3 of 4, 0 False InsufficientPods"),
        (json!({"maxUnavailable": "50%"}), "3/2 of 4, 1 True SufficientPods"),
        (json!({"maxUnavailable": "30%"}), "3/2 of 4, 1 True SufficientPods"),
        (json!({"minAvailable": 1}), "3/1 of 3, 2 True SufficientPods"),
        (json!({"minAvailable": "60%"}), "3/3 of 4, 0 False InsufficientPods"),
        (json!({"minAvailable": "0%"}), "3/0 of 4, 3 True SufficientPods"),
    ];
    let lab = Lab::new();
    lab.nodes(&["n"]).await;
    let deployment = workload(&lab, "deployments.apps", "Deployment", "web", 4, Value::Null).await;
    let set = workload(&lab, "replicasets.apps", "ReplicaSet", "web", 9, deployment).await;
    for name in ["a", "b", "c"] {
        let pod = json!({
            "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}, "ownerReferences": [set]},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "x:1"}]},
        });
        lab.act(Act::Create("pods", pod)).await;
    }
    lab.pod("alone", "n", json!({}), json!({})).await;
    let budget = |name: &str, app: &str, spec: &Value| {
        let mut spec = spec.clone();
        spec["selector"] = json!({"matchLabels": {"app": app}});
        Act::Create(
            "poddisruptionbudgets.policy",
            json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec}),
        )
    };
    for (row, (spec, _)) in rows.iter().enumerate() {
        lab.act(budget(&format!("b{row}"), "web", spec)).await;
    }
    lab.act(budget("unmanaged", "alone", &json!({"maxUnavailable": 1}))).await;
    lab.act(budget("empty", "nobody", &json!({"minAvailable": "50%"}))).await;
    lab.pass(10).await;
    let get = |name: &str| lab.get("poddisruptionbudgets.policy", name);
    for (row, (spec, expected)) in rows.iter().enumerate() {
        assert_eq!(shown(&get(&format!("b{row}"))), *expected, "{spec}");
    }
    assert_eq!(shown(&get("unmanaged")), "1/0 of 0, 0 False InsufficientPods");
    assert!(lab.events("unmanaged").iter().any(|told| told.starts_with(
        "UnmanagedPods: Pods selected by this PodDisruptionBudget (selector: &LabelSelector{MatchLabels:map[string]string{app: alone,},MatchExpressions:[]LabelSelectorRequirement{},}) were"
    )));
    assert_eq!(shown(&get("empty")), "0/0 of 0, 0 False InsufficientPods");
    assert_eq!(lab.events("empty"), ["NoPods: No matching pods found"]);
    // A pod that goes does not count, nor does one that is said to go, for two minutes.
    lab.change("pods", "a", |pod| pod["metadata"]["finalizers"] = json!(["a.b/c"])).await;
    lab.delete("pods", "a").await;
    lab.pass(1).await;
    assert_eq!(shown(&get("b3")), "2/1 of 3, 1 True SufficientPods");
    let mut said = get("b3");
    said["status"]["disruptedPods"] =
        json!({"b": "2026-01-01T00:00:11Z", "a": "2026-01-01T00:00:11Z", "x": "2026-01-01T00:00:11Z"});
    lab.act(Act::UpdateStatus("poddisruptionbudgets.policy", said)).await;
    lab.pass(1).await;
    assert_eq!(shown(&get("b3")), "1/1 of 3, 0 False InsufficientPods");
    assert_eq!(get("b3")["status"]["disruptedPods"], json!({"b": "2026-01-01T00:00:11Z"}));
    lab.pass(130).await;
    assert_eq!(shown(&get("b3")), "2/1 of 3, 1 True SufficientPods");
    assert_eq!(
        lab.events("b").last().unwrap(),
        "NotDeleted: Pod was expected by PDB default/default to be deleted but it wasn't"
    );
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_computed_allows_nothing() {
    let lab = Lab::new();
    lab.nodes(&["n"]).await;
    for (kind, name) in [("Job", "job"), ("ReplicaSet", "gone")] {
        let version = if kind == "Job" { "batch/v1" } else { "apps/v1" };
        let owner = json!({"apiVersion": version, "kind": kind, "name": "x", "uid": "u", "controller": true});
        let pod = json!({
            "metadata": {"name": name, "namespace": "default", "labels": {"app": name}, "ownerReferences": [owner]},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "x:1"}]},
        });
        lab.act(Act::Create("pods", pod)).await;
        let spec = json!({"maxUnavailable": 1, "selector": {"matchLabels": {"app": name}}});
        let budget = json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec});
        lab.act(Act::Create("poddisruptionbudgets.policy", budget)).await;
    }
    lab.pass(10).await;
    for (name, why) in [
        ("job", "jobs.batch does not implement the scale subresource"),
        ("gone", "found no controllers for pod \"gone\""),
    ] {
        let budget = lab.get("poddisruptionbudgets.policy", name);
        let condition = object::condition(&budget, "DisruptionAllowed").cloned().unwrap_or_default();
        assert_eq!((&condition["reason"], &condition["message"]), (&json!("SyncFailed"), &json!(why)));
        assert_eq!(budget["status"]["disruptionsAllowed"], 0);
    }
}

#[test]
fn shares_are_rounded_up() {
    for (value, total, expected) in [
        (json!(3), 10, Some(3)),
        (json!("50%"), 3, Some(2)),
        (json!("0%"), 3, Some(0)),
        (json!("100%"), 7, Some(7)),
        (json!("1%"), 1, Some(1)),
        (json!("some"), 1, None),
        (json!(null), 1, None),
    ] {
        assert_eq!(scaled(&value, total).ok(), expected, "{value} of {total}");
    }
}
