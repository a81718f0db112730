//! All objects, each change under a revision of its own, and the changes of late.
//!
//! The log is what watches read and what lets a list be made as of a revision that has passed. It is etcd and the
//! API server's caches at once: a compaction of etcd takes away the lists of the past, and leaves to watches what the
//! caches still have.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;

mod sharing;
mod trace;
mod weight;

use crate::json::Value;
use crate::object;
use sharing::Sharing;
use trace::Trace;

pub(crate) use weight::is_too_large;

/// Where an object is kept: its resource (`pods`, or `deployments.apps`: whatever version asks, the object is the
/// same), its namespace, empty where there are none, and its name.
///
/// They are one text, `pods\0default/web`, whose order is that of lists and of etcd's keys.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    text: Arc<str>,
    namespace_at: usize,
    name_at: usize,
}

impl Key {
    pub(crate) fn new(resource: &str, namespace: &str, name: &str) -> Self {
        let namespace_at = resource.len() + 1;
        let name_at = namespace_at + namespace.len() + 1;
        let mut text = String::with_capacity(name_at + name.len());
        text.extend([resource, "\0", namespace, "/", name]);
        Self { text: text.into(), namespace_at, name_at }
    }

    pub(crate) fn resource(&self) -> &str {
        self.text.get(..self.namespace_at - 1).unwrap_or_default()
    }

    pub(crate) fn namespace(&self) -> &str {
        self.text.get(self.namespace_at..self.name_at - 1).unwrap_or_default()
    }

    pub(crate) fn name(&self) -> &str {
        self.text.get(self.name_at..).unwrap_or_default()
    }

    /// Its name after its namespace: `default/web`.
    pub(crate) fn path(&self) -> &str {
        self.text.get(self.namespace_at..).unwrap_or_default()
    }

    /// Whether a list of this resource, in this namespace if there is one, has it.
    pub(crate) fn is_in(&self, resource: &str, namespace: Option<&str>) -> bool {
        self.resource() == resource && namespace.is_none_or(|namespace| self.namespace() == namespace)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.resource(), self.namespace(), self.name())
    }
}

/// What happened under one revision.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) revision: u64,
    pub(crate) key: Key,
    pub(crate) before: Option<Arc<Value>>,
    /// `None` once it is gone.
    pub(crate) after: Option<Arc<Value>>,
}

/// So many changes are kept for watches and lists of the past.
const CHANGES_MAX: usize = 10_000;

#[derive(Debug)]
pub(crate) struct Store {
    revision: u64,
    objects: BTreeMap<Key, Arc<Value>>,
    changes: VecDeque<Change>,
    /// The last revision of which the log knows nothing any more.
    forgotten: u64,
    /// The oldest revision that can still be listed, which is never before the log.
    compacted: u64,
    latest: watch::Sender<u64>,
    /// Who has an owner of this uid.
    owned: BTreeMap<Arc<str>, BTreeSet<Key>>,
    /// The pods that are bound to a node.
    bound: BTreeMap<Arc<str>, BTreeSet<Key>>,
    /// When a resource changed last.
    touched: BTreeMap<Arc<str>, u64>,
    sharing: Sharing,
    /// What the world's own controllers have not been told yet. `None` where there are none.
    untold: Option<Vec<Change>>,
    trace: Option<Trace>,
}

/// The revision asked for is no longer known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooOld {
    pub(crate) oldest: u64,
}

impl Store {
    pub(crate) fn new() -> Self {
        Self {
            revision: 1,
            objects: BTreeMap::new(),
            changes: VecDeque::new(),
            forgotten: 0,
            compacted: 0,
            latest: watch::Sender::new(1),
            owned: BTreeMap::new(),
            bound: BTreeMap::new(),
            touched: BTreeMap::new(),
            sharing: Sharing::default(),
            untold: None,
            trace: None,
        }
    }

    /// Takes down every change from now on.
    pub(crate) fn begin_trace(&mut self) {
        self.trace.get_or_insert_default();
    }

    pub(crate) fn trace(&self) -> &str {
        self.trace.as_ref().map_or("", Trace::text)
    }

    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// Tells whoever holds it of each new revision.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.latest.subscribe()
    }

    /// Wakes whoever waits for changes, though there is none.
    pub(crate) fn nudge(&self) {
        self.latest.send_replace(self.revision);
    }

    /// The revision under which a resource changed last; 0 for never.
    pub(crate) fn touched(&self, resource: &str) -> u64 {
        self.touched.get(resource).copied().unwrap_or(0)
    }

    /// What has happened since this was asked last: the first time, all that is there.
    pub(crate) fn take_untold(&mut self) -> Vec<Change> {
        if let Some(untold) = &mut self.untold {
            return std::mem::take(untold);
        }
        self.untold = Some(Vec::new());
        let there = self.objects.iter().map(|(key, object)| Change {
            revision: self.revision,
            key: key.clone(),
            before: None,
            after: Some(object.clone()),
        });
        there.collect()
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Arc<Value>> {
        self.objects.get(key).cloned()
    }

    /// Those that name this uid among their owners.
    pub(crate) fn owned_by(&self, uid: &str) -> impl Iterator<Item = &Key> {
        self.owned.get(uid).into_iter().flatten()
    }

    /// The pods that are bound to a node.
    pub(crate) fn bound_to(&self, node: &str) -> impl Iterator<Item = &Key> {
        self.bound.get(node).into_iter().flatten()
    }

    /// In the order of namespace and name.
    pub(crate) fn list<'a>(
        &'a self,
        resource: &'a str,
        namespace: Option<&'a str>,
    ) -> impl Iterator<Item = (&'a Key, Arc<Value>)> {
        let first = Key::new(resource, namespace.unwrap_or_default(), "");
        let all = self.objects.range(first..).take_while(move |(key, _)| key.is_in(resource, namespace));
        all.map(|(key, object)| (key, object.clone()))
    }

    /// The same without a look at the objects.
    pub(crate) fn keys<'a>(
        &'a self,
        resource: &'a str,
        namespace: Option<&'a str>,
    ) -> impl Iterator<Item = &'a Key> {
        let first = Key::new(resource, namespace.unwrap_or_default(), "");
        let from = self.objects.range(first..).map(|(key, _)| key);
        from.take_while(move |key| key.is_in(resource, namespace))
    }

    /// The same as it was at a revision.
    pub(crate) fn list_at(
        &self,
        revision: u64,
        resource: &str,
        namespace: Option<&str>,
    ) -> Result<BTreeMap<Key, Arc<Value>>, TooOld> {
        if revision < self.compacted {
            return Err(TooOld { oldest: self.compacted });
        }
        let mut then: BTreeMap<&Key, &Arc<Value>> =
            self.keys(resource, namespace).filter_map(|key| Some((key, self.objects.get(key)?))).collect();
        let undone = self.changes.iter().rev().take_while(|change| change.revision > revision);
        for change in undone.filter(|change| change.key.is_in(resource, namespace)) {
            match &change.before {
                Some(before) => then.insert(&change.key, before),
                None => then.remove(&change.key),
            };
        }
        Ok(then.into_iter().map(|(key, object)| (key.clone(), object.clone())).collect())
    }

    /// All changes after a revision, the oldest first.
    pub(crate) fn changes_after(&self, revision: u64) -> Result<impl Iterator<Item = &Change>, TooOld> {
        if revision < self.forgotten {
            return Err(TooOld { oldest: self.forgotten });
        }
        let from = self.changes.partition_point(|change| change.revision <= revision);
        Ok(self.changes.range(from..))
    }

    /// Writes an object under a new revision, which it carries from then on.
    pub(crate) fn put(&mut self, key: Key, mut object: Value) -> Arc<Value> {
        self.revision += 1;
        object::set_revision(&mut object, self.revision);
        let before = self.objects.get(&key).map(|before| &**before);
        let after = self.sharing.keep(key.resource(), object, before);
        let before = self.objects.insert(key.clone(), after.clone());
        self.log(Change { revision: self.revision, key, before, after: Some(after.clone()) });
        after
    }

    /// Removes an object; what it was, under the revision of its end.
    pub(crate) fn remove(&mut self, key: &Key) -> Option<Arc<Value>> {
        let before = self.objects.remove(key)?;
        self.revision += 1;
        let mut last = (*before).clone();
        object::set_revision(&mut last, self.revision);
        let last = Arc::new(last);
        // A watch shows the object as it was last, under the revision of its end.
        self.log(Change {
            revision: self.revision,
            key: key.clone(),
            before: Some(last.clone()),
            after: None,
        });
        Some(last)
    }

    fn log(&mut self, change: Change) {
        self.index(&change);
        match self.touched.get_mut(change.key.resource()) {
            Some(touched) => *touched = change.revision,
            None => drop(self.touched.insert(change.key.resource().into(), change.revision)),
        }
        if let Some(trace) = &mut self.trace {
            trace.write(&change);
        }
        if let Some(untold) = &mut self.untold {
            untold.push(change.clone());
        }
        self.changes.push_back(change);
        while self.changes.len() > CHANGES_MAX {
            if let Some(gone) = self.changes.pop_front() {
                self.forgotten = gone.revision;
                self.compacted = self.compacted.max(gone.revision);
            }
        }
        self.latest.send_replace(self.revision);
    }

    fn index(&mut self, change: &Change) {
        let Change { key, before, after, .. } = change;
        let owners = |object: &Option<Arc<Value>>| -> BTreeSet<Arc<str>> {
            object
                .iter()
                .flat_map(|object| object::owners(object))
                .map(|owner| Arc::from(owner.uid))
                .collect()
        };
        let node = |object: &Option<Arc<Value>>| -> BTreeSet<Arc<str>> {
            let object = object.as_ref().filter(|_| key.resource() == "pods");
            let name = object.map(|object| object::text(object, &["spec", "nodeName"]));
            name.filter(|name| !name.is_empty()).map(Arc::from).into_iter().collect()
        };
        reindex(&mut self.owned, key, &owners(before), owners(after));
        reindex(&mut self.bound, key, &node(before), node(after));
    }

    /// The oldest revision that can still be listed.
    pub(crate) fn compacted(&self) -> u64 {
        self.compacted
    }

    /// The last revision of which watches hear nothing any more.
    pub(crate) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Takes away what was before now, and leaves the changes.
    pub(crate) fn compact(&mut self) {
        self.compacted = self.revision;
    }

    /// Forgets all that happened up to now.
    pub(crate) fn forget(&mut self) {
        self.changes.clear();
        self.compacted = self.revision;
        self.forgotten = self.revision;
        self.latest.send_replace(self.revision);
    }
}

/// Files a key under the words it has now, and no longer under those it had.
fn reindex(
    index: &mut BTreeMap<Arc<str>, BTreeSet<Key>>,
    key: &Key,
    before: &BTreeSet<Arc<str>>,
    after: BTreeSet<Arc<str>>,
) {
    if *before == after {
        return;
    }
    for word in before.difference(&after) {
        if let Some(keys) = index.get_mut(word) {
            keys.remove(key);
            if keys.is_empty() {
                index.remove(word);
            }
        }
    }
    for word in after {
        index.entry(word).or_default().insert(key.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    fn names(listed: &BTreeMap<Key, Arc<Value>>) -> Vec<String> {
        listed.values().map(|object| object::text(object, &["metadata", "name"]).to_owned()).collect()
    }

    fn pod(name: &str) -> (Key, Value) {
        (Key::new("pods", "default", name), json!({"metadata": {"name": name}}))
    }

    #[test]
    fn the_past_can_be_listed_until_it_is_compacted_and_followed_until_it_is_forgotten() {
        let mut store = Store::new();
        for name in ["b", "a"] {
            let (key, object) = pod(name);
            store.put(key, object);
        }
        let before = store.revision();
        let (key, object) = pod("c");
        store.put(key, object);
        store.remove(&pod("a").0);
        for (revision, expected) in
            [(before, &["a", "b"][..]), (before + 1, &["a", "b", "c"]), (before + 2, &["b", "c"]), (1, &[])]
        {
            assert_eq!(names(&store.list_at(revision, "pods", None).unwrap()), expected, "at {revision}");
        }
        assert_eq!(store.changes_after(before).unwrap().count(), 2);
        store.compact();
        assert_eq!(store.list_at(before, "pods", None), Err(TooOld { oldest: store.revision() }));
        assert_eq!(store.changes_after(before).unwrap().count(), 2);
        store.forget();
        assert_eq!(store.changes_after(before).err(), Some(TooOld { oldest: store.revision() }));
        assert_eq!(names(&store.list_at(store.revision(), "pods", None).unwrap()), ["b", "c"]);
    }

    #[test]
    fn resources_and_namespaces_are_apart() {
        let mut store = Store::new();
        for (resource, namespace, name) in
            [("pods", "a", "x"), ("pods", "b", "x"), ("pods", "ab", "y"), ("podtemplates", "a", "z")]
        {
            store.put(Key::new(resource, namespace, name), json!({"metadata": {"name": name}}));
        }
        for (namespace, expected) in
            [(None, &["a/x", "ab/y", "b/x"][..]), (Some("a"), &["a/x"]), (Some("c"), &[])]
        {
            let listed: Vec<String> = store
                .list("pods", namespace)
                .map(|(key, _)| format!("{}/{}", key.namespace(), key.name()))
                .collect();
            assert_eq!(listed, expected);
        }
    }
}
