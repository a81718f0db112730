//! The operator, with one thing after the other going wrong.
//!
//! A run of each workload in which nothing goes wrong counts what can; then each of it does, in a run of its own.
//! What must hold is checked from the world's truth after everything that happens.
//!
//! `BERTH_FAULTS=all` plays every case instead of some, `BERTH_FAULTS=W4,F19` those of a workload or a kind, and
//! `BERTH_REPLAY` the one that a failure names. `BERTH_SEEDS` is for what is drawn.

#![expect(clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

#[path = "../shared/account.rs"]
mod account;
mod cloud;
mod dialect;
mod faults;
mod invariants;
mod leaders;
#[path = "../shared/lots.rs"]
mod lots;
mod meddling;
mod objects;
mod planted;
mod play;
mod points;
mod suite;
mod swarm;
mod things;
mod truth;
mod workloads;

use berth_operator::PlantedBug;
use faults::{Case, Injection};
use suite::{Choice, played};
use workloads::Workload;

#[test]
fn single_faults() {
    one_at_a_time(&Workload::KARPENTER);
}

#[test]
fn single_faults_at_vpsie() {
    one_at_a_time(&Workload::VPSIE);
}

fn one_at_a_time(workloads: &[Workload]) {
    let choice = Choice::from_environment();
    let mut cases: Vec<Case> = Vec::new();
    let chosen = workloads.iter().copied().filter(|workload| choice.has_workload(*workload));
    let references =
        chosen.map(|workload| Case { workload, seed: 1, kind: 0, injection: Injection::Nothing });
    let references = played(&references.collect::<Vec<_>>());
    references.demand();
    for (case, outcome) in references.of() {
        let kinds = points::kinds(case.workload.dialect()).iter();
        for kind in kinds.filter(|kind| choice.has_kind(**kind)) {
            cases.extend(choice.some_of(points::cases(case.workload, *kind, &outcome.counts)));
        }
    }
    let is_played = |kind: &&u8| cases.iter().any(|case| case.kind == **kind);
    let kinds = workloads.iter().flat_map(|workload| points::kinds(workload.dialect()));
    let unplayed: Vec<&u8> = kinds.filter(|kind| !is_played(kind)).collect();
    assert!(!choice.is_usual() || unplayed.is_empty(), "no cases of these kinds: {unplayed:?}");
    let report = played(&cases);
    println!("{report}");
    report.demand();
}

/// Two that both lead, in the same epoch or not, with much that goes wrong: a limit is a limit. Each seed is played against
/// one of nodes, and every other besides against one of money.
#[test]
fn limits_hold_whoever_leads() {
    swarms(4, |seed| {
        if seed.is_multiple_of(2) { &[Workload::Limit] } else { &[Workload::Limit, Workload::MoneyLimit] }
    });
}

/// Groups of VPSie's grow and shrink while much goes wrong: no machine is lost or doubled, and no check passed over.
#[test]
fn nothing_is_lost_or_doubled_at_vpsie() {
    let workloads: &'static [Workload] = &Workload::VPSIE;
    swarms(4, |seed| &workloads[(seed - 1) % workloads.len()..][..1]);
}

/// Plays so many seeds, unless others are asked for, each on these workloads.
fn swarms(usually: usize, workloads_of: impl Fn(usize) -> &'static [Workload]) {
    let seeds = std::env::var("BERTH_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(usually);
    let case = |seed: usize, workload: Workload| Case {
        workload,
        seed: seed as u64,
        kind: faults::SWARM,
        injection: Injection::Swarm,
    };
    let cases = (1..=seeds).flat_map(|seed| workloads_of(seed).iter().map(move |of| case(seed, *of)));
    let report = played(&cases.collect::<Vec<_>>());
    println!("{report}");
    report.demand();
}

/// What a failure names can be seen again: nothing depends on anything but the case.
#[test]
fn the_same_seed_gives_the_same_trace() {
    let catalog = play::catalog();
    for text in [
        "W1 seed 1 F7 api berth after write * #5: rewind 30 for 120s; berth after write * #5: crash",
        "V1Servers seed 1 F5 api berth before write * #4x2: status 502",
    ] {
        let case: Case = text.parse().expect("a case");
        let (once, again) = (play::traced(&case, &catalog), play::traced(&case, &catalog));
        let lines = once.trace.lines().zip(again.trace.lines());
        if let Some((line, (left, right))) = lines.enumerate().find(|(_, (left, right))| left != right) {
            panic!("{case} goes differently from line {line}:\n  {left}\n  {right}");
        }
        assert_eq!(once.trace.len(), again.trace.len(), "{case}");
        assert!(once.struck > 0 && once.trace.lines().count() > 100, "{case}: {}", once.told);
    }
}

/// What is planned and never happens is not taken for something that was withstood.
#[test]
fn faults_that_never_strike_are_not_counted() {
    let cases = [
        (r#"{"calls":{"launch":{"unreachable":{"nth":[1]}}}}"#, true),
        (r#"{"calls":{"launch":{"unreachable":{"nth":[1000]}}}}"#, false),
        (r#"{"joins":{"late":{"nth":[1]}}}"#, true),
        (r#"{"joins":{"late":{"nth":[1000]}}}"#, false),
        (r#"{"reclaims":[{"atMs":1,"of":{},"sharePermille":1000}]}"#, false),
    ];
    let case = |(weather, _): &(&str, bool)| -> Case {
        format!("W1 seed 1 F10 weather {weather}").parse().expect("a case")
    };
    let report = played(&cases.iter().map(case).collect::<Vec<_>>());
    for ((case, outcome), (_, strikes)) in report.of().zip(cases) {
        assert_eq!(outcome.struck > 0, strikes, "{case}: {}", outcome.struck);
    }
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
