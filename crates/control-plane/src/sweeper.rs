//! Removes a directory when its owner has been killed.
//!
//! A shell in a process group of its own reads from a pipe. An owner that ends by itself writes a line, and nothing is
//! left to do. Where the pipe is closed without one, the shell waits for those whom the owner has tied to itself, whose
//! ends are of another pipe: when the kernel has closed the last of them, nobody can write to the directory any more,
//! and it goes. Until then the shell holds the owner's lock, so that nobody moves in meanwhile, but the owner's pid,
//! which may soon be somebody else's, is no longer in it.

use std::fs::File;
use std::io::{self, PipeWriter, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The lock goes last, as it always does.
const UNLESS_TOLD: &str = "\
read -r _ && exit
cd -- \"$1\" && [ -f \"$2\" ] || exit
: > \"$2\"
read -r _ <&2
for each in * .[!.]*; do
    [ \"$each\" = \"$2\" ] || rm -rf -- \"$each\"
done
rm -f -- \"$2\"
cd / && rmdir -- \"$1\"";

#[derive(Debug)]
pub(crate) struct Sweeper {
    shell: Child,
    ties: PipeWriter,
}

impl Sweeper {
    /// `lock` is the name of the file in `directory` that `held` holds locked.
    pub(crate) fn new(directory: &Path, lock: &str, held: &File) -> io::Result<Self> {
        let (tied, ties) = io::pipe()?;
        let shell = Command::new("sh")
            .args(["-c", UNLESS_TOLD, "sh"])
            // It is elsewhere when it removes it.
            .args([&*std::path::absolute(directory)?, Path::new(lock)])
            .stdin(Stdio::piped())
            .stdout(held.try_clone()?)
            .stderr(tied)
            .process_group(0)
            .spawn()?;
        Ok(Self { shell, ties })
    }

    /// For the standard input of a process that writes to the directory, and reads nothing.
    pub(crate) fn tie(&self) -> io::Result<Stdio> {
        Ok(self.ties.try_clone()?.into())
    }

    /// There is nothing to sweep any more.
    pub(crate) fn dismiss(&mut self) {
        if let Some(mut pipe) = self.shell.stdin.take() {
            // If somebody killed it, there is nobody to tell.
            let _ = pipe.write_all(b"\n");
        }
        let _ = self.shell.wait();
    }
}
