//! What the packer knows, for itself and for those who look at its work: what a host or an offering could hold.

use std::collections::BTreeSet;

use fixedbitset::FixedBitSet;

use crate::class::{Class, Level};
use crate::division::Division;
use crate::host::{AttachedVolumes, HostOrigin, fits};
use crate::market::{Amounts, Candidate};
use crate::names::Text;
use crate::snapshot::{MinValuesPolicy, Snapshot};
use crate::topology::{HostId, Place, TopologyRefusal};

use super::{Packer, add_times};

impl Packer<'_> {
    pub(crate) fn snapshot(&self) -> &Snapshot {
        self.snapshot
    }

    /// How many of the hosts exist already; planned ones come after them.
    pub(crate) fn existing(&self) -> usize {
        self.existing
    }

    pub(crate) fn fixed_nodes(&self) -> impl Iterator<Item = HostId> {
        self.fixed_nodes.iter().copied()
    }

    pub(crate) fn heaviest_pool(&self, class: usize) -> i32 {
        self.heaviest_pool[class]
    }

    pub(crate) fn pool_weight(&self, pool: usize) -> i32 {
        self.snapshot.pools[pool].weight
    }

    /// How many different weights the pools have that buy for pods without further conditions.
    pub(crate) fn buying_weights(&self) -> usize {
        let pools = self.snapshot.pools.iter().enumerate();
        let buying = pools.map(|(pool, _)| pool).filter(|pool| self.buys_for_pods(*pool));
        let weights: BTreeSet<(i32, bool)> =
            buying.map(|pool| (self.pool_weight(pool), self.is_particular(pool))).collect();
        weights.len()
    }

    /// Whether what the pool buys depends on more than price and size, so that it is only rearranged by the packer.
    pub(crate) fn is_particular(&self, pool: usize) -> bool {
        self.min_values_matter(pool) || self.snapshot.pools[pool].division != Division::default()
    }

    pub(crate) fn buys_for_pods(&self, pool: usize) -> bool {
        self.snapshot.pools[pool].replicas.is_none()
    }

    /// Whether labels and taints of the host suit the class at this level.
    pub(crate) fn host_admits(&self, level: &Level, host: HostId) -> bool {
        match self.hosts[host].origin {
            HostOrigin::Node(_) => self.admitted_nodes[level.demand].contains(host),
            HostOrigin::Planned { cell, .. } => self.admitted_cells[level.demand].contains(cell),
        }
    }

    pub(crate) fn can_buy(&self, cell: usize, candidate: usize) -> bool {
        let cell = &self.market.cells[cell];
        self.ledger.shortage(cell.pool, &cell.candidates[candidate]).is_none()
    }

    /// What the planned hosts cost.
    pub(crate) fn spent(&self) -> i64 {
        let planned = self.hosts[self.existing..].iter();
        planned
            .map(|host| match host.origin {
                HostOrigin::Planned { cell, candidate } => {
                    self.market.cells[cell].candidates[candidate].price
                }
                HostOrigin::Node(_) => 0,
            })
            .sum()
    }

    pub(super) fn claim_is_held(&self, class: &Class) -> bool {
        self.held_claim(class).is_some()
    }

    /// A claim of the class that only one pod may use and another pod has.
    pub(crate) fn held_claim<'b>(&self, class: &'b Class) -> Option<&'b Text> {
        class.volumes.exclusive.iter().find(|claim| self.claims_held.contains_key(*claim))
    }

    /// The host's volumes as they would stand on another type; `None` where that attaches any number.
    pub(super) fn volumes_as(
        &self,
        host: HostId,
        pool: usize,
        option: &Candidate,
    ) -> Option<AttachedVolumes> {
        let limits = &self.snapshot.pools[pool].types[option.instance_type].volume_limits;
        if limits.is_empty() {
            return None;
        }
        let mut volumes = self.attached(&self.hosts[host].placed);
        volumes.limits.clone_from(limits);
        Some(volumes)
    }

    /// The volumes of these pods on one host.
    pub(super) fn attached(&self, placed: &[(usize, u32)]) -> AttachedVolumes {
        let mut volumes = AttachedVolumes::default();
        for (class, pods) in placed {
            volumes.attach(&self.classes.all[*class], *pods);
        }
        volumes
    }

    /// At most so many pods that the pool's minValues still hold on the host.
    pub(super) fn pods_within_min_values(&self, class: usize, host: HostId, pods: u32) -> u32 {
        let HostOrigin::Planned { cell, candidate } = self.hosts[host].origin else { return pods };
        let cell_ref = &self.market.cells[cell];
        if !self.min_values_matter(cell_ref.pool) {
            return pods;
        }
        let load = self.hosts[host].load(&cell_ref.candidates[candidate]);
        let mut pods = pods;
        while pods > 0 {
            let mut needed = load.clone();
            add_times(&mut needed, &self.classes.all[class].requests, i64::from(pods));
            if self.min_values_hold(&with_more(&self.hosts[host].placed, class, pods), cell, &needed) {
                break;
            }
            pods /= 2;
        }
        pods
    }

    pub(crate) fn min_values_matter(&self, pool: usize) -> bool {
        self.policy.min_values == MinValuesPolicy::Strict
            && self.snapshot.pools[pool].requirements.has_min_values()
    }

    pub(super) fn min_values_hold(&self, placed: &[(usize, u32)], cell: usize, needed: &[i64]) -> bool {
        let pool_index = self.market.cells[cell].pool;
        if !self.min_values_matter(pool_index) {
            return true;
        }
        let pool = &self.snapshot.pools[pool_index];
        pool.requirements.min_values().all(|(key, count)| {
            let values: BTreeSet<&str> = self
                .cells_for(placed, cell)
                .flat_map(|other| self.substitutes_in(other, cell, placed, needed))
                .filter_map(|candidate| crate::market::offered_label(pool, candidate, key))
                .collect();
            values.len() >= count as usize
        })
    }

    pub(crate) fn min_values_allow_alone(&self, class_index: usize, cell: usize) -> bool {
        let class = &self.classes.all[class_index];
        self.min_values_hold(&[(class_index, 1)], cell, &class.requests)
    }

    /// Cells of the same pool and custom labels that would do for all these pods, as far as labels decide.
    pub(crate) fn cells_for<'b>(
        &'b self,
        placed: &'b [(usize, u32)],
        cell: usize,
    ) -> impl Iterator<Item = usize> + 'b {
        let home = &self.market.cells[cell];
        let admitted: Vec<&FixedBitSet> = placed
            .iter()
            .filter_map(|(class, _)| self.classes.all[*class].levels.last())
            .map(|level| &self.admitted_cells[level.demand])
            .collect();
        (0..self.market.cells.len()).filter(move |index| {
            let other = &self.market.cells[*index];
            other.pool == home.pool
                && other.custom == home.custom
                && admitted.iter().all(|cells| cells.contains(*index))
        })
    }

    /// Candidates of `cell` that could stand in for a host of `home` with these pods and this load, cheapest
    /// first.
    pub(crate) fn substitutes_in<'b>(
        &'b self,
        cell: usize,
        home: usize,
        placed: &[(usize, u32)],
        load: &'b [i64],
    ) -> impl Iterator<Item = &'b Candidate> + 'b {
        let (cell, home) = (&self.market.cells[cell], &self.market.cells[home]);
        // With the DaemonSets of either place: which of them run is only known once it is there.
        let more_daemons = home.daemons.iter().zip(&cell.daemons).map(|(here, there)| (here - there).max(0));
        let needed: Amounts = load.iter().zip(more_daemons).map(|(load, more)| load + more).collect();
        let attached = self.attached(placed);
        let types = &self.snapshot.pools[cell.pool].types;
        cell.candidates.iter().filter(move |candidate| {
            fits(&needed, &candidate.free) && attached.within(&types[candidate.instance_type].volume_limits)
        })
    }

    /// Why a new host of this cell takes no pod of the class, because of other pods.
    pub(crate) fn topology_refusal(&self, class: &Class, cell: usize) -> Option<TopologyRefusal> {
        let level = class.levels.last()?;
        self.topology.room(&level.rules, &class.appearance, Place::NewIn(cell)).err()
    }

    /// Whether a new host of this candidate could attach the volumes of one pod of the class.
    pub(crate) fn volumes_fit_new(&self, class: &Class, pool: usize, candidate: &Candidate) -> bool {
        let limits = &self.snapshot.pools[pool].types[candidate.instance_type].volume_limits;
        limits.is_empty() || AttachedVolumes::limited_to(limits.clone()).room(class) > 0
    }
}

/// What is on a host, and so many more of a class.
pub(super) fn with_more(placed: &[(usize, u32)], class: usize, pods: u32) -> Vec<(usize, u32)> {
    let mut placed = placed.to_vec();
    match placed.iter_mut().find(|(other, _)| *other == class) {
        Some((_, count)) => *count += pods,
        None => placed.push((class, pods)),
    }
    placed
}
