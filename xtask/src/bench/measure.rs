//! The programs that are measured, each run in a process of its own so that memory is counted by itself.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use wait4::Wait4;

use crate::step::{StepError, output};

pub(super) const RUNS: u32 = 3;
/// A run of the whole program is short, so that one process of the machine can double it.
const ANSWER_RUNS: u32 = 15;

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

/// What `provision` plans for.
#[derive(Clone, Debug)]
pub(super) enum Workload {
    Karpenter {
        pods: u32,
    },
    Classes {
        pods: u32,
        classes: u32,
        types: u32,
    },
    Real {
        csv: PathBuf,
        /// Not only newer types of the common families.
        all_types: bool,
        /// With an agent on each node.
        daemon_set: bool,
    },
    /// What [`Programs::export`] wrote.
    Files {
        dir: PathBuf,
        /// Only the quick answer.
        quick: bool,
    },
}

impl Workload {
    fn arguments(&self) -> Vec<String> {
        match self {
            Self::Karpenter { pods } => vec!["karpenter".to_owned(), pods.to_string()],
            Self::Classes { pods, classes, types } => {
                vec!["classes".to_owned(), pods.to_string(), classes.to_string(), types.to_string()]
            }
            Self::Real { csv, all_types, daemon_set } => {
                let types = if *all_types { "all" } else { "newer" };
                let mut words = vec!["real".to_owned(), path_text(csv), types.to_owned()];
                words.extend(daemon_set.then(|| "daemonset".to_owned()));
                words
            }
            Self::Files { dir, quick } => {
                let mut words = vec!["files".to_owned(), path_text(dir)];
                words.extend(quick.then(|| "--rounds=0".to_owned()));
                words
            }
        }
    }
}

fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// What one run of `crates/cloud/benches/provision` says.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Planned {
    pub(super) pods: u64,
    pub(super) offerings: u64,
    pub(super) microseconds: u64,
    #[serde(rename = "peakKiB")]
    pub(super) peak_kib: u64,
    pub(super) nodes: u64,
    #[serde(deserialize_with = "dollars")]
    pub(super) cost_per_hour: f64,
    pub(super) gap_percent: f64,
    pub(super) unplaced: u64,
    pub(super) rounds: u64,
    pub(super) violations: u64,
    pub(super) first_violation: Option<String>,
}

impl Planned {
    /// How many times as long as another it took.
    pub(super) fn times(&self, other: &Self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a ratio with two digits")]
        let ratio = self.microseconds as f64 / other.microseconds.max(1) as f64;
        ratio
    }

    fn is_same_plan(&self, other: &Self) -> bool {
        (self.nodes, self.unplaced, self.rounds) == (other.nodes, other.unplaced, other.rounds)
            && self.cost_per_hour.total_cmp(&other.cost_per_hour).is_eq()
    }
}

/// What one run of `crates/api/examples/parse_pods.rs` says.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Read {
    pub(super) pods: u64,
    pub(super) bytes: u64,
    pub(super) microseconds: u64,
    #[serde(rename = "peakKiB")]
    pub(super) peak_kib: u64,
    pub(super) problems: u64,
}

/// How long the whole program takes to answer, and how much memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Answer {
    pub(super) catalog: &'static str,
    pub(super) microseconds: u64,
    pub(super) peak_kib: u64,
}

pub(super) fn dollars<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}

pub(super) struct Programs {
    provision: String,
    parse_pods: String,
    berth: String,
    runs: u32,
    /// Several questions share a workload: it is measured once.
    known: BTreeMap<Vec<String>, Planned>,
}

impl Programs {
    pub(super) fn build(runs: u32) -> Result<Self, StepError> {
        let json = "--message-format=json";
        let provision =
            ["cargo", "bench", "--package", "berth-cloud", "--bench", "provision", "--no-run", json];
        let parse_pods =
            ["cargo", "build", "--release", "--package", "berth-api", "--example", "parse_pods", json];
        Ok(Self {
            provision: built(&provision, "provision")?,
            parse_pods: built(&parse_pods, "parse_pods")?,
            berth: built(&["cargo", "build", "--release", "--package", "berth-cli", json], "berth")?,
            runs,
            known: BTreeMap::new(),
        })
    }

    /// How the numbers come about, in words.
    pub(super) fn method(&self) -> String {
        let runs = match self.runs {
            1 => "Each number is from one run".to_owned(),
            runs => format!("Each time is the fastest of {runs} runs, each memory the most of them"),
        };
        format!(
            "{runs}; a run is a process of its own. The time is that of the plan alone, the memory that of the \
             whole process. Every plan went through the checker. MB are 10^6 bytes."
        )
    }

    pub(super) fn plan(&mut self, workload: &Workload) -> Result<Planned, StepError> {
        let arguments = workload.arguments();
        if let Some(planned) = self.known.get(&arguments) {
            return Ok(planned.clone());
        }
        let runs: Vec<Planned> = self.run(&self.provision, &arguments)?;
        let command = arguments.join(" ");
        let wrong = |message: String| StepError::Output { command: command.clone(), message };
        let planned = fastest(&runs, |run| run.microseconds)
            .ok_or_else(|| wrong("there were no runs".to_owned()))?
            .clone();
        if let Some(violation) = &planned.first_violation {
            return Err(wrong(format!("{} rules are broken; the first: {violation}", planned.violations)));
        }
        if !runs.iter().all(|run| run.is_same_plan(&planned)) {
            return Err(wrong("two runs made different plans".to_owned()));
        }
        let peak_kib = runs.iter().map(|run| run.peak_kib).max().unwrap_or(planned.peak_kib);
        let planned = Planned { peak_kib, ..planned };
        self.known.insert(arguments, planned.clone());
        Ok(planned)
    }

    /// Writes a workload as manifests and a catalog, for others to read.
    pub(super) fn export(&self, workload: &Workload, dir: &Path) -> Result<(), StepError> {
        let (dir, arguments) = (path_text(dir), workload.arguments());
        let words = [self.provision.as_str(), "export", &dir];
        let words: Vec<&str> = words.into_iter().chain(arguments.iter().map(String::as_str)).collect();
        output(&words).map(drop)
    }

    pub(super) fn read(&self, pods: u32) -> Result<Read, StepError> {
        let runs: Vec<Read> = self.run(&self.parse_pods, &[pods.to_string()])?;
        let wrong = |message: &str| StepError::Output {
            command: "parse_pods".to_owned(),
            message: message.to_owned(),
        };
        let read = fastest(&runs, |run| run.microseconds).ok_or_else(|| wrong("there were no runs"))?.clone();
        if read.problems > 0 || read.pods != u64::from(pods) {
            return Err(wrong("not all pods were read"));
        }
        let peak_kib = runs.iter().map(|run| run.peak_kib).max().unwrap_or(read.peak_kib);
        Ok(Read { peak_kib, ..read })
    }

    /// `berth advise` on two pods, from start to exit: the median of several runs.
    pub(super) fn answer(&self, catalog: &'static str) -> Result<Answer, StepError> {
        eprintln!("measuring berth advise on two pods, --catalog {catalog}");
        let words = ["advise", "-f", "-", "--catalog", catalog];
        let command = format!("berth {}", words.join(" "));
        let failed = |source| StepError::NotStarted { command: command.clone(), source };
        let mut times = Vec::new();
        let mut peak_kib = 0;
        for _ in 0..ANSWER_RUNS {
            let start = Instant::now();
            let mut child = Command::new(&self.berth)
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

    fn run<T: DeserializeOwned>(&self, program: &str, arguments: &[String]) -> Result<Vec<T>, StepError> {
        eprintln!("measuring {}", arguments.join(" "));
        let words: Vec<&str> = [program].into_iter().chain(arguments.iter().map(String::as_str)).collect();
        (0..self.runs)
            .map(|_| {
                serde_json::from_slice(&output(&words)?).map_err(|error| StepError::Output {
                    command: words.join(" "),
                    message: error.to_string(),
                })
            })
            .collect()
    }
}

fn fastest<T>(runs: &[T], microseconds: impl Fn(&T) -> u64) -> Option<&T> {
    runs.iter().min_by_key(|run| microseconds(run))
}

/// Builds, and finds where cargo put the executable.
fn built(words: &[&str], target: &str) -> Result<String, StepError> {
    let printed = output(words)?;
    executable(&String::from_utf8_lossy(&printed), target).ok_or_else(|| StepError::Output {
        command: words.join(" "),
        message: format!("it names no executable for {target}"),
    })
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

#[cfg(test)]
mod tests {
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
    fn a_run_is_read_from_its_line() {
        let line = r#"{"pods":2,"offerings":6,"microseconds":900,"peakKiB":1024,"nodes":1,"costPerHour":"0.250000",
            "lowerBound":"0.200000","gapPercent":20.0,"unplaced":0,"rounds":3,"violations":0,"firstViolation":null}"#;
        let planned: Planned = serde_json::from_str(line).unwrap();
        assert_eq!((planned.pods, planned.microseconds, planned.peak_kib), (2, 900, 1024));
        assert!((planned.cost_per_hour - 0.25).abs() < 1e-9);
        assert!(serde_json::from_str::<Planned>(&line.replace("\"0.250000\"", "\"much\"")).is_err());
    }
}
