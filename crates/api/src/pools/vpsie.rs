//! NodeGroup, VPSieNode, AutoscalerConfig.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use berth_core::catalog::{CapacityType, InstanceType, Offering};
use berth_core::disruption::{Consolidation, Protection, SafetyChecks, Share};
use berth_core::names::{self, Labels, Text};
use berth_core::pool::{Limits, Pool};
use berth_core::reason::{Reason, Refusal};
use berth_core::requirement::{Expression, Operator, Requirements};
use berth_core::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, Resources};
use berth_core::units::Price;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::cost::{CostRules, read_cost};
use super::disruption::DisruptionRules;
use super::division;
use super::growth::{GrowthRules, is_paused, read_growth};
use super::karpenter::ClaimObject;
use super::{empty_pool, group_rules, read_labels, read_node_cost, read_taints};
use crate::builtin::{Metadata, Str};
use crate::convert::Converter;
use crate::disruption::read_machine_life;
use crate::duration::GoDuration;
use crate::ledger;
use crate::problem::At;
use crate::resources::shared::ConditionStatus;
use crate::resources::vpsie::{NodeGroup, Phase, VPSieNode, VpsieCondition};
use crate::vpsie::{
    ALLOWED_HOURS, DRAIN_FAILED, DRAIN_TIMEOUT, INTERRUPTION_RATE, MANAGED, MAX_OVERRIDE, MIN_OVERRIDE,
    NODEGROUP, OFFERING, REBALANCE_STRATEGY, SCALE_DOWN_DISABLED, drain_timeout, provider_id, taints_of,
};

/// A NodeGroup without what its offerings are.
#[derive(Clone, Debug)]
pub(crate) struct NodeGroupObject {
    pub(crate) pool: Pool,
    pub(crate) created: Option<Timestamp>,
    /// The id at VPSie of the cluster that it is for.
    pub(crate) cluster: String,
    /// Ids or type names, in the group's order.
    pub(crate) offerings: Vec<String>,
    /// What is bought where VPSie knows none of these: in managed clusters it sells sizes.
    pub(crate) kube_size: Option<String>,
    /// Spot that is taken back more often, in percent, is not bought.
    pub(crate) interruption_percent_max: u32,
    pub(crate) growth: GrowthRules,
    pub(crate) rules: DisruptionRules,
    pub(crate) cost: CostRules,
    /// How many nodes may be replaced at once, if it says so itself.
    pub(crate) replaced_at_once: Option<Share>,
    pub(crate) shrinking: Shrinking,
    pub(crate) node_cost: Option<Price>,
}

/// When a group last lost a node, how long it rests then, and at which hours it shrinks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shrinking {
    pub(crate) shrank: Option<Timestamp>,
    cooldown_secs: u32,
    hours: Option<AllowedHours>,
}

impl Shrinking {
    /// A node was to go, and it stayed: the group rests as if it had gone.
    pub(crate) fn rests_after(self, failed_drain: Option<Timestamp>) -> Option<Timestamp> {
        rest(failed_drain, self.cooldown_secs)
    }

    /// Outside of its hours: until they begin.
    pub(crate) fn closed_until(self, now: Timestamp) -> Option<Timestamp> {
        match self.hours?.judged(now) {
            Protection::For { secs } => now.checked_add(Duration::from_secs(secs)).ok(),
            _ => None,
        }
    }
}

/// Until when.
pub(crate) fn rest(since: Option<Timestamp>, secs: u32) -> Option<Timestamp> {
    since?.checked_add(GoDuration::from_secs(secs).as_std()).ok()
}

pub(crate) fn read_node_group(object: &NodeGroup, name: Text, to: &mut Converter<'_>) -> NodeGroupObject {
    let at = At::ROOT.key("spec");
    let spec = &object.spec;
    let (nodes_min, nodes_max) = node_bounds(object);
    for annotation in [MIN_OVERRIDE, MAX_OVERRIDE] {
        check_override(&object.metadata, annotation, to);
    }
    check_drain_timeout(&object.metadata, to);
    if nodes_min > nodes_max {
        to.findings.add(&at.key("minNodes"), format!("{nodes_min} is more than maxNodes ({nodes_max})"));
    }
    group_rules::check(object, to);
    let mut labels = read_labels(&spec.labels, &at.key("labels"), to);
    let mut requirements: Requirements =
        labels.iter().map(|(key, value)| Expression::equals(key.clone(), value.clone())).collect();
    let zones = division::datacenters(spec).into_iter().map(|zone| to.text(zone)).collect();
    match Expression::new(names::ZONE, Operator::In, zones) {
        Ok(expression) => requirements.add(&expression),
        Err(error) => to.findings.add(&at.key("datacenterID"), error.to_string()),
    }
    let division = division::read_division(spec, nodes_max, &at, to);
    if division.spot.is_none()
        && let Ok(expression) =
            Expression::new(names::CAPACITY_TYPE, Operator::NotIn, vec![to.text(CapacityType::Spot.name())])
    {
        requirements.add(&expression);
    }
    labels.insert(to.text(MANAGED), to.text("true"));
    labels.insert(to.text(NODEGROUP), name.clone());
    let blocked = object
        .metadata
        .deletion_timestamp
        .is_some()
        .then(|| Reason::PoolNotReady.because(format!("group {name} is being deleted")));
    let pool = Pool {
        requirements,
        labels,
        taints: read_taints(&spec.taints, &at.key("taints"), to),
        limits: Limits { resources: Resources::new(), nodes: Some(nodes_max) },
        nodes_min,
        division,
        blocked,
        ..empty_pool(name)
    };
    NodeGroupObject {
        pool,
        created: object.metadata.creation_timestamp.as_ref().map(|time| time.0),
        cluster: spec.resource_identifier.clone(),
        offerings: usable_offerings(object),
        kube_size: spec.kube_size_id.map(|size| size.get().to_string()),
        interruption_percent_max: spec
            .spot_config
            .as_ref()
            .map_or(100, |spot| spot.allowed_interruption_rate.get()),
        growth: read_growth(object),
        rules: read_rules(object),
        cost: read_cost(object),
        replaced_at_once: read_strategy(&object.metadata, to),
        shrinking: read_shrinking(object, to),
        node_cost: read_node_cost(&object.metadata, to),
    }
}

/// How many nodes a group must have, and may have: its annotations count before its spec, where they can be read.
pub fn node_bounds(group: &NodeGroup) -> (u32, u32) {
    let said = |annotation: &str| group.metadata.annotations.as_ref()?.get(annotation)?.parse().ok();
    let spec = &group.spec;
    (said(MIN_OVERRIDE).unwrap_or(spec.min_nodes.get()), said(MAX_OVERRIDE).unwrap_or(spec.max_nodes.get()))
}

fn check_override(metadata: &ObjectMeta, annotation: &str, to: &mut Converter<'_>) {
    let text = metadata.annotations.as_ref().and_then(|all| all.get(annotation));
    if let Some(text) = text.filter(|text| text.parse::<u32>().is_err()) {
        let metadata = At::ROOT.key("metadata");
        let annotations = metadata.key("annotations");
        let message = format!("`{text}` is no number of nodes; write one such as 3");
        to.findings.add(&annotations.key(annotation), message);
    }
}

/// How many nodes VPSie's rebalancer replaces at once: one, two, or all.
fn read_strategy(metadata: &ObjectMeta, to: &mut Converter<'_>) -> Option<Share> {
    let text = metadata.annotations.as_ref()?.get(REBALANCE_STRATEGY)?;
    match text.as_str() {
        "rolling" => Some(Share::Count(1)),
        "surge" => Some(Share::Count(2)),
        "blue-green" => Some(Share::Percent(100)),
        _ => {
            let metadata = At::ROOT.key("metadata");
            let annotations = metadata.key("annotations");
            let message = format!("`{text}` is no strategy; it is one of rolling, surge, blue-green");
            to.findings.add(&annotations.key(REBALANCE_STRATEGY), message);
            None
        }
    }
}

fn check_drain_timeout(metadata: &ObjectMeta, to: &mut Converter<'_>) {
    let text = metadata.annotations.as_ref().and_then(|all| all.get(DRAIN_TIMEOUT));
    if let Some(text) = text.filter(|text| drain_timeout(text).is_none()) {
        let metadata = At::ROOT.key("metadata");
        let annotations = metadata.key("annotations");
        let message = format!("`{text}` is no duration; write one such as 5m");
        to.findings.add(&annotations.key(DRAIN_TIMEOUT), message);
    }
}

fn read_shrinking(group: &NodeGroup, to: &mut Converter<'_>) -> Shrinking {
    let hours = group.metadata.annotations.as_ref().and_then(|all| all.get(ALLOWED_HOURS));
    let said = group.status.as_ref().and_then(|status| status.last_scale_down_time.as_ref());
    // What the ledger says has not been told yet.
    let leaving = ledger::of(&group.metadata).unwrap_or_default().leaving;
    let departed =
        leaving.values().filter_map(|departure| Timestamp::from_second(departure.since_secs).ok()).max();
    Shrinking {
        shrank: said.map(|time| time.0).max(departed),
        cooldown_secs: group.spec.scale_down_policy.cooldown_seconds.get(),
        hours: read_allowed_hours(hours.map(String::as_str), to),
    }
}

/// The group's scale-down policy.
fn read_rules(group: &NodeGroup) -> DisruptionRules {
    let policy = &group.spec.scale_down_policy;
    let status = group.status.as_ref();
    let shrank = status.and_then(|status| status.last_scale_down_time.as_ref());
    let scaled = status.and_then(|status| status.last_scale_time.as_ref());
    let (cooldown, stabilization) =
        (policy.cooldown_seconds.get(), policy.stabilization_window_seconds.get());
    let rests = [(shrank, cooldown), (scaled, stabilization)]
        .into_iter()
        .filter_map(|(since, secs)| rest(since.map(|time| time.0), secs));
    DisruptionRules {
        consolidation: Consolidation::default(),
        consolidate_after_secs: (!is_paused(&group.metadata)).then_some(stabilization.into()),
        budgets: Vec::new(),
        rests_until: rests.max(),
        checks: Some(SafetyChecks {
            shrinks: policy.enabled,
            cpu_percent: policy.cpu_threshold.get(),
            memory_percent: policy.memory_threshold.get(),
        }),
    }
}

/// Whether a Node must stay.
pub(crate) fn is_protected(node: &Metadata<'_>) -> bool {
    let is = |text: Option<&Str<'_>>, value: &str| text.is_some_and(|text| **text == *value);
    is(node.annotations.vpsie_protected.as_ref(), "true")
        || is(node.annotations.vpsie_do_not_delete.as_ref(), "true")
        || is(node.annotations.vpsie_scale_down.as_ref(), "disabled")
        || node.labels.0.iter().any(|(key, value)| &**key == SCALE_DOWN_DISABLED && &**value == "true")
}

/// The hours of the day, in UTC, in which a Node may go, or a group's nodes may. They may cross midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AllowedHours {
    from_minute: u32,
    to_minute: u32,
}

const MINUTES_PER_DAY: u32 = 24 * 60;

fn read_allowed_hours(text: Option<&str>, to: &mut Converter<'_>) -> Option<AllowedHours> {
    let text = text?;
    let hours = AllowedHours::parse(text);
    if hours.is_none() {
        let metadata = At::ROOT.key("metadata");
        let annotations = metadata.key("annotations");
        to.findings.add(&annotations.key(ALLOWED_HOURS), AllowedHours::problem(text));
    }
    hours
}

impl AllowedHours {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (from, to) = text.split_once('-')?;
        Some(Self { from_minute: minute_of_day(from)?, to_minute: minute_of_day(to)? })
    }

    /// What is wrong with what cannot be parsed.
    pub(crate) fn problem(text: &str) -> String {
        format!("`{text}` are no hours of the day; write them like 22:00-06:00")
    }

    pub(crate) fn judged(self, now: Timestamp) -> Protection {
        let Self { from_minute, to_minute } = self;
        let second = u32::try_from(now.as_second().rem_euclid(i64::from(MINUTES_PER_DAY) * 60)).unwrap_or(0);
        let since_opening = (second + MINUTES_PER_DAY * 60 - from_minute * 60) % (MINUTES_PER_DAY * 60);
        let open_minutes = (to_minute + MINUTES_PER_DAY - from_minute) % MINUTES_PER_DAY;
        if open_minutes == 0 || since_opening < open_minutes * 60 {
            Protection::None
        } else {
            Protection::For { secs: u64::from(MINUTES_PER_DAY * 60 - since_opening) }
        }
    }
}

fn minute_of_day(text: &str) -> Option<u32> {
    let (hour, minute) = text.trim().split_once(':')?;
    let is_number = |text: &str| text.len() == 2 && text.bytes().all(|b| b.is_ascii_digit());
    let number = |text: &str| text.parse::<u32>().ok().filter(|_| is_number(text));
    let (hour, minute) = (number(hour)?, number(minute)?);
    (hour < 24 && minute < 60).then_some(hour * 60 + minute)
}

/// All offerings of the group; where they must not be mixed, the preferred one or else the first.
fn usable_offerings(group: &NodeGroup) -> Vec<String> {
    let spec = &group.spec;
    if spec.allow_mixed_instances {
        return spec.offering_ids.clone();
    }
    spec.preferred_instance_type.iter().chain(&spec.offering_ids).take(1).cloned().collect()
}

/// The type without spot that is taken back more often than that. What does not say how often is bought.
pub(crate) fn without_frequent_interruptions(
    known: Arc<InstanceType>,
    percent_max: u32,
) -> Arc<InstanceType> {
    let rate = |offering: &Offering| offering.labels.get(INTERRUPTION_RATE)?.parse::<u32>().ok();
    let is_frequent = |offering: &Offering| {
        offering.capacity_type == CapacityType::Spot && rate(offering).is_some_and(|rate| rate > percent_max)
    };
    if !known.offerings.iter().any(is_frequent) {
        return known;
    }
    let mut rest = InstanceType::clone(&known);
    rest.offerings.retain(|offering| !is_frequent(offering));
    Arc::new(rest)
}

/// The catalog's types that these ids and names stand for, each type once and with only those offerings.
pub(crate) fn types_named(
    offerings: &[String],
    catalog: &[Arc<InstanceType>],
) -> Result<Vec<Arc<InstanceType>>, Refusal> {
    let mut types = Vec::new();
    for offering in offerings {
        let found = types_of(offering, catalog);
        if found.is_empty() {
            let message = format!("`{offering}` is neither an offering nor a type of the catalog");
            return Err(Reason::UnknownOffering.because(message));
        }
        types.extend(found);
    }
    Ok(merged(types))
}

/// Each type once, with the offerings of all its mentions.
pub(crate) fn merged(types: Vec<Arc<InstanceType>>) -> Vec<Arc<InstanceType>> {
    let mut by_name: BTreeMap<Text, Arc<InstanceType>> = BTreeMap::new();
    for instance_type in types {
        let Some(known) = by_name.get_mut(&instance_type.name) else {
            by_name.insert(instance_type.name.clone(), instance_type);
            continue;
        };
        let is_new = |offering: &&Offering| !known.offerings.contains(offering);
        let more: Vec<_> = instance_type.offerings.iter().filter(is_new).cloned().collect();
        Arc::make_mut(known).offerings.extend(more);
    }
    by_name.into_values().collect()
}

/// The catalog's types that an offering's id or name stands for, each with only those offerings.
pub(crate) fn types_of(offering: &str, catalog: &[Arc<InstanceType>]) -> Vec<Arc<InstanceType>> {
    let mut found = Vec::new();
    for instance_type in catalog {
        if *instance_type.name == *offering
            || instance_type.labels.get(OFFERING).is_some_and(|id| **id == *offering)
        {
            found.push(instance_type.clone());
            continue;
        }
        let is_meant = |o: &&Offering| o.labels.get(OFFERING).is_some_and(|id| **id == *offering);
        let offerings: Vec<_> = instance_type.offerings.iter().filter(is_meant).cloned().collect();
        if !offerings.is_empty() {
            found.push(Arc::new(InstanceType { offerings, ..InstanceType::clone(instance_type) }));
        }
    }
    found
}

/// `None` for a machine that failed: it will never be a node.
pub(crate) fn read_vpsie_node(object: &VPSieNode, name: Text, to: &mut Converter<'_>) -> Option<ClaimObject> {
    let spec = &object.spec;
    let status = object.status.clone().unwrap_or_default();
    if status.phase == Phase::Failed {
        return None;
    }
    let is_failed_drain = |c: &&VpsieCondition| c.type_ == DRAIN_FAILED && c.status == ConditionStatus::True;
    let failed_drain = status.conditions.iter().find(is_failed_drain);
    let provider_id = provider_id(spec).map(|id| to.text(&id));
    let is_unidentified = provider_id.is_none() && !status.node_name.is_empty();
    let node = Some(status.node_name).filter(|node| !node.is_empty()).or_else(|| spec.node_name.clone());
    let mut labels = Labels::new();
    for (key, value) in [
        (MANAGED, "true"),
        (NODEGROUP, &*spec.node_group_name),
        (names::INSTANCE_TYPE, &*spec.instance_type),
        (names::ZONE, &*spec.datacenter_id),
    ] {
        labels.insert(to.text(key), to.text(value));
    }
    let capacity = status.resources.map_or_else(Resources::new, |machine| {
        Resources::of(&[
            (CPU, machine.cpu.saturating_mul(1000).max(0)),
            (MEMORY, machine.memory_mb.saturating_mul(1 << 20).max(0)),
            (EPHEMERAL_STORAGE, machine.disk_gb.saturating_mul(1 << 30).max(0)),
        ])
    });
    Some(ClaimObject {
        name,
        provider_id,
        is_unidentified,
        is_up: matches!(status.phase, Phase::Ready | Phase::Terminating | Phase::Deleting),
        node: node.filter(|node| !node.is_empty()).map(Text::from),
        labels,
        taints: taints_of(&object.metadata),
        startup_taints: Vec::new(),
        capacity,
        allocatable: Resources::new(),
        requests: Resources::new(),
        // One that is terminating without being deleted may yet stay.
        deleting: object.metadata.deletion_timestamp.is_some() || status.phase == Phase::Deleting,
        life: read_machine_life(&object.metadata, status.ready_at.as_ref()),
        failed_drain: failed_drain.and_then(|c| c.last_transition_time.as_ref()).map(|time| time.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_protect_outside_of_them() {
        let lasting = |hours: u64, minutes: u64| Protection::For { secs: hours * 3600 + minutes * 60 };
        for (hours, now, expected) in [
            ("09:00-17:00", "09:00:00", Protection::None),
            ("09:00-17:00", "16:59:59", Protection::None),
            ("09:00-17:00", "17:00:00", lasting(16, 0)),
            ("09:00-17:00", "08:59:00", lasting(0, 1)),
            ("22:00-06:30", "23:00:00", Protection::None),
            ("22:00-06:30", "06:29:59", Protection::None),
            ("22:00-06:30", "06:30:00", lasting(15, 30)),
            ("22:00 - 06:30", "21:00:00", lasting(1, 0)),
            ("00:00-00:00", "12:00:00", Protection::None),
        ] {
            let parsed = AllowedHours::parse(hours).unwrap_or_else(|| panic!("{hours}"));
            let now = format!("2026-01-05T{now}Z").parse().unwrap();
            assert_eq!(parsed.judged(now), expected, "{hours} at {now}");
        }
        for hours in ["", "09:00", "9-17", "24:00-06:00", "09:60-17:00", "09:00-17", "+9:00-17:00"] {
            assert_eq!(AllowedHours::parse(hours), None, "{hours}");
        }
    }
}
