//! Whether machines of a NodePool become nodes. It is told as a condition of the pool, from which the next leader goes on.

use berth_api::resources::shared::{Condition, ConditionStatus};
use berth_core::claim::Ending;
use berth_core::registrations::{Health, Registrations};

use crate::claim::Claim;
use crate::conditions::{Conditions, REGISTRATION_HEALTHY};
use crate::dialect::Dialect;
use crate::office::Office;

/// What was seen of a pool's machines since it or its class last changed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Joining {
    /// Of the pool and its class.
    generations: (Option<i64>, i64),
    registrations: Registrations,
    /// Why the last one that failed did.
    failure: Option<(String, String)>,
}

impl Joining {
    /// What is known of a pool from what it says itself; nothing, if that is about what it was before.
    pub(crate) fn told(
        said: Option<&Condition>,
        known_of: (Option<i64>, Option<i64>),
        now: (Option<i64>, i64),
    ) -> Self {
        let said = said.filter(|_| known_of == (now.0, Some(now.1)));
        let health = match said.map(|condition| &condition.status) {
            Some(ConditionStatus::True) => Health::Healthy,
            Some(ConditionStatus::False) => Health::Unhealthy,
            Some(ConditionStatus::Unknown) | None => Health::Unknown,
        };
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let failure = said.filter(|_| health == Health::Unhealthy);
        Self {
            generations: now,
            registrations: Registrations::of(health),
            failure: failure.map(|condition| (text(&condition.reason), text(&condition.message))),
        }
    }

    pub(crate) fn is_of(&self, generations: (Option<i64>, i64)) -> bool {
        self.generations == generations
    }

    pub(crate) fn tell(&self, conditions: &mut Conditions) {
        match (self.registrations.health(), &self.failure) {
            (Health::Healthy, _) => conditions.hold(REGISTRATION_HEALTHY),
            (Health::Unhealthy, Some((reason, message))) => {
                conditions.set(REGISTRATION_HEALTHY, ConditionStatus::False, reason, message);
            }
            (Health::Unhealthy | Health::Unknown, _) => {
                conditions.set(REGISTRATION_HEALTHY, ConditionStatus::Unknown, "NotYet", "");
            }
        }
    }
}

impl Office {
    /// A claim ends: if that is because its machine did not become a node, its pool is told.
    pub(crate) fn counts_unjoined(&self, claim: &Claim, ending: Ending) {
        match ending {
            Ending::RegistrationTimeout => {
                self.notes_joining(claim, Some(("RegistrationFailed", ending.meaning())));
            }
            Ending::LaunchTimeout => {
                let launched = claim.conditions.iter().find(|condition| condition.type_ == "Launched");
                let reason = launched.and_then(|condition| condition.reason.as_deref());
                let message = launched.and_then(|condition| condition.message.as_deref());
                let reason = reason.unwrap_or_else(|| ending.name());
                self.notes_joining(claim, Some((reason, message.unwrap_or_default())));
            }
            _ => {}
        }
    }

    /// A claim's machine has become a node, or has not in time, for this reason. What happens before a pool was first
    /// looked at is nobody's loss: the next machine tells as much.
    pub(crate) fn notes_joining(&self, claim: &Claim, failure: Option<(&str, &str)>) {
        if claim.dialect != Dialect::Karpenter {
            return;
        }
        let mut joining = self.joining();
        let Some(of_pool) = claim.pool.as_ref().and_then(|pool| joining.get_mut(pool)) else { return };
        of_pool.registrations.note(failure.is_none());
        if let Some((reason, message)) = failure {
            of_pool.failure = Some((reason.to_owned(), message.to_owned()));
        }
    }
}
