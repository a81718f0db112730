//! Which nodes a daemon's pod may be on.

use crate::json::{Value, json};
use crate::life::pods;
use crate::object;

/// Whether a node is to have a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Runs,
    /// None is started there, but one that runs may stay.
    Stays,
    No,
}

/// What every daemon tolerates: troubles of the node, through which it has to keep running.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

/// A daemon's pod for a node: it says where it is to run, and leaves it to the scheduler to put it there.
pub(super) fn pod_for(set: &Value, node: &str) -> Value {
    let mut pod = pods::from_template(&set["spec"]["template"], set);
    let spec = object::within(&mut pod, "spec");
    let of_host =
        (spec["hostNetwork"] == true).then_some(("node.kubernetes.io/network-unavailable", "NoSchedule"));
    let mut tolerations = spec["tolerations"].as_array().cloned().unwrap_or_default();
    for (key, effect) in TOLERATED.into_iter().chain(of_host) {
        let toleration = json!({ "key": key, "operator": "Exists", "effect": effect });
        tolerations
            .retain(|known| known["key"] != toleration["key"] || known["effect"] != toleration["effect"]);
        tolerations.push(toleration);
    }
    spec["tolerations"] = json!(tolerations);
    if !node.is_empty() {
        pin(spec, node);
    }
    pod
}

/// What else was required of nodes was looked at when this one was chosen.
fn pin(spec: &mut Value, node: &str) {
    let fields = json!([{ "key": "metadata.name", "operator": "In", "values": [node] }]);
    let affinity = object::within(object::within(spec, "affinity"), "nodeAffinity");
    affinity["requiredDuringSchedulingIgnoredDuringExecution"] =
        json!({ "nodeSelectorTerms": [{ "matchFields": fields }] });
}

/// The node that a daemon's pod runs on or is meant for; empty if it says none.
pub(super) fn pinned_node(pod: &Value) -> &str {
    let bound = object::text(pod, &["spec", "nodeName"]);
    if !bound.is_empty() {
        return bound;
    }
    let pointer =
        "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let terms = object::at(pod, pointer).and_then(Value::as_array);
    let fields = terms.into_iter().flatten().filter_map(|term| term["matchFields"].as_array()).flatten();
    let mut names = fields.filter(|field| field["key"] == "metadata.name" && field["operator"] == "In");
    names.find_map(|field| field["values"].as_array()?.first()?.as_str()).unwrap_or_default()
}

/// Whether a pod as the set makes them, not yet meant for any node, may be on the node.
pub(super) fn verdict(pod: &Value, node: &Value) -> Verdict {
    let spec = &pod["spec"];
    let wanted = object::text(spec, &["nodeName"]);
    if !(wanted.is_empty() || wanted == object::name(node)) || !is_selected(spec, node) {
        return Verdict::No;
    }
    let taints = node["spec"]["taints"].as_array().into_iter().flatten();
    let refused: Vec<&Value> = taints.filter(|taint| !is_tolerated(spec, taint)).collect();
    if refused.iter().any(|taint| taint["effect"] == "NoExecute") {
        Verdict::No
    } else if refused.iter().any(|taint| taint["effect"] == "NoSchedule") {
        Verdict::Stays
    } else {
        Verdict::Runs
    }
}

/// Whether a pod may be on a node by what it selects and requires of nodes.
pub(crate) fn is_selected(spec: &Value, node: &Value) -> bool {
    let labels = &node["metadata"]["labels"];
    let mut selector = spec["nodeSelector"].as_object().into_iter().flatten();
    if !selector.all(|(key, value)| labels.get(key) == Some(value)) {
        return false;
    }
    let required = &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    if required.is_null() {
        return true;
    }
    let fields = json!({ "metadata.name": object::name(node) });
    let mut terms = required["nodeSelectorTerms"].as_array().into_iter().flatten();
    terms.any(|term| {
        let all_hold = |list: &Value, values: &Value| {
            list.as_array().into_iter().flatten().all(|demand| holds(demand, values))
        };
        let is_empty = |list: &Value| list.as_array().is_none_or(Vec::is_empty);
        let (by_label, by_field) = (&term["matchExpressions"], &term["matchFields"]);
        // A term that demands nothing selects nothing.
        !(is_empty(by_label) && is_empty(by_field))
            && all_hold(by_label, labels)
            && all_hold(by_field, &fields)
    })
}

fn holds(demand: &Value, of: &Value) -> bool {
    let value = demand["key"].as_str().and_then(|key| of.get(key)?.as_str());
    let values = || demand["values"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let compared = |is: fn(i64, i64) -> bool| {
        let bound = values().next().and_then(|bound| bound.parse().ok());
        let value = value.and_then(|value| value.parse().ok());
        matches!((value, bound), (Some(value), Some(bound)) if is(value, bound))
    };
    match demand["operator"].as_str().unwrap_or_default() {
        "In" => value.is_some_and(|value| values().any(|known| known == value)),
        "NotIn" => value.is_none_or(|value| values().all(|known| known != value)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compared(|value, bound| value > bound),
        "Lt" => compared(|value, bound| value < bound),
        _ => false,
    }
}

fn is_tolerated(spec: &Value, taint: &Value) -> bool {
    let mut tolerations = spec["tolerations"].as_array().into_iter().flatten();
    tolerations.any(|toleration| {
        let (effect, key) = (object::text(toleration, &["effect"]), object::text(toleration, &["key"]));
        let is_any = key.is_empty() && toleration["operator"] == "Exists";
        (effect.is_empty() || taint["effect"] == effect)
            && (is_any || taint["key"] == key)
            && (toleration["operator"] == "Exists"
                || object::text(toleration, &["value"]) == object::text(taint, &["value"]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_have_pods_as_labels_and_taints_allow() {
        let taint = |key: &str, effect: &str| json!({"key": key, "effect": effect});
        let node = json!({
            "metadata": {"name": "n1", "labels": {"disk": "ssd", "cores": "8"}}, "spec": {"taints": []},
        });
        let tainted = |taints: &[Value]| {
            let mut node = node.clone();
            node["spec"]["taints"] = json!(taints);
            node
        };
        let selects = |selector: Value| json!({"nodeSelector": selector});
        let affine = |term: Value| {
            json!({"affinity": {"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}
            }}})
        };
        let expression = |key: &str, operator: &str, values: &[&str]| {
            affine(json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]}))
        };
        let tolerating = |toleration: Value| json!({"tolerations": [toleration]});
        for (spec, node, expected) in [
            (json!({}), node.clone(), Verdict::Runs),
            (json!({"nodeName": "n2"}), node.clone(), Verdict::No),
            (selects(json!({"disk": "ssd"})), node.clone(), Verdict::Runs),
            (selects(json!({"disk": "hdd"})), node.clone(), Verdict::No),
            (expression("disk", "In", &["hdd", "ssd"]), node.clone(), Verdict::Runs),
            (expression("disk", "NotIn", &["ssd"]), node.clone(), Verdict::No),
            (expression("gpu", "NotIn", &["a"]), node.clone(), Verdict::Runs),
            (expression("gpu", "Exists", &[]), node.clone(), Verdict::No),
            (expression("gpu", "DoesNotExist", &[]), node.clone(), Verdict::Runs),
            (expression("cores", "Gt", &["4"]), node.clone(), Verdict::Runs),
            (expression("cores", "Lt", &["4"]), node.clone(), Verdict::No),
            (affine(json!({})), node.clone(), Verdict::No),
            (
                affine(
                    json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}),
                ),
                node.clone(),
                Verdict::No,
            ),
            (json!({}), tainted(&[taint("a", "NoSchedule")]), Verdict::Stays),
            (json!({}), tainted(&[taint("a", "NoExecute")]), Verdict::No),
            (json!({}), tainted(&[taint("a", "PreferNoSchedule")]), Verdict::Runs),
            (json!({}), tainted(&[taint("node.kubernetes.io/unschedulable", "NoSchedule")]), Verdict::Runs),
            (json!({}), tainted(&[taint("node.kubernetes.io/not-ready", "NoExecute")]), Verdict::Runs),
            (
                json!({}),
                tainted(&[taint("node.kubernetes.io/network-unavailable", "NoSchedule")]),
                Verdict::Stays,
            ),
            (
                json!({"hostNetwork": true}),
                tainted(&[taint("node.kubernetes.io/network-unavailable", "NoSchedule")]),
                Verdict::Runs,
            ),
            (tolerating(json!({"operator": "Exists"})), tainted(&[taint("a", "NoExecute")]), Verdict::Runs),
            (tolerating(json!({"key": "a"})), tainted(&[taint("a", "NoSchedule")]), Verdict::Runs),
            (
                tolerating(json!({"key": "a", "value": "b"})),
                tainted(&[taint("a", "NoSchedule")]),
                Verdict::Stays,
            ),
        ] {
            let set = json!({"metadata": {"name": "agent"}, "spec": {"template": {"spec": spec}}});
            assert_eq!(verdict(&pod_for(&set, ""), &node), expected, "{spec} {node}");
            assert_eq!(pinned_node(&pod_for(&json!({"spec": {"template": {"spec": {}}}}), "n1")), "n1");
        }
    }
}
