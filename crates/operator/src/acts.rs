//! The record of what cannot be taken back: a line of the log for each, with what it takes to find out why. And what
//! is counted of claims' lives.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use berth_api::Timestamp;
use berth_api::resources::shared::Condition;
use berth_api::resources::vpsie::Phase;
use berth_cloud::machine::MachineId;
use berth_core::claim::Ending;
use berth_core::names;
use berth_core::plan::Launch;

use crate::claim::Claim;
use crate::cluster::Refused;
use crate::dialect::Dialect;
use crate::discovery::Strategy;
use crate::metrics::{reason_label, table};
use crate::objects::{NodeObject, PodObject};
use crate::office::Office;
use crate::sight::secs_between;

/// In whose name things are done, and upon what was seen.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    epoch: AtomicU64,
    /// The number of changes that were seen.
    revision: AtomicU64,
}

impl Standing {
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Relaxed)
    }
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

    fn record(&self, act: &str, reason: &str, (object, uid): (&str, &str), claim: Option<&Claim>) {
        let epoch = self.standing.epoch();
        let revision = self.standing.revision.load(Ordering::Relaxed);
        let category = act.split(' ').next().unwrap_or_default();
        self.metrics.count(table::VPSIE_AUDIT, [&act.replace(' ', "_"), category, "info"]);
        let vps_id = claim.and_then(Claim::machine).map(|id| id.to_string());
        tracing::info!(
            target: "berth::acts",
            act, reason, object, uid, epoch, revision,
            nodegroup = claim.map(pool), node = claim.and_then(Claim::node), vpsId = vps_id,
            phase = claim.map(|claim| claim.phase(&claim.conditions)), "{act}"
        );
    }

    pub(crate) fn deleted_claim(&self, claim: &Claim, reason: &str) {
        self.metrics.count(
            table::CLAIMS_DISRUPTED,
            [pool(claim), &reason_label(reason), label(claim, names::CAPACITY_TYPE)],
        );
        if reason == Ending::FailureExpired.name() {
            self.metrics.count(table::VPSIE_TTL_DELETIONS, [pool(claim), &claim.namespace]);
        }
        self.record("claim deleted", reason, identity(claim), Some(claim));
    }

    pub(crate) fn asked_to_leave(&self, claim: &Claim, pod: &PodObject, refused: Option<&Refused>) {
        let code = refused.map_or(Some(200), |refused| refused.code);
        let code = code.map_or_else(|| "none".to_owned(), |code| code.to_string());
        self.metrics.count(table::PODS_EVICTIONS, [&code]);
        if refused.is_none() {
            self.pod_leaves("pod evicted", claim, pod);
        }
    }

    pub(crate) fn deleted_pod(&self, claim: &Claim, pod: &PodObject) {
        self.pod_leaves("pod deleted", claim, pod);
    }

    fn pod_leaves(&self, act: &str, claim: &Claim, pod: &PodObject) {
        let reason = reason(claim);
        self.metrics.count(table::PODS_DRAINED, [&reason_label(reason)]);
        let object = format!("{}/{}", pod.metadata.namespace, pod.metadata.name);
        self.record(act, reason, (&object, &pod.metadata.uid), Some(claim));
    }

    pub(crate) fn drained(&self, claim: &Claim) {
        self.metrics.count(table::NODES_DRAINED, [pool(claim)]);
    }

    pub(crate) fn ended_machine(&self, claim: &Claim, machine: &MachineId) {
        let (_, uid) = identity(claim);
        self.record("machine terminated", reason(claim), (&machine.to_string(), uid), Some(claim));
    }

    /// The uid is that of the claim that it was bought for.
    pub(crate) fn ended_orphan(&self, machine: &MachineId, uid: &str) {
        self.record("orphan terminated", "Orphaned", (&machine.to_string(), uid), None);
    }

    pub(crate) fn deleted_node(&self, claim: &Claim, node: &NodeObject) {
        let object = (&*node.metadata.name, &*node.metadata.uid);
        self.record("node deleted", reason(claim), object, Some(claim));
    }

    pub(crate) fn counts_claim(&self, launch: &Launch, reason: &str) {
        let relaxed = if launch.min_values_relaxed { "true" } else { "false" };
        self.metrics.count(table::CLAIMS_CREATED, [&launch.pool, &reason_label(reason), relaxed]);
    }

    /// A node was found for a claim's machine, and is its own now.
    pub(crate) fn counts_node(&self, claim: &Claim, node: &NodeObject) {
        self.metrics.count(table::NODES_CREATED, [pool(claim)]);
        if claim.dialect == Dialect::Vpsie {
            self.metrics.count(table::DISCOVERIES, [Strategy::of(claim, node).name()]);
            if let Some(time) = self.since(claim.held_since("Launched")) {
                self.metrics.took(table::DISCOVERY, [], time);
            }
        }
    }

    /// It could not be made its own.
    pub(crate) fn counts_unregistered(&self, claim: &Claim, refused: &Refused) {
        if claim.dialect == Dialect::Vpsie {
            let reason = if refused.is_conflict() { "claim_conflict" } else { "api_error" };
            self.metrics.count(table::DISCOVERIES_FAILED, [reason]);
        }
    }

    /// What another autoscaler asked for came to no machine.
    pub(crate) fn counts_unfound(&self) {
        self.metrics.count(table::DISCOVERIES_FAILED, ["not_found"]);
    }

    /// None was found in time.
    pub(crate) fn counts_undiscovered(&self, claim: &Claim, ending: Ending) {
        let is_late = matches!(ending, Ending::RegistrationTimeout | Ending::ReadyTimeout);
        if claim.dialect == Dialect::Vpsie && is_late && claim.node().is_none() {
            self.metrics.count(table::DISCOVERIES_FAILED, ["timeout"]);
        }
    }

    /// What VPSie's own autoscaler counts of a VPSieNode whose conditions are these from now on.
    pub(crate) fn counts_phase(&self, claim: &Claim, conditions: &[Condition]) {
        let (from, to) = (claim.told.phase.name(), claim.phase(conditions));
        if claim.dialect != Dialect::Vpsie || from == to {
            return;
        }
        let (group, namespace) = (pool(claim), &*claim.namespace);
        tracing::info!(
            target: "berth::lives",
            nodegroup = group, node = claim.node(), vpsId = claim.machine().map(|id| id.to_string()),
            phase = to, from, duration = self.since(claim.created).map(|age| age.as_secs()),
            "{} is {to}", claim.name
        );
        self.metrics.count(table::VPSIE_PHASE_TRANSITIONS, [from, to, group, namespace]);
        // One that was to go and stays was ready before.
        let is_up = to == Phase::Ready.name() && from != Phase::Terminating.name();
        if let Some(time) = self.since(claim.created).filter(|_| is_up) {
            self.metrics.took(table::VPSIE_PROVISIONING, [group, namespace], time);
        }
    }

    pub(crate) fn node_gone(&self, claim: &Claim) {
        let pool = pool(claim);
        self.metrics.count(table::NODES_TERMINATED, [pool]);
        if let Some(time) = self.since(claim.deleting) {
            self.metrics.took(table::NODES_TERMINATION, [pool], time);
        }
        if let Some(time) = self.since(claim.held_since("Registered")) {
            self.metrics.took(table::NODES_LIFETIME, [pool], time);
        }
    }

    pub(crate) fn claim_gone(&self, claim: &Claim) {
        let pool = pool(claim);
        let labels = [pool, label(claim, names::CAPACITY_TYPE), label(claim, names::ZONE)];
        self.metrics.count(table::CLAIMS_TERMINATED, labels);
        if let Some(time) = self.since(claim.deleting) {
            self.metrics.took(table::CLAIMS_TERMINATION, [pool], time);
            if claim.dialect == Dialect::Vpsie {
                self.metrics.took(table::VPSIE_TERMINATION, [pool, &claim.namespace], time);
            }
        }
        if let Some(time) = self.since(claim.held_since("InstanceTerminating")) {
            self.metrics.took(table::MACHINES_TERMINATION, [pool], time);
        }
    }

    pub(crate) fn since(&self, then: Option<Timestamp>) -> Option<Duration> {
        then.map(|then| Duration::from_secs(secs_between(then, self.now())))
    }
}

fn identity(claim: &Claim) -> (&str, &str) {
    (&claim.name, &claim.uid)
}

fn pool(claim: &Claim) -> &str {
    claim.pool.as_deref().unwrap_or_default()
}

fn label<'c>(claim: &'c Claim, name: &str) -> &'c str {
    claim.label(name).unwrap_or_default()
}

/// Why a claim goes, as far as it says.
fn reason(claim: &Claim) -> &str {
    claim.held("DisruptionReason").and_then(|condition| condition.reason.as_deref()).unwrap_or("Deleted")
}
