//! Which nodes are replaced by cheaper ones, and which go from pools that are divided.

use berth_core::disrupt;
use berth_core::disruption::DisruptionReason::{Empty, Expired, Underutilized};
use berth_core::disruption::{Approval, Basis, PoolDisruption, Protection, Replacement, SavingMin, Usage};
use berth_core::division::{Division, SpotShare, ZoneRule, ZoneSplit};
use berth_core::explain::{self, Checked};
use berth_core::names::CAPACITY_TYPE;
use berth_core::node::Node;
use berth_core::pod::Pod;
use berth_core::pool::Pool;
use berth_core::reason::Reason;
use berth_core::units::Price;

use crate::cluster::{NodeWords, PodWords, PoolWords, bare, node};
use crate::disruption::{Deleted, Replaced, Stays, a, check, free_pool, group, owned, web};

/// `a`, which a small node at 20 cents could replace.
#[test]
fn replacing_as_the_pool_says() {
    let said = |change: fn(&mut Replacement), cpu_used: Option<u32>| {
        let pool = free_pool().disrupts(|disruption| change(&mut disruption.replacement));
        let usage =
            cpu_used.map(|cpu_percent| Usage { cpu_percent, memory_percent: 0, basis: Basis::Measured });
        bare().pool(pool).node(owned("a").worn(|wear| wear.usage = usage)).pod(web("a"))
    };
    let approval = |given: Option<&str>| Approval::Needed { given: given.map(Into::into) };
    let proposed = {
        let (snapshot, policy) =
            said(|rules| rules.approval = Approval::Needed { given: None }, None).finish();
        let plan = disrupt::plan(&snapshot, &policy);
        let words = plan.kept[0].refusal.message.clone();
        assert!(
            words.starts_with("downsize: a replaced by small in a (on-demand) would save $146"),
            "{words}"
        );
        words.rsplit(' ').next().unwrap_or_default().to_owned()
    };
    let approved = bare()
        .pool(free_pool().disrupts(|pool| pool.replacement.approval = approval(Some(&proposed))))
        .node(owned("a"))
        .pod(web("a"));
    let other = bare()
        .pool(free_pool().disrupts(|pool| pool.replacement.approval = approval(Some("another"))))
        .node(owned("a"))
        .pod(web("a"));
    let replaced = || a(Replaced(Underutilized, 1));
    check(vec![
        ("nothing", said(|_| (), None), replaced()),
        (
            "not at all",
            said(|rules| rules.barred = Some(Reason::ReplacementBarred.because("no")), None),
            a(Stays(Reason::ReplacementBarred)),
        ),
        ("for so much", said(|rules| rules.saving_min = Price::from_micro_usd(200_000), None), replaced()),
        (
            "not for less",
            said(|rules| rules.saving_min = Price::from_micro_usd(200_001), None),
            a(Stays(Reason::SavingTooSmall)),
        ),
        ("with what is used", said(|rules| rules.impact_percent_max = Some(5), Some(50)), replaced()),
        ("or nearly", said(|rules| rules.impact_percent_max = Some(5), Some(52)), replaced()),
        (
            "not with much less",
            said(|rules| rules.impact_percent_max = Some(5), Some(53)),
            a(Stays(Reason::PerformanceImpact)),
        ),
        (
            "if somebody agrees",
            said(|rules| rules.approval = Approval::Needed { given: None }, None),
            a(Stays(Reason::AwaitingApproval)),
        ),
        ("to that", approved, replaced()),
        ("and to nothing else", other, a(Stays(Reason::AwaitingApproval))),
    ]);
}

/// A node of a group goes for good as its scale-down says, and is replaced as it says of that: `a` is busy, `b` beside it has
/// room for its pod, and a small node at 20 cents could replace it.
#[test]
fn groups_replace_busy_nodes_and_keep_them_otherwise() {
    let used = |cpu_percent: u32| Usage { cpu_percent, memory_percent: 0, basis: Basis::Measured };
    let busy = |usage: Usage| owned("a").worn(|wear| wear.usage = Some(usage));
    let idle = || busy(used(10));
    let replacing = |change: fn(&mut PoolDisruption)| {
        group().disrupts(|pool| {
            pool.replacement = Replacement::default();
            change(pool);
        })
    };
    let beside = |pool: Pool, node: Node, pod: Pod| {
        let b = owned("b").worn(|wear| wear.protection = Protection::Always);
        bare().pool(pool).node(node).node(b).pod(pod)
    };
    let alone = |pool: Pool, node: Node, pod: Pod| bare().pool(pool).node(node).pod(pod);
    let off = |pool: &mut PoolDisruption| pool.checks.iter_mut().for_each(|checks| checks.shrinks = false);
    let stays = |reason: Reason| a(Stays(reason));
    let replaced = || a(Replaced(Underutilized, 1));
    let keeping = |pod: Pod| pod.disrupted(|pod| pod.has_local_storage = true);
    let system = |pod: Pod| Pod { namespace: "kube-system".into(), name: "etcd-a".into(), ..pod };
    let impact = |pool: &mut PoolDisruption| pool.replacement.impact_percent_max = Some(5);
    check(vec![
        (
            "busy, and nothing is replaced",
            beside(group(), busy(used(50)), web("a")),
            stays(Reason::NodeUtilized),
        ),
        ("busy, alone", alone(replacing(|_| ()), busy(used(50)), web("a")), replaced()),
        ("busy, with room beside it", beside(replacing(|_| ()), busy(used(50)), web("a")), replaced()),
        ("idle, with room beside it", beside(replacing(|_| ()), idle(), web("a")), a(Deleted(Underutilized))),
        ("idle, in a group that does not shrink", beside(replacing(off), idle(), web("a")), replaced()),
        (
            "idle, in one that neither shrinks nor replaces",
            beside(group().disrupts(off), idle(), web("a")),
            stays(Reason::ScaleDownOff),
        ),
        (
            "empty, in a group that does not shrink",
            bare().pool(replacing(off)).node(idle()),
            stays(Reason::ScaleDownOff),
        ),
        (
            "the others would be full without it",
            beside(replacing(|_| ()), idle().worn(|wear| wear.others_asked_percent = Some(86)), web("a")),
            replaced(),
        ),
        (
            "what replaces it would be full",
            alone(replacing(|_| ()), idle(), web("a").cpu(1800)),
            stays(Reason::CapacityLeft),
        ),
        (
            "as full as it is",
            alone(replacing(|_| ()), idle().has("cpu", 2000), web("a").cpu(1800)),
            replaced(),
        ),
        (
            "nothing cheaper",
            alone(replacing(|_| ()), busy(used(50)).costs(200_000), web("a")),
            stays(Reason::NodeUtilized),
        ),
        (
            "too little would be saved for the group",
            alone(
                replacing(|pool| pool.replacement.saving_min = Price::from_micro_usd(200_001)),
                busy(used(50)),
                web("a"),
            ),
            stays(Reason::NodeUtilized),
        ),
        ("what is used would be there", alone(replacing(impact), busy(used(52)), web("a")), replaced()),
        (
            "what is used would be missing",
            alone(replacing(impact), busy(used(53)), web("a")),
            stays(Reason::PerformanceImpact),
        ),
        (
            "nobody knows what is used",
            alone(replacing(impact), busy(Usage::UNKNOWN), web("a")),
            stays(Reason::PerformanceImpact),
        ),
        (
            "somebody has to agree",
            beside(
                replacing(|pool| pool.replacement.approval = Approval::Needed { given: None }),
                busy(used(50)),
                web("a"),
            ),
            stays(Reason::AwaitingApproval),
        ),
        (
            "data on it",
            alone(replacing(|_| ()), busy(used(50)), keeping(web("a"))),
            stays(Reason::LocalStorage),
        ),
        (
            "the control plane on it",
            alone(replacing(|_| ()), busy(used(50)), system(web("a"))),
            stays(Reason::SystemPod),
        ),
        (
            "protected",
            alone(
                replacing(|_| ()),
                busy(used(50)).worn(|wear| wear.protection = Protection::Always),
                web("a"),
            ),
            stays(Reason::NodeProtected),
        ),
        (
            "a budget of its pods",
            alone(replacing(|_| ()), busy(used(50)), web("a")).pod_budget("web", 0),
            stays(Reason::PodDisruptionBudget),
        ),
        (
            "its pods have just come",
            alone(replacing(|pool| pool.consolidate_after_secs = Some(61)), busy(used(50)), web("a")),
            stays(Reason::ConsolidateAfter),
        ),
        (
            "the group is paused",
            alone(replacing(|pool| pool.consolidate_after_secs = None), busy(used(50)), web("a")),
            stays(Reason::ConsolidationNever),
        ),
    ]);
}

/// Each of the rebalancer's checks has its verdict, in VPSie's order, where a group has nodes replaced.
#[test]
fn each_check_of_the_rebalancer_is_explained() {
    type Change = fn(&mut PoolDisruption);
    let used = |cpu_percent: u32| Usage { cpu_percent, memory_percent: 0, basis: Basis::Measured };
    let busy = |cpu_percent: u32| owned("a").worn(|wear| wear.usage = Some(used(cpu_percent)));
    let explained = |change: Change, node: Node, pod: Pod| {
        let pool = group().disrupts(|pool| {
            pool.replacement = Replacement::default();
            change(pool);
        });
        let (snapshot, policy) = bare().pool(pool).node(node).pod(pod).finish();
        explain::node(&snapshot, &policy, 0).rebalancing
    };
    let protected = |pod: Pod| pod.disrupted(|pod| pod.protection = Protection::Always);
    let cases: Vec<(&str, Change, Node, Pod, &[&str])> = vec![
        ("nothing", |_| (), busy(50), web("a"), &[]),
        (
            "many nodes are not ready",
            |pool| pool.replacement.barred = Some(Reason::ClusterUnhealthy.because("no")),
            busy(50),
            web("a"),
            &["cluster_health"],
        ),
        (
            "a short while ago, and the pod must stay",
            |pool| pool.replacement.barred = Some(Reason::ReplacementResting.because("no")),
            busy(50),
            protected(web("a")),
            &["nodegroup_health", "pod_disruption"],
        ),
        ("what replaces it would be full", |_| (), busy(10), web("a").cpu(1800), &["resource_capacity"]),
        (
            "what is used would be missing",
            |pool| pool.replacement.impact_percent_max = Some(5),
            busy(53),
            web("a"),
            &["resource_capacity"],
        ),
        (
            "the others would be full without it",
            |_| (),
            busy(50).worn(|wear| wear.others_asked_percent = Some(86)),
            web("a"),
            &[],
        ),
        ("pods came lately", |pool| pool.consolidate_after_secs = Some(61), busy(50), web("a"), &["timing"]),
    ];
    for (what, change, node, pod, expected) in cases {
        let checks = explained(change, node, pod);
        let names: Vec<&str> = checks.iter().map(|(check, _)| check.name()).collect();
        let order = ["cluster_health", "nodegroup_health", "pod_disruption", "resource_capacity", "timing"];
        assert_eq!(names, order, "{what}");
        let failed = checks.iter().filter(|(_, checked)| matches!(checked, Checked::Failed(_)));
        assert_eq!(failed.map(|(check, _)| check.name()).collect::<Vec<_>>(), expected, "{what}: {checks:?}");
    }
    let off: Change = |pool| pool.replacement.barred = Some(Reason::ReplacementBarred.because("no"));
    assert_eq!(explained(off, busy(50), web("a")), [], "nothing is replaced there");
}

#[test]
fn divided_pools() {
    let in_zone = |name: &str, zone: &str| Node { labels: node(name, zone).labels, ..owned(name) };
    let in_pool = |name: &str, zone: &str, capacity_type: &str| {
        in_zone(name, zone).of_pool("pool").labelled(CAPACITY_TYPE, capacity_type)
    };
    let split = |nodes_min| Division {
        zones: Some(ZoneSplit {
            rule: ZoneRule::ByWeight,
            zones: vec![("a".into(), 1), ("b".into(), 1)],
            nodes_min,
        }),
        ..Division::default()
    };
    let half_spot =
        Division { spot: Some(SpotShare { percent_max: 50, falls_back: true }), ..Division::default() };
    let pool = |division: &Division| Pool { division: division.clone(), ..free_pool() };
    let shielded = |node: Node| node.worn(|wear| wear.protection = Protection::Always);
    check(vec![
        (
            "a zone keeps its least",
            bare().pool(pool(&split(1))).node(in_pool("a", "a", "on-demand")).node(in_pool(
                "b",
                "b",
                "on-demand",
            )),
            vec![("a", Stays(Reason::PoolMinimum)), ("b", Stays(Reason::PoolMinimum))],
        ),
        (
            "what is empty goes from any zone",
            bare()
                .pool(pool(&split(0)))
                .node(in_pool("a", "a", "on-demand"))
                .node(shielded(in_pool("b", "b", "on-demand")))
                .node(shielded(in_pool("c", "b", "on-demand"))),
            a(Deleted(Empty)),
        ),
        (
            "pods leave the zone that has more",
            bare()
                .pool(pool(&split(0)))
                .node(in_pool("a", "a", "on-demand"))
                .node(shielded(in_pool("b", "b", "on-demand")))
                .node(shielded(in_pool("c", "b", "on-demand")))
                .pod(web("a").cpu(3000)),
            a(Stays(Reason::ZoneShare)),
        ),
        (
            "what is on demand stays beside its share of spot",
            bare()
                .pool(pool(&half_spot))
                .node(in_pool("a", "a", "on-demand"))
                .node(shielded(in_pool("b", "a", "spot"))),
            a(Stays(Reason::SpotShare)),
        ),
        (
            "spot goes",
            bare().pool(pool(&half_spot)).node(in_pool("a", "a", "spot")).node(shielded(in_pool(
                "b",
                "a",
                "on-demand",
            ))),
            a(Deleted(Empty)),
        ),
        (
            "what has to go goes",
            bare()
                .pool(pool(&half_spot))
                .node(in_pool("a", "a", "on-demand").worn(|wear| wear.expired = true))
                .node(shielded(in_pool("b", "a", "spot"))),
            a(Deleted(Expired)),
        ),
    ]);
}

#[test]
fn replacing() {
    let one = |price: i64| bare().pool(free_pool()).node(owned("a").costs(price)).pod(web("a"));
    let named = |name: &str, node: &str, cpu: i64| Pod { name: name.into(), ..web(node).cpu(cpu) };
    check(vec![
        ("by a cheaper one", one(400_000), a(Replaced(Underutilized, 1))),
        ("by one just cheap enough", one(206_186), a(Replaced(Underutilized, 1))),
        ("not for less than three hundredths", one(206_185), a(Stays(Reason::SavingTooSmall))),
        (
            "for a hundredth, if that is wanted",
            one(202_500).disrupts(|policy| policy.saving_min = SavingMin::Percent(1)),
            a(Replaced(Underutilized, 1)),
        ),
        (
            "not for less than a given amount",
            one(400_000).disrupts(|policy| {
                policy.saving_min = SavingMin::Amount(Price::from_micro_usd(200_001));
            }),
            a(Stays(Reason::SavingTooSmall)),
        ),
        (
            "not where disruption is dear",
            one(400_000).disrupts(|policy| policy.price = Price::from_micro_usd(100_000)),
            a(Stays(Reason::DisruptionTooDear)),
        ),
        (
            "split into two cheaper ones",
            bare()
                .pool(free_pool())
                .node(owned("a").has("cpu", 8000).costs(1_000_000))
                .pod(named("one", "a", 2000))
                .pod(named("two", "a", 2000)),
            a(Replaced(Underutilized, 2)),
        ),
        (
            "two merged into one",
            bare()
                .pool(free_pool())
                .node(owned("a").costs(600_000))
                .node(owned("b").costs(600_000))
                .pod(named("one", "a", 3000))
                .pod(named("two", "b", 3000)),
            vec![("a", Replaced(Underutilized, 1)), ("b", Replaced(Underutilized, 1))],
        ),
        (
            "not over the pool's limit, which counts old and new",
            bare().pool(free_pool().nodes_max(1)).node(owned("a")).pod(web("a")),
            a(Stays(Reason::PodsFitNowhere)),
        ),
    ]);
}
