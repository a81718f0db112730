//! Roles and bindings as RBAC reads them. What is missing or malformed grants nothing.

use std::collections::BTreeMap;

use super::{Attributes, Target, User, quoted};
use crate::json::{Map, Value};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Role,
    ClusterRole,
    RoleBinding,
    ClusterRoleBinding,
}

impl Kind {
    pub(super) fn of(object: &Value) -> Option<Self> {
        Self::named(text(object, "kind"))
    }

    pub(super) fn named(kind: &str) -> Option<Self> {
        match kind {
            "Role" => Some(Self::Role),
            "ClusterRole" => Some(Self::ClusterRole),
            "RoleBinding" => Some(Self::RoleBinding),
            "ClusterRoleBinding" => Some(Self::ClusterRoleBinding),
            _ => None,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct ClusterRole {
    pub(super) labels: BTreeMap<String, String>,
    pub(super) rules: Vec<Rule>,
    pub(super) aggregation: Option<Vec<Selector>>,
}

impl ClusterRole {
    pub(super) fn of(object: &Value) -> Self {
        let aggregation = object.get("aggregationRule").filter(|rule| !rule.is_null());
        Self {
            labels: text_map(&object["metadata"]["labels"]),
            rules: rules(object),
            aggregation: aggregation
                .map(|rule| list(rule, "clusterRoleSelectors").map(Selector::of).collect()),
        }
    }
}

/// The `rules` of a Role or ClusterRole.
pub(super) fn rules(object: &Value) -> Vec<Rule> {
    list(object, "rules").map(Rule::of).collect()
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) verbs: Vec<String>,
    pub(super) groups: Vec<String>,
    pub(super) resources: Vec<String>,
    pub(super) names: Vec<String>,
    pub(super) paths: Vec<String>,
}

impl Rule {
    fn of(rule: &Value) -> Self {
        Self {
            verbs: texts(rule, "verbs"),
            groups: texts(rule, "apiGroups"),
            resources: texts(rule, "resources"),
            names: texts(rule, "resourceNames"),
            paths: texts(rule, "nonResourceURLs"),
        }
    }

    pub(super) fn allows(&self, attributes: &Attributes<'_>) -> bool {
        has_or_all(&self.verbs, attributes.verb)
            && match attributes.target {
                Target::Path(path) => self.paths.iter().any(|allowed| covers(allowed, path)),
                Target::Resource(target) => {
                    has_or_all(&self.groups, target.group)
                        && self.allows_resource(&target.combined(), target.subresource)
                        && (self.names.is_empty() || self.names.iter().any(|name| name == target.name))
                }
            }
    }

    /// What allows everything.
    pub(super) fn all() -> [Self; 2] {
        let any = || vec!["*".to_owned()];
        let nothing =
            || Self { verbs: any(), groups: vec![], resources: vec![], names: vec![], paths: vec![] };
        [Self { groups: any(), resources: any(), ..nothing() }, Self { paths: any(), ..nothing() }]
    }

    /// The same in rules of one verb on one thing each.
    pub(super) fn parts(&self) -> Vec<Self> {
        let one = |word: &String| vec![word.clone()];
        let names: Vec<Vec<String>> =
            if self.names.is_empty() { vec![Vec::new()] } else { self.names.iter().map(one).collect() };
        let mut parts = Vec::new();
        for (group, resource) in
            self.groups.iter().flat_map(|group| self.resources.iter().map(move |resource| (group, resource)))
        {
            for (verb, names) in
                self.verbs.iter().flat_map(|verb| names.iter().map(move |names| (verb, names)))
            {
                let (groups, resources) = (one(group), one(resource));
                parts.push(Self {
                    verbs: one(verb),
                    groups,
                    resources,
                    names: names.clone(),
                    paths: Vec::new(),
                });
            }
        }
        for (path, verb) in self.paths.iter().flat_map(|path| self.verbs.iter().map(move |verb| (path, verb)))
        {
            let (groups, resources, names) = (Vec::new(), Vec::new(), Vec::new());
            parts.push(Self { verbs: one(verb), groups, resources, names, paths: one(path) });
        }
        parts
    }

    /// Whether whatever a part of another rule allows, this one does.
    pub(super) fn covers(&self, part: &Self) -> bool {
        let all = |words: &[String], held: &[String]| words.iter().all(|word| has_or_all(held, word));
        let has_names = match (&*self.names, &*part.names) {
            ([], _) => true,
            (_, []) => false,
            (held, names) => names.iter().all(|name| held.contains(name)),
        };
        let covers_resource = |resource: &String| {
            let subresource = resource.split_once('/').map_or("", |(_, subresource)| subresource);
            self.allows_resource(resource, subresource)
        };
        all(&part.verbs, &self.verbs)
            && all(&part.groups, &self.groups)
            && part.resources.iter().all(covers_resource)
            && has_names
            && part.paths.iter().all(|path| self.paths.iter().any(|allowed| covers(allowed, path)))
    }

    fn allows_resource(&self, combined: &str, subresource: &str) -> bool {
        has_or_all(&self.resources, combined)
            || (!subresource.is_empty()
                && self.resources.iter().any(|allowed| allowed.strip_prefix("*/") == Some(subresource)))
    }
}

fn has_or_all(allowed: &[String], asked: &str) -> bool {
    allowed.iter().any(|one| one == "*" || one == asked)
}

/// `*` covers all paths, `/api/*` those below `/api/`.
fn covers(allowed: &str, path: &str) -> bool {
    allowed == path || (allowed.ends_with('*') && path.starts_with(allowed.trim_end_matches('*')))
}

#[derive(Clone, Debug)]
pub(super) struct Binding {
    pub(super) name: String,
    pub(super) role: RoleRef,
    pub(super) subjects: Vec<Subject>,
}

#[derive(Clone, Debug)]
pub(super) struct RoleRef {
    pub(super) kind: String,
    pub(super) name: String,
}

#[derive(Clone, Debug)]
pub(super) struct Subject {
    kind: String,
    name: String,
    namespace: String,
}

impl RoleRef {
    pub(super) fn of(role: &Value) -> Self {
        Self { kind: text(role, "kind").to_owned(), name: text(role, "name").to_owned() }
    }
}

impl Binding {
    pub(super) fn of(object: &Value) -> Self {
        let owned = |of: &Value, key: &str| text(of, key).to_owned();
        Self {
            name: name(object).to_owned(),
            role: RoleRef::of(&object["roleRef"]),
            subjects: list(object, "subjects")
                .map(|subject| Subject {
                    kind: owned(subject, "kind"),
                    name: owned(subject, "name"),
                    namespace: owned(subject, "namespace"),
                })
                .collect(),
        }
    }
}

impl Subject {
    /// `namespace` is the binding's: service accounts without one are of the same namespace.
    pub(super) fn is(&self, user: &User, namespace: &str) -> bool {
        match &*self.kind {
            "User" => user.name == self.name,
            "Group" => user.groups.contains(&self.name),
            "ServiceAccount" => {
                let namespace = self.namespace_or(namespace);
                let account = user.name.strip_prefix("system:serviceaccount:");
                !namespace.is_empty()
                    && account.and_then(|account| account.split_once(':')) == Some((namespace, &self.name))
            }
            _ => false,
        }
    }

    pub(super) fn describe(&self, namespace: &str) -> String {
        let name = match &*self.kind {
            "ServiceAccount" => format!("{}/{}", self.name, self.namespace_or(namespace)),
            _ => self.name.clone(),
        };
        format!("{} {}", self.kind, quoted(&name))
    }

    fn namespace_or<'a>(&'a self, namespace: &'a str) -> &'a str {
        if self.namespace.is_empty() { namespace } else { &self.namespace }
    }
}

/// A label selector; one that asks for nothing selects everything.
#[derive(Clone, Debug)]
pub(super) struct Selector {
    labels: BTreeMap<String, String>,
    expressions: Vec<Expression>,
}

#[derive(Clone, Debug)]
struct Expression {
    key: String,
    operator: String,
    values: Vec<String>,
}

impl Selector {
    fn of(selector: &Value) -> Self {
        let expressions = list(selector, "matchExpressions").map(|expression| Expression {
            key: text(expression, "key").to_owned(),
            operator: text(expression, "operator").to_owned(),
            values: texts(expression, "values"),
        });
        Self { labels: text_map(&selector["matchLabels"]), expressions: expressions.collect() }
    }

    pub(super) fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.labels.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.expressions.iter().all(|expression| expression.matches(labels))
    }
}

impl Expression {
    fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        let is_listed = value.is_some_and(|value| self.values.contains(value));
        match &*self.operator {
            "In" => is_listed,
            "NotIn" => !is_listed,
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            _ => false,
        }
    }
}

pub(super) fn name(object: &Value) -> &str {
    text(&object["metadata"], "name")
}

pub(super) fn namespace(object: &Value) -> &str {
    text(&object["metadata"], "namespace")
}

/// Empty if it is missing or no string.
pub(super) fn text<'a>(of: &'a Value, key: &str) -> &'a str {
    of.get(key).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn texts(of: &Value, key: &str) -> Vec<String> {
    list(of, key).filter_map(Value::as_str).map(str::to_owned).collect()
}

fn list<'a>(of: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    of.get(key).and_then(Value::as_array).into_iter().flatten()
}

fn text_map(map: &Value) -> BTreeMap<String, String> {
    let entries = map.as_object().into_iter().flat_map(Map::iter);
    entries.filter_map(|(key, value)| Some((key.to_string(), value.as_str()?.to_owned()))).collect()
}
