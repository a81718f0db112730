//! Workloads in a small world: controllers that work, and pods whose states are set by hand.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::json::{Value, json};
use crate::object;

mod refused;

/// A world with its controllers, and a hand that plays scheduler and kubelet.
struct Stage {
    api: Api,
    life: tokio::task::JoinHandle<()>,
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.life.abort();
    }
}

impl Stage {
    fn new() -> Self {
        let api = Api::new(1, "2026-01-01T00:00:00Z".parse().unwrap());
        let life = tokio::spawn(Life::new(api.clone(), workloads()).live());
        Self { api, life }
    }

    async fn create(&self, resource: &'static str, object: Value) {
        self.api.act("test", Act::Create(resource, object)).await.unwrap();
        self.wait(0).await;
    }

    async fn change(&self, resource: &'static str, name: &str, change: impl FnOnce(&mut Value)) {
        let mut object = self.get(resource, name);
        change(&mut object);
        self.api.act("test", Act::Update(resource, object)).await.unwrap();
        self.wait(0).await;
    }

    async fn delete(&self, resource: &str, name: &str) {
        let object = Arc::new(self.get(resource, name));
        let act = Act::Delete {
            resource: resource.into(),
            object,
            grace_secs: Some(0),
            propagation: crate::api::Propagation::Background,
        };
        self.api.act("test", act).await.unwrap();
        self.wait(0).await;
    }

    /// Lets time pass: at least as much as it takes to get all done.
    async fn wait(&self, secs: u64) {
        tokio::time::sleep(Duration::from_secs(secs) + Duration::from_millis(1)).await;
    }

    fn get(&self, resource: &str, name: &str) -> Value {
        let namespace = if resource == "nodes" { "" } else { "default" };
        let object = self.api.state().store.get(&Key::new(resource, namespace, name));
        (*object.unwrap_or_else(|| panic!("no {resource} {name}"))).clone()
    }

    fn list(&self, resource: &str) -> Vec<Value> {
        self.api.state().store.list(resource, None).map(|(_, object)| (*object).clone()).collect()
    }

    fn revision(&self) -> u64 {
        self.api.state().store.revision()
    }

    /// Plays kubelet for the pods whose name begins so: gives them a phase.
    async fn play(&self, prefix: &str, phase: &str) {
        let ready = if phase == "Running" { "True" } else { "False" };
        for mut pod in self.list("pods") {
            if !object::name(&pod).starts_with(prefix) || pods::phase(&pod) == phase {
                continue;
            }
            let now = object::time(self.api.state().now());
            pod["status"]["phase"] = json!(phase);
            pod["status"]["conditions"] =
                json!([{"type": "Ready", "status": ready, "lastTransitionTime": now}]);
            self.api.act("kubelet", Act::UpdateStatus("pods", pod)).await.unwrap();
        }
        self.wait(0).await;
    }

    /// Plays on until nothing changes any more.
    async fn run_all(&self) {
        for _ in 0..50 {
            let before = self.revision();
            self.play("", "Running").await;
            if self.revision() == before {
                return;
            }
        }
        panic!("it never comes to rest");
    }

    fn messages(&self, reason: &str) -> Vec<String> {
        let events = self.list("events").into_iter().filter(|event| event["reason"] == reason);
        events.map(|event| object::text(&event, &["message"]).to_owned()).collect()
    }

    /// Nothing is written while nothing happens.
    async fn expect_rest(&self) {
        let before = self.revision();
        self.wait(30).await;
        assert_eq!(self.revision(), before, "something is written though nothing happens");
    }
}

fn conditions(object: &Value) -> Vec<(&str, &str, &str)> {
    let all = object["status"]["conditions"].as_array().into_iter().flatten();
    all.map(|condition| {
        let word = |field: &str| object::text(condition, &[field]);
        (word("type"), word("status"), word("reason"))
    })
    .collect()
}

/// The status without what is told apart.
fn counts(object: &Value) -> Value {
    let mut status = object["status"].clone();
    status.as_object_mut().unwrap().remove("conditions");
    status
}

fn template(name: &str, image: &str) -> Value {
    json!({"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": image}]}})
}

fn deployment(name: &str, replicas: i64) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "default", "annotations": {"team": "a"}},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": template(name, "nginx:1"),
        },
    })
}

fn set_image(image: &str) -> impl FnOnce(&mut Value) {
    let image = json!(image);
    move |object| *object.pointer_mut("/spec/template/spec/containers/0/image").unwrap() = image
}

const DEPLOYMENTS: &str = "deployments.apps";
const SETS: &str = "replicasets.apps";

#[tokio::test(start_paused = true)]
async fn a_deployment_rolls_out_and_back() {
    let stage = Stage::new();
    stage.create(DEPLOYMENTS, deployment("web", 4)).await;
    let web = stage.get(DEPLOYMENTS, "web");
    assert_eq!(
        conditions(&web),
        [("Available", "False", "MinimumReplicasUnavailable"), ("Progressing", "True", "ReplicaSetUpdated")]
    );
    assert_eq!(
        counts(&web),
        json!({
            "observedGeneration": 1, "replicas": 4, "updatedReplicas": 4, "unavailableReplicas": 4,
            "terminatingReplicas": 0,
        })
    );
    stage.run_all().await;
    let web = stage.get(DEPLOYMENTS, "web");
    assert_eq!(
        conditions(&web),
        [
            ("Available", "True", "MinimumReplicasAvailable"),
            ("Progressing", "True", "NewReplicaSetAvailable")
        ]
    );
    assert_eq!(
        counts(&web),
        json!({
            "observedGeneration": 1, "replicas": 4, "updatedReplicas": 4, "readyReplicas": 4,
            "availableReplicas": 4, "terminatingReplicas": 0,
        })
    );
    let set = stage.list(SETS).remove(0);
    let hash = pods::label(&set, "pod-template-hash").to_owned();
    assert_eq!(object::name(&set), format!("web-{hash}"));
    assert_eq!(
        set["metadata"]["annotations"],
        json!({
            "team": "a", "deployment.kubernetes.io/desired-replicas": "4",
            "deployment.kubernetes.io/max-replicas": "5", "deployment.kubernetes.io/revision": "1",
        })
    );
    assert_eq!(set["spec"]["selector"], json!({"matchLabels": {"app": "web", "pod-template-hash": hash}}));
    let pod = stage.list("pods").remove(0);
    assert_eq!(pod["metadata"]["labels"], json!({"app": "web", "pod-template-hash": hash}));
    assert_eq!(pod["metadata"]["ownerReferences"], json!([owned::owner_reference(&set)]));
    assert_eq!(stage.messages("SuccessfulCreate").len(), 4);
    stage.expect_rest().await;

    let mut names: Vec<String> = Vec::new();
    for (image, revision) in [("nginx:2", "2"), ("nginx:1", "3")] {
        stage.change(DEPLOYMENTS, "web", set_image(image)).await;
        stage.run_all().await;
        let web = stage.get(DEPLOYMENTS, "web");
        assert_eq!(pods::annotation(&web, "deployment.kubernetes.io/revision"), revision);
        assert_eq!(conditions(&web)[1], ("Progressing", "True", "NewReplicaSetAvailable"));
        let sizes: Vec<(i64, String)> = stage
            .list(SETS)
            .iter()
            .map(|set| (pods::number(set, "/spec/replicas"), object::name(set).to_owned()))
            .filter(|(size, _)| *size > 0)
            .collect();
        assert_eq!((sizes.len(), sizes[0].0), (1, 4));
        names.push(sizes[0].1.clone());
    }
    let back = stage.get(SETS, &names[1]);
    assert_eq!(names[1], format!("web-{hash}"));
    assert_eq!(pods::annotation(&back, "deployment.kubernetes.io/revision-history"), "1");
    let told = stage.messages("ScalingReplicaSet");
    let first = &names[0];
    for message in [
        format!("Scaled up replica set web-{hash} from 0 to 4"),
        format!("Scaled up replica set {first} from 0 to 1"),
        format!("Scaled down replica set web-{hash} from 4 to 3"),
    ] {
        assert!(told.contains(&message), "{message}: {told:?}");
    }
    assert!(told.iter().any(|message| message.starts_with("(combined from similar events): Scaled ")));
    stage.expect_rest().await;
}

#[tokio::test(start_paused = true)]
async fn a_deployment_is_scaled_paused_and_forgets() {
    let stage = Stage::new();
    stage.create(DEPLOYMENTS, deployment("web", 2)).await;
    stage.run_all().await;
    stage.change(DEPLOYMENTS, "web", |web| web["spec"]["replicas"] = json!(6)).await;
    stage.run_all().await;
    assert_eq!(stage.get(DEPLOYMENTS, "web")["status"]["availableReplicas"], 6);
    stage.change(DEPLOYMENTS, "web", |web| web["spec"]["paused"] = json!(true)).await;
    stage.change(DEPLOYMENTS, "web", set_image("nginx:2")).await;
    stage.run_all().await;
    let web = stage.get(DEPLOYMENTS, "web");
    assert_eq!(conditions(&web)[1], ("Progressing", "Unknown", "DeploymentPaused"));
    assert_eq!((stage.list(SETS).len(), &web["status"]["updatedReplicas"]), (1, &Value::Null));
    stage.change(DEPLOYMENTS, "web", |web| web["spec"]["paused"] = json!(false)).await;
    stage.change(DEPLOYMENTS, "web", |web| web["spec"]["revisionHistoryLimit"] = json!(1)).await;
    for image in ["nginx:3", "nginx:4", "nginx:5"] {
        stage.change(DEPLOYMENTS, "web", set_image(image)).await;
        stage.run_all().await;
    }
    assert_eq!(stage.list(SETS).len(), 2);
    assert_eq!(
        conditions(&stage.get(DEPLOYMENTS, "web"))[1],
        ("Progressing", "True", "NewReplicaSetAvailable")
    );
    stage.expect_rest().await;
}

#[tokio::test(start_paused = true)]
async fn a_deployment_that_gets_nowhere_says_so() {
    let stage = Stage::new();
    let mut stuck = deployment("web", 1);
    stuck["spec"]["progressDeadlineSeconds"] = json!(20);
    stuck["spec"]["minReadySeconds"] = json!(5);
    stage.create(DEPLOYMENTS, stuck).await;
    stage.wait(19).await;
    assert_eq!(conditions(&stage.get(DEPLOYMENTS, "web"))[1].2, "ReplicaSetUpdated");
    stage.wait(3).await;
    let web = stage.get(DEPLOYMENTS, "web");
    assert_eq!(conditions(&web)[1], ("Progressing", "False", "ProgressDeadlineExceeded"));
    stage.expect_rest().await;
    stage.play("web", "Running").await;
    assert_eq!(stage.get(DEPLOYMENTS, "web")["status"]["availableReplicas"], Value::Null);
    stage.wait(5).await;
    let web = stage.get(DEPLOYMENTS, "web");
    assert_eq!(web["status"]["availableReplicas"], 1);
    let mut told = conditions(&web);
    told.sort_unstable();
    assert_eq!(told[1], ("Progressing", "True", "NewReplicaSetAvailable"));
    stage.expect_rest().await;
}

#[tokio::test(start_paused = true)]
async fn a_deployment_stops_all_before_it_starts_any() {
    let stage = Stage::new();
    let mut web = deployment("web", 2);
    web["spec"]["strategy"] = json!({"type": "Recreate"});
    stage.create(DEPLOYMENTS, web).await;
    // Pods that run somewhere take their time to go.
    for mut pod in stage.list("pods") {
        pod["spec"]["nodeName"] = json!("n");
        stage.api.act("test", Act::Bind { pod: Arc::new(pod), node: "n".to_owned() }).await.unwrap();
    }
    stage.run_all().await;
    stage.change(DEPLOYMENTS, "web", set_image("nginx:2")).await;
    stage.wait(1).await;
    assert_eq!((stage.list(SETS).len(), stage.list("pods").len()), (1, 2));
    for pod in stage.list("pods") {
        assert!(object::is_terminating(&pod));
        stage.delete("pods", object::name(&pod)).await;
    }
    stage.run_all().await;
    assert_eq!((stage.list(SETS).len(), stage.list("pods").len()), (2, 2));
    assert_eq!(stage.get(DEPLOYMENTS, "web")["status"]["updatedReplicas"], 2);
    stage.expect_rest().await;
}

#[tokio::test(start_paused = true)]
async fn sets_take_in_orphans_and_let_go_of_strangers() {
    let stage = Stage::new();
    let pod = json!({
        "metadata": {"name": "early", "namespace": "default", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "nginx:1"}]},
    });
    stage.create("pods", pod).await;
    let set = json!({
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template("web", "nginx:1")},
    });
    stage.create(SETS, set).await;
    let owner = |name: &str| object::controller(&stage.get("pods", name)).map(|owner| owner.name.to_owned());
    assert_eq!((stage.list("pods").len(), owner("early").as_deref()), (2, Some("web")));
    stage.change("pods", "early", |pod| pod["metadata"]["labels"]["app"] = json!("other")).await;
    assert_eq!((stage.list("pods").len(), owner("early")), (3, None));
    stage.change("pods", "early", |pod| pod["metadata"]["labels"]["app"] = json!("web")).await;
    // One is too many again.
    assert_eq!(stage.list("pods").len(), 2);
    assert_eq!(stage.get(SETS, "web")["status"]["replicas"], 2);
    stage.expect_rest().await;
}

#[tokio::test(start_paused = true)]
async fn a_large_set_is_made_in_bursts_and_looked_at_now_and_then() {
    let stage = Stage::new();
    let set = json!({
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 1100, "selector": {"matchLabels": {"app": "web"}}, "template": template("web", "nginx:1")},
    });
    stage.create(SETS, set).await;
    assert_eq!(stage.list("pods").len(), 1000, "one burst at once, the next as soon as it is seen");
    stage.wait(3).await;
    assert_eq!(stage.get(SETS, "web")["status"]["replicas"], 1100);
    stage.run_all().await;
    stage.wait(2).await;
    assert_eq!(stage.get(SETS, "web")["status"]["readyReplicas"], 1100);
    stage.expect_rest().await;
}

#[tokio::test(start_paused = true)]
async fn stateful_pods_come_in_order_with_their_claims() {
    let stage = Stage::new();
    let set = json!({
        "metadata": {"name": "db", "namespace": "default"},
        "spec": {
            "replicas": 2, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}},
            "template": template("db", "nginx:1"),
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {
                "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
            }}],
        },
    });
    let names = |resource: &str| -> Vec<String> {
        stage.list(resource).iter().map(|object| object::name(object).to_owned()).collect()
    };
    stage.create("statefulsets.apps", set).await;
    assert_eq!(
        (names("pods"), names("persistentvolumeclaims")),
        (vec!["db-0".to_owned()], vec!["data-db-0".to_owned()])
    );
    stage.run_all().await;
    assert_eq!(names("pods"), ["db-0", "db-1"]);
    let db = stage.get("statefulsets.apps", "db");
    let revision = db["status"]["updateRevision"].clone();
    assert_eq!(
        db["status"],
        json!({
            "observedGeneration": 1, "replicas": 2, "readyReplicas": 2, "availableReplicas": 2,
            "currentReplicas": 2, "updatedReplicas": 2, "collisionCount": 0,
            "currentRevision": revision, "updateRevision": revision,
        })
    );
    stage.change("statefulsets.apps", "db", set_image("nginx:2")).await;
    stage.run_all().await;
    let db = stage.get("statefulsets.apps", "db");
    assert_ne!(db["status"]["updateRevision"], revision);
    assert_eq!(db["status"]["currentRevision"], db["status"]["updateRevision"]);
    assert_eq!(db["status"]["updatedReplicas"], 2);
    assert_eq!(stage.list("controllerrevisions.apps").len(), 2);
    stage.change("statefulsets.apps", "db", |db| db["spec"]["replicas"] = json!(0)).await;
    stage.run_all().await;
    assert_eq!((names("pods").len(), names("persistentvolumeclaims").len()), (0, 2));
    stage.expect_rest().await;
}

/// A node without the taint that it has until its kubelet is ready.
async fn ready_node(stage: &Stage, name: &str) {
    stage.create("nodes", json!({"metadata": {"name": name, "labels": {"disk": "ssd"}}})).await;
    stage.change("nodes", name, |node| node["spec"] = json!({})).await;
}

#[tokio::test(start_paused = true)]
async fn daemons_follow_their_nodes() {
    let stage = Stage::new();
    for name in ["n1", "n2"] {
        ready_node(&stage, name).await;
    }
    let mut template = template("agent", "nginx:1");
    template["spec"]["nodeSelector"] = json!({"disk": "ssd"});
    let set = json!({
        "metadata": {"name": "agent", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": template},
    });
    stage.create("daemonsets.apps", set).await;
    stage.run_all().await;
    let status = |stage: &Stage| counts(&stage.get("daemonsets.apps", "agent"));
    assert_eq!(
        status(&stage),
        json!({
            "observedGeneration": 1, "currentNumberScheduled": 2, "desiredNumberScheduled": 2,
            "numberMisscheduled": 0, "numberReady": 2, "numberAvailable": 2, "updatedNumberScheduled": 2,
        })
    );
    let pod = stage.list("pods").remove(0);
    assert_eq!(pods::label(&pod, "pod-template-generation"), "1");
    ready_node(&stage, "n3").await;
    stage.change("nodes", "n1", |node| node["metadata"]["labels"]["disk"] = json!("hdd")).await;
    stage.run_all().await;
    assert_eq!(status(&stage)["numberReady"], 2);
    stage.change("daemonsets.apps", "agent", set_image("nginx:2")).await;
    stage.run_all().await;
    assert_eq!(status(&stage)["updatedNumberScheduled"], 2);
    let generations: Vec<String> =
        stage.list("pods").iter().map(|pod| pods::label(pod, "pod-template-generation").to_owned()).collect();
    assert_eq!(generations, ["2", "2"]);
    assert_eq!(stage.list("controllerrevisions.apps").len(), 2);
    stage.expect_rest().await;
}

fn job(name: &str, spec: &Value) -> Value {
    let mut spec = spec.clone();
    spec["template"] =
        json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "nginx:1"}]}});
    json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec})
}

#[tokio::test(start_paused = true)]
async fn jobs_run_to_their_end() {
    let stage = Stage::new();
    stage
        .create(
            "jobs.batch",
            job("good", &json!({"completions": 3, "parallelism": 2, "ttlSecondsAfterFinished": 60})),
        )
        .await;
    assert_eq!(
        counts(&stage.get("jobs.batch", "good")),
        json!({
            "active": 2, "ready": 0, "terminating": 0, "uncountedTerminatedPods": {},
            "startTime": "2026-01-01T00:00:00Z",
        })
    );
    stage.play("good", "Succeeded").await;
    stage.play("good", "Succeeded").await;
    let good = stage.get("jobs.batch", "good");
    assert_eq!(
        counts(&good),
        json!({
            "succeeded": 3, "ready": 0, "terminating": 0, "uncountedTerminatedPods": {},
            "startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:00:00Z",
        })
    );
    assert_eq!(
        conditions(&good),
        [("SuccessCriteriaMet", "True", "CompletionsReached"), ("Complete", "True", "CompletionsReached")]
    );
    assert!(stage.list("pods").iter().all(|pod| object::finalizers(pod).is_empty()));
    assert_eq!(stage.messages("Completed"), ["Job completed"]);
    stage.expect_rest().await;
    stage.wait(30).await;
    assert!(object::is_terminating(&stage.get("jobs.batch", "good")), "it is deleted in the foreground");
}

#[tokio::test(start_paused = true)]
async fn jobs_fail_in_the_end() {
    let stage = Stage::new();
    stage.create("jobs.batch", job("bad", &json!({"backoffLimit": 1}))).await;
    stage.play("bad", "Failed").await;
    assert_eq!(stage.list("pods").len(), 1);
    stage.wait(10).await;
    assert_eq!(stage.list("pods").len(), 2, "it is tried again after a while");
    stage.play("bad", "Failed").await;
    let bad = stage.get("jobs.batch", "bad");
    assert_eq!(
        conditions(&bad),
        [("FailureTarget", "True", "BackoffLimitExceeded"), ("Failed", "True", "BackoffLimitExceeded")]
    );
    assert_eq!(bad["status"]["failed"], 2);

    stage.create("jobs.batch", job("late", &json!({"activeDeadlineSeconds": 5, "parallelism": 2}))).await;
    stage.wait(5).await;
    let late = stage.get("jobs.batch", "late");
    assert_eq!(
        conditions(&late),
        [("FailureTarget", "True", "DeadlineExceeded"), ("Failed", "True", "DeadlineExceeded")]
    );
    assert_eq!((&late["status"]["failed"], stage.list("pods").len()), (&json!(2), 2));

    stage
        .create(
            "jobs.batch",
            job(
                "idle",
                &json!({"suspend": true, "completionMode": "Indexed", "completions": 2, "parallelism": 2}),
            ),
        )
        .await;
    assert_eq!(conditions(&stage.get("jobs.batch", "idle")), [("Suspended", "True", "JobSuspended")]);
    stage.change("jobs.batch", "idle", |job| job["spec"]["suspend"] = json!(false)).await;
    stage.play("idle", "Succeeded").await;
    let idle = stage.get("jobs.batch", "idle");
    assert_eq!(conditions(&idle)[0], ("Suspended", "False", "JobResumed"));
    assert_eq!((conditions(&idle)[2].0, &idle["status"]["completedIndexes"]), ("Complete", &json!("0,1")));
    stage.expect_rest().await;

    // What is left of a job that is gone can go, too.
    stage.create("jobs.batch", job("gone", &json!({}))).await;
    stage.delete("jobs.batch", "gone").await;
    assert!(stage.list("pods").iter().all(|pod| object::finalizers(pod).is_empty()));
}

#[tokio::test(start_paused = true)]
async fn cron_jobs_start_jobs_on_time() {
    let stage = Stage::new();
    let cron = json!({
        "metadata": {"name": "tick", "namespace": "default"},
        "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": {
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "nginx:1"}]}
        }}}},
    });
    stage.create("cronjobs.batch", cron).await;
    for minute in 1..=5 {
        stage.wait(60).await;
        assert_eq!(stage.get("cronjobs.batch", "tick")["status"]["active"].as_array().unwrap().len(), 1);
        stage.play("tick", "Succeeded").await;
        let tick = stage.get("cronjobs.batch", "tick");
        assert_eq!(tick["status"]["lastScheduleTime"], format!("2026-01-01T00:0{minute}:00Z"));
        assert_eq!(tick["status"]["lastSuccessfulTime"], format!("2026-01-01T00:0{minute}:00Z"));
        assert_eq!(tick["status"]["active"], Value::Null);
    }
    assert_eq!(stage.list("jobs.batch").len(), 3, "old ones are forgotten");
    assert_eq!(stage.messages("SawCompletedJob").len(), 5);
}
