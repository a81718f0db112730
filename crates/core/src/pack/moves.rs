//! Taking pods off hosts and hosts out of the cluster, and undoing what did not work out.
//!
//! Whatever changes the packer is written to its journal, so that a trial can be taken back without a copy of
//! everything: most trials fail, and most fail early.

use crate::bound::float;
use crate::class::{Class, Level, Resident};
use crate::division::Portion;
use crate::host::HostOrigin;
use crate::topology::{HostId, Place};
use crate::units::Price;

use super::open::ByWeight;
use super::{Packer, add_times};

/// One change, with what it takes to undo it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    Bound {
        class: usize,
        host: HostId,
        pods: u32,
    },
    Unbound {
        class: usize,
        host: HostId,
        pods: u32,
    },
    /// The last host was bought.
    Bought,
    /// A planned host had another candidate.
    Grown {
        host: HostId,
        from: usize,
    },
    Left {
        host: HostId,
        was_closed: bool,
    },
}

/// What room counts for beside how well a pod lies along it, where pods are spread over what there is.
const ROOMINESS_WEIGHT: f64 = 0.1;

/// A point to go back to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    changes: usize,
    existing: usize,
    pub(crate) steps: usize,
    pub(crate) hosts: usize,
}

impl<'a> Packer<'a> {
    /// Pods are on their hosts from the start: no step brings them there.
    pub(crate) fn start_with(&mut self, homes: impl Iterator<Item = (usize, HostId, u32)>) {
        for (class, host, pods) in homes {
            self.bind(class, 0, host, pods);
            self.hosts[host].arrivals = 0;
        }
        self.steps.clear();
        self.journal.clear();
    }

    /// Takes what could not be placed out of account, so that only what is unbound from here on counts.
    pub(crate) fn set_aside_left(&mut self) -> Vec<u32> {
        let classes = self.classes;
        let left = std::mem::replace(&mut self.left, vec![0; classes.all.len()]);
        for (class, pods) in classes.all.iter().zip(&left) {
            add_times(&mut self.wanted, &class.requests, -i64::from(*pods));
        }
        left
    }

    /// Undoes [`Self::set_aside_left`].
    pub(crate) fn take_up_left(&mut self, left: &[u32]) {
        let classes = self.classes;
        for ((class, pods), slot) in classes.all.iter().zip(left).zip(&mut self.left) {
            add_times(&mut self.wanted, &class.requests, i64::from(*pods));
            *slot += pods;
        }
    }

    /// What a planned host costs: its price, and what its pool's nodes cost beyond theirs.
    pub(crate) fn price_of_planned(&self, host: HostId) -> Option<Price> {
        let HostOrigin::Planned { cell, candidate } = self.hosts[host].origin else { return None };
        let cell = &self.market.cells[cell];
        let chosen = &cell.candidates[candidate];
        let pool = &self.snapshot.pools[cell.pool];
        let price = pool.types[chosen.instance_type].offerings[chosen.offering].price;
        Some(price.plus(pool.node_cost))
    }

    /// A trial begins: what is planned so far is as settled as what exists.
    pub(crate) fn mark(&mut self) -> Mark {
        let mark = Mark {
            changes: self.journal.len(),
            existing: self.existing,
            steps: self.steps.len(),
            hosts: self.hosts.len(),
        };
        self.existing = self.hosts.len();
        self.growth_cursor = 0;
        mark
    }

    /// Takes pods off a host; they have to be placed again.
    pub(crate) fn unbind(&mut self, class: usize, host: HostId, pods: u32) {
        self.take_off(class, host, pods);
        self.left[class] += pods;
        self.journal.push(Change::Unbound { class, host, pods });
    }

    /// The host goes, and with it the pods that belong to it.
    pub(crate) fn leave(&mut self, host: HostId) {
        let was_closed = std::mem::replace(&mut self.hosts[host].closed, true);
        for resident in self.residents(host) {
            self.topology.remove_running(&resident.appearance, host, resident.terminating);
        }
        self.topology.leave(host);
        if let Some((pool, portion)) = self.portion_of(host) {
            self.ledger.leave(pool, portion);
        }
        self.journal.push(Change::Left { host, was_closed });
    }

    /// Everything as it was at the mark.
    pub(crate) fn undo(&mut self, mark: Mark) {
        while self.journal.len() > mark.changes {
            let Some(change) = self.journal.pop() else { break };
            match change {
                Change::Bound { class, host, pods } => {
                    self.take_off(class, host, pods);
                    self.left[class] += pods;
                    self.hosts[host].arrivals -= pods;
                    self.steps.pop();
                }
                Change::Unbound { class, host, pods } => {
                    self.put_on(class, host, pods);
                    self.left[class] -= pods;
                }
                Change::Bought => self.unbuy(),
                Change::Grown { host, from } => self.exchange(host, from),
                Change::Left { host, was_closed } => {
                    self.hosts[host].closed = was_closed;
                    for resident in self.residents(host) {
                        self.topology.add_running(&resident.appearance, host, resident.terminating);
                    }
                    self.topology.come_back(host);
                    if let Some((pool, portion)) = self.portion_of(host) {
                        self.ledger.stay(pool, portion);
                    }
                }
            }
        }
        self.existing = mark.existing;
    }

    /// Places what is left of these classes, in this order; whether all of it has found a place.
    pub(crate) fn place_all_of(&mut self, classes: &[usize], may_buy: bool) -> bool {
        self.may_buy = may_buy;
        let placed = self.place_until_stuck(classes);
        self.may_buy = true;
        placed
    }

    fn place_until_stuck(&mut self, classes: &[usize]) -> bool {
        loop {
            let mut progress = false;
            let mut waiting = false;
            for class in classes {
                let before = self.left[*class];
                if before == 0 {
                    continue;
                }
                self.place_class(*class);
                progress |= self.left[*class] < before;
                if self.left[*class] > 0 {
                    if !could_open(&self.classes.all[*class]) {
                        return false;
                    }
                    waiting = true;
                }
            }
            if self.may_buy {
                self.right_size();
            }
            if !waiting {
                return true;
            }
            if !progress {
                return false;
            }
        }
    }

    /// Spreads the class over the room there is, one pod to a host at a time, where it fits what is still free
    /// best: CPU-heavy pods go where much CPU is left over, so that no host fills up on one side.
    pub(super) fn fill_evenly(&mut self, class_index: usize, level: &Level) {
        let classes = self.classes;
        let class = &classes.all[class_index];
        while self.left[class_index] > 0 {
            let fitness = |host: HostId| (self.misalignment(&class.requests, &self.hosts[host].free), host);
            let mut open = ByWeight::new(self.hosts_with_room(class, level).map(fitness).collect());
            let before = self.left[class_index];
            let mut position = 0;
            while self.left[class_index] > 0 {
                let Some(host) = open.get(position, before as usize) else { break };
                self.bind_if_legal_at(class_index, level, host, 1);
                position += 1;
            }
            if self.left[class_index] == before {
                return;
            }
        }
    }

    /// How badly a request lies along what is free, and a little how much that is.
    fn misalignment(&self, request: &[i64], free: &[i64]) -> f64 {
        let (mut along, mut asked, mut room) = (0.0, 0.0, 0.0);
        for ((request, free), size) in request.iter().zip(free).zip(&self.typical) {
            let (request, free) = (float(*request) / size, float(*free) / size);
            along += request * free;
            asked += request * request;
            room += free * free;
        }
        if asked <= 0.0 || room <= 0.0 {
            return 0.0;
        }
        ROOMINESS_WEIGHT * room.sqrt() - along / (asked * room).sqrt()
    }

    /// Puts pods on a host one after the other, as far as what is required of them allows.
    pub(crate) fn bind_if_legal(&mut self, class_index: usize, host: HostId, pods: u32) -> u32 {
        let classes = self.classes;
        match classes.all[class_index].levels.last() {
            Some(level) => self.bind_if_legal_at(class_index, level, host, pods),
            None => 0,
        }
    }

    fn bind_if_legal_at(&mut self, class_index: usize, level: &Level, host: HostId, pods: u32) -> u32 {
        let classes = self.classes;
        let class = &classes.all[class_index];
        if !self.host_admits(level, host) || self.hosts[host].closed {
            return 0;
        }
        let mut bound = 0;
        while bound < pods && !self.claim_is_held(class) {
            let Ok(allowed) = self.topology.room(&level.rules, &class.appearance, Place::Host(host)) else {
                break;
            };
            let mut now = allowed.min(self.hosts[host].room(class)).min(pods - bound);
            if !class.volumes.exclusive.is_empty() {
                now = now.min(1);
            }
            if now == 0 {
                break;
            }
            self.bind(class_index, class.levels.len() - 1, host, now);
            bound += now;
        }
        bound
    }

    fn residents(&self, host: HostId) -> &'a [Resident] {
        let residents = &self.classes.residents;
        let first = residents.partition_point(|resident| resident.host < host);
        let end = residents.partition_point(|resident| resident.host <= host);
        &residents[first..end]
    }

    pub(crate) fn pool_of(&self, host: HostId) -> Option<usize> {
        match self.hosts[host].origin {
            HostOrigin::Node(node) => {
                let name = self.snapshot.nodes[node].pool.as_ref()?;
                self.snapshot.pools.iter().position(|pool| pool.name == *name)
            }
            HostOrigin::Planned { cell, .. } => Some(self.market.cells[cell].pool),
        }
    }

    fn portion_of(&self, host: HostId) -> Option<(usize, Portion)> {
        let pool = self.pool_of(host)?;
        let portion = match self.hosts[host].origin {
            HostOrigin::Node(node) => {
                Portion::of_node(&self.snapshot.pools[pool], &self.snapshot.nodes[node])
            }
            HostOrigin::Planned { cell, candidate } => self.market.cells[cell].candidates[candidate].portion,
        };
        Some((pool, portion))
    }

    fn unbuy(&mut self) {
        let Some(host) = self.hosts.pop() else { return };
        self.leading.pop();
        self.fill_order.change(self.hosts.len());
        self.growable.pop_if(|last| *last == self.hosts.len());
        let HostOrigin::Planned { cell, candidate } = host.origin else { return };
        let cell_ref = &self.market.cells[cell];
        let chosen = &cell_ref.candidates[candidate];
        self.ledger.give_back(cell_ref.pool, chosen);
        self.hosts_in_cell[cell] -= 1;
        self.topology.part(cell);
        add_times(&mut self.wanted, &chosen.free, 1);
    }
}

/// Whether a place that is closed to the class may open because of pods that are placed after it.
fn could_open(class: &Class) -> bool {
    class
        .levels
        .last()
        .is_some_and(|level| !level.rules.affinity.is_empty() || !level.rules.spread.is_empty())
        || !class.volumes.exclusive.is_empty()
}
