//! What is counted of VPSie's groups, under the names that VPSie's own autoscaler gave it.

use std::time::Duration;

use berth_cloud::vpsie::Family;
use berth_world::cloud::weather::Weather;
use berth_world::vpsie::Faults;
use serde_json::json;
use tokio::time::sleep;

use crate::account::{SECRET, group};
use crate::awaited;
use crate::vpsie::{Berthed, workload};

#[test]
fn what_happens_is_counted_as_vpsies_autoscaler_does() {
    awaited(async {
        let berthed = Berthed::new(Family::Managed, Weather::default(), Faults::default()).await;
        berthed.sign(SECRET).await;
        let scene = &berthed.scene;
        let operator = berthed.operator();
        let reports = operator.reports();
        let script = async {
            scene.apply(group("workers", |group| group["spec"]["maxNodes"] = json!(7))).await;
            scene.apply(workload(10)).await;
            scene.until(600, "ten run", async || scene.running().await == 10).await;
            sleep(Duration::from_secs(30)).await;
            let told = berthed.metrics().scrape(&reports.borrow(), "berth");
            let of_group = r#"{nodegroup="workers",namespace="kube-system"}"#;
            let nodes = scene.machines();
            for line in [
                format!("nodegroup_current_nodes{of_group} {nodes}.0"),
                format!("nodegroup_desired_nodes{of_group} {nodes}.0"),
                format!("nodegroup_ready_nodes{of_group} {nodes}.0"),
                format!("nodegroup_max_nodes{of_group} 7.0"),
                format!("nodegroup_min_nodes{of_group} 0.0"),
                format!("nodegroup_cost_hourly{of_group} 0."),
                r#"cost_savings_estimated_monthly{nodegroup="workers",namespace="kube-system",source="rebalancing"}"#
                    .to_owned(),
                r#"vpsie_api_circuit_breaker_state{state="closed"} 1.0"#.to_owned(),
                format!("scale_up_total{of_group} 1"),
                format!("scale_up_nodes_added_sum{of_group} {nodes}.0"),
                format!("scale_up_decision_nodes_requested_sum{of_group} {nodes}.0"),
                r#"scale_up_decisions_total{nodegroup="workers",namespace="kube-system",result="executed"} 1"#.to_owned(),
                format!("node_provisioning_duration_seconds_count{of_group} {nodes}"),
                format!(
                    r#"vpsienode_phase{{phase="Ready",nodegroup="workers",namespace="kube-system"}} {nodes}.0"#
                ),
                r#"vpsie_api_requests_total{method="POST",status="200"}"#.to_owned(),
                "credential_valid 1.0".to_owned(),
            ] {
                assert!(told.contains(&format!("vpsie_autoscaler_{line}")), "{line}\n{told}");
            }
            scene.apply(workload(100)).await;
            scene
                .until(600, "some have no place", async || {
                    scene.events("web").await.iter().any(|said| said.contains("NodeLimit"))
                })
                .await;
            let told = berthed.metrics().scrape(&reports.borrow(), "berth");
            for line in [
                r#"pending_pods_current{namespace="default"}"#,
                r#"unschedulable_pods_total{constraint="unknown",namespace="default"}"#,
                r#"scale_up_decisions_total{nodegroup="workers",namespace="kube-system",result="skipped_max_capacity"}"#,
                r#"scale_up_decisions_total{nodegroup="workers",namespace="kube-system",result="skipped_provisioning"}"#,
                r#"scaling_decisions_total{nodegroup="workers",namespace="kube-system",decision="scale_up",reason="unschedulable_pods"}"#,
                r#"scaling_decisions_total{nodegroup="workers",namespace="kube-system",decision="no_action",reason="skipped_max_capacity"}"#,
                r#"controller_reconcile_total{controller="vpsienode",result="requeue"}"#,
                r#"controller_reconcile_duration_seconds_count{controller="nodegroup"}"#,
                r#"reconciliation_queue_depth{controller="vpsienode"}"#,
                "event_buffer_size",
                "event_buffer_dropped_total 0",
            ] {
                assert!(told.contains(&format!("vpsie_autoscaler_{line}")), "{line}\n{told}");
            }
            // Somebody else is always faster, for a while.
            let busy = "berth before patch nodegroups.autoscaler.vpsie.com/status #1x3: status 409";
            scene.world.plan_faults(busy.parse().expect("a plan"));
            scene.apply(workload(0)).await;
            let is_measured = async || {
                let told = berthed.metrics().scrape(&reports.borrow(), "berth");
                let of_node = r#",nodegroup="workers",namespace="kube-system"} "#;
                ["cpu", "memory"].iter().all(|resource| {
                    let series = format!("vpsie_autoscaler_node_utilization_{resource}_percent{{node=");
                    told.lines().any(|line| line.starts_with(&series) && line.contains(of_node))
                })
            };
            scene.until(300, "what nodes use is told", is_measured).await;
            scene.until(7200, "all nodes go", async || scene.machines() == 0).await;
            let told = berthed.metrics().scrape(&reports.borrow(), "berth");
            for line in [
                "scale_down_total",
                "scale_down_nodes_removed_sum",
                "node_termination_duration_seconds_count",
            ] {
                assert!(told.contains(&format!("vpsie_autoscaler_{line}{of_group}")), "{line}\n{told}");
            }
            for line in [
                r#"scale_down_blocked_total{nodegroup="workers",namespace="kube-system",reason="cooldown"}"#,
                r#"scaling_decisions_total{nodegroup="workers",namespace="kube-system",decision="scale_down",reason="Empty"}"#,
                r#"audit_events_total{event_type="claim_deleted",category="claim",severity="info"}"#,
                r#"controller_reconcile_errors_total{controller="nodegroup",error_type="conflict"}"#,
                "vpsienode_discovery_duration_seconds_sum ",
            ] {
                assert!(told.contains(&format!("vpsie_autoscaler_{line}")), "{line}\n{told}");
            }
            assert!(!told.contains(SECRET), "a secret is counted");
        };
        scene.play_with(operator, script).await;
    });
}
