//! What a claim says of what it waits for while it comes up.

use berth_api::resources::shared::ConditionStatus;
use berth_core::claim::Waiting;

use super::Performed;
use crate::claim::Claim;
use crate::conditions::Conditions;
use crate::dialect::News;
use crate::objects::NodeObject;
use crate::office::Office;
use crate::sight::{Passing, missing_resource, passing_taint};

impl Claim {
    /// Notes what it waits for, in Karpenter's words. What holds already goes on holding.
    pub(super) fn note_wait(&self, conditions: &mut Conditions, waiting: Waiting, node: Option<&NodeObject>) {
        let passing = || node.and_then(|node| passing_taint(node, self));
        let named = |taint: &crate::objects::Taint| format!("\"{}:{}\"", taint.key, taint.effect);
        let missing = || node.and_then(|node| missing_resource(node, self));
        let (kind, reason, message) = match waiting {
            Waiting::Join => ("Registered", "NodeNotFound", "Node not registered with cluster".to_owned()),
            Waiting::Ready => ("Initialized", "NodeNotReady", "Node status is NotReady".to_owned()),
            Waiting::PassingTaints => match passing() {
                Some(Passing::Startup(taint)) => {
                    let message = format!("StartupTaint {} still exists", named(taint));
                    ("Initialized", "StartupTaintsExist", message)
                }
                Some(Passing::Ephemeral(taint)) => {
                    let message = format!("KnownEphemeralTaint {} still exists", named(taint));
                    ("Initialized", "KnownEphemeralTaintsExist", message)
                }
                None => return,
            },
            Waiting::Resources => match missing() {
                Some(resource) => {
                    let message = format!("Resource \"{resource}\" was requested but not registered");
                    ("Initialized", "ResourceNotRegistered", message)
                }
                None => return,
            },
            Waiting::Nothing | Waiting::Sight => return,
        };
        if !self.holds(kind) {
            conditions.set(kind, ConditionStatus::Unknown, reason, &message);
            conditions.settle_readiness();
        }
    }
}

impl Office {
    fn with_wait(&self, claim: &Claim, waiting: Waiting, node: Option<&NodeObject>) -> Conditions {
        let mut conditions = Conditions::of(&claim.conditions, self.now());
        claim.note_wait(&mut conditions, waiting, node);
        conditions
    }

    /// Whether the claim says already what it waits for.
    pub(crate) fn is_wait_told(&self, claim: &Claim, waiting: Waiting, node: Option<&NodeObject>) -> bool {
        !self.with_wait(claim, waiting, node).has_changed()
    }

    pub(super) async fn tell_wait(
        &self,
        claim: &Claim,
        waiting: Waiting,
        node: Option<&NodeObject>,
    ) -> Performed {
        self.write_conditions(claim, &self.with_wait(claim, waiting, node), &News::default()).await
    }
}
