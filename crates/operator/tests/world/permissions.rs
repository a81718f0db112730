//! What Berth may do is enough, and none of it is too much: without any one verb something does not work.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use berth_api::ClassKind;
use berth_cloud::{CatalogOptions, Cloud};
use berth_operator::rbac::{LEASE, PERMISSIONS, Part, Scope};
use berth_operator::{
    Clock, Cluster, Elector, Mode, Operator, Settings, Undertaking, Unfit, Wish, beforehand,
};
use berth_world::cloud::Weather;
use berth_world::cloud::weather::Reclaim;
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use crate::awaited;
use crate::buffers::{BUFFERS, buffer_for, workloads};
use crate::overlays::overlay;
use crate::scene::{Scene, class, condition, deployment, pool, text};
use crate::spreading::spread_by_zone;

pub(crate) const NAMESPACE: &str = "berth-system";
const USER: &str = "system:serviceaccount:berth-system:berth";

/// When the cloud takes spot machines back.
const RECLAIM_SECS: u64 = 240;

#[test]
fn the_permissions_are_enough() {
    assert_eq!(outcome(&granted(None), 20), Ok(()));
}

/// Each verb of what is seen is taken away in turn, and what is not seen is said.
#[test]
fn nothing_is_seen_in_vain() {
    awaited(async {
        let scene = Scene::new(1, Weather::default()).await;
        for workload in workloads() {
            scene.apply(buffer_for(&workload, json!({ "percentage": 50 }))).await;
            scene.apply(workload).await;
        }
        for (row, verb) in cases(Part::See) {
            grant(&scene, &granted(Some((row, verb)))).await;
            let settings = Settings { scheduler: spread_by_zone(), ..Settings::default() };
            let cloud: Arc<dyn Cloud> = Arc::new(scene.cloud.clone());
            let clouds = BTreeMap::from([(ClassKind::Kwok, cloud)]);
            let lead = berth_operator::alone(1);
            let operator = scene.operator_with((clouds, settings), (client(&scene), "berth"), lead);
            let reports = operator.reports();
            Box::pin(scene.play_with(operator, sleep(Duration::from_secs(90)))).await;
            let blind: Vec<String> = reports
                .borrow()
                .blind_spots
                .iter()
                .map(|spot| format!("{}: {}", spot.plural, spot.why))
                .collect();
            let resource = PERMISSIONS[row].resource;
            let world = scene.world.clone();
            let clock = Clock::new(move || world.clock_of("berth"));
            let cluster = Cluster::through(client(&scene), "the world");
            let told = beforehand(&cluster, &clock, wanted(Mode::Shadow))
                .await
                .expect_err("a verb is lacking")
                .to_string();
            assert!(told.contains(&format!("{verb} {resource}")), "{told}");
            let wanted = format!("cannot {verb} resource \"{resource}\"");
            assert_eq!(blind.len(), 1, "without {verb} {resource}: {blind:?}");
            assert!(blind[0].starts_with(resource) && blind[0].contains(&wanted), "{}", blind[0]);
        }
    });
}

fn wanted(mode: Mode) -> Undertaking<'static> {
    Undertaking { mode, has_vpsie: false, lease: LEASE, lease_namespace: Some(NAMESPACE) }
}

/// The roles allow one lease, and whoever is to lead by another is told at once that it may not.
#[test]
fn a_lease_that_may_not_be_held_is_named_beforehand() {
    awaited(async {
        let scene = Scene::new(1, Weather::default()).await;
        grant(&scene, &granted(None)).await;
        let world = scene.world.clone();
        let clock = Clock::new(move || world.clock_of("berth"));
        let cluster = Cluster::through(client(&scene), "the world");
        let other = "get leases of coordination.k8s.io in berth-system if they are named other, patch leases of \
                     coordination.k8s.io in berth-system if they are named other";
        let elsewhere = "create leases of coordination.k8s.io in elsewhere, ";
        for (change, lacking) in [
            (wanted(Mode::Act), None),
            (Undertaking { lease: "other", ..wanted(Mode::Act) }, Some(other)),
            (Undertaking { lease_namespace: Some("elsewhere"), ..wanted(Mode::Act) }, Some(elsewhere)),
            (Undertaking { lease: "other", lease_namespace: None, ..wanted(Mode::Act) }, None),
            (Undertaking { lease: "other", ..wanted(Mode::Shadow) }, None),
        ] {
            let told = beforehand(&cluster, &clock, change).await.err().map(|unfit| unfit.to_string());
            let is_told = |words: &str| told.as_ref().is_some_and(|told| told.contains(words));
            assert_eq!(lacking.is_none(), told.is_none(), "{change:?}: {told:?}");
            assert!(lacking.is_none_or(is_told), "{change:?}: {told:?}");
        }
    });
}

/// Each verb of what is done is taken away in turn, and something does not work.
#[test]
fn nothing_is_allowed_in_vain() {
    let cases = Mutex::new(cases(Part::Act).into_iter());
    let needless = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((row, verb)) = next(&cases) {
                    if outcome(&granted(Some((row, verb))), 4).is_ok() {
                        let needless = &mut *needless.lock().expect("no case panics");
                        needless.push(format!("{verb} {}", PERMISSIONS[row].resource));
                    }
                }
            });
        }
    });
    assert_eq!(needless.into_inner().expect("no case panics"), Vec::<String>::new());
}

/// Nodes that the operator makes itself come and go; and not if any verb for that is lacking.
#[test]
fn nothing_is_simulated_in_vain() {
    assert_eq!(simulated(&allowed(&Part::ALL, None)), Ok(()));
    for (row, verb) in cases(Part::Simulate) {
        let outcome = simulated(&allowed(&Part::ALL, Some((row, verb))));
        assert!(outcome.is_err(), "{verb} {} is not needed", PERMISSIONS[row].resource);
    }
}

fn simulated(rules: &[(Scope, Value)]) -> Result<(), String> {
    let mut outcome = Ok(());
    awaited(async {
        let scene = Scene::new(1, Weather::default()).await;
        grant(&scene, rules).await;
        let play = Play { scene: &scene, pods: 1, running: 1 };
        let (cluster, clock) = play.cluster();
        let catalog = berth_cloud::load("kwok", &CatalogOptions::default()).expect("it is built in");
        let cloud = berth_operator::kwok_cloud(&cluster, Arc::new(catalog), &clock);
        let clouds = BTreeMap::from([(ClassKind::Kwok, cloud)]);
        let lead = berth_operator::alone(1);
        let operator = Operator::new(cluster, clouds, clock, Settings::default(), lead);
        Box::pin(scene.play_with(operator, async { outcome = play.come_and_go().await })).await;
    });
    outcome
}

fn next<T>(cases: &Mutex<impl Iterator<Item = T>>) -> Option<T> {
    cases.lock().expect("no case panics").next()
}

/// The rows of a part, with each verb of each.
pub(crate) fn cases(part: Part) -> Vec<(usize, &'static str)> {
    let rows = PERMISSIONS.iter().enumerate().filter(|(_, permission)| permission.part == part);
    rows.flat_map(|(row, permission)| permission.verbs.iter().map(move |verb| (row, *verb))).collect()
}

/// All that is granted, but for a verb of a row. Who does not simulate a cloud may not.
fn granted(but: Option<(usize, &str)>) -> Vec<(Scope, Value)> {
    allowed(&[Part::See, Part::Act], but)
}

pub(crate) fn allowed(parts: &[Part], but: Option<(usize, &str)>) -> Vec<(Scope, Value)> {
    let rows = PERMISSIONS.iter().enumerate().filter(|(_, permission)| parts.contains(&permission.part));
    let rules = rows.map(|(row, permission)| {
        let mut rule = permission.rule();
        if let Some((_, without)) = but.filter(|(of, _)| *of == row) {
            let verbs = permission.verbs.iter().filter(|verb| **verb != without);
            rule["verbs"] = json!(verbs.collect::<Vec<_>>());
        }
        (permission.scope, rule)
    });
    rules.filter(|(_, rule)| rule["verbs"] != json!([])).collect()
}

pub(crate) async fn grant(scene: &Scene, rules: &[(Scope, Value)]) {
    for object in roles(rules) {
        scene.apply(object).await;
    }
}

pub(crate) fn client(scene: &Scene) -> Client {
    Client::new(scene.world.client("berth").acting_as(USER).expect("a name"), "default")
}

fn operator(scene: &Scene) -> Operator {
    scene.operator_through(client(scene), "berth", 1)
}

/// What becomes of everything that Berth does, under these rules.
fn outcome(rules: &[(Scope, Value)], pods: u32) -> Result<(), String> {
    let mut outcome = Ok(());
    awaited(async {
        let reclaim = Reclaim {
            at_ms: RECLAIM_SECS * 1000,
            pool: Some("spot".into()),
            share_permille: 1000,
            notice_ms: 120_000,
            ..Reclaim::default()
        };
        let began = Instant::now();
        let scene = Scene::new(1, Weather { reclaims: vec![reclaim], ..Weather::default() }).await;
        grant(&scene, rules).await;
        let play = Play { scene: &scene, pods, running: pods as usize + 2 };
        let script = async { outcome = play.all(began).await };
        Box::pin(scene.play_with(operator(&scene), script)).await;
    });
    outcome
}

fn roles(rules: &[(Scope, Value)]) -> Vec<Value> {
    let within =
        |scope| rules.iter().filter(|(of, _)| *of == scope).map(|(_, rule)| rule).collect::<Vec<_>>();
    let api = "rbac.authorization.k8s.io/v1";
    let subjects = json!([{ "kind": "ServiceAccount", "name": "berth", "namespace": NAMESPACE }]);
    let reference =
        |kind: &str| json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "berth" });
    vec![
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } }),
        json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "berth", "namespace": NAMESPACE } }),
        json!({ "apiVersion": api, "kind": "ClusterRole", "metadata": { "name": "berth" },
            "rules": within(Scope::Cluster) }),
        json!({ "apiVersion": api, "kind": "ClusterRoleBinding", "metadata": { "name": "berth" },
            "roleRef": reference("ClusterRole"), "subjects": subjects }),
        json!({ "apiVersion": api, "kind": "Role", "metadata": { "name": "berth", "namespace": NAMESPACE },
            "rules": within(Scope::OwnNamespace) }),
        json!({ "apiVersion": api, "kind": "RoleBinding", "metadata": { "name": "berth", "namespace": NAMESPACE },
            "roleRef": reference("Role"), "subjects": subjects }),
    ]
}

/// A little of everything, on one cluster.
struct Play<'a> {
    scene: &'a Scene,
    /// So many of one kind, and two others.
    pods: u32,
    running: usize,
}

impl Play<'_> {
    async fn all(&self, began: Instant) -> Result<(), String> {
        self.rival().await?;
        self.lead().await?;
        self.grow().await?;
        sleep_until(began + Duration::from_secs(RECLAIM_SECS)).await;
        self.interruption().await?;
        self.forced_end().await?;
        self.lost_node().await?;
        self.shrink().await
    }

    fn cluster(&self) -> (Cluster, Clock) {
        let world = self.scene.world.clone();
        (Cluster::through(client(self.scene), "the world"), Clock::new(move || world.clock_of("berth")))
    }

    /// Somebody else's lease is noticed, wherever it is.
    async fn rival(&self) -> Result<(), String> {
        let (cluster, clock) = self.cluster();
        let now = self.scene.world.clock_of("berth");
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": { "name": "karpenter-leader-election", "namespace": "kube-system" },
            "spec": { "holderIdentity": "karpenter-1", "renewTime": format!("{now:.6}") },
        });
        self.scene.apply(lease).await;
        match beforehand(&cluster, &clock, wanted(Mode::Act)).await {
            // Without a verb that is asked for it does not begin, whoever else is there.
            Err(Unfit::Rival { .. } | Unfit::Forbidden { .. }) => Ok(()),
            other => Err(format!("a rival is not noticed: {other:?}")),
        }
    }

    /// Leads, and goes on leading for longer than a lease lasts.
    async fn lead(&self) -> Result<(), String> {
        let (cluster, clock) = self.cluster();
        let elector = Elector::new(cluster, clock, (NAMESPACE, LEASE), "berth-1");
        let lead = elector.lead();
        let (_wish, wish) = watch::channel(Wish::Lead);
        let epoch = tokio::select! {
            biased;
            () = elector.run(wish) => None,
            epoch = async { sleep(Duration::from_secs(30)).await; *lead.borrow() } => epoch,
        };
        epoch.map(drop).ok_or_else(|| "nobody leads".to_owned())
    }

    /// Pods, one of them on spot, one that nothing may move, and one for which there is no machine; and an overlay.
    async fn grow(&self) -> Result<(), String> {
        let scene = self.scene;
        scene.apply(class()).await;
        scene.apply(pool("default", |_| {})).await;
        scene.apply(pool("spot", |pool| set_apart(pool, "spot", "spot"))).await;
        scene
            .apply(pool("guarded", |pool| {
                set_apart(pool, "guarded", "on-demand");
                pool["spec"]["template"]["spec"]["terminationGracePeriod"] = json!("90s");
            }))
            .await;
        scene.apply(deployment("web", self.pods, "1")).await;
        scene.apply(budget("web", &json!({ "maxUnavailable": 2 }))).await;
        scene.apply(on("spot", deployment("spot", 1, "1"))).await;
        scene.apply(on("guarded", deployment("guarded", 1, "1"))).await;
        scene.apply(budget("guarded", &json!({ "maxUnavailable": 0 }))).await;
        let mut is_nominated = false;
        let runs = self.within(90, "all pods run", async || {
            let pods = scene.pods().await;
            is_nominated |= pods.iter().any(|pod| pod["status"]["nominatedNodeName"].is_string());
            pods.iter().filter(|pod| pod["status"]["phase"] == "Running").count() == self.running
        });
        runs.await?;
        if !is_nominated {
            return Err("no pod was nominated".to_owned());
        }
        let counted = self.within(60, "a pool says how many nodes it has", async || {
            let pools = scene.list("/apis/karpenter.sh/v1/nodepools").await;
            pools.iter().all(|pool| pool["status"]["nodes"].as_u64() > Some(0))
        });
        counted.await?;
        scene.apply(overlay("dear", "m-256x-amd64-linux", json!({ "priceAdjustment": "+1%" }))).await;
        let said = self.within(60, "an overlay says that it is in use", async || {
            let overlays = scene.list("/apis/karpenter.sh/v1alpha1/nodeoverlays").await;
            overlays.iter().all(|overlay| condition(overlay, "Ready") == Some(("True", "Ready")))
        });
        said.await?;
        scene.apply(buffer_for(&deployment("web", 1, "1"), json!({ "replicas": 0 }))).await;
        let said = self.within(60, "a buffer says how much room there is", async || {
            let buffers = scene.list(BUFFERS).await;
            buffers
                .iter()
                .all(|buffer| condition(buffer, "Provisioning") == Some(("True", "CapacityProvisioned")))
        });
        said.await?;
        scene.apply(deployment("huge", 1, "1000")).await;
        let told = self.within(60, "a pod without a place is told why", async || {
            let events = scene.list("/api/v1/namespaces/default/events").await;
            events
                .iter()
                .any(|event| event["source"]["component"] == "berth" && event["reason"] == "FailedScheduling")
        });
        told.await?;
        scene.apply(deployment("huge", 0, "1000")).await;
        Ok(())
    }

    /// The notice is enough to be gone before the machine is.
    async fn interruption(&self) -> Result<(), String> {
        let claims = self.claims_of("spot").await;
        let moved = self.within(110, "what ran on spot runs elsewhere before the machine ends", async || {
            let now = self.claims_of("spot").await;
            let is_gone = claims.iter().all(|claim| !now.contains(claim));
            is_gone && self.scene.running().await == self.running
        });
        moved.await
    }

    /// Somebody deletes a claim whose pod may not be evicted.
    async fn forced_end(&self) -> Result<(), String> {
        let Some(claim) = self.claims_of("guarded").await.pop() else {
            return Err("there is no guarded claim".to_owned());
        };
        let path = format!("/apis/karpenter.sh/v1/nodeclaims/{claim}");
        let request = http::Request::delete(path).body(Vec::new()).expect("a request");
        let _: Value = self.scene.client.request(request).await.expect("it is deleted");
        let mut was_told = false;
        let ended = self.within(150, "a claim ends with its grace period", async || {
            let pods = self.scene.pods().await;
            was_told |= pods.iter().any(|pod| {
                let is_guarded = pod["metadata"]["labels"]["app"] == "guarded";
                is_guarded && pod["metadata"]["deletionTimestamp"].is_string()
            });
            !self.claims_of("guarded").await.contains(&claim)
        });
        ended.await?;
        if was_told { Ok(()) } else { Err("a pod lost its machine without being told to end".to_owned()) }
    }

    /// Somebody deletes a node whose kubelet is silent, and lets nobody see to its end.
    async fn lost_node(&self) -> Result<(), String> {
        let scene = self.scene;
        let claims = scene.claims().await;
        let is_default = |claim: &&Value| claim["metadata"]["labels"]["karpenter.sh/nodepool"] == "default";
        let Some(claim) = claims.iter().find(is_default) else {
            return Err("there is no claim of the pool default".to_owned());
        };
        let (claim, node) = (text(&claim["metadata"]["name"]), text(&claim["status"]["nodeName"]));
        scene.world.kubelets().silence(node);
        let path = format!("/api/v1/nodes/{node}");
        scene.patch(&path, &json!({ "metadata": { "finalizers": null } })).await;
        scene.delete(&path).await;
        let ended = self.within(300, "a claim ends whose node is gone", async || {
            !self.claims_of("default").await.iter().any(|name| name == claim)
        });
        ended.await
    }

    async fn shrink(&self) -> Result<(), String> {
        let scene = self.scene;
        for name in ["spot", "guarded"] {
            scene.apply(on(name, deployment(name, 0, "1"))).await;
        }
        scene.apply(deployment("web", 2, "1")).await;
        let few = self.within(600, "two nodes are left", async || {
            scene.machines() <= 2 && scene.nodes().await.len() <= 2 && scene.running().await == 2
        });
        few.await?;
        scene.apply(deployment("web", 0, "1")).await;
        let none = self.within(600, "none is left", async || {
            scene.machines() == 0 && scene.claims().await.is_empty() && scene.nodes().await.is_empty()
        });
        none.await
    }

    async fn come_and_go(&self) -> Result<(), String> {
        let scene = self.scene;
        let mut delayed = class();
        delayed["spec"]["nodeRegistrationDelay"] = json!("5s");
        scene.apply(delayed).await;
        scene.apply(pool("default", |_| {})).await;
        scene.apply(deployment("web", 1, "1")).await;
        self.within(90, "a pod runs", async || scene.running().await == 1).await?;
        scene.apply(deployment("web", 0, "1")).await;
        let none = self.within(180, "none is left", async || {
            scene.claims().await.is_empty() && scene.nodes().await.is_empty()
        });
        none.await
    }

    async fn claims_of(&self, pool: &str) -> Vec<String> {
        let claims = self.scene.claims().await;
        let of_pool =
            claims.iter().filter(|claim| claim["metadata"]["labels"]["karpenter.sh/nodepool"] == pool);
        of_pool.filter_map(|claim| claim["metadata"]["name"].as_str().map(str::to_owned)).collect()
    }

    async fn within(
        &self,
        secs_max: u64,
        what: &str,
        mut holds: impl AsyncFnMut() -> bool,
    ) -> Result<(), String> {
        for _ in 0..secs_max {
            if holds().await {
                return Ok(());
            }
            sleep(Duration::from_secs(1)).await;
        }
        Err(format!("{what}: not within {secs_max} s"))
    }
}

/// A pool for those alone who ask for it.
fn set_apart(pool: &mut Value, name: &str, capacity_type: &str) {
    let template = &mut pool["spec"]["template"];
    template["metadata"] = json!({ "labels": { "berth": name } });
    template["spec"]["taints"] = json!([{ "key": "berth", "value": name, "effect": "NoSchedule" }]);
    let wanted = json!({ "key": "karpenter.sh/capacity-type", "operator": "In", "values": [capacity_type] });
    if let Some(requirements) = template["spec"]["requirements"].as_array_mut() {
        requirements.push(wanted);
    }
}

fn on(name: &str, mut deployment: Value) -> Value {
    let spec = &mut deployment["spec"]["template"]["spec"];
    spec["nodeSelector"] = json!({ "berth": name });
    spec["tolerations"] = json!([{ "key": "berth", "operator": "Exists" }]);
    // Long enough to be seen while it ends.
    deployment["spec"]["template"]["metadata"]["annotations"] = json!({ "berth.dev/stop-after": "5s" });
    deployment
}

fn budget(name: &str, spec: &Value) -> Value {
    let mut budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": { "name": name, "namespace": "default" }, "spec": spec,
    });
    budget["spec"]["selector"] = json!({ "matchLabels": { "app": name } });
    budget
}
