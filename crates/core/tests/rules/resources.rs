//! Resources: what pods ask for, what nodes have, what DaemonSets take.

use berth_core::names::{ARCH, INSTANCE_TYPE, TAINT_NOT_READY};
use berth_core::node::NodeState;
use berth_core::pod::TaintEffect::{NoExecute, NoSchedule};
use berth_core::pod::{Pod, PodPhase};
use berth_core::reason::Reason;
use berth_core::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS};

use crate::cluster::{
    Cluster, GIB, NodeWords, PodWords, PoolWords, TypeWords, bare, large, machine, node, pod, pool, shop,
    small,
};
use crate::{check, launches, new, on, refused};

const GPU: &str = "example.com/gpu";
const HUGE: &str = "hugepages-2Mi";

#[test]
fn sizes() {
    let web = |resource, amount| shop().pod(pod("web").asks(resource, amount));
    check(vec![
        ("all of the smallest", web(CPU, 2000), vec![new("web", &[(INSTANCE_TYPE, "small")])]),
        ("a thousandth more", web(CPU, 2001), vec![new("web", &[(INSTANCE_TYPE, "large")])]),
        ("all of the largest", web(CPU, 8000), vec![new("web", &[(INSTANCE_TYPE, "large")])]),
        ("a thousandth more than the largest", web(CPU, 8001), vec![refused("web", Reason::InsufficientCpu)]),
        ("all of the memory", web(MEMORY, 32 * GIB), vec![new("web", &[(INSTANCE_TYPE, "large")])]),
        ("a byte more", web(MEMORY, 32 * GIB + 1), vec![refused("web", Reason::InsufficientMemory)]),
        (
            "storage that no type has",
            web(EPHEMERAL_STORAGE, 1),
            vec![refused("web", Reason::InsufficientEphemeralStorage)],
        ),
        (
            "room is kept for whom it was promised to",
            bare()
                .node(node("n", "a").has(CPU, 4000))
                .pod(pod("large").cpu(4000))
                .pod(Pod { nominated: Some("n".into()), ..pod("small") }),
            vec![on("small", "n"), refused("large", Reason::NoPool)],
        ),
        (
            "as many pods as the node takes",
            bare().node(node("n", "a").has(PODS, 2)).pods(3, &pod("web").cpu(0)),
            vec![on("web", "n"), on("web", "n"), refused("web", Reason::NoPool)],
        ),
        (
            "a pod that asks for nothing takes a pod's room",
            bare().pool(pool("pool").sells(&[small().has(PODS, 1)])).pods(2, &pod("web").cpu(0)),
            vec![new("web", &[]), new("web", &[]), launches(2)],
        ),
        (
            "a type that takes no pod",
            bare().pool(pool("pool").sells(&[small().has(PODS, 0)])).pod(pod("web")),
            vec![refused("web", Reason::InsufficientPods)],
        ),
    ]);
}

#[test]
fn extended_resources_and_huge_pages() {
    let with_gpu = || bare().pool(pool("pool").sells(&[small(), machine("gpu", 4).has(GPU, 2)]));
    let with_huge = || bare().pool(pool("pool").sells(&[small().has(HUGE, 4 * GIB)]));
    check(vec![
        (
            "a type has it",
            with_gpu().pod(pod("web").asks(GPU, 1)),
            vec![new("web", &[(INSTANCE_TYPE, "gpu")])],
        ),
        (
            "no type has it",
            shop().pod(pod("web").asks(GPU, 1)),
            vec![refused("web", Reason::InsufficientResource)],
        ),
        (
            "no type has enough",
            with_gpu().pod(pod("web").asks(GPU, 3)),
            vec![refused("web", Reason::InsufficientResource)],
        ),
        (
            "three on nodes of two",
            with_gpu().pods(3, &pod("web").asks(GPU, 1)),
            vec![new("web", &[]), new("web", &[]), new("web", &[]), launches(2)],
        ),
        (
            "others take what is cheaper",
            with_gpu().pod(pod("web")),
            vec![new("web", &[(INSTANCE_TYPE, "small")])],
        ),
        (
            "an existing node has it",
            shop().node(node("n", "a").has(GPU, 1)).pods(2, &pod("web").asks(GPU, 1)),
            vec![on("web", "n"), refused("web", Reason::InsufficientResource)],
        ),
        ("huge pages", with_huge().pod(pod("web").asks(HUGE, 4 * GIB)), vec![new("web", &[])]),
        (
            "more huge pages than there are",
            with_huge().pod(pod("web").asks(HUGE, 4 * GIB + 1)),
            vec![refused("web", Reason::InsufficientResource)],
        ),
        (
            "huge pages of another size",
            with_huge().pod(pod("web").asks("hugepages-1Gi", GIB)),
            vec![refused("web", Reason::InsufficientResource)],
        ),
        (
            "huge pages are taken from memory",
            with_huge().pod(pod("web").asks(MEMORY, 4 * GIB)).pod(pod("big").asks(MEMORY, 4 * GIB + 1)),
            vec![new("web", &[]), refused("big", Reason::InsufficientMemory)],
        ),
    ]);
}

#[test]
fn running_pods_hold_their_room() {
    let with = |running: Pod| bare().node(node("n", "a")).pod(running.running_on("n"));
    let overcommitted = || with(pod("db").cpu(5000));
    check(vec![
        ("what is left", with(pod("db").cpu(3000)).pod(pod("web")), vec![on("web", "n")]),
        (
            "more than is left",
            with(pod("db").cpu(3001)).pod(pod("web")),
            vec![refused("web", Reason::NoPool)],
        ),
        (
            "an overcommitted node",
            overcommitted().pod(pod("web").cpu(1)),
            vec![refused("web", Reason::NoPool)],
        ),
        (
            "an overcommitted node takes what asks nothing of that resource",
            overcommitted().pod(pod("web").cpu(0).asks(MEMORY, GIB)),
            vec![on("web", "n")],
        ),
        (
            "a terminating pod holds its room",
            bare()
                .node(node("n", "a"))
                .pod(Pod { deleting: true, ..pod("db").cpu(4000).running_on("n") })
                .pod(pod("web")),
            vec![refused("web", Reason::NoPool)],
        ),
        (
            "a finished pod holds none",
            bare()
                .node(node("n", "a"))
                .pod(Pod { phase: PodPhase::Succeeded, ..pod("db").cpu(4000).running_on("n") })
                .pod(pod("web")),
            vec![on("web", "n")],
        ),
        (
            "a terminating pod that was never bound wants nothing",
            { bare().node(node("n", "a")).pod(Pod { deleting: true, ..pod("db") }) },
            vec![],
        ),
        (
            "existing room comes before a purchase",
            shop().node(node("n", "a")).pods(4, &pod("web")),
            vec![on("web", "n"), on("web", "n"), on("web", "n"), on("web", "n"), launches(0)],
        ),
    ]);
}

#[test]
fn daemon_sets_take_room() {
    let agent = || pod("agent").cpu(500);
    let tight = |cluster: Cluster| cluster.pod(pod("web").cpu(2000));
    let on_node = |cluster: Cluster| cluster.node(node("n", "a")).pod(pod("web").cpu(4000));
    let of_set = |pod: Pod| Pod { daemon_set: Some("agent".into()), ..pod };
    let is_large = || vec![new("web", &[(INSTANCE_TYPE, "large")])];
    let is_small = || vec![new("web", &[(INSTANCE_TYPE, "small")])];
    check(vec![
        ("on a new node", tight(shop().daemon(&agent())), is_large()),
        (
            "on a new node that it does not select",
            tight(shop().daemon(&agent().selects(ARCH, "arm64"))),
            is_small(),
        ),
        (
            "on a new node whose taint it does not tolerate",
            {
                let tainted = bare().pool(pool("pool").taints("k", NoSchedule)).daemon(&agent());
                tainted.pod(pod("web").cpu(2000).tolerates(Some("k"), None, None))
            },
            is_small(),
        ),
        (
            "on a new node whose taint it tolerates",
            {
                let tainted = bare().pool(pool("pool").taints("k", NoSchedule));
                tainted.daemon(&agent().tolerates(None, None, None)).pod(pod("web").cpu(2000).tolerates(
                    Some("k"),
                    None,
                    None,
                ))
            },
            is_large(),
        ),
        (
            "on a new node, more than the node",
            bare().pool(pool("pool").sells(&[small()])).daemon(&agent().cpu(2001)).pod(pod("web")),
            vec![refused("web", Reason::InsufficientCpu)],
        ),
        (
            "on an existing node, to come",
            on_node(bare().daemon(&agent())),
            vec![refused("web", Reason::NoPool)],
        ),
        (
            "on an existing node, running already, counts once",
            {
                bare()
                    .daemon(&agent())
                    .node(node("n", "a"))
                    .pod(of_set(agent().running_on("n")))
                    .pod(pod("web").cpu(3500))
            },
            vec![on("web", "n")],
        ),
        (
            "on an existing node, running already, is counted",
            {
                bare()
                    .daemon(&agent())
                    .node(node("n", "a"))
                    .pod(of_set(agent().running_on("n")))
                    .pod(pod("web").cpu(3501))
            },
            vec![refused("web", Reason::NoPool)],
        ),
        (
            "on a node on its way, whose taints will pass",
            {
                let starting =
                    node("n", "a").in_state(NodeState::Starting).tainted(TAINT_NOT_READY, NoSchedule);
                bare().daemon(&agent()).node(starting).pod(pod("web").cpu(4000))
            },
            vec![refused("web", Reason::NoPool)],
        ),
        (
            "on an existing node that it does not select",
            { on_node(bare().daemon(&agent().selects(ARCH, "arm64"))) },
            vec![on("web", "n")],
        ),
        (
            "on an existing node whose taint it does not tolerate",
            {
                bare()
                    .daemon(&agent())
                    .node(node("n", "a").tainted("k", NoExecute))
                    .pod(pod("web").cpu(4000).tolerates(Some("k"), None, None))
            },
            vec![on("web", "n")],
        ),
        (
            "a pending pod of a DaemonSet needs no node of its own",
            { shop().daemon(&agent()).pod(of_set(agent())) },
            vec![launches(0)],
        ),
        (
            "a mirror pod needs no node of its own",
            shop().pod(Pod { mirror: true, ..pod("static") }),
            vec![launches(0)],
        ),
        (
            "several DaemonSets add up",
            {
                let second = pod("logger").cpu(1);
                bare()
                    .pool(pool("pool").sells(&[large()]))
                    .daemon(&agent())
                    .daemon(&second)
                    .pod(pod("web").cpu(7500))
            },
            vec![refused("web", Reason::InsufficientCpu)],
        ),
    ]);
}
