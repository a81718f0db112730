//! The process that owns the components once `up` has returned.
//!
//! `up` starts it and listens to it. Until `up` has taken note that everything is ready, the supervisor ends
//! when `up` does, so an interrupted or killed `up` leaves nothing. Afterwards it ends when it is asked to, or
//! when a component does.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use berth_control_plane::{Audience, ControlPlane, Directory, Error, Programs, Record};
use serde::{Deserialize, Serialize};

use super::Up;
use crate::step::StepError;

const COMMAND: &str = "cargo xtask control-plane supervise";

/// What `up` answers when it has heard that everything is ready.
const TAKEN_NOTE: &str = "taken note\n";

const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What the supervisor says to `up`, one to a line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Word {
    Progress(String),
    Ready(Record),
    Failed(String),
}

/// Starts a supervisor and waits until it is ready.
pub(super) fn start(options: &Up, state: &Path) -> Result<Record, StepError> {
    let not_started = |source| StepError::NotStarted { command: COMMAND.to_owned(), source };
    let program = std::env::current_exe().map_err(not_started)?;
    let mut command = Command::new(program);
    command.args(["control-plane", "supervise", "--state-dir"]).arg(state);
    if let Some(port) = options.port {
        command.args(["--port", &port.to_string()]);
    }
    if let Some(cache) = &options.cache_dir {
        command.arg("--cache-dir").arg(cache);
    }
    // A group of its own: what the terminal sends to `up` is not meant for it.
    let mut supervisor = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .map_err(not_started)?;
    let (Some(mut to), Some(from)) = (supervisor.stdin.take(), supervisor.stdout.take()) else {
        return Err(not_started(io::ErrorKind::BrokenPipe.into()));
    };
    let misheard = |message: String| StepError::Output { command: COMMAND.to_owned(), message };
    for line in BufReader::new(from).lines() {
        let line = line.map_err(|error| misheard(error.to_string()))?;
        match serde_json::from_str(&line).map_err(|error| misheard(error.to_string()))? {
            Word::Progress(text) => eprintln!("{text}"),
            Word::Failed(message) => return Err(StepError::NotRunning { message }),
            Word::Ready(record) => {
                to.write_all(TAKEN_NOTE.as_bytes()).map_err(|error| misheard(error.to_string()))?;
                return Ok(record);
            }
        }
    }
    Err(misheard("it ended without a word".to_owned()))
}

/// What the supervisor does.
pub(super) fn run(options: &Up) -> Result<(), StepError> {
    match own(options) {
        // `up` prints it; nobody else listens.
        Err(error) => {
            say(&Word::Failed(error.to_string()));
            Err(error)
        }
        Ok(()) => Ok(()),
    }
}

fn own(options: &Up) -> Result<(), StepError> {
    let (has_left, taken_note) = attend(io::stdin());
    let programs = Programs::find(&options.sources()?)?;
    let directory = Directory::claim(&options.place.path()?)?;
    let audience = Audience {
        say: &|line| say(&Word::Progress(line.to_owned())),
        has_left: &|| has_left.load(Ordering::Relaxed),
    };
    let mut plane = ControlPlane::start(&programs, directory, options.port, &audience)?;
    say(&Word::Ready(plane.record().clone()));
    if taken_note.recv().is_err() {
        return Err(Error::Cancelled.into());
    }
    while !plane.is_asked_to_stop() {
        if let Err(why) = plane.check() {
            return Ok(plane.bury(&why)?);
        }
        thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

/// Notices when `up` has ended, and when it has taken note.
fn attend(mut from: impl Read + Send + 'static) -> (Arc<AtomicBool>, mpsc::Receiver<()>) {
    let has_left = Arc::new(AtomicBool::new(false));
    let (sender, receiver) = mpsc::channel();
    let left = Arc::clone(&has_left);
    thread::spawn(move || {
        let mut text = String::new();
        // Ends when `up` closes the pipe or is gone.
        let _ = from.read_to_string(&mut text);
        if text == TAKEN_NOTE {
            // The one who waits for it is in this process, and may have failed by now.
            let _ = sender.send(());
        }
        left.store(true, Ordering::Relaxed);
    });
    (has_left, receiver)
}

/// If `up` is gone, nobody hears it, and `attend` notices.
fn say(word: &Word) {
    if let Ok(line) = serde_json::to_string(word) {
        let _ = writeln!(io::stdout(), "{line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_answer_counts() {
        for (text, taken) in [(TAKEN_NOTE, true), ("", false), ("taken", false)] {
            let (_, taken_note) = attend(io::Cursor::new(text));
            assert_eq!(taken_note.recv().is_ok(), taken, "{text}");
        }
    }
}
