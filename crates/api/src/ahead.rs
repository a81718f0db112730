//! Pods of a long list, read on all cores and given back in the order in which they stand.
//!
//! Most of a large input is pods in JSON. One thread finds where each begins and ends; the others read
//! them in batches. When they are all busy, the first reads a batch itself.

use std::collections::BTreeMap;
use std::mem;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Scope};

use crate::documents::Body;
use crate::intern::Interner;
use crate::manifests::{Origin, read_pod};
use crate::pods::PodObject;

/// A pod that has still to be read.
#[derive(Debug)]
pub(crate) struct Unread<'t> {
    pub(crate) text: &'t str,
    /// What to add to a line within it to get a line of the input.
    pub(crate) line_offset: usize,
    pub(crate) origin: Origin,
}

/// A pod, or where it stands if it cannot be read.
pub(crate) type Outcome<'t> = Result<PodObject, Unread<'t>>;

/// Long enough that handing it over costs nothing beside reading it.
const BATCH: usize = 256;
/// More threads than this only wait for the one that splits the text.
const HELPERS_MAX: usize = 7;

pub(crate) struct Ahead<'scope, 't> {
    scope: &'scope Scope<'scope, 't>,
    helpers: Option<Helpers<'t>>,
    collecting: Vec<Unread<'t>>,
    /// How many batches were begun, and how many were given back.
    begun: usize,
    returned: usize,
    /// Batches that wait for one before them.
    read: BTreeMap<usize, Vec<Outcome<'t>>>,
}

/// A batch with its place among the others.
type Numbered<T> = (usize, Vec<T>);

struct Helpers<'t> {
    unread: SyncSender<Numbered<Unread<'t>>>,
    read: Receiver<Numbered<Outcome<'t>>>,
}

impl<'scope, 't> Ahead<'scope, 't> {
    pub(crate) fn new(scope: &'scope Scope<'scope, 't>) -> Self {
        Self { scope, helpers: None, collecting: Vec::new(), begun: 0, returned: 0, read: BTreeMap::new() }
    }

    /// Takes a pod to be read, and gives back what is ready.
    pub(crate) fn read(&mut self, pod: Unread<'t>, interner: &mut Interner) -> Vec<Outcome<'t>> {
        self.collecting.push(pod);
        if self.collecting.len() < BATCH {
            return Vec::new();
        }
        let batch = (self.begun, mem::take(&mut self.collecting));
        self.begun += 1;
        let helpers = self.helpers.get_or_insert_with(|| Helpers::start(self.scope));
        if let Some((number, batch)) = helpers.offer(batch) {
            self.read.insert(number, read_all(batch, interner));
        }
        self.read.extend(helpers.read.try_iter());
        self.ready()
    }

    /// Gives back all that is left, for which it may have to wait.
    pub(crate) fn rest(&mut self, interner: &mut Interner) -> Vec<Outcome<'t>> {
        let last = read_all(mem::take(&mut self.collecting), interner);
        let mut rest = self.ready();
        while self.returned < self.begun {
            let Some(batch) = self.helpers.as_ref().and_then(|helpers| helpers.read.recv().ok()) else {
                break;
            };
            self.read.extend([batch]);
            rest.extend(self.ready());
        }
        rest.extend(last);
        rest
    }

    fn ready(&mut self) -> Vec<Outcome<'t>> {
        let mut ready = Vec::new();
        while let Some(batch) = self.read.remove(&self.returned) {
            self.returned += 1;
            ready.extend(batch);
        }
        ready
    }
}

impl<'t> Helpers<'t> {
    fn start<'scope>(scope: &'scope Scope<'scope, '_>) -> Self
    where
        't: 'scope,
    {
        let others = thread::available_parallelism().map_or(0, |cores| cores.get() - 1).min(HELPERS_MAX);
        let (unread, to_read) = sync_channel(others);
        let (done, read) = channel();
        let to_read = Arc::new(Mutex::new(to_read));
        for _ in 0..others {
            let (to_read, done) = (to_read.clone(), done.clone());
            scope.spawn(move || help(&to_read, &done));
        }
        Self { unread, read }
    }

    /// Gives the batch back if nobody has time for it.
    fn offer(&self, batch: Numbered<Unread<'t>>) -> Option<Numbered<Unread<'t>>> {
        use std::sync::mpsc::TrySendError::{Disconnected, Full};
        match self.unread.try_send(batch) {
            Ok(()) => None,
            Err(Full(batch) | Disconnected(batch)) => Some(batch),
        }
    }
}

/// Reads batches until there are no more.
///
/// What two threads meet is kept twice: a thread's own interner needs no lock, and there are few threads.
fn help<'t>(unread: &Mutex<Receiver<Numbered<Unread<'t>>>>, read: &Sender<Numbered<Outcome<'t>>>) {
    let mut interner = Interner::default();
    loop {
        let next = unread.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((number, batch)) = next else { return };
        if read.send((number, read_all(batch, &mut interner))).is_err() {
            return;
        }
    }
}

fn read_all<'t>(batch: Vec<Unread<'t>>, interner: &mut Interner) -> Vec<Outcome<'t>> {
    batch
        .into_iter()
        .map(|pod| read_pod(Body::Json(pod.text), pod.origin, interner).map_err(|_refused| pod))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifests::read;
    use crate::source::Source;

    /// Pods on a line each, some of them wrong, with objects of other kinds between them.
    #[test]
    fn a_long_list_keeps_its_order() {
        let count = 5 * BATCH + 7;
        let (nameless, wrong_node) = ([3, BATCH, 3 * BATCH + 1], [10, 4 * BATCH + 3]);
        let mut lines = Vec::new();
        for i in 0..count {
            let line = if nameless.contains(&i) {
                r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {"containers": [{}]}}"#
                    .to_owned()
            } else if wrong_node.contains(&i) {
                r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": 7}"#.to_owned()
            } else {
                format!(
                    r#"{{"apiVersion": "v1", "kind": "Pod", "metadata": {{"name": "pod-{i}"}}, "spec": {{"containers": [{{}}]}}}}"#
                )
            };
            lines.push(line);
        }
        let text = format!("{{\"items\": [\n{}\n], \"kind\": \"List\"}}", lines.join(",\n"));
        let manifests = read(&[Source::Text { name: "list".to_owned(), text }], &mut |_, _| {});
        let wrong: Vec<usize> = manifests.problems.iter().filter_map(|problem| problem.line).collect();
        let mut expected: Vec<usize> = [&nameless[..], &wrong_node].concat().iter().map(|i| i + 2).collect();
        expected.sort_unstable();
        assert_eq!(wrong, expected);
        let pods: Vec<usize> = manifests.pods.iter().map(|pod| pod.line as usize).collect();
        let right: Vec<usize> = (2..count + 2).filter(|line| !expected.contains(line)).collect();
        assert_eq!(pods, right);
        for pod in &manifests.pods {
            assert_eq!(*pod.name, *format!("pod-{}", pod.line - 2));
        }
    }
}
