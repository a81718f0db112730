//! NodeGroups.

use std::sync::Arc;

use berth_api::resources::shared::ConditionStatus;
use berth_api::resources::vpsie::{
    AutoscalerConfig, AutoscalerConfigStatus, CONFIG_NAME, GroupMember, NodeGroup, NodeGroupStatus,
    VpsieCondition,
};
use berth_api::vpsie::GROUP_FINALIZER;
use berth_api::{ClassKind, Timestamp};
use berth_cloud::machine::{Machine, MachineState};
use berth_cloud::provider::Trouble;
use berth_core::claim::Ending;
use berth_core::names;
use berth_core::reason::{Reason, Refusal};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde_json::json;

use crate::claim::{Claim, FAILED, RUNNING};
use crate::conditions::{Conditions, whole};
use crate::dialect::{Dialect, News, PoolId, vpsie_unsaid, vpsie_word};
use crate::discovery::node_of;
use crate::life::Failure;
use crate::office::Office;
use crate::planning::Round;
use crate::watched::Illegible;

/// A cheaper set of nodes waits for somebody to agree.
const PROPOSED: &str = "OptimizationProposed";
/// Something that the group says of its machines makes no difference at VPSie.
const NOT_APPLIED: &str = "FieldsNotApplied";

impl Office {
    /// Whether its settings are in use.
    pub(super) async fn keep_config(&self, name: &str, object: &AutoscalerConfig) -> Result<(), Failure> {
        let before = object.status.clone().unwrap_or_default();
        let active = name == CONFIG_NAME;
        let message = if active {
            "its settings are in use".to_owned()
        } else {
            format!("only the AutoscalerConfig named {CONFIG_NAME} counts")
        };
        let after = AutoscalerConfigStatus {
            observed_generation: object.metadata.generation,
            last_updated: before.last_updated.clone(),
            active,
            message,
        };
        self.write_config((name, &object.metadata), &before, after).await
    }

    /// Why it counts for nothing: it cannot be read.
    pub(super) async fn keep_illegible_config(
        &self,
        round: &Round,
        name: &str,
        object: &Illegible,
    ) -> Result<(), Failure> {
        let before: AutoscalerConfigStatus =
            serde_json::from_value(object.status.clone()).unwrap_or_default();
        let instead = match (name == CONFIG_NAME, round.configs.contains_key(name)) {
            (true, true) => "; what it said before is in use",
            (true, false) => "; no group grows",
            (false, _) => "",
        };
        let after = AutoscalerConfigStatus {
            observed_generation: object.metadata.generation,
            last_updated: before.last_updated.clone(),
            active: false,
            message: format!("{}{instead}", round.problem_with("AutoscalerConfig", "", name)),
        };
        self.write_config((name, &object.metadata), &before, after).await
    }

    async fn write_config(
        &self,
        (name, metadata): (&str, &ObjectMeta),
        before: &AutoscalerConfigStatus,
        after: AutoscalerConfigStatus,
    ) -> Result<(), Failure> {
        if *before == after {
            return Ok(());
        }
        let after = AutoscalerConfigStatus { last_updated: Some(whole(self.now())), ..after };
        let version = Dialect::Vpsie.api_version();
        self.write_status_of(&format!("/apis/{version}/autoscalerconfigs/{name}"), metadata, &after).await
    }

    /// Says what cannot be read of a group; one that is deleted is wound up all the same.
    pub(super) async fn keep_illegible_group(
        &self,
        round: &Round,
        id: &PoolId,
        object: &Illegible,
    ) -> Result<(), Failure> {
        if object.metadata.deletion_timestamp.is_some() {
            return self.wind_up(round, id, &object.metadata).await;
        }
        let before: NodeGroupStatus = serde_json::from_value(object.status.clone()).unwrap_or_default();
        let mut after = before.clone();
        let words = round.problem_with("NodeGroup", &id.namespace, &id.name);
        let now = self.now();
        set_condition(&mut after.conditions, ("Error", true), ("ValidationFailed", &words), now);
        set_condition(&mut after.conditions, ("Ready", false), ("NotAllReady", ""), now);
        if before == after {
            return Ok(());
        }
        self.write_status_of(&id.path(), &object.metadata, &after).await
    }

    /// The machine of a VPSieNode as its cloud tells of it, if that is not what its object says.
    pub(super) fn told_of_machine(&self, claim: &Claim) -> Option<Machine> {
        if claim.dialect != Dialect::Vpsie || claim.is_deleting() {
            return None;
        }
        let machine = self.machines().get(&claim.class?)?.get(&claim.machine()?)?.clone();
        let told = &claim.told;
        let traffic_gb = machine.extras.traffic_gb.filter(|_| !claim.capacity.is_empty());
        let is_news_of_traffic = traffic_gb.is_some() && told.traffic_gb != traffic_gb;
        let is_news = note_machine(claim, &machine, self.now()).has_changed()
            || *told.hostname != *machine.name
            || *told.status != *vpsie_word(&machine)
            || is_news_of_traffic
            || !vpsie_unsaid(told, &machine).is_empty();
        is_news.then_some(machine)
    }

    /// Where it is first: all else is its status.
    pub(super) async fn keep_machine(&self, claim: &Claim, machine: &Machine) -> Result<(), Failure> {
        let unsaid = vpsie_unsaid(&claim.told, machine);
        if !unsaid.is_empty() {
            let change = json!({ "spec": unsaid });
            return Ok(self.desk.keep(&claim.path(), &claim.resource_version, change).await?);
        }
        let conditions = note_machine(claim, machine, self.now());
        let news = News { machine: Some(machine.clone()), ..News::default() };
        self.write_status(claim, &conditions, &news).await
    }

    /// What it has, and how it is.
    pub(super) async fn keep_group(
        &self,
        round: &Round,
        id: &PoolId,
        object: &NodeGroup,
    ) -> Result<(), Failure> {
        let before = object.status.clone().unwrap_or_default();
        let proposal = self.proposals().get(&id.name).filter(|_| round.counts(id)).cloned();
        let news = GroupNews {
            proposal,
            quota: self.quota_on(round, id),
            refused: self.refused_credentials(),
            not_applied: self.not_applied(object, round.remark_on("NodeGroup", &id.namespace, &id.name)),
        };
        let after = status(round, id, object, &news, self.now());
        if !has_finalizer(&object.metadata) {
            // All else is said once that is seen.
            let others = object.metadata.finalizers.iter().flatten().map(String::as_str);
            let finalizers: Vec<&str> = others.chain([GROUP_FINALIZER]).collect();
            return self.write_finalizers(id, &object.metadata, &finalizers).await;
        }
        if before == after {
            return Ok(());
        }
        self.write_status_of(&id.path(), &object.metadata, &after).await
    }

    /// Why other credentials than those in use are not.
    fn refused_credentials(&self) -> Option<String> {
        let machines = self.machines();
        machines.get(&ClassKind::Vpsie)?.troubles().iter().find_map(|trouble| match trouble {
            Trouble::Credentials(why) => Some(why.clone()),
            Trouble::Unreadable(_) => None,
        })
    }

    /// What makes no difference of what the group says, and why in a word: nodes of managed clusters are what the cluster
    /// makes them, and one field may say what another does.
    fn not_applied(&self, group: &NodeGroup, remark: Option<String>) -> Option<(&'static str, String)> {
        let is_managed = !self.clouds.get(&ClassKind::Vpsie)?.sets_up();
        let fields = Some(setup_fields(group)).filter(|fields| is_managed && !fields.is_empty());
        let of_cluster = fields.map(|fields| {
            let fields = fields.join(", ");
            format!("nodes of a managed cluster are what VPSie makes them, whatever the group says: {fields}")
        });
        let reason = if of_cluster.is_some() { "ManagedCluster" } else { "SaidOtherwise" };
        let words: Vec<String> = of_cluster.into_iter().chain(remark).collect();
        (!words.is_empty()).then(|| (reason, words.join("; ")))
    }

    /// The quota of the account that the group has run against, if it has.
    fn quota_on(&self, round: &Round, id: &PoolId) -> Option<String> {
        let (_, pool) = round.pool(&id.name).filter(|_| round.counts(id))?;
        let machines = self.machines();
        machines.get(&ClassKind::Vpsie)?.quota_on(&pool.types).map(str::to_owned)
    }

    /// A group that is deleted goes after its nodes, and they as nodes go: emptied, with their machines.
    pub(super) async fn wind_up(
        &self,
        round: &Round,
        id: &PoolId,
        metadata: &ObjectMeta,
    ) -> Result<(), Failure> {
        if !has_finalizer(metadata) || !round.sees_all {
            return Ok(());
        }
        let is_staying = |claim: &&Arc<Claim>| claim.pool_id().as_ref() == Some(id) && !claim.is_deleting();
        for claim in round.claims.values().filter(is_staying) {
            self.delete_claim(claim, "GroupDeleted").await?;
        }
        // The truth: whatever was made before the group was deleted is there.
        if !id.dialect.entries(&self.desk, Some(id)).await?.is_empty() {
            return Ok(());
        }
        let others = metadata.finalizers.iter().flatten().map(String::as_str);
        let others: Vec<&str> = others.filter(|name| *name != GROUP_FINALIZER).collect();
        self.write_finalizers(id, metadata, &others).await
    }

    async fn write_finalizers(
        &self,
        id: &PoolId,
        metadata: &ObjectMeta,
        finalizers: &[&str],
    ) -> Result<(), Failure> {
        let seen = metadata.resource_version.as_deref().unwrap_or_default();
        Ok(self.desk.keep(&id.path(), seen, json!({ "metadata": { "finalizers": finalizers } })).await?)
    }
}

/// Whether a claim's machine runs. A node speaks for its machine, whatever its cloud says.
fn note_machine(claim: &Claim, machine: &Machine, now: Timestamp) -> Conditions {
    let mut conditions = Conditions::of(&claim.conditions, now);
    match machine.state {
        MachineState::Running if !claim.holds(RUNNING) => conditions.hold(RUNNING),
        MachineState::Halted if !claim.holds("Registered") => {
            let message = format!("VPSie says `{}`", vpsie_word(machine));
            conditions.set(RUNNING, ConditionStatus::Unknown, "NotRunning", &message);
        }
        _ => {}
    }
    conditions
}

impl Round {
    /// What is wrong with an object that cannot be read.
    fn problem_with(&self, kind: &str, namespace: &str, name: &str) -> String {
        self.problem_of(kind, namespace, name).unwrap_or_else(|| "it cannot be read".to_owned())
    }
}

fn has_finalizer(metadata: &ObjectMeta) -> bool {
    metadata.finalizers.iter().flatten().any(|name| name == GROUP_FINALIZER)
}

/// What there is to say of a group that its objects do not.
struct GroupNews {
    /// A cheaper set of nodes, which waits for somebody to agree.
    proposal: Option<String>,
    /// The quota of the account that it has run against.
    quota: Option<String>,
    /// Why other credentials are not used. With the last ones it goes on.
    refused: Option<String>,
    /// What of it makes no difference at VPSie, and why in a word.
    not_applied: Option<(&'static str, String)>,
}

/// The status of a group as things are now. Times and what nobody here knows of stay.
fn status(
    round: &Round,
    id: &PoolId,
    object: &NodeGroup,
    news: &GroupNews,
    now: Timestamp,
) -> NodeGroupStatus {
    let before = object.status.clone().unwrap_or_default();
    let claims: Vec<&Claim> = round
        .claims
        .values()
        .map(|claim| &**claim)
        .filter(|claim| claim.pool_id().as_ref() == Some(id) && !claim.holds(FAILED))
        .collect();
    let staying =
        || claims.iter().filter(|claim| !claim.is_deleting() && !round.leaving.contains_key(&claim.name));
    let count = |claims: usize| i32::try_from(claims).unwrap_or(i32::MAX);
    let is_ready = |claim: &&&Claim| {
        let node = node_of(claim, &round.nodes);
        !claim.is_deleting() && claim.holds("Initialized") && node.is_some_and(|node| node.is_ready())
    };
    let ready = claims.iter().filter(is_ready).count();
    let current = count(claims.len());
    let desired = count(staying().count());
    // It grows when a node is asked for, and shrinks when one is told to go: one that fails is neither.
    let departures = round.leaving.values().filter(|(pool, _)| pool == id);
    let shrank =
        departures.filter_map(|(_, departure)| Timestamp::from_second(departure.since_secs).ok()).max();
    let grew = claims.iter().filter_map(|claim| claim.created).max();
    let later = |known: Option<Time>, news: Option<Timestamp>| known.max(news.map(whole));
    let last_scale_up_time = later(before.last_scale_up_time, grew);
    let last_scale_down_time = later(before.last_scale_down_time, shrank);
    let mut status = NodeGroupStatus {
        current_nodes: current,
        desired_nodes: desired,
        ready_nodes: count(ready),
        nodes: claims.iter().map(|claim| member(claim)).collect(),
        last_scale_time: last_scale_up_time.clone().max(last_scale_down_time.clone()),
        last_scale_up_time,
        last_scale_down_time,
        observed_generation: object.metadata.generation,
        vpsie_group_id: claims.iter().find_map(|claim| claim.told.group).or(before.vpsie_group_id),
        conditions: before.conditions,
    };
    let (min, max) = berth_api::node_bounds(object);
    let (min, max) = (i64::from(min), i64::from(max));
    let mut set = |kind: &str, holds: bool, reason: &str, message: &str| {
        set_condition(&mut status.conditions, (kind, holds), (reason, message), now);
    };
    let problem = round.problem_of("NodeGroup", &id.namespace, &id.name);
    let is_trouble = |refusal: &Refusal| !matches!(refusal.reason, Reason::PoolResting | Reason::PoolPaused);
    let blocked = if round.counts(id) {
        round.pool(&id.name).and_then(|(_, pool)| pool.blocked.clone()).filter(is_trouble)
    } else {
        Some(Reason::PoolNameTaken.because(berth_api::name_taken(&id.name)))
    };
    let GroupNews { proposal, quota, refused, not_applied } = news;
    let trouble = match (&blocked, quota, problem) {
        (Some(refusal), _, _) => Some((refusal.reason.name(), refusal.message.clone())),
        (None, Some(quota), _) => Some((Ending::LimitReached.name(), quota.clone())),
        (None, None, Some(problem)) => Some(("ValidationFailed", problem)),
        (None, None, None) => None,
    };
    let harmless = refused.as_ref().map(|why| ("CredentialsRefused", why.clone()));
    let told = trouble.clone().or(harmless);
    let (reason, message) = told.as_ref().map_or(("Fine", ""), |(reason, message)| (*reason, message));
    set("Error", told.is_some(), reason, message);
    let is_scaling = current != desired || desired != count(ready);
    set("Scaling", is_scaling, if is_scaling { "InProgress" } else { "Settled" }, "");
    let is_ready = trouble.is_none() && !is_scaling && i64::from(desired) >= min;
    set("Ready", is_ready, if is_ready { "AllReady" } else { "NotAllReady" }, "");
    set("AtMinCapacity", i64::from(desired) <= min, "MinNodes", "");
    set("AtMaxCapacity", i64::from(desired) >= max, "MaxNodes", "");
    let was_told =
        |kind: &str| object.status.iter().flat_map(|status| &status.conditions).any(|c| c.type_ == kind);
    if not_applied.is_some() || was_told(NOT_APPLIED) {
        let told = not_applied.as_ref().map(|(reason, message)| (*reason, &**message));
        let (reason, message) = told.unwrap_or(("AllApplied", ""));
        set(NOT_APPLIED, told.is_some(), reason, message);
    }
    if proposal.is_some() || was_told(PROPOSED) {
        let reason = if proposal.is_some() { "AwaitingApproval" } else { "NothingToApprove" };
        set(PROPOSED, proposal.is_some(), reason, proposal.as_deref().unwrap_or_default());
    }
    status
}

/// What a group says of its machines, besides what every group has to.
fn setup_fields(group: &NodeGroup) -> Vec<&'static str> {
    let spec = &group.spec;
    let said = [
        ("osImageID", spec.os_image_id.as_ref().is_some_and(|image| !image.is_empty())),
        ("sshKeyIDs", !spec.ssh_key_ids.is_empty()),
        ("tags", !spec.tags.is_empty()),
        ("notes", !spec.notes.is_empty()),
    ];
    said.into_iter().filter(|(_, is_said)| *is_said).map(|(field, _)| field).collect()
}

fn member(claim: &Claim) -> GroupMember {
    GroupMember {
        node_name: claim.node_name.to_string(),
        vps_id: claim.told.number,
        instance_type: claim.label(names::INSTANCE_TYPE).unwrap_or_default().to_owned(),
        status: claim.phase(&claim.conditions).to_owned(),
        created_at: claim.created.map(whole),
        ready_at: claim.held_since("Initialized").map(whole),
        ip_address: claim.told.address.to_string(),
    }
}

/// A condition as it is now. Its time stays unless its status changes.
fn set_condition(
    all: &mut Vec<VpsieCondition>,
    (kind, holds): (&str, bool),
    (reason, message): (&str, &str),
    now: Timestamp,
) {
    let status = if holds { ConditionStatus::True } else { ConditionStatus::False };
    let known = all.iter().position(|condition| condition.type_ == kind);
    let before = known.and_then(|index| all.get(index));
    let is_same = before.is_some_and(|condition| {
        condition.status == status && condition.reason == reason && condition.message == message
    });
    if is_same {
        return;
    }
    let since = before
        .filter(|condition| condition.status == status)
        .and_then(|condition| condition.last_transition_time.clone());
    let condition = VpsieCondition {
        type_: kind.to_owned(),
        status,
        last_transition_time: Some(since.unwrap_or_else(|| whole(now))),
        last_update_time: Some(whole(now)),
        reason: reason.to_owned(),
        message: message.to_owned(),
    };
    match known {
        Some(index) => all[index] = condition,
        None => all.push(condition),
    }
}
