//! What a look tries, in this order: nodes that must go, empty ones, what fits into room, what is better bought
//! anew.

use super::trial::{Group, Trial};
use super::{Pass, spent};
use crate::bound;
use crate::disruption::{DisruptionReason, Leaving};
use crate::reason::Refusal;
use crate::safety::is_forced;
use crate::topology::HostId;

/// Up to so many nodes every number of them is tried, beyond that halves.
const SMALL_SET: usize = 8;
/// Beyond so many nodes a set costs so much to try that it must promise more.
const LARGE_SET: usize = 64;
/// In percent, beside [`UNREACHABLE_PERCENT`].
const LARGE_SET_MARGIN_PERCENT: i64 = 2;
/// How many times a set is taken before only single nodes are looked at.
const SETS_TAKEN_MAX: usize = 3;
/// After how many nodes that are not worth replacing alone no more are tried: they come in the order of what
/// they promise.
const ALONE_FAILED_MAX: usize = 8;

impl Pass<'_> {
    /// Drifted, expired and unhealthy nodes, and those beyond what their pool should have, go whatever it saves, as long as their pods find a place.
    pub(super) fn empty_forced(&mut self) {
        let urgency = |reason: DisruptionReason| match reason {
            DisruptionReason::Unhealthy => 0,
            DisruptionReason::Expired => 1,
            _ => 2,
        };
        let mut forced: Vec<usize> =
            (0..self.candidates.len()).filter(|index| is_forced(self.candidates[*index].reason)).collect();
        forced.sort_by_key(|index| {
            let candidate = &self.candidates[*index];
            (urgency(candidate.reason), candidate.cost, candidate.node)
        });
        let set = self.affordable(&forced, Leaving::Replaced);
        if let Some(trial) = self.try_out(&set, true) {
            self.accept(trial);
        } else {
            for index in set {
                match self.try_out(&[index], true) {
                    Some(trial) => self.accept(trial),
                    None => self.refuse_for_room(index),
                }
            }
        }
        self.replace_foreseen();
        self.reopen();
    }

    /// Nodes that went in the end when this cluster was looked at before go at once, as far as that pays.
    fn replace_foreseen(&mut self) {
        let foreseen: Vec<usize> = (0..self.candidates.len())
            .filter(|index| self.candidates[*index].foreseen && !self.candidates[*index].removed)
            .collect();
        let set = self.affordable(&foreseen, Leaving::Replaced);
        if let Some(trial) = self.try_paying(&set) {
            self.accept(trial);
        }
    }

    /// What stays after all takes pods again, those first that have waited for it.
    fn reopen(&mut self) {
        let mut reopened = false;
        for candidate in
            self.candidates.iter().filter(|candidate| candidate.is_barred() && !candidate.removed)
        {
            self.packer.hosts[candidate.host].closed = false;
            reopened = true;
        }
        if reopened && self.left.iter().any(|left| *left > 0) {
            let first = self.packer.steps.len();
            self.packer.take_up_left(&self.left);
            let classes: Vec<usize> = self.packer.order.clone();
            self.packer.mark();
            for class in classes {
                self.packer.place_all_of(&[class], true);
            }
            self.record_waiting(first);
            self.left = self.packer.set_aside_left();
        }
    }

    pub(super) fn remove_empty(&mut self) {
        for index in 0..self.candidates.len() {
            let is_empty = self.candidates[index].reason == DisruptionReason::Empty;
            if is_empty && self.may_still_go(index) && self.may_go_for_good(index) {
                self.remove_alone(index);
            }
        }
    }

    /// Empties nodes into the room of the others: as many at once as find room, then one by one.
    pub(super) fn remove_into_room(&mut self) {
        let worthwhile: Vec<usize> = (0..self.candidates.len())
            .filter(|index| self.candidates[*index].reason == DisruptionReason::Underutilized)
            .filter(|index| self.may_still_go(*index) && self.may_go_for_good(*index))
            .filter(|index| self.worth_deleting(*index).is_ok())
            .collect();
        let set = self.affordable(&worthwhile, Leaving::ForGood);
        if let Some(trial) = self.largest_that_fits(&set) {
            self.accept(trial);
        }
        for index in worthwhile {
            if self.may_still_go(index) {
                self.remove_alone(index);
            }
        }
    }

    /// The most of the nodes, in their order, whose pods find room together on the others.
    fn largest_that_fits(&mut self, set: &[usize]) -> Option<Trial> {
        let most = self.room_for(set);
        if most < 2 {
            return None;
        }
        let (mut fits, mut too_many) = (0, most + 1);
        // Rooms are never filled to the brim: what is a little below the sum of them comes first.
        let mut size = most - most / 16;
        while too_many - fits > most / 256 + 1 {
            match self.try_out(&set[..size], false) {
                Some(trial) => {
                    self.packer.undo(trial.mark);
                    fits = size;
                }
                None => too_many = size,
            }
            size = fits.midpoint(too_many).max(1);
        }
        self.try_out(&set[..fits], false)
    }

    /// How many of the nodes, in their order, could go if only the sum of the room counted.
    fn room_for(&self, set: &[usize]) -> usize {
        let mut free: Vec<i128> = vec![0; self.prepared.dimensions.len()];
        let open = self.packer.hosts.iter().filter(|host| !host.closed);
        for host in open {
            free.iter_mut().zip(&host.free).for_each(|(sum, free)| *sum += i128::from((*free).max(0)));
        }
        let used = |index: usize| {
            let host = self.candidates[index].host;
            let classes = &self.homes.on_host[host];
            let mut used: Vec<i128> = vec![0; free.len()];
            for (class, pods) in classes {
                bound::add_demand(&mut used, &self.prepared.classes.all[*class].requests, pods.len());
            }
            used
        };
        let mut left = free.clone();
        for (taken, index) in set.iter().enumerate() {
            let host = &self.packer.hosts[self.candidates[*index].host];
            for ((left, used), own) in left.iter_mut().zip(used(*index)).zip(&host.free) {
                *left -= used + i128::from((*own).max(0));
            }
            if left.iter().any(|left| *left < 0) {
                return taken;
            }
        }
        set.len()
    }

    /// Takes one node away if its pods find room on the others and it pays.
    fn remove_alone(&mut self, index: usize) {
        if let Err(refusal) = self.worth_deleting(index) {
            self.refuse(index, refusal);
            return;
        }
        let mut allowances = self.allowances.clone();
        if let Err(reason) =
            allowances.take(&self.safety.nodes[self.candidates[index].node], Leaving::ForGood)
        {
            self.refuse(index, spent(reason));
            return;
        }
        match self.try_out(&[index], false) {
            Some(trial) => self.accept(trial),
            None => self.refuse_for_room(index),
        }
    }

    /// Buys anew for sets of nodes that are dearer than what their pods need.
    pub(super) fn replace_sets(&mut self) {
        for _ in 0..SETS_TAKEN_MAX {
            let promising: Vec<usize> =
                (0..self.candidates.len()).filter(|index| self.promises_saving(*index)).collect();
            let set = self.affordable(&promising, Leaving::Replaced);
            let Some(trial) = self.paying_set(&set) else { break };
            self.accept(trial);
        }
    }

    /// Buys anew for single nodes, the most promising first, until that has failed often enough.
    pub(super) fn replace_alone(&mut self) {
        let mut failed = 0;
        for index in 0..self.candidates.len() {
            if failed < ALONE_FAILED_MAX
                && self.candidates[index].reason == DisruptionReason::Underutilized
                && self.may_still_go(index)
                && !self.replace_one(index)
            {
                failed += 1;
            }
        }
    }

    /// Whether the node goes.
    fn replace_one(&mut self, index: usize) -> bool {
        let node = self.candidates[index].node;
        if let Err(reason) = self.allowances.clone().take(&self.safety.nodes[node], Leaving::Replaced) {
            self.refuse(index, spent(reason));
            return false;
        }
        let mut outcome = self.replacing_trial(index);
        if outcome.is_err() && !self.may_go_for_good(index) {
            // What keeps it from being replaced without the others says more than what does with them.
            if let apart @ (Ok(_) | Err(Some(_))) = self.replacing_trial_apart(index) {
                outcome = apart;
            }
        }
        match outcome {
            Ok(trial) => {
                self.accept(trial);
                return true;
            }
            Err(Some(refusal)) => self.refuse(index, refusal),
            Err(None) => self.refuse_for_room(index),
        }
        false
    }

    /// A trial that pays, or why it does not; without a word if its pods fit nowhere.
    fn replacing_trial(&mut self, index: usize) -> Result<Trial, Option<Refusal>> {
        let trial = self.try_out(&[index], true).ok_or(None)?;
        match self.pays(&trial) {
            Ok(_) => Ok(trial),
            Err((_, refusal)) => {
                self.packer.undo(trial.mark);
                Err(Some(refusal))
            }
        }
    }

    /// The same with all of its pods on what is bought for them. Room on others is of no use to a node that must not go for
    /// that.
    fn replacing_trial_apart(&mut self, index: usize) -> Result<Trial, Option<Refusal>> {
        let own = self.candidates[index].host;
        let hosts = self.packer.hosts.iter().enumerate();
        let others = hosts.filter(|(host, open)| *host != own && !open.closed).map(|(host, _)| host);
        let others: Vec<HostId> = others.collect();
        for host in &others {
            self.packer.hosts[*host].closed = true;
        }
        let outcome = self.replacing_trial(index);
        for host in &others {
            self.packer.hosts[*host].closed = false;
        }
        outcome
    }

    /// Empties the nodes whether or not it pays: to see what it would take.
    pub(super) fn empty_regardless(&mut self) {
        for index in 0..self.candidates.len() {
            if self.candidates[index].removed {
                continue;
            }
            match self.try_out(&[index], true) {
                Some(trial) => {
                    let refusal = self.pays(&trial).err().map(|(_, refusal)| refusal);
                    self.accept(trial);
                    self.refusals[self.candidates[index].node] = refusal;
                }
                None => self.refuse_for_room(index),
            }
        }
    }

    /// The largest set of the first so many nodes that pays; among few nodes the one that pays most.
    fn paying_set(&mut self, set: &[usize]) -> Option<Trial> {
        let mut size = set.len();
        while size > SMALL_SET {
            if (size <= LARGE_SET || self.promises_much(&set[..size]))
                && let Some(trial) = self.try_paying(&set[..size])
            {
                return Some(trial);
            }
            size /= 2;
        }
        let mut best: Option<(i64, usize)> = None;
        for size in (2..=size).rev() {
            let Some(trial) = self.try_paying(&set[..size]) else { continue };
            let net = self.pays(&trial).unwrap_or(0);
            self.packer.undo(trial.mark);
            if best.is_none_or(|(most, _)| net > most) {
                best = Some((net, size));
            }
        }
        best.and_then(|(_, size)| self.try_paying(&set[..size]))
    }

    /// Tries the set, or the part of it that pays; nothing has changed if none does.
    fn try_paying(&mut self, set: &[usize]) -> Option<Trial> {
        let trial = self.try_out(set, true)?;
        let Err((paying, _)) = self.pays(&trial) else { return Some(trial) };
        self.packer.undo(trial.mark);
        if paying.is_empty() {
            return None;
        }
        let trial = self.try_out(&paying, true)?;
        if self.pays(&trial).is_ok() {
            return Some(trial);
        }
        self.packer.undo(trial.mark);
        None
    }

    /// Whether its pods could cost so much less that it pays, if all went well.
    fn promises_saving(&self, index: usize) -> bool {
        let candidate = &self.candidates[index];
        candidate.reason == DisruptionReason::Underutilized
            && self.may_still_go(index)
            && candidate.waste >= self.judge.least_saving(candidate.price, candidate.cost)
    }

    /// Whether a large set promises so much that it is worth trying.
    fn promises_much(&self, set: &[usize]) -> bool {
        let promised = |index: &usize| {
            let candidate = &self.candidates[*index];
            candidate.waste
                - candidate.price.micro_usd() * LARGE_SET_MARGIN_PERCENT / 100
                - self.judge.least_saving(candidate.price, candidate.cost)
        };
        set.iter().map(promised).sum::<i64>() > 0
    }

    fn worth_deleting(&self, index: usize) -> Result<i64, Refusal> {
        self.judge.judge(&self.costs(&Group { candidates: vec![index], bought: Vec::new() }))
    }

    /// Still there, and nothing has been put on it.
    fn may_still_go(&self, index: usize) -> bool {
        let candidate = &self.candidates[index];
        !candidate.removed && self.packer.hosts[candidate.host].arrivals == 0
    }

    /// Whether the rules let it go with nothing bought for it.
    fn may_go_for_good(&self, index: usize) -> bool {
        self.safety.nodes[self.candidates[index].node].lets_go(Leaving::ForGood)
    }

    /// The nodes that budgets let go together, in their order.
    fn affordable(&mut self, indices: &[usize], leaving: Leaving) -> Vec<usize> {
        let mut allowances = self.allowances.clone();
        let mut set = Vec::new();
        for index in indices {
            match allowances.take(&self.safety.nodes[self.candidates[*index].node], leaving) {
                Ok(()) => set.push(*index),
                Err(reason) => self.refuse(*index, spent(reason)),
            }
        }
        set
    }
}
