//! What becomes of workloads whose pods may not be made.

use super::*;
use crate::failure::{Failure, Reason};
use crate::life::refused::{Attempt, Refusal};

const REFUSED: &str = "is forbidden: no PriorityClass with name urgent was found";

/// One workload of each kind, whose pods are of a class that nobody has made yet.
async fn make_workloads(stage: &Stage) {
    ready_node(stage, "n").await;
    let urgent = |name: &str, restart: &str| {
        let mut template = template(name, "nginx:1");
        template["spec"]["priorityClassName"] = json!("urgent");
        template["spec"]["restartPolicy"] = json!(restart);
        template
    };
    let spec =
        |name: &str| json!({"selector": {"matchLabels": {"app": name}}, "template": urgent(name, "Always")});
    let mut web = spec("web");
    web["replicas"] = json!(2);
    let mut db = spec("db");
    db["serviceName"] = json!("db");
    let work = json!({"parallelism": 2, "template": urgent("work", "Never")});
    for (resource, name, spec) in [
        (DEPLOYMENTS, "web", web),
        ("daemonsets.apps", "agent", spec("agent")),
        ("statefulsets.apps", "db", db),
        ("jobs.batch", "work", work),
    ] {
        stage
            .create(resource, json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec}))
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn workloads_say_that_their_pods_are_refused_until_they_are_not() {
    let stage = Stage::new();
    make_workloads(&stage).await;
    stage.wait(1).await;
    assert_eq!(stage.list("pods"), [] as [Value; 0]);
    let set = stage.list(SETS).remove(0);
    assert_eq!(counts(&set), json!({"replicas": 0, "terminatingReplicas": 0, "observedGeneration": 1}));
    for object in [&set, &stage.get(DEPLOYMENTS, "web")] {
        let failure = object::condition(object, "ReplicaFailure").unwrap();
        assert_eq!((&failure["status"], &failure["reason"]), (&json!("True"), &json!("FailedCreate")));
        assert_eq!(failure["lastTransitionTime"], "2026-01-01T00:00:00Z");
        let message = object::text(failure, &["message"]);
        assert!(message.starts_with("pods \"web-") && message.ends_with(REFUSED), "{message}");
    }
    for (resource, name, expected) in [
        ("daemonsets.apps", "agent", json!({"observedGeneration": 1, "desiredNumberScheduled": 1})),
        ("statefulsets.apps", "db", json!({"observedGeneration": 1, "replicas": 0})),
        (
            "jobs.batch",
            "work",
            json!({"startTime": "2026-01-01T00:00:00Z", "ready": 0, "terminating": 0, "active": null}),
        ),
    ] {
        let status = &stage.get(resource, name)["status"];
        for (field, expected) in expected.as_object().unwrap() {
            assert_eq!(status[field], *expected, "{name}: {field}");
        }
    }
    let mut told = stage.messages("FailedCreate");
    told.sort();
    let starts = [
        "Create Pod db-0 in StatefulSet db failed error: pods \"db-0\" ",
        "Error creating: pods \"agent-",
        "Error creating: pods \"web-",
        "Error creating: pods \"work-",
    ];
    for start in starts {
        let same = told.iter().filter(|told| told.starts_with(start) && told.ends_with(REFUSED));
        assert!(same.count() > 0, "{start}: {told:?}");
    }
    assert_eq!(stage.messages("SuccessfulCreate"), [] as [&str; 0]);

    let class = json!({"metadata": {"name": "urgent"}, "value": 1000});
    stage.create("priorityclasses.scheduling.k8s.io", class).await;
    stage.wait(60).await;
    stage.run_all().await;
    assert_eq!(stage.list("pods").len(), 6);
    assert!(conditions(&stage.list(SETS)[0]).is_empty());
    let web = stage.get(DEPLOYMENTS, "web");
    assert_eq!(object::condition(&web, "ReplicaFailure"), None);
    assert_eq!(
        (&web["status"]["availableReplicas"], stage.messages("SuccessfulCreate").len()),
        (&json!(2), 6)
    );
    assert_eq!(stage.get("jobs.batch", "work")["status"]["active"], 2);
    stage.expect_rest().await;
}

#[tokio::test(start_paused = true)]
async fn who_may_not_make_what_makes_pods_says_so() {
    let stage = Stage::new();
    stage.create(DEPLOYMENTS, deployment("web", 1)).await;
    let cron = json!({
        "metadata": {"name": "tick", "namespace": "default"},
        "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": {
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "nginx:1"}]}
        }}}},
    });
    stage.create("cronjobs.batch", cron).await;
    let create = |resource: &'static str| Attempt::Create { resource, name: "x".to_owned() };
    let deployments = || Box::new(deployments::Deployments::new()) as Box<dyn Controller>;
    let crons = || Box::new(cronjobs::CronJobs) as Box<dyn Controller>;
    for (mut controller, resource, name, attempt, expected) in [
        (
            deployments(),
            DEPLOYMENTS,
            "web",
            create(SETS),
            &["ReplicaSetCreateError: Failed to create new replica set \"x\": no room"][..],
        ),
        (deployments(), DEPLOYMENTS, "web", Attempt::Change, &[]),
        (
            crons(),
            "cronjobs.batch",
            "tick",
            create("jobs.batch"),
            &["FailedCreate: Error creating job: no room"],
        ),
    ] {
        let refusal = Refusal { attempt, why: Failure::new(Reason::Forbidden, "no room") };
        let key = Key::new(resource, "default", name);
        let instead = controller.refused(&key, &refusal, View::of(&stage.api.state()));
        let told: Vec<String> =
            instead.reports.iter().map(|told| format!("{}: {}", told.reason, told.message)).collect();
        assert_eq!(told, expected);
        let failed = instead.acts.iter().any(|act| match act {
            Act::UpdateStatus(DEPLOYMENTS, web) => {
                conditions(web).contains(&("Progressing", "False", "ReplicaSetCreateError"))
            }
            _ => false,
        });
        assert_eq!(failed, !expected.is_empty() && name == "web");
    }
}
