//! Requirements, node selectors and node affinity: what labels decide.

use berth_core::names::{ARCH, CAPACITY_TYPE, HOSTNAME, INITIALIZED, INSTANCE_TYPE, NODEPOOL, ZONE};
use berth_core::pod::Pod;
use berth_core::reason::Reason;
use berth_core::requirement::NodeTerm;
use berth_core::requirement::Operator::{DoesNotExist, Exists, Gt, Gte, In, Lt, Lte, NotIn};

use crate::cluster::{
    NodeWords, PodWords, PoolWords, TypeWords, bare, expression, large, machine, node, pod, pool, shop, small,
};
use crate::{Expect, check, launches, new, on, refused};

const TEAM: &str = "team";

#[test]
fn operators_of_a_pod() {
    let needs = |key, operator, values: &[&str]| pod("web").or_needs(&[expression(key, operator, values)]);
    let big = || vec![new("web", &[(INSTANCE_TYPE, "large")])];
    let little = || vec![new("web", &[(INSTANCE_TYPE, "small")])];
    let none = || vec![refused("web", Reason::NodeAffinity)];
    check(vec![
        ("In, sold", shop().pod(needs(ZONE, In, &["b", "c"])), vec![new("web", &[(ZONE, "b")])]),
        ("In, not sold", shop().pod(needs(ZONE, In, &["c"])), none()),
        ("NotIn leaves one", shop().pod(needs(ZONE, NotIn, &["a"])), vec![new("web", &[(ZONE, "b")])]),
        ("NotIn leaves none", shop().pod(needs(ZONE, NotIn, &["a", "b"])), none()),
        ("NotIn on a label nobody has", shop().pod(needs(TEAM, NotIn, &["red"])), little()),
        ("Exists", shop().pod(needs(ARCH, Exists, &[])), little()),
        ("Exists on a label nobody has", shop().pod(needs(TEAM, Exists, &[])), none()),
        ("DoesNotExist on a label nobody has", shop().pod(needs(TEAM, DoesNotExist, &[])), little()),
        ("DoesNotExist on a label that all have", shop().pod(needs(ARCH, DoesNotExist, &[])), none()),
        ("Gt below", shop().pod(needs("size", Gt, &["2"])), big()),
        ("Gt at the largest", shop().pod(needs("size", Gt, &["8"])), none()),
        ("Gte at the largest", shop().pod(needs("size", Gte, &["8"])), big()),
        ("Gte above the largest", shop().pod(needs("size", Gte, &["9"])), none()),
        ("Lt above", shop().pod(needs("size", Lt, &["8"])), little()),
        ("Lt at the smallest", shop().pod(needs("size", Lt, &["2"])), none()),
        ("Lte at the smallest", shop().pod(needs("size", Lte, &["2"])), little()),
        ("Lte below the smallest", shop().pod(needs("size", Lte, &["1"])), none()),
        ("Gt on a word", shop().pod(needs(ARCH, Gt, &["1"])), none()),
        ("Gt on a label nobody has", shop().pod(needs(TEAM, Gt, &["1"])), none()),
    ]);
}

#[test]
fn operators_of_a_pool() {
    let with = |key, operator, values: &[&str]| {
        bare().pool(pool("pool").requires(expression(key, operator, values))).pod(pod("web"))
    };
    let big = || vec![new("web", &[(INSTANCE_TYPE, "large")])];
    let little = || vec![new("web", &[(INSTANCE_TYPE, "small")])];
    let nothing = || vec![refused("web", Reason::NoOffering)];
    check(vec![
        ("In", with(ZONE, In, &["b"]), vec![new("web", &[(ZONE, "b")])]),
        ("In, not sold", with(ZONE, In, &["c"]), nothing()),
        ("NotIn", with(ZONE, NotIn, &["a"]), vec![new("web", &[(ZONE, "b")])]),
        ("NotIn leaves none", with(ZONE, NotIn, &["a", "b"]), nothing()),
        ("Exists", with(ARCH, Exists, &[]), little()),
        ("DoesNotExist", with(ARCH, DoesNotExist, &[]), nothing()),
        ("Gt", with("size", Gt, &["2"]), big()),
        ("Gt leaves none", with("size", Gt, &["8"]), nothing()),
        ("Gte", with("size", Gte, &["8"]), big()),
        ("Lt", with("size", Lt, &["8"]), little()),
        ("Lt leaves none", with("size", Lt, &["2"]), nothing()),
        ("Lte", with("size", Lte, &["2"]), little()),
        (
            "two on one key are both kept",
            bare()
                .pool(pool("pool").requires(expression("size", Gte, &["2"])).requires(expression(
                    "size",
                    NotIn,
                    &["2"],
                )))
                .pod(pod("web")),
            big(),
        ),
        (
            "the pool's and the pod's are both kept",
            with(ZONE, In, &["b"]).pod(pod("db").selects(ZONE, "a")),
            vec![new("web", &[(ZONE, "b")]), refused("db", Reason::NodeSelector)],
        ),
    ]);
}

#[test]
fn min_values() {
    let asking = |key, count| bare().pool(pool("pool").min_values(key, count)).pod(pod("web"));
    let big = |cluster: crate::Cluster| cluster.pod(pod("big").cpu(5000));
    check(vec![
        ("as many as are sold", asking(INSTANCE_TYPE, 2), vec![new("web", &[]), Expect::Relaxed(0)]),
        ("one more than are sold", asking(INSTANCE_TYPE, 3), vec![refused("web", Reason::MinValues)]),
        (
            "one more than are sold, with best effort",
            asking(INSTANCE_TYPE, 3).best_effort_min_values(),
            vec![new("web", &[]), Expect::Relaxed(1)],
        ),
        (
            "met, with best effort",
            asking(INSTANCE_TYPE, 2).best_effort_min_values(),
            vec![new("web", &[]), Expect::Relaxed(0)],
        ),
        (
            "a pod that only one type can hold",
            big(bare().pool(pool("pool").min_values(INSTANCE_TYPE, 2))),
            vec![refused("big", Reason::MinValues)],
        ),
        (
            "a pod that only one type can hold, with best effort",
            big(bare().pool(pool("pool").min_values(INSTANCE_TYPE, 2))).best_effort_min_values(),
            vec![new("big", &[(INSTANCE_TYPE, "large")]), Expect::Relaxed(1)],
        ),
        ("over zones", asking(ZONE, 2), vec![new("web", &[])]),
        (
            "a pod that narrows the zones to one",
            bare().pool(pool("pool").min_values(ZONE, 2)).pod(pod("web").selects(ZONE, "a")),
            vec![refused("web", Reason::MinValues)],
        ),
        ("over a label of the types", asking("size", 2), vec![new("web", &[])]),
        ("over a label with one value", asking(ARCH, 2), vec![refused("web", Reason::MinValues)]),
        (
            "pods that fit together only where minValues would break go to two nodes",
            bare()
                .pool(
                    pool("pool").sells(&[machine("twin", 2), small(), large()]).min_values(INSTANCE_TYPE, 3),
                )
                .pods(3, &pod("web")),
            vec![new("web", &[]), new("web", &[]), new("web", &[]), launches(2)],
        ),
    ]);
}

#[test]
fn custom_labels() {
    let red = || pod("web").selects(TEAM, "red");
    let open =
        |operator, values: &[&str]| bare().pool(pool("pool").requires(expression(TEAM, operator, values)));
    let gets_red = || vec![new("web", &[(TEAM, "red")])];
    let none = || vec![refused("web", Reason::NodeSelector)];
    check(vec![
        ("not defined by the pool", shop().pod(red()), none()),
        ("a label of the pool", bare().pool(pool("pool").labels(TEAM, "red")).pod(red()), gets_red()),
        ("another value of the pool", bare().pool(pool("pool").labels(TEAM, "blue")).pod(red()), none()),
        ("a requirement with the value", open(In, &["blue", "red"]).pod(red()), gets_red()),
        ("a requirement without the value", open(In, &["blue"]).pod(red()), none()),
        ("a requirement that it exists", open(Exists, &[]).pod(red()), gets_red()),
        ("a requirement that excludes the value", open(NotIn, &["red"]).pod(red()), none()),
        ("a requirement that it is missing", open(DoesNotExist, &[]).pod(red()), none()),
        (
            "two pods that want different values get two nodes",
            open(In, &["blue", "red"]).pod(red()).pod(pod("db").selects(TEAM, "blue")),
            vec![new("web", &[(TEAM, "red")]), new("db", &[(TEAM, "blue")]), launches(2)],
        ),
        (
            "a label of an existing node",
            bare().node(node("n", "a").labelled(TEAM, "red")).pod(red()),
            vec![on("web", "n")],
        ),
        (
            "any value of the pool but one",
            open(In, &["blue", "red"]).pod(pod("web").or_needs(&[expression(TEAM, NotIn, &["blue"])])),
            gets_red(),
        ),
        (
            "no value, where the pool's nodes always have one",
            open(Exists, &[]).pod(pod("web").or_needs(&[expression(TEAM, DoesNotExist, &[])])),
            vec![refused("web", Reason::NodeAffinity)],
        ),
        (
            "no value, where the pool's nodes need none",
            open(NotIn, &["red"]).pod(pod("web").or_needs(&[expression(TEAM, DoesNotExist, &[])])),
            vec![new("web", &[])],
        ),
        (
            "a number between the pool's bound and the pod's",
            open(Gt, &["3"]).pod(pod("web").or_needs(&[expression(TEAM, Lt, &["5"])])),
            vec![new("web", &[(TEAM, "4")])],
        ),
        (
            "no number between the pool's bound and the pod's",
            open(Gt, &["3"]).pod(pod("web").or_needs(&[expression(TEAM, Lt, &["4"])])),
            vec![refused("web", Reason::NodeAffinity)],
        ),
        (
            "the pool that defines it is bought from, although it is dearer",
            shop().pool(pool("red").sells(&[large()]).labels(TEAM, "red")).pod(red()),
            vec![new("web", &[(NODEPOOL, "red")])],
        ),
    ]);
}

#[test]
fn well_known_and_restricted_labels() {
    let selects = |key, value| shop().pod(pod("web").selects(key, value));
    check(vec![
        ("the pool's name", selects(NODEPOOL, "pool"), vec![new("web", &[])]),
        ("another pool's name", selects(NODEPOOL, "other"), vec![refused("web", Reason::NodeSelector)]),
        ("a type", selects(INSTANCE_TYPE, "large"), vec![new("web", &[(INSTANCE_TYPE, "large")])]),
        ("an unknown type", selects(INSTANCE_TYPE, "huge"), vec![refused("web", Reason::NodeSelector)]),
        ("a capacity type", selects(CAPACITY_TYPE, "on-demand"), vec![new("web", &[])]),
        (
            "a capacity type not sold",
            selects(CAPACITY_TYPE, "spot"),
            vec![refused("web", Reason::NodeSelector)],
        ),
        ("an architecture", selects(ARCH, "amd64"), vec![new("web", &[])]),
        ("an architecture not sold", selects(ARCH, "arm64"), vec![refused("web", Reason::NodeSelector)]),
        (
            "the autoscaler's own label",
            selects(INITIALIZED, "true"),
            vec![refused("web", Reason::RestrictedLabel)],
        ),
        (
            "the autoscaler's own label on an existing node",
            selects(INITIALIZED, "true").node(node("n", "a").labelled(INITIALIZED, "true")),
            vec![on("web", "n")],
        ),
        ("a hostname that nobody has", selects(HOSTNAME, "n"), vec![refused("web", Reason::RestrictedLabel)]),
        (
            "any host but one",
            shop().node(node("n", "a")).pod(pod("web").or_needs(&[expression(HOSTNAME, NotIn, &["n"])])),
            vec![new("web", &[])],
        ),
        (
            "the hostname of an existing node",
            selects(HOSTNAME, "n").node(node("m", "a")).node(node("n", "a")),
            vec![on("web", "n")],
        ),
    ]);
}

#[test]
fn node_affinity_terms() {
    let zone = |zone| expression(ZONE, In, &[zone]);
    let size = |size| expression("size", In, &[size]);
    let none = || vec![refused("web", Reason::NodeAffinity)];
    check(vec![
        (
            "the first of two terms",
            shop().pod(pod("web").or_needs(&[zone("b")]).or_needs(&[zone("x")])),
            vec![new("web", &[(ZONE, "b")])],
        ),
        (
            "the second of two terms",
            shop().pod(pod("web").or_needs(&[zone("x")]).or_needs(&[zone("b")])),
            vec![new("web", &[(ZONE, "b")])],
        ),
        (
            "neither of two terms",
            shop().pod(pod("web").or_needs(&[zone("x")]).or_needs(&[zone("y")])),
            none(),
        ),
        (
            "the cheaper of two terms",
            shop().pod(pod("web").or_needs(&[size("8")]).or_needs(&[size("2")])),
            vec![new("web", &[(INSTANCE_TYPE, "small")])],
        ),
        (
            "all expressions of a term",
            shop().pod(pod("web").or_needs(&[zone("b"), size("8")])),
            vec![new("web", &[(ZONE, "b"), (INSTANCE_TYPE, "large")])],
        ),
        ("one expression of a term fails", shop().pod(pod("web").or_needs(&[zone("b"), size("9")])), none()),
        ("a term without expressions", shop().pod(pod("web").or_needs(&[])), none()),
        ("no terms", shop().pod(pod("web").with(|spec| spec.node_affinity = Some(Vec::new()))), none()),
        (
            "selector and affinity both hold",
            shop().pod(pod("web").selects("size", "8").or_needs(&[zone("b")])),
            vec![new("web", &[(ZONE, "b"), (INSTANCE_TYPE, "large")])],
        ),
        (
            "a selector that no term allows",
            shop().pod(pod("web").selects(ZONE, "a").or_needs(&[zone("b")])),
            none(),
        ),
        (
            "an existing node that a term admits comes before a purchase",
            shop().node(node("n", "b")).pod(pod("web").or_needs(&[zone("a")]).or_needs(&[zone("b")])),
            vec![on("web", "n"), launches(0)],
        ),
    ]);
}

#[test]
fn match_fields() {
    let named = |operator, name| {
        let field = expression("metadata.name", operator, &[name]);
        let term = NodeTerm { expressions: Vec::new(), fields: vec![field] };
        pod("web").with(|spec| spec.node_affinity = Some(vec![term]))
    };
    let both = |pod: Pod| shop().node(node("m", "a")).node(node("n", "a")).pod(pod);
    check(vec![
        ("a node by its name", both(named(In, "n")), vec![on("web", "n")]),
        ("any other node", both(named(NotIn, "m")), vec![on("web", "n")]),
        (
            "a name that no new node will have",
            shop().pod(named(In, "n")),
            vec![refused("web", Reason::NodeAffinity)],
        ),
        (
            "a new node has another name",
            shop().node(node("n", "a")).pod(named(NotIn, "n")),
            vec![new("web", &[])],
        ),
    ]);
}

#[test]
fn labels_beyond_the_offerings() {
    let arm = machine("arm", 2).labelled(ARCH, "arm64");
    let sells_both = || bare().pool(pool("pool").sells(&[small(), arm.clone()]));
    check(vec![
        (
            "the type with the label",
            sells_both().pod(pod("web").selects(ARCH, "arm64")),
            vec![new("web", &[(INSTANCE_TYPE, "arm")])],
        ),
        (
            "pods of two architectures share no node",
            sells_both().pod(pod("web").selects(ARCH, "arm64")).pod(pod("db").selects(ARCH, "amd64")),
            vec![new("web", &[(INSTANCE_TYPE, "arm")]), new("db", &[(INSTANCE_TYPE, "small")]), launches(2)],
        ),
    ]);
}
