//! The rules that look at one node: room, labels, taints, volumes.

use super::*;

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
                s.placed(NEW, PodSpec { node_affinity: Some(in_zone("b")), ..web(100) });
            },
            breakage: |s| s.spec(0).node_affinity = Some(in_zone("a")),
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
