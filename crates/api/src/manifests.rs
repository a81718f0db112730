//! All objects of the input, each read into what Berth knows of its kind.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::thread;

use berth_core::catalog::OfferingPattern;
use berth_core::names::{Labels, Text};
use berth_core::overlay::Overlay;
use berth_core::volume::Storage;
use rustc_hash::FxBuildHasher;
use serde::Deserialize;

use crate::ahead::{Ahead, Outcome, Unread};
use crate::budgets::{self, BudgetObject};
use crate::buffers::{self, Buffer};
use crate::builtin::{self, Metadata};
use crate::convert::Converter;
use crate::documents::{self, Body, Document, without_position};
use crate::intern::Interner;
use crate::kinds::{Kind, Meaning, meaning};
use crate::locate::KeptTexts;
use crate::nodes::{self, NodeObject};
use crate::pods::{self, PodObject, PodTemplate};
use crate::policies::{self, Policies};
use crate::pools::gardener::{self, ConstraintPoolObject};
use crate::pools::karpenter::{self, ClaimObject, NodePoolObject};
use crate::pools::kubelet::{self, Kubelet};
use crate::pools::vpsie::{self, NodeGroupObject};
use crate::problem::{At, Finding, Findings, Path, Problem};
use crate::resources as custom;
use crate::source::{self, Source};
use crate::storage;
use crate::tree::Tree;
use crate::workloads::{self, Workload, WorkloadKind};

pub(crate) const DEFAULT_NAMESPACE: &str = "default";

/// What was read: objects that are right by themselves, and what is wrong with the others.
#[derive(Debug, Default)]
pub struct Manifests {
    pub problems: Vec<Problem>,
    /// Objects of kinds that Berth does not use, counted by kind.
    pub skipped: BTreeMap<String, usize>,
    pub(crate) sources: Vec<Arc<str>>,
    /// Which of them are listings of a cluster.
    pub(crate) listed: BTreeSet<u32>,
    pub(crate) texts: KeptTexts,
    pub(crate) pods: Vec<PodObject>,
    pub(crate) workloads: Vec<Kept<Workload>>,
    pub(crate) daemon_sets: Vec<Kept<PodTemplate>>,
    pub(crate) pod_templates: BTreeMap<(Text, Text), PodTemplate>,
    pub(crate) nodes: Vec<Kept<NodeObject>>,
    pub(crate) volume_limits: BTreeMap<Text, BTreeMap<Text, u32>>,
    pub(crate) namespaces: BTreeMap<Text, Labels>,
    pub(crate) storage: Storage,
    pub(crate) policies: Policies,
    pub(crate) budgets: Vec<Kept<BudgetObject>>,
    pub(crate) node_pools: Vec<Kept<NodePoolObject>>,
    pub(crate) claims: Vec<Kept<ClaimObject>>,
    pub(crate) overlays: Vec<Kept<Overlay>>,
    pub(crate) kwok_classes: Vec<Text>,
    pub(crate) ec2_classes: BTreeMap<Text, Kubelet>,
    pub(crate) buffers: Vec<Kept<Buffer>>,
    pub(crate) node_groups: Vec<Kept<NodeGroupObject>>,
    pub(crate) group_nodes_max: Option<u32>,
    /// How many nodes of a group may go at once.
    pub(crate) group_removals_max: Option<u32>,
    pub(crate) constraint_pools: Vec<Kept<ConstraintPoolObject>>,
    pub(crate) unavailable: Vec<OfferingPattern>,
}

/// An object with its identity and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Kept<T> {
    pub(crate) origin: Origin,
    pub(crate) namespace: Text,
    pub(crate) name: Text,
    pub(crate) object: T,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    pub(crate) kind: Kind,
    /// An index into the manifests' sources.
    pub(crate) source: u32,
    pub(crate) line: u32,
}

/// How an object is called in messages.
pub(crate) fn object_name(kind: &str, namespace: &str, name: &str) -> String {
    if namespace.is_empty() || namespace == DEFAULT_NAMESPACE {
        format!("{kind}/{name}")
    } else {
        format!("{kind}/{namespace}/{name}")
    }
}

/// Reads all objects of all sources. What is wrong with one never stops the others.
///
/// `on_progress` is told now and then how many bytes and objects have been read.
pub fn read<S: Borrow<Source>>(
    sources: impl IntoIterator<Item = S>,
    on_progress: &mut dyn FnMut(usize, usize),
) -> Manifests {
    const OBJECTS_PER_REPORT: usize = 1024;
    let mut reader = Reader::default();
    let (mut bytes, mut objects) = (0, 0);
    for source in sources {
        let mut problems = Vec::new();
        let is_listed = matches!(source.borrow(), Source::Listed { .. });
        source::for_each_text(
            source.borrow(),
            &mut |name, text| {
                reader.begin(name, text, is_listed);
                let malformed = &mut Vec::new();
                thread::scope(|scope| {
                    let mut ahead = Ahead::new(scope);
                    documents::for_each_document(
                        text,
                        &mut |document| {
                            reader.admit(document, &mut ahead);
                            objects += 1;
                            if objects % OBJECTS_PER_REPORT == 0 {
                                on_progress(bytes, objects);
                            }
                        },
                        &mut |refused| malformed.push(refused),
                    );
                    reader.catch_up(&mut ahead);
                });
                reader.manifests.problems.extend(malformed.drain(..).map(|refused| Problem {
                    source: name.clone(),
                    line: Some(refused.line),
                    object: None,
                    field: None,
                    message: refused.message,
                }));
                bytes += text.len();
                on_progress(bytes, objects);
            },
            &mut problems,
        );
        reader.manifests.problems.append(&mut problems);
    }
    reader.manifests.policies.settle();
    reader.manifests
}

#[derive(Default)]
struct Reader {
    manifests: Manifests,
    interner: Interner,
    /// All objects but pods, which are compared when they are sorted.
    seen: HashSet<(Kind, Text, Text), FxBuildHasher>,
    /// The object that is being read: it counts as seen once nothing is wrong with it.
    reading: Option<(Kind, Text, Text)>,
}

/// Why an object was not taken.
pub(crate) enum Refused {
    Json(serde_json::Error),
    Wrong(Vec<Finding>),
    /// Another takes its place.
    Replaced,
}

impl Refused {
    fn at(at: &At<'_>, message: impl Into<String>) -> Self {
        Self::Wrong(vec![Finding { path: at.path(), message: message.into() }])
    }
}

impl<'a> Body<'a, 'a> {
    fn read<T: Deserialize<'a>>(self) -> Result<T, Refused> {
        match self {
            Self::Json(text) => serde_json::from_str(text).map_err(Refused::Json),
            Self::Yaml(tree) => T::deserialize(tree).map_err(|error| {
                let (path, message) = error.into_path_and_message();
                let message = match path.to_string().rsplit('.').next() {
                    Some("nodeClassRef") if message == "is missing" => {
                        "is missing; name the class that the nodes are made from (group, kind, name)"
                            .to_owned()
                    }
                    _ => message,
                };
                Refused::Wrong(vec![Finding { path, message }])
            }),
        }
    }
}

impl Reader {
    fn begin(&mut self, name: &Arc<str>, text: &str, is_listed: bool) {
        self.manifests.sources.push(name.clone());
        if is_listed {
            self.manifests.listed.insert(self.source());
        }
        self.manifests.texts.keep(name, text);
    }

    /// The source that is being read.
    fn source(&self) -> u32 {
        u32::try_from(self.manifests.sources.len().saturating_sub(1)).unwrap_or(u32::MAX)
    }

    fn is_listed(&self) -> bool {
        self.manifests.listed.contains(&self.source())
    }

    fn admit<'t>(&mut self, document: Document<'t, '_>, ahead: &mut Ahead<'_, 't>) {
        let Document { body, line, line_offset, header } = document;
        let kind = match meaning(&header) {
            Meaning::Known(kind) => kind,
            Meaning::Foreign(kind) => {
                *self.manifests.skipped.entry(kind).or_insert(0) += 1;
                return;
            }
            Meaning::Unclear(field, message) => {
                self.catch_up(ahead);
                return self.refuse(line, header.kind, Some(field.to_owned()), message);
            }
        };
        let origin = Origin { kind, source: self.source(), line: u32::try_from(line).unwrap_or(u32::MAX) };
        match body {
            Body::Json(text) if kind == Kind::Pod => {
                let outcomes = ahead.read(Unread { text, line_offset, origin }, &mut self.interner);
                self.keep(outcomes);
            }
            Body::Json(text) => {
                self.catch_up(ahead);
                self.admit_json(text, line_offset, origin);
            }
            Body::Yaml(tree) => {
                self.catch_up(ahead);
                self.admit_tree(tree, line_offset, origin);
            }
        }
    }

    /// Takes the pods that stand before what comes next, so that problems keep their order.
    fn catch_up(&mut self, ahead: &mut Ahead<'_, '_>) {
        let outcomes = ahead.rest(&mut self.interner);
        self.keep(outcomes);
    }

    fn keep(&mut self, outcomes: Vec<Outcome<'_>>) {
        for outcome in outcomes {
            match outcome {
                Ok(pod) => self.manifests.pods.push(pod),
                Err(Unread { text, line_offset, origin }) => self.admit_json(text, line_offset, origin),
            }
        }
    }

    fn admit_json(&mut self, text: &str, line_offset: usize, origin: Origin) {
        let refused = match self.store(Body::Json(text), origin) {
            Ok(()) | Err(Refused::Replaced) => return,
            Err(refused) => refused,
        };
        let object = Some(origin.kind.name().to_owned());
        // JSON is read for speed and says little of where it failed. The tree knows, and it
        // also forgives what Kubernetes forgives: `null` where a list or a mapping may stand.
        match (Tree::parse(text), refused) {
            (Ok(tree), _) => self.admit_tree(&tree, line_offset, origin),
            (Err(_), Refused::Json(error)) => {
                self.refuse(line_offset + error.line(), object, None, without_position(&error));
            }
            (Err(_), Refused::Replaced) => {}
            (Err(_), Refused::Wrong(findings)) => {
                for Finding { path, message } in findings {
                    self.refuse(line_offset + 1, object.clone(), Some(path.to_string()), message);
                }
            }
        }
    }

    fn admit_tree(&mut self, tree: &Tree<'_>, line_offset: usize, origin: Origin) {
        let findings = match self.store(Body::Yaml(tree), origin) {
            Ok(()) | Err(Refused::Replaced) => return,
            Err(Refused::Wrong(findings)) => findings,
            Err(Refused::Json(error)) => vec![Finding { path: Path::default(), message: error.to_string() }],
        };
        let text = |key: &str| {
            tree.get("metadata")
                .and_then(|metadata| metadata.get(key))
                .and_then(Tree::text)
                .unwrap_or_default()
        };
        let object = match (text("name"), text("namespace")) {
            ("", _) => origin.kind.name().to_owned(),
            (name, namespace) => object_name(origin.kind.name(), namespace, name),
        };
        for Finding { path, message } in findings {
            let line = line_offset + tree.line_of(&path);
            let field = Some(path.to_string()).filter(|field| !field.is_empty());
            self.refuse(line, Some(object.clone()), field, message);
        }
    }

    fn refuse(&mut self, line: usize, object: Option<String>, field: Option<String>, message: String) {
        let source = self.manifests.sources.last().cloned().unwrap_or_default();
        self.manifests.problems.push(Problem { source, line: Some(line), object, field, message });
    }

    /// Reads the object and keeps it, if nothing is wrong with it.
    fn store(&mut self, body: Body<'_, '_>, origin: Origin) -> Result<(), Refused> {
        self.reading = None;
        self.store_builtin(body, origin)?;
        self.seen.extend(self.reading.take());
        Ok(())
    }

    fn store_builtin(&mut self, body: Body<'_, '_>, origin: Origin) -> Result<(), Refused> {
        match origin.kind {
            Kind::Pod => {
                let pod = read_pod(body, origin, &mut self.interner)?;
                self.manifests.pods.push(pod);
            }
            Kind::Deployment => self.replicated(body, origin, WorkloadKind::Deployment)?,
            Kind::ReplicaSet => self.replicated(body, origin, WorkloadKind::ReplicaSet)?,
            Kind::StatefulSet => self.replicated(body, origin, WorkloadKind::StatefulSet)?,
            Kind::Job => {
                let wire: builtin::workload::Job<'_> = body.read()?;
                let id = self.new_identity(origin.kind, &wire.metadata)?;
                let job = self.convert(|to| workloads::read_job(&wire, id.clone(), to))?;
                self.manifests.workloads.push(kept(origin, id, job));
            }
            Kind::CronJob => {
                let wire: builtin::workload::Workload<'_, builtin::workload::CronJobSpec<'_>> =
                    body.read()?;
                let id = self.new_identity(origin.kind, &wire.metadata)?;
                let job = self.convert(|to| workloads::read_cron_job(&wire, id.clone(), to))?;
                self.manifests.workloads.push(kept(origin, id, job));
            }
            Kind::DaemonSet => {
                let wire: ReplicatedWire<'_> = body.read()?;
                let id = self.new_identity(origin.kind, &wire.metadata)?;
                let spec = At::ROOT.key("spec");
                let template =
                    self.convert(|to| pods::read_template(&wire.spec.template, &spec.key("template"), to))?;
                self.manifests.daemon_sets.push(kept(origin, id, template));
            }
            Kind::PodTemplate => {
                let id = self.new_identity(origin.kind, &body.read::<Identified<'_>>()?.metadata)?;
                let wire: builtin::pod::PodTemplate<'_> = body.read()?;
                let template =
                    self.convert(|to| pods::read_template(&wire.template, &At::ROOT.key("template"), to))?;
                self.manifests.pod_templates.insert(id, template);
            }
            Kind::Node => {
                let wire: builtin::node::Node<'_> = body.read()?;
                let id = self.new_identity(origin.kind, &wire.metadata)?;
                let node = self.convert(|to| nodes::read_node(&wire, id.1.clone(), to))?;
                self.manifests.nodes.push(kept(origin, id, node));
            }
            Kind::Namespace => {
                let wire: builtin::node::Namespace<'_> = body.read()?;
                let (_, name) = self.new_identity(origin.kind, &wire.metadata)?;
                let labels = self.convert(|to| to.labels(&wire.metadata.labels))?;
                self.manifests.namespaces.insert(name, labels);
            }
            Kind::PersistentVolumeClaim => {
                let wire: builtin::storage::Claim<'_> = body.read()?;
                let id = self.new_identity(origin.kind, &wire.metadata)?;
                let claim = self.convert(|to| storage::read_claim(&wire, to))?;
                self.manifests.storage.claims.insert(id, claim);
            }
            Kind::StorageClass => {
                let wire: builtin::storage::Class<'_> = body.read()?;
                let (_, name) = self.new_identity(origin.kind, &wire.metadata)?;
                let class = self.convert(|to| storage::read_class(&wire, to))?;
                self.manifests.storage.classes.insert(name, class);
            }
            Kind::LimitRange => {
                let wire: builtin::policy::LimitRange<'_> = body.read()?;
                let id = self.new_identity(origin.kind, &wire.metadata)?;
                let requests = self.convert(|to| policies::read_limit_range(&wire, to))?;
                self.manifests.policies.limit_ranges.insert(id, requests);
            }
            Kind::PersistentVolume
            | Kind::CsiNode
            | Kind::PodDisruptionBudget
            | Kind::PriorityClass
            | Kind::RuntimeClass => self.store_named(body, origin)?,
            _ => self.store_custom(body, origin)?,
        }
        Ok(())
    }

    /// Built-in kinds of which only the name matters beside their spec.
    fn store_named(&mut self, body: Body<'_, '_>, origin: Origin) -> Result<(), Refused> {
        let id = self.new_identity(origin.kind, &body.read::<Identified<'_>>()?.metadata)?;
        match origin.kind {
            Kind::PersistentVolume => {
                let wire = body.read()?;
                let volume = self.convert(|to| storage::read_volume(&wire, to))?;
                self.manifests.storage.volumes.insert(id.1, volume);
            }
            Kind::CsiNode => {
                let wire = body.read()?;
                let limits = self.convert(|to| storage::read_csi_node(&wire, to))?;
                self.manifests.volume_limits.insert(id.1, limits);
            }
            Kind::PriorityClass => {
                let wire = body.read()?;
                let class = self.convert(|to| policies::read_priority_class(&wire, &id.1, to))?;
                self.manifests.policies.priority_classes.insert(id.1, class);
            }
            Kind::RuntimeClass => {
                let wire = body.read()?;
                let class = self.convert(|to| policies::read_runtime_class(&wire, to))?;
                self.manifests.policies.runtime_classes.insert(id.1, class);
            }
            _ => {
                let wire = body.read()?;
                if let Some(budget) = self.convert(|to| budgets::read_budget(&wire, to))? {
                    self.manifests.budgets.push(kept(origin, id, budget));
                }
            }
        }
        Ok(())
    }

    fn store_custom(&mut self, body: Body<'_, '_>, origin: Origin) -> Result<(), Refused> {
        let id = self.new_identity(origin.kind, &body.read::<Identified<'_>>()?.metadata)?;
        let name = id.1.clone();
        match origin.kind {
            Kind::NodePool => {
                let wire: custom::karpenter::NodePool = body.read()?;
                let pool = self.convert(|to| karpenter::read_node_pool(&wire, name, to))?;
                self.manifests.node_pools.push(kept(origin, id, pool));
            }
            Kind::NodeClaim => {
                let wire: custom::karpenter::NodeClaim = body.read()?;
                let claim = self.convert(|to| karpenter::read_node_claim(&wire, name, to))?;
                self.manifests.claims.push(kept(origin, id, claim));
            }
            Kind::NodeOverlay => {
                let wire: custom::karpenter::NodeOverlay = body.read()?;
                let overlay = self.convert(|to| karpenter::read_overlay(&wire, name, to))?;
                self.manifests.overlays.push(kept(origin, id, overlay));
            }
            Kind::Ec2NodeClass => {
                let wire: custom::nodeclass::EC2NodeClass = body.read()?;
                let kubelet = self.convert(|to| kubelet::read_kubelet(&wire, to))?;
                self.manifests.ec2_classes.insert(name, kubelet);
            }
            Kind::KwokNodeClass => {
                let _spec: custom::nodeclass::KWOKNodeClassSpec = body.read::<OptionalSpec<_>>()?.spec;
                self.manifests.kwok_classes.push(name);
            }
            Kind::CapacityBuffer => {
                let wire: custom::buffer::CapacityBuffer = body.read()?;
                if let Some(buffer) = self.convert(|to| buffers::read_buffer(&wire, id.clone(), to))? {
                    self.manifests.buffers.push(kept(origin, id, buffer));
                }
            }
            Kind::NodeGroup => {
                let wire: custom::vpsie::NodeGroup = body.read()?;
                let group = self.convert(|to| vpsie::read_node_group(&wire, name, to))?;
                self.manifests.node_groups.push(kept(origin, id, group));
            }
            Kind::VpsieNode => {
                let wire: custom::vpsie::VPSieNode = body.read()?;
                if let Some(claim) = self.convert(|to| vpsie::read_vpsie_node(&wire, name, to))? {
                    self.manifests.claims.push(kept(origin, id, claim));
                }
            }
            Kind::AutoscalerConfig => {
                let wire: custom::vpsie::AutoscalerConfig = body.read()?;
                self.manifests.group_nodes_max = vpsie::nodes_max(&wire);
                let settings = &wire.spec.global_settings;
                self.manifests.group_removals_max = Some(settings.max_concurrent_scale_downs.get());
            }
            Kind::ScalingConstraint => {
                let wire: custom::gardener::ScalingConstraint = body.read()?;
                let pools = self.convert(|to| gardener::read_constraint(&wire, to))?;
                let pools = pools.into_iter().map(|pool| kept(origin, id.clone(), pool));
                self.manifests.constraint_pools.extend(pools);
            }
            _ => {
                let wire: custom::gardener::ScalingFeedback = body.read()?;
                let patterns = self.convert(|to| gardener::read_feedback(&wire, to))?;
                self.manifests.unavailable.extend(patterns);
            }
        }
        Ok(())
    }

    fn replicated(&mut self, body: Body<'_, '_>, origin: Origin, kind: WorkloadKind) -> Result<(), Refused> {
        let wire: ReplicatedWire<'_> = body.read()?;
        let id = self.new_identity(origin.kind, &wire.metadata)?;
        let workload = self.convert(|to| workloads::read_replicated(kind, &wire, id.clone(), to))?;
        self.manifests.workloads.push(kept(origin, id, workload));
        Ok(())
    }

    fn convert<T>(&mut self, convert: impl FnOnce(&mut Converter<'_>) -> T) -> Result<T, Refused> {
        convert_with(&mut self.interner, convert)
    }

    /// The identity of an object that must be the first of its kind and name.
    fn new_identity(&mut self, kind: Kind, metadata: &Metadata<'_>) -> Result<(Text, Text), Refused> {
        let id = identity(kind, metadata, &mut self.interner)?;
        let key = (kind, id.0.clone(), id.1.clone());
        if !self.seen.contains(&key) {
            self.reading = Some(key);
            return Ok(id);
        }
        if self.is_listed() {
            return Err(Refused::Replaced);
        }
        let at = At::ROOT.key("metadata");
        Err(Refused::at(
            &at.key("name"),
            format!("there is another {} of this name; remove one", kind.name()),
        ))
    }
}

/// A pod by itself, which is all that most of a large input is.
pub(crate) fn read_pod(
    body: Body<'_, '_>,
    origin: Origin,
    interner: &mut Interner,
) -> Result<PodObject, Refused> {
    let wire: builtin::pod::Pod<'_> = body.read()?;
    let (namespace, name) = identity(origin.kind, &wire.metadata, interner)?;
    let mut pod = convert_with(interner, |to| pods::read_pod(&wire, namespace, name, to))?;
    (pod.source, pod.line) = (origin.source, origin.line);
    Ok(pod)
}

fn convert_with<T>(
    interner: &mut Interner,
    convert: impl FnOnce(&mut Converter<'_>) -> T,
) -> Result<T, Refused> {
    let mut findings = Findings::default();
    let value = convert(&mut Converter { findings: &mut findings, interner });
    if findings.is_empty() { Ok(value) } else { Err(Refused::Wrong(findings.0)) }
}

fn identity(kind: Kind, metadata: &Metadata<'_>, interner: &mut Interner) -> Result<(Text, Text), Refused> {
    let Some(name) = metadata.name.as_ref().filter(|name| !name.is_empty()) else {
        let at = At::ROOT.key("metadata");
        return Err(Refused::at(&at.key("name"), "is missing; a plan calls each object by its name"));
    };
    let namespace = metadata.namespace.as_deref().filter(|namespace| !namespace.is_empty());
    let namespace = if kind.is_namespaced() { namespace.unwrap_or(DEFAULT_NAMESPACE) } else { "" };
    Ok((interner.text(namespace), Text::from(&**name)))
}

type ReplicatedWire<'a> = builtin::workload::Workload<'a, builtin::workload::ReplicatedSpec<'a>>;

#[derive(Debug, Deserialize)]
struct Identified<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
}

/// A class whose spec has nothing but defaults need not have one.
#[derive(Debug, Deserialize)]
struct OptionalSpec<T> {
    #[serde(default)]
    spec: T,
}

fn kept<T>(origin: Origin, (namespace, name): (Text, Text), object: T) -> Kept<T> {
    Kept { origin, namespace, name, object }
}
