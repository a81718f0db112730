//! The pods of a node that is to go, read just before they are asked to leave.

use std::collections::BTreeSet;

use berth_api::Timestamp;
use berth_api::duration::GoDuration;
use berth_core::claim::Tenant;
use berth_core::disruption::{DisruptionReason, SafetyChecks};
use berth_core::names;

use crate::cluster::Refused;
use crate::desk::Desk;
use crate::objects::{PodObject, Volume};
use crate::office::PodName;
use crate::sight::secs_between;

const GRACE_SECS: u64 = 30;

pub(crate) async fn on_node(desk: &Desk, node: &str) -> Result<Vec<PodObject>, Refused> {
    desk.list(&format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{node}")).await
}

pub(crate) fn judged(pod: &PodObject, held_back: &BTreeSet<PodName>, now: Timestamp) -> Tenant {
    let metadata = &pod.metadata;
    let overdue = metadata.deletion_timestamp.map(|deadline| now.duration_since(deadline).as_secs());
    Tenant {
        is_critical: ["system-cluster-critical", "system-node-critical"]
            .contains(&pod.spec.priority_class_name.as_str()),
        is_daemon: metadata.owner_references.iter().any(|owner| owner.kind == "DaemonSet"),
        may_stay: may_stay(pod),
        is_protected: is_protected(pod, now),
        awaits_others: held_back
            .contains(&(metadata.namespace.as_str().into(), metadata.name.as_str().into())),
        overdue_secs: overdue,
        grace_secs: pod.spec.termination_grace_period_seconds.unwrap_or(GRACE_SECS),
    }
}

pub(crate) fn may_stay(pod: &PodObject) -> bool {
    let is_mirror = pod.metadata.annotations.contains_key("kubernetes.io/config.mirror")
        || pod.metadata.owner_references.iter().any(|owner| owner.kind == "Node");
    let has_ended = matches!(pod.status.phase.as_str(), "Succeeded" | "Failed");
    let tolerates = pod.spec.tolerations.iter().any(|toleration| {
        let is_for_all = toleration.key.is_empty() && toleration.operator == "Exists";
        matches!(toleration.effect.as_str(), "" | "NoSchedule")
            && (is_for_all || toleration.key == names::TAINT_DISRUPTED)
    });
    is_mirror || has_ended || tolerates
}

/// It would need another place if its node went.
fn must_move(pod: &PodObject) -> bool {
    let is_daemon = pod.metadata.owner_references.iter().any(|owner| owner.kind == "DaemonSet");
    !is_daemon && !may_stay(pod) && pod.metadata.deletion_timestamp.is_none()
}

/// Why a node that goes for this reason is kept by a pod that came after that was decided, whatever its pool says.
pub(crate) fn keeps_any_node(pod: &PodObject, reason: DisruptionReason) -> Option<&'static str> {
    let has_controller = pod.metadata.owner_references.iter().any(|owner| owner.controller == Some(true));
    match () {
        () if !must_move(pod) => None,
        () if !has_controller => Some("has no controller and would not come back"),
        () if reason == DisruptionReason::Empty => {
            Some("has come, and the node was to go because it was empty")
        }
        () => None,
    }
}

/// Why VPSie's checks keep the node of this pod, if they do: what came between a decision and the taint counts too.
pub(crate) fn keeps_node(pod: &PodObject) -> Option<&'static str> {
    let metadata = &pod.metadata;
    let is_of_control_plane = metadata.namespace == SafetyChecks::CONTROL_PLANE_NAMESPACE
        && SafetyChecks::CONTROL_PLANE.iter().any(|part| metadata.name.contains(part));
    let has_local_storage = pod.spec.volumes.iter().any(Volume::is_local);
    match () {
        () if metadata.deletion_timestamp.is_some() => None,
        () if is_of_control_plane => Some("is a part of the control plane"),
        () if has_local_storage && must_move(pod) => Some("keeps data on the node"),
        () => None,
    }
}

/// Marked do-not-disrupt, for ever or for a time from its start. What is unclear protects.
pub(crate) fn is_protected(pod: &PodObject, now: Timestamp) -> bool {
    match pod.metadata.annotations.get(names::DO_NOT_DISRUPT).map(String::as_str) {
        None | Some("" | "false") => false,
        Some("true") => true,
        Some(text) => match (text.parse::<GoDuration>(), pod.status.start_time) {
            (Ok(duration), Some(started)) => secs_between(started, now) < duration.as_std().as_secs(),
            _ => true,
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn who_comes_after_the_decision_may_keep_the_node() {
        use DisruptionReason::{Drifted, Empty, Underutilized};
        let owned = |kind: &str| json!({ "ownerReferences": [{ "kind": kind, "controller": true }] });
        let nobody = json!({});
        let tolerant = json!({ "tolerations": [{ "operator": "Exists" }] });
        let going = json!({ "deletionTimestamp": "2026-03-01T09:00:00Z" });
        let cases: [(&str, Value, Value, [bool; 3]); 6] = [
            ("a ReplicaSet's", owned("ReplicaSet"), json!({}), [true, false, false]),
            ("nobody's", nobody.clone(), json!({}), [true, true, true]),
            ("a DaemonSet's", owned("DaemonSet"), json!({}), [false, false, false]),
            ("the node's own", owned("Node"), json!({}), [false, false, false]),
            ("one that may stay", nobody, tolerant, [false, false, false]),
            ("one that is going", going, json!({}), [false, false, false]),
        ];
        for (what, metadata, spec, expected) in cases {
            let pod = json!({ "metadata": metadata, "spec": spec });
            let pod: PodObject = serde_json::from_value(pod).unwrap();
            let kept = [Empty, Underutilized, Drifted].map(|reason| keeps_any_node(&pod, reason).is_some());
            assert_eq!(kept, expected, "{what}");
        }
    }
}
