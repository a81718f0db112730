//! Which pods move first.

use berth_core::disrupt;
use berth_core::disruption::Protection;
use berth_core::plan::{Bind, Host, Plan};
use berth_core::pod::Pod;
use berth_core::resources::{CPU, MEMORY};
use berth_core::snapshot::{Policy, SchedulerPolicy, Snapshot};
use berth_core::turns::waiting_for_larger;

use crate::cluster::{GIB, NodeWords, PodWords, bare, pod};
use crate::disruption::{free_pool, owned};

/// Pods, and where the plan has them.
type Moving = Vec<(Pod, Host)>;

#[test]
fn small_pods_wait_for_large_ones_that_move() {
    let (here, coming) = (Host::Node(0), Host::Launch(0));
    let sized = |cpu: i64, memory: i64| pod("p").cpu(cpu).asks(MEMORY, memory);
    let large = || sized(3500, 28);
    let small = || sized(900, 3);
    let moving = |pod: Pod| (pod.running_on("a"), here);
    let cases: [(&str, Moving, &[usize]); 7] = [
        ("none", vec![], &[]),
        ("alike", vec![moving(small()), moving(small())], &[]),
        ("large before small", vec![moving(small()), moving(large()), moving(small())], &[0, 2]),
        ("one that waits moves too", vec![moving(small()), (large(), here)], &[0]),
        ("one that is bought for is not waited for", vec![moving(small()), (large(), coming)], &[]),
        ("only those that run can wait", vec![(small(), here), moving(large())], &[]),
        ("large in one thing", vec![moving(sized(100, 28)), moving(sized(3500, 1))], &[]),
    ];
    for (what, moving, expected) in cases {
        let (pods, hosts): (Vec<Pod>, Vec<Host>) = moving.into_iter().unzip();
        let binds = hosts.into_iter().enumerate().map(|(pod, host)| Bind { pod, host }).collect();
        let snapshot = Snapshot { pods, ..Snapshot::default() };
        let plan = Plan { binds, ..Plan::default() };
        assert_eq!(waiting_for_larger(&snapshot, &plan), expected, "{what}");
    }
}

/// `b` has room for either pod of `a` and `c` for the slim one only. Which of them comes first to the scheduler decides
/// whether `a` can go.
#[test]
fn who_comes_back_late_finds_what_others_leave() {
    for (returns_late, goes) in [(false, true), (true, false)] {
        let pod = |name: &str| pod(name).running_on("a").disrupted(|pod| pod.has_controller = true);
        let room = |name: &str, cpu: i64, memory: i64| {
            let node = owned(name).has(CPU, cpu).has(MEMORY, memory);
            node.worn(|wear| wear.protection = Protection::Always)
        };
        let (snapshot, policy) = bare()
            .pool(free_pool())
            .node(owned("a").costs(200_000))
            .node(room("b", 1000, 4 * GIB))
            .node(room("c", 800, 2 * GIB))
            .pod(pod("fat").cpu(300).asks(MEMORY, 3 * GIB).disrupted(|pod| pod.returns_late = returns_late))
            .pod(pod("slim").cpu(750).asks(MEMORY, GIB + GIB / 2))
            .finish();
        let policy = Policy { scheduler: SchedulerPolicy::Heeded, ..policy };
        let plan = disrupt::plan(&snapshot, &policy);
        assert_eq!(!plan.disruptions.is_empty(), goes, "late: {returns_late}: {plan:?}");
    }
}
