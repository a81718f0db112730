//! One table of API behaviours, asked of the world and of a real API server, which must answer alike.
//!
//! Cases are in `cases/*.txt`: what is asked, in order. What Kubernetes answered is beside them in `*.answers`, so
//! that the world is held to it where no Kubernetes is at hand. Where one is, it is asked as well, and
//! `BERTH_RECORD=1 cargo test -p berth-world --test contract` writes its answers down anew.
//!
//! Where the world differs on purpose, a case says why and both answers are kept, Kubernetes' after `k`, the
//! world's after `w`. `BERTH_CASES=lists` plays only the files whose names begin so.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a case that cannot be played is a mistake in the test"
)]

mod asking;
mod case;
mod kubernetes;
mod plain;
mod plane;
mod request;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

use asking::Said;
use berth_control_plane::ControlPlane;
use case::Case;
use kubernetes::Kubernetes;
use plane::Plane;

fn directory() -> PathBuf {
    PathBuf::from("tests/contract/cases")
}

/// The files with cases, by name.
fn files() -> Vec<PathBuf> {
    let wanted = std::env::var("BERTH_CASES").unwrap_or_default();
    let mut files: Vec<PathBuf> = std::fs::read_dir(directory())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .filter(|path| path.file_stem().is_some_and(|stem| stem.to_string_lossy().starts_with(&wanted)))
        .collect();
    files.sort();
    files
}

fn cases(file: &Path) -> Vec<Case> {
    Case::all(&std::fs::read_to_string(file).unwrap())
}

/// All that a Kubernetes says to the cases of a file: for each case, for each request.
async fn answers(kubernetes: &Kubernetes, file: &Path) -> Vec<Vec<Said>> {
    let stem = file.file_stem().unwrap().to_string_lossy().into_owned();
    let mut answers = Vec::new();
    for (number, case) in cases(file).iter().enumerate() {
        answers.push(asking::play(kubernetes, &case.requests, &format!("{stem}-{number}")).await);
    }
    answers
}

async fn answers_of_the_world(file: &Path) -> Vec<Vec<Said>> {
    answers(&Kubernetes::of_world(), file).await
}

/// The answers as they are kept. What one of both says on purpose has their letter before it.
fn transcript(file: &Path, answers: &[Vec<Said>], letter: char) -> String {
    let mut transcript = String::new();
    for (case, answers) in cases(file).iter().zip(answers) {
        writeln!(transcript, "# {}", case.name).unwrap();
        for (index, said) in answers.iter().enumerate() {
            for line in said {
                match case.differences.get(&index) {
                    Some(_) => writeln!(transcript, "{letter} {line}").unwrap(),
                    None => writeln!(transcript, "{line}").unwrap(),
                }
            }
        }
    }
    transcript
}

/// What is kept, as one of both said it.
fn kept(file: &Path, letter: char) -> String {
    let text = std::fs::read_to_string(file.with_extension("answers")).unwrap_or_default();
    let others = if letter == 'k' { "w " } else { "k " };
    text.lines().filter(|line| !line.starts_with(others)).fold(String::new(), |kept, line| kept + line + "\n")
}

/// Kubernetes' answers, with the world's under them where those differ on purpose.
fn both(file: &Path, kubernetes: &[Vec<Said>], world: &[Vec<Said>]) -> String {
    let mut both = String::new();
    for ((case, kubernetes), world) in cases(file).iter().zip(kubernetes).zip(world) {
        writeln!(both, "# {}", case.name).unwrap();
        for (index, (kubernetes, world)) in kubernetes.iter().zip(world).enumerate() {
            if !case.differences.contains_key(&index) {
                both.extend(kubernetes.iter().map(|line| format!("{line}\n")));
                continue;
            }
            assert_ne!(kubernetes, world, "{}: there is no difference any more", case.name);
            both.extend(kubernetes.iter().map(|line| format!("k {line}\n")));
            both.extend(world.iter().map(|line| format!("w {line}\n")));
        }
    }
    both
}

/// The lines in which two transcripts differ, under the names of their cases.
fn differences(expected: &str, said: &str) -> String {
    let by_case = |text: &str| -> BTreeMap<String, Vec<String>> {
        let text = format!("\n{text}");
        let cases = text.split("\n# ").filter(|case| !case.trim().is_empty());
        let lines = cases.map(|case| case.lines().map(str::to_owned).collect::<Vec<String>>());
        lines.map(|mut lines| (lines.remove(0), lines)).collect()
    };
    let (expected, said) = (by_case(expected), by_case(said));
    let names: BTreeSet<&String> = expected.keys().chain(said.keys()).collect();
    let mut wrong = String::new();
    for name in names {
        let lines = |of: &BTreeMap<String, Vec<String>>| of.get(name).cloned().unwrap_or_default();
        let (expected, said) = (lines(&expected), lines(&said));
        for index in 0..expected.len().max(said.len()) {
            let (was, is) = (expected.get(index), said.get(index));
            if was != is {
                let line = |line: Option<&String>| line.map_or("nothing", |line| line).to_owned();
                writeln!(wrong, "{name}\n  - {}\n  + {}", line(was), line(is)).unwrap();
            }
        }
    }
    wrong
}

#[tokio::test]
async fn the_world_answers_as_kubernetes_does() {
    let mut wrong = String::new();
    for file in files() {
        let said = transcript(&file, &answers_of_the_world(&file).await, 'w');
        wrong.push_str(&differences(&kept(&file, 'w'), &said));
    }
    assert!(wrong.is_empty(), "the world (+) does not answer as Kubernetes did (-):\n{wrong}");
}

/// How many API servers are asked side by side. Most of the time is spent waiting for one.
const LANES: usize = 3;

/// What Kubernetes does not say as it did to some files, one after the other.
async fn changes(plane: &Plane, files: impl Iterator<Item = &PathBuf>) -> String {
    let kubernetes = Kubernetes::of_plane(plane).await;
    let record = std::env::var_os("BERTH_RECORD").is_some();
    let mut wrong = String::new();
    for file in files {
        let said = answers(&kubernetes, file).await;
        if record {
            let world = answers_of_the_world(file).await;
            std::fs::write(file.with_extension("answers"), both(file, &said, &world)).unwrap();
        }
        wrong.push_str(&differences(&kept(file, 'k'), &transcript(file, &said, 'k')));
    }
    wrong
}

#[tokio::test]
async fn kubernetes_answers_as_it_did() {
    let files = files();
    // Each lane has a server of its own, in which nothing else runs that would change what is written.
    let lanes = (0..LANES).map(|lane| {
        let plane = ControlPlane::api_for_test().unwrap().map(Plane)?;
        let files = files.iter().skip(lane).step_by(LANES);
        Some(async move { changes(&plane, files).await })
    });
    let Some(lanes) = lanes.collect::<Option<Vec<_>>>() else { return };
    let wrong = futures::future::join_all(lanes).await.concat();
    assert!(wrong.is_empty(), "Kubernetes (+) does not answer as it did (-):\n{wrong}");
}

/// Rules of a schema may cost only so much, which nobody but an API server reckons.
#[tokio::test]
async fn berths_own_definitions_are_taken() {
    let Some(plane) = ControlPlane::api_for_test().unwrap().map(Plane) else { return };
    let both = [plane.client().await, Kubernetes::of_world().client];
    for (client, who) in both.iter().zip(["Kubernetes", "the world"]) {
        for definition in berth_api::crds::all() {
            let name = definition.metadata.name.clone().unwrap_or_default();
            let request = http::Request::post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
                .header("content-type", "application/json")
                .body(serde_json::to_vec(&definition).unwrap());
            let made = client.request_text(request.unwrap()).await;
            assert!(made.is_ok(), "{who} refuses {name}: {made:?}");
        }
    }
}

#[test]
fn the_table_is_as_long_as_was_promised() {
    let all: Vec<Case> = files().iter().flat_map(|file| cases(file)).collect();
    let names: BTreeSet<&str> = all.iter().map(|case| &*case.name).collect();
    assert_eq!(names.len(), all.len(), "two cases have the same name");
    assert!(all.len() >= 160 || std::env::var_os("BERTH_CASES").is_some(), "only {} cases", all.len());
}
