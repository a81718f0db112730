//! Whose turn it is to move, where many pods leave their nodes at once.
//!
//! kube-scheduler spreads pods over the emptiest nodes. A small pod that moves before a large one takes the room that
//! only the large one needed, and another node has to be bought; a large pod that moves first leaves room enough for
//! small ones. So pods that are much smaller than the largest that has yet to find its place wait for their turn.
//!
//! A pod that is made again only once it is gone comes back after all that leave together with it, and finds what they
//! have left. So it leaves before them, and they wait until it has its place.

use crate::names::Text;
use crate::plan::{Host, Plan};
use crate::pod::PodSpec;
use crate::resources::{PODS, Resources};
use crate::snapshot::Snapshot;

/// In what the size of pods is counted: a millionth of all that moves.
const WHOLE: i128 = 1_000_000;
/// A pod that is smaller than the largest by more than this waits: so there are few turns, however many sizes.
const MUCH_SMALLER: i128 = 2;

/// Indices of the pods that run and are to move to nodes that are there, and whose turn it is not yet. `are_returning`:
/// pods that come back late have left their nodes, and have no place yet.
pub fn waiting_for_others(snapshot: &Snapshot, plan: &Plan, are_returning: bool) -> Vec<usize> {
    let moving: Vec<usize> =
        plan.binds.iter().filter(|bind| matches!(bind.host, Host::Node(_))).map(|bind| bind.pod).collect();
    let runs = |pod: &usize| snapshot.pods[*pod].node.is_some();
    let is_late = |pod: &usize| snapshot.pods[*pod].disruption.returns_late;
    if are_returning || moving.iter().any(|pod| runs(pod) && is_late(pod)) {
        return moving.into_iter().filter(|pod| runs(pod) && !is_late(pod)).collect();
    }
    let spec = |pod: usize| -> &PodSpec { &snapshot.pods[pod].spec };
    let mut all = Resources::new();
    for pod in &moving {
        all.add(&spec(*pod).requests);
    }
    let size = |pod: usize| {
        let share =
            |(name, amount): (&Text, i64)| i128::from(amount) * WHOLE / i128::from(all.get(name).max(1));
        // Each pod is one pod.
        spec(pod).requests.iter().filter(|(name, _)| ***name != *PODS).map(share).max().unwrap_or(0)
    };
    let Some(largest) = moving.iter().map(|pod| size(*pod)).max() else { return Vec::new() };
    moving.into_iter().filter(|pod| runs(pod) && size(*pod) * MUCH_SMALLER < largest).collect()
}
