//! What pools, nodes and pods say about being disrupted.
//!
//! Core has no clock: whatever depends on the time is resolved when the snapshot is taken, and durations
//! count up to that instant.

use std::fmt;

use serde::Serialize;

use crate::names::Text;
use crate::pod::Pod;
use crate::pool::Pool;
use crate::reason::{Reason, Refusal};
use crate::selector::Selector;
use crate::units::Price;

/// Why a node is taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum DisruptionReason {
    Empty,
    Underutilized,
    /// Its pool should have fewer.
    Overprovisioned,
    Drifted,
    Expired,
    Unhealthy,
}

impl DisruptionReason {
    pub const ALL: [Self; 6] = [
        Self::Empty,
        Self::Underutilized,
        Self::Overprovisioned,
        Self::Drifted,
        Self::Expired,
        Self::Unhealthy,
    ];

    /// Reasons that can wait; the others act whatever the budgets say.
    pub const BUDGETED: [Self; 3] = [Self::Empty, Self::Underutilized, Self::Drifted];

    pub fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::Underutilized => "Underutilized",
            Self::Overprovisioned => "Overprovisioned",
            Self::Drifted => "Drifted",
            Self::Expired => "Expired",
            Self::Unhealthy => "Unhealthy",
        }
    }
}

/// What it costs the workloads that pods are moved: about one for each pod, and one for the node.
///
/// In 2^-27 of the unit: so Karpenter's formula, with its divisions by powers of two, is exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct DisruptionCost(i64);

impl DisruptionCost {
    const UNIT: i64 = 1 << 27;
    /// What a node costs to take away beyond its pods.
    pub const NODE: Self = Self(Self::UNIT);

    /// Its deletion cost and its priority make a pod dearer or cheaper to move, within bounds.
    pub fn of_pod(pod: &Pod) -> Self {
        let weight = Self::UNIT + i64::from(pod.disruption.deletion_cost) + 4 * i64::from(pod.spec.priority);
        Self(weight.clamp(0, 10 * Self::UNIT))
    }

    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// In thousandths of the unit.
    pub fn milli(self) -> i64 {
        let milli = i128::from(self.0) * 1000 / i128::from(Self::UNIT);
        i64::try_from(milli).unwrap_or(i64::MAX)
    }

    /// For weighing one disruption against another.
    pub const fn weight(self) -> i64 {
        self.0
    }

    /// The cost at so much money a unit, rounded up.
    pub fn priced(self, per_unit: Price) -> Price {
        let product = i128::from(self.0) * i128::from(per_unit.micro_usd());
        let unit = i128::from(Self::UNIT);
        Price::from_micro_usd(i64::try_from((product + unit - 1).div_euclid(unit)).unwrap_or(i64::MAX))
    }

    /// So much money for this cost, as money for one unit.
    pub fn per_unit(self, money: Price) -> Price {
        let product = i128::from(money.micro_usd()) * i128::from(Self::UNIT);
        Price::from_micro_usd(i64::try_from(product / i128::from(self.0.max(1))).unwrap_or(i64::MAX))
    }
}

impl fmt::Display for DisruptionCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milli = self.milli();
        write!(f, "{}.{:03}", milli / 1000, milli % 1000)
    }
}

/// What a change has to be worth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DisruptionPolicy {
    /// What each unit of disruption must at least save an hour.
    pub price: Price,
    /// What a step must at least save.
    pub saving_min: SavingMin,
    /// How many instance types a spot node that replaces a spot node must have to choose from.
    pub spot_types_min: u32,
}

impl Default for DisruptionPolicy {
    fn default() -> Self {
        Self {
            // Thirty pods are moved for a third of a cent an hour, two dollars a month, but not for less.
            price: Price::from_micro_usd(100),
            saving_min: SavingMin::Percent(3),
            // Karpenter's number: with fewer, each change goes to what is about to be interrupted.
            spot_types_min: 15,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SavingMin {
    /// An hour.
    Amount(Price),
    /// Of what the nodes of the step cost.
    Percent(u32),
}

impl SavingMin {
    /// The least saving for nodes that cost so much together.
    pub fn of(self, cost: Price) -> Price {
        match self {
            Self::Amount(amount) => amount,
            Self::Percent(percent) => cost.scaled(i64::from(percent), 100),
        }
    }
}

/// When a pool's nodes may go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolDisruption {
    pub consolidation: Consolidation,
    /// How long a node's pods must have stayed the same; `None` is never.
    pub consolidate_after_secs: Option<u64>,
    /// Those that are in force at the snapshot's instant.
    pub budgets: Vec<Budget>,
    /// What VPSie's groups want looked at besides.
    pub checks: Option<SafetyChecks>,
    pub replacement: Replacement,
}

/// When a pool's nodes are replaced by cheaper ones: always, unless it says otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replacement {
    /// Why not now, if not.
    pub barred: Option<Refusal>,
    /// What it must at least save an hour.
    pub saving_min: Price,
    /// How much of what is used on the nodes, in percent, may be missing afterwards.
    pub impact_percent_max: Option<u32>,
    pub approval: Approval,
}

/// Whether a person must agree to a replacement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Approval {
    #[default]
    NotNeeded,
    Needed {
        /// The one that somebody has agreed to.
        given: Option<Text>,
    },
}

/// VPSie's checks before a node goes to save money: what it uses, what its pods keep on it, and what is left. How much is
/// used, and whether the group shrinks at all, decides about nodes for which nothing is bought: when others are replaced by
/// cheaper ones the group says elsewhere ([`Replacement`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SafetyChecks {
    /// Whether nodes may go for which nothing is bought.
    pub shrinks: bool,
    /// A node that uses as much of it, in percent, goes only if it is replaced.
    pub cpu_percent: u32,
    pub memory_percent: u32,
}

impl SafetyChecks {
    /// What those that stay may be asked for at most of what they have, in percent.
    pub const ASKED_MAX_PERCENT: u32 = 85;
    /// More percent than there are: something is asked for, and nothing is left that could have it.
    pub const ASKED_OF_NOTHING: u32 = u32::MAX;
}

/// The checks that VPSie's rebalancer has names for, in its order: what has to be so before a node is replaced by a cheaper
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RebalanceCheck {
    /// Enough of all nodes are ready.
    ClusterHealth,
    /// The group has not replaced nodes lately.
    NodeGroupHealth,
    /// The pods may be moved.
    PodDisruption,
    /// What replaces the node has what is used on it, and is not too full.
    ResourceCapacity,
    /// It is time: the pods have settled, and the group's budget lets a node go.
    Timing,
}

impl RebalanceCheck {
    pub const ALL: [Self; 5] = [
        Self::ClusterHealth,
        Self::NodeGroupHealth,
        Self::PodDisruption,
        Self::ResourceCapacity,
        Self::Timing,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::ClusterHealth => "cluster_health",
            Self::NodeGroupHealth => "nodegroup_health",
            Self::PodDisruption => "pod_disruption",
            Self::ResourceCapacity => "resource_capacity",
            Self::Timing => "timing",
        }
    }

    /// The check that fails for this reason, if any does.
    pub fn of(reason: Reason) -> Option<Self> {
        match reason {
            Reason::ClusterUnhealthy => Some(Self::ClusterHealth),
            Reason::ReplacementResting => Some(Self::NodeGroupHealth),
            Reason::PodProtected | Reason::PodDisruptionBudget | Reason::PodWithoutController => {
                Some(Self::PodDisruption)
            }
            Reason::CapacityLeft | Reason::PerformanceImpact => Some(Self::ResourceCapacity),
            Reason::ConsolidateAfter | Reason::DisruptionBudget => Some(Self::Timing),
            _ => None,
        }
    }

    /// Whether only a plan can tell.
    pub fn needs_plan(self) -> bool {
        self == Self::ResourceCapacity
    }
}

/// The checks that VPSie's own autoscaler has names for, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SafetyCheck {
    /// No pod keeps anything on the node.
    LocalStorage,
    /// Each pod has a place elsewhere.
    Rescheduling,
    /// No part of the control plane runs on it.
    SystemPods,
    /// And the pods there let it come.
    Affinity,
    /// Those that stay are not too full.
    Capacity,
    /// Nobody has said that it must stay.
    Protection,
}

impl SafetyCheck {
    pub const ALL: [Self; 6] = [
        Self::LocalStorage,
        Self::Rescheduling,
        Self::SystemPods,
        Self::Affinity,
        Self::Capacity,
        Self::Protection,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::LocalStorage => "local_storage",
            Self::Rescheduling => "rescheduling",
            Self::SystemPods => "system_pods",
            Self::Affinity => "affinity",
            Self::Capacity => "capacity",
            Self::Protection => "protection",
        }
    }

    /// The check that fails for this reason, if any does.
    pub fn of(reason: Reason) -> Option<Self> {
        match reason {
            Reason::LocalStorage => Some(Self::LocalStorage),
            Reason::PodsFitNowhere => Some(Self::Rescheduling),
            Reason::SystemPod => Some(Self::SystemPods),
            Reason::PodsKeptApart => Some(Self::Affinity),
            Reason::CapacityLeft => Some(Self::Capacity),
            Reason::NodeProtected | Reason::NodeCordoned | Reason::PodProtected => Some(Self::Protection),
            _ => None,
        }
    }

    /// Whether only a plan can tell.
    pub fn needs_plan(self) -> bool {
        matches!(self, Self::Rescheduling | Self::Affinity)
    }
}

/// What is used of a node, in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    pub cpu_percent: u32,
    pub memory_percent: u32,
    pub basis: Basis,
}

/// How it is known what is used of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    Measured,
    /// Nobody measures it: it is what its pods ask for.
    Asked,
    /// Somebody measures it, and not this node lately: it may be anything.
    Unknown,
}

impl Usage {
    /// Nobody goes by what nobody knows: all of it may be used.
    pub const UNKNOWN: Self = Self { cpu_percent: 100, memory_percent: 100, basis: Basis::Unknown };
}

impl Default for PoolDisruption {
    /// Karpenter's defaults.
    fn default() -> Self {
        Self {
            consolidation: Consolidation::default(),
            consolidate_after_secs: Some(0),
            budgets: vec![Budget::new(Vec::new(), Share::Percent(10))],
            checks: None,
            replacement: Replacement::default(),
        }
    }
}

impl PoolDisruption {
    /// How many nodes of so many may be away at a time for a reason that can wait, when one of them goes like this.
    pub fn away_max(&self, reason: DisruptionReason, leaving: Leaving, nodes: u32) -> u32 {
        let covers = |budget: &&Budget| budget.reasons.is_empty() || budget.reasons.contains(&reason);
        let budgets = self.budgets.iter().filter(covers);
        budgets.map(|budget| budget.share(leaving).of(nodes)).min().unwrap_or(u32::MAX)
    }
}

/// Which nodes are looked at to save money.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Consolidation {
    WhenEmpty,
    #[default]
    WhenEmptyOrUnderutilized,
    /// Only where the part of the pool's cost that is saved is at least half the part of its disruption.
    Balanced,
}

/// At most so many of a pool's nodes at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// None stands for all of [`DisruptionReason::BUDGETED`].
    pub reasons: Vec<DisruptionReason>,
    pub nodes: Share,
    /// In its place for nodes for which others are bought, if the pool says so.
    pub replaced: Option<Share>,
}

impl Budget {
    /// However nodes go.
    pub fn new(reasons: Vec<DisruptionReason>, nodes: Share) -> Self {
        Self { reasons, nodes, replaced: None }
    }

    fn share(&self, leaving: Leaving) -> Share {
        match leaving {
            Leaving::ForGood => self.nodes,
            Leaving::Replaced => self.replaced.unwrap_or(self.nodes),
        }
    }
}

/// Whether a node that goes leaves its pool with one less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    ForGood,
    /// Something will be bought; the pool's minimum is looked at then.
    Replaced,
}

impl Leaving {
    pub const ALL: [Self; 2] = [Self::ForGood, Self::Replaced];
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    Count(u32),
    Percent(u32),
}

impl Share {
    /// The share of `total`, percentages rounded up.
    pub fn of(self, total: u32) -> u32 {
        match self {
            Self::Count(count) => count,
            Self::Percent(percent) => {
                let share = (u64::from(percent) * u64::from(total)).div_ceil(100);
                u32::try_from(share).unwrap_or(u32::MAX)
            }
        }
    }
}

/// A condition of a node that has been bad for too long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Illness {
    pub condition: Text,
    /// For people.
    pub message: Text,
}

/// While more of a pool's nodes are broken, something else is, and nodes that come anew would break as well.
pub const REPAIRED: Share = Share::Percent(20);

/// What is known of a node's wear.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is known by itself")]
pub struct NodeDisruption {
    pub protection: Protection,
    /// Why it no longer is what its pool asks for.
    pub drifted: Option<Text>,
    /// It has lived longer than its pool lets it.
    pub expired: bool,
    /// It is not ready now, for however long.
    pub not_ready: bool,
    /// Which condition has been bad for too long.
    pub unhealthy: Option<Illness>,
    /// Its pool has a fixed number of nodes, and this one is beyond it (`surplus`).
    pub surplus: bool,
    /// Which machine it runs on is not known.
    pub unidentified: bool,
    /// How long no pod has come or gone; `None` where nothing says so.
    pub quiet_secs: Option<u64>,
    /// After so long a drain goes ahead whatever protects the pods.
    pub termination_grace_secs: Option<u64>,
    /// Where its pool wants to know.
    pub usage: Option<Usage>,
    /// What the other nodes of its pool that can take pods would be asked for without it, in percent of what they have.
    /// `None` if its pool does not want to know, or it is the only one: then others take its pods, who look after
    /// themselves.
    pub others_asked_percent: Option<u32>,
}

impl NodeDisruption {
    /// Of a node that a plan buys, once everything has been quiet for long enough. Where its pool goes by what is used,
    /// nobody knows that yet.
    pub(crate) fn of_new(pool: &Pool) -> Self {
        let usage = pool.disruption.checks.map(|_| Usage::UNKNOWN);
        Self { quiet_secs: Some(u64::MAX), usage, ..Self::default() }
    }
}

/// What a pod's removal takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodDisruption {
    pub protection: Protection,
    /// `controller.kubernetes.io/pod-deletion-cost`.
    pub deletion_cost: i32,
    /// Something will make it again.
    pub has_controller: bool,
    /// And only once it is gone, as StatefulSets do: others that leave with it come back before.
    pub returns_late: bool,
    /// It keeps something on its node that is lost with it.
    pub has_local_storage: bool,
}

/// The `do-not-disrupt` annotation, as it stands at the snapshot's instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protection {
    #[default]
    None,
    Always,
    /// For this long yet.
    For {
        secs: u64,
    },
}

/// A PodDisruptionBudget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodBudget {
    pub namespace: Text,
    pub name: Text,
    /// `None` selects no pod.
    pub selector: Option<Selector>,
    /// How many more of its pods may be away.
    pub disruptions_allowed: u32,
}

impl PodBudget {
    pub fn covers(&self, pod: &Pod) -> bool {
        self.namespace == pod.namespace
            && self.selector.as_ref().is_some_and(|selector| selector.matches(&pod.spec.labels))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_exact_and_rounded_against_the_disruption() {
        let cost = DisruptionCost::NODE.plus(DisruptionCost(DisruptionCost::UNIT / 2));
        assert_eq!(cost.to_string(), "1.500");
        assert_eq!(cost.priced(Price::from_micro_usd(3)), Price::from_micro_usd(5));
        assert_eq!(cost.per_unit(Price::from_micro_usd(3)), Price::from_micro_usd(2));
    }

    #[test]
    fn shares_round_up() {
        for (share, total, expected) in [
            (Share::Percent(10), 0, 0),
            (Share::Percent(10), 1, 1),
            (Share::Percent(10), 10, 1),
            (Share::Percent(10), 11, 2),
            (Share::Percent(0), 1000, 0),
            (Share::Percent(100), 7, 7),
            (Share::Count(5), 2, 5),
        ] {
            assert_eq!(share.of(total), expected, "{share:?} of {total}");
        }
    }
}
