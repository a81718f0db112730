//! Writes that are refused, and what is told of them.

use std::sync::Arc;

use super::{Report, Severity};
use crate::api::Act;
use crate::failure::{CauseReason, Failure, Reason};
use crate::json::{Value, json};
use crate::object;

/// What a controller wanted to write, as far as it matters once it has been refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    Create {
        resource: &'static str,
        name: String,
    },
    Delete {
        resource: Arc<str>,
        name: String,
    },
    /// Nobody need know: what was to be changed is looked at again.
    Change,
}

impl Attempt {
    pub(crate) fn of(act: &Act) -> Self {
        match act {
            Act::Create(resource, object) => Self::Create { resource, name: object::name(object).to_owned() },
            Act::Delete { resource, object, .. } => {
                Self::Delete { resource: resource.clone(), name: object::name(object).to_owned() }
            }
            _ => Self::Change,
        }
    }

    fn is_of_pod(&self) -> bool {
        match self {
            Self::Create { resource, .. } => *resource == "pods",
            Self::Delete { resource, .. } => **resource == *"pods",
            Self::Change => false,
        }
    }
}

/// An attempt, and why it came to nothing.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) attempt: Attempt,
    pub(crate) why: Failure,
}

/// The condition of those whose pods cannot be made or deleted.
pub(crate) const REPLICA_FAILURE: &str = "ReplicaFailure";

impl Refusal {
    /// What it is called where people hear of it. Of a namespace that ends nobody does, nor of what has gone by itself.
    pub(crate) fn reason(&self) -> Option<&'static str> {
        match self.attempt {
            Attempt::Create { .. } => {
                let mut causes = self.why.details.causes.iter();
                let ends = causes.any(|cause| cause.reason == CauseReason::NamespaceTerminating);
                (!ends).then_some("FailedCreate")
            }
            Attempt::Delete { .. } => (self.why.reason != Reason::NotFound).then_some("FailedDelete"),
            Attempt::Change => None,
        }
    }

    /// The same of a pod, as a condition of its owner's.
    pub(crate) fn condition(&self, reason: &str, at: &Value) -> Value {
        json!({
            "type": REPLICA_FAILURE, "status": "True", "reason": reason, "message": self.why.message,
            "lastTransitionTime": at,
        })
    }

    /// What is told of a pod that could not be made, or deleted.
    pub(crate) fn of_pod(&self, owner: &Value, component: &'static str) -> Option<Report> {
        let reason = self.reason().filter(|_| self.attempt.is_of_pod())?;
        let doing = if reason == "FailedDelete" { "deleting" } else { "creating" };
        let message = format!("Error {doing}: {}", self.why);
        Some(Report::about(owner, Severity::Warning, reason, message, component))
    }
}
