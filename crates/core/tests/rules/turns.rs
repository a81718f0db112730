//! Which pods move first.

use berth_core::disrupt;
use berth_core::disruption::{PodDisruption, Protection};
use berth_core::plan::{Bind, Host, Plan};
use berth_core::pod::Pod;
use berth_core::resources::{CPU, MEMORY};
use berth_core::snapshot::{Policy, SchedulerPolicy, Snapshot};
use berth_core::turns::waiting_for_others;

use crate::cluster::{GIB, NodeWords, PodWords, bare, pod};
use crate::disruption::{free_pool, owned};

/// Pods, and where the plan has them.
type Moving = Vec<(Pod, Host)>;

#[test]
fn pods_wait_for_others_that_move() {
    let (here, coming) = (Host::Node(0), Host::Launch(0));
    let sized = |cpu: i64, memory: i64| pod("p").cpu(cpu).asks(MEMORY, memory);
    let large = || sized(3500, 28);
    let small = || sized(900, 3);
    let late = |pod: Pod| pod.disrupted(|pod| pod.returns_late = true);
    let moving = |pod: Pod| (pod.running_on("a"), here);
    let cases: [(&str, Moving, &[usize]); 10] = [
        ("none", vec![], &[]),
        ("alike", vec![moving(small()), moving(small())], &[]),
        ("large before small", vec![moving(small()), moving(large()), moving(small())], &[0, 2]),
        ("one that waits moves too", vec![moving(small()), (large(), here)], &[0]),
        ("one that is bought for is not waited for", vec![moving(small()), (large(), coming)], &[]),
        ("only those that run can wait", vec![(small(), here), moving(large())], &[]),
        ("large in one thing", vec![moving(sized(100, 28)), moving(sized(3500, 1))], &[]),
        (
            "those first that come back late",
            vec![moving(large()), moving(late(small())), moving(late(large())), (small(), here)],
            &[0],
        ),
        ("who waits comes back no more", vec![moving(large()), (late(large()), here)], &[]),
        (
            "one that is bought for is not late",
            vec![moving(large()), (late(small()).running_on("a"), coming)],
            &[],
        ),
    ];
    for (what, moving, expected) in cases {
        let (pods, hosts): (Vec<Pod>, Vec<Host>) = moving.into_iter().unzip();
        let binds = hosts.into_iter().enumerate().map(|(pod, host)| Bind { pod, host }).collect();
        let snapshot = Snapshot { pods, ..Snapshot::default() };
        let plan = Plan { binds, ..Plan::default() };
        assert_eq!(waiting_for_others(&snapshot, &plan, false), expected, "{what}");
    }
}

#[test]
fn pods_wait_for_those_that_are_to_come_back() {
    let late = pod("late").disrupted(|pod| pod.returns_late = true);
    let pods = vec![pod("first").running_on("a"), pod("new"), late.running_on("a")];
    let binds = (0..pods.len()).map(|pod| Bind { pod, host: Host::Node(0) }).collect();
    let (snapshot, plan) = (Snapshot { pods, ..Snapshot::default() }, Plan { binds, ..Plan::default() });
    assert_eq!(waiting_for_others(&snapshot, &plan, true), [0]);
}

/// `b` has room for either pod of `a` and `c` for the slim one only. Which of them comes first to the scheduler decides
/// whether `a` can go.
#[test]
fn who_comes_back_late_goes_first() {
    for (late, goes) in [("nobody", true), ("fat", true), ("slim", false)] {
        let pod = |name: &str| {
            let returns =
                |pod: &mut PodDisruption| (pod.has_controller, pod.returns_late) = (true, name == late);
            pod(name).running_on("a").disrupted(returns)
        };
        let room = |name: &str, cpu: i64, memory: i64| {
            let node = owned(name).has(CPU, cpu).has(MEMORY, memory);
            node.worn(|wear| wear.protection = Protection::Always)
        };
        let (snapshot, policy) = bare()
            .pool(free_pool())
            .node(owned("a").costs(200_000))
            .node(room("b", 1000, 4 * GIB))
            .node(room("c", 800, 2 * GIB))
            .pod(pod("fat").cpu(300).asks(MEMORY, 3 * GIB))
            .pod(pod("slim").cpu(750).asks(MEMORY, GIB + GIB / 2))
            .finish();
        let policy = Policy { scheduler: SchedulerPolicy::Heeded, ..policy };
        let plan = disrupt::plan(&snapshot, &policy);
        assert_eq!(!plan.disruptions.is_empty(), goes, "late: {late}: {plan:?}");
    }
}
