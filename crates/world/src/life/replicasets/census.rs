//! What the pods of a ReplicaSet come to. Each of its pods gives reason to count them all, so they are remembered.

use std::cell::LazyCell;

use jiff::Timestamp;
use rustc_hash::FxHashMap;

use crate::json::{Map, Value, json};
use crate::life::View;
use crate::life::owned::{selector, set_count};
use crate::life::pods::{self, after_secs, number};
use crate::life::refused::REPLICA_FAILURE;
use crate::object;
use crate::selector::LabelSelector;
use crate::store::Key;

/// What matters of a pod to the set that it counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Member {
    stage: Stage,
    is_fully_labelled: bool,
    is_ready: bool,
    ready_since: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Active,
    Stopping,
    Done,
}

impl Member {
    fn of(pod: &Value, wanted_labels: Option<&Map>) -> Self {
        let labels = &pod["metadata"]["labels"];
        let ready = object::condition(pod, "Ready").filter(|ready| ready["status"] == "True");
        Self {
            stage: match (pods::is_done(pod), object::is_terminating(pod)) {
                (true, _) => Stage::Done,
                (false, true) => Stage::Stopping,
                (false, false) => Stage::Active,
            },
            is_fully_labelled: wanted_labels
                .into_iter()
                .flatten()
                .all(|(key, value)| labels.get(key) == Some(value)),
            is_ready: ready.is_some(),
            ready_since: ready.and_then(|ready| pods::time(&ready["lastTransitionTime"])),
        }
    }
}

fn labels_of_template(set: &Value) -> Option<&Map> {
    object::at(set, "/spec/template/metadata/labels").and_then(Value::as_object)
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Census {
    pub(super) active: usize,
    stopping: usize,
    fully_labelled: usize,
    ready: usize,
    available: usize,
    /// When the first of those that are ready becomes available.
    pub(super) again: Option<Timestamp>,
}

impl Census {
    pub(super) fn of<'a>(set: &Value, pods: impl IntoIterator<Item = &'a Value>, now: Timestamp) -> Self {
        let (labels, min_ready_secs) = (labels_of_template(set), number(set, "/spec/minReadySeconds"));
        let mut census = Self::default();
        for pod in pods {
            census.count(Member::of(pod, labels), min_ready_secs, now);
        }
        census
    }

    fn count(&mut self, member: Member, min_ready_secs: i64, now: Timestamp) {
        match member.stage {
            Stage::Done => return,
            Stage::Stopping => {
                self.stopping += 1;
                return;
            }
            Stage::Active => self.active += 1,
        }
        self.fully_labelled += usize::from(member.is_fully_labelled);
        self.ready += usize::from(member.is_ready);
        let available_from = if member.is_ready && min_ready_secs == 0 {
            Some(Timestamp::MIN)
        } else {
            member.ready_since.map(|since| after_secs(since, min_ready_secs))
        };
        match available_from {
            Some(from) if from <= now => self.available += 1,
            from => self.again = [self.again, from].into_iter().flatten().min(),
        }
    }

    /// As the status of a set says it whose pods could all be made and deleted.
    pub(super) fn status(&self, set: &Value) -> Value {
        let mut status = json!({
            "replicas": self.active,
            "terminatingReplicas": self.stopping,
            "observedGeneration": number(set, "/metadata/generation"),
        });
        set_count(&mut status, "fullyLabeledReplicas", self.fully_labelled);
        set_count(&mut status, "readyReplicas", self.ready);
        set_count(&mut status, "availableReplicas", self.available);
        if let Some(conditions) = set["status"]["conditions"].as_array() {
            let kept = conditions.iter().filter(|condition| condition["type"] != REPLICA_FAILURE);
            let kept: Vec<&Value> = kept.collect();
            if !kept.is_empty() {
                status["conditions"] = json!(kept);
            }
        }
        status
    }
}

/// What pods are to the sets that they name as their owners.
#[derive(Debug, Default)]
pub(super) struct Register(FxHashMap<Key, Entry>);

#[derive(Debug)]
struct Entry {
    /// What it was looked at for.
    set: Key,
    generation: i64,
    relation: Relation,
}

#[derive(Clone, Copy, Debug)]
enum Relation {
    Member(Member),
    /// The set controls it, but no longer selects it.
    Stray,
    /// Somebody else sees to it.
    Stranger,
}

impl Register {
    /// What is known of a pod no longer holds.
    pub(super) fn forget(&mut self, pod: &Key) {
        self.0.remove(pod);
    }

    /// Counts the pods of a set. `None` if there are some that it should let go of.
    pub(super) fn census(&mut self, set_key: &Key, set: &Value, view: View<'_>) -> Option<Census> {
        let rules = LazyCell::new(|| (selector(set), labels_of_template(set)));
        let (uid, generation) = (object::uid(set), number(set, "/metadata/generation"));
        let min_ready_secs = number(set, "/spec/minReadySeconds");
        let mut census = Census::default();
        for key in view.dependents(uid).filter(|key| key.resource() == "pods") {
            let is_known = |entry: &&Entry| entry.generation == generation && entry.set == *set_key;
            let relation = if let Some(entry) = self.0.get(key).filter(is_known) {
                entry.relation
            } else {
                let Some(pod) = view.get(key) else { continue };
                let relation = Relation::between(&pod, uid, &rules.0, rules.1);
                self.0.insert(key.clone(), Entry { set: set_key.clone(), generation, relation });
                relation
            };
            match relation {
                Relation::Member(member) => census.count(member, min_ready_secs, view.now()),
                Relation::Stray => return None,
                Relation::Stranger => {}
            }
        }
        Some(census)
    }
}

impl Relation {
    fn between(pod: &Value, set_uid: &str, selector: &LabelSelector, wanted_labels: Option<&Map>) -> Self {
        if object::controller(pod).is_none_or(|owner| owner.uid != set_uid) {
            return Self::Stranger;
        }
        if !selector.matches(&pod["metadata"]["labels"]) {
            return Self::Stray;
        }
        Self::Member(Member::of(pod, wanted_labels))
    }
}
