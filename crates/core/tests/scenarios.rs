//! Random clusters over all the rules: every plan is legal, complete and repeatable.
//!
//! `BERTH_SCENARIOS=10000 cargo test -p berth-core --test scenarios` runs more of them, and
//! `BERTH_SEED=123` runs one.

mod common;

use berth_core::apply::apply;
use berth_core::check;
use berth_core::disrupt;
use berth_core::plan::Plan;
use berth_core::provision;
use berth_core::snapshot::{Effort, Policy, Snapshot};
use common::{Dice, Freedom, busy_cluster, cluster};

#[expect(clippy::disallowed_methods, reason = "the number of scenarios is the tester's choice")]
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
    report(seeds().flat_map(|seed| {
        let (snapshot, policy) = cluster(seed);
        let plan = provision::plan(&snapshot, &policy);
        faults(&snapshot, &policy, &plan).into_iter().map(move |fault| format!("BERTH_SEED={seed}: {fault}"))
    }));
}

#[test]
fn every_consolidation_is_legal() {
    let mut removed = 0;
    report(seeds().flat_map(|seed| {
        let freedom = if seed % 2 == 0 { Freedom::Bounded } else { Freedom::Free };
        let (snapshot, policy) = busy_cluster(seed, freedom);
        let plan = disrupt::plan(&snapshot, &policy);
        removed += plan.nodes_removed();
        let broken =
            check::check(&snapshot, &policy, &plan).into_iter().map(|violation| violation.to_string());
        broken.map(move |fault| format!("BERTH_SEED={seed}: {fault}")).collect::<Vec<_>>()
    }));
    assert!(removed > 0 || seeds().count() == 1, "no plan ever took a node away");
}

/// Planning again after a plan has been carried out takes nothing away and buys nothing.
///
/// Very few clusters get further only once the first plan has been carried out: there is no legal way to the
/// better place that moves each pod once. They come to an end all the same.
#[test]
fn consolidation_converges() {
    report(seeds().filter_map(|seed| {
        let (snapshot, policy) = busy_cluster(seed, Freedom::Free);
        let carried_out = apply(&snapshot, &disrupt::plan(&snapshot, &policy));
        let next = disrupt::plan(&carried_out, &policy);
        let done = next.disruptions.is_empty() && next.launches.is_empty();
        (!done).then(|| {
            let (steps, bought) = (next.disruptions.len(), next.launches.len());
            format!("BERTH_SEED={seed}: the next plan has {steps} steps and buys {bought}")
        })
    }));
}

/// Where budgets let only some nodes go at a time, carrying out plan after plan still comes to an end.
#[test]
fn bounded_consolidation_comes_to_an_end() {
    report(seeds().filter_map(|seed| {
        let (mut snapshot, policy) = busy_cluster(seed, Freedom::Bounded);
        for _ in 0..snapshot.nodes.len() + 3 {
            let plan = disrupt::plan(&snapshot, &policy);
            if plan.disruptions.is_empty() {
                return None;
            }
            snapshot = apply(&snapshot, &plan);
        }
        Some(format!("BERTH_SEED={seed}: no end"))
    }));
}

#[test]
fn the_order_of_the_input_cannot_be_seen() {
    for seed in seeds() {
        let (snapshot, policy) = cluster(seed);
        let again = provision::plan(&shuffled(&snapshot, seed), &policy);
        assert_eq!(provision::plan(&snapshot, &policy), again, "BERTH_SEED={seed}");
        let (snapshot, policy) = busy_cluster(seed, Freedom::Bounded);
        let again = disrupt::plan(&shuffled(&snapshot, seed), &policy);
        assert_eq!(disrupt::plan(&snapshot, &policy), again, "BERTH_SEED={seed}");
    }
}

fn shuffled(snapshot: &Snapshot, seed: u64) -> Snapshot {
    let mut shuffled = snapshot.clone();
    let mut dice = Dice::new(seed ^ 0xBEEF);
    dice.shuffle(&mut shuffled.pods);
    dice.shuffle(&mut shuffled.nodes);
    dice.shuffle(&mut shuffled.pools);
    dice.shuffle(&mut shuffled.daemon_sets);
    dice.shuffle(&mut shuffled.pod_budgets);
    shuffled.in_order()
}

/// Fails if anything is wrong, and says what the first of it is.
fn report(faulty: impl Iterator<Item = String>) {
    let faulty: Vec<String> = faulty.collect();
    assert!(
        faulty.is_empty(),
        "{} faults, the first of them: {:#?}",
        faulty.len(),
        &faulty[..faulty.len().min(20)]
    );
}

#[test]
fn no_plan_costs_more_than_the_quick_one_and_no_bound_exceeds_a_known_cost() {
    for seed in seeds() {
        let (snapshot, policy) = cluster(seed);
        let plans = [0, 3, 40].map(|rounds| {
            let effort = Effort { rounds: Some(rounds), threads: 1 };
            provision::plan(&snapshot, &Policy { effort, ..policy.clone() })
        });
        for (plan, rounds) in plans.iter().zip([0, 3, 40]) {
            assert!(plan.rounds <= rounds, "BERTH_SEED={seed}: {} of {rounds} rounds", plan.rounds);
            for other in &plans {
                assert!(plan.lower_bound <= other.cost_after, "BERTH_SEED={seed}: a bound is too high");
            }
        }
        assert!(plans.iter().all(|plan| plan.cost_after <= plans[0].cost_after), "BERTH_SEED={seed}");
        let unplaced = plans.each_ref().map(|plan| plan.unplaced.len());
        assert!(unplaced.iter().all(|count| *count == unplaced[0]), "BERTH_SEED={seed}: {unplaced:?}");
    }
}

#[test]
fn the_number_of_threads_cannot_be_seen() {
    for seed in seeds() {
        let (snapshot, policy) = cluster(seed);
        let plans = [1, 3].map(|threads| {
            let effort = Effort { rounds: Some(20), threads };
            provision::plan(&snapshot, &Policy { effort, ..policy.clone() })
        });
        assert_eq!(plans[0], plans[1], "BERTH_SEED={seed}");
    }
}
