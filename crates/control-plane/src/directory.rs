//! The directory of one control plane, and whether its owner lives.
//!
//! The owner holds a lock on a file in it. The kernel gives the lock back when the owner ends, however that
//! happens, so a directory whose lock can be taken is what somebody dead left behind. Pids and times of day,
//! which can mislead, decide nothing.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::program::Program;

/// Marks a directory as ours: no other is ever removed. Holds the pid of the owner.
const LOCK: &str = "control-plane.lock";
const RECORD: &str = "control-plane.json";
/// Asks the owner to end.
const STOP: &str = "stop";
/// Why the control plane ended by itself.
const EPITAPH: &str = "ended.txt";

/// Looking takes microseconds.
const LOOK_MAX: Duration = Duration::from_millis(200);

const TEMPORARY: &str = "berth-control-plane-";

/// What runs, for those who come later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub kubeconfig: PathBuf,
    pub kubectl: PathBuf,
    pub components: Vec<Component>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Component {
    pub program: Program,
    pub version: String,
    pub pid: u32,
    pub port: u16,
}

/// Held by its owner, and removed with all that is in it when dropped.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    /// The kernel unlocks it when it is closed.
    _lock: File,
    is_kept: bool,
}

/// Who is in a directory.
#[derive(Debug, PartialEq, Eq)]
pub enum Occupant {
    Nobody,
    /// The owner is gone. `epitaph` says why, if it could still say so.
    Dead {
        epitaph: Option<String>,
    },
    /// `record` comes when everything is ready.
    Alive {
        pid: Option<u32>,
        record: Option<Record>,
    },
}

impl Directory {
    /// Takes possession of `path`, which must not exist, be empty, or be what a dead owner left.
    pub fn claim(path: &Path) -> Result<Self, Error> {
        if let Occupant::Alive { .. } = Occupant::of(path)? {
            return Err(Error::InUse { path: path.to_owned() });
        }
        sweep(path)?;
        // Keys are in it.
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(Error::file(path))?;
        let lock_path = path.join(LOCK);
        let failed = |source| Error::File { path: lock_path.clone(), source };
        let mut lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&lock_path)
            .map_err(failed)?;
        let start = Instant::now();
        while !is_taken(lock.try_lock()).map_err(failed)? {
            // Those who only look hold the lock as well, for an instant.
            if start.elapsed() > LOOK_MAX {
                return Err(Error::InUse { path: path.to_owned() });
            }
            thread::sleep(LOOK_MAX / 10);
        }
        // Somebody who swept may have removed the file between opening and locking.
        if !is_still_at(&lock, &lock_path) {
            return Err(Error::InUse { path: path.to_owned() });
        }
        writeln!(lock, "{}", process::id()).map_err(failed)?;
        Ok(Self { path: path.to_owned(), _lock: lock, is_kept: false })
    }

    /// One of its own among the temporary files. Those of dead owners are removed.
    pub fn temporary() -> Result<Self, Error> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let parent = std::env::temp_dir();
        for entry in fs::read_dir(&parent).map_err(Error::file(&parent))?.flatten() {
            if entry.file_name().to_string_lossy().starts_with(TEMPORARY) {
                // Others' directories are theirs to remove.
                let _ = sweep(&entry.path());
            }
        }
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        Self::claim(&parent.join(format!("{TEMPORARY}{}-{count}", process::id())))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn write_record(&self, record: &Record) -> Result<(), Error> {
        let path = self.path.join(RECORD);
        // Whoever reads it must find all of it.
        let partial = self.path.join(format!("{RECORD}.partial"));
        let text = serde_json::to_string_pretty(record).map_err(io::Error::other);
        text.and_then(|text| fs::write(&partial, text))
            .and_then(|()| fs::rename(&partial, &path))
            .map_err(Error::file(path))
    }

    pub fn is_asked_to_stop(&self) -> bool {
        self.path.join(STOP).exists()
    }

    /// Stays behind with its logs, and says why.
    pub fn leave_epitaph(&mut self, text: &str) -> Result<(), Error> {
        self.is_kept = true;
        let path = self.path.join(EPITAPH);
        fs::write(&path, text).map_err(Error::file(path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if !self.is_kept {
            // Nobody is left to tell; the next owner tries again.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

impl Occupant {
    pub fn of(path: &Path) -> Result<Self, Error> {
        let lock_path = path.join(LOCK);
        let lock = match File::open(&lock_path) {
            Ok(lock) => lock,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return if is_absent_or_empty(path)? {
                    Ok(Self::Nobody)
                } else {
                    Err(Error::Foreign { path: path.to_owned() })
                };
            }
            Err(source) => return Err(Error::File { path: lock_path, source }),
        };
        if is_taken(lock.try_lock_shared()).map_err(Error::file(&lock_path))? {
            return Ok(Self::Dead { epitaph: fs::read_to_string(path.join(EPITAPH)).ok() });
        }
        let pid = fs::read_to_string(&lock_path).ok().and_then(|text| text.trim().parse().ok());
        Ok(Self::Alive { pid, record: read_record(path)? })
    }
}

/// Asks the owner of `path` to end; it looks often.
pub(crate) fn ask_to_stop(path: &Path) -> Result<(), Error> {
    let path = path.join(STOP);
    match File::create(&path) {
        // It ended in this moment.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        answer => answer.map(|_| ()).map_err(Error::file(path)),
    }
}

/// Removes what a dead owner left, and nothing else. Whether there was something.
pub(crate) fn sweep(path: &Path) -> Result<bool, Error> {
    match Occupant::of(path)? {
        Occupant::Nobody | Occupant::Alive { .. } => Ok(false),
        Occupant::Dead { .. } => {
            let lock_path = path.join(LOCK);
            let Ok(lock) = File::open(&lock_path) else { return Ok(false) };
            if !is_taken(lock.try_lock()).map_err(Error::file(&lock_path))? || !is_still_at(&lock, &lock_path)
            {
                return Ok(false);
            }
            fs::remove_dir_all(path).map_err(Error::file(path))?;
            Ok(true)
        }
    }
}

fn read_record(path: &Path) -> Result<Option<Record>, Error> {
    let path = path.join(RECORD);
    match fs::read_to_string(&path) {
        Ok(text) => serde_json::from_str(&text).map(Some).map_err(|error| Error::file(path)(error.into())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::File { path, source }),
    }
}

fn is_absent_or_empty(path: &Path) -> Result<bool, Error> {
    match fs::read_dir(path) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(source) => Err(Error::File { path: path.to_owned(), source }),
    }
}

fn is_taken(attempt: Result<(), TryLockError>) -> io::Result<bool> {
    match attempt {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn is_still_at(file: &File, path: &Path) -> bool {
    let number = |metadata: io::Result<fs::Metadata>| metadata.ok().map(|metadata| metadata.ino());
    number(file.metadata()).is_some_and(|opened| number(fs::metadata(path)) == Some(opened))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record {
            kubeconfig: PathBuf::from("/d/kubeconfig"),
            kubectl: PathBuf::from("/c/kubectl"),
            components: vec![Component {
                program: Program::KubeApiserver,
                version: "v1.36.4".to_owned(),
                pid: 12,
                port: 3456,
            }],
        }
    }

    #[test]
    fn an_owner_is_alive_until_it_lets_go() {
        let outer = Directory::temporary().expect("a directory");
        let path = outer.path().join("plane");
        assert_eq!(Occupant::of(&path).expect("readable"), Occupant::Nobody);

        let owned = Directory::claim(&path).expect("nobody is there");
        let pid = Some(process::id());
        assert_eq!(Occupant::of(&path).expect("readable"), Occupant::Alive { pid, record: None });
        owned.write_record(&record()).expect("writable");
        let alive = Occupant::Alive { pid, record: Some(record()) };
        assert_eq!(Occupant::of(&path).expect("readable"), alive);
        assert!(matches!(Directory::claim(&path), Err(Error::InUse { .. })));
        assert!(!sweep(&path).expect("readable"), "the living are left alone");

        assert!(!owned.is_asked_to_stop());
        ask_to_stop(&path).expect("writable");
        assert!(owned.is_asked_to_stop());
        drop(owned);
        assert!(!path.exists());
        ask_to_stop(&path).expect("nothing to stop");
    }

    #[test]
    fn what_the_dead_left_is_recognised_and_removed() {
        let outer = Directory::temporary().expect("a directory");
        let path = outer.path().join("plane");
        for (epitaph, expected) in [(None, None), (Some("etcd ended"), Some("etcd ended".to_owned()))] {
            // As after a kill: everything is there, and nobody holds the lock.
            fs::create_dir_all(path.join("etcd")).expect("writable");
            fs::write(path.join(LOCK), "1\n").expect("writable");
            fs::write(path.join(RECORD), "half a rec").expect("writable");
            if let Some(text) = epitaph {
                fs::write(path.join(EPITAPH), text).expect("writable");
            }
            assert_eq!(Occupant::of(&path).expect("readable"), Occupant::Dead { epitaph: expected });
            assert!(sweep(&path).expect("writable"));
            assert!(!path.exists());
            assert!(!sweep(&path).expect("nothing left"));
        }
    }

    #[test]
    fn an_epitaph_stays_until_the_next_owner() {
        let outer = Directory::temporary().expect("a directory");
        let path = outer.path().join("plane");
        let mut owned = Directory::claim(&path).expect("nobody is there");
        owned.leave_epitaph("kwok ended").expect("writable");
        drop(owned);
        let dead = Occupant::Dead { epitaph: Some("kwok ended".to_owned()) };
        assert_eq!(Occupant::of(&path).expect("readable"), dead);
        let _next = Directory::claim(&path).expect("the dead do not own");
        assert!(!path.join(EPITAPH).exists());
    }

    #[test]
    fn directories_of_others_are_never_touched() {
        let outer = Directory::temporary().expect("a directory");
        let path = outer.path().join("photos");
        fs::create_dir(&path).expect("writable");
        fs::write(path.join("cat.jpg"), "").expect("writable");
        assert!(matches!(Directory::claim(&path), Err(Error::Foreign { .. })));
        assert!(matches!(sweep(&path), Err(Error::Foreign { .. })));
        assert!(path.join("cat.jpg").exists());
        assert!(Occupant::of(&path.join("cat.jpg")).is_err());
    }
}
