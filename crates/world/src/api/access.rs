//! Who asks, and whether they may.

use std::sync::{Arc, Mutex, PoisonError};

use http::HeaderMap;
use serde_json::{Value, json};

use super::{Call, State};
use crate::failure::Failure;
use crate::object;
use crate::rbac::{self, Attributes, ResourceTarget, Rules, Target, User};
use crate::request::Asked;

/// Whoever is in the same process, or has the key of the kubeconfig, may do everything, and act as somebody else.
pub(crate) fn user(headers: &HeaderMap) -> User {
    let all = |name: &str| -> Vec<String> {
        headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).map(str::to_owned).collect()
    };
    match all("impersonate-user").pop() {
        None => User {
            name: "admin".to_owned(),
            groups: vec!["system:masters".to_owned(), "system:authenticated".to_owned()],
        },
        Some(name) => {
            let mut groups = all("impersonate-group");
            groups.push("system:authenticated".to_owned());
            User { name, groups }
        }
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

    /// Answers questions about access, which are asked as objects that nobody keeps.
    pub(super) fn review(&self, kind: &str, call: &Call) -> Result<Option<Value>, Failure> {
        let mut review: Value = serde_json::from_slice(&call.body).unwrap_or_else(|_| json!({}));
        let (group, name) = match kind {
            "selfsubjectaccessreviews" => ("authorization.k8s.io", "SelfSubjectAccessReview"),
            "selfsubjectrulesreviews" => ("authorization.k8s.io", "SelfSubjectRulesReview"),
            "subjectaccessreviews" => ("authorization.k8s.io", "SubjectAccessReview"),
            "localsubjectaccessreviews" => ("authorization.k8s.io", "LocalSubjectAccessReview"),
            _ => ("authentication.k8s.io", "SelfSubjectReview"),
        };
        // Whoever asks need not say what it is.
        review["apiVersion"] = json!(format!("{group}/v1"));
        review["kind"] = json!(name);
        let rules = self.rules();
        let answered = match kind {
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
