//! The changes that packing is made of, each with all that follows from it: what is free, what is wanted, what
//! the rules count, what the pools have.

use crate::host::{Host, HostOrigin};
use crate::market::Amounts;
use crate::topology::HostId;

use super::moves::Change;
use super::open::leading;
use super::{Packer, Step};

impl Packer<'_> {
    pub(super) fn bind(&mut self, class: usize, level: usize, host: HostId, pods: u32) {
        self.put_on(class, host, pods);
        self.left[class] -= pods;
        self.hosts[host].arrivals += pods;
        self.steps.push(Step { class, host, pods, level });
        self.journal.push(Change::Bound { class, host, pods });
    }

    pub(super) fn put_on(&mut self, class_index: usize, host_id: HostId, pods: u32) {
        let class = &self.classes.all[class_index];
        let host = &mut self.hosts[host_id];
        let times = -i64::from(pods);
        add_times(&mut host.free, &class.requests, times);
        if let HostOrigin::Node(_) = host.origin {
            // On a planned host the room was taken off what is wanted when it was bought.
            add_times(&mut self.wanted, &class.requests, times);
        }
        host.ports.extend(class.ports.iter().cloned());
        host.volumes.attach(class, pods);
        match host.placed.iter_mut().find(|(class, _)| *class == class_index) {
            Some((_, count)) => *count += pods,
            None => host.placed.push((class_index, pods)),
        }
        for claim in &class.volumes.exclusive {
            *self.claims_held.entry(claim.clone()).or_insert(0) += pods;
        }
        self.topology.add(&class.appearance, host_id, pods);
        self.note_room(host_id);
    }

    pub(super) fn take_off(&mut self, class_index: usize, host_id: HostId, pods: u32) {
        let class = &self.classes.all[class_index];
        let host = &mut self.hosts[host_id];
        let times = i64::from(pods);
        add_times(&mut host.free, &class.requests, times);
        if let HostOrigin::Node(_) = host.origin {
            add_times(&mut self.wanted, &class.requests, times);
        }
        // The ports of one pod were added in one go, for however many: where pods share a host port no
        // more than one of them is on a host, unless they run there against the rules.
        for port in &class.ports {
            if let Some(index) = host.ports.iter().rposition(|taken| taken == port) {
                host.ports.remove(index);
            }
        }
        host.volumes.detach(class, pods);
        if let Some(index) = host.placed.iter().position(|(class, _)| *class == class_index) {
            host.placed[index].1 -= pods;
            if host.placed[index].1 == 0 {
                host.placed.swap_remove(index);
            }
        }
        for claim in &class.volumes.exclusive {
            if let Some(users) = self.claims_held.get_mut(claim) {
                *users -= pods;
                if *users == 0 {
                    self.claims_held.remove(claim);
                }
            }
        }
        self.topology.remove(&class.appearance, host_id, pods);
        self.note_room(host_id);
    }

    /// The host's free room has changed.
    pub(super) fn note_room(&mut self, host: HostId) {
        self.leading[host] = leading(&self.hosts[host]);
        self.fill_order.change(host);
    }

    pub(crate) fn buy(&mut self, cell_index: usize, candidate: usize) -> HostId {
        let cell = &self.market.cells[cell_index];
        let chosen = &cell.candidates[candidate];
        let limits = self.snapshot.pools[cell.pool].types[chosen.instance_type].volume_limits.clone();
        add_times(&mut self.wanted, &chosen.free, -1);
        self.ledger.buy(cell.pool, chosen);
        self.hosts_in_cell[cell_index] += 1;
        self.hosts.push(Host::planned(cell_index, cell, candidate, limits));
        self.leading.extend(self.hosts.last().map(leading));
        self.fill_order.change(self.hosts.len() - 1);
        self.topology.join(cell_index);
        self.journal.push(Change::Bought);
        self.hosts.len() - 1
    }

    pub(super) fn grow(&mut self, host: HostId, to: usize) {
        if let HostOrigin::Planned { candidate: from, .. } = self.hosts[host].origin {
            self.journal.push(Change::Grown { host, from });
            self.exchange(host, to);
        }
    }

    pub(super) fn exchange(&mut self, host_id: HostId, to: usize) {
        let HostOrigin::Planned { cell, candidate } = self.hosts[host_id].origin else { return };
        let cell_ref = &self.market.cells[cell];
        let (from_candidate, to_candidate) = (&cell_ref.candidates[candidate], &cell_ref.candidates[to]);
        self.ledger.exchange(cell_ref.pool, from_candidate, to_candidate);
        let host = &mut self.hosts[host_id];
        host.origin = HostOrigin::Planned { cell, candidate: to };
        host.volumes.limits =
            self.snapshot.pools[cell_ref.pool].types[to_candidate.instance_type].volume_limits.clone();
        for (dimension, free) in host.free.iter_mut().enumerate() {
            let more = to_candidate.free[dimension] - from_candidate.free[dimension];
            *free += more;
            self.wanted[dimension] -= more;
        }
        self.note_room(host_id);
    }
}

pub(crate) fn add_times(sum: &mut Amounts, amounts: &[i64], times: i64) {
    sum.iter_mut().zip(amounts).for_each(|(sum, amount)| *sum += amount * times);
}
