//! The steps of a claim's life, performed. What comes next is decided by [`berth_core::claim`].

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_api::claims;
use berth_api::resources::shared::ConditionStatus;
use berth_api::vpsie::DRAIN_STATUS;
use berth_cloud::Cloud;
use berth_cloud::machine::{Machine, MachineId, MachineState, Note, Order, Token};
use berth_cloud::provider::{Lack, Launched, Refusal};
use berth_core::catalog::{Catalog, InstanceType};
use berth_core::claim;
use berth_core::claim::{Drain, DrainFailure, Ending, Failures, Step};
use berth_core::names::{self, Labels};
use berth_core::plan::Alternative;
use berth_core::pod;
use berth_core::units::Price;
use serde_json::{Map, Value, json};

use crate::claim::{Claim, ENDED, FAILED, machine_in};
use crate::cluster::Refused;
use crate::conditions::Conditions;
use crate::desk::{ATTACHMENTS, NODES};
use crate::dialect::{Dialect, News};
use crate::drain;
use crate::journal::{DecisionKind, Severity};
use crate::objects::{NodeObject, OwnerReference, Taint, VolumeAttachment};
use crate::office::{CLUSTER_TAG, Office};
use crate::planted::PlantedBug;
use crate::sight::secs_between;
use crate::tenants;

/// Nobody waits longer for their turn to leave a node: the others may be held up by a budget.
const TURN_SECS_MAX: u64 = 30;

/// On a Node: it was cordoned because it is to go, and not by somebody else before.
pub(crate) const CORDONED: &str = "berth.dev/cordoned";

/// A claim and what is to be done with it.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) claim: Arc<Claim>,
    pub(crate) node: Option<Arc<NodeObject>>,
    pub(crate) step: Step,
    /// How long pods may take to leave from when the claim was deleted. Near its end they are deleted.
    pub(crate) grace_secs: Option<u64>,
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
}

type Performed = Result<Outcome, Failure>;

impl Office {
    pub(crate) async fn perform(&self, task: &Task) -> Performed {
        let Task { claim, node, step, grace_secs } = task;
        match (step, node.as_deref()) {
            (Step::Launch, _) => self.launch(claim).await,
            (Step::Confirm, _) => self.confirm(claim).await,
            (Step::Delete(ending), _) => self.end(claim, *ending).await,
            (Step::Fail(ending), _) => self.fail(claim, *ending, ending.meaning()).await,
            (Step::EndFailed, node) => self.end_failed(claim, node).await,
            (Step::EndMachine, node) => self.end_machine(claim, node).await,
            (Step::Register, Some(node)) => self.register(claim, node).await,
            (Step::Initialize, Some(node)) => self.initialize(claim, node).await,
            (Step::Close, Some(node)) => self.close(claim, node).await,
            (Step::Drain, Some(node)) => self.drain(claim, node, *grace_secs).await,
            (Step::Wait(_) | Step::Register | Step::Initialize | Step::Close | Step::Drain, _) => {
                Ok(Outcome::Done)
            }
        }
    }

    async fn launch(&self, claim: &Claim) -> Performed {
        let (kind, cloud) = self.cloud_of(claim).ok_or_else(|| no_cloud(claim))?;
        let catalog = cloud.catalog().await?;
        let Some(order) = self.order(claim, &catalog).await? else { return Ok(Outcome::Done) };
        let order = self.noted(claim, &*cloud, order).await?;
        match cloud.launch(&order).await {
            Ok(Launched::Machine { machine, passed_over }) => {
                if let Some(machines) = self.machines().get_mut(&kind) {
                    machines.lacked(&passed_over);
                    machines.had(&machine);
                }
                self.note_launch(claim, &machine, &catalog).await
            }
            Ok(Launched::Underway) => {
                let mut conditions = Conditions::of(&claim.conditions, self.now());
                conditions.set("Launched", ConditionStatus::Unknown, "Launching", "");
                self.write_conditions(claim, &conditions, &News::default()).await
            }
            Ok(Launched::Nothing) => {
                self.write_note(claim, None).await?;
                Ok(Outcome::Unfinished)
            }
            Err(Refusal::Unavailable(lacking)) => {
                if let Some(machines) = self.machines().get_mut(&kind) {
                    machines.lacked(&lacking);
                }
                let ending = if lacking.iter().all(|lacking| matches!(lacking.lack, Lack::Quota(_))) {
                    Ending::LimitReached
                } else {
                    Ending::InsufficientCapacity
                };
                let words = Refusal::Unavailable(lacking).to_string();
                self.say(claim, Severity::Warning, ending.name(), &words).await;
                match self.failures_of(claim) {
                    Failures::Deleted => self.end(claim, ending).await,
                    Failures::KeptSecs(_) | Failures::Kept => self.fail(claim, ending, &words).await,
                }
            }
            Err(refusal) => {
                let mut conditions = Conditions::of(&claim.conditions, self.now());
                conditions.set("Launched", ConditionStatus::Unknown, "LaunchFailed", &refusal.to_string());
                conditions.settle_readiness();
                self.write_conditions(claim, &conditions, &News::default()).await?;
                Err(refusal.into())
            }
        }
    }

    /// What a claim asks of its cloud. `None` if the claim does not say, which is then not Berth's, or if
    /// it is not known yet for whom it would be.
    async fn order(&self, claim: &Claim, catalog: &Catalog) -> Result<Option<Order>, Failure> {
        let note = claim.note.clone().map(Note);
        let taken = if note.is_some() { self.taken(claim).await? } else { Arc::default() };
        let order = self.plain_order(claim, catalog).await;
        Ok(order.map(|order| Order { note, taken, ..order }))
    }

    /// The order with what its cloud wants to have written down before, which then is.
    async fn noted(&self, claim: &Claim, cloud: &dyn Cloud, order: Order) -> Result<Order, Failure> {
        if order.note.is_some() {
            return Ok(order);
        }
        let Some(note) = cloud.prepare(&order).await? else { return Ok(order) };
        if !PlantedBug::LaunchUnnoted.is_planted() {
            self.write_note(claim, Some(&note)).await?;
        }
        Ok(Order { note: Some(note), taken: self.taken(claim).await?, ..order })
    }

    /// Writes down what a cloud wants to know again, if nobody has written to the claim since it was seen.
    async fn write_note(&self, claim: &Claim, note: Option<&Note>) -> Result<(), Failure> {
        let change = json!({ "metadata": {
            "uid": claim.uid, "resourceVersion": claim.resource_version,
            "annotations": { claims::NOTE: note.map(|note| &*note.0) },
        } });
        self.desk.patch(&claim.path(), &change).await?;
        Ok(())
    }

    /// The machines that other claims have, as it is and not as it was last seen.
    async fn taken(&self, claim: &Claim) -> Result<Arc<BTreeSet<MachineId>>, Failure> {
        let claims = self.entries().await?;
        let others = claims.iter().filter(|other| other.uid != claim.uid);
        let machines = others.filter_map(|other| machine_in(&other.provider_id));
        Ok(Arc::new(machines.collect()))
    }

    async fn plain_order(&self, claim: &Claim, catalog: &Catalog) -> Option<Order> {
        let price = |instance_type: &str, zone: &str, capacity_type| {
            let known = catalog.types.iter().find(|known| *known.name == *instance_type)?;
            Some(claims::offering_in(known, zone, capacity_type)?.price)
        };
        let offerings: Vec<Alternative> = claim
            .offerings
            .iter()
            .map(|(instance_type, zone, capacity_type)| Alternative {
                price_per_hour: price(instance_type, zone, *capacity_type).unwrap_or(Price::ZERO),
                instance_type: instance_type.clone(),
                zone: zone.clone(),
                capacity_type: *capacity_type,
            })
            .collect();
        let taints = claim.taints.iter().chain(&claim.startup_taints).cloned();
        let stranger = pod::Taint::new(names::TAINT_UNREGISTERED, "", pod::TaintEffect::NoExecute);
        let mut token = claim.uid.to_string();
        if PlantedBug::NewToken.is_planted() && !claim.conditions.is_empty() {
            token.push_str("-again");
        }
        Some(Order {
            token: Token::parse(&token)?,
            name: claim.name.clone(),
            pool: claim.pool.clone().unwrap_or_default(),
            offerings: Some(offerings).filter(|offerings| !offerings.is_empty())?,
            labels: Arc::new(claim.labels.clone()),
            taints: taints.chain([stranger]).collect(),
            tags: Labels::from([(CLUSTER_TAG.into(), self.cluster_id().await?.into())]),
            setup: claim.setup.clone().unwrap_or_default(),
            note: None,
            taken: Arc::default(),
            is_given_up: false,
        })
    }

    /// Labels first: a claim that is launched has all that it was launched as.
    async fn note_launch(&self, claim: &Claim, machine: &Machine, catalog: &Catalog) -> Performed {
        let known = catalog.types.iter().find(|known| known.name == machine.instance_type);
        let offering =
            known.and_then(|known| claims::offering_in(known, &machine.zone, machine.capacity_type));
        let labels = match (known, offering) {
            (Some(known), Some(offering)) => claims::bought_labels(known, offering),
            _ => Labels::from([
                (names::INSTANCE_TYPE.into(), machine.instance_type.clone()),
                (names::ZONE.into(), machine.zone.clone()),
                (names::CAPACITY_TYPE.into(), machine.capacity_type.name().into()),
            ]),
        };
        let path = claim.path();
        let unread = || Refused::unsaid(format!("{path} cannot be read"));
        let mut change = claim.dialect.bought(machine, &labels);
        if claim.dialect == Dialect::Vpsie {
            // Machines of a group are alike, and another leader may have found another one for it.
            let now = self.desk.read(&path).await?;
            let now = claim.dialect.claim(&now).ok_or_else(unread)?;
            if now.uid != claim.uid || now.machine().is_some_and(|known| known != machine.id) {
                return Ok(Outcome::Unfinished);
            }
            change["metadata"]["resourceVersion"] = json!(now.resource_version);
        }
        let text = self.desk.patch(&path, &change).await?;
        let claim = claim.dialect.claim(&text).ok_or_else(unread)?;
        self.write_launched(&claim, Some(machine), known.map(|known| &**known)).await
    }

    /// What stands on the claim is enough to say that it was launched.
    async fn confirm(&self, claim: &Claim) -> Performed {
        let (_, cloud) = self.cloud_of(claim).ok_or_else(|| no_cloud(claim))?;
        let catalog = cloud.catalog().await?;
        let name = claim.label(names::INSTANCE_TYPE).unwrap_or_default();
        let known = catalog.types.iter().find(|known| *known.name == *name);
        self.write_launched(claim, None, known.map(|known| &**known)).await
    }

    async fn write_launched(
        &self,
        claim: &Claim,
        machine: Option<&Machine>,
        known: Option<&InstanceType>,
    ) -> Performed {
        let mut conditions = Conditions::of(&claim.conditions, self.now());
        conditions.hold("Launched");
        let is_running = machine.is_some_and(|machine| machine.state == MachineState::Running);
        claim.note_running(&mut conditions, is_running);
        conditions.settle_readiness();
        let amounts = claims::amounts;
        let news = News {
            machine: machine.cloned(),
            resources: known.map(|known| (amounts(&known.capacity), amounts(&known.allocatable()))),
            ..News::default()
        };
        self.write_conditions(claim, &conditions, &news).await
    }

    async fn register(&self, claim: &Claim, node: &NodeObject) -> Performed {
        let labels = claim.labels.iter();
        let mut labels: Map<String, Value> =
            labels.map(|(key, value)| (key.to_string(), json!(value))).collect();
        labels.insert(names::REGISTERED.to_owned(), json!("true"));
        let mut taints: Vec<Taint> =
            node.spec.taints.iter().filter(|taint| taint.key != names::TAINT_UNREGISTERED).cloned().collect();
        if !node.metadata.labels.contains_key(names::DO_NOT_SYNC_TAINTS) {
            for wanted in claim.taints.iter().chain(&claim.startup_taints) {
                let effect = wanted.effect.name();
                if !taints.iter().any(|taint| taint.is(&wanted.key, effect)) {
                    taints.push(Taint { value: wanted.value.to_string(), ..Taint::new(&wanted.key, effect) });
                }
            }
        }
        let mut finalizers = node.metadata.finalizers.clone();
        if !finalizers.iter().any(|name| name == claims::FINALIZER) {
            finalizers.push(claims::FINALIZER.to_owned());
        }
        let mut owners = node.metadata.owner_references.clone();
        let owner = OwnerReference {
            api_version: claim.dialect.api_version().to_owned(),
            kind: claim.dialect.claim_kind().to_owned(),
            name: claim.name.to_string(),
            uid: claim.uid.to_string(),
            controller: None,
            block_owner_deletion: Some(true),
        };
        if !owners.iter().any(|known| known.uid == owner.uid) {
            owners.push(owner);
        }
        let mut change = json!({
            "metadata": {
                "resourceVersion": node.metadata.resource_version, "labels": labels,
                "finalizers": finalizers, "ownerReferences": owners,
            },
            "spec": { "taints": taints },
        });
        if node.spec.provider_id.is_empty() {
            change["spec"]["providerID"] = json!(claim.provider_id);
        }
        self.nominate_to(&node.metadata.name, claim).await;
        if let Err(refused) = self.desk.patch(&node_path(node), &change).await {
            self.counts_unregistered(claim, &refused);
            return Err(refused.into());
        }
        let mut conditions = Conditions::of(&claim.conditions, self.now());
        conditions.hold("Registered");
        claim.note_running(&mut conditions, true);
        conditions.settle_readiness();
        let news = News { node_name: Some(node.metadata.name.clone()), ..News::default() };
        let outcome = self.write_conditions(claim, &conditions, &news).await?;
        self.counts_node(claim, node);
        Ok(outcome)
    }

    async fn initialize(&self, claim: &Claim, node: &NodeObject) -> Performed {
        let change = json!({ "metadata": {
            "resourceVersion": node.metadata.resource_version, "labels": { names::INITIALIZED: "true" },
        } });
        self.desk.patch(&node_path(node), &change).await?;
        let mut conditions = Conditions::of(&claim.conditions, self.now());
        conditions.hold("Initialized");
        conditions.settle_readiness();
        let resources = (json!(node.status.capacity), json!(node.status.allocatable));
        self.write_conditions(claim, &conditions, &News { resources: Some(resources), ..News::default() })
            .await
    }

    /// Deletes a claim; its finalizer keeps it until its machine is gone.
    pub(crate) async fn end(&self, claim: &Claim, ending: Ending) -> Performed {
        self.say(claim, Severity::Warning, ending.name(), ending.meaning()).await;
        self.delete_claim(claim, ending.name()).await?;
        let kind = match ending {
            Ending::Interrupted => DecisionKind::Interruption,
            _ => DecisionKind::Failure,
        };
        let name = claim.name.to_string();
        let message = format!("{name}: {}", ending.meaning());
        self.decided(kind, (ending.name(), message), vec![name], None);
        Ok(Outcome::Unfinished)
    }

    /// Writes down that a claim failed. Its machine, if it has any, is ended next.
    async fn fail(&self, claim: &Claim, ending: Ending, why: &str) -> Performed {
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
    async fn end_failed(&self, claim: &Claim, node: Option<&NodeObject>) -> Performed {
        if !self.is_machine_ended(claim).await? {
            return Ok(Outcome::Unfinished);
        }
        if let Some(node) = node {
            self.let_node_go(node).await?;
        }
        let mut conditions = Conditions::of(&claim.conditions, self.now());
        conditions.hold(ENDED);
        self.write_conditions(claim, &conditions, &News::default()).await?;
        Ok(Outcome::Gone)
    }

    /// Asks the cloud to end a claim's machine. Whether it has none any more.
    async fn is_machine_ended(&self, claim: &Claim) -> Result<bool, Failure> {
        let Some(id) = self.machine_to_end(claim).await? else { return Ok(true) };
        let (kind, cloud) = self.cloud_of(claim).ok_or_else(|| no_cloud(claim))?;
        match cloud.terminate(&id).await {
            Ok(()) => {
                let mut conditions = Conditions::of(&claim.conditions, self.now());
                conditions.hold("InstanceTerminating");
                if conditions.has_changed() {
                    self.ended_machine(claim, &id);
                }
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

    pub(crate) async fn delete_claim(&self, claim: &Claim, reason: &str) -> Result<(), Failure> {
        self.desk.delete(&claim.path(), &claim.uid).await?;
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
            change["metadata"]["annotations"][DRAIN_STATUS] = json!(failure.name());
        }
        self.desk.patch(&node_path(node), &change).await?;
        Ok(())
    }

    /// The pods that are on the node now, whatever was seen before.
    async fn drain(&self, claim: &Claim, node: &NodeObject, grace_secs: Option<u64>) -> Performed {
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
            if draining_secs < TURN_SECS_MAX { self.held_back().clone() } else { BTreeSet::new() };
        let judged: Vec<_> = pods.iter().map(|pod| tenants::judged(pod, &held_back, now)).collect();
        let (evict, delete) = match claim::drain(&judged, left_secs) {
            Drain::Done => {
                self.complete_drain(claim, node).await?;
                let mut conditions = Conditions::of(&claim.conditions, now);
                conditions.hold("Drained");
                self.drained(claim);
                self.write_conditions(claim, &conditions, &News::default()).await?;
                return Ok(Outcome::Unfinished);
            }
            Drain::Going { evict, delete } => (evict, delete),
        };
        self.asks_to_leave(claim, evict.len());
        let (mut failure, mut refusals) = (None, Vec::new());
        for pod in evict.iter().filter_map(|index| pods.get(*index)) {
            let metadata = &pod.metadata;
            let id = (metadata.namespace.as_str(), metadata.name.as_str(), metadata.uid.as_str());
            let answer = if PlantedBug::DeletePods.is_planted() {
                self.desk.delete_pod(id, 0).await
            } else {
                self.desk.evict(id).await
            };
            self.asked_to_leave(claim, pod, answer.as_ref().err());
            if answer.is_err() {
                refusals.push(format!("{}/{}", metadata.namespace, metadata.name));
            }
            match answer {
                Ok(()) => {}
                Err(_) if PlantedBug::DrainGivenUp.is_planted() => {
                    let mut conditions = Conditions::of(&claim.conditions, now);
                    conditions.hold("Drained");
                    self.write_conditions(claim, &conditions, &News::default()).await?;
                }
                // A budget, or an API that has no time: both pass. A pod of another uid is another pod.
                Err(refused) if matches!(refused.code, Some(429 | 409)) => {
                    let message = format!("{}/{} stays: {refused}", metadata.namespace, metadata.name);
                    self.say(claim, Severity::Warning, "FailedDraining", &message).await;
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
        if !claim.is_deleting() {
            self.note_refusals(claim, &refusals).await?;
        }
        failure.map_or(Ok(Outcome::Unfinished), |refused| Err(refused.into()))
    }

    /// Ends the machine; and when the cloud has none any more, lets node and claim go.
    async fn end_machine(&self, claim: &Claim, node: Option<&NodeObject>) -> Performed {
        if !claim.holds(ENDED) && !self.is_machine_ended(claim).await? {
            return Ok(Outcome::Unfinished);
        }
        if let Some(node) = node {
            self.let_node_go(node).await?;
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
    async fn machine_to_end(&self, claim: &Claim) -> Result<Option<MachineId>, Failure> {
        if let Some(id) = claim.machine() {
            return Ok(Some(id));
        }
        let Some((_, cloud)) = self.cloud_of(claim) else { return Ok(None) };
        if self.cluster_id().await.is_none() {
            return Err(Refused::unsaid("the cluster does not say who it is".to_owned()).into());
        }
        let Some(order) = self.order(claim, &*cloud.catalog().await?).await? else { return Ok(None) };
        let order = Order { is_given_up: true, ..order };
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

    async fn let_node_go(&self, node: &NodeObject) -> Result<(), Failure> {
        let path = node_path(node);
        self.desk.delete(&path, &node.metadata.uid).await?;
        let finalizers: Vec<&String> =
            node.metadata.finalizers.iter().filter(|name| *name != claims::FINALIZER).collect();
        let change = json!({ "metadata": { "uid": node.metadata.uid, "finalizers": finalizers } });
        match self.desk.patch(&path, &change).await {
            Err(refused) if !refused.is_absence() => Err(refused.into()),
            _ => Ok(()),
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
        let change = json!({
            "metadata": { "resourceVersion": claim.resource_version },
            "status": claim.dialect.status(claim, conditions.all(), news),
        });
        self.desk.patch(&format!("{}/status", claim.path()), &change).await?;
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

/// Nodes that have volumes attached; or nobody knows.
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

pub(crate) async fn nodes_with_volumes(office: &Office) -> Holding {
    let answer: Result<Vec<VolumeAttachment>, _> = office.desk.list(ATTACHMENTS).await;
    match answer {
        Ok(list) => Holding {
            nodes: list.into_iter().map(|attachment| attachment.spec.node_name).collect(),
            is_unknown: false,
        },
        Err(_) => Holding { is_unknown: true, ..Holding::default() },
    }
}
