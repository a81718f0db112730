//! Plans for pods without a place, as `crates/cloud/benches/provision` makes and measures them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::program::{Program, Run, dollars};
use super::table::ratio;
use crate::step::StepError;

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
    /// What [`Planner::export`] wrote.
    Files {
        dir: PathBuf,
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
            Self::Files { dir } => vec!["files".to_owned(), path_text(dir)],
        }
    }
}

fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// For how long a plan is improved.
#[derive(Clone, Copy, Debug)]
pub(super) enum Effort {
    /// As long as suits the size of the problem.
    Usual,
    Rounds(u32),
}

impl Effort {
    pub(super) const QUICK: Self = Self::Rounds(0);

    fn argument(self) -> Option<String> {
        match self {
            Self::Usual => None,
            Self::Rounds(rounds) => Some(format!("--rounds={rounds}")),
        }
    }
}

/// What one run says.
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
    #[serde(deserialize_with = "dollars")]
    pub(super) lower_bound: f64,
    pub(super) gap_percent: f64,
    pub(super) unplaced: u64,
    pub(super) rounds: u64,
    pub(super) violations: u64,
    pub(super) first_violation: Option<String>,
}

impl Planned {
    /// How many times as long as another it took.
    pub(super) fn times(&self, other: &Self) -> f64 {
        ratio(self.microseconds, other.microseconds)
    }
}

impl Run for Planned {
    fn microseconds(&self) -> u64 {
        self.microseconds
    }

    fn peak_kib(&mut self) -> &mut u64 {
        &mut self.peak_kib
    }

    fn has_outcome_of(&self, other: &Self) -> bool {
        (self.nodes, self.unplaced, self.rounds) == (other.nodes, other.unplaced, other.rounds)
            && self.cost_per_hour.total_cmp(&other.cost_per_hour).is_eq()
    }
}

pub(super) struct Planner {
    program: Program,
    /// Several questions share a workload: it is measured once.
    known: BTreeMap<Vec<String>, Planned>,
}

impl Planner {
    pub(super) fn build(runs: u32) -> Result<Self, StepError> {
        Ok(Self { program: Program::bench("berth-cloud", "provision", runs)?, known: BTreeMap::new() })
    }

    pub(super) fn plan(&mut self, workload: &Workload, effort: Effort) -> Result<Planned, StepError> {
        let arguments: Vec<String> = workload.arguments().into_iter().chain(effort.argument()).collect();
        if let Some(planned) = self.known.get(&arguments) {
            return Ok(planned.clone());
        }
        let planned: Planned = self.program.measure(&arguments)?;
        if let Some(violation) = &planned.first_violation {
            let message = format!("{} rules are broken; the first: {violation}", planned.violations);
            return Err(StepError::Output { command: arguments.join(" "), message });
        }
        self.known.insert(arguments, planned.clone());
        Ok(planned)
    }

    /// One workload at several sizes.
    pub(super) fn series(
        &mut self,
        sizes: &[u32],
        workload: impl Fn(u32) -> Workload,
    ) -> Result<Vec<(u32, Planned)>, StepError> {
        sizes.iter().map(|size| Ok((*size, self.plan(&workload(*size), Effort::Usual)?))).collect()
    }

    /// Writes a workload as manifests and a catalog, for others to read.
    pub(super) fn export(&self, workload: &Workload, dir: &Path) -> Result<(), StepError> {
        let arguments = [vec!["export".to_owned(), path_text(dir)], workload.arguments()].concat();
        self.program.output(&arguments).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_read_from_its_line() {
        let line = r#"{"pods":2,"offerings":6,"microseconds":900,"peakKiB":1024,"nodes":1,"costPerHour":"0.250000",
            "lowerBound":"0.200000","gapPercent":20.0,"unplaced":0,"rounds":3,"violations":0,"firstViolation":null}"#;
        let planned: Planned = serde_json::from_str(line).unwrap();
        assert_eq!((planned.pods, planned.microseconds, planned.peak_kib), (2, 900, 1024));
        assert!((planned.cost_per_hour - 0.25).abs() < 1e-9);
        assert!(serde_json::from_str::<Planned>(&line.replace("\"0.250000\"", "\"much\"")).is_err());
    }

    #[test]
    fn workloads_are_named_as_the_program_reads_them() {
        let real =
            |all_types, daemon_set| Workload::Real { csv: PathBuf::from("p.csv"), all_types, daemon_set };
        for (workload, words) in [
            (Workload::Karpenter { pods: 5 }, "karpenter 5"),
            (Workload::Classes { pods: 5, classes: 2, types: 9 }, "classes 5 2 9"),
            (real(false, false), "real p.csv newer"),
            (real(true, true), "real p.csv all daemonset"),
            (Workload::Files { dir: PathBuf::from("d") }, "files d"),
        ] {
            assert_eq!(workload.arguments().join(" "), words);
        }
        for (effort, word) in [(Effort::Usual, None), (Effort::QUICK, Some("--rounds=0"))] {
            assert_eq!(effort.argument().as_deref(), word);
        }
    }
}
