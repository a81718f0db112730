//! Random sequences of requests, asked of the world and of a real API server, which must answer alike.
//!
//! `BERTH_SEQUENCES=2000` plays more than usual, `BERTH_SEED=7` only the seventh, both together that many from there
//! on. Where answers differ, the sequence is made as small as it goes and printed, as a case for
//! `tests/contract/cases`, with the command that plays it again: `BERTH_REPLAY=file` plays the cases of a file.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a sequence that cannot be played is a mistake in the test"
)]

#[path = "../contract/asking.rs"]
mod asking;
mod bodies;
#[path = "../contract/case.rs"]
mod case;
mod draw;
#[path = "../contract/kubernetes.rs"]
mod kubernetes;
#[path = "../contract/plain.rs"]
mod plain;
#[path = "../contract/plane.rs"]
mod plane;
mod purpose;
#[path = "../contract/request.rs"]
mod request;
mod sequence;
mod shrink;

use std::fmt::Write;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use asking::Said;
use berth_control_plane::ControlPlane;
use case::Case;
use futures::{StreamExt, stream};
use kubernetes::Kubernetes;
use plane::Plane;
use request::Request;
use tokio::time::timeout;

/// So many are played unless somebody says how many.
const USUAL: u64 = 300;

/// So many are played at once, and so many that differ are shown.
const AT_ONCE: usize = 8;
const SHOWN_MAX: usize = 12;

/// How often it is said how far it is.
const SAID_EVERY: Duration = Duration::from_secs(10);

const COMMAND: &str = "cargo test -p berth-world --test random";

/// Plays sequences on both, each time in a namespace that nobody has used.
struct Stage {
    kubernetes: Kubernetes,
    played: AtomicUsize,
}

/// Where two answers differ.
struct Difference {
    at: usize,
    kubernetes: Said,
    world: Said,
}

impl Stage {
    async fn new(kubernetes: Kubernetes) -> Self {
        asking::play(&kubernetes, &sequence::stage(), "stage").await;
        Self { kubernetes, played: AtomicUsize::new(0) }
    }

    /// The first difference that is not meant to be.
    async fn difference(&self, sequence: &[Request]) -> Option<Difference> {
        let world = Kubernetes::of_world();
        asking::play(&world, &sequence::stage(), "stage").await;
        let namespace = format!("s{}", self.played.fetch_add(1, Ordering::Relaxed));
        let kubernetes = asking::play(&self.kubernetes, sequence, &namespace).await;
        let world = asking::play(&world, sequence, &namespace).await;
        for (at, (kubernetes, world)) in kubernetes.into_iter().zip(world).enumerate() {
            if kubernetes != world && purpose::why(&kubernetes, &world).is_none() {
                return Some(Difference { at, kubernetes, world });
            }
        }
        None
    }

    /// How the sequence of a seed differs, and how to see it again.
    async fn of_seed(&self, seed: u64) -> Option<String> {
        let sequence = sequence::draw(seed);
        let difference = self.difference(&sequence).await?;
        let (small, difference) = shrink::smallest(self, sequence, difference).await;
        let case = case_of(&format!("seed {seed}"), &small);
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("random-{seed}.txt"));
        std::fs::write(&file, &case).unwrap();
        let mut report = case + &told(&difference);
        if self.difference(&small).await.is_none() {
            report.push_str("It differs only sometimes.\n");
        }
        writeln!(report, "Again: BERTH_SEED={seed} {COMMAND}").unwrap();
        writeln!(report, "Only this: BERTH_REPLAY={} {COMMAND}", file.display()).unwrap();
        Some(report)
    }

    /// The same for a case that somebody has written down.
    async fn of_case(&self, case: &Case) -> Option<String> {
        let difference = self.difference(&case.requests).await?;
        let asked = case.requests.get(..=difference.at).unwrap_or_default();
        Some(case_of(&case.name, asked) + &told(&difference))
    }

    /// Plays the sequences of seeds until all are played, or enough of them differ; what is different.
    async fn of_seeds(&self, first: u64, count: u64) -> Vec<String> {
        let begin = Instant::now();
        let mut last_said = begin;
        let mut reports: Vec<String> = Vec::new();
        let seeds = first..first.saturating_add(count);
        let mut played = stream::iter(seeds).map(|seed| self.of_seed(seed)).buffer_unordered(AT_ONCE);
        let mut done = 0;
        while done < count && reports.len() < SHOWN_MAX {
            // It takes a while to make a sequence small.
            if let Ok(Some(report)) = timeout(SAID_EVERY, played.next()).await {
                done += 1;
                if let Some(report) = report {
                    say(&report);
                    reports.push(report);
                }
            }
            if done == count || last_said.elapsed() >= SAID_EVERY {
                let (seconds, differ) = (begin.elapsed().as_secs(), reports.len());
                say(&format!("{done} of {count} sequences after {seconds} s, {differ} differ\n"));
                last_said = Instant::now();
            }
        }
        reports
    }
}

fn case_of(name: &str, requests: &[Request]) -> String {
    let mut case = format!("# {name}\n");
    for request in requests {
        writeln!(case, "{request}").unwrap();
    }
    case
}

fn told(difference: &Difference) -> String {
    let mut told = String::new();
    for (sign, said) in [('-', &difference.kubernetes), ('+', &difference.world)] {
        for line in said {
            writeln!(told, "  {sign} {line}").unwrap();
        }
    }
    told
}

/// Past the test harness, which would keep it until the end.
fn say(text: &str) {
    let _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

#[tokio::test]
async fn the_world_answers_random_requests_as_kubernetes_does() {
    // Nothing else runs that would change what is written.
    let Some(plane) = ControlPlane::api_for_test().unwrap().map(Plane) else { return };
    let stage = Stage::new(Kubernetes::of_plane(&plane).await).await;
    let reports = if let Some(file) = std::env::var_os("BERTH_REPLAY") {
        let mut reports = Vec::new();
        for case in Case::all(&std::fs::read_to_string(file).unwrap()) {
            if let Some(report) = stage.of_case(&case).await {
                say(&report);
                reports.push(report);
            }
        }
        reports
    } else {
        let seed = number("BERTH_SEED");
        let count = number("BERTH_SEQUENCES").unwrap_or(if seed.is_some() { 1 } else { USUAL });
        stage.of_seeds(seed.unwrap_or(0), count).await
    };
    let count = reports.len();
    assert!(reports.is_empty(), "in {count} sequences the world (+) does not answer as Kubernetes does (-)");
}
