//! The cells of pods: what state the containers are in, in a word.

use jiff::Timestamp;

use super::age;
use super::cells::{View, text};
use crate::json::{Value, json};

pub(super) fn pod(view: View<'_>) -> Vec<Value> {
    let state = State::of(view);
    let ready = format!("{}/{}", state.ready, state.containers);
    let restarts = match state.last_restart {
        Some(at) if state.restarts != 0 => {
            format!("{} ({} ago)", state.restarts, age::short(view.now.duration_since(at)))
        }
        _ => state.restarts.to_string(),
    };
    let ip = match view.text("/status/podIPs/0/ip") {
        "" => view.text_or("/status/podIP", "<none>"),
        ip => ip,
    };
    vec![
        json!(view.name()),
        json!(ready),
        json!(state.word),
        json!(restarts),
        view.age(),
        json!(ip),
        json!(view.text_or("/spec/nodeName", "<none>")),
        json!(view.text_or("/status/nominatedNodeName", "<none>")),
        json!(readiness_gates(view)),
    ]
}

/// What a pod's containers do, taken together.
struct State {
    word: String,
    ready: usize,
    containers: usize,
    restarts: i64,
    last_restart: Option<Timestamp>,
}

impl State {
    fn of(view: View<'_>) -> Self {
        let phase = view.text("/status/phase");
        let reason = view.text("/status/reason");
        let mut state = Self {
            word: if reason.is_empty() { phase } else { reason }.to_owned(),
            ready: 0,
            containers: view.count("/spec/containers"),
            restarts: 0,
            last_restart: None,
        };
        let is_gated = |condition: &Value| {
            condition["type"] == "PodScheduled" && condition["reason"] == "SchedulingGated"
        };
        if view.list("/status/conditions").iter().any(is_gated) {
            "SchedulingGated".clone_into(&mut state.word);
        }
        let is_initializing = state.add_init_containers(view);
        if !is_initializing || condition(view, "Initialized") {
            state.add_containers(view);
        }
        let is_over = matches!(phase, "Succeeded" | "Failed");
        if view.is_terminating() && reason == "NodeLost" {
            "Unknown".clone_into(&mut state.word);
        } else if view.is_terminating() && !is_over {
            "Terminating".clone_into(&mut state.word);
        }
        state
    }

    /// Whether one of the init containers is still at work, which the word then tells.
    fn add_init_containers(&mut self, view: View<'_>) -> bool {
        let specs = view.list("/spec/initContainers");
        // Sidecars are init containers that stay.
        let is_sidecar = |name: &Value| {
            specs.iter().any(|spec| spec["name"] == *name && spec["restartPolicy"] == "Always")
        };
        self.containers += specs.iter().filter(|spec| spec["restartPolicy"] == "Always").count();

        // Once the pod is initialized, only restarts of sidecars count.
        let (mut of_sidecars, mut last_of_sidecars) = (0, None);
        for (index, status) in view.list("/status/initContainerStatuses").iter().enumerate() {
            let restarts = status["restartCount"].as_i64().unwrap_or_default();
            let last = last_end(status);
            self.restarts += restarts;
            self.last_restart = self.last_restart.max(last);
            let is_sidecar = is_sidecar(&status["name"]);
            if is_sidecar {
                of_sidecars += restarts;
                last_of_sidecars = last_of_sidecars.max(last);
            }
            let (terminated, waiting) = (&status["state"]["terminated"], &status["state"]["waiting"]);
            if !terminated.is_null() && exit_code(terminated) == 0 {
                continue;
            }
            if is_sidecar && status["started"] == true {
                self.ready += usize::from(status["ready"] == true);
                continue;
            }
            self.word = if !terminated.is_null() {
                format!("Init:{}", why_ended(terminated))
            } else if !matches!(text(&waiting["reason"]), "" | "PodInitializing") {
                format!("Init:{}", text(&waiting["reason"]))
            } else {
                format!("Init:{index}/{}", specs.len())
            };
            if condition(view, "Initialized") {
                (self.restarts, self.last_restart) = (of_sidecars, last_of_sidecars);
            }
            return true;
        }
        (self.restarts, self.last_restart) = (of_sidecars, last_of_sidecars);
        false
    }

    fn add_containers(&mut self, view: View<'_>) {
        let mut is_running = false;
        let mut error = None;
        // The first container has the last word.
        for status in view.list("/status/containerStatuses").iter().rev() {
            self.restarts += status["restartCount"].as_i64().unwrap_or_default();
            self.last_restart = self.last_restart.max(last_end(status));
            let (terminated, waiting) = (&status["state"]["terminated"], &status["state"]["waiting"]);
            if !text(&waiting["reason"]).is_empty() {
                text(&waiting["reason"]).clone_into(&mut self.word);
            } else if !terminated.is_null() {
                self.word = why_ended(terminated);
                if exit_code(terminated) != 0 {
                    error = Some(self.word.clone());
                }
            } else if status["ready"] == true && !status["state"]["running"].is_null() {
                is_running = true;
                self.ready += 1;
            }
        }
        if self.word == "Completed" {
            if is_running && condition(view, "Ready") {
                "Running".clone_into(&mut self.word);
            } else if let Some(error) = error {
                self.word = error;
            } else if is_running {
                "NotReady".clone_into(&mut self.word);
            }
        }
    }
}

/// When a container ended before its last start.
fn last_end(status: &Value) -> Option<Timestamp> {
    age::moment(text(&status["lastState"]["terminated"]["finishedAt"]))
}

fn exit_code(terminated: &Value) -> i64 {
    terminated["exitCode"].as_i64().unwrap_or_default()
}

fn why_ended(terminated: &Value) -> String {
    match (text(&terminated["reason"]), terminated["signal"].as_i64().unwrap_or_default()) {
        ("", 0) => format!("ExitCode:{}", exit_code(terminated)),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

/// Whether the first condition of a type is true.
fn condition(view: View<'_>, kind: &str) -> bool {
    let first = view.list("/status/conditions").iter().find(|condition| condition["type"] == kind);
    first.is_some_and(|condition| condition["status"] == "True")
}

fn readiness_gates(view: View<'_>) -> String {
    let gates = view.list("/spec/readinessGates");
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let open = gates.iter().filter(|gate| condition(view, text(&gate["conditionType"]))).count();
    format!("{open}/{}", gates.len())
}
