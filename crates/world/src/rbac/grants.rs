//! Nobody gives away what they do not have: a role or a binding may only grant what its writer holds in its namespace,
//! unless they may `escalate` the role or `bind` it.

use std::collections::{BTreeMap, BTreeSet};

use super::objects::{self, Kind, RoleRef, Rule};
use super::{Attributes, PRIVILEGED_GROUP, ResourceTarget, Rules, Target, User, quoted};
use crate::failure::{Failure, Reason};
use crate::json::Value;
use crate::kinds::Resource;
use crate::object;

/// An object that somebody writes.
#[derive(Clone, Copy, Debug)]
pub struct Written<'a> {
    pub resource: &'a Resource,
    /// Empty for those of the cluster.
    pub namespace: &'a str,
    /// As the request names it, which a new object's does not.
    pub asked: &'a str,
    pub new: &'a Value,
    pub old: Option<&'a Value>,
}

impl Rules {
    /// Nothing, or why the user may not write a role or a binding. Other kinds grant nothing.
    pub fn check_grants(&self, user: &User, written: &Written<'_>) -> Result<(), Failure> {
        let Written { resource, new, old, .. } = written;
        if resource.group != GROUP
            || user.groups.iter().any(|group| group == PRIVILEGED_GROUP)
            || old.is_some_and(|old| is_upkeep(new, old))
        {
            return Ok(());
        }
        match Kind::named(&resource.kind) {
            Some(Kind::Role | Kind::ClusterRole) => self.check_role(user, written),
            Some(Kind::RoleBinding | Kind::ClusterRoleBinding) => self.check_binding(user, written),
            None => Ok(()),
        }
    }

    fn check_role(&self, user: &User, written: &Written<'_>) -> Result<(), Failure> {
        let Written { resource, namespace, asked, new, old } = *written;
        if self.may(user, "escalate", &resource.plural, namespace, asked) {
            return Ok(());
        }
        self.confirm(user, written, &objects::rules(new))?;
        // What gathers others may come to hold anything.
        let gathers = |role: &Value| {
            let selectors = role["aggregationRule"]["clusterRoleSelectors"].as_array();
            selectors.is_some_and(|selectors| !selectors.is_empty())
        };
        if gathers(new) || old.is_some_and(gathers) {
            let why = "must have cluster-admin privileges to use the aggregationRule";
            self.confirm(user, written, &Rule::all())
                .map_err(|_| Failure::forbidden(resource, object::name(new), why))?;
        }
        Ok(())
    }

    fn check_binding(&self, user: &User, written: &Written<'_>) -> Result<(), Failure> {
        let Written { namespace, new, .. } = *written;
        let role = RoleRef::of(&new["roleRef"]);
        let plural = match &*role.kind {
            "ClusterRole" => "clusterroles",
            "Role" => "roles",
            other => {
                let message = format!("unsupported role reference kind: {}", quoted(other));
                return Err(Failure::new(Reason::Unknown, message));
            }
        };
        if self.may(user, "bind", plural, namespace, &role.name) {
            return Ok(());
        }
        let rules = self.rules_of(&role, namespace);
        let rules = rules.map_err(|_| Failure::not_found(written.resource, &role.name))?;
        self.confirm(user, written, rules)
    }

    fn may(&self, user: &User, verb: &str, resource: &str, namespace: &str, name: &str) -> bool {
        let target = ResourceTarget { group: GROUP, resource, subresource: "", namespace, name };
        self.allow(user, &Attributes { verb, target: Target::Resource(target) }).is_allowed()
    }

    /// That the user holds all that these rules allow.
    fn confirm(&self, user: &User, written: &Written<'_>, granted: &[Rule]) -> Result<(), Failure> {
        let (held, unresolved) = self.rules_for(user, written.namespace);
        let parts = granted.iter().flat_map(Rule::parts);
        let missing: Vec<Rule> = parts.filter(|part| !held.iter().any(|rule| rule.covers(part))).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let mut why = format!(
            "user {} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
            quoted(&user.name),
            list(&user.groups),
            told(missing).into_iter().collect::<Vec<_>>().join("\n"),
        );
        if !unresolved.is_empty() {
            why.extend(["; resolution errors: [", &*unresolved, "]"]);
        }
        Err(Failure::forbidden(written.resource, object::name(written.new), &why))
    }
}

const GROUP: &str = "rbac.authorization.k8s.io";

/// Whether no more differs than what the garbage collector changes.
fn is_upkeep(new: &Value, old: &Value) -> bool {
    let mut like_old = new.clone();
    for field in ["finalizers", "managedFields", "ownerReferences"] {
        object::set(&mut like_old, field, old["metadata"][field].clone());
    }
    like_old == *old
}

/// What is missing, in the order of its words: the verbs of one resource together.
fn told(missing: Vec<Rule>) -> BTreeSet<String> {
    let mut together: BTreeMap<[Vec<String>; 4], Vec<String>> = BTreeMap::new();
    let mut told = BTreeSet::new();
    for Rule { verbs, groups, resources, names, paths } in missing {
        if paths.is_empty() {
            together.entry([groups, resources, paths, names]).or_default().extend(verbs);
        } else {
            told.insert(words(&[groups, resources, paths, names], &verbs));
        }
    }
    told.extend(together.iter().map(|(of, verbs)| words(of, verbs)));
    told
}

fn words(of: &[Vec<String>; 4], verbs: &[String]) -> String {
    let names = ["APIGroups", "Resources", "NonResourceURLs", "ResourceNames"];
    let of = names.into_iter().zip(of.iter().map(Vec::as_slice)).chain([("Verbs", verbs)]);
    let words =
        of.filter(|(_, words)| !words.is_empty()).map(|(name, words)| format!("{name}:{}", list(words)));
    format!("{{{}}}", words.collect::<Vec<_>>().join(", "))
}

fn list(words: &[String]) -> String {
    format!("[{}]", words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "))
}
