//! What commands leave on a machine while they run, so that nothing is left when they end; and what ends them.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::{process, thread};

use tokio::sync::oneshot;

use super::Failure;

/// How a process ends that did not finish what it wanted to.
const ENDED_AT_ONCE: i32 = 1;

/// As a shell reads it back.
pub(super) fn quoted(text: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+:@%".contains(letter);
    if text.chars().all(is_plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// The kubeconfig on disk, for as long as this lives.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) path: PathBuf,
    /// Dropped after the file in it has been removed.
    _directory: Option<Directory>,
}

impl Written {
    /// At a path that nobody uses yet, or in a directory of its own.
    pub(super) fn new(wanted: Option<&Path>, text: &str) -> Result<Self, Failure> {
        let (path, directory) = if let Some(path) = wanted {
            (path.to_owned(), None)
        } else {
            let directory = Directory::new()?;
            (directory.path.join("kubeconfig"), Some(directory))
        };
        let mut file = options().open(&path).map_err(refused(&path))?;
        let written = Self { path, _directory: directory };
        file.write_all(text.as_bytes()).map_err(refused(&written.path))?;
        Ok(written)
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        // Somebody may have been faster.
        let _ = fs::remove_file(&self.path);
    }
}

/// A directory below the system's for temporary files.
#[derive(Debug)]
struct Directory {
    path: PathBuf,
}

impl Directory {
    fn new() -> Result<Self, Failure> {
        let name = |attempt: u32| format!("berth-{}-{attempt}", std::process::id());
        let mut last = None;
        // A name is only taken if somebody who had this process' number left it behind.
        for attempt in 0..10 {
            let path = std::env::temp_dir().join(name(attempt));
            match builder().create(&path) {
                Ok(()) => return Ok(Self { path }),
                Err(error) => last = Some(refused(&path)(error)),
            }
        }
        Err(last.unwrap_or(Failure::FileExists { path: std::env::temp_dir() }))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // What somebody else put there is theirs.
        let _ = fs::remove_dir(&self.path);
    }
}

fn refused(path: &Path) -> impl FnOnce(io::Error) -> Failure {
    let path = path.to_owned();
    move |error| match error.kind() {
        io::ErrorKind::AlreadyExists => Failure::FileExists { path },
        _ => Failure::File { path, error },
    }
}

/// A new file, which only its owner may read: it holds a key.
fn options() -> fs::OpenOptions {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn builder() -> fs::DirBuilder {
    let builder = fs::DirBuilder::new();
    #[cfg(unix)]
    let builder = {
        let mut builder = builder;
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder
    };
    builder
}

/// Ends when somebody wants this process to end. Listens from now on. Who wants it a second time does not want to wait
/// for what is still finished: then the process ends at once.
pub(super) fn interruption() -> io::Result<impl Future<Output = ()>> {
    let (first, is_first) = oneshot::channel::<()>();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let mut signals = {
        let _there = runtime.enter();
        Signals::new()?
    };
    // On a thread of its own, because others may be blocked in what they finish.
    let listening = move || {
        runtime.block_on(async {
            signals.next().await;
            drop(first);
            signals.next().await;
        });
        process::exit(ENDED_AT_ONCE);
    };
    thread::Builder::new().name("signals".to_owned()).spawn(listening)?;
    Ok(async {
        // Its other end is never used, only dropped.
        let _ = is_first.await;
    })
}

/// What tells this process to end.
#[cfg(unix)]
struct Signals([tokio::signal::unix::Signal; 3]);

#[cfg(unix)]
impl Signals {
    fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self([
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
        ]))
    }

    async fn next(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}

#[cfg(windows)]
struct Signals(tokio::signal::windows::CtrlC);

#[cfg(windows)]
impl Signals {
    fn new() -> io::Result<Self> {
        tokio::signal::windows::ctrl_c().map(Self)
    }

    async fn next(&mut self) {
        self.0.recv().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_quoted_for_shells() {
        for (path, expected) in [("/tmp/a-1/k", "/tmp/a-1/k"), ("/a b", "'/a b'"), ("/it's", r"'/it'\''s'")] {
            assert_eq!(quoted(path), expected);
        }
    }

    #[test]
    fn a_kubeconfig_goes_as_it_came() {
        let written = Written::new(None, "text").expect("writable");
        let path = written.path.clone();
        assert_eq!(fs::read_to_string(&path).expect("it is there"), "text");
        let again = Written::new(Some(&path), "other").expect_err("it is taken");
        assert!(again.to_string().contains("exists"), "{again}");
        assert_eq!(fs::read_to_string(&path).expect("it is still there"), "text");
        drop(written);
        assert!(path.parent().is_some_and(|directory| !directory.exists()));
    }
}
