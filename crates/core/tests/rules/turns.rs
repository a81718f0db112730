//! Which pods move first.

use berth_core::plan::{Bind, Host, Plan};
use berth_core::pod::Pod;
use berth_core::resources::MEMORY;
use berth_core::snapshot::Snapshot;
use berth_core::turns::waiting_for_larger;

use crate::cluster::{PodWords, pod};

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
