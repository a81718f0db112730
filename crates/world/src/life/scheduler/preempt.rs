//! Whom a pod that finds no place may displace: pods of lower priority, as few and as unimportant as will do.

use std::borrow::Cow;
use std::collections::BTreeSet;

use berth_core::names::Text;
use berth_core::selector::Selector;

use super::cache::{Cache, PodId, Slot};
use super::filter::{Refusal, Seeker, summary};
use super::outlook::Outlook;
use super::trial::Trial;

/// How many of a PodDisruptionBudget's pods may go.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    pub(super) namespace: Text,
    pub(super) selector: Selector,
    pub(super) allowed: i64,
    /// Pods that are on their way out already.
    pub(super) disrupted: BTreeSet<Text>,
}

/// A node, and who would have to go from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) slot: Slot,
    /// The most important first.
    pub(super) victims: Vec<PodId>,
    violations: usize,
}

/// So many candidates are enough to choose from, or a tenth of the nodes, if that is more.
const CANDIDATES_MIN: usize = 100;
const CANDIDATES_SHARE: usize = 10;

/// The node on which it hurts least, or why there is none.
pub(super) fn choose(
    seeker: Seeker<'_>,
    outlook: &mut Outlook,
    refusals: &[(Slot, Refusal)],
    budgets: &[Budget],
) -> Result<Candidate, String> {
    let cache = seeker.cache;
    let open: Vec<Slot> =
        refusals.iter().filter(|(_, refusal)| !refusal.is_hopeless()).map(|(slot, _)| *slot).collect();
    let enough = CANDIDATES_MIN.max(open.len() / CANDIDATES_SHARE);
    let mut candidates: Vec<Candidate> = Vec::new();
    let mut reasons: Vec<Cow<'static, str>> = Vec::new();
    for slot in &open {
        match victims(seeker, outlook, *slot, budgets) {
            Ok(candidate) => candidates.push(candidate),
            Err(NoUse::Nobody) => reasons.push("No preemption victims found for incoming pod".into()),
            Err(NoUse::Refused(refusal)) => reasons.extend(refusal.reasons(cache)),
        }
        if candidates.len() >= enough {
            break;
        }
    }
    // Of equals the first.
    let best = candidates.into_iter().min_by_key(|candidate| harm(cache, candidate));
    best.ok_or_else(|| {
        let hopeless = cache.nodes().saturating_sub(open.len());
        let rest = std::iter::repeat_n(Cow::Borrowed("Preemption is not helpful for scheduling"), hopeless);
        summary(cache.nodes(), reasons.into_iter().chain(rest))
    })
}

/// What to compare candidates by, the first that differs: the least is the best.
fn harm(cache: &Cache, candidate: &Candidate) -> (usize, i32, i64, usize, std::cmp::Reverse<i64>) {
    let priority = |id: &PodId| cache.class_of(*id).map_or(0, |class| class.spec.priority);
    let highest = candidate.victims.first().map_or(i32::MIN, priority);
    // Shifted so that every victim counts, those of a negative priority too.
    let sum = candidate.victims.iter().map(|id| i64::from(priority(id)) + (1 << 31)).sum();
    let most_important = candidate.victims.iter().filter(|id| priority(id) == highest);
    let earliest = most_important.map(|id| started(cache, *id)).min().unwrap_or(i64::MAX);
    (candidate.violations, highest, sum, candidate.victims.len(), std::cmp::Reverse(earliest))
}

/// When it began; what has not begun yet comes last.
fn started(cache: &Cache, id: PodId) -> i64 {
    cache.pod(id).and_then(|pod| pod.started).unwrap_or(i64::MAX)
}

/// Why nobody's going would help on a node.
enum NoUse {
    Nobody,
    Refused(Refusal),
}

fn victims(
    seeker: Seeker<'_>,
    outlook: &mut Outlook,
    slot: Slot,
    budgets: &[Budget],
) -> Result<Candidate, NoUse> {
    let cache = seeker.cache;
    let mut lower = lower_than(seeker, slot);
    if lower.is_empty() {
        return Err(NoUse::Nobody);
    }
    let Some(mut trial) = Trial::new(seeker, outlook, slot) else { return Err(NoUse::Nobody) };
    for id in &lower {
        trial.take(*id);
    }
    if let Some(refusal) = trial.refusal() {
        trial.restore();
        return Err(NoUse::Refused(refusal));
    }
    let importance = |id: &PodId| {
        let priority = cache.class_of(*id).map_or(0, |class| class.spec.priority);
        (std::cmp::Reverse(priority), started(cache, *id), *id)
    };
    lower.sort_by_key(importance);
    let (protected, others) = split_by_budgets(cache, &lower, budgets);
    let mut victims = Vec::new();
    let mut violations = 0;
    for (ids, is_protected) in [(protected, true), (others, false)] {
        for id in ids {
            trial.put(id);
            if trial.refusal().is_some() {
                trial.take(id);
                victims.push(id);
                violations += usize::from(is_protected);
            }
        }
    }
    trial.restore();
    victims.sort_by_key(importance);
    Ok(Candidate { slot, victims, violations })
}

/// Pods on a node that matter less.
pub(super) fn lower_than(seeker: Seeker<'_>, slot: Slot) -> Vec<PodId> {
    let priority = seeker.class.spec.priority;
    let is_lower =
        |id: &PodId| seeker.cache.class_of(*id).is_some_and(|class| class.spec.priority < priority);
    let pods = seeker.cache.host(slot).map(|host| host.pods.clone()).unwrap_or_default();
    pods.into_iter().filter(is_lower).collect()
}

/// Those whose going would overdraw a budget, and the others.
fn split_by_budgets(cache: &Cache, pods: &[PodId], budgets: &[Budget]) -> (Vec<PodId>, Vec<PodId>) {
    let mut allowed: Vec<i64> = budgets.iter().map(|budget| budget.allowed).collect();
    pods.iter().copied().partition(|id| {
        let (Some(pod), Some(class)) = (cache.pod(*id), cache.class_of(*id)) else { return false };
        let mut is_protected = false;
        for (budget, allowed) in budgets.iter().zip(&mut allowed) {
            let covers = *budget.namespace == *pod.key.namespace()
                && !class.spec.labels.is_empty()
                && !budget.selector.is_everything()
                && budget.selector.matches(&class.spec.labels)
                && !budget.disrupted.contains(pod.key.name());
            if covers {
                *allowed -= 1;
                is_protected |= *allowed < 0;
            }
        }
        is_protected
    })
}
