//! Whether a node has room for a pod, as its kubelet sees it.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_core::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources};
use berth_core::units::Quantity;

use crate::json::Value;
use crate::object;
use crate::store::Change;

/// What is missing for a pod to be taken in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shortage {
    resource: String,
    asked: i64,
    used: i64,
    capacity: i64,
}

impl Shortage {
    pub(super) fn reason(&self) -> String {
        format!("OutOf{}", self.resource)
    }

    /// The same, as it is told: what only some nodes have is told as one.
    pub(super) fn told_reason(&self) -> &'static str {
        match &*self.resource {
            CPU => "OutOfcpu",
            MEMORY => "OutOfmemory",
            EPHEMERAL_STORAGE => "OutOfephemeral-storage",
            PODS => "OutOfpods",
            _ => "OutOfExtendedResources",
        }
    }

    pub(super) fn message(&self) -> String {
        format!(
            "Node didn't have enough resource: {}, requested: {}, used: {}, capacity: {}",
            self.resource, self.asked, self.used, self.capacity
        )
    }
}

/// What is taken of each node, by the pods that its kubelet has taken in.
#[derive(Debug, Default)]
pub(super) struct Room(BTreeMap<Arc<str>, Resources>);

impl Room {
    /// Follows a change of a pod. What it asks for does not change while it runs.
    pub(super) fn learn(&mut self, change: &Change) {
        let (before, after) = (change.before.as_deref(), change.after.as_deref());
        let takes = |pod: Option<&Value>| pod.is_some_and(takes_room);
        let of = match (takes(before), takes(after)) {
            (false, true) => after,
            (true, false) => before,
            _ => return,
        };
        let Some(pod) = of else { return };
        let node = object::text(pod, &["spec", "nodeName"]);
        let taken = self.0.entry(node.into()).or_default();
        if takes(after) {
            taken.add(&demand(pod));
        } else {
            taken.subtract(&demand(pod));
            if taken.get(PODS) == 0 {
                self.0.remove(node);
            }
        }
    }

    /// What a pod lacks on a node that has so much.
    pub(super) fn shortage(&self, pod: &Value, node: &str, room: &Resources) -> Option<Shortage> {
        let asked = demand(pod);
        let nothing = Resources::new();
        let taken = self.0.get(node).unwrap_or(&nothing);
        // In the order in which kubelets look: the number of pods first.
        let first = [PODS, CPU, MEMORY, EPHEMERAL_STORAGE];
        let names = first.into_iter().chain(asked.iter().map(|(name, _)| &**name));
        names.map(|name| (name, asked.get(name))).find_map(|(name, amount)| {
            let (used, capacity) = (taken.get(name), room.get(name));
            (amount > 0 && amount > capacity - used).then(|| Shortage {
                resource: name.to_owned(),
                asked: amount,
                used,
                capacity,
            })
        })
    }
}

/// What a pod takes: what it asks for as a whole, or else its containers do, and what its runtime needs.
fn demand(pod: &Value) -> Resources {
    let spec = &pod["spec"];
    let mut together = of_containers(spec);
    for (name, amount) in amounts(&spec["resources"]["requests"]).iter() {
        together.set(name, amount);
    }
    together.add(&amounts(&spec["overhead"]));
    together.set(PODS, 1);
    together
}

/// What the containers of a pod ask for together, or more while it initialises.
pub(crate) fn of_containers(spec: &Value) -> Resources {
    let requests = |container: &Value| amounts(&container["resources"]["requests"]);
    let list = |field: &str| spec[field].as_array().into_iter().flatten();
    let mut together = Resources::new();
    list("containers").for_each(|container| together.add(&requests(container)));
    let (mut sidecars, mut peak) = (Resources::new(), Resources::new());
    for container in list("initContainers") {
        let own = requests(container);
        if container["restartPolicy"] == "Always" {
            sidecars.add(&own);
            Resources::max(&mut peak, &sidecars);
        } else {
            Resources::max(&mut peak, &own.plus(&sidecars));
        }
    }
    together.add(&sidecars);
    Resources::max(&mut together, &peak);
    together
}

/// Quantities by resource, as containers and nodes have them.
pub(crate) fn amounts(quantities: &Value) -> Resources {
    let all = quantities.as_object().into_iter().flatten();
    all.filter_map(|(name, quantity)| {
        let quantity: Quantity = match quantity {
            Value::String(text) => text.parse().ok()?,
            Value::Number(number) => number.to_string().parse().ok()?,
            _ => return None,
        };
        Some((name.as_str().into(), Resources::amount_of(name, quantity)))
    })
    .collect()
}

/// Those of a node's pods that take from it: not those that are done, nor those yet to be taken in.
fn takes_room(pod: &Value) -> bool {
    super::pod::is_taken_in(pod) && !super::pod::is_done(pod)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;
    use crate::store::Key;

    fn pod(cpu: &str) -> Value {
        json!({
            "spec": {"nodeName": "n", "containers": [{"resources": {"requests": {"cpu": cpu}}}]}, "status": {"startTime": "x"},
        })
    }

    #[test]
    fn pods_that_do_not_fit_are_turned_away() {
        let has = Resources::of(&[(CPU, 2000), (MEMORY, 1 << 30), (PODS, 3)]);
        let rows = [
            (pod("1"), vec![], None),
            (pod("1"), vec!["1"], None),
            (
                pod("1"),
                vec!["1500m"],
                Some((
                    "OutOfcpu",
                    "Node didn't have enough resource: cpu, requested: 1000, used: 1500, capacity: 2000",
                )),
            ),
            (
                pod("1m"),
                vec!["1m", "1m", "1m"],
                Some((
                    "OutOfpods",
                    "Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3",
                )),
            ),
            (
                json!({"spec": {
                    "containers": [{"resources": {"requests": {"memory": "1Mi"}}}],
                    "initContainers": [{"resources": {"requests": {"memory": "2Gi"}}}],
                }}),
                vec![],
                Some((
                    "OutOfmemory",
                    "Node didn't have enough resource: memory, requested: 2147483648, used: 0, capacity: 1073741824",
                )),
            ),
        ];
        for (new, others, expected) in rows {
            let mut room = Room::default();
            let told = |before: Option<&Value>, after: Option<&Value>| Change {
                revision: 1,
                key: Key::new("pods", "default", "p"),
                before: before.cloned().map(Arc::new),
                after: after.cloned().map(Arc::new),
            };
            let others: Vec<Value> = others.into_iter().map(pod).collect();
            for pod in &others {
                room.learn(&told(None, Some(pod)));
            }
            // Those that are not there yet, and those that are done, take nothing.
            let (mut early, mut late) = (pod("2"), pod("2"));
            early["status"] = json!({});
            late["status"]["phase"] = json!("Failed");
            room.learn(&told(None, Some(&early)));
            room.learn(&told(Some(&early), Some(&pod("2"))));
            room.learn(&told(Some(&pod("2")), Some(&late)));
            let lacks = room.shortage(&new, "n", &has);
            let lacks = lacks.map(|shortage| (shortage.told_reason(), shortage.message()));
            assert_eq!(lacks, expected.map(|(reason, message)| (reason, message.to_owned())), "{new}");
        }
    }

    #[test]
    fn demand_is_what_kubernetes_computes() {
        let of = |cpu: &str, policy: Option<&str>| {
            let mut container = json!({"resources": {"requests": {"cpu": cpu}}});
            if let Some(policy) = policy {
                container["restartPolicy"] = json!(policy);
            }
            container
        };
        let rows = [
            (json!({"containers": [of("1", None), of("500m", None)]}), 1500),
            (json!({"containers": [of("1", None)], "initContainers": [of("3", None)]}), 3000),
            (
                json!({"containers": [of("1", None)], "initContainers": [of("1", Some("Always")), of("3", None)]}),
                4000,
            ),
            (
                json!({"containers": [of("1", None)], "initContainers": [of("2", None), of("1", Some("Always"))]}),
                2000,
            ),
            (json!({"containers": [of("1", None)], "overhead": {"cpu": "250m"}}), 1250),
            (
                json!({"containers": [of("1", None)], "resources": {"requests": {"cpu": "3"}}, "overhead": {"cpu": "1"}}),
                4000,
            ),
        ];
        for (spec, cpu) in rows {
            assert_eq!(demand(&json!({"spec": spec})).get(CPU), cpu, "{spec}");
        }
    }
}
