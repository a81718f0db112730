//! The rules that look at other pods: affinity, anti-affinity, spread.

use super::*;

#[test]
fn other_pods() {
    judge(&[
        Case {
            name: "anti-affinity of the pod",
            legal: |s| {
                s.running("node-a", app("db", 100));
                let spec = PodSpec { anti_affinity: vec![near("db", names::ZONE)], ..web(100) };
                s.placed(NODE_B, spec);
            },
            breakage: |s| s.rebind(1, NODE_A),
            found: &["PodAntiAffinity"],
        },
        Case {
            name: "anti-affinity of a running pod",
            legal: |s| {
                s.running(
                    "node-a",
                    PodSpec { anti_affinity: vec![near("web", names::ZONE)], ..app("db", 100) },
                );
                s.placed(NODE_B, web(100));
            },
            breakage: |s| s.rebind(1, NODE_A),
            found: &["ExistingAntiAffinity"],
        },
        Case {
            name: "anti-affinity of a pod bound before",
            legal: |s| {
                s.launch("small", "a");
                s.launch("small", "a");
                let spec = PodSpec { anti_affinity: vec![near("db", names::HOSTNAME)], ..web(100) };
                s.placed(NEW, spec);
                s.placed(NEXT, app("db", 100));
            },
            breakage: |s| {
                s.rebind(1, NEW);
                s.settle();
            },
            found: &["ExistingAntiAffinity"],
        },
        Case {
            name: "a terminating pod still repels",
            legal: |s| {
                let leaving = s.running("node-a", app("db", 100));
                s.snapshot.pods[leaving].deleting = true;
                s.placed(NODE_B, PodSpec { anti_affinity: vec![near("db", names::ZONE)], ..web(100) });
            },
            breakage: |s| s.rebind(1, NODE_A),
            found: &["PodAntiAffinity"],
        },
        Case {
            name: "a node without the key has no anti-affinity, and other namespaces do not count",
            legal: |s| {
                s.running("node-a", app("db", 100));
                s.snapshot.pods[0].namespace = "other".into();
                s.running("node-a", app("db", 100));
                let spec = PodSpec { anti_affinity: vec![near("db", "rack")], ..web(100) };
                s.placed(NODE_A, spec);
                s.snapshot.pods.remove(1);
                s.plan.binds[0].pod = 1;
                s.spec(1).anti_affinity.push(near("db", names::ZONE));
            },
            breakage: |s| s.spec(1).anti_affinity[1].namespaces.push("other".into()),
            found: &["PodAntiAffinity"],
        },
        Case {
            name: "affinity without a partner",
            legal: |s| {
                s.running("node-a", app("db", 100));
                s.placed(NODE_A, PodSpec { affinity: vec![near("db", names::ZONE)], ..web(100) });
            },
            breakage: |s| s.rebind(1, NODE_B),
            found: &["PodAffinity"],
        },
        Case {
            name: "affinity to a pod that comes later",
            legal: |s| {
                s.placed(NODE_A, app("db", 100));
                s.placed(NODE_A, PodSpec { affinity: vec![near("db", names::ZONE)], ..web(100) });
            },
            breakage: |s| s.plan.binds.reverse(),
            found: &["PodAffinity"],
        },
        Case {
            name: "the first of a group goes anywhere, the second must follow",
            legal: |s| {
                let spec = PodSpec { affinity: vec![near("web", names::ZONE)], ..web(100) };
                s.placed(NODE_A, spec.clone());
                s.placed(NODE_A, spec);
            },
            breakage: |s| s.rebind(1, NODE_B),
            found: &["PodAffinity"],
        },
        Case {
            name: "a pod counts only if it matches all terms",
            legal: |s| {
                let mut both = app("db", 100);
                both.labels.insert("tier".into(), "back".into());
                s.running("node-a", both);
                let mut tier = near("db", names::ZONE);
                tier.selector = Some(Selector::new(vec![Expression::equals("tier", "back")]));
                let spec = PodSpec { affinity: vec![near("db", names::ZONE), tier], ..web(100) };
                s.placed(NODE_A, spec);
            },
            breakage: |s| {
                s.spec(0).labels.remove("tier");
                let mut tier = app("cache", 100);
                tier.labels.insert("tier".into(), "back".into());
                s.running("node-a", tier);
            },
            found: &["PodAffinity"],
        },
        Case {
            name: "affinity on a node without the key",
            legal: |s| {
                s.placed(NODE_A, PodSpec { affinity: vec![near("web", names::ZONE)], ..web(100) });
            },
            breakage: |s| drop(s.snapshot.nodes[0].labels.remove(names::ZONE)),
            found: &["TopologyKeyMissing"],
        },
        Case {
            name: "a term without a selector matches no pod",
            legal: |s| {
                s.running("node-a", app("db", 100));
                s.placed(NODE_A, PodSpec { affinity: vec![near("db", names::ZONE)], ..web(100) });
            },
            breakage: |s| s.spec(1).affinity[0].selector = None,
            found: &["PodAffinity"],
        },
    ]);
}

#[test]
fn topology_spread() {
    judge(&[
        Case {
            name: "a skew of one too many",
            legal: |s| {
                for host in [NODE_A, NODE_B, NODE_A] {
                    s.placed(host, PodSpec { spread: vec![spread(names::ZONE)], ..web(100) });
                }
            },
            breakage: |s| s.rebind(1, NODE_A),
            found: &["TopologySpread", "TopologySpread"],
        },
        Case {
            name: "running pods count, terminating ones do not",
            legal: |s| {
                s.running("node-a", web(100));
                let leaving = s.running("node-b", web(100));
                s.snapshot.pods[leaving].deleting = true;
                s.placed(NODE_B, PodSpec { spread: vec![spread(names::ZONE)], ..web(100) });
                s.placed(NODE_A, PodSpec { spread: vec![spread(names::ZONE)], ..web(100) });
            },
            breakage: |s| {
                s.plan.binds.reverse();
            },
            found: &["TopologySpread"],
        },
        Case {
            name: "a preference may be broken",
            legal: |s| {
                for _ in 0..2 {
                    let anyway = Spread { required: false, ..spread(names::ZONE) };
                    s.placed(NODE_A, PodSpec { spread: vec![anyway], ..web(100) });
                }
            },
            breakage: |s| s.spec(1).spread[0].required = true,
            found: &["TopologySpread"],
        },
        Case {
            name: "a new node opens its domain when it joins",
            legal: |s| {
                s.snapshot.nodes.pop();
                s.launch("small", "b");
                for host in [NODE_A, NODE_A, NODE_A, NEW] {
                    s.placed(host, PodSpec { spread: vec![spread(names::ZONE)], ..web(100) });
                }
            },
            breakage: |s| s.plan.binds.rotate_right(1),
            found: &["TopologySpread"],
        },
        Case {
            name: "too few domains leave the least at none",
            legal: |s| {
                for host in [NODE_A, NODE_B, NODE_A] {
                    s.placed(host, PodSpec { spread: vec![spread(names::ZONE)], ..web(100) });
                }
            },
            breakage: |s| s.spec(2).spread[0].min_domains = 3,
            found: &["TopologySpread"],
        },
        Case {
            name: "only nodes that the pod may use are domains, unless its affinity is ignored",
            legal: |s| {
                for _ in 0..2 {
                    let spec = PodSpec { spread: vec![spread(names::ZONE)], ..web(100) };
                    s.placed(NODE_A, PodSpec { node_affinity: Some(in_zone("a")), ..spec });
                }
            },
            breakage: |s| s.spec(1).spread[0].honor_node_affinity = false,
            found: &["TopologySpread"],
        },
        Case {
            name: "tainted nodes are domains, unless taints are honoured",
            legal: |s| {
                s.snapshot.nodes[1].taints.push(taint());
                for _ in 0..2 {
                    let honouring = Spread { honor_node_taints: true, ..spread(names::ZONE) };
                    s.placed(NODE_A, PodSpec { spread: vec![honouring], ..web(100) });
                }
            },
            breakage: |s| s.spec(1).spread[0].honor_node_taints = false,
            found: &["TopologySpread"],
        },
        Case {
            name: "a node without the key of another constraint is no domain",
            legal: |s| {
                s.snapshot.nodes[0].labels.insert("rack".into(), "1".into());
                for _ in 0..2 {
                    let spread = vec![spread(names::ZONE), spread("rack")];
                    s.placed(NODE_A, PodSpec { spread, ..web(100) });
                }
            },
            breakage: |s| drop(s.spec(1).spread.pop()),
            found: &["TopologySpread"],
        },
        Case {
            name: "a node without the key",
            legal: |s| {
                s.placed(NODE_A, PodSpec { spread: vec![spread(names::ZONE)], ..web(100) });
            },
            breakage: |s| drop(s.snapshot.nodes[0].labels.remove(names::ZONE)),
            found: &["TopologyKeyMissing"],
        },
        Case {
            name: "an empty selector counts nothing, a pod that does not match itself adds nothing",
            legal: |s| {
                s.running("node-a", web(100));
                let everything = Spread { selector: Some(Selector::default()), ..spread(names::ZONE) };
                s.placed(NODE_A, PodSpec { spread: vec![everything], ..web(100) });
                s.placed(NODE_B, PodSpec { spread: vec![spread(names::ZONE)], ..app("db", 100) });
            },
            breakage: |s| s.spec(1).spread[0] = spread(names::ZONE),
            found: &["TopologySpread"],
        },
    ]);
}
