//! Legal plans, and what becomes of them when one thing is changed.

use proptest::prelude::*;

use super::*;
use crate::catalog::OfferingPattern;
use crate::check::{check, left_out};
use crate::snapshot::{MinValuesPolicy, SharedLimit};

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

#[test]
fn room() {
    judge(&[
        Case {
            name: "a full node",
            legal: |s| {
                s.placed(NODE_A, web(3000));
                s.placed(NODE_A, web(1000));
            },
            breakage: |s| s.spec(1).requests.set("cpu", 1001),
            found: &["Insufficient"],
        },
        Case {
            name: "running and terminating pods take room, finished ones do not",
            legal: |s| {
                s.running("node-a", web(1000));
                let leaving = s.running("node-a", web(1000));
                s.snapshot.pods[leaving].deleting = true;
                let done = s.running("node-a", web(1000));
                s.snapshot.pods[done].phase = PodPhase::Succeeded;
                s.placed(NODE_A, web(2000));
            },
            breakage: |s| s.spec(3).requests.set("cpu", 2001),
            found: &["Insufficient"],
        },
        Case {
            name: "an extended resource that no node has, but a request of none is none",
            legal: |s| {
                let pod = s.placed(NODE_A, web(100));
                s.spec(pod).requests.set("gpu", 0);
            },
            breakage: |s| s.spec(0).requests.set("gpu", 1),
            found: &["Insufficient"],
        },
        Case {
            name: "a DaemonSet that has no pod on the node yet",
            legal: |s| {
                s.daemon_set("agent", app("agent", 500));
                s.placed(NODE_A, web(3500));
            },
            breakage: |s| s.spec(0).requests.set("cpu", 3501),
            found: &["Insufficient"],
        },
        Case {
            name: "a DaemonSet that has a pod on the node counts once",
            legal: |s| {
                s.daemon_set("agent", app("agent", 500));
                let agent = s.running("node-a", app("agent", 400));
                s.snapshot.pods[agent].namespace = "system".into();
                s.snapshot.pods[agent].daemon_set = Some("agent".into());
                s.placed(NODE_A, web(3600));
            },
            breakage: |s| s.snapshot.pods[0].daemon_set = None,
            found: &["Insufficient"],
        },
        Case {
            name: "DaemonSet overhead on a new node",
            legal: |s| {
                s.daemon_set("agent", app("agent", 500));
                s.launch("small", "a");
                s.placed(NEW, web(1400));
            },
            breakage: |s| {
                s.spec(0).requests.set("cpu", 1401);
                s.settle();
            },
            found: &["Insufficient"],
        },
        Case {
            name: "a DaemonSet keeps off tainted nodes unless it tolerates, and cordons do not matter to it",
            legal: |s| {
                s.daemon_set("agent", app("agent", 500));
                s.snapshot.nodes[0].taints.push(taint());
                s.snapshot.nodes[1].taints.push(Taint::new(
                    names::TAINT_UNSCHEDULABLE,
                    "",
                    TaintEffect::NoSchedule,
                ));
                let everything = Toleration { key: None, value: None, effect: None };
                for (node, cpu) in [(NODE_A, 4000), (NODE_B, 3500)] {
                    let pod = s.placed(node, web(cpu));
                    s.spec(pod).tolerations.push(everything.clone());
                }
            },
            breakage: |s| {
                Arc::make_mut(&mut s.snapshot.daemon_sets[0].spec).tolerations.push(toleration());
            },
            found: &["Insufficient"],
        },
        Case {
            name: "a host port of a running pod",
            legal: |s| {
                s.running("node-a", PodSpec { host_ports: vec![port(80)], ..web(100) });
                s.placed(NODE_A, PodSpec { host_ports: vec![port(81)], ..web(100) });
            },
            breakage: |s| s.spec(1).host_ports = vec![port(80)],
            found: &["HostPort"],
        },
        Case {
            name: "a host port of a pod bound before",
            legal: |s| {
                s.placed(NODE_A, PodSpec { host_ports: vec![port(80)], ..web(100) });
                s.placed(NODE_B, PodSpec { host_ports: vec![port(80)], ..web(100) });
            },
            breakage: |s| s.rebind(1, NODE_A),
            found: &["HostPort"],
        },
        Case {
            name: "a host port of a DaemonSet on a new node",
            legal: |s| {
                s.daemon_set("agent", PodSpec { host_ports: vec![port(80)], ..app("agent", 100) });
                s.launch("small", "a");
                s.placed(NEW, PodSpec { host_ports: vec![port(81)], ..web(100) });
            },
            breakage: |s| s.spec(0).host_ports = vec![port(80)],
            found: &["HostPort"],
        },
    ]);
}

#[test]
fn node_labels_and_taints() {
    judge(&[
        Case {
            name: "the wrong zone by node selector",
            legal: |s| {
                let spec = PodSpec { node_selector: vec![Expression::equals(names::ZONE, "a")], ..web(100) };
                s.placed(NODE_A, spec);
            },
            breakage: |s| s.rebind(0, NODE_B),
            found: &["NodeSelector"],
        },
        Case {
            name: "the wrong zone by node affinity",
            legal: |s| {
                s.launch("small", "b");
                s.placed(NEW, PodSpec { node_affinity: in_zone("b"), ..web(100) });
            },
            breakage: |s| s.spec(0).node_affinity = in_zone("a"),
            found: &["NodeAffinity"],
        },
        Case {
            name: "a node affinity without terms matches nothing",
            legal: |s| {
                s.placed(NODE_A, web(100));
            },
            breakage: |s| s.spec(0).node_affinity = Some(Vec::new()),
            found: &["NodeAffinity"],
        },
        Case {
            name: "the node's own name",
            legal: |s| {
                let fields = vec![Expression::equals("metadata.name", "node-a")];
                let term = NodeTerm { expressions: Vec::new(), fields };
                s.placed(NODE_A, PodSpec { node_affinity: Some(vec![term]), ..web(100) });
            },
            breakage: |s| s.rebind(0, NODE_B),
            found: &["NodeAffinity"],
        },
        Case {
            name: "a taint of a node",
            legal: |s| {
                s.snapshot.nodes[0].taints.push(taint());
                s.placed(NODE_A, PodSpec { tolerations: vec![toleration()], ..web(100) });
            },
            breakage: |s| s.spec(0).tolerations.clear(),
            found: &["UntoleratedTaint"],
        },
        Case {
            name: "a taint of a pool",
            legal: |s| {
                s.pool().taints.push(taint());
                s.launch("small", "a");
                s.placed(NEW, PodSpec { tolerations: vec![toleration()], ..web(100) });
            },
            breakage: |s| s.spec(0).tolerations.clear(),
            found: &["UntoleratedTaint"],
        },
        Case {
            name: "a taint that only prefers",
            legal: |s| {
                s.snapshot.nodes[0].taints.push(Taint::new("team", "a", TaintEffect::PreferNoSchedule));
                s.placed(NODE_A, web(100));
            },
            breakage: |s| s.snapshot.nodes[0].taints[0].effect = TaintEffect::NoExecute,
            found: &["UntoleratedTaint"],
        },
        Case {
            name: "a startup taint passes while the node starts",
            legal: |s| {
                s.pool().startup_taints.push(taint());
                s.snapshot.nodes[0].taints.push(taint());
                s.snapshot.nodes[0].pool = Some("default".into());
                s.snapshot.nodes[0].state = NodeState::Starting;
                s.placed(NODE_A, web(100));
            },
            breakage: |s| s.snapshot.nodes[0].state = NodeState::Running,
            found: &["UntoleratedTaint"],
        },
    ]);
}

#[test]
fn volumes() {
    judge(&[
        Case {
            name: "the wrong zone by volume",
            legal: |s| {
                s.claim("data", "a");
                s.launch("small", "a");
                let pod = s.placed(NEW, web(100));
                s.use_claims(pod, &["data"]);
            },
            breakage: |s| {
                s.rebind(0, NODE_B);
                s.settle();
            },
            found: &["VolumeTopology"],
        },
        Case {
            name: "a claim that does not exist",
            legal: |s| {
                s.claim("data", "a");
                let pod = s.placed(NODE_A, web(100));
                s.use_claims(pod, &["data"]);
            },
            breakage: |s| s.use_claims(0, &["other"]),
            found: &["VolumeUnusable"],
        },
        Case {
            name: "one volume too many on a node, where a shared one counts once",
            legal: |s| {
                for name in ["one", "two", "three"] {
                    s.claim(name, "a");
                }
                let running = s.running("node-a", web(100));
                s.use_claims(running, &["one"]);
                let pod = s.placed(NODE_A, web(100));
                s.use_claims(pod, &["one", "two"]);
            },
            breakage: |s| s.use_claims(1, &["two", "three"]),
            found: &["AttachLimit"],
        },
        Case {
            name: "one volume too many on a new node",
            legal: |s| {
                s.snapshot.storage.classes.insert("standard".into(), waiting_class("csi"));
                s.launch("small", "a");
                for pod in 0..3 {
                    s.placed(if pod < 2 { NEW } else { NODE_A }, web(100));
                    let claim = format!("claim-{pod}").into();
                    s.snapshot.pods[pod].volumes =
                        [VolumeRef::Ephemeral { claim, storage_class: None }].into();
                }
            },
            breakage: |s| {
                s.rebind(2, NEW);
                s.settle();
            },
            found: &["AttachLimit"],
        },
        Case {
            name: "a claim for one pod only",
            legal: |s| {
                s.claim("data", "a");
                s.claim("other", "a");
                for claim in s.snapshot.storage.claims.values_mut() {
                    claim.single_pod = true;
                }
                let running = s.running("node-a", web(100));
                s.use_claims(running, &["data"]);
                let pod = s.placed(NODE_A, web(100));
                s.use_claims(pod, &["other"]);
            },
            breakage: |s| s.use_claims(1, &["data"]),
            found: &["VolumeInUse"],
        },
    ]);
}

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
                    s.placed(NODE_A, PodSpec { node_affinity: in_zone("a"), ..spec });
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
            breakage: |s| s.plan.launches[0].allocatable.set("cpu", 2000),
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
            breakage: |s| drop(s.plan.launches[0].labels.remove(names::ARCH)),
            found: &["Launch.MissingLabel"],
        },
        Case {
            name: "an offering's label forgotten",
            legal: one,
            breakage: |s| drop(s.plan.launches[0].labels.remove(names::REGION)),
            found: &["Launch.MissingLabel"],
        },
        Case {
            name: "an invented label",
            legal: |s| {
                s.pool().requirements.add(&expression("team", Operator::Exists, &[]));
                one(s);
                s.plan.launches[0].labels.insert("team".into(), "a".into());
            },
            breakage: |s| drop(s.plan.launches[0].labels.insert("rack".into(), "1".into())),
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
                s.plan.launches[0].labels.insert("team".into(), "a".into());
            },
            breakage: |s| drop(s.plan.launches[0].labels.remove("team")),
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
            breakage: |s| s.plan.launches[0].requests.set("cpu", 99),
            found: &["Launch.WrongRequests"],
        },
        Case {
            name: "requests that forget the DaemonSets",
            legal: |s| {
                s.daemon_set("agent", app("agent", 500));
                one(s);
            },
            breakage: |s| s.plan.launches[0].requests = web(100).requests,
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
            breakage: |s| s.plan.launches[0].alternatives[0].instance_type = "huge".into(),
            found: &["Alternative.NotOffered"],
        },
        Case {
            name: "an unknown zone",
            legal: with_alternative,
            breakage: |s| s.plan.launches[0].alternatives[0].zone = "c".into(),
            found: &["Alternative.NotOffered"],
        },
        Case {
            name: "a wrong price",
            legal: with_alternative,
            breakage: |s| s.plan.launches[0].alternatives[0].price_per_hour = Price::ZERO,
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
                s.placed(NEW, PodSpec { node_affinity: in_zone("a"), ..web(100) });
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
                s.plan.launches[0].labels.insert("team".into(), "a".into());
                s.placed(NEW, PodSpec { node_selector: vec![Expression::equals("team", "a")], ..web(100) });
                s.alternative("large", "b");
            },
            breakage: |s| s.sold("large", |t| drop(t.labels.insert("team".into(), "b".into()))),
            found: &["Alternative.Unsuited"],
        },
        Case {
            name: "too few values",
            legal: two_sizes,
            breakage: |s| s.plan.launches[0].alternatives.clear(),
            found: &["Launch.MinValues"],
        },
        Case {
            name: "given up under the strict policy",
            legal: |s| {
                two_sizes(s);
                s.policy.min_values = MinValuesPolicy::BestEffort;
                s.plan.launches[0].min_values_relaxed = true;
                s.plan.launches[0].alternatives.clear();
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
            breakage: |s| s.plan.launches[0].alternatives.clear(),
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
