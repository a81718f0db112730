//! Conditions of an object's status, as they are after a change.

use berth_api::Timestamp;
use berth_api::resources::shared::{Condition, ConditionStatus};

/// The conditions of a claim that together make it ready.
const READY_SET: [&str; 3] = ["Launched", "Registered", "Initialized"];

/// Why a claim is not launched: its cloud did not do it, as far as anybody knows.
pub(crate) const LAUNCH_FAILED: &str = "LaunchFailed";
/// Something is missing without which its cloud cannot be asked.
pub(crate) const LAUNCH_NOT_BEGUN: &str = "LaunchNotBegun";

/// The condition of a claim whose node has no volumes attached any more, or that no longer waits for them.
pub(crate) const VOLUMES_DETACHED: &str = "VolumesDetached";
/// The condition of a claim whose node is as large as its type, and can be drained if it is to go.
pub(crate) const CONSISTENT: &str = "ConsistentStateFound";
/// Why it is not.
pub(crate) const INCONSISTENT: &str = "ConsistencyCheckFailed";
/// The condition of a pool whose machines become nodes.
pub(crate) const REGISTRATION_HEALTHY: &str = "NodeRegistrationHealthy";

pub(crate) struct Conditions {
    all: Vec<Condition>,
    now: Timestamp,
    /// Of the object that they are about, where they say it.
    generation: Option<i64>,
    has_changed: bool,
}

impl Conditions {
    pub(crate) fn of(existing: &[Condition], now: Timestamp) -> Self {
        Self { all: existing.to_vec(), now, generation: None, has_changed: false }
    }

    /// The same, where conditions say which generation of their object they are about.
    pub(crate) fn of_generation(existing: &[Condition], now: Timestamp, generation: Option<i64>) -> Self {
        Self { generation, ..Self::of(existing, now) }
    }

    /// A condition as it is now. Its time stays unless its status changes.
    pub(crate) fn set(&mut self, kind: &str, status: ConditionStatus, reason: &str, message: &str) {
        let known = self.all.iter().position(|condition| condition.type_ == kind);
        let before = known.and_then(|index| self.all.get(index));
        let same_status = before.is_some_and(|condition| condition.status == status);
        let is_same = same_status
            && before.is_some_and(|condition| {
                condition.reason.as_deref() == Some(reason)
                    && condition.message.as_deref() == Some(message)
                    && condition.observed_generation == self.generation
            });
        if is_same {
            return;
        }
        let since =
            before.filter(|_| same_status).and_then(|condition| condition.last_transition_time.clone());
        let condition = Condition {
            type_: kind.to_owned(),
            status,
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            last_transition_time: Some(since.unwrap_or_else(|| whole(self.now))),
            observed_generation: self.generation,
        };
        self.has_changed = true;
        match known {
            Some(index) => self.all[index] = condition,
            None => self.all.push(condition),
        }
    }

    pub(crate) fn hold(&mut self, kind: &str) {
        self.set(kind, ConditionStatus::True, kind, "");
    }

    pub(crate) fn remove(&mut self, kind: &str) {
        let count = self.all.len();
        self.all.retain(|condition| condition.type_ != kind);
        self.has_changed |= self.all.len() != count;
    }

    /// A claim is ready once it is up.
    pub(crate) fn settle_readiness(&mut self) {
        self.settle(&READY_SET);
    }

    /// Ready once all of these hold.
    pub(crate) fn settle(&mut self, parts: &[&str]) {
        let holds = |kind: &&str| {
            let is = |c: &Condition| c.type_ == **kind && c.status == ConditionStatus::True;
            self.all.iter().any(is)
        };
        let Some(missing) = parts.iter().find(|kind| !holds(kind)) else {
            return self.set("Ready", ConditionStatus::True, "Ready", "");
        };
        let failed = |c: &&Condition| c.type_ == **missing && c.status == ConditionStatus::False;
        if let Some(Condition { reason, message, .. }) = self.all.iter().find(failed).cloned() {
            let reason = reason.unwrap_or_else(|| (*missing).to_owned());
            self.set("Ready", ConditionStatus::False, &reason, &message.unwrap_or_default());
        } else {
            let message = format!("{missing} does not hold yet");
            self.set("Ready", ConditionStatus::Unknown, "NotYet", &message);
        }
    }

    pub(crate) fn has_changed(&self) -> bool {
        self.has_changed
    }

    pub(crate) fn all(&self) -> &[Condition] {
        &self.all
    }
}

/// Kubernetes writes times to the second.
pub(crate) fn whole(now: Timestamp) -> k8s_openapi::apimachinery::pkg::apis::meta::v1::Time {
    let second = Timestamp::from_second(now.as_second()).unwrap_or(now);
    k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(second)
}
