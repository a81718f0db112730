//! What one object comes to, by itself: read once, kept for as long as the object is there.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_core::catalog::OfferingPattern;
use berth_core::names::{Labels, Text};
use berth_core::overlay::Overlay;
use berth_core::resources::Resources;
use berth_core::volume::{StorageClass, Volume, VolumeClaim};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use crate::assemble::ClassKind;
use crate::budgets::{self, BudgetObject};
use crate::buffers::{self, Buffer};
use crate::builtin::{self, Metadata};
use crate::convert::Converter;
use crate::documents::Body;
use crate::intern::Interner;
use crate::kinds::Kind;
use crate::manifests::{DEFAULT_NAMESPACE, Kept, Manifests, Origin, Refused};
use crate::nodes::{self, NodeObject};
use crate::pods::{self, PodObject, PodTemplate};
use crate::policies::{self, PriorityClass, RuntimeClass};
use crate::pools::class::{self, VpsieClassObject};
use crate::pools::gardener::{self, ConstraintPoolObject};
use crate::pools::growth::GroupSettings;
use crate::pools::karpenter::{self, ClaimObject, NodePoolObject};
use crate::pools::kubelet::{self, Kubelet};
use crate::pools::vpsie::{self, NodeGroupObject};
use crate::problem::{At, Findings};
use crate::resources as custom;
use crate::storage;
use crate::template::NewGroups;
use crate::workloads::{self, Workload, WorkloadKind};

/// Namespace and name; the namespace of what has none is empty.
pub(crate) type Id = (Text, Text);

/// An object of each kind. Those of which there are many are shared: of a cluster that is watched they are kept, and
/// put together again and again.
#[derive(Clone, Debug)]
pub(crate) enum Piece {
    Pod(Arc<PodObject>),
    Workload(Box<Workload>),
    DaemonSet(PodTemplate),
    PodTemplate(PodTemplate),
    Node(Arc<NodeObject>),
    VolumeLimits(BTreeMap<Text, u32>),
    Namespace(Labels),
    VolumeClaim(VolumeClaim),
    Volume(Volume),
    StorageClass(StorageClass),
    LimitRange(Resources),
    PriorityClass(PriorityClass),
    RuntimeClass(Box<RuntimeClass>),
    /// One without a selector protects nothing.
    Budget(Option<Box<BudgetObject>>),
    NodePool(Box<NodePoolObject>),
    Claim(Option<Arc<ClaimObject>>),
    Overlay(Box<Overlay>),
    /// Why it cannot be used, if so.
    KwokClass(Option<String>),
    Ec2Class(Box<Kubelet>, Option<String>),
    VpsieClass(Box<VpsieClassObject>),
    Buffer(Option<Box<Buffer>>),
    /// Its selector.
    Service(Labels),
    NodeGroup(Box<NodeGroupObject>),
    GroupSettings(GroupSettings, Arc<NewGroups>),
    ConstraintPools(Vec<ConstraintPoolObject>),
    Unavailable(Vec<OfferingPattern>),
}

/// Who an object is, before anything else is asked of it.
pub(crate) fn identity_in(body: Body<'_, '_>, kind: Kind, interner: &mut Interner) -> Result<Id, Refused> {
    identity(kind, &body.read::<Identified<'_>>()?.metadata, interner)
}

pub(crate) fn identity(kind: Kind, metadata: &Metadata<'_>, interner: &mut Interner) -> Result<Id, Refused> {
    let Some(name) = metadata.name.as_ref().filter(|name| !name.is_empty()) else {
        let at = At::ROOT.key("metadata");
        return Err(Refused::at(&at.key("name"), "is missing; a plan calls each object by its name"));
    };
    let namespace = metadata.namespace.as_deref().filter(|namespace| !namespace.is_empty());
    let namespace = if kind.is_namespaced() { namespace.unwrap_or(DEFAULT_NAMESPACE) } else { "" };
    Ok((interner.text(namespace), Text::from(&**name)))
}

/// Reads the object of this kind and identity.
pub(crate) fn read(
    body: Body<'_, '_>,
    kind: Kind,
    id: &Id,
    interner: &mut Interner,
) -> Result<Piece, Refused> {
    let name = || id.1.clone();
    let mut read = Reading { body, interner };
    Ok(match kind {
        Kind::Pod => read.piece(|wire: builtin::pod::Pod<'_>, to| {
            Piece::Pod(Arc::new(pods::read_pod(&wire, id.0.clone(), name(), to)))
        })?,
        Kind::Deployment => read.replicated(WorkloadKind::Deployment, id)?,
        Kind::ReplicaSet => read.replicated(WorkloadKind::ReplicaSet, id)?,
        Kind::StatefulSet => read.replicated(WorkloadKind::StatefulSet, id)?,
        Kind::Job => read.piece(|wire: builtin::workload::Job<'_>, to| {
            Piece::Workload(Box::new(workloads::read_job(&wire, id.clone(), to)))
        })?,
        Kind::CronJob => read.piece(|wire: CronJobWire<'_>, to| {
            Piece::Workload(Box::new(workloads::read_cron_job(&wire, id.clone(), to)))
        })?,
        Kind::DaemonSet => read.piece(|wire: ReplicatedWire<'_>, to| {
            let spec = At::ROOT.key("spec");
            Piece::DaemonSet(pods::read_template(&wire.spec.template, &spec.key("template"), to))
        })?,
        Kind::PodTemplate => read.piece(|wire: builtin::pod::PodTemplate<'_>, to| {
            Piece::PodTemplate(pods::read_template(&wire.template, &At::ROOT.key("template"), to))
        })?,
        Kind::Node => read.piece(|wire: builtin::node::Node<'_>, to| {
            Piece::Node(Arc::new(nodes::read_node(&wire, name(), to)))
        })?,
        Kind::Namespace => read.piece(|wire: builtin::node::Namespace<'_>, to| {
            Piece::Namespace(to.labels(&wire.metadata.labels))
        })?,
        Kind::PersistentVolumeClaim => read.piece(|wire: builtin::storage::Claim<'_>, to| {
            Piece::VolumeClaim(storage::read_claim(&wire, to))
        })?,
        Kind::PersistentVolume => read.piece(|wire, to| Piece::Volume(storage::read_volume(&wire, to)))?,
        Kind::StorageClass => read.piece(|wire: builtin::storage::Class<'_>, to| {
            Piece::StorageClass(storage::read_class(&wire, to))
        })?,
        Kind::CsiNode => read.piece(|wire, to| Piece::VolumeLimits(storage::read_csi_node(&wire, to)))?,
        Kind::LimitRange => read.piece(|wire: builtin::policy::LimitRange<'_>, to| {
            Piece::LimitRange(policies::read_limit_range(&wire, to))
        })?,
        Kind::PriorityClass => {
            read.piece(|wire, to| Piece::PriorityClass(policies::read_priority_class(&wire, &id.1, to)))?
        }
        Kind::RuntimeClass => {
            read.piece(|wire, to| Piece::RuntimeClass(Box::new(policies::read_runtime_class(&wire, to))))?
        }
        Kind::PodDisruptionBudget => {
            read.piece(|wire, to| Piece::Budget(budgets::read_budget(&wire, to).map(Box::new)))?
        }
        Kind::NodePool => read.piece(|wire: custom::karpenter::NodePool, to| {
            Piece::NodePool(Box::new(karpenter::read_node_pool(&wire, name(), to)))
        })?,
        Kind::NodeClaim => read.piece(|wire: custom::karpenter::NodeClaim, to| {
            Piece::Claim(Some(Arc::new(karpenter::read_node_claim(&wire, name(), to))))
        })?,
        Kind::NodeOverlay => read.piece(|wire: custom::karpenter::NodeOverlay, to| {
            Piece::Overlay(Box::new(karpenter::read_overlay(&wire, name(), to)))
        })?,
        Kind::Ec2NodeClass => read.piece(|wire: custom::nodeclass::EC2NodeClass, to| {
            let conditions = wire.status.as_ref().map_or(&[][..], |status| &status.conditions);
            let trouble = karpenter::trouble_of(&wire.metadata, conditions);
            Piece::Ec2Class(Box::new(kubelet::read_kubelet(&wire, to)), trouble)
        })?,
        Kind::KwokNodeClass => read.piece(|wire: KwokClassWire, _| {
            let conditions = wire.status.as_ref().map_or(&[][..], |status| &status.conditions);
            Piece::KwokClass(karpenter::trouble_of(&wire.metadata, conditions))
        })?,
        Kind::VpsieNodeClass => read.piece(|wire: custom::berth::VPSieNodeClass, to| {
            Piece::VpsieClass(Box::new(class::read_vpsie_class(&wire, to)))
        })?,
        Kind::Service => read.piece(|wire: builtin::workload::Service<'_>, to| {
            Piece::Service(to.labels(&wire.spec.selector))
        })?,
        Kind::CapacityBuffer => read.piece(|wire: custom::buffer::CapacityBuffer, to| {
            Piece::Buffer(buffers::read_buffer(&wire, id.clone(), to).map(Box::new))
        })?,
        Kind::NodeGroup => read.piece(|wire: custom::vpsie::NodeGroup, to| {
            Piece::NodeGroup(Box::new(vpsie::read_node_group(&wire, name(), to)))
        })?,
        Kind::VpsieNode => read.piece(|wire: custom::vpsie::VPSieNode, to| {
            Piece::Claim(vpsie::read_vpsie_node(&wire, name(), to).map(Arc::new))
        })?,
        Kind::AutoscalerConfig => read.piece(|wire: custom::vpsie::AutoscalerConfig, _| {
            let settings = GroupSettings::of(&wire);
            let custom::vpsie::AutoscalerConfigSpec { node_group_defaults: defaults, global_settings } =
                wire.spec;
            let is_wanted = global_settings.enable_dynamic_node_group_creation;
            Piece::GroupSettings(settings, Arc::new(NewGroups { is_wanted, defaults }))
        })?,
        Kind::ScalingConstraint => read.piece(|wire: custom::gardener::ScalingConstraint, to| {
            Piece::ConstraintPools(gardener::read_constraint(&wire, to))
        })?,
        Kind::ScalingFeedback => read.piece(|wire: custom::gardener::ScalingFeedback, to| {
            Piece::Unavailable(gardener::read_feedback(&wire, to))
        })?,
    })
}

impl Manifests {
    /// Puts an object among the others.
    pub(crate) fn add(&mut self, piece: Piece, id: Id, origin: Origin) {
        match piece {
            Piece::Pod(pod) => self.pods.push(pod),
            Piece::Workload(workload) => self.workloads.push(kept(origin, id, *workload)),
            Piece::DaemonSet(template) => self.daemon_sets.push(kept(origin, id, template)),
            Piece::PodTemplate(template) => drop(self.pod_templates.insert(id, template)),
            Piece::Service(selector) => drop(self.services.insert(id, selector)),
            Piece::Node(node) => self.nodes.push(kept(origin, id, node)),
            Piece::VolumeLimits(limits) => drop(self.volume_limits.insert(id.1, limits)),
            Piece::Namespace(labels) => drop(self.namespaces.insert(id.1, labels)),
            Piece::VolumeClaim(claim) => drop(self.storage.claims.insert(id, claim)),
            Piece::Volume(volume) => drop(self.storage.volumes.insert(id.1, volume)),
            Piece::StorageClass(class) => drop(self.storage.classes.insert(id.1, class)),
            Piece::LimitRange(requests) => drop(self.policies.limit_ranges.insert(id, requests)),
            Piece::PriorityClass(class) => drop(self.policies.priority_classes.insert(id.1, class)),
            Piece::RuntimeClass(class) => drop(self.policies.runtime_classes.insert(id.1, *class)),
            Piece::Budget(budget) => {
                self.budgets.extend(budget.map(|budget| kept(origin, id, *budget)));
            }
            Piece::NodePool(pool) => self.node_pools.push(kept(origin, id, *pool)),
            Piece::Claim(claim) => self.claims.extend(claim.map(|claim| kept(origin, id, claim))),
            Piece::Overlay(overlay) => self.overlays.push(kept(origin, id, *overlay)),
            Piece::KwokClass(trouble) => drop(self.classes.insert((ClassKind::Kwok, id.1), trouble)),
            Piece::Ec2Class(kubelet, trouble) => {
                self.classes.insert((ClassKind::Ec2, id.1.clone()), trouble);
                self.kubelets.insert(id.1, *kubelet);
            }
            Piece::VpsieClass(class) => {
                self.classes.insert((ClassKind::Vpsie, id.1.clone()), class.trouble(self.is_whole));
                self.vpsie_classes.insert(id.1, *class);
            }
            Piece::Buffer(buffer) => {
                self.buffers.extend(buffer.map(|buffer| kept(origin, id, *buffer)));
            }
            Piece::NodeGroup(group) => self.node_groups.push(kept(origin, id, *group)),
            // There may be others, which say nothing.
            Piece::GroupSettings(settings, new_groups) if &*id.1 == custom::vpsie::CONFIG_NAME => {
                self.group_settings = settings;
                self.new_groups = Some(new_groups);
            }
            Piece::GroupSettings(..) => {}
            Piece::ConstraintPools(pools) => {
                self.constraint_pools.extend(pools.into_iter().map(|pool| kept(origin, id.clone(), pool)));
            }
            Piece::Unavailable(patterns) => self.unavailable.extend(patterns),
        }
    }
}

/// An object that is about to be read.
struct Reading<'a, 'i> {
    body: Body<'a, 'a>,
    interner: &'i mut Interner,
}

impl<'a> Reading<'a, '_> {
    fn piece<W: Deserialize<'a>>(
        &mut self,
        convert: impl FnOnce(W, &mut Converter<'_>) -> Piece,
    ) -> Result<Piece, Refused> {
        let wire: W = self.body.read()?;
        convert_with(self.interner, |to| convert(wire, to))
    }

    fn replicated(&mut self, kind: WorkloadKind, id: &Id) -> Result<Piece, Refused> {
        self.piece(|wire: ReplicatedWire<'_>, to| {
            Piece::Workload(Box::new(workloads::read_replicated(kind, &wire, id.clone(), to)))
        })
    }
}

/// What was converted, if nothing was found wrong with it.
pub(crate) fn convert_with<T>(
    interner: &mut Interner,
    convert: impl FnOnce(&mut Converter<'_>) -> T,
) -> Result<T, Refused> {
    let mut findings = Findings::default();
    let value = convert(&mut Converter { findings: &mut findings, interner });
    if findings.is_empty() { Ok(value) } else { Err(Refused::Wrong(findings.0)) }
}

type ReplicatedWire<'a> = builtin::workload::Workload<'a, builtin::workload::ReplicatedSpec<'a>>;
type CronJobWire<'a> = builtin::workload::Workload<'a, builtin::workload::CronJobSpec<'a>>;

#[derive(Debug, Deserialize)]
struct Identified<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
}

/// A class whose spec has nothing but defaults need not have one.
#[derive(Debug, Deserialize)]
struct KwokClassWire {
    metadata: ObjectMeta,
    #[serde(default, rename = "spec")]
    _spec: custom::nodeclass::KWOKNodeClassSpec,
    #[serde(default)]
    status: Option<custom::nodeclass::KWOKNodeClassStatus>,
}

fn kept<T>(origin: Origin, (namespace, name): Id, object: T) -> Kept<T> {
    Kept { origin, namespace, name, object }
}
