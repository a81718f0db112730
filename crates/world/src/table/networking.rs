//! The columns and cells of ingresses, their classes and network policies.

use super::cells::{View, non_empty, selector, text};
use super::columns::{AGE, Column, NAME, text as column};
use super::objects::{joined, of_balancer};
use crate::json::{Value, json};

pub(super) const INGRESS: &[Column] = &[
    NAME,
    column("Class", "The name of the IngressClass resource that should be used for additional configuration"),
    column("Hosts", "Hosts that incoming requests are matched against before the ingress rule"),
    column("Address", "Address is a list containing ingress points for the load-balancer"),
    column("Ports", "Ports of TLS configurations that open"),
    AGE,
];

pub(super) const INGRESS_CLASS: &[Column] = &[
    NAME,
    column("Controller", "Controller that is responsible for handling this class"),
    column("Parameters", "A reference to a resource with additional parameters"),
    AGE,
];

pub(super) const NETWORK_POLICY: &[Column] = &[
    NAME,
    column(
        "Pod-Selector",
        "podSelector selects the pods to which this NetworkPolicy object applies. The array of rules is applied to any pods selected by this field. An empty selector matches all pods in the policy's namespace. Multiple network policies can select the same set of pods. In this case, the ingress rules for each are combined additively. This field is optional. If it is not specified, it defaults to an empty selector.",
    ),
    AGE,
];

/// So many hosts are named.
const HOSTS_MAX: usize = 3;

pub(super) fn ingress(view: View<'_>) -> Vec<Value> {
    vec![
        json!(view.name()),
        json!(view.at("/spec/ingressClassName").as_str().unwrap_or("<none>")),
        json!(hosts(view.list("/spec/rules"))),
        json!(joined(of_balancer(view))),
        json!(if view.list("/spec/tls").is_empty() { "80" } else { "80, 443" }),
        view.age(),
    ]
}

/// Once there are as many hosts as are named, whatever rule comes counts as more, with a host or without.
fn hosts(rules: &[Value]) -> String {
    let with_host = |rule: &(usize, &Value)| !text(&rule.1["host"]).is_empty();
    let named: Vec<(usize, &Value)> = rules.iter().enumerate().filter(with_host).take(HOSTS_MAX).collect();
    let shown = named.iter().map(|(_, rule)| text(&rule["host"])).collect::<Vec<_>>().join(",");
    let is_more = named.len() == HOSTS_MAX && named.last().is_some_and(|(last, _)| last + 1 < rules.len());
    if is_more {
        return format!("{shown} + {} more...", rules.len() - HOSTS_MAX);
    }
    non_empty(&shown, "*").to_owned()
}

const IS_DEFAULT: &str = "ingressclass.kubernetes.io/is-default-class";

pub(super) fn ingress_class(view: View<'_>) -> Vec<Value> {
    let is_default = view.at("/metadata/annotations")[IS_DEFAULT] == "true";
    let name = view.name();
    let parameters = view.at("/spec/parameters");
    let of = match (parameters.is_null(), parameters["apiGroup"].as_str()) {
        (true, _) => "<none>".to_owned(),
        (false, group) => {
            let group = group.map(|group| format!(".{group}")).unwrap_or_default();
            format!("{}{group}/{}", text(&parameters["kind"]), text(&parameters["name"]))
        }
    };
    vec![
        json!(if is_default { format!("{name} (default)") } else { name.to_owned() }),
        json!(view.text("/spec/controller")),
        json!(of),
        view.age(),
    ]
}

pub(super) fn network_policy(view: View<'_>) -> Vec<Value> {
    vec![json!(view.name()), json!(selector(view.at("/spec/podSelector"))), view.age()]
}
