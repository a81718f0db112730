//! NodeGroups.

use berth_api::resources::shared::ConditionStatus;
use berth_api::resources::vpsie::{GroupMember, NodeGroup, NodeGroupStatus, VpsieCondition};
use berth_core::names::{self, Text};
use serde_json::json;

use crate::claim::Claim;
use crate::conditions::whole;
use crate::dialect::{Dialect, PoolId};
use crate::life::Failure;
use crate::office::Office;
use crate::planning::Round;
use berth_api::Timestamp;

impl Office {
    /// What it has, and how it is.
    pub(super) async fn keep_group(
        &self,
        round: &Round,
        name: &Text,
        object: &NodeGroup,
    ) -> Result<(), Failure> {
        let before = object.status.clone().unwrap_or_default();
        let after = status(round, name, object, self.now());
        if before == after {
            return Ok(());
        }
        let namespace = object.metadata.namespace.as_deref().unwrap_or_default().into();
        let id = PoolId { dialect: Dialect::Vpsie, namespace, name: name.clone() };
        let change = json!({ "metadata": { "uid": object.metadata.uid }, "status": after });
        self.desk.patch(&format!("{}/status", id.path()), &change).await?;
        Ok(())
    }
}

/// The status of a group as things are now. Times and what nobody here knows of stay.
fn status(round: &Round, name: &str, object: &NodeGroup, now: Timestamp) -> NodeGroupStatus {
    let before = object.status.clone().unwrap_or_default();
    let claims: Vec<&Claim> = round
        .claims
        .values()
        .map(|claim| &**claim)
        .filter(|claim| claim.pool.as_deref() == Some(name))
        .collect();
    let staying =
        || claims.iter().filter(|claim| !claim.is_deleting() && !round.leaving.contains_key(&claim.name));
    let count = |claims: usize| i32::try_from(claims).unwrap_or(i32::MAX);
    let ready = claims.iter().filter(|claim| !claim.is_deleting() && claim.holds("Initialized")).count();
    let current = count(claims.len());
    let desired = count(staying().count());
    let has_grown = desired > before.desired_nodes;
    let has_shrunk = desired < before.desired_nodes;
    let scaled = (has_grown || has_shrunk).then(|| whole(now));
    let mut status = NodeGroupStatus {
        current_nodes: current,
        desired_nodes: desired,
        ready_nodes: count(ready),
        nodes: claims.iter().map(|claim| member(claim)).collect(),
        last_scale_time: scaled.clone().or(before.last_scale_time),
        last_scale_up_time: scaled.clone().filter(|_| has_grown).or(before.last_scale_up_time),
        last_scale_down_time: scaled.filter(|_| has_shrunk).or(before.last_scale_down_time),
        observed_generation: object.metadata.generation,
        vpsie_group_id: before.vpsie_group_id,
        conditions: before.conditions,
    };
    let spec = &object.spec;
    let (min, max) = (i64::from(spec.min_nodes.get()), i64::from(spec.max_nodes.get()));
    let mut set = |kind: &str, holds: bool, reason: &str, message: &str| {
        set_condition(&mut status.conditions, (kind, holds), (reason, message), now);
    };
    let about = format!("NodeGroup/{}/{name}", object.metadata.namespace.as_deref().unwrap_or_default());
    let problem = round.problems.iter().find(|problem| problem.object.as_deref() == Some(&*about));
    let blocked = round.pool(name).and_then(|(_, pool)| pool.blocked.as_ref());
    let trouble = match (blocked, problem) {
        (Some(refusal), _) => Some((refusal.reason.name(), refusal.message.clone())),
        (None, Some(problem)) => Some(("ValidationFailed", problem.words())),
        (None, None) => None,
    };
    let (reason, message) = trouble.as_ref().map_or(("Fine", ""), |(reason, message)| (*reason, message));
    set("Error", trouble.is_some(), reason, message);
    let is_scaling = current != desired || desired != count(ready);
    set("Scaling", is_scaling, if is_scaling { "InProgress" } else { "Settled" }, "");
    let is_ready = trouble.is_none() && !is_scaling && i64::from(desired) >= min;
    set("Ready", is_ready, if is_ready { "AllReady" } else { "NotAllReady" }, "");
    set("AtMinCapacity", i64::from(desired) <= min, "MinNodes", "");
    set("AtMaxCapacity", i64::from(desired) >= max, "MaxNodes", "");
    status
}

fn member(claim: &Claim) -> GroupMember {
    let vps_id = claim.machine().and_then(|id| id.as_str().parse().ok()).unwrap_or(0);
    let phase = Dialect::Vpsie.status(claim, &claim.conditions, &crate::dialect::News::default());
    GroupMember {
        node_name: claim.node_name.to_string(),
        vps_id,
        instance_type: claim.label(names::INSTANCE_TYPE).unwrap_or_default().to_owned(),
        status: phase["phase"].as_str().unwrap_or_default().to_owned(),
        created_at: claim.created.map(whole),
        ready_at: claim.held_since("Initialized").map(whole),
        ip_address: String::new(),
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
