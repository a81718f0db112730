//! Manifests in, a snapshot and problems out.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::{Allowance, Assembled, Share, Source, assemble, read};
use berth_core::catalog::{CapacityType, Catalog, InstanceType, Offering};
use berth_core::names::{Labels, Text};
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
    let source = Source::Text { name: "in.yaml".into(), text: text.into() };
    let read = read(&[source], &mut |_, _| {});
    assemble(read, &mut |_| Ok(catalog()))
}

/// The facts of a snapshot that these tests are about, a line each.
fn facts(text: &str) -> String {
    let Assembled { snapshot, unavailable, skipped, problems } = assembled(text);
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
        out.push(format!("namespace {name} {}", labels(of)));
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
fn nodes() {
    let pool = node_pool("default", "requirements: []", "");
    let pool_fact =
        "pool default weight 0 min 0 [] requires  labels karpenter.sh/nodepool=default types large*4 small*4";
    let node = |labels: &str, spec: &str, status: &str| {
        format!(
            "apiVersion: v1\nkind: Node\nmetadata: {{name: node, labels: {{{labels}}}}}\nspec: {{{spec}}}\nstatus: {{{status}}}\n---\n"
        )
    };
    let ours = "karpenter.sh/nodepool: default, karpenter.sh/initialized: 'true', node.kubernetes.io/instance-type: large, topology.kubernetes.io/zone: a, karpenter.sh/capacity-type: spot";
    let room = "allocatable: {cpu: 3900m}";
    let claim = |metadata: &str, status: &str| {
        format!(
            "apiVersion: karpenter.sh/v1\nkind: NodeClaim\nmetadata: {{name: c, labels: {{karpenter.sh/nodepool: default}}{metadata}}}\nspec: {{requirements: [{{key: node.kubernetes.io/instance-type, operator: In, values: [small]}}, {{key: topology.kubernetes.io/zone, operator: In, values: [b]}}], nodeClassRef: {KWOK_REF}}}\nstatus: {{{status}}}\n---\n"
        )
    };
    let cases = [
        ("a foreign node", node("", "", "capacity: {cpu: 2}"), "node node Running pool - price - cpu 2".to_owned()),
        (
            "cordoned",
            node("", "unschedulable: true", room),
            "node node Running pool - price - cpu 3900m node.kubernetes.io/unschedulable:NoSchedule".to_owned(),
        ),
        (
            "of a pool, with its price",
            pool.clone() + &node(ours, "", room),
            format!("node node Running pool default price 0.080000 cpu 3900m\n{pool_fact}"),
        ),
        (
            "under the labels of old",
            pool.clone()
                + &node(
                    "karpenter.sh/nodepool: default, karpenter.sh/initialized: 'true', beta.kubernetes.io/instance-type: small, failure-domain.beta.kubernetes.io/zone: b",
                    "",
                    room,
                ),
            format!("node node Running pool default price 0.100000 cpu 3900m\n{pool_fact}"),
        ),
        (
            "not initialized yet",
            pool.clone() + &node(&ours.replace("'true'", "'false'"), "taints: [{key: cni, effect: NoSchedule}]", room),
            format!("node node Starting pool default price 0.080000 cpu 3900m cni:NoSchedule\n{pool_fact}"),
        ),
        (
            "on its way out",
            node("", "taints: [{key: karpenter.sh/disrupted, effect: NoSchedule}]", room),
            "node node Deleting pool - price - cpu 3900m karpenter.sh/disrupted:NoSchedule".to_owned(),
        ),
        (
            "a claim without a node",
            pool.clone() + &claim("", ""),
            format!("node c Starting pool default price 0.100000 cpu 1900m, memory 8Gi, pods 110\n{pool_fact}"),
        ),
        (
            "a claim that says what it has",
            pool.clone() + &claim("", "nodeName: gone, capacity: {cpu: 2}, allocatable: {cpu: 1500m}"),
            format!("node c Starting pool default price 0.100000 cpu 1500m\n{pool_fact}"),
        ),
        (
            "a claim with its node",
            pool.clone() + &claim("", "nodeName: node") + &node(ours, "", room),
            format!("node node Running pool default price 0.080000 cpu 3900m\n{pool_fact}"),
        ),
        (
            "a claim that is being deleted takes its node along",
            pool.clone()
                + &claim(", deletionTimestamp: '2026-01-01T00:00:00Z'", "nodeName: node")
                + &node(ours, "", room),
            format!("node node Deleting pool default price 0.080000 cpu 3900m\n{pool_fact}"),
        ),
        (
            "a machine of VPSie on its way",
            "apiVersion: autoscaler.vpsie.com/v1alpha1\nkind: VPSieNode\nmetadata: {name: v}\nspec: {vpsieInstanceID: 1, instanceType: small, nodeGroupName: default, datacenterID: b, resourceIdentifier: r, project: p, kubernetesVersion: v1.34.1}\nstatus: {phase: Provisioning}\n---\n"
                .to_owned()
                + &pool,
            format!("node v Starting pool default price 0.100000 cpu 1900m, memory 8Gi, pods 110\n{pool_fact}"),
        ),
        (
            "a machine of VPSie that failed",
            "apiVersion: autoscaler.vpsie.com/v1alpha1\nkind: VPSieNode\nmetadata: {name: v}\nspec: {vpsieInstanceID: 1, instanceType: small, nodeGroupName: default, datacenterID: b, resourceIdentifier: r, project: p, kubernetesVersion: v1.34.1}\nstatus: {phase: Failed}\n"
                .to_owned(),
            String::new(),
        ),
        (
            "twice",
            node("", "", room) + &node("", "", room),
            "node node Running pool - price - cpu 3900m\nproblem in.yaml:9: Node/node: metadata.name: there is another Node of this name; remove one".to_owned(),
        ),
    ];
    for (name, manifests, expected) in &cases {
        check(&[(name, manifests, expected)]);
    }
}

#[test]
fn pools_of_all_dialects() {
    let kwok_class = |name: &str| {
        format!(
            "apiVersion: karpenter.kwok.sh/v1alpha1\nkind: KWOKNodeClass\nmetadata: {{name: {name}}}\nspec: {{}}\n---\n"
        )
    };
    let group = |name: &str, offerings: &str, more: &str| {
        format!(
            "apiVersion: autoscaler.vpsie.com/v1alpha1\nkind: NodeGroup\nmetadata: {{name: {name}}}\nspec: {{minNodes: 1, maxNodes: 5, datacenterID: a, offeringIDs: [{offerings}], resourceIdentifier: r, project: p, kubernetesVersion: v1.34.1{more}}}\n---\n"
        )
    };
    let constraint = |instance_type: &str| {
        format!(
            "apiVersion: sa.gardener.cloud/v1alpha1\nkind: ScalingConstraint\nmetadata: {{name: sc}}\nspec: {{nodePools: [{{name: worker, region: r, priority: 2, availabilityZones: [a, b], quota: {{cpu: 100}}, labels: {{team: a}}, nodeTemplates: [{{name: t, architecture: amd64, instanceType: {instance_type}, priority: 0, maxVolumes: 20, capacity: {{cpu: 4, memory: 16Gi}}, kubeReservedCapacity: {{cpu: 80m}}, systemReservedCapacity: {{cpu: 20m}}}}]}}]}}\n---\n"
        )
    };
    let overlay = "apiVersion: karpenter.sh/v1alpha1\nkind: NodeOverlay\nmetadata: {name: o}\nspec: {requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [large]}], capacity: {example.com/gpu: 1}}\n---\n";
    let cases = [
        (
            "a NodePool",
            node_pool(
                "default",
                "requirements: [{key: beta.kubernetes.io/arch, operator: In, values: [amd64]}, {key: cpu, operator: Gt, values: ['3']}], taints: [{key: a, effect: NoSchedule}]",
                "limits: {cpu: 10, nodes: 3}\n  weight: 7",
            ) + &kwok_class("default"),
            "pool default weight 7 min 0 [cpu 10] nodes<=3 requires cpu any value from 4 and kubernetes.io/arch [amd64] labels karpenter.sh/nodepool=default types large*4 small*4",
        ),
        (
            "a static one",
            node_pool("default", "requirements: []", "replicas: 2"),
            "pool default weight 0 min 0 [] replicas 2 requires  labels karpenter.sh/nodepool=default types large*4 small*4",
        ),
        (
            "an overlay, seen in the pool's types by its conflict alone",
            node_pool("default", "requirements: []", "") + overlay + &overlay.replace("name: o", "name: p").replace("gpu: 1", "gpu: 2"),
            "pool default weight 0 min 0 [] requires  labels karpenter.sh/nodepool=default types large*4 small*4
             problem in.yaml:17: NodeOverlay/p: spec: overlays o and p both have weight 0 and differ on example.com/gpu of large; give one of them a higher weight, or requirements that do not overlap",
        ),
        (
            "a NodeGroup and the cluster's limit",
            group("web", "large", ", labels: {team: a}")
                + &group("db", "id-a", "")
                + "apiVersion: autoscaler.vpsie.com/v1alpha1\nkind: AutoscalerConfig\nmetadata: {name: default}\nspec: {globalSettings: {maxClusterWorkers: 7}}\n",
            "pool db weight 0 min 1 [] nodes<=5 requires topology.kubernetes.io/zone [a] labels autoscaler.vpsie.com/managed=true,autoscaler.vpsie.com/nodegroup=db types large*2 small*2
             pool web weight 0 min 1 [] nodes<=5 requires team [a] and topology.kubernetes.io/zone [a] labels autoscaler.vpsie.com/managed=true,autoscaler.vpsie.com/nodegroup=web,team=a types large*4
             shared db,web nodes<=7",
        ),
        (
            "a NodeGroup with an unknown offering",
            group("web", "huge", ""),
            "pool web weight 0 min 1 [] nodes<=5 requires topology.kubernetes.io/zone [a] labels autoscaler.vpsie.com/managed=true,autoscaler.vpsie.com/nodegroup=web types  blocked PoolNotReady: spec.offeringIDs: `huge` is neither an offering nor a type of the catalog
             problem in.yaml:4: NodeGroup/web: spec.offeringIDs: `huge` is neither an offering nor a type of the catalog",
        ),
        (
            "a ScalingConstraint and its feedback",
            constraint("large")
                + "apiVersion: sa.gardener.cloud/v1alpha1\nkind: ScalingFeedback\nmetadata: {name: f}\nspec: {constraintRef: {name: sc}, scaleOutErrorInfos: [{availabilityZone: a, instanceType: large, errorType: ResourceExhaustedError, failCount: 1}]}\n",
            "pool worker weight -2 min 0 [cpu 100] requires team [a] labels sa.gardener.cloud/node-pool-name=worker,team=a types large*2
             unavailable large a",
        ),
        (
            "a template without a price",
            constraint("huge"),
            "pool worker weight -2 min 0 [cpu 100] requires team [a] labels sa.gardener.cloud/node-pool-name=worker,team=a types  blocked PoolNotReady: spec.nodePools[0].nodeTemplates[0].instanceType: the catalog has no price for `huge` in the pool's zones; add it to the catalog
             problem in.yaml:4: ScalingConstraint/sc: spec.nodePools[0].nodeTemplates[0].instanceType: the catalog has no price for `huge` in the pool's zones; add it to the catalog",
        ),
        (
            "one name for two pools",
            node_pool("web", "requirements: []", "") + &group("web", "large", ""),
            "pool web weight 0 min 0 [] requires  labels karpenter.sh/nodepool=web types large*4 small*4
             problem in.yaml:11: NodeGroup/web: metadata.name: there is another pool `web`; pools of all kinds share their names",
        ),
        (
            "a class that is not there beside one that is",
            node_pool("default", "requirements: []", "") + &kwok_class("other"),
            "pool default weight 0 min 0 [] requires  labels karpenter.sh/nodepool=default types  blocked PoolNotReady: spec.template.spec.nodeClassRef.name: there is no KWOKNodeClass `default`; the input has other
             problem in.yaml:6: NodePool/default: spec.template.spec.nodeClassRef.name: there is no KWOKNodeClass `default`; the input has other",
        ),
        (
            "a class without a catalog",
            node_pool("default", "requirements: []", "").replace("KWOKNodeClass", "GCENodeClass"),
            "pool default weight 0 min 0 [] requires  labels karpenter.sh/nodepool=default types  blocked PoolNotReady: spec.template.spec.nodeClassRef: karpenter.kwok.sh/GCENodeClass is a class without a catalog; Berth knows karpenter.kwok.sh/KWOKNodeClass and karpenter.k8s.aws/EC2NodeClass
             problem in.yaml:6: NodePool/default: spec.template.spec.nodeClassRef: karpenter.kwok.sh/GCENodeClass is a class without a catalog; Berth knows karpenter.kwok.sh/KWOKNodeClass and karpenter.k8s.aws/EC2NodeClass",
        ),
    ];
    for (name, manifests, expected) in &cases {
        check(&[(name, manifests, expected)]);
    }
}

#[test]
fn classes_and_overlays_change_what_a_pool_can_buy() {
    let pool = node_pool("default", "requirements: []", "")
        .replace("karpenter.kwok.sh", "karpenter.k8s.aws")
        .replace("KWOKNodeClass", "EC2NodeClass");
    let class = |kubelet: &str| {
        format!(
            "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {{name: default}}\nspec: {{subnetSelectorTerms: [{{id: subnet-1}}], securityGroupSelectorTerms: [{{id: sg-1}}], amiSelectorTerms: [{{alias: al2023@latest}}], role: r, kubelet: {{{kubelet}}}}}\n---\n"
        )
    };
    let overlay = |spec: &str| {
        format!(
            "apiVersion: karpenter.sh/v1alpha1\nkind: NodeOverlay\nmetadata: {{name: o}}\nspec: {{requirements: [{{key: node.kubernetes.io/instance-type, operator: In, values: [small]}}], {spec}}}\n---\n"
        )
    };
    for (more, expected) in [
        (String::new(), "cpu 1900m, memory 8Gi, pods 110 at 0.100000"),
        (class("maxPods: 20, systemReserved: {cpu: 100m}"), "cpu 1800m, memory 8Gi, pods 20 at 0.100000"),
        (overlay("priceAdjustment: '-50%'"), "cpu 1900m, memory 8Gi, pods 110 at 0.050000"),
        (
            overlay("capacity: {example.com/gpu: 1}"),
            "cpu 1900m, example.com/gpu 1, memory 8Gi, pods 110 at 0.100000",
        ),
    ] {
        let assembled = assembled(&(pool.clone() + &more));
        assert_eq!(assembled.problems, [], "{more}");
        let small = &assembled.snapshot.pools[0].types[1];
        assert_eq!(format!("{} at {}", small.allocatable(), small.offerings[0].price), expected, "{more}");
    }
}

/// What is wrong must be found at its line and field, in YAML and in JSON alike.
#[test]
fn problems_have_a_line_and_a_field() {
    let pod = |spec: &str| {
        format!("apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\nspec:\n  containers:\n  - name: c\n{spec}")
    };
    let pool = |spec: &str| {
        format!(
            "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata:\n  name: p\nspec:\n  template:\n    spec:\n      requirements: []\n{spec}"
        )
    };
    let class = format!("      nodeClassRef: {KWOK_REF}\n");
    for (manifest, expected) in [
        (
            pod("    resources:\n      requests:\n        memory: 1Gi\n        cpu: -500m\n"),
            "in.yaml:11: Pod/p: spec.containers[0].resources.requests.cpu: -500m is negative; a resource cannot be",
        ),
        (
            pod("    resources:\n      requests:\n        cpu: 2Gi\n"),
            "in.yaml:10: Pod/p: spec.containers[0].resources.requests.cpu: 2147483648 is absurd; the most is 1000000 cores, so check the suffix",
        ),
        (
            pod("    resources:\n      requests:\n        cpu: 1 core\n"),
            "in.yaml:10: Pod/p: spec.containers[0].resources.requests.cpu: `1 core` has the unknown suffix ` core`; the suffixes are n u m k M G T P E, Ki Mi Gi Ti Pi Ei, and e3 for an exponent",
        ),
        (
            pod("  affinity:\n    nodeAffinity:\n      requiredDuringSchedulingIgnoredDuringExecution:\n        nodeSelectorTerms:\n        - matchExpressions:\n          - key: a\n            operator: Like\n            values: [b]\n"),
            "in.yaml:14: Pod/p: spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].operator: `Like` is not known here; it is one of In, NotIn, Exists, DoesNotExist, Gt, Lt",
        ),
        (
            pod("  topologySpreadConstraints:\n  - maxSkew: 0\n    topologyKey: zone\n    whenUnsatisfiable: DoNotSchedule\n"),
            "in.yaml:9: Pod/p: spec.topologySpreadConstraints[0].maxSkew: 0 is out of range; it is 1 or more",
        ),
        (
            pod("  topologySpreadConstraints:\n  - maxSkew: 1\n    topologyKey: zone\n    whenUnsatisfiable: DoNotSchedule\n    matchLabelKeys: [a]\n"),
            "in.yaml:12: Pod/p: spec.topologySpreadConstraints[0].matchLabelKeys: needs a labelSelector beside it",
        ),
        (
            pod("    ports:\n    - hostPort: 70000\n"),
            "in.yaml:9: Pod/p: spec.containers[0].ports[0].hostPort: 70000 is out of range; a port is from 1 to 65535",
        ),
        (
            pod("  tolerations:\n  - key: a\n    operator: Exists\n    value: b\n"),
            "in.yaml:11: Pod/p: spec.tolerations[0].value: must be empty with the operator Exists",
        ),
        (
            pod("  priorityClassName: gold\n"),
            "in.yaml:8: Pod/p: spec.priorityClassName: the PriorityClass `gold` is not in the input; add it, or use one of system-cluster-critical, system-node-critical",
        ),
        (
            pod("  runtimeClassName: kata\n"),
            "in.yaml:8: Pod/p: spec.runtimeClassName: the RuntimeClass `kata` is not in the input; add it",
        ),
        (
            pod("  nodeSelector: [a]\n"),
            "in.yaml:8: Pod/p: spec.nodeSelector: is sequence, but must be a mapping",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n".to_owned(),
            "in.yaml:1: Pod/p: spec: is missing",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {}\nspec: {containers: [{}]}\n".to_owned(),
            "in.yaml:3: Pod: metadata.name: is missing; a plan calls each object by its name",
        ),
        (
            pod("") + "---\n" + &pod(""),
            "in.yaml:12: Pod/p: metadata.name: there is another pod of this name at in.yaml:1; remove one",
        ),
        (
            "kind: Pod\nmetadata: {name: p}\n".to_owned(),
            "in.yaml:1: Pod: apiVersion: is missing; for a Pod it is v1",
        ),
        (
            "apiVersion: karpenter.sh/v1beta1\nkind: NodePool\n".to_owned(),
            "in.yaml:1: NodePool: apiVersion: `karpenter.sh/v1beta1` is not read; write the NodePool as karpenter.sh/v1",
        ),
        (
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d, namespace: shop}\nspec:\n  replicas: -1\n  template: {spec: {containers: [{}]}}\n".to_owned(),
            "in.yaml:5: Deployment/shop/d: spec.replicas: -1 is out of range; it is from 0 to 500000",
        ),
        (
            "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: b}\nspec:\n  minAvailable: 1\n  maxUnavailable: 50%\n".to_owned(),
            "in.yaml:6: PodDisruptionBudget/b: spec.maxUnavailable: stands beside minAvailable; keep one of the two",
        ),
        (
            "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: b}\nspec:\n  minAvailable: 120%\n".to_owned(),
            "in.yaml:5: PodDisruptionBudget/b: spec.minAvailable: must be a whole number, 0 or more, or a percentage from 0% to 100%",
        ),
        (
            pool(""),
            "in.yaml:7: NodePool/p: spec.template.spec.nodeClassRef: is missing; name the class that the nodes are made from (group, kind, name)",
        ),
        (
            pool(&format!("{class}  limits:\n    memory: 1Gi\n    cpu: -5\n")),
            "in.yaml:12: NodePool/p: spec.limits.cpu: -5 is negative; a limit cannot be",
        ),
        (
            pool(&class).replace("requirements: []", "requirements:\n      - key: a\n        operator: Like\n"),
            "in.yaml:10: NodePool/p: spec.template.spec.requirements[0].operator: `Like` is not known; it is one of In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte, Lte",
        ),
        (
            pool(&class).replace("requirements: []", "requirements:\n      - {key: kubernetes.io/hostname, operator: In, values: [a]}\n"),
            "in.yaml:9: NodePool/p: spec.template.spec.requirements[0].key: `kubernetes.io/hostname` cannot be required by a pool: each node has its own hostname, set by its kubelet; remove it",
        ),
        (
            pool(&class).replace("requirements: []", "requirements:\n      - {key: a, operator: In, values: [b], minValues: 2}\n"),
            "in.yaml:9: NodePool/p: spec.template.spec.requirements[0].minValues: 2 is more than the 1 values that are listed",
        ),
        (
            pool(&class).replace("  template:", "  template:\n    metadata: {labels: {karpenter.sh/nodepool: x}}"),
            "in.yaml:7: NodePool/p: spec.template.metadata.labels[karpenter.sh/nodepool]: cannot be set by a pool: each node carries its own pool's name; remove it",
        ),
        ("a: [1\n".to_owned(), "not valid YAML"),
        ("a:\n\t- b\n".to_owned(), "in.yaml:2: a tab is not allowed here; indent with spaces"),
        ("{\"kind\": \"Pod\"\n".to_owned(), "in.yaml:2: not valid JSON: EOF while parsing an object"),
    ] {
        let problems: Vec<String> = assembled(&manifest).problems.iter().map(ToString::to_string).collect();
        assert!(problems.len() == 1 && problems[0].contains(expected), "{manifest}\n{problems:#?}\n{expected}");
        if expected.starts_with("in.yaml") {
            assert_eq!(problems[0], expected);
        }
    }
}

#[test]
fn json_problems_have_a_line_and_a_field_too() {
    let list = r#"{
  "apiVersion": "v1",
  "kind": "List",
  "items": [
    {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "good"}, "spec": {"containers": [{}]}},
    {
      "apiVersion": "v1",
      "kind": "Pod",
      "metadata": {"name": "bad"},
      "spec": {
        "containers": [
          {"resources": {"requests": {
            "cpu": "-1"}}}]
      }
    },
    {
      "apiVersion": "v1",
      "kind": "Pod",
      "metadata": {"name": "worse"},
      "spec": {
        "containers": "none"
      }
    }
  ]
}"#;
    check(&[(
        "a list",
        list,
        "pod default/good Object pods 1
         problem in.yaml:13: Pod/bad: spec.containers[0].resources.requests.cpu: -1 is negative; a resource cannot be
         problem in.yaml:21: Pod/worse: spec.containers: is string \"none\", but must be a sequence",
    )]);
}

#[test]
fn one_bad_document_leaves_the_others() {
    let good = "apiVersion: v1\nkind: Pod\nmetadata: {name: good}\nspec: {containers: [{}]}\n";
    let deep = "[".repeat(200_000);
    for bad in ["a: [", "a: \t\n\tb", "{\"a\":", deep.as_str(), "x: \"\0\"", "%BAD\n"] {
        let Assembled { snapshot, problems, .. } = assembled(&format!("{bad}\n---\n{good}"));
        assert_eq!(snapshot.pods.len(), 1, "{problems:?}");
        assert_eq!(problems.len(), 1, "{problems:?}");
    }
}

#[test]
fn bombs_and_giants_are_refused_with_advice() {
    let bomb = (0..9)
        .map(|i| format!("a{}: &a{} [{}]\n", i + 1, i + 1, vec![format!("*a{i}"); 10].join(", ")))
        .collect::<Vec<_>>()
        .concat();
    let giant = "a: b # and so on\n".repeat(5 << 20);
    for (text, line, part) in [
        (
            format!("a0: &a0 x\n{bomb}"),
            7,
            "aliases make this document too large; write the values out instead",
        ),
        (giant, 1, "a YAML document of 85 MiB is too large (at most 64); give it as JSON"),
    ] {
        let problems = assembled(&text).problems;
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].line, Some(line), "{}", problems[0]);
        assert!(problems[0].message.starts_with(part), "{}", problems[0]);
    }
}

#[test]
fn disruption_budgets_are_kept() {
    let text = "
apiVersion: policy/v1
kind: PodDisruptionBudgetList
items:
- {metadata: {name: a}, spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}}
- {metadata: {name: b}, spec: {maxUnavailable: 50%}}
";
    let source = Source::Text { name: "in.yaml".into(), text: text.into() };
    let manifests = read(&[source], &mut |_, _| {});
    let budgets: Vec<_> =
        manifests.disruption_budgets().map(|(_, name, budget)| (&**name, budget.allows)).collect();
    let expected = [
        ("a", Allowance::MinAvailable(Share::Count(1))),
        ("b", Allowance::MaxUnavailable(Share::Percent(50))),
    ];
    assert_eq!(budgets, expected);
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
