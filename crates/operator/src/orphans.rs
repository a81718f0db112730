//! Machines that have outlived their claims.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use berth_cloud::machine::MachineId;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::claim::machine_in;
use crate::journal::DecisionKind;
use crate::lives::STEP_MAX;
use crate::office::{CLUSTER_TAG, Office};
use crate::operator::Operator;
use crate::planning::Round;
use crate::sight;

/// A machine without a claim is ended once it is so old: claims are made before machines.
const ORPHAN_SECS_MIN: u64 = 60;
/// A machine that was told to end is told again after so long, should it still be there.
const TOLD_AGAIN: Duration = Duration::from_mins(2);

/// Those that are being ended, each by itself: a cloud that takes its time holds up nothing else.
#[derive(Debug, Default)]
pub(crate) struct Orphans {
    tasks: JoinSet<()>,
    told: BTreeMap<MachineId, Instant>,
}

impl Operator {
    /// Ends machines that were bought for claims that are no more.
    pub(crate) async fn end_orphans(&mut self, round: &Round) {
        while self.orphans.tasks.try_join_next().is_some() {}
        if !round.sees_all {
            return;
        }
        let Some(cluster_id) = self.office.cluster_id().await else { return };
        let uids: BTreeSet<&str> = round.claims.values().map(|claim| &*claim.uid).collect();
        let now = self.office.now();
        let mut orphans = Vec::new();
        for (kind, machines) in &*self.office.machines() {
            for machine in machines.lasting() {
                let is_ours = machine.tags.get(CLUSTER_TAG).map(|id| &**id) == Some(cluster_id);
                // Without a token it is somebody else's, or nobody knows yet whose.
                let Some(token) = &machine.token else { continue };
                let age = sight::secs_between(machine.launched_at, now);
                if is_ours && !uids.contains(token.as_str()) && age >= ORPHAN_SECS_MIN {
                    orphans.push((*kind, machine.id.clone(), token.clone()));
                }
            }
        }
        let told = &mut self.orphans.told;
        told.retain(|id, at| at.elapsed() < TOLD_AGAIN && orphans.iter().any(|(_, orphan, _)| orphan == id));
        orphans.retain(|(_, id, _)| !told.contains_key(id));
        if orphans.is_empty() {
            return;
        }
        // The truth: what was seen may be older than the claim.
        let Ok(claims) = self.office.entries().await else { return };
        let uids: BTreeSet<&str> = claims.iter().map(|claim| &*claim.uid).collect();
        // A machine that a claim has is none, whatever it was bought for.
        let owned: BTreeSet<MachineId> =
            claims.iter().filter_map(|claim| machine_in(&claim.provider_id)).collect();
        orphans.retain(|(_, id, token)| !uids.contains(token.as_str()) && !owned.contains(id));
        for (kind, id, token) in orphans {
            let Some(cloud) = self.office.clouds.get(&kind).cloned() else { continue };
            self.orphans.told.insert(id.clone(), Instant::now());
            let office = self.office.clone();
            self.orphans.tasks.spawn(async move {
                if let Ok(Ok(())) = timeout(STEP_MAX, cloud.terminate(&id)).await {
                    office.orphan_ended(&id, token.as_str());
                }
            });
        }
    }
}

impl Office {
    fn orphan_ended(&self, id: &MachineId, uid: &str) {
        self.ended_orphan(id, uid);
        let message = format!("machine {id} has no claim, and is ended");
        self.decided(DecisionKind::Failure, ("Orphaned", message), vec![id.to_string()], None);
    }
}

#[cfg(test)]
mod tests;
