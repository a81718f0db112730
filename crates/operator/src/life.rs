//! The steps of a claim's life, performed. What comes next is decided by [`berth_core::claim`].

mod launching;
mod leaving;
mod telling;
mod volumes;
mod waiting;

use std::sync::Arc;

use berth_cloud::provider::Refusal;
use berth_core::claim::Step;
use serde_json::json;

use crate::claim::Claim;
use crate::cluster::Refused;
use crate::conditions::{Conditions, LAUNCH_FAILED};
use crate::desk::NODES;
use crate::dialect::News;
use crate::journal::Severity;
use crate::lives::STEP_MAX;
use crate::objects::NodeObject;
use crate::office::Office;

pub(crate) use volumes::Holding;

/// On a Node: it was cordoned because it is to go, and not by somebody else before.
pub(crate) const CORDONED: &str = "berth.dev/cordoned";

/// On a Node: the uid of its claim, where that is in a namespace: Kubernetes lets none of those own what is in none.
pub(crate) const CLAIM: &str = "berth.dev/claim";

/// A claim and what is to be done with it.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) claim: Arc<Claim>,
    pub(crate) node: Option<Arc<NodeObject>>,
    pub(crate) step: Step,
    /// How long pods may take to leave from when the claim was deleted. Near its end they are deleted.
    pub(crate) grace_secs: Option<u64>,
    /// Volumes of pods that have left are still attached to the node, or nobody knows.
    pub(crate) has_volumes: bool,
}

/// What became of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// As far as it goes now.
    Done,
    /// It should be looked at again soon.
    Unfinished,
    /// The claim is no more, nor its machine.
    Gone,
}

/// Something that did not work. The next look tries again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{0}")]
    Cluster(#[from] Refused),
    #[error("{0}")]
    Cloud(#[from] Refusal),
    #[error("there is no cloud for {0}")]
    NoCloud(String),
    #[error("it was not done within {} s", STEP_MAX.as_secs())]
    Late,
}

impl Failure {
    /// Somebody else has written in between.
    pub(crate) fn is_conflict(&self) -> bool {
        matches!(self, Self::Cluster(refused) if refused.is_conflict())
    }

    /// Somebody else has written in between, or the API had no time: nothing is wrong.
    fn is_passing(&self) -> bool {
        matches!(self, Self::Cluster(Refused { code: Some(409 | 429), .. }))
    }
}

type Performed = Result<Outcome, Failure>;

impl Office {
    pub(crate) async fn perform(&self, task: &Task) -> Performed {
        let Task { claim, node, step, grace_secs, has_volumes } = task;
        match (step, node.as_deref()) {
            (Step::Launch, node) => self.launch(claim, node).await,
            (Step::Confirm, _) => self.confirm(claim).await,
            (Step::Delete(ending), _) => self.end_as_seen(claim, *ending).await,
            (Step::Fail(ending), _) => self.fail(claim, *ending, ending.meaning()).await,
            (Step::EndFailed, node) => self.end_failed(claim, node).await,
            (Step::EndMachine, node) => self.end_machine(claim, node, *has_volumes).await,
            (Step::NoteDeadline, _) => self.note_deadline(claim).await,
            (Step::AwaitVolumes, node) => self.await_volumes(claim, node).await,
            (Step::Register, Some(node)) => self.register(claim, node).await,
            (Step::Initialize, Some(node)) => self.initialize(claim, node).await,
            (Step::Close, Some(node)) => self.close(claim, node).await,
            (Step::Drain, Some(node)) => self.drain(claim, node, *grace_secs).await,
            (Step::Wait(waiting), node) => self.tell_wait(claim, *waiting, node).await,
            (Step::Register | Step::Initialize | Step::Close | Step::Drain, None) => Ok(Outcome::Done),
        }
    }

    /// Tells that a step does not work. What fails once may work the next time, and nobody needs to know.
    pub(crate) async fn failed(&self, task: &Task, failure: &Failure, tries: u32) {
        let Task { claim, step, .. } = task;
        tracing::warn!(target: "berth::steps", claim = %claim.name, ?step, tries, "{failure}");
        let reason = match step {
            // The claim itself says why, unless nobody got to writing it.
            Step::Launch if *failure == Failure::Late => {
                return self.tell_unlaunched(claim, LAUNCH_FAILED, failure).await;
            }
            Step::Launch | Step::Wait(_) => return,
            Step::EndMachine | Step::EndFailed => "FailedTermination",
            Step::Close | Step::Drain | Step::AwaitVolumes => "FailedDraining",
            Step::Register | Step::Initialize | Step::Confirm => "FailedRegistration",
            Step::Delete(_) | Step::Fail(_) | Step::NoteDeadline => "FailedUpdate",
        };
        if tries > 0 && !failure.is_passing() {
            self.say(claim, Severity::Warning, reason, &failure.to_string()).await;
        }
    }

    /// Writes conditions and what else is new in the status, if anything is.
    pub(crate) async fn write_conditions(
        &self,
        claim: &Claim,
        conditions: &Conditions,
        news: &News,
    ) -> Performed {
        if !conditions.has_changed() {
            return Ok(Outcome::Done);
        }
        self.write_status(claim, conditions, news).await?;
        Ok(Outcome::Unfinished)
    }

    pub(crate) async fn write_status(
        &self,
        claim: &Claim,
        conditions: &Conditions,
        news: &News,
    ) -> Result<(), Failure> {
        let change = json!({ "status": claim.dialect.status(claim, (conditions.all(), self.now()), news) });
        self.desk.keep(&format!("{}/status", claim.path()), &claim.resource_version, change).await?;
        self.counts_phase(claim, conditions.all());
        Ok(())
    }
}

pub(crate) fn node_path(node: &NodeObject) -> String {
    format!("{NODES}/{}", node.metadata.name)
}

fn no_cloud(claim: &Claim) -> Failure {
    Failure::NoCloud(claim.name.to_string())
}
