//! From a node that is to go to neither node, nor machine, nor claim.

use std::collections::BTreeSet;
use std::iter;

use berth_api::resources::shared::ConditionStatus;
use berth_api::{claims, vpsie};
use berth_cloud::machine::{MachineId, Order};
use berth_cloud::provider::{Launched, Refusal};
use berth_core::claim::{self, Drain, DrainFailure, Ending};
use berth_core::names;
use berth_core::reason::Reason;
use serde_json::{Value, json};

use super::{CORDONED, Failure, Outcome, Performed, no_cloud, node_path};
use crate::claim::{Claim, ENDED, FAILED};
use crate::conditions::Conditions;
use crate::desk::NODES;
use crate::dialect::{Dialect, News};
use crate::discovery::{Names, is_inherited};
use crate::drain;
use crate::journal::{DecisionKind, Severity};
use crate::objects::{NodeObject, Taint};
use crate::office::Office;
use crate::planted::PlantedBug;
use crate::sight::secs_between;
use crate::tenants;
use crate::turns::TURN_MAX;

/// What is said of a node that goes without its machine.
const LEFT: &str = "the machine that it ran on cannot be told: if that is still there, end it at VPSie";

impl Office {
    /// Ends a claim for what was seen of it, if that is still so. Whoever led meanwhile may have brought it further, and
    /// a watch may not have told of its node.
    pub(super) async fn end_as_seen(&self, claim: &Claim, ending: Ending) -> Performed {
        if ending == Ending::Interrupted {
            return self.end(claim, ending).await;
        }
        if ending == Ending::NodeGone && self.has_node(claim).await? {
            return Ok(Outcome::Unfinished);
        }
        self.delete_claim(claim, ending.name()).await?;
        Ok(self.ended(claim, ending).await)
    }

    /// Whether the claim's node is there, whatever was seen of it.
    pub(super) async fn has_node(&self, claim: &Claim) -> Result<bool, Failure> {
        if claim.node_name.is_empty() {
            return Ok(false);
        }
        let names = {
            let machines = self.machines();
            Names::of(iter::once(claim), claim.class.and_then(|kind| machines.get(&kind)))
        };
        let is_its = |node: &NodeObject| {
            names.say_it_runs(claim, node)
                || node.is_owned_by(&claim.uid)
                || is_inherited(claim, node, &names)
        };
        let nodes = format!("{NODES}?fieldSelector=metadata.name%3D{}", claim.node_name);
        Ok(self.desk.list::<NodeObject>(&nodes).await?.iter().any(is_its))
    }

    /// Deletes a claim, whatever has become of it; its finalizer keeps it until its machine is gone.
    pub(crate) async fn end(&self, claim: &Claim, ending: Ending) -> Performed {
        self.desk.delete(&claim.path(), &claim.uid).await?;
        self.deleted_claim(claim, ending.name());
        Ok(self.ended(claim, ending).await)
    }

    /// Tells why a claim was deleted.
    pub(super) async fn ended(&self, claim: &Claim, ending: Ending) -> Outcome {
        self.say(claim, Severity::Warning, ending.name(), ending.meaning()).await;
        self.counts_unjoined(claim, ending);
        let kind = match ending {
            Ending::Interrupted => DecisionKind::Interruption,
            _ => DecisionKind::Failure,
        };
        let name = claim.name.to_string();
        let message = format!("{name}: {}", ending.meaning());
        self.decided(kind, (ending.name(), message), vec![name], None);
        Outcome::Unfinished
    }

    /// Writes down that a claim failed. Its machine, if it has any, is ended next.
    pub(super) async fn fail(&self, claim: &Claim, ending: Ending, why: &str) -> Performed {
        let phase = claim.phase(&claim.conditions);
        let message = format!("failed in phase {phase}: {}: {why}", ending.name());
        self.say(claim, Severity::Warning, "PhaseFailed", &message).await;
        self.counts_undiscovered(claim, ending);
        let mut conditions = Conditions::of(&claim.conditions, self.now());
        conditions.set(FAILED, ConditionStatus::True, ending.name(), why);
        let name = claim.name.to_string();
        let message = format!("{name}: {why}");
        self.decided(DecisionKind::Failure, (ending.name(), message), vec![name], None);
        self.write_conditions(claim, &conditions, &News::default()).await
    }

    /// Ends the machine of a claim that failed. When there is none any more the claim no longer counts, though it is
    /// still to be seen.
    pub(super) async fn end_failed(&self, claim: &Claim, node: Option<&NodeObject>) -> Performed {
        if !self.is_machine_ended((claim, node), None).await? {
            return Ok(Outcome::Unfinished);
        }
        if let Some(node) = node {
            self.let_node_go(claim, node).await?;
        }
        let mut conditions = Conditions::of(&claim.conditions, self.now());
        conditions.hold(ENDED);
        self.write_conditions(claim, &conditions, &News::default()).await?;
        Ok(Outcome::Gone)
    }

    /// Asks the cloud to end a claim's machine. Whether it has none any more. `has_volumes`: whether some are still
    /// attached to its node, if it has one.
    pub(super) async fn is_machine_ended(
        &self,
        (claim, node): (&Claim, Option<&NodeObject>),
        has_volumes: Option<bool>,
    ) -> Result<bool, Failure> {
        let Some(id) = self.machine_to_end(claim, node).await? else {
            if claim.is_unidentified() && node.is_some() {
                self.say_of_node(claim, node, (Severity::Warning, Reason::MachineUnknown.name(), LEFT)).await;
            }
            return Ok(true);
        };
        let (kind, cloud) = self.cloud_of(claim).ok_or_else(|| no_cloud(claim))?;
        match cloud.terminate(&id).await {
            Ok(()) => {
                let mut conditions = Conditions::of(&claim.conditions, self.now());
                conditions.hold("InstanceTerminating");
                if !claim.holds("InstanceTerminating") {
                    self.ended_machine(claim, &id);
                }
                self.tell_volumes(claim, &mut conditions, has_volumes);
                self.write_conditions(claim, &conditions, &News::default()).await?;
                Ok(false)
            }
            Err(Refusal::NotFound(_)) => {
                if let Some(machines) = self.machines().get_mut(&kind) {
                    machines.gone(&id);
                }
                Ok(true)
            }
            Err(_) if PlantedBug::FailureIsGone.is_planted() => Ok(true),
            Err(refusal) => Err(refusal.into()),
        }
    }

    /// Deletes a claim as it was seen: one that has changed since may be wanted by whoever leads now.
    pub(crate) async fn delete_claim(&self, claim: &Claim, reason: &str) -> Result<(), Failure> {
        if PlantedBug::DeleteByCount.is_planted() {
            self.desk.delete(&claim.path(), &claim.uid).await?;
        } else {
            self.desk.delete_unchanged(&claim.path(), &claim.uid, &claim.resource_version).await?;
        }
        self.deleted_claim(claim, reason);
        Ok(())
    }

    /// Lets no more pods come.
    pub(crate) async fn close(&self, claim: &Claim, node: &NodeObject) -> Performed {
        let mut taints = node.spec.taints.clone();
        taints.push(Taint::new(names::TAINT_DISRUPTED, "NoSchedule"));
        let mut change = json!({
            "metadata": { "resourceVersion": node.metadata.resource_version },
            "spec": { "taints": taints },
        });
        // VPSie's nodes are cordoned as well. What somebody else has cordoned stays so.
        if claim.dialect == Dialect::Vpsie && !node.spec.unschedulable {
            change["spec"]["unschedulable"] = json!(true);
            change["metadata"]["annotations"] = json!({ CORDONED: "true" });
        }
        self.desk.patch(&node_path(node), &change).await?;
        Ok(Outcome::Unfinished)
    }

    /// Lets pods come again. If they were being asked to leave, that is what came of it.
    pub(crate) async fn open(&self, node: &NodeObject, failure: DrainFailure) -> Result<(), Failure> {
        let taints: Vec<&Taint> =
            node.spec.taints.iter().filter(|taint| taint.key != names::TAINT_DISRUPTED).collect();
        let mut change = json!({
            "metadata": { "resourceVersion": node.metadata.resource_version },
            "spec": { "taints": taints },
        });
        if node.metadata.annotations.contains_key(CORDONED) {
            change["spec"]["unschedulable"] = Value::Null;
            change["metadata"]["annotations"][CORDONED] = Value::Null;
        }
        if drain::began(node).is_some() {
            change["metadata"]["annotations"][vpsie::DRAIN_STATUS] = json!(failure.name());
        }
        self.desk.patch(&node_path(node), &change).await?;
        Ok(())
    }

    /// The pods that are on the node now, whatever was seen before.
    pub(super) async fn drain(&self, claim: &Claim, node: &NodeObject, grace_secs: Option<u64>) -> Performed {
        if claim.dialect == Dialect::Vpsie && drain::began(node).is_none() {
            return self.begin_drain(claim, node).await;
        }
        // One that may yet stay leaves only as long as its ledger says so.
        if !claim.is_deleting() && !self.still_leaves(claim, self.standing.epoch()).await? {
            return Ok(Outcome::Done);
        }
        let pods = tenants::on_node(&self.desk, &node.metadata.name).await?;
        let now = self.now();
        let began = claim.deleting.or_else(|| drain::began(node)).unwrap_or(now);
        let draining_secs = secs_between(began, now);
        let left_secs = grace_secs.map(|grace| grace.saturating_sub(draining_secs));
        let held_back =
            if draining_secs < TURN_MAX.as_secs() { self.held_back().clone() } else { BTreeSet::new() };
        let judged: Vec<_> = pods.iter().map(|pod| tenants::judged(pod, &held_back, now)).collect();
        let (evict, delete) = match claim::drain(&judged, left_secs) {
            Drain::Done => {
                self.complete_drain(claim, node).await?;
                let mut conditions = Conditions::of(&claim.conditions, now);
                conditions.hold("Drained");
                claim.note_consistent(&mut conditions);
                self.drained(claim);
                self.write_conditions(claim, &conditions, &News::default()).await?;
                return Ok(Outcome::Unfinished);
            }
            Drain::Going { evict, delete } => (evict, delete),
        };
        self.asks_to_leave(claim, evict.len());
        // A pod is refused by a budget. Whatever else comes of asking passes, and says nothing of whether it may leave.
        let (mut failure, mut refusals, mut is_unclear) = (None, Vec::new(), false);
        for pod in evict.iter().filter_map(|index| pods.get(*index)) {
            let metadata = &pod.metadata;
            let id = (metadata.namespace.as_str(), metadata.name.as_str(), metadata.uid.as_str());
            let answer = if PlantedBug::DeletePods.is_planted() {
                self.desk.delete_pod(id, 0).await
            } else {
                self.desk.evict(id).await
            };
            self.asked_to_leave(claim, pod, answer.as_ref().err());
            if let Err(refused) = &answer {
                if refused.is_of_budget {
                    refusals.push(format!("{}/{}", metadata.namespace, metadata.name));
                } else {
                    is_unclear = true;
                }
            }
            match answer {
                Ok(()) => {}
                Err(_) if PlantedBug::DrainGivenUp.is_planted() => {
                    let mut conditions = Conditions::of(&claim.conditions, now);
                    conditions.hold("Drained");
                    self.write_conditions(claim, &conditions, &News::default()).await?;
                }
                // A budget, or an API that has no time: both pass. A pod of another uid is another pod.
                Err(refused) if refused.is_of_budget || matches!(refused.code, Some(429 | 409)) => {
                    let message = format!("{}/{} stays: {refused}", metadata.namespace, metadata.name);
                    let said = (Severity::Warning, "FailedDraining", &*message);
                    self.say_of_node(claim, Some(node), said).await;
                }
                // One pod that cannot be asked is no reason not to ask the others.
                Err(refused) => failure = Some(refused),
            }
        }
        for pod in delete.iter().filter_map(|index| pods.get(*index)) {
            let metadata = &pod.metadata;
            let id = (metadata.namespace.as_str(), metadata.name.as_str(), metadata.uid.as_str());
            match self.desk.delete_pod(id, left_secs.unwrap_or(0)).await {
                Ok(()) => self.deleted_pod(claim, pod),
                Err(refused) => failure = Some(refused),
            }
        }
        if claim.is_deleting() {
            self.tell_drain(claim, draining_secs, !refusals.is_empty()).await?;
        } else if !refusals.is_empty() || !is_unclear {
            self.note_refusals(claim, &refusals).await?;
        }
        failure.map_or(Ok(Outcome::Unfinished), |refused| Err(refused.into()))
    }

    /// Ends the machine; and when the cloud has none any more, lets node and claim go.
    pub(super) async fn end_machine(
        &self,
        claim: &Claim,
        node: Option<&NodeObject>,
        has_volumes: bool,
    ) -> Performed {
        // A node that was not seen would not have been drained.
        if node.is_none() && !claim.holds("InstanceTerminating") && self.has_node(claim).await? {
            return Ok(Outcome::Unfinished);
        }
        let volumes = node.map(|_| has_volumes);
        if !claim.holds(ENDED) && !self.is_machine_ended((claim, node), volumes).await? {
            return Ok(Outcome::Unfinished);
        }
        if let Some(node) = node {
            self.let_node_go(claim, node).await?;
            self.node_gone(claim);
        }
        let finalizer = claim.dialect.finalizer();
        let finalizers = claim.finalizers.iter().filter(|name| ***name != *finalizer);
        let change = json!({ "metadata": {
            "uid": claim.uid, "resourceVersion": claim.resource_version,
            "finalizers": finalizers.collect::<Vec<_>>(),
        } });
        match self.desk.patch(&claim.path(), &change).await {
            Err(refused) if !refused.is_absence() => Err(refused.into()),
            _ => {
                self.claim_gone(claim);
                Ok(Outcome::Gone)
            }
        }
    }

    /// The claim's machine. Where a launch may have been lost, the same launch says which it was.
    async fn machine_to_end(
        &self,
        claim: &Claim,
        node: Option<&NodeObject>,
    ) -> Result<Option<MachineId>, Failure> {
        if let Some(id) = claim.machine() {
            return Ok(Some(id));
        }
        let Some((_, cloud)) = self.cloud_of(claim) else { return Ok(None) };
        let Some(order) = self.order((claim, node), &*cloud.catalog().await?).await? else { return Ok(None) };
        let mut order = Order { is_given_up: true, ..order };
        if order.requested.is_some() {
            (_, order) = self.noted(claim, &*cloud, order).await?;
        }
        if order.note.is_none() && cloud.prepare(&order).await?.is_some() {
            // It would have been written down.
            return Ok(None);
        }
        match cloud.launch(&order).await {
            Ok(Launched::Machine { machine, .. }) => Ok(Some(machine.id)),
            Ok(Launched::Underway) => Err(Refusal::Unknown("the launch is underway".to_owned()).into()),
            Ok(Launched::Nothing) | Err(Refusal::Unavailable(_) | Refusal::Invalid(_)) => Ok(None),
            Err(refusal) => Err(refusal.into()),
        }
    }

    async fn let_node_go(&self, claim: &Claim, node: &NodeObject) -> Result<(), Failure> {
        let path = node_path(node);
        self.desk.delete(&path, &node.metadata.uid).await?;
        self.deleted_node(claim, node);
        let finalizers: Vec<&String> =
            node.metadata.finalizers.iter().filter(|name| *name != claims::FINALIZER).collect();
        let change = json!({ "metadata": { "uid": node.metadata.uid, "finalizers": finalizers } });
        match self.desk.patch(&path, &change).await {
            Err(refused) if !refused.is_absence() => Err(refused.into()),
            _ => Ok(()),
        }
    }
}
