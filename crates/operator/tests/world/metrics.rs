//! What a scrape says after something has happened.

#![expect(clippy::float_cmp, reason = "counts are whole numbers, which floats hold exactly")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use berth_api::ClassKind;
use berth_cloud::Cloud;
use berth_operator::{METRICS, MetricKind, Metrics, Report, Settings};
use berth_world::cloud::Weather;
use kube::Client;
use serde_json::json;
use tokio::sync::watch;

use crate::awaited;
use crate::log::Log;
use crate::scene::{Scene, class, deployment, pool, text};

#[derive(Debug, Default)]
struct Scraped {
    help: BTreeMap<String, String>,
    kinds: BTreeMap<String, String>,
    /// By the whole series, labels and all.
    values: BTreeMap<String, f64>,
}

impl Scraped {
    fn of(metrics: &Metrics, reports: &watch::Receiver<Arc<Report>>) -> Self {
        let text = metrics.scrape(&reports.borrow(), "berth");
        assert!(text.ends_with("# EOF\n"));
        let mut scraped = Self::default();
        for line in text.lines() {
            let words: Vec<&str> = line.splitn(4, ' ').collect();
            match words[..] {
                ["#", "HELP", name, help] => drop(scraped.help.insert(name.to_owned(), help.to_owned())),
                ["#", "TYPE", name, kind] => drop(scraped.kinds.insert(name.to_owned(), kind.to_owned())),
                ["#", ..] => {}
                _ => {
                    let (series, value) = line.rsplit_once(' ').expect("a value");
                    let value = value.parse().expect("a number");
                    assert_eq!(scraped.values.insert(series.to_owned(), value), None, "{series} twice");
                }
            }
        }
        scraped
    }

    fn value(&self, series: &str) -> f64 {
        *self.values.get(series).unwrap_or_else(|| panic!("no {series} in {:#?}", self.values))
    }

    /// All series of a metric together.
    fn sum(&self, name: &str) -> f64 {
        self.sum_with(name, "")
    }

    /// All that have this among their labels.
    fn sum_with(&self, name: &str, label: &str) -> f64 {
        let is_its = |series: &&String| series.split('{').next() == Some(name) && series.contains(label);
        self.values.keys().filter(is_its).map(|series| self.values[series]).sum()
    }
}

/// Plays a script that can scrape.
fn played(script: impl AsyncFnOnce(&Scene, &dyn Fn() -> Scraped)) {
    awaited(async {
        let scene = Scene::new(1, Weather::default()).await;
        let operator = scene.operator("berth", 1);
        let (metrics, reports) = (operator.metrics(), operator.reports());
        let scrape = || Scraped::of(&metrics, &reports);
        scene.play_with(operator, script(&scene, &scrape)).await;
    });
}

/// Nodes that are broken, and what Karpenter's dashboards show of that.
#[test]
fn a_scrape_tells_of_repairs() {
    played(async |scene, scrape| {
        scene.apply(class()).await;
        scene
            .apply(pool("default", |pool| pool["spec"]["disruption"]["consolidateAfter"] = json!("Never")))
            .await;
        scene.apply(deployment("web", 1, "1")).await;
        scene.until(180, "the pod runs", async || scene.running().await == 1).await;
        let name = text(&scene.nodes().await[0]["metadata"]["name"]).to_owned();
        scene.world.kubelets().silence(&name);
        let is_gone = async || scene.nodes().await.iter().all(|node| node["metadata"]["name"] != *name);
        scene.until(3600, "it is gone", is_gone).await;
        let scraped = scrape();
        let repaired = r#"karpenter_nodeclaims_unhealthy_disrupted_total{condition="Ready",nodepool="default",capacity_type="spot",image_id=""}"#;
        assert_eq!(scraped.value(repaired), 1.0);
        let disrupted = r#"karpenter_nodeclaims_disrupted_total{nodepool="default",reason="unhealthy",capacity_type="spot"}"#;
        assert_eq!(scraped.value(disrupted), 1.0);
    });
}

/// What is not seen is counted and told once, be it a cloud that does not tell or an object that cannot be read.
#[test]
fn a_scrape_tells_of_what_is_not_seen() {
    let unreadable = json!({
        "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": { "name": "odd" }, "handler": "odd",
        "overhead": { "podFixed": { "cpu": "-1" } },
    });
    let cases = [
        (json!({}), None, &[][..]),
        (
            json!({ "calls": { "list": { "unreachable": { "permille": 1000 } } } }),
            None,
            &["nothing is taken away: machines: the cloud's list broke off"][..],
        ),
        (
            json!({}),
            Some(unreadable),
            &[
                "nothing is taken away: objects: not all can be read",
                "sight message=cluster: RuntimeClass/odd",
            ],
        ),
    ];
    for (weather, object, lines) in cases {
        let log = Log::default();
        let _listening = log.listen();
        awaited(async {
            let weather: Weather = serde_json::from_value(weather).expect("weather");
            let scene = Scene::new(1, weather).await;
            let operator = scene.operator("berth", 1);
            let (metrics, reports) = (operator.metrics(), operator.reports());
            let script = async {
                scene.apply(class()).await;
                scene.apply(pool("default", |_| {})).await;
                if let Some(object) = object {
                    scene.apply(object).await;
                }
                tokio::time::sleep(Duration::from_mins(5)).await;
                let scraped = Scraped::of(&metrics, &reports);
                let is_synced = lines.is_empty();
                assert_eq!(scraped.value("karpenter_cluster_state_synced"), f64::from(u8::from(is_synced)));
                let secs = scraped.value("karpenter_cluster_state_unsynced_time_seconds");
                assert_eq!(secs > 200.0, !is_synced, "{secs} s, {lines:?}");
                assert!(reports.borrow().has_seen_all, "it is ready all the same");
            };
            scene.play_with(operator, script).await;
        });
        let log = log.text();
        let warned =
            |line: &str| log.lines().filter(|said| said.starts_with("WARN") && said.contains(line)).count();
        for line in lines {
            assert_eq!(warned(line), 1, "{line}: {log}");
        }
        assert_eq!(warned("berth::sight"), lines.len(), "{log}");
    }
}

/// Pods that no machine can hold wait where they may be.
#[test]
fn a_scrape_tells_where_pods_wait() {
    played(async |scene, scrape| {
        scene.apply(class()).await;
        scene.apply(pool("default", |_| {})).await;
        for (name, zone) in [("one", Some("test-zone-b")), ("other", Some("mars")), ("any", None)] {
            let mut waits = deployment(name, 1, "1000");
            waits["spec"]["template"]["spec"]["nodeSelector"] =
                json!({ "topology.kubernetes.io/zone": zone });
            scene.apply(waits).await;
        }
        let waiting = async || scrape().sum("karpenter_scheduler_unschedulable_pods_count") == 3.0;
        scene.until(60, "all wait", waiting).await;
        for zone in ["test-zone-b", "none", "flexible"] {
            let series =
                format!(r#"karpenter_scheduler_pending_pods_by_effective_zone_count{{zone="{zone}"}}"#);
            assert_eq!(scrape().value(&series), 1.0, "{zone}");
        }
    });
}

#[test]
fn a_scrape_tells_what_is_and_what_was() {
    played(async |scene, scrape| {
        scene.apply(class()).await;
        scene.apply(pool("default", |pool| pool["spec"]["limits"] = json!({ "cpu": "100" }))).await;
        scene.apply(deployment("web", 20, "1")).await;
        scene.until(180, "20 pods run", async || scene.running().await == 20).await;
        tokio::time::sleep(std::time::Duration::from_mins(1)).await;
        let up = scrape();
        is_all_of_the_table(&up);
        let created = up.value(r#"karpenter_nodeclaims_created_total{nodepool="default",reason="provisioned",min_values_relaxed="false"}"#);
        let machines = f64::from(u32::try_from(scene.machines()).expect("not many"));
        assert!(created >= machines && machines > 0.0, "{created} of {machines}");
        assert_eq!(up.value(r#"karpenter_nodes_created_total{nodepool="default"}"#), created);
        assert_eq!(up.value("karpenter_cluster_state_node_count"), machines);
        assert_eq!(up.value("karpenter_cluster_state_synced"), 1.0);
        assert_eq!(up.value(r#"leader_election_master_status{name="berth"}"#), 1.0);
        assert_eq!(up.value(r#"karpenter_nodepools_limit{nodepool="default",resource_type="cpu"}"#), 100.0);
        assert_eq!(
            up.value(r#"karpenter_nodepools_usage{nodepool="default",resource_type="nodes"}"#),
            machines
        );
        assert!(up.value(r#"karpenter_nodepools_usage{nodepool="default",resource_type="cpu"}"#) >= 20.0);
        assert!(up.sum("karpenter_nodes_total_pod_requests") >= 20.0);
        assert_eq!(up.sum_with("karpenter_pods_state", r#"phase="Running""#), 20.0);
        let given = up.sum_with("karpenter_nodes_allocatable", r#"resource_type="cpu""#);
        let used = up.value(r#"karpenter_cluster_utilization_percent{resource_type="cpu"}"#);
        assert!((used - 100.0 * 20.0 / given).abs() < 1e-6, "{used} % of {given}");
        assert!(up.value(r#"karpenter_cluster_utilization_percent{resource_type="memory"}"#) > 0.0);
        // A tenth of them, rounded up.
        assert!(machines <= 10.0, "{machines}");
        let allowed = r#"karpenter_nodepools_allowed_disruptions{nodepool="default",reason="Empty"}"#;
        let consuming = r#"karpenter_nodepools_nodes_consuming_budgets{nodepool="default"}"#;
        assert_eq!((up.value(allowed), up.value(consuming)), (1.0, 0.0));
        assert!((0.0..1.0).contains(&up.value("berth_plan_gap_ratio")));
        assert!(up.value("berth_round_age_seconds") <= 12.0, "it is looked every ten seconds");
        assert_eq!(up.value("karpenter_scheduler_queue_depth"), 0.0);
        assert_eq!(up.value("karpenter_scheduler_unfinished_work_seconds"), 0.0);
        for what in ["scheduling_decision", "bound", "startup", "provisioning_bound", "provisioning_startup"]
        {
            assert_eq!(up.value(&format!("karpenter_pods_{what}_duration_seconds_count")), 20.0, "{what}");
        }
        assert!(up.value("karpenter_pods_bound_duration_seconds_sum") >= 20.0 * 45.0, "machines take 45 s");
        assert!(up.sum("karpenter_nodes_current_lifetime_seconds") >= 30.0 * machines);
        let cost = up.value(r#"berth_cost_per_hour{pool="default"}"#);
        assert!(cost > 0.0);
        assert_eq!(up.value(r#"karpenter_nodepools_cost_total{nodepool="default"}"#), cost);
        let shared = up.sum("berth_namespace_cost_per_hour") + up.value("berth_idle_cost_per_hour");
        assert!((shared - cost).abs() < 1e-5, "{shared} of {cost}");
        assert!(up.value("berth_lower_bound_per_hour") <= cost + 1e-9);
        assert!(up.value(r#"berth_watch_age_seconds{kind="pods"}"#) <= 60.0);
        assert!(up.value(r#"berth_ledger_commits_total{result="committed"}"#) >= 1.0);
        assert!(up.value(r#"berth_plan_duration_seconds_count{kind="provision"}"#) >= 1.0);
        assert!(
            up.value(r#"karpenter_cloudprovider_duration_seconds_count{provider="kwok",method="Create"}"#)
                >= machines
        );
        if cfg!(target_os = "linux") {
            assert!(up.value("process_resident_memory_bytes") > 1e6);
            assert!(up.value("process_start_time_seconds") > 1.7e9);
        }

        scene.apply(deployment("web", 0, "1")).await;
        let is_going = async || {
            let now = scrape();
            (now.value(allowed), now.value(consuming)) == (0.0, 1.0)
        };
        scene.until(120, "one goes, and no other may", is_going).await;
        scene
            .until(900, "none is left", async || scene.machines() == 0 && scene.claims().await.is_empty())
            .await;
        tokio::time::sleep(std::time::Duration::from_mins(1)).await;
        let down = scrape();
        is_all_of_the_table(&down);
        let created = down.sum("karpenter_nodeclaims_created_total");
        assert_eq!(down.sum("karpenter_nodeclaims_terminated_total"), created);
        assert_eq!(down.sum("karpenter_nodeclaims_disrupted_total"), created);
        assert_eq!(down.value(r#"karpenter_nodes_terminated_total{nodepool="default"}"#), created);
        assert_eq!(
            down.value(r#"karpenter_nodeclaims_termination_duration_seconds_count{nodepool="default"}"#),
            created
        );
        assert_eq!(down.value(r#"karpenter_nodes_drained_total{nodepool="default"}"#), created);
        assert_eq!(down.value("karpenter_cluster_state_node_count"), 0.0);
        assert_eq!(down.value(r#"berth_cost_per_hour{pool="default"}"#), 0.0);
        assert!(down.sum("karpenter_voluntary_disruption_decisions_total") >= 1.0);
        assert!(down.sum("berth_decisions_total") > created);
        let decisions = down.sum("karpenter_voluntary_disruption_decisions_total");
        assert_eq!(down.sum("karpenter_voluntary_disruption_decisions_by_nodepool_total"), decisions);
        assert_eq!(down.sum("karpenter_voluntary_disruption_eligible_nodes"), 0.0);
        let is_theirs = |series: &&String| series.starts_with("karpenter_") && !series.contains("allowed_");
        for series in down.values.keys().filter(is_theirs) {
            let reason = series.split(r#"reason=""#).nth(1).unwrap_or_default().split('"').next();
            assert_eq!(reason.map(str::to_lowercase).as_deref(), reason, "{series}");
        }
    });
}

/// A claim that somebody deletes, whose pod may leave a minute later.
#[test]
fn a_scrape_tells_of_a_drain() {
    played(async |scene, scrape| {
        scene.apply(class()).await;
        scene.apply(pool("default", |_| {})).await;
        scene.guard().await;
        scene.apply(deployment("web", 1, "1")).await;
        scene.until(180, "the pod runs", async || scene.running().await == 1).await;
        tokio::time::sleep(std::time::Duration::from_mins(10)).await;
        let name = text(&scene.claims().await[0]["metadata"]["name"]).to_owned();
        scene.delete(&format!("/apis/karpenter.sh/v1/nodeclaims/{name}")).await;
        tokio::time::sleep(std::time::Duration::from_mins(1)).await;
        let held = scrape();
        let refused = r#"karpenter_pods_eviction_requests_total{code="429"}"#;
        assert!(held.value(refused) >= 5.0, "{}", held.value(refused));
        assert_eq!(held.sum("karpenter_pods_drained_total"), 0.0);
        assert_eq!(held.sum("karpenter_nodes_drained_total"), 0.0);
        scene.delete("/apis/policy/v1/namespaces/default/poddisruptionbudgets/web").await;
        let is_gone = async || scene.claims().await.iter().all(|claim| claim["metadata"]["name"] != *name);
        scene.until(300, "it is gone", is_gone).await;
        let gone = scrape();
        for series in [
            r#"karpenter_pods_eviction_requests_total{code="200"}"#,
            r#"karpenter_pods_drained_total{reason="deleted"}"#,
            r#"karpenter_nodes_drained_total{nodepool="default"}"#,
            r#"karpenter_nodeclaims_instance_termination_duration_seconds_count{nodepool="default"}"#,
            r#"karpenter_nodes_termination_duration_seconds_count{nodepool="default"}"#,
            r#"karpenter_nodes_lifetime_duration_seconds_count{nodepool="default"}"#,
        ] {
            assert_eq!(gone.value(series), 1.0, "{series}");
        }
        let took = |what: &str| gone.value(&format!(r#"karpenter_{what}_seconds_sum{{nodepool="default"}}"#));
        let ended = took("nodeclaims_instance_termination_duration");
        assert!((9.0..60.0).contains(&ended), "{ended} s, and machines take 10");
        let left = took("nodes_termination_duration");
        assert!((60.0..180.0).contains(&left), "{left} s");
        let lived = took("nodes_lifetime_duration");
        assert!((600.0..900.0).contains(&lived), "{lived} s");
    });
}

/// What becomes of a node that was to be replaced, what is counted of that, and with which labels.
#[test]
fn a_scrape_tells_of_nodes_that_stay_after_all() {
    for (what, metric, labels) in [
        ("its replacement is gone", "queue_failures", r#"decision="replace",reason="drifted""#),
        ("it is protected by now", "failed_validations", r#"reason="drifted""#),
    ] {
        played(async |scene, scrape| {
            scene.apply(class()).await;
            scene.apply(pool("default", |_| {})).await;
            scene.apply(deployment("web", 1, "1")).await;
            scene.until(180, "the pod runs", async || scene.running().await == 1).await;
            let (node, claim) = (scene.nodes().await.remove(0), scene.claims().await.remove(0));
            let node = format!("/api/v1/nodes/{}", text(&node["metadata"]["name"]));
            let drifted = json!({ "labels": { "team": "red" } });
            scene.apply(pool("default", |pool| pool["spec"]["template"]["metadata"] = drifted)).await;
            let is_closed =
                async || scene.get(&node).await["spec"]["taints"].to_string().contains("disrupted");
            scene.until(120, "it is closed", is_closed).await;
            if metric == "queue_failures" {
                let claims = scene.claims().await;
                let other = claims.iter().find(|other| other["metadata"]["uid"] != claim["metadata"]["uid"]);
                let name = text(&other.expect("another is bought first")["metadata"]["name"]);
                scene.delete(&format!("/apis/karpenter.sh/v1/nodeclaims/{name}")).await;
            } else {
                let protected = json!({ "karpenter.sh/do-not-disrupt": "true" });
                scene.patch(&node, &json!({ "metadata": { "annotations": protected } })).await;
            }
            let name = format!("karpenter_voluntary_disruption_{metric}_total");
            scene.until(60, what, async || scrape().sum(&name) > 0.0).await;
            let series = format!(r#"{name}{{{labels},consolidation_type=""}}"#);
            assert_eq!((scrape().value(&series), scrape().sum(&name)), (1.0, 1.0), "{what}");
        });
    }
}

/// Every replica plans. What is counted of plans would be there twice.
#[test]
fn only_who_leads_counts_what_is_weighed() {
    awaited(async {
        let scene = Scene::new(1, Weather::default()).await;
        let leader = scene.operator("berth", 1);
        let cloud: Arc<dyn Cloud> = Arc::new(scene.cloud.clone());
        let means = (BTreeMap::from([(ClassKind::Kwok, cloud)]), Settings::default());
        let client = Client::new(scene.world.client("standby"), "default");
        let standby = scene.operator_with(means, (client, "standby"), watch::channel(None).1);
        let told = [&leader, &standby].map(|operator| (operator.metrics(), operator.reports()));
        let script = async {
            scene.apply(class()).await;
            let balanced = |pool: &mut serde_json::Value| {
                pool["spec"]["disruption"]["consolidationPolicy"] = json!("Balanced");
            };
            scene.apply(pool("default", balanced)).await;
            scene.apply(deployment("web", 20, "1")).await;
            scene.until(180, "20 pods run", async || scene.running().await == 20).await;
            scene.apply(deployment("web", 2, "1")).await;
            tokio::time::sleep(std::time::Duration::from_mins(10)).await;
            let [leader, standby] = told.map(|(metrics, reports)| Scraped::of(&metrics, &reports));
            assert!(leader.sum("karpenter_consolidation_moves_total") >= 1.0);
            assert_eq!(standby.sum("karpenter_consolidation_moves_total"), 0.0);
            assert_eq!(standby.sum("karpenter_consolidation_score_count"), 0.0);
            assert!(standby.value(r#"berth_plan_duration_seconds_count{kind="disrupt"}"#) >= 1.0);
        };
        let both = async {
            tokio::select! {
                biased;
                () = Box::pin(standby.run()) => {}
                () = Box::pin(script) => {}
            }
        };
        Box::pin(scene.play_with(leader, both)).await;
    });
}

/// Every row is there, as it is defined, and nothing else is.
fn is_all_of_the_table(scraped: &Scraped) {
    assert_eq!(scraped.kinds.len(), METRICS.len());
    let mut known = Vec::new();
    for metric in METRICS {
        // The format names counters without what it adds to their series.
        let name = match metric.kind {
            MetricKind::Counter => metric.name.strip_suffix("_total").expect("a counter"),
            _ => metric.name,
        };
        assert_eq!(scraped.kinds.get(name).map(String::as_str), Some(metric.kind.name()), "{name}");
        assert_eq!(scraped.help.get(name).map(String::as_str), Some(metric.help), "{name}");
        known.push((
            metric,
            match metric.kind {
                MetricKind::Histogram => {
                    vec![format!("{name}_bucket"), format!("{name}_sum"), format!("{name}_count")]
                }
                _ => vec![metric.name.to_owned()],
            },
        ));
    }
    for series in scraped.values.keys() {
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let row = known.iter().find(|(_, names)| names.iter().any(|known| known == name));
        let (metric, _) = row.unwrap_or_else(|| panic!("{series} is in no row"));
        for label in metric.labels {
            assert!(labels.contains(&format!("{label}=\"")), "{series} has no {label}");
        }
        assert!(!labels.contains("web-"), "{series} names a pod");
    }
}
