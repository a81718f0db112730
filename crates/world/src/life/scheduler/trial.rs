//! One node tried for one pod, with pods put there and taken away as if it were so.

use berth_core::neighbours::Presence;

use super::cache::{Host, PodId, Slot};
use super::filter::{Refusal, Seeker};
use super::outlook::{Fixed, Outlook};

/// A node as it would be. Whatever is put there or taken away must be undone with [`Trial::restore`].
#[derive(Debug)]
pub(super) struct Trial<'a> {
    seeker: Seeker<'a>,
    outlook: &'a mut Outlook,
    slot: Slot,
    host: Host,
    /// What is not as it is, and whether it is there now.
    changed: Vec<(PodId, bool)>,
}

/// Whether the pod may go to a node as it is, also if pods come that are meant for it and matter no less.
pub(super) fn refusal(seeker: Seeker<'_>, outlook: &mut Outlook, slot: Slot) -> Option<Refusal> {
    let fixed = outlook.fixed.get(slot).copied().unwrap_or(Fixed::NoNode);
    let host = seeker.cache.host(slot)?;
    let as_it_is = seeker.refusal(slot, host, fixed, &outlook.neighbours);
    if as_it_is.is_some() || !seeker.cache.has_nominated() || seeker.expected(slot).is_empty() {
        return as_it_is;
    }
    let mut trial = Trial::new(seeker, outlook, slot)?;
    let refusal = trial.refusal();
    trial.restore();
    refusal
}

impl Seeker<'_> {
    /// Pods that are meant for a node and come before this one, or with it.
    fn expected(&self, slot: Slot) -> Vec<PodId> {
        let priority = self.class.spec.priority;
        let comes_first = |id: &PodId| {
            let other = self.cache.class_of(*id).map(|class| class.spec.priority);
            *id != self.id && other.is_some_and(|other| other >= priority)
        };
        self.cache.nominated(slot).filter(comes_first).collect()
    }
}

impl<'a> Trial<'a> {
    pub(super) fn new(seeker: Seeker<'a>, outlook: &'a mut Outlook, slot: Slot) -> Option<Self> {
        let host = seeker.cache.host(slot)?.clone();
        Some(Self { seeker, outlook, slot, host, changed: Vec::new() })
    }

    pub(super) fn put(&mut self, id: PodId) {
        self.change(id, true);
        self.note(id, true);
    }

    pub(super) fn take(&mut self, id: PodId) {
        self.change(id, false);
        self.note(id, false);
    }

    fn note(&mut self, id: PodId, there: bool) {
        match self.changed.iter().position(|(changed, _)| *changed == id) {
            Some(index) => {
                self.changed.swap_remove(index);
            }
            None => self.changed.push((id, there)),
        }
    }

    pub(super) fn restore(mut self) {
        for (id, there) in std::mem::take(&mut self.changed) {
            self.change(id, !there);
        }
    }

    fn change(&mut self, id: PodId, there: bool) {
        let cache = self.seeker.cache;
        let (Some(pod), Some(class)) = (cache.pod(id), cache.class_of(id)) else { return };
        let presence: Presence = self.outlook.presence(cache.seen(self.seeker.class), cache.seen(class));
        if there {
            self.host.add(id, class);
            self.outlook.neighbours.add(&presence, self.slot, pod.terminating);
        } else {
            self.host.remove(id, class);
            self.outlook.neighbours.remove(&presence, self.slot, pod.terminating);
        }
    }

    /// Whether the pod may go there as things would be, with and without those that are expected.
    pub(super) fn refusal(&mut self) -> Option<Refusal> {
        let expected = self.seeker.expected(self.slot);
        for id in &expected {
            self.change(*id, true);
        }
        let with_all = if expected.is_empty() { None } else { self.judge() };
        for id in &expected {
            self.change(*id, false);
        }
        with_all.or_else(|| self.judge())
    }

    fn judge(&self) -> Option<Refusal> {
        let fixed = self.outlook.fixed.get(self.slot).copied().unwrap_or(Fixed::NoNode);
        self.seeker.refusal(self.slot, &self.host, fixed, &self.outlook.neighbours)
    }
}
