//! What each look at the cluster comes to, for whoever shows it or counts it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use berth_api::{Problem, Timestamp};
use berth_cloud::provider::Trouble;
use berth_core::disruption::DisruptionReason;
use berth_core::ideal::Premises;
use berth_core::names::Text;
use berth_core::plan::Plan;
use berth_core::snapshot::Snapshot;
use berth_core::units::Price;
use tokio::time::Instant;

use crate::claim::Claim;
use crate::dialect::PoolObject;
use crate::journal::Decision;
use crate::operator::Mode;
use crate::watched::BlindSpot;

/// The cluster as it was seen, and what was made of it.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub at: Timestamp,
    /// By which name people know the cluster.
    pub cluster: String,
    pub mode: Mode,
    pub is_leader: bool,
    /// How many steps of claims' lives are being done.
    pub under_way: usize,
    /// When the look was over, on a clock that only goes forward; `None` before the first.
    pub finished: Option<Instant>,
    /// When something was last heard of each kind.
    pub heard: BTreeMap<&'static str, Option<Instant>>,
    /// Everything was seen at least once.
    pub has_seen_all: bool,
    /// Since when not everything is seen.
    pub blind_since: Option<Instant>,
    pub snapshot: Arc<Snapshot>,
    /// When those pods were made that are on no node, by namespace and name.
    pub waiting_since: BTreeMap<(Text, Text), Timestamp>,
    pub claims: BTreeMap<Text, Arc<Claim>>,
    pub pools: BTreeMap<Text, Arc<PoolObject>>,
    /// Claims that are to go, and why.
    pub leaving: BTreeMap<Text, DisruptionReason>,
    /// The plan for the pods of `snapshot` that wait, if any does.
    pub waiting: Option<Arc<Plan>>,
    pub course: Course,
    /// What is not all seen, or not lately. While there is any of it nothing is taken away.
    pub blind_spots: Vec<BlindSpot>,
    /// Objects that cannot be read, and why. Those that could forbid it are blind spots, too.
    pub problems: Vec<Problem>,
    /// Whether VPSie told what it was last asked, or why not; `None` where it is not asked.
    pub vpsie: Option<Result<(), String>>,
    /// What clouds go on without.
    pub troubles: BTreeSet<Trouble>,
    /// The newest first.
    pub decisions: Vec<Decision>,
}

impl Report {
    /// The least that the pods which are seen could cost, if that was proved of just these.
    pub fn lower_bound(&self) -> Option<Price> {
        let (bound, premises) = (self.course.last()?.lower_bound, self.course.premises.as_ref()?);
        (**premises == Premises::of(&self.snapshot)).then_some(bound)
    }
}

/// What the cluster cost over time, and what it could have cost at least.
#[derive(Clone, Debug, Default)]
pub struct Course {
    points: VecDeque<CostPoint>,
    /// What the last lower bound was proved of.
    premises: Option<Arc<Premises>>,
    /// What would have been saved so far, had all that was planned been done.
    pub could_have_saved: Price,
    /// What the last plan saves, by pool.
    pub savings: BTreeMap<Text, Savings>,
}

/// What nodes that go save, an hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Savings {
    /// Those that go for nothing.
    pub removal: Price,
    /// Those that go for cheaper ones.
    pub replacement: Price,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CostPoint {
    pub at: Timestamp,
    pub cost: Price,
    /// No plan for the pods that there were costs less.
    pub lower_bound: Price,
}

impl Course {
    /// More points than a picture has pixels help nobody.
    const POINTS_MAX: usize = 512;

    /// Adds what a plan found, and the least that the pods of its snapshot could cost.
    pub(crate) fn add(&mut self, at: Timestamp, (snapshot, plan): (&Snapshot, &Plan), lower_bound: Price) {
        self.premises = Some(Arc::new(Premises::of(snapshot)));
        if let Some(last) = self.points.back() {
            let secs = i128::from(at.duration_since(last.at).as_secs().max(0));
            let saving = i128::from(plan.cost_before.minus(plan.cost_after).micro_usd().max(0));
            let saved = i64::try_from(saving * secs / 3600).unwrap_or(i64::MAX);
            self.could_have_saved = self.could_have_saved.plus(Price::from_micro_usd(saved));
        }
        self.points.push_back(CostPoint { at, cost: plan.cost_before, lower_bound });
        if self.points.len() > Self::POINTS_MAX {
            // The older half is told with half as many words.
            let half = Self::POINTS_MAX / 2;
            let mut index = 0;
            self.points.retain(|_| {
                index += 1;
                index > half || index % 2 == 1
            });
        }
    }

    pub fn points(&self) -> impl Iterator<Item = &CostPoint> {
        self.points.iter()
    }

    pub fn last(&self) -> Option<&CostPoint> {
        self.points.back()
    }
}
