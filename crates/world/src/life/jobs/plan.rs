//! What is to be done about a job.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::failures::{Outcome, judge};
use super::pod;
use super::progress::{Progress, counts_as_failed};
use crate::json::{List, Value, json};
use crate::life::Severity;
use crate::life::owned::{BURST, set_count};
use crate::life::pods::{self, after_secs, number};
use crate::object;

/// How long a job waits after a pod that failed; twice as long after each more, up to the most.
const BACKOFF_SECS: i64 = 10;
const BACKOFF_SECS_MAX: i64 = 600;

#[derive(Debug, Default)]
pub(super) struct Plan {
    /// New pods, with their indexes if the job counts those.
    pub(super) create: Vec<Option<i64>>,
    /// Pods to be stopped, which count as failed.
    pub(super) delete: Vec<Arc<Value>>,
    /// Pods to be stopped that count as nothing.
    pub(super) drop: Vec<Arc<Value>>,
    /// Pods whose end is on record once the status is written.
    pub(super) counted: Vec<Arc<Value>>,
    pub(super) status: Value,
    pub(super) told: Vec<(Severity, &'static str, String)>,
    pub(super) again: Option<Timestamp>,
}

/// How a job ends.
#[derive(Clone, Debug, PartialEq, Eq)]
enum End {
    Complete { reason: String, message: String },
    Failed { reason: String, message: String },
}

pub(super) fn plan(job: &Value, pods: &[Arc<Value>], now: Timestamp) -> Plan {
    let tracked = || pods.iter().filter(|pod| pod::is_tracked(pod));
    if pods::has_condition(job, "Complete") || pods::has_condition(job, "Failed") {
        let counted = tracked().cloned().collect();
        return Plan { counted, status: job["status"].clone(), ..Plan::default() };
    }
    let at = object::time(now);
    let progress = Progress::of(job, pods);
    let active: Vec<Arc<Value>> = pods.iter().filter(|pod| pods::is_active(pod)).cloned().collect();
    let stopping = pods.iter().filter(|pod| pods::is_stopping(pod)).count();
    let mut plan = Plan { status: job["status"].clone(), ..Plan::default() };
    if !plan.status.is_object() {
        plan.status = json!({});
    }
    let is_suspended = job["spec"]["suspend"] == true;
    if !is_suspended && job["status"]["startTime"].is_null() {
        plan.status["startTime"] = at.clone();
    }
    let mut end = end(job, pods, &progress, &plan.status, now);
    if end.is_none() && !object::is_terminating(job) {
        manage(job, pods, &active, stopping, &progress, now, &mut plan);
        tell_suspension(job, &at, &mut plan);
        if is_complete(job, &progress, active.len()) {
            end = Some(End::Complete {
                reason: "CompletionsReached".to_owned(),
                message: "Reached expected number of succeeded pods".to_owned(),
            });
            plan.create.clear();
        }
    }
    let running = active.len() + plan.create.len() - plan.drop.len();
    let is_ready = |pod: &&Arc<Value>| pods::is_ready(pod) && !plan.drop.contains(pod);
    let ready = active.iter().filter(is_ready).count();
    plan.counted = tracked().filter(|pod| pods::is_done(pod) || pod::has_failed(job, pod)).cloned().collect();
    progress.write(&mut plan.status);
    set_count(&mut plan.status, "active", running);
    plan.status["ready"] = json!(ready);
    plan.status["terminating"] = json!(stopping);
    if let Some(end) = end {
        plan.drop.clear();
        plan.delete.clone_from(&active);
        let is_over = active.is_empty() && stopping == 0 && plan.counted.is_empty() && progress.is_settled();
        finish(&end, is_over, &at, &mut plan);
    }
    plan
}

fn end(job: &Value, pods: &[Arc<Value>], progress: &Progress, status: &Value, now: Timestamp) -> Option<End> {
    let words = |condition: &Value| {
        (object::text(condition, &["reason"]).to_owned(), object::text(condition, &["message"]).to_owned())
    };
    if let Some(target) = object::condition(job, "FailureTarget").filter(|target| target["status"] == "True")
    {
        let (reason, message) = words(target);
        return Some(End::Failed { reason, message });
    }
    if let Some(met) = object::condition(job, "SuccessCriteriaMet").filter(|met| met["status"] == "True") {
        let (reason, message) = words(met);
        return Some(End::Complete { reason, message });
    }
    let failed = |reason: &str, message: &str| {
        Some(End::Failed { reason: reason.to_owned(), message: message.to_owned() })
    };
    let mut outcomes = pods.iter().filter(|pod| pod::has_failed(job, pod)).map(|pod| judge(job, pod));
    if let Some(Outcome::EndsJob(why)) = outcomes.find(|outcome| matches!(outcome, Outcome::EndsJob(_))) {
        return failed("PodFailurePolicy", &why);
    }
    let limit = job["spec"]["backoffLimit"].as_i64().unwrap_or(6);
    if progress.failed() > limit || restarts_exceed(job, pods, limit) {
        return failed("BackoffLimitExceeded", "Job has reached the specified backoff limit");
    }
    if deadline(job, status).is_some_and(|deadline| deadline <= now) {
        return failed("DeadlineExceeded", "Job was active longer than specified deadline");
    }
    None
}

/// Pods that are restarted in their place fail by being restarted.
fn restarts_exceed(job: &Value, pods: &[Arc<Value>], limit: i64) -> bool {
    if job["spec"]["template"]["spec"]["restartPolicy"] != "OnFailure" {
        return false;
    }
    let running = pods.iter().filter(|pod| matches!(pods::phase(pod), "Running" | "Pending"));
    let restarts: i64 = running.map(|pod| pod::restarts(pod)).sum();
    if limit == 0 { restarts > 0 } else { restarts >= limit }
}

fn deadline(job: &Value, status: &Value) -> Option<Timestamp> {
    let secs = job["spec"]["activeDeadlineSeconds"].as_i64()?;
    if job["spec"]["suspend"] == true {
        return None;
    }
    pods::time(&status["startTime"]).map(|start| after_secs(start, secs))
}

fn is_complete(job: &Value, progress: &Progress, active: usize) -> bool {
    match job["spec"]["completions"].as_i64() {
        Some(completions) => progress.succeeded() >= completions,
        // As many as it takes: once one has succeeded, the work is done when the others have ended.
        None => progress.succeeded() > 0 && active == 0,
    }
}

/// Starts and stops pods, so that as many run as should.
fn manage(
    job: &Value,
    pods: &[Arc<Value>],
    active: &[Arc<Value>],
    stopping: usize,
    progress: &Progress,
    now: Timestamp,
    plan: &mut Plan,
) {
    if job["spec"]["suspend"] == true {
        plan.drop = active.to_vec();
        return;
    }
    plan.again = deadline(job, &plan.status);
    let parallelism = number(job, "/spec/parallelism");
    let wanted = match job["spec"]["completions"].as_i64() {
        Some(completions) => parallelism.min(completions - progress.succeeded()),
        None if progress.succeeded() > 0 => parallelism.min(i64::try_from(active.len()).unwrap_or(i64::MAX)),
        None => parallelism,
    };
    let wanted = usize::try_from(wanted).unwrap_or(0);
    plan.drop = surplus(job, active, wanted, progress, now);
    let kept: Vec<&Arc<Value>> = active.iter().filter(|pod| !plan.drop.contains(pod)).collect();
    let waited_for = if pod::waits_for_end(job) { stopping } else { 0 };
    let missing = wanted.saturating_sub(kept.len() + waited_for).min(BURST);
    if missing == 0 {
        return;
    }
    if let Some(at) = backoff_until(job, pods).filter(|at| *at > now) {
        plan.again = Some(plan.again.map_or(at, |again| again.min(at)));
        return;
    }
    plan.create = match progress.indexes() {
        None => vec![None; missing],
        Some(done) => {
            let stays = |pod: &&Arc<Value>| pod::waits_for_end(job) && pods::is_stopping(pod);
            let held = kept.into_iter().chain(pods.iter().filter(stays));
            let taken: BTreeSet<i64> = held.filter_map(|pod| pod::index(pod)).collect();
            let all = 0..number(job, "/spec/completions");
            let free = all.filter(|index| !done.contains(index) && !taken.contains(index));
            free.take(missing).map(Some).collect()
        }
    };
}

/// The active pods that are not wanted: those of no use, and those that are too many.
fn surplus(
    job: &Value,
    active: &[Arc<Value>],
    wanted: usize,
    progress: &Progress,
    now: Timestamp,
) -> Vec<Arc<Value>> {
    let mut ranked = active.to_vec();
    pods::sort_for_deletion(&mut ranked, &BTreeMap::new(), now);
    let (mut surplus, mut useful): (Vec<Arc<Value>>, Vec<Arc<Value>>) = (Vec::new(), ranked);
    if progress.indexes().is_some() {
        let completions = number(job, "/spec/completions");
        let mut seen = BTreeSet::new();
        // Of two with the same index, the one that would be missed more stays.
        let mut kept = Vec::new();
        for pod in useful.into_iter().rev() {
            match pod::index(&pod) {
                Some(index) if index < completions && seen.insert(index) => kept.push(pod),
                _ => surplus.push(pod),
            }
        }
        kept.reverse();
        useful = kept;
    }
    let excess = useful.len().saturating_sub(wanted);
    surplus.extend(useful.into_iter().take(excess));
    surplus
}

/// When the next pod may be started, after those that failed since the last one that succeeded.
fn backoff_until(job: &Value, pods: &[Arc<Value>]) -> Option<Timestamp> {
    let mut ended: Vec<(Timestamp, bool)> = pods
        .iter()
        .filter(|pod| pod::has_succeeded(pod) || counts_as_failed(job, pod))
        .filter_map(|pod| Some((pod::ended(pod)?, pod::has_succeeded(pod))))
        .collect();
    ended.sort_unstable();
    let failures = ended.iter().rev().take_while(|(_, succeeded)| !succeeded).count();
    let (last, _) = ended.last()?;
    let doublings = u32::try_from(failures.checked_sub(1)?).unwrap_or(u32::MAX).min(20);
    Some(after_secs(*last, (BACKOFF_SECS << doublings).min(BACKOFF_SECS_MAX)))
}

/// Says that the job is suspended, or no longer.
fn tell_suspension(job: &Value, at: &Value, plan: &mut Plan) {
    let is_said = pods::has_condition(job, "Suspended");
    match (job["spec"]["suspend"] == true, is_said) {
        (true, false) => {
            set_condition(&mut plan.status, "Suspended", "True", "JobSuspended", "Job suspended", at);
            plan.told.push((Severity::Normal, "Suspended", "Job suspended".to_owned()));
        }
        (false, true) => {
            set_condition(&mut plan.status, "Suspended", "False", "JobResumed", "Job resumed", at);
            plan.status["startTime"] = at.clone();
            plan.told.push((Severity::Normal, "Resumed", "Job resumed".to_owned()));
        }
        _ => {}
    }
}

/// Writes down how the job ends: what has been decided at once, that it is so once all pods have ended.
fn finish(end: &End, is_over: bool, at: &Value, plan: &mut Plan) {
    let (decided, over, reason, message) = match end {
        End::Complete { reason, message } => ("SuccessCriteriaMet", "Complete", reason, message),
        End::Failed { reason, message } => ("FailureTarget", "Failed", reason, message),
    };
    set_condition(&mut plan.status, decided, "True", reason, message, at);
    set_count(&mut plan.status, "active", 0);
    plan.status["ready"] = json!(0);
    plan.again = None;
    if !is_over {
        return;
    }
    set_condition(&mut plan.status, over, "True", reason, message, at);
    match end {
        End::Complete { .. } => {
            plan.status["completionTime"] = at.clone();
            plan.told.push((Severity::Normal, "Completed", "Job completed".to_owned()));
        }
        End::Failed { reason, message } => {
            let reason = match reason.as_str() {
                "DeadlineExceeded" => "DeadlineExceeded",
                "PodFailurePolicy" => "PodFailurePolicy",
                _ => "BackoffLimitExceeded",
            };
            plan.told.push((Severity::Warning, reason, message.clone()));
        }
    }
}

fn set_condition(status: &mut Value, kind: &str, value: &str, reason: &str, message: &str, at: &Value) {
    let mut list = match status["conditions"].take() {
        Value::Array(list) => list,
        _ => List::default(),
    };
    let condition = json!({
        "type": kind, "status": value, "reason": reason, "message": message,
        "lastProbeTime": at, "lastTransitionTime": at,
    });
    match list.iter_mut().find(|known| known["type"] == kind) {
        Some(known) if known["status"] == value => {}
        Some(known) => *known = condition,
        None => list.push(condition),
    }
    status["conditions"] = json!(list);
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-01-01T01:00:00Z";

    /// A pod in letters: its index, and `r`unning, `s`ucceeded, `f`ailed, `t`erminating, or `c`ounted failed.
    fn pod(number: usize, word: &str) -> Arc<Value> {
        let (index, state) = word.split_at(1);
        let phase = match state {
            "s" => "Succeeded",
            "f" | "c" => "Failed",
            _ => "Running",
        };
        let mut pod = json!({
            "metadata": {
                "name": format!("{word}{number}"), "uid": format!("{word}{number}"),
                "creationTimestamp": "2026-01-01T00:59:55Z",
                "annotations": {"batch.kubernetes.io/job-completion-index": index},
                "finalizers": if state == "c" { json!([]) } else { json!(["batch.kubernetes.io/job-tracking"]) },
            },
            "spec": {}, "status": {"phase": phase},
        });
        if state == "t" {
            pod["metadata"]["deletionTimestamp"] = json!(NOW);
        }
        if phase == "Failed" {
            let ended = json!({"exitCode": 1, "finishedAt": "2026-01-01T00:59:55Z"});
            pod["status"]["containerStatuses"] = json!([{"name": "c", "state": {"terminated": ended}}]);
        }
        Arc::new(pod)
    }

    fn planned(spec: &Value, status: &Value, words: &[&str]) -> Plan {
        let pods: Vec<Arc<Value>> =
            words.iter().enumerate().map(|(number, word)| pod(number, word)).collect();
        let mut spec = spec.clone();
        if spec["parallelism"].is_null() {
            spec["parallelism"] = json!(2);
        }
        let job = json!({"metadata": {"name": "j"}, "spec": spec, "status": status});
        plan(&job, &pods, NOW.parse().unwrap())
    }

    fn names(pods: &[Arc<Value>]) -> Vec<&str> {
        pods.iter().map(|pod| object::name(pod)).collect()
    }

    #[test]
    fn pods_run_until_enough_have_succeeded() {
        let of = |completions: i64| json!({"completions": completions});
        let indexed = |completions: i64| json!({"completions": completions, "completionMode": "Indexed"});
        let with = |mut spec: Value, field: &str, value: Value| {
            spec[field] = value;
            spec
        };
        let policy = |action: &str| {
            let codes = json!({"operator": "In", "values": [1]});
            json!({"rules": [{"action": action, "onExitCodes": codes}]})
        };
        let queue = json!({});
        for (spec, words, create, drop, delete, decided) in [
            (of(3), vec![], vec![None, None], vec![], vec![], ""),
            (of(3), vec!["0r", "1s"], vec![None], vec![], vec![], ""),
            (of(3), vec!["0s", "1s"], vec![None], vec![], vec![], ""),
            (of(2), vec!["0s", "1s"], vec![], vec![], vec![], "SuccessCriteriaMet"),
            (of(2), vec!["0s", "1s", "2r"], vec![], vec![], vec!["2r2"], "SuccessCriteriaMet"),
            // What has failed is tried again, but not at once, and not for ever.
            (of(3), vec!["0f", "1r"], vec![], vec![], vec![], ""),
            (of(3), vec!["0t", "1r"], vec![], vec![], vec![], ""),
            (
                with(of(3), "podReplacementPolicy", json!("Failed")),
                vec!["0t", "1r"],
                vec![],
                vec![],
                vec![],
                "",
            ),
            (
                with(of(3), "backoffLimit", json!(1)),
                vec!["0f", "1f", "2r"],
                vec![],
                vec![],
                vec!["2r2"],
                "FailureTarget",
            ),
            // What is ignored is tried again at once, and what must not happen ends the job.
            (
                with(of(3), "podFailurePolicy", policy("Ignore")),
                vec!["0f", "1r"],
                vec![None],
                vec![],
                vec![],
                "",
            ),
            (
                with(of(3), "podFailurePolicy", policy("FailJob")),
                vec!["0f", "1r"],
                vec![],
                vec![],
                vec!["1r1"],
                "FailureTarget",
            ),
            // Fewer at a time, or none.
            (with(of(3), "parallelism", json!(1)), vec!["0r", "1r"], vec![], vec!["0r0"], vec![], ""),
            (with(of(3), "suspend", json!(true)), vec!["0r", "1r"], vec![], vec!["0r0", "1r1"], vec![], ""),
            // Nobody said how many.
            (queue.clone(), vec![], vec![None, None], vec![], vec![], ""),
            (queue.clone(), vec!["0s", "1r"], vec![], vec![], vec![], ""),
            (queue.clone(), vec!["0s", "1s"], vec![], vec![], vec![], "SuccessCriteriaMet"),
            // By index.
            (indexed(3), vec![], vec![Some(0), Some(1)], vec![], vec![], ""),
            (indexed(3), vec!["1s"], vec![Some(0), Some(2)], vec![], vec![], ""),
            (indexed(3), vec!["1s", "1r", "7r"], vec![Some(0)], vec!["7r2"], vec![], ""),
            (indexed(2), vec!["0s", "0s", "1r"], vec![], vec![], vec![], ""),
            (indexed(2), vec!["0s", "1s"], vec![], vec![], vec![], "SuccessCriteriaMet"),
        ] {
            let plan = planned(&spec, &json!({}), &words);
            assert_eq!(
                (plan.create, names(&plan.drop), names(&plan.delete)),
                (create, drop, delete),
                "{spec} {words:?}"
            );
            let said = plan.status["conditions"].as_array().into_iter().flatten();
            let said: Vec<&str> = said.map(|condition| object::text(condition, &["type"])).collect();
            let is_suspended = spec["suspend"] == true;
            let expected = if is_suspended { "Suspended" } else { decided };
            assert_eq!(said.join(","), expected, "{spec} {words:?}");
        }
    }

    #[test]
    fn pods_are_counted_once() {
        let spec = json!({"completions": 5});
        for (status, words, uncounted, succeeded, failed) in [
            (json!({}), vec!["0s", "1f", "2r"], json!({"succeeded": ["0s0"], "failed": ["1f1"]}), 0, 0),
            // As it is written, but the pods are not let go yet.
            (
                json!({"uncountedTerminatedPods": {"succeeded": ["0s0"], "failed": ["1f1"]}, "failed": 1}),
                vec!["0s", "1f"],
                json!({"succeeded": ["0s0"], "failed": ["1f1"]}),
                0,
                1,
            ),
            // One is let go, the other is gone.
            (
                json!({"uncountedTerminatedPods": {"succeeded": ["9s9"], "failed": ["0c0"]}, "failed": 1}),
                vec!["0c"],
                json!({}),
                1,
                2,
            ),
        ] {
            let plan = planned(&spec, &status, &words);
            assert_eq!(plan.status["uncountedTerminatedPods"], uncounted, "{words:?}");
            assert_eq!(
                (number(&plan.status, "/succeeded"), number(&plan.status, "/failed")),
                (succeeded, failed),
                "{words:?}"
            );
        }
    }

    #[test]
    fn a_job_is_over_once_its_pods_are() {
        let target = |kind: &str| {
            json!({"startTime": NOW, "conditions": [
                {"type": kind, "status": "True", "reason": "DeadlineExceeded", "message": "m"}
            ]})
        };
        for (status, words, expected) in [
            (target("FailureTarget"), vec!["0r"], vec!["FailureTarget"]),
            (target("FailureTarget"), vec!["0t"], vec!["FailureTarget"]),
            (target("FailureTarget"), vec!["0c"], vec!["FailureTarget", "Failed"]),
            (target("SuccessCriteriaMet"), vec![], vec!["SuccessCriteriaMet", "Complete"]),
        ] {
            let plan = planned(&json!({"completions": 1}), &status, &words);
            let said = plan.status["conditions"].as_array().into_iter().flatten();
            let said: Vec<&str> = said.map(|condition| object::text(condition, &["type"])).collect();
            assert_eq!(said, expected, "{words:?}");
        }
    }

    #[test]
    fn deadlines_and_backoff_are_kept() {
        let started = |secs: i64| {
            let start: Timestamp = NOW.parse().unwrap();
            json!({"startTime": object::time(after_secs(start, -secs))})
        };
        let spec = json!({"completions": 1, "activeDeadlineSeconds": 60});
        let at = |secs: i64| Some(after_secs(NOW.parse().unwrap(), secs));
        assert_eq!(planned(&spec, &started(59), &["0r"]).again, at(1));
        let late = planned(&spec, &started(60), &["0r"]);
        assert_eq!(
            (names(&late.delete), &late.status["conditions"][0]["reason"]),
            (vec!["0r0"], &json!("DeadlineExceeded"))
        );
        // The pods were made, and so ended, five seconds ago.
        let spec = json!({"completions": 1});
        for (words, again) in [(vec!["0f"], 5), (vec!["0f", "0f"], 15), (vec!["0f", "0f", "0f"], 35)] {
            let plan = planned(&spec, &started(59), &words);
            assert_eq!((plan.again, plan.create.len()), (at(again), 0), "{words:?}");
        }
    }
}
