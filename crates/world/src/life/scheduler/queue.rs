//! Whose turn it is: by priority, then by when it came. Who found no place waits until something changes that could
//! help, and longer each time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::filter::Concerns;
use crate::store::Key;

const BACKOFF_FIRST: SignedDuration = SignedDuration::from_secs(1);
const BACKOFF_MOST: SignedDuration = SignedDuration::from_secs(10);

/// After so long a pod is tried again, whatever has happened.
const PATIENCE: SignedDuration = SignedDuration::from_mins(5);

#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: BTreeMap<Key, Waiting>,
    active: BTreeSet<(Reverse<i32>, Timestamp, u64, Key)>,
    /// When which is ready again.
    resting: BTreeSet<(Timestamp, Key)>,
    /// Since when which has had no prospect.
    parked: BTreeSet<(Timestamp, Key)>,
    entered: u64,
    /// Somebody's turn may come earlier than was thought.
    has_news: bool,
}

#[derive(Clone, Debug)]
struct Waiting {
    priority: i32,
    /// When it entered, and as which.
    since: Timestamp,
    number: u64,
    attempts: u32,
    concerns: Concerns,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Active,
    Resting {
        until: Timestamp,
    },
    Parked,
    /// Being tried.
    Tried,
    /// Held back by its gates.
    Held,
}

impl Queue {
    /// A pod waits; one that is known is tried again if it asks for something else.
    pub(super) fn put(&mut self, key: &Key, priority: i32, asks_anew: bool, now: Timestamp) {
        match self.waiting.get(key) {
            Some(known) if asks_anew && !matches!(known.state, State::Active) => {
                let known = Waiting { priority, ..known.clone() };
                self.unlist(key);
                let ready = ready_at(&known);
                self.waiting.insert(key.clone(), known);
                self.list(key, if ready <= now { State::Active } else { State::Resting { until: ready } });
            }
            Some(known) if known.priority != priority => {
                let state = known.state;
                self.unlist(key);
                if let Some(known) = self.waiting.get_mut(key) {
                    known.priority = priority;
                }
                self.list(key, state);
            }
            Some(_) => {}
            None => {
                self.entered += 1;
                let waiting = Waiting {
                    priority,
                    since: now,
                    number: self.entered,
                    attempts: 0,
                    concerns: Concerns::default(),
                    state: State::Active,
                };
                self.waiting.insert(key.clone(), waiting);
                self.list(key, State::Active);
            }
        }
    }

    pub(super) fn remove(&mut self, key: &Key) {
        self.unlist(key);
        self.waiting.remove(key);
    }

    /// The next to be tried.
    pub(super) fn pop(&mut self, now: Timestamp) -> Option<Key> {
        self.ripen(now);
        let (.., key) = self.active.first()?.clone();
        self.unlist(&key);
        self.list(&key, State::Tried);
        if let Some(waiting) = self.waiting.get_mut(&key) {
            waiting.attempts = waiting.attempts.saturating_add(1);
        }
        Some(key)
    }

    /// It found no place, and these could help it.
    pub(super) fn park(&mut self, key: &Key, concerns: Concerns, now: Timestamp) {
        self.unlist(key);
        if let Some(waiting) = self.waiting.get_mut(key) {
            waiting.since = now;
            waiting.concerns = concerns;
            self.list(key, State::Parked);
        }
    }

    /// It is held back by itself.
    pub(super) fn hold(&mut self, key: &Key) {
        self.unlist(key);
        self.list(key, State::Held);
        if let Some(waiting) = self.waiting.get_mut(key) {
            waiting.attempts = 0;
        }
    }

    /// What was to be done about it was not done.
    pub(super) fn rest(&mut self, key: &Key, now: Timestamp) {
        let Some(waiting) = self.waiting.get_mut(key).filter(|waiting| waiting.state == State::Tried) else {
            return;
        };
        waiting.since = now;
        let until = ready_at(waiting);
        self.unlist(key);
        self.list(key, State::Resting { until });
    }

    /// Something happened that could help.
    pub(super) fn wake(&mut self, concerns: Concerns, now: Timestamp) {
        let helped =
            |key: &&Key| self.waiting.get(*key).is_some_and(|waiting| waiting.concerns.share(concerns));
        let keys: Vec<Key> = self.parked.iter().map(|(_, key)| key).filter(helped).cloned().collect();
        for key in keys {
            self.ready(&key, now);
        }
    }

    /// Those whose time has come are ready.
    fn ripen(&mut self, now: Timestamp) {
        while let Some((_, key)) = self.resting.first().cloned().filter(|(until, _)| *until <= now) {
            self.unlist(&key);
            self.list(&key, State::Active);
        }
        while let Some((_, key)) =
            self.parked.first().cloned().filter(|(since, _)| after(*since, PATIENCE) <= now)
        {
            self.ready(&key, now);
        }
    }

    /// It is tried again as soon as it has rested.
    pub(super) fn ready(&mut self, key: &Key, now: Timestamp) {
        let Some(ready) = self.waiting.get(key).map(ready_at) else { return };
        self.unlist(key);
        self.list(key, if ready <= now { State::Active } else { State::Resting { until: ready } });
    }

    /// When somebody is to be tried next, unless something happens.
    pub(super) fn next(&self, now: Timestamp) -> Option<Timestamp> {
        if !self.active.is_empty() {
            return Some(now);
        }
        let rested = self.resting.first().map(|(until, _)| *until);
        let patient = self.parked.first().map(|(since, _)| after(*since, PATIENCE));
        rested.into_iter().chain(patient).min()
    }

    /// Whether there is more to do, or sooner, than when this was asked last.
    pub(super) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.has_news)
    }

    fn list(&mut self, key: &Key, state: State) {
        let Some(waiting) = self.waiting.get_mut(key) else { return };
        waiting.state = state;
        self.has_news |= !matches!(state, State::Tried | State::Held);
        match state {
            State::Active => {
                let place = (Reverse(waiting.priority), waiting.since, waiting.number, key.clone());
                self.active.insert(place);
            }
            State::Resting { until } => {
                self.resting.insert((until, key.clone()));
            }
            State::Parked => {
                self.parked.insert((waiting.since, key.clone()));
            }
            State::Tried | State::Held => {}
        }
    }

    fn unlist(&mut self, key: &Key) {
        let Some(waiting) = self.waiting.get(key) else { return };
        match waiting.state {
            State::Active => {
                let place = (Reverse(waiting.priority), waiting.since, waiting.number, key.clone());
                self.active.remove(&place);
            }
            State::Resting { until } => {
                self.resting.remove(&(until, key.clone()));
            }
            State::Parked => {
                self.parked.remove(&(waiting.since, key.clone()));
            }
            State::Tried | State::Held => {}
        }
    }
}

fn after(time: Timestamp, wait: SignedDuration) -> Timestamp {
    time.checked_add(wait).unwrap_or(Timestamp::MAX)
}

/// Twice as long after each attempt, up to the most; at once before the first.
fn ready_at(waiting: &Waiting) -> Timestamp {
    let Some(doublings) = waiting.attempts.checked_sub(1) else { return waiting.since };
    let wait = BACKOFF_FIRST.saturating_mul(1 << doublings.min(10)).min(BACKOFF_MOST);
    after(waiting.since, wait)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key::new("pods", "default", name)
    }

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_second(secs).unwrap()
    }

    fn popped(queue: &mut Queue, secs: i64) -> String {
        queue.pop(at(secs)).map(|key| key.name().to_string()).unwrap_or_default()
    }

    #[test]
    fn priority_comes_first_then_time() {
        let mut queue = Queue::default();
        for (name, priority, secs) in [("a", 0, 1), ("b", 5, 2), ("c", 5, 2), ("d", 5, 1)] {
            queue.put(&key(name), priority, true, at(secs));
        }
        queue.remove(&key("c"));
        let order: Vec<String> = (0..4).map(|_| popped(&mut queue, 3)).collect();
        assert_eq!(order, ["d", "b", "a", ""]);
    }

    #[test]
    fn who_failed_rests_longer_each_time() {
        let mut queue = Queue::default();
        queue.put(&key("a"), 0, true, at(0));
        let mut now = 0;
        for wait in [1, 2, 4, 8, 10, 10] {
            assert_eq!(popped(&mut queue, now), "a");
            queue.park(&key("a"), Concerns::ROOM, at(now));
            queue.wake(Concerns::COMPANY, at(now));
            assert_eq!(queue.next(at(now)), Some(at(now + 300)), "what does not help");
            queue.wake(Concerns::ROOM, at(now));
            assert_eq!(queue.next(at(now)), Some(at(now + wait)));
            assert_eq!(popped(&mut queue, now + wait - 1), "");
            now += wait;
        }
    }

    #[test]
    fn nobody_waits_for_ever() {
        let mut queue = Queue::default();
        queue.put(&key("a"), 0, true, at(0));
        assert_eq!(popped(&mut queue, 0), "a");
        queue.park(&key("a"), Concerns::default(), at(0));
        assert_eq!(popped(&mut queue, 299), "");
        assert_eq!(popped(&mut queue, 300), "a");
        queue.rest(&key("a"), at(300));
        assert_eq!(popped(&mut queue, 301), "", "what was not done is tried again later");
        assert_eq!(popped(&mut queue, 302), "a");
        queue.hold(&key("a"));
        assert_eq!(queue.next(at(302)), None);
        queue.put(&key("a"), 0, true, at(304));
        assert_eq!(popped(&mut queue, 310), "a", "what asks anew is tried again");
    }
}
