//! `cargo xtask fuzz`: each fuzz target for a short while, from the seeds in the repository.

use std::fs;

use crate::step::{StepError, command, works};
use berth_control_plane::workspace;

const TARGETS: &str = "fuzz/fuzz_targets";

/// What the world is asked in its tests is what its target begins with, a case each.
const REQUEST: &str = "request";
const REQUEST_CASES: [&str; 2] = ["crates/world/tests/contract/cases", "crates/world/tests/robust/cases"];
const REQUEST_SEEDS: &str = "fuzz/corpus/request-cases";

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
        let seeds = if target == REQUEST { request_seeds()? } else { format!("fuzz/seeds/{target}") };
        let words =
            ["cargo", "+nightly", "fuzz", "run", target, &corpus, &seeds, "--", &time, "-verbosity=0"];
        command(&format!("fuzz {target}"), &words)?;
    }
    Ok(())
}

fn request_seeds() -> Result<String, StepError> {
    let failed = |path: &str| {
        let path = path.to_owned();
        move |source| StepError::File { path, source }
    };
    fs::create_dir_all(workspace().join(REQUEST_SEEDS)).map_err(failed(REQUEST_SEEDS))?;
    for directory in REQUEST_CASES {
        for entry in fs::read_dir(workspace().join(directory)).map_err(failed(directory))? {
            let path = entry.map_err(failed(directory))?.path();
            let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
            let Some(stem) = stem.filter(|_| path.extension().is_some_and(|extension| extension == "txt"))
            else {
                continue;
            };
            let text = fs::read_to_string(&path).map_err(failed(directory))?;
            for (number, case) in cases_in(&text).enumerate() {
                let seed = format!("{REQUEST_SEEDS}/{stem}-{number}");
                fs::write(workspace().join(&seed), case).map_err(failed(&seed))?;
            }
        }
    }
    Ok(REQUEST_SEEDS.to_owned())
}

/// Without their names.
fn cases_in(text: &str) -> impl Iterator<Item = &str> {
    let cases = text.split("\n# ").map(|case| case.trim_start_matches("# "));
    cases.map(|case| case.split_once('\n').map_or("", |(_, requests)| requests))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_lose_their_names() {
        let text = "# a case\nGET /a\n\n# another\nPOST /b\n{\"a\": \"# b\"}\n";
        let cases: Vec<&str> = cases_in(text).collect();
        assert_eq!(cases, ["GET /a\n", "POST /b\n{\"a\": \"# b\"}\n"]);
    }
}
