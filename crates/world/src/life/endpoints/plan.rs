//! What slices there are to be, as a function of a service, its pods and the slices that there are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{SERVICE_NAME, SLICES};
use crate::api::Act;
use crate::json::{Map, Value, json};
use crate::object;

/// As many as Kubernetes puts into one.
const ENDPOINTS_MAX: usize = 100;

const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const HEADLESS: &str = "service.kubernetes.io/headless";

/// Pods that listen on the same ports, by their names, each as a slice tells of it. Pods may call different ports by the
/// same name.
#[derive(Debug)]
pub(super) struct Group {
    ports: Value,
    endpoints: BTreeMap<String, Value>,
}

/// Where a pod is, once it has an address and for as long as it may still use it.
pub(super) fn address(pod: &Value) -> Option<&str> {
    let is_over = matches!(object::text(pod, &["status", "phase"]), "Failed" | "Succeeded");
    let address = object::text(pod, &["status", "podIP"]);
    (!is_over && !address.is_empty()).then_some(address)
}

/// Whether a pod answers, and whether it goes.
pub(super) fn conditions(pod: &Value) -> (bool, bool) {
    (object::condition_status(pod, "Ready") == "True", object::is_terminating(pod))
}

pub(super) fn wanted(
    service: &Value,
    pods: Vec<Arc<Value>>,
    zone: impl Fn(&str) -> Option<String>,
) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for pod in pods {
        let Some(address) = address(&pod) else { continue };
        let (ports, endpoint) = (ports(service, &pod), endpoint(service, &pod, address, &zone));
        let name = object::name(&pod).to_owned();
        match groups.iter_mut().find(|group| group.ports == ports) {
            Some(group) => drop(group.endpoints.insert(name, endpoint)),
            None => groups.push(Group { ports, endpoints: BTreeMap::from([(name, endpoint)]) }),
        }
    }
    groups
}

fn ports(service: &Value, pod: &Value) -> Value {
    let ports = service["spec"]["ports"].as_array().into_iter().flatten();
    let told = ports.filter_map(|port| {
        let mut told = json!({
            "name": object::text(port, &["name"]), "port": listens_at(port, pod)?, "protocol": port["protocol"],
        });
        if !port["appProtocol"].is_null() {
            told["appProtocol"] = port["appProtocol"].clone();
        }
        Some(told)
    });
    told.collect()
}

/// The port of a pod behind one of a service: a number, or what one of its containers calls so.
fn listens_at(port: &Value, pod: &Value) -> Option<i64> {
    let Some(name) = port["targetPort"].as_str() else { return port["targetPort"].as_i64() };
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    let mut ports = containers.flat_map(|container| container["ports"].as_array().into_iter().flatten());
    let found = ports.find(|of_pod| of_pod["name"] == name && of_pod["protocol"] == port["protocol"])?;
    found["containerPort"].as_i64()
}

fn endpoint(service: &Value, pod: &Value, address: &str, zone: impl Fn(&str) -> Option<String>) -> Value {
    let (is_serving, is_going) = conditions(pod);
    let is_ready = service["spec"]["publishNotReadyAddresses"] == true || (is_serving && !is_going);
    let mut endpoint = json!({
        "addresses": [address],
        "conditions": { "ready": is_ready, "serving": is_serving, "terminating": is_going },
        "targetRef": {
            "kind": "Pod", "namespace": object::namespace(pod), "name": object::name(pod), "uid": object::uid(pod),
        },
    });
    let (node, host) = (object::text(pod, &["spec", "nodeName"]), object::text(pod, &["spec", "hostname"]));
    if !node.is_empty() {
        endpoint["nodeName"] = json!(node);
        if let Some(zone) = zone(node) {
            endpoint["zone"] = json!(zone);
        }
    }
    if !host.is_empty() && object::text(pod, &["spec", "subdomain"]) == object::name(service) {
        endpoint["hostname"] = json!(host);
    }
    endpoint
}

/// What is to be written. Pods stay in the slices in which they are; new ones go where there is room. A service without
/// pods has one slice, which says so.
pub(super) fn acts(service: &Value, mut wanted: Vec<Group>, there: &[Arc<Value>]) -> Vec<Act> {
    if wanted.is_empty() {
        wanted.push(Group { ports: Value::Null, endpoints: BTreeMap::new() });
    }
    let mut acts = Vec::new();
    let mut left: BTreeSet<usize> = (0..there.len()).collect();
    for Group { ports, mut endpoints } in wanted {
        let of_group = |at: &usize| there.get(*at).is_some_and(|slice| slice["ports"] == ports);
        let mine: Vec<usize> = left.iter().copied().filter(of_group).collect();
        let mut slices: Vec<(usize, Vec<Value>)> = Vec::new();
        for at in mine {
            let Some(slice) = there.get(at) else { continue };
            let kept = slice["endpoints"].as_array().into_iter().flatten();
            let kept =
                kept.filter_map(|endpoint| endpoints.remove(object::text(endpoint, &["targetRef", "name"])));
            slices.push((at, kept.collect()));
        }
        let mut new = endpoints.into_values();
        for (_, kept) in &mut slices {
            let room = ENDPOINTS_MAX.saturating_sub(kept.len());
            kept.extend(new.by_ref().take(room));
        }
        // One that is empty is kept only where there is nothing else to say.
        let is_all_empty = slices.iter().all(|(_, kept)| kept.is_empty()) && new.len() == 0;
        let placeholder = slices.first().map(|(at, _)| *at).filter(|_| is_all_empty);
        for (at, kept) in slices {
            if kept.is_empty() && placeholder != Some(at) {
                continue;
            }
            left.remove(&at);
            if let Some(slice) = there.get(at) {
                acts.extend(update(service, slice, &ports, kept));
            }
        }
        let mut rest: Vec<Value> = new.collect();
        while !rest.is_empty() || (is_all_empty && placeholder.is_none() && acts.is_empty()) {
            let after = rest.split_off(rest.len().min(ENDPOINTS_MAX));
            acts.push(Act::Create(SLICES, slice(service, &ports, rest)));
            rest = after;
        }
    }
    acts.extend(left.iter().filter_map(|at| there.get(*at)).map(|slice| Act::delete(SLICES, slice)));
    acts
}

fn update(service: &Value, slice: &Arc<Value>, ports: &Value, endpoints: Vec<Value>) -> Option<Act> {
    let mut next = (**slice).clone();
    next["endpoints"] = listed(endpoints);
    next["ports"] = ports.clone();
    object::set(&mut next, "labels", labels(service));
    (next != **slice).then_some(Act::Update(SLICES, next))
}

fn slice(service: &Value, ports: &Value, endpoints: Vec<Value>) -> Value {
    let name = object::name(service);
    json!({
        "metadata": {
            "generateName": format!("{name}-"),
            "namespace": object::namespace(service),
            "labels": labels(service),
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Service", "name": name, "uid": object::uid(service),
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "addressType": "IPv4",
        "endpoints": listed(endpoints),
        "ports": ports,
    })
}

/// Nothing is told as null, as it is after it has been stored.
fn listed(endpoints: Vec<Value>) -> Value {
    if endpoints.is_empty() { Value::Null } else { Value::from(endpoints) }
}

/// Those of the service, and what says whose the slice is.
fn labels(service: &Value) -> Value {
    let mut labels: Map = service["metadata"]["labels"].as_object().cloned().unwrap_or_default();
    labels.remove(HEADLESS);
    if matches!(object::text(service, &["spec", "clusterIP"]), "" | "None") {
        labels.insert(HEADLESS, json!(""));
    }
    labels.insert(SERVICE_NAME, json!(object::name(service)));
    labels.insert(MANAGED_BY, json!("endpointslice-controller.k8s.io"));
    Value::Object(labels)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service() -> Value {
        json!({
            "metadata": {"name": "web", "namespace": "default", "uid": "u", "labels": {"a": "b"}},
            "spec": {"clusterIP": "10.0.0.16", "ports": [
                {"port": 80, "targetPort": "http", "protocol": "TCP"},
                {"name": "m", "port": 90, "targetPort": 9090, "protocol": "TCP"},
            ]},
        })
    }

    fn pod(name: &str, ip: &str, ready: &str, http: i64) -> Value {
        json!({
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"nodeName": "n", "containers": [
                {"ports": [{"name": "http", "containerPort": http, "protocol": "TCP"}]},
            ]},
            "status": {"podIP": ip, "phase": "Running", "conditions": [{"type": "Ready", "status": ready}]},
        })
    }

    /// What is written, one line each: `new`, `change` or `delete` with a slice, its first port and its pods.
    fn told(acts: &[Act]) -> Vec<String> {
        let contents = |slice: &Value| {
            let endpoints = slice["endpoints"].as_array().into_iter().flatten();
            let pods: Vec<String> = endpoints
                .map(|endpoint| {
                    let name = object::text(endpoint, &["targetRef", "name"]);
                    let ready = if endpoint["conditions"]["ready"] == true { "" } else { "-" };
                    format!("{name}{ready}")
                })
                .collect();
            format!("{} {}", slice["ports"][0]["port"], pods.join(" "))
        };
        let line = |act: &Act| match act {
            Act::Create(_, slice) => format!("new {}", contents(slice)),
            Act::Update(_, slice) => format!("change {} {}", object::name(slice), contents(slice)),
            Act::Delete { object, .. } => format!("delete {}", object::name(object)),
            other => panic!("{other:?}"),
        };
        acts.iter().map(line).collect()
    }

    /// The slices after that, as a server would keep them.
    fn kept(acts: &[Act], before: &[Arc<Value>]) -> Vec<Arc<Value>> {
        let mut kept: Vec<Arc<Value>> = before.to_vec();
        for act in acts {
            match act {
                Act::Create(_, slice) => {
                    let mut slice = slice.clone();
                    object::set(&mut slice, "name", json!(format!("s{}", kept.len())));
                    kept.push(Arc::new(slice));
                }
                Act::Update(_, next) => {
                    let same = |slice: &&mut Arc<Value>| object::name(slice) == object::name(next);
                    *kept.iter_mut().find(same).unwrap() = Arc::new(next.clone());
                }
                Act::Delete { object, .. } => kept.retain(|slice| slice != object),
                other => panic!("{other:?}"),
            }
        }
        kept
    }

    #[test]
    fn slices_follow_their_pods() {
        let mut gone = pod("b", "10.1.0.2", "True", 8080);
        gone["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let mut over = pod("c", "10.1.0.3", "False", 8080);
        over["status"]["phase"] = json!("Succeeded");
        let many: Vec<Value> = (0..130).map(|n| pod(&format!("p{n:03}"), "10.1.0.9", "True", 8080)).collect();
        let names =
            |range: std::ops::Range<usize>| range.map(|n| format!("p{n:03}")).collect::<Vec<_>>().join(" ");
        let mut slices: Vec<Arc<Value>> = Vec::new();
        for (pods, expected) in [
            (vec![], vec!["new null ".to_owned()]),
            (vec![], vec![]),
            (vec![pod("a", "", "False", 8080)], vec![]),
            (
                vec![pod("a", "10.1.0.1", "False", 8080)],
                vec!["new 8080 a-".to_owned(), "delete s0".to_owned()],
            ),
            (vec![pod("a", "10.1.0.1", "True", 8080)], vec!["change s1 8080 a".to_owned()]),
            (vec![pod("a", "10.1.0.1", "True", 8080), gone, over], vec!["change s1 8080 a b-".to_owned()]),
            // Another port of that name.
            (
                vec![pod("a", "10.1.0.1", "True", 8080), pod("d", "10.1.0.4", "True", 8081)],
                vec!["change s1 8080 a".to_owned(), "new 8081 d".to_owned()],
            ),
            (vec![pod("d", "10.1.0.4", "True", 8081)], vec!["delete s1".to_owned()]),
            (
                many.clone(),
                vec![
                    format!("new 8080 {}", names(0..100)),
                    format!("new 8080 {}", names(100..130)),
                    "delete s1".to_owned(),
                ],
            ),
        ] {
            let pods: Vec<Arc<Value>> = pods.into_iter().map(Arc::new).collect();
            let groups = wanted(&service(), pods, |_| Some("z".to_owned()));
            let acts = acts(&service(), groups, &slices);
            assert_eq!(told(&acts), expected);
            slices = kept(&acts, &slices);
        }
        // A pod that goes leaves room for another.
        let pods = many.into_iter().skip(1).chain([pod("x", "10.1.0.8", "True", 8080)]);
        let groups = wanted(&service(), pods.map(Arc::new).collect(), |_| None);
        let acts = acts(&service(), groups, &slices);
        let first = told(&acts).into_iter().next().unwrap();
        assert!(first.ends_with("p099 x"), "{first}");
    }

    #[test]
    fn slices_say_whose_they_are_and_where_their_pods_are() {
        let groups =
            wanted(&service(), vec![Arc::new(pod("a", "10.1.0.1", "True", 8080))], |_| Some("z".to_owned()));
        let acts = acts(&service(), groups, &[]);
        let [Act::Create(_, slice)] = &acts[..] else { panic!("{acts:?}") };
        assert_eq!(
            slice["metadata"]["labels"],
            json!({
                "a": "b", SERVICE_NAME: "web", MANAGED_BY: "endpointslice-controller.k8s.io",
            })
        );
        assert_eq!(slice["metadata"]["ownerReferences"][0]["uid"], "u");
        assert_eq!(slice["endpoints"][0]["addresses"], json!(["10.1.0.1"]));
        assert_eq!(slice["endpoints"][0]["zone"], "z");
        assert_eq!(
            slice["ports"],
            json!([
                {"name": "", "port": 8080, "protocol": "TCP"}, {"name": "m", "port": 9090, "protocol": "TCP"},
            ])
        );
    }
}
