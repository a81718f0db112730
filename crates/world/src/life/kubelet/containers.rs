//! The containers of a pod as they run: read from its status, written into it.

use jiff::{SignedDuration, Timestamp};

use super::wishes::{Readiness, Wishes};
use crate::clock::lot_of;
use crate::json::{Value, json};
use crate::object;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Runs to its end before the next starts.
    Init,
    /// Starts among the init containers and goes on beside the others.
    Sidecar,
    Main,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum State {
    Waiting,
    /// It has ended and is started again, but not yet.
    BackingOff,
    Running(Timestamp),
    Ended(End),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) since: Timestamp,
    pub(super) at: Timestamp,
    pub(super) code: i64,
}

#[derive(Clone, Debug)]
pub(super) struct Container<'a> {
    pub(super) spec: &'a Value,
    pub(super) role: Role,
    pub(super) state: State,
    pub(super) restarts: i64,
    /// So many of them are forgotten, because it ran for long after them.
    pub(super) forgiven: i64,
    /// How it ended before it was started again.
    pub(super) last: Option<End>,
    pub(super) is_ready: bool,
}

/// How long one that is needed once runs: nothing depends on it.
const INIT_RUNS_FOR: SignedDuration = SignedDuration::from_secs(1);

/// How long a container that ends again and again waits before it is started again; twice as long each time.
const BACK_OFF_FIRST: SignedDuration = SignedDuration::from_secs(10);
const BACK_OFF_MOST: SignedDuration = SignedDuration::from_mins(5);
/// Who has run for longer begins anew when it ends.
const FORGIVEN_AFTER: SignedDuration = SignedDuration::from_mins(10);

/// What happens to a container, worth telling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Happening {
    Started,
    BackingOff,
}

impl<'a> Container<'a> {
    /// All of a pod's, in the order in which they start.
    pub(super) fn all(pod: &'a Value) -> Vec<Self> {
        let of = |list: &str, statuses: &str| -> Vec<(&'a Value, Option<&'a Value>)> {
            let specs = object::at(pod, list).and_then(Value::as_array);
            let known = object::at(pod, statuses).and_then(Value::as_array);
            let status_of = |spec: &Value| known?.iter().find(|status| status["name"] == spec["name"]);
            specs.into_iter().flatten().map(|spec| (spec, status_of(spec))).collect()
        };
        let init = of("/spec/initContainers", "/status/initContainerStatuses").into_iter();
        let main = of("/spec/containers", "/status/containerStatuses").into_iter();
        let init = init.map(|(spec, status)| {
            let role = if spec["restartPolicy"] == "Always" { Role::Sidecar } else { Role::Init };
            Self::read(spec, role, status)
        });
        init.chain(main.map(|(spec, status)| Self::read(spec, Role::Main, status))).collect()
    }

    fn read(spec: &'a Value, role: Role, status: Option<&Value>) -> Self {
        let Some(status) = status else {
            let state = State::Waiting;
            return Self { spec, role, state, restarts: 0, forgiven: 0, last: None, is_ready: false };
        };
        let end = |path: &str| {
            let ended = object::at(status, path)?;
            let at = object::time_at(ended, &["finishedAt"])?;
            let since = object::time_at(ended, &["startedAt"]).unwrap_or(at);
            Some(End { since, at, code: ended["exitCode"].as_i64().unwrap_or(0) })
        };
        let state = if let Some(since) = object::time_at(status, &["state", "running", "startedAt"]) {
            State::Running(since)
        } else if let Some(end) = end("/state/terminated") {
            State::Ended(end)
        } else if object::text(status, &["state", "waiting", "reason"]) == "CrashLoopBackOff" {
            State::BackingOff
        } else {
            State::Waiting
        };
        Self {
            spec,
            role,
            state,
            restarts: status["restartCount"].as_i64().unwrap_or(0),
            forgiven: 0,
            last: end("/lastState/terminated"),
            is_ready: status["ready"] == true,
        }
    }

    pub(super) fn name(&self) -> &'a str {
        object::text(self.spec, &["name"])
    }

    pub(super) fn is_running(&self) -> bool {
        matches!(self.state, State::Running(_))
    }

    fn start(&mut self, now: Timestamp) {
        self.state = State::Running(now);
        self.is_ready = false;
    }

    pub(super) fn end(&mut self, now: Timestamp, code: i64) {
        if let State::Running(since) = self.state {
            self.state = State::Ended(End { since, at: now, code });
            self.is_ready = self.role == Role::Init && code == 0;
        }
    }

    /// Goes on as far as it is time to. Says what happened, and when something happens next.
    pub(super) fn go_on(
        &mut self,
        policy: &str,
        wishes: &Wishes,
        now: Timestamp,
    ) -> (Vec<Happening>, Option<Timestamp>) {
        let mut happenings = Vec::new();
        if self.state == State::Waiting {
            self.start(now);
            happenings.push(Happening::Started);
        }
        if let (State::Running(since), Some(run_for)) = (&self.state, self.runs_for(wishes))
            && after(*since, run_for) <= now
        {
            self.end(now, if self.role == Role::Main { wishes.exit_code } else { 0 });
        }
        if let State::Ended(end) = self.state
            && self.restarts_after(policy, end)
        {
            if end.at.duration_since(end.since) > FORGIVEN_AFTER {
                self.forgiven = self.restarts;
            }
            self.last = Some(end);
            self.state = State::BackingOff;
            if after(end.at, self.back_off()) > now {
                happenings.push(Happening::BackingOff);
            }
        }
        if let (State::BackingOff, Some(end)) = (&self.state, self.last) {
            let due = after(end.at, self.back_off());
            if due > now {
                return (happenings, Some(due));
            }
            self.restarts += 1;
            self.start(now);
            happenings.push(Happening::Started);
        }
        let State::Running(since) = self.state else { return (happenings, None) };
        let ready_at = match (self.role, wishes.readiness_of(self.spec)) {
            (Role::Init, _) | (_, Readiness::Never) => None,
            (_, Readiness::After(wait)) => Some(after(since, wait)),
        };
        self.is_ready = ready_at.is_some_and(|at| at <= now);
        let ends_at = self.runs_for(wishes).map(|run_for| after(since, run_for));
        (happenings, ready_at.filter(|at| *at > now).into_iter().chain(ends_at).min())
    }

    fn runs_for(&self, wishes: &Wishes) -> Option<SignedDuration> {
        match self.role {
            Role::Init => Some(INIT_RUNS_FOR),
            Role::Sidecar => None,
            Role::Main => wishes.run_for,
        }
    }

    fn restarts_after(&self, policy: &str, end: End) -> bool {
        match (self.role, policy) {
            (Role::Sidecar, _) | (Role::Main, "Always") => true,
            (_, "Never") => false,
            _ => end.code != 0,
        }
    }

    /// The first time it is started again at once.
    pub(super) fn back_off(&self) -> SignedDuration {
        let Ok(exponent) = u32::try_from(self.restarts - self.forgiven - 1) else {
            return SignedDuration::ZERO;
        };
        BACK_OFF_FIRST.saturating_mul(1 << exponent.min(10)).min(BACK_OFF_MOST)
    }

    /// Its status, as kubelets write it.
    pub(super) fn status(&self, pod: &Value, pod_has_init: bool) -> Value {
        let uid = object::uid(pod);
        let image = object::text(self.spec, &["image"]);
        let id =
            |restarts: i64| format!("containerd://{}", digest(&format!("{uid}/{}/{restarts}", self.name())));
        let ended = |end: &End, restarts: i64| {
            json!({ "terminated": {
                "containerID": id(restarts), "exitCode": end.code,
                "reason": if end.code == 0 { "Completed" } else { "Error" },
                "startedAt": object::time(end.since), "finishedAt": object::time(end.at),
            } })
        };
        let state = match &self.state {
            State::Waiting => {
                let reason = if pod_has_init { "PodInitializing" } else { "ContainerCreating" };
                json!({ "waiting": { "reason": reason } })
            }
            State::BackingOff => {
                let message = format!(
                    "back-off {} restarting failed container={} pod={}_{}({uid})",
                    in_go(self.back_off()),
                    self.name(),
                    object::name(pod),
                    object::namespace(pod),
                );
                json!({ "waiting": { "reason": "CrashLoopBackOff", "message": message } })
            }
            State::Running(since) => json!({ "running": { "startedAt": object::time(*since) } }),
            State::Ended(end) => ended(end, self.restarts),
        };
        let restarts_before = if self.state == State::BackingOff { self.restarts } else { self.restarts - 1 };
        let mut status = json!({
            "name": self.name(), "image": image, "imageID": "", "ready": self.is_ready,
            "restartCount": self.restarts, "started": self.is_running() && self.role != Role::Init,
            "state": state,
            "lastState": self.last.as_ref().map_or_else(|| json!({}), |end| ended(end, restarts_before)),
        });
        if self.state != State::Waiting {
            let now_or_last = if self.state == State::BackingOff { restarts_before } else { self.restarts };
            status["containerID"] = json!(id(now_or_last));
            status["imageID"] = json!(format!("{image}@sha256:{}", digest(image)));
        }
        status
    }
}

fn after(since: Timestamp, wait: SignedDuration) -> Timestamp {
    since.checked_add(wait).unwrap_or(Timestamp::MAX)
}

/// Something that looks like a digest and is the same for the same text.
fn digest(text: &str) -> String {
    let parts = [0, 1, 2, 3].map(|part| format!("{:016x}", lot_of(&format!("{part}{text}"))));
    parts.concat()
}

/// Whole seconds as Go writes durations: `10s`, `1m20s`, `5m0s`.
fn in_go(duration: SignedDuration) -> String {
    match (duration.as_secs() / 60, duration.as_secs() % 60) {
        (0, secs) => format!("{secs}s"),
        (mins, secs) => format!("{mins}m{secs}s"),
    }
}
