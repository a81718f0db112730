//! Pools of every dialect, as far as they stand alone: what they may buy is added when all is read.

pub(crate) mod class;
pub(crate) mod cost;
pub(crate) mod disruption;
mod division;
pub(crate) mod gardener;
mod group_rules;
pub(crate) mod growth;
pub(crate) mod karpenter;
pub(crate) mod kubelet;
pub(crate) mod vpsie;

pub use vpsie::node_bounds;

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_core::disruption::PoolDisruption;
use berth_core::division::Division;
use berth_core::names::{self, Labels, Text};
use berth_core::pod;
use berth_core::pool::{Limits, Pool};
use berth_core::requirement::{Expression, Operator, Requirements};
use berth_core::resources::Resources;
use berth_core::units::{Price, PriceError};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::convert::{Converter, checked_amount};
use crate::problem::At;
use crate::resources::scalar::Amounts;
use crate::resources::shared::Taint;

/// A pool that limits nothing and may buy nothing yet.
pub(crate) fn empty_pool(name: Text) -> Pool {
    Pool {
        name,
        requirements: Requirements::new(),
        labels: Labels::new(),
        taints: Vec::new(),
        startup_taints: Vec::new(),
        limits: Limits::default(),
        weight: 0,
        replicas: None,
        nodes_min: 0,
        division: Division::default(),
        types: Arc::from([]),
        blocked: None,
        unreadable_ledger: None,
        is_patient: false,
        disruption: PoolDisruption::default(),
        node_cost: Price::ZERO,
    }
}

const NODE_COST: &str = "berth.dev/node-cost-per-hour";

/// What each node of a pool costs beyond its price, where the pool says so.
fn read_node_cost(metadata: &ObjectMeta, to: &mut Converter<'_>) -> Option<Price> {
    let text = metadata.annotations.as_ref()?.get(NODE_COST)?;
    match text.parse() {
        Ok(price) => Some(price),
        Err(error) => {
            let metadata = At::ROOT.key("metadata");
            let annotations = metadata.key("annotations");
            to.findings.add(&annotations.key(NODE_COST), PriceError::to_string(&error));
            None
        }
    }
}

/// Labels that a pool puts on its nodes, under today's names.
fn read_labels(labels: &BTreeMap<String, String>, at: &At<'_>, to: &mut Converter<'_>) -> Labels {
    let mut read = Labels::new();
    for (key, value) in labels {
        let at = at.key(key);
        let key = names::normalized_key(key);
        if let Some(problem) = names::label_key_problem(key) {
            to.findings.add(&at, format!("`{key}` is not a label key: {problem}"));
        } else if let Some(problem) = names::label_value_problem(value) {
            to.findings.add(&at, format!("`{value}` is not a label value: {problem}"));
        } else if let Some(problem) = label_restriction(key) {
            to.findings.add(&at, format!("cannot be set by a pool: {problem}; remove it"));
        } else {
            read.insert(to.text(key), to.text(value));
        }
    }
    read
}

fn label_restriction(key: &str) -> Option<&'static str> {
    if key == names::NODEPOOL {
        return Some("each node carries its own pool's name");
    }
    names::restriction(key)
}

fn read_taints(taints: &[Taint], at: &At<'_>, to: &mut Converter<'_>) -> Vec<pod::Taint> {
    let mut read = Vec::with_capacity(taints.len());
    for (i, taint) in taints.iter().enumerate() {
        if let Some(problem) = names::label_key_problem(&taint.key) {
            let at = at.index(i);
            to.findings.add(&at.key("key"), format!("`{}` is not a taint's key: {problem}", taint.key));
        }
        read.push(pod::Taint::from(taint));
    }
    read
}

/// One requirement of a pool or an overlay, under today's label names.
fn read_requirement(
    (key, operator, values): (&str, Operator, &[String]),
    at: &At<'_>,
    to: &mut Converter<'_>,
) -> Option<Expression> {
    let key = names::normalized_key(key);
    if let Some(problem) = names::label_key_problem(key) {
        to.findings.add(&at.key("key"), format!("`{key}` is not a label key: {problem}"));
        return None;
    }
    let values = values.iter().map(|value| to.text(value)).collect();
    match Expression::new(to.text(key), operator, values) {
        Ok(expression) => Some(expression),
        Err(error) => {
            to.findings.add(&at.key("values"), error.to_string());
            None
        }
    }
}

/// Amounts that a machine has or that are kept from it.
fn read_amounts(amounts: &Amounts, at: &At<'_>, to: &mut Converter<'_>) -> Resources {
    let mut resources = Resources::new();
    for (name, amount) in amounts {
        match checked_amount(name, amount.get()) {
            Ok(amount) => resources.set(name, amount),
            Err(message) => to.findings.add(&at.key(name), message),
        }
    }
    resources
}

/// Limits may be as high as anybody likes; `nodes` is a number of nodes and no resource.
fn read_limits(amounts: &Amounts, at: &At<'_>, to: &mut Converter<'_>) -> Limits {
    let mut limits = Limits::default();
    for (name, amount) in amounts {
        let quantity = amount.get();
        if quantity.is_negative() {
            to.findings.add(&at.key(name), format!("{quantity} is negative; a limit cannot be"));
        } else if name == "nodes" {
            limits.nodes = Some(u32::try_from(quantity.units_ceil()).unwrap_or(u32::MAX));
        } else {
            limits.resources.set(name, Resources::amount_of(name, quantity));
        }
    }
    limits
}
