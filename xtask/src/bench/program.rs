//! The programs that are measured, each run in a process of its own so that memory is counted by itself.

use std::process::Command;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::step::{StepError, output};

/// A program that prints one line of JSON about what it did.
pub(super) struct Program {
    path: String,
    /// How often it is run for a measurement.
    runs: u32,
}

/// What a program says of one run.
pub(super) trait Run: DeserializeOwned {
    fn microseconds(&self) -> u64;
    fn peak_kib(&mut self) -> &mut u64;
    /// Whether two runs came to the same end, however long they took.
    fn has_outcome_of(&self, other: &Self) -> bool;
}

impl Program {
    pub(super) fn bench(package: &str, name: &str, runs: u32) -> Result<Self, StepError> {
        Self::built(&["cargo", "bench", "--no-run", "--package", package, "--bench", name], name, runs)
    }

    pub(super) fn example(package: &str, name: &str, runs: u32) -> Result<Self, StepError> {
        Self::built(&["cargo", "build", "--release", "--package", package, "--example", name], name, runs)
    }

    pub(super) fn binary(package: &str, name: &str, runs: u32) -> Result<Self, StepError> {
        Self::built(&["cargo", "build", "--release", "--package", package, "--bin", name], name, runs)
    }

    /// Builds, and finds where cargo put the executable.
    fn built(words: &[&str], name: &str, runs: u32) -> Result<Self, StepError> {
        eprintln!("building {name}, optimised");
        let words = [words, &["--message-format=json"]].concat();
        let printed = output(&words)?;
        let path = executable(&String::from_utf8_lossy(&printed), name).ok_or_else(|| StepError::Output {
            command: words.join(" "),
            message: format!("it names no executable for {name}"),
        })?;
        Ok(Self { path, runs })
    }

    pub(super) fn runs(&self) -> u32 {
        self.runs
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    pub(super) fn command(&self) -> Command {
        Command::new(&self.path)
    }

    pub(super) fn output(&self, arguments: &[String]) -> Result<Vec<u8>, StepError> {
        let words: Vec<&str> =
            [self.path.as_str()].into_iter().chain(arguments.iter().map(String::as_str)).collect();
        output(&words)
    }

    /// The fastest of its runs, with the most memory of all of them.
    pub(super) fn measure<T: Run>(&self, arguments: &[String]) -> Result<T, StepError> {
        let command = arguments.join(" ");
        eprintln!("measuring {command}");
        let wrong = |message: String| StepError::Output { command: command.clone(), message };
        let runs = (0..self.runs)
            .map(|_| {
                serde_json::from_slice(&self.output(arguments)?).map_err(|error| wrong(error.to_string()))
            })
            .collect::<Result<Vec<T>, StepError>>()?;
        best(runs).map_err(|message| wrong(message.to_owned()))
    }
}

fn best<T: Run>(mut runs: Vec<T>) -> Result<T, &'static str> {
    let peak_kib = runs.iter_mut().map(|run| *run.peak_kib()).max();
    runs.sort_by_key(Run::microseconds);
    let mut runs = runs.into_iter();
    let (Some(mut fastest), Some(peak_kib)) = (runs.next(), peak_kib) else {
        return Err("there were no runs");
    };
    if !runs.all(|run| run.has_outcome_of(&fastest)) {
        return Err("two runs had different outcomes");
    }
    *fastest.peak_kib() = peak_kib;
    Ok(fastest)
}

/// One line of what cargo prints as JSON, as far as it tells of something built.
#[derive(Deserialize)]
struct Artifact {
    target: Target,
    executable: Option<String>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

fn executable(messages: &str, target: &str) -> Option<String> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Artifact>(line).ok())
        .filter(|artifact| artifact.target.name == target)
        .find_map(|artifact| artifact.executable)
}

/// Money is decimal text.
pub(super) fn dollars<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::super::planner::Planned;
    use super::*;

    #[test]
    fn executables_are_found_in_cargos_messages() {
        let messages = r#"{"reason":"compiler-artifact","target":{"name":"provision"},"executable":null}
{"reason":"compiler-artifact","target":{"name":"other"},"executable":"/t/other"}
{"reason":"compiler-artifact","target":{"name":"provision"},"executable":"/t/provision-1"}
{"reason":"build-finished","success":true}
not json"#;
        for (target, expected) in [("provision", Some("/t/provision-1")), ("missing", None)] {
            assert_eq!(executable(messages, target).as_deref(), expected);
        }
    }

    #[test]
    fn the_fastest_run_counts_with_the_most_memory() {
        let run =
            |microseconds, peak_kib, nodes| Planned { microseconds, peak_kib, nodes, ..Planned::default() };
        for (runs, expected) in [
            (vec![run(3, 1, 7), run(2, 2, 7), run(4, 9, 7)], Ok((2, 9))),
            (vec![run(3, 1, 7)], Ok((3, 1))),
            (vec![run(3, 1, 7), run(2, 2, 8)], Err("two runs had different outcomes")),
            (vec![], Err("there were no runs")),
        ] {
            let found = best(runs).map(|best| (best.microseconds, best.peak_kib));
            assert_eq!(found, expected);
        }
    }
}
