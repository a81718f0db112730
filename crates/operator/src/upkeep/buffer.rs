//! CapacityBuffers.

use berth_api::buffer_of;
use berth_api::resources::buffer::{ACTIVE_CAPACITY, CapacityBuffer, CapacityBufferStatus};
use berth_api::resources::shared::ConditionStatus;
use berth_core::names::Text;
use berth_core::node::NodeState;
use berth_core::plan::{Host, Plan};
use berth_core::snapshot::Snapshot;
use serde_json::json;

use crate::conditions::Conditions;
use crate::life::Failure;
use crate::office::{Office, PodName};
use crate::planning::Round;

/// It is known how much room is asked for.
const TRANSLATED: &str = "ReadyForProvisioning";
/// There is that much.
const PROVISIONED: &str = "Provisioning";

/// Where the pods of a buffer could be.
#[derive(Debug, Default, PartialEq, Eq)]
struct Room {
    /// On nodes that are there.
    ready: usize,
    /// On nodes that are coming.
    coming: usize,
    /// Nowhere, and why.
    nowhere: usize,
    why: Option<String>,
}

impl Room {
    fn of((namespace, name): &PodName, snapshot: &Snapshot, plan: Option<&Plan>) -> Self {
        let is_its = |pod: usize| {
            let pod = snapshot.pods.get(pod).filter(|pod| pod.namespace == *namespace);
            pod.and_then(buffer_of) == Some(&**name)
        };
        let mut room = Self::default();
        let Some(plan) = plan else { return room };
        for bind in plan.binds.iter().filter(|bind| is_its(bind.pod)) {
            let is_there = match bind.host {
                Host::Node(node) => {
                    snapshot.nodes.get(node).is_some_and(|node| node.state == NodeState::Running)
                }
                Host::Launch(_) => false,
            };
            *(if is_there { &mut room.ready } else { &mut room.coming }) += 1;
        }
        for unplaced in plan.unplaced.iter().filter(|unplaced| is_its(unplaced.pod)) {
            room.nowhere += 1;
            let refusal = unplaced.refusals.first();
            room.why = room.why.or_else(|| refusal.map(|refusal| refusal.refusal.message.clone()));
        }
        room
    }

    fn wanted(&self) -> usize {
        self.ready + self.coming + self.nowhere
    }

    fn words(&self) -> String {
        let Self { ready, coming, nowhere, why } = self;
        let there = format!("there is room for {ready} of {}", self.wanted());
        let coming = (*coming > 0).then(|| format!("for {coming} it is on its way"));
        let nowhere = why.as_ref().map(|why| format!("for {nowhere} there is none: {why}"));
        [Some(there), coming, nowhere].into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

fn generation_of_template(round: &Round, namespace: &Text, object: &CapacityBuffer) -> Option<i64> {
    let template = object.spec.pod_template_ref.as_ref()?;
    round.templates.get(&(namespace.clone(), template.name.as_str().into())).copied()
}

impl Office {
    /// How much room it asks for, and whether that is there.
    pub(super) async fn keep_buffer(
        &self,
        round: &Round,
        id: &PodName,
        (object, plan): (&CapacityBuffer, Option<&Plan>),
    ) -> Result<(), Failure> {
        // Somebody else keeps room in another way; and what a buffer refers to may be there and not seen.
        if object.spec.provisioning_strategy != ACTIVE_CAPACITY || !round.blind_spots.is_empty() {
            return Ok(());
        }
        let (namespace, name) = id;
        let generation = object.metadata.generation;
        let existing = object.status.clone().unwrap_or_default();
        let mut conditions = Conditions::of_generation(&existing.conditions, self.now(), generation);
        let room = Room::of(id, &round.snapshot, plan);
        if let Some(why) = round.problem_of("CapacityBuffer", namespace, name) {
            conditions.set(TRANSLATED, ConditionStatus::False, "CannotBeTranslated", &why);
            conditions.set(PROVISIONED, ConditionStatus::False, "CannotBeTranslated", &why);
        } else {
            conditions.set(TRANSLATED, ConditionStatus::True, "BufferTranslated", "");
            let (status, reason) = match room {
                Room { coming: 0, nowhere: 0, .. } => (ConditionStatus::True, "CapacityProvisioned"),
                Room { nowhere: 0, .. } => (ConditionStatus::False, "CapacityPending"),
                _ => (ConditionStatus::False, "CapacityUnavailable"),
            };
            conditions.set(PROVISIONED, status, reason, &room.words());
        }
        let status = CapacityBufferStatus {
            pod_template_ref: object.spec.pod_template_ref.clone(),
            replicas: Some(i32::try_from(room.wanted()).unwrap_or(i32::MAX)),
            pod_template_generation: generation_of_template(round, namespace, object),
            provisioning_strategy: Some(ACTIVE_CAPACITY.to_owned()),
            conditions: conditions.all().to_vec(),
        };
        if status == existing {
            return Ok(());
        }
        // What is not so any more is taken away.
        let status = json!({
            "podTemplateRef": status.pod_template_ref,
            "replicas": status.replicas,
            "podTemplateGeneration": status.pod_template_generation,
            "provisioningStrategy": status.provisioning_strategy,
            "conditions": status.conditions,
        });
        let path =
            format!("/apis/autoscaling.x-k8s.io/v1beta1/namespaces/{namespace}/capacitybuffers/{name}");
        self.write_status_of(&path, &object.metadata, &status).await
    }
}
