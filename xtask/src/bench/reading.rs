//! How long it takes to read many pods, and how much memory: `crates/api/examples/parse_pods.rs`.

use serde::Deserialize;

use super::bar::Bar;
use super::form::Form;
use super::program::{Program, Run};
use super::report::Section;
use super::table::{Table, bytes, count, megabytes, seconds};
use crate::step::StepError;

const PODS: u32 = 150_000;

/// What one run says.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Read {
    pods: u64,
    bytes: u64,
    microseconds: u64,
    #[serde(rename = "peakKiB")]
    peak_kib: u64,
    problems: u64,
}

impl Run for Read {
    fn microseconds(&self) -> u64 {
        self.microseconds
    }

    fn peak_kib(&mut self) -> &mut u64 {
        &mut self.peak_kib
    }

    fn has_outcome_of(&self, other: &Self) -> bool {
        (self.pods, self.problems) == (other.pods, other.problems)
    }
}

pub(super) fn measure(form: Form) -> Result<Read, StepError> {
    let program = Program::example("berth-api", "parse_pods", form.runs())?;
    let pods = form.sized(PODS);
    let read: Read = program.measure(&[pods.to_string()])?;
    if read.problems > 0 || read.pods != u64::from(pods) {
        let message = "not all pods were read".to_owned();
        return Err(StepError::Output { command: "parse_pods".to_owned(), message });
    }
    Ok(read)
}

pub(super) fn section(read: &Read) -> Section {
    let mut table = Table::new(
        "Reading",
        "Pods as `kubectl get pods -A -o json` prints them, from a file to a snapshot.",
        vec!["pods", "file", "time", "peak memory"],
    );
    table.row(vec![
        count(read.pods),
        megabytes(read.bytes / 1024),
        seconds(read.microseconds),
        megabytes(read.peak_kib),
    ]);
    Section::new(&table, Vec::new())
}

pub(super) fn bar(read: &Read) -> Bar {
    Bar {
        text: format!(
            "{} pods read from JSON: {} (bar under 3 s), {} (bar under 400 MB)",
            count(read.pods),
            seconds(read.microseconds),
            megabytes(read.peak_kib),
        ),
        holds: read.microseconds < 3_000_000 && bytes(read.peak_kib) < 400_000_000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_holds_below_and_not_at_its_limit() {
        for (microseconds, peak_kib, holds) in
            [(2_999_999, 390_624, true), (3_000_000, 1, false), (1, 390_625, false)]
        {
            let read = Read { pods: 150_000, microseconds, peak_kib, ..Read::default() };
            assert_eq!(bar(&read).holds, holds, "{read:?}");
        }
    }
}
