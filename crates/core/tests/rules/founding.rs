//! Pools that are wanted and do not exist.

use berth_core::founding::{self, Demand, Template};
use berth_core::names::{ARCH, HOSTNAME, INSTANCE_TYPE, ZONE};
use berth_core::pod::TaintEffect::{NoExecute, NoSchedule};
use berth_core::pool::Pool;
use berth_core::provision;
use berth_core::reason::{Reason, Refusal};
use berth_core::requirement::{Expression, Operator};
use berth_core::snapshot::{SharedLimit, Snapshot};

use crate::cluster::{
    Cluster, NodeWords, PodWords, PoolWords, bare, evenly, expression, large, machine, node, pod, pool, shop,
    small,
};

/// New pools are called `new`, are in zone a, and have the label `made=yes`.
struct New {
    base: Pool,
    nodes_max: u32,
}

impl Template for New {
    fn pool(&self, demand: &Demand) -> Result<Pool, Refusal> {
        if demand.labels.contains_key("forbidden") {
            return Err(Reason::RestrictedLabel.because("it is"));
        }
        let mut pool = self.base.clone();
        pool.labels.extend(demand.labels.clone());
        pool.taints.extend(demand.taints.clone());
        // Names are unique.
        pool.name = format!("new {:?}", (&demand.labels, &demand.taints)).into();
        Ok(pool)
    }

    fn join(&self, pool: Pool, snapshot: &mut Snapshot) {
        let mut pools: Vec<_> = snapshot.pools.iter().map(|pool| pool.name.clone()).collect();
        pools.push(pool.name.clone());
        snapshot.shared_limits = vec![SharedLimit { pools, nodes_max: self.nodes_max }];
        snapshot.pools.push(pool);
        snapshot.pools.sort_by(|a, b| a.name.cmp(&b.name));
    }
}

fn new() -> New {
    let base = pool("new").labels("made", "yes").requires(Expression::equals(ZONE, "a"));
    New { base: Pool { nodes_min: 1, ..base }, nodes_max: 10 }
}

fn changed(change: impl FnOnce(&mut New)) -> New {
    let mut new = new();
    change(&mut new);
    new
}

/// A pool that is wanted, in words: its labels, its taints, what it sells, and for whom.
fn group(labels: &str, taints: &str, types: &str, pods: &str) -> String {
    format!("labels [{labels}] taints [{taints}] types [{types}] pods [{pods}]")
}

fn refused(pod: &str, reason: Reason) -> String {
    format!("{pod} {reason}")
}

fn found(cluster: Cluster, template: Result<&dyn Template, &Refusal>) -> Vec<String> {
    let (snapshot, policy) = cluster.finish();
    let plan = provision::plan(&snapshot, &policy);
    let outcome = founding::wanted(&snapshot, &policy, &plan, template, 2);
    let name = |pod: &usize| snapshot.pods[*pod].name.to_string();
    let listed = |words: Vec<String>| words.join(" ");
    let wanted = outcome.wanted.iter().map(|founding| {
        let Demand { labels, taints } = &founding.demand;
        group(
            &listed(labels.iter().map(|(key, value)| format!("{key}={value}")).collect()),
            &listed(taints.iter().map(ToString::to_string).collect()),
            &listed(founding.types.iter().map(ToString::to_string).collect()),
            &listed(founding.pods.iter().map(name).collect()),
        )
    });
    let refused = outcome.refused.iter().map(|(pod, refusal)| refused(&name(pod), refusal.reason));
    wanted.chain(refused).collect()
}

fn check(cases: Vec<(&str, New, Cluster, Vec<String>)>) {
    let mut faults = Vec::new();
    for (case, template, cluster, expected) in cases {
        let found = found(cluster, Ok(&template));
        if found != expected {
            faults.push(format!("{case}:\n  expected {expected:#?}\n  found {found:#?}"));
        }
    }
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn what_no_pool_could_hold_wants_another() {
    let web = || pod("web");
    let both = "small large";
    check(vec![
        ("there is room", new(), bare().node(node("n", "a")).pod(web()), vec![]),
        ("there is a pool", new(), shop().pod(web()), vec![]),
        ("there is nothing", new(), bare().pod(web()), vec![group("", "", both, "web")]),
        (
            "another label",
            new(),
            shop().pod(web().selects("team", "quay")),
            vec![group("team=quay", "", both, "web")],
        ),
        (
            "another zone",
            new(),
            bare().pool(pool("pool").requires(Expression::equals(ZONE, "b"))).pod(web().selects(ZONE, "a")),
            vec![group("", "", both, "web")],
        ),
        (
            "another size: what is too small is not sold",
            new(),
            bare().pool(pool("pool").sells(&[small()])).pod(web().cpu(3000)),
            vec![group("", "", "large", "web")],
        ),
        (
            "another taint",
            new(),
            bare().pool(pool("pool").taints("k", NoSchedule)).pod(web()),
            vec![group("", "", both, "web")],
        ),
        (
            "the cheapest first, and what fits one of them",
            changed(|new| new.base = new.base.clone().sells(&[machine("huge", 32), large(), small()])),
            bare().pod(pod("a").cpu(20_000)).pod(pod("b").cpu(3000)),
            vec![group("", "", "large huge", "a b")],
        ),
        (
            "a daemon takes what the small one has",
            new(),
            bare().daemon(&pod("agent").cpu(1500)).pod(web()),
            vec![group("", "", "large", "web")],
        ),
    ]);
}

#[test]
fn what_a_pool_would_hold_but_for_the_moment_wants_none() {
    let blocked = |reason: Reason| Pool { blocked: Some(reason.because("so")), ..pool("pool") };
    let quay = || pod("web").selects("team", "quay");
    let all = berth_core::catalog::OfferingPattern::default();
    let untold = |name: &str| Pool { types: [].into(), ..pool(name) };
    let sold_out = || {
        let mut sold_out = small();
        sold_out.offerings.iter_mut().for_each(|offering| offering.available = false);
        sold_out
    };
    check(vec![
        ("at its limit", new(), bare().pool(pool("pool").nodes_max(0)).pod(pod("web")), vec![]),
        ("at a shared limit", new(), shop().shared_limit(&["pool"], 0).pod(pod("web")), vec![]),
        ("resting", new(), bare().pool(blocked(Reason::PoolResting)).pod(pod("web")), vec![]),
        ("paused", new(), bare().pool(blocked(Reason::PoolPaused)).pod(pod("web")), vec![]),
        ("not to be had", new(), shop().unavailable(all).pod(pod("web")), vec![]),
        ("sold out", new(), bare().pool(pool("pool").sells(&[sold_out()])).pod(pod("web")), vec![]),
        ("not known to sell anything", new(), bare().pool(untold("pool")).pod(pod("web")), vec![]),
        (
            "resting, and not for this pod",
            new(),
            bare().pool(blocked(Reason::PoolResting)).pod(quay()),
            vec![group("team=quay", "", "small large", "web")],
        ),
        (
            "held back",
            new(),
            bare().pod(pod("web").with(|spec| spec.scheduling_gates.push("gate".into()))),
            vec![],
        ),
    ]);
}

#[test]
fn what_pods_ask_for_is_what_the_pool_has() {
    let both = "small large";
    let of = |labels: &str, taints: &str| vec![group(labels, taints, both, "web")];
    let quay = || pod("web").selects("team", "quay");
    let tolerant = |key, value, effect| bare().pod(quay().tolerates(Some(key), value, effect));
    let needs = |expressions: &[Expression]| bare().pod(pod("web").or_needs(expressions));
    let is = |key: &str, value: &str| Expression::equals(key, value);
    check(vec![
        (
            "its machines' labels",
            new(),
            bare().pod(pod("web").selects(ARCH, "amd64").selects("size", "2")),
            vec![group("", "", "small", "web")],
        ),
        ("labels that all have", new(), bare().pod(pod("web").selects("made", "yes")), of("", "")),
        (
            "labels that all have otherwise",
            new(),
            bare().pod(pod("web").selects("made", "no")),
            of("made=no", ""),
        ),
        ("affinity", new(), needs(&[is("team", "quay"), is("disk", "ssd")]), of("disk=ssd team=quay", "")),
        (
            "the first of several values",
            new(),
            needs(&[
                expression("team", Operator::In, &["ship", "quay"]),
                expression("team", Operator::NotIn, &["quay"]),
            ]),
            of("team=ship", ""),
        ),
        (
            "an alternative that can be had",
            new(),
            bare().pod(pod("web").or_needs(&[is(ZONE, "z")]).or_needs(&[is("team", "quay")])),
            of("team=quay", ""),
        ),
        ("what must not be there", new(), needs(&[expression("x", Operator::DoesNotExist, &[])]), of("", "")),
        (
            "a taint of its own",
            new(),
            tolerant("dedicated", Some("gpu"), Some(NoSchedule)),
            of("team=quay", "dedicated=gpu:NoSchedule"),
        ),
        (
            "whatever its value",
            new(),
            tolerant("gpu", None, Some(NoSchedule)),
            of("team=quay", "gpu:NoSchedule"),
        ),
        (
            "whatever its effect",
            new(),
            tolerant("gpu", Some("yes"), None),
            of("team=quay", "gpu=yes:NoSchedule"),
        ),
        ("whatever it is", new(), tolerant("gpu", None, None), of("team=quay", "")),
        ("one that evicts", new(), tolerant("gpu", None, Some(NoExecute)), of("team=quay", "")),
        (
            "the system's",
            new(),
            tolerant("node.kubernetes.io/not-ready", None, Some(NoSchedule)),
            of("team=quay", ""),
        ),
        (
            "no nodes of its own",
            new(),
            bare().pod(pod("web").tolerates(Some("gpu"), Some("yes"), Some(NoSchedule))),
            of("", ""),
        ),
        (
            "the template's taints are those that it has",
            changed(|new| new.base = new.base.clone().taints("all", NoSchedule)),
            bare().pod(quay().tolerates(Some("all"), None, None).tolerates(
                Some("gpu"),
                Some("yes"),
                Some(NoSchedule),
            )),
            of("team=quay", ""),
        ),
    ]);
}

#[test]
fn several_demands_want_few_pools() {
    let both = "small large";
    let quay = |name: &str| pod(name).selects("team", "quay");
    let gpu = |name: &str| quay(name).tolerates(Some("gpu"), None, Some(NoSchedule));
    check(vec![
        (
            "alike",
            new(),
            bare().pods(3, &quay("web")),
            vec![group("team=quay", "", both, "web-0 web-1 web-2")],
        ),
        (
            "an open pool does for both",
            new(),
            bare().pod(gpu("a")).pod(quay("b")),
            vec![group("team=quay", "", both, "b")],
        ),
        (
            "two at a time",
            new(),
            bare()
                .pod(pod("a").selects("t", "1"))
                .pod(pod("b").selects("t", "2"))
                .pod(pod("c").selects("t", "3")),
            vec![group("t=1", "", both, "a"), group("t=2", "", both, "b")],
        ),
    ]);
}

#[test]
fn what_no_new_pool_could_hold_says_why() {
    let blocked = |reason: Reason| changed(|new| new.base.blocked = Some(reason.because("so")));
    let why = |reason| vec![refused("web", reason)];
    let quay = || pod("web").selects("team", "quay");
    let exists = expression("team", Operator::Exists, &[]);
    check(vec![
        ("too large for all", new(), shop().pod(pod("web").cpu(9000)), why(Reason::InsufficientCpu)),
        ("elsewhere", new(), shop().pod(pod("web").selects(ZONE, "c")), why(Reason::NodeSelector)),
        (
            "another type",
            new(),
            shop().pod(pod("web").selects(INSTANCE_TYPE, "x")),
            why(Reason::NodeSelector),
        ),
        ("a name", new(), shop().pod(pod("web").selects(HOSTNAME, "n")), why(Reason::RestrictedLabel)),
        (
            "a label that is not free",
            new(),
            shop().pod(pod("web").selects("forbidden", "x")),
            why(Reason::RestrictedLabel),
        ),
        (
            "a label without a value",
            new(),
            shop().pod(pod("web").or_needs(&[exists])),
            why(Reason::NodeAffinity),
        ),
        (
            "taints of all new pools",
            changed(|new| new.base = new.base.clone().taints("all", NoSchedule)),
            shop().pod(quay()),
            why(Reason::UntoleratedTaint),
        ),
        (
            "it could not buy anyway",
            changed(|new| new.nodes_max = 0),
            shop().pod(quay()),
            why(Reason::NodeLimit),
        ),
        ("it would have to rest", blocked(Reason::PoolResting), shop().pod(quay()), why(Reason::PoolResting)),
        (
            "too large, and it would have to rest",
            blocked(Reason::PoolResting),
            shop().pod(pod("web").cpu(9000)),
            why(Reason::InsufficientCpu),
        ),
        (
            "others are in the way",
            new(),
            shop()
                .node(node("n", "b").has("cpu", 0))
                .pod(pod("web").running_on("n"))
                .pod(pod("web-0").label("app", "web").selects("team", "quay").spread(evenly("web", "rack"))),
            vec![refused("web-0", Reason::TopologyKeyMissing)],
        ),
    ]);
    let incomplete = Reason::TemplateIncomplete.because("no datacenter");
    assert_eq!(found(shop().pod(quay()), Err(&incomplete)), why(Reason::TemplateIncomplete));
    assert_eq!(found(shop().pod(pod("web")), Err(&incomplete)), Vec::<String>::new());
}
