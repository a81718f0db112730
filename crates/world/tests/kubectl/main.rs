//! What somebody types, on the world and on a real cluster, which must print the same.
//!
//! Cases are in `cases/*.txt`: command lines with what they read, in order. What kubectl printed on Kubernetes is
//! beside them in `*.answers`, without ages, identities and the like. The world is held to it wherever there is a
//! kubectl. Where the other programs of the control plane are at hand, it is asked as well, and
//! `BERTH_RECORD=1 cargo test -p berth-world --test kubectl` writes down anew what it says. `BERTH_CASES=drains` plays the
//! cases of one file.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a case that cannot be played is a mistake in the test"
)]

mod case;
mod plain;
mod shell;

use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use berth_control_plane::{Audience, ControlPlane, Directory, Program, Programs};
use berth_world::World;
use case::{Case, Step};
use jiff::Timestamp;
use shell::Shell;
use tokio::sync::oneshot;

/// The files with cases, by name.
fn files() -> Vec<PathBuf> {
    let only = std::env::var_os("BERTH_CASES");
    let mut files: Vec<PathBuf> = std::fs::read_dir("tests/kubectl/cases")
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .filter(|path| only.as_deref().is_none_or(|only| path.file_stem() == Some(only)))
        .collect();
    files.sort();
    files
}

/// All that is printed by the cases of a file.
fn transcript(shell: &Shell, file: &Path) -> String {
    let text = std::fs::read_to_string(file).unwrap();
    let stem = file.file_stem().unwrap().to_string_lossy().into_owned();
    let mut transcript = String::new();
    for (number, case) in Case::all(&text).iter().enumerate() {
        let namespace = format!("{stem}-{number}");
        let case = case.filled_in(&namespace);
        writeln!(transcript, "# {}", case.name).unwrap();
        let mut session = shell.session(&namespace);
        for step in &case.steps {
            let (title, printed) = match step {
                Step::Run { line, input } => (line.clone(), session.run(line, input)),
                Step::Quietly { line, input } => {
                    session.until_it_works(line, input);
                    continue;
                }
                Step::Begin { line } => {
                    session.begin(line);
                    continue;
                }
                Step::End { lines } => (format!("{lines} lines"), session.end(*lines)),
            };
            writeln!(transcript, "$ {}", title.replace(&namespace, "{ns}")).unwrap();
            transcript.push_str(&plain::plain(&printed, &namespace));
        }
    }
    transcript
}

fn answers_of(file: &Path) -> PathBuf {
    file.with_extension("answers")
}

/// Serves a world on a thread of its own until the sender is dropped.
fn world() -> (String, oneshot::Sender<()>) {
    let (ready, kubeconfig) = mpsc::channel();
    let (keep, dropped) = oneshot::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let world = World::new(1, Timestamp::now());
            // As KWOK does it.
            world.kubelets().start_within(Duration::ZERO, Duration::ZERO);
            let served = world.serve(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.unwrap();
            ready.send(served.kubeconfig().to_owned()).unwrap();
            tokio::select! {
                _ = dropped => {}
                () = world.live() => {}
            }
            served.stop().await;
        });
    });
    (kubeconfig.recv().unwrap(), keep)
}

#[test]
fn kubectl_finds_the_world_as_it_finds_kubernetes() {
    let Some(programs) = Programs::for_test().unwrap() else { return };
    let play = |file: PathBuf| {
        let (kubeconfig, _keep) = world();
        let shell = Shell::new(programs.path(Program::Kubectl), &kubeconfig);
        let expected = std::fs::read_to_string(answers_of(&file)).unwrap_or_default();
        plain::differences(&expected, &transcript(&shell, &file))
    };
    // Each has a world of its own, and much of the time it waits.
    let wrong: String = thread::scope(|scope| {
        let played: Vec<_> = files().into_iter().map(|file| scope.spawn(|| play(file))).collect();
        played.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert!(
        wrong.is_empty(),
        "kubectl on the world (+) does not say what it did on Kubernetes (-):\n{wrong}"
    );
}

/// How many control planes are asked side by side. Most of the time is spent waiting for one.
const LANES: usize = 2;

#[test]
fn kubectl_finds_kubernetes_as_it_did() {
    let Some(programs) = Programs::for_test().unwrap() else { return };
    let record = std::env::var_os("BERTH_RECORD").is_some();
    let files = files();
    let play = |lane: usize| {
        let directory = Directory::temporary().unwrap();
        let plane = ControlPlane::start(&programs, directory, None, &Audience::silent()).unwrap();
        let kubeconfig = std::fs::read_to_string(plane.kubeconfig()).unwrap();
        let mut wrong = String::new();
        for file in files.iter().skip(lane).step_by(LANES) {
            let shell = Shell::new(&plane.record().kubectl, &kubeconfig);
            let said = transcript(&shell, file);
            if record {
                std::fs::write(answers_of(file), &said).unwrap();
            }
            let expected = std::fs::read_to_string(answers_of(file)).unwrap_or_default();
            wrong.push_str(&plain::differences(&expected, &said));
        }
        wrong
    };
    let wrong: String = thread::scope(|scope| {
        let lanes: Vec<_> = (0..LANES)
            .map(|lane| {
                scope.spawn({
                    let play = &play;
                    move || play(lane)
                })
            })
            .collect();
        lanes.into_iter().map(|lane| lane.join().unwrap()).collect()
    });
    assert!(wrong.is_empty(), "kubectl on Kubernetes (+) does not say what it did (-):\n{wrong}");
}
