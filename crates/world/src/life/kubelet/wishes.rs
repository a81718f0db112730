//! What pods ask of the world's kubelets, which run no programs: how long they run, and how they end.
//!
//! | annotation | meaning | otherwise |
//! |---|---|---|
//! | `berth.dev/run-for: 30s` | containers end by themselves after so long | 5 s, with `restartPolicy: Always` never |
//! | `berth.dev/exit-code: "1"` | with this code they end | 0 |
//! | `berth.dev/ready-after: 10s` | so long after their start they are ready; `never` is possible | what the readiness and startup probes ask to wait |
//! | `berth.dev/stop-after: 5s` | so long they take to stop, but not longer than their grace period | 1 s |
//!
//! What cannot be read counts as not said.

use berth_api::duration::GoDuration;
use jiff::SignedDuration;

use crate::json::Value;
use crate::object;

const RUN_FOR: SignedDuration = SignedDuration::from_secs(5);
const STOP_AFTER: SignedDuration = SignedDuration::from_secs(1);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wishes {
    /// `None` for as long as it is let.
    pub(super) run_for: Option<SignedDuration>,
    pub(super) exit_code: i64,
    /// `None` where the probes say it.
    pub(super) ready_after: Option<Readiness>,
    pub(super) stop_after: SignedDuration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Readiness {
    After(SignedDuration),
    Never,
}

impl Wishes {
    pub(super) fn of(pod: &Value) -> Self {
        let runs_on = object::text(pod, &["spec", "restartPolicy"]) == "Always";
        let said = |name| object::annotation(pod, name);
        let ready_after = match said("berth.dev/ready-after") {
            "never" => Some(Readiness::Never),
            text => duration(text).map(Readiness::After),
        };
        Self {
            run_for: duration(said("berth.dev/run-for")).or(if runs_on { None } else { Some(RUN_FOR) }),
            exit_code: said("berth.dev/exit-code")
                .parse()
                .ok()
                .filter(|code| (0..256).contains(code))
                .unwrap_or(0),
            ready_after,
            stop_after: duration(said("berth.dev/stop-after")).unwrap_or(STOP_AFTER),
        }
    }

    /// When a container that has just started is ready.
    pub(super) fn readiness_of(&self, container: &Value) -> Readiness {
        self.ready_after.unwrap_or_else(|| {
            let wait = |probe: &str| {
                let secs =
                    object::at(container, &format!("/{probe}/initialDelaySeconds")).and_then(Value::as_i64);
                SignedDuration::from_secs(secs.unwrap_or(0))
            };
            Readiness::After(wait("readinessProbe").max(wait("startupProbe")))
        })
    }
}

fn duration(text: &str) -> Option<SignedDuration> {
    SignedDuration::try_from(text.parse::<GoDuration>().ok()?.as_std()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    #[test]
    fn what_is_asked_is_read() {
        let secs = SignedDuration::from_secs;
        let rows = [
            (json!({}), "Always", (None, 0, None, secs(1))),
            (json!({}), "Never", (Some(secs(5)), 0, None, secs(1))),
            (
                json!({"run-for": "1m", "exit-code": "3", "stop-after": "2s", "ready-after": "7s"}),
                "OnFailure",
                (Some(secs(60)), 3, Some(Readiness::After(secs(7))), secs(2)),
            ),
            (
                json!({"run-for": "20s", "ready-after": "never"}),
                "Always",
                (Some(secs(20)), 0, Some(Readiness::Never), secs(1)),
            ),
            (
                json!({"run-for": "soon", "exit-code": "-1", "stop-after": "5"}),
                "Always",
                (None, 0, None, secs(1)),
            ),
        ];
        for (said, policy, expected) in rows {
            let annotations: crate::json::Map = said
                .as_object()
                .unwrap()
                .iter()
                .map(|(name, value)| (format!("berth.dev/{name}"), value.clone()))
                .collect();
            let pod = json!({"metadata": {"annotations": annotations}, "spec": {"restartPolicy": policy}});
            let Wishes { run_for, exit_code, ready_after, stop_after } = Wishes::of(&pod);
            assert_eq!((run_for, exit_code, ready_after, stop_after), expected, "{said} {policy}");
        }
    }
}
