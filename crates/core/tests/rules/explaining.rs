//! Why a node stays, or how it goes.

use berth_core::disruption::{Basis, NodeDisruption, Usage};
use berth_core::explain::{self, Checked};
use berth_core::names::HOSTNAME;
use berth_core::node::Node;
use berth_core::pod::Pod;
use berth_core::reason::Reason;
use berth_core::units::Price;

use crate::cluster::{Cluster, NodeWords, PodWords, PoolWords, bare, pods_of};
use crate::disruption::{free_pool, group, owned, protected, web, with, with_node};

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
