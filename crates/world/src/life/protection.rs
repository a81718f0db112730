//! Claims and volumes that are in use stay until they are not.

use super::garbage::without_finalizer;
use super::{Controller, Decision, View};
use crate::api::Act;
use crate::json::Value;
use crate::object;
use crate::store::{Change, Key};

const CLAIMS: &str = "persistentvolumeclaims";
const VOLUMES: &str = "persistentvolumes";
const OF_CLAIMS: &str = "kubernetes.io/pvc-protection";
const OF_VOLUMES: &str = "kubernetes.io/pv-protection";

#[derive(Debug)]
pub(super) struct Protection;

impl Controller for Protection {
    fn name(&self) -> &'static str {
        "kube-controller-manager"
    }

    fn observe(&mut self, change: &Change, _: View<'_>) -> Vec<Key> {
        match change.key.resource() {
            CLAIMS | VOLUMES => vec![change.key.clone()],
            "pods" => {
                let pod = change.after.as_deref().or(change.before.as_deref());
                let claims = pod.map(claims_of).unwrap_or_default();
                claims.iter().map(|claim| Key::new(CLAIMS, change.key.namespace(), claim)).collect()
            }
            _ => Vec::new(),
        }
    }

    fn decide(&mut self, key: &Key, view: View<'_>) -> Decision {
        let Some(object) = view.get(key).filter(|object| object::is_terminating(object)) else {
            return Decision::none();
        };
        let (resource, finalizer, is_used) = if key.resource() == CLAIMS {
            let uses = |pod: &Value| {
                !matches!(object::text(pod, &["status", "phase"]), "Succeeded" | "Failed")
                    && claims_of(pod).iter().any(|claim| *claim == key.name())
            };
            (CLAIMS, OF_CLAIMS, view.list("pods", Some(key.namespace())).any(|pod| uses(&pod)))
        } else {
            (VOLUMES, OF_VOLUMES, object::text(&object, &["status", "phase"]) == "Bound")
        };
        if is_used || !object::finalizers(&object).contains(&finalizer) {
            return Decision::none();
        }
        Decision::act(Act::Update(resource, without_finalizer(&object, finalizer)))
    }
}

/// The claims that a pod mounts.
fn claims_of(pod: &Value) -> Vec<String> {
    let volumes = object::at(pod, "/spec/volumes").and_then(Value::as_array).into_iter().flatten();
    let claims = volumes.map(|volume| object::text(volume, &["persistentVolumeClaim", "claimName"]));
    claims.filter(|claim| !claim.is_empty()).map(str::to_owned).collect()
}
