//! Nodes that are worn: drifted, expired, broken, or more than there should be.

use berth_core::disruption::DisruptionReason::{Drifted, Expired, Overprovisioned, Unhealthy};
use berth_core::disruption::{Budget, Illness, NodeDisruption, Protection, SafetyChecks, Share};
use berth_core::node::Node;
use berth_core::pool::Pool;
use berth_core::reason::Reason;

use crate::cluster::{NodeWords, PoolWords, bare};
use crate::disruption::{Deleted, Replaced, Stays, a, check, free_pool, owned, protected, web, with};

#[test]
fn worn_out() {
    let drifted = |wear: &mut NodeDisruption| wear.drifted = Some("NodePoolDrifted".into());
    let graceful = |wear: &mut NodeDisruption| wear.termination_grace_secs = Some(30);
    let expired = |wear: &mut NodeDisruption| wear.expired = true;
    let unhealthy = |wear: &mut NodeDisruption| {
        wear.unhealthy = Some(Illness { condition: "Ready".into(), message: "".into() });
    };
    let surplus = |wear: &mut NodeDisruption| wear.surplus = true;
    let worn = |changes: &[fn(&mut NodeDisruption)]| {
        let node = changes.iter().fold(owned("a"), |node, change| node.worn(change));
        with(free_pool(), node, web("a"))
    };
    let shield = |wear: &mut NodeDisruption| wear.protection = Protection::Always;
    let alone = |node: &str| {
        let mut pod = web(node);
        pod.disruption.has_controller = false;
        pod
    };
    let pair = |pool: Pool, first: fn(&mut NodeDisruption), second: fn(&mut NodeDisruption)| {
        let nodes = bare().pool(pool).node(owned("a").worn(first)).node(protected("b").worn(second));
        nodes.pod(web("a"))
    };
    let one_at_a_time = || {
        let one = Budget::new(Vec::new(), Share::Count(1));
        free_pool().disrupts(|pool| pool.budgets = vec![one])
    };
    let checks = SafetyChecks { shrinks: true, cpu_percent: 50, memory_percent: 50 };
    let paused = Pool { blocked: Some(Reason::PoolPaused.because("somebody says so")), ..free_pool() };
    let damaged = || Pool { unreadable_ledger: Some("`{`".into()), ..free_pool() };
    let no_budget = |node: Node| {
        let nothing = Budget::new(Vec::new(), Share::Count(0));
        with(free_pool().disrupts(|pool| pool.budgets = vec![nothing]), node, web("a"))
    };
    check(vec![
        ("drifted", worn(&[drifted]), a(Deleted(Drifted))),
        ("drifted but protected", worn(&[drifted, shield]), a(Stays(Reason::NodeProtected))),
        (
            "drifted, and its pods may not go",
            worn(&[drifted]).pod_budget("web", 0),
            a(Stays(Reason::PodDisruptionBudget)),
        ),
        (
            "drifted, with an end to its drain",
            worn(&[drifted, graceful]).pod_budget("web", 0),
            a(Deleted(Drifted)),
        ),
        (
            "drifted, without a budget",
            no_budget(owned("a").worn(drifted)),
            a(Stays(Reason::DisruptionBudget)),
        ),
        ("expired, without a budget", no_budget(owned("a").worn(expired)), a(Deleted(Expired))),
        ("expired though protected", worn(&[expired, shield]), a(Deleted(Expired))),
        (
            "expired, and its pods may not go",
            worn(&[expired]).pod_budget("web", 0),
            a(Stays(Reason::PodDisruptionBudget)),
        ),
        ("unhealthy, whatever its pods", worn(&[unhealthy]).pod_budget("web", 0), a(Deleted(Unhealthy))),
        ("unhealthy, without a budget", no_budget(owned("a").worn(unhealthy)), a(Deleted(Unhealthy))),
        ("unhealthy though protected", worn(&[unhealthy, shield]), a(Deleted(Unhealthy))),
        (
            "unhealthy and protected at VPSie",
            with(
                free_pool().disrupts(|pool| pool.checks = Some(checks)),
                owned("a").worn(unhealthy).worn(shield),
                web("a"),
            ),
            a(Stays(Reason::NodeProtected)),
        ),
        (
            "unhealthy, and nobody could write down that it goes",
            with(damaged(), owned("a").worn(unhealthy), web("a")),
            a(Stays(Reason::LedgerUnreadable)),
        ),
        (
            "dear, and nobody could write down that it goes",
            with(damaged(), owned("a"), web("a")).pool(Pool { name: "other".into(), ..free_pool() }),
            a(Stays(Reason::LedgerUnreadable)),
        ),
        (
            "unhealthy, and its pool is paused",
            with(paused, owned("a").worn(unhealthy), web("a")),
            a(Stays(Reason::PoolPaused)),
        ),
        (
            "unhealthy, with a pod that nobody would make again",
            with(free_pool(), owned("a").worn(unhealthy), alone("a")),
            a(Deleted(Unhealthy)),
        ),
        (
            "drifted, with such a pod",
            with(free_pool(), owned("a").worn(drifted), alone("a")),
            a(Stays(Reason::PodWithoutController)),
        ),
        (
            "drifted, with such a pod and an end to its drain",
            with(free_pool(), owned("a").worn(drifted).worn(graceful), alone("a")),
            a(Deleted(Drifted)),
        ),
        (
            "unhealthy, as are too many",
            pair(free_pool(), unhealthy, unhealthy),
            a(Stays(Reason::TooManyUnhealthy)),
        ),
        (
            "drifted, while another is not ready",
            pair(one_at_a_time(), drifted, |wear| wear.not_ready = true),
            a(Stays(Reason::DisruptionBudget)),
        ),
        ("drifted, while others are", pair(one_at_a_time(), drifted, |_| {}), a(Deleted(Drifted))),
        ("the most urgent reason", worn(&[drifted, expired, unhealthy]), a(Deleted(Unhealthy))),
        (
            "without a price",
            with(free_pool(), Node { price: None, ..owned("a").worn(drifted) }, web("a")),
            a(Deleted(Drifted)),
        ),
        (
            "replaced for more money where it must be",
            bare().pool(free_pool()).node(owned("a").costs(1).worn(drifted)).pod(web("a")),
            a(Replaced(Drifted, 1)),
        ),
        (
            "stays where its pods fit nowhere",
            bare().node(owned("a").worn(expired)).pool(free_pool().sells(&[])).pod(web("a")),
            a(Stays(Reason::PodsFitNowhere)),
        ),
        ("beyond the pool's number", worn(&[surplus]), a(Deleted(Overprovisioned))),
        ("beyond it but protected", worn(&[surplus, shield]), a(Stays(Reason::NodeProtected))),
        ("beyond it, without a budget", no_budget(owned("a").worn(surplus)), a(Deleted(Overprovisioned))),
        (
            "beyond it, with pods that need another",
            bare().pool(free_pool()).node(owned("a").costs(1).worn(surplus)).pod(web("a")),
            a(Replaced(Overprovisioned, 1)),
        ),
        (
            "one of a static pool is replaced, pods or not",
            bare().pool(Pool { replicas: Some(1), ..free_pool() }).node(owned("a").worn(drifted)),
            a(Replaced(Drifted, 1)),
        ),
    ]);
}
