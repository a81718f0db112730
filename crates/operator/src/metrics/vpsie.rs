//! What VPSie's own autoscaler counts, under its names.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::resources::vpsie::NodeGroup;
use berth_cloud::vpsie::{Event, Observer, Outcome, Phase};
use berth_core::disruption::Basis;
use berth_core::units::Price;

use super::gauges::{count, dollars};
use super::{Metrics, Samples, table};
use crate::claim::{Claim, FAILED};
use crate::dialect::{PoolId, PoolObject};
use crate::office::Clock;
use crate::report::Report;

pub(super) fn of_report(samples: &mut Samples, report: &Report) {
    let groups = report.pools.values().filter_map(|pool| match &**pool {
        PoolObject::NodeGroup(group) => Some((pool.id(), group)),
        PoolObject::NodePool(_) => None,
    });
    let mut has_groups = false;
    for (id, group) in groups {
        has_groups = true;
        of_group(samples, report, &id, group);
    }
    if has_groups {
        samples.counted(table::EVENTS_DROPPED, [], 0.0);
        for (namespace, _) in report.waiting_since.keys() {
            samples.add(table::VPSIE_PENDING, [namespace], 1.0);
        }
    }
}

fn of_group(samples: &mut Samples, report: &Report, id: &PoolId, group: &NodeGroup) {
    let (name, namespace) = (&id.name, &*id.namespace);
    let labels = [&**name, namespace];
    let claims: Vec<&Claim> = report
        .claims
        .values()
        .map(|claim| &**claim)
        .filter(|claim| claim.pool_id().as_ref() == Some(id))
        .collect();
    let current = claims.iter().filter(|claim| !claim.holds(FAILED));
    let staying = |claim: &&&Claim| !claim.is_deleting() && !report.leaving.contains_key(&claim.name);
    for resource in ["nodegroup", "vpsienode"] {
        samples.counted(table::NAMESPACE_REJECTIONS, [resource, namespace], 0.0);
    }
    samples.set(table::GROUP_CURRENT, labels, count(current.clone().count()));
    samples.set(table::GROUP_DESIRED, labels, count(current.clone().filter(staying).count()));
    let nodes = report.snapshot.nodes.iter().filter(|node| node.pool.as_ref() == Some(name));
    let are_ready: BTreeSet<&str> =
        nodes.clone().filter(|node| !node.disruption.not_ready).map(|node| &*node.name).collect();
    let is_up = |claim: &Claim| claim.node().is_some_and(|node| are_ready.contains(node));
    let ready = current.filter(|claim| !claim.is_deleting() && claim.holds("Initialized") && is_up(claim));
    samples.set(table::GROUP_READY, labels, count(ready.count()));
    let (min, max) = berth_api::node_bounds(group);
    samples.set(table::GROUP_MIN, labels, f64::from(min));
    samples.set(table::GROUP_MAX, labels, f64::from(max));
    let mut phases: BTreeMap<&str, usize> = BTreeMap::new();
    for claim in claims {
        *phases.entry(claim.phase(&claim.conditions)).or_default() += 1;
    }
    for (phase, claims) in phases {
        samples.set(table::VPSIE_PHASE, [phase, name, namespace], count(claims));
    }
    for node in nodes.clone() {
        if let Some(usage) = node.disruption.usage.filter(|usage| usage.basis == Basis::Measured) {
            let labels = [&*node.name, name, namespace];
            samples.set(table::NODE_CPU, labels, f64::from(usage.cpu_percent));
            samples.set(table::NODE_MEMORY, labels, f64::from(usage.memory_percent));
        }
    }
    let cost = nodes.filter_map(|node| report.snapshot.cost_of(node)).fold(Price::ZERO, Price::plus);
    samples.set(table::GROUP_COST, labels, dollars(cost));
    let savings = report.course.savings.get(name).copied().unwrap_or_default();
    for (source, saves) in [("consolidation", savings.removal), ("rebalancing", savings.replacement)] {
        samples.set(table::SAVINGS, [name, namespace, source], dollars(saves.per_month()));
    }
}

/// Counts what the client does.
#[derive(Debug)]
pub(crate) struct ApiMetrics {
    pub(crate) metrics: Metrics,
    pub(crate) clock: Clock,
}

impl Observer for ApiMetrics {
    fn observe(&self, event: &Event<'_>) {
        let metrics = &self.metrics;
        match event {
            Event::Called { method, outcome, took } => {
                metrics.took(table::VPSIE_REQUEST, [method], *took);
                let (status, error) = match outcome {
                    Outcome::Status(status) => (status.to_string(), error_of(*status)),
                    Outcome::Lost(_) => ("none".to_owned(), Some("request_failed")),
                };
                metrics.count(table::VPSIE_REQUESTS, [method, &status]);
                if let Some(error) = error {
                    metrics.count(table::VPSIE_ERRORS, [method, error]);
                }
            }
            Event::Waited { method, took, .. } => {
                metrics.count(table::VPSIE_LIMITED, [method]);
                metrics.took(table::VPSIE_LIMITED_FOR, [method], *took);
            }
            Event::Breaker { from, to } => self.breaker(*from, *to),
            Event::Withheld { method, probe_in } => {
                metrics.count(table::VPSIE_ERRORS, [method, "circuit_open"]);
                if probe_in.is_zero() {
                    metrics.count(table::VPSIE_WITHHELD, []);
                }
            }
            Event::SignedIn { lasts } => {
                let lasts = i64::try_from(lasts.as_secs()).unwrap_or(i64::MAX);
                let at = self.clock.now().as_second().saturating_add(lasts);
                metrics.set(table::CREDENTIAL_EXPIRES, [], super::gauges::float(at));
            }
            Event::Rotated { accepted, took } => {
                metrics.count(table::ROTATIONS, []);
                metrics.count(if *accepted { table::ROTATIONS_WELL } else { table::ROTATIONS_ILL }, []);
                metrics.took(table::ROTATION, [], *took);
            }
            Event::Recognized { accepted } => {
                metrics.set(table::CREDENTIAL_VALID, [], f64::from(u8::from(*accepted)));
            }
        }
    }
}

impl ApiMetrics {
    pub(crate) fn new(metrics: Metrics, clock: Clock) -> Self {
        let new = Self { metrics, clock };
        new.breaker_is(Phase::Closed);
        new
    }

    fn breaker_is(&self, now: Phase) {
        for phase in [Phase::Closed, Phase::Open, Phase::Probing] {
            self.metrics.set(table::VPSIE_BREAKER, [state(phase)], f64::from(u8::from(phase == now)));
        }
    }

    fn breaker(&self, from: Phase, to: Phase) {
        let metrics = &self.metrics;
        self.breaker_is(to);
        metrics.count(table::VPSIE_BREAKER_CHANGES, [state(from), state(to)]);
        match (from, to) {
            (_, Phase::Probing) => metrics.count(table::VPSIE_PROBES, []),
            (Phase::Probing, Phase::Closed) => metrics.count(table::VPSIE_PROBES_WELL, []),
            (Phase::Probing, Phase::Open) => {
                metrics.count(table::VPSIE_PROBES_ILL, []);
                metrics.count(table::VPSIE_BREAKER_OPENED, []);
            }
            (_, Phase::Open) => metrics.count(table::VPSIE_BREAKER_OPENED, []),
            (_, Phase::Closed) => {}
        }
    }
}

fn state(phase: Phase) -> &'static str {
    match phase {
        Phase::Closed => "closed",
        Phase::Open => "open",
        Phase::Probing => "half_open",
    }
}

fn error_of(status: u16) -> Option<&'static str> {
    match status {
        401 => Some("unauthorized"),
        403 => Some("forbidden"),
        400..=499 => Some("client_error"),
        500.. => Some("server_error"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use berth_cloud::vpsie::Lane;

    use super::*;

    /// What each event adds to a scrape, all of them told to the same client in this order.
    #[test]
    fn all_that_the_client_does_is_counted() {
        let secs = Duration::from_secs;
        let called = |outcome| Event::Called { method: "GET", outcome, took: secs(2) };
        let changes = |from, to| Event::Breaker { from, to };
        let withheld = |probe_in| Event::Withheld { method: "GET", probe_in };
        let cases: [(Event<'_>, &[&str]); 20] = [
            (
                called(Outcome::Status(200)),
                &[
                    r#"api_requests_total{method="GET",status="200"} 1"#,
                    r#"api_request_duration_seconds_sum{method="GET"} 2.0"#,
                    r#"api_request_duration_seconds_count{method="GET"} 1"#,
                ],
            ),
            (
                called(Outcome::Status(401)),
                &[r#"api_errors_total{method="GET",error_type="unauthorized"} 1"#],
            ),
            (called(Outcome::Status(403)), &[r#"api_errors_total{method="GET",error_type="forbidden"} 1"#]),
            (
                called(Outcome::Status(404)),
                &[r#"api_errors_total{method="GET",error_type="client_error"} 1"#],
            ),
            (
                called(Outcome::Status(429)),
                &[r#"api_errors_total{method="GET",error_type="client_error"} 2"#],
            ),
            (
                called(Outcome::Status(503)),
                &[r#"api_errors_total{method="GET",error_type="server_error"} 1"#],
            ),
            (
                called(Outcome::Lost("timeout")),
                &[
                    r#"api_requests_total{method="GET",status="none"} 1"#,
                    r#"api_errors_total{method="GET",error_type="request_failed"} 1"#,
                    r#"api_request_duration_seconds_count{method="GET"} 7"#,
                ],
            ),
            (
                Event::Waited { method: "POST", lane: Lane::Acting, took: secs(3) },
                &[
                    r#"api_rate_limited_total{method="POST"} 1"#,
                    r#"api_rate_limit_wait_duration_seconds_sum{method="POST"} 3.0"#,
                    r#"api_rate_limit_wait_duration_seconds_count{method="POST"} 1"#,
                ],
            ),
            (
                changes(Phase::Closed, Phase::Open),
                &[
                    r#"api_circuit_breaker_state{state="open"} 1.0"#,
                    r#"api_circuit_breaker_state{state="closed"} 0.0"#,
                    r#"api_circuit_breaker_state_changes_total{from_state="closed",to_state="open"} 1"#,
                    "api_circuit_breaker_opened_total 1",
                ],
            ),
            // What is not sent while VPSie is down was not rejected by a probe.
            (
                withheld(secs(30)),
                &[
                    r#"api_circuit_breaker_state{state="half_open"} 0.0"#,
                    r#"api_errors_total{method="GET",error_type="circuit_open"} 1"#,
                ],
            ),
            (
                changes(Phase::Open, Phase::Probing),
                &[
                    r#"api_circuit_breaker_state{state="half_open"} 1.0"#,
                    r#"api_circuit_breaker_state_changes_total{from_state="open",to_state="half_open"} 1"#,
                    "api_circuit_breaker_half_open_attempts_total 1",
                ],
            ),
            (
                withheld(Duration::ZERO),
                &[
                    "api_circuit_breaker_half_open_rejected_total 1",
                    r#"api_errors_total{method="GET",error_type="circuit_open"} 2"#,
                ],
            ),
            (
                changes(Phase::Probing, Phase::Open),
                &["api_circuit_breaker_half_open_failures_total 1", "api_circuit_breaker_opened_total 2"],
            ),
            (
                changes(Phase::Open, Phase::Probing),
                &["api_circuit_breaker_half_open_attempts_total 2", "api_circuit_breaker_opened_total 2"],
            ),
            (
                changes(Phase::Probing, Phase::Closed),
                &[
                    "api_circuit_breaker_half_open_successes_total 1",
                    r#"api_circuit_breaker_state{state="closed"} 1.0"#,
                ],
            ),
            (
                Event::SignedIn { lasts: Duration::from_hours(1) },
                &["credential_expires_at_timestamp 1767229200.0"],
            ),
            (Event::Recognized { accepted: false }, &["credential_valid 0.0"]),
            (Event::Recognized { accepted: true }, &["credential_valid 1.0"]),
            (
                Event::Rotated { accepted: false, took: secs(1) },
                &["credential_rotation_attempts_total 1", "credential_rotation_failures_total 1"],
            ),
            (
                Event::Rotated { accepted: true, took: secs(4) },
                &[
                    "credential_rotation_attempts_total 2",
                    "credential_rotation_successes_total 1",
                    "credential_rotation_failures_total 1",
                    "credential_rotation_duration_seconds_sum 5.0",
                    "credential_rotation_duration_seconds_count 2",
                ],
            ),
        ];
        let metrics = Metrics::default();
        let clock = Clock::new(|| "2026-01-01T00:00:00Z".parse().unwrap());
        let counting = ApiMetrics::new(metrics.clone(), clock);
        for (event, lines) in cases {
            counting.observe(&event);
            let told = metrics.scrape(&Report::default(), "berth");
            for line in lines {
                let is_it = |said: &str| {
                    let said = said.strip_prefix("vpsie_autoscaler_");
                    said.is_some_and(|said| said.strip_prefix("vpsie_").unwrap_or(said) == *line)
                };
                assert!(told.lines().any(is_it), "{event:?}: {line}\n{told}");
            }
        }
    }

    /// What dashboards and alerts of VPSie's autoscaler look for is there from the first scrape, of the kind that it was.
    #[test]
    fn a_scrape_has_what_vpsies_autoscaler_told() {
        let told = Metrics::default().scrape(&Report::default(), "berth");
        for (kind, names) in [
            (
                "gauge",
                "nodegroup_desired_nodes nodegroup_current_nodes nodegroup_ready_nodes nodegroup_min_nodes \
                 nodegroup_max_nodes vpsienode_phase reconciliation_queue_depth vpsie_api_circuit_breaker_state \
                 pending_pods_current event_buffer_size cost_savings_estimated_monthly nodegroup_cost_hourly \
                 node_utilization_cpu_percent node_utilization_memory_percent credential_expires_at_timestamp \
                 credential_valid",
            ),
            (
                "counter",
                "controller_reconcile_errors controller_reconcile vpsie_api_requests vpsie_api_errors \
                 vpsie_api_rate_limited vpsie_api_circuit_breaker_opened vpsie_api_circuit_breaker_state_changes \
                 vpsie_api_circuit_breaker_half_open_attempts vpsie_api_circuit_breaker_half_open_successes \
                 vpsie_api_circuit_breaker_half_open_failures vpsie_api_circuit_breaker_half_open_rejected \
                 scale_up scale_down scale_down_errors unschedulable_pods vpsienode_phase_transitions \
                 events_emitted scale_down_blocked safety_check_failures scaling_decisions scale_up_decisions \
                 dynamic_nodegroup_creations event_buffer_dropped rebalancer_operations \
                 rebalancer_nodes_replaced rebalancer_cost_savings credential_rotation_attempts \
                 credential_rotation_successes credential_rotation_failures audit_events \
                 vpsienode_ttl_deletions vpsienode_discovery_strategy_used vpsienode_discovery_failures \
                 webhook_namespace_validation_rejections",
            ),
            (
                "histogram",
                "controller_reconcile_duration_seconds vpsie_api_request_duration_seconds \
                 vpsie_api_rate_limit_wait_duration_seconds scale_up_nodes_added scale_down_nodes_removed \
                 node_provisioning_duration_seconds node_termination_duration_seconds \
                 node_drain_duration_seconds node_drain_pods_evicted scale_up_decision_nodes_requested \
                 webhook_validation_duration_seconds credential_rotation_duration_seconds \
                 vpsienode_discovery_duration_seconds",
            ),
        ] {
            for name in names.split(' ') {
                let line = format!("# TYPE vpsie_autoscaler_{name} {kind}\n");
                assert!(told.contains(&line), "{line}");
            }
        }
    }
}
