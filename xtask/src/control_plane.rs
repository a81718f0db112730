//! `cargo xtask control-plane`: a real Kubernetes control plane that outlives the command that starts it.

mod supervisor;

use std::fmt::Write;
use std::path::{Path, PathBuf};

use berth_control_plane::{Audience, Occupant, Programs, Record, Sources, Stopped, home_of, is_ready, stop};
use clap::{Args, Subcommand};

use crate::step::StepError;

const COMMAND: &str = "cargo xtask control-plane";

const HELP: &str = "\
The programs are taken from KUBEBUILDER_ASSETS if it is set; what it lacks is built with Go, which takes minutes, and \
kept outside the repository. Everything listens on 127.0.0.1 only and is thrown away by `down`.

Examples:
  cargo xtask control-plane up
  eval \"$(cargo xtask control-plane env)\" && kubectl get nodes
  cargo xtask control-plane down";

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Options {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Starts it, waits until it is ready, and prints its kubeconfig
    Up(Up),
    /// Stops it and removes all it wrote; fine if there is nothing to stop
    Down(Place),
    /// Says what runs where, in which version, and how it is
    Status(Place),
    /// Prints what a shell has to evaluate so that kubectl talks to it
    Env(Place),
    /// Owns the components after `up` has returned
    #[command(hide = true)]
    Supervise(Up),
}

#[derive(Debug, Args)]
struct Place {
    /// Where its files are while it runs [default: below XDG_STATE_HOME or ~/.local/state]
    #[arg(long, value_name = "DIR", env = "BERTH_CONTROL_PLANE_STATE")]
    state_dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct Up {
    #[command(flatten)]
    place: Place,
    /// The port of the API server [default: a free one]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Where built programs are kept [default: BERTH_CONTROL_PLANE_CACHE, else below XDG_CACHE_HOME or ~/.cache]
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,
}

impl Place {
    fn path(&self) -> Result<PathBuf, StepError> {
        let path = match &self.state_dir {
            Some(told) => told.clone(),
            None => home_of("the state", "XDG_STATE_HOME", ".local/state", |name| std::env::var_os(name))?,
        };
        // It is in kubeconfigs and in what `env` prints, which are used elsewhere.
        std::path::absolute(&path)
            .map_err(|source| StepError::File { path: path.display().to_string(), source })
    }
}

impl Up {
    fn sources(&self) -> Result<Sources, StepError> {
        let cache = self.cache_dir.as_ref().map(std::path::absolute).transpose();
        let cache = cache.map_err(|source| StepError::File { path: "--cache-dir".to_owned(), source })?;
        Ok(Sources::from_environment(cache)?)
    }
}

pub(crate) fn run(options: &Options) -> Result<(), StepError> {
    match &options.action {
        Action::Up(options) => up(options),
        Action::Down(place) => down(&place.path()?),
        Action::Status(place) => status(&place.path()?),
        Action::Env(place) => {
            let (_, record) = running(&place.path()?)?;
            println!("export KUBECONFIG={}", quoted(&record.kubeconfig));
            Ok(())
        }
        Action::Supervise(options) => supervisor::run(options),
    }
}

fn up(options: &Up) -> Result<(), StepError> {
    let path = options.place.path()?;
    if let Occupant::Alive { record: Some(record), .. } = Occupant::of(&path)? {
        eprintln!("it runs already; stop it with: {COMMAND} down");
        println!("{}", record.kubeconfig.display());
        return Ok(());
    }
    let audience = Audience { say: &|line| eprintln!("{line}"), has_left: &|| false };
    Programs::find_or_build(&options.sources()?, &audience)?;
    let record = supervisor::start(options, &path)?;
    eprintln!("it is up; use it with: eval \"$({COMMAND} env)\"");
    println!("{}", record.kubeconfig.display());
    Ok(())
}

fn down(path: &Path) -> Result<(), StepError> {
    println!(
        "{}",
        match stop(path)? {
            Stopped::Nothing => "there was nothing to stop",
            Stopped::Remains => "it had ended already; what it left was removed",
            Stopped::Running => "it is stopped, and everything it wrote is removed",
        }
    );
    Ok(())
}

fn status(path: &Path) -> Result<(), StepError> {
    let (pid, record) = running(path)?;
    let mut ready = Vec::new();
    for component in &record.components {
        ready.push(is_ready(path, component)?);
    }
    print!("{}", report(path, pid, &record, &ready));
    Ok(())
}

fn running(path: &Path) -> Result<(Option<u32>, Record), StepError> {
    let start = format!("start it with: {COMMAND} up");
    let message = match Occupant::of(path)? {
        Occupant::Alive { pid, record: Some(record) } => return Ok((pid, record)),
        Occupant::Alive { record: None, .. } => "the control plane is starting; ask again".to_owned(),
        Occupant::Nobody => format!("no control plane runs; {start}"),
        Occupant::Dead { epitaph: Some(why) } => {
            format!("the control plane ended by itself: {why}\nlogs are in {}; {start}", path.display())
        }
        Occupant::Dead { epitaph: None } => {
            stop(path)?;
            format!("the control plane was killed, and what it left is removed; {start}")
        }
    };
    Err(StepError::NotRunning { message })
}

/// Columns are as wide as their widest word.
fn report(path: &Path, pid: Option<u32>, record: &Record, ready: &[bool]) -> String {
    let heading = ["COMPONENT", "VERSION", "PID", "ADDRESS", "STATE"].map(str::to_owned);
    let rows = record.components.iter().zip(ready).map(|(component, ready)| {
        [
            component.program.to_string(),
            component.version.clone(),
            component.pid.to_string(),
            format!("127.0.0.1:{}", component.port),
            if *ready { "ready" } else { "not ready" }.to_owned(),
        ]
    });
    let rows: Vec<[String; 5]> = std::iter::once(heading).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().enumerate().map(|(column, cell)| format!("{cell:0$}", width(column)));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    let pid = pid.map_or_else(|| "unknown".to_owned(), |pid| pid.to_string());
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "\nkubeconfig  {}\nkubectl     {}\nlogs        {}\nsupervisor  pid {pid}\n",
        record.kubeconfig.display(),
        record.kubectl.display(),
        path.join("logs").display(),
    );
    text
}

/// For a POSIX shell, whatever is in it.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use berth_control_plane::{Component, Program};

    use super::*;

    #[test]
    fn a_path_survives_the_shell() {
        for (path, expected) in [("/a/b", "'/a/b'"), ("/a b/$c", "'/a b/$c'"), ("/it's", r"'/it'\''s'")] {
            assert_eq!(quoted(Path::new(path)), expected);
        }
    }

    #[test]
    fn a_report_is_a_table() {
        let component =
            |program, version: &str, pid, port| Component { program, version: version.to_owned(), pid, port };
        let record = Record {
            kubeconfig: PathBuf::from("/d/kubeconfig"),
            kubectl: PathBuf::from("/c/kubectl"),
            components: vec![
                component(Program::Etcd, "v3.6.16", 7, 4001),
                component(Program::KubeApiserver, "v1.36.4", 12345, 4003),
            ],
        };
        let expected = "\
COMPONENT       VERSION  PID    ADDRESS         STATE
etcd            v3.6.16  7      127.0.0.1:4001  ready
kube-apiserver  v1.36.4  12345  127.0.0.1:4003  not ready

kubeconfig  /d/kubeconfig
kubectl     /c/kubectl
logs        /d/logs
supervisor  pid 99
";
        assert_eq!(report(Path::new("/d"), Some(99), &record, &[true, false]), expected);
    }
}
