//! When a pool's nodes may go: read as it is written, judged at one instant.

use berth_core::disruption::{
    Budget, Consolidation, DisruptionReason, PoolDisruption, Replacement, SafetyChecks, Share,
};
use jiff::Timestamp;

use crate::duration::GoDuration;
use crate::problem::At;
use crate::resources::karpenter::{self as wire, ConsolidationPolicy};
use crate::resources::scalar::IntOrPercent;
use crate::schedule::Window;

/// A pool's rules of disruption, whatever time it is.
#[derive(Clone, Debug)]
pub(crate) struct DisruptionRules {
    pub(crate) consolidation: Consolidation,
    pub(crate) consolidate_after_secs: Option<u64>,
    pub(crate) budgets: Vec<TimedBudget>,
    /// Nothing is consolidated before.
    pub(crate) rests_until: Option<Timestamp>,
    pub(crate) checks: Option<SafetyChecks>,
}

#[derive(Clone, Debug)]
pub(crate) struct TimedBudget {
    pub(crate) budget: Budget,
    pub(crate) when: When,
}

#[derive(Clone, Debug)]
pub(crate) enum When {
    Always,
    During(Box<Window>),
    /// Nobody knows. It allows nothing until somebody does.
    Unclear {
        field: String,
        message: String,
    },
}

pub(crate) fn read_rules(disruption: &wire::Disruption, at: &At<'_>) -> DisruptionRules {
    let list = at.key("budgets");
    let budgets = disruption.budgets.iter().enumerate();
    DisruptionRules {
        consolidation: match disruption.consolidation_policy {
            ConsolidationPolicy::WhenEmpty => Consolidation::WhenEmpty,
            ConsolidationPolicy::WhenEmptyOrUnderutilized => Consolidation::WhenEmptyOrUnderutilized,
            ConsolidationPolicy::Balanced => Consolidation::Balanced,
        },
        consolidate_after_secs: disruption.consolidate_after.duration().map(GoDuration::whole_secs),
        budgets: budgets.map(|(i, budget)| read_budget(budget, &list.index(i))).collect(),
        rests_until: None,
        checks: None,
    }
}

fn read_budget(budget: &wire::Budget, at: &At<'_>) -> TimedBudget {
    let mut reasons: Vec<DisruptionReason> =
        budget.reasons.iter().flatten().map(|reason| DisruptionReason::from(*reason)).collect();
    reasons.sort_unstable();
    reasons.dedup();
    let unclear =
        |field: &str, message: String| When::Unclear { field: at.key(field).path().to_string(), message };
    let when = match (&budget.schedule, budget.duration) {
        (None, None) => When::Always,
        (Some(_), None) => {
            unclear("schedule", "has no duration beside it; say for how long, for example 8h".to_owned())
        }
        (None, Some(_)) => unclear(
            "duration",
            "has no schedule beside it; say from when, for example 0 9 * * mon-fri".to_owned(),
        ),
        (Some(schedule), Some(duration)) => match Window::parse(schedule, duration) {
            Ok(window) => When::During(Box::new(window)),
            Err(error) => unclear("schedule", error.to_string()),
        },
    };
    let nodes = match budget.nodes {
        IntOrPercent::Count(count) => Share::Count(count),
        IntOrPercent::Percent(percent) => Share::Percent(percent.get()),
    };
    TimedBudget { budget: Budget::new(reasons, nodes), when }
}

impl From<wire::DisruptionReason> for DisruptionReason {
    fn from(reason: wire::DisruptionReason) -> Self {
        match reason {
            wire::DisruptionReason::Underutilized => Self::Underutilized,
            wire::DisruptionReason::Empty => Self::Empty,
            wire::DisruptionReason::Drifted => Self::Drifted,
        }
    }
}

impl DisruptionRules {
    /// The same, with nothing consolidated before this either.
    pub(crate) fn resting(&self, until: Option<Timestamp>) -> Self {
        Self { rests_until: self.rests_until.max(until), ..self.clone() }
    }

    /// What they come to at an instant.
    pub(crate) fn judged(&self, now: Timestamp) -> PoolDisruption {
        let budgets = self.budgets.iter().filter_map(|TimedBudget { budget, when }| match when {
            When::Always => Some(budget.clone()),
            When::During(window) => window.is_open(now).then(|| budget.clone()),
            When::Unclear { .. } => Some(Budget::new(budget.reasons.clone(), Share::Count(0))),
        });
        let saving = vec![DisruptionReason::Empty, DisruptionReason::Underutilized];
        let resting =
            self.rests_until.filter(|until| now < *until).map(|_| Budget::new(saving, Share::Count(0)));
        PoolDisruption {
            consolidation: self.consolidation,
            consolidate_after_secs: self.consolidate_after_secs,
            budgets: budgets.chain(resting).collect(),
            checks: self.checks,
            replacement: Replacement::default(),
        }
    }

    /// What is wrong with them: the field, and what would be right.
    pub(crate) fn problems(&self) -> impl Iterator<Item = (&str, &str)> {
        self.budgets.iter().filter_map(|budget| match &budget.when {
            When::Unclear { field, message } => Some((&**field, &**message)),
            When::Always | When::During(_) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rules(disruption: &serde_json::Value) -> DisruptionRules {
        let wire = serde_json::from_value(disruption.clone()).unwrap();
        let spec = At::ROOT.key("spec");
        read_rules(&wire, &spec.key("disruption"))
    }

    fn shown(disruption: &PoolDisruption) -> String {
        let budgets = disruption.budgets.iter().map(|Budget { reasons, nodes, .. }| {
            let reasons: Vec<_> = reasons.iter().map(|reason| reason.name()).collect();
            format!(" {nodes:?} {}", reasons.join("+"))
        });
        let after = disruption.consolidate_after_secs.map_or("never".to_owned(), |secs| format!("{secs}s"));
        let budgets: String = budgets.collect();
        format!("{:?} after {after}{}", disruption.consolidation, budgets.trim_end())
    }

    #[test]
    fn rules_come_to_what_is_in_force() {
        // A Monday.
        let (noon, night) = ("2026-01-05T12:00:00Z", "2026-01-05T23:00:00Z");
        for (disruption, now, expected) in [
            (json!({}), noon, "WhenEmptyOrUnderutilized after 0s Percent(10)"),
            (json!({"consolidateAfter": "90s"}), noon, "WhenEmptyOrUnderutilized after 90s Percent(10)"),
            (json!({"consolidateAfter": "Never"}), noon, "WhenEmptyOrUnderutilized after never Percent(10)"),
            (json!({"consolidationPolicy": "WhenEmpty"}), noon, "WhenEmpty after 0s Percent(10)"),
            (json!({"consolidationPolicy": "Balanced"}), noon, "Balanced after 0s Percent(10)"),
            (json!({"budgets": []}), noon, "WhenEmptyOrUnderutilized after 0s"),
            (
                json!({"budgets": [{"nodes": "3", "reasons": ["Underutilized", "Empty", "Empty"]}, {"nodes": "50%"}]}),
                noon,
                "WhenEmptyOrUnderutilized after 0s Count(3) Empty+Underutilized Percent(50)",
            ),
            (json!({"budgets": [{"reasons": []}]}), noon, "WhenEmptyOrUnderutilized after 0s Percent(10)"),
            (
                json!({"budgets": [{"nodes": "0", "schedule": "0 9 * * 1-5", "duration": "8h"}, {"nodes": "5"}]}),
                noon,
                "WhenEmptyOrUnderutilized after 0s Count(0)  Count(5)",
            ),
            (
                json!({"budgets": [{"nodes": "0", "schedule": "0 9 * * 1-5", "duration": "8h"}, {"nodes": "5"}]}),
                night,
                "WhenEmptyOrUnderutilized after 0s Count(5)",
            ),
            (
                json!({"budgets": [{"nodes": "4", "schedule": "TZ=Asia/Tokyo 0 8 * * *", "duration": "1h"}]}),
                night,
                "WhenEmptyOrUnderutilized after 0s Count(4)",
            ),
            // What cannot be judged allows nothing, for the reasons that it is about.
            (
                json!({"budgets": [{"nodes": "4", "schedule": "0 9 * *", "duration": "1h", "reasons": ["Drifted"]}]}),
                night,
                "WhenEmptyOrUnderutilized after 0s Count(0) Drifted",
            ),
        ] {
            let judged = rules(&disruption).judged(now.parse().unwrap());
            assert_eq!(shown(&judged), expected, "{disruption} at {now}");
        }
    }

    #[test]
    fn a_pool_at_rest_consolidates_nothing() {
        let mut rules = rules(&json!({"budgets": []}));
        rules.rests_until = Some("2026-01-05T12:00:00Z".parse().unwrap());
        for (now, expected) in [
            ("2026-01-05T11:59:59Z", "WhenEmptyOrUnderutilized after 0s Count(0) Empty+Underutilized"),
            ("2026-01-05T12:00:00Z", "WhenEmptyOrUnderutilized after 0s"),
        ] {
            assert_eq!(shown(&rules.judged(now.parse().unwrap())), expected, "{now}");
        }
    }

    #[test]
    fn what_is_wrong_has_its_field() {
        for (budget, expected) in [
            (json!({"nodes": "1"}), None),
            (json!({"schedule": "@daily", "duration": "1h"}), None),
            (json!({"schedule": "@daily"}), Some(("schedule", "has no duration beside it"))),
            (json!({"duration": "1h"}), Some(("duration", "has no schedule beside it"))),
            (
                json!({"schedule": "daily", "duration": "1h"}),
                Some(("schedule", "`daily` has not five fields")),
            ),
            (
                json!({"schedule": "TZ=Mars/Base 0 9 * * *", "duration": "1h"}),
                Some(("schedule", "`Mars/Base` is not a time zone")),
            ),
        ] {
            let rules = rules(&json!({"budgets": [{"nodes": "2"}, budget]}));
            let problems: Vec<_> = rules.problems().collect();
            assert_eq!(problems.len(), usize::from(expected.is_some()), "{budget}");
            if let (Some((field, message)), [(in_field, said)]) = (expected, &problems[..]) {
                assert_eq!(*in_field, format!("spec.disruption.budgets[1].{field}"), "{budget}");
                assert!(said.starts_with(message), "{budget}: {said}");
            }
        }
    }
}
