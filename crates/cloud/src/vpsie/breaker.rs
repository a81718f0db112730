//! Stops asking a VPSie that is down, and tries again with one call.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Fewer calls prove nothing.
const CALLS_MIN: usize = 10;
const WINDOW: Duration = Duration::from_mins(1);
const OPEN_FOR: Duration = Duration::from_secs(30);

/// What the breaker does with calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Lets all through.
    Closed,
    /// Refuses all.
    Open,
    /// Lets one through, to see.
    Probing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed,
    Open { probe_at: Instant },
    Probing,
}

/// The rule, told the time.
#[derive(Debug)]
struct Circuit {
    state: State,
    /// When calls ended, and whether they failed.
    ended: VecDeque<(Instant, bool)>,
}

impl Circuit {
    fn phase(&self) -> Phase {
        match self.state {
            State::Closed => Phase::Closed,
            State::Open { .. } => Phase::Open,
            State::Probing => Phase::Probing,
        }
    }

    /// Whether the call is the probe, or how long until there will be one.
    fn admit(&mut self, now: Instant) -> Result<bool, Duration> {
        match self.state {
            State::Closed => Ok(false),
            State::Open { probe_at } if now >= probe_at => {
                self.state = State::Probing;
                Ok(true)
            }
            State::Open { probe_at } => Err(probe_at - now),
            State::Probing => Err(Duration::ZERO),
        }
    }

    fn end(&mut self, is_probe: bool, failed: bool, now: Instant) {
        if is_probe {
            self.ended.clear();
            self.state = if failed { State::Open { probe_at: now + OPEN_FOR } } else { State::Closed };
            return;
        }
        self.ended.push_back((now, failed));
        while self.ended.front().is_some_and(|(end, _)| *end + WINDOW <= now) {
            self.ended.pop_front();
        }
        let failures = self.ended.iter().filter(|(_, failed)| *failed).count();
        if self.state == State::Closed && self.ended.len() >= CALLS_MIN && failures * 2 >= self.ended.len() {
            self.state = State::Open { probe_at: now + OPEN_FOR };
        }
    }

    /// The probe was given up before it ended: the next call is one.
    fn forget_probe(&mut self, now: Instant) {
        if self.state == State::Probing {
            self.state = State::Open { probe_at: now };
        }
    }
}

/// A change of phase: from and to.
pub(super) type Change = (Phase, Phase);

#[derive(Debug)]
pub(super) struct Breaker(Mutex<Circuit>);

impl Default for Breaker {
    fn default() -> Self {
        Self(Mutex::new(Circuit { state: State::Closed, ended: VecDeque::new() }))
    }
}

impl Breaker {
    fn circuit(&self) -> MutexGuard<'_, Circuit> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a call through, or says how long until the next probe.
    pub(super) fn admit(&self) -> Result<(Passage<'_>, Option<Change>), Duration> {
        let mut circuit = self.circuit();
        let before = circuit.phase();
        let is_probe = circuit.admit(Instant::now())?;
        Ok((Passage { breaker: self, is_probe, has_ended: false }, changed(before, circuit.phase())))
    }
}

fn changed(before: Phase, after: Phase) -> Option<Change> {
    (before != after).then_some((before, after))
}

/// One call that was let through.
#[derive(Debug)]
pub(super) struct Passage<'b> {
    breaker: &'b Breaker,
    is_probe: bool,
    has_ended: bool,
}

impl Passage<'_> {
    pub(super) fn end(mut self, failed: bool) -> Option<Change> {
        self.has_ended = true;
        let mut circuit = self.breaker.circuit();
        let before = circuit.phase();
        circuit.end(self.is_probe, failed, Instant::now());
        changed(before, circuit.phase())
    }
}

impl Drop for Passage<'_> {
    fn drop(&mut self) {
        if self.is_probe && !self.has_ended {
            self.breaker.circuit().forget_probe(Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    /// `x` a call that fails, `.` one that succeeds, `-` one that is given up, digits: so many seconds pass. What is
    /// refused is `!`. The answer has a letter for the phase after each.
    async fn play(script: &str) -> String {
        let breaker = Breaker::default();
        let mut phases = String::new();
        for act in script.chars() {
            if let Some(tens) = act.to_digit(10) {
                advance(Duration::from_secs(u64::from(tens) * 10)).await;
                continue;
            }
            let Ok((passage, _)) = breaker.admit() else {
                phases.push('!');
                continue;
            };
            match act {
                'x' => drop(passage.end(true)),
                '.' => drop(passage.end(false)),
                _ => drop(passage),
            }
            let phase = breaker.circuit().phase();
            phases.push(match phase {
                Phase::Closed => 'c',
                Phase::Open => 'o',
                Phase::Probing => 'p',
            });
        }
        phases
    }

    #[tokio::test(start_paused = true)]
    async fn scripts() {
        for (script, expected) in [
            ("xxxxxxxxx", "ccccccccc"),
            ("xxxxxxxxxx.", "ccccccccco!"),
            (".....xxxxx", "ccccccccco"),
            ("......xxxxx", "ccccccccccc"),
            ("......xxxxxx", "ccccccccccco"),
            ("xxxxx6xxxxx", "cccccccccc"),
            ("xxxxxxxxxx2.1.", "ccccccccco!c"),
            ("xxxxxxxxxx3..", "cccccccccocc"),
            ("xxxxxxxxxx3x.3.", "cccccccccoo!c"),
            ("xxxxxxxxxx3-.", "cccccccccooc"),
        ] {
            assert_eq!(play(script).await, expected, "{script}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_probe_at_a_time() {
        let breaker = Breaker::default();
        for _ in 0..10 {
            let (passage, _) = breaker.admit().unwrap();
            passage.end(true);
        }
        assert_eq!(breaker.admit().unwrap_err(), OPEN_FOR);
        advance(OPEN_FOR).await;
        let (probe, change) = breaker.admit().unwrap();
        assert_eq!(change, Some((Phase::Open, Phase::Probing)));
        assert!(breaker.admit().is_err());
        assert_eq!(probe.end(false), Some((Phase::Probing, Phase::Closed)));
        assert!(breaker.admit().is_ok());
    }
}
