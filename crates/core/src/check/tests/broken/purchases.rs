//! What is bought, what could be bought instead, and how much of it.

use super::*;
use crate::catalog::OfferingPattern;
use crate::resources::USD_PER_HOUR;
use crate::snapshot::{MinValuesPolicy, SharedLimit};

#[test]
fn launches() {
    fn one(s: &mut Scene) {
        s.launch("small", "a");
        s.placed(NEW, web(100));
    }
    judge(&[
        Case {
            name: "a price that is not the catalog's",
            legal: one,
            breakage: |s| {
                s.plan.launches[0].price = Price::from_micro_usd(99_999);
                s.settle();
            },
            found: &["Launch.WrongPrice"],
        },
        Case {
            name: "an estimate that is none",
            legal: one,
            breakage: |s| s.plan.launches[0].estimated = true,
            found: &["Launch.WrongPrice"],
        },
        Case {
            name: "an offering that is not available",
            legal: one,
            breakage: |s| s.sold("small", |t| t.offerings[0].available = false),
            found: &["Launch.Unavailable"],
        },
        Case {
            name: "an offering that the policy rules out",
            legal: |s| {
                one(s);
                s.policy.unavailable = vec![OfferingPattern {
                    capacity_type: Some(CapacityType::Spot),
                    ..OfferingPattern::default()
                }];
            },
            breakage: |s| s.policy.unavailable[0].capacity_type = Some(CapacityType::OnDemand),
            found: &["Launch.Unavailable"],
        },
        Case {
            name: "an unknown pool",
            legal: one,
            breakage: |s| s.plan.launches[0].pool = "other".into(),
            found: &["Launch.NoSuchPool"],
        },
        Case {
            name: "a blocked pool",
            legal: one,
            breakage: |s| s.pool().blocked = Some(Reason::PoolNotReady.because("no class")),
            found: &["Launch.PoolBlocked"],
        },
        Case {
            name: "an unknown type",
            legal: one,
            breakage: |s| s.plan.launches[0].instance_type = "huge".into(),
            found: &["Launch.NoSuchType"],
        },
        Case {
            name: "a zone without an offering",
            legal: one,
            breakage: |s| s.plan.launches[0].zone = "c".into(),
            found: &["Launch.NoSuchOffering"],
        },
        Case {
            name: "allocatable out of thin air",
            legal: one,
            breakage: |s| Arc::make_mut(&mut s.plan.launches[0].allocatable).set("cpu", 2000),
            found: &["Launch.WrongAllocatable"],
        },
        Case {
            name: "a taint forgotten",
            legal: one,
            breakage: |s| s.pool().taints.push(Taint::new("x", "", TaintEffect::PreferNoSchedule)),
            found: &["Launch.WrongTaints"],
        },
        Case {
            name: "a label forgotten",
            legal: one,
            breakage: |s| drop(s.labels().remove(names::ARCH)),
            found: &["Launch.MissingLabel"],
        },
        Case {
            name: "an offering's label forgotten",
            legal: one,
            breakage: |s| drop(s.labels().remove(names::REGION)),
            found: &["Launch.MissingLabel"],
        },
        Case {
            name: "an invented label",
            legal: |s| {
                s.pool().requirements.add(&expression("team", Operator::Exists, &[]));
                one(s);
                s.labels().insert("team".into(), "a".into());
            },
            breakage: |s| drop(s.labels().insert("rack".into(), "1".into())),
            found: &["Launch.InventedLabel"],
        },
        Case {
            name: "a pool requirement",
            legal: |s| {
                s.pool().requirements.add(&expression("size", Operator::In, &["small"]));
                s.pool().requirements.add(&expression("team", Operator::NotIn, &["b"]));
                one(s);
            },
            breakage: |s| s.pool().requirements.add(&expression("size", Operator::NotIn, &["small"])),
            found: &["Launch.RequirementUnmet"],
        },
        Case {
            name: "a custom label that the pool demands",
            legal: |s| {
                s.pool().requirements.add(&expression("team", Operator::In, &["a", "b"]));
                one(s);
                s.labels().insert("team".into(), "a".into());
            },
            breakage: |s| drop(s.labels().remove("team")),
            found: &["Launch.RequirementUnmet"],
        },
        Case {
            name: "a name of an existing node",
            legal: one,
            breakage: |s| s.plan.launches[0].name = "node-a".into(),
            found: &["Launch.NameTaken"],
        },
        Case {
            name: "a name of another launch",
            legal: |s| {
                one(s);
                s.launch("large", "b");
            },
            breakage: |s| s.plan.launches[1].name = "new-0".into(),
            found: &["Launch.NameTaken"],
        },
        Case {
            name: "wrong requests",
            legal: one,
            breakage: |s| Arc::make_mut(&mut s.plan.launches[0].requests).set("cpu", 99),
            found: &["Launch.WrongRequests"],
        },
        Case {
            name: "requests that forget the DaemonSets",
            legal: |s| {
                s.daemon_set("agent", app("agent", 500));
                one(s);
            },
            breakage: |s| s.plan.launches[0].requests = web(100).requests.into(),
            found: &["Launch.WrongRequests"],
        },
    ]);
}

#[test]
fn alternatives_and_min_values() {
    fn with_alternative(s: &mut Scene) {
        s.launch("small", "a");
        s.placed(NEW, web(100));
        s.alternative("large", "b");
    }
    fn two_sizes(s: &mut Scene) {
        s.pool().requirements.set_min_values("size".into(), 2);
        with_alternative(s);
    }
    judge(&[
        Case {
            name: "an unknown type",
            legal: with_alternative,
            breakage: |s| s.alternatives()[0].instance_type = "huge".into(),
            found: &["Alternative.NotOffered"],
        },
        Case {
            name: "an unknown zone",
            legal: with_alternative,
            breakage: |s| s.alternatives()[0].zone = "c".into(),
            found: &["Alternative.NotOffered"],
        },
        Case {
            name: "a wrong price",
            legal: with_alternative,
            breakage: |s| s.alternatives()[0].price_per_hour = Price::ZERO,
            found: &["Alternative.WrongPrice"],
        },
        Case {
            name: "not available",
            legal: with_alternative,
            breakage: |s| s.sold("large", |t| t.offerings.iter_mut().for_each(|o| o.available = false)),
            found: &["Alternative.Unavailable"],
        },
        Case {
            name: "against the pool's requirements",
            legal: with_alternative,
            breakage: |s| s.pool().requirements.add(&expression("size", Operator::In, &["small"])),
            found: &["Alternative.RequirementUnmet"],
        },
        Case {
            name: "too small",
            legal: |s| {
                s.launch("large", "a");
                s.placed(NEW, web(1900));
                s.alternative("small", "a");
            },
            breakage: |s| {
                s.spec(0).requests.set("cpu", 1901);
                s.settle();
            },
            found: &["Alternative.TooSmall"],
        },
        Case {
            name: "in a zone that does not suit a pod",
            legal: |s| {
                s.launch("small", "a");
                s.placed(NEW, PodSpec { node_affinity: Some(in_zone("a")), ..web(100) });
                s.alternative("large", "a");
            },
            breakage: |s| s.alternative("large", "b"),
            found: &["Alternative.Unsuited"],
        },
        Case {
            name: "in a zone that does not suit a volume",
            legal: |s| {
                s.claim("data", "a");
                s.launch("small", "a");
                let pod = s.placed(NEW, web(100));
                s.use_claims(pod, &["data"]);
                s.alternative("large", "a");
            },
            breakage: |s| s.alternative("large", "b"),
            found: &["Alternative.Unsuited"],
        },
        Case {
            name: "custom labels stay",
            legal: |s| {
                s.pool().requirements.add(&expression("team", Operator::Exists, &[]));
                s.launch("small", "a");
                s.labels().insert("team".into(), "a".into());
                s.placed(NEW, PodSpec { node_selector: vec![Expression::equals("team", "a")], ..web(100) });
                s.alternative("large", "b");
            },
            breakage: |s| s.sold("large", |t| drop(t.labels.insert("team".into(), "b".into()))),
            found: &["Alternative.Unsuited"],
        },
        Case {
            name: "too few values",
            legal: two_sizes,
            breakage: |s| s.plan.launches[0].alternatives = [].into(),
            found: &["Launch.MinValues"],
        },
        Case {
            name: "given up under the strict policy",
            legal: |s| {
                two_sizes(s);
                s.policy.min_values = MinValuesPolicy::BestEffort;
                s.plan.launches[0].min_values_relaxed = true;
                s.plan.launches[0].alternatives = [].into();
            },
            breakage: |s| s.policy.min_values = MinValuesPolicy::Strict,
            found: &["Launch.MinValuesRelaxed"],
        },
        Case {
            name: "given up without saying so",
            legal: |s| {
                two_sizes(s);
                s.policy.min_values = MinValuesPolicy::BestEffort;
            },
            breakage: |s| s.plan.launches[0].alternatives = [].into(),
            found: &["Launch.MinValues"],
        },
    ]);
}

#[test]
fn limits() {
    fn two(s: &mut Scene) {
        s.snapshot.nodes[0].pool = Some("default".into());
        s.launch("small", "a");
        s.launch("small", "b");
    }
    fn cost_of_pool(s: &Scene) -> i64 {
        let launches = s.plan.launches.iter().map(|launch| launch.price);
        let prices = launches.chain(s.snapshot.nodes[0].price);
        prices.fold(Price::ZERO, Price::plus).micro_usd()
    }
    judge(&[
        Case {
            name: "a limit overrun by one milli-CPU",
            legal: |s| {
                two(s);
                s.pool().limits.resources.set("cpu", 8000);
            },
            breakage: |s| s.pool().limits.resources.set("cpu", 7999),
            found: &["LimitExceeded"],
        },
        Case {
            name: "a limit of money overrun by a millionth of a dollar",
            legal: |s| {
                two(s);
                let cost = cost_of_pool(s);
                s.pool().limits.resources.set(USD_PER_HOUR, cost);
            },
            breakage: |s| {
                let cost = cost_of_pool(s);
                s.pool().limits.resources.set(USD_PER_HOUR, cost - 1);
            },
            found: &["LimitExceeded"],
        },
        Case {
            name: "nodes that go away count until they are gone",
            legal: |s| {
                two(s);
                s.pool().limits.nodes = Some(3);
            },
            breakage: |s| {
                s.snapshot.nodes[0].state = NodeState::Deleting;
                s.pool().limits.nodes = Some(2);
            },
            found: &["NodeLimitExceeded"],
        },
        Case {
            name: "a limit that was overrun before is not the plan's fault",
            legal: |s| {
                s.snapshot.nodes[0].pool = Some("default".into());
                s.pool().limits.nodes = Some(0);
            },
            breakage: |s| {
                s.launch("small", "a");
                s.settle();
            },
            found: &["NodeLimitExceeded"],
        },
        Case {
            name: "a limit that pools share",
            legal: |s| {
                two(s);
                s.snapshot.nodes[1].pool = Some("other".into());
                let pools = vec!["default".into(), "other".into()];
                s.snapshot.shared_limits.push(SharedLimit { pools, nodes_max: 4 });
            },
            breakage: |s| s.snapshot.shared_limits[0].nodes_max = 3,
            found: &["SharedLimitExceeded"],
        },
        Case {
            name: "a static pool overgrown",
            legal: |s| {
                two(s);
                s.pool().replicas = Some(2);
                s.snapshot.nodes[0].state = NodeState::Deleting;
            },
            breakage: |s| s.snapshot.nodes[0].state = NodeState::Running,
            found: &["StaticPoolOvergrown"],
        },
        Case {
            name: "a reservation overdrawn, by two pools together",
            legal: |s| {
                s.sold("small", |t| t.offerings[0].remaining = Some(2));
                let mut other = s.pool().clone();
                other.name = "other".into();
                s.snapshot.pools.push(other);
                s.launch("small", "a");
                s.launch("small", "a");
                s.plan.launches[1].pool = "other".into();
            },
            breakage: |s| s.sold("small", |t| t.offerings[0].remaining = Some(1)),
            found: &["ReservationOverdrawn"],
        },
    ]);
}
