//! Everything the planner sees, at one instant.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::catalog::{Offering, OfferingPattern};
use crate::disruption::{DisruptionPolicy, PodBudget};
use crate::names::{Labels, Text};
use crate::node::Node;
use crate::pod::{Pod, PodSpec};
use crate::pool::Pool;
use crate::units::Price;
use crate::volume::Storage;

#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Sorted by namespace and name.
    pub pods: Vec<Pod>,
    /// Sorted by name.
    pub nodes: Vec<Node>,
    /// Sorted by name.
    pub pools: Vec<Pool>,
    /// Sorted by namespace and name.
    pub daemon_sets: Vec<DaemonSet>,
    /// Labels of the namespaces that are known.
    pub namespaces: BTreeMap<Text, Labels>,
    pub storage: Storage,
    /// Node limits that several pools share.
    pub shared_limits: Vec<SharedLimit>,
    /// Sorted by namespace and name.
    pub pod_budgets: Vec<PodBudget>,
}

impl Snapshot {
    /// Puts every list in its defined order, so that the order of the input documents cannot be seen.
    #[must_use]
    pub fn in_order(mut self) -> Self {
        self.pods.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        self.nodes.sort_by(|a, b| a.name.cmp(&b.name));
        self.pools.sort_by(|a, b| a.name.cmp(&b.name));
        self.daemon_sets.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        self.shared_limits.sort();
        self.pod_budgets.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        self
    }
}

impl Snapshot {
    /// What each node of a pool costs beyond its price.
    pub fn cost_beyond_price(&self, pool: Option<&Text>) -> Price {
        let pool = self.pools.iter().find(|candidate| Some(&candidate.name) == pool);
        pool.map_or(Price::ZERO, |pool| pool.node_cost)
    }

    /// What a node costs an hour, where its price is known.
    pub fn cost_of(&self, node: &Node) -> Option<Price> {
        node.price.map(|price| price.plus(self.cost_beyond_price(node.pool.as_ref())))
    }
}

/// At most `nodes_max` nodes over all of `pools` together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SharedLimit {
    pub pools: Vec<Text>,
    pub nodes_max: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonSet {
    pub namespace: Text,
    pub name: Text,
    pub spec: Arc<PodSpec>,
}

/// How the planner is to decide where there is a choice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    pub preferences: PreferencePolicy,
    pub min_values: MinValuesPolicy,
    /// Offerings that cannot be had now.
    pub unavailable: Vec<OfferingPattern>,
    /// The same of single pools, by name: what one cloud lacks says nothing of another.
    pub unavailable_to: BTreeMap<Text, Vec<OfferingPattern>>,
    pub disruption: DisruptionPolicy,
    pub effort: Effort,
    pub scheduler: SchedulerPolicy,
}

impl Policy {
    /// Whether it is known of an offering that the pool cannot have it now.
    pub fn lacks(&self, pool: &str, instance_type: &str, offering: &Offering) -> bool {
        let of_pool = self.unavailable_to.get(pool).into_iter().flatten();
        of_pool.chain(&self.unavailable).any(|pattern| pattern.matches(instance_type, offering))
    }

    /// The same, as if everything could be had.
    #[must_use]
    pub fn with_all_available(&self) -> Self {
        Self { unavailable: Vec::new(), unavailable_to: BTreeMap::new(), ..self.clone() }
    }
}

/// What kube-scheduler's own way of choosing among nodes counts for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SchedulerPolicy {
    /// Pods go where the plan has them.
    #[default]
    Ignored,
    /// Plans say which pods could be left without a place.
    Tried,
    /// And only those nodes are taken away for money that pay as it would place their pods.
    Heeded,
}

/// How much work goes into a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Rounds of improvement after the quick answer, at most; `None` is as many as suit the size of the
    /// problem. The same number gives the same plan.
    pub rounds: Option<u64>,
    /// Threads that share the work; the plan does not depend on it.
    pub threads: usize,
}

impl Effort {
    /// However small the problem, no more rounds than this are done unless they are asked for.
    pub const ROUNDS_MAX_UNASKED: u64 = 400;

    /// Only the quick answer.
    pub const QUICK: Self = Self { rounds: Some(0), threads: 1 };
}

impl Default for Effort {
    fn default() -> Self {
        Self { rounds: None, threads: 1 }
    }
}

/// What preferred affinities and `ScheduleAnyway` spreads count for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PreferencePolicy {
    /// As requirements, given up one by one where they cannot be met.
    #[default]
    Respect,
    Ignore,
}

/// What happens where a pool's `minValues` cannot be met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MinValuesPolicy {
    /// Nothing is bought.
    #[default]
    Strict,
    /// It is bought all the same, and the plan says so.
    BestEffort,
}
