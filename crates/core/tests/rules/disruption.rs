//! Which nodes go and which stay, for every rule about disruption.
//!
//! In most cases node `a` is the one in question: `b` has room for its pod and is itself protected.

use berth_core::catalog::CapacityType::{OnDemand, Spot};
use berth_core::check;
use berth_core::disrupt;
use berth_core::disruption::DisruptionReason::{Drifted, Empty, Expired, Underutilized};
use berth_core::disruption::{
    Basis, Budget, Consolidation, DisruptionReason, Illness, NodeDisruption, PoolDisruption, Protection,
    SafetyChecks, Share, Usage,
};
use berth_core::names::{CAPACITY_TYPE, TAINT_UNSCHEDULABLE};
use berth_core::node::{Node, NodeState};
use berth_core::plan::Plan;
use berth_core::pod::{Pod, TaintEffect};
use berth_core::pool::Pool;
use berth_core::reason::Reason;
use berth_core::selector::Selector;
use berth_core::snapshot::Snapshot;
use berth_core::surplus;

use crate::cluster::{
    Cluster, NodeWords, PodWords, PoolWords, TypeWords, bare, bound_to, machine, node, pod, pool, small,
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

pub(crate) fn protected(name: &str) -> Node {
    owned(name).worn(|wear| wear.protection = Protection::Always)
}

/// A pod of a workload, of one CPU.
pub(crate) fn web(node: &str) -> Pod {
    pod("web").running_on(node).disrupted(|pod| pod.has_controller = true)
}

/// `a` with a pod, and `b` with room for it.
pub(crate) fn with(pool: Pool, a: Node, web: Pod) -> Cluster {
    bare().pool(pool).node(a).node(protected("b")).pod(web)
}

fn with_pool(change: impl FnOnce(&mut PoolDisruption)) -> Cluster {
    with(free_pool().disrupts(change), owned("a"), web("a"))
}

pub(crate) fn with_node(change: impl FnOnce(&mut NodeDisruption)) -> Cluster {
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
            "starting, and too old",
            with(
                free_pool(),
                owned("a").in_state(NodeState::Starting).worn(|wear| wear.expired = true),
                web("a"),
            ),
            a(Deleted(DisruptionReason::Expired)),
        ),
        (
            "starting, and drifted",
            with(
                free_pool(),
                owned("a").in_state(NodeState::Starting).worn(|wear| wear.drifted = Some("Drifted".into())),
                web("a"),
            ),
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
        (
            "on nobody knows which machine",
            with_node(|wear| wear.unidentified = true),
            a(Stays(Reason::MachineUnknown)),
        ),
        (
            "and broken",
            with_node(|wear| {
                wear.unidentified = true;
                wear.unhealthy = Some(Illness { condition: "Ready".into(), message: "".into() });
            }),
            a(Stays(Reason::MachineUnknown)),
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
