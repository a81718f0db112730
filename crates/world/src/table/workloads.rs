//! The cells of what runs pods, and of what bounds and scales it.

use super::age;
use super::cells::{View, int_or_text, pairs, quantity, selector, text, texts};
use crate::json::{Value, json};
use crate::selector::LabelSelector;

pub(super) fn pod_template(view: View<'_>) -> Vec<Value> {
    let [names, images] = containers(view, "/template/spec/containers");
    vec![json!(view.name()), names, images, json!(pairs(view.at("/template/metadata/labels")))]
}

pub(super) fn replication_controller(view: View<'_>) -> Vec<Value> {
    replicas(view, &pairs(view.at("/spec/selector")))
}

pub(super) fn replica_set(view: View<'_>) -> Vec<Value> {
    replicas(view, &selector(view.at("/spec/selector")))
}

fn replicas(view: View<'_>, selector: &str) -> Vec<Value> {
    let [names, images] = containers(view, "/spec/template/spec/containers");
    vec![
        json!(view.name()),
        json!(view.int("/spec/replicas")),
        json!(view.int("/status/replicas")),
        json!(view.int("/status/readyReplicas")),
        view.age(),
        names,
        images,
        json!(selector),
    ]
}

pub(super) fn daemon_set(view: View<'_>) -> Vec<Value> {
    let [names, images] = containers(view, "/spec/template/spec/containers");
    vec![
        json!(view.name()),
        json!(view.int("/status/desiredNumberScheduled")),
        json!(view.int("/status/currentNumberScheduled")),
        json!(view.int("/status/numberReady")),
        json!(view.int("/status/updatedNumberScheduled")),
        json!(view.int("/status/numberAvailable")),
        json!(pairs(view.at("/spec/template/spec/nodeSelector"))),
        view.age(),
        names,
        images,
        json!(selector(view.at("/spec/selector"))),
    ]
}

pub(super) fn stateful_set(view: View<'_>) -> Vec<Value> {
    let [names, images] = containers(view, "/spec/template/spec/containers");
    vec![json!(view.name()), json!(ready_of_desired(view)), view.age(), names, images]
}

pub(super) fn deployment(view: View<'_>) -> Vec<Value> {
    let [names, images] = containers(view, "/spec/template/spec/containers");
    // Unlike other kinds, deployments show an empty selector as nothing.
    let selector = LabelSelector::from_value(view.at("/spec/selector"));
    let selector = selector.map_or_else(|_| "<invalid>".to_owned(), |selector| selector.to_string());
    vec![
        json!(view.name()),
        json!(ready_of_desired(view)),
        json!(view.int("/status/updatedReplicas")),
        json!(view.int("/status/availableReplicas")),
        view.age(),
        names,
        images,
        json!(selector),
    ]
}

pub(super) fn controller_revision(view: View<'_>) -> Vec<Value> {
    let owners = view.list("/metadata/ownerReferences");
    let controller = match owners.iter().find(|owner| owner["controller"] == true) {
        Some(owner) => {
            let (kind, name) = (text(&owner["kind"]).to_lowercase(), text(&owner["name"]));
            match text(&owner["apiVersion"]).split_once('/') {
                Some((group, _)) => format!("{kind}.{group}/{name}"),
                None => format!("{kind}/{name}"),
            }
        }
        None => "<none>".to_owned(),
    };
    vec![json!(view.name()), json!(controller), json!(view.int("/revision")), view.age()]
}

pub(super) fn job(view: View<'_>) -> Vec<Value> {
    let succeeded = view.int("/status/succeeded");
    let completions = match (view.at("/spec/completions").as_i64(), view.int("/spec/parallelism")) {
        (Some(completions), _) => format!("{succeeded}/{completions}"),
        (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    };
    let end = age::moment(view.text("/status/completionTime")).unwrap_or(view.now);
    let duration =
        age::moment(view.text("/status/startTime")).map(|start| age::short(end.duration_since(start)));
    let [names, images] = containers(view, "/spec/template/spec/containers");
    vec![
        json!(view.name()),
        json!(job_status(view)),
        json!(completions),
        json!(duration.unwrap_or_default()),
        view.age(),
        names,
        images,
        json!(selector(view.at("/spec/selector"))),
    ]
}

fn job_status(view: View<'_>) -> &'static str {
    let is = |kind: &str| {
        let first = view.list("/status/conditions").iter().find(|condition| condition["type"] == kind);
        first.is_some_and(|condition| condition["status"] == "True")
    };
    if is("Complete") {
        "Complete"
    } else if is("Failed") {
        "Failed"
    } else if view.is_terminating() {
        "Terminating"
    } else if is("Suspended") {
        "Suspended"
    } else if is("FailureTarget") {
        "FailureTarget"
    } else if is("SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    }
}

pub(super) fn cron_job(view: View<'_>) -> Vec<Value> {
    let suspended = match view.at("/spec/suspend").as_bool() {
        Some(true) => "True",
        Some(false) => "False",
        None => "<unset>",
    };
    let last = match view.text("/status/lastScheduleTime") {
        "" => "<none>".to_owned(),
        last => view.since(last),
    };
    let [names, images] = containers(view, "/spec/jobTemplate/spec/template/spec/containers");
    vec![
        json!(view.name()),
        json!(view.text("/spec/schedule")),
        json!(view.at("/spec/timeZone").as_str().unwrap_or("<none>")),
        json!(suspended),
        json!(view.count("/status/active")),
        json!(last),
        view.age(),
        names,
        images,
        json!(selector(view.at("/spec/jobTemplate/spec/selector"))),
    ]
}

pub(super) fn horizontal_pod_autoscaler(view: View<'_>) -> Vec<Value> {
    let target =
        format!("{}/{}", view.text("/spec/scaleTargetRef/kind"), view.text("/spec/scaleTargetRef/name"));
    vec![
        json!(view.name()),
        json!(target),
        json!(metrics(view.list("/spec/metrics"), view.list("/status/currentMetrics"))),
        json!(int_or_text(view.at("/spec/minReplicas"), "<unset>")),
        json!(view.int("/spec/maxReplicas")),
        json!(view.int("/status/currentReplicas")),
        view.age(),
    ]
}

/// The first two metrics as `current/target`.
fn metrics(specs: &[Value], statuses: &[Value]) -> String {
    if specs.is_empty() {
        return "<none>".to_owned();
    }
    let shown: Vec<String> = specs
        .iter()
        .enumerate()
        .take(2)
        .map(|(index, spec)| metric(spec, statuses.get(index).unwrap_or(&Value::Null)))
        .collect();
    let shown = shown.join(", ");
    match specs.len() {
        0..=2 => shown,
        count => format!("{shown} + {} more...", count - 2),
    }
}

fn metric(spec: &Value, status: &Value) -> String {
    let source = match text(&spec["type"]) {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let (spec, status) = (&spec[source], &status[source]);
    let (target, current) = (&spec["target"], &status["current"]);
    let amount = |value: &Value| if status.is_null() { "<unknown>".to_owned() } else { quantity(value) };
    let of_resource =
        |current: String, target: String| format!("{}: {current}/{target}", text(&spec["name"]));
    let average = &target["averageValue"];
    match source {
        "pods" => format!("{}/{}", amount(&current["averageValue"]), quantity(average)),
        "external" | "object" if average.is_null() => {
            format!("{}/{}", amount(&current["value"]), quantity(&target["value"]))
        }
        "external" | "object" => {
            format!("{}/{} (avg)", int_or_text(&current["averageValue"], "<unknown>"), quantity(average))
        }
        _ if average.is_null() => {
            let percent = |value: &Value, otherwise: &str| {
                value.as_i64().map_or_else(|| otherwise.to_owned(), |percent| format!("{percent}%"))
            };
            let current = percent(&current["averageUtilization"], "<unknown>");
            of_resource(current, percent(&target["averageUtilization"], "<auto>"))
        }
        _ => of_resource(amount(&current["averageValue"]), quantity(average)),
    }
}

pub(super) fn pod_disruption_budget(view: View<'_>) -> Vec<Value> {
    vec![
        json!(view.name()),
        json!(int_or_text(view.at("/spec/minAvailable"), "N/A")),
        json!(int_or_text(view.at("/spec/maxUnavailable"), "N/A")),
        json!(view.int("/status/disruptionsAllowed")),
        view.age(),
    ]
}

fn ready_of_desired(view: View<'_>) -> String {
    format!("{}/{}", view.int("/status/readyReplicas"), view.int("/spec/replicas"))
}

/// The names and the images of containers.
fn containers(view: View<'_>, pointer: &str) -> [Value; 2] {
    ["name", "image"].map(|field| json!(texts(view.list(pointer), field)))
}
