//! How far a job has come: what is on record, and what its pods add to it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::failures::{Outcome, judge};
use super::{indexes, pod};
use crate::json::{Value, json};
use crate::life::owned::set_count;
use crate::life::pods::number;
use crate::object;

/// The pods that have ended are on record by their uid first and by their number only once they are let go, so that
/// each is counted once, whatever happens in between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Progress {
    succeeded: i64,
    failed: i64,
    uncounted_succeeded: Vec<String>,
    uncounted_failed: Vec<String>,
    /// What is done, for jobs that count indexes.
    indexes: Option<BTreeSet<i64>>,
}

impl Progress {
    pub(super) fn of(job: &Value, pods: &[Arc<Value>]) -> Self {
        let status = &job["status"];
        let uncounted = |field: &str| -> Vec<String> {
            let list = status["uncountedTerminatedPods"][field].as_array();
            list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let completions = job["spec"]["completions"].as_i64();
        let is_indexed = job["spec"]["completionMode"] == "Indexed";
        let completed = object::text(status, &["completedIndexes"]);
        let mut progress = Self {
            succeeded: number(status, "/succeeded"),
            failed: number(status, "/failed"),
            uncounted_succeeded: uncounted("succeeded"),
            uncounted_failed: uncounted("failed"),
            indexes: is_indexed.then(|| indexes::parse(completed, completions.unwrap_or(0))),
        };
        progress.count_released(pods);
        progress.add(job, pods, completions.unwrap_or(0));
        progress
    }

    /// Those that are no longer held back are counted for good.
    fn count_released(&mut self, pods: &[Arc<Value>]) {
        let held: BTreeSet<&str> =
            pods.iter().filter(|pod| pod::is_tracked(pod)).map(|pod| object::uid(pod)).collect();
        for (uncounted, count) in [
            (&mut self.uncounted_succeeded, &mut self.succeeded),
            (&mut self.uncounted_failed, &mut self.failed),
        ] {
            let before = uncounted.len();
            uncounted.retain(|uid| held.contains(uid.as_str()));
            *count += i64::try_from(before - uncounted.len()).unwrap_or(0);
        }
    }

    fn add(&mut self, job: &Value, pods: &[Arc<Value>], completions: i64) {
        for pod in pods.iter().filter(|pod| pod::is_tracked(pod)) {
            let uid = object::uid(pod).to_owned();
            if pod::has_succeeded(pod) {
                match &mut self.indexes {
                    Some(indexes) => indexes.extend(pod::index(pod).filter(|index| *index < completions)),
                    None if self.uncounted_succeeded.contains(&uid) => {}
                    None => self.uncounted_succeeded.push(uid),
                }
            } else if counts_as_failed(job, pod) && !self.uncounted_failed.contains(&uid) {
                self.uncounted_failed.push(uid);
            }
        }
    }

    pub(super) fn succeeded(&self) -> i64 {
        let uncounted = || i64::try_from(self.uncounted_succeeded.len()).unwrap_or(0);
        match &self.indexes {
            Some(indexes) => i64::try_from(indexes.len()).unwrap_or(0),
            None => self.succeeded + uncounted(),
        }
    }

    pub(super) fn failed(&self) -> i64 {
        self.failed + i64::try_from(self.uncounted_failed.len()).unwrap_or(0)
    }

    pub(super) fn indexes(&self) -> Option<&BTreeSet<i64>> {
        self.indexes.as_ref()
    }

    pub(super) fn is_settled(&self) -> bool {
        self.uncounted_succeeded.is_empty() && self.uncounted_failed.is_empty()
    }

    pub(super) fn write(&self, status: &mut Value) {
        let succeeded = if self.indexes.is_some() { self.succeeded() } else { self.succeeded };
        set_count(status, "succeeded", usize::try_from(succeeded).unwrap_or(0));
        set_count(status, "failed", usize::try_from(self.failed).unwrap_or(0));
        let mut uncounted = json!({});
        for (field, list) in [("succeeded", &self.uncounted_succeeded), ("failed", &self.uncounted_failed)] {
            if !list.is_empty() {
                uncounted[field] = json!(list);
            }
        }
        status["uncountedTerminatedPods"] = uncounted;
        if let Some(indexes) = self.indexes.as_ref().filter(|indexes| !indexes.is_empty()) {
            status["completedIndexes"] = json!(indexes::format(indexes));
        }
    }
}

/// Whether a pod has failed, and its job does not ignore that.
pub(super) fn counts_as_failed(job: &Value, pod: &Value) -> bool {
    pod::has_failed(job, pod) && judge(job, pod) != Outcome::IsIgnored
}
