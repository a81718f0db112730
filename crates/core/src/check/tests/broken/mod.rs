//! Legal plans, and what becomes of them when one thing is changed.

mod disruptions;
mod nodes;
mod pods;
mod purchases;

use proptest::prelude::*;

use super::*;
use crate::check::{check, left_out};

struct Case {
    name: &'static str,
    /// Makes a plan that passes.
    legal: fn(&mut Scene),
    /// Breaks it. Requests and costs are as they were unless it settles them again.
    breakage: fn(&mut Scene),
    found: &'static [&'static str],
}

fn judge(cases: &[Case]) {
    for case in cases {
        let mut scene = Scene::new();
        (case.legal)(&mut scene);
        scene.settle();
        let violations = check(&scene.snapshot, &scene.policy, &scene.plan);
        assert_eq!(violations, [], "{}: the legal plan", case.name);
        (case.breakage)(&mut scene);
        let violations = check(&scene.snapshot, &scene.policy, &scene.plan);
        assert_eq!(kinds(&violations), case.found, "{}: {violations:?}", case.name);
        for violation in violations {
            assert!(violation.to_string().len() > 10, "{}: {violation:?}", case.name);
        }
    }
}

fn nothing(_: &mut Scene) {}

#[test]
fn accounts() {
    judge(&[
        Case {
            name: "a pod missing",
            legal: |s| {
                s.placed(NODE_A, web(100));
            },
            breakage: |s| s.plan.binds.clear(),
            found: &["PodMissing"],
        },
        Case {
            name: "a pod twice",
            legal: |s| {
                s.placed(NODE_A, web(100));
            },
            breakage: |s| s.plan.binds.push(Bind { pod: 0, host: NODE_B }),
            found: &["PodTwice"],
        },
        Case {
            name: "a pod placed and unplaced",
            legal: |s| {
                s.unplaced(web(100));
            },
            breakage: |s| s.plan.binds.push(Bind { pod: 0, host: NODE_A }),
            found: &["PodTwice"],
        },
        Case {
            name: "an unplaced pod without a reason",
            legal: |s| {
                s.unplaced(web(100));
            },
            breakage: |s| s.plan.unplaced[0].refusals.clear(),
            found: &["NoRefusal"],
        },
        Case {
            name: "a running pod bound",
            legal: |s| {
                s.running("node-a", web(100));
            },
            breakage: |s| s.plan.binds.push(Bind { pod: 0, host: NODE_B }),
            found: &["NotPending"],
        },
        Case {
            name: "finished, terminating and node-bound pods are not pending",
            legal: |s| {
                let done = s.pending(web(100));
                s.snapshot.pods[done].phase = PodPhase::Succeeded;
                let leaving = s.pending(web(100));
                s.snapshot.pods[leaving].deleting = true;
                let daemon = s.pending(web(100));
                s.snapshot.pods[daemon].daemon_set = Some("agent".into());
                let mirror = s.pending(web(100));
                s.snapshot.pods[mirror].mirror = true;
                s.running("elsewhere", web(100));
            },
            breakage: |s| s.plan.binds.extend((0..5).map(|pod| Bind { pod, host: NODE_A })),
            found: &["NotPending", "NotPending", "NotPending", "NotPending", "NotPending"],
        },
        Case {
            name: "a gated pod placed",
            legal: |s| {
                let gated = s.unplaced(web(100));
                s.spec(gated).scheduling_gates.push("gate".into());
                s.placed(NODE_A, web(100));
            },
            breakage: |s| {
                s.plan.unplaced.clear();
                s.plan.binds.push(Bind { pod: 0, host: NODE_A });
            },
            found: &["GatedPodPlaced"],
        },
        Case {
            name: "a pod that does not exist",
            legal: nothing,
            breakage: |s| s.plan.binds.push(Bind { pod: 7, host: NODE_A }),
            found: &["NoSuchPod"],
        },
        Case {
            name: "a host that does not exist",
            legal: |s| {
                s.placed(NODE_A, web(100));
            },
            breakage: |s| s.rebind(0, NEW),
            found: &["NoSuchHost"],
        },
        Case {
            name: "a displaced pod forgotten",
            legal: |s| {
                s.snapshot.nodes[1].state = NodeState::Deleting;
                let displaced = s.running("node-b", web(100));
                s.plan.binds.push(Bind { pod: displaced, host: NODE_A });
            },
            breakage: |s| s.plan.binds.clear(),
            found: &["PodMissing"],
        },
        Case {
            name: "a pod on a node that goes away",
            legal: |s| {
                s.placed(NODE_B, web(100));
            },
            breakage: |s| s.snapshot.nodes[1].state = NodeState::Deleting,
            found: &["NodeDeleting"],
        },
        Case {
            name: "the cost before",
            legal: nothing,
            breakage: |s| s.plan.cost_before = Price::ZERO,
            found: &["WrongCostBefore"],
        },
        Case {
            name: "the cost after",
            legal: |s| s.launch("small", "a"),
            breakage: |s| s.plan.cost_after = s.plan.cost_before,
            found: &["WrongCostAfter"],
        },
        Case {
            name: "a bound above the cost",
            legal: |s| s.plan.lower_bound = Price::from_micro_usd(1_000_000),
            breakage: |s| s.plan.lower_bound = Price::from_micro_usd(1_000_001),
            found: &["BoundAboveCost"],
        },
    ]);
}

proptest! {
    /// Whatever a plan says, it is judged.
    #[test]
    fn nonsense_does_not_panic(
        binds in prop::collection::vec((0..7_usize, 0..5_usize, any::<bool>()), 0..12),
        unplaced in prop::collection::vec(0..7_usize, 0..4),
        huge in any::<bool>(),
    ) {
        let mut scene = Scene::new();
        scene.snapshot.nodes[1].state = NodeState::Deleting;
        scene.daemon_set("agent", app("agent", 10));
        scene.running("node-a", web(100));
        scene.running("node-b", PodSpec { anti_affinity: vec![near("db", names::ZONE)], ..web(100) });
        for _ in 0..2 {
            let spread = vec![spread(names::ZONE), spread(names::HOSTNAME)];
            scene.pending(PodSpec { spread, affinity: vec![near("web", names::ZONE)], ..web(100) });
            scene.pending(app("db", if huge { i64::MAX } else { 1 }));
        }
        scene.launch("small", "a");
        scene.launch("large", "b");
        scene.plan.launches[1].pool = "nowhere".into();
        scene.plan.disruptions = unplaced
            .iter()
            .map(|node| DisruptionStep {
                reason: DisruptionReason::Empty,
                optimization: None,
                nodes: vec![*node, 1],
                replacements: vec![*node],
                first_bind: *node,
                pods_moved: *node,
                saves: Price::ZERO,
                cost: DisruptionCost::NODE,
            })
            .collect();
        scene.plan.binds = binds
            .into_iter()
            .map(|(pod, host, new)| Bind { pod, host: if new { Host::Launch(host) } else { Host::Node(host) } })
            .collect();
        scene.plan.unplaced =
            unplaced.into_iter().map(|pod| Unplaced { pod, refusals: Vec::new() }).collect();
        check(&scene.snapshot, &scene.policy, &scene.plan);
        left_out(&scene.snapshot, &scene.policy, &scene.plan);
    }
}
