//! Where nodes may come from.

use std::sync::Arc;

use crate::catalog::InstanceType;
use crate::disruption::PoolDisruption;
use crate::division::Division;
use crate::names::{Labels, Text};
use crate::pod::Taint;
use crate::reason::Refusal;
use crate::requirement::Requirements;
use crate::resources::{Resources, USD_PER_HOUR};
use crate::units::Price;

/// A NodePool, a NodeGroup, or a pool of a ScalingConstraint, with what it may buy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Unique among all pools.
    pub name: Text,
    /// Which offerings it may buy and which custom labels its nodes may have.
    pub requirements: Requirements,
    /// Labels that each of its nodes has, the pool's own name among them.
    pub labels: Labels,
    pub taints: Vec<Taint>,
    /// Taints that go away before a node counts as up.
    pub startup_taints: Vec<Taint>,
    pub limits: Limits,
    /// Higher is tried first; price decides among equals.
    pub weight: i32,
    /// A static pool: exactly so many nodes, whatever the pods want.
    pub replicas: Option<u32>,
    /// Nodes that exist whatever the pods want; more may come.
    pub nodes_min: u32,
    /// How its nodes are divided among capacity types and zones.
    pub division: Division,
    /// What its cloud offers, overlays and the class's reservations already applied.
    pub types: Arc<[Arc<InstanceType>]>,
    /// Why it cannot buy anything at all.
    pub blocked: Option<Refusal>,
    /// Why nobody can read what it has committed itself to, if so: none of its nodes is taken away, as that could not be
    /// written down.
    pub unreadable_ledger: Option<Text>,
    /// It does not grow for pods that are fresh.
    pub is_patient: bool,
    pub disruption: PoolDisruption,
    /// What each of its nodes costs beyond its price: licences, agents.
    pub node_cost: Price,
}

/// What a pool may have at most, over the capacity of all its nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Only resources named here are limited, and money as one of them.
    pub resources: Resources,
    pub nodes: Option<u32>,
}

impl Limits {
    /// How much of one of these resources a node is that has this and costs that.
    pub fn amount(resource: &str, capacity: &Resources, cost: Price) -> i64 {
        if resource == USD_PER_HOUR { cost.micro_usd() } else { capacity.get(resource) }
    }
}
