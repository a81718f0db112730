//! Random clusters over all the rules: every plan is legal, complete and repeatable.
//!
//! `BERTH_SCENARIOS=10000 cargo test -p berth-core --test scenarios` runs more of them, and
//! `BERTH_SEED=123` runs one.

mod common;

use berth_core::apply::apply;
use berth_core::check;
use berth_core::disrupt;
use berth_core::ideal;
use berth_core::node::Node;
use berth_core::plan::Plan;
use berth_core::provision;
use berth_core::snapshot::{Effort, Policy, SchedulerPolicy, Snapshot};
use berth_core::units::Price;
use common::{Dice, Freedom, busy_cluster, cluster, crowded_cluster};

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
        let (snapshot, mut policy) = busy_cluster(seed, freedom);
        policy.scheduler = if seed % 4 < 2 { SchedulerPolicy::Ignored } else { SchedulerPolicy::Heeded };
        let plan = disrupt::plan(&snapshot, &policy);
        removed += plan.nodes_removed();
        let broken =
            check::check(&snapshot, &policy, &plan).into_iter().map(|violation| violation.to_string());
        broken.map(move |fault| format!("BERTH_SEED={seed}: {fault}")).collect::<Vec<_>>()
    }));
    assert!(removed > 0 || seeds().count() == 1, "no plan ever took a node away");
}

/// What the pods of a cluster would cost at least if they were placed anew is hardly ever more than what they cost after a
/// plan that leaves none of them out.
#[test]
fn no_consolidation_costs_less_than_the_ideal() {
    let (mut judged, mut cheaper) = (0, Vec::new());
    for seed in seeds() {
        let (snapshot, policy) = busy_cluster(seed, Freedom::Free);
        let plan = disrupt::plan(&snapshot, &policy);
        if plan.unplaced.is_empty() {
            judged += 1;
            let anew = ideal::plan(&snapshot, &policy).lower_bound;
            cheaper.extend((anew > plan.cost_after).then_some(seed));
        }
    }
    assert!(judged > 0 || seeds().count() == 1, "every plan left something out");
    assert!(cheaper.len() * 20 <= judged || seeds().count() == 1, "of {judged}: BERTH_SEED={cheaper:?}");
}

/// Planning again after a plan has been carried out takes nothing away and buys nothing.
///
/// Among many thousands of clusters a few get further only once the first plan has been carried out, because no
/// legal way to the better place moves each pod once. Each further plan then has to be better than what it
/// finds, so none undoes another, and there must be an end.
#[test]
fn consolidation_converges() {
    let (clusters, mut continued) = (seeds().end - seeds().start, 0);
    report(seeds().filter_map(|seed| {
        let (mut snapshot, policy) = busy_cluster(seed, Freedom::Free);
        let mut before: Option<(usize, usize, Price)> = None;
        for _ in 0..6 {
            let plan = disrupt::plan(&snapshot, &policy);
            let applied = apply(&snapshot, &plan);
            let worn = applied.nodes.iter().filter(|node| is_worn(node)).count();
            let after = (plan.unplaced.len(), worn, plan.cost_after);
            if let Some(before) = before {
                if plan.disruptions.is_empty() && plan.launches.is_empty() {
                    return None;
                }
                if after >= before {
                    return Some(format!("BERTH_SEED={seed}: after {before:?} a plan for {after:?}"));
                }
                continued += 1;
            }
            before = Some(after);
            snapshot = applied;
        }
        Some(format!("BERTH_SEED={seed}: no end"))
    }));
    let few = clusters.saturating_sub(1000) / 500;
    assert!(continued <= few, "{continued} of {clusters} clusters needed a second plan");
}

/// Has to go whatever that costs.
fn is_worn(node: &Node) -> bool {
    let wear = &node.disruption;
    wear.expired || wear.drifted.is_some() || wear.unhealthy.is_some()
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
        }
        compare(&plans, seed);
    }
}

/// No plan is worse than the first, and no bound exceeds the cost of a plan for the same pods.
fn compare(plans: &[Plan], seed: u64) {
    let measure = |plan: &Plan| (plan.unplaced.len(), plan.cost_after);
    let unplaced = |plan: &Plan| plan.unplaced.iter().map(|unplaced| unplaced.pod).collect::<Vec<_>>();
    for plan in plans {
        assert!(measure(plan) <= measure(&plans[0]), "BERTH_SEED={seed}: worse than the quick plan");
        for other in plans.iter().filter(|other| unplaced(other) == unplaced(plan)) {
            assert!(plan.lower_bound <= other.cost_after, "BERTH_SEED={seed}: a bound is too high");
        }
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

/// Prices of very many sizes are found by groups, and machines by those prices.
#[test]
fn crowds_are_planned_as_well_as_few() {
    for seed in seeds().step_by(20) {
        let (snapshot, policy) = crowded_cluster(seed);
        let plans = [(0, 1), (12, 1), (12, 3), (60, 2)].map(|(rounds, threads)| {
            let effort = Effort { rounds: Some(rounds), threads };
            provision::plan(&snapshot, &Policy { effort, ..policy.clone() })
        });
        assert_eq!(plans[1], plans[2], "BERTH_SEED={seed}: the number of threads can be seen");
        for plan in &plans {
            assert_eq!(faults(&snapshot, &policy, plan), [""; 0], "BERTH_SEED={seed}");
        }
        compare(&plans, seed);
    }
}
