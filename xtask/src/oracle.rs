//! `cargo xtask oracle`: kube-scheduler's own filters against Berth's rules, on random clusters.

use crate::peer::{Built, Peer};
use crate::step::{StepError, command};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// How many pairs of a pod and a node are judged
    #[arg(long, default_value_t = 100_000)]
    pairs: u64,
    /// Another number gives other clusters
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

const FILTERS: Peer = Peer { folder: "filters", module_file: "go.mod", program: "filters" };

pub(crate) fn run(options: &Options) -> Result<(), StepError> {
    let filters = match FILTERS.build()? {
        Built::Program(program) => program,
        Built::LeftOut(why) => {
            println!("kube-scheduler's filters were left out, and nothing was compared. {why}");
            return Ok(());
        }
    };
    let (filters, pairs, seed) =
        (filters.to_string_lossy(), options.pairs.to_string(), options.seed.to_string());
    let words = ["cargo", "run", "--quiet", "--package", "berth-api", "--example", "oracle", "--"];
    command("oracle", &[&words[..], &[&filters, &pairs, &seed]].concat())
}
