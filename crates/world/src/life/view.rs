//! What a controller sees: all objects as they are now.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

use crate::api::State;
use crate::json::Value;
use crate::kinds::Kinds;
use crate::object;
use crate::store::{Key, Store};

#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    store: &'a Store,
    kinds: &'a Kinds,
    now: Timestamp,
}

impl fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("now", &self.now).finish_non_exhaustive()
    }
}

impl<'a> View<'a> {
    pub(crate) fn of(state: &'a State) -> Self {
        Self { store: &state.store, kinds: &state.kinds, now: state.now() }
    }

    pub(crate) fn now(self) -> Timestamp {
        self.now
    }

    pub(crate) fn kinds(self) -> &'a Kinds {
        self.kinds
    }

    pub(crate) fn get(self, key: &Key) -> Option<Arc<Value>> {
        self.store.get(key)
    }

    /// In the order of namespace and name; of one namespace, or of all.
    pub(crate) fn list(
        self,
        resource: &'a str,
        namespace: Option<&'a str>,
    ) -> impl Iterator<Item = Arc<Value>> + 'a {
        self.store.list(resource, namespace).map(|(_, object)| object)
    }

    pub(crate) fn keys(
        self,
        resource: &'a str,
        namespace: Option<&'a str>,
    ) -> impl Iterator<Item = &'a Key> + 'a {
        self.store.keys(resource, namespace)
    }

    /// Whatever names this uid among its owners, of any resource.
    pub(crate) fn dependents(self, uid: &str) -> impl Iterator<Item = &'a Key> {
        self.store.owned_by(uid)
    }

    /// The objects of a resource that an object controls.
    pub(crate) fn controlled(self, resource: &str, owner: &Value) -> Vec<Arc<Value>> {
        let uid = object::uid(owner);
        let keys = self.store.owned_by(uid).filter(|key| key.resource() == resource);
        keys.filter_map(|key| self.store.get(key))
            .filter(|object| object::controller(object).is_some_and(|owner| owner.uid == uid))
            .collect()
    }

    /// The keys of the pods that are bound to a node.
    pub(crate) fn keys_on(self, node: &str) -> impl Iterator<Item = &'a Key> {
        self.store.bound_to(node)
    }

    /// The pods that are bound to a node.
    pub(crate) fn pods_on(self, node: &str) -> Vec<Arc<Value>> {
        self.store.bound_to(node).filter_map(|key| self.store.get(key)).collect()
    }
}
