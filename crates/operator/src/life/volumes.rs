//! Volumes of a node that is to go: its machine ends after they are detached.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::resources::shared::ConditionStatus;

use super::{Outcome, Performed};
use crate::claim::Claim;
use crate::cluster::Refused;
use crate::conditions::{Conditions, VOLUMES_DETACHED};
use crate::desk::ATTACHMENTS;
use crate::dialect::News;
use crate::journal::Severity;
use crate::objects::{BoundClaim, NodeObject, PodObject, VolumeAttachment};
use crate::office::Office;
use crate::sight::secs_between;
use crate::tenants;

/// Nodes that have volumes attached which pods that leave have used; or nobody knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Holding {
    nodes: BTreeSet<String>,
    is_unknown: bool,
}

impl Holding {
    pub(crate) fn has(&self, node: &str) -> bool {
        self.is_unknown || self.nodes.contains(node)
    }
}

impl Office {
    /// Which of these nodes have volumes attached that have to be detached before their machines end.
    pub(crate) async fn nodes_with_volumes(&self, leaving: &BTreeSet<String>) -> Holding {
        if leaving.is_empty() {
            return Holding::default();
        }
        match self.holding(leaving).await {
            Ok(nodes) => Holding { nodes, is_unknown: false },
            Err(_) => Holding { is_unknown: true, ..Holding::default() },
        }
    }

    async fn holding(&self, leaving: &BTreeSet<String>) -> Result<BTreeSet<String>, Refused> {
        let attachments: Vec<VolumeAttachment> = self.desk.list(ATTACHMENTS).await?;
        let mut by_node: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for VolumeAttachment { spec } in attachments {
            // What is no PersistentVolume goes with its pod.
            let Some(volume) = spec.source.persistent_volume_name else { continue };
            if leaving.contains(&spec.node_name) {
                by_node.entry(spec.node_name).or_default().insert(volume);
            }
        }
        let mut holding = BTreeSet::new();
        for (node, mut volumes) in by_node {
            // Those of pods that stay, or hang, are detached by nobody while the node is there.
            let pods = tenants::on_node(&self.desk, &node).await?;
            for pod in pods.iter().filter(|pod| tenants::is_left_behind(pod, self.now())) {
                for volume in self.volumes_of(pod).await? {
                    volumes.remove(&volume);
                }
            }
            if !volumes.is_empty() {
                holding.insert(node);
            }
        }
        Ok(holding)
    }

    /// The PersistentVolumes that a pod uses.
    async fn volumes_of(&self, pod: &PodObject) -> Result<Vec<String>, Refused> {
        let mut volumes = Vec::new();
        for claim in pod.spec.volumes.iter().filter_map(|volume| volume.persistent_volume_claim.as_ref()) {
            let (namespace, name) = (&pod.metadata.namespace, &claim.claim_name);
            let path = format!(
                "/api/v1/namespaces/{namespace}/persistentvolumeclaims?fieldSelector=metadata.name%3D{name}"
            );
            let found: Vec<BoundClaim> = self.desk.list(&path).await?;
            volumes.extend(found.into_iter().map(|claim| claim.spec.volume_name));
        }
        Ok(volumes)
    }

    /// Says that volumes are waited for. That they are gone is found with the next look.
    pub(super) async fn await_volumes(&self, claim: &Claim, node: Option<&NodeObject>) -> Performed {
        let mut conditions = Conditions::of(&claim.conditions, self.now());
        conditions.set(VOLUMES_DETACHED, ConditionStatus::Unknown, "AwaitingVolumeDetachment", "");
        if conditions.has_changed() {
            let message = "its machine ends once its volumes are detached";
            let said = (Severity::Normal, "AwaitingVolumeDetachment", message);
            self.say_of_node(claim, node, said).await;
        }
        self.write_conditions(claim, &conditions, &News::default()).await?;
        Ok(Outcome::Unfinished)
    }

    /// Says what became of a node's volumes when its machine ends.
    pub(super) fn tell_volumes(&self, claim: &Claim, conditions: &mut Conditions, has_volumes: Option<bool>) {
        let leaving_secs = claim.deleting.map(|deleting| secs_between(deleting, self.now()));
        match has_volumes {
            Some(false) => conditions.hold(VOLUMES_DETACHED),
            Some(true) if claim.leaving_secs_max().is_some_and(|most| leaving_secs >= Some(most)) => {
                let reason = "TerminationGracePeriodElapsed";
                conditions.set(VOLUMES_DETACHED, ConditionStatus::False, reason, "");
            }
            // Without a node there are none, and a machine that is gone has none either.
            Some(true) | None => {}
        }
    }
}
