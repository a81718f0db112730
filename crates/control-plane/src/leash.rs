//! Processes that do not outlive the one that started them, however that one ends.
//!
//! A shell leads a process group and reads from a pipe that only its owner can write to. When the owner closes
//! the pipe, or dies and the kernel closes it, the shell kills its whole group, itself included. The group's
//! number cannot be given to anybody else while the shell lives, so nothing else is ever killed.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

const UNTIL_LET_GO: &str = "read -r _; kill -KILL 0";

#[derive(Debug)]
pub(crate) struct Leash {
    shell: Child,
}

impl Leash {
    pub(crate) fn new() -> io::Result<Self> {
        let shell = Command::new("sh")
            .args(["-c", UNTIL_LET_GO])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        Ok(Self { shell })
    }

    /// Starts a process that ends with the leash.
    pub(crate) fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        let group = i32::try_from(self.shell.id()).map_err(io::Error::other)?;
        command.process_group(group).spawn()
    }

    /// Whether the shell still stands by; if somebody killed it, the others would outlive a killed owner.
    pub(crate) fn holds(&mut self) -> bool {
        matches!(self.shell.try_wait(), Ok(None))
    }

    /// Kills the group. Whoever started a process with `spawn` still has to wait for it.
    pub(crate) fn let_go(&mut self) {
        self.shell.stdin.take();
        // It kills itself; there is nothing to learn from how it ended.
        let _ = self.shell.wait();
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        self.let_go();
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn what_is_on_the_leash_ends_with_it() {
        let mut leash = Leash::new().expect("sh");
        // It starts a process of its own, which belongs to the group as well and holds the pipe open.
        let mut child = leash
            .spawn(Command::new("sh").args(["-c", "sleep 600; true"]).stdout(Stdio::piped()))
            .expect("sh");
        assert!(leash.holds());
        assert_eq!(child.try_wait().expect("a child"), None);
        leash.let_go();
        let mut printed = String::new();
        let mut pipe = child.stdout.take().expect("a pipe");
        io::Read::read_to_string(&mut pipe, &mut printed).expect("closed once nobody is left");
        assert_eq!(child.wait().expect("a child").signal(), Some(9));
        assert!(!leash.holds());
    }
}
