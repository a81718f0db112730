//! In which form a benchmark is run: at full size, or quickly.

use std::path::{Path, PathBuf};

use clap::Args;

use berth_control_plane::workspace;

const RUNS: u32 = 3;
/// What the quick form makes of every number.
const QUICK_DIVISOR: u32 = 100;

#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Form {
    /// Also write the tables to docs/benchmarks.md and the charts to docs/charts
    #[arg(long, conflicts_with = "quick")]
    pub(super) write: bool,

    /// A hundredth of the pods, nodes and rounds, one run each and no bars: shows that it works, and nothing else
    #[arg(long)]
    pub(super) quick: bool,
}

impl Form {
    pub(super) fn runs(self) -> u32 {
        if self.quick { 1 } else { RUNS }
    }

    pub(super) fn sized(self, number: u32) -> u32 {
        if self.quick { number / QUICK_DIVISOR } else { number }
    }

    pub(super) fn all_sized(self, numbers: &[u32]) -> Vec<u32> {
        numbers.iter().map(|number| self.sized(*number)).collect()
    }

    /// How the numbers come about, in words.
    pub(super) fn method(self) -> String {
        let runs = match self.runs() {
            1 => "Each number is from one run".to_owned(),
            runs => format!("Each time is the fastest of {runs} runs, each memory the most of them"),
        };
        format!(
            "{runs}; a run is a process of its own. The time is that of the plan alone, the memory that of the \
             whole process. Every plan went through the checker. MB are 10^6 bytes."
        )
    }
}

#[derive(Clone, Debug, Args)]
pub(crate) struct RealPods {
    /// A CSV with the name, the milli-CPU and the MiB of real pods in its first columns
    #[arg(long, value_name = "PATH", default_value_os_t = workspace().join("../shared/data/openb_pods.csv"))]
    real_pods: PathBuf,
}

impl RealPods {
    /// The file, if there is one.
    pub(super) fn csv(&self) -> Option<&Path> {
        let found = self.real_pods.is_file();
        if !found {
            eprintln!("no real pods: {} is no file; --real-pods names one", self.real_pods.display());
        }
        found.then_some(&self.real_pods)
    }
}
