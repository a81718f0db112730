//! Node and Namespace.

use serde::Deserialize;

use super::{Amounts, Metadata, Str};

#[derive(Debug, Deserialize)]
pub(crate) struct Node<'a> {
    #[serde(borrow)]
    pub(crate) metadata: Metadata<'a>,
    #[serde(default)]
    pub(crate) spec: NodeSpec<'a>,
    #[serde(default)]
    pub(crate) status: NodeStatus<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NodeSpec<'a> {
    #[serde(borrow)]
    pub(crate) taints: Vec<Taint<'a>>,
    pub(crate) unschedulable: bool,
    #[serde(rename = "providerID")]
    pub(crate) provider_id: Option<Str<'a>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Taint<'a> {
    #[serde(borrow)]
    pub(crate) key: Str<'a>,
    #[serde(default)]
    pub(crate) value: Option<Str<'a>>,
    pub(crate) effect: Str<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NodeStatus<'a> {
    #[serde(borrow)]
    pub(crate) capacity: Amounts<'a>,
    pub(crate) allocatable: Option<Amounts<'a>>,
    pub(crate) conditions: Vec<Condition<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Condition<'a> {
    #[serde(borrow, rename = "type")]
    pub(crate) kind: Str<'a>,
    pub(crate) status: Str<'a>,
    pub(crate) reason: Option<Str<'a>>,
    pub(crate) message: Option<Str<'a>>,
    pub(crate) last_transition_time: Option<Str<'a>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Namespace<'a> {
    #[serde(borrow)]
    pub(crate) metadata: Metadata<'a>,
}
