//! The pods of a node that is to go, read just before they are asked to leave.

use std::collections::BTreeSet;

use berth_api::Timestamp;
use berth_api::duration::GoDuration;
use berth_core::claim::{Tenant, is_stuck};
use berth_core::control_plane::{self, Resident};
use berth_core::disruption::DisruptionReason;
use berth_core::names;

use crate::cluster::Refused;
use crate::desk::Desk;
use crate::objects::{BoundClaim, PersistentVolume, PodObject, Volume};
use crate::office::PodName;
use crate::sight::secs_between;

const GRACE_SECS: u64 = 30;
const KEEPS_DATA: &str = "keeps data on the node";

pub(crate) async fn on_node(desk: &Desk, node: &str) -> Result<Vec<PodObject>, Refused> {
    desk.list(&format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{node}")).await
}

pub(crate) fn judged(pod: &PodObject, held_back: &BTreeSet<PodName>, now: Timestamp) -> Tenant {
    let metadata = &pod.metadata;
    Tenant {
        is_critical: ["system-cluster-critical", "system-node-critical"]
            .contains(&pod.spec.priority_class_name.as_str()),
        is_daemon: metadata.owner_references.iter().any(|owner| owner.kind == "DaemonSet"),
        may_stay: may_stay(pod),
        is_protected: is_protected(pod, now),
        awaits_others: held_back
            .contains(&(metadata.namespace.as_str().into(), metadata.name.as_str().into())),
        overdue_secs: overdue_secs(pod, now),
        grace_secs: pod.spec.termination_grace_period_seconds.unwrap_or(GRACE_SECS),
    }
}

fn overdue_secs(pod: &PodObject, now: Timestamp) -> Option<i64> {
    pod.metadata.deletion_timestamp.map(|deadline| now.duration_since(deadline).as_secs())
}

/// Nobody waits until it has left its node: it may stay, or its kubelet no longer ends it.
pub(crate) fn is_left_behind(pod: &PodObject, now: Timestamp) -> bool {
    may_stay(pod) || is_stuck(overdue_secs(pod, now))
}

/// Its kubelet runs it, and Kubernetes only shows it.
fn is_mirror(pod: &PodObject) -> bool {
    pod.metadata.annotations.contains_key("kubernetes.io/config.mirror")
        || pod.metadata.owner_references.iter().any(|owner| owner.kind == "Node")
}

fn has_ended(pod: &PodObject) -> bool {
    matches!(pod.status.phase.as_str(), "Succeeded" | "Failed")
}

pub(crate) fn may_stay(pod: &PodObject) -> bool {
    let tolerates = pod.spec.tolerations.iter().any(|toleration| {
        let is_for_all = toleration.key.is_empty() && toleration.operator == "Exists";
        matches!(toleration.effect.as_str(), "" | "NoSchedule")
            && (is_for_all || toleration.key == names::TAINT_DISRUPTED)
    });
    is_mirror(pod) || has_ended(pod) || tolerates
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
    let label = |key: &str| metadata.labels.get(key).map(String::as_str);
    let resident = Resident {
        namespace: &metadata.namespace,
        name: &metadata.name,
        node: Some(&pod.spec.node_name),
        is_mirror: is_mirror(pod),
        tier: label(control_plane::TIER),
        component: label(control_plane::COMPONENT),
    };
    let has_local_storage = pod.spec.volumes.iter().any(Volume::is_local);
    match () {
        () if metadata.deletion_timestamp.is_some() => None,
        () if resident.is_of_control_plane() => Some("is a part of the control plane"),
        () if has_local_storage && must_move(pod) => Some(KEEPS_DATA),
        () => None,
    }
}

/// The same by what its claims are bound to, which may be on the node too. What nobody can see may be anywhere.
pub(crate) async fn claims_keep_node(desk: &Desk, pod: &PodObject) -> Result<Option<&'static str>, Refused> {
    const UNKNOWN: &str = "has a claim of which nobody can say where its data is";
    let names = pod.spec.volumes.iter().filter_map(|volume| volume.persistent_volume_claim.as_ref());
    for claim in names.filter(|_| must_move(pod)) {
        let namespace = &pod.metadata.namespace;
        let path =
            named(&format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims"), &claim.claim_name);
        let claims: Vec<BoundClaim> = desk.list(&path).await?;
        let bound = claims.into_iter().map(|claim| claim.spec.volume_name).find(|name| !name.is_empty());
        let Some(bound) = bound else { return Ok(Some(UNKNOWN)) };
        let volumes: Vec<PersistentVolume> = desk.list(&named("/api/v1/persistentvolumes", &bound)).await?;
        match volumes.first() {
            Some(volume) if !volume.is_local() => {}
            Some(_) => return Ok(Some(KEEPS_DATA)),
            None => return Ok(Some(UNKNOWN)),
        }
    }
    Ok(None)
}

/// Those of a collection that have this name: one, or none.
fn named(collection: &str, name: &str) -> String {
    format!("{collection}?fieldSelector=metadata.name%3D{name}")
}

/// Marked do-not-disrupt, for ever or for a time from its start. What is unclear protects. Of one that has ended or was
/// told to end nothing is left to protect.
pub(crate) fn is_protected(pod: &PodObject, now: Timestamp) -> bool {
    if has_ended(pod) || pod.metadata.deletion_timestamp.is_some() {
        return false;
    }
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
    use berth_world::World;
    use serde_json::{Value, json};

    use super::*;
    use crate::cluster::Cluster;

    /// A volume of the cluster, and a claim that is bound to it.
    async fn disk(world: &World, name: &str, source: &Value) {
        let mut volume = json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": format!("of-{name}") },
            "spec": {
                "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "1Gi" }, "storageClassName": "",
                "claimRef": { "namespace": "default", "name": name },
            },
        });
        for (field, value) in source.as_object().into_iter().flatten() {
            volume["spec"][field] = value.clone();
        }
        world.apply("test", &volume).await.unwrap();
        claim(world, name, &format!("of-{name}")).await;
    }

    async fn claim(world: &World, name: &str, volume: &str) {
        let claim = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": { "name": name, "namespace": "default" },
            "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": volume,
                "resources": { "requests": { "storage": "1Gi" } },
            },
        });
        world.apply("test", &claim).await.unwrap();
    }

    #[test]
    fn claims_keep_a_node_unless_their_data_is_seen_to_be_elsewhere() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.unwrap().block_on(async {
            let world = World::new(1, "2026-03-01T09:00:00Z".parse().unwrap());
            disk(&world, "nfs", &json!({ "nfs": { "server": "s", "path": "/x" } })).await;
            disk(&world, "host", &json!({ "hostPath": { "path": "/x" } })).await;
            let affinity = json!({ "required": { "nodeSelectorTerms": [{ "matchExpressions": [
                { "key": "kubernetes.io/hostname", "operator": "In", "values": ["a"] },
            ] }] } });
            disk(&world, "local", &json!({ "local": { "path": "/x" }, "nodeAffinity": affinity })).await;
            claim(&world, "unbound", "").await;
            claim(&world, "astray", "of-nobody").await;
            let client = kube::Client::new(world.client("berth"), "default");
            let desk = Desk::new(Cluster::through(client, "the world"));
            let unknown = Some("has a claim of which nobody can say where its data is");
            let cases: [(&[&str], &str, Option<&str>); 8] = [
                (&[], "ReplicaSet", None),
                (&["nfs"], "ReplicaSet", None),
                (&["nfs", "host"], "ReplicaSet", Some(KEEPS_DATA)),
                (&["local"], "ReplicaSet", Some(KEEPS_DATA)),
                (&["local"], "DaemonSet", None),
                (&["unbound"], "ReplicaSet", unknown),
                (&["astray"], "ReplicaSet", unknown),
                (&["missing"], "ReplicaSet", unknown),
            ];
            for (claims, owner, expected) in cases {
                let volumes =
                    claims.iter().map(|name| json!({ "persistentVolumeClaim": { "claimName": name } }));
                let pod = json!({
                    "metadata": {
                        "name": "web", "namespace": "default",
                        "ownerReferences": [{ "kind": owner, "controller": true }],
                    },
                    "spec": { "volumes": volumes.collect::<Vec<_>>() },
                });
                let pod: PodObject = serde_json::from_value(pod).unwrap();
                let kept = claims_keep_node(&desk, &pod).await;
                assert_eq!(kept.ok(), Some(expected), "{claims:?} of a {owner}");
            }
        });
    }

    #[test]
    fn pods_are_protected_while_they_have_something_to_lose() {
        let marked = |text: &str| json!({ "annotations": { names::DO_NOT_DISRUPT: text } });
        let mut going = marked("true");
        going["deletionTimestamp"] = json!("2026-03-01T09:00:00Z");
        let since = |start: &str| json!({ "phase": "Running", "startTime": start });
        let running = since("2026-03-01T08:00:00Z");
        for (what, metadata, status, expected) in [
            ("unmarked", json!({}), &running, false),
            ("marked otherwise", marked("false"), &running, false),
            ("marked", marked("true"), &running, true),
            ("unclear", marked("soon"), &running, true),
            ("for a time", marked("1h1s"), &running, true),
            ("for a time that is over", marked("1h"), &running, false),
            ("not started", marked("1h"), &json!({ "phase": "Pending" }), true),
            ("done", marked("true"), &json!({ "phase": "Succeeded" }), false),
            ("failed", marked("true"), &json!({ "phase": "Failed" }), false),
            ("going", going, &running, false),
        ] {
            let pod: PodObject =
                serde_json::from_value(json!({ "metadata": metadata, "status": status })).unwrap();
            assert_eq!(is_protected(&pod, "2026-03-01T09:00:00Z".parse().unwrap()), expected, "{what}");
        }
    }

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

    #[test]
    fn parts_of_the_control_plane_keep_a_node() {
        let static_pod = json!({ "kubernetes.io/config.mirror": "hash" });
        for (name, annotations, labels, expected) in [
            ("kube-apiserver-n", json!({}), json!({}), true),
            ("cloud-controller-manager-n", static_pod.clone(), json!({}), true),
            ("nginx-proxy-n", static_pod, json!({}), false),
            ("api-xk2c9", json!({}), json!({ "tier": "control-plane" }), true),
            ("etcd-backup-28374650-xk2c9", json!({}), json!({}), false),
        ] {
            let metadata = json!({
                "name": name, "namespace": "kube-system", "annotations": annotations, "labels": labels,
            });
            let pod = json!({ "metadata": metadata, "spec": { "nodeName": "n" } });
            let pod: PodObject = serde_json::from_value(pod).unwrap();
            assert_eq!(keeps_node(&pod).is_some(), expected, "{name}");
        }
    }
}
