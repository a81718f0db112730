//! Which pods of nodes that leave wait until others have left theirs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use berth_core::plan::Plan;
use berth_core::turns;
use tokio::time::Instant;

use crate::office::PodName;
use crate::planning::Round;

/// Nobody waits longer for their turn: the others may be held up by a budget.
pub(crate) const TURN_MAX: Duration = Duration::from_secs(30);

/// Pods that come back late and have left their nodes, or are about to, since when. Between the end of one and the
/// beginning of the next there is none of that name for a moment, and others still wait for it.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    returning: BTreeMap<PodName, Instant>,
}

impl Turns {
    /// Pods on nodes that nobody takes away but Berth, and whose turn to move it is not yet.
    pub(crate) fn look(&mut self, round: &Round, waiting: Option<&Plan>) -> BTreeSet<PodName> {
        let leaving: BTreeSet<&str> =
            round.leaving.keys().filter_map(|claim| round.claims.get(claim)?.node()).collect();
        let snapshot = &round.snapshot;
        for pod in snapshot.pods.iter().filter(|pod| pod.disruption.returns_late) {
            let id = (pod.namespace.clone(), pod.name.clone());
            match pod.node.as_deref() {
                Some(node) if !leaving.contains(node) => _ = self.returning.remove(&id),
                Some(_) if pod.deleting => _ = self.returning.entry(id).or_insert_with(Instant::now),
                _ => {}
            }
        }
        self.returning.retain(|_, since| since.elapsed() < TURN_MAX);
        let Some(plan) = waiting else { return BTreeSet::new() };
        let pods = turns::waiting_for_others(snapshot, plan, !self.returning.is_empty()).into_iter();
        let pods = pods.filter_map(|index| snapshot.pods.get(index));
        pods.filter(|pod| pod.node.as_ref().is_some_and(|node| leaving.contains(&**node)))
            .map(|pod| (pod.namespace.clone(), pod.name.clone()))
            .collect()
    }
}
