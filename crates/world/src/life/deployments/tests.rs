use super::*;
use crate::json::json;

const NOW: &str = "2026-01-01T01:00:00Z";
const BEFORE: &str = "2026-01-01T00:50:00Z";

fn deployment(status: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default", "uid": "d", "generation": 1},
        "spec": {
            "replicas": 2, "progressDeadlineSeconds": 600, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"image": 2}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        },
        "status": status,
    })
}

fn set(name: &str, image: i64, replicas: i64, available: i64) -> Arc<Value> {
    Arc::new(json!({
        "metadata": {"name": name, "annotations": {"deployment.kubernetes.io/revision": image.to_string()}},
        "spec": {"replicas": replicas, "template": {
            "metadata": {"labels": {"app": "web", "pod-template-hash": name}}, "spec": {"image": image},
        }},
        "status": {"replicas": replicas, "readyReplicas": available, "availableReplicas": available,
            "terminatingReplicas": 0},
    }))
}

fn planned(deployment: &Value, sets: &[Arc<Value>]) -> Plan {
    plan(deployment, sets, |_| false, |_| false, NOW.parse().unwrap())
}

/// Each row: the progress that is on record, the sets, and the progress that is told then.
#[test]
fn progress_is_told() {
    let on_record = |reason: &str, updated: i64, available: i64| {
        json!({
            "observedGeneration": 1, "replicas": 2, "updatedReplicas": updated, "readyReplicas": available,
            "availableReplicas": available,
            "conditions": [{"type": "Progressing", "status": "True", "reason": reason,
                "lastUpdateTime": BEFORE, "lastTransitionTime": BEFORE}],
        })
    };
    for (status, sets, reason, message, updated_at) in [
        (json!({}), vec![], "NewReplicaSetCreated", "Created new replica set \"web-", NOW),
        (
            on_record("NewReplicaSetAvailable", 2, 2),
            vec![set("old", 1, 2, 2)],
            "NewReplicaSetCreated",
            "Created new replica set \"web-",
            NOW,
        ),
        (
            on_record("NewReplicaSetCreated", 0, 2),
            vec![set("old", 1, 2, 2), set("new", 2, 1, 0)],
            "ReplicaSetUpdated",
            "ReplicaSet \"new\" is progressing.",
            NOW,
        ),
        // Ten minutes are over, but not yet passed.
        (
            on_record("ReplicaSetUpdated", 1, 2),
            vec![set("old", 1, 2, 2), set("new", 2, 1, 0)],
            "ReplicaSetUpdated",
            "",
            BEFORE,
        ),
        (
            on_record("ReplicaSetUpdated", 2, 1),
            vec![set("new", 2, 2, 2)],
            "NewReplicaSetAvailable",
            "ReplicaSet \"new\" has successfully progressed.",
            NOW,
        ),
        // What was complete once is not a rollout any more.
        (
            on_record("NewReplicaSetAvailable", 2, 2),
            vec![set("new", 2, 2, 0)],
            "NewReplicaSetAvailable",
            "",
            BEFORE,
        ),
    ] {
        let plan = planned(&deployment(&status), &sets);
        let progress = object::condition(&plan.fleet.deployment, "Progressing").unwrap();
        assert_eq!(progress["reason"], reason, "{status} {sets:?}");
        assert!(object::text(progress, &["message"]).starts_with(message), "{progress}");
        assert_eq!(progress["lastUpdateTime"], updated_at, "{progress}");
    }
}

#[test]
fn a_name_that_is_taken_is_not_taken_again() {
    let plan = plan(&deployment(&json!({})), &[], |_| true, |_| false, NOW.parse().unwrap());
    assert!(plan.fleet.new.is_none());
    let collided = plan.fleet.deployment;
    assert_eq!(collided["status"]["collisionCount"], 1);
    let (first, second) = (planned(&deployment(&json!({})), &[]), planned(&collided, &[]));
    let name = |plan: &Plan| plan.fleet.new.as_ref().unwrap().name().to_owned();
    assert_ne!(name(&first), name(&second));
}

#[test]
fn a_deployment_that_goes_changes_nothing() {
    let mut going = deployment(&json!({}));
    going["metadata"]["deletionTimestamp"] = json!(NOW);
    let sets = [set("old", 1, 2, 2)];
    let plan = planned(&going, &sets);
    assert!(plan.fleet.new.is_none());
    assert!(plan.fleet.all().all(|set| set.before.as_deref() == Some(&set.object)));
}
