//! Places that exist or are planned, and what is on them.

use std::collections::{BTreeMap, BTreeSet};

use crate::class::Class;
use crate::market::{Amounts, Candidate, Cell};
use crate::names::Text;
use crate::pod::HostPort;
use crate::volume::VolumeDemand;

/// An existing node that stays, or a planned one.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    pub(crate) origin: HostOrigin,
    /// Room left in each dimension. Below zero where running pods overcommit a node.
    pub(crate) free: Amounts,
    pub(crate) ports: Vec<HostPort>,
    pub(crate) volumes: AttachedVolumes,
    /// Classes placed here by the plan, with how many of each.
    pub(crate) placed: Vec<(usize, u32)>,
    /// Takes no pods: it is to go, or is gone.
    pub(crate) closed: bool,
    /// Pods that the plan has brought here.
    pub(crate) arrivals: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostOrigin {
    /// An index into the snapshot's nodes.
    Node(usize),
    Planned {
        cell: usize,
        /// An index into the cell's candidates.
        candidate: usize,
    },
}

/// Volumes on a host by driver, against what the drivers can attach.
#[derive(Clone, Debug, Default)]
pub struct AttachedVolumes {
    pub(crate) limits: BTreeMap<Text, u32>,
    own: BTreeMap<Text, u32>,
    /// Driver and claim, with how many pods use it.
    shared: BTreeMap<(Text, Text), u32>,
}

impl AttachedVolumes {
    pub fn limited_to(limits: BTreeMap<Text, u32>) -> Self {
        Self { limits, ..Self::default() }
    }

    fn used(&self, driver: &Text) -> u32 {
        self.own.get(driver).copied().unwrap_or(0) + count(self.shared.keys().filter(|(d, _)| d == driver))
    }

    /// Whether all of it could be attached under these limits.
    pub(crate) fn within(&self, limits: &BTreeMap<Text, u32>) -> bool {
        limits.iter().all(|(driver, limit)| self.used(driver) <= *limit)
    }

    /// Whether one pod can have these volumes attached here.
    pub fn admits(&self, demands: &[VolumeDemand]) -> bool {
        self.limits.iter().all(|(driver, limit)| {
            let of_driver = demands.iter().filter(|demand| demand.driver.as_ref() == Some(driver));
            let new: BTreeSet<&Text> = of_driver
                .map(|demand| &demand.claim)
                .filter(|claim| !self.shared.contains_key(&(driver.clone(), (*claim).clone())))
                .collect();
            new.is_empty() || self.used(driver).saturating_add(count(new.iter())) <= *limit
        })
    }

    /// How many pods of the class can have their volumes attached here.
    pub(crate) fn room(&self, class: &Class) -> u32 {
        let volumes = &class.volumes;
        let mut room = u32::MAX;
        for (driver, limit) in &self.limits {
            let newly_shared = count(
                volumes
                    .shared
                    .iter()
                    .filter(|volume| volume.0 == *driver && !self.shared.contains_key(volume)),
            );
            let own = volumes.own.get(driver).copied().unwrap_or(0);
            if own == 0 && newly_shared == 0 {
                continue;
            }
            let left = limit.saturating_sub(self.used(driver));
            room = room.min(match left.checked_sub(newly_shared) {
                None => 0,
                Some(left) if own > 0 => left / own,
                Some(_) => u32::MAX,
            });
        }
        room
    }

    pub(crate) fn attach(&mut self, class: &Class, pods: u32) {
        for (driver, volumes) in &class.volumes.own {
            *self.own.entry(driver.clone()).or_insert(0) += volumes * pods;
        }
        for (driver, claim) in &class.volumes.shared {
            self.attach_claim(driver, claim, pods);
        }
    }

    pub(crate) fn detach(&mut self, class: &Class, pods: u32) {
        for (driver, volumes) in &class.volumes.own {
            if let Some(attached) = self.own.get_mut(driver) {
                *attached = attached.saturating_sub(volumes * pods);
            }
        }
        for volume in &class.volumes.shared {
            if let Some(users) = self.shared.get_mut(volume) {
                *users = users.saturating_sub(pods);
                if *users == 0 {
                    self.shared.remove(volume);
                }
            }
        }
    }

    pub fn attach_claim(&mut self, driver: &Text, claim: &Text, pods: u32) {
        *self.shared.entry((driver.clone(), claim.clone())).or_insert(0) += pods;
    }
}

fn count<T>(items: impl Iterator<Item = T>) -> u32 {
    u32::try_from(items.count()).unwrap_or(u32::MAX)
}

impl Host {
    pub(crate) fn planned(
        cell_index: usize,
        cell: &Cell,
        candidate: usize,
        limits: BTreeMap<Text, u32>,
    ) -> Self {
        Self {
            origin: HostOrigin::Planned { cell: cell_index, candidate },
            free: cell.candidates[candidate].free.clone(),
            ports: cell.daemon_ports.clone(),
            volumes: AttachedVolumes::limited_to(limits),
            placed: Vec::new(),
            closed: false,
            arrivals: 0,
        }
    }

    /// How many pods of the class fit by resources, ports and volumes.
    pub(crate) fn room(&self, class: &Class) -> u32 {
        let by_resources = times_fitting(&class.requests, &self.free);
        if by_resources == 0 || (class.ports.is_empty() && !class.volumes.use_room()) {
            return by_resources;
        }
        if class.ports.iter().any(|port| self.ports.iter().any(|taken| taken.conflicts(port))) {
            return 0;
        }
        let by_ports = if class.ports.is_empty() { u32::MAX } else { 1 };
        by_resources.min(by_ports).min(self.volumes.room(class))
    }

    /// What the placed pods take of a planned host.
    pub(crate) fn load(&self, candidate: &Candidate) -> Amounts {
        candidate.free.iter().zip(&self.free).map(|(all, left)| all - left).collect()
    }
}

/// How many times `request` fits into `free`; only resources that are asked for matter.
pub(crate) fn times_fitting(request: &[i64], free: &[i64]) -> u32 {
    let mut times = i64::from(u32::MAX);
    for (asked, left) in request.iter().zip(free) {
        if *asked > 0 {
            if left < asked {
                return 0;
            }
            times = times.min(left / asked);
        }
    }
    u32::try_from(times).unwrap_or(u32::MAX)
}

pub(crate) fn fits(load: &[i64], free: &[i64]) -> bool {
    load.iter().zip(free).all(|(load, free)| *load <= 0 || load <= free)
}
