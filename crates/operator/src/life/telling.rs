//! What a claim of Karpenter's says of its end while that goes on.

use berth_api::claims::TERMINATION_TIMESTAMP;
use berth_api::resources::shared::ConditionStatus;
use serde_json::json;

use super::{Failure, Outcome, Performed};
use crate::claim::Claim;
use crate::conditions::{CONSISTENT, Conditions, INCONSISTENT, whole};
use crate::dialect::{Dialect, News};
use crate::office::Office;

/// A drain that is refused for longer is not as it should be. As often as that Karpenter looks.
const REFUSED_SECS_MAX: u64 = 600;

/// Nobody waits longer for pods of a node that is broken, whatever protects them. So long they have to end by default.
const BROKEN_SECS_MAX: u64 = 30;

impl Office {
    /// Writes down by when the pods of its node have to be gone.
    pub(super) async fn note_deadline(&self, claim: &Claim) -> Performed {
        let broken_secs = claim.is_broken().then_some(BROKEN_SECS_MAX);
        let grace_secs = claim.grace_secs.into_iter().chain(broken_secs).min();
        let (Some(deleting), Some(grace_secs)) = (claim.deleting, grace_secs) else {
            return Ok(Outcome::Done);
        };
        let grace = std::time::Duration::from_secs(grace_secs);
        // A time that cannot be written is as good as none.
        let Ok(deadline) = deleting.checked_add(grace) else { return Ok(Outcome::Done) };
        let change = json!({ "metadata": {
            "uid": claim.uid, "resourceVersion": claim.resource_version,
            "annotations": { TERMINATION_TIMESTAMP: whole(deadline) },
        } });
        self.desk.patch(&claim.path(), &change).await?;
        Ok(Outcome::Unfinished)
    }

    /// Says that the node is being drained; and, once that has been refused for long, that it cannot be.
    pub(super) async fn tell_drain(
        &self,
        claim: &Claim,
        draining_secs: u64,
        is_refused: bool,
    ) -> Result<(), Failure> {
        if claim.dialect != Dialect::Karpenter {
            return Ok(());
        }
        let mut conditions = Conditions::of(&claim.conditions, self.now());
        conditions.set("Drained", ConditionStatus::Unknown, "Draining", "");
        if is_refused && draining_secs >= REFUSED_SECS_MAX {
            let message = "pods of its node may not be evicted";
            conditions.set(CONSISTENT, ConditionStatus::False, INCONSISTENT, message);
        }
        self.write_conditions(claim, &conditions, &News::default()).await?;
        Ok(())
    }
}

impl Claim {
    /// Notes that nothing holds up its drain any more, if something did.
    pub(super) fn note_consistent(&self, conditions: &mut Conditions) {
        if self.conditions.iter().any(|condition| condition.type_ == CONSISTENT) {
            conditions.hold(CONSISTENT);
        }
    }
}
