//! What is to be done about a DaemonSet's pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::eligible::Verdict;
use super::{GENERATION, REVISION, TEMPLATE_GENERATION};
use crate::json::{Value, json};
use crate::life::owned::set_count;
use crate::life::pods::{self, Rounded, number, number_or_percent};
use crate::object;

#[derive(Debug, Default)]
pub(super) struct Plan {
    /// The nodes that get a pod.
    pub(super) create: Vec<String>,
    pub(super) delete: Vec<Arc<Value>>,
    /// Those of the deleted that had ended, and where.
    pub(super) found_dead: Vec<(Arc<Value>, String)>,
    pub(super) status: Value,
    pub(super) again: Option<Timestamp>,
}

pub(super) struct Seen<'a> {
    /// Of the template as it is now.
    pub(super) hash: &'a str,
    pub(super) now: Timestamp,
}

/// A pod that has ended is there for so long before another one takes its place.
const RETRY_SECS: i64 = 1;

type Nodes = BTreeMap<String, Verdict>;
type ByNode = BTreeMap<String, Vec<Arc<Value>>>;

/// Pods are in the order of their age.
pub(super) fn plan(set: &Value, nodes: &Nodes, pods: &ByNode, seen: &Seen<'_>) -> Plan {
    let min_ready_secs = number(set, "/spec/minReadySeconds");
    let mut plan = Plan {
        status: status(set, nodes, pods, seen),
        again: pods::next_available(pods.values().flatten(), min_ready_secs, seen.now),
        ..Plan::default()
    };
    if object::is_terminating(set) {
        return plan;
    }
    let (surge, unavailable) = leeway(set, nodes);
    for (node, verdict) in nodes {
        let there = pods.get(node).map_or(&[][..], Vec::as_slice);
        manage(set, node, *verdict, there, surge > 0, seen, &mut plan);
    }
    // Nobody will ever put these on their node: it is gone.
    let lost = pods.iter().filter(|(node, _)| !nodes.contains_key(*node)).flat_map(|(_, pods)| pods);
    let unbound = lost.filter(|pod| object::text(pod, &["spec", "nodeName"]).is_empty());
    plan.delete.extend(unbound.filter(|pod| !object::is_terminating(pod)).cloned());
    let is_rolling = set["spec"]["updateStrategy"]["type"] == "RollingUpdate";
    if is_rolling && plan.create.is_empty() && plan.delete.is_empty() {
        if surge > 0 {
            roll_by_surge(set, nodes, pods, surge, seen, &mut plan);
        } else {
            roll(set, nodes, pods, unavailable, seen, &mut plan);
        }
    }
    plan
}

/// How many more pods there may be during an update, and how many fewer.
fn leeway(set: &Value, nodes: &Nodes) -> (usize, usize) {
    let update = &set["spec"]["updateStrategy"]["rollingUpdate"];
    let desired = nodes.values().filter(|verdict| **verdict == Verdict::Runs).count();
    let desired = i64::try_from(desired).unwrap_or(i64::MAX);
    let resolved =
        |field: &str| usize::try_from(number_or_percent(&update[field], desired, Rounded::Up)).unwrap_or(0);
    match (resolved("maxSurge"), resolved("maxUnavailable")) {
        (0, 0) => (0, 1),
        leeway => leeway,
    }
}

fn is_updated(set: &Value, pod: &Value, seen: &Seen<'_>) -> bool {
    let generation = pods::annotation(set, TEMPLATE_GENERATION);
    pods::label(pod, REVISION) == seen.hash
        || (!generation.is_empty() && pods::label(pod, GENERATION) == generation)
}

fn is_available(set: &Value, pod: &Value, seen: &Seen<'_>) -> bool {
    pods::is_available(pod, number(set, "/spec/minReadySeconds"), seen.now)
}

/// Sees that a node has the one pod that it should have.
fn manage(
    set: &Value,
    node: &str,
    verdict: Verdict,
    there: &[Arc<Value>],
    surges: bool,
    seen: &Seen<'_>,
    plan: &mut Plan,
) {
    let staying = || there.iter().filter(|pod| !object::is_terminating(pod));
    match verdict {
        Verdict::No => plan.delete.extend(staying().cloned()),
        Verdict::Runs if there.is_empty() => plan.create.push(node.to_owned()),
        Verdict::Runs | Verdict::Stays => {
            let (dead, running): (Vec<_>, Vec<_>) = staying().partition(|pod| pods::is_done(pod));
            for pod in dead {
                // One that fails at once must not be tried again at once.
                let earliest = pods::created(pod).map(|made| pods::after_secs(made, RETRY_SECS));
                if let Some(earliest) = earliest.filter(|earliest| *earliest > seen.now) {
                    plan.again = Some(plan.again.map_or(earliest, |again| again.min(earliest)));
                    continue;
                }
                plan.delete.push(pod.clone());
                plan.found_dead.push((pod.clone(), node.to_owned()));
            }
            if surges {
                let (new, old): (Vec<_>, Vec<_>) =
                    running.into_iter().partition(|pod| is_updated(set, pod, seen));
                plan.delete.extend(new.into_iter().skip(1).chain(old.into_iter().skip(1)).cloned());
            } else {
                plan.delete.extend(running.into_iter().skip(1).cloned());
            }
        }
    }
}

/// What a node has of the set during an update.
struct Pair<'a> {
    new: Option<&'a Arc<Value>>,
    old: Option<&'a Arc<Value>>,
}

/// `None` where there are too many to tell.
fn pair<'a>(set: &Value, there: &'a [Arc<Value>], seen: &Seen<'_>) -> Option<Pair<'a>> {
    let mut pair = Pair { new: None, old: None };
    for pod in there.iter().filter(|pod| !object::is_terminating(pod)) {
        let slot = if is_updated(set, pod, seen) { &mut pair.new } else { &mut pair.old };
        if slot.replace(pod).is_some() {
            return None;
        }
    }
    Some(pair)
}

/// The nodes that have or are to have a pod, each with its pods.
fn served<'a>(nodes: &'a Nodes, pods: &'a ByNode) -> impl Iterator<Item = (&'a String, &'a [Arc<Value>])> {
    nodes.iter().filter_map(|(node, verdict)| {
        let there = pods.get(node).map_or(&[][..], Vec::as_slice);
        (*verdict == Verdict::Runs || !there.is_empty()).then_some((node, there))
    })
}

/// Deletes pods of the old template, so that new ones come: as many as may be unavailable at a time.
fn roll(set: &Value, nodes: &Nodes, pods: &ByNode, most: usize, seen: &Seen<'_>, plan: &mut Plan) {
    let mut unavailable = 0;
    let mut candidates = Vec::new();
    for (_, there) in served(nodes, pods) {
        match pair(set, there, seen) {
            Some(Pair { new: Some(new), old: None }) => {
                unavailable += usize::from(!is_available(set, new, seen));
            }
            // One that does not run anyway costs nothing.
            Some(Pair { new: None, old: Some(old) }) if !is_available(set, old, seen) => {
                plan.delete.push(old.clone());
            }
            Some(Pair { new: None, old: Some(old) }) => candidates.push(old.clone()),
            _ => unavailable += 1,
        }
    }
    plan.delete.extend(candidates.into_iter().take(most.saturating_sub(unavailable)));
}

/// Makes pods of the new template beside the old ones, which go once the new ones are available.
fn roll_by_surge(set: &Value, nodes: &Nodes, pods: &ByNode, most: usize, seen: &Seen<'_>, plan: &mut Plan) {
    let mut surging = 0;
    let mut candidates = Vec::new();
    for (node, there) in served(nodes, pods) {
        match pair(set, there, seen) {
            None => surging += 1,
            Some(Pair { old: None, .. }) => {}
            Some(Pair { old: Some(old), new: None }) if !is_available(set, old, seen) => {
                plan.create.push(node.clone());
            }
            Some(Pair { new: None, .. }) => candidates.push(node.clone()),
            Some(Pair { old: Some(old), new: Some(new) }) => {
                if !is_available(set, old, seen) {
                    plan.delete.push(old.clone());
                    continue;
                }
                surging += 1;
                if is_available(set, new, seen) {
                    plan.delete.push(old.clone());
                }
            }
        }
    }
    plan.create.extend(candidates.into_iter().take(most.saturating_sub(surging)));
}

fn status(set: &Value, nodes: &Nodes, pods: &ByNode, seen: &Seen<'_>) -> Value {
    let (mut desired, mut scheduled, mut misplaced) = (0_usize, 0_usize, 0_usize);
    let (mut ready, mut available, mut updated) = (0_usize, 0_usize, 0_usize);
    for (node, verdict) in nodes {
        let first = pods.get(node).and_then(|pods| pods.first());
        if *verdict != Verdict::Runs {
            misplaced += usize::from(first.is_some());
            continue;
        }
        desired += 1;
        if let Some(pod) = first {
            scheduled += 1;
            ready += usize::from(pods::is_ready(pod));
            available += usize::from(is_available(set, pod, seen));
            updated += usize::from(is_updated(set, pod, seen));
        }
    }
    let mut status = json!({
        "observedGeneration": number(set, "/metadata/generation"),
        "currentNumberScheduled": scheduled, "desiredNumberScheduled": desired,
        "numberMisscheduled": misplaced, "numberReady": ready,
    });
    set_count(&mut status, "updatedNumberScheduled", updated);
    set_count(&mut status, "numberAvailable", available);
    set_count(&mut status, "numberUnavailable", desired - available);
    for field in ["collisionCount", "conditions"] {
        let known = &set["status"][field];
        if !known.is_null() {
            status[field] = known.clone();
        }
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-01-01T01:00:00Z";

    /// A pod in letters: its node, `n`ew or `o`ld, and `r`eady, `p`ending, `f`ailed or `t`erminating.
    fn pod(index: usize, word: &str) -> (String, Arc<Value>) {
        let (node, kind, state) = (&word[..1], &word[1..2], &word[2..3]);
        let (phase, ready) = match state {
            "r" | "t" => ("Running", "True"),
            "f" => ("Failed", "False"),
            _ => ("Pending", "False"),
        };
        let mut pod = json!({
            "metadata": {"name": format!("{word}{index}"), "labels": {REVISION: kind}},
            "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]},
        });
        if state == "t" {
            pod["metadata"]["deletionTimestamp"] = json!(NOW);
        }
        (node.to_owned(), Arc::new(pod))
    }

    #[test]
    fn each_node_has_the_pod_it_should_have() {
        // Nodes a, b and c are to have one, s may keep one, x must not.
        let nodes: Nodes = [("a", Verdict::Runs), ("b", Verdict::Runs), ("c", Verdict::Runs)]
            .into_iter()
            .chain([("s", Verdict::Stays), ("x", Verdict::No)])
            .map(|(name, verdict)| (name.to_owned(), verdict))
            .collect();
        for (surge, unavailable, words, create, delete) in [
            (0, 1, vec![], vec!["a", "b", "c"], vec![]),
            (0, 1, vec!["anr", "bnp", "cnt"], vec![], vec![]),
            (0, 1, vec!["anr", "bnr", "cnr", "snr", "xnr"], vec![], vec!["xnr4"]),
            (0, 1, vec!["anr", "anr", "bnr", "cnf"], vec![], vec!["anr1", "cnf3"]),
            (0, 1, vec!["anr", "bnr", "cnr", "znp"], vec![], vec!["znp3"]),
            // Another template.
            (0, 1, vec!["aor", "bor", "cor"], vec![], vec!["aor0"]),
            (0, 2, vec!["aor", "bor", "cor"], vec![], vec!["aor0", "bor1"]),
            (0, 1, vec!["anp", "bor", "cor"], vec![], vec![]),
            (0, 1, vec!["ant", "bor", "cor"], vec![], vec![]),
            (0, 1, vec!["aor", "bop", "cor"], vec![], vec!["bop1", "aor0"]),
            (0, 0, vec!["aor", "bor", "cor"], vec![], vec!["aor0"]),
            // More for a while instead of fewer.
            (1, 0, vec!["aor", "bor", "cor"], vec!["a"], vec![]),
            (1, 0, vec!["aor", "anp", "bor", "cor"], vec![], vec![]),
            (1, 0, vec!["aor", "anr", "bor", "cor"], vec![], vec!["aor0"]),
            (1, 0, vec!["anr", "bor", "cor"], vec!["b"], vec![]),
            (1, 0, vec!["aop", "anp", "bor", "cop"], vec!["c", "b"], vec!["aop0"]),
        ] {
            let mut pods: ByNode = BTreeMap::new();
            for (index, word) in words.iter().enumerate() {
                let (node, pod) = pod(index, word);
                pods.entry(node).or_default().push(pod);
            }
            let set = json!({"metadata": {}, "spec": {"updateStrategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable},
            }}});
            let plan = plan(&set, &nodes, &pods, &Seen { hash: "n", now: NOW.parse().unwrap() });
            let mut deleted: Vec<&str> = plan.delete.iter().map(|pod| object::name(pod)).collect();
            let mut delete = delete;
            deleted.sort_unstable();
            delete.sort_unstable();
            assert_eq!(
                (plan.create, deleted),
                (create.into_iter().map(str::to_owned).collect(), delete),
                "{words:?}"
            );
        }
    }

    #[test]
    fn nodes_are_counted() {
        let nodes: Nodes =
            [("a", Verdict::Runs), ("b", Verdict::Runs), ("c", Verdict::Runs), ("x", Verdict::No)]
                .into_iter()
                .map(|(name, verdict)| (name.to_owned(), verdict))
                .collect();
        let mut pods: ByNode = BTreeMap::new();
        for (index, word) in ["anr", "bop", "xnr"].into_iter().enumerate() {
            let (node, pod) = pod(index, word);
            pods.entry(node).or_default().push(pod);
        }
        let set = json!({"metadata": {"generation": 2}, "spec": {}});
        let status = status(&set, &nodes, &pods, &Seen { hash: "n", now: NOW.parse().unwrap() });
        assert_eq!(
            status,
            json!({
                "observedGeneration": 2, "currentNumberScheduled": 2, "desiredNumberScheduled": 3,
                "numberMisscheduled": 1, "numberReady": 1, "updatedNumberScheduled": 1,
                "numberAvailable": 1, "numberUnavailable": 2,
            })
        );
    }
}
