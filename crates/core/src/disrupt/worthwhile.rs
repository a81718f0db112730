//! Whether taking nodes away is worth it: what is saved against what it costs the workloads.

use crate::disruption::{Consolidation, DisruptionCost, DisruptionPolicy};
use crate::node::NodeState;
use crate::reason::{Reason, Refusal};
use crate::safety::Safety;
use crate::snapshot::Snapshot;
use crate::units::Price;

/// What a change takes away and what it buys.
#[derive(Clone, Debug)]
pub(super) struct Costs {
    /// Of each node that goes: its pool, price and disruption.
    pub(super) nodes: Vec<(Option<usize>, Price, DisruptionCost)>,
    pub(super) bought: Price,
}

impl Costs {
    fn price(&self) -> Price {
        self.nodes.iter().fold(Price::ZERO, |sum, (_, price, _)| sum.plus(*price))
    }

    fn disruption(&self) -> DisruptionCost {
        self.nodes.iter().fold(DisruptionCost::default(), |sum, (_, _, cost)| sum.plus(*cost))
    }

    pub(super) fn saves(&self) -> Price {
        self.price().minus(self.bought)
    }
}

/// Says whether changes pay. Knows what each pool costs and what it would take to disrupt all of it.
pub(super) struct Judge {
    policy: DisruptionPolicy,
    /// For each pool that asks for balance: its price and its disruption.
    balanced: Vec<Option<(Price, DisruptionCost)>>,
}

impl Judge {
    pub(super) fn new(snapshot: &Snapshot, policy: &DisruptionPolicy, safety: &Safety) -> Self {
        let mut balanced: Vec<Option<(Price, DisruptionCost)>> = snapshot
            .pools
            .iter()
            .map(|pool| (pool.disruption.consolidation == Consolidation::Balanced).then(Default::default))
            .collect();
        for (node, judged) in snapshot.nodes.iter().zip(&safety.nodes) {
            if node.state != NodeState::Deleting
                && let Some((price, cost)) = judged.pool.and_then(|pool| balanced[pool].as_mut())
            {
                *price = price.plus(node.price.unwrap_or(Price::ZERO));
                *cost = cost.plus(judged.cost);
            }
        }
        Self { policy: policy.clone(), balanced }
    }

    /// What is saved beyond the price of the disruption, or why that is not enough.
    pub(super) fn judge(&self, costs: &Costs) -> Result<i64, Refusal> {
        let saves = costs.saves();
        let least = self.policy.saving_min.of(costs.price());
        if saves <= Price::ZERO || saves < least {
            return Err(Reason::SavingTooSmall.because(format!(
                "it would save {saves} an hour, and {least} is the least worth acting for"
            )));
        }
        let disruption = costs.disruption();
        let paid = disruption.priced(self.policy.price);
        if saves <= paid {
            return Err(Reason::DisruptionTooDear.because(format!(
                "it would save {saves} an hour at a disruption of {disruption}, which counts for {paid}"
            )));
        }
        self.balance(costs)?;
        Ok(saves.minus(paid).micro_usd())
    }

    /// The least that a node of this price and disruption has to save.
    pub(super) fn least_saving(&self, price: Price, cost: DisruptionCost) -> i64 {
        self.policy.saving_min.of(price).max(cost.priced(self.policy.price)).micro_usd()
    }

    /// Where a pool asks for it, the part of its cost that is saved must be at least half the part of its
    /// disruption. What several pools save together is theirs in proportion to what their nodes cost.
    fn balance(&self, costs: &Costs) -> Result<(), Refusal> {
        let (saves, price) = (costs.saves(), costs.price());
        for (pool, totals) in self.balanced.iter().enumerate() {
            let Some((pool_price, pool_cost)) = totals else { continue };
            let of_pool = Costs {
                nodes: costs.nodes.iter().filter(|(of, ..)| *of == Some(pool)).copied().collect(),
                bought: Price::ZERO,
            };
            if of_pool.nodes.is_empty() {
                continue;
            }
            let saved = saves.scaled(of_pool.price().micro_usd(), price.micro_usd().max(1));
            let gain = i128::from(saved.micro_usd()) * i128::from(pool_cost.weight()) * 2;
            let pain = i128::from(of_pool.disruption().weight()) * i128::from(pool_price.micro_usd());
            if gain < pain {
                return Err(Reason::Unbalanced.because(format!(
                    "it would save {saved} of the pool's {pool_price} an hour at a disruption of {} out of {pool_cost}",
                    of_pool.disruption()
                )));
            }
        }
        Ok(())
    }
}
