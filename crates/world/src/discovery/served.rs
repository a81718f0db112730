//! What is served, in the order in which it is told: stored kinds, and those that are answered without being stored.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

use crate::kinds::{Kinds, Resource, Scope, Subresource};
use crate::metrics;

/// An API group with its versions, the preferred one first.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) versions: Vec<Version>,
}

#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) name: String,
    /// By plural.
    pub(crate) resources: Vec<Served>,
}

#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) kind: Gvk,
    pub(crate) scope: Scope,
    pub(crate) verbs: &'static [&'static str],
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) subresources: Vec<ServedSubresource>,
    pub(crate) origin: Origin,
}

/// Who answers for a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The API server itself.
    BuiltIn,
    /// A definition.
    Custom,
    /// Another server, to which the API server passes on what is asked.
    Aggregated,
}

impl Served {
    /// `pods`, or `deployments.apps`.
    pub(crate) fn qualified(&self) -> String {
        match &*self.kind.group {
            "" => self.plural.clone(),
            group => format!("{}.{group}", self.plural),
        }
    }
}

#[derive(Debug)]
pub(crate) struct ServedSubresource {
    pub(crate) name: &'static str,
    pub(crate) kind: Gvk,
    pub(crate) verbs: &'static [&'static str],
}

impl ServedSubresource {
    /// Whether it carries objects, and not whatever two programs say to each other.
    pub(crate) fn has_objects(&self) -> bool {
        self.verbs != CONNECT
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gvk {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
}

impl Gvk {
    fn new(group: &str, version: &str, kind: &str) -> Self {
        Self { group: group.to_owned(), version: version.to_owned(), kind: kind.to_owned() }
    }
}

/// All that is served, the core group first.
pub(crate) fn all(kinds: &Kinds) -> impl Iterator<Item = Served> {
    groups(kinds).into_iter().flat_map(|group| group.versions).flat_map(|version| version.resources)
}

/// The groups, the core group first.
pub(crate) fn groups(kinds: &Kinds) -> Vec<Group> {
    let mut by_group: BTreeMap<String, BTreeMap<String, Vec<Served>>> = BTreeMap::new();
    for served in kinds.all().map(|resource| stored(resource)).chain(VIRTUAL.iter().map(Virtual::served)) {
        let Gvk { group, version, .. } = served.kind.clone();
        by_group.entry(group).or_default().entry(version).or_default().push(served);
    }
    let mut groups: Vec<Group> = by_group.into_iter().map(|(name, versions)| group(name, versions)).collect();
    // Stable: groups of one rank stay in the order of their names.
    groups.sort_by_key(|group| rank(&group.name));
    groups
}

fn group(name: String, versions: BTreeMap<String, Vec<Served>>) -> Group {
    let mut versions: Vec<Version> = versions
        .into_iter()
        .map(|(name, mut resources)| {
            resources.sort_by(|a, b| a.plural.cmp(&b.plural));
            Version { name, resources }
        })
        .collect();
    versions.sort_by(|a, b| by_stability(&a.name, &b.name));
    Group { name, versions }
}

/// kubectl resolves a name that several groups serve to the first of them.
fn rank(group: &str) -> usize {
    IN_ORDER.iter().position(|names| names.contains(&group)).unwrap_or(IN_ORDER.len())
}

/// By the priorities of the API server's own groups; those in one row share theirs. All others come after.
const IN_ORDER: &[&[&str]] = &[
    &[""],
    &["apiregistration.k8s.io"],
    &["apps"],
    &["events.k8s.io"],
    &["authentication.k8s.io"],
    &["authorization.k8s.io"],
    &["autoscaling"],
    &["batch"],
    &["certificates.k8s.io"],
    &["networking.k8s.io"],
    &["policy"],
    &["rbac.authorization.k8s.io"],
    &["storage.k8s.io"],
    &["admissionregistration.k8s.io", "apiextensions.k8s.io"],
    &["scheduling.k8s.io"],
    &["coordination.k8s.io"],
    &["node.k8s.io"],
    &["discovery.k8s.io", "resource.k8s.io"],
    &["flowcontrol.apiserver.k8s.io"],
];

/// `v2`, `v1`, `v1beta2`, `v1beta1`, `v1alpha1`, then all that is not named so, by name.
fn by_stability(a: &str, b: &str) -> Ordering {
    match (stability(a), stability(b)) {
        (Some(a), Some(b)) => Reverse(a).cmp(&Reverse(b)),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

/// Alpha, beta or stable, then the numbers before and after that word.
fn stability(version: &str) -> Option<(u8, u64, u64)> {
    let number = |digits: &str| {
        let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
        if is_plain { digits.parse::<u64>().ok() } else { None }
    };
    let version = version.strip_prefix('v')?;
    for (word, rank) in [("alpha", 0), ("beta", 1)] {
        if let Some((major, minor)) = version.split_once(word) {
            return Some((rank, number(major)?, number(minor)?));
        }
    }
    Some((2, number(version)?, 0))
}

const CREATE: &[&str] = &["create"];
const UPDATE: &[&str] = &["update"];
const GET: &[&str] = &["get"];
const CONNECT: &[&str] = &["create", "get"];
const READ: &[&str] = &["get", "list"];
const CHANGE: &[&str] = &["get", "patch", "update"];
const ALL: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const ALL_BUT_COLLECTION: &[&str] = &["create", "delete", "get", "list", "patch", "update", "watch"];
/// The same, in the order in which the API server tells it of custom resources.
const ALL_OF_CUSTOM: &[&str] =
    &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

fn stored(resource: &Resource) -> Served {
    let Resource { group, version, kind, plural, .. } = resource;
    let verbs = match (&**group, &**plural) {
        ("", "namespaces") => ALL_BUT_COLLECTION,
        _ if resource.is_custom => ALL_OF_CUSTOM,
        _ => ALL,
    };
    let mut subresources: Vec<ServedSubresource> =
        resource.subresources.iter().map(|subresource| of_subresource(resource, *subresource)).collect();
    if !resource.is_custom {
        subresources.sort_by_key(|subresource| subresource.name);
    }
    Served {
        plural: plural.clone(),
        singular: resource.singular.clone(),
        kind: Gvk::new(group, version, kind),
        scope: resource.scope,
        verbs,
        short_names: resource.short_names.clone(),
        categories: resource.categories.clone(),
        subresources,
        origin: if resource.is_custom { Origin::Custom } else { Origin::BuiltIn },
    }
}

fn of_subresource(resource: &Resource, subresource: Subresource) -> ServedSubresource {
    let (kind, verbs) = match subresource {
        Subresource::Status => (Gvk::new(&resource.group, &resource.version, &resource.kind), CHANGE),
        Subresource::Finalize => (Gvk::new(&resource.group, &resource.version, &resource.kind), UPDATE),
        Subresource::Scale => (Gvk::new("autoscaling", "v1", "Scale"), CHANGE),
        Subresource::Eviction => (Gvk::new("policy", "v1", "Eviction"), CREATE),
        Subresource::Binding => (Gvk::new("", "v1", "Binding"), CREATE),
        Subresource::Log => (Gvk::new("", "v1", "Pod"), GET),
        Subresource::Exec => (Gvk::new("", "v1", "PodExecOptions"), CONNECT),
        Subresource::Attach => (Gvk::new("", "v1", "PodAttachOptions"), CONNECT),
        Subresource::PortForward => (Gvk::new("", "v1", "PodPortForwardOptions"), CONNECT),
    };
    ServedSubresource { name: subresource.name(), kind, verbs }
}

/// Served, but nowhere stored.
struct Virtual {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    /// Empty for the metrics, whose API server leaves it out.
    singular: &'static str,
    scope: Scope,
    verbs: &'static [&'static str],
}

impl Virtual {
    fn served(&self) -> Served {
        Served {
            plural: self.plural.to_owned(),
            singular: self.singular.to_owned(),
            kind: Gvk::new(self.group, self.version, self.kind),
            scope: self.scope,
            verbs: self.verbs,
            short_names: Vec::new(),
            categories: Vec::new(),
            subresources: Vec::new(),
            origin: if metrics::serves(self.group, self.version) {
                Origin::Aggregated
            } else {
                Origin::BuiltIn
            },
        }
    }
}

macro_rules! rows {
    ($($group:literal $version:literal $kind:literal $plural:literal $singular:literal $scope:ident $verbs:ident;)*) => {
        &[$(Virtual {
            group: $group, version: $version, kind: $kind, plural: $plural, singular: $singular,
            scope: Scope::$scope, verbs: $verbs,
        }),*]
    };
}

/// Whether something is answered there without being stored.
pub(crate) fn is_virtual(group: &str, version: &str) -> bool {
    VIRTUAL.iter().any(|of| (of.group, of.version) == (group, version))
}

const VIRTUAL: &[Virtual] = rows! {
    "" "v1" "Binding" "bindings" "binding" Namespaced CREATE;
    "authentication.k8s.io" "v1" "SelfSubjectReview" "selfsubjectreviews" "selfsubjectreview" Cluster CREATE;
    "authentication.k8s.io" "v1" "TokenReview" "tokenreviews" "tokenreview" Cluster CREATE;
    "authorization.k8s.io" "v1" "LocalSubjectAccessReview" "localsubjectaccessreviews" "localsubjectaccessreview" Namespaced CREATE;
    "authorization.k8s.io" "v1" "SelfSubjectAccessReview" "selfsubjectaccessreviews" "selfsubjectaccessreview" Cluster CREATE;
    "authorization.k8s.io" "v1" "SelfSubjectRulesReview" "selfsubjectrulesreviews" "selfsubjectrulesreview" Cluster CREATE;
    "authorization.k8s.io" "v1" "SubjectAccessReview" "subjectaccessreviews" "subjectaccessreview" Cluster CREATE;
    "metrics.k8s.io" "v1beta1" "NodeMetrics" "nodes" "" Cluster READ;
    "metrics.k8s.io" "v1beta1" "PodMetrics" "pods" "" Namespaced READ;
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_by_stability() {
        let mut versions = [
            "v10", "v1", "v2", "v1beta1", "v1beta2", "v2alpha1", "v2beta1", "foo", "v01", "bar", "v1gamma1",
            "v1beta",
        ];
        versions.sort_by(|a, b| by_stability(a, b));
        let expected = [
            "v10", "v2", "v1", "v2beta1", "v1beta2", "v1beta1", "v2alpha1", "bar", "foo", "v01", "v1beta",
            "v1gamma1",
        ];
        assert_eq!(versions, expected);
    }

    #[test]
    fn groups_by_priority() {
        let names: Vec<String> = groups(&Kinds::built_in()).into_iter().map(|group| group.name).collect();
        let expected = [
            "",
            "apps",
            "events.k8s.io",
            "authentication.k8s.io",
            "authorization.k8s.io",
            "autoscaling",
            "batch",
            "networking.k8s.io",
            "policy",
            "rbac.authorization.k8s.io",
            "storage.k8s.io",
            "admissionregistration.k8s.io",
            "apiextensions.k8s.io",
            "scheduling.k8s.io",
            "coordination.k8s.io",
            "node.k8s.io",
            "discovery.k8s.io",
            "metrics.k8s.io",
        ];
        assert_eq!(names, expected);
    }
}
