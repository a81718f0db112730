//! PodDisruptionBudgets: how many more of their pods may be away.

use std::collections::HashMap;
use std::sync::Arc;

use berth_core::disruption::{PodBudget, Share};
use berth_core::names::Text;
use berth_core::pod::PodSpec;
use berth_core::selector::Selector;
use rustc_hash::FxBuildHasher;

use crate::builtin::CountOrPercent;
use crate::builtin::policy as wire;
use crate::convert::Converter;
use crate::problem::At;

/// A PodDisruptionBudget as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BudgetObject {
    /// `None` selects no pod.
    selector: Option<Selector>,
    allows: Allowance,
    /// What the cluster last counted, unless the budget has changed since.
    counted: Option<u32>,
}

/// How many of the selected pods must stay, or may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Allowance {
    MinAvailable(Share),
    MaxUnavailable(Share),
}

pub(crate) fn read_budget(
    budget: &wire::DisruptionBudget<'_>,
    to: &mut Converter<'_>,
) -> Option<BudgetObject> {
    let at = At::ROOT.key("spec");
    let spec = &budget.spec;
    let selector = to.optional_selector(spec.selector.as_ref(), &at.key("selector"));
    let allows = match (&spec.min_available, &spec.max_unavailable) {
        (Some(_), Some(_)) => {
            to.findings.add(&at.key("maxUnavailable"), "stands beside minAvailable; keep one of the two");
            return None;
        }
        (None, None) => {
            to.findings.add(&at, "has neither minAvailable nor maxUnavailable; set one of the two");
            return None;
        }
        (Some(count), None) => Allowance::MinAvailable(read_share(count, &at.key("minAvailable"), to)?),
        (None, Some(count)) => Allowance::MaxUnavailable(read_share(count, &at.key("maxUnavailable"), to)?),
    };
    let status = &budget.status;
    let is_current = match (status.observed_generation, budget.metadata.generation) {
        (Some(observed), Some(generation)) => observed >= generation,
        _ => true,
    };
    let counted = status.disruptions_allowed.filter(|_| is_current);
    let counted = counted.map(|allowed| u32::try_from(allowed.max(0)).unwrap_or(u32::MAX));
    Some(BudgetObject { selector, allows, counted })
}

fn read_share(count: &CountOrPercent, at: &At<'_>, to: &mut Converter<'_>) -> Option<Share> {
    let share = match count {
        CountOrPercent::Count(count) => u32::try_from(*count).ok().map(Share::Count),
        CountOrPercent::Text(text) => {
            text.strip_suffix('%').and_then(|n| n.parse().ok()).filter(|n| *n <= 100).map(Share::Percent)
        }
    };
    if share.is_none() {
        to.findings.add(at, "must be a whole number, 0 or more, or a percentage from 0% to 100%");
    }
    share
}

/// The pods that there are, counted by namespace and spec.
#[derive(Debug, Default)]
pub(crate) struct Census {
    by_namespace: HashMap<Text, BySpec, FxBuildHasher>,
}

/// By the spec's address, which the spec beside it keeps from being anybody else's.
type BySpec = HashMap<*const PodSpec, (Arc<PodSpec>, Tally), FxBuildHasher>;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    /// Pods that should be there.
    expected: u32,
    /// Those of them that are up.
    healthy: u32,
}

impl Census {
    /// Counts a pod that is neither finished nor on its way out.
    pub(crate) fn count(&mut self, namespace: &Text, spec: &Arc<PodSpec>, healthy: bool) {
        let by_spec = self.by_namespace.entry(namespace.clone()).or_default();
        let (_, tally) = by_spec.entry(Arc::as_ptr(spec)).or_insert_with(|| (spec.clone(), Tally::default()));
        tally.expected += 1;
        tally.healthy += u32::from(healthy);
    }

    fn selected(&self, selector: Option<&Selector>, namespace: &str) -> Tally {
        let mut sum = Tally::default();
        let (Some(selector), Some(by_spec)) = (selector, self.by_namespace.get(namespace)) else {
            return sum;
        };
        for (spec, tally) in by_spec.values() {
            if selector.matches(&spec.labels) {
                sum.expected += tally.expected;
                sum.healthy += tally.healthy;
            }
        }
        sum
    }
}

impl BudgetObject {
    /// The budget as the planner knows it, and a remark where it is hardly what its author meant.
    pub(crate) fn judged(
        &self,
        namespace: &Text,
        name: &Text,
        census: &Census,
    ) -> (PodBudget, Option<String>) {
        let tally = census.selected(self.selector.as_ref(), namespace);
        let remark = match &self.selector {
            None => Some("is missing, so the budget protects no pod; select the pods it is for".to_owned()),
            Some(selector) if selector.is_everything() => Some(format!(
                "is empty, so the budget is for every pod of the namespace {namespace}; \
                 select the pods it is for"
            )),
            Some(_) if tally.expected == 0 => {
                Some(format!("selects none of the pods in the namespace {namespace}"))
            }
            Some(_) => None,
        };
        let budget = PodBudget {
            namespace: namespace.clone(),
            name: name.clone(),
            selector: self.selector.clone(),
            disruptions_allowed: self.counted.unwrap_or_else(|| allowed(self.allows, tally)),
        };
        (budget, remark)
    }
}

/// As Kubernetes' controller counts.
fn allowed(allows: Allowance, Tally { expected, healthy }: Tally) -> u32 {
    let must_stay = match allows {
        Allowance::MinAvailable(share) => share.of(expected),
        Allowance::MaxUnavailable(share) => expected.saturating_sub(share.of(expected)),
    };
    healthy.saturating_sub(must_stay)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disruptions_are_counted_as_kubernetes_counts_them() {
        use Allowance::{MaxUnavailable, MinAvailable};
        use Share::{Count, Percent};
        for (allows, expected, healthy, allowance) in [
            (MinAvailable(Count(2)), 3, 3, 1),
            (MinAvailable(Count(2)), 3, 2, 0),
            (MinAvailable(Count(2)), 3, 1, 0),
            (MinAvailable(Count(5)), 3, 3, 0),
            (MinAvailable(Count(0)), 3, 3, 3),
            // Half of 7 is 4, rounded up.
            (MinAvailable(Percent(50)), 7, 7, 3),
            (MinAvailable(Percent(50)), 7, 5, 1),
            (MinAvailable(Percent(100)), 7, 7, 0),
            (MinAvailable(Percent(0)), 7, 7, 7),
            (MaxUnavailable(Count(1)), 3, 3, 1),
            (MaxUnavailable(Count(1)), 3, 2, 0),
            (MaxUnavailable(Count(0)), 3, 3, 0),
            (MaxUnavailable(Count(9)), 3, 3, 3),
            // 30% of 10 is 3; 30% of 7 is 2.1, rounded up to 3.
            (MaxUnavailable(Percent(30)), 10, 10, 3),
            (MaxUnavailable(Percent(30)), 7, 7, 3),
            (MaxUnavailable(Percent(30)), 7, 6, 2),
            (MaxUnavailable(Percent(100)), 7, 7, 7),
            (MinAvailable(Count(1)), 0, 0, 0),
            (MaxUnavailable(Percent(50)), 0, 0, 0),
        ] {
            let actual = allowed(allows, Tally { expected, healthy });
            assert_eq!(actual, allowance, "{allows:?} of {healthy} of {expected}");
        }
    }
}
