//! Random sequences of requests, asked of the world and of a real API server, which must answer alike.
//!
//! 60 sequences by default, `BERTH_SEQUENCES=2000` for more; `BERTH_SEED=7` plays only the seventh. Where the
//! answers differ, the sequence is made as small as it goes and printed as a case for `tests/contract/cases`.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a sequence that cannot be played is a mistake in the test"
)]

#[path = "../contract/asking.rs"]
mod asking;
mod bodies;
mod draw;
#[path = "../contract/plain.rs"]
mod plain;
#[path = "../contract/plane.rs"]
mod plane;
mod purpose;
#[path = "../contract/request.rs"]
#[expect(dead_code, reason = "the contract's cases watch in more ways")]
mod request;
mod sequence;
mod shrink;

use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

use asking::Said;
use berth_control_plane::ControlPlane;
use berth_world::World;
use futures::future::join_all;
use kube::Client;
use plane::Plane;
use request::Request;

/// So many are played at once, and so many that differ are shown.
const AT_ONCE: usize = 8;
const SHOWN_MAX: usize = 12;

/// Plays sequences on both, each time in a namespace that nobody has used.
struct Stage {
    kubernetes: Client,
    played: AtomicUsize,
}

/// Where two answers differ.
struct Difference {
    at: usize,
    kubernetes: Said,
    world: Said,
}

impl Stage {
    async fn new(kubernetes: Client) -> Self {
        asking::play(&kubernetes, &sequence::stage(), "stage").await;
        Self { kubernetes, played: AtomicUsize::new(0) }
    }

    /// The first difference that is not meant to be.
    async fn difference(&self, sequence: &[Request]) -> Option<Difference> {
        let world = World::new(1, "2026-01-01T00:00:00Z".parse().unwrap());
        let client = Client::new(world.router(), "default");
        asking::play(&client, &sequence::stage(), "stage").await;
        let namespace = format!("s{}", self.played.fetch_add(1, Ordering::Relaxed));
        let kubernetes = asking::play(&self.kubernetes, sequence, &namespace).await;
        let world = asking::play(&client, sequence, &namespace).await;
        for (at, (kubernetes, world)) in kubernetes.into_iter().zip(world).enumerate() {
            if kubernetes != world && purpose::why(&sequence[at], &kubernetes, &world).is_none() {
                return Some(Difference { at, kubernetes, world });
            }
        }
        None
    }

    /// As a case of the contract, with both answers.
    async fn report(&self, seed: u64) -> Option<String> {
        let sequence = sequence::draw(seed);
        self.difference(&sequence).await?;
        let small = shrink::smallest(self, sequence).await;
        let Some(difference) = self.difference(&small).await else {
            return Some(format!("# seed {seed}: it differs only sometimes\n"));
        };
        let mut report = format!("# seed {seed}\n");
        for request in small.iter().take(difference.at + 1) {
            writeln!(report, "{request}").unwrap();
        }
        for (sign, said) in [('-', difference.kubernetes), ('+', difference.world)] {
            report.extend(said.iter().map(|line| format!("  {sign} {line}\n")));
        }
        Some(report)
    }
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
    let stage = Stage::new(plane.client().await).await;
    let seeds: Vec<u64> = match number("BERTH_SEED") {
        Some(seed) => vec![seed],
        None => (0..number("BERTH_SEQUENCES").unwrap_or(60)).collect(),
    };
    let mut reports: Vec<String> = Vec::new();
    for some in seeds.chunks(AT_ONCE) {
        for report in join_all(some.iter().map(|seed| stage.report(*seed))).await.into_iter().flatten() {
            // Written past the test harness: it takes a while until all are found.
            let _ = std::io::Write::write_all(&mut std::io::stderr(), report.as_bytes());
            reports.push(report);
        }
        if reports.len() >= SHOWN_MAX {
            break;
        }
    }
    let count = reports.len();
    assert!(reports.is_empty(), "in {count} sequences the world (+) does not answer as Kubernetes does (-)");
}
