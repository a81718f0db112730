//! What pools have and may still have: limits are hard, inside a batch too.

use crate::division::{Divided, Portion};
use crate::market::{Candidate, Market};
use crate::node::NodeState;
use crate::pool::Limits;
use crate::reason::{Reason, Refusal};
use crate::resources::format_amount;
use crate::snapshot::Snapshot;
use crate::units::Price;

#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    pools: Vec<PoolAccount>,
    /// Node counts over several pools: the pools, the count, the limit.
    shared: Vec<(Vec<usize>, u32, u32)>,
    reservations: Vec<u32>,
}

#[derive(Clone, Debug)]
struct PoolAccount {
    limited: Vec<Limited>,
    nodes: u32,
    nodes_max: Option<u32>,
    staying: Divided,
}

#[derive(Clone, Debug)]
struct Limited {
    resource: crate::names::Text,
    used: i64,
    limit: i64,
}

/// What stands in the way of a purchase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shortage {
    Nodes {
        have: u32,
        max: u32,
    },
    SharedNodes {
        have: u32,
        max: u32,
    },
    Reservation,
    Resource {
        index: usize,
        more: i64,
    },
    /// Of its portion of the pool.
    Portion(Refusal),
}

/// What a limit counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LimitKind {
    /// A limited resource of a pool, by its place among them.
    Resource {
        pool: usize,
        index: usize,
    },
    /// The nodes of these pools together.
    Nodes {
        pools: Vec<usize>,
    },
    Reservation(usize),
}

impl Ledger {
    /// What the pools have now: all of their nodes count until they are gone.
    pub(crate) fn open(snapshot: &Snapshot, market: &Market) -> Self {
        let pools: Vec<PoolAccount> = snapshot
            .pools
            .iter()
            .map(|pool| {
                let nodes = || snapshot.nodes.iter().filter(|node| node.pool.as_ref() == Some(&pool.name));
                let mut staying = Divided::new(pool);
                for node in nodes().filter(|node| node.state != NodeState::Deleting) {
                    staying.come(Portion::of_node(pool, node));
                }
                PoolAccount {
                    limited: pool
                        .limits
                        .resources
                        .iter()
                        .map(|(resource, limit)| Limited {
                            resource: resource.clone(),
                            used: nodes()
                                .map(|node| {
                                    let cost = snapshot.cost_of(node).unwrap_or(Price::ZERO);
                                    Limits::amount(resource, &node.capacity, cost)
                                })
                                .sum(),
                            limit,
                        })
                        .collect(),
                    nodes: u32::try_from(nodes().count()).unwrap_or(u32::MAX),
                    nodes_max: pool.limits.nodes,
                    staying,
                }
            })
            .collect();
        let shared = snapshot
            .shared_limits
            .iter()
            .map(|limit| {
                let members: Vec<usize> = snapshot
                    .pools
                    .iter()
                    .enumerate()
                    .filter(|(_, pool)| limit.pools.contains(&pool.name))
                    .map(|(index, _)| index)
                    .collect();
                let nodes = members.iter().map(|pool| pools[*pool].nodes).sum();
                (members, nodes, limit.nodes_max)
            })
            .collect();
        Self { pools, shared, reservations: market.reservations.clone() }
    }

    /// The nodes of the pool that stay.
    pub(crate) fn staying(&self, pool: usize) -> &Divided {
        &self.pools[pool].staying
    }

    /// What the pool has too little of to buy this, if anything.
    pub(crate) fn shortage(&self, pool: usize, candidate: &Candidate) -> Option<Shortage> {
        let account = &self.pools[pool];
        if let Some(max) = account.nodes_max
            && account.nodes >= max
        {
            return Some(Shortage::Nodes { have: account.nodes, max });
        }
        for (members, have, max) in &self.shared {
            if members.contains(&pool) && have >= max {
                return Some(Shortage::SharedNodes { have: *have, max: *max });
            }
        }
        if candidate.reservation.is_some_and(|reservation| self.reservations[reservation] == 0) {
            return Some(Shortage::Reservation);
        }
        let over_limit = account.over_limit(&candidate.limited, &[]);
        over_limit.or_else(|| account.staying.refusal_to_come(candidate.portion).map(Shortage::Portion))
    }

    /// What the pool has too little of to have `to` in place of `from`, if anything.
    pub(crate) fn shortage_to_exchange(
        &self,
        pool: usize,
        from: &Candidate,
        to: &Candidate,
    ) -> Option<Shortage> {
        let empty = |reservation: usize| self.reservations[reservation] == 0;
        if to.reservation != from.reservation && to.reservation.is_some_and(empty) {
            return Some(Shortage::Reservation);
        }
        let account = &self.pools[pool];
        if !account.staying.lets_replace(from.portion, to.portion) {
            let message = "it would be of another portion of the pool";
            return Some(Shortage::Portion(Reason::SpotShare.because(message)));
        }
        account.over_limit(&to.limited, &from.limited)
    }

    /// Every limit, with what is left of it.
    pub(crate) fn limits(&self) -> Vec<(LimitKind, i64)> {
        let mut limits = Vec::new();
        for (pool, account) in self.pools.iter().enumerate() {
            for (index, limited) in account.limited.iter().enumerate() {
                limits.push((LimitKind::Resource { pool, index }, limited.limit - limited.used));
            }
            if let Some(max) = account.nodes_max {
                let left = i64::from(max) - i64::from(account.nodes);
                limits.push((LimitKind::Nodes { pools: vec![pool] }, left));
            }
        }
        for (pools, have, max) in &self.shared {
            limits.push((LimitKind::Nodes { pools: pools.clone() }, i64::from(*max) - i64::from(*have)));
        }
        for (id, left) in self.reservations.iter().enumerate() {
            limits.push((LimitKind::Reservation(id), i64::from(*left)));
        }
        limits
    }

    /// The shortage in words.
    pub(crate) fn refusal(&self, pool: usize, shortage: Shortage) -> Refusal {
        match shortage {
            Shortage::Nodes { have, max } => {
                Reason::NodeLimit.because(format!("the pool has {have} of at most {max} nodes"))
            }
            Shortage::SharedNodes { have, max } => Reason::NodeLimit
                .because(format!("the pools that share a limit have {have} of at most {max} nodes")),
            Shortage::Reservation => {
                Reason::ReservationFull.because("the capacity reservation has no machine left")
            }
            Shortage::Portion(refusal) => refusal,
            Shortage::Resource { index, more } => {
                let limited = &self.pools[pool].limited[index];
                let amount = |amount| format_amount(&limited.resource, amount);
                Reason::PoolLimit.because(format!(
                    "{} of {} {} are used, and this would add {}",
                    amount(limited.used),
                    amount(limited.limit),
                    limited.resource,
                    amount(more)
                ))
            }
        }
    }

    pub(crate) fn buy(&mut self, pool: usize, candidate: &Candidate) {
        self.pools[pool].nodes += 1;
        self.pools[pool].staying.come(candidate.portion);
        for (members, nodes, _) in &mut self.shared {
            if members.contains(&pool) {
                *nodes += 1;
            }
        }
        self.take(pool, candidate, 1);
    }

    /// Undoes [`Self::buy`].
    pub(crate) fn give_back(&mut self, pool: usize, candidate: &Candidate) {
        self.pools[pool].nodes -= 1;
        self.pools[pool].staying.go(candidate.portion);
        for (members, nodes, _) in &mut self.shared {
            if members.contains(&pool) {
                *nodes -= 1;
            }
        }
        self.take(pool, candidate, -1);
    }

    /// A node of the pool is to go. It counts against the limits until it is gone.
    pub(crate) fn leave(&mut self, pool: usize, portion: Portion) {
        self.pools[pool].staying.go(portion);
    }

    /// It stays after all.
    pub(crate) fn stay(&mut self, pool: usize, portion: Portion) {
        self.pools[pool].staying.come(portion);
    }

    pub(crate) fn exchange(&mut self, pool: usize, from: &Candidate, to: &Candidate) {
        self.take(pool, from, -1);
        self.take(pool, to, 1);
    }

    fn take(&mut self, pool: usize, candidate: &Candidate, times: i64) {
        for (limited, amount) in self.pools[pool].limited.iter_mut().zip(&candidate.limited) {
            limited.used += amount * times;
        }
        if let Some(reservation) = candidate.reservation {
            let left = &mut self.reservations[reservation];
            *left = if times > 0 { left.saturating_sub(1) } else { *left + 1 };
        }
    }
}

impl PoolAccount {
    fn over_limit(&self, added: &[i64], given_back: &[i64]) -> Option<Shortage> {
        self.limited.iter().enumerate().find_map(|(index, limited)| {
            let more = added[index] - given_back.get(index).copied().unwrap_or(0);
            (more > 0 && limited.used + more > limited.limit).then_some(Shortage::Resource { index, more })
        })
    }
}
