//! Taints and tolerations, and taints that pass.

use berth_core::names::{
    NODEPOOL, TAINT_CLOUD_UNINITIALIZED, TAINT_NOT_READY, TAINT_UNREACHABLE, TAINT_UNREGISTERED,
    TAINT_UNSCHEDULABLE,
};
use berth_core::node::NodeState;
use berth_core::pod::TaintEffect::{NoExecute, NoSchedule, PreferNoSchedule};
use berth_core::pod::{Taint, TaintEffect};
use berth_core::pool::Pool;
use berth_core::reason::Reason;

use crate::cluster::{Cluster, NodeWords, PodWords, PoolWords, bare, node, pod, pool, shop};
use crate::{Expect, check, new, on, refused};

#[test]
fn effects() {
    let of_pool = |effect| bare().pool(pool("pool").taints("k", effect)).pod(pod("web"));
    let of_node = |effect| bare().node(node("n", "a").tainted("k", effect)).pod(pod("web"));
    check(vec![
        ("a pool's NoSchedule", of_pool(NoSchedule), vec![refused("web", Reason::UntoleratedTaint)]),
        ("a pool's NoExecute", of_pool(NoExecute), vec![refused("web", Reason::UntoleratedTaint)]),
        ("a pool's PreferNoSchedule", of_pool(PreferNoSchedule), vec![new("web", &[])]),
        ("a node's NoSchedule", of_node(NoSchedule), vec![refused("web", Reason::NoPool)]),
        ("a node's NoExecute", of_node(NoExecute), vec![refused("web", Reason::NoPool)]),
        ("a node's PreferNoSchedule", of_node(PreferNoSchedule), vec![on("web", "n")]),
        (
            "a pool without the taint is bought from, although it is tried later",
            bare()
                .pool(Pool { weight: 10, ..pool("tainted").taints("k", NoSchedule) })
                .pool(pool("clean"))
                .pod(pod("web")),
            vec![new("web", &[(NODEPOOL, "clean")])],
        ),
    ]);
}

#[test]
fn tolerations() {
    let taint = Taint::new("k", "v", NoSchedule);
    let tainted = || bare().pool(Pool { taints: vec![taint.clone()], ..pool("pool") });
    let web = |key, value, effect| tainted().pod(pod("web").tolerates(key, value, effect));
    let bought = || vec![new("web", &[])];
    let none = || vec![refused("web", Reason::UntoleratedTaint)];
    check(vec![
        ("key, value and effect", web(Some("k"), Some("v"), Some(NoSchedule)), bought()),
        ("key and value, any effect", web(Some("k"), Some("v"), None), bought()),
        ("the key exists", web(Some("k"), None, Some(NoSchedule)), bought()),
        ("anything at all", web(None, None, None), bought()),
        ("anything of that effect", web(None, None, Some(NoSchedule)), bought()),
        ("anything of another effect", web(None, None, Some(NoExecute)), none()),
        ("another key", web(Some("j"), None, None), none()),
        ("another value", web(Some("k"), Some("w"), None), none()),
        ("another effect", web(Some("k"), Some("v"), Some(NoExecute)), none()),
        (
            "one of two taints",
            bare()
                .pool(pool("pool").taints("k", NoSchedule).taints("j", NoSchedule))
                .pod(pod("web").tolerates(Some("k"), None, None)),
            none(),
        ),
        (
            "both of two taints",
            bare()
                .pool(pool("pool").taints("k", NoSchedule).taints("j", NoExecute))
                .pod(pod("web").tolerates(Some("k"), None, None).tolerates(Some("j"), None, None)),
            bought(),
        ),
    ]);
}

/// A node of a pool with the startup taint `cni`, in this state and with this taint, and one pod.
fn coming_up(state: NodeState, key: &str, effect: TaintEffect) -> Cluster {
    let pool =
        Pool { startup_taints: vec![Taint::new("cni", "", NoSchedule)], ..pool("pool").limits("cpu", 0) };
    bare()
        .pool(pool)
        .node(node("n", "a").of_pool("pool").in_state(state).tainted(key, effect))
        .pod(pod("web"))
}

#[test]
fn taints_that_pass() {
    let starting = |key, effect| coming_up(NodeState::Starting, key, effect);
    let running = |key, effect| coming_up(NodeState::Running, key, effect);
    let waits = || vec![on("web", "n")];
    let none = || vec![refused("web", Reason::PoolLimit)];
    check(vec![
        ("the pool's startup taint", starting("cni", NoSchedule), waits()),
        ("the startup taint with another effect", starting("cni", NoExecute), none()),
        ("a startup taint that is still there once the node runs", running("cni", NoSchedule), none()),
        ("not ready, NoSchedule", starting(TAINT_NOT_READY, NoSchedule), waits()),
        ("not ready, NoExecute", starting(TAINT_NOT_READY, NoExecute), waits()),
        ("not ready, of a node that runs", running(TAINT_NOT_READY, NoSchedule), none()),
        ("unreachable, NoSchedule", starting(TAINT_UNREACHABLE, NoSchedule), waits()),
        ("unreachable, NoExecute", starting(TAINT_UNREACHABLE, NoExecute), none()),
        ("not yet registered", starting(TAINT_UNREGISTERED, NoExecute), waits()),
        ("not yet known to the cloud", starting(TAINT_CLOUD_UNINITIALIZED, NoSchedule), waits()),
        ("a readiness gate", starting("readiness.k8s.io/gpu", NoSchedule), waits()),
        ("a readiness gate of a node that runs", running("readiness.k8s.io/gpu", NoSchedule), none()),
        ("cordoned", starting(TAINT_UNSCHEDULABLE, NoSchedule), none()),
        ("a taint of its own", starting("dedicated", NoSchedule), none()),
    ]);
}

#[test]
fn startup_taints_of_a_pool_need_no_toleration() {
    let startup = |taint| bare().pool(Pool { startup_taints: vec![taint], ..pool("pool") }).pod(pod("web"));
    let bought: Vec<Expect> = vec![new("web", &[])];
    check(vec![
        ("NoSchedule", startup(Taint::new("cni", "", NoSchedule)), bought.clone()),
        ("NoExecute", startup(Taint::new("cni", "", NoExecute)), bought.clone()),
        ("none", shop().pod(pod("web")), bought),
    ]);
}
