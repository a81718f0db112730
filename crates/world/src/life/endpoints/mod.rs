//! Where services are: slices of the addresses of the pods that they select.

mod plan;

use super::{Controller, Decision, View};
use crate::json::Value;
use crate::object;
use crate::selector::LabelSelector;
use crate::store::{Change, Key};

const SLICES: &str = "endpointslices.discovery.k8s.io";
/// By this label a slice names its service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

#[derive(Debug)]
pub(super) struct Endpoints;

impl Controller for Endpoints {
    fn name(&self) -> &'static str {
        "endpointslice-controller"
    }

    fn observe(&mut self, change: &Change, view: View<'_>) -> Vec<Key> {
        let namespace = change.key.namespace();
        let both = [&change.before, &change.after].map(|object| object.as_deref());
        match change.key.resource() {
            "services" => vec![change.key.clone()],
            SLICES => {
                let names =
                    both.into_iter().flatten().map(|slice| &slice["metadata"]["labels"][SERVICE_NAME]);
                names.filter_map(Value::as_str).map(|name| Key::new("services", namespace, name)).collect()
            }
            "pods" if is_news(both) => {
                let keys = view.keys("services", Some(namespace));
                let selects = |service: &Value| {
                    let selector = selector(service);
                    let labels = both.into_iter().flatten().map(|pod| &pod["metadata"]["labels"]);
                    selector.is_some_and(|selector| labels.into_iter().any(|labels| selector.matches(labels)))
                };
                keys.filter(|key| view.get(key).is_some_and(|service| selects(&service))).cloned().collect()
            }
            _ => Vec::new(),
        }
    }

    fn decide(&mut self, key: &Key, view: View<'_>) -> Decision {
        let Some(service) = view.get(key).filter(|service| !object::is_terminating(service)) else {
            return Decision::none();
        };
        let Some(selector) = selector(&service) else { return Decision::none() };
        let pods = view.list("pods", Some(key.namespace()));
        let selected = pods.filter(|pod| selector.matches(&pod["metadata"]["labels"]));
        let zone = |node: &str| {
            let node = view.get(&Key::new("nodes", "", node))?;
            node["metadata"]["labels"]["topology.kubernetes.io/zone"].as_str().map(str::to_owned)
        };
        let wanted = plan::wanted(&service, selected.collect(), zone);
        Decision {
            acts: plan::acts(&service, wanted, &view.controlled(SLICES, &service)),
            ..Decision::none()
        }
    }
}

/// Whether anything has changed of a pod that its services tell of.
fn is_news(both: [Option<&Value>; 2]) -> bool {
    let [before, after] = both.map(|pod| {
        pod.map(|pod| (plan::address(pod), plan::conditions(pod), pod["metadata"]["labels"].clone()))
    });
    before != after
}

/// Which pods a service selects. One without a selector is somebody else's affair, and so is another name for what is
/// elsewhere.
fn selector(service: &Value) -> Option<LabelSelector> {
    let labels = service["spec"]["selector"].as_object().filter(|labels| !labels.is_empty())?;
    if service["spec"]["type"] == "ExternalName" {
        return None;
    }
    let selector = crate::json::json!({ "matchLabels": Value::Object(labels.clone()) });
    LabelSelector::from_value(&selector).ok()
}
