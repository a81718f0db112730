//! What the pools may buy and what they have: offerings, limits, reservations.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use rustc_hash::FxHashMap;

use super::disruption::Moving;
use super::violation::Violation;
use crate::catalog::{CapacityType, InstanceType, Offering};
use crate::names::{self, Labels, Text};
use crate::node::NodeState;
use crate::plan::{Launch, Plan};
use crate::pool::Pool;
use crate::resources::{Resources, USD_PER_HOUR};
use crate::snapshot::{Policy, Snapshot};
use crate::units::Price;

pub(super) struct Market<'a> {
    pub(super) snapshot: &'a Snapshot,
    policy: &'a Policy,
    pools: FxHashMap<&'a str, usize>,
    types: FxHashMap<(usize, &'a str), &'a InstanceType>,
}

impl<'a> Market<'a> {
    pub(super) fn new(snapshot: &'a Snapshot, policy: &'a Policy) -> Self {
        let mut pools = FxHashMap::default();
        let mut types = FxHashMap::default();
        for (index, pool) in snapshot.pools.iter().enumerate() {
            pools.entry(&*pool.name).or_insert(index);
            for instance_type in pool.types.iter() {
                types.entry((index, &*instance_type.name)).or_insert(&**instance_type);
            }
        }
        Self { snapshot, policy, pools, types }
    }

    pub(super) fn pool(&self, name: &str) -> Option<&'a Pool> {
        self.pools.get(name).map(|index| &self.snapshot.pools[*index])
    }

    pub(super) fn instance_type(&self, pool: &str, name: &str) -> Option<&'a InstanceType> {
        self.types.get(&(*self.pools.get(pool)?, name)).copied()
    }

    pub(super) fn is_available(&self, pool: &str, instance_type: &InstanceType, offering: &Offering) -> bool {
        let of_pool = self.policy.unavailable_to.get(pool).into_iter().flatten();
        let mut lacking = self.policy.unavailable.iter().chain(of_pool);
        offering.available
            && offering.remaining != Some(0)
            && !lacking.any(|pattern| pattern.matches(&instance_type.name, offering))
    }

    /// All that the pool may buy now, were it not for its requirements and limits.
    pub(super) fn offerings(
        &self,
        pool: &'a Pool,
    ) -> impl Iterator<Item = (&'a InstanceType, &'a Offering)> + '_ {
        pool.types.iter().flat_map(move |instance_type| {
            let available = |offering: &&Offering| self.is_available(&pool.name, instance_type, offering);
            instance_type.offerings.iter().filter(available).map(move |offering| (&**instance_type, offering))
        })
    }

    /// The offering that the launch says it buys. Of several, the one that explains most of its labels.
    pub(super) fn offering_of(&self, launch: &Launch) -> Option<(&'a InstanceType, &'a Offering)> {
        let instance_type = self.instance_type(&launch.pool, &launch.instance_type)?;
        let offering = instance_type
            .offerings
            .iter()
            .rev()
            .filter(|offering| {
                offering.zone == launch.zone
                    && offering.capacity_type == launch.capacity_type
                    && offering.price == launch.price
                    && offering.estimated == launch.estimated
                    && offering.node_labels().all(|(key, value)| launch.labels.get(&key) == Some(&value))
            })
            .max_by_key(|offering| {
                (offering.labels.len(), self.is_available(&launch.pool, instance_type, offering))
            })?;
        Some((instance_type, offering))
    }
}

/// The labels that a node of this offering has whatever the pods want, in no particular order.
pub(super) fn given_labels(
    pool: &Pool,
    instance_type: &InstanceType,
    offering: &Offering,
) -> impl Iterator<Item = (Text, Text)> {
    let owned = |(key, value): (&Text, &Text)| (key.clone(), value.clone());
    [(names::INSTANCE_TYPE.into(), instance_type.name.clone())]
        .into_iter()
        .chain(instance_type.labels.iter().map(owned))
        .chain(offering.node_labels())
        .chain(pool.labels.iter().map(owned))
}

/// The given labels, unless they contradict each other: such a node cannot be.
pub(super) fn consistent_labels(
    pool: &Pool,
    instance_type: &InstanceType,
    offering: &Offering,
) -> Option<Labels> {
    let mut labels = Labels::new();
    for (key, value) in given_labels(pool, instance_type, offering) {
        match labels.entry(key) {
            Entry::Vacant(slot) => {
                slot.insert(value);
            }
            Entry::Occupied(slot) if *slot.get() != value => return None,
            Entry::Occupied(_) => {}
        }
    }
    Some(labels)
}

/// The first requirement of the pool that the labels do not meet.
pub(super) fn unmet_requirement<'p>(pool: &'p Pool, labels: &Labels) -> Option<&'p Text> {
    pool.requirements
        .iter()
        .find(|(key, set)| !set.admits(labels.get(*key).map(|value| &**value)))
        .map(|(key, _)| key)
}

/// What the pools have once the plan is done: nodes that go count until the end, replacements come first.
#[derive(Default)]
pub(super) struct Holdings<'a> {
    by_pool: BTreeMap<&'a str, Holding>,
    reservations: BTreeMap<Reservation<'a>, Drawn>,
}

#[derive(Default)]
struct Holding {
    capacity: Resources,
    nodes: usize,
    /// Nodes that are not going away, and those of them that are spot.
    staying: usize,
    spot: usize,
    launches: usize,
}

/// What makes two offerings one: pools that can buy it draw on the same machines.
type Reservation<'a> = (&'a str, &'a str, CapacityType, &'a Labels);

#[derive(Default)]
struct Drawn {
    launches: usize,
    remaining: Option<u32>,
}

fn reservation<'a>(instance_type: &'a InstanceType, offering: &'a Offering) -> Reservation<'a> {
    (&instance_type.name, &offering.zone, offering.capacity_type, &offering.labels)
}

impl Holding {
    fn spend(&mut self, cost: Option<Price>) {
        let cost = cost.unwrap_or(Price::ZERO).micro_usd();
        self.capacity.add(&Resources::of(&[(USD_PER_HOUR, cost)]));
    }
}

impl<'a> Holdings<'a> {
    pub(super) fn after(market: &Market<'a>, plan: &'a Plan) -> Self {
        let mut holdings = Self::default();
        let moving = Moving::of(market.snapshot, plan);
        for (node, step) in market.snapshot.nodes.iter().zip(&moving.step_of_node) {
            if let Some(pool) = &node.pool {
                let holding = holdings.by_pool.entry(pool).or_default();
                holding.capacity.add(&node.capacity);
                holding.spend(market.snapshot.cost_of(node));
                holding.nodes += 1;
                let stays = node.state != NodeState::Deleting && step.is_none();
                let capacity_type = node.labels.get(names::CAPACITY_TYPE);
                let is_spot = capacity_type.is_some_and(|value| **value == *CapacityType::Spot.name());
                holding.staying += usize::from(stays);
                holding.spot += usize::from(stays && is_spot);
            }
        }
        for launch in &plan.launches {
            let holding = holdings.by_pool.entry(&launch.pool).or_default();
            holding.nodes += 1;
            holding.staying += 1;
            holding.spot += usize::from(launch.capacity_type == CapacityType::Spot);
            holding.launches += 1;
            if let Some(instance_type) = market.instance_type(&launch.pool, &launch.instance_type) {
                holding.capacity.add(&instance_type.capacity);
            }
            holding.spend(market.pool(&launch.pool).map(|pool| launch.price.plus(pool.node_cost)));
            if let Some((instance_type, offering)) = market.offering_of(launch) {
                let drawn = holdings.reservations.entry(reservation(instance_type, offering)).or_default();
                drawn.launches += 1;
                drawn.remaining = match (drawn.remaining, offering.remaining) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (a, b) => a.or(b),
                };
            }
        }
        holdings
    }

    /// Where the launches exceed limits, replicas or reservations.
    pub(super) fn overruns(&self, snapshot: &'a Snapshot) -> Vec<Violation> {
        let mut violations = Vec::new();
        for pool in &snapshot.pools {
            let Some(holding) = self.by_pool.get(&*pool.name).filter(|holding| holding.launches > 0) else {
                continue;
            };
            for (resource, limit) in pool.limits.resources.iter() {
                let amount = holding.capacity.get(resource);
                if amount > limit {
                    let (pool, resource) = (pool.name.clone(), resource.clone());
                    violations.push(Violation::LimitExceeded { pool, resource, limit, amount });
                }
            }
            if let Some(limit) = pool.limits.nodes.filter(|limit| holding.nodes > count(*limit)) {
                let nodes = holding.nodes;
                violations.push(Violation::NodeLimitExceeded { pool: pool.name.clone(), limit, nodes });
            }
            if let Some(replicas) = pool.replicas.filter(|replicas| holding.staying > count(*replicas)) {
                let (pool, nodes) = (pool.name.clone(), holding.staying);
                violations.push(Violation::StaticPoolOvergrown { pool, replicas, nodes });
            }
        }
        for shared in &snapshot.shared_limits {
            let (nodes, launches) = self.shared(&shared.pools);
            if launches > 0 && nodes > count(shared.nodes_max) {
                let (pools, limit) = (shared.pools.clone(), shared.nodes_max);
                violations.push(Violation::SharedLimitExceeded { pools, limit, nodes });
            }
        }
        for ((instance_type, zone, capacity_type, _), drawn) in &self.reservations {
            if let Some(remaining) = drawn.remaining.filter(|remaining| drawn.launches > count(*remaining)) {
                violations.push(Violation::ReservationOverdrawn {
                    instance_type: (*instance_type).into(),
                    zone: (*zone).into(),
                    capacity_type: *capacity_type,
                    remaining,
                    launches: drawn.launches,
                });
            }
        }
        violations
    }

    /// Whether the pool may have one more node of whatever type.
    pub(super) fn allow_node(&self, snapshot: &Snapshot, pool: &Pool) -> bool {
        let nodes = self.by_pool.get(&*pool.name).map_or(0, |holding| holding.nodes);
        pool.limits.nodes.is_none_or(|limit| nodes < count(limit))
            && snapshot
                .shared_limits
                .iter()
                .filter(|shared| shared.pools.contains(&pool.name))
                .all(|shared| self.shared(&shared.pools).0 < count(shared.nodes_max))
    }

    /// Whether the pool's resource limits and the reservation leave room for one more of this offering.
    pub(super) fn allow_purchase(
        &self,
        pool: &Pool,
        instance_type: &InstanceType,
        offering: &Offering,
    ) -> bool {
        let held = |resource: &str| {
            self.by_pool.get(&*pool.name).map_or(0, |holding| holding.capacity.get(resource))
        };
        let more = |resource: &str| match resource {
            USD_PER_HOUR => offering.price.plus(pool.node_cost).micro_usd(),
            _ => instance_type.capacity.get(resource),
        };
        let within_limits = pool.limits.resources.iter().all(|(resource, limit)| {
            i128::from(held(resource)) + i128::from(more(resource)) <= i128::from(limit)
        });
        let drawn = self.reservations.get(&reservation(instance_type, offering));
        let remaining = [offering.remaining, drawn.and_then(|drawn| drawn.remaining)];
        let launches = drawn.map_or(0, |drawn| drawn.launches);
        within_limits
            && remaining.into_iter().flatten().all(|remaining| launches < count(remaining))
            && self.allow_capacity_type(pool, offering.capacity_type)
    }

    /// Whether the pool's share of spot leaves room for one more of this capacity type.
    fn allow_capacity_type(&self, pool: &Pool, capacity_type: CapacityType) -> bool {
        let Some(share) = pool.division.spot else { return true };
        let (staying, spot) =
            self.by_pool.get(&*pool.name).map_or((0, 0), |holding| (holding.staying, holding.spot));
        let nodes = staying + 1;
        let spot_max = nodes * count(share.percent_max) / 100;
        match capacity_type {
            CapacityType::Spot => spot < spot_max,
            _ => share.falls_back || staying - spot < nodes - spot_max,
        }
    }

    /// How many nodes these pools have together, and how many of them are launches.
    fn shared(&self, pools: &[Text]) -> (usize, usize) {
        let mut pools: Vec<&str> = pools.iter().map(|pool| &**pool).collect();
        pools.sort_unstable();
        pools.dedup();
        let holdings = pools.iter().filter_map(|pool| self.by_pool.get(pool));
        holdings
            .fold((0, 0), |(nodes, launches), holding| (nodes + holding.nodes, launches + holding.launches))
    }
}

fn count(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
