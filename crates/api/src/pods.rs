//! Pods and pod templates: from what is written to what the planner knows of a pod.
//!
//! A pod's spec depends on other objects (the namespace's LimitRange, its PriorityClass and
//! RuntimeClass) that may come later in the input. So it is read into a [`PodShape`], which many pods
//! share, and finished once all is known.

use std::collections::HashMap;
use std::sync::Arc;

use berth_core::names::Text;
use berth_core::pod::{Pod, PodOrigin, PodPhase, PodSpec, Toleration, VolumeRef};
use berth_core::requirement::Expression;
use berth_core::resources::Resources;
use jiff::Timestamp;
use rustc_hash::FxBuildHasher;

use crate::builtin::pod as wire;
use crate::builtin::{Metadata, Str};
use crate::convert::Converter;
use crate::disruption::{self, DoNotDisrupt, PodLife, Second};
use crate::pod_resources::{DefaultRequests, Demand};
use crate::problem::At;
use crate::spreading::Spreading;
use crate::{placement, policies::Policies};

/// All of a pod's spec that does not depend on other objects.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PodShape {
    /// Without requests and priority.
    pub(crate) spec: PodSpec,
    demand: Demand,
    priority: PriorityRef,
    runtime_class: Option<Text>,
}

impl PodShape {
    /// What a pod of this shape asks for, where containers get of `defaults` what they do not name.
    pub(crate) fn requests(&self, defaults: Option<&DefaultRequests>) -> Resources {
        self.demand.effective(defaults, None)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum PriorityRef {
    /// Already resolved by the cluster.
    Value(i32),
    Class(Text),
    Default,
}

/// A pod as it was read.
#[derive(Clone, Debug)]
pub(crate) struct PodObject {
    pub(crate) namespace: Text,
    pub(crate) name: Text,
    pub(crate) shape: Arc<PodShape>,
    pub(crate) phase: PodPhase,
    pub(crate) node: Option<Text>,
    pub(crate) nominated: Option<Text>,
    pub(crate) deleting: bool,
    pub(crate) mirror: bool,
    pub(crate) owner: Option<Arc<Owner>>,
    pub(crate) volumes: Box<[VolumeRef]>,
    pub(crate) life: PodLife,
    pub(crate) line: u32,
    /// An index into the manifests' sources.
    pub(crate) source: u32,
}

/// The controller that an object belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Owner {
    pub(crate) kind: Text,
    pub(crate) name: Text,
}

/// What a workload makes pods from.
#[derive(Clone, Debug)]
pub(crate) struct PodTemplate {
    pub(crate) shape: Arc<PodShape>,
    pub(crate) volumes: Vec<TemplateVolume>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TemplateVolume {
    pub(crate) name: Text,
    kind: TemplateVolumeKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum TemplateVolumeKind {
    Claim(Text),
    Ephemeral { storage_class: Option<Text> },
}

impl TemplateVolume {
    /// The volume of the pod of this name.
    pub(crate) fn of_pod(&self, pod: &str) -> VolumeRef {
        match &self.kind {
            TemplateVolumeKind::Claim(claim) => VolumeRef::Claim(claim.clone()),
            TemplateVolumeKind::Ephemeral { storage_class } => VolumeRef::Ephemeral {
                claim: format!("{pod}-{}", self.name).into(),
                storage_class: storage_class.clone(),
            },
        }
    }
}

/// The controller among an object's owners.
pub(crate) fn controller(metadata: &Metadata<'_>, to: &mut Converter<'_>) -> Option<Arc<Owner>> {
    let owner = metadata.owner_references.iter().find(|owner| owner.controller)?;
    let owner = Owner { kind: to.text(&owner.kind), name: to.text(&owner.name) };
    Some(to.interner.owner(owner))
}

pub(crate) fn read_pod(
    pod: &wire::Pod<'_>,
    namespace: Text,
    name: Text,
    to: &mut Converter<'_>,
) -> PodObject {
    let shape = read_shape(&pod.metadata, &pod.spec, Some(&pod.status), &At::ROOT, to);
    let volumes = read_volumes(&pod.spec.volumes, to);
    let phase = match pod.status.phase.as_deref() {
        Some("Running") => PodPhase::Running,
        Some("Succeeded") => PodPhase::Succeeded,
        Some("Failed") => PodPhase::Failed,
        _ => PodPhase::Pending,
    };
    let (metadata, status) = (At::ROOT.key("metadata"), At::ROOT.key("status"));
    let created = pod.metadata.creation_timestamp.as_ref();
    let ready = pod.status.conditions.iter().find(|condition| &*condition.kind == "Ready");
    let life = PodLife {
        do_not_disrupt: DoNotDisrupt::read(pod.metadata.annotations.do_not_disrupt.as_deref()),
        deletion_cost: disruption::read_deletion_cost(&pod.metadata.annotations, to),
        created: disruption::read_time(created, &metadata.key("creationTimestamp"), to).map(Second::new),
        started: disruption::read_time(pod.status.start_time.as_ref(), &status.key("startTime"), to)
            .map(Second::new),
        healthy: phase == PodPhase::Running
            && ready.is_none_or(|condition| condition.status.as_deref() == Some("True")),
        has_local_storage: pod.spec.volumes.iter().any(wire::Volume::is_local),
    };
    let mut filled = |text: Option<&Str<'_>>| text.filter(|t| !t.is_empty()).map(|t| to.text(t));
    PodObject {
        volumes: volumes.iter().map(|volume| volume.of_pod(&name)).collect(),
        namespace,
        name,
        shape,
        phase,
        node: filled(pod.spec.node_name.as_ref()),
        nominated: filled(pod.status.nominated_node_name.as_ref()),
        deleting: pod.metadata.deletion_timestamp.is_some(),
        mirror: pod.metadata.annotations.mirror.is_some(),
        owner: controller(&pod.metadata, to),
        life,
        line: 0,
        source: 0,
    }
}

pub(crate) fn read_template(
    template: &wire::Template<'_>,
    at: &At<'_>,
    to: &mut Converter<'_>,
) -> PodTemplate {
    PodTemplate {
        shape: read_shape(&template.metadata, &template.spec, None, at, to),
        volumes: read_volumes(&template.spec.volumes, to),
    }
}

fn read_shape(
    metadata: &Metadata<'_>,
    spec: &wire::PodSpec<'_>,
    status: Option<&wire::PodStatus<'_>>,
    at: &At<'_>,
    to: &mut Converter<'_>,
) -> Arc<PodShape> {
    let at = at.key("spec");
    if spec.containers.is_empty() {
        to.findings.add(&at.key("containers"), "is empty; a pod has at least one container");
    }
    let labels = to.labels(&metadata.labels);
    let affinity = &spec.affinity;
    let affinity_at = at.key("affinity");
    let nodes_at = affinity_at.key("nodeAffinity");
    let pods_at = affinity_at.key("podAffinity");
    let anti_at = affinity_at.key("podAntiAffinity");
    let core = PodSpec {
        node_selector: to.node_selector(&spec.node_selector),
        node_affinity: placement::required_node_affinity(&affinity.node_affinity, &nodes_at, to),
        node_preferences: placement::node_preferences(&affinity.node_affinity, &nodes_at, to),
        affinity: placement::pod_terms(&affinity.pod_affinity, &labels, &pods_at, to),
        affinity_preferences: placement::pod_preferences(&affinity.pod_affinity, &labels, &pods_at, to),
        anti_affinity: placement::pod_terms(&affinity.pod_anti_affinity, &labels, &anti_at, to),
        anti_affinity_preferences: placement::pod_preferences(
            &affinity.pod_anti_affinity,
            &labels,
            &anti_at,
            to,
        ),
        spread: placement::spreads(
            &spec.topology_spread_constraints,
            &labels,
            &at.key("topologySpreadConstraints"),
            to,
        ),
        tolerations: to.tolerations(&spec.tolerations, &at.key("tolerations")),
        host_ports: placement::host_ports(spec, &at, to),
        scheduling_gates: spec.scheduling_gates.iter().map(|gate| to.text(&gate.name)).collect(),
        labels,
        requests: Resources::new(),
        priority: 0,
    };
    let class = spec.priority_class_name.as_ref().filter(|class| !class.is_empty());
    let priority = match (spec.priority, class) {
        (Some(value), _) => PriorityRef::Value(value),
        (None, Some(class)) => PriorityRef::Class(to.text(class)),
        (None, None) => PriorityRef::Default,
    };
    let shape = PodShape {
        spec: core,
        demand: Demand::read(spec, status, &at, to),
        priority,
        runtime_class: spec.runtime_class_name.as_ref().map(|class| to.text(class)),
    };
    to.interner.shape(shape)
}

fn read_volumes(volumes: &[wire::Volume<'_>], to: &mut Converter<'_>) -> Vec<TemplateVolume> {
    let mut read = Vec::new();
    for volume in volumes {
        let kind = match (&volume.persistent_volume_claim, &volume.ephemeral) {
            (Some(claim), _) => TemplateVolumeKind::Claim(to.text(&claim.claim_name)),
            (None, Some(ephemeral)) => TemplateVolumeKind::Ephemeral {
                storage_class: ephemeral
                    .volume_claim_template
                    .as_ref()
                    .and_then(|template| template.spec.storage_class_name.as_ref())
                    .map(|class| to.text(class)),
            },
            (None, None) => continue,
        };
        read.push(TemplateVolume { name: to.text(&volume.name), kind });
    }
    read
}

/// A name in a pod's spec that no object has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dangling {
    /// Below the pod's `spec`.
    pub(crate) field: &'static str,
    pub(crate) message: String,
}

struct Finished {
    spec: Result<Arc<PodSpec>, Dangling>,
    /// Keeps the address from being anybody else's.
    _shape: Arc<PodShape>,
}

/// Finishes shapes with what the other objects say, each distinct one once.
pub(crate) struct Finisher<'a> {
    policies: &'a Policies,
    /// By the shape's address, namespace, and whether the pod has passed admission.
    finished: HashMap<(*const PodShape, Text, bool), Finished, FxBuildHasher>,
    spreading: Spreading<'a>,
    /// By the address of the spec, which the others keep, namespace, and whether a controller replicates the pod.
    spread: HashMap<(*const PodSpec, Text, bool), Arc<PodSpec>, FxBuildHasher>,
}

impl<'a> Finisher<'a> {
    pub(crate) fn new(policies: &'a Policies, spreading: Spreading<'a>) -> Self {
        Self { policies, finished: HashMap::default(), spreading, spread: HashMap::default() }
    }

    /// The spec of a pod of this shape, with the spread that the scheduler asks of pods that ask for none.
    pub(crate) fn finish_spread(
        &mut self,
        shape: &Arc<PodShape>,
        namespace: &Text,
        (bound, is_replicated): (bool, bool),
    ) -> Result<Arc<PodSpec>, Dangling> {
        let spec = self.finish(shape, namespace, bound)?;
        if !self.spreading.is_needed(&spec.spread) {
            return Ok(spec);
        }
        let key = (Arc::as_ptr(&spec), namespace.clone(), is_replicated);
        let spread = self.spread.entry(key).or_insert_with(|| {
            let spread = self.spreading.of(&spec.labels, namespace, is_replicated);
            Arc::new(PodSpec { spread, ..(*spec).clone() })
        });
        Ok(spread.clone())
    }

    /// The spec of a pod of this shape.
    ///
    /// Admission resolves priorities, so a pod with one (and a pod on a node) has passed it: defaults
    /// were added then, and those of today are not for it.
    pub(crate) fn finish(
        &mut self,
        shape: &Arc<PodShape>,
        namespace: &Text,
        bound: bool,
    ) -> Result<Arc<PodSpec>, Dangling> {
        let admitted = bound || matches!(shape.priority, PriorityRef::Value(_));
        let key = (Arc::as_ptr(shape), namespace.clone(), admitted);
        if let Some(finished) = self.finished.get(&key) {
            return finished.spec.clone();
        }
        let defaults = self.policies.default_requests(namespace).filter(|_| !admitted);
        let spec = finish(shape, defaults, self.policies, admitted).map(Arc::new);
        self.finished.insert(key, Finished { spec: spec.clone(), _shape: shape.clone() });
        spec
    }
}

fn finish(
    shape: &PodShape,
    defaults: Option<&DefaultRequests>,
    policies: &Policies,
    admitted: bool,
) -> Result<PodSpec, Dangling> {
    let mut spec = shape.spec.clone();
    spec.priority = match &shape.priority {
        PriorityRef::Value(value) => *value,
        PriorityRef::Default => policies.default_priority(),
        PriorityRef::Class(class) => policies.priority(class).ok_or_else(|| Dangling {
            field: "priorityClassName",
            message: format!(
                "the PriorityClass `{class}` is not in the input; add it, or use one of {}",
                policies.priority_classes().collect::<Vec<_>>().join(", ")
            ),
        })?,
    };
    let mut overhead = None;
    if let Some(name) = &shape.runtime_class {
        match policies.runtime_class(name) {
            Some(class) => {
                overhead = Some(&class.overhead).filter(|overhead| !overhead.is_empty());
                add_missing::<Expression>(&mut spec.node_selector, &class.node_selector);
                add_missing::<Toleration>(&mut spec.tolerations, &class.tolerations);
            }
            // A pod that the cluster has admitted already carries what its class asks for.
            None if admitted => {}
            None => {
                return Err(Dangling {
                    field: "runtimeClassName",
                    message: format!("the RuntimeClass `{name}` is not in the input; add it"),
                });
            }
        }
    }
    spec.requests = shape.demand.effective(defaults, overhead);
    Ok(spec)
}

fn add_missing<T: Clone + PartialEq>(all: &mut Vec<T>, more: &[T]) {
    for item in more {
        if !all.contains(item) {
            all.push(item.clone());
        }
    }
}

impl PodObject {
    pub(crate) fn is_active(&self) -> bool {
        !matches!(self.phase, PodPhase::Succeeded | PodPhase::Failed)
    }

    pub(crate) fn into_core(self, spec: Arc<PodSpec>, now: Timestamp) -> Pod {
        let disruption = self.life.judged(self.owner.as_ref().map(|owner| &*owner.kind), now);
        let daemon_set =
            self.owner.filter(|owner| &*owner.kind == "DaemonSet").map(|owner| owner.name.clone());
        Pod {
            namespace: self.namespace,
            name: self.name,
            spec,
            phase: self.phase,
            node: self.node,
            nominated: self.nominated,
            is_fresh: false,
            deleting: self.deleting,
            origin: PodOrigin::Object,
            daemon_set,
            mirror: self.mirror,
            volumes: self.volumes,
            disruption,
        }
    }
}
