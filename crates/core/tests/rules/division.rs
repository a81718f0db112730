//! Pools that are divided: so much spot, so many nodes in each zone, one type before others.

use berth_core::catalog::CapacityType::{OnDemand, Spot};
use berth_core::division::{Division, SpotShare, ZoneRule, ZoneSplit};
use berth_core::names::{CAPACITY_TYPE, INSTANCE_TYPE, ZONE};
use berth_core::pod::Pod;
use berth_core::pool::Pool;
use berth_core::reason::Reason;

use crate::cluster::{
    Cluster, NodeWords, PodWords, PoolWords, TypeWords, bare, large, node, pod, pool, small,
};
use crate::{Expect, check, launches, new, refused};

/// Each asks for a whole small node.
fn whole(name: &str) -> Pod {
    pod(name).cpu(2000)
}

fn divided(division: Division) -> Pool {
    Pool { division, ..pool("pool").sells(&[small()]) }
}

/// Small nodes, on demand in both zones and as spot in one, which is cheaper.
fn with_spot(percent_max: u32, falls_back: bool) -> Pool {
    let spot = Some(SpotShare { percent_max, falls_back });
    divided(Division { spot, ..Division::default() }).sells(&[small().sold("a", Spot)])
}

fn by_weight(weights: [u32; 2], nodes_min: u32) -> ZoneSplit {
    let zones = vec![("a".into(), weights[0]), ("b".into(), weights[1])];
    ZoneSplit { rule: ZoneRule::ByWeight, zones, nodes_min }
}

fn over(zones: ZoneSplit) -> Pool {
    divided(Division { zones: Some(zones), ..Division::default() })
}

fn buying(pool: Pool, pods: usize) -> Cluster {
    bare().pool(pool).pods(pods, &whole("web"))
}

/// So many in zone a, so many in zone b.
fn in_zones(a: usize, b: usize) -> Vec<Expect> {
    let of = |zone, count| std::iter::repeat_n(new("web", &[(ZONE, zone)]), count);
    of("a", a).chain(of("b", b)).collect()
}

/// So many spot, so many on demand, so many without a place.
fn as_types(spot: usize, on_demand: usize, left: usize) -> Vec<Expect> {
    let of = |name, count| std::iter::repeat_n(new("web", &[(CAPACITY_TYPE, name)]), count);
    let left = std::iter::repeat_n(refused("web", Reason::SpotShare), left);
    of("spot", spot).chain(of("on-demand", on_demand)).chain(left).collect()
}

#[test]
fn shares_of_spot() {
    let has = |cluster: Cluster, nodes: usize, capacity_type: &str| {
        (0..nodes).fold(cluster, |cluster, index| {
            let name = format!("{capacity_type}-{index}");
            let full = pod(&format!("full-{capacity_type}-{index}")).cpu(4000).running_on(&name);
            cluster.node(node(&name, "a").of_pool("pool").labelled(CAPACITY_TYPE, capacity_type)).pod(full)
        })
    };
    check(vec![
        ("the rest on demand", buying(with_spot(80, true), 5), as_types(4, 1, 0)),
        ("rounded down", buying(with_spot(50, true), 3), as_types(1, 2, 0)),
        ("none", buying(with_spot(0, true), 2), as_types(0, 2, 0)),
        ("all", buying(with_spot(100, true), 2), as_types(2, 0, 0)),
        ("what is there counts", has(buying(with_spot(50, true), 2), 2, "spot"), as_types(0, 2, 0)),
        ("on demand as well", has(buying(with_spot(50, true), 2), 2, "on-demand"), as_types(2, 0, 0)),
        (
            "where spot cannot be had it falls back",
            buying(Pool { types: pool("x").sells(&[small()]).types, ..with_spot(80, true) }, 3),
            as_types(0, 3, 0),
        ),
        (
            "or not, if that is not wanted",
            buying(Pool { types: pool("x").sells(&[small()]).types, ..with_spot(80, false) }, 3),
            as_types(0, 1, 2),
        ),
        ("no alternative becomes spot", buying(with_spot(50, true), 1), {
            let mut expected = as_types(0, 1, 0);
            expected.push(Expect::NoAlternativeAs(Spot));
            expected
        }),
    ]);
}

#[test]
fn zones_in_their_turns() {
    let in_order = |zones: [&str; 2]| {
        let zones = zones.iter().map(|zone| ((*zone).into(), 1)).collect();
        over(ZoneSplit { rule: ZoneRule::InOrder, zones, nodes_min: 0 })
    };
    let only_a = |pool: Pool| pool.sells(&[small().nowhere().sold("a", OnDemand)]);
    check(vec![
        ("evenly, though one is cheaper", buying(over(by_weight([1, 1], 0)), 4), in_zones(2, 2)),
        ("by weight", buying(over(by_weight([3, 1], 0)), 4), in_zones(3, 1)),
        (
            "what is there counts",
            buying(over(by_weight([1, 1], 0)), 2)
                .node(node("n", "a").of_pool("pool"))
                .pod(pod("full").cpu(4000).running_on("n")),
            in_zones(1, 1),
        ),
        ("the first that can be had", buying(in_order(["b", "a"]), 3), in_zones(0, 3)),
        ("and no other while it can", buying(in_order(["a", "b"]), 3), in_zones(3, 0)),
        ("else the next", buying(only_a(in_order(["b", "a"])), 2), in_zones(2, 0)),
        (
            "a zone that has nothing holds up nobody",
            buying(only_a(over(by_weight([1, 1], 0))), 2),
            in_zones(2, 0),
        ),
        (
            "pods that must be somewhere are",
            bare().pool(over(by_weight([1, 1], 0))).pods(2, &whole("web").selects(ZONE, "a")),
            in_zones(2, 0),
        ),
        ("a least for each, without pods", bare().pool(over(by_weight([1, 1], 2))), vec![launches(4)]),
        (
            "and only what is missing of it",
            bare().pool(over(by_weight([1, 1], 1))).node(node("n", "b").of_pool("pool")),
            vec![launches(1)],
        ),
    ]);
}

#[test]
fn a_preferred_type() {
    let preferring = |name: &str| {
        let division = Division { preferred_type: Some(name.into()), ..Division::default() };
        divided(division).sells(&[small(), large()])
    };
    check(vec![
        (
            "wherever it would do, whatever others cost",
            buying(preferring("large"), 1),
            vec![new("web", &[(INSTANCE_TYPE, "large")])],
        ),
        (
            "but not where it is too small",
            bare().pool(preferring("small")).pod(pod("web").cpu(4000)),
            vec![new("web", &[(INSTANCE_TYPE, "large")])],
        ),
    ]);
}
