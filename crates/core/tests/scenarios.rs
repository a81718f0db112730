//! Random clusters over all the rules: every plan is legal, complete and repeatable.
//!
//! `BERTH_SCENARIOS=10000 cargo test -p berth-core --test scenarios` runs more of them, and
//! `BERTH_SEED=123` runs one.

mod common;

use berth_core::check;
use berth_core::plan::Plan;
use berth_core::provision;
use berth_core::snapshot::{Policy, Snapshot};
use common::{Dice, cluster};

fn seeds() -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match number("BERTH_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("BERTH_SCENARIOS").unwrap_or(1000),
    }
}

/// What is wrong with the plan for a cluster, in words.
fn faults(snapshot: &Snapshot, policy: &Policy, plan: &Plan) -> Vec<String> {
    let broken = check::check(snapshot, policy, plan);
    let left_out = check::left_out(snapshot, policy, plan);
    broken.into_iter().chain(left_out).map(|violation| violation.to_string()).collect()
}

#[test]
fn every_plan_is_legal_and_leaves_out_nothing_that_fits() {
    for seed in seeds() {
        let (snapshot, policy) = cluster(seed);
        let plan = provision::plan(&snapshot, &policy);
        let faults = faults(&snapshot, &policy, &plan);
        assert!(faults.is_empty(), "BERTH_SEED={seed}: {faults:#?}");
    }
}

#[test]
fn the_order_of_the_input_cannot_be_seen() {
    for seed in seeds() {
        let (snapshot, policy) = cluster(seed);
        let plan = provision::plan(&snapshot, &policy);
        let mut shuffled = snapshot.clone();
        let mut dice = Dice::new(seed ^ 0xBEEF);
        dice.shuffle(&mut shuffled.pods);
        dice.shuffle(&mut shuffled.nodes);
        dice.shuffle(&mut shuffled.pools);
        dice.shuffle(&mut shuffled.daemon_sets);
        let again = provision::plan(&shuffled.in_order(), &policy);
        assert_eq!(plan, again, "BERTH_SEED={seed}");
    }
}
