//! What another process can do about a control plane, given its directory: look, and stop it.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::directory::{Component, Occupant, ask_to_stop, sweep};
use crate::error::Error;
use crate::files::Files;
use crate::probe::{Probe, listens};

/// An owner looks ten times a second whether it should stop, and needs a fraction of one to do so.
const PATIENCE: Duration = Duration::from_secs(10);

const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What there was to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    Nothing,
    /// Somebody dead had left files.
    Remains,
    Running,
}

/// Ends the control plane in `directory`, if there is one, and removes what is left of it.
pub fn stop(directory: &Path) -> Result<Stopped, Error> {
    let Occupant::Alive { record, .. } = Occupant::of(directory)? else {
        return Ok(if sweep(directory)? { Stopped::Remains } else { Stopped::Nothing });
    };
    ask_to_stop(directory)?;
    if !is_true_in_time(|| is_gone(directory)) {
        // It hangs. It holds the lock, so the pid is its own, and the components end with it. One that was killed has
        // none any more, and is being swept.
        if let Occupant::Alive { pid: Some(pid), .. } = Occupant::of(directory)? {
            let _ = Command::new("sh").args(["-c", "kill -KILL \"$1\"", "sh", &pid.to_string()]).status();
        }
        if !is_true_in_time(|| is_gone(directory)) {
            return Err(Error::InUse { path: directory.to_owned() });
        }
    }
    let components = record.map(|record| record.components).unwrap_or_default();
    is_true_in_time(|| !components.iter().any(|component| listens(component.port)));
    sweep(directory)?;
    Ok(Stopped::Running)
}

/// Whether a component says it is well.
pub fn is_ready(directory: &Path, component: &Component) -> Result<bool, Error> {
    let path = Files::below(directory).authority();
    let authority = fs::read(&path).map_err(Error::file(path))?;
    Ok(Probe::new(&authority, None)?.is_ready(component.program, component.port))
}

fn is_gone(directory: &Path) -> bool {
    !matches!(Occupant::of(directory), Ok(Occupant::Alive { .. }))
}

fn is_true_in_time(is_true: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if is_true() {
            return true;
        }
        thread::sleep(LOOK_EVERY);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::Directory;

    #[test]
    fn stopping_what_does_not_run_is_fine() {
        let outer = Directory::temporary().expect("a directory");
        let path = outer.path().join("plane");
        assert_eq!(stop(&path).expect("nothing there"), Stopped::Nothing);
        let mut dead = Directory::claim(&path).expect("nobody is there");
        dead.leave_epitaph("died").expect("writable");
        drop(dead);
        assert_eq!(stop(&path).expect("removable"), Stopped::Remains);
        assert_eq!(stop(&path).expect("nothing there"), Stopped::Nothing);
    }

    #[test]
    fn an_owner_that_listens_stops() {
        let outer = Directory::temporary().expect("a directory");
        let path = outer.path().join("plane");
        let owned = Directory::claim(&path).expect("nobody is there");
        let owner = thread::spawn(move || {
            while !owned.is_asked_to_stop() {
                thread::sleep(LOOK_EVERY);
            }
        });
        assert_eq!(stop(&path).expect("stoppable"), Stopped::Running);
        owner.join().expect("it ends");
        assert!(!path.exists());
    }
}
