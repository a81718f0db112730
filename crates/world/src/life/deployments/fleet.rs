//! A deployment and its ReplicaSets as they are being changed.

use std::sync::Arc;

use crate::json::{Text, Value, json};
use crate::life::history::hash;
use crate::life::owned::owner_reference;
use crate::life::pods::{self, Rounded, number, number_or_percent, set_annotation, set_label};
use crate::object;

use super::conditions;

pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
pub(super) const MOST: &str = "deployment.kubernetes.io/max-replicas";
const TEMPLATE_HASH: &str = "pod-template-hash";

/// Annotations of a deployment that say nothing of its sets.
const NOT_COPIED: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    REVISION_HISTORY,
    DESIRED,
    MOST,
    "deprecated.deployment.rollback.to",
];

/// The most that a set remembers of its former revisions.
const REVISION_HISTORY_MAX: usize = 2000;

/// One ReplicaSet, as it was and as it is to be.
#[derive(Clone, Debug)]
pub(super) struct Set {
    pub(super) object: Value,
    /// `None` for one that is to be made.
    pub(super) before: Option<Arc<Value>>,
}

impl Set {
    pub(super) fn name(&self) -> &str {
        object::name(&self.object)
    }

    pub(super) fn replicas(&self) -> i64 {
        number(&self.object, "/spec/replicas")
    }

    pub(super) fn counted(&self, field: &str) -> i64 {
        number(&self.object["status"], &format!("/{field}"))
    }

    pub(super) fn desired(&self) -> Option<i64> {
        pods::annotation(&self.object, DESIRED).parse().ok()
    }

    pub(super) fn most(&self) -> Option<i64> {
        pods::annotation(&self.object, MOST).parse().ok()
    }

    pub(super) fn revision(&self) -> i64 {
        pods::annotation(&self.object, REVISION).parse().unwrap_or(0)
    }

    pub(super) fn age(&self) -> (&str, &str) {
        (object::text(&self.object, &["metadata", "creationTimestamp"]), self.name())
    }

    fn annotate(&mut self, key: &str, value: &str) {
        if pods::annotation(&self.object, key) != value
            || self.object["metadata"]["annotations"][key].is_null()
        {
            set_annotation(&mut self.object, key, value);
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Fleet {
    pub(super) deployment: Value,
    /// The set that has the deployment's template.
    pub(super) new: Option<Set>,
    /// All others, the oldest first.
    pub(super) old: Vec<Set>,
    /// What is told of it.
    pub(super) said: Vec<String>,
}

impl Fleet {
    pub(super) fn of(deployment: Value, sets: &[Arc<Value>]) -> Self {
        let as_known = |set: &Arc<Value>| Set { object: (**set).clone(), before: Some(set.clone()) };
        let mut old: Vec<Set> = sets.iter().map(as_known).collect();
        old.sort_by(|one, other| one.age().cmp(&other.age()));
        let template = &deployment["spec"]["template"];
        let new = old.iter().position(|set| is_same_template(&set.object["spec"]["template"], template));
        let new = new.map(|new| old.remove(new));
        Self { deployment, new, old, said: Vec::new() }
    }

    pub(super) fn replicas(&self) -> i64 {
        number(&self.deployment, "/spec/replicas")
    }

    pub(super) fn is_rolling(&self) -> bool {
        self.deployment["spec"]["strategy"]["type"] == "RollingUpdate"
    }

    /// How many more than wanted there may be, and how many fewer.
    fn leeway(&self) -> (i64, i64) {
        let update = &self.deployment["spec"]["strategy"]["rollingUpdate"];
        let surge = number_or_percent(&update["maxSurge"], self.replicas(), Rounded::Up);
        let unavailable = number_or_percent(&update["maxUnavailable"], self.replicas(), Rounded::Down);
        // Neither more nor fewer would never get anywhere.
        if surge == 0 && unavailable == 0 { (0, 1) } else { (surge, unavailable) }
    }

    pub(super) fn surge(&self) -> i64 {
        if self.is_rolling() { self.leeway().0 } else { 0 }
    }

    pub(super) fn unavailable(&self) -> i64 {
        if self.is_rolling() && self.replicas() > 0 { self.leeway().1.min(self.replicas()) } else { 0 }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Set> {
        self.old.iter().chain(&self.new)
    }

    pub(super) fn total(&self) -> i64 {
        self.all().map(Set::replicas).sum()
    }

    pub(super) fn count(&self, field: &str) -> i64 {
        self.all().map(|set| set.counted(field)).sum()
    }

    /// Changes the size of a set, and says so.
    pub(super) fn resize(&mut self, index: Index, replicas: i64) {
        let (wanted, most) = (self.replicas(), self.most());
        let set = match index {
            Index::New => self.new.as_mut(),
            Index::Old(index) => self.old.get_mut(index),
        };
        let Some(set) = set else { return };
        let before = set.replicas();
        set.annotate(DESIRED, &wanted.to_string());
        set.annotate(MOST, &most.to_string());
        if before != replicas {
            object::within(&mut set.object, "spec")["replicas"] = json!(replicas);
            let way = if before < replicas { "up" } else { "down" };
            let name = set.name();
            self.said.push(format!("Scaled {way} replica set {name} from {before} to {replicas}"));
        }
    }

    /// The new set as large as the deployment.
    pub(super) fn fill_new(&mut self) {
        if self.new.as_ref().is_some_and(|new| new.replicas() != self.replicas()) {
            self.resize(Index::New, self.replicas());
        }
    }

    fn most(&self) -> i64 {
        self.replicas() + self.surge()
    }

    /// The size that the new set may have now.
    pub(super) fn new_size(&self) -> i64 {
        let size = self.new.as_ref().map_or(0, Set::replicas);
        if !self.is_rolling() {
            return self.replicas();
        }
        let room = self.most() - self.total();
        if room <= 0 { size } else { size + room.min(self.replicas() - size) }
    }

    /// Keeps the new set's annotations as the deployment's are, and counts its revision.
    pub(super) fn sync_revision(&mut self, now: &Value) {
        let next = self.old.iter().map(Set::revision).max().unwrap_or(0) + 1;
        let min_ready_secs = number(&self.deployment, "/spec/minReadySeconds");
        let Some(new) = &mut self.new else { return };
        copy_annotations(&self.deployment, &mut new.object);
        let revision = new.revision();
        if revision < next {
            if revision > 0 {
                let history = remembered(pods::annotation(&new.object, REVISION_HISTORY), revision);
                set_annotation(&mut new.object, REVISION_HISTORY, &history);
            }
            new.annotate(REVISION, &next.to_string());
        }
        if number(&new.object, "/spec/minReadySeconds") != min_ready_secs {
            object::within(&mut new.object, "spec")["minReadySeconds"] = json!(min_ready_secs);
        }
        let revision = pods::annotation(&new.object, REVISION).to_owned();
        if pods::annotation(&self.deployment, REVISION) != revision {
            set_annotation(&mut self.deployment, REVISION, &revision);
        }
        if has_deadline(&self.deployment) && object::condition(&self.deployment, "Progressing").is_none() {
            let message = format!("Found new replica set {:?}", new.name());
            let found = conditions::progressing("True", "FoundNewReplicaSet", &message, now);
            conditions::set(object::within(&mut self.deployment, "status"), found);
        }
    }

    /// Makes a set for the deployment's template.
    pub(super) fn make_new(&mut self, now: &Value) {
        let deployment = &self.deployment;
        let name = self.next_name();
        let hash = template_hash(deployment);
        let mut template = deployment["spec"]["template"].clone();
        set_label(&mut template, TEMPLATE_HASH, &hash);
        let mut object = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {
                "name": name, "namespace": object::namespace(deployment),
                "labels": template["metadata"]["labels"], "annotations": {},
                "ownerReferences": [owner_reference(deployment)],
            },
            "spec": { "replicas": 0, "selector": deployment["spec"]["selector"], "template": template },
        });
        let selector = object::within(object::within(&mut object, "spec"), "selector");
        object::within(selector, "matchLabels")[TEMPLATE_HASH] = json!(hash);
        let min_ready_secs = number(deployment, "/spec/minReadySeconds");
        if min_ready_secs > 0 {
            object["spec"]["minReadySeconds"] = json!(min_ready_secs);
        }
        self.new = Some(Set { object, before: None });
        if has_deadline(&self.deployment) {
            let message = format!("Created new replica set {name:?}");
            let made = conditions::progressing("True", "NewReplicaSetCreated", &message, now);
            conditions::set(object::within(&mut self.deployment, "status"), made);
        }
        self.sync_revision(now);
        self.resize(Index::New, self.new_size());
    }

    /// What a set for the deployment's template is called.
    pub(super) fn next_name(&self) -> String {
        format!("{}-{}", object::name(&self.deployment), template_hash(&self.deployment))
    }

    /// Somebody else has that name: the next one is another.
    pub(super) fn count_collision(&mut self) {
        let collisions = number(&self.deployment, "/status/collisionCount");
        object::within(&mut self.deployment, "status")["collisionCount"] = json!(collisions + 1);
    }

    /// The sets beyond the limit of revisions, of those that nobody needs.
    pub(super) fn forgotten(&self) -> Vec<Arc<Value>> {
        let Some(limit) = self.deployment["spec"]["revisionHistoryLimit"].as_u64() else { return Vec::new() };
        let mut old: Vec<&Set> = self.old.iter().filter(|set| !object::is_terminating(&set.object)).collect();
        old.sort_by_key(|set| set.revision());
        let beyond = old.len().saturating_sub(usize::try_from(limit).unwrap_or(usize::MAX));
        old.into_iter()
            .take(beyond)
            .filter(|set| set.replicas() == 0 && set.counted("replicas") == 0)
            .filter(|set| number(&set.object, "/metadata/generation") <= set.counted("observedGeneration"))
            .filter_map(|set| set.before.clone())
            .collect()
    }
}

/// Which set is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Index {
    New,
    Old(usize),
}

pub(super) fn has_deadline(deployment: &Value) -> bool {
    let deadline = deployment["spec"]["progressDeadlineSeconds"].as_i64();
    deadline.is_some_and(|secs| secs != i64::from(i32::MAX))
}

fn template_hash(deployment: &Value) -> String {
    hash(&deployment["spec"]["template"], number(deployment, "/status/collisionCount"))
}

/// Whether two templates differ in nothing but the hash that a set's pods are labelled with.
fn is_same_template(one: &Value, other: &Value) -> bool {
    let [labels, other_labels] = [one, other].map(|of| but(&of["metadata"]["labels"], TEMPLATE_HASH));
    let [metadata, other_metadata] = [one, other].map(|of| but(&of["metadata"], "labels"));
    labels.eq(other_labels) && metadata.eq(other_metadata) && but(one, "metadata").eq(but(other, "metadata"))
}

/// All fields but one.
fn but<'a>(object: &'a Value, left_out: &'static str) -> impl Iterator<Item = (&'a Text, &'a Value)> {
    object.as_object().into_iter().flatten().filter(move |(field, _)| *field != left_out)
}

/// A set has the annotations of its deployment, and its own.
fn copy_annotations(deployment: &Value, set: &mut Value) {
    let annotations = object::at(deployment, "/metadata/annotations").and_then(Value::as_object);
    for (key, value) in annotations.into_iter().flatten() {
        if NOT_COPIED.contains(&&**key) || set["metadata"]["annotations"].get(key) == Some(value) {
            continue;
        }
        set_annotation(set, key, value.as_str().unwrap_or_default());
    }
}

/// The revisions that a set has had, with one more: the oldest are forgotten where they get too long.
fn remembered(history: &str, revision: i64) -> String {
    if history.is_empty() {
        return revision.to_string();
    }
    let mut history = format!("{history},{revision}");
    while history.len() > REVISION_HISTORY_MAX {
        match history.split_once(',') {
            Some((_, rest)) => history = rest.to_owned(),
            None => break,
        }
    }
    history
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_are_remembered_up_to_a_length() {
        for (history, revision, expected) in [("", 1, "1"), ("1", 3, "1,3"), ("1,3", 5, "1,3,5")] {
            assert_eq!(remembered(history, revision), expected);
        }
        let long = vec!["1234"; 400].join(",");
        assert_eq!(remembered(&long, 5).len(), 1996);
    }

    #[test]
    fn leeway_is_rounded_so_that_a_rollout_gets_on() {
        for (replicas, surge, unavailable, expected) in [
            (4, json!("25%"), json!("25%"), (1, 1)),
            (10, json!("25%"), json!("25%"), (3, 2)),
            (1, json!("25%"), json!("25%"), (1, 0)),
            (3, json!(0), json!("10%"), (0, 1)),
            (3, json!(0), json!(0), (0, 1)),
            (2, json!(5), json!(5), (5, 2)),
            (0, json!(1), json!(1), (1, 0)),
        ] {
            let strategy = json!({
                "type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable},
            });
            let deployment = json!({"spec": {"replicas": replicas, "strategy": strategy}});
            let fleet = Fleet::of(deployment, &[]);
            assert_eq!((fleet.surge(), fleet.unavailable()), expected, "{replicas} {strategy}");
        }
    }
}
