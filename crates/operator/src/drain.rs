//! VPSie's nodes are emptied before their objects are deleted, as long as they go only to save money: who cannot be
//! emptied stays. What comes of it stands on the Node, and what went wrong on its claim.

use berth_api::Timestamp;
use berth_api::duration::GoDuration;
use berth_api::resources::shared::{Condition, ConditionStatus};
use berth_api::resources::vpsie::GlobalSettings;
use berth_api::vpsie::{DRAIN_FAILED, DRAIN_START, DRAIN_STATUS, DRAIN_TIMEOUT, drain_timeout};
use berth_core::claim::{DrainFailure, DrainLimits, DrainSight};
use berth_core::names;
use serde_json::json;

use crate::claim::Claim;
use crate::conditions::Conditions;
use crate::dialect::{Dialect, News, PoolObject};
use crate::journal::Severity;
use crate::life::{CORDONED, Failure, Outcome, node_path};
use crate::metrics::{self, table};
use crate::objects::{Metadata, NodeObject, Taint};
use crate::office::Office;
use crate::sight::secs_between;

/// How long pods may take to leave, where nobody has said so.
const DRAIN_SECS: u64 = 300;
/// The condition of a claim that a pod does not leave: which, and since when.
const REFUSED: &str = "EvictionRefused";
const DRAINING: &str = "draining";
/// A cordon is seen as a taint after a while, and clocks differ.
const CORDONED_WITHIN_SECS: u64 = 60;
const COMPLETE: &str = "complete";

/// How long pods may take to leave this node. Who says it of fewer nodes is right.
pub(crate) fn limits(
    claim: &Claim,
    node: &NodeObject,
    group: Option<&PoolObject>,
    settings: &GlobalSettings,
) -> DrainLimits {
    let of_node = node.metadata.annotations.get(DRAIN_TIMEOUT);
    let of_group = group.and_then(|group| group.metadata().annotations.as_ref()?.get(DRAIN_TIMEOUT));
    let said = |text: Option<&String>| text.and_then(|text| drain_timeout(text)).map(GoDuration::whole_secs);
    DrainLimits {
        secs_max: said(of_node).or(claim.drain_secs).or_else(|| said(of_group)).unwrap_or(DRAIN_SECS),
        refused_secs_max: settings.pod_eviction_timeout_seconds.get().into(),
    }
}

pub(crate) fn sight(claim: &Claim, node: &NodeObject, now: Timestamp) -> DrainSight {
    let began = began(node);
    let failure = failure_since(claim, began);
    DrainSight {
        draining_secs: began.map(|began| secs_between(began, now)),
        refused_secs: claim.held_since(REFUSED).map(|since| secs_between(since, now)),
        failed: failure.and_then(|condition| DrainFailure::named(condition.reason.as_deref()?)),
        is_drained: claim.holds("Drained"),
    }
}

/// What its claim says went wrong, if that was after the drain began: earlier ones failed for themselves.
fn failure_since(claim: &Claim, began: Option<Timestamp>) -> Option<&Condition> {
    let failed_at = claim.held_since(DRAIN_FAILED)?;
    claim.held(DRAIN_FAILED).filter(|_| began.is_some_and(|began| failed_at > began))
}

/// When it began to be emptied, if it is being.
pub(crate) fn began(node: &NodeObject) -> Option<Timestamp> {
    let said = |key: &str| node.metadata.annotations.get(key).map(String::as_str);
    said(DRAIN_STATUS).filter(|status| *status == DRAINING)?;
    said(DRAIN_START)?.parse().ok()
}

/// Whether another autoscaler has cordoned this node to empty it, and has left it so. It does that just before it writes down
/// that it begins: what was cordoned later, somebody else has cordoned.
pub(crate) fn is_left_cordoned(node: &NodeObject) -> bool {
    let NodeObject { metadata: Metadata { annotations, .. }, spec, .. } = node;
    let time = |text: &String| text.parse::<Timestamp>().ok();
    let Some(began) = annotations.get(DRAIN_START).and_then(time) else { return false };
    let is_later = |taint: &Taint| {
        let added = taint.time_added.as_ref().and_then(time);
        added.is_some_and(|added| secs_between(began, added) > CORDONED_WITHIN_SECS)
    };
    let mut cordons = spec.taints.iter().filter(|taint| taint.key == names::TAINT_UNSCHEDULABLE);
    spec.unschedulable
        && annotations.contains_key(DRAIN_STATUS)
        && !annotations.contains_key(CORDONED)
        && !cordons.any(is_later)
}

/// Why it stays, for people.
pub(crate) fn words(failure: DrainFailure, claim: &Claim, node: &NodeObject) -> String {
    let said = failure_since(claim, began(node)).and_then(|condition| condition.message.clone());
    if let Some(said) = said {
        return said;
    }
    let refused = claim.held(REFUSED).and_then(|condition| condition.message.as_deref());
    match (failure, refused) {
        (DrainFailure::Timeout, None) => "its pods have not left in time".to_owned(),
        (DrainFailure::Timeout, Some(pod)) => format!("its pods have not left in time: {pod} may not"),
        (DrainFailure::Failed, Some(pod)) => format!("{pod} may not leave"),
        (DrainFailure::Failed, None) => "its pods could not leave".to_owned(),
    }
}

impl Office {
    /// Says on the Node that its pods are asked to leave, from now on.
    pub(crate) async fn begin_drain(&self, claim: &Claim, node: &NodeObject) -> Result<Outcome, Failure> {
        let now = self.now();
        let change = json!({ "metadata": {
            "resourceVersion": node.metadata.resource_version,
            "annotations": { DRAIN_START: format!("{now:.0}"), DRAIN_STATUS: DRAINING },
        } });
        self.desk.patch(&node_path(node), &change).await?;
        self.say(claim, Severity::Normal, "Draining", "its pods are asked to leave").await;
        Ok(Outcome::Unfinished)
    }

    /// Says that all have left.
    pub(crate) async fn complete_drain(&self, claim: &Claim, node: &NodeObject) -> Result<(), Failure> {
        if claim.dialect != Dialect::Vpsie {
            return Ok(());
        }
        let change = json!({ "metadata": {
            "uid": node.metadata.uid, "annotations": { DRAIN_STATUS: COMPLETE },
        } });
        self.desk.patch(&node_path(node), &change).await?;
        self.took_drain(claim, node, "success");
        self.say(claim, Severity::Normal, "Drained", "its pods have left").await;
        Ok(())
    }

    /// Writes down since when which pod may not leave: nobody waits for ever.
    pub(crate) async fn note_refusals(&self, claim: &Claim, refused: &[String]) -> Result<(), Failure> {
        let known = claim.held(REFUSED).and_then(|condition| condition.message.clone());
        if known.is_some_and(|pod| refused.contains(&pod)) {
            return Ok(());
        }
        let mut conditions = Conditions::of(&claim.conditions, self.now());
        conditions.remove(REFUSED);
        if let Some(pod) = refused.first() {
            conditions.set(REFUSED, ConditionStatus::True, REFUSED, pod);
        }
        self.write_conditions(claim, &conditions, &News::default()).await?;
        Ok(())
    }

    /// The conditions of a claim that stays. One whose drain failed says so, and its group rests from now.
    pub(crate) fn staying(&self, claim: &Claim, failure: Option<DrainFailure>, why: &str) -> Conditions {
        let mut conditions = Conditions::of(&claim.conditions, self.now());
        for kind in ["DisruptionReason", "Drained", REFUSED] {
            conditions.remove(kind);
        }
        if let Some(failure) = failure {
            conditions.remove(DRAIN_FAILED);
            conditions.set(DRAIN_FAILED, ConditionStatus::True, failure.name(), why);
        }
        conditions
    }

    /// What is counted of a drain that failed.
    pub(crate) fn failed_drain(&self, claim: &Claim, node: &NodeObject, failure: DrainFailure) {
        let (result, error_type) = match failure {
            DrainFailure::Failed => ("error", "drain_failed"),
            DrainFailure::Timeout => ("timeout", "drain_timeout"),
        };
        self.took_drain(claim, node, result);
        let group = claim.pool.as_deref().unwrap_or_default();
        self.metrics.count(table::SCALE_DOWN_ERRORS, [group, &claim.namespace, error_type]);
    }

    /// So many pods are asked to leave at once.
    pub(crate) fn asks_to_leave(&self, claim: &Claim, pods: usize) {
        if claim.dialect == Dialect::Vpsie && pods > 0 {
            let group = claim.pool.as_deref().unwrap_or_default();
            self.metrics.observed(table::NODE_DRAIN_PODS, [group, &claim.namespace], metrics::count(pods));
        }
    }

    fn took_drain(&self, claim: &Claim, node: &NodeObject, result: &str) {
        let Some(time) = self.since(began(node)) else { return };
        let group = claim.pool.as_deref().unwrap_or_default();
        self.metrics.took(table::NODE_DRAIN, [group, &claim.namespace, result], time);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// Who says how long: the Node, its VPSieNode, its group, nobody.
    #[test]
    fn who_is_closest_says_how_long() {
        let annotated = |timeout: Option<&str>| match timeout {
            Some(timeout) => json!({ "name": "x", "annotations": { DRAIN_TIMEOUT: timeout } }),
            None => json!({ "name": "x" }),
        };
        let spec = |more: Value| {
            let mut spec = json!({
                "datacenterID": "dc", "resourceIdentifier": "c", "project": "p", "kubernetesVersion": "v1.34.0",
            });
            spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            spec
        };
        for (node, claim, group, expected) in [
            (None, None, None, 300),
            (None, None, Some("10m"), 600),
            (None, Some("90s"), Some("10m"), 90),
            (Some("1h"), Some("90s"), Some("10m"), 3600),
            (Some("soon"), None, Some("10m"), 600),
            (Some("0s"), Some("-3s"), None, 300),
        ] {
            let node: NodeObject = serde_json::from_value(json!({ "metadata": annotated(node) })).unwrap();
            let claim = json!({
                "metadata": annotated(claim),
                "spec": spec(json!({ "vpsieInstanceID": 1, "instanceType": "s", "nodeGroupName": "g" })),
            });
            let group = json!({
                "metadata": annotated(group),
                "spec": spec(json!({ "minNodes": 0, "maxNodes": 1, "offeringIDs": ["s"] })),
            });
            let claim = Dialect::Vpsie.claim(&claim.to_string()).unwrap();
            let group = Dialect::Vpsie.pool(&group.to_string()).unwrap();
            let found = limits(&claim, &node, Some(&group), &GlobalSettings::default());
            assert_eq!(found, DrainLimits { secs_max: expected, refused_secs_max: 120 });
        }
    }
}
