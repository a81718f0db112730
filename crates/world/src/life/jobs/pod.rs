//! A job's pod.

use jiff::Timestamp;

use crate::json::{Value, json};
use crate::life::pods::{self, number, set_annotation, set_label};
use crate::object;

const TRACKING: &str = "batch.kubernetes.io/job-tracking";
const INDEX: &str = "batch.kubernetes.io/job-completion-index";
const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";

/// A new pod; with an index if its job counts those.
pub(super) fn new(job: &Value, index: Option<i64>) -> Value {
    let mut pod = pods::from_template(&job["spec"]["template"], job);
    let mut finalizers: Vec<String> = object::finalizers(&pod).into_iter().map(str::to_owned).collect();
    if !finalizers.iter().any(|known| known == TRACKING) {
        finalizers.push(TRACKING.to_owned());
    }
    object::set(&mut pod, "finalizers", json!(finalizers));
    let Some(index) = index else { return pod };
    let name = format!("{}-{index}", object::name(job));
    object::set(&mut pod, "generateName", json!(format!("{name}-")));
    set_label(&mut pod, INDEX, &index.to_string());
    set_annotation(&mut pod, INDEX, &index.to_string());
    let spec = object::within(&mut pod, "spec");
    spec["hostname"] = json!(name);
    for list in ["initContainers", "containers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for container in containers.filter(|container| container.is_object()) {
            let mut variables = container["env"].as_array().cloned().unwrap_or_default();
            if variables.iter().all(|variable| variable["name"] != INDEX_VARIABLE) {
                let field = format!("metadata.labels['{INDEX}']");
                variables.push(json!({
                    "name": INDEX_VARIABLE, "valueFrom": { "fieldRef": { "fieldPath": field } },
                }));
                container["env"] = json!(variables);
            }
        }
    }
    pod
}

pub(super) fn index(pod: &Value) -> Option<i64> {
    pods::annotation(pod, INDEX).parse().ok()
}

/// Whether it is kept until the job has counted how it ended.
pub(super) fn is_tracked(pod: &Value) -> bool {
    object::finalizers(pod).contains(&TRACKING)
}

pub(super) fn untracked(pod: &Value) -> Value {
    let mut next = pod.clone();
    let others: Vec<&str> =
        object::finalizers(pod).into_iter().filter(|finalizer| *finalizer != TRACKING).collect();
    object::set(&mut next, "finalizers", if others.is_empty() { Value::Null } else { json!(others) });
    next
}

pub(super) fn has_succeeded(pod: &Value) -> bool {
    pods::phase(pod) == "Succeeded"
}

/// Whether nothing will come of it. One that is being stopped counts at once, unless the job waits for its end.
pub(super) fn has_failed(job: &Value, pod: &Value) -> bool {
    match pods::phase(pod) {
        "Failed" => true,
        "Succeeded" => false,
        _ => object::is_terminating(pod) && !waits_for_end(job),
    }
}

/// Whether pods are replaced only once they have ended.
pub(super) fn waits_for_end(job: &Value) -> bool {
    job["spec"]["podReplacementPolicy"] == "Failed"
}

/// When it ended, as well as can be told.
pub(super) fn ended(pod: &Value) -> Option<Timestamp> {
    let statuses = object::at(pod, "/status/containerStatuses").and_then(Value::as_array);
    let of_containers = statuses.filter(|statuses| !statuses.is_empty()).and_then(|statuses| {
        let ends = statuses.iter().map(|status| pods::time(&status["state"]["terminated"]["finishedAt"]));
        ends.collect::<Option<Vec<Timestamp>>>()?.into_iter().max()
    });
    let not_ready = || {
        let ready = object::condition(pod, "Ready").filter(|ready| ready["status"] == "False")?;
        pods::time(&ready["lastTransitionTime"])
    };
    let deleted = || {
        let at = pods::time(&pod["metadata"]["deletionTimestamp"])?;
        Some(pods::after_secs(at, -number(pod, "/metadata/deletionGracePeriodSeconds")))
    };
    of_containers.or_else(not_ready).or_else(deleted).or_else(|| pods::created(pod))
}

/// How often the containers of a pod that has not ended were restarted.
pub(super) fn restarts(pod: &Value) -> i64 {
    let lists = ["initContainerStatuses", "containerStatuses"];
    let statuses = lists.into_iter().filter_map(|list| pod["status"][list].as_array()).flatten();
    statuses.map(|status| number(status, "/restartCount")).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_know_their_index() {
        let job = json!({
            "metadata": {"name": "j"},
            "spec": {"template": {"spec": {
                "containers": [{"name": "a", "env": [{"name": "X"}]}, {"name": "b", "env": [{"name": INDEX_VARIABLE}]}],
            }}},
        });
        let plain = new(&job, None);
        assert_eq!((index(&plain), is_tracked(&plain)), (None, true));
        assert!(!is_tracked(&untracked(&plain)));
        let pod = new(&job, Some(3));
        assert_eq!(index(&pod), Some(3));
        assert_eq!(object::text(&pod, &["metadata", "generateName"]), "j-3-");
        assert_eq!(pod["spec"]["hostname"], "j-3");
        let counts: Vec<usize> = pod["spec"]["containers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|container| container["env"].as_array().unwrap().len())
            .collect();
        assert_eq!(counts, [2, 1]);
    }
}
