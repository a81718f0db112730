//! At most a hundred calls in any minute, shared so that nobody starves.
//!
//! `Window` is the rule, told the time. A call counts from when it is let go until a minute after it ended: it reached
//! VPSie somewhere in between, so no minute of VPSie's clock sees more than the rule allows, however slow the way is.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// What VPSie's own client allows itself.
const CALLS_MAX: usize = 100;
const MINUTE: Duration = Duration::from_mins(1);
/// So that lists and catalogs leave room for what cannot wait.
const POLLING_MAX: usize = 60;
/// What lists and catalogs have whatever else is going on: without them Berth would act blindly.
const POLLING_KEPT: usize = 10;

/// For what a call is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// Machines are bought, found again and ended.
    Acting,
    /// Lists, catalogs, notices.
    Polling,
}

#[derive(Debug, Default)]
struct Window {
    under_way: Vec<Lane>,
    /// In the order of their ends.
    ended: VecDeque<(Instant, Lane)>,
    acting_waits: usize,
}

impl Window {
    /// Lets a call go, or says when there may be room: `None` is once a call under way has ended.
    fn admit(&mut self, lane: Lane, now: Instant) -> Result<(), Option<Instant>> {
        while self.ended.front().is_some_and(|(end, _)| *end + MINUTE <= now) {
            self.ended.pop_front();
        }
        let polling = self.count(Some(Lane::Polling));
        let acting = self.count(Some(Lane::Acting));
        let has_room = polling + acting < CALLS_MAX
            && match lane {
                Lane::Acting => acting < CALLS_MAX - POLLING_KEPT,
                Lane::Polling => polling < POLLING_KEPT || (polling < POLLING_MAX && self.acting_waits == 0),
            };
        if !has_room {
            return Err(self.ended.front().map(|(end, _)| *end + MINUTE));
        }
        self.under_way.push(lane);
        Ok(())
    }

    fn count(&self, lane: Option<Lane>) -> usize {
        let counts = |of: &Lane| lane.is_none_or(|lane| lane == *of);
        let ended = self.ended.iter().filter(|(_, of)| counts(of)).count();
        ended + self.under_way.iter().filter(|of| counts(of)).count()
    }

    fn end(&mut self, lane: Lane, spent_at: Option<Instant>) {
        if let Some(place) = self.under_way.iter().position(|of| *of == lane) {
            self.under_way.swap_remove(place);
            self.ended.extend(spent_at.map(|now| (now, lane)));
        }
    }
}

#[derive(Debug, Default)]
struct Shared {
    window: Mutex<Window>,
    changed: Notify,
}

impl Shared {
    fn window(&self) -> MutexGuard<'_, Window> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Calls of one lane go in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Limiter {
    shared: Arc<Shared>,
    acting: tokio::sync::Mutex<()>,
    polling: tokio::sync::Mutex<()>,
}

impl Limiter {
    pub(super) async fn acquire(&self, lane: Lane) -> Permit {
        let (queue, _waiting) = match lane {
            Lane::Acting => (&self.acting, Some(Waiting::new(&self.shared))),
            Lane::Polling => (&self.polling, None),
        };
        let _turn = queue.lock().await;
        loop {
            // Made before looking, so that it hears of whatever ends after the look.
            let changed = self.shared.changed.notified();
            let admitted = self.shared.window().admit(lane, Instant::now());
            match admitted {
                Ok(()) => return Permit { shared: Arc::clone(&self.shared), lane, is_spent: true },
                Err(Some(at)) => tokio::select! {
                    () = sleep_until(at) => {}
                    () = changed => {}
                },
                Err(None) => changed.await,
            }
        }
    }
}

/// While it lives, acting waits and polling stands behind it.
struct Waiting<'s>(&'s Shared);

impl<'s> Waiting<'s> {
    fn new(shared: &'s Shared) -> Self {
        shared.window().acting_waits += 1;
        Self(shared)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.window().acting_waits -= 1;
        self.0.changed.notify_waiters();
    }
}

/// One call may be made. It ends when this is dropped, also when whoever made it was dropped.
#[derive(Debug)]
pub(super) struct Permit {
    shared: Arc<Shared>,
    lane: Lane,
    is_spent: bool,
}

impl Permit {
    /// Nothing was sent after all.
    pub(super) fn give_back(mut self) {
        self.is_spent = false;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let spent_at = self.is_spent.then(Instant::now);
        self.shared.window().end(self.lane, spent_at);
        self.shared.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many calls of a lane go at once, by what went before them and whether acting waits.
    #[tokio::test(start_paused = true)]
    async fn shares() {
        use Lane::{Acting, Polling};
        for (before, acting_waits, lane, expected) in [
            (vec![], 0, Acting, 90),
            (vec![], 0, Polling, 60),
            (vec![(Polling, 60)], 0, Acting, 40),
            (vec![(Acting, 90)], 0, Polling, 10),
            (vec![(Acting, 70)], 0, Polling, 30),
            (vec![(Acting, 70)], 1, Polling, 10),
            (vec![(Acting, 90), (Polling, 10)], 0, Acting, 0),
        ] {
            let now = Instant::now();
            let mut window = Window { acting_waits, ..Window::default() };
            for (lane, count) in &before {
                for _ in 0..*count {
                    window.admit(*lane, now).unwrap();
                    window.end(*lane, Some(now));
                }
            }
            let went = (0..200).filter(|_| window.admit(lane, now).is_ok()).count();
            assert_eq!(went, expected, "{lane:?} after {before:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn no_minute_has_more_than_a_hundred() {
        let limiter = Arc::new(Limiter::default());
        let went: Arc<Mutex<Vec<(Instant, Lane)>>> = Arc::default();
        let calls = (0..400u64).map(|n| {
            let (limiter, went) = (Arc::clone(&limiter), Arc::clone(&went));
            let lane = if n.is_multiple_of(2) { Lane::Acting } else { Lane::Polling };
            tokio::spawn(async move {
                let permit = limiter.acquire(lane).await;
                // It takes its time to get there.
                tokio::time::sleep(Duration::from_millis(n * 37 % 900)).await;
                went.lock().unwrap().push((Instant::now(), lane));
                drop(permit);
            })
        });
        for call in calls.collect::<Vec<_>>() {
            call.await.unwrap();
        }
        let mut went = went.lock().unwrap().clone();
        went.sort_unstable();
        assert_eq!(went.len(), 400);
        for (n, (at, _)) in went.iter().enumerate() {
            let within = went[n..].iter().take_while(|(later, _)| *later < *at + MINUTE).count();
            assert!(within <= CALLS_MAX, "{within} within a minute");
        }
        let first_minute = went.iter().take_while(|(at, _)| *at < went[0].0 + MINUTE);
        let polling = first_minute.filter(|(_, lane)| *lane == Lane::Polling).count();
        assert!(polling >= POLLING_KEPT, "polling starved: {polling}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_not_sent_does_not_count() {
        let limiter = Limiter::default();
        for _ in 0..500 {
            limiter.acquire(Lane::Acting).await.give_back();
        }
        assert_eq!(limiter.shared.window().count(None), 0);
    }
}
