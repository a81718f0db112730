//! The programs under `peers/`: Go, with the peer as a module, built beside cargo's own output.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde::Deserialize;

use crate::step::{StepError, output};
use berth_control_plane::workspace;

/// What is built, and from which module file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    /// Its folder under `peers/`.
    pub(crate) folder: &'static str,
    pub(crate) module_file: &'static str,
    /// What the program is called, different for each module file.
    pub(crate) program: &'static str,
}

/// A program, or why there is none on this machine.
#[derive(Debug)]
pub(crate) enum Built {
    Program(PathBuf),
    LeftOut(String),
}

impl Peer {
    /// Builds unless Go is missing, too old, or cannot fetch the peer. The first time takes minutes: Kubernetes is large.
    pub(crate) fn build(&self) -> Result<Built, StepError> {
        if output(&["go", "version"]).is_err() {
            return Ok(Built::LeftOut(NO_GO.to_owned()));
        }
        let program = directory()?.join(self.program);
        eprintln!("building peers/{}; the first time takes minutes", self.folder);
        let words = ["build", "-trimpath", "-modfile", self.module_file, "-o"];
        let command = format!("go {} in peers/{}", words.join(" "), self.folder);
        let built = Command::new("go")
            .args(words)
            .arg(&program)
            .arg(".")
            .current_dir(workspace().join("peers").join(self.folder))
            .output()
            .map_err(|source| StepError::NotStarted { command: command.clone(), source })?;
        let said = String::from_utf8_lossy(&built.stderr).trim().to_owned();
        if built.status.success() {
            Ok(Built::Program(program))
        } else {
            match no_fault_of_ours(&said) {
                Some(why) => Ok(Built::LeftOut(format!("{why}\n{said}"))),
                None => Err(StepError::Output { command, message: said }),
            }
        }
    }
}

/// A Go module whose source is at hand.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Module {
    pub(crate) path: String,
    pub(crate) version: String,
    #[serde(rename = "Dir")]
    pub(crate) directory: PathBuf,
}

/// The source of modules, or why there is none on this machine.
#[derive(Debug)]
pub(crate) enum Fetched {
    Modules(Vec<Module>),
    LeftOut(String),
}

/// Modules in the versions that a folder under `peers/` uses, without building anything.
pub(crate) fn fetch(folder: &str, modules: &[&str]) -> Result<Fetched, StepError> {
    if output(&["go", "version"]).is_err() {
        return Ok(Fetched::LeftOut(NO_GO.to_owned()));
    }
    let command = format!("go mod download -json {} in peers/{folder}", modules.join(" "));
    let fetched = Command::new("go")
        .args(["mod", "download", "-json"])
        .args(modules)
        .current_dir(workspace().join("peers").join(folder))
        .output()
        .map_err(|source| StepError::NotStarted { command: command.clone(), source })?;
    if !fetched.status.success() {
        // Where it can, Go says in the JSON what is wrong, and else in words.
        let said = [fetched.stdout, fetched.stderr].concat();
        let said = String::from_utf8_lossy(&said).trim().to_owned();
        return match no_fault_of_ours(&said) {
            Some(why) => Ok(Fetched::LeftOut(format!("{why}\n{said}"))),
            None => Err(StepError::Output { command, message: said }),
        };
    }
    let read: Result<Vec<Module>, _> =
        serde_json::Deserializer::from_slice(&fetched.stdout).into_iter().collect();
    read.map(Fetched::Modules).map_err(|error| StepError::Output { command, message: error.to_string() })
}

const NO_GO: &str = "Go is not installed; get it from https://go.dev/dl or with your package manager";

/// What the machine lacks, if that is why Go did not build. Go fetches a newer Go by itself unless it was told
/// not to.
fn no_fault_of_ours(said: &str) -> Option<&'static str> {
    const LACKS: [(&str, &str); 3] = [
        ("requires go >=", "Go is too old; get a newer one from https://go.dev/dl"),
        ("module lookup disabled", "Go may not fetch modules; GOPROXY says from where it may"),
        ("dial tcp", "Go cannot fetch modules; GOPROXY says from where it tries to"),
    ];
    LACKS.into_iter().find(|(sign, _)| said.contains(sign)).map(|(_, why)| why)
}

/// Where programs and the files for them go: beside what cargo builds, never into the tree.
pub(crate) fn directory() -> Result<PathBuf, StepError> {
    #[derive(Deserialize)]
    struct Metadata {
        target_directory: PathBuf,
    }
    let words = ["cargo", "metadata", "--format-version", "1", "--no-deps"];
    let metadata: Metadata = serde_json::from_slice(&output(&words)?)
        .map_err(|error| StepError::Output { command: words.join(" "), message: error.to_string() })?;
    let directory = metadata.target_directory.join("peers");
    fs::create_dir_all(&directory)
        .map_err(|source| StepError::File { path: directory.to_string_lossy().into_owned(), source })?;
    Ok(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_machine_lacks_is_no_broken_program() {
        for (said, why) in [
            (
                "go: go.mod requires go >= 1.26.9 (running go 1.26.8; GOTOOLCHAIN=local)",
                Some("Go is too old"),
            ),
            ("main.go:22:2: module lookup disabled by GOPROXY=off", Some("Go may not fetch")),
            ("main.go:22:2: Get \"https://proxy/x.zip\": dial tcp: no such host", Some("Go cannot fetch")),
            ("./main.go:3:1: syntax error", None),
        ] {
            let found = no_fault_of_ours(said);
            assert_eq!(found.is_some(), why.is_some(), "{said}");
            assert!(found.unwrap_or_default().starts_with(why.unwrap_or_default()), "{said}: {found:?}");
        }
    }
}
