//! From a claim to a node that takes pods.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_api::resources::shared::ConditionStatus;
use berth_api::resources::vpsie::NodeGroup;
use berth_api::{claims, vpsie};
use berth_cloud::Cloud;
use berth_cloud::machine::{Machine, MachineId, MachineState, Note, Order, Token};
use berth_cloud::provider::{Lack, Launched, Refusal};
use berth_core::catalog::{Catalog, InstanceType};
use berth_core::claim::{DrainFailure, Ending, Failures, Waiting};
use berth_core::names::{self, Labels};
use berth_core::plan::Alternative;
use berth_core::pod;
use berth_core::reason::Reason;
use berth_core::units::Price;
use serde_json::{Map, Value, json};

use super::{CLAIM, Failure, Outcome, Performed, no_cloud, node_path};
use crate::claim::{Claim, machine_in};
use crate::cluster::Refused;
use crate::conditions::{Conditions, LAUNCH_FAILED, LAUNCH_NOT_BEGUN};
use crate::dialect::{Dialect, News, PoolObject};
use crate::drain;
use crate::journal::Severity;
use crate::objects::{NodeObject, NodeSpec, OwnerReference, Taint};
use crate::office::{CLUSTER_TAG, Office};
use crate::planted::PlantedBug;
use crate::sight::state_of;

impl Office {
    pub(super) async fn launch(&self, claim: &Claim, node: Option<&NodeObject>) -> Performed {
        let (kind, cloud) = self.cloud_of(claim).ok_or_else(|| no_cloud(claim))?;
        let (catalog, noted, order) = match self.ready_order((claim, node), &*cloud).await {
            Ok(ready) => ready,
            Err(failure) => {
                self.tell_unlaunched(claim, LAUNCH_NOT_BEGUN, &failure).await;
                return Err(failure);
            }
        };
        let claim = noted.as_ref().unwrap_or(claim);
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
            Ok(Launched::Nothing) if order.requested.is_some() && self.has_node(claim).await? => {
                let words = format!("no machine can be told to be that of the Node {}", claim.node_name);
                let mut conditions = Conditions::of(&claim.conditions, self.now());
                let reason = Reason::MachineUnknown.name();
                conditions.set("Launched", ConditionStatus::Unknown, reason, &words);
                self.write_conditions(claim, &conditions, &News::default()).await
            }
            // Another autoscaler's request came to nothing: that is the end of it.
            Ok(Launched::Nothing) if order.requested.is_some() => {
                self.counts_unfound();
                self.give_up(claim, Ending::LaunchTimeout, Ending::LaunchTimeout.meaning()).await
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
                self.give_up(claim, ending, &words).await
            }
            Err(refusal) => {
                let failure = refusal.into();
                self.tell_unlaunched(claim, LAUNCH_FAILED, &failure).await;
                Err(failure)
            }
        }
    }

    /// What its cloud is asked for, with all that has to be there before, and what the cloud offers; and the claim, if
    /// something was written on it for that.
    async fn ready_order(
        &self,
        (claim, node): (&Claim, Option<&NodeObject>),
        cloud: &dyn Cloud,
    ) -> Result<(Arc<Catalog>, Option<Claim>, Order), Failure> {
        let catalog = cloud.catalog().await?;
        let order = self.order((claim, node), &catalog).await?;
        let unsaid = || Refused::unsaid("it does not say what it may be bought as".to_owned());
        let (noted, order) = self.noted(claim, cloud, order.ok_or_else(unsaid)?).await?;
        Ok((catalog, noted, order))
    }

    /// Says on the claim why it has no machine yet.
    pub(super) async fn tell_unlaunched(&self, claim: &Claim, reason: &str, failure: &Failure) {
        if failure.is_passing() {
            return;
        }
        // What has begun once may have been done.
        let has_begun = claim.conditions.iter().any(|condition| {
            condition.type_ == "Launched" && condition.reason.as_deref() != Some(LAUNCH_NOT_BEGUN)
        });
        let reason = if has_begun { LAUNCH_FAILED } else { reason };
        let mut conditions = Conditions::of(&claim.conditions, self.now());
        conditions.set("Launched", ConditionStatus::Unknown, reason, &failure.to_string());
        conditions.settle_readiness();
        // What cannot be written now is with the next try.
        let _ = self.write_conditions(claim, &conditions, &News::default()).await;
    }

    pub(super) async fn give_up(&self, claim: &Claim, ending: Ending, words: &str) -> Performed {
        match self.failures_of(claim) {
            Failures::Deleted => self.end(claim, ending).await,
            Failures::KeptSecs(_) | Failures::Kept => self.fail(claim, ending, words).await,
        }
    }

    /// What a claim asks of its cloud. `None` if the claim does not say, which is then not Berth's.
    pub(super) async fn order(
        &self,
        (claim, node): (&Claim, Option<&NodeObject>),
        catalog: &Catalog,
    ) -> Result<Option<Order>, Failure> {
        let unnamed = || Refused::unsaid("the cluster does not say who it is".to_owned());
        let cluster_id = self.cluster_id().await.ok_or_else(unnamed)?;
        let note = claim.note.clone().map(Note);
        let taken = if note.is_some() { self.taken(claim).await? } else { Arc::default() };
        let order = Self::plain_order((claim, node), catalog, cluster_id);
        Ok(order.map(|order| Order { note, taken, ..order }))
    }

    /// The order with what its cloud wants to have written down before, which then is. The claim as that has made it.
    pub(super) async fn noted(
        &self,
        claim: &Claim,
        cloud: &dyn Cloud,
        order: Order,
    ) -> Result<(Option<Claim>, Order), Failure> {
        if order.note.is_some() {
            return Ok((None, order));
        }
        let Some(note) = cloud.prepare(&order).await? else { return Ok((None, order)) };
        let mut noted = None;
        if !PlantedBug::LaunchUnnoted.is_planted() {
            noted = Some(self.write_note(claim, Some(&note)).await?);
        }
        Ok((noted, Order { note: Some(note), taken: self.taken(claim).await?, ..order }))
    }

    /// Writes down what a cloud wants to know again, if nobody has written to the claim since it was seen.
    pub(super) async fn write_note(&self, claim: &Claim, note: Option<&Note>) -> Result<Claim, Failure> {
        let change = json!({ "metadata": {
            "uid": claim.uid, "resourceVersion": claim.resource_version,
            "annotations": { claims::NOTE: note.map(|note| &*note.0) },
        } });
        let path = claim.path();
        let text = self.desk.patch(&path, &change).await?;
        let noted = claim.dialect.claim(&text);
        noted.ok_or_else(|| Refused::unsaid(format!("{path} cannot be read")).into())
    }

    /// The machines that other claims have, as it is and not as it was last seen.
    pub(super) async fn taken(&self, claim: &Claim) -> Result<Arc<BTreeSet<MachineId>>, Failure> {
        let claims = self.entries().await?;
        let others = claims.iter().filter(|other| other.uid != claim.uid);
        let machines = others.filter_map(|other| machine_in(&other.provider_id));
        Ok(Arc::new(machines.collect()))
    }

    fn plain_order(
        (claim, node): (&Claim, Option<&NodeObject>),
        catalog: &Catalog,
        cluster_id: &str,
    ) -> Option<Order> {
        let known = |named: &str| {
            let by_name = catalog.types.iter().find(|known| *known.name == *named);
            // VPSie's own autoscaler writes the id of what it buys.
            by_name.or_else(|| catalog.types.iter().find(|known| vpsie::has_offering(known, named)))
        };
        let offerings: Vec<Alternative> = claim
            .offerings
            .iter()
            .map(|(named, zone, capacity_type)| {
                let known = known(named);
                let offering = known.and_then(|known| claims::offering_in(known, zone, *capacity_type));
                Alternative {
                    price_per_hour: offering.map_or(Price::ZERO, |offering| offering.price),
                    instance_type: known.map_or(named, |known| &known.name).clone(),
                    zone: zone.clone(),
                    capacity_type: *capacity_type,
                }
            })
            .collect();
        let taints = claim.taints.iter().chain(&claim.startup_taints).cloned();
        let stranger = pod::Taint::new(names::TAINT_UNREGISTERED, "", pod::TaintEffect::NoExecute);
        let mut token = claim.uid.to_string();
        if PlantedBug::NewToken.is_planted() && !claim.conditions.is_empty() {
            token.push_str("-again");
        }
        Some(Order {
            labels: Arc::new(claim.labels.clone()),
            taints: taints.chain([stranger]).collect(),
            tags: Labels::from([(CLUSTER_TAG.into(), cluster_id.into())]),
            setup: claim.setup.clone().unwrap_or_default(),
            requested: claim.requested(node),
            ..Order::new(
                Token::parse(&token)?,
                claim.name.clone(),
                claim.pool.clone().unwrap_or_default(),
                Some(offerings).filter(|offerings| !offerings.is_empty())?,
            )
        })
    }

    /// Labels first: a claim that is launched has all that it was launched as.
    pub(super) async fn note_launch(&self, claim: &Claim, machine: &Machine, catalog: &Catalog) -> Performed {
        let known = catalog.types.iter().find(|known| known.name == machine.instance_type);
        let offering =
            known.and_then(|known| claims::offering_in(known, &machine.zone, machine.capacity_type));
        let mut labels = match (known, offering) {
            (Some(known), Some(offering)) => claims::bought_labels(known, offering),
            _ => Labels::from([
                (names::INSTANCE_TYPE.into(), machine.instance_type.clone()),
                (names::ZONE.into(), machine.zone.clone()),
                (names::CAPACITY_TYPE.into(), machine.capacity_type.name().into()),
            ]),
        };
        let group = self.group_to_join(claim).await?;
        let said = group.iter().flat_map(|group| &group.spec.labels);
        labels.extend(said.map(|(key, value)| (key.as_str().into(), value.as_str().into())));
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
        if let Some(group) = &group {
            let (key, taints) = vpsie::taints_for(group);
            change["metadata"]["annotations"][key] = json!(taints);
        }
        let text = self.desk.patch(&path, &change).await?;
        let claim = claim.dialect.claim(&text).ok_or_else(unread)?;
        self.write_launched(&claim, Some(machine), known.map(|known| &**known)).await
    }

    /// The group of a claim that another autoscaler made, which never puts on nodes what their group says of them.
    pub(super) async fn group_to_join(&self, claim: &Claim) -> Result<Option<Box<NodeGroup>>, Failure> {
        let Some(pool) = claim.pool_id().filter(|_| claim.requested_at.is_some()) else { return Ok(None) };
        match self.desk.read(&pool.path()).await {
            Ok(text) => match pool.dialect.pool(&text) {
                Some(PoolObject::NodeGroup(group)) => Ok(Some(group)),
                Some(PoolObject::NodePool(_)) | None => Ok(None),
            },
            Err(refused) if refused.is_absence() => Ok(None),
            Err(refused) => Err(refused.into()),
        }
    }

    /// What stands on the claim is enough to say that it was launched.
    pub(super) async fn confirm(&self, claim: &Claim) -> Performed {
        let (_, cloud) = self.cloud_of(claim).ok_or_else(|| no_cloud(claim))?;
        let catalog = cloud.catalog().await?;
        let name = claim.label(names::INSTANCE_TYPE).unwrap_or_default();
        let known = catalog.types.iter().find(|known| *known.name == *name);
        self.write_launched(claim, None, known.map(|known| &**known)).await
    }

    pub(super) async fn write_launched(
        &self,
        claim: &Claim,
        machine: Option<&Machine>,
        known: Option<&InstanceType>,
    ) -> Performed {
        let mut conditions = Conditions::of(&claim.conditions, self.now());
        conditions.hold("Launched");
        claim.note_wait(&mut conditions, Waiting::Join, None);
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

    pub(super) async fn register(&self, claim: &Claim, node: &NodeObject) -> Performed {
        let labels = claim.labels.iter();
        let mut labels: Map<String, Value> =
            labels.map(|(key, value)| (key.to_string(), json!(value))).collect();
        labels.insert(names::REGISTERED.to_owned(), json!("true"));
        // One that another autoscaler brought up has nothing of what its group says.
        let was_up = claim.holds("Initialized");
        let group = if was_up { self.group_to_join(claim).await? } else { None };
        let of_group = group.iter().flat_map(|group| &group.spec.labels);
        labels.extend(of_group.map(|(key, value)| (key.clone(), json!(value))));
        let of_group: Vec<pod::Taint> =
            group.iter().flat_map(|group| &group.spec.taints).map(pod::Taint::from).collect();
        let mut taints: Vec<Taint> =
            node.spec.taints.iter().filter(|taint| taint.key != names::TAINT_UNREGISTERED).cloned().collect();
        if !node.metadata.labels.contains_key(names::DO_NOT_SYNC_TAINTS) {
            // Pods that run on a node that was up already stay there.
            let is_wanted = |taint: &&pod::Taint| !(was_up && taint.effect == pod::TaintEffect::NoExecute);
            let all = claim.taints.iter().chain(&claim.startup_taints).chain(&of_group);
            for wanted in all.filter(is_wanted) {
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
        let mut change = json!({
            "metadata": {
                "resourceVersion": node.metadata.resource_version, "labels": labels, "finalizers": finalizers,
            },
            "spec": { "taints": taints },
        });
        if claim.namespace.is_empty() {
            change["metadata"]["ownerReferences"] = json!(owners(claim, node));
        } else {
            change["metadata"]["annotations"][CLAIM] = json!(claim.uid);
        }
        if node.spec.provider_id.is_empty() {
            change["spec"]["providerID"] = json!(claim.provider_id);
        }
        // What another autoscaler had begun with the node is over.
        let is_taken_over =
            claim.requested_at.is_some() && !node.metadata.labels.contains_key(names::REGISTERED);
        let is_freed = is_taken_over && drain::is_left_cordoned(node);
        if is_freed {
            change["spec"]["unschedulable"] = Value::Null;
        }
        if is_taken_over && drain::began(node).is_some() {
            change["metadata"]["annotations"][vpsie::DRAIN_STATUS] = json!(DrainFailure::Failed.name());
        }
        self.nominate_to(&node.metadata.name, claim).await;
        if let Err(refused) = self.desk.patch(&node_path(node), &change).await {
            self.counts_unregistered(claim, &refused);
            return Err(refused.into());
        }
        if is_freed {
            let words = "it takes pods again: another autoscaler had cordoned it to empty it, and left it so";
            self.say_of_node(claim, Some(node), (Severity::Normal, "DisruptionUndone", words)).await;
        }
        let mut conditions = Conditions::of(&claim.conditions, self.now());
        conditions.hold("Registered");
        let node_now = NodeObject { spec: NodeSpec { taints, ..node.spec.clone() }, ..node.clone() };
        if let Some(waiting) = state_of(&node_now, claim, false).awaits() {
            claim.note_wait(&mut conditions, waiting, Some(&node_now));
        }
        claim.note_running(&mut conditions, true);
        conditions.settle_readiness();
        let news = News { node_name: Some(node.metadata.name.clone()), ..News::default() };
        let outcome = self.write_conditions(claim, &conditions, &news).await?;
        self.counts_node(claim, node);
        self.notes_joining(claim, None);
        Ok(outcome)
    }

    pub(super) async fn initialize(&self, claim: &Claim, node: &NodeObject) -> Performed {
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
}

/// Those of a Node, its claim among them.
fn owners(claim: &Claim, node: &NodeObject) -> Vec<OwnerReference> {
    let mut owners = node.metadata.owner_references.clone();
    if !node.is_owned_by(&claim.uid) {
        owners.push(OwnerReference {
            api_version: claim.dialect.api_version().to_owned(),
            kind: claim.dialect.claim_kind().to_owned(),
            name: claim.name.to_string(),
            uid: claim.uid.to_string(),
            controller: None,
            block_owner_deletion: Some(true),
        });
    }
    owners
}
