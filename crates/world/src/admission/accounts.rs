//! Pods act under an account, and find the keys to it in a volume.

use super::{Matter, list_mut};
use crate::clock::Lots;
use crate::failure::Failure;
use crate::json::{Value, json};
use crate::object;
use crate::store::{Key, Store};

const DEFAULT: &str = "default";
const VOLUME: &str = "kube-api-access-";
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// A pod that a kubelet made of a file of its own.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Whether a new pod wants the account that every namespace has, and this one has not yet.
pub(crate) fn lacks(store: &Store, matter: &Matter<'_>, pod: &Value) -> bool {
    matter.is_new("pods")
        && pod["metadata"]["annotations"].get(MIRROR).is_none()
        && matches!(object::text(pod, &["spec", "serviceAccountName"]), "" | DEFAULT)
        && store.get(&Key::new("serviceaccounts", matter.namespace(), DEFAULT)).is_none()
}

pub(super) fn admit(
    store: &Store,
    lots: &mut Lots,
    matter: &Matter<'_>,
    pod: &mut Value,
) -> Result<(), Failure> {
    let namespace = matter.namespace();
    let given = object::text(pod, &["spec", "serviceAccountName"]).to_owned();
    if pod["metadata"]["annotations"].get(MIRROR).is_some() {
        return match &*given {
            "" => Ok(()),
            _ => Err(matter.refuse(pod, "a mirror pod may not reference service accounts")),
        };
    }
    let name = if given.is_empty() { DEFAULT.to_owned() } else { given };
    let Some(account) = store.get(&Key::new("serviceaccounts", namespace, &name)) else {
        let why = format!(
            "error looking up service account {namespace}/{name}: serviceaccount \"{name}\" not found"
        );
        return Err(matter.refuse(pod, &why));
    };
    for field in ["serviceAccountName", "serviceAccount"] {
        object::put(pod, &["spec", field], json!(name));
    }
    let is_mounted = [&pod["spec"]["automountServiceAccountToken"], &account["automountServiceAccountToken"]];
    if is_mounted.into_iter().find_map(Value::as_bool).unwrap_or(true)
        && let Some(spec) = pod.get_mut("spec")
    {
        mount(lots, spec);
    }
    let secrets = &account["imagePullSecrets"];
    let has_none = |list: &Value| list.as_array().is_none_or(Vec::is_empty);
    if has_none(&pod["spec"]["imagePullSecrets"]) && !has_none(secrets) {
        object::put(pod, &["spec", "imagePullSecrets"], secrets.clone());
    }
    Ok(())
}

fn mount(lots: &mut Lots, spec: &mut Value) {
    let volumes = spec["volumes"].as_array().into_iter().flatten();
    let known = volumes.map(|volume| object::text(volume, &["name"])).find(|name| name.starts_with(VOLUME));
    let known = known.map(str::to_owned);
    let mut is_needed = false;
    let name = known.clone().unwrap_or_else(|| format!("{VOLUME}{}", lots.suffix()));
    for list in ["initContainers", "containers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let Some(mounts) = list_mut(container, "volumeMounts") else { continue };
            if mounts.iter().all(|mount| mount["mountPath"] != MOUNT_PATH) {
                mounts.push(json!({ "name": name, "readOnly": true, "mountPath": MOUNT_PATH }));
                is_needed = true;
            }
        }
    }
    if let (None, true, Some(volumes)) = (known, is_needed, list_mut(spec, "volumes")) {
        volumes.push(json!({ "name": name, "projected": {
            "defaultMode": 420,
            "sources": [
                { "serviceAccountToken": { "expirationSeconds": 3607, "path": "token" } },
                { "configMap": { "name": "kube-root-ca.crt", "items": [{ "key": "ca.crt", "path": "ca.crt" }] } },
                { "downwardAPI": { "items": [{
                    "path": "namespace", "fieldRef": { "apiVersion": "v1", "fieldPath": "metadata.namespace" },
                }] } },
            ],
        } }));
    }
}
