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
use crate::assemble::ClassKind;
use crate::budgets::BudgetObject;
use crate::buffers::Buffer;
use crate::builtin;
use crate::documents::{self, Body, Document, without_position};
use crate::intern::Interner;
use crate::kinds::{Kind, Meaning, meaning};
use crate::locate::KeptTexts;
use crate::nodes::NodeObject;
use crate::piece;
use crate::pods::{self, PodObject, PodTemplate};
use crate::policies::Policies;
use crate::pools::class::VpsieClassObject;
use crate::pools::gardener::ConstraintPoolObject;
use crate::pools::growth::GroupSettings;
use crate::pools::karpenter::{ClaimObject, NodePoolObject};
use crate::pools::kubelet::Kubelet;
use crate::pools::vpsie::NodeGroupObject;
use crate::problem::{At, Finding, Path, Problem};
use crate::source::{self, Source};
use crate::spreading::SchedulerConfig;
use crate::template::{GroupDefaults, NewGroups};
use crate::tree::Tree;
use crate::usage::Measured;
use crate::workloads::Workload;

pub(crate) const DEFAULT_NAMESPACE: &str = "default";

/// What was read: objects that are right by themselves, and what is wrong with the others.
#[derive(Debug, Default)]
pub struct Manifests {
    /// What is wrong with objects that only they themselves suffer from.
    pub(crate) confined_problems: Vec<Problem>,
    /// What nodes used, if anybody measures it.
    pub usage: Measured,
    /// What is said of new groups besides the AutoscalerConfig.
    pub group_defaults: GroupDefaults,
    /// What the cluster's scheduler is configured to.
    pub scheduler: SchedulerConfig,
    /// The selectors of Services, by namespace and name.
    pub(crate) services: BTreeMap<(Text, Text), Labels>,
    /// Whether nodes that no pool has bought are judged as those of a pool that could have.
    pub adopts: bool,
    /// Nodes with pods that cannot be read, and that may forbid anything.
    pub(crate) shrouded_nodes: BTreeSet<Text>,
    /// What is not among them does not exist. In files much is left out.
    pub(crate) is_whole: bool,
    pub problems: Vec<Problem>,
    /// Objects of kinds that Berth does not use, counted by kind.
    pub skipped: BTreeMap<String, usize>,
    pub(crate) sources: Vec<Arc<str>>,
    /// Which of them are listings of a cluster.
    pub(crate) listed: BTreeSet<u32>,
    pub(crate) texts: KeptTexts,
    pub(crate) pods: Vec<Arc<PodObject>>,
    pub(crate) workloads: Vec<Kept<Workload>>,
    pub(crate) daemon_sets: Vec<Kept<PodTemplate>>,
    pub(crate) pod_templates: BTreeMap<(Text, Text), PodTemplate>,
    pub(crate) nodes: Vec<Kept<Arc<NodeObject>>>,
    pub(crate) volume_limits: BTreeMap<Text, BTreeMap<Text, u32>>,
    pub(crate) namespaces: BTreeMap<Text, Labels>,
    pub(crate) storage: Storage,
    pub(crate) policies: Policies,
    pub(crate) budgets: Vec<Kept<BudgetObject>>,
    pub(crate) node_pools: Vec<Kept<NodePoolObject>>,
    pub(crate) claims: Vec<Kept<Arc<ClaimObject>>>,
    pub(crate) overlays: Vec<Kept<Overlay>>,
    /// The classes that there are, and of those that cannot be used, why not.
    pub(crate) classes: BTreeMap<(ClassKind, Text), Option<String>>,
    pub(crate) vpsie_classes: BTreeMap<Text, VpsieClassObject>,
    pub(crate) kubelets: BTreeMap<Text, Kubelet>,
    pub(crate) buffers: Vec<Kept<Buffer>>,
    pub(crate) node_groups: Vec<Kept<NodeGroupObject>>,
    pub(crate) group_settings: GroupSettings,
    /// Why it is not known what holds for all groups together: somebody has said it, and it cannot be read.
    pub(crate) unread_settings: Option<String>,
    pub(crate) new_groups: Option<Arc<NewGroups>>,
    pub(crate) constraint_pools: Vec<Kept<ConstraintPoolObject>>,
    pub(crate) unavailable: Vec<OfferingPattern>,
}

impl Manifests {
    /// Nothing yet, of what a cluster is going to tell.
    pub(crate) fn of_cluster() -> Self {
        Self { sources: vec!["cluster".into()], is_whole: true, ..Self::default() }
    }
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
pub fn object_name(kind: &str, namespace: &str, name: &str) -> String {
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
}

/// Why an object was not taken.
pub(crate) enum Refused {
    Json(serde_json::Error),
    Wrong(Vec<Finding>),
    /// Another takes its place.
    Replaced,
}

impl Refused {
    pub(crate) fn at(at: &At<'_>, message: impl Into<String>) -> Self {
        Self::Wrong(vec![Finding { path: at.path(), message: message.into() }])
    }
}

impl<'a> Body<'a, 'a> {
    pub(crate) fn read<T: Deserialize<'a>>(self) -> Result<T, Refused> {
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
                Ok(pod) => self.manifests.pods.push(Arc::new(pod)),
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
        if origin.kind == Kind::Pod {
            // Those of one name are found when all are there.
            self.manifests.pods.push(Arc::new(read_pod(body, origin, &mut self.interner)?));
            return Ok(());
        }
        let id = piece::identity_in(body, origin.kind, &mut self.interner)?;
        let key = (origin.kind, id.0.clone(), id.1.clone());
        if self.seen.contains(&key) {
            return Err(self.refusal_of_another(origin.kind));
        }
        let piece = piece::read(body, origin.kind, &id, &mut self.interner)?;
        self.manifests.add(piece, id, origin);
        self.seen.insert(key);
        Ok(())
    }

    fn refusal_of_another(&self, kind: Kind) -> Refused {
        if self.is_listed() {
            return Refused::Replaced;
        }
        let at = At::ROOT.key("metadata");
        Refused::at(&at.key("name"), format!("there is another {} of this name; remove one", kind.name()))
    }
}

/// A pod by itself, which is all that most of a large input is.
pub(crate) fn read_pod(
    body: Body<'_, '_>,
    origin: Origin,
    interner: &mut Interner,
) -> Result<PodObject, Refused> {
    let wire: builtin::pod::Pod<'_> = body.read()?;
    let (namespace, name) = piece::identity(origin.kind, &wire.metadata, interner)?;
    let mut pod = piece::convert_with(interner, |to| pods::read_pod(&wire, namespace, name, to))?;
    (pod.source, pod.line) = (origin.source, origin.line);
    Ok(pod)
}
