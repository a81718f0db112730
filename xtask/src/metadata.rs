//! What `cargo metadata` says about the workspace and everything it depends on.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::step::{StepError, output};

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
    pub(crate) workspace_members: BTreeSet<String>,
    pub(crate) resolve: Resolve,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) license: Option<String>,
    /// `None` for a package of the workspace.
    pub(crate) source: Option<String>,
    /// What its manifest names.
    #[serde(default)]
    pub(crate) dependencies: Vec<Dependency>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) kind: Option<Kind>,
    pub(crate) source: Option<String>,
}

/// The kinds beside the ordinary one, which cargo leaves null.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Dev,
    Build,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Resolve {
    pub(crate) nodes: Vec<ResolvedPackage>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ResolvedPackage {
    pub(crate) id: String,
    pub(crate) deps: Vec<Edge>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Edge {
    pub(crate) pkg: String,
    pub(crate) dep_kinds: Vec<EdgeKind>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct EdgeKind {
    pub(crate) kind: Option<Kind>,
    /// The platforms it is for, where it is not for all.
    pub(crate) target: Option<String>,
}

impl EdgeKind {
    /// Ends up in the program; Berth is not built for browsers.
    fn is_linked(&self) -> bool {
        self.kind.is_none() && !self.target.as_ref().is_some_and(|target| target.contains("wasm"))
    }
}

impl Metadata {
    pub(crate) fn of_workspace() -> Result<Self, StepError> {
        let words = ["cargo", "metadata", "--format-version", "1", "--locked"];
        serde_json::from_slice(&output(&words)?)
            .map_err(|error| StepError::Output { command: words.join(" "), message: error.to_string() })
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| self.workspace_members.contains(&package.id))
    }

    /// Names of all packages that end up in the library `name`, itself among them; not those that only
    /// its tests or build scripts use.
    pub(crate) fn linked_into(&self, name: &str) -> BTreeSet<&str> {
        let names: BTreeMap<&str, &str> =
            self.packages.iter().map(|package| (&*package.id, &*package.name)).collect();
        let edges: BTreeMap<&str, &[Edge]> =
            self.resolve.nodes.iter().map(|node| (&*node.id, &*node.deps)).collect();
        let mut open: Vec<&str> =
            self.members().filter(|package| package.name == name).map(|package| &*package.id).collect();
        let mut seen: BTreeSet<&str> = open.iter().copied().collect();
        while let Some(id) = open.pop() {
            for edge in edges.get(id).copied().unwrap_or_default() {
                if edge.dep_kinds.iter().any(EdgeKind::is_linked) && seen.insert(&edge.pkg) {
                    open.push(&edge.pkg);
                }
            }
        }
        seen.iter().filter_map(|id| names.get(id).copied()).collect()
    }

    /// Packages that are there in more than one version: `syn 2.0.1, 3.0.2`.
    pub(crate) fn duplicates(&self) -> Vec<String> {
        let mut versions = BTreeMap::<&str, Vec<&str>>::new();
        for package in &self.packages {
            versions.entry(&package.name).or_default().push(&package.version);
        }
        versions
            .into_iter()
            .filter(|(_, versions)| versions.len() > 1)
            .map(|(name, versions)| format!("{name}: {}", versions.join(", ")))
            .collect()
    }
}
