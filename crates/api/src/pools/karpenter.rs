//! NodePool, NodeClaim, NodeOverlay.

use berth_core::names::{self, Labels, Text};
use berth_core::overlay::{Overlay, OverlayPrice};
use berth_core::pod::Taint;
use berth_core::pool::Pool;
use berth_core::reason::{Reason, Refusal};
use berth_core::requirement::{Expression, Operator, Requirements};
use berth_core::resources::Resources;
use berth_core::units::Price;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::disruption::{DisruptionRules, read_rules};
use super::{
    empty_pool, label_restriction, read_amounts, read_labels, read_limits, read_node_cost, read_requirement,
    read_taints,
};
use crate::claims;
use crate::convert::Converter;
use crate::disruption::{ClaimLife, read_claim_life};
use crate::problem::At;
use crate::resources::karpenter::{NodeClaim, NodeClassReference, NodeOverlay, NodePool};
use crate::resources::scalar::Whole;
use crate::resources::shared::{Condition, ConditionStatus, MinValuesRequirement, is_true};

/// A NodePool without what its class offers.
#[derive(Clone, Debug)]
pub(crate) struct NodePoolObject {
    pub(crate) pool: Pool,
    pub(crate) class: NodeClassReference,
    pub(crate) rules: DisruptionRules,
    pub(crate) node_cost: Option<Price>,
    /// What it says of itself. Whoever writes that must not believe it.
    pub(crate) not_ready: Option<Refusal>,
}

pub(crate) fn read_node_pool(object: &NodePool, name: Text, to: &mut Converter<'_>) -> NodePoolObject {
    let at = At::ROOT.key("spec");
    let template_at = at.key("template");
    let template_spec_at = template_at.key("spec");
    let metadata_at = template_at.key("metadata");
    let (spec, template) = (&object.spec, &object.spec.template);
    let mut labels = read_labels(&template.metadata.labels, &metadata_at.key("labels"), to);
    let requirements =
        read_requirements(&template.spec.requirements, &labels, &template_spec_at.key("requirements"), to);
    labels.insert(to.text(names::NODEPOOL), name.clone());
    let limits = read_limits(&spec.limits, &at.key("limits"), to);
    if spec.replicas.is_some() {
        if spec.weight.is_some() {
            to.findings.add(&at.key("weight"), "is not for a pool with replicas; remove one of the two");
        }
        if !limits.resources.is_empty() {
            to.findings.add(&at.key("limits"), "of a pool with replicas can name nodes only");
        }
    }
    let class = &template.spec.node_class_ref;
    let class_at = template_spec_at.key("nodeClassRef");
    for (field, value) in [("group", &class.group), ("kind", &class.kind), ("name", &class.name)] {
        if value.is_empty() {
            to.findings.add(&class_at.key(field), "is empty");
        }
    }
    let conditions = object.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let because = |why: String| Reason::PoolNotReady.because(format!("pool {name} {why}"));
    let not_ready = not_ready(conditions).map(because);
    let deleting = object.metadata.deletion_timestamp.as_ref();
    let blocked = deleting.map(|_| because("is being deleted".to_owned()));
    let pool = Pool {
        requirements,
        labels,
        taints: read_taints(&template.spec.taints, &template_spec_at.key("taints"), to),
        startup_taints: read_taints(
            &template.spec.startup_taints,
            &template_spec_at.key("startupTaints"),
            to,
        ),
        limits,
        weight: spec.weight.map_or(0, |weight| i32::try_from(weight.get()).unwrap_or(i32::MAX)),
        replicas: spec.replicas.map(Whole::get),
        blocked,
        ..empty_pool(name)
    };
    NodePoolObject {
        pool,
        class: class.clone(),
        rules: read_rules(&spec.disruption, &at.key("disruption")),
        node_cost: read_node_cost(&object.metadata, to),
        not_ready,
    }
}

/// Why an object says of itself that it is not ready.
pub(super) fn not_ready(conditions: &[Condition]) -> Option<String> {
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready")?;
    let why = || ready.message.as_ref().map_or_else(String::new, |message| format!(": {message}"));
    (ready.status == ConditionStatus::False).then(|| format!("is not ready{}", why()))
}

/// Why a class cannot be used.
pub(crate) fn trouble_of(metadata: &ObjectMeta, conditions: &[Condition]) -> Option<String> {
    let deleting = metadata.deletion_timestamp.as_ref().map(|_| "is being deleted".to_owned());
    deleting.or_else(|| not_ready(conditions))
}

fn read_requirements(
    list: &[MinValuesRequirement],
    labels: &Labels,
    at: &At<'_>,
    to: &mut Converter<'_>,
) -> Requirements {
    let mut requirements: Requirements =
        labels.iter().map(|(key, value)| Expression::equals(key.clone(), value.clone())).collect();
    for (i, requirement) in list.iter().enumerate() {
        let at = at.index(i);
        if let Some(problem) = label_restriction(&requirement.key) {
            to.findings.add(
                &at.key("key"),
                format!("`{}` cannot be required by a pool: {problem}; remove it", requirement.key),
            );
            continue;
        }
        let parts = (requirement.key.as_str(), requirement.operator, &requirement.values[..]);
        let Some(expression) = read_requirement(parts, &at, to) else { continue };
        if let Some(count) = requirement.min_values {
            let listed = expression.values().len();
            if expression.operator() == Operator::In && listed < count.get() as usize {
                to.findings.add(
                    &at.key("minValues"),
                    format!("{} is more than the {listed} values that are listed", count.get()),
                );
            }
            requirements.set_min_values(expression.key().clone(), count.get());
        }
        requirements.add(&expression);
    }
    requirements
}

/// A machine that was asked for: a NodeClaim or a VPSieNode.
#[derive(Clone, Debug)]
pub(crate) struct ClaimObject {
    pub(crate) name: Text,
    /// The node that it became, or should.
    pub(crate) node: Option<Text>,
    /// Its machine's, which its node has as well.
    pub(crate) provider_id: Option<Text>,
    /// Its node is there, and which machine that runs on is not known: another autoscaler may not have written it down.
    pub(crate) is_unidentified: bool,
    /// Its node has all that it promises.
    pub(crate) is_up: bool,
    pub(crate) labels: Labels,
    pub(crate) taints: Vec<Taint>,
    /// Taints that go away before its node counts as up.
    pub(crate) startup_taints: Vec<Taint>,
    /// What it says it has, where it says so.
    pub(crate) capacity: Resources,
    pub(crate) allocatable: Resources,
    /// What it was made for: it has at least that.
    pub(crate) requests: Resources,
    pub(crate) deleting: bool,
    pub(crate) life: ClaimLife,
    /// When its node was last to go and stayed, since its pods did not leave in time.
    pub(crate) failed_drain: Option<Timestamp>,
}

pub(crate) fn read_node_claim(object: &NodeClaim, name: Text, to: &mut Converter<'_>) -> ClaimObject {
    let (spec_at, status_at) = (At::ROOT.key("spec"), At::ROOT.key("status"));
    let spec = &object.spec;
    let mut labels = Labels::new();
    let list = spec_at.key("requirements");
    for (i, requirement) in spec.requirements.iter().enumerate() {
        let parts = (requirement.key.as_str(), requirement.operator, &requirement.values[..]);
        if let Some(expression) = read_requirement(parts, &list.index(i), to)
            && let (Operator::In, [value]) = (expression.operator(), expression.values())
        {
            labels.insert(expression.key().clone(), value.clone());
        }
    }
    // What it is going to be, as far as that is decided.
    if let Some((instance_type, zone, capacity_type)) =
        claims::offerings_of(&object.metadata).into_iter().next()
    {
        labels.insert(to.text(names::INSTANCE_TYPE), instance_type);
        labels.insert(to.text(names::ZONE), zone);
        labels.insert(to.text(names::CAPACITY_TYPE), to.text(capacity_type.name()));
    }
    for (key, value) in object.metadata.labels.iter().flatten() {
        labels.insert(to.text(names::normalized_key(key)), to.text(value));
    }
    let taints = read_taints(&spec.taints, &spec_at.key("taints"), to);
    let startup_taints = read_taints(&spec.startup_taints, &spec_at.key("startupTaints"), to);
    let status = object.status.clone().unwrap_or_default();
    let resources_at = spec_at.key("resources");
    ClaimObject {
        name,
        provider_id: Some(status.provider_id).filter(|id| !id.is_empty()).map(|id| to.text(&id)),
        is_unidentified: false,
        is_up: is_true(&status.conditions, "Initialized"),
        node: Some(status.node_name).filter(|node| !node.is_empty()).map(Text::from),
        labels,
        taints,
        startup_taints,
        capacity: read_amounts(&status.capacity, &status_at.key("capacity"), to),
        allocatable: read_amounts(&status.allocatable, &status_at.key("allocatable"), to),
        requests: read_amounts(&spec.resources.requests, &resources_at.key("requests"), to),
        deleting: object.metadata.deletion_timestamp.is_some(),
        life: read_claim_life(object),
        failed_drain: None,
    }
}

pub(crate) fn read_overlay(object: &NodeOverlay, name: Text, to: &mut Converter<'_>) -> Overlay {
    let at = At::ROOT.key("spec");
    let spec = &object.spec;
    let list = at.key("requirements");
    let mut requirements = Requirements::new();
    for (i, requirement) in spec.requirements.iter().enumerate() {
        let parts = (requirement.key.as_str(), requirement.operator, &requirement.values[..]);
        if let Some(expression) = read_requirement(parts, &list.index(i), to) {
            requirements.add(&expression);
        }
    }
    let price = match (&spec.price, &spec.price_adjustment) {
        (Some(_), Some(_)) => {
            to.findings.add(&at.key("priceAdjustment"), "stands beside price; keep one of the two");
            None
        }
        (Some(price), None) => {
            parsed(price.parse::<Price>(), &at.key("price"), to).map(OverlayPrice::Absolute)
        }
        (None, Some(adjustment)) => parsed(adjustment.parse(), &at.key("priceAdjustment"), to),
        (None, None) => None,
    };
    Overlay {
        name,
        requirements,
        price,
        capacity: read_amounts(&spec.capacity, &at.key("capacity"), to),
        weight: spec.weight.map_or(0, |weight| i32::try_from(weight.get()).unwrap_or(i32::MAX)),
    }
}

fn parsed<T, E: std::fmt::Display>(result: Result<T, E>, at: &At<'_>, to: &mut Converter<'_>) -> Option<T> {
    result.map_err(|error| to.findings.add(at, error.to_string())).ok()
}
