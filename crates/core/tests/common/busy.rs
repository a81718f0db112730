//! Random clusters in which much runs already.

use berth_core::apply::apply;
use berth_core::disruption::{
    Approval, Basis, Budget, Consolidation, DisruptionReason, Illness, PodBudget, PoolDisruption, Protection,
    Replacement, SafetyChecks, Share, Usage,
};
use berth_core::division::Division;
use berth_core::pod::PodOrigin;
use berth_core::provision;
use berth_core::reason::Reason;
use berth_core::snapshot::{MinValuesPolicy, Policy, Snapshot};
use berth_core::units::Price;

use super::{Dice, cluster, selector};

/// How free the cluster is to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freedom {
    /// Protections, budgets, limits and minima of all kinds.
    Bounded,
    /// Nothing but the rules of placement stands in the way.
    Free,
}

/// A cluster with pods on its nodes: as they fell, or bought for and then thinned out.
pub(crate) fn busy_cluster(seed: u64, freedom: Freedom) -> (Snapshot, Policy) {
    let (mut snapshot, mut policy) = cluster(seed);
    let mut dice = Dice::new(seed ^ 0xD15);
    if freedom == Freedom::Free {
        for pool in &mut snapshot.pools {
            pool.limits = berth_core::pool::Limits::default();
            pool.replicas = None;
            pool.nodes_min = 0;
            pool.division = Division::default();
        }
        snapshot.shared_limits.clear();
        // A node that is bought must keep its alternatives, one that runs need not: it takes further pods.
        policy.min_values = MinValuesPolicy::BestEffort;
    }
    if dice.percent(75) {
        let plan = provision::plan(&snapshot, &policy);
        snapshot = apply(&snapshot, &plan);
        let keep = 20 + dice.below(80);
        snapshot.pods.retain(|pod| pod.node.is_none() || dice.percent(keep));
    }
    for pod in &mut snapshot.pods {
        pod.disruption.has_controller = true;
        if pod.node.is_some() {
            // Room that is held free runs nowhere.
            pod.origin = PodOrigin::Object;
        }
    }
    for pool in &mut snapshot.pools {
        pool.disruption.budgets.clear();
    }
    for node in &mut snapshot.nodes {
        node.disruption.quiet_secs = Some(100);
    }
    wear(&mut dice, &mut snapshot);
    if freedom == Freedom::Bounded {
        bound(&mut dice, &mut snapshot);
        let mut saying = Dice::new(seed ^ 0x5A7);
        for pool in &mut snapshot.pools {
            pool.disruption.replacement = replacement(&mut saying);
        }
    }
    (snapshot.in_order(), policy)
}

fn wear(dice: &mut Dice, snapshot: &mut Snapshot) {
    for node in &mut snapshot.nodes {
        let wear = &mut node.disruption;
        match dice.below(20) {
            0 => wear.drifted = Some("NodePoolDrifted".into()),
            1 => wear.expired = true,
            2 => wear.unhealthy = Some(Illness { condition: "Ready".into(), message: "".into() }),
            _ => {}
        }
    }
    for pod in &mut snapshot.pods {
        if dice.percent(10) {
            pod.disruption.deletion_cost = [-2_000_000_000, -100, 1_000_000_000][dice.below(3)];
        }
    }
}

fn replacement(dice: &mut Dice) -> Replacement {
    Replacement {
        barred: dice.percent(10).then(|| Reason::ReplacementBarred.because("it says so")),
        saving_min: Price::from_micro_usd([0, 0, 0, 50_000][dice.below(4)]),
        impact_percent_max: dice.percent(20).then_some(5),
        approval: Approval::NotNeeded,
    }
}

fn bound(dice: &mut Dice, snapshot: &mut Snapshot) {
    for pool in &mut snapshot.pools {
        pool.disruption = PoolDisruption {
            consolidation: [
                Consolidation::WhenEmptyOrUnderutilized,
                Consolidation::WhenEmptyOrUnderutilized,
                Consolidation::WhenEmpty,
                Consolidation::Balanced,
            ][dice.below(4)],
            consolidate_after_secs: [Some(0), Some(0), Some(60), None][dice.below(4)],
            budgets: (0..dice.below(3))
                .map(|_| Budget {
                    reasons: DisruptionReason::BUDGETED.into_iter().filter(|_| dice.percent(40)).collect(),
                    nodes: if dice.percent(50) {
                        Share::Percent([0, 10, 50, 100][dice.below(4)])
                    } else {
                        Share::Count(u32::try_from(dice.below(4)).unwrap_or(0))
                    },
                    replaced: dice.percent(20).then_some(Share::Percent(100)),
                })
                .collect(),
            checks: dice.percent(15).then(|| SafetyChecks {
                shrinks: dice.percent(70),
                cpu_percent: 50,
                memory_percent: 50,
            }),
            replacement: Replacement::default(),
        };
        if dice.percent(20) {
            pool.nodes_min = u32::try_from(dice.below(3)).unwrap_or(0);
        }
    }
    let protection = |dice: &mut Dice| match dice.below(20) {
        0 => Protection::Always,
        1 => Protection::For { secs: 60 },
        _ => Protection::None,
    };
    for node in &mut snapshot.nodes {
        let wear = &mut node.disruption;
        wear.protection = protection(dice);
        wear.quiet_secs = [None, Some(0), Some(59), Some(60), Some(1000)][dice.below(5)];
        wear.termination_grace_secs = dice.percent(25).then_some(30);
        wear.others_asked_percent = [None, Some(85), Some(86)][dice.below(3)];
        wear.usage = [None, Some(20), Some(80)][dice.below(3)].map(|percent| Usage {
            cpu_percent: percent,
            memory_percent: percent,
            basis: Basis::Measured,
        });
    }
    for pod in &mut snapshot.pods {
        pod.disruption.protection = protection(dice);
        pod.disruption.has_controller = dice.percent(95);
        pod.disruption.has_local_storage = dice.percent(5);
    }
    for index in 0..dice.below(4) {
        snapshot.pod_budgets.push(PodBudget {
            namespace: dice.pick(&["x", "y"]).into(),
            name: format!("budget{index}").into(),
            selector: dice.percent(90).then(|| selector(dice)),
            disruptions_allowed: u32::try_from(dice.below(4)).unwrap_or(0),
        });
    }
}
