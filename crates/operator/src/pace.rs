//! How often an API is asked.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// At most so many times a second in the long run, and so many at once after a pause.
#[derive(Debug)]
pub(crate) struct Pace {
    step: Duration,
    at_once: u32,
    /// When all that was let through would be over, one step after the other.
    over: Mutex<Option<Instant>>,
}

impl Pace {
    pub(crate) fn new(per_second: f64, at_once: u32) -> Self {
        let step = Duration::try_from_secs_f64(1.0 / per_second).unwrap_or(Duration::ZERO);
        Self { step, at_once: at_once.max(1), over: Mutex::new(None) }
    }

    /// Waits until it is one's turn.
    pub(crate) async fn turn(&self) {
        sleep_until(self.next(Instant::now())).await;
    }

    fn next(&self, now: Instant) -> Instant {
        let mut over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        let begin = over.unwrap_or(now).max(now);
        *over = Some(begin + self.step);
        let credit = self.step * (self.at_once - 1);
        begin.checked_sub(credit).map_or(now, |turn| turn.max(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_then_the_pace_is_kept() {
        let began = Instant::now() + Duration::from_hours(1);
        let pace = Pace::new(10.0, 3);
        let wait_ms = |at_ms: u64| {
            let now = began + Duration::from_millis(at_ms);
            (pace.next(now) - now).as_millis()
        };
        assert_eq!([0, 0, 0, 0, 0].map(wait_ms), [0, 0, 0, 100, 200]);
        // What was not used is saved up, but no more than that.
        assert_eq!([10_000, 10_000, 10_000, 10_000].map(wait_ms), [0, 0, 0, 100]);
    }
}
