//! The operator, with one thing after the other going wrong.
//!
//! A fault-free run of each workload counts what can go wrong; then each of it does, in a run of its own. What must
//! hold is checked from the world's truth after everything that happens.

#![expect(clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod cloud;
mod faults;
mod invariants;
mod objects;
mod play;
mod truth;
mod workloads;

use faults::{Case, Injection};
use workloads::Workload;

/// What to type to see it again.
fn replay(case: &Case) -> String {
    format!("BERTH_REPLAY='{case}' cargo test -p berth-operator --test faults replays -- --nocapture")
}

fn checked(case: &Case, catalog: &std::sync::Arc<berth_core::catalog::Catalog>) -> play::Outcome {
    let outcome = play::play(case, catalog);
    if let Some(broken) = &outcome.broken {
        panic!("{broken}\n{}\n{}", outcome.told, replay(case));
    }
    outcome
}

#[test]
fn nothing_goes_wrong() {
    let catalog = play::catalog();
    for workload in Workload::ALL {
        let case = Case { workload, seed: 1, kind: 0, injection: Injection::Nothing };
        let began = std::time::Instant::now();
        let outcome = play::play(&case, &catalog);
        println!("{workload} {:?} {:?}", began.elapsed(), outcome.counts);
        if let Some(broken) = &outcome.broken {
            println!("{broken}\n{}\n{}", outcome.told, replay(&case));
        }
    }
}

#[test]
fn crashes() {
    let catalog = play::catalog();
    let workload = Workload::W1;
    let reference = Case { workload, seed: 1, kind: 0, injection: Injection::Nothing };
    let counts = checked(&reference, &catalog).counts;
    for case in faults::crashes(workload, &counts) {
        let outcome = play::play(&case, &catalog);
        match outcome.broken {
            Some(broken) => println!("{broken}\n{}\n{}", outcome.told, replay(&case)),
            None => println!("ok {case} {}", outcome.struck),
        }
    }
}

#[test]
fn replays() {
    let Ok(text) = std::env::var("BERTH_REPLAY") else { return };
    let case: Case = text.parse().expect("a case");
    checked(&case, &play::catalog());
}
