//! What is refused, and in which words.

use std::borrow::Cow;

use berth_api::{Collection, Problem, admission, vpsie};
use serde_json::Value;

use crate::objects::{Metadata, NodeObject};

/// What the webhook guards, each at a path of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guarded {
    NodeGroups,
    VpsieNodes,
    NodeDeletion,
}

impl Guarded {
    pub(super) const ALL: [Self; 3] = [Self::NodeGroups, Self::VpsieNodes, Self::NodeDeletion];

    pub(super) fn path(self) -> &'static str {
        match self {
            Self::NodeGroups => "/validate/nodegroups",
            Self::VpsieNodes => "/validate/vpsienodes",
            Self::NodeDeletion => "/validate/node-deletion",
        }
    }

    pub(super) fn plural(self) -> &'static str {
        match self {
            Self::NodeGroups => "nodegroups",
            Self::VpsieNodes => "vpsienodes",
            Self::NodeDeletion => "nodes",
        }
    }

    /// Whose objects they are.
    pub(super) fn group(self) -> &'static str {
        match self {
            Self::NodeGroups | Self::VpsieNodes => "autoscaler.vpsie.com",
            Self::NodeDeletion => "",
        }
    }

    fn collection(self) -> Option<Collection> {
        berth_api::collections().find(|of| of.plural == self.plural() && of.group == self.group())
    }
}

/// What somebody wants to do to an object, as far as it matters here.
#[derive(Clone, Copy, Debug)]
pub(super) enum Deed<'a> {
    Create { object: &'a str },
    Update { old: &'a str, object: &'a str },
    Delete { old: &'a str },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Allowed,
    /// The object is wrong.
    Invalid(String),
    /// The object is right, and this must not be done to it.
    Forbidden(String),
}

pub(super) fn judge(guarded: Guarded, deed: Deed<'_>) -> Verdict {
    match (guarded, deed) {
        (Guarded::NodeDeletion, Deed::Delete { old }) => judge_deletion(old),
        (Guarded::NodeDeletion, _) | (_, Deed::Delete { .. }) => Verdict::Allowed,
        (_, Deed::Create { object }) => refused(&problems(guarded, object)),
        (_, Deed::Update { old, object }) => judge_update(guarded, old, object),
    }
}

/// Whoever changes an object answers for what he makes wrong with it, and for nothing that was wrong before: Berth notes on
/// a VPSieNode which machine it has, whatever else is the matter with it.
fn judge_update(guarded: Guarded, old: &str, object: &str) -> Verdict {
    let (was, is) = (value(old), value(object));
    // Its finalizers must come off, or it stays for ever.
    if !is["metadata"]["deletionTimestamp"].is_null() || was["spec"] == is["spec"] {
        return Verdict::Allowed;
    }
    let before = problems(guarded, old);
    let mut found = problems(guarded, object);
    found.retain(|problem| !before.contains(problem));
    if guarded == Guarded::VpsieNodes {
        found.extend(admission::lost_machine(old, object));
    }
    refused(&found)
}

fn problems(guarded: Guarded, object: &str) -> Vec<Problem> {
    guarded.collection().map_or_else(Vec::new, |of| admission::problems(&of, &named(object)))
}

/// An API server may ask before it has made a name of what a name is to begin with.
fn named(object: &str) -> Cow<'_, str> {
    let mut value = value(object);
    let Some(Value::Object(metadata)) = value.get_mut("metadata") else { return object.into() };
    match metadata.get("generateName").cloned() {
        Some(name) if !metadata.contains_key("name") => {
            metadata.insert("name".to_owned(), name);
            value.to_string().into()
        }
        _ => object.into(),
    }
}

fn value(object: &str) -> Value {
    serde_json::from_str(object).unwrap_or_default()
}

fn refused(problems: &[Problem]) -> Verdict {
    if problems.is_empty() {
        return Verdict::Allowed;
    }
    let line = |problem: &Problem| {
        let words = problem.words();
        problem.object.as_ref().map_or_else(|| words.clone(), |object| format!("{object}: {words}"))
    };
    Verdict::Invalid(problems.iter().map(line).collect::<Vec<_>>().join("\n"))
}

/// Only Nodes of Berth's, and of those only protected ones, are kept. One that Berth has closed is on its way out: to keep
/// it would keep its VPSieNode for ever.
fn judge_deletion(node: &str) -> Verdict {
    // Nobody is kept from deleting what is not understood.
    let Ok(node) = serde_json::from_str::<NodeObject>(node) else { return Verdict::Allowed };
    let Metadata { name, labels, annotations, deletion_timestamp, .. } = &node.metadata;
    let is_managed = labels.get(vpsie::MANAGED).is_some_and(|value| value == "true");
    match vpsie::protection_of(annotations) {
        Some(annotation) if is_managed && deletion_timestamp.is_none() && !node.is_closed() => {
            Verdict::Forbidden(format!(
                "Node/{name}: metadata.annotations[{annotation}]: is `true`, which keeps the node; remove it first: \
                 kubectl annotate node {name} {annotation}-"
            ))
        }
        _ => Verdict::Allowed,
    }
}
