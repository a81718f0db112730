//! Who may do what: role-based access control over the stored roles and bindings.

mod defaults;
mod grants;
mod objects;
mod reviews;

use std::collections::BTreeMap;

pub use defaults::default_objects;
pub use grants::Written;
pub use reviews::{
    local_subject_access_review, self_subject_access_review, self_subject_review, self_subject_rules_review,
    subject_access_review, token_review,
};

use crate::failure::{Details, Failure, Reason};
use crate::json::{Value, json};
use objects::{Binding, ClusterRole, Kind, RoleRef, Rule, Subject};

/// Its members are asked no questions, whatever is bound.
const PRIVILEGED_GROUP: &str = "system:masters";

/// Who asks, after authentication. Roles go by names and groups alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub groups: Vec<String>,
    pub uid: String,
    /// What else is known of them, for whoever asks.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// As webhooks are told of them, and they themselves.
    pub(crate) fn to_value(&self) -> Value {
        let mut told = json!({ "username": self.name });
        if !self.uid.is_empty() {
            told["uid"] = json!(self.uid);
        }
        if !self.groups.is_empty() {
            told["groups"] = json!(self.groups);
        }
        if !self.extra.is_empty() {
            told["extra"] = json!(self.extra);
        }
        told
    }
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes<'a> {
    /// In RBAC's words: `get`, `list`, `watch`, `create`, `deletecollection`; a method in lower case for paths.
    pub verb: &'a str,
    pub target: Target<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    Resource(ResourceTarget<'a>),
    /// A path that is no resource, such as `/version`.
    Path(&'a str),
}

/// What does not apply is empty. A Namespace that is named is in itself: `namespace` and `name` are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceTarget<'a> {
    pub group: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
}

/// RBAC only ever allows: what no rule allows is refused for want of an opinion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    Allowed { reason: String },
    NoOpinion { reason: String },
}

impl Decision {
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed { .. })
    }

    pub fn reason(&self) -> &str {
        match self {
            Self::Allowed { reason } | Self::NoOpinion { reason } => reason,
        }
    }
}

impl<'a> Attributes<'a> {
    fn namespace(&self) -> &'a str {
        match self.target {
            Target::Resource(target) => target.namespace,
            Target::Path(_) => "",
        }
    }

    /// The 403. `reason` says why rules could not be read, and is mostly empty.
    pub fn forbidden(&self, user: &User, reason: &str) -> Failure {
        let refused = without_html(&self.refusal(&user.name));
        let refused = if reason.is_empty() { refused } else { format!("{refused}: {reason}") };
        let (about, details) = match self.target {
            Target::Path(_) => (String::new(), Details { even_if_empty: true, ..Details::default() }),
            Target::Resource(target) => {
                let about = match (target.group, target.name) {
                    ("", "") => format!("{} is ", target.resource),
                    ("", name) => format!("{} {} is ", target.resource, quoted(name)),
                    (group, "") => format!("{}.{group} is ", target.resource),
                    (group, name) => format!("{}.{group} {} is ", target.resource, quoted(name)),
                };
                let details = Details {
                    name: target.name.to_owned(),
                    group: target.group.to_owned(),
                    kind: target.resource.to_owned(),
                    ..Details::default()
                };
                (about, details)
            }
        };
        Failure {
            details: Box::new(details),
            ..Failure::new(Reason::Forbidden, format!("{about}forbidden: {refused}"))
        }
    }

    fn refusal(&self, user: &str) -> String {
        let (user, verb) = (quoted(user), self.verb);
        match self.target {
            Target::Path(path) => format!("User {user} cannot {verb} path {}", quoted(path)),
            Target::Resource(target) => {
                let (resource, group) = (quoted(&target.combined()), quoted(target.group));
                let place = match target.namespace {
                    "" => "at the cluster scope".to_owned(),
                    namespace => format!("in the namespace {}", quoted(namespace)),
                };
                format!("User {user} cannot {verb} resource {resource} in API group {group} {place}")
            }
        }
    }
}

impl ResourceTarget<'_> {
    /// `pods`, or `pods/status`.
    fn combined(&self) -> String {
        if self.subresource.is_empty() {
            self.resource.to_owned()
        } else {
            format!("{}/{}", self.resource, self.subresource)
        }
    }
}

/// The rules of a cluster, read once from the stored objects and asked for every request.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// By namespace and name.
    roles: BTreeMap<(String, String), Vec<Rule>>,
    cluster_roles: BTreeMap<String, ClusterRole>,
    cluster_bindings: Vec<Binding>,
    bindings: BTreeMap<String, Vec<Binding>>,
}

impl Rules {
    /// From Roles, ClusterRoles, RoleBindings and ClusterRoleBindings in any order; other kinds are passed over.
    pub fn from_objects<'a>(objects: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut rules = Self::default();
        for object in objects {
            match Kind::of(object) {
                Some(Kind::Role) => {
                    let key = (objects::namespace(object).to_owned(), objects::name(object).to_owned());
                    rules.roles.insert(key, objects::rules(object));
                }
                Some(Kind::ClusterRole) => {
                    rules.cluster_roles.insert(objects::name(object).to_owned(), ClusterRole::of(object));
                }
                Some(Kind::RoleBinding) => {
                    let namespace = objects::namespace(object).to_owned();
                    rules.bindings.entry(namespace).or_default().push(Binding::of(object));
                }
                Some(Kind::ClusterRoleBinding) => rules.cluster_bindings.push(Binding::of(object)),
                None => {}
            }
        }
        rules.cluster_bindings.sort_by(|a, b| a.name.cmp(&b.name));
        for bindings in rules.bindings.values_mut() {
            bindings.sort_by(|a, b| a.name.cmp(&b.name));
        }
        rules.aggregate();
        rules
    }

    pub fn allow(&self, user: &User, attributes: &Attributes<'_>) -> Decision {
        if user.groups.iter().any(|group| group == PRIVILEGED_GROUP) {
            return Decision::Allowed { reason: String::new() };
        }
        let mut unresolved = Vec::new();
        for applied in self.applied(user, attributes.namespace()) {
            match self.rules_of(&applied.binding.role, applied.namespace) {
                Ok(rules) if rules.iter().any(|rule| rule.allows(attributes)) => {
                    return Decision::Allowed { reason: format!("RBAC: allowed by {}", applied.describe()) };
                }
                Ok(_) => {}
                Err(why) => unresolved.push(why),
            }
        }
        let reason = match &*aggregate_errors(unresolved) {
            "" => String::new(),
            why => format!("RBAC: {why}"),
        };
        Decision::NoOpinion { reason }
    }

    /// Nothing, or the 403.
    pub fn check(&self, user: &User, attributes: &Attributes<'_>) -> Result<(), Failure> {
        match self.allow(user, attributes) {
            Decision::Allowed { .. } => Ok(()),
            Decision::NoOpinion { reason } => Err(attributes.forbidden(user, &reason)),
        }
    }

    /// All rules that hold for the user in the namespace, and what could not be resolved.
    fn rules_for(&self, user: &User, namespace: &str) -> (Vec<&Rule>, String) {
        let mut found = Vec::new();
        let mut unresolved = Vec::new();
        for applied in self.applied(user, namespace) {
            match self.rules_of(&applied.binding.role, applied.namespace) {
                Ok(rules) => found.extend(rules),
                Err(why) => unresolved.push(why),
            }
        }
        (found, aggregate_errors(unresolved))
    }

    /// The bindings that name the user: first the cluster's, then the namespace's.
    fn applied<'a>(&'a self, user: &'a User, namespace: &'a str) -> impl Iterator<Item = Applied<'a>> {
        let of_cluster = self.cluster_bindings.iter().map(|binding| (binding, ""));
        // A request without a namespace is under no namespace's bindings.
        let of_namespace = self.bindings.get(namespace).filter(|_| !namespace.is_empty());
        let of_namespace = of_namespace.into_iter().flatten().map(move |binding| (binding, namespace));
        of_cluster.chain(of_namespace).filter_map(move |(binding, namespace)| {
            let subject = binding.subjects.iter().find(|subject| subject.is(user, namespace))?;
            Some(Applied { binding, subject, namespace })
        })
    }

    fn rules_of(&self, role: &RoleRef, namespace: &str) -> Result<&[Rule], String> {
        match &*role.kind {
            "Role" => self
                .roles
                .get(&(namespace.to_owned(), role.name.clone()))
                .map(Vec::as_slice)
                .ok_or_else(|| format!("role.rbac.authorization.k8s.io {} not found", quoted(&role.name))),
            "ClusterRole" => self.cluster_roles.get(&role.name).map(|role| &*role.rules).ok_or_else(|| {
                format!("clusterrole.rbac.authorization.k8s.io {} not found", quoted(&role.name))
            }),
            other => Err(format!("unsupported role reference kind: {}", quoted(other))),
        }
    }

    /// Gives roles with an `aggregationRule` the rules of those that they select, and of those that these select.
    fn aggregate(&mut self) {
        let aggregated: BTreeMap<String, Vec<Rule>> = self
            .cluster_roles
            .iter()
            .filter(|(_, role)| role.aggregation.is_some())
            .map(|(name, _)| {
                let mut rules = Vec::new();
                self.collect(name, &mut vec![name.as_str()], &mut rules);
                (name.clone(), rules)
            })
            .collect();
        for (name, rules) in aggregated {
            if let Some(role) = self.cluster_roles.get_mut(&name) {
                role.rules = rules;
            }
        }
    }

    fn collect<'a>(&'a self, name: &'a str, seen: &mut Vec<&'a str>, into: &mut Vec<Rule>) {
        let Some(role) = self.cluster_roles.get(name) else { return };
        let Some(selectors) = &role.aggregation else {
            for rule in &role.rules {
                if !into.contains(rule) {
                    into.push(rule.clone());
                }
            }
            return;
        };
        for (other, candidate) in &self.cluster_roles {
            let selected = selectors.iter().any(|selector| selector.matches(&candidate.labels));
            if selected && !seen.contains(&&**other) {
                seen.push(other);
                self.collect(other, seen, into);
            }
        }
    }
}

/// A binding that names the user, by one of its subjects.
struct Applied<'a> {
    binding: &'a Binding,
    subject: &'a Subject,
    /// Empty for those of the cluster.
    namespace: &'a str,
}

impl Applied<'_> {
    fn describe(&self) -> String {
        let Binding { name, role, .. } = self.binding;
        let (kind, name) = match self.namespace {
            "" => ("ClusterRoleBinding", name.clone()),
            namespace => ("RoleBinding", format!("{name}/{namespace}")),
        };
        let subject = self.subject.describe(self.namespace);
        format!("{kind} {} of {} {} to {subject}", quoted(&name), role.kind, quoted(&role.name))
    }
}

/// As the API server joins errors: each once, in brackets if there are several.
fn aggregate_errors(errors: Vec<String>) -> String {
    let mut once: Vec<String> = Vec::new();
    for error in errors {
        if !once.contains(&error) {
            once.push(error);
        }
    }
    if once.len() > 1 { format!("[{}]", once.join(", ")) } else { once.concat() }
}

/// Refusals quote what a stranger sent: they must not look like HTML.
fn without_html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// As Go's `%q`, whose escapes of control characters differ from Rust's.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            control if control < ' ' || control == '\u{7f}' => {
                quoted.extend(['\\', 'x']);
                quoted.extend([u32::from(control) >> 4, u32::from(control) & 15].map(hex));
            }
            plain => quoted.push(plain),
        }
    }
    quoted.push('"');
    quoted
}

fn hex(digit: u32) -> char {
    char::from_digit(digit, 16).unwrap_or_default()
}

#[cfg(test)]
mod tests;
