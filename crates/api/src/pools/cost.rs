//! When a NodeGroup's nodes are replaced by cheaper ones.

use std::time::Duration;

use berth_core::disruption::{Approval, Replacement};
use berth_core::names;
use berth_core::node::{Node, NodeState};
use berth_core::pool::Pool;
use berth_core::reason::{Reason, Refusal};
use berth_core::units::Price;
use jiff::Timestamp;

use crate::ledger;
use crate::resources::vpsie::{CostOptimization, CostStrategy, NodeGroup};
use crate::vpsie::APPROVED;

/// How many of all nodes must be ready, in percent, before any is replaced to save money.
const READY_PERCENT_MIN: usize = 75;

/// What a group says of it, whatever time it is.
#[derive(Clone, Debug)]
pub(crate) struct CostRules {
    optimization: Option<CostOptimization>,
    approved: Option<String>,
    last: Option<Timestamp>,
}

pub(crate) fn read_cost(group: &NodeGroup) -> CostRules {
    let annotations = group.metadata.annotations.as_ref();
    let last = ledger::of(&group.metadata).ok().and_then(|record| record.replaced_secs);
    CostRules {
        optimization: group.spec.cost_optimization.clone().filter(|optimization| optimization.enabled),
        approved: annotations.and_then(|all| all.get(APPROVED)).cloned(),
        last: last.and_then(|secs| Timestamp::from_second(secs).ok()),
    }
}

impl CostRules {
    /// What they come to at an instant. `is_rebalancing`: what the AutoscalerConfig says, where there is one.
    pub(crate) fn judged(&self, now: Timestamp, is_rebalancing: Option<bool>) -> Replacement {
        let barred = |why: String| Replacement {
            barred: Some(Reason::ReplacementBarred.because(why)),
            ..Replacement::default()
        };
        let Some(optimization) = &self.optimization else {
            return barred("the group's costOptimization is not turned on".to_owned());
        };
        if is_rebalancing == Some(false) {
            return barred("enableRebalancing of the AutoscalerConfig is false".to_owned());
        }
        if let Some(refusal) = self.resting(optimization, now) {
            return Replacement { barred: Some(refusal), ..Replacement::default() };
        }
        let least = Price::from_micro_usd(optimization.min_monthly_savings.micro_usd());
        let is_manual = optimization.strategy == CostStrategy::Manual;
        Replacement {
            barred: None,
            saving_min: least.scaled(1, Price::HOURS_PER_MONTH),
            impact_percent_max: Some(match optimization.strategy {
                CostStrategy::Conservative => 0,
                CostStrategy::Auto | CostStrategy::Manual | CostStrategy::Aggressive => {
                    optimization.max_performance_impact.get()
                }
            }),
            approval: if is_manual || optimization.require_approval {
                Approval::Needed { given: self.approved.as_deref().map(Into::into) }
            } else {
                Approval::NotNeeded
            },
        }
    }

    fn resting(&self, optimization: &CostOptimization, now: Timestamp) -> Option<Refusal> {
        let last = self.last?;
        let next = last.checked_add(rest(optimization)).ok()?;
        (now < next).then(|| {
            Reason::ReplacementResting
                .because(format!("nodes were replaced at {last}, and may be again at {next}"))
        })
    }
}

/// How eager a group is shows in how long it rests: what a replacement must save holds for all.
fn rest(optimization: &CostOptimization) -> Duration {
    let interval = optimization.optimization_interval.as_std();
    match optimization.strategy {
        CostStrategy::Auto | CostStrategy::Manual => interval,
        CostStrategy::Aggressive => interval / 2,
        CostStrategy::Conservative => interval.saturating_mul(2),
    }
}

/// Where too many nodes are not ready, none is replaced to save money.
pub(crate) fn bar_while_ill(pools: &mut [Pool], nodes: &[Node]) {
    let is_ill = |node: &&Node| {
        let is_bad = |key: &str| [names::TAINT_NOT_READY, names::TAINT_UNREACHABLE].contains(&key);
        node.taints.iter().any(|taint| is_bad(&taint.key))
    };
    let running = nodes.iter().filter(|node| node.state == NodeState::Running);
    let all = running.clone().count();
    let ready = all - running.filter(is_ill).count();
    if ready * 100 >= all * READY_PERCENT_MIN {
        return;
    }
    let of_groups = pools.iter_mut().filter(|pool| pool.disruption.checks.is_some());
    for pool in of_groups {
        let message = format!("{ready} of {all} nodes are ready, and {READY_PERCENT_MIN}% must be");
        pool.disruption.replacement.barred.get_or_insert(Reason::ClusterUnhealthy.because(message));
    }
}

#[cfg(test)]
mod tests {
    use berth_core::disruption::{NodeDisruption, SafetyChecks};
    use berth_core::pod::{Taint, TaintEffect};
    use berth_core::resources::Resources;

    use super::*;
    use crate::duration::GoDuration;
    use crate::pools::empty_pool;
    use crate::resources::scalar::Dollars;

    /// VPSie's rebalancer wants three quarters of the nodes to be ready.
    #[test]
    fn nothing_is_replaced_while_many_nodes_are_not_ready() {
        let node = |number: usize, is_ill: bool| {
            let taint = Taint::new(names::TAINT_NOT_READY, "", TaintEffect::NoSchedule);
            Node {
                name: format!("n-{number}").into(),
                labels: names::Labels::new(),
                taints: is_ill.then_some(taint).into_iter().collect(),
                capacity: Resources::new(),
                allocatable: Resources::new(),
                state: NodeState::Running,
                price: None,
                pool: Some("group".into()),
                volume_limits: std::collections::BTreeMap::new(),
                disruption: NodeDisruption::default(),
            }
        };
        let checks = Some(SafetyChecks { shrinks: true, cpu_percent: 50, memory_percent: 50 });
        for (ill, all, is_barred) in [(0, 4, false), (1, 4, false), (2, 4, true), (1, 3, true), (0, 0, false)]
        {
            let nodes: Vec<Node> = (0..all).map(|number| node(number, number < ill)).collect();
            let mut group = empty_pool("group".into());
            group.disruption.checks = checks;
            let mut pools = [group, empty_pool("other".into())];
            bar_while_ill(&mut pools, &nodes);
            let barred = pools.each_ref().map(|pool| pool.disruption.replacement.barred.is_some());
            assert_eq!(barred, [is_barred, false], "{ill} of {all}");
        }
    }

    #[test]
    fn replacements_are_as_the_group_says() {
        /// The most that may be missing, and whether somebody must agree.
        type Expected = Result<(u32, bool), &'static str>;
        type Case = (Option<CostOptimization>, Option<Timestamp>, Option<bool>, Expected);
        let now = Timestamp::from_second(1_000_000).unwrap();
        let daily = CostOptimization {
            min_monthly_savings: Dollars::from_whole(73),
            optimization_interval: GoDuration::from_hours(24),
            ..CostOptimization::default()
        };
        let with = |strategy, require_approval| {
            Some(CostOptimization { strategy, require_approval, ..daily.clone() })
        };
        let ago = |hours: i64| Timestamp::from_second(1_000_000 - hours * 3600).ok();
        let cases: [Case; 12] = [
            (None, None, None, Err("not turned on")),
            (with(CostStrategy::Auto, false), None, None, Ok((5, false))),
            (with(CostStrategy::Auto, false), None, Some(true), Ok((5, false))),
            (with(CostStrategy::Auto, false), None, Some(false), Err("enableRebalancing")),
            (with(CostStrategy::Auto, false), ago(23), None, Err("may be again")),
            (with(CostStrategy::Auto, false), ago(24), None, Ok((5, false))),
            (with(CostStrategy::Manual, false), ago(24), None, Ok((5, true))),
            (with(CostStrategy::Aggressive, false), ago(11), None, Err("may be again")),
            (with(CostStrategy::Aggressive, true), ago(12), None, Ok((5, true))),
            (with(CostStrategy::Conservative, false), None, None, Ok((0, false))),
            (with(CostStrategy::Conservative, false), ago(47), None, Err("may be again")),
            (with(CostStrategy::Conservative, false), ago(48), None, Ok((0, false))),
        ];
        for (optimization, last, is_rebalancing, expected) in cases {
            let rules = CostRules { optimization, approved: None, last };
            let judged = rules.judged(now, is_rebalancing);
            match (&judged.barred, expected) {
                (None, Ok((impact, needs_approval))) => {
                    // 73 dollars a month are ten cents an hour, whatever the strategy.
                    assert_eq!(judged.saving_min, Price::from_micro_usd(100_000), "{rules:?}");
                    assert_eq!(judged.impact_percent_max, Some(impact), "{rules:?}");
                    assert_eq!(judged.approval != Approval::NotNeeded, needs_approval, "{rules:?}");
                }
                (Some(refusal), Err(words)) => {
                    assert!(refusal.message.contains(words), "{rules:?}: {}", refusal.message);
                }
                _ => panic!("{rules:?}: {judged:?}"),
            }
        }
    }
}
