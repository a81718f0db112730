//! What a kubelet does with a pod: takes it in or not, starts it, lets it end, stops it.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use jiff::{SignedDuration, Timestamp};

use super::containers::{Container, Happening, Role, State};
use super::wishes::Wishes;
use crate::json::{Value, json};
use crate::life::Severity;
use crate::object;

/// What a pod meets on its node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Host<'a> {
    pub(super) ip: &'a str,
    pub(super) start_delay: SignedDuration,
    /// The restarts that are forgotten of its containers.
    pub(super) forgiven: Option<&'a Forgiven>,
    pub(super) now: Timestamp,
}

/// So many restarts of a container do not count any more, by its name.
pub(super) type Forgiven = BTreeMap<String, i64>;

/// What a kubelet does about a pod, for now.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Step {
    /// The pod as it has become, if it has.
    pub(super) pod: Option<Value>,
    pub(super) told: Vec<(Severity, &'static str, String)>,
    /// It has stopped, and is to be forgotten.
    pub(super) is_over: bool,
    pub(super) again: Option<Timestamp>,
    /// What is forgotten from now on, where there is any.
    pub(super) forgiven: Forgiven,
}

const LATE: &str = "DeadlineExceeded";
const LATE_MESSAGE: &str = "Pod was active on the node longer than the specified deadline";

/// As programs end that are told to and do not say how.
const STOPPED: i64 = 143;

/// Turns a pod away for good.
pub(super) fn refuse(pod: &Value, reason: &str, why: &str, now: Timestamp) -> Value {
    let mut next = pod.clone();
    next["status"]["phase"] = json!("Failed");
    next["status"]["reason"] = json!(reason);
    next["status"]["message"] = json!(format!("Pod was rejected: {why}"));
    next["status"]["startTime"] = object::time(now);
    next["status"]["observedGeneration"] = pod["metadata"]["generation"].clone();
    next
}

pub(super) fn is_taken_in(pod: &Value) -> bool {
    !object::text(pod, &["status", "startTime"]).is_empty()
}

pub(super) fn is_done(pod: &Value) -> bool {
    matches!(object::text(pod, &["status", "phase"]), "Succeeded" | "Failed")
}

/// Lets a pod that is taken in go on as far as it is time to.
pub(super) fn go_on(pod: &Value, host: Host<'_>, ip: impl FnOnce() -> Ipv4Addr) -> Step {
    let now = host.now;
    let mut step = Step::default();
    let mut containers = Container::all(pod);
    for container in &mut containers {
        container.forgiven = host.forgiven.and_then(|all| all.get(container.name())).copied().unwrap_or(0);
    }
    let taken_in = object::time_at(pod, &["status", "startTime"]);
    let begins = taken_in.unwrap_or(now).checked_add(host.start_delay).unwrap_or(Timestamp::MAX);
    let has_begun =
        taken_in.is_some() && begins <= now || containers.iter().any(|c| c.state != State::Waiting);
    let deadline = deadline(pod);
    let is_late = deadline.is_some_and(|deadline| deadline <= now);
    if is_late {
        for container in &mut containers {
            container.end(now, STOPPED);
        }
        step.told.push((Severity::Normal, LATE, LATE_MESSAGE.to_owned()));
    } else {
        step.again =
            if has_begun { advance(pod, &mut containers, now, &mut step.told) } else { Some(begins) };
        step.again = step.again.into_iter().chain(deadline).min();
    }
    let forgiven = containers.iter().filter(|container| container.forgiven > 0);
    step.forgiven = forgiven.map(|container| (container.name().to_owned(), container.forgiven)).collect();
    let mut next = pod.clone();
    if has_begun && object::text(pod, &["status", "podIP"]).is_empty() {
        let ip = if pod["spec"]["hostNetwork"] == true { host.ip.to_owned() } else { ip().to_string() };
        next["status"]["podIP"] = json!(ip);
        next["status"]["podIPs"] = json!([{ "ip": ip }]);
    }
    next["status"]["hostIP"] = json!(host.ip);
    next["status"]["hostIPs"] = json!([{ "ip": host.ip }]);
    if taken_in.is_none() {
        next["status"]["startTime"] = object::time(now);
    }
    let phase = if is_late { "Failed" } else { phase(pod, &containers) };
    if is_late {
        next["status"]["reason"] = json!(LATE);
        next["status"]["message"] = json!(LATE_MESSAGE);
    }
    write(&mut next, &containers, phase, has_begun, now);
    step.pod = Some(next).filter(|next| next != pod);
    step
}

/// When a pod that is taken in has run for longer than it may, and its containers have stopped.
fn deadline(pod: &Value) -> Option<Timestamp> {
    let secs = pod["spec"]["activeDeadlineSeconds"].as_i64()?;
    let start = object::time_at(pod, &["status", "startTime"])?;
    let grace = pod["spec"]["terminationGracePeriodSeconds"].as_i64().unwrap_or(0);
    let stops = Wishes::of(pod).stop_after.min(SignedDuration::from_secs(grace));
    start.checked_add(SignedDuration::from_secs(secs).saturating_add(stops)).ok()
}

/// Starts and ends containers: one after the other first, then all together. Says when there is more to do.
fn advance(
    pod: &Value,
    containers: &mut [Container<'_>],
    now: Timestamp,
    told: &mut Vec<(Severity, &'static str, String)>,
) -> Option<Timestamp> {
    let wishes = Wishes::of(pod);
    let policy = object::text(pod, &["spec", "restartPolicy"]);
    let mut again: Option<Timestamp> = None;
    for container in &mut *containers {
        if container.role == Role::Init && matches!(container.state, State::Ended(end) if end.code == 0) {
            continue;
        }
        let (happenings, next) = container.go_on(policy, &wishes, now);
        told.extend(happenings.into_iter().flat_map(|happening| tell(pod, container, happening)));
        again = again.into_iter().chain(next).min();
        let is_through = matches!(container.state, State::Ended(end) if end.code == 0);
        if container.role == Role::Init && !is_through {
            return again;
        }
    }
    // Nobody keeps those company any more.
    let is_over = containers.iter().all(|c| c.role != Role::Main || matches!(c.state, State::Ended(_)));
    if is_over {
        containers.iter_mut().filter(|c| c.role == Role::Sidecar).for_each(|c| c.end(now, 0));
        return None;
    }
    again
}

/// Stops a pod that is to go. `is_new` where nobody has been told of it yet.
pub(super) fn stop(pod: &Value, now: Timestamp, is_new: bool) -> Step {
    let mut containers = Container::all(pod);
    let mut step = Step::default();
    let grace = SignedDuration::from_secs(
        object::at(pod, "/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(0),
    );
    let running: Vec<&str> = containers.iter().filter(|c| c.is_running()).map(Container::name).collect();
    if is_new {
        let told =
            running.iter().map(|name| (Severity::Normal, "Killing", format!("Stopping container {name}")));
        step.told = told.collect();
    }
    // The time is up when the grace period ends, which is what the mark says.
    let asked = object::time_at(pod, &["metadata", "deletionTimestamp"])
        .and_then(|end| end.checked_sub(grace).ok())
        .unwrap_or(now);
    let due = asked.checked_add(Wishes::of(pod).stop_after.min(grace)).unwrap_or(now);
    if !running.is_empty() && due > now {
        step.again = Some(due);
        return step;
    }
    step.is_over = true;
    if is_done(pod) {
        return step;
    }
    for container in &mut containers {
        container.end(now, STOPPED);
    }
    let has_succeeded = containers
        .iter()
        .filter(|container| container.role == Role::Main)
        .all(|container| matches!(container.state, State::Ended(end) if end.code == 0));
    let mut next = pod.clone();
    write(&mut next, &containers, if has_succeeded { "Succeeded" } else { "Failed" }, true, now);
    step.pod = Some(next);
    step
}

fn phase(pod: &Value, containers: &[Container<'_>]) -> &'static str {
    let policy = object::text(pod, &["spec", "restartPolicy"]);
    let init_failed = |c: &Container<'_>| {
        c.role == Role::Init && policy == "Never" && matches!(c.state, State::Ended(end) if end.code != 0)
    };
    if containers.iter().any(init_failed) {
        return "Failed";
    }
    let main = || containers.iter().filter(|container| container.role == Role::Main);
    if main().any(|container| container.state == State::Waiting) {
        return "Pending";
    }
    if !main().all(|container| matches!(container.state, State::Ended(_))) {
        return "Running";
    }
    let failed = main().any(|container| matches!(container.state, State::Ended(end) if end.code != 0));
    if failed { "Failed" } else { "Succeeded" }
}

/// Writes what the kubelet knows into the status; what others have said there stays.
fn write(pod: &mut Value, containers: &[Container<'_>], phase: &str, has_begun: bool, now: Timestamp) {
    let has_init = containers.iter().any(|container| container.role != Role::Main);
    let statuses = |is_init: bool| -> Vec<Value> {
        let some = containers.iter().filter(|container| (container.role != Role::Main) == is_init);
        some.map(|container| container.status(pod, has_init)).collect()
    };
    let (init, main) = (statuses(true), statuses(false));
    let generation = pod["metadata"]["generation"].clone();
    let conditions = conditions(pod, containers, phase, has_begun);
    let status = &mut pod["status"];
    if has_init {
        status["initContainerStatuses"] = json!(init);
    }
    status["containerStatuses"] = json!(main);
    status["phase"] = json!(phase);
    status["observedGeneration"] = generation.clone();
    for (of, is_true, reason, message) in conditions {
        let mut condition = json!({
            "type": of, "status": if is_true { "True" } else { "False" }, "observedGeneration": generation,
            "lastProbeTime": null, "lastTransitionTime": object::time(now),
        });
        if !reason.is_empty() {
            condition["reason"] = json!(reason);
        }
        if !message.is_empty() {
            condition["message"] = json!(message);
        }
        object::set_condition(pod, condition);
    }
    // Those of others come first.
    let place = |condition: &Value| CONDITIONS.iter().position(|own| condition["type"] == *own);
    if let Some(conditions) = pod.pointer_mut("/status/conditions").and_then(Value::as_array_mut) {
        conditions.sort_by_key(place);
    }
}

/// The kubelet's own, in its order.
const CONDITIONS: [&str; 5] =
    ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];

type Said = (&'static str, bool, &'static str, String);

/// What the kubelet says of a pod, in its words.
fn conditions(pod: &Value, containers: &[Container<'_>], phase: &str, has_begun: bool) -> [Said; 5] {
    let is_done = matches!(phase, "Succeeded" | "Failed");
    let incomplete: Vec<&str> = containers
        .iter()
        .filter(|container| match container.role {
            Role::Init => !matches!(container.state, State::Ended(end) if end.code == 0),
            Role::Sidecar => !container.is_running(),
            Role::Main => false,
        })
        .map(Container::name)
        .collect();
    let has_started = containers.iter().any(|c| c.role == Role::Main && c.state != State::Waiting);
    let initialized: Said = if phase == "Succeeded" {
        ("Initialized", true, "PodCompleted", String::new())
    } else if has_started || incomplete.is_empty() {
        ("Initialized", true, "", String::new())
    } else {
        let message = format!("containers with incomplete status: [{}]", incomplete.join(" "));
        ("Initialized", false, "ContainersNotInitialized", message)
    };
    let unready: Vec<&str> = containers
        .iter()
        .filter(|container| container.role != Role::Init && !container.is_ready)
        .map(Container::name)
        .collect();
    let (ready, reason, message) = match phase {
        "Succeeded" => (false, "PodCompleted", String::new()),
        "Failed" => (false, "PodFailed", String::new()),
        _ if unready.is_empty() => (true, "", String::new()),
        _ => {
            let message = format!("containers with unready status: [{}]", unready.join(" "));
            (false, "ContainersNotReady", message)
        }
    };
    let gates = if ready { gates_closed(pod) } else { String::new() };
    let pod_ready: Said = if gates.is_empty() {
        ("Ready", ready, reason, message.clone())
    } else {
        ("Ready", false, "ReadinessGatesNotReady", gates)
    };
    [
        ("PodReadyToStartContainers", has_begun && !is_done, "", String::new()),
        initialized,
        pod_ready,
        ("ContainersReady", ready, reason, message),
        ("PodScheduled", true, "", String::new()),
    ]
}

/// What others have yet to say before the pod is ready.
fn gates_closed(pod: &Value) -> String {
    let gates = object::at(pod, "/spec/readinessGates").and_then(Value::as_array);
    let closed = gates.into_iter().flatten().filter_map(|gate| {
        let of = object::text(gate, &["conditionType"]);
        match object::condition_status(pod, of) {
            "True" => None,
            "" => Some(format!("corresponding condition of pod readiness gate {of:?} does not exist.")),
            status => Some(format!("the status of pod readiness gate {of:?} is not \"True\", but {status}")),
        }
    });
    closed.collect::<Vec<_>>().join(", ")
}

/// What the kubelet tells people.
fn tell(
    pod: &Value,
    container: &Container<'_>,
    happening: Happening,
) -> Vec<(Severity, &'static str, String)> {
    match happening {
        Happening::Started => {
            let image = object::text(container.spec, &["image"]);
            let pulled = format!(
                "Container image {image:?} already present on machine and can be accessed by the pod"
            );
            vec![
                (Severity::Normal, "Pulled", pulled),
                (Severity::Normal, "Created", "Container created".to_owned()),
                (Severity::Normal, "Started", "Container started".to_owned()),
            ]
        }
        Happening::BackingOff => {
            let (name, namespace, uid) = (object::name(pod), object::namespace(pod), object::uid(pod));
            let message = format!(
                "Back-off restarting failed container {} in pod {name}_{namespace}({uid})",
                container.name()
            );
            vec![(Severity::Warning, "BackOff", message)]
        }
    }
}
