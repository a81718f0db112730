//! Starts the components in order, waits until each is ready, and ends them together.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use crate::audience::Audience;
use crate::certificates::Identity;
use crate::directory::{Component, Directory, Record};
use crate::error::Error;
use crate::files::{Files, Secrets};
use crate::flags::flags;
use crate::leash::Leash;
use crate::ports::Ports;
use crate::probe::Probe;
use crate::program::Program;
use crate::programs::Programs;

/// Usually all of them take five seconds together; a busy machine needs longer.
const PATIENCE: Duration = Duration::from_mins(2);

const LOOK_EVERY: Duration = Duration::from_millis(25);

/// A port can be lost between its choice and its use, hardly three times in a row.
const ATTEMPTS: u32 = 3;

/// What is started together, in order. The last three need the API server, but not each other.
const WHOLE: [&[Program]; 3] = [
    &[Program::Etcd],
    &[Program::KubeApiserver],
    &[Program::KubeControllerManager, Program::KubeScheduler, Program::Kwok],
];

/// The end of a log that is worth showing.
const LOG_LINES: usize = 15;

/// A control plane that runs as long as this lives, and not longer: dropping it, or the death of the process
/// that has it, ends all components. Dropping also removes its directory.
#[derive(Debug)]
pub struct ControlPlane {
    // Fields are dropped in this order: nothing may write to the directory any more when it goes.
    running: Running,
    directory: Directory,
    record: Record,
}

impl ControlPlane {
    /// Returns when a pod could be created. `apiserver` is the port of the API server; a free one without it.
    pub fn start(
        programs: &Programs,
        directory: Directory,
        apiserver: Option<u16>,
        audience: &Audience<'_>,
    ) -> Result<Self, Error> {
        Self::start_parts(&WHOLE, programs, directory, apiserver, audience)
    }

    /// Only etcd and the API server: what is written stays as it was written.
    pub fn start_api(
        programs: &Programs,
        directory: Directory,
        audience: &Audience<'_>,
    ) -> Result<Self, Error> {
        Self::start_parts(&WHOLE[..2], programs, directory, None, audience)
    }

    fn start_parts(
        parts: &[&[Program]],
        programs: &Programs,
        directory: Directory,
        apiserver: Option<u16>,
        audience: &Audience<'_>,
    ) -> Result<Self, Error> {
        let secrets = Secrets::new()?;
        let has_left = || (audience.has_left)() || directory.is_asked_to_stop();
        let audience = &Audience { say: audience.say, has_left: &has_left };
        let mut attempt = 1;
        let (running, ports) = loop {
            let ports = Ports::choose(apiserver)?;
            match Running::start(parts, programs, &directory, &secrets, ports, audience) {
                Ok(running) => break (running, ports),
                Err(error) if attempt < ATTEMPTS && is_lost_port(&error) => {
                    (audience.say)("somebody else took a port; choosing others");
                    attempt += 1;
                }
                Err(error) => return Err(error),
            }
        };
        let components = running.components.iter().map(|(program, child)| Component {
            program: *program,
            version: programs.version(*program).to_owned(),
            pid: child.id(),
            port: port_of(*program, ports),
        });
        let files = Files::below(directory.path());
        let record = Record {
            kubeconfig: files.kubeconfig(Identity::Admin),
            kubectl: programs.path(Program::Kubectl).to_owned(),
            components: components.collect(),
        };
        directory.write_record(&record)?;
        Ok(Self { running, directory, record })
    }

    /// One for a test, or nothing where its programs are not at hand.
    pub fn for_test() -> Result<Option<Self>, Error> {
        let Some(programs) = Programs::for_test()? else { return Ok(None) };
        Self::start(&programs, Directory::temporary()?, None, &Audience::silent()).map(Some)
    }

    /// The same with nothing but etcd and the API server.
    pub fn api_for_test() -> Result<Option<Self>, Error> {
        let Some(programs) = Programs::for_test()? else { return Ok(None) };
        Self::start_api(&programs, Directory::temporary()?, &Audience::silent()).map(Some)
    }

    /// For an administrator.
    pub fn kubeconfig(&self) -> &Path {
        &self.record.kubeconfig
    }

    /// A kubectl of the same version.
    pub fn kubectl(&self) -> Command {
        let mut command = Command::new(&self.record.kubectl);
        command.arg("--kubeconfig").arg(&self.record.kubeconfig);
        command
    }

    pub fn record(&self) -> &Record {
        &self.record
    }

    pub fn is_asked_to_stop(&self) -> bool {
        self.directory.is_asked_to_stop()
    }

    /// Whether all components still run; if one has ended, why.
    pub fn check(&mut self) -> Result<(), Error> {
        let files = Files::below(self.directory.path());
        self.running.check(&files)
    }

    /// Ends all components and leaves the directory with its logs, and `why` beside them.
    pub fn bury(mut self, why: &Error) -> Result<(), Error> {
        self.running.end();
        self.directory.leave_epitaph(&why.to_string())
    }
}

#[derive(Debug)]
struct Running {
    leash: Leash,
    components: Vec<(Program, Child)>,
}

impl Running {
    fn start(
        parts: &[&[Program]],
        programs: &Programs,
        directory: &Directory,
        secrets: &Secrets,
        ports: Ports,
        audience: &Audience<'_>,
    ) -> Result<Self, Error> {
        let files = &Files::below(directory.path());
        secrets.write(files, ports.apiserver)?;
        // An earlier attempt may have begun to fill it.
        if files.etcd_data().exists() {
            fs::remove_dir_all(files.etcd_data()).map_err(Error::file(files.etcd_data()))?;
        }
        let probe = Probe::new(secrets.authority.as_bytes(), secrets.clients.get(&Identity::Admin))?;
        let leash = Leash::new().map_err(|source| Error::NotStarted { program: "sh".to_owned(), source })?;
        let mut running = Self { leash, components: Vec::new() };
        for together in parts {
            for program in *together {
                running.spawn(*program, programs.path(*program), directory, ports)?;
            }
            for program in *together {
                let port = port_of(*program, ports);
                running.wait(*program, files, audience, || probe.is_ready(*program, port))?;
                (audience.say)(&format!(
                    "{program} {}: ready on 127.0.0.1:{port}",
                    programs.version(*program)
                ));
            }
        }
        if parts.len() == WHOLE.len() {
            running.wait(Program::KubeControllerManager, files, audience, || {
                probe.has_default_service_account(ports.apiserver)
            })?;
        }
        Ok(running)
    }

    fn spawn(
        &mut self,
        program: Program,
        path: &Path,
        directory: &Directory,
        ports: Ports,
    ) -> Result<(), Error> {
        let files = &Files::below(directory.path());
        let log_path = log_of(program, files);
        let log = File::create(&log_path).map_err(Error::file(&log_path))?;
        let errors = log.try_clone().map_err(Error::file(&log_path))?;
        let child = self
            .leash
            .spawn(
                Command::new(path)
                    .args(flags(program, files, ports))
                    .current_dir(files.logs())
                    .stdin(directory.tie().map_err(Error::file(directory.path()))?)
                    .stdout(log)
                    .stderr(errors),
            )
            .map_err(|source| Error::NotStarted { program: path.display().to_string(), source })?;
        self.components.push((program, child));
        Ok(())
    }

    fn wait(
        &mut self,
        program: Program,
        files: &Files,
        audience: &Audience<'_>,
        is_ready: impl Fn() -> bool,
    ) -> Result<(), Error> {
        let start = Instant::now();
        while !is_ready() {
            self.check(files)?;
            if (audience.has_left)() {
                return Err(Error::Cancelled);
            }
            if start.elapsed() > PATIENCE {
                let said = last_lines(&log_of(program, files));
                return Err(Error::NotReady { program, seconds: PATIENCE.as_secs(), said });
            }
            thread::sleep(LOOK_EVERY);
        }
        // Somebody else may answer on a port that this component wanted.
        self.check(files)
    }

    fn check(&mut self, files: &Files) -> Result<(), Error> {
        for (program, child) in &mut self.components {
            let status = match child.try_wait() {
                Ok(None) => continue,
                Ok(Some(status)) => status.to_string(),
                Err(error) => error.to_string(),
            };
            return Err(Error::Ended {
                program: *program,
                status,
                said: last_lines(&log_of(*program, files)),
            });
        }
        if self.leash.holds() { Ok(()) } else { Err(Error::Unleashed) }
    }

    /// The data is thrown away, so nobody needs time to write it down.
    fn end(&mut self) {
        self.leash.let_go();
        for (_, child) in &mut self.components {
            // Only if the shell was killed before is there anybody left to kill.
            let _ = child.kill();
            let _ = child.wait();
        }
        self.components.clear();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

fn port_of(program: Program, ports: Ports) -> u16 {
    match program {
        Program::Etcd => ports.etcd,
        Program::KubeApiserver | Program::Kubectl => ports.apiserver,
        Program::KubeControllerManager => ports.controller_manager,
        Program::KubeScheduler => ports.scheduler,
        Program::Kwok => ports.kwok,
    }
}

fn is_lost_port(error: &Error) -> bool {
    matches!(error, Error::Ended { said, .. } if said.contains("address already in use"))
}

fn log_of(program: Program, files: &Files) -> PathBuf {
    files.logs().join(format!("{program}.log"))
}

fn last_lines(log: &Path) -> String {
    let bytes = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_port_is_told_from_other_ends() {
        for (said, lost) in
            [("listen tcp 127.0.0.1:3: bind: address already in use", true), ("panic: runtime error", false)]
        {
            let ended =
                Error::Ended { program: Program::Kwok, status: "1".to_owned(), said: said.to_owned() };
            assert_eq!(is_lost_port(&ended), lost, "{said}");
        }
        assert!(!is_lost_port(&Error::Cancelled));
    }
}
