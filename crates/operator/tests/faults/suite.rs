//! Many runs at once, and what came of them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::faults::Case;
use crate::play::{self, Outcome};
use crate::workloads::Workload;

/// Which cases are played.
pub(crate) struct Choice {
    words: Vec<String>,
    /// Every so many-th of each kind in each workload; a few for `None`.
    every: Option<usize>,
}

/// Of each kind in each workload, so many are played unless all are asked for.
const SAMPLE: usize = 1;
/// Of crashes more.
const CRASHES_SAMPLE: usize = 4;

impl Choice {
    pub(crate) fn from_environment() -> Self {
        let text = std::env::var("BERTH_FAULTS").unwrap_or_default();
        let words: Vec<String> = text.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect();
        let every = words.iter().find_map(|word| word.strip_prefix("all/")?.parse().ok()).unwrap_or(1);
        Self { every: (!words.is_empty()).then_some(every), words }
    }

    fn has(&self, name: &str, letter: char) -> bool {
        let mut of_this = self.words.iter().filter(|word| word.starts_with(letter)).peekable();
        of_this.peek().is_none() || of_this.any(|word| word == name)
    }

    /// Some of each kind, as nobody asks for anything else.
    pub(crate) fn is_usual(&self) -> bool {
        self.words.is_empty()
    }

    pub(crate) fn has_workload(&self, workload: Workload) -> bool {
        let name = workload.to_string();
        let letter = if workload.dialect().is_vpsie() { 'V' } else { 'W' };
        let is_named = self.words.iter().any(|word| word.starts_with(['W', 'V']));
        if is_named { self.words.contains(&name) } else { self.has(&name, letter) }
    }

    pub(crate) fn has_kind(&self, kind: u8) -> bool {
        self.has(&format!("F{kind}"), 'F')
    }

    /// All, or a few that are far from each other: in each workload others.
    pub(crate) fn some_of(&self, cases: Vec<Case>) -> Vec<Case> {
        let Some(first) = cases.first() else { return cases };
        // Each kind in one of the workloads, these in all.
        let is_everywhere = matches!(first.kind, 1 | 24);
        let wanted = if first.kind == 1 { CRASHES_SAMPLE } else { SAMPLE };
        let peers = first.workload.peers();
        let place = peers.iter().position(|peer| *peer == first.workload).unwrap_or(0);
        let shift = match first.kind {
            // Machines are ended, and are there to be reclaimed at any time, two further on.
            12 | 18 => 2,
            // There, more are wanted than can be had.
            14 => 4,
            _ => 0,
        };
        let is_elsewhere = !(place + usize::from(first.kind) + shift).is_multiple_of(peers.len());
        if self.every.is_none() && !is_everywhere && is_elsewhere {
            return Vec::new();
        }
        let step = self.every.unwrap_or_else(|| cases.len().div_ceil(wanted).max(1));
        let offset = (place * 7 + usize::from(first.kind) * 3) % step.min(cases.len());
        cases.into_iter().skip(offset).step_by(step).collect()
    }
}

pub(crate) struct Report {
    outcomes: Vec<(Case, Outcome)>,
    took: Duration,
}

/// Plays all cases, on as many threads as there are.
pub(crate) fn played(cases: &[Case]) -> Report {
    let began = Instant::now();
    let catalog = play::catalog();
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..threads.min(cases.len()) {
            scope.spawn(|| {
                while let Some((index, case)) = {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    cases.get(index).map(|case| (index, case))
                } {
                    let outcome = play::play(case, &catalog);
                    if let Some(broken) = &outcome.broken {
                        eprintln!("{broken}\n{}", replay(case));
                    }
                    outcomes.lock().expect("no run panics").push((index, case.clone(), outcome));
                }
            });
        }
    });
    let mut outcomes = outcomes.into_inner().expect("no run panics");
    outcomes.sort_by_key(|(index, ..)| *index);
    let outcomes = outcomes.into_iter().map(|(_, case, outcome)| (case, outcome)).collect();
    Report { outcomes, took: began.elapsed() }
}

/// What to type to see it again.
fn replay(case: &Case) -> String {
    format!("BERTH_REPLAY='{case}' cargo test -p berth-operator --test faults replays -- --nocapture")
}

impl Report {
    pub(crate) fn of(&self) -> impl Iterator<Item = &(Case, Outcome)> {
        self.outcomes.iter()
    }

    /// The first that failed, in full.
    pub(crate) fn demand(&self) {
        let failed: Vec<_> = self.of().filter(|(_, outcome)| outcome.broken.is_some()).collect();
        if let Some((case, outcome)) = failed.first()
            && let Some(broken) = &outcome.broken
        {
            let count = failed.len();
            panic!("{count} runs failed; the first:\n{broken}\n{}\n{}", outcome.told, replay(case));
        }
        let mut struck: BTreeMap<u8, usize> = BTreeMap::new();
        for (case, outcome) in self.of() {
            *struck.entry(case.kind).or_default() += outcome.struck;
        }
        let is_missing = |case: &Case| struck.get(&case.kind) == Some(&0);
        let missing: Vec<String> =
            self.of().filter(|(case, _)| is_missing(case)).map(|(case, _)| replay(case)).collect();
        assert!(missing.is_empty(), "no faults of these kinds struck:\n{}", missing.join("\n"));
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut kinds: BTreeMap<u8, (usize, usize)> = BTreeMap::new();
        for (case, outcome) in self.of() {
            let (runs, struck) = kinds.entry(case.kind).or_default();
            *runs += 1;
            *struck += outcome.struck;
        }
        let kinds: Vec<String> =
            kinds.into_iter().map(|(kind, (runs, struck))| format!("F{kind} {struck}/{runs}")).collect();
        let failed = self.of().filter(|(_, outcome)| outcome.broken.is_some()).count();
        write!(
            f,
            "{} runs in {} s, {failed} failed; faults struck/runs: {}",
            self.outcomes.len(),
            self.took.as_secs(),
            kinds.join(", ")
        )
    }
}
