//! Which nodes go and which stay, for every rule about disruption.
//!
//! In most cases node `a` is the one in question: `b` has room for its pod and is itself protected.

use berth_core::catalog::CapacityType::{OnDemand, Spot};
use berth_core::check;
use berth_core::disrupt;
use berth_core::disruption::DisruptionReason::{
    Drifted, Empty, Expired, Overprovisioned, Underutilized, Unhealthy,
};
use berth_core::disruption::{
    Basis, Budget, Consolidation, DisruptionReason, Illness, NodeDisruption, PoolDisruption, Protection,
    SafetyChecks, Share, Usage,
};
use berth_core::explain::{self, Checked};
use berth_core::names::{CAPACITY_TYPE, HOSTNAME, TAINT_UNSCHEDULABLE};
use berth_core::node::{Node, NodeState};
use berth_core::plan::Plan;
use berth_core::pod::{Pod, TaintEffect};
use berth_core::pool::Pool;
use berth_core::reason::Reason;
use berth_core::selector::Selector;
use berth_core::snapshot::Snapshot;
use berth_core::surplus;
use berth_core::units::Price;

use crate::cluster::{
    Cluster, NodeWords, PodWords, PoolWords, TypeWords, bare, bound_to, machine, node, pod, pods_of, pool,
    small,
};

/// What becomes of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It goes without anything being bought for it.
    Deleted(DisruptionReason),
    /// It goes, and so many nodes are bought for its step.
    Replaced(DisruptionReason, usize),
    Stays(Reason),
}
pub(crate) use Fate::{Deleted, Replaced, Stays};

/// Nodes, and what becomes of them.
pub(crate) type Fates = Vec<(&'static str, Fate)>;

/// Plans each cluster and compares what becomes of some of its nodes; every plan goes through the checker.
pub(crate) fn check(cases: Vec<(&str, Cluster, Fates)>) {
    let mut faults = Vec::new();
    for (case, cluster, expected) in cases {
        let (snapshot, policy) = cluster.finish();
        let plan = disrupt::plan(&snapshot, &policy);
        let mut found: Vec<String> =
            check::check(&snapshot, &policy, &plan).iter().map(ToString::to_string).collect();
        for (name, fate) in expected {
            let is = fate_of(&snapshot, &plan, name);
            if is != Some(fate) {
                found.push(format!("{name}: {is:?} instead of {fate:?}"));
            }
        }
        if !found.is_empty() {
            faults.push(format!("{case}:\n    {}", found.join("\n    ")));
        }
    }
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

fn fate_of(snapshot: &Snapshot, plan: &Plan, name: &str) -> Option<Fate> {
    let node = snapshot.nodes.iter().position(|node| *node.name == *name)?;
    let step = plan.disruptions.iter().find(|step| step.nodes.contains(&node));
    let kept = plan.kept.iter().find(|kept| kept.node == node);
    match step {
        Some(step) if step.replacements.is_empty() => Some(Deleted(step.reason)),
        Some(step) => Some(Replaced(step.reason, step.replacements.len())),
        None => kept.map(|kept| Stays(kept.refusal.reason)),
    }
}

/// Sells small and large nodes, without budgets.
pub(crate) fn free_pool() -> Pool {
    pool("pool").disrupts(|disruption| disruption.budgets.clear())
}

/// Four CPUs at 40 cents.
pub(crate) fn owned(name: &str) -> Node {
    node(name, "a").of_pool("pool").costs(400_000).worn(|wear| wear.quiet_secs = Some(60))
}

fn protected(name: &str) -> Node {
    owned(name).worn(|wear| wear.protection = Protection::Always)
}

/// A pod of a workload, of one CPU.
pub(crate) fn web(node: &str) -> Pod {
    pod("web").running_on(node).disrupted(|pod| pod.has_controller = true)
}

/// `a` with a pod, and `b` with room for it.
fn with(pool: Pool, a: Node, web: Pod) -> Cluster {
    bare().pool(pool).node(a).node(protected("b")).pod(web)
}

fn with_pool(change: impl FnOnce(&mut PoolDisruption)) -> Cluster {
    with(free_pool().disrupts(change), owned("a"), web("a"))
}

fn with_node(change: impl FnOnce(&mut NodeDisruption)) -> Cluster {
    with(free_pool(), owned("a").worn(change), web("a"))
}

fn with_pod(change: impl FnOnce(Pod) -> Pod) -> Cluster {
    with(free_pool(), owned("a"), change(web("a")))
}

pub(crate) fn a(fate: Fate) -> Fates {
    vec![("a", fate)]
}

const GONE: Fate = Deleted(Underutilized);

#[test]
fn the_node_itself() {
    let of_no_pool = |pool: Option<&str>| Node { pool: pool.map(Into::into), ..owned("a") };
    let unpriced = Node { price: None, ..owned("a") };
    check(vec![
        ("nothing in the way", with_node(|_| ()), vec![("a", GONE), ("b", Stays(Reason::NodeProtected))]),
        ("of no pool", with(free_pool(), of_no_pool(None), web("a")), a(Stays(Reason::NodeNotOfPool))),
        (
            "of a pool that is not there",
            with(free_pool(), of_no_pool(Some("gone")), web("a")),
            a(Stays(Reason::NodeNotOfPool)),
        ),
        (
            "starting",
            with(free_pool(), owned("a").in_state(NodeState::Starting), web("a")),
            a(Stays(Reason::NodeStarting)),
        ),
        (
            "deleting",
            with(free_pool(), owned("a").in_state(NodeState::Deleting), web("a")),
            a(Stays(Reason::NodeDeleting)),
        ),
        (
            "protected",
            with_node(|wear| wear.protection = Protection::Always),
            a(Stays(Reason::NodeProtected)),
        ),
        (
            "protected for a while",
            with_node(|wear| wear.protection = Protection::For { secs: 5 }),
            a(Stays(Reason::NodeProtected)),
        ),
        ("without a price", with(free_pool(), unpriced, web("a")), a(Stays(Reason::NodePriceUnknown))),
        ("for nothing", with(free_pool(), owned("a").costs(0), web("a")), a(Stays(Reason::SavingTooSmall))),
    ]);
}

#[test]
fn the_pool() {
    let set = |change: fn(&mut Pool)| {
        let mut pool = free_pool();
        change(&mut pool);
        with(pool, owned("a"), web("a"))
    };
    let empty = |change: fn(&mut Pool)| {
        let mut pool = free_pool();
        change(&mut pool);
        bare().pool(pool).node(owned("a")).node(protected("b"))
    };
    check(vec![
        ("static", set(|pool| pool.replicas = Some(2)), a(Stays(Reason::NodeOfStaticPool))),
        ("at its minimum", set(|pool| pool.nodes_min = 2), a(Replaced(Underutilized, 1))),
        (
            "at its minimum, with nothing cheaper",
            with(Pool { nodes_min: 2, ..free_pool() }, owned("a").costs(200_000), web("a")),
            a(Stays(Reason::SavingTooSmall)),
        ),
        ("at its minimum, empty", empty(|pool| pool.nodes_min = 2), a(Stays(Reason::PoolMinimum))),
        ("above its minimum", set(|pool| pool.nodes_min = 1), a(GONE)),
        (
            "never consolidates",
            with_pool(|pool| pool.consolidate_after_secs = None),
            a(Stays(Reason::ConsolidationNever)),
        ),
        (
            "not quiet for long enough",
            with_pool(|pool| pool.consolidate_after_secs = Some(61)),
            a(Stays(Reason::ConsolidateAfter)),
        ),
        ("quiet for just long enough", with_pool(|pool| pool.consolidate_after_secs = Some(60)), a(GONE)),
        ("nothing known, nothing asked", with_node(|wear| wear.quiet_secs = None), a(GONE)),
        (
            "nothing known, a second asked",
            with(
                free_pool().disrupts(|pool| pool.consolidate_after_secs = Some(1)),
                owned("a").worn(|wear| wear.quiet_secs = None),
                web("a"),
            ),
            a(Stays(Reason::ConsolidateAfter)),
        ),
        (
            "only empty nodes",
            with_pool(|pool| pool.consolidation = Consolidation::WhenEmpty),
            a(Stays(Reason::NodeNotEmpty)),
        ),
        (
            "only empty nodes, and it is",
            empty(|pool| pool.disruption.consolidation = Consolidation::WhenEmpty),
            a(Deleted(Empty)),
        ),
        (
            "balanced, and it is worth it",
            with_pool(|pool| pool.consolidation = Consolidation::Balanced),
            a(GONE),
        ),
        (
            "balanced, and half of the disruption for a tenth of the money",
            with(
                free_pool().disrupts(|pool| pool.consolidation = Consolidation::Balanced),
                owned("a").costs(40_000),
                web("a"),
            ),
            a(Stays(Reason::Unbalanced)),
        ),
    ]);
}

#[test]
fn pods() {
    let protect = |protection| move |pod: Pod| pod.disrupted(|pod| pod.protection = protection);
    let daemon = |pod: Pod| Pod { daemon_set: Some("agent".into()), ..pod };
    check(vec![
        ("protected", with_pod(protect(Protection::Always)), a(Stays(Reason::PodProtected))),
        (
            "protected for a while",
            with_pod(protect(Protection::For { secs: 1 })),
            a(Stays(Reason::PodProtected)),
        ),
        (
            "protected and leaving anyway",
            with_pod(|pod| Pod { deleting: true, ..protect(Protection::Always)(pod) }),
            a(Deleted(Empty)),
        ),
        ("only a DaemonSet's", with_pod(daemon), a(Deleted(Empty))),
        ("only a static pod", with_pod(|pod| Pod { mirror: true, ..pod }), a(Deleted(Empty))),
        (
            "only a DaemonSet's, protected",
            with_pod(|pod| daemon(protect(Protection::Always)(pod))),
            a(Stays(Reason::PodProtected)),
        ),
        (
            "without a controller",
            with_pod(|pod| pod.disrupted(|pod| pod.has_controller = false)),
            a(Stays(Reason::PodWithoutController)),
        ),
        (
            "with a claim that is lost",
            with_pod(|pod| pod.uses(&["missing"])),
            a(Stays(Reason::PodsFitNowhere)),
        ),
        ("too large for any other place", with_pod(|pod| pod.cpu(9000)), a(Stays(Reason::PodsFitNowhere))),
    ]);
}

/// A group of VPSie's, which replaces no nodes unless it says so.
pub(crate) fn group() -> Pool {
    free_pool().disrupts(|pool| {
        pool.checks = Some(SafetyChecks { shrinks: true, cpu_percent: 50, memory_percent: 40 });
        pool.replacement.barred = Some(Reason::ReplacementBarred.because("it does not say so"));
    })
}

/// VPSie's groups look at more than others do before a node goes to save money.
#[test]
fn the_checks_of_groups() {
    let checked = |a: Node, web: Pod| with(group(), a, web);
    let using = |cpu_percent, memory_percent, basis| {
        owned("a").worn(|wear| wear.usage = Some(Usage { cpu_percent, memory_percent, basis }))
    };
    let leaving = |percent| owned("a").worn(|wear| wear.others_asked_percent = Some(percent));
    let keeping = |pod: Pod| pod.disrupted(|pod| pod.has_local_storage = true);
    let system = |name: &str, pod: Pod| Pod { namespace: "kube-system".into(), name: name.into(), ..pod };
    let cordoned = |node: Node| node.tainted(TAINT_UNSCHEDULABLE, TaintEffect::NoSchedule);
    check(vec![
        ("nothing in the way", checked(using(49, 39, Basis::Measured), web("a")), a(GONE)),
        ("cordoned", checked(cordoned(owned("a")), web("a")), a(Stays(Reason::NodeCordoned))),
        ("cordoned elsewhere than in groups", with(free_pool(), cordoned(owned("a")), web("a")), a(GONE)),
        (
            "cordoned, and has to go",
            checked(cordoned(owned("a")).worn(|wear| wear.expired = true), web("a")),
            a(Deleted(Expired)),
        ),
        ("much CPU", checked(using(50, 0, Basis::Measured), web("a")), a(Stays(Reason::NodeUtilized))),
        ("much memory", checked(using(0, 40, Basis::Measured), web("a")), a(Stays(Reason::NodeUtilized))),
        ("much is asked for", checked(using(90, 0, Basis::Asked), web("a")), a(Stays(Reason::NodeUtilized))),
        (
            "nobody knows",
            checked(owned("a").worn(|wear| wear.usage = Some(Usage::UNKNOWN)), web("a")),
            a(Stays(Reason::NodeUtilized)),
        ),
        ("data on the node", checked(owned("a"), keeping(web("a"))), a(Stays(Reason::LocalStorage))),
        (
            "data in a claim on the node, which its volume does not even say",
            checked(owned("a"), web("a").uses(&["data"]))
                .claim("data", bound_to("disk"))
                .local_volume("disk"),
            a(Stays(Reason::LocalStorage)),
        ),
        (
            "data in a claim elsewhere",
            checked(owned("a"), web("a").uses(&["data"])).claim("data", bound_to("disk")).volume("disk", "a"),
            a(GONE),
        ),
        (
            "data in a claim that nobody can see",
            checked(owned("a"), web("a").uses(&["data"])),
            a(Stays(Reason::LocalStorage)),
        ),
        (
            "data in a volume that nobody can see",
            checked(owned("a"), web("a").uses(&["data"])).claim("data", bound_to("disk")),
            a(Stays(Reason::LocalStorage)),
        ),
        (
            "elsewhere than in groups such data may go",
            with(free_pool(), owned("a"), web("a").uses(&["data"]))
                .claim("data", bound_to("disk"))
                .local_volume("disk"),
            a(GONE),
        ),
        (
            "data of a DaemonSet's pod",
            checked(owned("a"), Pod { daemon_set: Some("agent".into()), ..keeping(web("a")) }),
            a(Deleted(Empty)),
        ),
        (
            "the API server",
            checked(owned("a"), system("kube-apiserver-a", web("a"))),
            a(Stays(Reason::SystemPod)),
        ),
        (
            "a static pod of the control plane",
            checked(owned("a"), Pod { mirror: true, ..system("cloud-controller-manager-a", web("a")) }),
            a(Stays(Reason::SystemPod)),
        ),
        (
            "a backup of the control plane",
            checked(owned("a"), system("etcd-backup-28374650-xk2c9", web("a"))),
            a(GONE),
        ),
        ("another of the system", checked(owned("a"), system("coredns-1", web("a"))), a(GONE)),
        (
            "a group that does not shrink",
            with(
                group().disrupts(|pool| pool.checks.iter_mut().for_each(|checks| checks.shrinks = false)),
                owned("a"),
                web("a"),
            ),
            a(Stays(Reason::ScaleDownOff)),
        ),
        ("the others would be full", checked(leaving(86), web("a")), a(Stays(Reason::CapacityLeft))),
        ("and would not quite be", checked(leaving(85), web("a")), a(GONE)),
        (
            "those that have to go do",
            checked(using(90, 90, Basis::Measured).worn(|wear| wear.expired = true), keeping(web("a"))),
            a(Deleted(Expired)),
        ),
    ]);
}

#[test]
fn pod_budgets() {
    let base = || with_node(|_| ());
    let everything = || Some(Selector::default());
    check(vec![
        ("none allowed", base().pod_budget("web", 0), a(Stays(Reason::PodDisruptionBudget))),
        ("one allowed", base().pod_budget("web", 1), a(GONE)),
        (
            "two budgets, one of them exhausted",
            base().pod_budget("web", 1).pod_budget("web", 0),
            a(Stays(Reason::PodDisruptionBudget)),
        ),
        (
            "two budgets, of which each would allow it",
            base().pod_budget("web", 1).pod_budget("web", 1),
            a(Stays(Reason::PodDisruptionBudget)),
        ),
        ("over other pods", base().pod_budget("db", 0), a(GONE)),
        ("in another namespace", base().pod_budget_over("other", everything(), 0), a(GONE)),
        ("that selects nothing", base().pod_budget_over("default", None, 0), a(GONE)),
        (
            "that selects everything",
            base().pod_budget_over("default", everything(), 0),
            a(Stays(Reason::PodDisruptionBudget)),
        ),
        (
            "one allowed, and two nodes have one each",
            base().node(owned("c")).pod(Pod { name: "web-c".into(), ..web("c") }).pod_budget("web", 1),
            vec![("a", GONE), ("c", Stays(Reason::PodDisruptionBudget))],
        ),
    ]);
}

#[test]
fn pool_budgets() {
    let budget = |reasons: &[DisruptionReason], nodes| Budget::new(reasons.to_vec(), nodes);
    let budgets = |budgets: Vec<Budget>| with_pool(move |pool| pool.budgets = budgets);
    let blocked = || a(Stays(Reason::DisruptionBudget));
    check(vec![
        ("none", budgets(vec![budget(&[], Share::Count(0))]), blocked()),
        ("no percent", budgets(vec![budget(&[], Share::Percent(0))]), blocked()),
        ("a percent is rounded up", budgets(vec![budget(&[], Share::Percent(1))]), a(GONE)),
        ("for another reason", budgets(vec![budget(&[Empty, Drifted], Share::Count(0))]), a(GONE)),
        (
            "the least of several",
            budgets(vec![budget(&[], Share::Count(5)), budget(&[Underutilized], Share::Count(0))]),
            blocked(),
        ),
        (
            "one that is going already counts",
            budgets(vec![budget(&[], Share::Count(1))]).node(owned("c").in_state(NodeState::Deleting)),
            blocked(),
        ),
        (
            "one at a time",
            budgets(vec![budget(&[], Share::Count(1))])
                .node(owned("c"))
                .pod(Pod { name: "web-c".into(), ..web("c") }),
            vec![("a", GONE), ("c", Stays(Reason::DisruptionBudget))],
        ),
        (
            "one at a time, where only those that are replaced may be more",
            budgets(vec![Budget { replaced: Some(Share::Percent(100)), ..budget(&[], Share::Count(1)) }])
                .node(owned("c"))
                .pod(Pod { name: "web-c".into(), ..web("c") }),
            vec![("a", GONE), ("c", Stays(Reason::DisruptionBudget))],
        ),
    ]);
}

/// Nodes of a pool that should have so many, each as `name` and what it is, and which of them are too many.
#[test]
fn nodes_beyond_their_number_are_chosen_by_what_they_hold() {
    let drifted = |name: &str| owned(name).worn(|wear| wear.drifted = Some("NodePoolDrifted".into()));
    let starting = |name: &str| owned(name).in_state(NodeState::Starting);
    let going = |name: &str| owned(name).in_state(NodeState::Deleting);
    let cases: [(&str, u32, Vec<Node>, &[&str]); 8] = [
        ("as many as wanted", 2, vec![owned("a"), owned("b")], &[]),
        ("the first of those alike", 1, vec![owned("b"), owned("a")], &["a"]),
        ("the one with less to move", 1, vec![owned("a"), owned("b"), owned("full")], &["a", "b"]),
        ("one that somebody protects stays", 1, vec![protected("a"), owned("full")], &["full"]),
        ("one that has to go goes", 1, vec![owned("a"), drifted("full")], &["full"]),
        ("one that goes already does not count", 1, vec![owned("a"), going("b")], &[]),
        ("one that starts counts, and is not chosen", 1, vec![starting("a"), owned("full")], &["full"]),
        ("none at all", 0, vec![owned("a"), protected("b")], &["a", "b"]),
    ];
    for (case, replicas, mut nodes, expected) in cases {
        let pods = [web("full"), Pod { name: "daemon".into(), daemon_set: Some("d".into()), ..web("a") }];
        surplus::mark(&mut nodes, &pods, &[Pool { replicas: Some(replicas), ..free_pool() }]);
        let mut marked: Vec<&str> =
            nodes.iter().filter(|node| node.disruption.surplus).map(|node| &*node.name).collect();
        marked.sort_unstable();
        assert_eq!(marked, expected, "{case}");
    }
}

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

#[test]
fn spot_to_spot() {
    let spot_pool = |types: i64| {
        let sold: Vec<_> =
            (0..types).map(|i| machine(&format!("type-{i:02}"), 2).nowhere().sold("a", Spot)).collect();
        free_pool().sells(&sold)
    };
    let spot_node = || owned("a").labelled(CAPACITY_TYPE, "spot");
    let cluster = |types| bare().pool(spot_pool(types)).node(spot_node()).pod(web("a"));
    check(vec![
        ("fourteen types", cluster(14), a(Stays(Reason::SpotAlternatives))),
        ("fifteen types", cluster(15), a(Replaced(Underutilized, 1))),
        (
            "two types, if that is enough",
            cluster(2).disrupts(|policy| policy.spot_types_min = 2),
            a(Replaced(Underutilized, 1)),
        ),
        (
            "on demand to spot needs no choice",
            bare().pool(spot_pool(1)).node(owned("a")).pod(web("a")),
            a(Replaced(Underutilized, 1)),
        ),
        (
            "spot to on demand needs no choice",
            bare()
                .pool(free_pool().sells(&[small().nowhere().sold("a", OnDemand)]))
                .node(spot_node())
                .pod(web("a")),
            a(Replaced(Underutilized, 1)),
        ),
    ]);
}

/// Each of VPSie's checks has its verdict, in VPSie's order, whatever else keeps the node.
#[test]
fn each_check_is_explained() {
    let checked = |node: Node, pod: Pod| with(group(), node, pod);
    let busy = |wear: &mut NodeDisruption| {
        wear.usage = Some(Usage { cpu_percent: 90, memory_percent: 0, basis: Basis::Measured });
    };
    let system = |pod: Pod| Pod { namespace: "kube-system".into(), name: "etcd-a".into(), ..pod };
    let apart = |pod: Pod| pod.away_from(pods_of("web", HOSTNAME));
    let beside = |cluster: Cluster| cluster.pod(Pod { name: "web-b".into(), ..apart(web("b")) });
    let on_node = |pod: Pod| pod.disrupted(|pod| pod.has_local_storage = true);
    let cases: Vec<(&str, Cluster, &[&str])> = vec![
        ("nothing", checked(owned("a"), web("a")), &[]),
        ("data", checked(owned("a"), on_node(web("a"))), &["local_storage"]),
        ("no room", checked(owned("a"), web("a").cpu(9000)), &["rescheduling"]),
        ("the control plane", checked(owned("a"), system(web("a"))), &["system_pods"]),
        ("kept apart", beside(with(group().nodes_max(2), owned("a"), apart(web("a")))), &["affinity"]),
        (
            "others would be full",
            checked(owned("a").worn(|wear| wear.others_asked_percent = Some(86)), web("a")),
            &["capacity"],
        ),
        ("protected", checked(protected("a"), web("a")), &["protection"]),
        ("busy, which is no check", checked(owned("a").worn(busy), web("a")), &[]),
        ("busy and without room", checked(owned("a").worn(busy), web("a").cpu(9000)), &["rescheduling"]),
        (
            "busy, protected and kept apart",
            beside(with(group().nodes_max(2), protected("a").worn(busy), apart(web("a")))),
            &["affinity", "protection"],
        ),
        (
            "all but one",
            checked(
                protected("a").worn(|wear| wear.others_asked_percent = Some(86)),
                on_node(system(web("a"))).cpu(9000),
            ),
            &["local_storage", "rescheduling", "system_pods", "capacity", "protection"],
        ),
    ];
    for (what, cluster, expected) in cases {
        let (snapshot, policy) = cluster.finish();
        let checks = explain::node(&snapshot, &policy, 0).checks;
        let names: Vec<&str> = checks.iter().map(|(check, _)| check.name()).collect();
        let order = ["local_storage", "rescheduling", "system_pods", "affinity", "capacity", "protection"];
        assert_eq!(names, order, "{what}");
        assert!(checks.iter().all(|(_, checked)| *checked != Checked::Unasked), "{what}: {checks:?}");
        let failed = checks.iter().filter(|(_, checked)| matches!(checked, Checked::Failed(_)));
        assert_eq!(failed.map(|(check, _)| check.name()).collect::<Vec<_>>(), expected, "{what}: {checks:?}");
    }
    let (snapshot, policy) = with(free_pool(), owned("a"), web("a")).finish();
    assert_eq!(explain::node(&snapshot, &policy, 0).checks, [], "only groups have them looked at");
}

#[test]
fn a_node_can_be_explained() {
    let (snapshot, policy) = with_node(|_| ()).finish();
    let goes = explain::node(&snapshot, &policy, 0);
    assert!(goes.planned && goes.refusal.is_none());
    assert!(goes.verdicts.len() > 10 && goes.verdicts.iter().all(|verdict| verdict.refusal.is_none()));
    assert_eq!(goes.way.map(|way| way.moves[0].to.to_string()).as_deref(), Some("b"));
    let stays = explain::node(&snapshot, &policy, 1);
    assert!(!stays.planned && stays.way.is_none());
    let failed: Vec<Reason> = stays
        .verdicts
        .iter()
        .filter(|verdict| verdict.refusal.is_some())
        .map(|verdict| verdict.rule)
        .collect();
    assert_eq!(failed, [Reason::NodeProtected]);

    let (snapshot, policy) = bare().pool(free_pool()).node(owned("a").costs(205_000)).pod(web("a")).finish();
    let dear = explain::node(&snapshot, &policy, 0);
    assert_eq!(dear.refusal.map(|refusal| refusal.reason), Some(Reason::SavingTooSmall));
    let way = dear.way.expect("its removal can be described");
    assert_eq!(
        (way.step.saves, way.replacements.len(), way.moves.len()),
        (Price::from_micro_usd(5_000), 1, 1)
    );
}
