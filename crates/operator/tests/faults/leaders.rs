//! Operators that lead, or believe so.

use std::fmt;
use std::pin::pin;
use std::str::FromStr;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use crate::play::{FIRST, SECOND, Stage};

/// Who leads besides the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaders {
    /// Both all along, in these epochs.
    Both { first: u64, second: u64 },
    /// The first stops at its so many-th write; another takes over; then the first goes on where it stopped, and
    /// learns only later that it leads no more.
    Paused { nth: u64, secs: u64 },
    /// The first is told in the middle of what it does that it leads no more.
    Lost { nth: u64 },
}

/// A lease that is not renewed is another's after so long.
const LEASE: Duration = Duration::from_secs(15);
/// So long a process takes to hear that it leads no more.
const HEARS_LATE: Duration = Duration::from_secs(10);

impl fmt::Display for Leaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Both { first, second } => write!(f, "both {first} {second}"),
            Self::Paused { nth, secs } => write!(f, "paused {nth} {secs}"),
            Self::Lost { nth } => write!(f, "lost {nth}"),
        }
    }
}

impl FromStr for Leaders {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.parse().map_err(|_| format!("{text:?} is no number"));
        match text.split(' ').collect::<Vec<_>>()[..] {
            ["both", first, second] => Ok(Self::Both { first: number(first)?, second: number(second)? }),
            ["paused", nth, secs] => Ok(Self::Paused { nth: number(nth)?, secs: number(secs)? }),
            ["lost", nth] => Ok(Self::Lost { nth: number(nth)? }),
            _ => Err(format!("{text:?} says nothing of leaders")),
        }
    }
}

impl Leaders {
    /// Lets them work, for as long as this is awaited.
    pub(crate) async fn work(self, stage: &Stage) {
        let (first, second) = match self {
            Self::Both { first, second } => (first, second),
            Self::Paused { .. } | Self::Lost { .. } => (1, 2),
        };
        let (first_lead, first_hears) = watch::channel(Some(first));
        let (second_lead, second_hears) = watch::channel(None);
        let paused = watch::Sender::new(false);
        let course = async {
            match self {
                Self::Both { .. } => drop(second_lead.send(Some(second))),
                Self::Paused { nth, secs } => {
                    stage.writes_done(nth).await;
                    stage.strike();
                    paused.send_replace(true);
                    let pause = Duration::from_secs(secs);
                    sleep(LEASE.min(pause)).await;
                    second_lead.send_replace(Some(second));
                    sleep(pause.saturating_sub(LEASE)).await;
                    paused.send_replace(false);
                    sleep(HEARS_LATE).await;
                    first_lead.send_replace(None);
                }
                Self::Lost { nth } => {
                    stage.writes_done(nth).await;
                    stage.strike();
                    first_lead.send_replace(None);
                    second_lead.send_replace(Some(second));
                }
            }
            stage.all_is_done();
            std::future::pending::<()>().await;
        };
        let first = pausing(stage.process(FIRST, || first_hears.clone()), paused.subscribe());
        let second = stage.process(SECOND, || second_hears.clone());
        tokio::select! {
            biased;
            () = course => {}
            () = first => {}
            () = second => {}
        }
    }
}

/// Does nothing while it is paused, and goes on where it was afterwards.
async fn pausing(process: impl Future<Output = ()>, mut paused: watch::Receiver<bool>) {
    let mut process = pin!(process);
    loop {
        tokio::select! {
            biased;
            _ = paused.wait_for(|paused| *paused) => {}
            () = &mut process => return,
        }
        // Its sender outlives it.
        let _ = paused.wait_for(|paused| !paused).await;
    }
}
