//! At most a hundred calls in any minute, by all processes that follow each other, and shared so that nobody starves.
//!
//! `Window` is the rule, told the time. A call counts from when it is let go until a minute after it ended: it reached
//! VPSie somewhere in between, so no minute of VPSie's clock sees more than the rule allows, however slow the way is.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

const MINUTE: Duration = Duration::from_mins(1);
/// So long after one process came to lead, at the earliest, another may. By then nothing counts any more of what the one
/// before has asked, so that no minute has calls of three.
pub const SUCCESSION_MIN: Duration = Duration::from_secs(90);
/// Whoever has asked nothing for so long begins anew: another may have led meanwhile. Who leads asks at least once a minute.
const SILENCE_MAX: Duration = SUCCESSION_MIN;

/// How many calls there may be in a minute.
#[derive(Clone, Copy, Debug)]
struct Allowance {
    calls_max: usize,
    /// So that lists and catalogs leave room for what cannot wait.
    polling_max: usize,
    /// What lists and catalogs have whatever else is going on: without them Berth would act blindly.
    polling_kept: usize,
}

/// Of the hundred that VPSie's own client allows itself. The rest is for whoever takes over within the minute: nobody
/// knows how much a process that crashed, or lost the lead, has asked just before.
const STEADY: Allowance = Allowance { calls_max: 60, polling_max: 36, polling_kept: 10 };
/// That rest, in the first minute of a process: enough to sign in, see what there is and buy some nodes at once. Two that
/// follow each other stay within a hundred together, and a third does not lead before [`SUCCESSION_MIN`].
const BEGINNING: Allowance = Allowance { calls_max: 40, polling_max: 24, polling_kept: 8 };

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
    /// Since when it asks, without being silent for long.
    began: Option<Instant>,
    last_end: Option<Instant>,
}

impl Window {
    /// Lets a call go, or says when there may be room: `None` is once a call under way has ended.
    fn admit(&mut self, lane: Lane, now: Instant) -> Result<(), Option<Instant>> {
        let is_silent =
            self.under_way.is_empty() && self.last_end.is_some_and(|last| last + SILENCE_MAX <= now);
        if is_silent {
            self.began = None;
        }
        while self.ended.front().is_some_and(|(end, _)| *end + MINUTE <= now) {
            self.ended.pop_front();
        }
        let polling = self.count(Some(Lane::Polling));
        let acting = self.count(Some(Lane::Acting));
        let steady_at = *self.began.get_or_insert(now) + MINUTE;
        let Allowance { calls_max, polling_max, polling_kept } =
            if now < steady_at { BEGINNING } else { STEADY };
        let has_room = polling + acting < calls_max
            && match lane {
                Lane::Acting => acting < calls_max - polling_kept,
                Lane::Polling => polling < polling_kept || (polling < polling_max && self.acting_waits == 0),
            };
        if !has_room {
            let next = self.ended.front().map(|(end, _)| *end + MINUTE);
            return Err(if now < steady_at {
                Some(next.map_or(steady_at, |at| at.min(steady_at)))
            } else {
                next
            });
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
            self.last_end = self.last_end.max(spent_at);
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
        let free = queue.try_lock();
        let mut has_waited = free.is_err();
        let _turn = match free {
            Ok(turn) => turn,
            Err(_) => queue.lock().await,
        };
        loop {
            // Made before looking, so that it hears of whatever ends after the look.
            let changed = self.shared.changed.notified();
            let admitted = self.shared.window().admit(lane, Instant::now());
            match admitted {
                Ok(()) => {
                    return Permit { shared: Arc::clone(&self.shared), lane, has_waited, is_spent: true };
                }
                Err(Some(at)) => tokio::select! {
                    () = sleep_until(at) => {}
                    () = changed => {}
                },
                Err(None) => changed.await,
            }
            has_waited = true;
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
    has_waited: bool,
    is_spent: bool,
}

impl Permit {
    /// Whether it was to be had only after a while.
    pub(super) fn has_waited(&self) -> bool {
        self.has_waited
    }

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
            (vec![], 0, Acting, 50),
            (vec![], 0, Polling, 36),
            (vec![(Polling, 36)], 0, Acting, 24),
            (vec![(Acting, 50)], 0, Polling, 10),
            (vec![(Acting, 30)], 0, Polling, 30),
            (vec![(Acting, 30)], 1, Polling, 10),
            (vec![(Acting, 50), (Polling, 10)], 0, Acting, 0),
        ] {
            let began = Instant::now();
            let now = began + MINUTE;
            let mut window = Window { acting_waits, began: Some(began), ..Window::default() };
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

    /// How many calls go at once so many seconds after the first, and so many after the last.
    #[tokio::test(start_paused = true)]
    async fn whoever_begins_asks_little() {
        let now = Instant::now();
        for (first_ago, last_ago, expected) in
            [(0, 0, 31), (59, 1, 31), (60, 1, 49), (600, 89, 50), (600, 90, 32)]
        {
            let ago = |secs: u64| now - Duration::from_secs(secs);
            let mut window = Window { began: Some(ago(first_ago)), ..Window::default() };
            window.under_way.push(Lane::Acting);
            window.end(Lane::Acting, Some(ago(last_ago)));
            let went = (0..200).filter(|_| window.admit(Lane::Acting, now).is_ok()).count();
            assert_eq!(went, expected, "{first_ago} s after the first, {last_ago} s after the last");
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
            assert!(within <= STEADY.calls_max, "{within} within a minute");
        }
        let first_minute = went.iter().take_while(|(at, _)| *at < went[0].0 + MINUTE);
        assert_eq!(
            first_minute.clone().count(),
            BEGINNING.calls_max,
            "what another has asked before counts, too"
        );
        let polling = first_minute.filter(|(_, lane)| *lane == Lane::Polling).count();
        assert!(polling >= BEGINNING.polling_kept, "polling starved: {polling}");
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
