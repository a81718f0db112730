//! Preferences: held where they can be, given up in a defined order where not.

use berth_core::names::{HOSTNAME, INSTANCE_TYPE, NODEPOOL, ZONE};
use berth_core::pod::TaintEffect::{NoSchedule, PreferNoSchedule};
use berth_core::pod::{Pod, PodTerm, Spread, Weighted};
use berth_core::requirement::Expression;
use berth_core::requirement::Operator::In;

use crate::cluster::{
    Cluster, NodeWords, PodWords, PoolWords, bare, evenly, expression, node, pod, pods_of, pool, shop,
};
use crate::{check, launches, new, on};

fn zone(zone: &str) -> Expression {
    expression(ZONE, In, &[zone])
}

fn prefers_near(pod: Pod, weight: i32, term: PodTerm) -> Pod {
    pod.with(|spec| spec.affinity_preferences.push(Weighted { weight, term }))
}

fn prefers_away(pod: Pod, weight: i32, term: PodTerm) -> Pod {
    pod.with(|spec| spec.anti_affinity_preferences.push(Weighted { weight, term }))
}

fn maybe_evenly(app: &str, key: &str) -> Spread {
    Spread { required: false, ..evenly(app, key) }
}

#[test]
fn node_preferences() {
    let likes_b = || pod("web").prefers(1, zone("b"));
    check(vec![
        ("held", shop().pod(likes_b()), vec![new("web", &[(ZONE, "b")])]),
        ("ignored", shop().pod(likes_b()).ignore_preferences(), vec![new("web", &[(ZONE, "a")])]),
        ("given up", shop().pod(pod("web").prefers(1, zone("x"))), vec![new("web", &[(ZONE, "a")])]),
        (
            "the lighter of two is given up first",
            shop().pod(pod("web").prefers(1, zone("a")).prefers(9, zone("b"))),
            vec![new("web", &[(ZONE, "b")])],
        ),
        (
            "in whichever order they are written",
            shop().pod(pod("web").prefers(9, zone("b")).prefers(1, zone("a"))),
            vec![new("web", &[(ZONE, "b")])],
        ),
        (
            "two that agree are both held",
            shop().pod(pod("web").prefers(1, zone("b")).prefers(1, expression("size", In, &["8"]))),
            vec![new("web", &[(ZONE, "b"), (INSTANCE_TYPE, "large")])],
        ),
        (
            "what is required comes before what is preferred",
            shop().pod(likes_b().selects(ZONE, "a")),
            vec![new("web", &[(ZONE, "a")])],
        ),
        (
            "among existing nodes",
            bare().node(node("m", "a")).node(node("n", "b")).pod(likes_b()),
            vec![on("web", "n")],
        ),
        (
            "held for those that find room, given up for the rest",
            bare().node(node("m", "a")).node(node("n", "b")).pods(2, &likes_b().cpu(3000)),
            vec![on("web", "n"), on("web", "m")],
        ),
    ]);
}

#[test]
fn pod_preferences() {
    let with_db = || shop().node(node("n", "b").has("cpu", 1000)).pod(pod("db").running_on("n"));
    let near_db = || prefers_near(pod("web"), 1, pods_of("db", ZONE));
    let apart = || prefers_away(pod("web"), 1, pods_of("web", HOSTNAME));
    check(vec![
        ("near, held", with_db().pod(near_db()), vec![new("web", &[(ZONE, "b")])]),
        ("near, ignored", with_db().pod(near_db()).ignore_preferences(), vec![new("web", &[(ZONE, "a")])]),
        ("near, given up", shop().pod(near_db()), vec![new("web", &[])]),
        ("away, held", shop().pods(2, &apart()), vec![new("web", &[]), new("web", &[]), launches(2)]),
        (
            "away, ignored",
            shop().pods(2, &apart()).ignore_preferences(),
            vec![new("web", &[]), new("web", &[]), launches(1)],
        ),
        (
            "away, given up",
            bare().node(node("n", "a")).pods(2, &apart()),
            vec![on("web", "n"), on("web", "n")],
        ),
        (
            "away from a zone, held",
            with_db().pod(prefers_away(pod("web"), 1, pods_of("db", ZONE))),
            vec![new("web", &[(ZONE, "a")])],
        ),
    ]);
}

#[test]
fn the_order_in_which_preferences_are_given_up() {
    let with_db = || shop().node(node("n", "a").has("cpu", 1000)).pod(pod("db").running_on("n"));
    let near_db = |weight| prefers_near(pod("web"), weight, pods_of("db", ZONE));
    let far = |pod| prefers_away(pod, 1, pods_of("db", ZONE));
    let full_of_web = |cluster: Cluster| {
        cluster
            .node(node("full", "b").has("cpu", 1000))
            .pod(pod("old").label("app", "web").running_on("full"))
    };
    check(vec![
        (
            "pod affinity before pod anti-affinity, whatever it weighs",
            with_db().pod(far(near_db(100))),
            vec![new("web", &[(ZONE, "b")])],
        ),
        (
            "pod affinity before node affinity",
            with_db().pod(near_db(100).prefers(1, zone("b"))),
            vec![new("web", &[(ZONE, "b")])],
        ),
        (
            "pod anti-affinity before node affinity",
            with_db().pod(far(pod("web")).prefers(1, zone("a"))),
            vec![new("web", &[(ZONE, "a")])],
        ),
        (
            "node affinity before a spread",
            full_of_web(shop()).pod(pod("web").prefers(100, zone("b")).spread(maybe_evenly("web", ZONE))),
            vec![new("web", &[(ZONE, "a")])],
        ),
        (
            "a spread before a taint",
            bare()
                .pool(pool("clean").requires(zone("a")))
                .pool(pool("soft").requires(zone("b")).taints("slow", PreferNoSchedule))
                .node(node("full", "a").has("cpu", 1000))
                .pod(pod("old").label("app", "web").running_on("full"))
                .pod(pod("web").spread(maybe_evenly("web", ZONE))),
            vec![new("web", &[(ZONE, "a")])],
        ),
    ]);
}

#[test]
fn soft_taints() {
    let soft = |cluster: Cluster| cluster.node(node("soft", "a").tainted("slow", PreferNoSchedule));
    check(vec![
        (
            "another node is preferred",
            soft(bare()).node(node("n", "a")).pod(pod("web")),
            vec![on("web", "n")],
        ),
        ("borne where there is no other", soft(bare()).pod(pod("web")), vec![on("web", "soft")]),
        ("avoided by buying", soft(shop()).pod(pod("web")), vec![new("web", &[])]),
        ("ignored", soft(shop()).pod(pod("web")).ignore_preferences(), vec![on("web", "soft")]),
        (
            "a dearer pool without the taint",
            bare()
                .pool(pool("cheap").taints("slow", PreferNoSchedule))
                .pool(pool("dear").requires(expression("size", In, &["8"])))
                .pod(pod("web")),
            vec![new("web", &[(NODEPOOL, "dear")])],
        ),
        (
            "a pool with the taint where no other can",
            bare()
                .pool(pool("soft").taints("slow", PreferNoSchedule))
                .pool(pool("full").nodes_max(0))
                .pod(pod("web")),
            vec![new("web", &[(NODEPOOL, "soft")])],
        ),
        (
            "tolerated",
            soft(shop()).pod(pod("web").tolerates(Some("slow"), None, Some(PreferNoSchedule))),
            vec![on("web", "soft")],
        ),
        (
            "a toleration of another effect does not help",
            soft(shop()).pod(pod("web").tolerates(Some("slow"), None, Some(NoSchedule))),
            vec![new("web", &[])],
        ),
    ]);
}

#[test]
fn spreads_that_may_be_broken() {
    let two = || pod("web").cpu(2000).spread(maybe_evenly("web", ZONE));
    let zones = |zones: &[&'static str]| zones.iter().map(|zone| new("web", &[(ZONE, *zone)])).collect();
    check(vec![
        ("held", shop().pods(2, &two()), zones(&["a", "b"])),
        ("ignored", shop().pods(2, &two()).ignore_preferences(), zones(&["a", "a"])),
        (
            "broken where only one zone has room",
            bare().pool(pool("pool").limits("cpu", 0)).node(node("n", "a")).pods(2, &two()),
            vec![on("web", "n"), on("web", "n")],
        ),
    ]);
}
