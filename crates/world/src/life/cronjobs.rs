//! CronJobs: a job each time that a schedule comes.

use std::sync::Arc;

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::jobs::RESOURCE as JOBS;
use super::owned::{MANAGER, Steps, key_of, owner_reference, owners_of};
use super::pods::{self, set_annotation};
use super::refused::{Attempt, Refusal};
use super::{Controller, Decision, Report, Severity, View};
use crate::api::{Act, Propagation};
use crate::json::{Value, json};
use crate::object;
use crate::store::{Change, Key};

const RESOURCE: &str = "cronjobs.batch";
const COMPONENT: &str = "cronjob-controller";
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// Who has missed more than this has been away for long, or says every minute and never starts.
const MISSED_MAX: usize = 100;

#[derive(Debug, Default)]
pub(crate) struct CronJobs;

impl Controller for CronJobs {
    fn name(&self) -> &'static str {
        MANAGER
    }

    fn observe(&mut self, change: &Change, _: View<'_>) -> Vec<Key> {
        match change.key.resource() {
            RESOURCE => vec![change.key.clone()],
            JOBS => owners_of(change, "batch/v1", "CronJob", RESOURCE),
            _ => Vec::new(),
        }
    }

    fn decide(&mut self, key: &Key, view: View<'_>) -> Decision {
        let Some(cron) = view.get(key) else { return Decision::none() };
        let plan = plan(&cron, &view.controlled(JOBS, &cron), view.now());
        let mut steps = Steps::of(cron, COMPONENT, view);
        for job in &plan.delete {
            steps.delete(JOBS, job, Propagation::Background);
            steps.tell(Severity::Normal, "SuccessfulDelete", format!("Deleted job {}", object::name(job)));
        }
        if let Some(job) = plan.create.filter(|job| view.get(&key_of(JOBS, job)).is_none()) {
            let message = format!("Created job {}", object::name(&job));
            steps.act(Act::Create(JOBS, job));
            steps.tell(Severity::Normal, "SuccessfulCreate", message);
        }
        for (severity, reason, message) in plan.told {
            steps.tell(severity, reason, message);
        }
        steps.set_status(RESOURCE, plan.status);
        steps.look_again(plan.again);
        steps.done()
    }

    fn refused(&mut self, key: &Key, refusal: &Refusal, view: View<'_>) -> Decision {
        let cron = view.get(key).filter(|_| matches!(refusal.attempt, Attempt::Create { .. }));
        let (Some(cron), Some(reason)) = (cron, refusal.reason()) else { return Decision::none() };
        let message = format!("Error creating job: {}", refusal.why);
        let report = Report::about(&cron, Severity::Warning, reason, message, COMPONENT);
        Decision { reports: vec![report], ..Decision::none() }
    }
}

/// When a job is due.
#[derive(Clone, Debug)]
struct Schedule {
    cron: Cron,
    zone: TimeZone,
}

impl Schedule {
    fn of(cron: &Value) -> Result<Self, String> {
        let text = object::text(cron, &["spec", "schedule"]).trim();
        let zone = match object::text(cron, &["spec", "timeZone"]) {
            "" => TimeZone::UTC,
            name => TimeZone::get(name).map_err(|_| format!("unknown time zone {name}"))?,
        };
        let fields = match text {
            "@midnight" => "@daily",
            text if text.starts_with('@') || text.split_whitespace().count() == 5 => text,
            text => {
                let count = text.split_whitespace().count();
                return Err(format!("expected exactly 5 fields, found {count}: [{text}]"));
            }
        };
        let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
        let cron = parser.parse(fields).map_err(|error| error.to_string())?;
        Ok(Self { cron, zone })
    }

    fn next_after(&self, instant: Timestamp) -> Option<Timestamp> {
        let start = instant.to_zoned(self.zone.clone());
        self.cron.find_next_occurrence(&start, false).ok().map(|next| next.timestamp())
    }

    /// The last time it was due since then, and how often it was: no further than it matters.
    fn last_since(&self, since: Timestamp, now: Timestamp) -> Option<(Timestamp, usize)> {
        let mut missed = 0;
        let mut last = None;
        let mut at = since;
        while let Some(next) = self.next_after(at).filter(|next| *next <= now) {
            missed += 1;
            if missed > MISSED_MAX {
                let start = now.to_zoned(self.zone.clone());
                let last = self.cron.find_previous_occurrence(&start, true).ok()?;
                return Some((last.timestamp(), missed));
            }
            last = Some(next);
            at = next;
        }
        last.map(|last| (last, missed))
    }
}

#[derive(Debug, Default)]
struct Plan {
    create: Option<Value>,
    delete: Vec<Arc<Value>>,
    status: Value,
    told: Vec<(Severity, &'static str, String)>,
    again: Option<Timestamp>,
}

fn plan(cron: &Value, jobs: &[Arc<Value>], now: Timestamp) -> Plan {
    let mut plan = Plan { status: cron["status"].clone(), ..Plan::default() };
    if !plan.status.is_object() {
        plan.status = json!({});
    }
    let active: Vec<&Arc<Value>> = jobs.iter().filter(|job| end_of(job).is_none()).collect();
    keep_books(cron, jobs, &active, &mut plan);
    if object::is_terminating(cron) {
        return plan;
    }
    forget(cron, jobs, &mut plan);
    if cron["spec"]["suspend"] == true {
        return plan;
    }
    let schedule = match Schedule::of(cron) {
        Ok(schedule) => schedule,
        Err(why) => {
            let text = object::text(cron, &["spec", "schedule"]);
            let message = format!("unparseable schedule: {text:?} : {why}");
            plan.told.push((Severity::Warning, "UnparseableSchedule", message));
            return plan;
        }
    };
    plan.again = schedule.next_after(now);
    start(cron, &schedule, &active, now, &mut plan);
    plan
}

/// How a job ended.
fn end_of(job: &Value) -> Option<&'static str> {
    ["Complete", "Failed"].into_iter().find(|kind| pods::has_condition(job, kind))
}

/// Keeps on record which jobs run and when one succeeded last.
fn keep_books(cron: &Value, jobs: &[Arc<Value>], active: &[&Arc<Value>], plan: &mut Plan) {
    let listed = cron["status"]["active"].as_array();
    for entry in listed.into_iter().flatten() {
        let job = jobs.iter().find(|job| entry["uid"] == object::uid(job));
        match job.map(|job| end_of(job)) {
            None => {
                let message = format!("Active job went missing: {}", object::text(entry, &["name"]));
                plan.told.push((Severity::Normal, "MissingJob", message));
            }
            Some(Some(end)) => {
                let name = object::text(entry, &["name"]);
                let message = format!("Saw completed job: {name}, condition: {end}");
                plan.told.push((Severity::Normal, "SawCompletedJob", message));
            }
            Some(None) => {}
        }
    }
    let known = |job: &Value| {
        let mut listed = listed.into_iter().flatten();
        listed.find(|entry| entry["uid"] == object::uid(job)).cloned()
    };
    let entries: Vec<Value> = active.iter().map(|job| known(job).unwrap_or_else(|| reference(job))).collect();
    if let Some(fields) = plan.status.as_object_mut() {
        if entries.is_empty() {
            fields.remove("active");
        } else {
            fields.insert("active", json!(entries));
        }
    }
    let done = jobs.iter().filter(|job| end_of(job) == Some("Complete"));
    let last = done.filter_map(|job| pods::time(&job["status"]["completionTime"])).max();
    let known = pods::time(&cron["status"]["lastSuccessfulTime"]);
    if let Some(last) = last.filter(|last| known.is_none_or(|known| known < *last)) {
        plan.status["lastSuccessfulTime"] = object::time(last);
    }
}

fn reference(job: &Value) -> Value {
    json!({
        "apiVersion": job["apiVersion"], "kind": job["kind"], "name": object::name(job),
        "namespace": object::namespace(job), "uid": object::uid(job),
        "resourceVersion": object::revision(job),
    })
}

/// Deletes the oldest of those that have ended, beyond what is to be kept.
fn forget(cron: &Value, jobs: &[Arc<Value>], plan: &mut Plan) {
    for (end, field, otherwise) in
        [("Complete", "successfulJobsHistoryLimit", 3), ("Failed", "failedJobsHistoryLimit", 1)]
    {
        let limit = cron["spec"][field].as_u64().unwrap_or(otherwise);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut ended: Vec<&Arc<Value>> =
            jobs.iter().filter(|job| end_of(job) == Some(end) && !object::is_terminating(job)).collect();
        ended.sort_by_key(|job| (pods::time(&job["status"]["startTime"]), object::name(job).to_owned()));
        let beyond = ended.len().saturating_sub(limit);
        plan.delete.extend(ended.into_iter().take(beyond).cloned());
    }
}

/// Starts the job that is due, if one is.
fn start(cron: &Value, schedule: &Schedule, active: &[&Arc<Value>], now: Timestamp, plan: &mut Plan) {
    let last = pods::time(&cron["status"]["lastScheduleTime"]);
    let Some(mut since) = last.or_else(|| pods::created(cron)) else { return };
    let patience = cron["spec"]["startingDeadlineSeconds"].as_i64();
    if let Some(secs) = patience {
        since = since.max(pods::after_secs(now, -secs));
    }
    let Some((due, missed)) = schedule.last_since(since, now) else { return };
    if missed > MISSED_MAX {
        let message =
            "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
        plan.told.push((Severity::Warning, "TooManyMissedTimes", message.to_owned()));
    }
    if patience.is_some_and(|secs| pods::after_secs(due, secs) < now) {
        let message = format!("Missed scheduled time to start a job: {due}");
        plan.told.push((Severity::Warning, "MissSchedule", message));
        return;
    }
    match object::text(cron, &["spec", "concurrencyPolicy"]) {
        "Forbid" if !active.is_empty() => {
            let message =
                "Not starting job because prior execution is running and concurrency policy is Forbid";
            plan.told.push((Severity::Normal, "JobAlreadyActive", message.to_owned()));
            return;
        }
        "Replace" => {
            plan.delete
                .extend(active.iter().filter(|job| !object::is_terminating(job)).map(|job| (*job).clone()));
        }
        _ => {}
    }
    plan.create = Some(job(cron, schedule, due));
    plan.status["lastScheduleTime"] = object::time(due);
}

fn job(cron: &Value, schedule: &Schedule, due: Timestamp) -> Value {
    let template = &cron["spec"]["jobTemplate"];
    let mut job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {
            // One for each minute: whoever makes it twice is told so.
            "name": format!("{}-{}", object::name(cron), due.as_second().div_euclid(60)),
            "namespace": object::namespace(cron),
            "ownerReferences": [owner_reference(cron)],
        },
        "spec": template["spec"],
    });
    for field in ["labels", "annotations"] {
        let given = &template["metadata"][field];
        if !given.is_null() {
            job["metadata"][field] = given.clone();
        }
    }
    let local = due.to_zoned(schedule.zone.clone());
    let offset =
        if schedule.zone == TimeZone::UTC { "Z".to_owned() } else { local.strftime("%:z").to_string() };
    let said = format!("{}{offset}", local.strftime("%Y-%m-%dT%H:%M:%S"));
    set_annotation(&mut job, SCHEDULED, &said);
    job
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        format!("2026-01-{text}Z").parse().unwrap()
    }

    fn cron(change: &[(&str, Value)]) -> Value {
        let mut cron = json!({
            "apiVersion": "batch/v1", "kind": "CronJob",
            "metadata": {"name": "c", "namespace": "default", "creationTimestamp": "2026-01-01T00:00:30Z"},
            "spec": {
                "schedule": "*/10 * * * *", "concurrencyPolicy": "Allow",
                "jobTemplate": {"metadata": {"labels": {"l": "l"}}, "spec": {"a": 1}},
            },
        });
        for (field, value) in change {
            cron["spec"][*field] = value.clone();
        }
        cron
    }

    fn ran(name: &str, end: Option<&str>) -> Arc<Value> {
        let conditions: Vec<Value> = end.iter().map(|end| json!({"type": end, "status": "True"})).collect();
        Arc::new(json!({
            "metadata": {"name": name, "uid": name},
            "status": {"conditions": conditions, "startTime": format!("2026-01-01T00:0{name}:00Z")},
        }))
    }

    #[test]
    fn jobs_start_when_they_are_due() {
        let running = || vec![ran("1", None)];
        for (change, last, now, jobs, created, again) in [
            (vec![], None, "01T00:09:59", vec![], None, Some("01T00:10:00")),
            (vec![], None, "01T00:10:00", vec![], Some("2026-01-01T00:10:00Z"), Some("01T00:20:00")),
            (vec![], Some("01T00:10:00"), "01T00:10:01", vec![], None, Some("01T00:20:00")),
            // Of those that were missed, the last one.
            (vec![], None, "01T00:35:00", vec![], Some("2026-01-01T00:30:00Z"), Some("01T00:40:00")),
            (vec![], None, "05T00:01:00", vec![], Some("2026-01-05T00:00:00Z"), Some("05T00:10:00")),
            (
                vec![("startingDeadlineSeconds", json!(60))],
                None,
                "01T00:15:00",
                vec![],
                None,
                Some("01T00:20:00"),
            ),
            (vec![("suspend", json!(true))], None, "01T00:10:00", vec![], None, None),
            (vec![("schedule", json!("x"))], None, "01T00:10:00", vec![], None, None),
            (vec![("schedule", json!("* * * * * *"))], None, "01T00:10:00", vec![], None, None),
            (
                vec![("schedule", json!("@hourly"))],
                None,
                "01T01:00:00",
                vec![],
                Some("2026-01-01T01:00:00Z"),
                Some("01T02:00:00"),
            ),
            (
                vec![("timeZone", json!("Asia/Kolkata")), ("schedule", json!("0 6 * * *"))],
                None,
                "01T00:30:30",
                vec![],
                Some("2026-01-01T06:00:00+05:30"),
                Some("02T00:30:00"),
            ),
            (
                vec![("concurrencyPolicy", json!("Forbid"))],
                None,
                "01T00:10:00",
                running(),
                None,
                Some("01T00:20:00"),
            ),
            (vec![], None, "01T00:10:00", running(), Some("2026-01-01T00:10:00Z"), Some("01T00:20:00")),
        ] {
            let mut cron = cron(&change);
            if let Some(last) = last {
                cron["status"] = json!({"lastScheduleTime": object::time(at(last))});
            }
            let plan = plan(&cron, &jobs, at(now));
            let said = plan.create.as_ref().map(|job| pods::annotation(job, SCHEDULED));
            assert_eq!((said, plan.again), (created, again.map(at)), "{change:?} {now}");
        }
    }

    #[test]
    fn jobs_replace_each_other_and_are_forgotten() {
        let jobs: Vec<Arc<Value>> = ["1", "2", "3"]
            .into_iter()
            .map(|name| ran(name, Some("Complete")))
            .chain(["4", "5"].into_iter().map(|name| ran(name, Some("Failed"))))
            .chain([ran("6", None)])
            .collect();
        let cron = cron(&[
            ("concurrencyPolicy", json!("Replace")),
            ("successfulJobsHistoryLimit", json!(2)),
            ("failedJobsHistoryLimit", json!(0)),
        ]);
        let plan = plan(&cron, &jobs, at("01T00:10:00"));
        let gone: Vec<&str> = plan.delete.iter().map(|job| object::name(job)).collect();
        assert_eq!(gone, ["1", "4", "5", "6"]);
        let job = plan.create.unwrap();
        assert_eq!(object::name(&job), "c-29453770");
        assert_eq!((&job["spec"], pods::label(&job, "l")), (&json!({"a": 1}), "l"));
        assert_eq!(plan.status["lastScheduleTime"], "2026-01-01T00:10:00Z");
        assert_eq!(plan.status["active"][0]["name"], "6");
    }
}
