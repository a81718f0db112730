//! What the world is held against: itself, life by life, and a real Kubernetes, which has to be there soon for that.

use std::time::{Duration, Instant};

use berth_control_plane::{Audience, Directory, Error, Programs, Sources};

use super::bar::Bar;
use super::form::Form;
use super::report::Section;
use super::table::{Table, count, timed};
use crate::step::{StepError, command, output};

const LIVES: u32 = 200;
const SEQUENCES: u32 = 2_000;
const UP_WITHIN: Duration = Duration::from_secs(15);

pub(super) struct Likeness {
    /// How long a control plane takes until it is up, at worst; nothing where its programs cannot be had.
    up: Option<Duration>,
    lives: Tried,
    sequences: Tried,
}

/// Something that was tried so many times.
#[derive(Clone, Copy, Debug)]
struct Tried {
    times: u32,
    took: Duration,
    is_alike: bool,
}

pub(super) fn measure(form: Form) -> Result<Likeness, StepError> {
    Ok(Likeness {
        up: slowest_start(form.runs())?,
        lives: tried("life", "BERTH_SEEDS", form.sized(LIVES)),
        sequences: tried("random", "BERTH_SEQUENCES", form.sized(SEQUENCES)),
    })
}

/// Of some, the slowest: from the command until it returns.
fn slowest_start(times: u32) -> Result<Option<Duration>, StepError> {
    let audience = Audience { say: &|said| eprintln!("{said}"), has_left: &|| false };
    match Programs::find_or_build(&Sources::from_environment(None)?, &audience) {
        Ok(_) => {}
        Err(why @ Error::NoGo { .. }) => {
            eprintln!("no control plane: {why}");
            return Ok(None);
        }
        Err(error) => return Err(error.into()),
    }
    let outer = Directory::temporary()?;
    let state = outer.path().join("plane").display().to_string();
    let not_started = |source| StepError::NotStarted { command: "cargo xtask".to_owned(), source };
    let program = std::env::current_exe().map_err(not_started)?.display().to_string();
    let mut slowest = Duration::ZERO;
    for _ in 0..times {
        eprintln!("starting a control plane");
        let began = Instant::now();
        output(&[&program, "control-plane", "up", "--state-dir", &state])?;
        slowest = slowest.max(began.elapsed());
        output(&[&program, "control-plane", "down", "--state-dir", &state])?;
    }
    Ok(Some(slowest))
}

/// One of the world's own tests, which says itself what is not alike. Where `CI` is set, none leaves anything out.
fn tried(test: &str, variable: &str, times: u32) -> Tried {
    let setting = format!("{variable}={times}");
    let words = ["env", "CI=1", &setting, "cargo", "test", "--package", "berth-world", "--test", test];
    let began = Instant::now();
    let tried = command("likeness", &words);
    if let Err(why) = &tried {
        eprintln!("{why}");
    }
    Tried { times, took: began.elapsed(), is_alike: tried.is_ok() }
}

impl Likeness {
    pub(super) fn bars(&self) -> Vec<Bar> {
        let up = match self.up {
            None => Bar::not_measured("a real control plane"),
            Some(up) => Bar {
                text: format!("a real control plane is up after {} (bar under 15 s)", timed(up)),
                holds: up < UP_WITHIN,
            },
        };
        vec![
            up,
            self.lives.bar("lives are the same to the byte when they are played again", LIVES),
            self.sequences
                .bar("random sequences of requests are answered as Kubernetes answers them", SEQUENCES),
        ]
    }

    pub(super) fn section(&self) -> Section {
        let about = "How often each was tried. The times are those of `cargo xtask control-plane up`, at worst, and of \
                     the tests, which are not optimised; building them counts, too.";
        let mut table = Table::new("Likeness", about, vec!["what", "times", "time", "alike"]);
        for (what, Tried { times, took, is_alike }) in
            [("the same life twice", self.lives), ("the same requests, of a real API server", self.sequences)]
        {
            let alike = if is_alike { "all" } else { "not all" };
            table.row(vec![what.to_owned(), count(times), timed(took), alike.to_owned()]);
        }
        if let Some(up) = self.up {
            table.row(vec!["a control plane comes up".to_owned(), String::new(), timed(up), String::new()]);
        }
        Section::new(&table, Vec::new())
    }
}

impl Tried {
    fn bar(self, what: &str, least: u32) -> Bar {
        Bar {
            text: format!("{} {what} (bar {})", count(self.times), count(least)),
            holds: self.is_alike && self.times >= least,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Change = fn(&mut Likeness);

    #[test]
    fn bars_hold_within_their_limits_and_not_beyond() {
        let cases: [(Change, [bool; 3]); 6] = [
            (|_| (), [true, true, true]),
            (|found| found.up = Some(UP_WITHIN), [false, true, true]),
            (|found| found.up = None, [false, true, true]),
            (|found| found.lives.times = LIVES - 1, [true, false, true]),
            (|found| found.lives.is_alike = false, [true, false, true]),
            (|found| found.sequences.is_alike = false, [true, true, false]),
        ];
        for (index, (change, expected)) in cases.into_iter().enumerate() {
            let tried = |times| Tried { times, took: Duration::ZERO, is_alike: true };
            let up = Some(UP_WITHIN.saturating_sub(Duration::from_millis(1)));
            let mut found = Likeness { up, lives: tried(LIVES), sequences: tried(SEQUENCES) };
            change(&mut found);
            let holds: Vec<bool> = found.bars().iter().map(|bar| bar.holds).collect();
            assert_eq!(holds, expected, "{index}");
        }
    }
}
