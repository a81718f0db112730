//! All claims' lives, a step at a time; and machines that have outlived their claims.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use berth_api::resources::karpenter::NodeClaim;
use berth_core::claim::{self, Ending, MachineSight, Step, Waiting};
use berth_core::commitment::Commitments;
use berth_core::names::Text;
use futures::{StreamExt, stream};
use tokio::time::timeout;

use crate::buy::NotCommitted;
use crate::cluster::Refused;
use crate::journal::DecisionKind;
use crate::life::{self, Holding, Outcome, Task};
use crate::office::CLUSTER_TAG;
use crate::operator::Operator;
use crate::planning::Round;
use crate::sight::{self, NodesByMachine, Surroundings, machine_of, pool_of};
use crate::watched::View;

/// So many claims are worked on at a time.
const TASKS_AT_ONCE: usize = 16;
/// A step that takes longer is begun anew in the next round: each may be done twice.
const STEP_MAX: Duration = Duration::from_secs(60);
/// A machine without a claim is ended once it is so old: claims are made before machines.
const ORPHAN_SECS_MIN: u64 = 60;

impl Operator {
    /// Does the next step of every claim. Whether any is under way.
    pub(crate) async fn live(&self, view: &View, nodes: &NodesByMachine, epoch: u64) -> bool {
        let ledgers = self.ledgers_of_unlaunched(&view.claims).await;
        let holding = self.nodes_with_volumes(&view.claims).await;
        let sees_all = view.blind_spots.is_empty();
        let mut tasks = Vec::new();
        for claim in view.claims.values() {
            if let Some(task) = self.task(claim, nodes, (&ledgers, &holding), sees_all) {
                tasks.push(task);
            }
        }
        let is_busy = tasks.iter().any(|task| task.step != Step::Wait(Waiting::Nothing));
        let office = &self.office;
        let performed: Vec<(Task, _)> = stream::iter(tasks)
            .map(async |task| {
                let outcome = timeout(STEP_MAX, office.perform(&task)).await;
                (task, outcome)
            })
            .buffered(TASKS_AT_ONCE)
            .collect()
            .await;
        let mut gone: BTreeMap<String, BTreeSet<Text>> = BTreeMap::new();
        for (task, outcome) in performed {
            if let (Ok(Ok(Outcome::Gone(name))), Some(pool)) = (outcome, pool_of(&task.claim)) {
                gone.entry(pool.to_owned()).or_default().insert(name);
            }
        }
        for (pool, names) in gone {
            // What is not released now counts a little longer, and no more than that.
            let _ = office.release(&pool, &names, &BTreeSet::new(), epoch).await;
        }
        is_busy
    }

    fn task(
        &self,
        claim: &Arc<NodeClaim>,
        nodes: &NodesByMachine,
        (ledgers, holding): (&BTreeMap<String, Option<Commitments>>, &Holding),
        sees_all: bool,
    ) -> Option<Task> {
        let (kind, _) = self.office.cloud_of(claim)?;
        let machine = machine_of(claim);
        let name = claim.metadata.name.as_deref()?;
        let record = pool_of(claim).and_then(|pool| ledgers.get(pool)).and_then(Option::as_ref);
        // Without its ledger nothing is known of a claim; it waits.
        if machine.is_none() && claim.metadata.deletion_timestamp.is_none() {
            record?;
        }
        if !sight::is_ours(claim) && machine.is_none() {
            return None;
        }
        let node = sight::node_of(claim, nodes).cloned();
        let has_volumes = node.as_ref().is_some_and(|node| holding.has(&node.metadata.name));
        let machine_sight = machine.as_ref().map_or(MachineSight::Unseen, |id| {
            self.office.machines().get(&kind).map_or(MachineSight::Unseen, |machines| machines.sight(id))
        });
        let around = Surroundings {
            now: self.office.now(),
            nodes,
            sees_nodes: sees_all,
            is_committed: record.is_some_and(|record| record.claims.contains_key(name)),
            machine: machine_sight,
            is_interrupted: machine.is_some_and(|id| self.interrupted.contains(&id)),
            has_volumes,
        };
        let step = claim::step(&sight::sight(claim, &around));
        let is_harmless = matches!(step, Step::Wait(_) | Step::Launch | Step::Register | Step::Initialize)
            || step == Step::Delete(Ending::Interrupted);
        (sees_all || is_harmless).then(|| Task { claim: claim.clone(), node, step })
    }

    /// Which nodes have volumes attached, if a node is leaving for which that matters.
    async fn nodes_with_volumes(&self, claims: &BTreeMap<Text, Arc<NodeClaim>>) -> Holding {
        if claims.values().any(|claim| claim.metadata.deletion_timestamp.is_some()) {
            life::nodes_with_volumes(&self.office).await
        } else {
            Holding::default()
        }
    }

    /// The ledgers of pools with claims that are to be launched, as they are now.
    async fn ledgers_of_unlaunched(
        &self,
        claims: &BTreeMap<Text, Arc<NodeClaim>>,
    ) -> BTreeMap<String, Option<Commitments>> {
        let unlaunched = claims.values().filter(|claim| machine_of(claim).is_none());
        let pools: BTreeSet<&str> = unlaunched.filter_map(|claim| pool_of(claim)).collect();
        let mut ledgers = BTreeMap::new();
        for pool in pools {
            let record = match self.office.account(pool).await {
                Ok(account) => Some(account.record),
                // A pool that is gone has committed itself to nothing.
                Err(NotCommitted::Cluster(Refused { code: Some(404), .. })) => Some(Commitments::default()),
                Err(_) => None,
            };
            ledgers.insert(pool.to_owned(), record);
        }
        ledgers
    }

    /// Ends machines that were bought for claims that are no more.
    pub(crate) async fn end_orphans(&self, round: &Round) {
        if !round.sees_all {
            return;
        }
        let uids: BTreeSet<&str> =
            round.claims.values().filter_map(|claim| claim.metadata.uid.as_deref()).collect();
        let now = self.office.now();
        let mut orphans = Vec::new();
        for (kind, machines) in &*self.office.machines() {
            for machine in machines.lasting() {
                let is_ours =
                    machine.tags.get(CLUSTER_TAG).map(|id| &**id) == Some(self.office.cluster_id.as_str());
                let has_claim = machine.token.as_ref().is_none_or(|token| uids.contains(token.as_str()));
                let age = sight::secs_between(machine.launched_at, now);
                if is_ours && !has_claim && age >= ORPHAN_SECS_MIN {
                    orphans.push((*kind, machine.id.clone()));
                }
            }
        }
        for (kind, id) in orphans {
            let Some(cloud) = self.office.clouds.get(&kind) else { continue };
            if cloud.terminate(&id).await.is_ok() {
                self.office.ended_orphan(&id);
                let message = format!("machine {id} has no claim, and is ended");
                let objects = vec![id.to_string()];
                self.office.decided(DecisionKind::Failure, ("Orphaned", message), objects, None);
            }
        }
    }
}
