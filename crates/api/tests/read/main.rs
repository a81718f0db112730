//! Manifests in, a snapshot and problems out.

mod clouds;
mod disruption;
mod problems;

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::{Assembled, Context, Source, assemble, read};
use berth_core::catalog::{CapacityType, Catalog, InstanceType, Offering};
use berth_core::names::{self, Labels, Text};
use berth_core::resources::Resources;
use berth_core::units::Price;

/// A catalog of two types, two zones, on demand and spot; VPSie's offering id on the offerings.
fn catalog() -> Arc<Catalog> {
    let offering = |zone: &str, capacity_type, micro_usd| Offering {
        zone: zone.into(),
        capacity_type,
        price: Price::from_micro_usd(micro_usd),
        estimated: false,
        available: true,
        remaining: None,
        labels: Labels::from([("autoscaler.vpsie.com/offering".into(), format!("id-{zone}").into())]),
    };
    let instance_type = |name: &str, cpu: i64| {
        Arc::new(InstanceType {
            name: name.into(),
            labels: Labels::from([
                ("node.kubernetes.io/instance-type".into(), name.into()),
                ("kubernetes.io/arch".into(), "amd64".into()),
            ]),
            capacity: Resources::of(&[("cpu", cpu * 1000), ("memory", cpu << 32), ("pods", 110)]),
            overhead: Resources::of(&[("cpu", 100)]),
            volume_limits: BTreeMap::new(),
            offerings: ["a", "b"]
                .into_iter()
                .flat_map(|zone| {
                    [
                        offering(zone, CapacityType::OnDemand, cpu * 50_000),
                        offering(zone, CapacityType::Spot, cpu * 20_000),
                    ]
                })
                .collect(),
        })
    };
    Arc::new(Catalog {
        name: "test".into(),
        types: vec![instance_type("large", 4), instance_type("small", 2)],
    })
}

fn assembled(text: &str) -> Assembled {
    assembled_at(text, "2026-01-05T12:00:00Z", Price::ZERO)
}

fn assembled_at(text: &str, now: &str, node_cost: Price) -> Assembled {
    let source = Source::Text { name: "in.yaml".into(), text: text.into() };
    let context = Context { now: now.parse().unwrap_or_default(), node_cost };
    assemble(read(&[source], &mut |_, _| {}), &context, &mut |_| Ok(catalog()))
}

/// The facts of a snapshot that these tests are about, a line each.
fn facts(text: &str) -> String {
    let Assembled { snapshot, unavailable, skipped, problems, .. } = assembled(text);
    let mut out: Vec<String> = Vec::new();
    let labels =
        |labels: &Labels| labels.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(",");
    for pod in &snapshot.pods {
        let node = pod.node.as_ref().map_or(String::new(), |node| format!(" on {node}"));
        let volumes =
            pod.volumes.iter().map(|v| format!(" volume {}", v.claim())).collect::<Vec<_>>().concat();
        let daemon = pod.daemon_set.as_ref().map_or(String::new(), |name| format!(" of daemon {name}"));
        out.push(format!("pod {} {:?} {}{node}{daemon}{volumes}", pod.id(), pod.origin, pod.spec.requests));
    }
    for node in &snapshot.nodes {
        let pool = node.pool.as_deref().unwrap_or("-");
        let price = node.price.map_or("-".to_owned(), |price| price.to_string());
        let taints = node.taints.iter().map(|taint| format!(" {taint}")).collect::<Vec<_>>().concat();
        out.push(format!(
            "node {} {:?} pool {pool} price {price} {}{taints}",
            node.name, node.state, node.allocatable
        ));
    }
    for pool in &snapshot.pools {
        let requirements: Vec<_> = pool.requirements.iter().map(|(k, set)| format!("{k} {set}")).collect();
        let types: Vec<_> = pool.types.iter().map(|t| format!("{}*{}", t.name, t.offerings.len())).collect();
        let blocked = pool.blocked.as_ref().map_or(String::new(), |refusal| format!(" blocked {refusal}"));
        let nodes = pool.limits.nodes.map_or(String::new(), |nodes| format!(" nodes<={nodes}"));
        let replicas = pool.replicas.map_or(String::new(), |replicas| format!(" replicas {replicas}"));
        out.push(format!(
            "pool {} weight {} min {} [{}]{nodes}{replicas} requires {} labels {} types {}{blocked}",
            pool.name,
            pool.weight,
            pool.nodes_min,
            pool.limits.resources,
            requirements.join(" and "),
            labels(&pool.labels),
            types.join(" ")
        ));
    }
    for set in &snapshot.daemon_sets {
        out.push(format!("daemon {}/{} {}", set.namespace, set.name, set.spec.requests));
    }
    for (name, of) in &snapshot.namespaces {
        let mut further = of.clone();
        let own = further.remove(names::NAMESPACE_NAME);
        assert_eq!(own.as_ref(), Some(name), "every namespace is labelled with its name");
        if !further.is_empty() {
            out.push(format!("namespace {name} {}", labels(&further)));
        }
    }
    for pod in &snapshot.pods {
        assert!(snapshot.namespaces.contains_key(&pod.namespace), "{}", pod.id());
    }
    for ((namespace, name), claim) in &snapshot.storage.claims {
        let class = claim.storage_class.as_deref().unwrap_or("-");
        out.push(format!("claim {namespace}/{name} {class}"));
    }
    for limit in &snapshot.shared_limits {
        out.push(format!("shared {} nodes<={}", limit.pools.join(","), limit.nodes_max));
    }
    for pattern in &unavailable {
        let text = |text: &Option<Text>| text.as_deref().unwrap_or("*").to_owned();
        out.push(format!("unavailable {} {}", text(&pattern.instance_type), text(&pattern.zone)));
    }
    for skipped in &skipped {
        out.push(format!("skipped {} {}", skipped.kind, skipped.count));
    }
    for problem in &problems {
        out.push(format!("problem {problem}"));
    }
    out.join("\n")
}

/// Each case is a name, manifests, and the facts that must come of them.
fn check(cases: &[(&str, &str, &str)]) {
    let squeezed =
        |text: &str| text.lines().map(str::trim).filter(|l| !l.is_empty()).collect::<Vec<_>>().join("\n");
    for (name, manifests, expected) in cases {
        assert_eq!(squeezed(&facts(manifests)), squeezed(expected), "{name}");
    }
}

const KWOK_REF: &str = "{group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}";

fn node_pool(name: &str, template: &str, rest: &str) -> String {
    format!(
        "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {{name: {name}}}\nspec:\n  template:\n    spec: {{nodeClassRef: {KWOK_REF}, {template}}}\n  {rest}\n---\n"
    )
}

#[test]
fn pods() {
    check(&[
        (
            "a pod, its priority class, what else is there",
            "
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{resources: {requests: {cpu: 500m}}}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: c}
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Secret}
- {apiVersion: v1, kind: ConfigMap}
- {apiVersion: v1, kind: Namespace, metadata: {name: default, labels: {team: a}}}
",
            "
pod default/web Object cpu 500m, pods 1
namespace default team=a
skipped ConfigMap 2
skipped Secret 1
",
        ),
        (
            "bound, owned, with volumes",
            "
apiVersion: v1
kind: PodList
items:
- metadata: {name: d, namespace: kube-system, ownerReferences: [{kind: DaemonSet, name: agent, controller: true}]}
  spec: {nodeName: n1, containers: [{}]}
- metadata: {name: v}
  spec:
    containers: [{}]
    volumes:
    - {name: data, persistentVolumeClaim: {claimName: data-0}}
    - {name: tmp, ephemeral: {volumeClaimTemplate: {spec: {storageClassName: fast}}}}
    - {name: none, emptyDir: {}}
",
            "
pod default/v Object pods 1 volume data-0 volume v-tmp
pod kube-system/d Object pods 1 on n1 of daemon agent
",
        ),
        (
            "defaults of the namespace are for pods that were not admitted yet",
            "
apiVersion: v1
kind: LimitRange
metadata: {name: limits}
spec: {limits: [{type: Container, default: {memory: 1Gi}, defaultRequest: {cpu: 100m}}, {type: Pod, max: {cpu: 8}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: new}
spec: {containers: [{}]}
---
apiVersion: v1
kind: Pod
metadata: {name: old}
spec: {priority: 0, containers: [{}]}
---
apiVersion: v1
kind: Pod
metadata: {name: elsewhere, namespace: other}
spec: {containers: [{}]}
",
            "
pod default/new Object cpu 100m, memory 1Gi, pods 1
pod default/old Object pods 1
pod other/elsewhere Object pods 1
",
        ),
        (
            "a runtime's overhead",
            "
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: kata}
handler: kata
overhead: {podFixed: {cpu: 250m}}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {runtimeClassName: kata, containers: [{resources: {requests: {cpu: 1}}}]}
",
            "pod default/p Object cpu 1250m, pods 1",
        ),
    ]);
}

#[test]
fn json_and_yaml_give_the_same() {
    let json = r#"{"apiVersion": "v1", "items": [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "creationTimestamp": null},
         "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": 0.5}}, "ports": null}], "nodeSelector": null}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b"}, "spec": {"containers": [{"resources": {"requests": {"cpu": "\u0031"}}}]}}
    ], "kind": "List"}"#;
    let yaml = "
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{resources: {requests: {cpu: 500m}}}]}}
- {apiVersion: v1, kind: Pod, metadata: {name: b}, spec: {containers: [{resources: {requests: {cpu: 1}}}]}}
";
    let expected = "pod default/a Object cpu 500m, pods 1\npod default/b Object cpu 1, pods 1";
    check(&[("json", json, expected), ("yaml", yaml, expected)]);
}

#[test]
fn workloads() {
    let template = "template: {metadata: {labels: {app: web}}, spec: {containers: [{}]}}";
    let deployment = |replicas: u32| {
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web}}\nspec: {{replicas: {replicas}, selector: {{matchLabels: {{app: web}}}}, {template}}}\n---\n"
        )
    };
    let pod = |name: &str, owner: &str, more: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, labels: {{app: web, pod-template-hash: abc}}, ownerReferences: [{owner}]}}\nspec: {{containers: [{{}}]}}\nstatus: {{{more}}}\n---\n"
        )
    };
    let set = |name: &str, owner: &str| {
        format!(
            "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {{name: {name}, ownerReferences: [{owner}]}}\nspec: {{replicas: 3, {template}}}\n---\n"
        )
    };
    let by_set = "{kind: ReplicaSet, name: web-abc, controller: true}";
    let by_deployment = "{kind: Deployment, name: web, controller: true}";
    let stateful = |spec: &str| {
        format!(
            "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {{name: db}}\nspec: {{replicas: 3, {spec}, template: {{spec: {{containers: [{{}}], volumes: [{{name: data, persistentVolumeClaim: {{claimName: other}}}}]}}}}}}\n---\n"
        )
    };
    let job = |name: &str, owner: &str, spec: &str| {
        format!(
            "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: {name}, ownerReferences: [{owner}]}}\nspec: {{{spec} template: {{spec: {{containers: [{{}}]}}}}}}\n---\n"
        )
    };
    let with_status = |status: &str| {
        job("j", "", "parallelism: 3,").replace("\n---\n", &format!("\nstatus: {status}\n---\n"))
    };
    let cron = |spec: &str| {
        format!(
            "apiVersion: batch/v1\nkind: CronJob\nmetadata: {{name: nightly}}\nspec: {{{spec} jobTemplate: {{spec: {{parallelism: 2, template: {{spec: {{containers: [{{}}]}}}}}}}}}}\n---\n"
        )
    };
    let made = |names: &[&str]| {
        names.iter().map(|name| format!("pod default/{name} Workload pods 1\n")).collect::<Vec<_>>().concat()
    };
    let given = |names: &[&str]| {
        names.iter().map(|name| format!("pod default/{name} Object pods 1\n")).collect::<Vec<_>>().concat()
    };
    let cases = [
        ("a deployment", deployment(2), made(&["web-0", "web-1"])),
        ("one pod unless it says otherwise", deployment(1).replace("replicas: 1, ", ""), made(&["web-0"])),
        ("scaled to nothing", deployment(0), String::new()),
        (
            "two of three are there, by the hash in their set's name",
            deployment(3) + &pod("x", by_set, "") + &pod("z", by_set, "phase: Running"),
            made(&["web-0"]) + &given(&["x", "z"]),
        ),
        (
            "a finished pod does not count",
            deployment(2) + &pod("x", by_set, "phase: Failed"),
            made(&["web-0", "web-1"]) + &given(&["x"]),
        ),
        (
            "a set that belongs to a deployment is not expanded again",
            deployment(2) + &set("web-abc", by_deployment) + &pod("x", by_set, ""),
            made(&["web-0"]) + &given(&["x"]),
        ),
        ("a set by itself", set("web-abc", ""), made(&["web-abc-0", "web-abc-1", "web-abc-2"])),
        (
            "a pod without an owner is adopted by its labels",
            deployment(2) + &pod("x", "", ""),
            made(&["web-0"]) + &given(&["x"]),
        ),
        (
            "a pod of another owner is not",
            deployment(1) + &pod("x", "{kind: Thing, name: web, controller: true}", ""),
            made(&["web-0"]) + &given(&["x"]),
        ),
        (
            "names that are taken are stepped over",
            deployment(1) + &pod("web-0", "{kind: Thing, name: web, controller: true}", ""),
            "pod default/web-0 Object pods 1\npod default/web-1 Workload pods 1".to_owned(),
        ),
        (
            "a stateful set has fixed names and its own claims",
            stateful("volumeClaimTemplates: [{metadata: {name: data}, spec: {storageClassName: fast}}]")
                + &pod("db-1", "{kind: StatefulSet, name: db, controller: true}", "")
                + "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data-db-2}\nspec: {storageClassName: slow}\n",
            "
pod default/db-0 Workload pods 1 volume data-db-0
pod default/db-1 Object pods 1
pod default/db-2 Workload pods 1 volume data-db-2
claim default/data-db-0 fast
claim default/data-db-2 slow
"
            .to_owned(),
        ),
        (
            "ordinals may start anywhere",
            stateful("ordinals: {start: 5}"),
            ["db-5", "db-6", "db-7"]
                .map(|n| format!("pod default/{n} Workload pods 1 volume other\n"))
                .concat(),
        ),
        ("a job", job("j", "", "parallelism: 3, completions: 2,"), made(&["j-0", "j-1"])),
        ("a job with a queue", job("j", "", "parallelism: 3,"), made(&["j-0", "j-1", "j-2"])),
        ("a suspended job", job("j", "", "suspend: true,"), String::new()),
        (
            "a job that has failed",
            with_status("{conditions: [{type: Failed, status: 'True'}]}"),
            String::new(),
        ),
        (
            "a job that is done",
            with_status("{conditions: [{type: Complete, status: 'True'}]}"),
            String::new(),
        ),
        (
            "a job that has begun",
            with_status("{succeeded: 1, conditions: [{type: Suspended, status: 'False'}]}"),
            made(&["j-0", "j-1", "j-2"]),
        ),
        ("one run of a cron job", cron(""), made(&["nightly-0", "nightly-1"])),
        ("a suspended cron job", cron("suspend: true,"), String::new()),
        (
            "a job of a cron job is that run",
            cron("")
                + &job("nightly-123", "{kind: CronJob, name: nightly, controller: true}", "parallelism: 2,"),
            made(&["nightly-0", "nightly-1"]),
        ),
        (
            "pods of that job count",
            cron("") + &pod("x", "{kind: Job, name: nightly-123, controller: true}", ""),
            made(&["nightly-0"]) + &given(&["x"]),
        ),
    ];
    for (name, manifests, expected) in &cases {
        check(&[(name, manifests, expected)]);
    }
}

#[test]
fn buffers() {
    let template = "apiVersion: v1\nkind: PodTemplate\nmetadata: {name: t}\ntemplate: {spec: {containers: [{resources: {requests: {cpu: 1}}}]}}\n---\n";
    let deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: 4, template: {spec: {containers: [{}]}}}\n---\n";
    let buffer = |spec: &str| {
        format!(
            "apiVersion: autoscaling.x-k8s.io/v1beta1\nkind: CapacityBuffer\nmetadata: {{name: b}}\nspec: {{{spec}}}\n"
        )
    };
    let room = |count: u32, requests: &str| {
        (0..count)
            .map(|i| format!("pod default/b-buffer-{i} Buffer {requests}\n"))
            .collect::<Vec<_>>()
            .concat()
    };
    let workload =
        (0..4).map(|i| format!("pod default/web-{i} Workload pods 1\n")).collect::<Vec<_>>().concat();
    let cases = [
        ("of a template", template.to_owned() + &buffer("podTemplateRef: {name: t}, replicas: 2"), room(2, "cpu 1, pods 1")),
        (
            "within limits",
            template.to_owned() + &buffer("podTemplateRef: {name: t}, replicas: 5, limits: {cpu: 3}"),
            room(3, "cpu 1, pods 1"),
        ),
        (
            "a share of a workload",
            deployment.to_owned() + &buffer("scalableRef: {apiGroup: apps, kind: Deployment, name: web}, percentage: 30"),
            room(2, "pods 1") + &workload,
        ),
        (
            "of a template that is not there",
            buffer("podTemplateRef: {name: t}, replicas: 2"),
            "problem in.yaml:4: CapacityBuffer/b: spec.podTemplateRef.name: there is no PodTemplate `t` in the namespace default; add it".to_owned(),
        ),
        (
            "of nothing",
            buffer("replicas: 2"),
            "problem in.yaml:4: CapacityBuffer/b: spec: must have exactly one of podTemplateRef and scalableRef".to_owned(),
        ),
    ];
    for (name, manifests, expected) in &cases {
        check(&[(name, manifests, expected)]);
    }
}

#[test]
fn progress_is_told() {
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{}]}\n".to_owned();
    let (mut last, length) = ((0, 0), text.len());
    read(&[Source::Text { name: "in.yaml".into(), text }], &mut |bytes, objects| last = (bytes, objects));
    assert_eq!(last, (length, 1));
}

#[test]
fn the_order_of_documents_cannot_be_seen() {
    let documents = [
        node_pool("b", "requirements: []", ""),
        node_pool("a", "requirements: []", ""),
        "apiVersion: v1\nkind: Pod\nmetadata: {name: z}\nspec: {priorityClassName: high, containers: [{}]}\n---\n".to_owned(),
        "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {containers: [{}]}\n---\n".to_owned(),
        "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 1000\n---\n".to_owned(),
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: 2, template: {spec: {containers: [{}]}}}\n---\n".to_owned(),
        "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: web}\nspec: {replicas: 2, template: {spec: {containers: [{}]}}}\n---\n".to_owned(),
    ];
    let forwards = format!("{:?}", assembled(&documents.concat()).snapshot);
    let backwards: String = documents.iter().rev().cloned().collect();
    assert_eq!(format!("{:?}", assembled(&backwards).snapshot), forwards);
}

#[test]
fn priorities_come_from_their_classes() {
    let text = "
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: usual}
value: 5
globalDefault: true
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 1000
---
apiVersion: v1
kind: PodList
items:
- {metadata: {name: a}, spec: {priorityClassName: high, containers: [{}]}}
- {metadata: {name: b}, spec: {priorityClassName: system-node-critical, containers: [{}]}}
- {metadata: {name: c}, spec: {containers: [{}]}}
- {metadata: {name: d}, spec: {priority: 7, priorityClassName: unknown, containers: [{}]}}
";
    let assembled = assembled(text);
    let priorities: Vec<i32> = assembled.snapshot.pods.iter().map(|pod| pod.spec.priority).collect();
    assert_eq!(priorities, [1000, 2_000_001_000, 5, 7]);
}

#[test]
fn placement_is_read_with_its_defaults() {
    let text = "
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {app: web, hash: h1}}
spec:
  nodeSelector: {failure-domain.beta.kubernetes.io/zone: a}
  hostNetwork: true
  containers: [{ports: [{containerPort: 80}, {containerPort: 53, protocol: UDP, hostIP: 10.0.0.1}]}]
  topologySpreadConstraints:
  - {maxSkew: 2, topologyKey: failure-domain.beta.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: web}}, matchLabelKeys: [hash, absent]}
  affinity:
    podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
      - {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}, mismatchLabelKeys: [hash], namespaces: [b, a]}
  schedulingGates: [{name: wait}]
";
    let assembled = assembled(text);
    assert_eq!(assembled.problems, []);
    let spec = &assembled.snapshot.pods[0].spec;
    let ports: Vec<String> = spec.host_ports.iter().map(ToString::to_string).collect();
    let spread = &spec.spread[0];
    let term = &spec.anti_affinity[0];
    for (actual, expected) in [
        (spec.node_selector[0].to_string(), "topology.kubernetes.io/zone In [a]"),
        (ports.join(" "), "0.0.0.0:80/Tcp 10.0.0.1:53/Udp"),
        (spread.topology_key.to_string(), "topology.kubernetes.io/zone"),
        (spread.selector.as_ref().unwrap().to_string(), "app In [web] and hash In [h1]"),
        (
            format!(
                "{} {} {} {} {}",
                spread.max_skew,
                spread.required,
                spread.min_domains,
                spread.honor_node_affinity,
                spread.honor_node_taints
            ),
            "2 false 1 true false",
        ),
        (term.selector.as_ref().unwrap().to_string(), "app In [web] and hash NotIn [h1]"),
        (term.namespaces.join(","), "a,b"),
        (spec.scheduling_gates.join(","), "wait"),
    ] {
        assert_eq!(actual, expected);
    }
}
