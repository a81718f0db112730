//! `berth completions`

use clap::CommandFactory;
use clap_complete::Shell;

use super::{Answer, Failure};
use crate::args::CommandLine;
use crate::out;

pub(crate) fn run(shell: Shell) -> Result<Answer, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut CommandLine::command(), "berth", &mut script);
    out::text(&String::from_utf8_lossy(&script))?;
    Ok(Answer::Done)
}
