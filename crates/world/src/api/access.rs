//! Who asks, and whether they may.

use std::sync::{Arc, Mutex, PoisonError};

use http::HeaderMap;

use super::{Api, Call, State};
use crate::failure::{Failure, Reason};
use crate::json::Value;
use crate::object;
use crate::rbac::{self, Attributes, ResourceTarget, Rules, Target, User};
use crate::request::{Asked, Place, Query};

const ANONYMOUS: &str = "system:anonymous";
const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";

/// What a connection knows of who is at its other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    Known(User),
    /// They show nothing.
    Nobody,
    /// They show what is not from here.
    Stranger,
}

impl Api {
    /// Who asks. Whoever is in the same process may do everything; and who may, acts as somebody else.
    pub(crate) fn user(&self, headers: &HeaderMap, peer: Option<&Peer>) -> Result<User, Failure> {
        let has_token = all(headers, "authorization").iter().any(|value| value.starts_with("Bearer "));
        let user = match peer {
            None => admin(),
            Some(Peer::Known(user)) => user.clone(),
            // No token is from here either.
            Some(Peer::Nobody) if !has_token => {
                User { name: ANONYMOUS.to_owned(), groups: vec![UNAUTHENTICATED.to_owned()] }
            }
            Some(Peer::Nobody | Peer::Stranger) => {
                return Err(Failure::new(Reason::Unauthorized, "Unauthorized"));
            }
        };
        let (name, groups) = (all(headers, "impersonate-user").pop(), all(headers, "impersonate-group"));
        match name.filter(|name| !name.is_empty()) {
            Some(name) => self.impersonated(&user, name, groups),
            None if groups.is_empty() => Ok(user),
            None => {
                let groups: Vec<String> = groups.iter().map(|group| format!("{group:?}")).collect();
                Err(Failure::bad_request(format!(
                    "requested &user.DefaultInfo{{Name:\"\", UID:\"\", Groups:[]string{{{}}}, \
                     Extra:map[string][]string(nil)}} without impersonating a user name",
                    groups.join(", ")
                )))
            }
        }
    }

    /// Whom somebody acts as, if they may act as them and as a member of each group.
    fn impersonated(&self, user: &User, name: String, mut groups: Vec<String>) -> Result<User, Failure> {
        let rules = self.state().rules();
        let check = |resource, namespace, name| {
            let target = ResourceTarget { resource, namespace, name, ..ResourceTarget::default() };
            rules.check(user, &Attributes { verb: "impersonate", target: Target::Resource(target) })
        };
        let service_account =
            name.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
        match service_account {
            Some((namespace, account)) => check("serviceaccounts", namespace, account)?,
            None => check("users", "", &name)?,
        }
        for group in &groups {
            check("groups", "", group)?;
        }
        if let Some((namespace, _)) = service_account.filter(|_| groups.is_empty()) {
            groups.push("system:serviceaccounts".to_owned());
            groups.push(format!("system:serviceaccounts:{namespace}"));
        }
        let joins = if name == ANONYMOUS { UNAUTHENTICATED } else { AUTHENTICATED };
        if !groups.iter().any(|group| group == AUTHENTICATED || group == UNAUTHENTICATED) {
            groups.push(joins.to_owned());
        }
        Ok(User { name, groups })
    }
}

/// Who may do everything.
pub(super) fn admin() -> User {
    User { name: "admin".to_owned(), groups: vec!["system:masters".to_owned(), AUTHENTICATED.to_owned()] }
}

fn all(headers: &HeaderMap, name: &str) -> Vec<String> {
    headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).map(str::to_owned).collect()
}

/// The controller that gives roles the rules of those that they select.
const GATHERER: &str = "kube-controller-manager";

/// Who a controller of the world's own is to others.
pub(super) fn controller(manager: &str) -> User {
    let groups = |groups: &[&str]| groups.iter().map(|group| (*group).to_owned()).collect();
    if manager.starts_with("kube") {
        return User { name: format!("system:{manager}"), groups: groups(&["system:authenticated"]) };
    }
    User {
        name: format!("system:serviceaccount:kube-system:{manager}"),
        groups: groups(&[
            "system:serviceaccounts",
            "system:serviceaccounts:kube-system",
            "system:authenticated",
        ]),
    }
}

/// The rules, as read from what was stored at a revision: they are asked for far more often than they change.
#[derive(Debug, Default)]
pub(super) struct Access(Mutex<(u64, Arc<Rules>)>);

const RULES: [&str; 4] = [
    "clusterrolebindings.rbac.authorization.k8s.io",
    "clusterroles.rbac.authorization.k8s.io",
    "rolebindings.rbac.authorization.k8s.io",
    "roles.rbac.authorization.k8s.io",
];

/// By plural, what questions about access are.
const REVIEWS: [(&str, &str, &str); 5] = [
    ("localsubjectaccessreviews", "authorization.k8s.io/v1", "LocalSubjectAccessReview"),
    ("selfsubjectaccessreviews", "authorization.k8s.io/v1", "SelfSubjectAccessReview"),
    ("selfsubjectreviews", "authentication.k8s.io/v1", "SelfSubjectReview"),
    ("selfsubjectrulesreviews", "authorization.k8s.io/v1", "SelfSubjectRulesReview"),
    ("subjectaccessreviews", "authorization.k8s.io/v1", "SubjectAccessReview"),
];

impl State {
    fn rules(&self) -> Arc<Rules> {
        let touched = RULES.iter().map(|resource| self.store.touched(resource)).max().unwrap_or(0);
        let mut known = self.access.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.0 != touched {
            let stored: Vec<Arc<Value>> = RULES
                .iter()
                .flat_map(|resource| self.store.list(resource, None))
                .map(|(_, rule)| rule)
                .collect();
            *known = (touched, Arc::new(Rules::from_objects(stored.iter().map(|rule| &**rule))));
        }
        known.1.clone()
    }

    pub(super) fn check_path(&self, call: &Call) -> Result<(), Failure> {
        let verb = call.method.as_str().to_lowercase();
        self.rules().check(&call.user, &Attributes { verb: &verb, target: Target::Path(&call.path) })
    }

    pub(super) fn check_access(&self, asked: &Asked, call: &Call) -> Result<(), Failure> {
        let target = ResourceTarget {
            group: &asked.group,
            resource: &asked.resource,
            subresource: &asked.subresource,
            namespace: &asked.namespace,
            name: &asked.name,
        };
        let attributes = Attributes { verb: asked.verb, target: Target::Resource(target) };
        self.rules().check(&call.user, &attributes)
    }

    /// Nobody gives away by a role or a binding what they do not have. Who gathers rules into roles may, as
    /// Kubernetes' own controller may.
    pub(super) fn check_grants(
        &self,
        place: &Place,
        new: &Value,
        old: Option<&Value>,
    ) -> Result<(), Failure> {
        let user = &self.hearing.user;
        if *user == controller(GATHERER) {
            return Ok(());
        }
        let written = rbac::Written {
            resource: &place.resource,
            namespace: place.namespace.as_deref().unwrap_or_default(),
            asked: place.name.as_deref().unwrap_or_default(),
            new,
            old,
        };
        self.rules().check_grants(user, &written)
    }

    /// Answers questions about access, which are asked as objects that nobody keeps.
    pub(super) fn review(&self, plural: &str, query: &Query, call: &Call) -> Result<Option<Value>, Failure> {
        let Some((_, api_version, kind)) = REVIEWS.iter().find(|(of, _, _)| *of == plural) else {
            return Ok(None);
        };
        let review = self.part_of(api_version, kind, query, call)?;
        let rules = self.rules();
        let answered = match plural {
            "selfsubjectaccessreviews" => rbac::self_subject_access_review(&rules, &call.user, &review),
            "selfsubjectrulesreviews" => rbac::self_subject_rules_review(&rules, &call.user, &review),
            "subjectaccessreviews" => rbac::subject_access_review(&rules, &review),
            "localsubjectaccessreviews" => rbac::local_subject_access_review(&rules, &review),
            "selfsubjectreviews" => {
                let now = object::time(self.now());
                Ok(rbac::self_subject_review(&call.user, &review, now.as_str().unwrap_or_default()))
            }
            _ => return Ok(None),
        };
        answered.map(Some)
    }
}
