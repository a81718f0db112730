//! What must hold at every moment, whatever goes wrong. The numbers are those of the list of invariants in
//! `docs/testing.md`.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use berth_core::disruption::DisruptionReason;
use berth_core::resources::USD_PER_HOUR;
use berth_world::audit::Asked;
use berth_world::cloud::Call;

use crate::things::{Claim, Machine, Node, Pod, Pool};
use crate::truth::State;

/// A machine may be without a claim for so long.
const ORPHAN_SECS_MAX: i64 = 600;
/// A pod that should have ended so long ago is not waited for.
const STUCK_SECS: i64 = 60;
/// A machine that has not joined by then may be given up.
const JOIN_SECS_MAX: i64 = 900;
/// What was decided before a view stood still or broke off is done by then: a silence is noticed, and a step takes no
/// longer.
const STALE_SECS_MAX: u64 = 125;
/// A launch is sent this long after it was noted, at most: crates/cloud/src/vpsie/cloud/buying.rs.
const SENT_SECS_MAX: i64 = 60;
/// Within a second an operator writes no more than this. Of the workloads without a fault, W5 writes between 60 and 80, and
/// W4 and the limits' between 80 and 100, when ten nodes come up at once.
const WRITES_MAX: usize = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Invariant {
    NoLeak,
    SingleLaunch,
    UpperBounds,
    LowerBounds,
    PodBudgets,
    DisruptionBudget,
    Money,
    DoNotDisrupt,
    DrainFirst,
    OursOnly,
    OneDecider,
    Lifecycle,
    Idempotence,
    Convergence,
    NoFlapping,
    Explained,
    Bounded,
    FailSafe,
    Checked,
    Noted,
}

impl Invariant {
    fn number(self) -> u8 {
        match self {
            Self::NoLeak => 1,
            Self::SingleLaunch => 2,
            Self::UpperBounds => 3,
            Self::LowerBounds => 4,
            Self::PodBudgets => 5,
            Self::DisruptionBudget => 6,
            Self::Money => 7,
            Self::DoNotDisrupt => 8,
            Self::DrainFirst => 9,
            Self::OursOnly => 10,
            Self::OneDecider => 11,
            Self::Lifecycle => 12,
            Self::Idempotence => 13,
            Self::Convergence => 14,
            Self::NoFlapping => 15,
            Self::Explained => 16,
            Self::Bounded => 17,
            Self::FailSafe => 18,
            Self::Checked => 19,
            Self::Noted => 20,
        }
    }
}

/// An invariant that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Broken {
    pub(crate) invariant: Invariant,
    pub(crate) how: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "I{} {:?}: {}", self.invariant.number(), self.invariant, self.how)
    }
}

impl Invariant {
    pub(crate) fn broken(self, how: impl Into<String>) -> Broken {
        Broken { invariant: self, how: how.into() }
    }

    fn unless(self, holds: bool, how: impl FnOnce() -> String) -> Option<Broken> {
        (!holds).then(|| self.broken(how()))
    }
}

/// Of machines, after everything that happens.
pub(crate) fn of_machines(state: &State) -> Option<Broken> {
    no_leak(state)
        .or_else(|| single_launch(state))
        .or_else(|| state.pools.iter().find_map(|(name, pool)| upper_bounds(state, name, pool)))
}

fn no_leak(state: &State) -> Option<Broken> {
    state.past.orphans.iter().find_map(|(id, since)| {
        let secs = state.now.duration_since(*since).as_secs();
        let how = || format!("machine {id} has had no claim for {secs} s");
        Invariant::NoLeak.unless(secs <= ORPHAN_SECS_MAX, how)
    })
}

fn single_launch(state: &State) -> Option<Broken> {
    let mut by_name: BTreeMap<&str, usize> = BTreeMap::new();
    for machine in state.machines.iter().filter(|machine| machine.token.is_some()) {
        *by_name.entry(&machine.name).or_default() += 1;
    }
    by_name.into_iter().find_map(|(name, machines)| {
        let claims = state.past.claims.get(name).map_or(0, std::collections::BTreeSet::len);
        let how = || format!("{machines} machines were bought for {claims} claims of the name {name}");
        Invariant::SingleLaunch.unless(machines <= claims, how)
    })
}

fn upper_bounds(state: &State, name: &str, pool: &Pool) -> Option<Broken> {
    let claims = state.claims.values().filter(|claim| claim.pool == name && !claim.is_over()).count();
    // What somebody has cut loose from its claim is not the pool's any more.
    let is_kept = |machine: &&Machine| {
        machine.pool == name
            && machine.token.as_ref().is_none_or(|token| !state.past.abandoned.contains(token))
    };
    let machines: Vec<&Machine> = state.alive().filter(is_kept).collect();
    let committed = pool.ledger.claims.len();
    let within = |count: usize, what: &str| {
        let max = pool.nodes_max.unwrap_or(u64::MAX);
        let how = || format!("{name} has {count} {what} of at most {max}");
        Invariant::UpperBounds.unless(count as u64 <= max, how)
    };
    let over = pool.limits.iter().find_map(|(resource, limit)| {
        let invariant = if **resource == *USD_PER_HOUR { Invariant::Money } else { Invariant::UpperBounds };
        let ordered = machines.iter().filter(|machine| machine.is_as_ordered);
        let alive: i64 = ordered.map(|machine| machine.amounts.get(resource)).sum();
        let committed: i64 = pool.ledger.claims.values().map(|amounts| amounts.get(resource)).sum();
        let how =
            || format!("{name} has {alive} and has committed {committed} of at most {limit} {resource}");
        invariant.unless(alive.max(committed) <= limit, how)
    });
    within(claims, "claims")
        .or_else(|| within(machines.len(), "machines"))
        .or_else(|| within(committed, "claims in its ledger"))
        .or(over)
}

/// No pod waits for long without being told why.
pub(crate) fn explained(state: &State) -> Option<Broken> {
    let secs_max = state.told_secs_max?;
    state.past.waiting.iter().find_map(|(id, since)| {
        let secs = state.now.duration_since(*since).as_secs();
        let how = || format!("{}/{} has waited for {secs} s and is not told why", id.0, id.1);
        Invariant::Explained.unless(secs <= secs_max || state.past.told.contains(id), how)
    })
}

/// Of nodes, after each change of one.
pub(crate) fn of_nodes(state: &State) -> Option<Broken> {
    state.pools.iter().find_map(|(name, pool)| disruption_budget(state, name, pool))
}

/// Of a pool, after each change of it.
pub(crate) fn of_pool(
    state: &State,
    name: &str,
    before: Option<&Pool>,
    after: Option<&Pool>,
) -> Option<Broken> {
    let after = after?;
    let epochs = before.map(|before| (before.ledger.epoch, after.ledger.epoch));
    let one_decider = epochs.and_then(|(before, after)| {
        let how = || format!("the ledger of {name} went from epoch {before} back to {after}");
        Invariant::OneDecider.unless(before <= after, how)
    });
    one_decider.or_else(|| upper_bounds(state, name, after)).or_else(|| disruption_budget(state, name, after))
}

/// Of a claim, after each change of it.
pub(crate) fn of_claim(
    state: &State,
    name: &str,
    before: Option<&Claim>,
    after: Option<&Claim>,
) -> Option<Broken> {
    let pools = || state.pools.iter().find_map(|(pool, object)| upper_bounds(state, pool, object));
    let fails = after.filter(|after| after.has_failed() && !before.is_some_and(Claim::has_failed));
    lifecycle(name, before, after)
        .or_else(pools)
        .or_else(|| no_flapping(state))
        .or_else(|| fail_safe(state, name, fails?))
}

/// What goes wrong costs some claims; without an end they would be more.
fn no_flapping(state: &State) -> Option<Broken> {
    let (made, max) = (state.counts.claims_made, state.claims_max);
    Invariant::NoFlapping.unless(made <= max, || format!("{made} claims were made; {max} are enough"))
}

/// A claim that an operator makes is one that its pool's ledger has, or had until somebody else changed it.
pub(crate) fn committed(state: &State, name: &str, claim: Option<&Claim>) -> Option<Broken> {
    let claim = claim?;
    let pool = state.pools.get(&claim.pool)?;
    let taken = state.past.uncommitted.get(&claim.pool);
    let is_committed =
        pool.ledger.claims.contains_key(name) || taken.is_some_and(|taken| taken.contains(name));
    let how = || format!("{name} was made, and nobody had committed to it");
    Invariant::OneDecider.unless(is_committed, how)
}

fn lifecycle(name: &str, before: Option<&Claim>, after: Option<&Claim>) -> Option<Broken> {
    const COURSE: [&str; 3] = ["Launched", "Registered", "Initialized"];
    let after = after?;
    let same = before.filter(|before| before.uid == after.uid);
    let undone = same.and_then(|before| {
        let lost = COURSE.iter().find(|step| before.holds.contains(**step) && !after.holds.contains(**step));
        let moved = !before.provider_id.is_empty() && before.provider_id != after.provider_id;
        match (lost, moved) {
            (Some(step), _) => Some(format!("{name} was {step} and is no longer")),
            (None, true) => Some(format!("{name} has another machine than before")),
            _ if before.deletion.is_some() && after.deletion.is_none() => {
                Some(format!("{name} was deleted and is not any more"))
            }
            _ => None,
        }
    });
    let skipped = COURSE.windows(2).find_map(|pair| {
        let [earlier, later] = pair else { return None };
        (after.holds.contains(*later) && !after.holds.contains(*earlier))
            .then(|| format!("{name} is {later} and was never {earlier}"))
    });
    undone.or(skipped).map(|how| Invariant::Lifecycle.broken(how))
}

/// Nodes that are on their way out though nothing forces them.
fn disruption_budget(state: &State, name: &str, pool: &Pool) -> Option<Broken> {
    let is_going = |(claim_name, claim): &(&String, &Claim)| {
        if claim.pool != name {
            return false;
        }
        let departure = pool.ledger.leaving.get(claim_name.as_str());
        let is_committed =
            departure.is_some_and(|departure| DisruptionReason::BUDGETED.contains(&departure.reason));
        let is_forced =
            departure.is_some_and(|departure| !DisruptionReason::BUDGETED.contains(&departure.reason));
        let is_doomed = state.machine_of(claim).is_none_or(|machine| !machine.is_alive || machine.is_doomed);
        !is_doomed && !is_forced && (is_committed || state.past.disrupted.contains(&claim.uid))
    };
    let going = state.claims.iter().filter(is_going).count() as u64;
    let how = || format!("{going} nodes of {name} go at once; {} may", pool.away_max);
    Invariant::DisruptionBudget.unless(going <= pool.away_max, how)
}

/// Whether nothing but a decision takes the claim's node away: all that belongs to it is there.
pub(crate) fn is_voluntary(state: &State, claim: &Claim) -> bool {
    let machine = state.machine_of(claim).is_some_and(|machine| machine.is_alive && !machine.is_doomed);
    let node = state.node_of(&claim.provider_id);
    let is_there = machine && node.is_some_and(|(_, node)| !node.is_deleting) && claim.deletion.is_none();
    is_there && !is_of_deleted_pool(state, claim)
}

/// Whoever deletes a pool wants none of its nodes any more.
fn is_of_deleted_pool(state: &State, claim: &Claim) -> bool {
    state.pools.get(&claim.pool).is_some_and(|pool| pool.is_deleting)
}

/// Of a write by an operator, before it has its effect.
pub(crate) fn before_write(state: &State, asked: &Asked) -> Option<Broken> {
    let writes = state.past.writes.get(&asked.client).map_or(0, VecDeque::len);
    let how = || format!("{} wrote {writes} times within a second", asked.client);
    let bounded = Invariant::Bounded.unless(writes <= WRITES_MAX, how);
    if bounded.is_some() || !asked.is_done() {
        return bounded;
    }
    if let Some(blind) = before_blind_write(state, asked) {
        return Some(blind);
    }
    match (asked.verb, &*asked.resource) {
        ("create", "pods/eviction") => before_eviction(state, asked),
        ("delete" | "deletecollection", "pods") => before_pod_deletion(state, asked),
        ("delete", resource) if resource == state.dialect.claims() => before_claim_deletion(state, asked),
        ("patch" | "delete", "nodes") => ours_only(state, asked),
        _ => None,
    }
}

/// Who has not seen what is for a while, or not all of it, takes nothing away that is not gone by itself.
fn blind(state: &State, client: &str, deed: impl FnOnce() -> String) -> Option<Broken> {
    let secs = state.blind_secs(client);
    let how = || format!("{} by {client}, who has not seen all that is for {secs} s", deed());
    Invariant::FailSafe.unless(secs <= STALE_SECS_MAX, how)
}

fn before_blind_write(state: &State, asked: &Asked) -> Option<Broken> {
    let claim = match (asked.verb, &*asked.resource) {
        ("create", "pods/eviction") | ("delete" | "deletecollection", "pods") => {
            let node = state.nodes.get(&pod(state, asked)?.node)?;
            state.claim_of_node(node).map(|(_, claim)| claim)
        }
        ("delete", resource) if resource == state.dialect.claims() => state.claims.get(&asked.name),
        _ => None,
    };
    claim.filter(|claim| is_voluntary(state, claim))?;
    let Asked { client, verb, resource, name, .. } = asked;
    blind(state, client, || format!("{verb} {resource} {name}"))
}

fn pod<'s>(state: &'s State, asked: &Asked) -> Option<&'s Pod> {
    state.pods.get(&(asked.namespace.clone(), asked.name.clone()))
}

fn before_eviction(state: &State, asked: &Asked) -> Option<Broken> {
    let pod = pod(state, asked)?;
    let node = state.nodes.get(&pod.node);
    let name = &asked.name;
    let cordoned = Invariant::DrainFirst.unless(node.is_none_or(|node| node.is_closed), || {
        format!("{name} was evicted from {}, which takes pods", pod.node)
    });
    let protected = Invariant::DoNotDisrupt
        .unless(!pod.is_protected, || format!("{name} was evicted, and must not be disrupted"));
    let claim = node.and_then(|node| state.claim_of_node(node));
    // VPSie's nodes are drained before their claims are deleted.
    let is_decided = claim.is_some_and(|(name, claim)| {
        let leaving = state.pools.get(&claim.pool).and_then(|pool| pool.ledger.leaving.get(&**name));
        let is_chosen = leaving.is_some_and(|departure| !berth_core::safety::is_forced(departure.reason));
        is_chosen || state.past.disrupted.contains(&claim.uid)
    });
    let is_kept = state.dialect.is_vpsie() && is_decided && pod.has_local_storage;
    let checked = Invariant::Checked.unless(!is_kept, || format!("{name} was evicted, and keeps data there"));
    cordoned.or(protected).or(checked).or_else(|| pod_budgets(state, asked, pod))
}

fn pod_budgets(state: &State, asked: &Asked, pod: &Pod) -> Option<Broken> {
    if pod.deletion.is_some() || !pod.is_ready {
        return None;
    }
    state.budgets.iter().find_map(|(name, budget)| {
        let covers = |(id, pod): &(&(String, String), &Pod)| {
            id.0 == budget.namespace
                && budget.labels.iter().all(|(key, value)| pod.labels.get(key) == Some(value))
        };
        let is_covered = covers(&(&(asked.namespace.clone(), asked.name.clone()), pod));
        let healthy = state.pods.iter().filter(covers);
        let healthy = healthy.filter(|(_, pod)| pod.is_ready && pod.deletion.is_none()).count() as u64;
        let how = || format!("{} was evicted; {name} had {healthy} of {}", asked.name, budget.available_min);
        Invariant::PodBudgets.unless(!is_covered || healthy > budget.available_min, how)
    })
}

/// Only a deadline makes pods go in another way than by eviction.
fn before_pod_deletion(state: &State, asked: &Asked) -> Option<Broken> {
    let pod = pod(state, asked)?;
    let claim = state.nodes.get(&pod.node).and_then(|node| state.claim_of_node(node));
    let has_deadline = claim.is_some_and(|(_, claim)| claim.grace_secs.is_some() && claim.deletion.is_some());
    Invariant::PodBudgets.unless(has_deadline, || format!("{} was deleted instead of evicted", asked.name))
}

/// A claim that an operator deletes stands in the ledger as leaving, or has nothing left to lose.
fn before_claim_deletion(state: &State, asked: &Asked) -> Option<Broken> {
    let claim = state.claims.get(&asked.name)?;
    let pool = state.pools.get(&claim.pool);
    if !is_voluntary(state, claim) {
        return fail_safe(state, &asked.name, claim);
    }
    let name = &asked.name;
    let departure = pool.and_then(|pool| pool.ledger.leaving.get(name.as_str()));
    let (node_name, node) = state.node_of(&claim.provider_id)?;
    let Some(departure) = departure else {
        let how =
            format!("{name} was deleted, and nothing but a decision that nobody committed to forced it");
        return Some(Invariant::DisruptionBudget.broken(how));
    };
    let is_forced = berth_core::safety::is_forced(departure.reason);
    let protected = state.pods_on(node_name).find(|(_, pod)| pod.is_protected && !pod.may_stay);
    let protected = protected
        .filter(|_| !is_forced)
        .map(|((_, pod), _)| Invariant::DoNotDisrupt.broken(format!("{name} was deleted with {pod} on it")));
    Invariant::DrainFirst
        .unless(node.is_closed, || format!("{name} was deleted while its node took pods"))
        .or(protected)
        .or_else(|| lower_bounds(state, name, claim))
        .or_else(|| if is_forced { None } else { checked(state, name, node_name) })
}

/// What keeps a node from being taken away to save money.
fn checked(state: &State, name: &str, node_name: &str) -> Option<Broken> {
    let is_protected = state.nodes.get(node_name).is_some_and(|node| node.is_protected);
    let protected = || format!("{name} was deleted, and its node is protected");
    let keeps = |(_, pod): &(&(String, String), &Pod)| {
        state.dialect.is_vpsie() && pod.has_local_storage && !pod.may_stay && pod.deletion.is_none()
    };
    let keeper = state.pods_on(node_name).find(keeps);
    Invariant::DoNotDisrupt.unless(!is_protected, protected).or_else(|| {
        keeper.map(|((_, pod), _)| {
            Invariant::Checked.broken(format!("{name} was deleted, and {pod} keeps data on its node"))
        })
    })
}

/// A claim whose machine is there is not given up before its time.
fn fail_safe(state: &State, name: &str, claim: &Claim) -> Option<Broken> {
    let machine = state.machine_of(claim).filter(|machine| machine.is_alive && !machine.is_doomed)?;
    let has_node = state.node_of(&claim.provider_id).is_some();
    let age = state.now.duration_since(claim.created).as_secs();
    let is_waiting = !has_node
        && !claim.holds.contains("Registered")
        && claim.deletion.is_none()
        && !is_of_deleted_pool(state, claim);
    let is_known = !claim.provider_id.is_empty();
    let how = || format!("{name} was given up after {age} s while {} was on its way", machine.id);
    Invariant::FailSafe.unless(!is_waiting || !is_known || age > JOIN_SECS_MAX, how)
}

fn lower_bounds(state: &State, name: &str, claim: &Claim) -> Option<Broken> {
    let pool = state.pools.get(&claim.pool)?;
    let is_staying = |(other, of): &(&String, &Claim)| {
        let is_leaving = *other == name || pool.ledger.leaving.contains_key(other.as_str());
        of.pool == claim.pool && of.deletion.is_none() && !of.has_failed() && !is_leaving
    };
    let staying = state.claims.iter().filter(is_staying).count() as u64;
    let how = || format!("{} was left with {staying} of at least {}", claim.pool, pool.nodes_min);
    let minimum = Invariant::LowerBounds.unless(staying >= pool.nodes_min, how);
    minimum.or_else(|| all_replicas(state, claim, pool.replicas?))
}

fn all_replicas(state: &State, claim: &Claim, replicas: u64) -> Option<Broken> {
    let is_ready = |node: &Node| node.is_ready && !node.is_closed;
    let of_pool = |node: &&Node| state.claim_of_node(node).is_some_and(|(_, of)| of.pool == claim.pool);
    let ready = state.nodes.values().filter(|node| is_ready(node)).filter(of_pool).count() as u64;
    let how = || format!("{} was left with {ready} of {replicas} nodes", claim.pool);
    Invariant::LowerBounds.unless(ready >= replicas, how)
}

/// Nodes that an operator changes run on machines that were bought.
fn ours_only(state: &State, asked: &Asked) -> Option<Broken> {
    let node = state.nodes.get(&asked.name)?;
    let machine = state.machines.iter().find(|machine| machine.provider_id == node.provider_id);
    let is_ours = machine.is_some_and(|machine| machine.token.is_some());
    Invariant::OursOnly.unless(is_ours, || format!("{} was changed, and is not ours", asked.name))
}

/// Of a call to the cloud, before it has its effect.
pub(crate) fn before_call(state: &State, client: &str, call: Call, about: &str) -> Option<Broken> {
    let (calls_max, window) = state.dialect.calls_max();
    let calls = state.past.calls.get(client).map_or(0, VecDeque::len);
    let how = || format!("{client} asked the cloud {calls} times within {} s", window.as_secs());
    let bounded = Invariant::Bounded.unless(calls <= calls_max, how);
    bounded.or_else(|| match call {
        Call::Launch if state.dialect.is_vpsie() => noted(state, about),
        Call::Terminate => before_termination(state, client, about),
        _ => None,
    })
}

/// A cloud that knows no tokens is asked only for claims that say so.
fn noted(state: &State, uid: &str) -> Option<Broken> {
    let Some((name, claim)) = state.claims.iter().find(|(_, claim)| claim.uid == uid) else {
        return Some(
            Invariant::Noted.broken(format!("a machine was asked for, and nobody wants it ({uid})")),
        );
    };
    // What was noted before goes out within its time, or never.
    let since = state.past.given_up.get(uid).map(|since| state.now.duration_since(*since).as_secs());
    let is_wanted = since.is_none_or(|secs| secs <= SENT_SECS_MAX);
    Invariant::Noted
        .unless(claim.is_noted, || format!("a machine was asked for {name}, and {name} does not say so"))
        .or_else(|| {
            Invariant::Noted
                .unless(is_wanted, || format!("a machine was asked for {name}, which has long been given up"))
        })
}

fn before_termination(state: &State, client: &str, id: &str) -> Option<Broken> {
    let machine = state.machines.iter().find(|machine| machine.id.as_str() == id)?;
    if machine.token.is_none() {
        return Some(Invariant::OursOnly.broken(format!("machine {id} was ended, and is not ours")));
    }
    if !machine.is_alive || machine.was_ended {
        return None;
    }
    // Such machines are alike: whoever was given up may have any that nobody has.
    let seeks = |claim: &Claim| claim.provider_id.is_empty() && claim.is_given_up();
    if state.is_loose(machine) && state.claims.values().any(seeks) {
        return None;
    }
    let whose = |(_, claim): &(&String, &Claim)| machine.token.as_deref() == Some(&*claim.uid);
    let Some((name, claim)) = state.claims.iter().find(whose) else {
        // Whoever cannot see does not know either that nobody has it.
        return blind(state, client, || format!("machine {id} was ended as an orphan"));
    };
    if claim.deletion.is_none() && !claim.has_failed() {
        let how = format!("machine {id} was ended, and its claim {name} was not");
        return Some(Invariant::OursOnly.broken(how));
    }
    let since_deletion = claim.deletion.map_or(0, |at| state.now.duration_since(at).as_secs());
    if claim.grace_secs.is_some_and(|grace| since_deletion >= grace) {
        return None;
    }
    let (node, _) = state.node_of(&machine.provider_id)?;
    let is_stuck = |pod: &Pod| {
        pod.deletion.is_some_and(|deadline| state.now.duration_since(deadline).as_secs() > STUCK_SECS)
    };
    let left = state.pods_on(node).find(|(_, pod)| !pod.may_stay && !is_stuck(pod));
    left.map(|((_, pod), _)| {
        Invariant::DrainFirst.broken(format!("machine {id} of {name} was ended with {pod} on it"))
    })
}

/// Whether everything has come to rest: nothing is on its way, and what there is belongs together.
pub(crate) fn is_settled(state: &State) -> bool {
    let is_full = |pool: &Pool| {
        let committed = pool.ledger.claims.len() as u64;
        pool.nodes_max.is_some_and(|max| committed >= max)
    };
    let is_up = |claim: &Claim| {
        claim.deletion.is_none()
            && claim.holds.contains("Initialized")
            // What has drifted is about to be replaced, unless its pool may have no node more until it is gone.
            && (!claim.holds.contains("Drifted") || state.pools.get(&claim.pool).is_some_and(is_full))
            && state.machine_of(claim).is_some_and(|machine| machine.is_alive)
    };
    let is_owned = |node: &Node| {
        let of_machine = state.machines.iter().any(|machine| machine.provider_id == node.provider_id);
        !of_machine || (state.claim_of_node(node).is_some() && !node.is_closed && !node.is_deleting)
    };
    state.claims.values().filter(|claim| claim.is_ours).all(is_up)
        && state.nodes.values().all(is_owned)
        && state.past.orphans.is_empty()
        && !state.alive().any(|machine| machine.is_doomed)
        && state.pools.values().all(|pool| pool.ledger.leaving.is_empty())
}
