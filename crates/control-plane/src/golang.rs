//! Builds the programs from Go modules into the cache.

use std::collections::VecDeque;
use std::fs::{self, File, TryLockError};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::audience::Audience;
use crate::error::Error;
use crate::leash::Leash;
use crate::program::{Program, linker_flags};
use crate::programs::names;

const MODULE: &str = "peers/control-plane";

/// Often enough to show that it lives, seldom enough for a log.
const REPORT_EVERY: Duration = Duration::from_secs(15);

/// Enough for an error of the compiler.
const LINES_KEPT: usize = 20;

/// Builds what is `missing` in `cache`, each program under another name first: an interrupted build leaves
/// nothing that looks like a program. Only one builds at a time; the others find the work done.
pub(crate) fn build(
    cache: &Path,
    missing: impl Fn() -> Vec<Program>,
    audience: &Audience<'_>,
) -> Result<(), Error> {
    if !is_installed() {
        return Err(Error::NoGo { missing: names(&missing()) });
    }
    fs::create_dir_all(cache).map_err(Error::file(cache))?;
    let path = cache.join("build.lock");
    let lock = File::create(&path).map_err(Error::file(&path))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            (audience.say)("somebody else builds the programs already; waiting");
            lock.lock().map_err(Error::file(&path))?;
        }
        Err(TryLockError::Error(source)) => return Err(Error::File { path, source }),
    }
    let programs = missing();
    (audience.say)(&format!("building into {}; the first time takes minutes", cache.display()));
    for (index, program) in programs.iter().enumerate() {
        (audience.say)(&format!(
            "{program} {}: building ({} of {})",
            program.version(),
            index + 1,
            programs.len()
        ));
        let start = Instant::now();
        compile(*program, cache, audience)?;
        (audience.say)(&format!("{program}: built in {} s", start.elapsed().as_secs()));
    }
    Ok(())
}

/// The directory of the workspace that Cargo runs us in. It is looked for each time: programs in a build cache may
/// have been built from another clone.
pub fn workspace() -> PathBuf {
    let start = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let start = start.or_else(|| std::env::current_dir().ok()).unwrap_or_default();
    let root = start.ancestors().find(|directory| directory.join(MODULE).is_dir());
    root.map_or_else(PathBuf::new, Path::to_owned)
}

fn is_installed() -> bool {
    let answer = Command::new("go").arg("version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    answer.is_ok_and(|status| status.success())
}

fn compile(program: Program, cache: &Path, audience: &Audience<'_>) -> Result<(), Error> {
    let partial = cache.join(format!("{program}.partial"));
    let command = format!("go build {} in peers/control-plane", program.package());
    let not_started = |source| Error::NotStarted { program: "go".to_owned(), source };
    // Go, and the compilers it starts, end with us.
    let leash = Leash::new().map_err(|source| Error::NotStarted { program: "sh".to_owned(), source })?;
    let mut go = leash
        .spawn(
            Command::new("go")
                .args(["build", "-v", "-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags"])
                .arg(linker_flags())
                .arg("-o")
                .arg(&partial)
                .arg(program.package())
                .current_dir(workspace().join(MODULE))
                .env("CGO_ENABLED", "0")
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::piped()),
        )
        .map_err(not_started)?;
    let said =
        go.stderr.take().map(|pipe| listen(program, BufReader::new(pipe), audience)).unwrap_or_default();
    let status = go.wait().map_err(not_started)?;
    if status.success() {
        let path = cache.join(program.name());
        return fs::rename(&partial, &path).map_err(Error::file(path));
    }
    Err(refusal(program, command, said))
}

/// Why there is no program, by what Go said last.
fn refusal(program: Program, command: String, said: String) -> Error {
    if said.contains("requires go >=") {
        Error::OldGo { program, said }
    } else {
        Error::Build { command, said }
    }
}

/// Reports what Go does, and gives its last lines.
fn listen(program: Program, pipe: impl BufRead, audience: &Audience<'_>) -> String {
    let start = Instant::now();
    let mut reported = start;
    let (mut downloads, mut packages) = (0_u32, 0_u32);
    let mut last = VecDeque::new();
    for line in pipe.lines().map_while(Result::ok) {
        if line.starts_with("go: downloading ") {
            downloads += 1;
        } else if !line.contains(' ') {
            packages += 1;
        }
        if last.len() == LINES_KEPT {
            last.pop_front();
        }
        last.push_back(line);
        if reported.elapsed() >= REPORT_EVERY {
            reported = Instant::now();
            let seconds = start.elapsed().as_secs();
            (audience.say)(&format!(
                "{program}: {seconds} s, {downloads} modules downloaded, {packages} packages compiled"
            ));
        }
    }
    last.make_contiguous().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_an_old_go_is_told_to_get_a_newer_one() {
        let old = "go: errors parsing go.mod:\ngo: go.mod requires go >= 1.26.0 (running go 1.21.3; GOTOOLCHAIN=local)";
        let newer = "Go is too old to build etcd; get a newer one from https://go.dev/dl";
        for (said, expected) in [
            (old, newer),
            ("go: k8s.io/kubernetes@v1.36.4 requires go >= 1.26.0", newer),
            ("main.go:3:1: syntax error", "`go build x` failed:"),
            ("", "`go build x` failed:"),
        ] {
            let refused = refusal(Program::Etcd, "go build x".to_owned(), said.to_owned()).to_string();
            assert_eq!(refused, format!("{expected}\n{said}"));
        }
    }
}
