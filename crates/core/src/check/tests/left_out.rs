//! Pods that were left out, rightly or wrongly.

use super::*;
use crate::check::{Spot, check, left_out};
use crate::snapshot::{MinValuesPolicy, SharedLimit};

struct Case {
    name: &'static str,
    scene: fn(&mut Scene),
    /// Where the first unplaced pod would have fitted.
    spot: Option<&'static str>,
}

fn judge(cases: &[Case]) {
    for case in cases {
        let mut scene = Scene::new();
        (case.scene)(&mut scene);
        scene.settle();
        assert_eq!(check(&scene.snapshot, &scene.policy, &scene.plan), [], "{}", case.name);
        let violations = left_out(&scene.snapshot, &scene.policy, &scene.plan);
        let spot = violations.first().map(|violation| match violation {
            Violation::LeftOut { spot: Spot::Purchase { instance_type, zone, .. }, .. } => {
                format!("{instance_type} in {zone}")
            }
            Violation::LeftOut { spot, .. } => spot.to_string(),
            other => panic!("{other}"),
        });
        assert_eq!(spot.as_deref(), case.spot, "{}", case.name);
    }
}

/// Neither node has room for a pod of 1000m any more.
fn full(s: &mut Scene) {
    s.running("node-a", app("filler", 3500));
    s.running("node-b", app("filler", 3500));
}

#[test]
fn nodes_and_launches() {
    judge(&[
        Case {
            name: "room on a node",
            scene: |s| {
                s.unplaced(web(4000));
            },
            spot: Some("node node-a"),
        },
        Case {
            name: "no room anywhere",
            scene: |s| {
                s.unplaced(web(8000));
            },
            spot: None,
        },
        Case {
            name: "room on a launch",
            scene: |s| {
                full(s);
                s.pool().limits.nodes = Some(1);
                s.launch("small", "a");
                s.placed(NEW, web(900));
                s.unplaced(web(1000));
            },
            spot: Some("the new node new-0"),
        },
        Case {
            name: "what the plan placed takes room",
            scene: |s| {
                full(s);
                s.pool().limits.nodes = Some(1);
                s.launch("small", "a");
                s.placed(NEW, web(901));
                s.unplaced(web(1000));
            },
            spot: None,
        },
        Case {
            name: "a gated pod waits",
            scene: |s| {
                s.unplaced(PodSpec { scheduling_gates: vec!["gate".into()], ..web(100) });
            },
            spot: None,
        },
        Case {
            name: "a pod without its volume waits",
            scene: |s| {
                let pod = s.unplaced(web(100));
                s.use_claims(pod, &["missing"]);
            },
            spot: None,
        },
        Case {
            name: "a node that goes away is none",
            scene: |s| {
                s.snapshot.pools.clear();
                s.snapshot.nodes.iter_mut().for_each(|node| node.state = NodeState::Deleting);
                s.unplaced(web(100));
            },
            spot: None,
        },
        Case {
            name: "affinity to a pod that the plan placed",
            scene: |s| {
                s.placed(NODE_B, app("db", 100));
                s.unplaced(PodSpec { affinity: vec![near("db", names::HOSTNAME)], ..web(100) });
            },
            spot: Some("node node-b"),
        },
    ]);
}

#[test]
fn purchases() {
    judge(&[
        Case {
            name: "one more node",
            scene: |s| {
                full(s);
                s.unplaced(web(1000));
            },
            spot: Some("small in a"),
        },
        Case {
            name: "a larger one",
            scene: |s| {
                s.unplaced(web(5000));
            },
            spot: Some("large in a"),
        },
        Case {
            name: "DaemonSets need room there, too",
            scene: |s| {
                s.daemon_set("agent", app("agent", 1000));
                s.unplaced(web(7000));
            },
            spot: None,
        },
        Case {
            name: "a pool that is blocked",
            scene: |s| {
                s.pool().blocked = Some(Reason::PoolNotReady.because("no class"));
                s.unplaced(web(5000));
            },
            spot: None,
        },
        Case {
            name: "a static pool",
            scene: |s| {
                s.pool().replicas = Some(5);
                s.unplaced(web(5000));
            },
            spot: None,
        },
        Case {
            name: "a node limit",
            scene: |s| {
                s.pool().limits.nodes = Some(0);
                s.unplaced(web(5000));
            },
            spot: None,
        },
        Case {
            name: "a limit that is just enough",
            scene: |s| {
                s.pool().limits.resources.set("cpu", 8000);
                s.unplaced(web(5000));
            },
            spot: Some("large in a"),
        },
        Case {
            name: "a limit that is just too little",
            scene: |s| {
                s.pool().limits.resources.set("cpu", 7999);
                s.unplaced(web(5000));
            },
            spot: None,
        },
        Case {
            name: "a shared limit",
            scene: |s| {
                let pools = vec!["default".into()];
                s.snapshot.shared_limits.push(SharedLimit { pools, nodes_max: 0 });
                s.unplaced(web(5000));
            },
            spot: None,
        },
        Case {
            name: "a reservation that the plan used up",
            scene: |s| {
                s.sold("large", |t| {
                    t.offerings.truncate(1);
                    t.offerings[0].remaining = Some(1);
                });
                s.launch("large", "a");
                s.placed(NEW, web(5000));
                s.unplaced(web(5000));
            },
            spot: None,
        },
        Case {
            name: "the pool's requirements",
            scene: |s| {
                s.pool().requirements.add(&expression("size", Operator::In, &["small"]));
                s.unplaced(web(5000));
            },
            spot: None,
        },
        Case {
            name: "the pool's taints",
            scene: |s| {
                s.pool().taints.push(taint());
                s.unplaced(web(5000));
            },
            spot: None,
        },
        Case {
            name: "in the zone of the pod's volume",
            scene: |s| {
                s.claim("data", "b");
                let pod = s.unplaced(web(5000));
                s.use_claims(pod, &["data"]);
            },
            spot: Some("large in b"),
        },
        Case {
            name: "with a custom label that the pool allows",
            scene: |s| {
                s.pool().requirements.add(&expression("team", Operator::NotIn, &["b"]));
                s.unplaced(PodSpec { node_selector: vec![Expression::equals("team", "a")], ..web(100) });
            },
            spot: Some("small in a"),
        },
        Case {
            name: "with a custom label that the pool does not allow",
            scene: |s| {
                s.pool().requirements.add(&expression("team", Operator::NotIn, &["a"]));
                s.unplaced(PodSpec { node_selector: vec![Expression::equals("team", "a")], ..web(100) });
            },
            spot: None,
        },
        Case {
            name: "with a label that the pool does not know",
            scene: |s| {
                s.unplaced(PodSpec { node_selector: vec![Expression::equals("team", "a")], ..web(100) });
            },
            spot: None,
        },
        Case {
            name: "a label of the catalog is not made up",
            scene: |s| {
                s.sold("small", |t| drop(t.labels.insert("gpu".into(), "1".into())));
                s.pool().requirements.add(&expression("gpu", Operator::Gt, &["0"]));
                s.unplaced(web(5000));
            },
            spot: None,
        },
        Case {
            name: "minValues that the pod leaves possible",
            scene: |s| {
                full(s);
                s.pool().requirements.set_min_values("size".into(), 2);
                s.unplaced(web(1000));
            },
            spot: Some("small in a"),
        },
        Case {
            name: "minValues that the pod's size rules out",
            scene: |s| {
                s.pool().requirements.set_min_values("size".into(), 2);
                s.unplaced(web(5000));
            },
            spot: None,
        },
        Case {
            name: "minValues that may be given up",
            scene: |s| {
                s.policy.min_values = MinValuesPolicy::BestEffort;
                s.pool().requirements.set_min_values("size".into(), 2);
                s.unplaced(web(5000));
            },
            spot: Some("large in a"),
        },
    ]);
}

#[test]
fn topology() {
    judge(&[
        Case {
            name: "a new node is a new hostname",
            scene: |s| {
                let apart = PodSpec { anti_affinity: vec![near("web", names::HOSTNAME)], ..web(100) };
                s.placed(NODE_A, apart.clone());
                s.placed(NODE_B, apart.clone());
                s.unplaced(apart);
            },
            spot: Some("small in a"),
        },
        Case {
            name: "zones that are all taken",
            scene: |s| {
                let apart = PodSpec { anti_affinity: vec![near("web", names::ZONE)], ..web(100) };
                s.placed(NODE_A, apart.clone());
                s.placed(NODE_B, apart.clone());
                s.unplaced(apart);
            },
            spot: None,
        },
        Case {
            name: "the zone that has fewer pods",
            scene: |s| {
                full(s);
                s.running("node-a", web(100));
                s.unplaced(PodSpec { spread: vec![spread(names::ZONE)], ..web(1000) });
            },
            spot: Some("small in b"),
        },
        Case {
            name: "a zone that could be bought and has none keeps the others back",
            scene: |s| {
                s.snapshot.nodes.pop();
                s.running("node-a", web(100));
                s.pool().limits.nodes = Some(0);
                s.unplaced(PodSpec { spread: vec![spread(names::ZONE)], ..web(100) });
            },
            spot: None,
        },
        Case {
            name: "a zone that the pod may not use does not",
            scene: |s| {
                s.snapshot.nodes.pop();
                s.running("node-a", web(100));
                s.pool().limits.nodes = Some(0);
                let spec = PodSpec { spread: vec![spread(names::ZONE)], ..web(100) };
                s.unplaced(PodSpec { node_affinity: Some(in_zone("a")), ..spec });
            },
            spot: Some("node node-a"),
        },
        Case {
            name: "values of a custom key that could be bought",
            scene: |s| {
                s.snapshot.nodes.pop();
                s.snapshot.nodes[0].labels.insert("rack".into(), "1".into());
                s.running("node-a", web(100));
                s.pool().requirements.add(&expression("rack", Operator::In, &["1", "2"]));
                s.pool().limits.nodes = Some(0);
                s.unplaced(PodSpec { spread: vec![spread("rack")], ..web(100) });
            },
            spot: None,
        },
        Case {
            name: "affinity to a zone with a pod, on a node to be bought",
            scene: |s| {
                full(s);
                s.running("node-b", app("db", 100));
                s.unplaced(PodSpec { affinity: vec![near("db", names::ZONE)], ..web(1000) });
            },
            spot: Some("small in b"),
        },
    ]);
}
