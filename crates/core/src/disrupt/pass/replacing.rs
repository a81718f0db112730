//! Whether a pool wants its nodes replaced by those that a trial bought.

use std::hash::{Hash, Hasher};

use rustc_hash::{FxHashSet, FxHasher};

use super::super::worthwhile::Costs;
use super::Pass;
use super::trial::{Group, Trial};
use crate::catalog::{InstanceType, Offering};
use crate::disruption::{Approval, Basis, SafetyChecks};
use crate::host::HostOrigin;
use crate::node::Node;
use crate::optimization::Optimization;
use crate::pool::Pool;
use crate::reason::{Reason, Refusal};
use crate::resources::{CPU, MEMORY};
use crate::units::Price;

impl Pass<'_> {
    pub(super) fn may_replace(&self, trial: &Trial, group: &Group, costs: &Costs) -> Result<(), Refusal> {
        if group.bought.is_empty() {
            return Ok(());
        }
        let pools = group.candidates.iter().filter_map(|index| self.pool_of_candidate(*index));
        for pool in pools {
            let rules = &pool.disruption.replacement;
            if let Some(refusal) = &rules.barred {
                return Err(refusal.clone());
            }
            let saves = costs.saves();
            if saves < rules.saving_min {
                let message =
                    format!("it would save {saves} an hour, and the pool wants {}", rules.saving_min);
                return Err(Reason::SavingTooSmall.because(message));
            }
            if let Some(most) = rules.impact_percent_max {
                self.impact_within(most, trial, group)?;
            }
            if pool.disruption.checks.is_some() {
                self.leaves_capacity(pool, trial)?;
            }
            if let Approval::Needed { given } = &rules.approval {
                let id = self.replacement_id(group);
                if given.as_deref() != Some(&*id) {
                    return Err(Reason::AwaitingApproval.because(self.proposal(group, saves, &id)));
                }
            }
        }
        Ok(())
    }

    fn pool_of_candidate(&self, index: usize) -> Option<&Pool> {
        let pool = self.safety.nodes[self.candidates[index].node].pool?;
        Some(&self.prepared.snapshot.pools[pool])
    }

    /// Refuses if the pool's nodes, with what is bought, would be too full, and fuller than before: what its group asks of
    /// nodes that go for good, asked of those that are replaced.
    fn leaves_capacity(&self, pool: &Pool, trial: &Trial) -> Result<(), Refusal> {
        let removed = (0..self.candidates.len()).filter(|index| self.candidates[*index].removed);
        let gone: FxHashSet<usize> =
            removed.chain(trial.candidates()).map(|index| self.candidates[index].node).collect();
        let (percent, before) = (self.asked_percent(pool, &gone), self.asked_before.get(&pool.name));
        let most = SafetyChecks::ASKED_MAX_PERCENT.max(before.copied().unwrap_or(0));
        if percent <= most {
            return Ok(());
        }
        Err(Reason::CapacityLeft.because(format!(
            "the group's nodes, with those that replace it, would be asked for {percent}% of what they have, and {most}% is \
             the most"
        )))
    }

    /// What the pool's nodes are asked for of what they have, as things stand in the trial; of CPU or memory the more.
    pub(super) fn asked_percent(&self, pool: &Pool, gone: &FxHashSet<usize>) -> u32 {
        let snapshot = self.prepared.snapshot;
        let asked = |(dimension, resource): (usize, &str)| {
            let (mut given, mut free) = (0_i128, 0_i128);
            for (index, host) in self.packer.hosts.iter().enumerate() {
                let room = match host.origin {
                    HostOrigin::Node(node) => {
                        let known = &snapshot.nodes[node];
                        let is_of_it = known.pool.as_ref() == Some(&pool.name) && !gone.contains(&node);
                        is_of_it.then(|| known.allocatable.get(resource))
                    }
                    HostOrigin::Planned { cell, .. } => {
                        let of = &snapshot.pools[self.prepared.market.cells[cell].pool];
                        (of.name == pool.name).then(|| self.room_of_planned(index, resource))
                    }
                };
                if let Some(room) = room {
                    given += i128::from(room);
                    free += i128::from(host.free[dimension]);
                }
            }
            let percent = if given > 0 { (given - free) * 100 / given } else { 0 };
            u32::try_from(percent.max(0)).unwrap_or(u32::MAX)
        };
        let names = self.prepared.dimensions.names.iter().enumerate();
        let looked_at = names.filter(|(_, name)| [CPU, MEMORY].contains(&&***name));
        looked_at.map(|(dimension, name)| asked((dimension, name))).max().unwrap_or(0)
    }

    /// Refuses if more of what is used on the nodes now, in percent, would be missing on those that replace them. What is
    /// used is what was measured; of pods that go elsewhere, their part of it by what they ask for.
    fn impact_within(&self, most: u32, trial: &Trial, group: &Group) -> Result<(), Refusal> {
        let snapshot = self.prepared.snapshot;
        let nodes = group.candidates.iter().map(|index| &snapshot.nodes[self.candidates[*index].node]);
        let is_unknown =
            |node: &&Node| node.disruption.usage.is_some_and(|usage| usage.basis == Basis::Unknown);
        if let Some(node) = nodes.into_iter().find(is_unknown) {
            let message = format!(
                "nobody knows what would be missing: what {} uses was not measured lately",
                node.name
            );
            return Err(Reason::PerformanceImpact.because(message));
        }
        for (resource, name) in [(CPU, "CPU"), (MEMORY, "memory")] {
            let used: i128 = group
                .candidates
                .iter()
                .map(|index| &snapshot.nodes[self.candidates[*index].node])
                .filter_map(|node| {
                    let usage = node.disruption.usage.filter(|usage| usage.basis == Basis::Measured)?;
                    let percent = if resource == CPU { usage.cpu_percent } else { usage.memory_percent };
                    Some(i128::from(node.allocatable.get(resource)) * i128::from(percent) / 100)
                })
                .sum();
            let movers: FxHashSet<usize> = group
                .candidates
                .iter()
                .flat_map(|index| &self.homes.on_host[self.candidates[*index].host])
                .flat_map(|(_, pods)| pods.iter().copied())
                .collect();
            let asked = |pod: usize| i128::from(snapshot.pods[pod].spec.requests.get(resource));
            let all: i128 = movers.iter().map(|pod| asked(*pod)).sum();
            let moved =
                trial.moves().filter(|(pod, host)| movers.contains(pod) && group.bought.contains(host));
            let to_bought: i128 = moved.map(|(pod, _)| asked(*pod)).sum();
            let used = if all > 0 { used * to_bought / all } else { used };
            let bought: i128 =
                group.bought.iter().map(|host| i128::from(self.room_of_planned(*host, resource))).sum();
            let lacking = (used - bought).max(0) * 100;
            if lacking > used * i128::from(most) {
                let percent = lacking / used.max(1);
                let message = format!(
                    "{percent}% of the {name} that is used on it would be missing, and {most}% may be"
                );
                return Err(Reason::PerformanceImpact.because(message));
            }
        }
        Ok(())
    }

    fn room_of_planned(&self, host: usize, resource: &str) -> i64 {
        let HostOrigin::Planned { cell, candidate } = self.packer.hosts[host].origin else { return 0 };
        let cell = &self.prepared.market.cells[cell];
        let types = &self.prepared.snapshot.pools[cell.pool].types;
        types[cell.candidates[candidate].instance_type].allocatable().get(resource)
    }

    fn bought(&self, group: &Group) -> impl Iterator<Item = (&InstanceType, &Offering)> {
        group.bought.iter().filter_map(|host| {
            let HostOrigin::Planned { cell, candidate } = self.packer.hosts[*host].origin else {
                return None;
            };
            let cell = &self.prepared.market.cells[cell];
            let chosen = &cell.candidates[candidate];
            let known = &*self.prepared.snapshot.pools[cell.pool].types[chosen.instance_type];
            Some((known, &known.offerings[chosen.offering]))
        })
    }

    /// What is bought, each as its type and where.
    fn purchases(&self, group: &Group) -> Vec<String> {
        let mut purchases: Vec<String> = self
            .bought(group)
            .map(|(known, offering)| {
                format!("{} in {} ({})", known.name, offering.zone, offering.capacity_type)
            })
            .collect();
        purchases.sort_unstable();
        purchases
    }

    fn names(&self, group: &Group) -> Vec<&str> {
        let nodes = &self.prepared.snapshot.nodes;
        let mut names: Vec<&str> =
            group.candidates.iter().map(|index| &*nodes[self.candidates[*index].node].name).collect();
        names.sort_unstable();
        names
    }

    /// The same for the same nodes and what would replace them.
    fn replacement_id(&self, group: &Group) -> String {
        let mut hasher = FxHasher::default();
        (self.names(group), self.purchases(group)).hash(&mut hasher);
        format!("{:08x}", hasher.finish() >> 32)
    }

    fn proposal(&self, group: &Group, saves: Price, id: &str) -> String {
        let cents = saves.per_month().micro_usd() / 10_000;
        let nodes = &self.prepared.snapshot.nodes;
        let given = group.candidates.iter().map(|index| &nodes[self.candidates[*index].node].allocatable);
        let optimization = Optimization::of(given, self.bought(group).map(|(known, _)| known.allocatable()));
        format!(
            "{optimization}: {} replaced by {} would save ${}.{:02} a month; it waits for approval of {id}",
            self.names(group).join(", "),
            self.purchases(group).join(", "),
            cents / 100,
            cents % 100
        )
    }
}
