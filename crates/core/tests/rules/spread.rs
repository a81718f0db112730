//! Topology spread, required.

use berth_core::catalog::{CapacityType, OfferingPattern};
use berth_core::names::{CAPACITY_TYPE, HOSTNAME, ZONE};
use berth_core::pod::TaintEffect::NoSchedule;
use berth_core::pod::{Pod, Spread};
use berth_core::reason::Reason;
use berth_core::requirement::Operator::In;
use berth_core::resources::CPU;
use berth_core::selector::Selector;

use crate::cluster::{
    Cluster, NodeWords, PodWords, PoolWords, TypeWords, bare, evenly, expression, node, pod, pool, shop,
    small,
};
use crate::{Expect, check, launches, new, on, refused};

fn web(spread: Spread) -> Pod {
    pod("web").cpu(2000).spread(spread)
}

fn zones(zones: &[&'static str]) -> Vec<Expect> {
    zones.iter().map(|zone| new("web", &[(ZONE, *zone)])).collect()
}

/// A node that `count` running pods of `web` fill.
fn full(cluster: Cluster, name: &str, zone: &str, count: u32) -> Cluster {
    let full = node(name, zone).has(CPU, i64::from(count) * 1000);
    (0..count).fold(cluster.node(full), |cluster, copy| {
        cluster.pod(pod(&format!("{name}-{copy}")).label("app", "web").running_on(name))
    })
}

#[test]
fn max_skew() {
    let skew = |max_skew| web(Spread { max_skew, ..evenly("web", ZONE) });
    check(vec![
        ("one each", shop().pods(2, &skew(1)), zones(&["a", "b"])),
        ("a third goes anywhere", shop().pods(3, &skew(1)), zones(&["a", "b", "a"])),
        ("four are two each", shop().pods(4, &skew(1)), zones(&["a", "a", "b", "b"])),
        ("a skew of two lets two into the cheaper zone", shop().pods(2, &skew(2)), zones(&["a", "a"])),
        ("a skew of two stops the third", shop().pods(3, &skew(2)), zones(&["a", "a", "b"])),
        ("running pods count", full(shop(), "n", "a", 1).pod(skew(1)), zones(&["b"])),
        ("two running pods count", full(shop(), "n", "a", 2).pods(3, &skew(1)), zones(&["b", "b", "a"])),
        (
            "a selected zone with too many already does not count against itself",
            full(shop(), "n", "a", 1).pod(skew(1).selects(ZONE, "a")),
            zones(&["a"]),
        ),
        (
            "a terminating pod does not count",
            shop()
                .node(node("n", "a").has(CPU, 1000))
                .pod(Pod { deleting: true, ..pod("old").label("app", "web").running_on("n") })
                .pod(skew(1)),
            zones(&["a"]),
        ),
        (
            "pods of another app do not count",
            shop().node(node("n", "a").has(CPU, 1000)).pod(pod("db").running_on("n")).pod(skew(1)),
            zones(&["a"]),
        ),
        (
            "pods of another namespace do not count",
            shop()
                .node(node("n", "a").has(CPU, 1000))
                .pod(Pod { namespace: "x".into(), ..pod("old").label("app", "web").running_on("n") })
                .pod(skew(1)),
            zones(&["a"]),
        ),
        (
            "pods that the selector does not match are not held",
            full(shop(), "n", "a", 1).pods(2, &pod("job").cpu(2000).spread(evenly("web", ZONE))),
            vec![new("job", &[(ZONE, "a")]), new("job", &[(ZONE, "a")])],
        ),
        (
            "without a selector nobody counts",
            shop().pods(2, &web(Spread { selector: None, ..evenly("web", ZONE) })),
            zones(&["a", "a"]),
        ),
        (
            // As kube-scheduler does, although such a selector matches every pod.
            "a selector without expressions counts nobody",
            shop().pods(2, &web(Spread { selector: Some(Selector::default()), ..evenly("web", ZONE) })),
            zones(&["a", "a"]),
        ),
        (
            "two spreads are both held",
            shop().pods(2, &web(evenly("web", ZONE)).cpu(500).spread(evenly("web", HOSTNAME))),
            zones(&["a", "b"]),
        ),
        (
            "by capacity type",
            bare()
                .pool(pool("pool").sells(&[small().sold("a", CapacityType::Spot)]))
                .pods(2, &web(evenly("web", CAPACITY_TYPE))),
            vec![new("web", &[(CAPACITY_TYPE, "spot")]), new("web", &[(CAPACITY_TYPE, "on-demand")])],
        ),
        (
            "a key that no node has",
            shop().pod(web(evenly("web", "rack"))),
            vec![refused("web", Reason::TopologyKeyMissing)],
        ),
    ]);
}

#[test]
fn zones_that_could_be_bought_count() {
    let one = || web(evenly("web", ZONE));
    let no_zone_b = OfferingPattern { zone: Some("b".into()), ..OfferingPattern::default() };
    let roomy = |cluster: Cluster| cluster.node(node("n", "a").has(CPU, 8000));
    check(vec![
        (
            "although no node is in it",
            roomy(shop()).pods(2, &one()),
            vec![on("web", "n"), new("web", &[(ZONE, "b")])],
        ),
        (
            "not where it cannot be had now",
            roomy(shop()).pods(2, &one()).unavailable(no_zone_b),
            vec![on("web", "n"), on("web", "n")],
        ),
        ("not where no pool buys there", roomy(bare()).pods(2, &one()), vec![on("web", "n"), on("web", "n")]),
        (
            "not where the pool excludes it",
            roomy(bare().pool(pool("pool").requires(expression(ZONE, In, &["a"])))).pods(2, &one()),
            vec![on("web", "n"), on("web", "n")],
        ),
        (
            "where a limit keeps it empty the others wait",
            roomy(bare().pool(pool("pool").limits(CPU, 0))).pods(2, &one()),
            vec![on("web", "n"), refused("web", Reason::PoolLimit)],
        ),
    ]);
}

#[test]
fn min_domains() {
    let at_least = |min_domains| web(Spread { min_domains, ..evenly("web", ZONE) });
    check(vec![
        ("as many as there are", shop().pods(4, &at_least(2)), zones(&["a", "a", "b", "b"])),
        (
            "more than there are: the minimum is zero",
            shop().pods(3, &at_least(3)),
            vec![
                new("web", &[(ZONE, "a")]),
                new("web", &[(ZONE, "b")]),
                refused("web", Reason::TopologySpread),
            ],
        ),
        (
            "of hostnames, with one existing node: another is bought",
            shop()
                .node(node("n", "a"))
                .pods(2, &pod("web").spread(Spread { min_domains: 2, ..evenly("web", HOSTNAME) })),
            vec![on("web", "n"), new("web", &[]), launches(1)],
        ),
        (
            "of hostnames, with one existing node and no pool",
            bare()
                .node(node("n", "a"))
                .pods(2, &pod("web").spread(Spread { min_domains: 2, ..evenly("web", HOSTNAME) })),
            vec![on("web", "n"), refused("web", Reason::NoPool)],
        ),
    ]);
}

#[test]
fn node_affinity_policy() {
    let only_a =
        |honor_node_affinity| web(Spread { honor_node_affinity, ..evenly("web", ZONE) }).selects(ZONE, "a");
    check(vec![
        ("honor: zones it cannot go to do not count", shop().pods(2, &only_a(true)), zones(&["a", "a"])),
        (
            "ignore: they count, and stay empty",
            shop().pods(2, &only_a(false)),
            vec![new("web", &[(ZONE, "a")]), refused("web", Reason::TopologySpread)],
        ),
        (
            "honor: pods on nodes it cannot go to do not count",
            full(shop(), "n", "a", 2).pods(2, &web(evenly("web", ZONE)).selects("size", "2")),
            zones(&["a", "b"]),
        ),
        (
            "ignore: pods on nodes it cannot go to count",
            full(shop(), "n", "a", 2).pods(
                2,
                &web(Spread { honor_node_affinity: false, ..evenly("web", ZONE) }).selects("size", "2"),
            ),
            zones(&["b", "b"]),
        ),
    ]);
}

#[test]
fn node_taints_policy() {
    let web = |honor_node_taints| web(Spread { honor_node_taints, ..evenly("web", ZONE) });
    let tainted_b = || {
        bare()
            .pool(pool("a").requires(expression(ZONE, In, &["a"])))
            .node(node("b", "b").tainted("dedicated", NoSchedule))
    };
    let tainted_pool_b = || {
        bare()
            .pool(pool("a").requires(expression(ZONE, In, &["a"])))
            .pool(pool("b").requires(expression(ZONE, In, &["b"])).taints("dedicated", NoSchedule))
    };
    check(vec![
        (
            "ignore: a tainted node's zone counts",
            tainted_b().pods(2, &web(false)),
            vec![new("web", &[(ZONE, "a")]), refused("web", Reason::TopologySpread)],
        ),
        ("honor: a tainted node's zone does not count", tainted_b().pods(2, &web(true)), zones(&["a", "a"])),
        (
            "ignore: a zone that only a tainted pool sells counts",
            tainted_pool_b().pods(2, &web(false)),
            vec![
                new("web", &[(ZONE, "a")]),
                Expect::Refused("web", vec![Reason::TopologySpread, Reason::UntoleratedTaint]),
            ],
        ),
        (
            "honor: a zone that only a tainted pool sells does not count",
            tainted_pool_b().pods(2, &web(true)),
            zones(&["a", "a"]),
        ),
        (
            "honor: a tolerated taint is none",
            tainted_b().pods(2, &web(true).tolerates(Some("dedicated"), None, None)),
            vec![new("web", &[(ZONE, "a")]), on("web", "b")],
        ),
    ]);
}

#[test]
fn hostnames() {
    let even = || pod("web").spread(evenly("web", HOSTNAME));
    let two = || bare().node(node("m", "a")).node(node("n", "a"));
    check(vec![
        ("over existing nodes", two().pods(2, &even()), vec![on("web", "m"), on("web", "n")]),
        (
            "over existing nodes, two each",
            two().pods(4, &even()),
            vec![on("web", "m"), on("web", "m"), on("web", "n"), on("web", "n")],
        ),
        (
            "a full node holds the others back",
            full(bare().node(node("n", "a")), "full", "a", 0).pods(2, &even()),
            vec![on("web", "n"), refused("web", Reason::NoPool)],
        ),
        (
            "nodes that could be bought do not count",
            shop().node(node("n", "a")).pods(2, &even()),
            vec![on("web", "n"), on("web", "n"), launches(0)],
        ),
        (
            "a new node is an empty domain",
            full(shop(), "full", "a", 1).pod(even()),
            vec![new("web", &[]), launches(1)],
        ),
    ]);
}
