//! What is asked of the world and what becomes of it, taken down for whoever judges both.

use crate::store::Change;

/// A request that reached the API, or would have but for a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// By the name that faults know it by.
    pub client: String,
    /// As roles name it: `create`.
    pub verb: &'static str,
    /// As `nodeclaims.karpenter.sh`, `pods/eviction`, or a path that is no resource.
    pub resource: String,
    /// Empty for all of them, and where there are none.
    pub namespace: String,
    /// Empty where none is named.
    pub name: String,
    /// The answer, whether or not the client hears it.
    pub status: u16,
    /// What it changed has revisions after the first, up to the second.
    pub revisions: (u64, u64),
    /// For how long what the client is shown has been out of date, by a fault.
    pub stale_secs: u64,
}

impl Asked {
    pub fn is_write(&self) -> bool {
        !matches!(self.verb, "get" | "list" | "watch") && !is_question(&self.resource)
    }

    pub fn is_done(&self) -> bool {
        self.status < 400
    }
}

/// Whether creating one of these only asks: who somebody is, or what they may do.
pub(crate) fn is_question(resource: &str) -> bool {
    resource.split_once('.').is_some_and(|(plural, group)| {
        plural.ends_with("reviews") && matches!(group, "authorization.k8s.io" | "authentication.k8s.io")
    })
}

/// What became of an object under one revision.
#[derive(Clone, Debug, PartialEq)]
pub struct Changed {
    pub revision: u64,
    /// As `nodeclaims.karpenter.sh`.
    pub resource: String,
    pub namespace: String,
    pub name: String,
    /// `None` once it is gone.
    pub object: Option<serde_json::Value>,
}

impl From<&Change> for Changed {
    fn from(change: &Change) -> Self {
        Self {
            revision: change.revision,
            resource: change.key.resource().to_owned(),
            namespace: change.key.namespace().to_owned(),
            name: change.key.name().to_owned(),
            object: change.after.as_deref().map(serde_json::Value::from),
        }
    }
}
