//! One step of a chore: a heading, the work, how long it took, and how to repeat it if it fails.

use std::io;
use std::process::Command;
use std::time::Instant;

use berth_control_plane::workspace;

#[derive(Debug, thiserror::Error)]
pub(crate) enum StepError {
    #[error("FAILED: {title}\n{findings}\nrepeat it with: {repeat}")]
    Failed { title: String, findings: String, repeat: String },
    #[error("cannot start `{command}`: {source}")]
    NotStarted { command: String, source: io::Error },
    #[error("cannot read or write {path}: {source}")]
    File { path: String, source: io::Error },
    #[error("cannot understand the output of `{command}`: {message}")]
    Output { command: String, message: String },
    #[error("{missing} is missing; get it with: {remedy}")]
    Tool { missing: &'static str, remedy: &'static str },
    #[error("{message}")]
    NotRunning { message: String },
    #[error(transparent)]
    ControlPlane(#[from] berth_control_plane::Error),
}

/// Does `work` under a heading. Findings, one to a line, make the step fail.
pub(crate) fn check(
    title: &str,
    repeat: &str,
    work: impl FnOnce() -> Result<Vec<String>, StepError>,
) -> Result<(), StepError> {
    println!("\n== {title}");
    let start = Instant::now();
    let findings = work()?;
    let seconds = start.elapsed().as_secs_f64();
    if findings.is_empty() {
        println!("-- ok, {seconds:.1} s");
        return Ok(());
    }
    println!("-- failed after {seconds:.1} s");
    Err(StepError::Failed {
        title: title.to_owned(),
        findings: findings.join("\n"),
        repeat: repeat.to_owned(),
    })
}

/// Runs a command in the workspace's directory under a heading; its output goes to the terminal.
pub(crate) fn command(title: &str, words: &[&str]) -> Result<(), StepError> {
    let line = words.join(" ");
    check(&format!("{title}: {line}"), &line, || {
        let status = spawn(words)?
            .status()
            .map_err(|source| StepError::NotStarted { command: line.clone(), source })?;
        Ok(if status.success() { vec![] } else { vec![format!("`{line}` ended with {status}")] })
    })
}

/// The standard output of a command that must succeed.
pub(crate) fn output(words: &[&str]) -> Result<Vec<u8>, StepError> {
    let line = words.join(" ");
    let output =
        spawn(words)?.output().map_err(|source| StepError::NotStarted { command: line.clone(), source })?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(StepError::Output { command: line, message })
}

/// Whether a command can be started and succeeds.
pub(crate) fn works(words: &[&str]) -> bool {
    output(words).is_ok()
}

fn spawn(words: &[&str]) -> Result<Command, StepError> {
    let Some((program, arguments)) = words.split_first() else {
        return Err(StepError::Output { command: String::new(), message: "no command".to_owned() });
    };
    let mut command = Command::new(program);
    command.args(arguments).current_dir(workspace());
    // Cargo tells its children which package it runs; those that build other packages must not see it.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text == "CARGO_MANIFEST_DIR" || text == "CARGO_MANIFEST_PATH" {
            command.env_remove(&name);
        }
    }
    Ok(command)
}
