//! How many nodes and pods may go together.

use fixedbitset::FixedBitSet;
use rustc_hash::FxHashMap;

use super::{NodeSafety, budget_index, is_forced};
use crate::disruption::{DisruptionReason, Leaving, NodeDisruption};
use crate::division::{Divided, Portion};
use crate::node::{Node, NodeState};
use crate::pool::Pool;
use crate::reason::{Reason, Refusal};
use crate::snapshot::Snapshot;

/// How many more nodes and pods may go: budgets are spent by the plan as a whole.
#[derive(Clone, Debug)]
pub struct Allowances {
    pub(super) pools: Vec<PoolAllowance>,
    /// What each PodDisruptionBudget still allows.
    pub(super) pods: Vec<u32>,
}

#[derive(Clone, Debug)]
pub(super) struct PoolAllowance {
    /// How many nodes may be away for each of [`DisruptionReason::BUDGETED`], when the last of them goes for good.
    for_good: [u32; 3],
    /// The same when it is replaced.
    replaced: [u32; 3],
    taken: u32,
    staying: Divided,
    nodes_min: u32,
    pub(super) fleet: Fleet,
}

/// The nodes of a pool as budgets count them: those that are still starting do not count, and those that go, or of which
/// nothing can be said to run there, are away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fleet {
    pub total: u32,
    pub away: u32,
    pub unhealthy: u32,
    /// Those that count, and those that never came up.
    pub joined: u32,
}

impl Fleet {
    pub fn add(&mut self, node: &Node) {
        let NodeDisruption { not_ready, unhealthy, .. } = &node.disruption;
        let (is_starting, is_unhealthy) = (node.state == NodeState::Starting, unhealthy.is_some());
        self.joined += u32::from(!is_starting || is_unhealthy);
        self.unhealthy += u32::from(is_unhealthy);
        if !is_starting {
            let is_away = node.state == NodeState::Deleting || *not_ready || is_unhealthy;
            self.total += 1;
            self.away += u32::from(is_away);
        }
    }

    pub fn of<'n>(nodes: impl IntoIterator<Item = &'n Node>) -> Self {
        let mut fleet = Self::default();
        nodes.into_iter().for_each(|node| fleet.add(node));
        fleet
    }

    /// How many more may go for a reason that has a budget, when the last of them goes like this.
    pub fn allowed(self, pool: &Pool, reason: DisruptionReason, leaving: Leaving) -> u32 {
        pool.disruption.away_max(reason, leaving, self.total).min(self.total).saturating_sub(self.away)
    }
}

impl PoolAllowance {
    pub(super) fn budget(&self, reason: DisruptionReason, leaving: Leaving) -> Option<u32> {
        let budgets = match leaving {
            Leaving::ForGood => &self.for_good,
            Leaving::Replaced => &self.replaced,
        };
        budget_index(reason).map(|index| budgets[index])
    }

    /// Why a node of this portion must not go for good.
    pub(super) fn refusal_to_go(&self, portion: Portion, is_empty: bool) -> Option<Refusal> {
        let nodes = self.staying.nodes();
        let too_few = (nodes <= self.nodes_min).then(|| {
            Reason::PoolMinimum
                .because(format!("the pool has {nodes} nodes and must have {}", self.nodes_min))
        });
        too_few.or_else(|| self.staying.refusal_to_go(portion, is_empty))
    }
}

impl Allowances {
    pub(super) fn of(
        snapshot: &Snapshot,
        pool_of: &impl Fn(&Node) -> Option<usize>,
        unbudgeted: &FixedBitSet,
    ) -> Self {
        Self {
            pools: pool_allowances(snapshot, pool_of, unbudgeted),
            pods: snapshot.pod_budgets.iter().map(|budget| budget.disruptions_allowed).collect(),
        }
    }

    /// Spends what the node takes, if that much is left.
    pub fn take(&mut self, node: &NodeSafety, leaving: Leaving) -> Result<(), Reason> {
        if node.budget_draws.iter().any(|(budget, pods)| self.pods[*budget] < *pods) {
            return Err(Reason::PodDisruptionBudget);
        }
        let Some(pool) = node.pool.map(|pool| &self.pools[pool]) else {
            return Err(Reason::NodeNotOfPool);
        };
        if node.budgeted
            && let Some(budget) = pool.budget(node.reason, leaving)
            && pool.taken >= budget
        {
            return Err(Reason::DisruptionBudget);
        }
        let is_empty = node.reason == DisruptionReason::Empty;
        if leaving == Leaving::ForGood
            && !is_forced(node.reason)
            && let Some(refusal) = pool.refusal_to_go(node.portion, is_empty)
        {
            return Err(refusal.reason);
        }
        self.spend(node);
        Ok(())
    }

    /// The same for a node that goes, whatever is left.
    pub(crate) fn spend(&mut self, node: &NodeSafety) {
        if let Some(pool) = node.pool.map(|pool| &mut self.pools[pool]) {
            pool.taken += u32::from(node.budgeted);
            pool.staying.go(node.portion);
        }
        for (budget, pods) in &node.budget_draws {
            self.pods[*budget] = self.pods[*budget].saturating_sub(*pods);
        }
    }

    /// Whether so many nodes of pools may go for good to save money, with those that were taken before. Of nodes that
    /// were weighed together to be replaced, some may turn out to need nothing in their place.
    pub(crate) fn lets_go<'n>(&self, nodes: impl Iterator<Item = &'n NodeSafety>) -> bool {
        let mut going: FxHashMap<(usize, DisruptionReason), u32> = FxHashMap::default();
        for node in nodes.filter(|node| node.budgeted && !is_forced(node.reason)) {
            let Some(pool) = node.pool else { continue };
            *going.entry((pool, node.reason)).or_insert(0) += 1;
        }
        going.into_iter().all(|((pool, reason), nodes)| {
            let pool = &self.pools[pool];
            pool.budget(reason, Leaving::ForGood)
                .is_none_or(|budget| pool.taken.saturating_add(nodes) <= budget)
        })
    }
}

fn pool_allowances(
    snapshot: &Snapshot,
    pool_of: &impl Fn(&Node) -> Option<usize>,
    unbudgeted: &FixedBitSet,
) -> Vec<PoolAllowance> {
    let mut fleets = vec![Fleet::default(); snapshot.pools.len()];
    let mut staying: Vec<Divided> = snapshot.pools.iter().map(Divided::new).collect();
    for (index, node) in snapshot.nodes.iter().enumerate() {
        let Some(pool) = pool_of(node) else { continue };
        if node.state != NodeState::Deleting {
            staying[pool].come(Portion::of_node(&snapshot.pools[pool], node));
        }
        if !unbudgeted.contains(index) {
            fleets[pool].add(node);
        }
    }
    let left = |pool: &Pool, leaving: Leaving, fleet: Fleet| {
        DisruptionReason::BUDGETED.map(|reason| fleet.allowed(pool, reason, leaving))
    };
    snapshot
        .pools
        .iter()
        .zip(staying)
        .zip(fleets)
        .map(|((pool, staying), fleet)| PoolAllowance {
            for_good: left(pool, Leaving::ForGood, fleet),
            replaced: left(pool, Leaving::Replaced, fleet),
            taken: 0,
            staying,
            nodes_min: pool.nodes_min,
            fleet,
        })
        .collect()
}
