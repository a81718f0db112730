//! The pods of a node that is to go, read just before they are asked to leave.

use std::collections::BTreeSet;

use berth_api::Timestamp;
use berth_api::duration::GoDuration;
use berth_core::claim::Tenant;
use berth_core::disruption::SafetyChecks;
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

fn may_stay(pod: &PodObject) -> bool {
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

/// Why VPSie's checks keep the node of this pod, if they do: what came between a decision and the taint counts too.
pub(crate) fn keeps_node(pod: &PodObject) -> Option<&'static str> {
    let metadata = &pod.metadata;
    let is_of_control_plane = metadata.namespace == SafetyChecks::CONTROL_PLANE_NAMESPACE
        && SafetyChecks::CONTROL_PLANE.iter().any(|part| metadata.name.contains(part));
    let is_daemon = metadata.owner_references.iter().any(|owner| owner.kind == "DaemonSet");
    let is_going = metadata.deletion_timestamp.is_some();
    let has_local_storage = pod.spec.volumes.iter().any(Volume::is_local);
    match () {
        () if is_going => None,
        () if is_of_control_plane => Some("is a part of the control plane"),
        () if has_local_storage && !is_daemon && !may_stay(pod) => Some("keeps data on the node"),
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
