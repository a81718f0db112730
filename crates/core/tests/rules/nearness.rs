//! Pod affinity and anti-affinity, required, and that of pods that run already.

use berth_core::catalog::CapacityType;
use berth_core::names::{CAPACITY_TYPE, HOSTNAME, ZONE};
use berth_core::node::{Node, NodeState};
use berth_core::pod::{Pod, PodPhase, PodTerm};
use berth_core::reason::Reason;
use berth_core::requirement::Expression;
use berth_core::requirement::Operator::In;
use berth_core::selector::Selector;

use crate::cluster::{
    Cluster, NodeWords, PodWords, PoolWords, TypeWords, bare, expression, node, pod, pods_of, pool, shop,
    small,
};
use crate::{Expect, check, launches, new, on, refused};

const RACK: &str = "rack";

/// A node in zone b, full of one running pod.
fn with_running(running: Pod) -> Cluster {
    shop().node(node("full", "b").has("cpu", 1000)).pod(running.running_on("full"))
}

fn in_namespace(pod: Pod, namespace: &str) -> Pod {
    Pod { namespace: namespace.into(), ..pod }
}

fn rack(name: &str, zone: &str, rack: &str) -> Node {
    node(name, zone).labelled(RACK, rack)
}

#[test]
fn affinity() {
    let near = |key| pod("web").near(pods_of("db", key));
    let none = || vec![refused("web", Reason::PodAffinity)];
    check(vec![
        (
            "a running pod's zone",
            with_running(pod("db")).pod(near(ZONE)),
            vec![new("web", &[(ZONE, "b")]), Expect::AlternativesIn(&["b"])],
        ),
        ("a running pod's node has no room", with_running(pod("db")).pod(near(HOSTNAME)), none()),
        (
            "a running pod's node",
            shop()
                .node(node("m", "a"))
                .node(node("n", "a"))
                .pod(pod("db").running_on("n"))
                .pod(near(HOSTNAME)),
            vec![on("web", "n")],
        ),
        ("no such pod", shop().pod(near(ZONE)), none()),
        (
            "a pending pod's node",
            shop().pod(pod("db")).pod(near(HOSTNAME)),
            vec![new("db", &[]), new("web", &[]), launches(1)],
        ),
        (
            "a pending pod's zone",
            shop().pod(pod("db").cpu(2000).selects(ZONE, "b")).pod(near(ZONE).cpu(2000)),
            vec![new("db", &[(ZONE, "b")]), new("web", &[(ZONE, "b")])],
        ),
        ("itself", shop().pod(pod("db").near(pods_of("db", ZONE))), vec![new("db", &[])]),
        (
            "its own kind, all in one zone",
            shop().pods(3, &pod("db").cpu(5000).near(pods_of("db", ZONE))),
            vec![new("db", &[(ZONE, "a")]), new("db", &[(ZONE, "a")]), new("db", &[(ZONE, "a")])],
        ),
        (
            "its own kind on one node, as many as fit",
            shop().pods(9, &pod("db").near(pods_of("db", HOSTNAME))),
            std::iter::repeat_n(new("db", &[]), 8).chain([refused("db", Reason::PodAffinity)]).collect(),
        ),
        (
            "its own kind runs already",
            with_running(pod("db")).pod(pod("new").label("app", "db").near(pods_of("db", ZONE))),
            vec![new("new", &[(ZONE, "b")])],
        ),
        (
            "a finished pod is nobody's neighbour",
            shop()
                .node(node("n", "b"))
                .pod(Pod { phase: PodPhase::Succeeded, ..pod("db").running_on("n") })
                .pod(near(ZONE)),
            none(),
        ),
        (
            "two terms, met by one pod",
            with_running(pod("db").label("tier", "back")).pod(near(ZONE).near(PodTerm {
                selector: Some(Selector::new(vec![Expression::equals("tier", "back")])),
                ..pods_of("", ZONE)
            })),
            vec![new("web", &[(ZONE, "b")])],
        ),
        (
            "two terms, met by two pods in the same zone, are not met: one pod must match all",
            shop()
                .node(node("full", "b").has("cpu", 2000))
                .pod(pod("db").running_on("full"))
                .pod(pod("cache").running_on("full"))
                .pod(near(ZONE).near(pods_of("cache", ZONE))),
            none(),
        ),
        (
            "two kinds that each wait for the other",
            shop().pod(pod("db").near(pods_of("web", ZONE))).pod(near(ZONE)),
            vec![refused("db", Reason::PodAffinity), refused("web", Reason::PodAffinity)],
        ),
        (
            "a pod whose node goes away takes its partner along",
            shop()
                .node(node("old", "b").in_state(NodeState::Deleting))
                .pod(pod("db").running_on("old"))
                .pod(near(HOSTNAME)),
            vec![new("db", &[]), new("web", &[]), launches(1)],
        ),
        (
            "a chain of three",
            shop()
                .pod(pod("db").selects(ZONE, "b"))
                .pod(near(ZONE))
                .pod(pod("job").near(pods_of("web", ZONE))),
            vec![new("db", &[(ZONE, "b")]), new("web", &[(ZONE, "b")]), new("job", &[(ZONE, "b")])],
        ),
        (
            "a term without a selector matches nobody",
            with_running(pod("db")).pod(pod("web").near(PodTerm { selector: None, ..pods_of("db", ZONE) })),
            none(),
        ),
    ]);
}

#[test]
fn anti_affinity() {
    let apart = |key| pod("web").away_from(pods_of("web", key));
    check(vec![
        (
            "one per node",
            shop().pods(3, &apart(HOSTNAME)),
            vec![new("web", &[]), new("web", &[]), new("web", &[]), launches(3)],
        ),
        (
            "one per zone, and there are two",
            shop().pods(3, &apart(ZONE)),
            vec![
                new("web", &[(ZONE, "a")]),
                new("web", &[(ZONE, "b")]),
                refused("web", Reason::PodAntiAffinity),
            ],
        ),
        (
            "away from a running pod's zone",
            with_running(pod("db")).pod(pod("web").away_from(pods_of("db", ZONE))),
            vec![new("web", &[(ZONE, "a")])],
        ),
        (
            "away from a running pod's node",
            bare()
                .node(node("n", "a"))
                .pod(pod("db").running_on("n"))
                .pod(pod("web").away_from(pods_of("db", HOSTNAME))),
            vec![refused("web", Reason::NoPool)],
        ),
        (
            "away from a pod that is not there",
            bare().node(node("n", "a")).pod(pod("web").away_from(pods_of("db", HOSTNAME))),
            vec![on("web", "n")],
        ),
        (
            "away from a pending pod",
            shop().pod(pod("db")).pod(pod("web").away_from(pods_of("db", HOSTNAME))),
            vec![new("db", &[]), new("web", &[]), launches(2)],
        ),
        (
            "a node without the key is in nobody's way",
            bare().node(node("n", "a")).pods(2, &apart(RACK)),
            vec![on("web", "n"), on("web", "n")],
        ),
        (
            "a term without a selector matches nobody",
            shop().pods(2, &pod("web").away_from(PodTerm { selector: None, ..pods_of("web", ZONE) })),
            vec![new("web", &[]), new("web", &[]), launches(1)],
        ),
    ]);
}

#[test]
fn anti_affinity_of_pods_that_run_already() {
    let shy = |key| with_running(pod("db").away_from(pods_of("web", key)));
    check(vec![
        (
            "keeps its zone to itself",
            shy(ZONE).pod(pod("web")),
            vec![new("web", &[(ZONE, "a")]), Expect::AlternativesIn(&["a"])],
        ),
        (
            "is no matter to others",
            shy(ZONE).pod(pod("job").selects(ZONE, "b")),
            vec![new("job", &[(ZONE, "b")])],
        ),
        (
            "keeps its zone to itself, and the pod must go there",
            shy(ZONE).pod(pod("web").selects(ZONE, "b")),
            vec![refused("web", Reason::ExistingAntiAffinity)],
        ),
        (
            "keeps its node to itself",
            bare()
                .node(node("n", "a"))
                .pod(pod("db").away_from(pods_of("web", HOSTNAME)).running_on("n"))
                .pod(pod("web")),
            vec![refused("web", Reason::NoPool)],
        ),
        (
            "of a pending pod too",
            shop().pod(pod("db").away_from(pods_of("web", HOSTNAME))).pod(pod("web")),
            vec![new("db", &[]), new("web", &[]), launches(2)],
        ),
        (
            "leaves no zone at all",
            shy(ZONE)
                .node(node("other", "a").has("cpu", 1000))
                .pod(pod("dc").away_from(pods_of("web", ZONE)).running_on("other"))
                .pod(pod("web")),
            vec![refused("web", Reason::ExistingAntiAffinity)],
        ),
        (
            "of a pod on a node that goes away does not count",
            bare()
                .pool(pool("pool").limits("cpu", 0))
                .node(node("old", "a").in_state(NodeState::Deleting))
                .node(node("n", "a").has("cpu", 1000))
                .pod(Pod { deleting: true, ..pod("db") }.away_from(pods_of("web", ZONE)).running_on("old"))
                .pod(pod("web")),
            vec![on("web", "n")],
        ),
    ]);
}

#[test]
fn any_topology_key() {
    let racks = || bare().node(rack("n1", "a", "r1")).node(rack("n2", "a", "r1")).node(rack("n3", "a", "r2"));
    let apart = || pod("web").away_from(pods_of("web", RACK));
    let spot = || bare().pool(pool("pool").sells(&[small().sold("a", CapacityType::Spot)]));
    check(vec![
        (
            "a label of the nodes",
            racks().pods(3, &apart()),
            vec![on("web", "n1"), on("web", "n3"), refused("web", Reason::NoPool)],
        ),
        (
            "near, on another node of the rack",
            racks().pod(pod("db").cpu(4000).running_on("n1")).pod(pod("web").near(pods_of("db", RACK))),
            vec![on("web", "n2")],
        ),
        (
            "near, by a label that the pool's nodes lack",
            shop()
                .node(rack("full", "a", "r1").has("cpu", 1000))
                .pod(pod("db").running_on("full"))
                .pod(pod("web").near(pods_of("db", RACK))),
            vec![refused("web", Reason::TopologyKeyMissing)],
        ),
        (
            "near, by a label that the pool's nodes can have",
            bare()
                .pool(pool("pool").requires(expression(RACK, In, &["r1", "r2"])))
                .node(rack("full", "a", "r2").has("cpu", 1000))
                .pod(pod("db").running_on("full"))
                .pod(pod("web").near(pods_of("db", RACK))),
            vec![new("web", &[(RACK, "r2")])],
        ),
        (
            "apart by capacity type",
            spot().pods(3, &pod("web").away_from(pods_of("web", CAPACITY_TYPE))),
            vec![
                new("web", &[(CAPACITY_TYPE, "spot")]),
                new("web", &[(CAPACITY_TYPE, "on-demand")]),
                refused("web", Reason::PodAntiAffinity),
            ],
        ),
    ]);
}

#[test]
fn namespaces() {
    let db_elsewhere = || with_running(in_namespace(pod("db"), "data")).namespace("data", "tier", "back");
    let near = |change: fn(&mut PodTerm)| {
        let mut term = pods_of("db", ZONE);
        change(&mut term);
        pod("web").near(term)
    };
    let away = |change: fn(&mut PodTerm)| {
        let mut term = pods_of("db", ZONE);
        change(&mut term);
        pod("web").selects(ZONE, "b").away_from(term)
    };
    let named: fn(&mut PodTerm) = |term| term.namespaces = vec!["data".into()];
    let of_tier: fn(&mut PodTerm) =
        |term| term.namespace_selector = Some(Selector::new(vec![Expression::equals("tier", "back")]));
    let of_no_tier: fn(&mut PodTerm) =
        |term| term.namespace_selector = Some(Selector::new(vec![Expression::equals("tier", "front")]));
    let all: fn(&mut PodTerm) = |term| term.namespace_selector = Some(Selector::default());
    let own: fn(&mut PodTerm) = |_| {};
    let goes = || vec![new("web", &[(ZONE, "b")])];
    let none = |reason| vec![refused("web", reason)];
    check(vec![
        ("near in its own namespace", db_elsewhere().pod(near(own)), none(Reason::PodAffinity)),
        ("near in a named namespace", db_elsewhere().pod(near(named)), goes()),
        ("near in a selected namespace", db_elsewhere().pod(near(of_tier)), goes()),
        ("near in a namespace not selected", db_elsewhere().pod(near(of_no_tier)), none(Reason::PodAffinity)),
        ("near in any namespace", db_elsewhere().pod(near(all)), goes()),
        ("away in its own namespace", db_elsewhere().pod(away(own)), goes()),
        ("away in a named namespace", db_elsewhere().pod(away(named)), none(Reason::PodAntiAffinity)),
        ("away in a selected namespace", db_elsewhere().pod(away(of_tier)), none(Reason::PodAntiAffinity)),
        ("away in a namespace not selected", db_elsewhere().pod(away(of_no_tier)), goes()),
        ("away in any namespace", db_elsewhere().pod(away(all)), none(Reason::PodAntiAffinity)),
        (
            "a running pod shuns its own namespace only",
            with_running(in_namespace(pod("db").away_from(pods_of("web", ZONE)), "data"))
                .pod(pod("web").selects(ZONE, "b")),
            goes(),
        ),
        (
            "a running pod shuns a named namespace",
            with_running(in_namespace(
                pod("db").away_from(PodTerm { namespaces: vec!["default".into()], ..pods_of("web", ZONE) }),
                "data",
            ))
            .pod(pod("web").selects(ZONE, "b")),
            none(Reason::ExistingAntiAffinity),
        ),
    ]);
}
