//! What pools, nodes and pods say about being disrupted.
//!
//! Core has no clock: whatever depends on the time is resolved when the snapshot is taken, and durations
//! count up to that instant.

use serde::Serialize;

use crate::names::Text;
use crate::selector::Selector;

/// Why a node is taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum DisruptionReason {
    Empty,
    Underutilized,
    Drifted,
    Expired,
    Unhealthy,
}

impl DisruptionReason {
    pub const ALL: [Self; 5] =
        [Self::Empty, Self::Underutilized, Self::Drifted, Self::Expired, Self::Unhealthy];

    /// Reasons that can wait; the others act whatever the budgets say.
    pub const BUDGETED: [Self; 3] = [Self::Empty, Self::Underutilized, Self::Drifted];

    pub fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::Underutilized => "Underutilized",
            Self::Drifted => "Drifted",
            Self::Expired => "Expired",
            Self::Unhealthy => "Unhealthy",
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
}

impl Default for PoolDisruption {
    /// Karpenter's defaults.
    fn default() -> Self {
        Self {
            consolidation: Consolidation::default(),
            consolidate_after_secs: Some(0),
            budgets: vec![Budget { reasons: Vec::new(), nodes: Share::Percent(10) }],
        }
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

/// What is known of a node's wear.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeDisruption {
    pub protection: Protection,
    /// Why it no longer is what its pool asks for.
    pub drifted: Option<Text>,
    /// It has lived longer than its pool lets it.
    pub expired: bool,
    /// Which condition has been bad for too long.
    pub unhealthy: Option<Text>,
    /// How long no pod has come or gone; `None` where nothing says so.
    pub quiet_secs: Option<u64>,
    /// After so long a drain goes ahead whatever protects the pods.
    pub termination_grace_secs: Option<u64>,
}

/// What a pod's removal takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodDisruption {
    pub protection: Protection,
    /// `controller.kubernetes.io/pod-deletion-cost`.
    pub deletion_cost: i32,
    /// Something will make it again.
    pub has_controller: bool,
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

#[cfg(test)]
mod tests {
    use super::*;

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
