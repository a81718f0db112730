//! The record of what cannot be taken back: a line of the log for each, with what it takes to find out why. And what
//! is counted of claims' lives.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use berth_api::Timestamp;
use berth_api::resources::karpenter::NodeClaim;
use berth_api::resources::shared::{Condition, ConditionStatus};
use berth_cloud::machine::MachineId;
use berth_core::names;
use berth_core::plan::Launch;

use crate::cluster::Refused;
use crate::metrics::table;
use crate::objects::PodObject;
use crate::office::Office;
use crate::sight::{conditions_of, pool_of, secs_between};

/// In whose name things are done, and upon what was seen.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    epoch: AtomicU64,
    /// The number of changes that were seen.
    revision: AtomicU64,
}

impl Office {
    /// What is done from now on is done in this epoch, upon this revision of what is seen.
    pub(crate) fn stand_on(&self, epoch: Option<u64>, revision: u64) {
        // What is still under way when the lead is gone was begun in its epoch.
        if let Some(epoch) = epoch {
            self.standing.epoch.store(epoch, Ordering::Relaxed);
        }
        self.standing.revision.store(revision, Ordering::Relaxed);
    }

    fn record(&self, act: &str, reason: &str, (object, uid): (&str, &str)) {
        let epoch = self.standing.epoch.load(Ordering::Relaxed);
        let revision = self.standing.revision.load(Ordering::Relaxed);
        tracing::info!(target: "berth::acts", act, reason, object, uid, epoch, revision, "{act}");
    }

    pub(crate) fn deleted_claim(&self, claim: &NodeClaim, reason: &str) {
        self.metrics
            .count(table::CLAIMS_DISRUPTED, [pool(claim), reason, label(claim, names::CAPACITY_TYPE)]);
        self.record("claim deleted", reason, identity(claim));
    }

    pub(crate) fn asked_to_leave(&self, claim: &NodeClaim, pod: &PodObject, refused: Option<&Refused>) {
        let code = refused.map_or(Some(200), |refused| refused.code);
        let code = code.map_or_else(|| "none".to_owned(), |code| code.to_string());
        self.metrics.count(table::PODS_EVICTIONS, [&code]);
        if refused.is_none() {
            self.pod_leaves("pod evicted", claim, pod);
        }
    }

    pub(crate) fn deleted_pod(&self, claim: &NodeClaim, pod: &PodObject) {
        self.pod_leaves("pod deleted", claim, pod);
    }

    fn pod_leaves(&self, act: &str, claim: &NodeClaim, pod: &PodObject) {
        let reason = reason(claim);
        self.metrics.count(table::PODS_DRAINED, [reason]);
        let object = format!("{}/{}", pod.metadata.namespace, pod.metadata.name);
        self.record(act, reason, (&object, &pod.metadata.uid));
    }

    pub(crate) fn drained(&self, claim: &NodeClaim) {
        self.metrics.count(table::NODES_DRAINED, [pool(claim)]);
    }

    pub(crate) fn ended_machine(&self, claim: &NodeClaim, machine: &MachineId) {
        let (_, uid) = identity(claim);
        self.record("machine terminated", reason(claim), (&machine.to_string(), uid));
    }

    pub(crate) fn ended_orphan(&self, machine: &MachineId) {
        self.record("orphan terminated", "Orphaned", (&machine.to_string(), ""));
    }

    pub(crate) fn counts_claim(&self, launch: &Launch, reason: &str) {
        let relaxed = if launch.min_values_relaxed { "true" } else { "false" };
        self.metrics.count(table::CLAIMS_CREATED, [&launch.pool, reason, relaxed]);
    }

    pub(crate) fn counts_node(&self, claim: &NodeClaim) {
        self.metrics.count(table::NODES_CREATED, [pool(claim)]);
    }

    pub(crate) fn node_gone(&self, claim: &NodeClaim) {
        let pool = pool(claim);
        self.metrics.count(table::NODES_TERMINATED, [pool]);
        if let Some(time) = self.since(claim.metadata.deletion_timestamp.as_ref().map(|time| time.0)) {
            self.metrics.took(table::NODES_TERMINATION, [pool], time);
        }
        if let Some(time) = self.since(held_since(claim, "Registered")) {
            self.metrics.took(table::NODES_LIFETIME, [pool], time);
        }
    }

    pub(crate) fn claim_gone(&self, claim: &NodeClaim) {
        let pool = pool(claim);
        let labels = [pool, label(claim, names::CAPACITY_TYPE), label(claim, names::ZONE)];
        self.metrics.count(table::CLAIMS_TERMINATED, labels);
        if let Some(time) = self.since(claim.metadata.deletion_timestamp.as_ref().map(|time| time.0)) {
            self.metrics.took(table::CLAIMS_TERMINATION, [pool], time);
        }
        if let Some(time) = self.since(held_since(claim, "InstanceTerminating")) {
            self.metrics.took(table::MACHINES_TERMINATION, [pool], time);
        }
    }

    fn since(&self, then: Option<Timestamp>) -> Option<Duration> {
        then.map(|then| Duration::from_secs(secs_between(then, self.now())))
    }
}

fn identity(claim: &NodeClaim) -> (&str, &str) {
    let metadata = &claim.metadata;
    (metadata.name.as_deref().unwrap_or_default(), metadata.uid.as_deref().unwrap_or_default())
}

fn pool(claim: &NodeClaim) -> &str {
    pool_of(claim).unwrap_or_default()
}

fn label<'c>(claim: &'c NodeClaim, name: &str) -> &'c str {
    claim.metadata.labels.as_ref().and_then(|labels| labels.get(name)).map(String::as_str).unwrap_or_default()
}

fn held_since(claim: &NodeClaim, kind: &str) -> Option<Timestamp> {
    condition(claim, kind)?.last_transition_time.as_ref().map(|time| time.0)
}

/// Why a claim goes, as far as it says.
fn reason(claim: &NodeClaim) -> &str {
    condition(claim, "DisruptionReason")
        .and_then(|condition| condition.reason.as_deref())
        .unwrap_or("Deleted")
}

fn condition<'c>(claim: &'c NodeClaim, kind: &str) -> Option<&'c Condition> {
    let holds = |condition: &&Condition| condition.type_ == kind && condition.status == ConditionStatus::True;
    conditions_of(claim).iter().find(holds)
}
