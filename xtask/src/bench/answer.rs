//! How long the whole of `berth advise` takes for a small question, and how much memory.

use std::io::Write;
use std::process::Stdio;
use std::time::Instant;

use wait4::Wait4;

use super::bar::Bar;
use super::program::Program;
use super::report::Section;
use super::table::{Table, bytes, megabytes, seconds};
use crate::step::StepError;

/// A run is short, so that one process of the machine can double it.
const RUNS: u32 = 15;
const CATALOGS: [&str; 2] = ["kwok", "aws-us-east-1"];

const TWO_PODS: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: small, namespace: default}
spec: {containers: [{name: app, resources: {requests: {cpu: 500m, memory: 1Gi}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: large, namespace: default}
spec: {containers: [{name: app, resources: {requests: {cpu: "2", memory: 4Gi}}}]}
"#;

#[derive(Clone, Debug, Default)]
pub(super) struct Answer {
    catalog: &'static str,
    microseconds: u64,
    peak_kib: u64,
}

pub(super) fn measure() -> Result<Vec<Answer>, StepError> {
    let berth = Program::binary("berth-cli", "berth", RUNS)?;
    CATALOGS.into_iter().map(|catalog| answer(&berth, catalog)).collect()
}

/// From start to exit: the median of several runs.
fn answer(berth: &Program, catalog: &'static str) -> Result<Answer, StepError> {
    eprintln!("measuring berth advise on two pods, --catalog {catalog}");
    let words = ["advise", "-f", "-", "--catalog", catalog];
    let command = format!("berth {}", words.join(" "));
    let failed = |source| StepError::NotStarted { command: command.clone(), source };
    let mut times = Vec::new();
    let mut peak_kib = 0;
    for _ in 0..berth.runs() {
        let start = Instant::now();
        let mut child = berth
            .command()
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(TWO_PODS.as_bytes()).map_err(failed)?;
        }
        let ended = child.wait4().map_err(failed)?;
        times.push(u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX));
        if !ended.status.success() {
            let message = format!("it ended with {}", ended.status);
            return Err(StepError::Output { command, message });
        }
        peak_kib = peak_kib.max(ended.rusage.maxrss / 1024);
    }
    times.sort_unstable();
    Ok(Answer { catalog, microseconds: times[times.len() / 2], peak_kib })
}

pub(super) fn section(answers: &[Answer]) -> Section {
    let mut table = Table::new(
        "A small question",
        &format!(
            "The whole of `berth advise` on a file with two pods, from start to exit: the median of {RUNS} runs."
        ),
        vec!["catalog", "time", "peak memory"],
    );
    for answer in answers {
        table.row(vec![answer.catalog.to_owned(), seconds(answer.microseconds), megabytes(answer.peak_kib)]);
    }
    Section::new(&table, Vec::new())
}

pub(super) fn bar(answer: &Answer) -> Bar {
    Bar {
        text: format!(
            "two pods, --catalog {}: {} (bar under 0.020 s), {} (bar under 20 MB)",
            answer.catalog,
            seconds(answer.microseconds),
            megabytes(answer.peak_kib),
        ),
        holds: answer.microseconds < 20_000 && bytes(answer.peak_kib) < 20_000_000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_holds_below_and_not_at_its_limit() {
        for (microseconds, peak_kib, holds) in
            [(19_999, 19_531, true), (20_000, 1, false), (1, 19_532, false)]
        {
            let answer = Answer { catalog: "kwok", microseconds, peak_kib };
            assert_eq!(bar(&answer).holds, holds, "{answer:?}");
        }
    }
}
