//! What may be bought: limits, weights, capacity types, fixed nodes, and what is on its way.

use berth_core::catalog::CapacityType::{OnDemand, Reserved, Spot};
use berth_core::catalog::{InstanceType, OfferingPattern};
use berth_core::names::{CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, NODEPOOL, RESERVATION_ID, ZONE};
use berth_core::node::NodeState;
use berth_core::pod::{Pod, PodOrigin};
use berth_core::pool::Pool;
use berth_core::reason::Reason;
use berth_core::resources::{CPU, MEMORY, USD_PER_HOUR};

use crate::cluster::{
    Cluster, GIB, NodeWords, PodWords, PoolWords, TypeWords, bare, large, machine, node, pod, pods_of, pool,
    shop, small,
};
use crate::{Expect, check, launches, new, on, refused};

fn buying(pool: Pool) -> Cluster {
    bare().pool(pool)
}

/// Each asks for a whole small node.
fn whole(name: &str) -> Pod {
    pod(name).cpu(2000)
}

/// So many of `web` are bought for, and the rest are refused.
fn some(bought: usize, left: usize, reason: Reason) -> Vec<Expect> {
    let bought = std::iter::repeat_n(new("web", &[]), bought);
    bought.chain(std::iter::repeat_n(refused("web", reason), left)).collect()
}

#[test]
fn resource_limits() {
    let gpu = "example.com/gpu";
    let limit =
        |resource, amount| buying(pool("pool").sells(&[small().has(gpu, 1)]).limits(resource, amount));
    let price = small().offerings[0].price.micro_usd();
    let three = |cluster: Cluster| cluster.pods(3, &whole("web"));
    check(vec![
        ("reached inside a batch", three(limit(CPU, 4000)), some(2, 1, Reason::PoolLimit)),
        ("a thousandth too little", three(limit(CPU, 3999)), some(1, 2, Reason::PoolLimit)),
        ("just enough", three(limit(CPU, 6000)), some(3, 0, Reason::PoolLimit)),
        ("zero", three(limit(CPU, 0)), some(0, 3, Reason::PoolLimit)),
        ("of memory, a byte too little", three(limit(MEMORY, 16 * GIB - 1)), some(1, 2, Reason::PoolLimit)),
        ("of memory", three(limit(MEMORY, 16 * GIB)), some(2, 1, Reason::PoolLimit)),
        ("of an extended resource that no pod asks for", three(limit(gpu, 2)), some(2, 1, Reason::PoolLimit)),
        ("of money", three(limit(USD_PER_HOUR, 2 * price)), some(2, 1, Reason::PoolLimit)),
        (
            "of money, a millionth of a dollar too little",
            three(limit(USD_PER_HOUR, 2 * price - 1)),
            some(1, 2, Reason::PoolLimit),
        ),
        (
            "of money, that is enough for what costs less",
            buying(pool("pool").limits(USD_PER_HOUR, price)).pods(2, &pod("web").cpu(1000)),
            vec![new("web", &[(INSTANCE_TYPE, "small")]), new("web", &[(INSTANCE_TYPE, "small")])],
        ),
        (
            "of a resource that no type has",
            three(limit("example.com/fpga", 0)),
            some(3, 0, Reason::PoolLimit),
        ),
        (
            "the pool's nodes count",
            three(limit(CPU, 6000))
                .node(node("n", "a").of_pool("pool"))
                .pod(whole("db").cpu(4000).running_on("n")),
            some(1, 2, Reason::PoolLimit),
        ),
        (
            "the pool's nodes that go away count until they are gone",
            three(limit(CPU, 6000)).node(node("n", "a").of_pool("pool").in_state(NodeState::Deleting)),
            some(1, 2, Reason::PoolLimit),
        ),
        (
            "nodes of no pool do not count",
            three(limit(CPU, 6000)).node(node("n", "a")).pod(pod("db").cpu(4000).running_on("n")),
            some(3, 0, Reason::PoolLimit),
        ),
        (
            "what is over the limit is no alternative",
            buying(pool("pool").limits(CPU, 2000)).pod(pod("web")),
            vec![new("web", &[(INSTANCE_TYPE, "small")]), Expect::AlternativesOf(&["small"])],
        ),
        (
            "the capacity counts, not what is left of it for pods",
            three(buying(
                pool("pool")
                    .sells(&[InstanceType {
                        overhead: berth_core::resources::Resources::of(&[(CPU, 1000)]),
                        ..machine("reserving", 3)
                    }])
                    .limits(CPU, 6000),
            )),
            some(2, 1, Reason::PoolLimit),
        ),
        (
            "a smaller type where the larger is over the limit",
            buying(pool("pool").limits(CPU, 7999)).pods(3, &whole("web")),
            some(3, 0, Reason::PoolLimit),
        ),
    ]);
}

#[test]
fn node_limits() {
    let at_most = |nodes| buying(pool("pool").sells(&[small()]).nodes_max(nodes)).pods(3, &whole("web"));
    let two_pools = || {
        bare().pool(pool("one").sells(&[small()])).pool(pool("two").sells(&[small()])).pods(3, &whole("web"))
    };
    let both = |bought: usize| {
        let mut expected = vec![new("web", &[]); bought];
        expected.resize(3, Expect::Refused("web", vec![Reason::NodeLimit, Reason::NodeLimit]));
        expected
    };
    check(vec![
        ("reached inside a batch", at_most(2), some(2, 1, Reason::NodeLimit)),
        ("just enough", at_most(3), some(3, 0, Reason::NodeLimit)),
        ("zero", at_most(0), some(0, 3, Reason::NodeLimit)),
        (
            "a larger type where more nodes are over the limit",
            buying(pool("pool").nodes_max(1)).pods(3, &whole("web")),
            vec![new("web", &[(INSTANCE_TYPE, "large")]), new("web", &[]), new("web", &[]), launches(1)],
        ),
        (
            "nodes on their way count",
            at_most(2).node(node("n", "a").has(CPU, 0).of_pool("pool").in_state(NodeState::Starting)),
            some(1, 2, Reason::NodeLimit),
        ),
        ("shared by two pools", two_pools().shared_limit(&["one", "two"], 2), both(2)),
        ("shared by two pools, just enough", two_pools().shared_limit(&["one", "two"], 3), both(3)),
        (
            "shared, and nodes count",
            two_pools().shared_limit(&["one", "two"], 2).node(node("n", "a").has(CPU, 0).of_pool("one")),
            both(1),
        ),
        ("of one pool, another buys", two_pools().shared_limit(&["one"], 0), both(3)),
    ]);
}

#[test]
fn priorities_under_limits() {
    let one = || buying(pool("pool").sells(&[small()]).nodes_max(1));
    let no_room = |pod| refused(pod, Reason::NodeLimit);
    check(vec![
        (
            "the higher goes first",
            one().pod(whole("a-low")).pod(whole("high").priority(10)),
            vec![new("high", &[]), no_room("a-low")],
        ),
        (
            "the higher goes first, although it is smaller",
            one().pod(whole("large")).pod(whole("little").cpu(500).priority(1)),
            vec![new("little", &[]), no_room("large")],
        ),
        (
            "below zero goes last",
            one().pod(whole("a-low").priority(-1)).pod(whole("plain")),
            vec![new("plain", &[]), no_room("a-low")],
        ),
        (
            "on an existing node",
            bare().node(node("n", "a").has(CPU, 2000)).pod(whole("a-low")).pod(whole("high").priority(10)),
            vec![on("high", "n"), refused("a-low", Reason::NoPool)],
        ),
        (
            "a higher one that keeps its node to itself",
            one()
                .pods(2, &pod("low").cpu(500))
                .pod(pod("high").cpu(500).priority(10).away_from(pods_of("low", HOSTNAME))),
            vec![new("high", &[]), no_room("low"), no_room("low")],
        ),
        (
            "where all fit nothing is left out",
            one().pod(whole("low").cpu(1000)).pod(whole("high").cpu(1000).priority(10)),
            vec![new("high", &[]), new("low", &[]), launches(1)],
        ),
        (
            "a higher one that fits nowhere takes nothing from the lower",
            one().pod(whole("low")).pod(pod("high").cpu(9000).priority(10)),
            vec![new("low", &[]), refused("high", Reason::InsufficientCpu)],
        ),
    ]);
}

#[test]
fn weights_and_prices() {
    let weighted = |name, weight| Pool { weight, ..pool(name) };
    let of = |name| vec![new("web", &[(NODEPOOL, name)])];
    check(vec![
        (
            "the heavier pool, although it is dearer",
            bare().pool(weighted("cheap", 0)).pool(weighted("dear", 1).sells(&[large()])).pod(pod("web")),
            of("dear"),
        ),
        (
            "the cheaper of equal weight",
            bare().pool(weighted("cheap", 1)).pool(weighted("dear", 1).sells(&[large()])).pod(pod("web")),
            of("cheap"),
        ),
        (
            "the lighter where the heavier cannot",
            bare()
                .pool(weighted("heavy", 9).sells(&[small()]))
                .pool(weighted("light", 0))
                .pod(pod("web").cpu(5000)),
            of("light"),
        ),
        (
            "the lighter where the heavier is at its limit",
            bare()
                .pool(weighted("heavy", 9).sells(&[small()]).nodes_max(1))
                .pool(weighted("light", 0).sells(&[small()]))
                .pods(2, &whole("web")),
            vec![new("web", &[(NODEPOOL, "heavy")]), new("web", &[(NODEPOOL, "light")])],
        ),
        (
            "each pool says why not",
            bare()
                .pool(pool("full").nodes_max(0))
                .pool(pool("little").sells(&[small()]))
                .pod(pod("web").cpu(5000)),
            vec![Expect::Refused("web", vec![Reason::NodeLimit, Reason::InsufficientCpu])],
        ),
        ("no pool", bare().pod(pod("web")), vec![refused("web", Reason::NoPool)]),
        (
            "a pool that is not ready",
            buying(Pool {
                blocked: Some(Reason::PoolNotReady.because("its class is missing")),
                ..pool("pool")
            })
            .pod(pod("web")),
            vec![refused("web", Reason::PoolNotReady)],
        ),
        (
            "a pool with nothing to sell",
            buying(pool("pool").sells(&[])).pod(pod("web")),
            vec![refused("web", Reason::NoOffering)],
        ),
    ]);
}

/// Sold on demand, as spot, and from a reservation of two.
fn reserved() -> InstanceType {
    let mut sold = small().nowhere().sold("a", OnDemand).sold("a", Spot).sold("a", Reserved);
    sold.offerings[2].remaining = Some(2);
    sold
}

/// Sold from two reservations of one machine each.
fn two_reservations() -> InstanceType {
    let mut sold = small().nowhere().sold("a", Reserved).sold("a", Reserved);
    for (offering, id) in sold.offerings.iter_mut().zip(["cr-1", "cr-2"]) {
        offering.remaining = Some(1);
        offering.labels.insert(RESERVATION_ID.into(), id.into());
    }
    sold
}

#[test]
fn capacity_types() {
    let sells = || buying(pool("pool").sells(&[reserved()]));
    let types = |types: &[&'static str]| {
        types.iter().map(|capacity_type| new("web", &[(CAPACITY_TYPE, *capacity_type)])).collect::<Vec<_>>()
    };
    let only = |capacity_type| whole("web").selects(CAPACITY_TYPE, capacity_type);
    check(vec![
        ("the reservation first", sells().pod(whole("web")), types(&["reserved"])),
        ("as many as are reserved", sells().pods(2, &whole("web")), types(&["reserved", "reserved"])),
        ("and then spot", sells().pods(3, &whole("web")), types(&["reserved", "reserved", "spot"])),
        ("on demand where asked", sells().pod(only("on-demand")), types(&["on-demand"])),
        (
            "only reserved, and there are too few",
            sells().pods(3, &only("reserved")),
            some(2, 1, Reason::ReservationFull),
        ),
        (
            "a reservation that is used up",
            buying(pool("pool").sells(&[{
                let mut sold = reserved();
                sold.offerings[2].remaining = Some(0);
                sold
            }]))
            .pod(only("reserved")),
            vec![refused("web", Reason::NodeSelector)],
        ),
        (
            "a reservation that the plan uses up is no alternative",
            sells().pods(3, &whole("web")),
            vec![new("web", &[]), new("web", &[]), new("web", &[]), Expect::NoAlternativeAs(Reserved)],
        ),
        (
            "the reservation that the pod asks for",
            buying(pool("pool").sells(&[two_reservations()]))
                .pods(2, &whole("web").selects(RESERVATION_ID, "cr-2")),
            vec![new("web", &[(RESERVATION_ID, "cr-2")]), refused("web", Reason::ReservationFull)],
        ),
        (
            "a reservation that nobody has",
            buying(pool("pool").sells(&[two_reservations()]))
                .pod(whole("web").selects(RESERVATION_ID, "cr-3")),
            vec![refused("web", Reason::NodeSelector)],
        ),
        (
            "two pools draw on one reservation",
            bare()
                .pool(pool("one").sells(&[reserved()]))
                .pool(pool("two").sells(&[reserved()]))
                .pods(3, &only("reserved")),
            vec![
                new("web", &[]),
                new("web", &[]),
                Expect::Refused("web", vec![Reason::ReservationFull, Reason::ReservationFull]),
            ],
        ),
    ]);
}

#[test]
fn fixed_nodes() {
    let fixed = |replicas| Pool { replicas: Some(replicas), ..pool("pool").sells(&[small()]) };
    let at_least = |nodes_min| Pool { nodes_min, ..pool("pool").sells(&[small()]) };
    check(vec![
        ("static replicas without pods", buying(fixed(2)), vec![launches(2)]),
        (
            "no static replicas",
            buying(fixed(0)).pod(pod("web")),
            vec![refused("web", Reason::PoolStatic), launches(0)],
        ),
        ("pods go to static replicas", buying(fixed(1)).pod(pod("web")), vec![new("web", &[]), launches(1)]),
        (
            "static replicas are no more for pods",
            buying(fixed(1)).pods(2, &whole("web")),
            vec![new("web", &[]), refused("web", Reason::PoolStatic), launches(1)],
        ),
        (
            "static replicas that exist",
            buying(fixed(2)).node(node("n", "a").of_pool("pool")),
            vec![launches(1)],
        ),
        (
            "a static replica that goes away is replaced",
            buying(fixed(1)).node(node("n", "a").of_pool("pool").in_state(NodeState::Deleting)),
            vec![launches(1)],
        ),
        ("static replicas keep to the limit", buying(fixed(3).nodes_max(2)), vec![launches(2)]),
        ("a minimum without pods", buying(at_least(2)), vec![launches(2)]),
        (
            "a minimum, and more for pods",
            buying(at_least(1)).pods(2, &whole("web")),
            vec![new("web", &[]), new("web", &[]), launches(2)],
        ),
        (
            "a minimum that exists",
            buying(at_least(1)).node(node("n", "a").of_pool("pool")),
            vec![launches(0)],
        ),
        ("a minimum keeps to the limit", buying(at_least(2).limits(CPU, 2000)), vec![launches(1)]),
    ]);
}

#[test]
fn capacity_buffers() {
    let buffer = || Pod { origin: PodOrigin::Buffer, ..whole("buffer") };
    let one = || buying(pool("pool").sells(&[small()]).nodes_max(1));
    check(vec![
        ("room is bought", shop().pod(buffer()), vec![new("buffer", &[]), launches(1)]),
        (
            "after the pods",
            one().pod(buffer()).pod(whole("web")),
            vec![new("web", &[]), refused("buffer", Reason::NodeLimit)],
        ),
        (
            "after the pods, whatever its priority",
            one().pod(buffer().priority(100)).pod(whole("web")),
            vec![new("web", &[]), refused("buffer", Reason::NodeLimit)],
        ),
        (
            "existing room goes to the pods",
            shop().node(node("n", "a").has(CPU, 2000)).pod(buffer()).pod(whole("web")),
            vec![on("web", "n"), new("buffer", &[])],
        ),
        (
            "room that is left will do",
            shop().node(node("n", "a")).pod(buffer()).pod(whole("web")),
            vec![on("web", "n"), on("buffer", "n"), launches(0)],
        ),
    ]);
}

#[test]
fn nodes_that_come_and_go() {
    let in_state = |state| shop().node(node("n", "b").in_state(state));
    let old = |pod: Pod| in_state(NodeState::Deleting).pod(pod.running_on("n"));
    check(vec![
        (
            "a node on its way is filled first",
            in_state(NodeState::Starting).pod(pod("web")),
            vec![on("web", "n"), launches(0)],
        ),
        (
            "a node on its way holds only so much",
            in_state(NodeState::Starting).pod(pod("web").cpu(4000)).pod(whole("db")),
            vec![on("web", "n"), new("db", &[]), launches(1)],
        ),
        (
            "a node that goes away takes no pods",
            in_state(NodeState::Deleting).pod(pod("web")),
            vec![new("web", &[])],
        ),
        ("its pods need another place", old(pod("web")), vec![new("web", &[])]),
        ("its pods go to another node", old(pod("web")).node(node("m", "a")), vec![on("web", "m")]),
        ("its pods keep their rules", old(pod("web").selects(ZONE, "b")), vec![new("web", &[(ZONE, "b")])]),
        (
            "a DaemonSet's pod goes with it",
            old(Pod { daemon_set: Some("agent".into()), ..pod("agent") }),
            vec![launches(0)],
        ),
        ("a terminating pod goes with it", old(Pod { deleting: true, ..pod("web") }), vec![launches(0)]),
        (
            "no room for them elsewhere",
            bare().node(node("n", "b").in_state(NodeState::Deleting)).pod(pod("web").running_on("n")),
            vec![refused("web", Reason::NoPool)],
        ),
    ]);
}

/// What the cloud of one pool lacks, another may have.
#[test]
fn what_is_unavailable_to_a_pool_is_so_to_no_other() {
    let two = || bare().pool(pool("a").sells(&[small()])).pool(pool("b").sells(&[small()])).pod(pod("web"));
    let all = OfferingPattern::default;
    check(vec![
        ("the first", two().unavailable_to("a", all()), vec![new("web", &[(NODEPOOL, "b")])]),
        ("the second", two().unavailable_to("b", all()), vec![new("web", &[(NODEPOOL, "a")])]),
        ("none that is there", two().unavailable_to("c", all()), vec![new("web", &[])]),
    ]);
}

/// Some pools do not grow for pods that have not waited.
#[test]
fn pods_that_are_fresh_wait_for_pools_that_are_patient() {
    let patient = || Pool { is_patient: true, ..pool("patient").sells(&[small()]) };
    let fresh = |name: &str| Pod { is_fresh: true, ..pod(name) };
    check(vec![
        ("fresh", bare().pool(patient()).pod(fresh("web")), vec![refused("web", Reason::PoolResting)]),
        ("not fresh", bare().pool(patient()).pod(pod("web")), vec![new("web", &[])]),
        (
            "fresh, beside one of its kind that is not",
            bare().pool(patient()).pod(fresh("web")).pod(pod("old").cpu(2000)),
            vec![new("old", &[]), refused("web", Reason::PoolResting)],
        ),
        (
            "fresh, where there is room",
            bare().pool(patient()).node(node("n", "a")).pod(fresh("web")),
            vec![on("web", "n")],
        ),
        (
            "fresh, where another pool does not ask",
            bare().pool(patient()).pool(pool("eager").sells(&[large()])).pod(fresh("web")),
            vec![new("web", &[(NODEPOOL, "eager")])],
        ),
    ]);
}

#[test]
fn unavailable_offerings() {
    let without = |instance_type: Option<&str>, zone: Option<&str>, capacity_type| {
        shop().pod(pod("web")).unavailable(OfferingPattern {
            instance_type: instance_type.map(Into::into),
            zone: zone.map(Into::into),
            capacity_type,
        })
    };
    let none = || vec![refused("web", Reason::OfferingUnavailable)];
    let mut sold_out = small();
    sold_out.offerings[0].available = false;
    check(vec![
        (
            "a zone",
            without(None, Some("a"), None),
            vec![new("web", &[(ZONE, "b")]), Expect::AlternativesIn(&["b"])],
        ),
        ("a type", without(Some("small"), None, None), vec![new("web", &[(INSTANCE_TYPE, "large")])]),
        (
            "a type in a zone",
            without(Some("small"), Some("a"), None),
            vec![new("web", &[(INSTANCE_TYPE, "small"), (ZONE, "b")])],
        ),
        ("a capacity type", without(None, None, Some(OnDemand)), none()),
        ("another capacity type", without(None, None, Some(Spot)), vec![new("web", &[(ZONE, "a")])]),
        ("everything", without(None, None, None), none()),
        (
            "as the catalog says",
            buying(pool("pool").sells(&[sold_out])).pod(pod("web")),
            vec![new("web", &[(ZONE, "b")])],
        ),
    ]);
}

#[test]
fn scheduling_gates() {
    let gated = || pod("web").with(|spec| spec.scheduling_gates.push("quota".into()));
    check(vec![
        (
            "a gated pod waits",
            shop().pod(gated()),
            vec![refused("web", Reason::SchedulingGated), launches(0)],
        ),
        (
            "a gated pod waits before a node with room",
            bare().node(node("n", "a")).pod(gated()),
            vec![refused("web", Reason::SchedulingGated)],
        ),
        (
            "the others do not wait",
            shop().pod(gated()).pod(pod("db")),
            vec![refused("web", Reason::SchedulingGated), new("db", &[])],
        ),
    ]);
}
