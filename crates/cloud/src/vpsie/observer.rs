//! Who is told what the client does, so that it can be counted.

use std::fmt;
use std::time::Duration;

use super::breaker::Phase;
use super::limiter::Lane;

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    Status(u16),
    /// No answer came; the word is for a metric.
    Lost(&'static str),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<'e> {
    /// A request was sent.
    Called {
        method: &'e str,
        outcome: Outcome,
        took: Duration,
    },
    /// A request waited for its turn.
    Waited {
        method: &'e str,
        lane: Lane,
        took: Duration,
    },
    Breaker {
        from: Phase,
        to: Phase,
    },
    /// A request was not sent, because VPSie is taken to be down. It is asked again after so long; no time at all means that
    /// it is being asked.
    Withheld {
        method: &'e str,
        probe_in: Duration,
    },
    /// A token was fetched that is good for so long.
    SignedIn {
        lasts: Duration,
    },
    /// Other credentials were tried, and taken or not.
    Rotated {
        accepted: bool,
        took: Duration,
    },
    /// An answer has told whether the credentials that are in use are accepted.
    Recognized {
        accepted: bool,
    },
}

pub trait Observer: Send + Sync + fmt::Debug {
    fn observe(&self, event: &Event<'_>);
}

/// Nobody.
impl Observer for () {
    fn observe(&self, _: &Event<'_>) {}
}
