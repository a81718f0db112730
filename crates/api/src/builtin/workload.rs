//! Deployment, ReplicaSet, StatefulSet, Job, CronJob, DaemonSet, Service.

use std::borrow::Cow;

use serde::Deserialize;

use super::pod::Template;
use super::storage::ClaimTemplate;
use super::{LabelSelector, Metadata, StrMap};

#[derive(Debug, Deserialize)]
pub(crate) struct Workload<'a, Spec> {
    #[serde(borrow)]
    pub(crate) metadata: Metadata<'a>,
    pub(crate) spec: Spec,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Service<'a> {
    #[serde(borrow, default)]
    pub(crate) spec: ServiceSpec<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ServiceSpec<'a> {
    /// Without one somebody else says what is behind it.
    #[serde(borrow)]
    pub(crate) selector: StrMap<'a>,
}

/// A Deployment, ReplicaSet, StatefulSet or DaemonSet.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReplicatedSpec<'a> {
    #[serde(default)]
    pub(crate) replicas: Option<i64>,
    #[serde(borrow, default)]
    pub(crate) selector: Option<LabelSelector<'a>>,
    pub(crate) template: Template<'a>,
    #[serde(default)]
    pub(crate) volume_claim_templates: Vec<ClaimTemplate<'a>>,
    #[serde(default)]
    pub(crate) ordinals: Ordinals,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Ordinals {
    pub(crate) start: i64,
}

#[derive(Debug, Deserialize)]
pub(crate) struct JobSpec<'a> {
    #[serde(default)]
    pub(crate) parallelism: Option<i64>,
    #[serde(default)]
    pub(crate) completions: Option<i64>,
    #[serde(default)]
    pub(crate) suspend: bool,
    #[serde(borrow)]
    pub(crate) template: Template<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct JobStatus<'a> {
    pub(crate) succeeded: i64,
    #[serde(borrow)]
    pub(crate) conditions: Vec<JobCondition<'a>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct JobCondition<'a> {
    #[serde(borrow, rename = "type")]
    pub(crate) kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) status: Cow<'a, str>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Job<'a> {
    #[serde(borrow)]
    pub(crate) metadata: Metadata<'a>,
    pub(crate) spec: JobSpec<'a>,
    #[serde(borrow, default)]
    pub(crate) status: JobStatus<'a>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CronJobSpec<'a> {
    #[serde(default)]
    pub(crate) suspend: bool,
    #[serde(borrow)]
    pub(crate) job_template: JobTemplate<'a>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct JobTemplate<'a> {
    #[serde(borrow)]
    pub(crate) spec: JobSpec<'a>,
}
