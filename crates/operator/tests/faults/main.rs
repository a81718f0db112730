//! The operator, with one thing after the other going wrong.
//!
//! A run of each workload in which nothing goes wrong counts what can; then each of it does, in a run of its own.
//! What must hold is checked from the world's truth after everything that happens.
//!
//! `BERTH_FAULTS=all` plays every case instead of some, `BERTH_FAULTS=W4,F19` those of a workload or a kind, and
//! `BERTH_REPLAY` the one that a failure names. `BERTH_SEEDS` is for what is drawn.

#![expect(clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod cloud;
mod faults;
mod invariants;
mod leaders;
mod meddling;
mod objects;
mod planted;
mod play;
mod points;
mod suite;
mod swarm;
mod truth;
mod workloads;

use berth_operator::PlantedBug;
use faults::{Case, Injection};
use suite::{Choice, played};
use workloads::Workload;

#[test]
fn single_faults() {
    let choice = Choice::from_environment();
    let mut cases: Vec<Case> = Vec::new();
    let references =
        Workload::ALL.map(|workload| Case { workload, seed: 1, kind: 0, injection: Injection::Nothing });
    let references = references.into_iter().filter(|case| choice.has_workload(case.workload));
    let references = played(&references.collect::<Vec<_>>());
    references.demand();
    for (case, outcome) in references.of() {
        for kind in points::KINDS.into_iter().filter(|kind| choice.has_kind(*kind)) {
            cases.extend(choice.some_of(points::cases(case.workload, kind, &outcome.counts)));
        }
    }
    let report = played(&cases);
    println!("{report}");
    report.demand();
}

/// Two that both lead, in the same epoch or not, with much that goes wrong: a limit is a limit.
#[test]
fn limits_hold_whoever_leads() {
    let seeds = std::env::var("BERTH_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(4);
    let case =
        |seed| Case { workload: Workload::Limit, seed, kind: faults::SWARM, injection: Injection::Swarm };
    let report = played(&(1..=seeds).map(case).collect::<Vec<_>>());
    println!("{report}");
    report.demand();
}

#[test]
fn planted_bugs_are_caught() {
    let mut missed = Vec::new();
    for bug in PlantedBug::ALL {
        match planted::caught(bug) {
            Some(by) => println!("{by}"),
            None => missed.push(bug),
        }
    }
    assert!(missed.is_empty(), "{missed:?}");
}

#[test]
fn replays() {
    let Ok(text) = std::env::var("BERTH_REPLAY") else { return };
    let case: Case = text.parse().unwrap_or_else(|why| panic!("{why}"));
    let report = played(&[case]);
    println!("{report}");
    report.demand();
}
