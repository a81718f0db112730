//! What is to be done about a StatefulSet's pods, one after the other or all at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::{is_parallel, member, range};
use crate::json::{Value, json};
use crate::life::history::{self, History};
use crate::life::owned::{BURST, set_count};
use crate::life::pods::{self, Rounded, number, number_or_percent};
use crate::object;

#[derive(Debug)]
pub(super) struct Plan {
    pub(super) create: Vec<i64>,
    pub(super) delete: Vec<Arc<Value>>,
    pub(super) status: Value,
    pub(super) again: Option<Timestamp>,
    current: String,
}

impl Plan {
    /// The template that a new member has, and the name of its revision.
    pub(super) fn template_of(&self, ordinal: i64, set: &Value, history: &History) -> (Value, String) {
        let update = &set["spec"]["updateStrategy"];
        let is_kept = update["type"] == "RollingUpdate"
            && ordinal < range(set).start + number(update, "/rollingUpdate/partition");
        let kept = history.find(&self.current).filter(|_| is_kept);
        let revision: &Value = kept.map_or(&history.latest, |kept| kept);
        (history::template(revision), object::name(revision).to_owned())
    }
}

/// How a member is doing.
struct Health {
    min_ready_secs: i64,
    now: Timestamp,
}

impl Health {
    fn is_ready(pod: &Value) -> bool {
        pods::phase(pod) == "Running" && pods::is_ready(pod)
    }

    fn is_available(&self, pod: &Value) -> bool {
        Self::is_ready(pod) && pods::is_available(pod, self.min_ready_secs, self.now)
    }

    fn is_well(&self, pod: &Value) -> bool {
        self.is_available(pod) && !object::is_terminating(pod)
    }
}

pub(super) fn plan(set: &Value, history: &History, pods: &[Arc<Value>], now: Timestamp) -> Plan {
    let health = Health { min_ready_secs: number(set, "/spec/minReadySeconds"), now };
    let latest = object::name(&history.latest);
    let known = object::text(set, &["status", "currentRevision"]);
    let current = if history.find(known).is_some() { known } else { latest };
    let mut plan = Plan {
        create: Vec::new(),
        delete: Vec::new(),
        status: status(set, pods, current, latest, &health),
        again: pods::next_available(pods.iter(), health.min_ready_secs, now),
        current: current.to_owned(),
    };
    if object::is_terminating(set) {
        return plan;
    }
    let by_ordinal: BTreeMap<i64, &Arc<Value>> =
        pods.iter().filter_map(|pod| Some((member::ordinal(set, pod)?, pod))).collect();
    let range = range(set);
    // No more can be missing than are made at one look, however many are wanted.
    let members: Vec<(i64, Option<&Arc<Value>>)> = range
        .clone()
        .take(pods.len() + BURST)
        .map(|ordinal| (ordinal, by_ordinal.get(&ordinal).copied()))
        .collect();
    let surplus: Vec<&Arc<Value>> = by_ordinal
        .iter()
        .rev()
        .filter(|(ordinal, _)| !range.contains(ordinal))
        .map(|(_, pod)| *pod)
        .collect();
    let is_settled = keep(&members, is_parallel(set), &health, &mut plan)
        && shrink(&surplus, &members, is_parallel(set), &health, &mut plan);
    if is_settled && set["spec"]["updateStrategy"]["type"] == "RollingUpdate" {
        update(set, latest, &members, &health, &mut plan);
    }
    plan
}

/// Sees that all members are there; whether one may go on to what comes after.
fn keep(members: &[(i64, Option<&Arc<Value>>)], parallel: bool, health: &Health, plan: &mut Plan) -> bool {
    for (ordinal, pod) in members {
        match pod {
            None => {
                plan.create.push(*ordinal);
                if !parallel {
                    return false;
                }
            }
            Some(pod) if pods::is_done(pod) => {
                if !object::is_terminating(pod) {
                    plan.delete.push((*pod).clone());
                }
                return false;
            }
            Some(pod) if !parallel && !health.is_well(pod) => return false,
            Some(_) => {}
        }
    }
    true
}

/// Deletes those that are too many, the last one first.
fn shrink(
    surplus: &[&Arc<Value>],
    members: &[(i64, Option<&Arc<Value>>)],
    parallel: bool,
    health: &Health,
    plan: &mut Plan,
) -> bool {
    let is_unwell = |pod: &&Arc<Value>| !Health::is_ready(pod) || object::is_terminating(pod);
    // The unwell one with the lowest ordinal may go though it is not ready: nobody waits for it.
    let first_unwell = members
        .iter()
        .filter_map(|(_, pod)| *pod)
        .chain(surplus.iter().rev().copied())
        .find(is_unwell)
        .map(|pod| object::name(pod));
    for pod in surplus {
        if object::is_terminating(pod) {
            if parallel {
                continue;
            }
            return false;
        }
        if !parallel && !health.is_available(pod) && first_unwell != Some(object::name(pod)) {
            return false;
        }
        plan.delete.push((*pod).clone());
        if !parallel {
            return false;
        }
    }
    true
}

/// Deletes members of another revision, the last one first, so that they come again.
fn update(
    set: &Value,
    latest: &str,
    members: &[(i64, Option<&Arc<Value>>)],
    health: &Health,
    plan: &mut Plan,
) {
    let rolling = &set["spec"]["updateStrategy"]["rollingUpdate"];
    let partition = usize::try_from(number(rolling, "/partition")).unwrap_or(0);
    let most = match &rolling["maxUnavailable"] {
        Value::Null => 1,
        most => number_or_percent(most, number(set, "/spec/replicas"), Rounded::Up).max(1),
    };
    let mut unavailable: i64 = 0;
    if most > 1 {
        let unwell = members.iter().filter(|(_, pod)| pod.is_none_or(|pod| !health.is_well(pod))).count();
        unavailable = i64::try_from(unwell).unwrap_or(i64::MAX);
    }
    for (_, pod) in members.iter().skip(partition).rev() {
        let Some(pod) = pod else { return };
        if unavailable >= most {
            return;
        }
        if member::revision(pod) != latest && !object::is_terminating(pod) {
            plan.delete.push((*pod).clone());
            unavailable += 1;
        } else if most == 1 && !health.is_well(pod) {
            return;
        }
    }
}

fn status(set: &Value, pods: &[Arc<Value>], current: &str, latest: &str, health: &Health) -> Value {
    let count = |is: &dyn Fn(&Value) -> bool| pods.iter().filter(|pod| is(pod)).count();
    let of = |revision: &str| count(&|pod| !object::is_terminating(pod) && member::revision(pod) == revision);
    let ready = count(&Health::is_ready);
    let (mut now_current, updated) = (current, of(latest));
    let is_rolling = set["spec"]["updateStrategy"]["type"] == "RollingUpdate";
    if is_rolling && updated == pods.len() && ready == pods.len() {
        // All are of the new revision: it is the one from which the next update starts.
        now_current = latest;
    }
    let mut status = json!({
        "observedGeneration": number(set, "/metadata/generation"),
        "replicas": pods.len(),
        "availableReplicas": count(&|pod| health.is_available(pod)),
        "currentRevision": now_current, "updateRevision": latest,
        "collisionCount": number(set, "/status/collisionCount"),
    });
    set_count(&mut status, "readyReplicas", ready);
    set_count(&mut status, "currentReplicas", of(now_current));
    set_count(&mut status, "updatedReplicas", updated);
    let conditions = &set["status"]["conditions"];
    if !conditions.is_null() {
        status["conditions"] = conditions.clone();
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::life::statefulsets::BOOK;

    const NOW: &str = "2026-01-01T01:00:00Z";

    fn set(replicas: i64, policy: &str, strategy: &Value) -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db", "generation": 1},
            "spec": {
                "replicas": replicas, "podManagementPolicy": policy, "updateStrategy": strategy,
                "ordinals": {"start": 1}, "template": {"spec": {"image": "new"}},
            },
            "status": {"currentRevision": "db-old"},
        })
    }

    /// A pod in letters: its ordinal, `n`ew or `o`ld, and `r`eady, `p`ending, `f`ailed or `t`erminating.
    fn pod(word: &str, latest: &str) -> Arc<Value> {
        let (ordinal, kind, state) = (&word[..1], &word[1..2], &word[2..3]);
        let revision = if kind == "n" { latest } else { "db-old" };
        let (phase, ready) = match state {
            "r" | "t" => ("Running", "True"),
            "f" => ("Failed", "False"),
            _ => ("Pending", "False"),
        };
        let mut pod = json!({
            "metadata": {"name": format!("db-{ordinal}"), "labels": {"controller-revision-hash": revision}},
            "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]},
        });
        if state == "t" {
            pod["metadata"]["deletionTimestamp"] = json!(NOW);
        }
        Arc::new(pod)
    }

    #[test]
    fn members_come_and_go_in_order() {
        let rolling = |partition: i64, most: Value| {
            json!({"type": "RollingUpdate",
                "rollingUpdate": {"partition": partition, "maxUnavailable": most}})
        };
        let plain = rolling(0, Value::Null);
        let on_delete = json!({"type": "OnDelete"});
        let (ordered, parallel) = ("OrderedReady", "Parallel");
        for (replicas, policy, strategy, pods, create, delete) in [
            // One after the other.
            (2, ordered, &plain, vec![], vec![1], vec![]),
            (2, ordered, &plain, vec!["1np"], vec![], vec![]),
            (2, ordered, &plain, vec!["1nr"], vec![2], vec![]),
            (2, ordered, &plain, vec!["1nt"], vec![], vec![]),
            (2, ordered, &plain, vec!["2nr"], vec![1], vec![]),
            (2, ordered, &plain, vec!["1nf", "2nr"], vec![], vec!["db-1"]),
            // All at once.
            (3, parallel, &plain, vec!["2np"], vec![1, 3], vec![]),
            // Fewer, the last one first.
            (1, ordered, &plain, vec!["1nr", "2nr", "3nr"], vec![], vec!["db-3"]),
            (1, ordered, &plain, vec!["1nr", "2nr", "3nt"], vec![], vec![]),
            (1, ordered, &plain, vec!["1nr", "2np", "3nr"], vec![], vec!["db-3"]),
            (1, ordered, &plain, vec!["1nr", "2np", "3np"], vec![], vec![]),
            (1, ordered, &plain, vec!["1nr", "2np"], vec![], vec!["db-2"]),
            (1, ordered, &plain, vec!["1np", "2nr"], vec![], vec![]),
            (1, parallel, &plain, vec!["1np", "2nr", "3np"], vec![], vec!["db-3", "db-2"]),
            (1, ordered, &plain, vec!["0nr", "1nr"], vec![], vec!["db-0"]),
            // Another template.
            (3, ordered, &plain, vec!["1or", "2or", "3or"], vec![], vec!["db-3"]),
            (3, ordered, &plain, vec!["1or", "2or", "3nr"], vec![], vec!["db-2"]),
            (3, ordered, &plain, vec!["1or", "2or", "3np"], vec![], vec![]),
            (3, parallel, &plain, vec!["1or", "2or", "3np"], vec![], vec![]),
            (3, parallel, &plain, vec!["1or", "2op", "3or"], vec![], vec!["db-3"]),
            (3, ordered, &on_delete, vec!["1or", "2or", "3or"], vec![], vec![]),
            (3, ordered, &rolling(2, Value::Null), vec!["1or", "2or", "3or"], vec![], vec!["db-3"]),
            (3, ordered, &rolling(2, Value::Null), vec!["1or", "2or", "3nr"], vec![], vec![]),
            (3, ordered, &rolling(0, json!(2)), vec!["1or", "2or", "3or"], vec![], vec!["db-3", "db-2"]),
            (3, parallel, &rolling(0, json!(2)), vec!["1or", "2or", "3np"], vec![], vec!["db-2"]),
        ] {
            let set = set(replicas, policy, strategy);
            let history = BOOK.read(&set, vec![]);
            let latest = object::name(&history.latest).to_owned();
            let of: Vec<Arc<Value>> = pods.iter().map(|word| pod(word, &latest)).collect();
            let plan = plan(&set, &history, &of, NOW.parse().unwrap());
            let deleted: Vec<&str> = plan.delete.iter().map(|pod| object::name(pod)).collect();
            assert_eq!((plan.create, deleted), (create, delete), "{replicas} {policy} {strategy} {pods:?}");
        }
    }

    #[test]
    fn members_below_the_partition_keep_their_revision() {
        let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 1}});
        let set = set(2, "OrderedReady", &strategy);
        let old = Arc::new(json!({
            "metadata": {"name": "db-old"}, "revision": 1,
            "data": {"spec": {"template": {"$patch": "replace", "spec": {"image": "old"}}}},
        }));
        let history = BOOK.read(&set, vec![old]);
        let latest = object::name(&history.latest).to_owned();
        let plan = plan(&set, &history, &[pod("1or", &latest), pod("2nr", &latest)], NOW.parse().unwrap());
        let image = |ordinal| plan.template_of(ordinal, &set, &history).0["spec"]["image"].clone();
        assert_eq!((image(1), image(2)), (json!("old"), json!("new")));
        assert_eq!(
            plan.status,
            json!({
                "observedGeneration": 1, "replicas": 2, "readyReplicas": 2, "availableReplicas": 2,
                "currentReplicas": 1, "updatedReplicas": 1, "currentRevision": "db-old",
                "updateRevision": latest, "collisionCount": 0,
            })
        );
    }
}
