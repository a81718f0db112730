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
                    Outcome::Lost(why) => ("none".to_owned(), Some(*why)),
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
            Event::Withheld { probe_in, .. } if probe_in.is_zero() => {
                metrics.count(table::VPSIE_WITHHELD, []);
            }
            Event::Withheld { .. } => {}
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
        401 | 403 => Some("auth"),
        404 => Some("not_found"),
        429 => Some("rate_limited"),
        400..=499 => Some("client"),
        500.. => Some("server"),
        _ => None,
    }
}
