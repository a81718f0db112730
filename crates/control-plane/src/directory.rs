//! The directory of one control plane, and whether its owner lives.
//!
//! The owner holds a lock on a file in it. The kernel gives the lock back when the owner ends, however that
//! happens, so a directory whose lock can be taken is what somebody dead left behind. Pids and times of day,
//! which can mislead, decide nothing.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{self, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::program::Program;
use crate::sweeper::Sweeper;

/// Marks a directory as ours: no other is ever removed. Holds the pid of the owner.
const LOCK: &str = "control-plane.lock";
const RECORD: &str = "control-plane.json";
/// Asks the owner to end.
const STOP: &str = "stop";
/// Why the control plane ended by itself.
const EPITAPH: &str = "ended.txt";

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

/// Held by its owner, and removed with all that is in it when dropped, or when the owner is killed.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    sweeper: Sweeper,
    /// Held until the rest is gone.
    _lock: Lock,
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
        // The lock is held before it can be seen, so nobody takes the newcomer for dead.
        let unseen = path.join(format!("{LOCK}.{}", unique()));
        let failed = |source| Error::File { path: unseen.clone(), source };
        let mut file = File::create(&unseen).map_err(failed)?;
        writeln!(file, "{}", process::id()).and_then(|()| file.lock()).map_err(failed)?;
        let lock = Lock(file);
        let shown = fs::hard_link(&unseen, path.join(LOCK));
        fs::remove_file(&unseen).map_err(failed)?;
        shown.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => Error::InUse { path: path.to_owned() },
            _ => failed(error),
        })?;
        let sweeper = Sweeper::new(path, LOCK, &lock.0).map_err(|source| {
            // Nobody has moved in yet, and the lock is still held.
            let _ = remove(path);
            Error::NotStarted { program: "sh".to_owned(), source }
        })?;
        Ok(Self { path: path.to_owned(), sweeper, _lock: lock, is_kept: false })
    }

    /// One of its own among the temporary files. Those of dead owners are removed.
    pub fn temporary() -> Result<Self, Error> {
        let parent = std::env::temp_dir();
        for entry in fs::read_dir(&parent).map_err(Error::file(&parent))?.flatten() {
            if entry.file_name().to_string_lossy().starts_with(TEMPORARY) {
                // Others' directories are theirs to remove.
                let _ = sweep(&entry.path());
            }
        }
        Self::claim(&parent.join(format!("{TEMPORARY}{}", unique())))
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

    /// The standard input of a process that writes here: after the owner's death, the directory goes once it has
    /// ended, too.
    pub(crate) fn tie(&self) -> io::Result<Stdio> {
        self.sweeper.tie()
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
            let _ = remove(&self.path);
        }
        self.sweeper.dismiss();
    }
}

/// A file that is locked.
#[derive(Debug)]
struct Lock(File);

impl Lock {
    /// `None` if somebody else has it.
    fn by(file: File, attempt: impl Fn(&File) -> Result<(), TryLockError>) -> io::Result<Option<Self>> {
        match attempt(&file) {
            Ok(()) => Ok(Some(Self(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn is_still_at(&self, path: &Path) -> bool {
        let number = |metadata: io::Result<fs::Metadata>| metadata.ok().map(|metadata| metadata.ino());
        number(self.0.metadata()).is_some_and(|opened| number(fs::metadata(path)) == Some(opened))
    }
}

/// Closing is not enough: a process that another thread has just forked holds the file until it becomes another
/// program.
impl Drop for Lock {
    fn drop(&mut self) {
        let _ = self.0.unlock();
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
        if Lock::by(lock, File::try_lock_shared).map_err(Error::file(&lock_path))?.is_some() {
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
            let Ok(file) = File::open(&lock_path) else { return Ok(false) };
            let lock = Lock::by(file, File::try_lock).map_err(Error::file(&lock_path))?;
            // The lock may be that of an owner who came and went since.
            if !lock.as_ref().is_some_and(|lock| lock.is_still_at(&lock_path)) {
                return Ok(false);
            }
            remove(path).map_err(Error::file(path))?;
            Ok(true)
        }
    }
}

/// The lock goes last: whatever happens on the way, what is left is recognised as ours.
fn remove(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_name() == LOCK {
            continue;
        }
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    fs::remove_file(path.join(LOCK))?;
    match fs::remove_dir(path) {
        // Somebody else moves in already.
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
        answer => answer,
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
        Ok(entries) => Ok(entries.flatten().all(|entry| is_of_a_newcomer(&entry.file_name()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(source) => Err(Error::File { path: path.to_owned(), source }),
    }
}

/// No other process that lives has this name, and this one never again.
fn unique() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("{}-{}", process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Its lock, not shown yet.
fn is_of_a_newcomer(name: &OsStr) -> bool {
    name.to_string_lossy().strip_prefix(LOCK).is_some_and(|rest| rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use std::thread;

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
    fn an_owner_that_is_killed_leaves_nothing() {
        let outer = Directory::temporary().expect("a directory");
        let path = outer.path().join("it's a plane");
        fs::create_dir(&path).expect("writable");
        let held = File::create(path.join(LOCK)).expect("writable");
        held.lock().expect("nobody else has it");
        fs::create_dir_all(path.join("etcd/.hidden")).expect("writable");
        fs::write(path.join(".secret"), "").expect("writable");
        let sweeper = Sweeper::new(&path, LOCK, &held).expect("sh");
        let mut tied =
            process::Command::new("sleep").arg("600").stdin(sweeper.tie().expect("a pipe")).spawn();
        let tied = tied.as_mut().expect("sleep");
        // As the kernel does it.
        drop((sweeper, held));
        wait_until(|| fs::read_to_string(path.join(LOCK)).is_ok_and(|pid| pid.is_empty()));
        let busy = Occupant::Alive { pid: None, record: None };
        assert_eq!(Occupant::of(&path).expect("readable"), busy, "whoever is tied to it can still write");
        tied.kill().expect("killable");
        tied.wait().expect("a child");
        wait_until(|| !path.exists());
    }

    fn wait_until(is_true: impl Fn() -> bool) {
        let start = std::time::Instant::now();
        while !is_true() {
            assert!(start.elapsed().as_secs() < 60, "waited in vain");
            thread::sleep(std::time::Duration::from_millis(5));
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
    fn of_many_newcomers_one_moves_in_and_none_is_taken_for_dead() {
        let outer = Directory::temporary().expect("a directory");
        let path = outer.path().join("plane");
        for _ in 0..50 {
            let claims: Vec<_> = thread::scope(|scope| {
                let claims: Vec<_> = (0..4)
                    .map(|_| {
                        scope.spawn(|| {
                            let looked = sweep(&path).ok();
                            (looked, Directory::claim(&path).ok())
                        })
                    })
                    .collect();
                claims.into_iter().map(|claim| claim.join().expect("no panic")).collect()
            });
            assert!(claims.iter().all(|(swept, _)| *swept != Some(true)), "{claims:?}");
            assert!(claims.iter().filter(|(_, claim)| claim.is_some()).count() <= 1, "{claims:?}");
        }
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
