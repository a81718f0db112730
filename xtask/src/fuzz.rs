//! `cargo xtask fuzz`: each fuzz target for a short while, from the seeds in the repository.

use std::fs;

use crate::step::{StepError, command, works};
use berth_control_plane::workspace;

const TARGETS: &str = "fuzz/fuzz_targets";

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Only these targets (default: all)
    targets: Vec<String>,
    /// How long each target runs
    #[arg(long, default_value_t = 20)]
    seconds: u32,
}

pub(crate) fn run(options: &Options) -> Result<(), StepError> {
    if !works(&["cargo", "+nightly", "--version"]) {
        return Err(StepError::Tool {
            missing: "the nightly toolchain",
            remedy: "rustup toolchain install nightly",
        });
    }
    if !works(&["cargo", "+nightly", "fuzz", "--version"]) {
        return Err(StepError::Tool { missing: "cargo-fuzz", remedy: "cargo install cargo-fuzz --locked" });
    }
    let known = targets()?;
    let chosen = if options.targets.is_empty() { &known } else { &options.targets };
    let time = format!("-max_total_time={}", options.seconds);
    for target in chosen {
        if !known.contains(target) {
            let message = format!("there is no fuzz target `{target}`; there are {}", known.join(", "));
            return Err(StepError::Output { command: "cargo xtask fuzz".to_owned(), message });
        }
        let corpus = format!("fuzz/corpus/{target}");
        fs::create_dir_all(workspace().join(&corpus))
            .map_err(|source| StepError::File { path: corpus.clone(), source })?;
        let seeds = format!("fuzz/seeds/{target}");
        let words =
            ["cargo", "+nightly", "fuzz", "run", target, &corpus, &seeds, "--", &time, "-verbosity=0"];
        command(&format!("fuzz {target}"), &words)?;
    }
    Ok(())
}

fn targets() -> Result<Vec<String>, StepError> {
    let failed = |source| StepError::File { path: TARGETS.to_owned(), source };
    let mut names = Vec::new();
    for entry in fs::read_dir(workspace().join(TARGETS)).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
    names.sort();
    Ok(names)
}
