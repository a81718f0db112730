//! Where a pod's spec says it may run: affinities, spreads, host ports.

use berth_core::names::{self, Labels};
use berth_core::pod::{HostPort, PodTerm, Protocol, Spread, Weighted};
use berth_core::requirement::{NodeTerm, Operator};
use berth_core::selector::Selector;

use crate::builtin::Str;
use crate::builtin::pod::{self as wire, PREFERRED, REQUIRED};
use crate::convert::Converter;
use crate::problem::At;

pub(crate) fn required_node_affinity(
    affinity: &wire::NodeAffinity<'_>,
    at: &At<'_>,
    to: &mut Converter<'_>,
) -> Option<Vec<NodeTerm>> {
    let required = affinity.required.as_ref()?;
    let at = at.key(REQUIRED);
    node_terms(&required.node_selector_terms, &at, to)
}

/// The terms of a required node selector, of which there must be one at least.
pub(crate) fn node_terms(
    terms: &[wire::NodeTerm<'_>],
    at: &At<'_>,
    to: &mut Converter<'_>,
) -> Option<Vec<NodeTerm>> {
    let list = at.key("nodeSelectorTerms");
    if terms.is_empty() {
        to.findings.add(&list, "is empty; give at least one term, or leave the requirement out");
        return None;
    }
    Some(terms.iter().enumerate().map(|(i, term)| to.node_term(term, &list.index(i))).collect())
}

pub(crate) fn node_preferences(
    affinity: &wire::NodeAffinity<'_>,
    at: &At<'_>,
    to: &mut Converter<'_>,
) -> Vec<Weighted<NodeTerm>> {
    let list = at.key(PREFERRED);
    let mut preferences = Vec::with_capacity(affinity.preferred.len());
    for (i, preferred) in affinity.preferred.iter().enumerate() {
        let at = list.index(i);
        check_weight(preferred.weight, &at, to);
        let term = to.node_term(&preferred.preference, &at.key("preference"));
        preferences.push(Weighted { weight: preferred.weight, term });
    }
    preferences
}

pub(crate) fn pod_terms(
    affinity: &wire::PodAffinity<'_>,
    labels: &Labels,
    at: &At<'_>,
    to: &mut Converter<'_>,
) -> Vec<PodTerm> {
    let list = at.key(REQUIRED);
    affinity.required.iter().enumerate().map(|(i, t)| pod_term(t, labels, &list.index(i), to)).collect()
}

pub(crate) fn pod_preferences(
    affinity: &wire::PodAffinity<'_>,
    labels: &Labels,
    at: &At<'_>,
    to: &mut Converter<'_>,
) -> Vec<Weighted<PodTerm>> {
    let list = at.key(PREFERRED);
    let mut preferences = Vec::with_capacity(affinity.preferred.len());
    for (i, preferred) in affinity.preferred.iter().enumerate() {
        let at = list.index(i);
        check_weight(preferred.weight, &at, to);
        let term = pod_term(&preferred.pod_affinity_term, labels, &at.key("podAffinityTerm"), to);
        preferences.push(Weighted { weight: preferred.weight, term });
    }
    preferences
}

fn check_weight(weight: i32, at: &At<'_>, to: &mut Converter<'_>) {
    if !(1..=100).contains(&weight) {
        to.findings.add(&at.key("weight"), format!("{weight} is out of range; a weight is from 1 to 100"));
    }
}

fn pod_term(term: &wire::PodTerm<'_>, labels: &Labels, at: &At<'_>, to: &mut Converter<'_>) -> PodTerm {
    check_topology_key(&term.topology_key, at, to);
    let selector = to.optional_selector(term.label_selector.as_ref(), &at.key("labelSelector"));
    let selector = with_label_keys(
        selector,
        &[
            ("matchLabelKeys", &term.match_label_keys, Operator::In),
            ("mismatchLabelKeys", &term.mismatch_label_keys, Operator::NotIn),
        ],
        labels,
        at,
        to,
    );
    let mut namespaces: Vec<_> = term.namespaces.iter().map(|namespace| to.text(namespace)).collect();
    namespaces.sort();
    namespaces.dedup();
    PodTerm {
        selector,
        namespaces,
        namespace_selector: to
            .optional_selector(term.namespace_selector.as_ref(), &at.key("namespaceSelector")),
        topology_key: to.text(names::normalized_key(&term.topology_key)),
    }
}

fn check_topology_key(key: &str, at: &At<'_>, to: &mut Converter<'_>) {
    if let Some(problem) = names::label_key_problem(key) {
        to.findings.add(&at.key("topologyKey"), format!("`{key}` is not a label key: {problem}"));
    }
}

fn with_label_keys(
    selector: Option<Selector>,
    keys: &[(&str, &Vec<Str<'_>>, Operator)],
    labels: &Labels,
    at: &At<'_>,
    to: &mut Converter<'_>,
) -> Option<Selector> {
    let mut selector = selector;
    for (field, keys, operator) in keys {
        if keys.is_empty() {
            continue;
        }
        let Some(plain) = selector else {
            to.findings.add(&at.key(field), "needs a labelSelector beside it");
            return None;
        };
        selector = Some(plain.with_label_keys(keys.iter().map(|key| &**key), labels, *operator));
    }
    selector
}

pub(crate) fn spreads(
    constraints: &[wire::SpreadConstraint<'_>],
    labels: &Labels,
    at: &At<'_>,
    to: &mut Converter<'_>,
) -> Vec<Spread> {
    let mut spreads = Vec::with_capacity(constraints.len());
    for (i, constraint) in constraints.iter().enumerate() {
        spreads.push(spread(constraint, labels, &at.index(i), to));
    }
    spreads
}

fn spread(
    constraint: &wire::SpreadConstraint<'_>,
    labels: &Labels,
    at: &At<'_>,
    to: &mut Converter<'_>,
) -> Spread {
    check_topology_key(&constraint.topology_key, at, to);
    let required = match &*constraint.when_unsatisfiable {
        "DoNotSchedule" => true,
        "ScheduleAnyway" => false,
        other => {
            let message = format!("`{other}` is not known; it is one of DoNotSchedule, ScheduleAnyway");
            to.findings.add(&at.key("whenUnsatisfiable"), message);
            true
        }
    };
    if constraint.min_domains.is_some() && !required {
        to.findings.add(&at.key("minDomains"), "is only for whenUnsatisfiable: DoNotSchedule");
    }
    let selector = to.optional_selector(constraint.label_selector.as_ref(), &at.key("labelSelector"));
    let selector = with_label_keys(
        selector,
        &[("matchLabelKeys", &constraint.match_label_keys, Operator::In)],
        labels,
        at,
        to,
    );
    Spread {
        topology_key: to.text(names::normalized_key(&constraint.topology_key)),
        max_skew: at_least_one(constraint.max_skew, &at.key("maxSkew"), to),
        required,
        selector,
        min_domains: at_least_one(constraint.min_domains.unwrap_or(1), &at.key("minDomains"), to),
        honor_node_affinity: honors(
            constraint.node_affinity_policy.as_ref(),
            true,
            &at.key("nodeAffinityPolicy"),
            to,
        ),
        honor_node_taints: honors(
            constraint.node_taints_policy.as_ref(),
            false,
            &at.key("nodeTaintsPolicy"),
            to,
        ),
    }
}

fn at_least_one(value: i64, at: &At<'_>, to: &mut Converter<'_>) -> u32 {
    match u32::try_from(value) {
        Ok(value) if value >= 1 => value,
        _ => {
            to.findings.add(at, format!("{value} is out of range; it is 1 or more"));
            1
        }
    }
}

fn honors(policy: Option<&Str<'_>>, default: bool, at: &At<'_>, to: &mut Converter<'_>) -> bool {
    match policy.map(|policy| &**policy) {
        None => default,
        Some("Honor") => true,
        Some("Ignore") => false,
        Some(other) => {
            to.findings.add(at, format!("`{other}` is not known; it is one of Honor, Ignore"));
            default
        }
    }
}

/// Ports of the node that the pod takes, in a defined order.
pub(crate) fn host_ports(spec: &wire::PodSpec<'_>, at: &At<'_>, to: &mut Converter<'_>) -> Vec<HostPort> {
    let mut ports = Vec::new();
    let sidecar = |container: &wire::Container<'_>| container.restart_policy.as_deref() == Some("Always");
    for (list, containers, only_sidecars) in
        [("containers", &spec.containers, false), ("initContainers", &spec.init_containers, true)]
    {
        let list = at.key(list);
        for (i, container) in containers.iter().enumerate().filter(|(_, c)| !only_sidecars || sidecar(c)) {
            let at = list.index(i);
            let at = at.key("ports");
            for (j, port) in container.ports.iter().enumerate() {
                ports.extend(host_port(port, spec.host_network, &at.index(j), to));
            }
        }
    }
    ports.sort();
    ports.dedup();
    ports
}

fn host_port(
    port: &wire::Port<'_>,
    host_network: bool,
    at: &At<'_>,
    to: &mut Converter<'_>,
) -> Option<HostPort> {
    let (field, number) = match port.host_port.filter(|port| *port != 0) {
        Some(number) => ("hostPort", number),
        None => ("containerPort", port.container_port.filter(|_| host_network)?),
    };
    let protocol = port.protocol.as_deref().filter(|p| !p.is_empty()).unwrap_or("TCP");
    let Some(protocol) = Protocol::parse(protocol) else {
        let message = format!("`{protocol}` is not known; it is one of {}", Protocol::NAMES);
        to.findings.add(&at.key("protocol"), message);
        return None;
    };
    let Some(number) = u16::try_from(number).ok().filter(|port| *port > 0) else {
        to.findings.add(&at.key(field), format!("{number} is out of range; a port is from 1 to 65535"));
        return None;
    };
    let ip = port.host_ip.as_deref().filter(|ip| !ip.is_empty()).unwrap_or(HostPort::ANY_IP);
    Some(HostPort { ip: to.text(ip), protocol, port: number })
}
