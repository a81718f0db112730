//! Workloads, and the pods they would have: Deployment, ReplicaSet, StatefulSet, Job, CronJob.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_core::disruption::PodDisruption;
use berth_core::names::{self, Text};
use berth_core::pod::{Pod, PodOrigin, PodPhase, PodSpec, TaintEffect, Toleration, VolumeRef};
use berth_core::selector::Selector;
use berth_core::volume::VolumeClaim;

use crate::builtin::storage::ClaimTemplate;
use crate::builtin::workload as wire;
use crate::convert::Converter;
use crate::pods::{self, Dangling, Finisher, Owner, PodObject, PodTemplate};
use crate::problem::At;
use crate::storage;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum WorkloadKind {
    Deployment,
    ReplicaSet,
    StatefulSet,
    Job,
    CronJob,
}

impl WorkloadKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Deployment => "Deployment",
            Self::ReplicaSet => "ReplicaSet",
            Self::StatefulSet => "StatefulSet",
            Self::Job => "Job",
            Self::CronJob => "CronJob",
        }
    }
}

/// A workload as it was read.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    pub(crate) kind: WorkloadKind,
    pub(crate) namespace: Text,
    pub(crate) name: Text,
    /// How many pods it should have now.
    pub(crate) wanted: u32,
    pub(crate) template: PodTemplate,
    selector: Option<Selector>,
    owner: Option<Arc<Owner>>,
    /// Of a StatefulSet: the claims that each of its pods gets.
    claims: Vec<(Text, VolumeClaim)>,
    first_ordinal: u32,
}

/// More pods than any cluster runs; a larger number is a slip of the keyboard.
const REPLICAS_MAX: i64 = 500_000;

pub(crate) fn read_replicated(
    kind: WorkloadKind,
    workload: &wire::Workload<'_, wire::ReplicatedSpec<'_>>,
    (namespace, name): (Text, Text),
    to: &mut Converter<'_>,
) -> Workload {
    let at = At::ROOT.key("spec");
    let spec = &workload.spec;
    let template = pods::read_template(&spec.template, &at.key("template"), to);
    let selector = to.optional_selector(spec.selector.as_ref(), &at.key("selector"));
    if selector.as_ref().is_some_and(|selector| !selector.matches(&template.shape.spec.labels)) {
        to.findings.add(&at.key("selector"), "does not match the labels of the pods in spec.template");
    }
    let ordinals = at.key("ordinals");
    Workload {
        kind,
        namespace,
        name,
        wanted: count(spec.replicas.unwrap_or(1), &at.key("replicas"), to),
        template,
        selector,
        owner: pods::controller(&workload.metadata, to),
        claims: read_claim_templates(&spec.volume_claim_templates, to),
        first_ordinal: count(spec.ordinals.start, &ordinals.key("start"), to),
    }
}

pub(crate) fn read_job(
    job: &wire::Job<'_>,
    (namespace, name): (Text, Text),
    to: &mut Converter<'_>,
) -> Workload {
    let at = At::ROOT.key("spec");
    let done = u32::try_from(job.status.succeeded).unwrap_or(0);
    Workload {
        kind: WorkloadKind::Job,
        namespace,
        name,
        wanted: if is_over(&job.status) { 0 } else { job_pods(&job.spec, done, &at, to) },
        template: pods::read_template(&job.spec.template, &at.key("template"), to),
        selector: None,
        owner: pods::controller(&job.metadata, to),
        claims: Vec::new(),
        first_ordinal: 0,
    }
}

/// Whether it has ended, well or not: then it has no pods any more, whatever is left to complete.
fn is_over(status: &wire::JobStatus<'_>) -> bool {
    let ends = |condition: &wire::JobCondition<'_>| {
        matches!(&*condition.kind, "Complete" | "Failed") && condition.status == "True"
    };
    status.conditions.iter().any(ends)
}

/// The pods of one run, at any time it may come.
pub(crate) fn read_cron_job(
    job: &wire::Workload<'_, wire::CronJobSpec<'_>>,
    (namespace, name): (Text, Text),
    to: &mut Converter<'_>,
) -> Workload {
    let at = At::ROOT.key("spec");
    let at = at.key("jobTemplate");
    let at = at.key("spec");
    let spec = &job.spec.job_template.spec;
    let wanted = job_pods(spec, 0, &at, to);
    Workload {
        kind: WorkloadKind::CronJob,
        namespace,
        name,
        wanted: if job.spec.suspend { 0 } else { wanted },
        template: pods::read_template(&spec.template, &at.key("template"), to),
        selector: None,
        owner: None,
        claims: Vec::new(),
        first_ordinal: 0,
    }
}

/// How many pods of a job run at once: no more than are left to complete.
fn job_pods(spec: &wire::JobSpec<'_>, done: u32, at: &At<'_>, to: &mut Converter<'_>) -> u32 {
    let parallelism = count(spec.parallelism.unwrap_or(1), &at.key("parallelism"), to);
    let completions = spec.completions.map(|completions| count(completions, &at.key("completions"), to));
    if spec.suspend {
        return 0;
    }
    completions.map_or(parallelism, |completions| parallelism.min(completions.saturating_sub(done)))
}

fn count(value: i64, at: &At<'_>, to: &mut Converter<'_>) -> u32 {
    match u32::try_from(value) {
        Ok(count) if value <= REPLICAS_MAX => count,
        _ => {
            to.findings.add(at, format!("{value} is out of range; it is from 0 to {REPLICAS_MAX}"));
            0
        }
    }
}

fn read_claim_templates(templates: &[ClaimTemplate<'_>], to: &mut Converter<'_>) -> Vec<(Text, VolumeClaim)> {
    let spec = At::ROOT.key("spec");
    let list = spec.key("volumeClaimTemplates");
    let mut claims = Vec::with_capacity(templates.len());
    for (i, template) in templates.iter().enumerate() {
        let Some(name) = &template.metadata.name else {
            let at = list.index(i);
            let at = at.key("metadata");
            to.findings.add(&at.key("name"), "is missing");
            continue;
        };
        claims.push((to.text(name), storage::unbound_claim(&template.spec, to)));
    }
    claims
}

/// What workloads add to the cluster.
#[derive(Debug, Default)]
pub(crate) struct Expanded {
    pub(crate) pods: Vec<Pod>,
    /// Claims that StatefulSets will make.
    pub(crate) claims: BTreeMap<(Text, Text), VolumeClaim>,
    /// By the workload's index.
    pub(crate) dangling: Vec<(usize, Dangling)>,
    /// Indices of workloads that would make too many pods of all together.
    pub(crate) crowded: Vec<usize>,
}

/// More pods than any cluster runs, over all workloads.
pub(crate) const EXPANDED_PODS_MAX: usize = 1_000_000;

/// A DaemonSet's spec with what its controller adds: its pods run on nodes in trouble, too.
pub(crate) fn daemon_spec(spec: &PodSpec) -> PodSpec {
    let mut spec = spec.clone();
    let tolerated = [
        (names::TAINT_NOT_READY, TaintEffect::NoExecute),
        (names::TAINT_UNREACHABLE, TaintEffect::NoExecute),
        (names::TAINT_UNSCHEDULABLE, TaintEffect::NoSchedule),
        ("node.kubernetes.io/disk-pressure", TaintEffect::NoSchedule),
        ("node.kubernetes.io/memory-pressure", TaintEffect::NoSchedule),
        ("node.kubernetes.io/pid-pressure", TaintEffect::NoSchedule),
    ];
    for (key, effect) in tolerated {
        let toleration = Toleration { key: Some(key.into()), value: None, effect: Some(effect) };
        if !spec.tolerations.contains(&toleration) {
            spec.tolerations.push(toleration);
        }
    }
    spec
}

type Id = (Text, WorkloadKind, Text);

/// The pods that the workloads lack. Pods that exist count for their workload; a workload that
/// belongs to another one of the input is left to that one.
pub(crate) fn expand(
    workloads: &[Workload],
    pods: &[Arc<PodObject>],
    finisher: &mut Finisher<'_>,
) -> Expanded {
    let families = Families::of(workloads, pods);
    let mut expanded = Expanded::default();
    let mut taken: BTreeSet<(Text, Text)> =
        pods.iter().map(|pod| (pod.namespace.clone(), pod.name.clone())).collect();
    // StatefulSets first: the names of their pods are fixed, others step aside.
    let mut order: Vec<usize> =
        (0..workloads.len()).filter(|i| !families.has_parent(&workloads[*i])).collect();
    order.sort_by_key(|i| {
        let workload = &workloads[*i];
        (workload.kind != WorkloadKind::StatefulSet, &workload.namespace, workload.kind, &workload.name)
    });
    for index in order {
        let workload = &workloads[index];
        if workload.wanted == 0 {
            continue;
        }
        let is_replicated = !matches!(workload.kind, WorkloadKind::Job | WorkloadKind::CronJob);
        let finished =
            finisher.finish_spread(&workload.template.shape, &workload.namespace, (false, is_replicated));
        let spec = match finished {
            Ok(spec) => spec,
            Err(dangling) => {
                expanded.dangling.push((index, dangling));
                continue;
            }
        };
        let missing = workload.wanted.saturating_sub(families.active_pods(workload));
        if expanded.pods.len() + missing as usize > EXPANDED_PODS_MAX {
            expanded.crowded.push(index);
            continue;
        }
        for name in workload.pod_names(missing, &mut taken) {
            let volumes = workload.volumes(&name, &mut expanded.claims);
            expanded.pods.push(Pod {
                namespace: workload.namespace.clone(),
                name: name.into(),
                spec: spec.clone(),
                phase: PodPhase::Pending,
                node: None,
                nominated: None,
                is_fresh: false,
                deleting: false,
                origin: PodOrigin::Workload,
                daemon_set: None,
                mirror: false,
                volumes,
                disruption: PodDisruption { has_controller: true, ..PodDisruption::default() },
            });
        }
    }
    expanded
}

impl Workload {
    fn id(&self) -> Id {
        (self.namespace.clone(), self.kind, self.name.clone())
    }

    /// Names for `missing` more pods. A StatefulSet's are given; any free ordinal does for the others.
    fn pod_names(&self, missing: u32, taken: &mut BTreeSet<(Text, Text)>) -> Vec<String> {
        let last = if self.kind == WorkloadKind::StatefulSet {
            u64::from(self.first_ordinal) + u64::from(self.wanted)
        } else {
            u64::MAX
        };
        let mut names = Vec::new();
        for ordinal in u64::from(self.first_ordinal)..last {
            if names.len() >= missing as usize {
                break;
            }
            let name = format!("{}-{ordinal}", self.name);
            if taken.insert((self.namespace.clone(), name.as_str().into())) {
                names.push(name);
            }
        }
        names
    }

    /// The volumes of one of its pods; those from claim templates get a claim of their own.
    fn volumes(&self, pod: &str, claims: &mut BTreeMap<(Text, Text), VolumeClaim>) -> Box<[VolumeRef]> {
        let mut volumes = Vec::new();
        for (template, claim) in &self.claims {
            let name: Text = format!("{template}-{pod}").into();
            claims.insert((self.namespace.clone(), name.clone()), claim.clone());
            volumes.push(VolumeRef::Claim(name));
        }
        let plain = self.template.volumes.iter();
        let plain = plain.filter(|volume| !self.claims.iter().any(|(name, _)| *name == volume.name));
        volumes.extend(plain.map(|volume| volume.of_pod(pod)));
        volumes.into()
    }
}

/// Which pods and workloads belong to which workload.
struct Families {
    /// The workload that another one of the input belongs to.
    parents: BTreeMap<Id, Id>,
    active: BTreeMap<Id, u32>,
}

impl Families {
    fn of(workloads: &[Workload], pods: &[Arc<PodObject>]) -> Self {
        let ids: BTreeSet<Id> = workloads.iter().map(Workload::id).collect();
        let mut parents = BTreeMap::new();
        for workload in workloads {
            if let Some(parent) = workload.owner.as_ref().and_then(|o| o.workload(&workload.namespace))
                && ids.contains(&parent)
            {
                parents.insert(workload.id(), parent);
            }
        }
        let mut families = Self { parents, active: BTreeMap::new() };
        let mut selecting: BTreeMap<&Text, Vec<&Workload>> = BTreeMap::new();
        for workload in workloads.iter().filter(|workload| workload.selector.is_some()) {
            selecting.entry(&workload.namespace).or_default().push(workload);
        }
        for pod in pods.iter().filter(|pod| pod.is_active() && !pod.deleting) {
            if let Some(id) = families.workload_of(pod, &ids, selecting.get(&pod.namespace)) {
                *families.active.entry(id).or_insert(0) += 1;
            }
        }
        families
    }

    fn has_parent(&self, workload: &Workload) -> bool {
        self.parents.contains_key(&workload.id())
    }

    fn active_pods(&self, workload: &Workload) -> u32 {
        self.active.get(&workload.id()).copied().unwrap_or(0)
    }

    /// The outermost workload of the input that the pod belongs to.
    fn workload_of(
        &self,
        pod: &PodObject,
        ids: &BTreeSet<Id>,
        selecting: Option<&Vec<&Workload>>,
    ) -> Option<Id> {
        let direct = pod.owner.as_ref().and_then(|owner| owner.workload(&pod.namespace));
        if let Some(id) = &direct {
            if let Some(parent) = self.parents.get(id) {
                return Some(parent.clone());
            }
            if ids.contains(id) {
                return direct;
            }
            if let Some(parent) = parent_by_name(pod, id).filter(|parent| ids.contains(parent)) {
                return Some(parent);
            }
        }
        // A ReplicaSet that is not in the input, or no owner at all: controllers adopt what they select.
        let adoptable = match &direct {
            None => pod.owner.is_none(),
            Some((_, kind, _)) => *kind == WorkloadKind::ReplicaSet,
        };
        let labels = &pod.shape.spec.labels;
        selecting?
            .iter()
            .filter(|_| adoptable)
            .filter(|workload| direct.is_none() || workload.kind == WorkloadKind::Deployment)
            .find(|workload| workload.selector.as_ref().is_some_and(|selector| selector.matches(labels)))
            .map(|workload| self.parents.get(&workload.id()).cloned().unwrap_or_else(|| workload.id()))
    }
}

/// The Deployment of a ReplicaSet or the CronJob of a Job that is not in the input, from the names that
/// their controllers give.
fn parent_by_name(pod: &PodObject, (namespace, kind, name): &Id) -> Option<Id> {
    let (stem, suffix) = name.rsplit_once('-')?;
    let (kind, fits) = match kind {
        WorkloadKind::ReplicaSet => {
            let hash = pod.shape.spec.labels.get("pod-template-hash");
            (WorkloadKind::Deployment, hash.is_some_and(|hash| **hash == *suffix))
        }
        WorkloadKind::Job => (WorkloadKind::CronJob, suffix.bytes().all(|b| b.is_ascii_digit())),
        _ => return None,
    };
    fits.then(|| (namespace.clone(), kind, stem.into()))
}

impl Owner {
    fn workload(&self, namespace: &Text) -> Option<Id> {
        let kind = match &*self.kind {
            "Deployment" => WorkloadKind::Deployment,
            "ReplicaSet" => WorkloadKind::ReplicaSet,
            "StatefulSet" => WorkloadKind::StatefulSet,
            "Job" => WorkloadKind::Job,
            "CronJob" => WorkloadKind::CronJob,
            _ => return None,
        };
        Some((namespace.clone(), kind, self.name.clone()))
    }
}
