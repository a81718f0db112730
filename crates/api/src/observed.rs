//! Objects of a cluster as they come and go: each is read once, and kept until it changes or goes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_core::names::Text;

use crate::documents::Body;
use crate::intern::Interner;
use crate::kinds::{Collection, Kind};
use crate::manifests::{Manifests, Origin, Refused, object_name};
use crate::piece::{self, Id, Piece};
use crate::problem::{Finding, Path, Problem};
use crate::resources::vpsie::CONFIG_NAME;
use crate::tree::Tree;

/// What a cluster holds, as far as it was told.
#[derive(Debug, Default)]
pub struct Observed {
    interner: Interner,
    pieces: BTreeMap<Kind, BTreeMap<Id, Piece>>,
    /// Objects that cannot be read, and why.
    refused: BTreeMap<(Kind, Id), Unread>,
    gone_since_tidied: usize,
}

/// An object that cannot be read.
#[derive(Debug)]
struct Unread {
    problems: Vec<Problem>,
    /// The node that it runs on, if it is a pod that does.
    node: Option<Text>,
}

/// Texts that nobody uses any more are forgotten after so many objects have gone.
const GONE_MAX: usize = 10_000;

impl Observed {
    /// Takes an object, written as JSON, in the place of what was known under its name. One that cannot be read is
    /// remembered as such.
    pub fn put(&mut self, collection: &Collection, text: &str) {
        let kind = collection.kind;
        let id = match piece::identity_in(Body::Json(text), kind, &mut self.interner) {
            Ok(id) => id,
            Err(refused) => {
                let nameless = (Text::default(), Text::default());
                return self.refuse(kind, nameless, text, refused);
            }
        };
        match self.read(text, kind, &id) {
            Ok(piece) => {
                self.refused.remove(&(kind, id.clone()));
                self.pieces.entry(kind).or_default().insert(id, piece);
            }
            Err(refused) => self.refuse(kind, id, text, refused),
        }
    }

    fn read(&mut self, text: &str, kind: Kind, id: &Id) -> Result<Piece, Refused> {
        piece::read(Body::Json(text), kind, id, &mut self.interner).or_else(|refused| {
            // The tree knows where it failed, and forgives what Kubernetes forgives.
            let Ok(tree) = Tree::parse(text) else { return Err(refused) };
            piece::read(Body::Yaml(&tree), kind, id, &mut self.interner)
        })
    }

    fn refuse(&mut self, kind: Kind, id: Id, text: &str, refused: Refused) {
        // Bounds that were said last hold on: without them there would be none.
        if let Some(of_kind) = self.pieces.get_mut(&kind).filter(|_| kind != Kind::AutoscalerConfig) {
            of_kind.remove(&id);
        }
        let findings = match refused {
            Refused::Wrong(findings) => findings,
            Refused::Json(error) => vec![Finding { path: Path::default(), message: error.to_string() }],
            Refused::Replaced => Vec::new(),
        };
        let problems = findings.into_iter().map(|Finding { path, message }| Problem {
            source: Arc::from("cluster"),
            line: None,
            object: Some(object_name(kind.name(), &id.0, &id.1)),
            field: Some(path.to_string()).filter(|field| !field.is_empty()),
            message,
        });
        let unread =
            Unread { problems: problems.collect(), node: node_of(text).filter(|_| kind == Kind::Pod) };
        self.refused.insert((kind, id), unread);
    }

    pub fn remove(&mut self, collection: &Collection, namespace: &str, name: &str) {
        let id = (Text::from(namespace), Text::from(name));
        if let Some(of_kind) = self.pieces.get_mut(&collection.kind) {
            of_kind.remove(&id);
        }
        self.refused.remove(&(collection.kind, id));
        self.gone_since_tidied += 1;
        if self.gone_since_tidied > GONE_MAX {
            self.gone_since_tidied = 0;
            self.interner.forget_unused();
        }
    }

    /// Keeps only those of a kind whose namespaces and names are given: what a complete list leaves out is gone.
    pub fn retain(&mut self, collection: &Collection, listed: &BTreeSet<(Text, Text)>) {
        let kind = collection.kind;
        if let Some(of_kind) = self.pieces.get_mut(&kind) {
            of_kind.retain(|id, _| listed.contains(id));
        }
        self.refused.retain(|(of, id), _| *of != kind || listed.contains(id));
        self.interner.forget_unused();
    }

    /// What is wrong with objects that cannot be read.
    pub(crate) fn problems(self) -> impl Iterator<Item = Problem> {
        self.refused.into_values().flat_map(|unread| unread.problems)
    }

    pub fn count(&self, collection: &Collection) -> usize {
        self.pieces.get(&collection.kind).map_or(0, BTreeMap::len)
    }

    /// All of it, to be put together.
    pub fn manifests(&self) -> Manifests {
        let mut manifests = Manifests::of_cluster();
        for (kind, of_kind) in &self.pieces {
            let origin = Origin { kind: *kind, source: 0, line: 0 };
            for (id, piece) in of_kind {
                manifests.add(piece.clone(), id.clone(), origin);
            }
        }
        for ((kind, id), Unread { problems, node }) in &self.refused {
            let is_known = || self.pieces.get(kind).is_some_and(|of_kind| of_kind.contains_key(id));
            if *kind == Kind::AutoscalerConfig && &*id.1 == CONFIG_NAME && !is_known() {
                manifests.unread_settings = Some(problems.first().map(Problem::words).unwrap_or_default());
            }
            // Nothing is taken away while something is not seen that could forbid it. What is known of a pod that
            // cannot be read is where it runs, a pool that cannot be read has no nodes to take away, and room that
            // cannot be measured is nobody's yet. What bounds groups is as it was, or lets none of them grow. A pool whose
            // class cannot be read has none, and an overlay that cannot be read changes nothing, and says so.
            let is_confined = node.is_some()
                || matches!(
                    kind,
                    Kind::NodePool
                        | Kind::NodeGroup
                        | Kind::AutoscalerConfig
                        | Kind::KwokNodeClass
                        | Kind::Ec2NodeClass
                        | Kind::VpsieNodeClass
                        | Kind::NodeOverlay
                        | Kind::CapacityBuffer
                        | Kind::PodTemplate
                        | Kind::Service
                        | Kind::Deployment
                        | Kind::ReplicaSet
                        | Kind::StatefulSet
                        | Kind::Job
                );
            let list = if is_confined { &mut manifests.confined_problems } else { &mut manifests.problems };
            list.extend(problems.iter().cloned());
            manifests.shrouded_nodes.extend(node.clone());
        }
        manifests.policies.settle();
        manifests
    }
}

/// The node of a pod, whatever else is wrong with it.
fn node_of(text: &str) -> Option<Text> {
    let object: serde_json::Value = serde_json::from_str(text).ok()?;
    object["spec"]["nodeName"].as_str().filter(|name| !name.is_empty()).map(Text::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::collections;

    fn collection(plural: &str) -> Collection {
        collections().find(|collection| collection.plural == plural).unwrap()
    }

    fn pod(name: &str, node: &str) -> String {
        format!(
            r#"{{"metadata": {{"name": "{name}", "namespace": "shop"}}, "spec": {{"nodeName": "{node}", "containers": [{{}}]}}}}"#
        )
    }

    #[test]
    fn objects_come_change_and_go() {
        let (pods, pools) = (collection("pods"), collection("nodepools"));
        let mut observed = Observed::default();
        observed.put(&pods, &pod("a", "n"));
        observed.put(&pods, &pod("b", "n"));
        observed.put(&pods, &pod("a", "m"));
        observed.put(&pools, r#"{"metadata": {"name": "p"}, "spec": {"template": 7}}"#);
        let manifests = observed.manifests();
        let seen: Vec<(&str, &str)> =
            manifests.pods.iter().map(|pod| (&*pod.name, pod.node.as_deref().unwrap_or_default())).collect();
        assert_eq!(seen, [("a", "m"), ("b", "n")]);
        assert!(manifests.problems.is_empty(), "{:?}", manifests.problems);
        assert_eq!(manifests.confined_problems[0].object.as_deref(), Some("NodePool/p"));
        observed.remove(&pods, "shop", "b");
        observed.remove(&pools, "", "p");
        let manifests = observed.manifests();
        assert_eq!((manifests.pods.len(), manifests.confined_problems.len()), (1, 0));
        observed.retain(&pods, &BTreeSet::new());
        assert_eq!(observed.count(&pods), 0);
    }

    /// What cannot be read halts nobody who does not use it, where it is known who does.
    #[test]
    fn what_cannot_be_read_binds_as_little_as_can_be() {
        for (plural, is_confined) in [
            ("nodepools", true),
            ("nodeoverlays", true),
            ("ec2nodeclasses", true),
            ("kwoknodeclasses", true),
            ("vpsienodeclasses", true),
            ("pods", false),
            ("nodes", false),
            ("poddisruptionbudgets", false),
        ] {
            let mut observed = Observed::default();
            observed.put(&collection(plural), r#"{"metadata": {"name": "odd"}, "spec": 7}"#);
            let manifests = observed.manifests();
            let counts = (manifests.problems.len(), manifests.confined_problems.len());
            assert_eq!(counts, if is_confined { (0, 1) } else { (1, 0) }, "{plural}");
        }
    }

    /// Bounds that cannot be read are those that were said last, and never none.
    #[test]
    fn settings_that_cannot_be_read_stay_or_block() {
        let configs = collection("autoscalerconfigs");
        let config = |workers: &str| {
            format!(
                r#"{{"metadata": {{"name": "default"}}, "spec": {{"globalSettings": {{"maxClusterWorkers": {workers}}}}}}}"#
            )
        };
        for (texts, nodes_max, is_unread) in [
            (&["7"][..], Some(7), false),
            (&["7", "-1"], Some(7), false),
            (&["-1"], None, true),
            (&["-1", "7"], Some(7), false),
        ] {
            let mut observed = Observed::default();
            for text in texts {
                observed.put(&configs, &config(text));
            }
            let manifests = observed.manifests();
            assert_eq!(manifests.group_settings.nodes_max, nodes_max, "{texts:?}");
            assert_eq!(manifests.unread_settings.is_some(), is_unread, "{texts:?}");
            assert!(manifests.problems.is_empty(), "{texts:?}: {:?}", manifests.problems);
        }
    }

    #[test]
    fn what_was_right_and_is_wrong_is_not_what_it_was() {
        let pods = collection("pods");
        let mut observed = Observed::default();
        observed.put(&pods, &pod("a", "n"));
        observed
            .put(&pods, r#"{"metadata": {"name": "a", "namespace": "shop"}, "spec": {"containers": []}}"#);
        let manifests = observed.manifests();
        assert_eq!((manifests.pods.len(), manifests.problems.len()), (0, 1));
        observed.put(&pods, r#"{"metadata": {"name": "a"}, "spec": {"nodeName": "n", "containers": []}}"#);
        let manifests = observed.manifests();
        assert_eq!((manifests.problems.len(), manifests.confined_problems.len()), (1, 1));
        assert_eq!(manifests.shrouded_nodes.iter().map(|node| &**node).collect::<Vec<_>>(), ["n"]);
        observed.put(&pods, &pod("a", "n"));
        assert!(observed.manifests().problems.is_empty());
    }
}
