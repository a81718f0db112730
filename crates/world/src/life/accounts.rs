//! What every namespace has: an account for its pods, and the certificate of the API server.

use super::{Controller, Decision, View};
use crate::api::Act;
use crate::json::json;
use crate::object;
use crate::store::{Change, Key};

#[derive(Debug)]
pub(super) struct Accounts;

#[derive(Debug)]
pub(super) struct Certificates;

const ACCOUNT: &str = "default";
const CERTIFICATE: &str = "kube-root-ca.crt";
const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the \
    internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes \
    clusters.";

/// The namespace itself, or the one from which the object of a name has gone.
fn namespace_of(change: &Change, resource: &str, name: &str) -> Vec<Key> {
    let key = &change.key;
    let is_lost = key.resource() == resource && key.name() == name && change.after.is_none();
    if key.resource() == "namespaces" {
        vec![key.clone()]
    } else if is_lost {
        vec![Key::new("namespaces", "", key.namespace())]
    } else {
        Vec::new()
    }
}

/// Whether a namespace stays and has no such object.
fn lacks(namespace: &Key, resource: &str, name: &str, view: View<'_>) -> bool {
    view.get(namespace).is_some_and(|namespace| !object::is_terminating(&namespace))
        && view.get(&Key::new(resource, namespace.name(), name)).is_none()
}

impl Controller for Accounts {
    fn name(&self) -> &'static str {
        "kube-controller-manager"
    }

    fn observe(&mut self, change: &Change, _: View<'_>) -> Vec<Key> {
        namespace_of(change, "serviceaccounts", ACCOUNT)
    }

    fn decide(&mut self, key: &Key, view: View<'_>) -> Decision {
        if !lacks(key, "serviceaccounts", ACCOUNT, view) {
            return Decision::none();
        }
        let account = json!({ "metadata": { "name": ACCOUNT, "namespace": key.name() } });
        Decision::act(Act::Create("serviceaccounts", account))
    }
}

impl Controller for Certificates {
    fn name(&self) -> &'static str {
        "kube-controller-manager"
    }

    fn observe(&mut self, change: &Change, _: View<'_>) -> Vec<Key> {
        namespace_of(change, "configmaps", CERTIFICATE)
    }

    /// Whoever is in a pod of the world speaks to it without a socket, or has a kubeconfig: there is nothing to
    /// verify, so the certificate is empty.
    fn decide(&mut self, key: &Key, view: View<'_>) -> Decision {
        if !lacks(key, "configmaps", CERTIFICATE, view) {
            return Decision::none();
        }
        let map = json!({
            "metadata": {
                "name": CERTIFICATE, "namespace": key.name(),
                "annotations": { "kubernetes.io/description": DESCRIPTION },
            },
            "data": { "ca.crt": "" },
        });
        Decision::act(Act::Create("configmaps", map))
    }
}
