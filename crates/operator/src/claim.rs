//! A claim, whichever dialect it is written in: what was asked for, and how far it has come.
//!
//! It is what is kept of the object: there are thousands, and most of what an object says is of no concern here.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::resources::shared::{Condition, ConditionStatus};
use berth_api::resources::vpsie::Phase;
use berth_api::{ClassKind, Timestamp, vpsie};
use berth_cloud::machine::{MachineId, Requested, Setup};
use berth_core::catalog::CapacityType;
use berth_core::disruption::DisruptionReason;
use berth_core::drift::Stamp;
use berth_core::names::{self, Labels, Text};
use berth_core::pod::Taint;
use berth_core::resources::Resources;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::conditions::Conditions;
use crate::dialect::{Dialect, PoolId, vpsie_phase};
use crate::journal::About;
use crate::objects::NodeObject;
use crate::sight::secs_between;

/// The condition of a claim that failed and is kept to be seen.
pub(crate) const FAILED: &str = "Failed";
/// The condition of one whose machine runs, as its cloud says.
pub(crate) const RUNNING: &str = "Running";
/// The condition of one whose machine is gone, or that never had any.
pub(crate) const ENDED: &str = "MachineEnded";

#[derive(Clone, Debug)]
pub struct Claim {
    pub(crate) dialect: Dialect,
    /// Empty where claims have none.
    pub(crate) namespace: Text,
    pub(crate) name: Text,
    pub(crate) uid: Text,
    pub(crate) resource_version: Text,
    pub(crate) created: Option<Timestamp>,
    pub(crate) deleting: Option<Timestamp>,
    pub(crate) generation: Option<i64>,
    pub(crate) finalizers: Vec<Text>,
    pub(crate) pool: Option<Text>,
    /// Whose machines it is of. `None`: nobody's that is known.
    pub(crate) class: Option<ClassKind>,
    pub(crate) labels: Labels,
    pub(crate) taints: Vec<Taint>,
    pub(crate) startup_taints: Vec<Taint>,
    /// What it may be bought as, the first first. One that does not say is not Berth's.
    pub(crate) offerings: Vec<(Text, Text, CapacityType)>,
    /// How its machine is to be set up, where its dialect has words for it.
    pub(crate) setup: Option<Arc<Setup>>,
    /// What its cloud wanted written down before it was launched.
    pub(crate) note: Option<Text>,
    /// When another autoscaler asked for its machine, if it is that one's and nothing more is known of it.
    pub(crate) requested_at: Option<Timestamp>,
    /// Of its pool's template when it was made.
    pub(crate) stamp: Stamp,
    /// Resources that its node has to report before it is up.
    pub(crate) promised: Vec<Text>,
    /// How long its pods may take to go.
    pub(crate) grace_secs: Option<u64>,
    /// By when they have to be gone, once it says so itself.
    pub(crate) deadline: Option<Timestamp>,
    /// After how long it stays, if its pods have not left by then and nothing forces them.
    pub(crate) drain_secs: Option<u64>,
    /// The name that its node should have, where its dialect has words for it.
    pub(crate) wanted_name: Text,
    /// What it says of its machine.
    pub(crate) told: Told,
    /// Empty until it has a machine.
    pub(crate) provider_id: Text,
    /// Empty until its node has joined.
    pub(crate) node_name: Text,
    pub(crate) capacity: Resources,
    /// In Berth's words, which are Karpenter's.
    pub(crate) conditions: Vec<Condition>,
}

/// What an object says of its life and its machine, where its dialect has words for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) phase: Phase,
    pub(crate) status: Text,
    pub(crate) hostname: Text,
    pub(crate) address: Text,
    pub(crate) address_v6: Text,
    pub(crate) group: Option<i64>,
    /// 0 where it says none.
    pub(crate) number: i64,
    /// Whether it knows its machine by more than that.
    pub(crate) is_identified: bool,
    pub(crate) traffic_gb: Option<i64>,
    /// When conditions were last told anew.
    pub(crate) updated: BTreeMap<Text, Time>,
}

/// What is asked of the labels of a claim that is up.
const LASTING_LABELS: [&str; 4] = [names::INSTANCE_TYPE, names::ZONE, names::CAPACITY_TYPE, vpsie::MANAGED];

impl Claim {
    /// Without what has served its purpose once the claim is up: its node has it. Of VPSie's that is not certain, since another
    /// autoscaler may have brought it up; and there are few of them.
    pub(crate) fn lightened(mut self) -> Self {
        if self.holds("Initialized") && self.dialect == Dialect::Karpenter {
            self.labels.retain(|label, _| LASTING_LABELS.contains(&&**label));
            (self.taints, self.startup_taints) = (Vec::new(), Vec::new());
            (self.promised, self.offerings) = (Vec::new(), Vec::new());
            self.setup = None;
        }
        self
    }

    pub(crate) fn path(&self) -> String {
        format!("{}/{}", self.dialect.claims(&self.namespace), self.name)
    }

    pub(crate) fn pool_id(&self) -> Option<PoolId> {
        let (dialect, namespace) = (self.dialect, self.namespace.clone());
        self.pool.clone().map(|name| PoolId { dialect, namespace, name })
    }

    /// Whether it is Berth's to run, as far as it says so itself.
    pub(crate) fn is_ours(&self) -> bool {
        self.dialect == Dialect::Karpenter || self.label(vpsie::MANAGED) == Some("true")
    }

    pub(crate) fn about(&self) -> About {
        About {
            api_version: self.dialect.api_version(),
            kind: self.dialect.claim_kind(),
            namespace: self.namespace.to_string(),
            name: self.name.to_string(),
            uid: self.uid.to_string(),
        }
    }

    /// Where in its life it is with these conditions, in VPSie's words.
    pub(crate) fn phase(&self, conditions: &[Condition]) -> &'static str {
        vpsie_phase(self, conditions).name()
    }

    /// Whether its object does not say yet that it goes.
    pub(crate) fn is_untold(&self) -> bool {
        let phase = vpsie_phase(self, &self.conditions);
        self.dialect == Dialect::Vpsie && self.is_deleting() && phase != self.told.phase
    }

    /// Notes whether its machine runs, where its dialect has words for it.
    pub(crate) fn note_running(&self, conditions: &mut Conditions, runs: bool) {
        if self.dialect == Dialect::Vpsie && runs {
            conditions.hold(RUNNING);
        }
    }

    /// What is known of its machine, if another autoscaler has asked for it. A node that it has speaks for its machine.
    pub(crate) fn requested(&self, node: Option<&NodeObject>) -> Option<Requested> {
        let names = [&self.wanted_name, &self.told.hostname, &self.name, &self.node_name];
        let names = names.into_iter().filter(|name| !name.is_empty()).cloned().collect();
        let machine = node.and_then(|node| vpsie::machine_named(&node.spec.provider_id)).map(Text::from);
        let has_joined = self.node().is_some();
        self.requested_at.map(|at| Requested { at, names, has_joined, machine })
    }

    /// Whether another autoscaler has asked for its machine, and which that is nobody knows yet.
    pub(crate) fn is_unidentified(&self) -> bool {
        self.requested_at.is_some() && self.machine().is_none()
    }

    /// The machine, once it is launched.
    pub(crate) fn machine(&self) -> Option<MachineId> {
        machine_in(&self.provider_id)
    }

    pub(crate) fn node(&self) -> Option<&str> {
        Some(&*self.node_name).filter(|name| !name.is_empty())
    }

    pub(crate) fn label(&self, name: &str) -> Option<&str> {
        self.labels.get(name).map(|value| &**value)
    }

    pub(crate) fn is_deleting(&self) -> bool {
        self.deleting.is_some()
    }

    /// How long its pods may take to go, from when it was deleted. By when it says itself that they have to be gone
    /// counts: somebody may have moved that.
    pub(crate) fn leaving_secs_max(&self) -> Option<u64> {
        match (self.deleting, self.deadline) {
            (Some(deleting), Some(deadline)) => Some(secs_between(deleting, deadline)),
            _ => self.grace_secs,
        }
    }

    /// Whether it goes because its node is broken.
    pub(crate) fn is_broken(&self) -> bool {
        let reason = self.held("DisruptionReason").and_then(|condition| condition.reason.as_deref());
        reason == Some(DisruptionReason::Unhealthy.name())
    }

    /// Whether it should say by when its pods have to be gone, and does not.
    pub(crate) fn owes_deadline(&self) -> bool {
        let has_words = self.dialect == Dialect::Karpenter && self.deadline.is_none();
        has_words && self.is_deleting() && (self.grace_secs.is_some() || self.is_broken())
    }

    /// The condition, if it holds.
    pub(crate) fn held(&self, kind: &str) -> Option<&Condition> {
        let holds =
            |condition: &&Condition| condition.type_ == kind && condition.status == ConditionStatus::True;
        self.conditions.iter().find(holds)
    }

    pub(crate) fn holds(&self, kind: &str) -> bool {
        self.held(kind).is_some()
    }

    /// Since when a condition holds.
    pub(crate) fn held_since(&self, kind: &str) -> Option<Timestamp> {
        self.held(kind)?.last_transition_time.as_ref().map(|time| time.0)
    }
}

/// The machine that a provider id names.
pub(crate) fn machine_in(provider_id: &str) -> Option<MachineId> {
    provider_id.rsplit('/').next().filter(|id| !id.is_empty()).map(MachineId::from)
}
